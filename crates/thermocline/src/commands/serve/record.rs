//! Recording the accesses of an engine as a trace, beside the thread that serves.
//!
//! Accesses gather in a batch. A full one goes into a bounded queue, from which a thread of its own
//! writes. If there is no room the batch is dropped, counted, and the trace says so where it happened;
//! the serving thread never waits.
//!
//! Several shards of a volume record to the same files: each has a queue's end, and the thread that writes puts
//! their accesses in the order of time ([`writing`]).

mod writing;

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context as _, Result};
use thermocline_core::{Nanos, Op};
use thermocline_engine::{Event, Options};
use tracing::{error, info};

use self::writing::{Files, Progress};
use super::config::Record;
use super::status::RecordingStatus;

/// Runs of pages in a batch, 16 bytes each.
const BATCH_RUNS: usize = 4096;
/// Batches that wait to be written, at most.
const QUEUE_BATCHES: usize = 64;

/// The recording of a volume, for all its shards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorders(Arc<Mutex<Option<Running>>>);

/// A recording that shards may join.
#[derive(Debug)]
struct Running {
    section: Record,
    writer: Arc<Writer>,
    /// Numbers of the shards that have joined it.
    joined: Vec<usize>,
    /// Closed when the thread that writes has ended.
    life: Receiver<()>,
}

/// The thread that writes, until the last shard has left it.
#[derive(Debug)]
struct Writer {
    queue: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<()>>,
    progress: Arc<Progress>,
    start: Instant,
}

/// The part of a recording that a shard has.
pub(crate) struct Recording {
    section: Record,
    shard: usize,
    /// `true` if other shards record to the same files.
    has_others: bool,
    batch: Batch,
    /// `true` if the last run may be continued by the next access.
    is_run_open: bool,
    /// When the request came whose accesses come now.
    at: Nanos,
    writer: Arc<Writer>,
    accesses: u64,
    missing_accesses: u64,
    bypasses: u64,
}

/// Accesses handed to the writing thread in one message.
#[derive(Debug, Default)]
struct Batch {
    shard: usize,
    /// No later access of this shard is older.
    until: Nanos,
    /// Accesses that were dropped before these.
    missing_accesses: u64,
    /// Accesses of the shard so far that the policy was not asked about.
    bypasses: u64,
    runs: Vec<Run>,
}

/// Accesses to consecutive pages by one request.
#[derive(Clone, Copy, Debug)]
struct Run {
    at: Nanos,
    page: u64,
    /// The number of pages, and the operation in the topmost bit.
    word: u32,
}

const WRITE_BIT: u32 = 1 << 31;

