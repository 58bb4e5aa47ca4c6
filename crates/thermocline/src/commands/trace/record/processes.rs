//! Programs and processes of this machine.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use thermocline_capture::AttachedTask;

/// Find a program that can be run.
pub(super) fn find_program(name: &OsStr) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let can_run = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        ensure!(can_run(&path), "`{}` cannot be run as a program", path.display());
        return Ok(path);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(name));
    match places.find(can_run) {
        Some(path) => Ok(path),
        None => bail!("there is no program `{}` on the PATH", name.display()),
    }
}

/// Fails if one of these processes is not there.
pub(super) fn check(processes: &[u32]) -> Result<()> {
    for &process in processes {
        let is_there = tasks(process).into_iter().any(|task| status(task).is_some());
        ensure!(is_there, "there is no process {process} to attach to");
    }
    Ok(())
}

/// Return these processes, as far as they exist, with all their descendants that still run, except
/// this one and its descendants.
pub(super) fn with_descendants(roots: &[u32]) -> Result<BTreeSet<u32>> {
    let mut parents = vec![];
    for entry in fs::read_dir("/proc").context("cannot read /proc")? {
        // A process may have ended meanwhile.
        if let Some(pid) = entry.ok().as_ref().and_then(number)
            && pid != std::process::id()
            && let Some(Status { parent, .. }) = status(pid)
        {
            parents.push((pid, parent));
        }
    }
    let is_there = |&(pid, _): &(u32, u32)| roots.contains(&pid);
    let mut found: BTreeSet<u32> =
        parents.iter().filter(|it| is_there(it)).map(|it| it.0).collect();
    loop {
        let before = found.len();
        for &(pid, parent) in &parents {
            if found.contains(&parent) {
                found.insert(pid);
            }
        }
        if found.len() == before {
            return Ok(found);
        }
    }
}

/// Return the number that an entry of /proc is called.
fn number(entry: &fs::DirEntry) -> Option<u32> {
    entry.file_name().to_str()?.parse().ok()
}

/// Return the threads of a process, its first among them.
pub(super) fn tasks(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"));
    entries.into_iter().flatten().filter_map(|entry| number(entry.ok().as_ref()?)).collect()
}

/// Relations of a process or thread that runs to others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Status {
    /// Process that started it.
    parent: u32,
    /// Process that traces it; 0 for none.
    pub(super) tracer: u32,
}

/// Return the status of a process or thread, unless it has ended.
pub(super) fn status(id: u32) -> Option<Status> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        value.and_then(|value| value.split_ascii_whitespace().next())
    };
    if matches!(field("State")?, "Z" | "X") {
        return None;
    }
    Some(Status { parent: field("PPid")?.parse().ok()?, tracer: field("TracerPid")?.parse().ok()? })
}

/// The most that the kernel keeps of the name of a program.
const NAME_BYTES: usize = 15;

/// Return the names of a process's threads, and its folder, as far as they may be known.
pub(super) fn attached_tasks(pid: u32) -> Vec<AttachedTask> {
    let Ok(mut program) = fs::read(format!("/proc/{pid}/comm")) else { return vec![] };
    program.pop_if(|last| *last == b'\n');
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let whole = path.file_name().unwrap_or_default().as_encoded_bytes();
    if program.len() == NAME_BYTES && whole.starts_with(&program) {
        program = whole.into();
    }
    let folder = fs::read_link(format!("/proc/{pid}/cwd")).ok();
    let folder = folder.map(|folder| folder.into_os_string().into_encoded_bytes());
    let task = |id| AttachedTask { id, program: program.clone(), folder: folder.clone() };
    tasks(pid).into_iter().map(task).collect()
}

/// Return the processes that this one has begun.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Sends a signal; that the process has ended is no failure.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _is_there = kill_process(pid, signal).is_ok();
    }
}

/// Sends no signal, which shows that the process is there.
pub(super) fn probe(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _is_there = test_kill_process(pid).is_ok();
    }
}
