//! The MBF paper's experiments: baselines, hot ratios, false identification, runtime, and what
//! memory, window and number of filters do.
//!
//! * Source: Park and Du, MSST 2011, section IV, Figures 6 and 8 to 15.

mod claims;
mod report;
mod run;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thermocline_lab::report::Report;
use thermocline_lab::{Identification, LabError, Summary};
use thermocline_trace::CompiledTrace;

use crate::claim::{Claim, Stated};
use crate::study::{Done, Study, TextTable, add_titled};
use crate::workload::Workload;
use claims::Judge;

/// Experiment to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    /// Maximum distance of a measured percentage from the paper's that still confirms it, in
    /// percentage points.
    tolerance_points: f64,
    /// Lengths of the units in which distinct pages are counted.
    unit_writes: Vec<u64>,
    /// More distinct pages than this do not fit MHF's table.
    table_entries: u64,
    /// Memory of MBF and of MHF to sweep.
    memory_bytes: Vec<u64>,
    /// Windows of WDAC and periods of DAM to sweep.
    window_writes: Vec<u64>,
    /// Numbers of filters to sweep.
    filters: Vec<u64>,
    /// The threshold as a share of all weights, for numbers of filters other than the paper's.
    threshold_share: f64,
    /// Number of repetitions of a run that is timed.
    timed_runs: usize,
    /// Admission to flash.
    admission: AdmissionExperiment,
    /// The identifiers compared with WDAC.
    #[serde(rename = "contender")]
    contenders: Vec<Contender>,
}

/// Admission to flash by MBF.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdmissionExperiment {
    /// The size of memory.
    memory: String,
    /// Flash as a multiple of memory.
    flash_ratio: f64,
    /// The policies.
    policies: Vec<String>,
    /// Bits of each filter, and threshold.
    gates: Vec<(u64, f64)>,
}

/// One identifier.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contender {
    /// Its name in the report.
    label: String,
    /// Its registered name.
    identifier: String,
    /// Parameters that differ from the defaults.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

/// Description of a workload in the file.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// Figures of the paper, if it is one of the paper's.
    paper: Option<PaperWorkload>,
}

/// Figures of the paper for one of its traces.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaperWorkload {
    /// Its requests (Table II).
    requests: u64,
    /// Reduction of MBF's false identification rate against MHF's, in percent.
    reduction_percent: f64,
}

/// Results of one workload.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkloadResult {
    /// The workload's name.
    workload: String,
    /// The trace that was really used.
    trace: String,
    /// Its requests.
    requests: u64,
    /// Figures of the paper, if it is one of the paper's.
    paper: Option<PaperWorkload>,
    /// Figure 6.
    unique_pages: Vec<UniquePages>,
    /// Figures 8, 10, 11 and 13: WDAC, DAM and the contenders, compared with WDAC.
    against_wdac: Identification,
    /// MBF and MHF compared with DAM.
    against_dam: Identification,
    /// Figure 12.
    runtime: Vec<Runtime>,
    /// Figure 13 (d).
    memory: Vec<SweepPoint>,
    /// Figure 14.
    windows: Vec<SweepPoint>,
    /// Figure 15.
    filters: Vec<SweepPoint>,
    /// Admission to flash.
    admission: Vec<AdmissionPoint>,
}

/// Distinct pages per unit of writes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct UniquePages {
    /// Writes of a unit.
    unit_writes: u64,
    /// Whole units.
    units: u64,
    /// Distinct pages of a unit, on average.
    mean: f64,
    /// Share of the units with more distinct pages than MHF's table has entries.
    overflowing: f64,
}

/// Run time of an identifier.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Runtime {
    /// The identifier.
    label: String,
    /// One check-up: recording a write and judging it.
    check_ns: f64,
    /// One decay.
    decay_ns: f64,
    /// Writes from one decay to the next.
    decay_writes: u64,
}

/// One identifier with one parameter set of a sweep.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SweepPoint {
    /// The line that the point is on.
    series: String,
    /// The parameter swept.
    at: u64,
    /// Share of writes found hot.
    hot_ratio: f64,
    /// Share of writes that WDAC, with the parameters of Table I, judges differently.
    false_identification_rate: f64,
}

/// One policy with one rule of admission.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AdmissionPoint {
    /// The rule.
    admission: String,
    /// Results of the run.
    summary: Summary,
}

impl Study for Experiment {
    type About = About;
    type Judge = Judge;
    type Results = Vec<WorkloadResult>;

    /// Return 1: all that is done on a trace is one run, so that measured times do not disturb one another.
    fn runs(&self, _workload: &Workload<About>) -> usize {
        1
    }

    fn run(
        &self,
        workload: &Workload<About>,
        trace: &CompiledTrace,
        results: &mut Self::Results,
        done: Done<'_>,
    ) -> Result<(), LabError> {
        results.push(self.run_workload(&workload.name, workload.about.paper, trace)?);
        done();
        Ok(())
    }

    fn judge(
        &self,
        workloads: &[Workload<About>],
        stated: &[Stated<Judge>],
        results: &Self::Results,
    ) -> Vec<Claim> {
        self.judge_all(workloads, stated, results)
    }

    fn tables(&self, results: &Self::Results) -> Vec<TextTable> {
        [report::overview(results)].into_iter().chain(self.page_tables(results)).collect()
    }

    fn page_tables(&self, results: &Self::Results) -> Vec<TextTable> {
        if results.is_empty() {
            return vec![];
        }
        vec![report::layouts(results), report::filters(results)]
    }

    fn report(&self, results: &Self::Results, report: &mut Report) {
        add_titled(report, self.page_tables(results));
        report::add(report, self, results);
    }
}
