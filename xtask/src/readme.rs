//! Runs the commands of the README in a clean copy of the project, as a newcomer would.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::console::{Session, copy_project};

/// A bare machine builds everything first.
const PATIENCE: Duration = Duration::from_hours(2);

/// Copies what git tracks, or would, to an empty folder, and runs every command there: as it is, or with
/// this `thermocline` in place of releases that it would build.
///
/// The copy builds into the same target folder, so that only what differs is built again.
pub(crate) fn check(root: &Path, built: Option<&Path>) -> Result<()> {
    let text = std::fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    let copy = tempfile::tempdir().context("cannot make a folder for the copy")?;
    copy_project(root, copy.path())?;
    Session {
        name: "README.md",
        text: &text,
        folder: copy.path(),
        programs: None,
        built,
        target: &root.join("target"),
        patience: PATIENCE,
    }
    .run()
}
