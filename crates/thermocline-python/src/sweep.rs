//! Sweeps: run here, or point by point for those who run them elsewhere.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use thermocline_core::registry::PolicyEntry;
use thermocline_lab::sweep::{self, Progress, Row, TraceSource};
use thermocline_lab::{CompiledCache, LabError};

use crate::errors::python;
use crate::home::Home;
use crate::lab::json;
use crate::policy::CustomPolicy;
use crate::trace::Trace;
use crate::work::{Work, watched};

/// A sweep as its TOML says.
#[derive(Debug)]
#[pyclass(frozen, module = "thermocline._thermocline")]
pub(crate) struct Sweep {
    sweep: sweep::Sweep,
    /// Its policies of Python.
    home: Arc<Home>,
}

/// A sweep whose points are run elsewhere.
#[derive(Debug)]
#[pyclass(frozen, module = "thermocline._thermocline")]
pub(crate) struct Running {
    output: PathBuf,
    /// None once it is finished; with the rows that it has kept.
    running: Mutex<Option<(sweep::Running, Vec<Row>)>>,
}

#[pymethods]
impl Sweep {
    /// Parse a sweep. If `is_mapping`, [`Self::to_toml`] made the text, which may then name `policies`.
    #[new]
    fn new(
        text: &str,
        folder: PathBuf,
        is_mapping: bool,
        policies: Vec<CustomPolicy>,
    ) -> PyResult<Self> {
        let home = Arc::new(Home::default());
        let own: Vec<PolicyEntry> = policies.into_iter().map(|one| one.entry(&home)).collect();
        let sweep = if is_mapping {
            sweep::Sweep::parse_mapping(text, &folder, &own)
        } else {
            sweep::Sweep::parse(text, &folder)
        };
        Ok(Self { sweep: sweep.map_err(python)?, home })
    }

    /// Return the TOML of a sweep that is given as JSON.
    #[staticmethod]
    fn to_toml(json: &str) -> PyResult<String> {
        let value: serde_json::Value = serde_json::from_str(json).map_err(python)?;
        toml::to_string(&value).map_err(python)
    }

    /// Return the same with the files of its traces elsewhere.
    fn with_paths(&self, paths: Vec<PathBuf>) -> Self {
        let mut sweep = self.sweep.clone();
        for (source, path) in sweep.traces.iter_mut().zip(paths) {
            source.path = path;
        }
        Self { sweep, home: Arc::clone(&self.home) }
    }

    /// Return the name and the path of each trace.
    fn traces(&self) -> Vec<(String, PathBuf)> {
        self.sweep.traces.iter().map(|source| (source.name.clone(), source.path.clone())).collect()
    }

    /// Return the trace of each point, by number, and what the point is in words.
    fn points(&self) -> Vec<(usize, String)> {
        let points = self.sweep.points.iter();
        points.map(|one| (one.trace, one.describe(&self.sweep.traces[one.trace]))).collect()
    }

    fn sha256(&self, py: Python<'_>, trace: usize) -> PyResult<String> {
        py.detach(|| self.sweep.traces[trace].sha256()).map_err(python)
    }

    /// Return a trace from the compiled ones of this machine, in a folder that holds at most
    /// `bytes_max` bytes, and `true` if it was compiled now. In that case `fetch` is called first,
    /// and returns its path.
    fn open_shared(
        &self,
        py: Python<'_>,
        trace: usize,
        sha256: &str,
        folder: PathBuf,
        bytes_max: u64,
        fetch: Option<Py<PyAny>>,
    ) -> PyResult<(Trace, bool)> {
        open_shared(py, &self.sweep.traces[trace], sha256, (folder, bytes_max), fetch)
    }

    /// Runs points one after the other, each with its key, and gives the row of each as JSON; after the
    /// first that fails there are no more, and its error comes beside those that there are.
    fn run_points(
        &self,
        py: Python<'_>,
        points: Vec<(usize, String)>,
        trace: &Trace,
        trace_sha256: &str,
    ) -> (Vec<String>, Option<Py<PyAny>>) {
        let (sweep, trace) = (&self.sweep, &trace.0);
        let mut rows = vec![];
        let mut run = |(point, key): &(usize, String)| -> PyResult<()> {
            let one = &sweep.points[*point];
            let source = &sweep.traces[one.trace];
            let names = [key.as_str(), trace_sha256];
            let row = py.detach(|| one.run(trace, sweep.options, source, names, &self.home.watch));
            if let Some(error) = self.home.take_raised() {
                return Err(error);
            }
            rows.push(json(&row.map_err(python)?)?);
            Ok(())
        };
        let ran = points.iter().try_for_each(&mut run);
        (rows, ran.err().map(|error| error.into_value(py).into_any()))
    }

