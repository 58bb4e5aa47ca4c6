//! Judges of the paper's claims.

use serde::Deserialize;
use thermocline_lab::BufferSummary;
use thermocline_lab::metric::{self, Metric};

use super::{About, Experiment, PaperWorkload, Run, WorkloadResult};
use crate::claim::{Claim, Measured, Stated, is_near, median, spread};
use crate::workload::Workload;

/// Rule by which a claim is judged.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Judge {
    /// For each of the paper's traces: a figure of HWB, divided by that of LRU.
    RatioToLru(Figure),
    /// For each of the paper's traces: the shares of the classes.
    Classes,
    /// One buffer has a better figure than another on every workload, at every size, on a drive.
    AlwaysBetter {
        figure: Figure,
        one: String,
        other: String,
        #[serde(default)]
        drive: On,
    },
    /// Pages with short and with long distances that are updated frequently are updated so many
    /// times as often as infrequent ones.
    UpdatedMoreOften { short: f64, long: f64 },
}

/// Drive on which a claim is judged.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum On {
    /// The drive in use.
    #[default]
    UsedDrive,
    /// The paper's.
    PaperDrive,
}

impl On {
    fn runs(self, result: &WorkloadResult) -> &[Run] {
        match self {
            Self::UsedDrive => &result.used_drive,
            Self::PaperDrive => &result.paper_drive,
        }
    }
}

/// The figure of each of the paper's charts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    /// Write hits, in percent.
    WriteHits,
    /// Remaining share of all writes.
    Misses,
    Erases,
    WriteResponse,
}

impl Figure {
    pub(super) fn metric(self) -> Metric<BufferSummary> {
        metric::of_buffers(match self {
            Self::WriteHits | Self::Misses => "write_hit_ratio",
            Self::Erases => "erase_count",
            Self::WriteResponse => "write_mean_us",
        })
    }

    /// Our value.
    fn of(self, run: &Run) -> Option<f64> {
        let value = self.metric().value(&run.summary);
        match self {
            Self::Misses => Some(100.0 - value.unwrap_or(0.0)),
            Self::WriteHits | Self::Erases | Self::WriteResponse => value,
        }
    }

    /// Return the paper's values: LRU's and HWB's.
    pub(super) fn of_paper(self, paper: &PaperWorkload) -> [f64; 2] {
        match self {
            Self::WriteHits => paper.hits_percent,
            Self::Misses => paper.hits_percent.map(|hits| 100.0 - hits),
            Self::Erases => paper.erases,
            Self::WriteResponse => paper.response_us,
        }
    }
}

impl Experiment {
    /// Return all claims: those about the paper's traces one trace after the other, then the
    /// others.
    pub(super) fn judge_all(
        &self,
        workloads: &[Workload<About>],
        stated: &[Stated<Judge>],
        results: &[WorkloadResult],
    ) -> Vec<Claim> {
        let mut claims = vec![];
        for workload in workloads {
            let Some(paper) = workload.about.paper else { continue };
            let result = results.iter().find(|result| result.workload == workload.name);
            let of_trace = |one| self.of_papers_trace(one, &workload.name, &paper, result);
            claims.extend(stated.iter().filter_map(of_trace));
        }
        for one in stated {
            let measured = match &one.judge {
                Judge::RatioToLru(_) | Judge::Classes => continue,
                Judge::AlwaysBetter { figure, one, other, drive } => {
                    let pairs = results.iter().flat_map(|result| {
                        let runs = drive.runs(result);
                        let ours = runs.iter().filter(|run| run.label == *one);
                        ours.filter_map(|run| Some((run, run.rival(runs, other)?)))
                    });
                    Comparison::of(pairs, &figure.metric()).measured()
                }
                Judge::UpdatedMoreOften { short, long } => {
                    updated_more_often(results, [*short, *long])
                }
            };
            claims.push(Claim::new(one.says(&[]), measured));
        }
        claims
    }

