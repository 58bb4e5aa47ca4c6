//! Reading and replay, beside `cat`, `wc -l` and libCacheSim.
//!
//! Generates a Zipf(1.0) trace as an oracleGeneral file and measures, in
//! alternation and single-threaded, the median of several runs of: reading the file, replaying it
//! through LRU and HAT with caches of 1 % and 10 % of the footprint, the whole way from the file to
//! the result, and the same with libCacheSim's LRU where its Python package is installed. Times are
//! CPU seconds of this process for the peer and wall-clock seconds of one thread for us.
use std::hint::black_box;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use memchr::memchr_iter;
use thermocline_core::{BoxedPolicy, PageCost, Setup, Tier, registry};
use thermocline_lab::{Replay, replay};
use thermocline_trace::convert::{OutputFormat, convert};
use thermocline_trace::generate::{self, Generator, Pattern};
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader, Requests as _};

use crate::measure::{median, seconds};

/// Script that measures the peer.
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer.py");

/// Costs of memory, flash and disk: presets `samsung-470` and `st380011a`.
const COSTS: [PageCost; 3] = [
    PageCost { read_ms: 0.0, write_ms: 0.0 },
    PageCost { read_ms: 0.16, write_ms: 0.30 },
    PageCost { read_ms: 12.7, write_ms: 13.7 },
];

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
    /// A trace to replay as well, such as arc-OLTP.lis
    #[arg(long)]
    also: Option<PathBuf>,
    /// Python with the package libcachesim
    #[arg(long, default_value = "python3")]
    python: String,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot make a folder for traces")?;
    let oracle = folder.path().join("zipf.oracleGeneral");
    let spc = folder.path().join("zipf.spc");
    generate_traces(arguments, &oracle, &spc)?;

    println!("## Reading, against `cat` and `wc -l` in this process");
    let records = arguments.accesses as f64 / 1e6;
    reading(arguments, "oracleGeneral", &oracle, records)?;
    reading(arguments, "SPC", &spc, records / 4.0)?;

    println!("\n## Replay of {records} million Zipf(1.0) accesses");
    let trace = compile(&oracle, PageSize::DEFAULT)?;
    for percent in [1, 10] {
        compare_replay(arguments, &trace, percent, Some(&oracle))?;
    }
    if let Some(path) = &arguments.also {
        println!("\n## Replay of {}", path.display());
        let trace = compile(path, PageSize::DEFAULT)?;
        for percent in [1, 10] {
            compare_replay(arguments, &trace, percent, None)?;
        }
    }
    Ok(())
}

/// Writes the Zipf trace as oracleGeneral, and a quarter of it as SPC.
fn generate_traces(arguments: &Arguments, oracle: &Path, spc: &Path) -> Result<()> {
    let options = generate::Options {
        pattern: Pattern::Zipf { alpha: 1.0 },
        requests: arguments.accesses,
        pages: arguments.pages,
        ..generate::Options::default()
    };
    convert(&mut Generator::new(options)?, oracle, OutputFormat::OracleGeneral, PageSize::DEFAULT)?;
    let options = generate::Options { requests: arguments.accesses / 4, ..options };
    convert(&mut Generator::new(options)?, spc, OutputFormat::Spc, PageSize::DEFAULT)?;
    Ok(())
}

/// Reads a file into requests, and as plain bytes.
fn reading(arguments: &Arguments, name: &str, path: &Path, records: f64) -> Result<()> {
    let (mut requests, mut cat, mut lines) = (vec![], vec![], vec![]);
    for _ in 0..arguments.runs {
        requests.push(seconds(|| read_requests(path))?);
        cat.push(seconds(|| read_bytes(path, |_| 0))?);
        lines.push(seconds(|| read_bytes(path, |bytes| memchr_iter(b'\n', bytes).count()))?);
    }
    let (requests, cat, lines) = (median(requests), median(cat), median(lines));
    println!(
        "{name}: {:.1} million records/s; {:.1} times as long as cat, {:.1} times as long as wc -l",
        records / requests,
        requests / cat,
        requests / lines
    );
    Ok(())
}

fn read_requests(path: &Path) -> Result<()> {
    let mut reader = Reader::open(path, &ReadOptions::default())?;
    let mut batch = vec![];
    let mut requests = 0;
    while reader.read_batch(&mut batch)? {
        requests += batch.len();
    }
    black_box(requests);
    Ok(())
}

