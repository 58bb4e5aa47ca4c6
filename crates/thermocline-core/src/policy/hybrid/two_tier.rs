//! A cache in memory over one on flash, each with a replacement algorithm of its own.
//!
//! The relation between the tiers is independent of the algorithm that each of them runs.
//! *Exclusive*: no page is in both; a flash hit moves the page up, every page that leaves memory is
//! offered to flash. *Inclusive*: every page in memory is on flash as well; a page read from disk
//! is offered to both, and a page that leaves flash leaves memory too. *Lazy*: neither; a page that
//! leaves memory is offered to flash unless it is there already, and a flash hit leaves it there.
//!
//! * Source: the schemes of Koltsidas and Viglas, *Designing a Flash-Aware Two-Level Cache*, ADBIS
//!   2011; each tier's algorithm has a source of its own.
//! * State: that of both algorithms, and one byte per page that exists; with admission on second access
//!   4 bytes per page that exists and 6 per page of flash besides.
//! * Cost: that of both algorithms.
//! * Deviations: (1) The algorithms have their default parameters. (2) An algorithm says itself which
//!   page leaves, so an inclusive flash cannot keep the pages that memory holds: it sees memory
//!   hits too, so that pages in use in memory are not idle on flash, and the pages that it evicts
//!   nevertheless leave memory. (3) What an algorithm or the admission refuses goes where it would
//!   go without that tier; a refused page may then be in memory alone, under an inclusive flash as
//!   well. (4) A page that moves up from a FIFO leaves a place that is free when its turn comes, as
//!   in a log on flash. (5) What memory serves by itself is no access to flash: admission on second
//!   access counts what is offered to flash.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::single::{NAMES, Outcome, Replacement, Space, build_named};
use crate::queue::{Logs, PRESENT, PageSet, Use};
use crate::random::SEED;
use crate::random::{Draws as _, SplitMix64};
use crate::{
    Access, Actions, BoxedPolicy, Gate, Op, PageId, Policy, Setup, Survivor, Tier, WriteMiss,
};

/// The parameter that chooses the algorithm of memory.
pub const RAM: &str = "ram";
/// The parameter that chooses the algorithm of flash.
pub const FLASH: &str = "flash";

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::choice(RAM, &NAMES, "lru")
        .summary("which pages memory keeps")
        .source("a common choice"),
    Parameter::choice(FLASH, &NAMES, "lru")
        .summary("which pages flash keeps")
        .source("a common choice"),
    Parameter::choice(INCLUSION, &["lazy", "exclusive", "inclusive"], "lazy")
        .summary("whether a page may, must not or must be in both tiers")
        .source("Koltsidas, Viglas, ADBIS 2011"),
    Parameter::choice("writes", &["back", "through", "around"], "back")
        .summary(
            "whether a write goes to disk when its page leaves the caches, at once as well, or \
                  at once instead of to the caches",
        )
        .source("a common choice"),
    Parameter::choice(ADMISSION, &["all", SECOND_ACCESS], "all")
        .summary(
            "which of the pages offered to flash may enter it: all, or those that were offered \
                  before and refused, not longer ago than as many others as flash has pages",
        )
        .source("caching on the second hit, Maggs, Sitaraman, CCR 45(3), 2015, section 3"),
    Parameter::real(PROBABILITY, 0.0..=1.0, 1.0)
        .summary("the share of the pages offered to flash that may enter it, drawn by lot")
        .source("random admission of CacheLib, Berg et al., OSDI 2020; all is no lot"),
    SEED,
];

/// The parameter that chooses which pages may enter flash.
pub const ADMISSION: &str = "admission";
/// The choice of pages that are offered for the second time.
pub const SECOND_ACCESS: &str = "second-access";
/// The share of the pages offered to flash that may enter it, drawn by lot.
pub const PROBABILITY: &str = "probability";
/// The parameter that says which page may be in both tiers.
pub const INCLUSION: &str = "inclusion";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inclusion {
    Lazy,
    Exclusive,
    Inclusive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    Back,
    Through,
    Around,
}

