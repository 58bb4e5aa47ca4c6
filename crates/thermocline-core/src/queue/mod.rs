//! The orders that policies keep their pages in.
//!
//! Everything here is indexed by dense page ids or by slots of a cache, so that no step hashes and
//! none allocates after construction, but for heaps that grow to their greatest size once; where
//! memory is to be saved, an [`Index`] takes the place of tables by page, and steps hash.

mod directory;
mod frames;
mod heap;
mod heap_pair;
mod index;
mod lazy_heap;
mod lists;
mod logs;
mod page_set;
mod positions;
mod recency;
mod ring;
mod slots;

pub use directory::Directory;
pub use frames::Frames;
pub use heap::IndexedHeap;
pub use heap_pair::{HeapPair, Side};
pub use index::Index;
pub use lazy_heap::LazyHeap;
pub use lists::Lists;
pub use logs::{Logs, PRESENT, Use};
pub use page_set::PageSet;
pub use positions::Positions;
pub use recency::{Position, Recency};
pub use ring::Ring;
pub use slots::Slots;
