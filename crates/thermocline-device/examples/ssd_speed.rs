//! Measures the speed of the SSD model: a skewed stream on an `NVMe` drive, in time and without.
//!
//! Run with `cargo run --release --package thermocline-device --example ssd_speed [REQUESTS [WRITES
//! [GIB [PRESET]]]]`; WRITES is the share of writes. The times are those of the clock on the wall.
#![expect(clippy::print_stdout, reason = "it is what the example is for")]

use std::error::Error;
use std::time::Instant;

use thermocline_core::Nanos;
use thermocline_device::queueing::{DeviceOp, DeviceRequest};
use thermocline_device::ssd::{Precondition, Ssd, SsdConfig};

/// Requests outstanding at once.
const DEPTH: usize = 256;

/// Requests ahead whose map entries are fetched.
const PREFETCH: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().map_or(Ok(10_000_000), |text| text.parse::<usize>())?;
    let writes = arguments.next().map_or(Ok(0.5), |text| text.parse::<f64>())?;
    let gibibytes = arguments.next().map_or(Ok(64), |text| text.parse::<u64>())?;
    let preset = arguments.next().unwrap_or_else(|| "tlc-nvme".into());

    let config = SsdConfig::preset(&preset)?;
    let config = config.sized_for((gibibytes << 30) / config.page_size_bytes())?;
    let mut drive = Ssd::new(&config, None)?;
    let start = Instant::now();
    drive.precondition(&Precondition { fill: 1.0, overwrite: 0.5, seed: 1 })?;
    let seconds = start.elapsed().as_secs_f64();
    let pages = drive.logical_pages();
    println!("{preset}, {pages} pages, {} bytes of memory", drive.memory_bytes());
    println!("preconditioned at {:.2} M pages/s", 1.5 * pages as f64 / seconds / 1e6);

    let requests = skewed(pages, count, writes);
    let start = Instant::now();
    let simulated = closed_loop(&mut drive, &requests)?;
    let seconds = start.elapsed().as_secs_f64();
    let metrics = drive.metrics();
    let operations = count as f64 + (metrics.gc_copies + metrics.wear_copies) as f64;
    println!(
        "in time: {:.3} M requests/s, {:.3} M pages/s with copies; {:.3} s simulated, write \
         amplification {:.3}",
        count as f64 / seconds / 1e6,
        operations / seconds / 1e6,
        simulated.0 as f64 / 1e9,
        metrics.write_amplification
    );

    let start = Instant::now();
    for (index, &request) in requests.iter().enumerate() {
        if let Some(coming) = requests.get(index + PREFETCH) {
            drive.prefetch(coming.page);
        }
        drive.apply(request)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("without time: {:.3} M requests/s", count as f64 / seconds / 1e6);
    Ok(())
}

/// Keeps requests outstanding; when the last completes.
fn closed_loop(drive: &mut Ssd, requests: &[DeviceRequest]) -> Result<Nanos, Box<dyn Error>> {
    let mut next = DEPTH.min(requests.len());
    for &request in &requests[..next] {
        drive.submit(Nanos(0), request)?;
    }
    let (mut completed, mut last) = (vec![], Nanos(0));
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut completed)?;
        for completion in completed.drain(..) {
            last = completion.at;
            if let Some(&request) = requests.get(next) {
                drive.submit(last, request)?;
                next += 1;
                if let Some(coming) = requests.get(next + PREFETCH) {
                    drive.prefetch(coming.page);
                }
            }
        }
    }
    Ok(last)
}

/// Return the pages whose popularity falls as a power of their rank; ranks are scattered over the
/// drive.
fn skewed(pages: u64, count: usize, writes: f64) -> Vec<DeviceRequest> {
    let mut state = 0_u64;
    let mut unit = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..count)
        .map(|_| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of the pages"
            )]
            let rank = (unit().powi(3) * pages as f64) as u64;
            let op = if unit() < writes { DeviceOp::Write } else { DeviceOp::Read };
            DeviceRequest { op, page: rank.wrapping_mul(0x9E37_79B1) % pages, pages: 1 }
        })
        .collect()
}
