//! The caches that systems ship beside the policies of the literature: I/O time, flash writes, worst cases.
//!
//! All caches have the same RAM and the same flash. A cache of the block layer has no RAM of its own, so
//! RAM is the page cache above it.

mod cases;
mod claims;
mod entrants;
mod report;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thermocline_core::Nanos;
use thermocline_device::Catalogue;
use thermocline_device::hdd::HddConfig;
use thermocline_device::queueing::QueueingError;
use thermocline_lab::report::Report;
use thermocline_lab::{
    Arrivals, Configuration, DeviceModel, LabError, RunOptions, Summary, TierConfiguration, Timing,
    WarmUp, Watch, run,
};
use thermocline_trace::CompiledTrace;

use crate::claim::{Claim, Stated};
use crate::study::{Done, Study, StudyError, TextTable};
use crate::workload::Workload;
use claims::Judge;
use entrants::StatedEntrant;

pub use entrants::{Camp, Entrant};

/// The file of the study.
pub(crate) const FILE: &str = include_str!("experiment.toml");

/// Experiment to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    /// Sizes of RAM.
    memories: Vec<String>,
    /// Sizes of flash.
    flashes: Vec<String>,
    /// Percent of the trace's accesses that are not counted.
    warm_up_percent: f64,
    /// The cost model of flash.
    flash: String,
    /// The cost model of the disk.
    disk: String,
    /// Seconds that a trace must last for figures per day.
    day_needs_s: f64,
    simulated: Simulated,
    #[serde(rename = "entrant")]
    entrants: Vec<StatedEntrant>,
}

/// The runs on simulated devices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Simulated {
    /// The size of RAM; one of those of the study. Tables by workload show it, too.
    memory: String,
    /// The size of flash; likewise.
    flash: String,
    /// The disk.
    disk: String,
    /// Requests that flash serves at once.
    flash_servers: u32,
    /// Requests that are outstanding.
    closed_loop: u32,
}

/// Results of one workload.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkloadResult {
    /// The workload's name.
    workload: String,
    /// Seconds from the first request that is counted to the last; `None` if the trace has no
    /// times.
    counted_s: Option<f64>,
    /// Every cache at every size, sizes first.
    points: Vec<Point>,
    /// Every cache on simulated devices, at one size.
    simulated: Vec<Point>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    label: String,
    camp: Camp,
    /// The size of RAM.
    memory: String,
    /// The size of flash.
    flash: String,
    summary: Summary,
}

/// A run to make.
struct Prepared<'a> {
    entrant: &'a Entrant,
    memory: &'a str,
    flash: &'a str,
    configuration: Configuration,
}

/// Return the caches of the study, set for pages of a size.
///
/// # Errors
/// If the file names something that does not exist.
pub fn entrants(page_size_bytes: u64) -> Result<Vec<Entrant>, StudyError> {
    let file = crate::study::parse::<Experiment>(FILE);
    let file = file.map_err(|reason| StudyError::BadExperiment { study: "shipped", reason })?;
    Ok(file.study.entrants(page_size_bytes)?)
}

impl Study for Experiment {
    type About = ();
    type Judge = Judge;
    type Results = Vec<WorkloadResult>;

    fn check(&self) -> Result<(), String> {
        let Simulated { memory, flash, .. } = &self.simulated;
        for (size, sizes) in [(memory, &self.memories), (flash, &self.flashes)] {
            if !sizes.contains(size) {
                return Err(format!(
                    "the size {size} of the simulated devices is none of the study"
                ));
            }
        }
        Ok(())
    }

    fn introduction(&self) -> Option<String> {
        Some(format!(
            "RAM holds {} of each trace's footprint, flash {}. Figures leave out the first {} % of the accesses. I/O time charges every page with the costs of `{}` and `{}`.",
            self.memories.join(" or "),
            self.flashes.join(", "),
            self.warm_up_percent,
            self.flash,
            self.disk
        ))
    }

    fn runs(&self, _workload: &Workload<()>) -> usize {
        entrants::count(&self.entrants) * (self.memories.len() * self.flashes.len() + 1)
    }

    fn run(
        &self,
        workload: &Workload<()>,
        trace: &CompiledTrace,
        results: &mut Self::Results,
        done: Done<'_>,
    ) -> Result<(), LabError> {
        let entrants = self.entrants(trace.page_size_bytes())?;
        let mut runs = vec![];
        for memory in &self.memories {
            for flash in &self.flashes {
                for entrant in &entrants {
                    let configuration = self.configuration(entrant, memory, flash)?;
                    runs.push(Prepared { entrant, memory, flash, configuration });
                }
            }
        }
        let timing = self.timing()?;
        let Simulated { memory, flash, .. } = &self.simulated;
        for entrant in &entrants {
            let mut configuration = self.configuration(entrant, memory, flash)?;
            configuration.timing = Some(timing.clone());
            runs.push(Prepared { entrant, memory, flash, configuration });
        }
        let options =
            RunOptions { warm_up: WarmUp::Percent(self.warm_up_percent), ..RunOptions::default() };
        let points: Result<Vec<Point>, LabError> = runs
            .into_par_iter()
            .map(
                |Prepared {
                     entrant: Entrant { label, camp, .. },
                     memory,
                     flash,
                     configuration,
                 }| {
                    let summary = run(trace, &configuration, options, &Watch::default())?;
                    done();
                    let [label, memory, flash] = [label, memory, flash].map(str::to_owned);
                    Ok(Point { label, camp: *camp, memory, flash, summary })
                },
            )
            .collect();
        let mut points = points?;
        let simulated = points.split_off(points.len() - entrants.len());
        let counted_s = counted_s(trace, options.warm_up)?;
        let workload = workload.name.clone();
        results.push(WorkloadResult { workload, counted_s, points, simulated });
        Ok(())
    }

