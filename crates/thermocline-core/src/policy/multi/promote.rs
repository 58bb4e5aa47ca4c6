//! PROMOTE: each tier that a page passes on its way up tosses a coin whether to keep it.
//!
//! Tiers are exclusive and nothing is demoted: a victim is dropped. A page that is read starts
//! from the tier that holds it, or from the disk; that tier, and then each one above, keeps it or
//! hands it on. The tier that keeps it answers. The probability of handing on adapts until
//! neighbouring tiers evict pages of the same age.
//!
//! * Source: Gill, *On Multi-level Exclusive Caching: Offline Optimality and Why Promotions Are
//!   Better Than Demotions*, FAST 2008: PROMOTE over LRU.
//! * State: 20 bytes per page that exists, with several clients for each of them and once more; sparse,
//!   31 bytes per cached page; 40 bytes per tier.
//! * Cost: O(tiers) per access.
//! * Deviations: (1) a tier compares the lives when a request reaches it; see the conditions of
//!   the adaptation. (2) Time is counted in accesses to the whole hierarchy. (3) PROMOTE over ARC
//!   is left out. (4) With several clients, as the paper has it, the tier below them keeps a
//!   probability for each, and a page that came to them on different paths may be in several first
//!   tiers and a shared one; a write renews that one on its way to disk.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use core::iter;
use core::ops::Range;

use super::hierarchy::Hierarchy;
use super::probabilities::{self, PROMOTE_PROBABILITY, Probabilities};
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::queue::{Lists, Numbers};
use crate::random::{Draws, SEED, SplitMix64};
use crate::{
    Access, Actions, BoxedPolicy, Clients, Ids, Op, PageId, Policy, Setup, Survivor, Tier,
};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[PROMOTE_PROBABILITY, SEED];

/// PROMOTE over LRU.
#[derive(Clone, Debug)]
pub struct Promote<D> {
    hierarchy: Hierarchy,
    /// Per client: the pages of its first tier; at last, those of the shared tiers, a list for
    /// each. With one client, all tiers are in one, as no page is in two.
    orders: Box<[Order]>,
    probabilities: Probabilities,
    draws: D,
    now: u64,
}

/// Pages of some tiers, each in one of them at most.
#[derive(Clone, Debug)]
struct Order {
    numbers: Numbers,
    /// Per tier: the numbers of its pages, newest first.
    lists: Lists,
    /// Per number of a page: when it was last used there.
    used_at: Box<[u64]>,
}

impl Order {
    /// Create empty lists for these tiers.
    fn new(ids: Ids, hierarchy: &Hierarchy, tiers: Range<u8>) -> Self {
        let lists = u32::from(tiers.end - tiers.start);
        let capacities = tiers.map(|tier| hierarchy.capacity(Tier(tier)));
        let numbers = Numbers::new(ids, capacities.fold(0, u32::saturating_add));
        Self {
            lists: Lists::new(numbers.count(), lists),
            used_at: vec![0; numbers.count() as usize].into_boxed_slice(),
            numbers,
        }
    }

    /// Return the list that a page is in.
    fn list_of(&self, page: PageId) -> Option<u32> {
        self.numbers.find(page).and_then(|number| self.lists.list_of(number))
    }

    fn memory_bytes(&self) -> usize {
        let bytes = self.numbers.memory_bytes() + self.lists.memory_bytes();
        bytes + size_of_val(&*self.used_at)
    }
}

/// Its row in the registry.
pub const PROMOTE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("promote"),
    summary: "exclusive without demotions: each tier on the way up tosses a coin to keep a page",
    source: "Gill: On Multi-level Exclusive Caching, FAST 2008",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Tiers),
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Promote::new(setup, values, SplitMix64::new(values.integer(SEED.name))))
}

impl<D: Draws> Promote<D> {
    /// Return the policy with a source of random numbers: one per lower tier that decides about a
    /// page.
    pub fn new(setup: &Setup, values: &Values, draws: D) -> Self {
        let hierarchy = Hierarchy::new(setup);
        let order = |tiers: Range<u8>| Order::new(setup.ids(), &hierarchy, tiers);
        let (first, disk) = (hierarchy.first_shared().0, hierarchy.disk().0);
        let orders = match setup.clients {
            Clients::ONE => iter::once(order(0..disk)).collect(),
            _ => (0..first).map(|top| order(top..top + 1)).chain([order(first..disk)]).collect(),
        };
        Self {
            orders,
            probabilities: Probabilities::new(&hierarchy, probabilities::fixed(values)),
            hierarchy,
            draws,
            now: 0,
        }
    }

    /// Return the index of a tier's order, and its list there.
    fn place(&self, tier: Tier) -> (usize, u32) {
        let last = self.orders.len() - 1;
        if last == 0 {
            (0, u32::from(tier.0))
        } else if self.hierarchy.is_top(tier) {
            (tier.index(), 0)
        } else {
            (last, u32::from(tier.0 - self.hierarchy.first_shared().0))
        }
    }

    /// Return the tier that holds the page for a client.
    fn find(&self, client: u8, page: PageId) -> Option<Tier> {
        let top = self.hierarchy.top(client);
        let (own, _) = self.place(top);
        let is_on_top = own + 1 < self.orders.len() && self.orders[own].list_of(page).is_some();
        if is_on_top { Some(top) } else { self.find_shared(page) }
    }

    /// Return the shared tier that holds the page, or with one client any tier.
    fn find_shared(&self, page: PageId) -> Option<Tier> {
        let last = self.orders.len() - 1;
        let first = if last == 0 { 0 } else { self.hierarchy.first_shared().0 };
        let place = self.orders[last].list_of(page)?;
        u8::try_from(place).ok().map(|place| Tier(first + place))
    }

