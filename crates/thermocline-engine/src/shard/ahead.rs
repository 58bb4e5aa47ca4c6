//! Looks ahead within a request, so that memory is on its way when a page is served.
//!
//! A shard has the state of a page in four places that lead to one another: the bucket of an index, the
//! entry, the frame's bookkeeping, the frame. Each is a miss of the processor's cache once the cache of
//! pages is larger than that. In a request of many pages, the misses of several pages overlap.

use super::{Place, Shard};

/// Number of pages ahead at which the indices are prefetched.
const FAR: u64 = 8;
/// Number of pages ahead at which the entry that an index leads to is prefetched.
const NEAR: u64 = 4;
/// Number of pages ahead at which the frame that an entry leads to is prefetched.
const NEXT: u64 = 2;

impl Shard {
    /// Asks for what the first pages of a request need.
    pub(super) fn look_ahead_first(&self, first: u64, last: u64) {
        for page in first..=last.min(first.saturating_add(FAR - 1)) {
            self.prefetch_indices(page);
        }
        for page in first..=last.min(first.saturating_add(NEAR - 1)) {
            self.prefetch_entry(page);
        }
    }

    /// Asks for what pages of a request will need that are served after this one.
    #[inline]
    pub(super) fn look_ahead(&self, page: u64, last: u64) {
        let coming = |distance: u64| page.checked_add(distance).filter(|&page| page <= last);
        if let Some(far) = coming(FAR) {
            self.prefetch_indices(far);
        }
        if let Some(near) = coming(NEAR) {
            self.prefetch_entry(near);
        }
        if let Some(next) = coming(NEXT) {
            self.prefetch_frame(next);
        }
    }

    fn prefetch_indices(&self, page: u64) {
        self.policy.prefetch(self.places.id(page));
        self.places.prefetch(page);
    }

    fn prefetch_entry(&self, page: u64) {
        self.policy.prefetch_next(self.places.id(page));
        if let Some(Place::Entry(id)) = self.places.guess(page) {
            self.entries.prefetch(id);
        }
    }

    fn prefetch_frame(&self, page: u64) {
        if let Some(Place::Entry(id)) = self.places.guess(page)
            && let Some(frame) = self.entries[id].frame
        {
            self.pool.prefetch(frame);
        }
    }
}
