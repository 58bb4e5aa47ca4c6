//! The report of page classes: shares, update frequency, re-use distance over time.

use thermocline_trace::classes::{ClassSummary, Classes};

use super::{Axis, BarChart, Cell, LineChart, Options, Report, Series, Table};
use crate::metric::grouped;

/// Return the report of the written pages of one trace.
pub fn classes(found: &Classes, options: &Options) -> Report {
    let mut report = Report::new(&options.title);
    report.paragraph(&format!(
        "{} writes of {} pages. F: written at least {} times, I: less often. S: mean re-use distance of at most {} distinct pages, L: longer, or written once.",
        grouped(found.writes),
        grouped(found.pages),
        grouped(found.frequent_writes),
        grouped(found.short_distance_pages),
    ));
    report.heading("Classes");
    report.table(table(found));
    let bars = |title: &str, x_title: &str, length: fn(&ClassSummary) -> f64| BarChart {
        title: title.into(),
        x_title: x_title.into(),
        bars: found.classes.iter().map(|one| (one.class.name().into(), length(one))).collect(),
    };
    report.chart(&bars("Pages", "share of pages, %", |one| one.page_share * 100.0));
    report.chart(&bars("Writes", "share of writes, %", |one| one.write_share * 100.0));
    report.chart(&bars("Update frequency", "writes per page", |one| one.mean_writes_per_page));
    let intervals = found.classes.first().map_or(0, |one| one.distance_over_time.len());
    report.chart(&LineChart {
        title: "Re-use distance over time".into(),
        x: Axis::time(
            &format!("writes, {} per point", grouped(found.interval_writes)),
            (1..=intervals as u64)
                .map(|interval| (interval * found.interval_writes).min(found.writes)),
        ),
        y_title: "distinct pages, mean".into(),
        series: found
            .classes
            .iter()
            .map(|one| Series {
                name: one.class.name().into(),
                values: one.distance_over_time.clone(),
            })
            .collect(),
        emphasised: vec![],
    });
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
    report
}

fn table(found: &Classes) -> Table {
    let header = [
        "class",
        "pages",
        "of pages, %",
        "writes",
        "of writes, %",
        "writes per page",
        "re-use distance",
    ];
    let row = |one: &ClassSummary| {
        let mut row = vec![Cell::text(one.class.name())];
        row.extend(
            [
                grouped(one.pages),
                format!("{:.2}", one.page_share * 100.0),
                grouped(one.writes),
                format!("{:.2}", one.write_share * 100.0),
                format!("{:.2}", one.mean_writes_per_page),
                one.mean_distance_pages.map_or_else(|| "-".into(), |mean| format!("{mean:.0}")),
            ]
            .map(Cell::number),
        );
        row
    };
    Table {
        header: header.map(String::from).to_vec(),
        rows: found.classes.iter().map(row).collect(),
    }
}
