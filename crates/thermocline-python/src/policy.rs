//! Policies written in Python, as the lab drives them.

use std::fmt;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use thermocline_core::policy::Survivor;
use thermocline_core::policy::hybrid::two_tier::{self, TWO_TIER};
use thermocline_core::policy::single::{Space, one_tier};
use thermocline_core::registry::{Capabilities, Depth, PolicyEntry};
use thermocline_core::{Access, Actions, Op, PageId, Policy, Setup, Tier, WriteMiss};

use crate::eviction::{CustomAlgorithm, offer_lock};
use crate::home::Home;

/// A policy as Python gives it.
#[derive(FromPyObject)]
pub(crate) struct CustomPolicy {
    name: String,
    /// Hash of everything that its results depend on.
    identity: String,
    /// Number of cache tiers that it is to run on.
    tiers: usize,
    /// Called with capacities, pages and whether a write miss fetches; `None` for algorithms.
    factory: Option<Py<PyAny>>,
    /// The algorithm of RAM, or those of RAM and flash.
    algorithms: Vec<CustomAlgorithm>,
    /// `true` if no access calls the interpreter.
    is_compiled: bool,
}

/// An object with a method `access(page, write)`.
struct PythonPolicy {
    /// Its method; `None` if it could not be made.
    access: Option<Py<PyAny>>,
    /// The classes of its actions.
    kinds: Option<Kinds>,
    home: Arc<Home>,
    calls: u32,
}

/// The classes of actions, which are named tuples.
struct Kinds {
    serve: Py<PyAny>,
    copy: Py<PyAny>,
    drop: Py<PyAny>,
}

impl CustomPolicy {
    /// Return the policy, for those that choose by name.
    pub(crate) fn entry(self, home: &Arc<Home>) -> PolicyEntry {
        let Self { name, identity, tiers, factory, algorithms, is_compiled } = self;
        let entry = match factory {
            Some(factory) => plain(name, tiers, factory, Arc::clone(home)),
            None => of_algorithms(name, algorithms, Arc::clone(home)),
        };
        let entry = entry.identified_by(identity);
        if is_compiled { entry } else { home.host(entry) }
    }
}

/// Return the policy of an object with a method `access`.
fn plain(name: String, tiers: usize, factory: Py<PyAny>, home: Arc<Home>) -> PolicyEntry {
    let depth = if tiers == 1 { Depth::Ram } else { Depth::Tiers };
    PolicyEntry::new(name, Capabilities::untested(depth), move |setup, _values| {
        Box::new(PythonPolicy::new(&factory, setup, &home))
    })
}

/// Return a policy of RAM that an algorithm makes, or of RAM and flash that two algorithms make.
fn of_algorithms(name: String, algorithms: Vec<CustomAlgorithm>, home: Arc<Home>) -> PolicyEntry {
    if algorithms.len() == 1 {
        let capabilities = Capabilities::untested(Depth::Ram);
        return PolicyEntry::new(name, capabilities, move |setup, _values| {
            one_tier::policy(algorithms[0].build(one_tier::space(setup), &home), setup)
        });
    }
    let capabilities = Capabilities { is_tested: false, ..TWO_TIER.capabilities };
    let mut entry = PolicyEntry::new(name, capabilities, move |setup, values| {
        let algorithm = |tier: Tier, space: Space<'_>| algorithms[tier.index()].build(space, &home);
        two_tier::policy(setup, values, algorithm)
    });
    entry.parameters = two_tier::SHARED_PARAMETERS;
    entry
}

impl fmt::Debug for PythonPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonPolicy").field("access", &self.access).finish_non_exhaustive()
    }
}

impl PythonPolicy {
    /// Call the factory, and take its policy. If it raises, that stops the run.
    fn new(factory: &Py<PyAny>, setup: &Setup, home: &Arc<Home>) -> Self {
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
                home.raise(error);
                (None, None)
            }
        };
        Self { access, kinds, home: Arc::clone(home), calls: 0 }
    }

    fn ask(&mut self, access: Access, out: &mut Actions) -> PyResult<()> {
        let (Some(method), Some(kinds)) = (&self.access, &self.kinds) else { return Ok(()) };
        Python::attach(|py| {
            offer_lock(py, &mut self.calls);
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
        if self.home.watch.is_stopped() {
            return;
        }
        if let Err(error) = self.ask(access, out) {
            self.home.raise(error);
        }
    }

    /// Replays end without one.
    fn flush(&mut self, _out: &mut Actions) {}

    /// Replays begin empty.
    fn restore(&mut self, _survivors: &[Survivor], _out: &mut Actions) {}

    /// Does nothing: the Ledger checks what the policy does; only Python knows its state.
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

/// Create the error of an answer that cannot be iterated; an error of its own is kept.
fn no_actions(answer: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if answer.hasattr("__iter__").unwrap_or(true) { error } else { no_action(&answer.get_type()) }
}

fn no_action(kind: &Bound<'_, PyType>) -> PyErr {
    let kind = kind.name().map_or_else(|_| "something".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "a policy answers with Serve, Copy and Drop, in a list or by `yield`, and this one with a {kind}"
    ))
}

/// Create the error of an action whose parts are not pages and tiers.
fn not_a_place(action: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let what = action.repr().map_or_else(|_| "an action".to_owned(), |text| text.to_string());
    PyTypeError::new_err(format!(
        "{what}: pages and tiers are whole numbers, from 0, of the setup ({error})"
    ))
}