    fn judge(
        &self,
        _workloads: &[Workload<()>],
        stated: &[Stated<Judge>],
        results: &Self::Results,
    ) -> Vec<Claim> {
        stated.iter().map(|one| claims::judge(one, results)).collect()
    }

    fn tables(&self, results: &Self::Results) -> Vec<TextTable> {
        vec![report::overall(results), report::winners(results)]
    }

    fn page_tables(&self, results: &Self::Results) -> Vec<TextTable> {
        report::tables(self, results)
    }

    fn report(&self, results: &Self::Results, report: &mut Report) {
        report::add(report, self, results);
    }
}

impl Experiment {
    /// Return all caches, set for pages of a size.
    fn entrants(&self, page_size_bytes: u64) -> Result<Vec<Entrant>, LabError> {
        entrants::entrants(&self.entrants, page_size_bytes)
    }

    fn configuration(
        &self,
        entrant: &Entrant,
        memory: &str,
        flash: &str,
    ) -> Result<Configuration, LabError> {
        let catalogue = Catalogue::default();
        let tier = |name: &str, size: &str, device: &str| {
            Ok::<_, LabError>(TierConfiguration {
                name: name.into(),
                size: size.parse()?,
                device: catalogue.find(device)?.clone(),
            })
        };
        let tiers = vec![tier("ram", memory, "memory")?, tier("flash", flash, &self.flash)?];
        let disk = catalogue.find(&self.disk)?.clone();
        Ok(Configuration::new(entrant.policy.clone(), entrant.values.clone(), tiers, disk))
    }

    fn timing(&self) -> Result<Timing, LabError> {
        let catalogue = Catalogue::default();
        let server = |device: &str, servers| {
            let device = catalogue.find(device)?.clone();
            Ok::<_, LabError>(DeviceModel::Server { device, servers })
        };
        let Simulated { disk, flash_servers, closed_loop, .. } = &self.simulated;
        Ok(Timing {
            arrivals: Arrivals::Closed { requests: *closed_loop },
            devices: vec![
                server("memory", None)?,
                server(&self.flash, Some(*flash_servers))?,
                DeviceModel::Hdd(Box::new(HddConfig::preset(disk).map_err(QueueingError::from)?)),
            ],
        })
    }
}

impl Point {
    /// Seconds that the devices take for all pages, or for the whole trace where time is simulated.
    fn seconds(&self) -> f64 {
        let timing = self.summary.timing.as_ref();
        timing.map_or(self.summary.io_time_ms / 1000.0, |timing| timing.duration_s)
    }

    /// Return the number of bytes written to flash.
    fn flash_bytes(&self) -> u64 {
        let pages =
            thermocline_lab::metric::flash(&self.summary).map_or(0, |tier| tier.page_writes);
        pages * self.summary.trace.page_size_bytes
    }

    /// Return the number of accesses that were counted.
    fn accesses(&self) -> u64 {
        self.summary.trace.accesses - self.summary.warm_up_accesses
    }
}

/// Seconds from the first request that is counted to the last.
fn counted_s(trace: &CompiledTrace, warm_up: WarmUp) -> Result<Option<f64>, LabError> {
    if !trace.is_timed() {
        return Ok(None);
    }
    let warm_up = warm_up.accesses(trace.len() as u64)?;
    let first = trace.requests().find(|request| request.accesses.end as u64 > warm_up);
    let last = trace.requests().map(|request| request.at).max();
    let span = |(first, last): (Nanos, Nanos)| last.0.saturating_sub(first.0) as f64 / 1e9;
    Ok(first.map(|request| request.at).zip(last).map(span))
}

#[cfg(test)]
mod tests {
    use thermocline_core::registry;

    use super::*;

    #[test]
    fn no_shipped_cache_counts_as_published() {
        let shipped = |module: &str| module.contains("::shipped") || module.contains("::arc_l2arc");
        let entrants = entrants(4096).unwrap();
        for entrant in &entrants {
            let is_shipped = matches!(entrant.camp, Camp::Shipped | Camp::Tuned);
            assert_eq!(is_shipped, shipped(entrant.policy.module), "{}", entrant.label);
        }
        for policy in registry::entries().filter(|policy| shipped(policy.module)) {
            let as_set = |one: &Entrant| {
                let is_same = one.policy.name == policy.name;
                is_same && one.camp == Camp::Shipped && one.version.is_some()
            };
            assert!(entrants.iter().any(as_set), "{}", policy.name);
        }
    }

    #[test]
    fn sizes_in_bytes_are_pages_of_the_trace() {
        for (page_size_bytes, pages) in [(4096, 16), (8192, 8), (131_072, 1)] {
            let entrants = entrants(page_size_bytes).unwrap();
            let cache = entrants.iter().find(|one| one.label == "lvm cache").unwrap();
            assert_eq!(cache.values.integer("block_pages"), pages);
            assert_eq!(cache.settings, "block_pages=64KiB");
        }
    }
}
