//! Open CAS: lines on flash in an LRU list whose hot half does not move, with filters in front of it.
//!
//! A line that is missed enters, if the filter lets it, in place of the tail of the list of clean lines;
//! if all are dirty, the request goes to the disk and the oldest dirty lines are cleaned. Sequential
//! streams go past a cache that is nearly full.
//!
//! * Source: Open CAS Framework b8b4b704, `src/ocf_lru.c`, `src/engine/`, `src/promotion/nhit/`,
//!   `src/ocf_seq_cutoff.c`, `src/cleaning/`, by a description of their rules; defaults of
//!   open-cas-linux e7ddd7bb.
//! * State: 33 bytes per line, 24 more where `cleaning=alru` or `acp` has something dirty, 18 more with
//!   `nhit`; 4 per line of the disk (none where memory is saved).
//! * Cost: O(1) per request for lines, O(192) for streams.
//! * Deviations: (1) Seconds are those of the clock, or of `accesses_per_second`. (2) There is one LRU list
//!   of clean and one of dirty lines, in place of 32 of each; I/O classes are not modelled. (3) Cleaning
//!   takes no time. `alru` works in gaps between requests of at least `alru_activity_s`, which only a clock
//!   knows; without one, only `alru_dirty_ratio` makes it clean. (4) A write that goes to flash and to disk
//!   passes through the buffer in RAM, so that it costs one write at each. (5) `mode=pt` starts with an
//!   empty flash, and so never finds a line.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::extents::Extents;
use super::stack::{BlockCache, Request, Route, Stack};
use super::time::ACCESSES_PER_SECOND;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Scaling, Values};
use crate::entry::{Build, PolicyEntry};
use crate::queue::Slots;
use crate::{Actions, BoxedPolicy, Geometry, Ids, Nanos, Op, PageId, Setup, Survivor, Tier};

use cleaning::{Acp, Alru, Cleaner};
use cutoff::Streams;
use hot_half::HotHalves;
use promotion::Nhit;

mod cleaning;
mod cutoff;
mod hot_half;
mod promotion;

/// The lists of lines.
const CLEAN: u32 = 0;
const DIRTY: u32 = 1;

/// The parameters of Open CAS.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("line_pages", 1..=16, 1)
        .summary("pages of a line")
        .source("casadm -x 4: lines of 4 KiB"),
    Parameter::choice("mode", &["wt", "wb", "wa", "wo", "wi", "pt"], "wt")
        .summary(
            "write-through, -back, -around, write-only (back, and reads fill nothing), -invalidate, \
             or pass-through",
        )
        .source("casadm -c wt"),
    Parameter::choice("promotion", &["always", "nhit"], "always")
        .summary("whether every line enters, or those asked for `nhit_threshold` times")
        .source("casadm -X -n promotion"),
    Parameter::integer("nhit_threshold", 2..=1000, 3)
        .summary("the request by which a line enters")
        .source("inc/promotion/nhit.h"),
    Parameter::integer("nhit_trigger", 0..=100, 80)
        .summary("percent of the lines; while fewer are used, all enter")
        .source("inc/promotion/nhit.h"),
    Parameter::choice("seq_policy", &["full", "always", "never"], "full")
        .summary("when sequential streams go past the cache: when it is nearly full, always, never")
        .source("casadm -X -n seq-cutoff"),
    Parameter::integer("seq_threshold", 1..=1 << 31, 256)
        .summary("pages of a stream from which on it goes past the cache")
        .source("open-cas-linux: 1 MiB"),
    Parameter::integer("full_margin", 0..=1 << 31, 512)
        .summary("a cache with at most one free line more than this is nearly full")
        .source("src/ocf_seq_cutoff.c")
        .scaling(Scaling::Proportional),
    Parameter::choice("cleaning", &["alru", "acp", "nop"], "alru")
        .summary("which lines are cleaned in the background: long idle ones, dense regions, none")
        .source("casadm -X -n cleaning"),
    Parameter::integer("alru_wake_s", 0..=1 << 31, 20)
        .summary("seconds between two looks of `alru`")
        .source("inc/cleaning/alru.h"),
    Parameter::integer("alru_staleness_s", 0..=1 << 31, 120)
        .summary("seconds that a line was not written for when `alru` takes it")
        .source("inc/cleaning/alru.h"),
    Parameter::integer("alru_batch", 1..=1 << 20, 100)
        .summary("lines that `alru` takes at once")
        .source("inc/cleaning/alru.h")
        .scaling(Scaling::Proportional),
    Parameter::integer("alru_activity_s", 0..=1 << 31, 10)
        .summary("seconds without requests before `alru` works")
        .source("inc/cleaning/alru.h"),
    Parameter::integer("alru_dirty_ratio", 0..=100, 100)
        .summary("percent of the lines; with as many dirty, `alru` cleans at once. 100: never")
        .source("inc/cleaning/alru.h, newer releases"),
    Parameter::integer("alru_inertia_pages", 0..=1 << 31, 32_768)
        .summary("pages by which `alru` goes below `alru_dirty_ratio`")
        .source("inc/cleaning/alru.h: 128 MiB")
        .scaling(Scaling::Proportional),
    Parameter::integer("acp_wake_ms", 1..=1 << 31, 10)
        .summary("milliseconds between two steps of `acp`")
        .source("inc/cleaning/acp.h"),
    Parameter::integer("acp_batch", 1..=1 << 20, 128)
        .summary("lines that `acp` cleans in a step")
        .source("inc/cleaning/acp.h")
        .scaling(Scaling::Proportional),
    Parameter::integer("acp_chunk_pages", 1..=1 << 31, 25_600)
        .summary("pages of a region that `acp` sweeps")
        .source("src/cleaning/acp.c: 100 MiB"),
    Parameter::integer("eviction_batch", 1..=1 << 20, 32)
        .summary("lines that are cleaned when no clean one is left")
        .source("src/ocf_lru.c")
        .scaling(Scaling::Proportional),
    ACCESSES_PER_SECOND,
];

