//! Replay with time: every tier is a device with a queue, and requests wait.
//!
//! Requests arrive at the trace's times, or so that a fixed number is always outstanding. The actions
//! of a policy for an access, up to its `Serve`, are done one after the other before the
//! access is answered; later ones go on behind it. A request is answered when its last page
//! access is.

mod handles;
mod layout;
mod simulation;

use std::fmt;

use serde::Serialize;
use thermocline_core::Clients;
use thermocline_device::hdd::{Hdd, HddConfig};
use thermocline_device::queueing::{QueueingDevice, QueueingError};
use thermocline_device::ssd::{
    Placement as DrivePlacement, Precondition, Ssd, SsdConfig, SsdMetrics,
};
use thermocline_device::{Device, ResponseTimes, ResponseUs, Server};

use crate::numbers::years_in_words;
use crate::{LabError, PlacementSummary, Streams};

pub(crate) use layout::{Placement, Slots};
pub(crate) use simulation::{Simulation, Timed};

/// Pages that a cache may hold beyond its capacity while it answers an access.
pub(crate) const SPARE_SLOTS: u64 = 64;

/// Seconds per day.
pub const SECONDS_PER_DAY: f64 = 86_400.0;

/// Average number of outstanding requests above which they must have piled up: no client waits for
/// that many.
const PILED_UP: f64 = 256.0;

/// Arrival times of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// The times of the trace, the first at 0.
    Trace,
    /// Whenever fewer than that number are outstanding, until the trace ends.
    Closed {
        /// Number of outstanding requests, at least 1.
        requests: u32,
    },
}

/// Model of the devices' times.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Arrival times of requests.
    pub arrivals: Arrivals,
    /// The device of each tier, fastest first, the disk last. Each client has one like the first.
    pub devices: Vec<DeviceModel>,
}

impl Timing {
    /// Return the model of every device.
    fn models(&self, clients: Clients) -> Vec<&DeviceModel> {
        let further = usize::from(clients.get()) - 1;
        let firsts = self.devices.iter().take(1).cycle().take(further);
        firsts.chain(&self.devices).collect()
    }

    /// Return the same with a chooser of placement handles for every drive that has handles.
    #[must_use]
    pub(crate) fn with_streams(mut self, chooser: Option<&Streams>) -> Self {
        for model in &mut self.devices {
            if let DeviceModel::Ssd { config, streams } = model {
                *streams = chooser.filter(|_| config.placement.is_some()).cloned();
            }
        }
        self
    }
}

/// A device that queues.
#[derive(Clone, Debug)]
pub enum DeviceModel {
    /// The constants of the cost model, with a number of servers; unlimited if `None`.
    Server {
        /// The constants.
        device: Device,
        /// Number of requests that are served at once.
        servers: Option<u32>,
    },
    /// A hard disk.
    Hdd(Box<HddConfig>),
    /// A solid-state drive. That of a cache tier is as large as the tier, and full at the start.
    Ssd {
        /// The drive.
        config: Box<SsdConfig>,
        /// Chooser of the placement handle of each write to a cache tier; it needs handles.
        streams: Option<Streams>,
    },
}

/// Results of a timed run besides its counts.
#[derive(Clone, Debug, Serialize)]
pub struct TimingSummary {
    /// Response times of requests, in microseconds, by what they do.
    pub response_us: ResponseSummary,
    /// Time from the first arrival to the end of the last page transfer, in seconds.
    pub duration_s: f64,
    /// Requests that lie before the one before them in the trace, and were taken to come with it.
    pub time_reversals: u64,
    /// Requests that wait for their answers at one time, on average over `duration_s`.
    pub outstanding_mean: f64,
    /// Number of requests that were kept outstanding; `None` if requests arrived at the times of
    /// the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<u32>,
    /// Every tier's device, fastest first, the disk last.
    pub devices: Vec<DeviceSummary>,
}

/// Response times by what a request does.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ResponseSummary {
    /// Response times of reads.
    pub read: ResponseUs,
    /// Response times of writes.
    pub write: ResponseUs,
}

/// Utilisation of one tier's device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceSummary {
    /// The tier.
    pub tier: String,
    /// The device.
    pub model: String,
    /// Busy time, in seconds; of several parts at once, the sum.
    pub busy_s: f64,
    /// Response times of the requests that the device was given, in microseconds.
    pub response_us: ResponseSummary,
    /// State of its flash, if it is a solid-state drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssd: Option<TierSsdSummary>,
}

/// State of a tier's flash after a run.
#[derive(Clone, Debug, Serialize)]
pub struct TierSsdSummary {
    /// Its capacity in pages of its own.
    pub logical_pages: u64,
    /// Blocks erased per day, at the rate of the run.
    pub erases_per_day: f64,
    /// Years until the blocks are worn out, if it goes on like this; `None` if nothing was erased.
    pub lifetime_years: Option<f64>,
    /// Pages that the policy wrote to the tier per page that clients wrote; `None` if they wrote none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_write_amplification: Option<f64>,
    /// Pages that the drive programmed per page that clients wrote: the write amplification of policy and
    /// drive together; `None` if clients wrote none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_write_amplification: Option<f64>,
    /// Effect of placement; `None` in a drive without handles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementSummary>,
    /// Its figures.
    #[serde(flatten)]
    pub metrics: Box<SsdMetrics>,
}

/// A device that was built, and how many of its own pages a page of the trace takes.
pub(crate) struct Built {
    pub(crate) device: Box<dyn QueueingDevice + Send>,
    pub(crate) subpages: u32,
}

