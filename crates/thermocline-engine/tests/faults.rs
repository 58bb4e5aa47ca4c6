//! Devices that fail, are gone, or are slow: what is told to whom, and what goes on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thermocline_core::{Nanos, Tier};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::{
    Device, DeviceError, Engine, Operation, OperationKind, OperationParts, Options, PolicyOptions,
    Request, RequestError, RequestKind, Shard, SubmitError, WriteMode,
};

const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;

fn options(policy: &str) -> Options {
    Options::new(256, 16, 64, PolicyOptions::named(policy).unwrap())
}

/// Return the operations that the shard asks of its devices now.
fn operations(shard: &mut Shard) -> Vec<Operation> {
    std::iter::from_fn(|| shard.next_operation()).collect()
}

/// Return the writes to the backing store among these.
fn disk_writes(operations: &[Operation]) -> Vec<OperationParts> {
    let is_write =
        |it: &&Operation| (it.device, it.kind) == (Device::Backing, OperationKind::Write);
    operations.iter().filter(is_write).map(|it| (**it).clone()).collect()
}

/// Return an engine over devices in memory, none of which fails yet.
fn failing(options: Options) -> Engine<Failing> {
    let backing_bytes = usize::try_from(options.size_bytes()).unwrap();
    let shard = Shard::new(options).unwrap();
    let devices = MemoryDriver::new(shard.frames(), shard.flash_bytes(), backing_bytes);
    Engine::new(shard, Failing::new(devices))
}

fn backing_writes_fail(device: Device, kind: OperationKind) -> bool {
    device == Device::Backing && kind != OperationKind::Read
}

fn release_replies(engine: &mut Engine<Failing>) -> Vec<Result<(), RequestError>> {
    let mut results = vec![];
    while let Some(reply) = engine.next_reply() {
        results.push(reply.result);
        engine.release(reply);
    }
    results
}

#[test]
fn a_page_is_written_again_after_a_failed_sync_before_a_flush_succeeds() {
    let around = Options { write_mode: WriteMode::Around, ..options("lru") };
    let mut shard = Shard::new(Options { flash_pages: 0, ..around }).unwrap();
    let mut sync_fails = true;
    // Every operation on the backing store, in order; a failed sync drops the writes before it.
    let (mut seen, mut results) = (vec![], vec![]);
    let mut work = |shard: &mut Shard, seconds: u64| {
        shard.tick(Nanos(seconds * SECOND));
        loop {
            let started = operations(shard);
            let is_idle = started.is_empty();
            for operation in started {
                let is_failed = operation.kind == OperationKind::Sync && sync_fails;
                sync_fails &= !is_failed;
                seen.push((operation.kind, is_failed));
                let error = DeviceError(std::io::ErrorKind::Other);
                shard.complete(operation, if is_failed { Err(error) } else { Ok(()) });
            }
            while let Some(reply) = shard.next_reply() {
                results.push((reply.tag, reply.result));
                shard.release(reply);
            }
            if is_idle {
                break;
            }
        }
    };
    shard.submit(Request::write(1, 0, PAGE), &[1; 4096]).unwrap();
    work(&mut shard, 0);
    // Nobody waits for this sync, which fails.
    shard.stop();
    work(&mut shard, 0);
    shard.submit(Request::flush(2), &[]).unwrap();
    work(&mut shard, 5);
    assert_eq!(results, [(1, Ok(())), (2, Ok(()))]);
    let (write, sync) = (OperationKind::Write, OperationKind::Sync);
    assert_eq!(seen, [(write, false), (sync, true), (write, false), (sync, false)]);
}

/// Devices in memory, of which some operations fail at once, and some are kept until nothing is.
#[derive(Debug)]
struct Failing {
    devices: MemoryDriver,
    fails: fn(Device, OperationKind) -> bool,
    failed: Vec<Completion>,
    keeps: fn(Device, OperationKind) -> bool,
    kept: Vec<Operation>,
}

impl Failing {
    /// Devices that work.
    fn new(devices: MemoryDriver) -> Self {
        Self { devices, fails: |_, _| false, failed: vec![], keeps: |_, _| false, kept: vec![] }
    }

