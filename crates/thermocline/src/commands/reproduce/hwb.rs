//! The HWB paper.

use anyhow::{Context as _, Result};
use thermocline_lab::experiment::hwb::{self, Experiment, PaperWorkload, WorkloadResult};
use thermocline_lab::metric::{BUFFERED_SSD, BUFFERS};
use thermocline_trace::CompiledTrace;

use super::{claims_table, find_workloads, folders, json, progress, write_report};
use crate::arguments::{Reading, ReproduceOptions};
use crate::commands::compare;
use crate::{output, reading};

const EXPERIMENT: &str = include_str!("../../../../../papers/hwb/experiment.toml");

/// Runs the command: on the traces found, on the bundled one, and on those made on the spot.
pub(super) fn run(options: &ReproduceOptions) -> Result<String> {
    let experiment = Experiment::parse(EXPERIMENT)?;
    let folders = folders(options);
    let found = find_workloads(&folders, &experiment.workloads, |workload| {
        (&workload.name, &workload.files)
    })?;
    let others = experiment.generated.len() + 1;
    let runs = found.iter().map(|(workload, _)| workload.paper.is_some());
    let runs = runs.chain(std::iter::repeat_n(false, others));
    let runs: usize = runs.map(|is_papers| experiment.runs_per_trace(is_papers)).sum();
    let bar = progress(runs, "runs")?;
    let mut results = vec![];
    let mut add = |name: &str, paper: Option<PaperWorkload>, is_timed, trace: &CompiledTrace| {
        bar.set_message(name.to_owned());
        let result = experiment.run(name, paper, is_timed, trace, || bar.inc(1));
        results.push(result.with_context(|| name.to_owned())?);
        anyhow::Ok(())
    };
    for (workload, path) in found {
        let stated = reading::open_reader(&path, &Reading::default())?.page_size();
        let page_size = Some(experiment.page_size_bytes(stated)?.to_string());
        let trace = reading::open(&path, &Reading { page_size, ..Reading::default() })?;
        add(&workload.name, workload.paper, workload.timed, &trace)?;
    }
    add("PostgreSQL (bundled)", None, false, &reading::open_bundled()?)?;
    for generated in &experiment.generated {
        let trace = generated.trace(experiment.page_size_bytes(None)?)?;
        add(&generated.name, None, true, &trace)?;
    }
    bar.finish_and_clear();
    let claims = hwb::claims(&experiment, &results);
    let report = hwb::report(&experiment, &results, &claims, compare::VERSION)?;
    write_report(options, "hwb", &report)?;
    if options.json {
        return json(&claims, &results);
    }
    Ok(format!("{}{}", figures(&experiment, &results), claims_table(&claims)))
}

/// Write hits, erases and response times at the size of the paper's text.
fn figures(experiment: &Experiment, results: &[WorkloadResult]) -> String {
    let contenders: Vec<&str> = experiment
        .contenders
        .iter()
        .filter(|contender| contender.in_figures)
        .map(|contender| contender.label.as_str())
        .collect();
    let header: Vec<&str> = ["trace"].into_iter().chain(contenders.iter().copied()).collect();
    let row = |result: &WorkloadResult| {
        let cells = contenders.iter().map(|&label| {
            let run = result
                .used_drive
                .iter()
                .find(|run| run.label == label && run.size == experiment.text_size);
            let figure = |metric: &thermocline_lab::metric::Metric<_>| {
                run.and_then(|run| metric.value(&run.summary))
                    .map_or_else(|| "-".into(), metric.show)
            };
            let [hits, erases, response] =
                [&BUFFERS[0], &BUFFERED_SSD[0], &BUFFERED_SSD[2]].map(figure);
            format!("{hits} / {erases} / {response}")
        });
        [result.workload.clone()].into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = results.iter().map(row).collect();
    format!(
        "Write hits in % / erases / mean write response in us, with {} of buffer on a drive in use\n{}",
        experiment.text_size,
        output::table(&header, &rows, 1)
    )
}