/// Its row in the registry.
pub const OPEN_CAS: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("open-cas"),
    summary: "Open CAS: LRU lines with a still hot half, admission after N misses, five write modes",
    source: "Open CAS Framework b8b4b704, open-cas-linux e7ddd7bb",
    module: module_path!(),
    capabilities: Capabilities {
        needs_clock: true,
        runs_without_memory: true,
        looks_at_neighbours: true,
        asks_for_run_lengths: true,
        ..Capabilities::of(Depth::RamFlash)
    },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    WriteThrough,
    WriteBack,
    WriteAround,
    WriteOnly,
    WriteInvalidate,
    PassThrough,
}

/// The pages of a line that are there, and those that are dirty, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    valid: u16,
    dirty: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Active {
    NearlyFull,
    Always,
    Never,
}

#[derive(Debug)]
struct OpenCas {
    extents: Extents,
    geometry: Geometry,
    line_pages: u32,
    /// The cached lines.
    mapped: Slots,
    lines: Vec<Line>,
    lru: HotHalves<2>,
    lines_max: u32,
    mode: Mode,
    nhit: Option<Nhit>,
    streams: Streams,
    active: Active,
    full_margin: u32,
    /// Lines that are cleaned when no clean one is left.
    eviction_batch: usize,
    cleaner: Cleaner,
    /// `true` if the request found no clean line.
    lacks_clean: bool,
}

/// Builds Open CAS for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Stack::new(setup, values, OpenCas::new(setup, values)))
}

