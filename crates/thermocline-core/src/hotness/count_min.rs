//! Windowed count-min sketch: frequencies of a sliding window in a few rows of small counters.
//!
//! The window is cut into generations of equally many writes. Each counter is a group of small
//! counters, one per generation; a write raises that of the newest generation, and when a generation
//! is full, the oldest is cleared and becomes the newest. The estimate of a page is the least over
//! the rows of its counters, summed over the generations, by default with the weight that WDAC gives
//! to the middle of each: an approximation of WDAC that counts where MBF only notes presence.
//!
//! * Source: Cormode and Muthukrishnan, *An Improved Data Stream Summary: The Count-Min Sketch and
//!   its Applications*, J. Algorithms 55(1), 2005; conservative update of Estan and Varghese, *New
//!   Directions in Traffic Measurement and Accounting*, SIGCOMM 2002. Weights: WDAC.
//! * State: rows * columns * generations * `counter_bits` bits; 2 KiB by default, as MHF has.
//! * Cost: O(rows * generations) per write. No allocation after construction.
//! * Deviations: none; the combination is ours, for comparison.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::hash::PageHash;
use super::lanes::{Lanes, WIDTH_BITS_MAX};
use super::registry::IdentifierEntry;
use super::{Heat, Identifier};
use crate::PageId;
use crate::config::{ConfigError, Parameter, Values};

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("rows", 1..=8, 2)
        .summary("rows, each with a hash function of its own")
        .source("as many as MBF and MHF have hash functions"),
    Parameter::integer("columns", 1..=1 << 24, 2048)
        .summary("counters of each row and generation")
        .source("2 KiB in all, as MHF has"),
    Parameter::integer("generations", 1..=16, 2)
        .summary("parts of the window")
        .source("of 2 KiB, the parameters that come nearest to WDAC"),
    Parameter::integer("counter_bits", 1..=8, 2)
        .summary("bits of each counter, which stays when it is full")
        .source("of 2 KiB, the parameters that come nearest to WDAC"),
    Parameter::integer("window_writes", 1..=u32::MAX as u64, 4096)
        .summary("writes of all generations together")
        .source("the window of WDAC"),
    Parameter::real("threshold", f64::MIN_POSITIVE..=1e9, 4.0)
        .summary("estimate from which on a page is hot")
        .source("as WDAC"),
    Parameter::switch("recency", true)
        .summary("whether younger generations weigh more; without, it is the plain count")
        .source("the weights of WDAC"),
];

/// A count-min sketch over a window.
#[derive(Clone, Debug)]
pub struct CountMin {
    /// A table per row; a lane holds the counters of all generations.
    rows: Vec<Lanes>,
    counter_bits: u32,
    /// Place of each generation's counter in its lane, and its weight in units.
    generations: Vec<Generation>,
    newest: usize,
    generation_writes: u32,
    writes_left: u32,
    units_per_weight: f64,
    threshold: f64,
    threshold_units: u64,
}

#[derive(Clone, Copy, Debug)]
struct Generation {
    shift: u32,
    weight_units: u64,
}

fn contradiction(reason: alloc::string::String) -> ConfigError {
    ConfigError::contradiction("count-min", reason)
}

/// Its row in the registry.
pub const COUNT_MIN: IdentifierEntry = IdentifierEntry {
    name: "count-min",
    summary: "a count-min sketch per generation of a window, the younger weighing more",
    source: "Cormode, Muthukrishnan, J. Algorithms 55(1), 2005; Estan, Varghese, SIGCOMM 2002",
    module: module_path!(),
    parameters: PARAMETERS,
    build: |_pages, values| Ok(Box::new(CountMin::new(values)?)),
};

