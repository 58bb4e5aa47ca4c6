//! The comparison of policies over the traces of a corpus, as the field's papers make it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::results::Row;
use super::statistics::{
    Bootstrap, Estimate, Friedman, INTERVAL_TRACES_MIN, critical_difference, friedman, holm, mean,
    median, percentile, reduction, sorted, wilcoxon,
};
use crate::LabError;

use observations::{Group, Observations, Observed, SameSizes, labels, observe, same_sizes};

mod observations;

/// Baselines of caches and of write buffers, where none are given; those that have results are used.
const BASELINES: [&str; 5] = ["fifo", "lru", "lru-inclusive", "lru-exclusive", "none"];
/// The figures that are compared, where rows have them. Less is better in all.
pub const METRICS: [(&str, &str); 8] = [
    ("miss_ratio", "misses"),
    ("io_time_ms", "I/O time"),
    ("average_response_ms", "average response"),
    ("flash_page_writes", "flash writes"),
    ("disk_page_writes", "disk writes"),
    ("flash_erases_per_day", "flash erases"),
    ("pages_flushed", "pages flushed"),
    ("erase_count", "erases"),
];
/// The figure by which filters look at a cache.
const MISSES: &str = "miss_ratio";

/// Options of a comparison of results.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyOptions {
    /// The policies that others are compared with; the usual ones if empty.
    pub baselines: Vec<String>,
    /// The figures that are compared, by their columns; all if empty.
    pub metrics: Vec<String>,
    /// Traces that are left out.
    pub filters: Filters,
    /// A difference of reductions up to which two policies tie.
    pub tie: f64,
    /// Number of times that traces are resampled.
    pub resamples: u32,
    /// Seed of the resamples.
    pub seed: u64,
    /// Takes traces of one side of the split only.
    pub split: Option<String>,
}

/// Traces that are left out of a comparison, as in S3-FIFO's scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Filters {
    /// Fewer entries than this in the smallest tier leave the trace out at that size.
    pub min_entries: u64,
    /// A trace of which two sizes have the same number of entries is left out.
    pub distinct_sizes: bool,
    /// A trace on which the baseline misses nothing but first uses, or everything, or nothing, is left
    /// out at that size.
    pub saturated: bool,
}

/// Number of traces that were left out, and why; a trace counts under the first reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Filtered {
    /// Traces with results at this size.
    pub traces: usize,
    /// Two of its sizes have the same number of entries.
    pub same_sizes: usize,
    /// A tier has too few entries.
    pub too_small: usize,
    /// The baseline misses first uses only, everything or nothing.
    pub saturated: usize,
    /// A policy has no result, or the baseline has none.
    pub incomplete: usize,
    /// Traces that are left.
    pub left: usize,
}

/// Comparisons of policies over traces. Its JSON form has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    /// Changes when older programs could misunderstand it.
    pub schema: u32,
    /// Traces that are left out.
    pub filters: Filters,
    /// A difference of reductions up to which two policies tie.
    pub tie: f64,
    /// Number of times that traces are resampled.
    pub resamples: u32,
    /// Seed of the resamples.
    pub seed: u64,
    /// The side of the split that was taken; both if none.
    pub split: Option<String>,
    /// One for each size, figure and baseline.
    pub sections: Vec<Section>,
}

/// A policy that others are compared with.
pub type Baseline = String;

/// One figure at one size against one baseline.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// `cache` or `buffer`.
    pub kind: String,
    /// The sizes as they were asked for.
    pub size: String,
    /// Devices, costs and options, as JSON.
    pub hierarchy: String,
    /// The figure, by its column.
    pub metric: String,
    /// The figure in words.
    pub metric_words: String,
    /// Policy with which others are compared.
    pub baseline: Baseline,
    /// `true` if some of the results are of samples.
    pub is_sampled: bool,
    /// Traces that were left out.
    pub filtered: Filtered,
    /// Each data set, and last all together, resampled within each.
    pub datasets: Vec<DatasetStatistics>,
}