/// Two caches, one above the other.
#[derive(Debug)]
pub struct TwoTier {
    memory: Box<dyn Replacement + Send>,
    /// `None` if flash has no page.
    flash: Option<Box<dyn Replacement + Send>>,
    /// The pages whose newest cached copy is newer than the disk's.
    dirty: PageSet,
    /// The pages whose copy on flash is older than the one in memory.
    stale: PageSet,
    inclusion: Inclusion,
    writes: Writes,
    write_miss: WriteMiss,
    gate: Gate,
    /// The pages that flash refused last, if it takes them when they are offered again; as many as it
    /// has pages.
    refused: Option<Logs<1>>,
    flash_pages: u32,
    /// Page ids are below this.
    pages: u32,
    /// A page enters flash if a draw is below this.
    probability: f64,
    draws: SplitMix64,
}

/// Its row in the registry.
pub const TWO_TIER: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("two-tier"),
    summary: "an algorithm for each tier, and whether they are exclusive, inclusive or neither",
    source: "Koltsidas, Viglas: Designing a Flash-Aware Two-Level Cache, ADBIS 2011",
    module: module_path!(),
    capabilities: Capabilities { takes_admission: true, ..Capabilities::of(Depth::RamFlash) },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Parameters but those that name algorithms.
pub const SHARED_PARAMETERS: &[Parameter] = PARAMETERS.split_at(2).1;

/// Builds the policy for the registry.
///
/// # Panics
/// If the values are not of [`PARAMETERS`].
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    policy(setup, values, |tier, space| {
        build_named(values.choice(if tier == Tier::RAM { RAM } else { FLASH }), space)
    })
}

