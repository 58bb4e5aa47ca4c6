//! How the paper's claims are judged.

use serde::Deserialize;
use thermocline_lab::BufferSummary;
use thermocline_lab::metric::{self, Metric};

use super::{Experiment, PaperWorkload, Run, WorkloadResult};
use crate::claim::{Claim, Measured, Stated, all, is_near};

/// How a claim is judged.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Judge {
    /// Of each of the paper's traces: a figure of HWB, divided by that of LRU.
    RatioToLru(Figure),
    /// Of each of the paper's traces: the shares of the classes.
    Classes,
    /// What the paper says, where none of its traces is there.
    NoTraceOfThePaper,
    /// One buffer has a better figure than another on every workload, at every size.
    AlwaysBetter { figure: Figure, one: String, other: String },
    /// Pages with short and with long distances that are updated frequently are updated so many
    /// times as often as infrequent ones.
    UpdatedMoreOften { short: f64, long: f64 },
}

const HITS: &Metric<BufferSummary> = &metric::BUFFERS[0];
const ERASES: &Metric<BufferSummary> = &metric::BUFFERED_SSD[0];
const RESPONSE: &Metric<BufferSummary> = &metric::BUFFERED_SSD[2];

/// The figure of each of the paper's charts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    /// In percent.
    WriteHits,
    /// What is left of all writes.
    Misses,
    Erases,
    WriteResponse,
}

impl Figure {
    fn metric(self) -> &'static Metric<BufferSummary> {
        match self {
            Self::WriteHits | Self::Misses => HITS,
            Self::Erases => ERASES,
            Self::WriteResponse => RESPONSE,
        }
    }

    /// Our value.
    fn of(self, run: &Run) -> Option<f64> {
        let value = self.metric().value(&run.summary);
        match self {
            Self::Misses => Some(100.0 - value.unwrap_or(0.0)),
            Self::WriteHits | Self::Erases | Self::WriteResponse => value,
        }
    }

    /// The paper's values: LRU's and HWB's.
    fn of_paper(self, paper: &PaperWorkload) -> [f64; 2] {
        match self {
            Self::WriteHits => paper.hits_percent,
            Self::Misses => paper.hits_percent.map(|hits| 100.0 - hits),
            Self::Erases => paper.erases,
            Self::WriteResponse => paper.response_us,
        }
    }
}

impl Experiment {
    /// All claims: those about the paper's traces one trace after the other, then the others.
    pub(super) fn judge_all(
        &self,
        stated: &[Stated<Judge>],
        results: &[WorkloadResult],
    ) -> Vec<Claim> {
        let mut claims = vec![];
        for result in results {
            claims.extend(stated.iter().filter_map(|one| self.of_papers_trace(one, result)));
        }
        let has_trace = !claims.is_empty();
        for one in stated {
            let measured = match &one.judge {
                Judge::RatioToLru(_) | Judge::Classes => continue,
                Judge::NoTraceOfThePaper if has_trace => continue,
                Judge::NoTraceOfThePaper => None,
                Judge::AlwaysBetter { figure, one, other } => {
                    always_better(results, figure.metric(), one, other)
                }
                Judge::UpdatedMoreOften { short, long } => {
                    updated_more_often(results, [*short, *long])
                }
            };
            claims.push(Claim::new(one.says(&[]), measured));
        }
        claims
    }

    /// A claim about one of the paper's traces on the paper's drive, if this is one.
    fn of_papers_trace(&self, stated: &Stated<Judge>, result: &WorkloadResult) -> Option<Claim> {
        let paper = result.paper?;
        let find = |label: &str| {
            let mut runs = result.paper_drive.iter();
            runs.find(|run| run.label == label && run.size == self.text_size)
        };
        let runs = [find("LRU")?, find("HWB")?];
        let workload = ("workload", result.workload.as_str());
        match &stated.judge {
            Judge::RatioToLru(figure) => {
                let [lru, hwb] = figure.of_paper(&paper);
                let [our_lru, our_hwb] = runs.map(|run| figure.of(run).unwrap_or(f64::NAN));
                let [paper, ours] = [hwb / lru, our_hwb / our_lru];
                let words = format!(
                    "{ours:.2} ({our_hwb:.1} to {our_lru:.1}; {} requests)",
                    metric::grouped(result.requests)
                );
                let [ratio, hwb, lru] = [format!("{paper:.2}"), hwb.to_string(), lru.to_string()];
                let values = [workload, ("ratio", &ratio), ("hwb", &hwb), ("lru", &lru)];
                let is_confirmed = is_near(ours, paper, self.tolerance);
                Some(Claim::new(stated.says(&values), Some(Measured::one(words, is_confirmed))))
            }
            Judge::Classes => {
                let shares = paper.classes_percent?;
                let ours = result.classes.classes.iter().map(|class| class.page_share * 100.0);
                let ours: Vec<f64> = ours.collect();
                let difference = ours.iter().zip(shares).map(|(one, other)| (one - other).abs());
                let words = |shares: &[f64]| {
                    shares.iter().map(|share| format!("{share:.0}")).collect::<Vec<_>>().join("/")
                };
                let is_confirmed = difference.fold(0.0, f64::max) <= 100.0 * self.tolerance;
                let says = stated.says(&[workload, ("shares", &words(&shares))]);
                let measured = Measured::one(format!("{} %", words(&ours)), is_confirmed);
                Some(Claim::new(says, Some(measured)))
            }
            Judge::NoTraceOfThePaper
            | Judge::AlwaysBetter { .. }
            | Judge::UpdatedMoreOften { .. } => None,
        }
    }
}

/// That one buffer has a better figure than another on every workload, at every size.
fn always_better(
    results: &[WorkloadResult],
    metric: &Metric<BufferSummary>,
    one: &str,
    other: &str,
) -> Option<Measured> {
    let mut equal = 0;
    let (mut better, mut gains) = (vec![], vec![]);
    for result in results {
        for run in result.used_drive.iter().filter(|run| run.label == one) {
            let rival = result
                .used_drive
                .iter()
                .find(|rival| rival.label == other && rival.size == run.size);
            let Some(rival) = rival else { continue };
            let (Some(ours), Some(theirs)) =
                (metric.value(&run.summary), metric.value(&rival.summary))
            else {
                continue;
            };
            equal += usize::from(ours.total_cmp(&theirs).is_eq());
            better.push(if metric.is_more_better { ours > theirs } else { ours < theirs });
            if theirs > 0.0 {
                gains.push((ours / theirs - 1.0) * 100.0);
            }
        }
    }
    gains.sort_by(f64::total_cmp);
    let range = match (gains.first(), gains.get(gains.len() / 2), gains.last()) {
        (Some(least), Some(median), Some(most)) => {
            format!("; {least:+.1} to {most:+.1} %, median {median:+.1} %")
        }
        _ => String::new(),
    };
    all(better, |better, points| format!("at {better} of {points} points, equal at {equal}{range}"))
}

/// That frequently updated pages are updated at least so many times as often as infrequent ones,
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
    let is_confirmed =
        ratios.iter().zip(times).all(|(ratios, times)| ratios.iter().all(|&ratio| ratio >= times));
    let words = format!("FS {}, FL {}", range(&ratios[0]), range(&ratios[1]));
    (!results.is_empty()).then(|| Measured::one(words, is_confirmed))
}
