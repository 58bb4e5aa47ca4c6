//! The report of the HAT paper's experiments.

use super::wear::Wear;
use super::{Experiment, Point, WorkloadResult, find};
use crate::claim::spread;
use crate::study::{TextTable, in_order};
use thermocline_lab::metric::grouped;
use thermocline_lab::report::{Axis, Cell, LineChart, Report, Series, Table};

/// Tabulate the wear of the flash, workload by workload.
pub(super) fn wear_table(results: &[WorkloadResult]) -> TextTable {
    let header = [
        "workload",
        "policy",
        "flash writes",
        "write amplification",
        "erases",
        "erases per day",
        "lifetime, days",
        "mean read, ms",
    ];
    let optional = |value: Option<f64>, decimals: usize| {
        value.map_or_else(|| "-".into(), |value| format!("{value:.decimals$}"))
    };
    let row = |workload: &str, wear: &Wear| {
        vec![
            workload.to_owned(),
            wear.label.clone(),
            grouped(wear.flash_writes),
            format!("{:.2}", wear.write_amplification),
            grouped(wear.erases),
            optional(wear.erases_per_day, 0),
            optional(wear.lifetime_days, 1),
            format!("{:.1}", wear.read_response_us / 1000.0),
        ]
    };
    let rows = results
        .iter()
        .flat_map(|result| result.wear.iter().map(|wear| row(&result.workload, wear)));
    TextTable {
        title: Some("Wear of the flash".into()),
        header: header.map(String::from).to_vec(),
        rows: rows.collect(),
        numbers_from: 2,
    }
}

/// Compare the readings of HAT with the default one, and the statements of the paper that come true
/// under each.
pub(super) fn readings(experiment: &Experiment, results: &[WorkloadResult]) -> TextTable {
    let header = ["reading of HAT", "beats TAC", "beats FaCE+GSC", "I/O time beside the default"];
    let default = results.iter().flat_map(|result| {
        let hats = result.points.iter().filter(|point| point.label == "HAT");
        hats.filter(|point| point.memory == experiment.memory).map(move |point| (result, point))
    });
    let default: Vec<(&WorkloadResult, &Point)> = default.collect();
    let of_reading = |label: &str| {
        let points = results.iter().flat_map(move |result| {
            let own = result.readings.iter().filter(move |point| point.label == label);
            own.map(move |point| (result, point))
        });
        points.collect::<Vec<(&WorkloadResult, &Point)>>()
    };
    let row = |label: &str, points: &[(&WorkloadResult, &Point)]| {
        let against = |rival: &str| {
            let savings =
                points.iter().filter_map(|(result, point)| point.saving(&result.points, rival));
            won(&mut savings.map(|saving| saving * 100.0).collect::<Vec<f64>>())
        };
        let relative = points.iter().filter_map(|(result, point)| {
            let default = find(&result.points, "HAT", point.sizes())?;
            Some((point.summary.io_time_ms / default.summary.io_time_ms - 1.0) * 100.0)
        });
        let relative = spread(&mut relative.collect::<Vec<f64>>(), " %");
        let relative = relative.unwrap_or_else(|| "-".into());
        vec![label.to_owned(), against("TAC"), against("FaCE+GSC"), relative]
    };
    let labels = experiment.readings.iter().map(|reading| reading.label.as_str());
    let others = labels.map(|label| row(label, &of_reading(label)));
    TextTable {
        title: Some(format!("Readings of HAT, memory {}, all flash sizes", experiment.memory)),
        header: header.map(String::from).to_vec(),
        rows: [row("default", &default)].into_iter().chain(others).collect(),
        numbers_from: 1,
    }
}

/// Describe at how many points a reading saves I/O time, and the amount.
fn won(savings: &mut [f64]) -> String {
    let points = savings.len();
    let faster = savings.iter().filter(|&&saving| saving > 0.0).count();
    spread(savings, " %")
        .map_or_else(|| "-".into(), |spread| format!("{faster} of {points}, {spread}"))
}

/// Return the I/O times of one workload with memory of one size.
pub(super) fn io_times(result: &WorkloadResult, memory: &str) -> TextTable {
    let ratios = flash_ratios(result);
    let mut header = vec!["flash/memory".to_owned()];
    header.extend(ratios.iter().map(|ratio| format!("{ratio}x")));
    let rows = labels(result).into_iter().map(|label| {
        let times = ratios.iter().map(|&ratio| {
            find(&result.points, label, (memory, ratio)).map_or_else(
                || "-".to_owned(),
                |point| {
                    let aging = point.summary.policy.parameters.get("aging_interval");
                    let aging =
                        aging.map_or_else(String::new, |interval| format!(" (aging {interval})"));
                    format!("{:.1}{aging}", point.summary.io_time_ms / 1000.0)
                },
            )
        });
        [label.to_owned()].into_iter().chain(times).collect()
    });
    TextTable { title: None, header, rows: rows.collect(), numbers_from: 0 }
}

