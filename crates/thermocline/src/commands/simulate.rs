//! `thermocline simulate`: one trace, one policy, one hierarchy.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use thermocline_lab::{Summary, TimingSummary};

use crate::arguments::SimulateOptions;
use crate::{hierarchy, output, reading};

/// Runs the command.
pub(crate) fn run(options: &SimulateOptions) -> Result<String> {
    let policy = hierarchy::find_policy(&options.policy)?;
    let configurations = hierarchy::configurations(&options.hierarchy, &[policy])?;
    ensure!(
        configurations.len() == 1,
        "simulate takes one size per tier; for several, use `thermocline compare`"
    );
    hierarchy::note_unused_flash(&configurations);
    let trace = reading::open(&options.trace, &options.reading)?;
    hierarchy::note_shrinking_tiers(&configurations, &trace)?;
    let summary = thermocline_lab::run(&trace, &configurations[0], options.hierarchy.run_options())
        .with_context(|| format!("cannot simulate `{}`", policy.name))?;
    if options.json { output::json(&summary) } else { Ok(describe(&summary)) }
}

fn describe(summary: &Summary) -> String {
    let trace = &summary.trace;
    let mut text = format!(
        "{}: {} accesses ({} reads, {} writes) to {} pages of {}\n",
        trace.path,
        output::count(trace.accesses),
        output::count(trace.reads),
        output::count(trace.writes),
        output::count(trace.footprint_pages),
        output::bytes(trace.page_size_bytes),
    );
    let parameters: Vec<String> =
        summary.policy.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let _infallible = writeln!(text, "{} {}", summary.policy.name, parameters.join(" "));
    if let Some(admission) = &summary.policy.admission {
        let identifier = &admission.identifier;
        let _infallible = writeln!(text, "only pages that {identifier} finds hot enter flash");
    }
    if summary.warm_up_accesses > 0 {
        let warm_up = output::count(summary.warm_up_accesses);
        let _infallible = writeln!(text, "not counted: the first {warm_up} accesses");
    }
    let rows: Vec<Vec<String>> = summary
        .tiers
        .iter()
        .map(|tier| {
            vec![
                tier.name.clone(),
                tier.device.clone(),
                tier.capacity_pages.map_or_else(|| "all".into(), output::count),
                output::count(tier.hits),
                output::percent(tier.hit_ratio),
                output::count(tier.page_reads),
                output::count(tier.page_writes),
            ]
        })
        .collect();
    text.push_str(&output::table(
        &["tier", "device", "pages", "hits", "hit ratio", "page reads", "page writes"],
        &rows,
        2,
    ));
    let _infallible = writeln!(
        text,
        "I/O time {:.3} s; replayed at {:.1} million accesses/s",
        summary.io_time_ms / 1000.0,
        summary.accesses_per_second / 1e6
    );
    text.push_str(&describe_hierarchy(summary));
    if let Some(timing) = &summary.timing {
        text.push_str(&describe_timing(timing));
    }
    text
}

/// What the hierarchy does besides hits and transfers.
fn describe_hierarchy(summary: &Summary) -> String {
    let mut text = format!("average response {:.3} ms", summary.average_response_ms);
    let pairs = summary.tiers.windows(2).zip(summary.demotions.iter().zip(&summary.promotions));
    for (pair, (&down, &up)) in pairs {
        let [down, up] = [down, up].map(output::count);
        let _infallible =
            write!(text, "; {} to {}: {down} pages down, {up} up", pair[0].name, pair[1].name);
    }
    if summary.metadata_bytes > 0 {
        let _infallible = write!(text, "; metadata {}", output::bytes(summary.metadata_bytes));
    }
    text.push('\n');
    if !summary.gauges.is_empty() {
        let gauges = summary.gauges.iter();
        let gauges: Vec<String> =
            gauges.map(|one| format!("{} {} {:.6}", one.tier, one.name, one.value)).collect();
        let _infallible = writeln!(text, "at the end: {}", gauges.join(", "));
    }
    if let Some(hca) = &summary.hca {
        let _infallible = writeln!(
            text,
            "RHR {:.4} SHR {:.4} DHR {:.4}; XCRTA {:.4} ms, HCRTA {:.4} ms ({:.4} as printed), XCIOPS {:.1}, BDRTA {:.4} ms, HCDRTA {:.4} ms",
            hca.rhr,
            hca.shr,
            hca.dhr,
            hca.xcrta_ms,
            hca.hcrta_ms,
            hca.hcrta_printed_ms,
            hca.xciops,
            hca.bdrta_ms,
            hca.hcdrta_ms
        );
    }
    if let Some(cost) = &summary.cost {
        let _infallible = writeln!(
            text,
            "price {:.2}; {:.1} I/Os per second at the average response time, {:.6} for each",
            cost.total, cost.iops, cost.per_io
        );
    }
    text
}

fn describe_timing(timing: &TimingSummary) -> String {
    let responses = [("reads", timing.response_us.read), ("writes", timing.response_us.write)];
    let rows = responses.map(|(name, times)| {
        let figures = [times.mean, times.p50, times.p95, times.p99, times.p999, times.max];
        let figures = figures.iter().map(|us| format!("{us:.1}"));
        [name.to_owned()].into_iter().chain(figures).collect()
    });
    let header = ["response time, us", "mean", "p50", "p95", "p99", "p99.9", "longest"];
    let mut text = output::table(&header, &rows, 1);
    let busy = timing.devices.iter().map(|device| {
        let share = device.busy_s / timing.duration_s * 100.0;
        format!("{} ({}) {share:.1} %", device.tier, device.model)
    });
    let busy: Vec<String> = busy.collect();
    let _infallible =
        writeln!(text, "{:.3} s in all; busy: {}", timing.duration_s, busy.join(", "));
    text
}
