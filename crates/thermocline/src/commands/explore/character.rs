//! The character of a trace, as HTML.

use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};

use anyhow::Result;
use thermocline_lab::Watch;
use thermocline_lab::mrc::{Sample, StackPass};
use thermocline_lab::report::{Information, character};
use thermocline_trace::{Choice, FileShares, Footprint, Popularity, Stats, processes_of};

use super::traces::{Opened, Origin, Trace};
use crate::commands::trace::information::{HOTTEST, POINTS, describe};

/// Points of the curve of popularity.
const RANKS: u32 = 60;
/// Number of pages in a sample of larger traces, from which re-use is measured.
const REUSE_PAGES: u32 = 1 << 17;
/// The seed of this sample.
const SEED: u64 = 1;

/// Finds out what kind of workload a trace is. The passes over it go on side by side.
///
/// # Errors
/// If the recording's processes cannot be read, or the watch stops it.
pub(super) fn html(trace: &Trace, opened: &Opened, watch: &Watch) -> Result<String> {
    let compiled = &opened.compiled;
    let sample = if compiled.footprint_pages() <= REUSE_PAGES {
        Sample::All
    } else {
        Sample::Size { pages: REUSE_PAGES, choice: Choice::Even, seed: SEED }
    };
    let (stats, footprint, popularity, reuse) = thread::scope(|scope| {
        let stats = scope.spawn(|| Stats::of(compiled));
        let reuse = scope.spawn(|| StackPass::over(compiled, sample, watch));
        let footprint = Footprint::of(compiled, POINTS);
        let popularity = Popularity::of(compiled, RANKS);
        (joined(stats), footprint, popularity, joined(reuse))
    });
    let files = opened.files.as_ref().map(|table| FileShares::of(compiled, table, HOTTEST));
    let processes = match (&files, &trace.origin) {
        (Some(_), Origin::Path(path)) => processes_of(path)?,
        (Some(_) | None, _) => vec![],
    };
    let found = Information {
        figures: &describe(&stats),
        footprint: &footprint,
        files: files.as_ref(),
        processes: &processes,
    };
    let report = character(&trace.title(), &found, &popularity, &reuse?.into_reuse());
    Ok(report.to_fragment())
}

/// Return the result of a thread; its panic goes on here.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
