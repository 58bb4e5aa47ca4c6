//! RAM and flash that move between the caches of two workloads: what is in them stays whole, and the I/O time is
//! that of the best fixed split in hindsight, or less.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use thermocline_core::random::SplitMix64;
use thermocline_core::{PageCost, Tier};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::shadow::{ShadowOptions, Shadows};
use thermocline_engine::shares::{Curve, Limits, Moved, Shares, Terms};
use thermocline_engine::{Engine, Event, Options, PolicyOptions, Request, Shard};

const PAGE: usize = 4096;
/// Pages of what moves for both caches together, and of each backing store.
const PAGES: u32 = 1600;
const BACKING_PAGES: u64 = 6000;
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

/// Resource that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Ram,
    Flash,
}

/// Pages of RAM and of flash.
type Sizes = [u32; 2];

impl Resource {
    /// Return sizes with another number of pages of this.
    fn of(self, sizes: Sizes, pages: u32) -> Sizes {
        match self {
            Self::Ram => [pages, sizes[1]],
            Self::Flash => [sizes[0], pages],
        }
    }

    fn fill_ms(self) -> f64 {
        match self {
            Self::Ram => COSTS[2].read_ms,
            Self::Flash => COSTS[2].read_ms + COSTS[1].write_ms,
        }
    }

    fn tier(self) -> Tier {
        match self {
            Self::Ram => Tier::RAM,
            Self::Flash => Tier::FLASH,
        }
    }

    fn shares(self) -> Shares {
        let limits = Limits { floor_pages: 1, ceiling_pages: PAGES, fill_ms: self.fill_ms() };
        Shares::new(Terms::of(PAGES), &[limits; 2]).unwrap()
    }
}

/// A live curve: a policy with other sizes of a resource.
type Live = Arc<Mutex<Shadows>>;

/// A cache, and its live curves, of which each is for sizes that the cache has.
struct Cache {
    engine: Engine<MemoryDriver>,
    policy: PolicyOptions,
    curves: Arc<Mutex<Vec<Live>>>,
    accesses: u64,
}

impl Cache {
    /// Create a cache with these sizes, of which RAM or flash may grow up to all that there is.
    fn new(policy: &str, sizes: Sizes) -> Self {
        let policy = PolicyOptions::named(policy).unwrap();
        // The slots are for all that there is.
        let flash_pages = if sizes[1] > 0 { PAGES } else { 0 };
        let mut options = Options::new(BACKING_PAGES, sizes[0], flash_pages, policy.clone());
        options.spare_ram_pages = PAGES.saturating_sub(sizes[0]);
        let mut shard = Shard::new(options).unwrap();
        let curves: Arc<Mutex<Vec<Live>>> = Arc::default();
        let seen = Arc::clone(&curves);
        shard.observe(Box::new(move |event| {
            if let Event::Access { now, page, op, .. } = *event {
                for curve in &*seen.lock().unwrap() {
                    curve.lock().unwrap().access(page, op, now);
                }
            }
        }));
        let bytes = usize::try_from(BACKING_PAGES).unwrap() * PAGE;
        let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), bytes);
        let mut cache = Self { engine: Engine::new(shard, driver), policy, curves, accesses: 0 };
        if flash_pages > 0 {
            cache.resize(Resource::Flash, sizes[1]);
        }
        cache
    }

    /// Begin a live curve of a resource, at the present size of the other one.
    fn begin_curve(&self, resource: Resource, sizes: &[u32]) -> Live {
        let shadow = |&pages: &u32| {
            let [ram_pages, flash_pages] = resource.of(self.sizes(), pages);
            ShadowOptions {
                label: pages.to_string(),
                entry: self.policy.entry.clone(),
                values: self.policy.values.clone(),
                write_miss: self.policy.write_miss,
                ram_pages,
                flash_pages,
            }
        };
        let shadows = sizes.iter().map(shadow).collect();
        let shadows = Shadows::new(shadows, BACKING_PAGES, 0.01, &COSTS).unwrap();
        let curve = Arc::new(Mutex::new(shadows));
        self.curves.lock().unwrap().push(Arc::clone(&curve));
        curve
    }

    fn sizes(&self) -> Sizes {
        let options = self.engine.shard().options();
        [options.ram_pages, options.flash_pages]
    }

    fn resize(&mut self, resource: Resource, pages: u32) {
        match resource {
            Resource::Ram => self.engine.shard_mut().set_ram_pages(pages).unwrap(),
            Resource::Flash => self.engine.shard_mut().set_flash_pages(pages).unwrap(),
        }
        self.engine.wait_until_idle();
        self.engine.shard().assert_invariants();
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

    /// Return the I/O time of the policy so far, in milliseconds.
    fn io_ms(&self) -> f64 {
        self.engine.shard().counters().policy.io_time_ms(&COSTS)
    }
}

