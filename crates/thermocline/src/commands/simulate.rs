//! `thermocline simulate`: one trace, one policy, one hierarchy.

use std::fmt::Write as _;
use std::slice;

use anyhow::{Context as _, Result, ensure};
use thermocline_lab::metric::{Metric, interval_columns};
use thermocline_lab::{ClientSummary, OverTime, Summary, TimingSummary, Watch};
use thermocline_papers::{Annotated, HcaFigures};

use crate::arguments::SimulateOptions;
use crate::{hierarchy, interrupt, output, reading};

/// Runs the command.
pub(crate) fn run(options: &SimulateOptions) -> Result<String> {
    let name = options.hierarchy.two_tier.policy(options.policy.as_deref())?;
    ensure!(
        !name.contains(','),
        "simulate takes one policy, and `{name}` are several: run it once for each, or use `thermocline compare`"
    );
    let policy = thermocline_lab::find_policy(&name)?;
    let clients = reading::clients(&options.traces, &options.clients)?;
    let configurations =
        hierarchy::configurations(&options.hierarchy, slice::from_ref(policy), clients)?;
    ensure!(
        configurations.len() == 1,
        "simulate takes one size per tier; for several, use `thermocline compare`"
    );
    hierarchy::note_unused_flash(&configurations);
    let asked = options.hierarchy.run_options();
    let running = match (&*options.traces, &options.actions) {
        ([path], None) => reading::open_running(path, &options.reading, &configurations[0], asked)?,
        _ => None,
    };
    let (trace, summary) = if let Some(done) = running {
        done
    } else {
        let trace = reading::open_shared(&options.traces, &options.reading, &options.clients)?;
        let summary = match &options.actions {
            None => thermocline_lab::run(&trace, &configurations[0], asked, &Watch::default()),
            Some(path) => interrupt::stopping(|watch| {
                thermocline_lab::run_with_actions(&trace, &configurations[0], asked, watch, path)
            })?,
        };
        (trace, summary)
    };
    hierarchy::note_shrinking_tiers(&configurations, &trace)?;
    let summary = summary.with_context(|| format!("cannot simulate `{}`", policy.name))?;
    if let Some(path) = &options.actions {
        output::note(&format!("actions: {}", path.display()));
    }
    let found = Annotated::new(&trace, &configurations[0], &summary)?;
    if options.json { output::json(&found) } else { Ok(describe(found)) }
}

