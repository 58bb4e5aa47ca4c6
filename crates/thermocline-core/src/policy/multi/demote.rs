//! DEMOTE: a tier hands what it evicts to the tier below, so that the tiers act as one cache.
//!
//! Each tier is an LRU. A victim becomes the newest page of the next tier, whose victim goes on
//! down; the last tier's is dropped. Pages that are read move to the fastest tier.
//!
//! * Source: Wong and Wilkes, *My cache or yours? Making storage more exclusive*, USENIX ATC 2002.
//! * State: with `remove` and one client 4 bytes per page that exists and 20 per cached page; sparse,
//!   none and 14. Otherwise, for the first tiers twice, since the server's half notes what clients hold:
//!   4 bytes per page that exists and tier, 20 per page of the first tiers and 10 per page of the
//!   others; sparse, none, 14 and 13.
//! * Cost: O(tiers) per access.
//! * Deviations: (1) by default a page leaves the tier where it was hit; in the authors' simulator
//!   it stays, as next (`mru`) or last (`lru`) to be evicted, and so does what is read from disk.
//!   (2) That has one tier below the clients. With more, each tier that a page passes on its way up
//!   keeps such a copy, the slowest first; a victim that a faster tier holds too is only dropped,
//!   since it will be demoted from there; and where the tier below has a copy already, a demotion
//!   makes that the newest and moves no bytes. (3) A write renews the copies that it passes on its
//!   way to disk. (4) The adaptive variant with ghost caches is left out. (5) With several clients,
//!   `mru` and `lru` are the authors': a page that one client demotes or reads enters the shared
//!   tiers, even if another client holds it. With `remove`, no shared tier holds what a first tier
//!   does: a victim that another client's first tier holds is only dropped; the last that has it
//!   demotes it.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::halves::{Answer, Held, Joined, LruHalf, Message, Receive, Victims};
use super::hierarchy::Hierarchy;
use super::one_order::OneOrder;
use super::stacks::Stacks;
use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::{Access, BoxedPolicy, Clients, Op, PageId, Setup, Tier};

/// The parameters.
pub const PARAMETERS: &[Parameter] =
    &[Parameter::choice("mode", &["remove", "mru", "lru"], "remove")
        .summary(
            "a page read from a lower tier leaves it; or stays as its next, or its last, victim",
        )
        .source(
            "strict exclusion, as the HFA paper assumes; the authors' simulator has mru and lru",
        )];

/// Position of the copy that a page leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Remove,
    /// The copy is the next to be evicted.
    Mru,
    /// The copy is the last to be evicted.
    Lru,
}

/// The half of DEMOTE that decides for the tiers below the clients.
#[derive(Clone, Debug)]
pub(super) struct Server {
    hierarchy: Hierarchy,
    /// The order of each shared tier; of a first tier, which pages its client holds.
    orders: Stacks,
    mode: Mode,
}

/// Its name in the registry.
pub(super) const DEMOTE_NAME: &str = "demote";

/// Its row in the registry.
pub const DEMOTE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed(DEMOTE_NAME),
    summary: "a tier's victim becomes the newest page of the tier below: one LRU over all tiers",
    source: "Wong, Wilkes: My Cache or Yours?, USENIX ATC 2002",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Tiers),
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    if mode(values) == Mode::Remove && setup.clients == Clients::ONE {
        return Box::new(OneOrder::new(setup));
    }
    let client = || LruHalf::new(setup, Victims::Demoted);
    Box::new(Joined::new(setup, client, Server::new(setup, values)))
}

fn mode(values: &Values) -> Mode {
    match values.choice("mode") {
        "mru" => Mode::Mru,
        "lru" => Mode::Lru,
        _ => Mode::Remove,
    }
}

impl Server {
    pub(super) fn new(setup: &Setup, values: &Values) -> Self {
        // A client says what it reads before it says what leaves for it.
        let mut roomier = setup.clone();
        roomier.capacity_pages[0] = roomier.capacity_pages[0].saturating_add(1);
        let orders = Stacks::new(&roomier);
        Self { hierarchy: Hierarchy::new(setup), orders, mode: mode(values) }
    }

    /// Forgets what a client holds.
    pub(super) fn forget_client(&mut self, client: u8) {
        let top = self.hierarchy.top(client);
        while self.orders.take_oldest(top).is_some() {}
    }

