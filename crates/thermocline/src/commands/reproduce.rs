//! `thermocline reproduce`: a paper's experiments, its claims beside our figures.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use thermocline_lab::experiment::hat::{self, Claim, Experiment, WorkloadResult};

use crate::arguments::{Paper, Reading, ReproduceOptions};
use crate::commands::compare;
use crate::{output, reading};

const HAT: &str = include_str!("../../../../papers/hat/experiment.toml");
/// Names the folder of traces, whose part `captured` is used if the command line names no other.
const TRACES_VARIABLE: &str = "THERMOCLINE_TRACES";

/// What the command prints as JSON.
#[derive(Serialize)]
struct ResultJson<'a> {
    claims: &'a [Claim],
    workloads: &'a [WorkloadResult],
}

/// Runs the command.
pub(crate) fn run(options: &ReproduceOptions) -> Result<String> {
    match options.paper {
        Paper::Hat => reproduce_hat(options),
    }
}

fn reproduce_hat(options: &ReproduceOptions) -> Result<String> {
    let experiment = Experiment::parse(HAT)?;
    let folder = options
        .traces
        .clone()
        .or_else(|| Some(PathBuf::from(std::env::var_os(TRACES_VARIABLE)?).join("captured")))
        .with_context(|| {
            let names: Vec<&str> = experiment.workloads.iter().map(|w| w.file.as_str()).collect();
            format!(
                "give the folder of the traces with --traces DIR (or the folder above `captured` in the variable {TRACES_VARIABLE}); it holds recordings named {}, such as tpcb.csv.zst beside tpcb.files.csv.zst, or traces in any other format",
                names.join(", ")
            )
        })?;
    let mut results = vec![];
    for workload in &experiment.workloads {
        let Some(path) = find_trace(&folder, &workload.file)? else {
            output::note(&format!(
                "note: skipped {}: no trace `{}.*` in `{}`",
                workload.name,
                workload.file,
                folder.display()
            ));
            continue;
        };
        let trace = reading::open(&path, &Reading::default())?;
        let bar = ProgressBar::new(experiment.runs_per_workload() as u64);
        let style = "{prefix} {bar:30} {pos}/{len} runs, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).context("the template is well-formed")?);
        bar.set_prefix(workload.name.clone());
        results.push(experiment.run(workload, &trace, || bar.inc(1))?);
        bar.finish_and_clear();
    }
    ensure!(!results.is_empty(), "`{}` holds none of the traces", folder.display());
    let claims = hat::claims(&results);
    let path = options.report.clone().unwrap_or_else(|| "reproduce-hat.html".into());
    let report = hat::report(&experiment, &results, &claims, compare::VERSION)?;
    output::write_file(&path, &report.to_html())?;
    output::note(&format!("report: {}", path.display()));
    if options.json {
        return output::json(&ResultJson { claims: &claims, workloads: &results });
    }
    Ok(tables(&results, &claims))
}

/// I/O times per workload and flash size, then the claims.
fn tables(results: &[WorkloadResult], claims: &[Claim]) -> String {
    let mut text = String::new();
    for result in results {
        let table = hat::io_times(result);
        let header: Vec<&str> = table.header.iter().map(String::as_str).collect();
        text += &format!("{}: total I/O time in seconds\n", result.workload);
        text += &output::table(&header, &table.rows, 0);
    }
    let rows: Vec<Vec<String>> = claims
        .iter()
        .map(|claim| vec![claim.claim.clone(), claim.measured.clone(), claim.verdict().to_owned()])
        .collect();
    text + &output::table(&["the paper's claim", "what we measure", "verdict"], &rows, 3)
}

/// The trace whose file name begins with `name.`; of several, the first by name.
fn find_trace(folder: &Path, name: &str) -> Result<Option<PathBuf>> {
    let context = || format!("cannot list `{}`", folder.display());
    let mut found: Vec<PathBuf> = vec![];
    for entry in std::fs::read_dir(folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let file_name = reading::file_name(&path);
        let rest = file_name.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        if rest.is_some_and(|rest| !rest.starts_with("files.") && !rest.starts_with("stats.")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found.into_iter().next())
}
