//! Running a plan: traces to threads, results to parts, parts to the data set.
//!
//! [`Running`] is what all runs share: it knows which points are missing, keeps their results, and
//! writes the data set. [`Plan::run`] runs the points in threads of this process; others run them
//! elsewhere, with [`Plan::run_points`].
//!
//! Each trace is decoded once, and all its points run on the decoded form. Traces begin in the order
//! of their cost, the greatest first, so that the last threads end at about the same time; a trace
//! begins only if what it needs fits into the memory that is left, or if nothing else is in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thermocline_trace::CompiledTrace;

use super::manifest::Entry;
use super::plan::{Plan, PlannedTrace};
use super::results::{self, Row};
use crate::parts::Parts;
use crate::{LabError, Watch};

use jobs::Job;
use writing::{FLUSH_AFTER, Waiting, check_output, known_keys};

mod jobs;
mod writing;

/// Bytes that a policy's tables take per page of the footprint, at most.
const POLICY_BYTES_PER_PAGE: u64 = 96;
/// Separator of the data set and the key in the name of a part; no data set's name contains it.
const SEPARATOR: char = '~';

/// Settings of a plan's run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Number of points that run at once, at least 1.
    pub threads: usize,
    /// Bytes that traces and policies may take together, as far as can be foreseen.
    pub memory_bytes: u64,
    /// Folder of compiled traces, if there is one.
    pub compiled: Option<PathBuf>,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Number of points that were finished before.
    Reused(usize),
    /// Number of points that were finished since the last report.
    Finished(usize),
}

/// Outcome of a run. Its JSON form has a stable schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Outcome {
    /// Traces that took part.
    pub traces: usize,
    /// Points that were run.
    pub ran_points: usize,
    /// Points whose results were there.
    pub reused_points: usize,
    /// Points with a tier of less than one page, which are left out.
    pub left_out_points: usize,
    /// Results of traces that the manifest does not have any more, which were dropped.
    pub dropped_results: usize,
    /// Results in the data set.
    pub rows: usize,
}

/// A trace with the points that are missing, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The trace.
    pub trace: usize,
    /// Its points.
    pub points: Vec<usize>,
    /// Bytes that it takes, as far as its manifest or its file tells.
    expected_bytes: u64,
}

/// A corpus at work: what is finished, and what is left to be run.
///
/// Whoever runs the points, here or elsewhere, hands in each result, and [ends](Self::finish) when
/// all points of all [units](Self::units) are run.
#[derive(Debug)]
pub struct Running {
    output: PathBuf,
    parts: Parts,
    units: Vec<Unit>,
    outcome: Outcome,
    waiting: Mutex<Waiting>,
}

/// A trace in memory.
struct Open {
    unit: usize,
    trace: Arc<CompiledTrace>,
    jobs: VecDeque<Job>,
    running: usize,
    bytes: u64,
}

/// State that the threads share.
struct State {
    next: usize,
    opening: usize,
    open: Vec<Open>,
    used_bytes: u64,
    left_out: usize,
    /// `true` if a thread runs a policy that takes turns with others of its kind.
    is_hosting: bool,
    error: Option<LabError>,
}

/// Next step of a thread.
enum Step {
    Open(usize),
    Run(usize, Arc<CompiledTrace>, Job),
    End,
}

impl Running {
    /// Return the points that must be run, by trace, the most expensive traces first.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Return the number of points that must be run.
    pub fn missing_points(&self) -> usize {
        self.units.iter().map(|unit| unit.points.len()).sum()
    }

    /// Return the number of points that were finished before.
    pub const fn reused_points(&self) -> usize {
        self.outcome.reused_points
    }

    /// Keeps some results. They are on disk within two seconds if others follow, and at the latest
    /// after [`Self::flush`].
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep(&self, rows: impl IntoIterator<Item = Row>) -> Result<(), LabError> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend(rows);
        if waiting.is_due() { waiting.write(&self.parts) } else { Ok(()) }
    }

    /// Writes the results that wait.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn flush(&self) -> Result<(), LabError> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).write(&self.parts)
    }

    /// Writes all results to the data set. `left_out` is how many of the missing points have no
    /// result because a tier would have less than one page.
    ///
    /// # Errors
    /// If the data set cannot be written.
    pub fn finish(mut self, plan: &Plan, left_out: usize) -> Result<Outcome, LabError> {
        self.flush()?;
        self.outcome.ran_points = self.missing_points() - left_out;
        self.outcome.left_out_points += left_out;
        plan.assemble(&self.output, &self.parts, &mut self.outcome)?;
        self.parts.remove()?;
        Ok(self.outcome)
    }

    /// Keeps results as they come.
    fn keep_all(
        &self,
        finished: &Receiver<Row>,
        progress: &impl Fn(Progress),
    ) -> Result<(), LabError> {
        loop {
            match finished.recv_timeout(FLUSH_AFTER) {
                Ok(row) => {
                    self.keep([row])?;
                    progress(Progress::Finished(1));
                }
                Err(RecvTimeoutError::Timeout) => self.flush()?,
                Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
        }
    }
}