impl OpenCas {
    fn new(setup: &Setup, values: &Values) -> Self {
        let line_pages = values.integer_u32("line_pages");
        let extents = Extents::new(&setup.geometry, line_pages);
        let lines_max = setup.capacity_pages[1] / line_pages;
        let ids = Ids { pages: extents.count(), ..setup.ids() };
        let mapped = Slots::new(ids, lines_max);
        let entries = mapped.count();
        Self {
            geometry: setup.geometry.clone(),
            line_pages,
            mapped,
            lines: vec![Line::default(); entries as usize],
            lru: HotHalves::new(entries),
            lines_max,
            mode: match values.choice("mode") {
                "wb" => Mode::WriteBack,
                "wa" => Mode::WriteAround,
                "wo" => Mode::WriteOnly,
                "wi" => Mode::WriteInvalidate,
                "pt" => Mode::PassThrough,
                _ => Mode::WriteThrough,
            },
            nhit: Nhit::new(ids, lines_max, values),
            streams: Streams::new(values.integer("seq_threshold")),
            active: match values.choice("seq_policy") {
                "always" => Active::Always,
                "never" => Active::Never,
                _ => Active::NearlyFull,
            },
            full_margin: values.integer_u32("full_margin"),
            eviction_batch: values.integer_u32("eviction_batch") as usize,
            cleaner: match values.choice("cleaning") {
                "acp" => Cleaner::Acp(Acp::new(extents.count(), line_pages, values)),
                "nop" => Cleaner::Nop,
                _ => Cleaner::Alru(Alru::new(entries, lines_max, line_pages, values)),
            },
            lacks_clean: false,
            extents,
        }
    }

    fn entry(&self, page: PageId) -> Option<u32> {
        self.mapped.find(PageId(self.extents.of(page)))
    }

    /// Return the place of a page in its line, as a bit.
    fn bit(&self, page: PageId) -> u16 {
        let offset = self.geometry.page_number(page) % u64::from(self.line_pages);
        1 << offset
    }

