//! FIFO: evict the page that came first.
//!
//! * Source: the classical algorithm.
//! * State: 4 bytes per page that exists, 4 bytes per cached page.
//! * Cost: O(1) per reference.
//! * Deviations: none. The frame of a page that is taken out stays empty until its turn comes.

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::Values;
use crate::queue::{Directory, Frames, Places, Table};
use crate::{Op, PageId};

/// First in, first out. `P` is how pages are found.
#[derive(Clone, Debug)]
pub struct Fifo<P> {
    frames: Frames<P>,
    /// The frame that is filled next: the oldest, once all are full.
    hand: u32,
}

/// Its row in the registry.
pub const FIFO: Algorithm = Algorithm::by_indexing::<Fifo<Table>, Fifo<Directory>>(
    "fifo",
    "first in, first out, no flash",
    "baseline",
    module_path!(),
    &[],
);

impl<P: Places> Registered for Fifo<P> {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, _values: &Values) -> Self {
        Self { frames: Frames::new(ids, capacity_pages), hand: 0 }
    }
}

impl<P: Places> Replacement for Fifo<P> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        if self.frames.find(page).is_some() {
            return Outcome::Hit;
        }
        let evicted = self.frames.put(self.hand, page);
        self.hand = self.frames.following(self.hand);
        self.frames.prefetch_page_of(self.hand);
        Outcome::Admitted { evicted }
    }

    fn contains(&self, page: PageId) -> bool {
        self.frames.find(page).is_some()
    }

    fn forget(&mut self, page: PageId) {
        self.frames.take(page);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.frames.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.frames.assert_invariants();
    }

    fn memory_bytes(&self) -> usize {
        self.frames.memory_bytes()
    }
}
