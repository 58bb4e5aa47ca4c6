//! MBF: a page is hot if several bloom filters have seen it; the younger ones count more.
//!
//! Writes are recorded in one of `V` bloom filters, round robin; a page that the current filter has
//! seen already goes to the next one that has not, so the number of filters that have seen a page
//! is its frequency. Every `T` writes the oldest filter is erased, so each filter reaches back to
//! another time, and its weight is its recency. A page is hot if the weights of the filters that
//! have seen it reach a threshold.
//!
//! * Source: Park and Du, *Hot Data Identification for Flash-based Storage Systems Using Multiple
//!   Bloom Filters*, MSST 2011, section III-A.
//! * State: `V * M` bits, and a few numbers; 1 KiB with the paper's parameters.
//! * Cost: O(K) per write, O(`V * M` / 64) per reset. No allocation after construction.
//! * Deviations: (1) the bits that the filters hold at one position lie side by side, so that one
//!   load looks at all filters, and a reset clears one bit of every position; a table says which sets
//!   of filters make a page hot. With `layout` separate, each filter is an array of its own and
//!   weights are added up, as in the paper; decisions are the same. (2) The turn of the
//!   filters moves on after a shortcut too. (3) A page is recorded before it is judged, and a reset
//!   follows the `T`-th write: the paper leaves both orders open. (4) The paper writes both "larger
//!   than" and "greater than or equal to" the threshold; it is the latter. (5) `M` is rounded up to
//!   fill whole words.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::filters::{Filters, Packed, Separate};
use super::hash::PageHash;
use super::registry::IdentifierEntry;
use super::{Heat, Identifier};
use crate::PageId;
use crate::config::{ConfigError, Parameter, Values};

/// The most filters for which all sets of them fit a word, one bit each.
const FILTERS_OF_A_SET: u32 = 6;

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("filters", 1..=16, 4)
        .summary("number of bloom filters (V)")
        .source("Table I"),
    Parameter::integer("filter_bits", 1..=1 << 26, 2048)
        .summary("bits of each bloom filter (M)")
        .source("Table I"),
    Parameter::integer("hashes", 1..=16, 2).summary("hash functions (K)").source("Table I"),
    Parameter::integer_or_auto("decay_writes", 1..=u32::MAX as u64)
        .summary("writes from one reset to the next (T); auto: M / V")
        .source("section III-A"),
    Parameter::real("threshold", f64::MIN_POSITIVE..=1e9, 4.0)
        .summary("sum of weights from which on a page is hot")
        .source("Table I"),
    Parameter::switch("shortcut", true)
        .summary("whether a page that all filters have seen is hot without further steps")
        .source("section III-A"),
    Parameter::choice("layout", &["packed", "separate"], "packed")
        .summary("memory of the filters: packed by position, which is faster, or an array for each")
        .source("ours: packed; section III-A: separate"),
];

/// Multiple bloom filters.
#[derive(Clone, Debug)]
pub struct Mbf<F = Packed> {
    bits: F,
    filters: u32,
    hashes: u32,
    /// The index of the second hash value: 1, or 0 if there is but one.
    second: u32,
    decay_writes: u32,
    /// The weight of the filter of rank `j` is `(base_units + j) / units_per_weight`.
    base_units: u32,
    units_per_weight: u32,
    threshold_units: u32,
    threshold: f64,
    /// All filters as a set, one bit each.
    all: u32,
    /// The set on which the shortcut is taken: all filters, or none that there can be.
    shortcut: u32,
    /// For each filter that may be the next to be erased, the sets of filters that make a page hot,
    /// one bit each; empty if there are more filters than that, or if weights are added up.
    hot_sets: Vec<u64>,
    /// The current entry of `hot_sets`.
    hot_set: u64,
    /// The filters from the one whose turn it is to the last.
    turn: u32,
    /// The filter to be erased next.
    next_reset: u32,
    /// Writes until it is.
    writes_left: u32,
}

