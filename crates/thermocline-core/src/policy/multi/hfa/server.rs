//! The half of the server: the tiers that all clients share.
//!
//! Its clock counts the accesses of all clients, as it hears of them.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, Algorithms 1, 2 and 4 to 6.
//! * State: that of the shared tiers of the policy; for D-HFA and H-HFA also the pages that each client holds,
//!   and 8 bytes per client; for H-HFA the moves of these pages.
//! * Cost: that of the shared tiers of the policy.
//! * Deviations: see the policy.

use super::by_value::Told;
use super::client::frequency;
use super::moves::Way;
use super::settings::Strategy;
use super::{ABSENT, Hfa, Part};
use crate::action::Sink;
use crate::config::Values;
use crate::policy::multi::halves::{Answer, Held, Hint, Holders, Message, Push, Receive};
use crate::{Access, Op, PageId, Policy as _, Setup, Tier};

/// Decides which pages the shared tiers hold.
#[derive(Clone, Debug)]
pub(in crate::policy::multi) struct Server<const STRATEGY: u8> {
    tiers: Hfa<STRATEGY>,
    /// The pages that the clients hold; D-HFA and H-HFA only.
    holders: Option<Holders>,
}

impl<const STRATEGY: u8> Server<STRATEGY> {
    const STRATEGY: Strategy = Strategy::of(STRATEGY);

    pub(in crate::policy::multi) fn new(setup: &Setup, values: &Values) -> Self {
        let holders = (Self::STRATEGY != Strategy::Promote).then(|| Holders::new(setup));
        Self { tiers: Hfa::of_part(Part::Server, setup, values), holders }
    }

    /// Forgets what a client holds, and what it has said of its tier.
    pub(in crate::policy::multi) fn forget_client(&mut self, client: u8) {
        self.tiers.said[usize::from(client)] = 0;
        while let Some(page) = self.holders.as_mut().and_then(|holders| holders.take(Tier(client)))
        {
            self.note_gone(page);
        }
    }

    /// Notes that a client holds a page. One that holds more than it may is not believed.
    fn hold(&mut self, client: u8, page: PageId) {
        let Some(holders) = &mut self.holders else { return };
        if let Some(forgotten) = holders.hold(Tier(client), page) {
            self.note_gone(forgotten);
        }
    }

    /// Keeps the moves of a page for a while that no cache holds any more.
    fn note_gone(&mut self, page: PageId) {
        let is_held = self.holders.as_ref().is_some_and(|holders| holders.are_any(page));
        self.tiers.note_held(page, is_held);
    }

    /// Return the number that goes with a page to a client.
    fn number(&self, page: PageId, carried: f64) -> u64 {
        match Self::STRATEGY {
            Strategy::Demote | Strategy::Promote => carried.to_bits(),
            Strategy::Hint => Told::to_wire(carried, self.tiers.moves_of(page)),
        }
    }

    /// Begins an access of a client.
    fn begin(&mut self, access: Access, out: &mut impl Sink) {
        self.tiers.close(out);
        self.tiers.open(access.client);
        // The copies of other clients are older than what this one writes.
        if let Some(holders) = &mut self.holders
            && access.op == Op::Write
        {
            holders.leave_others(Tier(access.client), access.page);
        }
    }

    /// Let a client read or write a page that it does not hold. Returns whether it keeps the page.
    fn bring(&mut self, access: Access, out: &mut impl Sink) -> Answer {
        self.begin(access, out);
        let tiers = &mut self.tiers;
        let frame = tiers.frame_of(access.page);
        if frame == ABSENT {
            // A miss passes every tier, so each compares its life with that of the tier above.
            tiers.adapt_promotion(tiers.levels.len());
            tiers.miss(access, out);
        } else {
            let place = tiers.queues.place_of(frame).expect("a cached page is in a queue");
            tiers.adapt_promotion(place.0);
            tiers.hit(access, frame, place, out);
        }
        let Some(carried) = tiers.risen.take() else { return Answer::Passed };
        self.hold(access.client, access.page);
        Answer::Kept(self.number(access.page, carried))
    }

