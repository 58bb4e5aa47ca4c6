//! Sequential bypass: time and flash writes of the engine with several values of
//! `limits.sequential_bypass`, beside none.
//!
//! The requests of a trace go through an engine whose devices are models: a disk with an arm, on which a
//! sequential stream is cheap, and a flash that serves several operations at one time. A number of requests
//! is outstanding at any time. The time of a run ends when a last flush is answered. Parts of the address
//! space that the trace never touches are left out of the disk, and what remains keeps its order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use thermocline_core::{Nanos, Op};
use thermocline_device::hdd::{Hdd, HddConfig};
use thermocline_device::queueing::{DeviceOp, DeviceRequest, Ticket};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::{
    Device, Engine, Operation, OperationKind, Options, PolicyOptions, Request, Shard, SubmitError,
};
use thermocline_trace::generate::{Generator, Options as Generated, Pattern};
use thermocline_trace::{Extent, ReadOptions, Reader, Requests as _};

const PAGE: u64 = 4096;
/// Unit of the address space that is left out if nothing touches it.
const REGION: u64 = 1 << 20;
/// Longest request; longer ones of a trace are divided.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
const SECTOR: u64 = 512;

/// Requests and pages of the generated transactions, and the length of a request of the backup.
const GENERATED_REQUESTS: usize = 200_000;
const GENERATED_PAGES: u64 = 51_200;
const BACKUP_BYTES: u64 = 256 << 10;

/// Operations that the flash serves at one time.
const CHANNELS: usize = 8;
const FLASH_READ_NS: u64 = 90_000;
const FLASH_WRITE_NS: u64 = 30_000;
const FLASH_SYNC_NS: u64 = 100_000;
/// Nanoseconds per KiB of a flash operation on one channel: 250 MB/s.
const FLASH_KIB_NS: u64 = 4_000;

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces besides the generated one: transactions beside a backup
    traces: Vec<PathBuf>,
    /// The policies
    #[arg(long, value_delimiter = ',', default_value = "lru-exclusive,lc,face-gsc,hat")]
    policies: Vec<String>,
    /// Values of `limits.sequential_bypass`, in KiB
    #[arg(long, value_delimiter = ',', default_values_t = [256, 1024, 4096, 16384])]
    kib: Vec<u64>,
    /// RAM, as a share of the pages that the trace touches, in percent
    #[arg(long, default_value_t = 2)]
    ram_percent: u64,
    /// Flash, likewise
    #[arg(long, default_value_t = 10)]
    flash_percent: u64,
    /// Requests that are outstanding
    #[arg(long, default_value_t = 8)]
    depth: usize,
    /// The disk, a preset
    #[arg(long, default_value = "exos-x18")]
    disk: String,
    /// Size of a page in traces that number pages, in KiB
    #[arg(long, default_value_t = 8)]
    page_kib: u64,
    /// Requests of each trace at most
    #[arg(long, default_value_t = 1_000_000)]
    requests: usize,
}

/// A trace, with its requests at places of a disk.
struct Workload {
    name: String,
    requests: Vec<(Op, u64, u64)>,
    disk_bytes: u64,
    touched_pages: u64,
}

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    seconds: f64,
    disk_operations: u64,
    flash_written_bytes: u64,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let traces = arguments.traces.iter().map(|path| workload(path, arguments));
    for work in traces.chain([backup(arguments.requests)]) {
        let work = work?;
        let (requests, pages) = (work.requests.len(), work.touched_pages);
        println!("\n## {}: {requests} requests, {pages} pages of 4 KiB\n", work.name);
        println!("| policy | bypass from | time | disk operations | flash written |");
        println!("| --- | --- | --- | --- | --- |");
        for policy in &arguments.policies {
            let without = run(&work, policy, None, arguments)?;
            println!(
                "| `{policy}` | never | {:.1} s | {} | {:.2} GiB |",
                without.seconds,
                without.disk_operations,
                without.flash_written_bytes as f64 / f64::from(1 << 30)
            );
            for &kib in &arguments.kib {
                let found = run(&work, policy, Some(kib << 10), arguments)?;
                let ratio = |after: u64, before: u64| after as f64 / before.max(1) as f64;
                println!(
                    "| | {kib} KiB | {:.3} | {:.3} | {:.3} |",
                    found.seconds / without.seconds,
                    ratio(found.disk_operations, without.disk_operations),
                    ratio(found.flash_written_bytes, without.flash_written_bytes)
                );
            }
        }
    }
    Ok(())
}

