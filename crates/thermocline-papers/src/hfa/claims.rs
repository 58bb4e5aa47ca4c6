//! Judges of the paper's claims.

use serde::Deserialize;

use super::hints::HintGroup;
use super::stability::Stability;
use super::{Experiment, Pair, Point, WorkloadResult, protected};
use crate::claim::{Claim, Measured, Stated, is_near, mean, median, spread};

/// Minimum number of pages for a mean.
const PAGES_OF_A_MEAN: u64 = 10;
/// Hit ratios that are not further apart than this are close, in percentage points.
const POINTS_OF_CLOSE: f64 = 2.0;
/// Shortfall of a hit ratio that still counts as equal, in percentage points.
const POINTS_OF_EQUAL: f64 = 0.1;

/// Rule by which a claim is judged. Percentages are of the algorithm that HFA is combined with.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Judge {
    /// Hits grow, at every size of every workload.
    HitsMore { combined: String },
    /// The response time shrinks.
    AnswersSooner { combined: String },
    /// All pairs move this percentage fewer pages between levels, on average.
    MovesFewer { percent: f64 },
    /// The data of the combined algorithms besides the pages is always less than this share.
    KeepsLess { percent: f64 },
    /// The share of Q1 in the first level, in the median of all workloads.
    Protects { policy: String, percent: f64 },
    /// Their share of the first level is more than this one.
    ProtectsMore { policy: String, percent: f64 },
    /// The gain in hits is not less with larger levels, at each step from one size to the next.
    GrowsWithSize,
    /// The first level's hits reach a stable level within so many periods (Figure 8 a).
    Settles { policy: String, periods: usize },
    /// They stay as near to it, in percent of it.
    Fluctuates { policy: String, percent: f64 },
    /// The dynamic partition hits more than the best fixed one, by this percentage (Figure 9).
    BeatsFixed { percent: f64 },
    /// The best fixed share of Q1 is this one, or one next to it.
    BestShare { policy: String, percent: u64 },
    /// Without a history, the hits are as near to those of the original as is allowed (Figure 10).
    IsOriginalWithoutHistory { policy: String },
    /// No shorter history hits more than one of this length, by more than a rounded tenth of a point.
    HistoryHelps { policy: String, k: u64 },
    /// Pages that move more often are accessed more often (Figure 1 a).
    MovedMoreIsAccessedMore,
    /// Pages that moved more often return after fewer distinct pages (Figure 1 b).
    MovedMoreReturnsSooner,
}

