//! How the paper's claims are judged.

use serde::Deserialize;

use super::hints::HintGroup;
use super::{Experiment, Pair, Point, WorkloadResult, protected};
use crate::claim::{Claim, Measured, Stated, is_near, mean, median, spread};

/// So many pages are enough for a mean.
const PAGES_OF_A_MEAN: u64 = 10;

/// How a claim is judged. Percentages are of the algorithm that HFA is combined with.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Judge {
    /// Hits grow, at every size of every workload.
    HitsMore { combined: String },
    /// The response time shrinks.
    AnswersSooner { combined: String },
    /// How much fewer pages all pairs move between levels, on average.
    MovesFewer { percent: f64 },
    /// What the combined algorithms keep besides the pages is always less than this share.
    KeepsLess { percent: f64 },
    /// The share of Q1 in the first level, in the median of all workloads.
    Protects { policy: String, percent: f64 },
    /// That share is more than this one.
    ProtectsMore { policy: String, percent: f64 },
    /// Pages that move more often are accessed more often (Figure 1 a).
    MovedMoreIsAccessedMore,
    /// They return after fewer distinct pages (Figure 1 b).
    MovedMoreReturnsSooner,
}

/// What the combined algorithm changes at one size of one workload, in percent.
struct Change<'a> {
    workload: &'a str,
    hits: f64,
    response: f64,
    hints: f64,
}

impl Experiment {
    pub(super) fn judge_one(&self, stated: &Stated<Judge>, all: &[WorkloadResult]) -> Claim {
        let results: Vec<&WorkloadResult> =
            all.iter().filter(|result| result.has_reuse(self)).collect();
        if results.is_empty() && !all.is_empty() {
            let least = self.least_hits_percent;
            let words =
                format!("fewer than {least} % of the accesses hit on all traces that were run");
            return Claim::new(stated.says(&[]), Some(Measured::beside_the_point(words)));
        }
        let results = results.as_slice();
        let changes = |combined: &str| {
            let pair = self.pairs.iter().find(|pair| pair.combined == combined);
            pair.map_or_else(Vec::new, |pair| changes(pair, results))
        };
        let measured = match &stated.judge {
            Judge::HitsMore { combined } => gains(&changes(combined), |change| change.hits),
            Judge::AnswersSooner { combined } => {
                gains(&changes(combined), |change| -change.response)
            }
            Judge::MovesFewer { percent } => self.moves(-percent, results),
            Judge::KeepsLess { percent } => self.metadata(*percent, results),
            Judge::Protects { policy, percent } => {
                protects(policy, results, |share| is_near(share, *percent, self.tolerance_points))
            }
            Judge::ProtectsMore { policy, percent } => {
                protects(policy, results, |share| share > *percent)
            }
            Judge::MovedMoreIsAccessedMore => {
                steps(results, |less, more| Some(more.accesses >= less.accesses))
            }
            Judge::MovedMoreReturnsSooner => {
                steps(results, |less, more| Some(more.distance? <= less.distance?))
            }
        };
        Claim::new(stated.says(&[]), measured)
    }

    fn moves(&self, percent: f64, results: &[&WorkloadResult]) -> Option<Measured> {
        let means = self.pairs.iter().map(|pair| {
            let hints = changes(pair, results).into_iter().map(|change| change.hints);
            (pair.combined.as_str(), mean(&hints.collect::<Vec<f64>>()).unwrap_or(0.0))
        });
        let means: Vec<(&str, f64)> = means.collect();
        let all = mean(&means.iter().map(|(_, mean)| *mean).collect::<Vec<f64>>()).unwrap_or(0.0);
        let words: Vec<String> =
            means.iter().map(|(policy, mean)| format!("{policy} {mean:+.1} %")).collect();
        let words = format!("{all:+.1} % ({})", words.join(", "));
        (!results.is_empty())
            .then(|| Measured::one(words, is_near(all, percent, self.tolerance_points)))
    }

    fn metadata(&self, percent: f64, results: &[&WorkloadResult]) -> Option<Measured> {
        let is_combined =
            |point: &&Point| self.pairs.iter().any(|pair| pair.combined == point.policy);
        let points = results.iter().flat_map(|result| &result.points).filter(is_combined);
        let most = points.map(|point| point.summary.metadata_share).fold(0.0, f64::max) * 100.0;
        (!results.is_empty()).then(|| Measured::one(format!("at most {most:.2} %"), most < percent))
    }
}

fn changes<'a>(pair: &Pair, results: &[&'a WorkloadResult]) -> Vec<Change<'a>> {
    let mut changes = vec![];
    for result in results {
        for combined in result.points.iter().filter(|point| point.policy == pair.combined) {
            let original = result.points.iter().find(|point| {
                point.policy == pair.original
                    && point.aggregate_percent.to_bits() == combined.aggregate_percent.to_bits()
            });
            let Some(original) = original else { continue };
            let percent = |figure: fn(&Point) -> f64| {
                let [ours, theirs] = [combined, original].map(figure);
                if theirs > 0.0 { (ours / theirs - 1.0) * 100.0 } else { 0.0 }
            };
            changes.push(Change {
                workload: &result.workload,
                hits: percent(|point| point.summary.aggregate_hit_ratio()),
                response: percent(|point| point.summary.average_response_ms),
                hints: percent(|point| point.hints() as f64),
            });
        }
    }
    changes
}

/// That there is a gain at every point.
fn gains(changes: &[Change<'_>], gain: impl Fn(&Change<'_>) -> f64) -> Option<Measured> {
    let best = changes.iter().max_by(|one, other| gain(one).total_cmp(&gain(other)))?;
    let right = changes.iter().filter(|change| gain(change) > 0.0).count();
    let spread = spread(&mut changes.iter().map(&gain).collect::<Vec<f64>>(), " %")?;
    let words =
        format!("a gain at {right} of {} points, {spread} ({})", changes.len(), best.workload);
    Some(Measured::points(words, right, changes.len()))
}

/// That every step from pages that moved less to those that moved more is right.
fn steps(
    results: &[&WorkloadResult],
    is_right: impl Fn(&HintGroup, &HintGroup) -> Option<bool>,
) -> Option<Measured> {
    let (mut right, mut count) = (0, 0);
    for hints in results.iter().flat_map(|result| &result.hints) {
        // The mean of few pages says little.
        let groups: Vec<_> =
            hints.groups.iter().filter(|group| group.pages >= PAGES_OF_A_MEAN).collect();
        for step in groups.windows(2).filter_map(|pair| is_right(pair[0], pair[1])) {
            (right, count) = (right + usize::from(step), count + 1);
        }
    }
    let words = format!("{right} of {count} steps from one group of pages to the next");
    (count > 0).then(|| Measured::points(words, right, count))
}

/// That the share of the first level that Q1 takes in the end is right, on every workload.
fn protects(
    policy: &str,
    results: &[&WorkloadResult],
    is_right: impl Fn(f64) -> bool,
) -> Option<Measured> {
    let runs = results.iter().flat_map(|result| &result.over_time);
    let runs = runs.filter(|run| run.policy == policy);
    let shares = runs.filter_map(|run| Some(protected(run.over_time.intervals.last()?)? * 100.0));
    let mut shares: Vec<f64> = shares.collect();
    let right = shares.iter().filter(|&&share| is_right(share)).count();
    let median = median(&mut shares)?;
    let [least, most] = [shares[0], shares[shares.len() - 1]];
    let words = format!("{median:.0} % in the median; {least:.0} to {most:.0} %");
    Some(Measured::points(words, right, shares.len()))
}