    /// Return the time between the last uses of a tier's newest and oldest page.
    fn life(&self, cache: Tier) -> u64 {
        let (order, list) = self.place(cache);
        let Order { lists, used_at, .. } = &self.orders[order];
        let used_at = |number: Option<u32>| number.map_or(0, |number| used_at[number as usize]);
        used_at(lists.front(list)) - used_at(lists.back(list))
    }

    /// Lets every tier that the request reaches compare its life with that of the tier above.
    fn adapt(&mut self, client: u8, found: Tier) {
        for cache in self.hierarchy.caches_upwards(client, found) {
            if let Some(above) = self.hierarchy.above(client, cache) {
                let lives = [self.life(above), self.life(cache)];
                let capacity_pages = self.hierarchy.capacity(cache);
                self.probabilities.adapt(above, self.now, lives, capacity_pages);
            }
        }
    }

    /// Return the tier that keeps a page found there, on its way up to a client.
    fn keeper(&mut self, client: u8, found: Tier) -> Tier {
        let Self { hierarchy, probabilities, draws, .. } = self;
        let mut lower = hierarchy.caches_upwards(client, found);
        let mut keeps = |cache| match hierarchy.above(client, cache) {
            // Each tier on the way up keeps the page with probability 1 - pp, or passes it on and
            // forgets it.
            Some(above) => draws.unit() >= probabilities.to(above),
            None => true,
        };
        lower.find(|&cache| keeps(cache)).expect("the fastest tier keeps every page")
    }

    /// Takes the page out of a tier that holds it.
    fn remove(&mut self, tier: Tier, page: PageId) {
        let (order, _) = self.place(tier);
        let Order { numbers, lists, .. } = &mut self.orders[order];
        lists.remove(numbers.find(page).expect("a page of a tier has a number"));
    }

    /// Makes a page that the tier does not hold its newest, and drops its oldest if it is full.
    fn enter(&mut self, tier: Tier, page: PageId, out: &mut Actions) {
        let (order, list) = self.place(tier);
        let Order { numbers, lists, used_at } = &mut self.orders[order];
        // Victims are discarded and never demoted: that is what saves the traffic of DEMOTE.
        if lists.len(list) == self.hierarchy.capacity(tier) {
            let victim = lists.back(list).expect("a full tier holds a page");
            lists.remove(victim);
            out.drop_copy(numbers.page(victim), tier);
        }
        let number = numbers.enter(page, |number, _| lists.contains(number));
        lists.push_front(list, number);
        used_at[number as usize] = self.now;
    }

    /// Gives up the copies of other first tiers that a write makes old.
    fn drop_outdated(&mut self, access: Access, out: &mut Actions) {
        for tier in self.hierarchy.outdated_by(access) {
            let (order, _) = self.place(tier);
            if self.orders[order].list_of(access.page).is_some() {
                self.remove(tier, access.page);
                out.drop_copy(access.page, tier);
            }
        }
    }
}

impl<D: Draws> Policy for Promote<D> {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let Access { page, op, client } = access;
        let found = self.find(client, page).unwrap_or(self.hierarchy.disk());
        self.now += 1;
        // Tiers compare their lives on the way of a request, which needs no messages of its own.
        self.adapt(client, found);
        let keeper = self.keeper(client, found);
        self.drop_outdated(access, out);
        self.hierarchy.serve(access, found, keeper, out);
        if keeper != found {
            if found != self.hierarchy.disk() {
                self.remove(found, page);
            }
            return self.enter(keeper, page, out);
        }
        let (order, _) = self.place(found);
        let Order { numbers, lists, used_at } = &mut self.orders[order];
        let number = numbers.find(page).expect("a page of a tier has a number");
        lists.move_to_front(number);
        used_at[number as usize] = self.now;
        if op == Op::Write
            && let Some(shared) = self.find_shared(page).filter(|&shared| shared != found)
        {
            out.copy(page, found, shared);
        }
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.hierarchy.surrender(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        for order in &self.orders {
            order.lists.prefetch(page.0);
        }
    }

    fn assert_invariants(&self) {
        self.probabilities.assert_invariants();
        for order in &self.orders {
            order.numbers.assert_invariants();
            order.lists.assert_invariants();
        }
        for tier in (0..self.hierarchy.disk().0).map(Tier) {
            let (order, list) = self.place(tier);
            let Order { lists, used_at, .. } = &self.orders[order];
            assert!(lists.len(list) <= self.hierarchy.capacity(tier), "a tier has room");
            let used_at = lists.iter(list).map(|number| used_at[number as usize]);
            assert!(used_at.is_sorted_by(|newer, older| newer > older), "the newest comes first");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.orders.iter().map(Order::memory_bytes).sum()
    }

    fn metadata_bytes(&self) -> usize {
        let pages = |tier| {
            let (order, list) = self.place(tier);
            self.orders[order].lists.len(list) as usize
        };
        let pages: usize = (0..self.hierarchy.disk().0).map(|tier| pages(Tier(tier))).sum();
        pages * size_of::<u64>()
    }

    /// Report one probability per client for a tier below several clients, because that tier learns of their
    /// first tiers.
    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        let one = self.hierarchy.tops().count() == 1;
        for above in self.hierarchy.all_caches() {
            let below = self.hierarchy.below(above);
            if below != self.hierarchy.disk() {
                let is_told_above = self.hierarchy.is_top(above) && !one;
                let told_of = if is_told_above { above } else { below };
                report("promote_probability", told_of, self.probabilities.to(above));
            }
        }
    }
}
