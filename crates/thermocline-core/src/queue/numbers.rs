//! Numbers for the pages that a policy tracks, which index its tables.
//!
//! With dense indexing the number of a page is its id: tables are as long as the disk, and nothing is
//! looked up. With sparse indexing a page gets the first free one of a few numbers: tables are a
//! little longer than the pages tracked at once. A policy does not give numbers back. When all are
//! taken, a hand goes round and takes the first number whose page the policy tracks no more.
//!
//! * State: none; sparse, 11 bytes per page tracked.
//! * Cost: O(1); sparse, a new page takes 16 steps of the hand on average.

use alloc::vec::Vec;

use super::Index;
use crate::PageId;
use crate::{Ids, Indexing};

/// One number of this many is left for pages that are no longer tracked, which limits the hand's steps.
const SLACK: u32 = 16;
/// Steps of the hand before a growing set of numbers grows.
const STEPS_MAX: u32 = 16;

/// The numbers of pages.
#[derive(Clone, Debug)]
pub struct Numbers(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Ids below this are numbers.
    Ids(u32),
    Slots(Slots),
}

#[derive(Clone, Debug)]
struct Slots {
    index: Index,
    /// Per number that was ever taken: its page.
    pages: Vec<u32>,
    count: u32,
    hand: u32,
    /// `true` if few numbers are taken where few pages are tracked.
    is_growing: bool,
}

impl Numbers {
    /// Numbers for pages of which the policy tracks at most `tracked` at once.
    pub fn new(ids: Ids, tracked: u32) -> Self {
        Self(match ids.indexing {
            Indexing::Dense => Kind::Ids(ids.pages),
            Indexing::Sparse => {
                // Some numbers stay free: otherwise, the hand would pass nearly all tracked pages for
                // each new one.
                let slack = (tracked / SLACK).saturating_add(SLACK);
                let count = tracked.saturating_add(slack).min(ids.pages);
                Kind::Slots(Slots::new(count, count as usize, false))
            }
        })
    }

    /// Numbers for pages of which the policy may track all at once, but fewer as a rule. Sparse numbers
    /// take little memory at first; a policy's tables grow with [`taken`](Self::taken).
    pub fn growing(ids: Ids) -> Self {
        Self(match ids.indexing {
            Indexing::Dense => Kind::Ids(ids.pages),
            Indexing::Sparse => Kind::Slots(Slots::new(ids.pages, 0, true)),
        })
    }

    /// Return the number of numbers: each is less than this.
    pub fn count(&self) -> u32 {
        match &self.0 {
            Kind::Ids(pages) => *pages,
            Kind::Slots(slots) => slots.count,
        }
    }

    /// Return the number of a page that has one. The policy may track it or not.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    pub fn find(&self, page: PageId) -> Option<u32> {
        match &self.0 {
            Kind::Ids(_) => Some(page.0),
            Kind::Slots(slots) => slots.find_outlined(page),
        }
    }

    /// Return the number of a page if it is its id, so that finding it takes no search.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    pub fn find_at_once(&self, page: PageId) -> Option<u32> {
        matches!(self.0, Kind::Ids(_)).then_some(page.0)
    }

    /// Return the number of a page, which gets one if it has none: one of which `is_tracked` says
    /// that the policy does not track its page. The tables must hold there the state of
    /// a new page.
    ///
    /// # Panics
    /// If the policy tracks more pages than it was made for.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    pub fn enter(&mut self, page: PageId, is_tracked: impl Fn(u32, PageId) -> bool) -> u32 {
        match &mut self.0 {
            Kind::Ids(_) => page.0,
            Kind::Slots(slots) => slots.find_or_take(page, is_tracked),
        }
    }

    /// Return the page of a number that is taken.
    #[inline]
    pub fn page(&self, number: u32) -> PageId {
        match &self.0 {
            Kind::Ids(_) => PageId(number),
            Kind::Slots(slots) => PageId(slots.pages[number as usize]),
        }
    }

    /// Return the number below which all are that were ever taken.
    pub fn taken(&self) -> u32 {
        match &self.0 {
            Kind::Ids(pages) => *pages,
            Kind::Slots(slots) => slots.taken(),
        }
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Kind::Ids(_) => 0,
            Kind::Slots(slots) => {
                slots.index.memory_bytes() + slots.pages.capacity() * size_of::<u32>()
            }
        }
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        if let Kind::Slots(slots) = &self.0 {
            assert_eq!(slots.index.len(), slots.pages.len(), "each number has a page");
            for (number, &page) in (0..).zip(&slots.pages) {
                assert_eq!(slots.find(PageId(page)), Some(number), "the index points back");
            }
        }
    }
}

