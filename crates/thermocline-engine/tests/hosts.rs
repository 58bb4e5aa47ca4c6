//! A cache in front of a server that other clients write to, and that may lose what it has not synced: no
//! flush vouches for lost bytes, no old bytes are read, and nobody's write is undone.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use thermocline_core::policy::multi::split::{self, Answer};
use thermocline_core::random::SplitMix64;
use thermocline_core::{Nanos, Tier};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::driver::{Completion, Driver, Recall, Sent};
use thermocline_engine::{
    Device, DeviceError, Engine, Leaving, Operation, OperationKind, Options, PolicyOptions,
    Request, RequestError, Shard, WriteMode,
};

const PAGE: usize = 4096;
const PAGES: usize = 12;
const RAM_PAGES: u32 = 5;

/// A server whose disk has a volatile cache. Operations have an effect and are complete when the test says.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
struct Server {
    devices: MemoryDriver,
    durable: Vec<u8>,
    taken: Vec<Operation>,
    /// Operations that had their effect.
    performed: Vec<Completion>,
    done: Vec<Completion>,
    recalls: VecDeque<Recall>,
    /// Pages that it sends.
    pushes: VecDeque<Sent>,
    /// Answers about the pages of operations that are complete, if the policy waits for these.
    answers: VecDeque<(u64, Answer)>,
    waits: bool,
    /// `true` if it acknowledged writes since the last sync.
    has_unsynced: bool,
    /// `true` if it has lost such writes: the next sync fails.
    is_doubtful: bool,
    is_current: bool,
}

impl Driver for Server {
    fn start(&mut self, operation: Operation) {
        self.taken.push(operation);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.poll(done);
    }

    fn next_recall(&mut self) -> Option<Recall> {
        self.recalls.pop_front()
    }

    fn next_push(&mut self) -> Option<Sent> {
        self.pushes.pop_front()
    }

    fn next_answer(&mut self) -> Option<(u64, Answer)> {
        self.answers.pop_front()
    }

    fn is_current(&mut self) -> bool {
        std::mem::replace(&mut self.is_current, true)
    }
}

impl Server {
    fn new(shard: &Shard, waits: bool) -> Self {
        Self {
            devices: MemoryDriver::new(shard.frames(), 0, PAGES * PAGE),
            durable: vec![0; PAGES * PAGE],
            taken: vec![],
            performed: vec![],
            done: vec![],
            recalls: VecDeque::new(),
            pushes: VecDeque::new(),
            answers: VecDeque::new(),
            waits,
            has_unsynced: false,
            is_doubtful: false,
            is_current: true,
        }
    }

    fn now(&mut self) -> &mut [u8] {
        self.devices.bytes(Device::Backing)
    }

    fn value(&mut self, page: usize) -> u64 {
        number(&self.now()[page * PAGE..])
    }

    /// Lets an operation have its effect.
    fn perform(&mut self, place: usize) {
        let operation = self.taken.swap_remove(place);
        if operation.kind == OperationKind::Sync {
            let result = if std::mem::take(&mut self.is_doubtful) {
                Err(DeviceError(std::io::ErrorKind::ConnectionReset))
            } else {
                let now = self.now().to_vec();
                self.durable = now;
                self.has_unsynced = false;
                Ok(())
            };
            return self.performed.push((operation, result));
        }
        self.has_unsynced |= operation.kind == OperationKind::Write;
        self.devices.start(operation);
        self.devices.poll(&mut self.performed);
    }

    fn complete(&mut self, place: usize) {
        let completion = self.performed.swap_remove(place);
        let operation = &completion.0;
        let (kind, offset_bytes) = (operation.kind, operation.offset_bytes);
        let length_bytes = operation.length_bytes;
        if self.waits && matches!(kind, OperationKind::Read | OperationKind::Write) {
            let pages = (offset_bytes..offset_bytes + length_bytes).step_by(PAGE);
            self.answers.extend(pages.map(|page| (page, Answer::Kept(0))));
        }
        self.done.push(completion);
    }

