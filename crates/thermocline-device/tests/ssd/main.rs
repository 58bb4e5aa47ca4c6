//! The solid-state drive against closed forms, published figures, a naive drive and bad input.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod buffer;
mod config;
mod datasheet;
mod gc;
mod mapping_unit;
mod model;
mod placement;
mod slc;
mod suspension;
mod time;
mod wear;

use thermocline_core::Nanos;
use thermocline_device::queueing::{Completion, DeviceOp, DeviceRequest};
use thermocline_device::ssd::{Ssd, SsdConfig};

/// Numbers that look random and are the same everywhere (`SplitMix64`).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn preset(name: &str) -> SsdConfig {
    SsdConfig::preset(name).unwrap()
}

/// Return a drive with one channel, one chip, one die and one plane: 64 blocks of 16 pages, a quarter of them
/// spare. A page takes 1 us on the bus, 10 us to read, 100 us to program; an erase takes 1 ms.
fn tiny() -> SsdConfig {
    SsdConfig {
        channels: 1,
        chips_per_channel: 1,
        dies_per_chip: 1,
        planes_per_die: 1,
        blocks_per_plane: 64,
        pages_per_block: 16,
        page_bytes: 1000,
        over_provisioning: 0.25,
        read_us: vec![10.0],
        program_us: vec![100.0],
        erase_us: 1000.0,
        command_ns: 0,
        bus_ns_per_byte: 1.0,
        copyback: false,
        queue_depth: 32,
        gc_threshold: 0.1,
        static_wear_threshold: 0,
        ..preset("slc-2008")
    }
}

/// Return a drive with two channels of two chips with two dies of two planes, each as in [`tiny`].
fn wide() -> SsdConfig {
    SsdConfig { channels: 2, chips_per_channel: 2, dies_per_chip: 2, planes_per_die: 2, ..tiny() }
}

fn drive(config: &SsdConfig) -> Ssd {
    Ssd::new(config, None).unwrap()
}

const fn request(op: DeviceOp, page: u64, pages: u32) -> DeviceRequest {
    DeviceRequest { op, page, pages }
}

const fn read(page: u64) -> DeviceRequest {
    request(DeviceOp::Read, page, 1)
}

const fn write(page: u64) -> DeviceRequest {
    request(DeviceOp::Write, page, 1)
}

fn apply_all(drive: &mut Ssd, requests: impl IntoIterator<Item = DeviceRequest>) {
    for request in requests {
        drive.apply(request).unwrap();
    }
}

/// Writes of single pages, uniform over the first ones.
fn uniform_writes(pages: u64, count: usize, seed: u64) -> impl Iterator<Item = DeviceRequest> {
    let mut random = Random(seed);
    (0..count).map(move |_| write(random.below(pages)))
}

/// Complete everything that is left; return pairs of ticket and time in the order of completion.
fn drain(drive: &mut Ssd) -> Vec<(u64, u64)> {
    let mut completed = vec![];
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut completed).unwrap();
    }
    drive.assert_invariants();
    completed.into_iter().map(|Completion { ticket, at }| (ticket.0, at.0)).collect()
}

/// Submits requests at their times and drains the drive.
fn run(drive: &mut Ssd, requests: &[(u64, DeviceRequest)]) -> Vec<(u64, u64)> {
    for &(at, request) in requests {
        drive.submit(Nanos(at), request).unwrap();
    }
    drain(drive)
}

/// Keeps `depth` requests outstanding; the time of the last completion, in nanoseconds.
fn closed_loop(
    drive: &mut Ssd,
    depth: usize,
    requests: impl IntoIterator<Item = DeviceRequest>,
) -> f64 {
    let mut requests = requests.into_iter();
    let mut completed = vec![];
    for request in requests.by_ref().take(depth) {
        drive.submit(Nanos(0), request).unwrap();
    }
    let mut last_ns = 0;
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut completed).unwrap();
        for completion in completed.drain(..) {
            last_ns = completion.at.0;
            if let Some(request) = requests.next() {
                drive.submit(completion.at, request).unwrap();
            }
        }
    }
    drive.assert_invariants();
    last_ns as f64
}

#[track_caller]
fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let error = found / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {found} instead of {expected} ({error:+.4})");
}
