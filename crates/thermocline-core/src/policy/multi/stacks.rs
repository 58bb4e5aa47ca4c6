//! One list of pages per tier, newest first; a page may be in several.
//!
//! * Source: none; what caches that duplicate pages have in common.
//! * State: 12 bytes per page that exists and tier.
//! * Cost: O(1) per change, O(tiers) to find a page.
//! * Deviations: none.

use alloc::boxed::Box;

use super::hierarchy::{Caches, Hierarchy};
use crate::queue::Lists;
use crate::{Actions, PageId, Setup, Tier};

/// The only list of a tier.
const ORDER: u32 = 0;

/// The order of each tier's pages.
#[derive(Clone, Debug)]
pub(super) struct Stacks(Box<[Lists]>);

impl Stacks {
    pub(super) fn new(setup: &Setup) -> Self {
        let pages = setup.geometry.pages();
        Self(setup.tier_capacities_pages().map(|_| Lists::new(pages, 1)).collect())
    }

    /// The first of some tiers that holds the page.
    pub(super) fn find(&self, mut among: Caches, page: PageId) -> Option<Tier> {
        among.find(|&tier| self.holds(tier, page))
    }

    pub(super) fn holds(&self, tier: Tier, page: PageId) -> bool {
        self.0[tier.index()].contains(page.0)
    }

    pub(super) fn len(&self, tier: Tier) -> u32 {
        self.0[tier.index()].len(ORDER)
    }

    pub(super) fn oldest(&self, tier: Tier) -> Option<PageId> {
        self.0[tier.index()].back(ORDER).map(PageId)
    }

    /// The pages of a tier, newest first.
    pub(super) fn iter(&self, tier: Tier) -> impl Iterator<Item = PageId> + '_ {
        self.0[tier.index()].iter(ORDER).map(PageId)
    }

    /// Makes the page the newest of the tier, whether the tier held it or not.
    pub(super) fn make_newest(&mut self, tier: Tier, page: PageId) {
        if self.holds(tier, page) {
            self.0[tier.index()].move_to_front(page.0);
        } else {
            self.0[tier.index()].push_front(ORDER, page.0);
        }
    }

    /// Makes the page the oldest of the tier, whether the tier held it or not.
    pub(super) fn make_oldest(&mut self, tier: Tier, page: PageId) {
        if self.holds(tier, page) {
            self.0[tier.index()].remove(page.0);
        }
        self.0[tier.index()].push_back(ORDER, page.0);
    }

    pub(super) fn remove(&mut self, tier: Tier, page: PageId) {
        self.0[tier.index()].remove(page.0);
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
        for order in &self.0 {
            order.prefetch(page.0);
        }
    }

    pub(super) fn assert_invariants(&self, hierarchy: &Hierarchy) {
        for (tier, order) in (0..).map(Tier).zip(&self.0) {
            order.assert_invariants();
            assert!(self.len(tier) <= hierarchy.capacity(tier), "a tier holds its capacity");
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(Lists::memory_bytes).sum()
    }
}
