//! Single behaviours: memory, what costs no operation, back-pressure, write modes, extents, bypass,
//! budget, policies that take over.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thermocline_core::random::SplitMix64;
use thermocline_core::{Nanos, Tier};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::{
    Cleaning, Device, DeviceError, Engine, Operation, OperationKind, Options, PolicyOptions, Reply,
    Request, RequestError, RequestKind, Shard, SubmitError, WriteMode,
};

const PAGE: u64 = 4096;

fn options(policy: &str) -> Options {
    Options::new(256, 16, 64, PolicyOptions::named(policy).unwrap())
}

fn engine(options: Options) -> Engine<MemoryDriver> {
    let bytes = usize::try_from(options.size_bytes()).unwrap();
    let shard = Shard::new(options).unwrap();
    let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), bytes);
    Engine::new(shard, driver)
}

/// Carry out a request to its end, and return the bytes that it read.
fn ask(engine: &mut Engine<MemoryDriver>, request: Request, payload: &[u8]) -> Vec<u8> {
    engine.submit(request, payload).unwrap();
    engine.wait_until_idle();
    let reply = engine.next_reply().unwrap();
    assert_eq!((reply.tag, reply.result), (request.tag, Ok(())));
    let bytes = engine.pieces(&reply).flatten().copied().collect();
    engine.release(reply);
    bytes
}

/// Create two engines, one with a read that is answered.
fn read_of_another_engine() -> (Engine<MemoryDriver>, Reply) {
    let mut other = engine(options("lru"));
    other.submit(Request::read(1, 0, 4096), &[]).unwrap();
    other.wait_until_idle();
    let reply = other.next_reply().unwrap();
    assert_eq!(other.pieces(&reply).map(<[u8]>::len).sum::<usize>(), 4096);
    (engine(options("lru")), reply)
}

#[test]
#[should_panic(expected = "the reply is this shard's")]
fn bytes_are_not_read_by_the_reply_of_another_engine() {
    let (engine, reply) = read_of_another_engine();
    assert_eq!(engine.pieces(&reply).len(), 0);
}

#[test]
#[should_panic(expected = "the reply is this shard's")]
fn frames_are_not_released_by_the_reply_of_another_engine() {
    let (mut engine, reply) = read_of_another_engine();
    engine.release(reply);
}

#[test]
fn what_the_engine_knows_of_a_flash_page_takes_few_bytes() {
    // However large the disk is, but where extents of it are known (TAC).
    let flash_pages = 1_u32 << 18;
    let much_larger = 16_u64 << 18;
    for (name, disk_pages, most) in [
        ("hat", much_larger, 56.0),
        ("lru-inclusive", much_larger, 44.0),
        ("face-gsc", much_larger, 42.0),
        ("lc", much_larger, 61.0),
        ("dw", much_larger, 61.0),
        ("hca", much_larger, 62.0),
        ("tac", 4 << 18, 59.0),
        ("two-tier", much_larger, 60.0),
        ("arc-l2arc", much_larger, 56.0),
    ] {
        let policy = PolicyOptions::named(name).unwrap();
        let shard = Shard::new(Options::new(disk_pages, 4096, flash_pages, policy)).unwrap();
        let per_page = shard.memory_bytes() as f64 / f64::from(flash_pages);
        assert!(per_page < most, "{name}: {per_page:.1} bytes per page of flash");
    }
}

#[test]
fn a_hit_in_ram_is_answered_at_once() {
    let mut engine = engine(options("lru"));
    ask(&mut engine, Request::write(1, 0, PAGE), &[7; 4096]);
    engine.submit(Request::read(2, 512, 1024), &[]).unwrap();
    let reply = engine.next_reply().expect("nothing was waited for");
    assert_eq!((reply.result, reply.found), (Ok(()), Some(Tier::RAM)));
    assert_eq!(engine.pieces(&reply).next().unwrap(), [7; 1024]);
    engine.release(reply);
    assert!(!engine.poll(), "no device was asked");
}

#[test]
fn without_frames_requests_are_not_taken_until_replies_are_released() {
    let mut engine = engine(options("lru"));
    let mut replies = vec![];
    let mut taken = 0;
    let refused = loop {
        match engine.submit(Request::read(taken, taken % 256 * PAGE, PAGE), &[]) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        engine.wait_until_idle();
        replies.extend(engine.next_reply());
    };
    assert_eq!(refused, SubmitError::Full);
    assert!(taken >= 256, "{taken} requests were taken");
    for reply in replies {
        engine.release(reply);
    }
    ask(&mut engine, Request::read(9999, 0, PAGE), &[]);
}

