//! The HFA paper.

use anyhow::{Context as _, Result};
use thermocline_lab::experiment::hfa::{self, Experiment, WorkloadResult};
use thermocline_trace::CompiledTrace;

use super::{claims_table, find_workloads, folders, json, progress, write_report};
use crate::arguments::{Reading, ReproduceOptions};
use crate::commands::compare;
use crate::{output, reading};

const EXPERIMENT: &str = include_str!("../../../../../papers/hfa/experiment.toml");

/// Runs the command: on the traces found, on the bundled one, and on those made on the spot.
pub(super) fn run(options: &ReproduceOptions) -> Result<String> {
    let experiment = Experiment::parse(EXPERIMENT)?;
    let folders = folders(options);
    let found = find_workloads(&folders, &experiment.workloads, |workload| {
        (&workload.name, &workload.files)
    })?;
    let traces = found.len() + experiment.generated.len() + 1;
    let bar = progress(experiment.runs_per_trace() * traces, "runs")?;
    let mut results = vec![];
    let mut add = |name: &str, paper: Option<f64>, ratios: &[u32], trace: &CompiledTrace| {
        bar.set_message(name.to_owned());
        let result = experiment.run(name, paper, ratios, trace, || bar.inc(1));
        results.push(result.with_context(|| name.to_owned())?);
        anyhow::Ok(())
    };
    for (workload, path) in found {
        let trace = reading::open(&path, &Reading::default())?;
        add(&workload.name, workload.paper_requests, &workload.ratios, &trace)?;
    }
    add("PostgreSQL (bundled)", None, &[1, 4], &reading::open_bundled()?)?;
    for generated in &experiment.generated {
        add(&generated.name, None, &generated.ratios, &generated.trace()?)?;
    }
    bar.finish_and_clear();
    let claims = hfa::claims(&experiment, &results);
    let report = hfa::report(&experiment, &results, &claims, compare::VERSION)?;
    write_report(options, "hfa", &report)?;
    if options.json {
        return json(&claims, &results);
    }
    Ok(format!("{}{}", figures(&experiment, &results), claims_table(&claims)))
}

/// Hit ratios and response times at the size that is studied.
fn figures(experiment: &Experiment, results: &[WorkloadResult]) -> String {
    let policies = experiment.policies();
    let header: Vec<&str> = ["trace"].into_iter().chain(policies.iter().copied()).collect();
    let row = |result: &WorkloadResult| {
        let cells = policies.iter().map(|policy| {
            let point = result.points.iter().find(|point| {
                point.policy == *policy
                    && point.aggregate_percent.to_bits() == experiment.study_percent.to_bits()
            });
            point.map_or_else(
                || "-".into(),
                |point| {
                    let response_ms = point.summary.average_response_ms;
                    format!("{:.2} / {response_ms:.3}", point.summary.aggregate_hit_ratio() * 100.0)
                },
            )
        });
        [result.workload.clone()].into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = results.iter().map(row).collect();
    format!(
        "Aggregate hits in % / average response in ms, with all levels {} % of the footprint\n{}",
        experiment.study_percent,
        output::table(&header, &rows, 1)
    )
}
