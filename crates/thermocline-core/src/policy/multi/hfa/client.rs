//! The half of a client: the first tier, with queues, hints and a clock of its own.
//!
//! The answer to a request carries the hint frequency of the page. Under D-HFA and H-HFA a page that leaves
//! takes its frequency along. Under P-HFA the client says how long its tier lives, as in PROMOTE; under H-HFA
//! it says which value a page must have to enter, and the answer carries the last moves of the page, too. The
//! client always says how many of its reads hit, so that time passes at the server.
//!
//! Under H-HFA the server may send a page because of one that the client has given up. It belongs to the same
//! access, which therefore ends when the next one begins.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, Algorithms 1, 2 and 4 to 6.
//! * State: that of one tier of the policy.
//! * Cost: that of one tier of the policy.
//! * Deviations: see the policy.

use alloc::vec;

use super::by_value::Told;
use super::moves::Way;
use super::settings::Strategy;
use super::{ABSENT, Hfa, Part};
use crate::action::Sink;
use crate::config::Values;
use crate::policy::multi::halves::{Answer, Ask, Held, Hint, Link, Message};
use crate::{Access, Clients, Op, PageId, Policy as _, Setup, Tier};

/// Decides which pages the first tier of one client holds.
#[derive(Clone, Debug)]
pub(in crate::policy::multi) struct Client<const STRATEGY: u8> {
    tier: Hfa<STRATEGY>,
    /// Hits of reads of which the server has not heard.
    hits: u32,
    /// The measure of the tier that the server heard of last.
    told: u64,
}

/// The only level.
const TOP: usize = 0;

/// Turns the actions of the tier into messages.
struct Sending<'a, L>(&'a mut L);

impl<L: Link> Sink for Sending<'_, L> {
    fn serve(&mut self, page: PageId, op: Op, _found: Tier, _tier: Tier) {
        match op {
            Op::Read => self.0.serve(page),
            Op::Write => self.0.send(Message::Write { page, held: Held::Yes }),
        }
    }

    /// Do nothing: the message of a write says that it goes to disk.
    fn copy(&mut self, _page: PageId, _source: Tier, _target: Tier) {}

    fn drop_copy(&mut self, page: PageId, _tier: Tier) {
        self.0.drop_copy(page);
    }
}

/// Takes the actions of a page that is given up: the one who asked for it drops the copy.
struct Ignored;

impl Sink for Ignored {
    fn serve(&mut self, _page: PageId, _op: Op, _found: Tier, _tier: Tier) {}

    fn copy(&mut self, _page: PageId, _source: Tier, _target: Tier) {}

    fn drop_copy(&mut self, _page: PageId, _tier: Tier) {}
}

impl<const STRATEGY: u8> Client<STRATEGY> {
    const STRATEGY: Strategy = Strategy::of(STRATEGY);

    pub(in crate::policy::multi) fn new(setup: &Setup, values: &Values) -> Self {
        let capacity_pages = vec![setup.capacity_pages[0]];
        let own = Setup { capacity_pages, clients: Clients::ONE, ..setup.clone() };
        Self { tier: Hfa::of_part(Part::Client, &own, values), hits: 0, told: 0 }
    }

    /// Return what the server must know of the tier when it decides about a page.
    fn measure(&self) -> u64 {
        match Self::STRATEGY {
            Strategy::Demote => 0,
            Strategy::Promote => self.tier.life(TOP),
            Strategy::Hint => self.tier.least_entering(TOP),
        }
    }

    /// Send the server what it does not know: hits of reads, and the measure of the tier.
    fn tell(&mut self, link: &mut impl Link) {
        let value = self.measure();
        if self.hits > 0 || Self::STRATEGY == Strategy::Promote || self.told != value {
            self.told = value;
            link.send(Message::Tell(Hint { hits: core::mem::take(&mut self.hits), value }));
        }
    }

