//! The HFA paper's experiments: hint frequencies, hit ratios and response times over sizes, hints,
//! space, stability, the partition and the length of the history; other algorithms beside them, and
//! other readings of the paper.
//!
//! * Source: Meng et al., JCST 32(2), 2017, section 3.1 and section 5, Figures 1 and 4 to 10,
//!   Table 4.

mod claims;
mod hints;
mod readings;
mod report;
mod run;
mod stability;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thermocline_lab::report::Report;
use thermocline_lab::{IntervalSummary, LabError, OverTime, Summary};
use thermocline_trace::CompiledTrace;

use crate::claim::{Claim, Stated};
use crate::study::{Done, Study, TextTable};
use crate::workload::Workload;
use claims::Judge;
use hints::Hints;
use stability::Stability;

/// Experiment to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    /// The sum of all levels, in percent of the footprint.
    aggregate_percent: Vec<f64>,
    /// Accesses left out of the counts, in percent.
    warm_up_percent: f64,
    /// The access times of the first level and of those below, in milliseconds.
    level_ms: Vec<f64>,
    /// Cost of an access to the disk.
    disk_ms: f64,
    /// The ratio of the levels for what is studied at one size.
    study_ratios: Vec<u32>,
    /// Size of the study, in percent of the footprint.
    study_percent: f64,
    /// Accesses of a period (T) in the study, as a share of the pages of the first level.
    study_period_share: f64,
    /// Algorithms whose hints the study observes.
    hints_of: Vec<String>,
    /// A workload with fewer hits at every size and with every algorithm judges nothing, in percent.
    least_hits_percent: f64,
    /// Points over time.
    points: usize,
    /// The most periods after the warm-up over which stability is measured.
    periods: usize,
    /// Fixed shares of Q1, in percent.
    q1_percent: Vec<u64>,
    /// Lengths of the history, in slots.
    k: Vec<u64>,
    /// Maximum distance of a measured percentage from the paper's that still confirms it, in
    /// percentage points.
    tolerance_points: f64,
    /// The approaches and what they are combined with.
    #[serde(rename = "pair")]
    pairs: Vec<Pair>,
    /// Algorithms that are compared besides the pairs.
    #[serde(rename = "rival")]
    rivals: Vec<Rival>,
    /// Other readings of the paper.
    #[serde(rename = "reading")]
    readings: Vec<Reading>,
}

/// An algorithm besides the paper's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rival {
    /// Its name in the report.
    name: String,
    /// Its registered name, if that is another one.
    policy: Option<String>,
    /// Parameters that differ from the defaults.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

/// A reading of what the paper leaves open.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    /// Name of the alternative reading.
    name: String,
    /// Parameters that differ from the defaults.
    parameters: BTreeMap<String, String>,
    /// The algorithms that have these; all three if none is named.
    #[serde(default)]
    policies: Vec<String>,
    /// `true` if it is one of the partition, and the length of the history is looked at, too.
    #[serde(default)]
    is_of_partition: bool,
}

/// An algorithm, and HFA combined with it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    original: String,
    combined: String,
}

/// Description of a workload in the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// The sizes of the levels, relative to one another.
    ratios: Vec<u32>,
    /// Its requests in the paper (Table 3), if it is one of the paper's.
    paper_requests: Option<f64>,
    /// `true` if Figures 8 to 10 and the readings leave it out, as it takes too long.
    #[serde(default)]
    is_long: bool,
}

