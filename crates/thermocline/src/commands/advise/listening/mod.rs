//! Listening to the running machine: a recorder prints requests, and a sample keeps some of them.

mod live;
mod recorder;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::{major, minor};
use rustix::time::{ClockId, clock_gettime};
use thermocline_capture::{BLOCK_SCRIPT, BPFTRACE_SCRIPT, Heard, Listener};
use thermocline_core::Nanos;
use thermocline_lab::advising::{Asked, Hardware};
use thermocline_trace::{Request, RunningSample};

use self::live::Live;
use self::recorder::Recorder;
use crate::arguments::{AdviseOptions, ListenWith};
use crate::commands::trace::record;
use crate::output;

/// Interval at which the records so far are shown, and an end is looked for.
const LOOK: Duration = Duration::from_millis(250);

/// Device or processes to listen to.
pub(super) enum Target {
    /// A block device: its number in the kernel, and its own path or that of a file on it.
    Device { path: PathBuf, number: u64, is_node: bool },
    /// A process.
    Process(u32),
}

/// Return the target that the options name; `None` if they name traces.
pub(super) fn target(options: &AdviseOptions) -> Result<Option<Target>> {
    if let Some(pid) = options.pid {
        ensure!(Path::new(&format!("/proc/{pid}")).exists(), "--pid {pid}: no such process");
        return Ok(Some(Target::Process(pid)));
    }
    if let Some(path) = &options.device {
        let metadata = path.metadata().with_context(|| format!("--device {}", path.display()))?;
        ensure!(
            metadata.file_type().is_block_device(),
            "--device {}: not a block device; for a file system, say --path {0}",
            path.display()
        );
        let number = metadata.rdev();
        return Ok(Some(Target::Device { path: path.clone(), number, is_node: true }));
    }
    let Some(path) = &options.path else { return Ok(None) };
    let metadata = path.metadata().with_context(|| format!("--path {}", path.display()))?;
    ensure!(
        major(metadata.dev()) != 0,
        "--path {}: its file system lies on no single block device (btrfs, ZFS, NFS or memory); name the devices with --device, or a process with --pid",
        path.display()
    );
    Ok(Some(Target::Device { path: path.clone(), number: metadata.dev(), is_node: false }))
}

impl Target {
    /// Return its name.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Device { path, .. } => path.display().to_string(),
            Self::Process(pid) => format!("process {pid}"),
        }
    }

    fn script(&self) -> String {
        match self {
            Self::Device { number, .. } => {
                let number = u64::from(major(*number)) << 20 | u64::from(minor(*number));
                BLOCK_SCRIPT.replace("DEVICE", &number.to_string())
            }
            Self::Process(pid) => {
                let recorder = std::process::id();
                let wanted = format!("  @recorder[{recorder}] = 1; @wanted[{pid}] = 1;\n");
                BPFTRACE_SCRIPT.replace("  WANTED\n", &wanted)
            }
        }
    }

    /// Return `true` if it is still there.
    fn is_there(&self) -> bool {
        match self {
            Self::Device { path, number, .. } => path
                .metadata()
                .is_ok_and(|metadata| metadata.rdev() == *number || metadata.dev() == *number),
            Self::Process(pid) => Path::new(&format!("/proc/{pid}")).exists(),
        }
    }

    /// Return the file of the block device.
    fn node(&self) -> Result<PathBuf> {
        match self {
            Self::Device { path, number, is_node: false } => {
                let folder = format!("/sys/dev/block/{}:{}", major(*number), minor(*number));
                let about = fs::read_to_string(Path::new(&folder).join("uevent"));
                let node = about.ok().as_deref().and_then(node_of);
                node.with_context(|| {
                    let path = path.display();
                    format!("--path {path}: no file in /dev has its device; name it with --device")
                })
            }
            Self::Device { path, .. } => Ok(path.clone()),
            Self::Process(pid) => bail!("--pid {pid}: blktrace hears block devices alone"),
        }
    }

    /// Listens until the time is over, a signal comes, or there is nothing more to hear.
    pub(super) fn listen(
        &self,
        mut sample: RunningSample,
        options: &AdviseOptions,
        asked: &Asked,
        hardware: &Hardware,
    ) -> Result<RunningSample> {
        let mut recorders = recorder::usable(self, options.with)?.into_iter().peekable();
        let signals = record::watch::Signals::new()?;
        while let Some(with) = recorders.next() {
            let mut hearing = Hearing::new(with, sample);
            match self.listen_with(with, &mut hearing, options, asked, hardware, &signals)? {
                End::Heard => return Ok(hearing.sample),
                End::Refused(reason) => match recorders.peek() {
                    Some(next) => {
                        output::note(&format!("{reason}\nlistening with {}", next.program()));
                    }
                    None => bail!("cannot listen to {}: {reason}", self.name()),
                },
            }
            sample = hearing.sample;
        }
        bail!("cannot listen to {}", self.name())
    }

    fn listen_with(
        &self,
        with: ListenWith,
        hearing: &mut Hearing,
        options: &AdviseOptions,
        asked: &Asked,
        hardware: &Hardware,
        signals: &record::watch::Signals,
    ) -> Result<End> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let (mut recorder, pieces) = Recorder::start(with, self, folder.path())?;
        let live = Live::new(self.name(), options.duration)?;
        let mut looks = Looks { live, options, asked, hardware, signals };
        let done = self.hear(hearing, &mut recorder, &pieces, &mut looks);
        recorder.end()?;
        let end = done?;
        if let End::Heard = end {
            // Its last output.
            while let Ok(piece) = pieces.recv_timeout(LOOK) {
                hearing.piece(&piece)?;
            }
            hearing.finish(recorder.dropped());
        }
        Ok(end)
    }

    fn hear(
        &self,
        hearing: &mut Hearing,
        recorder: &mut Recorder,
        pieces: &Receiver<Vec<u8>>,
        looks: &mut Looks<'_>,
    ) -> Result<End> {
        let program = hearing.with.program();
        let mut since = None;
        loop {
            match pieces.recv_timeout(LOOK) {
                Ok(piece) => hearing.piece(&piece)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let status = recorder.wait()?;
                    let said = recorder.said();
                    if !hearing.is_ready {
                        return Ok(End::Refused(format!(
                            "{program} ended before it heard anything ({status}); it said:\n{said}"
                        )));
                    }
                    if self.is_there() {
                        output::note(&format!("{program} ended ({status}); it said:\n{said}"));
                    } else {
                        self.note_gone();
                    }
                    break;
                }
            }
            let is_stopped = looks.signals.has_any();
            if !hearing.is_ready {
                ensure!(!is_stopped, "stopped before {program} was ready: nothing was heard");
                if let Some(reason) = recorder.refusal() {
                    return Ok(End::Refused(reason));
                }
                hearing.is_ready = recorder.is_ready_in_silence();
                continue;
            }
            let since: &mut Instant = since.get_or_insert_with(Instant::now);
            if is_stopped || looks.options.duration.is_some_and(|most| since.elapsed() >= most) {
                break;
            }
            if !self.is_there() {
                self.note_gone();
                break;
            }
            looks.live.show(&hearing.sample, since.elapsed(), looks.asked, looks.hardware);
        }
        looks.live.end();
        Ok(End::Heard)
    }

    fn note_gone(&self) {
        output::note(&format!("{} is gone; what was heard of it is kept", self.name()));
    }
}

