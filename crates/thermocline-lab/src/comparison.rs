//! The short way: open a trace, choose policies and sizes, and print what each of them cost.

use std::fmt;
use std::path::Path;

use thermocline_core::Clients;
use thermocline_core::registry::PolicyEntry;
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};

use crate::metric::{capacities, columns};
use crate::spec::{HierarchySpec, TierSpec};
use crate::{LabError, RunOptions, Summary, TierSize, Watch, compare, configurations, find_policy};

/// Policies and sizes to compare on one trace.
///
/// [`configurations`] and [`compare`] do the same with every option of the lab.
#[derive(Clone, Debug)]
pub struct Comparison {
    trace: CompiledTrace,
    policies: Vec<PolicyEntry>,
    hierarchy: HierarchySpec,
}

/// Cost of each policy at each size. It is displayed as a table in Markdown.
#[derive(Clone, Debug)]
pub struct Results {
    summaries: Vec<Summary>,
}

impl Comparison {
    /// Open a trace of any format, with pages of 4 KiB.
    ///
    /// # Errors
    /// If the file cannot be read or is not a trace.
    pub fn open(trace: impl AsRef<Path>) -> Result<Self, LabError> {
        let trace = trace.as_ref();
        if CompiledTrace::is_saved(trace) {
            return Ok(Self::new(CompiledTrace::open(trace)?));
        }
        let mut reader = Reader::open(trace, &ReadOptions::default())?;
        Ok(Self::new(CompiledTrace::compile_reading_ahead(&mut reader, PageSize::DEFAULT)?))
    }

    /// Takes a trace that is compiled already.
    pub fn new(trace: CompiledTrace) -> Self {
        Self { trace, policies: vec![], hierarchy: HierarchySpec::default() }
    }

    /// Adds a policy by its name.
    ///
    /// # Errors
    /// [`LabError::UnknownPolicy`], which names those that there are.
    pub fn policy(mut self, name: &str) -> Result<Self, LabError> {
        self.policies.push(find_policy(name)?.clone());
        Ok(self)
    }

    /// Adds a cache tier below those before, in one or more sizes: `ram` and `flash`, or `l1` to `l8`.
    #[must_use]
    pub fn tier(mut self, name: &str, sizes: impl IntoIterator<Item = TierSize>) -> Self {
        let sizes = sizes.into_iter().collect();
        self.hierarchy.tiers.push(TierSpec { name: name.into(), sizes, ..TierSpec::default() });
        self
    }

    /// Replays the trace through every policy at every size, on all processors.
    ///
    /// # Errors
    /// If tiers are invalid, or the policy does not support them.
    pub fn run(&self) -> Result<Results, LabError> {
        let configurations = configurations(&self.hierarchy, &self.policies, Clients::ONE)?;
        let options = RunOptions::default();
        let summaries = compare(&self.trace, &configurations, options, &Watch::default(), || {})?;
        Ok(Results { summaries })
    }
}

impl Results {
    /// Return all figures of all runs: by size, then in the order of the policies.
    pub fn summaries(&self) -> &[Summary] {
        &self.summaries
    }

    fn header(&self) -> Vec<String> {
        let tiers = self.summaries.first().map_or(&[][..], |summary| &summary.tiers);
        let caches = tiers.iter().filter(|tier| tier.capacity_pages.is_some());
        let figures = columns(&self.summaries);
        ["policy".to_owned()]
            .into_iter()
            .chain(caches.map(|tier| format!("{}, pages", tier.name)))
            .chain(figures.iter().map(|figure| format!("{}, {}", figure.title, figure.unit)))
            .collect()
    }

    fn row(&self, run: &Summary) -> Vec<String> {
        let figures = columns(&self.summaries);
        let figures = figures.iter().map(|figure| {
            figure.value(run).map_or_else(|| "-".to_owned(), |value| (figure.show)(value))
        });
        [run.policy.name.clone()]
            .into_iter()
            .chain(capacities(run).iter().map(u64::to_string))
            .chain(figures)
            .collect()
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = self.header();
        let rows: Vec<Vec<String>> = self.summaries.iter().map(|run| self.row(run)).collect();
        let widths: Vec<usize> = (0..header.len())
            .map(|column| {
                let cells = rows.iter().chain([&header]).map(|row| row[column].len());
                cells.max().unwrap_or_default()
            })
            .collect();
        let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        for row in [&header, &rule].into_iter().chain(&rows) {
            for (place, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match place {
                    0 => write!(f, "| {cell:<width$} |")?,
                    _ => write!(f, " {cell:>width$} |")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
