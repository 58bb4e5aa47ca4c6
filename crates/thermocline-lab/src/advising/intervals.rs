//! Means over parts of the time, and the intervals around them.

use super::write_times::WriteTimes;
use super::{QUARTERS, Range};
use crate::{IntervalSummary, Summary};

/// Parts at the end of the time from which a forecast is made; the cache is filled before.
const STEADY_PARTS: usize = 8;
/// Student's t of 7 degrees of freedom, both sides, 95 %.
const T_PARTS: f64 = 2.365;
/// The same of 3 degrees.
const T_QUARTERS: f64 = 3.182;
/// Neighbouring parts are alike, so that they tell less than as many would that are drawn by chance.
const INDEPENDENT_PARTS: f64 = 3.0;

/// What each part of the time in which the cache is filled had, per access.
pub(super) struct Steady {
    pub(super) hit_ratios: Vec<f64>,
    pub(super) flash_writes: Vec<f64>,
    /// Per write; of parts without one, there is none.
    pub(super) write_ms: Vec<f64>,
}

impl Steady {
    pub(super) fn of(summary: &Summary, write_times: &WriteTimes, surplus: f64) -> Self {
        let flash = summary.tiers.len().saturating_sub(2);
        let written =
            |part: &IntervalSummary| part.page_writes[flash] as f64 / part.accesses as f64;
        Self {
            hit_ratios: hit_ratios(summary, surplus),
            flash_writes: steady_parts(summary)
                .iter()
                .map(|part| written(part) * surplus)
                .collect(),
            write_ms: write_times.means_ms(STEADY_PARTS),
        }
    }
}

/// The parts of the time in which a cache is filled.
fn steady_parts(summary: &Summary) -> &[IntervalSummary] {
    let parts = summary.over_time.as_ref().map_or(&[][..], |over_time| &over_time.intervals);
    &parts[parts.len().saturating_sub(STEADY_PARTS)..]
}

/// The hit ratios of these parts, in a sample with so many times the accesses that were to be expected.
pub(super) fn hit_ratios(summary: &Summary, surplus: f64) -> Vec<f64> {
    let miss_ratios = steady_parts(summary).iter().map(|part| 1.0 - part.aggregate_hit_ratio());
    miss_ratios.map(|misses| 1.0 - misses * surplus).collect()
}

/// What simulations of one cache found.
pub(super) struct Found {
    pub(super) whole: Steady,
    /// At other sizes.
    pub(super) others: Vec<Steady>,
    /// On samples of the sample.
    pub(super) quarters: Vec<Steady>,
}

impl Found {
    /// The mean of the parts, and between what the mean of as many parts to come should lie. The
    /// interval is at least as wide to each side as `least_half_width` of the mean.
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

/// Return by how much the second of each pair rises with the first: the slope of the line of least
/// squares, between 0 and 1. With so few pairs, a slope beyond that is chance more often than not.
pub(super) fn slope(pairs: &[(f64, f64)]) -> f64 {
    let (firsts, seconds): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (first, second) = (mean(&firsts), mean(&seconds));
    let squares: f64 = firsts.iter().map(|one| (one - first).powi(2)).sum();
    let products: f64 = pairs.iter().map(|(one, two)| (one - first) * (two - second)).sum();
    if squares > 0.0 { (products / squares).clamp(0.0, 1.0) } else { 0.0 }
}

/// The standard deviation, as a sample tells.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0).max(1.0)).sqrt()
}
