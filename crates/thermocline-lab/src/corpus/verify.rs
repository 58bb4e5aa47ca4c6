//! Running a part of a study again, and comparing each figure with the results that the study ships.
//!
//! The traces are taken in an order that a seed decides, one data set after the other in turn, so that
//! a run that ends early has seen some of each. All points of a trace run, because points may share a
//! sample of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::plan::Plan;
use super::results::{Row, Subject};
use crate::{LabError, Watch};

/// Relative difference up to which two figures that are not counts are the same. Sums of the same
/// numbers are equal to the last bit; the margin is for a number that was read from text.
const TOLERANCE: f64 = 1e-9;

/// Settings of a run that checks a study.
#[derive(Clone, Copy, Debug)]
pub struct VerifySettings {
    /// Number of traces that run at the same time, at least 1.
    pub threads: usize,
    /// Time after which no further trace starts.
    pub time_limit: Duration,
    /// Seed of the order of the traces.
    pub seed: u64,
}

/// Result of running a part of a study again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verification {
    /// `true` if every trace that ran agrees, at least one ran, and no trace was unusable.
    pub agrees: bool,
    /// Version of the program that ran now.
    pub version: String,
    /// Versions of the program that the shipped results are from, sorted.
    pub shipped_versions: Vec<String>,
    /// Points that ran now and have a shipped result.
    pub compared_points: usize,
    /// Points of which a figure differs, or which only one side has.
    pub differing_points: usize,
    /// Points that the study ships, on all of its traces.
    pub shipped_points: usize,
    /// All traces, in the order of the manifest.
    pub traces: Vec<VerifiedTrace>,
}

/// Result for one trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerifiedTrace {
    /// The data set.
    pub dataset: String,
    /// The trace.
    pub trace: String,
    /// The outcome.
    pub outcome: TraceOutcome,
    /// Points that ran now and have a shipped result.
    pub compared_points: usize,
    /// Points of which a figure differs, or which only one side has.
    pub differing_points: usize,
    /// The first difference, in the order of the results.
    pub difference: Option<Difference>,
    /// Why the trace did not run, if it did not.
    pub reason: Option<String>,
}

/// Outcome for one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceOutcome {
    /// Every figure of every point is that of the shipped results.
    Agrees,
    /// A figure differs, or a point is on one side only.
    Differs,
    /// The trace is not here, and the manifest does not say how to get it.
    Missing,
    /// The trace is here, or could be fetched, and is not usable.
    Unusable,
    /// The time limit passed before its turn.
    NotReached,
}

/// A point, and how its results differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Policy and sizes of the point, and its seed if it has one.
    pub point: String,
    /// Parameters of the policy, as JSON.
    pub parameters: String,
    /// The difference.
    #[serde(flatten)]
    pub kind: DifferenceKind,
}

/// Difference between the results of a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// A figure has another value.
    Figure {
        /// Column of the figure.
        column: String,
        /// The shipped value.
        shipped: f64,
        /// The value now.
        found: f64,
    },
    /// Only the shipped results have the point.
    OnlyShipped,
    /// Only the run has the point.
    OnlyFound,
}

