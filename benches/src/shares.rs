//! RAM or flash that moves between two caches, beside fixed halves and the best fixed split in hindsight.
//!
//! Both traces are replayed at once, through an engine each, so that both end together. The engines' devices
//! move no bytes; the I/O time is that of the pages that they were to move. Shadows of all pages and all sizes,
//! in the same pass, say which fixed split is the best; it is then replayed like the others.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, ValueEnum};
use thermocline_core::{Op, PageCost, Tier};
use thermocline_engine::counters::Purpose;
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::shadow::{ShadowOptions, Shadows};
use thermocline_engine::shares::{Curve, Limits, Shares, Terms};
use thermocline_engine::{Engine, Event, Operation, Options, PolicyOptions, Request, Shard};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::replay::compile;

const PAGE: usize = 4096;

/// Resource that moves between the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Moving {
    /// RAM, without a flash.
    Ram,
    /// Flash.
    Flash,
}

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Two traces
    #[arg(num_args = 2, required = true)]
    traces: Vec<PathBuf>,
    /// Resource that moves
    #[arg(long, value_enum, default_value = "ram")]
    tier: Moving,
    /// The policy of both caches; by default `lru`, and `lru-exclusive` if flash moves
    #[arg(long)]
    policy: Option<String>,
    /// Sizes of it, as shares of the pages of both, in percent
    #[arg(long, value_delimiter = ',', default_values_t = [2, 5, 10, 20])]
    percent: Vec<u32>,
    /// RAM of each cache if flash moves, as a share of the pages of both, in percent
    #[arg(long, default_value_t = 0.5)]
    ram_percent: f64,
    /// Accesses between two looks, for each page of what moves
    #[arg(long)]
    accesses_per_page: Option<f64>,
    /// The part of the cost of a move that it must have saved before it is made
    #[arg(long)]
    caution: Option<f64>,
    /// The share of pages that the live curves sample
    #[arg(long, default_value_t = 0.01)]
    sample: f64,
}

/// Run the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let traces = arguments.traces.iter().map(|path| compile(path, PageSize::DEFAULT));
    let traces: Vec<CompiledTrace> = traces.collect::<Result<_>>()?;
    ensure!(traces.iter().all(|trace| trace.len() > 0), "a trace has accesses");
    let all: u32 = traces.iter().map(CompiledTrace::footprint_pages).sum();
    println!("pages that move; for each run: its shares at last, misses, I/O time in s");
    for percent in &arguments.percent {
        let bench = Bench::new(&traces, arguments, all / 100 * percent)?;
        let halves = bench.shares(bench.terms)?.pages();
        let (moving, best_pages) = bench.moving()?;
        let halves = bench.fixed(&halves)?;
        let best = bench.fixed(&best_pages)?;
        println!("{}:", bench.terms.pages);
        println!("  halves {halves}");
        println!("  best   {best}");
        println!(
            "  moving {moving}; {} moves, {:+.1} % misses, {:+.1} % I/O time beyond the best",
            moving.moves,
            100.0 * (moving.misses / best.misses - 1.0),
            100.0 * (moving.io_ms / best.io_ms - 1.0)
        );
    }
    Ok(())
}

/// Results of both caches together.
struct Outcome {
    misses: f64,
    io_ms: f64,
    moves: u32,
    last: Vec<u32>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:.0} {:.0}", self.last, self.misses, self.io_ms / 1e3)
    }
}

/// Two traces, and what both caches have.
struct Bench<'a> {
    traces: &'a [CompiledTrace],
    arguments: &'a Arguments,
    policy: PolicyOptions,
    terms: Terms,
    /// Pages of RAM of each cache, if flash moves.
    ram_pages: u32,
}

impl<'a> Bench<'a> {
    fn new(traces: &'a [CompiledTrace], arguments: &'a Arguments, pages: u32) -> Result<Self> {
        let usual = match arguments.tier {
            Moving::Ram => "lru",
            Moving::Flash => "lru-exclusive",
        };
        let policy = PolicyOptions::named(arguments.policy.as_deref().unwrap_or(usual))?;
        let terms = Terms::of(pages);
        let terms = Terms { caution: arguments.caution.unwrap_or(terms.caution), ..terms };
        let all: u32 = traces.iter().map(CompiledTrace::footprint_pages).sum();
        let ram = f64::from(all) * arguments.ram_percent / 100.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let ram_pages = (ram as u32).max(1);
        Ok(Self { traces, arguments, policy, terms, ram_pages })
    }

