//! The report of write buffers: what each does to hits, erases and response times.

use super::{
    Axis, BarChart, Cell, Chart, Drawn as _, Figure, LineChart, Options, Report, Series, Table,
};
use crate::metric::{Metric, buffer_columns, byte_size, grouped};
use crate::{BufferSummary, verdict};

/// The sizes of flushes that a chart shows, as the least of each range of powers of two.
const FLUSH_SIZES: usize = 10;

/// Builds the report of write buffers over one trace.
pub fn buffers(summaries: &[BufferSummary], options: &Options) -> Report {
    let mut report = Report::new(&options.title);
    report.answer(&verdict::buffers(summaries));
    if let Some(first) = summaries.first() {
        report.paragraph(&about(first));
    }
    let choices = buffer_columns(summaries)
        .into_iter()
        .filter_map(|metric| Some((metric.title_with_unit(), vec![chart(summaries, &metric)?])));
    report.figure(Figure { title: "Figures by buffer".into(), choices: choices.collect() });
    add_flush_sizes(&mut report, summaries);
    report.heading("All figures");
    report.paragraph("A star marks the best of its column among the buffers of equal size.");
    for metric in buffer_columns(summaries) {
        report.define(format!("{} ({})", metric.title, metric.unit), metric.definition());
    }
    report.table(buffer_figures(summaries));
    add_wear(&mut report, summaries);
    report.heading("Parameters");
    report.table(parameters(summaries));
    report.heading("What the figures mean");
    report.paragraph(
        "A hit is an access to a page of the buffer; hit ratios are per page. A flush writes the \
         pages of one flash block that one access drove out. Pages that are in the buffer at the end \
         stay there: writes are hits, pages flushed, or pages still resident.",
    );
    report.paragraph(
        "Write amplification: pages programmed divided by pages flushed, so padding and garbage \
         collection count. Lifetime: the time until every block has its erases, if the trace goes on \
         as it is. A request that the buffer serves takes 1 us; any other is answered with the last of \
         what it asks of the SSD, the flush that made room for it included.",
    );
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
    report
}

fn about(summary: &BufferSummary) -> String {
    let trace = &summary.trace;
    let mut text = format!(
        "{}: {} requests, {} page accesses, of which {} write, to {} pages of {} bytes.",
        trace.path,
        grouped(trace.requests),
        grouped(trace.accesses),
        grouped(trace.writes),
        grouped(trace.footprint_pages),
        grouped(trace.page_size_bytes),
    );
    if let Some(ssd) = &summary.ssd {
        text += &format!(
            " Behind the buffer: {}, {} ({} pages per block); pages lie {}. The run takes {} s.",
            ssd.name,
            byte_size(ssd.logical_pages * u64::from(ssd.page_size_bytes)),
            ssd.pages_per_block,
            ssd.addresses,
            grouped_seconds(ssd.duration_s),
        );
    }
    text
}

fn grouped_seconds(seconds: f64) -> String {
    if seconds < 1000.0 { format!("{seconds:.1}") } else { format!("{seconds:.0}") }
}

/// Return a chart of one figure: lines over buffer sizes, or bars if there is one size; `None` if
/// no run has it.
fn chart(summaries: &[BufferSummary], metric: &Metric<BufferSummary>) -> Option<Chart> {
    let mut sizes: Vec<u32> = summaries.iter().map(|summary| summary.buffer_pages).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let policies = policies(summaries);
    let value = |policy: &str, size: u32| {
        summaries
            .iter()
            .find(|summary| summary.policy.name == policy && summary.buffer_pages == size)
            .and_then(|summary| metric.value(summary))
            .filter(|value| value.is_finite())
    };
    let unit = metric.title_with_unit();
    if let [size] = sizes[..] {
        let bar = |policy: &&str| Some(((*policy).to_owned(), value(policy, size)?));
        let bars: Vec<_> = policies.iter().filter_map(bar).collect();
        let chart = BarChart { title: metric.title.to_string(), x_title: unit, bars };
        return (!chart.bars.is_empty()).then(|| chart.chart());
    }
    let page_size_bytes = summaries.first().map_or(0, |summary| summary.page_size_bytes);
    let bytes: Vec<u64> = sizes.iter().map(|&size| u64::from(size) * page_size_bytes).collect();
    let chart = LineChart {
        title: format!("{} over buffer size", metric.title),
        x: Axis::sizes("buffer", &bytes),
        y_title: unit,
        series: policies
            .iter()
            .map(|policy| Series {
                name: (*policy).into(),
                values: sizes.iter().map(|&size| value(policy, size)).collect(),
            })
            .collect(),
        emphasised: vec![],
    };
    let has_value = chart.series.iter().flat_map(|series| &series.values).any(Option::is_some);
    has_value.then(|| chart.chart())
}