impl Plan {
    /// Finds what is finished in the data set at `output`. Results of other points stay there, as
    /// long as their traces are those of the manifest.
    ///
    /// # Errors
    /// If the folder cannot be written, holds another corpus, or is being written by another run.
    pub fn begin(&self, output: &Path) -> Result<Running, LabError> {
        check_output(output)?;
        self.check_datasets(output)?;
        let parts = Parts::open(output)?;
        let known = known_keys(output, &parts)?;
        let mut outcome = Outcome { traces: self.traces.len(), ..Outcome::default() };
        let units = self.units(&known, &mut outcome);
        let waiting = Mutex::default();
        Ok(Running { output: output.to_owned(), parts, units, outcome, waiting })
    }

    /// Runs the points whose results are not in the data set at `output`, and writes them there.
    ///
    /// # Errors
    /// As for [`Self::begin`], or the first trace or point that cannot be; what was finished until
    /// then is kept.
    #[expect(clippy::missing_panics_doc, reason = "the thread that writes does not panic")]
    pub fn run(
        &self,
        output: &Path,
        settings: &RunSettings,
        watch: &Watch,
        progress: impl Fn(Progress) + Sync,
    ) -> Result<Outcome, LabError> {
        let running = self.begin(output)?;
        progress(Progress::Reused(running.reused_points()));
        let (sender, receiver) = mpsc::channel();
        let left_out = thread::scope(|scope| {
            let (running, progress) = (&running, &progress);
            let writer = scope.spawn(move || running.keep_all(&receiver, progress));
            let ran = self.run_units(&running.units, settings, watch, sender);
            let written = writer.join().expect("the writer does not panic");
            written.and(ran)
        })?;
        running.finish(self, left_out)
    }

    /// Check that the folder holds no other corpus.
    fn check_datasets(&self, output: &Path) -> Result<(), LabError> {
        if !output.is_dir() {
            return Ok(());
        }
        let known = |name: &str| self.manifest.datasets.iter().any(|one| one.name == name);
        match results::files(output)?.iter().find(|(dataset, _)| !known(dataset)) {
            None => Ok(()),
            Some((dataset, _)) => {
                let reason = format!(
                    "it has results of a data set `{dataset}`, which the manifest does not have: take another folder"
                );
                Err(LabError::file(output, reason))
            }
        }
    }

    /// Return the traces that have something to run, the most expensive first.
    fn units(&self, known: &HashSet<String>, outcome: &mut Outcome) -> Vec<Unit> {
        let mut units = vec![];
        for (number, trace) in self.traces.iter().enumerate() {
            let mut points = vec![];
            let mut seen = HashSet::new();
            for point in 0..self.points_per_trace() {
                let key = self.key(trace, point);
                let footprint = trace.entry.objects;
                let is_empty = self
                    .caches
                    .get(point)
                    .and_then(|cache| cache.is_empty(footprint?))
                    .unwrap_or(false);
                if is_empty {
                    outcome.left_out_points += 1;
                } else if known.contains(&key) {
                    outcome.reused_points += 1;
                } else if seen.insert(key) {
                    points.push(point);
                }
            }
            if !points.is_empty() {
                units.push(Unit::new(number, &trace.entry, points));
            }
        }
        units.sort_by_key(|unit| std::cmp::Reverse(unit.expected_bytes * unit.points.len() as u64));
        units
    }

