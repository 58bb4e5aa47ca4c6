//! Flash tiers on drives with placement handles: what policies of RAM and flash write, what the drive adds to
//! it by its own copies, with and without placement, and how many days a drive of each preset lasts.
//!
//! A policy runs over a trace with an eighth of the trace's pages as flash and a hundredth as RAM. Its writes
//! to the flash go to a drive of one plane of 512 reclaim units, which the tier fills, again and
//! again until it has been written four times; the second half of the writes counts. Days are the
//! lifetime of a flash as large as the tier. It has the spare area and the rated erases of the preset, and
//! takes the writes at the rate of the trace.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use thermocline_core::config::Values;
use thermocline_core::hotness::registry as identifiers;
use thermocline_core::{Tier, registry};
use thermocline_device::ssd::{Isolation, SsdConfig};
use thermocline_lab::{Placed, SECONDS_PER_DAY, Streams, TierWrites, Watch, place, tier_writes};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::placement::{Drive, TIMES_WRITTEN};
use crate::replay::compile;

/// Options of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The traces
    traces: Vec<PathBuf>,
    /// The policies of RAM and flash
    #[arg(long, value_delimiter = ',', default_value = "hat,face,face-gsc,hca,foyer")]
    policies: Vec<String>,
    /// Share of the trace's pages that fit on the flash, from 0 to 1
    #[arg(long, default_value_t = 0.125)]
    flash: f64,
    /// Spare area of the drive, as a share of its flash from 0 to 0.9
    #[arg(long, default_value_t = 0.125)]
    spare: f64,
}

/// A way to choose handles: its name, the number of handles, and the chooser.
type Way = (&'static str, u32, Option<Streams>);

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let ways = ways()?;
    for path in &arguments.traces {
        let trace = compile(path, PageSize::DEFAULT)?;
        let name = path.file_name().context("a trace is a file")?.to_string_lossy();
        println!("\n{name}: {} accesses of {} pages\n", trace.len(), trace.footprint_pages());
        let names: Vec<&str> = ways.iter().map(|way| way.0).collect();
        let presets: Vec<&str> =
            SsdConfig::presets().iter().map(|preset| preset.name.as_str()).collect();
        println!(
            "| policy | flash writes per 100 accesses | {} | days: {} |",
            names.join(" | "),
            presets.join(" | ")
        );
        println!("| --- | --- |{}", " --- |".repeat(names.len() + presets.len()));
        for policy in &arguments.policies {
            println!("{}", row(policy, &trace, &ways, arguments)?);
        }
    }
    Ok(())
}

/// No placement, where pages come from, identifiers, and the oracle.
fn ways() -> Result<Vec<Way>> {
    let identifier = |name: &str, given: &[(&str, &str)]| -> Result<Option<Streams>> {
        let entry = identifiers::find(name)?;
        let given: Vec<(String, String)> =
            given.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(Some(Streams::Identifier(entry, entry.values(&given)?)))
    };
    Ok(vec![
        ("none", 1, None),
        ("`tier`, 3 handles", 3, Some(Streams::Tier)),
        ("`mbf`, 2", 2, identifier("mbf", &[])?),
        ("`fms`, 4", 4, identifier("fms", &[("hot_writes", "65536")])?),
        ("oracle, 4", 4, Some(Streams::Oracle)),
    ])
}

/// Return a policy's row: its writes, the drive's amplification of them in each way, and days on each preset
/// without placement and with the best way but the oracle.
fn row(policy: &str, trace: &CompiledTrace, ways: &[Way], arguments: &Arguments) -> Result<String> {
    let entry = registry::find(policy)?;
    let values = Values::defaults(entry.parameters);
    let pages_of = |share: f64| -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number of pages"
        )]
        let pages = (f64::from(trace.footprint_pages()) * share) as u32;
        pages.max(64)
    };
    let capacities = [pages_of(0.01), pages_of(arguments.flash)];
    let written = tier_writes(trace, entry, &values, &capacities, Tier::FLASH, &Watch::default())?;
    if written.writes.is_empty() {
        return Ok(format!("| `{policy}` | 0 |"));
    }
    let per_access = written.writes.len() as f64 / trace.len() as f64;
    let mut cells = vec![format!("| `{policy}` | {:.1}", per_access * 100.0)];
    for (_, handles, streams) in ways {
        let found = amplification(&written, arguments.spare, *handles, streams.as_ref())?;
        cells.push(format!("{found:.3}"));
    }
    let summary = trace.summary();
    let recorded =
        summary.last_at.0.saturating_sub(summary.first_at.0) as f64 / 1e9 / SECONDS_PER_DAY;
    for preset in SsdConfig::presets() {
        let spare = preset.over_provisioning;
        let days = |handles, streams: Option<&Streams>| -> Result<f64> {
            let amplified = amplification(&written, spare, handles, streams)?;
            let borne = f64::from(preset.erase_limit) / (1.0 - spare) / amplified;
            let times_written = written.writes.len() as f64 / f64::from(capacities[1]);
            Ok(borne / times_written * recorded)
        };
        let without = days(1, None)?;
        let placed = ways.iter().filter(|way| !matches!(way.2, None | Some(Streams::Oracle)));
        let mut with = 0.0_f64;
        for (_, handles, streams) in placed {
            with = with.max(days(*handles, streams.as_ref())?);
        }
        cells.push(format!("{without:.1}, {with:.1}"));
    }
    Ok(cells.join(" | ") + " |")
}

/// Return the write amplification of a drive under the writes of a tier.
fn amplification(
    written: &TierWrites,
    spare: f64,
    handles: u32,
    streams: Option<&Streams>,
) -> Result<f64> {
    let drive = Drive { pages: written.slots, spare, units: 512, isolation: Isolation::Persistent };
    let config = drive.config(handles)?;
    let times = (TIMES_WRITTEN * written.slots as usize).div_ceil(written.writes.len());
    let writes = written.writes.repeat(times);
    let Placed { metrics, .. } =
        place(&writes, writes.len() / 2, &config, streams, &Watch::default())?;
    Ok(metrics.write_amplification)
}