/// Return the I/O time with each size so far, in milliseconds.
fn needed_ms(curve: &Live) -> Vec<f64> {
    let estimates = curve.lock().unwrap().estimates();
    // All pages are in the sample of caches so small.
    assert!(estimates.iter().all(|one| one.sampled_accesses == one.accesses));
    estimates.iter().map(|one| one.io_ms_per_access * one.accesses as f64).collect()
}

/// The shares of a resource with the curves of both caches.
struct Controller {
    resource: Resource,
    shares: Shares,
    curves: Vec<Live>,
    /// Sizes of the other resource for which the curves are.
    keys: Vec<Sizes>,
    looked_at: u64,
    moves: Vec<(u64, Moved)>,
}

impl Controller {
    fn new(resource: Resource, caches: &[Cache]) -> Self {
        let shares = resource.shares();
        let begin = |(number, cache): (usize, &Cache)| {
            cache.begin_curve(resource, &shares.sizes_pages(number))
        };
        let curves = caches.iter().enumerate().map(begin).collect();
        let keys = caches.iter().map(|cache| resource.of(cache.sizes(), 0)).collect();
        Self { resource, shares, curves, keys, looked_at: 0, moves: vec![] }
    }

    /// Begin curves again whose other resource has changed, look if it is time, and move.
    fn advance(&mut self, caches: &mut [Cache; 2]) {
        for (number, cache) in caches.iter().enumerate() {
            let key = self.resource.of(cache.sizes(), 0);
            if key != self.keys[number] {
                let former = self.curves[number].clone();
                cache.curves.lock().unwrap().retain(|curve| !Arc::ptr_eq(curve, &former));
                let sizes = self.shares.sizes_pages(number);
                self.curves[number] = cache.begin_curve(self.resource, &sizes);
                self.keys[number] = key;
                self.shares.forget(number, u64::from(PAGES) * 2);
            }
        }
        let accesses = caches.iter().map(|cache| cache.accesses).sum();
        if accesses < self.looked_at + self.shares.terms().look_accesses() {
            return;
        }
        self.looked_at = accesses;
        let curves = self.curves.iter().zip(&*caches).map(|(curve, cache)| Curve {
            needed_ms: needed_ms(curve),
            release_ms: cache.engine.shard().release_ms(self.resource.tier()),
        });
        let curves: Vec<_> = curves.collect();
        let Some(moved) = self.shares.look(&curves) else { return };
        assert!(moved.pages.iter().sum::<u32>() <= PAGES);
        for grows in [false, true] {
            for (cache, (&former, &pages)) in
                caches.iter_mut().zip(moved.former_pages.iter().zip(&moved.pages))
            {
                if former != pages && grows == (pages > former) {
                    cache.resize(self.resource, pages);
                }
            }
        }
        self.moves.push((accesses, moved));
    }
}

/// I/O time of both workloads together, in milliseconds.
#[derive(Debug)]
struct Outcome {
    moving: f64,
    halves: f64,
    /// Of the best fixed split in hindsight.
    best: f64,
    moves: usize,
}

