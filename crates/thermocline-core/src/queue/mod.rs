//! The orders that policies keep their pages in.
//!
//! Everything here is indexed by dense page ids or by slots of a cache, so that no step hashes and
//! none allocates after construction, but for heaps that grow to their greatest size once.

mod frames;
mod heap;
mod lazy_heap;
mod lists;
mod logs;
mod positions;
mod recency;

pub use frames::Frames;
pub use heap::IndexedHeap;
pub use lazy_heap::LazyHeap;
pub use lists::Lists;
pub use logs::{Logs, PRESENT, Use};
pub use positions::Positions;
pub use recency::{Position, Recency};
