//! The reasons why a machine's caches cannot be read, each with a remedy.

use std::io;
use std::path::PathBuf;

/// The reason why a machine's caches cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstalledError {
    /// The program that knows the cache is not installed.
    #[error("cannot run `{command}`: {program} is not installed; {remedy}")]
    NotInstalled {
        /// The command line.
        command: String,
        /// The program.
        program: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The user may not read the settings.
    #[error("no permission for {place}; run the same command with sudo")]
    Denied {
        /// The command or file.
        place: String,
    },
    /// The program ended with an error.
    #[error("`{command}` failed: {message}; {remedy}")]
    Failed {
        /// The command line.
        command: String,
        /// Its message.
        message: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The kernel has no such cache, because its module is not loaded.
    #[error("{} does not exist; {remedy}", path.display())]
    Absent {
        /// The file or folder that a loaded module has.
        path: PathBuf,
        /// The remedy.
        remedy: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The program or the kernel printed something unexpected.
    #[error("cannot understand {place}: {reason}; {remedy}")]
    NotUnderstood {
        /// The command or file, and the line or field in it.
        place: String,
        /// The reason, with the unexpected text.
        reason: String,
        /// The remedy.
        remedy: String,
    },
}

/// A part of an output, for errors about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The command or file.
    pub(super) source: &'a str,
    /// A command that shows a person the same.
    pub(super) look: &'a str,
}

impl Place<'_> {
    /// Make the error that something in this place was not understood.
    pub(super) fn error(self, part: &str, reason: impl Into<String>) -> InstalledError {
        let place =
            if part.is_empty() { self.source.into() } else { format!("{} ({part})", self.source) };
        let remedy = format!("look at the output of `{}`", self.look);
        InstalledError::NotUnderstood { place, reason: reason.into(), remedy }
    }

    /// Parse a whole number.
    pub(super) fn number(self, part: &str, text: &str) -> Result<u64, InstalledError> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number).ok_or_else(|| {
            self.error(part, format!("expected a whole number, found {}", shown(text)))
        })
    }

    /// Multiply a number by the size of its unit.
    pub(super) fn scaled(self, part: &str, count: u64, unit: u64) -> Result<u64, InstalledError> {
        count.checked_mul(unit).ok_or_else(|| {
            self.error(part, format!("{count} times {unit} bytes are more than any device has"))
        })
    }

    /// Make the error that a word is none of those that are known.
    pub(super) fn unknown_word(self, part: &str, word: &str, known: &str) -> InstalledError {
        self.error(part, format!("expected one of {known}, found {}", shown(word)))
    }
}

/// Quote text from outside for a message, without control characters and not too long.
pub(super) fn shown(text: &str) -> String {
    const LENGTH_MAX: usize = 60;
    let mut characters = text.chars();
    let start: String = characters.by_ref().take(LENGTH_MAX).collect();
    let rest = if characters.next().is_some() { "..." } else { "" };
    format!("'{}{rest}'", start.escape_debug())
}