    /// Return shares that begin as halves.
    fn shares(&self, terms: Terms) -> Result<Shares> {
        let [_, flash, disk] = costs();
        let fill_ms = match self.arguments.tier {
            Moving::Ram => disk.read_ms,
            Moving::Flash => disk.read_ms + flash.write_ms,
        };
        let limits = Limits { floor_pages: 1, ceiling_pages: terms.pages, fill_ms };
        Ok(Shares::new(terms, &[limits; 2])?)
    }

    /// Return the pages of RAM and of flash of a cache that has that number of pages of what moves.
    const fn tiers(&self, pages: u32) -> [u32; 2] {
        match self.arguments.tier {
            Moving::Ram => [pages, 0],
            Moving::Flash => [self.ram_pages, pages],
        }
    }

    /// Replay with shares that move. Returns the best fixed split, too.
    fn moving(&self) -> Result<(Outcome, Vec<u32>)> {
        let mut shares = self.shares(self.terms)?;
        let begun = shares.pages();
        let caches = self.traces.iter().enumerate().map(|(number, trace)| {
            Cache::new(self, trace, begun[number], &shares.sizes_pages(number))
        });
        let mut caches = caches.collect::<Result<Vec<_>>>()?;
        let looks = self.arguments.accesses_per_page;
        let looks = looks.map(|number| (f64::from(self.terms.pages) * number).max(1000.0));
        let looks = looks.unwrap_or(self.terms.look_accesses() as f64);
        let (mut moves, mut due) = (0, looks);
        self.replay(&mut caches, &mut |caches, accesses| {
            if accesses < due {
                return Ok(());
            }
            due = accesses + looks;
            let curves: Vec<_> = caches.iter().map(|cache| cache.curve(self)).collect();
            if let Some(moved) = shares.look(&curves) {
                moves += 1;
                for may_grow in [false, true] {
                    for (cache, &pages) in caches.iter_mut().zip(&moved.pages) {
                        cache.resize(self, pages, may_grow)?;
                    }
                }
            }
            Ok(())
        })?;
        let sizes = shares.sizes_pages(0);
        let all = |cache: &Cache<'_>| cache.needed_ms(1);
        let (one, other) = (all(&caches[0]), all(&caches[1]));
        let splits = 0..sizes.len() - 1;
        let needed_ms = |&size: &usize| one[size] + other[sizes.len() - 2 - size];
        let best = splits.min_by(|one, other| needed_ms(one).total_cmp(&needed_ms(other)));
        let best = best.context("there are splits")?;
        let best = vec![sizes[best], sizes[sizes.len() - 2 - best]];
        Ok((Outcome { moves, ..Self::outcome(&caches, shares.pages()) }, best))
    }

    /// Replay with shares that stay.
    fn fixed(&self, pages: &[u32]) -> Result<Outcome> {
        let caches = self.traces.iter().zip(pages);
        let caches = caches.map(|(trace, &pages)| Cache::new(self, trace, pages, &[]));
        let mut caches = caches.collect::<Result<Vec<_>>>()?;
        self.replay(&mut caches, &mut |_, _| Ok(()))?;
        Ok(Self::outcome(&caches, pages.to_vec()))
    }

