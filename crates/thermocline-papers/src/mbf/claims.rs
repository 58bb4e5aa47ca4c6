//! Judges of the paper's claims.

use serde::Deserialize;
use thermocline_lab::IdentifierSummary;

use super::run::{BUILDS, Build, MHF};
use super::{About, Experiment, PaperWorkload, SweepPoint, WorkloadResult};
use crate::claim::{Claim, Measured, Stated, all, is_near, mean, median};
use crate::workload::Workload;

/// Rule by which a claim is judged.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Judge {
    /// For each of the paper's traces: the percentage that the file has for it.
    ReductionOnThePapersTrace,
    /// A figure is above 0 on every trace.
    Everywhere { figure: Figure, unit: String },
    /// For every trace, more than half of the units do not fit MHF's table.
    UnitsOverflow { unit_writes: u64 },
    /// MBF identifies falsely less often than MHF with equal memory.
    BetterAtEveryMemory,
    /// The swept figure never falls from one step to the next.
    NeverFalls { sweep: Sweep, series: String },
    /// With filters of equal size, more of them have this percentage fewer false identifications,
    /// on average.
    FiltersHelp { few: u64, many: u64, percent: f64 },
    /// Saves this percentage of time, in the median of all traces.
    SavesTime { of: Time, percent: f64 },
    /// MBF takes half the memory of MHF.
    HalfTheMemory,
}

/// A figure of one trace.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    /// Reduction of MBF's false identification rate against MHF's.
    ReductionPercent,
    /// Reduction against that of 1 KiB with 2 KiB.
    #[serde(rename = "reduction_with_2_kib")]
    ReductionWith2Kib,
    /// Surplus of MHF's hot ratio over all others, in percentage points.
    SurplusOfMhf,
    /// Distance by which MBF's hot ratio lies nearer to WDAC's than MHF's, in percentage points.
    NearnessToWdac,
}

/// A sweep, and what it is about.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sweep {
    /// The hot ratio over windows and periods.
    Windows,
    /// The false identification rate over numbers of filters.
    Filters,
}

/// A time that is saved.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Time {
    /// Time of a check-up, by MBF against MHF.
    Check,
    /// Time of a decay, by MBF against MHF.
    Decay,
    /// Time of a check-up, by the shortcut of MBF.
    Shortcut,
}

impl Experiment {
    /// Return all claims; one about the paper's traces stands for each of them.
    pub(super) fn judge_all(
        &self,
        workloads: &[Workload<About>],
        stated: &[Stated<Judge>],
        results: &[WorkloadResult],
    ) -> Vec<Claim> {
        let mut claims = vec![];
        for one in stated {
            let measured = match &one.judge {
                Judge::ReductionOnThePapersTrace => {
                    let papers = workloads.iter().filter_map(|workload| {
                        let paper = workload.about.paper?;
                        Some(self.reduction(one, &workload.name, paper, results))
                    });
                    claims.extend(papers);
                    continue;
                }
                Judge::Everywhere { figure, unit } => everywhere(results, *figure, unit),
                Judge::UnitsOverflow { unit_writes } => units_overflow(results, *unit_writes),
                Judge::BetterAtEveryMemory => better_at_every_memory(results),
                Judge::NeverFalls { sweep, series } => never_falls(results, *sweep, series),
                Judge::FiltersHelp { few, many, percent } => {
                    filters_help(results, [*few, *many], percent - self.tolerance_points)
                }
                Judge::SavesTime { of, percent } => {
                    saves_time(results, *of, percent - self.tolerance_points)
                }
                Judge::HalfTheMemory => half_the_memory(results),
            };
            claims.push(Claim::new(one.says(&[]), measured));
        }
        claims
    }

