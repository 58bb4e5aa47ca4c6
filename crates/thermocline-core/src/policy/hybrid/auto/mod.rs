//! Auto: run candidates in miniature, and let the one decide that costs the least I/O time.
//!
//! One candidate is in force and decides. All of them, that one included, also run in miniature on a
//! sample of the pages, with tiers that are smaller by the same rate. After each window of accesses the
//! times of their page transfers are compared; another candidate is adopted once its advantage has
//! lasted, and has grown beyond what a move may cost. It takes over what memory and flash hold, as far as
//! it wants it. A policy that is built in its place, with other sizes or after a restart, goes on with the
//! candidate in force and the sums of all ([`Policy::resume`]).
//!
//! * Source: this project. Miniatures: Waldspurger, Saemundsson, Ahmad, Park, *Cache Modeling and
//!   Optimization using Miniature Simulations*, USENIX ATC 2017, sections 3 and 5; the discounted sums:
//!   Herbster, Warmuth, *Tracking the Best Expert*, Machine Learning 32, 1998.
//! * State: that of the candidate in force; 14 bytes per cached page, sparse, for what is handed over (20,
//!   and 4 per page that exists, in tables); that of all candidates at the rate of the sample, and 5 KiB
//!   each. Where page ids are not page numbers, 4 bytes per page that exists.
//! * Cost: that of the candidate in force and O(1) per access; for a sampled page, that of every candidate
//!   besides. A change takes time in proportion to the cached pages.
//! * Deviations: (1) Candidates do not look at neighbours on disk, so a sample of single pages will do.
//!   (2) Times are sums of page transfers; queues are not modelled. (3) A candidate that takes over
//!   begins with the pages and their order, without ghosts, counts or the hot and warm of the one
//!   before. (4) A stale copy is given up at a change.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use self::candidates::{BY_DEFAULT, CANDIDATES, Candidate, WORDS};
use self::contents::Contents;
use self::controller::{Caution, Controller};
use self::sample::Sample;
use crate::capabilities::{Capabilities, Depth, SparseMemory};
use crate::config::{Parameter, Scaling, Values};
use crate::entry::{Build, PolicyEntry};
use crate::{
    Access, Actions, BoxedPolicy, Choosing, PageCost, PageId, Policy, Setup, Survivor, Tier,
};

mod candidates;
mod contents;
mod controller;
mod sample;
#[cfg(test)]
mod tests;

/// Accesses of a window, if tiers are small.
const WINDOW_MIN: u64 = 256;
/// Default costs of memory, flash and disk: those of a Samsung 470 and a Seagate ST380011A, the
/// devices of the HAT paper.
const COSTS: [PageCost; 3] = [
    PageCost { read_ms: 0.0, write_ms: 0.0 },
    PageCost { read_ms: 0.16, write_ms: 0.30 },
    PageCost { read_ms: 12.7, write_ms: 13.7 },
];

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::words("candidates", &WORDS, BY_DEFAULT)
        .summary("the policies to choose among; the first of them, in this order, decides first")
        .source("one of each kind of policy; each more costs time and memory"),
    Parameter::integer("sample_pages", 1..=1 << 24, 256)
        .summary("pages that a miniature's smallest tier has at least, if the tier has them")
        .source("record/2026-11-29-auto.md"),
    Parameter::integer_or_auto("window", 1..=1 << 40)
        .summary(
            "accesses of a window; auto: a quarter of the pages of memory and flash, at least 256",
        )
        .source("record/2026-11-29-auto.md")
        .scaling(Scaling::Proportional),
    Parameter::integer("half_life", 1..=1 << 40, 64)
        .summary("windows after which the I/O time of a window counts half")
        .source("record/2026-11-29-auto.md"),
    Parameter::real("margin", 0.0..=1.0, 0.01)
        .summary("share of the I/O time by which a candidate must be better")
        .source("half of what may be lost on a steady workload"),
    Parameter::integer("patience", 1..=1 << 20, 4)
        .summary("windows that an advantage must last for")
        .source(
            "as many accesses as memory and flash have pages, with windows of the default length",
        ),
    Parameter::real("move_share", 0.0..=1000.0, 0.2)
        .summary(
            "what a change may cost, and an advantage must have saved before: the time of reading \
                  this share of the pages of memory and flash from disk",
        )
        .source("record/2026-11-29-auto.md"),
    Parameter::real("wear_ms", 0.0..=1e6, 0.0)
        .summary("milliseconds that each page written to flash counts for besides, as its wear")
        .source("none: what an erase is worth depends on the drive"),
    cost("flash_read_ms", "reading a page of flash; auto: as the hierarchy says"),
    cost("flash_write_ms", "writing a page of flash; auto: as the hierarchy says"),
    cost("disk_read_ms", "reading a page of the disk; auto: as the hierarchy says"),
    cost("disk_write_ms", "writing a page of the disk; auto: as the hierarchy says"),
];

