//! Section VII: HCA and its baseline on traces.

use rayon::prelude::*;
use thermocline_core::{PageCost, Tier, registry};
use thermocline_device::hdd::HddConfig;
use thermocline_device::queueing::QueueingError;
use thermocline_device::ssd::SsdConfig;
use thermocline_device::{Catalogue, Device};
use thermocline_trace::CompiledTrace;

use super::{Architecture, Experiment, Figures, Point, Reading, TraceResult};
use crate::hierarchy::{DISK, FLASH};
use crate::study::Done;
use thermocline_lab::{
    Arrivals, Configuration, Cost, DeviceModel, LabError, Prices, RunOptions, Summary,
    TierConfiguration, TierSize, Timing, TraceSummary, Watch, run,
};

impl Experiment {
    /// Runs HCA and its baseline on one trace.
    pub(super) fn run_trace(
        &self,
        name: &str,
        trace: &CompiledTrace,
        done: Done<'_>,
    ) -> Result<TraceResult, LabError> {
        let ratios = self.architecture.ram_per_ssd.par_iter();
        let found: Result<Vec<_>, LabError> = ratios
            .map(|&ratio| {
                let points = self.architecture.points(trace, ratio)?;
                let readings = self.architecture.readings(trace, ratio)?;
                done();
                Ok((points, readings))
            })
            .collect();
        let (points, readings): (Vec<_>, Vec<_>) = found?.into_iter().unzip();
        let accesses = (trace.len() as f64).max(1.0);
        Ok(TraceResult {
            workload: name.into(),
            trace: TraceSummary::of(trace).path,
            requests: trace.request_count() as u64,
            write_share: trace.writes() as f64 / accesses,
            points: points.concat(),
            readings: readings.concat(),
        })
    }
}

impl Architecture {
    /// Run one size of RAM, with every transient buffer.
    fn points(&self, trace: &CompiledTrace, ram_per_ssd: f64) -> Result<Vec<Point>, LabError> {
        let measure = |policy, buffer_pages| {
            let configuration =
                self.configuration(trace, policy, ram_per_ssd, buffer_pages, &[])?;
            run(trace, &configuration, RunOptions::default(), &Watch::default())
        };
        // One baseline for all transient buffers: it has none.
        let baseline = measure("lfu", 0)?;
        let buffers = self.buffer_pages.iter();
        let points = buffers.map(|&buffer_pages| {
            let hybrid = measure("hca", buffer_pages)?;
            self.point(ram_per_ssd, buffer_pages, &baseline, &hybrid)
        });
        points.collect()
    }

    /// Run one size of RAM under every reading of the counts' lifetime.
    fn readings(&self, trace: &CompiledTrace, ram_per_ssd: f64) -> Result<Vec<Reading>, LabError> {
        let shares = |policy, buffer_pages, given: &[(String, String)]| {
            let timed = self.configuration(trace, policy, ram_per_ssd, buffer_pages, given)?;
            let configuration = Configuration { timing: None, ..timed };
            let summary = run(trace, &configuration, RunOptions::default(), &Watch::default())?;
            let shares: Vec<f64> = summary.tiers.iter().map(|tier| tier.hit_ratio).collect();
            Ok::<_, LabError>(shares)
        };
        let lfu_rhr = shares("lfu", 0, &[])?[0];
        let reading = |counts: &String| {
            let given = [("counts".to_owned(), counts.clone())];
            let hybrid = shares("hca", self.shown_buffer_pages, &given)?;
            Ok(Reading {
                counts: counts.clone(),
                ram_per_ssd,
                shares: [hybrid[0], hybrid[1], hybrid[2]],
                lfu_rhr,
                same_lfu_rhr: shares("hca", 0, &given)?[0],
            })
        };
        self.counts.iter().map(reading).collect()
    }

