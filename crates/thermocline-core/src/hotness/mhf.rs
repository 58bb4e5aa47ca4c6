//! MHF: a counting bloom filter; a page is hot if all of its counters have a high bit set.
//!
//! Each write raises the counters that the page's hash values select. After a period all counters
//! are halved, so that the filter forgets old writes.
//!
//! * Source: Hsieh, Kuo, Chang, *Efficient Identification of Hot Data for Flash Memory Storage
//!   Systems*, ACM Transactions on Storage 2(1), 2006; US patent 7461233.
//! * State: `M * D` bits, and a few numbers; 2 KiB with the parameters of the MBF paper.
//! * Cost: O(K) per write, O(`M * D` / 64) per decay. No allocation after construction.
//! * Deviations: (1) where two hash values select one counter, it is raised once. (2) `M` is
//!   rounded up to fill whole words. (3) `update=smallest` raises only the smallest of the
//!   counters: a conservative update, not in the paper. (4) The period does not restart when an
//!   overflow halves the counters.

use alloc::boxed::Box;
use alloc::format;

use super::hash::PageHash;
use super::lanes::{Lanes, Place};
use super::registry::IdentifierEntry;
use super::{Heat, Identifier};
use crate::PageId;
use crate::config::{ConfigError, Parameter, Values};

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("counters", 1..=1 << 26, 4096)
        .summary("number of counters (M)")
        .source("Park and Du, MSST 2011, Table I"),
    Parameter::integer("counter_bits", 1..=8, 4)
        .summary("bits of each counter (D)")
        .source("Park and Du, MSST 2011, Figure 2"),
    Parameter::integer("hot_bits", 1..=8, 2)
        .summary("most significant bits of which one must be set (B): hot from 2^(D-B) on")
        .source("Park and Du, MSST 2011, Figure 2"),
    Parameter::integer("hashes", 1..=16, 2)
        .summary("hash functions (K)")
        .source("Park and Du, MSST 2011, Table I"),
    Parameter::integer("decay_writes", 1..=u32::MAX as u64, 4096)
        .summary("writes from one halving of all counters to the next; 5117 in the original")
        .source("Park and Du, MSST 2011, Table I"),
    Parameter::choice("overflow", &[FREEZE, HALVE], FREEZE)
        .summary("what a full counter does: it stays, or all counters are halved first")
        .source("Park and Du, MSST 2011, section IV-A"),
    Parameter::choice("update", &[ALL, SMALLEST], ALL)
        .summary("which of a page's counters a write raises")
        .source("Hsieh et al., TOS 2006; `smallest` is our own variant"),
];

const FREEZE: &str = "freeze";
const HALVE: &str = "halve";
const ALL: &str = "all";
const SMALLEST: &str = "smallest";

/// Multiple hash functions over one table of counters.
#[derive(Clone, Debug)]
pub struct Mhf {
    counters: Lanes,
    hashes: u32,
    decay_writes: u32,
    /// Writes until the next halving; it comes before the write that follows the last.
    writes_left: u32,
    hot_count: u64,
    /// `true` if a full counter halves all of them.
    overflow_halves: bool,
    /// `true` if only the smallest of a page's counters is raised.
    raises_smallest: bool,
}

/// Its row in the registry.
pub const MHF: IdentifierEntry = IdentifierEntry {
    name: "mhf",
    summary: "one counting bloom filter, all counters halved after every period",
    source: "Hsieh, Kuo, Chang: Efficient Identification of Hot Data, TOS 2(1), 2006",
    module: module_path!(),
    parameters: PARAMETERS,
    build: |_pages, values| Ok(Box::new(Mhf::new(values)?)),
};

