//! Chains of blocks through tiers: blocks a second on one core.
//!
//! The prompts are conversations made here, so that the run needs no file; others may be given. Policies
//! run in alternation, and the median
//! of several is taken.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use thermocline_lab::kv::run_kv;
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
        default_value = "lru,sglang-hicache,mooncake-lru,s3-fifo,demote,d-hfa,ulc"
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

fn compare(name: &str, arguments: &Arguments, trace: &PromptTrace) -> Result<()> {
    let blocks = trace.blocks() as f64;
    println!("## {:.1} million blocks of {name}", blocks / 1e6);
    let tier = |(name, percent)| TierSpec::new(name, &[TierSize::FootprintPercent(percent)]);
    let spec = KvSpec {
        policies: Selection::new(&arguments.policies),
        tiers: [("l1", 0.2), ("l2", 2.0), ("l3", 20.0)].map(tier).to_vec(),
        ..KvSpec::default()
    };
    let configurations = spec.configurations(trace)?;
    let mut times = vec![vec![]; configurations.len()];
    for _ in 0..arguments.runs {
        for (configuration, times) in configurations.iter().zip(&mut times) {
            times.push(cpu_seconds(|| {
                run_kv(trace, configuration, false, &Watch::default())?;
                Ok(())
            })?);
        }
    }
    for (configuration, times) in configurations.iter().zip(times) {
        let rate = blocks / median(times) / 1e6;
        println!("{:<16} {rate:>6.1} million blocks/s", configuration.policy.name);
    }
    Ok(())
}
