//! Question to a planner, and the policies and drive that it implies.

use serde::Serialize;
use thermocline_core::registry::{self, Future, PolicyEntry};
use thermocline_trace::CompiledTrace;

use crate::hierarchy::find_among;
use crate::spec::Step::Key;
use crate::spec::{DriveSpec, ModelSpec, Selection};
use crate::{LabError, find_ssd};

/// Drives for flash, each taken before those after it if its pages fit.
const DRIVES: [&str; 4] = ["tlc-nvme", "mlc-sata-2011", "slc-2008", "ssdsim"];

/// Default minimum lifetime of flash, in years: the usual guarantee of drives.
pub const LEAST_YEARS: f64 = 5.0;

/// Default currency of costs.
pub const CURRENCY: &str = "USD";

/// The greatest length of a currency's name.
const CURRENCY_LETTERS: usize = 8;

/// Objective of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The time within which 99 % of reads, and of writes, are answered.
    P99,
    /// All page transfers at the costs of their tiers.
    IoTime,
    /// The price divided by the I/Os per second.
    CostPerIo,
}

impl Objective {
    /// Return the objective in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::P99 => "the time within which 99 % are answered (p99)",
            Self::IoTime => "I/O time",
            Self::CostPerIo => "cost per I/O per second",
        }
    }
}

/// Options of a plan.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Maximum cost of all tiers together.
    pub budget: f64,
    /// Prices per GiB of RAM, flash and disk.
    pub prices: [f64; 3],
    /// The size of the disk in bytes; that of the footprint if none.
    pub disk_bytes: Option<u64>,
    /// Objective; if `None`, the time of 99 % if that is meaningful, else the I/O time.
    pub objective: Option<Objective>,
    /// Currency of prices and the budget: a word or a sign to be shown beside costs.
    pub currency: String,
    /// Minimum lifetime of flash, in years, if there is one; see [`LEAST_YEARS`].
    pub min_lifetime_years: Option<f64>,
    /// The policies to choose from, each of which an engine can run.
    pub policies: Selection,
    /// Policies of the caller, which may be named among them. An engine cannot run these.
    pub own: Vec<PolicyEntry>,
    /// Devices of RAM, flash and disk by name; the default of the tier if none.
    pub devices: [Option<String>; 3],
    /// The drive that flash is, at the size of the tier; the first of some presets whose pages fit if
    /// absent.
    pub drive: Option<DriveSpec>,
    /// The model of the disk; the device's own if none.
    pub disk_model: Option<ModelSpec>,
    /// Requests kept outstanding instead of the trace's times.
    pub closed_loop: Option<u32>,
    /// The seed of samples.
    pub seed: u64,
}

impl PlanOptions {
    /// Return the policies, after a check of all that does not depend on a trace.
    ///
    /// # Errors
    /// If the lifetime is below 0, or the policy is unknown or unsupported by engines.
    pub fn check(&self) -> Result<Vec<PolicyEntry>, LabError> {
        if let Some(years) = self.min_lifetime_years.filter(|years| years.is_nan() || *years < 0.0)
        {
            let reason = format!("{years} is invalid: expected a number of at least 0");
            return Err(LabError::at(&[Key("min_lifetime_years")], reason));
        }
        let is_letter = |letter: char| !letter.is_whitespace() && !letter.is_control();
        let letters = self.currency.chars().count();
        if !(1..=CURRENCY_LETTERS).contains(&letters) || !self.currency.chars().all(is_letter) {
            let reason = format!(
                "`{}` is invalid: expected a word of at most {CURRENCY_LETTERS} letters, as in EUR",
                self.currency.escape_debug()
            );
            return Err(LabError::at(&[Key("currency")], reason));
        }
        if self.closed_loop == Some(0) {
            return Err(LabError::at(&[Key("closed_loop")], "expected at least 1 request"));
        }
        let all = || registry::entries().filter(|entry| suits(entry));
        self.policies.resolve(
            || all().cloned().collect(),
            |name| {
                let policy = find_among(&self.own, name)?;
                if suits(&policy) {
                    return Ok(policy);
                }
                let known: Vec<&str> = all().map(|entry| &*entry.name).collect();
                let known = known.join(", ");
                let reason = format!("no engine can run `{name}`; it can run: {known}");
                Err(LabError::at(&[Key("policies")], reason))
            },
        )
    }

    /// Return the minimum lifetime of flash, in years; 0 if it does not matter.
    pub(super) fn least_years(&self) -> f64 {
        self.min_lifetime_years.unwrap_or(0.0)
    }

    /// Return the drive asked for, or the first preset whose pages fit those of the trace.
    pub(super) fn flash_drive(&self, trace: &CompiledTrace) -> Result<DriveSpec, LabError> {
        if let Some(drive) = &self.drive {
            return Ok(drive.clone());
        }
        let page = trace.page_size_bytes();
        for name in DRIVES {
            let drive = DriveSpec::Named(name.into());
            if page.is_multiple_of(u64::from(find_ssd(&drive)?.page_bytes)) {
                return Ok(drive);
            }
        }
        let reason = format!(
            "no drive here has pages that fit those of {page} bytes: read the trace with larger pages, as 4KiB, or give a drive of your own, a TOML file"
        );
        Err(LabError::at(&[Key("drive")], reason))
    }
}

/// Return `true` if an engine can run a policy: it knows neither the accesses to come nor the hints of an
/// earlier run.
fn suits(entry: &PolicyEntry) -> bool {
    entry.capabilities.depth.allows(2)
        && entry.capabilities.future != Future::Hints
        && entry.capabilities.future != Future::Accesses
}
