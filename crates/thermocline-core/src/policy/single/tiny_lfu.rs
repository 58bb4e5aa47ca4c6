//! TinyLFU admission: a page enters a full cache only if it is referenced more often than the page
//! that would have to leave.
//!
//! Any algorithm that can say which page it would evict next may stand behind it; the registered one
//! has LRU.
//!
//! * Source: Einziger, Friedman and Manes, *TinyLFU: A Highly Efficient Cache Admission Policy*, ACM
//!   Trans. Storage 13(4), 2017, section 3 and figure 1.
//! * State: that of the algorithm; 8 to 16 bytes per cached page, 2 KiB at least.
//! * Cost: that of the algorithm, and O(1) per reference.
//! * Deviations: those of [the histogram](crate::hotness::tiny_lfu).

use super::lru::Lru;
use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::{Parameter, Values};
use crate::hotness::tiny_lfu::{self as histogram, TinyLfu};
use crate::{Op, PageId};

/// Parameters.
pub const PARAMETERS: &[Parameter] =
    &[histogram::SAMPLE_FACTOR, histogram::DOORKEEPER, histogram::MINIMAL_INCREMENT];

/// An algorithm that can say which page it would evict next.
pub trait NextVictim: Replacement {
    /// Return the page that the next one to be admitted would replace; `None` while there is room.
    fn next_victim(&mut self) -> Option<PageId>;
}

/// An algorithm that TinyLFU guards.
#[derive(Clone, Debug)]
pub struct TinyLfuAdmission<R> {
    algorithm: R,
    histogram: TinyLfu,
}

/// Its row in the registry.
pub const TINY_LFU: Algorithm = Algorithm::new::<TinyLfuAdmission<Lru>>(
    "tinylfu",
    "LRU that admits a page only if it is referenced more often than the victim; no flash",
    "Einziger, Friedman, Manes: TinyLFU, ACM Trans. Storage 13(4), 2017",
    module_path!(),
    PARAMETERS,
);

impl<R: NextVictim + Registered> Registered for TinyLfuAdmission<R> {
    fn new(space: Space<'_>, values: &Values) -> Self {
        Self {
            algorithm: R::new(space, values),
            histogram: TinyLfu::new(space.capacity_pages.min(space.ids.pages), values),
        }
    }
}

impl<R: NextVictim> Replacement for TinyLfuAdmission<R> {
    #[inline]
    fn refer(&mut self, page: PageId, op: Op) -> Outcome {
        // Every reference is recorded, also of pages outside the cache: their frequency decides on
        // their admission.
        self.histogram.record(page);
        if !self.algorithm.contains(page)
            && let Some(victim) = self.algorithm.next_victim()
            && self.histogram.estimate(page) <= self.histogram.estimate(victim)
        {
            return Outcome::Refused;
        }
        self.algorithm.refer(page, op)
    }

    fn contains(&self, page: PageId) -> bool {
        self.algorithm.contains(page)
    }

    /// Forget a page; the histogram keeps its counts, because pages share them.
    fn forget(&mut self, page: PageId) {
        self.algorithm.forget(page);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.algorithm.prefetch(page);
        self.histogram.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.algorithm.assert_invariants();
        self.histogram.assert_invariants();
    }

    fn memory_bytes(&self) -> usize {
        self.algorithm.memory_bytes() + self.histogram.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.algorithm.metadata_bytes() + self.histogram.memory_bytes()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.algorithm.gauges(report);
    }
}