impl TimingSummary {
    /// Return `true` if requests came faster than the devices answer them, so that response times tell
    /// how long the trace is: who recorded it had a faster machine.
    pub fn is_saturated(&self) -> bool {
        self.closed_loop.is_none() && self.outstanding_mean > PILED_UP
    }
}

impl ResponseSummary {
    /// Summarise the times of reads and of writes, in this order.
    fn of([read, write]: &[ResponseTimes; 2]) -> Self {
        Self { read: read.summary(), write: write.summary() }
    }
}

impl DeviceModel {
    /// Return its name.
    pub fn name(&self) -> String {
        match self {
            Self::Server { device, servers: None } => device.name.clone(),
            Self::Server { device, servers: Some(servers) } => {
                format!("{} ({servers} at a time)", device.name)
            }
            Self::Hdd(config) => config.name.clone(),
            Self::Ssd { config, .. } => config.name.clone(),
        }
    }

    /// Return the placement handles of the drive, and their chooser, if it has some.
    pub(crate) fn placement(&self) -> Option<(DrivePlacement, Option<&Streams>)> {
        match self {
            Self::Ssd { config, streams } => Some((config.placement?, streams.as_ref())),
            Self::Server { .. } | Self::Hdd(_) => None,
        }
    }

    /// Return the device, idle, at time 0; `tier_pages` is the capacity of its tier, if that is a
    /// cache.
    pub(crate) fn build(
        &self,
        page_size_bytes: u64,
        tier_pages: Option<u32>,
    ) -> Result<Built, LabError> {
        let whole = |device: Box<dyn QueueingDevice + Send>| Ok(Built { device, subpages: 1 });
        match self {
            Self::Server { device, servers } => whole(Box::new(Server::new(device, *servers))),
            Self::Hdd(config) => {
                whole(Box::new(Hdd::new(config, page_size_bytes).map_err(QueueingError::from)?))
            }
            Self::Ssd { config, .. } => {
                let subpages = subpages(config, page_size_bytes)?;
                let Some(tier_pages) = tier_pages else {
                    let device = Box::new(Ssd::new(config, None)?);
                    return Ok(Built { device, subpages });
                };
                // A policy brings a page in before it evicts another within one access, so the
                // drive needs a few slots more than the tier.
                let pages = u64::from(tier_pages) + SPARE_SLOTS;
                let config = config.sized_for(pages * u64::from(subpages))?;
                let mut drive = Ssd::new(&config, None)?;
                // A cache tier in use is full: an erased drive would collect nothing for the first
                // time over, and flatter every policy.
                drive.precondition(&Precondition { fill: 1.0, overwrite: 0.0, seed: 1 })?;
                Ok(Built { device: Box::new(drive), subpages })
            }
        }
    }
}

impl TierSsdSummary {
    /// Summarise a device after a run of `duration_s` seconds, if it is a solid-state drive.
    /// `client_writes` are the pages that clients wrote, in pages of the drive.
    fn of(
        device: &dyn QueueingDevice,
        duration_s: f64,
        client_writes: u64,
        placement: Option<PlacementSummary>,
    ) -> Option<Self> {
        let metrics = Box::new(device.ssd_metrics()?);
        let per_client_write =
            |pages: u64| (client_writes > 0).then(|| pages as f64 / client_writes as f64);
        let programs = metrics.host_programs + metrics.gc_copies + metrics.wear_copies;
        Some(Self {
            logical_pages: device.capacity_pages(),
            erases_per_day: metrics.erase_count as f64 / duration_s.max(1e-9) * SECONDS_PER_DAY,
            lifetime_years: metrics.lifetime(duration_s).map(|lifetime| lifetime.years),
            policy_write_amplification: per_client_write(metrics.host_writes),
            total_write_amplification: per_client_write(programs),
            placement,
            metrics,
        })
    }
}

impl fmt::Display for TierSsdSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write amplification {:.3} in the drive", self.metrics.write_amplification)?;
        if let (Some(policy), Some(total)) =
            (self.policy_write_amplification, self.total_write_amplification)
        {
            write!(
                f,
                ", {policy:.3} by the policy, {total:.3} together (pages per page that clients write)"
            )?;
        }
        match self.lifetime_years {
            Some(years) => write!(f, "; lasts {}", years_in_words(years))?,
            None => f.write_str("; nothing was erased")?,
        }
        let Some(placement) = &self.placement else { return Ok(()) };
        let PlacementSummary { streams, handles, identifier_bytes, pages_written } = placement;
        write!(f, "; {handles} placement handles by `{streams}`")?;
        if *identifier_bytes > 0 {
            write!(f, " ({identifier_bytes} bytes)")?;
        }
        let all = pages_written.iter().sum::<u64>().max(1) as f64;
        let shares =
            pages_written.iter().map(|&pages| format!("{:.1}", pages as f64 / all * 100.0));
        write!(f, ": {} % of writes", shares.collect::<Vec<_>>().join(", "))
    }
}

/// Return the pages of the drive per page of the trace.
pub(crate) fn subpages(config: &SsdConfig, page_size_bytes: u64) -> Result<u32, LabError> {
    let drive_bytes = u64::from(config.page_bytes);
    u32::try_from(page_size_bytes / drive_bytes.max(1))
        .ok()
        .filter(|&subpages| subpages > 0 && page_size_bytes.is_multiple_of(drive_bytes))
        .ok_or(LabError::PageMismatch { page_size_bytes, drive_bytes })
}
