//! The thread that writes a recording.
//!
//! Each shard's accesses come in the order of time, and with each batch the shard says up to which time it has
//! given everything. So what is not newer than that of any shard can be written. A shard that is far behind does
//! not hold the others up for long: there is a limit to what waits, and what comes after others went ahead has
//! the time of the last one that was written.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use thermocline_core::Nanos;
use thermocline_engine::Options;
use thermocline_trace::Recorder;
use tracing::error;

use super::super::config::Record;
use super::{BATCH_RUNS, Batch, Run};

/// Longest time that accesses wait for their frame to fill: a `kill -9` loses no more than that, and what waits
/// for other shards.
const FRAME_INTERVAL: Duration = Duration::from_secs(1);
/// Runs that wait for other shards, at most: 4 MiB.
const WAITING_RUNS_MAX: usize = 64 * BATCH_RUNS;

/// Progress of the writer.
#[derive(Debug, Default)]
pub(super) struct Progress {
    written_bytes: AtomicU64,
    has_failed: AtomicBool,
}

impl Progress {
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}

/// Accesses of several shards, in the order of time.
#[derive(Debug)]
struct Merge {
    shards: Vec<Lane>,
    waiting_runs: usize,
    /// Time of the last run that was taken.
    last: Nanos,
}

/// Accesses of a shard that wait to be written.
#[derive(Debug, Default)]
struct Lane {
    runs: VecDeque<Run>,
    /// No later access is older.
    until: Nanos,
    bypasses: u64,
}

impl Merge {
    fn new(shards: usize) -> Self {
        let shards = (0..shards).map(|_| Lane::default()).collect();
        Self { shards, waiting_runs: 0, last: Nanos(0) }
    }

    fn take(&mut self, batch: Batch) {
        let lane = &mut self.shards[batch.shard];
        lane.until = lane.until.max(batch.until);
        lane.bypasses = batch.bypasses;
        self.waiting_runs += batch.runs.len();
        lane.runs.extend(batch.runs);
    }

    /// Wait for nobody any more.
    fn end(&mut self) {
        for lane in &mut self.shards {
            lane.until = Nanos(u64::MAX);
        }
    }

    /// Return the next run to be written.
    fn next(&mut self) -> Option<Run> {
        let has_room = self.waiting_runs <= WAITING_RUNS_MAX;
        let until = self.shards.iter().map(|lane| lane.until).min().filter(|_| has_room);
        let first = |lane: &Lane| lane.runs.front().map(|run| run.at);
        let lanes = self.shards.iter_mut().filter(|lane| !lane.runs.is_empty());
        let lane = lanes.min_by_key(|lane| first(lane))?;
        if until.is_some_and(|until| first(lane) > Some(until)) {
            return None;
        }
        let run = lane.runs.pop_front()?;
        self.waiting_runs -= 1;
        self.last = self.last.max(run.at);
        Some(Run { at: self.last, ..run })
    }

    /// Return the number of accesses so far that no policy was asked about.
    fn bypasses(&self) -> u64 {
        self.shards.iter().map(|lane| lane.bypasses).sum()
    }
}

/// The files of a recording, one after the other.
pub(super) struct Files {
    section: Record,
    /// Description of the trace, for people who look into the file.
    about: String,
    page_bytes: u64,
    progress: Arc<Progress>,
    /// Bytes of the files before the current one.
    bytes_before: u64,
}

impl Files {
    /// Create the files of a recording by shards like this one.
    pub(super) fn new(section: &Record, options: &Options, progress: Arc<Progress>) -> Self {
        let (section, page_bytes) = (section.clone(), options.page_bytes.into());
        Self { section, about: about(options), page_bytes, progress, bytes_before: 0 }
    }

    /// Writes batches of so many shards until there will be no more. The first file is made if that was not
    /// possible before.
    pub(super) fn write(
        mut self,
        first: Option<Recorder<File>>,
        shards: usize,
        batches: &Receiver<Batch>,
    ) {
        let first = first.map_or_else(|| self.begin(), Ok);
        if let Err(error) = first.and_then(|first| self.write_all(first, shards, batches)) {
            self.progress.has_failed.store(true, Ordering::Relaxed);
            let path = self.section.path.display();
            error!(%path, %error, "stopped recording: cannot write the file");
        }
    }

