//! Flash operations that fail once, for a time, or for good: what goes on, and what is given up.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod policies;

use thermocline_core::random::SplitMix64;
use thermocline_core::{Nanos, WriteMiss};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::{
    Device, DeviceError, Engine, Flash, Layout, Operation, OperationKind, OperationParts, Options,
    PolicyOptions, Request, RequestError, Shard, Storage, Uuid,
};

const PAGE: u64 = 4096;
const PAGES: u64 = 256;
const MILLISECOND: u64 = 1_000_000;

/// Kind of operation on flash that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    SlotWrite,
    SlotRead,
    Metadata,
    Sync,
    /// Writes of slots before this one.
    WritesBefore(u64),
    /// Reads of this one page bring wrong bytes.
    WrongBytes,
}

/// Devices in memory. Some operations on flash fail.
#[derive(Debug)]
struct Faulty {
    devices: MemoryDriver,
    slots_bytes: u64,
    kind: Kind,
    /// Number of operations that fail before they succeed again.
    left: u64,
    failed: Vec<Completion>,
}

impl Faulty {
    fn fails(&self, operation: &Operation) -> bool {
        let is_slot = operation.offset_bytes >= self.slots_bytes;
        let is_write = operation.kind == OperationKind::Write;
        let is_chosen = match self.kind {
            Kind::Nothing | Kind::WrongBytes => false,
            Kind::SlotWrite => is_slot && is_write,
            Kind::SlotRead => is_slot && operation.kind == OperationKind::Read,
            Kind::Metadata => !is_slot && is_write,
            Kind::Sync => operation.kind == OperationKind::Sync,
            Kind::WritesBefore(slot) => {
                is_slot && is_write && operation.offset_bytes < self.slots_bytes + slot * PAGE
            }
        };
        is_chosen && operation.device == Device::Flash && self.left > 0
    }

    /// Changes what the flash holds where a read is about to look, or changes it back.
    fn spoil(&mut self, operation: &OperationParts) {
        let place = usize::try_from(operation.offset_bytes).unwrap() + 7;
        self.devices.bytes(Device::Flash)[place] ^= 1;
    }
}

impl Driver for Faulty {
    fn start(&mut self, operation: Operation) {
        if self.fails(&operation) {
            self.left -= 1;
            let error = DeviceError(std::io::ErrorKind::Other);
            return self.failed.push((operation, Err(error)));
        }
        let is_read = (operation.device, operation.kind) == (Device::Flash, OperationKind::Read);
        if self.kind == Kind::WrongBytes && is_read && self.left > 0 {
            self.left -= 1;
            self.spoil(&operation);
            let parts = (*operation).clone();
            self.devices.start(operation);
            self.devices.poll(&mut self.failed);
            return self.spoil(&parts);
        }
        self.devices.start(operation);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.failed);
        self.devices.poll(done);
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.poll(done);
    }
}

/// An engine, its clock, and what each page should hold: one byte for each half.
struct World {
    engine: Engine<Faulty>,
    now: u64,
    pages: Vec<[u8; 2]>,
    random: SplitMix64,
    failed: u64,
}

impl World {
    fn new(options: Options) -> Self {
        let slots_bytes = {
            let layout = Layout::new(options.slots(), options.page_bytes);
            layout.flash_bytes() - u64::from(layout.slots) * PAGE
        };
        let shard = Shard::new(options).unwrap();
        let backing_bytes = usize::try_from(PAGES * PAGE).unwrap();
        let devices = MemoryDriver::new(shard.frames(), shard.flash_bytes(), backing_bytes);
        let driver = Faulty { devices, slots_bytes, kind: Kind::Nothing, left: 0, failed: vec![] };
        Self {
            engine: Engine::new(shard, driver),
            now: 0,
            pages: vec![[0; 2]; usize::try_from(PAGES).unwrap()],
            random: SplitMix64::new(7),
            failed: 0,
        }
    }

