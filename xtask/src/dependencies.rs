//! Dependencies that may be added, by `deny.toml`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

/// Fails if a dependency has another licence or source than the file allows, or comes in two versions.
/// Skips, and says so, where cargo-deny is not installed.
pub(crate) fn check(root: &Path) -> Result<()> {
    let asked = Command::new(xtask::cargo_program())
        .args(["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !asked.is_ok_and(|status| status.success()) {
        eprintln!(
            "skipped: licences, sources and versions of dependencies; install the check by: \
             cargo install --locked cargo-deny"
        );
        return Ok(());
    }
    xtask::cargo(root, &["deny", "check", "bans", "licenses", "sources"], &[])
}

/// Fails if a dependency has a known weakness or was withdrawn. The check needs a database from the network,
/// so it is for hosted CI.
pub(crate) fn check_advisories(root: &Path) -> Result<()> {
    xtask::cargo(root, &["deny", "check", "advisories"], &[])
}