    fn write_all(
        &mut self,
        mut recorder: Recorder<File>,
        shards: usize,
        batches: &Receiver<Batch>,
    ) -> io::Result<()> {
        let mut merge = Merge::new(shards);
        let mut frame_due = None;
        loop {
            match next(batches, frame_due) {
                Next::Batch(batch) => {
                    if batch.missing_accesses > 0 {
                        recorder.gap(batch.missing_accesses)?;
                    }
                    merge.take(batch);
                    self.append(&mut recorder, &mut merge)?;
                    let is_open = recorder.is_frame_open();
                    // The first run of a frame counts: a stream of further ones must not put its end
                    // off for ever.
                    frame_due = is_open
                        .then(|| frame_due.unwrap_or_else(|| Instant::now() + FRAME_INTERVAL));
                }
                Next::FrameDue => {
                    recorder.end_frame()?;
                    frame_due = None;
                }
                Next::End => {
                    merge.end();
                    self.append(&mut recorder, &mut merge)?;
                    return self.end(recorder, merge.bypasses());
                }
            }
            let written_bytes = self.bytes_before + recorder.written_bytes();
            self.progress.written_bytes.store(written_bytes, Ordering::Relaxed);
            if recorder.written_bytes() >= self.section.size.0 {
                self.end(recorder, merge.bypasses())?;
                recorder = self.begin()?;
                frame_due = None;
            }
        }
    }

    fn append(&self, recorder: &mut Recorder<File>, merge: &mut Merge) -> io::Result<()> {
        while let Some(run) = merge.next() {
            let offset = run.page * self.page_bytes;
            let length = u64::from(run.pages()) * self.page_bytes;
            recorder.request(run.at, run.op(), offset, length)?;
        }
        Ok(())
    }

    /// Makes the file, after the older ones have moved on.
    pub(super) fn begin(&self) -> io::Result<Recorder<File>> {
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
        // A finished file is whole even after a crash; the one that is being written may not be.
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

/// Describe an engine in one line, given the options of one of its shards.
fn about(options: &Options) -> String {
    let shards = u32::from(options.share.map.number().get());
    format!(
        "page accesses of an engine as its policy saw them; policy {}, pages of {} B, {} in RAM, {} on flash, {} on disk",
        options.policy.entry.name,
        options.page_bytes,
        options.ram_pages * shards,
        options.flash_pages * shards,
        options.backing_pages
    )
}

/// Renames `path` to `path.1`, that to `path.2` and so on; of all only `files` are kept, the one to
/// come among them.
fn move_on(path: &Path, files: u32) -> io::Result<()> {
    // From the oldest one on, so that only that is overwritten.
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

pub(super) fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(shard: usize, until: u64, times: &[u64]) -> Batch {
        let runs = times.iter().map(|&at| Run { at: Nanos(at), page: at, word: 1 });
        Batch {
            shard,
            until: Nanos(until),
            bypasses: until,
            runs: runs.collect(),
            ..Batch::default()
        }
    }

    /// Return the pages and times that may be written.
    fn taken(merge: &mut Merge) -> Vec<[u64; 2]> {
        std::iter::from_fn(|| merge.next()).map(|run| [run.page, run.at.0]).collect()
    }

    #[test]
    fn what_another_shard_may_precede_waits() {
        let mut merge = Merge::new(2);
        merge.take(batch(0, 40, &[10, 20, 30]));
        assert_eq!(taken(&mut merge), [[0; 2]; 0], "nothing is known of the other one");
        merge.take(batch(1, 25, &[15]));
        assert_eq!(taken(&mut merge), [[10; 2], [15; 2], [20; 2]]);
        merge.take(batch(1, 50, &[]));
        assert_eq!(taken(&mut merge), [[30; 2]]);
        assert_eq!(merge.bypasses(), 90);
        merge.take(batch(0, 60, &[55]));
        assert_eq!(taken(&mut merge), [[0; 2]; 0]);
        merge.end();
        assert_eq!(taken(&mut merge), [[55; 2]]);
    }

    #[test]
    fn a_shard_that_says_nothing_does_not_hold_all_up() {
        let mut merge = Merge::new(2);
        let times: Vec<u64> = (1..=65 * BATCH_RUNS as u64).collect();
        for times in times.chunks(BATCH_RUNS) {
            assert_eq!(taken(&mut merge).len(), 0);
            merge.take(batch(0, u64::MAX, times));
        }
        let went_ahead = taken(&mut merge);
        assert_eq!(went_ahead.len(), BATCH_RUNS);
        assert_eq!(merge.waiting_runs, WAITING_RUNS_MAX);
        let last = went_ahead.last().unwrap()[1];
        merge.take(batch(1, 3, &[2]));
        assert_eq!(taken(&mut merge), [[2, last]], "it comes late");
    }
}
