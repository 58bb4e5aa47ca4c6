//! Commands about ranges of pages: evictions and promotions.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thermocline_core::registry::Depth;
use thermocline_core::{Nanos, Tier, registry};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::{
    Device, DeviceError, Engine, Operation, OperationKind, Options, PolicyOptions, RangeCommand,
    RangeDone, RangeError, Request, RequestKind, Shard,
};

const PAGE: u64 = 4096;
const TICK: Nanos = Nanos(60_000_000);

/// Return the policies that decide over RAM and flash without knowing the future.
fn policies() -> impl Iterator<Item = &'static str> {
    let can_run = |entry: &&registry::PolicyEntry| {
        entry.capabilities.depth != Depth::Ram
            && entry.capabilities.depth.allows(2)
            && entry.capabilities.future == registry::Future::Unknown
    };
    registry::entries().filter(can_run).map(|entry| &*entry.name)
}

fn options(policy: &str) -> Options {
    Options::new(256, 16, 64, PolicyOptions::named(policy).unwrap())
}

/// A driver whose backing store refuses writes as long as it is told to.
#[derive(Debug)]
struct Refusing {
    inner: MemoryDriver,
    refuses: bool,
    refused: Vec<Operation>,
}

impl Driver for Refusing {
    fn start(&mut self, operation: Operation) {
        let is_write =
            operation.device == Device::Backing && operation.kind == OperationKind::Write;
        if self.refuses && is_write {
            self.refused.push(operation);
        } else {
            self.inner.start(operation);
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.inner.poll(done);
        let error = || Err(DeviceError(std::io::ErrorKind::Other));
        done.extend(self.refused.drain(..).map(|operation| (operation, error())));
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.poll(done);
    }
}

/// An engine with a clock.
struct Bench {
    engine: Engine<Refusing>,
    now: Nanos,
}

impl Bench {
    fn new(options: Options) -> Self {
        let bytes = usize::try_from(options.size_bytes()).unwrap();
        let shard = Shard::new(options).unwrap();
        let inner = MemoryDriver::new(shard.frames(), shard.flash_bytes(), bytes);
        let driver = Refusing { inner, refuses: false, refused: vec![] };
        Self { engine: Engine::new(shard, driver), now: Nanos(0) }
    }

    fn ask(&mut self, request: Request, payload: &[u8]) -> Vec<u8> {
        self.engine.submit(request, payload).unwrap();
        self.engine.wait_until_idle();
        let reply = self.engine.next_reply().unwrap();
        assert_eq!(reply.result, Ok(()), "{request:?}");
        let bytes = self.engine.pieces(&reply).flatten().copied().collect();
        self.engine.release(reply);
        bytes
    }

    /// Writes pages full of their numbers.
    fn fill(&mut self, pages: std::ops::Range<u64>) {
        for page in pages {
            self.ask(Request::write(page, page * PAGE, PAGE), &bytes_of(page));
        }
    }

    fn check(&mut self, pages: std::ops::Range<u64>) {
        for page in pages {
            assert_eq!(self.ask(Request::read(1, page * PAGE, PAGE), &[]), bytes_of(page));
        }
    }

    fn run(
        &mut self,
        command: RangeCommand,
        pages: std::ops::Range<u64>,
    ) -> Result<RangeDone, RangeError> {
        let mut work = self.engine.shard_mut().begin_range(command, pages)?;
        for _ in 0..10_000 {
            if let Some(done) = self.engine.shard_mut().advance_range(&mut work)? {
                return Ok(done);
            }
            self.now = Nanos(self.now.0 + TICK.0);
            self.engine.shard_mut().tick(self.now);
            self.engine.poll();
        }
        panic!("the command never ends: {work:?}");
    }

