//! K-step hint values: how much a page moved between tiers, the last moves counting most.
//!
//! * Source: Wu, He, Cao, Xie, *Hint-K: An Efficient Multi-level Cache Using K-step Hints*, ICPP
//!   2010; with Wan, IEEE TPDS 25(3), 2014.
//! * State: 16 bytes per page that exists, or, sparse, per page of the caches and the histories.
//! * Cost: O(k) per value, O(1) per move.
//! * Deviations: (1) no text that gives the formula could be read. Here a value is the sum of the
//!   last k moves' weights, the newest one's in full, each older one's decayed once more; it does
//!   not age with time. (2) The bound on the histories of pages that left all caches is ours.

use alloc::vec;
use alloc::vec::Vec;

use crate::PageId;
use crate::config::{Parameter, Values};
use crate::prefetch::prefetch;
use crate::queue::Lists;

/// The most moves that a history can hold.
const MOVES_MAX: u64 = 16;
/// The bits of one move; 0 is no move.
const MOVE_BITS: u32 = 2;
/// The only list: histories of pages that are in no cache, newest first.
const GHOSTS: u32 = 0;

/// Number of moves that count.
pub(super) const STEPS: Parameter = Parameter::integer("khv_steps", 1..=MOVES_MAX, 3)
    .summary("moves between tiers that a page's hint value is made of (K)")
    .source("reconstruction");

/// Weight of an older move.
pub(super) const DECAY: Parameter = Parameter::real("khv_decay", 0.0..=1.0, 0.5)
    .summary("what a move is worth compared with the next one")
    .source("reconstruction");

/// Weight of a promotion.
pub(super) const PROMOTION: Parameter = Parameter::real("khv_promotion", 0.0..=1000.0, 2.0)
    .summary("what a promotion adds to the hint value")
    .source("reconstruction");

/// Weight of a demotion.
pub(super) const DEMOTION: Parameter = Parameter::real("khv_demotion", 0.0..=1000.0, 1.0)
    .summary("what a demotion adds to the hint value")
    .source("reconstruction");

/// Number of histories that outlive their pages, relative to the cached pages.
pub(super) const GHOST_RATIO: Parameter = Parameter::real("ghost_ratio", 0.0..=1000.0, 1.0)
    .summary("histories kept of pages in no cache, as a multiple of all cached pages")
    .source("reconstruction");

/// One move of a page between two caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Move {
    Demote = 1,
    Promote = 2,
}

/// The last moves of all pages, and what they are worth.
#[derive(Clone, Debug)]
struct Moves {
    /// Per number of a page: the newest move in the lowest bits.
    of_page: Vec<u32>,
    /// The bits of the moves that count.
    mask: u32,
    decay: f64,
    /// Weights by the bits of a move.
    weights: [f64; 3],
}

/// The last moves of every page that is cached, or was until lately.
#[derive(Clone, Debug)]
pub(super) struct Histories {
    moves: Moves,
    ghosts: Lists,
    ghosts_max: u32,
}

impl Moves {
    /// Create histories for page numbers below `count`; `values` say how many moves count, and the
    /// weight of each.
    fn new(count: u32, values: &Values) -> Self {
        let [demotion, promotion] = [DEMOTION, PROMOTION].map(|weight| values.real(weight.name));
        Self {
            of_page: vec![0; count as usize],
            mask: u32::MAX >> (u32::BITS - MOVE_BITS * values.integer_u32(STEPS.name)),
            decay: values.real(DECAY.name),
            weights: [0.0, demotion, promotion],
        }
    }

    /// Adds a move to those of a page.
    fn record(&mut self, number: u32, step: Move) {
        let moves = &mut self.of_page[number as usize];
        // All K moves fit one word, the oldest falls out at the top: no queue per page.
        *moves = (*moves << MOVE_BITS | u32::from(step as u8)) & self.mask;
    }

    /// Return the page's value; 0 if nothing is known of it, and never negative.
    fn value(&self, number: u32) -> f64 {
        let mut moves = self.of_page[number as usize];
        let (mut value, mut share) = (0.0, 1.0);
        // KHV = sum over j < K of decay^j v(move j), newest first. It is a reconstruction: the
        // weights and the decay are parameters.
        while moves != 0 {
            value += share * self.weights[(moves & ((1 << MOVE_BITS) - 1)) as usize];
            share *= self.decay;
            moves >>= MOVE_BITS;
        }
        value
    }

    /// Replace the moves of a page. Those after one that is none do not count.
    fn replace(&mut self, number: u32, moves: u32) {
        let is_move = |place: &u32| matches!(moves >> (place * MOVE_BITS) & 3, 1 | 2);
        let places = (0..u32::BITS / MOVE_BITS).take_while(is_move).count() as u64;
        // A move of 0 would end the sum early, so bits that another host made up behind it must not
        // stay.
        let known = (1_u64 << (u64::from(MOVE_BITS) * places)) - 1;
        let known = u32::try_from(known).expect("32 bits at most");
        self.of_page[number as usize] = moves & known & self.mask;
    }

    /// Return `true` if the page has moved.
    fn are_known(&self, number: u32) -> bool {
        self.of_page[number as usize] != 0
    }

    fn forget(&mut self, number: u32) {
        self.of_page[number as usize] = 0;
    }

    fn prefetch(&self, page: PageId) {
        prefetch(&self.of_page, page.index());
    }

    fn memory_bytes(&self) -> usize {
        self.of_page.capacity() * size_of::<u32>()
    }
}

