//! Errors of the lab.

use std::path::{Path, PathBuf};

use thermocline_core::{ConfigError, Violation};
use thermocline_device::DeviceError;
use thermocline_device::queueing::QueueingError;
use thermocline_device::ssd::SsdError;
use thermocline_trace::TraceError;

use crate::TierSize;
use crate::spec::SpecPath;

/// Reason why a configuration could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The size of a tier is not understood.
    #[error(
        "invalid size `{text}`: write bytes with or without a unit (67108864, 64MiB or 64M, 64MB for 64,000,000; also k, G, T), 5% (of the footprint), 4x (the tier above) or 100p (pages)"
    )]
    BadSize {
        /// The text given.
        text: String,
    },
    /// A relative size has nothing above it.
    #[error("tier `{tier}` cannot be a multiple of the tier above: it is the first one")]
    NothingAbove {
        /// The tier.
        tier: String,
    },
    /// Bytes that are less than a page.
    #[error(
        "tier `{tier}` would have {size}, less than a page of {page_size_bytes} bytes: write a unit, as in 64MiB, or pages, as in 100p"
    )]
    LessThanPage {
        /// The tier.
        tier: String,
        /// Its size.
        size: TierSize,
        /// Bytes of a page.
        page_size_bytes: u64,
    },
    /// A size is beyond what page ids can count.
    #[error("tier `{tier}` would hold {pages} pages; the limit is {max_pages}: {advice}", advice = match size {
        TierSize::Bytes(_) => "take a smaller size, or larger pages",
        TierSize::Pages(_) | TierSize::FootprintPercent(_) | TierSize::TimesAbove(_) => "the number is too large",
    })]
    TierTooLarge {
        /// The tier.
        tier: String,
        /// The size given.
        size: TierSize,
        /// Its size in pages.
        pages: f64,
        /// The greatest size.
        max_pages: u32,
    },
    /// The text is neither a number of accesses nor a share.
    #[error(
        "invalid warm-up `{text}`: write a number of accesses (as in 100000) or a share of them (as in 20%)"
    )]
    BadWarmUp {
        /// The text given.
        text: String,
    },
    /// The warm-up leaves nothing to count.
    #[error("a warm-up of {warm_up} accesses leaves nothing to count: the trace has {accesses}")]
    WarmUpTooLong {
        /// Accesses of the warm-up.
        warm_up: u64,
        /// Accesses of the trace.
        accesses: u64,
    },
    /// The trace is not that of the clients of the configuration.
    #[error(
        "the configuration has {configured} client(s), but the trace is that of {found}: split it, or merge one trace per client"
    )]
    WrongClients {
        /// Clients of the configuration.
        configured: u8,
        /// Clients of the trace.
        found: u8,
    },
    /// A cache that is driven access by access cannot be made of the policy.
    #[error(
        "`{policy}` cannot be driven access by access: expected a registered policy with one client"
    )]
    NotLive {
        /// The policy.
        policy: String,
    },
    /// A cache that is driven access by access has a disk without a size.
    #[error(
        "the size of the disk is missing: `{policy}`, or an option of it, depends on how many pages there are"
    )]
    NeedsDiskSize {
        /// The policy.
        policy: String,
    },
    /// The disk is too small or too large.
    #[error("a disk of {pages} pages: there may be from 1 to {pages_max}")]
    DiskSize {
        /// Its size.
        pages: u32,
        /// The greatest size.
        pages_max: u32,
    },
    /// An oracle is driven along no trace.
    #[error("`{policy}` knows the accesses to come: give the trace that they are of")]
    NeedsTrace {
        /// The policy.
        policy: String,
    },
    /// The access is to no page of the disk.
    #[error("there is no page {page}: pages are numbers below {pages}")]
    NoSuchPage {
        /// The page.
        page: u64,
        /// Number of pages.
        pages: u32,
    },
    /// An oracle is driven along another trace than its own.
    #[error(
        "`{policy}` knows the accesses of its trace, and access {access} (from 0) is not the trace's"
    )]
    OffTrace {
        /// The policy.
        policy: String,
        /// The access.
        access: u64,
    },
    /// Some accesses have times, and others have none.
    #[error("accesses have times or have none: the first one decides for all")]
    SomeTimes,
    /// The trace holds none of the accesses that an identifier is to be told.
    #[error("`{path}` has no {counted} to identify hot pages by")]
    NothingCounted {
        /// The trace.
        path: String,
        /// Accesses to count.
        counted: String,
    },
    /// The text names no accesses.
    #[error("`{text}` cannot be counted: write reads, writes or reads,writes")]
    BadCounted {
        /// The text given.
        text: String,
    },
    /// The policy or identifier cannot be built so.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device is unknown.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A trace could not be made.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The disk has fewer pages than the trace.
    #[error(
        "the disk holds {capacity_pages} pages, but the trace has {footprint_pages} pages: take a larger disk, or larger pages"
    )]
    DiskTooSmall {
        /// Distinct pages of the trace.
        footprint_pages: u64,
        /// Pages of the disk.
        capacity_pages: u64,
    },
    /// A price is no price.
    #[error("a price of {price} per GiB is invalid: expected a number of at least 0")]
    BadPrice {
        /// The price given.
        price: f64,
    },
    /// The budget does not buy a page of cache.
    #[error(
        "a budget of {budget} leaves nothing for caches: the disk alone costs {disk_cost}; with one page of RAM it takes {least}"
    )]
    BudgetTooSmall {
        /// The budget.
        budget: f64,
        /// The price of the disk.
        disk_cost: f64,
        /// The least budget.
        least: f64,
    },
    /// No hierarchy lasts as long as is asked.
    #[error(
        "nothing under this budget lasts as long as is asked: of what was simulated, the longest lasts {longest:.2} years; take a drive that bears more, or policies that write less to flash or do without (`lru`, `arc`)"
    )]
    NothingLasts {
        /// The longest lifetime, in years.
        longest: f64,
    },
    /// Pages of the trace that are no whole pages of the SSD.
    #[error(
        "pages of {page_size_bytes} bytes are not a multiple of the drive's pages of {drive_bytes} bytes"
    )]
    PageMismatch {
        /// Bytes per page of the trace.
        page_size_bytes: u64,
        /// Bytes per page of the drive.
        drive_bytes: u64,
    },
    /// Pages that no engine has.
    #[error("an engine has pages of 4KiB to 1MiB, and the trace was read with {page_size}")]
    EnginePages {
        /// The size of the trace's pages.
        page_size: String,
    },
    /// The SSD cannot be, refuses a request or has come to its end.
    #[error(transparent)]
    Ssd(#[from] SsdError),
    /// Arrivals at times that the trace does not have.
    #[error("`{path}` has no times at which requests could arrive: take a closed loop")]
    NoTimes {
        /// The trace.
        path: String,
    },
    /// A device refuses a request.
    #[error(transparent)]
    Queueing(#[from] QueueingError),
    /// The Ledger refused an action: a bug of the policy.
    #[error("the ledger refuses what `{policy}` does: {violation}")]
    Violation {
        /// The policy.
        policy: String,
        /// The action refused.
        violation: Violation,
    },
    /// Hits are not those of the blocks that the tiers held: a bug of the policy.
    #[error("the hits of `{policy}` are wrong: {reason}")]
    WrongHits {
        /// The policy.
        policy: String,
        /// Findings, with the record that they contradict.
        reason: String,
    },
    /// A part of a specification cannot be.
    #[error("{path}: {reason}")]
    Spec {
        /// The part.
        path: SpecPath,
        /// Fault, and description of valid values.
        reason: String,
    },
    /// A TOML file is not as it should be.
    #[error("{reason}")]
    BadToml {
        /// Message of the parser, with line and key.
        reason: String,
    },
    /// A key of a TOML file has a value that cannot be.
    #[error("{place}: {reason}")]
    BadKey {
        /// The line, and the key with the keys that it is in.
        place: String,
        /// Fault, and description of valid values.
        reason: String,
    },
    /// A trace of a sweep cannot be read.
    #[error("{place}: {reason}")]
    BadTrace {
        /// The line, and the key with the keys that it is in.
        place: String,
        /// Fault, and description of valid values.
        reason: String,
    },
    /// A point of a sweep could not be run.
    #[error("{point}")]
    BadPoint {
        /// Its policy, sizes and trace.
        point: String,
        /// Cause.
        source: Box<Self>,
    },
    /// No policy has this name.
    #[error("unknown policy `{name}`; {known}")]
    UnknownPolicy {
        /// The name given.
        name: String,
        /// Known names.
        known: String,
    },
    /// No write buffer has this name.
    #[error("unknown write buffer `{name}`; {known}")]
    UnknownBuffer {
        /// The name given.
        name: String,
        /// Known names.
        known: String,
    },
    /// A policy that is brought has the name of a registered one.
    #[error("a registered policy is called `{name}`: give yours another name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// No drive has this name.
    #[error("unknown drive `{name}` (the name of a drive's file ends in .toml); {known}")]
    UnknownDrive {
        /// The name given.
        name: String,
        /// Known names.
        known: String,
    },
    /// The policy does not run on these tiers.
    #[error(
        "`{policy}` runs on {wanted}, but the tiers given are: {given}; on these run: {suited}"
    )]
    WrongTiers {
        /// The policy.
        policy: String,
        /// Hierarchies that it supports.
        wanted: &'static str,
        /// The tiers given.
        given: String,
        /// The policies that run on them, separated by commas.
        suited: String,
    },
    /// A rate is not in (0, 1].
    #[error("a rate of {rate} is invalid: expected a share of the pages, above 0 and at most 1")]
    BadRate {
        /// The rate given.
        rate: f64,
    },
    /// No page is in a sample.
    #[error(
        "no page of the trace is in a sample of rate {rate}: take a higher rate, or more pages"
    )]
    EmptySample {
        /// The rate.
        rate: f64,
    },
    /// A tier of a miniature simulation has no page.
    #[error(
        "tier `{tier}` of {pages} pages has none left at a rate of {rate}: take a rate of at least {least:.6}, or larger sizes"
    )]
    SampleTooSmall {
        /// The tier.
        tier: String,
        /// Its pages.
        pages: u32,
        /// The rate.
        rate: f64,
        /// The rate that leaves it one page.
        least: f64,
    },
    /// Its [`Watch`](crate::Watch) stopped it.
    #[error("stopped before its end")]
    Stopped,
    /// Threads could not be started, or one is gone.
    #[error("threads cannot run: {reason}")]
    Threads {
        /// Cause.
        reason: String,
    },
    /// A file cannot be read or is not as expected.
    #[error("in `{}`: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Fault.
        reason: String,
    },
    /// The results of a corpus cannot be compared so.
    #[error("{reason}")]
    Corpus {
        /// Cause, and description of valid values.
        reason: String,
    },
}

impl LabError {
    /// Return the remedy that is a setting of the caller's own, if there is one. `spell` turns the
    /// name of the setting into the flag, key or argument that the reader knows.
    pub fn remedy(&self, spell: impl Fn(&str) -> String) -> Option<String> {
        if let Self::PageMismatch { drive_bytes, .. } = self {
            return Some(format!("take {} {drive_bytes}", spell("page_size")));
        }
        if let Self::EnginePages { .. } = self {
            return Some(format!("take {} 4KiB", spell("page_size")));
        }
        if let Self::NothingCounted { .. } = self {
            return Some(format!("choose other accesses with {}", spell("count")));
        }
        if let Self::NeedsDiskSize { .. } = self {
            return Some(format!("give {}", spell("disk_pages")));
        }
        if let Self::NothingLasts { .. } = self {
            return Some(format!("or ask for less by {}", spell("min_lifetime_years")));
        }
        let Self::Trace(error) = self else { return None };
        error.remedy(spell)
    }

    /// Create the error of a fault in a file.
    pub(crate) fn file(path: &Path, reason: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), reason: reason.to_string() }
    }
}
