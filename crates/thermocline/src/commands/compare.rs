//! `thermocline compare`: one trace, many policies and sizes, side by side.

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use thermocline_core::registry;
use thermocline_lab::metric::{capacities, columns};
use thermocline_lab::report::{Options, comparison};
use thermocline_lab::{Configuration, RunOptions, Summary};
use thermocline_trace::CompiledTrace;

use crate::arguments::CompareOptions;
use crate::{hierarchy, output, reading};

/// Runs the command.
pub(crate) fn run(options: &CompareOptions) -> Result<String> {
    let policies: Result<Vec<_>> = match options.policy.as_slice() {
        [all] if all == "all" => {
            let depth = options.hierarchy.tiers.len();
            Ok(registry::entries().iter().filter(|entry| entry.depth.allows(depth)).collect())
        }
        names => names.iter().map(|name| hierarchy::find_policy(name)).collect(),
    };
    let configurations = hierarchy::configurations(&options.hierarchy, &policies?)?;
    hierarchy::note_unused_flash(&configurations);
    let trace = reading::open(&options.trace, &options.reading)?;
    hierarchy::note_shrinking_tiers(&configurations, &trace)?;
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
    let mut header = vec!["policy".to_owned()];
    if let Some(first) = summaries.first() {
        let caches = first.tiers.iter().filter(|tier| tier.capacity_pages.is_some());
        header.extend(caches.map(|tier| format!("{} pages", tier.name)));
    }
    let names = |run: &Summary| {
        let sizes = capacities(run).into_iter().map(output::count);
        [run.policy.name.clone()].into_iter().chain(sizes).collect()
    };
    let are_rivals = |one: &Summary, other: &Summary| capacities(one) == capacities(other);
    let table = output::figures(header, names, &columns(summaries), summaries, are_rivals);
    format!("{table}* best of its column among the configurations of equal sizes\n")
}

/// The command line as given, for the report.
pub(crate) fn command_line() -> String {
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
