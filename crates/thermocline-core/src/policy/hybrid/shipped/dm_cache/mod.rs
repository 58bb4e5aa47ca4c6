//! dm-cache with the policy smq, as lvm sets it up: a cache of blocks of 64 KiB that copies hot ones to
//! flash.
//!
//! Misses are counted in a *hotspot* queue of coarser blocks, whose levels say how hot each one is. A
//! block of a hotspot that is high enough is copied to flash, with all its pages. Cached blocks lie in
//! two more such queues, of clean and of dirty ones. A full cache demotes the coldest clean block, or
//! writes back an old dirty one, and promotes nothing by that request; so every second wish comes true at
//! best.
//!
//! * Source: Linux, `drivers/md/dm-cache-policy-smq.c` and `dm-cache-target.c` (about 5.x to 2025), by a
//!   description of their rules; the defaults of lvm2 (`lib/metadata/cache_manip.c`,
//!   `lvmcache(7)`).
//! * State: 36 bytes per cached block, 16 per hotspot, and 4 per block and hotspot that exist.
//! * Cost: O(levels) per request, which is 64; at the end of a period O(levels) per block that moves.
//! * Deviations: (1) Seconds are those of the clock, or of `accesses_per_second`. By the clock, a device
//!   looks once a second if nothing went to the disk for a second, and then cleans all blocks, as the
//!   counters of Linux 6.1 show. (2) Every request ticks the policy, as with one request in flight; the
//!   kernel ticks at the end of one marked request at a time, and once a second. (3) What a request
//!   queues is done right after it. Promotions and demotions are never throttled, in the kernel neither;
//!   `migration_threshold` bounds only what is cleaned while idle, and is left out. (4) Discards, metadata
//!   and partial blocks at the end are not modelled. A block
//!   of a trace may have pages that no access names: copying them is charged as copying the page asked
//!   for, or the first one, once more each. (5) The kernel's table of promotion levels by cache hits is
//!   without effect since Linux 4.12, and left out, as are the counters that it reads. (6) A write that
//!   goes to flash and to disk passes through the buffer in RAM, so that it costs one write at each. (7)
//!   `mode=passthrough` starts with an empty flash, and so never has a block to drop.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use super::extents::Extents;
use super::stack::{BlockCache, Request, Route, Stack};
use super::time::{ACCESSES_PER_SECOND, SECOND, after};
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Scaling, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::Blocks;
use crate::queue::{Frames, Slots};
use crate::{Actions, BoxedPolicy, Geometry, Ids, Nanos, Op, PageId, Setup, Survivor, Tier};

use levels::{Levels, Sentinels, Top};

mod levels;

/// The parameters of dm-cache.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("block_pages", 1..=1 << 18, 16)
        .summary("pages of a cache block, which are copied together")
        .source("lvm: 64 KiB, allocation/cache_pool_chunk_size"),
    Parameter::choice("mode", &["writethrough", "writeback", "passthrough"], "writethrough")
        .summary("whether a write to a cached block goes to disk at once, later, or drops the block")
        .source("lvm: allocation/cache_mode; a bare table of dm-cache writes back"),
    Parameter::integer("levels", 8..=64, 64)
        .summary("levels of each queue")
        .source("Linux: NR_CACHE_LEVELS, NR_HOTSPOT_LEVELS; fewer for examples"),
    Parameter::integer("hotspot_s", 0..=1 << 31, 1)
        .summary("seconds after which hotspots are spread over their levels again")
        .source("Linux: HOTSPOT_UPDATE_PERIOD"),
    Parameter::integer("cache_s", 0..=1 << 31, 60)
        .summary("seconds after which cached blocks are spread over their levels again")
        .source("Linux: CACHE_UPDATE_PERIOD; 10 before 4.12"),
    Parameter::integer("writeback_s", 0..=1 << 31, 10)
        .summary("seconds after which dirty blocks become old")
        .source("Linux: WRITEBACK_PERIOD"),
    Parameter::integer("demote_s", 0..=1 << 31, 60)
        .summary("seconds after which clean blocks become old")
        .source("Linux: DEMOTE_PERIOD"),
    Parameter::integer("free_target", 0..=100, 25)
        .summary("percent of the blocks; if that is less than one, nothing is ever demoted")
        .source("Linux: FREE_TARGET"),
    Parameter::integer("hotspot_min", 1..=1 << 20, 1024)
        .summary("hotspots that are tracked at least; otherwise a quarter as many as cache blocks")
        .source("Linux: calc_hotspot_params")
        .scaling(Scaling::Proportional),
    Parameter::integer("hotspot_blocks", 1..=1 << 20, 16)
        .summary("cache blocks that make a hotspot; half as many as long as hotspots cover the whole disk")
        .source("Linux: HOTSPOT_BLOCK_MULTIPLIER, calc_hotspot_params"),
    Parameter::integer("idle_every", 0..=1 << 31, 0)
        .summary("accesses after which the device is idle for a while; 0: never. By the clock: no disk for 1 s")
        .source("none; in a trace without times a busy device is never idle"),
    Parameter::switch("whole_block_writes", true)
        .summary("a write of a block of one page covers it, and needs no copy")
        .source("Linux: requests that cover a block"),
    ACCESSES_PER_SECOND,
];

