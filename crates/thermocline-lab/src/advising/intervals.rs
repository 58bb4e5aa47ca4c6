//! Means over parts of the time, and the intervals around them.

use super::tally::Tally;
use super::{QUARTERS, Range};

/// Student's t of 7 degrees of freedom, both sides, 95 %.
const T_PARTS: f64 = 2.365;
/// The same of 3 degrees.
const T_QUARTERS: f64 = 3.182;
/// Neighbouring parts are alike, so that they tell less than as many would that are drawn by chance.
const INDEPENDENT_PARTS: f64 = 3.0;

/// Figures per access of each part of the time in which the cache is filled.
pub(super) struct Steady {
    pub(super) hit_ratios: Vec<f64>,
    pub(super) flash_writes: Vec<f64>,
    /// Per write; of parts without one, there is none.
    pub(super) write_ms: Vec<f64>,
}

impl Steady {
    pub(super) fn of(tally: &Tally) -> Self {
        Self {
            hit_ratios: tally.hit_ratios(),
            flash_writes: tally.flash_writes(),
            write_ms: tally.write_times.means_ms(),
        }
    }
}

/// Results of the simulations of one cache.
pub(super) struct Found {
    pub(super) whole: Steady,
    /// Results at other sizes.
    pub(super) others: Vec<Steady>,
    /// Results on samples of the sample.
    pub(super) quarters: Vec<Steady>,
}

impl Found {
    /// Return the mean of the parts, and between what the mean of as many parts to come should lie.
    /// The interval is at least as wide to each side as `least_half_width` of the mean.
    pub(super) fn range(
        &self,
        values: impl Fn(&Steady) -> &Vec<f64>,
        least_half_width: impl Fn(f64) -> f64,
    ) -> Range {
        let parts = values(&self.whole);
        // Both means, of the parts that were and of those that come, have their error.
        let of_time = deviation(parts) * (2.0 / INDEPENDENT_PARTS).sqrt();
        let mut variance = (T_PARTS * of_time).powi(2);
        if self.quarters.len() > 1 {
            let known = self.quarters.iter().map(&values).filter(|parts| !parts.is_empty());
            let means: Vec<f64> = known.map(|parts| mean(parts)).collect();
            let of_sample = deviation(&means) / (QUARTERS as f64).sqrt();
            variance += (T_QUARTERS * of_sample).powi(2);
        }
        let estimate = mean(parts);
        let mut range = Range::new(estimate, variance.sqrt().max(least_half_width(estimate)));
        let others = self.others.iter().map(values).filter(|parts| !parts.is_empty());
        for other in others.map(|parts| mean(parts)) {
            range.low = range.low.min(other);
            range.high = range.high.max(other);
        }
        range
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / (values.len() as f64).max(1.0)
}

/// Return the standard deviation, as a sample tells.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0).max(1.0)).sqrt()
}
