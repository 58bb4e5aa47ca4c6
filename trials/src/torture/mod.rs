//! `cargo xtask torture`: servers on a file system that fails on command, and clients that know what
//! they may read.
//!
//! Each round starts a real server on two files of a FUSE file system of our own, reads everything,
//! works, suffers a fault, and ends. The faults are drawn from a seed: kills, power cuts that drop and
//! tear what was not synced, rot, errors, full and hanging devices, second servers, drains. Each sector
//! that a client reads must be one that it may read ([`oracle`]); a request may fail only if a fault
//! explains it.

mod client;
mod disk;
mod faults;
mod fuse;
mod load;
mod oracle;
mod plan;
mod report;
mod rounds;
pub(crate) mod server;

pub(crate) use server::policies;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};

use self::load::lock;
use self::plan::Kind;
use self::report::{Report, Row};
use self::rounds::Torture;

/// The last rounds are shown with a violation.
const HISTORY_ROUNDS: usize = 8;

/// Options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) minutes: f64,
    pub(crate) seed: u64,
    /// The figures go there, too.
    pub(crate) json: Option<PathBuf>,
    /// A server that is built already.
    pub(crate) program: Option<PathBuf>,
    /// The name of the only fault, if not all of them come.
    pub(crate) fault: Option<String>,
}

/// Tortures a server for some minutes.
///
/// # Errors
/// If a check finds a violation, the machine has no FUSE, or anything else fails.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let only = options.fault.as_deref().map(Kind::named).transpose()?;
    let program = server::program(root, options.program.as_ref())?;
    let wants_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&wants_end))?;
    }
    let time = Duration::from_secs_f64(options.minutes * 60.0);
    let work = Work { seed: options.seed, time, rounds: u64::MAX, only, sync: Sync::Honest };
    let report = torture(&program, work, &wants_end)?;
    eprint!("{}", report.table());
    if let Some(path) = &options.json {
        let text = format!("{:#}\n", report.json());
        fs::write(path, text).with_context(|| format!("`--json`: `{}`", path.display()))?;
    }
    if report.violation.is_some() {
        bail!("the server broke its word; run again with `--seed {}`", options.seed);
    }
    Ok(())
}

/// Honesty of the devices about syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    Honest,
    /// The backing store reports success and loses its writes with the next power cut, for the test of
    /// the oracle.
    Lying,
}

/// Work on a server.
#[derive(Clone, Copy, Debug)]
struct Work {
    seed: u64,
    /// No round starts after this time, or after this number of rounds.
    time: Duration,
    rounds: u64,
    /// The fault of every round, if it is not drawn.
    only: Option<Kind>,
    sync: Sync,
}

/// Tortures a server until the end of the work, or somebody wants it to end, or something is wrong.
fn torture(program: &Path, work: Work, wants_end: &Arc<AtomicBool>) -> Result<Report> {
    let Work { seed, time, rounds, only, sync } = work;
    let start = Instant::now();
    let folder = tempfile::Builder::new().prefix("torture-").tempdir()?;
    let mut torture = Torture::new(program, folder.path(), seed, only, wants_end)?;
    if sync == Sync::Lying {
        torture.mount.with(|disk| {
            if let Some(file) = disk.named_mut("backing.img") {
                file.lies = true;
            }
        });
    }
    let mut report = Report { seed, ..Report::default() };
    let mut history = vec![];
    let mut number = 0;
    while start.elapsed() < time && number < rounds && !wants_end.load(Ordering::Acquire) {
        let plan = torture.plan(number);
        let began = Instant::now();
        let starts = torture.starts;
        let result = torture.round(&plan);
        let knowledge = &mut *lock(&torture.shared);
        let row = Row {
            rounds: 1,
            starts: torture.starts - starts,
            requests: std::mem::take(&mut knowledge.requests),
            checked_sectors: std::mem::take(&mut knowledge.checked_sectors),
            explained_errors: std::mem::take(&mut knowledge.explained_errors),
            violations: u64::from(result.is_err()),
            time: began.elapsed(),
        };
        report.rows.entry(plan.kind).or_default().add(&row);
        history.push(format!("round {number}: {}; {:?}", plan.line(), torture.fault.take()));
        if let Err(error) = result {
            report.violation = Some(format!("seed {seed}, round {number}: {error:#}"));
            let first = history.len().saturating_sub(HISTORY_ROUNDS);
            eprintln!("{}", history[first..].join("\n"));
            eprintln!("seed {seed}, round {number}: {error:#}");
            break;
        }
        number += 1;
    }
    if report.violation.is_some() && sync == Sync::Honest {
        let kept = keep(&torture, folder)?;
        eprintln!("the files and the server's log are kept in `{}`", kept.display());
    }
    Ok(report)
}

/// Copies the files out of the mounted disk, and keeps them with the log and the configuration.
fn keep(torture: &Torture, folder: tempfile::TempDir) -> Result<PathBuf> {
    let kept = folder.keep();
    torture.mount.with(|disk| -> Result<()> {
        for name in disk.names().keys() {
            if let Some(file) = disk.named(name) {
                fs::write(kept.join(name), file.bytes())?;
            }
        }
        Ok(())
    })?;
    eprintln!("{}", fs::read_to_string(torture.log()).unwrap_or_default());
    Ok(kept)
}

#[cfg(test)]
mod tests;
