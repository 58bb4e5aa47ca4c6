//! Time in replays: closed forms, and agreement with the replay without time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Cursor;

use thermocline_core::{Admission, Clients, PageCost, WriteMiss, registry};
use thermocline_device::Device;
use thermocline_device::hdd::HddConfig;
use thermocline_device::ssd::{GcBlocks, Isolation, Placement, SsdConfig};
use thermocline_lab::{
    Arrivals, Configuration, DeviceModel, RunOptions, Streams, Summary, TierConfiguration,
    TierSsdSummary, Timing, Watch, default_latencies_ms, run,
};
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};

fn device(name: &str, read_ms: f64, write_ms: f64) -> Device {
    Device::custom(name, PageCost { read_ms, write_ms }).unwrap()
}

/// RAM of 1 us per page, flash of 100 and 200 us, a disk of 10 and 12 ms.
fn configuration(policy: &str, ram: &str, flash: &str, arrivals: Arrivals) -> Configuration {
    let policy = registry::find(policy).unwrap();
    let devices =
        [device("ram", 0.001, 0.001), device("flash", 0.1, 0.2), device("disk", 10.0, 12.0)];
    let tier = |name: &str, size: &str, device: &Device| TierConfiguration {
        name: name.into(),
        size: size.parse().unwrap(),
        device: device.clone(),
    };
    let server = |device: &Device, servers| DeviceModel::Server { device: device.clone(), servers };
    Configuration {
        policy: policy.clone(),
        values: policy.values(&[]).unwrap(),
        tiers: vec![tier("ram", ram, &devices[0]), tier("flash", flash, &devices[1])],
        disk: devices[2].clone(),
        write_miss: WriteMiss::Fetch,
        admission: Admission::ALL,
        clients: Clients::ONE,
        latencies_ms: default_latencies_ms(2),
        prices: None,
        timing: Some(Timing {
            arrivals,
            devices: vec![
                server(&devices[0], None),
                server(&devices[1], Some(1)),
                server(&devices[2], Some(1)),
            ],
        }),
    }
}

fn trace(lines: &str) -> CompiledTrace {
    let input = Cursor::new(lines.to_owned());
    let mut reader = Reader::from_read("t.spc", input, &ReadOptions::default()).unwrap();
    CompiledTrace::compile(&mut reader, PageSize::new(512).unwrap()).unwrap()
}

fn zipf() -> CompiledTrace {
    let options = Options {
        pattern: Pattern::Zipf { alpha: 0.9 },
        requests: 5_000,
        pages: 800,
        write_share: 0.4,
        ..Options::default()
    };
    CompiledTrace::compile(&mut Generator::new(options).unwrap(), PageSize::DEFAULT).unwrap()
}

/// Mean response of reads and of writes, in microseconds.
fn means(summary: &Summary) -> [f64; 2] {
    let response_us = summary.timing.as_ref().unwrap().response_us;
    [response_us.read.mean, response_us.write.mean]
}

#[track_caller]
fn assert_near(measured: f64, expected: f64) {
    assert!((measured - expected).abs() < 1e-6, "{measured} is not {expected}");
}

#[test]
fn what_is_far_apart_waits_for_nothing() {
    // A miss reads the disk and writes to RAM, then is served there; a hit is served in RAM.
    let trace = trace("0,0,512,r,0.0\n0,0,512,r,1.0\n0,0,512,w,2.0\n");
    let summary = run(
        &trace,
        &configuration("lru", "4p", "4p", Arrivals::Trace),
        RunOptions::default(),
        &Watch::default(),
    );
    let [read, write] = means(&summary.unwrap());
    assert_near(read, f64::midpoint(10_000.0 + 1.0 + 1.0, 1.0));
    assert_near(write, 1.0);
}

