//! The report of the MBF paper's experiments.

use super::claims::reduction_percent;
use super::run::MHF;
use super::{Experiment, Runtime, SweepPoint, WorkloadResult};
use crate::claim::{mean, median};
use crate::study::{TextTable, header, in_order};
use thermocline_lab::Identification;
use thermocline_lab::metric::grouped;
use thermocline_lab::report::{
    Axis, Cell, LineChart, Pair, PairChart, Report, Series, Table, charts_over_time,
};

/// The baselines: Figures 8 and 9 compare them.
const BASELINES: [&str; 2] = ["WDAC", "DAM"];

/// The labels of the charts over time: Figures 10 and 11 show these.
const CHARTED: [&str; 5] = ["WDAC", "DAM", "MBF", "MHF", "MBF 2 KiB"];

/// False identification rates per trace, the identifiers side by side, for a terminal.
pub(super) fn overview(results: &[WorkloadResult]) -> TextTable {
    let identifiers = results.first().map_or(&[][..], |first| &first.against_wdac.identifiers);
    let labels: Vec<&str> = identifiers.iter().map(|one| one.label.as_str()).collect();
    let row = |result: &WorkloadResult| {
        let identifiers = result.against_wdac.identifiers.iter();
        let rates = identifiers.map(|one| {
            format!(
                "{:.1} ({:.1})",
                one.false_identification_rate() * 100.0,
                one.hot_ratio() * 100.0
            )
        });
        (result.workload.clone(), rates.collect())
    };
    let title = "False identification rate against WDAC and, in brackets, hot ratio, in %";
    TextTable::of_traces(title, &labels, results.iter().map(row))
}

/// Adds all workloads in tables, then the figures of each.
pub(super) fn add(report: &mut Report, experiment: &Experiment, results: &[WorkloadResult]) {
    report.heading("The traces really used");
    report.paragraph("Whether a trace is the paper's is told by its number of requests (Table II). The last column is by how much MBF's false identification rate lies below MHF's.");
    report.table(traces(results));
    report.chart(&reductions(results));
    report.heading("Hot ratio and false identification against WDAC (Figures 10, 11 and 13)");
    report.table(identifiers(results, |result| &result.against_wdac));
    report.heading("The same against DAM");
    report.table(identifiers(results, |result| &result.against_dam));
    report.heading("Distinct pages per unit of writes (Figure 6)");
    report.table(unique_pages(results, experiment.table_entries));
    report.heading("Runtime (Figure 12)");
    report.paragraph("Wall-clock times of this run and this machine: read the ratios. They are the only figures here that differ from run to run.");
    report.table(runtime(results));
    report.heading("Admission to flash by MBF");
    report.paragraph(&format!(
        "Ours, not the paper's: memory of {}, flash {}x memory; MBF is told every page offered to flash, and admits those it finds hot.",
        experiment.admission.memory, experiment.admission.flash_ratio
    ));
    report.table(admission(results));
    for result in results {
        figures(report, result);
    }
}

/// Chart how much less often MBF is wrong than MHF, for the workloads that the paper has.
fn reductions(results: &[WorkloadResult]) -> PairChart {
    let pair = |result: &WorkloadResult| {
        Some(Pair {
            name: result.workload.clone(),
            measured: reduction_percent(result)?,
            paper: result.paper?.reduction_percent,
        })
    };
    PairChart {
        title: "False identification of MBF below that of MHF, beside the paper's".into(),
        x_title: "%".into(),
        pairs: results.iter().filter_map(pair).collect(),
    }
}

/// Figures 8 to 11 and 13 to 15 of one workload.
fn figures(report: &mut Report, result: &WorkloadResult) {
    report.heading(&result.workload);
    let charts_of = |labels: &[&str]| {
        let mut charted = result.against_wdac.clone();
        charted.identifiers.retain(|one| labels.contains(&&*one.label));
        charts_over_time(&charted)
    };
    // The first two charts over time are those of the paper.
    let titles = [
        "Hot ratio of WDAC and DAM (Figure 8)",
        "Identifications of DAM that differ from those of WDAC (Figure 9)",
    ];
    for (chart, title) in charts_of(&BASELINES).into_iter().zip(titles) {
        report.chart(&LineChart { title: title.into(), ..chart });
    }
    for chart in charts_of(&CHARTED) {
        report.chart(&chart);
    }
    let false_identification = |point: &SweepPoint| point.false_identification_rate * 100.0;
    report.chart(&sweep(
        "Memory (Figure 13 d)",
        "memory, bytes",
        "false identification rate, %",
        &result.memory,
        false_identification,
    ));
    report.chart(&sweep(
        "Window of WDAC, period of DAM (Figure 14)",
        "writes",
        "hot, %",
        &result.windows,
        |point| point.hot_ratio * 100.0,
    ));
    report.chart(&sweep(
        "Number of filters (Figure 15 a)",
        "filters",
        "hot, %",
        &result.filters,
        |point| point.hot_ratio * 100.0,
    ));
    report.chart(&sweep(
        "Number of filters (Figure 15 b)",
        "filters",
        "false identification rate, %",
        &result.filters,
        false_identification,
    ));
}

