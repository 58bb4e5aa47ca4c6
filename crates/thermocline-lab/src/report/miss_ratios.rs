//! The report of miss-ratio curves, and of when pages are used again.

use super::chart::share_colours;
use super::{
    Axis, Cell, Chart, Drawn as _, Figure, HeatMap, LineChart, Options, Report, Series, Table,
};
use crate::metric::{byte_size, grouped};
use crate::mrc::{Bucket, Curve, Distribution, MissRatios, Point, ReuseStats};
use crate::verdict;

/// Return the report of one trace.
pub fn miss_ratios(found: &MissRatios, options: &Options) -> Report {
    let mut report = Report::new(&options.title);
    report.answer(&verdict::miss_ratios(found));
    report.paragraph(&format!(
        "{}: {} page accesses, {} distinct pages of {} bytes.",
        found.trace.path,
        grouped(found.trace.accesses),
        grouped(found.trace.footprint_pages),
        found.trace.page_size_bytes,
    ));
    report.heading("Miss ratio by size");
    for chart in line_charts(&found.curves, found.trace.page_size_bytes) {
        report.chart(&chart);
    }
    let hybrid = found.curves.iter().filter(|curve| curve.tiers.len() == 2);
    let map = |curve: &Curve| {
        let map = heat_map(curve, found.trace.page_size_bytes).chart();
        (curve.policy.clone(), vec![map])
    };
    let title = "Miss ratio by RAM and flash".into();
    let mut choices: Vec<(String, Vec<Chart>)> = hybrid.map(map).collect();
    share_colours(choices.iter_mut().flat_map(|(_, charts)| charts));
    report.figure(Figure { title, choices });
    report.heading("How the curves were found");
    report.table(methods(&found.curves));
    add_reuse(&mut report, &found.reuse);
    report.heading("What the figures are");
    report.paragraph("Miss ratio: accesses that no cache tier answers, divided by all. Re-use distance: how many other pages were used since a page's last use. Inter-reference: how many accesses, and how much time, from a page's last use to its next. First uses are misses at every size, and in no distribution.");
    report.paragraph("SHARDS looks at the pages whose hash is below a threshold; miniature simulation replays their accesses through a cache that is smaller by the same rate. Both divide misses by the accesses that were to be expected. The error is the difference to a full simulation of each size.");
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
    report
}

/// Adds when pages are used again.
pub(super) fn add_reuse(report: &mut Report, reuse: &ReuseStats) {
    report.heading("When pages are used again");
    report.table(distributions(reuse));
    for (title, unit, distribution) in named(reuse) {
        report.chart(&histogram(title, unit, distribution));
    }
}

/// Return the curves of one tier, together where they have the same sizes.
fn line_charts(curves: &[Curve], page_size_bytes: u64) -> Vec<LineChart> {
    let sizes = |curve: &Curve| -> Vec<u64> {
        curve.points.iter().map(|point| point.capacity_pages[0]).collect()
    };
    let bytes = |curve: &Curve| -> Vec<u64> {
        sizes(curve).into_iter().map(|pages| pages * page_size_bytes).collect()
    };
    let mut charts: Vec<(Vec<u64>, LineChart)> = vec![];
    for curve in curves.iter().filter(|curve| curve.tiers.len() == 1) {
        let known = charts.iter().position(|(known, _)| *known == sizes(curve));
        let place = known.unwrap_or_else(|| {
            let chart = LineChart {
                title: "Miss ratio".into(),
                x: Axis::sizes("RAM", &bytes(curve)),
                y_title: "misses, %".into(),
                series: vec![],
                emphasised: vec![],
            };
            charts.push((sizes(curve), chart));
            charts.len() - 1
        });
        let line = |name: String, value: fn(&Point) -> Option<f64>| Series {
            name,
            values: curve.points.iter().map(|one| Some(value(one)? * 100.0)).collect(),
        };
        let series = &mut charts[place].1.series;
        series.push(line(curve.policy.clone(), |point| Some(point.miss_ratio)));
        if curve.mean_absolute_error.is_some() {
            let name = format!("{}, simulated in full", curve.policy);
            series.push(line(name, |point| point.simulated_miss_ratio));
        }
    }
    charts.into_iter().map(|(_, chart)| chart).collect()
}

/// Return the miss ratios of a hybrid policy by the sizes of both tiers.
fn heat_map(curve: &Curve, page_size_bytes: u64) -> HeatMap {
    let tier = |tier: usize| {
        let mut pages: Vec<u64> =
            curve.points.iter().map(|point| point.capacity_pages[tier]).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    };
    let [rows, columns] = [0, 1].map(tier);
    let value = |ram: u64, flash: u64| {
        let point = curve.points.iter().find(|point| point.capacity_pages == [ram, flash])?;
        Some(point.miss_ratio * 100.0)
    };
    HeatMap {
        title: format!("Miss ratio of {}, %", curve.policy),
        x_title: "flash".into(),
        x_labels: columns.iter().map(|pages| byte_size(pages * page_size_bytes)).collect(),
        y_title: "RAM".into(),
        y_labels: rows.iter().map(|pages| byte_size(pages * page_size_bytes)).collect(),
        values: rows
            .iter()
            .map(|&ram| columns.iter().map(|&flash| value(ram, flash)).collect())
            .collect(),
    }
}

fn methods(curves: &[Curve]) -> Table {
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.3}", share * 100.0))
    };
    let row = |curve: &Curve| {
        vec![
            Cell::text(&curve.policy),
            Cell::text(curve.method.describe()),
            Cell::number(grouped(curve.points.len() as u64)),
            Cell::number(percent(curve.mean_absolute_error)),
            Cell::number(percent(curve.max_absolute_error)),
        ]
    };
    let header =
        ["policy", "method", "sizes", "mean absolute error, % of accesses", "greatest error"];
    Table { header: header.map(String::from).to_vec(), rows: curves.iter().map(row).collect() }
}

/// Return the distributions with what they are of, and their units.
fn named(reuse: &ReuseStats) -> Vec<(&'static str, &'static str, &Distribution)> {
    let mut all = vec![
        ("Re-use distance", "distinct pages", &reuse.distance_pages),
        ("Inter-reference distance", "accesses", &reuse.inter_reference_accesses),
    ];
    all.extend(reuse.inter_reference_ns.as_ref().map(|one| ("Inter-reference time", "ns", one)));
    all
}

fn distributions(reuse: &ReuseStats) -> Table {
    let row = |(title, unit, one): (&str, &str, &Distribution)| {
        let mut row = vec![Cell::text(format!("{title}, {unit}"))];
        row.push(Cell::number(grouped(one.count)));
        row.push(Cell::number(one.mean_in_words()));
        row.extend([one.p10, one.p50, one.p90, one.p99, one.max].map(grouped).map(Cell::number));
        row
    };
    let header = ["what", "how many", "mean", "p10", "median", "p90", "p99", "greatest"];
    Table {
        header: header.map(String::from).to_vec(),
        rows: named(reuse).into_iter().map(row).collect(),
    }
}

fn histogram(title: &str, unit: &str, distribution: &Distribution) -> LineChart {
    let buckets = &distribution.buckets;
    let share = |bucket: &Bucket| Some(bucket.count as f64 / distribution.count as f64 * 100.0);
    LineChart {
        title: title.into(),
        x: Axis::names(
            &format!("{unit}, from a power of two to the next"),
            buckets.iter().map(|bucket| grouped(bucket.from)),
        ),
        y_title: "of re-uses, %".into(),
        series: vec![Series { name: "share".into(), values: buckets.iter().map(share).collect() }],
        emphasised: vec![],
    }
}