    /// Return the paper's figure for one of its own traces.
    fn reduction(
        &self,
        stated: &Stated<Judge>,
        workload: &str,
        paper: PaperWorkload,
        results: &[WorkloadResult],
    ) -> Claim {
        let PaperWorkload { requests, reduction_percent: expected } = paper;
        let result = results.iter().find(|result| result.workload == workload);
        let measured = result.and_then(|result| {
            let measured = reduction_percent(result)?;
            let is_whole = result.requests == requests;
            let trace = if is_whole {
                "the paper's trace by its number of requests".to_owned()
            } else {
                format!("not the paper's trace: {} requests, not {requests}", result.requests)
            };
            let words = format!("{measured:.1} % less ({trace})");
            Some(if is_whole {
                Measured::one(words, is_near(measured, expected, self.tolerance_points))
            } else {
                // Another part of the trace proves nothing for or against the paper's figure.
                Measured::beside_the_point(words)
            })
        });
        let percent = format!("{expected:.0}");
        Claim::new(stated.says(&[("workload", workload), ("percent", &percent)]), measured)
    }
}

impl Figure {
    fn of(self, result: &WorkloadResult) -> f64 {
        match self {
            Self::ReductionPercent => reduction_percent(result).unwrap_or(0.0),
            Self::ReductionWith2Kib => {
                let [one, two] = ["MBF", "MBF 2 KiB"].map(|label| rate(result, label));
                (1.0 - two / one) * 100.0
            }
            Self::SurplusOfMhf => {
                let others = ["MBF", "WDAC", "DAM"].map(|label| hot_percent(result, label));
                hot_percent(result, "MHF") - others.into_iter().fold(0.0, f64::max)
            }
            Self::NearnessToWdac => {
                let truth = hot_percent(result, "WDAC");
                let [mbf, mhf] =
                    ["MBF", "MHF"].map(|label| (hot_percent(result, label) - truth).abs());
                mhf - mbf
            }
        }
    }
}

impl Time {
    /// Return the share that a build of MBF saves on a trace.
    fn saving(self, result: &WorkloadResult, build: &Build) -> Option<f64> {
        let of = |label: &str| result.runtime.iter().find(|one| one.label == label);
        let [mbf, plain] = build.labels.map(of);
        let (mbf, plain, mhf) = (mbf?, plain?, of(MHF)?);
        Some(match self {
            Self::Check => 1.0 - mbf.check_ns / mhf.check_ns,
            Self::Decay => 1.0 - mbf.decay_ns / mhf.decay_ns,
            Self::Shortcut => 1.0 - mbf.check_ns / plain.check_ns,
        })
    }
}

impl Sweep {
    fn points(self, result: &WorkloadResult) -> (&[SweepPoint], fn(&SweepPoint) -> f64) {
        match self {
            Self::Windows => (&result.windows, |point| point.hot_ratio),
            Self::Filters => (&result.filters, |point| point.false_identification_rate),
        }
    }
}

fn find<'a>(result: &'a WorkloadResult, label: &str) -> Option<&'a IdentifierSummary> {
    result.against_wdac.identifiers.iter().find(|one| one.label == label)
}

fn rate(result: &WorkloadResult, label: &str) -> f64 {
    find(result, label).map_or(f64::NAN, IdentifierSummary::false_identification_rate)
}

fn hot_percent(result: &WorkloadResult, label: &str) -> f64 {
    find(result, label).map_or(f64::NAN, |one| one.hot_ratio() * 100.0)
}

/// Return the reduction of MBF's false identification rate against MHF's, in percent; `None` if
/// neither is ever wrong.
pub(super) fn reduction_percent(result: &WorkloadResult) -> Option<f64> {
    let [mbf, mhf] = ["MBF", "MHF"].map(|label| rate(result, label));
    (mhf > 0.0).then(|| (1.0 - mbf / mhf) * 100.0)
}

fn everywhere(results: &[WorkloadResult], figure: Figure, unit: &str) -> Option<Measured> {
    let figures = results.iter().map(|result| (figure.of(result), result.workload.as_str()));
    let figures: Vec<(f64, &str)> = figures.collect();
    let least = figures.iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    let most = figures.iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
    all(figures.iter().map(|(figure, _)| *figure > 0.0), |held, traces| {
        format!(
            "so on {held} of {traces} traces; {:.1} ({}) to {:.1} {unit} ({})",
            least.0, least.1, most.0, most.1
        )
    })
}

