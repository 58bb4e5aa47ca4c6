//! The report of the HCA paper's experiments.

use super::{
    Cell, Experiment, Point, Reading, Results, Snapshot, System, SystemResult, SystemRun,
    SystemWorkload, TraceResult,
};
use crate::claim::median;
use crate::study::{TextTable, header};
use thermocline_lab::metric::grouped;
use thermocline_lab::report::{self, Axis, LineChart, Pair, PairChart, Report, Series, Table};

/// Points of a chart over time at most.
const POINTS_MAX: usize = 72;

/// A figure over time: its title, its unit, and the value at each interval.
type OverTime = (&'static str, &'static str, fn(&Snapshot) -> f64);

const OVER_TIME: [OverTime; 7] = [
    ("Hits in ARC (Figures 8 and 17)", "%", |snapshot| snapshot.hits.ram * 100.0),
    ("Hits in the L2ARC (Figures 6, 13, 15 and 22)", "%", |snapshot| snapshot.hits.ssd * 100.0),
    ("Disk hits (Figures 5, 7, 14 and 16)", "%", |snapshot| snapshot.hits.disk * 100.0),
    ("I/Os per second (Figures 9 and 18)", "I/Os per second", |snapshot| snapshot.iops),
    ("I/Os per second of SSD and disk (Figures 10 and 19)", "I/Os per second", |snapshot| {
        snapshot.storage_iops
    }),
    ("Latency per I/O (Figures 11 and 20)", "ms", |snapshot| snapshot.latency_ms),
    ("Cost per I/O (Figures 12 and 21)", "$ per I/O per second", |snapshot| snapshot.cost_per_io),
];

