//! The HCA paper's experiments: a file system with ARC and L2ARC over hours, and HCA on traces.
//!
//! * Source: Aldahlawi et al., sections VI and VII, Tables I to VIII, Figures 5 to 28.

mod architecture;
mod claims;
mod closed_loop;
mod engine;
mod figures;
mod report;
mod system;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thermocline_device::hdd::Scheduling;
use thermocline_lab::report::Report;
use thermocline_lab::{Cost, LabError};
use thermocline_trace::CompiledTrace;

use crate::claim::{Claim, Stated};
use crate::study::{Done, Study, StudyError, TextTable, add_titled};
use crate::workload::Workload;
use claims::Judge;
use system::{Cell, Snapshot, SystemResult, SystemRun};

pub use figures::Figures;

/// The largest scale for the engine. The engine keeps up to 1024 frames beyond its RAM for pages that
/// a sync has not made durable yet, which must stay few beside the working set.
const ENGINE_SCALE_MAX: u32 = 256;

/// Experiment to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    /// Maximum distance of a share from the paper's that still confirms it, in percentage points.
    tolerance_points: f64,
    /// Maximum distance of a factor from the paper's that still confirms it.
    tolerance_factor: f64,
    /// The file system.
    system: System,
    /// HCA and its baseline.
    architecture: Architecture,
}

/// The file system of section VI: its sizes, in GiB, its devices and what is run on it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct System {
    /// The record size of the file system.
    page_size_bytes: u64,
    /// Duration of each run.
    duration_s: u64,
    /// Interval between snapshots of the figures.
    snapshot_s: u64,
    /// The seed of all accesses.
    seed: u64,
    /// Bytes that one I/O transfers: pages may lie further apart.
    io_bytes: u64,
    /// An I/O in RAM, in milliseconds.
    ram_ms: f64,
    /// An I/O on the SSD.
    ssd_ms: f64,
    /// The disk.
    disk: SystemDisk,
    /// The price of the disk.
    disk_price: f64,
    /// The price of the SSD.
    ssd_price: f64,
    /// RAM in Tables I and II.
    ram_gib: u32,
    /// The SSD in Tables I and II.
    ssd_gib: u32,
    /// The working set in Tables I and II.
    working_set_gib: u32,
    /// RAM in Tables III to VIII.
    ram_gib_choices: Vec<u32>,
    /// The SSD in Tables III to VIII.
    ssd_gib_choices: Vec<u32>,
    /// The working set in Tables III to VIII.
    working_set_gib_choices: Vec<u32>,
    /// Parameters of the L2ARC that differ from the defaults.
    feed: BTreeMap<String, String>,
    /// Workloads to run.
    #[serde(rename = "workload")]
    workloads: Vec<SystemWorkload>,
}

/// The simulated disk of the file system.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SystemDisk {
    /// The preset.
    drive: String,
    /// Order in which it serves the requests that it has.
    scheduling: Scheduling,
    /// Requests that it is given at once.
    queue_depth: usize,
}

/// A Filebench workload, and what the paper measured with it: baseline, then hybrid.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SystemWorkload {
    /// Its name.
    name: String,
    /// Threads that read a random page each, again and again.
    readers: u32,
    /// Writes, if there are any.
    writes: Option<Writes>,
    /// I/Os per second of the workload.
    iops: [f64; 2],
    /// I/Os per second of the file system.
    file_system_iops: [f64; 2],
    /// I/Os per second of SSD and disk.
    storage_iops: [f64; 2],
    /// Shares of hits in RAM, on the SSD and on disk.
    hits_percent: [[f64; 3]; 2],
    /// Latency per I/O, as printed.
    latency_ms: [f64; 2],
    /// Dollars per I/O per second.
    cost_per_io: [f64; 2],
    /// Hours until the working set was on the SSD, if it came so far.
    hours_to_migrate: Option<f64>,
    /// Disk hits: a row per size of the SSD; in it, per working set, a cell per size of RAM.
    disk_percent: Vec<Vec<f64>>,
    /// Hits on the SSD, likewise.
    ssd_percent: Vec<Vec<f64>>,
    /// I/Os per second, likewise.
    cell_iops: Vec<Vec<f64>>,
}

/// Writes of a workload besides its reads.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Writes {
    /// Reads between two batches.
    reads_per_batch: u64,
    /// Random pages of the data that a batch writes.
    pages_per_batch: u32,
    /// Reads between two writes of the log.
    reads_per_log_write: u64,
    /// Consecutive pages of the log that each writes.
    pages_per_log_write: u32,
    /// The share of the working set that is the log.
    log_share: f64,
}

/// The sizes and devices of section VII.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Architecture {
    /// The SSD, in percent of the footprint.
    ssd_percent: f64,
    /// RAM as multiples of the SSD.
    ram_per_ssd: Vec<f64>,
    /// Sizes of the transient buffer.
    buffer_pages: Vec<u32>,
    /// The size with which hit ratios are shown.
    shown_buffer_pages: u32,
    /// The preset of the SSD.
    ssd: String,
    /// An I/O in RAM, in microseconds.
    ram_us: f64,
    /// Lifetimes of counts: readings of `hca`.
    counts: Vec<String>,
    /// Dollars per GiB of RAM.
    ram_price: f64,
    /// Dollars per GiB of disk.
    disk_price: f64,
    /// Price of a GiB of RAM divided by that of a GiB of SSD.
    ram_per_ssd_price: Vec<f64>,
}

/// All results.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Results {
    /// Divisor of sizes and time, if the Filebench workloads ran on the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_scale: Option<u32>,
    /// The Filebench workloads.
    system: Vec<SystemResult>,
    /// The traces.
    traces: Vec<TraceResult>,
}

