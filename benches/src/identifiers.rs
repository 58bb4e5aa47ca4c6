//! Measures the cost of recording a write in each hot-data identifier: time, and instructions.
//!
//! All identifiers record the same writes, in alternation. Instructions are counted by callgrind
//! where `valgrind` is installed, as the difference between a longer and a shorter run of this very
//! program, so that what comes before and after does not count.

use std::hint::black_box;

use anyhow::{Context as _, Result};
use clap::Args;
use thermocline_core::hotness::registry;
use thermocline_core::{BoxedIdentifier, PageId};
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::measure::{instructions, median, seconds};

/// Writes of the shorter run under callgrind; the longer one has as many more as are counted.
const SHORT_WRITES: u64 = 200_000;
/// Decays of the shorter and of the longer run.
const SHORT_DECAYS: u64 = 100;
const LONG_DECAYS: u64 = 1_100;

/// A label, an identifier, its parameters.
type Contender = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Identifiers that are measured.
const CONTENDERS: [Contender; 9] = [
    ("mhf", "mhf", &[]),
    ("mbf", "mbf", &[]),
    ("mbf, no shortcut", "mbf", &[("shortcut", "false")]),
    ("mbf, 2 KiB", "mbf", &[("filter_bits", "4096")]),
    ("wdac", "wdac", &[]),
    ("dam", "dam", &[]),
    ("two-level-lru", "two-level-lru", &[]),
    ("fms", "fms", &[]),
    ("count-min", "count-min", &[]),
];

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Writes of the generated trace
    #[arg(long, default_value_t = 10_000_000)]
    writes: u64,
    /// Pages that it draws from
    #[arg(long, default_value_t = 1_000_000)]
    pages: u64,
    /// Skew of their popularity
    #[arg(long, default_value_t = 0.9)]
    alpha: f64,
    /// Runs of which the median is taken
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Writes whose instructions are counted
    #[arg(long, default_value_t = 1_000_000)]
    counted_writes: u64,
}

