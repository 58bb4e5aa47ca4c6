//! Shadow policies: how near their estimates are to full replays, and what they cost an engine.
//!
//! An estimate and a replay see the same accesses. The cost is the ratio of rounds of one engine with
//! the shadows watching and without, in alternation; the median of all rounds is taken. The engine
//! answers from RAM, without sockets, so that the accesses come as fast as they ever do.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use clap::Args;
use thermocline_core::random::SplitMix64;
use thermocline_core::{Nanos, PageCost, Setup, Tier, WriteMiss, registry};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::shadow::{Estimate, ShadowOptions, Shadows};
use thermocline_engine::{Engine, Event, Options, PolicyOptions, Request, Shard};
use thermocline_trace::generate::{self, Generator, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::measure::{median, seconds};
use crate::replay::compile;

/// The bundled trace.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/pgbench/pgbench.csv.zst");
/// Policies whose estimates are compared.
const POLICIES: [&str; 9] =
    ["hat", "lru", "lru-inclusive", "lru-exclusive", "face-gsc", "arc-l2arc", "hca", "tac", "lc"];
/// Shadows that watch the engine.
const WATCHING: [&str; 3] = ["lru", "face-gsc", "hat"];
/// Pages of RAM of the engine that is timed; it has no others.
const TIMED_PAGES: u32 = 1 << 14;
const PAGE: u32 = 4096;

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The share of pages that is sampled
    #[arg(long, default_value_t = 0.01)]
    sample: f64,
    /// Requests of a round
    #[arg(long, default_value_t = 200_000)]
    requests: u64,
    /// Rounds of which the median is taken
    #[arg(long, default_value_t = 41)]
    rounds: usize,
    /// Traces to compare on as well, such as a recording of an engine
    #[arg(long)]
    also: Vec<PathBuf>,
    /// Leave the comparisons with full replays out
    #[arg(long)]
    only_cost: bool,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    if !arguments.only_cost {
        compare_all(
            "the bundled trace",
            &compile(BUNDLED.as_ref(), PageSize::DEFAULT)?,
            arguments.sample,
        )?;
        for (alpha, pages) in [(0.8, 2_000_000), (1.0, 2_000_000), (1.2, 2_000_000)] {
            let trace = zipf(alpha, pages, 10_000_000)?;
            compare_all(&format!("Zipf({alpha:.1})"), &trace, arguments.sample)?;
        }
        for path in &arguments.also {
            let name = path.file_name().context("a trace is a file")?.to_string_lossy();
            compare_all(&name, &compile(path, PageSize::DEFAULT)?, arguments.sample)?;
        }
    }
    cost(arguments)
}

fn zipf(alpha: f64, pages: u64, requests: u64) -> Result<CompiledTrace> {
    let pattern = Pattern::Zipf { alpha };
    let options = generate::Options { pattern, requests, pages, ..generate::Options::default() };
    Ok(CompiledTrace::compile(&mut Generator::new(options)?, PageSize::DEFAULT)?)
}

fn compare_all(name: &str, trace: &CompiledTrace, sample: f64) -> Result<()> {
    println!("## {:.1} million accesses of {name}", trace.len() as f64 / 1e6);
    println!("policy, RAM and flash pages: sample; hits in RAM and on flash, replayed, estimated");
    for one in agreements(trace, &sizes(trace), &POLICIES, sample)? {
        let percent = |ratio: f64| 100.0 * ratio;
        let Agreement { policy, ram_pages, flash_pages, replayed, estimate } = one;
        println!(
            "{policy}, {ram_pages} and {flash_pages}: {:.1} %; {:.2} and {:.2}, {:.2} and {:.2}",
            percent(estimate.rate),
            percent(replayed[0]),
            percent(replayed[1]),
            percent(estimate.ram_hit_ratio),
            percent(estimate.flash_hit_ratio)
        );
    }
    Ok(())
}

