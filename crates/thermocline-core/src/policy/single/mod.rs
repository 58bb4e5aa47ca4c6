//! Policies of one cache tier over the disk.
//!
//! Each is a [`Replacement`]: it says which pages a cache keeps, and nothing else. [`one_tier`] makes a
//! policy of RAM over disk of it, and [`ALGORITHMS`] lists them, so that they can be tiers of a
//! hybrid.

use alloc::boxed::Box;
use core::fmt::Debug;

use crate::config::{Parameter, Values};
use crate::{Op, PageId};

pub mod fifo;
pub mod lru;
pub mod one_tier;

/// An algorithm that may be a tier of a hybrid.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Its name, as in the registry.
    pub name: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Builds it, empty.
    pub build: fn(Space, &Values) -> Box<dyn Replacement + Send>,
}

/// All algorithms that may be a tier of a hybrid: those that need not know the future.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm { name: "fifo", parameters: &[], build: boxed::<fifo::Fifo> },
    Algorithm { name: "lru", parameters: &[], build: boxed::<lru::Lru> },
];

fn boxed<R: Replacement + Send + 'static>(
    space: Space,
    values: &Values,
) -> Box<dyn Replacement + Send> {
    Box::new(R::new(space, values))
}

/// The cache that an algorithm is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Page ids are below this.
    pub pages: u32,
    /// The pages that it may keep, at least one.
    pub capacity_pages: u32,
}

/// What a reference came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The page was in the cache, and still is.
    Hit,
    /// It was not, and is now; the page that left for it, if the cache was full.
    Admitted {
        /// The page that left.
        evicted: Option<PageId>,
    },
    /// It was not, and the cache is as it was: the page is not worth another's place.
    Refused,
}

/// Which pages a cache of one tier keeps: a replacement algorithm, with its admission if it has one.
///
/// It is told every reference, and holds at most its capacity after each. The same calls give the
/// same outcomes on every platform.
pub trait Replacement: Debug {
    /// An empty cache.
    fn new(space: Space, values: &Values) -> Self
    where
        Self: Sized;

    /// A reference to a page.
    fn refer(&mut self, page: PageId, op: Op) -> Outcome;

    /// Whether a page is in the cache.
    fn contains(&self, page: PageId) -> bool;

    /// Takes a page out of the cache if it is there, and forgets what is known of it.
    fn forget(&mut self, page: PageId);

    /// Asks the processor for what the next reference to `page` will read first.
    #[inline]
    fn prefetch(&self, _page: PageId) {}

    /// Checks every invariant of the state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    fn assert_invariants(&self);

    /// Heap memory in bytes, as allocated.
    fn memory_bytes(&self) -> usize;

    /// What the published algorithm keeps of pages that are not in the cache, in bytes.
    fn metadata_bytes(&self) -> usize {
        0
    }

    /// Tells `report` what the algorithm adapts, as it stands: a name, the value.
    fn gauges(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}
