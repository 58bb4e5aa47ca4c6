//! PROMOTE: each tier that a page passes on its way up tosses a coin whether to keep it.
//!
//! Tiers are exclusive and nothing is demoted: a victim is dropped. A page that is read starts
//! from the tier that holds it, or from the disk; that tier, and then each one above, keeps it or
//! hands it on. The tier that keeps it answers. The probability of handing on adapts until
//! neighbouring tiers evict pages of the same age.
//!
//! * Source: Gill, *On Multi-level Exclusive Caching: Offline Optimality and Why Promotions Are
//!   Better Than Demotions*, FAST 2008: PROMOTE over LRU.
//! * State: 20 bytes per page that exists, for each client and once more; sparse, 32 bytes per cached page;
//!   40 bytes per tier.
//! * Cost: O(tiers) per access.
//! * Deviations: (1) a tier compares the lives when a request reaches it; see the conditions of
//!   the adaptation. (2) Time is counted in accesses. A client counts its own, and says with each request
//!   that goes beyond its tier how many hits there were since the last one, and how long its tier lives; so
//!   the shared tiers count hits when they hear of them. With one client, each tier counts all accesses.
//!   (3) PROMOTE over ARC is left out. (4) With several clients, as the paper has it, the tier below them
//!   keeps a probability for each, and a page that came to them on different paths may be in several first
//!   tiers and a shared one; a write renews that one on its way to disk.

mod client;
mod order;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;

pub(super) use self::client::Client;
use self::order::Order;
use super::halves::{Answer, Held, Hint, Joined, Message, Receive};
use super::hierarchy::Hierarchy;
use super::probabilities::{self, PROMOTE_PROBABILITY, Probabilities};
use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::random::{Draws, SEED, SplitMix64};
use crate::{Access, BoxedPolicy, Op, PageId, Setup, Tier};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[PROMOTE_PROBABILITY, SEED];

/// The half of PROMOTE that decides for the tiers below the clients.
#[derive(Clone, Debug)]
pub(super) struct Server<D> {
    hierarchy: Hierarchy,
    /// The pages of the shared tiers.
    order: Order,
    /// Per client: how long its tier lives, as it said last.
    lives: Box<[u64]>,
    probabilities: Probabilities,
    draws: D,
    now: u64,
}

/// Its name in the registry.
pub(super) const PROMOTE_NAME: &str = "promote";

/// Its row in the registry.
pub const PROMOTE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed(PROMOTE_NAME),
    summary: "exclusive without demotions: each tier on the way up tosses a coin to keep a page",
    source: "Gill: On Multi-level Exclusive Caching, FAST 2008",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Tiers),
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    with_draws(setup, values, SplitMix64::new(values.integer(SEED.name)))
}

/// Return the policy with a source of random numbers: one per lower tier that decides about a
/// page.
pub fn with_draws(
    setup: &Setup,
    values: &Values,
    draws: impl Draws + Send + 'static,
) -> BoxedPolicy {
    let server = Server::new(setup, values, draws);
    Box::new(Joined::new(setup, || Client::new(setup), server))
}

impl<D: Draws> Server<D> {
    pub(super) fn new(setup: &Setup, values: &Values, draws: D) -> Self {
        let hierarchy = Hierarchy::new(setup);
        let shared = hierarchy.first_shared().0..hierarchy.disk().0;
        let capacities = shared.map(|tier| hierarchy.capacity(Tier(tier)));
        Self {
            order: Order::new(setup.ids(), capacities.collect()),
            lives: vec![0; setup.clients.get().into()].into_boxed_slice(),
            probabilities: Probabilities::new(&hierarchy, probabilities::fixed(values)),
            hierarchy,
            draws,
            now: 0,
        }
    }

    /// Return the list of a shared tier.
    fn list(&self, shared: Tier) -> u32 {
        u32::from(shared.0 - self.hierarchy.first_shared().0)
    }

    /// Return the shared tier that holds the page.
    fn find(&self, page: PageId) -> Option<Tier> {
        let list = u8::try_from(self.order.list_of(page)?).ok()?;
        Some(Tier(self.hierarchy.first_shared().0 + list))
    }

    /// Return the time between the last uses of a tier's newest and oldest page.
    fn life(&self, cache: Tier) -> u64 {
        if self.hierarchy.is_top(cache) {
            self.lives[cache.index()]
        } else {
            self.order.life(self.list(cache))
        }
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

    /// Let a client read or write a page that it does not hold. Returns whether it keeps the page.
    fn bring(&mut self, access: Access, out: &mut impl Sink) -> Answer {
        let Access { page, client, .. } = access;
        let found = self.find(page).unwrap_or(self.hierarchy.disk());
        self.now += 1;
        // Tiers compare their lives on the way of a request, which needs no messages of its own.
        self.adapt(client, found);
        let keeper = self.keeper(client, found);
        self.hierarchy.serve(access, found, keeper, out);
        // Exclusive: the tier that hands a page on deletes its copy, which costs no transfer.
        if keeper != found && found != self.hierarchy.disk() {
            self.order.remove(page);
        }
        if self.hierarchy.is_top(keeper) {
            return Answer::Kept(self.now);
        }
        let list = self.list(keeper);
        // Victims are discarded and never demoted: that is what saves the traffic of DEMOTE.
        let is_new = keeper != found;
        if is_new && self.order.len(list) == self.hierarchy.capacity(keeper) {
            let victim = self.order.take_oldest(list).expect("a full tier holds a page");
            out.drop_copy(victim, keeper);
        }
        self.order.make_newest(list, page, self.now);
        Answer::Passed
    }

    /// Let a client write a page that it holds. A copy that came to a shared tier on another path is
    /// renewed on the way to disk.
    fn write_through(&mut self, client: u8, page: PageId, out: &mut impl Sink) {
        let top = self.hierarchy.top(client);
        self.hierarchy.serve(Access { page, op: Op::Write, client }, top, top, out);
        if let Some(shared) = self.find(page) {
            out.copy(page, top, shared);
        }
    }

    /// Takes what a client says of its tier.
    fn listen(&mut self, client: u8, hint: Hint) {
        self.now = self.now.saturating_add(hint.hits.into());
        // Nothing lives longer than there have been accesses.
        self.lives[usize::from(client)] = hint.value.min(self.now);
    }

    /// Forgets what a client has said of its tier.
    pub(super) fn forget_client(&mut self, client: u8) {
        self.lives[usize::from(client)] = 0;
    }
}

impl<D: Draws> Receive for Server<D> {
    fn receive(&mut self, client: u8, message: Message, out: &mut impl Sink) -> Option<Answer> {
        match message {
            Message::Read { page } => Some(self.bring(Access { page, op: Op::Read, client }, out)),
            Message::Write { page, held: Held::No } => {
                Some(self.bring(Access { page, op: Op::Write, client }, out))
            }
            Message::Write { page, held: Held::Yes } => {
                self.write_through(client, page, out);
                None
            }
            // Nothing is handed down: what a client offers is not taken.
            Message::Demote { .. } => None,
            Message::Tell(hint) => {
                self.listen(client, hint);
                None
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.order.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.probabilities.assert_invariants();
        self.order.assert_invariants();
        for tier in (self.hierarchy.first_shared().0..self.hierarchy.disk().0).map(Tier) {
            let pages = self.order.len(self.list(tier));
            assert!(pages <= self.hierarchy.capacity(tier), "a tier has room");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.order.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.order.metadata_bytes()
    }

    /// Reports one probability per client for a tier below several clients, because it learns of
    /// their first tiers.
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
