//! Corpora: many traces named in a manifest, run through many policies and sizes, and compared by the
//! statistics of the field.
//!
//! | step | what | |
//! | --- | --- | --- |
//! | [`Manifest`] | which traces there are, with licence, hash and split | `manifest` |
//! | [`Manifest::check`] | files are there, readable and as the manifest says | `check` |
//! | [`fetch()`], [`compile`] | bring files into place; decode them once | `fetch` |
//! | [`Plan`] | all points of a run, and running those that are missing | `plan`, `run` |
//! | [`results`] | the Parquet data set | |
//! | [`Plan::verify`] | running a part of a study again, and comparing it with the results | `verify` |
//! | [`Study`] | distributions, ranks and intervals over traces | `study`, [`statistics`] |

mod check;
mod fetch;
mod manifest;
mod plan;
pub mod results;
mod run;
pub mod statistics;
mod study;
mod verify;

pub use check::{Checked, Found};
pub use fetch::{Fetched, compile, fetch};
pub use manifest::{Class, Dataset, Entry, Generated, Manifest, Split};
pub use plan::{Plan, Request, Shard};
pub use run::{Outcome, Progress, RunSettings, Running, Unit};
pub use study::{
    Baseline, DatasetStatistics, Filtered, Filters, METRICS, Pair, PolicyStatistics, Section,
    Study, StudyOptions,
};
pub use verify::{
    Difference, DifferenceKind, TraceOutcome, Verification, VerifiedTrace, VerifySettings,
};