/// Return a measured cost of a device.
const fn cost(name: &'static str, summary: &'static str) -> Parameter {
    Parameter::real_or_auto(name, 0.0..=1e6)
        .summary(summary)
        .source("the devices of the HAT paper, where a hierarchy has none")
}

/// Its row in the registry.
pub const AUTO: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("auto"),
    summary: "several policies run in miniature, and the one that costs the least I/O time decides",
    source: "this project; miniatures of Waldspurger et al., USENIX ATC 2017",
    module: module_path!(),
    capabilities: Capabilities {
        sparse_memory: SparseMemory::of_cached(
            128,
            "beside the candidate that decides it keeps the order of all cached pages, and miniatures of \
             all candidates",
        ),
        ..Capabilities::of(Depth::RamFlash)
    },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
///
/// # Panics
/// If the values are not of [`PARAMETERS`].
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Auto::new(setup, values))
}

/// A policy that lets one of several decide.
#[derive(Debug)]
pub struct Auto {
    in_force: BoxedPolicy,
    /// `None` if there is one candidate: then there is nothing to choose.
    choice: Option<Box<Choice>>,
}

/// State of the choice between candidates.
#[derive(Debug)]
struct Choice {
    /// Setup of the candidate in force.
    setup: Setup,
    candidates: Vec<&'static Candidate>,
    contents: Contents,
    sample: Sample,
    controller: Controller,
    window_accesses: u64,
    /// Accesses of the present window.
    accesses: u64,
    /// I/O times of the present window for accesses that a former policy saw, in milliseconds.
    former_ms: Vec<f64>,
    /// `true` while accesses only report the pages of memory: they do not count.
    is_telling: bool,
}

impl Auto {
    fn new(setup: &Setup, values: &Values) -> Self {
        let chosen = values.words("candidates").places();
        let candidates: Vec<_> = chosen.map(|place| &CANDIDATES[place]).collect();
        let in_force = candidates[0].build(setup);
        let has_choice = candidates.len() > 1;
        let choice = has_choice.then(|| Box::new(Choice::new(candidates, setup, values)));
        Self { in_force, choice }
    }
}

impl Choice {
    fn new(candidates: Vec<&'static Candidate>, setup: &Setup, values: &Values) -> Self {
        let [memory_pages, flash_pages] = [setup.capacity_pages[0], setup.capacity_pages[1]];
        let pages = u64::from(memory_pages) + u64::from(flash_pages);
        let mut costs = costs(setup, values);
        let caution = Caution {
            half_life_windows: values.integer("half_life"),
            margin: values.real("margin"),
            patience_windows: values.integer("patience"),
            move_ms: values.real("move_share") * pages as f64 * costs[2].read_ms,
        };
        costs[1].write_ms += values.real("wear_ms");
        let tier_pages = values.integer_u32("sample_pages");
        let words: Vec<_> = candidates.iter().map(|candidate| candidate.word).collect();
        Self {
            setup: setup.clone(),
            contents: Contents::new(setup.ids(), memory_pages, flash_pages),
            sample: Sample::new(&candidates, setup, tier_pages, costs.to_vec()),
            former_ms: vec![0.0; words.len()],
            controller: Controller::new(words, caution),
            window_accesses: values
                .integer_or_auto("window")
                .unwrap_or((pages / 4).max(WINDOW_MIN)),
            candidates,
            accesses: 0,
            is_telling: false,
        }
    }

    /// Shows the candidates an access. Returns the one to be adopted, if any.
    fn watch(&mut self, access: Access) -> Option<&'static Candidate> {
        self.sample.access(access);
        if self.is_telling {
            return None;
        }
        self.accesses += 1;
        if self.accesses < self.window_accesses {
            return None;
        }
        let times_ms = self.times_ms();
        self.sample.begin_window();
        self.former_ms.fill(0.0);
        let adopted = self.controller.end_window(self.accesses, &times_ms);
        self.accesses = 0;
        adopted.map(|place| self.candidates[place])
    }

    /// Return the I/O time that each candidate would have taken in the present window so far, in milliseconds.
    fn times_ms(&self) -> Vec<f64> {
        let times = self.sample.times_ms().into_iter().zip(&self.former_ms);
        times.map(|(own_ms, former_ms)| own_ms + former_ms).collect()
    }

    fn choosing(&self) -> Choosing {
        let mut choosing = self.controller.choosing();
        choosing.window_accesses = self.accesses;
        for (estimate, window_ms) in choosing.candidates.iter_mut().zip(self.times_ms()) {
            estimate.window_ms = window_ms;
        }
        choosing
    }
}

