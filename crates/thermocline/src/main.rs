//! The `thermocline` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(thermocline::run(std::env::args_os()))
}
