//! Running a sweep: points to threads, results to parts, parts to the output.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use serde::Serialize;
use thermocline_trace::CompiledTrace;

use super::results::{self, Row};
use super::{Sweep, TraceSource};
use crate::parts::Parts;
use crate::{LabError, Watch};

/// Results that wait to be written at most: a sweep that is killed, or stopped, has kept all but these.
const WAITING_ROWS_MAX: usize = 8;

/// Progress of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Number of points that were finished before the first one runs.
    Reused(usize),
    /// Number of points that were finished since the last report, with their results on disk.
    Finished(usize),
}

/// Outcome of a sweep.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The results, in the order of the points.
    pub rows: Vec<Row>,
    /// Points that were run.
    pub ran_points: usize,
    /// Points that were found finished.
    pub reused_points: usize,
    /// Results in the output that the sweep has no point for any more; they are not in it now.
    pub dropped_results: usize,
}

/// An [`Outcome`] with its file. Its JSON form has a stable schema.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    output: String,
    points: usize,
    ran_points: usize,
    reused_points: usize,
    dropped_results: usize,
    rows: &'a [Row],
}

impl Outcome {
    /// Return the outcome with the file that the results are in.
    pub fn report(&self, output: &Path) -> Report<'_> {
        Report {
            output: output.display().to_string(),
            points: self.rows.len(),
            ran_points: self.ran_points,
            reused_points: self.reused_points,
            dropped_results: self.dropped_results,
            rows: &self.rows,
        }
    }
}

/// A trace that is compiled when its first point is run, and given up after its last.
struct SharedTrace<'a> {
    source: &'a TraceSource,
    compiled: Mutex<Option<Arc<CompiledTrace>>>,
    points_left: AtomicUsize,
}

/// A sweep at work: what is finished, and what is left to be run.
///
/// Whoever runs the points, here or elsewhere, hands in each result, and [ends](Self::finish) when
/// nothing is [missing](Self::missing) any more.
#[derive(Debug)]
pub struct Running {
    output: PathBuf,
    parts: Parts,
    hashes: Vec<String>,
    keys: Vec<String>,
    known: HashMap<String, Row>,
    missing: Vec<usize>,
    dropped_results: usize,
}

impl Running {
    /// Finds what is finished; `hashes` are the SHA-256s of the traces.
    ///
    /// # Errors
    /// If a file cannot be read or is not a result of a sweep, or another sweep writes there.
    pub fn begin(sweep: &Sweep, output: &Path, hashes: Vec<String>) -> Result<Self, LabError> {
        check_output(output)?;
        let of_point = |point: &super::SweepPoint| {
            point.key(&sweep.traces[point.trace], &hashes[point.trace], sweep.options)
        };
        let keys: Vec<String> = sweep.points.iter().map(of_point).collect();
        let parts = Parts::open(output)?;
        let mut known = HashMap::new();
        if output.exists() {
            results::read(output, &mut known)?;
        }
        read_parts(&parts, &mut known)?;
        let found = known.len();
        let wanted: HashSet<&String> = keys.iter().collect();
        known.retain(|key, _| wanted.contains(key));
        let dropped_results = found - known.len();
        let mut missing: Vec<usize> =
            (0..keys.len()).filter(|&point| !known.contains_key(&keys[point])).collect();
        // Two points that are the same run are one.
        let mut seen = HashSet::new();
        missing.retain(|&point| seen.insert(&keys[point]));
        let output = output.to_owned();
        Ok(Self { output, parts, hashes, keys, known, missing, dropped_results })
    }

    /// Return the points that must be run, by number.
    pub fn missing(&self) -> &[usize] {
        &self.missing
    }

    /// Return the names in the row of a point: its key, and the SHA-256 of its trace.
    pub fn names(&self, sweep: &Sweep, point: usize) -> [&str; 2] {
        [&self.keys[point], &self.hashes[sweep.points[point].trace]]
    }

    /// Keeps some results on disk, so that they count as finished.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep(&self, rows: &[Row]) -> Result<(), LabError> {
        write_part(&self.parts, rows)
    }

    /// Writes all results to the output, in the order of the points; `rows` are those of the missing
    /// ones, in any order.
    ///
    /// # Errors
    /// If the output cannot be written.
    ///
    /// # Panics
    /// If a result is missing.
    pub fn finish(mut self, rows: Vec<Row>) -> Result<Outcome, LabError> {
        self.known.extend(rows.into_iter().map(|row| (row.key.clone(), row)));
        let of_key = |key: &String| self.known.get(key).cloned().expect("every point is finished");
        let rows: Vec<Row> = self.keys.iter().map(of_key).collect();
        results::write(&self.output, &rows)?;
        self.parts.remove()?;
        let ran_points = self.missing.len();
        Ok(Outcome {
            reused_points: rows.len() - ran_points,
            rows,
            ran_points,
            dropped_results: self.dropped_results,
        })
    }
}