#[test]
fn bad_requests_are_refused_and_change_nothing() {
    let mut engine = engine(options("hat"));
    let size_bytes = 256 * PAGE;
    let beyond = engine.submit(Request::read(1, size_bytes - 1, 2), &[]);
    assert_eq!(beyond, Err(SubmitError::OutOfRange { size_bytes }));
    let wraps = engine.submit(Request::read(1, u64::MAX, 2), &[]);
    assert_eq!(wraps, Err(SubmitError::OutOfRange { size_bytes }));
    let wrong = engine.submit(Request::write(1, 0, 4), &[1; 3]);
    assert_eq!(wrong, Err(SubmitError::WrongPayload { given_bytes: 3, wanted_bytes: 4 }));
    assert_eq!(engine.shard().counters().accesses, [0, 0]);
    assert!(engine.next_reply().is_none());
}

#[test]
fn write_modes_do_what_they_say() {
    let mut through = engine(Options { write_mode: WriteMode::Through, ..options("lru") });
    ask(&mut through, Request::write(1, 0, PAGE), &[3; 4096]);
    assert_eq!(through.shard().counters().backing.all_written_bytes(), PAGE);
    assert_eq!(through.shard().tier_of(0), Tier::RAM);

    let mut around = engine(Options { write_mode: WriteMode::Around, ..options("lru") });
    ask(&mut around, Request::write(1, 0, PAGE), &[3; 4096]);
    assert_eq!(around.shard().counters().bypasses, [0, 1]);
    // Until the disk is synced, its frame holds what may have to be written again.
    assert_eq!(around.shard().tier_of(0), Tier::RAM);
    ask(&mut around, Request::flush(2), &[]);
    assert_eq!(around.shard().tier_of(0), Tier::DISK);

    let mut read_only = engine(Options { write_mode: WriteMode::ReadOnly, ..options("lru") });
    read_only.submit(Request::write(1, 0, PAGE), &[3; 4096]).unwrap();
    let reply = read_only.next_reply().unwrap();
    assert_eq!(reply.result, Err(RequestError::ReadOnly));
    read_only.release(reply);
    assert_eq!(ask(&mut read_only, Request::read(2, 0, PAGE), &[]), [0; 4096]);
}

#[test]
fn extents_say_which_tier_serves() {
    let mut engine = engine(options("lru-exclusive"));
    for page in 0..40 {
        ask(&mut engine, Request::read(page, page * PAGE, PAGE), &[]);
    }
    let extents = engine.shard().extents(0..50);
    assert_eq!(extents, [(24, Tier::FLASH), (16, Tier::RAM), (10, Tier::DISK)]);
}

#[test]
fn a_long_stream_leaves_the_caches_alone() {
    let mut engine = engine(Options { sequential_bypass_bytes: Some(8 * PAGE), ..options("lru") });
    for page in 0..200 {
        ask(&mut engine, Request::read(page, page * PAGE, PAGE), &[]);
    }
    let counters = engine.shard().counters();
    assert_eq!((counters.bypasses, counters.accesses), ([192, 0], [200, 0]));
    assert!(counters.balance());
    assert_eq!(engine.shard().extents(0..200), [(8, Tier::RAM), (192, Tier::DISK)]);
}

#[test]
fn neighbours_are_read_and_written_together() {
    let mut engine = engine(options("lru"));
    ask(&mut engine, Request::read(1, 0, 12 * PAGE), &[]);
    assert_eq!(engine.shard().counters().backing.reads, 1);
    ask(&mut engine, Request::write(2, 0, 12 * PAGE), &vec![1; 12 * 4096]);
    engine.shard_mut().drain();
    engine.wait_until_idle();
    assert_eq!(engine.shard().counters().backing.writes, 1);
    assert_eq!(engine.shard().dirty_pages(), 0);
}

#[test]
fn a_flush_logs_to_flash_and_does_not_touch_the_disk() {
    let mut engine = engine(options("hat"));
    for page in 0..10 {
        ask(&mut engine, Request::write(page, page * PAGE, PAGE), &[1; 4096]);
    }
    ask(&mut engine, Request::flush(99), &[]);
    let counters = engine.shard().counters();
    assert_eq!(counters.backing.all_written_bytes(), 0);
    assert_eq!((counters.flash.written_bytes[1], counters.commits), (10 * PAGE, 1));
    // There is nothing more to log.
    ask(&mut engine, Request::flush(100), &[]);
    assert_eq!(engine.shard().counters().flash.written_bytes[1], 10 * PAGE);
}

