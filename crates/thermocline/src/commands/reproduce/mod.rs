//! `thermocline reproduce`: a paper's experiments, its claims beside our figures.

mod hat;
mod hca;
mod hfa;
mod hwb;
mod mbf;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use thermocline_lab::experiment::Claim;
use thermocline_lab::report::Report;

use crate::arguments::{Paper, ReproduceOptions};
use crate::{output, reading};

/// Names the folder of traces that is used if the command line names none.
const TRACES_VARIABLE: &str = "THERMOCLINE_TRACES";
/// Parts of a folder of traces that are looked into as well.
const PARTS: [&str; 2] = ["captured", "public"];

/// Runs the command.
pub(crate) fn run(options: &ReproduceOptions) -> Result<String> {
    match options.paper {
        Paper::Hat => hat::run(options),
        Paper::Hca => hca::run(options),
        Paper::Hfa => hfa::run(options),
        Paper::Hwb => hwb::run(options),
        Paper::Mbf => mbf::run(options),
    }
}

/// The folders to look for traces in: the one named and its parts; none if none is named.
fn folders(options: &ReproduceOptions) -> Vec<PathBuf> {
    let named = options.traces.clone();
    let Some(folder) = named.or_else(|| std::env::var_os(TRACES_VARIABLE).map(PathBuf::from))
    else {
        return vec![];
    };
    let parts = PARTS.map(|part| folder.join(part)).into_iter().filter(|part| part.is_dir());
    let parts: Vec<PathBuf> = parts.collect();
    [folder].into_iter().chain(parts).collect()
}

/// The workloads of which a trace is found, each with the first that is; says which are left out.
///
/// `describe` tells a workload's name, and what the names of its file may begin with.
fn find_workloads<'a, Workload>(
    folders: &[PathBuf],
    workloads: &'a [Workload],
    describe: impl Fn(&'a Workload) -> (&'a str, &'a [String]),
) -> Result<Vec<(&'a Workload, PathBuf)>> {
    let mut found = vec![];
    for workload in workloads {
        let (name, files) = describe(workload);
        let paths = files.iter().map(|file| find_trace(folders, file));
        match paths.collect::<Result<Vec<_>>>()?.into_iter().flatten().next() {
            Some(path) => found.push((workload, path)),
            None => {
                let files: Vec<&str> = files.iter().map(String::as_str).collect();
                note_skipped(name, &files, folders);
            }
        }
    }
    Ok(found)
}

/// A bar of so many `units`, with a message.
fn progress(length: usize, units: &str) -> Result<ProgressBar> {
    let bar = ProgressBar::new(length as u64);
    let style = format!("{{bar:30}} {{pos}}/{{len}} {units}, {{eta}} left: {{msg}}");
    bar.set_style(ProgressStyle::with_template(&style).context("the template is well-formed")?);
    Ok(bar)
}

/// The trace whose file name begins with `name.`, in any case; of several, the first by name.
fn find_trace(folders: &[PathBuf], name: &str) -> Result<Option<PathBuf>> {
    let begin = format!("{}.", name.to_lowercase());
    for folder in folders {
        let context = || format!("cannot list `{}`", folder.display());
        let mut found: Vec<PathBuf> = vec![];
        for entry in std::fs::read_dir(folder).with_context(context)? {
            let path = entry.with_context(context)?.path();
            if is_trace(&path, &begin) {
                found.push(path);
            }
        }
        found.sort();
        if let Some(first) = found.into_iter().next() {
            return Ok(Some(first));
        }
    }
    Ok(None)
}

/// Whether the name begins so, and is not that of a file that stands beside a recording.
fn is_trace(path: &Path, begin: &str) -> bool {
    let name = reading::file_name(path).to_lowercase();
    let rest = name.strip_prefix(begin);
    rest.is_some_and(|rest| !rest.starts_with("files.") && !rest.starts_with("stats."))
}

/// Says that a workload is left out, and why.
fn note_skipped(workload: &str, files: &[&str], folders: &[PathBuf]) {
    let files: Vec<String> = files.iter().map(|file| format!("`{file}.*`")).collect();
    let places: Vec<String> = folders.iter().map(|place| place.display().to_string()).collect();
    let places =
        if places.is_empty() { "no folder: give --traces DIR".into() } else { places.join(", ") };
    output::note(&format!("note: skipped {workload}: no trace {} in {places}", files.join(" or ")));
}

/// Writes the report where the command line says, else as `reproduce-PAPER.html`.
fn write_report(options: &ReproduceOptions, paper: &str, report: &Report) -> Result<()> {
    let default = || format!("reproduce-{paper}.html").into();
    let path = options.report.clone().unwrap_or_else(default);
    output::write_file(&path, &report.to_html())?;
    output::note(&format!("report: {}", path.display()));
    Ok(())
}

/// The claims and what every workload showed, as JSON.
fn json(claims: &[Claim], workloads: &impl Serialize) -> Result<String> {
    #[derive(Serialize)]
    struct ResultJson<'a, Workloads> {
        claims: &'a [Claim],
        workloads: &'a Workloads,
    }
    output::json(&ResultJson { claims, workloads })
}

/// The claims as a table.
fn claims_table(claims: &[Claim]) -> String {
    let row = |claim: &Claim| {
        vec![claim.claim.clone(), claim.measured.clone(), claim.verdict().to_owned()]
    };
    let rows: Vec<Vec<String>> = claims.iter().map(row).collect();
    output::table(&["the paper's claim", "what we measure", "verdict"], &rows, 3)
}
