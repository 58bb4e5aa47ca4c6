//! Charts of runs over time.

use super::{LineChart, Series};
use crate::metric::grouped;
use crate::{IntervalSummary, OverTime};

/// A line per run, a value per interval: `runs` are their names and figures.
pub(crate) fn chart_over_time(
    title: &str,
    y_title: &str,
    runs: &[(&str, &OverTime)],
    value: impl Fn(&IntervalSummary) -> Option<f64>,
) -> LineChart {
    let intervals = runs.first().map_or(&[][..], |(_, over_time)| &over_time.intervals);
    let accesses = intervals.iter().map(|interval| interval.accesses).max().unwrap_or(0);
    let series = runs.iter().map(|(name, over_time)| Series {
        name: (*name).into(),
        values: over_time.intervals.iter().map(&value).collect(),
    });
    LineChart {
        title: title.into(),
        x_title: format!("accesses, up to {} per point", grouped(accesses)),
        x_labels: intervals.iter().map(|interval| thousands(interval.end_accesses)).collect(),
        y_title: y_title.into(),
        series: series.collect(),
    }
}

/// A number for an axis: in thousands, if it is not small.
pub(super) fn thousands(number: u64) -> String {
    if number >= 10_000 { format!("{}k", grouped(number / 1000)) } else { grouped(number) }
}