#[test]
fn an_empty_budget_keeps_clean_pages_off_the_flash() {
    let mut engine = engine(Options {
        // A burst of an hour's share: ten pages.
        flash_write_budget_gib_per_day: Some(24.0 * 10.0 * 4096.0 / f64::from(1 << 30)),
        ..options("lru-exclusive")
    });
    for page in 0..100 {
        ask(&mut engine, Request::read(page, page * PAGE, PAGE), &[]);
    }
    let counters = engine.shard().counters();
    assert_eq!(counters.flash.written_bytes[0], 10 * PAGE);
    assert_eq!(counters.budget_refusals, 100 - 16 - 10);
    assert_eq!(ask(&mut engine, Request::read(1, 60 * PAGE, PAGE), &[]), [0; 4096]);
    assert_eq!(engine.shard().counters().flash_absent, 1);
}

#[test]
fn a_budget_counts_from_when_it_is_given() {
    let pages = |count: u32| 24.0 * f64::from(count) * 4096.0 / f64::from(1 << 30);
    let left =
        |engine: &Engine<MemoryDriver>| engine.shard().flash_budget_bytes().unwrap() / 4096.0;
    let mut engine = engine(options("lru-exclusive"));
    assert_eq!(engine.shard().flash_budget_bytes(), None);
    for page in 0..60 {
        ask(&mut engine, Request::read(page, page * PAGE, PAGE), &[]);
    }
    // Writes without a budget leave no debt, and an hour's share is there at once.
    engine.shard_mut().set_flash_write_budget(Some(pages(10)));
    assert!((left(&engine) - 10.0).abs() < 1e-9);
    for page in 60..100 {
        ask(&mut engine, Request::read(page, page * PAGE, PAGE), &[]);
    }
    assert!(left(&engine).abs() < 1e-9, "{}", left(&engine));
    // A larger one is no gift either: it is earned with time.
    engine.shard_mut().set_flash_write_budget(Some(pages(20)));
    assert!(left(&engine).abs() < 1e-9, "{}", left(&engine));
    engine.shard_mut().tick(Nanos(1_800_000_000_000));
    assert!((left(&engine) - 10.0).abs() < 1e-9, "{}", left(&engine));
    engine.shard_mut().tick(Nanos(90_000_000_000_000));
    assert!((left(&engine) - 20.0).abs() < 1e-9, "{}", left(&engine));
}

#[test]
fn what_was_cleaned_is_clean_without_a_flush() {
    let mut engine = engine(Options {
        cleaning: Cleaning { dirty_ratio_target: 0.0, ..Cleaning::default() },
        ..options("lru-inclusive")
    });
    for page in 0..60 {
        ask(&mut engine, Request::write(page, page * PAGE, PAGE), &[1; 4096]);
    }
    assert!(engine.shard().dirty_slots() > 20);
    for interval in 1..10 {
        engine.shard_mut().tick(Nanos(interval * 100_000_000));
        engine.wait_until_idle();
    }
    assert_eq!(engine.shard().dirty_slots(), 0);
}

#[test]
fn while_nobody_asks_everything_is_cleaned() {
    let second = 1_000_000_000;
    let idle_after = Some(Nanos(10 * second));
    let cleaning = Cleaning { dirty_ratio_target: 1.0, idle_after, ..Cleaning::default() };
    let mut engine = engine(Options { cleaning, ..options("lru-inclusive") });
    for page in 0..60 {
        ask(&mut engine, Request::write(page, page * PAGE, PAGE), &[1; 4096]);
    }
    let dirty = engine.shard().dirty_slots();
    assert!(dirty > 20);
    // A request puts it off, whatever it is for.
    for now in 1..=25 {
        engine.shard_mut().tick(Nanos(now * second));
        engine.wait_until_idle();
        assert_eq!(engine.shard().dirty_slots(), dirty, "after {now} s");
        if now % 5 == 0 {
            ask(&mut engine, Request::read(now, 0, PAGE), &[]);
        }
    }
    assert_eq!(engine.shard().next_deadline(), Some(Nanos(35 * second)));
    for now in 350..370 {
        engine.shard_mut().tick(Nanos(now * second / 10));
        engine.wait_until_idle();
    }
    assert_eq!(engine.shard().dirty_slots(), 0);
}

#[test]
fn an_orderly_end_comes_whatever_waits() {
    // The driver is asked now and then only, so that pages wait for slots and frames in great numbers.
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let mut below = |limit: u64| random.bits() % limit;
        let names = ["lru-inclusive", "hca", "face-gsc", "hat"];
        let policy = PolicyOptions::named(names[usize::try_from(below(4)).unwrap()]).unwrap();
        let pages = 300 + below(1500);
        let mut engine = engine(Options::new(2048, 256, 1024, policy));
        for number in 0..4000 {
            let page = if seed % 2 == 0 { below(pages) } else { number % pages };
            let request = Request::write(number, page * PAGE, PAGE);
            while engine.submit(request, &[1; 4096]).is_err() {
                engine.wait();
            }
            if below(1 + seed * 8) == 0 {
                engine.poll();
            }
            while let Some(reply) = engine.next_reply() {
                engine.release(reply);
            }
        }
        engine.shard_mut().stop();
        for _ in 0..1000 {
            engine.wait();
        }
        assert!(engine.shard().is_idle(), "seed {seed}: {:?}", engine.shard());
    }
}