/// Effect of the combined algorithm at one size of one workload, in percent.
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
            Judge::GrowsWithSize => self.growth(results),
            Judge::Settles { policy, periods } => settles(policy, results, *periods),
            Judge::Fluctuates { policy, percent } => fluctuates(policy, results, *percent),
            Judge::BeatsFixed { percent } => self.beats_fixed(*percent, results),
            Judge::BestShare { policy, percent } => self.best_share(policy, *percent, results),
            Judge::IsOriginalWithoutHistory { policy } => self.without_history(policy, results),
            Judge::HistoryHelps { policy, k } => history_helps(policy, *k, results),
            Judge::MovedMoreIsAccessedMore => {
                steps(results, |less, more| Some(more.accesses >= less.accesses))
            }
            Judge::MovedMoreReturnsSooner => {
                steps(results, |less, more| Some(more.distance? <= less.distance?))
            }
        };
        let nothing = || Measured::beside_the_point("no trace that was run shows it");
        let measured = measured.or_else(|| (!results.is_empty()).then(nothing));
        Claim::new(stated.says(&[]), measured)
    }

    /// Return the gains of all pairs in percentage points of hits, from each size to the next.
    fn growth(&self, results: &[&WorkloadResult]) -> Option<Measured> {
        let gain = |pair: &Pair, result: &WorkloadResult, percent: f64| {
            let ratio = |policy: &str| {
                let is_it = |point: &&Point| {
                    point.policy == policy && point.aggregate_percent.to_bits() == percent.to_bits()
                };
                Some(result.points.iter().find(is_it)?.summary.aggregate_hit_ratio() * 100.0)
            };
            Some(ratio(&pair.combined)? - ratio(&pair.original)?)
        };
        let mut steps = vec![];
        for (pair, result) in
            self.pairs.iter().flat_map(|pair| results.iter().map(move |one| (pair, one)))
        {
            let gains = self.aggregate_percent.iter().filter_map(|&size| gain(pair, result, size));
            let gains: Vec<f64> = gains.collect();
            steps.extend(gains.windows(2).map(|two| two[1] - two[0]));
        }
        let grown = steps.iter().filter(|&&step| step >= 0.0).count();
        let words = spread(&mut steps, " points")?;
        let words = format!("at {grown} of {} steps to a larger size, {words}", steps.len());
        Some(Measured::points(words, grown, steps.len()))
    }

    fn beats_fixed(&self, percent: f64, results: &[&WorkloadResult]) -> Option<Measured> {
        let mut gains = vec![];
        for result in results {
            for pair in &self.pairs {
                let dynamic = result.dynamic(&pair.combined);
                let fixed = result.best_fixed(&pair.combined).filter(|&(_, hits)| hits > 0.0);
                if let (Some(dynamic), Some((_, fixed))) = (dynamic, fixed) {
                    gains.push((dynamic / fixed - 1.0) * 100.0);
                }
            }
        }
        let right = gains.iter().filter(|&&gain| gain >= percent - self.tolerance_points).count();
        let more = gains.iter().filter(|&&gain| gain > 0.0).count();
        let count = gains.len();
        let words = spread(&mut gains, " %")?;
        let words =
            format!("by about that at {right} of {count} points, by some at {more}; {words}");
        Some(Measured::points(words, right, count))
    }

    fn best_share(
        &self,
        policy: &str,
        percent: u64,
        results: &[&WorkloadResult],
    ) -> Option<Measured> {
        let best = results.iter().filter_map(|result| Some(result.best_fixed(policy)?.0));
        let mut best: Vec<u64> = best.collect();
        best.sort_unstable();
        let step = self.q1_percent.windows(2).map(|two| two[1] - two[0]).min().unwrap_or(0);
        let right = best.iter().filter(|share| share.abs_diff(percent) <= step).count();
        let middle = best.get(best.len() / 2)?;
        let [least, most] = [best[0], best[best.len() - 1]];
        let words = format!("{middle} % in the median; {least} to {most} %");
        Some(Measured::points(words, right, best.len()))
    }

    fn without_history(&self, policy: &str, results: &[&WorkloadResult]) -> Option<Measured> {
        let distances = results.iter().filter_map(|result| {
            let original = self.original_of(policy, result)?;
            Some((result.with_history(policy, 0)? - original) * 100.0)
        });
        let mut distances: Vec<f64> = distances.collect();
        let right = distances.iter().filter(|distance| distance.abs() <= POINTS_OF_CLOSE).count();
        let words = spread(&mut distances, " points")?;
        let words = format!(
            "within {POINTS_OF_CLOSE} points on {right} of {} traces, {words}",
            distances.len()
        );
        Some(Measured::points(words, right, distances.len()))
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

/// Judge that there is a gain at every point.
fn gains(changes: &[Change<'_>], gain: impl Fn(&Change<'_>) -> f64) -> Option<Measured> {
    let best = changes.iter().max_by(|one, other| gain(one).total_cmp(&gain(other)))?;
    let right = changes.iter().filter(|change| gain(change) > 0.0).count();
    let spread = spread(&mut changes.iter().map(&gain).collect::<Vec<f64>>(), " %")?;
    let words =
        format!("a gain at {right} of {} points, {spread} ({})", changes.len(), best.workload);
    Some(Measured::points(words, right, changes.len()))
}

/// Judge that every step from pages that moved less to those that moved more is right.
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

/// Judge that the first level is stable within `periods` periods, on every workload.
fn settles(policy: &str, results: &[&WorkloadResult], periods: usize) -> Option<Measured> {
    let settled: Vec<Option<usize>> =
        stabilities(policy, results).map(|stability| stability.settled_after).collect();
    let right = settled.iter().filter(|settled| settled.is_some_and(|after| after <= periods));
    let (right, count) = (right.count(), settled.len());
    let mut known: Vec<usize> = settled.into_iter().flatten().collect();
    known.sort_unstable();
    let middle = known.get(known.len() / 2);
    let middle =
        middle.map_or_else(String::new, |after| format!("; after {after} periods in the median"));
    (count > 0)
        .then(|| Measured::points(format!("on {right} of {count} traces{middle}"), right, count))
}

/// Judge that the first level fluctuates by no more than `percent`, on every workload.
fn fluctuates(policy: &str, results: &[&WorkloadResult], percent: f64) -> Option<Measured> {
    let fluctuations = stabilities(policy, results).map(|stability| stability.fluctuation * 100.0);
    let mut fluctuations: Vec<f64> = fluctuations.collect();
    let right = fluctuations.iter().filter(|&&one| one <= percent).count();
    let middle = median(&mut fluctuations)?;
    let [least, most] = [fluctuations[0], fluctuations[fluctuations.len() - 1]];
    let words = format!("{middle:.1} % in the median; {least:.1} to {most:.1} %");
    Some(Measured::points(words, right, fluctuations.len()))
}

fn stabilities<'a>(
    policy: &'a str,
    results: &'a [&WorkloadResult],
) -> impl Iterator<Item = &'a Stability> {
    let runs = results.iter().flat_map(|result| &result.over_time);
    runs.filter(move |run| run.policy == policy).filter_map(|run| run.stability.as_ref())
}

/// Judge that a history of length `k` is as good as any shorter one, and better than none, on every
/// workload.
fn history_helps(policy: &str, k: u64, results: &[&WorkloadResult]) -> Option<Measured> {
    let (mut gains, mut right) = (vec![], 0);
    for result in results {
        let hits = |k: u64| Some(result.with_history(policy, k)? * 100.0);
        let (Some(this), Some(none)) = (hits(k), hits(0)) else { continue };
        let shorter = (0..k).filter_map(hits);
        let is_best = shorter.fold(0.0, f64::max) <= this + POINTS_OF_EQUAL;
        right += usize::from(is_best && this >= none);
        gains.push(this - none);
    }
    let words = format!(
        "so on {right} of {} traces; beyond k = 0 {}",
        gains.len(),
        spread(&mut gains, " points")?
    );
    Some(Measured::points(words, right, gains.len()))
}

/// Judge that the share of the first level that Q1 takes in the end is right, on every workload.
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
