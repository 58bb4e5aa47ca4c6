//! Re-use of pages: distinct pages, accesses and time since their last use.

use hdrhistogram::Histogram;
use serde::Serialize;
use thermocline_core::{Nanos, prefetch};

use crate::metric::grouped;

/// Digits of a percentile.
const DIGITS: u8 = 3;
/// Mark of a page that was not used yet.
const NEVER: u64 = u64::MAX;

/// Statistics of re-use. Its JSON form has a stable schema.
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
    /// Number of re-uses.
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
    /// Numbers by powers of two, from the smallest occurring value to the greatest.
    pub buckets: Vec<Bucket>,
}

/// The numbers between two powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// The least of them: 0, 1, 2, 4 and so on.
    pub from: u64,
    /// Number of re-uses.
    pub count: u64,
}

impl Distribution {
    /// Return the mean, with a digit after the point where that is not lost in the number.
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

/// Numbers, counted in the classes that a histogram of [`DIGITS`] digits has; such a histogram takes
/// them over in the end, as its own counting costs more than all else.
struct Collected {
    /// Counts by the number of the class.
    counts: Vec<u64>,
    sum: f64,
}

/// Numbers below this have a class of their own; there are half as many classes for each power of two
/// above.
const SINGLE: u64 = 2048;
const SINGLE_SHIFT: u32 = SINGLE.trailing_zeros();
const CLASSES: usize = ((u64::BITS - SINGLE_SHIFT + 2) as usize) << (SINGLE_SHIFT - 1);

impl Reuse {
    /// Create statistics for page numbers below `pages`.
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

    /// Forget a page whose number will be another page's.
    pub(super) fn forget(&mut self, number: u32) {
        self.last[number as usize].0 = NEVER;
    }

    /// Asks the processor for the last use of a page.
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        prefetch(&self.last, number as usize);
    }

    /// Add a use of a page: the access and its time, and the number of others used since its last
    /// one. It counts as many times as `weight` says.
    #[inline]
    pub(super) fn add(
        &mut self,
        number: u32,
        access: u64,
        at: Nanos,
        distance: Option<usize>,
        weight: u64,
    ) {
        self.accesses += 1;
        let (last, last_at) = std::mem::replace(&mut self.last[number as usize], (access, at));
        let Some(distance) = distance.filter(|_| last != NEVER) else {
            self.first_uses += 1;
            return;
        };
        self.distance_pages.add(distance as u64, weight);
        self.inter_reference_accesses.add(access - last, weight);
        if let Some(times) = &mut self.inter_reference_ns {
            times.add(at.0.saturating_sub(last_at.0), weight);
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
        Self { counts: vec![0; CLASSES], sum: 0.0 }
    }

    /// Adds a number, `weight` times.
    #[inline]
    fn add(&mut self, value: u64, weight: u64) {
        self.counts[class(value)] += weight;
        self.sum += value as f64 * weight as f64;
    }

    fn finish(self) -> Distribution {
        let mut histogram: Histogram<u64> =
            Histogram::new(DIGITS).expect("a histogram may have three digits");
        let mut of_bits = [0; 65];
        let counts = self.counts.iter().enumerate();
        for (class, &count) in counts.filter(|(_, count)| **count > 0) {
            let least = least_of(class);
            histogram.record_n(least, count).expect("the histogram grows to what it is given");
            of_bits[(u64::BITS - least.leading_zeros()) as usize] += count;
        }
        let quantile = |share| histogram.value_at_quantile(share);
        let is_used = |&place: &usize| of_bits[place] > 0;
        let buckets = match ((0..65).find(is_used), (0..65).rfind(is_used)) {
            (Some(first), Some(last)) => (first..=last)
                .map(|bits| Bucket {
                    from: if bits == 0 { 0 } else { 1 << (bits - 1) },
                    count: of_bits[bits],
                })
                .collect(),
            _ => vec![],
        };
        Distribution {
            count: histogram.len(),
            mean: self.sum / (histogram.len() as f64).max(1.0),
            p10: quantile(0.1),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: histogram.max(),
            buckets,
        }
    }
}

/// Return the class of a number: one for each number below [`SINGLE`], then of as many numbers as
/// fit [`DIGITS`] digits.
#[inline]
fn class(value: u64) -> usize {
    let shift = u64::BITS - SINGLE_SHIFT - (value | (SINGLE - 1)).leading_zeros();
    #[expect(clippy::cast_possible_truncation, reason = "shifted to a number below `SINGLE`")]
    let digits = (value >> shift) as usize;
    ((shift as usize) << (SINGLE_SHIFT - 1)) + digits
}

/// Return the least number of a class.
const fn least_of(class: usize) -> u64 {
    let class = class as u64;
    if class < SINGLE {
        return class;
    }
    let shift = (class >> (SINGLE_SHIFT - 1)) - 1;
    (class - (shift << (SINGLE_SHIFT - 1))) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_histogram() {
        let histogram: Histogram<u64> = Histogram::new(DIGITS).unwrap();
        let powers = (0..64).map(|shift| 1_u64 << shift);
        let near =
            powers.flat_map(|power| (0..3).map(move |more| (power - 1).saturating_add(more)));
        for value in near.chain([2_u64.pow(40) / 3, u64::MAX / 7, u64::MAX]) {
            let class = class(value);
            assert!(class < CLASSES, "{value}");
            let least = least_of(class);
            assert_eq!(self::class(least), class, "{value}");
            assert!(histogram.equivalent(least, value), "{value}: {least}");
            assert!(least == 0 || self::class(least - 1) == class - 1, "{value}: {least}");
        }
    }
}