    fn fail(&mut self, kind: Kind, times: u64) {
        (self.engine.driver().kind, self.engine.driver().left) = (kind, times);
    }

    /// Serves one request to its end, while time goes by.
    fn ask(&mut self, request: Request, payload: &[u8]) -> Result<Vec<u8>, RequestError> {
        self.engine.submit(request, payload).unwrap();
        for _ in 0..200 {
            self.engine.poll();
            if let Some(reply) = self.engine.next_reply() {
                let bytes: Vec<u8> = self.engine.pieces(&reply).flatten().copied().collect();
                let result = reply.result;
                self.engine.release(reply);
                return result.map(|()| bytes);
            }
            self.pass(20);
        }
        panic!("{request:?} is not answered: {:?}", self.engine.shard());
    }

    fn pass(&mut self, milliseconds: u64) {
        self.now += milliseconds * MILLISECOND;
        self.engine.shard_mut().tick(Nanos(self.now));
    }

    fn come_to_rest(&mut self) {
        for _ in 0..1000 {
            self.engine.poll();
            if self.engine.shard().is_idle() {
                return;
            }
            self.pass(20);
        }
        panic!("stuck: {:?}", self.engine.shard());
    }

    fn write(&mut self, page: u64, byte: u8) {
        let whole = Request::write(1, page * PAGE, PAGE);
        self.ask(whole, &[byte; 4096]).unwrap();
        self.pages[usize::try_from(page).unwrap()] = [byte; 2];
    }

    fn read(&mut self, page: u64) -> Result<(), RequestError> {
        let bytes = self.ask(Request::read(2, page * PAGE, PAGE), &[])?;
        let expected = self.pages[usize::try_from(page).unwrap()];
        assert_eq!([bytes[0], bytes[4095]], expected, "page {page}");
        Ok(())
    }

    /// Reads, writes and flushes. Only what is lost may fail.
    fn work(&mut self, steps: u64) {
        for step in 0..steps {
            let bits = self.random.bits();
            let page = (bits >> 8) % [12, 60, 200][(bits >> 40) as usize % 3];
            let byte = (bits >> 56) as u8;
            let half = Request::write(1, page * PAGE + PAGE / 2, PAGE / 2);
            let half = Request { is_durable: bits & 0x80 != 0, ..half };
            let result = match bits % 8 {
                0..4 => self.read(page),
                4 | 5 => {
                    self.write(page, byte);
                    Ok(())
                }
                6 => self.ask(half, &[byte; 2048]).map(|_| {
                    self.pages[usize::try_from(page).unwrap()][1] = byte;
                }),
                _ => self.ask(Request::flush(3), &[]).map(drop),
            };
            if let Err(error) = result {
                assert_eq!(error, RequestError::Lost, "step {step}");
                let page = u32::try_from(page).unwrap();
                assert!(self.engine.shard().lost_pages().contains(&page.into()), "page {page}");
                self.failed += 1;
            }
            if step % 16 == 0 {
                self.pass(5);
            }
        }
        self.engine.shard().assert_invariants();
    }

    /// Check that everything that is not lost is on the backing store in the end.
    fn end(&mut self) {
        self.fail(Kind::Nothing, 0);
        self.engine.shard_mut().drain();
        self.come_to_rest();
        self.engine.shard().assert_invariants();
        assert_eq!(self.engine.shard().dirty_pages(), 0);
        let lost = self.engine.shard().lost_pages();
        for page in (0..PAGES).filter(|&page| !lost.contains(&page)) {
            let start = usize::try_from(page * PAGE).unwrap();
            let disk = self.engine.driver().devices.bytes(Device::Backing);
            let expected = self.pages[usize::try_from(page).unwrap()];
            assert_eq!([disk[start], disk[start + 4095]], expected, "page {page}");
        }
    }
}

fn options(policy: &str) -> Options {
    Options::new(256, 16, 64, PolicyOptions::named(policy).unwrap())
}

