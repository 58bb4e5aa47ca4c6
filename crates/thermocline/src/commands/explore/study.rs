//! A study: many configurations on one trace, in the background, first from samples and then exactly.

use std::sync::Arc;

use serde::Serialize;
use thermocline_lab::metric::capacities;
use thermocline_lab::mrc::Rate;
use thermocline_lab::report::{self, Difference, Options, Report};
use thermocline_lab::{
    Configuration, Found, LabError, Progress, Refined, Summary, Watch, metric, refine,
};

use super::ask::Ask;
use super::changing::Changing;
use super::problem::sentence;
use super::traces::{Opened, Trace};
use crate::commands::compare::VERSION;

/// The seed of samples: the same question has the same answer.
const SEED: u64 = 1;

/// A study at work, or its end.
#[derive(Debug)]
pub(super) struct Study {
    pub(super) id: u64,
    pub(super) ask: Ask,
    pub(super) trace: Arc<Trace>,
    pub(super) opened: Arc<Opened>,
    configurations: Vec<Configuration>,
    /// The command that finds the same.
    command: String,
    watch: Watch,
    state: Changing<State>,
}

#[derive(Clone, Debug)]
struct State {
    phase: Phase,
    /// Results by configuration.
    known: Vec<Known>,
    /// Reason why a configuration has no figures, or why there are none at all.
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    Sampling,
    Exact,
    Done,
    Failed,
    Stopped,
}

/// Results of a configuration.
#[derive(Clone, Debug, Default)]
struct Known {
    run: Option<(Found, Summary)>,
    /// The hit ratio of its sample.
    sampled_hit_ratio: Option<f64>,
}

/// Description of a study for the page.
#[derive(Debug, Serialize)]
pub(super) struct StudyJson {
    id: u64,
    version: u64,
    state: Phase,
    points: usize,
    /// Points of which something is known, from a sample or exactly.
    sampled: usize,
    exact: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    sampling_error_points: Option<Difference>,
    html: String,
    rows: Vec<Row>,
}

/// A configuration with what is known of it.
#[derive(Debug, Serialize)]
struct Row {
    policy: String,
    ram_pages: u64,
    flash_pages: u64,
    ram_bytes: u64,
    flash_bytes: u64,
    is_exact: bool,
    /// Hit ratio of RAM and flash together, from 0 to 1.
    hit_ratio: f64,
    io_time_ms: f64,
    flash_bytes_written: u64,
    life_years: Option<f64>,
    cost: Option<f64>,
}

impl Phase {
    fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Stopped)
    }
}

impl Study {
    /// Create a study that was not begun.
    pub(super) fn new(
        id: u64,
        ask: Ask,
        (trace, opened): (Arc<Trace>, Arc<Opened>),
        configurations: Vec<Configuration>,
        command: String,
    ) -> Self {
        let known = vec![Known::default(); configurations.len()];
        let state = Changing::new(State { phase: Phase::Sampling, known, error: None });
        let watch = Watch::default();
        Self { id, ask, trace, opened, configurations, command, watch, state }
    }

    /// Return the number of configurations it has.
    pub(super) fn points(&self) -> usize {
        self.configurations.len()
    }

    /// Run all of it, on this thread and those of rayon.
    pub(super) fn run(&self) {
        let rate = Rate::Auto { seed: SEED };
        let trace = &self.opened.compiled;
        let tell = |progress| self.take(progress);
        let result = refine(trace, &self.configurations, rate, &self.watch, tell);
        self.change(|state| match result {
            Ok(()) if state.known.iter().any(|known| known.run.is_some()) => {
                state.phase = Phase::Done;
            }
            Ok(()) => state.phase = Phase::Failed,
            Err(LabError::Stopped) => state.phase = Phase::Stopped,
            Err(error) => {
                state.phase = Phase::Failed;
                state.error = Some(sentence(&error.into()));
            }
        });
    }

    /// Stops it; what is known stays.
    pub(super) fn stop(&self) {
        self.watch.stop();
        self.change(|state| state.phase = Phase::Stopped);
    }

    /// Wait until there is more than in this version, but not for long.
    pub(super) async fn wait_after(&self, version: u64) {
        self.state.wait_after(version).await;
    }

