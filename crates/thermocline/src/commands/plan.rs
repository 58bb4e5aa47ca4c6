//! `thermocline plan`: which tiers and which policy to buy for a budget.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_core::registry::{self, Entry};
use thermocline_lab::planning::{self, Choice, Plan, PlanProgress};
use thermocline_lab::{TierSize, Watch, find_policy, find_ssd};
use thermocline_trace::CompiledTrace;

use super::serve::config::Config;
use crate::arguments::{Objective, PlanOptions};
use crate::{output, reading};

/// The tiers, in the order of their prices.
const TIERS: [&str; 3] = ["ram", "flash", "disk"];
/// Drives for flash, the one that is taken first before the others.
const DRIVES: [&str; 4] = ["tlc-nvme", "mlc-sata-2011", "slc-2008", "ssdsim"];

/// Who waits longer than this waits for others, not for a device.
const BACKLOG_US: f64 = 10e6;

/// Runs the command.
pub(crate) fn run(options: &PlanOptions) -> Result<String> {
    let mut asked = asked(options)?;
    let trace = reading::open(&options.trace, &options.reading)?;
    asked.flash_drive = drive(options, &trace)?;
    let page = trace.page_size_bytes();
    ensure!(
        options.output.is_none() || (page.is_multiple_of(4096) && page <= 1 << 20),
        "an engine has pages of 4KiB to 1MiB, and the trace was read with {}: take --page-size 4KiB",
        output::bytes(page)
    );
    let bar = output::progress(0, "candidates")?;
    let plan = Plan::search(&trace, &asked, |progress| match progress {
        PlanProgress::Coarse(count) => bar.set_length(count as u64),
        PlanProgress::Full(count) => {
            bar.set_length(count as u64);
            bar.reset();
        }
        PlanProgress::Done => bar.inc(1),
    });
    bar.finish_and_clear();
    let plan = plan?;
    let chosen = &plan.front[plan.chosen];
    if let Some(path) = &options.output {
        output::write_file(path, &engine(&plan)?)?;
        output::note(&format!("engine configuration: {}", path.display()));
    }
    if options.closed_loop.is_none() && chosen.p99_us > BACKLOG_US {
        output::note(&format!(
            "note: 99 % are answered within {:.0} s only: the devices do not keep pace with the trace's times; --closed-loop N sends a request when another one is answered",
            chosen.p99_us / 1e6
        ));
    }
    if options.json { output::json(&plan) } else { Ok(table(&plan, &asked.flash_drive)) }
}

/// What is asked of the lab; the drive is that of [`drive`], once the trace is known.
pub(crate) fn asked(options: &PlanOptions) -> Result<planning::PlanOptions> {
    if let Some(years) = options.min_lifetime_years {
        ensure!(years >= 0.0, "--min-lifetime-years {years}: it takes a number of at least 0");
    }
    Ok(planning::PlanOptions {
        budget: options.budget,
        prices: prices(&options.prices)?,
        disk_bytes: options.disk_size.as_deref().map(disk_bytes).transpose()?,
        objective: options.objective.into_lab(),
        min_lifetime_years: options.min_lifetime_years,
        policies: policies(&options.policies)?,
        devices: options.devices.clone(),
        flash_drive: DRIVES[0].into(),
        disk_model: options.disk_model.clone(),
        closed_loop: options.closed_loop,
        seed: options.seed,
        watch: Watch::default(),
    })
}

impl Objective {
    const fn into_lab(self) -> planning::Objective {
        match self {
            Self::P99 => planning::Objective::P99,
            Self::IoTime => planning::Objective::IoTime,
            Self::CostPerIo => planning::Objective::CostPerIo,
        }
    }
}

/// The policies that are asked for, each of which an engine can run.
fn policies(names: &[String]) -> Result<Vec<&'static Entry>> {
    // What needs the accesses to come, or the hints of an earlier run, cannot be served.
    let suits =
        |entry: &Entry| entry.depth.allows(2) && !entry.needs_hints() && !entry.needs_foresight();
    let all = || registry::entries().iter().filter(|entry| suits(entry));
    if let [word] = names
        && word == "all"
    {
        return Ok(all().collect());
    }
    let find = |name: &String| {
        let policy = find_policy(name)?;
        let known = || all().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
        ensure!(suits(policy), "--policies {name}: no engine can run it; it can run: {}", known());
        Ok(policy)
    };
    names.iter().map(find).collect()
}

