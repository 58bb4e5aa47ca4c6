//! Blocks of several pages, by page number, and the pages in each.
//!
//! * Source: none; what the caches share that move whole blocks.
//! * State: none if ids are page numbers; otherwise 8 bytes per page that exists.
//! * Cost: O(1) per page.
//! * Deviations: none.

use alloc::vec;
use alloc::vec::Vec;

use crate::policy::blocks::Blocks;
use crate::{Geometry, PageId};

/// The blocks of the pages that exist, numbered without gaps in the order of their addresses.
#[derive(Clone, Debug)]
pub(super) struct Extents {
    blocks: Blocks,
    /// The pages by address. Empty if ids are page numbers.
    pages: Vec<PageId>,
    /// Per block, and for the end: where its pages begin. Empty if ids are page numbers.
    starts: Vec<u32>,
    /// Pages that exist.
    count: u32,
}

impl Extents {
    pub(super) fn new(geometry: &Geometry, pages_per_block: u32) -> Self {
        let blocks = Blocks::new(geometry, pages_per_block);
        let count = geometry.pages();
        if geometry.is_linear() {
            return Self { blocks, pages: vec![], starts: vec![], count };
        }
        let pages = blocks.pages_by_address();
        let mut starts = Vec::with_capacity(blocks.count() as usize + 1);
        for (place, &page) in (0..).zip(&pages) {
            if blocks.of(page) as usize == starts.len() {
                starts.push(place);
            }
        }
        starts.push(count);
        Self { blocks, pages, starts, count }
    }

    /// Return the block of a page.
    #[inline]
    pub(super) fn of(&self, page: PageId) -> u32 {
        self.blocks.of(page)
    }

    /// Return the number of blocks: each is less than this.
    pub(super) fn count(&self) -> u32 {
        self.blocks.count()
    }

    /// Return the pages of a block that exist, in the order of their addresses.
    pub(super) fn pages(&self, block: u32) -> impl Iterator<Item = PageId> + '_ {
        let range = if self.starts.is_empty() {
            let first = block * self.blocks.pages_per_block();
            first..first.saturating_add(self.blocks.pages_per_block()).min(self.count)
        } else {
            self.starts[block as usize]..self.starts[block as usize + 1]
        };
        range.map(|place| self.pages.get(place as usize).copied().unwrap_or(PageId(place)))
    }

    /// Return the number of pages of a block that its device has and no access names, so that they
    /// have no id.
    pub(super) fn unnamed_pages(&self, block: u32) -> u32 {
        if self.starts.is_empty() {
            return 0;
        }
        let named = self.starts[block as usize + 1] - self.starts[block as usize];
        self.blocks.pages_per_block() - named
    }

    pub(super) fn prefetch(&self, page: PageId) {
        self.blocks.prefetch(page);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes() + size_of_val(&*self.pages) + size_of_val(&*self.starts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(extents: &Extents) -> Vec<Vec<u32>> {
        let of = |block| extents.pages(block).map(|page| page.0).collect();
        (0..extents.count()).map(of).collect()
    }

    #[test]
    fn blocks_list_their_pages_by_address() {
        let device = Extents::new(&Geometry::linear(5), 2);
        assert_eq!(pages(&device), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(device.unnamed_pages(2), 0, "the device ends there");
        let trace = Extents::new(&Geometry::table(vec![9, 4, 100, 8].into()), 2);
        assert_eq!(pages(&trace), [vec![1], vec![3, 0], vec![2]]);
        assert_eq!([0, 1, 2].map(|block| trace.unnamed_pages(block)), [1, 0, 1]);
    }
}
