//! Runs of the command line that end on their own.

use std::process::{Command, Output};

use serde_json::Value;

pub(crate) fn thermocline(words: &[&str]) -> Output {
    // A command that should fail, and serves instead, fails its test rather than hang it.
    let program = env!("CARGO_BIN_EXE_thermocline");
    Command::new("timeout").args(["300", program]).args(words).output().unwrap()
}

/// Standard output of a command that succeeds.
#[track_caller]
pub(crate) fn text(words: &[&str]) -> String {
    let output = thermocline(words);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
pub(crate) fn json(words: &[&str]) -> Value {
    serde_json::from_str(&text(words)).unwrap()
}

/// Check that a command fails, prints nothing, and says all of `parts`; return what it says.
#[track_caller]
pub(crate) fn fails(words: &[&str], parts: &[&str]) -> String {
    let output = thermocline(words);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{words:?} succeeded");
    assert!(output.stdout.is_empty(), "{words:?} printed a result");
    assert!(!errors.contains("panicked"), "{errors}");
    for part in parts {
        assert!(errors.contains(part), "{words:?}: {part:?} is not in: {errors}");
    }
    errors
}
