//! The report of the comparison, and the tables of its page.

use thermocline_lab::SECONDS_PER_DAY;
use thermocline_lab::metric::{byte_size, flash, grouped};
use thermocline_lab::report::Report;
use thermocline_trace::PageSize;

use super::cases::{Case, Standing, cases, simulated, standings};
use super::{Camp, Entrant, Experiment, Point, WorkloadResult};
use crate::study::{TextTable, add_titled, header};

const GIB: f64 = (1_u64 << 30) as f64;

/// The camps whose best caches are shown beside each other.
const RIVALS: [Camp; 3] = [Camp::Shipped, Camp::Tuned, Camp::Published];

/// Return all tables of the page.
pub(super) fn tables(experiment: &Experiment, results: &[WorkloadResult]) -> Vec<TextTable> {
    let at_one_size: Vec<Case<'_>> = cases(results)
        .into_iter()
        .filter(|case| case.sizes() == (&experiment.simulated.memory, &experiment.simulated.flash))
        .collect();
    let simulated = simulated(results);
    let multiple = |_: Case<'_>, _: &Point, times: f64| Some(format!("{times:.2}"));
    vec![
        overall(results),
        winners(results),
        by_workload("I/O time as a multiple of the least", &at_one_size, multiple),
        by_workload("Time on simulated devices as a multiple of the least", &simulated, multiple),
        by_workload("Mean time of a read on simulated devices, ms", &simulated, |_, point, _| {
            let timing = point.summary.timing.as_ref();
            timing.map(|timing| format!("{:.2}", timing.response_us.read.mean / 1000.0))
        }),
        by_workload("Hits in RAM or on flash, %", &at_one_size, |_, point, _| {
            Some(format!("{:.1}", point.summary.aggregate_hit_ratio() * 100.0))
        }),
        by_workload("Flash writes, GiB per million accesses", &at_one_size, |_, point, _| {
            Some(format!("{:.2}", gib_per_million(point)))
        }),
        flash_per_day(experiment, &at_one_size),
        workloads(experiment, results),
        versions(experiment),
    ]
}

/// Adds all tables.
pub(super) fn add(report: &mut Report, experiment: &Experiment, results: &[WorkloadResult]) {
    report.heading("All cases");
    report.paragraph("A case is a workload with one size of RAM and of flash.");
    add_titled(report, tables(experiment, results));
    report.heading("Every case");
    add_titled(report, results.iter().map(every_size).collect());
}

fn gib_per_million(point: &Point) -> f64 {
    point.flash_bytes() as f64 / GIB / point.accesses() as f64 * 1e6
}

/// Tabulate the results of every cache over all cases, the one with the least mean I/O time first.
pub(super) fn overall(results: &[WorkloadResult]) -> TextTable {
    let cases = cases(results);
    let mut all = standings(&cases);
    all.sort_by(|one, other| one.mean().total_cmp(&other.mean()));
    let row = |standing: &Standing<'_>| {
        let (case, worst) = standing.worst();
        let count = |is_so: &dyn Fn(&(Case<'_>, &Point, f64)) -> bool| {
            standing.points.iter().filter(|point| is_so(point)).count().to_string()
        };
        let is_faster_than_alone = |(case, point, _): &(Case<'_>, &Point, f64)| {
            case.fastest(&[Camp::Alone]).is_some_and(|alone| point.seconds() < alone.seconds())
        };
        vec![
            standing.label.to_owned(),
            standing.camp.words().to_owned(),
            format!("{:.2}", standing.mean()),
            format!("{worst:.2}"),
            case.words(),
            count(&|(_, _, times)| *times <= 1.0),
            count(&is_faster_than_alone),
            format!("{:.1}", standing.mean_of(|point| point.summary.aggregate_hit_ratio()) * 100.0),
            format!("{:.2}", standing.mean_of(gib_per_million)),
        ]
    };
    TextTable {
        title: Some("All cases".into()),
        header: header(&[
            "cache",
            "kind",
            "I/O time, times the least: mean",
            "worst",
            "where",
            "cases in which it is the fastest",
            "cases in which it is faster than RAM alone",
            "hits, %",
            "flash writes, GiB per million accesses",
        ]),
        rows: all.iter().map(row).collect(),
        numbers_from: 5,
    }
}

/// Return the best cache of each kind on each workload, by its mean over the sizes.
pub(super) fn winners(results: &[WorkloadResult]) -> TextTable {
    let row = |result: &WorkloadResult| {
        let cases = cases(std::slice::from_ref(result));
        let standings = standings(&cases);
        let best = |camp: Camp| {
            let own = standings.iter().filter(|standing| standing.camp == camp);
            let best = own.min_by(|one, other| one.mean().total_cmp(&other.mean()));
            best.map_or_else(String::new, |best| format!("{} ({:.2})", best.label, best.mean()))
        };
        [result.workload.clone()].into_iter().chain(RIVALS.map(best)).collect()
    };
    let titles = [&["workload"][..], &RIVALS.map(Camp::words)].concat();
    TextTable {
        title: Some(
            "The best of each kind, with its mean I/O time as a multiple of the least".into(),
        ),
        header: header(&titles),
        rows: results.iter().map(row).collect(),
        numbers_from: titles.len(),
    }
}

