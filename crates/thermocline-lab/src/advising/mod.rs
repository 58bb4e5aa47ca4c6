//! Forecasts, with intervals, of the effect of caches on a workload of which a sample is known.
//!
//! 1. A [`RunningSample`] becomes a [`Workload`]: some of the extents with all their accesses,
//!    times and neighbours, and the totals of all requests.
//! 2. A [`Cache`] is simulated on it, smaller by the rate of the sample, and its figures are taken from
//!    the part of the time in which it is filled.
//! 3. The result is corrected by how many reads and writes the sample had beside all requests (a
//!    regression estimator: `tally`).
//! 4. The interval of a hit ratio joins how much it moved over the time (the spread of its intervals)
//!    and how much other samples differ (quarters of the sample, if it is one), and covers what a cache a
//!    fifth smaller or a quarter larger does.
//!
//! * Source: the sample is that of SHARDS (Waldspurger et al., FAST 2015) with extents for pages; the
//!   small cache that of miniature simulation (Waldspurger et al., USENIX ATC 2017). The
//!   intervals are Student's, of the means of parts of the time.
//! * Deviations: none.

mod advice;
mod intervals;
mod kinds;
mod sampled;
mod search;
mod sentences;
mod tally;
mod times;
mod write_times;

use std::slice;
use std::sync::Arc;

use serde::Serialize;
use thermocline_core::config::Given;
use thermocline_core::{Clients, Inputs, PageCost, Tier};
use thermocline_trace::{CompiledTrace, RunningSample, Totals};

use crate::hierarchy::configurations;
use crate::runs::run_sample;
use crate::spec::{DeviceSpec, HierarchySpec, ParameterSpec, TierSpec};
use crate::timing::SECONDS_PER_DAY;
use crate::{LabError, Recorder, RunOptions, Summary, TierSize, Watch, find_policy};

pub use advice::{Advice, Asked, KindForecast, Seen};
use intervals::{Found, Steady, mean};
pub use kinds::{Kind, Place, settings_of, settings_tried};
use sampled::Sampled;
pub use sentences::months;
use tally::Tally;
pub use times::{WorkingSet, working_sets};

/// Parts of the time that are looked at one by one.
const PARTS: usize = 16;
/// Parts at the end of the time from which a forecast is made; the cache is filled before.
const STEADY_PARTS: usize = 8;
/// Samples of the sample.
const QUARTERS: u64 = 4;
/// A working set that grows or shrinks is as good as a cache that does the opposite: an interval
/// covers what caches of these sizes do, too.
const OTHER_SIZES: [f64; 2] = [0.8, 1.25];
/// No interval is narrower than this to each side, per access: what drifts is not seen in a time in
/// which nothing moved.
const LEAST_HALF_WIDTH: f64 = 0.02;
/// Nor, for what is written to flash, than this share of it.
const LEAST_SHARE: f64 = 0.05;
/// Pages that the smallest simulated cache should have; of fewer, nothing is said.
const LEAST_PAGES: f64 = 64.0;

/// A workload, as far as a sample tells.
#[derive(Clone, Debug)]
pub struct Workload {
    whole: Sampled,
    extent_pages: u64,
    totals: Totals,
    /// Parts of the sample, if it is one.
    quarters: Vec<Sampled>,
}

/// The devices below, and how long flash lasts.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// The device of flash.
    pub flash: DeviceSpec,
    /// The device of the disk.
    pub disk: DeviceSpec,
    /// Number of times that the whole flash may be written.
    pub endurance_cycles: f64,
}

/// A cache that could stand before the disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Name.
    pub name: String,
    /// The policy that stands for it.
    pub policy: String,
    /// The parameters that differ from the policy's defaults.
    pub parameters: Vec<(String, Given)>,
    /// Memory above flash that the requests have not passed; 0 for what a block device sees.
    pub ram_bytes: u64,
    /// The size of flash.
    pub flash_bytes: u64,
}

/// A figure, and between what it lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// The best guess.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Forecast of a cache's effect. Its JSON form has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// Name.
    pub name: String,
    /// The policy.
    pub policy: String,
    /// The parameters that differ from the policy's defaults.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Memory above flash.
    pub ram_bytes: u64,
    /// The size of flash.
    pub flash_bytes: u64,
    /// Accesses that a cache answers, divided by all.
    pub hit_ratio: Range,
    /// The mean time of the device that a read is found at, in milliseconds.
    pub read_ms: Range,
    /// The mean time of the devices that must have a write before it is answered, in milliseconds; none
    /// if nothing is written.
    pub write_ms: Option<Range>,
    /// The time of the devices for all transfers, per access, in milliseconds.
    pub device_ms_per_access: f64,
    /// Pages written to flash per access.
    pub flash_writes_per_access: Range,
    /// Bytes written to flash in a day.
    pub flash_bytes_written_per_day: Option<Range>,
    /// Months until flash has been written as often as it may be; `None` if it is never written, or
    /// the times of the requests are not known.
    pub life_months: Option<Range>,
}

