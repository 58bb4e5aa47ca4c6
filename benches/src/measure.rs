//! Times, and what to make of several.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

/// Return the wall-clock seconds of some work.
pub(crate) fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Return the CPU seconds that this thread spent on some work; those of the clock on the wall where
/// the system does not tell.
pub(crate) fn cpu_seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = cpu_ns();
    let elapsed = seconds(work)?;
    Ok(match (start, cpu_ns()) {
        (Some(start), Some(end)) => (end - start) as f64 / 1e9,
        _ => elapsed,
    })
}

/// Return the nanoseconds that this thread has run so far: the first number of Linux's `schedstat`.
fn cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Return the middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Return the instructions that callgrind counts in a run of this very program with these
/// arguments; `None` if `valgrind` is not installed.
pub(crate) fn instructions(arguments: &[&str]) -> Result<Option<u64>> {
    let program = std::env::current_exe().context("this program has a path")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .output();
    let Ok(output) = output else { return Ok(None) };
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind failed: {errors}");
    let line = errors.lines().find_map(|line| line.split_once("Collected :"));
    let (_, count) = line.context("callgrind says what it collected")?;
    Ok(Some(count.trim().parse().context("callgrind counts instructions")?))
}