/// Results of one workload.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkloadResult {
    /// The workload's name.
    workload: String,
    /// The trace that was really used.
    trace: String,
    /// Its requests.
    requests: u64,
    /// Its requests in the paper, if it is one of the paper's.
    paper_requests: Option<f64>,
    /// The sizes of the levels, relative to one another.
    ratios: Vec<u32>,
    /// Figure 1: pages by how often they moved.
    hints: Vec<Hints>,
    /// Figures 4 to 7: every algorithm at every size.
    points: Vec<Point>,
    /// Figure 8: the combined algorithms over time.
    over_time: Vec<Timeline>,
    /// Figure 9: the combined algorithms with fixed shares of Q1, in percent.
    fixed_shares: Vec<StudyPoint>,
    /// Figure 10: the combined algorithms at every length of the history.
    history: Vec<StudyPoint>,
    /// Results of the algorithms that they are combined with, in the study.
    originals: Vec<OriginalPoint>,
    /// The combined algorithms under other readings of the paper.
    readings: Vec<ReadingPoint>,
}

/// One algorithm at one size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// The algorithm.
    policy: String,
    /// The sum of all levels, in percent of the footprint.
    aggregate_percent: f64,
    /// Results of the run.
    summary: Summary,
}

/// One algorithm over time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Timeline {
    /// The algorithm.
    policy: String,
    /// Results over time.
    #[serde(flatten)]
    over_time: OverTime,
    /// Its first level, period by period after the warm-up.
    stability: Option<Stability>,
}

/// One of the algorithms that HFA is combined with, where Figures 8 to 10 are.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OriginalPoint {
    /// The algorithm.
    policy: String,
    /// Hits in any level, divided by accesses.
    hit_ratio: f64,
}

/// One algorithm under one reading.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReadingPoint {
    /// The reading.
    reading: String,
    /// The algorithm.
    policy: String,
    /// Hits in any level, divided by accesses.
    hit_ratio: f64,
    /// The same without a history (k = 0), if the reading is one of the partition.
    without_history: Option<f64>,
    /// The share of the first level that Q1 takes in the end.
    q1_share: Option<f64>,
    /// Data of the algorithm besides the pages, as a share of the caches.
    metadata_share: f64,
}

/// One algorithm with one value of a parameter.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StudyPoint {
    /// The algorithm.
    policy: String,
    /// The value.
    at: u64,
    /// Hits in any level, divided by accesses.
    hit_ratio: f64,
}

impl Study for Experiment {
    type About = About;
    type Judge = Judge;
    type Results = Vec<WorkloadResult>;

    fn check(&self) -> Result<(), String> {
        if self.level_ms.len() < self.study_ratios.len() {
            return Err("each level has an access time".into());
        }
        let known = |policy: &String| self.pairs.iter().any(|pair| pair.combined == *policy);
        match self.readings.iter().flat_map(|reading| &reading.policies).find(|one| !known(one)) {
            Some(policy) => Err(format!("`{policy}` is combined with no algorithm")),
            None => Ok(()),
        }
    }

    fn runs(&self, workload: &Workload<About>) -> usize {
        let points = self.policies().len() * self.aggregate_percent.len();
        let studied = if workload.about.is_long { 0 } else { self.study_runs() };
        points + studied + self.hints_of.len()
    }

    fn run(
        &self,
        workload: &Workload<About>,
        trace: &CompiledTrace,
        results: &mut Self::Results,
        done: Done<'_>,
    ) -> Result<(), LabError> {
        results.push(self.run_workload(workload, trace, done)?);
        Ok(())
    }

    fn judge(
        &self,
        _workloads: &[Workload<About>],
        stated: &[Stated<Judge>],
        results: &Self::Results,
    ) -> Vec<Claim> {
        stated.iter().map(|one| self.judge_one(one, results)).collect()
    }

    fn tables(&self, results: &Self::Results) -> Vec<TextTable> {
        vec![report::overview(self, results), readings::table(self, results)]
    }

    fn page_tables(&self, results: &Self::Results) -> Vec<TextTable> {
        vec![report::hit_ratios(self, results), readings::table(self, results)]
    }

    fn report(&self, results: &Self::Results, report: &mut Report) {
        report::add(report, self, results);
    }
}

impl Experiment {
    /// Return all algorithms that are compared, each pair side by side.
    fn policies(&self) -> Vec<&str> {
        let pairs = self.pairs.iter().flat_map(|pair| [&*pair.original, &*pair.combined]);
        pairs.chain(self.rivals.iter().map(|rival| rival.name.as_str())).collect()
    }

