//! SIEVE: evict the first page that a hand finds unvisited, wherever it stands in the queue.
//!
//! The pages stand in the order in which they came. A hit marks the page as visited. The hand goes
//! from old to new, takes the marks off and evicts the first page without one; it goes on from there
//! the next time, and from the oldest page when it has passed the newest. Pages that stay do not move,
//! so new ones, which come in ahead of the hand, are looked at soon.
//!
//! * Source: Zhang et al., *SIEVE is Simpler than LRU*, NSDI '24, Algorithm 1.
//! * State: 4 bytes per page that exists, 10 bytes per cached page.
//! * Cost: amortised O(1) per reference; a miss passes 8 pages a step.
//! * Deviations: none.

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::Values;
use crate::queue::{Logs, PRESENT, Use};
use crate::{Op, PageId};

/// The only queue.
const ALL: usize = 0;
/// State bit: the page was visited.
const VISITED: u8 = 1 << 1;

/// The sieve.
#[derive(Clone, Debug)]
pub struct Sieve {
    pages: Logs<1>,
    /// The page that the hand looks at next; none: the oldest.
    hand: Option<PageId>,
    capacity_pages: u32,
}

/// Its row in the registry.
pub const SIEVE: Algorithm = Algorithm::new::<Sieve>(
    "sieve",
    "a hand moves over a FIFO, and evicts the first page that it finds unvisited; no flash",
    "Zhang et al.: SIEVE is Simpler than LRU, NSDI 2024",
    module_path!(),
    &[],
);

impl Sieve {
    /// Evicts a page of a full cache.
    #[inline]
    fn evict(&mut self) -> PageId {
        let mut hand = self.hand.and_then(|page| self.pages.find(page));
        let victim = loop {
            let from = hand.or_else(|| self.pages.oldest(ALL)).expect("a full cache has a page");
            hand = self.pages.unmark_up_to(ALL, from, VISITED);
            if let Some(victim) = hand {
                break victim;
            }
        };
        let page = self.pages.page(victim);
        // Algorithm 1 goes on from the victim's place. The page is noted and not its position,
        // since a push may move entries.
        self.hand = self.pages.newer(ALL, victim).map(|newer| self.pages.page(newer));
        self.pages.remove(ALL, victim);
        page
    }
}

impl Registered for Sieve {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, _values: &Values) -> Self {
        let pages = Logs::new(ids, capacity_pages, [(capacity_pages, Use::Leaky)]);
        Self { pages, hand: None, capacity_pages }
    }
}

impl Replacement for Sieve {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        if let Some(position) = self.pages.find(page) {
            self.pages.set_state(position, PRESENT | VISITED);
            return Outcome::Hit;
        }
        let is_full = self.pages.len(ALL) == self.capacity_pages;
        let evicted = is_full.then(|| self.evict());
        self.pages.push(ALL, page, PRESENT);
        Outcome::Admitted { evicted }
    }

    fn contains(&self, page: PageId) -> bool {
        self.pages.find(page).is_some()
    }

    /// Forget the page; a hand that stands on it goes on to the next one.
    fn forget(&mut self, page: PageId) {
        let Some(position) = self.pages.find(page) else { return };
        if self.hand == Some(page) {
            self.hand = self.pages.newer(ALL, position).map(|newer| self.pages.page(newer));
        }
        self.pages.remove(ALL, position);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.pages.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.pages.assert_invariants();
        assert!(self.pages.len(ALL) <= self.capacity_pages, "the cache holds its capacity");
        assert!(self.hand.is_none_or(|page| self.contains(page)), "the hand is on a page");
    }

    fn memory_bytes(&self) -> usize {
        self.pages.memory_bytes()
    }
}
