//! The buckets of bcache: pages are appended to open ones, and leave with their bucket.
//!
//! * Source: Linux, `drivers/md/bcache/alloc.c` and `btree.c`, by a description of their rules.
//! * State: 9 bytes per page of flash, 24 per bucket, and 4 per page that exists (none where memory is
//!   saved).
//! * Cost: O(1) per page; O(buckets) to choose those that are invalidated, and O(pages of flash) to count
//!   what is live, each time that a sixteenth of the cache was written.
//! * Deviations: (1) All buckets are free at first, and hold the first priority. (2) The moving collector,
//!   which is off by default, is left out.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::writeback::SECTORS;
use crate::queue::Frames;
use crate::random::SplitMix64;
use crate::{Actions, Ids, PageId, Tier};

/// The priority of a bucket that was used just now.
const INITIAL_PRIORITY: i64 = 32_768;

/// Finding of a collection about a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Free,
    Clean,
    Dirty,
}

/// Order in which buckets are invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replacement {
    Lru,
    Fifo,
    Random,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    mark: Mark,
    /// `true` if it is open or about to be.
    is_pinned: bool,
    /// Sectors that were live at the last count.
    used: u64,
    priority: i64,
}

/// A bucket that a task appends to.
#[derive(Clone, Copy, Debug)]
struct Open {
    bucket: u32,
    filled: u32,
}

/// The pages on flash, in the slots of their buckets.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    slots: Frames,
    all: Vec<Bucket>,
    bucket_pages: u32,
    open: [Option<Open>; 2],
    /// Buckets that were invalidated, the first one in front.
    free: VecDeque<u32>,
    batch: usize,
    replacement: Replacement,
    hand: u32,
    draws: SplitMix64,
    min_priority: i64,
    /// Buckets that are not in use.
    available: u32,
    /// Sectors that may be inserted before the next collection.
    until_collection: i64,
    /// Sectors that may be requested before all priorities sink.
    until_rescale: i64,
}

/// Fill of the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// Percent of the buckets that are in use.
    pub(super) percent: u32,
    /// Buckets in use, dirty ones among them.
    pub(super) buckets: i64,
    pub(super) bucket_sectors: i64,
}

/// Knows which pages are dirty.
pub(super) trait Dirty {
    fn is_dirty(&self, page: PageId) -> bool;
}

impl Buckets {
    pub(super) fn new(
        ids: Ids,
        buckets: u32,
        bucket_pages: u32,
        replacement: Replacement,
        draws: SplitMix64,
    ) -> Self {
        let slots = buckets * bucket_pages;
        // A log has more slots than pages, if flash is larger than the disk.
        let ids = Ids { pages: ids.pages.max(slots), ..ids };
        let bucket =
            Bucket { mark: Mark::Free, is_pinned: false, used: 0, priority: INITIAL_PRIORITY };
        let batch = (buckets.next_power_of_two() / 256).max(1);
        let mut empty = Self {
            slots: Frames::new(ids, slots),
            all: vec![bucket; buckets as usize],
            bucket_pages,
            open: [None; 2],
            free: VecDeque::new(),
            batch: batch as usize,
            replacement,
            hand: 0,
            draws,
            min_priority: INITIAL_PRIORITY,
            available: buckets,
            until_collection: 0,
            until_rescale: 0,
        };
        empty.until_collection = empty.collection_sectors();
        empty
    }

    /// Return the number of pages of all buckets.
    fn pages(&self) -> u64 {
        self.all.len() as u64 * u64::from(self.bucket_pages)
    }

    fn collection_sectors(&self) -> i64 {
        i64::try_from(self.pages() * SECTORS / 16).expect("sectors can be counted")
    }

    pub(super) fn contains(&self, page: PageId) -> bool {
        !self.all.is_empty() && self.slots.find(page).is_some()
    }