    /// Runs all points in threads of this process; the outcome as JSON.
    fn run(
        &self,
        py: Python<'_>,
        output: PathBuf,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let (work, sweep) = (Work::of(&self.home), &self.sweep);
        work.expect(sweep.points.len());
        let doing = || {
            sweep.run(&output, threads, work.watch(), |progress| match progress {
                Progress::Reused(points) | Progress::Finished(points) => work.advance(points),
            })
        };
        let outcome = watched(py, &work, progress.as_ref(), doing)?;
        if let Some(error) = self.home.take_raised() {
            return Err(error);
        }
        json(&outcome.map_err(python)?.report(&output))
    }

    /// Check that results can be written.
    #[staticmethod]
    fn check_output(output: PathBuf) -> PyResult<()> {
        sweep::check_output(&output).map_err(python)
    }

    /// Finds what is finished; the points that are not are run elsewhere.
    fn begin(&self, output: PathBuf, hashes: Vec<String>) -> PyResult<Running> {
        let running = sweep::Running::begin(&self.sweep, &output, hashes).map_err(python)?;
        Ok(Running { output, running: Mutex::new(Some((running, vec![]))) })
    }
}

#[pymethods]
impl Running {
    /// Return the points that must be run, and the names that each row has.
    fn missing(&self, sweep: &Sweep) -> PyResult<Vec<(usize, String, String)>> {
        self.with(|running| {
            let names = |&point: &usize| {
                let [key, trace_sha256] = running.names(&sweep.sweep, point).map(str::to_owned);
                (point, key, trace_sha256)
            };
            Ok(running.missing().iter().map(names).collect())
        })
    }

    /// Keeps rows, each as JSON, on disk; returns how many accesses they are about.
    fn keep(&self, rows: Vec<String>) -> PyResult<u64> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let (running, kept) = running.as_mut().ok_or_else(finished)?;
        let rows = rows.iter().map(|row| serde_json::from_str(row).map_err(python));
        let rows: Vec<Row> = rows.collect::<PyResult<_>>()?;
        running.keep(&rows).map_err(python)?;
        let accesses = rows.iter().map(|row| row.accesses).sum();
        kept.extend(rows);
        Ok(accesses)
    }

    /// Writes the output; the outcome as JSON.
    fn finish(&self) -> PyResult<String> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (running, rows) = running.ok_or_else(finished)?;
        json(&running.finish(rows).map_err(python)?.report(&self.output))
    }

    /// Lets others write to the output, however it ended.
    fn close(&self) {
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Running {
    fn with<T>(&self, ask: impl FnOnce(&sweep::Running) -> PyResult<T>) -> PyResult<T> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        ask(&running.as_ref().ok_or_else(finished)?.0)
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the sweep is finished")
}

/// Return a trace from a folder of compiled ones, and whether it was compiled now.
pub(crate) fn open_shared(
    py: Python<'_>,
    source: &TraceSource,
    sha256: &str,
    (folder, bytes_max): (PathBuf, u64),
    fetch: Option<Py<PyAny>>,
) -> PyResult<(Trace, bool)> {
    let work = Work::default();
    let bring = || match fetch {
        None => Ok(source.path.clone()),
        Some(fetch) => {
            let fetched = Python::attach(|py| fetch.call0(py)?.extract::<PathBuf>(py));
            fetched.map_err(|error| {
                work.home.raise(error);
                LabError::Stopped
            })
        }
    };
    let doing = || {
        let cache = CompiledCache::new(&folder, bytes_max)?;
        cache.open(source, sha256, work.watch(), 2, bring)
    };
    let opened = watched(py, &work, None, doing)?;
    if let Some(error) = work.home.take_raised() {
        return Err(error);
    }
    let (trace, is_new) = opened.map_err(python)?;
    Ok((Trace(Arc::new(trace)), is_new))
}
