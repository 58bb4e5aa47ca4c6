//! Recording the accesses of an engine as a trace, beside the thread that serves.
//!
//! Accesses gather in a batch. A full one goes into a bounded queue, from which a thread of its own
//! writes. If there is no room the batch is dropped, counted, and the trace says so where it happened;
//! the serving thread never waits.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use thermocline_core::{Nanos, Op};
use thermocline_engine::{Event, Options};
use thermocline_trace::Recorder;
use tracing::{error, info};

use super::config::Record;
use super::status::RecordingStatus;

/// Runs of pages in a batch, 16 bytes each.
const BATCH_RUNS: usize = 4096;
/// Batches that wait to be written, at most.
const QUEUE_BATCHES: usize = 64;
/// Longest time that accesses wait for their frame to fill: a `kill -9` loses no more than that.
const FRAME_INTERVAL: Duration = Duration::from_secs(1);

/// A recording that goes on.
pub(crate) struct Recording {
    section: Record,
    batch: Batch,
    /// `true` if the last run may be continued by the next access.
    is_run_open: bool,
    /// When the request came whose accesses come now.
    at: Nanos,
    start: Instant,
    queue: Option<SyncSender<Batch>>,
    writer: Option<JoinHandle<()>>,
    progress: Arc<Progress>,
    accesses: u64,
    missing_accesses: u64,
    bypasses: u64,
}

/// Accesses handed to the writing thread in one message.
#[derive(Debug, Default)]
struct Batch {
    /// Accesses that were dropped before these.
    missing_accesses: u64,
    /// Accesses so far that the policy was not asked about.
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

/// How far the writer is.
#[derive(Debug, Default)]
struct Progress {
    written_bytes: AtomicU64,
    has_failed: AtomicBool,
}

impl Recording {
    /// Begins a recording; a file that is there already is kept under another name.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn start(section: &Record, options: &Options) -> Result<Self> {
        let context = || format!("`record.path`: cannot write `{}`", section.path.display());
        let progress = Arc::new(Progress::default());
        let files = Files {
            section: section.clone(),
            about: about(options),
            page_bytes: options.page_bytes.into(),
            progress: Arc::clone(&progress),
            bytes_before: 0,
        };
        let first = files.begin().with_context(context)?;
        let (queue, batches) = sync_channel(QUEUE_BATCHES);
        let writer = std::thread::Builder::new()
            .name("recorder".into())
            .spawn(move || files.write(first, &batches))
            .context("cannot start the recorder's thread")?;
        info!(path = %section.path.display(), "recording accesses");
        Ok(Self::new(section.clone(), queue, Some(writer), progress))
    }

