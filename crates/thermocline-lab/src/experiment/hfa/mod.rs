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
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::{IntervalSummary, LabError, OverTime, Summary};

pub use claims::claims;
pub use hints::HintGroup;
pub use report::report;

/// What is to be run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The title of the report.
    pub title: String,
    /// The paper.
    pub source: String,
    /// The sum of all levels, in percent of the footprint.
    pub aggregate_percent: Vec<f64>,
    /// Accesses left out of the counts, in percent.
    pub warm_up_percent: f64,
    /// The ratio of the levels for what is studied at one size.
    pub study_ratios: Vec<u32>,
    /// That size, in percent of the footprint.
    pub study_percent: f64,
    /// Points over time.
    pub points: usize,
    /// Fixed shares of Q1, in percent.
    pub q1_percent: Vec<u64>,
    /// Lengths of the history, in slots.
    pub k: Vec<u64>,
    /// The approaches and what they are combined with.
    #[serde(rename = "pair")]
    pub pairs: Vec<Pair>,
    /// The traces looked for.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
    /// The traces made on the spot.
    pub generated: Vec<Generated>,
}

/// An algorithm, and HFA combined with it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The algorithm.
    pub original: String,
    /// HFA combined with it.
    pub combined: String,
    /// By how many percent the paper's hit ratio grows, at most (Table 4).
    pub hits_percent: f64,
    /// By how many percent the paper's response time shrinks, at most (Table 4).
    pub response_percent: f64,
}

/// One trace that is looked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in the report.
    pub name: String,
    /// What the names of its file may begin with, in any case.
    pub files: Vec<String>,
    /// The sizes of the levels, relative to one another.
    pub ratios: Vec<u32>,
    /// Its requests in the paper (Table 3), if it is one of the paper's.
    pub paper_requests: Option<f64>,
}

/// One trace that is made on the spot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generated {
    /// Its name in the report.
    pub name: String,
    /// Skew of the Zipf distribution.
    pub alpha: f64,
    /// Pages to draw from.
    pub pages: u64,
    /// How many requests.
    pub requests: u64,
    /// The share of them that write.
    pub write_share: f64,
    /// The seed.
    pub seed: u64,
    /// The sizes of the levels, relative to one another.
    pub ratios: Vec<u32>,
}

/// What one workload showed.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadResult {
    /// The workload's name.
    pub workload: String,
    /// The trace that was really used.
    pub trace: String,
    /// Its requests.
    pub requests: u64,
    /// Its requests in the paper, if it is one of the paper's.
    pub paper_requests: Option<f64>,
    /// The sizes of the levels, relative to one another.
    pub ratios: Vec<u32>,
    /// Figure 1: pages by how often they moved under the first pair's original.
    pub hint_groups: Vec<HintGroup>,
    /// Figures 4 to 7: every algorithm at every size.
    pub points: Vec<Point>,
    /// Figure 8: the combined algorithms over time.
    pub over_time: Vec<Stability>,
    /// Figure 9: the combined algorithms with fixed shares of Q1, in percent.
    pub fixed_shares: Vec<StudyPoint>,
    /// Figure 10: the combined algorithms at every length of the history.
    pub history: Vec<StudyPoint>,
}

/// One algorithm at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The algorithm.
    pub policy: String,
    /// The sum of all levels, in percent of the footprint.
    pub aggregate_percent: f64,
    /// What the run found.
    pub summary: Summary,
}

/// One algorithm over time.
#[derive(Clone, Debug, Serialize)]
pub struct Stability {
    /// The algorithm.
    pub policy: String,
    /// What it found.
    #[serde(flatten)]
    pub over_time: OverTime,
}

/// One algorithm with one value of a parameter.
#[derive(Clone, Debug, Serialize)]
pub struct StudyPoint {
    /// The algorithm.
    pub policy: String,
    /// The value.
    pub at: u64,
    /// Hits in any level, divided by accesses.
    pub hit_ratio: f64,
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// [`LabError::BadExperiment`] with line and column.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        super::parse(text)
    }
}

impl Generated {
    /// Makes the trace.
    ///
    /// # Errors
    /// Options that cannot be.
    pub fn trace(&self) -> Result<CompiledTrace, LabError> {
        let options = Options {
            pattern: Pattern::Zipf { alpha: self.alpha },
            requests: self.requests,
            pages: self.pages,
            write_share: self.write_share,
            seed: self.seed,
            scatter: true,
            ..Options::default()
        };
        let mut generator = Generator::new(options)?;
        Ok(CompiledTrace::compile(&mut generator, PageSize::DEFAULT)?)
    }
}

impl Point {
    /// Pages that moved between levels.
    pub fn hints(&self) -> u64 {
        self.summary.demotions.iter().chain(&self.summary.promotions).sum()
    }
}

/// Hits in the first level, divided by accesses.
fn first_level(interval: &IntervalSummary) -> Option<f64> {
    interval.hit_ratios.first().copied()
}

/// The share of the first level that Q1 takes at the end of an interval.
fn protected(interval: &IntervalSummary) -> Option<f64> {
    interval.q1_share("l1")
}
