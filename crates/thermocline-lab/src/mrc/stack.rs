//! LRU at every size in one pass, over all pages or a sample of them.
//!
//! An LRU cache of c pages holds a page if fewer than c others were used since its last use, so the
//! distribution of these re-use distances is the curve (Mattson et al., *Evaluation techniques for
//! storage hierarchies*, 1970).
//!
//! * Source of the samples: Waldspurger, Park, Garthwaite, Ahmad, *Efficient MRC Construction with
//!   SHARDS*, FAST 2015: fixed rate (section 3.1), fixed size (section 3.2), `SHARDS_adj` (section 3.3).
//! * Deviations: (1) By default, pages are not chosen by a hash but evenly from the hot ones to the cold
//!   ones ([`Choice::Even`]): samples then differ less, also from the whole trace.
//!   (2) Where the fixed-size sample lowers its rate, the paper multiplies the counts so
//!   far by the ratio of the rates; here an access counts for the inverse of the rate that holds when
//!   it comes, which gives the same ratios without going over the counts. (3) `SHARDS_adj` adds the
//!   accesses that are missing to the count of the least distance, or takes them from it; that is
//!   division by the accesses of the trace.

use std::collections::{BinaryHeap, HashMap};

use thermocline_core::{Nanos, prefetch};
use thermocline_trace::{
    Choice, CompiledTrace, ReuseDistance, SampledAccess, SampledTrace, Sampling, Waiting,
};

use super::reuse::{Reuse, ReuseStats};
use crate::watch::CHUNK_ACCESSES;
use crate::{LabError, Watch};

/// Pages that a pass looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// All of them.
    All,
    /// A fixed share of them.
    Rate {
        /// The share, above 0 and at most 1.
        rate: f64,
        /// Rule by which they are chosen.
        choice: Choice,
        /// The seed of the sample.
        seed: u64,
    },
    /// A share of them that is lowered whenever the sample would have too many pages.
    Size {
        /// Pages that the sample may have, at least 1.
        pages: u32,
        /// Rule by which they are chosen.
        choice: Choice,
        /// The seed of the sample.
        seed: u64,
    },
}

/// Results of one pass over the accesses.
#[derive(Debug)]
pub struct StackPass {
    /// Number of accesses, for each distance d as it is counted, whose distance is d or more, first
    /// uses among them.
    at_least: Vec<f64>,
    /// Divisor of a counted distance that makes it a distance between all pages.
    counted_rate: f64,
    footprint_pages: u32,
    accesses: f64,
    sample: Sample,
    rate: f64,
    reuse: ReuseStats,
}

/// Number of accesses ahead at which the state of a page is prefetched, and at which the rest of it
/// is prefetched, which can be found only with the first part.
const PREFETCH_ACCESSES: [usize; 2] = [32, 16];

/// A pass at work.
struct Pass {
    distances: ReuseDistance,
    reuse: Reuse,
    counts: Counts,
    /// Weight of an access: the inverse of the rate, and the same to the nearest whole number.
    weight: f64,
    whole_weight: u64,
    /// No distance is greater, whatever a sample says.
    distance_max: usize,
}

/// Number of accesses that have each distance.
struct Counts {
    /// Counts by distance, and first uses last.
    counts: Vec<f64>,
    /// Distances, and what is to be added to their counts.
    waiting: Waiting<(usize, f64)>,
}

/// A page that is looked at, the one to be given up first on top.
type Looked = (u64, u32);

/// Sample of a limited number of pages.
struct Bounded {
    pages: u32,
    /// Number of each page from which its key is made.
    sampling_numbers: Vec<u64>,
    choice: Choice,
    seed: u64,
    /// Numbers of the pages that are looked at, below their maximum count.
    numbers: HashMap<u32, u32>,
    heap: BinaryHeap<Looked>,
    /// Pages whose key is less are looked at.
    threshold: u64,
}

