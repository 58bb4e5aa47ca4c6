//! The policies of the papers, and others that keep more than one order, beside LRU.
//!
//! All hold the same number of pages and replay the same Zipf trace in alternation, single-threaded;
//! medians of the time that the processor spent are compared. LRU and the other policies of one tier
//! have it as large as the two of the rest, of which the first is a fifth of both.
//!
//! Instructions are counted by callgrind where `valgrind` is installed, on a trace of the same shape
//! that is shorter: as the difference between a replay of all of it and one of its first third, so
//! that what comes before and after does not count.

use std::hint::black_box;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use thermocline_core::registry::{self, Depth};
use thermocline_core::{Access, Actions, Counts};
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::measure::{cpu_seconds, instructions, median};
use crate::replay::{build, run};

/// Policy with which all are compared.
const LRU: &str = "lru";
/// Measured policies, in the order in which they are printed.
const POLICIES: [&str; 20] = [
    LRU,
    "hat",
    "face",
    "face-gr",
    "face-gsc",
    "arc-l2arc",
    "demote",
    "tac",
    "lc",
    "hca",
    "promote",
    "hint-k",
    "d-hfa",
    "p-hfa",
    "h-hfa",
    "lecar",
    "cacheus",
    "hyperbolic",
    "lirs",
    "w-tinylfu",
];

/// Number of accesses ahead at which pages are prefetched.
const AHEAD: usize = 16;

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Accesses of the generated trace
    #[arg(long, default_value_t = 20_000_000)]
    accesses: u64,
    /// Pages that the generated trace draws from
    #[arg(long, default_value_t = 10_000_000)]
    pages: u64,
    /// Runs of which the median is taken
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Pages of both tiers together, in percent of the footprint
    #[arg(long, value_delimiter = ',', default_value = "10")]
    percents: Vec<u32>,
    /// Only these policies, beside LRU
    #[arg(long, value_delimiter = ',')]
    policy: Vec<String>,
    /// Accesses whose instructions are counted; 0 counts none
    #[arg(long, default_value_t = 2_000_000)]
    counted_accesses: u64,
}

/// One replay for callgrind.
#[derive(Args)]
pub(crate) struct Counted {
    #[arg(long)]
    policy: String,
    /// Pages of both tiers together, in percent of the footprint
    #[arg(long)]
    percent: u32,
    /// Accesses of the trace
    #[arg(long)]
    accesses: u64,
    /// Pages that it draws from
    #[arg(long)]
    pages: u64,
    /// Number of the accesses that are replayed
    #[arg(long)]
    replayed: usize,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let is_wanted = |policy: &&str| {
        *policy == LRU
            || arguments.policy.is_empty()
            || arguments.policy.iter().any(|wanted| wanted == policy)
    };
    let policies: Vec<&str> = POLICIES.into_iter().filter(is_wanted).collect();
    for wanted in &arguments.policy {
        ensure!(policies.contains(&&**wanted), "`{wanted}` is not one of {}", POLICIES.join(", "));
    }
    let trace = generate(arguments.accesses, arguments.pages)?;
    for &percent in &arguments.percents {
        compare(arguments, &policies, &trace, percent)?;
    }
    Ok(())
}

/// Compare all policies with caches of one size.
fn compare(
    arguments: &Arguments,
    policies: &[&str],
    trace: &CompiledTrace,
    percent: u32,
) -> Result<()> {
    let millions = trace.len() as f64 / 1e6;
    println!(
        "## {millions:.1} million Zipf(1.0) accesses to {} pages, caches of {percent} %",
        trace.footprint_pages()
    );
    let mut times = vec![vec![]; policies.len()];
    for _ in 0..arguments.runs.max(1) {
        for (policy, times) in policies.iter().zip(&mut times) {
            let tiers = tiers(policy, trace, percent)?;
            times.push(cpu_seconds(|| run(trace, policy, &tiers).map(drop))?);
        }
    }
    let times: Vec<f64> = times.into_iter().map(median).collect();
    println!("| policy | million/s | of LRU's speed | instructions per access |");
    println!("| --- | --- | --- | --- |");
    for (policy, &time) in policies.iter().zip(&times) {
        let counted = match arguments.counted_accesses {
            0 => None,
            _ => instructions_per_access(arguments, policy, percent)?,
        };
        println!(
            "| {policy} | {:.1} | {:.2} | {} |",
            millions / time,
            times[0] / time,
            counted.map_or_else(|| "not counted".into(), |counted| format!("{counted:.0}"))
        );
    }
    Ok(())
}

fn generate(requests: u64, pages: u64) -> Result<CompiledTrace> {
    let options =
        Options { pattern: Pattern::Zipf { alpha: 1.0 }, requests, pages, ..Options::default() };
    Ok(CompiledTrace::compile(&mut Generator::new(options)?, PageSize::DEFAULT)?)
}

/// Return the pages of a policy's tiers.
fn tiers(policy: &str, trace: &CompiledTrace, percent: u32) -> Result<Vec<u32>> {
    let total = u64::from(trace.footprint_pages()) * u64::from(percent) / 100;
    let total = u32::try_from(total).context("a part of the footprint")?.max(2);
    let first = (total / 5).max(1);
    Ok(match registry::find(policy)?.capabilities.depth {
        Depth::Ram => vec![total],
        Depth::RamFlash | Depth::Tiers | Depth::Buffer => vec![first, total - first],
    })
}

/// Instructions per access; none without valgrind.
fn instructions_per_access(
    arguments: &Arguments,
    policy: &str,
    percent: u32,
) -> Result<Option<f64>> {
    let counted = arguments.counted_accesses;
    let (short, long) = (counted / 2, counted / 2 + counted);
    let pages = u128::from(long) * u128::from(arguments.pages) / u128::from(arguments.accesses);
    let count = |replayed: u64| {
        let numbers = [u128::from(percent), u128::from(long), pages, u128::from(replayed)];
        let [percent, accesses, pages, replayed] = numbers.map(|number| number.to_string());
        instructions(&[
            "counted",
            "--policy",
            policy,
            "--percent",
            &percent,
            "--accesses",
            &accesses,
            "--pages",
            &pages,
            "--replayed",
            &replayed,
        ])
    };
    let Some(before) = count(short)? else { return Ok(None) };
    let all = count(long)?.context("callgrind counted before")?;
    Ok(Some((all - before) as f64 / counted as f64))
}

/// Replays some of a trace.
pub(crate) fn replay_counted(arguments: &Counted) -> Result<()> {
    let trace = generate(arguments.accesses, arguments.pages)?;
    let tiers = tiers(&arguments.policy, &trace, arguments.percent)?;
    let mut policy = build(&trace, &arguments.policy, &tiers)?;
    let accesses: Vec<Access> = trace.accesses().collect();
    let replayed = accesses.get(..arguments.replayed).context("the trace has fewer accesses")?;
    let coming = accesses.get(AHEAD..).unwrap_or_default();
    let mut counts = Counts::new();
    policy.access_all(replayed, coming, &mut Actions::new(), &mut counts);
    black_box(&counts);
    Ok(())
}
