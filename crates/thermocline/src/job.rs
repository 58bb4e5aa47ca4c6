//! What commands find, for other programs than a shell: on a trace in memory, as JSON.
//!
//! The words are those of the command line, and what they mean and which defaults they have is said
//! once, there.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail, ensure};
use clap::Parser as _;
use thermocline_lab::mrc::miss_ratios;
use thermocline_lab::planning::{Plan, PlanProgress};
use thermocline_lab::sweep::Outcome;
use thermocline_lab::{Configuration, Watch, compare, run_buffers};
use thermocline_trace::{CompiledTrace, Stats};

use crate::arguments::{
    Arguments, BufferOptions, Command, CompareOptions, HotOptions, MrcOptions, PlanOptions,
    SimulateOptions, TraceCommand, TraceOptions,
};
use crate::brought::{Brought, equip};
use crate::commands::{buffer, compare as comparing, hot, mrc, plan};
use crate::{commands, hierarchy, output, reading};

/// What is to be found, and how far that is.
#[derive(Debug, Default)]
pub struct Job {
    /// Who looks on.
    pub watch: Watch,
    done: AtomicUsize,
    total: AtomicUsize,
}

impl Job {
    /// How many steps are done, of how many; 0 of 0 before it is known. A step is a configuration, a
    /// size of a curve, a candidate of a plan.
    pub fn steps(&self) -> [usize; 2] {
        [&self.done, &self.total].map(|count| count.load(Ordering::Relaxed))
    }

    /// So many steps from now on.
    pub fn expect(&self, total: usize) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Some more steps are done.
    pub fn advance(&self, steps: usize) {
        self.done.fetch_add(steps, Ordering::Relaxed);
    }

    /// What `simulate`, `compare`, `mrc`, `buffer`, `plan`, `hot` or `trace info` print with `--json`, for a
    /// trace that is open; the words begin with the command's name, and name any trace in the place of
    /// this one.
    ///
    /// # Errors
    /// Words that are no command line, or that of another command; else as the command's.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other command looks at a trace alone")]
    pub fn find(
        &self,
        words: &[String],
        trace: &CompiledTrace,
        brought: &[Brought],
    ) -> Result<String> {
        match &parse(words)?.command {
            Command::Simulate(options) => self.simulate(options, trace, brought),
            Command::Compare(options) => self.compare(options, trace, brought),
            Command::Mrc(options) => self.mrc(options, trace, brought),
            Command::Buffer(options) => self.buffer(options, trace),
            Command::Plan(options) => self.plan(options, trace),
            Command::Hot(options) => self.hot(options, trace),
            Command::Trace(TraceOptions { command: TraceCommand::Info(_) }) => {
                output::json(&Stats::of(trace))
            }
            _ => bail!("`{}` looks at no trace in memory", words.join(" ")),
        }
    }

    fn simulate(
        &self,
        options: &SimulateOptions,
        trace: &CompiledTrace,
        brought: &[Brought],
    ) -> Result<String> {
        let name = options.hierarchy.two_tier.policy(options.policy.as_deref())?;
        let policy = crate::brought::find(&name, brought)?;
        let clients = reading::clients(&options.traces, &options.clients)?;
        let mut all = hierarchy::configurations(&options.hierarchy, &[policy], clients)?;
        self.prepare(&mut all, brought);
        let [configuration] = all.as_slice() else {
            bail!("one size per tier is simulated; several are compared");
        };
        let summary = thermocline_lab::run(trace, configuration, options.hierarchy.run_options())?;
        self.advance(1);
        output::json(&summary)
    }

    fn compare(
        &self,
        options: &CompareOptions,
        trace: &CompiledTrace,
        brought: &[Brought],
    ) -> Result<String> {
        let clients = reading::clients(&options.traces, &options.clients)?;
        let policies = comparing::policies(options, clients, brought)?;
        let mut all = hierarchy::configurations(&options.hierarchy, &policies, clients)?;
        self.prepare(&mut all, brought);
        let asked = options.hierarchy.run_options();
        output::json(&compare(trace, &all, asked, || self.advance(1))?)
    }

