//! The page for people: what an engine does, in tables and sentences, as one HTML document.
//!
//! Every figure is of the same snapshot as `/metrics` or of one that was served there before. The page
//! asks for nothing but itself; a script renews it, and without scripts it is as complete.

mod tables;

use std::path::PathBuf;

use thermocline_core::Tier;
use thermocline_engine::figures::{Kind, Value};
use thermocline_lab::report::{STYLE, escape};

use super::advice::{self, Advice, Rated, duration};
use super::exposition::sample_name;
use super::faults::faults;
use super::history::{DAY_S, History};
use super::metrics::engine_figures;
use super::status::{DeviceStatus, Found, Latency, PerOp, ShadowStatus, Status, Takes};
use crate::output;
use tables::{Table, pair};

const OWN_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

const HOUR_S: f64 = 3600.0;
const YEAR_S: f64 = 365.25 * DAY_S;
/// Less of a day than this says little about a day.
const PROJECTED_S: f64 = 600.0;

/// Facts about the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// The file of its configuration.
    pub(crate) configuration: PathBuf,
    /// Its number.
    pub(crate) id: u32,
}

/// Content of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) status: &'a Status,
    pub(super) history: &'a History,
    pub(super) process: &'a Process,
    /// The names of all volumes; none without `[[volume]]`.
    pub(super) volumes: &'a [&'a str],
    /// When it is made, for people.
    pub(super) date: &'a str,
    /// Nonce by which the browser recognises the page's own script and style.
    pub(super) nonce: &'a str,
}

/// Differences between the newest snapshot and an earlier one.
#[derive(Clone, Copy)]
struct Window<'a> {
    before: &'a Status,
    now: &'a Status,
}

/// Render the page as HTML.
pub(super) fn render(view: &View<'_>) -> String {
    let &View { status, history, nonce, date, .. } = view;
    let hour =
        Window { before: history.hour_before(status).map_or(status, |one| one), now: status };
    let found = faults(status, hour.before, &hour.name());
    let lasting = found.iter().filter(|fault| fault.lasts).count();
    let name = if status.export.is_empty() { String::new() } else { format!(" {}", status.export) };
    let title =
        escape(&format!("Thermocline{name}: {}, writes {}", status.policy, status.write_mode));
    let alarm = if lasting > 0 { format!("({lasting}) ") } else { String::new() };
    let sections = [
        ("faults", "Faults", fault_list(&found)),
        ("hits", "Where pages were found", hits(hour)),
        ("latencies", "How long requests took", latencies(hour)),
        ("tiers", "Tiers", tiers(hour)),
        ("wear", "Wear of the flash", paragraphs(&wear(status, history))),
        ("advice", "What the shadows advise", advised(view)),
        ("figures", "All figures", all_figures(hour)),
    ];
    let sections: String = sections
        .into_iter()
        .map(|(id, heading, body)| {
            format!(
                "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{heading}</h2>\n{body}</section>\n"
            )
        })
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{alarm}{title}</title>\n\
         <style nonce=\"{nonce}\">\n{STYLE}{OWN_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         <p id=\"live\"><span role=\"status\">Reload the page for newer figures.</span> \
         <button type=\"button\" hidden>Pause</button></p>\n\
         {}<div id=\"content\">\n<p>{}</p>\n{sections}</div>\n</main>\n\
         <script nonce=\"{nonce}\">\n{SCRIPT}</script>\n</body>\n</html>\n",
        links(view),
        escape(&summary(status, date))
    )
}

/// Links to the pages of the other volumes, if there are any.
fn links(view: &View<'_>) -> String {
    if view.volumes.len() < 2 {
        return String::new();
    }
    let each = view.volumes.iter().map(|name| {
        let shown = escape(name);
        if *name == view.status.export {
            format!("<strong aria-current=\"page\">{shown}</strong>")
        } else {
            format!("<a href=\"/?volume={shown}\">{shown}</a>")
        }
    });
    let each = each.collect::<Vec<_>>().join(" ");
    format!("<nav aria-label=\"Volumes\"><p>Volumes: {each}</p></nav>\n")
}

fn summary(status: &Status, date: &str) -> String {
    let clients = match status.clients {
        1 => "1 client".to_owned(),
        count => format!("{} clients", output::count(count)),
    };
    format!(
        "Version {}, up {}, {clients}, {} exported in pages of {}. Figures of {date}.",
        status.version,
        duration(status.uptime_s),
        output::bytes(status.size_bytes),
        output::bytes(status.page_bytes)
    )
}

