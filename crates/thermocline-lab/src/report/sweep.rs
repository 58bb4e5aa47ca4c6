//! The report of a sweep: a chart per trace and figure, and all results.

use std::collections::HashMap;

use super::{Axis, Cell, Drawn as _, Figure, LineChart, Options, Report, Series, Table};
use crate::metric::grouped;
use crate::sweep::{Row, RowTier, labels};
use crate::verdict;

/// A figure of rows that is drawn: its column, its title, its unit, and what makes that unit of it.
type Drawn = (&'static str, &'static str, &'static str, fn(f64) -> f64);

const FIGURES: [Drawn; 5] = [
    ("miss_ratio", "Miss ratio", "misses, %", |share| share * 100.0),
    ("io_time_ms", "Total I/O time", "s", |ms| ms / 1000.0),
    ("average_response_ms", "Average response", "ms", |ms| ms),
    ("cost_per_io", "Cost per I/O", "price per I/O/s", |price| price),
    ("read_p99_us", "99 % of reads within", "us", |us| us),
];

/// Return the report of all results, in the order of the sweep.
pub fn sweep(rows: &[Row], options: &Options) -> Report {
    let mut report = Report::new(&options.title);
    let traces = in_order(rows.iter().map(|row| row.trace.clone()));
    let of =
        |trace: &String| -> Vec<&Row> { rows.iter().filter(|row| row.trace == *trace).collect() };
    let labelled = traces.iter().flat_map(|trace| labels(&of(trace)).into_iter().zip(of(trace)));
    report.answer(&verdict::sweep(&labelled.collect::<Vec<(String, &Row)>>()));
    report.paragraph(&format!(
        "{} results on {} trace(s). Miss ratio: accesses that no cache tier answers, divided by all that are counted.",
        grouped(rows.len() as u64),
        traces.len()
    ));
    for trace in &traces {
        report.heading(trace);
        let rows = of(trace);
        let labels = labels(&rows);
        let name = |(label, row): (&String, &&Row)| label.clone() + &further_sizes(row);
        let named: Vec<Named<'_>> =
            labels.iter().zip(&rows).map(|pair| (name(pair), *pair.1)).collect();
        let choices = FIGURES.into_iter().filter_map(|figure| {
            let chart = chart(&named, figure);
            let mut values = chart.series.iter().flat_map(|series| &series.values);
            values.any(Option::is_some).then(|| (chart.title.clone(), vec![chart.chart()]))
        });
        report.figure(Figure { title: "Figures by size".into(), choices: choices.collect() });
        report.table(table(&labels, &rows));
    }
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
    report
}

/// A row, and what its line is called.
type Named<'a> = (String, &'a Row);

/// Return a line per policy and its tiers besides RAM, over the sizes of RAM.
fn chart(rows: &[Named<'_>], (column, title, y_title, scale): Drawn) -> LineChart {
    let mut sizes: Vec<u64> = rows.iter().map(|(_, row)| first_pages(row)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut series: Vec<Series> = vec![];
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (name, row) in rows {
        let place = *places.entry(name).or_insert(series.len());
        if place == series.len() {
            series.push(Series { name: name.clone(), values: vec![None; sizes.len()] });
        }
        if let Ok(size) = sizes.binary_search(&first_pages(row)) {
            series[place].values[size] = row.figure(column).map(scale);
        }
    }
    let first = rows.first().and_then(|(_, row)| row.tiers.first());
    let page_size_bytes = rows.first().map_or(0, |(_, row)| row.page_size_bytes);
    LineChart {
        title: title.into(),
        x: Axis::sizes(
            first.map_or("the first tier", |tier| &tier.name),
            &sizes.iter().map(|pages| pages * page_size_bytes).collect::<Vec<u64>>(),
        ),
        y_title: y_title.into(),
        series,
        emphasised: vec![],
    }
}

fn first_pages(row: &Row) -> u64 {
    row.tiers.first().and_then(|tier| tier.capacity_pages).unwrap_or(0)
}

/// Return the sizes of the tiers after the first, as multiples of it where they are.
fn further_sizes(row: &Row) -> String {
    let above = first_pages(row);
    let further = row.tiers.iter().skip(1).filter_map(|tier| Some((tier, tier.capacity_pages?)));
    let size = |(tier, pages): (&RowTier, u64)| {
        if above > 0 && pages.is_multiple_of(above) {
            format!(", {} {}x", tier.name, pages / above)
        } else {
            format!(", {} {} pages", tier.name, grouped(pages))
        }
    };
    further.map(size).collect()
}

fn table(labels: &[String], rows: &[&Row]) -> Table {
    let mut header =
        vec!["policy", "capacities, pages", "miss ratio, %", "I/O time, s", "average response, ms"];
    let is_timed = rows.iter().any(|row| row.figure("read_p99_us").is_some());
    if is_timed {
        header.extend(["99 % of reads within, us", "flash lifetime, years"]);
    }
    let optional = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v:.2}"));
    let row = |(label, row): (&String, &&Row)| {
        let pages = row.tiers.iter().filter_map(|tier| tier.capacity_pages);
        let pages: Vec<String> = pages.map(grouped).collect();
        let figure = |column: &str| row.figure(column).unwrap_or(f64::NAN);
        let mut cells = vec![
            Cell::text(label),
            Cell::text(pages.join(" + ")),
            exact(3, figure("miss_ratio") * 100.0),
            exact(1, figure("io_time_ms") / 1000.0),
            exact(4, figure("average_response_ms")),
        ];
        if is_timed {
            cells.push(Cell::number(optional(row.figure("read_p99_us"))));
            cells.push(Cell::number(optional(row.figure("flash_lifetime_years"))));
        }
        cells
    };
    Table {
        header: header.into_iter().map(String::from).collect(),
        rows: labels.iter().zip(rows).map(row).collect(),
    }
}

/// Format a number with `decimals` decimals.
fn exact(decimals: usize, value: f64) -> Cell {
    Cell::number(format!("{value:.decimals$}")).with_value(value)
}

/// Return each of some texts once, in the order in which they come.
fn in_order(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = vec![];
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}
