//! Readings of the paper side by side, by the statements that they make true.

use super::{Experiment, Reading, ReadingPoint, WorkloadResult};
use crate::claim::{mean, median};
use crate::study::TextTable;

/// The title of the table, and its place on the paper's page.
const TITLE: &str = "Readings of the paper";

/// Results of a reading with one algorithm, over all workloads with re-use.
#[derive(Default)]
struct Found {
    /// The share of Q1, in percent.
    shares: Vec<f64>,
    /// Hits beyond those of the best fixed share, in percent of these.
    beyond_fixed: Vec<f64>,
    /// Hits beyond those of the algorithm that it is combined with, in percent of these.
    beyond_original: Vec<f64>,
    /// Hits beyond those without a history, in points.
    beyond_no_history: Vec<f64>,
    /// Data besides the pages, in percent of the caches.
    metadata: Vec<f64>,
}

/// Return a row per reading and algorithm.
pub(super) fn table(experiment: &Experiment, results: &[WorkloadResult]) -> TextTable {
    let results: Vec<&WorkloadResult> =
        results.iter().filter(|result| result.has_reuse(experiment)).collect();
    let rows = experiment.readings.iter().flat_map(|reading| {
        let results = &results;
        experiment.policies_of(reading).map(move |policy| row(experiment, reading, policy, results))
    });
    TextTable {
        title: Some(TITLE.into()),
        header: [
            "reading",
            "algorithm",
            "share of Q1, %",
            "hits beyond the best fixed share, %",
            "beyond the original, %",
            "beyond k = 0, points",
            "space, at most, %",
        ]
        .map(String::from)
        .to_vec(),
        rows: rows.collect(),
        numbers_from: 2,
    }
}

fn row(
    experiment: &Experiment,
    reading: &Reading,
    policy: &str,
    results: &[&WorkloadResult],
) -> Vec<String> {
    let mut found = Found::default();
    for result in results {
        let is_it = |point: &&ReadingPoint| point.reading == reading.name && point.policy == policy;
        if let Some(point) = result.readings.iter().find(is_it) {
            found.add(experiment, result, point);
        }
    }
    let Found { mut shares, mut beyond_fixed, mut beyond_original, mut beyond_no_history, .. } =
        found;
    let middle = |values: &mut Vec<f64>, digits: usize| {
        let text = |value: f64| format!("{value:+.digits$}");
        median(values).map_or_else(|| "-".into(), text)
    };
    let share = median(&mut shares).map_or_else(
        || "-".into(),
        |median| format!("{median:.0} ({:.0} to {:.0})", shares[0], shares[shares.len() - 1]),
    );
    let gain = mean(&beyond_fixed).map_or_else(String::new, |mean| format!(" (mean {mean:+.1})"));
    let space = found.metadata.iter().copied().reduce(f64::max);
    vec![
        reading.name.clone(),
        policy.into(),
        share,
        middle(&mut beyond_fixed, 1) + &gain,
        middle(&mut beyond_original, 1),
        middle(&mut beyond_no_history, 2),
        space.map_or_else(|| "-".into(), |most| format!("{most:.2}")),
    ]
}

impl Found {
    fn add(&mut self, experiment: &Experiment, result: &WorkloadResult, point: &ReadingPoint) {
        let percent_beyond = |other: f64| (point.hit_ratio / other - 1.0) * 100.0;
        self.shares.extend(point.q1_share.map(|share| share * 100.0));
        self.metadata.push(point.metadata_share * 100.0);
        let fixed = result.best_fixed(&point.policy).filter(|&(_, hits)| hits > 0.0);
        self.beyond_fixed.extend(fixed.map(|(_, hits)| percent_beyond(hits)));
        let original = experiment.original_of(&point.policy, result);
        self.beyond_original.extend(original.filter(|&hits| hits > 0.0).map(percent_beyond));
        let without = point.without_history;
        self.beyond_no_history.extend(without.map(|hits| (point.hit_ratio - hits) * 100.0));
    }
}