/// Figure 15 over all traces, by the memory of the filters and by what the threshold is.
pub(super) fn filters(results: &[WorkloadResult]) -> TextTable {
    let points = || results.iter().flat_map(|result| &result.filters);
    let mut places: Vec<u64> = points().map(|point| point.at).collect();
    places.sort_unstable();
    places.dedup();
    let cell = |series: &str, at: u64| {
        let points = || points().filter(|point| point.series == series && point.at == at);
        let mean_percent = |value: fn(&SweepPoint) -> f64| {
            mean(&points().map(|point| value(point) * 100.0).collect::<Vec<f64>>())
        };
        let hot = mean_percent(|point| point.hot_ratio);
        let wrong = mean_percent(|point| point.false_identification_rate);
        hot.zip(wrong).map_or("-".into(), |(hot, wrong)| format!("{hot:.1}, {wrong:.1}"))
    };
    let row = |series: &str| {
        let cells = places.iter().map(|&at| cell(series, at));
        [series.to_owned()].into_iter().chain(cells).collect()
    };
    let titles = places.iter().map(|at| format!("{at} filters"));
    TextTable {
        title: Some(
            "Figure 15: hot ratio and false identification rate in %, means of all traces, by memory and threshold"
                .into(),
        ),
        header: ["memory, threshold".to_owned()].into_iter().chain(titles).collect(),
        rows: in_order(points().map(|point| point.series.as_str())).into_iter().map(row).collect(),
        numbers_from: 1,
    }
}

/// Figure 12 over all traces, by the layout of the filters.
pub(super) fn layouts(results: &[WorkloadResult]) -> TextTable {
    let labels = in_order(results.iter().flat_map(|one| &one.runtime).map(|one| &*one.label));
    let row = |label: &str| {
        let ratio = |value: fn(&Runtime) -> f64| {
            let ratios = results.iter().filter_map(|result| {
                let of = |label: &str| result.runtime.iter().find(|one| one.label == label);
                Some(value(of(label)?) / value(of(MHF)?))
            });
            let ratio = median(&mut ratios.collect::<Vec<f64>>());
            ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"))
        };
        let per_write = |one: &Runtime| one.decay_ns / one.decay_writes.max(1) as f64;
        vec![
            label.to_owned(),
            ratio(|one| one.check_ns),
            ratio(|one| one.decay_ns),
            ratio(per_write),
        ]
    };
    TextTable {
        title: Some("Figure 12: time as a multiple of MHF's, medians of all traces".into()),
        header: header(&["build", "check-up", "decay", "decay per write"]),
        rows: labels.into_iter().map(row).collect(),
        numbers_from: 1,
    }
}

fn sweep(
    title: &str,
    x_title: &str,
    y_title: &str,
    points: &[SweepPoint],
    value: impl Fn(&SweepPoint) -> f64,
) -> LineChart {
    let mut places: Vec<u64> = points.iter().map(|point| point.at).collect();
    places.sort_unstable();
    places.dedup();
    let names = in_order(points.iter().map(|point| point.series.as_str()));
    let at = |name: &str, place: u64| {
        points.iter().find(|point| point.series == name && point.at == place).map(&value)
    };
    let series = names.iter().map(|&name| Series {
        name: name.into(),
        values: places.iter().map(|&place| at(name, place)).collect(),
    });
    LineChart {
        title: title.into(),
        x: Axis::numbers(
            x_title,
            places.iter().map(|&place| (place as f64, grouped(place))).collect(),
        ),
        y_title: y_title.into(),
        series: series.collect(),
        emphasised: vec![],
    }
}

