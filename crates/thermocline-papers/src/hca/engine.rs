//! The file system's loads on the engine, scaled down, with simulated devices and a simulated clock.
//!
//! The engine is the one that `thermocline serve` runs: it moves bytes through frames, writes its
//! journal to flash and answers requests. Its driver keeps the bytes in memory and completes each
//! operation when the simulated device would. So a run depends on no device of this machine, needs no
//! other program, and gives the same result each time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use thermocline_core::{Nanos, Op, Tier};
use thermocline_device::queueing::{DeviceOp, DeviceRequest, QueueingError};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::{
    Device, Engine, Operation, OperationKind, Options, OptionsError, Reply, Request, Shard,
    SubmitError,
};

use super::closed_loop::{Accesses, Disk, Load, Tally};

/// A device that completes operations on the engine's memory at simulated times.
#[derive(Debug)]
struct SimulatedDriver {
    /// Moves the bytes.
    memory: MemoryDriver,
    now: Nanos,
    /// Service time of one I/O on the SSD.
    ssd_ns: u64,
    ssd_free_at: Nanos,
    disk: Disk,
    /// Bytes of one I/O, and of a page of the disk.
    io_bytes: u64,
    /// Operations that are on their way, by their numbers here.
    taken: BTreeMap<u32, Operation>,
    /// Completions of the SSD: their times and requests.
    ssd: BinaryHeap<Reverse<(Nanos, u32)>>,
    next_number: u32,
    /// Reason why the disk refused a request.
    failure: Option<QueueingError>,
}

/// Hardware that the engine runs on.
#[derive(Debug)]
pub(super) struct Hardware {
    /// Service time of one I/O in RAM.
    pub(super) ram: Nanos,
    /// Service time of one I/O on the SSD.
    pub(super) ssd: Nanos,
    /// The disk.
    pub(super) disk: Disk,
    /// Bytes of one I/O.
    pub(super) io_bytes: u64,
}

impl SimulatedDriver {
    fn new(shard: &Shard, hardware: Hardware) -> Self {
        let backing_bytes = shard.options().size_bytes();
        let backing_bytes = usize::try_from(backing_bytes).unwrap_or(usize::MAX);
        Self {
            memory: MemoryDriver::new(shard.frames(), shard.flash_bytes(), backing_bytes),
            now: Nanos(0),
            ssd_ns: hardware.ssd.0,
            ssd_free_at: Nanos(0),
            disk: hardware.disk,
            io_bytes: hardware.io_bytes,
            taken: BTreeMap::new(),
            ssd: BinaryHeap::new(),
            next_number: 0,
            failure: None,
        }
    }

    /// Return the time at which a device completes its next request.
    fn next_event(&self) -> Option<Nanos> {
        let ssd = self.ssd.peek().map(|next| next.0.0);
        [ssd, self.disk.next_event()].into_iter().flatten().min()
    }

    /// Complete the operation: its bytes move now.
    fn complete(&mut self, number: u32) {
        let operation = self.taken.remove(&number);
        self.memory.start(operation.expect("a device completes what it was given"));
    }
}

impl Driver for SimulatedDriver {
    fn start(&mut self, operation: Operation) {
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        let op = match operation.kind {
            OperationKind::Read => Some(DeviceOp::Read),
            OperationKind::Write => Some(DeviceOp::Write),
            // The simulated devices lose no power, and know nothing of ranges that are not needed.
            OperationKind::Sync | OperationKind::Discard | OperationKind::Zero => None,
        };
        let Some(op) = op else {
            self.memory.start(operation);
            return;
        };
        let pages = operation.length_bytes.div_ceil(self.io_bytes);
        let first = operation.offset_bytes / self.io_bytes;
        let device = operation.device;
        self.taken.insert(number, operation);
        match device {
            Device::Flash => {
                let start = self.now.max(self.ssd_free_at);
                self.ssd_free_at = Nanos(start.0 + self.ssd_ns * pages);
                self.ssd.push(Reverse((self.ssd_free_at, number)));
            }
            Device::Backing => {
                let pages = u32::try_from(pages).unwrap_or(u32::MAX);
                let request = DeviceRequest { op, page: first, pages };
                if let Err(error) = self.disk.submit(self.now, number, request) {
                    self.failure.get_or_insert(error);
                }
            }
        }
    }

    /// Gives back what is complete by now.
    fn poll(&mut self, done: &mut Vec<Completion>) {
        while let Some(&Reverse((at, number))) = self.ssd.peek()
            && at <= self.now
        {
            self.ssd.pop();
            self.complete(number);
        }
        match self.disk.advance(self.now) {
            Ok(completed) => completed.into_iter().for_each(|(_, number)| self.complete(number)),
            Err(error) => {
                self.failure.get_or_insert(error);
            }
        }
        self.memory.poll(done);
    }

    /// Lets time pass until something is complete.
    fn wait(&mut self, done: &mut Vec<Completion>) {
        while done.is_empty()
            && self.failure.is_none()
            && let Some(event) = self.next_event()
        {
            self.now = self.now.max(event);
            self.poll(done);
        }
    }
}

/// Reader that made a request, and the time.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The reader that waits; `None` for a write.
    reader: Option<u32>,
    since: Nanos,
    interval: usize,
}

