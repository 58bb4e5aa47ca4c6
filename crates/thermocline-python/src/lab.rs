//! Results of the lab, as JSON.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use thermocline_core::Clients;
use thermocline_core::registry::PolicyEntry;
use thermocline_lab::mrc::miss_ratios;
use thermocline_lab::planning::{Plan, PlanOptions, PlanProgress, check_engine_pages};
use thermocline_lab::spec::{
    BufferSpec, Candidates, HierarchySpec, HotSpec, MrcSpec, ParameterSpec, Selection, TierSpec,
};
use thermocline_lab::{
    Configuration, LabError, RunOptions, Stream, TierSize, compare, configurations, figure,
    identify, listing, report, run, run_buffers, run_recording, write_file,
};
use thermocline_papers::Annotated;
use thermocline_trace::{CompiledTrace, Stats};

use crate::arguments::{Arguments, argument};
use crate::errors::{configuration, python};
use crate::policy::CustomPolicy;
use crate::recording::Recording;
use crate::trace::Trace;
use crate::work::{Work, watched};

/// Parsed arguments of a function of the package.
enum Study {
    Simulate(Runs),
    Compare(Runs),
    Mrc(MrcSpec),
    Buffer(BufferSpec),
    Plan { options: PlanOptions, output: Option<PathBuf> },
    Hot(HotSpec),
    Stats,
}

/// Runs of policies on a hierarchy.
struct Runs {
    policies: Selection,
    hierarchy: HierarchySpec,
    options: RunOptions,
}

/// Run a function on a trace, and return its results as JSON. `function` is its name, and
/// `arguments` are those of the call.
#[pyfunction]
pub(crate) fn find(
    py: Python<'_>,
    function: &str,
    arguments: Bound<'_, PyDict>,
    trace: &Trace,
    policies: Vec<CustomPolicy>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let work = Work::default();
    let own: Vec<PolicyEntry> = policies.into_iter().map(|one| one.entry(&work.home)).collect();
    let study = Study::new(function, &Arguments::new(arguments), &own)?;
    let trace = &trace.0;
    let found = watched(py, &work, progress.as_ref(), || study.find(&work, trace, &own))?;
    match work.home.take_raised() {
        Some(error) => Err(error),
        None => found.map_err(|error| study.raised(error)),
    }
}

/// Run `simulate` on a trace, and return its results as JSON, with arrays of the requested records
/// of each access.
#[pyfunction]
pub(crate) fn record<'py>(
    py: Python<'py>,
    arguments: Bound<'py, PyDict>,
    trace: &Trace,
    policies: Vec<CustomPolicy>,
    progress: Option<Py<PyAny>>,
    names: Vec<String>,
) -> PyResult<(String, Bound<'py, PyDict>)> {
    let mut recording = Recording::new(&names)?;
    let work = Work::default();
    let own: Vec<PolicyEntry> = policies.into_iter().map(|one| one.entry(&work.home)).collect();
    let study = Study::new("simulate", &Arguments::new(arguments), &own)?;
    let trace = &trace.0;
    let found =
        watched(py, &work, progress.as_ref(), || study.record(&work, trace, &own, &mut recording))?;
    if let Some(error) = work.home.take_raised() {
        return Err(error);
    }
    Ok((found.map_err(|error| study.raised(error))?, recording.into_arrays(py)?))
}

/// Return a catalogue as JSON: `policies`, `identifiers`, `buffers`, `devices`, `drives`, the
/// `options` that all tiers share, the `figures` of a run, its `interval figures`, the `buffer
/// figures` or the `identifier figures`.
#[pyfunction]
pub(crate) fn catalogue(kind: &str, device_file: Option<PathBuf>) -> PyResult<String> {
    match kind {
        "policies" => json(&listing::policies()),
        "identifiers" => json(&listing::identifiers()),
        "buffers" => json(&listing::buffers()),
        "devices" => {
            let catalogue = thermocline_lab::catalogue(device_file.as_deref());
            json(&catalogue.map_err(python)?.devices())
        }
        "drives" => json(&listing::drives()),
        "options" => json(&listing::hierarchy_options()),
        "figures" => json(&figure::listed(figure::RUNS)),
        "interval figures" => json(&figure::listed(figure::INTERVALS)),
        "buffer figures" => json(&figure::listed(figure::BUFFERS)),
        "identifier figures" => json(&figure::listed(figure::IDENTIFIERS)),
        _ => Err(configuration(format!("there is no catalogue of {kind}"))),
    }
}