/// Devices in memory that do one operation at a time, in any order.
struct Slow {
    memory: MemoryDriver,
    taken: Vec<Operation>,
    random: SplitMix64,
}

impl Driver for Slow {
    fn start(&mut self, operation: Operation) {
        self.taken.push(operation);
    }

    fn poll(&mut self, _done: &mut Vec<Completion>) {}

    fn wait(&mut self, done: &mut Vec<Completion>) {
        if !self.taken.is_empty() {
            let place = self.random.bits() % self.taken.len() as u64;
            self.memory.start(self.taken.swap_remove(usize::try_from(place).unwrap()));
            self.memory.wait(done);
        }
    }
}

#[test]
fn whatever_is_asked_is_answered_without_anything_else_coming() {
    // Pages are overwritten that flash has clean: their slots must be durably obsolete before the disk
    // gets the new bytes, and that takes more records than one commit has blocks for.
    for seed in 0..200 {
        let mut random = SplitMix64::new(seed);
        let mut below = |limit: u64| random.bits() % limit;
        let names = ["lru-inclusive", "hca", "face-gsc", "hat"];
        let policy = PolicyOptions::named(names[usize::try_from(below(4)).unwrap()]).unwrap();
        let write_mode = [WriteMode::Through, WriteMode::Around][usize::from(seed % 2 == 0)];
        let ram_pages = [512, 4096][usize::try_from(below(2)).unwrap()];
        let pages = 200 + below(2800);
        let options = Options { write_mode, ..Options::new(4096, ram_pages, 4096, policy) };
        let backing_bytes = usize::try_from(options.size_bytes()).unwrap();
        let shard = Shard::new(options).unwrap();
        let memory = MemoryDriver::new(shard.frames(), shard.flash_bytes(), backing_bytes);
        let driver = Slow { memory, taken: vec![], random: SplitMix64::new(seed) };
        let mut engine = Engine::new(shard, driver);
        for _ in 0..20 {
            let start = below(pages);
            let most = 1 << below(12);
            let end = 4096.min(start + 1 + below(most));
            let kind = below(4);
            let is_durable = kind > 0 && below(8) == 0;
            let mut next = start;
            while next < end {
                let length = (1 + below(256)).min(end - next);
                let (from, bytes) = (next * PAGE, length * PAGE);
                let (request, payload) = match kind {
                    0 => (Request::read(next, from, bytes), 0),
                    1 => (trim(next, from, bytes), 0),
                    2 => (zeroes(next, from, bytes), 0),
                    _ => (Request::write(next, from, bytes), bytes),
                };
                let request = Request { is_durable, ..request };
                let payload = vec![7; usize::try_from(payload).unwrap()];
                while engine.submit(request, &payload).is_err() {
                    move_on(&mut engine, seed);
                }
                next += length;
            }
            while engine.shard().requests_in_flight() > 0 {
                move_on(&mut engine, seed);
            }
        }
    }
}

/// Takes a step, if there is one to take.
fn move_on(engine: &mut Engine<Slow>, seed: u64) {
    let has_polled = engine.poll();
    let is_waiting = !engine.driver().taken.is_empty();
    engine.wait();
    let mut has_replies = false;
    while let Some(reply) = engine.next_reply() {
        assert_eq!(reply.result, Ok(()));
        engine.release(reply);
        has_replies = true;
    }
    assert!(has_polled || is_waiting || has_replies, "seed {seed}: {:?}", engine.shard());
}

#[test]
fn another_policy_takes_over_what_is_cached() {
    let mut engine = engine(options("lru-exclusive"));
    for page in 0..60_u8 {
        let request = Request::write(u64::from(page), u64::from(page) * PAGE, PAGE);
        ask(&mut engine, request, &[page + 1; 4096]);
    }
    engine.shard_mut().set_policy(PolicyOptions::named("face").unwrap()).unwrap();
    engine.wait_until_idle();
    engine.shard().assert_invariants();
    let before = engine.shard().counters().backing.reads;
    for page in (0..60_u8).rev() {
        let request = Request::read(1, u64::from(page) * PAGE, PAGE);
        assert_eq!(ask(&mut engine, request, &[]), [page + 1; 4096], "page {page}");
    }
    assert_eq!(engine.shard().counters().backing.reads, before, "all of it was cached");
}

/// Return `auto` with two candidates, of which it changes to the other one soon.
fn auto(margin: &str) -> PolicyOptions {
    let given = [
        ("candidates", "lru-exclusive+second-access"),
        ("window", "100"),
        ("patience", "1"),
        ("move_share", "0"),
        ("margin", margin),
    ];
    let given = given.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let policy = PolicyOptions::named("auto").unwrap();
    PolicyOptions { values: policy.entry.values(&given).unwrap(), ..policy }
}

