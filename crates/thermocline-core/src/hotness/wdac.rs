//! WDAC: the exact baseline, every write of a window weighed by its age.
//!
//! The newest write of the window weighs 2, the oldest almost 0, in even steps; a page's hot data
//! index is the sum over its writes in the window. With `c` writes of a page numbered `n1, n2, ...`
//! in a window of `W` writes that ends with number `n`, that sum is `(2 / W) * (c * (W - n) + n1 +
//! n2 + ...)`, so a count and a sum per page suffice, and all is integer arithmetic.
//!
//! * Source: Park and Du, *Hot Data Identification for Flash-based Storage Systems Using Multiple
//!   Bloom Filters*, MSST 2011, section III-B.
//! * State: 8 bytes per page that exists, 4 bytes per write of the window.
//! * Cost: O(1) per write; the published form touches every page of the window.
//! * Deviations: (1) sums are kept modulo 2^40, which is exact because the index of any page, times
//!   `W / 2`, is below that; so the window is at most 2^20 writes.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;

use super::registry::IdentifierEntry;
use super::{Heat, Identifier};
use crate::config::{ConfigError, Parameter, Values};
use crate::{PageId, prefetch};

/// Bits of the sum of write numbers; the count has the others.
const SUM_BITS: u32 = 40;
const SUM_MASK: u64 = (1 << SUM_BITS) - 1;
const ONE_WRITE: u64 = 1 << SUM_BITS;

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("window_writes", 1..=1 << 20, 4096)
        .summary("writes of the window (W)")
        .source("Table I"),
    Parameter::real("threshold", f64::MIN_POSITIVE..=1e9, 4.0)
        .summary("sum of weights from which on a page is hot")
        .source("Table I"),
];

/// Window-based direct address counting.
#[derive(Clone, Debug)]
pub struct Wdac {
    /// Per page, the number of its writes in the window, and the sum of their numbers.
    pages: Box<[u64]>,
    /// The writes of the window; the oldest at `head` once it is full.
    window: Box<[PageId]>,
    head: u32,
    writes: u64,
    threshold: f64,
    /// The threshold, times `W / 2`.
    threshold_units: u64,
}

/// Its row in the registry.
pub const WDAC: IdentifierEntry = IdentifierEntry {
    name: "wdac",
    summary: "every write of a window weighed by its age: the exact baseline of MBF",
    source: "Park, Du: Hot Data Identification Using Multiple Bloom Filters, MSST 2011",
    module: module_path!(),
    parameters: PARAMETERS,
    build: |pages, values| Ok(Box::new(Wdac::new(pages, values)?)),
};

impl Wdac {
    /// Create a table for page ids below `pages`, with parameters of [`PARAMETERS`].
    ///
    /// # Errors
    /// If the threshold is above the sum of all weights of the window.
    pub fn new(pages: u32, values: &Values) -> Result<Self, ConfigError> {
        let window_writes = values.integer_u32("window_writes");
        let threshold = values.real("threshold");
        // A window that one page fills: the sum of 2 * (W - age) / W over all ages.
        let most = f64::from(window_writes) + 1.0;
        if threshold > most {
            return Err(ConfigError::contradiction(
                "wdac",
                format!(
                    "threshold={threshold} can never be reached: the weights of a window of {window_writes} writes sum to {most}; expected a number above 0, up to that"
                ),
            ));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not above the sum of all units, which is below 2^40"
        )]
        let threshold_units = libm::ceil(threshold * f64::from(window_writes) / 2.0) as u64;
        Ok(Self {
            pages: vec![0; pages as usize].into_boxed_slice(),
            window: vec![PageId(0); window_writes as usize].into_boxed_slice(),
            head: 0,
            writes: 0,
            threshold,
            threshold_units,
        })
    }

    /// Return the hot data index of a page's entry, times `W / 2` (section III-B).
    #[inline]
    fn units(&self, entry: u64) -> u64 {
        let writes = entry >> SUM_BITS;
        // The sum of W - age over c writes whose numbers add up to s is c (W - n) + s, where n is
        // the number of the last write.
        let ages = (self.window.len() as u64).wrapping_sub(self.writes);
        writes.wrapping_mul(ages).wrapping_add(entry) & SUM_MASK
    }
}

impl Identifier for Wdac {
    #[inline]
    fn record(&mut self, page: PageId) -> Heat {
        let window_writes = self.window.len() as u64;
        let place = &mut self.window[self.head as usize];
        // The oldest write leaves the window, and its page's entry.
        if self.writes >= window_writes {
            let entry = &mut self.pages[place.index()];
            let sum = entry.wrapping_sub(self.writes - window_writes + 1) & SUM_MASK;
            *entry = ((*entry & !SUM_MASK) - ONE_WRITE) | sum;
        }
        *place = page;
        self.head += 1;
        if u64::from(self.head) == window_writes {
            self.head = 0;
        }
        self.writes += 1;
        let entry = &mut self.pages[page.index()];
        // The number of the newest write is the window's end, so its own weight is 2 (Section
        // III-B).
        let sum = entry.wrapping_add(self.writes) & SUM_MASK;
        *entry = ((*entry & !SUM_MASK) + ONE_WRITE) | sum;
        let entry = *entry;
        Heat::hot_if(self.units(entry) >= self.threshold_units)
    }

    fn hotness(&self, page: PageId) -> f64 {
        2.0 * self.units(self.pages[page.index()]) as f64 / self.window.len() as f64
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }

    fn decay_writes(&self) -> Option<u64> {
        None
    }

    fn decay(&mut self) {}

    fn reset(&mut self) {
        self.pages.fill(0);
        self.head = 0;
        self.writes = 0;
    }

    fn memory_bits(&self) -> u64 {
        (size_of_val(&*self.pages) + size_of_val(&*self.window)) as u64 * 8
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.pages, page.index());
    }

    fn assert_invariants(&self) {
        let window_writes = self.window.len() as u64;
        assert_eq!(u64::from(self.head), self.writes % window_writes, "the window is a ring");
        let held = self.writes.min(window_writes);
        let counted: u64 = self.pages.iter().map(|entry| entry >> SUM_BITS).sum();
        assert_eq!(counted, held, "every write of the window is counted at its page");
        // A full window of weights 2/W, 4/W, ..., 2 sums to W + 1.
        let units: u64 = self.pages.iter().map(|&entry| self.units(entry)).sum();
        let ages = (0..held).map(|age| window_writes - age).sum::<u64>();
        assert_eq!(units, ages, "the weights of the window are shared out among its pages");
    }
}
