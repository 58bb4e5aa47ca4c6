//! `thermocline kv`: tiers for the keys and values of language models.

use anyhow::Result;
use thermocline_lab::kv::{KvConfiguration, KvSummary, Split, run_kv_all};
use thermocline_lab::metric::prompt_columns;
use thermocline_lab::report::{Options, prompts};
use thermocline_lab::spec::{KvSpec, Selection, SpecPath, Step, TierSpec};
use thermocline_lab::{Watch, verdict};
use thermocline_trace::prompts::{PromptOptions, PromptTrace, Tail};

use crate::arguments::{KvOptions, PromptSplit};
use crate::commands::compare::VERSION;
use crate::hierarchy::{in_options, with_parameters};
use crate::{output, reading};

/// Runs the command; `command` is the command line, for the report.
pub(crate) fn run(options: &KvOptions, command: &str) -> Result<String> {
    let spec = spec(options);
    let tail = if options.full_blocks { Tail::Drop } else { Tail::Keep };
    let as_told = PromptOptions { block_tokens: options.block_tokens, tail };
    let trace = PromptTrace::open(&options.trace, as_told)?;
    let configurations = spec
        .configurations(&trace)
        .map_err(|error| in_options(error, |path| option(path, &spec)))?;
    let summaries = run_all(&trace, &configurations, options.check)?;
    if let Some(path) = &options.report {
        let title = format!("Keys and values of {}", reading::file_name(&options.trace));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &prompts(&summaries, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&summaries) } else { Ok(table(&trace, &summaries)) }
}

/// Return the specification from the options.
fn spec(options: &KvOptions) -> KvSpec {
    let KvOptions { filling, costs, .. } = options;
    let remote = options.remote.map(|size| TierSpec::new("remote", &[size]));
    KvSpec {
        policies: Selection::new(&options.policy),
        tiers: options.tiers.iter().cloned().chain(remote).collect(),
        engines: filling.engines,
        private_tiers: filling.private,
        split: match filling.split {
            PromptSplit::RoundRobin => Split::RoundRobin,
            PromptSplit::Session => Split::Session,
        },
        mode: filling.mode,
        order: filling.order,
        matching: filling.matching,
        touch: filling.touch,
        victim: filling.victim,
        admit: filling.admit.clone(),
        ghost_blocks: filling.ghost,
        ttl_s: filling.ttl.clone(),
        model: options.model.clone(),
        block_bytes: costs.block_bytes.map(|bytes| bytes.0),
        bandwidths: costs.bandwidths.clone(),
        prices: costs.prices.clone(),
        rated_writes: costs.rated_writes.clone(),
        drives: costs.drives.clone(),
        teraflops: costs.teraflops,
        efficiency: costs.efficiency,
        processors_per_hour: costs.gpu_price,
        write_off_years: costs.write_off_years,
        parameters: options.parameters.clone(),
        warm_up: options.warm_up,
        is_checked: options.check,
    }
}

/// Return the option that a part of the specification comes from.
fn option(path: &SpecPath, spec: &KvSpec) -> String {
    match *path.steps() {
        [Step::Key("tiers"), Step::At(place), ..] => {
            let TierSpec { name, sizes, .. } = &spec.tiers[place];
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!("--tier {name}={}", sizes.join(","))
        }
        [Step::Key("tiers")] => "--tier".into(),
        [Step::Key("private_tiers")] => "--private".into(),
        [Step::Key("bandwidths")] => "--bandwidth".into(),
        [Step::Key("prices")] => "--price".into(),
        [Step::Key("drives")] => "--drive".into(),
        _ => with_parameters(path, &spec.parameters),
    }
}

/// Runs all configurations in parallel, with a progress bar on a terminal.
fn run_all(
    trace: &PromptTrace,
    configurations: &[KvConfiguration],
    is_checked: bool,
) -> Result<Vec<KvSummary>> {
    let bar = output::progress(configurations.len(), "caches")?;
    let summaries = run_kv_all(trace, configurations, is_checked, &Watch::default(), || bar.inc(1));
    bar.finish_and_clear();
    Ok(summaries?)
}

/// Tabulate one row per run; the best of each column among equal tiers is marked.
fn table(trace: &PromptTrace, summaries: &[KvSummary]) -> String {
    let first = summaries.first();
    let tiers = first.map_or(&[][..], |run| &run.tiers);
    let header = tiers.iter().map(|tier| format!("{} blocks", tier.name));
    let header = ["policy".to_owned()].into_iter().chain(header).collect();
    let names = |run: &KvSummary| {
        let capacities = run.capacities().into_iter().map(output::count);
        [run.policy.name.clone()].into_iter().chain(capacities).collect()
    };
    let are_rivals = |one: &KvSummary, other: &KvSummary| one.capacities() == other.capacities();
    let table = output::figures(header, names, &prompt_columns(summaries), summaries, are_rivals);
    let answer = verdict::prompts(summaries);
    let answer = if answer.is_empty() { String::new() } else { answer.join(" ") + "\n\n" };
    let unlimited =
        first.map_or(0.0, |run| run.unlimited_hit_tokens as f64 / (run.tokens as f64).max(1.0));
    let of_blocks = match first.and_then(|run| run.block_bytes) {
        Some(bytes) => format!("{} each", output::bytes(bytes)),
        None => "of unknown size".into(),
    };
    format!(
        "{answer}{} prompts of {} tokens, {} blocks of {} tokens ({of_blocks}), {} of them distinct; \
         a cache without limits hits {} of the tokens\n\n{table}\
         * best of its column among tiers of equal size\n",
        output::count(trace.prompts().len() as u64),
        output::count(trace.tokens()),
        output::count(trace.blocks()),
        output::count(trace.block_tokens().into()),
        output::count(trace.distinct_blocks().into()),
        output::percent(unlimited),
    )
}