/// Its row in the registry.
pub const DM_CACHE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("dm-cache"),
    summary: "Linux dm-cache with smq, lvm's cache: copies blocks of hot regions to flash",
    source: "Linux 5.x: dm-cache-policy-smq.c, dm-cache-target.c; lvm2 defaults",
    module: module_path!(),
    capabilities: Capabilities {
        needs_clock: true,
        runs_without_memory: true,
        looks_at_neighbours: true,
        decides_by_extents: true,
        ..Capabilities::of(Depth::RamFlash)
    },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    WriteThrough,
    WriteBack,
    PassThrough,
}

/// Migration after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Migration {
    Promote(u32),
    Demote(u32),
    WriteBack(u32),
}

/// End and length of the periods, in seconds.
#[derive(Clone, Copy, Debug)]
struct Periods {
    seconds: [u64; 4],
    next: [Nanos; 4],
}

const WRITEBACK: usize = 0;
const DEMOTE: usize = 1;
const HOTSPOT: usize = 2;
const CACHE: usize = 3;

/// The blocks on flash, in slots.
#[derive(Debug)]
struct DmCache {
    extents: Extents,
    /// The block of each slot.
    slots: Frames,
    /// Slots without a block, the one that was freed first in front.
    free: VecDeque<u32>,
    /// Per slot: whether it was hit in this period. It outlives the slot's block.
    is_hit: Vec<bool>,
    clean: Levels,
    dirty: Levels,
    hotspots: Hotspots,
    mode: Mode,
    levels: u32,
    demotes: bool,
    whole_block_writes: bool,
    pending: Option<Migration>,
    periods: Periods,
    idle_every: u64,
    requests: u64,
    /// Time of the last request that reached the disk. Hits do not keep the device from being idle.
    disk_used: Nanos,
    /// Time of the last check for idleness, which happens once a second.
    looked: Nanos,
}

/// Hotness of the regions of uncached blocks.
#[derive(Debug)]
struct Hotspots {
    regions: Blocks,
    entries: Slots,
    entries_max: u32,
    levels: Levels,
    hits: u64,
    misses: u64,
    promote_level: u32,
    jump: u32,
}

/// Quality of the prediction of hits by the levels of hotspots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Performance {
    Poor,
    Fair,
    Well,
}

/// Builds dm-cache for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Stack::new(setup, values, DmCache::new(setup, values)))
}

