//! Caches of a library, in RAM over a log of regions on flash: `CacheLib` and foyer.
//!
//! A page that is read is in RAM; one that RAM evicts is appended to the log, unless flash has it as it is.
//! A write goes to the store at once, and leaves a hole where flash had the page. Space is made by emptying
//! a region, which is read as a whole. `cachelib` chooses the region by LRU, may write again what was hit in
//! it, and filters what enters. `foyer` chooses by FIFO, but prefers a region that is mostly dead; what is
//! read from a region that leaves soon is written again when RAM evicts it.
//!
//! * Source: `CacheLib` 278ffc74, `cachelib/navy/block_cache/`, `cachelib/navy/admission_policy/`,
//!   `cachelib/allocator/`; foyer 165cde3d, `foyer-storage/src/engine/block/`, `foyer/src/hybrid/cache.rs`;
//!   by a description of their rules.
//! * State: that of the algorithm in RAM, 10 bytes per page of flash, a bit or two per page that exists (6
//!   bytes per page of RAM where memory is saved).
//! * Cost: amortised O(1) per access; `foyer` looks at all regions to choose one.
//! * Deviations: (1) RAM is LRU, without `CacheLib`'s refresh time of 60 s and foyer's pool of high priority,
//!   or W-TinyLFU. (2) Items are pages; `CacheLib`'s small items are not modelled. (3) A region has 4096 pages;
//!   in caches of fewer than 64 such regions it is halved until there are as many, but not below 16 pages.
//!   (4) Reading the holes of a region is charged to a page of it; a region of holes alone is not read. (5)
//!   `segmented FIFO` of `CacheLib`, and foyer's filters by size and rate, are left out. (6) Seconds of
//!   `admission=dynamic` are those of the clock, or of `accesses_per_second`.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::region_pages;
use super::time::{ACCESSES_PER_SECOND, Time};
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::single::{Outcome, Replacement, Space, build_named};
use crate::queue::PageSet;
use crate::random::SEED;
use crate::{
    Access, Actions, BoxedPolicy, Nanos, Op, PageId, Policy, Setup, Survivor, Tier, WriteMiss,
};

use admission::Filter;
use regions::{Choice, Regions};

mod admission;
mod regions;

const REGION: Parameter = Parameter::integer_or_auto("region_pages", 1..=1 << 20)
    .summary("pages of a region; auto: 4096, but fewer in a small cache")
    .source("16 MiB");

const RAM: Parameter = Parameter::choice("ram", &["lru", "w-tinylfu"], "lru")
    .summary("which pages RAM keeps")
    .source("the default, without its priorities");

/// The parameters of `CacheLib`.
pub const CACHELIB_PARAMETERS: &[Parameter] = &[
    REGION,
    RAM,
    Parameter::choice("eviction", &["lru", "fifo"], "lru")
        .summary("which region is emptied")
        .source("cachelib/allocator/nvmcache/NavyConfig.h"),
    Parameter::integer("reinsertion_hits", 0..=255, 0)
        .summary("hits since it was written by which a page is written again; 0: never")
        .source("NavyConfig.h: none"),
    Parameter::choice("admission", &["all", "random", "dynamic", "reject-first"], "all")
        .summary(
            "which pages enter flash: all, some by lot, as many by lot as the target allows, or \
             those that were refused before or hit in RAM",
        )
        .source("NavyConfig.h: all"),
    Parameter::real("probability", 0.0..=1.0, 0.5)
        .summary("the share that enters by `admission=random`")
        .source("none; CacheLib asks for one"),
    Parameter::real("target_dwpd", 0.0..=1000.0, 1.0)
        .summary("how often `admission=dynamic` writes flash per day")
        .source("none; CacheLib asks for a rate"),
    Parameter::integer_or_auto("reject_entries", 1..=1 << 30)
        .summary("pages that `reject-first` remembers; auto: twice as many as flash has")
        .source("none; CacheLib asks for a number"),
    Parameter::integer("reject_sets", 1..=1024, 2)
        .summary("sets of these pages, of which the oldest is forgotten at once")
        .source("none; CacheLib asks for a number"),
    SEED,
    ACCESSES_PER_SECOND,
];

