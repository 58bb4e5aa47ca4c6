//! Recording by strace of processes that run, while they start others.
//!
//! strace follows the processes that a process starts after it is attached, and takes no further
//! processes later. So processes that were started between looking for the descendants and
//! attaching are looked for again, and strace is restarted if one was left out.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;
use tempfile::NamedTempFile;
use thermocline_capture::AttachedTask;

use super::strace::{self, Mode};
use super::watch::{self, Signals};
use super::{note_descendants, processes};
use crate::output;

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Within this, strace must have the processes that were named.
const ATTACHING_MOST: Duration = Duration::from_secs(10);

/// Processes that are left out may end by themselves within this.
const LEFT_OUT_MOST: Duration = Duration::from_millis(300);

/// Maximum number of times that strace is started.
const ATTEMPTS: u32 = 5;

/// Within this, strace must have parted from its processes.
const PARTING_MOST: Duration = Duration::from_secs(2);

/// More than a line of strace has.
const LINE_BYTES: u64 = 1 << 20;

/// Record these processes, with all that they have started and start later, into the file `raw`.
pub(super) fn record(roots: &[u32], raw: &Path, signals: &Signals) -> Result<()> {
    let mut attached = attach(roots, raw, signals)?;
    let tracer = attached.strace.id();
    watch::wait(&mut attached.strace, raw, signals, |_| part(tracer))?;
    attached.check_roots(roots)?;
    let has_lines = cut(raw).context("cannot cut the recording")?;
    ensure!(has_lines, "strace recorded nothing: the processes made no call meanwhile");
    let lines: String = attached.tasks.values().map(|task| format!("{task}\n")).collect();
    let file = OpenOptions::new().append(true).open(raw);
    file.and_then(|mut file| file.write_all(lines.as_bytes())).context("cannot write the recording")
}

/// Attaches strace so that nothing is left out, as far as that is possible.
fn attach(roots: &[u32], raw: &Path, signals: &Signals) -> Result<Attached> {
    let mut attempts = ATTEMPTS;
    loop {
        let mut attached = Attached::start(roots, raw)?;
        let left_out = attached.settle(roots, signals)?;
        attempts -= 1;
        if !left_out.is_empty() && attempts > 0 {
            continue;
        }
        note_descendants(attached.descendants);
        if !left_out.is_empty() {
            output::note(&format!(
                "note: strace is not attached to {} of their descendants, which are not recorded",
                left_out.len()
            ));
        }
        return Ok(attached);
    }
}

/// strace, and what it is attached to; it parts from that when it is dropped.
struct Attached {
    strace: Child,
    /// Messages of strace.
    errors: NamedTempFile,
    /// Number of processes that strace was attached to besides those that were named.
    descendants: usize,
    /// State of the processes, by their tasks.
    tasks: BTreeMap<u32, AttachedTask>,
}

impl Attached {
    /// Begins strace for what runs.
    fn start(roots: &[u32], raw: &Path) -> Result<Self> {
        let mut wanted = processes::with_descendants(roots)?;
        // It fails for those that have ended.
        wanted.extend(roots);
        let errors = NamedTempFile::new().context("cannot make a temporary file")?;
        // A process that is attached to cannot be given a filter.
        let mut strace = strace::recorder(Mode::Plain, raw);
        for &process in &wanted {
            strace.arg("-p").arg(process.to_string());
        }
        let said = errors.reopen().context("cannot open a temporary file")?;
        strace.stdin(Stdio::null()).stderr(said);
        // Ctrl-C comes from here.
        strace.process_group(0);
        let strace = strace.spawn().context("cannot start strace")?;
        // Only now: the sooner strace is attached, the less is begun before.
        let mut tasks = BTreeMap::new();
        for &process in &wanted {
            note_tasks(&mut tasks, process);
        }
        Ok(Self { strace, errors, descendants: wanted.len() - roots.len(), tasks })
    }

