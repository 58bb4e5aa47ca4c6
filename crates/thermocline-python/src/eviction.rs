//! Replacement algorithms written in Python: methods that are called, or compiled functions.

use std::fmt;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use thermocline_core::config::Values;
use thermocline_core::policy::single::hooked::{Hooked, Hooks};
use thermocline_core::policy::single::{ALGORITHMS, Replacement, Space};
use thermocline_core::{Op, PageId};

use crate::functions::Functions;
use crate::home::Home;

/// Calls between two offers of the interpreter's lock: policies in C never offer it on their own.
const CALLS_PER_TURN: u32 = 4096;

/// An algorithm as Python gives it.
#[derive(Debug, FromPyObject)]
pub(crate) enum CustomAlgorithm {
    /// The name of a registered one, which runs with its default parameters.
    Registered(String),
    /// A function of capacity and page ids that makes [`Made`].
    Own(Py<PyAny>),
}

/// Result of a function that makes algorithms.
#[derive(FromPyObject)]
enum Made {
    Functions(Functions),
    Methods(Methods),
}

/// The methods of an object.
#[derive(FromPyObject)]
struct Methods {
    hit: Py<PyAny>,
    miss: Py<PyAny>,
    evict: Py<PyAny>,
    remove: Py<PyAny>,
}

/// Methods as hooks.
struct PythonHooks {
    methods: Methods,
    home: Arc<Home>,
    calls: u32,
}

/// Functions as hooks.
#[derive(Debug)]
struct CompiledHooks {
    functions: Functions,
    home: Arc<Home>,
}

/// Hooks of which there are none, because they could not be made; the run has been stopped.
#[derive(Debug)]
struct NoHooks;

impl CustomAlgorithm {
    /// Return the algorithm, empty. If it raises, the run stops.
    pub(crate) fn build(&self, space: Space<'_>, home: &Arc<Home>) -> Box<dyn Replacement + Send> {
        let home = Arc::clone(home);
        let made = match self {
            Self::Registered(name) => match ALGORITHMS.iter().find(|one| one.name() == name) {
                Some(known) => return (known.build)(space, &Values::defaults(known.parameters)),
                None => Err(unknown(name)),
            },
            Self::Own(make) => Python::attach(|py| {
                make.call1(py, (space.capacity_pages, space.ids.pages))?.extract::<Made>(py)
            }),
        };
        match made {
            Ok(Made::Functions(functions)) => {
                Box::new(Hooked::new(space, CompiledHooks { functions, home }))
            }
            Ok(Made::Methods(methods)) => {
                Box::new(Hooked::new(space, PythonHooks { methods, home, calls: 0 }))
            }
            Err(error) => {
                home.raise(error);
                Box::new(Hooked::new(space, NoHooks))
            }
        }
    }
}

fn unknown(name: &str) -> PyErr {
    let known = ALGORITHMS.iter().map(thermocline_core::policy::single::Algorithm::name);
    let known = thermocline_core::names::there_are(name, known);
    PyValueError::new_err(format!("unknown algorithm `{name}`; {known}"))
}

impl fmt::Debug for PythonHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonHooks").field("evict", &self.methods.evict).finish_non_exhaustive()
    }
}

impl PythonHooks {
    /// Call a method, unless the run has been stopped.
    fn call<T>(
        &mut self,
        method: impl Fn(&Methods) -> &Py<PyAny>,
        arguments: (u32, bool),
        found: impl FnOnce(Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        if self.home.watch.is_stopped() {
            return None;
        }
        let answer = Python::attach(|py| {
            offer_lock(py, &mut self.calls);
            found(method(&self.methods).bind(py).call1(arguments)?)
        });
        answer.map_err(|error| self.home.raise(error)).ok()
    }
}

/// Let other threads have the interpreter, once in many calls.
pub(crate) fn offer_lock(py: Python<'_>, calls: &mut u32) {
    *calls += 1;
    if *calls == CALLS_PER_TURN {
        *calls = 0;
        py.detach(|| ());
    }
}

impl Hooks for PythonHooks {
    fn hit(&mut self, page: PageId, op: Op) {
        self.call(|methods| &methods.hit, (page.0, op == Op::Write), |_| Ok(()));
    }

    fn miss(&mut self, page: PageId, op: Op) {
        self.call(|methods| &methods.miss, (page.0, op == Op::Write), |_| Ok(()));
    }

    fn evict(&mut self, page: PageId, op: Op) -> PageId {
        let chosen = |answer: Bound<'_, PyAny>| answer.extract().map_err(|_| no_page(&answer));
        let victim = self.call(|methods| &methods.evict, (page.0, op == Op::Write), chosen);
        victim.map_or(page, PageId)
    }

    fn remove(&mut self, page: PageId) {
        if self.home.watch.is_stopped() {
            return;
        }
        if let Err(error) = Python::attach(|py| self.methods.remove.call1(py, (page.0,))) {
            self.home.raise(error);
        }
    }

    fn chose_wrong(&mut self, victim: PageId, page: PageId) {
        self.home.raise(chose_wrong(victim, page));
    }
}

impl Hooks for CompiledHooks {
    #[inline]
    fn hit(&mut self, page: PageId, op: Op) {
        self.functions.hit(page, op);
    }

    #[inline]
    fn miss(&mut self, page: PageId, op: Op) {
        self.functions.miss(page, op);
    }

    #[inline]
    fn evict(&mut self, page: PageId, op: Op) -> PageId {
        self.functions.evict(page, op)
    }

    fn remove(&mut self, page: PageId) {
        self.functions.remove(page);
    }

    fn chose_wrong(&mut self, victim: PageId, page: PageId) {
        self.home.raise(chose_wrong(victim, page));
    }
}

impl Hooks for NoHooks {
    fn hit(&mut self, _page: PageId, _op: Op) {}

    fn miss(&mut self, _page: PageId, _op: Op) {}

    fn evict(&mut self, page: PageId, _op: Op) -> PageId {
        page
    }

    fn remove(&mut self, _page: PageId) {}

    fn chose_wrong(&mut self, _victim: PageId, _page: PageId) {}
}

fn no_page(answer: &Bound<'_, PyAny>) -> PyErr {
    let answer = answer.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
    PyTypeError::new_err(format!(
        "`evict` returned {answer}: expected a page of the cache, or the page that comes, to refuse it"
    ))
}

fn chose_wrong(PageId(victim): PageId, PageId(page): PageId) -> PyErr {
    PyValueError::new_err(format!(
        "`evict` chose page {victim} to leave for page {page}, and the cache does not hold it: \
         return a page that `miss` was told of and that has not left since"
    ))
}
