//! Numbers for the pages that are kept, so that what is known of them takes tables as long as these
//! are many, however many exist.
//!
//! * State: 4 bytes per page that exists, or, sparse, 6 per page that can be kept; 4 bytes per page
//!   that can be kept.
//! * Cost: O(1) per change.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use super::directory::{ABSENT, Directory, Places};
use crate::Ids;
use crate::PageId;

/// No slot.
const NONE: u32 = u32::MAX;

/// Numbered slots that hold a page each, or none.
#[derive(Clone, Debug)]
pub struct Slots {
    /// The slot of each page that is kept.
    numbers: Directory,
    /// Per slot: its page; of a slot that was given back, the one given back before it, or [`NONE`].
    pages: Vec<u32>,
    /// The slot given back last, or [`NONE`].
    free: u32,
    /// Slots from this one on were never taken.
    fresh: u32,
    len: u32,
}

impl Slots {
    /// Create slots for at most `capacity` of the page ids at a time.
    pub fn new(ids: Ids, capacity: u32) -> Self {
        Self {
            numbers: Directory::new(ids, capacity as usize),
            pages: vec![NONE; capacity.min(ids.pages) as usize],
            free: NONE,
            fresh: 0,
            len: 0,
        }
    }

    /// Return the slot of a page, if it has one.
    #[inline]
    pub fn find(&self, page: PageId) -> Option<u32> {
        let slot = self.numbers.find(page.0, page_of(&self.pages));
        (slot != ABSENT).then_some(slot)
    }

    /// Find the slot of a page, if it has one and if it is wanted. There is no branch on the
    /// latter, so that where few pages have both, a processor can predict the outcome.
    #[inline]
    pub fn find_if(&self, is_wanted: bool, page: PageId) -> Option<u32> {
        let unwanted = u32::from(is_wanted).wrapping_sub(1);
        let slot = self.numbers.find(page.0, page_of(&self.pages)) | unwanted;
        (slot != ABSENT).then_some(slot)
    }

    /// Return the page of a slot that is taken.
    #[inline]
    pub fn page(&self, slot: u32) -> PageId {
        PageId(self.pages[slot as usize])
    }

    /// Gives a page that has no slot one of them.
    ///
    /// # Panics
    /// If all are taken.
    #[inline]
    pub fn enter(&mut self, page: PageId) -> u32 {
        debug_assert_eq!(self.find(page), None, "a page has one slot at most");
        let slot = if self.free == NONE {
            self.fresh += 1;
            self.fresh - 1
        } else {
            self.free
        };
        let next = mem::replace(&mut self.pages[slot as usize], page.0);
        if slot == self.free {
            self.free = next;
        }
        self.numbers.put(page.0, slot, page_of(&self.pages));
        self.len += 1;
        slot
    }

    /// Takes a slot back from its page, which is returned.
    #[inline]
    pub fn leave(&mut self, slot: u32) -> PageId {
        let page = self.page(slot);
        debug_assert_eq!(self.find(page), Some(slot), "the slot is taken");
        self.numbers.remove(page.0, page_of(&self.pages));
        // Free slots are chained through the table of their pages, so they take no memory of their
        // own.
        self.pages[slot as usize] = mem::replace(&mut self.free, slot);
        self.len -= 1;
        page
    }

    /// Return the number of slots that are taken.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Return `true` if no slot is taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Return the number of slots: each is less than this.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "they were counted with u32")]
    pub fn count(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Asks the processor for the slot of a page.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        self.numbers.prefetch(page.0);
    }

    /// Return the slot of a page that was [asked for](Self::prefetch), or the last slot: of what is
    /// to be prefetched. A branch on whether the page has a slot could not be predicted.
    #[inline]
    pub fn find_or_last(&self, page: PageId) -> u32 {
        self.numbers.look_up(page.0).min(self.count().saturating_sub(1))
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.numbers.memory_bytes() + size_of_val(&*self.pages)
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        let mut is_free = vec![false; self.fresh as usize];
        let mut slot = self.free;
        while slot != NONE {
            assert!(!mem::replace(&mut is_free[slot as usize], true), "a slot is free once");
            slot = self.pages[slot as usize];
        }
        let mut taken = 0;
        for (slot, _) in (0..).zip(&is_free).filter(|&(_, &is_free)| !is_free) {
            assert_eq!(self.find(self.page(slot)), Some(slot), "the index points back");
            taken += 1;
        }
        assert_eq!(taken, self.len, "slots that are taken are counted");
        assert_eq!(self.numbers.count(), self.len as usize, "every page of the index has a slot");
    }
}

#[inline]
fn page_of(pages: &[u32]) -> impl Fn(u32) -> u32 + '_ {
    |slot| pages[slot as usize]
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::Indexing;

    const PAGES: u32 = 16;

    proptest! {
        #[test]
        fn pages_keep_their_slots(
            indexing in prop_oneof![Just(Indexing::Dense), Just(Indexing::Sparse)],
            capacity in 1..=PAGES,
            steps in prop::collection::vec(0..PAGES, 0..200),
        ) {
            let mut slots = Slots::new(Ids { pages: PAGES, indexing }, capacity);
            let mut model = BTreeMap::new();
            for page in steps {
                if let Some(slot) = model.remove(&page) {
                    prop_assert_eq!(slots.leave(slot), PageId(page));
                } else if slots.len() < capacity {
                    model.insert(page, slots.enter(PageId(page)));
                }
                slots.assert_invariants();
                prop_assert_eq!(slots.len() as usize, model.len());
                prop_assert_eq!(slots.is_empty(), model.is_empty());
                prop_assert!(model.values().all(|&slot| slot < slots.count()));
                for page in 0..PAGES {
                    prop_assert_eq!(slots.find(PageId(page)), model.get(&page).copied());
                }
            }
        }
    }
}