/// Policies compared over the traces of one data set.
#[derive(Clone, Debug, Serialize)]
pub struct DatasetStatistics {
    /// Its name; `all` for all of them.
    pub dataset: String,
    /// Traces that the figures stand on.
    pub traces: usize,
    /// The policies, the best mean first.
    pub policies: Vec<PolicyStatistics>,
    /// Friedman's test of whether the policies differ at all; none with fewer than two traces or policies.
    pub friedman: Option<Friedman>,
    /// Difference of mean ranks below which the test does not separate policies (Nemenyi, 5 %).
    pub critical_difference: Option<f64>,
    /// The best policy against each of the others.
    pub pairs: Vec<Pair>,
}

/// The reductions of one policy against the baseline. A positive one is better.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyStatistics {
    /// The policy, with the parameters that tell it from others.
    pub policy: String,
    /// The percentile of that share.
    pub p10: f64,
    /// The percentile of that share.
    pub p25: f64,
    /// The percentile of that share.
    pub p50: f64,
    /// The percentile of that share.
    pub p75: f64,
    /// The percentile of that share.
    pub p90: f64,
    /// The percentile of that share: the bad end.
    pub p1: f64,
    /// The mean.
    pub mean: f64,
    /// The interval of the mean; none with fewer than five traces.
    pub interval: Option<Estimate>,
    /// The mean over data sets of their means; only of all together.
    pub mean_of_datasets: Option<f64>,
    /// The worst.
    pub min: f64,
    /// The trace of the worst.
    pub worst_trace: String,
    /// The share of traces on which it is worse than the baseline.
    pub share_worse: f64,
    /// Traces on which it is better than the baseline by more than the tie.
    pub wins: usize,
    /// Traces on which neither is better by more than the tie.
    pub ties: usize,
    /// Traces on which it is worse by more than the tie.
    pub losses: usize,
    /// Its mean rank among the policies; 1 is the best.
    pub mean_rank: f64,
}

/// Two policies on the same traces.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// The better one.
    pub better: String,
    /// The other one.
    pub other: String,
    /// The mean of the differences of their reductions, with its interval.
    pub difference: Option<Estimate>,
    /// The median of the differences: the size of the effect.
    pub median: f64,
    /// Wilcoxon's signed-rank test, corrected by Holm for all pairs of the data set.
    pub p_value: f64,
}

impl Default for StudyOptions {
    fn default() -> Self {
        Self {
            baselines: vec![],
            metrics: vec![],
            filters: Filters::PUBLISHED,
            tie: 0.001,
            resamples: 10_000,
            seed: 1,
            split: None,
        }
    }
}

impl Filters {
    /// Filters of S3-FIFO: 1000 entries, distinct sizes, no trace of first uses only.
    pub const PUBLISHED: Self = Self { min_entries: 1000, distinct_sizes: true, saturated: true };
    /// Takes every trace.
    pub const NONE: Self = Self { min_entries: 0, distinct_sizes: false, saturated: false };
}

impl Study {
    /// Compares the results of a corpus.
    ///
    /// # Errors
    /// If a baseline has no result, or a side of the split has no trace.
    pub fn new(rows: &[Row], options: &StudyOptions) -> Result<Self, LabError> {
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|row| options.split.is_none() || row.split == options.split)
            .collect();
        if rows.is_empty() {
            let split = options.split.clone().unwrap_or_default();
            return Err(LabError::Corpus {
                reason: format!("no result is of the side `{split}` of the split: run it first"),
            });
        }
        let labels = labels(&rows);
        let groups = observe(&rows, &labels);
        check_baselines(&options.baselines, labels.values())?;
        let same_sizes = same_sizes(&groups);
        let mut sections = vec![];
        for (group, observations) in &groups {
            let present: BTreeSet<&String> =
                observations.values().flat_map(BTreeMap::keys).collect();
            let baselines: Vec<&str> = match options.baselines.as_slice() {
                [] => BASELINES.to_vec(),
                given => given.iter().map(String::as_str).collect(),
            };
            for baseline in
                baselines.into_iter().filter(|name| present.iter().any(|one| one == name))
            {
                let is_asked = |name: &str| {
                    options.metrics.is_empty() || options.metrics.iter().any(|one| one == name)
                };
                for (metric, words) in METRICS.into_iter().filter(|(name, _)| is_asked(name)) {
                    let comparison = Comparison {
                        group,
                        observations,
                        baseline,
                        metric,
                        policies: present.iter().map(|name| name.as_str()).collect(),
                        same_sizes: &same_sizes,
                        options,
                    };
                    sections.extend(comparison.section(words));
                }
            }
        }
        Ok(Self {
            schema: 1,
            filters: options.filters,
            tie: options.tie,
            resamples: options.resamples,
            seed: options.seed,
            split: options.split.clone(),
            sections,
        })
    }
}