impl Plan {
    /// Run a part of the plan's traces again, and compare the figures with `shipped`, the results that
    /// belong to the plan. `progress` is called after each trace.
    ///
    /// # Errors
    /// A point that cannot run, or [`LabError::Stopped`]. A trace that cannot be read is an outcome.
    pub fn verify(
        &self,
        shipped: &[Row],
        settings: &VerifySettings,
        watch: &Watch,
        progress: impl Fn() + Sync,
    ) -> Result<Verification, LabError> {
        let mut by_trace: HashMap<(&str, &str), Vec<&Row>> = HashMap::new();
        for row in shipped {
            by_trace.entry((&row.dataset, &row.trace)).or_default().push(row);
        }
        let order = self.shuffled(settings.seed);
        let next = AtomicUsize::new(0);
        let found: Mutex<BTreeMap<usize, Result<VerifiedTrace, LabError>>> = Mutex::default();
        let started = Instant::now();
        let work = || {
            while let Some(&trace) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                let planned = &self.traces[trace];
                let rows = by_trace.get(&(planned.dataset.as_str(), planned.entry.name.as_str()));
                let verified = if started.elapsed() < settings.time_limit {
                    self.verify_trace(trace, rows.map_or(&[][..], Vec::as_slice), watch)
                } else {
                    Ok(self.not_run(trace, TraceOutcome::NotReached, None))
                };
                let has_failed = verified.is_err();
                found.lock().unwrap_or_else(PoisonError::into_inner).insert(trace, verified);
                progress();
                if has_failed {
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..settings.threads.max(1) {
                scope.spawn(work);
            }
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let traces = found.into_values().collect::<Result<Vec<_>, _>>()?;
        Ok(Verification::new(traces, shipped))
    }

    /// Return the traces in the order of their turns: data sets alternate, and within each a hash decides.
    fn shuffled(&self, seed: u64) -> Vec<usize> {
        let mut by_dataset: BTreeMap<&str, Vec<([u8; 32], usize)>> = BTreeMap::new();
        for (number, planned) in self.traces.iter().enumerate() {
            let name = format!("{seed} {}/{}", planned.dataset, planned.entry.name);
            let hash = Sha256::digest(name).into();
            by_dataset.entry(&planned.dataset).or_default().push((hash, number));
        }
        let mut turns: Vec<(usize, &str, usize)> = vec![];
        for (dataset, traces) in &mut by_dataset {
            traces.sort_unstable();
            turns.extend(traces.iter().enumerate().map(|(turn, one)| (turn, *dataset, one.1)));
        }
        turns.sort_unstable();
        turns.into_iter().map(|(_, _, trace)| trace).collect()
    }

    fn verify_trace(
        &self,
        trace: usize,
        shipped: &[&Row],
        watch: &Watch,
    ) -> Result<VerifiedTrace, LabError> {
        let entry = &self.traces[trace].entry;
        let path = &entry.source.path;
        if !path.exists() && entry.urls.is_empty() && entry.generate.is_none() {
            let reason = format!("`{}` is not here", path.display());
            return Ok(self.not_run(trace, TraceOutcome::Missing, Some(reason)));
        }
        let compiled = match self.open_once(trace, watch) {
            Ok(compiled) => compiled,
            Err(LabError::Stopped) => return Err(LabError::Stopped),
            Err(error) => {
                let reason = error.to_string();
                return Ok(self.not_run(trace, TraceOutcome::Unusable, Some(reason)));
            }
        };
        let points: Vec<usize> = (0..self.points_per_trace()).collect();
        let found = self.run_points(trace, &points, &compiled, watch)?;
        let Comparison { points, differences } = compare(shipped, &found);
        let outcome =
            if differences.is_empty() { TraceOutcome::Agrees } else { TraceOutcome::Differs };
        Ok(VerifiedTrace {
            compared_points: points,
            differing_points: differences.len(),
            difference: differences.into_iter().next(),
            ..self.not_run(trace, outcome, None)
        })
    }

    fn not_run(
        &self,
        trace: usize,
        outcome: TraceOutcome,
        reason: Option<String>,
    ) -> VerifiedTrace {
        let planned = &self.traces[trace];
        VerifiedTrace {
            dataset: planned.dataset.clone(),
            trace: planned.entry.name.clone(),
            outcome,
            compared_points: 0,
            differing_points: 0,
            difference: None,
            reason,
        }
    }
}

impl Verification {
    fn new(traces: Vec<VerifiedTrace>, shipped: &[Row]) -> Self {
        let mut shipped_versions: Vec<String> =
            shipped.iter().map(|row| row.version.clone()).collect();
        shipped_versions.sort_unstable();
        shipped_versions.dedup();
        let is_good = |one: &VerifiedTrace| {
            !matches!(one.outcome, TraceOutcome::Differs | TraceOutcome::Unusable)
        };
        let compared_points = traces.iter().map(|one| one.compared_points).sum();
        Self {
            agrees: compared_points > 0 && traces.iter().all(is_good),
            version: env!("CARGO_PKG_VERSION").into(),
            shipped_versions,
            compared_points,
            differing_points: traces.iter().map(|one| one.differing_points).sum(),
            shipped_points: shipped.len(),
            traces,
        }
    }
}

/// The points that both sides have, and those that differ.
struct Comparison {
    points: usize,
    differences: Vec<Difference>,
}

/// Compare the rows of one trace.
fn compare(shipped: &[&Row], found: &[Row]) -> Comparison {
    let mut found: BTreeMap<Subject<'_>, &Row> =
        found.iter().map(|row| (row.subject(), row)).collect();
    let mut comparison = Comparison { points: 0, differences: vec![] };
    for row in shipped {
        match found.remove(&row.subject()) {
            Some(other) => {
                comparison.points += 1;
                comparison.differences.extend(difference(row, other));
            }
            None => comparison.differences.push(Difference::of(row, DifferenceKind::OnlyShipped)),
        }
    }
    let only_found = found.into_values();
    comparison
        .differences
        .extend(only_found.map(|row| Difference::of(row, DifferenceKind::OnlyFound)));
    comparison
}

/// Return the first figure that differs, if any. Columns that only one side has do not count: a
/// later version of the program may have more figures.
fn difference(shipped: &Row, found: &Row) -> Option<Difference> {
    let differs = |column: &str, shipped_value: f64, found_value: f64| {
        let is_same = (shipped_value - found_value).abs()
            <= TOLERANCE * shipped_value.abs().max(found_value.abs())
            || shipped_value.total_cmp(&found_value).is_eq();
        let column = column.into();
        let kind = DifferenceKind::Figure { column, shipped: shipped_value, found: found_value };
        (!is_same).then(|| Difference::of(shipped, kind))
    };
    differs("rate", shipped.rate, found.rate).or_else(|| {
        let figures = shipped.figures.iter();
        figures
            .filter_map(|(column, number)| Some((column, number.value(), found.figure(column)?)))
            .find_map(|(column, shipped, found)| differs(column, shipped, found))
    })
}

impl Difference {
    fn of(row: &Row, kind: DifferenceKind) -> Self {
        let seed = row.seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
        let point = format!("`{}` with {}{seed}", row.policy, row.size);
        Self { point, parameters: row.parameters.clone(), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::results::Number;

    fn row(policy: &str, misses: u64, io_time_ms: f64) -> Row {
        Row {
            policy: policy.into(),
            rate: 1.0,
            figures: [
                ("misses".to_owned(), Number::Count(misses)),
                ("io_time_ms".to_owned(), Number::Real(io_time_ms)),
            ]
            .into(),
            ..Row::default()
        }
    }

    /// Policies with the column that differs, or with the only side that has the point.
    fn differences(shipped: &[Row], found: &[Row]) -> Vec<String> {
        let shipped: Vec<&Row> = shipped.iter().collect();
        let all = compare(&shipped, found).differences.into_iter();
        all.map(|one| {
            let policy = one.point.split('`').nth(1).unwrap();
            match one.kind {
                DifferenceKind::Figure { column, .. } => format!("{policy}: {column}"),
                DifferenceKind::OnlyShipped => format!("{policy}: shipped"),
                DifferenceKind::OnlyFound => format!("{policy}: found"),
            }
        })
        .collect()
    }

    #[test]
    fn equal_figures_agree_and_any_other_figure_does_not() {
        let shipped = [row("lru", 10, 1e6), row("arc", 9, 5.0)];
        assert!(differences(&shipped, &shipped).is_empty());
        let miss_more = [row("lru", 11, 1e6), row("arc", 9, 5.0)];
        assert_eq!(differences(&shipped, &miss_more), ["lru: misses"]);
        let slower = [row("lru", 10, 1e6 + 0.01), row("arc", 9, 5.0)];
        assert_eq!(differences(&shipped, &slower), ["lru: io_time_ms"]);
        // The last bits of a sum are no difference.
        let rounded = [row("lru", 10, 1e6 + 1e-6), row("arc", 9, 5.0)];
        assert!(differences(&shipped, &rounded).is_empty());
        let mut sampled = shipped.clone();
        sampled[1].rate = 0.5;
        // A sample is another subject than a full simulation.
        assert_eq!(differences(&shipped, &sampled), ["arc: shipped", "arc: found"]);
        let mut resampled = sampled.clone();
        resampled[1].rate = 0.25;
        assert_eq!(differences(&sampled, &resampled), ["arc: rate"]);
    }

    #[test]
    fn a_point_of_one_side_only_differs() {
        let (lru, arc) = (row("lru", 10, 1.0), row("arc", 9, 1.0));
        let both = [lru.clone(), arc.clone()];
        assert_eq!(differences(&both, std::slice::from_ref(&lru)), ["arc: shipped"]);
        assert_eq!(differences(&[arc], &both), ["lru: found"]);
    }

    #[test]
    fn a_column_that_only_one_version_has_is_not_compared() {
        let old = row("lru", 10, 1.0);
        let mut new = old.clone();
        new.figures.insert("new_figure".into(), Number::Count(1));
        let (old, new) = ([old], [new]);
        assert!(differences(&old, &new).is_empty());
        assert!(differences(&new, &old).is_empty());
    }
}
