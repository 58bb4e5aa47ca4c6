//! Inclusive LRU: each tier is an LRU of the accesses that reach it, and a superset of the tiers
//! above.
//!
//! A page is read into every tier between the one that holds it and the fastest. A tier sees only
//! the misses of the tiers above it, so its order differs from theirs. A page that leaves a tier
//! also leaves all faster ones, which keeps the inclusion: back-invalidation, as in the caches of
//! processors. A shared tier includes the first tiers of all clients, and takes its victims from
//! all of them.
//!
//! * Source: baseline.
//! * State: 4 bytes per page that exists and tier, 20 bytes per page of the first tiers and 10 per page
//!   of the others; sparse, none, 14 and 13.
//! * Cost: O(tiers) per access; a victim O(tiers).
//! * Deviations: (1) a tier smaller than one above limits it, as that one may hold no more. (2) A
//!   write renews the copies of all tiers and the disk's, and counts as a read in their orders.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::hierarchy::Hierarchy;
use super::stacks::Stacks;
use crate::capabilities::{Capabilities, Depth};
use crate::config::Values;
use crate::entry::{Build, PolicyEntry};
use crate::{Access, Actions, BoxedPolicy, PageId, Policy, Setup, Survivor, Tier};

/// Inclusive LRU.
#[derive(Clone, Debug)]
pub struct LruNInclusive {
    hierarchy: Hierarchy,
    orders: Stacks,
}

/// Its row in the registry.
pub const LRU_N_INCLUSIVE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("lru-n-inclusive"),
    summary: "every tier an LRU and a superset of those above it",
    source: "baseline",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Tiers),
    parameters: &[],
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, _values: &Values) -> BoxedPolicy {
    Box::new(LruNInclusive { hierarchy: Hierarchy::new(setup), orders: Stacks::new(setup) })
}

impl LruNInclusive {
    /// Drops the oldest page of a full tier, from faster tiers too.
    fn make_room(&mut self, tier: Tier, out: &mut Actions) {
        if self.orders.len(tier) < self.hierarchy.capacity(tier) {
            return;
        }
        let victim = self.orders.take_oldest(tier).expect("a full tier holds a page");
        self.orders.drop_copies(self.hierarchy.faster(tier), victim, out);
        out.drop_copy(victim, tier);
    }
}

impl Policy for LruNInclusive {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let Access { page, client, .. } = access;
        let found = self.orders.find(self.hierarchy.caches(client), page);
        let found = found.unwrap_or(self.hierarchy.disk());
        self.orders.drop_copies(self.hierarchy.outdated_by(access), page, out);
        self.hierarchy.serve_and_leave(access, found, |_| true, out);
        for tier in self.hierarchy.caches_upwards(client, found) {
            if tier != found {
                self.make_room(tier, out);
            }
            self.orders.make_newest(tier, page);
        }
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.hierarchy.surrender(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.orders.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.orders.assert_invariants(&self.hierarchy);
        for faster in self.hierarchy.all_caches() {
            let slower = self.hierarchy.below(faster);
            if slower != self.hierarchy.disk() {
                let mut pages = self.orders.iter(faster);
                assert!(pages.all(|page| self.orders.holds(slower, page)), "slower tiers include");
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        self.orders.memory_bytes()
    }
}
