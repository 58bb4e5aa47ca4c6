//! Indexing of policies' page state: tables of the whole disk, or sparse indices.

/// Structure by which a policy finds the state of a page. Its decisions do not depend on it.
///
/// Write buffers and OPT always use tables. A few policies keep some state for each page or extent of
/// the disk by definition, whatever the indexing; see
/// [`SparseMemory`](crate::registry::SparseMemory).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Indexing {
    /// Tables with an entry for each page of the disk: fastest, for replays.
    #[default]
    Dense,
    /// Hash tables of the pages that the policy tracks: memory grows with the cache and not with
    /// the disk, for servers.
    Sparse,
}

/// The page ids that a policy may meet, and how it indexes its state by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Number of pages of the disk: ids are below this.
    pub pages: u32,
    /// Structure by which state is found by an id.
    pub indexing: Indexing,
}

impl Ids {
    /// Ids below `pages`, indexed by tables.
    pub const fn dense(pages: u32) -> Self {
        Self { pages, indexing: Indexing::Dense }
    }

    /// Ids below `pages`, indexed by hash tables.
    pub const fn sparse(pages: u32) -> Self {
        Self { pages, indexing: Indexing::Sparse }
    }
}