    /// Stop failing and holding operations from now on.
    fn work(&mut self) {
        (self.fails, self.keeps) = (|_, _| false, |_, _| false);
        self.kept.drain(..).for_each(|operation| self.devices.start(operation));
    }
}

impl Driver for Failing {
    fn start(&mut self, operation: Operation) {
        if (self.fails)(operation.device, operation.kind) {
            let error = DeviceError(std::io::ErrorKind::NotConnected);
            self.failed.push((operation, Err(error)));
        } else if (self.keeps)(operation.device, operation.kind) {
            self.kept.push(operation);
        } else {
            self.devices.start(operation);
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.failed);
        self.devices.poll(done);
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.poll(done);
    }
}

/// Return an engine and a disk of sevens, of which page 0 was trimmed; the disk kept its bytes.
fn trimmed(policy: &str) -> Engine<Failing> {
    let mut engine = failing(options(policy));
    engine.driver().devices.bytes(Device::Backing).fill(7);
    ask(&mut engine, Request { kind: RequestKind::Trim, ..Request::read(0, 0, PAGE) }, &[]);
    engine
}

/// Submits a request, and returns the bytes of its reply if there is one by now.
fn ask(engine: &mut Engine<Failing>, request: Request, payload: &[u8]) -> Vec<u8> {
    engine.submit(request, payload).unwrap();
    engine.poll();
    let mut bytes = vec![];
    while let Some(reply) = engine.next_reply() {
        bytes = engine.pieces(&reply).flatten().copied().collect();
        engine.release(reply);
    }
    engine.shard().assert_invariants();
    bytes
}

/// Flush while the sync fails, besides the faults that are set already.
fn fail_a_flush(engine: &mut Engine<Failing>) {
    engine.driver().fails = |device, kind| (device, kind) == (Device::Backing, OperationKind::Sync);
    ask(engine, Request::flush(1), &[]);
    engine.driver().fails = |_, _| false;
}

/// Let everything work again, and write it to the disk.
fn come_to_rest(engine: &mut Engine<Failing>) {
    engine.driver().work();
    for second in 1..10 {
        engine.poll();
        engine.shard_mut().tick(Nanos(second * SECOND));
        ask(engine, Request::flush(2), &[]);
    }
}

#[test]
fn what_is_read_of_a_trimmed_page_after_a_failed_sync_stays() {
    // Page 0 goes to flash before the sync fails, or after.
    for goes_after in [false, true] {
        let mut engine = trimmed("lru-exclusive");
        let evict = |engine: &mut Engine<Failing>| {
            for page in 1..20 {
                ask(engine, Request::read(page, page * PAGE, PAGE), &[]);
            }
        };
        ask(&mut engine, Request::read(3, 0, PAGE), &[]);
        engine.driver().keeps =
            |device, kind| (device, kind) == (Device::Flash, OperationKind::Write);
        if !goes_after {
            evict(&mut engine);
            assert!(!engine.driver().kept.is_empty(), "page 0 is on its way to flash");
        }
        fail_a_flush(&mut engine);
        let read = ask(&mut engine, Request::read(3, 0, PAGE), &[]);
        evict(&mut engine);
        engine.driver().work();
        engine.poll();
        assert!(ask(&mut engine, Request::read(3, 0, PAGE), &[]) == read, "before the next sync");
        evict(&mut engine);
        come_to_rest(&mut engine);
        assert!(ask(&mut engine, Request::read(3, 0, PAGE), &[]) == read, "after the next sync");
        engine.shard_mut().stop();
        come_to_rest(&mut engine);
        let disk = &engine.driver().devices.bytes(Device::Backing)[..4096];
        assert!(disk == read, "{} was read, {} is on disk", read[0], disk[0]);
    }
}

