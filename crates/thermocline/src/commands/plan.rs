//! `thermocline plan`: which tiers and which policy to buy for a budget.

mod prompts;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_lab::planning::{self, Choice, LEAST_YEARS, Plan, PlanProgress, StruckOut};
use thermocline_lab::report::{Options, plan as report_of};
use thermocline_lab::spec::{Selection, Setting, TierSetting};
use thermocline_lab::{TierSize, Watch};

use super::compare::VERSION;
use super::serve::config::Config;
use crate::arguments::{Objective, PlanFor, PlanOptions};
use crate::hierarchy::{flag, in_options};
use crate::{output, reading};

/// The tiers, in the order of their prices.
const TIERS: [&str; 3] = ["ram", "flash", "disk"];

/// The policies if none are named: those for which an engine has a use.
const POLICIES: [&str; 8] =
    ["lru", "arc", "lru-exclusive", "face-gsc", "lc", "tac", "hat", "arc-l2arc"];

/// Runs the command; `command` is the command line, for the report.
pub(crate) fn run(options: &PlanOptions, command: &str) -> Result<String> {
    match options.workload {
        PlanFor::Pages => run_pages(options, command),
        PlanFor::Kv => prompts::run(options, command),
    }
}

fn run_pages(options: &PlanOptions, command: &str) -> Result<String> {
    let asked = asked(options)?;
    let named = |error| in_options(error, flag);
    asked.check().map_err(named)?;
    let trace = reading::open(&options.trace, &options.reading)?;
    if options.output.is_some() {
        planning::check_engine_pages(&trace)?;
    }
    let plan = with_progress(|tell| Plan::search(&trace, &asked, &Watch::default(), tell))?;
    let plan = plan.map_err(named)?;
    if let Some(path) = &options.output {
        output::write_file(path, &engine(&plan)?)?;
        output::note(&format!("engine configuration: {}", path.display()));
    }
    if let Some(path) = &options.report {
        let title = format!("Plan for {}", reading::file_name(&options.trace));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &report_of(&plan, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&plan) } else { Ok(table(&plan)) }
}

/// Runs a search that tells how far it is, with a progress bar on a terminal.
fn with_progress<T>(search: impl FnOnce(&(dyn Fn(PlanProgress) + Sync)) -> T) -> Result<T> {
    let bar = output::progress(0, "candidates")?;
    let found = search(&|progress| match progress {
        PlanProgress::Coarse(count) => bar.set_length(count as u64),
        PlanProgress::Full(count) => {
            bar.set_length(count as u64);
            bar.reset();
        }
        PlanProgress::Done => bar.inc(1),
    });
    bar.finish_and_clear();
    Ok(found)
}

