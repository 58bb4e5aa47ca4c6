//! The HAT paper's experiments: total I/O time against flash size, and the non-hot ratio.
//!
//! * Source: Lv, Cui, Chen, Li, CIKM 2013, section 4, Figure 2.

mod claims;
mod report;
mod wear;

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thermocline_core::registry;
use thermocline_lab::report::Report;
use thermocline_lab::{Configuration, LabError, RunOptions, Summary, Watch, run};
use thermocline_trace::CompiledTrace;

use crate::claim::{Claim, Stated};
use crate::hierarchy::memory_and_flash;
use crate::study::{Done, Study, TextTable};
use crate::workload::Workload;
use claims::Judge;
use wear::{Wear, WearExperiment};

/// Experiment to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    /// Sizes of memory.
    memories: Vec<String>,
    /// The size of memory for everything but Figure 2; one of `memories`.
    memory: String,
    /// Flash sizes, as multiples of memory.
    flash_ratios: Vec<f64>,
    nonhot: NonHot,
    /// Wear of the flash under the policies.
    wear: WearExperiment,
    #[serde(rename = "contender")]
    contenders: Vec<Contender>,
    /// Other readings of what the paper's text leaves open.
    #[serde(rename = "reading")]
    readings: Vec<Reading>,
}

/// One reading of HAT.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    /// Its name in the report.
    label: String,
    /// Parameters of HAT that differ from the defaults.
    parameters: BTreeMap<String, String>,
}

/// The sweep of HAT's non-hot ratio.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NonHot {
    ratios: Vec<f64>,
    /// The flash size, as a multiple of memory.
    flash_ratio: f64,
}

/// One policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contender {
    /// Its name in the report.
    label: String,
    /// Its registered name.
    policy: String,
    /// Parameters that differ from the defaults.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    /// Values of parameters that are tried, each alone; the best run is shown.
    #[serde(default)]
    tried: BTreeMap<String, Vec<u64>>,
    /// `true` if it has no flash, which cannot wear then.
    #[serde(default)]
    without_flash: bool,
}

/// Results of one workload.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkloadResult {
    /// The workload's name.
    workload: String,
    /// Figure 2: every contender at every size of memory and flash.
    points: Vec<Point>,
    /// Every reading at every flash size.
    readings: Vec<Point>,
    /// HAT at every non-hot ratio.
    nonhot: Vec<Point>,
    /// Wear of the flash under each contender.
    wear: Vec<Wear>,
}

/// One run of the experiment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// The contender.
    label: String,
    /// The size of memory.
    memory: String,
    /// Flash size divided by memory size.
    flash_ratio: f64,
    /// Results of the run.
    summary: Summary,
}

/// Position of a point: a size of memory, and flash size divided by it.
type Sizes<'a> = (&'a str, f64);

/// A run to make.
struct Prepared {
    label: String,
    memory: String,
    flash_ratio: f64,
    configuration: Configuration,
}

impl Study for Experiment {
    type About = ();
    type Judge = Judge;
    type Results = Vec<WorkloadResult>;

    fn introduction(&self) -> Option<String> {
        Some(format!(
            "Memory holds {} of each trace's footprint, flash a multiple of that. TAC is shown with the aging interval that serves it best at each point.",
            self.memories.join(", ")
        ))
    }

    fn runs(&self, _workload: &Workload<()>) -> usize {
        let variants: usize = self.contenders.iter().map(|one| one.variants().len()).sum();
        let worn = self.contenders.iter().filter(|contender| !contender.without_flash).count();
        (variants * self.memories.len() + self.readings.len()) * self.flash_ratios.len()
            + self.nonhot.ratios.len()
            + worn
    }