#[test]
fn a_read_under_way_when_a_sync_fails_brings_what_flash_has() {
    let is_slot_write = |device, kind| (device, kind) == (Device::Flash, OperationKind::Write);
    let mut engine = trimmed("lru-inclusive");
    engine.driver().keeps = is_slot_write;
    let before = ask(&mut engine, Request::read(3, 0, PAGE), &[]);
    for page in 1..20 {
        ask(&mut engine, Request::read(page, page * PAGE, PAGE), &[]);
    }
    let slot_writes = std::mem::take(&mut engine.driver().kept);
    assert!(!slot_writes.is_empty(), "page 0 is on its way to flash");
    // Until it is there, the page is read from the disk.
    engine.driver().keeps = |device, kind| (device, kind) == (Device::Backing, OperationKind::Read);
    ask(&mut engine, Request::read(4, 0, PAGE), &[]);
    assert_eq!(engine.driver().kept.len(), 1, "page 0 is being read from the disk");
    for operation in slot_writes {
        engine.driver().devices.start(operation);
    }
    engine.poll();
    // The disk loses the trim and what was written before it.
    fail_a_flush(&mut engine);
    engine.driver().devices.bytes(Device::Backing)[..4096].fill(9);
    engine.driver().work();
    engine.poll();
    let reply = engine.next_reply().expect("the read is answered");
    let after: Vec<u8> = engine.pieces(&reply).flatten().copied().collect();
    engine.release(reply);
    assert!(after == before, "{} was read, and then {}", before[0], after[0]);
}

#[test]
fn a_part_written_to_a_trimmed_page_outlives_a_failed_sync() {
    let mut engine = trimmed("lru-exclusive");
    engine.driver().keeps = |device, kind| (device, kind) == (Device::Backing, OperationKind::Read);
    ask(&mut engine, Request::write(3, 512, 512), &[5; 512]);
    assert!(!engine.driver().kept.is_empty(), "the rest of the page is being fetched");
    fail_a_flush(&mut engine);
    come_to_rest(&mut engine);
    let read = ask(&mut engine, Request::read(4, 0, PAGE), &[]);
    assert!(read[512..1024].iter().all(|&byte| byte == 5), "{} in place of 5", read[512]);
}

#[test]
fn a_backing_store_that_fails_at_once_keeps_nobody_busy() {
    let faults: [fn(Device, OperationKind) -> bool; 2] = [
        |device, kind| device == Device::Backing && kind == OperationKind::Sync,
        |device, kind| device == Device::Backing && kind != OperationKind::Read,
    ];
    for fails in faults {
        let shard = Shard::new(options("lru-exclusive")).unwrap();
        let devices = MemoryDriver::new(shard.frames(), shard.flash_bytes(), 256 << 12);
        let mut engine = Engine::new(shard, Failing { fails, ..Failing::new(devices) });
        // More dirty pages than RAM and flash have room for.
        for page in 0..200 {
            // Each poll ends.
            engine.poll();
            if engine.submit(Request::write(page, page * PAGE, PAGE), &[1; 4096]).is_err() {
                break;
            }
        }
        engine.poll();
        let errors = engine.shard().counters().backing.errors;
        assert!((1..=400).contains(&errors), "{errors} errors");
        // Time passes: it tries again, and again that ends.
        engine.shard_mut().tick(Nanos(2_000_000_000));
        engine.poll();
        let more = engine.shard().counters().backing.errors - errors;
        assert!((1..=400).contains(&more), "{more} errors");
        engine.driver().fails = |_, _| false;
        for seconds in 2..9 {
            engine.shard_mut().tick(Nanos(seconds * 2_000_000_000));
            engine.poll();
            while let Some(reply) = engine.next_reply() {
                engine.release(reply);
            }
        }
        engine.shard_mut().drain();
        engine.wait_until_idle();
        assert_eq!(engine.shard().dirty_pages(), 0);
        engine.shard().assert_invariants();
    }
}

