//! Hint-K: pages that move a lot between tiers stay near the fast end.
//!
//! A page read from disk enters the fastest tier. A full tier demotes the page of the least K-step
//! hint value, among equals the least recently used; the last tier drops it. A page hit below
//! moves one tier up if there is room or its value is above the least one there, and else becomes
//! the most recently used of its tier.
//!
//! * Source: Wu, He, Cao, Xie, *Hint-K: An Efficient Multi-level Cache Using K-step Hints*, ICPP
//!   2010; with Wan, IEEE TPDS 25(3), 2014.
//! * State: 17 bytes per page that exists, 4 more per tier; 24 bytes per cached page.
//! * Cost: O(tiers * log n) per access.
//! * Deviations: (1) reconstructed from abstracts and from what the HFA paper says of it; the
//!   value's formula is ours. (2) Neither reading from disk nor dropping is a move. (3) A demoted
//!   page is the most recently used of the tier that it enters. (4) With several clients a page has
//!   one history, that of its moves on all paths. No shared tier holds what a first tier does: a
//!   victim that another client's first tier holds is dropped; the last that has it demotes it.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;

use super::hierarchy::Hierarchy;
use super::khv::{self, Histories, Move};
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::prefetch::prefetch;
use crate::queue::{IndexedHeap, Numbers};
use crate::{Access, Actions, BoxedPolicy, PageId, Policy, Setup, Survivor, Tier};

/// The parameters.
pub const PARAMETERS: &[Parameter] =
    &[khv::STEPS, khv::DECAY, khv::PROMOTION, khv::DEMOTION, khv::GHOST_RATIO];

/// The bits of a value, which order as values do since none is negative; then the time of last use.
type Key = (u64, u64);

/// Hint-K.
#[derive(Clone, Debug)]
pub struct HintK {
    hierarchy: Hierarchy,
    numbers: Numbers,
    /// Per tier: its pages' numbers, the victim first.
    tiers: Box<[IndexedHeap<Key>]>,
    /// Per number of a page: the shared tier that holds it, or the disk; or the first tier that a client brought
    /// it to, if it is in such tiers.
    tier_of: Box<[Tier]>,
    histories: Histories,
    /// Counts uses, so that no two pages are equally recent.
    uses: u64,
}

/// Its row in the registry.
pub const HINT_K: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("hint-k"),
    summary: "a page's last moves between tiers say how near to the top it stays (reconstructed)",
    source: "Wu, He, Cao, Xie: Hint-K, ICPP 2010; IEEE TPDS 25(3), 2014",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Tiers),
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let (hierarchy, ids) = (Hierarchy::new(setup), setup.ids());
    let cached_pages = hierarchy.total_pages();
    let ghosts_max = Histories::ghosts_max(ids.pages, cached_pages, values);
    let cached_pages = u32::try_from(cached_pages).unwrap_or(u32::MAX);
    // A page enters before another one leaves.
    let tracked = cached_pages.saturating_add(ghosts_max).saturating_add(1);
    let numbers = Numbers::new(ids, tracked);
    let count = numbers.count();
    Box::new(HintK {
        numbers,
        tiers: setup.tier_capacities_pages().map(|_| IndexedHeap::new(count)).collect(),
        tier_of: vec![hierarchy.disk(); count as usize].into_boxed_slice(),
        histories: Histories::new(count, ghosts_max, values),
        hierarchy,
        uses: 0,
    })
}

impl HintK {
    /// Return the number of a page that is accessed.
    fn enter(&mut self, page: PageId) -> u32 {
        let Self { tier_of, histories, hierarchy, .. } = self;
        self.numbers.enter(page, |number, _| {
            tier_of[number as usize] != hierarchy.disk() || histories.is_ghost(number)
        })
    }

    /// Return the tier at which a client finds a page.
    fn find(&self, client: u8, page: u32) -> Tier {
        let tier = self.tier_of[page as usize];
        if !self.hierarchy.is_top(tier) {
            return tier;
        }
        let top = self.hierarchy.top(client);
        if self.holds(top, page) { top } else { self.hierarchy.disk() }
    }

    /// Return `true` if a cache holds a page.
    fn holds(&self, cache: Tier, page: u32) -> bool {
        self.tiers[cache.index()].contains(page)
    }