/// Return the question of the options.
fn asked(options: &PlanOptions) -> Result<planning::PlanOptions> {
    let of_prompts = &options.prompts;
    let given = [
        ("--model", of_prompts.model.is_some()),
        ("--tier", !of_prompts.tiers.is_empty()),
        ("--gpu-price", of_prompts.gpu_price.is_some()),
        ("--mode", of_prompts.mode.is_some()),
        ("--admit", !of_prompts.admit.is_empty()),
        ("--ghost", of_prompts.ghost.is_some()),
        ("--engines", of_prompts.engines.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
        bail!("{option}: it is for prompts: add --workload kv, or leave it out");
    }
    ensure!(options.drive.len() < 2, "--drive: flash is one drive: name one");
    let policies = match &options.policies[..] {
        [] => POLICIES.map(str::to_owned).to_vec(),
        named => named.to_vec(),
    };
    let years = options.min_lifetime_years.unwrap_or(LEAST_YEARS);
    Ok(planning::PlanOptions {
        own: vec![],
        budget: options.budget,
        prices: prices(&options.prices)?,
        disk_bytes: options.disk_size.as_deref().map(disk_bytes).transpose()?,
        objective: options.objective.map(Objective::of_pages).transpose()?,
        currency: options.currency.clone(),
        min_lifetime_years: Some(years).filter(|&years| years != 0.0),
        policies: Selection::new(&policies),
        devices: devices(&options.devices)?,
        drive: options.drive.first().cloned(),
        disk_model: options.disk_model.clone(),
        closed_loop: options.closed_loop,
        seed: options.seed,
    })
}

impl Objective {
    fn of_pages(self) -> Result<planning::Objective> {
        Ok(match self {
            Self::P99 => planning::Objective::P99,
            Self::IoTime => planning::Objective::IoTime,
            Self::CostPerIo => planning::Objective::CostPerIo,
            Self::FirstToken | Self::CostPerToken => {
                bail!(
                    "--objective: expected p99, io-time or cost-per-io; the others need --workload kv"
                )
            }
        })
    }

    fn of_prompts(self) -> Result<planning::KvObjective> {
        Ok(match self {
            Self::P99 => planning::KvObjective::P99,
            Self::FirstToken => planning::KvObjective::FirstToken,
            Self::CostPerToken => planning::KvObjective::CostPerToken,
            Self::IoTime | Self::CostPerIo => {
                bail!("--objective: with --workload kv it takes first-token, p99 or cost-per-token")
            }
        })
    }
}

/// Return the place of a setting's tier among [`TIERS`].
fn place(setting: &TierSetting) -> Option<usize> {
    TIERS.iter().position(|known| *known == setting.tier)
}

/// Return the prices of all tiers.
fn prices(settings: &[TierSetting]) -> Result<[f64; 3]> {
    let mut prices = [None; 3];
    for setting in settings {
        let context = || {
            format!(
                "--price {}={}: write prices per GiB, as in ram=4,flash=0.2,disk=0.02",
                setting.tier, setting.setting
            )
        };
        let Setting::Price(price) = setting.setting else { bail!(context()) };
        ensure!(price >= 0.0, context());
        prices[place(setting).with_context(context)?] = Some(price);
    }
    let mut all = [0.0; 3];
    for ((price, found), tier) in all.iter_mut().zip(prices).zip(TIERS) {
        *price = found.with_context(|| {
            format!(
                "--price: that of `{tier}` is missing; give all, as in ram=4,flash=0.2,disk=0.02"
            )
        })?;
    }
    Ok(all)
}

/// Return the device of each tier that is given one.
fn devices(settings: &[TierSetting]) -> Result<[Option<String>; 3]> {
    let mut devices = [const { None }; 3];
    for TierSetting { tier, setting } in settings {
        let mut tiers = TIERS.iter().zip(&mut devices);
        let (_, device) = tiers.find(|(known, _)| *known == tier).with_context(|| {
            format!("--device {tier}={setting}: no tier `{tier}`; there are: {}", TIERS.join(", "))
        })?;
        *device = Some(setting.to_string());
    }
    Ok(devices)
}

fn disk_bytes(text: &str) -> Result<u64> {
    let context = || format!("--disk-size {text}: write a number of bytes, as in 4TiB");
    let size: TierSize = text.parse().with_context(context)?;
    size.whole_bytes().with_context(context)
}

/// Return the front, which of it was chosen, and what is struck out.
fn table(plan: &Plan) -> String {
    let header = [
        "policy".into(),
        "ram".into(),
        "flash".into(),
        format!("cost, {}", plan.currency),
        "flash lasts".into(),
        "miss ratio".into(),
        "p99, us".into(),
        "I/O time, s".into(),
        format!("{} per I/O/s", plan.currency),
    ];
    let bytes = |pages: u64| output::bytes(pages * plan.trace.page_size_bytes);
    let row = |name: String, one: &Choice| {
        vec![
            name,
            bytes(one.ram_pages),
            if one.flash_pages == 0 { "-".into() } else { bytes(one.flash_pages) },
            format!("{:.4}", one.cost),
            one.lifetime_in_words().unwrap_or_else(|| "-".into()),
            output::percent(one.miss_ratio),
            format!("{:.0}", one.p99_us),
            format!("{:.1}", one.io_time_ms / 1000.0),
            format!("{:.6}", one.cost_per_io),
        ]
    };
    let front = plan.front.iter().enumerate().map(|(place, one)| {
        let mark = if place == plan.chosen { " *" } else { "" };
        row(format!("{}{mark}", one.policy.name), one)
    });
    let struck_out = plan.struck_out.iter();
    let struck_out =
        struck_out.map(|one| row(format!("~~{}~~", one.choice.policy.name), &one.choice));
    let rows: Vec<Vec<String>> = front.chain(struck_out).collect();
    format!(
        "{}* best by {}{}\n{} candidates in miniature, {} in full; flash is a `{}`; every cost has {:.4} {} for the disk\n{}\n{}",
        output::table(&header, &rows, 1),
        plan.objective.words(),
        plan.objective_reason.map(|reason| format!(": {reason}")).unwrap_or_default(),
        output::count(plan.candidates as u64),
        output::count(plan.simulated as u64),
        plan.flash_drive,
        plan.disk_cost,
        plan.currency,
        plan.arrivals(),
        reasons(plan, bytes),
    )
}

/// Describe why choices that were struck out are not recommended.
fn reasons(plan: &Plan, bytes: impl Fn(u64) -> String) -> String {
    let reason = |one: &StruckOut| {
        let StruckOut { choice, reason } = one;
        let [ram, flash] = [choice.ram_pages, choice.flash_pages].map(&bytes);
        format!("~~{}~~ with {ram} of RAM and {flash} of flash: {reason}\n", choice.policy.name)
    };
    plan.struck_out.iter().map(reason).collect()
}

/// Return the configuration of an engine, which `serve --check` accepts.
fn engine(plan: &Plan) -> Result<String> {
    let text = plan.engine_configuration();
    let config = Config::parse(&text).context("the plan cannot be served")?;
    config.try_policy().context("the plan cannot be served")?;
    Ok(text)
}