#[test]
fn no_policy_loses_anything_to_writes_that_fail() {
    for entry in policies::entries() {
        for kind in [Kind::SlotWrite, Kind::Metadata, Kind::Sync] {
            for times in [1, 3, u64::MAX] {
                let policy = policies::policy(entry, WriteMiss::Fetch);
                let mut world = World::new(Options::new(256, 16, 64, policy));
                world.work(150);
                world.fail(kind, times);
                world.work(150);
                let is_meant = format!("{} with {kind:?} {times} times", entry.name);
                assert_eq!(world.failed, 0, "{is_meant}");
                let shard = world.engine.shard();
                let errors = shard.counters().flash.errors;
                // A sync is not tried again; blocks are there twice, or the flash has failed.
                let has_failed = (kind == Kind::Sync && errors > 0)
                    || (kind == Kind::Metadata && times == u64::MAX && errors > 0)
                    || shard.retired_slots() > 16;
                assert_eq!(shard.has_flash(), !has_failed, "{is_meant}");
                assert!(times == u64::MAX || shard.flash_failures() == 0, "{is_meant}");
                world.end();
                assert_eq!(world.engine.shard().lost_pages(), [], "{is_meant}");
            }
        }
    }
}

#[test]
fn reads_that_fail_for_a_time_lose_nothing() {
    for entry in policies::entries() {
        for times in [1, 3, u64::MAX] {
            let policy = policies::policy(entry, WriteMiss::Fetch);
            let mut world = World::new(Options::new(256, 16, 64, policy));
            world.work(200);
            world.fail(Kind::SlotRead, times);
            world.work(200);
            if times < u64::MAX {
                assert_eq!(world.failed, 0, "{}: {times} times", entry.name);
                assert!(world.engine.shard().has_flash(), "{}", entry.name);
                assert_eq!(world.engine.shard().lost_pages(), [], "{}", entry.name);
            }
            world.end();
        }
    }
}

#[test]
fn slots_that_take_no_writes_are_retired_as_far_as_the_budget_goes() {
    // 64 pages of flash, 16 of RAM and 16 on their way: up to 16 slots can be missed.
    for (bad_slots, flash_error_budget, has_flash) in
        [(5, 64, true), (5, 5, true), (5, 4, false), (1, 0, false), (40, 64, false)]
    {
        let mut world = World::new(Options { flash_error_budget, ..options("lru-inclusive") });
        world.fail(Kind::WritesBefore(bad_slots), u64::MAX);
        world.work(800);
        let is_meant = format!("{bad_slots} bad slots with a budget of {flash_error_budget}");
        let shard = world.engine.shard();
        assert_eq!(shard.has_flash(), has_flash, "{is_meant}");
        let retired = u64::from(shard.retired_slots());
        assert_eq!(retired, shard.flash_failures(), "{is_meant}");
        if has_flash {
            assert_eq!(retired, bad_slots, "{is_meant}");
            assert!(shard.counters().policy.read_hits(thermocline_core::Tier::FLASH) > 0);
        }
        assert_eq!(world.failed, 0, "{is_meant}");
        world.end();
        assert_eq!(world.engine.shard().lost_pages(), [], "{is_meant}");
    }
}

/// Return an engine with page 3 on flash only, and not in RAM.
fn with_page_on_flash(is_dirty: bool) -> World {
    let mut world = World::new(options("lru-exclusive"));
    for page in 0..40 {
        world.write(page, u8::try_from(page + 1).unwrap());
    }
    world.ask(Request::flush(9), &[]).unwrap();
    if !is_dirty {
        world.engine.shard_mut().drain();
        world.come_to_rest();
    }
    let status = world.engine.shard().page_status(3);
    assert_eq!((status.tier, status.is_dirty), (thermocline_core::Tier::FLASH, is_dirty));
    world
}

