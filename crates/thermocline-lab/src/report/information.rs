//! The report of one trace: footprint and re-use over time, and whose accesses they are.

use thermocline_trace::{AccessShare, FileShares, Footprint, FootprintPoint, ProcessShare};

use super::{Axis, BarChart, Cell, LineChart, Options, Report, Series, Table};
use crate::metric::grouped;

/// Contents of a trace's report.
#[derive(Debug)]
pub struct Information<'a> {
    /// Figures, as names and values.
    pub figures: &'a [Vec<String>],
    /// The trace over time.
    pub footprint: &'a Footprint,
    /// A recording's files and classes.
    pub files: Option<&'a FileShares>,
    /// A recording's processes.
    pub processes: &'a [ProcessShare],
}

/// Return the report of one trace.
pub fn information(found: &Information<'_>, options: &Options) -> Report {
    let mut report = Report::new(&options.title);
    add_over_time(&mut report, found.footprint);
    add_owners(&mut report, found);
    add_values(&mut report, found.figures);
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
    report
}

/// Adds the trace over time.
pub(super) fn add_over_time(report: &mut Report, footprint: &Footprint) {
    report.heading("Over time");
    let chart = |title: &str, y_title: &str, lines: &[(&str, Value)]| {
        line_chart(footprint, title, y_title, lines)
    };
    report.chart(&chart(
        "Footprint over time",
        "distinct pages",
        &[
            ("so far", |point| Some(point.footprint_pages as f64)),
            ("in the interval", |point| Some(point.interval_pages as f64)),
        ],
    ));
    report.chart(&chart(
        "Re-use over time",
        "of the accesses, %",
        &[
            ("to pages accessed before", |point| Some(point.reuse_share * 100.0)),
            ("writes", |point| Some(point.write_share * 100.0)),
        ],
    ));
    report.chart(&chart(
        "Re-use distance over time",
        "distinct pages, mean",
        &[("distance", |point| point.mean_distance_pages)],
    ));
}

/// Adds whose accesses those of a recording are.
pub(super) fn add_owners(report: &mut Report, found: &Information<'_>) {
    if let Some(files) = found.files {
        add_files(report, files);
    }
    if !found.processes.is_empty() {
        report.heading("Processes of the whole recording");
        let rows = found.processes.iter().map(|one| row(&[&one.process], None, &one.share));
        report.table(table(&["process", "reads", "writes", "of accesses, %"], rows));
    }
}

/// Adds figures, as names and values.
pub(super) fn add_values(report: &mut Report, figures: &[Vec<String>]) {
    report.heading("Figures");
    let row = |figure: &Vec<String>| figure.iter().map(|text| Cell::text(text.as_str())).collect();
    report.table(table(&["", "value"], figures.iter().map(row)));
}

fn add_files(report: &mut Report, files: &FileShares) {
    report.heading("Files");
    report.paragraph(&format!(
        "{} files have accesses; the {} with the most:",
        grouped(files.files),
        grouped(files.hottest_files.len() as u64)
    ));
    let rows = files
        .hottest_files
        .iter()
        .map(|one| row(&[&one.path, &one.class], Some(one.footprint_pages), &one.share));
    report.table(table(&["file", "class", "pages", "reads", "writes", "of accesses, %"], rows));
    let bars = files.classes.iter().map(|one| (one.class.clone(), one.share.access_share * 100.0));
    report.chart(&BarChart {
        title: "Classes".into(),
        x_title: "share of accesses, %".into(),
        bars: bars.collect(),
    });
    let rows = files.classes.iter().map(|one| {
        let files = grouped(one.files);
        row(&[&one.class, &files], Some(one.footprint_pages), &one.share)
    });
    report.table(table(&["class", "files", "pages", "reads", "writes", "of accesses, %"], rows));
}

/// A figure of an interval.
type Value = fn(&FootprintPoint) -> Option<f64>;

fn line_chart(
    footprint: &Footprint,
    title: &str,
    y_title: &str,
    lines: &[(&str, Value)],
) -> LineChart {
    let points = &footprint.points;
    LineChart {
        title: title.into(),
        x: Axis::time(
            &format!("accesses, {} per point", grouped(footprint.interval_accesses)),
            points.iter().map(|point| point.end_accesses),
        ),
        y_title: y_title.into(),
        series: lines
            .iter()
            .map(|(name, value)| Series {
                name: (*name).into(),
                values: points.iter().map(value).collect(),
            })
            .collect(),
        emphasised: vec![],
    }
}

fn row(names: &[&str], pages: Option<u64>, share: &AccessShare) -> Vec<Cell> {
    let mut row: Vec<Cell> = names.iter().map(|&name| Cell::text(name)).collect();
    row.extend(pages.map(|pages| Cell::number(grouped(pages))));
    row.push(Cell::number(grouped(share.reads)));
    row.push(Cell::number(grouped(share.writes)));
    row.push(Cell::number(format!("{:.2}", share.access_share * 100.0)));
    row
}

fn table(header: &[&str], rows: impl Iterator<Item = Vec<Cell>>) -> Table {
    Table { header: header.iter().map(|&title| title.into()).collect(), rows: rows.collect() }
}
