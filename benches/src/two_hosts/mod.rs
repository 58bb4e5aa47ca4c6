//! Two hosts that act as one cache, beside two that do not, over a wire with a delay.
//!
//! Client and server are programs as users run them, in a network namespace each. A proxy in the server's
//! namespace delays what passes. A trace is replayed on the client, one access after the other.

pub(crate) mod delay;
mod network;
mod pair;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use thermocline_core::{Access, Action, Actions, Geometry, Op, Setup, registry};
use thermocline_trace::PageSize;

use self::network::Network;
use self::pair::{Figures, Sizes};
use crate::measure::median;
use crate::nbd::groups::Clients;
use crate::nbd::server::{self, Place};
use crate::replay::compile;

/// The bundled trace.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/pgbench/pgbench.csv.zst");
/// Other traces, in the folder that `THERMOCLINE_TRACES` names.
const OTHERS: [&str; 2] = ["captured/tpcb_logical.csv.zst", "public/cloudphysics-head114k.vscsi"];

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Delays of a round trip, in milliseconds
    #[arg(long, value_delimiter = ',', default_values_t = [0.2, 2.0])]
    delays: Vec<f64>,
    /// Accesses of each trace; the first third of them fills the caches
    #[arg(long, default_value_t = 30_000)]
    accesses: usize,
    /// Page size in bytes
    #[arg(long, default_value_t = 8192)]
    page: u32,
    /// RAM of the client, in percent of the pages accessed; the server has twice as much RAM, and four
    /// times as much flash
    #[arg(long, default_value_t = 4)]
    percent: u32,
    /// Rounds, of which the median is taken
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure only systems with one of these names; the first system is always measured
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Traces in place of the bundled one and of those that `THERMOCLINE_TRACES` has
    #[arg(long)]
    traces: Vec<PathBuf>,
    /// Folder of the flash: a file system on a disk
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The server's namespace: this process is in the client's
    #[arg(long, hide = true)]
    server_namespace: Option<String>,
}

/// A policy of both hosts.
struct System {
    name: &'static str,
    client: &'static str,
    server: &'static str,
    cooperates: bool,
}

const fn pair_of(policy: &'static str) -> System {
    System { name: policy, client: policy, server: policy, cooperates: true }
}

const SYSTEMS: [System; 9] = [
    System { name: "LRU over LRU", client: "lru", server: "lru-inclusive", cooperates: false },
    System {
        name: "LRU over exclusive LRU",
        client: "lru",
        server: "lru-exclusive",
        cooperates: false,
    },
    pair_of("demote"),
    pair_of("promote"),
    pair_of("hint-k"),
    pair_of("d-hfa"),
    pair_of("p-hfa"),
    pair_of("h-hfa"),
    pair_of("mq-n"),
];

/// Run the benchmark, and print tables in Markdown.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    if let Some(namespace) = &arguments.server_namespace {
        return run_inside(arguments, namespace);
    }
    for program in ["ip", "nbdkit"] {
        if !pair::is_there(program) {
            println!("skipped: `{program}` is not installed");
            return Ok(());
        }
    }
    let network = match Network::new() {
        Ok(network) => network,
        Err(error) => {
            println!("skipped: no network namespaces (root may set them up): {error:#}");
            return Ok(());
        }
    };
    let status = Command::new("ip")
        .args(["netns", "exec", &network.client])
        .args(std::env::args_os())
        .args(["--server-namespace", &network.server])
        .status()
        .context("cannot start `ip`")?;
    ensure!(status.success(), "the benchmark failed in its namespace");
    Ok(())
}

fn run_inside(arguments: &Arguments, namespace: &str) -> Result<()> {
    let thermocline = server::build_thermocline()?;
    for path in traces(&arguments.traces) {
        let page = PageSize::new(arguments.page.into())?;
        let trace = compile(&path, page)?;
        let accesses: Vec<Access> = trace.accesses().take(arguments.accesses).collect();
        let pages = accesses.iter().map(|access| access.page.0 + 1).max().unwrap_or(0);
        let client = pages / 100 * arguments.percent;
        ensure!(client > 0, "{}: `--percent` leaves no RAM", path.display());
        let sizes = Sizes { page_bytes: arguments.page, tiers: [client, 2 * client, 4 * client] };
        let writes = accesses.iter().filter(|access| access.op == Op::Write).count();
        println!(
            "## {}: {} accesses, {:.0} % writes, {pages} pages of {} bytes; tiers of {:?} pages\n",
            path.file_name().unwrap_or_default().display(),
            accesses.len(),
            100.0 * writes as f64 / accesses.len() as f64,
            sizes.page_bytes,
            sizes.tiers,
        );
        let mib = (u64::from(pages) * u64::from(arguments.page)).div_ceil(1 << 20);
        let mib = u32::try_from(mib).context("the pages are more than a disk can have")?;
        for &delay_ms in &arguments.delays {
            let round_trip = Duration::from_secs_f64(delay_ms / 1000.0);
            println!(
                "### {delay_ms} ms: a byte takes {:.2} ms there and back\n",
                delay::measure(round_trip)? / 1000.0
            );
            compare(arguments, namespace, &thermocline, mib, sizes, round_trip, &accesses)?;
        }
    }
    Ok(())
}

