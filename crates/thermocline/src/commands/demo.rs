//! `thermocline demo`: hybrid policies on the bundled trace, beside some without flash, and a report.

use anyhow::{Context as _, Result};
use thermocline_core::Clients;
use thermocline_core::registry::{self, Depth, PolicyEntry};
use thermocline_lab::report::{Options, comparison};
use thermocline_lab::spec::{HierarchySpec, TierSpec};
use thermocline_lab::{RunOptions, TierSize};
use thermocline_papers::Annotated;

use crate::arguments::DemoOptions;
use crate::commands::compare;
use crate::{output, reading};

/// What hybrids are compared with: memory alone.
const BASELINES: [&str; 3] = ["lfu", "arc", "lru"];

/// Runs the command.
pub(crate) fn run(options: &DemoOptions) -> Result<String> {
    let flash = [1.0, 2.0, 4.0, 8.0, 16.0].map(TierSize::TimesAbove);
    let tiers = vec![
        TierSpec::new("ram", &[TierSize::FootprintPercent(2.0)]),
        TierSpec::new("flash", &flash),
    ];
    let spec = HierarchySpec { tiers, ..HierarchySpec::default() };
    let is_shown = |entry: &&PolicyEntry| {
        entry.capabilities.depth == Depth::RamFlash || BASELINES.contains(&&*entry.name)
    };
    let policies: Vec<_> = registry::entries().filter(is_shown).cloned().collect();
    let configurations = thermocline_lab::configurations(&spec, &policies, Clients::ONE)?;
    let trace = reading::open_bundled()?;
    let summaries = compare::run_all(&trace, &configurations, RunOptions::default())?;
    let report = Options {
        title: "Which hybrid cache serves PostgreSQL best?".into(),
        command: "thermocline demo\n\n# the same on a trace of yours:\nthermocline compare TRACE --policy all \\\n  --tier ram=2% --tier flash=1x,2x,4x,8x,16x --report comparison.html".into(),
        version: compare::VERSION.into(),
    };
    output::write_file(&options.report, &comparison(&summaries, &report)?.to_html())?;
    let path = options.report.display();
    if options.json {
        output::note(&format!("report: {path}"));
        return output::json(&Annotated::all(&trace, &configurations, &summaries)?);
    }
    let last = summaries.chunks(policies.len()).last().context("there is a configuration")?;
    Ok(format!(
        "{}\nThe last of {} flash sizes is shown; all are in the report. Open {path} in a browser.\n",
        compare::table(last),
        summaries.len() / policies.len(),
    ))
}
