//! The last moves of each page between tiers, and the K-step hint value made of them.
//!
//! * Source: Wu, He, Cao, Xie, *Hint-K*, ICPP 2010; TPDS 25(3), 2014, as used by Meng et al.,
//!   JCST 32(2), 2017, Algorithm 6.
//! * State: 4 bytes per page that exists; sparse, 16 per page that ever moved.
//! * Cost: O(K).
//! * Deviations: (1) the formula is not public: a move adds its weight, times a decay per later
//!   move. (2) Histories are never forgotten: a list of bounded length would cost more than the word
//!   that a history is.

use crate::config::Values;
use crate::policy::multi::khv::Moves;
use crate::queue::Numbers;
use crate::{Ids, PageId};

pub(super) use crate::policy::multi::khv::Move;

/// The last moves of all pages.
#[derive(Clone, Debug)]
pub(super) struct History {
    numbers: Numbers,
    moves: Moves,
    /// Pages with a move.
    known_pages: u32,
}

impl History {
    pub(super) fn new(ids: Ids, values: &Values) -> Self {
        let numbers = Numbers::growing(ids);
        let moves = Moves::new(numbers.taken(), values);
        Self { numbers, moves, known_pages: 0 }
    }

    pub(super) fn add(&mut self, page: PageId, next: Move) {
        let number = self.numbers.enter(page, |_, _| true);
        if number >= self.moves.count() {
            self.moves.grow(number + 1);
        }
        self.known_pages += u32::from(!self.moves.are_known(number));
        self.moves.record(number, next);
    }

    /// The K-step hint value: the greater, the more active the page; never negative.
    pub(super) fn value(&self, page: PageId) -> f64 {
        self.numbers.find(page).map_or(0.0, |number| self.moves.value(number))
    }

    /// What the published scheme keeps: K moves of two bits and the page.
    pub(super) fn metadata_bytes(&self) -> usize {
        self.known_pages as usize * 2 * size_of::<u32>()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.numbers.memory_bytes() + self.moves.memory_bytes()
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
        let mut history = History::new(Ids::sparse(1), &values);
        let page = PageId(0);
        assert_eq!(history.value(page), 0.0);
        for _ in 0..3 {
            history.add(page, Move::Demote);
        }
        assert_eq!(history.value(page), 1.75);
        history.add(page, Move::Promote);
        assert_eq!(history.value(page), 2.75);
        history.add(page, Move::Demote);
        history.add(page, Move::Promote);
        assert_eq!(history.value(page), 3.0);
    }
}