/// Adds Figure 2, the sweep of the non-hot ratio, the wear and the counts.
pub(super) fn add(report: &mut Report, experiment: &Experiment, results: &[WorkloadResult]) {
    report.heading("Total I/O time against flash size (Figure 2)");
    for result in results {
        for memory in &experiment.memories {
            report.chart(&figure(result, memory));
            report.table(io_times(result, memory).into_table());
        }
    }
    report.heading("What the paper's text leaves open");
    report.paragraph("Each row is HAT under one reading, with the points at which it takes less I/O time than a rival, and its I/O time as it differs from the default reading's.");
    report.table(readings(experiment, results).into_table());
    report.heading("The non-hot ratio");
    report.paragraph(&format!(
        "HAT with different shares of memory reserved for pages that are not hot, flash {}x memory.",
        experiment.nonhot.flash_ratio
    ));
    if let Some(first) = results.first() {
        report.chart(&LineChart {
            title: "I/O time relative to a non-hot ratio of 0.1".into(),
            x: Axis::numbers(
                "non-hot ratio",
                first
                    .nonhot
                    .iter()
                    .map(nonhot_ratio)
                    .enumerate()
                    .map(|(place, ratio)| (ratio.parse().unwrap_or(place as f64), ratio))
                    .collect(),
            ),
            y_title: "relative I/O time".into(),
            series: results.iter().map(relative_to_default).collect(),
            emphasised: vec![],
        });
    }
    report.heading("Wear of the flash");
    report.paragraph(&format!(
        "Ours, not the paper's: flash {}x memory is a drive of its own ({}, as large as the tier and full at the start), above the disk {}, with {} requests outstanding. Days and years are at the recording's rate.",
        experiment.wear.flash_ratio,
        experiment.wear.ssd,
        experiment.wear.disk,
        experiment.wear.closed_loop
    ));
    report.table(wear_table(results).into_table());
    report.heading("Counts");
    report.table(counts(results));
}

fn figure(result: &WorkloadResult, memory: &str) -> LineChart {
    let ratios = flash_ratios(result);
    let series = labels(result).into_iter().map(|label| Series {
        name: label.to_owned(),
        values: ratios
            .iter()
            .map(|&ratio| {
                Some(find(&result.points, label, (memory, ratio))?.summary.io_time_ms / 1000.0)
            })
            .collect(),
    });
    LineChart {
        title: format!("{}, memory {memory}", result.workload),
        x: Axis::numbers(
            "flash/memory",
            ratios.iter().map(|&ratio| (ratio, format!("{ratio}x"))).collect(),
        ),
        y_title: "total I/O time (s)".into(),
        series: series.collect(),
        emphasised: vec![],
    }
}

fn relative_to_default(result: &WorkloadResult) -> Series {
    let default = result.nonhot.iter().find(|point| nonhot_ratio(point) == "0.1");
    let values = result
        .nonhot
        .iter()
        .map(|point| Some(point.summary.io_time_ms / default?.summary.io_time_ms));
    Series { name: result.workload.clone(), values: values.collect() }
}

fn nonhot_ratio(point: &Point) -> String {
    point
        .summary
        .policy
        .parameters
        .get("nonhot_ratio")
        .map_or_else(String::new, ToString::to_string)
}

/// Return the four raw counts beside the weighted time.
fn counts(results: &[WorkloadResult]) -> Table {
    let header = [
        "workload",
        "contender",
        "memory",
        "flash/memory",
        "memory hits %",
        "flash hits %",
        "flash reads",
        "flash writes",
        "disk reads",
        "disk writes",
        "I/O time s",
    ];
    let mut rows = vec![];
    for result in results {
        for point in &result.points {
            let [memory, flash, disk] = point.summary.tiers.as_slice() else { continue };
            let mut row = vec![Cell::text(&result.workload), Cell::text(&point.label)];
            let hits = |ratio: f64| format!("{:.2}", ratio * 100.0);
            row.extend(
                [
                    point.memory.clone(),
                    format!("{}x", point.flash_ratio),
                    hits(memory.hit_ratio),
                    hits(flash.hit_ratio),
                    grouped(flash.page_reads),
                    grouped(flash.page_writes),
                    grouped(disk.page_reads),
                    grouped(disk.page_writes),
                    format!("{:.1}", point.summary.io_time_ms / 1000.0),
                ]
                .map(Cell::number),
            );
            rows.push(row);
        }
    }
    Table { header: header.map(String::from).to_vec(), rows }
}

fn flash_ratios(result: &WorkloadResult) -> Vec<f64> {
    let mut ratios: Vec<f64> = result.points.iter().map(|point| point.flash_ratio).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.dedup();
    ratios
}

fn labels(result: &WorkloadResult) -> Vec<&str> {
    in_order(result.points.iter().map(|point| point.label.as_str()))
}
