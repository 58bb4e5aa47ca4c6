//! Figures over time: against a replay step by step, and how a trace is cut.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::io::Cursor;

use thermocline_core::{Action, Actions, Admission, Clients, PageCost, Tier, WriteMiss, registry};
use thermocline_device::Device;
use thermocline_lab::{
    Arrivals, Configuration, DeviceModel, IntervalSummary, LabError, RunOptions, Summary,
    TierConfiguration, TierSize, Timing, WarmUp, Watch, default_latencies_ms, run,
};
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};

/// Return a policy over tiers of these many pages, of devices of 1 ms per page; one that feeds
/// flash by the clock does so every second and a half.
fn configuration(policy: &str, pages: &[u32]) -> Configuration {
    let policy = registry::find(policy).unwrap();
    let device = Device::custom("d", PageCost { read_ms: 1.0, write_ms: 1.0 }).unwrap();
    let tier = |(index, &pages): (usize, &u32)| TierConfiguration {
        name: format!("l{}", index + 1),
        size: TierSize::Pages(f64::from(pages)),
        device: device.clone(),
    };
    let has_feed = policy.parameters.iter().any(|parameter| parameter.name == "feed_ms");
    let given = has_feed.then(|| ("feed_ms".to_owned(), "1500".to_owned()));
    Configuration {
        policy: policy.clone(),
        values: policy.values(given.as_slice()).unwrap(),
        tiers: pages.iter().enumerate().map(tier).collect(),
        disk: device.clone(),
        write_miss: WriteMiss::Fetch,
        admission: Admission::ALL,
        clients: Clients::ONE,
        latencies_ms: default_latencies_ms(pages.len()),
        prices: None,
        timing: None,
    }
}

/// Return the same with time, each tier a device that serves one page at a time.
fn timed(configuration: &Configuration) -> Configuration {
    let device = configuration.disk.clone();
    let devices = (0..=configuration.tiers.len())
        .map(|_| DeviceModel::Server { device: device.clone(), servers: Some(1) });
    let timing = Some(Timing { arrivals: Arrivals::Trace, devices: devices.collect() });
    Configuration { timing, ..configuration.clone() }
}

/// Return the requests of one to four pages of 512 bytes, half a second apart, and how many
/// accesses they are.
fn trace(requests: u64) -> CompiledTrace {
    let (mut lines, mut state) = (String::new(), 7_u64);
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for request in 0..requests {
        let page = draw(60) * draw(60) / 60;
        let (bytes, op) = (512 * (1 + draw(4)), if draw(3) == 0 { 'w' } else { 'r' });
        writeln!(lines, "0,{page},{bytes},{op},{}.{}", request / 2, request % 2 * 5).unwrap();
    }
    spc(&lines)
}

fn spc(lines: &str) -> CompiledTrace {
    let input = Cursor::new(lines.to_owned());
    let mut reader = Reader::from_read("t.spc", input, &ReadOptions::default()).unwrap();
    CompiledTrace::compile(&mut reader, PageSize::new(512).unwrap()).unwrap()
}

fn over_time(
    trace: &CompiledTrace,
    configuration: &Configuration,
    intervals: usize,
) -> Vec<IntervalSummary> {
    let options = RunOptions { intervals, is_checked: true, ..RunOptions::default() };
    run(trace, configuration, options, &Watch::default()).unwrap().over_time.unwrap().intervals
}

/// Actions of one access, and the policy's report after it.
struct Step {
    /// The tier of the hit.
    found: usize,
    /// The pages that cross each pair of neighbouring caches, downwards and upwards.
    crossings: Vec<[u64; 2]>,
    gauges: Vec<(String, String, f64)>,
    metadata_bytes: u64,
}

/// Return the specification: one access after the other.
fn steps(trace: &CompiledTrace, configuration: &Configuration) -> Vec<Step> {
    let mut policy = configuration.build(trace).unwrap();
    let caches = configuration.tiers.len();
    let mut steps = vec![];
    for request in trace.requests() {
        let mut actions = Actions::new();
        if configuration.policy.capabilities.needs_clock {
            policy.background(request.at, &mut actions);
        }
        for index in request.accesses {
            policy.access(trace.access(index), &mut actions);
            let mut step = Step {
                found: usize::MAX,
                crossings: vec![[0, 0]; caches - 1],
                gauges: vec![],
                metadata_bytes: policy.metadata_bytes() as u64,
            };
            for action in actions.as_slice() {
                match *action {
                    Action::Serve { found, .. } => step.found = found.index(),
                    Action::Copy { source, target, .. } => {
                        let (one, other) = (source.index(), target.index());
                        for pair in one.min(other)..one.max(other) {
                            if one.max(other) < caches {
                                step.crossings[pair][usize::from(other < one)] += 1;
                            }
                        }
                    }
                    Action::Drop { .. } => {}
                }
            }
            actions.clear();
            policy.gauges(&mut |name, Tier(tier), value| {
                step.gauges.push((name.to_owned(), format!("l{}", tier + 1), value));
            });
            steps.push(step);
        }
    }
    steps
}

