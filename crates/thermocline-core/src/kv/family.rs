//! Family relations of blocks, as the chains show them.

use alloc::boxed::Box;
use alloc::vec;
use core::iter::successors;

use crate::PageId;

/// The end of a list of children.
const NONE: u32 = u32::MAX;

/// Predecessors and successors of blocks. A block's predecessor is the one before it in the first
/// chain that contains it.
#[derive(Clone, Debug)]
pub struct Family {
    first_child: Box<[u32]>,
    next_sibling: Box<[u32]>,
    is_known: Box<[bool]>,
}

impl Family {
    pub(super) fn new(pages: u32) -> Self {
        let none = || vec![NONE; pages as usize].into_boxed_slice();
        Self {
            first_child: none(),
            next_sibling: none(),
            is_known: vec![false; pages as usize].into_boxed_slice(),
        }
    }

    /// Learns from a chain.
    pub(super) fn learn(&mut self, chain: &[PageId]) {
        for pair in chain.windows(2) {
            let [parent, child] = [pair[0], pair[1]];
            if !self.is_known[child.index()] {
                self.is_known[child.index()] = true;
                self.next_sibling[child.index()] = self.first_child[parent.index()];
                self.first_child[parent.index()] = child.0;
            }
        }
        if let Some(root) = chain.first() {
            self.is_known[root.index()] = true;
        }
    }

    /// Return the blocks that go on from a block.
    pub(super) fn children(&self, page: PageId) -> impl Iterator<Item = PageId> + '_ {
        let some = |child: u32| (child != NONE).then_some(PageId(child));
        successors(some(self.first_child[page.index()]), move |child| {
            some(self.next_sibling[child.index()])
        })
    }
}
