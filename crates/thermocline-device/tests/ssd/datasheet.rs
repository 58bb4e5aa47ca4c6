//! The presets against the data sheets that their rows quote.

use thermocline_core::Nanos;
use thermocline_device::queueing::{DeviceOp, DeviceRequest};
use thermocline_device::ssd::{Datasheet, Precondition, Ssd, SsdConfig};

use super::{Random, assert_close, closed_loop, request};

/// Maximum relative distance of a measured figure from the stated one.
const TOLERANCE: f64 = 0.15;

/// Bytes of a sequential request.
const SEQUENTIAL_BYTES: u32 = 128 << 10;

/// Return a drive with fewer and smaller blocks, which fills quickly. Its write amplification is that of
/// `config`, because it has the same share of spare area, apart from the blocks that every plane keeps empty.
fn small(config: &SsdConfig) -> SsdConfig {
    const BLOCKS: u32 = 40;
    // Free blocks, and on average half of the open ones for the host and for copies.
    let reserved = 3.0;
    let reserved_more =
        reserved / f64::from(BLOCKS) - reserved / f64::from(config.blocks_per_plane);
    SsdConfig {
        blocks_per_plane: BLOCKS,
        pages_per_block: (config.pages_per_block / 16).max(4 * config.pages_per_program),
        over_provisioning: config.over_provisioning + reserved_more,
        gc_threshold: 0.0,
        ..config.clone()
    }
}

/// Full, and written in order.
fn filled(config: &SsdConfig) -> Ssd {
    let mut drive = Ssd::new(&small(config), None).unwrap();
    drive.precondition(&Precondition { fill: 1.0, ..Precondition::FRESH }).unwrap();
    drive
}

/// Megabytes per second of sequential requests, after so many that a buffer is full.
fn bandwidth(drive: &mut Ssd, op: DeviceOp, depth: usize, bytes: u64) -> f64 {
    let page_bytes = drive_page_bytes(drive);
    let pages = SEQUENTIAL_BYTES / page_bytes;
    let requests = bytes / u64::from(SEQUENTIAL_BYTES);
    let last = drive.logical_pages() / u64::from(pages);
    let next = (0..requests).map(|number| request(op, number % last * u64::from(pages), pages));
    let took_ns = timed(drive, depth, next);
    bytes as f64 * 1e3 / took_ns
}

fn drive_page_bytes(drive: &Ssd) -> u32 {
    drive.metrics().page_bytes
}

/// Keeps requests outstanding from now on; for how long, in nanoseconds.
fn timed(drive: &mut Ssd, depth: usize, requests: impl Iterator<Item = DeviceRequest>) -> f64 {
    // The remaining work of earlier requests is done first.
    let mut completed = vec![];
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut completed).unwrap();
    }
    let start_ns = drive.metrics().elapsed_ns;
    closed_loop_from(drive, Nanos(start_ns), depth, requests) - start_ns as f64
}

fn closed_loop_from(
    drive: &mut Ssd,
    start: Nanos,
    depth: usize,
    mut requests: impl Iterator<Item = DeviceRequest>,
) -> f64 {
    let (mut completed, mut last_ns) = (vec![], 0);
    for request in requests.by_ref().take(depth) {
        drive.submit(start, request).unwrap();
    }
    let mut outstanding = depth;
    while let Some(at) = drive.next_event().filter(|_| outstanding > 0) {
        drive.advance(at, &mut completed).unwrap();
        for completion in completed.drain(..) {
            last_ns = completion.at.0;
            match requests.next() {
                Some(request) => _ = drive.submit(completion.at, request).unwrap(),
                None => outstanding -= 1,
            }
        }
    }
    last_ns as f64
}

/// Random requests of 4 KiB per second.
fn iops(drive: &mut Ssd, op: DeviceOp, depth: usize, count: usize) -> f64 {
    let pages = 4096 / drive_page_bytes(drive);
    let places = drive.logical_pages() / u64::from(pages);
    // Other pages each time: the same ones in the same order would leave blocks without valid pages.
    let mut random = Random(drive.metrics().host_writes);
    let requests = (0..count).map(|_| request(op, random.below(places) * u64::from(pages), pages));
    let took_ns = timed(drive, depth, requests);
    count as f64 * 1e9 / took_ns
}

