//! The HFA paper's experiments: hint frequencies, hit ratios and response times over sizes, hints,
//! space, stability, the partition and the length of the history.
//!
//! * Source: Meng et al., JCST 32(2), 2017, section 3.1 and section 5, Figures 1 and 4 to 10,
//!   Table 4.

mod claims;
mod hints;
mod report;
mod run;

use serde::{Deserialize, Serialize};
use thermocline_lab::report::Report;
use thermocline_lab::{IntervalSummary, LabError, OverTime, Summary};
use thermocline_trace::CompiledTrace;

use crate::claim::{Claim, Stated};
use crate::study::{Done, Study, TextTable};
use crate::workload::Workload;
use claims::Judge;
use hints::Hints;

/// What is to be run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    /// The sum of all levels, in percent of the footprint.
    aggregate_percent: Vec<f64>,
    /// Accesses left out of the counts, in percent.
    warm_up_percent: f64,
    /// The ratio of the levels for what is studied at one size.
    study_ratios: Vec<u32>,
    /// That size, in percent of the footprint.
    study_percent: f64,
    /// There, the accesses of a period (T), as a share of the pages of the first level.
    study_period_share: f64,
    /// There, the algorithms whose hints are observed.
    hints_of: Vec<String>,
    /// A workload with fewer hits at every size and with every algorithm judges nothing, in percent.
    least_hits_percent: f64,
    /// Points over time.
    points: usize,
    /// Fixed shares of Q1, in percent.
    q1_percent: Vec<u64>,
    /// Lengths of the history, in slots.
    k: Vec<u64>,
    /// Algorithms that are compared besides the pairs.
    rivals: Vec<String>,
    /// How near a measured percentage must come to the paper's to confirm it, in points.
    tolerance_points: f64,
    /// The approaches and what they are combined with.
    #[serde(rename = "pair")]
    pairs: Vec<Pair>,
}

/// An algorithm, and HFA combined with it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    original: String,
    combined: String,
}

/// What the file says about a workload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// The sizes of the levels, relative to one another.
    ratios: Vec<u32>,
    /// Its requests in the paper (Table 3), if it is one of the paper's.
    paper_requests: Option<f64>,
}

/// What one workload showed.
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
    over_time: Vec<Stability>,
    /// Figure 9: the combined algorithms with fixed shares of Q1, in percent.
    fixed_shares: Vec<StudyPoint>,
    /// Figure 10: the combined algorithms at every length of the history.
    history: Vec<StudyPoint>,
}

/// One algorithm at one size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// The algorithm.
    policy: String,
    /// The sum of all levels, in percent of the footprint.
    aggregate_percent: f64,
    /// What the run found.
    summary: Summary,
}

/// One algorithm over time.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Stability {
    /// The algorithm.
    policy: String,
    /// What it found.
    #[serde(flatten)]
    over_time: OverTime,
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

    fn runs(&self, _workload: &Workload<About>) -> usize {
        self.policies().len() * self.aggregate_percent.len()
            + self.pairs.len() * (self.k.len() + self.q1_percent.len() + 1)
            + self.hints_of.len()
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
        vec![report::overview(self, results)]
    }

    fn report(&self, results: &Self::Results, report: &mut Report) -> Result<(), LabError> {
        report::add(report, self, results)
    }
}

impl Experiment {
    /// All algorithms that are compared, each pair side by side.
    fn policies(&self) -> Vec<&str> {
        let pairs = self.pairs.iter().flat_map(|pair| [&*pair.original, &*pair.combined]);
        pairs.chain(self.rivals.iter().map(String::as_str)).collect()
    }
}

impl WorkloadResult {
    /// Whether pages return often enough that algorithms can differ.
    fn has_reuse(&self, experiment: &Experiment) -> bool {
        let ratios = self.points.iter().map(|point| point.summary.aggregate_hit_ratio() * 100.0);
        ratios.fold(0.0, f64::max) >= experiment.least_hits_percent
    }
}

impl Point {
    /// Pages that moved between levels.
    fn hints(&self) -> u64 {
        self.summary.demotions.iter().chain(&self.summary.promotions).sum()
    }
}

/// Hits in the first level, divided by accesses.
fn first_level(interval: &IntervalSummary) -> Option<f64> {
    interval.hit_ratio(0)
}

/// The share of the first level that Q1 takes at the end of an interval.
fn protected(interval: &IntervalSummary) -> Option<f64> {
    let [q1, q2] = ["q1_pages", "q2_pages"].map(|queue| interval.gauge(queue, "l1"));
    let (q1, both) = (q1?, q1? + q2?);
    (both > 0.0).then(|| q1 / both)
}
