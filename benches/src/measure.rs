//! Times, and what to make of several.

use std::time::Instant;

use anyhow::Result;

/// The wall-clock seconds of some work.
pub(crate) fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

/// The CPU seconds that this thread spent on some work; those of the clock on the wall where the
/// system does not tell.
pub(crate) fn cpu_seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = cpu_ns();
    let elapsed = seconds(work)?;
    Ok(match (start, cpu_ns()) {
        (Some(start), Some(end)) => (end - start) as f64 / 1e9,
        _ => elapsed,
    })
}

/// The nanoseconds that this thread has run so far: the first number of Linux's `schedstat`.
fn cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
