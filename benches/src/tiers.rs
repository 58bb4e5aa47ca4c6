//! D-HFA and DEMOTE on three tiers, beside LRU on one.
//!
//! All hold the same number of pages: LRU has one tier as large as the three together, which are as
//! 1:2:4. They replay the same trace in alternation and single-threaded, and the median of several
//! runs is taken. DEMOTE moves pages through the same tiers without an opinion about them, so it
//! shows what the tiers themselves cost.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::measure::{median, seconds};
use crate::replay::{compile, run};

/// The bundled trace.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/pgbench/pgbench.csv.zst");
/// What the sizes of the tiers are to each other.
const PARTS: [u32; 3] = [1, 2, 4];
/// What the policies on three tiers are called.
const POLICIES: [&str; 2] = ["demote", "d-hfa"];

/// What can be set.
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
    let options = Options {
        pattern: Pattern::Zipf { alpha: 1.0 },
        requests: arguments.accesses,
        pages: arguments.pages,
        ..Options::default()
    };
    let trace = CompiledTrace::compile(&mut Generator::new(options)?, PageSize::DEFAULT)?;
    compare("Zipf(1.0)", arguments, &trace)?;
    compare("the bundled trace", arguments, &compile(BUNDLED.as_ref())?)?;
    for path in &arguments.also {
        let name = path.file_name().context("a trace is a file")?.to_string_lossy();
        compare(&name, arguments, &compile(path)?)?;
    }
    Ok(())
}

/// All sizes on one trace.
fn compare(name: &str, arguments: &Arguments, trace: &CompiledTrace) -> Result<()> {
    let millions = trace.len() as f64 / 1e6;
    println!("## {millions:.1} million accesses of {name}");
    for percent in &arguments.percents {
        let part = u64::from(trace.footprint_pages()) * u64::from(*percent) / 700;
        let part = u32::try_from(part).context("a part of the footprint")?.max(1);
        let tiers = PARTS.map(|share| share * part);
        let total = tiers.iter().sum();
        let mut times = [const { vec![] }; 1 + POLICIES.len()];
        for _ in 0..arguments.runs.max(1) {
            times[0].push(seconds(|| run(trace, "lru", &[total]).map(drop))?);
            for (times, policy) in times[1..].iter_mut().zip(POLICIES) {
                times.push(seconds(|| run(trace, policy, &tiers).map(drop))?);
            }
        }
        let [lru, demote, hfa] = times.map(median);
        println!(
            "{percent} % ({total} pages): LRU {:.1} million/s; three tiers: DEMOTE {:.1}, {:.2} of LRU; D-HFA {:.1}, {:.2} of LRU",
            millions / lru,
            millions / demote,
            lru / demote,
            millions / hfa,
            lru / hfa
        );
    }
    Ok(())
}
