//! Tables, numbers and files, as every command writes them.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use thermocline_lab::metric::Metric;
pub(crate) use thermocline_lab::metric::{byte_size as bytes, grouped as count};
use thermocline_lab::report::Report;
pub(crate) use thermocline_lab::write_file;

/// Writes a line to standard error.
pub(crate) fn note(text: &str) {
    // Nobody is left to be told that standard error is closed.
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// Writes a report, and says which files were written where the name of one is not the name asked for.
pub(crate) fn write_report(path: &Path, report: &Report) -> Result<()> {
    let written = report.save(path)?;
    if written != [path] {
        let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        note(&format!("charts: {}", names.join(", ")));
    }
    Ok(())
}

/// One JSON value, for standard output.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    text.push('\n');
    Ok(text)
}

/// A table; the columns from `numbers_from` on hold numbers and are aligned to the right.
pub(crate) fn table(
    header: &[impl AsRef<str>],
    rows: &[Vec<String>],
    numbers_from: usize,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    let align = |column: usize, text: &str| {
        let alignment =
            if column < numbers_from { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment)
    };
    let header = header.iter().map(AsRef::as_ref).enumerate();
    table.set_header(header.map(|(column, text)| align(column, text)));
    for row in rows {
        table.add_row(row.iter().enumerate().map(|(column, text)| align(column, text)));
    }
    format!("{table}\n")
}

/// A table of figures, one row per run: first its names, then every metric, the best of each column
/// among rivals marked.
pub(crate) fn figures<S>(
    mut header: Vec<String>,
    names: impl Fn(&S) -> Vec<String>,
    metrics: &[Metric<S>],
    runs: &[S],
    are_rivals: impl Fn(&S, &S) -> bool,
) -> String {
    header.extend(metrics.iter().map(Metric::title_with_unit));
    let row = |run: &S| {
        let rivals: Vec<&S> = runs.iter().filter(|other| are_rivals(run, other)).collect();
        let figures = metrics.iter().map(|metric| {
            let mark = if metric.is_best(run, &rivals) { '*' } else { ' ' };
            metric.value(run).map_or_else(
                || "-  ".to_owned(),
                |value| format!("{} {mark}", (metric.show)(value)),
            )
        });
        names(run).into_iter().chain(figures).collect()
    };
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table(&header, &rows, 1)
}

/// A progress bar over so many `things`: shown on a terminal, and nowhere else.
pub(crate) fn progress(steps: usize, things: &str) -> Result<ProgressBar> {
    let bar = ProgressBar::new(steps as u64);
    let style = format!("{{bar:30}} {{pos}}/{{len}} {things}, {{per_sec}}, {{eta}} left");
    bar.set_style(ProgressStyle::with_template(&style).context("the template is well-formed")?);
    Ok(bar)
}

/// A share in percent with two decimals.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A command line as a shell takes it; the first word is replaced by the program's usual name.
pub(crate) fn command_line(words: &[OsString]) -> String {
    let quote = |word: String| {
        let is_plain =
            |letter: char| letter.is_ascii_alphanumeric() || "-_=./,:%+".contains(letter);
        if !word.is_empty() && word.chars().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let words = words.iter().skip(1).map(|word| quote(word.to_string_lossy().into_owned()));
    ["thermocline".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