/// A table of sizes: its title, the paper's figure, ours, and how both are written.
type OverSizes = (&'static str, fn(&Cell) -> f64, fn(&Cell) -> f64, usize);

const OVER_SIZES: [OverSizes; 3] = [
    ("disk hits in %", |cell| cell.paper_disk_percent, |cell| cell.run.hits.disk * 100.0, 2),
    ("SSD hits in %", |cell| cell.paper_ssd_percent, |cell| cell.run.hits.ssd * 100.0, 2),
    ("I/Os per second", |cell| cell.paper_iops, |cell| cell.run.iops, 1),
];

/// A figure over sizes of RAM, a line per transient buffer.
type OverRam = (&'static str, &'static str, fn(&Point) -> f64);

const OVER_RAM: [OverRam; 3] = [
    ("HCRTA (Figures 25 and 26)", "ms", |point| point.hca.hcrta_ms),
    ("XCIOPS (Figures 27 and 28)", "I/Os per second", |point| point.hca.xciops),
    ("Pages per block write of the SSD", "pages", |point| {
        point.ssd_page_writes as f64 / (point.ssd_block_writes as f64).max(1.0)
    }),
];

/// Adds the file system, then the architecture on each trace.
pub(super) fn add(report: &mut Report, experiment: &Experiment, results: &Results) {
    let on_engine = on_engine(&experiment.system, results);
    for (workload, result) in experiment.system.workloads.iter().zip(&results.system) {
        system(report, experiment, workload, result, &on_engine);
    }
    report.heading("The traces really used");
    report.table(traces(&results.traces));
    for trace in &results.traces {
        architecture(report, experiment, trace);
    }
}

/// Return the engine's scale and devices, if the file system ran on it; else nothing.
pub(super) fn on_engine(system: &System, results: &Results) -> String {
    results.engine_scale.map_or_else(String::new, |scale| {
        format!(
            ", on the engine with sizes and time divided by {scale}, a simulated clock, a simulated `{}` as the disk ({} requests at once) and {} ms per I/O of the SSD",
            system.disk.drive, system.disk.queue_depth, system.ssd_ms
        )
    })
}

/// Table I or II: what is measured, the paper's figures, and ours.
pub(super) fn system_table(workload: &SystemWorkload, result: &SystemResult) -> TextTable {
    let runs = [&result.baseline, &result.hybrid];
    let row = |what: &str, paper: [f64; 2], ours: fn(&SystemRun) -> f64| {
        let [before, after] = runs.map(ours);
        let text = |value: f64| format!("{value:.2}");
        vec![what.to_owned(), text(paper[0]), text(paper[1]), text(before), text(after)]
    };
    let hits = |tier: usize| workload.hits_percent.map(|percent| percent[tier]);
    let rows = vec![
        row("workload I/Os per second", workload.iops, |run| run.iops),
        row("file system I/Os per second", workload.file_system_iops, |run| run.iops),
        row("storage I/Os per second", workload.storage_iops, |run| run.storage_iops),
        row("ARC hits, %", hits(0), |run| run.hits.ram * 100.0),
        row("L2ARC hits, %", hits(1), |run| run.hits.ssd * 100.0),
        row("disk hits, %", hits(2), |run| run.hits.disk * 100.0),
        row("latency per I/O, ms", workload.latency_ms, |run| run.latency_ms),
        row("cost per I/O, $", workload.cost_per_io, |run| run.cost_per_io),
        row("cost per mean I/O, $", workload.cost_per_io, |run| run.cost_per_mean_io),
    ];
    let titles = ["", "paper, baseline", "paper, hybrid", "ours, baseline", "ours, hybrid"];
    TextTable { title: None, header: header(&titles), rows, numbers_from: 1 }
}

fn system(
    report: &mut Report,
    experiment: &Experiment,
    workload: &SystemWorkload,
    result: &SystemResult,
    on_engine: &str,
) {
    let system = &experiment.system;
    report.heading(&format!("{}: ARC alone, and with an L2ARC", result.workload));
    report.paragraph(&format!(
        "{} GiB of RAM, {} GiB of SSD, a working set of {} GiB in pages of {} KiB, {} hours{on_engine}:",
        system.ram_gib,
        system.ssd_gib,
        system.working_set_gib,
        system.page_size_bytes >> 10,
        system.duration_s / 3600
    ));
    let mut table = system_table(workload, result);
    table.header[0] = "figure".into();
    report.table(table.into_table());
    report.chart(&hits(workload, result));
    for (title, unit, value) in OVER_TIME {
        report.chart(&over_time(title, unit, value, result));
    }
    for (title, paper, ours, digits) in OVER_SIZES {
        report.paragraph(&format!(
            "{}: {title}, the paper's / ours, by SSD (rows), working set and RAM:",
            result.workload
        ));
        report.table(over_sizes(&result.cells, paper, ours, digits));
        report.chart(&PairChart {
            title: format!("{}: {title}, by SSD, working set and RAM", result.workload),
            x_title: title.into(),
            pairs: result.cells.iter().map(|cell| pair(cell, paper, ours)).collect(),
        });
    }
}

/// Chart the tiers at which hits are found, beside Table I or II.
fn hits(workload: &SystemWorkload, result: &SystemResult) -> PairChart {
    let runs = [("baseline", &result.baseline), ("hybrid", &result.hybrid)];
    let of_run = |((name, run), paper): ((&str, &SystemRun), [f64; 3])| {
        let tiers = [("ARC", run.hits.ram), ("L2ARC", run.hits.ssd), ("disk", run.hits.disk)];
        let pair = |((tier, share), paper): ((&str, f64), f64)| Pair {
            name: format!("{tier}, {name}"),
            measured: share * 100.0,
            paper,
        };
        tiers.into_iter().zip(paper).map(pair).collect::<Vec<Pair>>()
    };
    PairChart {
        title: format!("{}: hits beside the paper's", result.workload),
        x_title: "of all accesses, %".into(),
        pairs: runs.into_iter().zip(workload.hits_percent).flat_map(of_run).collect(),
    }
}

fn pair(cell: &Cell, paper: fn(&Cell) -> f64, ours: fn(&Cell) -> f64) -> Pair {
    let Cell { ssd_gib, working_set_gib, ram_gib, .. } = cell;
    Pair {
        name: format!("SSD {ssd_gib}, set {working_set_gib}, RAM {ram_gib} GiB"),
        measured: ours(cell),
        paper: paper(cell),
    }
}

fn over_time(
    title: &str,
    unit: &str,
    value: fn(&Snapshot) -> f64,
    result: &SystemResult,
) -> LineChart {
    let step = result.hybrid.snapshots.len().div_ceil(POINTS_MAX).max(1);
    let line = |name: &str, run: &SystemRun| Series {
        name: name.into(),
        values: run
            .snapshots
            .chunks(step)
            .map(|chunk| Some(chunk.iter().map(value).sum::<f64>() / chunk.len() as f64))
            .collect(),
    };
    let ends = result.hybrid.snapshots.chunks(step).filter_map(|chunk| chunk.last());
    LineChart {
        title: title.into(),
        x: Axis::time("minutes", ends.map(|snapshot| snapshot.at_s / 60)),
        y_title: unit.into(),
        series: vec![line("baseline", &result.baseline), line("hybrid", &result.hybrid)],
        emphasised: vec![],
    }
}

fn over_sizes(
    cells: &[Cell],
    paper: fn(&Cell) -> f64,
    ours: fn(&Cell) -> f64,
    digits: usize,
) -> Table {
    let Some(first) = cells.first() else { return Table::default() };
    let rows: Vec<&[Cell]> = cells.chunk_by(|one, other| one.ssd_gib == other.ssd_gib).collect();
    let columns = cells.iter().take_while(|cell| cell.ssd_gib == first.ssd_gib);
    let columns = columns.map(|cell| format!("{} GiB, RAM {}", cell.working_set_gib, cell.ram_gib));
    let row = |row: &&[Cell]| {
        let name = report::Cell::text(format!("SSD {} GiB", row[0].ssd_gib));
        let texts =
            row.iter().map(|cell| format!("{:.digits$} / {:.digits$}", paper(cell), ours(cell)));
        [name].into_iter().chain(texts.map(report::Cell::number)).collect()
    };
    Table {
        header: [String::new()].into_iter().chain(columns).collect(),
        rows: rows.iter().map(row).collect(),
    }
}

fn architecture(report: &mut Report, experiment: &Experiment, trace: &TraceResult) {
    let architecture = &experiment.architecture;
    report.heading(&format!("HCA on {}", trace.workload));
    let ratios: Vec<String> = architecture.ram_per_ssd.iter().map(ToString::to_string).collect();
    let line = |name: String, buffer_pages: u32, value: &dyn Fn(&Point) -> f64| Series {
        name,
        values: architecture
            .ram_per_ssd
            .iter()
            .map(|ratio| {
                let mut points = trace.points.iter();
                let point = points.find(|point| {
                    point.buffer_pages == buffer_pages
                        && point.ram_per_ssd.to_bits() == ratio.to_bits()
                });
                point.map(value)
            })
            .collect(),
    };
    let chart = |title: &str, unit: &str, series: Vec<Series>| LineChart {
        title: title.into(),
        x: Axis::names("RAM as a multiple of the SSD", ratios.iter().cloned()),
        y_title: unit.into(),
        series,
        emphasised: vec![],
    };
    let shown = architecture.shown_buffer_pages;
    let hits = |name: &str, value: &dyn Fn(&Point) -> f64| line(name.into(), shown, value);
    let lines = vec![
        hits("baseline RHR", &|point| point.baseline_rhr * 100.0),
        hits("baseline DHR", &|point| (1.0 - point.baseline_rhr) * 100.0),
        hits("RHR", &|point| point.hca.rhr * 100.0),
        hits("SHR", &|point| point.hca.shr * 100.0),
        hits("DHR", &|point| point.hca.dhr * 100.0),
    ];
    let title = format!("Hit ratios, {shown} pages of transient buffer (Figures 23 and 24)");
    report.chart(&chart(&title, "%", lines));
    for (title, unit, value) in OVER_RAM {
        let buffers = architecture.buffer_pages.iter();
        let lines = buffers.map(|&pages| line(format!("{pages} pages"), pages, &value));
        report.chart(&chart(title, unit, lines.collect()));
    }
    report.paragraph(&format!(
        "Cost per I/O per second in $, the baseline's / HCA's, with RAM at ${} per GiB:",
        architecture.ram_price
    ));
    report.table(costs(experiment, trace));
}

/// Tabulate the cost of an I/O at each ratio of prices, and the share by which HCA makes it
/// cheaper.
fn costs(experiment: &Experiment, trace: &TraceResult) -> Table {
    let architecture = &experiment.architecture;
    let prices = architecture.ram_per_ssd_price.iter();
    let prices = prices.map(|ratio| format!("SSD at 1/{ratio} of RAM's price"));
    let shown = trace.points.iter();
    let shown = shown.filter(|point| point.buffer_pages == architecture.shown_buffer_pages);
    let row = |point: &Point| {
        let cells = point.costs.iter().map(|[baseline, hybrid]| {
            let reduction = (1.0 - hybrid.per_io / baseline.per_io) * 100.0;
            format!("{:.4} / {:.4} ({reduction:.0} % less)", baseline.per_io, hybrid.per_io)
        });
        let name = report::Cell::text(point.ram_per_ssd.to_string());
        [name].into_iter().chain(cells.map(report::Cell::number)).collect()
    };
    Table {
        header: ["RAM per SSD".to_owned()].into_iter().chain(prices).collect(),
        rows: shown.map(row).collect(),
    }
}

/// Tabulate by how many points HCA hits more often in RAM than LFU under each reading of the
/// counts' lifetime, and by how many less often on disk.
pub(super) fn readings(counts: &[String], traces: &[TraceResult]) -> TextTable {
    let row = |trace: &TraceResult| {
        let mut row = vec![trace.workload.clone()];
        for counts in counts {
            let points = |gain: fn(&Reading) -> f64| {
                let readings = trace.readings.iter().filter(|one| one.counts == *counts);
                let mut gains: Vec<f64> = readings.map(|one| gain(one) * 100.0).collect();
                median(&mut gains).map_or("-".into(), |points| format!("{points:+.1}"))
            };
            row.push(points(|one| one.shares[0] - one.lfu_rhr));
            row.push(points(|one| one.shares[0] - one.same_lfu_rhr));
            row.push(points(|one| one.shares[2] - (1.0 - one.lfu_rhr)));
        }
        row
    };
    let columns = counts.iter().flat_map(|counts| {
        [
            format!("{counts}: RAM hits, against LFU"),
            format!("{counts}: against LFU with the same counts"),
            format!("{counts}: disk hits"),
        ]
    });
    TextTable {
        title: Some(
            "How long counts live: HCA's hits beside its baseline's in points, medians over the sizes of RAM"
                .into(),
        ),
        header: ["trace".to_owned()].into_iter().chain(columns).collect(),
        rows: traces.iter().map(row).collect(),
        numbers_from: 1,
    }
}

fn traces(results: &[TraceResult]) -> Table {
    let header = ["workload", "trace", "requests", "writes, %"];
    let row = |result: &TraceResult| {
        vec![
            report::Cell::text(&result.workload),
            report::Cell::text(&result.trace),
            report::Cell::number(grouped(result.requests)),
            report::Cell::number(format!("{:.1}", result.write_share * 100.0)),
        ]
    };
    Table { header: header.map(String::from).to_vec(), rows: results.iter().map(row).collect() }
}