    /// Let a client write a page that it holds.
    fn write_through(&mut self, access: Access, out: &mut impl Sink) {
        self.begin(access, out);
        let (page, top) = (access.page, Tier(access.client));
        let tiers = &mut self.tiers;
        out.serve(page, Op::Write, top, top);
        out.copy(page, top, tiers.disk);
        let shared = tiers.frame_of(page);
        if self.holders.is_some() {
            if shared != ABSENT {
                // A client that was forgotten may hold what another one has demoted since.
                let (level, _) = tiers.detach(shared);
                tiers.discard(level, shared, out);
            }
            self.hold(access.client, page);
            self.note_gone(page);
        } else if shared != ABSENT {
            // A copy that came to the shared tiers on another path is renewed on the way to disk.
            out.copy(page, top, tiers.tier_of(shared));
        }
    }

    /// Let a client give up a page, which carries this frequency.
    fn take(&mut self, client: u8, page: PageId, carried: f64, out: &mut impl Sink) {
        let top = Tier(client);
        // Nothing is handed down under P-HFA.
        let Some(holders) = &mut self.holders else { return };
        // Before the question who else has the page: the client that gives it up counts no more.
        holders.leave(top, page);
        self.tiers.client = client;
        let below = self.tiers.below(top.index());
        // The last that has it demotes it. A client that was forgotten may still give up what another one
        // has demoted since.
        if holders.are_any(page)
            || self.tiers.frame_of(page) != ABSENT
            || below >= self.tiers.levels.len()
        {
            return self.note_gone(page);
        }
        let frame = self.tiers.enter(page);
        self.tiers.note_demoted(page);
        out.copy(page, top, self.tiers.levels[below].tier);
        self.tiers.receive(below, frame, carried, Way::Down, out);
    }

    /// Take what a client says: time has passed, and the measure of its tier.
    fn listen(&mut self, client: u8, hint: Hint, out: &mut impl Sink) {
        self.tiers.pass_time(hint.hits, out);
        self.tiers.said[usize::from(client)] = match Self::STRATEGY {
            // Nothing lives longer than there have been accesses.
            Strategy::Demote | Strategy::Promote => hint.value.min(self.tiers.now),
            Strategy::Hint => hint.value,
        };
    }
}

impl<const STRATEGY: u8> Receive for Server<STRATEGY> {
    fn receive(&mut self, client: u8, message: Message, out: &mut impl Sink) -> Option<Answer> {
        match message {
            Message::Read { page } => Some(self.bring(Access { page, op: Op::Read, client }, out)),
            Message::Write { page, held: Held::No } => {
                Some(self.bring(Access { page, op: Op::Write, client }, out))
            }
            Message::Write { page, held: Held::Yes } => {
                self.write_through(Access { page, op: Op::Write, client }, out);
                None
            }
            Message::Demote { page, carried } => {
                self.take(client, page, carried.map_or(0.0, frequency), out);
                None
            }
            Message::Tell(hint) => {
                self.listen(client, hint, out);
                None
            }
        }
    }

    fn take_push(&mut self) -> Option<Push> {
        let (page, carried) = self.tiers.pushed.take()?;
        let client = self.tiers.client;
        self.hold(client, page);
        Some(Push { page, number: self.number(page, carried) })
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.tiers.prefetch(page);
    }

    fn assert_invariants(&self) {
        let is_held = |page| self.holders.as_ref().is_some_and(|holders| holders.are_any(page));
        self.tiers.assert_invariants_with(is_held);
        if let Some(holders) = &self.holders {
            let is_shared = |page| self.tiers.frame_of(page) != ABSENT;
            holders.assert_invariants(is_shared);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.tiers.memory_bytes() + self.holders.as_ref().map_or(0, Holders::memory_bytes)
    }

    fn metadata_bytes(&self) -> usize {
        self.tiers.metadata_bytes()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        self.tiers.gauges(report);
    }
}