/// Run phases, each a workload for either cache and a number of accesses.
fn run(resource: Resource, policy: &str, phases: &[([Workload; 2], u64)]) -> Outcome {
    let other = match resource {
        Resource::Ram => [0, 0],
        Resource::Flash => [100, 0],
    };
    let begun = resource.shares().pages();
    let mut caches = [0, 1].map(|cache| Cache::new(policy, resource.of(other, begun[cache])));
    let mut controller = Controller::new(resource, &caches);
    let mut random = SplitMix64::new(11);
    for (workloads, accesses) in phases {
        for number in 0..*accesses {
            for (cache, workload) in caches.iter_mut().zip(workloads) {
                cache.read(workload.page(&mut random, number));
            }
            controller.advance(&mut caches);
        }
    }
    let sizes = controller.shares.sizes_pages(0);
    let [one, other] = [0, 1].map(|cache: usize| needed_ms(&controller.curves[cache]));
    let fixed = |size: usize| one[size] + other[sizes.len() - 2 - size];
    Outcome {
        moving: caches.iter().map(Cache::io_ms).sum(),
        halves: fixed(sizes.iter().position(|&pages| pages == PAGES / 2).unwrap()),
        best: (0..sizes.len() - 1).map(fixed).fold(f64::INFINITY, f64::min),
        moves: controller.moves.len(),
    }
}

#[test]
fn moving_shares_come_within_a_twentieth_of_the_best_fixed_split_in_hindsight() {
    for (resource, policy) in [
        (Resource::Ram, "lru"),
        (Resource::Ram, "s3-fifo"),
        (Resource::Flash, "lru-exclusive"),
        (Resource::Flash, "hat"),
    ] {
        for workloads in [
            [Workload::Skewed, Workload::Even(1200)],
            [Workload::Circle, Workload::Skewed],
            [Workload::Even(1300), Workload::Circle],
        ] {
            let outcome = run(resource, policy, &[(workloads, 150_000)]);
            let Outcome { moving, halves, best, moves } = outcome;
            let case = format!("{resource:?} {policy} {workloads:?}: {outcome:?}");
            assert!(moving <= best * 1.05, "{case}");
            assert!(moving <= halves, "{case}");
            assert!((1..=10).contains(&moves), "{case}");
        }
    }
}

#[test]
fn moving_shares_beat_every_fixed_split_when_the_load_changes() {
    let phases = [
        ([Workload::Even(1300), Workload::Circle], 60_000),
        ([Workload::Circle, Workload::Even(1300)], 60_000),
    ];
    for (resource, policy) in [(Resource::Ram, "lru"), (Resource::Flash, "lru-exclusive")] {
        let outcome = run(resource, policy, &phases);
        assert!(outcome.moving < outcome.best * 0.8, "{resource:?}: {outcome:?}");
    }
}

#[test]
fn equal_workloads_keep_their_halves() {
    for (resource, policy) in [(Resource::Ram, "lru"), (Resource::Flash, "lru-exclusive")] {
        let outcome = run(resource, policy, &[([Workload::Skewed; 2], 100_000)]);
        assert_eq!(outcome.moves, 0, "{resource:?}: {outcome:?}");
    }
}

#[test]
fn ram_and_flash_that_both_move_come_to_rest() {
    for workloads in [
        [Workload::Skewed, Workload::Even(2400)],
        [Workload::Circle, Workload::Skewed],
        [Workload::Even(2600), Workload::Circle],
        [Workload::Skewed, Workload::Skewed],
    ] {
        let mut caches = [(); 2].map(|()| Cache::new("lru-exclusive", [PAGES / 2; 2]));
        let mut controllers =
            [Resource::Ram, Resource::Flash].map(|resource| Controller::new(resource, &caches));
        let mut random = SplitMix64::new(11);
        let mut half_ms = 0.0;
        for number in 0..200_000 {
            if number == 100_000 {
                half_ms = caches.iter().map(Cache::io_ms).sum::<f64>();
            }
            for (cache, workload) in caches.iter_mut().zip(workloads) {
                cache.read(workload.page(&mut random, number));
            }
            for controller in &mut controllers {
                controller.advance(&mut caches);
            }
        }
        let moves = controllers.iter().flat_map(|controller| &controller.moves);
        let moves: Vec<_> = moves.map(|(at, moved)| (*at, &moved.pages, moved.saved_ms)).collect();
        assert!(moves.len() <= 12, "{workloads:?}: {moves:?}");
        assert!(moves.iter().all(|(at, ..)| *at < 200_000), "they rest: {workloads:?}: {moves:?}");
        let later_ms = caches.iter().map(Cache::io_ms).sum::<f64>() - half_ms;
        assert!(later_ms <= half_ms, "{workloads:?}: {half_ms} {later_ms}");
    }
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
