//! The paper's claims, beside what was measured.

use super::{Runtime, WorkloadResult};
use crate::IdentifierSummary;
use crate::experiment::Claim;

/// How near a measured percentage must come to the paper's to confirm it, in percentage points.
const TOLERANCE_POINTS: f64 = 5.0;

/// All claims of section IV that a measurement can confirm or not.
pub fn claims(results: &[WorkloadResult]) -> Vec<Claim> {
    let mut claims: Vec<Claim> = results.iter().filter_map(papers_reduction).collect();
    claims.extend([
        everywhere(
            "MBF identifies falsely less often than MHF",
            results,
            |result| reduction_percent(result).unwrap_or(0.0),
            "% less",
        ),
        everywhere(
            "in the memory of MHF, MBF does better still",
            results,
            |result| {
                let [one, two] = ["MBF", "MBF 2 KiB"].map(|label| rate(result, label));
                (1.0 - two / one) * 100.0
            },
            "% less than with 1 KiB",
        ),
        everywhere(
            "MHF finds more hot than MBF and both baselines do",
            results,
            |result| {
                let others = ["MBF", "WDAC", "DAM"].map(|label| hot_percent(result, label));
                hot_percent(result, "MHF") - others.into_iter().fold(0.0, f64::max)
            },
            "points more than the next",
        ),
        everywhere(
            "MBF's hot ratio lies nearer to WDAC's than MHF's does",
            results,
            |result| {
                let truth = hot_percent(result, "WDAC");
                let [mbf, mhf] =
                    ["MBF", "MHF"].map(|label| (hot_percent(result, label) - truth).abs());
                mhf - mbf
            },
            "points nearer",
        ),
        units_overflow(results),
        at_every_memory(results),
        grows_with_the_window(results, "WDAC"),
        grows_with_the_window(results, "DAM"),
        more_filters_in_equal_memory(results),
        eight_filters_of_equal_size(results),
    ]);
    claims.extend(runtime(results));
    claims.push(half_the_memory(results));
    claims
}

fn find<'a>(result: &'a WorkloadResult, label: &str) -> Option<&'a IdentifierSummary> {
    result.against_wdac.identifiers.iter().find(|one| one.label == label)
}

fn rate(result: &WorkloadResult, label: &str) -> f64 {
    find(result, label).map_or(f64::NAN, |one| one.false_identification_rate)
}

fn hot_percent(result: &WorkloadResult, label: &str) -> f64 {
    find(result, label).map_or(f64::NAN, |one| one.hot_ratio * 100.0)
}

/// By how much MBF's false identification rate lies below MHF's; none if neither is ever wrong.
pub(super) fn reduction_percent(result: &WorkloadResult) -> Option<f64> {
    let [mbf, mhf] = ["MBF", "MHF"].map(|label| rate(result, label));
    (mhf > 0.0).then(|| (1.0 - mbf / mhf) * 100.0)
}

/// The paper's figure for one of its own traces.
fn papers_reduction(result: &WorkloadResult) -> Option<Claim> {
    let paper = result.paper?;
    let expected = paper.reduction_percent;
    let measured = reduction_percent(result)?;
    let is_whole = result.requests == paper.requests;
    let trace = if is_whole {
        "the paper's trace by its number of requests".to_owned()
    } else {
        format!("not the paper's trace: {} requests, not {}", result.requests, paper.requests)
    };
    Some(Claim {
        claim: format!(
            "on {}, MBF identifies falsely {expected:.0} % less often than MHF",
            result.workload
        ),
        measured: format!("{measured:.1} % less ({trace})"),
        is_confirmed: is_whole.then_some((measured - expected).abs() <= TOLERANCE_POINTS),
    })
}

/// A figure that is to be above 0 on every trace.
fn everywhere(
    claim: &str,
    results: &[WorkloadResult],
    figure: impl Fn(&WorkloadResult) -> f64,
    unit: &str,
) -> Claim {
    let figures: Vec<(f64, &str)> =
        results.iter().map(|result| (figure(result), result.workload.as_str())).collect();
    let least = figures.iter().min_by(|one, other| one.0.total_cmp(&other.0));
    let most = figures.iter().max_by(|one, other| one.0.total_cmp(&other.0));
    let held = figures.iter().filter(|(figure, _)| *figure > 0.0).count();
    let measured = least.zip(most).map_or_else(Claim::not_run, |(least, most)| {
        format!(
            "so on {held} of {} traces; {:.1} ({}) to {:.1} {unit} ({})",
            figures.len(),
            least.0,
            least.1,
            most.0,
            most.1
        )
    });
    let is_confirmed = (!figures.is_empty()).then_some(held == figures.len());
    Claim { claim: claim.into(), measured, is_confirmed }
}

/// Counts the steps of a sweep, on all traces, for which the claim holds.
fn of_steps(claim: &str, steps: &[bool]) -> Claim {
    let held = steps.iter().filter(|&&holds| holds).count();
    Claim {
        claim: claim.into(),
        measured: if steps.is_empty() {
            Claim::not_run()
        } else {
            format!("so at {held} of {} steps on all traces", steps.len())
        },
        is_confirmed: (!steps.is_empty()).then_some(held == steps.len()),
    }
}

/// Figure 6: traces of which more than half of the units do not fit MHF's table.
fn units_overflow(results: &[WorkloadResult]) -> Claim {
    let shares: Vec<f64> = results
        .iter()
        .filter_map(|result| result.unique_pages.iter().find(|unit| unit.unit_writes == 5117))
        .map(|unit| unit.overflowing)
        .collect();
    let often = shares.iter().filter(|share| **share > 0.5).count();
    let is_confirmed = (!shares.is_empty()).then_some(often == shares.len());
    Claim {
        claim: "units of 5,117 writes very often have more than 4,096 distinct pages".into(),
        measured: if shares.is_empty() {
            Claim::not_run()
        } else {
            format!("on {often} of {} traces, more than half of the units have", shares.len())
        },
        is_confirmed,
    }
}