/// Facts about the whole trace that a pass needs.
#[derive(Clone, Copy)]
struct Whole {
    footprint_pages: u32,
    accesses: u64,
    is_timed: bool,
}

impl Sample {
    /// Return the choice of pages, if their share is fixed.
    ///
    /// # Errors
    /// [`LabError::BadRate`] if the share is not above 0 and at most 1.
    pub fn sampling(self) -> Result<Option<Sampling>, LabError> {
        let Self::Rate { rate, choice, seed } = self else { return Ok(None) };
        let sampling = Sampling::new(rate, choice, seed).ok_or(LabError::BadRate { rate })?;
        Ok(Some(sampling))
    }

    /// Return the share of pages that is looked at in the beginning.
    const fn rate(self) -> f64 {
        match self {
            Self::All | Self::Size { .. } => 1.0,
            Self::Rate { rate, .. } => rate,
        }
    }
}

impl StackPass {
    /// Make one pass over a trace.
    ///
    /// # Errors
    /// [`LabError::BadRate`] if a rate is not above 0 and at most 1, [`LabError::EmptySample`] if no
    /// page is in the sample.
    pub fn over(trace: &CompiledTrace, sample: Sample, watch: &Watch) -> Result<Self, LabError> {
        let whole = Whole {
            footprint_pages: trace.footprint_pages(),
            accesses: trace.len() as u64,
            is_timed: trace.is_timed(),
        };
        if let Some(sampling) = sample.sampling()? {
            let (pages, accesses) = trace.sampled_accesses(sampling);
            return Self::over_sampled(accesses, pages, whole, sample, watch);
        }
        match sample {
            Sample::Size { pages: 0, .. } => Err(LabError::EmptySample { rate: 0.0 }),
            Sample::Size { pages, choice, seed } => {
                Bounded::new(trace, pages, choice, seed).over(trace, whole, sample, watch)
            }
            Sample::All | Sample::Rate { .. } => Self::over_all(trace, whole, watch),
        }
    }

    /// Make one pass over a sample that was taken while its file was read; `sample` says how.
    ///
    /// # Errors
    /// [`LabError::EmptySample`] if no page is in it.
    pub fn over_sample(
        trace: &SampledTrace,
        sample: Sample,
        watch: &Watch,
    ) -> Result<Self, LabError> {
        let whole = Whole {
            footprint_pages: trace.footprint_pages,
            accesses: trace.accesses,
            is_timed: trace.is_timed,
        };
        let accesses = trace.sampled.iter().copied();
        Self::over_sampled(accesses, trace.sampled_pages, whole, sample, watch)
    }

    fn over_sampled(
        accesses: impl Iterator<Item = SampledAccess>,
        pages: u32,
        whole: Whole,
        sample: Sample,
        watch: &Watch,
    ) -> Result<Self, LabError> {
        let rate = sample.rate();
        let mut pass = Pass::new(pages, pages, whole);
        pass.set_rate(rate);
        for (place, access) in accesses.enumerate() {
            if place % CHUNK_ACCESSES == 0 {
                watch.check()?;
            }
            let distance = pass.distances.touch(access.page).map(|distance| {
                // Counted as it is, and scaled when it is asked for: a scaled distance would leave
                // gaps in the table.
                pass.counts.add(distance as usize, pass.weight);
                scaled_up(distance, rate).min(pass.distance_max)
            });
            pass.note(access.page, access.index, access.at, distance);
        }
        pass.finish(whole, sample, rate, rate)
    }

