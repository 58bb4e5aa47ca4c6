//! A cache to hold in the hand, driven access by access.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::{IntoPyArray as _, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::sync::MutexExt as _;
use pyo3::types::PyDict;
use thermocline_core::{Action, Clients, Nanos, Op, PageId, Tier};
use thermocline_lab::{LabError, LiveCache, LivePages, configurations};

use crate::arguments::{Arguments, argument};
use crate::errors::{configuration, python};
use crate::trace::Trace;

/// Accesses between two looks at signals.
const CHUNK_ACCESSES: usize = 1 << 16;

/// A cache with its state.
#[derive(Debug)]
#[pyclass(frozen, module = "thermocline._thermocline")]
pub(crate) struct Cache(Mutex<LiveCache>);

/// An action: `serve`, `copy` or `drop` by number, the page, and two tiers.
type Move = (u8, u32, u8, u8);

/// The accesses of a cache since it was empty: page and direction, and times.
type Packed<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u64>>);

#[pymethods]
impl Cache {
    /// Create a cache. `pages` is the size of the disk, unless there is a trace.
    #[new]
    fn new(
        arguments: Bound<'_, PyDict>,
        trace: Option<&Trace>,
        pages: Option<u32>,
        page_size: &str,
        keeps_history: bool,
    ) -> PyResult<Self> {
        let arguments = Arguments::new(arguments);
        let (selection, spec) = (arguments.selection("policies")?, arguments.hierarchy()?);
        let pages = match trace {
            Some(trace) => LivePages::Trace(Arc::clone(&trace.0)),
            None => LivePages::Disk { pages, page_size: page_size.parse().map_err(python)? },
        };
        let raised = |error: LabError| {
            let LabError::Spec { path, reason } = &error else { return python(error) };
            let place = argument(path, &spec.tiers, &spec.parameters);
            configuration(format!("{place}: {reason}"))
        };
        let all = spec
            .policies(&selection, Clients::ONE, &[])
            .and_then(|policies| configurations(&spec, &policies, Clients::ONE))
            .map_err(raised)?;
        let [one] = all.as_slice() else {
            return Err(configuration("a cache has one policy, and one size per tier".into()));
        };
        let cache = LiveCache::new(one.clone(), pages, keeps_history).map_err(raised)?;
        Ok(Self(Mutex::new(cache)))
    }

    /// Access a page: the tier that held it, the actions, and the pages that left.
    fn access(
        &self,
        py: Python<'_>,
        page: u64,
        write: bool,
        at_ns: Option<u64>,
    ) -> PyResult<(u8, Vec<Move>, Vec<u32>)> {
        let mut cache = self.state(py);
        let found = cache.access(page, op(write), at_ns.map(Nanos)).map_err(python)?;
        let moves = cache.actions().map(moved).collect();
        Ok((found.0, moves, cache.evicted().iter().map(|page| page.0).collect()))
    }

    /// Access pages in order: of each, whether a cache tier held it. A signal ends it between two
    /// accesses, with those before done.
    fn access_many<'py>(
        &self,
        py: Python<'py>,
        pages: PyReadonlyArray1<'py, u32>,
        writes: Option<PyReadonlyArray1<'py, bool>>,
        at_ns: Option<PyReadonlyArray1<'py, u64>>,
    ) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let pages = pages.as_slice()?;
        let writes = writes.as_ref().map(|writes| writes.as_slice()).transpose()?;
        let at_ns = at_ns.as_ref().map(|at_ns| at_ns.as_slice()).transpose()?;
        let mut hits = Vec::with_capacity(pages.len());
        for start in (0..pages.len()).step_by(CHUNK_ACCESSES) {
            let end = pages.len().min(start + CHUNK_ACCESSES);
            py.check_signals()?;
            let mut state = self.state(py);
            let cache: &mut LiveCache = &mut state;
            let done = py.detach(|| {
                let disk = cache.disk();
                for index in start..end {
                    let is_write = writes.is_some_and(|writes| writes[index]);
                    let at = at_ns.map(|at_ns| Nanos(at_ns[index]));
                    let found = cache.access(pages[index].into(), op(is_write), at)?;
                    hits.push(found != disk);
                }
                Ok::<_, LabError>(())
            });
            done.map_err(python)?;
        }
        Ok(hits.into_pyarray(py))
    }

    /// Return the fastest tier that holds the newest version of a page.
    fn tier_of(&self, py: Python<'_>, page: u32) -> u8 {
        self.state(py).tier_of(PageId(page)).0
    }

    fn is_dirty(&self, py: Python<'_>, page: u32) -> bool {
        self.state(py).is_dirty(PageId(page))
    }

    /// Return the pages of which a tier, or any, holds a copy, in order.
    fn resident_pages<'py>(&self, py: Python<'py>, tier: Option<u8>) -> Bound<'py, PyArray1<u32>> {
        let pages = self.state(py).resident_pages(tier.map(Tier));
        pages.into_iter().map(|page| page.0).collect::<Vec<u32>>().into_pyarray(py)
    }

    /// Return the counts of each tier, the disk last: hits of reads and of writes, pages read and
    /// written.
    fn counts(&self, py: Python<'_>) -> Vec<[u64; 4]> {
        let cache = self.state(py);
        let counts = cache.counts();
        let tiers = (0..=cache.disk().0).map(Tier);
        tiers
            .map(|tier| {
                [
                    counts.read_hits(tier),
                    counts.write_hits(tier),
                    counts.page_reads(tier),
                    counts.page_writes(tier),
                ]
            })
            .collect()
    }

    /// Return the values that the policy adapts: name, tier, value.
    fn gauges(&self, py: Python<'_>) -> Vec<(&'static str, u8, f64)> {
        let mut gauges = vec![];
        let cache = self.state(py);
        cache.policy().gauges(&mut |name, tier, value| gauges.push((name, tier.0, value)));
        gauges
    }

    #[getter]
    fn capacity_pages(&self, py: Python<'_>) -> Vec<u32> {
        self.state(py).capacity_pages().to_vec()
    }

    #[getter]
    fn held_pages(&self, py: Python<'_>) -> Vec<u32> {
        self.state(py).held_pages().to_vec()
    }

    #[getter]
    fn pages(&self, py: Python<'_>) -> u32 {
        self.state(py).pages()
    }

    #[getter]
    fn memory_bytes(&self, py: Python<'_>) -> usize {
        self.state(py).policy().memory_bytes()
    }

    /// Return the accesses since it was empty; `None` if it does not keep them.
    fn history<'py>(&self, py: Python<'py>) -> Option<Packed<'py>> {
        let cache = self.state(py);
        let history = cache.history()?;
        let at: Vec<u64> = history.at().iter().map(|at| at.0).collect();
        Some((history.packed().to_vec().into_pyarray(py), at.into_pyarray(py)))
    }

    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.state(py).reset().map_err(python)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.state(py).len()
    }
}

impl Cache {
    /// Return the cache. Whoever has to wait for it lets go of the interpreter, which the thread
    /// that has it needs to finish.
    fn state(&self, py: Python<'_>) -> MutexGuard<'_, LiveCache> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

fn op(is_write: bool) -> Op {
    if is_write { Op::Write } else { Op::Read }
}

fn moved(action: Action) -> Move {
    match action {
        Action::Serve { page, found, tier, .. } => (0, page.0, found.0, tier.0),
        Action::Copy { page, source, target } => (1, page.0, source.0, target.0),
        Action::Drop { page, tier } => (2, page.0, tier.0, tier.0),
    }
}
