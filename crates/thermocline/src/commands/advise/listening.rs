//! Listening to the running machine: bpftrace prints requests, and a sample keeps some of them.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::{major, minor};
use rustix::time::{ClockId, clock_gettime};
use thermocline_capture::{BLOCK_SCRIPT, BPFTRACE_SCRIPT, Heard, Listener};
use thermocline_core::Nanos;
use thermocline_lab::Watch;
use thermocline_lab::advising::{Asked, Hardware, Workload};
use thermocline_trace::{Request, RunningSample, excerpt};

use crate::arguments::AdviseOptions;
use crate::commands::trace::record;
use crate::output;

/// Lines that wait to be understood, in chunks of some.
const CHUNKS_WAITING: usize = 64;
const CHUNK_LINES: usize = 1024;
/// So often, what was heard is shown, and an end is looked for.
const LOOK: Duration = Duration::from_millis(250);
/// bpftrace takes a while to attach.
const ATTACHING_MOST: Duration = Duration::from_mins(2);
/// Forecasts while listening take no more than this part of the time.
const FORECASTS_PART: u32 = 100;
/// The first forecast comes after so many accesses.
const FORECAST_FIRST_ACCESSES: u64 = 100_000;

/// What is listened to.
pub(super) enum Target {
    /// A block device: its path and its number in the kernel.
    Device { path: PathBuf, number: u64 },
    /// A process.
    Process(u32),
}

/// What the options name; none if they name traces.
pub(super) fn target(options: &AdviseOptions) -> Result<Option<Target>> {
    if let Some(pid) = options.pid {
        ensure!(Path::new(&format!("/proc/{pid}")).exists(), "--pid {pid}: no such process");
        return Ok(Some(Target::Process(pid)));
    }
    if let Some(path) = &options.device {
        let metadata = path.metadata().with_context(|| format!("--device {}", path.display()))?;
        ensure!(
            metadata.file_type().is_block_device(),
            "--device {}: it is no block device; for a file system, say --path {0}",
            path.display()
        );
        return Ok(Some(Target::Device { path: path.clone(), number: metadata.rdev() }));
    }
    let Some(path) = &options.path else { return Ok(None) };
    let metadata = path.metadata().with_context(|| format!("--path {}", path.display()))?;
    ensure!(
        major(metadata.dev()) != 0,
        "--path {}: its file system lies on no single block device (btrfs, ZFS, NFS or memory); name the devices with --device, or a process with --pid",
        path.display()
    );
    Ok(Some(Target::Device { path: path.clone(), number: metadata.dev() }))
}

impl Target {
    /// What it is called.
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

    /// Whether it is still there.
    fn is_there(&self) -> bool {
        match self {
            Self::Device { path, number } => path
                .metadata()
                .is_ok_and(|metadata| metadata.rdev() == *number || metadata.dev() == *number),
            Self::Process(pid) => Path::new(&format!("/proc/{pid}")).exists(),
        }
    }

    /// Listens until the time is over, a signal comes, or there is nothing more to hear.
    pub(super) fn listen(
        &self,
        sample: RunningSample,
        options: &AdviseOptions,
        asked: &Asked,
        hardware: &Hardware,
    ) -> Result<RunningSample> {
        record::bpftrace::check().with_context(|| format!("cannot listen to {}", self.name()))?;
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let mut heard = Hearing::new(sample);
        let signals = record::watch::Signals::new()?;
        let mut recorder = self.start(folder.path())?;
        let lines = lines_of(&mut recorder)?;
        let done = self.hear(&mut heard, &mut recorder, &lines, options, asked, hardware, &signals);
        end(&mut recorder)?;
        let errors = std::fs::read_to_string(folder.path().join(ERRORS)).unwrap_or_default();
        if !heard.is_ready {
            done?;
            bail!("bpftrace ended before it heard anything; it said:\n{}", errors.trim_end());
        }
        done?;
        // What it printed last.
        while let Ok(chunk) = lines.recv_timeout(LOOK) {
            heard.chunk(&chunk)?;
        }
        Ok(heard.finish())
    }

