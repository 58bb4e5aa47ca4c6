//! RAM that moves between the caches of two workloads: what is in it stays whole, and the misses are those of the
//! best fixed split in hindsight, or fewer.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use thermocline_core::random::SplitMix64;
use thermocline_core::{PageCost, Tier};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::shadow::{ShadowOptions, Shadows};
use thermocline_engine::shares::{Limits, Shares, Terms};
use thermocline_engine::{Engine, Event, Options, PolicyOptions, Request, Shard};

const PAGE: usize = 4096;
/// Pages of RAM for both caches together, and of each backing store.
const PAGES: u32 = 1600;
const BACKING_PAGES: u64 = 6000;
/// Accesses of both workloads between two looks at the curves.
const LOOK: u64 = 10_000;
const COSTS: [PageCost; 3] = [
    PageCost { read_ms: 0.0, write_ms: 0.0 },
    PageCost { read_ms: 0.1, write_ms: 0.1 },
    PageCost { read_ms: 5.0, write_ms: 5.0 },
];

/// A workload: each draws pages in its own way.
#[derive(Clone, Copy, Debug)]
enum Workload {
    /// Few pages are hot, and many are cold.
    Skewed,
    /// A number of pages are alike: fewer of them in RAM are as many misses more.
    Even(u64),
    /// All pages in a circle: no share of them is of use.
    Circle,
}

impl Workload {
    fn page(self, random: &mut SplitMix64, number: u64) -> u64 {
        match self {
            Self::Skewed => {
                // The cube of a number below 2^16 is below 2^48.
                let draw = random.bits() >> 48;
                (((draw * draw * draw) >> 16) * 4000) >> 32
            }
            Self::Even(pages) => random.bits() % pages,
            Self::Circle => number % BACKING_PAGES,
        }
    }
}

/// A cache, and its live curve.
struct Cache {
    engine: Engine<MemoryDriver>,
    curve: Arc<Mutex<Shadows>>,
    accesses: u64,
}

impl Cache {
    fn new(policy: &str, pages: u32, sizes: &[u32]) -> Self {
        let policy = PolicyOptions::named(policy).unwrap();
        let shadow = |&ram_pages: &u32| ShadowOptions {
            label: ram_pages.to_string(),
            entry: policy.entry.clone(),
            values: policy.values.clone(),
            write_miss: policy.write_miss,
            ram_pages,
            flash_pages: 0,
        };
        let shadows = sizes.iter().map(shadow).collect();
        let shadows = Shadows::new(shadows, BACKING_PAGES, 0.01, &COSTS).unwrap();
        let curve = Arc::new(Mutex::new(shadows));
        let mut options = Options::new(BACKING_PAGES, pages, 0, policy);
        options.spare_ram_pages = PAGES - pages;
        let mut shard = Shard::new(options).unwrap();
        let seen = Arc::clone(&curve);
        shard.observe(Box::new(move |event| {
            if let Event::Access { now, page, op, .. } = *event {
                seen.lock().unwrap().access(page, op, now);
            }
        }));
        let bytes = usize::try_from(BACKING_PAGES).unwrap() * PAGE;
        let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), bytes);
        Self { engine: Engine::new(shard, driver), curve, accesses: 0 }
    }

    fn read(&mut self, page: u64) {
        let request = Request::read(self.accesses, page * PAGE as u64, PAGE as u64);
        self.accesses += 1;
        self.engine.submit(request, &[]).unwrap();
        self.engine.wait_until_idle();
        let reply = self.engine.next_reply().unwrap();
        assert_eq!(reply.result, Ok(()));
        self.engine.release(reply);
    }

    /// Return the I/O time with each size so far, in milliseconds.
    fn curve_ms(&self) -> Vec<f64> {
        let estimates = self.curve.lock().unwrap().estimates();
        estimates.iter().map(|one| one.io_ms_per_access * one.accesses as f64).collect()
    }

    /// Return the misses with each size so far; all pages are in the sample of caches so small.
    fn misses(&self) -> Vec<f64> {
        let estimates = self.curve.lock().unwrap().estimates();
        assert!(estimates.iter().all(|one| one.sampled_accesses == one.accesses));
        estimates.iter().map(|one| (1.0 - one.ram_hit_ratio) * one.accesses as f64).collect()
    }

    fn own_misses(&self) -> f64 {
        self.engine.shard().counters().policy.read_hits(Tier::DISK) as f64
    }
}

/// Misses of both workloads together.
#[derive(Debug)]
struct Outcome {
    moving: f64,
    halves: f64,
    /// Of the best fixed split in hindsight.
    best: f64,
    moves: usize,
}

