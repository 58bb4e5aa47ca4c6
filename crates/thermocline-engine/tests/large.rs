//! Backing stores of more pages than 32 bits can number, in sparse memory.
#![expect(unsafe_code, reason = "the devices fill frames that the shard owns")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod policies;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use thermocline_core::random::SplitMix64;
use thermocline_core::registry::PolicyEntry;
use thermocline_core::{Access, Action, Actions, Ledger, Nanos, PageId, WriteMiss};
use thermocline_engine::driver::memory::transfer;
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::{
    Device, Engine, Event, Flash, Frames, Layout, Operation, OperationKind, Options, PolicyOptions,
    Request, RequestKind, Shard, Storage, Uuid,
};

const PAGE: u64 = 4096;
/// 64 TiB, and 1 PiB.
const BACKING_PAGES: [u64; 2] = [1 << 34, 1 << 38];
const RAM_PAGES: u32 = 16;
const FLASH_PAGES: u32 = 64;

/// Both devices; of the backing store, the pages that are not zero.
#[derive(Clone, Debug, Default)]
struct Devices(Arc<Mutex<World>>);

#[derive(Debug, Default)]
struct World {
    flash: Vec<u8>,
    backing: BTreeMap<u64, Vec<u8>>,
}

impl Devices {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }
}

