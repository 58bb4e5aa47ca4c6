//! The HCA paper's real system, on the engine: random read and OLTP by fio over a slow disk, with RAM
//! alone and with a flash tier, scaled down.
//!
//! The sizes of Tables I and II are divided by a factor, and so is the time: a disk of the same speed
//! then goes through the working set as often as the paper's did.

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::nbd::groups::Clients;
use crate::nbd::server::{self, Place};

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Divide the paper's sizes (2 GiB of RAM, 32 of SSD, 10 of working set) and six hours by this
    #[arg(long, default_value_t = 128)]
    scale: u32,
    /// Points over time
    #[arg(long, default_value_t = 12)]
    points: u32,
    /// Processors that server and client are pinned to
    #[arg(long, default_value = "0,1")]
    cpus: String,
}

/// The paper's hours, in seconds.
const DURATION_S: u32 = 6 * 3600;
/// The paper's sizes, in MiB.
const RAM_MIB: u32 = 2 << 10;
const SSD_MIB: u32 = 32 << 10;
const WORKING_SET_MIB: u32 = 10 << 10;
/// The paper's prices of disk and SSD.
const DISK_PRICE: f64 = 195.0;
const SSD_PRICE: f64 = 55.0;

/// A disk that serves one request at a time; the paper's takes 9.54 ms by its own Table I.
const DISK: &str = "nbdkit -f -U {disk} -t 1 --filter=delay memory {size} rdelay=10ms wdelay=10ms";

struct Workload {
    name: &'static str,
    fio: &'static [&'static str],
}

const WORKLOADS: [Workload; 2] = [
    Workload { name: "Random read", fio: &["--rw=randread", "--iodepth=1"] },
    // Filebench's readers and page writers; its log is a tenth of the file.
    Workload {
        name: "OLTP",
        fio: &["--rw=randrw", "--rwmixread=91", "--iodepth=210", "--random_distribution=random"],
    },
];

/// A server: its name, policy, and whether it has the SSD.
const SYSTEMS: [(&str, &str, bool); 4] = [
    ("ARC", "name = \"arc\"", false),
    (
        "ARC + L2ARC",
        "name = \"arc-l2arc\"\nparameters = { feed_ms = 1000, write_max = 1024, write_boost = 1024 }",
        true,
    ),
    ("LFU", "name = \"lfu\"", false),
    ("HCA", "name = \"hca\"", true),
];

/// Counters at one moment.
#[derive(Clone, Copy, Default)]
struct Seen {
    at_s: f64,
    /// Hits in RAM, on flash, on disk.
    found: [f64; 3],
    latency_s: f64,
    requests: f64,
}

/// Counts between two moments.
struct Interval {
    shares: [f64; 3],
    iops: f64,
    storage_iops: f64,
    latency_ms: f64,
    cost_per_io: f64,
}

/// Runs both workloads on all systems, and prints tables in Markdown.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let thermocline = server::build_thermocline()?;
    let mib = WORKING_SET_MIB / arguments.scale;
    ensure!(RAM_MIB / arguments.scale > 0, "`--scale` leaves no RAM");
    println!(
        "sizes and time divided by {}: working set {mib} MiB, RAM {} MiB, SSD {} MiB, {} s; a disk of \
         10 ms, one request at a time; pages of 8 KiB",
        arguments.scale,
        RAM_MIB / arguments.scale,
        SSD_MIB / arguments.scale,
        DURATION_S / arguments.scale,
    );
    for workload in &WORKLOADS {
        let mut summary = String::from(
            "| system | RAM hits | SSD hits | disk hits | I/O per s | storage I/O per s | latency, ms | \
             $ per I/O per s |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        let mut over_time = String::new();
        for (name, policy, has_ssd) in SYSTEMS {
            let folder = tempfile::tempdir()?;
            let place = Place {
                folder: folder.path(),
                cpus: &arguments.cpus,
                mib,
                thermocline: &thermocline,
                clients: Clients::Equal,
            };
            let seen = run(arguments, workload, policy, has_ssd, &place)
                .with_context(|| format!("{name} under {}", workload.name))?;
            let all = between(&seen[0], &seen[seen.len() - 1], has_ssd);
            writeln!(summary, "| {name} {}", row(&all))?;
            writeln!(over_time, "\n{name} over time:\n")?;
            writeln!(
                over_time,
                "| after | RAM hits | SSD hits | disk hits | I/O per s | storage I/O per s | latency, ms | $ per I/O per s |"
            )?;
            writeln!(over_time, "| --- | --- | --- | --- | --- | --- | --- | --- |")?;
            for pair in seen.windows(2) {
                let hours = pair[1].at_s * f64::from(arguments.scale) / 3600.0;
                writeln!(
                    over_time,
                    "| {hours:.1} h {}",
                    row(&between(&pair[0], &pair[1], has_ssd))
                )?;
            }
        }
        println!("\n{}\n\n{summary}{over_time}", workload.name);
    }
    Ok(())
}