impl CountMin {
    /// Create an empty sketch with parameters of [`PARAMETERS`].
    ///
    /// # Errors
    /// If the generations do not divide the window or do not fit a word, or if full counters cannot
    /// reach the threshold.
    pub fn new(values: &Values) -> Result<Self, ConfigError> {
        let generations = values.integer_u32("generations");
        let counter_bits = values.integer_u32("counter_bits");
        let window_writes = values.integer_u32("window_writes");
        let threshold = values.real("threshold");
        if generations * counter_bits > WIDTH_BITS_MAX {
            let most = WIDTH_BITS_MAX / counter_bits;
            return Err(contradiction(format!(
                "generations={generations} of counter_bits={counter_bits} do not fit a word of {WIDTH_BITS_MAX} bits; with such counters it takes 1 to {most} generations"
            )));
        }
        if !window_writes.is_multiple_of(generations) {
            return Err(contradiction(format!(
                "window_writes={window_writes} is not divisible by generations={generations}: take a multiple of {generations}"
            )));
        }
        let has_recency = values.switch("recency");
        let units_per_weight = if has_recency { f64::from(generations) } else { 1.0 };
        let full = u64::MAX >> (u64::BITS - counter_bits);
        let mut sketch = Self {
            rows: (0..values.integer_u32("rows"))
                .map(|_| Lanes::new(values.integer_u32("columns"), generations * counter_bits))
                .collect(),
            counter_bits,
            generations: (0..generations)
                .map(|generation| Generation {
                    shift: generation * counter_bits,
                    weight_units: if has_recency { 2 * u64::from(generation) + 1 } else { 1 },
                })
                .collect(),
            newest: 0,
            generation_writes: window_writes / generations,
            writes_left: 0,
            units_per_weight,
            threshold,
            threshold_units: 0,
        };
        let most_units: u64 = sketch.generations.iter().map(|one| one.weight_units * full).sum();
        let most = most_units as f64 / units_per_weight;
        if threshold > most {
            return Err(contradiction(format!(
                "threshold={threshold} can never be reached: full counters of all generations come to {most}; expected a number above 0, up to that"
            )));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not above the sum of all units, which is small"
        )]
        {
            sketch.threshold_units = libm::ceil(threshold * units_per_weight) as u64;
        }
        sketch.reset();
        Ok(sketch)
    }

    /// Return the lane of a page in each row.
    #[inline]
    fn lanes(&self, hash: PageHash) -> impl Iterator<Item = u64> + '_ {
        (0_u32..).zip(&self.rows).map(move |(index, row)| row.get(row.place(hash, index)))
    }

    /// Return the estimate from a page's lanes, in units: generation by generation, the least of
    /// the rows.
    #[inline]
    fn units(&self, hash: PageHash) -> u64 {
        let weigh = |generation: &Generation| {
            let count = |lane: u64| (lane >> generation.shift) & self.full();
            let least = self.lanes(hash).map(count).min().expect("there is a row");
            least * generation.weight_units
        };
        self.generations.iter().map(weigh).sum()
    }

    /// Return the greatest number of a counter.
    #[inline]
    const fn full(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.counter_bits)
    }

    /// Raises the counters of the newest generation that are no greater than the least of them.
    #[inline]
    fn raise(&mut self, hash: PageHash) {
        let (shift, full) = (self.generations[self.newest].shift, self.full());
        let count = |lane: u64| (lane >> shift) & full;
        // A conservative update: counters above the least owe their count to collisions.
        let least = self.lanes(hash).map(count).min().expect("there is a row");
        if least == full {
            return;
        }
        for (index, row) in (0_u32..).zip(&mut self.rows) {
            let place = row.place(hash, index);
            let amount = u64::from(count(row.get(place)) == least);
            row.add(place, amount << shift);
        }
    }
}

impl Identifier for CountMin {
    #[inline]
    fn record(&mut self, page: PageId) -> Heat {
        if self.writes_left == 0 {
            self.decay();
        }
        self.writes_left -= 1;
        let hash = PageHash::of(page);
        self.raise(hash);
        Heat::hot_if(self.units(hash) >= self.threshold_units)
    }

    fn hotness(&self, page: PageId) -> f64 {
        self.units(PageHash::of(page)) as f64 / self.units_per_weight
    }

    fn threshold(&self) -> f64 {
        self.threshold
    }

    fn decay_writes(&self) -> Option<u64> {
        Some(u64::from(self.generation_writes))
    }

    #[inline(never)]
    fn decay(&mut self) {
        self.newest = (self.newest + 1) % self.generations.len();
        // The oldest generation becomes the newest one, empty.
        let cleared = self.full() << self.generations[self.newest].shift;
        for row in &mut self.rows {
            row.keep(row.mask() & !cleared);
        }
        // The weights move on by one generation: the newest takes over that of the one before it.
        let mut weight_units = self.generations[self.generations.len() - 1].weight_units;
        for generation in &mut self.generations {
            core::mem::swap(&mut generation.weight_units, &mut weight_units);
        }
        self.writes_left = self.generation_writes;
    }

    fn reset(&mut self) {
        for row in &mut self.rows {
            row.clear();
        }
        self.newest = self.generations.len() - 1;
        let is_recent = self.generations.iter().any(|one| one.weight_units > 1);
        for (older, generation) in (0_u64..).zip(&mut self.generations) {
            generation.weight_units = if is_recent { 2 * older + 1 } else { 1 };
        }
        self.writes_left = self.generation_writes;
    }

    fn memory_bits(&self) -> u64 {
        self.rows.iter().map(Lanes::memory_bits).sum()
    }

    fn assert_invariants(&self) {
        assert!(self.newest < self.generations.len(), "the newest generation exists");
        assert!(self.writes_left <= self.generation_writes, "a new generation is due");
        let newest = self.generations[self.newest].weight_units;
        let most = self.generations.iter().map(|one| one.weight_units).max();
        assert_eq!(most, Some(newest), "no generation weighs more than the newest");
        for lane in self.rows.iter().flat_map(Lanes::iter) {
            let newest = (lane >> self.generations[self.newest].shift) & self.full();
            assert!(newest <= u64::from(self.generation_writes), "a write raises a counter once");
        }
    }
}
