//! CLOCK: FIFO with further chances for pages that were referenced again.
//!
//! The pages stand in a ring. A hit raises the page's counter. The hand goes round: it lowers the
//! counters that are above zero, and evicts the first page whose counter is zero. With a counter of
//! one bit this is the second-chance algorithm.
//!
//! * Source: Corbato, *A Paging Experiment with the Multics System*, MIT Project MAC Report
//!   MAC-M-384, 1968. With several bits: Smith, *Sequentiality and Prefetching in Database Systems*,
//!   ACM TODS 3(3), 1978 (GCLOCK).
//! * State: 4 bytes per page that exists, 5 bytes per cached page.
//! * Cost: amortised O(1) per reference: the hand takes one step per miss, and one per hit before.
//! * Deviations: (1) A page enters with its counter at zero, so that its first reference earns
//!   nothing; Multics set the bit at the fault, which the first turn of the hand takes away from all
//!   alike. (2) The frame of a page that is taken out stays empty until the hand comes by.

use alloc::vec;
use alloc::vec::Vec;

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::{Parameter, Values};
use crate::queue::Frames;
use crate::{Op, PageId};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[Parameter::integer("bits", 1..=8, 1)
    .summary("bits of a page's counter: 2^bits - 1 further chances at most")
    .source("second chance; libCacheSim: n-bit-counter")];

/// The clock.
#[derive(Clone, Debug)]
pub struct Clock {
    frames: Frames,
    /// Per frame: the chances that its page has left.
    counters: Vec<u8>,
    counter_max: u8,
    hand: u32,
}

/// Its row in the registry.
pub const CLOCK: Algorithm = Algorithm::new::<Clock>(
    "clock",
    "first in, first out, with further chances for pages that were hit; no flash",
    "Corbato: A Paging Experiment with the Multics System, MIT 1968",
    module_path!(),
    PARAMETERS,
);

impl Registered for Clock {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let frames = Frames::new(ids, capacity_pages);
        Self {
            counters: vec![0; frames.count() as usize],
            counter_max: u8::MAX >> (u8::BITS - values.integer_u32("bits")),
            frames,
            hand: 0,
        }
    }
}

impl Replacement for Clock {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        if let Some(frame) = self.frames.find(page) {
            let counter = &mut self.counters[frame as usize];
            *counter += u8::from(*counter < self.counter_max);
            return Outcome::Hit;
        }
        while self.counters[self.hand as usize] > 0 {
            self.counters[self.hand as usize] -= 1;
            self.hand = self.frames.following(self.hand);
        }
        let evicted = self.frames.put(self.hand, page);
        // The new page stands just behind the hand, so it has a whole round to be hit.
        self.hand = self.frames.following(self.hand);
        self.frames.prefetch_page_of(self.hand);
        Outcome::Admitted { evicted }
    }

    fn contains(&self, page: PageId) -> bool {
        self.frames.find(page).is_some()
    }

    fn forget(&mut self, page: PageId) {
        if let Some(frame) = self.frames.take(page) {
            self.counters[frame as usize] = 0;
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.frames.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.frames.assert_invariants();
        for (frame, &counter) in (0..).zip(&self.counters) {
            assert!(counter <= self.counter_max, "a counter has its bits");
            assert!(counter == 0 || self.frames.page(frame).is_some(), "pages have chances");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.frames.memory_bytes() + self.counters.len()
    }
}
