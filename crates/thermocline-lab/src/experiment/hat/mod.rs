//! The HAT paper's experiments: total I/O time against flash size, and the non-hot ratio.
//!
//! * Source: Lv, Cui, Chen, Li, CIKM 2013, section 4, Figure 2.

mod report;
mod wear;

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thermocline_core::registry;
use thermocline_trace::CompiledTrace;

use super::{Claim, paper_hierarchy};
use crate::{Configuration, LabError, RunOptions, Summary, Watch, run};

pub use report::{IoTimes, WearTable, io_times, report, wear_table};
pub use wear::{Wear, WearExperiment};

/// How near a measured percentage must come to the paper's to confirm it, in percentage points.
const TOLERANCE_POINTS: f64 = 5.0;
/// The spread of I/O time over the non-hot ratios up to which HAT counts as little sensitive.
const LITTLE_SENSITIVITY: f64 = 0.10;

/// What is to be run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The title of the report.
    pub title: String,
    /// The paper.
    pub source: String,
    /// The size of memory.
    pub memory: String,
    /// Flash sizes, as multiples of memory.
    pub flash_ratios: Vec<f64>,
    /// Aging intervals that TAC may choose from.
    pub tac_aging_intervals: Vec<u64>,
    /// Non-hot ratios to sweep.
    pub nonhot_ratios: Vec<f64>,
    /// The flash size of that sweep, as a multiple of memory.
    pub nonhot_flash_ratio: f64,
    /// What the policies do to the flash.
    pub wear: WearExperiment,
    /// The traces.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
    /// The policies.
    #[serde(rename = "contender")]
    pub contenders: Vec<Contender>,
}

/// One trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in the report.
    pub name: String,
    /// The start of its file's name.
    pub file: String,
}

/// One policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contender {
    /// Its name in the report.
    pub label: String,
    /// Its registered name.
    pub policy: String,
    /// Parameters that differ from the defaults.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// What one workload showed.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadResult {
    /// The workload's name.
    pub workload: String,
    /// Figure 2: every contender at every flash size.
    pub points: Vec<Point>,
    /// HAT at every non-hot ratio.
    pub nonhot: Vec<Point>,
    /// What each contender did to the flash.
    pub wear: Vec<Wear>,
}

/// One run of the experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The contender.
    pub label: String,
    /// Flash size divided by memory size.
    pub flash_ratio: f64,
    /// What it found.
    pub summary: Summary,
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// [`LabError::BadExperiment`] with line and column.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        super::parse(text)
    }

    /// Runs one workload, in parallel; `done` is told of each run that is finished.
    ///
    /// # Errors
    /// A contender that cannot be.
    pub fn run(
        &self,
        workload: &Workload,
        trace: &CompiledTrace,
        done: impl Fn() + Sync,
    ) -> Result<WorkloadResult, LabError> {
        let mut runs = vec![];
        for &flash_ratio in &self.flash_ratios {
            for contender in &self.contenders {
                for parameters in self.variants(contender) {
                    runs.push(self.prepare(contender, &parameters, flash_ratio)?);
                }
            }
        }
        let figure_runs = runs.len();
        for nonhot_ratio in &self.nonhot_ratios {
            let parameters = vec![("nonhot_ratio".to_owned(), nonhot_ratio.to_string())];
            let hat = Contender {
                label: format!("non-hot ratio {nonhot_ratio}"),
                policy: "hat".into(),
                parameters: BTreeMap::new(),
            };
            runs.push(self.prepare(&hat, &parameters, self.nonhot_flash_ratio)?);
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
        Ok(WorkloadResult { workload: workload.name.clone(), points, nonhot, wear })
    }

    /// How many runs one workload takes.
    pub fn runs_per_workload(&self) -> usize {
        let variants: usize = self.contenders.iter().map(|c| self.variants(c).len()).sum();
        let worn = self.contenders.iter().filter(|contender| contender.policy != "lru").count();
        variants * self.flash_ratios.len() + self.nonhot_ratios.len() + worn
    }

    /// The parameter sets that a contender is tried with.
    fn variants(&self, contender: &Contender) -> Vec<Vec<(String, String)>> {
        let fixed: Vec<(String, String)> = contender.parameters.clone().into_iter().collect();
        if contender.policy != "tac" {
            return vec![fixed];
        }
        let with_interval = |interval: &u64| {
            [fixed.as_slice(), &[("aging_interval".to_owned(), interval.to_string())]].concat()
        };
        self.tac_aging_intervals.iter().map(with_interval).collect()
    }

    fn prepare(
        &self,
        contender: &Contender,
        parameters: &[(String, String)],
        flash_ratio: f64,
    ) -> Result<(String, f64, Configuration), LabError> {
        let policy = registry::find(&contender.policy)?;
        let configuration =
            paper_hierarchy(policy, policy.values(parameters)?, &self.memory, flash_ratio)?;
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

/// The paper's claims about Figure 2 and the non-hot ratio, beside what was measured.
pub fn claims(results: &[WorkloadResult]) -> Vec<Claim> {
    let all: Vec<&WorkloadResult> = results.iter().collect();
    let named = |name: &str| -> Vec<&WorkloadResult> {
        results.iter().filter(|result| result.workload.starts_with(name)).collect()
    };
    vec![
        saving("HAT takes up to 50 % less I/O time than TAC", &all, "TAC", 50.0),
        saving("HAT takes up to 50 % less I/O time than FaCE+GSC", &all, "FaCE+GSC", 50.0),
        saving("on TPC-H, up to 30 % less than TAC", &named("TPC-H"), "TAC", 30.0),
        saving("on TPC-H, up to 30 % less than FaCE+GSC", &named("TPC-H"), "FaCE+GSC", 30.0),
        steady("HAT is steadily faster than FaCE+GSC", &all, "FaCE+GSC"),
        steady("on TPC-H, HAT is steadily faster than TAC", &named("TPC-H"), "TAC"),
        steady("on MLK, HAT is always faster than TAC", &named("MLK"), "TAC"),
        tac_wins_on_small_flash(&named("TPC-B")),
        insensitive(&all),
    ]
}

/// The share of I/O time that HAT saves against a rival, at every flash size of every workload.
fn savings<'a>(results: &[&'a WorkloadResult], rival: &str) -> Vec<(&'a WorkloadResult, f64, f64)> {
    let mut savings = vec![];
    for result in results {
        for hat in result.points.iter().filter(|point| point.label == "HAT") {
            let rival = result.points.iter().find(|point| {
                point.label == rival && point.flash_ratio.to_bits() == hat.flash_ratio.to_bits()
            });
            if let Some(rival) = rival {
                let saving = 1.0 - hat.summary.io_time_ms / rival.summary.io_time_ms;
                savings.push((*result, hat.flash_ratio, saving));
            }
        }
    }
    savings
}

