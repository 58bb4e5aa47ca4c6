//! The orders that policies keep their pages in.
//!
//! With dense [indexing](crate::Indexing) everything here is indexed by page ids or by slots of a
//! cache, so that no step hashes and none allocates after construction, but for heaps that grow to
//! their greatest size once. With sparse indexing an [`Index`] takes the place of each table by page,
//! and steps hash. Queues of pages take the [`Ids`](crate::Ids) that they may meet; lists and heaps
//! of ids may be as long as a policy's [`Numbers`].

mod directory;
mod frames;
mod heap;
mod index;
mod last_but_one;
mod lazy_heap;
mod lists;
mod logs;
mod numbers;
mod page_set;
mod positions;
mod recency;
mod ring;
mod slots;

pub use directory::{Directory, Places, Table};
pub use frames::Frames;
pub use heap::IndexedHeap;
pub(crate) use heap::grow;
pub use index::Index;
pub use last_but_one::{LastButOne, Side};
pub use lazy_heap::{Entry, LazyHeap, Rank, Stamp};
pub use lists::{CacheLine, Lists};
pub use logs::{Logs, PRESENT, Use};
pub use numbers::Numbers;
pub use page_set::PageSet;
pub use positions::Positions;
pub use recency::{Position, Recency};
pub use ring::Ring;
pub use slots::Slots;
