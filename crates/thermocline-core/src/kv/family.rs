//! Family relations of blocks, as the chains show them.

use alloc::boxed::Box;
use alloc::vec;

use crate::PageId;

/// A block without a parent.
const NONE: u32 = u32::MAX;

/// A block that no chain had so far.
const UNKNOWN: u32 = u32::MAX - 1;

/// Predecessors of blocks. A block's predecessor is the one before it in the first chain that contains
/// it.
#[derive(Clone, Debug)]
pub struct Family {
    parents: Box<[u32]>,
}

impl Family {
    pub(super) fn new(pages: u32) -> Self {
        Self { parents: vec![UNKNOWN; pages as usize].into_boxed_slice() }
    }

    /// Learns from a chain.
    pub(super) fn learn(&mut self, chain: &[PageId]) {
        let mut before = NONE;
        for page in chain {
            let parent = &mut self.parents[page.index()];
            if *parent == UNKNOWN {
                *parent = before;
            }
            before = page.0;
        }
    }

    /// Return the predecessor of a block.
    #[inline]
    pub(super) fn parent(&self, page: PageId) -> Option<PageId> {
        let parent = self.parents[page.index()];
        (parent < UNKNOWN).then_some(PageId(parent))
    }
}
