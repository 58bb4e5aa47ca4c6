//! Tiers of blocks as serving systems build them: exclusive, write-back or write-through.
//!
//! A request is looked up first. Then the copies that it will put back leave their places, so that
//! they are not in each other's way, and its blocks enter tier by tier, the slowest first. A place that
//! is over-full gives its victim up at once, to the tier below or for good.
//!
//! * Source: what the engines do, see `docs/kv.md`; DEMOTE (Wong and Wilkes, USENIX ATC 2002) for
//!   exclusive tiers.
//! * State: 16 bytes per block that exists, and the orders of the places. Counts of uses, times of use
//!   and the continuations of blocks only where tiers ask for them.
//! * Cost: O(tiers) per block of a request; O(log blocks) with a time-to-live.
//! * Deviations: (1) A request is one step: what engines do block by block while they compute happens
//!   at its end. (2) A chain that is longer than the first tier pushes its own end out of it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use super::ages::Ages;
use super::family::Family;
use super::places::{Places, numbered};
use super::settings::{KvSettings, KvTier, Mode, Order, Touch, Victim};
use super::stores::{AlgorithmStore, LruStore, Store};
use super::uses::Uses;
use super::{KvFound, KvRequest, PrefixCache};
use crate::action::Sink;
use crate::config::Values;
use crate::policy::single::Algorithm;
use crate::{Actions, Nanos, Op, PageId, Tier};

/// Tiers of blocks with a store for each place.
#[derive(Clone, Debug)]
pub struct KvTiers<S> {
    settings: KvSettings,
    places: Places,
    stores: Box<[S]>,
    blocks: Box<[Block]>,
    uses: Option<Uses>,
    ages: Option<Ages>,
    family: Option<Family>,
    writes: Box<[u64]>,
    expired: u64,
    /// The tiers of the hits of the request in progress.
    served: Vec<u8>,
    /// The blocks that enter a tier for it, each with the tier that it was found in.
    entering: Vec<(PageId, Option<u8>)>,
}

/// Places that hold a block: a bit for each.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    held: u64,
    /// Places that it was taken out of by the request in progress, and not put back yet.
    taken: u64,
}

const _: () = assert!(size_of::<Block>() == 16, "update the `State` line of the module header");

/// Moves that nobody asks for.
struct Discard;

impl Sink for Discard {
    fn serve(&mut self, _page: PageId, _op: Op, _found: Tier, _tier: Tier) {}

    fn copy(&mut self, _page: PageId, _source: Tier, _target: Tier) {}

    fn drop_copy(&mut self, _page: PageId, _tier: Tier) {}
}

impl KvTiers<LruStore> {
    /// Create empty tiers, each with an order of recency. Blocks have ids below `pages`.
    ///
    /// # Panics
    /// If the settings contradict each other.
    pub fn lru(pages: u32, settings: KvSettings) -> Self {
        let victim = settings.victim;
        Self::new(pages, settings, |tier| LruStore::new(pages, tier, victim))
    }

    /// Return the blocks of a tier as an engine sees it, the most recently used first.
    pub fn contents(&self, engine: u8, tier: usize) -> impl Iterator<Item = PageId> + '_ {
        self.stores[self.places.place(engine, tier)].iter()
    }
}

impl KvTiers<AlgorithmStore> {
    /// Create empty tiers, each with the same replacement algorithm.
    ///
    /// # Panics
    /// If the settings contradict each other.
    pub fn of(algorithm: &Algorithm, values: &Values, pages: u32, settings: KvSettings) -> Self {
        Self::new(pages, settings, |tier| AlgorithmStore::new(pages, tier, algorithm, values))
    }
}