/// Judge that a claim holds at every step of a sweep, on all traces.
fn of_steps(steps: impl IntoIterator<Item = bool>) -> Option<Measured> {
    all(steps, |held, steps| format!("so at {held} of {steps} steps on all traces"))
}

/// Figure 6.
fn units_overflow(results: &[WorkloadResult], unit_writes: u64) -> Option<Measured> {
    let units = results.iter().filter_map(|result| {
        result.unique_pages.iter().find(|unit| unit.unit_writes == unit_writes)
    });
    all(units.map(|unit| unit.overflowing > 0.5), |often, traces| {
        format!("on {often} of {traces} traces, more than half of the units have")
    })
}

fn better_at_every_memory(results: &[WorkloadResult]) -> Option<Measured> {
    of_steps(results.iter().flat_map(|result| {
        let of = |series| result.memory.iter().filter(move |point| point.series == series);
        of("MBF")
            .zip(of("MHF"))
            .map(|(mbf, mhf)| mbf.false_identification_rate < mhf.false_identification_rate)
    }))
}

fn never_falls(results: &[WorkloadResult], sweep: Sweep, series: &str) -> Option<Measured> {
    of_steps(results.iter().flat_map(|result| {
        let (points, value) = sweep.points(result);
        let points = points.iter().filter(|point| point.series == series);
        let values: Vec<f64> = points.map(value).collect();
        values.windows(2).map(|pair| pair[1] >= pair[0]).collect::<Vec<bool>>()
    }))
}

fn filters_help(
    results: &[WorkloadResult],
    filters: [u64; 2],
    least_percent: f64,
) -> Option<Measured> {
    let improvement = |result: &WorkloadResult, rule: &str| {
        let of = |filters: u64| {
            let series = format!("2048 bits each, {rule}");
            let mut points = result.filters.iter();
            let point = points.find(|point| point.series == series && point.at == filters)?;
            Some(point.false_identification_rate)
        };
        let few = of(filters[0]).filter(|rate| *rate > 0.0)?;
        Some((1.0 - of(filters[1])? / few) * 100.0)
    };
    let improved = |rule: &str| {
        let all = results.iter().filter_map(|result| improvement(result, rule));
        mean(&all.collect::<Vec<f64>>())
    };
    let (plain, scaled) = (improved("threshold 4")?, improved("scaled")?);
    let words = format!(
        "{plain:.1} % less with threshold 4, {scaled:.1} % less with a threshold in proportion (means of all traces)"
    );
    // Either reading of the threshold may confirm the claim, as the paper does not say which it
    // used.
    Some(Measured::one(words, [plain, scaled].into_iter().any(|mean| mean >= least_percent)))
}

/// Judge the time saved with the filters laid out as in the paper; ours stands beside it.
fn saves_time(results: &[WorkloadResult], time: Time, least_percent: f64) -> Option<Measured> {
    let saving = |build: &Build| {
        let savings = results.iter().filter_map(|result| time.saving(result, build));
        median(&mut savings.map(|share| share * 100.0).collect::<Vec<f64>>())
    };
    let [papers, ours] = BUILDS.each_ref().map(saving);
    let (papers, ours) = (papers?, ours?);
    let words = format!(
        "{papers:.0} % less time with separate filters, {ours:.0} % less with packed ones (medians of all traces)"
    );
    // Only the paper's layout counts: ours is faster in all cases, which would blur what the
    // shortcut saves.
    Some(Measured::one(words, papers >= least_percent))
}

fn half_the_memory(results: &[WorkloadResult]) -> Option<Measured> {
    let [mbf, mhf] = ["MBF", "MHF"].map(|label| Some(find(results.first()?, label)?.memory_bits));
    let (mbf, mhf) = (mbf?, mhf?);
    Some(Measured::one(format!("{} bytes and {} bytes", mbf / 8, mhf / 8), mbf * 2 == mhf))
}