fn crossings(steps: &[Step], direction: usize) -> Vec<u64> {
    let pairs = 0..steps[0].crossings.len();
    pairs.map(|pair| steps.iter().map(|step| step.crossings[pair][direction]).sum()).collect()
}

fn hits(steps: &[Step], tiers: usize) -> Vec<u64> {
    (0..tiers).map(|tier| steps.iter().filter(|step| step.found == tier).count() as u64).collect()
}

/// Assert that an interval is what these steps did.
#[track_caller]
fn assert_interval(interval: &IntervalSummary, steps: &[Step], tiers: usize, context: &str) {
    assert_eq!(interval.accesses, steps.len() as u64, "{context}");
    assert_eq!(interval.hits, hits(steps, tiers), "{context}");
    assert_eq!(interval.demotions, crossings(steps, 0), "{context}");
    assert_eq!(interval.promotions, crossings(steps, 1), "{context}");
    let last = steps.last().unwrap();
    assert_eq!(interval.metadata_bytes, last.metadata_bytes, "{context}");
    let gauges = interval.gauges.iter();
    let gauges = gauges.map(|gauge| (gauge.name.to_owned(), gauge.tier.clone(), gauge.value));
    assert_eq!(gauges.collect::<Vec<_>>(), last.gauges, "{context}");
}

#[test]
fn every_policy_over_time_is_what_it_does_step_by_step() {
    let trace = trace(260);
    let length = trace.len();
    for entry in registry::entries() {
        for sizes in [&[8, 16][..], &[4, 8, 16]] {
            if !entry.capabilities.depth.allows(sizes.len()) {
                continue;
            }
            let configuration = configuration(&entry.name, sizes);
            let (steps, tiers) = (steps(&trace, &configuration), sizes.len() + 1);
            for (count, warm_up) in [(1, 0), (2, 1), (7, length / 3), (length, 100)] {
                let context = format!("{} on {sizes:?}, {count} intervals", entry.name);
                let options = RunOptions {
                    warm_up: WarmUp::Accesses(warm_up as u64),
                    intervals: count,
                    is_checked: false,
                };
                let summary = run(&trace, &configuration, options, &Watch::default()).unwrap();
                let intervals = &summary.over_time.as_ref().unwrap().intervals;
                assert_eq!(intervals.len(), count, "{context}");
                let mut start = 0;
                for (number, interval) in (1..).zip(intervals) {
                    let end = length * number / count;
                    assert_eq!(interval.end_accesses, end as u64, "{context}");
                    assert_interval(interval, &steps[start..end], tiers, &context);
                    start = end;
                }
                let counted = &steps[warm_up..];
                let works = entry.name != "arc-l2arc" || crossings(counted, 0)[0] > 0;
                assert!(works, "{context}: what it does by the clock is counted");
                let totals: Vec<u64> = summary.tiers.iter().map(|tier| tier.hits).collect();
                assert_eq!(totals, hits(counted, tiers), "{context}");
                assert_eq!(summary.demotions, crossings(counted, 0), "{context}");
                assert_eq!(summary.promotions, crossings(counted, 1), "{context}");
            }
        }
    }
}

#[test]
fn a_run_over_time_finds_what_one_without_does() {
    let trace = trace(300);
    let untold = |mut summary: Summary| {
        (summary.over_time, summary.replay_seconds, summary.accesses_per_second) = (None, 0.0, 0.0);
        serde_json::to_string(&summary).unwrap()
    };
    for policy in ["lru", "arc-l2arc", "hat", "h-hfa"] {
        let configuration = configuration(policy, &[8, 16]);
        let found = [0, 9].map(|intervals| {
            let warm_up = WarmUp::Percent(30.0);
            let options = RunOptions { warm_up, intervals, is_checked: true };
            untold(run(&trace, &configuration, options, &Watch::default()).unwrap())
        });
        assert_eq!(found[0], found[1], "{policy}");
        assert!(!found[0].contains("over_time"), "what is not asked for is not told");
    }
}

#[test]
fn time_changes_neither_the_intervals_nor_the_totals() {
    let trace = trace(260);
    for entry in registry::entries() {
        let untimed = configuration(&entry.name, &[8, 16]);
        // The warm-up ends within a request.
        let inside = trace.requests().find(|request| request.accesses.len() == 4).unwrap();
        let warm_up = WarmUp::Accesses(inside.accesses.start as u64 + 2);
        let options = RunOptions { warm_up, intervals: 11, is_checked: true };
        let [timed, untimed] = [timed(&untimed), untimed]
            .map(|one| run(&trace, &one, options, &Watch::default()).unwrap());
        assert_eq!(timed.over_time, untimed.over_time, "{}", entry.name);
        for (one, other) in timed.tiers.iter().zip(&untimed.tiers) {
            assert_eq!(one.hits, other.hits, "{}", entry.name);
            assert_eq!(one.page_reads, other.page_reads, "{}", entry.name);
            assert_eq!(one.page_writes, other.page_writes, "{}", entry.name);
        }
    }
}

