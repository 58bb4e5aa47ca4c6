//! The half of the server: the tiers that all clients share.
//!
//! Its clock counts the accesses of all clients, as it hears of them.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, Algorithms 1, 4 and 5.
//! * State: that of the shared tiers of the policy; for D-HFA also the pages that each client holds, and 8
//!   bytes per client.
//! * Cost: that of the shared tiers of the policy.
//! * Deviations: see the policy.

use super::client::frequency;
use super::moves::Way;
use super::settings::Strategy;
use super::{ABSENT, Hfa, Part};
use crate::action::Sink;
use crate::config::Values;
use crate::policy::multi::halves::{Answer, Held, Hint, Holders, Message, Receive};
use crate::{Access, Op, PageId, Policy as _, Setup, Tier};

/// Decides which pages the shared tiers hold.
#[derive(Clone, Debug)]
pub(in crate::policy::multi) struct Server<const STRATEGY: u8> {
    tiers: Hfa<STRATEGY>,
    /// The pages that the clients hold; D-HFA only.
    holders: Option<Holders>,
}

impl<const STRATEGY: u8> Server<STRATEGY> {
    const STRATEGY: Strategy = Strategy::of(STRATEGY);

    pub(in crate::policy::multi) fn new(setup: &Setup, values: &Values) -> Self {
        let holders = (Self::STRATEGY == Strategy::Demote).then(|| Holders::new(setup));
        Self { tiers: Hfa::of_part(Part::Server, setup, values), holders }
    }

    /// Forgets what a client holds, and what it has said of its tier.
    pub(in crate::policy::multi) fn forget_client(&mut self, client: u8) {
        self.tiers.lives[usize::from(client)] = 0;
        if let Some(holders) = &mut self.holders {
            while holders.take(Tier(client)).is_some() {}
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
            tiers.adapt_promotion(tiers.levels.len());
            tiers.miss(access, out);
        } else {
            let place = tiers.queues.place_of(frame).expect("a cached page is in a queue");
            tiers.adapt_promotion(place.0);
            tiers.hit(access, frame, place, out);
        }
        let Some(carried) = tiers.risen.take() else { return Answer::Passed };
        if let Some(holders) = &mut self.holders {
            holders.hold(Tier(access.client), access.page);
        }
        Answer::Kept(carried.to_bits())
    }

    /// Let a client write a page that it holds.
    fn write_through(&mut self, access: Access, out: &mut impl Sink) {
        self.begin(access, out);
        let (page, top) = (access.page, Tier(access.client));
        let tiers = &mut self.tiers;
        out.serve(page, Op::Write, top, top);
        out.copy(page, top, tiers.disk);
        let shared = tiers.frame_of(page);
        if let Some(holders) = &mut self.holders {
            holders.hold(top, page);
            if shared != ABSENT {
                // A client that was forgotten may hold what another one has demoted since.
                let (level, _) = tiers.detach(shared);
                tiers.discard(level, shared, out);
            }
        } else if shared != ABSENT {
            // What came to the shared tiers on another path is renewed on the way to disk.
            out.copy(page, top, tiers.tier_of(shared));
        }
    }

    /// Let a client give up a page, which carries this frequency.
    fn take(&mut self, client: u8, page: PageId, carried: f64, out: &mut impl Sink) {
        let top = Tier(client);
        // Nothing is handed down under P-HFA.
        let Some(holders) = &mut self.holders else { return };
        holders.leave(top, page);
        let below = self.tiers.below(top.index());
        // The last that has it demotes it. A client that was forgotten may still give up what another one
        // has demoted since.
        if holders.are_any(page)
            || self.tiers.frame_of(page) != ABSENT
            || below >= self.tiers.levels.len()
        {
            return;
        }
        let frame = self.tiers.enter(page);
        out.copy(page, top, self.tiers.levels[below].tier);
        self.tiers.receive(below, frame, carried, Way::Down, out);
    }

    /// Take what a client says: time has passed, and how long its tier lives.
    fn listen(&mut self, client: u8, hint: Hint, out: &mut impl Sink) {
        self.tiers.pass_time(hint.hits, out);
        // Nothing lives longer than there have been accesses.
        self.tiers.lives[usize::from(client)] = hint.value.min(self.tiers.now);
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

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.tiers.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.tiers.assert_invariants();
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