/// Chart the flushed pages by sizes of flushes, at the largest buffer.
fn add_flush_sizes(report: &mut Report, summaries: &[BufferSummary]) {
    let Some(largest) = summaries.iter().map(|summary| summary.buffer_pages).max() else {
        return;
    };
    let mut series = vec![];
    let mut used = 0;
    for summary in summaries.iter().filter(|summary| summary.buffer_pages == largest) {
        let mut pages = [0_u64; FLUSH_SIZES];
        for size in &summary.flush_sizes {
            let range = (size.pages.ilog2() as usize).min(FLUSH_SIZES - 1);
            pages[range] += u64::from(size.pages) * size.flushes;
            used = used.max(range + 1);
        }
        let all = pages.iter().sum::<u64>().max(1) as f64;
        let values = pages.iter().map(|&pages| Some(pages as f64 / all * 100.0)).collect();
        series.push(Series { name: summary.policy.name.clone(), values });
    }
    if used < 2 {
        return;
    }
    for one in &mut series {
        one.values.truncate(used);
    }
    report.chart(&LineChart {
        title: format!("Sizes of flushes, with {} pages of buffer", grouped(largest.into())),
        x: Axis::names(
            "pages of a flush, up to twice as many",
            (0..used).map(|range| grouped(1 << range)),
        ),
        y_title: "of the pages written (%)".into(),
        series,
        emphasised: vec![],
    });
}

/// Tabulate one row per run.
fn buffer_figures(summaries: &[BufferSummary]) -> Table {
    let metrics = buffer_columns(summaries);
    let mut header = ["policy", "buffer", "buffer pages"].map(String::from).to_vec();
    header.extend(metrics.iter().map(|metric| format!("{} ({})", metric.title, metric.unit)));
    let row = |summary: &BufferSummary| {
        let rivals: Vec<&BufferSummary> =
            summaries.iter().filter(|other| other.buffer_pages == summary.buffer_pages).collect();
        let bytes = u64::from(summary.buffer_pages) * summary.page_size_bytes;
        let mut row = vec![
            Cell::text(&summary.policy.name),
            Cell::number(byte_size(bytes)).with_value(bytes as f64),
            Cell::number(grouped(summary.buffer_pages.into())),
        ];
        row.extend(metrics.iter().map(|metric| match metric.value(summary) {
            None => Cell::number("-"),
            Some(value) if metric.is_best(summary, &rivals) => {
                Cell::best((metric.show)(value)).with_value(value)
            }
            Some(value) => Cell::number((metric.show)(value)).with_value(value),
        }));
        row
    };
    Table { header, rows: summaries.iter().map(row).collect() }
}

/// Chart the origins of programs and erases, and the evenness of the drive's wear.
fn add_wear(report: &mut Report, summaries: &[BufferSummary]) {
    if summaries.iter().all(|summary| summary.ssd.is_none()) {
        return;
    }
    report.heading("Wear");
    let header = [
        "policy",
        "buffer pages",
        "programs for the buffer",
        "copies by garbage collection",
        "copies by wear levelling",
        "erases per block: least",
        "mean",
        "most",
        "standard deviation",
        "busy channels, %",
    ];
    let rows = summaries.iter().filter_map(|summary| {
        let metrics = &summary.ssd.as_ref()?.metrics;
        let erases = &metrics.block_erases;
        let busy = metrics.channel_utilisation.iter().sum::<f64>()
            / metrics.channel_utilisation.len().max(1) as f64;
        let mut row = vec![Cell::text(&summary.policy.name)];
        row.extend(
            [
                grouped(summary.buffer_pages.into()),
                grouped(metrics.host_programs),
                grouped(metrics.gc_copies),
                grouped(metrics.wear_copies),
                grouped(erases.min.into()),
                format!("{:.2}", erases.mean),
                grouped(erases.max.into()),
                format!("{:.2}", erases.stdev),
                format!("{:.2}", busy * 100.0),
            ]
            .map(Cell::number),
        );
        Some(row)
    });
    report.table(Table { header: header.map(String::from).to_vec(), rows: rows.collect() });
}

/// Return all parameters of each policy.
fn parameters(summaries: &[BufferSummary]) -> Table {
    let row = |policy: &&str| {
        let summary = summaries.iter().find(|summary| summary.policy.name == *policy)?;
        let parameters = summary.policy.parameters.iter();
        let parameters: Vec<String> =
            parameters.map(|(name, value)| format!("{name}={value}").replace('"', "")).collect();
        let words = if parameters.is_empty() { "none".into() } else { parameters.join(", ") };
        Some(vec![Cell::text(*policy), Cell::text(words)])
    };
    Table {
        header: ["policy", "parameters"].map(String::from).to_vec(),
        rows: policies(summaries).iter().filter_map(row).collect(),
    }
}

/// Return the policies, in the order in which they appear.
fn policies(summaries: &[BufferSummary]) -> Vec<&str> {
    let mut policies: Vec<&str> = vec![];
    for summary in summaries {
        if !policies.contains(&summary.policy.name.as_str()) {
            policies.push(&summary.policy.name);
        }
    }
    policies
}
