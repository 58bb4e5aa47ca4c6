//! `thermocline sweep`: many runs from a file, resumable, into Parquet.

use std::path::Path;

use anyhow::{Context as _, Error, Result};
use thermocline_lab::report::{Options, sweep as report_of};
use thermocline_lab::spec::{HIERARCHY_OPTIONS, HierarchyOption, OptionKind};
use thermocline_lab::sweep::{Outcome, Progress, Row, Sweep};
use thermocline_lab::{LabError, Watch};

use crate::arguments::SweepOptions;
use crate::commands::compare::VERSION;
use crate::{output, reading};

/// A commented sweep with every key but the options of its hierarchy, which go to the line `OPTIONS`.
const EXAMPLE: &str = include_str!("sweep.toml");

/// Runs the command; `command` is the command line, for the report.
pub(crate) fn run(options: &SweepOptions, command: &str) -> Result<String> {
    if options.example {
        return Ok(EXAMPLE.replace("OPTIONS\n", &hierarchy_options()));
    }
    let path = options.sweep.as_ref().context("clap asks for it")?;
    let sweep = Sweep::read(path)?;
    let target = options.output.clone().unwrap_or_else(|| path.with_extension("parquet"));
    let bar = output::progress(sweep.points.len(), "points")?;
    let threads = options.threads.unwrap_or(0) as usize;
    let outcome = sweep.run(&target, threads, &Watch::default(), |progress| match progress {
        Progress::Reused(points) => {
            bar.set_position(points as u64);
            // The time that is left is told from what is run now.
            bar.reset_eta();
        }
        Progress::Finished(points) => bar.inc(points as u64),
    });
    bar.finish_and_clear();
    let outcome = outcome.map_err(|error| {
        let is_of_sweep = matches!(error, LabError::BadTrace { .. } | LabError::BadPoint { .. });
        let error = Error::from(error);
        if is_of_sweep { error.context(format!("in `{}`", path.display())) } else { error }
    })?;
    if outcome.dropped_results > 0 {
        output::note(&format!(
            "note: {} earlier results are of no point of this sweep any more, and were dropped",
            outcome.dropped_results
        ));
    }
    if let Some(path) = &options.report {
        let title = format!("Sweep {}", reading::file_name(&target));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &report_of(&outcome.rows, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&outcome.report(&target)) } else { Ok(table(&outcome, &target)) }
}

/// Return the options that all tiers share, as comments with the default of each, or an example.
fn hierarchy_options() -> String {
    let lines =
        HIERARCHY_OPTIONS.iter().map(|HierarchyOption { key, summary, only_with, kind }| {
            let with = only_with.map(|(other, word)| format!(", with {other} = {word:?}"));
            let (value, words) = match kind {
                OptionKind::Words(words) => {
                    let all: Vec<String> =
                        words.iter().map(|word| format!("{:?}", word.word)).collect();
                    (all[0].clone(), format!(" One of: {}.", all.join(", ")))
                }
                OptionKind::Name { example, .. } | OptionKind::Text { example, .. } => {
                    (format!("{example:?}"), String::new())
                }
                OptionKind::Count { example, .. } => (example.to_string(), String::new()),
            };
            format!("# {summary}{}.{words}\n#{key} = {value}\n", with.unwrap_or_default())
        });
    lines.collect()
}

fn table(outcome: &Outcome, target: &Path) -> String {
    let header = ["trace", "policy", "pages", "miss ratio", "I/O time, s", "average response, ms"];
    let row = |row: &Row| {
        let pages = row.tiers.iter().filter_map(|tier| tier.capacity_pages);
        let figure = |column: &str| row.figure(column).unwrap_or(f64::NAN);
        vec![
            row.trace.clone(),
            row.policy.clone(),
            pages.map(output::count).collect::<Vec<_>>().join(" + "),
            output::percent(figure("miss_ratio")),
            format!("{:.1}", figure("io_time_ms") / 1000.0),
            format!("{:.4}", figure("average_response_ms")),
        ]
    };
    let rows: Vec<Vec<String>> = outcome.rows.iter().map(row).collect();
    format!(
        "{}{} points: {} run, {} found finished; all in `{}`\n",
        output::table(&header, &rows, 2),
        output::count(outcome.rows.len() as u64),
        output::count(outcome.ran_points as u64),
        output::count(outcome.reused_points as u64),
        target.display()
    )
}
