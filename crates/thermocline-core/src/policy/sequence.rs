//! Detection of misses that are sequential on disk.
//!
//! A miss is sequential if its page number follows that of the miss before. A driver that replays a
//! sample leaves accesses out, and says which misses would be sequential with all of them.
//!
//! * Source: none; policies that distinguish sequential misses from random ones share it.
//! * State: 32 bytes; the driver's answers are not the policy's.
//! * Cost: O(1) per access.
//! * Deviations: none.

use alloc::sync::Arc;

use crate::{Geometry, MissOrder, PageId, Setup};

/// Page that the next miss is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// The page number that a sequential miss would have.
    next: Option<u64>,
    accesses: usize,
    known: Option<Arc<MissOrder>>,
}

impl Sequence {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self { next: None, accesses: 0, known: setup.inputs.miss_order.clone() }
    }

    /// Notes an access, hit or miss.
    #[inline]
    pub(crate) const fn access(&mut self) {
        self.accesses += 1;
    }

    /// Notes that the access noted last is a miss; returns whether it is sequential.
    pub(crate) fn misses(&mut self, page: PageId, geometry: &Geometry) -> bool {
        let number = geometry.page_number(page);
        let follows = self.next == Some(number);
        self.next = number.checked_add(1);
        self.known.as_ref().map_or(follows, |known| known.follows(self.accesses - 1))
    }
}
