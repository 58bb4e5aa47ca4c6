//! DEMOTE of one client that removes what it reads from below: one LRU order, cut into tiers.
//!
//! A victim becomes the newest page of the tier below, and tiers give up their pages in the order of
//! last use. So the tiers together are one order by last use, and a tier is a range of it: a demotion
//! moves no page in the order, but the end of a tier.
//!
//! * Source: see [`demote`](super::demote).
//! * State: 4 bytes per page that exists, 20 bytes per cached page; sparse, none and 14.
//! * Cost: amortised O(tiers) per access.
//! * Deviations: see [`demote`](super::demote).

use super::hierarchy::Hierarchy;
use crate::action::Sink;
use crate::policy::for_each;
use crate::queue::Recency;
use crate::tier::CACHE_TIERS_MAX;
use crate::{Access, Actions, Counts, PageId, Policy, Setup, Survivor, Tier};

/// The pages of each tier, as a class of the order: a bit per tier.
const MASKS: [u8; CACHE_TIERS_MAX] = {
    let mut masks = [0; CACHE_TIERS_MAX];
    let mut tier = 0;
    while tier < CACHE_TIERS_MAX {
        masks[tier] = 1 << tier;
        tier += 1;
    }
    masks
};

/// DEMOTE of one client that removes.
#[derive(Clone, Debug)]
pub(super) struct OneOrder {
    hierarchy: Hierarchy,
    /// The pages of all tiers; the state of each is the bit of its tier.
    order: Recency<CACHE_TIERS_MAX>,
    held_pages: [u32; CACHE_TIERS_MAX],
}

impl OneOrder {
    pub(super) fn new(setup: &Setup) -> Self {
        let hierarchy = Hierarchy::new(setup);
        let pages = u32::try_from(hierarchy.total_pages()).unwrap_or(u32::MAX);
        Self {
            order: Recency::new(setup.ids(), pages.saturating_add(1), MASKS),
            held_pages: [0; CACHE_TIERS_MAX],
            hierarchy,
        }
    }

    /// Process one page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, access: Access, out: &mut impl Sink) {
        let top = self.hierarchy.top(access.client);
        let former = self.order.touch(access.page, MASKS[top.index()]);
        let found = match former {
            0 => self.hierarchy.disk(),
            bit => tier_of(bit),
        };
        self.hierarchy.serve(access, found, top, out);
        if found != top {
            if former != 0 {
                self.held_pages[found.index()] -= 1;
            }
            self.enter(top, out);
        }
    }

    /// Counts a page that has entered a tier; if it is one too many, the oldest leaves.
    fn enter(&mut self, tier: Tier, out: &mut impl Sink) {
        if self.held_pages[tier.index()] < self.hierarchy.capacity(tier) {
            self.held_pages[tier.index()] += 1;
            return;
        }
        let (position, _) =
            self.order.oldest(tier.index()).expect("an over-full tier has an oldest page");
        let victim = self.order.page(position);
        let below = self.hierarchy.below(tier);
        if below == self.hierarchy.disk() {
            self.order.set_state(position, 0);
        } else {
            out.copy(victim, tier, below);
            self.order.set_state(position, MASKS[below.index()]);
            self.enter(below, out);
        }
        out.drop_copy(victim, tier);
    }
}

/// Return the tier of a page in this state.
#[expect(clippy::cast_possible_truncation, reason = "the number of a bit")]
const fn tier_of(state: u8) -> Tier {
    Tier(state.trailing_zeros() as u8)
}

impl Policy for OneOrder {
    fn access(&mut self, access: Access, out: &mut Actions) {
        self.step(access, out);
    }

    fn access_all(
        &mut self,
        accesses: &[Access],
        coming: &[Access],
        _actions: &mut Actions,
        counts: &mut Counts,
    ) {
        for_each(self, accesses, coming, |policy, access| policy.step(access, counts));
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.hierarchy.surrender(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.order.prefetch(page);
    }

    #[inline]
    fn prefetch_next(&self, page: PageId) {
        self.order.prefetch_state(page);
    }

    fn assert_invariants(&self) {
        self.order.assert_invariants();
        let mut held_pages = [0; CACHE_TIERS_MAX];
        let mut slowest = self.hierarchy.disk();
        for (_, _, state) in self.order.iter() {
            assert!(state.is_power_of_two(), "a page is in one tier");
            let tier = tier_of(state);
            assert!(tier <= slowest, "the older a page, the slower its tier");
            slowest = tier;
            held_pages[tier.index()] += 1;
        }
        assert_eq!(held_pages, self.held_pages, "the pages of tiers are counted");
        for tier in self.hierarchy.all_caches() {
            let pages = self.held_pages[tier.index()];
            assert!(pages <= self.hierarchy.capacity(tier), "a tier holds its capacity");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.order.memory_bytes()
    }
}