impl DmCache {
    fn new(setup: &Setup, values: &Values) -> Self {
        let block_pages = values.integer_u32("block_pages");
        let extents = Extents::new(&setup.geometry, block_pages);
        let levels = values.integer_u32("levels");
        let nominal = setup.capacity_pages[1] / block_pages;
        // A slot for each block that exists is never given back.
        let slots = nominal.min(extents.count());
        let free_target = u64::from(nominal) * values.integer("free_target") / 100;
        let seconds =
            ["writeback_s", "demote_s", "hotspot_s", "cache_s"].map(|name| values.integer(name));
        let queue = |sentinels| Levels::new(slots, levels, sentinels, Top::NONE);
        Self {
            slots: Frames::new(Ids { pages: extents.count(), ..setup.ids() }, slots),
            free: (0..slots).collect(),
            is_hit: vec![false; slots as usize],
            clean: queue(Sentinels::Plain),
            dirty: queue(Sentinels::KeepPlace),
            hotspots: Hotspots::new(setup, values, nominal),
            mode: match values.choice("mode") {
                "writeback" => Mode::WriteBack,
                "passthrough" => Mode::PassThrough,
                _ => Mode::WriteThrough,
            },
            levels,
            demotes: free_target > 0,
            whole_block_writes: values.switch("whole_block_writes") && block_pages == 1,
            pending: None,
            periods: Periods::new(seconds),
            idle_every: values.integer("idle_every"),
            requests: 0,
            disk_used: Nanos(0),
            looked: Nanos(0),
            extents,
        }
    }

    fn slot(&self, page: PageId) -> Option<u32> {
        if self.is_hit.is_empty() {
            return None;
        }
        self.slots.find(PageId(self.extents.of(page)))
    }

    /// Route a request for a cached block.
    fn hit(&mut self, slot: u32, op: Op) -> Route {
        let is_dirty = self.dirty.contains(slot);
        if !self.is_hit[slot as usize] {
            self.is_hit[slot as usize] = true;
            let queue = if is_dirty { &mut self.dirty } else { &mut self.clean };
            queue.requeue(slot, 1);
        }
        match (op, self.mode) {
            (Op::Write, Mode::WriteBack) => {
                if !is_dirty {
                    let level = self.clean.remove(slot);
                    self.dirty.push(level, slot);
                }
                Route::Flash
            }
            (Op::Write, Mode::WriteThrough | Mode::PassThrough) => Route::Both,
            (Op::Read, _) => Route::Flash,
        }
    }

    /// Route a request for a block that is not cached.
    fn miss(&mut self, page: PageId, op: Op) -> Route {
        let is_hot = self.hotspots.access(page);
        let is_whole = op == Op::Write && self.mode == Mode::WriteBack && self.whole_block_writes;
        let asks = is_hot || is_whole && !self.free.is_empty();
        if !asks || self.mode == Mode::PassThrough {
            return Route::Disk;
        }
        if self.free.is_empty() {
            self.pending = self.demotion();
            return Route::Disk;
        }
        let block = self.extents.of(page);
        if is_whole {
            let slot = self.enter(block);
            self.dirty.push(self.levels - 1, slot);
            return Route::Flash;
        }
        self.pending = Some(Migration::Promote(block));
        Route::Disk
    }

    /// Return the migration that may make room later, if any.
    fn demotion(&self) -> Option<Migration> {
        if !self.demotes {
            return None;
        }
        match self.clean.peek(self.levels / 2, true) {
            Some(slot) => Some(Migration::Demote(slot)),
            None => self.dirty.peek(self.levels, false).map(Migration::WriteBack),
        }
    }

    fn enter(&mut self, block: u32) -> u32 {
        let slot = self.free.pop_front().expect("a slot is free");
        self.slots.put(slot, PageId(block));
        slot
    }

    fn migrate(&mut self, migration: Migration, asked: PageId, out: &mut Actions) {
        match migration {
            Migration::Promote(block) => {
                let slot = self.enter(block);
                self.clean.push(self.levels - 1, slot);
                self.copy_block(block, asked, [Tier::DISK, Tier::FLASH], out);
            }
            Migration::Demote(slot) => {
                self.clean.remove(slot);
                let block = self.block(slot);
                self.slots.take(PageId(block));
                self.free.push_back(slot);
                for page in self.extents.pages(block) {
                    out.drop_copy(page, Tier::FLASH);
                }
            }
            Migration::WriteBack(slot) => self.write_back(slot, out),
        }
    }

