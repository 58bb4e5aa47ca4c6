//! Converting recordings of strace's: lines per second, beside the reading of what comes of them.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use thermocline_capture::{CaptureOptions, Source, Unwatched, convert};
use thermocline_trace::{ReadOptions, Reader, Requests as _};

use crate::measure::{cpu_seconds, median};

/// Required speed of a conversion on one core, in lines per second.
const TARGET_PER_S: f64 = 500_000.0;

/// Processes that take turns.
const PROCESSES: u64 = 8;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A recording of strace's; default: one that is made up
    #[arg(long)]
    recording: Option<PathBuf>,
    /// Lines of the one that is made up
    #[arg(long, default_value_t = 1_000_000)]
    lines: u64,
    /// Runs of each; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

/// Measures and prints both, and their ratio.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let recording = match &arguments.recording {
        Some(path) => path.clone(),
        None => {
            let path = folder.path().join("made.strace");
            std::fs::write(&path, made_up(arguments.lines)).context("cannot write")?;
            path
        }
    };
    let output = folder.path().join("x.csv");
    let options = CaptureOptions::default();
    let (mut converting, mut reading) = (vec![], vec![]);
    let (mut lines, mut requests) = (0, 0);
    for _ in 0..arguments.runs.max(1) {
        converting.push(cpu_seconds(|| {
            let found = convert(Source::Strace, &recording, &output, &options, &mut Unwatched)?;
            (lines, requests) = (found.counts.lines, found.requests);
            Ok(())
        })?);
        reading.push(cpu_seconds(|| {
            let mut reader = Reader::open(&output, &ReadOptions::default())?;
            let mut batch = vec![];
            while reader.read_batch(&mut batch)? {}
            Ok(())
        })?);
    }
    let (converting, reading) = (median(converting), median(reading));
    let per_s = lines as f64 / converting;
    let csv_per_s = requests as f64 / reading;
    println!("| what | lines | lines per second and core |");
    println!("| --- | --- | --- |");
    println!("| converting recordings of strace's | {lines} | {per_s:.0} |");
    println!("| reading the CSV that comes of them | {requests} | {csv_per_s:.0} |");
    println!(
        "ratio {:.2}; the target of {TARGET_PER_S:.0} is {}",
        per_s / csv_per_s,
        if per_s >= TARGET_PER_S { "met" } else { "missed" }
    );
    Ok(())
}

/// Processes that open, read, write and close with `-y`; a third of the calls are cut in two.
fn made_up(lines: u64) -> String {
    let mut text = String::new();
    let mut state = 7_u64;
    for number in 0..lines {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = state >> 33;
        let (pid, file) = (100 + number % PROCESSES, random % 50);
        let path = format!("/srv/database/base/16384/{}", 16_400 + file);
        let (fd, offset) = (10 + file, random % 100_000 * 8192);
        let at = number as f64 / 1e5 + 1e9;
        // Every process has both halves in one of its turns, one after the other.
        let turn = number / PROCESSES % 6;
        let written = match turn {
            0 | 1 => writeln!(
                text,
                "{pid} {at:.6} pread64({fd}<{path}>, \"\"..., 8192, {offset}) = 8192"
            ),
            2 => writeln!(
                text,
                "{pid} {at:.6} pwrite64({fd}<{path}>, \"\"..., 8192, {offset}) = 8192"
            ),
            3 => writeln!(text, "{pid} {at:.6} pread64({fd}<{path}>,  <unfinished ...>"),
            4 => {
                writeln!(text, "{pid} {at:.6} <... pread64 resumed>\"\"..., 8192, {offset}) = 8192")
            }
            _ => writeln!(
                text,
                "{pid} {at:.6} openat(AT_FDCWD</srv/database>, \"base/16384/{}\", O_RDWR|O_CLOEXEC) = {fd}<{path}>",
                16_400 + file
            ),
        };
        written.expect("writing to a String cannot fail");
    }
    text
}