impl Window<'_> {
    fn seconds(self) -> f64 {
        (self.now.uptime_s - self.before.uptime_s).max(1e-3)
    }

    /// Name the period, as in "the last hour".
    fn name(self) -> String {
        let seconds = self.seconds();
        if seconds >= HOUR_S {
            "the last hour".into()
        } else {
            format!("the last {}", duration(seconds))
        }
    }
}

fn paragraphs(sentences: &[String]) -> String {
    sentences.iter().map(|one| format!("<p>{}</p>\n", prose(one))).collect()
}

/// Render a sentence; text between backticks is code.
fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(place, part)| match place % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    });
    parts.collect()
}

fn fault_list(faults: &[super::faults::Fault]) -> String {
    if faults.is_empty() {
        return "<p class=\"good\">None since the start.</p>\n".into();
    }
    let items = faults.iter().map(|fault| {
        let (class, word) = if fault.lasts { ("bad", "Now") } else { ("past", "Since the start") };
        format!("<li><strong class=\"{class}\">{word}:</strong> {}</li>\n", prose(&fault.text))
    });
    format!("<ul>\n{}</ul>\n", items.collect::<String>())
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { output::percent(part as f64 / whole as f64) }
}

fn hits(window: Window<'_>) -> String {
    let table = |caption: &str, PerOp { read, write }: PerOp<Found>| {
        let row = |name: &str, found: Found| {
            let total = found.total();
            let hits = found.ram + found.flash;
            let mut cells = vec![output::count(total), share(hits, total)];
            cells.extend(found.named().map(|(_, count)| share(count, total)));
            (name.to_owned(), cells)
        };
        Table {
            caption,
            header: &["pages", "accesses", "hits", "RAM", "flash", "disk", "bypass"],
            rows: vec![row("read", read), row("written", write), row("all", read.and(&write))],
        }
        .to_html()
    };
    let (now, before) = (window.now.accesses, window.before.accesses);
    let last = PerOp { read: now.read.since(&before.read), write: now.write.since(&before.write) };
    pair(&table("Since the start", now), &table(&capital(&window.name()), last))
}

fn latencies(window: Window<'_>) -> String {
    let Window { now, before } = window;
    let mut rows: Vec<(String, Latency, Latency)> = vec![];
    for (op, now, before) in [
        ("read", &now.latency.read, &before.latency.read),
        ("write", &now.latency.write, &before.latency.write),
    ] {
        let tiers = now.named().into_iter().zip(before.named());
        rows.extend(tiers.map(|((tier, now), (_, before))| {
            // As in the other tables.
            let tier = if tier == "ram" { "RAM" } else { tier };
            (format!("{op}, {tier}"), *now, *before)
        }));
    }
    rows.push(("flush".into(), now.flush_latency, before.flush_latency));
    let table = |caption: &str, of: fn(&Latency, &Latency) -> Latency| {
        let row = |(name, now, before): &(String, Latency, Latency)| {
            let times = of(now, before);
            let within = |share| match times.quantile_s(share) {
                Some(seconds) => output::time(seconds),
                None if times.count == 0 => "-".into(),
                None => format!("> {}", output::time(Latency::longest_s())),
            };
            let mean = times.mean_s().map_or_else(|| "-".into(), output::time);
            let cells =
                vec![output::count(times.count), mean, within(0.5), within(0.99), within(0.999)];
            (name.clone(), cells)
        };
        let header = &["requests", "count", "mean", "50 % within", "99 % within", "99.9 % within"];
        Table { caption, header, rows: rows.iter().map(row).collect() }.to_html()
    };
    let note = "<p>By the slowest tier that a request needed. The times are bounds of classes, each twice \
                the one before.</p>\n";
    let last = table(&capital(&window.name()), Latency::since);
    format!("{note}{}", pair(&table("Since the start", |now, _| *now), &last))
}

