//! Flash as a log of regions: pages are appended to the open one, and regions are emptied as a whole.
//!
//! * Source: `CacheLib` 278ffc74, `cachelib/navy/block_cache/RegionManager`, and foyer 165cde3d,
//!   `foyer-storage/src/engine/block/`, by a description of their rules.
//! * State: 10 bytes per page of flash, 17 per region, and 4 per page that exists (none where memory is
//!   saved).
//! * Cost: amortised O(1) per page; O(regions) to choose one by what is dead in it.
//! * Deviations: those of the caches that use it.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::queue::{Frames, Lists};
use crate::{Actions, Ids, PageId, Tier};

/// Regions that are kept empty.
const CLEAN_REGIONS: usize = 1;
/// The only list: regions that are full.
const FULL: u32 = 0;

/// Choice of the region to empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The one that was filled first.
    Fifo,
    /// The one that was filled first or read last, longest ago.
    Lru,
    /// The one with most dead pages, if these are four fifths of it, else the one that was filled first.
    /// Before that, so many of the regions that are next are put on probation, less those that are clean.
    MostlyDead { probation: u32 },
}

/// The pages on flash, and where they are.
#[derive(Debug)]
pub(super) struct Regions {
    slots: Frames,
    /// Per slot: hits since it was written.
    hits: Vec<u8>,
    /// Per region: the pages that are live, and whether it is on probation.
    live: Vec<u32>,
    on_probation: Vec<bool>,
    region_pages: u32,
    /// The region that leaves first in front.
    full: Lists,
    clean: VecDeque<u32>,
    open: Option<Open>,
    choice: Choice,
    /// Pages with as many hits are written again when their region is emptied.
    reinserted_hits: Option<u8>,
}

/// The region that is written to.
#[derive(Clone, Copy, Debug)]
struct Open {
    region: u32,
    filled: u32,
}

