//! Every policy of one tier beside libCacheSim's: misses, and accesses per CPU second.
//!
//! On a generated Zipf(1.0) trace, or on a trace that is given, each policy and its peer replay in
//! alternation, several times; medians are compared. Where both are the same algorithm, their misses
//! must be equal. The peer's Python package has to be installed (`pip install libcachesim`).
//!
//! With `--write-fixture` the peer's misses on the bundled trace are written to `testdata/peers`,
//! which a test of the lab reads, so that equality is checked without Python.
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use thermocline_core::registry::{self, Future};
use thermocline_core::{PageCost, Setup, Tier};
use thermocline_lab::{Replay, replay};
use thermocline_trace::convert::write_oracle_general;
use thermocline_trace::generate::{self, Generator, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::measure::{cpu_seconds, median};
use crate::replay::compile;

/// Script that runs the peer.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer.py");
/// Path of the fixture, and its contents.
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/peers/libcachesim.tsv");
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/pgbench/pgbench.csv.zst");
const BUNDLED_PAGE_BYTES: u64 = 8192;
/// The sizes of the fixture's caches.
const FIXTURE_PAGES: [u32; 2] = [500, 4000];
/// The size of the peer's hash table if nothing is said: 2 to the power of this.
const HASHPOWER: u32 = 24;

/// A policy, and what libCacheSim calls it.
struct Peer {
    policy: &'static str,
    /// Parameters that make it what the peer is.
    given: &'static [(&'static str, &'static str)],
    class: &'static str,
    /// `true` if both are one algorithm: then their misses are equal. Otherwise the module of the
    /// policy lists the differences, or both draw lots.
    is_same: bool,
}

/// Pair a policy and a class that are one algorithm.
const fn same(policy: &'static str, class: &'static str) -> Peer {
    Peer { policy, given: &[], class, is_same: true }
}

/// Pair a policy and a class that have one name.
const fn alike(policy: &'static str, class: &'static str) -> Peer {
    Peer { is_same: false, ..same(policy, class) }
}

/// One row each, by policy. The modules of the policies list the differences.
const PEERS: &[Peer] = &[
    Peer { given: &[("batch", "65536")], ..alike("3l-cache", "ThreeLCache") },
    same("arc", "ARC"),
    alike("cacheus", "Cacheus"),
    same("clock", "Clock"),
    alike("clock-pro", "ClockPro"),
    same("fifo", "FIFO"),
    alike("hyperbolic", "Hyperbolic"),
    alike("lecar", "LeCaR"),
    same("lfu", "LFU"),
    alike("lirs", "LIRS"),
    same("lru", "LRU"),
    Peer { given: &[("retained", "0")], ..same("lru-2", "LRUK") },
    Peer { given: &[("life_time", "10000")], ..alike("mq", "MQ") },
    same("opt", "Belady"),
    alike("random", "Random"),
    Peer { given: &[("fill_main", "true")], ..same("s3-fifo", "S3FIFO") },
    same("sieve", "Sieve"),
    Peer {
        given: &[("segments", "4"), ("protected_share", "0.75"), ("fill_upwards", "true")],
        ..same("slru", "SLRU")
    },
    same("2q", "TwoQ"),
    alike("w-tinylfu", "WTinyLFU"),
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
    /// A trace to replay in place of the generated one
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Bytes of a page of that trace
    #[arg(long, default_value_t = 4096)]
    page_bytes: u64,
    /// Sizes of the cache in percent of the footprint
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 10.0])]
    percent: Vec<f64>,
    /// Policies; all if none is given
    #[arg(long, value_delimiter = ',')]
    policy: Vec<String>,
    /// Runs of which the median is taken
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Measure the peer with a hash table that is tuned to the cache, too
    #[arg(long)]
    tuned: bool,
    /// Write the peer's misses on the bundled trace to `testdata/peers`, and measure nothing
    #[arg(long)]
    write_fixture: bool,
    /// Python with the package libcachesim
    #[arg(long, default_value = "python3")]
    python: String,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let unknown = |name: &&String| PEERS.iter().all(|peer| peer.policy != **name);
    if let Some(name) = arguments.policy.iter().find(unknown) {
        let known: Vec<&str> = PEERS.iter().map(|peer| peer.policy).collect();
        bail!("`{name}` has no peer; there are: {}", known.join(", "));
    }
    let folder = tempfile::tempdir().context("cannot make a folder for the trace")?;
    let file = folder.path().join("trace.oracleGeneral");
    if arguments.write_fixture {
        return write_fixture(arguments, &file);
    }
    let page_size = PageSize::new(arguments.page_bytes)?;
    let trace = match &arguments.trace {
        Some(path) => compile(path, page_size)?,
        None => CompiledTrace::compile(&mut generator(arguments)?, page_size)?,
    };
    write_oracle_general(&trace, &file)?;
    println!("{} accesses of {} pages", trace.len(), trace.footprint_pages());
    println!(
        "| policy | cache, pages | misses | peer's misses | million/s | peer | times |{}",
        if arguments.tuned { " tuned peer | times |" } else { "" }
    );
    for peer in PEERS {
        let is_wanted = |name: &String| name == peer.policy;
        if !arguments.policy.is_empty() && !arguments.policy.iter().any(is_wanted) {
            continue;
        }
        for &percent in &arguments.percent {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a number of pages"
            )]
            let pages = (f64::from(trace.footprint_pages()) * percent / 100.0).max(1.0) as u32;
            compare(arguments, &trace, &file, peer, pages)?;
        }
    }
    Ok(())
}

