//! Where the dense page ids lie in the address space.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::PageId;
use crate::prefetch::prefetch;

/// The page number of every page id.
///
/// Policies that look at adjacency (extents, sequential misses, contiguous cleaning) need it; all
/// others ignore it. Page numbers are distinct; pages of different volumes are never adjacent.
#[derive(Clone, Debug)]
pub struct Geometry(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Linear { pages: u32 },
    Table(Arc<[u64]>),
}

impl Geometry {
    /// `pages` pages whose ids are their page numbers, as in a block device.
    pub const fn linear(pages: u32) -> Self {
        Self(Kind::Linear { pages })
    }

    /// The page number of each id, as a compiled trace knows it.
    ///
    /// # Panics
    /// If there are more numbers than page ids, that is, more than `u32::MAX`.
    pub fn table(page_numbers: Arc<[u64]>) -> Self {
        assert!(u32::try_from(page_numbers.len()).is_ok(), "every page number has an id");
        Self(Kind::Table(page_numbers))
    }

    /// How many pages there are: every id is less than this.
    pub fn pages(&self) -> u32 {
        match &self.0 {
            Kind::Linear { pages } => *pages,
            #[expect(clippy::cast_possible_truncation, reason = "checked by `table`")]
            Kind::Table(numbers) => numbers.len() as u32,
        }
    }

    /// The page number of `page`.
    #[inline]
    pub fn page_number(&self, page: PageId) -> u64 {
        match &self.0 {
            Kind::Linear { .. } => u64::from(page.0),
            Kind::Table(numbers) => numbers[page.index()],
        }
    }

    /// Asks the processor for the page number of a page.
    #[inline]
    pub(crate) fn prefetch(&self, page: PageId) {
        if let Kind::Table(numbers) = &self.0 {
            prefetch(numbers, page.index());
        }
    }

    /// Whether ids are page numbers, so that no table is needed to tell one from the other.
    pub const fn is_linear(&self) -> bool {
        matches!(self.0, Kind::Linear { .. })
    }

    /// All ids, in order.
    pub fn ids(&self) -> Range<u32> {
        0..self.pages()
    }

    /// All ids in the order of their page numbers.
    pub fn ids_by_page_number(&self) -> Vec<PageId> {
        let mut ids: Vec<PageId> = self.ids().map(PageId).collect();
        ids.sort_unstable_by_key(|&page| self.page_number(page));
        ids
    }
}
