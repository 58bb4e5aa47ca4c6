//! The report of a plan for prompts: what to buy, what else is on the front, and what is not recommended.

use super::purchase::Purchase;
use super::{Cell, Options, Point, Report, ScatterChart};
use crate::metric::{byte_size, grouped};
use crate::planning::{KvChoice, KvObjective, KvPlan};
use crate::verdict;

/// Return the report of one plan for prompts.
pub fn prompt_plan(found: &KvPlan, options: &Options) -> Report {
    let front = found.front.iter().enumerate().map(|(place, choice)| {
        let mark = if place == found.chosen { " *" } else { "" };
        row(Cell::text(choice.label() + mark), choice)
    });
    let struck_out = found.struck_out.iter().map(|one| {
        let mut cells = row(Cell::struck_out(one.choice.label()), &one.choice);
        cells.push(Cell::text(&one.reason));
        cells
    });
    let basis = format!(
        "{}: blocks of {}. At most {} {} for all tiers. The best is chosen by {}.",
        found.trace,
        byte_size(found.block_bytes),
        found.budget,
        found.currency,
        found.objective.words(),
    );
    let method = format!(
        "{} candidates were simulated without a drive, and {} with the model of one. Prompts are \
         answered one after the other; queues are not modelled, so times are lower bounds.",
        grouped(found.candidates as u64),
        grouped(found.simulated as u64),
    );
    let parts = Purchase {
        answer: verdict::prompt_plan(found),
        basis: vec![basis],
        chart: chart(found),
        definitions: definitions(found).into(),
        header: header(found),
        front: front.collect(),
        struck_out: struck_out.collect(),
        why_struck_out: "These are cheaper or better than some of the above, and wear out too soon.",
        method,
    };
    parts.report(options)
}

/// Cost and the figure that is asked for.
fn chart(found: &KvPlan) -> ScatterChart {
    let point = |choice: &KvChoice| Point {
        name: format!("{}: {}", choice.label(), tiers(choice)),
        x: choice.cost,
        y: choice.figure(found.objective),
    };
    ScatterChart {
        title: "Cost and what it buys".into(),
        x_title: format!("cost, {}", found.currency),
        y_title: match found.objective {
            KvObjective::FirstToken => "first token after, s".into(),
            KvObjective::P99 => "99 % of first tokens within, s".into(),
            KvObjective::CostPerToken => format!("{} per million tokens", found.currency),
        },
        points: found.front.iter().map(point).collect(),
    }
}

fn tiers(choice: &KvChoice) -> String {
    let tiers = choice.tiers.iter();
    let tiers = tiers.map(|tier| format!("{} {}", tier.name, byte_size(tier.capacity_bytes)));
    tiers.collect::<Vec<String>>().join(", ")
}

fn header(found: &KvPlan) -> Vec<String> {
    let currency = &found.currency;
    vec![
        "policy".into(),
        "tiers".into(),
        "drive".into(),
        format!("cost, {currency}"),
        "drive lasts".into(),
        "write amplification".into(),
        "tokens that hit, %".into(),
        "first token after, s".into(),
        "99 % within, s".into(),
        format!("{currency} per million tokens"),
    ]
}

fn definitions(found: &KvPlan) -> [(String, &'static str); 5] {
    [
        (format!("cost, {}", found.currency), "all tiers together"),
        (
            "drive lasts".into(),
            "until the drive's cells have their rated erases, at the rate of the trace",
        ),
        (
            "write amplification".into(),
            "pages that the drive's cells take per page of a block, once the tier is full",
        ),
        ("first token after, s".into(), "the mean: the prefill of what did not hit, then loading"),
        (
            format!("{} per million tokens", found.currency),
            "processors while they prefill, and tiers by time or by wear, whichever is more",
        ),
    ]
}

fn row(name: Cell, choice: &KvChoice) -> Vec<Cell> {
    let number = |value: Option<f64>, decimals: usize| match value {
        Some(value) => Cell::number(format!("{value:.decimals$}")).with_value(value),
        None => Cell::number("-"),
    };
    let lifetime = Cell::number(choice.lifetime_in_words().unwrap_or_else(|| "-".into()));
    vec![
        name,
        Cell::text(tiers(choice)),
        Cell::text(choice.drive.as_deref().unwrap_or("-")),
        number(Some(choice.cost), 2),
        match choice.lifetime_years {
            Some(years) => lifetime.with_value(years),
            None => lifetime,
        },
        number(choice.write_amplification, 3),
        number(Some(choice.token_hit_ratio * 100.0), 2),
        number(Some(choice.first_token_mean_s), 3),
        number(Some(choice.first_token_p99_s), 3),
        number(choice.dollars_per_million_tokens, 4),
    ]
}
