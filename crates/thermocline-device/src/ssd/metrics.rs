//! Metrics of a drive: its work, its wear, and its lifetime.
//!
//! * Source: the quantities that SSDsim and MQSim report; JEDEC JESD218 for bytes written until the
//!   end of life.
//! * State: a dozen counters and two histograms of response times.
//! * Cost: O(1) per request; a summary walks all blocks.
//! * Deviations: (1) lifetime supposes that wear spreads evenly over all blocks from now on, which is
//!   what levelling is for; how uneven it is so far is reported beside it.

use serde::Serialize;

use super::nand::Nand;
use crate::request::DeviceOp;
use crate::response::{ResponseTimes, ResponseUs};

const SECONDS_PER_DAY: f64 = 86_400.0;
const DAYS_PER_YEAR: f64 = 365.25;
const BYTES_PER_TERABYTE: f64 = 1e12;

/// Metrics of a drive since it was created, or its metrics were reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SsdMetrics {
    /// Pages that the host read.
    pub host_reads: u64,
    /// Number of them that held nothing, and took no flash operation.
    pub unmapped_reads: u64,
    /// Pages that the host wrote.
    pub host_writes: u64,
    /// Pages that the host trimmed.
    pub host_trims: u64,
    /// Flushes of the host.
    pub host_flushes: u64,
    /// Pages read to complete mapping units of which the host wrote a part.
    pub unit_reads: u64,
    /// Pages programmed in the cache of one bit per cell. They are in no other figure.
    pub slc_programs: u64,
    /// Erases of the blocks of that cache.
    pub slc_erases: u64,
    /// Pages programmed for the host, with the rest of mapping units; with a cache of one bit per cell,
    /// those that were folded.
    pub host_programs: u64,
    /// Pages copied by garbage collection, or by merges of block mappings.
    pub gc_copies: u64,
    /// Pages copied by static wear levelling.
    pub wear_copies: u64,
    /// Log blocks that took the place of their data blocks.
    pub switch_merges: u64,
    /// Log blocks that did so after copies from the data blocks.
    pub partial_merges: u64,
    /// Blocks put together in a new place.
    pub full_merges: u64,
    /// Erases of all blocks.
    pub erase_count: u64,
    /// Erases per block over the life of the drive, retired blocks included.
    pub block_erases: BlockErases,
    /// Blocks out of use, those that were bad from the start included.
    pub retired_blocks: u32,
    /// Pages programmed per page that the host wrote; 1 if it wrote none.
    pub write_amplification: f64,
    /// Response times of reads, from arrival to completion, in microseconds.
    pub read_response_us: ResponseUs,
    /// Response times of writes, from arrival to completion, in microseconds.
    pub write_response_us: ResponseUs,
    /// Response times of flushes, from arrival to completion, in microseconds.
    pub flush_response_us: ResponseUs,
    /// The time for which all this was collected, in nanoseconds.
    pub elapsed_ns: u64,
    /// The share of that time for which each channel's bus was taken, 0 to 1.
    pub channel_utilisation: Vec<f64>,
    /// Busy time of the dies of each chip, added up, in nanoseconds; waiting for the bus counts as
    /// work.
    pub chip_busy_ns: Vec<u64>,
    /// Blocks of the drive, retired ones included.
    pub blocks: u64,
    /// Erases that a block bears.
    pub erase_limit: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
}

/// Erases per block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BlockErases {
    /// Erases of the least worn block.
    pub min: u32,
    /// Mean number of erases.
    pub mean: f64,
    /// Erases of the most worn block.
    pub max: u32,
    /// The standard deviation over all blocks.
    pub stdev: f64,
}

/// Lifetime of a new drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lifetime {
    /// Lifetime in days, at the rate of the host's writes so far.
    pub days: f64,
    /// The same in years of 365.25 days.
    pub years: f64,
    /// Lifetime in terabytes (10^12 bytes) that the host writes.
    pub tbw: f64,
}

