//! Hot-data identifiers, over arrays of pages.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{IntoPyArray as _, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use thermocline_core::config::Values;
use thermocline_core::hotness::{BoxedIdentifier, registry};
use thermocline_core::{Heat, PageId};

use crate::arguments::given_value;
use crate::errors::python;

/// A registered identifier with its state.
#[derive(Debug)]
#[pyclass(frozen, module = "thermocline._thermocline")]
pub(crate) struct Identifier(Mutex<BoxedIdentifier>);

#[pymethods]
impl Identifier {
    #[new]
    fn new(name: &str, pages: u32, parameters: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let entry = registry::find(name).map_err(python)?;
        let mut values = Values::defaults(entry.parameters);
        for (parameter, value) in &parameters {
            let value = given_value(parameter, value)?;
            values.set(entry.name, parameter, &value).map_err(python)?;
        }
        Ok(Self(Mutex::new(entry.build(pages, &values).map_err(python)?)))
    }

    fn record<'py>(
        &self,
        py: Python<'py>,
        pages: PyReadonlyArray1<'py, u32>,
    ) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let pages = pages.as_slice()?;
        let hot = py.detach(|| {
            let ids: Vec<PageId> = pages.iter().map(|&page| PageId(page)).collect();
            let mut heats = Vec::with_capacity(ids.len());
            self.state().record_all(&ids, &mut heats);
            heats.into_iter().map(|heat| heat == Heat::Hot).collect::<Vec<bool>>()
        });
        Ok(hot.into_pyarray(py))
    }

    fn hotness<'py>(
        &self,
        py: Python<'py>,
        pages: PyReadonlyArray1<'py, u32>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let pages = pages.as_slice()?;
        let state = self.state();
        let indices: Vec<f64> = pages.iter().map(|&page| state.hotness(PageId(page))).collect();
        Ok(indices.into_pyarray(py))
    }

    #[getter]
    fn threshold(&self) -> f64 {
        self.state().threshold()
    }

    #[getter]
    fn decay_writes(&self) -> Option<u64> {
        self.state().decay_writes()
    }

    #[getter]
    fn memory_bits(&self) -> u64 {
        self.state().memory_bits()
    }

    fn decay(&self) {
        self.state().decay();
    }

    fn reset(&self) {
        self.state().reset();
    }
}

impl Identifier {
    fn state(&self) -> MutexGuard<'_, BoxedIdentifier> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
