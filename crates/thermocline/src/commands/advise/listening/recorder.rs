//! Recorder that prints the requests: bpftrace, or blktrace where bpftrace may not run.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Signal, geteuid};
use thermocline_capture::Listener;
use thermocline_trace::text::integer;

use super::Target;
use crate::arguments::ListenWith;
use crate::commands::trace::record::{bpftrace, installed, processes};
use crate::output;

/// Pieces of output that wait to be understood.
const PIECES_WAITING: usize = 64;
const PIECE_BYTES: usize = 1 << 16;
/// bpftrace takes a while to attach.
const ATTACHING_MOST: Duration = Duration::from_mins(2);
/// blktrace says nothing of a device that is idle. After so long without a complaint it listens.
const SILENCE: Duration = Duration::from_secs(2);
/// Folder in which the kernel hands blktrace its buffers.
const BUFFERS: &str = "/sys/kernel/debug/block";
/// blktrace's buffers per processor: 32 of 64 KiB. It takes a buffer along that is full in part.
const BUFFER_ARGUMENTS: [&str; 4] = ["-b", "64", "-n", "32"];

impl ListenWith {
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Bpftrace => "bpftrace",
            Self::Blktrace => "blktrace",
        }
    }

    pub(super) fn listener(self) -> Listener {
        match self {
            Self::Bpftrace => Listener::bpftrace(),
            Self::Blktrace => Listener::blktrace(),
        }
    }

    /// Check that it is there, and may listen.
    fn check(self) -> Result<()> {
        match self {
            Self::Bpftrace => bpftrace::check(),
            Self::Blktrace => {
                installed("blktrace")?;
                ensure!(geteuid().is_root(), "blktrace needs root");
                ensure!(
                    fs::exists(BUFFERS).unwrap_or(false),
                    "blktrace needs debugfs (mount -t debugfs debugfs /sys/kernel/debug)"
                );
                Ok(())
            }
        }
    }
}

/// Return the recorders that can listen to a target, the better one first; says why it is not
/// bpftrace.
pub(super) fn usable(target: &Target, wanted: Option<ListenWith>) -> Result<Vec<ListenWith>> {
    let name = target.name();
    let cannot = || format!("cannot listen to {name}");
    if let Target::Process(_) = target {
        ensure!(
            !matches!(wanted, Some(ListenWith::Blktrace)),
            "--with blktrace: it hears block devices alone; --pid needs bpftrace"
        );
        ListenWith::Bpftrace
            .check()
            .with_context(|| format!("{}, which only bpftrace can", cannot()))?;
        return Ok(vec![ListenWith::Bpftrace]);
    }
    if let Some(recorder) = wanted {
        recorder.check().with_context(cannot)?;
        return Ok(vec![recorder]);
    }
    let blktrace = ListenWith::Blktrace.check();
    match ListenWith::Bpftrace.check() {
        Ok(()) => {
            let other = blktrace.is_ok().then_some(ListenWith::Blktrace);
            Ok([Some(ListenWith::Bpftrace), other].into_iter().flatten().collect())
        }
        Err(no_bpftrace) => {
            if let Err(no_blktrace) = blktrace {
                bail!("{}: {no_bpftrace:#}; {no_blktrace:#}", cannot());
            }
            output::note(&format!("listening with blktrace, as {no_bpftrace:#}"));
            Ok(vec![ListenWith::Blktrace])
        }
    }
}

/// A recorder that was started.
#[derive(Debug)]
pub(super) struct Recorder {
    with: ListenWith,
    child: Child,
    /// File of its messages.
    errors: PathBuf,
    begun: Instant,
}

impl Recorder {
    /// Starts a recorder, with files in a folder; it prints into the channel.
    pub(super) fn start(
        with: ListenWith,
        target: &Target,
        folder: &Path,
    ) -> Result<(Self, Receiver<Vec<u8>>)> {
        let program = with.program();
        let mut command = Command::new(program);
        match with {
            ListenWith::Bpftrace => {
                let script = folder.join("listen.bt");
                fs::write(&script, target.script()).context("cannot write the script")?;
                command
                    .args(["-q", "-B", "line"])
                    .arg(&script)
                    .env("BPFTRACE_STRLEN", "128")
                    .env("BPFTRACE_PERF_RB_PAGES", "1024")
                    .env("BPFTRACE_MAP_KEYS_MAX", "1048576");
            }
            ListenWith::Blktrace => {
                let node = target.node()?;
                command.arg("-d").arg(node).args(["-o", "-", "-a", "queue"]).args(BUFFER_ARGUMENTS);
            }
        }
        let errors = folder.join(program);
        let file = fs::File::create(&errors).context("cannot write a file")?;
        // Ctrl-C is for this program; the recorder ends behind it.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).process_group(0);
        let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        let pieces = pieces_of(&mut child)?;
        Ok((Self { with, child, errors, begun: Instant::now() }, pieces))
    }

    /// Return `true` if it is taken to listen, though it printed nothing.
    pub(super) fn is_ready_in_silence(&self) -> bool {
        self.with == ListenWith::Blktrace && self.begun.elapsed() > SILENCE
    }

    /// Return the reason why a recorder that is not ready will never be.
    pub(super) fn refusal(&self) -> Option<String> {
        let program = self.with.program();
        // It goes on without the threads that it could not start.
        if self.with == ListenWith::Blktrace && self.said().to_lowercase().contains("fail") {
            return Some(format!("blktrace cannot listen; it said:\n{}", self.said()));
        }
        (self.begun.elapsed() > ATTACHING_MOST)
            .then(|| format!("{program} was not ready within {} s", ATTACHING_MOST.as_secs()))
    }

    /// Return its output besides the requests.
    pub(super) fn said(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default().trim_end().to_owned()
    }

    /// Wait for one that ends by itself.
    pub(super) fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().with_context(|| format!("cannot wait for {}", self.with.program()))
    }

    /// Ends it, unless it has ended.
    pub(super) fn end(&mut self) -> Result<()> {
        let context = || format!("cannot wait for {}", self.with.program());
        if self.child.try_wait().with_context(context)?.is_none() {
            processes::signal(self.child.id(), Signal::INT);
            self.child.wait().with_context(context)?;
        }
        Ok(())
    }

    /// Return the number of requests that the kernel had no room for, as blktrace says at its end.
    pub(super) fn dropped(&self) -> u64 {
        dropped(&self.said())
    }
}

fn dropped(said: &str) -> u64 {
    let numbers = said.lines().filter(|line| line.contains("dropped events")).filter_map(|line| {
        let word = line.strip_prefix("You have ")?.split_ascii_whitespace().next()?;
        integer(word.as_bytes(), "number").ok()
    });
    numbers.sum()
}

/// Reads the output in a thread of its own, so that nobody waits for a device that is idle.
fn pieces_of(child: &mut Child) -> Result<Receiver<Vec<u8>>> {
    let mut output = child.stdout.take().context("the recorder has an output")?;
    let (send, pieces) = mpsc::sync_channel(PIECES_WAITING);
    thread::Builder::new()
        .name("listening".into())
        .spawn(move || {
            let mut piece = vec![0; PIECE_BYTES];
            while let Ok(length @ 1..) = output.read(&mut piece) {
                if send.send(piece[..length].to_vec()).is_err() {
                    return;
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_blktrace_dropped_is_understood() {
        let said = "\nYou have 1234 (  5.0%) dropped events\nConsider using a larger buffer size\n";
        assert_eq!(dropped(said), 1234);
        assert_eq!(dropped("BLKTRACESETUP(2) /dev/x failed: 16/Device or resource busy"), 0);
    }
}