impl SsdMetrics {
    /// Estimate the lifetime of a new drive if all blocks bear their limit of erases and the host
    /// goes on like that; `elapsed_s` is the time that the host took for it, in seconds. None if
    /// nothing was erased, so that no end is in sight, or if the time is not a number of at least
    /// 0.
    pub fn lifetime(&self, elapsed_s: f64) -> Option<Lifetime> {
        if self.erase_count == 0 || !elapsed_s.is_finite() || elapsed_s < 0.0 {
            return None;
        }
        // Erases that all blocks bear, per erase so far: how often the measured time fits into the
        // life.
        let times = self.blocks as f64 * f64::from(self.erase_limit) / self.erase_count as f64;
        let days = times * elapsed_s / SECONDS_PER_DAY;
        let bytes = self.host_writes as f64 * f64::from(self.page_bytes);
        Some(Lifetime {
            days,
            years: days / DAYS_PER_YEAR,
            tbw: times * bytes / BYTES_PER_TERABYTE,
        })
    }
}

/// Collects what the host asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) host_reads: u64,
    pub(crate) unmapped_reads: u64,
    pub(crate) host_writes: u64,
    pub(crate) host_trims: u64,
    pub(crate) host_flushes: u64,
    pub(crate) unit_reads: u64,
    /// Erases of the drive before all this.
    pub(crate) erases_before: u64,
    reads: ResponseTimes,
    writes: ResponseTimes,
    flushes: ResponseTimes,
}

impl Recorder {
    /// Create a count that begins when the drive has done `erases_before` erases.
    pub(crate) fn new(erases_before: u64) -> Self {
        Self { erases_before, ..Self::default() }
    }

    /// Record that a request completes.
    pub(crate) fn complete(&mut self, op: DeviceOp, response_ns: u64) {
        match op {
            DeviceOp::Read => self.reads.record(response_ns),
            DeviceOp::Write => self.writes.record(response_ns),
            DeviceOp::Trim => {}
            DeviceOp::Flush => {
                self.host_flushes += 1;
                self.flushes.record(response_ns);
            }
        }
    }

    pub(crate) fn read_response_us(&self) -> ResponseUs {
        self.reads.summary()
    }

    pub(crate) fn write_response_us(&self) -> ResponseUs {
        self.writes.summary()
    }

    pub(crate) fn flush_response_us(&self) -> ResponseUs {
        self.flushes.summary()
    }
}

impl BlockErases {
    pub(crate) fn of(nand: &Nand) -> Self {
        let erases = || nand.blocks.iter().map(|block| block.erases);
        let blocks = nand.blocks.len() as f64;
        let mean = nand.erases as f64 / blocks;
        let square = |erases: u32| (f64::from(erases) - mean) * (f64::from(erases) - mean);
        Self {
            min: erases().min().unwrap_or(0),
            mean,
            max: erases().max().unwrap_or(0),
            stdev: libm::sqrt(erases().map(square).sum::<f64>() / blocks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_lasts_until_all_blocks_are_worn() {
        let metrics = SsdMetrics {
            blocks: 1000,
            erase_limit: 3000,
            erase_count: 3000,
            host_writes: 500_000,
            page_bytes: 4096,
            ..SsdMetrics::default()
        };
        // A thousandth of the erases in a day, with 2.048 GB written.
        let lifetime = metrics.lifetime(86_400.0).unwrap();
        assert!((lifetime.days - 1000.0).abs() < 1e-9, "{lifetime:?}");
        assert!((lifetime.years - 1000.0 / 365.25).abs() < 1e-9, "{lifetime:?}");
        assert!((lifetime.tbw - 2.048).abs() < 1e-9, "{lifetime:?}");
        assert_eq!(SsdMetrics::default().lifetime(1.0), None);
        assert_eq!(metrics.lifetime(f64::NAN), None);
    }
}