impl Sweep {
    /// Runs the points that are not finished, on so many threads (as many as there are processors if
    /// 0), and writes all results to `output`. `progress` is told how far it is.
    ///
    /// # Errors
    /// If a point is invalid, or a file fails; the results until then are kept. A sweep that
    /// another program runs is left alone.
    pub fn run(
        &self,
        output: &Path,
        threads: usize,
        watch: &Watch,
        progress: impl Fn(Progress) + Sync,
    ) -> Result<Outcome, LabError> {
        check_output(output)?;
        let hashes: Result<Vec<String>, LabError> =
            self.traces.iter().map(TraceSource::sha256).collect();
        let running = Running::begin(self, output, hashes?)?;
        progress(Progress::Reused(self.points.len() - running.missing.len()));
        let rows = self.run_points(&running, threads, watch, &progress)?;
        running.finish(rows)
    }

    /// Runs some points; each result is in a part before it counts as finished.
    fn run_points(
        &self,
        running: &Running,
        threads: usize,
        watch: &Watch,
        progress: &(impl Fn(Progress) + Sync),
    ) -> Result<Vec<Row>, LabError> {
        let missing = running.missing();
        let shared = |(trace, source)| SharedTrace {
            source,
            compiled: Mutex::new(None),
            points_left: AtomicUsize::new(
                missing.iter().filter(|&&point| self.points[point].trace == trace).count(),
            ),
        };
        let traces: Vec<SharedTrace<'_>> = self.traces.iter().enumerate().map(shared).collect();
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| LabError::Threads { reason: error.to_string() })?;
        let (sender, receiver) = mpsc::sync_channel(WAITING_ROWS_MAX);
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || write_all(&running.parts, &receiver, progress));
            let run = |point: usize, sender: &SyncSender<Row>| -> Result<(), LabError> {
                let one = &self.points[point];
                let shared = &traces[one.trace];
                let trace = shared.compiled(watch)?;
                let names = running.names(self, point);
                let row = one.run(&trace, self.options, shared.source, names, watch)?;
                shared.finish_one();
                // A writer that is gone has failed, and says why below.
                sender.send(row).map_err(|_| LabError::Threads { reason: "no writer".into() })
            };
            // Points are handed out in order, one by one: the last ones end at about the same time,
            // and few traces are in memory together.
            let is_hosted = |point: &&usize| self.points[**point].configuration.policy.is_hosted();
            let (hosted, free): (Vec<&usize>, Vec<&usize>) = missing.iter().partition(is_hosted);
            let ran = std::thread::scope(|scope| {
                // Hosted policies take turns on a thread of their own.
                let take_turns = || hosted.into_iter().try_for_each(|&point| run(point, &sender));
                let turns = scope.spawn(take_turns);
                let ran = pool.install(|| {
                    free.into_iter().par_bridge().try_for_each(|&point| run(point, &sender))
                });
                ran.and(turns.join().expect("a run that panics ends all"))
            });
            drop(sender);
            let written = writer.join().expect("the writer does not panic");
            let rows = written?;
            ran.map(|()| rows)
        })
    }
}

/// Check that a file can be written there: what is wrong with it is told before anything is done.
///
/// # Errors
/// If the folder does not exist, or the path is a folder or a device: files take their places
/// whole.
pub fn check_output(output: &Path) -> Result<(), LabError> {
    if output.is_dir() {
        return Err(LabError::file(output, "it is a folder: name a file to be written"));
    }
    if output.exists() && !output.is_file() {
        return Err(LabError::file(output, "not a regular file: name a file to write to"));
    }
    match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            let reason = "there is no such folder: make it, or name another file to be written";
            Err(LabError::file(folder, reason))
        }
        _ => Ok(()),
    }
}

impl SharedTrace<'_> {
    /// Return the trace; the first caller compiles it, and the others wait.
    fn compiled(&self, watch: &Watch) -> Result<Arc<CompiledTrace>, LabError> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = &*compiled {
            return Ok(Arc::clone(trace));
        }
        let trace = Arc::new(self.source.open(watch, rayon::current_num_threads())?);
        *compiled = Some(Arc::clone(&trace));
        Ok(trace)
    }

    /// Note that one of its points is finished; after the last one the trace is given up.
    fn finish_one(&self) {
        if self.points_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            *self.compiled.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Read the results of all parts, by their keys.
fn read_parts(parts: &Parts, rows: &mut HashMap<String, Row>) -> Result<(), LabError> {
    parts.paths()?.iter().try_for_each(|path| results::read(path, rows))
}

/// Writes results as they come; those that come while one part is written are the next part.
fn write_all(
    parts: &Parts,
    finished: &Receiver<Row>,
    progress: &impl Fn(Progress),
) -> Result<Vec<Row>, LabError> {
    let mut all = vec![];
    while let Ok(first) = finished.recv() {
        let rows: Vec<Row> =
            [first].into_iter().chain(finished.try_iter().take(WAITING_ROWS_MAX)).collect();
        write_part(parts, &rows)?;
        progress(Progress::Finished(rows.len()));
        all.extend(rows);
    }
    Ok(all)
}

/// Writes some results as one part, named after the first.
fn write_part(parts: &Parts, rows: &[Row]) -> Result<(), LabError> {
    let Some(first) = rows.first() else { return Ok(()) };
    results::write(&parts.path(&first.key), rows)
}