#[test]
fn what_a_failing_flash_still_gives_goes_home() {
    // A flash that takes no writes any more, as worn ones do, and one that is gone.
    let faults: [fn(Device, OperationKind) -> bool; 2] = [
        |device, kind| device == Device::Flash && kind != OperationKind::Read,
        |device, _| device == Device::Flash,
    ];
    for (is_gone, fails) in [false, true].into_iter().zip(faults) {
        let options = Options { flash_error_budget: 0, ..options("lru-inclusive") };
        let shard = Shard::new(options).unwrap();
        let devices = MemoryDriver::new(shard.frames(), shard.flash_bytes(), 256 << 12);
        let mut engine = Engine::new(shard, Failing::new(devices));
        let ask = |engine: &mut Engine<Failing>, request: Request, payload: &[u8]| {
            engine.submit(request, payload).unwrap();
            engine.wait_until_idle();
            let reply = engine.next_reply().unwrap();
            let bytes: Vec<u8> = engine.pieces(&reply).flatten().copied().collect();
            let result = reply.result;
            engine.release(reply);
            result.map(|()| bytes)
        };
        let byte = |page: u64| u8::try_from(page + 1).unwrap();
        for page in 0..60 {
            ask(&mut engine, Request::write(page, page * PAGE, PAGE), &[byte(page); 4096]).unwrap();
        }
        ask(&mut engine, Request::flush(99), &[]).unwrap();
        engine.driver().fails = fails;
        ask(&mut engine, Request::write(70, 70 * PAGE, PAGE), &[byte(70); 4096]).unwrap();
        // When this is acknowledged, all that is not lost is on disk.
        ask(&mut engine, Request::flush(99), &[]).unwrap();
        assert!(!engine.shard().has_flash());
        engine.shard().assert_invariants();
        let lost = engine.shard().lost_pages();
        assert_eq!(lost.is_empty(), !is_gone, "{lost:?}");
        assert!(lost.len() < 60, "RAM has some");
        assert_eq!(
            engine.shard().dirty_slots(),
            u32::from(is_gone) * u32::try_from(lost.len()).unwrap()
        );
        for page in (0..60).chain([70]) {
            let place = usize::try_from(page * PAGE).unwrap();
            let on_disk = engine.driver().devices.bytes(Device::Backing)[place];
            let found = ask(&mut engine, Request::read(page, page * PAGE, PAGE), &[]);
            if lost.contains(&page) {
                assert_eq!((found, on_disk), (Err(RequestError::Lost), 0));
            } else {
                assert_eq!((found, on_disk), (Ok(vec![byte(page); 4096]), byte(page)));
            }
        }
        engine.shard_mut().stop();
        engine.wait_until_idle();
    }
}

#[test]
fn a_page_s_status_says_whether_it_is_newer_or_lost() {
    let options = Options { flash_error_budget: 0, ..options("lru-exclusive") };
    let shard = Shard::new(options).unwrap();
    let devices = MemoryDriver::new(shard.frames(), shard.flash_bytes(), 256 << 12);
    let driver = Failing::new(devices);
    let mut engine = Engine::new(shard, driver);
    let work = |engine: &mut Engine<Failing>, request: Request, payload: &[u8]| {
        engine.submit(request, payload).unwrap();
        engine.wait_until_idle();
        let reply = engine.next_reply().unwrap();
        let result = reply.result;
        engine.release(reply);
        result
    };
    for page in 0..40 {
        assert_eq!(work(&mut engine, Request::write(page, page * PAGE, PAGE), &[1; 4096]), Ok(()));
    }
    assert_eq!(work(&mut engine, Request::read(40, 50 * PAGE, PAGE), &[]), Ok(()));
    let status = |engine: &Engine<Failing>, page| {
        let status = engine.shard().page_status(page);
        (status.tier, status.is_dirty, status.is_lost)
    };
    assert_eq!(status(&engine, 3), (Tier::FLASH, true, false));
    assert_eq!(status(&engine, 39), (Tier::RAM, true, false));
    assert_eq!(status(&engine, 50), (Tier::RAM, false, false));
    assert_eq!(status(&engine, 60), (Tier::DISK, false, false));
    engine.driver().fails = |device, _| device == Device::Flash;
    assert_eq!(work(&mut engine, Request::read(41, 3 * PAGE, PAGE), &[]), Err(RequestError::Lost));
    assert_eq!(work(&mut engine, Request::flush(42), &[]), Ok(()));
    let lost = engine.shard().lost_pages();
    assert!(lost.contains(&3));
    for page in 0..256 {
        let (_, is_dirty, is_lost) = status(&engine, page);
        assert_eq!(is_lost, lost.contains(&page), "page {page}");
        assert!(!is_dirty, "page {page}: what is not lost was flushed");
    }
}

