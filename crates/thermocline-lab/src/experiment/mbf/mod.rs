//! The MBF paper's experiments: baselines, hot ratios, false identification, runtime, and what
//! memory, window and number of filters do.
//!
//! * Source: Park and Du, MSST 2011, section IV, Figures 6 and 8 to 15.

mod claims;
mod report;
mod run;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thermocline_core::Nanos;
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::{Identification, LabError, Summary};

pub use claims::claims;
pub use report::report;

/// What is to be run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The title of the report.
    pub title: String,
    /// The paper.
    pub source: String,
    /// Lengths of the units in which distinct pages are counted.
    pub unit_writes: Vec<u64>,
    /// More distinct pages than this do not fit MHF's table.
    pub table_entries: u64,
    /// Memory of MBF and of MHF to sweep.
    pub memory_bytes: Vec<u64>,
    /// Windows of WDAC and periods of DAM to sweep.
    pub window_writes: Vec<u64>,
    /// Numbers of filters to sweep.
    pub filters: Vec<u64>,
    /// The threshold as a share of all weights, for numbers of filters other than the paper's.
    pub threshold_share: f64,
    /// How often a run is repeated to time it.
    pub timed_runs: usize,
    /// Admission to flash.
    pub admission: AdmissionExperiment,
    /// The identifiers compared with WDAC.
    #[serde(rename = "contender")]
    pub contenders: Vec<Contender>,
    /// The traces looked for.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
    /// The traces made on the spot.
    pub generated: Vec<Generated>,
}

/// Admission to flash by MBF.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionExperiment {
    /// The size of memory.
    pub memory: String,
    /// Flash as a multiple of memory.
    pub flash_ratio: f64,
    /// The policies.
    pub policies: Vec<String>,
    /// Bits of each filter, and threshold.
    pub gates: Vec<(u64, f64)>,
}

/// One identifier.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contender {
    /// Its name in the report.
    pub label: String,
    /// Its registered name.
    pub identifier: String,
    /// Parameters that differ from the defaults.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// One trace that is looked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in the report.
    pub name: String,
    /// What the names of its file may begin with, in any case.
    pub files: Vec<String>,
    /// What the paper says of it, if it is one of the paper's.
    pub paper: Option<PaperWorkload>,
}

/// What the paper says of one of its traces.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PaperWorkload {
    /// Its requests (Table II).
    pub requests: u64,
    /// By how much MBF's false identification rate lies below MHF's, in percent.
    pub reduction_percent: f64,
}

/// One trace that is made on the spot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generated {
    /// Its name in the report.
    pub name: String,
    /// Skew of the Zipf distribution.
    pub alpha: f64,
    /// Pages to draw from.
    pub pages: u64,
    /// How many writes.
    pub writes: u64,
    /// The seed.
    pub seed: u64,
}

/// What one workload showed.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadResult {
    /// The workload's name.
    pub workload: String,
    /// The trace that was really used.
    pub trace: String,
    /// Its requests.
    pub requests: u64,
    /// What the paper says of it, if it is one of the paper's.
    pub paper: Option<PaperWorkload>,
    /// Figure 6.
    pub unique_pages: Vec<UniquePages>,
    /// Figures 8, 10, 11 and 13: WDAC, DAM and the contenders, compared with WDAC.
    pub against_wdac: Identification,
    /// MBF and MHF compared with DAM.
    pub against_dam: Identification,
    /// Figure 12.
    pub runtime: Vec<Runtime>,
    /// Figure 13 (d).
    pub memory: Vec<SweepPoint>,
    /// Figure 14.
    pub windows: Vec<SweepPoint>,
    /// Figure 15.
    pub filters: Vec<SweepPoint>,
    /// Admission to flash.
    pub admission: Vec<AdmissionPoint>,
}

/// Distinct pages per unit of writes.
#[derive(Clone, Debug, Serialize)]
pub struct UniquePages {
    /// Writes of a unit.
    pub unit_writes: u64,
    /// Whole units.
    pub units: u64,
    /// Distinct pages of a unit, on average.
    pub mean: f64,
    /// Share of the units with more distinct pages than MHF's table has entries.
    pub overflowing: f64,
}

/// How long an identifier takes.
#[derive(Clone, Debug, Serialize)]
pub struct Runtime {
    /// The identifier.
    pub label: String,
    /// One check-up: recording a write and judging it.
    pub check_ns: f64,
    /// One decay.
    pub decay_ns: f64,
    /// Writes from one decay to the next.
    pub decay_writes: u64,
}

/// One identifier with one parameter set of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepPoint {
    /// The line that the point is on.
    pub series: String,
    /// The parameter swept.
    pub at: u64,
    /// Share of writes found hot.
    pub hot_ratio: f64,
    /// Share of writes that WDAC, with the parameters of Table I, judges differently.
    pub false_identification_rate: f64,
}

/// One policy with one rule of admission.
#[derive(Clone, Debug, Serialize)]
pub struct AdmissionPoint {
    /// The rule.
    pub admission: String,
    /// What the run found.
    pub summary: Summary,
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// [`LabError::BadExperiment`] with line and column.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        super::parse(text)
    }
}

impl Generated {
    /// Makes the trace.
    ///
    /// # Errors
    /// Options that cannot be.
    pub fn trace(&self) -> Result<CompiledTrace, LabError> {
        let options = Options {
            pattern: Pattern::Zipf { alpha: self.alpha },
            requests: self.writes,
            pages: self.pages,
            write_share: 1.0,
            interarrival: Nanos(100_000),
            scatter: true,
            seed: self.seed,
        };
        let mut generator = Generator::new(options)?;
        Ok(CompiledTrace::compile(&mut generator, PageSize::DEFAULT)?)
    }
}