    fn run(
        &self,
        workload: &Workload<()>,
        trace: &CompiledTrace,
        results: &mut Self::Results,
        done: Done<'_>,
    ) -> Result<(), LabError> {
        let mut runs = vec![];
        for memory in &self.memories {
            for &flash_ratio in &self.flash_ratios {
                for contender in &self.contenders {
                    for parameters in contender.variants() {
                        let Contender { label, policy, .. } = contender;
                        runs.push(prepare(label, policy, &parameters, (memory, flash_ratio))?);
                    }
                }
            }
        }
        let figure_runs = runs.len();
        for Reading { label, parameters } in &self.readings {
            let parameters: Vec<(String, String)> = parameters.clone().into_iter().collect();
            for &flash_ratio in &self.flash_ratios {
                runs.push(prepare(label, "hat", &parameters, (&self.memory, flash_ratio))?);
            }
        }
        let reading_runs = runs.len();
        for nonhot_ratio in &self.nonhot.ratios {
            let parameters = vec![("nonhot_ratio".to_owned(), nonhot_ratio.to_string())];
            let label = format!("non-hot ratio {nonhot_ratio}");
            let sizes = (self.memory.as_str(), self.nonhot.flash_ratio);
            runs.push(prepare(&label, "hat", &parameters, sizes)?);
        }
        let points: Result<Vec<Point>, LabError> = runs
            .into_par_iter()
            .map(|Prepared { label, memory, flash_ratio, configuration }| {
                let summary = run(trace, &configuration, RunOptions::default(), &Watch::default())?;
                done();
                Ok(Point { label, memory, flash_ratio, summary })
            })
            .collect();
        let mut points = points?;
        let nonhot = points.split_off(reading_runs);
        let readings = points.split_off(figure_runs);
        // HAT, Section 4: TAC is shown with the aging interval that serves it best.
        let points = best(points);
        let wear = self.wear(trace, &points, done)?;
        let workload = workload.name.clone();
        results.push(WorkloadResult { workload, points, readings, nonhot, wear });
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
        let times = results.iter().flat_map(|result| {
            self.memories.iter().map(move |memory| TextTable {
                title: Some(format!(
                    "{}, memory {memory}: total I/O time in seconds",
                    result.workload
                )),
                ..report::io_times(result, memory)
            })
        });
        times.chain([report::readings(self, results), report::wear_table(results)]).collect()
    }

    fn page_tables(&self, results: &Self::Results) -> Vec<TextTable> {
        vec![report::readings(self, results)]
    }

    fn report(&self, results: &Self::Results, report: &mut Report) {
        report::add(report, self, results);
    }
}

impl Contender {
    /// Return the parameter sets that it is tried with.
    fn variants(&self) -> Vec<Vec<(String, String)>> {
        let fixed: Vec<(String, String)> = self.parameters.clone().into_iter().collect();
        if self.tried.is_empty() {
            return vec![fixed];
        }
        let tried = self.tried.iter().flat_map(|(name, values)| {
            values.iter().map(move |value| (name.clone(), value.to_string()))
        });
        tried.map(|parameter| [fixed.as_slice(), &[parameter]].concat()).collect()
    }
}

impl Point {
    const fn sizes(&self) -> Sizes<'_> {
        (self.memory.as_str(), self.flash_ratio)
    }

    /// Return the share of I/O time that it saves against a contender at the same sizes; less than
    /// 0 if it takes more.
    fn saving(&self, points: &[Self], rival: &str) -> Option<f64> {
        let rival = find(points, rival, self.sizes())?;
        Some(1.0 - self.summary.io_time_ms / rival.summary.io_time_ms)
    }
}

/// Return the point of a contender at these sizes.
fn find<'a>(points: &'a [Point], label: &str, sizes: Sizes<'_>) -> Option<&'a Point> {
    points.iter().find(|point| point.label == label && are_equal(point.sizes(), sizes))
}

fn are_equal(one: Sizes<'_>, other: Sizes<'_>) -> bool {
    one.0 == other.0 && one.1.to_bits() == other.1.to_bits()
}

fn prepare(
    label: &str,
    policy: &str,
    parameters: &[(String, String)],
    (memory, flash_ratio): Sizes<'_>,
) -> Result<Prepared, LabError> {
    let policy = registry::find(policy)?;
    let values = policy.values(parameters)?;
    let configuration = memory_and_flash(policy, values, memory, flash_ratio)?;
    Ok(Prepared { label: label.into(), memory: memory.into(), flash_ratio, configuration })
}

/// Choose, of several runs of one contender at the same sizes, the one with the least I/O time.
fn best(points: Vec<Point>) -> Vec<Point> {
    let mut best: Vec<Point> = vec![];
    for point in points {
        let rival = best
            .iter_mut()
            .find(|known| known.label == point.label && are_equal(known.sizes(), point.sizes()));
        match rival {
            Some(known) if point.summary.io_time_ms < known.summary.io_time_ms => *known = point,
            Some(_) => {}
            None => best.push(point),
        }
    }
    best
}