impl Regions {
    pub(super) fn new(
        ids: Ids,
        regions: u32,
        region_pages: u32,
        choice: Choice,
        reinserted_hits: Option<u8>,
    ) -> Self {
        let slots = regions * region_pages;
        // A log has more slots than pages, if flash is larger than the disk.
        let ids = Ids { pages: ids.pages.max(slots), ..ids };
        Self {
            slots: Frames::new(ids, slots),
            hits: vec![0; slots as usize],
            live: vec![0; regions as usize],
            on_probation: vec![false; regions as usize],
            region_pages,
            full: Lists::new(regions, 1),
            clean: (0..regions).collect(),
            open: None,
            choice,
            reinserted_hits,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    pub(super) fn contains(&self, page: PageId) -> bool {
        self.slot(page).is_some()
    }

    fn slot(&self, page: PageId) -> Option<u32> {
        if self.is_empty() { None } else { self.slots.find(page) }
    }

    /// Notes a hit on a page that is there, and returns whether its region is on probation.
    pub(super) fn hit(&mut self, page: PageId) -> bool {
        let Some(slot) = self.slot(page) else { return false };
        let hits = &mut self.hits[slot as usize];
        *hits = hits.saturating_add(1);
        let region = slot / self.region_pages;
        if self.choice == Choice::Lru && self.full.contains(region) {
            self.full.remove(region);
            self.full.push_back(FULL, region);
        }
        self.on_probation[region as usize]
    }

    /// Makes a hole of a page, and returns `true` if it was there.
    pub(super) fn forget(&mut self, page: PageId) -> bool {
        let slot = if self.is_empty() { None } else { self.slots.take(page) };
        if let Some(slot) = slot {
            self.live[(slot / self.region_pages) as usize] -= 1;
        }
        slot.is_some()
    }

    /// Appends a page. Pages that leave for it are dropped, also from RAM, if they were read to it, unless
    /// they are kept there.
    pub(super) fn append(
        &mut self,
        page: PageId,
        is_in_memory: impl Fn(PageId) -> bool,
        out: &mut Actions,
    ) {
        // A log never overwrites: the former place becomes a hole.
        self.forget(page);
        while self.open.is_none_or(|open| open.filled == self.region_pages) {
            self.open_another(&is_in_memory, out);
        }
        self.put(page);
    }

    /// Writes a page to the open region, which has room.
    fn put(&mut self, page: PageId) {
        let open = self.open.as_mut().expect("a region is open");
        let slot = open.region * self.region_pages + open.filled;
        open.filled += 1;
        self.live[open.region as usize] += 1;
        self.hits[slot as usize] = 0;
        self.slots.put(slot, page);
    }

    /// Closes the open region, and opens a clean one in its place. Then another becomes clean.
    fn open_another(&mut self, is_in_memory: &impl Fn(PageId) -> bool, out: &mut Actions) {
        if let Some(open) = self.open.take() {
            self.full.push_back(FULL, open.region);
        }
        if self.clean.is_empty() {
            self.reclaim(is_in_memory, out);
        }
        let region = self.clean.pop_front().expect("a region was emptied");
        self.open = Some(Open { region, filled: 0 });
        while self.clean.len() < CLEAN_REGIONS && !self.full.is_empty(FULL) {
            self.reclaim(is_in_memory, out);
        }
    }

    /// Empties a region: it is read, and some of its pages are written again.
    fn reclaim(&mut self, is_in_memory: &impl Fn(PageId) -> bool, out: &mut Actions) {
        let region = self.next_to_leave();
        self.full.remove(region);
        self.on_probation[region as usize] = false;
        let first = region * self.region_pages;
        // The region is read with its holes, which have no page to name.
        let mut reads = 1 + self.region_pages - self.live[region as usize];
        for slot in (first..first + self.region_pages).rev() {
            let Some(page) = self.slots.page(slot) else { continue };
            for _ in 0..core::mem::replace(&mut reads, 1) {
                out.copy(page, Tier::FLASH, Tier::RAM);
            }
            if !is_in_memory(page) {
                out.drop_copy(page, Tier::RAM);
            }
            let hits = self.hits[slot as usize];
            self.forget(page);
            // Pages are written again in the open region; those that it has no room for are given
            // up.
            let has_room = self.open.is_some_and(|open| open.filled < self.region_pages);
            if has_room && self.reinserted_hits.is_some_and(|least| hits >= least) {
                out.copy(page, Tier::FLASH, Tier::FLASH);
                self.put(page);
            } else {
                out.drop_copy(page, Tier::FLASH);
            }
        }
        self.clean.push_back(region);
    }

    fn next_to_leave(&mut self) -> u32 {
        let first = self.full.front(FULL).expect("a full region can be emptied");
        let Choice::MostlyDead { probation } = self.choice else { return first };
        let marked = (probation as usize).saturating_sub(self.clean.len());
        for region in self.full.iter(FULL).take(marked) {
            self.on_probation[region as usize] = true;
        }
        let dead = |region: u32| self.region_pages - self.live[region as usize];
        let is_mostly_dead = |&region: &u32| dead(region) * 5 >= self.region_pages * 4;
        // Of several with as many dead pages, the one that was filled first.
        let mut most = None;
        for region in self.full.iter(FULL).filter(is_mostly_dead) {
            if most.is_none_or(|most| dead(region) > dead(most)) {
                most = Some(region);
            }
        }
        most.unwrap_or(first)
    }

    pub(super) fn prefetch(&self, page: PageId) {
        self.slots.prefetch(page);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
            + self.hits.capacity()
            + size_of_val(&*self.live)
            + self.on_probation.capacity()
            + self.full.memory_bytes()
            + self.clean.capacity() * size_of::<u32>()
    }

    pub(super) fn assert_invariants(&self) {
        self.slots.assert_invariants();
        self.full.assert_invariants();
        let regions = self.live.len();
        let open = usize::from(self.open.is_some());
        let counted = self.full.len(FULL) as usize + self.clean.len() + open;
        assert_eq!(counted, regions, "a region is full, clean or open");
        for (region, &live) in (0..).zip(&self.live) {
            let slots = region * self.region_pages..(region + 1) * self.region_pages;
            let pages = slots.filter(|&slot| self.slots.page(slot).is_some()).count();
            assert_eq!(pages, live as usize, "live pages are counted");
        }
    }
}