/// Reads pages that nobody wants again: what writes least to flash is best.
fn read_once(engine: &mut Engine<MemoryDriver>, steps: std::ops::Range<u64>) {
    for step in steps {
        ask(engine, Request::read(step, step * 7 % 4096 * PAGE, PAGE), &[]);
    }
}

/// Change that has the policy built again.
type Change = fn(&mut Shard);

#[test]
fn candidates_stay_chosen_while_sizes_and_policies_change() {
    let options = Options { spare_ram_pages: 16, ..Options::new(4096, 16, 64, auto("0")) };
    let mut engine = engine(options);
    read_once(&mut engine, 0..1000);
    let chosen = engine.shard().choosing().unwrap();
    assert_eq!((chosen.switches, &*chosen.in_force), (1, "second-access"));
    let mut accesses = chosen.accesses;
    let changes: [(&str, Change); 7] = [
        ("less RAM", |shard| shard.set_ram_pages(8).unwrap()),
        ("more RAM", |shard| shard.set_ram_pages(32).unwrap()),
        ("less flash", |shard| shard.set_flash_pages(40).unwrap()),
        ("more flash", |shard| shard.set_flash_pages(64).unwrap()),
        ("a larger backing store", |shard| shard.grow_backing(5000).unwrap()),
        ("another parameter", |shard| shard.set_policy(auto("0.01")).unwrap()),
        ("another policy and back", |shard| {
            shard.set_policy(PolicyOptions::named("lru").unwrap()).unwrap();
            assert!(shard.choosing().is_none());
            shard.set_policy(auto("0")).unwrap();
        }),
    ];
    for (name, change) in changes {
        change(engine.shard_mut());
        engine.wait_until_idle();
        engine.shard().assert_invariants();
        let found = engine.shard().choosing().unwrap();
        assert_eq!((found.switches, &*found.in_force), (1, "second-access"), "{name}");
        assert_eq!(found.recent, chosen.recent, "{name}");
        assert_eq!(found.accesses, accesses, "reports of cached pages do not count: {name}");
        read_once(&mut engine, 0..1000);
        let later = engine.shard().choosing().unwrap();
        assert_eq!((later.switches, later.accesses), (1, accesses + 1000), "{name}");
        accesses = later.accesses;
    }
    // Other candidates are compared from the beginning.
    let given = [("candidates".to_owned(), "lru-exclusive+hat+second-access".to_owned())];
    let other = PolicyOptions::named("auto").unwrap();
    let values = other.entry.values(&given).unwrap();
    engine.shard_mut().set_policy(PolicyOptions { values, ..other }).unwrap();
    assert_eq!(engine.shard().choosing().unwrap().switches, 0);
}

#[test]
fn candidates_are_compared_though_sizes_change_often() {
    let options = Options { spare_ram_pages: 16, ..Options::new(4096, 16, 64, auto("0")) };
    let mut engine = engine(options);
    for step in 0..100 {
        read_once(&mut engine, step * 10..(step + 1) * 10);
        let ram_pages = [16, 17][usize::from(step % 2 == 0)];
        engine.shard_mut().set_ram_pages(ram_pages).unwrap();
    }
    let found = engine.shard().choosing().unwrap();
    assert_eq!((found.accesses, found.switches, &*found.in_force), (1000, 1, "second-access"));
}

#[test]
fn zeroes_and_prefetches_are_accesses() {
    let mut engine = engine(options("lru"));
    ask(&mut engine, Request::write(1, 0, 2 * PAGE), &[5; 8192]);
    let zeroes = Request { kind: RequestKind::WriteZeroes, ..Request::write(2, 100, 4000) };
    ask(&mut engine, zeroes, &[]);
    let bytes = ask(&mut engine, Request::read(3, 0, 2 * PAGE), &[]);
    assert!(bytes[..100].iter().chain(&bytes[4100..]).all(|&byte| byte == 5));
    assert!(bytes[100..4100].iter().all(|&byte| byte == 0));
    let prefetch = Request { kind: RequestKind::Cache, ..Request::read(4, 50 * PAGE, PAGE) };
    ask(&mut engine, prefetch, &[]);
    assert_eq!(engine.shard().tier_of(50), Tier::RAM);
}

fn trim(tag: u64, offset_bytes: u64, length_bytes: u64) -> Request {
    Request { kind: RequestKind::Trim, ..Request::write(tag, offset_bytes, length_bytes) }
}

fn zeroes(tag: u64, offset_bytes: u64, length_bytes: u64) -> Request {
    Request { kind: RequestKind::WriteZeroes, ..Request::write(tag, offset_bytes, length_bytes) }
}

