//! Long work: the interpreter is free meanwhile, signals are heeded, progress is told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use thermocline_lab::Watch;

use crate::home::Home;

/// Between two looks at signals and progress: short enough for a bar, and for somebody who waits.
const LOOK: Duration = Duration::from_millis(50);

/// Long work: how far it is, and a way to stop it.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The policies of Python that the work is about.
    pub(crate) home: Arc<Home>,
    done: AtomicUsize,
    total: AtomicUsize,
}

impl Work {
    /// Work with the policies of a home.
    pub(crate) fn of(home: &Arc<Home>) -> Self {
        Self { home: Arc::clone(home), ..Self::default() }
    }

    /// Return the accesses that were replayed, and the way to stop.
    pub(crate) fn watch(&self) -> &Watch {
        &self.home.watch
    }

    /// Count so many steps from now on. A step is a configuration, a size of a curve, a candidate of
    /// a plan.
    pub(crate) fn expect(&self, total: usize) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Count some steps as done.
    pub(crate) fn advance(&self, steps: usize) {
        self.done.fetch_add(steps, Ordering::Relaxed);
    }

    /// Return the number of steps that are done, and of all; 0 of 0 before it is known.
    fn steps(&self) -> [usize; 2] {
        [&self.done, &self.total].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Do some work in a thread of its own; `progress` is called with the steps that are done, the
/// steps in all, and the accesses that were replayed.
///
/// # Errors
/// If a signal or `progress` raises an exception; the work has stopped then.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    work: &Work,
    progress: Option<&Py<PyAny>>,
    doing: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let look = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        if let Some(progress) = progress {
            let [done, total] = work.steps();
            progress.call1(py, (done, total, work.watch().accesses()))?;
        }
        Ok(())
    };
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        scope.spawn(move || sender.send(doing()));
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
                work.watch().stop();
                // Policies of Python need the interpreter to come to their end; one that does not come
                // to it is interrupted, again and again if it goes on.
                while matches!(py.detach(wait), Err(RecvTimeoutError::Timeout)) {
                    work.home.interrupt(py);
                }
                return Err(error);
            }
        }
    })
}
