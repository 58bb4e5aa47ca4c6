//! The HWB paper's experiments: classes of pages, write buffers over sizes, and what each part of HWB
//! earns.
//!
//! * Source: Li, sections II and IV, Figures 1, 2 and 5 to 7.

mod claims;
mod report;
mod run;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thermocline_core::Nanos;
use thermocline_device::ssd::{Precondition, SsdConfig};
use thermocline_trace::classes::Classes;
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::{BufferSummary, BufferedSsd, LabError};

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
    /// The sizes of the buffer.
    pub sizes: Vec<String>,
    /// The size that the paper's text gives numbers for.
    pub text_size: String,
    /// A page written at least so often is frequently updated.
    pub frequent_writes: u64,
    /// A mean re-use distance of up to this size is short.
    pub short_distance: String,
    /// Requests that are outstanding where the trace's own times are not taken.
    pub closed_loop: u32,
    /// The paper's drive.
    pub paper_drive: Drive,
    /// A drive in use.
    pub used_drive: Drive,
    /// The buffers.
    #[serde(rename = "contender")]
    pub contenders: Vec<Contender>,
    /// HWB with other parameters.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    /// The traces looked for.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
    /// The traces made on the spot.
    pub generated: Vec<Generated>,
}

/// A drive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// Its name in the report.
    pub name: String,
    /// The preset.
    pub ssd: String,
    /// The share of it that the trace's pages take and that is written before the trace; its own
    /// size and fresh if not given.
    pub footprint_share: Option<f64>,
    /// Free pages of a plane below which it collects garbage, as a share.
    pub gc_threshold: Option<f64>,
    /// Whether collecting garbage takes time.
    pub gc_time: Option<bool>,
}

/// One buffer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contender {
    /// Its name in the report.
    pub label: String,
    /// Its registered name.
    pub policy: String,
    /// Parameters that differ from the defaults.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// Whether the paper's figures show it.
    #[serde(default)]
    pub in_figures: bool,
}

/// HWB with other parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name in the report.
    pub label: String,
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
    /// Whether requests come at the recording's times; else a fixed number is outstanding.
    #[serde(default)]
    pub timed: bool,
    /// What the paper says of it, if it is one of the paper's.
    pub paper: Option<PaperWorkload>,
}

/// What the paper says of one of its traces: LRU's figure, then HWB's.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PaperWorkload {
    /// Write hits, in percent.
    pub hits_percent: [f64; 2],
    /// Blocks erased.
    pub erases: [f64; 2],
    /// Mean write response, in microseconds.
    pub response_us: [f64; 2],
    /// Pages of the classes FS, FL, IS and IL, in percent.
    pub classes_percent: Option<[f64; 4]>,
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
    /// Time from one write to the next, in microseconds.
    pub interval_us: u64,
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
    /// Figures 1 and 2.
    pub classes: Classes,
    /// Figures 5 to 7 on a drive in use, with all contenders.
    pub used_drive: Vec<Run>,
    /// The same on the paper's drive; only for the paper's traces.
    pub paper_drive: Vec<Run>,
    /// What each part of HWB earns, on a drive in use.
    pub variants: Vec<Run>,
}

/// One buffer of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its name in the report.
    pub label: String,
    /// Its size.
    pub size: String,
    /// What the run found.
    pub summary: BufferSummary,
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// [`LabError::BadExperiment`] with line and column.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        super::parse(text)
    }

    /// The page size of a trace that states none, or one that the drive's pages do not divide.
    ///
    /// # Errors
    /// A drive that there is not.
    pub fn page_size_bytes(&self, stated: Option<PageSize>) -> Result<u64, LabError> {
        let drive_bytes = SsdConfig::preset(&self.used_drive.ssd)?.page_size_bytes();
        let stated = stated.map(PageSize::bytes).filter(|own| own.is_multiple_of(drive_bytes));
        Ok(stated.unwrap_or(drive_bytes))
    }
}

impl Drive {
    /// The drive for a trace.
    fn ssd(&self, trace: &CompiledTrace) -> Result<BufferedSsd, LabError> {
        let mut config = SsdConfig::preset(&self.ssd)?;
        config.gc_threshold = self.gc_threshold.unwrap_or(config.gc_threshold);
        config.gc_time = self.gc_time.unwrap_or(config.gc_time);
        let ssd = BufferedSsd::new(config);
        let Some(share) = self.footprint_share else { return Ok(ssd) };
        let precondition = Some(Precondition { fill: share, overwrite: 0.0, seed: 1 });
        Ok(BufferedSsd { precondition, ..ssd.fitted(trace, share)? })
    }
}

impl Generated {
    /// Makes the trace.
    ///
    /// # Errors
    /// Options that cannot be.
    pub fn trace(&self, page_size_bytes: u64) -> Result<CompiledTrace, LabError> {
        let options = Options {
            pattern: Pattern::Zipf { alpha: self.alpha },
            requests: self.writes,
            pages: self.pages,
            write_share: 1.0,
            interarrival: Nanos(self.interval_us * 1000),
            scatter: true,
            seed: self.seed,
        };
        let mut generator = Generator::new(options)?;
        Ok(CompiledTrace::compile(&mut generator, PageSize::new(page_size_bytes)?)?)
    }
}
