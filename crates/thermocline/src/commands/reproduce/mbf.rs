//! The MBF paper.

use anyhow::{Context as _, Result};
use thermocline_lab::experiment::mbf::{self, Experiment, PaperWorkload, WorkloadResult};
use thermocline_trace::CompiledTrace;

use super::{claims_table, find_workloads, folders, json, progress, write_report};
use crate::arguments::{Reading, ReproduceOptions};
use crate::commands::compare;
use crate::{output, reading};

const EXPERIMENT: &str = include_str!("../../../../../papers/mbf/experiment.toml");

/// Runs the command: on the traces found, on the bundled one, and on those made on the spot.
pub(super) fn run(options: &ReproduceOptions) -> Result<String> {
    let experiment = Experiment::parse(EXPERIMENT)?;
    let folders = folders(options);
    let found = find_workloads(&folders, &experiment.workloads, |workload| {
        (&workload.name, &workload.files)
    })?;
    let traces = found.len() + experiment.generated.len() + 1;
    let bar = progress(traces, "traces")?;
    let mut results = vec![];
    let mut add = |name: &str, paper: Option<PaperWorkload>, trace: &CompiledTrace| -> Result<()> {
        bar.set_message(name.to_owned());
        results.push(experiment.run(name, paper, trace).with_context(|| name.to_owned())?);
        bar.inc(1);
        Ok(())
    };
    for (workload, path) in found {
        let trace = reading::open(&path, &Reading::default())?;
        add(&workload.name, workload.paper, &trace)?;
    }
    add("PostgreSQL (bundled)", None, &reading::open_bundled()?)?;
    for generated in &experiment.generated {
        add(&generated.name, None, &generated.trace()?)?;
    }
    bar.finish_and_clear();
    let claims = mbf::claims(&results);
    let report = mbf::report(&experiment, &results, &claims, compare::VERSION)?;
    write_report(options, "mbf", &report)?;
    if options.json {
        return json(&claims, &results);
    }
    Ok(format!("{}{}", rates(&results), claims_table(&claims)))
}

/// False identification rates per trace, the identifiers side by side.
fn rates(results: &[WorkloadResult]) -> String {
    let Some(first) = results.first() else { return String::new() };
    let labels = first.against_wdac.identifiers.iter().map(|one| one.label.as_str());
    let header: Vec<&str> = ["trace"].into_iter().chain(labels).collect();
    let row = |result: &WorkloadResult| {
        let identifiers = result.against_wdac.identifiers.iter();
        let rates = identifiers.map(|one| {
            format!("{:.1} ({:.1})", one.false_identification_rate * 100.0, one.hot_ratio * 100.0)
        });
        [result.workload.clone()].into_iter().chain(rates).collect()
    };
    let rows: Vec<Vec<String>> = results.iter().map(row).collect();
    format!(
        "False identification rate against WDAC and, in brackets, hot ratio, in %\n{}",
        output::table(&header, &rows, 1)
    )
}