impl Slots {
    fn new(count: u32, room: usize, is_growing: bool) -> Self {
        let (index, pages) = (Index::with_capacity(room), Vec::with_capacity(room));
        Self { index, pages, count, hand: 0, is_growing }
    }

    #[inline]
    fn find(&self, page: PageId) -> Option<u32> {
        self.index.find(page.0, page_of(&self.pages))
    }

    /// Return the same, out of the way of replays, whose numbers are ids.
    #[cold]
    #[inline(never)]
    fn find_outlined(&self, page: PageId) -> Option<u32> {
        self.find(page)
    }

    #[cold]
    #[inline(never)]
    fn find_or_take(&mut self, page: PageId, is_tracked: impl Fn(u32, PageId) -> bool) -> u32 {
        self.find(page).unwrap_or_else(|| self.take(page, is_tracked))
    }

    /// Gives a page without a number one.
    fn take(&mut self, page: PageId, is_tracked: impl Fn(u32, PageId) -> bool) -> u32 {
        let is_full = self.taken() == self.count;
        let steps = if is_full { self.count } else { STEPS_MAX.min(self.taken()) };
        let steps = if is_full || self.is_growing { steps } else { 0 };
        let number = match self.turn(steps, is_tracked) {
            Some(number) => {
                self.index.remove(self.pages[number as usize], page_of(&self.pages));
                self.pages[number as usize] = page.0;
                number
            }
            None => {
                assert!(!is_full, "a policy tracks no more pages than it says");
                if self.pages.len() == self.pages.capacity() {
                    // By an eighth: doubling would leave half of the memory unused that sparse
                    // indexing saves.
                    self.pages.reserve_exact(self.pages.len() / 8 + 1);
                }
                self.pages.push(page.0);
                self.taken() - 1
            }
        };
        self.index.put(page.0, number, page_of(&self.pages));
        number
    }

    /// Moves the hand past the first number whose page is not tracked, and returns that number. Without
    /// such a number among the next `steps`, the hand moves past these.
    fn turn(&mut self, steps: u32, is_tracked: impl Fn(u32, PageId) -> bool) -> Option<u32> {
        for _ in 0..steps {
            let number = self.hand;
            self.hand = if number + 1 == self.taken() { 0 } else { number + 1 };
            if !is_tracked(number, PageId(self.pages[number as usize])) {
                return Some(number);
            }
        }
        None
    }

    #[expect(clippy::cast_possible_truncation, reason = "they were counted with u32")]
    fn taken(&self) -> u32 {
        self.pages.len() as u32
    }
}

/// Return the page of each number.
#[inline]
fn page_of(pages: &[u32]) -> impl Fn(u32) -> u32 + '_ {
    |number| pages[number as usize]
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const PAGES: u32 = 60;

    proptest! {
        /// Pages are tracked in the order of a queue; those that left it may lose their numbers.
        #[test]
        fn tracked_pages_keep_their_numbers(
            tracked in 1_usize..20,
            is_growing in any::<bool>(),
            steps in prop::collection::vec(0..PAGES, 0..400),
        ) {
            let ids = Ids::sparse(PAGES);
            let mut numbers = if is_growing {
                Numbers::growing(ids)
            } else {
                Numbers::new(ids, u32::try_from(tracked).unwrap())
            };
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for page in steps {
                if model.remove(&page).is_none() && model.len() < tracked {
                    let is_tracked = |number, _| model.values().any(|&known| known == number);
                    let number = numbers.enter(PageId(page), is_tracked);
                    prop_assert!(number < numbers.taken() && !is_tracked(number, PageId(page)));
                    model.insert(page, number);
                }
                numbers.assert_invariants();
                for (&page, &number) in &model {
                    prop_assert_eq!(numbers.find(PageId(page)), Some(number));
                    prop_assert_eq!(numbers.page(number), PageId(page));
                }
            }
        }
    }

    #[test]
    fn ids_are_numbers_of_a_dense_index() {
        let mut numbers = Numbers::new(Ids::dense(PAGES), 3);
        assert_eq!(numbers.enter(PageId(50), |_, _| true), 50);
        assert_eq!((numbers.find(PageId(7)), numbers.page(7)), (Some(7), PageId(7)));
        assert_eq!((numbers.count(), numbers.taken(), numbers.memory_bytes()), (PAGES, PAGES, 0));
    }

    #[test]
    #[should_panic(expected = "a policy tracks no more pages than it says")]
    fn numbers_that_are_all_tracked_run_out() {
        let mut numbers = Numbers::new(Ids::sparse(PAGES), 3);
        for page in (0..PAGES).map(PageId) {
            numbers.enter(page, |_, _| true);
        }
    }
}
