//! Wear of the flash under the policies: not in the paper, but a consequence of its flash writes.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thermocline_core::registry;
use thermocline_device::hdd::HddConfig;
use thermocline_device::queueing::QueueingError;
use thermocline_device::ssd::SsdConfig;
use thermocline_lab::{
    Arrivals, DeviceModel, LabError, RunOptions, SECONDS_PER_DAY, Timing, Watch, metric, run,
};
use thermocline_trace::CompiledTrace;

use super::{Experiment, Point, are_equal};
use crate::hierarchy::memory_and_flash;
use crate::study::Done;

/// Parameters by which wear is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WearExperiment {
    /// The drive of the flash tier: as large as the tier, and full at the start.
    pub(super) ssd: String,
    /// The disk.
    pub(super) disk: String,
    /// The flash size, as a multiple of memory; one of those of Figure 2.
    pub(super) flash_ratio: f64,
    /// Requests that are outstanding.
    pub(super) closed_loop: u32,
}

/// Wear of the flash under one contender.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Wear {
    /// The contender.
    pub(super) label: String,
    /// Pages that the policy wrote to flash.
    pub(super) flash_writes: u64,
    /// Pages programmed for each of them.
    pub(super) write_amplification: f64,
    /// Blocks erased.
    pub(super) erases: u64,
    /// Blocks erased per day at the recording's rate; `None` if it has no times.
    pub(super) erases_per_day: Option<f64>,
    /// Days until the blocks are worn out, at the recording's rate; `None` if it has no times, or
    /// if nothing was erased.
    pub(super) lifetime_days: Option<f64>,
    /// Mean response time of reads, in microseconds.
    pub(super) read_response_us: f64,
}

/// Return the drive, with flash pages no larger than the trace's, in blocks of the same bytes:
/// drives map parts of their pages, and wear follows what is mapped.
fn drive_of_pages(ssd: &str, page_size_bytes: u64) -> Result<SsdConfig, LabError> {
    let mut config = SsdConfig::preset(ssd)?;
    let parts = u32::try_from(config.page_size_bytes() / page_size_bytes).unwrap_or(1).max(1);
    config.page_bytes /= parts;
    // Blocks keep their bytes, so that an erase frees as much as on the drive of the preset.
    config.pages_per_block *= parts;
    Ok(config)
}

impl Experiment {
    /// Runs the contenders that have a flash tier, each with the parameters that served it best.
    pub(super) fn wear(
        &self,
        trace: &CompiledTrace,
        points: &[Point],
        done: Done<'_>,
    ) -> Result<Vec<Wear>, LabError> {
        let has_flash = |label: &str| {
            self.contenders.iter().any(|one| one.label == label && !one.without_flash)
        };
        let sizes = (self.memory.as_str(), self.wear.flash_ratio);
        let at_ratio = |point: &&Point| are_equal(point.sizes(), sizes) && has_flash(&point.label);
        let points: Vec<&Point> = points.iter().filter(at_ratio).collect();
        points
            .par_iter()
            .map(|point| {
                let wear = self.wear_of(trace, point)?;
                done();
                Ok(wear)
            })
            .collect()
    }

    fn wear_of(&self, trace: &CompiledTrace, point: &Point) -> Result<Wear, LabError> {
        let policy = registry::find(&point.summary.policy.name)?;
        let parameters = point.summary.policy.parameters.iter();
        let parameters: Vec<(String, String)> = parameters
            .map(|(name, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (name.clone(), text)
            })
            .collect();
        let WearExperiment { ssd, disk, flash_ratio, closed_loop } = &self.wear;
        let values = policy.values(&parameters)?;
        let mut configuration = memory_and_flash(policy, values, &self.memory, *flash_ratio)?;
        let memory = configuration.tiers[0].device.clone();
        configuration.timing = Some(Timing {
            arrivals: Arrivals::Closed { requests: *closed_loop },
            devices: vec![
                DeviceModel::Server { device: memory, servers: None },
                DeviceModel::Ssd {
                    config: Box::new(drive_of_pages(ssd, trace.page_size_bytes())?),
                    streams: None,
                },
                DeviceModel::Hdd(Box::new(HddConfig::preset(disk).map_err(QueueingError::from)?)),
            ],
        });
        let summary = run(trace, &configuration, RunOptions::default(), &Watch::default())?;
        let flash_writes = metric::flash(&summary).map_or(0, |tier| tier.page_writes);
        let timing = summary.timing.as_ref();
        let drive = metric::flash_drive(&summary).expect("the flash tier is a solid-state drive");
        let span_s = trace.is_timed().then(|| {
            let thermocline_trace::Summary { first_at, last_at, .. } = trace.summary();
            // The recording's own span: in a closed loop the simulated time says how fast the
            // devices are, not how fast the workload writes.
            (last_at.0 - first_at.0) as f64 / 1e9
        });
        Ok(Wear {
            label: point.label.clone(),
            flash_writes,
            write_amplification: drive.metrics.write_amplification,
            erases: drive.metrics.erase_count,
            erases_per_day: span_s.map(|span_s| {
                drive.metrics.erase_count as f64 / span_s.max(1e-9) * SECONDS_PER_DAY
            }),
            lifetime_days: span_s.and_then(|span_s| Some(drive.metrics.lifetime(span_s)?.days)),
            read_response_us: timing.map_or(0.0, |timing| timing.response_us.read.mean),
        })
    }
}
