//! `auto` beside each of its candidates: I/O time by the costs of the HAT paper's devices.
//!
//! Every trace is replayed alone, which is steady, as far as the trace is; then pieces of all of them are
//! joined, one after the other, again and again; then a hot set moves. For each there are three ratios:
//! of the I/O time of `auto` to that of the best candidate in hindsight; to that of the worst choice that
//! looking at one phase suggests: of the candidates that are best in some phase, the one that is worst in
//! the whole; and to that of the candidate with which `auto` begins.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use thermocline_core::config::Kind;
use thermocline_core::{
    Access, Actions, BoxedPolicy, Counts, Geometry, PageCost, PageId, Setup, registry,
};
use thermocline_trace::generate::{Generator, Options, Pattern, Shift};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::replay::compile;

/// The bundled trace.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/pgbench/pgbench.csv.zst");
/// Memory, a Samsung 470 and a Seagate ST380011A.
const COSTS: [PageCost; 3] = [
    PageCost { read_ms: 0.0, write_ms: 0.0 },
    PageCost { read_ms: 0.16, write_ms: 0.30 },
    PageCost { read_ms: 12.7, write_ms: 13.7 },
];
/// Number of accesses ahead at which pages are prefetched.
const AHEAD: usize = 16;
/// Number of moves of a hot set.
const MOVES: u32 = 6;

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces to replay besides the bundled one, alone and joined
    #[arg(long)]
    trace: Vec<PathBuf>,
    /// Pages of RAM in percent of the footprint; flash has four times as many
    #[arg(long, value_delimiter = ',', default_value = "1,5")]
    percents: Vec<u32>,
    /// Accesses of a phase, where traces are joined
    #[arg(long, default_value_t = 300_000)]
    phase_accesses: usize,
    /// Number of turns of each trace, where traces are joined
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Accesses of the trace whose hot set moves; 0 leaves it out
    #[arg(long, default_value_t = 3_000_000)]
    moving_accesses: u64,
    /// Parameters of `auto` that differ from their defaults, as NAME=VALUE
    #[arg(long)]
    parameter: Vec<String>,
}

/// Accesses, and where phases end.
struct Workload {
    name: String,
    accesses: Vec<Access>,
    page_numbers: Arc<[u64]>,
    phase_ends: Vec<usize>,
}

/// Figures of a policy.
struct Taken {
    total_ms: f64,
    phases_ms: Vec<f64>,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let given: Vec<(String, String)> =
        arguments.parameter.iter().map(|text| pair(text)).collect::<Result<_>>()?;
    let bundled = compile(BUNDLED.as_ref(), PageSize::DEFAULT)?;
    let mut traces = vec![("bundled".to_owned(), bundled)];
    for path in &arguments.trace {
        traces.push((name(path)?, compile(path, PageSize::DEFAULT)?));
    }
    println!(
        "workload, RAM: accesses; of the best candidate's I/O time; of the worst choice of a phase; of the first \
         candidate; changes"
    );
    let mut worst_steady: f64 = 0.0;
    for (name, trace) in &traces {
        let workload = join(name, &[trace], trace.len(), 1)?;
        for &percent in &arguments.percents {
            worst_steady = worst_steady.max(compare(&workload, percent, &given)?);
        }
    }
    println!("at most {worst_steady:.3} where one trace is replayed");
    let mut phased = vec![];
    if traces.len() > 1 {
        let all: Vec<&CompiledTrace> = traces.iter().map(|(_, trace)| trace).collect();
        phased.push(join("joined", &all, arguments.phase_accesses, arguments.rounds)?);
    }
    if arguments.moving_accesses > 0 {
        phased.push(moving(arguments.moving_accesses)?);
    }
    let mut worst_phased: f64 = 0.0;
    for workload in &phased {
        for &percent in &arguments.percents {
            worst_phased = worst_phased.max(compare(workload, percent, &given)?);
        }
    }
    println!("at most {worst_phased:.3} where phases change");
    Ok(())
}

