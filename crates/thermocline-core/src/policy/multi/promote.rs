//! PROMOTE: each tier that a page passes on its way up tosses a coin whether to keep it.
//!
//! Tiers are exclusive and nothing is demoted: a victim is dropped. A page that is read starts
//! from the tier that holds it, or from the disk; that tier, and then each one above, keeps it or
//! hands it on. The tier that keeps it answers. The probability of handing on adapts until
//! neighbouring tiers evict pages of the same age.
//!
//! * Source: Gill, *On Multi-level Exclusive Caching: Offline Optimality and Why Promotions Are
//!   Better Than Demotions*, FAST 2008: PROMOTE over LRU.
//! * State: 20 bytes per page that exists, 40 bytes per tier.
//! * Cost: O(tiers) per access.
//! * Deviations: (1) a tier compares the lives when a request reaches it; see the conditions of
//!   the adaptation. (2) Time is counted in accesses to the whole hierarchy. (3) PROMOTE over ARC
//!   is left out.

use alloc::boxed::Box;
use alloc::vec;

use super::hierarchy::Hierarchy;
use super::probabilities::Probabilities;
use crate::config::{Kind, Parameter, Value, Values};
use crate::queue::Lists;
use crate::random::{Draws, SplitMix64};
use crate::{Access, Actions, BoxedPolicy, PageId, Policy, Setup, Survivor, Tier};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "pp",
        kind: Kind::Real { min: 0.0, max: 1.0 },
        default: Value::Auto,
        summary: "the probability with which every lower tier promotes; auto adapts one per tier",
        source: "the paper adapts it",
    },
    Parameter {
        name: "seed",
        kind: Kind::Integer { min: 0, max: u64::MAX },
        default: Value::Integer(0),
        summary: "where the random numbers start",
        source: "arbitrary",
    },
];

/// PROMOTE over LRU.
#[derive(Clone, Debug)]
pub struct Promote<D> {
    hierarchy: Hierarchy,
    /// Per tier: its pages, newest first.
    orders: Lists,
    /// Per page: when it was last used.
    used_at: Box<[u64]>,
    probabilities: Probabilities,
    draws: D,
    now: u64,
}

/// Builds the policy for the registry.
pub fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Promote::new(setup, values, SplitMix64::new(values.integer("seed"))))
}

impl<D: Draws> Promote<D> {
    /// The policy with a source of random numbers: one per lower tier that decides about a page.
    pub fn new(setup: &Setup, values: &Values, draws: D) -> Self {
        let hierarchy = Hierarchy::new(setup);
        let pages = setup.geometry.pages();
        Self {
            orders: Lists::new(pages, u32::from(hierarchy.disk().0)),
            used_at: vec![0; pages as usize].into_boxed_slice(),
            probabilities: Probabilities::new(&hierarchy, values.real_or_auto("pp")),
            hierarchy,
            draws,
            now: 0,
        }
    }

    fn tier_of(&self, page: PageId) -> Option<Tier> {
        self.orders.list_of(page.0).and_then(|list| u8::try_from(list).ok()).map(Tier)
    }

    /// The time between the last uses of a tier's newest and oldest page.
    fn life(&self, cache: Tier) -> u64 {
        let list = u32::from(cache.0);
        let used_at = |page: Option<u32>| page.map_or(0, |page| self.used_at[page as usize]);
        used_at(self.orders.front(list)) - used_at(self.orders.back(list))
    }

    /// Lets every tier that the request reaches compare its life with that of the tier above.
    fn adapt(&mut self, found: Tier) {
        for cache in self.hierarchy.caches_upwards(found) {
            if let Some(above) = self.hierarchy.above(cache) {
                let lives = [self.life(above), self.life(cache)];
                let capacity_pages = self.hierarchy.capacity(cache);
                self.probabilities.adapt(cache, self.now, lives, capacity_pages);
            }
        }
    }

    /// The tier that keeps a page found there, on its way up.
    fn keeper(&mut self, found: Tier) -> Tier {
        let Self { hierarchy, probabilities, draws, .. } = self;
        let mut lower = hierarchy.caches_upwards(found);
        let keeps = |&cache: &Tier| cache == Tier::RAM || draws.unit() >= probabilities.of(cache);
        lower.find(keeps).expect("the fastest tier keeps every page")
    }
}

impl<D: Draws> Policy for Promote<D> {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let page = access.page;
        let found = self.tier_of(page).unwrap_or(self.hierarchy.disk());
        self.now += 1;
        self.adapt(found);
        let keeper = self.keeper(found);
        self.hierarchy.serve(access, found, keeper, out);
        self.used_at[page.index()] = self.now;
        if keeper == found {
            return self.orders.move_to_front(page.0);
        }
        if found != self.hierarchy.disk() {
            self.orders.remove(page.0);
        }
        let list = u32::from(keeper.0);
        if self.orders.len(list) == self.hierarchy.capacity(keeper) {
            let victim = self.orders.back(list).expect("a full tier holds a page");
            self.orders.remove(victim);
            out.drop_copy(PageId(victim), keeper);
        }
        self.orders.push_front(list, page.0);
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.hierarchy.surrender(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.orders.prefetch(page.0);
    }

    fn assert_invariants(&self) {
        self.orders.assert_invariants();
        self.probabilities.assert_invariants();
        for tier in (0..self.hierarchy.disk().0).map(Tier) {
            let list = u32::from(tier.0);
            assert!(self.orders.len(list) <= self.hierarchy.capacity(tier), "a tier has room");
            let used_at = self.orders.iter(list).map(|page| self.used_at[page as usize]);
            assert!(used_at.is_sorted_by(|newer, older| newer > older), "the newest comes first");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.orders.memory_bytes() + size_of_val(&*self.used_at)
    }

    fn metadata_bytes(&self) -> usize {
        let pages: u32 = (0..u32::from(self.hierarchy.disk().0)).map(|l| self.orders.len(l)).sum();
        pages as usize * size_of::<u64>()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        for cache in self.hierarchy.caches().skip(1) {
            report("promote_probability", cache, self.probabilities.of(cache));
        }
    }
}