/// The figures by which settings are compared.
#[derive(Clone, Copy, Debug)]
struct Worth {
    /// The time of the devices for all transfers, per access, in milliseconds.
    device_ms_per_access: f64,
    /// Months until flash has been written as often as it may be; without end if nobody knows.
    life_months: f64,
}

impl From<&Forecast> for Worth {
    fn from(forecast: &Forecast) -> Self {
        Self {
            device_ms_per_access: forecast.device_ms_per_access,
            life_months: forecast.life_months.map_or(f64::INFINITY, |months| months.estimate),
        }
    }
}

/// Performance of the disk alone. Its JSON form has a stable schema.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NoCache {
    /// The mean time of a read, in milliseconds.
    pub read_ms: f64,
    /// The mean time of a write, in milliseconds.
    pub write_ms: f64,
    /// The time of the disk for all accesses, per access, in milliseconds.
    pub device_ms_per_access: f64,
}

impl Range {
    fn new(estimate: f64, half_width: f64) -> Self {
        Self { estimate, low: estimate - half_width, high: estimate + half_width }
    }

    fn clamped(self, low: f64, high: f64) -> Self {
        let clamp = |value: f64| value.clamp(low, high);
        Self { estimate: clamp(self.estimate), low: clamp(self.low), high: clamp(self.high) }
    }

    /// Return the range of a figure that falls, or rises, with this one.
    fn map(self, value: impl Fn(f64) -> f64) -> Self {
        let (one, other) = (value(self.low), value(self.high));
        Self { estimate: value(self.estimate), low: one.min(other), high: one.max(other) }
    }
}

impl Workload {
    /// Return the workload that a sample is of.
    ///
    /// # Errors
    /// If the sample has no request, or too many pages.
    pub fn new(sample: &RunningSample, name: &std::path::Path) -> Result<Self, LabError> {
        let whole = Sampled::new(sample, name)?;
        let shares = if whole.rate < 1.0 { 0..QUARTERS } else { 0..0 };
        let quarter = |seed| whole.share(1.0 / QUARTERS as f64, seed);
        Ok(Self {
            quarters: shares.filter_map(quarter).collect(),
            whole,
            extent_pages: sample.extent_pages(),
            totals: *sample.totals(),
        })
    }

    /// Return the share of the extents that is in the sample.
    pub const fn rate(&self) -> f64 {
        self.whole.rate
    }

    /// Return the totals of all requests.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Return the accesses that are known.
    pub const fn trace(&self) -> &CompiledTrace {
        &self.whole.trace
    }

    /// Return the duration of the observation, in seconds; `None` if the requests have no times.
    pub fn seconds(&self) -> Option<f64> {
        let ns = self.totals.last_ns - self.totals.first_ns;
        (ns > 0).then(|| ns as f64 / 1e9)
    }

    /// Return the bytes of all pages that were accessed, as far as the sample tells.
    pub fn footprint_bytes(&self) -> f64 {
        f64::from(self.whole.trace.footprint_pages()) * self.whole.trace.page_size_bytes() as f64
            / self.whole.rate
    }

    /// Sizes of a cache for this workload, which say what settings are possible.
    pub fn place(&self, ram_bytes: u64, flash_bytes: u64) -> Place {
        Place {
            ram_bytes,
            flash_bytes,
            page_bytes: self.whole.trace.page_size_bytes(),
            rate: self.whole.rate,
            extent_pages: self.extent_pages,
            has_times: self.seconds().is_some(),
        }
    }

    /// Estimate the worth of a cache from one simulation: figures of its forecast, without
    /// intervals.
    fn worth(&self, cache: &Cache, hardware: &Hardware, watch: &Watch) -> Result<Worth, LabError> {
        let (_, tally) = simulate(&self.whole, cache, hardware, watch)?;
        watch.check()?;
        let written = mean(&Steady::of(&tally).flash_writes);
        let written = self.bytes_per_day(written).filter(|&bytes| bytes > 0.0);
        let life_months = written.map(|bytes| months_of(cache, hardware, bytes));
        Ok(Worth {
            device_ms_per_access: tally.device_ms_per_access(),
            life_months: life_months.unwrap_or(f64::INFINITY),
        })
    }

