//! Charts of runs over time.

use super::chart::share_y;
use super::{Axis, Chart, Drawn as _, Figure, LineChart, Report, Series};
use crate::metric::{grouped, interval_columns, sizes_in_bytes};
use crate::{IntervalSummary, OverTime, Summary};

/// Maximum number of tiers that have charts of their own; the figures of all are in the JSON.
const CHARTED_TIERS: usize = 4;

/// A gauge that charts show: one that tells how a policy adapts or fills. The others are in the JSON.
struct Charted {
    title: &'static str,
    y_title: &'static str,
    gauge: &'static str,
    of: Whole,
}

/// Whole of which the value of a gauge is a share.
enum Whole {
    /// None: the chart shows the value itself.
    None,
    /// Capacity of the tier.
    Tier,
    /// Sum of this gauge and another one.
    With(&'static str),
}

const CHARTED: [Charted; 5] = [
    Charted {
        title: "Share of Q1",
        y_title: "of both queues, %",
        gauge: "q1_pages",
        of: Whole::With("q2_pages"),
    },
    Charted {
        title: "Promote probability",
        y_title: "probability",
        gauge: "promote_probability",
        of: Whole::None,
    },
    Charted { title: "MQ's life time", y_title: "accesses", gauge: "life_time", of: Whole::None },
    Charted {
        title: "ARC's target p",
        y_title: "of the tier, %",
        gauge: "target_pages",
        of: Whole::Tier,
    },
    Charted {
        title: "Pages held",
        y_title: "of the tier, %",
        gauge: "flash_pages",
        of: Whole::Tier,
    },
];

impl Charted {
    /// Return the value that the chart shows for a tier, if the policy has the gauge there.
    fn value(&self, interval: &IntervalSummary, tier: &str, capacity_pages: f64) -> Option<f64> {
        let value = interval.gauge(self.gauge, tier)?;
        let whole = match self.of {
            Whole::None => return Some(value),
            Whole::Tier => capacity_pages,
            Whole::With(other) => value + interval.gauge(other, tier)?,
        };
        (whole > 0.0).then(|| value / whole * 100.0)
    }
}

/// Adds the charts of runs over time: hit ratios, the average response, and what the policies adapt. Each
/// group of runs has tiers of the same sizes, and its charts stand beside those of the others.
pub(super) fn add_over_time(report: &mut Report, groups: &[Vec<&Summary>]) {
    let timed: Vec<&Vec<&Summary>> =
        groups.iter().filter(|group| group.iter().any(|run| run.over_time.is_some())).collect();
    let Some(first) = timed.iter().copied().flatten().find_map(|run| run.over_time.as_ref()) else {
        return;
    };
    report.heading("Over time");
    let summary = timed[0][0];
    let mut text =
        format!("The trace in {} equal intervals.", grouped(first.intervals.len() as u64));
    if summary.warm_up_accesses > 0 {
        text += " The accesses that are not counted elsewhere are part of these charts.";
    }
    let tiers = summary.tiers.iter().filter(|tier| tier.capacity_pages.is_some()).count();
    if tiers > CHARTED_TIERS {
        text += &format!(" Of {tiers} caches, the first {CHARTED_TIERS} have charts of their own.");
    }
    report.paragraph(&text);
    let mut choices: Vec<(String, Vec<Chart>)> = vec![];
    for group in timed {
        for mut chart in charts(group) {
            let title = chart.title.clone();
            let sizes = sizes_in_bytes(group[0]);
            if groups.len() > 1 {
                chart.title = format!("{title}, {sizes}");
            }
            let chart = chart.chart().named(sizes);
            match choices.iter_mut().find(|(other, _)| *other == title) {
                Some((_, charts)) => charts.push(chart),
                None => choices.push((title, vec![chart])),
            }
        }
    }
    for (_, charts) in &mut choices {
        share_y(charts);
    }
    report.figure(Figure { title: "Over time".into(), choices });
}

/// Return the charts of runs on tiers of the same sizes.
fn charts(group: &[&Summary]) -> Vec<LineChart> {
    let runs = group.iter().filter_map(|run| Some((&*run.policy.name, run.over_time.as_ref()?)));
    let runs: Vec<(&str, &OverTime)> = runs.collect();
    let Some(summary) = group.first() else { return vec![] };
    let caches = || summary.tiers.iter().enumerate();
    let caches = || caches().filter_map(|(place, tier)| Some((place, tier, tier.capacity_pages?)));
    let chart = |title: &str, y_title: &str, runs: &[_], value: &dyn Fn(&_) -> Option<f64>| {
        chart_over_time(&format!("{title} over time"), y_title, runs, value)
    };
    let metrics = interval_columns(&summary.tiers, CHARTED_TIERS);
    let mut charts: Vec<LineChart> = metrics
        .iter()
        .map(|metric| chart(&metric.title, metric.unit, &runs, &|interval| metric.value(interval)))
        .collect();
    for gauge in &CHARTED {
        for (_, tier, pages) in caches().take(CHARTED_TIERS) {
            let value =
                |interval: &IntervalSummary| gauge.value(interval, &tier.name, pages as f64);
            // A gauge that never leaves 0 tells nothing of its tier.
            let moves = |interval: &IntervalSummary| value(interval).is_some_and(|now| now > 0.0);
            let runs = runs.iter().filter(|(_, one)| one.intervals.iter().any(moves)).copied();
            let runs: Vec<_> = runs.collect();
            if !runs.is_empty() {
                let title = format!("{} ({})", gauge.title, tier.name);
                charts.push(chart(&title, gauge.y_title, &runs, &value));
            }
        }
    }
    charts
}

/// Return a line per run, a value per interval: `runs` are their names and figures.
pub fn chart_over_time(
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
        x: Axis::time(
            &format!("accesses, up to {} per point", grouped(accesses)),
            intervals.iter().map(|interval| interval.end_accesses),
        ),
        y_title: y_title.into(),
        series: series.collect(),
        emphasised: vec![],
    }
}
