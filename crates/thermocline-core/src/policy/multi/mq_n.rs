//! MQ in the lower tiers, under an LRU: each tier on its own, as servers below their clients.
//!
//! A page is read into every tier between the one that holds it and the fastest. A lower tier sees
//! what the tiers above it miss, and keeps what returns often, however long it takes: that is what
//! second-level caches are asked for. Tiers neither demote nor invalidate: a victim is dropped
//! from its tier alone, so a page may be in any of them.
//!
//! * Source: Zhou, Philbin, Li, *The Multi-Queue Replacement Algorithm for Second Level Buffer
//!   Caches*, USENIX 2001; Zhou, Chen, Li, IEEE TPDS 15(6), 2004.
//! * State: for each first tier 4 bytes per page that exists and 20 per page of the tier, and 32 per page
//!   that exists for each lower tier.
//! * Cost: O(tiers * queues) per access.
//! * Deviations: (1) the paper has two tiers; here every one but the fastest is under MQ. (2) A
//!   write renews the copies that it passes on its way to disk and counts as a read. (3) With
//!   several clients, the authors' setting, the lower tiers see the misses of all of them in turn.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::hierarchy::Hierarchy;
use super::stacks::Stack;
use crate::capabilities::{Capabilities, Depth};
use crate::config::Values;
use crate::entry::{Build, PolicyEntry};
use crate::policy::single::mq::{self, Mq};
use crate::policy::single::{Outcome, Registered as _, Replacement, Space};
use crate::queue::Use;
use crate::{Access, Actions, BoxedPolicy, PageId, Policy, Setup, Survivor, Tier};

/// An LRU over tiers under MQ.
#[derive(Clone, Debug)]
pub struct MqN {
    hierarchy: Hierarchy,
    /// Per client: the pages of its first tier, newest first.
    tops: Box<[Stack]>,
    /// The tiers that all clients share, in order.
    lower: Box<[Mq]>,
}

/// Its row in the registry.
pub const MQ_N: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("mq-n"),
    summary: "LRU over MQ: lower tiers keep pages by frequency, each tier on its own",
    source: "Zhou, Philbin, Li: Multi-Queue (MQ), USENIX 2001",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Tiers),
    parameters: mq::PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let ids = setup.ids();
    let lower = |&capacity_pages: &u32| {
        Mq::new(
            Space { ids, capacity_pages, geometry: &setup.geometry, inputs: &setup.inputs },
            values,
        )
    };
    let top = |_| Stack::new(ids, setup.capacity_pages[0], Use::Lru);
    Box::new(MqN {
        hierarchy: Hierarchy::new(setup),
        tops: (0..setup.clients.get()).map(top).collect(),
        lower: setup.capacity_pages[1..].iter().map(lower).collect(),
    })
}

impl MqN {
    fn holds(&self, tier: Tier, page: PageId) -> bool {
        match tier.index().checked_sub(self.tops.len()) {
            None => self.tops[tier.index()].contains(page),
            Some(lower) => self.lower[lower].contains(page),
        }
    }

    /// Uses a page in a tier, which then holds it; drops what the tier evicts instead.
    fn refer(&mut self, tier: Tier, access: Access, out: &mut Actions) {
        let Access { page, op, .. } = access;
        let victim = match tier.index().checked_sub(self.tops.len()) {
            Some(lower) => match self.lower[lower].refer(page, op) {
                Outcome::Admitted { evicted } => evicted,
                Outcome::Hit | Outcome::Refused => None,
            },
            None => self.refer_on_top(tier, page),
        };
        if let Some(victim) = victim {
            out.drop_copy(victim, tier);
        }
    }

    /// Uses a page in a first tier; returns the page that it evicts instead.
    fn refer_on_top(&mut self, tier: Tier, page: PageId) -> Option<PageId> {
        let top = &mut self.tops[tier.index()];
        let is_full = top.len() == self.hierarchy.capacity(tier);
        let victim = top.oldest().filter(|_| is_full && !top.contains(page));
        if let Some(victim) = victim {
            top.remove(victim);
        }
        top.make_newest(page);
        victim
    }
}

impl Policy for MqN {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let Access { page, client, .. } = access;
        let found = self.hierarchy.caches(client).find(|&cache| self.holds(cache, page));
        let found = found.unwrap_or(self.hierarchy.disk());
        for tier in self.hierarchy.outdated_by(access) {
            if self.holds(tier, page) {
                self.tops[tier.index()].remove(page);
                out.drop_copy(page, tier);
            }
        }
        self.hierarchy.serve_and_leave(access, found, |tier| self.holds(tier, page), out);
        for tier in self.hierarchy.caches_upwards(client, found) {
            self.refer(tier, access, out);
        }
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.hierarchy.surrender(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        for top in &self.tops {
            top.prefetch(page);
        }
        for tier in &self.lower {
            tier.prefetch(page);
        }
    }

    fn assert_invariants(&self) {
        for (tier, top) in self.hierarchy.tops().zip(&self.tops) {
            top.assert_invariants();
            assert!(top.len() <= self.hierarchy.capacity(tier), "a first tier has room");
        }
        self.lower.iter().for_each(Mq::assert_invariants);
    }

    fn memory_bytes(&self) -> usize {
        let tops: usize = self.tops.iter().map(Stack::memory_bytes).sum();
        tops + self.lower.iter().map(Mq::memory_bytes).sum::<usize>()
    }

    fn metadata_bytes(&self) -> usize {
        self.lower.iter().map(Mq::metadata_bytes).sum()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        for (tier, mq) in (self.hierarchy.first_shared().0..).map(Tier).zip(&self.lower) {
            mq.gauges(&mut |name, value| report(name, tier, value));
        }
    }
}