impl<S: Store> KvTiers<S> {
    fn new(pages: u32, settings: KvSettings, store: impl Fn(&KvTier) -> S) -> Self {
        settings.assert_valid();
        let KvSettings { engines, private_tiers, ref tiers, .. } = settings;
        let places = Places::new(engines, private_tiers, tiers.len());
        let of_place = |place| &tiers[places.tier(place)];
        let counts_uses = tiers.iter().any(|tier| tier.admit_uses > 1);
        let has_ttl = tiers.iter().any(|tier| tier.ttl.is_some());
        Self {
            stores: (0..places.all()).map(|place| store(of_place(place))).collect(),
            blocks: vec![Block::default(); pages as usize].into_boxed_slice(),
            uses: counts_uses.then(|| Uses::new(pages, settings.ghost_blocks)),
            ages: has_ttl
                .then(|| Ages::new(pages, (0..places.all()).map(|place| of_place(place).ttl))),
            family: (settings.victim == Victim::Leaf).then(|| Family::new(pages)),
            writes: vec![0; tiers.len()].into_boxed_slice(),
            expired: 0,
            served: Vec::new(),
            entering: Vec::new(),
            places,
            settings,
        }
    }

    fn answer(&mut self, request: KvRequest<'_>, out: &mut impl Sink) -> KvFound {
        let KvRequest { at, engine, chain } = request;
        // Expired copies must not serve this request.
        self.expire(at, out);
        // The vector goes back below: requests allocate nothing.
        let mut served = mem::take(&mut self.served);
        let matching = self.settings.matching;
        let held = |page: PageId| self.blocks[page.index()].held;
        let found = self.places.look_up(engine, matching, chain, held, &mut served);
        if let Some(family) = &mut self.family {
            family.learn(chain);
        }
        if let Some(uses) = &mut self.uses {
            uses.count(chain);
        }
        match self.settings.mode {
            Mode::Exclusive => self.keep_exclusive(request, &served, out),
            Mode::Back => self.keep_back(request, &served, out),
            Mode::Through => self.keep_through(request, &served, out),
        }
        self.served = served;
        if let Some(uses) = &mut self.uses {
            uses.settle(|page| self.blocks[page.index()].held != 0);
        }
        found
    }

    /// Drops copies that are too old.
    fn expire(&mut self, now: Nanos, out: &mut impl Sink) {
        let Some(ages) = &mut self.ages else { return };
        for place in 0..self.places.all() {
            loop {
                let is_held = |page: PageId| self.blocks[page.index()].held & 1 << place != 0;
                let Some(page) = ages.next_expired(place, now, is_held) else { break };
                self.stores[place].forget(page, self.family.as_ref());
                self.blocks[page.index()].held &= !(1 << place);
                out.drop_copy(page, numbered(place));
                self.expired += 1;
                if let Some(uses) = &mut self.uses {
                    uses.note_departure(page);
                }
            }
        }
    }

    fn keep_exclusive(&mut self, request: KvRequest<'_>, served: &[u8], out: &mut impl Sink) {
        let first = self.places.place(request.engine, 0);
        let below = self.places.seen_by(request.engine) & !(1 << first);
        for &page in request.chain {
            self.take_out(first, page);
            self.forget(below, page);
        }
        for (page, found) in in_order(self.settings.order, request.chain, served) {
            // The algorithm of the first tier may have passed the block down a moment ago.
            self.forget(below, page);
            self.enter_first(request, page, found, out);
        }
        // Blocks that no tier took have left for good.
        for &page in request.chain {
            self.give_up_taken(page, out);
        }
    }

    fn keep_back(&mut self, request: KvRequest<'_>, served: &[u8], out: &mut impl Sink) {
        let (engine, order) = (request.engine, self.settings.order);
        let first = self.places.place(engine, 0);
        for &page in request.chain {
            self.take_out(first, page);
        }
        for (&page, &tier) in request.chain.iter().zip(served) {
            if tier > 0 {
                self.take_out(self.places.place(engine, tier.into()), page);
            }
        }
        for tier in (1..self.places.tiers()).rev() {
            for (page, found) in in_order(order, &request.chain[..served.len()], served) {
                if found.map(usize::from) == Some(tier) {
                    let source = self.source(engine, page, found);
                    let is_in = self.enter(engine, tier, page, request.at, source, out);
                    assert!(is_in, "a store takes a block that it had");
                }
            }
        }
        for (page, found) in in_order(order, request.chain, served) {
            self.enter_first(request, page, found, out);
        }
    }