    /// Give each cache its trace, so that both end together.
    fn replay(
        &self,
        caches: &mut [Cache<'a>],
        look: &mut dyn FnMut(&mut [Cache<'a>], f64) -> Result<()>,
    ) -> Result<()> {
        let all: usize = self.traces.iter().map(CompiledTrace::len).sum();
        for accesses in 1..=all {
            let [one, other] = &mut *caches else { bail!("give two traces") };
            let behind = if one.progress() <= other.progress() { one } else { other };
            behind.access()?;
            look(caches, accesses as f64)?;
        }
        Ok(())
    }

    fn outcome(caches: &[Cache<'_>], last: Vec<u32>) -> Outcome {
        let misses = caches.iter().map(Cache::misses).sum();
        Outcome { misses, io_ms: caches.iter().map(Cache::io_ms).sum(), moves: 0, last }
    }
}

/// A cache with the trace that it gets.
struct Cache<'a> {
    trace: &'a CompiledTrace,
    engine: Engine<Nothing>,
    /// The live curve, and the policy at all sizes on all pages; none if shares stay.
    curves: Arc<Mutex<Vec<Shadows>>>,
    next: usize,
}

impl<'a> Cache<'a> {
    fn new(bench: &Bench<'_>, trace: &'a CompiledTrace, pages: u32, sizes: &[u32]) -> Result<Self> {
        let policy = &bench.policy;
        let shadow =
            |&pages: &u32| ShadowOptions::new(pages.to_string(), policy, bench.tiers(pages));
        let footprint = u64::from(trace.footprint_pages());
        let samples = if sizes.is_empty() { &[][..] } else { &[bench.arguments.sample, 1.0] };
        let curves = samples.iter().map(|&sample| {
            let shadows = sizes.iter().map(shadow).collect();
            Shadows::new(shadows, footprint, sample, &costs())
        });
        let curves = Arc::new(Mutex::new(curves.collect::<Result<Vec<_>, _>>()?));
        let most = bench.terms.pages;
        let [ram_pages, flash_pages] = match bench.arguments.tier {
            Moving::Ram => bench.tiers(pages),
            // The slots are for the largest share.
            Moving::Flash => bench.tiers(most),
        };
        let mut options = Options::new(footprint, ram_pages, flash_pages, policy.clone());
        if bench.arguments.tier == Moving::Ram {
            options.spare_ram_pages = most - pages;
        }
        let mut shard = Shard::new(options)?;
        let seen = Arc::clone(&curves);
        shard.observe(Box::new(move |event| {
            if let Event::Access { now, page, op, .. } = *event {
                let mut curves = seen.lock().unwrap_or_else(PoisonError::into_inner);
                curves.iter_mut().for_each(|curve| curve.access(page, op, now));
            }
        }));
        let engine = Engine::new(shard, Nothing::default());
        let mut cache = Self { trace, engine, curves, next: 0 };
        cache.resize(bench, pages, false)?;
        Ok(cache)
    }

    /// Give the cache another number of pages of what moves, if that is fewer or it may grow.
    fn resize(&mut self, bench: &Bench<'_>, pages: u32, may_grow: bool) -> Result<()> {
        let shard = self.engine.shard_mut();
        let Options { ram_pages, flash_pages, .. } = *shard.options();
        let is_flash = bench.arguments.tier == Moving::Flash;
        let now = if is_flash { flash_pages } else { ram_pages };
        if pages < now || (may_grow && pages > now) {
            if is_flash {
                shard.set_flash_pages(pages)?;
            } else {
                shard.set_ram_pages(pages)?;
            }
            self.engine.wait_until_idle();
        }
        Ok(())
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

    /// Return the live curve.
    fn curve(&self, bench: &Bench<'_>) -> Curve {
        let tier = match bench.arguments.tier {
            Moving::Ram => Tier::RAM,
            Moving::Flash => Tier::FLASH,
        };
        Curve { needed_ms: self.needed_ms(0), release_ms: self.engine.shard().release_ms(tier) }
    }

    /// Return the I/O time with each size so far, by the live curve or on all pages.
    fn needed_ms(&self, curve: usize) -> Vec<f64> {
        let curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
        let estimates = curves[curve].estimates();
        estimates.iter().map(|one| one.io_ms_per_access * one.accesses as f64).collect()
    }

    fn misses(&self) -> f64 {
        let counts = &self.engine.shard().counters().policy;
        (counts.read_hits(Tier::DISK) + counts.write_hits(Tier::DISK)) as f64
    }

    /// Return the I/O time of all pages that moved between the tiers.
    fn io_ms(&self) -> f64 {
        let counters = self.engine.shard().counters();
        let pages = |bytes: &[u64]| {
            let moved = [Purpose::Policy, Purpose::Durability, Purpose::Cleaning, Purpose::Bypass];
            moved.map(|purpose| bytes[purpose as usize] as f64).iter().sum::<f64>() / PAGE as f64
        };
        let [_, flash, disk] = costs();
        [(flash, &counters.flash), (disk, &counters.backing)]
            .map(|(cost, device)| {
                pages(&device.read_bytes) * cost.read_ms
                    + pages(&device.written_bytes) * cost.write_ms
            })
            .iter()
            .sum()
    }
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
