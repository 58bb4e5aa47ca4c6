//! Caches with a replacement algorithm each, chained by demotion.
//!
//! No page is in two tiers of a path. An access brings its page to the client's first tier; a page
//! that a tier evicts is offered to the tier below, and a page that the last tier evicts is dropped.
//! With LRU in every tier this is DEMOTE. With other algorithms it shows what a good algorithm for one
//! tier is worth in a hierarchy that does nothing but demote.
//!
//! * Source: exclusive caching by demotion, Wong and Wilkes, *My cache or yours? Making storage more
//!   exclusive*, USENIX ATC 2002; each tier's algorithm has a source of its own.
//! * State: that of all algorithms.
//! * Cost: one reference to an algorithm per tier that a page enters.
//! * Deviations: (1) The algorithms have their default parameters. (2) A tier forgets a page that moves
//!   up, so its history is that of one stay; a page that is demoted again is new to the tier. A page
//!   that leaves a FIFO leaves a place that is free when its turn comes. (3) An algorithm may refuse a
//!   page. The page then goes where it would go without that tier: an access to the next tier, or to
//!   the place where the page is; a demotion to the next tier. (4) With several clients, a victim that
//!   another client's first tier holds is dropped, as in DEMOTE; the last client that has it demotes
//!   it. A page that another client's first tier holds enters no shared tier.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::hierarchy::Hierarchy;
use crate::CACHE_TIERS_MAX;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::single::{NAMES, Outcome, Replacement, Space, build_named};
use crate::{Access, Actions, BoxedPolicy, Op, PageId, Policy, Setup, Survivor, Tier};

/// The choice of a lower tier that has the algorithm of the tier above.
const SAME: &str = "same";

/// The names of the parameters, from the first tier down.
const TIERS: [&str; CACHE_TIERS_MAX] = ["l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8"];

/// The names of all algorithms, and the choice of the tier above.
const NAMES_BELOW: [&str; NAMES.len() + 1] = {
    let mut names = [SAME; NAMES.len() + 1];
    let mut index = 0;
    while index < NAMES.len() {
        names[index + 1] = NAMES[index];
        index += 1;
    }
    names
};

/// The parameters: an algorithm per tier.
pub const PARAMETERS: &[Parameter] = &{
    let mut parameters = [Parameter::choice(TIERS[0], &NAMES, "lru")
        .summary("which pages the first tier keeps, that of each client")
        .source("a common choice"); CACHE_TIERS_MAX];
    let mut tier = 1;
    while tier < CACHE_TIERS_MAX {
        parameters[tier] = Parameter::choice(TIERS[tier], &NAMES_BELOW, SAME)
            .summary("which pages the tier at this place keeps; by default as the tier above")
            .source("a common choice");
        tier += 1;
    }
    parameters
};

/// A cache per tier, the first one of each client among them.
#[derive(Debug)]
pub struct Chain {
    hierarchy: Hierarchy,
    /// Per tier: its pages. None if it has no room for a page.
    caches: Box<[Option<Box<dyn Replacement + Send>>]>,
    /// Page ids are below this.
    pages: u32,
}

/// Its row in the registry.
pub const CHAIN: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("chain"),
    summary: "an algorithm for each tier; exclusive, victims are demoted",
    source: "Wong, Wilkes: My Cache or Yours?, USENIX ATC 2002",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Tiers),
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
///
/// # Panics
/// If the values are not of [`PARAMETERS`].
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let ids = setup.ids();
    let firsts = usize::from(setup.clients.get());
    let mut name = values.choice(TIERS[0]);
    let cache = |(tier, capacity_pages): (usize, u32)| {
        let own = values.choice(TIERS[(tier + 1).saturating_sub(firsts)]);
        if own != SAME {
            name = own;
        }
        let space = Space { ids, capacity_pages, geometry: &setup.geometry, inputs: &setup.inputs };
        (capacity_pages > 0).then(|| build_named(name, space))
    };
    Box::new(Chain {
        hierarchy: Hierarchy::new(setup),
        caches: setup.tier_capacities_pages().enumerate().map(cache).collect(),
        pages: ids.pages,
    })
}