    fn keep_through(&mut self, request: KvRequest<'_>, served: &[u8], out: &mut impl Sink) {
        let KvRequest { at, engine, chain } = request;
        let KvSettings { order, touch, .. } = self.settings;
        let renews = |tier: usize, found: Option<u8>| {
            touch == Touch::All || found.is_none_or(|found| usize::from(found) >= tier)
        };
        let mut entering = mem::take(&mut self.entering);
        for tier in (0..self.places.tiers()).rev() {
            let place = self.places.place(engine, tier);
            for (page, found) in in_order(order, chain, served) {
                let is_here = self.blocks[page.index()].held & 1 << place != 0;
                if if is_here { renews(tier, found) } else { self.admits(tier, page) } {
                    self.take_out(place, page);
                    entering.push((page, found));
                }
            }
            for (page, found) in entering.drain(..) {
                let source = self.source(engine, page, found);
                self.enter(engine, tier, page, at, source, out);
            }
        }
        self.entering = entering;
    }

    /// Brings a block of the request to the engine's first tier, or to the first one that takes it.
    fn enter_first(
        &mut self,
        request: KvRequest<'_>,
        page: PageId,
        found: Option<u8>,
        out: &mut impl Sink,
    ) {
        let KvRequest { at, engine, .. } = request;
        let source = self.source(engine, page, found);
        if !self.enter(engine, 0, page, at, source, out) {
            self.demote(engine, 0, page, at, source, out);
        }
    }

    /// Takes out of a place what the request in progress will put back.
    #[inline]
    fn take_out(&mut self, place: usize, page: PageId) {
        let block = &mut self.blocks[page.index()];
        if block.held & 1 << place != 0 && self.stores[place].take_out(page, self.family.as_ref()) {
            block.held &= !(1 << place);
            block.taken |= 1 << place;
        }
    }

    /// Takes a block out of all of these places.
    #[inline]
    fn forget(&mut self, places: u64, page: PageId) {
        let block = &mut self.blocks[page.index()];
        for place in bits(block.held & places) {
            self.stores[place].forget(page, self.family.as_ref());
        }
        block.taken |= block.held & places;
        block.held &= !places;
    }

    /// Drop the copies of the places that a block was taken out of and that did not get it back.
    fn give_up_taken(&mut self, page: PageId, out: &mut impl Sink) {
        for place in bits(mem::take(&mut self.blocks[page.index()].taken)) {
            out.drop_copy(page, numbered(place));
        }
    }

    /// Return the tier that the bytes of a block come from: the one it was found in, unless the
    /// request itself has pushed it out of there, or the computation, which takes the place of a
    /// disk.
    fn source(&self, engine: u8, page: PageId, found: Option<u8>) -> Tier {
        let Block { held, taken } = self.blocks[page.index()];
        let place = found.map(|tier| self.places.place(engine, tier.into()));
        let place = place.filter(|&place| (held | taken) & 1 << place != 0);
        numbered(place.unwrap_or(self.places.all()))
    }

    /// Return `true` if a block was used often enough for a tier.
    #[inline]
    fn admits(&self, tier: usize, page: PageId) -> bool {
        let wanted = self.settings.tiers[tier].admit_uses;
        self.uses.as_ref().is_none_or(|uses| uses.of(page) >= wanted)
    }

    /// Makes a block the most recently used one of a tier, its copy having been used last at `used_at`.
    /// Returns `false` if the tier refuses it.
    fn enter(
        &mut self,
        engine: u8,
        tier: usize,
        page: PageId,
        used_at: Nanos,
        source: Tier,
        out: &mut impl Sink,
    ) -> bool {
        let place = self.places.place(engine, tier);
        if !self.stores[place].put(page, self.family.as_ref()) {
            return false;
        }
        let block = &mut self.blocks[page.index()];
        let is_new = (block.held | block.taken) & 1 << place == 0;
        block.held |= 1 << place;
        block.taken &= !(1 << place);
        if is_new {
            self.writes[tier] += 1;
            out.copy(page, source, numbered(place));
        }
        if tier == 0 && self.settings.mode == Mode::Exclusive {
            // The block has moved up. If its own chain pushes it out again, it is written below anew.
            self.give_up_taken(page, out);
        }
        if let Some(ages) = &mut self.ages {
            let last = if is_new { used_at } else { used_at.max(ages.last_use(place, page)) };
            ages.set(place, page, last);
        }
        while let Some(victim) = self.stores[place].next_victim(self.family.as_ref()) {
            self.leave(engine, tier, victim, out);
        }
        true
    }