    /// It dies, and is there again without the writes that were not synced. Requests without an answer are
    /// asked again, but for syncs.
    fn crash(&mut self) {
        let durable = self.durable.clone();
        self.now().copy_from_slice(&durable);
        self.is_doubtful |= std::mem::take(&mut self.has_unsynced);
        let mut has_failed_sync = false;
        let asked = self.performed.drain(..).map(|(operation, _)| operation);
        for operation in asked.chain(std::mem::take(&mut self.taken)).collect::<Vec<_>>() {
            if operation.kind == OperationKind::Sync {
                let error = DeviceError(std::io::ErrorKind::ConnectionReset);
                self.done.push((operation, Err(error)));
                has_failed_sync = true;
            } else {
                self.taken.push(operation);
            }
        }
        self.is_doubtful &= !has_failed_sync;
        self.recalls.push_back(Recall::All);
    }
}

/// Return the number that fills a page.
fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn filled(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(PAGE / 8)
}

fn engine(name: &str) -> Engine<Server> {
    let split = split::find(name).unwrap();
    let policy =
        PolicyOptions { entry: split.client_policy(), ..PolicyOptions::named(name).unwrap() };
    let options = Options {
        write_mode: WriteMode::Through,
        leaving: Leaving::Offered,
        backing_timeout: Nanos(u64::MAX),
        ..Options::new(PAGES as u64, RAM_PAGES, 0, policy)
    };
    let shard = Shard::new(options).unwrap();
    let server = Server::new(&shard, name != "demote");
    Engine::new(shard, server)
}

/// The test's knowledge of a page.
#[derive(Clone, Debug, Default)]
struct Page {
    /// The values that the server had, in order; it begins with zeroes.
    applied: Vec<u64>,
    /// Own values whose writes were answered, and that the next flush has to make durable.
    owed: Vec<u64>,
    /// Own values whose writes were answered before somebody else wrote the page.
    replaced: Vec<u64>,
    /// `true` if a request of this cache is under way.
    is_busy: bool,
}

impl Page {
    /// Return `true` if the disk has a value, or a newer one.
    fn has(&self, durable: u64, value: u64) -> bool {
        let place = |value| self.applied.iter().rposition(|&it| it == value);
        place(durable).unwrap_or(0) >= place(value).unwrap()
    }
}

#[derive(Debug)]
enum Asked {
    /// The values that it may find.
    Read(usize, Vec<u64>),
    Write {
        pages: Range<usize>,
        value: u64,
        is_durable: bool,
    },
    /// By page: the values that it makes durable. And the number of crashes that users knew of before.
    Flush(Vec<Vec<u64>>, u64),
}

struct World {
    engine: Engine<Server>,
    random: SplitMix64,
    pages: Vec<Page>,
    asked: BTreeMap<u64, Asked>,
    next: u64,
    seconds: u64,
    crashes: u64,
    /// The number of crashes that users know of, because a flush failed that covers all writes.
    known_crashes: u64,
    /// The number of the newest write.
    last_write: u64,
    failed_flushes: u64,
}

impl World {
    fn new(name: &str, seed: u64) -> Self {
        let pages = vec![Page { applied: vec![0], ..Page::default() }; PAGES];
        Self {
            engine: engine(name),
            random: SplitMix64::new(seed),
            pages,
            asked: BTreeMap::new(),
            next: 1,
            seconds: 0,
            crashes: 0,
            known_crashes: 0,
            last_write: 0,
            failed_flushes: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.bits() % bound as u64).unwrap()
    }

    /// Return the next number: of a request, and of what it writes.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Note that the page has another value at the server, which reads in flight may find.
    fn note(&mut self, page: usize) {
        let value = self.engine.driver().value(page);
        if self.pages[page].applied.last() != Some(&value) {
            self.pages[page].applied.push(value);
        }
        for asked in self.asked.values_mut() {
            if let Asked::Read(of, may_find) = asked
                && *of == page
            {
                may_find.push(value);
            }
        }
    }

    fn read(&mut self, page: usize) {
        let value = self.engine.driver().value(page);
        let tag = self.number();
        let request = Request::read(tag, (page * PAGE) as u64, PAGE as u64);
        if self.engine.submit(request, &[]).is_ok() {
            self.pages[page].is_busy = true;
            self.asked.insert(tag, Asked::Read(page, vec![value]));
        }
    }

