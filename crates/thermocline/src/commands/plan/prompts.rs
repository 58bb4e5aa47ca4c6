//! `thermocline plan --workload kv`: which tiers, which drive and which policy to buy for prompts.

use anyhow::{Result, bail};
use thermocline_lab::Watch;
use thermocline_lab::planning::{KvChoice, KvObjective, KvPlan, KvPlanOptions, LEAST_YEARS};
use thermocline_lab::report::{Options, prompt_plan as report_of};
use thermocline_lab::spec::{KvSpec, Selection, Setting, TierNumber};
use thermocline_lab::verdict;
use thermocline_trace::prompts::{PromptOptions, PromptTrace, Tail};

use super::with_progress;
use crate::arguments::{Objective, PlanOptions};
use crate::commands::compare::VERSION;
use crate::hierarchy::{flag, in_options};
use crate::{output, reading};

/// The policies if none are named: LRU, the best of the others on the published traces, and a system.
const POLICIES: [&str; 5] = ["lru", "arc", "s3-fifo", "ulc", "vllm-offload"];

/// Runs the command; `command` is the command line, for the report.
pub(super) fn run(options: &PlanOptions, command: &str) -> Result<String> {
    let asked = asked(options)?;
    let as_told = PromptOptions { block_tokens: None, tail: Tail::Keep };
    let trace = PromptTrace::open(&options.trace, as_told)?;
    let plan = with_progress(|tell| KvPlan::search(&trace, &asked, &Watch::default(), tell))?;
    let plan = plan.map_err(|error| {
        in_options(error, |path| match path.keys().next() {
            Some("prices") => "--price".into(),
            Some("drives") => "--drive".into(),
            Some("tiers") => "--tier".into(),
            Some("processors_per_hour") => "--gpu-price".into(),
            _ => flag(path),
        })
    })?;
    if let Some(path) = &options.report {
        let title = format!("Plan for the prompts of {}", reading::file_name(&options.trace));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &report_of(&plan, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&plan) } else { Ok(table(&plan)) }
}

/// Return the question of the options.
fn asked(options: &PlanOptions) -> Result<KvPlanOptions> {
    let given = [
        ("--output", options.output.is_some()),
        ("--disk-size", options.disk_size.is_some()),
        ("--device", !options.devices.is_empty()),
        ("--disk-model", options.disk_model.is_some()),
        ("--closed-loop", options.closed_loop.is_some()),
        ("--page-size", options.reading.page_size.is_some()),
        ("--format", options.reading.format.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
        bail!("{option}: it is for traces of pages: leave it out with --workload kv");
    }
    let of_prompts = &options.prompts;
    let objective = options.objective.map(Objective::of_prompts).transpose()?;
    // The price of a million tokens has the wear of drives in it; the other objectives do not.
    let has_wear = match objective {
        Some(objective) => objective == KvObjective::CostPerToken,
        None => of_prompts.gpu_price.is_some(),
    };
    let least_years = if has_wear { 0.0 } else { LEAST_YEARS };
    let policies = match &options.policies[..] {
        [] => POLICIES.map(str::to_owned).to_vec(),
        named => named.to_vec(),
    };
    let mut prices = vec![];
    for setting in &options.prices {
        let Setting::Price(number) = setting.setting else {
            bail!("--price {}: write prices per GiB, as in hbm=100,dram=4,ssd=0.1", setting.tier);
        };
        prices.push(TierNumber { tier: setting.tier.clone(), number });
    }
    Ok(KvPlanOptions {
        budget: options.budget,
        spec: KvSpec {
            policies: Selection::new(&policies),
            tiers: of_prompts.tiers.clone(),
            engines: of_prompts.engines.unwrap_or(1),
            mode: of_prompts.mode,
            admit: of_prompts.admit.clone(),
            ghost_blocks: of_prompts.ghost.unwrap_or(0),
            model: of_prompts.model.clone(),
            processors_per_hour: of_prompts.gpu_price,
            ..KvSpec::default()
        },
        prices,
        drives: options.drive.clone(),
        objective,
        currency: options.currency.clone(),
        min_lifetime_years: options.min_lifetime_years.unwrap_or(least_years),
    })
}

/// Return the front, which of it was chosen, and what is struck out.
fn table(plan: &KvPlan) -> String {
    let header = [
        "policy".to_owned(),
        "tiers".into(),
        "drive".into(),
        format!("cost, {}", plan.currency),
        "drive lasts".into(),
        "amplification".into(),
        "tokens that hit".into(),
        "first token, s".into(),
        "p99, s".into(),
        format!("{} per million tokens", plan.currency),
    ];
    let absent = || "-".to_owned();
    let row = |name: String, one: &KvChoice| {
        let tiers = one.tiers.iter();
        let tiers =
            tiers.map(|tier| format!("{} {}", tier.name, output::bytes(tier.capacity_bytes)));
        vec![
            name,
            tiers.collect::<Vec<String>>().join(", "),
            one.drive.clone().unwrap_or_else(absent),
            format!("{:.2}", one.cost),
            one.lifetime_in_words().unwrap_or_else(absent),
            one.write_amplification.map_or_else(absent, |factor| format!("{factor:.3}")),
            output::percent(one.token_hit_ratio),
            format!("{:.3}", one.first_token_mean_s),
            format!("{:.3}", one.first_token_p99_s),
            one.dollars_per_million_tokens.map_or_else(absent, |price| format!("{price:.4}")),
        ]
    };
    let front = plan.front.iter().enumerate().map(|(place, one)| {
        let mark = if place == plan.chosen { " *" } else { "" };
        row(format!("{}{mark}", one.label()), one)
    });
    let struck_out = plan.struck_out.iter();
    let struck_out = struck_out.map(|one| row(format!("~~{}~~", one.choice.label()), &one.choice));
    let rows: Vec<Vec<String>> = front.chain(struck_out).collect();
    let reasons = plan.struck_out.iter().map(|one| {
        format!("~~{}~~ for {:.2}: {}\n", one.choice.label(), one.choice.cost, one.reason)
    });
    format!(
        "{}\n\n{}* best by {}\n{} candidates without a drive, {} with one; a block takes {}\n{}",
        verdict::prompt_plan(plan).join(" "),
        output::table(&header, &rows, 1),
        plan.objective.words(),
        output::count(plan.candidates as u64),
        output::count(plan.simulated as u64),
        output::bytes(plan.block_bytes),
        reasons.collect::<String>(),
    )
}
