//! dm-writecache: writes go to flash, and from there to the disk in the order in which they came.
//!
//! A page that is read is never stored. When few slots are free, the oldest pages are written back until
//! more are, each together with the pages that follow it on disk and lie in the next slots; what is written
//! back leaves the cache.
//!
//! * Source: Linux, `drivers/md/dm-writecache.c`, by a description of its rules, and
//!   `Documentation/admin-guide/device-mapper/writecache.rst`.
//! * State: 49 bytes per cached page, and 8 per page that exists (1 where memory is saved); a bit per slot.
//! * Cost: amortised O(1) per request, O(log) to find a slot.
//! * Deviations: (1) Seconds are those of the clock, or of `accesses_per_second`. (2) Writeback takes no
//!   time: jobs, batches of 64, the pause after a request, and writes that wait for a slot are not
//!   modelled, so a write finds a slot unless there are none at all. (3) Commits cost nothing. (4) A block
//!   is one page. (5) The modes `cleaner` and `metadata_only` are left out. (6) A flush writes all back,
//!   and so empties the cache.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::free_slots::FreeSlots;
use super::stack::{BlockCache, Request, Route, Stack};
use super::time::{ACCESSES_PER_SECOND, SECOND, after};
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Scaling, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::Successors;
use crate::queue::{Lists, Slots};
use crate::{Actions, BoxedPolicy, Nanos, Op, PageId, Setup, Survivor, Tier};

/// The parameters of dm-writecache.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("high_watermark", 0..=100, 50)
        .summary("percent of the slots; writeback begins when as many are used")
        .source("Linux"),
    Parameter::integer("low_watermark", 0..=100, 45)
        .summary("percent of the slots; writeback ends when fewer are used")
        .source("Linux"),
    Parameter::integer("max_age_s", 0..=1 << 31, 0)
        .summary("seconds after which a page is written back, less a sixteenth; 0: never")
        .source("Linux: off"),
    Parameter::integer("autocommit_blocks", 1..=1 << 31, 65536)
        .summary("written pages after which all are committed")
        .source("Linux: 65536 on an SSD, 64 on persistent memory")
        .scaling(Scaling::Proportional),
    Parameter::integer("autocommit_s", 0..=1 << 31, 1)
        .summary("seconds after which a written page is committed")
        .source("Linux: autocommit_time"),
    Parameter::integer("group_pages", 1..=1 << 20, 256)
        .summary("pages that are written back together at most")
        .source("Linux: writeback of up to 256 blocks that follow each other")
        .scaling(Scaling::Proportional),
    Parameter::choice("device", &["ssd", "pmem"], "ssd")
        .summary(
            "whether flash is an SSD, on which only pages of neighbouring slots go together, or \
             persistent memory, on which a committed page is never written in place",
        )
        .source("Linux: the table's first word, s or p"),
    ACCESSES_PER_SECOND,
];

/// Its row in the registry.
pub const DM_WRITECACHE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("dm-writecache"),
    summary: "Linux dm-writecache: writes go to flash, and to disk in the order of their arrival",
    source: "Linux 5.x to 6.x: dm-writecache.c, writecache.rst",
    module: module_path!(),
    capabilities: Capabilities {
        needs_clock: true,
        runs_without_memory: true,
        looks_at_neighbours: true,
        ..Capabilities::of(Depth::RamFlash)
    },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// The only list: all entries, the one inserted first in front.
const ALL: u32 = 0;

/// A page in the cache.
#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: u32,
    born: Nanos,
    /// Number of entries that were inserted before.
    number: u64,
}

const NO_ENTRY: Entry = Entry { slot: 0, born: Nanos(0), number: 0 };

#[derive(Debug)]
struct WriteCache {
    pages: Slots,
    entries: Lists<Entry>,
    free: FreeSlots,
    /// Slot at which the search for a free one begins.
    next: u32,
    inserted: u64,
    /// Entries with lower numbers are committed.
    committed: u64,
    /// Writes since the last commit, and when the first of them came.
    uncommitted: u64,
    uncommitted_since: Nanos,
    high_free: u32,
    low_free: u32,
    max_age: Option<Nanos>,
    autocommit_blocks: u64,
    autocommit_s: u64,
    group_pages: u32,
    is_pmem: bool,
    successors: Successors,
}

/// Builds dm-writecache for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Stack::new(setup, values, WriteCache::new(setup, values)))
}

impl WriteCache {
    fn new(setup: &Setup, values: &Values) -> Self {
        let slots = setup.capacity_pages[1];
        let pages = Slots::new(setup.ids(), slots);
        let free_at = |name| {
            // As in Linux, a watermark becomes a number of free slots, to the nearest one.
            let free = (u64::from(slots) * (100 - values.integer(name)) + 50) / 100;
            u32::try_from(free).expect("at most all slots are free")
        };
        // Linux looks 16 times in the maximum age, and writes back what would reach it before the
        // next look.
        let max_age = Nanos(values.integer("max_age_s") * (SECOND - SECOND / 16));
        Self {
            entries: Lists::with_values(pages.count(), 1, NO_ENTRY),
            pages,
            free: FreeSlots::all(slots),
            next: 0,
            inserted: 0,
            committed: 0,
            uncommitted: 0,
            uncommitted_since: Nanos(0),
            high_free: free_at("high_watermark"),
            low_free: free_at("low_watermark"),
            max_age: (max_age > Nanos(0)).then_some(max_age),
            autocommit_blocks: values.integer("autocommit_blocks"),
            autocommit_s: values.integer("autocommit_s"),
            group_pages: values.integer_u32("group_pages"),
            is_pmem: values.choice("device") == "pmem",
            successors: Successors::new(&setup.geometry),
        }
    }

    fn is_committed(&self, entry: u32) -> bool {
        self.entries.value(entry).number < self.committed
    }