    fn new(
        section: Record,
        queue: SyncSender<Batch>,
        writer: Option<JoinHandle<()>>,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            section,
            batch: Batch::new(),
            is_run_open: false,
            at: Nanos(0),
            start: Instant::now(),
            queue: Some(queue),
            writer,
            progress,
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
        let elapsed_ns = self.start.elapsed().as_nanos();
        self.at = Nanos(u64::try_from(elapsed_ns).unwrap_or(u64::MAX));
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

    /// Gives the writer what there is, if it has room.
    pub(crate) fn hand_over(&mut self) {
        self.is_run_open = false;
        if self.batch.is_empty() {
            return;
        }
        self.batch.bypasses = self.bypasses;
        let batch = std::mem::replace(&mut self.batch, Batch::new());
        let refused = match &self.queue {
            Some(queue) => queue.try_send(batch).err(),
            None => return,
        };
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

    /// Return the state of the recording.
    pub(crate) fn status(&self) -> RecordingStatus {
        RecordingStatus {
            path: self.section.path.clone(),
            accesses: self.accesses,
            missing_accesses: self.missing_accesses,
            bypasses: self.bypasses,
            written_bytes: self.progress.written_bytes.load(Ordering::Relaxed),
            has_failed: self.progress.has_failed.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Recording {
    /// Writes what there is.
    fn drop(&mut self) {
        self.batch.bypasses = self.bypasses;
        let batch = std::mem::take(&mut self.batch);
        if let Some(queue) = self.queue.take() {
            // Nobody is served meanwhile, or a new configuration is being read: this may wait. A writer
            // that failed has said so.
            drop(queue.send(batch));
        }
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            error!("the recorder's thread panicked");
        }
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

    const fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.missing_accesses == 0
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

/// The files of a recording, one after the other.
struct Files {
    section: Record,
    /// Description of the trace, for people who look into the file.
    about: String,
    page_bytes: u64,
    progress: Arc<Progress>,
    /// Bytes of the files before the current one.
    bytes_before: u64,
}

impl Files {
    /// Writes batches until there will be no more.
    fn write(mut self, first: Recorder<File>, batches: &Receiver<Batch>) {
        if let Err(error) = self.write_all(first, batches) {
            self.progress.has_failed.store(true, Ordering::Relaxed);
            let path = self.section.path.display();
            error!(%path, %error, "stopped recording: cannot write the file");
        }
    }

    fn write_all(
        &mut self,
        mut recorder: Recorder<File>,
        batches: &Receiver<Batch>,
    ) -> io::Result<()> {
        let mut bypasses = 0;
        let mut frame_due = None;
        loop {
            match next(batches, frame_due) {
                Next::Batch(batch) => {
                    bypasses = batch.bypasses;
                    self.append(&mut recorder, &batch)?;
                    let is_open = recorder.is_frame_open();
                    frame_due = is_open
                        .then(|| frame_due.unwrap_or_else(|| Instant::now() + FRAME_INTERVAL));
                }
                Next::FrameDue => {
                    recorder.end_frame()?;
                    frame_due = None;
                }
                Next::End => return self.end(recorder, bypasses),
            }
            let written_bytes = self.bytes_before + recorder.written_bytes();
            self.progress.written_bytes.store(written_bytes, Ordering::Relaxed);
            if recorder.written_bytes() >= self.section.size.0 {
                self.end(recorder, bypasses)?;
                recorder = self.begin()?;
                frame_due = None;
            }
        }
    }

    fn append(&self, recorder: &mut Recorder<File>, batch: &Batch) -> io::Result<()> {
        if batch.missing_accesses > 0 {
            recorder.gap(batch.missing_accesses)?;
        }
        for run in &batch.runs {
            let offset = run.page * self.page_bytes;
            let length = u64::from(run.pages()) * self.page_bytes;
            recorder.request(run.at, run.op(), offset, length)?;
        }
        Ok(())
    }

    /// Makes the file, after the older ones have moved on.
    fn begin(&self) -> io::Result<Recorder<File>> {
        move_on(&self.section.path, self.section.files)?;
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let began = format!("begun {} s after 1970, UTC", began.as_secs());
        let file = File::create_new(&self.section.path)?;
        Recorder::new(file, "cache", &[&self.about, &began])
    }

    /// Says in the file that nothing is missing at its end.
    fn end(&mut self, mut recorder: Recorder<File>, bypasses: u64) -> io::Result<()> {
        recorder.comment(&format!(
            "the end of this file; {bypasses} page accesses so far passed the policy by and are not in it"
        ))?;
        let (file, written_bytes) = recorder.finish()?;
        file.sync_all()?;
        self.bytes_before += written_bytes;
        self.progress.written_bytes.store(self.bytes_before, Ordering::Relaxed);
        Ok(())
    }
}

enum Next {
    Batch(Batch),
    FrameDue,
    End,
}

fn next(batches: &Receiver<Batch>, frame_due: Option<Instant>) -> Next {
    let Some(due) = frame_due else { return batches.recv().map_or(Next::End, Next::Batch) };
    match batches.recv_timeout(due.saturating_duration_since(Instant::now())) {
        Ok(batch) => Next::Batch(batch),
        Err(RecvTimeoutError::Timeout) => Next::FrameDue,
        Err(RecvTimeoutError::Disconnected) => Next::End,
    }
}

/// Describe an engine in one line.
fn about(options: &Options) -> String {
    format!(
        "page accesses of an engine as its policy saw them; policy {}, pages of {} B, {} in RAM, {} on flash, {} on disk",
        options.policy.entry.name,
        options.page_bytes,
        options.ram_pages,
        options.flash_pages,
        options.backing_pages
    )
}

/// Renames `path` to `path.1`, that to `path.2` and so on; of all only `files` are kept, the one to
/// come among them.
fn move_on(path: &Path, files: u32) -> io::Result<()> {
    for number in (1..files).rev() {
        let (from, to) = (numbered(path, number - 1), numbered(path, number));
        match std::fs::rename(from, to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use thermocline_core::random::{Draws as _, SplitMix64};
    use thermocline_core::registry::{self, Depth, Future, PolicyEntry};
    use thermocline_core::{Clients, Tier};
    use thermocline_engine::driver::memory::MemoryDriver;
    use thermocline_engine::{Counters, Engine, PolicyOptions, Request, Shard};
    use thermocline_lab::spec::{HierarchySpec, TierSpec};
    use thermocline_lab::{RunOptions, Summary, TierSize, Watch, configurations};
    use thermocline_trace::{CompiledTrace, PageSize, ReadCounts, ReadOptions, Reader, Requests};

    use super::*;
    use crate::bytes::Bytes;

    const PAGE: u64 = 4096;
    const DISK_PAGES: u32 = 4096;

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
        let recording = Recording::start(section, options).unwrap();
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
        let progress = Arc::clone(&recording.progress);
        let status = recording.status();
        drop(recording);
        // All of it is written now, however late the writer was.
        let written_bytes = progress.written_bytes.load(Ordering::Relaxed);
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
        let progress = Arc::<Progress>::default();
        let mut recording = Recording::new(section, queue, None, progress);
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
        let mut recording =
            Recording::start(&section, &options(registry::find("hat").unwrap())).unwrap();
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
        let error = Recording::start(&section, &options(entry)).unwrap_err();
        assert!(format!("{error:#}").contains("`record.path`"), "{error:#}");
        std::fs::create_dir(&inner).unwrap();
        let mut recording = Recording::start(&section, &options(entry)).unwrap();
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
