//! The last moves of each page between tiers, and the K-step hint value made of them.
//!
//! * Source: Wu, He, Cao, Xie, *Hint-K*, ICPP 2010; TPDS 25(3), 2014, as used by Meng et al.,
//!   JCST 32(2), 2017, Algorithm 6.
//! * State: 4 bytes per page that exists.
//! * Cost: O(K).
//! * Deviations: (1) the formula is not public: a move adds its weight, times a decay per later
//!   move. (2) Histories are never forgotten: a list of bounded length would cost more than the word
//!   that a history is.

use alloc::vec;
use alloc::vec::Vec;

use crate::PageId;
use crate::config::Values;

/// A move between tiers, as the bits of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Demotion = 1,
    Promotion = 2,
}

/// The last moves of all pages.
#[derive(Clone, Debug)]
pub(super) struct History {
    /// Per page: two bits per move, the newest lowest.
    moves: Vec<u32>,
    /// The bits of K moves.
    mask: u32,
    weights: [f64; 3],
    decay: f64,
    /// Pages with a move.
    known_pages: u32,
}

impl History {
    pub(super) fn new(pages: u32, values: &Values) -> Self {
        let weights = [0.0, values.real("khv_demotion"), values.real("khv_promotion")];
        Self {
            moves: vec![0; pages as usize],
            mask: u32::MAX >> (32 - 2 * values.integer_u32("khv_steps")),
            weights,
            decay: values.real("khv_decay"),
            known_pages: 0,
        }
    }

    pub(super) fn add(&mut self, page: PageId, next: Move) {
        let moves = &mut self.moves[page.index()];
        self.known_pages += u32::from(*moves == 0);
        *moves = (*moves << 2 | next as u32) & self.mask;
    }

    /// The K-step hint value: the greater, the more active the page; never negative.
    pub(super) fn value(&self, page: PageId) -> f64 {
        let (mut moves, mut worth, mut value) = (self.moves[page.index()], 1.0, 0.0);
        while moves != 0 {
            value += worth * self.weights[(moves & 3) as usize];
            worth *= self.decay;
            moves >>= 2;
        }
        value
    }

    /// What the published scheme keeps: K moves of two bits and the page.
    pub(super) fn metadata_bytes(&self) -> usize {
        self.known_pages as usize * 2 * size_of::<u32>()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.moves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::multi::hfa::H_PARAMETERS;

    /// V-HK-2.
    #[test]
    #[expect(clippy::float_cmp, reason = "sums of powers of two")]
    fn values_of_three_moves() {
        let values = Values::resolve("h-hfa", H_PARAMETERS, &[]).unwrap();
        let mut history = History::new(1, &values);
        let page = PageId(0);
        assert_eq!(history.value(page), 0.0);
        for _ in 0..3 {
            history.add(page, Move::Demotion);
        }
        assert_eq!(history.value(page), 1.75);
        history.add(page, Move::Promotion);
        assert_eq!(history.value(page), 2.75);
        history.add(page, Move::Demotion);
        history.add(page, Move::Promotion);
        assert_eq!(history.value(page), 3.0);
    }
}
