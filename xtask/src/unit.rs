//! Limits that the sandbox of the systemd unit sets to a broken server.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

/// The exposure that is allowed, in tenths of the scale that `systemd-analyze security` prints.
const EXPOSURE_MAX: u32 = 25;

/// Fails if the unit exposes more of the machine than it should. Skips, and says so, where systemd is
/// not installed.
pub(crate) fn check(root: &Path) -> Result<()> {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("skipped: the exposure of the systemd unit; systemd-analyze is not installed");
        return Ok(());
    }
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let unit = "deploy/systemd/thermocline.service";
    xtask::run(
        root,
        "systemd-analyze",
        &["security", "--no-pager", "--offline=true", &threshold, unit],
        &[],
    )
}