/// Return a figure of every cache on each workload.
fn by_workload(
    title: &str,
    cases: &[Case<'_>],
    cell: impl Fn(Case<'_>, &Point, f64) -> Option<String>,
) -> TextTable {
    let row = |standing: Standing<'_>| {
        let cells = standing.points.iter().map(|(case, point, times)| cell(*case, point, *times));
        let cells = cells.map(|cell| cell.unwrap_or_else(|| "-".into()));
        [standing.label.to_owned()].into_iter().chain(cells).collect()
    };
    let workloads = cases.iter().map(|case| case.result.workload.as_str());
    TextTable {
        title: Some(title.to_owned()),
        header: header(&["cache"].into_iter().chain(workloads).collect::<Vec<&str>>()),
        rows: standings(cases).into_iter().map(row).collect(),
        numbers_from: 1,
    }
}

/// Describe the flash writes per day of the trace's time, where a trace is long enough.
fn flash_per_day(experiment: &Experiment, at_one_size: &[Case<'_>]) -> TextTable {
    let is_long = |case: &&Case<'_>| {
        case.result.counted_s.is_some_and(|seconds| seconds >= experiment.day_needs_s)
    };
    let long: Vec<Case<'_>> = at_one_size.iter().filter(is_long).copied().collect();
    by_workload("Flash writes, GiB per day", &long, |case, point, _| {
        let days = case.result.counted_s? / SECONDS_PER_DAY;
        Some(format!("{:.1}", point.flash_bytes() as f64 / GIB / days))
    })
}

/// Return the traces and the sizes that follow from them.
fn workloads(experiment: &Experiment, results: &[WorkloadResult]) -> TextTable {
    let row = |result: &WorkloadResult| {
        let first = result.points.first()?;
        let trace = &first.summary.trace;
        let bytes = |pages: u64| byte_size(pages * trace.page_size_bytes);
        let capacities = |tier: usize| {
            let mut pages: Vec<u64> = result
                .points
                .iter()
                .filter_map(|point| point.summary.tiers.get(tier)?.capacity_pages)
                .collect();
            pages.sort_unstable();
            pages.dedup();
            pages.into_iter().map(bytes).collect::<Vec<String>>().join(", ")
        };
        Some(vec![
            result.workload.clone(),
            byte_size(trace.page_size_bytes),
            grouped(trace.accesses),
            format!("{:.1}", trace.writes as f64 / trace.accesses.max(1) as f64 * 100.0),
            bytes(trace.footprint_pages),
            result.counted_s.map_or_else(|| "-".into(), |seconds| format!("{seconds:.0}")),
            capacities(0),
            capacities(1),
        ])
    };
    TextTable {
        title: Some("The workloads".into()),
        header: header(&[
            "workload",
            "page",
            "accesses",
            "writes, %",
            "footprint",
            "seconds that count",
            &format!("RAM: {}", experiment.memories.join(", ")),
            &format!("flash: {}", experiment.flashes.join(", ")),
        ]),
        rows: results.iter().filter_map(row).collect(),
        numbers_from: 1,
    }
}

/// Tabulate the version that each shipped cache is modelled after, and its settings.
fn versions(experiment: &Experiment) -> TextTable {
    let all = experiment.entrants(PageSize::DEFAULT.bytes()).unwrap_or_default();
    let shipped = all.into_iter().filter(|one| matches!(one.camp, Camp::Shipped | Camp::Tuned));
    let row = |one: Entrant| {
        let settings = one.settings;
        vec![
            one.label,
            format!("`{}`", one.policy.name),
            if settings.is_empty() { "-".into() } else { format!("`{settings}`") },
            one.version.unwrap_or_else(|| "the same".into()),
        ]
    };
    TextTable {
        title: Some("Settings and versions".into()),
        header: header(&["cache", "policy", "set beside its defaults", "modelled after"]),
        rows: shipped.map(row).collect(),
        numbers_from: 4,
    }
}

/// Return the I/O time of every cache at every size of a workload.
fn every_size(result: &WorkloadResult) -> TextTable {
    let cases = cases(std::slice::from_ref(result));
    let sizes = cases.iter().map(|case| {
        let (memory, flash) = case.sizes();
        format!("RAM {memory}, flash {flash}")
    });
    let row = |standing: Standing<'_>| {
        let times = standing.points.iter().map(|(_, point, _)| {
            let writes = flash(&point.summary).map_or(0, |tier| tier.page_writes);
            format!("{:.1} ({})", point.seconds(), grouped(writes))
        });
        [standing.label.to_owned()].into_iter().chain(times).collect()
    };
    TextTable {
        title: Some(format!("{}: I/O time in seconds (pages written to flash)", result.workload)),
        header: ["cache".to_owned()].into_iter().chain(sizes).collect(),
        rows: standings(&cases).into_iter().map(row).collect(),
        numbers_from: 1,
    }
}