    /// Percent of the buckets that are in use.
    pub(super) fn in_use(&self) -> u32 {
        let count = self.all.len() as u64;
        let share = (100 * self.used_buckets()).checked_div(count).unwrap_or(100);
        u32::try_from(share).expect("it is a share")
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            percent: self.in_use(),
            buckets: self.used_buckets().cast_signed(),
            bucket_sectors: (u64::from(self.bucket_pages) * SECTORS).cast_signed(),
        }
    }

    fn used_buckets(&self) -> u64 {
        self.all.len() as u64 - u64::from(self.available)
    }

    /// Notes that a page is asked for: all buckets grow older.
    pub(super) fn age(&mut self) {
        self.until_rescale -= SECTORS.cast_signed();
        if self.until_rescale >= 0 {
            return;
        }
        // Priorities sink each time that requests have moved a 1024th of the cache.
        self.until_rescale += (self.pages() * SECTORS / 1024).cast_signed();
        let aging = self.all.iter_mut().filter(|bucket| !bucket.is_pinned && bucket.priority > 0);
        let least = aging.map(|bucket| {
            bucket.priority -= 1;
            bucket.priority
        });
        self.min_priority = least.min().unwrap_or(self.min_priority);
    }

    /// Notes that a page that is there was read.
    pub(super) fn used(&mut self, page: PageId) {
        if let Some(slot) = self.slots.find(page) {
            self.all[(slot / self.bucket_pages) as usize].priority = INITIAL_PRIORITY;
        }
    }

    /// Forgets a page, if it is there. Its slot stays as it is until its bucket leaves.
    pub(super) fn forget(&mut self, page: PageId) {
        if !self.all.is_empty() {
            self.slots.take(page);
        }
    }

    /// Appends a page for a task, and returns whether there was room.
    pub(super) fn insert(
        &mut self,
        page: PageId,
        is_dirty: bool,
        is_eviction: bool,
        dirty: &impl Dirty,
        out: &mut Actions,
    ) -> bool {
        self.until_collection -= SECTORS.cast_signed();
        if self.until_collection < 0 {
            self.collect(dirty);
        }
        // The log never overwrites: the older copy is dead from now on, and its space returns with
        // its bucket.
        self.forget(page);
        // A task has an open bucket of its own: data that were written together leave together.
        let task = usize::from(is_eviction);
        if self.open[task].is_none() {
            self.open[task] = self.take(dirty, out);
        }
        let Some(open) = &mut self.open[task] else { return false };
        let bucket = open.bucket;
        self.slots.put(bucket * self.bucket_pages + open.filled, page);
        open.filled += 1;
        let is_full = open.filled == self.bucket_pages;
        if is_dirty {
            self.all[bucket as usize].mark = Mark::Dirty;
        }
        if is_full {
            self.open[task] = None;
            self.all[bucket as usize].is_pinned = false;
        }
        true
    }

    /// Takes a free bucket, if one can be had.
    fn take(&mut self, dirty: &impl Dirty, out: &mut Actions) -> Option<Open> {
        if self.free.is_empty() {
            self.invalidate(out);
        }
        // Dirty counts date from the last collection: buckets may be clean by now.
        if self.free.is_empty() {
            self.collect(dirty);
            self.invalidate(out);
        }
        let number = self.free.pop_front()?;
        let used = u64::from(self.bucket_pages) * SECTORS;
        self.all[number as usize] =
            Bucket { mark: Mark::Clean, is_pinned: true, used, priority: INITIAL_PRIORITY };
        self.available = self.available.saturating_sub(1);
        Some(Open { bucket: number, filled: 0 })
    }

    /// Empties a batch of buckets that hold nothing dirty.
    fn invalidate(&mut self, out: &mut Actions) {
        match self.replacement {
            Replacement::Lru => {
                let mut ranked: Vec<(i64, u32)> = (0..)
                    .zip(&self.all)
                    .filter(|(_, bucket)| bucket.can_leave())
                    .map(|(number, bucket)| (self.rank(bucket), number))
                    .collect();
                ranked.sort_unstable();
                for &(_, number) in ranked.iter().take(self.batch) {
                    self.empty(number, out);
                }
            }
            Replacement::Fifo => {
                for _ in 0..self.all.len() {
                    if self.free.len() == self.batch {
                        break;
                    }
                    let number = self.hand;
                    self.hand = if number as usize + 1 == self.all.len() { 0 } else { number + 1 };
                    self.empty_if_possible(number, out);
                }
            }
            Replacement::Random => {
                let count = u32::try_from(self.all.len()).expect("buckets have 32 bits");
                for _ in 0..count / 2 {
                    if self.free.len() == self.batch {
                        break;
                    }
                    let number = self.draws.below(count);
                    self.empty_if_possible(number, out);
                }
            }
        }
    }

    /// Return the value of a bucket, from its age and contents.
    fn rank(&self, bucket: &Bucket) -> i64 {
        // The kernel's `bucket_prio`: priority above the least one, plus an eighth of the range,
        // times the live sectors.
        let base = (INITIAL_PRIORITY - self.min_priority).div_euclid(8);
        (bucket.priority - self.min_priority + base) * bucket.used.cast_signed()
    }

    fn empty_if_possible(&mut self, number: u32, out: &mut Actions) {
        if self.all[number as usize].can_leave() {
            self.empty(number, out);
        }
    }

    fn empty(&mut self, number: u32, out: &mut Actions) {
        let first = number * self.bucket_pages;
        for slot in first..first + self.bucket_pages {
            if let Some(page) = self.slots.page(slot) {
                self.slots.take(page);
                out.drop_copy(page, Tier::FLASH);
            }
        }
        let bucket = &mut self.all[number as usize];
        // Pinned while it waits in the list, or the next round would empty it again.
        (bucket.is_pinned, bucket.priority) = (true, INITIAL_PRIORITY);
        self.free.push_back(number);
    }

    /// Return the pages on flash.
    pub(super) fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        (0..self.slots.count()).filter_map(|slot| self.slots.page(slot))
    }

    pub(super) fn prefetch(&self, page: PageId) {
        self.slots.prefetch(page);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
            + size_of_val(&*self.all)
            + self.free.capacity() * size_of::<u32>()
    }

    pub(super) fn assert_invariants(&self, dirty: &impl Dirty) {
        self.slots.assert_invariants();
        for page in self.iter().filter(|&page| dirty.is_dirty(page)) {
            let slot = self.slots.find(page).expect("a page of a slot is found there");
            let mark = self.all[(slot / self.bucket_pages) as usize].mark;
            assert_eq!(mark, Mark::Dirty, "the bucket of a dirty page is marked dirty");
        }
        let pinned = self.all.iter().filter(|bucket| bucket.is_pinned).count();
        let open = self.open.iter().flatten().count();
        assert_eq!(pinned, open + self.free.len(), "pinned buckets are open or free");
    }

    /// Counts what is live, and what is dirty.
    fn collect(&mut self, dirty: &impl Dirty) {
        self.until_collection = self.collection_sectors();
        for bucket in self.all.iter_mut().filter(|bucket| !bucket.is_pinned) {
            (bucket.mark, bucket.used) = (Mark::Free, 0);
        }
        for (number, bucket) in (0..).zip(&mut self.all) {
            let first = number * self.bucket_pages;
            for page in (first..first + self.bucket_pages).filter_map(|slot| self.slots.page(slot))
            {
                bucket.used += SECTORS;
                if dirty.is_dirty(page) {
                    bucket.mark = Mark::Dirty;
                } else if bucket.mark == Mark::Free {
                    bucket.mark = Mark::Clean;
                }
            }
        }
        let pinned_or_dirty =
            self.all.iter().filter(|bucket| bucket.is_pinned || bucket.mark == Mark::Dirty);
        let busy = u32::try_from(pinned_or_dirty.count()).expect("buckets have 32 bits");
        self.available = u32::try_from(self.all.len()).expect("buckets have 32 bits") - busy;
    }
}

impl Bucket {
    const fn can_leave(&self) -> bool {
        !self.is_pinned && !matches!(self.mark, Mark::Dirty)
    }
}