    /// Return the pages of a line that have one of these bits.
    fn pages(&self, entry: u32, bits: u16) -> impl Iterator<Item = PageId> + '_ {
        let line = self.mapped.page(entry).0;
        self.extents.pages(line).filter(move |&page| bits & self.bit(page) != 0)
    }

    fn is_cut_off(&mut self, Request { op, page, run, .. }: Request) -> bool {
        let is_active = match self.active {
            Active::Always => true,
            Active::Never => false,
            Active::NearlyFull => {
                self.lines_max - self.mapped.len() <= self.full_margin.saturating_add(1)
            }
        };
        let number = self.geometry.page_number(page);
        let is_cut_off = match run {
            Some(run) => self.streams.is_long(run.remembered_pages.into()),
            None => {
                let is_cut_off = self.streams.is_cut_off(op, number);
                self.streams.note(op, number);
                is_cut_off
            }
        };
        is_active && is_cut_off
    }

    fn read(&mut self, page: PageId, is_cut_off: bool, out: &mut Actions) -> Route {
        let Some(entry) = self.entry(page) else {
            let is_filled =
                !is_cut_off && !matches!(self.mode, Mode::WriteOnly | Mode::PassThrough);
            let Some(entry) = (if is_filled { self.promote(page, out) } else { None }) else {
                return Route::Disk;
            };
            self.lines[entry as usize].valid |= self.bit(page);
            return Route::Both;
        };
        self.lru.hit(entry);
        let (Line { valid, dirty }, bit) = (self.lines[entry as usize], self.bit(page));
        if is_cut_off {
            if dirty & bit != 0 {
                return Route::Flash;
            }
            self.clean(entry, out);
            return Route::Disk;
        }
        if valid & bit != 0 {
            return Route::Flash;
        }
        if self.mode == Mode::WriteOnly {
            return Route::Disk;
        }
        self.lines[entry as usize].valid |= bit;
        Route::Both
    }

    fn write(&mut self, page: PageId, is_cut_off: bool, now: Nanos, out: &mut Actions) -> Route {
        let mapped = self.entry(page);
        if let Some(entry) = mapped {
            self.lru.hit(entry);
        }
        let bit = self.bit(page);
        let is_valid = |entry: u32| self.lines[entry as usize].valid & bit != 0;
        let is_stored = match self.mode {
            _ if is_cut_off => false,
            Mode::WriteThrough | Mode::WriteBack | Mode::WriteOnly => true,
            Mode::WriteAround => mapped.is_some_and(is_valid),
            Mode::WriteInvalidate | Mode::PassThrough => false,
        };
        let entry = match mapped {
            Some(entry) if is_stored => Some(entry),
            None if is_stored => self.promote(page, out),
            _ => None,
        };
        let Some(entry) = entry else {
            if let Some(entry) = mapped {
                self.invalidate(entry, bit, out);
            }
            return Route::Disk;
        };
        self.lines[entry as usize].valid |= bit;
        if matches!(self.mode, Mode::WriteBack | Mode::WriteOnly) {
            self.dirty(entry, bit, now);
            return Route::Flash;
        }
        Route::Both
    }

    /// Makes a line for a page that has none, if the filter allows it and there is room.
    fn promote(&mut self, page: PageId, out: &mut Actions) -> Option<u32> {
        let line = self.extents.of(page);
        let mapped = self.mapped.len();
        if self.nhit.as_mut().is_some_and(|nhit| !nhit.allows(line, mapped)) {
            return None;
        }
        if mapped == self.lines_max {
            let Some(victim) = self.lru.tail(CLEAN) else {
                self.lacks_clean = true;
                return None;
            };
            for page in self.pages(victim, self.lines[victim as usize].valid) {
                out.drop_copy(page, Tier::FLASH);
            }
            self.unmap(victim);
        }
        if let Some(nhit) = &mut self.nhit {
            nhit.entered(line);
        }
        Some(self.map(line))
    }

    fn map(&mut self, line: u32) -> u32 {
        let entry = self.mapped.enter(PageId(line));
        self.lines[entry as usize] = Line::default();
        self.lru.push(CLEAN, entry);
        entry
    }

    fn unmap(&mut self, entry: u32) {
        self.lru.remove(entry);
        self.mapped.leave(entry);
    }

    /// Notes a write to a page of a line that stays on flash.
    fn dirty(&mut self, entry: u32, bit: u16, now: Nanos) {
        self.lines[entry as usize].dirty |= bit;
        if self.lru.list_of(entry) == Some(CLEAN) {
            self.lru.remove(entry);
            self.lru.push(DIRTY, entry);
            if let Cleaner::Acp(acp) = &mut self.cleaner {
                acp.dirtied(self.mapped.page(entry).0);
            }
        }
        if let Cleaner::Alru(alru) = &mut self.cleaner {
            alru.written(entry, now);
        }
    }

    /// Gives up a page of a line that the disk gets in a newer version.
    fn invalidate(&mut self, entry: u32, bit: u16, out: &mut Actions) {
        self.clean(entry, out);
        let line = &mut self.lines[entry as usize];
        line.valid &= !bit;
        if line.valid == 0 {
            self.unmap(entry);
        }
    }

    /// Writes back what a line has dirty.
    fn clean(&mut self, entry: u32, out: &mut Actions) {
        if self.lru.list_of(entry) != Some(DIRTY) {
            return;
        }
        for page in self.pages(entry, self.lines[entry as usize].dirty) {
            out.copy(page, Tier::FLASH, Tier::DISK);
        }
        self.lines[entry as usize].dirty = 0;
        self.lru.remove(entry);
        self.lru.push(CLEAN, entry);
        match &mut self.cleaner {
            Cleaner::Nop => {}
            Cleaner::Alru(alru) => alru.cleaned(entry),
            Cleaner::Acp(acp) => acp.cleaned(self.mapped.page(entry).0),
        }
    }

    /// Cleans the dirty lines that are next to leave, in the order of their addresses.
    fn clean_tail(&mut self, out: &mut Actions) {
        let tail = core::iter::successors(self.lru.tail(DIRTY), |&entry| self.lru.before(entry));
        let mut entries: Vec<u32> = tail.take(self.eviction_batch).collect();
        entries.sort_unstable_by_key(|&entry| self.mapped.page(entry));
        for entry in entries {
            self.clean(entry, out);
        }
    }

    /// Run the cleaner after a request, or in a gap without requests.
    fn work(&mut self, idle: Nanos, now: Nanos, out: &mut Actions) {
        while let Some(batch) = self.next_batch(idle, now) {
            for entry in batch {
                self.clean(entry, out);
            }
        }
    }

    fn next_batch(&mut self, idle: Nanos, now: Nanos) -> Option<Vec<u32>> {
        match &mut self.cleaner {
            Cleaner::Nop => None,
            Cleaner::Alru(alru) => alru.excess().or_else(|| alru.wake(idle, now)),
            Cleaner::Acp(acp) => {
                let lines = acp.wake(now)?;
                let entry = |line| self.mapped.find(PageId(line)).expect("a dirty line is mapped");
                Some(lines.into_iter().map(entry).collect())
            }
        }
    }
}

