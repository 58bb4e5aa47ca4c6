//! LRU at every size in one pass, over all pages or a sample of them.
//!
//! An LRU cache of c pages holds a page if fewer than c others were used since its last use, so the
//! distribution of these re-use distances is the curve (Mattson et al., *Evaluation techniques for
//! storage hierarchies*, 1970).
//!
//! * Source of the samples: Waldspurger, Park, Garthwaite, Ahmad, *Efficient MRC Construction with
//!   SHARDS*, FAST 2015: fixed rate (section 3.1), fixed size (section 3.2), `SHARDS_adj` (section 3.3).
//! * Deviations: (1) By default, pages are not chosen by a hash but evenly among those that are
//!   accessed about as often ([`Choice::Even`]): samples then differ less, also from the whole trace.
//!   (2) Where the fixed-size sample lowers its rate, the paper multiplies the counts so
//!   far by the ratio of the rates; here an access counts for the inverse of the rate that holds when
//!   it comes, which gives the same ratios without going over the counts. (3) `SHARDS_adj` adds the
//!   accesses that are missing to the count of the least distance, or takes them from it; that is
//!   division by the accesses of the trace.

use std::collections::{BinaryHeap, HashMap};

use thermocline_trace::{Choice, CompiledTrace, ReuseDistance, Sampling};

use super::reuse::{Reuse, ReuseStats};
use crate::{LabError, Watch};

/// Which pages are looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// All of them.
    All,
    /// A fixed share of them.
    Rate {
        /// The share, above 0 and at most 1.
        rate: f64,
        /// How they are chosen.
        choice: Choice,
        /// The seed of the sample.
        seed: u64,
    },
    /// A share of them that is lowered whenever the sample would have too many pages.
    Size {
        /// Pages that the sample may have, at least 1.
        pages: u32,
        /// How they are chosen.
        choice: Choice,
        /// The seed of the sample.
        seed: u64,
    },
}

/// What one pass over the accesses found.
#[derive(Debug)]
pub struct StackPass {
    /// For each distance d: accesses whose distance is d or more, first uses among them.
    at_least: Vec<f64>,
    accesses: f64,
    sample: Sample,
    rate: f64,
    reuse: ReuseStats,
}

/// How many accesses ahead the state of a page is asked for, and how many ahead the rest of it that
/// can be found only with the first part.
const PREFETCH_ACCESSES: [usize; 2] = [32, 16];

/// A page that is looked at, the one to be given up first on top.
type Looked = (u64, u32);

/// The pages that are looked at.
struct Looking {
    of: Of,
    rate: f64,
    /// How many accesses one that is looked at stands for, to the nearest whole number.
    weight: u64,
}

/// Which pages are looked at, and what finds their numbers: these are below the greatest number of
/// pages that are looked at together.
enum Of {
    All,
    Rate { is_sampled: Vec<bool>, numbers: HashMap<u32, u32> },
    Size(Bounded),
}

/// A sample of at most so many pages.
struct Bounded {
    pages: u32,
    /// For each page, what its key is made of.
    sampling_numbers: Vec<u32>,
    choice: Choice,
    seed: u64,
    numbers: HashMap<u32, u32>,
    heap: BinaryHeap<Looked>,
    /// Pages whose key is less are looked at.
    threshold: u64,
}

impl StackPass {
    /// One pass over a trace.
    ///
    /// # Errors
    /// [`LabError::BadRate`] if a rate is not above 0 and at most 1, [`LabError::EmptySample`] if no
    /// page is in the sample.
    pub fn over(trace: &CompiledTrace, sample: Sample, watch: &Watch) -> Result<Self, LabError> {
        let mut looking = Looking::new(trace, sample)?;
        let pages_max = looking.pages_max(trace.footprint_pages());
        let mut distances = ReuseDistance::new(pages_max);
        let mut reuse = Reuse::new(pages_max, trace.is_timed());
        // By distance, and first uses last. No distance reaches the footprint, whatever a sample says.
        let mut counts = vec![0.0; trace.footprint_pages() as usize + 1];
        let first_uses = counts.len() - 1;
        let page = |index: usize| trace.access(index).page.0;
        let is_whole = matches!(looking.of, Of::All);
        for request in trace.requests() {
            watch.check()?;
            for index in request.accesses {
                if is_whole && index + PREFETCH_ACCESSES[0] < trace.len() {
                    let [far, near] = PREFETCH_ACCESSES.map(|ahead| page(index + ahead));
                    distances.prefetch(far);
                    reuse.prefetch(far);
                    distances.prefetch_marks(near);
                }
                let Some(number) = looking.look(page(index), &mut distances, &mut reuse) else {
                    continue;
                };
                let distance = distances
                    .touch(number)
                    .map(|distance| looking.scale_up(distance).min(first_uses - 1));
                counts[distance.unwrap_or(first_uses)] += 1.0 / looking.rate;
                reuse.add(number, index as u64, request.at, distance, looking.weight);
            }
        }
        if reuse.is_empty() {
            return Err(LabError::EmptySample { rate: looking.rate });
        }
        let mut sum = 0.0;
        for count in counts.iter_mut().rev() {
            sum += *count;
            *count = sum;
        }
        Ok(Self {
            at_least: counts,
            accesses: trace.len() as f64,
            sample,
            rate: looking.rate,
            reuse: reuse.finish(looking.rate),
        })
    }