    /// Return the first tier of another client that holds a page, if the tier is one itself.
    fn other_holder(&self, tier: Tier, page: u32) -> Option<Tier> {
        let mut others = self.hierarchy.other_tops(tier);
        others.find(|&other| self.hierarchy.is_top(tier) && self.holds(other, page))
    }

    /// Return the tier that a page found there moves to, for a client.
    fn target(&self, client: u8, page: u32, found: Tier) -> Tier {
        if found == self.hierarchy.disk() {
            return self.hierarchy.top(client);
        }
        let Some(above) = self.hierarchy.above(client, found) else { return found };
        let is_better = |((least, _), _): (Key, u32)| self.histories.value(page).to_bits() > least;
        // A page rises if the tier above has room, or a page that is worth less.
        let may_enter =
            !self.is_full(above) || self.tiers[above.index()].least().is_some_and(is_better);
        if may_enter { above } else { found }
    }

    fn is_full(&self, cache: Tier) -> bool {
        self.tiers[cache.index()].len() >= self.hierarchy.capacity(cache) as usize
    }

    /// Makes the page the most recently used of a tier, with its present value.
    fn put(&mut self, cache: Tier, page: u32) {
        self.uses += 1;
        let key = (self.histories.value(page).to_bits(), self.uses);
        self.tiers[cache.index()].set(page, key);
        self.tier_of[page as usize] = cache;
    }

    /// Demotes the victim of a full tier.
    fn make_room(&mut self, cache: Tier, out: &mut Actions) {
        if !self.is_full(cache) {
            return;
        }
        // The victim has the least value; among equals it was used longest ago.
        let (_, victim) = self.tiers[cache.index()].least().expect("a full tier holds a page");
        let (page, below) = (self.numbers.page(victim), self.hierarchy.below(cache));
        self.tiers[cache.index()].remove(victim);
        if let Some(holder) = self.other_holder(cache, victim) {
            self.tier_of[victim as usize] = holder;
        } else if below == self.hierarchy.disk() {
            self.tier_of[victim as usize] = below;
            self.histories.leave(victim);
        } else {
            self.histories.record(victim, Move::Demote);
            self.make_room(below, out);
            out.copy(page, cache, below);
            self.put(below, victim);
        }
        out.drop_copy(page, cache);
    }
}

impl Policy for HintK {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let Access { page, client, .. } = access;
        let number = self.enter(page);
        let found = self.find(client, number);
        let target = self.target(client, number, found);
        for tier in self.hierarchy.outdated_by(access) {
            if self.holds(tier, number) {
                self.tiers[tier.index()].remove(number);
                out.drop_copy(page, tier);
            }
        }
        self.hierarchy.serve(access, found, target, out);
        if found == self.hierarchy.disk() {
            self.histories.enter(number);
        } else if target != found {
            self.tiers[found.index()].remove(number);
            self.histories.record(number, Move::Promote);
        }
        if target != found {
            self.make_room(target, out);
        }
        self.put(target, number);
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.hierarchy.surrender(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.tier_of, page.index());
        self.histories.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.numbers.assert_invariants();
        let is_cached = |page: u32| self.tier_of[page as usize] != self.hierarchy.disk();
        self.histories.assert_invariants(is_cached);
        for (tier, heap) in (0..).map(Tier).zip(&self.tiers) {
            heap.assert_invariants();
            assert!(heap.len() <= self.hierarchy.capacity(tier) as usize, "a tier has room");
            for ((value, _), page) in heap.iter() {
                let known_tier = self.tier_of[page as usize];
                let is_known = known_tier == tier
                    || self.hierarchy.is_top(tier) && self.hierarchy.is_top(known_tier);
                assert!(is_known, "a page knows its only tier, or that it is in first tiers");
                let known = self.histories.value(page).to_bits();
                assert_eq!(value, known, "a value is constant while its page stays");
            }
        }
        for (page, &tier) in (0..).zip(&self.tier_of) {
            assert!(!is_cached(page) || self.holds(tier, page), "every cached page is in its tier");
        }
    }

    fn memory_bytes(&self) -> usize {
        let heaps: usize = self.tiers.iter().map(IndexedHeap::memory_bytes).sum();
        let numbers_bytes = self.numbers.memory_bytes() + size_of_val(&*self.tier_of);
        numbers_bytes + heaps + self.histories.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        let cached: usize = self.tiers.iter().map(IndexedHeap::len).sum();
        self.histories.metadata_bytes(cached)
    }
}
