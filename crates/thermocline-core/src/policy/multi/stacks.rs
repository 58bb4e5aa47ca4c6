//! One list of pages per tier, newest first; a page may be in several.
//!
//! * Source: none; what caches that duplicate pages have in common.
//! * State: 12 bytes per page that exists and tier; sparse, 23 per page of each tier.
//! * Cost: O(1) per change, O(tiers) to find a page.
//! * Deviations: none.

use alloc::boxed::Box;

use super::hierarchy::{Caches, Hierarchy};
use crate::queue::{Lists, Numbers};
use crate::{Actions, Ids, PageId, Setup, Tier};

/// The only list of a stack.
const ORDER: u32 = 0;

/// Pages, newest first.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    numbers: Numbers,
    order: Lists,
}

impl Stack {
    /// An empty stack of at most `capacity` pages.
    pub(super) fn new(ids: Ids, capacity: u32) -> Self {
        let numbers = Numbers::new(ids, capacity);
        Self { order: Lists::new(numbers.count(), 1), numbers }
    }

    #[inline]
    pub(super) fn contains(&self, page: PageId) -> bool {
        self.held(page).is_some()
    }

    pub(super) fn len(&self) -> u32 {
        self.order.len(ORDER)
    }

    pub(super) fn oldest(&self) -> Option<PageId> {
        self.order.back(ORDER).map(|number| self.numbers.page(number))
    }

    /// The pages, newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        self.order.iter(ORDER).map(|number| self.numbers.page(number))
    }

    /// Makes the page the newest, whether it was there or not.
    pub(super) fn make_newest(&mut self, page: PageId) {
        let number = self.enter(page);
        if self.order.contains(number) {
            self.order.move_to_front(number);
        } else {
            self.order.push_front(ORDER, number);
        }
    }

    /// Makes the page the oldest, whether it was there or not.
    pub(super) fn make_oldest(&mut self, page: PageId) {
        let number = self.enter(page);
        if self.order.contains(number) {
            self.order.remove(number);
        }
        self.order.push_back(ORDER, number);
    }

    /// Takes a page out that is there.
    pub(super) fn remove(&mut self, page: PageId) {
        let number = self.numbers.find(page).expect("a page of the stack has a number");
        self.order.remove(number);
    }

    /// Takes the oldest page out.
    pub(super) fn take_oldest(&mut self) -> Option<PageId> {
        let number = self.order.back(ORDER)?;
        self.order.remove(number);
        Some(self.numbers.page(number))
    }

    pub(super) fn prefetch(&self, page: PageId) {
        self.order.prefetch(page.0);
    }

    pub(super) fn assert_invariants(&self) {
        self.numbers.assert_invariants();
        self.order.assert_invariants();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.numbers.memory_bytes() + self.order.memory_bytes()
    }

    /// The number of a page of the stack.
    #[inline]
    fn held(&self, page: PageId) -> Option<u32> {
        self.numbers.find(page).filter(|&number| self.order.contains(number))
    }

    /// The number of a page that is in the stack or enters it.
    #[inline]
    fn enter(&mut self, page: PageId) -> u32 {
        let order = &self.order;
        self.numbers.enter(page, |number, _| order.contains(number))
    }
}

/// The order of each tier's pages.
#[derive(Clone, Debug)]
pub(super) struct Stacks(Box<[Stack]>);

impl Stacks {
    pub(super) fn new(setup: &Setup) -> Self {
        let ids = setup.ids();
        Self(setup.tier_capacities_pages().map(|pages| Stack::new(ids, pages)).collect())
    }

    /// The first of some tiers that holds the page.
    pub(super) fn find(&self, mut among: Caches, page: PageId) -> Option<Tier> {
        among.find(|&tier| self.holds(tier, page))
    }

    pub(super) fn holds(&self, tier: Tier, page: PageId) -> bool {
        self.0[tier.index()].contains(page)
    }

    pub(super) fn len(&self, tier: Tier) -> u32 {
        self.0[tier.index()].len()
    }

    /// The pages of a tier, newest first.
    pub(super) fn iter(&self, tier: Tier) -> impl Iterator<Item = PageId> + '_ {
        self.0[tier.index()].iter()
    }

    /// Makes the page the newest of the tier, whether the tier held it or not.
    pub(super) fn make_newest(&mut self, tier: Tier, page: PageId) {
        self.0[tier.index()].make_newest(page);
    }

    /// Makes the page the oldest of the tier, whether the tier held it or not.
    pub(super) fn make_oldest(&mut self, tier: Tier, page: PageId) {
        self.0[tier.index()].make_oldest(page);
    }

    pub(super) fn remove(&mut self, tier: Tier, page: PageId) {
        self.0[tier.index()].remove(page);
    }

    /// Takes the oldest page of a tier out.
    pub(super) fn take_oldest(&mut self, tier: Tier) -> Option<PageId> {
        self.0[tier.index()].take_oldest()
    }

    /// Gives up the copies that some tiers may hold of a page.
    pub(super) fn drop_copies(&mut self, tiers: Caches, page: PageId, out: &mut Actions) {
        for tier in tiers {
            if self.holds(tier, page) {
                self.remove(tier, page);
                out.drop_copy(page, tier);
            }
        }
    }

    pub(super) fn prefetch(&self, page: PageId) {
        for stack in &self.0 {
            stack.prefetch(page);
        }
    }

    pub(super) fn assert_invariants(&self, hierarchy: &Hierarchy) {
        for (tier, stack) in (0..).map(Tier).zip(&self.0) {
            stack.assert_invariants();
            assert!(stack.len() <= hierarchy.capacity(tier), "a tier holds its capacity");
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(Stack::memory_bytes).sum()
    }
}