/// Build the policy with the algorithms that `algorithm` makes for the space of each tier.
///
/// # Panics
/// If the values are not of [`SHARED_PARAMETERS`].
pub fn policy(
    setup: &Setup,
    values: &Values,
    algorithm: impl Fn(Tier, Space<'_>) -> Box<dyn Replacement + Send>,
) -> BoxedPolicy {
    let ids = setup.ids();
    let tier = |tier, capacity_pages| {
        let (geometry, inputs) = (&setup.geometry, &setup.inputs);
        algorithm(tier, Space { ids, capacity_pages, geometry, inputs })
    };
    let [memory_pages, flash_pages] = [setup.capacity_pages[0], setup.capacity_pages[1]];
    Box::new(TwoTier {
        memory: tier(Tier::RAM, memory_pages),
        flash: (flash_pages > 0).then(|| tier(Tier::FLASH, flash_pages)),
        dirty: PageSet::new(ids, memory_pages.saturating_add(flash_pages)),
        stale: PageSet::new(ids, memory_pages.min(flash_pages)),
        inclusion: match values.choice(INCLUSION) {
            "exclusive" => Inclusion::Exclusive,
            "inclusive" => Inclusion::Inclusive,
            _ => Inclusion::Lazy,
        },
        writes: match values.choice("writes") {
            "through" => Writes::Through,
            "around" => Writes::Around,
            _ => Writes::Back,
        },
        write_miss: setup.write_miss,
        gate: setup.admission.gate(ids.pages),
        refused: (flash_pages > 0 && values.choice(ADMISSION) == SECOND_ACCESS)
            .then(|| Logs::new(ids, flash_pages, [(flash_pages, Use::Fifo)])),
        flash_pages,
        pages: ids.pages,
        probability: values.real(PROBABILITY),
        draws: SplitMix64::new(values.integer(SEED.name)),
    })
}

impl TwoTier {
    fn is_on_flash(&self, page: PageId) -> bool {
        self.flash.as_ref().is_some_and(|flash| flash.contains(page))
    }

    /// Notes and carries out what a write to the copy at `tier` entails.
    fn written(&mut self, page: PageId, tier: Tier, out: &mut Actions) {
        if tier == Tier::RAM && self.is_on_flash(page) {
            self.stale.insert_if(page, true);
        }
        match self.writes {
            Writes::Back => self.dirty.insert_if(page, true),
            Writes::Through | Writes::Around => out.copy(page, tier, Tier::DISK),
        }
    }

    /// Offers a page whose newest copy is at `from` to flash, which lacks it. Returns `true` if it
    /// took it.
    fn offer(&mut self, page: PageId, op: Op, from: Tier, out: &mut Actions) -> bool {
        let is_open = self.flash.is_some() && self.gate.admits(page);
        if !is_open
            || !self.is_known(page)
            || self.probability < 1.0 && self.draws.unit() >= self.probability
        {
            return false;
        }
        let outcome = self.flash.as_mut().map(|flash| flash.refer(page, op));
        let Some(Outcome::Admitted { evicted }) = outcome else { return false };
        if let Some(victim) = evicted {
            self.left_flash(victim, out);
        }
        out.copy(page, from, Tier::FLASH);
        true
    }

    /// Return `true` if a page that is offered to flash is not offered for the first time, if that matters.
    fn is_known(&mut self, page: PageId) -> bool {
        let Some(refused) = &mut self.refused else { return true };
        if let Some(position) = refused.find(page) {
            refused.remove(0, position);
            return true;
        }
        if refused.len(0) == self.flash_pages {
            refused.pop(0);
        }
        refused.push(0, page, PRESENT);
        false
    }

    /// Carries out that flash gave up a page.
    fn left_flash(&mut self, page: PageId, out: &mut Actions) {
        let is_in_memory = self.memory.contains(page);
        if is_in_memory && self.inclusion == Inclusion::Inclusive {
            self.memory.forget(page);
            if self.dirty.contains(page) {
                out.copy(page, Tier::RAM, Tier::DISK);
            }
            out.drop_copy(page, Tier::RAM);
            self.dirty.remove(page);
        } else if !is_in_memory && self.dirty.contains(page) {
            out.copy(page, Tier::FLASH, Tier::DISK);
            self.dirty.remove(page);
        }
        out.drop_copy(page, Tier::FLASH);
        self.stale.remove(page);
    }

    /// Carries out that memory gave up a page.
    fn left_memory(&mut self, page: PageId, out: &mut Actions) {
        if self.is_on_flash(page) {
            if self.stale.contains(page) {
                out.copy(page, Tier::RAM, Tier::FLASH);
                self.stale.remove(page);
            }
        } else {
            // An algorithm that treats written pages apart has to see a dirty page as one.
            let op = if self.dirty.contains(page) { Op::Write } else { Op::Read };
            let is_taken =
                // Deviation 3: under an inclusive flash this page was refused when it came, and is
                // not offered again.
                self.inclusion != Inclusion::Inclusive && self.offer(page, op, Tier::RAM, out);
            if !is_taken && op == Op::Write {
                out.copy(page, Tier::RAM, Tier::DISK);
                self.dirty.remove(page);
            }
        }
        out.drop_copy(page, Tier::RAM);
    }

    /// Write a page to the disk and leave no cached copy.
    fn write_around(&mut self, page: PageId, out: &mut Actions) {
        let is_in_memory = self.memory.contains(page);
        let is_on_flash = self.is_on_flash(page);
        // No copy is dirty here: with writes around, no write reaches a cached one.
        let found = match (is_in_memory, is_on_flash) {
            (true, _) => Tier::RAM,
            (false, true) => Tier::FLASH,
            (false, false) => Tier::DISK,
        };
        out.serve(page, Op::Write, found, Tier::DISK);
        if is_in_memory {
            self.memory.forget(page);
            out.drop_copy(page, Tier::RAM);
        }
        if let Some(flash) = self.flash.as_mut().filter(|_| is_on_flash) {
            flash.forget(page);
            out.drop_copy(page, Tier::FLASH);
        }
        self.stale.remove(page);
    }

    /// Serves a page that memory refused, where it is.
    fn pass(&mut self, Access { page, op, .. }: Access, found: Tier, out: &mut Actions) {
        out.serve(page, op, found, found);
        if op == Op::Write && found == Tier::FLASH {
            self.written(page, found, out);
        }
    }

    /// Brings a page to memory and serves the access there.
    fn promote(&mut self, Access { page, op, .. }: Access, found: Tier, out: &mut Actions) {
        if found == Tier::FLASH || self.write_miss.fetches(op) {
            out.copy(page, found, Tier::RAM);
        }
        out.serve(page, op, found, Tier::RAM);
        if found == Tier::FLASH && self.inclusion == Inclusion::Exclusive {
            if let Some(flash) = &mut self.flash {
                flash.forget(page);
            }
            out.drop_copy(page, Tier::FLASH);
        }
        if op == Op::Write {
            self.written(page, Tier::RAM, out);
        }
    }
}

impl Policy for TwoTier {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let Access { page, op, .. } = access;
        if op == Op::Write && self.writes == Writes::Around {
            return self.write_around(page, out);
        }
        let is_on_flash = self.is_on_flash(page);
        // Deviation 2: an inclusive flash sees memory's hits too, or the pages in use would age on
        // it.
        let is_told = self.inclusion == Inclusion::Inclusive || !self.memory.contains(page);
        if let Some(flash) = self.flash.as_mut().filter(|_| is_on_flash && is_told) {
            flash.refer(page, op);
        }
        let found = if is_on_flash { Tier::FLASH } else { Tier::DISK };
        match self.memory.refer(page, op) {
            Outcome::Hit => {
                out.serve(page, op, Tier::RAM, Tier::RAM);
                if op == Op::Write {
                    self.written(page, Tier::RAM, out);
                }
            }
            Outcome::Refused => self.pass(access, found, out),
            Outcome::Admitted { evicted } => {
                // The page moves up before the victim leaves: the place that it had on an exclusive
                // flash is free for the victim.
                self.promote(access, found, out);
                if let Some(victim) = evicted {
                    self.left_memory(victim, out);
                }
                if found == Tier::DISK && self.inclusion == Inclusion::Inclusive {
                    self.offer(page, op, Tier::RAM, out);
                }
            }
        }
    }

    fn flush(&mut self, out: &mut Actions) {
        let Self { dirty, memory, .. } = self;
        dirty.drain(|page| {
            let is_in_memory = memory.contains(page);
            out.copy(page, if is_in_memory { Tier::RAM } else { Tier::FLASH }, Tier::DISK);
        });
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        for &Survivor { page, is_dirty, .. } in survivors {
            let op = if is_dirty { Op::Write } else { Op::Read };
            if is_dirty && self.writes == Writes::Back {
                self.dirty.insert_if(page, true);
            } else if is_dirty {
                out.copy(page, Tier::FLASH, Tier::DISK);
            }
            match self.flash.as_mut().map(|flash| flash.refer(page, op)) {
                Some(Outcome::Admitted { evicted: Some(victim) }) => self.left_flash(victim, out),
                Some(Outcome::Admitted { evicted: None } | Outcome::Hit) => {}
                Some(Outcome::Refused) | None => self.left_flash(page, out),
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.memory.prefetch(page);
        if let Some(flash) = &self.flash {
            flash.prefetch(page);
        }
    }

    fn assert_invariants(&self) {
        self.memory.assert_invariants();
        self.gate.assert_invariants();
        if let Some(refused) = &self.refused {
            refused.assert_invariants();
        }
        if let Some(flash) = &self.flash {
            flash.assert_invariants();
        }
        for page in (0..self.pages).map(PageId) {
            let (in_memory, on_flash) = (self.memory.contains(page), self.is_on_flash(page));
            assert!(
                !self.dirty.contains(page)
                    || (in_memory || on_flash) && self.writes == Writes::Back,
                "a cached copy of a page that is written back is dirty, and no other"
            );
            assert!(
                !self.stale.contains(page) || in_memory && on_flash,
                "a stale copy on flash has a newer one in memory"
            );
            assert!(
                self.inclusion != Inclusion::Exclusive || !(in_memory && on_flash),
                "exclusive tiers share no page"
            );
        }
    }

    fn memory_bytes(&self) -> usize {
        let flash_bytes = self.flash.as_ref().map_or(0, Replacement::memory_bytes);
        let states_bytes = self.dirty.memory_bytes() + self.stale.memory_bytes();
        let refused_bytes = self.refused.as_ref().map_or(0, Logs::memory_bytes);
        let of_tiers = self.memory.memory_bytes() + flash_bytes + states_bytes;
        of_tiers + refused_bytes + self.gate.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        let of_flash = self.flash.as_ref().map_or(0, Replacement::metadata_bytes);
        let refused = self.refused.as_ref().map_or(0, |refused| refused.len(0) as usize);
        self.memory.metadata_bytes() + of_flash + refused * size_of::<u32>()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        self.memory.gauges(&mut |name, value| report(name, Tier::RAM, value));
        if let Some(flash) = &self.flash {
            flash.gauges(&mut |name, value| report(name, Tier::FLASH, value));
        }
    }
}
