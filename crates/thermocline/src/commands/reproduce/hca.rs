//! The HCA paper.

use anyhow::{Context as _, Result};
use thermocline_lab::experiment::hca::{self, Experiment, Results};
use thermocline_trace::CompiledTrace;

use super::{claims_table, find_workloads, folders, json, progress, write_report};
use crate::arguments::{Reading, ReproduceOptions};
use crate::commands::compare;
use crate::{output, reading};

const EXPERIMENT: &str = include_str!("../../../../../papers/hca/experiment.toml");

/// Runs the command: the file system, then the traces found and the bundled one.
pub(super) fn run(options: &ReproduceOptions) -> Result<String> {
    let experiment = Experiment::parse(EXPERIMENT)?;
    let folders = folders(options);
    let found = find_workloads(&folders, &experiment.workloads, |workload| {
        (&workload.name, &workload.files)
    })?;
    let runs = experiment.system_runs() + experiment.runs_per_trace() * (found.len() + 1);
    let bar = progress(runs, "runs")?;
    bar.set_message("ARC and L2ARC");
    let system = experiment.system.run(|| bar.inc(1))?;
    let mut traces = vec![];
    let mut add = |name: &str, trace: &CompiledTrace| {
        bar.set_message(name.to_owned());
        let result = experiment.run_trace(name, trace, || bar.inc(1));
        traces.push(result.with_context(|| name.to_owned())?);
        anyhow::Ok(())
    };
    for (workload, path) in found {
        add(&workload.name, &reading::open(&path, &Reading::default())?)?;
    }
    add("PostgreSQL (bundled)", &reading::open_bundled()?)?;
    bar.finish_and_clear();
    let results = Results { system, traces };
    let claims = hca::claims(&experiment, &results);
    let report = hca::report(&experiment, &results, &claims, compare::VERSION)?;
    write_report(options, "hca", &report)?;
    if options.json {
        return json(&claims, &results);
    }
    Ok(format!("{}{}", figures(&experiment, &results), claims_table(&claims)))
}

/// Tables I and II, the paper's figures beside ours.
fn figures(experiment: &Experiment, results: &Results) -> String {
    let header = ["", "paper, baseline", "paper, hybrid", "ours, baseline", "ours, hybrid"];
    let mut text = String::new();
    for (workload, result) in experiment.system.workloads.iter().zip(&results.system) {
        let rows: Vec<Vec<String>> =
            hca::system_table(workload, result).into_iter().map(|row| row.to_vec()).collect();
        text += &format!("{}\n{}", result.workload, output::table(&header, &rows, 1));
    }
    text
}
