//! RAM that moves between two caches, beside fixed halves and the best fixed split in hindsight.
//!
//! Both traces are replayed at once, through an engine each, so that both end together. The engines' devices
//! move no bytes. The misses of fixed splits are those of the policy alone, at all sizes in one pass.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use thermocline_core::{Op, PageCost, Tier};
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::shadow::{ShadowOptions, Shadows};
use thermocline_engine::shares::{Limits, Shares, Terms};
use thermocline_engine::{Engine, Event, Operation, Options, PolicyOptions, Request, Shard};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::replay::compile;

const PAGE: usize = 4096;

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Two traces
    #[arg(num_args = 2, required = true)]
    traces: Vec<PathBuf>,
    /// The policy of both caches
    #[arg(long, default_value = "lru")]
    policy: String,
    /// RAM of both, as shares of the pages of both, in percent
    #[arg(long, value_delimiter = ',', default_values_t = [2, 5, 10, 20])]
    percent: Vec<u32>,
    /// Accesses between two looks, for each page of RAM
    #[arg(long, default_value_t = 4.0)]
    accesses_per_page: f64,
    /// The weight of what was known at the last look
    #[arg(long)]
    memory: Option<f64>,
    /// The share of pages that the live curves sample
    #[arg(long, default_value_t = 0.01)]
    sample: f64,
}

/// Run the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let traces = arguments.traces.iter().map(|path| compile(path, PageSize::DEFAULT));
    let traces: Vec<CompiledTrace> = traces.collect::<Result<_>>()?;
    ensure!(traces.iter().all(|trace| trace.len() > 0), "a trace has accesses");
    println!(
        "RAM pages: misses with halves, best fixed split, moving; to the best; moves; pages at last"
    );
    for percent in &arguments.percent {
        let pages: u32 = traces.iter().map(CompiledTrace::footprint_pages).sum();
        let outcome = run(&traces, arguments, pages / 100 * percent)?;
        let Outcome { pages, halves, best, best_pages, moving, moves, last } = outcome;
        println!(
            "{pages}: {halves:.0}, {best:.0} at {best_pages:?}, {moving:.0}; {:+.1} %; {moves}; {last:?}",
            100.0 * (moving / best - 1.0)
        );
    }
    Ok(())
}

/// Misses of both caches.
struct Outcome {
    pages: u32,
    halves: f64,
    best: f64,
    best_pages: [u32; 2],
    moving: f64,
    moves: u32,
    last: Vec<u32>,
}

/// A cache with the trace that it gets.
struct Cache<'a> {
    trace: &'a CompiledTrace,
    engine: Engine<Nothing>,
    /// The live curve, and the policy at all sizes on all pages.
    curves: Arc<Mutex<[Shadows; 2]>>,
    next: usize,
}

impl<'a> Cache<'a> {
    fn new(
        trace: &'a CompiledTrace,
        arguments: &Arguments,
        [pages, spare]: [u32; 2],
        sizes: &[u32],
    ) -> Result<Self> {
        let policy = PolicyOptions::named(&arguments.policy)?;
        let shadow = |&ram_pages: &u32| ShadowOptions {
            label: ram_pages.to_string(),
            entry: policy.entry.clone(),
            values: policy.values.clone(),
            write_miss: policy.write_miss,
            ram_pages,
            flash_pages: 0,
        };
        let footprint = u64::from(trace.footprint_pages());
        let curve = |sample| {
            let shadows = sizes.iter().map(shadow).collect();
            Shadows::new(shadows, footprint, sample, &costs())
        };
        let curves = Arc::new(Mutex::new([curve(arguments.sample)?, curve(1.0)?]));
        let mut options = Options::new(footprint, pages, 0, policy);
        options.spare_ram_pages = spare;
        let mut shard = Shard::new(options)?;
        let seen = Arc::clone(&curves);
        shard.observe(Box::new(move |event| {
            if let Event::Access { now, page, op, .. } = *event {
                let mut curves = seen.lock().unwrap_or_else(PoisonError::into_inner);
                curves.iter_mut().for_each(|curve| curve.access(page, op, now));
            }
        }));
        Ok(Self { trace, engine: Engine::new(shard, Nothing::default()), curves, next: 0 })
    }

