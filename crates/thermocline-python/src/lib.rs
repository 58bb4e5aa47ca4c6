//! The Python extension: glue without logic, under the package `thermocline`, which documents it.
//!
//! Long work runs in a thread of its own while the interpreter is free, and the thread that called
//! looks after signals and progress; see `work`.
#![expect(clippy::needless_pass_by_value, reason = "arguments from Python come by value")]

mod arguments;
mod cache;
mod charts;
mod corpus;
mod errors;
mod eviction;
mod functions;
mod home;
mod identifier;
mod lab;
mod policy;
mod recording;
mod sweep;
mod trace;
mod work;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _thermocline {
    #[pymodule_export]
    use crate::cache::Cache;
    #[pymodule_export]
    use crate::charts::chart;
    #[pymodule_export]
    use crate::corpus::{Corpus, RunningCorpus};
    #[pymodule_export]
    use crate::identifier::Identifier;
    #[pymodule_export]
    use crate::lab::{bytes_of, catalogue, find, record, styles};
    #[pymodule_export]
    use crate::sweep::{Running, Sweep};
    #[pymodule_export]
    use crate::trace::Trace;
}
