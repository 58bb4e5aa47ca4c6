//! The HCA paper's experiments: a file system with ARC and L2ARC over hours, and HCA on traces.
//!
//! * Source: Aldahlawi et al., sections VI and VII, Tables I to VIII, Figures 5 to 28.

mod architecture;
mod claims;
mod closed_loop;
mod report;
mod system;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Cost, HcaSummary, LabError};

pub use claims::claims;
pub use report::{report, system_table};
pub use system::{Cell, Share, Snapshot, SystemResult, SystemRun};

/// What is to be run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The title of the report.
    pub title: String,
    /// The paper.
    pub source: String,
    /// The file system.
    pub system: System,
    /// HCA and its baseline.
    pub architecture: Architecture,
    /// The traces looked for.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
}

/// The file system of section VI: its sizes, in GiB, its devices and what is run on it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// The record size of the file system.
    pub page_size_bytes: u64,
    /// How long each run takes.
    pub duration_s: u64,
    /// How often figures are taken.
    pub snapshot_s: u64,
    /// The seed of all accesses.
    pub seed: u64,
    /// An I/O in RAM, in milliseconds.
    pub ram_ms: f64,
    /// An I/O on the SSD.
    pub ssd_ms: f64,
    /// An I/O on disk.
    pub disk_ms: f64,
    /// The price of the disk.
    pub disk_price: f64,
    /// The price of the SSD.
    pub ssd_price: f64,
    /// RAM in Tables I and II.
    pub ram_gib: u32,
    /// The SSD in Tables I and II.
    pub ssd_gib: u32,
    /// The working set in Tables I and II.
    pub working_set_gib: u32,
    /// RAM in Tables III to VIII.
    pub ram_gib_choices: Vec<u32>,
    /// The SSD in Tables III to VIII.
    pub ssd_gib_choices: Vec<u32>,
    /// The working set in Tables III to VIII.
    pub working_set_gib_choices: Vec<u32>,
    /// Parameters of the L2ARC that differ from the defaults.
    pub feed: BTreeMap<String, String>,
    /// What is run.
    #[serde(rename = "workload")]
    pub workloads: Vec<SystemWorkload>,
}

/// A Filebench workload, and what the paper measured with it: baseline, then hybrid.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemWorkload {
    /// Its name.
    pub name: String,
    /// Threads that read a random page each, again and again.
    pub readers: u32,
    /// What is written, if anything is.
    pub writes: Option<Writes>,
    /// I/Os per second of the workload.
    pub iops: [f64; 2],
    /// I/Os per second of the file system.
    pub file_system_iops: [f64; 2],
    /// I/Os per second of SSD and disk.
    pub storage_iops: [f64; 2],
    /// Shares of hits in RAM, on the SSD and on disk.
    pub hits_percent: [[f64; 3]; 2],
    /// Latency per I/O, as printed.
    pub latency_ms: [f64; 2],
    /// Dollars per I/O per second.
    pub cost_per_io: [f64; 2],
    /// Hours until the working set was on the SSD, if it came so far.
    pub hours_to_migrate: Option<f64>,
    /// Disk hits: a row per size of the SSD; in it, per working set, a cell per size of RAM.
    pub disk_percent: Vec<Vec<f64>>,
    /// Hits on the SSD, likewise.
    pub ssd_percent: Vec<Vec<f64>>,
    /// I/Os per second, likewise.
    pub cell_iops: Vec<Vec<f64>>,
}

/// What a workload writes besides.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Writes {
    /// Reads between two batches.
    pub reads_per_batch: u64,
    /// Random pages of the data that a batch writes.
    pub pages_per_batch: u32,
    /// Reads between two writes of the log.
    pub reads_per_log_write: u64,
    /// Consecutive pages of the log that each writes.
    pub pages_per_log_write: u32,
    /// The share of the working set that is the log.
    pub log_share: f64,
}

/// The sizes and devices of section VII.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// The SSD, in percent of the footprint.
    pub ssd_percent: f64,
    /// RAM as multiples of the SSD.
    pub ram_per_ssd: Vec<f64>,
    /// Sizes of the transient buffer.
    pub buffer_pages: Vec<u32>,
    /// The size with which hit ratios are shown.
    pub shown_buffer_pages: u32,
    /// The preset of the SSD.
    pub ssd: String,
    /// An I/O in RAM, in microseconds.
    pub ram_us: f64,
    /// Dollars per GiB of RAM.
    pub ram_price: f64,
    /// Dollars per GiB of disk.
    pub disk_price: f64,
    /// How many times a GiB of SSD is cheaper than one of RAM.
    pub ram_per_ssd_price: Vec<f64>,
}

/// One trace that is looked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in the report.
    pub name: String,
    /// What the names of its file may begin with, in any case.
    pub files: Vec<String>,
}

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The Filebench workloads.
    pub system: Vec<SystemResult>,
    /// The traces.
    pub traces: Vec<TraceResult>,
}

/// What HCA and its baseline do on one trace.
#[derive(Clone, Debug, Serialize)]
pub struct TraceResult {
    /// The workload's name.
    pub workload: String,
    /// The trace that was really used.
    pub trace: String,
    /// Its requests.
    pub requests: u64,
    /// Page accesses that write, as a share.
    pub write_share: f64,
    /// Every size of RAM with every transient buffer.
    pub points: Vec<Point>,
}

/// HCA at one size, beside its baseline.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// RAM as a multiple of the SSD.
    pub ram_per_ssd: f64,
    /// The transient buffer.
    pub buffer_pages: u32,
    /// The baseline's share of hits in RAM.
    pub baseline_rhr: f64,
    /// HCA's figures, with the response times of the simulated drives.
    pub hca: HcaSummary,
    /// The mean response time of the SSD, in milliseconds.
    pub ssd_ms: f64,
    /// The mean response time of the disk under HCA.
    pub disk_ms: f64,
    /// Page writes of the SSD.
    pub ssd_page_writes: u64,
    /// Writes of groups of pages of one SSD block.
    pub ssd_block_writes: u64,
    /// What the baseline and HCA cost at each ratio of prices.
    pub costs: Vec<[Cost; 2]>,
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// [`LabError::BadExperiment`] with line and column, or what does not fit together.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        let experiment: Self = super::parse(text)?;
        let System { ram_gib_choices, ssd_gib_choices, working_set_gib_choices, .. } =
            &experiment.system;
        let cells = ram_gib_choices.len() * working_set_gib_choices.len();
        for workload in &experiment.system.workloads {
            let SystemWorkload { disk_percent, ssd_percent, cell_iops, .. } = workload;
            for table in [disk_percent, ssd_percent, cell_iops] {
                let is_whole = table.len() == ssd_gib_choices.len()
                    && table.iter().all(|row| row.len() == cells);
                if !is_whole {
                    let rows = ssd_gib_choices.len();
                    return Err(LabError::BadExperiment {
                        reason: format!(
                            "each table of `{}` takes {rows} rows of {cells} cells",
                            workload.name
                        ),
                    });
                }
            }
        }
        Ok(experiment)
    }

    /// How many runs the file system takes.
    pub fn system_runs(&self) -> usize {
        let System { ram_gib_choices, ssd_gib_choices, working_set_gib_choices, workloads, .. } =
            &self.system;
        let cells = ram_gib_choices.len() * ssd_gib_choices.len() * working_set_gib_choices.len();
        workloads.len() * (2 + cells)
    }

    /// How many sizes one trace takes.
    pub fn runs_per_trace(&self) -> usize {
        self.architecture.ram_per_ssd.len()
    }
}