/// Return the costs of memory, flash and disk.
fn costs(setup: &Setup, values: &Values) -> [PageCost; 3] {
    let mut costs = *setup.costs.as_array::<3>().unwrap_or(&COSTS);
    for (cost, [read, write]) in costs[1..]
        .iter_mut()
        .zip([["flash_read_ms", "flash_write_ms"], ["disk_read_ms", "disk_write_ms"]])
    {
        cost.read_ms = values.real_or_auto(read).unwrap_or(cost.read_ms);
        cost.write_ms = values.real_or_auto(write).unwrap_or(cost.write_ms);
    }
    costs
}

impl Policy for Auto {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let before = out.as_slice().len();
        self.in_force.access(access, out);
        let Some(choice) = &mut self.choice else { return };
        choice.contents.access(access.page, &out.as_slice()[before..]);
        if let Some(adopted) = choice.watch(access) {
            self.in_force = adopted.build(&choice.setup);
            choice.contents.hand_over(&mut *self.in_force, out);
        }
    }

    fn flush(&mut self, out: &mut Actions) {
        let before = out.as_slice().len();
        self.in_force.flush(out);
        if let Some(choice) = &mut self.choice {
            choice.contents.apply_all(&out.as_slice()[before..]);
        }
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        let before = out.as_slice().len();
        self.in_force.restore(survivors, out);
        if let Some(choice) = &mut self.choice {
            choice.contents.restore(survivors);
            choice.contents.apply_all(&out.as_slice()[before..]);
            choice.sample.restore(survivors);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.in_force.prefetch(page);
        if let Some(choice) = &self.choice {
            choice.contents.prefetch(page);
        }
    }

    #[inline]
    fn prefetch_next(&self, page: PageId) {
        self.in_force.prefetch_next(page);
    }

    fn assert_invariants(&self) {
        self.in_force.assert_invariants();
        if let Some(choice) = &self.choice {
            choice.contents.assert_invariants();
            choice.sample.assert_invariants();
            choice.controller.assert_invariants();
            assert!(choice.accesses < choice.window_accesses, "a window ends in time");
        }
    }

    fn memory_bytes(&self) -> usize {
        let of_choice = |choice: &Choice| {
            size_of::<Choice>()
                + size_of_val(&*choice.candidates)
                + choice.contents.memory_bytes()
                + choice.sample.memory_bytes()
                + size_of_val(&*choice.former_ms)
                + choice.controller.memory_bytes()
        };
        self.in_force.memory_bytes() + self.choice.as_deref().map_or(0, of_choice)
    }

    fn metadata_bytes(&self) -> usize {
        let of_choice = |choice: &Choice| choice.sample.memory_bytes();
        self.in_force.metadata_bytes() + self.choice.as_deref().map_or(0, of_choice)
    }

    /// Report, for the tier of memory: the index of the candidate in force, from 1; the number of changes;
    /// the regret, and each candidate's I/O time, in milliseconds per access.
    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        let Some(choice) = &self.choice else { return };
        let controller = &choice.controller;
        report("in_force", Tier::RAM, controller.in_force() as f64 + 1.0);
        report("switches", Tier::RAM, controller.switches() as f64);
        report("regret_ms", Tier::RAM, controller.regret_ms_per_access());
        for (word, ms) in controller.times_ms_per_access() {
            report(word, Tier::RAM, ms);
        }
    }

    fn choosing(&self) -> Option<Choosing> {
        self.choice.as_ref().map(|choice| choice.choosing())
    }

    fn resume(&mut self, choosing: &Choosing) {
        let Some(choice) = &mut self.choice else { return };
        if let Some(place) = choice.controller.resume(choosing) {
            self.in_force = choice.candidates[place].build(&choice.setup);
            // Windows of the former policy may have been longer.
            choice.accesses = choosing.window_accesses.min(choice.window_accesses - 1);
            choice.former_ms = choosing.candidates.iter().map(|one| one.window_ms).collect();
        }
    }

    fn set_telling(&mut self, is_telling: bool) {
        let Some(choice) = &mut self.choice else { return };
        choice.is_telling = is_telling;
        if is_telling {
            choice.former_ms = choice.times_ms();
        }
        choice.sample.begin_window();
    }
}