#[test]
fn a_clean_page_that_cannot_be_read_comes_from_the_backing_store_at_once() {
    let mut world = with_page_on_flash(false);
    world.fail(Kind::SlotRead, u64::MAX);
    let before = world.now;
    world.read(3).unwrap();
    assert_eq!(world.now, before, "nobody waits");
    assert_eq!(world.engine.shard().retired_slots(), 1);
    assert!(world.engine.shard().has_flash());
    world.work(300);
    world.end();
}

#[test]
fn a_dirty_page_is_read_again_for_about_a_second() {
    let mut world = with_page_on_flash(true);
    world.fail(Kind::SlotRead, 3);
    world.read(3).unwrap();
    assert_eq!(world.engine.shard().flash_failures(), 0);
    assert_eq!(world.engine.shard().retired_slots(), 0);

    let mut world = with_page_on_flash(true);
    world.fail(Kind::SlotRead, u64::MAX);
    let before = world.now;
    world.engine.submit(Request::read(1, 3 * PAGE, PAGE), &[]).unwrap();
    world.engine.poll();
    assert!(!world.engine.shard().is_idle(), "it waits for its next try");
    assert_eq!(world.engine.shard().next_deadline(), Some(Nanos(before + 50 * MILLISECOND)));
    world.come_to_rest();
    let reply = world.engine.next_reply().unwrap();
    assert_eq!(reply.result, Err(RequestError::Lost));
    world.engine.release(reply);
    let waited = (world.now - before) / MILLISECOND;
    assert!((1000..1100).contains(&waited), "{waited} ms");
    assert_eq!(world.engine.shard().lost_pages(), [3]);
    // The flash may be gone: what else fails is not waited for.
    let before = world.now;
    assert_eq!(world.read(5), Err(RequestError::Lost));
    assert_eq!(world.now, before);
    assert_eq!(world.engine.shard().lost_pages(), [3, 5]);
    world.write(3, 77);
    assert_eq!(world.engine.shard().lost_pages(), [5], "a whole page heals it");
    world.read(3).unwrap();
    world.end();
}

#[test]
fn wrong_bytes_are_read_a_second_time() {
    for is_dirty in [false, true] {
        let mut world = with_page_on_flash(is_dirty);
        world.fail(Kind::WrongBytes, 1);
        world.read(3).unwrap();
        assert_eq!(world.engine.shard().counters().checksum_errors, 0);
        assert_eq!(world.engine.shard().retired_slots(), 0);

        let mut world = with_page_on_flash(is_dirty);
        world.fail(Kind::WrongBytes, 2);
        let expected = if is_dirty { Err(RequestError::Lost) } else { Ok(()) };
        assert_eq!(world.read(3), expected);
        assert_eq!(world.engine.shard().counters().checksum_errors, 1);
        assert_eq!(world.engine.shard().retired_slots(), 1);
        world.work(100);
    }
}

#[test]
fn a_flash_that_fails_during_an_orderly_end_does_not_hold_it_up() {
    for kind in [Kind::SlotWrite, Kind::Metadata, Kind::Sync] {
        let mut world = World::new(options("lru-exclusive"));
        for page in 0..60 {
            world.write(page, u8::try_from(page + 1).unwrap());
        }
        world.engine.shard_mut().stop();
        world.fail(kind, u64::MAX);
        world.come_to_rest();
        assert!(!world.engine.shard().has_flash(), "{kind:?}");
        assert_eq!(world.engine.shard().dirty_pages(), 0, "{kind:?}: the disk has them");
        world.end();
    }
}

/// A flash at rest.
struct Image(Vec<u8>);

