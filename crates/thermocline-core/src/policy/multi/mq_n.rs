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

use super::halves::{Answer, Held, Joined, LruHalf, Message, Receive, Victims};
use super::hierarchy::Hierarchy;
use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth};
use crate::config::Values;
use crate::entry::{Build, PolicyEntry};
use crate::policy::single::mq::{self, Mq};
use crate::policy::single::{Outcome, Registered as _, Replacement, Space};
use crate::{Access, BoxedPolicy, Op, PageId, Setup, Tier};

/// The half of MQ that decides for the tiers below the clients.
#[derive(Clone, Debug)]
pub(super) struct Server {
    hierarchy: Hierarchy,
    /// The tiers that all clients share, in order.
    lower: Box<[Mq]>,
}

/// Its name in the registry.
pub(super) const MQ_N_NAME: &str = "mq-n";

/// Its row in the registry.
pub const MQ_N: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed(MQ_N_NAME),
    summary: "LRU over MQ: lower tiers keep pages by frequency, each tier on its own",
    source: "Zhou, Philbin, Li: Multi-Queue (MQ), USENIX 2001",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Tiers),
    parameters: mq::PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let client = || LruHalf::new(setup, Victims::Dropped);
    Box::new(Joined::new(setup, client, Server::new(setup, values)))
}

impl Server {
    pub(super) fn new(setup: &Setup, values: &Values) -> Self {
        let ids = setup.ids();
        let lower = |&capacity_pages: &u32| {
            Mq::new(
                Space { ids, capacity_pages, geometry: &setup.geometry, inputs: &setup.inputs },
                values,
            )
        };
        let lower = setup.capacity_pages[1..].iter().map(lower).collect();
        Self { hierarchy: Hierarchy::new(setup), lower }
    }

    /// Return the index of a shared tier among the shared ones.
    const fn place(&self, tier: Tier) -> usize {
        tier.index() - self.hierarchy.first_shared().index()
    }

    fn holds(&self, tier: Tier, page: PageId) -> bool {
        self.lower[self.place(tier)].contains(page)
    }

    /// Let a client read or write a page, which it holds from now on.
    fn bring(&mut self, access: Access, held: Held, out: &mut impl Sink) {
        let Access { page, op, client } = access;
        let top = self.hierarchy.top(client);
        let found = match held {
            Held::Yes => top,
            Held::No => {
                let found = self.hierarchy.shared_caches().find(|&tier| self.holds(tier, page));
                found.unwrap_or(self.hierarchy.disk())
            }
        };
        self.hierarchy.serve_and_leave(access, found, |tier| self.holds(tier, page), out);
        let lower = self.hierarchy.caches_upwards(client, found);
        for tier in lower.take_while(|&tier| tier != top) {
            let place = self.place(tier);
            if let Outcome::Admitted { evicted: Some(victim) } = self.lower[place].refer(page, op) {
                out.drop_copy(victim, tier);
            }
        }
    }
}

impl Receive for Server {
    fn receive(&mut self, client: u8, message: Message, out: &mut impl Sink) -> Option<Answer> {
        match message {
            Message::Read { page } => {
                self.bring(Access { page, op: Op::Read, client }, Held::No, out);
            }
            Message::Write { page, held } => {
                self.bring(Access { page, op: Op::Write, client }, held, out);
            }
            // Tiers hand nothing down: what a client offers is not taken.
            Message::Demote { .. } | Message::Tell(_) => {}
        }
        None
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        for tier in &self.lower {
            tier.prefetch(page);
        }
    }

    fn assert_invariants(&self) {
        self.lower.iter().for_each(Mq::assert_invariants);
    }

    fn memory_bytes(&self) -> usize {
        self.lower.iter().map(Mq::memory_bytes).sum()
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
