//! What the lab finds, as JSON; and the command line.

use std::ffi::OsString;
use std::sync::Arc;

use pyo3::prelude::*;
use thermocline::Job;

use crate::errors::python;
use crate::policy::{Failure, Given};
use crate::trace::Trace;
use crate::work::watched;

/// What a command finds on a trace; see [`Job::find`].
#[pyfunction]
pub(crate) fn find(
    py: Python<'_>,
    words: Vec<String>,
    trace: &Trace,
    policies: Vec<Given>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let job = Job::default();
    let failure = Arc::new(Failure::new(job.watch.clone()));
    let brought = policies.into_iter().map(|one| one.bring(&failure));
    let brought = brought.collect::<Result<Vec<_>, _>>().map_err(python)?;
    let trace = &trace.0;
    let found = watched(py, &job, progress.as_ref(), || job.find(&words, trace, &brought))?;
    match failure.take() {
        Some(error) => Err(error),
        None => found.map_err(python),
    }
}

/// What there is of a kind; see [`thermocline::listing`].
#[pyfunction]
pub(crate) fn listing(words: Vec<String>) -> PyResult<String> {
    thermocline::listing(&words).map_err(python)
}

/// Runs the command line and returns the exit status.
#[pyfunction]
pub(crate) fn run_command_line(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| thermocline::run(words))
}
