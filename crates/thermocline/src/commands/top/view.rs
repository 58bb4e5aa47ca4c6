//! What `top` shows: rows of figures, of the time since the snapshot before.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};

use thermocline_engine::counters::TRANSFER_FIGURES;
use thermocline_engine::figures::{About, Figure, Kind, Value};

use crate::commands::serve::metrics;
use crate::commands::serve::status::{DeviceStatus, Found, Latency, RecordingStatus, Status};
use crate::output;

/// The figures of the engine's tables side by side.
const ENGINE_COLUMNS: usize = 3;

/// A table of text: a title, a header and rows.
struct Figures {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Draws both snapshots' difference.
pub(super) fn draw(frame: &mut Frame<'_>, before: &Status, now: &Status) {
    let figures = figures(before, now);
    let heights = figures.iter().map(|one| {
        let rows = u16::try_from(one.rows.len()).unwrap_or(u16::MAX);
        Constraint::Length(rows.saturating_add(3))
    });
    let heights = [Constraint::Length(1)].into_iter().chain(heights);
    let areas = Layout::vertical(heights.chain([Constraint::Fill(1)]).collect::<Vec<_>>())
        .split(frame.area());
    frame.render_widget(Paragraph::new(Line::from(headline(now)).bold()), areas[0]);
    for (figures, &area) in figures.into_iter().zip(&areas[1..]) {
        let widths = vec![Constraint::Fill(1); figures.header.len()];
        let rows = figures.rows.into_iter().map(Row::new);
        let table = Table::new(rows, widths)
            .header(Row::new(figures.header).style(Style::new().dim()))
            .block(Block::bordered().title(figures.title));
        frame.render_widget(table, area);
    }
}

/// The same as text.
pub(super) fn text(before: &Status, now: &Status) -> String {
    let mut text = headline(now) + "\n";
    for Figures { title, header, rows } in figures(before, now) {
        text += &format!("{title}\n{}", output::table(&header, &rows, 1));
    }
    text
}

fn words(header: &[&str]) -> Vec<String> {
    header.iter().map(|&word| word.to_owned()).collect()
}

fn headline(status: &Status) -> String {
    let hours = status.uptime_s / 3600.0;
    let held = if status.writes_held { ", writes held: see the log" } else { "" };
    format!(
        "thermocline {}: {}, writes {}, up {hours:.1} h, {} clients{held}",
        status.version, status.policy, status.write_mode, status.clients
    )
}

fn figures(before: &Status, now: &Status) -> Vec<Figures> {
    let seconds = (now.uptime_s - before.uptime_s).max(1e-3);
    let mut figures = vec![
        accesses(before, now, seconds),
        latencies(before, now),
        engine(before, now),
        devices(before, now, seconds),
    ];
    if !now.shadows.is_empty() {
        figures.push(shadows(now));
    }
    figures.extend(now.recording.as_ref().map(recording));
    figures
}

fn accesses(before: &Status, now: &Status, seconds: f64) -> Figures {
    let row = |name: &str, before: Found, now: Found| {
        let total = now.total().saturating_sub(before.total());
        let share = |now: u64, before: u64| {
            let count = now.saturating_sub(before) as f64;
            format!("{:.1} %", count / (total as f64).max(1.0) * 100.0)
        };
        vec![
            name.to_owned(),
            format!("{:.0}", total as f64 / seconds),
            share(now.ram, before.ram),
            share(now.flash, before.flash),
            share(now.disk, before.disk),
            share(now.bypass, before.bypass),
        ]
    };
    Figures {
        title: "Page accesses".into(),
        header: words(&["", "per second", "RAM", "flash", "disk", "bypass"]),
        rows: vec![
            row("reads", before.accesses.read, now.accesses.read),
            row("writes", before.accesses.write, now.accesses.write),
        ],
    }
}

fn latencies(before: &Status, now: &Status) -> Figures {
    let row = |name: &str, before: &Latency, now: &Latency| {
        let since = now.since(before);
        let quantile = |share| since.quantile_s(share).map_or_else(|| "-".into(), time);
        vec![
            name.to_owned(),
            since.count.to_string(),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
        ]
    };
    let [read, write] = [&now.latency.read, &now.latency.write];
    let [read_before, write_before] = [&before.latency.read, &before.latency.write];
    Figures {
        title: "Requests answered, and half, 99 % and 99.9 % of them within".into(),
        header: words(&["", "requests", "50 %", "99 %", "99.9 %"]),
        rows: vec![
            row("reads, RAM", &read_before.ram, &read.ram),
            row("reads, flash", &read_before.flash, &read.flash),
            row("reads, disk", &read_before.disk, &read.disk),
            row("writes, RAM", &write_before.ram, &write.ram),
            row("writes, flash", &write_before.flash, &write.flash),
            row("writes, disk", &write_before.disk, &write.disk),
            row("flushes", &before.flush_latency, &now.flush_latency),
        ],
    }
}

/// Every figure of the engine's tables: its value, and what came since if it is counted.
fn engine(before: &Status, now: &Status) -> Figures {
    let cells: Vec<[String; 2]> = metrics::engine_figures()
        .map(|about| {
            let (before, now) = (before.figures.value(about.key), now.figures.value(about.key));
            let more = match (about.kind, since(before, now)) {
                (Kind::Counter, Some(more)) if more > 0 => {
                    format!(" (+{})", figure(about, more.into()))
                }
                _ => String::new(),
            };
            [title(about), figure(about, now) + &more]
        })
        .collect();
    let length = cells.len().div_ceil(ENGINE_COLUMNS);
    let rows = (0..length).map(|row| {
        let mut row: Vec<String> =
            cells.iter().skip(row).step_by(length).flatten().cloned().collect();
        row.resize(2 * ENGINE_COLUMNS, String::new());
        row
    });
    Figures {
        title: "Engine, since its start (and since the figures before)".into(),
        header: words(&[["", "now"]; ENGINE_COLUMNS].concat()),
        rows: rows.collect(),
    }
}

/// A key without its unit, as words.
fn title(about: &About) -> String {
    about.key.strip_suffix("_bytes").unwrap_or(about.key).replace('_', " ")
}

/// How much more a counter has; none if it is absent.
fn since(before: Value, now: Value) -> Option<u64> {
    match (before, now) {
        (Value::Count(before), Value::Count(now)) => Some(now.saturating_sub(before)),
        _ => None,
    }
}

/// A value with its unit.
fn figure(about: &About, value: Value) -> String {
    let is_bytes = about.key.ends_with("_bytes");
    match value {
        Value::Absent => "-".into(),
        Value::Count(count) if is_bytes => bytes(count as f64),
        Value::Real(value) if is_bytes => bytes(value),
        Value::Count(count) => count.to_string(),
        Value::Real(value) => format!("{value:.3}"),
    }
}

fn devices(before: &Status, now: &Status, seconds: f64) -> Figures {
    let row = |name: &str, before: &DeviceStatus, now: &DeviceStatus| {
        let total = |list: &[(String, u64)]| list.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let rate = |now: &[(String, u64)], before: &[(String, u64)]| {
            format!("{}/s", bytes(total(now).saturating_sub(total(before)) as f64 / seconds))
        };
        let mut cells = vec![
            name.to_owned(),
            rate(&now.read_bytes, &before.read_bytes),
            rate(&now.written_bytes, &before.written_bytes),
            now.queue_depth.to_string(),
        ];
        cells.extend(
            TRANSFER_FIGURES
                .iter()
                .map(|Figure { about, .. }| figure(about, now.figures.value(about.key))),
        );
        cells
    };
    let counted = TRANSFER_FIGURES.iter().map(|Figure { about, .. }| title(about));
    Figures {
        title: "Devices".into(),
        header: words(&["", "read", "written", "queue"]).into_iter().chain(counted).collect(),
        rows: vec![
            row("flash", &before.flash, &now.flash),
            row("backing", &before.backing, &now.backing),
        ],
    }
}

fn shadows(now: &Status) -> Figures {
    let best = now.best_shadow().map(|shadow| shadow.name.as_str());
    let rows = now.shadows.iter().map(|shadow| {
        let mark = if best == Some(&shadow.name) { " (least I/O time)" } else { "" };
        vec![
            format!("{}{mark}", shadow.name),
            format!("{:.1} %", shadow.ram_hit_ratio * 100.0),
            format!("{:.1} %", shadow.flash_hit_ratio * 100.0),
            format!("{:.3}", shadow.flash_writes_per_access),
            format!("{:.3}", shadow.io_ms_per_access),
        ]
    });
    Figures {
        title: format!("Shadows, of {:.1} % of the pages", now.shadow_sample * 100.0),
        header: words(&[
            "",
            "hits in RAM",
            "on flash",
            "flash writes per access",
            "I/O ms per access",
        ]),
        rows: rows.collect(),
    }
}

fn recording(now: &RecordingStatus) -> Figures {
    let state = if now.has_failed { "failed" } else { "goes on" };
    Figures {
        title: format!("Recording to {}: {state}", now.path.display()),
        header: words(&["accesses", "missing", "passed the policy by", "written"]),
        rows: vec![vec![
            now.accesses.to_string(),
            now.missing_accesses.to_string(),
            now.bypasses.to_string(),
            bytes(now.written_bytes as f64),
        ]],
    }
}

fn time(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.0} us", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{seconds:.1} s")
    }
}

fn bytes(number: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates and budgets are positive, and far below 2^64"
    )]
    thermocline_lab::metric::byte_size(number.max(0.0) as u64)
}
