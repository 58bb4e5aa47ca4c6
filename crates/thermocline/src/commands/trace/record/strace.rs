//! Recording with strace, which needs no root.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};

use super::watch::{self, Signals};
use super::{Target, attach, installed, processes};

/// The calls that are recorded; the question marks let strace skip what a machine does not have.
const CALLS: &str = "trace=?open,?openat,?openat2,?creat,?close,?close_range,?dup,?dup2,?dup3,?fcntl,\
?read,?write,?pread64,?pwrite64,?readv,?writev,?preadv,?pwritev,?preadv2,?pwritev2,?lseek,?sendfile,\
?copy_file_range,?splice,?truncate,?ftruncate,?fallocate,?rename,?renameat,?renameat2,?unlink,\
?unlinkat,?link,?linkat,?fsync,?fdatasync,?sync_file_range,?mmap,?memfd_create,?clone,?clone3,?fork,\
?vfork,?unshare,?execve,?execveat,?chdir,?fchdir,?exit_group,?io_uring_setup,?io_setup";

/// Mode in which strace can be used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It stops the command only at the calls that are recorded.
    Filtered,
    /// It stops the command at every call.
    Plain,
}

impl Mode {
    const ALL: [Self; 2] = [Self::Filtered, Self::Plain];

    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Filtered => &["-f", "--seccomp-bpf"],
            Self::Plain => &["-f"],
        }
    }
}

/// Check that strace is there, and may trace.
pub(super) fn check() -> Result<()> {
    mode().map(drop)
}

/// Find the mode in which strace works here, by trying it.
pub(super) fn mode() -> Result<Mode> {
    installed("strace")?;
    let mut reason = String::new();
    for mode in Mode::ALL {
        let tried = Command::new("strace")
            .args(mode.arguments())
            .args(["-qq", "-e", "trace=close", "-o", "/dev/null", "true"])
            .stdin(Stdio::null())
            .output()
            .context("cannot start strace")?;
        if tried.status.success() {
            return Ok(mode);
        }
        reason = String::from_utf8_lossy(&tried.stderr).into_owned();
    }
    bail!(
        "strace may not trace here ({}): a container needs the capability SYS_PTRACE, and kernel.yama.ptrace_scope may be 2 at most",
        reason.trim()
    );
}

/// Record into the file `raw`; return a command's status.
pub(super) fn record(
    target: &Target<'_>,
    mode: Mode,
    raw: &Path,
    signals: &Signals,
) -> Result<Option<ExitStatus>> {
    let command = match target {
        Target::Command(command) => command,
        Target::Processes(roots) => return attach::record(roots, raw, signals).map(|()| None),
    };
    let mut strace = recorder(mode, raw);
    strace.arg(OsStr::new("--")).args(*command);
    let mut child = strace.spawn().context("cannot start strace")?;
    let tracer = child.id();
    let status = watch::wait(&mut child, raw, signals, |signal| {
        // strace shields itself from signals while it runs a command.
        if !watch::is_everywhere(signal) {
            for receiver in processes::children(tracer) {
                processes::signal(receiver, signal);
            }
        }
    })?;
    Ok(Some(status))
}

/// Return the command of strace that writes into the file `raw`.
pub(super) fn recorder(mode: Mode, raw: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace.args(mode.arguments());
    strace.args(["-q", "-ttt", "-y", "-s0", "-e", CALLS, "-e", "signal=none"]);
    strace.arg("-o").arg(raw);
    strace
}
