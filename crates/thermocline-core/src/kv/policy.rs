//! Chains of blocks before a policy of the registry, which sees one read for each block.
//!
//! The prefix rule counts hits by what the policy's actions have put where. Afterwards the policy sees
//! the blocks of the chain one after the other, as hits or misses. Its disk stands for the computation.
//!
//! * Source: none; what a policy of pages makes of chains.
//! * State: 8 bytes per block that exists; 16 with a time-to-live.
//! * Cost: that of the policy.
//! * Deviations: (1) A policy may give up the front of a chain while its end enters, and then writes it
//!   again. Engines lock what they use. (2) No call makes a policy drop a page: a copy that is too old
//!   is not found, but keeps its room until the policy evicts it or the block is used again.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use super::places::Places;
use super::settings::{KvSettings, Order};
use super::{KvFound, KvRequest, PrefixCache};
use crate::config::Values;
use crate::registry::PolicyEntry;
use crate::{
    Access, Action, Actions, BoxedPolicy, ConfigError, Geometry, Ledger, Nanos, PageId, Setup,
    Violation,
};

/// A policy of the registry before which chains are put.
#[derive(Debug)]
pub struct PolicyTiers {
    policy: BoxedPolicy,
    settings: KvSettings,
    places: Places,
    /// Number of block ids.
    pages: u32,
    held: Box<[u64]>,
    last_uses: Option<Box<[Nanos]>>,
    writes: Box<[u64]>,
    expired: u64,
    served: Vec<u8>,
    actions: Actions,
    ledger: Option<Ledger>,
    violation: Option<Violation>,
}

impl PolicyTiers {
    /// Create the policy with empty tiers. Blocks have ids below `pages`. Of the settings, the
    /// capacities, the engines, the order, the matching and the times-to-live count.
    ///
    /// # Errors
    /// [`ConfigError`] if the policy does not support such tiers or that number of engines.
    ///
    /// # Panics
    /// If the settings contradict each other, or engines have more than one tier for themselves.
    pub fn new(
        entry: &PolicyEntry,
        values: &Values,
        pages: u32,
        settings: KvSettings,
    ) -> Result<Self, ConfigError> {
        settings.assert_valid();
        let one_each = settings.private_tiers == 1 || settings.places() == settings.tiers.len();
        assert!(one_each, "a policy gives each client one tier");
        let capacities = settings.tiers.iter().map(|tier| tier.capacity_pages).collect();
        let mut setup = Setup::new(Geometry::linear(pages), capacities);
        setup.clients = settings.engines;
        let has_ttl = settings.tiers.iter().any(|tier| tier.ttl.is_some());
        Ok(Self {
            policy: entry.build(&setup, values)?,
            pages,
            places: Places::new(settings.engines, 1, settings.tiers.len()),
            held: vec![0; pages as usize].into_boxed_slice(),
            last_uses: has_ttl.then(|| vec![Nanos(0); pages as usize].into_boxed_slice()),
            writes: vec![0; settings.tiers.len()].into_boxed_slice(),
            expired: 0,
            served: Vec::new(),
            actions: Actions::new(),
            ledger: None,
            violation: None,
            settings,
        })
    }

    /// Runs the ledger alongside, from now on: to be called before the first request.
    pub fn check(&mut self) {
        let capacities: Vec<u32> =
            self.settings.tiers.iter().map(|tier| tier.capacity_pages).collect();
        self.ledger = Some(Ledger::of_clients(self.pages, &capacities, self.settings.engines));
    }

    /// Return the places that hold a copy of a block which is not too old.
    fn fresh(&self, page: PageId, now: Nanos) -> u64 {
        let held = self.held[page.index()];
        let Some(last_uses) = &self.last_uses else { return held };
        let age = now.0.saturating_sub(last_uses[page.index()].0);
        let tiers = self.settings.tiers.iter().enumerate();
        let old = tiers.filter(|(_, tier)| tier.ttl.is_some_and(|ttl| age > ttl.0));
        let places = old.flat_map(|(tier, _)| {
            (0..self.settings.engines.get()).map(move |engine| (engine, tier))
        });
        places.fold(held, |held, (engine, tier)| held & !(1 << self.places.place(engine, tier)))
    }

    /// Follows the moves of one access.
    fn follow(&mut self) {
        for action in self.actions.as_slice() {
            match *action {
                Action::Serve { .. } => {}
                Action::Copy { page, target, .. } => {
                    let place = target.index();
                    if place < self.places.all() {
                        self.held[page.index()] |= 1 << place;
                        self.writes[self.places.tier(place)] += 1;
                    }
                }
                Action::Drop { page, tier } => self.held[page.index()] &= !(1 << tier.index()),
            }
        }
    }

    fn answer(&mut self, request: KvRequest<'_>, mut out: Option<&mut Actions>) -> KvFound {
        let KvRequest { at, engine, chain } = request;
        let mut served = mem::take(&mut self.served);
        let fresh = |page| self.fresh(page, at);
        let found = self.places.look_up(engine, self.settings.matching, chain, fresh, &mut served);
        self.served = served;
        if self.last_uses.is_some() {
            for &page in chain {
                let old = self.held[page.index()] & !self.fresh(page, at);
                self.expired += u64::from(old.count_ones());
            }
        }
        for step in 0..chain.len() {
            let index = match self.settings.order {
                Order::TailFirst => chain.len() - 1 - step,
                Order::HeadFirst => step,
            };
            let page = chain[index];
            self.actions.clear();
            self.policy.access(Access::read(page.0).by(engine), &mut self.actions);
            if let Some(ledger) = self.ledger.as_mut().filter(|_| self.violation.is_none()) {
                let access = Access::read(page.0).by(engine);
                self.violation = ledger.access(access, &self.actions).err();
            }
            self.follow();
            if let Some(out) = &mut out {
                out.extend(&self.actions);
            }
            if let Some(last_uses) = &mut self.last_uses {
                last_uses[page.index()] = at;
            }
        }
        found
    }
}

impl PrefixCache for PolicyTiers {
    fn request(&mut self, request: KvRequest<'_>) -> KvFound {
        self.answer(request, None)
    }

    fn request_with_moves(&mut self, request: KvRequest<'_>, out: &mut Actions) -> KvFound {
        self.answer(request, Some(out))
    }

    fn writes(&self) -> &[u64] {
        &self.writes
    }

    fn expired(&self) -> u64 {
        self.expired
    }

    fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.policy.prefetch(page);
    }

    fn holds(&self, engine: u8, tier: usize, page: PageId) -> bool {
        self.held[page.index()] & 1 << self.places.place(engine, tier) != 0
    }

    fn assert_invariants(&self) {
        self.policy.assert_invariants();
        for place in 0..self.places.all() {
            let held = self.held.iter().filter(|held| *held & 1 << place != 0).count();
            let capacity = self.settings.tiers[self.places.tier(place)].capacity_pages;
            assert!(held <= capacity as usize, "a place holds its capacity");
        }
    }
}