#[test]
fn lengths_that_do_not_divide_differ_by_one_at_most() {
    let trace = trace(40);
    let length = trace.len() as u64;
    for count in 1..=length {
        let intervals =
            over_time(&trace, &configuration("lru", &[4]), usize::try_from(count).unwrap());
        assert_eq!(intervals.len() as u64, count);
        let lengths = intervals.iter().map(|interval| interval.accesses);
        assert!(lengths.clone().all(|one| one == length / count || one == length.div_ceil(count)));
        assert_eq!(lengths.sum::<u64>(), length);
    }
    let more = over_time(&trace, &configuration("lru", &[4]), usize::MAX);
    assert_eq!(more.len() as u64, length, "as many as there are accesses");
    assert!(more.iter().all(|interval| interval.accesses == 1));
}

#[test]
fn an_interval_ends_when_its_last_request_comes() {
    // Four accesses at 3 s, two at 5 s, one at 9 s: of two intervals the first has three accesses.
    let trace = spc("0,0,2048,r,3.0\n0,0,1024,r,5.0\n0,9,512,r,9.0\n");
    let intervals = over_time(&trace, &configuration("lru", &[4]), 2);
    let ends: Vec<_> =
        intervals.iter().map(|interval| (interval.end_accesses, interval.end_s)).collect();
    assert_eq!(ends, [(3, Some(0.0)), (7, Some(6.0))]);
    let ratios: Vec<f64> = intervals.iter().map(IntervalSummary::aggregate_hit_ratio).collect();
    assert_eq!(ratios, [0.0, 0.5], "two hits of four");
    assert_eq!(intervals[1].average_response_ms.to_bits(), f64::midpoint(0.2, 10.0).to_bits());
    let ends = over_time(&trace, &configuration("lru", &[4]), 7).into_iter();
    let ends: Vec<_> = ends.map(|interval| interval.end_s.unwrap()).collect();
    assert_eq!(ends, [0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 6.0]);
    let input = Cursor::new("1\n2\n".to_owned());
    let mut reader = Reader::from_read("t.txt", input, &ReadOptions::default()).unwrap();
    let untimed = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
    let intervals = over_time(&untimed, &configuration("lru", &[4]), 2);
    assert!(intervals.iter().all(|interval| interval.end_s.is_none()));
    assert!(!serde_json::to_string(&intervals).unwrap().contains("end_s"));
}

#[test]
fn gauges_are_found_by_name_and_tier() {
    let trace = trace(300);
    let intervals = over_time(&trace, &configuration("d-hfa", &[8, 16]), 5);
    assert!(intervals.iter().all(|interval| interval.gauge("q1_pages", "l1").is_some()));
    assert_eq!(intervals[0].gauge("q1_pages", "l3"), None);
    let lru = over_time(&trace, &configuration("lru", &[8]), 5);
    assert_eq!(lru[0].gauge("q1_pages", "l1"), None);
}

#[test]
fn a_warm_up_of_all_is_refused_over_time_too() {
    let options =
        RunOptions { warm_up: WarmUp::Accesses(1_000_000), intervals: 4, ..RunOptions::default() };
    let error =
        run(&trace(10), &configuration("lru", &[4]), options, &Watch::default()).unwrap_err();
    assert!(matches!(error, LabError::WarmUpTooLong { .. }), "{error}");
}

/// The caches of the block layer see every access if there is no page cache.
#[test]
fn block_caches_run_without_memory() {
    let trace = trace(300);
    assert!(matches!("0p".parse(), Ok(TierSize::Pages(0.0))));
    for entry in registry::entries().filter(|entry| entry.capabilities.runs_without_memory) {
        let configuration = configuration(&entry.name, &[0, 30]);
        let options = RunOptions { is_checked: true, ..RunOptions::default() };
        let summary = run(&trace, &configuration, options, &Watch::default()).unwrap();
        let hits: Vec<u64> = summary.tiers.iter().map(|tier| tier.hits).collect();
        assert_eq!(hits[0], 0, "{}", entry.name);
        assert_eq!(hits[1] + hits[2], trace.len() as u64, "{}", entry.name);
    }
    let error = run(
        &trace,
        &configuration("lru-exclusive", &[0, 30]),
        RunOptions::default(),
        &Watch::default(),
    );
    assert!(error.unwrap_err().to_string().contains("at least one page"));
}
