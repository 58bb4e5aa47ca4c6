//! Settings of a drive whose programs and erases stop for reads.
//!
//! * Source: Wu and He, *Reducing SSD Read Latency via NAND Flash Program and Erase Suspension*, FAST '12.
//! * State: none; see `service`.
//! * Cost: O(1).
//! * Deviations: those of `service`.

use serde::{Deserialize, Serialize};

use super::check::{bad, within};
use super::config::Scheduling;
use super::error::SsdError;

/// Latencies and number of the stops of programs and erases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspension {
    /// Time in which the cells stop a program before they read, in microseconds, 0 to 10^6. A program
    /// that is done sooner is not stopped.
    pub program_us: f64,
    /// The same for an erase.
    pub erase_us: f64,
    /// Stops of one operation at most, 1 to 65536.
    #[serde(default = "once")]
    pub times: u32,
}

impl Suspension {
    pub(crate) fn check(self, scheduling: Scheduling) -> Result<(), SsdError> {
        within("program_us", self.program_us, 0.0, 1e6)?;
        within("erase_us", self.erase_us, 0.0, 1e6)?;
        within("times", self.times, 1, 65_536)?;
        if scheduling == Scheduling::ReadFirst {
            return Ok(());
        }
        Err(bad("scheduling", "fifo", "\"read-first\" with suspension"))
    }
}

const fn once() -> u32 {
    1
}
