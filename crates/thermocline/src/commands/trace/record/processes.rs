//! Programs and processes of this machine.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Where a program is that can be run.
pub(super) fn find_program(name: &OsStr) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let can_run = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        ensure!(can_run(&path), "`{}` is no program that can be run", path.display());
        return Ok(path);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(name));
    match places.find(can_run) {
        Some(path) => Ok(path),
        None => bail!("there is no program `{}` on the PATH", name.display()),
    }
}

/// These processes, with all that they have begun and that still run.
pub(super) fn descendants(roots: &[u32]) -> Result<Vec<u32>> {
    for root in roots {
        ensure!(fs::exists(format!("/proc/{root}"))?, "there is no process {root} to attach to");
    }
    let mut parents = vec![];
    for entry in fs::read_dir("/proc").context("cannot read /proc")? {
        let name = entry.context("cannot read /proc")?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may have ended meanwhile.
        if let Some(parent) = parent(pid) {
            parents.push((pid, parent));
        }
    }
    let mut found: BTreeSet<u32> = roots.iter().copied().collect();
    loop {
        let before = found.len();
        for &(pid, parent) in &parents {
            if found.contains(&parent) {
                found.insert(pid);
            }
        }
        if found.len() == before {
            return Ok(found.into_iter().collect());
        }
    }
}

/// The parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The processes that this one has begun.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Sends a signal; that the process has ended is no failure.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _is_there = kill_process(pid, signal).is_ok();
    }
}
