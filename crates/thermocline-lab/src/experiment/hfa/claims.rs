//! The paper's claims, beside what was measured.

use super::{Experiment, Pair, Point, WorkloadResult, protected};
use crate::experiment::Claim;

/// How near a measured percentage must come to the paper's to confirm it, in percentage points.
const TOLERANCE_POINTS: f64 = 5.0;

/// What the combined algorithm changes at one size of one workload, in percent.
struct Change<'a> {
    workload: &'a str,
    hits: f64,
    response: f64,
    hints: f64,
}

/// All claims of section 5 that a measurement can confirm or not.
pub fn claims(experiment: &Experiment, results: &[WorkloadResult]) -> Vec<Claim> {
    let mut claims = vec![];
    for pair in &experiment.pairs {
        let changes = changes(pair, results);
        claims.push(most(
            format!(
                "{} hits up to {} % more than {}",
                pair.combined, pair.hits_percent, pair.original
            ),
            &changes,
            |change| change.hits,
            pair.hits_percent,
        ));
        claims.push(most(
            format!(
                "{} answers up to {} % sooner than {}",
                pair.combined, pair.response_percent, pair.original
            ),
            &changes,
            |change| -change.response,
            pair.response_percent,
        ));
    }
    claims.extend([fewer_hints(experiment, results), space(results)]);
    claims.extend(protected_claims(results));
    claims
}

fn changes<'a>(pair: &Pair, results: &'a [WorkloadResult]) -> Vec<Change<'a>> {
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

/// That the greatest gain is at least the paper's, but for the tolerance.
fn most(
    claim: String,
    changes: &[Change<'_>],
    gain: impl Fn(&Change<'_>) -> f64,
    paper_percent: f64,
) -> Claim {
    let best = changes.iter().max_by(|one, other| gain(one).total_cmp(&gain(other)));
    let Some(best) = best else {
        return Claim { claim, measured: Claim::not_run(), is_confirmed: None };
    };
    let gains = changes.iter().filter(|change| gain(change) > 0.0).count();
    let mean = changes.iter().map(&gain).sum::<f64>() / changes.len() as f64;
    Claim {
        claim,
        measured: format!(
            "up to {:.1} % ({}); a gain at {gains} of {} points, {mean:+.1} % on average",
            gain(best),
            best.workload,
            changes.len()
        ),
        is_confirmed: Some(gain(best) >= paper_percent - TOLERANCE_POINTS),
    }
}

fn fewer_hints(experiment: &Experiment, results: &[WorkloadResult]) -> Claim {
    let mut means = vec![];
    for pair in &experiment.pairs {
        let changes = changes(pair, results);
        let total = changes.iter().map(|change| change.hints).sum::<f64>();
        means.push((pair.combined.as_str(), total / (changes.len() as f64).max(1.0)));
    }
    let all = means.iter().map(|(_, mean)| mean).sum::<f64>() / (means.len() as f64).max(1.0);
    let words: Vec<String> =
        means.iter().map(|(policy, mean)| format!("{policy} {mean:+.1} %")).collect();
    Claim {
        claim: "HFA moves about 10 % fewer pages between levels, on average".into(),
        measured: format!("{all:+.1} % ({})", words.join(", ")),
        is_confirmed: (!results.is_empty()).then_some((all + 10.0).abs() <= TOLERANCE_POINTS),
    }
}

fn space(results: &[WorkloadResult]) -> Claim {
    let points = results.iter().flat_map(|result| &result.points);
    let hfa = points.filter(|point| point.policy.ends_with("-hfa") && point.policy != "oracle-hfa");
    let most = hfa.map(|point| point.summary.metadata_share).fold(0.0, f64::max) * 100.0;
    Claim {
        claim: "HFA keeps less than 2.6 % of the caches' size besides the pages".into(),
        measured: format!("at most {most:.2} %"),
        is_confirmed: (!results.is_empty()).then_some(most < 2.6),
    }
}

/// The share of the first level that Q1 takes in the end (Figure 8 b).
fn protected_claims(results: &[WorkloadResult]) -> Vec<Claim> {
    let shares = |policy: &str| -> Vec<f64> {
        let runs = results.iter().flat_map(|result| &result.over_time);
        let runs = runs.filter(|run| run.policy == policy);
        runs.filter_map(|run| Some(protected(run.over_time.intervals.last()?)? * 100.0)).collect()
    };
    let claim = |policy: &str, claim: &str, is_so: fn(f64) -> bool| {
        let mut shares = shares(policy);
        shares.sort_by(f64::total_cmp);
        let median = shares.get(shares.len() / 2).copied();
        Claim {
            claim: claim.into(),
            measured: median.map_or_else(Claim::not_run, |median| {
                format!(
                    "{median:.0} % in the median; {:.0} to {:.0} %",
                    shares[0],
                    shares[shares.len() - 1]
                )
            }),
            is_confirmed: median.map(is_so),
        }
    };
    vec![
        claim("d-hfa", "with d-hfa, Q1 takes 13 % of the first level", |share| {
            (share - 13.0).abs() <= TOLERANCE_POINTS
        }),
        claim("p-hfa", "with p-hfa, Q1 takes 9 % of the first level", |share| {
            (share - 9.0).abs() <= TOLERANCE_POINTS
        }),
        claim("h-hfa", "with h-hfa, Q1 takes over 70 % of the first level", |share| share > 70.0),
    ]
}
