//! ARC: pages seen once and pages seen again share a cache by a target that ghosts of both adapt.
//!
//! Two lists by last reference hold the cache: T1 the pages referenced once lately, T2 those
//! referenced again. Each has a list of ghosts, B1 and B2: pages that left it, without their bytes. A
//! hit on a ghost says which of the two was cut too short, and moves the target length of T1. This is
//! the directory of ARC; what is done with the pages that it evicts is its user's business.
//!
//! * Source: Megiddo, Modha, *ARC: A Self-Tuning, Low Overhead Replacement Cache*, FAST '03, figure
//!   4.
//! * State: 12 bytes per page that exists.
//! * Cost: O(1) per reference.
//! * Deviations: none. The target is a number that need not be whole, as its steps are ratios.

use crate::PageId;
use crate::queue::Lists;

/// T1: pages in the cache that were referenced once lately; the newest is at the front.
const RECENT: u32 = 0;
/// T2: pages in the cache that were referenced again.
const FREQUENT: u32 = 1;
/// B1: pages that left T1.
const RECENT_GHOSTS: u32 = 2;
/// B2: pages that left T2.
const FREQUENT_GHOSTS: u32 = 3;

/// Bytes of a ghost: its page and its links.
const GHOST_BYTES: usize = 12;

/// Which pages ARC keeps, and in what order it would give them up.
#[derive(Clone, Debug)]
pub struct Arc {
    lists: Lists,
    capacity_pages: u32,
    /// The target length of T1, the paper's p.
    target_pages: f64,
}

impl Arc {
    /// An empty cache of so many pages, at least one, for page ids below `pages`.
    ///
    /// # Panics
    /// If the cache has no page.
    pub fn new(pages: u32, capacity_pages: u32) -> Self {
        assert!(capacity_pages > 0, "a cache has a page");
        Self { lists: Lists::new(pages, 4), capacity_pages, target_pages: 0.0 }
    }

    /// A reference; afterwards the page is in the cache. Returns the page that left it, if one did.
    pub fn refer(&mut self, page: PageId) -> Option<PageId> {
        let (evicted, list) = match self.lists.list_of(page.0) {
            Some(RECENT | FREQUENT) => (None, FREQUENT),
            Some(RECENT_GHOSTS) => {
                let step = (self.len_of(FREQUENT_GHOSTS) / self.len_of(RECENT_GHOSTS)).max(1.0);
                self.target_pages = (self.target_pages + step).min(f64::from(self.capacity_pages));
                (Some(self.replace(false)), FREQUENT)
            }
            Some(_) => {
                let step = (self.len_of(RECENT_GHOSTS) / self.len_of(FREQUENT_GHOSTS)).max(1.0);
                self.target_pages = (self.target_pages - step).max(0.0);
                (Some(self.replace(true)), FREQUENT)
            }
            None => (self.make_room(), RECENT),
        };
        if self.lists.contains(page.0) {
            self.lists.remove(page.0);
        }
        self.lists.push_front(list, page.0);
        evicted
    }

    /// Whether the page is in the cache.
    pub fn contains(&self, page: PageId) -> bool {
        matches!(self.lists.list_of(page.0), Some(RECENT | FREQUENT))
    }

    /// The pages of T2, then of T1, each list from the page to be evicted first.
    pub fn coldest(&self) -> [impl Iterator<Item = PageId> + '_; 2] {
        [FREQUENT, RECENT].map(|list| {
            let ids = core::iter::successors(self.lists.back(list), |&id| self.lists.before(id));
            ids.map(PageId)
        })
    }

    /// The pages of T2, then of T1, each list from the page to be evicted last.
    pub fn hottest(&self) -> [impl Iterator<Item = PageId> + '_; 2] {
        [FREQUENT, RECENT].map(|list| self.lists.iter(list).map(PageId))
    }

    /// The target length of T1.
    pub fn target_pages(&self) -> f64 {
        self.target_pages
    }

    /// Pages in T1 and in T2.
    pub fn resident_pages(&self) -> [u32; 2] {
        [RECENT, FREQUENT].map(|list| self.lists.len(list))
    }

    /// Pages in B1 and in B2.
    pub fn ghosts(&self) -> [u32; 2] {
        [RECENT_GHOSTS, FREQUENT_GHOSTS].map(|list| self.lists.len(list))
    }

    /// Asks the processor for what the next reference to `page` will read first.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        self.lists.prefetch(page.0);
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.lists.memory_bytes()
    }

    /// The ghosts, in bytes.
    pub fn metadata_bytes(&self) -> usize {
        self.ghosts().iter().sum::<u32>() as usize * GHOST_BYTES
    }

    /// Checks every invariant of the lists.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        self.lists.assert_invariants();
        let [recent, frequent] = self.resident_pages().map(u64::from);
        let [recent_ghosts, frequent_ghosts] = self.ghosts().map(u64::from);
        let capacity = u64::from(self.capacity_pages);
        assert!(recent + frequent <= capacity, "the cache fits");
        assert!(recent + recent_ghosts <= capacity, "T1 and B1 fit the cache");
        let all = recent + frequent + recent_ghosts + frequent_ghosts;
        assert!(all <= 2 * capacity, "the directory fits twice the cache");
        assert!(
            recent + frequent == capacity || recent_ghosts + frequent_ghosts == 0,
            "there are no ghosts before the cache is full"
        );
        let target = self.target_pages;
        assert!((0.0..=f64::from(self.capacity_pages)).contains(&target), "the target fits");
    }

    /// Case IV of the paper: makes room for a page that the directory does not know.
    fn make_room(&mut self) -> Option<PageId> {
        let [recent, frequent] = self.resident_pages().map(u64::from);
        let [recent_ghosts, frequent_ghosts] = self.ghosts().map(u64::from);
        let capacity = u64::from(self.capacity_pages);
        if recent + recent_ghosts == capacity {
            if recent == capacity {
                return self.forget_oldest(RECENT);
            }
            self.forget_oldest(RECENT_GHOSTS);
            return Some(self.replace(false));
        }
        let all = recent + frequent + recent_ghosts + frequent_ghosts;
        if all < capacity {
            return None;
        }
        if all == 2 * capacity {
            self.forget_oldest(FREQUENT_GHOSTS);
        }
        Some(self.replace(false))
    }

    /// The paper's REPLACE: the oldest page of T1 or T2 leaves the cache and becomes a ghost.
    fn replace(&mut self, is_frequent_ghost: bool) -> PageId {
        let recent = self.len_of(RECENT);
        let is_at_target = recent > 0.0 && recent >= self.target_pages;
        let (list, ghosts) = if recent > self.target_pages || (is_frequent_ghost && is_at_target) {
            (RECENT, RECENT_GHOSTS)
        } else {
            (FREQUENT, FREQUENT_GHOSTS)
        };
        let evicted = self.forget_oldest(list).expect("a full cache has a page to replace");
        self.lists.push_front(ghosts, evicted.0);
        evicted
    }

    fn forget_oldest(&mut self, list: u32) -> Option<PageId> {
        let oldest = self.lists.back(list)?;
        self.lists.remove(oldest);
        Some(PageId(oldest))
    }

    fn len_of(&self, list: u32) -> f64 {
        f64::from(self.lists.len(list))
    }
}
