//! `thermocline compare`: one trace, many policies and sizes, side by side.

use anyhow::{Context as _, Result};
use thermocline_core::Clients;
use thermocline_core::registry::PolicyEntry;
use thermocline_lab::metric::{by_sizes, capacities, columns, hit_ratios, sizes_in_words};
use thermocline_lab::report::{Options, comparison};
use thermocline_lab::spec::{HierarchySpec, Selection};
use thermocline_lab::verdict::verdict;
use thermocline_lab::{Configuration, IntervalSummary, RunOptions, Summary, Watch};
use thermocline_papers::Annotated;
use thermocline_trace::CompiledTrace;

use super::simulate;
use crate::arguments::CompareOptions;
use crate::{hierarchy, output, reading};

/// Runs the command; `command` is the command line, for the report.
pub(crate) fn run(options: &CompareOptions, command: &str) -> Result<String> {
    let clients = reading::clients(&options.traces, &options.clients)?;
    let policies = policies(options, clients)?;
    let configurations = hierarchy::configurations(&options.hierarchy, &policies, clients)?;
    hierarchy::note_unused_flash(&configurations);
    let trace = reading::open_shared(&options.traces, &options.reading, &options.clients)?;
    hierarchy::note_shrinking_tiers(&configurations, &trace)?;
    let summaries = run_all(&trace, &configurations, options.hierarchy.run_options())?;
    if let Some(path) = &options.report {
        let title = format!("Comparison on {}", reading::file_names(&options.traces));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &comparison(&summaries, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json {
        return output::json(&Annotated::all(&trace, &configurations, &summaries)?);
    }
    let tables = [table(&summaries), traffic(&summaries), over_time(&summaries)].concat();
    Ok(tables + &answer(&summaries))
}

/// Summarise the figures, a sentence a line.
pub(crate) fn answer(summaries: &[Summary]) -> String {
    let sentences = verdict(summaries);
    if sentences.is_empty() { String::new() } else { format!("\n{}\n", sentences.join("\n")) }
}

/// Return the policies asked for.
fn policies(options: &CompareOptions, clients: Clients) -> Result<Vec<PolicyEntry>> {
    let selection = Selection::new(&options.hierarchy.two_tier.policies(&options.policy));
    let spec = HierarchySpec { tiers: options.hierarchy.tiers.clone(), ..HierarchySpec::default() };
    Ok(spec.policies(&selection, clients, &[])?)
}

/// The program and its version, for reports.
pub(crate) const VERSION: &str = concat!("thermocline ", env!("CARGO_PKG_VERSION"));

/// Runs all configurations in parallel, with a progress bar on a terminal.
pub(crate) fn run_all(
    trace: &CompiledTrace,
    configurations: &[Configuration],
    options: RunOptions,
) -> Result<Vec<Summary>> {
    let bar = output::progress(configurations.len(), "configurations")?;
    let done = || bar.inc(1);
    let summaries =
        thermocline_lab::compare(trace, configurations, options, &Watch::default(), done);
    bar.finish_and_clear();
    summaries.context("cannot compare")
}

/// Tabulate one row per configuration; the best of each column among equal hierarchies is marked.
pub(crate) fn table(summaries: &[Summary]) -> String {
    let mut header = vec!["policy".to_owned()];
    if let Some(first) = summaries.first() {
        let caches = first.tiers.iter().filter(|tier| tier.capacity_pages.is_some());
        header.extend(caches.map(|tier| format!("{} pages", tier.name)));
    }
    let names = |run: &Summary| {
        let sizes = capacities(run).into_iter().map(output::count);
        [run.policy.label()].into_iter().chain(sizes).collect()
    };
    let are_rivals = |one: &Summary, other: &Summary| capacities(one) == capacities(other);
    let table = output::figures(header, names, &columns(summaries), summaries, are_rivals);
    format!(
        "{table}* best of its column among the configurations of equal sizes\n{}",
        time_models(summaries)
    )
}

/// Describe which figures are of which model of time, where there are several.
fn time_models(summaries: &[Summary]) -> String {
    let mut timings = summaries.iter().filter_map(|summary| summary.timing.as_ref());
    let Some(first) = timings.clone().next() else { return String::new() };
    let text = format!(
        "I/O time: cost model, one transfer after the other. Average response: access times of the tiers. Response times of reads and writes: {}.\n",
        simulate::time_model(first)
    );
    text + &timings.find(|one| one.is_saturated()).map(simulate::saturation).unwrap_or_default()
}

/// Tabulate the moves between each pair of caches, where there are several pairs.
fn traffic(summaries: &[Summary]) -> String {
    let Some(first) = summaries.first().filter(|first| first.demotions.len() > 1) else {
        return String::new();
    };
    let pairs = first.tiers.windows(2).zip(&first.demotions);
    let pairs = pairs.map(|(pair, _)| format!("{} and {}", pair[0].name, pair[1].name));
    let pairs: Vec<String> = pairs.collect();
    let rows = summaries.iter().flat_map(|summary| {
        pairs.iter().enumerate().map(move |(index, pair)| {
            let moved = |pages: &[u64], bytes: &[u64]| {
                format!("{} ({})", output::count(pages[index]), output::bytes(bytes[index]))
            };
            vec![
                label(summary, summaries),
                pair.clone(),
                moved(&summary.demotions, &summary.demoted_bytes),
                moved(&summary.promotions, &summary.promoted_bytes),
            ]
        })
    });
    let header = ["policy", "between", "pages demoted", "pages promoted"];
    format!("\n{}", output::table(&header, &rows.collect::<Vec<_>>(), 2))
}

/// Hits in all caches over time, per hierarchy: one row per interval, one column per policy.
fn over_time(summaries: &[Summary]) -> String {
    let mut text = String::new();
    for group in by_sizes(summaries) {
        let runs = group.iter().filter_map(|run| Some((*run, &run.over_time.as_ref()?.intervals)));
        let runs: Vec<_> = runs.collect();
        let Some((first, intervals)) = runs.first() else { continue };
        let policies = runs.iter().map(|(run, _)| run.policy.name.as_str());
        let header: Vec<&str> = ["accesses"].into_iter().chain(policies).collect();
        let row = |(place, interval): (usize, &IntervalSummary)| {
            let ratios = runs.iter().filter_map(|(_, intervals)| intervals.get(place));
            let ratios = ratios.map(|interval| output::percent(interval.aggregate_hit_ratio()));
            [output::count(interval.end_accesses)].into_iter().chain(ratios).collect()
        };
        let rows: Vec<Vec<String>> = intervals.iter().enumerate().map(row).collect();
        let title = hit_ratios(&first.tiers).pop().map_or_else(String::new, |all| all.title.into());
        let table = output::table(&header, &rows, 0);
        text += &format!("\n{title} over time, {}\n{table}", sizes_in_words(first));
    }
    text
}

/// Return the policy, and its sizes if there are several.
fn label(summary: &Summary, summaries: &[Summary]) -> String {
    let sizes = capacities(summary);
    if summaries.iter().all(|other| capacities(other) == sizes) {
        return summary.policy.name.clone();
    }
    let sizes: Vec<String> = sizes.into_iter().map(output::count).collect();
    format!("{} {}", summary.policy.name, sizes.join(" "))
}
