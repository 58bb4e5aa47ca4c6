//! `thermocline compare`: one trace, many policies and sizes, side by side.

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use thermocline_core::registry;
use thermocline_lab::report::{Options, comparison};
use thermocline_lab::{Configuration, RunOptions, Summary, TierSummary};
use thermocline_trace::CompiledTrace;

use crate::arguments::CompareOptions;
use crate::{hierarchy, output, reading};

/// Runs the command.
pub(crate) fn run(options: &CompareOptions) -> Result<String> {
    let policies: Result<Vec<_>> = match options.policy.as_slice() {
        [all] if all == "all" => Ok(registry::entries().iter().collect()),
        names => names.iter().map(|name| hierarchy::find_policy(name)).collect(),
    };
    let configurations = hierarchy::configurations(&options.hierarchy, &policies?)?;
    hierarchy::note_unused_flash(&configurations);
    let trace = reading::open(&options.trace, &options.reading)?;
    let summaries = run_all(&trace, &configurations, options.hierarchy.run_options())?;
    if let Some(path) = &options.report {
        let title = format!("Comparison on {}", reading::file_name(&options.trace));
        let report = Options { title, command: command_line(), version: VERSION.into() };
        output::write_file(path, &comparison(&summaries, &report)?.to_html())?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&summaries) } else { Ok(table(&summaries)) }
}

/// The program and its version, for reports.
pub(crate) const VERSION: &str = concat!("thermocline ", env!("CARGO_PKG_VERSION"));

/// Runs all configurations in parallel, with a progress bar on a terminal.
pub(crate) fn run_all(
    trace: &CompiledTrace,
    configurations: &[Configuration],
    options: RunOptions,
) -> Result<Vec<Summary>> {
    let bar = ProgressBar::new(configurations.len() as u64);
    let style = "{bar:30} {pos}/{len} configurations, {per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style).context("the template is well-formed")?);
    let done = || bar.inc(1);
    let summaries = thermocline_lab::compare(trace, configurations, options, done);
    bar.finish_and_clear();
    summaries.context("cannot compare")
}

/// One row per configuration; the best of each column among equal hierarchies is marked.
pub(crate) fn table(summaries: &[Summary]) -> String {
    let mut rows = vec![];
    for summary in summaries {
        let group: Vec<&Summary> =
            summaries.iter().filter(|other| capacities(other) == capacities(summary)).collect();
        let mut row = vec![summary.policy.name.clone()];
        row.extend(capacities(summary).into_iter().map(output::count));
        for column in COLUMNS {
            let value = (column.value)(summary);
            let is_best = group.len() > 1
                && group.iter().all(|other| !(column.is_better)((column.value)(other), value));
            row.push(format!("{}{}", (column.show)(value), if is_best { " *" } else { "  " }));
        }
        rows.push(row);
    }
    let tiers = summaries.iter().map(|summary| capacities(summary).len()).max().unwrap_or(0);
    let names: Vec<String> = summaries
        .first()
        .map(|summary| summary.tiers[..tiers].iter().map(|t| format!("{} pages", t.name)).collect())
        .unwrap_or_default();
    let mut header = vec!["policy"];
    header.extend(names.iter().map(String::as_str));
    header.extend(COLUMNS.iter().map(|column| column.title));
    format!(
        "{}* best of its column among the configurations of equal sizes\n",
        output::table(&header, &rows, 1)
    )
}

/// One column of the comparison.
struct Column {
    title: &'static str,
    value: fn(&Summary) -> f64,
    show: fn(f64) -> String,
    is_better: fn(f64, f64) -> bool,
}

const COLUMNS: [Column; 7] = [
    Column { title: "I/O time s", value: |s| s.io_time_ms, show: seconds, is_better: less },
    Column {
        title: "ram hits",
        value: |s| s.tiers[0].hit_ratio,
        show: output::percent,
        is_better: more,
    },
    Column { title: "flash hits", value: flash_hits, show: output::percent, is_better: more },
    Column {
        title: "flash reads",
        value: |s| flash(s, |t| t.page_reads),
        show: whole,
        is_better: less,
    },
    Column {
        title: "flash writes",
        value: |s| flash(s, |t| t.page_writes),
        show: whole,
        is_better: less,
    },
    Column {
        title: "disk reads",
        value: |s| disk(s, |t| t.page_reads),
        show: whole,
        is_better: less,
    },
    Column {
        title: "disk writes",
        value: |s| disk(s, |t| t.page_writes),
        show: whole,
        is_better: less,
    },
];

/// The capacities of the cache tiers: what is equal within a group of configurations.
fn capacities(summary: &Summary) -> Vec<u64> {
    summary.tiers.iter().filter_map(|tier| tier.capacity_pages).collect()
}

/// A figure of the flash tier; zero if there is none.
fn flash(summary: &Summary, figure: fn(&TierSummary) -> u64) -> f64 {
    match summary.tiers.as_slice() {
        [_, flash, _] => figure(flash) as f64,
        _ => 0.0,
    }
}

fn flash_hits(summary: &Summary) -> f64 {
    match summary.tiers.as_slice() {
        [_, flash, _] => flash.hit_ratio,
        _ => 0.0,
    }
}

/// A figure of the disk.
fn disk(summary: &Summary, figure: fn(&TierSummary) -> u64) -> f64 {
    summary.tiers.last().map_or(0.0, |disk| figure(disk) as f64)
}

fn seconds(milliseconds: f64) -> String {
    format!("{:.1}", milliseconds / 1000.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the figure was a count before it became a number"
)]
fn whole(figure: f64) -> String {
    output::count(figure as u64)
}

fn less(one: f64, other: f64) -> bool {
    one < other
}

fn more(one: f64, other: f64) -> bool {
    one > other
}

/// The command line as given, for the report.
fn command_line() -> String {
    let quote = |word: String| {
        let is_plain =
            |letter: char| letter.is_ascii_alphanumeric() || "-_=./,:%+".contains(letter);
        if !word.is_empty() && word.chars().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let words = std::env::args_os().skip(1).map(|word| quote(word.to_string_lossy().into_owned()));
    ["thermocline".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