impl Chain {
    fn holds(&self, cache: Tier, page: PageId) -> bool {
        self.caches[cache.index()].as_ref().is_some_and(|cache| cache.contains(page))
    }

    /// Refers to a page in a cache that has room for pages.
    fn refer(&mut self, cache: Tier, page: PageId, op: Op) -> Outcome {
        let cache = self.caches[cache.index()].as_mut().expect("a cache has room for a page");
        cache.refer(page, op)
    }

    fn forget(&mut self, cache: Tier, page: PageId) {
        if let Some(cache) = &mut self.caches[cache.index()] {
            cache.forget(page);
        }
    }

    /// Return `true` if the first tier of another client holds a page.
    fn is_in_another_top(&self, top: Tier, page: PageId) -> bool {
        self.hierarchy.other_tops(top).any(|other| self.holds(other, page))
    }

    /// Offers a page that left a tier to the tiers below, one after the other.
    fn demote(&mut self, mut victim: PageId, mut source: Tier, out: &mut Actions) {
        loop {
            let is_shared = self.hierarchy.is_top(source) && self.is_in_another_top(source, victim);
            let taken = if is_shared { None } else { self.offer(victim, source) };
            let Some((target, evicted)) = taken else { return out.drop_copy(victim, source) };
            out.copy(victim, source, target);
            out.drop_copy(victim, source);
            let Some(next) = evicted else { return };
            (victim, source) = (next, target);
        }
    }

    /// Return the first tier below `source` that takes a page, and the page that it evicts.
    fn offer(&mut self, page: PageId, source: Tier) -> Option<(Tier, Option<PageId>)> {
        let mut target = self.hierarchy.below(source);
        while target != self.hierarchy.disk() {
            if let Outcome::Admitted { evicted } = self.refer(target, page, Op::Read) {
                return Some((target, evicted));
            }
            target = self.hierarchy.below(target);
        }
        None
    }
}

impl Policy for Chain {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let Access { page, op, client } = access;
        for tier in self.hierarchy.outdated_by(access) {
            if self.holds(tier, page) {
                self.forget(tier, page);
                out.drop_copy(page, tier);
            }
        }
        let (disk, top) = (self.hierarchy.disk(), self.hierarchy.top(client));
        let found = self.hierarchy.caches(client).find(|&cache| self.holds(cache, page));
        let found = found.unwrap_or(disk);
        let is_elsewhere = self.is_in_another_top(top, page);
        for tier in self.hierarchy.caches(client).take_while(|&tier| tier <= found) {
            if tier != top && is_elsewhere {
                break;
            }
            match self.refer(tier, page, op) {
                Outcome::Hit => return self.hierarchy.serve(access, found, found, out),
                Outcome::Refused => {}
                Outcome::Admitted { evicted } => {
                    self.hierarchy.serve(access, found, tier, out);
                    if found != disk {
                        self.forget(found, page);
                    }
                    if let Some(victim) = evicted {
                        self.demote(victim, tier, out);
                    }
                    return;
                }
            }
        }
        self.hierarchy.serve(access, found, found, out);
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.hierarchy.surrender(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        for cache in self.caches.iter().flatten() {
            cache.prefetch(page);
        }
    }

    fn assert_invariants(&self) {
        self.caches.iter().flatten().for_each(Replacement::assert_invariants);
        for page in (0..self.pages).map(PageId) {
            for tier in self.hierarchy.shared_caches().filter(|&tier| self.holds(tier, page)) {
                let is_faster = self.hierarchy.faster(tier).any(|other| self.holds(other, page));
                assert!(!is_faster, "no page is in two tiers of a path");
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        self.caches.iter().flatten().map(Replacement::memory_bytes).sum()
    }

    fn metadata_bytes(&self) -> usize {
        self.caches.iter().flatten().map(Replacement::metadata_bytes).sum()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        for (tier, cache) in (0..).map(Tier).zip(&self.caches) {
            if let Some(cache) = cache {
                cache.gauges(&mut |name, value| report(name, tier, value));
            }
        }
    }
}