    /// The share of accesses that LRU misses with so many pages.
    pub fn miss_ratio(&self, capacity_pages: u32) -> f64 {
        let last = self.at_least.len() - 1;
        let misses = self.at_least[(capacity_pages as usize).min(last)];
        (misses / self.accesses).min(1.0)
    }

    /// Which pages were looked at.
    pub const fn sample(&self) -> Sample {
        self.sample
    }

    /// The share of pages that was looked at, in the end.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// When pages are used again.
    pub fn into_reuse(self) -> ReuseStats {
        self.reuse
    }
}

impl Looking {
    fn new(trace: &CompiledTrace, sample: Sample) -> Result<Self, LabError> {
        let (of, rate) = match sample {
            Sample::All => (Of::All, 1.0),
            Sample::Rate { rate, choice, seed } => {
                let sampling = Sampling::new(rate, choice, seed);
                let sampling = sampling.ok_or(LabError::BadRate { rate })?;
                let is_sampled = trace.sampled_pages(sampling);
                (Of::Rate { is_sampled, numbers: HashMap::new() }, rate)
            }
            Sample::Size { pages: 0, .. } => return Err(LabError::EmptySample { rate: 0.0 }),
            Sample::Size { pages, choice, seed } => {
                let bounded = Bounded {
                    pages,
                    sampling_numbers: trace.sampling_numbers(choice),
                    choice,
                    seed,
                    numbers: HashMap::new(),
                    heap: BinaryHeap::new(),
                    threshold: u64::MAX,
                };
                (Of::Size(bounded), 1.0)
            }
        };
        let mut looking = Self { of, rate, weight: 1 };
        looking.set_rate(rate);
        Ok(looking)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the inverse of a share, at least 1; what is beyond saturates"
    )]
    fn set_rate(&mut self, rate: f64) {
        (self.rate, self.weight) = (rate, (1.0 / rate).round() as u64);
    }

    /// The most pages that are looked at together.
    fn pages_max(&self, footprint_pages: u32) -> u32 {
        match &self.of {
            Of::All => footprint_pages,
            Of::Rate { is_sampled, .. } => {
                let sampled = is_sampled.iter().filter(|is_sampled| **is_sampled);
                u32::try_from(sampled.count()).expect("a part of the footprint")
            }
            Of::Size(bounded) => bounded.pages.min(footprint_pages),
        }
    }

    /// The number of a page, if it is looked at.
    #[inline]
    fn look(&mut self, page: u32, distances: &mut ReuseDistance, reuse: &mut Reuse) -> Option<u32> {
        match &mut self.of {
            Of::All => Some(page),
            Of::Rate { is_sampled, numbers } => is_sampled[page as usize].then(|| {
                let next = u32::try_from(numbers.len()).expect("no more than there are pages");
                *numbers.entry(page).or_insert(next)
            }),
            Of::Size(bounded) => {
                let number = bounded.sampling_numbers[page as usize];
                let key = bounded.choice.key(number.into(), bounded.seed);
                if key >= bounded.threshold {
                    return None;
                }
                if let Some(&number) = bounded.numbers.get(&page) {
                    return Some(number);
                }
                let (number, was_others) = bounded.add(page, key);
                if was_others {
                    let rate = bounded.threshold as f64 / u64::MAX as f64;
                    self.set_rate(rate);
                    let number = number?;
                    distances.forget(number);
                    reuse.forget(number);
                }
                number
            }
        }
    }

    /// A distance between sampled pages as one between all pages.
    #[inline]
    fn scale_up(&self, distance: u32) -> usize {
        if matches!(self.of, Of::All) {
            return distance as usize;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "numbers of pages; what is beyond saturates"
        )]
        let scaled = (f64::from(distance) / self.rate) as usize;
        scaled
    }
}

impl Bounded {
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
        self.threshold = greatest;
        let number = self.numbers.remove(&leaving).expect("listed pages are numbered");
        if leaving == page {
            return (None, true);
        }
        self.numbers.insert(page, number);
        (Some(number), true)
    }
}
