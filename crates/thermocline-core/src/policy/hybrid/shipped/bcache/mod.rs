//! bcache: a log of buckets on flash, which leave as a whole.
//!
//! Pages that are read from the disk or written are appended to the open bucket of its task. Space is made by
//! invalidating whole buckets that hold nothing dirty, the least recently read ones first. Long sequential
//! runs go past the cache. In mode writeback, writes stay on flash while few buckets are in use, and go to
//! the disk in the order of their addresses.
//!
//! * Source: Linux 5.12 and later, `drivers/md/bcache/{request,alloc,writeback,movinggc}.c`, by a
//!   description of their rules; `bcache-tools/make-bcache.c`.
//! * State: 9 bytes per page of flash, 24 per bucket, 24 per dirty page, and 4 per page that exists (none
//!   where memory is saved).
//! * Cost: O(1) per request for pages, O(128) for streams, O(log) for dirty pages; a collection passes all
//!   pages of flash, each time that a sixteenth of it was written.
//! * Deviations: (1) Seconds are those of the clock, or of `accesses_per_second`. (2) A bucket has 128
//!   pages, as by make-bcache; in caches of fewer than 512 such buckets, which the kernel refuses, it is
//!   halved until there are as many, but not below 8 pages. (3) Congestion of the devices, read-ahead, the
//!   moving collector and the journal are not modelled. (4) Dirty pages are held to `writeback_percent` at
//!   once, unless `control=pi`, which leaves out what the kernel does on an idle device. (5) A read finds
//!   no bucket only if a collection frees none; the kernel gives up at once. (6) A write that goes to flash
//!   and to disk passes through the buffer in RAM, so that it costs one write at each.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::stack::{BlockCache, Request, Route, Stack};
use super::time::ACCESSES_PER_SECOND;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::random::{SEED, SplitMix64};
use crate::{Actions, BoxedPolicy, Geometry, Nanos, Op, PageId, Setup, Survivor, Tier};

use buckets::{Buckets, Dirty, Replacement};
use sequential::Sequential;
use writeback::Writeback;

mod buckets;
mod sequential;
mod writeback;

/// Maximum number of streams that are tracked separately.
const STREAMS: usize = 128;
/// Percent of the buckets in use beyond which a write is not kept dirty.
const CUTOFF_WRITEBACK: u32 = 40;
/// The same for synchronous writes.
const CUTOFF_WRITEBACK_SYNC: u32 = 70;
/// Percent of the buckets in use beyond which nothing is added.
const CUTOFF_ADD: u32 = 95;
/// The size that make-bcache gives a bucket, and the least that a small cache gets.
const BUCKET_PAGES: u32 = 128;
const BUCKET_PAGES_MIN: u32 = 8;
/// The kernel asks for more buckets than these.
const BUCKETS_MIN: u32 = 512;
/// Minimum number of buckets in a sample: if there were fewer, one bucket would be more than one
/// percent, the unit in which the kernel counts buckets in use.
const BUCKETS_OF_SAMPLE_MIN: u32 = 100;

/// The parameters of bcache.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer_or_auto("bucket_pages", 1..=1 << 18)
        .summary("pages of a bucket; auto: 128, but fewer in a cache of less than 512 buckets")
        .source("make-bcache: 512 KiB"),
    Parameter::choice(
        "mode",
        &["writethrough", "writeback", "writearound", "none"],
        "writethrough",
    )
    .summary("what writes do, or whether nothing is cached")
    .source("Linux: cache_mode"),
    Parameter::choice("replacement", &["lru", "fifo", "random"], "lru")
        .summary("which buckets are invalidated")
        .source("Linux: cache_replacement_policy"),
    Parameter::integer("sequential_cutoff", 0..=1 << 31, 1024)
        .summary("pages of a run from which on it goes past the cache; 0: never")
        .source("Linux: 4 MiB"),
    Parameter::integer("writeback_percent", 0..=40, 10)
        .summary("percent of the cache that may be dirty")
        .source("Linux"),
    Parameter::switch("sync_writes", false)
        .summary("writes are synchronous, as direct I/O is, and kept dirty in a fuller cache")
        .source("the page cache's writes are not"),
    Parameter::choice("control", &["limit", "pi"], "limit")
        .summary(
            "whether dirty pages are held to their share at once, or by the kernel's controller",
        )
        .source("Linux has the controller; the limit is what it comes to"),
    SEED,
    ACCESSES_PER_SECOND,
];