fn row(interval: &Interval) -> String {
    let [ram, ssd, disk] = interval.shares.map(|share| share * 100.0);
    format!(
        "| {ram:.1} % | {ssd:.1} % | {disk:.1} % | {:.0} | {:.0} | {:.2} | {:.2} |",
        interval.iops, interval.storage_iops, interval.latency_ms, interval.cost_per_io
    )
}

fn between(earlier: &Seen, later: &Seen, has_ssd: bool) -> Interval {
    let found: [f64; 3] = std::array::from_fn(|tier| later.found[tier] - earlier.found[tier]);
    let all = found.iter().sum::<f64>().max(1.0);
    let seconds = later.at_s - earlier.at_s;
    let storage_iops = (found[1] + found[2]) / seconds;
    let price = if has_ssd { DISK_PRICE + SSD_PRICE } else { DISK_PRICE };
    let requests = (later.requests - earlier.requests).max(1.0);
    Interval {
        shares: found.map(|hits| hits / all),
        iops: all / seconds,
        storage_iops,
        latency_ms: (later.latency_s - earlier.latency_s) / requests * 1000.0,
        cost_per_io: price / storage_iops.max(1e-9),
    }
}

/// Runs a workload on a system; what its counters said at each point.
fn run(
    arguments: &Arguments,
    workload: &Workload,
    policy: &str,
    has_ssd: bool,
    place: &Place<'_>,
) -> Result<Vec<Seen>> {
    let _disk = server::start(place, "disk", DISK, None)?;
    let flash = format!(
        "[flash]\npath = \"{{folder}}/flash\"\nsize = \"{}MiB\"\n",
        SSD_MIB / arguments.scale
    );
    let port = free_port()?;
    let config = format!(
        "page_size = \"8KiB\"\n[backing]\nnbd = \"nbd+unix:///?socket={{disk}}\"\nnote = \
         \"{{folder}}/note\"\n{}[ram]\nsize = \"{}MiB\"\n[limits]\nsequential_bypass = \
         \"never\"\n[policy]\n{policy}\n[nbd]\nsocket = \"{{socket}}\"\n[metrics]\nlisten = \"127.0.0.1:{port}\"\n",
        if has_ssd { flash.as_str() } else { "" },
        RAM_MIB / arguments.scale,
    );
    let server = server::start(place, "ours", "{thermocline} serve {config}", Some(&config))?;
    let seconds = DURATION_S / arguments.scale;
    let mut client = Client(
        Command::new("fio")
            .args(["--name=hca", "--ioengine=nbd", "--bs=8k", "--norandommap", "--time_based"])
            .args(workload.fio)
            .arg(format!("--cpus_allowed={}", place.cpus))
            .arg(format!("--uri={}", server.uri()))
            .arg(format!("--size={}M", place.mib))
            .arg(format!("--runtime={}", seconds + 60))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start fio")?,
    );
    let url = format!("http://127.0.0.1:{port}/status");
    let start = Instant::now();
    let mut seen = vec![look(&url, 0.0)?];
    for point in 1..=arguments.points {
        let due = Duration::from_secs_f64(f64::from(seconds * point) / f64::from(arguments.points));
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        ensure!(client.0.try_wait()?.is_none(), "fio ended early");
        seen.push(look(&url, start.elapsed().as_secs_f64())?);
    }
    Ok(seen)
}

/// A client that runs until it is dropped.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn look(url: &str, at_s: f64) -> Result<Seen> {
    let status: Value = ureq::get(url).call()?.body_mut().read_json()?;
    let number = |path: &str| status.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
    let ops = ["read", "write"];
    let sum = |of: &dyn Fn(&str) -> f64| ops.iter().map(|op| of(op)).sum::<f64>();
    let tiers = ["ram", "flash", "disk"];
    Ok(Seen {
        at_s,
        found: tiers.map(|tier| sum(&|op| number(&format!("/accesses/{op}/{tier}")))),
        latency_s: tiers
            .iter()
            .map(|tier| sum(&|op| number(&format!("/latency/{op}/{tier}/sum_ns"))))
            .sum::<f64>()
            / 1e9,
        requests: tiers
            .iter()
            .map(|tier| sum(&|op| number(&format!("/latency/{op}/{tier}/count"))))
            .sum(),
    })
}
