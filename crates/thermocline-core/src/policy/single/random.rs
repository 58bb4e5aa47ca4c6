//! RANDOM: evict a page drawn by lot.
//!
//! * Source: the classical algorithm; Belady, *A Study of Replacement Algorithms for a
//!   Virtual-Storage Computer*, IBM Systems Journal 5(2), 1966.
//! * State: 4 bytes per page that exists, 4 bytes per cached page.
//! * Cost: O(1) per reference.
//! * Deviations: none.

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::{Parameter, Values};
use crate::queue::Frames;
use crate::random::SEED;
use crate::random::SplitMix64;
use crate::{Op, PageId};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[SEED];

/// Random replacement.
#[derive(Clone, Debug)]
pub struct Random {
    frames: Frames,
    /// The first so many frames hold a page each.
    held_pages: u32,
    draws: SplitMix64,
}

/// Its row in the registry.
pub const RANDOM: Algorithm = Algorithm::new::<Random>(
    "random",
    "a page drawn by lot leaves, no flash",
    "baseline",
    module_path!(),
    PARAMETERS,
);

impl Registered for Random {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let draws = SplitMix64::new(values.integer(SEED.name));
        Self { frames: Frames::new(ids, capacity_pages), held_pages: 0, draws }
    }
}

impl Replacement for Random {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        if self.frames.find(page).is_some() {
            return Outcome::Hit;
        }
        let frame = if self.held_pages < self.frames.count() {
            self.held_pages += 1;
            self.held_pages - 1
        } else {
            self.draws.below(self.held_pages)
        };
        Outcome::Admitted { evicted: self.frames.put(frame, page) }
    }

    fn contains(&self, page: PageId) -> bool {
        self.frames.find(page).is_some()
    }

    fn forget(&mut self, page: PageId) {
        if self.frames.take_dense(page, self.held_pages).is_some() {
            self.held_pages -= 1;
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.frames.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.frames.assert_invariants();
        for frame in 0..self.frames.count() {
            let is_held = self.frames.page(frame).is_some();
            assert_eq!(is_held, frame < self.held_pages, "the first frames hold the pages");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.frames.memory_bytes()
    }
}
