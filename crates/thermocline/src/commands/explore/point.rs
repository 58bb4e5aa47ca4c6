//! One configuration in full: over time, where its pages went, and the commands that set it up.

use std::ffi::OsString;
use std::sync::Arc;

use serde::Serialize;
use thermocline_advise::commands::{Recommended, commands};
use thermocline_advise::recommend::{Choice, Devices, recommended};
use thermocline_core::registry::Depth;
use thermocline_lab::planning::{EnginePoint, check_engine_pages};
use thermocline_lab::report::{self, Report};
use thermocline_lab::{RunOptions, Summary, Watch, run};

use super::ask::{Ask, Point};
use super::problem::Problem;
use super::traces::{Opened, Trace};
use crate::arguments::Reading;
use crate::commands::serve::config::Config;
use crate::output;

/// Points of the charts over time.
const INTERVALS: usize = 40;

/// Description of a configuration for the page.
#[derive(Debug, Serialize)]
pub(super) struct PointJson {
    title: String,
    html: String,
    commands: Vec<CommandJson>,
}

/// Command to type, or file to write.
#[derive(Debug, Serialize)]
struct CommandJson {
    title: &'static str,
    text: String,
}

/// A configuration of a trace, replayed in full.
#[derive(Debug)]
pub(super) struct Detail {
    summary: Summary,
    /// The command that finds the same.
    command: String,
}

/// Stops a run that nobody waits for any more.
#[derive(Debug, Default)]
pub(super) struct Interest(pub(super) Watch);

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Detail {
    /// Replays the trace through the configuration.
    ///
    /// # Errors
    /// If a configuration is invalid, or the watch stops it.
    pub(super) fn find(
        ask: &Ask,
        point: &Point,
        (trace, opened): (&Trace, &Arc<Opened>),
        reading: &Reading,
        watch: &Watch,
    ) -> Result<Self, Problem> {
        let configuration = ask.configuration(point)?;
        let options = RunOptions { intervals: INTERVALS, ..RunOptions::default() };
        let summary = run(&opened.compiled, &configuration, options, watch)?;
        let words = [trace.words(reading), ask.point_words(point)].concat();
        Ok(Self { summary, command: command_line("simulate", words) })
    }

    /// Return the report of it.
    pub(super) fn report(&self) -> Report {
        report::point(&self.summary)
    }

    /// Return the description for the page.
    pub(super) fn json(&self, opened: &Opened) -> PointJson {
        let report = self.report();
        let replay = CommandJson { title: "Replay it", text: self.command.clone() };
        let engine = self.engine(opened);
        let engine = engine.map(|text| CommandJson { title: "cache.toml", text });
        PointJson {
            title: report.title().into(),
            html: report.to_fragment(),
            commands: [replay].into_iter().chain(engine).chain(self.shipped()).collect(),
        }
    }

    /// Return the report of it with its command, for a report of the whole session.
    pub(super) fn pinned(&self) -> Report {
        let mut report = self.report();
        report.code(&self.command);
        report
    }

    fn pages(&self) -> [u64; 2] {
        let pages = thermocline_lab::metric::capacities(&self.summary);
        [0, 1].map(|tier| pages.get(tier).copied().unwrap_or_default())
    }

    /// Return the configuration of an engine, if engines run the policy on pages of this size.
    fn engine(&self, opened: &Opened) -> Option<String> {
        check_engine_pages(&opened.compiled).ok()?;
        let policy = thermocline_lab::find_policy(&self.summary.policy.name).ok()?;
        let [ram_pages, flash_pages] = self.pages();
        let flash_pages = if policy.capabilities.depth == Depth::Ram { 0 } else { flash_pages };
        let point = EnginePoint {
            page_size_bytes: self.summary.trace.page_size_bytes,
            ram_pages,
            flash_pages,
            policy: &self.summary.policy,
        };
        let text = point.configuration(&format!("The same as `{}`.", self.command));
        Config::parse(&text).ok()?.try_policy().ok()?;
        Some(text)
    }

    /// Return the commands that set up a cache that systems ship, if the policy models one.
    fn shipped(&self) -> Option<CommandJson> {
        let [ram_pages, flash_pages] = self.pages();
        let page_bytes = self.summary.trace.page_size_bytes;
        let choice = Choice {
            policy: &self.summary.policy.name,
            parameters: &[],
            flash_bytes: flash_pages * page_bytes,
            ram_bytes: ram_pages * page_bytes,
            page_bytes,
        };
        let cache = recommended(&choice, Devices::default(), None)?.cache;
        let title = match cache {
            Recommended::DmCache { .. } => "lvmcache",
            Recommended::DmWritecache { .. } => "writecache",
            Recommended::Bcache { .. } => "bcache",
            Recommended::OpenCas { .. } => "Open CAS",
            Recommended::Zfs { .. } => "ZFS",
            Recommended::Thermocline(_) => return None,
        };
        let text = match commands(&cache, None) {
            Ok(commands) => commands.to_string(),
            Err(error) => format!("# There are no commands for this size: {error}.\n"),
        };
        Some(CommandJson { title, text })
    }
}

/// Return a command line, as a shell takes it.
pub(super) fn command_line(command: &str, words: Vec<String>) -> String {
    let words = [String::new(), command.to_owned()].into_iter().chain(words);
    output::command_line(&words.map(OsString::from).collect::<Vec<OsString>>())
}