/// Return how lines of these names look in every chart: colour, marker as Vega names it, dashes.
#[pyfunction]
pub(crate) fn styles(names: Vec<String>) -> Vec<(&'static str, &'static str, &'static [u32])> {
    let styles = report::styles(names.iter().map(String::as_str)).into_iter();
    styles.map(|style| (style.colour, style.marker, style.dashes)).collect()
}

/// Return the bytes as text says them: `16GiB`, or a number.
#[pyfunction]
pub(crate) fn bytes_of(text: &str) -> PyResult<u64> {
    let bytes = text.parse::<u64>().ok();
    let bytes = bytes.or_else(|| text.parse::<TierSize>().ok()?.whole_bytes());
    let message = || format!("`{text}` is not a number of bytes: write it as in \"16GiB\"");
    bytes.ok_or_else(|| configuration(message()))
}

/// Return a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(python)
}

impl Study {
    fn new(function: &str, arguments: &Arguments<'_>, own: &[PolicyEntry]) -> PyResult<Self> {
        let runs = || {
            Ok::<_, PyErr>(Runs {
                policies: arguments.selection("policies")?,
                hierarchy: arguments.hierarchy()?,
                options: arguments.run_options()?,
            })
        };
        Ok(match function {
            "simulate" => Self::Simulate(runs()?),
            "compare" => Self::Compare(runs()?),
            "mrc" => Self::Mrc(arguments.mrc()?),
            "buffer" => Self::Buffer(arguments.buffer()?),
            "plan" => {
                let output = arguments.path("output")?;
                if output.is_some() && !own.is_empty() {
                    let message = "output: an engine runs no policies of Python; leave it out";
                    return Err(configuration(message.into()));
                }
                Self::Plan { options: arguments.plan(own.to_vec())?, output }
            }
            "hot" => Self::Hot(arguments.hot()?),
            "stats" => Self::Stats,
            _ => return Err(configuration(format!("there is no function {function}"))),
        })
    }

    /// Return the tiers and parameters that the arguments name.
    fn named(&self) -> (&[TierSpec], &[ParameterSpec]) {
        match self {
            Self::Simulate(runs) | Self::Compare(runs) => {
                (&runs.hierarchy.tiers, &runs.hierarchy.parameters)
            }
            Self::Mrc(spec) => (&[], &spec.parameters),
            Self::Buffer(spec) => (&[], &spec.parameters),
            Self::Hot(spec) => (&[], &spec.parameters),
            Self::Plan { .. } | Self::Stats => (&[], &[]),
        }
    }

    /// Return the exception of an error, which names the argument that is wrong.
    fn raised(&self, error: Raised) -> PyErr {
        match error {
            Raised::Lab(LabError::Spec { path, reason }) => {
                let (tiers, parameters) = self.named();
                configuration(format!("{}: {reason}", argument(&path, tiers, parameters)))
            }
            Raised::Lab(error) => python(error),
            Raised::Several => {
                let message = "tiers: one size per tier is simulated; several are compared";
                configuration(message.into())
            }
            Raised::Json(error) => python(error),
        }
    }

    /// Make a run, and record the results of each access.
    fn record(
        &self,
        work: &Work,
        trace: &CompiledTrace,
        own: &[PolicyEntry],
        recording: &mut Recording,
    ) -> Result<String, Raised> {
        match self {
            Self::Simulate(runs) => runs.simulate(work, trace, own, Some(recording)),
            Self::Compare(_)
            | Self::Mrc(_)
            | Self::Buffer(_)
            | Self::Plan { .. }
            | Self::Hot(_)
            | Self::Stats => self.find(work, trace, own),
        }
    }

