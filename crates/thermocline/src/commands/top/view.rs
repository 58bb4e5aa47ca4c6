//! What `top` shows: rows of figures, of the time since the snapshot before.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};

use crate::commands::serve::status::{DeviceStatus, Found, Latency, RecordingStatus, Status};
use crate::output;

/// A table of text: a title, a header and rows.
struct Figures {
    title: String,
    header: Vec<&'static str>,
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

fn headline(status: &Status) -> String {
    let hours = status.uptime_s / 3600.0;
    format!(
        "thermocline {}: {}, writes {}, up {hours:.1} h, {} clients, {} in flight",
        status.version, status.policy, status.write_mode, status.clients, status.requests_in_flight
    )
}

fn figures(before: &Status, now: &Status) -> Vec<Figures> {
    let seconds = (now.uptime_s - before.uptime_s).max(1e-3);
    let mut figures = vec![
        accesses(before, now, seconds),
        latencies(before, now),
        pages(now),
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
        header: vec!["", "per second", "RAM", "flash", "disk", "bypass"],
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
        header: vec!["", "requests", "50 %", "99 %", "99.9 %"],
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

fn pages(now: &Status) -> Figures {
    let budget = now.write_budget_left_bytes;
    Figures {
        title: "Pages".into(),
        header: vec![
            "dirty",
            "not durable",
            "lost",
            "checksum errors",
            "write budget left",
            "writes",
        ],
        rows: vec![vec![
            now.dirty_pages.to_string(),
            now.undurable_pages.to_string(),
            now.lost_pages.to_string(),
            now.checksum_errors.to_string(),
            budget.map_or_else(|| "no limit".into(), bytes),
            if now.writes_held { "held: see the log".into() } else { "served".into() },
        ]],
    }
}

fn devices(before: &Status, now: &Status, seconds: f64) -> Figures {
    let row = |name: &str, before: &DeviceStatus, now: &DeviceStatus| {
        let total = |list: &[(String, u64)]| list.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let rate = |now: &[(String, u64)], before: &[(String, u64)]| {
            format!("{}/s", bytes(total(now).saturating_sub(total(before)) as f64 / seconds))
        };
        vec![
            name.to_owned(),
            rate(&now.read_bytes, &before.read_bytes),
            rate(&now.written_bytes, &before.written_bytes),
            now.queue_depth.to_string(),
            now.errors.to_string(),
        ]
    };
    Figures {
        title: "Devices".into(),
        header: vec!["", "read", "written", "queue", "errors"],
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
        header: vec!["", "hits in RAM", "on flash", "flash writes per access", "I/O ms per access"],
        rows: rows.collect(),
    }
}

fn recording(now: &RecordingStatus) -> Figures {
    let state = if now.has_failed { "failed" } else { "goes on" };
    Figures {
        title: format!("Recording to {}: {state}", now.path.display()),
        header: vec!["accesses", "missing", "passed the policy by", "written"],
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
