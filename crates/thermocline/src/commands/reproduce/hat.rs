//! The HAT paper.

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use thermocline_lab::experiment::Claim;
use thermocline_lab::experiment::hat::{self, Experiment, WorkloadResult};

use super::{TRACES_VARIABLE, claims_table, find_trace, folders, json, note_skipped, write_report};
use crate::arguments::{Reading, ReproduceOptions};
use crate::commands::compare;
use crate::{output, reading};

const EXPERIMENT: &str = include_str!("../../../../../papers/hat/experiment.toml");

/// Runs the command.
pub(super) fn run(options: &ReproduceOptions) -> Result<String> {
    let experiment = Experiment::parse(EXPERIMENT)?;
    let folders = folders(options);
    ensure!(!folders.is_empty(), "{}", no_folder(&experiment));
    let mut results = vec![];
    for workload in &experiment.workloads {
        let Some(path) = find_trace(&folders, &workload.file)? else {
            note_skipped(&workload.name, &[&workload.file], &folders);
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
    ensure!(!results.is_empty(), "`{}` holds none of the traces", folders[0].display());
    let claims = hat::claims(&results);
    let report = hat::report(&experiment, &results, &claims, compare::VERSION)?;
    write_report(options, "hat", &report)?;
    if options.json {
        return json(&claims, &results);
    }
    Ok(tables(&results, &claims))
}

fn no_folder(experiment: &Experiment) -> String {
    let names: Vec<&str> = experiment.workloads.iter().map(|w| w.file.as_str()).collect();
    format!(
        "give the folder of the traces with --traces DIR (or in the variable {TRACES_VARIABLE}); it or its part `captured` holds recordings named {}, such as tpcb.csv.zst beside tpcb.files.csv.zst, or traces in any other format",
        names.join(", ")
    )
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
    let wear = hat::wear_table(results);
    let header: Vec<&str> = wear.header.iter().map(String::as_str).collect();
    text += "Wear of the flash\n";
    text += &output::table(&header, &wear.rows, 2);
    text + &claims_table(claims)
}