fn pair(text: &str) -> Result<(String, String)> {
    let (name, value) =
        text.split_once('=').with_context(|| format!("`{text}` is not of the form NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn name(path: &Path) -> Result<String> {
    Ok(path.file_name().context("a trace is a file")?.to_string_lossy().into_owned())
}

/// Return a hot set that moves by a third of the pages, again and again.
fn moving(accesses: u64) -> Result<Workload> {
    let options = Options {
        pattern: Pattern::Zipf { alpha: 1.0 },
        requests: accesses,
        pages: 200_000,
        shift: Some(Shift { every_requests: accesses / u64::from(MOVES), pages: 200_000 / 3 }),
        ..Options::default()
    };
    let trace = CompiledTrace::compile(&mut Generator::new(options)?, PageSize::DEFAULT)?;
    let mut workload = join("a hot set that moves", &[&trace], trace.len(), 1)?;
    let length = workload.accesses.len() / MOVES as usize;
    workload.phase_ends = (1..=MOVES as usize).map(|phase| phase * length).collect();
    Ok(workload)
}

/// Pieces of traces in turn, each trace on a disk of its own; ids in the order of first appearance.
fn join(name: &str, traces: &[&CompiledTrace], piece: usize, rounds: usize) -> Result<Workload> {
    let mut accesses = vec![];
    let (mut ids, mut page_numbers) = (HashMap::new(), vec![]);
    let mut phase_ends = vec![];
    for round in 0..rounds {
        for (disk, trace) in (0_u64..).zip(traces) {
            let first = (round * piece).min(trace.len());
            for index in first..(first + piece).min(trace.len()) {
                let access = trace.access(index);
                let number = (disk << 44) + trace.page_numbers()[access.page.index()];
                let next = u32::try_from(page_numbers.len())?;
                let id = *ids.entry(number).or_insert(next);
                if id == next {
                    page_numbers.push(number);
                }
                accesses.push(Access { page: PageId(id), ..access });
            }
            if phase_ends.last() != Some(&accesses.len()) {
                phase_ends.push(accesses.len());
            }
        }
    }
    let page_numbers = page_numbers.into();
    Ok(Workload { name: name.to_owned(), accesses, page_numbers, phase_ends })
}

/// Prints how `auto` does beside its candidates; returns its I/O time as a share of the best one's.
fn compare(workload: &Workload, percent: u32, given: &[(String, String)]) -> Result<f64> {
    let pages = workload.page_numbers.len() as u64;
    let ram_pages = u32::try_from((pages * u64::from(percent) / 100).max(1))?;
    let setup = Setup {
        costs: COSTS.to_vec(),
        ..Setup::new(Geometry::table(workload.page_numbers.clone()), vec![ram_pages, 4 * ram_pages])
    };
    let entry = registry::find("auto")?;
    let build = |given: &[(String, String)]| -> Result<BoxedPolicy> {
        Ok(entry.build(&setup, &entry.values(given)?)?)
    };
    let mut candidates = vec![];
    for &word in words()? {
        let alone = [("candidates".to_owned(), word.to_string())];
        candidates.push((word, replay(&mut *build(&alone)?, workload)));
    }
    let mut auto = build(given)?;
    let first = auto.choosing().map(|choosing| choosing.in_force);
    let first = candidates.iter().find(|(word, _)| first.as_deref() == Some(*word));
    let (first, first_taken) = first.context("`auto` has several candidates")?;
    let taken = replay(&mut *auto, workload);
    let least = |time_ms: &dyn Fn(&Taken) -> f64| {
        candidates.iter().min_by(|one, other| time_ms(&one.1).total_cmp(&time_ms(&other.1)))
    };
    let (best, best_taken) = least(&|taken| taken.total_ms).context("there are candidates")?;
    let choices =
        (0..workload.phase_ends.len()).filter_map(|phase| least(&|one| one.phases_ms[phase]));
    let worst = choices.max_by(|one, other| one.1.total_ms.total_cmp(&other.1.total_ms));
    let (worst, worst_taken) = worst.context("there are phases")?;
    let ratio = taken.total_ms / best_taken.total_ms;
    println!(
        "{}, {percent} %: {}; {ratio:.3} of {best}; {:.3} of {worst}; {:.3} of {first}; {} changes",
        workload.name,
        workload.accesses.len(),
        taken.total_ms / worst_taken.total_ms,
        taken.total_ms / first_taken.total_ms,
        auto.choosing().map_or(0, |choosing| choosing.switches),
    );
    Ok(ratio)
}

/// Return the candidates that there are.
fn words() -> Result<&'static [&'static str]> {
    let entry = registry::find("auto")?;
    let parameter = entry.parameters.iter().find(|one| one.name == "candidates");
    match parameter.context("`auto` has candidates")?.kind {
        Kind::Words(words) => Ok(words),
        Kind::Integer { .. } | Kind::Real { .. } | Kind::Switch | Kind::Choice(_) => {
            bail!("candidates are words")
        }
    }
}

fn replay(policy: &mut dyn thermocline_core::Policy, workload: &Workload) -> Taken {
    let (mut actions, mut counts) = (Actions::new(), Counts::new());
    let (mut begin, mut before_ms, mut phases_ms) = (0, 0.0, vec![]);
    for &end in &workload.phase_ends {
        let coming = workload.accesses.get(begin + AHEAD..).unwrap_or_default();
        policy.access_all(&workload.accesses[begin..end], coming, &mut actions, &mut counts);
        let so_far_ms = counts.io_time_ms(&COSTS);
        phases_ms.push(so_far_ms - before_ms);
        (begin, before_ms) = (end, so_far_ms);
    }
    Taken { total_ms: before_ms, phases_ms }
}