/// An engine under a load.
struct Loaded {
    engine: Engine<SimulatedDriver>,
    ram: Nanos,
    page_bytes: u64,
    has_ssd: bool,
    asked: BTreeMap<u64, Asked>,
    next_tag: u64,
    tallies: Vec<Tally>,
    /// Readers by when they read next.
    idle: BinaryHeap<Reverse<(Nanos, u32)>>,
}

/// Reason why an engine could not run a load.
#[derive(Debug, thiserror::Error)]
pub(super) enum EngineError {
    /// It could not be set up.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A device refused a request.
    #[error(transparent)]
    Device(#[from] QueueingError),
    /// It refused a request, or failed it.
    #[error("the engine did not serve a request: {0}")]
    Request(String),
}

/// Run a load on an engine for some time, and report every interval.
pub(super) fn run(
    options: Options,
    hardware: Hardware,
    load: &Load,
    duration: Nanos,
    interval: Nanos,
) -> Result<Vec<Tally>, EngineError> {
    let (ram, page_bytes) = (hardware.ram, u64::from(options.page_bytes));
    let has_ssd = options.flash_pages > 0;
    let shard = Shard::new(options)?;
    let driver = SimulatedDriver::new(&shard, hardware);
    let intervals = duration.0.div_ceil(interval.0);
    let loaded = Loaded {
        engine: Engine::new(shard, driver),
        ram,
        page_bytes,
        has_ssd,
        asked: BTreeMap::new(),
        next_tag: 0,
        tallies: vec![Tally::default(); usize::try_from(intervals).unwrap_or(usize::MAX)],
        idle: (0..load.readers).map(|reader| Reverse((Nanos(0), reader))).collect(),
    };
    loaded.run(load, duration, interval)
}

impl Loaded {
    fn run(
        mut self,
        load: &Load,
        duration: Nanos,
        interval: Nanos,
    ) -> Result<Vec<Tally>, EngineError> {
        let mut accesses = Accesses::new(load);
        let zeroes = vec![0; usize::try_from(self.page_bytes).unwrap_or(0)];
        loop {
            let due = self.idle.peek().map(|next| next.0.0).filter(|&at| at < duration);
            let event = self.engine.driver().next_event();
            if let Some(now) = due
                && event.is_none_or(|event| now <= event)
            {
                let Some(Reverse((_, reader))) = self.idle.pop() else { break };
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the intervals of a run are in memory"
                )]
                let interval = (now.0 / interval.0) as usize;
                self.pass_to(now);
                self.tallies[interval].reads += 1;
                let asked = Asked { reader: Some(reader), since: now, interval };
                self.ask(accesses.read().page.0, Op::Read, asked, &[])?;
                for page in accesses.writes() {
                    self.ask(page.0, Op::Write, Asked { reader: None, ..asked }, &zeroes)?;
                }
            } else if let Some(event) = event
                && (due.is_some() || !self.asked.is_empty())
            {
                self.pass_to(event);
            } else {
                break;
            }
            self.engine.poll();
            self.take_replies()?;
            if let Some(failure) = self.engine.driver().failure.take() {
                return Err(failure.into());
            }
        }
        Ok(self.tallies)
    }

    fn now(&mut self) -> Nanos {
        self.engine.driver().now
    }

    fn pass_to(&mut self, now: Nanos) {
        let driver = self.engine.driver();
        driver.now = driver.now.max(now);
        let now = driver.now;
        self.engine.shard_mut().tick(now);
    }

    /// Asks for a page; if the engine is full, time passes until it is not.
    fn ask(&mut self, page: u32, op: Op, asked: Asked, payload: &[u8]) -> Result<(), EngineError> {
        let (tag, offset_bytes) = (self.next_tag, u64::from(page) * self.page_bytes);
        let request = match op {
            Op::Read => Request::read(tag, offset_bytes, self.page_bytes),
            Op::Write => Request::write(tag, offset_bytes, self.page_bytes),
        };
        self.next_tag += 1;
        loop {
            match self.engine.submit(request, payload) {
                Ok(()) => break,
                Err(SubmitError::Full) => {
                    self.engine.wait();
                    let now = self.now();
                    self.engine.shard_mut().tick(now);
                    self.take_replies()?;
                }
                Err(error) => return Err(EngineError::Request(error.to_string())),
            }
        }
        self.asked.insert(tag, asked);
        Ok(())
    }

    fn take_replies(&mut self) -> Result<(), EngineError> {
        while let Some(reply) = self.engine.next_reply() {
            let outcome = self.take(&reply);
            self.engine.release(reply);
            outcome?;
        }
        Ok(())
    }

    fn take(&mut self, reply: &Reply) -> Result<(), EngineError> {
        reply.result.map_err(|error| EngineError::Request(error.to_string()))?;
        let Some(Asked { reader, since, interval }) = self.asked.remove(&reply.tag) else {
            return Ok(());
        };
        let answered = Nanos(self.now().0 + self.ram.0);
        let tally = &mut self.tallies[interval];
        if let Some(found) = reply.found {
            let tier = match found {
                Tier::RAM => 0,
                Tier::FLASH if self.has_ssd => 1,
                _ => 2,
            };
            tally.hits[tier] += 1;
            tally.storage += u64::from(tier > 0);
        }
        if let Some(reader) = reader {
            tally.waited_ns += answered.0 - since.0;
            self.idle.push(Reverse((answered, reader)));
        }
        Ok(())
    }
}