fn stated() -> impl Iterator<Item = (&'static SsdConfig, &'static Datasheet)> {
    SsdConfig::presets().iter().filter_map(|row| row.datasheet.as_ref().map(|sheet| (row, sheet)))
}

#[test]
fn sequential_bandwidth_is_the_data_sheets() {
    for (config, sheet) in stated() {
        for depth in [32, sheet.queue_depth as usize] {
            let what = format!("{} at depth {depth}", config.name);
            if let Some(expected) = sheet.sequential_read_mb_per_s {
                let found = bandwidth(&mut filled(config), DeviceOp::Read, depth, 512 << 20);
                assert_close(found, expected, TOLERANCE, &format!("reads of {what}"));
            }
            if let Some(expected) = sheet.sequential_write_mb_per_s {
                let found = bandwidth(&mut filled(config), DeviceOp::Write, depth, 512 << 20);
                assert_close(found, expected, TOLERANCE, &format!("writes of {what}"));
            }
        }
    }
}

#[test]
fn no_bandwidth_exceeds_the_host_link() {
    for config in SsdConfig::presets().iter().filter(|row| row.host_link_mb_per_s > 0.0) {
        for op in [DeviceOp::Read, DeviceOp::Write] {
            for depth in [1, 32] {
                let found = bandwidth(&mut filled(config), op, depth, 64 << 20);
                let most = config.host_link_mb_per_s;
                assert!(found <= most * 1.001, "{} {op:?} at {depth}: {found}", config.name);
            }
        }
    }
}

#[test]
fn a_random_request_that_is_alone_takes_the_data_sheets_time() {
    for (config, sheet) in stated() {
        let mut drive = filled(config);
        for (op, expected) in
            [(DeviceOp::Read, sheet.read_latency_us), (DeviceOp::Write, sheet.write_latency_us)]
        {
            let Some(expected) = expected else { continue };
            let found = 1e6 / iops(&mut drive, op, 1, 2000);
            assert_close(found, expected, TOLERANCE, &format!("{} {op:?}, us", config.name));
        }
    }
}

#[test]
fn random_requests_per_second_are_the_data_sheets() {
    for (config, sheet) in stated() {
        let depth = sheet.queue_depth as usize;
        let name = &config.name;
        if let Some(expected) = sheet.random_read_iops {
            let mut drive = filled(config);
            let found = iops(&mut drive, DeviceOp::Read, depth, 50_000);
            assert_close(found, expected, TOLERANCE, &format!("reads of {name} at depth {depth}"));
            // Fewer requests do not reach every die: more than a third of the peak, and less than it.
            let found = iops(&mut drive, DeviceOp::Read, 32, 50_000);
            assert!(found > expected / 3.0 && found < expected, "reads of {name} at 32: {found}");
        }
        if let Some(expected) = sheet.random_write_iops {
            let mut drive = Ssd::new(&small(config), None).unwrap();
            drive.precondition(&Precondition { fill: 1.0, overwrite: 3.0, seed: 1 }).unwrap();
            for depth in [32, depth] {
                // The first requests fill the buffer; then dies collect garbage in many turns.
                iops(&mut drive, DeviceOp::Write, depth, 10_000);
                let found = iops(&mut drive, DeviceOp::Write, depth, 200_000);
                let what = format!("writes of {name} at depth {depth}");
                assert_close(found, expected, TOLERANCE, &what);
            }
        }
    }
}

#[test]
fn sheets_out_of_range_are_refused() {
    let (config, sheet) = stated().next().unwrap();
    let bad = Datasheet { read_latency_us: Some(-1.0), ..sheet.clone() };
    let error = SsdConfig { datasheet: Some(bad), ..config.clone() }.validate().unwrap_err();
    assert!(error.to_string().contains("`read_latency_us`"), "{error}");
}

#[test]
fn a_closed_loop_is_timed_from_now_on() {
    // The helper of other tests starts at time 0, this one wherever the drive is.
    let (config, _) = stated().next().unwrap();
    let (mut one, mut other) = (filled(config), filled(config));
    let requests = || (0..500).map(|page| request(DeviceOp::Read, page * 7, 1));
    assert_eq!(
        timed(&mut one, 4, requests()).to_bits(),
        closed_loop(&mut other, 4, requests()).to_bits()
    );
}