impl Storage for Image {
    fn size_bytes(&mut self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        let start = usize::try_from(offset_bytes).unwrap();
        bytes.copy_from_slice(&self.0[start..start + bytes.len()]);
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> std::io::Result<()> {
        let start = usize::try_from(offset_bytes).unwrap();
        self.0[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl World {
    /// Return a flash that was set up for these options.
    fn new_flash(options: &Options) -> (Image, Flash) {
        let layout = Layout::new(options.slots(), options.page_bytes);
        let mut image = Image(vec![0; usize::try_from(layout.flash_bytes()).unwrap()]);
        let cache = Uuid::from_u128(u128::from(options.flash_pages) + 1);
        let flash = Flash::initialise(&mut image, cache, layout, options.size_bytes()).unwrap();
        (image, flash)
    }

    /// Create an engine over a flash that could be used after a restart.
    fn durable(options: Options) -> Self {
        let (image, flash) = Self::new_flash(&options);
        let mut world = Self::new(options.clone());
        let shard = Shard::open(options, &flash).unwrap();
        let backing_bytes = usize::try_from(PAGES * PAGE).unwrap();
        let mut devices = MemoryDriver::new(shard.frames(), shard.flash_bytes(), backing_bytes);
        devices.bytes(Device::Flash).copy_from_slice(&image.0);
        let slots_bytes = world.engine.driver().slots_bytes;
        let driver = Faulty { devices, slots_bytes, kind: Kind::Nothing, left: 0, failed: vec![] };
        world.engine = Engine::new(shard, driver);
        world
    }

    /// Check the state after a kill, after everything was flushed.
    fn check_killed(&mut self, options: &Options) {
        self.ask(Request::flush(5), &[]).unwrap();
        self.check_killed_now(options);
    }

    /// Check the state after a kill, as everything was acknowledged as durable.
    fn check_killed_now(&mut self, options: &Options) {
        let layout = Layout::new(options.slots(), options.page_bytes);
        let flash_bytes = usize::try_from(layout.flash_bytes()).unwrap();
        let driver = self.engine.driver();
        let mut image = Image(driver.devices.bytes(Device::Flash)[..flash_bytes].to_vec());
        let disk = driver.devices.bytes(Device::Backing).to_vec();
        let flash = Flash::recover(&mut image).unwrap();
        let mut killed = Self::durable(options.clone());
        let shard = Shard::open(options.clone(), &flash).unwrap();
        let mut devices = MemoryDriver::new(shard.frames(), shard.flash_bytes(), disk.len());
        devices.bytes(Device::Flash).copy_from_slice(&image.0);
        devices.bytes(Device::Backing).copy_from_slice(&disk);
        let slots_bytes = killed.engine.driver().slots_bytes;
        let driver = Faulty { devices, slots_bytes, kind: Kind::Nothing, left: 0, failed: vec![] };
        killed.engine = Engine::new(shard, driver);
        killed.pages.clone_from(&self.pages);
        for page in 0..PAGES {
            killed.read(page).unwrap();
        }
    }

    /// Puts a new flash in the place of the one that the engine released.
    fn exchange(&mut self, options: &Options) {
        for _ in 0..1000 {
            self.engine.shard_mut().leave_flash();
            if self.engine.shard().is_flash_released() {
                let (image, flash) = Self::new_flash(options);
                let shard = self.engine.shard_mut();
                shard.take_flash(options.flash_pages, options.policy.clone(), &flash).unwrap();
                let bytes = self.engine.driver().devices.bytes(Device::Flash);
                bytes[..image.0.len()].copy_from_slice(&image.0);
                let layout = Layout::new(options.slots(), options.page_bytes);
                self.engine.driver().slots_bytes =
                    layout.flash_bytes() - u64::from(layout.slots) * PAGE;
                return;
            }
            self.engine.poll();
            self.pass(20);
        }
        panic!("the old flash is still needed: {:?}", self.engine.shard());
    }
}

#[test]
fn another_flash_takes_over_while_requests_are_served() {
    for entry in policies::entries() {
        let policy = policies::policy(entry, WriteMiss::Fetch);
        let before = Options::new(256, 16, 64, policy.clone());
        let after = Options::new(256, 16, 40, policy);
        let mut world = World::durable(before.clone());
        world.work(200);
        world.engine.shard_mut().leave_flash();
        assert!(!world.engine.shard().has_flash());
        let mut rounds = 0;
        let dirty = world.engine.shard().dirty_slots();
        while !world.engine.shard().has_left_flash() {
            // The old flash is still the one that a restart wants, and has all that was flushed.
            world.check_killed(&before);
            world.work(10);
            world.pass(20);
            rounds += 1;
            assert!(rounds < 200, "{}: {:?}", entry.name, world.engine.shard());
        }
        assert!(rounds > 0 || dirty == 0, "{}: it took its time", entry.name);
        world.check_killed(&before);
        world.engine.shard_mut().release_flash();
        world.work(50);
        world.exchange(&after);
        assert!(world.engine.shard().has_flash());
        assert_eq!(world.engine.shard().options().policy.entry.name, entry.name);
        world.work(200);
        world.check_killed(&after);
        assert_eq!(world.failed, 0, "{}", entry.name);
        world.end();
        assert_eq!(world.engine.shard().lost_pages(), [], "{}", entry.name);
    }
}

#[test]
fn another_flash_takes_over_from_one_that_failed() {
    for kind in [Kind::SlotWrite, Kind::SlotRead, Kind::Metadata, Kind::Sync] {
        let options = options("lru-inclusive");
        let mut world = World::durable(options.clone());
        world.work(200);
        if kind == Kind::SlotRead {
            world.fail(kind, u64::MAX);
        } else {
            world.engine.shard_mut().leave_flash();
            world.fail(kind, u64::MAX);
        }
        world.work(100);
        world.fail(Kind::Sync, u64::MAX);
        world.ask(Request::flush(4), &[]).unwrap();
        for page in 0..60 {
            world.write(page, 3);
            world.ask(Request::flush(4), &[]).unwrap();
        }
        if world.engine.shard().has_left_flash() {
            world.engine.shard_mut().release_flash();
        }
        let lost = world.engine.shard().lost_pages();
        assert!(lost.is_empty() || kind == Kind::SlotRead, "{kind:?}");
        world.fail(Kind::Nothing, 0);
        world.exchange(&options);
        assert_eq!(world.engine.shard().lost_pages(), lost, "{kind:?}");
        world.work(200);
        assert!(world.engine.shard().has_flash(), "{kind:?}");
        assert_eq!(world.engine.shard().retired_slots(), 0, "{kind:?}");
        world.end();
    }
}

#[test]
fn a_new_flash_waits_for_what_only_the_failed_one_had_durably() {
    for with_frames in [true, false] {
        let options = options("lru-inclusive");
        let mut world = World::durable(options.clone());
        let durable = |world: &mut World, page: u64, byte: u8| {
            let write = Request { is_durable: true, ..Request::write(1, page * PAGE, PAGE) };
            world.ask(write, &[byte; 4096]).unwrap();
            world.pages[usize::try_from(page).unwrap()] = [byte; 2];
        };
        for page in 0..10 {
            durable(&mut world, page, 5);
        }
        if !with_frames {
            for page in 100..150 {
                world.read(page).unwrap();
            }
        }
        world.fail(Kind::Sync, u64::MAX);
        durable(&mut world, 20, 6);
        assert!(!world.engine.shard().has_flash());
        world.fail(Kind::Nothing, 0);
        world.exchange(&options);
        world.check_killed_now(&options);
        world.end();
    }
}

#[test]
fn an_engine_may_stay_with_its_flash_after_all() {
    let options = options("hat");
    let mut world = World::durable(options.clone());
    world.work(200);
    world.engine.shard_mut().leave_flash();
    world.work(20);
    world.engine.shard_mut().stay_with_flash().unwrap();
    assert!(world.engine.shard().has_flash());
    assert_eq!(world.engine.shard().options().policy.entry.name, "hat");
    world.work(200);
    world.check_killed(&options);
    world.end();
}
