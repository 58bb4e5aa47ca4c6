//! dm-pcache: a log on persistent memory, in segments that are freed in the order of their writing.
//!
//! Every write, and every page that a read missed, is appended. A worker writes dirty pages back in the
//! order of the log. When many segments are used, the oldest pages leave, used or not, as far as they are
//! written back. So it is FIFO over versions, without second chance, on a part of the space.
//!
//! * Source: Linux 6.18, `drivers/md/dm-pcache/cache_gc.c`, `cache_req.c`, `cache.h`, by a description of
//!   their rules, and `Documentation/admin-guide/device-mapper/dm-pcache.rst`.
//! * State: 13 bytes per page of flash, and 4 per page that exists (none where memory is saved).
//! * Cost: amortised O(1) per request; the worker passes all pages of flash.
//! * Deviations: (1) Seconds are those of the clock, or of `accesses_per_second`. The interval of the worker
//!   is a guess. It also works when no segment is free, where the kernel makes requests wait. (2) A segment
//!   has 4096 pages; in caches of fewer than 64 such segments it is halved until there are as many, but not
//!   below 16 pages. (3) There is one head of the log, where the kernel has one per processor. (4) What was
//!   overwritten before the worker came is never written back.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::region_pages;
use super::stack::{BlockCache, Request, Route, Stack};
use super::time::{ACCESSES_PER_SECOND, after};
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::queue::Ring;
use crate::{Actions, BoxedPolicy, Nanos, Op, PageId, Setup, Survivor, Tier};

/// The parameters of dm-pcache.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer_or_auto("segment_pages", 1..=1 << 20)
        .summary("pages of a segment; auto: 4096, but fewer in a small cache")
        .source("Linux: 16 MiB"),
    Parameter::integer("gc_percent", 1..=90, 70)
        .summary("percent of the segments; pages leave while as many are used")
        .source("Linux"),
    Parameter::integer("writeback_s", 1..=1 << 31, 1)
        .summary("seconds between two passes of the worker that writes back")
        .source("a guess"),
    ACCESSES_PER_SECOND,
];

/// Its row in the registry.
pub const DM_PCACHE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("dm-pcache"),
    summary: "Linux dm-pcache: a write-back log on persistent memory, first in, first out",
    source: "Linux 6.18: drivers/md/dm-pcache, dm-pcache.rst",
    module: module_path!(),
    capabilities: Capabilities {
        needs_clock: true,
        runs_without_memory: true,
        ..Capabilities::of(Depth::RamFlash)
    },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

#[derive(Debug)]
struct Pcache {
    /// The pages on flash, the one written first in front, each with whether it is dirty.
    log: Ring<bool>,
    /// Keys that have left since the start: the place of the log's front.
    left: u64,
    segment_pages: u64,
    segments: u64,
    /// Pages leave while as many segments are used.
    gc_segments: u64,
    writeback_s: u64,
    next_writeback: Option<Nanos>,
}

/// Builds dm-pcache for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let flash_pages = setup.capacity_pages[1];
    let segment_pages =
        values.integer_u32_or_auto("segment_pages").unwrap_or_else(|| region_pages(flash_pages));
    let segments = flash_pages / segment_pages;
    let cache = Pcache {
        log: Ring::new(setup.ids(), segments * segment_pages),
        left: 0,
        segment_pages: segment_pages.into(),
        segments: segments.into(),
        gc_segments: u64::from(segments) * values.integer("gc_percent") / 100,
        writeback_s: values.integer("writeback_s"),
        next_writeback: None,
    };
    Box::new(Stack::new(setup, values, cache))
}

impl Pcache {
    /// Return the place that is written next.
    fn head(&self) -> u64 {
        self.left + self.log.slots() as u64
    }

    /// Segments that hold keys, or where the head is.
    fn used(&self) -> u64 {
        self.head().div_ceil(self.segment_pages) - self.left / self.segment_pages
    }

    fn is_full(&self) -> bool {
        self.used() == self.segments && self.head().is_multiple_of(self.segment_pages)
    }

    /// Appends a page, in place of an older version.
    fn append(&mut self, page: PageId, is_dirty: bool, out: &mut Actions) {
        self.log.remove(page);
        if self.is_full() {
            self.write_back(out);
            while self.is_full() {
                self.drop_tail(out);
            }
        }
        self.log.push(page, is_dirty);
    }

    fn drop_tail(&mut self, out: &mut Actions) {
        if let Some((page, _)) = self.log.pop() {
            out.drop_copy(page, Tier::FLASH);
        }
        self.left += 1;
    }

    /// Lets the oldest pages go while many segments are used and the oldest page is not dirty.
    fn collect(&mut self, out: &mut Actions) {
        while self.log.slots() > 0
            && self.used() >= self.gc_segments
            && !self.log.is_front(|&is_dirty| is_dirty)
        {
            self.drop_tail(out);
        }
    }

    fn write_back(&mut self, out: &mut Actions) {
        for (page, is_dirty) in self.log.iter_mut() {
            if core::mem::take(is_dirty) {
                out.copy(page, Tier::FLASH, Tier::DISK);
            }
        }
    }

    fn work(&mut self, now: Nanos, out: &mut Actions) {
        let first = after(Nanos(0), self.writeback_s);
        if now >= *self.next_writeback.get_or_insert(first) {
            self.next_writeback = Some(after(now, self.writeback_s));
            self.write_back(out);
        }
        self.collect(out);
    }
}

impl BlockCache for Pcache {
    fn holds(&self, page: PageId) -> bool {
        self.segments > 0 && self.log.find(page).is_some()
    }

    fn request(&mut self, Request { page, op, .. }: Request, out: &mut Actions) -> Route {
        if self.segments == 0 {
            return Route::Disk;
        }
        match op {
            Op::Read if self.holds(page) => Route::Flash,
            Op::Read => {
                self.append(page, false, out);
                Route::Both
            }
            Op::Write => {
                self.append(page, true, out);
                Route::Flash
            }
        }
    }

    fn settle(&mut self, Request { now, .. }: Request, out: &mut Actions) {
        self.work(now, out);
    }

    fn idle(&mut self, _idle: Nanos, now: Nanos, out: &mut Actions) {
        self.work(now, out);
    }

    fn flush(&mut self, out: &mut Actions) {
        self.write_back(out);
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        for &Survivor { page, is_dirty } in survivors {
            if self.segments > 0 {
                self.append(page, is_dirty, out);
                continue;
            }
            if is_dirty {
                out.copy(page, Tier::FLASH, Tier::DISK);
            }
            out.drop_copy(page, Tier::FLASH);
        }
    }

    fn prefetch(&self, page: PageId) {
        self.log.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.log.assert_invariants();
        assert!(self.used() <= self.segments, "segments fit flash");
    }

    fn memory_bytes(&self) -> usize {
        self.log.memory_bytes()
    }
}
