//! Waiting for a command under a recorder: what is counted, and what becomes of signals.

use std::fs::File;
use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::Signal;

use crate::{interrupt, output};

/// The time between two looks, at first and at most.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_MOST: Duration = Duration::from_millis(200);

/// Signals that came to this process, which goes on to convert what was recorded.
pub(crate) struct Signals(Vec<(Signal, Arc<AtomicBool>)>);

impl Signals {
    pub(crate) fn new() -> Result<Self> {
        let mut flags = vec![];
        for signal in interrupt::ending() {
            let flag = Arc::default();
            signal_hook::flag::register(signal.as_raw(), Arc::clone(&flag))
                .context("cannot watch for signals")?;
            flags.push((signal, flag));
        }
        Ok(Self(flags))
    }

    /// Return `true` if there was one.
    pub(crate) fn has_any(&self) -> bool {
        self.0.iter().any(|(_, flag)| flag.load(Ordering::Relaxed))
    }

    /// Return a signal that came since the last look.
    fn take(&self) -> Option<Signal> {
        let mut signals = self.0.iter();
        signals.find(|(_, flag)| flag.swap(false, Ordering::Relaxed)).map(|&(signal, _)| signal)
    }
}

/// Return `true` if a command has had the signal already: Ctrl-C on a terminal goes to all programs there.
pub(super) fn is_everywhere(signal: Signal) -> bool {
    signal == Signal::INT && std::io::stdin().is_terminal()
}

/// Wait until `child` ends; `pass_on` is given the signals that come meanwhile.
pub(super) fn wait(
    child: &mut Child,
    raw: &Path,
    signals: &Signals,
    mut pass_on: impl FnMut(Signal),
) -> Result<ExitStatus> {
    let mut count = Count::new(raw)?;
    let mut look = LOOK_FIRST;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            count.bar.finish_and_clear();
            return Ok(status);
        }
        if let Some(signal) = signals.take() {
            pass_on(signal);
        }
        count.show()?;
        std::thread::sleep(look);
        look = (look * 2).min(LOOK_MOST);
    }
}

/// Display of the recorded amount, on a terminal.
struct Count {
    raw: File,
    lines: u64,
    bytes: u64,
    bar: ProgressBar,
}

impl Count {
    fn new(raw: &Path) -> Result<Self> {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {msg}");
        bar.set_style(style.context("the template is well-formed")?);
        let raw = File::open(raw).context("cannot read the recording")?;
        Ok(Self { raw, lines: 0, bytes: 0, bar })
    }

    fn show(&mut self) -> Result<()> {
        if self.bar.is_hidden() {
            return Ok(());
        }
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = self.raw.read(&mut buffer).context("cannot read the recording")?;
            if read == 0 {
                break;
            }
            let lines = memchr::memchr_iter(b'\n', &buffer[..read]).count();
            self.lines += lines as u64;
            self.bytes += read as u64;
        }
        let (lines, bytes) = (output::count(self.lines), output::bytes(self.bytes));
        self.bar.set_message(format!("{lines} lines recorded ({bytes})"));
        self.bar.tick();
        Ok(())
    }
}