    fn write(&mut self, page: usize, is_durable: bool) {
        let value = self.number();
        let count = 1 + self.below(2).min(PAGES - 1 - page);
        if self.pages[page..page + count].iter().any(|page| page.is_busy) {
            return;
        }
        let request = Request::write(value, (page * PAGE) as u64, (count * PAGE) as u64);
        let request = Request { is_durable, ..request };
        if self.engine.submit(request, &filled(value).repeat(count)).is_ok() {
            self.pages[page..page + count].iter_mut().for_each(|page| page.is_busy = true);
            self.last_write = value;
            self.asked.insert(value, Asked::Write { pages: page..page + count, value, is_durable });
        }
    }

    fn flush(&mut self) {
        let tag = self.number();
        let owed = self.pages.iter().map(|page| page.owed.clone()).collect();
        self.engine.submit(Request::flush(tag), &[]).unwrap();
        self.asked.insert(tag, Asked::Flush(owed, self.known_crashes));
    }

    fn perform(&mut self) {
        let taken = self.engine.driver().taken.len();
        let place = self.below(taken);
        let operation = &self.engine.driver().taken[place];
        let (kind, offset_bytes, length_bytes) =
            (operation.kind, operation.offset_bytes, operation.length_bytes);
        self.engine.driver().perform(place);
        if kind == OperationKind::Write {
            let first = usize::try_from(offset_bytes).unwrap() / PAGE;
            for page in first..first + usize::try_from(length_bytes).unwrap() / PAGE {
                let value = self.engine.driver().value(page);
                let is_undone = self.pages[page].replaced.contains(&value);
                assert!(
                    !is_undone,
                    "page {page}: {value} replaces a newer write of another client"
                );
                self.note(page);
            }
        }
    }

    /// Let another client write a page that this one has given up.
    fn write_of_another(&mut self, page: usize) {
        let offset_bytes = (page * PAGE) as u64;
        self.engine.driver().recalls.push_back(Recall::Page(offset_bytes));
        self.engine.poll();
        self.take_replies();
        let value = self.number();
        let start = page * PAGE;
        let server = self.engine.driver();
        server.now()[start..start + PAGE].copy_from_slice(&filled(value));
        let known = &mut self.pages[page];
        known.replaced.append(&mut known.owed.clone());
        self.note(page);
    }

    /// Lets the server send a page of which it has heard nothing that is not over.
    fn push(&mut self, page: usize) {
        let offset_bytes = (page * PAGE) as u64;
        let server = self.engine.driver();
        let on_their_way = server.performed.iter().chain(&server.done).map(|(it, _)| it);
        let touches = |it: &Operation| {
            it.kind != OperationKind::Sync
                && (it.offset_bytes..it.offset_bytes + it.length_bytes).contains(&offset_bytes)
        };
        if !server.is_current || server.taken.iter().chain(on_their_way).any(touches) {
            return;
        }
        let content = filled(server.value(page));
        let number = self.random.bits();
        self.engine.driver().pushes.push_back(Sent { offset_bytes, number, content });
    }

    fn crash(&mut self) {
        let server = self.engine.driver();
        server.crash();
        self.crashes += 1;
        for page in 0..PAGES {
            self.note(page);
        }
        self.engine.poll();
    }

    fn take_replies(&mut self) {
        while let Some(reply) = self.engine.next_reply() {
            let result = reply.result;
            assert!(matches!(result, Ok(()) | Err(RequestError::Io)), "{result:?}");
            match self.asked.remove(&reply.tag).unwrap() {
                Asked::Read(page, may_find) => {
                    assert_eq!(result, Ok(()), "the server answers reads");
                    let bytes: Vec<u8> = self.engine.pieces(&reply).flatten().copied().collect();
                    let found = number(&bytes);
                    assert!(may_find.contains(&found), "page {page}: {found}, not {may_find:?}");
                    self.pages[page].is_busy = false;
                }
                Asked::Write { pages, value, is_durable } => {
                    self.written(pages, value, is_durable, result);
                }
                Asked::Flush(owed, known) => self.flushed(reply.tag, &owed, known, result),
            }
            self.engine.release(reply);
        }
    }

    fn written(
        &mut self,
        pages: Range<usize>,
        value: u64,
        is_durable: bool,
        result: Result<(), RequestError>,
    ) {
        for page in pages.clone() {
            let durable = number(&self.engine.driver().durable[page * PAGE..]);
            let known = &mut self.pages[page];
            known.is_busy = false;
            if result.is_ok() {
                known.owed.push(value);
                let is_kept = !is_durable || known.has(durable, value);
                assert!(is_kept, "page {page}: {value} is not durable, but {durable}");
            } else {
                assert!(is_durable || pages.len() > 1, "the server takes writes");
                assert!(self.crashes > 0, "page {page}: {value} was not lost");
            }
        }
    }