fn at_every_memory(results: &[WorkloadResult]) -> Claim {
    let steps: Vec<bool> = results
        .iter()
        .flat_map(|result| {
            let of = |series| result.memory.iter().filter(move |point| point.series == series);
            of("MBF")
                .zip(of("MHF"))
                .map(|(mbf, mhf)| mbf.false_identification_rate < mhf.false_identification_rate)
        })
        .collect();
    of_steps("with equal memory from 128 B to 4 KiB, MBF identifies falsely less often", &steps)
}

fn grows_with_the_window(results: &[WorkloadResult], series: &str) -> Claim {
    let steps: Vec<bool> = results
        .iter()
        .flat_map(|result| {
            let points: Vec<f64> = result
                .windows
                .iter()
                .filter(|point| point.series == series)
                .map(|point| point.hot_ratio)
                .collect();
            points.windows(2).map(|pair| pair[1] >= pair[0]).collect::<Vec<bool>>()
        })
        .collect();
    let what = if series == "WDAC" { "a larger window" } else { "a longer period" };
    of_steps(&format!("{what} never lowers the hot ratio of {series}"), &steps)
}

/// Four filters and more, with the threshold of Table I.
fn more_filters_in_equal_memory(results: &[WorkloadResult]) -> Claim {
    let steps: Vec<bool> = results
        .iter()
        .flat_map(|result| {
            let points: Vec<f64> = result
                .filters
                .iter()
                .filter(|point| point.series == "1 KiB, threshold 4")
                .map(|point| point.false_identification_rate)
                .collect();
            points.windows(2).map(|pair| pair[1] >= pair[0]).collect::<Vec<bool>>()
        })
        .collect();
    of_steps("in 1 KiB, more filters than 4 identify falsely more often", &steps)
}

fn eight_filters_of_equal_size(results: &[WorkloadResult]) -> Claim {
    let improvement = |result: &WorkloadResult, rule: &str| {
        let of = |filters: u64| {
            let series = format!("2048 bits each, {rule}");
            let mut points = result.filters.iter();
            let point = points.find(|point| point.series == series && point.at == filters)?;
            Some(point.false_identification_rate)
        };
        let four = of(4).filter(|rate| *rate > 0.0)?;
        Some((1.0 - of(8)? / four) * 100.0)
    };
    let mean = |rule: &str| {
        let all: Vec<f64> = results.iter().filter_map(|result| improvement(result, rule)).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let means = mean("threshold 4").zip(mean("scaled"));
    Claim {
        claim: "with filters of equal size, 8 identify falsely 18 % less often than 4, on average"
            .into(),
        measured: means.map_or_else(Claim::not_run, |(plain, scaled)| {
            format!(
                "{plain:.1} % less with threshold 4, {scaled:.1} % less with a threshold in proportion (means of all traces)"
            )
        }),
        is_confirmed: means.map(|(plain, scaled)| {
            [plain, scaled].into_iter().any(|mean| mean >= 18.0 - TOLERANCE_POINTS)
        }),
    }
}

/// Check-up, decay and shortcut; the middle one of the ratios over all traces.
fn runtime(results: &[WorkloadResult]) -> Vec<Claim> {
    let savings = |saving: fn(&Runtime, &Runtime, &Runtime) -> f64| {
        let mut savings: Vec<f64> = results
            .iter()
            .filter_map(|result| match result.runtime.as_slice() {
                [mbf, plain, mhf] => Some(saving(mbf, plain, mhf) * 100.0),
                _ => None,
            })
            .collect();
        savings.sort_by(f64::total_cmp);
        savings.get(savings.len() / 2).copied()
    };
    let claim = |claim: &str, percent: f64, saving: Option<f64>| Claim {
        claim: claim.into(),
        measured: saving.map_or_else(Claim::not_run, |saving| {
            format!("{saving:.0} % less time (median of all traces)")
        }),
        is_confirmed: saving.map(|saving| saving >= percent - TOLERANCE_POINTS),
    };
    vec![
        claim(
            "a check-up of MBF takes 6 % less time than one of MHF",
            6.0,
            savings(|mbf, _, mhf| 1.0 - mbf.check_ns / mhf.check_ns),
        ),
        claim(
            "a decay of MBF takes 58 % less time than one of MHF",
            58.0,
            savings(|mbf, _, mhf| 1.0 - mbf.decay_ns / mhf.decay_ns),
        ),
        claim(
            "the shortcut saves 29 % of a check-up",
            29.0,
            savings(|mbf, plain, _| 1.0 - mbf.check_ns / plain.check_ns),
        ),
    ]
}

fn half_the_memory(results: &[WorkloadResult]) -> Claim {
    let bits = results.first().and_then(|result| {
        let [mbf, mhf] = ["MBF", "MHF"].map(|label| find(result, label));
        Some((mbf?.memory_bits, mhf?.memory_bits))
    });
    Claim {
        claim: "MBF takes half the memory of MHF".into(),
        measured: bits.map_or_else(Claim::not_run, |(mbf, mhf)| {
            format!("{} bytes and {} bytes", mbf / 8, mhf / 8)
        }),
        is_confirmed: bits.map(|(mbf, mhf)| mbf * 2 == mhf),
    }
}
