//! ARC: pages seen once and pages seen again share a cache by a target that ghosts of both adapt.
//!
//! Two lists by last reference hold the cache: T1 the pages referenced once lately, T2 those
//! referenced again. Each has a list of ghosts, B1 and B2: pages that left it, without their bytes. A
//! hit on a ghost says which of the two was cut too short, and moves the target length of T1.
//!
//! * Source: Megiddo, Modha, *ARC: A Self-Tuning, Low Overhead Replacement Cache*, FAST '03, figure
//!   4.
//! * State: 4 bytes per page that exists, 60 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: none. The target is a number that need not be whole, as its steps are ratios.

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::Values;
use crate::queue::{Logs, PRESENT, Use};
use crate::{Op, PageId};

/// T1: pages in the cache that were referenced once lately; the oldest leaves first.
const RECENT: usize = 0;
/// T2: pages in the cache that were referenced again.
const FREQUENT: usize = 1;
/// B1: pages that left T1.
const RECENT_GHOSTS: usize = 2;
/// B2: pages that left T2.
const FREQUENT_GHOSTS: usize = 3;

/// Bytes of a ghost: its page and its links.
const GHOST_BYTES: usize = 12;

/// Pages that ARC keeps, and the order in which it would evict them.
#[derive(Clone, Debug)]
pub struct Arc {
    lists: Logs<4>,
    capacity_pages: u32,
    /// The target length of T1, the paper's p.
    target_pages: f64,
    /// `true` if a page was taken out: then the cache may have room while there are ghosts.
    has_forgotten: bool,
}

/// Its row in the registry.
pub const ARC: Algorithm = Algorithm::new::<Arc>(
    "arc",
    "pages seen once and pages seen again, by a target that ghosts adapt; no flash",
    "Megiddo, Modha: ARC, FAST 2003",
    module_path!(),
    &[],
);

impl Arc {
    /// Return the pages of T2, then of T1, each list from the page to be evicted first.
    pub fn coldest(&self) -> [impl Iterator<Item = PageId> + '_; 2] {
        [FREQUENT, RECENT].map(|list| self.lists.iter(list))
    }

    /// Return the pages of T2, then of T1, each list from the page to be evicted last.
    pub fn hottest(&self) -> [impl Iterator<Item = PageId> + '_; 2] {
        [FREQUENT, RECENT].map(|list| self.lists.iter(list).rev())
    }

    /// Return `true` if a page of the cache was referenced again: then it is in T2.
    pub fn is_frequent(&self, page: PageId) -> bool {
        self.lists.queue_of(page) == Some(FREQUENT)
    }

    /// Return the pages in T1 and in T2.
    fn resident_pages(&self) -> [u32; 2] {
        [RECENT, FREQUENT].map(|list| self.lists.len(list))
    }

    /// Return the pages in B1 and in B2.
    fn ghosts(&self) -> [u32; 2] {
        [RECENT_GHOSTS, FREQUENT_GHOSTS].map(|list| self.lists.len(list))
    }

    fn is_full(&self) -> bool {
        self.resident_pages().iter().sum::<u32>() == self.capacity_pages
    }

    /// Case II of the paper: a ghost of T1 returns.
    fn lengthen_recent(&mut self) -> Option<PageId> {
        // A hit in B1 shows that a longer T1 would have hit. The step is larger the shorter B1 is
        // compared with B2.
        let step = (self.len_of(FREQUENT_GHOSTS) / self.len_of(RECENT_GHOSTS)).max(1.0);
        self.target_pages = (self.target_pages + step).min(f64::from(self.capacity_pages));
        self.replace(false)
    }

    /// Case III of the paper: a ghost of T2 returns.
    fn shorten_recent(&mut self) -> Option<PageId> {
        // A hit in B2 shows that a longer T2 would have hit.
        let step = (self.len_of(RECENT_GHOSTS) / self.len_of(FREQUENT_GHOSTS)).max(1.0);
        self.target_pages = (self.target_pages - step).max(0.0);
        self.replace(true)
    }

    /// Case IV of the paper: makes room for a page that the directory does not know.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs a part of the work")]
    fn make_room(&mut self) -> Option<PageId> {
        let [recent, frequent] = self.resident_pages().map(u64::from);
        let [recent_ghosts, frequent_ghosts] = self.ghosts().map(u64::from);
        let capacity = u64::from(self.capacity_pages);
        let is_recent_full = recent + recent_ghosts == capacity;
        // Case IV.A with an empty B1: T1 fills the cache, and its oldest page leaves without
        // becoming a ghost.
        if is_recent_full && recent == capacity {
            return self.lists.pop(RECENT).map(|(page, _)| page);
        }
        // Case IV.A otherwise drops the oldest page of B1; case IV.B drops that of B2 once the
        // directory holds twice the capacity.
        if is_recent_full || recent + frequent + recent_ghosts + frequent_ghosts == 2 * capacity {
            self.lists.pop(if is_recent_full { RECENT_GHOSTS } else { FREQUENT_GHOSTS });
        }
        self.replace(false)
    }

