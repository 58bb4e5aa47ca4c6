//! K-step hint values: how much a page moved between tiers, the last moves counting most.
//!
//! * Source: Wu, He, Cao, Xie, *Hint-K: An Efficient Multi-level Cache Using K-step Hints*, ICPP
//!   2010; with Wan, IEEE TPDS 25(3), 2014.
//! * State: 16 bytes per page that exists.
//! * Cost: O(k) per value, O(1) per move.
//! * Deviations: (1) no text that gives the formula could be read. Here a value is the sum of the
//!   last k moves' weights, the newest one's in full, each older one's decayed once more; it does
//!   not age with time. (2) The bound on the histories of pages that left all caches is ours.

use alloc::boxed::Box;
use alloc::vec;

use crate::PageId;
use crate::config::{Kind, Parameter, Value, Values};
use crate::queue::Lists;

/// The most moves that a history can hold.
const MOVES_MAX: u64 = 16;
/// The bits of one move; 0 is no move.
const MOVE_BITS: u32 = 2;
/// The only list: histories of pages that are in no cache, newest first.
const GHOSTS: u32 = 0;

/// How many moves count.
pub(super) const K: Parameter = Parameter {
    name: "k",
    kind: Kind::Integer { min: 1, max: MOVES_MAX },
    default: Value::Integer(3),
    summary: "the number of a page's last moves that count",
    source: "reconstruction",
};

/// What an older move counts.
pub(super) const DECAY: Parameter = Parameter {
    name: "decay",
    kind: Kind::Real { min: 0.0, max: 1.0 },
    default: Value::Real(0.5),
    summary: "what each move counts, as a share of the next newer one",
    source: "reconstruction",
};

/// What a promotion counts.
pub(super) const PROMOTE_WEIGHT: Parameter = Parameter {
    name: "promote_weight",
    kind: Kind::Real { min: 0.0, max: 1000.0 },
    default: Value::Real(2.0),
    summary: "what a promotion counts",
    source: "reconstruction",
};

/// What a demotion counts.
pub(super) const DEMOTE_WEIGHT: Parameter = Parameter {
    name: "demote_weight",
    kind: Kind::Real { min: 0.0, max: 1000.0 },
    default: Value::Real(1.0),
    summary: "what a demotion counts",
    source: "reconstruction",
};

/// How many histories outlive their pages.
pub(super) const GHOST_RATIO: Parameter = Parameter {
    name: "ghost_ratio",
    kind: Kind::Real { min: 0.0, max: 1000.0 },
    default: Value::Real(1.0),
    summary: "histories kept of pages in no cache, as a multiple of all cached pages",
    source: "reconstruction",
};

/// One move of a page between two caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Move {
    Demote = 1,
    Promote = 2,
}

/// The last moves of all pages, and what they are worth.
#[derive(Clone, Debug)]
pub(super) struct Moves {
    /// Per page: the newest move in the lowest bits.
    of_page: Box<[u32]>,
    /// The bits of the moves that count.
    mask: u32,
    decay: f64,
    /// By the bits of a move.
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
    /// For page ids below `pages`; the last `k` moves count, `weights` are those of a demotion and of
    /// a promotion.
    pub(super) fn new(pages: u32, k: u32, decay: f64, weights: [f64; 2]) -> Self {
        let [demotion, promotion] = weights;
        Self {
            of_page: vec![0; pages as usize].into_boxed_slice(),
            mask: u32::MAX >> (u32::BITS - MOVE_BITS * k),
            decay,
            weights: [0.0, demotion, promotion],
        }
    }

    /// Adds a move to those of a page.
    pub(super) fn record(&mut self, page: PageId, step: Move) {
        let moves = &mut self.of_page[page.index()];
        *moves = (*moves << MOVE_BITS | u32::from(step as u8)) & self.mask;
    }

    /// The page's value; 0 if nothing is known of it, and never negative.
    pub(super) fn value(&self, page: PageId) -> f64 {
        let mut moves = self.of_page[page.index()];
        let (mut value, mut share) = (0.0, 1.0);
        while moves != 0 {
            value += share * self.weights[(moves & ((1 << MOVE_BITS) - 1)) as usize];
            share *= self.decay;
            moves >>= MOVE_BITS;
        }
        value
    }