    /// Runs all points of the units; returns how many were left out.
    fn run_units(
        &self,
        units: &[Unit],
        settings: &RunSettings,
        watch: &Watch,
        sender: Sender<Row>,
    ) -> Result<usize, LabError> {
        let state = State {
            next: 0,
            opening: 0,
            open: vec![],
            used_bytes: 0,
            left_out: 0,
            is_hosting: false,
            error: None,
        };
        let workshop = Workshop {
            plan: self,
            units,
            settings,
            watch,
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        thread::scope(|scope| {
            let workshop = &workshop;
            for _ in 0..settings.threads {
                let sender = sender.clone();
                scope.spawn(move || workshop.work(&sender));
            }
            drop(sender);
        });
        let state = workshop.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.error.map_or(Ok(state.left_out), Err)
    }

    /// Writes the parts and what is there already to the data set.
    fn assemble(
        &self,
        output: &Path,
        parts: &Parts,
        outcome: &mut Outcome,
    ) -> Result<(), LabError> {
        let of_dataset = |path: &PathBuf| {
            let name = path.file_stem()?.to_str()?;
            name.split_once(SEPARATOR).map(|(dataset, _)| dataset.to_owned())
        };
        let mut files: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        if output.is_dir() {
            for (dataset, path) in results::files(output)? {
                files.entry(dataset).or_default().push(path);
            }
        }
        for path in parts.paths()? {
            if let Some(dataset) = of_dataset(&path) {
                files.entry(dataset).or_default().push(path);
            }
        }
        // All files of the data set have the columns of all.
        let mut columns = BTreeMap::new();
        let mut kept: BTreeSet<String> = BTreeSet::new();
        for (dataset, paths) in &files {
            let rows = self.rows_of(dataset, paths, outcome)?;
            if !rows.is_empty() {
                kept.insert(dataset.clone());
            }
            columns = results::with_columns(&columns, &rows);
        }
        for (dataset, paths) in &files {
            let path = results::file_of(output, dataset);
            let folder = path.parent().unwrap_or(output);
            if !kept.contains(dataset) {
                if folder.is_dir() {
                    fs::remove_dir_all(folder).map_err(|error| LabError::file(folder, error))?;
                }
                continue;
            }
            let mut rows = self.rows_of(dataset, paths, &mut Outcome::default())?;
            outcome.rows += rows.len();
            fs::create_dir_all(folder).map_err(|error| LabError::file(folder, error))?;
            results::write_file(&path, &mut rows, &columns)?;
        }
        Ok(())
    }

    /// Return the newest row about each subject, of traces that the manifest has.
    fn rows_of(
        &self,
        dataset: &str,
        paths: &[PathBuf],
        outcome: &mut Outcome,
    ) -> Result<Vec<Row>, LabError> {
        let all = self.manifest.entries().filter(|(one, _)| one.name == dataset);
        let hashes: HashMap<&str, Option<&str>> =
            all.map(|(_, entry)| (entry.name.as_str(), entry.sha256.as_deref())).collect();
        // Rows of a plan are newer than others about the same.
        let planned: HashSet<String> = self
            .traces
            .iter()
            .filter(|trace| trace.dataset == dataset)
            .flat_map(|trace| (0..self.points_per_trace()).map(|point| self.key(trace, point)))
            .collect();
        let mut rows: Vec<Row> = vec![];
        for path in paths {
            rows.extend(results::read_file(path, dataset)?);
        }
        let found = rows.len();
        rows.retain(|row| hashes.get(row.trace.as_str()) == Some(&Some(&row.trace_sha256)));
        outcome.dropped_results += found - rows.len();
        let mut places: HashMap<_, usize> = HashMap::new();
        let mut is_kept = vec![true; rows.len()];
        for (place, row) in rows.iter().enumerate() {
            if let Some(earlier) = places.insert(row.subject(), place) {
                let is_older = planned.contains(&rows[earlier].key) && !planned.contains(&row.key);
                let dropped = if is_older { place } else { earlier };
                is_kept[dropped] = false;
                places.insert(row.subject(), if is_older { earlier } else { place });
            }
        }
        let mut is_kept = is_kept.into_iter();
        rows.retain(|_| is_kept.next().unwrap_or(false));
        Ok(rows)
    }
}

impl Unit {
    fn new(trace: usize, entry: &Entry, points: Vec<usize>) -> Self {
        let file_bytes = || fs::metadata(&entry.source.path).map_or(0, |file| file.len());
        let expected_bytes = match (entry.requests, entry.objects) {
            (Some(requests), Some(objects)) => requests * 16 + objects * POLICY_BYTES_PER_PAGE,
            // Text and compressed files hold a request in a few bytes.
            _ => file_bytes() * 8,
        };
        Self { trace, points, expected_bytes }
    }
}

/// The threads of a run, and what they share.
struct Workshop<'a> {
    plan: &'a Plan,
    units: &'a [Unit],
    settings: &'a RunSettings,
    watch: &'a Watch,
    state: Mutex<State>,
    changed: Condvar,
}

