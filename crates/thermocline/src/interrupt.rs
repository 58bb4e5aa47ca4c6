//! Interruptions of a command that must not leave half of a file behind.

use std::thread;

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use signal_hook::iterator::{Handle, Signals};
use thermocline_lab::Watch;

/// Signals that end a process: their numbers, without those that it ignores, as with `nohup`.
pub(crate) fn ending() -> Vec<Signal> {
    let signals = [Signal::TERM, Signal::HUP, Signal::INT].into_iter();
    signals.filter(|&signal| signal != Signal::HUP || !is_ignored(signal)).collect()
}

/// Do some work; a signal that would end the process stops it by its watch instead.
pub(crate) fn stopping<T>(work: impl FnOnce(&Watch) -> T) -> Result<T> {
    let watch = Watch::default();
    calling(|| watch.stop(), || work(&watch))
}

/// Do some work; the first signal that would end the process calls `stop` instead.
pub(crate) fn calling<T>(stop: impl FnOnce() + Send, work: impl FnOnce() -> T) -> Result<T> {
    let signals = Signals::new(ending().into_iter().map(Signal::as_raw));
    let mut signals = signals.context("cannot watch for signals")?;
    Ok(thread::scope(|scope| {
        let _closing = Closing(signals.handle());
        scope.spawn(move || {
            if signals.forever().next().is_some() {
                stop();
            }
        });
        work()
    }))
}

/// Ends the thread that waits for signals, also when the work panics.
struct Closing(Handle);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Return `true` if this process ignores a signal.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 != 0
}