    fn commit(&mut self) {
        (self.committed, self.uncommitted) = (self.inserted, 0);
    }

    /// Notes a write, and commits when there are many.
    fn written(&mut self, now: Nanos) {
        if self.uncommitted == 0 {
            self.uncommitted_since = now;
        }
        self.uncommitted += 1;
        if self.uncommitted >= self.autocommit_blocks {
            self.commit();
        }
    }

    /// Puts a page that is not there into a free slot.
    fn insert(&mut self, page: PageId, now: Nanos) {
        let slot = self.free.next(self.next).expect("a slot is free");
        self.free.remove(slot);
        self.next = slot + 1;
        let entry = self.pages.enter(page);
        *self.entries.value_mut(entry) = Entry { slot, born: now, number: self.inserted };
        self.entries.push_back(ALL, entry);
        self.inserted += 1;
    }

    fn remove(&mut self, entry: u32) {
        let slot = self.entries.value(entry).slot;
        if self.free.is_empty() {
            self.next = slot;
        }
        self.free.insert(slot);
        self.entries.remove(entry);
        self.pages.leave(entry);
    }

    fn is_too_old(&self, entry: u32, now: Nanos) -> bool {
        let born = self.entries.value(entry).born;
        self.max_age.is_some_and(|max_age| now.0.saturating_sub(born.0) >= max_age.0)
    }

    /// Writes back the oldest pages while there are too few free slots, or pages that are too old.
    fn write_back(&mut self, now: Nanos, out: &mut Actions) {
        while let Some(oldest) = self.entries.front(ALL) {
            if self.free.len() > self.low_free && !self.is_too_old(oldest, now) {
                break;
            }
            self.write_back_group(oldest, out);
        }
    }

    /// Writes back a page and those after it.
    fn write_back_group(&mut self, first: u32, out: &mut Actions) {
        // Only what is committed may go to the disk.
        if !self.is_committed(first) {
            self.commit();
        }
        let mut coming = Some(first);
        for _ in 0..self.group_pages {
            let Some(entry) = coming else { break };
            let page = self.pages.page(entry);
            let slot = self.entries.value(entry).slot;
            let next = self.successors.after(page).and_then(|next| self.pages.find(next));
            coming = next.filter(|&next| {
                let is_beside = self.entries.value(next).slot == slot + 1;
                self.is_committed(next) && (self.is_pmem || is_beside)
            });
            out.copy(page, Tier::FLASH, Tier::DISK);
            out.drop_copy(page, Tier::FLASH);
            self.remove(entry);
        }
    }
}

impl BlockCache for WriteCache {
    fn holds(&self, page: PageId) -> bool {
        self.pages.find(page).is_some()
    }

    fn request(&mut self, Request { page, op, now, .. }: Request, _out: &mut Actions) -> Route {
        if self.uncommitted > 0 && now >= after(self.uncommitted_since, self.autocommit_s) {
            self.commit();
        }
        let entry = self.pages.find(page);
        match (op, entry) {
            (Op::Read, None) => return Route::Disk,
            (Op::Read, Some(_)) => return Route::Flash,
            (Op::Write, Some(entry)) if self.is_pmem && self.is_committed(entry) => {
                if self.free.is_empty() {
                    // The only slots are those of committed pages: the page's own is the one to take.
                    self.remove(entry);
                    self.insert(page, now);
                } else {
                    let slot = self.entries.value(entry).slot;
                    self.entries.remove(entry);
                    self.pages.leave(entry);
                    self.insert(page, now);
                    self.free.insert(slot);
                }
            }
            (Op::Write, Some(_)) => {}
            (Op::Write, None) if self.free.is_empty() => return Route::Disk,
            (Op::Write, None) => self.insert(page, now),
        }
        self.written(now);
        Route::Flash
    }

    fn settle(&mut self, Request { op, now, .. }: Request, out: &mut Actions) {
        let is_full = op == Op::Write && self.free.len() <= self.high_free;
        let oldest = self.entries.front(ALL);
        if is_full || oldest.is_some_and(|oldest| self.is_too_old(oldest, now)) {
            self.write_back(now, out);
        }
    }

    fn idle(&mut self, _idle: Nanos, now: Nanos, out: &mut Actions) {
        let oldest = self.entries.front(ALL);
        if oldest.is_some_and(|oldest| self.is_too_old(oldest, now)) {
            self.write_back(now, out);
        }
    }

    fn flush(&mut self, out: &mut Actions) {
        while let Some(oldest) = self.entries.front(ALL) {
            self.write_back_group(oldest, out);
        }
    }

    /// Restores only dirty pages; if there are too many, those written last.
    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        let dirty = survivors.iter().filter(|survivor| survivor.is_dirty).count();
        let mut surplus = dirty.saturating_sub(self.free.len() as usize);
        for &Survivor { page, is_dirty } in survivors {
            if is_dirty && surplus == 0 {
                self.insert(page, Nanos(0));
                continue;
            }
            if is_dirty {
                surplus -= 1;
                out.copy(page, Tier::FLASH, Tier::DISK);
            }
            out.drop_copy(page, Tier::FLASH);
        }
        self.commit();
    }

    fn prefetch(&self, page: PageId) {
        self.pages.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.pages.assert_invariants();
        self.entries.assert_invariants();
        assert_eq!(self.pages.len(), self.entries.len(ALL), "each page has an entry");
        let mut last = None;
        for entry in self.entries.iter(ALL) {
            let number = self.entries.value(entry).number;
            assert!(last < Some(number), "entries are in the order of their insertion");
            last = Some(number);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.pages.memory_bytes()
            + self.entries.memory_bytes()
            + self.free.memory_bytes()
            + self.successors.memory_bytes()
    }
}
