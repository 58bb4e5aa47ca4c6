//! Sweeps: run here, or point by point for those who run them elsewhere.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use thermocline_lab::Watch;
use thermocline_lab::sweep::{self, Progress, Row};

use crate::errors::python;
use crate::lab::json;
use crate::trace::Trace;
use crate::work::{Work, watched};

/// A sweep as its TOML says.
#[derive(Debug)]
#[pyclass(frozen, module = "thermocline._thermocline")]
pub(crate) struct Sweep(sweep::Sweep);

/// A sweep whose points are run elsewhere.
#[derive(Debug)]
#[pyclass(frozen, module = "thermocline._thermocline")]
pub(crate) struct Running {
    output: PathBuf,
    /// None once it is finished.
    running: Mutex<Option<sweep::Running>>,
}

#[pymethods]
impl Sweep {
    /// `is_mapping` says that the text is what [`Self::to_toml`] made.
    #[new]
    fn new(text: &str, folder: PathBuf, is_mapping: bool) -> PyResult<Self> {
        let parse = if is_mapping { sweep::Sweep::parse_mapping } else { sweep::Sweep::parse };
        Ok(Self(parse(text, &folder).map_err(python)?))
    }

    /// The TOML of a sweep that is given as JSON.
    #[staticmethod]
    fn to_toml(json: &str) -> PyResult<String> {
        let value: serde_json::Value = serde_json::from_str(json).map_err(python)?;
        toml::to_string(&value).map_err(python)
    }

    /// The same with the files of its traces elsewhere.
    fn with_paths(&self, paths: Vec<PathBuf>) -> Self {
        let mut sweep = self.0.clone();
        for (source, path) in sweep.traces.iter_mut().zip(paths) {
            source.path = path;
        }
        Self(sweep)
    }

    /// The name and the path of each trace.
    fn traces(&self) -> Vec<(String, PathBuf)> {
        self.0.traces.iter().map(|source| (source.name.clone(), source.path.clone())).collect()
    }

    /// The trace of each point, by number, and what the point is in words.
    fn points(&self) -> Vec<(usize, String)> {
        let points = self.0.points.iter();
        points.map(|one| (one.trace, one.describe(&self.0.traces[one.trace]))).collect()
    }

    fn sha256(&self, py: Python<'_>, trace: usize) -> PyResult<String> {
        py.detach(|| self.0.traces[trace].sha256()).map_err(python)
    }

    fn open(&self, py: Python<'_>, trace: usize) -> PyResult<Trace> {
        let work = Work::default();
        let opened = watched(py, &work, None, || self.0.traces[trace].open(&work.watch, 2))?;
        Ok(Trace(Arc::new(opened.map_err(python)?)))
    }

    /// The row of a point, as JSON.
    fn run_point(
        &self,
        py: Python<'_>,
        point: usize,
        trace: &Trace,
        key: &str,
        trace_sha256: &str,
    ) -> PyResult<String> {
        let (sweep, trace) = (&self.0, &trace.0);
        let one = &sweep.points[point];
        let names = [key, trace_sha256];
        let watch = Watch::default();
        let source = &sweep.traces[one.trace];
        let row = py.detach(|| one.run(trace, sweep.options, source, names, &watch));
        serde_json::to_string(&row.map_err(python)?).map_err(python)
    }

    /// Runs all points in threads of this process; the outcome as JSON.
    fn run(
        &self,
        py: Python<'_>,
        output: PathBuf,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let (work, sweep) = (Work::default(), &self.0);
        work.expect(sweep.points.len());
        let doing = || {
            sweep.run(&output, threads, &work.watch, |progress| match progress {
                Progress::Reused(points) | Progress::Finished(points) => work.advance(points),
            })
        };
        let outcome = watched(py, &work, progress.as_ref(), doing)?;
        json(&outcome.map_err(python)?.report(&output))
    }

    /// Whether there can be results.
    #[staticmethod]
    fn check_output(output: PathBuf) -> PyResult<()> {
        sweep::check_output(&output).map_err(python)
    }

    /// Finds what is finished; the points that are not are run elsewhere.
    fn begin(&self, output: PathBuf, hashes: Vec<String>) -> PyResult<Running> {
        let running = sweep::Running::begin(&self.0, &output, hashes).map_err(python)?;
        Ok(Running { output, running: Mutex::new(Some(running)) })
    }
}

#[pymethods]
impl Running {
    /// The points that must be run, and the names that each row has.
    fn missing(&self, sweep: &Sweep) -> PyResult<Vec<(usize, String, String)>> {
        self.with(|running| {
            let names = |&point: &usize| {
                let [key, trace_sha256] = running.names(&sweep.0, point).map(str::to_owned);
                (point, key, trace_sha256)
            };
            Ok(running.missing().iter().map(names).collect())
        })
    }

    /// Keeps rows, each as JSON, on disk.
    fn keep(&self, rows: Vec<String>) -> PyResult<()> {
        let rows = parse(&rows)?;
        self.with(|running| running.keep(&rows).map_err(python))
    }

    /// Writes the output; the outcome as JSON.
    fn finish(&self, rows: Vec<String>) -> PyResult<String> {
        let rows = parse(&rows)?;
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let outcome = running.ok_or_else(finished)?.finish(rows).map_err(python)?;
        json(&outcome.report(&self.output))
    }

    /// Lets others write to the output, however it ended.
    fn close(&self) {
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Running {
    fn with<T>(&self, ask: impl FnOnce(&sweep::Running) -> PyResult<T>) -> PyResult<T> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        ask(running.as_ref().ok_or_else(finished)?)
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the sweep is finished")
}

fn parse(rows: &[String]) -> PyResult<Vec<Row>> {
    rows.iter().map(|row| serde_json::from_str(row).map_err(python)).collect()
}