    fn start(&self, folder: &Path) -> Result<Child> {
        let script = folder.join("listen.bt");
        std::fs::write(&script, self.script()).context("cannot write the script")?;
        let errors = std::fs::File::create(folder.join(ERRORS)).context("cannot write a file")?;
        Command::new("bpftrace")
            .args(["-q", "-B", "line"])
            .arg(&script)
            .env("BPFTRACE_STRLEN", "128")
            .env("BPFTRACE_PERF_RB_PAGES", "1024")
            .env("BPFTRACE_MAP_KEYS_MAX", "1048576")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            // Ctrl-C is for this program; bpftrace ends behind it.
            .process_group(0)
            .spawn()
            .context("cannot start bpftrace")
    }

    #[expect(clippy::too_many_arguments, reason = "it is the loop, and what it looks at")]
    fn hear(
        &self,
        heard: &mut Hearing,
        recorder: &mut Child,
        lines: &Receiver<Chunk>,
        options: &AdviseOptions,
        asked: &Asked,
        hardware: &Hardware,
        signals: &record::watch::Signals,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut since = None;
        let mut live = Live::new(self.name(), options.duration)?;
        loop {
            match lines.recv_timeout(LOOK) {
                Ok(chunk) => heard.chunk(&chunk)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    recorder.wait().context("cannot wait for bpftrace")?;
                    break;
                }
            }
            if heard.is_ready && since.is_none() {
                since = Some(Instant::now());
            }
            let Some(since) = since else {
                if signals.has_any() {
                    bail!("stopped before bpftrace was ready: nothing was heard");
                }
                ensure!(
                    begun.elapsed() < ATTACHING_MOST,
                    "bpftrace was not ready within {} s",
                    ATTACHING_MOST.as_secs()
                );
                continue;
            };
            let is_over = options.duration.is_some_and(|most| since.elapsed() >= most);
            if is_over || signals.has_any() {
                break;
            }
            if !self.is_there() {
                output::note(&format!("{} is gone; what was heard of it is kept", self.name()));
                break;
            }
            live.show(heard, since.elapsed(), asked, hardware);
        }
        live.end();
        Ok(())
    }
}

/// Where bpftrace writes what it has to say.
const ERRORS: &str = "errors";

/// Ends bpftrace, unless it has ended.
fn end(recorder: &mut Child) -> Result<()> {
    if recorder.try_wait().context("cannot wait for bpftrace")?.is_none() {
        record::processes::signal(recorder.id(), rustix::process::Signal::INT);
        recorder.wait().context("cannot wait for bpftrace")?;
    }
    Ok(())
}

/// Some lines, with their ends.
type Chunk = Vec<u8>;