    fn write_back(&mut self, slot: u32, out: &mut Actions) {
        let level = self.dirty.remove(slot);
        self.clean.push(level, slot);
        let block = self.block(slot);
        let first = self.extents.pages(block).next().expect("a block has a page");
        self.copy_block(block, first, [Tier::FLASH, Tier::DISK], out);
    }

    /// Copies all pages of a block; those without an id are charged to one that has.
    fn copy_block(&self, block: u32, charged: PageId, way: [Tier; 2], out: &mut Actions) {
        for page in self.extents.pages(block) {
            out.copy(page, way[0], way[1]);
        }
        for _ in 0..self.extents.unnamed_pages(block) {
            out.copy(charged, way[0], way[1]);
        }
    }

    fn block(&self, slot: u32) -> u32 {
        self.slots.page(slot).expect("a slot of a queue has a block").0
    }

    fn write_back_all(&mut self, out: &mut Actions) {
        while let Some(slot) = self.dirty.peek(self.levels, true) {
            self.write_back(slot, out);
        }
    }

    /// End a request: periods that have passed end.
    fn tick(&mut self, now: Nanos) {
        if self.periods.has_passed(WRITEBACK, now) {
            self.dirty.age();
        }
        if self.periods.has_passed(DEMOTE, now) {
            self.clean.age();
        }
        let performance = self.hotspots.assess();
        if self.periods.has_passed(HOTSPOT, now) {
            self.hotspots.redistribute(performance);
        }
        if self.periods.has_passed(CACHE, now) {
            self.is_hit.fill(false);
            self.dirty.redistribute();
            self.clean.redistribute();
        }
    }
}

impl BlockCache for DmCache {
    fn holds(&self, page: PageId) -> bool {
        self.slot(page).is_some()
    }

    fn request(&mut self, Request { page, op, now, .. }: Request, _out: &mut Actions) -> Route {
        let route = match self.slot(page) {
            Some(slot) => self.hit(slot, op),
            None => self.miss(page, op),
        };
        if route != Route::Flash {
            self.disk_used = now;
        }
        route
    }

    fn settle(&mut self, Request { page, now, .. }: Request, out: &mut Actions) {
        if let Some(migration) = self.pending.take() {
            self.migrate(migration, page, out);
        }
        self.tick(now);
        self.requests += 1;
        if self.idle_every > 0 && self.requests.is_multiple_of(self.idle_every) {
            self.write_back_all(out);
        }
    }

    fn idle(&mut self, _idle: Nanos, now: Nanos, out: &mut Actions) {
        if now.0.saturating_sub(self.looked.0) < SECOND {
            return;
        }
        self.looked = now;
        if now.0.saturating_sub(self.disk_used.0) >= SECOND {
            self.write_back_all(out);
        }
    }

    fn flush(&mut self, out: &mut Actions) {
        self.write_back_all(out);
    }

