//! When pages are used again: distinct pages, accesses and time since their last use.

use hdrhistogram::Histogram;
use serde::Serialize;
use thermocline_core::Nanos;

use crate::metric::grouped;

/// Digits of a percentile.
const DIGITS: u8 = 3;
/// Not used yet.
const NEVER: u64 = u64::MAX;

/// When pages are used again. Its JSON form is a contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReuseStats {
    /// The share of pages that was looked at: 1, but for samples.
    pub rate: f64,
    /// Accesses that were looked at.
    pub accesses: u64,
    /// Pages that were looked at; each has one first use. A sample of fixed size counts those that it
    /// gave up.
    pub first_uses: u64,
    /// Other pages that were used since a page's last use.
    pub distance_pages: Distribution,
    /// Accesses from a page's last use to this one: 1 if nothing is between them.
    pub inter_reference_accesses: Distribution,
    /// Time from a page's last use to this one, in nanoseconds; absent if the trace has no times. Where
    /// time goes backwards it counts as none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inter_reference_ns: Option<Distribution>,
}

/// A distribution of whole numbers. Percentiles have three digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// How many there are.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// The 10th percentile.
    pub p10: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The greatest, to three digits.
    pub max: u64,
    /// How many there are by powers of two, from the least that there is to the greatest.
    pub buckets: Vec<Bucket>,
}

/// The numbers between two powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The least of them: 0, 1, 2, 4 and so on.
    pub from: u64,
    /// How many there are.
    pub count: u64,
}

impl Distribution {
    /// The mean, with a digit after the point where that is not lost in the number.
    pub fn mean_in_words(&self) -> String {
        if self.mean < 1000.0 {
            return format!("{:.1}", self.mean);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a mean of numbers of 64 bits"
        )]
        grouped(self.mean.round() as u64)
    }
}

/// Collects the figures.
pub(super) struct Reuse {
    /// Per page that is looked at: the access and the time of its last use.
    last: Vec<(u64, Nanos)>,
    accesses: u64,
    first_uses: u64,
    distance_pages: Collected,
    inter_reference_accesses: Collected,
    inter_reference_ns: Option<Collected>,
}

struct Collected {
    histogram: Histogram<u64>,
    sum: f64,
    weights: f64,
    /// By the number of bits.
    buckets: [u64; 65],
}

impl Reuse {
    /// For page numbers below `pages`.
    pub(super) fn new(pages: u32, is_timed: bool) -> Self {
        Self {
            last: vec![(NEVER, Nanos(0)); pages as usize],
            accesses: 0,
            first_uses: 0,
            distance_pages: Collected::new(),
            inter_reference_accesses: Collected::new(),
            inter_reference_ns: is_timed.then(Collected::new),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.accesses == 0
    }

    /// A page's number will be another page's.
    pub(super) fn forget(&mut self, number: u32) {
        self.last[number as usize].0 = NEVER;
    }

    /// A use of a page: the access and its time, and how many others were used since its last one.
    pub(super) fn add(
        &mut self,
        number: u32,
        access: u64,
        at: Nanos,
        distance: Option<usize>,
        rate: f64,
    ) {
        self.accesses += 1;
        let (last, last_at) = std::mem::replace(&mut self.last[number as usize], (access, at));
        let Some(distance) = distance.filter(|_| last != NEVER) else {
            self.first_uses += 1;
            return;
        };
        self.distance_pages.add(distance as u64, rate);
        self.inter_reference_accesses.add(access - last, rate);
        if let Some(times) = &mut self.inter_reference_ns {
            times.add(at.0.saturating_sub(last_at.0), rate);
        }
    }

    pub(super) fn finish(self, rate: f64) -> ReuseStats {
        ReuseStats {
            rate,
            accesses: self.accesses,
            first_uses: self.first_uses,
            distance_pages: self.distance_pages.finish(),
            inter_reference_accesses: self.inter_reference_accesses.finish(),
            inter_reference_ns: self.inter_reference_ns.map(Collected::finish),
        }
    }
}

impl Collected {
    fn new() -> Self {
        let histogram = Histogram::new(DIGITS).expect("a histogram may have three digits");
        Self { histogram, sum: 0.0, weights: 0.0, buckets: [0; 65] }
    }

    /// Adds a number that stands for the inverse of `rate`.
    fn add(&mut self, value: u64, rate: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the inverse of a share, at least 1; what is beyond saturates"
        )]
        let weight = (1.0 / rate).round() as u64;
        self.histogram.record_n(value, weight).expect("the histogram grows to what it is given");
        self.sum += value as f64 * weight as f64;
        self.weights += weight as f64;
        self.buckets[(u64::BITS - value.leading_zeros()) as usize] += weight;
    }

    fn finish(self) -> Distribution {
        let quantile = |share| self.histogram.value_at_quantile(share);
        let is_used = |&place: &usize| self.buckets[place] > 0;
        let buckets = match ((0..65).find(is_used), (0..65).rfind(is_used)) {
            (Some(first), Some(last)) => (first..=last)
                .map(|bits| Bucket {
                    from: if bits == 0 { 0 } else { 1 << (bits - 1) },
                    count: self.buckets[bits],
                })
                .collect(),
            _ => vec![],
        };
        Distribution {
            count: self.histogram.len(),
            mean: self.sum / self.weights.max(1.0),
            p10: quantile(0.1),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: self.histogram.max(),
            buckets,
        }
    }
}