    /// Gives configurations what they lack, and expects so many steps.
    fn prepare(&self, configurations: &mut [Configuration], brought: &[Brought]) {
        for configuration in &mut *configurations {
            configuration.watch = self.watch.clone();
            equip(configuration, brought);
        }
        self.expect(configurations.len());
    }

    fn mrc(
        &self,
        options: &MrcOptions,
        trace: &CompiledTrace,
        brought: &[Brought],
    ) -> Result<String> {
        let policies = mrc::policies(&options.two_tier.policies(&options.policy), brought)?;
        let asked = mrc::curve_options(options)?;
        mrc::check_flash(options, &policies)?;
        let mut curves = mrc::all_configurations(options, &policies, trace, &self.watch)?;
        for configuration in curves.iter_mut().flatten() {
            equip(configuration, brought);
        }
        self.expect(mrc::simulated_sizes(options, &curves));
        output::json(&miss_ratios(trace, &curves, asked, || self.advance(1))?)
    }

    fn buffer(&self, options: &BufferOptions, trace: &CompiledTrace) -> Result<String> {
        let mut all = buffer::Asked::new(options)?.configurations(trace)?;
        for configuration in &mut all {
            configuration.watch = self.watch.clone();
        }
        self.expect(all.len());
        output::json(&run_buffers(trace, &all, options.check, || self.advance(1))?)
    }

    fn hot(&self, options: &HotOptions, trace: &CompiledTrace) -> Result<String> {
        let asked = hot::Asked::new(options)?;
        self.expect(asked.count());
        output::json(&asked.identify(options, trace, &self.watch, || self.advance(1))?)
    }

    fn plan(&self, options: &PlanOptions, trace: &CompiledTrace) -> Result<String> {
        let mut asked = plan::asked(options)?;
        asked.flash_drive = plan::drive(options, trace)?;
        asked.watch = self.watch.clone();
        let found = Plan::search(trace, &asked, |progress| match progress {
            PlanProgress::Coarse(steps) | PlanProgress::Full(steps) => self.expect(steps),
            PlanProgress::Done => self.advance(1),
        })?;
        if let Some(path) = &options.output {
            output::write_file(path, &plan::engine(&found)?)?;
        }
        output::json(&found)
    }
}

/// What `thermocline sweep --json` prints of a sweep that is finished.
///
/// # Errors
/// None that is known: every figure is a number or a text.
pub fn outcome_json(outcome: &Outcome, target: &Path) -> Result<String> {
    commands::sweep::json(outcome, target)
}

/// What a command prints that lists what there is: `policies`, `identifiers`, `buffers`, `devices` or
/// `drives`.
///
/// # Errors
/// Words that are no command line, or that of another command; else as the command's.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other command lists")]
pub fn listing(words: &[String]) -> Result<String> {
    match &parse(words)?.command {
        Command::Policies(options) => commands::policies::run(options),
        Command::Identifiers(options) => commands::identifiers::run(options),
        Command::Buffers(options) => commands::buffers::run(options),
        Command::Devices(options) => commands::devices::run(options),
        Command::Drives(options) => commands::drives::run(options),
        _ => bail!("`{}` lists nothing", words.join(" ")),
    }
}

/// The command line of these words.
fn parse(words: &[String]) -> Result<Arguments> {
    ensure!(!words.is_empty(), "no command was given");
    let all = ["thermocline"].into_iter().chain(words.iter().map(String::as_str));
    Arguments::try_parse_from(all).map_err(|error| {
        let text = error.render().to_string();
        let what = text.split("\n\n").next().unwrap_or(&text);
        anyhow::anyhow!("{}", what.trim_start_matches("error: "))
    })
}