#[test]
fn a_backing_store_that_is_gone_is_asked_now_and_then() {
    let mut engine = failing(options("lru-exclusive"));
    for page in 0..60 {
        engine.submit(Request::write(page, page * PAGE, PAGE), &[1; 4096]).unwrap();
        engine.poll();
        release_replies(&mut engine);
    }
    engine.driver().fails = backing_writes_fail;
    engine.shard_mut().drain();
    engine.poll();
    let errors = |engine: &Engine<Failing>| engine.shard().counters().backing.errors;
    let first = errors(&engine);
    for second in 1..=10 {
        engine.shard_mut().tick(Nanos(second * 2 * SECOND));
        engine.poll();
    }
    let more = errors(&engine) - first;
    assert!((5..=20).contains(&more), "{more} errors in 20 seconds, {first} at first");
    engine.driver().fails = |_, _| false;
    for second in 11..=14 {
        engine.shard_mut().tick(Nanos(second * 2 * SECOND));
        engine.poll();
    }
    assert!(engine.shard().is_idle(), "{:?}", engine.shard());
    assert_eq!(engine.shard().dirty_pages(), 0);
    engine.shard().assert_invariants();
}

#[test]
fn an_orderly_end_does_not_wait_for_a_backing_store_that_is_gone() {
    let mut engine = failing(options("lru-exclusive"));
    for page in 0..60 {
        engine.submit(Request::write(page, page * PAGE, PAGE), &[1; 4096]).unwrap();
        engine.poll();
    }
    engine.driver().fails = backing_writes_fail;
    engine.shard_mut().drain();
    engine.poll();
    engine.shard_mut().stop();
    engine.submit(Request::flush(60), &[]).unwrap();
    engine.poll();
    let results = release_replies(&mut engine);
    assert_eq!(results.len(), 61, "the flush is answered");
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert!(engine.shard().is_idle(), "{:?}", engine.shard());
    assert_eq!(engine.shard().dirty_pages(), 60, "flash keeps what the disk lacks");
}

#[test]
fn reads_are_taken_while_writes_wait_for_the_disk() {
    let options = Options { flash_pages: 0, backing_pages: 1 << 14, ..options("lru") };
    let mut shard = Shard::new(options).unwrap();
    // Nothing ever reaches the disk.
    let mut page = 0;
    let error = loop {
        match shard.submit(Request::write(page, page * PAGE, PAGE), &[1; 4096]) {
            Ok(()) => page += 1,
            Err(error) => break error,
        }
        operations(&mut shard);
        while let Some(reply) = shard.next_reply() {
            shard.release(reply);
        }
    };
    assert_eq!(error, SubmitError::Full);
    for read in 0..16 {
        shard.submit(Request::read(1000 + read, (10_000 + read) * PAGE, PAGE), &[]).unwrap();
    }
}

#[test]
fn what_is_destaged_makes_way_for_reads_and_goes_in_order() {
    let options = Options { ram_pages: 200, flash_pages: 0, ..options("lru") };
    let mut shard = Shard::new(Options { backing_pages: 1024, ..options }).unwrap();
    let release_replies = |shard: &mut Shard| {
        while let Some(reply) = shard.next_reply() {
            shard.release(reply);
        }
    };
    // Every other page, the last one first: no two are neighbours.
    for page in (0..150).rev() {
        shard.submit(Request::write(page, page * 2 * PAGE, PAGE), &[1; 4096]).unwrap();
        release_replies(&mut shard);
    }
    // One read takes long; others push out what was written.
    shard.submit(Request::read(500, 1000 * PAGE, PAGE), &[]).unwrap();
    let mut slow = operations(&mut shard);
    assert_eq!(slow.len(), 1, "{slow:?}");
    let mut beside = vec![];
    for page in 0..190 {
        shard.submit(Request::read(page, (600 + page) * PAGE, PAGE), &[]).unwrap();
        let started = operations(&mut shard);
        beside.extend(disk_writes(&started));
        for fetch in started.into_iter().filter(|started| started.kind == OperationKind::Read) {
            shard.complete(fetch, Ok(()));
        }
        release_replies(&mut shard);
    }
    assert_eq!(beside.len(), 8, "beside reads");
    shard.complete(slow.remove(0), Ok(()));
    // A while after the last read.
    shard.tick(Nanos(SECOND));
    let writes = disk_writes(&operations(&mut shard));
    assert_eq!(beside.len() + writes.len(), 64, "without reads");
    let (up, again) = writes.split_at(
        writes.windows(2).position(|pair| pair[0].offset_bytes > pair[1].offset_bytes).unwrap_or(0)
            + 1,
    );
    assert!(up.is_sorted_by_key(|write| write.offset_bytes), "{writes:?}");
    assert!(again.is_sorted_by_key(|write| write.offset_bytes), "one sweep: {writes:?}");
}