/// Return the file of a device, from what the kernel says of it in `uevent`.
fn node_of(about: &str) -> Option<PathBuf> {
    let name = about.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
    Some(Path::new("/dev").join(name))
}

/// End of listening with a recorder.
enum End {
    Heard,
    /// It could not begin, with the reason.
    Refused(String),
}

/// Observers while listening.
struct Looks<'a> {
    live: Live,
    options: &'a AdviseOptions,
    asked: &'a Asked,
    hardware: &'a Hardware,
    signals: &'a record::watch::Signals,
}

/// Records so far.
struct Hearing {
    with: ListenWith,
    listener: Listener,
    sample: RunningSample,
    /// Difference from the clock of the recorders to the time of day.
    shift_ns: u64,
    lost: u64,
    is_ready: bool,
}

impl Hearing {
    fn new(with: ListenWith, sample: RunningSample) -> Self {
        let monotonic = clock_gettime(ClockId::Monotonic);
        let monotonic_ns = u128::try_from(monotonic.tv_sec).unwrap_or(0) * 1_000_000_000
            + u128::try_from(monotonic.tv_nsec).unwrap_or(0);
        let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let shift_ns = today.as_nanos().saturating_sub(monotonic_ns);
        Self {
            with,
            listener: with.listener(),
            sample,
            shift_ns: u64::try_from(shift_ns).unwrap_or(0),
            lost: 0,
            is_ready: false,
        }
    }

    fn piece(&mut self, piece: &[u8]) -> Result<()> {
        let Self { listener, sample, shift_ns, lost, is_ready, .. } = self;
        let each = |heard| note(heard, sample, *shift_ns, lost, is_ready);
        listener.hear(piece, each).map_err(|error| {
            anyhow::anyhow!("{} printed a line that is not a request: {error}", self.with.program())
        })
    }

    /// Takes what waited in the listener, and says what is missing.
    fn finish(&mut self, dropped: u64) {
        let Self { listener, sample, shift_ns, lost, is_ready, .. } = self;
        listener.finish(|heard| note(heard, sample, *shift_ns, lost, is_ready));
        sample.name_volumes(listener.volume_names());
        let lost = *lost + dropped;
        if lost > 0 {
            output::note(&format!(
                "note: {} lost {} of the requests, as they came too fast for it; they are missing in what follows",
                self.with.program(),
                output::count(lost)
            ));
        }
    }
}

fn note(
    heard: Heard,
    sample: &mut RunningSample,
    shift_ns: u64,
    lost: &mut u64,
    is_ready: &mut bool,
) {
    match heard {
        Heard::Ready => *is_ready = true,
        Heard::Lost(requests) => *lost += requests,
        Heard::Request(request) => {
            let at = Nanos(request.at.0.saturating_add(shift_ns));
            sample.add(&Request { at, ..request });
        }
        Heard::Other => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_device_is_found_by_its_number() {
        let about = "MAJOR=253\nMINOR=0\nDEVNAME=mapper/data\nDEVTYPE=disk\n";
        assert_eq!(node_of(about), Some("/dev/mapper/data".into()));
        assert_eq!(node_of("MAJOR=253\n"), None);
    }
}
