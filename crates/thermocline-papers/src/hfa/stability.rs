//! Stability of the first level, period by period (Figure 8).

use serde::Serialize;
use thermocline_lab::OverTime;

use super::first_level;
use crate::claim::mean;

/// Periods whose mean must be at the stable level.
const PERIODS_OF_A_MEAN: usize = 8;

/// The hit ratio of the first level after the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Stability {
    /// Hits in the first level, divided by accesses, per period.
    pub(super) first_level: Vec<f64>,
    /// The mean of the second half: the stable level.
    pub(super) level: f64,
    /// Periods until the mean of the next ones is as near to that level as is allowed; `None` if it
    /// never is.
    pub(super) settled_after: Option<usize>,
    /// The mean distance from that level in the second half, divided by the level.
    pub(super) fluctuation: f64,
}

impl Stability {
    /// Summarise a run over time whose intervals are periods, without those of the warm-up.
    pub(super) fn of(
        over_time: &OverTime,
        warm_up_accesses: u64,
        periods: usize,
        tolerance_points: f64,
    ) -> Option<Self> {
        let warm = over_time.intervals.iter();
        let warm = warm.filter(|interval| interval.end_accesses > warm_up_accesses);
        Self::of_ratios(warm.filter_map(first_level).take(periods).collect(), tolerance_points)
    }

    fn of_ratios(first_level: Vec<f64>, tolerance_points: f64) -> Option<Self> {
        let late = &first_level[first_level.len() / 2..];
        let level = mean(late)?;
        let distances: Vec<f64> = late.iter().map(|ratio| (ratio - level).abs()).collect();
        let fluctuation = if level > 0.0 { mean(&distances)? / level } else { 0.0 };
        let is_settled = |ratios: &[f64]| {
            mean(ratios).is_some_and(|mean| (mean - level).abs() * 100.0 <= tolerance_points)
        };
        let settled_after = first_level.windows(PERIODS_OF_A_MEAN).position(is_settled);
        Some(Self { first_level, level, settled_after, fluctuation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_reached_and_then_kept() {
        let rising = (0..20).map(|period| f64::from(period) / 40.0);
        let stable = (0..60).map(|period| if period % 2 == 0 { 0.45 } else { 0.55 });
        let stability = Stability::of_ratios(rising.chain(stable).collect(), 5.0).unwrap();
        assert!((stability.level - 0.5).abs() < 1e-9);
        assert!((stability.fluctuation - 0.1).abs() < 1e-9);
        // The mean of periods 15 to 22 is the first one within 5 points.
        let settled = stability.settled_after.unwrap();
        let mean_from = |first: usize| mean(&stability.first_level[first..first + 8]).unwrap();
        assert!(mean_from(settled) >= 0.45 && mean_from(settled - 1) < 0.45, "{settled}");
        assert_eq!(Stability::of_ratios(vec![], 5.0), None);
    }
}
