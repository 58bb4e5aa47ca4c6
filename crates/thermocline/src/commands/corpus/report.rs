//! `thermocline corpus report`: policies compared over the traces of a corpus.

use anyhow::{Result, ensure};
use thermocline_lab::corpus::statistics::Estimate;
use thermocline_lab::corpus::{
    DatasetStatistics, Filters, METRICS, PolicyStatistics, Section, Study, StudyOptions, results,
};
use thermocline_lab::report::{Options, corpus as report_of};

use crate::arguments::CorpusReportOptions;
use crate::commands::compare::VERSION;
use crate::{output, reading};

/// Runs the command; `command` is the command line, for the report.
pub(super) fn run(options: &CorpusReportOptions, command: &str) -> Result<String> {
    let known = METRICS.map(|(column, _)| column);
    for metric in &options.metric {
        ensure!(
            known.contains(&metric.as_str()),
            "--metric {metric}: no such figure; there are: {}",
            known.join(", ")
        );
    }
    ensure!(
        (0.0..1.0).contains(&options.tie),
        "--tie {:e}: write a share of at least 0 and below 1, as in 0.001",
        options.tie
    );
    let filters = if options.no_filters {
        Filters::NONE
    } else {
        Filters { min_entries: options.min_entries, ..Filters::PUBLISHED }
    };
    let study = Study::new(
        &results::read(&options.results)?,
        &StudyOptions {
            baselines: options.baseline.clone(),
            metrics: options.metric.clone(),
            filters,
            tie: options.tie,
            resamples: options.resamples,
            seed: options.seed,
            split: options.split.map(|split| split.word().to_owned()),
        },
    )?;
    ensure!(
        !study.sections.is_empty(),
        "no results can be compared: run a baseline (fifo or lru; lru-exclusive for hybrids) into `{}`, or name one with --baseline",
        options.results.display()
    );
    if let Some(path) = &options.report {
        let title = format!("Corpus {}", reading::file_name(&options.results));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &report_of(&study, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&study) } else { Ok(text(&study)) }
}

fn text(study: &Study) -> String {
    study.sections.iter().map(section).collect()
}

fn section(section: &Section) -> String {
    let Section { size, metric_words, baseline, filtered, is_sampled, .. } = section;
    let sampled = if *is_sampled { ", some on samples" } else { "" };
    let mut text = format!(
        "Reduction of {metric_words} against {baseline} in percent, {size}{sampled}\n{} of {} traces; left out: {} with equal sizes, {} too small, {} saturated, {} incomplete\n",
        filtered.left,
        filtered.traces,
        filtered.same_sizes,
        filtered.too_small,
        filtered.saturated,
        filtered.incomplete
    );
    text.extend(section.datasets.iter().map(dataset));
    text + "\n"
}

fn dataset(dataset: &DatasetStatistics) -> String {
    let header = [
        "policy",
        "P10",
        "P25",
        "P50",
        "P75",
        "P90",
        "mean",
        "interval",
        "worst",
        "worse on",
        "win/tie/loss",
        "rank",
    ];
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let interval = |estimate: Option<Estimate>| {
        estimate.map_or_else(
            || "-".to_owned(),
            |one| format!("{} to {}", percent(one.low), percent(one.high)),
        )
    };
    let row = |policy: &PolicyStatistics| {
        let PolicyStatistics { p10, p25, p50, p75, p90, mean, wins, ties, losses, .. } = policy;
        let mut cells = vec![policy.policy.clone()];
        cells.extend([p10, p25, p50, p75, p90, mean].map(|share| percent(*share)));
        cells.push(interval(policy.interval));
        cells.push(percent(policy.min));
        cells.push(percent(policy.share_worse));
        cells.push(format!("{wins}/{ties}/{losses}"));
        cells.push(format!("{:.2}", policy.mean_rank));
        cells
    };
    let rows: Vec<Vec<String>> = dataset.policies.iter().map(row).collect();
    let difference = dataset.critical_difference.map_or_else(String::new, |difference| {
        format!(", ranks that differ by less than {difference:.2} are not told apart")
    });
    format!(
        "{}: {} traces{difference}\n{}",
        dataset.dataset,
        dataset.traces,
        output::table(&header, &rows, 1)
    )
}
