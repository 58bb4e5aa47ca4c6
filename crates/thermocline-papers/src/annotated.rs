//! Runs with the figures that papers report about their own policies.

use serde::Serialize;
use thermocline_lab::{Configuration, LabError, Summary};
use thermocline_trace::CompiledTrace;

use crate::HcaFigures;

/// A run, and the figures that the paper of its policy reports besides. Its JSON form is that of the
/// [`Summary`] with a field more for each paper that has such figures.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Annotated<'a> {
    /// Results of the run.
    #[serde(flatten)]
    pub summary: &'a Summary,
    /// The figures of the HCA paper, for its policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hca: Option<HcaFigures>,
}

impl<'a> Annotated<'a> {
    /// Find the figures of a run. A figure that compares with a baseline replays the trace through it.
    ///
    /// # Errors
    /// If the baseline does not support a configuration.
    pub fn new(
        trace: &CompiledTrace,
        configuration: &Configuration,
        summary: &'a Summary,
    ) -> Result<Self, LabError> {
        Ok(Self { summary, hca: HcaFigures::of_run(trace, configuration, summary)? })
    }

    /// Find the figures of many runs, each of the configuration at its place.
    ///
    /// # Errors
    /// If the baseline does not support a configuration.
    pub fn all(
        trace: &CompiledTrace,
        configurations: &[Configuration],
        summaries: &'a [Summary],
    ) -> Result<Vec<Self>, LabError> {
        let runs = configurations.iter().zip(summaries);
        runs.map(|(configuration, summary)| Self::new(trace, configuration, summary)).collect()
    }
}
