//! Replay with time: every tier is a device with a queue, and requests wait.
//!
//! Requests arrive at the trace's times, or so that a fixed number is always outstanding. What a
//! policy does for an access up to its `Serve` is done one step after the other before the access is
//! answered; what it does after that goes on behind it. A request is answered when its last page
//! access is.

mod engine;
mod layout;

use serde::Serialize;
use thermocline_device::hdd::HddConfig;
use thermocline_device::queueing::QueueingDevice;
use thermocline_device::{Device, ResponseUs, Server};

use crate::LabError;

pub(crate) use engine::{Engine, Timed};
pub(crate) use layout::Placement;

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At the times of the trace, the first at 0.
    Trace,
    /// So that this many are outstanding, until the trace ends.
    Closed {
        /// How many, at least 1.
        requests: u32,
    },
}

/// How long the devices take.
#[derive(Clone, Debug)]
pub struct Timing {
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// The device of each tier, fastest first, the disk last.
    pub devices: Vec<DeviceModel>,
}

/// A device that queues.
#[derive(Clone, Debug)]
pub enum DeviceModel {
    /// The constants of the cost model, served by so many servers; by as many as it takes if none.
    Server {
        /// The constants.
        device: Device,
        /// How many requests are served at once.
        servers: Option<u32>,
    },
    /// A hard disk.
    Hdd(Box<HddConfig>),
}

/// What a timed run found besides its counts.
#[derive(Clone, Debug, Serialize)]
pub struct TimingSummary {
    /// Response times of requests, in microseconds, by what they do.
    pub response_us: ResponseSummary,
    /// From the first arrival to the end of the last page transfer, in seconds.
    pub duration_s: f64,
    /// Requests that lie before the one before them in the trace, and were taken to come with it.
    pub time_reversals: u64,
    /// Every tier's device, fastest first, the disk last.
    pub devices: Vec<DeviceSummary>,
}

/// Response times by what a request does.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ResponseSummary {
    /// Of reads.
    pub read: ResponseUs,
    /// Of writes.
    pub write: ResponseUs,
}

/// How busy one tier's device was.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceSummary {
    /// The tier.
    pub tier: String,
    /// The device.
    pub model: String,
    /// For how long it worked, in seconds; of several parts at once, the sum.
    pub busy_s: f64,
}

impl DeviceModel {
    /// Its name.
    pub fn name(&self) -> String {
        match self {
            Self::Server { device, servers: None } => device.name.clone(),
            Self::Server { device, servers: Some(servers) } => {
                format!("{} ({servers} at a time)", device.name)
            }
            Self::Hdd(config) => config.name.clone(),
        }
    }

    /// The device, idle, at time 0.
    pub(crate) fn build(
        &self,
        page_size_bytes: u64,
    ) -> Result<Box<dyn QueueingDevice + Send>, LabError> {
        use thermocline_device::hdd::Hdd;
        Ok(match self {
            Self::Server { device, servers } => Box::new(Server::new(device, *servers)),
            Self::Hdd(config) => Box::new(
                Hdd::new(config, page_size_bytes)
                    .map_err(thermocline_device::queueing::QueueingError::from)?,
            ),
        })
    }
}
