//! The answer as a page: sentences, a table, and the commands.

use std::iter;

use anyhow::Result;
use serde::Serialize;
use thermocline_lab::advising::{Advice, Forecast, NoCache, Range, months};
use thermocline_lab::report::{Cell, Report, Table};

use super::have::Commands;
use crate::arguments::AdviceFormat;
use crate::output;

/// The JSON.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    advice: &'a Advice,
    commands: &'a Commands,
}

/// Writes the answer.
pub(super) fn show(
    advice: &Advice,
    commands: &Commands,
    name: &str,
    format: AdviceFormat,
) -> Result<String> {
    match format {
        AdviceFormat::Json => output::json(&Answer { advice, commands }),
        AdviceFormat::Text => Ok(text(advice, commands)),
        AdviceFormat::Shell => Ok(shell(advice, commands)),
        AdviceFormat::Html => Ok(html(advice, commands, name)),
    }
}

fn text(advice: &Advice, commands: &Commands) -> String {
    let mut text = String::new();
    for sentence in advice.sentences.iter().chain(&advice.doubts) {
        text += sentence;
        text.push('\n');
    }
    text.push('\n');
    text += &output::table(&HEADER, &rows(advice), 2);
    if !commands.text.is_empty() {
        text.push('\n');
        text += &commands.text;
    }
    text
}

/// Return the commands, behind comments that say why.
fn shell(advice: &Advice, commands: &Commands) -> String {
    let mut text = String::from("#!/bin/sh\n");
    for sentence in advice.sentences.iter().chain(&advice.doubts) {
        text += "# ";
        text += sentence;
        text.push('\n');
    }
    text.push('\n');
    text += &commands.text;
    text
}

fn html(advice: &Advice, commands: &Commands, name: &str) -> String {
    let mut report = Report::new(&format!("Advice for {name}"));
    for sentence in advice.sentences.iter().chain(&advice.doubts) {
        report.paragraph(sentence);
    }
    let rows = rows(advice).into_iter().map(|row| row.iter().map(Cell::text).collect());
    report.table(Table { header: HEADER.map(String::from).to_vec(), rows: rows.collect() });
    if !commands.text.is_empty() {
        report.heading("What to type");
        report.code(&commands.text);
    }
    report.to_html()
}

const HEADER: [&str; 8] = [
    "cache",
    "settings",
    "flash",
    "hits",
    "read, ms",
    "write, ms",
    "flash written a day",
    "flash lasts",
];

/// Return the disk alone, today, the best of each kind, and the best at other sizes.
fn rows(advice: &Advice) -> Vec<Vec<String>> {
    let mark = |place: usize| if advice.recommended == Some(place) { " *" } else { "" };
    let today = advice.today.iter().map(|one| row(one, " (today)"));
    let kinds = advice.kinds.iter().enumerate().map(|(place, one)| row(&one.forecast, mark(place)));
    let more_ram = advice.more_ram.iter().map(|one| row(one, " (twice the RAM)"));
    let sizes = advice
        .sizes
        .iter()
        .filter(|size| advice.kinds.iter().all(|one| one.forecast.flash_bytes != size.flash_bytes));
    iter::once(no_cache(advice.no_cache))
        .chain(today)
        .chain(kinds)
        .chain(sizes.map(|one| row(one, "")))
        .chain(more_ram)
        .collect()
}

fn no_cache(NoCache { read_ms, write_ms, .. }: NoCache) -> Vec<String> {
    let figures = ["0.0 %".into(), ms(read_ms), ms(write_ms), "-".into(), "-".into()];
    ["no cache".into(), "-".into(), "-".into()].into_iter().chain(figures).collect()
}

fn row(forecast: &Forecast, mark: &str) -> Vec<String> {
    let settings: Vec<String> = forecast
        .parameters
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    vec![
        format!("{}{mark}", forecast.name),
        if settings.is_empty() { "defaults".into() } else { settings.join(" ") },
        output::bytes(forecast.flash_bytes),
        between(forecast.hit_ratio, |share| format!("{:.1} %", 100.0 * share)),
        between(forecast.read_ms, ms),
        optional(forecast.write_ms, ms),
        optional(forecast.flash_bytes_written_per_day, bytes),
        optional(forecast.life_months, months),
    ]
}

fn ms(ms: f64) -> String {
    format!("{ms:.2}")
}

fn optional(range: Option<Range>, show: impl Fn(f64) -> String) -> String {
    range.map_or_else(|| "-".into(), |range| between(range, show))
}

fn between(range: Range, show: impl Fn(f64) -> String) -> String {
    let [estimate, low, high] = [range.estimate, range.low, range.high].map(show);
    if low == high { estimate } else { format!("{estimate} ({low} to {high})") }
}

fn bytes(bytes: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and sizes are not negative"
    )]
    let whole = bytes as u64;
    output::bytes(whole)
}