fn saving(claim: &str, results: &[&WorkloadResult], rival: &str, percent: f64) -> Claim {
    let savings = savings(results, rival);
    let most = savings.iter().max_by(|one, other| one.2.total_cmp(&other.2));
    Claim {
        claim: claim.into(),
        measured: most.map_or_else(Claim::not_run, |(result, flash_ratio, saving)| {
            let place = &result.workload;
            format!("up to {:.1} % ({place}, flash {flash_ratio}x memory)", saving * 100.0)
        }),
        is_confirmed: most.map(|(_, _, saving)| saving * 100.0 >= percent - TOLERANCE_POINTS),
    }
}

fn steady(claim: &str, results: &[&WorkloadResult], rival: &str) -> Claim {
    let savings = savings(results, rival);
    let faster = savings.iter().filter(|(_, _, saving)| *saving > 0.0).count();
    let least = savings.iter().min_by(|one, other| one.2.total_cmp(&other.2));
    Claim {
        claim: claim.into(),
        measured: least.map_or_else(Claim::not_run, |(result, flash_ratio, saving)| {
            let place = &result.workload;
            let (points, least) = (savings.len(), saving * 100.0);
            format!("faster at {faster} of {points} points; least saving {least:.1} % ({place}, flash {flash_ratio}x memory)")
        }),
        is_confirmed: least.map(|_| faster == savings.len()),
    }
}

fn tac_wins_on_small_flash(results: &[&WorkloadResult]) -> Claim {
    let savings = savings(results, "TAC");
    let smallest = savings.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    Claim {
        claim: "on TPC-B, TAC is faster while flash is small, and loses as it grows".into(),
        measured: smallest.map_or_else(Claim::not_run, |(_, flash_ratio, saving)| {
            let at_most = savings.iter().map(|entry| entry.2).fold(f64::NEG_INFINITY, f64::max);
            format!(
                "HAT saves {:.1} % against TAC with flash {flash_ratio}x memory, and {:.1} % at most",
                saving * 100.0,
                at_most * 100.0
            )
        }),
        is_confirmed: smallest.map(|(_, _, saving)| {
            *saving < 0.0 && savings.iter().any(|(_, _, saving)| *saving > 0.0)
        }),
    }
}

fn insensitive(results: &[&WorkloadResult]) -> Claim {
    let spreads = results.iter().filter_map(|result| {
        let times = result.nonhot.iter().map(|point| point.summary.io_time_ms);
        let (least, most) = times.fold((f64::INFINITY, 0.0_f64), |(least, most), time| {
            (least.min(time), most.max(time))
        });
        (most > 0.0).then(|| (most / least - 1.0, result))
    });
    let widest = spreads.max_by(|one, other| one.0.total_cmp(&other.0));
    Claim {
        claim: "HAT is little sensitive to the non-hot ratio".into(),
        measured: widest.map_or_else(Claim::not_run, |(spread, result)| {
            let place = &result.workload;
            format!("I/O time varies by {:.1} % at most ({place})", spread * 100.0)
        }),
        is_confirmed: widest.map(|(spread, _)| spread <= LITTLE_SENSITIVITY),
    }
}
