//! MRU: evict the page that was referenced last.
//!
//! The right thing where pages are read in a loop that does not fit: what was just read comes last
//! again. It gives the others up for lost.
//!
//! * Source: the classical algorithm; Chou, `DeWitt`, *An Evaluation of Buffer Management Strategies
//!   for Relational Database Systems*, VLDB 1985, for looping references.
//! * State: 4 bytes per page that exists, 20 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: none. The page that is evicted is the last one before the page that comes.

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::Values;
use crate::queue::{Logs, PRESENT, Use};
use crate::{Op, PageId};

/// The only queue: all pages, by their last reference.
const ALL: usize = 0;

/// Most recently used.
#[derive(Clone, Debug)]
pub struct Mru {
    pages: Logs<1>,
    capacity_pages: u32,
}

/// Its row in the registry.
pub const MRU: Algorithm = Algorithm::new::<Mru>(
    "mru",
    "most recently used leaves, no flash",
    "baseline",
    module_path!(),
    &[],
);

impl Registered for Mru {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, _values: &Values) -> Self {
        let pages = Logs::new(ids, capacity_pages, [(capacity_pages, Use::Lru)]);
        Self { pages, capacity_pages }
    }
}

impl Replacement for Mru {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        if let Some(position) = self.pages.find(page) {
            self.pages.renew(page, (ALL, position), ALL, PRESENT);
            return Outcome::Hit;
        }
        let mut evicted = None;
        if self.pages.len(ALL) == self.capacity_pages {
            let newest = self.pages.newest(ALL).expect("a full cache has a page");
            evicted = Some(self.pages.page(newest));
            self.pages.remove(ALL, newest);
        }
        self.pages.push(ALL, page, PRESENT);
        Outcome::Admitted { evicted }
    }

    fn contains(&self, page: PageId) -> bool {
        self.pages.find(page).is_some()
    }

    fn forget(&mut self, page: PageId) {
        if let Some(position) = self.pages.find(page) {
            self.pages.remove(ALL, position);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.pages.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.pages.assert_invariants();
        assert!(self.pages.len(ALL) <= self.capacity_pages, "the cache holds its capacity");
    }

    fn memory_bytes(&self) -> usize {
        self.pages.memory_bytes()
    }
}
