//! Records of each access of a run, as columns.

use numpy::IntoPyArray as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use thermocline_core::{Action, Actions, PageId, Tier};
use thermocline_lab::Recorder;
use thermocline_trace::CompiledTrace;

use crate::errors::configuration;

const SERVE: u8 = 0;
const COPY: u8 = 1;
const DROP: u8 = 2;
/// No tier.
const NONE: u8 = u8::MAX;

/// Columns that grow with a run; those that nobody asked for are none.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// Tier that had the page, for each access.
    found: Option<Vec<u8>>,
    actions: Option<ActionColumns>,
    evictions: Option<EvictionColumns>,
}

/// A row per action.
#[derive(Debug, Default)]
struct ActionColumns {
    accesses: Vec<u64>,
    kinds: Vec<u8>,
    pages: Vec<u32>,
    sources: Vec<u8>,
    targets: Vec<u8>,
}

/// A row per page that a cache tier gives up.
#[derive(Debug, Default)]
struct EvictionColumns {
    accesses: Vec<u64>,
    pages: Vec<u32>,
    tiers: Vec<u8>,
}

impl Recording {
    /// Columns of what is named.
    pub(crate) fn new(names: &[String]) -> PyResult<Self> {
        let mut recording = Self::default();
        for name in names {
            match name.as_str() {
                "hits" => recording.found = Some(vec![]),
                "actions" => recording.actions = Some(ActionColumns::default()),
                "evictions" => recording.evictions = Some(EvictionColumns::default()),
                _ => {
                    return Err(configuration(format!(
                        "record: {name:?} cannot be recorded: expected \"hits\", \"actions\" or \"evictions\""
                    )));
                }
            }
        }
        Ok(recording)
    }

    /// Return the columns as arrays, by names like `actions.page`.
    pub(crate) fn into_arrays(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let arrays = PyDict::new(py);
        if let Some(found) = self.found {
            arrays.set_item("hits.found", found.into_pyarray(py))?;
        }
        if let Some(columns) = self.actions {
            arrays.set_item("actions.access", columns.accesses.into_pyarray(py))?;
            arrays.set_item("actions.action", columns.kinds.into_pyarray(py))?;
            arrays.set_item("actions.page_id", columns.pages.into_pyarray(py))?;
            arrays.set_item("actions.source", columns.sources.into_pyarray(py))?;
            arrays.set_item("actions.target", columns.targets.into_pyarray(py))?;
        }
        if let Some(columns) = self.evictions {
            arrays.set_item("evictions.access", columns.accesses.into_pyarray(py))?;
            arrays.set_item("evictions.page_id", columns.pages.into_pyarray(py))?;
            arrays.set_item("evictions.tier", columns.tiers.into_pyarray(py))?;
        }
        Ok(arrays)
    }

    fn take(&mut self, index: usize, actions: &Actions) {
        for &action in actions.as_slice() {
            if let (Some(found), Action::Serve { found: Tier(tier), .. }) =
                (&mut self.found, action)
            {
                found.push(tier);
            }
            if let (Some(evictions), Action::Drop { page, tier }) = (&mut self.evictions, action) {
                evictions.accesses.push(index as u64);
                evictions.pages.push(page.0);
                evictions.tiers.push(tier.0);
            }
            if let Some(columns) = &mut self.actions {
                columns.push(index, action);
            }
        }
    }
}

impl ActionColumns {
    fn push(&mut self, index: usize, action: Action) {
        let (kind, PageId(page), source, target) = match action {
            Action::Serve { page, tier, .. } => (SERVE, page, tier.0, NONE),
            Action::Copy { page, source, target } => (COPY, page, source.0, target.0),
            Action::Drop { page, tier } => (DROP, page, tier.0, NONE),
        };
        self.accesses.push(index as u64);
        self.kinds.push(kind);
        self.pages.push(page);
        self.sources.push(source);
        self.targets.push(target);
    }
}

impl Recorder for Recording {
    fn access(&mut self, _trace: &CompiledTrace, index: usize, actions: &Actions) {
        self.take(index, actions);
    }

    fn between_accesses(&mut self, _trace: &CompiledTrace, index: usize, actions: &Actions) {
        self.take(index, actions);
    }
}