/// The parameters of foyer.
pub const FOYER_PARAMETERS: &[Parameter] = &[
    REGION,
    RAM,
    Parameter::integer("probation_percent", 0..=100, 10)
        .summary("percent of the regions that are on probation, clean ones included")
        .source("foyer-storage/src/engine/block/eviction.rs"),
];

/// The row of `cachelib` in the registry.
pub const CACHELIB: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("cachelib"),
    summary: "CacheLib: RAM over a log of regions, with filters of what enters",
    source: "CacheLib 278ffc74; Berg et al.: The CacheLib Caching Engine, OSDI 2020",
    module: module_path!(),
    capabilities: Capabilities { needs_clock: true, ..Capabilities::of(Depth::RamFlash) },
    parameters: CACHELIB_PARAMETERS,
    build: Build::Function(build_cachelib),
};

/// The row of `foyer` in the registry.
pub const FOYER: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("foyer"),
    summary: "foyer: RAM over a log of regions; what leaves soon is written again if it is read",
    source: "foyer 165cde3d",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::RamFlash),
    parameters: FOYER_PARAMETERS,
    build: Build::Function(build_foyer),
};

/// RAM over a log.
#[derive(Debug)]
pub struct LogCache {
    memory: Box<dyn Replacement + Send>,
    /// The pages of RAM that came from flash and need not be written there.
    from_flash: PageSet,
    /// The pages of RAM that were hit there.
    is_hit: PageSet,
    regions: Regions,
    filter: Filter,
    /// `true` if a page that flash has given up meanwhile is written again.
    rewrites_lost: bool,
    time: Option<Time>,
    write_miss: WriteMiss,
}

/// Builds `CacheLib` for the registry.
fn build_cachelib(setup: &Setup, values: &Values) -> BoxedPolicy {
    let choice = if values.choice("eviction") == "fifo" { Choice::Fifo } else { Choice::Lru };
    let hits = values.integer("reinsertion_hits");
    let hits = u8::try_from(hits).expect("the declared range is that of a byte");
    let regions = regions(setup, values, |_| choice, (hits > 0).then_some(hits));
    let filter = Filter::new(setup.ids(), setup.capacity_pages[1], values);
    let plain = LogCache::new(setup, values, regions, filter);
    Box::new(LogCache { rewrites_lost: true, time: Some(Time::new(values)), ..plain })
}

/// Builds foyer for the registry.
fn build_foyer(setup: &Setup, values: &Values) -> BoxedPolicy {
    let percent = values.integer_u32("probation_percent");
    let choice = |regions: u32| {
        let probation = u64::from(regions) * u64::from(percent) / 100;
        Choice::MostlyDead { probation: u32::try_from(probation).expect("it is a part") }
    };
    let regions = regions(setup, values, choice, None);
    Box::new(LogCache::new(setup, values, regions, Filter::All))
}

fn regions(
    setup: &Setup,
    values: &Values,
    choice: impl Fn(u32) -> Choice,
    reinserted_hits: Option<u8>,
) -> Regions {
    let flash_pages = setup.capacity_pages[1];
    let region_pages =
        values.integer_u32_or_auto("region_pages").unwrap_or_else(|| region_pages(flash_pages));
    let count = flash_pages / region_pages;
    Regions::new(setup.ids(), count, region_pages, choice(count), reinserted_hits)
}

impl LogCache {
    fn new(setup: &Setup, values: &Values, regions: Regions, filter: Filter) -> Self {
        let (ids, capacity_pages) = (setup.ids(), setup.capacity_pages[0]);
        let space = Space { ids, capacity_pages, geometry: &setup.geometry, inputs: &setup.inputs };
        Self {
            memory: build_named(values.choice(RAM.name), space),
            from_flash: PageSet::new(ids, capacity_pages),
            is_hit: PageSet::new(ids, capacity_pages),
            regions,
            filter,
            rewrites_lost: false,
            time: None,
            write_miss: setup.write_miss,
        }
    }

    fn found(&self, page: PageId) -> Tier {
        if self.regions.contains(page) { Tier::FLASH } else { Tier::DISK }
    }