    /// Create a pass over all accesses, which knows what comes.
    fn over_all(trace: &CompiledTrace, whole: Whole, watch: &Watch) -> Result<Self, LabError> {
        let mut pass = Pass::new(whole.footprint_pages, whole.footprint_pages, whole);
        let page = |index: usize| trace.access(index).page.0;
        for request in trace.requests() {
            watch.check()?;
            for index in request.accesses {
                if index + PREFETCH_ACCESSES[0] < trace.len() {
                    let [far, near] = PREFETCH_ACCESSES.map(|ahead| page(index + ahead));
                    pass.distances.prefetch(far);
                    pass.reuse.prefetch(far);
                    pass.distances.prefetch_marks(near);
                }
                let distance = pass.distances.touch(page(index)).map(|distance| distance as usize);
                if let Some(distance) = distance {
                    pass.counts.add(distance, 1.0);
                }
                pass.note(page(index), index as u64, request.at, distance);
            }
        }
        pass.finish(whole, Sample::All, 1.0, 1.0)
    }

    /// Return the share of accesses that LRU misses with `capacity_pages` pages.
    pub fn miss_ratio(&self, capacity_pages: u32) -> f64 {
        let first_uses = self.at_least.len() - 1;
        // No distance reaches the footprint, whatever a sample says.
        let counted = if capacity_pages < self.footprint_pages {
            self.least_counted(capacity_pages as usize).min(first_uses)
        } else {
            first_uses
        };
        // SHARDS_adj, FAST 2015, section 3.3: divided by all accesses of the trace, not by those of
        // the sample (deviation 3).
        (self.at_least[counted] / self.accesses).min(1.0)
    }

    /// The least distance, as it is counted, that is one of so many pages or more.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a number of pages"
    )]
    fn least_counted(&self, pages: usize) -> usize {
        let is_enough = |counted: usize| (counted as f64 / self.counted_rate) as usize >= pages;
        // The product is rounded, and may be off by one.
        let about = (pages as f64 * self.counted_rate) as usize;
        (about.saturating_sub(1)..=about).find(|&counted| is_enough(counted)).unwrap_or(about + 1)
    }

    /// Return the pages that were looked at.
    pub const fn sample(&self) -> Sample {
        self.sample
    }

    /// Return the share of pages that was looked at, in the end.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Return the statistics of re-use.
    pub fn into_reuse(self) -> ReuseStats {
        self.reuse
    }
}

impl Pass {
    /// Create a pass that looks at no more pages together, and counts distances below a limit.
    fn new(pages: u32, distances: u32, whole: Whole) -> Self {
        Self {
            distances: ReuseDistance::new(pages),
            reuse: Reuse::new(pages, whole.is_timed),
            counts: Counts::new(distances as usize),
            weight: 1.0,
            whole_weight: 1,
            distance_max: (whole.footprint_pages as usize).saturating_sub(1),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the inverse of a share, at least 1; what is beyond saturates"
    )]
    fn set_rate(&mut self, rate: f64) {
        (self.weight, self.whole_weight) = (1.0 / rate, (1.0 / rate).round() as u64);
    }

    /// Note a use of a page whose distance, if it has one, is counted.
    #[inline]
    fn note(&mut self, number: u32, index: u64, at: Nanos, distance: Option<usize>) {
        if distance.is_none() {
            self.counts.add_first_use(self.weight);
        }
        self.reuse.add(number, index, at, distance, self.whole_weight);
    }

    fn finish(
        self,
        whole: Whole,
        sample: Sample,
        counted_rate: f64,
        rate: f64,
    ) -> Result<StackPass, LabError> {
        if self.reuse.is_empty() {
            return Err(LabError::EmptySample { rate });
        }
        let mut at_least = self.counts.finish();
        let mut sum = 0.0;
        // Mattson: an LRU of c pages misses the accesses of distance c or more, and all first uses.
        for count in at_least.iter_mut().rev() {
            sum += *count;
            *count = sum;
        }
        Ok(StackPass {
            at_least,
            counted_rate,
            footprint_pages: whole.footprint_pages,
            accesses: whole.accesses as f64,
            sample,
            rate,
            reuse: self.reuse.finish(rate),
        })
    }
}

impl Counts {
    /// Create counts for distances below a limit.
    fn new(distances: usize) -> Self {
        Self { counts: vec![0.0; distances + 1], waiting: Waiting::new((0, 0.0)) }
    }