#[test]
fn what_comes_together_waits_for_the_disk() {
    // Three misses at once: the disk reads one after the other.
    let trace = trace("0,0,512,r,0.0\n0,10,512,r,0.0\n0,20,512,r,0.0\n");
    let closed = Arrivals::Closed { requests: 3 };
    let summary = run(
        &trace,
        &configuration("lru", "4p", "4p", closed),
        RunOptions::default(),
        &Watch::default(),
    )
    .unwrap();
    assert_near(means(&summary)[0], 20_000.0 + 2.0);
    // The disk's own reads took 10, 20 and 30 ms with their waiting; the memory's writes 1 us each.
    let devices = &summary.timing.as_ref().unwrap().devices;
    assert_near(devices[2].response_us.read.mean, 20_000.0);
    assert_near(devices[0].response_us.write.mean, 1.0);
    assert_near(devices[2].response_us.write.mean, 0.0);
    let one = Arrivals::Closed { requests: 1 };
    let summary = run(
        &trace,
        &configuration("lru", "4p", "4p", one),
        RunOptions::default(),
        &Watch::default(),
    )
    .unwrap();
    assert_near(means(&summary)[0], 10_000.0 + 2.0);
    assert_near(summary.timing.unwrap().duration_s, 0.030_006);
}

#[test]
fn a_page_on_its_way_is_waited_for() {
    // The second read finds its page in RAM to the policy, but it is still coming from the disk.
    let trace = trace("0,0,512,r,0.0\n0,0,512,r,0.004\n");
    let summary = run(
        &trace,
        &configuration("lru", "4p", "4p", Arrivals::Trace),
        RunOptions::default(),
        &Watch::default(),
    );
    let first = 10_000.0 + 2.0;
    assert_near(means(&summary.unwrap())[0], f64::midpoint(first, first + 1.0 - 4_000.0));
}

#[test]
fn a_request_is_answered_with_its_last_page() {
    let trace = trace("0,0,1536,r,0.0\n");
    let closed = Arrivals::Closed { requests: 1 };
    let summary = run(
        &trace,
        &configuration("lru", "4p", "4p", closed),
        RunOptions::default(),
        &Watch::default(),
    );
    assert_near(means(&summary.unwrap())[0], 30_000.0 + 2.0);
}

#[test]
fn cleaning_behind_an_answer_delays_the_next() {
    // RAM of one page: the second miss evicts a dirty page, whose write the third must wait for.
    let trace = trace("0,0,512,w,0.0\n0,10,512,r,1.0\n0,20,512,r,1.015\n");
    let summary = run(
        &trace,
        &configuration("lru", "1p", "4p", Arrivals::Trace),
        RunOptions::default(),
        &Watch::default(),
    );
    // Arrives at 1.015 s; the disk writes until 1.010002 + 0.000001 + 0.012 s.
    let third = 1_022_003.0 - 1_015_000.0 + 10_000.0 + 2.0;
    assert_near(means(&summary.unwrap())[0], f64::midpoint(10_002.0, third));
}

#[test]
fn a_write_through_a_cache_without_memory_waits_for_both_devices() {
    let trace = trace("0,0,512,w,0.0\n");
    let mut configuration =
        configuration("open-cas", "0p", "64p", Arrivals::Closed { requests: 1 });
    let mut write_us = |mode: &str| {
        let given = [("mode".to_owned(), mode.to_owned())];
        configuration.values = configuration.policy.values(&given).unwrap();
        let summary = run(&trace, &configuration, RunOptions::default(), &Watch::default());
        means(&summary.unwrap())[1]
    };
    // The buffer in RAM is written once, and read for each device.
    assert_near(write_us("wt"), 3.0 + 200.0 + 12_000.0);
    assert_near(write_us("wb"), 200.0);
    assert_near(write_us("wa"), 12_000.0);
}