fn read_bytes(path: &Path, count: impl Fn(&[u8]) -> usize) -> Result<()> {
    let mut file = std::fs::File::open(path).context("cannot open the trace")?;
    let mut buffer = vec![0; 1 << 18];
    let mut total = 0;
    loop {
        let read = file.read(&mut buffer).context("cannot read the trace")?;
        if read == 0 {
            black_box(total);
            return Ok(());
        }
        total += count(&buffer[..read]);
    }
}

/// Reads a trace.
pub(crate) fn compile(path: &Path, page_size: PageSize) -> Result<CompiledTrace> {
    let mut reader = Reader::open(path, &ReadOptions::default())?;
    Ok(CompiledTrace::compile(&mut reader, page_size)?)
}

/// LRU and HAT, and the peer if the trace is a file that it reads.
fn compare_replay(
    arguments: &Arguments,
    trace: &CompiledTrace,
    percent: u32,
    oracle: Option<&Path>,
) -> Result<()> {
    let pages = trace.footprint_pages() / 100 * percent;
    let (mut lru, mut hat, mut whole) = (vec![], vec![], vec![]);
    let mut misses = 0;
    for _ in 0..arguments.runs {
        lru.push(seconds(|| run(trace, "lru", &[pages]).map(|found| misses = found))?);
        hat.push(seconds(|| run(trace, "hat", &[pages / 5, pages - pages / 5]).map(drop))?);
        if let Some(oracle) = oracle {
            whole.push(seconds(|| {
                run(&compile(oracle, PageSize::DEFAULT)?, "lru", &[pages]).map(drop)
            })?);
        }
    }
    let (lru, hat) = (median(lru), median(hat));
    let millions = trace.len() as f64 / 1e6;
    println!(
        "cache of {percent} % ({pages} pages): LRU {:.1} million/s, HAT {:.1} million/s, {:.2} of LRU",
        millions / lru,
        millions / hat,
        lru / hat
    );
    let Some(oracle) = oracle else { return Ok(()) };
    let whole = median(whole);
    println!("  from the file to the result: {:.1} million/s", millions / whole);
    let tuned = u32::BITS - pages.leading_zeros() + 1;
    for hashpower in [24, tuned] {
        let Some((peer, peer_misses)) = peer(arguments, oracle, pages, hashpower)? else {
            println!("  peer: skipped, as `{}` cannot import libcachesim", arguments.python);
            return Ok(());
        };
        ensure!(peer_misses == misses, "the peer counts {peer_misses} misses, not {misses}");
        println!(
            "  libCacheSim LRU, hashpower {hashpower}: {:.1} million/s; replay {:.1} times, file to result {:.1} times as fast",
            millions / peer,
            peer / lru,
            peer / whole
        );
    }
    Ok(())
}

/// Return a policy for a trace.
pub(crate) fn build(
    trace: &CompiledTrace,
    policy: &str,
    capacity_pages: &[u32],
) -> Result<BoxedPolicy> {
    let mut costs = vec![COSTS[1]; capacity_pages.len() + 1];
    costs[0] = COSTS[0];
    costs[capacity_pages.len()] = COSTS[2];
    let setup = Setup { costs, ..Setup::new(trace.geometry(), capacity_pages.to_vec()) };
    Ok(registry::find(policy)?.build_default(&setup)?)
}

/// Replays a trace through a policy and returns its misses.
pub(crate) fn run(trace: &CompiledTrace, policy: &str, capacity_pages: &[u32]) -> Result<u64> {
    let mut policy = build(trace, policy, capacity_pages)?;
    let counts = replay(trace, &mut *policy, Replay::default())?;
    let disk = Tier(u8::try_from(capacity_pages.len()).context("a hierarchy has few tiers")?);
    Ok(black_box(counts.iter().map(|counts| counts.hits(disk)).sum()))
}

/// Return the peer's median CPU seconds and its misses; none if it is not installed.
fn peer(
    arguments: &Arguments,
    trace: &Path,
    pages: u32,
    hashpower: u32,
) -> Result<Option<(f64, u64)>> {
    let output = Command::new(&arguments.python)
        .arg(PEER)
        .arg(trace)
        .args([pages.to_string(), hashpower.to_string(), arguments.runs.to_string()])
        .output();
    let Ok(output) = output else { return Ok(None) };
    if !output.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8(output.stdout).context("the peer prints text")?;
    let mut runs = vec![];
    let mut misses = 0;
    for line in text.lines() {
        let (seconds, found) = line.split_once(' ').context("the peer prints two numbers")?;
        runs.push(seconds.parse::<f64>().context("the peer prints seconds")?);
        misses = found.parse().context("the peer prints misses")?;
    }
    Ok((!runs.is_empty()).then(|| (median(runs), misses)))
}
