//! The paper's claims, beside what was measured.

use super::{Cell, Experiment, Point, Results, SystemResult, SystemWorkload, TraceResult};
use crate::experiment::Claim;

/// How near a share must come to the paper's to confirm it, in percentage points.
const TOLERANCE_POINTS: f64 = 5.0;
/// How near a factor must come to the paper's to confirm it.
const TOLERANCE_FACTOR: f64 = 1.25;

/// All claims of sections VI and VII that a run can confirm or not.
pub fn claims(experiment: &Experiment, results: &Results) -> Vec<Claim> {
    let mut claims = vec![];
    for (workload, result) in experiment.system.workloads.iter().zip(&results.system) {
        claims.extend(system_claims(workload, result));
        claims.extend(cell_claims(result));
    }
    claims.extend(trace_claims(experiment, &results.traces));
    claims
}

fn is_near(ours: f64, paper: f64) -> bool {
    (1.0 / TOLERANCE_FACTOR..=TOLERANCE_FACTOR).contains(&(ours / paper))
}

/// Tables I and II.
fn system_claims(workload: &SystemWorkload, result: &SystemResult) -> Vec<Claim> {
    let SystemResult { workload: name, baseline, hybrid, .. } = result;
    let [without, with] = [baseline, hybrid].map(|run| run.hits.disk * 100.0);
    let [paper_without, paper_with] = workload.hits_percent.map(|hits| hits[2]);
    let mut claims = vec![Claim {
        claim: format!("{name}: an SSD brings disk hits from {paper_without} to {paper_with} %"),
        measured: format!("from {without:.2} to {with:.2} %"),
        is_confirmed: Some(
            (without - paper_without).abs() <= TOLERANCE_POINTS
                && (with - paper_with).abs() <= TOLERANCE_POINTS,
        ),
    }];
    let factor = |[before, after]: [f64; 2]| after / before;
    for (what, paper, ours) in [
        ("I/Os per second", workload.iops, [baseline.iops, hybrid.iops]),
        (
            "I/Os per second of SSD and disk",
            workload.storage_iops,
            [baseline.storage_iops, hybrid.storage_iops],
        ),
    ] {
        claims.push(Claim {
            claim: format!("{name}: {:.2} times the {what}", factor(paper)),
            measured: format!("{:.2} times: {:.1} to {:.1}", factor(ours), ours[0], ours[1]),
            is_confirmed: Some(is_near(factor(ours), factor(paper))),
        });
    }
    for (what, paper, ours) in [
        ("latency", workload.latency_ms, [baseline.latency_ms, hybrid.latency_ms]),
        ("cost per I/O", workload.cost_per_io, [baseline.cost_per_io, hybrid.cost_per_io]),
    ] {
        // The paper's reductions are h / (b + h); the true ones are 1 - h / b.
        let printed = |[before, after]: [f64; 2]| after / (before + after) * 100.0;
        let true_reduction = |[before, after]: [f64; 2]| (1.0 - after / before) * 100.0;
        claims.push(Claim {
            claim: format!(
                "{name}: {what} reduced by {:.2} % as printed, {:.1} % in truth",
                printed(paper),
                true_reduction(paper)
            ),
            measured: format!(
                "{:.2} % by the paper's formula, {:.1} % in truth",
                printed(ours),
                true_reduction(ours)
            ),
            is_confirmed: Some(
                (true_reduction(ours) - true_reduction(paper)).abs() <= TOLERANCE_POINTS,
            ),
        });
    }
    let arc = [baseline, hybrid].map(|run| run.hits.ram * 100.0);
    claims.push(Claim {
        claim: format!("{name}: the hit ratio of ARC is almost the same with and without an SSD"),
        measured: format!("{:.2} and {:.2} %", arc[0], arc[1]),
        is_confirmed: Some((arc[0] - arc[1]).abs() <= TOLERANCE_POINTS),
    });
    if let Some(hours) = workload.hours_to_migrate {
        let ours = hybrid.migrated_after_s.map(|seconds| seconds as f64 / 3600.0);
        claims.push(Claim {
            claim: format!("{name}: after {hours} hours the working set is on the SSD"),
            measured: ours.map_or_else(
                || "not within the run".into(),
                |ours| format!("disk hits below 1 % after {ours:.1} hours"),
            ),
            is_confirmed: Some(ours.is_some_and(|ours| is_near(ours, hours))),
        });
    }
    claims
}