    /// Whether the page has moved.
    pub(super) fn are_known(&self, page: PageId) -> bool {
        self.of_page[page.index()] != 0
    }

    fn forget(&mut self, page: PageId) {
        self.of_page[page.index()] = 0;
    }

    fn prefetch(&self, page: PageId) {
        crate::prefetch::prefetch(&self.of_page, page.index());
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.of_page)
    }
}

impl Histories {
    /// For page ids below `pages`, over caches of `cached_pages`.
    pub(super) fn new(pages: u32, cached_pages: u64, values: &Values) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "no more histories than pages, and not less than none"
        )]
        let ghosts_max =
            (values.real("ghost_ratio") * cached_pages as f64).min(f64::from(pages)) as u32;
        let weights = ["demote_weight", "promote_weight"].map(|name| values.real(name));
        Self {
            moves: Moves::new(pages, values.integer_u32("k"), values.real("decay"), weights),
            ghosts: Lists::new(pages, 1),
            ghosts_max,
        }
    }

    /// Adds a move to a page's history.
    pub(super) fn record(&mut self, page: PageId, step: Move) {
        self.moves.record(page, step);
    }

    /// The page's value; 0 if nothing is known of it.
    pub(super) fn value(&self, page: PageId) -> f64 {
        self.moves.value(page)
    }

    /// Notes that the page has left all caches.
    pub(super) fn leave(&mut self, page: PageId) {
        if !self.moves.are_known(page) {
            return;
        }
        self.ghosts.push_front(GHOSTS, page.0);
        if self.ghosts.len(GHOSTS) > self.ghosts_max {
            let oldest = self.ghosts.back(GHOSTS).expect("one was added just now");
            self.ghosts.remove(oldest);
            self.moves.forget(PageId(oldest));
        }
    }

    /// Notes that the page has entered a cache.
    pub(super) fn enter(&mut self, page: PageId) {
        if self.ghosts.contains(page.0) {
            self.ghosts.remove(page.0);
        }
    }

    /// How many histories are kept of pages in no cache.
    pub(super) fn ghosts(&self) -> u32 {
        self.ghosts.len(GHOSTS)
    }

    /// Checks the bound, and that only cached pages and ghosts have a history.
    pub(super) fn assert_invariants(&self, is_cached: impl Fn(PageId) -> bool) {
        self.ghosts.assert_invariants();
        assert!(self.ghosts() <= self.ghosts_max, "the ghosts are bounded");
        for (page, &moves) in (0..).map(PageId).zip(&self.moves.of_page) {
            let is_ghost = self.ghosts.contains(page.0);
            assert!(!(is_ghost && is_cached(page)), "a ghost is in no cache");
            assert!(moves == 0 || is_ghost || is_cached(page), "what is forgotten has no moves");
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
        let parameters = [K, DECAY, PROMOTE_WEIGHT, DEMOTE_WEIGHT, GHOST_RATIO];
        let values = Values::resolve("test", &parameters, &[]).expect("these are the defaults");
        Histories::new(4, 2, &values)
    }

    /// V-HK-2.
    #[test]
    fn newer_moves_count_more() {
        let mut histories = histories();
        let mut check = |moves: &[Move], expected: f64| {
            for &step in moves {
                histories.record(PageId(0), step);
            }
            assert_eq!(histories.value(PageId(0)).to_bits(), expected.to_bits());
        };
        check(&[], 0.0);
        check(&[Move::Promote, Move::Demote, Move::Promote], 3.0);
        check(&[Move::Demote; 3], 1.75);
        check(&[Move::Promote], 2.75);
    }

    #[test]
    fn the_oldest_ghost_is_forgotten() {
        let mut histories = histories();
        for page in (0..3).map(PageId) {
            histories.record(page, Move::Demote);
            histories.leave(page);
        }
        assert_eq!([0, 1, 2].map(|page| histories.moves.of_page[page]), [0, 1, 1]);
        histories.enter(PageId(1));
        assert_eq!(histories.ghosts(), 1);
        histories.assert_invariants(|page| page == PageId(1));
    }
}