impl BlockCache for OpenCas {
    fn holds(&self, page: PageId) -> bool {
        let bit = self.bit(page);
        self.entry(page).is_some_and(|entry| self.lines[entry as usize].valid & bit != 0)
    }

    fn request(&mut self, request: Request, out: &mut Actions) -> Route {
        let is_cut_off = self.is_cut_off(request);
        let Request { page, op, now, .. } = request;
        match op {
            Op::Read => self.read(page, is_cut_off, out),
            Op::Write => self.write(page, is_cut_off, now, out),
        }
    }

    fn settle(&mut self, Request { now, .. }: Request, out: &mut Actions) {
        if core::mem::take(&mut self.lacks_clean) {
            self.clean_tail(out);
        }
        self.work(Nanos(0), now, out);
    }

    fn idle(&mut self, idle: Nanos, now: Nanos, out: &mut Actions) {
        self.work(idle, now, out);
    }

    fn flush(&mut self, out: &mut Actions) {
        while let Some(entry) = self.lru.tail(DIRTY) {
            self.clean(entry, out);
        }
    }

    /// Lines come back with the pages that did, the one written last with the best right.
    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        let keeps_dirty = matches!(self.mode, Mode::WriteBack | Mode::WriteOnly);
        // From the newest line to the oldest, so that it is decided which ones come back; then the other
        // way round, so that the newest gets to the head.
        let mut kept: Vec<u32> = vec![];
        for &Survivor { page, .. } in survivors.iter().rev() {
            let line = self.extents.of(page);
            if kept.len() < self.lines_max as usize
                && self.mode != Mode::PassThrough
                && self.mapped.find(PageId(line)).is_none()
            {
                self.mapped.enter(PageId(line));
                kept.push(line);
            }
        }
        for &line in kept.iter().rev() {
            let entry = self.mapped.find(PageId(line)).expect("it was just entered");
            self.lines[entry as usize] = Line::default();
            self.lru.push(CLEAN, entry);
        }
        for &Survivor { page, is_dirty } in survivors {
            let entry = self.entry(page);
            if is_dirty && (entry.is_none() || !keeps_dirty) {
                out.copy(page, Tier::FLASH, Tier::DISK);
            }
            let Some(entry) = entry else {
                out.drop_copy(page, Tier::FLASH);
                continue;
            };
            let bit = self.bit(page);
            self.lines[entry as usize].valid |= bit;
            if is_dirty && keeps_dirty {
                self.dirty(entry, bit, Nanos(0));
            }
        }
    }

    fn prefetch(&self, page: PageId) {
        self.extents.prefetch(page);
        self.geometry.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.mapped.assert_invariants();
        self.lru.assert_invariants();
        let listed = self.lru.len(CLEAN) + self.lru.len(DIRTY);
        assert_eq!(listed, self.mapped.len(), "a mapped line is in one list");
        assert!(self.mapped.len() <= self.lines_max, "lines fit flash");
        for list in [CLEAN, DIRTY] {
            for entry in self.lru.iter(list) {
                let Line { valid, dirty } = self.lines[entry as usize];
                assert_eq!(list == DIRTY, dirty != 0, "a line is dirty if a page of it is");
                assert!(valid != 0 && dirty & !valid == 0, "a dirty page is there");
            }
        }
        let keeps_dirty = matches!(self.mode, Mode::WriteBack | Mode::WriteOnly);
        assert!(keeps_dirty || self.lru.len(DIRTY) == 0, "other modes are never dirty");
    }

    fn memory_bytes(&self) -> usize {
        self.extents.memory_bytes()
            + self.mapped.memory_bytes()
            + size_of_val(&*self.lines)
            + self.lru.memory_bytes()
            + self.nhit.as_ref().map_or(0, Nhit::memory_bytes)
            + self.streams.memory_bytes()
            + self.cleaner.memory_bytes()
    }
}