    /// Return a claim about one of the paper's traces on the paper's drive, if this is one.
    fn of_papers_trace(
        &self,
        stated: &Stated<Judge>,
        name: &str,
        paper: &PaperWorkload,
        result: Option<&WorkloadResult>,
    ) -> Option<Claim> {
        let workload = ("workload", name);
        match &stated.judge {
            Judge::RatioToLru(figure) => {
                let [lru, hwb] = figure.of_paper(paper);
                let measured = result.and_then(|result| self.ratio(*figure, hwb / lru, result));
                let [ratio, hwb, lru] =
                    [format!("{:.2}", hwb / lru), hwb.to_string(), lru.to_string()];
                let values = [workload, ("ratio", &ratio), ("hwb", &hwb), ("lru", &lru)];
                Some(Claim::new(stated.says(&values), measured))
            }
            Judge::Classes => {
                let shares = paper.classes_percent?;
                let words = |shares: &[f64]| {
                    shares.iter().map(|share| format!("{share:.0}")).collect::<Vec<_>>().join("/")
                };
                let measured = result.map(|result| {
                    let classes = result.classes.classes.iter();
                    let ours: Vec<f64> = classes.map(|class| class.page_share * 100.0).collect();
                    let off = ours.iter().zip(shares).map(|(one, other)| (one - other).abs());
                    let is_near = off.fold(0.0, f64::max) <= 100.0 * self.tolerance;
                    Measured::one(format!("{} %", words(&ours)), is_near)
                });
                let says = stated.says(&[workload, ("shares", &words(&shares))]);
                Some(Claim::new(says, measured))
            }
            Judge::AlwaysBetter { .. } | Judge::UpdatedMoreOften { .. } => None,
        }
    }

    /// Return a figure of HWB, divided by that of LRU, on the paper's drive.
    fn ratio(&self, figure: Figure, paper: f64, result: &WorkloadResult) -> Option<Measured> {
        let find = |label: &str| {
            let mut runs = result.paper_drive.iter();
            runs.find(|run| run.label == label && run.size == self.text_size)
        };
        let [lru, hwb] = [find("LRU")?, find("HWB")?].map(|run| figure.of(run).unwrap_or(f64::NAN));
        let ours = hwb / lru;
        let requests = metric::grouped(result.requests);
        let words = format!("{ours:.2} ({hwb:.1} to {lru:.1}; {requests} requests)");
        Some(Measured::one(words, is_near(ours, paper, self.tolerance)))
    }
}

/// Number of times that one buffer has a better figure than another, and the difference.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    better: usize,
    equal: usize,
    worse: usize,
    /// Differences in percent of the other's figure, where that is not 0.
    percent: Vec<f64>,
}

impl Comparison {
    /// Compare runs with their rivals.
    pub(super) fn of<'a>(
        pairs: impl Iterator<Item = (&'a Run, &'a Run)>,
        metric: &Metric<BufferSummary>,
    ) -> Self {
        let mut found = Self::default();
        for (run, rival) in pairs {
            let values = (metric.value(&run.summary), metric.value(&rival.summary));
            let (Some(ours), Some(theirs)) = values else { continue };
            let is_better = if metric.is_more_better { ours > theirs } else { ours < theirs };
            match (ours.total_cmp(&theirs).is_eq(), is_better) {
                (true, _) => found.equal += 1,
                (false, true) => found.better += 1,
                (false, false) => found.worse += 1,
            }
            if theirs > 0.0 {
                found.percent.push((ours / theirs - 1.0) * 100.0);
            }
        }
        found
    }

    /// Describe the comparison: better, equal and worse, with the median difference and both ends.
    pub(super) fn words(&mut self) -> String {
        let Self { better, equal, worse, percent } = self;
        let counts = format!("better at {better}, equal at {equal}, worse at {worse} points");
        match spread(percent, " %") {
            Some(spread) => format!("{counts}; {spread}"),
            None => counts,
        }
    }

    /// Format the counts of better, equal and worse, and the median difference, as a cell of a table.
    pub(super) fn cell(&mut self) -> String {
        let counts = format!("{} / {} / {}", self.better, self.equal, self.worse);
        match median(&mut self.percent) {
            Some(median) => format!("{counts}; {median:+.1} %"),
            None => counts,
        }
    }

    /// Return the claim that the one is better, judged at the points where they differ.
    fn measured(mut self) -> Option<Measured> {
        let points = self.better + self.worse;
        (points + self.equal > 0).then(|| Measured::points(self.words(), self.better, points))
    }
}

/// Judge that frequently updated pages are updated at least `times` as often as infrequent ones,
/// those with short distances and those with long ones.
fn updated_more_often(results: &[WorkloadResult], times: [f64; 2]) -> Option<Measured> {
    let mut ratios = [vec![], vec![]];
    for result in results {
        let frequency = |class: usize| result.classes.classes[class].mean_writes_per_page;
        let infrequent = frequency(2).max(frequency(3));
        for (class, ratios) in ratios.iter_mut().enumerate() {
            if infrequent > 0.0 && frequency(class) > 0.0 {
                ratios.push(frequency(class) / infrequent);
            }
        }
    }
    let range = |ratios: &[f64]| {
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        if ratios.is_empty() { "none".into() } else { format!("{least:.0} to {most:.0} times") }
    };
    let is_right =
        ratios.iter().zip(times).all(|(ratios, times)| ratios.iter().all(|&ratio| ratio >= times));
    let words = format!("FS {}, FL {}", range(&ratios[0]), range(&ratios[1]));
    (!results.is_empty()).then(|| Measured::one(words, is_right))
}