#[test]
fn uncached_pages_are_discarded_and_zeroed_by_the_disk() {
    for policy in ["lru", "hat", "lru-inclusive"] {
        let mut engine = engine(options(policy));
        engine.driver().bytes(Device::Backing).fill(9);
        ask(&mut engine, trim(1, 10 * PAGE - 5, 20 * PAGE + 9), &[]);
        ask(&mut engine, zeroes(2, 100 * PAGE, 70 * PAGE), &[]);
        let backing = engine.shard().counters().backing;
        // Parts of pages are not worth a read and a write; whole ones move no bytes.
        assert_eq!((backing.all_read_bytes(), backing.all_written_bytes()), (0, 0), "{policy}");
        assert_eq!((backing.discarded_bytes, backing.zeroed_bytes), (20 * PAGE, 70 * PAGE));
        assert_eq!(engine.shard().counters().bypasses, [0, 22 + 70]);
        assert_eq!(engine.shard().extents(0..256), [(256, Tier::DISK)]);
        ask(&mut engine, Request::flush(3), &[]);
        let counters = engine.shard().counters();
        assert_eq!((counters.backing.syncs, counters.flash.all_written_bytes()), (1, 0));
        // This disk discards nothing.
        assert_eq!(ask(&mut engine, Request::read(4, 12 * PAGE, PAGE), &[]), [9; 4096]);
        assert_eq!(ask(&mut engine, Request::read(5, 169 * PAGE, PAGE), &[]), [0; 4096]);
        assert_eq!(ask(&mut engine, Request::read(6, 170 * PAGE, PAGE), &[]), [9; 4096]);
        engine.shard().assert_invariants();
    }
}

#[test]
fn cached_pages_that_are_trimmed_read_as_zeroes_and_reach_the_disk_as_such() {
    let mut engine = engine(options("lru"));
    ask(&mut engine, Request::write(1, 0, 4 * PAGE), &[5; 4 * 4096]);
    ask(&mut engine, trim(2, PAGE, PAGE), &[]);
    ask(&mut engine, zeroes(3, 2 * PAGE, PAGE), &[]);
    ask(&mut engine, trim(4, 3 * PAGE + 8, 8), &[]);
    let bytes = ask(&mut engine, Request::read(5, 0, 4 * PAGE), &[]);
    let is_zero = |place: u64| (PAGE..3 * PAGE).contains(&place) || (place & !7) == 3 * PAGE + 8;
    assert!((0..).zip(&bytes).all(|(place, &byte)| byte == if is_zero(place) { 0 } else { 5 }));
    engine.shard_mut().drain();
    engine.wait_until_idle();
    let backing = engine.shard().counters().backing;
    assert_eq!((backing.all_written_bytes(), backing.zeroed_bytes), (2 * PAGE, 2 * PAGE));
    assert_eq!(engine.driver().bytes(Device::Backing)[..4 * 4096], bytes);
}

/// Return the operations that the shard asks of its devices now.
fn operations(shard: &mut Shard) -> Vec<Operation> {
    std::iter::from_fn(|| shard.next_operation()).collect()
}

fn reply(shard: &mut Shard) -> Reply {
    shard.next_reply().expect("the request is answered")
}

#[test]
fn who_reads_a_page_while_it_is_discarded_keeps_what_was_read() {
    let mut shard = Shard::new(options("lru")).unwrap();
    shard.submit(trim(1, 0, PAGE), &[]).unwrap();
    let discard = operations(&mut shard).pop().unwrap();
    assert_eq!((discard.kind, discard.device), (OperationKind::Discard, Device::Backing));
    shard.submit(Request::read(2, 0, PAGE), &[]).unwrap();
    let read = reply(&mut shard);
    assert_eq!(shard.pieces(&read).next().unwrap(), [0; 4096]);
    shard.release(read);
    // Done or not, the disk need not have zeroes now: the cache does, and is newer.
    shard.complete(discard, Ok(()));
    let trimmed = reply(&mut shard);
    assert_eq!((trimmed.tag, trimmed.result), (1, Ok(())));
    shard.release(trimmed);
    assert!(operations(&mut shard).is_empty());
    assert_eq!((shard.tier_of(0), shard.dirty_pages()), (Tier::RAM, 1));
    shard.drain();
    let zero = operations(&mut shard).pop().unwrap();
    assert_eq!((zero.kind, zero.length_bytes), (OperationKind::Zero, PAGE));
}