    /// Let a client read or write a page, which it holds from now on.
    fn bring(&mut self, access: Access, held: Held, out: &mut impl Sink) {
        let Access { page, client, .. } = access;
        let top = self.hierarchy.top(client);
        // The copies of other clients are older than what this one writes.
        for other in self.hierarchy.outdated_by(access) {
            self.leave(other, page);
        }
        let found = match held {
            Held::Yes => top,
            Held::No => {
                let found = self.orders.find(self.hierarchy.shared_caches(), page);
                found.unwrap_or(self.hierarchy.disk())
            }
        };
        self.hold(top, page);
        // Strictly exclusive: the shared tier gives its copy up as it sends the page to the client.
        if self.mode == Mode::Remove {
            self.hierarchy.serve(access, found, top, out);
            if let Some(tier) = self.orders.find(self.hierarchy.shared_caches(), page) {
                self.orders.remove(tier, page);
                // A client that was forgotten may hold what another one has demoted since.
                if tier != found {
                    out.drop_copy(page, tier);
                }
            }
            return;
        }
        self.hierarchy.serve_and_leave(access, found, |tier| self.orders.holds(tier, page), out);
        let lower = self.hierarchy.caches_upwards(client, found);
        for tier in lower.take_while(|&tier| tier != top) {
            self.make_room(tier, page, out);
            match self.mode {
                // The client has the page now, so in mode `mru` the copy below is the next to be
                // evicted.
                Mode::Mru => self.orders.make_oldest(tier, page),
                Mode::Lru | Mode::Remove => self.orders.make_newest(tier, page),
            }
        }
    }

    /// Notes that a client holds a page. One that holds more than it may is not believed.
    fn hold(&mut self, top: Tier, page: PageId) {
        let is_full = self.orders.len(top) > self.hierarchy.capacity(top);
        if is_full && !self.orders.holds(top, page) {
            // The oldest is forgotten, not demoted: nobody handed its bytes over.
            let _: Option<PageId> = self.orders.take_oldest(top);
        }
        self.orders.make_newest(top, page);
    }

    /// Notes that a client does not hold a page any more.
    fn leave(&mut self, top: Tier, page: PageId) {
        if self.orders.holds(top, page) {
            self.orders.remove(top, page);
        }
    }

    /// Let a client give up a page.
    fn take(&mut self, client: u8, page: PageId, out: &mut impl Sink) {
        let top = self.hierarchy.top(client);
        self.leave(top, page);
        if self.mode == Mode::Remove {
            // Deviation (5): the last client that has the page demotes it, so that tiers stay
            // exclusive.
            if self.orders.find(self.hierarchy.other_tops(top), page).is_some() {
                return;
            }
            // A client that was forgotten may still give up what another one has demoted since.
            if let Some(tier) = self.orders.find(self.hierarchy.shared_caches(), page) {
                return self.orders.make_newest(tier, page);
            }
        }
        self.hand_down(page, top, out);
    }

    /// Makes a tier's victim the newest page of the tier below.
    fn hand_down(&mut self, victim: PageId, tier: Tier, out: &mut impl Sink) {
        let below = self.hierarchy.below(tier);
        if below == self.hierarchy.disk() {
            return;
        }
        // If the tier below still has a copy, only its order changes and nothing is sent.
        if !self.orders.holds(below, victim) {
            out.copy(victim, tier, below);
        }
        self.make_room(below, victim, out);
        self.orders.make_newest(below, victim);
    }

    /// Demotes the oldest page of a shared tier that is full and does not hold `coming`.
    fn make_room(&mut self, tier: Tier, coming: PageId, out: &mut impl Sink) {
        let is_full = self.orders.len(tier) >= self.hierarchy.capacity(tier);
        if !is_full || self.orders.holds(tier, coming) {
            return;
        }
        let victim = self.orders.take_oldest(tier).expect("a full tier holds a page");
        // A page that a faster tier holds will be demoted from there, so this copy is dropped.
        let is_above = self.mode != Mode::Remove
            && self.orders.find(self.hierarchy.faster(tier), victim).is_some();
        if !is_above {
            self.hand_down(victim, tier, out);
        }
        out.drop_copy(victim, tier);
    }
}

impl Receive for Server {
    #[inline]
    fn receive(&mut self, client: u8, message: Message, out: &mut impl Sink) -> Option<Answer> {
        match message {
            Message::Read { page } => {
                self.bring(Access { page, op: Op::Read, client }, Held::No, out);
            }
            Message::Write { page, held } => {
                self.bring(Access { page, op: Op::Write, client }, held, out);
            }
            Message::Demote { page, .. } => self.take(client, page, out),
            Message::Tell(_) => {}
        }
        None
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
