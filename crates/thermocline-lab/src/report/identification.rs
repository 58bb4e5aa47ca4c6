//! The report of hot-data identification: shares, disagreements and costs, over time and in all.

use super::{Axis, Cell, LineChart, Options, Report, Series, Table};
use crate::metric::{Metric, grouped, identifier_columns};
use crate::{Identification, IdentifierSummary, Interval, verdict};

/// Return the report of one trace.
pub fn identification(found: &Identification, options: &Options) -> Report {
    let mut report = Report::new(&options.title);
    report.answer(&verdict::identification(found));
    report.paragraph(&format!(
        "{}: {} page accesses counted ({}), {} distinct pages. What `{}` says is taken for the truth.",
        found.trace.path,
        grouped(found.trace.writes),
        found.trace.counted,
        grouped(found.trace.footprint_pages),
        found.baseline,
    ));
    report.heading("In all");
    report.table(table(found));
    report.heading("Parameters");
    report.table(parameters(found));
    report.heading("Over time");
    for chart in charts_over_time(found) {
        report.chart(&chart);
    }
    report.heading("What the figures are");
    report.paragraph("Hot ratio: accesses found hot, divided by all that are counted. False hot: found hot, cold to the baseline; false cold: found cold, hot to the baseline. False identification rate: both together, divided by all that are counted.");
    report.paragraph("Memory: the state as stored here, for exact identifiers with an entry per page of the footprint. The times of the command's table depend on the machine and are not in this report.");
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
    report
}

/// Hot ratio, disagreements and distinct pages of every interval.
pub fn charts_over_time(found: &Identification) -> Vec<LineChart> {
    let is_baseline = |identifier: &&IdentifierSummary| identifier.name == found.baseline;
    let others = || found.identifiers.iter().filter(move |one| !is_baseline(one));
    let baseline = || found.identifiers.iter().filter(is_baseline);
    let share = |count: fn(&Interval) -> u64| {
        move |interval: &Interval| count(interval) as f64 / interval.writes as f64 * 100.0
    };
    let chart = |title: &str, y_title: &str, series: Vec<Series>| LineChart {
        title: title.into(),
        x: Axis::time(
            &format!("accesses counted, {} per point", grouped(found.interval_writes)),
            ends(found),
        ),
        y_title: y_title.into(),
        series,
        emphasised: vec![],
    };
    let mut charts = vec![chart(
        "Hot ratio",
        "hot, %",
        // The baseline comes last, so that the others have the same colours in every chart.
        others().chain(baseline()).map(|one| series(one, share(|interval| interval.hot))).collect(),
    )];
    let truth = &found.baseline;
    charts.extend([
        chart(
            &format!("Identifications that differ from {truth}"),
            "per interval",
            others().map(|one| series(one, |interval| interval.different() as f64)).collect(),
        ),
        chart(
            &format!("False hot: cold to {truth}"),
            "of accesses, %",
            others().map(|one| series(one, share(|interval| interval.false_hot))).collect(),
        ),
        chart(
            &format!("False cold: hot to {truth}"),
            "of accesses, %",
            others().map(|one| series(one, share(|interval| interval.false_cold))).collect(),
        ),
    ]);
    charts.retain(|chart| !chart.series.is_empty());
    charts.push(chart(
        "Distinct pages",
        "per interval",
        vec![Series {
            name: "pages".into(),
            values: found.unique_pages.iter().map(|&pages| Some(pages as f64)).collect(),
        }],
    ));
    charts
}

fn series(identifier: &IdentifierSummary, value: impl Fn(&Interval) -> f64) -> Series {
    Series {
        name: identifier.label.clone(),
        values: identifier.over_time.iter().map(|interval| Some(value(interval))).collect(),
    }
}

/// Return the end of each interval.
fn ends(found: &Identification) -> impl Iterator<Item = u64> {
    (1..=found.unique_pages.len() as u64)
        .map(|interval| (interval * found.interval_writes).min(found.trace.writes))
}

fn table(found: &Identification) -> Table {
    let metrics = identifier_columns(false);
    let row = |one: &IdentifierSummary| {
        let figures = metrics
            .iter()
            .map(|metric| Cell::number(metric.value(one).map_or_else(|| "-".into(), metric.show)));
        std::iter::once(Cell::text(&one.label)).chain(figures).collect()
    };
    let titles = metrics.iter().map(Metric::title_with_unit);
    Table {
        header: std::iter::once("identifier".to_owned()).chain(titles).collect(),
        rows: found.identifiers.iter().map(row).collect(),
    }
}

/// Return all parameters of each identifier.
fn parameters(found: &Identification) -> Table {
    let row = |one: &IdentifierSummary| {
        let parameters: Vec<String> = one
            .parameters
            .iter()
            .map(|(name, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{name}={text}")
            })
            .collect();
        vec![Cell::text(&one.label), Cell::text(parameters.join(" "))]
    };
    Table {
        header: ["identifier", "parameters"].map(String::from).to_vec(),
        rows: found.identifiers.iter().map(row).collect(),
    }
}
