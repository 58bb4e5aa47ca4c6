//! Corpora: run here, or point by point for those who run them elsewhere.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use thermocline_core::registry::PolicyEntry;
use thermocline_lab::corpus::results::{Number, Row};
use thermocline_lab::corpus::{Manifest, Plan, Progress, Request, RunSettings, Running};
use thermocline_lab::{CompiledCache, LabError};

use crate::arguments::{Arguments, argument};
use crate::errors::{configuration, python};
use crate::home::Home;
use crate::lab::json;
use crate::policy::CustomPolicy;
use crate::trace::Trace;
use crate::work::{Work, watched};

/// A run over the traces of a manifest.
#[derive(Debug)]
#[pyclass(frozen, module = "thermocline._thermocline")]
pub(crate) struct Corpus {
    plan: Plan,
    /// Its policies of Python.
    home: Arc<Home>,
}

/// A corpus whose points are run elsewhere.
#[derive(Debug)]
#[pyclass(frozen, module = "thermocline._thermocline")]
pub(crate) struct RunningCorpus(Mutex<Option<Running>>);

#[pymethods]
impl Corpus {
    /// Return the text of the manifest at `path`, and what is to be run, as [`Self::request`] made
    /// it. Files of devices that the request names are relative to `folder`.
    #[new]
    fn new(
        text: &str,
        path: PathBuf,
        root: Option<PathBuf>,
        folder: PathBuf,
        request: &str,
        policies: Vec<CustomPolicy>,
    ) -> PyResult<Self> {
        let home = Arc::new(Home::default());
        let own: Vec<PolicyEntry> = policies.into_iter().map(|one| one.entry(&home)).collect();
        let mut request: Request = serde_json::from_str(request).map_err(python)?;
        request.resolve_in(&folder);
        let manifest = Manifest::parse(text, &path, root.as_deref()).map_err(python)?;
        let plan = Plan::new(Arc::new(manifest), &request, &own).map_err(|error| {
            if let LabError::Spec { path, reason } = error {
                let place = argument(&path, &request.spec.tiers, &request.spec.parameters);
                return configuration(format!("{place}: {reason}"));
            }
            python(error)
        })?;
        Ok(Self { plan, home })
    }

    /// Return the request that arguments of Python make, as JSON.
    #[staticmethod]
    fn request(arguments: Bound<'_, PyDict>) -> PyResult<String> {
        json(&Arguments::new(arguments).corpus()?)
    }

    /// Return the number of points.
    fn points(&self) -> usize {
        self.plan.trace_count() * self.plan.points_per_trace()
    }

    /// Return `true` if all points of a trace share samples of it.
    #[getter]
    fn is_sampled(&self) -> bool {
        self.plan.is_sampled()
    }

    /// Return a point of a trace in words.
    fn describe(&self, trace: usize, point: usize) -> String {
        self.plan.describe(trace, point)
    }

    /// Return a trace from the folder `compiled`, or from the compiled ones of this machine, in a
    /// folder that holds at most `bytes_max` bytes; and `true` if it was compiled now.
    fn open_shared(
        &self,
        py: Python<'_>,
        trace: usize,
        compiled: Option<PathBuf>,
        folder: PathBuf,
        bytes_max: u64,
    ) -> PyResult<(Trace, bool)> {
        let work = Work::default();
        let opening = || {
            let cache = CompiledCache::new(&folder, bytes_max)?;
            self.plan.open(trace, compiled.as_deref(), &cache, work.watch())
        };
        let (opened, is_new) = watched(py, &work, None, opening)?.map_err(python)?;
        Ok((Trace(Arc::new(opened)), is_new))
    }

    /// Runs points of a trace, one after the other; the rows of those that are not left out as JSON.
    fn run_points(
        &self,
        py: Python<'_>,
        number: usize,
        points: Vec<usize>,
        trace: &Trace,
    ) -> PyResult<String> {
        let trace = &trace.0;
        let rows = py.detach(|| self.plan.run_points(number, &points, trace, &self.home.watch));
        match self.home.take_raised() {
            Some(error) => Err(error),
            None => json(&rows.map_err(python)?),
        }
    }

    /// Runs all points in threads of this process, as many as there are processors if 0; the outcome
    /// as JSON.
    fn run(
        &self,
        py: Python<'_>,
        output: PathBuf,
        threads: usize,
        memory_bytes: u64,
        compiled: Option<PathBuf>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let work = Work::of(&self.home);
        work.expect(self.points());
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = if threads == 0 { processors() } else { threads };
        let settings = RunSettings { threads, memory_bytes, compiled };
        let doing = || {
            self.plan.run(&output, &settings, work.watch(), |progress| match progress {
                Progress::Reused(points) | Progress::Finished(points) => work.advance(points),
            })
        };
        let outcome = watched(py, &work, progress.as_ref(), doing)?;
        match self.home.take_raised() {
            Some(error) => Err(error),
            None => json(&outcome.map_err(python)?),
        }
    }

    /// Finds what is finished; the points that are not are run elsewhere.
    fn begin(&self, output: PathBuf) -> PyResult<RunningCorpus> {
        Ok(RunningCorpus(Mutex::new(Some(self.plan.begin(&output).map_err(python)?))))
    }
}

#[pymethods]
impl RunningCorpus {
    /// Return the points that must be run, by trace, the most expensive traces first.
    fn units(&self) -> PyResult<Vec<(usize, Vec<usize>)>> {
        self.with(|running| {
            let units = running.units().iter();
            Ok(units.map(|unit| (unit.trace, unit.points.clone())).collect())
        })
    }

    /// Return the number of points that were finished before.
    fn reused_points(&self) -> PyResult<usize> {
        self.with(|running| Ok(running.reused_points()))
    }

    /// Keeps lists of rows, each as JSON; returns how many rows there are, and how many accesses they
    /// are about.
    fn keep(&self, answers: Vec<String>) -> PyResult<(usize, u64)> {
        let (mut count, mut accesses) = (0, 0);
        for answer in answers {
            let rows: Vec<Row> = serde_json::from_str(&answer).map_err(python)?;
            count += rows.len();
            accesses += rows.iter().map(accesses_of).sum::<u64>();
            self.with(|running| running.keep(rows).map_err(python))?;
        }
        Ok((count, accesses))
    }

    /// Writes the data set of a corpus; the outcome as JSON.
    fn finish(&self, corpus: &Corpus, left_out: usize) -> PyResult<String> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let running = running.ok_or_else(finished)?;
        json(&running.finish(&corpus.plan, left_out).map_err(python)?)
    }

    /// Keeps what waits to be written, and lets others write there, however it ended.
    fn close(&self) -> PyResult<()> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        running.map_or(Ok(()), |running| running.flush().map_err(python))
    }
}

impl RunningCorpus {
    fn with<T>(&self, ask: impl FnOnce(&Running) -> PyResult<T>) -> PyResult<T> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ask(running.as_ref().ok_or_else(finished)?)
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the run is finished")
}

fn accesses_of(row: &Row) -> u64 {
    match row.figures.get("accesses") {
        Some(Number::Count(accesses)) => *accesses,
        Some(Number::Real(_)) | None => 0,
    }
}