/// Reads lines in a thread of its own, so that nobody waits for a device that is idle.
fn lines_of(recorder: &mut Child) -> Result<Receiver<Chunk>> {
    let output = recorder.stdout.take().context("bpftrace has an output")?;
    let (send, chunks) = mpsc::sync_channel(CHUNKS_WAITING);
    thread::Builder::new()
        .name("listening".into())
        .spawn(move || {
            let mut lines = BufReader::with_capacity(1 << 16, output);
            loop {
                let mut chunk = vec![];
                for _ in 0..CHUNK_LINES {
                    match lines.read_until(b'\n', &mut chunk) {
                        Ok(0) | Err(_) => {
                            drop(send.send(chunk));
                            return;
                        }
                        // Whatever else has come is taken along; what has not is not waited for.
                        Ok(_) if lines.buffer().is_empty() => break,
                        Ok(_) => {}
                    }
                }
                if send.send(chunk).is_err() {
                    return;
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(chunks)
}

/// What was heard so far.
struct Hearing {
    listener: Listener,
    sample: RunningSample,
    /// From the clock of bpftrace to the time of day.
    shift_ns: u64,
    lost: u64,
    is_ready: bool,
}

impl Hearing {
    fn new(sample: RunningSample) -> Self {
        let monotonic = clock_gettime(ClockId::Monotonic);
        let monotonic_ns = u128::try_from(monotonic.tv_sec).unwrap_or(0) * 1_000_000_000
            + u128::try_from(monotonic.tv_nsec).unwrap_or(0);
        let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let shift_ns = today.as_nanos().saturating_sub(monotonic_ns);
        Self {
            listener: Listener::default(),
            sample,
            shift_ns: u64::try_from(shift_ns).unwrap_or(0),
            lost: 0,
            is_ready: false,
        }
    }

    fn chunk(&mut self, chunk: &[u8]) -> Result<()> {
        for line in chunk.split(|&byte| byte == b'\n') {
            let heard = self.listener.line(line).map_err(|reason| {
                anyhow::anyhow!("bpftrace printed what is no request: {reason}: {}", excerpt(line))
            })?;
            match heard {
                Heard::Ready => self.is_ready = true,
                Heard::Lost(events) => self.lost += events,
                Heard::Request(request) => {
                    let at = Nanos(request.at.0.saturating_add(self.shift_ns));
                    self.sample.add(&Request { at, ..request });
                }
                Heard::Other => {}
            }
        }
        Ok(())
    }

    fn finish(mut self) -> RunningSample {
        self.sample.name_volumes(self.listener.volume_names());
        if self.lost > 0 {
            output::note(&format!(
                "note: bpftrace lost {} of the requests, as they came faster than it prints; they are missing in what follows",
                output::count(self.lost)
            ));
        }
        self.sample
    }
}

/// What is shown while listening.
struct Live {
    bar: ProgressBar,
    hits: String,
    next_forecast: Option<Instant>,
}

impl Live {
    fn new(name: String, duration: Option<Duration>) -> Result<Self> {
        let bar =
            duration.map_or_else(ProgressBar::no_length, |most| ProgressBar::new(most.as_secs()));
        let template = match duration {
            Some(_) => "{prefix} {elapsed} of {len} s: {msg}",
            None => "{prefix} {elapsed}: {msg} (Ctrl-C ends it)",
        };
        bar.set_style(
            ProgressStyle::with_template(template).context("the template is well-formed")?,
        );
        bar.set_prefix(name);
        Ok(Self { bar, hits: String::new(), next_forecast: None })
    }

    fn show(&mut self, heard: &Hearing, elapsed: Duration, asked: &Asked, hardware: &Hardware) {
        let totals = heard.sample.totals();
        let is_due = self.next_forecast.is_none_or(|next| Instant::now() >= next);
        // Nobody looks on without a terminal.
        if !self.bar.is_hidden() && is_due && totals.accesses >= FORECAST_FIRST_ACCESSES {
            let begun = Instant::now();
            self.hits = hits(&heard.sample, asked, hardware).unwrap_or_default();
            self.next_forecast = Some(Instant::now() + begun.elapsed() * FORECASTS_PART);
        }
        let rate = totals.requests as f64 / elapsed.as_secs_f64().max(1e-3);
        self.bar.set_message(format!(
            "{} requests, {rate:.0}/s, {} of the pages written, 1 in {:.0} kept{}",
            output::count(totals.requests),
            output::percent(totals.writes as f64 / totals.accesses.max(1) as f64),
            1.0 / heard.sample.rate(),
            self.hits
        ));
        self.bar.tick();
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// How often today's cache hits, so far.
fn hits(sample: &RunningSample, asked: &Asked, hardware: &Hardware) -> Option<String> {
    let today = asked.today.as_ref()?;
    let workload = Workload::new(sample, Path::new("live")).ok()?;
    let forecast = workload.forecast(today, hardware, &Watch::default()).ok()?;
    Some(format!(", {} hits {}", today.name, output::percent(forecast.hit_ratio.estimate)))
}