    /// Return the bytes of so many pages per access in a day; `None` if the requests have no times.
    fn bytes_per_day(&self, pages_per_access: f64) -> Option<f64> {
        let page_bytes = self.whole.trace.page_size_bytes() as f64;
        let accesses = self.totals.accesses as f64;
        self.seconds()
            .map(|seconds| pages_per_access * (accesses / seconds * SECONDS_PER_DAY * page_bytes))
    }

    /// Forecast the effect of a cache.
    ///
    /// # Errors
    /// If the policy or a parameter does not exist, or the cache is too small for the sample.
    pub fn forecast(
        &self,
        cache: &Cache,
        hardware: &Hardware,
        watch: &Watch,
    ) -> Result<Forecast, LabError> {
        let (summary, tally) = simulate(&self.whole, cache, hardware, watch)?;
        let whole = Steady::of(&tally);
        let mut quarters = vec![];
        for quarter in &self.quarters {
            // A quarter in which the cache would have no room says nothing.
            if let Ok((_, tally)) = simulate(quarter, cache, hardware, watch) {
                quarters.push(Steady::of(&tally));
            }
        }
        let mut others = vec![];
        for share in OTHER_SIZES {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the cast saturates, and sizes are not negative"
            )]
            let flash_bytes = (cache.flash_bytes as f64 * share) as u64;
            let other = Cache { flash_bytes, ..cache.clone() };
            if let Ok((_, tally)) = simulate(&self.whole, &other, hardware, watch) {
                others.push(Steady::of(&tally));
            }
        }
        watch.check()?;
        let found = Found { whole, others, quarters };
        let hit_ratio = found.range(|one| &one.hit_ratios, |_| LEAST_HALF_WIDTH);
        let writes = found
            .range(|one| &one.flash_writes, |writes| LEAST_HALF_WIDTH.max(LEAST_SHARE * writes));
        let (least_ms, most_ms) = (tally.write_times.least_ms, tally.write_times.most_ms);
        let write_ms = (!found.whole.write_ms.is_empty()).then(|| {
            let least_half_width = LEAST_HALF_WIDTH * (most_ms - least_ms);
            let write_ms = found.range(|one| &one.write_ms, |_| least_half_width);
            // Where all writes take the same time, nothing can change it.
            write_ms.clamped(least_ms, most_ms)
        });
        let ranges = Ranges { hit_ratio: hit_ratio.clamped(0.0, 1.0), writes, write_ms };
        Ok(self.forecast_of(cache, hardware, (&summary, &tally), ranges))
    }

    /// Return what the disk does for this workload without a cache.
    ///
    /// # Errors
    /// If a device is unknown.
    pub fn without_cache(&self, hardware: &Hardware) -> Result<NoCache, LabError> {
        // Any cache stands over the same disk.
        let spec = HierarchySpec {
            tiers: vec![TierSpec::new("ram", &[TierSize::Pages(1.0)])],
            disk: hardware.disk.clone(),
            ..HierarchySpec::default()
        };
        let all = configurations(&spec, slice::from_ref(find_policy("lru")?), Clients::ONE)?;
        let PageCost { read_ms, write_ms } = all[0].disk.page_cost();
        let write_share = self.totals.writes as f64 / (self.totals.accesses as f64).max(1.0);
        let device_ms_per_access = (1.0 - write_share) * read_ms + write_share * write_ms;
        Ok(NoCache { read_ms, write_ms, device_ms_per_access })
    }

    fn forecast_of(
        &self,
        cache: &Cache,
        hardware: &Hardware,
        (summary, tally): (&Summary, &Tally),
        Ranges { hit_ratio, writes, write_ms }: Ranges,
    ) -> Forecast {
        let writes = writes.clamped(0.0, f64::INFINITY);
        let written =
            self.bytes_per_day(1.0).map(|per_page| writes.map(|writes| writes * per_page));
        let life_months = written
            .filter(|written| written.estimate > 0.0)
            .map(|written| written.map(|bytes| months_of(cache, hardware, bytes)));
        Forecast {
            name: cache.name.clone(),
            policy: cache.policy.clone(),
            parameters: cache
                .parameters
                .iter()
                .map(|(name, value)| (name.clone(), value.to_string().into()))
                .collect(),
            ram_bytes: cache.ram_bytes,
            flash_bytes: cache.flash_bytes,
            read_ms: read_ms(summary, hit_ratio),
            write_ms,
            hit_ratio,
            device_ms_per_access: tally.device_ms_per_access(),
            flash_writes_per_access: writes,
            flash_bytes_written_per_day: written,
            life_months,
        }
    }
}