/// RAM of 1, 3 and 10 % of the footprint, flash of four times as much.
fn sizes(trace: &CompiledTrace) -> Vec<[u32; 2]> {
    [100, 33, 10].map(|part| trace.footprint_pages() / part).map(|ram| [ram, 4 * ram]).to_vec()
}

/// Figures of a policy by a replay and by an estimate.
#[derive(Debug)]
struct Agreement {
    policy: &'static str,
    ram_pages: u32,
    flash_pages: u32,
    /// Hit ratios of RAM and flash.
    replayed: [f64; 2],
    estimate: Estimate,
}

/// Compare these policies at all sizes; each alone, so that the sample is as small as it gets.
fn agreements(
    trace: &CompiledTrace,
    sizes: &[[u32; 2]],
    policies: &[&'static str],
    sample: f64,
) -> Result<Vec<Agreement>> {
    let numbers = trace.page_numbers();
    let disk_pages = numbers.iter().max().context("a trace has pages")? + 1;
    let mut agreements = vec![];
    for &[ram_pages, flash_pages] in sizes {
        for &policy in policies {
            let options = vec![shadow(policy, ram_pages, flash_pages)?];
            let mut shadows = Shadows::new(options, disk_pages, sample, &costs())?;
            for access in trace.accesses() {
                shadows.access(numbers[access.page.index()], access.op, Nanos(0));
            }
            agreements.push(Agreement {
                policy,
                ram_pages,
                flash_pages,
                replayed: replay(trace, policy, ram_pages, flash_pages)?,
                estimate: shadows.estimates().remove(0),
            });
        }
    }
    Ok(agreements)
}

fn shadow(policy: &str, ram_pages: u32, flash_pages: u32) -> Result<ShadowOptions> {
    let entry = registry::find(policy)?;
    Ok(ShadowOptions {
        label: policy.into(),
        entry: entry.clone(),
        values: entry.values(&[])?,
        write_miss: WriteMiss::Fetch,
        ram_pages,
        flash_pages,
    })
}

fn costs() -> [PageCost; 3] {
    [
        PageCost::default(),
        PageCost { read_ms: 0.16, write_ms: 0.30 },
        PageCost { read_ms: 12.7, write_ms: 13.7 },
    ]
}

/// Hit ratios of RAM and flash in a full replay.
fn replay(trace: &CompiledTrace, policy: &str, ram: u32, flash: u32) -> Result<[f64; 2]> {
    let setup = Setup { costs: costs().to_vec(), ..Setup::new(trace.geometry(), vec![ram, flash]) };
    let mut policy = registry::find(policy)?.build_default(&setup)?;
    let counts = thermocline_lab::replay(trace, &mut *policy, thermocline_lab::Replay::default())?;
    let ratio = |tier| {
        let hits: u64 = counts.iter().map(|counts| counts.hits(tier)).sum();
        hits as f64 / trace.len() as f64
    };
    Ok([ratio(Tier::RAM), ratio(Tier::FLASH)])
}

/// Observer of the engine that is timed.
#[derive(Debug, Default)]
struct Watching {
    /// `true` if the observations are used; the usual work of a server is done in any case.
    is_on: bool,
    shadows: Option<Shadows>,
}

fn cost(arguments: &Arguments) -> Result<()> {
    println!("## {} shadows beside an engine that answers from RAM", WATCHING.len());
    for ram_pages in [1 << 16, TIMED_PAGES] {
        let options = WATCHING.iter().map(|policy| shadow(policy, ram_pages, 4 * ram_pages));
        let options = options.collect::<Result<Vec<_>>>()?;
        let shadows = Shadows::new(options, TIMED_PAGES.into(), arguments.sample, &costs())?;
        let rate = shadows.rate();
        let watching = Arc::new(Mutex::new(Watching { is_on: false, shadows: Some(shadows) }));
        let mut engine = watched(&watching)?;
        round(&mut engine, arguments.requests)?;
        let (mut ratios, mut plain_ns) = (vec![], vec![]);
        for number in 0..arguments.rounds.max(1) {
            // Each is the first of its pair in turn.
            let mut times = [0.0; 2];
            for is_on in [number % 2 == 0, number % 2 != 0] {
                watching.lock().unwrap_or_else(PoisonError::into_inner).is_on = is_on;
                let time = seconds(|| round(&mut engine, arguments.requests))?;
                times[usize::from(is_on)] = time;
            }
            ratios.push(times[1] / times[0]);
            plain_ns.push(times[0] * 1e9 / arguments.requests as f64);
        }
        println!(
            "{:.1} % of the pages sampled: {:.1} % of the time more; a request takes {:.0} ns without",
            100.0 * rate,
            100.0 * (median(ratios) - 1.0),
            median(plain_ns)
        );
    }
    Ok(())
}

/// Return an engine whose pages are all in RAM, watched as a server watches it.
fn watched(watching: &Arc<Mutex<Watching>>) -> Result<Engine<MemoryDriver>> {
    let policy = PolicyOptions::named("lru")?;
    let mut shard = Shard::new(Options::new(TIMED_PAGES.into(), TIMED_PAGES, 0, policy))?;
    let watching = Arc::clone(watching);
    shard.observe(Box::new(move |event| {
        let Event::Access { now, page, op, .. } = *event else { return };
        let mut watching = watching.lock().unwrap_or_else(PoisonError::into_inner);
        let is_on = watching.is_on;
        if let Some(shadows) = watching.shadows.as_mut().filter(|_| is_on) {
            shadows.access(page, op, now);
        }
    }));
    let disk_bytes = TIMED_PAGES as usize * PAGE as usize;
    let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), disk_bytes);
    Ok(Engine::new(shard, driver))
}

