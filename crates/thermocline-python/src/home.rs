//! Homes of the Python policies of one call: the threads that run them, and their first exception.

use std::ffi::c_long;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;
use thermocline_core::registry::PolicyEntry;
use thermocline_lab::Watch;

/// State that the Python policies of one call share.
#[derive(Debug, Default)]
pub(crate) struct Home {
    /// Stops the work of the call.
    pub(crate) watch: Watch,
    /// The first exception; it stops the work.
    raised: Mutex<Option<PyErr>>,
    /// The threads that are attached to the interpreter for a run, as Python identifies them.
    threads: Mutex<Vec<c_long>>,
}

impl Home {
    /// Take the first exception of a policy.
    pub(crate) fn take_raised(&self) -> Option<PyErr> {
        lock(&self.raised).take()
    }

    /// Stop the work because of an exception.
    pub(crate) fn raise(&self, error: PyErr) {
        lock(&self.raised).get_or_insert(error);
        self.watch.stop();
    }

    /// Make the runs of a policy here. A thread attaches to the interpreter once per run: attaching
    /// for every access would create and destroy a thread state each time.
    pub(crate) fn host(self: &Arc<Self>, entry: PolicyEntry) -> PolicyEntry {
        let home = Arc::clone(self);
        entry.hosted(move |run| home.attached(run))
    }

    /// Raise `KeyboardInterrupt` in the policies that run now. Python code sees it at its next
    /// instruction; a call into C does not see it until it returns.
    pub(crate) fn interrupt(&self, py: Python<'_>) {
        let exception = py.get_type::<PyKeyboardInterrupt>();
        for &thread in &*lock(&self.threads) {
            // SAFETY: the interpreter is attached, `exception` is a class that lives as long as the
            // interpreter, of which the function takes a reference of its own. A thread that does not
            // exist any more is ignored.
            #[expect(unsafe_code, reason = "PyO3 has no safe form")]
            unsafe {
                ffi::PyThreadState_SetAsyncExc(thread, exception.as_ptr());
            }
        }
    }

    fn attached(&self, run: &mut dyn FnMut()) {
        Python::attach(|py| {
            let identity = py
                .import("threading")
                .and_then(|threading| threading.call_method0("get_ident")?.extract::<u64>());
            match identity {
                Ok(identity) => {
                    lock(&self.threads).push(identity.cast_signed());
                    run();
                    lock(&self.threads).retain(|&thread| thread != identity.cast_signed());
                }
                Err(error) => {
                    self.raise(error);
                    run();
                }
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