/// Tables III to VIII.
fn cell_claims(result: &SystemResult) -> Vec<Claim> {
    let name = &result.workload;
    let cells = &result.cells;
    let count = cells.len() as f64;
    let mean = |difference: fn(&Cell) -> f64| cells.iter().map(difference).sum::<f64>() / count;
    let disk = mean(|cell| (cell.run.hits.disk * 100.0 - cell.paper_disk_percent).abs());
    let ssd = mean(|cell| (cell.run.hits.ssd * 100.0 - cell.paper_ssd_percent).abs());
    let iops = mean(|cell| (cell.run.iops / cell.paper_iops - 1.0).abs() * 100.0);
    let near = cells.iter().filter(|cell| {
        (cell.run.hits.disk * 100.0 - cell.paper_disk_percent).abs() <= TOLERANCE_POINTS
    });
    let near = near.count();
    let mut claims = vec![Claim {
        claim: format!("{name}: disk hits, SSD hits and I/Os per second of 27 sizes"),
        measured: format!(
            "{disk:.1} and {ssd:.1} points and {iops:.0} % off on average; disk hits of {near} of {} cells within {TOLERANCE_POINTS} points",
            cells.len()
        ),
        is_confirmed: Some(disk <= TOLERANCE_POINTS),
    }];
    let same_but = |one: &Cell, other: &Cell, is_ssd: bool| {
        one.ram_gib == other.ram_gib
            && if is_ssd {
                one.working_set_gib == other.working_set_gib && one.ssd_gib < other.ssd_gib
            } else {
                one.ssd_gib == other.ssd_gib && one.working_set_gib < other.working_set_gib
            }
    };
    for (is_ssd, claim) in
        [(true, "disk hits fall with a larger SSD"), (false, "disk hits rise with the working set")]
    {
        let pairs = cells.iter().flat_map(|one| cells.iter().map(move |other| (one, other)));
        let pairs: Vec<_> = pairs.filter(|(one, other)| same_but(one, other, is_ssd)).collect();
        let holds = |&&(one, other): &&(&Cell, &Cell)| {
            let falls = other.run.hits.disk < one.run.hits.disk;
            falls == is_ssd
        };
        let so = pairs.iter().filter(holds).count();
        claims.push(Claim {
            claim: format!("{name}: {claim}"),
            measured: format!("so at {so} of {} pairs of sizes", pairs.len()),
            is_confirmed: Some(so == pairs.len()),
        });
    }
    claims
}

/// Figures 23 to 28.
fn trace_claims(experiment: &Experiment, traces: &[TraceResult]) -> Vec<Claim> {
    let architecture = &experiment.architecture;
    let shown = |trace: &TraceResult| -> Vec<Point> {
        let points = trace.points.iter();
        points
            .filter(|point| point.buffer_pages == architecture.shown_buffer_pages)
            .cloned()
            .collect()
    };
    let all: Vec<Point> = traces.iter().flat_map(shown).collect();
    let count_claim = |claim: &str, is_so: fn(&Point) -> bool| {
        let so = all.iter().filter(|point| is_so(point)).count();
        Claim {
            claim: claim.into(),
            measured: if all.is_empty() {
                Claim::not_run()
            } else {
                format!("so at {so} of {} points", all.len())
            },
            is_confirmed: (!all.is_empty()).then_some(so == all.len()),
        }
    };
    let mut claims = vec![
        count_claim("HCA: fewer disk hits than the baseline", |point| {
            point.hca.dhr < 1.0 - point.baseline_rhr
        }),
        count_claim("HCA: RAM hits rise slightly, by those in the transient buffer", |point| {
            let gain = point.hca.rhr - point.baseline_rhr;
            gain > 0.0 && gain * 100.0 <= TOLERANCE_POINTS
        }),
    ];
    let ends = |trace: &TraceResult| {
        let mut points = shown(trace);
        points.sort_by(|one, other| one.ram_per_ssd.total_cmp(&other.ram_per_ssd));
        Some([points.first()?.hca.rhr, points.last()?.hca.rhr])
    };
    let grown = traces.iter().filter_map(ends).filter(|[least, most]| most > least).count();
    claims.push(Claim {
        claim: "HCA: RAM hits grow as RAM exceeds the SSD".into(),
        measured: if traces.is_empty() {
            Claim::not_run()
        } else {
            format!("so on {grown} of {} traces", traces.len())
        },
        is_confirmed: (!traces.is_empty()).then_some(grown == traces.len()),
    });
    claims.push(buffer_claim(traces));
    claims
}

/// That a larger transient buffer lowers the I/Os per second of the SSD.
fn buffer_claim(traces: &[TraceResult]) -> Claim {
    let (mut lowered, mut pairs) = (0, 0);
    for trace in traces {
        for one in &trace.points {
            let more = trace.points.iter().find(|other| {
                other.ram_per_ssd.to_bits() == one.ram_per_ssd.to_bits()
                    && other.buffer_pages > one.buffer_pages
            });
            if let Some(more) = more.filter(|_| one.hca.xciops > 0.0) {
                pairs += 1;
                lowered += usize::from(more.hca.xciops < one.hca.xciops);
            }
        }
    }
    Claim {
        claim: "HCA: a larger transient buffer lowers XCIOPS".into(),
        measured: if pairs == 0 {
            Claim::not_run()
        } else {
            format!("so at {lowered} of {pairs} steps")
        },
        is_confirmed: (pairs > 0).then_some(lowered == pairs),
    }
}