/// Reads of pages at random, the copy of their bytes included.
fn round(engine: &mut Engine<MemoryDriver>, requests: u64) -> Result<()> {
    let mut random = SplitMix64::new(1);
    let mut target = vec![0; PAGE as usize];
    let page_bytes = u64::from(PAGE);
    for tag in 0..requests {
        let page = random.bits() % u64::from(TIMED_PAGES);
        engine.submit(Request::read(tag, page * page_bytes, page_bytes), &[])?;
        let reply = loop {
            match engine.next_reply() {
                Some(reply) => break reply,
                None => engine.wait(),
            }
        };
        target.copy_from_slice(engine.pieces(&reply).next().expect("a read has bytes"));
        engine.release(reply);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the least sample that was taken.
    #[track_caller]
    fn agree(trace: &CompiledTrace, sizes: &[[u32; 2]], policies: &[&'static str]) -> f64 {
        let mut least: f64 = 1.0;
        for one in agreements(trace, sizes, policies, 0.01).unwrap() {
            let estimate = [one.estimate.ram_hit_ratio, one.estimate.flash_hit_ratio];
            let all = |ratios: [f64; 2]| ratios[0] + ratios[1];
            let differences = [
                estimate[0] - one.replayed[0],
                estimate[1] - one.replayed[1],
                all(estimate) - all(one.replayed),
            ];
            for difference in differences {
                assert!(difference.abs() < 0.02, "{one:?}");
            }
            least = least.min(one.estimate.rate);
        }
        least
    }

    #[test]
    fn estimates_agree_with_replays_of_the_bundled_trace() {
        let trace = compile(BUNDLED.as_ref(), PageSize::DEFAULT).unwrap();
        assert!(agree(&trace, &sizes(&trace), &POLICIES) < 0.08);
    }

    #[test]
    fn estimates_agree_with_replays_of_skewed_accesses() {
        for alpha in [0.8, 1.1] {
            let trace = zipf(alpha, 200_000, 800_000).unwrap();
            assert!(agree(&trace, &sizes(&trace), &POLICIES) < 0.08);
        }
    }

    #[test]
    fn a_hundredth_of_the_pages_says_enough_of_large_caches() {
        let trace = zipf(1.0, 1_500_000, 4_000_000).unwrap();
        let least = agree(&trace, &[[60_000, 240_000]], &["hat", "lru-inclusive", "tac"]);
        assert!((least - 0.01).abs() < 1e-9);
    }
}