fn tiers(window: Window<'_>) -> String {
    let Window { now, before } = window;
    let seconds = window.seconds();
    let capacity = |tier: Tier| {
        let pages = now.capacity_pages[tier.index()];
        format!("{} ({} pages)", output::bytes(pages * now.page_bytes), output::count(pages))
    };
    let device = |name: &str, holds: String, now: &DeviceStatus, before: &DeviceStatus| {
        let (total, earlier) = (now.transferred_bytes(), before.transferred_bytes());
        let rate = |direction: usize| {
            let bytes = total[direction].saturating_sub(earlier[direction]) as f64 / seconds;
            format!("{}/s", output::whole_bytes(bytes))
        };
        let cells = vec![
            holds,
            output::bytes(total[0]),
            rate(0),
            output::bytes(total[1]),
            rate(1),
            output::count(now.queue_depth),
            output::count(now.figures.count("errors")),
        ];
        (name.to_owned(), cells)
    };
    let ram = [capacity(Tier::RAM)].into_iter().chain([(); 6].map(|()| "-".to_owned())).collect();
    let mut rows = vec![("RAM".to_owned(), ram)];
    if now.is_flash_configured {
        let holds = if now.has_flash { capacity(Tier::FLASH) } else { "not in use".to_owned() };
        rows.push(device("flash", holds, &now.flash, &before.flash));
    }
    rows.push(device(
        "backing store",
        output::bytes(now.size_bytes),
        &now.backing,
        &before.backing,
    ));
    let [reads, writes] =
        ["read", "written"].map(|word| format!("{word} a second, {}", window.name()));
    let table = Table {
        caption: "Tiers and their devices",
        header: &["tier", "holds", "read", &reads, "written", &writes, "in flight", "errors"],
        rows,
    };
    let pages = |key: &str| {
        let pages = now.figures.count(key);
        format!("{} ({})", output::count(pages), output::bytes(pages * now.page_bytes))
    };
    let dirty = now.figures.count("dirty_pages");
    let of_flash = match now.capacity_pages[Tier::FLASH.index()] {
        0 => String::new(),
        pages => format!(", {} of the flash's pages", share(dirty, pages)),
    };
    let sentences = [
        format!(
            "Dirty pages, newer on flash than on the backing store: {}{of_flash}.",
            pages("dirty_pages")
        ),
        format!("Pages that only RAM has, until the next flush: {}.", pages("undurable_pages")),
    ];
    table.to_html() + &paragraphs(&sentences)
}

/// Describe the wear of the flash in sentences.
fn wear(status: &Status, history: &History) -> Vec<String> {
    if !status.is_flash_configured {
        return vec!["There is no flash.".into()];
    }
    let written = status.figures.count("flash_lifetime_written_bytes");
    let mut sentences =
        vec![format!("Written since it was set up as a cache: {}.", output::bytes(written))];
    let mut bytes_per_second = None;
    if let Some(first) = history.day(status).next() {
        let seconds = status.uptime_s - first.uptime_s;
        let bytes = written.saturating_sub(first.flash_written_bytes);
        if seconds >= PROJECTED_S {
            let rate = bytes as f64 / seconds;
            sentences.push(format!(
                "In the last {}: {}, a rate of {} a day.",
                duration(seconds),
                output::bytes(bytes),
                output::whole_bytes(rate * DAY_S)
            ));
            bytes_per_second = Some(rate);
        }
    }
    let rated = status.flash_rated_written_bytes;
    sentences.push(match (rated, bytes_per_second) {
        (None, _) => "How long it lasts is unknown: give what its data sheet allows, as \
                      `rated_writes = \"600TB\"` in the section [flash], and reload."
            .into(),
        (Some(rated), rate) => life(rated, written, rate),
    });
    if let Some(left) = status.figures.real("write_budget_left_bytes") {
        let sign = if left < 0.0 { "-" } else { "" };
        sentences
            .push(format!("Left of the write budget: {sign}{}.", output::whole_bytes(left.abs())));
    }
    sentences
}

/// Say how long a flash lasts that is rated for so many bytes in all.
fn life(rated: u64, written: u64, bytes_per_second: Option<f64>) -> String {
    let used = share(written, rated);
    let rated_bytes = output::bytes(rated);
    let left = rated.saturating_sub(written) as f64;
    let rest = match bytes_per_second {
        _ if left <= 0.0 => "That is all it is rated for: replace it.".to_owned(),
        None => "Ten minutes after the start this says how long the rest lasts.".into(),
        Some(rate) if rate <= 0.0 => "Nothing is written now, so no end is in sight.".into(),
        Some(rate) => {
            let years = left / rate / YEAR_S;
            let time = match years {
                _ if years > 100.0 => "more than 100 years".to_owned(),
                _ if years >= 2.0 => format!("{years:.1} years"),
                _ if years >= 0.25 => format!("{:.0} months", years * 12.0),
                _ => duration(years * YEAR_S),
            };
            format!("At this rate the rest lasts {time}, if nothing else writes to the device.")
        }
    };
    format!("It is rated for {rated_bytes}, of which {used} are used. {rest}")
}

