//! The report of a plan: what to buy, what else is on the front, and what is not recommended.

use super::purchase::Purchase;
use super::{Cell, Options, Point, Report, ScatterChart};
use crate::metric::{byte_size, grouped};
use crate::planning::{Choice, Objective, Plan};
use crate::verdict;

/// Return the report of one plan.
pub fn plan(found: &Plan, options: &Options) -> Report {
    let objective = found.objective.words();
    let reason = found.objective_reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let basis = format!(
        "{}: {} page accesses, {} distinct pages of {} bytes. At most {} {} for RAM, flash and disk, of which the disk takes {:.4}.",
        found.trace.path,
        grouped(found.trace.accesses),
        grouped(found.trace.footprint_pages),
        found.trace.page_size_bytes,
        found.budget,
        found.currency,
        found.disk_cost,
    );
    let objective = format!("The best is chosen by {objective}{reason}. {}", found.arrivals());
    let front = found.front.iter().enumerate();
    let front = front.map(|(place, choice)| row(found, choice, place == found.chosen));
    let struck_out = found.struck_out.iter().map(|one| {
        let mut cells = row(found, &one.choice, false);
        cells[0] = Cell::struck_out(one.choice.policy.label());
        cells.push(Cell::text(&one.reason));
        cells
    });
    let method = format!(
        "{} candidates were simulated in miniature and {} in full, with devices that queue; flash is a `{}` of the size that is bought.",
        grouped(found.candidates as u64),
        grouped(found.simulated as u64),
        found.flash_drive,
    );
    let parts = Purchase {
        answer: verdict::plan(found),
        basis: vec![basis, objective],
        chart: chart(found),
        definitions: definitions(found).into(),
        header: header(found),
        front: front.collect(),
        struck_out: struck_out.collect(),
        why_struck_out: "These are cheaper or better than some of the above, and each has a fault.",
        method,
    };
    parts.report(options)
}

/// Cost and the figure that is asked for.
fn chart(found: &Plan) -> ScatterChart {
    let (title, scale) = match found.objective {
        Objective::P99 => ("99 % of requests within, us".to_owned(), 1.0),
        Objective::IoTime => ("I/O time, s".into(), 1e-3),
        Objective::CostPerIo => (format!("{} per I/O/s", found.currency), 1.0),
    };
    let size = |pages: u64| byte_size(pages * found.trace.page_size_bytes);
    let point = |choice: &Choice| {
        let flash = match choice.flash_pages {
            0 => String::new(),
            pages => format!(", flash {}", size(pages)),
        };
        Point {
            name: format!("{}, RAM {}{flash}", choice.policy.name, size(choice.ram_pages)),
            x: choice.cost,
            y: choice.figure(found.objective) * scale,
        }
    };
    ScatterChart {
        title: "Cost and what it buys".into(),
        x_title: format!("cost, {}", found.currency),
        y_title: title,
        points: found.front.iter().map(point).collect(),
    }
}

fn header(found: &Plan) -> Vec<String> {
    let currency = &found.currency;
    vec![
        "policy".into(),
        "RAM".into(),
        "flash".into(),
        format!("cost, {currency}"),
        "flash lasts".into(),
        "misses, %".into(),
        "99 % within, us".into(),
        "I/O time, s".into(),
        format!("{currency} per I/O/s"),
    ]
}

fn definitions(found: &Plan) -> [(String, &'static str); 6] {
    let currency = &found.currency;
    [
        (format!("cost, {currency}"), "RAM, flash and disk together"),
        (
            "flash lasts".into(),
            "until the drive's blocks have their rated erases, if the trace goes on as it is",
        ),
        ("misses, %".into(), "accesses that neither RAM nor flash answers, divided by all"),
        ("99 % within, us".into(), "99 % of the requests are answered within this"),
        ("I/O time, s".into(), "all page transfers at the costs of their tiers"),
        (
            format!("{currency} per I/O/s"),
            "cost divided by the I/Os per second at the mean response",
        ),
    ]
}

fn row(found: &Plan, choice: &Choice, is_chosen: bool) -> Vec<Cell> {
    let bytes = |pages: u64| {
        let bytes = pages * found.trace.page_size_bytes;
        let text = if pages == 0 { "-".into() } else { byte_size(bytes) };
        Cell::number(text).with_value(bytes as f64)
    };
    let name = choice.policy.label() + if is_chosen { " *" } else { "" };
    let lifetime = choice.lifetime_in_words().unwrap_or_else(|| "-".into());
    let lifetime = Cell::number(lifetime);
    vec![
        Cell::text(name),
        bytes(choice.ram_pages),
        bytes(choice.flash_pages),
        Cell::number(format!("{:.4}", choice.cost)).with_value(choice.cost),
        match choice.lifetime_years {
            Some(years) => lifetime.with_value(years),
            None => lifetime,
        },
        Cell::number(format!("{:.2}", choice.miss_ratio * 100.0))
            .with_value(choice.miss_ratio * 100.0),
        Cell::number(format!("{:.0}", choice.p99_us)).with_value(choice.p99_us),
        Cell::number(format!("{:.1}", choice.io_time_ms / 1000.0))
            .with_value(choice.io_time_ms / 1000.0),
        Cell::number(format!("{:.6}", choice.cost_per_io)).with_value(choice.cost_per_io),
    ]
}
