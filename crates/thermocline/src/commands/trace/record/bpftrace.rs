//! Recording with bpftrace: cheaper than strace, but for root on a kernel that describes itself.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Signal, geteuid};
use thermocline_capture::BPFTRACE_SCRIPT;

use super::watch::{self, Signals};
use super::{Target, installed, note_descendants, processes};

/// Attaching to some twenty tracepoints takes a while.
const ATTACHING_MOST: Duration = Duration::from_mins(2);

const LOOK: Duration = Duration::from_millis(50);

/// Maximum number of times that descendants are looked for: a server may never stop starting some.
const ROUNDS: u32 = 10;

/// First output of the script.
const READY: &str = "# thermocline 1";

/// Folders that describe tracepoints, in the order in which bpftrace looks.
const TRACEPOINTS: [&str; 2] =
    ["/sys/kernel/tracing/events/syscalls", "/sys/kernel/debug/tracing/events/syscalls"];

/// File of bpftrace's messages.
const ERRORS: &str = "errors";

/// Waits for a line from the pipe, and becomes the command.
const WAITING_SHELL: &str = "read -r _ < \"$0\"; exec \"$@\"";

/// Check that bpftrace is there, and may trace.
pub(crate) fn check() -> Result<()> {
    installed("bpftrace")?;
    ensure!(geteuid().is_root(), "bpftrace needs root");
    ensure!(
        fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false),
        "bpftrace needs a kernel with BTF (/sys/kernel/btf/vmlinux)"
    );
    ensure!(
        TRACEPOINTS.iter().any(|folder| fs::exists(folder).unwrap_or(false)),
        "bpftrace needs tracefs (mount -t tracefs tracefs /sys/kernel/tracing)"
    );
    Ok(())
}

/// Record into the file `raw`; return a command's status.
pub(super) fn record(
    target: &Target<'_>,
    raw: &Path,
    signals: &Signals,
) -> Result<Option<ExitStatus>> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let pipe = folder.path().join("start");
    match target {
        Target::Processes(roots) => {
            let mut recorder = start(roots, folder.path(), raw)?;
            let pid = recorder.id();
            let done = wait_until_ready(&mut recorder, folder.path(), raw, signals)
                .and_then(|()| add_descendants(roots))
                .and_then(|()| {
                    let end = |_| processes::signal(pid, Signal::INT);
                    watch::wait(&mut recorder, raw, signals, end)
                });
            end(&mut recorder)?;
            done.map(|_| None)
        }
        Target::Command(command) => {
            mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                .context("cannot make a pipe")?;
            let mut shell = Command::new("sh");
            shell.args(["-c", WAITING_SHELL]).arg(&pipe).args(*command);
            let mut child = shell.spawn().context("cannot start the command")?;
            let recorded = run(&mut child, &pipe, folder.path(), raw, signals);
            if recorded.is_err() {
                // It has not begun, or nobody watches it any more.
                drop(child.kill());
                drop(child.wait());
            }
            recorded.map(Some)
        }
    }
}

/// Record a command that waits at a pipe for its start.
fn run(
    child: &mut Child,
    pipe: &Path,
    folder: &Path,
    raw: &Path,
    signals: &Signals,
) -> Result<ExitStatus> {
    let mut recorder = start(&[child.id()], folder, raw)?;
    let done = wait_until_ready(&mut recorder, folder, raw, signals).and_then(|()| {
        let start = OpenOptions::new().write(true).open(pipe);
        start.and_then(|mut pipe| pipe.write_all(b"\n")).context("cannot start the command")?;
        let pid = child.id();
        watch::wait(child, raw, signals, |signal| {
            if !watch::is_everywhere(signal) {
                processes::signal(pid, signal);
            }
        })
    });
    end(&mut recorder)?;
    done
}

/// Ends bpftrace, unless it has ended.
fn end(recorder: &mut Child) -> Result<()> {
    if recorder.try_wait().context("cannot wait for bpftrace")?.is_none() {
        processes::signal(recorder.id(), Signal::INT);
        recorder.wait().context("cannot wait for bpftrace")?;
    }
    Ok(())
}

/// Adds what the processes had begun before bpftrace was ready, from when on it follows them.
fn add_descendants(roots: &[u32]) -> Result<()> {
    processes::check(roots)?;
    let mut known: BTreeSet<u32> = roots.iter().copied().collect();
    let named = known.len();
    // One that is added late may have begun others before.
    for _ in 0..ROUNDS {
        let before = known.len();
        for process in processes::with_descendants(roots)? {
            if known.insert(process) {
                // The script takes it from this call.
                processes::probe(process);
            }
        }
        if known.len() == before {
            break;
        }
    }
    note_descendants(known.len() - named);
    Ok(())
}

/// Starts bpftrace for these processes.
fn start(wanted: &[u32], folder: &Path, raw: &Path) -> Result<Child> {
    let mut statements = format!("@recorder[{}] = 1; ", std::process::id());
    statements.extend(wanted.iter().map(|pid| format!("@wanted[{pid}] = 1; ")));
    let script = folder.join("record.bt");
    fs::write(&script, BPFTRACE_SCRIPT.replace("  WANTED\n", &format!("  {statements}\n")))
        .context("cannot write the script")?;
    let errors = fs::File::create(folder.join(ERRORS)).context("cannot write a file")?;
    // Its own `-o` would hold the first line back.
    let raw = OpenOptions::new().append(true).open(raw).context("cannot write the recording")?;
    let mut recorder = Command::new("bpftrace");
    recorder
        .args(["-B", "line"])
        .arg(&script)
        .env("BPFTRACE_STRLEN", "128")
        .env("BPFTRACE_PERF_RB_PAGES", "1024")
        .env("BPFTRACE_MAP_KEYS_MAX", "1048576")
        .stdin(Stdio::null())
        .stdout(raw)
        .stderr(errors)
        // Ctrl-C is for the command; bpftrace ends behind it.
        .process_group(0);
    let child = recorder.spawn().context("cannot start bpftrace")?;
    Ok(child)
}

/// Wait until the script has said that it runs.
fn wait_until_ready(
    recorder: &mut Child,
    folder: &Path,
    raw: &Path,
    signals: &Signals,
) -> Result<()> {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(raw).unwrap_or_default();
        if text.lines().any(|line| line == READY) {
            return Ok(());
        }
        if let Some(status) = recorder.try_wait().context("cannot wait for bpftrace")? {
            let errors = fs::read_to_string(folder.join(ERRORS)).unwrap_or_default();
            bail!(
                "bpftrace ended before it recorded anything ({status}); try --with strace; it said:\n{}",
                errors.trim_end()
            );
        }
        let is_stopped = signals.has_any();
        if is_stopped || begun.elapsed() > ATTACHING_MOST {
            end(recorder)?;
            ensure!(!is_stopped, "stopped before bpftrace was ready: nothing is recorded");
            bail!(
                "bpftrace was not ready within {} s; try --with strace",
                ATTACHING_MOST.as_secs()
            );
        }
        std::thread::sleep(LOOK);
    }
}
