//! The HWB paper's experiments: classes of pages, write buffers over sizes, and what each part of HWB
//! earns.
//!
//! * Source: Li, sections II and IV, Figures 1, 2 and 5 to 7.

mod claims;
mod report;
mod run;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thermocline_device::ssd::{Precondition, SsdConfig};
use thermocline_lab::report::Report;
use thermocline_lab::{BufferSummary, BufferedSsd, LabError};
use thermocline_trace::classes::Classes;
use thermocline_trace::{CompiledTrace, PageSize};

use crate::claim::{Claim, Stated};
use crate::study::{Done, Study, TextTable};
use crate::workload::Workload;
use claims::Judge;

/// Experiment to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    /// Maximum distance of a measured ratio from the paper's that still confirms it.
    tolerance: f64,
    /// The sizes of the buffer.
    sizes: Vec<String>,
    /// The size that the paper's text gives numbers for.
    text_size: String,
    /// A page written at least so often is frequently updated.
    frequent_writes: u64,
    /// A mean re-use distance of up to this size is short.
    short_distance: String,
    /// Requests that are outstanding where the trace's own times are not taken.
    closed_loop: u32,
    /// The paper's drive.
    paper_drive: Drive,
    /// A drive in use.
    used_drive: Drive,
    /// The buffers.
    #[serde(rename = "contender")]
    contenders: Vec<Contender>,
    /// HWB with other parameters.
    #[serde(rename = "variant")]
    variants: Vec<Variant>,
}

/// A drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Drive {
    /// Its name in the report.
    name: String,
    /// The preset.
    ssd: String,
    /// The share of it that the trace's pages take and that is written before the trace; its own
    /// size and fresh if not given.
    footprint_share: Option<f64>,
    /// Free pages of a plane below which it collects garbage, as a share.
    gc_threshold: Option<f64>,
    /// `true` if collecting garbage takes time.
    gc_time: Option<bool>,
}

/// One buffer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contender {
    /// Its name in the report.
    label: String,
    /// Its registered name.
    policy: String,
    /// Parameters that differ from the defaults.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    /// `true` if the paper's figures show it.
    #[serde(default)]
    in_figures: bool,
}

/// HWB with other parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    /// Its name in the report.
    label: String,
    /// Parameters that differ from the defaults.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

/// Description of a workload in the file.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// `true` if requests come at the recording's times; else a fixed number is outstanding.
    #[serde(default)]
    timed: bool,
    /// Figures of the paper, if it is one of the paper's.
    paper: Option<PaperWorkload>,
}

/// Figures of the paper for one of its traces: LRU's, then HWB's.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaperWorkload {
    /// Write hits, in percent.
    hits_percent: [f64; 2],
    /// Blocks erased.
    erases: [f64; 2],
    /// Mean write response, in microseconds.
    response_us: [f64; 2],
    /// Pages of the classes FS, FL, IS and IL, in percent.
    classes_percent: Option<[f64; 4]>,
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
    /// Figures 1 and 2.
    classes: Classes,
    /// Figures 5 to 7 on a drive in use; buffers that the figures do not show at one size only.
    used_drive: Vec<Run>,
    /// The same on the paper's drive, with the contenders of the paper's figures.
    paper_drive: Vec<Run>,
    /// Contribution of each part of HWB, and of each reading of the paper, on a drive in use.
    variants: Vec<Run>,
}

/// One buffer of one size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// Its name in the report.
    label: String,
    /// Its size.
    size: String,
    /// Results of the run.
    summary: BufferSummary,
}

impl Run {
    /// Return the run of another buffer of the same size.
    fn rival<'a>(&self, runs: &'a [Self], label: &str) -> Option<&'a Self> {
        runs.iter().find(|run| run.label == label && run.size == self.size)
    }
}

impl Study for Experiment {
    type About = About;
    type Judge = Judge;
    type Results = Vec<WorkloadResult>;

    fn page_size(&self, stated: Option<PageSize>) -> Result<PageSize, LabError> {
        // A buffer page is a page of the drive, or evicted pages would be programmed in part.
        let drive_bytes = SsdConfig::preset(&self.used_drive.ssd)?.page_size_bytes();
        let fits = |own: &PageSize| own.bytes().is_multiple_of(drive_bytes);
        Ok(stated.filter(fits).map_or_else(|| PageSize::new(drive_bytes), Ok)?)
    }

    fn runs(&self, _: &Workload<About>) -> usize {
        let figures = self.contenders.iter().filter(|contender| contender.in_figures).count();
        let others = self.contenders.len() - figures;
        2 * figures * self.sizes.len() + others + self.variants.len()
    }

    fn run(
        &self,
        workload: &Workload<About>,
        trace: &CompiledTrace,
        results: &mut Self::Results,
        done: Done<'_>,
    ) -> Result<(), LabError> {
        results.push(self.run_workload(workload, trace, done)?);
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
        vec![report::overview(self, results)]
    }

    fn page_tables(&self, results: &Self::Results) -> Vec<TextTable> {
        if results.is_empty() { vec![] } else { vec![report::sensitivity(self, results)] }
    }

    fn report(&self, results: &Self::Results, report: &mut Report) {
        report::add(report, self, results);
    }
}

impl Drive {
    /// Return the drive for a trace.
    fn ssd(&self, trace: &CompiledTrace) -> Result<BufferedSsd, LabError> {
        let mut config = SsdConfig::preset(&self.ssd)?;
        config.gc_threshold = self.gc_threshold.unwrap_or(config.gc_threshold);
        config.gc_time = self.gc_time.unwrap_or(config.gc_time);
        let ssd = BufferedSsd::new(config);
        let Some(share) = self.footprint_share else { return Ok(ssd) };
        // A fresh drive collects nothing for a long time; filled with the pages of the trace, it is
        // a drive in use.
        let precondition = Some(Precondition { fill: share, overwrite: 0.0, seed: 1 });
        Ok(BufferedSsd { precondition, ..ssd.fitted(trace, share)? })
    }
}