/// Check that every named baseline has a result.
fn check_baselines<'a>(
    baselines: &[String],
    labels: impl Iterator<Item = &'a String>,
) -> Result<(), LabError> {
    let known: BTreeSet<&String> = labels.collect();
    match baselines.iter().find(|baseline| !known.contains(baseline)) {
        None => Ok(()),
        Some(missing) => {
            let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
            let reason = format!(
                "the baseline `{missing}` has no result; there are: {}: run it into the same folder, or name another one",
                known.join(", ")
            );
            Err(LabError::Corpus { reason })
        }
    }
}

/// One figure of one group against one baseline.
struct Comparison<'a> {
    group: &'a Group,
    observations: &'a Observations,
    baseline: &'a str,
    metric: &'static str,
    policies: Vec<&'a str>,
    same_sizes: &'a SameSizes,
    options: &'a StudyOptions,
}

/// A trace that is left, with the reductions of all policies.
struct Compared<'a> {
    trace: &'a (String, String),
    reductions: Vec<f64>,
}

impl Comparison<'_> {
    /// Return the comparison; `None` if the baseline or every policy lacks the figure.
    fn section(&self, words: &str) -> Option<Section> {
        let has_metric = |one: &Observed| one.figures.contains_key(self.metric);
        let has = |policy: &str| {
            let mut all = self.observations.values().filter_map(|of| of.get(policy));
            all.any(has_metric)
        };
        if !has(self.baseline) {
            return None;
        }
        let policies: Vec<&str> = self
            .policies
            .iter()
            .copied()
            .filter(|name| *name != self.baseline && has(name))
            .collect();
        if policies.is_empty() {
            return None;
        }
        let (compared, filtered) = self.compare(&policies);
        let is_sampled =
            self.observations.values().flat_map(BTreeMap::values).any(|one| one.is_sampled);
        Some(Section {
            kind: self.group.kind.clone(),
            size: self.group.size.clone(),
            hierarchy: self.group.hierarchy.clone(),
            metric: self.metric.into(),
            metric_words: words.into(),
            baseline: self.baseline.into(),
            is_sampled,
            filtered,
            datasets: self.statistics(&policies, &compared),
        })
    }

    /// Return the traces that are left, and how many are not.
    fn compare(&self, policies: &[&str]) -> (Vec<Compared<'_>>, Filtered) {
        let mut filtered = Filtered { traces: self.observations.len(), ..Filtered::default() };
        let Filters { min_entries, distinct_sizes, saturated } = self.options.filters;
        let mut compared = vec![];
        for (trace, of_policy) in self.observations {
            let identity = (self.group.kind.clone(), self.group.hierarchy.clone(), trace.clone());
            let baseline = of_policy.get(self.baseline);
            let reductions = || -> Option<Vec<f64>> {
                let base = *baseline?.figures.get(self.metric)?;
                let of = |policy: &&str| {
                    let value = *of_policy.get(*policy)?.figures.get(self.metric)?;
                    // Neither has any: they tie.
                    Some(reduction(base, value).unwrap_or(0.0))
                };
                policies.iter().map(of).collect()
            };
            if distinct_sizes && self.same_sizes.contains(&identity) {
                filtered.same_sizes += 1;
            } else if baseline.is_some_and(|one| one.entries < min_entries) {
                filtered.too_small += 1;
            } else if saturated && baseline.is_some_and(Observed::is_saturated) {
                filtered.saturated += 1;
            } else if let Some(reductions) = reductions() {
                compared.push(Compared { trace, reductions });
            } else {
                filtered.incomplete += 1;
            }
        }
        filtered.left = compared.len();
        (compared, filtered)
    }

    fn statistics(&self, policies: &[&str], compared: &[Compared<'_>]) -> Vec<DatasetStatistics> {
        let mut strata: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, one) in compared.iter().enumerate() {
            strata.entry(&one.trace.0).or_default().push(place);
        }
        let all: Vec<Vec<usize>> = strata.values().cloned().collect();
        let mut datasets: Vec<DatasetStatistics> = strata
            .iter()
            .map(|(dataset, places)| {
                self.of_dataset(dataset, policies, compared, std::slice::from_ref(places))
            })
            .collect();
        if datasets.len() > 1 {
            datasets.push(self.of_dataset("all", policies, compared, &all));
        }
        datasets
    }

    /// Policies over the traces of some strata.
    fn of_dataset(
        &self,
        dataset: &str,
        policies: &[&str],
        compared: &[Compared<'_>],
        strata: &[Vec<usize>],
    ) -> DatasetStatistics {
        let places: Vec<usize> = strata.iter().flatten().copied().collect();
        let rows: Vec<Vec<f64>> =
            places.iter().map(|&place| compared[place].reductions.clone()).collect();
        let mut next = 0;
        let local: Vec<Vec<usize>> = strata
            .iter()
            .map(|stratum| {
                next += stratum.len();
                (next - stratum.len()..next).collect()
            })
            .collect();
        let bootstrap = (rows.len() >= INTERVAL_TRACES_MIN)
            .then(|| Bootstrap::new(&rows, &local, self.options.resamples, self.options.seed));
        let friedman = friedman(&rows);
        let of_policy = |(column, policy): (usize, &&str)| {
            let values: Vec<f64> = rows.iter().map(|row| row[column]).collect();
            let worst = places
                .iter()
                .zip(&values)
                .min_by(|one, other| one.1.total_cmp(other.1))
                .map(|(place, _)| compared[*place].trace);
            let rank = friedman.as_ref().map_or(1.0, |found| found.mean_ranks[column]);
            let of_strata = |stratum: &Vec<usize>| {
                mean(&stratum.iter().map(|&row| values[row]).collect::<Vec<f64>>())
            };
            let means: Vec<f64> = local.iter().filter_map(of_strata).collect();
            PolicyStatistics {
                worst_trace: worst
                    .map(|(dataset, trace)| format!("{dataset}/{trace}"))
                    .unwrap_or_default(),
                interval: bootstrap.as_ref().map(|bootstrap| bootstrap.mean(column)),
                mean_of_datasets: (strata.len() > 1).then(|| mean(&means)).flatten(),
                mean_rank: rank,
                ..PolicyStatistics::new(policy, &values, self.options.tie)
            }
        };
        let statistics: Vec<PolicyStatistics> =
            policies.iter().enumerate().map(of_policy).collect();
        let mut order: Vec<usize> = (0..policies.len()).collect();
        order.sort_by(|&one, &other| statistics[other].mean.total_cmp(&statistics[one].mean));
        let pairs = pairs(policies, &rows, &order, bootstrap.as_ref());
        DatasetStatistics {
            dataset: dataset.into(),
            traces: rows.len(),
            critical_difference: friedman
                .is_some()
                .then(|| critical_difference(policies.len(), rows.len()))
                .flatten(),
            friedman: friedman.map(|found| Friedman {
                mean_ranks: order.iter().map(|&column| found.mean_ranks[column]).collect(),
                ..found
            }),
            policies: order.iter().map(|&column| statistics[column].clone()).collect(),
            pairs,
        }
    }
}