/// Return the requests of a trace, with untouched parts of the address space left out.
fn workload(path: &Path, arguments: &Arguments) -> Result<Workload> {
    let (limit, page_bytes) = (arguments.requests, arguments.page_kib << 10);
    let mut reader = Reader::open(path, &ReadOptions::default())?;
    let mut batch = vec![];
    let mut all = vec![];
    while all.len() < limit && reader.read_batch(&mut batch)? {
        for request in &batch {
            let (start, length) = match request.extent {
                Extent::Bytes { offset, length } => (offset, length),
                Extent::Pages { first, count } => (first * page_bytes, count * page_bytes),
                Extent::Object { .. } => bail!("`{}`: a trace of objects", path.display()),
            };
            if length > 0 {
                all.push((request.op, request.volume, start, length));
            }
        }
    }
    all.truncate(limit);
    let regions = |start: u64, length: u64| start / REGION..=(start + length - 1) / REGION;
    let mut touched = BTreeSet::new();
    let mut pages = BTreeSet::new();
    for &(_, volume, start, length) in &all {
        touched.extend(regions(start, length).map(|region| (volume, region)));
        pages.extend((start / PAGE..=(start + length - 1) / PAGE).map(|page| (volume, page)));
    }
    let places: BTreeMap<_, _> = touched.into_iter().zip(0..).collect();
    let mut requests = vec![];
    for (op, volume, start, length) in all {
        // Regions that follow one another in a volume also do so on the disk.
        let place: u64 = places[&(volume, start / REGION)];
        let (mut at, mut left) = (place * REGION + start % REGION, length);
        while left > 0 {
            let part = left.min(REQUEST_BYTES_MAX);
            requests.push((op, at, part));
            (at, left) = (at + part, left - part);
        }
    }
    let disk_bytes = places.len() as u64 * REGION;
    let name = path.file_name().context("a trace is a file")?.to_string_lossy().into_owned();
    Ok(Workload { name, requests, disk_bytes, touched_pages: pages.len() as u64 })
}

/// Return transactions on a part of a disk, and a backup that reads the disk again and again beside them.
fn backup(limit: usize) -> Result<Workload> {
    let options = Generated {
        requests: limit.min(GENERATED_REQUESTS) as u64,
        pages: GENERATED_PAGES,
        write_share: 0.3,
        pattern: Pattern::Zipf { alpha: 0.9 },
        scatter: true,
        ..Generated::default()
    };
    let disk_bytes = GENERATED_PAGES * PAGE * 4;
    let mut generator = Generator::new(options)?;
    let (mut batch, mut requests) = (vec![], vec![]);
    let mut backup_at = 0;
    while generator.read_batch(&mut batch)? {
        for (request, number) in batch.iter().zip(0_u32..) {
            let Extent::Pages { first, count } = request.extent else {
                bail!("the generator numbers pages")
            };
            requests.push((request.op, first * PAGE, count * PAGE));
            if number % 10 == 9 {
                requests.push((Op::Read, backup_at, BACKUP_BYTES));
                backup_at = (backup_at + BACKUP_BYTES) % disk_bytes;
            }
        }
    }
    let touched_pages = disk_bytes / PAGE;
    let name = "transactions beside a backup".to_owned();
    Ok(Workload { name, requests, disk_bytes, touched_pages })
}

fn run(
    work: &Workload,
    policy: &str,
    bypass_bytes: Option<u64>,
    arguments: &Arguments,
) -> Result<Figures> {
    let pages = |percent: u64| u32::try_from((work.touched_pages * percent).div_ceil(100));
    let (ram, flash) = (pages(arguments.ram_percent)?, pages(arguments.flash_percent)?);
    let policy = PolicyOptions::named(policy)?;
    let mut options = Options::new(work.disk_bytes / PAGE, ram, flash, policy);
    options.request_bytes_max = REQUEST_BYTES_MAX;
    options.sequential_bypass_bytes = bypass_bytes;
    let shard = Shard::new(options)?;
    let driver = Models::new(&shard, &arguments.disk)?;
    let mut engine = Engine::new(shard, driver);
    let payload = vec![0; usize::try_from(REQUEST_BYTES_MAX)?];
    let mut outstanding = 0;
    let last = [Request::flush(0)];
    let requests = work.requests.iter().map(|&(op, at, length)| match op {
        Op::Read => Request::read(0, at, length),
        Op::Write => Request::write(0, at, length),
    });
    for request in requests.chain(last) {
        let is_write = request.kind.is_write();
        let length = usize::try_from(request.length_bytes)?;
        let bytes = if is_write { &payload[..length] } else { &[] };
        while outstanding == arguments.depth {
            answer(&mut engine, &mut outstanding);
        }
        loop {
            match engine.submit(request, bytes) {
                Ok(()) => break,
                Err(SubmitError::Full) => answer(&mut engine, &mut outstanding),
                Err(error) => return Err(error.into()),
            }
        }
        outstanding += 1;
    }
    while outstanding > 0 {
        answer(&mut engine, &mut outstanding);
    }
    let (_, driver) = engine.into_parts();
    Ok(Figures { seconds: driver.now_ns as f64 / 1e9, ..driver.figures })
}

