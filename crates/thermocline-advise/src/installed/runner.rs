//! Running other programs, and the meaning of their failures.

use std::io;
use std::process::Command;

use super::error::InstalledError;

/// A function that runs a program with arguments and returns what it printed.
///
/// Readers take it as an argument, so that recorded outputs can take the place of a machine. An error
/// of the kind [`io::ErrorKind::NotFound`] means that there is no such program; any other error has as
/// its message what the program wrote about it.
pub type Runner<'a> = dyn FnMut(&str, &[&str]) -> io::Result<String> + 'a;

/// A program, and remedies where it is missing or fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// The remedy if it is not installed.
    pub(super) install: &'static str,
    /// The remedy if it fails.
    pub(super) check: &'static str,
}

impl Program {
    /// Run it.
    pub(super) fn run(
        self,
        runner: &mut Runner<'_>,
        arguments: &[&str],
    ) -> Result<String, InstalledError> {
        runner(self.name, arguments).map_err(|error| {
            let command = format!("{} {}", self.name, arguments.join(" "));
            let message = error.to_string();
            if error.kind() == io::ErrorKind::NotFound {
                let program = self.name.into();
                InstalledError::NotInstalled { command, program, remedy: self.install }
            } else if error.kind() == io::ErrorKind::PermissionDenied || is_denial(&message) {
                InstalledError::Denied { place: format!("`{command}`") }
            } else {
                let message = message.trim().replace('\n', "; ");
                InstalledError::Failed { command, message, remedy: self.check }
            }
        })
    }
}

/// Return `true` if a message says that only root may do this.
fn is_denial(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["permission denied", "operation not permitted", "as root", "non-root", "root privileges"]
        .iter()
        .any(|words| message.contains(words))
}

/// Run a program of this machine; its messages are in English, whatever the locale.
///
/// # Errors
/// If it is not there, may not be run, or ends with a failure; then the message is what it wrote to
/// its standard error.
pub fn run_program(program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if message.is_empty() {
        message = output.status.to_string();
    }
    Err(io::Error::other(message))
}