    /// Return the paper's REPLACE: the oldest page of T1 or T2 leaves a full cache and becomes a
    /// ghost.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs a part of the work")]
    fn replace(&mut self, is_frequent_ghost: bool) -> Option<PageId> {
        // The condition of case IV.B, that the directory holds c pages or more, is this one as long
        // as no page was taken out; after that a cache with ghosts may have room.
        if !self.is_full() {
            return None;
        }
        let recent = self.len_of(RECENT);
        let is_at_target = recent > 0.0 && recent >= self.target_pages;
        // T1 gives up a page if it exceeds the target; at the target only for a page of B2, since
        // such a page is about to enter T2.
        let is_recent = recent > self.target_pages || (is_frequent_ghost && is_at_target);
        // T2 can be empty at its turn only where pages were taken out of it.
        let list = if is_recent || self.lists.is_empty(FREQUENT) { RECENT } else { FREQUENT };
        let evicted = self.lists.shift(list, ghosts_of(list), PRESENT);
        Some(evicted.expect("a full cache has a page to replace"))
    }

    fn len_of(&self, list: usize) -> f64 {
        f64::from(self.lists.len(list))
    }
}

impl Registered for Arc {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, _values: &Values) -> Self {
        let ghosts_max = capacity_pages.saturating_mul(2);
        let uses = [
            (capacity_pages, Use::Leaky),
            (capacity_pages, Use::Lru),
            (capacity_pages, Use::Leaky),
            (ghosts_max, Use::Leaky),
        ];
        Self {
            lists: Logs::new(ids, ghosts_max, uses),
            capacity_pages,
            target_pages: 0.0,
            has_forgotten: false,
        }
    }
}

impl Replacement for Arc {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work of a hit")]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        let Some(mut position) = self.lists.find(page) else {
            // Case IV: an unknown page enters T1.
            let evicted = self.make_room();
            self.lists.push(RECENT, page, PRESENT);
            return Outcome::Admitted { evicted };
        };
        let list = self.lists.queue_at(position);
        // Case I: a hit in T1 or T2. Cases II and III: a hit in B1 or B2. In all of them the page
        // moves to T2.
        let outcome = if list == RECENT || list == FREQUENT {
            Outcome::Hit
        } else {
            let evicted =
                if list == RECENT_GHOSTS { self.lengthen_recent() } else { self.shorten_recent() };
            // An eviction may have rebuilt the log of ghosts.
            position = self.lists.find(page).expect("it is in the directory");
            Outcome::Admitted { evicted }
        };
        self.lists.renew(page, (list, position), FREQUENT, PRESENT);
        outcome
    }

    fn contains(&self, page: PageId) -> bool {
        matches!(self.lists.queue_of(page), Some(RECENT | FREQUENT))
    }

    fn forget(&mut self, page: PageId) {
        if let Some(position) = self.lists.find(page) {
            self.lists.remove(self.lists.queue_at(position), position);
            self.has_forgotten = true;
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.lists.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.lists.assert_invariants();
        let [recent, frequent] = self.resident_pages().map(u64::from);
        let [recent_ghosts, frequent_ghosts] = self.ghosts().map(u64::from);
        let capacity = u64::from(self.capacity_pages);
        assert!(recent + frequent <= capacity, "the cache fits");
        assert!(recent + recent_ghosts <= capacity, "T1 and B1 fit the cache");
        let all = recent + frequent + recent_ghosts + frequent_ghosts;
        assert!(all <= 2 * capacity, "the directory fits twice the cache");
        assert!(
            recent + frequent == capacity
                || recent_ghosts + frequent_ghosts == 0
                || self.has_forgotten,
            "there are no ghosts before the cache is full"
        );
        let target = self.target_pages;
        assert!((0.0..=f64::from(self.capacity_pages)).contains(&target), "the target fits");
    }

    fn memory_bytes(&self) -> usize {
        self.lists.memory_bytes()
    }

    /// Return the ghosts.
    fn metadata_bytes(&self) -> usize {
        self.ghosts().iter().sum::<u32>() as usize * GHOST_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        let [recent, frequent] = self.resident_pages();
        let [recent_ghosts, frequent_ghosts] = self.ghosts();
        report("target_pages", self.target_pages);
        report("recent_pages", f64::from(recent));
        report("frequent_pages", f64::from(frequent));
        report("recent_ghosts", f64::from(recent_ghosts));
        report("frequent_ghosts", f64::from(frequent_ghosts));
    }
}

/// Return the ghosts of a list of the cache.
const fn ghosts_of(list: usize) -> usize {
    list + RECENT_GHOSTS
}
