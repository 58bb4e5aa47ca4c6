//! Which flash block a page belongs to, by its page number.
//!
//! * Source: none; what all policies that evict by block share.
//! * State: 4 bytes per page that exists, unless ids are page numbers.
//! * Cost: O(1) per page; sorting the pages of an eviction.
//! * Deviations: a block is `pages_per_block` consecutive logical pages. Which physical block they
//!   share is the translation layer's business.

use alloc::vec;
use alloc::vec::Vec;

use crate::config::Parameter;
use crate::prefetch::prefetch;
use crate::{Geometry, PageId};

/// The pages of a flash block, the unit of policies that evict by block.
pub(crate) const PAGES_PER_BLOCK: Parameter =
    Parameter::integer("pages_per_block", 1..=1 << 16, 64)
        .summary("pages of a flash block, by which pages are grouped")
        .source("SSDsim's default geometry, on which HWB was evaluated");

/// The blocks of the pages that exist, numbered without gaps in the order of their addresses.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// Per page: its block. Empty if ids are page numbers: then it is computed.
    homes: Vec<u32>,
    count: u32,
    geometry: Geometry,
    pages_per_block: u32,
}

impl Blocks {
    pub(crate) fn new(geometry: &Geometry, pages_per_block: u32) -> Self {
        if geometry.is_linear() {
            let count = geometry.pages().div_ceil(pages_per_block);
            return Self { homes: vec![], count, geometry: geometry.clone(), pages_per_block };
        }
        let mut homes = vec![0; geometry.pages() as usize];
        let (mut count, mut last) = (0, None);
        for page in geometry.ids_by_page_number() {
            let number = geometry.page_number(page) / u64::from(pages_per_block);
            count += u32::from(last.replace(number) != Some(number));
            homes[page.index()] = count - 1;
        }
        Self { homes, count, geometry: geometry.clone(), pages_per_block }
    }

    /// The block of a page.
    #[inline]
    pub(crate) fn of(&self, page: PageId) -> u32 {
        if self.homes.is_empty() { page.0 / self.pages_per_block } else { self.homes[page.index()] }
    }

    /// How many blocks there are: each is less than this.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// Where in its block a page lies.
    pub(crate) fn offset(&self, page: PageId) -> u32 {
        let offset = self.geometry.page_number(page) % u64::from(self.pages_per_block);
        u32::try_from(offset).expect("an offset is less than the pages of a block")
    }

    /// Puts pages into the order of their addresses.
    pub(crate) fn sort(&self, pages: &mut [PageId]) {
        pages.sort_unstable_by_key(|&page| self.geometry.page_number(page));
    }

    /// All pages that exist, in the order of their addresses, each with its block.
    pub(crate) fn pages_by_address(&self) -> Vec<PageId> {
        self.geometry.ids_by_page_number()
    }

    pub(crate) fn prefetch(&self, page: PageId) {
        prefetch(&self.homes, page.index());
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.homes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_block() {
        let geometry = Geometry::table(vec![70, 3, 64, 0, 200].into());
        let blocks = Blocks::new(&geometry, 64);
        let of = [0, 1, 2, 3, 4].map(|page| blocks.of(PageId(page)));
        assert_eq!(of, [1, 0, 1, 0, 2]);
        assert_eq!((blocks.count(), blocks.offset(PageId(0))), (3, 6));
        let mut pages = [0, 1, 2, 3, 4].map(PageId);
        blocks.sort(&mut pages);
        assert_eq!(pages, [3, 1, 2, 0, 4].map(PageId));
    }

    #[test]
    fn a_device_needs_no_table() {
        for (pages, pages_per_block) in [(0, 4), (1, 4), (8, 4), (9, 4), (9, 1), (9, u32::MAX)] {
            let computed = Blocks::new(&Geometry::linear(pages), pages_per_block);
            let numbers = (0..u64::from(pages)).collect();
            let looked_up = Blocks::new(&Geometry::table(numbers), pages_per_block);
            assert_eq!(computed.memory_bytes(), 0);
            assert_eq!(computed.count(), looked_up.count(), "{pages}, {pages_per_block}");
            for page in (0..pages).map(PageId) {
                assert_eq!(computed.of(page), looked_up.of(page), "{pages}, {pages_per_block}");
            }
        }
    }
}
