//! Pages of some tiers, each in one of them at most, by their last use.
//!
//! * Source: see the policy.
//! * State: 20 bytes per page that exists; sparse, 32 bytes per page of the tiers.
//! * Cost: O(1) per change.
//! * Deviations: none.

use alloc::boxed::Box;
use alloc::vec;

use crate::queue::{Lists, Numbers};
use crate::{Ids, PageId};

/// The pages of some tiers.
#[derive(Clone, Debug)]
pub(super) struct Order {
    numbers: Numbers,
    /// Per tier: the numbers of its pages, newest first.
    lists: Lists,
    count: u32,
    /// Per number of a page: when it was last used there.
    used_at: Box<[u64]>,
}

impl Order {
    /// Create empty lists for tiers of these capacities, in pages.
    pub(super) fn new(ids: Ids, capacities: Box<[u32]>) -> Self {
        let count = u32::try_from(capacities.len()).expect("a hierarchy has few tiers");
        let tracked = capacities.into_iter().fold(0, u32::saturating_add);
        let numbers = Numbers::new(ids, tracked);
        Self {
            lists: Lists::new(numbers.count(), count),
            count,
            used_at: vec![0; numbers.count() as usize].into_boxed_slice(),
            numbers,
        }
    }

    /// Return the list that a page is in.
    pub(super) fn list_of(&self, page: PageId) -> Option<u32> {
        self.numbers.find(page).and_then(|number| self.lists.list_of(number))
    }

    pub(super) fn len(&self, list: u32) -> u32 {
        self.lists.len(list)
    }

    /// Return the time between the last uses of a list's newest and oldest page.
    pub(super) fn life(&self, list: u32) -> u64 {
        let used_at = |number: Option<u32>| number.map_or(0, |it| self.used_at[it as usize]);
        used_at(self.lists.front(list)) - used_at(self.lists.back(list))
    }

    /// Makes a page the newest of a list, whether it was there or in none.
    pub(super) fn make_newest(&mut self, list: u32, page: PageId, now: u64) {
        let Self { numbers, lists, used_at, .. } = self;
        let number = numbers.enter(page, |number, _| lists.contains(number));
        if lists.contains(number) {
            lists.move_to_front(number);
        } else {
            lists.push_front(list, number);
        }
        used_at[number as usize] = now;
    }

    /// Takes the page out of its list.
    pub(super) fn remove(&mut self, page: PageId) {
        self.lists.remove(self.numbers.find(page).expect("a page of a list has a number"));
    }

    /// Takes the oldest page out of a list.
    pub(super) fn take_oldest(&mut self, list: u32) -> Option<PageId> {
        let oldest = self.lists.back(list)?;
        self.lists.remove(oldest);
        Some(self.numbers.page(oldest))
    }

    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        self.lists.prefetch(page.0);
    }

    pub(super) fn assert_invariants(&self) {
        self.numbers.assert_invariants();
        self.lists.assert_invariants();
        for list in 0..self.count {
            let used_at = self.lists.iter(list).map(|number| self.used_at[number as usize]);
            assert!(used_at.is_sorted_by(|newer, older| newer >= older), "the newest comes first");
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let bytes = self.numbers.memory_bytes() + self.lists.memory_bytes();
        bytes + size_of_val(&*self.used_at)
    }

    /// Return the size of the times of the pages, in bytes.
    pub(super) fn metadata_bytes(&self) -> usize {
        let pages = |list| self.lists.len(list) as usize;
        (0..self.count).map(pages).sum::<usize>() * size_of::<u64>()
    }
}