#[test]
fn every_policy_moves_the_same_pages_with_time_and_without() {
    let trace = zipf();
    for entry in registry::entries() {
        for arrivals in [Arrivals::Trace, Arrivals::Closed { requests: 4 }] {
            // In a closed loop, time goes by as the devices have it, and not as the trace has.
            if entry.capabilities.needs_clock && arrivals != Arrivals::Trace {
                continue;
            }
            let timed = configuration(&entry.name, "40p", "160p", arrivals);
            let untimed = Configuration { timing: None, ..timed.clone() };
            let checked = RunOptions { is_checked: true, ..RunOptions::default() };
            let timed = run(&trace, &timed, checked, &Watch::default()).unwrap();
            let untimed = run(&trace, &untimed, RunOptions::default(), &Watch::default()).unwrap();
            for (one, other) in timed.tiers.iter().zip(&untimed.tiers) {
                assert_eq!(one.hits, other.hits, "{}", entry.name);
                assert_eq!(one.page_reads, other.page_reads, "{}", entry.name);
                assert_eq!(one.page_writes, other.page_writes, "{}", entry.name);
            }
            // All that the devices did is what the cost model charges.
            let timing = timed.timing.unwrap();
            let busy_ms: f64 = timing.devices.iter().map(|device| device.busy_s * 1e3).sum();
            assert!((busy_ms - untimed.io_time_ms).abs() < 1e-3, "{}: {busy_ms}", entry.name);
        }
    }
}

#[test]
fn a_hard_disk_serves_a_hierarchy_and_runs_repeat() {
    let trace = zipf();
    let mut configuration = configuration("hat", "40p", "160p", Arrivals::Closed { requests: 8 });
    let timing = configuration.timing.as_mut().unwrap();
    timing.devices[2] = DeviceModel::Hdd(Box::new(HddConfig::preset("st380011a").unwrap()));
    let results = [0, 1].map(|_| {
        let summary =
            run(&trace, &configuration, RunOptions::default(), &Watch::default()).unwrap();
        serde_json::to_string(&summary.timing).unwrap()
    });
    assert_eq!(results[0], results[1]);
    assert!(results[0].contains("st380011a"));
}

#[test]
fn requests_that_come_faster_than_the_disk_answers_pile_up() {
    let misses = |gap_ms: u32| {
        let line =
            |index: u32| format!("0,{},512,r,{}\n", index * 10, f64::from(index * gap_ms) / 1000.0);
        trace(&(0..2000).map(line).collect::<String>())
    };
    let timed = |trace: &CompiledTrace, arrivals| {
        let configuration = configuration("lru", "4p", "4p", arrivals);
        let found = run(trace, &configuration, RunOptions::default(), &Watch::default());
        found.unwrap().timing.unwrap()
    };
    // One in 20 ms, each of which takes 10 ms: half a request waits, on average.
    let found = timed(&misses(20), Arrivals::Trace);
    assert!((found.outstanding_mean - 0.5).abs() < 1e-3, "{}", found.outstanding_mean);
    assert!(!found.is_saturated());
    // One in 5 ms: the last of 2000 waits for 1000, and half as many wait on average.
    let found = timed(&misses(5), Arrivals::Trace);
    assert!((found.outstanding_mean - 500.0).abs() < 2.0, "{}", found.outstanding_mean);
    assert!(found.is_saturated());
    // So many in a closed loop are what was asked for.
    let found = timed(&misses(5), Arrivals::Closed { requests: 1000 });
    assert!(found.outstanding_mean > 700.0 && !found.is_saturated());
}

#[test]
fn what_cannot_be_is_refused() {
    let untimed = {
        let mut reader =
            Reader::from_read("t.txt", Cursor::new("1\n2\n"), &ReadOptions::default()).unwrap();
        CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap()
    };
    let error = run(
        &untimed,
        &configuration("lru", "1p", "1p", Arrivals::Trace),
        RunOptions::default(),
        &Watch::default(),
    );
    assert!(error.unwrap_err().to_string().contains("closed loop"));
}