    fn flushed(
        &mut self,
        tag: u64,
        owed: &[Vec<u64>],
        known: u64,
        result: Result<(), RequestError>,
    ) {
        if result.is_err() {
            assert!(self.crashes > known, "nothing was lost since the last flush that failed");
            self.failed_flushes += 1;
            if self.last_write < tag {
                self.known_crashes = self.crashes - u64::from(self.engine.driver().is_doubtful);
            }
            for page in &mut self.pages {
                // The user knows that they may be gone.
                page.owed.clear();
            }
            return;
        }
        for (place, (known, owed)) in self.pages.iter_mut().zip(owed).enumerate() {
            let durable = number(&self.engine.driver().durable[place * PAGE..]);
            for &value in owed.iter().filter(|value| known.owed.contains(value)) {
                assert!(
                    known.has(durable, value),
                    "page {place}: {value} is not durable, but {durable}"
                );
            }
            known.owed.retain(|value| !owed.contains(value));
        }
    }

    fn step(&mut self) {
        let page = self.below(PAGES);
        let is_free = !self.pages[page].is_busy;
        match self.below(100) {
            0..20 if is_free => self.read(page),
            20..42 if is_free => self.write(page, false),
            42..46 if is_free => self.write(page, true),
            46..49 => self.flush(),
            49..68 if !self.engine.driver().taken.is_empty() => self.perform(),
            68..87 if !self.engine.driver().performed.is_empty() => {
                let performed = self.engine.driver().performed.len();
                let place = self.below(performed);
                self.engine.driver().complete(place);
            }
            87..92 => self.write_of_another(page),
            // A write of another client that came to nothing.
            92..94 => {
                let offset_bytes = (page * PAGE) as u64;
                self.engine.driver().recalls.push_back(Recall::Page(offset_bytes));
            }
            94 => self.crash(),
            95 => self.engine.driver().is_current = false,
            // A sync that nobody waits for.
            96 => self.engine.shard_mut().stop(),
            97..99 => self.push(page),
            _ => {
                self.seconds += 1;
                self.engine.shard_mut().tick(Nanos(self.seconds * 1_000_000_000));
            }
        }
        self.engine.poll();
        self.take_replies();
        self.engine.shard().assert_invariants();
    }

    /// Everything is answered.
    fn settle(&mut self) {
        for _ in 0..1000 {
            self.seconds += 1;
            self.engine.shard_mut().tick(Nanos(self.seconds * 1_000_000_000));
            self.engine.poll();
            while !self.engine.driver().taken.is_empty() {
                self.perform();
            }
            while !self.engine.driver().performed.is_empty() {
                self.engine.driver().complete(0);
            }
            self.engine.poll();
            self.take_replies();
            if self.asked.is_empty() && self.engine.shard().is_idle() {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.engine.shard());
    }

    /// Check that a loss is reported once, and that the next flush succeeds.
    fn finish(&mut self) {
        self.settle();
        for _ in 0..2 {
            self.flush();
            self.settle();
        }
        let failed = self.failed_flushes;
        self.flush();
        self.settle();
        assert_eq!(self.failed_flushes, failed, "a loss is said once");
    }
}

#[test]
fn no_flush_vouches_for_what_is_lost_and_nobodys_write_is_undone() {
    for name in ["demote", "h-hfa"] {
        let (mut failed_flushes, mut taken, mut hits) = (0, 0, 0);
        for seed in 0..80 {
            let mut world = World::new(name, seed);
            for _ in 0..400 {
                world.step();
            }
            world.finish();
            failed_flushes += world.failed_flushes;
            let counters = world.engine.shard().counters();
            taken += counters.pushes_taken;
            hits += counters.policy.read_hits(Tier::RAM);
        }
        assert!(failed_flushes > 25, "{failed_flushes} flushes failed");
        assert!(taken > 100, "{name}: {taken} pages were taken that the server sent");
        assert!(hits > 100, "{name}: {hits} reads were hits");
    }
}
