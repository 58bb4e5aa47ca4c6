//! LRU: evict the page whose last reference is longest ago. The baseline without flash.
//!
//! * Source: the classical algorithm; as the memory of all buffer-pool papers here.
//! * State: 4 bytes per page that exists, 20 bytes per cached page; sparse, none and 14.
//! * Cost: amortised O(1) per reference.
//! * Deviations: none.

use super::tiny_lfu::NextVictim;
use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::Values;
use crate::queue::Recency;
use crate::{Op, PageId};

/// The state of a page that is in the cache.
const RESIDENT: u8 = 1;
/// The only class: every page of the queue.
const ANY: usize = 0;

/// Least recently used.
#[derive(Clone, Debug)]
pub struct Lru {
    queue: Recency<1>,
    capacity_pages: u32,
}

/// Its row in the registry.
pub const LRU: Algorithm = Algorithm::new::<Lru>(
    "lru",
    "least recently used, write-back, no flash",
    "baseline",
    module_path!(),
    &[],
);

impl Registered for Lru {
    fn new(space: Space<'_>, _values: &Values) -> Self {
        let Space { ids, capacity_pages, .. } = space;
        Self {
            queue: Recency::new(ids, capacity_pages.saturating_add(1), [u8::MAX]),
            capacity_pages,
        }
    }
}

impl Replacement for Lru {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        if self.queue.touch(page, RESIDENT) != 0 {
            return Outcome::Hit;
        }
        let mut evicted = None;
        if self.queue.len() > self.capacity_pages {
            let (position, _) = self.queue.oldest(ANY).expect("an over-full queue has a page");
            evicted = Some(self.queue.page(position));
            self.queue.set_state(position, 0);
        }
        Outcome::Admitted { evicted }
    }

    fn contains(&self, page: PageId) -> bool {
        self.queue.find(page).is_some()
    }

    fn forget(&mut self, page: PageId) {
        if let Some((position, _)) = self.queue.find(page) {
            self.queue.set_state(position, 0);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.queue.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.queue.assert_invariants();
        assert!(self.queue.len() <= self.capacity_pages, "the cache holds its capacity");
    }

    fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
    }
}

impl NextVictim for Lru {
    #[inline]
    fn next_victim(&mut self) -> Option<PageId> {
        let is_full = self.queue.len() == self.capacity_pages;
        let (position, _) = self.queue.oldest(ANY).filter(|_| is_full)?;
        Some(self.queue.page(position))
    }
}
