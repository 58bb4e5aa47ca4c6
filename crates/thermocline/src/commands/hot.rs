//! `thermocline hot`: one trace, several hot-data identifiers, one baseline.

use anyhow::Result;
use thermocline_lab::metric::identifier_columns;
use thermocline_lab::report::{Options, identification};
use thermocline_lab::spec::{Candidates, HotSpec, Selection};
use thermocline_lab::{Identification, IdentifierSummary, Stream, Watch, identify};

use crate::arguments::HotOptions;
use crate::commands::compare::VERSION;
use crate::hierarchy::{in_options, with_parameters};
use crate::{output, reading};

/// Runs the command; `command` is the command line, for the report.
pub(crate) fn run(options: &HotOptions, command: &str) -> Result<String> {
    let spec = spec(options);
    let candidates = spec
        .candidates()
        .map_err(|error| in_options(error, |path| with_parameters(path, &spec.parameters)))?;
    let trace = reading::open(&options.trace, &options.reading)?;
    let stream = Stream::of(&trace, spec.count)?;
    let Candidates { baseline, others } = &candidates;
    let found = identify(&stream, baseline, others, spec.interval, &Watch::default(), || ())?;
    if let Some(path) = &options.report {
        let title = format!("Hot and cold pages of {}", reading::file_name(&options.trace));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &identification(&found, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&found) } else { Ok(table(&found)) }
}

/// Return the specification from the options.
fn spec(options: &HotOptions) -> HotSpec {
    HotSpec {
        identifiers: Selection::new(&options.identifier),
        baseline: options.baseline.clone(),
        count: options.count,
        interval: options.interval,
        parameters: options.parameters.clone(),
    }
}

/// Tabulate one row per identifier.
fn table(found: &Identification) -> String {
    let header = vec!["identifier".to_owned()];
    let names = |one: &IdentifierSummary| vec![one.label.clone()];
    // No identifier is the best of a column: a greater share of hot pages is neither good nor bad.
    let are_rivals = |_: &IdentifierSummary, _: &IdentifierSummary| false;
    let metrics = identifier_columns(true);
    format!(
        "{}: {} {} of {} pages; baseline {}\n{}",
        found.trace.path,
        output::count(found.trace.writes),
        found.trace.counted,
        output::count(found.trace.footprint_pages),
        found.baseline,
        output::figures(header, names, &metrics, &found.identifiers, are_rivals)
    )
}