impl Recorders {
    /// Begin the recording that the section says, or join the one that another shard began. A file that is there
    /// already is kept under another name.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn record(&self, section: &Record, options: &Options) -> Result<Recording> {
        let shard = usize::from(options.share.index);
        let mut running = self.lock();
        if let Some(running) = running.as_mut()
            && running.section == *section
            && !running.joined.contains(&shard)
            && !running.writer.progress.has_failed()
        {
            running.joined.push(shard);
            let writer = Arc::clone(&running.writer);
            return Ok(Recording::new(section, shard, true, writer));
        }
        let former = running.take().map(Running::leave);
        let former = former.filter(|former| former.path == section.path);
        let shards = usize::from(options.share.map.number().get());
        let (writer, life) = Writer::start(section, options, shards, former)?;
        let writer = Arc::new(writer);
        let recording = Recording::new(section, shard, shards > 1, Arc::clone(&writer));
        *running = Some(Running { section: section.clone(), writer, joined: vec![shard], life });
        Ok(recording)
    }

    /// Let no other shard join.
    pub(crate) fn close(&self) {
        drop(self.lock().take().map(Running::leave));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A recording that may still be written to its file.
#[derive(Debug)]
struct Former {
    path: std::path::PathBuf,
    life: Receiver<()>,
}

impl Running {
    /// Leave the writer to the shards that have joined.
    fn leave(self) -> Former {
        drop(self.writer);
        Former { path: self.section.path, life: self.life }
    }
}

impl Former {
    /// Return `true` if its file is complete.
    fn has_ended(&self) -> bool {
        self.life.try_recv() == Err(TryRecvError::Disconnected)
    }
}

impl Writer {
    /// Begin the file, and start the thread.
    ///
    /// # Errors
    /// If the file cannot be made. If a former recording still has the file, the thread makes it later, and logs
    /// an error.
    fn start(
        section: &Record,
        options: &Options,
        shards: usize,
        former: Option<Former>,
    ) -> Result<(Self, Receiver<()>)> {
        let context = || format!("`record.path`: cannot write `{}`", section.path.display());
        let progress = Arc::new(Progress::default());
        let files = Files::new(section, options, Arc::clone(&progress));
        let former = former.filter(|former| !former.has_ended());
        let first = match former {
            // Two recordings in one file would rename each other's.
            Some(_) => None,
            None => Some(files.begin().with_context(context)?),
        };
        let (queue, batches) = sync_channel(QUEUE_BATCHES);
        let (alive, life) = sync_channel(0);
        let thread = std::thread::Builder::new()
            .name("recorder".into())
            .spawn(move || {
                if let Some(former) = former {
                    // Nothing is ever sent: this waits for its end.
                    former.life.recv().unwrap_or_default();
                }
                files.write(first, shards, &batches);
                drop(alive);
            })
            .context("cannot start the recorder's thread")?;
        info!(path = %section.path.display(), "recording accesses");
        let writer =
            Self { queue: Some(queue), thread: Some(thread), progress, start: Instant::now() };
        Ok((writer, life))
    }

    /// Return the time since the recording began.
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Drop for Writer {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!("the recorder's thread panicked");
        }
    }
}

impl Recording {
    fn new(section: &Record, shard: usize, has_others: bool, writer: Arc<Writer>) -> Self {
        Self {
            section: section.clone(),
            shard,
            has_others,
            batch: Batch::new(),
            is_run_open: false,
            at: Nanos(0),
            writer,
            accesses: 0,
            missing_accesses: 0,
            bypasses: 0,
        }
    }

    /// Return the `[record]` section of the configuration.
    pub(crate) const fn section(&self) -> &Record {
        &self.section
    }

    /// Records an event of the shard.
    #[inline]
    pub(crate) fn see(&mut self, event: &Event<'_>) {
        match *event {
            Event::Request { .. } => self.request(),
            Event::Access { page, op, .. } => self.access(page, op),
            Event::Bypass { pages, .. } => self.bypass(pages),
            Event::Background { .. } | Event::FlashFailed { .. } => {}
        }
    }

    /// Note that a request begins.
    #[inline]
    fn request(&mut self) {
        self.at = self.writer.now();
        self.is_run_open = false;
    }

    /// Record a page access that the policy handled.
    #[inline]
    fn access(&mut self, page: u64, op: Op) {
        self.accesses += 1;
        if self.is_run_open
            && let Some(run) = self.batch.runs.last_mut()
            && run.op() == op
            && run.page + u64::from(run.pages()) == page
        {
            run.word += 1;
            return;
        }
        let word = 1 | if op == Op::Write { WRITE_BIT } else { 0 };
        self.batch.runs.push(Run { at: self.at, page, word });
        self.is_run_open = true;
        if self.batch.runs.len() == BATCH_RUNS {
            self.hand_over();
        }
    }

    /// Count pages that were accessed without the policy.
    #[inline]
    fn bypass(&mut self, pages: u64) {
        self.bypasses += pages;
        self.is_run_open = false;
    }