/// Return a hierarchy whose flash is a small drive with handles.
fn placed(policy: &str, handles: u32, streams: Option<Streams>) -> Configuration {
    let config = SsdConfig {
        placement: Some(Placement { isolation: Isolation::Persistent, ..Placement::of(handles) }),
        channels: 1,
        chips_per_channel: 1,
        dies_per_chip: 1,
        planes_per_die: 1,
        page_bytes: 4096,
        pages_per_block: 8,
        over_provisioning: 0.3,
        gc_blocks: GcBlocks::Separate,
        ..SsdConfig::preset("ssdsim").unwrap()
    };
    let closed = Arrivals::Closed { requests: 4 };
    let mut configuration = configuration(policy, "20p", "200p", closed);
    let timing = configuration.timing.as_mut().unwrap();
    timing.devices[1] = DeviceModel::Ssd { config: Box::new(config), streams };
    configuration
}

fn drive_of(summary: &Summary) -> &TierSsdSummary {
    summary.timing.as_ref().unwrap().devices[1].ssd.as_ref().unwrap()
}

#[test]
fn policy_and_drive_amplify_writes_together() {
    let trace = zipf();
    for policy in ["hat", "face-gsc", "lc"] {
        let configuration = placed(policy, 1, None);
        let summary = run(&trace, &configuration, RunOptions::default(), &Watch::default());
        let summary = summary.unwrap();
        let drive = drive_of(&summary);
        // Without a warm-up, the counts of the tier are those of its drive.
        assert_eq!(drive.metrics.host_writes, summary.tiers[1].page_writes, "{policy}");
        let by_policy = drive.policy_write_amplification.unwrap();
        let written = summary.tiers[1].page_writes as f64 / trace.writes() as f64;
        assert_near(by_policy, written);
        let total = drive.total_write_amplification.unwrap();
        assert_near(total, written * drive.metrics.write_amplification);
        let placement = drive.placement.as_ref().unwrap();
        assert_eq!(placement.pages_written, [drive.metrics.host_writes]);
        assert_eq!(placement.streams, "none");
    }
}

#[test]
fn handles_of_a_flash_tier_are_chosen_in_each_way() {
    let trace = zipf();
    let run = |handles, streams: Option<Streams>| {
        let configuration = placed("face-gsc", handles, streams);
        let summary = run(&trace, &configuration, RunOptions::default(), &Watch::default());
        drive_of(&summary.unwrap()).clone()
    };
    let none = run(4, None);
    for streams in [Streams::Tier, Streams::Client, Streams::Volume, Streams::Oracle] {
        let name = streams.name();
        let placed = run(4, Some(streams));
        let placement = placed.placement.as_ref().unwrap();
        assert_eq!(placement.streams, name);
        let all: u64 = placement.pages_written.iter().sum();
        assert_eq!(all, none.metrics.host_writes, "{name}: only the handles differ");
        let used = placement.pages_written.iter().filter(|&&pages| pages > 0).count();
        match name {
            // FaCE fills its flash from RAM, and copies within it.
            "tier" => assert_eq!((used, placement.pages_written[2]), (2, 0)),
            "oracle" => assert!(used > 2, "{placement:?}"),
            _ => assert_eq!(used, 1, "{name}: there is one client and one volume"),
        }
    }
    let class = placed("face-gsc", 4, Some(Streams::Class));
    let error = run_error(&trace, &class);
    assert!(error.contains("`volume`"), "{error}");
    // The decisions of a policy that looks at the time cannot be foreseen.
    let clocked = placed("dm-writecache", 4, Some(Streams::Oracle));
    let error = run_error(&trace, &clocked);
    assert!(error.contains("`dm-writecache` decides by the time"), "{error}");
}

fn run_error(trace: &CompiledTrace, configuration: &Configuration) -> String {
    run(trace, configuration, RunOptions::default(), &Watch::default()).unwrap_err().to_string()
}