#[test]
fn a_write_waits_for_the_discard_before_it() {
    let mut shard =
        Shard::new(Options { write_mode: WriteMode::Through, ..options("lru") }).unwrap();
    shard.submit(trim(1, 0, PAGE), &[]).unwrap();
    let discard = operations(&mut shard).pop().unwrap();
    shard.submit(Request::write(2, 0, PAGE), &[8; 4096]).unwrap();
    assert!(operations(&mut shard).is_empty(), "one write of a page at a time");
    shard.complete(discard, Err(DeviceError(std::io::ErrorKind::Other)));
    let trimmed = reply(&mut shard);
    assert_eq!((trimmed.tag, trimmed.result), (1, Err(RequestError::Io)));
    shard.release(trimmed);
    // The page rests after a failure, and goes on.
    shard.tick(Nanos(2_000_000_000));
    let write = operations(&mut shard);
    assert!(write.iter().any(|it| (it.kind, it.device) == (OperationKind::Write, Device::Backing)));
}

/// Return a shard over a disk of 64 GiB, whose pages 5 and 1000 are in RAM.
fn over_64_gib() -> Shard {
    let policy = PolicyOptions::named("lru").unwrap();
    let mut shard = Shard::new(Options::new(1 << 24, 16, 64, policy)).unwrap();
    for page in [5, 1000] {
        shard.submit(Request::write(page, page * PAGE, PAGE), &[1; 4096]).unwrap();
        let written = reply(&mut shard);
        assert_eq!(written.result, Ok(()));
        shard.release(written);
    }
    shard
}

#[test]
fn a_range_costs_what_is_held_of_it() {
    const LENGTH: u64 = 4 << 30;
    let mut shard = over_64_gib();
    let before = shard.memory_bytes();
    for (request, kind, length_bytes) in [
        (trim(1, 0, LENGTH), OperationKind::Discard, LENGTH),
        (zeroes(2, 0, 256 << 20), OperationKind::Zero, 256 << 20),
    ] {
        assert_eq!(shard.part_bytes(&request), length_bytes);
        let bypasses = shard.counters().bypasses[1];
        shard.submit(request, &[]).unwrap();
        assert_eq!(shard.counters().bypasses[1] - bypasses, length_bytes / PAGE - 2);
        let operations = operations(&mut shard);
        let ranges: Vec<_> = operations
            .iter()
            .map(|it| {
                assert_eq!((it.device, it.kind), (Device::Backing, kind));
                it.offset_bytes / PAGE..(it.offset_bytes + it.length_bytes) / PAGE
            })
            .collect();
        assert_eq!(ranges, [0..5, 6..1000, 1001..length_bytes / PAGE]);
        assert!(shard.memory_bytes() - before < 4096);
        shard.assert_invariants();
        for operation in operations {
            assert!(shard.next_reply().is_none(), "the request waits for all of it");
            shard.complete(operation, Ok(()));
        }
        let done = reply(&mut shard);
        assert_eq!((done.tag, done.result), (request.tag, Ok(())));
        shard.release(done);
        shard.submit(Request::read(3, 5 * PAGE, PAGE), &[]).unwrap();
        let read = reply(&mut shard);
        assert_eq!(shard.pieces(&read).next().unwrap(), [0; 4096], "held pages are blank");
        shard.release(read);
        shard.assert_invariants();
    }
}

#[test]
fn a_range_on_its_way_lets_reads_through_and_holds_other_ranges_back() {
    let mut shard = over_64_gib();
    shard.submit(trim(1, 1 << 35, 1 << 30), &[]).unwrap();
    let discard = operations(&mut shard).pop().unwrap();
    assert_eq!(shard.submit(zeroes(2, (1 << 35) - PAGE, 8 * PAGE), &[]), Err(SubmitError::Full));
    // A read in the middle of it sees zeroes, and what it saw stays.
    let middle = (1 << 35) + (1 << 29);
    shard.submit(Request::read(3, middle, PAGE), &[]).unwrap();
    let read = reply(&mut shard);
    assert_eq!(shard.pieces(&read).next().unwrap(), [0; 4096]);
    shard.release(read);
    // A write goes to disk after the discard only.
    shard.submit(Request::write(4, middle + PAGE, PAGE), &[8; 4096]).unwrap();
    let written = reply(&mut shard);
    shard.release(written);
    shard.drain();
    shard.assert_invariants();
    let before: Vec<_> =
        operations(&mut shard).into_iter().filter(|it| it.offset_bytes > middle).collect();
    assert_eq!(before, [], "one write of a page at a time");
    shard.complete(discard, Ok(()));
    let trimmed = reply(&mut shard);
    assert_eq!((trimmed.tag, trimmed.result), (1, Ok(())));
    shard.release(trimmed);
    let written = operations(&mut shard);
    let kind_at = |offset_bytes: u64| {
        let is_there =
            |it: &&Operation| it.device == Device::Backing && it.offset_bytes == offset_bytes;
        written.iter().find(is_there).map(|it| it.kind)
    };
    assert_eq!(kind_at(middle), Some(OperationKind::Zero));
    assert_eq!(kind_at(middle + PAGE), Some(OperationKind::Write));
    shard.submit(zeroes(2, (1 << 35) - PAGE, 8 * PAGE), &[]).unwrap();
    shard.assert_invariants();
}

