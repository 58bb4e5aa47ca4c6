//! H-HFA: which pages the last moves between tiers let rise, fall and pass.
//!
//! On two hosts, the server records the moves: each of them passes it. A page's moves stay the same while a
//! client holds the page, so they go with the page to the client. The client says with a request which value
//! a page must have to enter (Algorithm 6, "receive the minimum KHV").
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, Algorithms 2 and 6.
//! * State: none of its own.
//! * Cost: O(K) per value.
//! * Deviations: (1) Algorithm 2 promotes for a demotion, whose victim may do so again: once per
//!   access at most, or two tiers could exchange pages for ever.

use super::history::Move;
use super::moves::Way;
use super::queues::Queue;
use super::settings::Strategy;
use super::{Hfa, Part};
use crate::PageId;
use crate::action::Sink;

/// Return what is left of a frequency that goes with a page of H-HFA: the answer to a client has 32 bits for
/// it, beside the moves.
#[expect(clippy::cast_possible_truncation, reason = "it is to be rounded")]
pub(super) fn carried(frequency: f64) -> f64 {
    f64::from(frequency as f32)
}

/// Hint frequency and last moves of a page of H-HFA, as they go with it to a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Told {
    frequency: f32,
    moves: u32,
}

impl Told {
    /// Return a page's frequency and moves as a number for the wire.
    #[expect(clippy::cast_possible_truncation, reason = "what goes with a page is rounded")]
    pub(super) fn to_wire(frequency: f64, moves: u32) -> u64 {
        u64::from((frequency as f32).to_bits()) << u32::BITS | u64::from(moves)
    }

    /// Return what a number says, which another host may have made up.
    pub(super) fn from_wire(number: u64) -> Self {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).expect("32 bits");
        Self { frequency: f32::from_bits(half(number >> u32::BITS)), moves: half(number) }
    }

    /// Return the frequency, 0 if it is none, and the moves.
    pub(super) fn parts(self) -> (f64, u32) {
        let Self { frequency, moves } = self;
        let is_one = frequency.is_finite() && frequency > 0.0;
        (if is_one { f64::from(frequency) } else { 0.0 }, moves)
    }
}

/// No value has these bits, or greater ones.
const NOTHING_ENTERS: u64 = f64::INFINITY.to_bits();

impl<const STRATEGY: u8> Hfa<STRATEGY> {
    /// Return H-HFA's K-step hint value of a page.
    #[inline]
    pub(super) fn value(&self, page: PageId) -> f64 {
        match &self.history {
            Some(history) if Self::STRATEGY == Strategy::Hint => history.value(page),
            _ => 0.0,
        }
    }

    /// Return, for H-HFA, `true` if a page that was hit moves up (Algorithm 6).
    pub(super) fn is_promoted(&self, page: PageId, level: usize) -> bool {
        let above = self.above(level);
        if self.part == Part::Server && self.is_top(above) {
            return self.value(page).to_bits() >= self.said[above];
        }
        self.value(page).to_bits() >= self.least_entering(above)
    }

    /// Return, for H-HFA, the least value, in bits, with which a page that is hit below enters a level: any if
    /// there is room, else one above that of the next victim of Q2.
    pub(super) fn least_entering(&self, level: usize) -> u64 {
        let [q1, q2] = [Queue::Q1, Queue::Q2].map(|queue| self.queues.len(level, queue));
        if q1 + q2 < self.levels[level].capacity_pages {
            return 0;
        }
        // Values are not negative, so that their bits order as they do.
        // Algorithm 6, promoting, step 2: "larger than the minimum KHV". A queue without pages has
        // no minimum, so nothing enters a full tier.
        self.queues.least_value(level).map_or(NOTHING_ENTERS, |least| least.to_bits() + 1)
    }

    /// Return, for H-HFA, `true` if a page would be the next victim as soon as it entered the second queue.
    /// It then enters no queue, and leaves only its hint.
    #[inline]
    pub(super) fn passes_q2_by_value(&self, level: usize, page: PageId) -> bool {
        Self::STRATEGY == Strategy::Hint
            && !self.has_room(level, 1)
            && self.queues.least_value(level).is_none_or(|least| self.value(page) < least)
    }

    /// Algorithm 2: a page that was demoted into Q1 wakes the promotion of a hotter one there.
    pub(super) fn promote_head(&mut self, level: usize, frame: u32, out: &mut impl Sink) {
        if self.has_promoted || self.queues.place_of(frame) != Some((level, Queue::Q1)) {
            return;
        }
        let head = self.queues.front_of_q1(level).expect("the frame is in this queue");
        // Algorithm 2, line 10: only a hotter head rises. A tie would exchange equals for two
        // moves.
        if self.queues.frame(head).hotness <= self.queues.frame(frame).hotness {
            return;
        }
        let above = self.above(level);
        let is_pushed = self.part == Part::Server && self.is_top(above);
        if is_pushed && self.clients.guest() == Some(self.client) {
            // Clients that do not cooperate take no pages that they did not ask for.
            return;
        }
        // Before the move: the page that rises may push one down, which comes here again.
        self.has_promoted = true;
        let page = self.queues.frame(head).page;
        let carried = self.leave(head, Move::Promote);
        out.copy(page, self.levels[level].tier, self.levels[above].tier);
        out.drop_copy(page, self.levels[level].tier);
        if is_pushed {
            self.pushed = Some((page, carried));
            return self.vacate(head);
        }
        self.receive(above, head, carried, Way::Up, out);
    }

    /// Replace the moves of a page, of which another host has told.
    pub(super) fn learn(&mut self, page: PageId, moves: u32) {
        if let Some(history) = &mut self.history {
            history.replace(page, moves);
        }
    }

    /// Return the moves of a page, for another host.
    pub(super) fn moves_of(&self, page: PageId) -> u32 {
        self.history.as_ref().map_or(0, |history| history.moves(page))
    }

    /// Note that a client gives a page up: a move, as the page comes to a shared tier.
    pub(super) fn note_demoted(&mut self, page: PageId) {
        if let Some(history) = &mut self.history {
            history.add(page, Move::Demote);
        }
    }

    /// Note that a page is held on another host, or that it is cached nowhere.
    pub(super) fn note_held(&mut self, page: PageId, is_held: bool) {
        let is_cached = is_held || self.is_cached(page);
        if let Some(history) = &mut self.history {
            if is_cached {
                history.enter(page);
            } else {
                history.leave(page);
            }
        }
    }
}