/// Return the traces to replay.
fn traces(given: &[PathBuf]) -> Vec<PathBuf> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let folder = std::env::var_os("THERMOCLINE_TRACES").map(PathBuf::from);
    let others = folder.iter().flat_map(|folder| OTHERS.map(|name| folder.join(name)));
    std::iter::once(PathBuf::from(BUNDLED)).chain(others.filter(|path| path.exists())).collect()
}

/// Measure all systems in turn, so that whatever else the machine does meets them all.
fn compare(
    arguments: &Arguments,
    namespace: &str,
    thermocline: &Path,
    mib: u32,
    sizes: Sizes,
    round_trip: Duration,
    accesses: &[Access],
) -> Result<()> {
    let is_chosen =
        |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|it| it == name);
    let (baseline, others) = SYSTEMS.split_first().context("there are systems")?;
    let others = others.iter().filter(|system| is_chosen(system.name));
    let systems: Vec<&System> = std::iter::once(baseline).chain(others).collect();
    let mut found: Vec<Vec<Figures>> = systems.iter().map(|_| vec![]).collect();
    for _ in 0..arguments.rounds {
        for (system, figures) in systems.iter().zip(&mut found) {
            let folder = match &arguments.folder {
                Some(folder) => tempfile::tempdir_in(folder),
                None => tempfile::tempdir(),
            }?;
            let place = Place {
                folder: folder.path(),
                cpus: "0,1",
                mib,
                thermocline,
                clients: Clients::Equal,
            };
            let run = pair::run(&place, namespace, system, sizes, round_trip, accesses);
            figures.push(run.with_context(|| system.name)?);
        }
    }
    println!(
        "| system | mean, ms | of LRU over LRU | median | p99 | reads | writes | bytes on the wire per access | of LRU over LRU | reads found: client, server's RAM, flash, disk, % | in the lab |"
    );
    println!("| {}", "--- | ".repeat(11));
    for (system, figures) in systems.iter().zip(&found) {
        print_row(system, figures, &found[0], sizes, accesses)?;
    }
    println!();
    Ok(())
}

fn print_row(
    system: &System,
    figures: &[Figures],
    baseline: &[Figures],
    sizes: Sizes,
    accesses: &[Access],
) -> Result<()> {
    let of = |value: fn(&Figures) -> f64| median(figures.iter().map(value).collect());
    let ratio = |value: fn(&Figures) -> f64| {
        let ratios = figures.iter().zip(baseline).map(|(this, other)| value(this) / value(other));
        median(ratios.collect())
    };
    let shares = |found: [f64; 4]| found.map(|share| format!("{:.1}", 100.0 * share)).join(", ");
    let found = std::array::from_fn(|tier| {
        median(figures.iter().map(|figures| figures.found[tier]).collect())
    });
    let lab = if system.cooperates {
        shares(in_the_lab(system.client, sizes, accesses)?)
    } else {
        "-".to_owned()
    };
    println!(
        "| {} | {:.3} | {:.2} | {:.3} | {:.2} | {:.3} | {:.3} | {:.0} | {:.2} | {} | {lab} |",
        system.name,
        of(|it| it.mean_ms),
        ratio(|it| it.mean_ms),
        of(|it| it.p50_ms),
        of(|it| it.p99_ms),
        of(|it| it.read_ms),
        of(|it| it.write_ms),
        of(|it| it.bytes_per_access),
        ratio(|it| it.bytes_per_access),
        shares(found),
    );
    Ok(())
}

/// Return the shares of the measured reads by the tier in which the lab's policy finds the page.
fn in_the_lab(policy: &str, sizes: Sizes, accesses: &[Access]) -> Result<[f64; 4]> {
    let entry = registry::find(policy).with_context(|| format!("no policy is called {policy}"))?;
    let pages = accesses.iter().map(|access| access.page.0 + 1).max().unwrap_or(0);
    let setup = Setup::new(Geometry::linear(pages), sizes.tiers.to_vec());
    let mut policy = entry.build(&setup, &entry.values(&[])?)?;
    let mut actions = Actions::new();
    let mut found = [0_u32; 4];
    for (number, &access) in accesses.iter().enumerate() {
        for action in policy.step(access, &mut actions) {
            if let Action::Serve { found: tier, op: Op::Read, .. } = action
                && number >= pair::warming(accesses.len())
            {
                found[tier.index()] += 1;
            }
        }
    }
    let reads = found.iter().sum::<u32>().max(1);
    Ok(found.map(|hits| f64::from(hits) / f64::from(reads)))
}