    fn tiers(&self, pages: std::ops::Range<u64>) -> Vec<Tier> {
        pages.map(|page| self.engine.shard().tier_of(page)).collect()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "pages are few")]
fn bytes_of(page: u64) -> Vec<u8> {
    vec![(page as u8).wrapping_add(1); 4096]
}

#[test]
fn an_eviction_takes_a_range_home_and_leaves_the_rest() {
    for policy in policies() {
        let mut bench = Bench::new(options(policy));
        bench.fill(0..60);
        bench.ask(Request::flush(1), &[]);
        bench.fill(10..14);
        let before = bench.tiers(0..60);
        let held = |tiers: &[Tier]| tiers.iter().filter(|tier| **tier != Tier::DISK).count() as u64;
        let done = bench.run(RangeCommand::Evict, 5..40).unwrap();
        assert_eq!(done, RangeDone { pages: held(&before[5..40]), all_pages: 35 }, "{policy}");
        assert_eq!(bench.tiers(5..40), [Tier::DISK; 35], "{policy}");
        bench.engine.wait_until_idle();
        let shard = bench.engine.shard();
        shard.assert_invariants();
        let is_dirty = |page: &u64| shard.page_status(*page).is_dirty;
        assert_eq!((5..40).filter(is_dirty).count(), 0, "{policy}");
        if policy == "lru-inclusive" {
            // Others may want less of the rest than before.
            let after = bench.tiers(0..60);
            assert_eq!([&after[..5], &after[40..]], [&before[..5], &before[40..]]);
        }
        for round in 0..3 {
            bench.check(0..60);
            bench.engine.shard().assert_invariants();
            // A policy that still believed in the pages would find them absent again and again.
            assert_eq!(bench.engine.shard().counters().flash_absent, 0, "{policy}, {round}");
        }
        assert!(bench.engine.shard().counters().balance(), "{policy}");
    }
}

#[test]
fn pages_written_during_an_eviction_are_not_lost() {
    let mut bench = Bench::new(options("hat"));
    bench.fill(0..60);
    let mut work = bench.engine.shard_mut().begin_range(RangeCommand::Evict, 0..60).unwrap();
    for round in 0_u64.. {
        let page = round % 60;
        bench.ask(Request::write(1, page * PAGE, PAGE), &bytes_of(page));
        bench.now = Nanos(bench.now.0 + TICK.0);
        bench.engine.shard_mut().tick(bench.now);
        if bench.engine.shard_mut().advance_range(&mut work).unwrap().is_some() {
            break;
        }
    }
    bench.check(0..60);
    bench.engine.shard().assert_invariants();
}

#[test]
fn an_eviction_that_cannot_write_ends_and_takes_nothing() {
    let mut bench = Bench::new(options("lru-inclusive"));
    bench.fill(0..40);
    bench.ask(Request::flush(1), &[]);
    bench.engine.driver().refuses = true;
    let error = bench.run(RangeCommand::Evict, 0..40).unwrap_err();
    assert!(matches!(error, RangeError::Overdue { left_pages: 1.., .. }), "{error}");
    assert!(bench.engine.shard().dirty_pages() > 0);
    bench.check(0..40);
    bench.engine.driver().refuses = false;
    bench.run(RangeCommand::Evict, 0..40).unwrap();
    assert_eq!(bench.tiers(0..40), [Tier::DISK; 40]);
    bench.check(0..40);
}

#[test]
fn an_eviction_waits_for_zeroes_that_no_tier_holds() {
    let mut bench = Bench::new(options("lru"));
    let request = Request {
        tag: 1,
        kind: RequestKind::WriteZeroes,
        offset_bytes: 0,
        length_bytes: 16 * PAGE,
        is_durable: false,
    };
    bench.ask(request, &[]);
    assert_eq!(bench.engine.shard().dirty_pages(), 16);
    let done = bench.run(RangeCommand::Evict, 0..16).unwrap();
    assert_eq!(done, RangeDone { pages: 0, all_pages: 16 });
    assert_eq!(bench.engine.shard().dirty_pages(), 0, "a sync covers them");
}

#[test]
fn a_promotion_brings_a_range_into_the_cache() {
    for policy in policies() {
        let mut bench = Bench::new(options(policy));
        bench.fill(0..60);
        bench.run(RangeCommand::Evict, 0..60).unwrap();
        let before = bench.engine.shard().counters().clone();
        let done = bench.run(RangeCommand::Promote, 20..36).unwrap();
        assert_eq!(done.all_pages, 16, "{policy}");
        let tiers = bench.tiers(20..36);
        let held = tiers.iter().filter(|tier| **tier != Tier::DISK).count() as u64;
        assert_eq!(done.pages, held, "{policy}");
        let accesses = bench.engine.shard().counters().accesses[0] - before.accesses[0];
        assert_eq!(accesses, 16, "{policy}: each page is accessed once");
        bench.check(0..60);
        bench.engine.shard().assert_invariants();
    }
    let mut bench = Bench::new(options("lru"));
    assert_eq!(bench.run(RangeCommand::Promote, 0..10).unwrap().pages, 10, "LRU keeps all");
    bench.run(RangeCommand::Promote, 0..256).unwrap();
    assert_eq!(bench.engine.shard().counters().accesses[0], 266, "more than frames at once");
}

/// Options with room for 40 pinned pages.
fn options_for_pins(policy: &str, flash_pages: u32) -> Options {
    Options { flash_pages, pinned_pages: 40, ..options(policy) }
}

#[test]
fn pinned_pages_stay_whatever_the_policy_does() {
    let with_flash = policies().map(|policy| (policy, 64));
    for (policy, flash_pages) in with_flash.chain([("lru", 0)]) {
        let mut bench = Bench::new(options_for_pins(policy, flash_pages));
        bench.fill(0..256);
        let done = bench.run(RangeCommand::Pin, 100..140).unwrap();
        assert_eq!(done, RangeDone { pages: 40, all_pages: 40 }, "{policy}");
        let tier = if flash_pages > 0 { Tier::FLASH } else { Tier::RAM };
        let before = bench.engine.shard().counters().policy.clone();
        for round in 0..3 {
            bench.fill(0..256);
            bench.ask(Request::flush(1), &[]);
            bench.check(0..256);
            bench.engine.wait_until_idle();
            assert_eq!(bench.tiers(100..140), [tier; 40], "{policy}, round {round}");
            bench.engine.shard().assert_invariants();
        }
        let counters = bench.engine.shard().counters();
        assert!(counters.balance(), "{policy}");
        let asked = |counts: &thermocline_core::Counts| {
            let hits = |tier| counts.read_hits(tier) + counts.write_hits(tier);
            [Tier::RAM, Tier::FLASH, Tier::DISK].into_iter().map(hits).sum::<u64>()
        };
        let others = asked(&counters.policy) - asked(&before);
        assert_eq!(others, 6 * (256 - 40), "{policy}: the policy sees the others alone");
        // Cleaning and draining write pinned pages home, too, and leave them where they are.
        bench.engine.shard_mut().drain();
        bench.engine.wait_until_idle();
        assert_eq!(bench.engine.shard().dirty_pages(), 0, "{policy}");
        assert_eq!(bench.tiers(100..140), [tier; 40], "{policy}");
        bench.run(RangeCommand::Unpin, 90..120).unwrap();
        bench.engine.wait_until_idle();
        assert_eq!(bench.tiers(100..140)[..20], [Tier::DISK; 20], "{policy}");
        assert_eq!(bench.engine.shard().pinned_pages(), 20, "{policy}");
        bench.check(0..256);
        bench.engine.shard().assert_invariants();
        assert_eq!(bench.engine.shard().counters().flash_absent, 0, "{policy}");
    }
}

#[test]
fn pins_are_ranges_with_a_ceiling() {
    let pinned = |bench: &Bench| bench.engine.shard().pinned().iter().collect::<Vec<_>>();
    let mut bench = Bench::new(options_for_pins("hat", 64));
    bench.run(RangeCommand::Pin, 10..30).unwrap();
    bench.run(RangeCommand::Pin, 20..40).unwrap();
    bench.run(RangeCommand::Pin, 50..60).unwrap();
    assert_eq!(pinned(&bench), [10..40, 50..60]);
    let error = bench.run(RangeCommand::Pin, 5..10).unwrap_err();
    assert_eq!(error, RangeError::NoRoom { wanted_pages: 45, room_pages: 40 });
    bench.run(RangeCommand::Pin, 12..38).unwrap();
    bench.run(RangeCommand::Unpin, 20..22).unwrap();
    assert_eq!(pinned(&bench), [10..20, 22..40, 50..60]);
    let error = bench.run(RangeCommand::Evict, 0..15).unwrap_err();
    assert_eq!(error, RangeError::Pinned { pages: 5 });
    bench.run(RangeCommand::Evict, 60..100).unwrap();
    bench.run(RangeCommand::Unpin, 0..256).unwrap();
    assert_eq!(pinned(&bench), []);
    // Without room reserved, nothing can be pinned.
    let mut bench = Bench::new(options("hat"));
    let error = bench.run(RangeCommand::Pin, 0..1).unwrap_err();
    assert_eq!(error, RangeError::NoRoom { wanted_pages: 1, room_pages: 0 });
}

#[test]
fn options_with_pins_that_do_not_fit_are_refused() {
    let error = |pins: std::ops::Range<u64>| {
        let options =
            Options { pins: std::iter::once(pins).collect(), ..options_for_pins("hat", 64) };
        Shard::new(options).unwrap_err().to_string()
    };
    assert!(error(0..41).contains("(41, at most 40)"), "{}", error(0..41));
    assert!(error(250..257).contains("beyond the backing store"), "{}", error(250..257));
}

#[test]
fn pins_of_a_start_are_filled() {
    let options =
        Options { pins: std::iter::once(7..27).collect(), ..options_for_pins("face-gsc", 64) };
    let mut bench = Bench::new(options);
    bench.engine.wait_until_idle();
    assert_eq!(bench.tiers(0..30)[7..27], [Tier::FLASH; 20]);
    bench.engine.shard().assert_invariants();
}

#[test]
fn ranges_beyond_the_end_are_refused() {
    let mut bench = Bench::new(options_for_pins("lru", 64));
    let commands =
        [RangeCommand::Evict, RangeCommand::Promote, RangeCommand::Pin, RangeCommand::Unpin];
    for command in commands {
        let error = bench.run(command, 250..257).unwrap_err();
        assert_eq!(error, RangeError::OutOfRange { size_bytes: 256 * PAGE });
        let done = bench.run(command, 256..256).unwrap();
        assert_eq!(done, RangeDone::default(), "nothing is to do");
    }
}
