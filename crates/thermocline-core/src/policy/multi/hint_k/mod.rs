//! Hint-K: pages that move a lot between tiers stay near the fast end.
//!
//! A page read from disk enters the fastest tier. A full tier demotes the page of the least K-step
//! hint value, among equals the least recently used; the last tier drops it. A page hit below
//! moves one tier up if there is room or its value is above the least one there, and else becomes
//! the most recently used of its tier.
//!
//! * Source: Wu, He, Cao, Xie, *Hint-K: An Efficient Multi-level Cache Using K-step Hints*, ICPP
//!   2010; with Wan, IEEE TPDS 25(3), 2014.
//! * State: 17 bytes per page that exists, 4 more per tier, and 8 per first tier; 24 bytes per cached page,
//!   44 per page of a first tier.
//! * Cost: O(tiers * log n) per access.
//! * Deviations: (1) reconstructed from abstracts and from what the HFA paper says of it; the
//!   value's formula is ours. (2) Neither reading from disk nor dropping is a move. (3) A demoted
//!   page is the most recently used of the tier that it enters. (4) With several clients a page has
//!   one history, that of its moves on all paths. No shared tier holds what a first tier does: a
//!   victim that another client's first tier holds is dropped; the last that has it demotes it. (5) The
//!   server keeps all histories, as every move passes it; the client gets a page's value with the page, and
//!   says with a request which value a page must have to enter.

mod client;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;

pub(super) use self::client::Client;
use super::halves::{Answer, Held, Holders, Joined, Message, Receive};
use super::hierarchy::Hierarchy;
use super::khv::{self, Histories, Move};
use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::prefetch::prefetch;
use crate::queue::{IndexedHeap, Numbers};
use crate::{Access, BoxedPolicy, Op, PageId, Setup, Tier};

/// The parameters.
pub const PARAMETERS: &[Parameter] =
    &[khv::STEPS, khv::DECAY, khv::PROMOTION, khv::DEMOTION, khv::GHOST_RATIO];

/// The bits of a value, which order as values do since none is negative; then the time of last use.
type Key = (u64, u64);

/// The half of Hint-K that decides for the tiers below the clients.
#[derive(Clone, Debug)]
pub(super) struct Server {
    hierarchy: Hierarchy,
    numbers: Numbers,
    holders: Holders,
    /// Per client: the least value, in bits, with which a page enters its tier.
    entering: Box<[u64]>,
    /// Per shared tier: its pages' numbers, the victim first.
    tiers: Box<[IndexedHeap<Key>]>,
    /// Per number of a page: the shared tier that holds it, or the disk.
    tier_of: Box<[Tier]>,
    histories: Histories,
    /// Counts uses, so that no two pages are equally recent.
    uses: u64,
}

/// Its name in the registry.
pub(super) const HINT_K_NAME: &str = "hint-k";

/// Its row in the registry.
pub const HINT_K: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed(HINT_K_NAME),
    summary: "a page's last moves between tiers say how near to the top it stays (reconstructed)",
    source: "Wu, He, Cao, Xie: Hint-K, ICPP 2010; IEEE TPDS 25(3), 2014",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Tiers),
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Joined::new(setup, || Client::new(setup), Server::new(setup, values)))
}

impl Server {
    pub(super) fn new(setup: &Setup, values: &Values) -> Self {
        let (hierarchy, ids) = (Hierarchy::new(setup), setup.ids());
        let cached_pages = hierarchy.total_pages();
        let ghosts_max = Histories::ghosts_max(ids.pages, cached_pages, values);
        // A client says what it reads before it says what leaves for it, and a page enters before another
        // one leaves.
        let beside = u64::from(setup.clients.get()) + 1;
        let cached_pages = u32::try_from(cached_pages + beside).unwrap_or(u32::MAX);
        let numbers = Numbers::new(ids, cached_pages.saturating_add(ghosts_max));
        let count = numbers.count();
        let shared = hierarchy.first_shared().0..hierarchy.disk().0;
        Self {
            numbers,
            holders: Holders::new(setup),
            entering: vec![0; setup.clients.get().into()].into_boxed_slice(),
            tiers: shared.map(|_| IndexedHeap::new(count)).collect(),
            tier_of: vec![hierarchy.disk(); count as usize].into_boxed_slice(),
            histories: Histories::new(count, ghosts_max, values),
            hierarchy,
            uses: 0,
        }
    }