    /// Handle a block that left a tier: it moves down, if that is how the tiers work.
    fn leave(&mut self, engine: u8, tier: usize, page: PageId, out: &mut impl Sink) {
        let place = self.places.place(engine, tier);
        if self.settings.mode != Mode::Through {
            let used_at = self.ages.as_ref().map_or(Nanos(0), |ages| ages.last_use(place, page));
            self.demote(engine, tier, page, used_at, numbered(place), out);
        }
        self.blocks[page.index()].held &= !(1 << place);
        out.drop_copy(page, numbered(place));
        if let Some(uses) = &mut self.uses {
            uses.note_departure(page);
        }
    }

    /// Offers a block to the tiers below one, until one takes it or its uses do not suffice for the next.
    fn demote(
        &mut self,
        engine: u8,
        from: usize,
        page: PageId,
        used_at: Nanos,
        source: Tier,
        out: &mut impl Sink,
    ) {
        for tier in from + 1..self.places.tiers() {
            let place = self.places.place(engine, tier);
            let is_here = self.blocks[page.index()].held & 1 << place != 0;
            if !is_here && !self.admits(tier, page)
                || self.enter(engine, tier, page, used_at, source, out)
            {
                return;
            }
        }
    }
}

/// Return the blocks of a chain in the order in which they enter, each with the tier that it was
/// found in.
fn in_order<'a>(
    order: Order,
    chain: &'a [PageId],
    served: &'a [u8],
) -> impl Iterator<Item = (PageId, Option<u8>)> + 'a {
    (0..chain.len()).map(move |step| {
        let index = match order {
            Order::TailFirst => chain.len() - 1 - step,
            Order::HeadFirst => step,
        };
        (chain[index], served.get(index).copied())
    })
}

/// Return the places of a word, in order.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let rest = word.checked_sub(1)?;
        let place = word.trailing_zeros();
        word &= rest;
        Some(place as usize)
    })
}

impl<S: Store> PrefixCache for KvTiers<S> {
    fn request(&mut self, request: KvRequest<'_>) -> KvFound {
        self.answer(request, &mut Discard)
    }

    fn request_with_moves(&mut self, request: KvRequest<'_>, out: &mut Actions) -> KvFound {
        self.answer(request, out)
    }

    fn writes(&self) -> &[u64] {
        &self.writes
    }

    fn expired(&self) -> u64 {
        self.expired
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        crate::prefetch(&self.blocks, page.index());
    }

    fn holds(&self, engine: u8, tier: usize, page: PageId) -> bool {
        self.blocks[page.index()].held & 1 << self.places.place(engine, tier) != 0
    }

    fn assert_invariants(&self) {
        for (place, store) in self.stores.iter().enumerate() {
            store.assert_invariants();
            let held = self.blocks.iter().filter(|block| block.held & 1 << place != 0).count();
            let capacity = self.settings.tiers[self.places.tier(place)].capacity_pages;
            assert!(held <= capacity as usize, "a place holds its capacity");
            let ordered = store.held().map_or(held, |ordered| ordered as usize);
            assert_eq!(ordered, held, "a place holds what it has ordered");
        }
        for block in &self.blocks {
            assert_eq!(block.taken, 0, "what is taken out is put back within a request");
            if self.settings.mode == Mode::Exclusive
                && self.settings.places() == self.places.tiers()
            {
                assert!(block.held.count_ones() < 2, "no block is in two tiers");
            }
        }
        if let Some(uses) = &self.uses {
            uses.assert_invariants(|page| self.blocks[page.index()].held != 0);
        }
    }
}
