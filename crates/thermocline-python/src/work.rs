//! Long work: the interpreter is free meanwhile, signals are heeded, progress is told.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use thermocline::Job;

/// Between two looks at signals and progress: short enough for a bar, and for somebody who waits.
const LOOK: Duration = Duration::from_millis(50);

/// Does some work in a thread of its own; `progress` is called with the steps that are done, the steps
/// in all, and the accesses that were replayed.
///
/// # Errors
/// What a signal or `progress` raises, after the work has stopped.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    job: &Job,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let look = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        if let Some(progress) = progress {
            let [done, total] = job.steps();
            progress.call1(py, (done, total, job.watch.accesses()))?;
        }
        Ok(())
    };
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        scope.spawn(move || sender.send(work()));
        loop {
            let wait = || {
                let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                receiver.recv_timeout(LOOK)
            };
            match py.detach(wait) {
                Ok(found) => return look(py).map(|()| found),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("a bug of Thermocline: please report it"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(error) = look(py) {
                job.watch.stop();
                // Policies of Python need the interpreter to come to their end.
                let receiver = &receiver;
                py.detach(move || {
                    drop(receiver.lock().unwrap_or_else(PoisonError::into_inner).recv());
                });
                return Err(error);
            }
        }
    })
}
