//! Compares DEMOTE and the HFA policies on three tiers with LRU on one.
//!
//! All hold the same number of pages: LRU has one tier as large as the three together, which are as
//! 1:2:4. They replay the same trace in alternation and single-threaded, and the median of several
//! runs is taken. DEMOTE moves pages through the same tiers without an opinion about them, so it
//! shows what the tiers themselves cost.
//!
//! The worst case of HFA's bubble sort is a loop over as many pages as the fastest tier holds: each
//! hit brings a page from the tail of a queue to its head. If the time per access grew with the
//! pages, the ratio would fall from one size to the next.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::measure::{median, seconds};
use crate::replay::{compile, run};

/// The bundled trace.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/pgbench/pgbench.csv.zst");
/// Relative sizes of the tiers.
const PARTS: [u32; 3] = [1, 2, 4];
/// Names of the policies on three tiers.
const POLICIES: [&str; 4] = ["demote", "d-hfa", "p-hfa", "h-hfa"];
/// Pages of the fastest tier in the worst case of the bubble sort.
const LOOPS: [u64; 3] = [1 << 10, 1 << 14, 1 << 18];

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
    /// Pages of the three tiers together, in percent of the footprint
    #[arg(long, value_delimiter = ',', default_value = "2,10,20")]
    percents: Vec<u32>,
    /// Traces to replay as well, such as arc-OLTP.lis
    #[arg(long)]
    also: Vec<PathBuf>,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let trace = generate(Pattern::Zipf { alpha: 1.0 }, arguments.accesses, arguments.pages)?;
    compare_all("Zipf(1.0)", arguments, &trace)?;
    compare_all("the bundled trace", arguments, &compile(BUNDLED.as_ref(), PageSize::DEFAULT)?)?;
    for path in &arguments.also {
        let name = path.file_name().context("a trace is a file")?.to_string_lossy();
        compare_all(&name, arguments, &compile(path, PageSize::DEFAULT)?)?;
    }
    println!("## Loops over the pages of the fastest tier: the worst case of the bubble sort");
    for pages in LOOPS {
        let trace = generate(Pattern::Loop, arguments.accesses.max(pages), pages)?;
        compare("loop", arguments, &trace, u32::try_from(pages).context("a size of a tier")?)?;
    }
    Ok(())
}

fn generate(pattern: Pattern, requests: u64, pages: u64) -> Result<CompiledTrace> {
    let options = Options { pattern, requests, pages, ..Options::default() };
    Ok(CompiledTrace::compile(&mut Generator::new(options)?, PageSize::DEFAULT)?)
}

/// Compare all sizes on one trace.
fn compare_all(name: &str, arguments: &Arguments, trace: &CompiledTrace) -> Result<()> {
    println!("## {:.1} million accesses of {name}", trace.len() as f64 / 1e6);
    for percent in &arguments.percents {
        let part = u64::from(trace.footprint_pages()) * u64::from(*percent) / 700;
        let part = u32::try_from(part).context("a part of the footprint")?.max(1);
        compare(&format!("{percent} %"), arguments, trace, part)?;
    }
    Ok(())
}

/// Compare one size on one trace, given as the pages of the fastest tier.
fn compare(name: &str, arguments: &Arguments, trace: &CompiledTrace, part: u32) -> Result<()> {
    let millions = trace.len() as f64 / 1e6;
    let tiers = PARTS.map(|share| share * part);
    let total = tiers.iter().sum();
    let mut times = [const { vec![] }; 1 + POLICIES.len()];
    for _ in 0..arguments.runs.max(1) {
        times[0].push(seconds(|| run(trace, "lru", &[total]).map(drop))?);
        for (times, policy) in times[1..].iter_mut().zip(POLICIES) {
            times.push(seconds(|| run(trace, policy, &tiers).map(drop))?);
        }
    }
    let [lru, others @ ..] = times.map(median);
    let of_lru = |(policy, time): (&str, f64)| {
        format!("{policy} {:.1}, {:.2} of LRU", millions / time, lru / time)
    };
    let others: Vec<String> = POLICIES.into_iter().zip(others).map(of_lru).collect();
    println!(
        "{name} ({total} pages): LRU {:.1} million/s; three tiers: {}",
        millions / lru,
        others.join("; ")
    );
    Ok(())
}
