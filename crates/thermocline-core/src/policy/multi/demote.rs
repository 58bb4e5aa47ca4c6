//! DEMOTE: a tier hands what it evicts to the tier below, so that the tiers act as one cache.
//!
//! Each tier is an LRU. A victim becomes the newest page of the next tier, whose victim goes on
//! down; the last tier's is dropped. What is read moves to the fastest tier.
//!
//! * Source: Wong and Wilkes, *My cache or yours? Making storage more exclusive*, USENIX ATC 2002.
//! * State: with `remove` and one client 4 bytes per page that exists and 20 per cached page; sparse,
//!   none and 13. Otherwise 4 bytes per page that exists and tier, 20 per page of the first tiers and 10
//!   per page of the others; sparse, none, 13 and 12.
//! * Cost: O(tiers) per access.
//! * Deviations: (1) by default a page leaves the tier where it was hit; in the authors' simulator
//!   it stays, as next (`mru`) or last (`lru`) to be evicted, and so does what is read from disk.
//!   (2) That has one tier below the clients. With more, each tier that a page passes on its way up
//!   keeps such a copy, the slowest first; a victim that a faster tier holds too is only dropped,
//!   since it will be demoted from there; and where the tier below has a copy already, a demotion
//!   makes that the newest and moves no bytes. (3) A write renews the copies that it passes on its
//!   way to disk. (4) The adaptive variant with ghost caches is left out. (5) With several clients,
//!   `mru` and `lru` are the authors': what one client demotes or reads enters the shared tiers,
//!   whoever else holds it. With `remove`, no shared tier holds what a first tier does: a victim
//!   that another client's first tier holds is only dropped; the last that has it demotes it.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::hierarchy::Hierarchy;
use super::one_order::OneOrder;
use super::stacks::Stacks;
use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::for_each;
use crate::{Access, Actions, BoxedPolicy, Clients, Counts, PageId, Policy, Setup, Survivor, Tier};

/// The parameters.
pub const PARAMETERS: &[Parameter] =
    &[Parameter::choice("mode", &["remove", "mru", "lru"], "remove")
        .summary(
            "a page read from a lower tier leaves it; or stays as its next, or its last, victim",
        )
        .source(
            "strict exclusion, as the HFA paper assumes; the authors' simulator has mru and lru",
        )];

/// What becomes of the copy that a page leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Remove,
    /// It is the next to be evicted.
    Mru,
    /// It is the last to be evicted.
    Lru,
}

/// DEMOTE with several clients, or with copies that stay below.
#[derive(Clone, Debug)]
pub struct Demote {
    hierarchy: Hierarchy,
    orders: Stacks,
    mode: Mode,
}

/// Its row in the registry.
pub const DEMOTE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("demote"),
    summary: "a tier's victim becomes the newest page of the tier below: one LRU over all tiers",
    source: "Wong, Wilkes: My Cache or Yours?, USENIX ATC 2002",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Tiers),
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let mode = match values.choice("mode") {
        "mru" => Mode::Mru,
        "lru" => Mode::Lru,
        _ => Mode::Remove,
    };
    if mode == Mode::Remove && setup.clients == Clients::ONE {
        return Box::new(OneOrder::new(setup));
    }
    Box::new(Demote { hierarchy: Hierarchy::new(setup), orders: Stacks::new(setup), mode })
}

impl Demote {
    /// One page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, access: Access, out: &mut impl Sink) {
        let Access { page, client, .. } = access;
        let top = self.hierarchy.top(client);
        let found = self.orders.find(self.hierarchy.caches(client), page);
        let found = found.unwrap_or(self.hierarchy.disk());
        self.orders.drop_copies(self.hierarchy.outdated_by(access), page, out);
        self.serve(access, found, out);
        if found != top {
            self.make_room(top, page, page, out);
        }
        self.orders.make_newest(top, page);
    }

    /// Takes the page out of the tier where it was found, or leaves copies on its way up.
    fn serve(&mut self, access: Access, found: Tier, out: &mut impl Sink) {
        let page = access.page;
        let top = self.hierarchy.top(access.client);
        if self.mode == Mode::Remove {
            self.hierarchy.serve(access, found, top, out);
            if found != top && found != self.hierarchy.disk() {
                self.orders.remove(found, page);
            }
            return;
        }
        self.hierarchy.serve_and_leave(access, found, |tier| self.orders.holds(tier, page), out);
        let lower = self.hierarchy.caches_upwards(access.client, found);
        for tier in lower.take_while(|&tier| tier != top) {
            self.make_room(tier, page, page, out);
            match self.mode {
                Mode::Mru => self.orders.make_oldest(tier, page),
                Mode::Lru | Mode::Remove => self.orders.make_newest(tier, page),
            }
        }
    }

    /// Demotes the oldest page of a tier that is full and does not hold `coming`; `served` is the
    /// page on its way to the fastest tier.
    fn make_room(&mut self, tier: Tier, coming: PageId, served: PageId, out: &mut impl Sink) {
        let is_full = self.orders.len(tier) >= self.hierarchy.capacity(tier);
        if !is_full || self.orders.holds(tier, coming) {
            return;
        }
        let victim = self.orders.take_oldest(tier).expect("a full tier holds a page");
        let below = self.hierarchy.below(tier);
        let is_above = match self.mode {
            Mode::Remove => self.is_in_another_top(tier, victim),
            Mode::Mru | Mode::Lru => {
                victim == served || self.orders.find(self.hierarchy.faster(tier), victim).is_some()
            }
        };
        if below != self.hierarchy.disk() && !is_above {
            // With `remove` no two tiers of a path hold a page.
            if self.mode == Mode::Remove || !self.orders.holds(below, victim) {
                out.copy(victim, tier, below);
            }
            self.make_room(below, victim, served, out);
            self.orders.make_newest(below, victim);
        }
        out.drop_copy(victim, tier);
    }

    /// Whether the page of a first tier is also in that of another client.
    fn is_in_another_top(&self, tier: Tier, page: PageId) -> bool {
        self.hierarchy.is_top(tier)
            && self.orders.find(self.hierarchy.other_tops(tier), page).is_some()
    }
}

impl Policy for Demote {
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
        self.orders.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.orders.assert_invariants(&self.hierarchy);
        if self.mode == Mode::Remove {
            for tier in self.hierarchy.shared_caches() {
                let mut pages = self.orders.iter(tier);
                let is_faster =
                    |page| self.orders.find(self.hierarchy.faster(tier), page).is_some();
                assert!(!pages.any(is_faster), "no page is in two tiers of a path");
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        self.orders.memory_bytes()
    }
}
