//! Tables of `top`: figures since the start and since the snapshot before.

use ratatui::style::Stylize as _;
use ratatui::text::Line;
use thermocline_engine::counters::TRANSFER_FIGURES;
use thermocline_engine::figures::{About, Figure, Kind, Value};

use crate::commands::serve::faults::faults;
use crate::commands::serve::metrics;
use crate::commands::serve::status::{DeviceStatus, Found, Latency, RecordingStatus, Status};
use crate::output;

/// The figures of the engine's tables side by side, at most.
const ENGINE_COLUMNS_MAX: usize = 3;
/// Letters of a shadow's name that are shown.
const NAME_MAX: usize = 30;

/// A table of text: a title, a header and rows. The first column names the rows.
struct Figures {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Return everything below the headline as lines of a terminal of that width.
pub(super) fn lines(before: &Status, now: &Status, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![];
    for fault in faults(now, before, "the last interval") {
        let mark = if fault.lasts { "NOW: " } else { "Since the start: " };
        let wrapped = wrap(&format!("{mark}{}", fault.text), width).into_iter().map(Line::from);
        lines.extend(wrapped.map(|line| if fault.lasts { line.red() } else { line.yellow() }));
    }
    let engine = (1..=ENGINE_COLUMNS_MAX).rev().map(|columns| engine(before, now, columns));
    let engine = engine.reduce(|widest, next| if widest.fits(width) { widest } else { next });
    for figures in tables(before, now, engine) {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::from(cut(&figures.title, width)).bold());
        lines.push(Line::from(figures.line(&figures.header)).dim());
        lines.extend(figures.rows.iter().map(|row| Line::from(figures.line(row))));
    }
    lines
}

/// Return the same as text.
pub(super) fn text(before: &Status, now: &Status) -> String {
    let mut text = headline(now) + "\n";
    for fault in faults(now, before, "the last interval") {
        text += &format!("{}\n", fault.text);
    }
    for Figures { title, header, rows } in tables(before, now, Some(engine(before, now, 1))) {
        text += &format!("{title}\n{}", output::table(&header, &rows, 1));
    }
    text
}

impl Figures {
    /// Return the width of each column.
    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.header.len()];
        for row in self.rows.iter().chain([&self.header]) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    fn fits(&self, width: usize) -> bool {
        let widths = self.widths();
        widths.iter().sum::<usize>() + widths.len() - 1 <= width
    }

    /// Return a row with its cells below each other: names to the left, figures to the right.
    fn line(&self, row: &[String]) -> String {
        let cells = row.iter().zip(self.widths()).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join(" ")
    }
}

/// Text in lines of at most that many letters, cut between words where there are any.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(cut(word, width)),
        }
    }
    lines
}

fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

fn words(header: &[&str]) -> Vec<String> {
    header.iter().map(|&word| word.to_owned()).collect()
}

pub(super) fn headline(status: &Status) -> String {
    let hours = status.uptime_s / 3600.0;
    format!(
        "thermocline {}: {}, writes {}, up {hours:.1} h, {} clients",
        status.version, status.policy, status.write_mode, status.clients
    )
}

fn tables(before: &Status, now: &Status, engine: Option<Figures>) -> Vec<Figures> {
    let seconds = (now.uptime_s - before.uptime_s).max(1e-3);
    let mut figures = vec![accesses(before, now, seconds), latencies(before, now, seconds)];
    figures.extend(engine);
    figures.push(devices(before, now, seconds));
    if !now.shadows.is_empty() {
        figures.push(shadows(now));
    }
    figures.extend(now.recording.as_ref().map(recording));
    figures
}

fn accesses(before: &Status, now: &Status, seconds: f64) -> Figures {
    let row = |name: String, found: Found, seconds: f64| {
        let total = found.total();
        let share = |count: u64| {
            if total == 0 {
                "-".into()
            } else {
                format!("{:.1} %", count as f64 / total as f64 * 100.0)
            }
        };
        let mut row = vec![name, output::count(total), format!("{:.0}", total as f64 / seconds)];
        row.extend(found.named().map(|(_, count)| share(count)));
        row
    };
    let mut rows = vec![];
    for (name, now_found, before_found) in [
        ("reads", now.accesses.read, before.accesses.read),
        ("writes", now.accesses.write, before.accesses.write),
    ] {
        rows.push(row(format!("{name} since the start"), now_found, now.uptime_s.max(1e-3)));
        rows.push(row(
            format!("{name}, last {seconds:.1} s"),
            now_found.since(&before_found),
            seconds,
        ));
    }
    Figures {
        title: "Page accesses, and where pages were found".into(),
        header: words(&["", "accesses", "a second", "RAM", "flash", "disk", "bypass"]),
        rows,
    }
}