#[test]
fn what_only_ram_has_stays_within_its_bound_without_accesses() {
    let options = Options { undurable_pages_max: 4, ..options("lru-exclusive") };
    let mut engine = failing(options);
    for page in 0..16 {
        engine.submit(Request::write(page, page * PAGE, PAGE), &[1; 4096]).unwrap();
    }
    assert_eq!(engine.shard().undurable_pages(), 16);
    engine.poll();
    assert!(engine.shard().undurable_pages() <= 4, "{}", engine.shard().undurable_pages());
    assert_eq!(engine.shard().counters().backing.writes, 0, "flash is as good");
}

#[test]
fn writes_wait_while_far_too_much_is_in_ram_only() {
    let options = Options { undurable_pages_max: 8, ..options("lru-exclusive") };
    let mut shard = Shard::new(options).unwrap();
    let mut started = vec![];
    let mut page = 0;
    let error = loop {
        match shard.submit(Request::write(page, page * PAGE, PAGE), &[1; 4096]) {
            Ok(()) => page += 1,
            Err(error) => break error,
        }
        started.extend(operations(&mut shard));
        while let Some(reply) = shard.next_reply() {
            shard.release(reply);
        }
    };
    assert_eq!((error, page), (SubmitError::Full, 11));
    shard.submit(Request::read(100, 100 * PAGE, PAGE), &[]).unwrap();
    for operation in started {
        shard.complete(operation, Ok(()));
    }
    shard.submit(Request::write(page, page * PAGE, PAGE), &[1; 4096]).unwrap();
}

/// Return the replies that are there, by tag.
fn replies(shard: &mut Shard) -> Vec<(u64, Result<(), RequestError>)> {
    let mut replies = vec![];
    while let Some(reply) = shard.next_reply() {
        replies.push((reply.tag, reply.result));
        shard.release(reply);
    }
    replies
}

#[test]
fn a_write_through_is_answered_at_once_while_the_backing_store_refuses() {
    for mode in [WriteMode::Through, WriteMode::Around] {
        for policy in ["lru-inclusive", "lru"] {
            let mut engine = failing(Options { write_mode: mode, ..options(policy) });
            engine.driver().fails = backing_writes_fail;
            for round in 1..=3 {
                for page in 0..60 {
                    let request = Request::write(page, page * PAGE, PAGE);
                    engine.submit(request, &[1; 4096]).unwrap();
                    engine.poll();
                    let results = release_replies(&mut engine);
                    assert_eq!(results, [Err(RequestError::Io)], "page {page}, round {round}");
                }
                engine.shard_mut().tick(Nanos(round * SECOND / 10));
            }
            engine.driver().fails = |_, _| false;
            for page in 0..60 {
                engine.submit(Request::write(page, page * PAGE, PAGE), &[2; 4096]).unwrap();
                engine.poll();
                assert_eq!(release_replies(&mut engine), [Ok(())], "page {page}");
            }
            let disk = engine.driver().devices.bytes(Device::Backing);
            assert!(disk[..60 << 12].iter().all(|&byte| byte == 2));
            engine.shard().assert_invariants();
        }
    }
}