impl Histories {
    /// Create histories for page numbers below `count`, with at most `ghosts_max` histories of
    /// pages in no cache.
    pub(super) fn new(count: u32, ghosts_max: u32, values: &Values) -> Self {
        Self { moves: Moves::new(count, values), ghosts: Lists::new(count, 1), ghosts_max }
    }

    /// Return the most histories of pages in no cache, of caches of `cached_pages` over a disk of
    /// `pages`.
    pub(super) fn ghosts_max(pages: u32, cached_pages: u64, values: &Values) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "no more histories than pages, and not less than none"
        )]
        let ghosts_max =
            (values.real(GHOST_RATIO.name) * cached_pages as f64).min(f64::from(pages)) as u32;
        ghosts_max
    }

    /// Adds a move to a page's history.
    pub(super) fn record(&mut self, number: u32, step: Move) {
        self.moves.record(number, step);
    }

    /// Return the page's value; 0 if nothing is known of it.
    pub(super) fn value(&self, number: u32) -> f64 {
        self.moves.value(number)
    }

    /// Return the page's moves, as [`replace`](Self::replace) takes them.
    pub(super) fn moves(&self, number: u32) -> u32 {
        self.moves.of_page[number as usize]
    }

    /// Replace the moves of a page, of which another host has told.
    pub(super) fn replace(&mut self, number: u32, moves: u32) {
        self.moves.replace(number, moves);
    }

    /// Return `true` if moves of the page are known.
    pub(super) fn are_known(&self, number: u32) -> bool {
        self.moves.are_known(number)
    }

    /// Notes that the page has left all caches.
    pub(super) fn leave(&mut self, number: u32) {
        if !self.moves.are_known(number) {
            return;
        }
        self.ghosts.push_front(GHOSTS, number);
        if self.ghosts.len(GHOSTS) > self.ghosts_max {
            let oldest = self.ghosts.back(GHOSTS).expect("one was added just now");
            self.ghosts.remove(oldest);
            // The oldest ghost's history is forgotten, which bounds the memory.
            self.moves.forget(oldest);
        }
    }

    /// Notes that the page has entered a cache.
    pub(super) fn enter(&mut self, number: u32) {
        if self.is_ghost(number) {
            self.ghosts.remove(number);
        }
    }

    /// Return `true` if the history is that of a page in no cache.
    pub(super) fn is_ghost(&self, number: u32) -> bool {
        self.ghosts.contains(number)
    }

    /// Return the number of histories that are kept of pages in no cache.
    pub(super) fn ghosts(&self) -> u32 {
        self.ghosts.len(GHOSTS)
    }

    /// Return the size of the histories for `cached_pages` pages, in bytes: the moves of a page,
    /// and the page's number if it is in no cache.
    pub(super) fn metadata_bytes(&self, cached_pages: usize) -> usize {
        let ghost_bytes = size_of::<PageId>() + size_of::<u32>();
        cached_pages * size_of::<u32>() + self.ghosts() as usize * ghost_bytes
    }

    /// Checks the bound, and that only cached pages and ghosts have a history.
    pub(super) fn assert_invariants(&self, is_cached: impl Fn(u32) -> bool) {
        self.ghosts.assert_invariants();
        assert!(self.ghosts() <= self.ghosts_max, "the ghosts are bounded");
        for (number, &moves) in (0..).zip(&self.moves.of_page) {
            let is_ghost = self.is_ghost(number);
            assert!(!(is_ghost && is_cached(number)), "a ghost is in no cache");
            assert!(moves == 0 || is_ghost || is_cached(number), "what is forgotten has no moves");
        }
    }

    pub(super) fn prefetch(&self, page: PageId) {
        self.moves.prefetch(page);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.moves.memory_bytes() + self.ghosts.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histories() -> Histories {
        let parameters = [STEPS, DECAY, PROMOTION, DEMOTION, GHOST_RATIO];
        let values = Values::resolve("test", &parameters, &[]).expect("these are the defaults");
        Histories::new(4, 2, &values)
    }

    /// A worked example.
    #[test]
    fn newer_moves_count_more() {
        let mut histories = histories();
        let mut check = |moves: &[Move], expected: f64| {
            for &step in moves {
                histories.record(0, step);
            }
            assert_eq!(histories.value(0).to_bits(), expected.to_bits());
        };
        check(&[], 0.0);
        check(&[Move::Promote, Move::Demote, Move::Promote], 3.0);
        check(&[Move::Demote; 3], 1.75);
        check(&[Move::Promote], 2.75);
    }

    /// Another host may say anything.
    #[test]
    fn only_moves_are_taken_over() {
        let mut histories = histories();
        for (said, taken) in
            [(0b01_10, 0b01_10), (0b01_11_10, 0b10), (0b01_00_10, 0b10), (u32::MAX, 0), (0, 0)]
        {
            histories.replace(0, said);
            assert_eq!(histories.moves(0), taken, "{said:b}");
        }
        histories.replace(0, 0x5555_5555);
        assert_eq!(histories.moves(0), 0b01_01_01, "three moves count");
    }

    #[test]
    fn the_oldest_ghost_is_forgotten() {
        let mut histories = histories();
        for number in 0..3 {
            histories.record(number, Move::Demote);
            histories.leave(number);
        }
        assert_eq!([0, 1, 2].map(|number| histories.moves.of_page[number]), [0, 1, 1]);
        histories.enter(1);
        assert_eq!(histories.ghosts(), 1);
        histories.assert_invariants(|number| number == 1);
    }
}
