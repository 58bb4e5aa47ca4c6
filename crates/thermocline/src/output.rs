//! Tables, numbers and files, as every command writes them.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use thermocline_lab::metric::Metric;
pub(crate) use thermocline_lab::metric::{byte_size as bytes, grouped as count};
use thermocline_lab::report::Report;
pub(crate) use thermocline_lab::write_file;

/// Writes a line to standard error.
pub(crate) fn note(text: &str) {
    // Nobody is left to be told that standard error is closed.
    drop(writeln!(io::stderr(), "{text}"));
}

/// Prints a result, if it can; that the reader has had enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> bool {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => true,
        Err(error) => {
            note(&format!("error: cannot write to standard output: {error}"));
            false
        }
    }
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

/// Format one JSON value, for standard output.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    text.push('\n');
    Ok(text)
}

/// Return a table; the columns from `numbers_from` on hold numbers and are aligned to the right.
///
/// On a terminal it is as wide as that: texts and titles are wrapped, and where that is not enough, the
/// last columns are left out, and named below. Anywhere else it is complete.
pub(crate) fn table(
    header: &[impl AsRef<str>],
    rows: &[Vec<String>],
    numbers_from: usize,
) -> String {
    let header: Vec<&str> = header.iter().map(AsRef::as_ref).collect();
    fitted(&header, rows, numbers_from, terminal_columns())
}

/// Return the number of letters a line of the terminal has, if standard output is one.
fn terminal_columns() -> Option<usize> {
    let columns = Table::new().width().map(usize::from);
    let wanted = || std::env::var("COLUMNS").ok()?.parse().ok();
    columns.map(|columns| wanted().unwrap_or(columns))
}

/// Format a table of lines of at most `letters` letters, as far as that is possible.
fn fitted(
    header: &[&str],
    rows: &[Vec<String>],
    numbers_from: usize,
    letters: Option<usize>,
) -> String {
    let Some(letters) = letters else { return arranged(header, rows, numbers_from, None) };
    let least = |column: usize| {
        let cells = rows.iter().map(|row| row[column].as_str());
        let cells =
            cells.map(|cell| if column < numbers_from { longest(cell) } else { cell.len() });
        cells.chain([longest(header[column])]).max().unwrap_or(0)
    };
    let least: Vec<usize> = (0..header.len()).map(least).collect();
    // Each column has a blank on both sides and a bar; the first one has two bars.
    let width = |columns: usize| least[..columns].iter().map(|least| least + 3).sum::<usize>() + 1;
    let fits = |&columns: &usize| width(columns) <= letters;
    let shown = (2..=header.len()).rev().find(fits).unwrap_or(header.len().min(2));
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row[..shown].to_vec()).collect();
    let text = arranged(&header[..shown], &rows, numbers_from, Some((letters, &least)));
    if shown == header.len() {
        return text;
    }
    let left_out = format!(
        "left out on this terminal of {letters} columns, and shown by `| cat` and --json: {}",
        header[shown..].join("; ")
    );
    text + &wrapped(&left_out, letters).join("\n") + "\n"
}

/// Return the letters of the longest word.
fn longest(text: &str) -> usize {
    text.split_whitespace().map(str::len).max().unwrap_or(0)
}

/// Return a table; `bounds` are the letters of a line, and the least ones of each column.
fn arranged(
    header: &[&str],
    rows: &[Vec<String>],
    numbers_from: usize,
    bounds: Option<(usize, &[usize])>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let align = |column: usize, text: &str| {
        let alignment =
            if column < numbers_from { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment)
    };
    table.set_header(header.iter().enumerate().map(|(column, text)| align(column, text)));
    for row in rows {
        table.add_row(row.iter().enumerate().map(|(column, text)| align(column, text)));
    }
    if let Some((letters, least)) = bounds {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(letters).unwrap_or(u16::MAX));
        for (column, &least) in table.column_iter_mut().zip(least) {
            // With the blanks on both sides.
            let least = u16::try_from(least + 2).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
    }
    format!("{table}\n")
}

/// Wrap a text to lines of at most `letters` letters; longer words are not broken.
pub(crate) fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= letters {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Return a table of figures, one row per run: first its names, then every metric, the best of each
/// column among rivals marked.
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

/// Create a progress bar over `steps` `things`: shown on a terminal, and nowhere else.
pub(crate) fn progress(steps: usize, things: &str) -> Result<ProgressBar> {
    let bar = ProgressBar::new(steps as u64);
    let style = format!("{{bar:30}} {{pos}}/{{len}} {things}, {{per_sec}}, {{eta}} left");
    bar.set_style(ProgressStyle::with_template(&style).context("the template is well-formed")?);
    Ok(bar)
}

/// Return a share in percent with two decimals.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Return a number of bytes that was computed, of at least 0.
pub(crate) fn whole_bytes(number: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates and budgets are positive, and far below 2^64"
    )]
    bytes(number.max(0.0) as u64)
}

/// Return a short time, in the unit that reads best.
pub(crate) fn time(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.0} us", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{seconds:.1} s")
    }
}

/// Return a command line as a shell takes it; the first word is replaced by the program's usual
/// name.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(header: &[&str], rows: &[Vec<String>], letters: Option<usize>) -> Vec<String> {
        fitted(header, rows, 1, letters).lines().map(str::to_owned).collect()
    }

    #[test]
    fn tables_fit_a_terminal_and_are_complete_elsewhere() {
        let header =
            ["policy", "ram pages", "Total I/O time, s", "Hits in RAM, %", "Disk reads, pages"];
        let row = ["lru-exclusive", "1,000,777", "1234567.2 *", "40.20  ", "96,131,000 *"];
        let rows = vec![row.map(str::to_owned).to_vec()];
        let complete = lines(&header, &rows, None);
        assert_eq!(complete.len(), 3, "a line for each row: {complete:#?}");
        for columns in [50, 60, 70, 80, 100, 200] {
            let shown = lines(&header, &rows, Some(columns));
            assert!(shown.iter().all(|line| line.len() <= columns), "{columns}: {shown:#?}");
            let text = shown.join(" ");
            let is_whole = columns >= 70;
            assert!(text.contains("lru-exclusive") && text.contains("1234567.2 *"), "{text}");
            assert_eq!(text.contains("96,131,000 *"), is_whole, "{columns}: {shown:#?}");
            assert_eq!(text.contains("--json: "), !is_whole, "{columns}: {shown:#?}");
            // The text names the columns that are left out.
            assert!(text.contains("Disk") && text.contains("reads"), "{text}");
        }
        assert_eq!(lines(&header, &rows, Some(200)), complete);
        let narrow = lines(&header, &rows, Some(10));
        assert!(narrow.join("").contains("1,000,777"), "two columns stay: {narrow:#?}");
    }

    #[test]
    fn texts_are_wrapped() {
        let rows = vec![vec!["tac".into(), "a long text of many short words, and more".into()]];
        let shown = fitted(&["name", "what it is"], &rows, 2, Some(30));
        assert!(shown.lines().all(|line| line.len() <= 30), "{shown}");
        assert!(shown.contains("more") && !shown.contains("left out"), "{shown}");
    }
}