#[test]
fn requests_end_when_devices_do_not_answer() {
    let timeout = Nanos(2 * SECOND);
    let through = Options {
        write_mode: WriteMode::Through,
        backing_timeout: timeout,
        ..options("lru-inclusive")
    };
    let mut shard = Shard::new(through).unwrap();
    shard.tick(Nanos(10 * SECOND));
    shard.submit(Request::read(1, PAGE, 3 * PAGE), &[]).unwrap();
    shard.submit(Request::read(2, 2 * PAGE, PAGE), &[]).unwrap();
    shard.submit(Request::write(3, 2 * PAGE, 512), &[3; 512]).unwrap();
    shard.submit(Request::write(4, 9 * PAGE, PAGE), &[4; 4096]).unwrap();
    shard.submit(Request::flush(5), &[]).unwrap();
    let durable = Request { is_durable: true, ..Request::write(6, 11 * PAGE, PAGE) };
    shard.submit(durable, &[6; 4096]).unwrap();
    let mut hung = operations(&mut shard);
    assert!(hung.len() >= 3, "{hung:?}");
    // A request that came later has its own time.
    shard.tick(Nanos(11 * SECOND));
    shard.submit(Request::read(7, 2 * PAGE, PAGE), &[]).unwrap();
    shard.tick(Nanos(12 * SECOND - 1));
    hung.extend(operations(&mut shard));
    assert_eq!(replies(&mut shard), []);
    assert_eq!(shard.next_deadline(), Some(Nanos(12 * SECOND)));
    shard.tick(Nanos(12 * SECOND + SECOND / 4));
    let mut ended = replies(&mut shard);
    ended.sort_by_key(|&(tag, _)| tag);
    assert_eq!(ended, [1, 2, 3, 4, 5, 6].map(|tag| (tag, Err(RequestError::Io))));
    assert_eq!(shard.requests_in_flight(), 1);
    shard.assert_invariants();
    // The devices answer at last: whoever still waits is served, nobody is twice.
    hung.extend(operations(&mut shard));
    while !hung.is_empty() {
        for operation in hung {
            shard.complete(operation, Ok(()));
        }
        hung = operations(&mut shard);
    }
    assert_eq!(replies(&mut shard), [(7, Ok(()))]);
    shard.submit(Request::flush(8), &[]).unwrap();
    loop {
        let started = operations(&mut shard);
        if started.is_empty() {
            break;
        }
        for operation in started {
            shard.complete(operation, Ok(()));
        }
    }
    assert_eq!(replies(&mut shard), [(8, Ok(()))]);
    shard.assert_invariants();
    assert!(shard.is_idle(), "{shard:?}");
    assert_eq!(shard.undurable_pages(), 0);
}

#[test]
fn no_request_waits_longer_than_the_bound_whatever_hangs() {
    // Devices that take operations and never answer some of them.
    let hangs: [fn(Device, OperationKind) -> bool; 4] = [
        |device, _| device == Device::Backing,
        |device, kind| device == Device::Backing && kind != OperationKind::Read,
        |device, kind| device == Device::Backing && kind == OperationKind::Sync,
        |device, _| device == Device::Flash,
    ];
    let modes = [WriteMode::Back, WriteMode::Through, WriteMode::Around];
    for (hang, mode) in hangs.into_iter().flat_map(|hang| modes.map(|mode| (hang, mode))) {
        let timeout = Nanos(SECOND);
        let options =
            Options { write_mode: mode, backing_timeout: timeout, ..options("lru-exclusive") };
        let mut shard = Shard::new(options).unwrap();
        let mut since = std::collections::BTreeMap::new();
        let mut random = thermocline_core::random::SplitMix64::new(5);
        for tag in 0..4000 {
            let now = tag * SECOND / 100;
            shard.tick(Nanos(now));
            let bits = random.bits();
            let page = bits % 200;
            let request = match bits >> 32 & 7 {
                0..3 => Request::read(tag, page * PAGE, PAGE),
                3 => Request::write(tag, page * PAGE + 512, 512),
                4 => Request::flush(tag),
                _ => Request::write(tag, page * PAGE, PAGE),
            };
            let payload = vec![
                1;
                if request.kind == RequestKind::Write {
                    usize::try_from(request.length_bytes).unwrap()
                } else {
                    0
                }
            ];
            if shard.submit(request, &payload).is_ok() {
                since.insert(tag, now);
            }
            for operation in operations(&mut shard) {
                if !hang(operation.device, operation.kind) {
                    shard.complete(operation, Ok(()));
                }
            }
            for (tag, _) in replies(&mut shard) {
                since.remove(&tag).expect("a request is answered once");
            }
            let oldest = since.values().min().copied().unwrap_or(now);
            assert!(now - oldest <= SECOND + SECOND / 8, "a request waits for {}", now - oldest);
        }
        shard.assert_invariants();
    }
}