    /// Offers the server the pages that have left, and ends the access if nothing more can belong to it.
    fn pause(&mut self, link: &mut impl Link) {
        match Self::STRATEGY {
            Strategy::Demote | Strategy::Promote => self.finish(link),
            Strategy::Hint => self.send_departed(link),
        }
    }

    /// Ends the access, and offers the server the pages that have left.
    fn finish(&mut self, link: &mut impl Link) {
        self.send_departed(link);
        self.tier.close(&mut Sending(link));
        self.send_departed(link);
    }

    /// Puts a page into the tier that the server has sent.
    fn take(&mut self, page: PageId, number: u64, link: &mut impl Link) {
        link.keep(page);
        let carried = match Self::STRATEGY {
            Strategy::Demote | Strategy::Promote => frequency(number),
            Strategy::Hint => {
                let (carried, moves) = Told::from_wire(number).parts();
                self.tier.learn(page, moves);
                carried
            }
        };
        let frame = self.tier.enter(page);
        self.tier.receive(TOP, frame, carried, Way::Up, &mut Sending(link));
    }

    fn send_departed(&mut self, link: &mut impl Link) {
        if self.tier.departed.is_empty() {
            return;
        }
        // The next request sends the measure as it is now.
        if self.hits > 0 {
            self.tell(link);
        }
        for (page, carried) in self.tier.departed.drain(..) {
            link.send(Message::Demote { page, carried: Some(carried.to_bits()) });
            link.drop_copy(page);
        }
    }
}

impl<const STRATEGY: u8> Ask for Client<STRATEGY> {
    const WAITS: bool = true;

    fn access(&mut self, page: PageId, op: Op, link: &mut impl Link) {
        self.finish(link);
        self.tier.open(0);
        let frame = self.tier.frame_of(page);
        if frame == ABSENT {
            self.tell(link);
            return link.send(Message::of_miss(page, op));
        }
        match op {
            Op::Read => self.hits = self.hits.saturating_add(1),
            Op::Write => self.tell(link),
        }
        let place = self.tier.queues.place_of(frame).expect("a cached page is in a queue");
        self.tier.hit(Access { page, op, client: 0 }, frame, place, &mut Sending(link));
        self.pause(link);
    }

    fn answered(&mut self, page: PageId, answer: Answer, link: &mut impl Link) {
        let held = self.tier.frame_of(page);
        match answer {
            Answer::Kept(number) if held == ABSENT => self.take(page, number, link),
            Answer::Passed if held != ABSENT => {
                self.tier.detach(held);
                self.tier.discard(TOP, held, &mut Sending(link));
            }
            Answer::Kept(_) | Answer::Passed => {}
        }
        self.pause(link);
    }

    fn pushed(&mut self, page: PageId, number: u64, link: &mut impl Link) {
        if self.tier.frame_of(page) == ABSENT {
            self.take(page, number, link);
        }
        self.pause(link);
    }

    fn settle(&mut self, link: &mut impl Link) {
        self.finish(link);
    }

    fn invalidate(&mut self, page: PageId) -> bool {
        // Actions of other clients come after the access.
        self.tier.close(&mut Ignored);
        let frame = self.tier.frame_of(page);
        if frame == ABSENT {
            return false;
        }
        self.tier.detach(frame);
        self.tier.discard(TOP, frame, &mut Ignored);
        true
    }

    fn holds(&self, page: PageId) -> bool {
        self.tier.frame_of(page) != ABSENT
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.tier.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.tier.assert_invariants();
        assert!(self.tier.departed.is_empty(), "the server is offered every page that leaves");
    }

    fn memory_bytes(&self) -> usize {
        self.tier.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.tier.metadata_bytes()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.tier.gauges(&mut |name, _, value| report(name, value));
    }
}

/// Return the hint frequency that a message carries; 0 if it is none.
pub(super) fn frequency(bits: u64) -> f64 {
    let frequency = f64::from_bits(bits);
    if frequency.is_finite() && frequency > 0.0 { frequency } else { 0.0 }
}
