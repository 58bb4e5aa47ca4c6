//! Figures of a drive's manufacturer, for comparison with the model.
//!
//! * Source: the document that each data sheet names.
//! * State: none that grows.
//! * Cost: none in a run.
//! * Deviations: (1) vendors measure with their own mix of workers and queues; only the number of
//!   outstanding requests is kept.

use serde::{Deserialize, Serialize};

use super::check::within;
use super::error::SsdError;

/// Figures from a data sheet. Figures that it does not state are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Datasheet {
    /// The document or the page that quotes it.
    pub source: String,
    /// Bandwidth of sequential reads, in megabytes (10^6 bytes) per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential_read_mb_per_s: Option<f64>,
    /// Bandwidth of sequential writes, in megabytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential_write_mb_per_s: Option<f64>,
    /// Random reads of 4 KiB per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_read_iops: Option<f64>,
    /// Random writes of 4 KiB per second, of a drive that is full and has reached a steady state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_write_iops: Option<f64>,
    /// Outstanding requests for all of these, 1 to 65536.
    pub queue_depth: u32,
    /// Time of a random read of 4 KiB that is alone, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_latency_us: Option<f64>,
    /// Time of a random write of 4 KiB that is alone, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_latency_us: Option<f64>,
}

impl Datasheet {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`SsdError::BadSetting`] with what is permitted.
    pub fn validate(&self) -> Result<(), SsdError> {
        let stated = [
            ("sequential_read_mb_per_s", self.sequential_read_mb_per_s),
            ("sequential_write_mb_per_s", self.sequential_write_mb_per_s),
            ("random_read_iops", self.random_read_iops),
            ("random_write_iops", self.random_write_iops),
            ("read_latency_us", self.read_latency_us),
            ("write_latency_us", self.write_latency_us),
        ];
        for (name, value) in stated {
            value.map_or(Ok(()), |value| within(name, value, 1e-3, 1e9))?;
        }
        within("queue_depth", self.queue_depth, 1, 65_536)
    }
}