fn advised(view: &View<'_>) -> String {
    let &View { status, history, process, .. } = view;
    let Advice { sentences, adopt, rated, window } = advice::advice(history, status);
    let mut html = String::new();
    if let Some((first, rest)) = sentences.split_first() {
        html += &format!(
            "<div class=\"answer\">\n<p><strong>{}</strong></p>\n{}</div>\n",
            prose(first),
            paragraphs(rest)
        );
    }
    if let Some(shadow) = adopt {
        html += &change(shadow, process);
    }
    if status.shadows.is_empty() {
        return html;
    }
    let in_window = |one: &Rated<'_>| {
        let saving = one.saving.map_or_else(
            || "-".to_owned(),
            |saving| {
                let shares = [saving.share, saving.low, saving.high];
                let [share, low, high] = shares.map(|share| saving.percent(share));
                format!("{share} % ({low} to {high})")
            },
        );
        [format!("{:.3}", one.io_ms), format!("{:.3}", one.flash_writes), saving]
    };
    let row = |(place, shadow): (usize, &ShadowStatus)| {
        let runs = if shadow.adoption.takes == Takes::Nothing { " (runs)" } else { "" };
        let mut cells = vec![
            output::percent(shadow.ram_hit_ratio),
            output::percent(shadow.flash_hit_ratio),
            format!("{:.3}", shadow.flash_writes_per_access),
            format!("{:.3}", shadow.io_ms_per_access),
        ];
        cells.extend(rated.get(place).into_iter().flat_map(in_window));
        (format!("{}{runs}", shadow.name), cells)
    };
    let [io, writes] = ["I/O ms an access", "flash writes an access"];
    let [io_lately, writes_lately] = [io, writes].map(|word| format!("{word}, {window}"));
    let mut header = vec!["shadow", "hits in RAM", "hits on flash", writes, io];
    if !rated.is_empty() {
        header.extend([&*io_lately, &*writes_lately, "less I/O time (likely range)"]);
    }
    let since = status.uptime_s - status.shadow_start_s;
    let caption = format!(
        "Shadows of up to {} of the pages, since they began {} ago",
        output::percent(status.shadow_sample),
        duration(since)
    );
    let rows = status.shadows.iter().enumerate().map(row).collect();
    let table = Table { caption: &caption, header: &header, rows };
    let note = "I/O time is that of all transfers with the cost model's devices. The likely range is that \
                of 95 % over times like these; it does not know what the sample of pages leaves out.";
    format!("{html}{}<p>{note}</p>\n", table.to_html())
}

/// Describe the change of the configuration that puts a shadow in force, and how the server takes it over.
fn change(shadow: &ShadowStatus, process: &Process) -> String {
    let file = process.configuration.display().to_string();
    let words = ["thermocline", "serve", "--check", &file].map(Into::into);
    let check = output::command_line(&words);
    let (edit, commands) = if shadow.adoption.takes == Takes::Restart {
        (
            "set these keys, and leave the others of their sections",
            format!("{check} &&\nkill -TERM {}", process.id),
        )
    } else {
        (
            "put this in the place of the section [policy]",
            format!("{check} &&\nkill -HUP {}", process.id),
        )
    };
    let then = if shadow.adoption.takes == Takes::Restart {
        "Check it and end the server, and start it again:"
    } else {
        "Check it, and have the server read it again; pages stay cached:"
    };
    format!(
        "<p>To have <code>{}</code>: in <code>{}</code>, {edit}:</p>\n<pre><code>{}</code></pre>\n\
         <p>{then}</p>\n<pre><code>{}</code></pre>\n",
        escape(&shadow.name),
        escape(&file),
        escape(&shadow.adoption.configuration),
        escape(&commands)
    )
}

fn all_figures(window: Window<'_>) -> String {
    let Window { now, before } = window;
    let number = |value: Value| match value {
        Value::Absent => "-".to_owned(),
        Value::Count(count) => output::count(count),
        Value::Real(value) => format!("{value:.3}"),
    };
    let rows = engine_figures().map(|about| {
        let (value, earlier) = (now.figures.value(about.key), before.figures.value(about.key));
        let newer = match (about.kind, value, earlier) {
            (Kind::Counter, Value::Count(now), Value::Count(before)) => {
                output::count(now.saturating_sub(before))
            }
            _ => "-".to_owned(),
        };
        (sample_name(about), vec![number(value), newer, about.help.to_owned()])
    });
    let last = window.name();
    let table = Table {
        caption: "The engine's own figures",
        header: &["metric", "now", &last, "meaning"],
        rows: rows.collect(),
    };
    format!(
        "<p>For programs: <a href=\"/metrics\">/metrics</a> (Prometheus), <a href=\"/status\">/status</a> \
         and <a href=\"/shadows\">/shadows</a> (JSON).</p>\n<details>\n<summary>The engine's own \
         figures</summary>\n{}</details>\n",
        table.to_html()
    )
}

fn capital(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(initial) = text.get_mut(..1) {
        initial.make_ascii_uppercase();
    }
    text
}

#[cfg(test)]
mod tests;
