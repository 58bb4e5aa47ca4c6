//! The report of the HFA paper's experiments.

use super::{Experiment, Point, WorkloadResult, first_level, protected};
use crate::study::TextTable;
use thermocline_lab::IntervalSummary;
use thermocline_lab::metric::grouped;
use thermocline_lab::report::{Axis, Cell, LineChart, Report, Series, Table, chart_over_time};

/// A figure over sizes: its title, what it shows, and the value at each.
type Figure = (&'static str, &'static str, fn(&Point) -> f64);

const FIGURES: [Figure; 4] = [
    ("Aggregate hit ratio (Figure 4)", "hits, %", |point| {
        point.summary.aggregate_hit_ratio() * 100.0
    }),
    ("Average response time (Figure 5)", "ms", |point| point.summary.average_response_ms),
    ("Moves between levels (Figure 6)", "pages per access", |point| {
        point.hints() as f64 / (point.summary.trace.accesses as f64).max(1.0)
    }),
    ("Space besides pages (Figure 7)", "of the levels, %", |point| {
        point.summary.metadata_share * 100.0
    }),
];

/// Hit ratios and response times at the size that is studied, for a terminal.
pub(super) fn overview(experiment: &Experiment, results: &[WorkloadResult]) -> TextTable {
    let policies = experiment.policies();
    let row = |result: &WorkloadResult| {
        let cells = policies.iter().map(|policy| {
            let point = result.points.iter().find(|point| {
                point.policy == *policy
                    && point.aggregate_percent.to_bits() == experiment.study_percent.to_bits()
            });
            point.map_or_else(
                || "-".into(),
                |point| {
                    let response_ms = point.summary.average_response_ms;
                    format!("{:.2} / {response_ms:.3}", point.summary.aggregate_hit_ratio() * 100.0)
                },
            )
        });
        (result.workload.clone(), cells.collect())
    };
    let title = &format!(
        "Aggregate hits in % / average response in ms, with all levels {} % of the footprint",
        experiment.study_percent
    );
    TextTable::of_traces(title, &policies, results.iter().map(row))
}

/// Hit ratios of all algorithms at the size that is studied, for the paper's page.
pub(super) fn hit_ratios(experiment: &Experiment, results: &[WorkloadResult]) -> TextTable {
    let policies = experiment.policies();
    let judged = results.iter().filter(|result| result.has_reuse(experiment));
    let row = |result: &WorkloadResult| {
        let cells = policies.iter().map(|policy| {
            let mut points = result.points.iter();
            let point = points.find(|point| {
                point.policy == *policy
                    && point.aggregate_percent.to_bits() == experiment.study_percent.to_bits()
            });
            let percent = |point: &Point| point.summary.aggregate_hit_ratio() * 100.0;
            point.map_or_else(|| "-".into(), |point| format!("{:.1}", percent(point)))
        });
        (result.workload.clone(), cells.collect())
    };
    let title = "Hits of all algorithms";
    TextTable::of_traces(title, &policies, judged.map(row))
}

/// Return the first level's hits, period by period.
fn by_period(result: &WorkloadResult) -> LineChart {
    let runs = result.over_time.iter();
    let runs = runs.filter_map(|run| Some((&run.policy, &run.stability.as_ref()?.first_level)));
    let series = runs.map(|(policy, ratios)| Series {
        name: policy.clone(),
        values: ratios.iter().map(|ratio| Some(ratio * 100.0)).collect(),
    });
    let series: Vec<Series> = series.collect();
    let periods = series.iter().map(|one| one.values.len()).max().unwrap_or(0);
    LineChart {
        title: "Hits in the first level, period by period (Figure 8 a)".into(),
        x: Axis::time("periods after the warm-up", 1..=periods as u64),
        y_title: "%".into(),
        series,
        emphasised: vec![],
    }
}

/// Adds the traces, then the figures of each workload.
pub(super) fn add(report: &mut Report, experiment: &Experiment, results: &[WorkloadResult]) {
    report.heading("The traces really used");
    report.table(traces(results));
    report.heading("Readings of the paper");
    report.paragraph(
        "At the size that is studied, in the median of all traces with re-use; shares of Q1 also at least and at most.",
    );
    report.table(super::readings::table(experiment, results).into_table());
    for result in results {
        workload(report, experiment, result);
    }
}

