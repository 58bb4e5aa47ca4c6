//! Actions: the moves that a policy asks the hierarchy to make, in order.

use alloc::vec::Vec;

use crate::{Op, PageId, Tier};

/// One move of a page.
///
/// A [`Serve`](Self::Serve) costs one page access at its tier. A [`Copy`](Self::Copy) costs one
/// read at its source and one write at its target; within one tier (`source == target`, as when a
/// FIFO cache gives a page a second chance) it costs the write only, which is what the published
/// models charge. A [`Drop`](Self::Drop) costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The access is answered by the copy of `tier`; a write is absorbed by it.
    Serve {
        /// The page that was accessed.
        page: PageId,
        /// Operation of the access.
        op: Op,
        /// The fastest tier that the client sees and that held a current copy when the access
        /// arrived: there the hit counts.
        found: Tier,
        /// The tier that answers.
        tier: Tier,
    },
    /// The page's bytes are read at `source` and written at `target`.
    Copy {
        /// The page that moves.
        page: PageId,
        /// The tier that is read.
        source: Tier,
        /// The tier that is written.
        target: Tier,
    },
    /// The copy of `tier` is given up.
    Drop {
        /// The page that leaves.
        page: PageId,
        /// The tier that it leaves.
        tier: Tier,
    },
}

/// Receiver of the moves of an access, in order: it keeps them or counts them.
pub(crate) trait Sink {
    /// Answer the access from `tier`; see [`Action::Serve`].
    fn serve(&mut self, page: PageId, op: Op, found: Tier, tier: Tier);

    /// Copy a page between tiers; see [`Action::Copy`].
    fn copy(&mut self, page: PageId, source: Tier, target: Tier);

    /// Copy a page if there is a need, which processors often mispredict.
    fn copy_if(&mut self, is_needed: bool, page: PageId, source: Tier, target: Tier) {
        if is_needed {
            self.copy(page, source, target);
        }
    }

    /// Drop the copy of a tier; see [`Action::Drop`].
    fn drop_copy(&mut self, page: PageId, tier: Tier);
}

/// The moves of one access, in order: a buffer that the driver owns and reuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions(Vec<Action>);

impl Actions {
    /// Create an empty buffer.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Forgets all moves and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Return the moves so far, in order.
    #[inline]
    pub fn as_slice(&self) -> &[Action] {
        &self.0
    }

    /// Appends the moves of another buffer.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// Count the moves, from the first one, that must be done before the client gets its answer: those
    /// up to the [`Serve`](Action::Serve), and 0 without one.
    ///
    /// If the tier that absorbs a write gives the page up in the same access, it only passes the page
    /// on. The answer then waits for every copy that this tier makes of the page, as with a
    /// write-through cache that has no memory.
    pub fn until_answered(&self) -> usize {
        let is_serve = |action: &Action| matches!(action, Action::Serve { .. });
        let Some(place) = self.0.iter().position(is_serve) else { return 0 };
        let (before, after) = self.0.split_at(place + 1);
        let Action::Serve { page, op: Op::Write, tier, .. } = before[place] else {
            return before.len();
        };
        if !after.contains(&Action::Drop { page, tier }) {
            return before.len();
        }
        let passes_on = |action: &Action| matches!(*action, Action::Copy { page: copied, source, .. } if (copied, source) == (page, tier));
        before.len() + after.iter().rposition(passes_on).map_or(0, |last| last + 1)
    }

    /// Answers the access from `tier`; see [`Action::Serve`].
    #[inline]
    pub fn serve(&mut self, page: PageId, op: Op, found: Tier, tier: Tier) {
        self.0.push(Action::Serve { page, op, found, tier });
    }

    /// Copies a page between tiers; see [`Action::Copy`].
    #[inline]
    pub fn copy(&mut self, page: PageId, source: Tier, target: Tier) {
        self.0.push(Action::Copy { page, source, target });
    }

    /// Gives up the copy of a tier; see [`Action::Drop`].
    #[inline]
    pub fn drop_copy(&mut self, page: PageId, tier: Tier) {
        self.0.push(Action::Drop { page, tier });
    }
}

impl Sink for Actions {
    #[inline]
    fn serve(&mut self, page: PageId, op: Op, found: Tier, tier: Tier) {
        self.serve(page, op, found, tier);
    }

    #[inline]
    fn copy(&mut self, page: PageId, source: Tier, target: Tier) {
        self.copy(page, source, target);
    }

    #[inline]
    fn drop_copy(&mut self, page: PageId, tier: Tier) {
        self.drop_copy(page, tier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageId = PageId(7);

    fn served(op: Op, tier: Tier, behind: &[Action]) -> Actions {
        let mut actions = Actions::new();
        actions.copy(PageId(1), Tier::FLASH, Tier::DISK);
        actions.serve(PAGE, op, Tier::DISK, tier);
        actions.0.extend_from_slice(behind);
        actions
    }

    #[test]
    fn an_answer_waits_for_the_moves_before_it() {
        let behind = [Action::Copy { page: PAGE, source: Tier::RAM, target: Tier::FLASH }];
        assert_eq!(Actions::new().until_answered(), 0);
        for op in [Op::Read, Op::Write] {
            assert_eq!(served(op, Tier::RAM, &[]).until_answered(), 2);
            assert_eq!(served(op, Tier::RAM, &behind).until_answered(), 2);
        }
    }

    #[test]
    fn a_write_that_is_passed_on_is_answered_where_it_stays() {
        let copy = |page, target| Action::Copy { page, source: Tier::RAM, target };
        let drop = |page| Action::Drop { page, tier: Tier::RAM };
        let both = [copy(PAGE, Tier::FLASH), copy(PAGE, Tier::DISK), drop(PAGE)];
        assert_eq!(served(Op::Write, Tier::RAM, &both).until_answered(), 4);
        // The client has what it reads already.
        assert_eq!(served(Op::Read, Tier::RAM, &both).until_answered(), 2);
        // Another page makes room, and is not waited for.
        let other = [copy(PageId(2), Tier::DISK), drop(PageId(2))];
        assert_eq!(served(Op::Write, Tier::RAM, &other).until_answered(), 2);
        let on_flash = [Action::Drop { page: PAGE, tier: Tier::FLASH }];
        assert_eq!(served(Op::Write, Tier::DISK, &on_flash).until_answered(), 2);
    }
}