/// Run phases, each a workload for either cache and a number of accesses.
fn run(policy: &str, phases: &[([Workload; 2], u64)]) -> Outcome {
    let limits = Limits { floor_pages: 1, ceiling_pages: PAGES, fill_ms: COSTS[2].read_ms };
    let mut shares = Shares::new(Terms::of(PAGES), &[limits; 2]).unwrap();
    let sizes = [0, 1].map(|cache| shares.sizes_pages(cache));
    let begun = shares.pages();
    let mut caches = [0, 1].map(|cache| Cache::new(policy, begun[cache], &sizes[cache]));
    let mut random = SplitMix64::new(11);
    let mut moves = 0;
    for (workloads, accesses) in phases {
        for number in 0..*accesses {
            for (cache, workload) in caches.iter_mut().zip(workloads) {
                cache.read(workload.page(&mut random, number));
            }
            if (number + 1) % (LOOK / 2) != 0 {
                continue;
            }
            let curves = caches.each_ref().map(Cache::curve_ms);
            let Some(split) = shares.look(&curves) else { continue };
            assert!(split.pages.iter().sum::<u32>() <= PAGES);
            moves += 1;
            for (cache, &pages) in caches.iter_mut().zip(&split.pages) {
                cache.engine.shard_mut().set_ram_pages(pages).unwrap();
                cache.engine.shard().assert_invariants();
            }
        }
    }
    let [one, other] = caches.each_ref().map(Cache::misses);
    let fixed = |size: usize| one[size] + other[sizes[1].len() - 2 - size];
    Outcome {
        moving: caches.iter().map(Cache::own_misses).sum(),
        halves: fixed(sizes[0].iter().position(|&pages| pages == PAGES / 2).unwrap()),
        best: (0..sizes[0].len() - 1).map(fixed).fold(f64::INFINITY, f64::min),
        moves,
    }
}

#[test]
fn moving_shares_come_within_a_twentieth_of_the_best_fixed_split_in_hindsight() {
    for policy in ["lru", "s3-fifo"] {
        for workloads in [
            [Workload::Skewed, Workload::Even(1200)],
            [Workload::Circle, Workload::Skewed],
            [Workload::Even(1300), Workload::Circle],
        ] {
            let outcome = run(policy, &[(workloads, 150_000)]);
            let Outcome { moving, halves, best, moves } = outcome;
            assert!(moving <= best * 1.05, "{policy} {workloads:?}: {outcome:?}");
            assert!(moving <= halves, "{policy} {workloads:?}: {outcome:?}");
            assert!((1..=6).contains(&moves), "{policy} {workloads:?}: {outcome:?}");
        }
    }
}

#[test]
fn moving_shares_beat_every_fixed_split_when_the_load_changes() {
    let phases = [
        ([Workload::Even(1300), Workload::Circle], 60_000),
        ([Workload::Circle, Workload::Even(1300)], 60_000),
    ];
    let outcome = run("lru", &phases);
    assert!(outcome.moving < outcome.best * 0.8, "{outcome:?}");
}

#[test]
fn equal_workloads_keep_their_halves() {
    let outcome = run("lru", &[([Workload::Skewed; 2], 100_000)]);
    assert_eq!(outcome.moves, 0, "{outcome:?}");
}

#[test]
fn pages_stay_whole_while_ram_shrinks_and_grows() {
    for (policy, flash_pages) in [("lru", 0), ("hat", 300), ("face-gsc", 300), ("arc", 0)] {
        let mut options =
            Options::new(BACKING_PAGES, 500, flash_pages, PolicyOptions::named(policy).unwrap());
        options.spare_ram_pages = 500;
        let shard = Shard::new(options).unwrap();
        let bytes = usize::try_from(BACKING_PAGES).unwrap() * PAGE;
        let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), bytes);
        let mut engine = Engine::new(shard, driver);
        let mut random = SplitMix64::new(2);
        let mut model = vec![0_u8; usize::try_from(BACKING_PAGES).unwrap()];
        let base = engine.shard().memory_pages() - 500;
        for (round, pages) in (1_u8..).zip([500, 20, 1000, 1, 700, 300, 2000]) {
            engine.shard_mut().set_ram_pages(pages).unwrap();
            for tag in 0..3000 {
                let page = random.bits() % 1500;
                let offset = page * PAGE as u64;
                let is_write = random.bits().is_multiple_of(2);
                let request = if is_write {
                    model[usize::try_from(page).unwrap()] = round;
                    Request::write(tag, offset, PAGE as u64)
                } else {
                    Request::read(tag, offset, PAGE as u64)
                };
                let payload = if is_write { &[round; PAGE][..] } else { &[] };
                engine.submit(request, payload).unwrap();
                engine.wait_until_idle();
                let reply = engine.next_reply().unwrap();
                if !is_write {
                    let found: Vec<u8> = engine.pieces(&reply).flatten().copied().collect();
                    let wanted = model[usize::try_from(page).unwrap()];
                    assert!(found.iter().all(|&byte| byte == wanted), "{policy}: page {page}");
                }
                engine.release(reply);
            }
            engine.shard().assert_invariants();
            engine.submit(Request::flush(0), &[]).unwrap();
            engine.wait_until_idle();
            let reply = engine.next_reply().unwrap();
            engine.release(reply);
            let memory = engine.shard().memory_pages();
            let pages = usize::try_from(pages.min(1000)).unwrap();
            assert_eq!(memory, base + pages, "{policy}: what is given up goes back to the system");
        }
    }
}