/// Takes the answers that are there, or else waits for a device.
fn answer(engine: &mut Engine<Models>, outstanding: &mut usize) {
    let before = *outstanding;
    while let Some(reply) = engine.next_reply() {
        engine.release(reply);
        *outstanding -= 1;
    }
    if *outstanding == before {
        engine.wait();
    }
}

/// Models of a disk and of a flash, on one clock. Only the flash has bytes.
struct Models {
    now_ns: u64,
    disk: Hdd,
    on_disk: BTreeMap<Ticket, Operation>,
    flash: MemoryDriver,
    /// Time at which each channel of the flash is free.
    channels: [u64; CHANNELS],
    /// Operations of the flash by the time at which they end, and their number.
    on_flash: BTreeMap<(u64, u64), Operation>,
    started: u64,
    figures: Figures,
}

impl Models {
    fn new(shard: &Shard, disk: &str) -> Result<Self> {
        let disk = Hdd::new(&HddConfig::preset(disk)?, SECTOR)?;
        let flash = MemoryDriver::new(shard.frames(), shard.flash_bytes(), 0);
        let (on_disk, on_flash) = Default::default();
        let figures = Figures::default();
        Ok(Self {
            now_ns: 0,
            disk,
            on_disk,
            flash,
            channels: [0; _],
            on_flash,
            started: 0,
            figures,
        })
    }

    fn start_on_flash(&mut self, operation: Operation) {
        let transfer_ns = operation.length_bytes.div_ceil(1024) * FLASH_KIB_NS;
        let service_ns = match operation.kind {
            OperationKind::Read => FLASH_READ_NS + transfer_ns,
            OperationKind::Write => FLASH_WRITE_NS + transfer_ns,
            OperationKind::Sync => FLASH_SYNC_NS,
            OperationKind::Discard | OperationKind::Zero => 0,
        };
        if operation.kind == OperationKind::Write {
            self.figures.flash_written_bytes += operation.length_bytes;
        }
        let free = self.channels.iter_mut().min().expect("there are channels");
        let end_ns = self.now_ns.max(*free) + service_ns;
        *free = end_ns;
        self.on_flash.insert((end_ns, self.started), operation);
        self.started += 1;
    }

    fn start_on_disk(&mut self, operation: Operation) {
        let op = match operation.kind {
            OperationKind::Read => DeviceOp::Read,
            OperationKind::Write | OperationKind::Zero => DeviceOp::Write,
            OperationKind::Sync => DeviceOp::Flush,
            OperationKind::Discard => DeviceOp::Trim,
        };
        let request = if op == DeviceOp::Flush {
            DeviceRequest::FLUSH
        } else {
            self.figures.disk_operations += 1;
            let pages = u32::try_from(operation.length_bytes / SECTOR).expect("pieces are short");
            DeviceRequest { op, page: operation.offset_bytes / SECTOR, pages }
        };
        let ticket = self.disk.submit(Nanos(self.now_ns), request);
        let ticket = ticket.expect("the disk is larger than the trace");
        self.on_disk.insert(ticket, operation);
    }

    /// Gives back what has ended by now.
    fn collect(&mut self, done: &mut Vec<Completion>) {
        let mut completed = vec![];
        self.disk.advance(Nanos(self.now_ns), &mut completed);
        for completion in completed {
            let operation = self.on_disk.remove(&completion.ticket).expect("it was started");
            done.push((operation, Ok(())));
        }
        while let Some(entry) = self.on_flash.first_entry()
            && entry.key().0 <= self.now_ns
        {
            self.flash.start(entry.remove());
            self.flash.poll(done);
        }
    }
}

impl Driver for Models {
    fn start(&mut self, operation: Operation) {
        match operation.device {
            Device::Flash => self.start_on_flash(operation),
            Device::Backing => self.start_on_disk(operation),
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.collect(done);
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        while done.len() == before {
            let flash = self.on_flash.first_key_value().map(|(&(end_ns, _), _)| end_ns);
            // The disk may also write its buffer out, which completes nothing.
            let disk = self.disk.next_event().map(|at| at.0).filter(|_| !self.on_disk.is_empty());
            let Some(next_ns) = flash.into_iter().chain(disk).min() else { return };
            self.now_ns = self.now_ns.max(next_ns);
            self.collect(done);
        }
    }
}
