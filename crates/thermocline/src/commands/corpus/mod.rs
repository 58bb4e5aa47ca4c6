//! `thermocline corpus`: many traces from a manifest, and the statistics over them.

mod dask;
mod report;
mod run;
mod traces;

use anyhow::Result;

pub(crate) use run::{processors, request};

use crate::arguments::{CorpusCommand, CorpusOptions};

/// Runs the command; `command` is the command line, for the report. A check that finds something wrong
/// sets `status`.
pub(crate) fn run(options: &CorpusOptions, command: &str, status: &mut u8) -> Result<String> {
    match &options.command {
        CorpusCommand::Check(options) => traces::check(options, status),
        CorpusCommand::Fetch(options) => traces::fetch(options),
        CorpusCommand::Compile(options) => traces::compile(options),
        CorpusCommand::Run(options) => run::run(options),
        CorpusCommand::Report(options) => report::run(options, command),
    }
}