    /// Restore blocks of which every page survived, those written last if there are too many.
    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        let mut counts: BTreeMap<u32, (usize, bool)> = BTreeMap::new();
        for &Survivor { page, is_dirty } in survivors {
            let count = counts.entry(self.extents.of(page)).or_default();
            *count = (count.0 + 1, count.1 || is_dirty);
        }
        for &Survivor { page, .. } in survivors.iter().rev() {
            let block = self.extents.of(page);
            let Some(&(count, is_dirty)) = counts.get(&block) else { continue };
            let is_whole = count == self.extents.pages(block).count();
            if !is_whole || self.mode == Mode::PassThrough || self.free.is_empty() {
                continue;
            }
            counts.remove(&block);
            let slot = self.enter(block);
            let queue = if is_dirty { &mut self.dirty } else { &mut self.clean };
            queue.push(self.levels - 1, slot);
        }
        if self.mode != Mode::WriteBack {
            self.write_back_all(out);
        }
        for &Survivor { page, is_dirty } in survivors {
            if self.slot(page).is_none() {
                if is_dirty {
                    out.copy(page, Tier::FLASH, Tier::DISK);
                }
                out.drop_copy(page, Tier::FLASH);
            }
        }
    }

    fn prefetch(&self, page: PageId) {
        self.extents.prefetch(page);
        self.hotspots.regions.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.slots.assert_invariants();
        self.clean.assert_invariants();
        self.dirty.assert_invariants();
        self.hotspots.assert_invariants();
        let slots = self.is_hit.len();
        let cached = (self.clean.len() + self.dirty.len()) as usize;
        assert_eq!(cached + self.free.len(), slots, "a slot is free or has a block");
        for slot in self.clean.iter().chain(self.dirty.iter()) {
            assert!(self.slots.page(slot).is_some(), "a slot of a queue has a block");
            let is_in_both = self.clean.contains(slot) && self.dirty.contains(slot);
            assert!(!is_in_both, "a block is clean or dirty");
        }
        assert!(self.mode == Mode::WriteBack || self.dirty.len() == 0, "only writeback is dirty");
        assert!(self.pending.is_none(), "what a request queues is done with it");
    }

    fn memory_bytes(&self) -> usize {
        self.extents.memory_bytes()
            + self.slots.memory_bytes()
            + self.free.capacity() * size_of::<u32>()
            + size_of_val(&*self.is_hit)
            + self.clean.memory_bytes()
            + self.dirty.memory_bytes()
            + self.hotspots.memory_bytes()
    }
}

impl Periods {
    /// Create periods after which the queues of hotspots and of cached blocks are spread out at
    /// once; blocks become old only after a period.
    fn new(seconds: [u64; 4]) -> Self {
        let first = |period: usize| after(Nanos(0), seconds[period]);
        Self { seconds, next: [first(WRITEBACK), first(DEMOTE), Nanos(0), Nanos(0)] }
    }

    /// Return `true` if a period has passed; the next one begins then.
    fn has_passed(&mut self, period: usize, now: Nanos) -> bool {
        let has_passed = now > self.next[period];
        if has_passed {
            self.next[period] = after(now, self.seconds[period]);
        }
        has_passed
    }
}

impl Hotspots {
    fn new(setup: &Setup, values: &Values, cache_blocks: u32) -> Self {
        let block_pages = values.integer_u32("block_pages");
        let levels = values.integer_u32("levels");
        let nominal = (cache_blocks / 4).max(values.integer_u32("hotspot_min"));
        let origin_pages = origin_pages(&setup.geometry);
        let mut blocks = values.integer_u32("hotspot_blocks");
        while blocks > 1
            && u128::from(blocks) * u128::from(block_pages) * u128::from(nominal) > origin_pages
        {
            blocks /= 2;
        }
        let regions = Blocks::new(&setup.geometry, block_pages * blocks);
        let entries_max = nominal.min(regions.count());
        let top_entries = (nominal / levels).min(cache_blocks / blocks);
        let top = Top { levels: levels / 8, entries: top_entries };
        Self {
            entries: Slots::new(Ids { pages: regions.count(), ..setup.ids() }, entries_max),
            entries_max,
            levels: Levels::new(entries_max, levels, Sentinels::None, top),
            hits: 0,
            misses: 0,
            promote_level: levels - 1,
            jump: 1,
            regions,
        }
    }

    /// Notes a miss in the cache, and returns whether its region is hot. The kernel moves a region up once
    /// between two ticks; here each request has a tick.
    fn access(&mut self, page: PageId) -> bool {
        let region = PageId(self.regions.of(page));
        let levels = self.levels.levels();
        let entry = match self.entries.find(region) {
            Some(entry) => {
                if self.levels.level(entry) >= levels * 3 / 4 {
                    self.hits += 1;
                } else {
                    self.misses += 1;
                }
                self.levels.requeue(entry, self.jump);
                entry
            }
            None => {
                self.misses += 1;
                self.enter(region)
            }
        };
        self.levels.level(entry) >= self.promote_level
    }