    /// Take the next access of the trace.
    fn access(&mut self) -> Result<()> {
        let access = self.trace.access(self.next);
        self.next += 1;
        let offset = access.page.index() as u64 * PAGE as u64;
        let tag = self.next as u64;
        match access.op {
            Op::Read => self.engine.submit(Request::read(tag, offset, PAGE as u64), &[])?,
            Op::Write => {
                self.engine.submit(Request::write(tag, offset, PAGE as u64), &[0; PAGE])?;
            }
        }
        self.engine.wait_until_idle();
        let reply = self.engine.next_reply().context("a request has an answer")?;
        self.engine.release(reply);
        Ok(())
    }

    /// Return the part of the trace that is over.
    fn progress(&self) -> f64 {
        self.next as f64 / self.trace.len() as f64
    }

    fn curve_ms(&self) -> Vec<f64> {
        let curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
        let estimates = curves[0].estimates();
        estimates.iter().map(|one| one.io_ms_per_access * one.accesses as f64).collect()
    }

    /// Return the misses of the policy with each size.
    fn fixed(&self) -> Vec<f64> {
        let curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
        let estimates = curves[1].estimates();
        estimates.iter().map(|one| (1.0 - one.ram_hit_ratio) * one.accesses as f64).collect()
    }

    fn misses(&self) -> f64 {
        let counts = &self.engine.shard().counters().policy;
        (counts.read_hits(Tier::DISK) + counts.write_hits(Tier::DISK)) as f64
    }
}

fn run(traces: &[CompiledTrace], arguments: &Arguments, pages: u32) -> Result<Outcome> {
    let fill_ms = costs()[2].read_ms;
    let limits = Limits { floor_pages: 1, ceiling_pages: pages, fill_ms };
    let usual = Terms::of(pages);
    let terms = Terms { memory: arguments.memory.unwrap_or(usual.memory), ..usual };
    let mut shares = Shares::new(terms, &[limits; 2])?;
    let begun = shares.pages();
    let caches = traces.iter().enumerate().map(|(number, trace)| {
        let own = begun[number];
        Cache::new(trace, arguments, [own, pages - own], &shares.sizes_pages(number))
    });
    let mut caches = caches.collect::<Result<Vec<_>>>()?;
    let all: usize = traces.iter().map(CompiledTrace::len).sum();
    let (mut moves, mut due) = (0, 0.0);
    for accesses in 1..=all {
        let [one, other] = &mut caches[..] else { bail!("give two traces") };
        let behind = if one.progress() <= other.progress() { one } else { other };
        behind.access()?;
        if (accesses as f64) < due {
            continue;
        }
        due = accesses as f64 + (f64::from(pages) * arguments.accesses_per_page).max(1000.0);
        let curves: Vec<_> = caches.iter().map(Cache::curve_ms).collect();
        if let Some(moved) = shares.look(&curves) {
            moves += 1;
            for (cache, &pages) in caches.iter_mut().zip(&moved.pages) {
                cache.engine.shard_mut().set_ram_pages(pages)?;
            }
        }
    }
    let (one, other) = (caches[0].fixed(), caches[1].fixed());
    let sizes = shares.sizes_pages(0);
    let splits = (0..sizes.len() - 1).map(|size| {
        let rest = sizes.len() - 2 - size;
        (one[size] + other[rest], [sizes[size], sizes[rest]])
    });
    let splits: Vec<(f64, [u32; 2])> = splits.collect();
    let (best, best_pages) = *splits
        .iter()
        .min_by(|one, other| one.0.total_cmp(&other.0))
        .context("there are splits")?;
    let halves = splits.iter().find(|(_, pages)| pages[0] == pages[1]).context("16 steps")?.0;
    let moving = caches.iter().map(Cache::misses).sum();
    Ok(Outcome { pages, halves, best, best_pages, moving, moves, last: shares.pages() })
}

fn costs() -> [PageCost; 3] {
    [
        PageCost::default(),
        PageCost { read_ms: 0.16, write_ms: 0.30 },
        PageCost { read_ms: 12.7, write_ms: 13.7 },
    ]
}

/// Devices that are done at once, and move no bytes.
#[derive(Debug, Default)]
struct Nothing(Vec<Operation>);

impl Driver for Nothing {
    fn start(&mut self, operation: Operation) {
        self.0.push(operation);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.extend(self.0.drain(..).map(|operation| (operation, Ok(()))));
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.poll(done);
    }
}
