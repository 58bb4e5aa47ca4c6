//! The command line of Thermocline: the only crate that prints.
//!
//! Results go to standard output, progress and notes to standard error. Every command prints a
//! table for people, or with `--json` one JSON value for tools. Errors name the place and the
//! remedy, and the exit status is then 1 (2 for a wrong command line).

mod arguments;
mod backing;
mod commands;
mod hierarchy;
mod output;
mod reading;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.command {
        Command::Demo(options) => commands::demo::run(options),
        Command::Policies(options) => commands::policies::run(options),
        Command::Devices(options) => commands::devices::run(options),
        Command::Drives(options) => commands::drives::run(options),
        Command::Hot(options) => commands::hot::run(options),
        Command::Identifiers(options) => commands::identifiers::run(options),
        Command::Trace(options) => commands::trace::run(options),
        Command::Simulate(options) => commands::simulate::run(options),
        Command::Compare(options) => commands::compare::run(options),
        Command::Mrc(options) => commands::mrc::run(options),
        Command::Sweep(options) => commands::sweep::run(options),
        Command::Plan(options) => commands::plan::run(options),
        Command::Buffer(options) => commands::buffer::run(options),
        Command::Buffers(options) => commands::buffers::run(options),
        Command::Reproduce(options) => commands::reproduce::run(options),
        Command::Serve(options) => commands::serve::run(options),
        Command::Cache(options) => commands::cache::run(options),
        Command::Top(options) => commands::top::run(options),
    };
    match result {
        Ok(text) => print(&text),
        Err(error) => {
            output::note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a result; that the reader has had enough (`| head`) is no failure.
fn print(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}
