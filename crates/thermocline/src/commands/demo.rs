//! `thermocline demo`: hybrid policies on the bundled trace, beside some without flash, and a report, in
//! which caches that systems ship stand beside the best published ones.

use anyhow::{Context as _, Result};
use thermocline_core::Clients;
use thermocline_core::registry::{self, Depth, PolicyEntry};
use thermocline_lab::metric::{flash, grouped};
use thermocline_lab::report::{Cell, Options, Report, Table, comparison};
use thermocline_lab::spec::{HierarchySpec, TierSpec};
use thermocline_lab::{Configuration, RunOptions, Summary, TierSize};
use thermocline_papers::{Annotated, Camp, Entrant, shipped_and_published};
use thermocline_trace::CompiledTrace;

use crate::arguments::DemoOptions;
use crate::commands::compare;
use crate::output;

/// Baselines of hybrids: memory alone.
const BASELINES: [&str; 3] = ["lfu", "arc", "lru"];

/// The flash size at which shipped caches are shown, as a multiple of RAM.
const SHIPPED_FLASH: f64 = 4.0;

/// Number of published policies that are shown beside them.
const BEST: usize = 3;

/// Runs the command.
pub(crate) fn run(options: &DemoOptions) -> Result<String> {
    let flash = [1.0, 2.0, SHIPPED_FLASH, 8.0, 16.0].map(TierSize::TimesAbove);
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
    let trace = thermocline_lab::bundled_trace()?;
    let summaries = compare::run_all(&trace, &configurations, RunOptions::default())?;
    let report = Options {
        title: "Which hybrid cache serves PostgreSQL best?".into(),
        command: "thermocline demo\n\n# the same on a trace of yours:\nthermocline compare TRACE --policy all \\\n  --tier ram=2% --tier flash=1x,2x,4x,8x,16x --report comparison.html".into(),
        version: compare::VERSION.into(),
    };
    let mut report = comparison(&summaries, &report);
    add_shipped(&mut report, &trace, &configurations, &summaries)?;
    output::write_report(&options.report, &report)?;
    let path = options.report.display();
    if options.json {
        output::note(&format!("report: {path}"));
        return output::json(&Annotated::all(&trace, &configurations, &summaries)?);
    }
    let last = summaries.chunks(policies.len()).last().context("there is a configuration")?;
    Ok(format!(
        "{}\nThe last of {} flash sizes is shown; all are in the report.\n{}\nOpen {path} in a browser. Next, on a trace of yours: thermocline compare TRACE --policy all --tier ram=2% --tier flash=4x\n",
        compare::table(last),
        summaries.len() / policies.len(),
        compare::answer(&summaries),
    ))
}

/// Adds a table of the caches that systems ship, set as their tools set them, beside the best published
/// policies. Those were run already.
fn add_shipped(
    report: &mut Report,
    trace: &CompiledTrace,
    configurations: &[Configuration],
    summaries: &[Summary],
) -> Result<()> {
    let is_shown = |configuration: &Configuration| {
        configuration.tiers.iter().any(|tier| tier.size == TierSize::TimesAbove(SHIPPED_FLASH))
    };
    let hierarchy = configurations.iter().find(|one| is_shown(one)).context("a size is shown")?;
    let all = shipped_and_published(trace.page_size_bytes())?;
    let (shipped, others): (Vec<Entrant>, Vec<Entrant>) =
        all.into_iter().partition(|one| one.camp == Camp::Shipped);
    let set = |one: &Entrant| Configuration {
        policy: one.policy.clone(),
        values: one.values.clone(),
        ..hierarchy.clone()
    };
    let runs: Vec<Configuration> = shipped.iter().map(set).collect();
    let found = compare::run_all(trace, &runs, RunOptions::default())?;
    let shipped = shipped.iter().map(|one| (one.label.clone(), Camp::Shipped)).zip(&found);
    let is_published = |summary: &Summary| {
        others
            .iter()
            .any(|one| one.camp == Camp::Published && one.policy.name == summary.policy.name)
    };
    let by_time = |one: &&Summary, other: &&Summary| one.io_time_ms.total_cmp(&other.io_time_ms);
    let published = configurations.iter().zip(summaries).filter(|(one, _)| is_shown(one));
    let mut published: Vec<&Summary> =
        published.map(|(_, found)| found).filter(|found| is_published(found)).collect();
    published.sort_by(by_time);
    published.truncate(BEST);
    let published =
        published.into_iter().map(|found| ((found.policy.name.clone(), Camp::Published), found));
    let mut rows: Vec<_> = shipped.chain(published).collect();
    rows.sort_by(|(_, one), (_, other)| by_time(one, other));
    report.heading("Caches that systems ship");
    report.paragraph(&format!(
        "Each with the settings that its tools set, beside the {BEST} published policies with the least I/O time: flash {SHIPPED_FLASH}x RAM. Caches of the block layer have this RAM as the page cache above them. `thermocline reproduce shipped` compares all of them on more traces and sizes."
    ));
    report.table(Table {
        header: [
            "cache",
            "kind",
            "total I/O time, s",
            "hits in RAM or on flash, %",
            "pages written to flash",
        ]
        .map(String::from)
        .to_vec(),
        rows: rows.into_iter().map(|((label, camp), found)| row(label, camp, found)).collect(),
    });
    Ok(())
}

fn row(label: String, camp: Camp, found: &Summary) -> Vec<Cell> {
    let flash_writes = flash(found).map_or(0, |tier| tier.page_writes);
    vec![
        Cell::text(label),
        Cell::text(camp.words()),
        Cell::number(format!("{:.1}", found.io_time_ms / 1000.0)),
        Cell::number(format!("{:.2}", found.aggregate_hit_ratio() * 100.0)),
        Cell::number(grouped(flash_writes)),
    ]
}