#[test]
fn ranges_are_zeroed_again_after_a_failed_sync() {
    let mut shard = over_64_gib();
    shard.submit(zeroes(1, 1 << 35, 256 << 20), &[]).unwrap();
    let zero = operations(&mut shard).pop().unwrap();
    shard.complete(zero, Ok(()));
    let zeroed = reply(&mut shard);
    shard.release(zeroed);
    shard.submit(Request::flush(2), &[]).unwrap();
    let failure = Err(DeviceError(std::io::ErrorKind::Other));
    let mut is_failed = false;
    while !is_failed {
        for operation in operations(&mut shard) {
            let is_sync =
                (operation.kind, operation.device) == (OperationKind::Sync, Device::Backing);
            is_failed |= is_sync;
            shard.complete(operation, if is_sync { failure } else { Ok(()) });
        }
    }
    let flushed = reply(&mut shard);
    assert_eq!((flushed.tag, flushed.result), (2, Err(RequestError::Io)));
    shard.release(flushed);
    // The next flush writes it again, and waits for that.
    shard.submit(Request::flush(3), &[]).unwrap();
    let again = operations(&mut shard);
    let again = again.into_iter().find(|it| it.kind == OperationKind::Zero).unwrap();
    assert_eq!((again.offset_bytes, again.length_bytes), (1 << 35, 256 << 20));
    assert!(shard.next_reply().is_none());
    shard.complete(again, Ok(()));
    while !shard.is_idle() {
        for operation in operations(&mut shard) {
            shard.complete(operation, Ok(()));
        }
    }
    let flushed = reply(&mut shard);
    assert_eq!((flushed.tag, flushed.result), (3, Ok(())));
    shard.release(flushed);
}

#[test]
fn writes_wait_until_it_is_known_whether_they_may_be_acknowledged() {
    for is_released in [true, false] {
        let mut engine = engine(options("lru"));
        let hold = engine.shard().write_hold();
        // A part of a page: the rest is read first.
        engine.submit(Request::write(1, 512, 512), &[1; 512]).unwrap();
        hold.wait();
        engine.submit(Request::read(2, PAGE, PAGE), &[]).unwrap();
        engine.wait_until_idle();
        let reply = engine.next_reply().unwrap();
        assert_eq!((reply.tag, reply.result), (2, Ok(())));
        engine.release(reply);
        assert!(engine.next_reply().is_none(), "a write is answered that may not be");
        let mut refuses = |request: Request| {
            let payload: &[u8] = if request.kind == RequestKind::Write { &[2; 512] } else { &[] };
            engine.submit(request, payload) == Err(SubmitError::Full)
        };
        assert!(refuses(Request::write(3, 0, 512)) && refuses(Request::flush(4)));
        if is_released {
            hold.release();
        } else {
            hold.hold();
        }
        let expected = if is_released { Ok(()) } else { Err(RequestError::Io) };
        let reply = engine.next_reply().unwrap();
        assert_eq!((reply.tag, reply.result), (1, expected));
        engine.release(reply);
        engine.submit(Request::write(5, 0, 512), &[2; 512]).unwrap();
        engine.wait_until_idle();
        let reply = engine.next_reply().unwrap();
        assert_eq!((reply.tag, reply.result), (5, expected));
        engine.release(reply);
    }
}

#[test]
fn a_promise_that_waits_while_the_flash_is_given_up_waits_for_the_disk() {
    let write = Request::write(1, 0, PAGE);
    for is_durable in [false, true] {
        let mut engine = engine(options("hat"));
        let hold = engine.shard().write_hold();
        if is_durable {
            engine.submit(Request { is_durable, ..write }, &[1; 4096]).unwrap();
        } else {
            ask(&mut engine, write, &[1; 4096]);
            engine.submit(Request::flush(1), &[]).unwrap();
        }
        // Another shard's region has failed, and a note is about to say so.
        hold.wait();
        engine.wait_until_idle();
        assert!(engine.next_reply().is_none());
        assert_eq!(engine.shard().counters().commits, 1, "the flash has it durably");
        engine.shard_mut().give_up_flash();
        hold.release();
        assert!(engine.next_reply().is_none(), "only a flash has it that no start uses");
        engine.wait_until_idle();
        let reply = engine.next_reply().unwrap();
        assert_eq!((reply.tag, reply.result), (1, Ok(())));
        engine.release(reply);
        let backing = &engine.shard().counters().backing;
        assert_eq!((backing.all_written_bytes(), backing.syncs), (PAGE, 1));
    }
}