fn workload(report: &mut Report, experiment: &Experiment, result: &WorkloadResult) {
    report.heading(&result.workload);
    if !result.has_reuse(experiment) {
        report.paragraph(&format!(
            "Fewer than {} % of the accesses hit at every size and with every algorithm: this workload cannot judge any claim.",
            experiment.least_hits_percent
        ));
    }
    let header =
        ["moves between levels", "pages", "accesses per page", "distinct pages until it returns"];
    for hints in &result.hints {
        let groups = hints.groups.iter().map(|group| {
            let distance = group.distance.map_or_else(|| "-".into(), |mean| format!("{mean:.0}"));
            let cells = [
                format!("{} to {}", group.hints, 2 * group.hints - 1),
                grouped(group.pages),
                format!("{:.1}", group.accesses),
                distance,
            ];
            cells.map(Cell::number).to_vec()
        });
        report.paragraph(&format!(
            "Hint frequencies under {} on levels of {} (Figure 1), {} % of the footprint:",
            hints.policy,
            ratios(&experiment.study_ratios),
            experiment.study_percent
        ));
        report.table(Table { header: header.map(String::from).to_vec(), rows: groups.collect() });
    }
    for (title, y_title, value) in FIGURES {
        report.chart(&over_sizes(experiment, result, title, y_title, value));
    }
    if result.over_time.is_empty() {
        return;
    }
    let runs = result.over_time.iter().map(|one| (one.policy.as_str(), &one.over_time));
    let runs: Vec<_> = runs.collect();
    report.chart(&by_period(result));
    for (title, share) in [
        ("Hits in the first level (Figure 8 a)", first_level as fn(&IntervalSummary) -> _),
        ("Share of Q1 in the first level (Figure 8 b)", protected),
    ] {
        let percent = |interval: &IntervalSummary| Some(share(interval)? * 100.0);
        report.chart(&chart_over_time(title, "%", &runs, percent));
    }
    sweeps(report, experiment, result);
}

/// Figures 9 and 10.
fn sweeps(report: &mut Report, experiment: &Experiment, result: &WorkloadResult) {
    for (title, x_title, points) in [
        ("A fixed share of Q1 (Figure 9)", "share of Q1, %", &result.fixed_shares),
        ("Length of the history k (Figure 10)", "k", &result.history),
    ] {
        let mut places: Vec<u64> = points.iter().map(|point| point.at).collect();
        places.sort_unstable();
        places.dedup();
        let series = experiment.pairs.iter().map(|pair| Series {
            name: pair.combined.clone(),
            values: places
                .iter()
                .map(|&at| {
                    let mut points = points.iter();
                    let point = points.find(|one| one.policy == pair.combined && one.at == at)?;
                    Some(point.hit_ratio * 100.0)
                })
                .collect(),
        });
        report.chart(&LineChart {
            title: title.into(),
            x: Axis::numbers(
                x_title,
                places.iter().map(|&at| (at as f64, at.to_string())).collect(),
            ),
            y_title: "hits, %".into(),
            series: series.collect(),
            emphasised: vec![],
        });
    }
}

fn over_sizes(
    experiment: &Experiment,
    result: &WorkloadResult,
    title: &str,
    y_title: &str,
    value: fn(&Point) -> f64,
) -> LineChart {
    let sizes = &experiment.aggregate_percent;
    let series = experiment.policies().into_iter().map(|policy| Series {
        name: policy.into(),
        values: sizes
            .iter()
            .map(|size| {
                let point = result.points.iter().find(|point| {
                    point.policy == policy && point.aggregate_percent.to_bits() == size.to_bits()
                });
                point.map(value)
            })
            .collect(),
    });
    LineChart {
        title: title.into(),
        x: Axis::numbers(
            "all levels, % of the footprint",
            sizes.iter().map(|&size| (size, size.to_string())).collect(),
        ),
        y_title: y_title.into(),
        series: series.collect(),
        emphasised: vec![],
    }
}

fn ratios(ratios: &[u32]) -> String {
    ratios.iter().map(ToString::to_string).collect::<Vec<_>>().join(":")
}

fn traces(results: &[WorkloadResult]) -> Table {
    let header = ["workload", "trace", "requests", "requests in the paper", "levels"];
    let row = |result: &WorkloadResult| {
        let paper = result
            .paper_requests
            .map_or_else(|| "-".into(), |requests| format!("{:.1} million", requests / 1e6));
        vec![
            Cell::text(&result.workload),
            Cell::text(&result.trace),
            Cell::number(grouped(result.requests)),
            Cell::number(paper),
            Cell::text(ratios(&result.ratios)),
        ]
    };
    Table { header: header.map(String::from).to_vec(), rows: results.iter().map(row).collect() }
}
