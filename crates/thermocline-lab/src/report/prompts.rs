//! The report of caches of keys and values: what hits where, what that saves, and what it wears.

use super::{BarChart, Cell, Chart, Drawn as _, Figure, Options, Report, Table};
use crate::kv::{KvModel, KvSummary};
use crate::metric::{Metric, byte_size, grouped, prompt_columns};
use crate::verdict;

/// Builds the report of caches over one trace of prompts.
pub fn prompts(summaries: &[KvSummary], options: &Options) -> Report {
    let mut report = Report::new(&options.title);
    report.answer(&verdict::prompts(summaries));
    if let Some(first) = summaries.first() {
        report.paragraph(&about(first));
    }
    let metrics = prompt_columns(summaries);
    let of_metric = |metric: &Metric<KvSummary>| vec![chart(summaries, metric)];
    let choices = metrics.iter().map(|metric| (metric.title_with_unit(), of_metric(metric)));
    report.figure(Figure { title: "Figures by policy".into(), choices: choices.collect() });
    report.heading("All figures");
    report.paragraph("A star marks the best of its column among tiers of equal size.");
    for metric in &metrics {
        report.define(metric.title_with_unit(), metric.definition());
    }
    report.table(figures(summaries, &metrics));
    report.heading("How the tiers were filled");
    report.table(settings(summaries));
    report.heading("What the figures mean");
    report.paragraph(
        "A block hits only if all blocks of the prompt before it hit. What does not hit is computed \
         and kept again. Prompts are answered one after the other, in the order of the trace; queues \
         are not modelled, so times are lower bounds.",
    );
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
    report
}

fn about(run: &KvSummary) -> String {
    let trace = &run.trace;
    let mut text = format!(
        "{}: {} prompts, of which {} are counted, with {} tokens in {} blocks of {} tokens; {} blocks \
         of the trace are distinct.",
        trace.path,
        grouped(trace.requests),
        grouped(run.requests),
        grouped(run.tokens),
        grouped(run.blocks),
        grouped(trace.block_tokens.into()),
        grouped(trace.distinct_blocks.into()),
    );
    if let Some(KvModel { name, source, .. }) = run.model {
        let bytes = run.block_bytes.map_or(0, |bytes| bytes);
        let speed = run.flops_per_s / 1e12;
        text += &format!(
            " Model: {name} ({source}), {} for each block; a prefill does {speed:.0} TFLOP/s.",
            byte_size(bytes)
        );
    }
    text
}

/// The name of a run, with its sizes where these differ.
fn label(summaries: &[KvSummary], run: &KvSummary) -> String {
    let name = &run.policy.name;
    let is_same = summaries.iter().all(|other| other.capacities() == run.capacities());
    if is_same { name.clone() } else { format!("{name} ({})", sizes(run)) }
}

fn sizes(run: &KvSummary) -> String {
    run.capacities().into_iter().map(grouped).collect::<Vec<String>>().join(", ")
}

fn chart(summaries: &[KvSummary], metric: &Metric<KvSummary>) -> Chart {
    let bar = |run: &KvSummary| Some((label(summaries, run), metric.value(run)?));
    let bars = summaries.iter().filter_map(bar).collect();
    let x_title = metric.title_with_unit();
    BarChart { title: metric.title.to_string(), x_title, bars }.chart()
}

/// One row per run.
fn figures(summaries: &[KvSummary], metrics: &[Metric<KvSummary>]) -> Table {
    let mut header = ["policy", "blocks of each tier"].map(String::from).to_vec();
    header.extend(metrics.iter().map(Metric::title_with_unit));
    let row = |run: &KvSummary| {
        let is_rival = |other: &&KvSummary| other.capacities() == run.capacities();
        let rivals: Vec<&KvSummary> = summaries.iter().filter(is_rival).collect();
        let mut row = vec![Cell::text(&run.policy.name), Cell::text(sizes(run))];
        row.extend(metrics.iter().map(|metric| match metric.value(run) {
            None => Cell::number("-"),
            Some(value) if metric.is_best(run, &rivals) => {
                Cell::best((metric.show)(value)).with_value(value)
            }
            Some(value) => Cell::number((metric.show)(value)).with_value(value),
        }));
        row
    };
    Table { header, rows: summaries.iter().map(row).collect() }
}

/// How each policy's tiers were filled, once per policy.
fn settings(summaries: &[KvSummary]) -> Table {
    let mut rows: Vec<Vec<Cell>> = vec![];
    let mut seen: Vec<&str> = vec![];
    for run in summaries {
        let policy = &run.policy;
        if seen.contains(&policy.name.as_str()) {
            continue;
        }
        seen.push(&policy.name);
        let own = || "its own".to_owned();
        let word = |word: Option<&str>| word.map_or_else(own, str::to_owned);
        let settings = &policy.settings;
        let parameters = policy.parameters.iter();
        let parameters: Vec<String> =
            parameters.map(|(name, value)| format!("{name}={value}").replace('"', "")).collect();
        let admit = settings.admit.as_ref().map_or_else(own, |uses| {
            uses.iter().map(u32::to_string).collect::<Vec<String>>().join(", ")
        });
        rows.push(vec![
            Cell::text(&policy.name),
            Cell::text(policy.version.unwrap_or("-")),
            Cell::text(word(settings.mode)),
            Cell::text(settings.order),
            Cell::text(word(settings.victim)),
            Cell::text(admit),
            Cell::number(settings.engines.to_string()),
            Cell::text(if parameters.is_empty() { "none".into() } else { parameters.join(", ") }),
        ]);
    }
    let header =
        ["policy", "models", "mode", "leaves first", "makes room", "uses", "engines", "parameters"];
    Table { header: header.map(String::from).to_vec(), rows }
}