/// The prices of all tiers.
fn prices(options: &[String]) -> Result<[f64; 3]> {
    let mut prices = [None; 3];
    for option in options {
        let context =
            || format!("--price {option}: write prices per GiB, as in ram=4,flash=0.2,disk=0.02");
        let (tier, text) = option.split_once('=').with_context(context)?;
        let place = TIERS.iter().position(|known| *known == tier).with_context(context)?;
        let price: f64 = text.parse().ok().filter(|price| *price >= 0.0).with_context(context)?;
        prices[place] = Some(price);
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

fn disk_bytes(text: &str) -> Result<u64> {
    let context = || format!("--disk-size {text}: write a number of bytes, as in 4TiB");
    let TierSize::Bytes(bytes) = text.parse().with_context(context)? else { bail!(context()) };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes are not negative; what is beyond saturates"
    )]
    let bytes = bytes as u64;
    Ok(bytes)
}

/// The drive that flash is.
pub(crate) fn drive(options: &PlanOptions, trace: &CompiledTrace) -> Result<String> {
    if let Some(drive) = &options.drive {
        return Ok(drive.clone());
    }
    let page = trace.page_size_bytes();
    for name in DRIVES {
        if page.is_multiple_of(u64::from(find_ssd(name)?.page_bytes)) {
            return Ok(name.to_owned());
        }
    }
    bail!(
        "no drive here has pages that fit those of {page} bytes: take larger pages, as in --page-size 4KiB, or a drive of your own with --drive FILE.toml"
    )
}

/// The front, and which of it was chosen.
fn table(plan: &Plan, drive: &str) -> String {
    let header = [
        "policy",
        "ram",
        "flash",
        "cost",
        "miss ratio",
        "p99, us",
        "I/O time, s",
        "cost per I/O/s",
        "flash lifetime, years",
    ];
    let bytes = |pages: u64| output::bytes(pages * plan.trace.page_size_bytes);
    let row = |(place, one): (usize, &Choice)| {
        let mark = if place == plan.chosen { " *" } else { "" };
        vec![
            format!("{}{mark}", one.policy.name),
            bytes(one.ram_pages),
            if one.flash_pages == 0 { "-".into() } else { bytes(one.flash_pages) },
            format!("{:.4}", one.cost),
            output::percent(one.miss_ratio),
            format!("{:.0}", one.p99_us),
            format!("{:.1}", one.io_time_ms / 1000.0),
            format!("{:.6}", one.cost_per_io),
            one.lifetime_years.map_or_else(|| "-".into(), |years| format!("{years:.2}")),
        ]
    };
    let rows: Vec<Vec<String>> = plan.front.iter().enumerate().map(row).collect();
    format!(
        "{}* best by the objective. {} candidates in miniature, {} in full; flash is a `{drive}`; every cost has {:.4} for the disk\n",
        output::table(&header, &rows, 1),
        output::count(plan.candidates as u64),
        output::count(plan.simulated as u64),
        plan.disk_cost
    )
}

/// The configuration of an engine, which `serve --check` accepts.
pub(crate) fn engine(plan: &Plan) -> Result<String> {
    let chosen = &plan.front[plan.chosen];
    let page = plan.trace.page_size_bytes;
    let mut text = format!(
        "# What `thermocline plan` chose on {}: {:.4} of {}.\n# Put in the paths of your devices; `thermocline serve --example-config` explains every key.\n\npage_size = {page}\n\n[backing]\npath = \"disk.img\"\n\n[ram]\nsize = {}\n",
        plan.trace.path.replace(['\n', '\r'], " "),
        chosen.cost,
        plan.budget,
        chosen.ram_pages * page
    );
    if chosen.flash_pages > 0 {
        write!(text, "\n[flash]\npath = \"flash.img\"\nsize = {}\n", chosen.flash_pages * page)?;
    }
    write!(
        text,
        "\n[policy]\nname = \"{}\"\nwrite_miss = \"{}\"\n\n[nbd]\nsocket = \"thermocline.sock\"\n",
        chosen.policy.name, chosen.policy.write_miss
    )?;
    let config = Config::parse(&text).context("the plan cannot be served")?;
    config.try_policy().context("the plan cannot be served")?;
    Ok(text)
}