/// One run for callgrind.
#[derive(Args)]
pub(crate) struct Record {
    /// Place in the list of contenders
    #[arg(long)]
    contender: usize,
    #[arg(long)]
    pages: u64,
    #[arg(long)]
    alpha: f64,
    /// Writes of the trace
    #[arg(long)]
    writes: u64,
    /// Number of them that are recorded
    #[arg(long)]
    recorded: usize,
    /// Decays after that
    #[arg(long)]
    decays: u64,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let (pages, writes) = generate(arguments.pages, arguments.alpha, arguments.writes)?;
    println!(
        "## {} writes, Zipf({}) over {} pages, {pages} of them written",
        arguments.writes, arguments.alpha, arguments.pages
    );
    let times = times(arguments, pages, &writes)?;
    println!(
        "| identifier | ns per record | of mhf | of mbf | instructions per record | of mhf | per decay | writes per decay | per write |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut mhf = None;
    for (contender, ((label, ..), nanoseconds)) in CONTENDERS.iter().zip(&times).enumerate() {
        let decay_writes = build(contender, 1)?.decay_writes();
        let counted = instructions_per_record(arguments, contender)?;
        let counted = counted.map(|(record, decay)| {
            let decays_per_write = decay_writes.map_or(0.0, |writes| 1.0 / writes as f64);
            (record - decay * decays_per_write, decay, decay * decays_per_write)
        });
        mhf = mhf.or(counted);
        let [record, ratio, decay, per_write] = match (counted, mhf) {
            (Some((record, decay, per_write)), Some((first, ..))) => [
                format!("{record:.1}"),
                format!("{:.2}", record / first),
                format!("{decay:.0}"),
                format!("{per_write:.3}"),
            ],
            _ => ["valgrind is not installed"; 4].map(String::from),
        };
        let decay_writes = decay_writes.map_or_else(|| "-".into(), |writes| writes.to_string());
        println!(
            "| {label} | {nanoseconds:.2} | {:.2} | {:.2} | {record} | {ratio} | {decay} | {decay_writes} | {per_write} |",
            nanoseconds / times[0],
            nanoseconds / times[1],
        );
    }
    Ok(())
}

/// Median nanoseconds per record of each contender, decays included, in alternation.
fn times(arguments: &Arguments, pages: u32, writes: &[PageId]) -> Result<Vec<f64>> {
    let mut runs = vec![vec![]; CONTENDERS.len()];
    let mut heats = Vec::with_capacity(writes.len());
    for _ in 0..arguments.runs.max(1) {
        for (contender, times) in runs.iter_mut().enumerate() {
            let mut identifier = build(contender, pages)?;
            heats.clear();
            times.push(seconds(|| {
                identifier.record_all(black_box(writes), &mut heats);
                Ok(())
            })?);
            black_box(&heats);
        }
    }
    Ok(runs.into_iter().map(|times| median(times) * 1e9 / writes.len() as f64).collect())
}

/// Instructions per record, decays included, and per decay; `None` without valgrind.
fn instructions_per_record(arguments: &Arguments, contender: usize) -> Result<Option<(f64, f64)>> {
    let long_writes = SHORT_WRITES + arguments.counted_writes;
    let count =
        |recorded: u64, decays: u64| collected(arguments, contender, long_writes, recorded, decays);
    let Some(short) = count(SHORT_WRITES, SHORT_DECAYS)? else { return Ok(None) };
    let long = count(long_writes, SHORT_DECAYS)?.context("callgrind counted before")?;
    let decaying = count(SHORT_WRITES, LONG_DECAYS)?.context("callgrind counted before")?;
    let record = (long - short) as f64 / arguments.counted_writes as f64;
    let decay = (decaying - short) as f64 / (LONG_DECAYS - SHORT_DECAYS) as f64;
    Ok(Some((record, decay)))
}

/// Return the instructions of one run of this program.
fn collected(
    arguments: &Arguments,
    contender: usize,
    writes: u64,
    recorded: u64,
    decays: u64,
) -> Result<Option<u64>> {
    let numbers = [contender as u64, arguments.pages, writes, recorded, decays];
    let [contender, pages, writes, recorded, decays] = numbers.map(|number| number.to_string());
    instructions(&[
        "record",
        "--contender",
        &contender,
        "--pages",
        &pages,
        "--alpha",
        &arguments.alpha.to_string(),
        "--writes",
        &writes,
        "--recorded",
        &recorded,
        "--decays",
        &decays,
    ])
}

/// Record writes, then decay.
pub(crate) fn record(arguments: &Record) -> Result<()> {
    let (pages, writes) = generate(arguments.pages, arguments.alpha, arguments.writes)?;
    let mut identifier = build(arguments.contender, pages)?;
    let mut heats = Vec::with_capacity(writes.len());
    identifier.record_all(
        writes.get(..arguments.recorded).context("the trace has fewer writes")?,
        &mut heats,
    );
    for _ in 0..arguments.decays {
        identifier.decay();
    }
    black_box((&heats, &identifier));
    Ok(())
}

fn build(contender: usize, pages: u32) -> Result<BoxedIdentifier> {
    let (_, name, parameters) = CONTENDERS.get(contender).context("there is such a contender")?;
    let entry = registry::find(name)?;
    let given: Vec<(String, String)> =
        parameters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Ok(entry.build(pages, &entry.values(&given)?)?)
}

/// Return the writes, and how many distinct pages they have.
fn generate(pages: u64, alpha: f64, writes: u64) -> Result<(u32, Vec<PageId>)> {
    let options = Options {
        pattern: Pattern::Zipf { alpha },
        requests: writes,
        pages,
        write_share: 1.0,
        ..Options::default()
    };
    let trace = CompiledTrace::compile(&mut Generator::new(options)?, PageSize::DEFAULT)?;
    Ok((trace.footprint_pages(), trace.accesses().map(|access| access.page).collect()))
}
