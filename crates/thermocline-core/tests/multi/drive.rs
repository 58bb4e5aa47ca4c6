//! A policy under the Ledger, and what tests ask of both.

use thermocline_core::policy::multi::promote;
use thermocline_core::random::Draws;
use thermocline_core::registry;
use thermocline_core::{
    Access, Action, Actions, BoxedPolicy, Clients, Geometry, Ledger, PageId, Setup, Tier,
};

use crate::models::Outcome;

/// Parameters by name.
pub(crate) type Given<'a> = &'a [(&'a str, String)];

/// A policy that the Ledger watches.
pub(crate) struct Driven {
    pub(crate) policy: BoxedPolicy,
    pub(crate) ledger: Ledger,
    pages: u32,
    pub(crate) clients: Clients,
    /// Cache tiers, the first ones of all clients among them.
    caches: u8,
    actions: Actions,
    /// Copies from one cache to another so far.
    pub(crate) moves: u64,
}

/// Numbers that are repeated without end.
#[derive(Debug)]
pub(crate) struct Script {
    draws: Vec<f64>,
    drawn: usize,
}

impl Draws for Script {
    fn unit(&mut self) -> f64 {
        self.drawn += 1;
        self.draws[(self.drawn - 1) % self.draws.len()]
    }
}

/// Return a hierarchy of these cache tiers over a disk of `pages` pages; each client has a first
/// tier.
pub(crate) fn setup(pages: u32, sizes: &[u32], clients: Clients) -> Setup {
    Setup { clients, ..Setup::new(Geometry::linear(pages), sizes.to_vec()) }
}

fn owned(given: Given<'_>) -> Vec<(String, String)> {
    given.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect()
}

impl Driven {
    /// Create a registered policy with the parameters given.
    pub(crate) fn new(policy: &str, given: Given<'_>, pages: u32, sizes: &[u32]) -> Self {
        Self::shared(policy, given, pages, sizes, Clients::ONE)
    }

    /// Return the same for several clients.
    pub(crate) fn shared(
        policy: &str,
        given: Given<'_>,
        pages: u32,
        sizes: &[u32],
        clients: Clients,
    ) -> Self {
        let entry = registry::find(policy).unwrap();
        let values = entry.values(&owned(given)).unwrap();
        let setup = setup(pages, sizes, clients);
        Self::of(entry.build(&setup, &values).unwrap(), &setup)
    }

    /// PROMOTE with draws that are repeated without end.
    pub(crate) fn scripted(
        given: Given<'_>,
        draws: &[f64],
        pages: u32,
        sizes: &[u32],
        clients: Clients,
    ) -> Self {
        let values = registry::find("promote").unwrap().values(&owned(given)).unwrap();
        let script = Script { draws: draws.to_vec(), drawn: 0 };
        let setup = setup(pages, sizes, clients);
        Self::of(promote::with_draws(&setup, &values, script), &setup)
    }

    fn of(policy: BoxedPolicy, setup: &Setup) -> Self {
        let (pages, clients) = (setup.geometry.pages(), setup.clients);
        let ledger = Ledger::of_clients(pages, &setup.capacity_pages, clients);
        let caches = setup.disk().0;
        Self { policy, ledger, pages, clients, caches, actions: Actions::new(), moves: 0 }
    }

    /// Makes an access; where it was found, and served.
    #[track_caller]
    pub(crate) fn access(&mut self, access: Access) -> Outcome {
        self.actions.clear();
        self.policy.access(access, &mut self.actions);
        if let Err(violation) = self.ledger.access(access, &self.actions) {
            panic!("{violation}\n{:?}", self.actions);
        }
        let mut outcome = None;
        for action in self.actions.as_slice() {
            match *action {
                Action::Serve { found, tier, .. } => {
                    outcome = Some(Outcome { found: found.index(), served: tier.index() });
                }
                Action::Copy { source, target, .. } => {
                    self.moves += u64::from(source.0.max(target.0) < self.caches);
                }
                Action::Drop { .. } => {}
            }
        }
        outcome.unwrap()
    }

    /// Makes all accesses, and checks the policy after the last one.
    #[track_caller]
    pub(crate) fn run(&mut self, accesses: &[Access]) {
        for &access in accesses {
            self.access(access);
        }
        self.policy.assert_invariants();
    }

    /// Return the accesses found in each cache.
    pub(crate) fn hits(&self) -> Vec<u64> {
        (0..self.caches).map(|tier| self.ledger.counts().hits(Tier(tier))).collect()
    }

    /// Return the pages of each cache, in order of their numbers.
    pub(crate) fn held(&self) -> Vec<Vec<u32>> {
        let pages = |tier: u8| {
            (0..self.pages).filter(move |&page| self.ledger.holds(Tier(tier), PageId(page)))
        };
        (0..self.caches).map(|tier| pages(tier).collect()).collect()
    }
}