/// Its row in the registry.
pub const MBF: IdentifierEntry = IdentifierEntry {
    name: "mbf",
    summary: "several bloom filters, filled in turn and erased in turn, the younger weighing more",
    source: "Park, Du: Hot Data Identification Using Multiple Bloom Filters, MSST 2011",
    module: module_path!(),
    parameters: PARAMETERS,
    build: |_pages, values| {
        Ok(match values.choice("layout") {
            "separate" => Box::new(Mbf::<Separate>::new(values)?),
            _ => Box::new(Mbf::<Packed>::new(values)?),
        })
    },
};

impl<F: Filters> Mbf<F> {
    /// Create empty filters with parameters of [`PARAMETERS`].
    ///
    /// # Errors
    /// If the threshold is above the sum of all weights, or an automatic period is not a whole
    /// number.
    pub fn new(values: &Values) -> Result<Self, ConfigError> {
        let filters = values.integer_u32("filters");
        let filter_bits = values.integer_u32("filter_bits");
        let hashes = values.integer_u32("hashes");
        let threshold = values.real("threshold");
        let decay_writes = match values.integer_u32_or_auto("decay_writes") {
            Some(writes) => writes,
            // Section III-A: T = M / V, so that V filters, each of which forgets after V * T
            // writes, meet at most M pages.
            None if filter_bits.is_multiple_of(filters) => filter_bits / filters,
            None => {
                return Err(ConfigError::contradiction(
                    "mbf",
                    format!(
                        "filter_bits={filter_bits} is not divisible by filters={filters}, so decay_writes cannot be M / V: take a multiple of {filters}, or set decay_writes (a whole number from 1)"
                    ),
                ));
            }
        };
        // Section III-A: the filter of rank V / 2 has weight 1, the youngest has weight 2.
        let middle = filters / 2;
        let units_per_weight = filters - middle;
        let base_units = filters - 2 * middle;
        // Whole units instead of fractions: sums of weights such as 1/3 compare exactly.
        let most_units = (1..=filters).map(|rank| base_units + rank).sum::<u32>();
        let most = f64::from(most_units) / f64::from(units_per_weight);
        if threshold > most {
            return Err(ConfigError::contradiction(
                "mbf",
                format!(
                    "threshold={threshold} can never be reached: the weights of {filters} filters sum to {most}; expected a number above 0, up to that"
                ),
            ));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not above the sum of all units, which is small"
        )]
        let threshold_units = libm::ceil(threshold * f64::from(units_per_weight)) as u32;
        let all = u32::MAX >> (u32::BITS - filters);
        let mut mbf = Self {
            bits: F::new(filter_bits, filters),
            filters,
            hashes,
            second: 1.min(hashes - 1),
            decay_writes,
            base_units,
            units_per_weight,
            threshold_units,
            threshold,
            all,
            shortcut: if values.switch("shortcut") { all } else { u32::MAX },
            hot_sets: Vec::new(),
            hot_set: 0,
            turn: all,
            next_reset: 0,
            writes_left: decay_writes,
        };
        mbf.hot_sets = mbf.hot_sets();
        mbf.reset();
        Ok(mbf)
    }

    /// Return the filters that have seen a page, as a set.
    #[inline]
    fn seen(&self, hash: PageHash, [first, second]: [F::Spot; 2]) -> u32 {
        let bits = &self.bits;
        // A filter has seen the page if all K bits are set, so false positives count as in the
        // paper.
        let mut seen = bits.seen(first) & bits.seen(second);
        for index in 2..self.hashes {
            seen &= bits.seen(bits.spot(hash, index));
        }
        #[expect(clippy::cast_possible_truncation, reason = "there is a bit per filter")]
        {
            seen as u32 & self.all
        }
    }

    /// Return the positions of a page's first two hash values, which are one if there is one.
    #[inline]
    fn first_two(&self, hash: PageHash) -> [F::Spot; 2] {
        [0, self.second].map(|index| self.bits.spot(hash, index))
    }

    /// Return `true` if a page that these filters have seen is hot.
    #[inline]
    fn is_hot(&self, seen: u32) -> bool {
        if F::HAS_WEIGHT_TABLE && self.filters <= FILTERS_OF_A_SET {
            // A table over all sets of filters replaces the sum of weights; it changes only at a
            // reset.
            self.hot_set >> seen & 1 == 1
        } else {
            self.units(seen, self.next_reset) >= self.threshold_units
        }
    }

    /// Return the hot data index of a set of filters in units, with `next_reset` to be erased next.
    fn units(&self, seen: u32, next_reset: u32) -> u32 {
        (0..self.filters)
            .filter(|filter| seen >> filter & 1 == 1)
            .map(|filter| {
                // The weight follows the age since the last reset: the filter to be erased next
                // weighs least, the one erased last most.
                let rank = (filter + self.filters - next_reset) % self.filters + 1;
                self.base_units + rank
            })
            .sum()
    }

    fn hot_sets(&self) -> Vec<u64> {
        if !F::HAS_WEIGHT_TABLE || self.filters > FILTERS_OF_A_SET {
            return Vec::new();
        }
        let hot_set = |next_reset| {
            (0..=self.all)
                .filter(|&seen| self.units(seen, next_reset) >= self.threshold_units)
                .fold(0, |sets, seen| sets | 1 << seen)
        };
        (0..self.filters).map(hot_set).collect()
    }

    fn expect_reset_of(&mut self, filter: u32) {
        self.next_reset = filter;
        self.writes_left = self.decay_writes;
        self.hot_set = self.hot_sets.get(filter as usize).copied().unwrap_or(0);
    }
}