    fn enter(&mut self, region: PageId) -> u32 {
        let mut level = 0;
        if self.entries.len() == self.entries_max {
            let oldest = self.levels.peek(self.levels.levels(), true);
            let oldest = oldest.expect("regions that exist have an entry");
            level = self.levels.remove(oldest);
            self.entries.leave(oldest);
        }
        let entry = self.entries.enter(region);
        self.levels.push(level, entry);
        entry
    }

    /// Sets the level from which on regions are hot.
    fn assess(&mut self) -> Performance {
        let performance = Performance::of(self.hits, self.misses);
        let levels = self.levels.levels();
        self.promote_level = match performance {
            Performance::Poor => levels - levels / 4,
            Performance::Fair => levels - levels / 2,
            Performance::Well => 0,
        };
        performance
    }

    fn redistribute(&mut self, performance: Performance) {
        self.jump = match performance {
            Performance::Poor => 4,
            Performance::Fair => 2,
            Performance::Well => 1,
        };
        self.levels.redistribute();
        (self.hits, self.misses) = (0, 0);
    }

    fn assert_invariants(&self) {
        self.entries.assert_invariants();
        self.levels.assert_invariants();
        assert_eq!(self.entries.len(), self.levels.len(), "each entry has a level");
    }

    fn memory_bytes(&self) -> usize {
        self.regions.memory_bytes() + self.entries.memory_bytes() + self.levels.memory_bytes()
    }
}

impl Performance {
    fn of(hits: u64, misses: u64) -> Self {
        match (hits * 256).checked_div(hits + misses).unwrap_or(0) {
            0..16 => Self::Poor,
            16..32 => Self::Fair,
            _ => Self::Well,
        }
    }
}

/// Return the end of the disk, as far as is known: it ends with the last page that has an id.
fn origin_pages(geometry: &Geometry) -> u128 {
    if geometry.is_linear() {
        return geometry.pages().into();
    }
    let last = geometry.ids().map(|page| geometry.page_number(PageId(page))).max();
    last.map_or(0, |last| u128::from(last) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Counts, registry};

    /// Return the number of pages written back in three seconds in which a promoted, dirty block is
    /// written, while another page is read from the disk every `disk_every_ms` milliseconds.
    fn written_back(disk_every_ms: u64) -> u64 {
        let given = [("mode", "writeback"), ("block_pages", "1"), ("whole_block_writes", "true")]
            .map(|(name, text)| (name.into(), text.into()));
        let entry = registry::find("dm-cache").expect("it is registered");
        let values = entry.values(&given).expect("they are its parameters");
        let setup = Setup::hybrid(4000, 0, 4);
        let mut policy = entry.build(&setup, &values).expect("it runs without memory");
        let (mut counts, mut actions) = (Counts::new(), Actions::new());
        for ms in (0..3000_u32).step_by(10) {
            let is_on_disk = u64::from(ms) % disk_every_ms == 0;
            let access = if is_on_disk { Access::read(1000 + ms) } else { Access::write(0) };
            actions.clear();
            policy.background(Nanos(u64::from(ms) * 1_000_000), &mut actions);
            policy.access(access, &mut actions);
            counts.add(actions.as_slice());
        }
        counts.copies(Tier::FLASH, Tier::DISK)
    }

    #[test]
    fn hits_do_not_keep_the_device_from_being_idle() {
        assert_eq!(written_back(500), 0, "the disk is busy");
        assert_eq!(written_back(4000), 2, "nothing but hits, after a second and after two");
    }

    /// A worked example.
    #[test]
    fn performance_is_judged_by_the_share_of_hits() {
        use Performance::{Fair, Poor, Well};
        let cases = [(1, 16), (1, 15), (1, 9), (1, 7), (2, 14), (0, 0)];
        let judged = cases.map(|(hits, misses)| Performance::of(hits, misses));
        assert_eq!(judged, [Poor, Fair, Fair, Well, Well, Poor]);
    }
}