    /// Return `true` if nothing will change any more.
    pub(super) fn is_over(&self) -> bool {
        self.state.look(|state, _| state.phase.is_over())
    }

    /// Changes the state unless the study is over: what ends it first decides how it ended.
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.change(|state| {
            if !state.phase.is_over() {
                change(state);
            }
        });
    }

    fn take(&self, progress: Progress) {
        self.change(|state| match progress {
            Progress::Sampled => state.phase = Phase::Exact,
            Progress::Refined(refined) => {
                let Refined { place, found, summary } = *refined;
                match summary {
                    Ok(summary) => state.known[place].learn(found, summary),
                    Err(error) => {
                        let policy = &self.configurations[place].policy.name;
                        state.error.get_or_insert(format!("{policy}: {error}"));
                    }
                }
            }
        });
    }

    /// Return the present description for the page.
    pub(super) fn json(&self) -> StudyJson {
        let (state, version) = self.state.look(|state, version| (state.clone(), version));
        let exact = state.exact();
        let rows = state.known.iter().filter_map(|known| {
            let (found, run) = known.run.as_ref()?;
            Some(self.row(*found, run))
        });
        StudyJson {
            id: self.id,
            version,
            state: state.phase,
            points: self.points(),
            sampled: state.known.iter().filter(|known| known.run.is_some()).count(),
            exact,
            error: state.error.clone(),
            sampling_error_points: state.difference(),
            rows: rows.collect(),
            html: self.report_of(&state).to_fragment(),
        }
    }

    /// Return the report of the present state.
    pub(super) fn report(&self) -> Report {
        self.report_of(&self.state.look(|state, _| state.clone()))
    }

    fn report_of(&self, state: &State) -> Report {
        let runs = state.known.iter().filter_map(|known| known.run.clone());
        let (found, summaries): (Vec<Found>, Vec<Summary>) = runs.unzip();
        let lifetimes_years: Vec<Option<f64>> =
            summaries.iter().map(|run| self.life_years(run)).collect();
        let study = report::Study {
            summaries: &summaries,
            found: &found,
            lifetimes_years: &lifetimes_years,
            points: self.points(),
            difference: state.difference(),
        };
        let title = format!("Caches for {}", self.trace.name);
        let options = Options { title, command: self.command.clone(), version: VERSION.into() };
        report::study(&study, &options)
    }

    fn life_years(&self, run: &Summary) -> Option<f64> {
        run.flash_lifetime_years(&self.opened.compiled, self.ask.endurance_cycles?)
    }

    fn row(&self, found: Found, run: &Summary) -> Row {
        let page_bytes = run.trace.page_size_bytes;
        let pages = capacities(run);
        let [ram_pages, flash_pages] =
            [0, 1].map(|tier| pages.get(tier).copied().unwrap_or_default());
        let written = metric::flash(run).map_or(0, |flash| flash.page_writes);
        Row {
            policy: run.policy.name.clone(),
            ram_pages,
            flash_pages,
            ram_bytes: ram_pages * page_bytes,
            flash_bytes: flash_pages * page_bytes,
            is_exact: found == Found::Exact,
            hit_ratio: run.aggregate_hit_ratio(),
            io_time_ms: run.io_time_ms,
            flash_bytes_written: written * page_bytes,
            life_years: self.life_years(run),
            cost: run.cost.map(|cost| cost.total),
        }
    }
}

impl State {
    fn exact(&self) -> usize {
        let is_exact = |known: &&Known| matches!(known.run, Some((Found::Exact, _)));
        self.known.iter().filter(is_exact).count()
    }

    /// Return the error of the samples, where exact figures are known, too.
    fn difference(&self) -> Option<Difference> {
        Difference::of(self.known.iter().filter_map(|known| match &known.run {
            Some((Found::Exact, run)) => {
                Some([known.sampled_hit_ratio?, run.aggregate_hit_ratio()])
            }
            Some((Found::Sampled { .. } | Found::Beginning { .. }, _)) | None => None,
        }))
    }
}

impl Known {
    fn learn(&mut self, found: Found, run: Summary) {
        if found != Found::Exact {
            self.sampled_hit_ratio = Some(run.aggregate_hit_ratio());
        }
        self.run = Some((found, run));
    }
}