/// Results of HCA and its baseline on one trace.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TraceResult {
    /// The workload's name.
    workload: String,
    /// The trace that was really used.
    trace: String,
    /// Its requests.
    requests: u64,
    /// Page accesses that write, as a share.
    write_share: f64,
    /// Every size of RAM with every transient buffer.
    points: Vec<Point>,
    /// Every size of RAM with every reading of how long counts live.
    readings: Vec<Reading>,
}

/// HCA under one reading of how long counts live, with the transient buffer that is shown.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Reading {
    /// The reading.
    counts: String,
    /// RAM as a multiple of the SSD.
    ram_per_ssd: f64,
    /// Shares of hits in RAM, on the SSD and on disk.
    shares: [f64; 3],
    /// The share of hits in RAM of LFU, which forgets the counts of pages that it evicts.
    lfu_rhr: f64,
    /// The share of hits in RAM of LFU with counts that live as long as HCA's: HCA without a buffer.
    same_lfu_rhr: f64,
}

/// HCA at one size, beside its baseline.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// RAM as a multiple of the SSD.
    ram_per_ssd: f64,
    /// The transient buffer.
    buffer_pages: u32,
    /// The baseline's share of hits in RAM.
    baseline_rhr: f64,
    /// HCA's figures, with the response times of the simulated drives.
    hca: Figures,
    /// The mean response time of the SSD, in milliseconds.
    ssd_ms: f64,
    /// The mean response time of the disk under HCA.
    disk_ms: f64,
    /// Page writes of the SSD.
    ssd_page_writes: u64,
    /// Writes of groups of pages of one SSD block.
    ssd_block_writes: u64,
    /// Costs of the baseline and HCA at each ratio of prices.
    costs: Vec<[Cost; 2]>,
}

impl Study for Experiment {
    type About = ();
    type Judge = Judge;
    type Results = Results;

    fn check(&self) -> Result<(), String> {
        let System { ram_gib_choices, ssd_gib_choices, working_set_gib_choices, .. } = &self.system;
        let cells = ram_gib_choices.len() * working_set_gib_choices.len();
        for workload in &self.system.workloads {
            let SystemWorkload { name, disk_percent, ssd_percent, cell_iops, .. } = workload;
            for table in [disk_percent, ssd_percent, cell_iops] {
                let rows = ssd_gib_choices.len();
                if table.len() != rows || table.iter().any(|row| row.len() != cells) {
                    return Err(format!(
                        "each table of `{name}` takes {rows} rows of {cells} cells"
                    ));
                }
            }
        }
        let System { page_size_bytes, ram_gib, ssd_gib, working_set_gib, .. } = self.system;
        let mut sizes = vec![ram_gib, ssd_gib, working_set_gib];
        sizes.extend(
            [ram_gib_choices, ssd_gib_choices, working_set_gib_choices].into_iter().flatten(),
        );
        if !page_size_bytes.is_multiple_of(self.system.io_bytes) {
            return Err(format!(
                "page_size_bytes = {page_size_bytes} is not a multiple of io_bytes = {}",
                self.system.io_bytes
            ));
        }
        let bytes_max = u64::from(u32::MAX) * page_size_bytes;
        match sizes.iter().find(|&&gib| u64::from(gib) << 30 > bytes_max) {
            Some(gib) => Err(format!("{gib} GiB of {page_size_bytes} bytes are too many pages")),
            None => Ok(()),
        }
    }

    fn runs_alone(&self) -> usize {
        let System { ram_gib_choices, ssd_gib_choices, working_set_gib_choices, workloads, .. } =
            &self.system;
        let cells = ram_gib_choices.len() * ssd_gib_choices.len() * working_set_gib_choices.len();
        workloads.len() * (2 + cells)
    }

    const HAS_ENGINE: bool = true;

    fn run_alone(
        &self,
        engine_scale: Option<u32>,
        results: &mut Results,
        done: Done<'_>,
    ) -> Result<(), StudyError> {
        if engine_scale.is_some_and(|scale| scale > ENGINE_SCALE_MAX) {
            let reason = format!(
                "a scale of more than {ENGINE_SCALE_MAX} leaves a working set that the engine's own \
                 frames hold, so that nothing reads the disk"
            );
            return Err(StudyError::Engine { reason });
        }
        results.engine_scale = engine_scale;
        results.system = self.system.run(engine_scale, done)?;
        Ok(())
    }

    fn runs(&self, _workload: &Workload<()>) -> usize {
        self.architecture.ram_per_ssd.len()
    }

    fn run(
        &self,
        workload: &Workload<()>,
        trace: &CompiledTrace,
        results: &mut Results,
        done: Done<'_>,
    ) -> Result<(), LabError> {
        results.traces.push(self.run_trace(&workload.name, trace, done)?);
        Ok(())
    }

    fn judge(
        &self,
        _workloads: &[Workload<()>],
        stated: &[Stated<Judge>],
        results: &Results,
    ) -> Vec<Claim> {
        self.judge_all(stated, results)
    }

    fn tables(&self, all: &Results) -> Vec<TextTable> {
        let on_engine = report::on_engine(&self.system, all);
        let results = self.system.workloads.iter().zip(&all.system);
        let titled = |(workload, result): (&_, &SystemResult)| TextTable {
            title: Some(format!("{}{on_engine}", result.workload)),
            ..report::system_table(workload, result)
        };
        results.map(titled).chain(self.page_tables(all)).collect()
    }

    fn page_tables(&self, results: &Results) -> Vec<TextTable> {
        if results.traces.is_empty() {
            return vec![];
        }
        vec![report::readings(&self.architecture.counts, &results.traces)]
    }

    fn report(&self, results: &Results, report: &mut Report) {
        add_titled(report, self.page_tables(results));
        report::add(report, self, results);
    }
}
