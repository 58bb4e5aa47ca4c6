//! One list of pages per tier, newest first; a page may be in several.
//!
//! * Source: none; what caches that duplicate pages have in common.
//! * State: 4 bytes per page that exists and tier, 20 bytes per page of the first tiers and 10 per page
//!   of the others; sparse, none, 14 and 13.
//! * Cost: amortised O(1) per change, O(tiers) to find a page.
//! * Deviations: none.

use alloc::boxed::Box;

use super::hierarchy::{Caches, Hierarchy};
use crate::action::Sink;
use crate::queue::{Logs, PRESENT, Use};
use crate::{Ids, PageId, Setup, Tier};

/// The only queue of a stack.
const ORDER: usize = 0;

/// Pages, newest first.
#[derive(Clone, Debug)]
pub(crate) struct Stack(Logs<1>);

impl Stack {
    /// Create an empty stack of at most `capacity` pages.
    pub(crate) fn new(ids: Ids, capacity: u32, usage: Use) -> Self {
        Self(Logs::new(ids, capacity, [(capacity, usage)]))
    }

    #[inline]
    pub(crate) fn contains(&self, page: PageId) -> bool {
        self.0.find(page).is_some()
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.0.len(ORDER)
    }

    pub(crate) fn oldest(&mut self) -> Option<PageId> {
        self.0.oldest(ORDER).map(|position| self.0.page(position))
    }

    /// Return the pages, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        self.0.iter(ORDER).rev()
    }

    /// Makes the page the newest, whether it was there or not.
    #[inline]
    pub(crate) fn make_newest(&mut self, page: PageId) {
        match self.0.find(page) {
            Some(position) => self.0.renew(page, (ORDER, position), ORDER, PRESENT),
            None => self.0.push(ORDER, page, PRESENT),
        }
    }

    /// Makes the page the oldest, whether it was there or not.
    pub(crate) fn make_oldest(&mut self, page: PageId) {
        if self.contains(page) {
            self.remove(page);
        }
        self.0.push_oldest(ORDER, page, PRESENT);
    }

    /// Takes a page out that is there.
    #[inline]
    pub(crate) fn remove(&mut self, page: PageId) {
        let position = self.0.find(page).expect("the page is in the stack");
        self.0.remove(ORDER, position);
    }

    /// Takes the oldest page out.
    #[inline]
    pub(crate) fn take_oldest(&mut self) -> Option<PageId> {
        self.0.pop(ORDER).map(|(page, _)| page)
    }

    #[inline]
    pub(crate) fn prefetch(&self, page: PageId) {
        self.0.prefetch(page);
    }

    pub(crate) fn assert_invariants(&self) {
        self.0.assert_invariants();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// The order of each tier's pages.
#[derive(Clone, Debug)]
pub(super) struct Stacks(Box<[Stack]>);

impl Stacks {
    pub(super) fn new(setup: &Setup) -> Self {
        let ids = setup.ids();
        let usage = |tier| if setup.clients.owns(tier) { Use::Lru } else { Use::Leaky };
        let stack = |(tier, pages)| Stack::new(ids, pages, usage(tier));
        Self((0..).map(Tier).zip(setup.tier_capacities_pages()).map(stack).collect())
    }

    /// Return the first of some tiers that holds the page.
    #[inline]
    pub(super) fn find(&self, mut among: Caches, page: PageId) -> Option<Tier> {
        among.find(|&tier| self.holds(tier, page))
    }

    #[inline]
    pub(super) fn holds(&self, tier: Tier, page: PageId) -> bool {
        self.0[tier.index()].contains(page)
    }

    #[inline]
    pub(super) fn len(&self, tier: Tier) -> u32 {
        self.0[tier.index()].len()
    }

    /// Return the pages of a tier, newest first.
    pub(super) fn iter(&self, tier: Tier) -> impl Iterator<Item = PageId> + '_ {
        self.0[tier.index()].iter()
    }

    /// Makes the page the newest of the tier, whether the tier held it or not.
    #[inline]
    pub(super) fn make_newest(&mut self, tier: Tier, page: PageId) {
        self.0[tier.index()].make_newest(page);
    }

    /// Makes the page the oldest of the tier, whether the tier held it or not.
    pub(super) fn make_oldest(&mut self, tier: Tier, page: PageId) {
        self.0[tier.index()].make_oldest(page);
    }

    #[inline]
    pub(super) fn remove(&mut self, tier: Tier, page: PageId) {
        self.0[tier.index()].remove(page);
    }

    /// Takes the oldest page of a tier out.
    pub(super) fn take_oldest(&mut self, tier: Tier) -> Option<PageId> {
        let (faster, rest) = self.0.split_at_mut(tier.index());
        let (stack, slower) = rest.split_first_mut()?;
        let taken = stack.take_oldest();
        stack.0.look_ahead(ORDER, |coming| {
            faster.iter().chain(&*slower).for_each(|other| other.prefetch(coming));
        });
        taken
    }

    /// Gives up the copies that some tiers may hold of a page.
    pub(super) fn drop_copies(&mut self, tiers: Caches, page: PageId, out: &mut impl Sink) {
        for tier in tiers {
            if self.holds(tier, page) {
                self.remove(tier, page);
                out.drop_copy(page, tier);
            }
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        for stack in &self.0 {
            stack.prefetch(page);
        }
    }

    pub(super) fn assert_invariants(&self, hierarchy: &Hierarchy) {
        for (tier, stack) in (0..).map(Tier).zip(&self.0) {
            stack.assert_invariants();
            // A client says what it reads before it says what leaves for it.
            let beside = u32::from(hierarchy.is_top(tier));
            assert!(stack.len() <= hierarchy.capacity(tier) + beside, "a tier holds its capacity");
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(Stack::memory_bytes).sum()
    }
}