impl Mhf {
    /// Create empty counters with parameters of [`PARAMETERS`].
    ///
    /// # Errors
    /// If `high_bits` exceeds the bits of a counter.
    pub fn new(values: &Values) -> Result<Self, ConfigError> {
        let counter_bits = values.integer_u32("counter_bits");
        let hot_bits = values.integer_u32("hot_bits");
        if hot_bits > counter_bits {
            return Err(ConfigError::contradiction(
                "mhf",
                format!(
                    "hot_bits={hot_bits} are more than a counter has: with counter_bits={counter_bits} it takes a whole number from 1 to {counter_bits}"
                ),
            ));
        }
        let decay_writes = values.integer_u32("decay_writes");
        Ok(Self {
            counters: Lanes::new(values.integer_u32("counters"), counter_bits),
            hashes: values.integer_u32("hashes"),
            decay_writes,
            writes_left: decay_writes,
            // Park and Du, Section II-C: with D = 4 and B = 2 a count of 4 is hot.
            hot_count: 1 << (counter_bits - hot_bits),
            overflow_halves: values.choice("overflow") == HALVE,
            raises_smallest: values.choice("update") == SMALLEST,
        })
    }

    /// Return the least of a page's counters.
    fn least(&self, hash: PageHash) -> u64 {
        let count = |index| self.counters.get(self.counters.place(hash, index));
        (0..self.hashes).map(count).fold(u64::MAX, u64::min)
    }

    fn is_any_full(&self, hash: PageHash) -> bool {
        let full = self.counters.mask();
        (0..self.hashes).any(|index| self.counters.get(self.counters.place(hash, index)) == full)
    }

    /// Adds 1 to a counter that is below the limit, and returns what it then holds.
    #[inline]
    fn raise(&mut self, place: Place, limit: u64) -> u64 {
        let count = self.counters.get(place);
        let amount = u64::from(count < limit);
        self.counters.add(place, amount);
        count + amount
    }
}

impl Identifier for Mhf {
    #[inline]
    fn record(&mut self, page: PageId) -> Heat {
        // The decay comes before the first write of the next period.
        if self.writes_left == 0 {
            self.decay();
        }
        self.writes_left -= 1;
        let hash = PageHash::of(page);
        // Exponential batch decay: all counters halve rather than one overflowing. Otherwise a full
        // counter is frozen.
        if self.overflow_halves && self.is_any_full(hash) {
            // The patent's alternative to freezing. It does not restart the period (deviation 4).
            self.counters.halve();
        }
        let full = self.counters.mask();
        // A conservative update, deviation (3), raises only the counters that equal the smallest:
        // larger ones owe their count to collisions.
        let limit = if self.raises_smallest { full.min(self.least(hash) + 1) } else { full };
        let first = self.counters.place(hash, 0);
        let mut least = self.raise(first, limit);
        for index in 1..self.hashes {
            let place = self.counters.place(hash, index);
            // Deviation (1): without the check, one write of a page whose hash values collide would
            // count twice.
            let is_repeated = place == first
                || (1..index).any(|earlier| place == self.counters.place(hash, earlier));
            if !is_repeated {
                least = least.min(self.raise(place, limit));
            }
        }
        // Some of the highest `hot_bits` bits is set exactly if the count is at least 2^(D -
        // hot_bits).
        Heat::hot_if(least >= self.hot_count)
    }

    fn hotness(&self, page: PageId) -> f64 {
        self.least(PageHash::of(page)) as f64
    }

    fn threshold(&self) -> f64 {
        self.hot_count as f64
    }

    fn decay_writes(&self) -> Option<u64> {
        Some(u64::from(self.decay_writes))
    }

    #[inline(never)]
    fn decay(&mut self) {
        self.counters.halve();
        self.writes_left = self.decay_writes;
    }

    fn reset(&mut self) {
        self.counters.clear();
        self.writes_left = self.decay_writes;
    }

    fn memory_bits(&self) -> u64 {
        self.counters.memory_bits()
    }

    fn assert_invariants(&self) {
        assert!(self.writes_left <= self.decay_writes, "a decay is due");
        assert!(self.hot_count <= self.counters.mask(), "a counter can be hot");
    }
}