    /// Return the hits of the algorithm that one is combined with, where Figures 8 to 10 are.
    fn original_of(&self, combined: &str, result: &WorkloadResult) -> Option<f64> {
        let pair = self.pairs.iter().find(|pair| pair.combined == combined)?;
        let point = result.originals.iter().find(|point| point.policy == pair.original)?;
        Some(point.hit_ratio)
    }

    /// Return the algorithms that a reading is tried on.
    fn policies_of<'a>(&'a self, reading: &'a Reading) -> impl Iterator<Item = &'a str> {
        let all = self.pairs.iter().map(|pair| pair.combined.as_str());
        all.filter(|&policy| {
            reading.policies.is_empty() || reading.policies.iter().any(|one| one == policy)
        })
    }

    /// Return the runs of Figures 8 to 10 and of the readings, on one workload.
    fn study_runs(&self) -> usize {
        let of_reading = |reading: &Reading| {
            let runs = if reading.is_of_partition { 2 } else { 1 };
            self.policies_of(reading).count() * runs
        };
        // Over time, over periods, and the algorithm that it is combined with.
        self.pairs.len() * (self.k.len() + self.q1_percent.len() + 3)
            + self.readings.iter().map(of_reading).sum::<usize>()
    }
}

impl WorkloadResult {
    /// Return the hits of a combined algorithm with its defaults, at the length of the history that
    /// it has.
    fn dynamic(&self, policy: &str) -> Option<f64> {
        self.readings.iter().find(|point| point.policy == policy).map(|point| point.hit_ratio)
    }

    /// Return the hits of a combined algorithm with a history of this length.
    fn with_history(&self, policy: &str, k: u64) -> Option<f64> {
        let mut points = self.history.iter();
        Some(points.find(|point| point.policy == policy && point.at == k)?.hit_ratio)
    }

    /// Return the fixed share of Q1 with the most hits, and those.
    fn best_fixed(&self, policy: &str) -> Option<(u64, f64)> {
        let points = self.fixed_shares.iter().filter(|point| point.policy == policy);
        let best = points.max_by(|one, other| one.hit_ratio.total_cmp(&other.hit_ratio))?;
        Some((best.at, best.hit_ratio))
    }

    /// Return `true` if pages return often enough that algorithms can differ.
    fn has_reuse(&self, experiment: &Experiment) -> bool {
        let ratios = self.points.iter().map(|point| point.summary.aggregate_hit_ratio() * 100.0);
        ratios.fold(0.0, f64::max) >= experiment.least_hits_percent
    }
}

impl Point {
    /// Return the number of pages that moved between levels.
    fn hints(&self) -> u64 {
        self.summary.demotions.iter().chain(&self.summary.promotions).sum()
    }
}

/// Hits in the first level, divided by accesses.
fn first_level(interval: &IntervalSummary) -> Option<f64> {
    interval.hit_ratio(0)
}

/// Return the share of the first level that Q1 takes at the end of a run.
fn protected_at_end(summary: &Summary) -> Option<f64> {
    let gauge = |name: &str| {
        let mut gauges = summary.gauges.iter();
        Some(gauges.find(|gauge| gauge.name == name && gauge.tier == "l1")?.value)
    };
    share(gauge("q1_pages"), gauge("q2_pages"))
}

/// Return the share of the first level that Q1 takes at the end of an interval.
fn protected(interval: &IntervalSummary) -> Option<f64> {
    share(interval.gauge("q1_pages", "l1"), interval.gauge("q2_pages", "l1"))
}

/// Return the share of Q1 in a level with so many pages in each queue.
fn share(q1: Option<f64>, q2: Option<f64>) -> Option<f64> {
    let (q1, both) = (q1?, q1? + q2?);
    (both > 0.0).then(|| q1 / both)
}
