//! Policies written in Python, as the lab drives them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use thermocline_core::policy::Survivor;
use thermocline_core::registry::{Capabilities, Depth, PolicyEntry};
use thermocline_core::{Access, Actions, Op, PageId, Policy, Setup, Tier, WriteMiss};
use thermocline_lab::Watch;

/// A policy as Python hands it over.
#[derive(FromPyObject)]
pub(crate) struct CustomPolicy {
    name: String,
    /// Called with capacities, pages and whether a write miss fetches.
    factory: Py<PyAny>,
    /// How many cache tiers it is to run on.
    tiers: usize,
}

/// What was raised first in a policy; it stops the run.
#[derive(Debug)]
pub(crate) struct Failure {
    raised: Mutex<Option<PyErr>>,
    watch: Watch,
}

/// An object with a method `access(page, write)`.
struct PythonPolicy {
    /// Its method; none if it could not be made.
    access: Option<Py<PyAny>>,
    /// The classes of its actions.
    kinds: Option<Kinds>,
    failure: Arc<Failure>,
}

/// The classes of actions, which are named tuples.
struct Kinds {
    serve: Py<PyAny>,
    copy: Py<PyAny>,
    drop: Py<PyAny>,
}

impl CustomPolicy {
    /// The policy, for those that choose by name.
    pub(crate) fn entry(self, failure: &Arc<Failure>) -> PolicyEntry {
        let depth = if self.tiers == 1 { Depth::Ram } else { Depth::Tiers };
        let (factory, failure) = (self.factory, Arc::clone(failure));
        PolicyEntry::new(self.name, Capabilities::untested(depth), move |setup, _values| {
            Box::new(PythonPolicy::new(&factory, setup, &failure))
        })
    }
}

impl Failure {
    pub(crate) fn new(watch: Watch) -> Self {
        Self { raised: Mutex::new(None), watch }
    }

    /// What was raised, if anything.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn raise(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.watch.stop();
    }
}

impl fmt::Debug for PythonPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonPolicy").field("access", &self.access).finish_non_exhaustive()
    }
}

impl PythonPolicy {
    /// What the factory returns. If it raises, the failure stops the run.
    fn new(factory: &Py<PyAny>, setup: &Setup, failure: &Arc<Failure>) -> Self {
        let fetches = setup.write_miss == WriteMiss::Fetch;
        let made = Python::attach(|py| -> PyResult<(Py<PyAny>, Kinds)> {
            let capacities = PyTuple::new(py, &setup.capacity_pages)?;
            let pages = setup.geometry.pages();
            let policy = factory.call1(py, (capacities, pages, fetches))?;
            Ok((policy.getattr(py, "access")?, Kinds::of(py)?))
        });
        let (access, kinds) = match made {
            Ok((access, kinds)) => (Some(access), Some(kinds)),
            Err(error) => {
                failure.raise(error);
                (None, None)
            }
        };
        Self { access, kinds, failure: Arc::clone(failure) }
    }

    fn ask(&self, access: Access, out: &mut Actions) -> PyResult<()> {
        let (Some(method), Some(kinds)) = (&self.access, &self.kinds) else { return Ok(()) };
        Python::attach(|py| {
            let answer = method.call1(py, (access.page.0, access.op == Op::Write))?;
            let answer = answer.bind(py);
            let actions = answer.try_iter().map_err(|error| no_actions(answer, error))?;
            for action in actions {
                kinds.push(&action?, access, out)?;
            }
            Ok(())
        })
    }
}

impl Policy for PythonPolicy {
    fn access(&mut self, access: Access, out: &mut Actions) {
        if self.failure.watch.is_stopped() {
            return;
        }
        if let Err(error) = self.ask(access, out) {
            self.failure.raise(error);
        }
    }

    /// Replays end without one.
    fn flush(&mut self, _out: &mut Actions) {}

    /// Replays begin empty.
    fn restore(&mut self, _survivors: &[Survivor], _out: &mut Actions) {}

    /// The Ledger checks what it does; what it is, only Python knows.
    fn assert_invariants(&self) {}

    fn memory_bytes(&self) -> usize {
        0
    }
}

impl Kinds {
    fn of(py: Python<'_>) -> PyResult<Self> {
        let module = py.import("thermocline.policy")?;
        let kind = |name| Ok::<_, PyErr>(module.getattr(name)?.unbind());
        Ok(Self { serve: kind("Serve")?, copy: kind("Copy")?, drop: kind("Drop")? })
    }

    /// Appends an action of Python, for the page and operation of an access.
    fn push(&self, action: &Bound<'_, PyAny>, access: Access, out: &mut Actions) -> PyResult<()> {
        let kind = action.get_type();
        let wrong = |error| not_a_place(action, error);
        if kind.is(&self.serve) {
            let (found, tier) = action.extract().map_err(wrong)?;
            out.serve(access.page, access.op, Tier(found), Tier(tier));
        } else if kind.is(&self.copy) {
            let (page, source, target) = action.extract().map_err(wrong)?;
            out.copy(PageId(page), Tier(source), Tier(target));
        } else if kind.is(&self.drop) {
            let (page, tier) = action.extract().map_err(wrong)?;
            out.drop_copy(PageId(page), Tier(tier));
        } else {
            return Err(no_action(&kind));
        }
        Ok(())
    }
}

/// What is wrong with an answer that cannot be gone through; an error of its own stays as it is.
fn no_actions(answer: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if answer.hasattr("__iter__").unwrap_or(true) { error } else { no_action(&answer.get_type()) }
}

fn no_action(kind: &Bound<'_, PyType>) -> PyErr {
    let kind = kind.name().map_or_else(|_| "something".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "a policy answers with Serve, Copy and Drop, in a list or by `yield`, and this one with a {kind}"
    ))
}

/// What is wrong with an action whose parts are no pages and tiers.
fn not_a_place(action: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let what = action.repr().map_or_else(|_| "an action".to_owned(), |text| text.to_string());
    PyTypeError::new_err(format!(
        "{what}: pages and tiers are whole numbers, from 0, of the setup ({error})"
    ))
}