fn generator(arguments: &Arguments) -> Result<Generator> {
    Ok(Generator::new(generate::Options {
        pattern: Pattern::Zipf { alpha: 1.0 },
        requests: arguments.accesses,
        pages: arguments.pages,
        ..generate::Options::default()
    })?)
}

/// Compare one policy at one size with its peer.
fn compare(
    arguments: &Arguments,
    trace: &CompiledTrace,
    file: &Path,
    peer: &Peer,
    pages: u32,
) -> Result<()> {
    let tuned = arguments.tuned.then_some(u32::BITS - pages.leading_zeros() + 1);
    let hashpowers: Vec<u32> = [HASHPOWER].into_iter().chain(tuned).collect();
    let mut ours = vec![];
    let mut theirs = vec![vec![]; hashpowers.len()];
    let (mut misses, mut peer_misses) = (0, 0);
    for _ in 0..arguments.runs {
        ours.push(replay_once(trace, peer, pages, &mut misses)?);
        for (seconds, &hashpower) in theirs.iter_mut().zip(&hashpowers) {
            let (run, found) = peer_once(arguments, file, peer.class, pages, hashpower)?;
            seconds.push(run);
            peer_misses = found;
        }
    }
    let is_right = !peer.is_same || misses == peer_misses;
    let millions = trace.len() as f64 / 1e6;
    let ours = median(ours);
    let mut line = format!(
        "| {} | {pages} | {misses} | {peer_misses}{} | {:.1} |",
        peer.policy,
        if is_right { "" } else { " (!)" },
        millions / ours
    );
    for theirs in theirs {
        let theirs = median(theirs);
        write!(line, " {:.1} | {:.1} |", millions / theirs, theirs / ours)?;
    }
    println!("{line}");
    Ok(())
}

/// Return the CPU seconds of one replay; notes its misses.
fn replay_once(trace: &CompiledTrace, peer: &Peer, pages: u32, misses: &mut u64) -> Result<f64> {
    let mut setup =
        Setup { costs: vec![PageCost::default(); 2], ..Setup::new(trace.geometry(), vec![pages]) };
    let entry = registry::find(peer.policy)?;
    let given: Vec<(String, String)> =
        peer.given.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
    if entry.capabilities.future == Future::Accesses {
        // The peer's trace says what comes next, too.
        setup.inputs = trace.foresight()?.into();
    }
    let mut policy = entry.build(&setup, &entry.values(&given)?)?;
    cpu_seconds(|| {
        let counts = replay(trace, &mut *policy, Replay::default())?;
        *misses = black_box(counts.iter().map(|counts| counts.hits(Tier(1))).sum());
        Ok(())
    })
}

/// Return the CPU seconds of one run of the peer, and its misses.
fn peer_once(
    arguments: &Arguments,
    file: &Path,
    class: &str,
    pages: u32,
    hashpower: u32,
) -> Result<(f64, u64)> {
    let output = Command::new(&arguments.python)
        .arg(SCRIPT)
        .arg(file)
        .args([&pages.to_string(), &hashpower.to_string(), "1", class])
        .output()
        .with_context(|| format!("cannot start `{}`", arguments.python))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the peer fails; `pip install libcachesim`?\n{errors}");
    let text = String::from_utf8(output.stdout).context("the peer prints text")?;
    let (seconds, misses) = text.trim().split_once(' ').context("the peer prints two numbers")?;
    let seconds = seconds.parse().context("the peer prints seconds")?;
    Ok((seconds, misses.parse().context("the peer prints misses")?))
}

/// Writes what the test of the lab compares with.
fn write_fixture(arguments: &Arguments, file: &Path) -> Result<()> {
    let page_size = PageSize::new(BUNDLED_PAGE_BYTES)?;
    let trace = compile(Path::new(BUNDLED), page_size)?;
    write_oracle_general(&trace, file)?;
    let mut text = "policy\tparameters\tcapacity_pages\tmisses\n".to_owned();
    for peer in PEERS.iter().filter(|peer| peer.is_same) {
        let given: Vec<String> =
            peer.given.iter().map(|(name, value)| format!("{name}={value}")).collect();
        for pages in FIXTURE_PAGES {
            let (_, misses) = peer_once(arguments, file, peer.class, pages, HASHPOWER)?;
            writeln!(text, "{}\t{}\t{pages}\t{misses}", peer.policy, given.join(","))?;
        }
    }
    let path = Path::new(FIXTURE);
    std::fs::create_dir_all(path.parent().context("the fixture has a folder")?)?;
    std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    println!("wrote {}", path.display());
    Ok(())
}
