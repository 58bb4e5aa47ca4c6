//! The figures of each policy on each trace, brought together from the rows of results.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::{METRICS, MISSES};
use crate::corpus::results::Row;
use crate::corpus::statistics::mean;

/// Results of one policy on one trace at one size.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// The least number of pages of a tier.
    pub(super) entries: u64,
    pub(super) accesses: f64,
    pub(super) footprint_pages: f64,
    pub(super) is_sampled: bool,
    /// The figures, averaged over seeds.
    pub(super) figures: BTreeMap<&'static str, f64>,
}

/// Group of results that are compared with each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) kind: String,
    pub(super) size: String,
    pub(super) hierarchy: String,
}

/// Observations by trace, by policy.
pub(super) type Observations = BTreeMap<(String, String), BTreeMap<String, Observed>>;

/// Return the label of each policy and parameters: the policy, with the parameters that differ
/// within it.
pub(super) fn labels(rows: &[&Row]) -> HashMap<(String, String), String> {
    let mut by_policy: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in rows {
        by_policy.entry(&row.policy).or_default().insert(&row.parameters);
    }
    let mut labels = HashMap::new();
    for (policy, all) in by_policy {
        let parsed: Vec<Map<String, Value>> =
            all.iter().map(|text| serde_json::from_str(text).unwrap_or_default()).collect();
        let differs = |name: &String| parsed.iter().any(|one| one.get(name) != parsed[0].get(name));
        let names: BTreeSet<&String> = parsed.iter().flat_map(Map::keys).collect();
        let names: Vec<&String> = names.into_iter().filter(|name| differs(name)).collect();
        for (text, parameters) in all.iter().zip(&parsed) {
            let shown =
                names.iter().filter_map(|name| Some((name, parameters.get(name.as_str())?)));
            let shown: String = shown
                .map(|(name, value)| match value.as_str() {
                    Some(text) => format!(" {name}={text}"),
                    None => format!(" {name}={value}"),
                })
                .collect();
            labels.insert((policy.to_owned(), (*text).to_owned()), format!("{policy}{shown}"));
        }
    }
    labels
}

/// A group, a data set and a trace in it, and the label of a policy.
pub(super) type Subject = (Group, (String, String), String);

/// Return the figures of each policy on each trace, by what can be compared. Seeds are averaged; a
/// full simulation is taken before a sample.
pub(super) fn observe(
    rows: &[&Row],
    labels: &HashMap<(String, String), String>,
) -> BTreeMap<Group, Observations> {
    let mut by_subject: BTreeMap<Subject, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let group = Group {
            kind: row.kind.clone(),
            size: row.size.clone(),
            hierarchy: row.hierarchy.clone(),
        };
        let trace = (row.dataset.clone(), row.trace.clone());
        let label = labels[&(row.policy.clone(), row.parameters.clone())].clone();
        by_subject.entry((group, trace, label)).or_default().push(row);
    }
    let mut groups: BTreeMap<Group, Observations> = BTreeMap::new();
    for ((group, trace, label), mut rows) in by_subject {
        if rows.iter().any(|row| row.rate >= 1.0) {
            rows.retain(|row| row.rate >= 1.0);
        }
        let of = |column: &str| {
            let values: Option<Vec<f64>> = rows.iter().map(|row| row.figure(column)).collect();
            values.and_then(|values| mean(&values))
        };
        let tiers = rows[0].figures.iter().filter(|(column, _)| {
            let tier = column.strip_suffix("_pages");
            tier.is_some_and(|tier| rows[0].figures.contains_key(&format!("{tier}_fraction")))
        });
        let entries = tiers.map(|(_, pages)| pages.value()).fold(f64::INFINITY, f64::min);
        let observed = Observed {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of pages; infinity saturates"
            )]
            entries: entries as u64,
            accesses: of("accesses").unwrap_or(0.0) - of("warm_up_accesses").unwrap_or(0.0),
            footprint_pages: of("footprint_pages").unwrap_or(0.0),
            is_sampled: rows.iter().any(|row| row.rate < 1.0),
            figures: METRICS.iter().filter_map(|(name, _)| Some((*name, of(name)?))).collect(),
        };
        groups.entry(group).or_default().entry(trace).or_default().insert(label, observed);
    }
    groups
}

/// Traces, by group without its size, of which two sizes have as many entries.
pub(super) type SameSizes = BTreeSet<(String, String, (String, String))>;

pub(super) fn same_sizes(groups: &BTreeMap<Group, Observations>) -> SameSizes {
    let mut seen: BTreeSet<(&str, &str, &(String, String), u64)> = BTreeSet::new();
    let mut same = SameSizes::new();
    for (group, observations) in groups {
        // Sizes of hybrids repeat the pages of their smallest tier; only single tiers must differ.
        let is_single = !group.size.contains(' ');
        for (trace, policies) in observations.iter().filter(|_| is_single) {
            let Some(entries) = policies.values().map(|one| one.entries).next() else { continue };
            let identity = (group.kind.as_str(), group.hierarchy.as_str(), trace, entries);
            if !seen.insert(identity) {
                same.insert((group.kind.clone(), group.hierarchy.clone(), trace.clone()));
            }
        }
    }
    same
}

impl Observed {
    /// `true` if a cache misses first uses only, everything, or nothing.
    pub(super) fn is_saturated(&self) -> bool {
        let Some(&ratio) = self.figures.get(MISSES) else { return false };
        let misses = ratio * self.accesses;
        ratio <= 0.0 || ratio >= 1.0 || (misses - self.footprint_pages).abs() < 0.5
    }
}
