//! The leaves of what a store holds: blocks from which no other block of the store goes on.
//!
//! * Source: none; a list of children for each block.
//! * State: 16 bytes per block that exists.
//! * Cost: O(1) per change. A leaf takes O(1) after another one, and otherwise as many steps as a chain has
//!   blocks; at most one leaf per request and store is of this kind.
//! * Deviations: none.

use alloc::boxed::Box;
use alloc::vec;
use core::iter::successors;

use super::family::Family;
use crate::PageId;

/// No block.
const NONE: u32 = u32::MAX;

/// The children of each block among the blocks of a store, in order of their last use.
#[derive(Clone, Debug)]
pub(super) struct Leaves {
    relatives: Box<[Relatives]>,
    /// The parent of the last victim. The way down from the oldest block of the store still leads through
    /// it if since then blocks entered and none left. [`NONE`] otherwise.
    resume: u32,
}

/// Blocks beside and below a block.
#[derive(Clone, Copy, Debug)]
struct Relatives {
    oldest_child: u32,
    newest_child: u32,
    /// Among the children of the same parent.
    older: u32,
    newer: u32,
}

const _: () = assert!(size_of::<Relatives>() == 16, "update the `State` line of the module header");

impl Leaves {
    pub(super) fn new(pages: u32) -> Self {
        let alone = Relatives { oldest_child: NONE, newest_child: NONE, older: NONE, newer: NONE };
        Self { relatives: vec![alone; pages as usize].into_boxed_slice(), resume: NONE }
    }

    /// Add a block to the store as its most recently used one.
    pub(super) fn enter(&mut self, page: PageId, family: &Family) {
        let Some(parent) = family.parent(page) else { return };
        let older = core::mem::replace(&mut self.relatives[parent.index()].newest_child, page.0);
        match older {
            NONE => self.relatives[parent.index()].oldest_child = page.0,
            older => self.relatives[older as usize].newer = page.0,
        }
        let own = &mut self.relatives[page.index()];
        (own.older, own.newer) = (older, NONE);
    }

    /// Remove a block from the store.
    pub(super) fn leave(&mut self, page: PageId, family: &Family) {
        self.resume = NONE;
        let Some(parent) = family.parent(page) else { return };
        let Relatives { older, newer, .. } = self.relatives[page.index()];
        match older {
            NONE => self.relatives[parent.index()].oldest_child = newer,
            older => self.relatives[older as usize].newer = newer,
        }
        match newer {
            NONE => self.relatives[parent.index()].newest_child = older,
            newer => self.relatives[newer as usize].older = older,
        }
    }

    /// Takes out the leaf that comes last on the way down from the oldest block of the store, from each
    /// block to its oldest child.
    pub(super) fn take(&mut self, oldest: PageId, family: &Family) -> PageId {
        let start = if self.resume == NONE { oldest } else { PageId(self.resume) };
        let leaf = self.way_down(start).last().unwrap_or(start);
        self.leave(leaf, family);
        if leaf != oldest {
            self.resume = family.parent(leaf).map_or(NONE, |parent| parent.0);
        }
        leaf
    }

    /// Return a block, its oldest child, and so on.
    fn way_down(&self, start: PageId) -> impl Iterator<Item = PageId> + '_ {
        successors(Some(start), |page| {
            let child = self.relatives[page.index()].oldest_child;
            (child != NONE).then_some(PageId(child))
        })
    }

    /// Checks the lists.
    ///
    /// # Panics
    /// If one is wrong, with what it should be.
    pub(super) fn assert_invariants(&self, is_held: impl Fn(PageId) -> bool) {
        for relatives in &self.relatives {
            let mut older = NONE;
            let mut child = relatives.oldest_child;
            while child != NONE {
                assert!(is_held(PageId(child)), "children are blocks of the store");
                assert_eq!(self.relatives[child as usize].older, older, "lists go both ways");
                (older, child) = (child, self.relatives[child as usize].newer);
            }
            assert_eq!(relatives.newest_child, older, "the last child is the newest");
        }
        assert!(
            self.resume == NONE || is_held(PageId(self.resume)),
            "the way down is in the store"
        );
    }
}