    /// Forgets what a client holds. Returns its pages to no tier.
    pub(super) fn forget_client(&mut self, client: u8) {
        self.entering[usize::from(client)] = 0;
        while let Some(page) = self.holders.take(Tier(client)) {
            self.note_gone(page);
        }
    }

    /// Return the number of a page that a client names.
    fn enter(&mut self, page: PageId) -> u32 {
        let Self { tier_of, histories, hierarchy, holders, .. } = self;
        let number = self.numbers.enter(page, |number, page| {
            tier_of[number as usize] != hierarchy.disk()
                || histories.is_ghost(number)
                || holders.are_any(page)
        });
        self.histories.enter(number);
        number
    }

    /// Return the shared tier that holds a page, or the disk.
    fn tier_of(&self, number: u32) -> Tier {
        self.tier_of[number as usize]
    }

    fn heap(&mut self, shared: Tier) -> &mut IndexedHeap<Key> {
        &mut self.tiers[shared.index() - self.hierarchy.first_shared().index()]
    }

    fn pages_of(&self, shared: Tier) -> &IndexedHeap<Key> {
        &self.tiers[shared.index() - self.hierarchy.first_shared().index()]
    }

    /// Return the tier that a page found there moves to, for a client.
    fn target(&self, client: u8, number: u32, found: Tier) -> Tier {
        let top = self.hierarchy.top(client);
        if found == self.hierarchy.disk() {
            // From the disk every page enters the fastest tier; that is no move (deviation 2), so
            // its value is what it was.
            return top;
        }
        let Some(above) = self.hierarchy.above(client, found) else { return found };
        let value = self.histories.value(number).to_bits();
        // A page rises if the tier above has room, or a page that is worth less.
        let may_enter = if above == top {
            value >= self.entering[usize::from(client)]
        } else {
            let least = self.pages_of(above).least();
            // The HFA paper, Algorithm 6, promoting, step 2: larger than the least, so equals stay.
            !self.is_full(above) || least.is_some_and(|((least, _), _)| value > least)
        };
        if may_enter { above } else { found }
    }

    fn is_full(&self, shared: Tier) -> bool {
        self.pages_of(shared).len() >= self.hierarchy.capacity(shared) as usize
    }

    /// Makes the page the most recently used of a shared tier, with its present value.
    fn put(&mut self, shared: Tier, number: u32) {
        self.uses += 1;
        let key = (self.histories.value(number).to_bits(), self.uses);
        self.heap(shared).set(number, key);
        self.tier_of[number as usize] = shared;
    }

    /// Takes the page out of the shared tier that holds it.
    fn remove(&mut self, shared: Tier, number: u32) {
        self.heap(shared).remove(number);
        self.tier_of[number as usize] = self.hierarchy.disk();
    }

    /// Notes that a client holds a page. One that holds more than it may is not believed.
    fn hold(&mut self, top: Tier, page: PageId) {
        if let Some(forgotten) = self.holders.hold(top, page) {
            self.note_gone(forgotten);
        }
    }

    /// Keeps the history of a page for a while that no cache holds any more.
    fn note_gone(&mut self, page: PageId) {
        let Some(number) = self.numbers.find(page) else { return };
        if self.tier_of(number) == self.hierarchy.disk() && !self.holders.are_any(page) {
            self.histories.leave(number);
        }
    }

    /// Demotes the victim of a shared tier that is full.
    fn make_room(&mut self, shared: Tier, out: &mut impl Sink) {
        if !self.is_full(shared) {
            return;
        }
        // The victim has the least value; among equals it was used longest ago.
        let (_, victim) = self.pages_of(shared).least().expect("a full tier holds a page");
        self.remove(shared, victim);
        self.hand_down(shared, victim, out);
        out.drop_copy(self.numbers.page(victim), shared);
    }