    /// Wait until strace has the processes; return those that it leaves out.
    fn settle(&mut self, roots: &[u32], signals: &Signals) -> Result<Vec<u32>> {
        let (begun, tracer) = (Instant::now(), self.strace.id());
        loop {
            let mut running = processes::with_descendants(roots)?;
            for &process in &running {
                note_tasks(&mut self.tasks, process);
            }
            running.retain(|&process| !is_traced(process, tracer));
            let has_ended = self.strace.try_wait().context("cannot wait for strace")?.is_some();
            self.check_roots(roots)?;
            if running.is_empty() || has_ended || signals.has_any() {
                return Ok(vec![]);
            }
            match running.iter().find(|process| roots.contains(process)) {
                Some(root) if begun.elapsed() > ATTACHING_MOST => bail!(
                    "strace was not attached to process {root} within {} s\n{}",
                    ATTACHING_MOST.as_secs(),
                    self.said()
                ),
                None if begun.elapsed() > LEFT_OUT_MOST => return Ok(Vec::from_iter(running)),
                _ => thread::sleep(LOOK),
            }
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.errors.path()).unwrap_or_default()
    }

    /// Fails if strace could not be attached to a process that was named; others may have ended.
    fn check_roots(&self, roots: &[u32]) -> Result<()> {
        for (process, reason) in self.said().lines().filter_map(refused) {
            let hint = if reason == "Operation not permitted" {
                "; that is for root, or for its user if kernel.yama.ptrace_scope is 0, and while nobody else traces it"
            } else {
                ""
            };
            ensure!(
                !roots.contains(&process),
                "strace cannot be attached to process {process}: {reason}{hint}"
            );
        }
        Ok(())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if matches!(self.strace.try_wait(), Ok(None)) {
            part(self.strace.id());
            drop(self.strace.wait());
        }
    }
}

/// Return the process of `strace: attach: ptrace(PTRACE_SEIZE, PROCESS): REASON`, and the reason.
fn refused(line: &str) -> Option<(u32, &str)> {
    let (call, reason) = line.split_once("attach: ptrace(")?.1.split_once("): ")?;
    Some((call.rsplit_once(", ")?.1.parse().ok()?, reason))
}

/// Notes what is known of a process.
fn note_tasks(tasks: &mut BTreeMap<u32, AttachedTask>, process: u32) {
    tasks.extend(processes::attached_tasks(process).into_iter().map(|task| (task.id, task)));
}

/// Return `true` if all threads of a process are traced by `tracer`; those that have ended need not be.
fn is_traced(process: u32, tracer: u32) -> bool {
    let mut statuses = processes::tasks(process).into_iter().filter_map(processes::status);
    statuses.all(|status| status.tracer == tracer)
}

/// Make strace detach from its processes.
fn part(tracer: u32) {
    processes::signal(tracer, Signal::INT);
    let begun = Instant::now();
    while processes::status(tracer).is_some() {
        if begun.elapsed() > PARTING_MOST {
            // It waits for a process that waits for its child by vfork, which strace holds. The kernel
            // lets go of both.
            processes::signal(tracer, Signal::KILL);
            return;
        }
        thread::sleep(LOOK);
    }
}

/// Cuts off a last line that was not written whole; whether any are left.
fn cut(raw: &Path) -> io::Result<bool> {
    let mut raw = File::options().read(true).write(true).open(raw)?;
    let from = raw.metadata()?.len().saturating_sub(LINE_BYTES);
    raw.seek(SeekFrom::Start(from))?;
    let mut tail = vec![];
    raw.read_to_end(&mut tail)?;
    let whole = from + memchr::memrchr(b'\n', &tail).map_or(0, |end| end as u64 + 1);
    raw.set_len(whole)?;
    Ok(whole > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strace_refuses_is_told() {
        let line = "strace: attach: ptrace(PTRACE_SEIZE, 4105): No such process";
        assert_eq!(refused(line), Some((4105, "No such process")));
        let line = "/usr/bin/strace: attach: ptrace(PTRACE_ATTACH, 7): Operation not permitted";
        assert_eq!(refused(line), Some((7, "Operation not permitted")));
        assert_eq!(refused("strace: Process 7 detached"), None);
    }

    #[test]
    fn a_line_that_is_not_whole_is_cut_off() {
        let file = NamedTempFile::new().unwrap();
        for (text, left) in [("", ""), ("7 1.0 vf", ""), ("a\nb\n", "a\nb\n"), ("a\nb", "a\n")] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(cut(file.path()).unwrap(), !left.is_empty());
            assert_eq!(fs::read_to_string(file.path()).unwrap(), left);
        }
    }
}