/// Replays a sample through a cache that is smaller by its rate.
fn simulate(
    sampled: &Sampled,
    cache: &Cache,
    hardware: &Hardware,
    watch: &Watch,
) -> Result<(Summary, Tally), LabError> {
    let &Sampled { ref trace, rate, .. } = sampled;
    let policy = find_policy(&cache.policy)?.clone();
    let page_bytes = trace.page_size_bytes() as f64;
    let pages = |bytes: u64| TierSize::Pages((bytes as f64 / page_bytes * rate).round());
    let flash_pages = cache.flash_bytes as f64 / page_bytes * rate;
    if flash_pages < LEAST_PAGES {
        return Err(LabError::SampleTooSmall {
            tier: "flash".into(),
            pages: (cache.flash_bytes / trace.page_size_bytes()).try_into().unwrap_or(u32::MAX),
            rate,
            least: LEAST_PAGES * rate / flash_pages.max(f64::MIN_POSITIVE),
        });
    }
    let tier =
        |name: &str, bytes, device| TierSpec { device, ..TierSpec::new(name, &[pages(bytes)]) };
    let memory = DeviceSpec { name: Some("memory".into()), ..DeviceSpec::default() };
    let spec = HierarchySpec {
        tiers: vec![
            tier("ram", cache.ram_bytes, memory),
            tier("flash", cache.flash_bytes, hardware.flash.clone()),
        ],
        disk: hardware.disk.clone(),
        parameters: cache
            .parameters
            .iter()
            .map(|(name, value)| ParameterSpec {
                owner: Some(cache.policy.clone()),
                name: name.clone(),
                value: value.clone(),
            })
            .collect(),
        ..HierarchySpec::default()
    };
    let mut all = configurations(&spec, slice::from_ref(&policy), Clients::ONE)?;
    let mut configuration = all.pop().expect("one policy and one size are one configuration");
    configuration.values = configuration.values.scaled(rate);
    let mut inputs = Inputs::NONE;
    // All requests tell by themselves how long their runs are.
    if rate < 1.0 {
        inputs.sample_rate = Some(rate);
        if policy.capabilities.asks_for_run_lengths {
            inputs.run_lengths = Some(Arc::new(sampled.runs.iter().copied().collect()));
        }
    }
    let mut tally = Tally::new(&sampled.index, rate, configuration.costs());
    let log = Some(&mut tally as &mut (dyn Recorder + 'static));
    let options = RunOptions::default();
    let summary = run_sample(trace, &configuration, options, inputs, watch, log)?;
    Ok((summary, tally))
}

/// Months until so many bytes a day have written flash as often as it may be.
fn months_of(cache: &Cache, hardware: &Hardware, bytes_per_day: f64) -> f64 {
    let endurance = cache.flash_bytes as f64 * hardware.endurance_cycles;
    endurance / bytes_per_day.max(1.0) / DAYS_PER_MONTH
}

/// Days of a month, on average.
const DAYS_PER_MONTH: f64 = 365.25 / 12.0;

/// The figures of a cache that have intervals of their own.
struct Ranges {
    hit_ratio: Range,
    writes: Range,
    write_ms: Option<Range>,
}

/// Return the mean time of the device that a read is found at.
fn read_ms(summary: &Summary, hit_ratio: Range) -> Range {
    let disk = summary.tiers.len() - 1;
    let costs: Vec<f64> = summary.tiers.iter().map(|tier| tier.read_ms).collect();
    let hits = |tier: usize| {
        let tier = Tier(u8::try_from(tier).unwrap_or(u8::MAX));
        summary.counts.read_hits(tier) as f64
    };
    let in_caches: f64 = (0..disk).map(hits).sum();
    let cached_ms = match in_caches {
        0.0 => costs[disk.saturating_sub(1)],
        _ => (0..disk).map(|tier| hits(tier) * costs[tier]).sum::<f64>() / in_caches,
    };
    let reads = (in_caches + hits(disk)).max(1.0);
    // Reads may hit more or less often than writes do.
    let shift = in_caches / reads - summary.aggregate_hit_ratio();
    hit_ratio.map(|ratio| {
        let ratio = (ratio + shift).clamp(0.0, 1.0);
        ratio * cached_ms + (1.0 - ratio) * costs[disk]
    })
}