fn traces(results: &[WorkloadResult]) -> Table {
    let row = |result: &WorkloadResult| {
        let paper = result.paper.map_or_else(
            || "no".to_owned(),
            |paper| {
                let verdict = if paper.requests == result.requests { "yes" } else { "differs" };
                format!("{verdict} ({})", grouped(paper.requests))
            },
        );
        let reduction = reduction_percent(result)
            .map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1}"));
        vec![
            Cell::text(&result.workload),
            Cell::text(file_name(&result.trace)),
            Cell::number(grouped(result.requests)),
            Cell::text(paper),
            Cell::number(grouped(result.against_wdac.trace.writes)),
            Cell::number(grouped(result.against_wdac.trace.footprint_pages)),
            Cell::number(reduction),
        ]
    };
    Table {
        header: header(&[
            "workload",
            "trace",
            "requests",
            "the paper's",
            "page writes",
            "pages",
            "MBF below MHF, %",
        ]),
        rows: results.iter().map(row).collect(),
    }
}

/// Return a path without its folders.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn identifiers(
    results: &[WorkloadResult],
    found: impl Fn(&WorkloadResult) -> &Identification,
) -> Table {
    let mut rows = vec![];
    for result in results {
        for one in &found(result).identifiers {
            let mut row = vec![Cell::text(&result.workload), Cell::text(&one.label)];
            row.extend(
                [
                    format!("{:.2}", one.hot_ratio() * 100.0),
                    grouped(one.false_hot),
                    grouped(one.false_cold),
                    format!("{:.2}", one.false_identification_rate() * 100.0),
                ]
                .map(Cell::number),
            );
            rows.push(row);
        }
    }
    Table {
        header: header(&[
            "workload",
            "identifier",
            "hot ratio, %",
            "false hot",
            "false cold",
            "false identification rate, %",
        ]),
        rows,
    }
}

fn unique_pages(results: &[WorkloadResult], table_entries: u64) -> Table {
    let mut rows = vec![];
    for result in results {
        for unit in &result.unique_pages {
            let mut row = vec![Cell::text(&result.workload)];
            row.extend(
                [
                    grouped(unit.unit_writes),
                    grouped(unit.units),
                    format!("{:.0}", unit.mean),
                    format!("{:.1}", unit.overflowing * 100.0),
                ]
                .map(Cell::number),
            );
            rows.push(row);
        }
    }
    let overflowing = format!("units with more than {}, %", grouped(table_entries));
    Table {
        header: header(&[
            "workload",
            "writes of a unit",
            "units",
            "distinct pages, mean",
            &overflowing,
        ]),
        rows,
    }
}

fn runtime(results: &[WorkloadResult]) -> Table {
    let mut rows = vec![];
    for result in results {
        for one in &result.runtime {
            let per_write = one.decay_ns / one.decay_writes.max(1) as f64;
            let mut row = vec![Cell::text(&result.workload), Cell::text(&one.label)];
            row.extend(
                [
                    format!("{:.2}", one.check_ns),
                    format!("{:.0}", one.decay_ns),
                    grouped(one.decay_writes),
                    format!("{per_write:.3}"),
                ]
                .map(Cell::number),
            );
            rows.push(row);
        }
    }
    Table {
        header: header(&[
            "workload",
            "identifier",
            "ns per check-up",
            "ns per decay",
            "writes between decays",
            "ns of decay per write",
        ]),
        rows,
    }
}

fn admission(results: &[WorkloadResult]) -> Table {
    let mut rows = vec![];
    for result in results {
        for point in &result.admission {
            let [memory, flash, _] = point.summary.tiers.as_slice() else { continue };
            let mut row = vec![
                Cell::text(&result.workload),
                Cell::text(&point.summary.policy.name),
                Cell::text(&point.admission),
            ];
            row.extend(
                [
                    format!("{:.2}", memory.hit_ratio * 100.0),
                    format!("{:.2}", flash.hit_ratio * 100.0),
                    grouped(flash.page_writes),
                    format!("{:.1}", point.summary.io_time_ms / 1000.0),
                ]
                .map(Cell::number),
            );
            rows.push(row);
        }
    }
    Table {
        header: header(&[
            "workload",
            "policy",
            "admitted",
            "memory hits, %",
            "flash hits, %",
            "flash writes",
            "I/O time, s",
        ]),
        rows,
    }
}