impl Storage for Devices {
    fn size_bytes(&mut self) -> io::Result<u64> {
        Ok(self.world().flash.len() as u64)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.copy_from_slice(&self.world().flash[index(offset_bytes)..][..bytes.len()]);
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.world().flash[index(offset_bytes)..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Driver that carries out each operation when it is polled.
#[derive(Debug)]
struct SparseDriver {
    frames: Arc<Frames>,
    devices: Devices,
    backing_bytes: u64,
    taken: VecDeque<Operation>,
}

impl SparseDriver {
    fn perform(&self, operation: &Operation) {
        let World { flash, backing } = &mut *self.devices.world();
        let (start, length) = (operation.offset_bytes, operation.length_bytes);
        let transfer = |range: &mut [u8]| {
            // SAFETY: the shard whose frames these are has started the operation, and nobody completed
            // it; until then the frames of a read are this driver's, and nobody changes those of a write.
            unsafe { transfer(&self.frames, operation, range) };
        };
        if operation.device == Device::Flash {
            return transfer(&mut flash[index(start)..][..index(length)]);
        }
        assert!(start + length <= self.backing_bytes, "operations end within the device");
        let pages = start / PAGE..(start + length) / PAGE;
        if matches!(operation.kind, OperationKind::Zero | OperationKind::Discard) {
            let gone: Vec<u64> = backing.range(pages).map(|(&page, _)| page).collect();
            for page in gone {
                backing.remove(&page);
            }
            return;
        }
        let zeroes = vec![0; index(PAGE)];
        let mut bytes: Vec<u8> =
            pages.clone().flat_map(|page| backing.get(&page).unwrap_or(&zeroes).clone()).collect();
        transfer(&mut bytes);
        if operation.kind == OperationKind::Write {
            backing.extend(pages.zip(bytes.chunks(index(PAGE)).map(<[u8]>::to_vec)));
        }
    }
}

impl Driver for SparseDriver {
    fn start(&mut self, operation: Operation) {
        self.taken.push_back(operation);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        while let Some(operation) = self.taken.pop_front() {
            self.perform(&operation);
            done.push((operation, Ok(())));
        }
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.poll(done);
    }
}

/// Follows the policy by the Ledger, which has tables and therefore dense ids.
struct Follower {
    ledger: Ledger,
    ids: HashMap<PageId, u32>,
    actions: Actions,
}

impl Follower {
    fn new(capacity_pages: &[u32]) -> Self {
        let ledger = Ledger::new(1 << 14, capacity_pages);
        Self { ledger, ids: HashMap::new(), actions: Actions::new() }
    }

    fn see(&mut self, event: &Event<'_>) {
        match *event {
            Event::Access { op, actions, .. } => {
                self.note(actions);
                let access = Access { page: served(self.actions.as_slice()), op, client: 0 };
                self.ledger.access(access, &self.actions).expect("the policy is right");
            }
            Event::Background { actions, .. } => {
                self.note(actions);
                self.ledger.between_accesses(&self.actions).expect("the policy is right");
            }
            Event::Request { .. } | Event::Bypass { .. } | Event::FlashFailed { .. } => {}
        }
    }

    fn note(&mut self, actions: &[Action]) {
        let ids = &mut self.ids;
        let mut dense = |page: PageId| {
            let next = u32::try_from(ids.len()).unwrap();
            PageId(*ids.entry(page).or_insert(next))
        };
        self.actions.clear();
        for &action in actions {
            match action {
                Action::Serve { page, op, found, tier } => {
                    self.actions.serve(dense(page), op, found, tier);
                }
                Action::Copy { page, source, target } => {
                    self.actions.copy(dense(page), source, target);
                }
                Action::Drop { page, tier } => self.actions.drop_copy(dense(page), tier),
            }
        }
    }
}

/// An engine, its devices, and what should be on them: the byte that each page is full of.
struct Bench {
    engine: Engine<SparseDriver>,
    devices: Devices,
    options: Options,
    model: BTreeMap<u64, u8>,
    random: SplitMix64,
    now: Nanos,
}

impl Bench {
    fn new(options: Options, seed: u64) -> Self {
        let layout = Layout::new(options.slots(), options.page_bytes);
        let mut devices = Devices::default();
        devices.world().flash = vec![0; index(layout.flash_bytes())];
        let cache = Uuid::from_u128(1);
        let flash = Flash::initialise(&mut devices, cache, layout, options.size_bytes()).unwrap();
        let engine = open(&options, &devices, &flash);
        let (model, random) = (BTreeMap::new(), SplitMix64::new(seed));
        Self { engine, devices, options, model, random, now: Nanos(0) }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound
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

    /// Draw a page anywhere, or one of those that were written.
    fn page(&mut self) -> u64 {
        let drawn = self.below(self.options.backing_pages);
        if self.below(3) == 0 {
            return drawn;
        }
        // Many have the same lower half of their number.
        let bank = self.below(self.options.backing_pages >> 32) << 32;
        bank + 8 * self.below(20) + if self.below(4) == 0 { self.below(3) } else { 0 }
    }

    /// Reads, writes and trims all over the disk.
    fn work(&mut self, steps: u64) {
        for step in 0..steps {
            self.now.0 += 1 << 28;
            self.engine.shard_mut().tick(self.now);
            let pages = 1 + self.below(3);
            let first = self.page().min(self.options.backing_pages - pages);
            let (offset_bytes, length_bytes) = (first * PAGE, pages * PAGE);
            match self.below(16) {
                0..8 => self.check(first, pages),
                8..15 => {
                    let byte = 1 + u8::try_from(step % 251).unwrap();
                    let payload = vec![byte; index(length_bytes)];
                    self.ask(Request::write(step, offset_bytes, length_bytes), &payload);
                    self.model.extend((first..first + pages).map(|page| (page, byte)));
                }
                _ => self.zero(first),
            }
            if step % 64 == 0 {
                self.check_statuses();
                self.engine.shard().assert_invariants();
            }
        }
    }

    /// Zeroes some GiB, of which little is anywhere.
    fn zero(&mut self, first: u64) {
        let pages = self.below(1 << 20).min(self.options.backing_pages - first).max(1);
        let (kind, mut at) = (RequestKind::WriteZeroes, first * PAGE);
        let end = at + pages * PAGE;
        while at < end {
            let whole = Request { kind, ..Request::write(0, at, end - at) };
            let length_bytes = self.engine.shard().part_bytes(&whole);
            self.ask(Request { length_bytes, ..whole }, &[]);
            at += length_bytes;
        }
        self.model.retain(|page, _| !(first..first + pages).contains(page));
    }

    fn check(&mut self, first: u64, pages: u64) {
        let bytes = self.ask(Request::read(0, first * PAGE, pages * PAGE), &[]);
        for (page, bytes) in (first..).zip(bytes.chunks(index(PAGE))) {
            let expected = self.model.get(&page).copied().unwrap_or(0);
            assert!(bytes.iter().all(|&byte| byte == expected), "page {page}: {}", bytes[0]);
        }
    }

    /// Checks that the statuses of ranges are those of their pages, one by one.
    fn check_statuses(&mut self) {
        for _ in 0..3 {
            let first = self.page().saturating_sub(self.below(5000));
            let backing_pages = self.options.backing_pages;
            let length = self.below(12_000);
            let pages = first..(first + length).min(backing_pages);
            let shard = self.engine.shard();
            let end = shard.statuses_end(pages.clone(), 4096);
            assert!(end > pages.start || pages.is_empty(), "some pages are looked at");
            let mut at = pages.start;
            for (run, status) in shard.statuses(pages.start..end) {
                assert!(run.start == at && !run.is_empty(), "runs follow each other");
                at = run.end;
                run.for_each(|page| assert_eq!(shard.page_status(page), status, "page {page}"));
            }
            assert_eq!(at, end, "runs cover the range");
        }
    }

    fn check_all(&mut self) {
        let pages: Vec<u64> = self.model.keys().copied().collect();
        for page in pages {
            self.check(page, 1);
        }
    }

    /// Stops or kills the engine after a flush, and starts another one.
    fn restart(&mut self, is_killed: bool) {
        self.ask(Request::flush(0), &[]);
        if !is_killed {
            self.engine.shard_mut().stop();
            self.engine.wait_until_idle();
        }
        let flash = Flash::recover(&mut self.devices.clone()).unwrap();
        self.engine = open(&self.options, &self.devices, &flash);
        self.engine.shard().assert_invariants();
    }
}

fn open(options: &Options, devices: &Devices, flash: &Flash) -> Engine<SparseDriver> {
    let shard = Shard::open(options.clone(), flash).unwrap();
    let (frames, backing_bytes) = (Arc::clone(shard.frames()), options.size_bytes());
    let (devices, taken) = (devices.clone(), VecDeque::new());
    Engine::new(shard, SparseDriver { frames, devices, backing_bytes, taken })
}

fn options(entry: &PolicyEntry, backing_pages: u64) -> Options {
    let policy = policies::policy(entry, WriteMiss::Fetch);
    let mut options = Options::new(backing_pages, RAM_PAGES, FLASH_PAGES, policy);
    options.undurable_pages_max = 8;
    options.cleaning.dirty_ratio_target = 0.5;
    options
}

/// Return the id of the page that an access is to.
fn served(actions: &[Action]) -> PageId {
    let serves = |action: &Action| match *action {
        Action::Serve { page, .. } => Some(page),
        Action::Copy { .. } | Action::Drop { .. } => None,
    };
    actions.iter().find_map(serves).expect("an access is served")
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

#[test]
fn every_policy_serves_a_disk_of_more_pages_than_ids() {
    for (seed, entry) in (0..).zip(policies::entries()) {
        let backing_pages = BACKING_PAGES[index(seed % 2)];
        let mut bench = Bench::new(options(entry, backing_pages), seed);
        let mut follower = Follower::new(&[RAM_PAGES, FLASH_PAGES]);
        bench.engine.shard_mut().observe(Box::new(move |event| follower.see(event)));
        bench.work(300);
        bench.restart(seed % 3 == 0);
        bench.check_all();
        bench.work(100);
        bench.restart(seed % 3 != 0);
        bench.check_all();
        let counters = bench.engine.shard().counters();
        assert_eq!(counters.partial_fetches, 0, "{}: whole pages were asked for", entry.name);
    }
}

/// Pages that want the same id are as different as any.
#[test]
fn pages_whose_ids_collide_are_told_apart() {
    let entry = policies::entries().into_iter().find(|entry| entry.name == "tac");
    // This policy has a few ids only, because each takes memory.
    let mut bench = Bench::new(options(entry.unwrap(), BACKING_PAGES[1]), 3);
    let seen = Arc::new(Mutex::new(BTreeMap::<PageId, Vec<u64>>::new()));
    let sink = Arc::clone(&seen);
    bench.engine.shard_mut().observe(Box::new(move |event| {
        if let Event::Access { page, actions, .. } = *event {
            sink.lock().unwrap().entry(served(actions)).or_default().push(page);
        }
    }));
    for page in 0..1_000 {
        bench.check(page << 28, 1);
    }
    let colliding: Vec<u64> =
        seen.lock().unwrap().values().filter(|pages| pages.len() > 1).flatten().copied().collect();
    assert!((20..100).contains(&colliding.len()), "{colliding:?}");
    let mut follower = Follower::new(&[RAM_PAGES, FLASH_PAGES]);
    bench = Bench::new(bench.options, 4);
    bench.engine.shard_mut().observe(Box::new(move |event| follower.see(event)));
    for step in 0..2000 {
        let page = colliding[index(bench.below(colliding.len() as u64))];
        if bench.below(2) == 0 {
            let byte = 1 + u8::try_from(step % 251).unwrap();
            bench.ask(Request::write(step, page * PAGE, PAGE), &vec![byte; index(PAGE)]);
            bench.model.insert(page, byte);
        } else {
            bench.check(page, 1);
        }
        // Others push them out now and then, so that they come back in another order.
        if step % 200 > 150 {
            let other = bench.page();
            bench.check(other, 1);
        }
        bench.engine.shard().assert_invariants();
    }
    bench.restart(true);
    bench.check_all();
}

/// A policy that learns of survivors and of a new policy knows pages by other ids.
#[test]
fn policies_are_exchanged_on_a_large_disk() {
    let entries = policies::entries();
    let mut bench = Bench::new(options(entries[0], BACKING_PAGES[1]), 5);
    for entry in &entries[1..] {
        bench.work(20);
        let policy = policies::policy(entry, WriteMiss::Fetch);
        bench.engine.shard_mut().set_policy(policy).unwrap();
        bench.engine.wait_until_idle();
        bench.engine.shard().assert_invariants();
        bench.check_all();
    }
}

#[test]
fn a_page_of_a_large_disk_takes_at_most_64_bytes() {
    let flash_pages = 1_u32 << 18;
    for (name, most) in [
        ("hat", 58.0),
        ("lru-inclusive", 46.0),
        ("face-gsc", 46.0),
        ("lc", 64.0),
        ("dw", 64.0),
        ("hca", 64.0),
        ("tac", 64.0),
        ("two-tier", 62.0),
        ("arc-l2arc", 58.0),
    ] {
        let policy = PolicyOptions::named(name).unwrap();
        let options = Options::new(BACKING_PAGES[1], 4096, flash_pages, policy);
        let shard = Shard::new(options).unwrap();
        let per_page = shard.memory_bytes() as f64 / f64::from(flash_pages);
        assert!(per_page < most, "{name}: {per_page:.1} bytes per page of flash");
    }
}