/// Return the best policy against each of the others, in their order.
fn pairs(
    policies: &[&str],
    rows: &[Vec<f64>],
    order: &[usize],
    bootstrap: Option<&Bootstrap>,
) -> Vec<Pair> {
    let Some((&best, others)) = order.split_first() else { return vec![] };
    let differences =
        |other: usize| -> Vec<f64> { rows.iter().map(|row| row[best] - row[other]).collect() };
    let p_values: Vec<f64> = others.iter().map(|&other| wilcoxon(&differences(other))).collect();
    let pair = |(&other, p_value): (&usize, f64)| Pair {
        better: policies[best].into(),
        other: policies[other].into(),
        difference: bootstrap.map(|bootstrap| bootstrap.difference(best, other)),
        median: median(&differences(other)).unwrap_or(0.0),
        p_value,
    };
    others.iter().zip(holm(&p_values)).map(pair).collect()
}

impl PolicyStatistics {
    fn new(policy: &str, values: &[f64], tie: f64) -> Self {
        let ascending = sorted(values);
        let at = |p| percentile(&ascending, p).unwrap_or(0.0);
        let count = |is: &dyn Fn(f64) -> bool| values.iter().filter(|value| is(**value)).count();
        Self {
            policy: policy.into(),
            p10: at(0.1),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p1: at(0.01),
            mean: mean(values).unwrap_or(0.0),
            interval: None,
            mean_of_datasets: None,
            min: at(0.0),
            worst_trace: String::new(),
            share_worse: count(&|value| value < 0.0) as f64 / (values.len() as f64).max(1.0),
            wins: count(&|value| value > tie),
            ties: count(&|value| value.abs() <= tie),
            losses: count(&|value| value < -tie),
            mean_rank: 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::Number;
    use super::*;

    fn row(
        trace: &str,
        policy: &str,
        seed: Option<u64>,
        size: (&str, u64),
        miss_ratio: f64,
    ) -> Row {
        let figures = [
            ("miss_ratio", Number::Real(miss_ratio)),
            ("ram_pages", Number::Count(size.1)),
            ("ram_fraction", Number::Real(0.1)),
            ("accesses", Number::Count(10_000)),
            ("footprint_pages", Number::Count(1_000)),
        ];
        Row {
            dataset: "d".into(),
            trace: trace.into(),
            kind: "cache".into(),
            policy: policy.into(),
            parameters: "{}".into(),
            seed,
            size: size.0.into(),
            rate: 1.0,
            figures: figures.map(|(name, number)| (name.to_owned(), number)).into(),
            ..Row::default()
        }
    }

    fn study(rows: &[Row], filters: Filters) -> Study {
        let options = StudyOptions { filters, resamples: 200, ..StudyOptions::default() };
        Study::new(rows, &options).unwrap()
    }

    #[test]
    fn seeds_are_averaged_and_traces_that_say_nothing_left_out() {
        let size = ("ram=10%", 2000);
        let mut rows = vec![
            row("a", "fifo", None, size, 0.5),
            row("a", "random", Some(1), size, 0.3),
            row("a", "random", Some(2), size, 0.5),
            // First uses only: 1,000 of 10,000 accesses.
            row("b", "fifo", None, size, 0.1),
            row("b", "random", Some(1), size, 0.1),
            row("c", "fifo", None, ("ram=10%", 999), 0.5),
            row("c", "random", Some(1), ("ram=10%", 999), 0.5),
            // Without a result of `random`.
            row("e", "fifo", None, size, 0.5),
        ];
        let found = study(&rows, Filters::PUBLISHED);
        let section = &found.sections[0];
        let expected = Filtered {
            traces: 4,
            too_small: 1,
            saturated: 1,
            incomplete: 1,
            left: 1,
            same_sizes: 0,
        };
        assert_eq!(section.filtered, expected);
        let policy = &section.datasets[0].policies[0];
        assert!((policy.mean - 0.2).abs() < 1e-12, "{policy:?}");
        assert_eq!((policy.wins, policy.interval), (1, None));
        // The same entries at another size.
        rows.extend([row("a", "fifo", None, ("ram=11%", 2000), 0.5)]);
        rows.extend([row("a", "random", None, ("ram=11%", 2000), 0.4)]);
        assert_eq!(study(&rows, Filters::PUBLISHED).sections[0].filtered.same_sizes, 1);
        assert_eq!(study(&rows, Filters::NONE).sections[0].filtered.left, 3);
    }

    #[test]
    fn a_full_simulation_is_taken_before_a_sample() {
        let size = ("ram=10%", 2000);
        let mut rows = vec![row("a", "fifo", None, size, 0.5), row("a", "lru", None, size, 0.4)];
        rows.push(Row { rate: 0.1, ..row("a", "lru", None, size, 0.1) });
        let found = study(&rows, Filters::PUBLISHED);
        assert!((found.sections[0].datasets[0].policies[0].mean - 0.2).abs() < 1e-12);
        assert!(!found.sections[0].is_sampled);
    }

    #[test]
    fn a_baseline_without_a_result_is_an_error_that_names_those_there_are() {
        let rows = [row("a", "fifo", None, ("ram=10%", 2000), 0.5)];
        let options = StudyOptions { baselines: vec!["lru".into()], ..StudyOptions::default() };
        let error = Study::new(&rows, &options).unwrap_err().to_string();
        assert!(error.contains("`lru` has no result; there are: fifo"), "{error}");
    }
}