    /// Gives the writer what there is, if it has room. If there are other shards, nothing matters, too: their
    /// accesses wait until it is known that none of this one is older.
    pub(crate) fn hand_over(&mut self) {
        self.is_run_open = false;
        // With others, an empty batch says that they need not wait for this shard.
        if !self.has_others && self.batch.runs.is_empty() && self.batch.missing_accesses == 0 {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Batch::new());
        let batch = self.addressed(batch);
        let refused = self.writer.queue.as_ref().and_then(|queue| queue.try_send(batch).err());
        let Some(refused) = refused else { return };
        // The buffer is used again; what was in it is missing from here on.
        let (std::sync::mpsc::TrySendError::Full(mut batch)
        | std::sync::mpsc::TrySendError::Disconnected(mut batch)) = refused;
        let dropped: u64 = batch.runs.iter().map(|run| u64::from(run.pages())).sum();
        self.missing_accesses += dropped;
        batch.missing_accesses += dropped;
        batch.runs.clear();
        self.batch = batch;
    }

    /// Return a batch that says whose it is, and of which time.
    fn addressed(&self, batch: Batch) -> Batch {
        let (shard, until, bypasses) = (self.shard, self.writer.now(), self.bypasses);
        Batch { shard, until, bypasses, ..batch }
    }

    /// Return the state of the recording.
    pub(crate) fn status(&self) -> RecordingStatus {
        RecordingStatus {
            path: self.section.path.clone(),
            accesses: self.accesses,
            missing_accesses: self.missing_accesses,
            bypasses: self.bypasses,
            written_bytes: self.writer.progress.written_bytes(),
            has_failed: self.writer.progress.has_failed(),
        }
    }
}

impl Drop for Recording {
    /// Writes what there is. The last shard waits until all of it is in the file.
    fn drop(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let batch = Batch { until: Nanos(u64::MAX), ..self.addressed(batch) };
        if let Some(queue) = &self.writer.queue {
            // Nobody is served meanwhile, or a new configuration is being read: this may wait. A writer
            // that failed has said so.
            drop(queue.send(batch));
        }
    }
}

impl RecordingStatus {
    /// Add what another shard recorded, to the same files.
    pub(super) fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.missing_accesses += other.missing_accesses;
        self.bypasses += other.bypasses;
        self.written_bytes = self.written_bytes.max(other.written_bytes);
        self.has_failed |= other.has_failed;
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Batch {
    fn new() -> Self {
        Self { runs: Vec::with_capacity(BATCH_RUNS), ..Self::default() }
    }
}

impl Run {
    const fn pages(self) -> u32 {
        self.word & !WRITE_BIT
    }