    /// Moves a page that is in no tier's order any more to the tier below.
    fn hand_down(&mut self, source: Tier, number: u32, out: &mut impl Sink) {
        let (page, below) = (self.numbers.page(number), self.hierarchy.below(source));
        if below == self.hierarchy.disk() {
            return self.note_gone(page);
        }
        self.histories.record(number, Move::Demote);
        self.make_room(below, out);
        out.copy(page, source, below);
        self.put(below, number);
    }

    /// Let a client read or write a page. Returns whether it keeps the page.
    fn bring(&mut self, access: Access, held: Held, out: &mut impl Sink) -> Answer {
        let Access { page, client, .. } = access;
        let (top, disk) = (self.hierarchy.top(client), self.hierarchy.disk());
        let number = self.enter(page);
        // The copies of other clients are older than what this one writes.
        if access.op == Op::Write {
            self.holders.leave_others(top, page);
        }
        let shared = self.tier_of(number);
        let found = if held.is_yes() { top } else { shared };
        let target = if held.is_yes() { top } else { self.target(client, number, found) };
        self.hierarchy.serve(access, found, target, out);
        if shared != disk && shared != target {
            self.remove(shared, number);
            if shared == found {
                self.histories.record(number, Move::Promote);
            } else {
                // A client that was forgotten may hold what another one has demoted since.
                out.drop_copy(page, shared);
            }
        }
        if target == top {
            self.hold(top, page);
            return Answer::Kept(self.histories.value(number).to_bits());
        }
        if target != found {
            self.make_room(target, out);
        }
        self.put(target, number);
        Answer::Passed
    }

    /// Let a client give up a page.
    fn take(&mut self, client: u8, page: PageId, out: &mut impl Sink) {
        let top = self.hierarchy.top(client);
        let number = self.enter(page);
        self.holders.leave(top, page);
        if self.holders.are_any(page) {
            return;
        }
        match self.tier_of(number) {
            tier if tier == self.hierarchy.disk() => self.hand_down(top, number, out),
            // A client that was forgotten may still give up what another one has demoted since.
            shared => self.put(shared, number),
        }
    }
}

impl Receive for Server {
    fn receive(&mut self, client: u8, message: Message, out: &mut impl Sink) -> Option<Answer> {
        match message {
            Message::Read { page } => {
                Some(self.bring(Access { page, op: Op::Read, client }, Held::No, out))
            }
            Message::Write { page, held } => {
                Some(self.bring(Access { page, op: Op::Write, client }, held, out))
            }
            Message::Demote { page, .. } => {
                self.take(client, page, out);
                None
            }
            Message::Tell(hint) => {
                self.entering[usize::from(client)] = hint.value;
                None
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.tier_of, page.index());
        self.histories.prefetch(page);
    }

    fn assert_invariants(&self) {
        let disk = self.hierarchy.disk();
        self.numbers.assert_invariants();
        let is_cached = |number| {
            self.tier_of(number) != disk || self.holders.are_any(self.numbers.page(number))
        };
        self.histories.assert_invariants(is_cached);
        let is_shared =
            |page| self.numbers.find(page).is_some_and(|number| self.tier_of(number) != disk);
        self.holders.assert_invariants(is_shared);
        for (tier, heap) in (self.hierarchy.first_shared().0..).map(Tier).zip(&self.tiers) {
            heap.assert_invariants();
            assert!(heap.len() <= self.hierarchy.capacity(tier) as usize, "a tier has room");
            for ((value, _), number) in heap.iter() {
                assert_eq!(self.tier_of(number), tier, "a page knows its only tier");
                let known = self.histories.value(number).to_bits();
                assert_eq!(value, known, "a value is constant while its page stays");
            }
        }
        for (number, &tier) in (0..).zip(&self.tier_of) {
            let is_there = tier == disk || self.pages_of(tier).contains(number);
            assert!(is_there, "every page of a tier is there");
        }
    }

    fn memory_bytes(&self) -> usize {
        let heaps: usize = self.tiers.iter().map(IndexedHeap::memory_bytes).sum();
        let numbers_bytes = self.numbers.memory_bytes() + size_of_val(&*self.tier_of);
        self.holders.memory_bytes() + heaps + numbers_bytes + self.histories.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        let shared: usize = self.tiers.iter().map(IndexedHeap::len).sum();
        self.histories.metadata_bytes(self.holders.pages() + shared)
    }
}