/// Its row in the registry.
pub const BCACHE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("bcache"),
    summary: "Linux bcache: a log of buckets that leave as a whole; long runs go past it",
    source: "Linux 5.12 and later: drivers/md/bcache; bcache-tools defaults",
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
    None,
}

#[derive(Debug)]
struct Bcache {
    buckets: Buckets,
    sequential: Sequential,
    dirty: DirtyPages,
    mode: Mode,
    /// A write is not kept dirty if more percent of the buckets are in use.
    cutoff_writeback: u32,
}

/// The dirty pages by their numbers.
#[derive(Debug)]
struct DirtyPages {
    writeback: Writeback,
    geometry: Geometry,
}

/// Builds bcache for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Stack::new(setup, values, Bcache::new(setup, values)))
}

impl Bcache {
    fn new(setup: &Setup, values: &Values) -> Self {
        let flash_pages = setup.capacity_pages[1];
        let bucket_pages =
            values.integer_u32_or_auto("bucket_pages").unwrap_or_else(|| bucket_pages(setup));
        let buckets = flash_pages / bucket_pages;
        let replacement = match values.choice("replacement") {
            "fifo" => Replacement::Fifo,
            "random" => Replacement::Random,
            _ => Replacement::Lru,
        };
        let draws = SplitMix64::new(values.integer(SEED.name));
        let pages = u64::from(buckets) * u64::from(bucket_pages);
        let target_pages = pages * values.integer("writeback_percent") / 100;
        Self {
            buckets: Buckets::new(setup.ids(), buckets, bucket_pages, replacement, draws),
            sequential: Sequential::new(STREAMS, values.integer("sequential_cutoff")),
            dirty: DirtyPages {
                writeback: Writeback::new(target_pages, values.choice("control") == "pi"),
                geometry: setup.geometry.clone(),
            },
            mode: match values.choice("mode") {
                "writeback" => Mode::WriteBack,
                "writearound" => Mode::WriteAround,
                "none" => Mode::None,
                _ => Mode::WriteThrough,
            },
            cutoff_writeback: if values.switch("sync_writes") {
                CUTOFF_WRITEBACK_SYNC
            } else {
                CUTOFF_WRITEBACK
            },
        }
    }

    /// Return `true` if a request goes past the cache.
    fn is_bypassed(&mut self, request: Request) -> bool {
        let Request { page, op, is_eviction, run, now } = request;
        let is_around = op == Op::Write && self.mode == Mode::WriteAround;
        if self.buckets.in_use() > CUTOFF_ADD || self.mode == Mode::None || is_around {
            return true;
        }
        let number = self.dirty.geometry.page_number(page);
        if self.sequential.is_cut_off(number, is_eviction, run, now) {
            return true;
        }
        // Only requests that the cache takes make buckets older: runs that go past it must not.
        self.buckets.age();
        false
    }

    fn read(&mut self, request: Request, is_bypassed: bool, out: &mut Actions) -> Route {
        if self.buckets.contains(request.page) {
            self.buckets.used(request.page);
            Route::Flash
        } else if !is_bypassed && self.insert(request, false, out) {
            Route::Both
        } else {
            Route::Disk
        }
    }

    fn write(&mut self, request: Request, is_bypassed: bool, out: &mut Actions) -> Route {
        let is_kept_dirty = self.mode == Mode::WriteBack
            && !is_bypassed
            && self.buckets.in_use() <= self.cutoff_writeback;
        if !is_bypassed && self.insert(request, is_kept_dirty, out) {
            return if is_kept_dirty { Route::Flash } else { Route::Both };
        }
        // A write that goes past the cache makes its copy old; the kernel invalidates the range,
        // too.
        self.buckets.forget(request.page);
        self.dirty.remove(request.page);
        Route::Disk
    }

    /// Appends a page, and returns whether there was room.
    fn insert(&mut self, request: Request, is_dirty: bool, out: &mut Actions) -> bool {
        let Request { page, is_eviction, .. } = request;
        let is_inserted = self.buckets.insert(page, is_dirty, is_eviction, &self.dirty, out);
        self.dirty.remove(page);
        if is_inserted && is_dirty {
            self.dirty.insert(page);
        }
        is_inserted
    }

    fn write_back_due(&mut self, now: Nanos, out: &mut Actions) {
        while let Some(page) = self.dirty.writeback.next_due(now, || self.buckets.usage()) {
            out.copy(page, Tier::FLASH, Tier::DISK);
        }
    }
}

