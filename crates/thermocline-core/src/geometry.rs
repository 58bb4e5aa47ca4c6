//! Map from dense page ids to the address space.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::PageId;
use crate::prefetch::prefetch;

/// The page number of every page id.
///
/// Policies that look at adjacency (extents, sequential misses, contiguous cleaning) need it; all
/// others ignore it. Page numbers are distinct; pages of different volumes are never adjacent.
#[derive(Clone, Debug)]
pub struct Geometry(Kind);

#[derive(Clone)]
enum Kind {
    Linear { pages: u32 },
    Table(Arc<[u64]>),
    Shared(Arc<Numbers>),
}

/// A table whose memory another type owns.
type Numbers = dyn AsRef<[u64]> + Send + Sync;

impl Geometry {
    /// Return the geometry of a block device: `pages` pages whose ids are their page numbers.
    pub const fn linear(pages: u32) -> Self {
        Self(Kind::Linear { pages })
    }

    /// Create a geometry from the page number of each id, as a compiled trace has it.
    ///
    /// # Panics
    /// If there are more numbers than page ids, that is, more than `u32::MAX`.
    pub fn table(page_numbers: Arc<[u64]>) -> Self {
        assert!(u32::try_from(page_numbers.len()).is_ok(), "every page number has an id");
        Self(Kind::Table(page_numbers))
    }

    /// Create a geometry from a table that another type owns, such as a mapped file. A lookup costs
    /// a call more than in a [`table`](Self::table).
    ///
    /// # Panics
    /// As for [`table`](Self::table).
    pub fn shared(page_numbers: Arc<dyn AsRef<[u64]> + Send + Sync>) -> Self {
        let pages = (*page_numbers).as_ref().len();
        assert!(u32::try_from(pages).is_ok(), "every page number has an id");
        Self(Kind::Shared(page_numbers))
    }

    /// Return the number of pages: every id is less than this.
    pub fn pages(&self) -> u32 {
        match &self.0 {
            Kind::Linear { pages } => *pages,
            #[expect(clippy::cast_possible_truncation, reason = "checked by `table`")]
            Kind::Table(numbers) => numbers.len() as u32,
            #[expect(clippy::cast_possible_truncation, reason = "checked by `shared`")]
            Kind::Shared(numbers) => (**numbers).as_ref().len() as u32,
        }
    }

    /// Return the page number of `page`.
    #[inline]
    pub fn page_number(&self, page: PageId) -> u64 {
        match &self.0 {
            Kind::Linear { .. } => u64::from(page.0),
            Kind::Table(numbers) => numbers[page.index()],
            Kind::Shared(numbers) => (**numbers).as_ref()[page.index()],
        }
    }

    /// Asks the processor for the page number of a page.
    #[inline]
    pub(crate) fn prefetch(&self, page: PageId) {
        match &self.0 {
            Kind::Linear { .. } => {}
            Kind::Table(numbers) => prefetch(numbers, page.index()),
            Kind::Shared(numbers) => prefetch((**numbers).as_ref(), page.index()),
        }
    }

    /// Return `true` if ids are page numbers, so that no table is needed to tell one from the other.
    pub const fn is_linear(&self) -> bool {
        matches!(self.0, Kind::Linear { .. })
    }

    /// Return all ids, in order.
    pub fn ids(&self) -> Range<u32> {
        0..self.pages()
    }

    /// Return all ids in the order of their page numbers.
    pub fn ids_by_page_number(&self) -> Vec<PageId> {
        let mut ids: Vec<PageId> = self.ids().map(PageId).collect();
        ids.sort_unstable_by_key(|&page| self.page_number(page));
        ids
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linear { pages } => f.debug_struct("Linear").field("pages", pages).finish(),
            Self::Table(numbers) => f.debug_tuple("Table").field(numbers).finish(),
            Self::Shared(numbers) => f.debug_tuple("Shared").field(&(**numbers).as_ref()).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, vec};

    #[test]
    fn a_shared_table_is_a_table() {
        let numbers = vec![70, 3, 64, 0, 200];
        let table = Geometry::table(numbers.clone().into());
        let shared = Geometry::shared(Arc::new(numbers));
        assert!(!shared.is_linear());
        assert_eq!(shared.ids(), table.ids());
        assert_eq!(shared.ids_by_page_number(), table.ids_by_page_number());
        for id in shared.ids().map(PageId) {
            shared.prefetch(id);
            assert_eq!(shared.page_number(id), table.page_number(id));
        }
        assert!(format!("{shared:?}").contains("70, 3, 64, 0, 200"));
    }
}
