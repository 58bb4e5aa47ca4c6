//! `thermocline hot`: one trace, several hot-data identifiers, one baseline.

use anyhow::Result;
use thermocline_core::hotness::registry;
use thermocline_lab::report::{Options, identification};
use thermocline_lab::{
    Candidate, Given, Identification, IdentifierSummary, Owner, Stream, Watch, identify,
};
use thermocline_trace::CompiledTrace;

use crate::arguments::HotOptions;
use crate::commands::compare::{VERSION, command_line};
use crate::{output, reading};

/// The identifiers that are asked for, with their parameters.
pub(crate) struct Asked {
    baseline: Candidate,
    others: Vec<Candidate>,
}

impl Asked {
    /// Those of the options.
    pub(crate) fn new(options: &HotOptions) -> Result<Self> {
        let mut entries = match options.identifier.as_slice() {
            [all] if all == "all" => registry::entries().iter().collect(),
            names => {
                names.iter().map(|name| registry::find(name)).collect::<Result<Vec<_>, _>>()?
            }
        };
        let baseline = registry::find(&options.baseline)?;
        let mut owners: Vec<Owner> = entries.iter().map(|&entry| entry.into()).collect();
        owners.push(baseline.into());
        let parameters = Given::parse(&options.parameters, &owners)?;
        entries.push(baseline);
        let candidates = entries
            .into_iter()
            .map(|entry| Candidate::new(entry.name, entry, &parameters.of(entry.into())));
        let mut others = candidates.collect::<Result<Vec<Candidate>, _>>()?;
        let baseline = others.pop().expect("the baseline was added last");
        Ok(Self { baseline, others })
    }

    /// How many they are, the baseline among them.
    pub(crate) fn count(&self) -> usize {
        let is_other = |other: &&Candidate| other.entry.name != self.baseline.entry.name;
        1 + self.others.iter().filter(is_other).count()
    }

    /// What they say of a trace; `done` is called after each.
    pub(crate) fn identify(
        &self,
        options: &HotOptions,
        trace: &CompiledTrace,
        watch: &Watch,
        done: impl Fn(),
    ) -> Result<Identification> {
        let stream = Stream::of(trace, options.count)?.watched(watch);
        Ok(identify(&stream, &self.baseline, &self.others, options.interval, done)?)
    }
}

/// Runs the command.
pub(crate) fn run(options: &HotOptions) -> Result<String> {
    let asked = Asked::new(options)?;
    let trace = reading::open(&options.trace, &options.reading)?;
    let found = asked.identify(options, &trace, &Watch::default(), || ())?;
    if let Some(path) = &options.report {
        let title = format!("Hot and cold pages of {}", reading::file_name(&options.trace));
        let report = Options { title, command: command_line(), version: VERSION.into() };
        output::write_file(path, &identification(&found, &report)?.to_html())?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&found) } else { Ok(table(&found)) }
}

/// One row per identifier.
fn table(found: &Identification) -> String {
    let header = [
        "identifier",
        "hot",
        "hot ratio",
        "false hot",
        "false cold",
        "false identification rate",
        "memory",
        "ns per check",
        "ns per decay",
        "decays every",
    ];
    let row = |one: &IdentifierSummary| {
        vec![
            one.label.clone(),
            output::count(one.hot),
            output::percent(one.hot_ratio),
            output::count(one.false_hot),
            output::count(one.false_cold),
            output::percent(one.false_identification_rate),
            output::bytes(one.memory_bits / 8),
            format!("{:.1}", one.check_ns),
            one.decay_ns.map_or_else(|| "-".into(), |nanoseconds| format!("{nanoseconds:.0}")),
            one.decay_writes.map_or_else(|| "-".into(), output::count),
        ]
    };
    let rows: Vec<Vec<String>> = found.identifiers.iter().map(row).collect();
    format!(
        "{}: {} {} of {} pages; baseline {}\n{}",
        found.trace.path,
        output::count(found.trace.writes),
        found.trace.counted,
        output::count(found.trace.footprint_pages),
        found.baseline,
        output::table(&header, &rows, 1)
    )
}