fn describe(Annotated { summary, hca }: Annotated<'_>) -> String {
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
    let _infallible = writeln!(text, "{} {}", summary.policy.label(), parameters.join(" "));
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
        .enumerate()
        .map(|(index, tier)| {
            let each = if index == 0 && !summary.clients.is_empty() { " each" } else { "" };
            let pages = |pages| format!("{}{each}", output::count(pages));
            vec![
                tier.name.clone(),
                tier.device.clone(),
                tier.capacity_pages.map_or_else(|| "all".into(), pages),
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
    text.push_str(&describe_clients(summary));
    let _infallible = writeln!(
        text,
        "I/O time {:.3} s by the cost model, one transfer after the other; replayed at {:.1} million accesses/s",
        summary.io_time_ms / 1000.0,
        summary.accesses_per_second / 1e6
    );
    text.push_str(&describe_hierarchy(summary, hca));
    if let Some(timing) = &summary.timing {
        text.push_str(&describe_timing(timing));
    }
    if let Some(over_time) = &summary.over_time {
        text.push_str(&describe_over_time(summary, over_time));
    }
    text
}

/// Describe the results of each of several clients.
fn describe_clients(summary: &Summary) -> String {
    if summary.clients.is_empty() {
        return String::new();
    }
    let names = summary.tiers.iter().map(|tier| format!("{} hits", tier.name));
    let header: Vec<String> = ["client".into(), "accesses".into()]
        .into_iter()
        .chain(names)
        .chain(["hit ratio".into(), "average response, ms".into()])
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let row = |client: &ClientSummary| {
        let counts = [client.accesses].into_iter().chain(client.hits.iter().copied());
        [client.client.to_string()]
            .into_iter()
            .chain(counts.map(output::count))
            .chain([output::percent(client.hit_ratio)])
            .chain([format!("{:.3}", client.average_response_ms)])
            .collect()
    };
    let rows: Vec<Vec<String>> = summary.clients.iter().map(row).collect();
    output::table(&header, &rows, 1)
}

/// Describe the hierarchy besides hits and transfers.
fn describe_hierarchy(summary: &Summary, hca: Option<HcaFigures>) -> String {
    let mut text = format!(
        "average response {:.3} ms by the access times of the tiers",
        summary.average_response_ms
    );
    let moved = |pages: u64, bytes: u64| {
        format!("{} pages ({})", output::count(pages), output::bytes(bytes))
    };
    let down = summary.demotions.iter().zip(&summary.demoted_bytes);
    let up = summary.promotions.iter().zip(&summary.promoted_bytes);
    for (pair, (down, up)) in summary.tiers.windows(2).zip(down.zip(up)) {
        let [down, up] = [down, up].map(|(&pages, &bytes)| moved(pages, bytes));
        let [above, below] = [&pair[0].name, &pair[1].name];
        let _infallible = write!(text, "; {above} to {below}: {down} down, {up} up");
    }
    if summary.metadata_bytes > 0 {
        let metadata = output::bytes(summary.metadata_bytes);
        let percent = summary.metadata_share * 100.0;
        let _infallible = write!(text, "; metadata {metadata}, {percent:.3} % of the caches");
    }
    text.push('\n');
    if !summary.gauges.is_empty() {
        let gauges = summary.gauges.iter();
        let gauges: Vec<String> =
            gauges.map(|one| format!("{} {} {:.6}", one.tier, one.name, one.value)).collect();
        let _infallible = writeln!(text, "at the end: {}", gauges.join(", "));
    }
    if let Some(hca) = hca {
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
            "all tiers cost {:.2} (in the currency of the prices); {:.1} I/Os per second at the average response time, {:.6} for each",
            cost.total, cost.iops, cost.per_io
        );
    }
    text
}

/// Name the model of time of a simulation of devices.
pub(crate) fn time_model(timing: &TimingSummary) -> String {
    match timing.closed_loop {
        None => "simulated devices, open loop (requests arrive at the trace's times)".into(),
        Some(requests) => {
            format!("simulated devices, closed loop ({requests} requests kept outstanding)")
        }
    }
}

/// Says that response times mean nothing, if that is so.
pub(crate) fn saturation(timing: &TimingSummary) -> String {
    if !timing.is_saturated() {
        return String::new();
    }
    format!(
        "The devices do not keep pace with the trace, which comes from a faster machine: {:.0} requests wait at one time, on average, and response times tell how long the trace is. --closed-loop N sends a request when another one is answered.\n",
        timing.outstanding_mean
    )
}

fn describe_timing(timing: &TimingSummary) -> String {
    let responses = [("reads", timing.response_us.read), ("writes", timing.response_us.write)];
    let rows = responses.map(|(name, times)| {
        let figures = [times.mean, times.p50, times.p95, times.p99, times.p999, times.max];
        let figures = figures.iter().map(|us| format!("{us:.1}"));
        [name.to_owned()].into_iter().chain(figures).collect()
    });
    let header = ["response time, us", "mean", "p50", "p95", "p99", "p99.9", "longest"];
    let mut text = format!("{}:\n", time_model(timing));
    text += &output::table(&header, &rows, 1);
    let busy = timing.devices.iter().map(|device| {
        let share = device.busy_s / timing.duration_s * 100.0;
        format!("{} ({}) {share:.1} %", device.tier, device.model)
    });
    let busy: Vec<String> = busy.collect();
    let _infallible =
        writeln!(text, "{:.3} s in all; busy: {}", timing.duration_s, busy.join(", "));
    for device in &timing.devices {
        if let Some(ssd) = &device.ssd {
            let _infallible = writeln!(text, "{} ({}): {ssd}", device.tier, device.model);
        }
    }
    text += &saturation(timing);
    text
}

/// Describe the intervals, one row each: its end, its hits, and the values that the policy adapts.
fn describe_over_time(summary: &Summary, over_time: &OverTime) -> String {
    let Some(first) = over_time.intervals.first() else { return String::new() };
    let mut header = vec!["accesses".to_owned()];
    header.extend(first.end_s.map(|_| "time, s".to_owned()));
    let metrics = interval_columns(&summary.tiers, usize::MAX);
    header.extend(metrics.iter().map(Metric::title_with_unit));
    header.extend(first.gauges.iter().map(|gauge| format!("{} {}", gauge.tier, gauge.name)));
    let rows = over_time.intervals.iter().map(|interval| {
        let mut row = vec![output::count(interval.end_accesses)];
        row.extend(interval.end_s.map(|seconds| format!("{seconds:.3}")));
        row.extend(metrics.iter().map(|metric| {
            metric.value(interval).map_or_else(|| "-".into(), |value| (metric.show)(value))
        }));
        row.extend(interval.gauges.iter().map(|gauge| {
            let decimals = if gauge.value.fract() == 0.0 { 0 } else { 3 };
            format!("{:.decimals$}", gauge.value)
        }));
        row
    });
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    output::table(&header, &rows.collect::<Vec<_>>(), 0)
}