    fn find(
        &self,
        work: &Work,
        trace: &CompiledTrace,
        own: &[PolicyEntry],
    ) -> Result<String, Raised> {
        let (watch, done) = (work.watch(), || work.advance(1));
        Ok(match self {
            Self::Simulate(runs) => runs.simulate(work, trace, own, None)?,
            Self::Compare(runs) => {
                let all = runs.configurations(trace.clients(), own)?;
                work.expect(all.len());
                let summaries = compare(trace, &all, runs.options, watch, done)?;
                serde_json::to_string(&Annotated::all(trace, &all, &summaries)?)?
            }
            Self::Mrc(spec) => {
                let (policies, options) = (spec.policies(own)?, spec.options()?);
                let curves = spec.curves(&policies, trace)?;
                work.expect(spec.simulated_sizes(&curves));
                serde_json::to_string(&miss_ratios(trace, &curves, options, watch, done)?)?
            }
            Self::Buffer(spec) => {
                let all = spec.buffers()?.configurations(trace)?;
                work.expect(all.len());
                serde_json::to_string(&run_buffers(trace, &all, spec.is_checked, watch, done)?)?
            }
            Self::Plan { options, output } => plan(work, trace, options, output.as_ref())?,
            Self::Hot(spec) => {
                let candidates = spec.candidates()?;
                work.expect(candidates.count());
                let stream = Stream::of(trace, spec.count)?;
                let Candidates { baseline, others } = &candidates;
                let found = identify(&stream, baseline, others, spec.interval, watch, done)?;
                serde_json::to_string(&found)?
            }
            Self::Stats => serde_json::to_string(&Stats::of(trace))?,
        })
    }
}

/// Searches a plan, and writes the configuration of an engine if it is asked for.
fn plan(
    work: &Work,
    trace: &CompiledTrace,
    options: &PlanOptions,
    output: Option<&PathBuf>,
) -> Result<String, Raised> {
    if output.is_some() {
        check_engine_pages(trace)?;
    }
    let found = Plan::search(trace, options, work.watch(), |progress| match progress {
        PlanProgress::Coarse(steps) | PlanProgress::Full(steps) => work.expect(steps),
        PlanProgress::Done => work.advance(1),
    })?;
    if let Some(path) = output {
        write_file(path, &found.engine_configuration())?;
    }
    Ok(serde_json::to_string(&found)?)
}

impl Runs {
    /// Make the one run, and record it if there is a recording.
    fn simulate(
        &self,
        work: &Work,
        trace: &CompiledTrace,
        own: &[PolicyEntry],
        recording: Option<&mut Recording>,
    ) -> Result<String, Raised> {
        let all = self.configurations(trace.clients(), own)?;
        let [configuration] = all.as_slice() else { return Err(Raised::Several) };
        work.expect(1);
        let (options, watch) = (self.options, work.watch());
        let summary = match recording {
            Some(recording) => run_recording(trace, configuration, options, watch, recording)?,
            None => run(trace, configuration, options, watch)?,
        };
        work.advance(1);
        Ok(serde_json::to_string(&Annotated::new(trace, configuration, &summary)?)?)
    }

    fn configurations(
        &self,
        clients: Clients,
        own: &[PolicyEntry],
    ) -> Result<Vec<Configuration>, LabError> {
        let policies = self.hierarchy.policies(&self.policies, clients, own)?;
        configurations(&self.hierarchy, &policies, clients)
    }
}

/// Reason why there are no results.
enum Raised {
    Lab(LabError),
    /// Several configurations where one is simulated.
    Several,
    Json(serde_json::Error),
}

impl From<LabError> for Raised {
    fn from(error: LabError) -> Self {
        Self::Lab(error)
    }
}

impl From<serde_json::Error> for Raised {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}
