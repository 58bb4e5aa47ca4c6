//! The command line of Thermocline as a library: the only crate that prints.
//!
//! Results go to standard output, progress and notes to standard error. Every command prints a
//! table for people, or with `--json` one JSON value for tools. Errors name the place and the
//! remedy, and the exit status is then 1 (2 for a wrong command line). `trace record` ends with the
//! status of the command that it has recorded.
//!
//! [`run`] is the whole command line.

mod arguments;
mod backing;
mod bytes;
mod commands;
mod errors;
mod hierarchy;
mod interrupt;
mod note;
mod output;
mod reading;

use std::ffi::OsString;

use crate::arguments::Command;
use crate::errors::explained;
use crate::output::print;

/// The exit status after an error.
const FAILURE: u8 = 1;

/// Runs a command line, of which the first word is the program's name, and returns the exit status.
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let command = output::command_line(&words);
    let arguments = match arguments::parse(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nobody is left to be told that standard error is closed.
            drop(error.print());
            return u8::try_from(error.exit_code()).unwrap_or(FAILURE);
        }
    };
    let mut status = 0;
    let result = arguments.command.check_files().and_then(|()| match &arguments.command {
        Command::Demo(options) => commands::demo::run(options),
        Command::Policies(options) => commands::policies::run(options),
        Command::Devices(options) => commands::devices::run(options),
        Command::Drives(options) => commands::drives::run(options),
        Command::Hot(options) => commands::hot::run(options, &command),
        Command::Identifiers(options) => commands::identifiers::run(options),
        Command::Trace(options) => commands::trace::run(options, &command, &mut status),
        Command::Simulate(options) => commands::simulate::run(options),
        Command::Explore(options) => commands::explore::run(options),
        Command::Compare(options) => commands::compare::run(options, &command),
        Command::Mrc(options) => commands::mrc::run(options, &command),
        Command::Corpus(options) => commands::corpus::run(options, &command, &mut status),
        Command::Sweep(options) => commands::sweep::run(options, &command),
        Command::Plan(options) => commands::plan::run(options, &command),
        Command::Advise(options) => commands::advise::run(options),
        Command::Buffer(options) => commands::buffer::run(options, &command),
        Command::Kv(options) => commands::kv::run(options, &command),
        Command::Buffers(options) => commands::buffers::run(options),
        Command::Reproduce(options) => commands::reproduce::run(options),
        Command::Artifact(options) => commands::artifact::run(options, &mut status),
        Command::Serve(options) => commands::serve::run(options),
        Command::Cache(options) => commands::cache::run(options),
        Command::Top(options) => commands::top::run(options),
        Command::Completions(options) => commands::completions::run(options),
    });
    match result {
        Ok(text) if print(&text) => status,
        Ok(_) => FAILURE,
        Err(error) => {
            let is_advice = matches!(arguments.command, Command::Advise(_));
            let flag = |option: &str| match option {
                // Its `--format` is that of the answer.
                "format" if is_advice => "--from".into(),
                option => format!("--{}", option.replace('_', "-")),
            };
            output::note(&format!("error: {}", explained(&error, flag)));
            FAILURE
        }
    }
}
