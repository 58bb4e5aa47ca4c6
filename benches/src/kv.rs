//! Chains of blocks through tiers: blocks a second on one core, and how many times as many as the first
//! policy handles.
//!
//! The prompts are conversations made here, so that the run needs no file; others may be given. Policies
//! run in alternation, and the median of several is taken. Policies of RAM and flash run on the last two
//! of three tiers. At the end come orders of recency that put the heads of chains in first, so that a block
//! of which others go on is always the oldest: without and with the rule that leaves go first.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use thermocline_core::kv::{Order, Victim};
use thermocline_lab::kv::{KvConfiguration, KvPolicy, run_kv};
use thermocline_lab::spec::{KvSpec, Selection, TierSpec};
use thermocline_lab::{TierSize, Watch};
use thermocline_trace::prompts::{Conversations, PromptOptions, PromptTrace, Tail};

use crate::measure::{cpu_seconds, median};

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Prompts of the generated trace
    #[arg(long, default_value_t = 200_000)]
    prompts: u32,
    /// Runs of which the median is taken
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// The policies
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "lru,sglang-hicache,mooncake-lru,s3-fifo,demote,d-hfa,ulc,hat"
    )]
    policies: Vec<String>,
    /// Traces of prompts to run as well
    #[arg(long)]
    also: Vec<PathBuf>,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let made = Conversations { prompts: arguments.prompts, ..Conversations::default() };
    compare("conversations made here", arguments, &made.trace(Tail::Keep)?)?;
    for path in &arguments.also {
        let name = path.file_name().context("a trace is a file")?.to_string_lossy();
        compare(&name, arguments, &PromptTrace::open(path, PromptOptions::default())?)?;
    }
    Ok(())
}

/// Return the configurations to compare, each with a name.
fn ways(policies: &[String], trace: &PromptTrace) -> Result<Vec<(String, KvConfiguration)>> {
    let tier = |(name, percent)| TierSpec::new(name, &[TierSize::FootprintPercent(percent)]);
    let tiers = [("l1", 0.2), ("l2", 2.0), ("l3", 20.0)].map(tier);
    let mut ways = vec![];
    for name in policies {
        let policies = Selection::new(std::slice::from_ref(name));
        let on_all = KvSpec { policies, tiers: tiers.to_vec(), ..KvSpec::default() };
        let on_two = KvSpec { tiers: tiers[1..].to_vec(), ..on_all.clone() };
        let spec = if KvPolicy::find(name)?.suits(tiers.len(), 1) { on_all } else { on_two };
        let found = spec.configurations(trace)?;
        ways.extend(found.into_iter().map(|found| (name.clone(), found)));
    }
    for victim in [Victim::Oldest, Victim::Leaf] {
        let heads_first = KvSpec {
            tiers: tiers.to_vec(),
            order: Order::HeadFirst,
            victim: Some(victim),
            ..KvSpec::default()
        };
        let found = heads_first.configurations(trace)?;
        let name = format!("lru, head, {}", victim.name());
        ways.extend(found.into_iter().map(|found| (name.clone(), found)));
    }
    Ok(ways)
}

fn compare(name: &str, arguments: &Arguments, trace: &PromptTrace) -> Result<()> {
    let blocks = trace.blocks() as f64;
    println!("## {:.1} million blocks of {name}", blocks / 1e6);
    let ways = ways(&arguments.policies, trace)?;
    let mut times = vec![vec![]; ways.len()];
    for _ in 0..arguments.runs {
        for ((_, configuration), times) in ways.iter().zip(&mut times) {
            times.push(cpu_seconds(|| {
                run_kv(trace, configuration, false, &Watch::default())?;
                Ok(())
            })?);
        }
    }
    let mut first = None;
    for ((name, _), times) in ways.iter().zip(times) {
        let rate = blocks / median(times) / 1e6;
        let ratio = rate / *first.get_or_insert(rate);
        println!("{name:<18} {rate:>6.1} million blocks/s, {ratio:>5.2} times the first");
    }
    Ok(())
}