fn latencies(before: &Status, now: &Status, seconds: f64) -> Figures {
    let row = |name: &str, before: &Latency, now: &Latency| {
        let times = |latency: &Latency| {
            let quantile =
                |share| latency.quantile_s(share).map_or_else(|| "-".into(), output::time);
            let mut cells = vec![output::count(latency.count)];
            cells.extend([0.5, 0.99, 0.999].map(quantile));
            cells
        };
        let mut row = vec![name.to_owned()];
        row.extend(times(now));
        row.extend(times(&now.since(before)));
        row
    };
    let [read, write] = [&now.latency.read, &now.latency.write];
    let [read_before, write_before] = [&before.latency.read, &before.latency.write];
    let last = format!("in {seconds:.1} s");
    Figures {
        title: "Requests answered since the start, and lately; 50, 99 and 99.9 % within".into(),
        header: words(&["", "requests", "50 %", "99 %", "99.9 %", &last, "50 %", "99 %", "99.9 %"]),
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

/// Return every figure of the engine's tables: its value, and what came since if it is counted.
fn engine(before: &Status, now: &Status, columns: usize) -> Figures {
    let cells: Vec<[String; 3]> = metrics::engine_figures()
        .map(|about| {
            let (before, now) = (before.figures.value(about.key), now.figures.value(about.key));
            let newer = match (about.kind, since(before, now)) {
                (Kind::Counter, Some(newer)) => format!("+{}", figure(about, newer.into())),
                _ => String::new(),
            };
            [title(about), figure(about, now), newer]
        })
        .collect();
    let length = cells.len().div_ceil(columns);
    let header = ["", "now", "lately"];
    let rows = (0..length).map(|row| {
        let mut row: Vec<String> =
            cells.iter().skip(row).step_by(length).flatten().cloned().collect();
        row.resize(header.len() * columns, String::new());
        row
    });
    let rows = rows.collect();
    Figures { title: "Engine".into(), header: words(&header.repeat(columns)), rows }
}

/// Return a key without its unit, as words.
fn title(about: &About) -> String {
    about.key.strip_suffix("_bytes").unwrap_or(about.key).replace('_', " ")
}

/// Return the increase of a counter; `None` if it is absent.
fn since(before: Value, now: Value) -> Option<u64> {
    match (before, now) {
        (Value::Count(before), Value::Count(now)) => Some(now.saturating_sub(before)),
        _ => None,
    }
}

/// Return a value with its unit.
fn figure(about: &About, value: Value) -> String {
    let is_bytes = about.key.ends_with("_bytes");
    match value {
        Value::Absent => "-".into(),
        Value::Count(count) if is_bytes => output::bytes(count),
        Value::Real(value) if is_bytes => output::whole_bytes(value),
        Value::Count(count) => output::count(count),
        Value::Real(value) => format!("{value:.3}"),
    }
}

fn devices(before: &Status, now: &Status, seconds: f64) -> Figures {
    let devices = [(&before.flash, &now.flash), (&before.backing, &now.backing)];
    let row = |name: &str, cells: &dyn Fn(&DeviceStatus, &DeviceStatus) -> [String; 2]| {
        let mut row = vec![name.to_owned()];
        row.extend(devices.iter().flat_map(|(before, now)| cells(before, now)));
        row
    };
    let transferred = |direction: usize| {
        move |before: &DeviceStatus, now: &DeviceStatus| {
            let (total, earlier) = (now.transferred_bytes(), before.transferred_bytes());
            let newer = total[direction].saturating_sub(earlier[direction]) as f64 / seconds;
            [output::bytes(total[direction]), format!("{}/s", output::whole_bytes(newer))]
        }
    };
    let mut rows = vec![
        row("read", &transferred(0)),
        row("written", &transferred(1)),
        row("operations in flight", &|_, now| [output::count(now.queue_depth), String::new()]),
    ];
    rows.extend(TRANSFER_FIGURES.iter().map(|Figure { about, .. }| {
        row(&title(about), &|before, now| {
            let (before, now) = (before.figures.value(about.key), now.figures.value(about.key));
            let newer = since(before, now).map(|newer| format!("+{}", figure(about, newer.into())));
            [figure(about, now), newer.unwrap_or_default()]
        })
    }));
    Figures {
        title: "Devices".into(),
        header: words(&["", "flash", "lately", "backing", "lately"]),
        rows,
    }
}

fn shadows(now: &Status) -> Figures {
    let best = now.best_shadow().map(|shadow| shadow.name.as_str());
    let rows = now.shadows.iter().map(|shadow| {
        let mark = if best == Some(&shadow.name) { "*" } else { "" };
        vec![
            format!("{}{mark}", cut(&shadow.name, NAME_MAX)),
            format!("{:.1} %", shadow.ram_hit_ratio * 100.0),
            format!("{:.1} %", shadow.flash_hit_ratio * 100.0),
            format!("{:.3}", shadow.flash_writes_per_access),
            format!("{:.3}", shadow.io_ms_per_access),
        ]
    });
    let sample = output::percent(now.shadow_sample);
    Figures {
        title: format!("Shadows, of up to {sample} of the pages; * least I/O time"),
        header: words(&["", "RAM hits", "flash hits", "flash writes", "I/O ms an access"]),
        rows: rows.collect(),
    }
}

fn recording(now: &RecordingStatus) -> Figures {
    let state = if now.has_failed { "failed" } else { "goes on" };
    Figures {
        title: format!("Recording to {}: {state}", now.path.display()),
        header: words(&["", "accesses", "missing", "passed by", "written"]),
        rows: vec![vec![
            String::new(),
            output::count(now.accesses),
            output::count(now.missing_accesses),
            output::count(now.bypasses),
            output::bytes(now.written_bytes),
        ]],
    }
}