impl BlockCache for Bcache {
    fn holds(&self, page: PageId) -> bool {
        self.buckets.contains(page)
    }

    fn request(&mut self, request: Request, out: &mut Actions) -> Route {
        let is_bypassed = self.is_bypassed(request);
        match request.op {
            Op::Read => self.read(request, is_bypassed, out),
            Op::Write => self.write(request, is_bypassed, out),
        }
    }

    fn settle(&mut self, request: Request, out: &mut Actions) {
        self.write_back_due(request.now, out);
    }

    fn idle(&mut self, _idle: Nanos, now: Nanos, out: &mut Actions) {
        self.write_back_due(now, out);
    }

    fn flush(&mut self, out: &mut Actions) {
        while let Some(page) = self.dirty.writeback.next() {
            out.copy(page, Tier::FLASH, Tier::DISK);
        }
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        for &Survivor { page, is_dirty } in survivors {
            let is_kept_dirty = is_dirty && self.mode == Mode::WriteBack;
            // Modes other than writeback know no dirty pages, and would let a bucket with one
            // leave.
            if is_dirty && !is_kept_dirty {
                out.copy(page, Tier::FLASH, Tier::DISK);
            }
            let request =
                Request { page, op: Op::Read, is_eviction: false, run: None, now: Nanos(0) };
            let is_wanted = self.mode != Mode::None;
            if !is_wanted || !self.insert(request, is_kept_dirty, out) {
                if is_kept_dirty {
                    out.copy(page, Tier::FLASH, Tier::DISK);
                }
                out.drop_copy(page, Tier::FLASH);
            }
        }
        self.write_back_due(Nanos(0), out);
    }

    fn prefetch(&self, page: PageId) {
        self.buckets.prefetch(page);
        self.dirty.geometry.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.buckets.assert_invariants(&self.dirty);
        let dirty = self.buckets.iter().filter(|&page| self.dirty.is_dirty(page)).count();
        assert_eq!(dirty, self.dirty.writeback.len(), "dirty pages are on flash");
        assert!(dirty == 0 || self.mode == Mode::WriteBack, "only writeback is dirty");
        assert!(self.dirty.writeback.is_within_limit(), "dirty pages are within their limit");
    }

    fn memory_bytes(&self) -> usize {
        self.buckets.memory_bytes()
            + self.sequential.memory_bytes()
            + self.dirty.writeback.memory_bytes()
    }
}

impl DirtyPages {
    fn insert(&mut self, page: PageId) {
        self.writeback.insert(self.geometry.page_number(page), page);
    }

    fn remove(&mut self, page: PageId) {
        self.writeback.remove(self.geometry.page_number(page));
    }
}

impl Dirty for DirtyPages {
    fn is_dirty(&self, page: PageId) -> bool {
        self.writeback.contains(self.geometry.page_number(page))
    }
}

/// Return the size of a bucket, as make-bcache and the kernel have it in the whole cache. For a
/// sample of the accesses the cache is smaller, and still has buckets of that size as long as there
/// are enough.
fn bucket_pages(setup: &Setup) -> u32 {
    let flash_pages = setup.capacity_pages[1];
    let rate = setup.inputs.sample_rate.unwrap_or(1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and the number is not negative"
    )]
    let whole_pages = libm::round(f64::from(flash_pages) / rate) as u32;
    let has_too_few =
        |pages| whole_pages / pages < BUCKETS_MIN || flash_pages / pages < BUCKETS_OF_SAMPLE_MIN;
    let mut pages = BUCKET_PAGES;
    while pages > BUCKET_PAGES_MIN && has_too_few(pages) {
        pages /= 2;
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_buckets_of_the_whole_cache_if_they_are_enough() {
        for (flash_pages, sample_rate, expected) in [
            (1 << 16, None, 128),
            ((1 << 16) - 1, None, 64),
            (1000, None, 8),
            (1 << 14, Some(0.25), 128),
            ((1 << 14) - 1, Some(0.25), 64),
            // Of 128 pages there would be 64.
            (1 << 13, Some(0.125), 64),
            (1000, Some(0.001), 8),
        ] {
            let mut setup = Setup::hybrid(1 << 20, 0, flash_pages);
            setup.inputs.sample_rate = sample_rate;
            assert_eq!(bucket_pages(&setup), expected, "{flash_pages} pages, {sample_rate:?}");
        }
    }
}
