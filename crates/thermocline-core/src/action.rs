//! What a policy answers: the moves that the hierarchy must make, in order.

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
        /// What the access does.
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

/// What takes the moves of an access, one after the other, whether it keeps them or counts them.
pub(crate) trait Sink {
    /// The access is answered from `tier`; see [`Action::Serve`].
    fn serve(&mut self, page: PageId, op: Op, found: Tier, tier: Tier);

    /// A page is copied between tiers; see [`Action::Copy`].
    fn copy(&mut self, page: PageId, source: Tier, target: Tier);

    /// The same if there is a need, which a processor cannot guess.
    fn copy_if(&mut self, is_needed: bool, page: PageId, source: Tier, target: Tier) {
        if is_needed {
            self.copy(page, source, target);
        }
    }

    /// The copy of a tier is given up; see [`Action::Drop`].
    fn drop_copy(&mut self, page: PageId, tier: Tier);
}

/// The moves of one access, in order: a buffer that the driver owns and reuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions(Vec<Action>);

impl Actions {
    /// An empty buffer.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Forgets all moves and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The moves so far, in order.
    #[inline]
    pub fn as_slice(&self) -> &[Action] {
        &self.0
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
