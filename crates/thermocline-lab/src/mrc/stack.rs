//! LRU at every size in one pass, over all pages or a sample of them.
//!
//! An LRU cache of c pages holds a page if fewer than c others were used since its last use, so the
//! distribution of these re-use distances is the curve (Mattson et al., *Evaluation techniques for
//! storage hierarchies*, 1970).
//!
//! * Source of the samples: Waldspurger, Park, Garthwaite, Ahmad, *Efficient MRC Construction with
//!   SHARDS*, FAST 2015: fixed rate (section 3.1), fixed size (section 3.2), `SHARDS_adj` (section 3.3).
//! * Deviations: (1) Where the fixed-size sample lowers its rate, the paper multiplies the counts so
//!   far by the ratio of the rates; here an access counts for the inverse of the rate that holds when
//!   it comes, which gives the same ratios without going over the counts. (2) `SHARDS_adj` adds the
//!   accesses that are missing to the count of the least distance, or takes them from it; that is
//!   division by the accesses of the trace.

use std::collections::{BinaryHeap, HashMap};

use thermocline_core::PageId;
use thermocline_trace::{CompiledTrace, ReuseDistance, Sampling};

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
        /// The seed of the sample.
        seed: u64,
    },
    /// A share of them that is lowered whenever the sample would have too many pages.
    Size {
        /// Pages that the sample may have, at least 1.
        pages: u32,
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

/// A page that is looked at, the one to be given up first on top.
type Looked = (u64, u32);

/// The pages that are looked at.
struct Looking {
    sample: Sample,
    /// Numbers of pages, below the greatest number of pages that are looked at together.
    numbers: HashMap<u32, u32>,
    /// The pages of a sample of fixed size.
    heap: BinaryHeap<Looked>,
    /// Pages whose hash is less are looked at.
    threshold: u64,
    rate: f64,
}

impl StackPass {
    /// One pass over a trace.
    ///
    /// # Errors
    /// [`LabError::BadRate`] if a rate is not above 0 and at most 1, [`LabError::EmptySample`] if no
    /// page is in the sample.
    pub fn over(trace: &CompiledTrace, sample: Sample, watch: &Watch) -> Result<Self, LabError> {
        let mut looking = Looking::new(sample)?;
        let mut distances = ReuseDistance::new(looking.pages_max(trace));
        let mut reuse = Reuse::new(looking.pages_max(trace), trace.is_timed());
        // By distance, and first uses last. No distance reaches the footprint, whatever a sample says.
        let mut counts = vec![0.0; trace.footprint_pages() as usize + 1];
        let first_uses = counts.len() - 1;
        for request in trace.requests() {
            watch.check()?;
            for index in request.accesses {
                let page = trace.access(index).page;
                let Some(number) = looking.look(page, &mut distances, &mut reuse) else { continue };
                let distance = distances
                    .touch(number)
                    .map(|distance| looking.scale_up(distance).min(first_uses - 1));
                counts[distance.unwrap_or(first_uses)] += 1.0 / looking.rate;
                reuse.add(number, index as u64, request.at, distance, looking.rate);
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
    fn new(sample: Sample) -> Result<Self, LabError> {
        let rate = match sample {
            Sample::All | Sample::Size { .. } => 1.0,
            Sample::Rate { rate, .. } => rate,
        };
        if Sampling::new(rate, 0).is_none() {
            return Err(LabError::BadRate { rate });
        }
        if matches!(sample, Sample::Size { pages: 0, .. }) {
            return Err(LabError::EmptySample { rate: 0.0 });
        }
        let (numbers, heap) = (HashMap::new(), BinaryHeap::new());
        Ok(Self { sample, numbers, heap, threshold: u64::MAX, rate })
    }

    /// The most pages that are looked at together.
    fn pages_max(&self, trace: &CompiledTrace) -> u32 {
        let footprint_pages = trace.footprint_pages();
        match self.sample {
            Sample::All => footprint_pages,
            Sample::Rate { rate, seed } => {
                let Some(sampling) = Sampling::new(rate, seed) else { return 0 };
                let sampled = (0..footprint_pages).filter(|&page| sampling.takes(PageId(page)));
                u32::try_from(sampled.count()).expect("a part of the footprint")
            }
            Sample::Size { pages, .. } => pages.min(footprint_pages),
        }
    }

    /// The number of a page, if it is looked at.
    fn look(
        &mut self,
        page: PageId,
        distances: &mut ReuseDistance,
        reuse: &mut Reuse,
    ) -> Option<u32> {
        let next = u32::try_from(self.numbers.len()).expect("no more than there are pages");
        match self.sample {
            Sample::All => Some(page.0),
            Sample::Rate { rate, seed } => {
                let is_in = Sampling::new(rate, seed)?.takes(page);
                is_in.then(|| *self.numbers.entry(page.0).or_insert(next))
            }
            Sample::Size { pages, seed } => {
                let hash = Sampling::hash(page, seed);
                if hash >= self.threshold {
                    return None;
                }
                if let Some(&number) = self.numbers.get(&page.0) {
                    return Some(number);
                }
                self.numbers.insert(page.0, next);
                self.heap.push((hash, page.0));
                if next < pages {
                    return Some(next);
                }
                // The page with the greatest hash leaves; the new one takes its number.
                let (greatest, leaving) = self.heap.pop().expect("a page was just pushed");
                self.threshold = greatest;
                self.rate = greatest as f64 / u64::MAX as f64;
                let number = self.numbers.remove(&leaving).expect("listed pages are numbered");
                if leaving == page.0 {
                    return None;
                }
                distances.forget(number);
                reuse.forget(number);
                self.numbers.insert(page.0, number);
                Some(number)
            }
        }
    }

    /// A distance between sampled pages as one between all pages.
    fn scale_up(&self, distance: u32) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "numbers of pages; what is beyond saturates"
        )]
        let scaled = (f64::from(distance) / self.rate) as usize;
        scaled
    }
}