    /// Handle a write that RAM holds: the store gets it at once, and flash forgets the page.
    fn written(&mut self, page: PageId, out: &mut Actions) {
        out.copy(page, Tier::RAM, Tier::DISK);
        self.from_flash.remove(page);
        if self.regions.forget(page) {
            out.drop_copy(page, Tier::FLASH);
        }
    }

    /// Brings a page to RAM and serves it there.
    fn fetch(&mut self, Access { page, op, .. }: Access, found: Tier, out: &mut Actions) {
        let is_fetched = self.write_miss.fetches(op);
        if is_fetched {
            out.copy(page, found, Tier::RAM);
        }
        if found == Tier::FLASH && op == Op::Read {
            // foyer: a page read from a region on probation is written again when RAM evicts it.
            let is_old = self.regions.hit(page) && !self.rewrites_lost;
            self.from_flash.insert_if(page, !is_old);
        }
        out.serve(page, op, found, Tier::RAM);
        if op == Op::Write {
            self.written(page, out);
        }
    }

    /// Serves a page that RAM refuses where it is.
    fn pass(&mut self, Access { page, op, .. }: Access, found: Tier, out: &mut Actions) {
        let tier = if op == Op::Write { Tier::DISK } else { found };
        out.serve(page, op, found, tier);
        if op == Op::Write && self.regions.forget(page) {
            out.drop_copy(page, Tier::FLASH);
        }
        if op == Op::Read && found == Tier::FLASH {
            self.regions.hit(page);
        }
    }

    /// Carries out that RAM evicts a page.
    fn evict(&mut self, page: PageId, out: &mut Actions) {
        let came_from_flash = self.from_flash.remove(page);
        let was_hit = self.is_hit.remove(page);
        let is_there = self.regions.contains(page);
        // CacheLib looks whether flash still has the page; foyer trusts what it knew when it read
        // it.
        let is_kept = came_from_flash && (is_there || !self.rewrites_lost);
        if !is_kept && !self.regions.is_empty() && self.filter.admits(page, was_hit) {
            let memory = &self.memory;
            // The page is in its region before it is copied: space for it has to be made first.
            self.regions.append(page, |page| memory.contains(page), out);
            out.copy(page, Tier::RAM, Tier::FLASH);
            self.filter.written();
        }
        out.drop_copy(page, Tier::RAM);
    }
}

impl Policy for LogCache {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let Access { page, op, .. } = access;
        if let Some(time) = &mut self.time {
            self.filter.reach(time.access());
        }
        match self.memory.refer(page, op) {
            Outcome::Hit => {
                self.is_hit.insert_if(page, true);
                out.serve(page, op, Tier::RAM, Tier::RAM);
                if op == Op::Write {
                    self.written(page, out);
                }
            }
            Outcome::Admitted { evicted } => {
                let found = self.found(page);
                self.fetch(access, found, out);
                if let Some(evicted) = evicted {
                    self.evict(evicted, out);
                }
            }
            Outcome::Refused => {
                let found = self.found(page);
                self.pass(access, found, out);
            }
        }
    }

    fn background(&mut self, now: Nanos, _out: &mut Actions) {
        if let Some(time) = &mut self.time {
            time.reach(now);
        }
    }

    /// Does nothing: no page is ever dirty.
    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        for &Survivor { page, is_dirty } in survivors {
            if is_dirty {
                out.copy(page, Tier::FLASH, Tier::DISK);
            }
            if self.regions.is_empty() {
                out.drop_copy(page, Tier::FLASH);
            } else {
                self.regions.append(page, |_| false, out);
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.memory.prefetch(page);
        self.regions.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.memory.assert_invariants();
        self.regions.assert_invariants();
        for page in self.from_flash.iter().chain(self.is_hit.iter()) {
            assert!(self.memory.contains(page), "what is known of pages of RAM is of such");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.memory.memory_bytes()
            + self.from_flash.memory_bytes()
            + self.is_hit.memory_bytes()
            + self.regions.memory_bytes()
            + self.filter.memory_bytes()
    }
}
