//! Metrics of a disk: its work, and the times of its requests.
//!
//! * Source: the quantities that DiskSim reports for a disk.
//! * State: a dozen counters and two histograms of response times.
//! * Cost: O(1) per request and per job.
//! * Deviations: (1) the work of a job counts when it begins, since all of it is known then; (2) trims
//!   have no response times, as they wait for nothing.

use serde::Serialize;

use super::mechanism::Cost;
use crate::request::DeviceOp;
use crate::response::{ResponseTimes, ResponseUs};

/// Metrics of a disk since it was created.
///
/// Requests count when they complete, work of the mechanism when it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HddMetrics {
    /// Completed requests of all kinds.
    pub requests: u64,
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Completed trims.
    pub trims: u64,
    /// Completed flushes.
    pub flushes: u64,
    /// Pages of the completed reads.
    pub pages_read: u64,
    /// Pages of the completed writes.
    pub pages_written: u64,
    /// Reads that the cache could answer when they arrived.
    pub read_hits: u64,
    /// Reads whose sectors the drive was about to read ahead when they arrived.
    pub read_ahead_hits: u64,
    /// Writes that were done when the cache had them.
    pub buffered_writes: u64,
    /// Transfers from the write cache to the medium.
    pub cleanings: u64,
    /// Time for which the mechanism worked for requests and for the write cache, in nanoseconds;
    /// the sum of the next three.
    pub busy_ns: u64,
    /// Moving the arm, switching heads before a transfer, and settling, in nanoseconds.
    pub seek_ns: u64,
    /// Waiting for first sectors, in nanoseconds.
    pub rotation_ns: u64,
    /// Transfers from first to last sectors, with the switches between, in nanoseconds.
    pub transfer_ns: u64,
    /// Reading ahead, which gives way to everything else, in nanoseconds; counts when it ends.
    pub read_ahead_ns: u64,
    /// Response times of reads, from arrival to completion, in microseconds.
    pub read_response_us: ResponseUs,
    /// Response times of writes, from arrival to completion, in microseconds.
    pub write_response_us: ResponseUs,
}

/// Collects the metrics.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    pub(crate) read_hits: u64,
    pub(crate) read_ahead_hits: u64,
    pub(crate) buffered_writes: u64,
    pub(crate) cleanings: u64,
    pub(crate) read_ahead_ns: u64,
    busy_ns: u64,
    spent: Cost,
    pages_read: u64,
    pages_written: u64,
    trims: u64,
    flushes: u64,
    reads: ResponseTimes,
    writes: ResponseTimes,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            read_hits: 0,
            read_ahead_hits: 0,
            buffered_writes: 0,
            cleanings: 0,
            read_ahead_ns: 0,
            busy_ns: 0,
            spent: Cost::default(),
            pages_read: 0,
            pages_written: 0,
            trims: 0,
            flushes: 0,
            reads: ResponseTimes::new(),
            writes: ResponseTimes::new(),
        }
    }

    /// Record the cost of a job of the mechanism.
    pub(crate) const fn add(&mut self, cost: Cost) {
        self.busy_ns += cost.total_ns();
        self.spent.seek_ns += cost.seek_ns;
        self.spent.rotation_ns += cost.rotation_ns;
        self.spent.transfer_ns += cost.transfer_ns;
    }

    /// Record that a request completes.
    pub(crate) fn complete(&mut self, op: DeviceOp, pages: u64, response_ns: u64) {
        match op {
            DeviceOp::Read => {
                self.pages_read += pages;
                self.reads.record(response_ns);
            }
            DeviceOp::Write => {
                self.pages_written += pages;
                self.writes.record(response_ns);
            }
            DeviceOp::Trim => self.trims += 1,
            DeviceOp::Flush => self.flushes += 1,
        }
    }

    /// Return the number of requests that completed.
    pub(crate) fn requests(&self) -> u64 {
        self.reads.count() + self.writes.count() + self.trims + self.flushes
    }

    pub(crate) fn metrics(&self) -> HddMetrics {
        HddMetrics {
            requests: self.requests(),
            reads: self.reads.count(),
            writes: self.writes.count(),
            trims: self.trims,
            flushes: self.flushes,
            pages_read: self.pages_read,
            pages_written: self.pages_written,
            read_hits: self.read_hits,
            read_ahead_hits: self.read_ahead_hits,
            buffered_writes: self.buffered_writes,
            cleanings: self.cleanings,
            busy_ns: self.busy_ns,
            seek_ns: self.spent.seek_ns,
            rotation_ns: self.spent.rotation_ns,
            transfer_ns: self.spent.transfer_ns,
            read_ahead_ns: self.read_ahead_ns,
            read_response_us: self.reads.summary(),
            write_response_us: self.writes.summary(),
        }
    }

    pub(crate) fn assert_invariants(&self) {
        assert_eq!(
            self.busy_ns,
            self.spent.total_ns(),
            "the time of the mechanism is accounted for"
        );
    }
}
