//! `thermocline demo`: all policies on the bundled trace, and a report.

use std::io::Cursor;

use anyhow::{Context as _, Result};
use thermocline_core::registry;
use thermocline_lab::RunOptions;
use thermocline_lab::report::{Options, comparison};
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};

use crate::arguments::{DemoOptions, HierarchyOptions};
use crate::commands::compare;
use crate::{hierarchy, output};

/// The bundled trace, recorded below a PostgreSQL server; see `testdata/pgbench/README.md`.
const TRACE: &[u8] = include_bytes!("../../../../testdata/pgbench/pgbench.csv.zst");
const TRACE_NAME: &str = "pgbench.csv.zst (bundled)";
/// The page size of PostgreSQL.
const PAGE_SIZE_BYTES: u64 = 8192;

/// Runs the command.
pub(crate) fn run(options: &DemoOptions) -> Result<String> {
    let tiers = ["ram=2%", "flash=1x,2x,4x,8x,16x"];
    let hierarchy_options = HierarchyOptions::of_tiers(&tiers);
    let policies: Vec<_> = registry::entries().iter().collect();
    let configurations = hierarchy::configurations(&hierarchy_options, &policies)?;
    let mut reader = Reader::from_read(TRACE_NAME, Cursor::new(TRACE), &ReadOptions::default())?;
    let trace = CompiledTrace::compile(&mut reader, PageSize::new(PAGE_SIZE_BYTES)?)?;
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
        return output::json(&summaries);
    }
    let last = summaries.chunks(policies.len()).last().context("there is a configuration")?;
    Ok(format!(
        "{}\nThe last of {} flash sizes is shown; all are in the report. Open {path} in a browser.\n",
        compare::table(last),
        summaries.len() / policies.len(),
    ))
}
