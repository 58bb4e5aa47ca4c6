//! How the paper's claims are judged.

use serde::Deserialize;

use super::hints::HintGroup;
use super::{Experiment, Pair, Point, WorkloadResult, protected};
use crate::claim::{Claim, Measured, Stated, is_near, mean, median};

/// So many pages are enough for a mean.
const PAGES_OF_A_MEAN: u64 = 10;

/// How a claim is judged. Percentages are of the algorithm that HFA is combined with.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Judge {
    /// The most that hits grow, over all sizes and workloads.
    HitsMore { combined: String, percent: f64 },
    /// The most that the response time shrinks.
    AnswersSooner { combined: String, percent: f64 },
    /// How much fewer pages all pairs move between levels, on average.
    MovesFewer { percent: f64 },
    /// What the combined algorithms keep besides the pages is always less than this share.
    KeepsLess { percent: f64 },
    /// The share of Q1 in the first level, in the median of all workloads.
    Protects { policy: String, percent: f64 },
    /// That share is more than this one.
    ProtectsMore { policy: String, percent: f64 },
    /// Pages that move more often are accessed more often (Figure 1 a): so many percent of the steps from
    /// one group of pages to the next, at least.
    MovedMoreIsAccessedMore { percent: f64 },
    /// They return after fewer distinct pages (Figure 1 b).
    MovedMoreReturnsSooner { percent: f64 },
}

/// What the combined algorithm changes at one size of one workload, in percent.
struct Change<'a> {
    workload: &'a str,
    hits: f64,
    response: f64,
    hints: f64,
}

impl Experiment {
    pub(super) fn judge_one(&self, stated: &Stated<Judge>, results: &[WorkloadResult]) -> Claim {
        let results: Vec<&WorkloadResult> =
            results.iter().filter(|result| result.has_reuse(self)).collect();
        let results = results.as_slice();
        let changes = |combined: &str| {
            let pair = self.pairs.iter().find(|pair| pair.combined == combined);
            pair.map_or_else(Vec::new, |pair| changes(pair, results))
        };
        let measured = match &stated.judge {
            Judge::HitsMore { combined, percent } => {
                most(&changes(combined), |change| change.hits, percent - self.tolerance_points)
            }
            Judge::AnswersSooner { combined, percent } => {
                let least_percent = percent - self.tolerance_points;
                most(&changes(combined), |change| -change.response, least_percent)
            }
            Judge::MovesFewer { percent } => self.moves(-percent, results),
            Judge::KeepsLess { percent } => self.metadata(*percent, results),
            Judge::Protects { policy, percent } => protects(policy, results)
                .map(|(words, median)| (words, is_near(median, *percent, self.tolerance_points))),
            Judge::ProtectsMore { policy, percent } => {
                protects(policy, results).map(|(words, median)| (words, median > *percent))
            }
            Judge::MovedMoreIsAccessedMore { percent } => {
                steps(results, *percent, |less, more| Some(more.accesses >= less.accesses))
            }
            Judge::MovedMoreReturnsSooner { percent } => {
                steps(results, *percent, |less, more| Some(more.distance? <= less.distance?))
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
        (!results.is_empty()).then(|| (words, is_near(all, percent, self.tolerance_points)))
    }

    fn metadata(&self, percent: f64, results: &[&WorkloadResult]) -> Option<Measured> {
        let is_combined =
            |point: &&Point| self.pairs.iter().any(|pair| pair.combined == point.policy);
        let points = results.iter().flat_map(|result| &result.points).filter(is_combined);
        let most = points.map(|point| point.summary.metadata_share).fold(0.0, f64::max) * 100.0;
        (!results.is_empty()).then(|| (format!("at most {most:.2} %"), most < percent))
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

/// That the greatest gain is at least as great as this one.
fn most(
    changes: &[Change<'_>],
    gain: impl Fn(&Change<'_>) -> f64,
    least_percent: f64,
) -> Option<Measured> {
    let best = changes.iter().max_by(|one, other| gain(one).total_cmp(&gain(other)))?;
    let gains = changes.iter().filter(|change| gain(change) > 0.0).count();
    let mean = mean(&changes.iter().map(&gain).collect::<Vec<f64>>())?;
    let words = format!(
        "up to {:.1} % ({}); a gain at {gains} of {} points, {mean:+.1} % on average",
        gain(best),
        best.workload,
        changes.len()
    );
    Some((words, gain(best) >= least_percent))
}

/// That a step from pages that moved less to those that moved more is right, nearly always.
fn steps(
    results: &[&WorkloadResult],
    least_percent: f64,
    is_right: impl Fn(&HintGroup, &HintGroup) -> Option<bool>,
) -> Option<Measured> {
    let (mut right, mut count) = (0_u32, 0_u32);
    for hints in results.iter().flat_map(|result| &result.hints) {
        // The mean of few pages says little.
        let groups: Vec<_> =
            hints.groups.iter().filter(|group| group.pages >= PAGES_OF_A_MEAN).collect();
        for step in groups.windows(2).filter_map(|pair| is_right(pair[0], pair[1])) {
            (right, count) = (right + u32::from(step), count + 1);
        }
    }
    let percent = f64::from(right) * 100.0 / f64::from(count.max(1));
    let words = format!("{right} of {count} steps from one group of pages to the next");
    (count > 0).then_some((words, percent >= least_percent))
}

/// The share of the first level that Q1 takes in the end, in words, and its median in percent.
fn protects(policy: &str, results: &[&WorkloadResult]) -> Option<(String, f64)> {
    let runs = results.iter().flat_map(|result| &result.over_time);
    let runs = runs.filter(|run| run.policy == policy);
    let shares = runs.filter_map(|run| Some(protected(run.over_time.intervals.last()?)? * 100.0));
    let mut shares: Vec<f64> = shares.collect();
    let median = median(&mut shares)?;
    let [least, most] = [shares[0], shares[shares.len() - 1]];
    Some((format!("{median:.0} % in the median; {least:.0} to {most:.0} %"), median))
}
