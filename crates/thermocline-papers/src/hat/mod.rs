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

/// What is to be run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    /// The size of memory.
    memory: String,
    /// Flash sizes, as multiples of memory.
    flash_ratios: Vec<f64>,
    nonhot: NonHot,
    /// What the policies do to the flash.
    wear: WearExperiment,
    #[serde(rename = "contender")]
    contenders: Vec<Contender>,
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
    /// Whether it has no flash, which cannot wear then.
    #[serde(default)]
    without_flash: bool,
}

/// What one workload showed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkloadResult {
    /// The workload's name.
    workload: String,
    /// Figure 2: every contender at every flash size.
    points: Vec<Point>,
    /// HAT at every non-hot ratio.
    nonhot: Vec<Point>,
    /// What each contender did to the flash.
    wear: Vec<Wear>,
}

/// One run of the experiment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// The contender.
    label: String,
    /// Flash size divided by memory size.
    flash_ratio: f64,
    /// What it found.
    summary: Summary,
}

/// A run to make: the contender's label, flash size divided by memory size, and the rest.
type Prepared = (String, f64, Configuration);

impl Study for Experiment {
    type About = ();
    type Judge = Judge;
    type Results = Vec<WorkloadResult>;

    fn introduction(&self) -> Option<String> {
        Some(format!(
            "Memory holds {} of each trace's footprint, flash a multiple of that. TAC is shown with the aging interval that serves it best at each point.",
            self.memory
        ))
    }

    fn runs(&self, _workload: &Workload<()>) -> usize {
        let variants: usize = self.contenders.iter().map(|one| one.variants().len()).sum();
        let worn = self.contenders.iter().filter(|contender| !contender.without_flash).count();
        variants * self.flash_ratios.len() + self.nonhot.ratios.len() + worn
    }

    fn run(
        &self,
        workload: &Workload<()>,
        trace: &CompiledTrace,
        results: &mut Self::Results,
        done: Done<'_>,
    ) -> Result<(), LabError> {
        let mut runs = vec![];
        for &flash_ratio in &self.flash_ratios {
            for contender in &self.contenders {
                for parameters in contender.variants() {
                    runs.push(self.prepare(contender, &parameters, flash_ratio)?);
                }
            }
        }
        let figure_runs = runs.len();
        for nonhot_ratio in &self.nonhot.ratios {
            let parameters = vec![("nonhot_ratio".to_owned(), nonhot_ratio.to_string())];
            let hat = Contender {
                label: format!("non-hot ratio {nonhot_ratio}"),
                policy: "hat".into(),
                ..Contender::default()
            };
            runs.push(self.prepare(&hat, &parameters, self.nonhot.flash_ratio)?);
        }
        let points: Result<Vec<Point>, LabError> = runs
            .par_iter()
            .map(|(label, flash_ratio, configuration)| {
                let summary = run(trace, configuration, RunOptions::default(), &Watch::default())?;
                done();
                Ok(Point { label: label.clone(), flash_ratio: *flash_ratio, summary })
            })
            .collect();
        let mut points = points?;
        let nonhot = points.split_off(figure_runs);
        let points = best(points);
        let wear = self.wear(trace, &points, done)?;
        results.push(WorkloadResult { workload: workload.name.clone(), points, nonhot, wear });
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
        let titled = |result: &WorkloadResult| TextTable {
            title: Some(format!("{}: total I/O time in seconds", result.workload)),
            ..report::io_times(result)
        };
        results.iter().map(titled).chain([report::wear_table(results)]).collect()
    }

    fn report(&self, results: &Self::Results, report: &mut Report) -> Result<(), LabError> {
        report::add(report, self, results)
    }
}

impl Contender {
    /// The parameter sets that it is tried with.
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

impl Experiment {
    fn prepare(
        &self,
        contender: &Contender,
        parameters: &[(String, String)],
        flash_ratio: f64,
    ) -> Result<Prepared, LabError> {
        let policy = registry::find(&contender.policy)?;
        let values = policy.values(parameters)?;
        let configuration = memory_and_flash(policy, values, &self.memory, flash_ratio)?;
        Ok((contender.label.clone(), flash_ratio, configuration))
    }
}

/// Of several runs of one contender at one flash size, the one with the least I/O time.
fn best(points: Vec<Point>) -> Vec<Point> {
    let mut best: Vec<Point> = vec![];
    for point in points {
        let rival = best.iter_mut().find(|known| {
            known.label == point.label && known.flash_ratio.to_bits() == point.flash_ratio.to_bits()
        });
        match rival {
            Some(known) if point.summary.io_time_ms < known.summary.io_time_ms => *known = point,
            Some(_) => {}
            None => best.push(point),
        }
    }
    best
}