    /// Adds to the count of a distance.
    #[inline]
    fn add(&mut self, distance: usize, weight: f64) {
        prefetch(&self.counts, distance);
        let (distance, weight) = self.waiting.put((distance, weight));
        self.counts[distance] += weight;
    }

    #[inline]
    fn add_first_use(&mut self, weight: f64) {
        if let Some(first_uses) = self.counts.last_mut() {
            *first_uses += weight;
        }
    }

    fn finish(self) -> Vec<f64> {
        let Self { mut counts, waiting } = self;
        waiting.into_items().for_each(|(distance, weight)| counts[distance] += weight);
        counts
    }
}

/// A distance between sampled pages as one between all pages.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of pages; what is beyond saturates"
)]
fn scaled_up(distance: u32, rate: f64) -> usize {
    (f64::from(distance) / rate) as usize
}

impl Bounded {
    fn new(trace: &CompiledTrace, pages: u32, choice: Choice, seed: u64) -> Self {
        Self {
            pages,
            sampling_numbers: trace.sampling_numbers(choice),
            choice,
            seed,
            numbers: HashMap::new(),
            heap: BinaryHeap::new(),
            threshold: u64::MAX,
        }
    }

    /// Return a pass over the sample.
    fn over(
        mut self,
        trace: &CompiledTrace,
        whole: Whole,
        sample: Sample,
        watch: &Watch,
    ) -> Result<StackPass, LabError> {
        let pages_max = self.pages.min(whole.footprint_pages);
        let mut pass = Pass::new(pages_max, whole.footprint_pages, whole);
        for request in trace.requests() {
            watch.check()?;
            for index in request.accesses {
                let Some(number) = self.look(trace.access(index).page.0, &mut pass) else {
                    continue;
                };
                let distance = pass.distances.touch(number).map(|distance| {
                    // The rate of now: distances in a sample shrink with it.
                    let distance = scaled_up(distance, self.rate()).min(pass.distance_max);
                    pass.counts.add(distance, pass.weight);
                    distance
                });
                pass.note(number, index as u64, request.at, distance);
            }
        }
        let rate = self.rate();
        pass.finish(whole, sample, 1.0, rate)
    }

    /// Return the share of pages that is looked at now.
    const fn rate(&self) -> f64 {
        self.threshold as f64 / u64::MAX as f64
    }

    /// Return the number of a page, if it is looked at.
    #[inline]
    fn look(&mut self, page: u32, pass: &mut Pass) -> Option<u32> {
        let key = self.choice.key(self.sampling_numbers[page as usize], self.seed);
        if key >= self.threshold {
            return None;
        }
        if let Some(&number) = self.numbers.get(&page) {
            return Some(number);
        }
        let (number, was_others) = self.add(page, key);
        if was_others {
            pass.set_rate(self.rate());
            let number = number?;
            // The number goes to another page, which must not inherit the last use of the one that
            // left.
            pass.distances.forget(number);
            pass.reuse.forget(number);
        }
        number
    }

    /// Adds a page that is below the threshold. Returns its number, unless it leaves at once, and
    /// whether another page, or it, had to leave, which lowers the threshold.
    fn add(&mut self, page: u32, key: u64) -> (Option<u32>, bool) {
        let next = u32::try_from(self.numbers.len()).expect("no more than there are pages");
        self.numbers.insert(page, next);
        self.heap.push((key, page));
        if next < self.pages {
            return (Some(next), false);
        }
        // The page with the greatest key leaves; the new one takes its number.
        let (greatest, leaving) = self.heap.pop().expect("a page was just pushed");
        // FAST 2015, section 3.2: keys from the one that left on are not looked at any more,
        // whichever page has them.
        self.threshold = greatest;
        let number = self.numbers.remove(&leaving).expect("listed pages are numbered");
        if leaving == page {
            return (None, true);
        }
        self.numbers.insert(page, number);
        (Some(number), true)
    }
}