impl<F: Filters> Identifier for Mbf<F> {
    #[inline]
    fn record(&mut self, page: PageId) -> Heat {
        let hash = PageHash::of(page);
        let [first, second] = self.first_two(hash);
        let seen = self.seen(hash, [first, second]);
        let mut is_hot = true;
        // The shortcut: a page that all filters have seen is hot without a record, since the
        // threshold is at most the sum of all weights.
        if seen != self.shortcut {
            // The first filter without the page, from the one whose turn it is, and round again.
            // Section III-A: one filter per write, so the number of filters with the page is its
            // frequency.
            let free = !seen & self.all;
            let following = free & self.turn;
            let choice = if following == 0 { free } else { following };
            // The lowest set bit: the first filter in turn that has not seen the page.
            let chosen = choice & choice.wrapping_neg();
            self.bits.set(first, u64::from(chosen));
            self.bits.set(second, u64::from(chosen));
            for index in 2..self.hashes {
                self.bits.set(self.bits.spot(hash, index), u64::from(chosen));
            }
            // Deviation (3): the write itself counts.
            is_hot = self.is_hot(seen | chosen);
        }
        // Deviation (2): the turn moves on after a shortcut, too.
        self.turn = (self.turn << 1) & self.all;
        if self.turn == 0 {
            self.turn = self.all;
        }
        self.writes_left -= 1;
        // Deviation (3): the T-th write is judged before a filter forgets.
        if self.writes_left == 0 {
            self.decay();
        }
        Heat::hot_if(is_hot)
    }

    fn hotness(&self, page: PageId) -> f64 {
        let hash = PageHash::of(page);
        let units = self.units(self.seen(hash, self.first_two(hash)), self.next_reset);
        f64::from(units) / f64::from(self.units_per_weight)
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }

    fn decay_writes(&self) -> Option<u64> {
        Some(u64::from(self.decay_writes))
    }

    #[inline(never)]
    fn decay(&mut self) {
        self.bits.erase(self.next_reset);
        // Filters are erased in turn, so that each remembers V * T writes at most.
        self.expect_reset_of((self.next_reset + 1) % self.filters);
    }

    fn reset(&mut self) {
        self.bits.clear();
        self.turn = self.all;
        // Section III-A, Figure 4: the last filter is the first to be erased.
        self.expect_reset_of(self.filters - 1);
    }

    fn memory_bits(&self) -> u64 {
        self.bits.memory_bits()
    }

    fn assert_invariants(&self) {
        assert!(self.next_reset < self.filters, "the filter to be erased exists");
        assert!((1..=self.decay_writes).contains(&self.writes_left), "a reset is due");
        let lowest = self.turn & self.turn.wrapping_neg();
        assert_eq!(self.turn, self.all & lowest.wrapping_neg(), "the turn is one filter's");
        let most = self.units(self.all, self.next_reset);
        assert!(self.threshold_units <= most, "the shortcut never changes a decision");
        self.bits.assert_invariants();
    }
}