    fn point(
        &self,
        ram_per_ssd: f64,
        buffer_pages: u32,
        baseline: &Summary,
        hybrid: &Summary,
    ) -> Result<Point, LabError> {
        let [ssd_ms, disk_ms] = [1, 2].map(|tier| read_ms(hybrid, tier));
        let share = |summary: &Summary, tier: usize| summary.tiers[tier].hit_ratio;
        let ram_ms = self.ram_us / 1000.0;
        let shares = [0, 1, 2].map(|tier| share(hybrid, tier));
        let times_ms = [ram_ms, ssd_ms, disk_ms];
        let baseline_dhr = share(baseline, 1);
        let block_writes = hybrid.gauges.iter().find(|gauge| gauge.name == "block_writes");
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a gauge that counts holds a whole number"
        )]
        let ssd_block_writes = block_writes.map_or(0.0, |gauge| gauge.value) as u64;
        let bytes = |tier: usize| {
            let pages = hybrid.tiers[tier].capacity_pages;
            pages.unwrap_or(hybrid.trace.footprint_pages) * hybrid.trace.page_size_bytes
        };
        let [ram_bytes, ssd_bytes, disk_bytes] = [0, 1, 2].map(bytes);
        let costs = self.ram_per_ssd_price.iter().map(|ratio| {
            let ssd_price = self.ram_price / ratio;
            let hybrid_prices = Prices::new(vec![self.ram_price, ssd_price, self.disk_price])?;
            let baseline_prices = Prices::new(vec![self.ram_price, self.disk_price])?;
            let response_ms = |shares: &[f64], times: &[f64]| -> f64 {
                shares.iter().zip(times).map(|(share, ms)| share * ms).sum()
            };
            let alone = [1.0 - baseline_dhr, baseline_dhr];
            let alone_ms = [ram_ms, read_ms(baseline, 1)];
            Ok([
                baseline_prices.cost(&[ram_bytes, disk_bytes], response_ms(&alone, &alone_ms)),
                hybrid_prices
                    .cost(&[ram_bytes, ssd_bytes, disk_bytes], response_ms(&shares, &times_ms)),
            ])
        });
        Ok(Point {
            ram_per_ssd,
            buffer_pages,
            baseline_rhr: share(baseline, 0),
            hca: Figures::of(shares, baseline_dhr, times_ms),
            ssd_ms,
            disk_ms,
            ssd_page_writes: hybrid.tiers[usize::from(Tier::FLASH.0)].page_writes,
            ssd_block_writes,
            costs: costs.collect::<Result<Vec<[Cost; 2]>, LabError>>()?,
        })
    }

    /// Configure RAM, with an SSD if the policy is HCA, over a disk, one request after the other.
    fn configuration(
        &self,
        trace: &CompiledTrace,
        policy: &str,
        ram_per_ssd: f64,
        buffer_pages: u32,
        parameters: &[(String, String)],
    ) -> Result<Configuration, LabError> {
        let policy = registry::find(policy)?;
        let is_hybrid = policy.name == "hca";
        let catalogue = Catalogue::default();
        let ssd_pages = f64::from(trace.footprint_pages()) * self.ssd_percent / 100.0;
        // The buffer is memory besides the first level, as in the paper; our RAM tier is both.
        let ram_pages = (ssd_pages * ram_per_ssd).round().max(1.0) + f64::from(buffer_pages);
        let ram_ms = self.ram_us / 1000.0;
        let memory = Device::custom("memory", PageCost { read_ms: ram_ms, write_ms: ram_ms })?;
        let tier = |name: &str, pages: f64, device: &Device| TierConfiguration {
            name: name.into(),
            size: TierSize::Pages(pages),
            device: device.clone(),
        };
        let ssd = SsdConfig::preset(&self.ssd)?;
        let disk = catalogue.find(DISK)?.clone();
        let disk_model = HddConfig::preset(DISK).map_err(QueueingError::from)?;
        let flash = catalogue.find(FLASH)?;
        let mut tiers = vec![tier("ram", ram_pages, &memory)];
        let mut devices = vec![DeviceModel::Server { device: memory, servers: None }];
        let mut given = parameters.to_vec();
        if is_hybrid {
            tiers.push(tier("flash", ssd_pages.round().max(1.0), flash));
            devices.push(DeviceModel::Ssd { config: Box::new(ssd), streams: None });
            given.push(("buffer_pages".to_owned(), buffer_pages.to_string()));
        }
        devices.push(DeviceModel::Hdd(Box::new(disk_model)));
        let values = policy.values(&given)?;
        let timing = Some(Timing { arrivals: Arrivals::Closed { requests: 1 }, devices });
        Ok(Configuration { timing, ..Configuration::new(policy.clone(), values, tiers, disk) })
    }
}

/// Return the mean response time of reads of one tier's device, in milliseconds.
fn read_ms(summary: &Summary, tier: usize) -> f64 {
    let timing = summary.timing.as_ref().expect("time was simulated");
    timing.devices[tier].response_us.read.mean / 1000.0
}
