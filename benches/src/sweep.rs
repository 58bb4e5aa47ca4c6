//! A sweep of many sizes on one thread and on several, in one run.
//!
//! Both run the same points of the same trace, in alternation, with the output on disk; the median of
//! the ratios is printed. Both compile the shared traces once, which counts: a sweep begins with it.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use thermocline_lab::Watch;
use thermocline_lab::sweep::Sweep;
use thermocline_trace::PageSize;
use thermocline_trace::convert::{OutputFormat, convert};
use thermocline_trace::generate::{Generator, Options, Pattern};

use crate::measure::{median, seconds};

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Accesses of the generated trace
    #[arg(long, default_value_t = 2_000_000)]
    accesses: u64,
    /// Pages that the generated trace draws from
    #[arg(long, default_value_t = 1_000_000)]
    pages: u64,
    /// Sizes of the sweep
    #[arg(long, default_value_t = 64)]
    sizes: usize,
    /// Threads that are compared with one
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Policies of the sweep
    #[arg(long, value_delimiter = ',', default_value = "lru")]
    policies: Vec<String>,
    /// Runs of which the median is taken
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// A trace to sweep instead of the generated one
    #[arg(long)]
    trace: Option<PathBuf>,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = match &arguments.trace {
        Some(trace) => trace.canonicalize()?,
        None => {
            let target = folder.path().join("zipf.csv");
            let options = Options {
                pattern: Pattern::Zipf { alpha: 1.0 },
                requests: arguments.accesses,
                pages: arguments.pages,
                ..Options::default()
            };
            let format: OutputFormat = "csv".parse()?;
            convert(&mut Generator::new(options)?, &target, format, PageSize::DEFAULT)?;
            target
        }
    };
    ensure!(arguments.sizes > 0, "a sweep has at least one size");
    let sizes = (1..=arguments.sizes)
        .map(|size| format!("\"{}%\"", size as f64 * 64.0 / arguments.sizes as f64));
    let policies = arguments.policies.iter().map(|policy| format!("{policy:?}"));
    let text = format!(
        "policies = [{}]\n[[trace]]\npath = {:?}\n[[tier]]\nname = \"ram\"\nsizes = [{}]\n",
        policies.collect::<Vec<_>>().join(", "),
        path.to_str().context("the trace's name is UTF-8")?,
        sizes.collect::<Vec<_>>().join(", "),
    );
    let sweep = Sweep::parse(&text, folder.path())?;
    let (mut ratios, mut times) = (vec![], vec![]);
    for run in 0..arguments.runs.max(1) {
        let [one, several] = [1, arguments.threads].map(|threads| {
            let output = folder.path().join(format!("{run}-{threads}.parquet"));
            seconds(|| Ok(sweep.run(&output, threads, &Watch::default(), |_| ()).map(drop)?))
        });
        let (one, several) = (one?, several?);
        ratios.push(one / several);
        times.push(several);
    }
    println!(
        "{} points: {} threads are {:.2} times as fast as one; {:.1} points/s",
        sweep.points.len(),
        arguments.threads,
        median(ratios),
        sweep.points.len() as f64 / median(times)
    );
    Ok(())
}