impl Workshop<'_> {
    /// Work step by step until nothing is left, or one fails.
    fn work(&self, sender: &Sender<Row>) {
        loop {
            let done = match self.next() {
                Step::End => return,
                Step::Open(unit) => self.open(unit),
                Step::Run(unit, trace, job) => self.run(unit, &trace, job).and_then(|row| {
                    // A writer that is gone has failed, and says why itself.
                    sender.send(row).map_err(|_| LabError::Threads { reason: "no writer".into() })
                }),
            };
            if let Err(error) = done {
                let mut state = self.lock();
                state.error.get_or_insert(error);
                drop(state);
                self.changed.notify_all();
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until there is something to do: a point of a trace in memory, or a trace that fits.
    fn next(&self) -> Step {
        let mut state = self.lock();
        loop {
            if self.watch.is_stopped() {
                state.error.get_or_insert(LabError::Stopped);
            }
            if state.error.is_some() {
                return Step::End;
            }
            let is_hosting = state.is_hosting;
            let may_run = |job: &Job| !is_hosting || !self.plan.is_hosted(job);
            for open in &mut state.open {
                let place = open.jobs.iter().position(may_run);
                if let Some(job) = place.and_then(|place| open.jobs.remove(place)) {
                    open.running += 1;
                    let (unit, trace) = (open.unit, Arc::clone(&open.trace));
                    state.is_hosting |= self.plan.is_hosted(&job);
                    return Step::Run(unit, trace, job);
                }
            }
            let is_idle = state.open.is_empty() && state.opening == 0;
            if let Some(unit) = self.units.get(state.next) {
                let needed = self.needed_bytes(unit.expected_bytes);
                if is_idle || state.used_bytes + needed <= self.settings.memory_bytes {
                    state.next += 1;
                    state.opening += 1;
                    state.used_bytes += needed;
                    return Step::Open(state.next - 1);
                }
            } else if is_idle {
                return Step::End;
            }
            let waited = self.changed.wait_timeout(state, Duration::from_millis(200));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Estimate the memory that a trace takes with one policy per thread.
    const fn needed_bytes(&self, expected_bytes: u64) -> u64 {
        let threads = self.settings.threads as u64;
        expected_bytes + expected_bytes / 4 * threads
    }

    /// Decodes a trace, and lists what is to be run on it.
    fn open(&self, number: usize) -> Result<(), LabError> {
        let unit = &self.units[number];
        let trace = self.compiled(unit)?;
        let (jobs, left_out) = self.plan.jobs(unit.trace, &unit.points, &trace, self.watch)?;
        let footprint = u64::from(trace.footprint_pages());
        let bytes = trace.len() as u64 * 4
            + trace.request_count() as u64 * 12
            + footprint * (8 + POLICY_BYTES_PER_PAGE * self.settings.threads as u64);
        let mut state = self.lock();
        state.opening -= 1;
        state.used_bytes = state.used_bytes - self.needed_bytes(unit.expected_bytes) + bytes;
        state.left_out += left_out;
        if jobs.is_empty() {
            state.used_bytes -= bytes;
        } else {
            let trace = Arc::new(trace);
            state.open.push(Open { unit: number, trace, jobs, running: 0, bytes });
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Return the trace of a unit: compiled before, or decoded now after its hash is checked.
    fn compiled(&self, unit: &Unit) -> Result<CompiledTrace, LabError> {
        let planned = &self.plan.traces[unit.trace];
        let PlannedTrace { entry, sha256, .. } = planned;
        match planned.compiled(self.settings.compiled.as_deref()) {
            Some(path) => Ok(CompiledTrace::open(path)?),
            None => entry.source.open_verified(sha256, self.watch, 1),
        }
    }

    /// Runs one point, and gives its trace up after the last.
    fn run(&self, number: usize, trace: &CompiledTrace, job: Job) -> Result<Row, LabError> {
        let row = self.plan.run_job(self.units[number].trace, trace, &job, self.watch)?;
        let is_hosted = self.plan.is_hosted(&job);
        drop(job);
        let mut state = self.lock();
        state.is_hosting &= !is_hosted;
        let place = state.open.iter().position(|open| open.unit == number);
        let place = place.expect("a trace is open while a point runs");
        state.open[place].running -= 1;
        if state.open[place].running == 0 && state.open[place].jobs.is_empty() {
            let open = state.open.remove(place);
            state.used_bytes -= open.bytes;
        }
        drop(state);
        self.changed.notify_all();
        Ok(row)
    }
}