    const fn op(self) -> Op {
        if self.word & WRITE_BIT == 0 { Op::Read } else { Op::Write }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;
    use std::path::Path;
    use std::time::Duration;

    use thermocline_core::random::{Draws as _, SplitMix64};
    use thermocline_core::registry::{self, Depth, Future, PolicyEntry};
    use thermocline_core::{Clients, Tier};
    use thermocline_engine::driver::memory::MemoryDriver;
    use thermocline_engine::{Counters, Engine, PolicyOptions, Request, Shard, ShardMap};
    use thermocline_lab::spec::{HierarchySpec, TierSpec};
    use thermocline_lab::{RunOptions, Summary, TierSize, Watch, configurations};
    use thermocline_trace::{CompiledTrace, PageSize, ReadCounts, ReadOptions, Reader, Requests};

    use super::writing::numbered;
    use super::*;
    use crate::bytes::Bytes;

    const PAGE: u64 = 4096;
    const DISK_PAGES: u32 = 4096;

    /// Begin a recording of one shard.
    fn start(section: &Record, options: &Options) -> Result<Recording> {
        Recorders::default().record(section, options)
    }

    fn section(folder: &Path, size: u64, files: u32) -> Record {
        Record { path: folder.join("a.csv.zst"), size: Bytes(size), files }
    }

    fn options(entry: &'static PolicyEntry) -> Options {
        let policy = PolicyOptions::named(&entry.name).unwrap();
        Options::new(
            DISK_PAGES.into(),
            64,
            if entry.capabilities.depth == Depth::Ram { 0 } else { 256 },
            policy,
        )
    }

    /// Return the requests of a file, and the counts of its reader.
    fn read(path: &Path) -> (Vec<thermocline_trace::Request>, ReadCounts) {
        let mut reader = Reader::open(path, &ReadOptions::default()).unwrap();
        let (mut all, mut batch) = (vec![], vec![]);
        while reader.read_batch(&mut batch).unwrap() {
            all.append(&mut batch);
        }
        (all, reader.counts())
    }

    fn replay(path: &Path, options: &Options) -> Summary {
        let mut reader = Reader::open(path, &ReadOptions::default()).unwrap();
        let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
        let tier = |name, pages: u32| TierSpec::new(name, &[TierSize::Pages(pages.into())]);
        let tiers = [tier("ram", options.ram_pages), tier("flash", options.flash_pages)];
        let spec = HierarchySpec { tiers: tiers.to_vec(), ..HierarchySpec::default() };
        let spec = spec.with_first_tiers(if options.flash_pages == 0 { 1 } else { 2 });
        let entry = options.policy.entry.clone();
        let configurations = configurations(&spec, &[entry], Clients::ONE).unwrap();
        thermocline_lab::run(&trace, &configurations[0], RunOptions::default(), &Watch::default())
            .unwrap()
    }

    /// Requests of all kinds, of parts of pages and of several, with a working set that shifts.
    fn serve(options: &Options, section: &Record) -> (Counters, RecordingStatus) {
        let shard = Shard::new(options.clone()).unwrap();
        let bytes = usize::try_from(options.size_bytes()).unwrap();
        let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), bytes);
        let mut engine = Engine::new(shard, driver);
        let recording = start(section, options).unwrap();
        let recording = Arc::new(Mutex::new(Some(recording)));
        let seen = Arc::clone(&recording);
        engine.shard_mut().observe(Box::new(move |event| {
            seen.lock().unwrap().as_mut().unwrap().see(event);
        }));
        let mut random = SplitMix64::new(3);
        for tag in 0..30_000_u64 {
            let pages = u64::from(DISK_PAGES) * PAGE;
            let place = random.unit().powi(3);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a small number"
            )]
            let offset = ((place * pages as f64) as u64 + tag * 512) % pages / 512 * 512;
            let length = [512, PAGE, 3 * PAGE]
                [usize::from(random.unit() < 0.5) + usize::from(random.unit() < 0.1)];
            let length = length.min(pages - offset);
            let payload = vec![1; usize::try_from(length).unwrap()];
            let (request, payload) = match tag % 11 {
                0..4 => (Request::write(tag, offset, length), &payload[..]),
                10 if tag % 3 == 0 => (Request::flush(tag), &[][..]),
                _ => (Request::read(tag, offset, length), &[][..]),
            };
            engine.submit(request, payload).unwrap();
            engine.wait_until_idle();
            while let Some(reply) = engine.next_reply() {
                engine.release(reply);
            }
            if tag % 1000 == 0 {
                recording.lock().unwrap().as_mut().unwrap().hand_over();
            }
        }
        let recording = recording.lock().unwrap().take().unwrap();
        let progress = Arc::clone(&recording.writer.progress);
        let status = recording.status();
        drop(recording);
        // All of it is written now, however late the writer was.
        let written_bytes = progress.written_bytes();
        (engine.shard().counters().clone(), RecordingStatus { written_bytes, ..status })
    }

    #[test]
    fn a_replay_of_the_recording_gives_the_engines_counters() {
        let hybrids = registry::entries().filter(|entry| {
            let is_cache = matches!(entry.capabilities.depth, Depth::Ram | Depth::RamFlash);
            // Page ids are other numbers in a trace: sketches see other collisions.
            let has_sketch = ["tinylfu", "w-tinylfu"].contains(&&*entry.name);
            is_cache
                && !entry.capabilities.needs_clock
                && entry.capabilities.future != Future::Accesses
                && !has_sketch
        });
        for entry in hybrids {
            let folder = tempfile::tempdir().unwrap();
            let (options, section) = (options(entry), section(folder.path(), 1 << 30, 2));
            let (counters, status) = serve(&options, &section);
            let name = &entry.name;
            assert_eq!(status.missing_accesses, 0, "{name}");
            assert_eq!(status.accesses, counters.accesses.iter().sum::<u64>(), "{name}");
            let summary = replay(&section.path, &options);
            let flash = summary.tiers.iter().find(|tier| tier.name == "flash");
            for (found, tier) in [(Some(&summary.tiers[0]), Tier::RAM), (flash, Tier::FLASH)] {
                let Some(found) = found else { continue };
                let policy = &counters.policy;
                assert_eq!(found.read_hits, policy.read_hits(tier), "{name}");
                assert_eq!(found.write_hits, policy.write_hits(tier), "{name}");
                assert_eq!(found.page_writes, policy.page_writes(tier), "{name}");
                assert_eq!(found.page_reads, policy.page_reads(tier), "{name}");
            }
            let last = summary.tiers.last().unwrap();
            assert_eq!(last.read_hits, counters.policy.read_hits(Tier::DISK), "{name}");
            assert_eq!(last.page_writes, counters.policy.page_writes(Tier::DISK), "{name}");
            assert!(last.hits > 1000 && summary.tiers[0].hits > 300, "{name}: {summary:?}");
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_the_trace_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let section = section(folder.path(), 1 << 30, 1);
        let (queue, batches) = sync_channel(1);
        let progress = Arc::default();
        let writer = Writer { queue: Some(queue), thread: None, progress, start: Instant::now() };
        let mut recording = Recording::new(&section, 0, false, Arc::new(writer));
        let mut see = |from: u32, accesses: u32| {
            recording.request();
            for page in from..from + accesses {
                recording.access((2 * page).into(), Op::Read);
            }
            recording.hand_over();
            recording.status()
        };
        let batch_runs = u32::try_from(BATCH_RUNS).unwrap();
        assert_eq!(see(0, 10).missing_accesses, 0);
        assert_eq!(see(10, batch_runs).missing_accesses, u64::from(batch_runs));
        assert_eq!(see(0, 5).missing_accesses, u64::from(batch_runs) + 5);
        assert_eq!(batches.recv().unwrap().runs.len(), 10);
        // There is room again: the gap, and what came behind it.
        assert_eq!(see(7, 3).missing_accesses, u64::from(batch_runs) + 5);
        let batch = batches.recv().unwrap();
        assert_eq!(batch.missing_accesses, u64::from(batch_runs) + 5);
        assert_eq!(batch.runs.len(), 3);
        drop(batches);
        assert_eq!(see(0, 4).missing_accesses, u64::from(batch_runs) + 9, "nobody writes");
        assert_eq!(see(0, 1).accesses, 10 + u64::from(batch_runs) + 5 + 3 + 4 + 1);
    }

    #[test]
    fn a_gap_stands_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let section = section(folder.path(), 1 << 30, 1);
        let mut recording = start(&section, &options(registry::find("hat").unwrap())).unwrap();
        recording.request();
        recording.access(7, Op::Write);
        recording.access(8, Op::Write);
        recording.bypass(1);
        recording.access(9, Op::Write);
        recording.hand_over();
        recording.batch.missing_accesses = 12;
        recording.request();
        recording.access(9, Op::Read);
        recording.access(9, Op::Read);
        drop(recording);
        let (requests, counts) = read(&section.path);
        let found: Vec<_> = requests.iter().map(|one| (one.op, one.extent)).collect();
        let extent = |page: u64, pages: u64| thermocline_trace::Extent::Bytes {
            offset: page * PAGE,
            length: pages * PAGE,
        };
        let expected = [
            (Op::Write, extent(7, 2)),
            (Op::Write, extent(9, 1)),
            (Op::Read, extent(9, 1)),
            (Op::Read, extent(9, 1)),
        ];
        assert_eq!(found, expected);
        assert_eq!(counts.missing_accesses, 12);
        assert!(requests.is_sorted_by_key(|request| request.at));
    }

    /// Return the options of both shards of an export.
    fn options_of_two() -> [Options; 2] {
        let all = options(registry::find("lru").unwrap());
        let map = ShardMap::new(NonZeroU16::new(2).unwrap(), all.page_bytes);
        let each = all.of_shards(map).unwrap();
        each.try_into().unwrap()
    }

    /// Return the first page of each request of a file, in its order.
    fn pages(path: &Path) -> Vec<u64> {
        let (requests, _) = read(path);
        assert!(requests.is_sorted_by_key(|request| request.at));
        requests.iter().map(|request| PageSize::DEFAULT.pages(request.extent).0).collect()
    }

    fn record(recording: &mut Recording, page: u64) {
        recording.request();
        recording.access(page, Op::Read);
    }

    #[test]
    fn shards_record_to_one_file_in_the_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let section = section(folder.path(), 1 << 30, 1);
        let recorders = Recorders::default();
        let mut shards =
            options_of_two().map(|options| recorders.record(&section, &options).unwrap());
        for page in 0..1_000 {
            record(&mut shards[usize::from(page % 3 == 0)], page);
            if page % 100 == 0 {
                shards[0].hand_over();
            }
        }
        let accesses: u64 = shards.iter().map(|one| one.status().accesses).sum();
        assert_eq!(accesses, 1_000);
        recorders.close();
        drop(shards);
        assert!(pages(&section.path).into_iter().eq(0..1_000));
    }

    #[test]
    fn shards_go_on_to_another_recording_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut section = section(folder.path(), 1 << 30, 5);
        let recorders = Recorders::default();
        let each = options_of_two();
        let [mut one, mut other] =
            each.clone().map(|options| recorders.record(&section, &options).unwrap());
        record(&mut one, 1);
        record(&mut other, 2);
        // The same file with another limit: the first shard goes on while the second one still has it.
        section.size = Bytes(1 << 20);
        drop(one);
        let mut one = recorders.record(&section, &each[0]).unwrap();
        record(&mut one, 3);
        record(&mut other, 4);
        drop(other);
        let mut other = recorders.record(&section, &each[1]).unwrap();
        record(&mut other, 5);
        recorders.close();
        drop((one, other));
        assert_eq!(pages(&section.path), [3, 5]);
        assert_eq!(pages(&numbered(&section.path, 1)), [1, 2, 4]);
        assert!(!numbered(&section.path, 2).exists());
    }

    #[test]
    fn files_move_on_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let section = section(folder.path(), 40_000, 3);
        let entry = registry::find("lru").unwrap();
        std::fs::write(&section.path, "an older recording").unwrap();
        let (counters, status) = serve(&options(entry), &section);
        let accesses: u64 = counters.accesses.iter().sum();
        let mut kept = 0;
        for number in 0..3 {
            let path = numbered(&section.path, number);
            let (requests, _) = read(&path);
            kept += requests.iter().map(|one| PageSize::DEFAULT.pages(one.extent).1).sum::<u64>();
            let bytes = std::fs::metadata(&path).unwrap().len();
            assert!(number == 0 || (40_000..80_000).contains(&bytes), "{number}: {bytes} bytes");
        }
        assert!(kept < accesses && kept > accesses / 10, "{kept} of {accesses}");
        assert!(!numbered(&section.path, 3).exists());
        assert!(status.written_bytes > 3 * 40_000, "{status:?}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_reported_and_nobody_waits() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let section = section(&inner, 1, 2);
        let entry = registry::find("lru").unwrap();
        let error = start(&section, &options(entry)).unwrap_err();
        assert!(format!("{error:#}").contains("`record.path`"), "{error:#}");
        std::fs::create_dir(&inner).unwrap();
        let mut recording = start(&section, &options(entry)).unwrap();
        std::fs::remove_dir_all(&inner).unwrap();
        for round in 0..2000 {
            for page in 0..8 {
                recording.request();
                recording.access(page, Op::Read);
            }
            recording.hand_over();
            if recording.status().has_failed {
                break;
            }
            assert!(round < 1999, "the writer notices");
            std::thread::sleep(Duration::from_millis(5));
        }
        let before = recording.status().missing_accesses;
        std::thread::sleep(Duration::from_millis(20));
        recording.access(1, Op::Read);
        recording.hand_over();
        assert_eq!(recording.status().missing_accesses, before + 1);
    }
}
