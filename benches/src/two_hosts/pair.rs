//! A client host and a server host, and a trace that is replayed on the client.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use thermocline_core::{Access as PageAccess, Op};
use thermocline_engine::Storage as _;
use thermocline_nbd::backing::{Access, NbdBacking, NbdStorage};

use super::System;
use super::network::{SERVER, wire_bytes};
use crate::measure::median;
use crate::nbd::server::{self, Place, Running};

/// A disk that answers a write when its own cache has it.
const DISK: &str = "nbdkit -f -U {disk} -t 16 --filter=delay memory {size} rdelay=8ms";
/// Port of NBD, and that of the figures.
const PORT: u16 = 10809;
const FIGURES_PORT: u16 = 9469;
/// Number of writes after which the client flushes: a page that was written cannot leave it before.
const WRITES_PER_FLUSH: usize = 64;
const PATIENCE: Duration = Duration::from_secs(20);

/// Sizes of everything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) page_bytes: u32,
    /// Pages of the client's RAM, the server's RAM and its flash.
    pub(super) tiers: [u32; 3],
}

/// Figures of the measured part of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) mean_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) read_ms: f64,
    pub(super) write_ms: f64,
    pub(super) bytes_per_access: f64,
    /// Shares of the reads, by the tier that had the page: client, server's RAM, flash, disk.
    pub(super) found: [f64; 4],
}

/// Both hosts, until it is dropped. The client's goes first.
struct Pair {
    client: Running,
    _proxy: Proxy,
    _server: Running,
    _disk: Running,
}

/// A proxy that runs until it is dropped.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Return the configurations of the server and of the client.
fn configurations(system: &System, sizes: Sizes) -> [String; 2] {
    let Sizes { page_bytes, tiers } = sizes;
    let [client, ram, flash] = tiers.map(|pages| u64::from(pages) * u64::from(page_bytes));
    let both = format!("page_size = {page_bytes}\nwrite_mode = \"through\"\n");
    let clients = if system.cooperates {
        format!("[clients]\nnumber = 1\nram = {client}\n")
    } else {
        String::new()
    };
    let server = format!(
        "{both}[backing]\nnbd = \"nbd+unix:///?socket={{disk}}\"\n\
         [flash]\npath = \"{{folder}}/flash\"\nsize = {flash}\n[ram]\nsize = {ram}\n\
         [policy]\nname = \"{}\"\n{clients}\
         [nbd]\nsocket = \"{{socket}}\"\nlisten = \"127.0.0.1:{PORT}\"\n\
         [metrics]\nlisten = \"{SERVER}:{FIGURES_PORT}\"\nremote = true\n",
        system.server,
    );
    let client = format!(
        "{both}[backing]\nnbd = \"nbd://{SERVER}:{PORT}\"\ncooperate = {}\n\
         [ram]\nsize = {client}\n[policy]\nname = \"{}\"\n\
         [nbd]\nsocket = \"{{socket}}\"\n[metrics]\nlisten = \"127.0.0.1:{FIGURES_PORT}\"\n",
        system.cooperates, system.client,
    );
    [server, client]
}

impl Pair {
    fn start(
        place: &Place<'_>,
        namespace: &str,
        system: &System,
        sizes: Sizes,
        round_trip: Duration,
    ) -> Result<Self> {
        let disk = server::start(place, "disk", DISK, None)?;
        let [server, client] = configurations(system, sizes);
        let command = format!("ip netns exec {namespace} {{thermocline}} serve {{config}}");
        let server = server::start(place, "server", &command, Some(&server))?;
        // The server listens inside its host only; the proxy is what the client reaches.
        let proxy = Proxy(
            Command::new("ip")
                .args(["netns", "exec", namespace])
                .arg(std::env::current_exe().context("this program has a path")?)
                .arg("delay")
                .args([format!("{SERVER}:{PORT}"), format!("127.0.0.1:{PORT}")])
                .arg(round_trip.as_micros().to_string())
                .stdin(Stdio::null())
                .spawn()
                .context("cannot start the proxy")?,
        );
        let start = Instant::now();
        while std::net::TcpStream::connect((SERVER, PORT)).is_err() {
            ensure!(start.elapsed() < PATIENCE, "the proxy does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        let client = server::start(place, "client", "{thermocline} serve {config}", Some(&client))?;
        Ok(Self { client, _proxy: proxy, _server: server, _disk: disk })
    }
}

/// Replay accesses on a client; the first third fills the caches and is not measured.
pub(super) fn run(
    place: &Place<'_>,
    namespace: &str,
    system: &System,
    sizes: Sizes,
    round_trip: Duration,
    accesses: &[PageAccess],
) -> Result<Figures> {
    let pair = Pair::start(place, namespace, system, sizes, round_trip)?;
    let uri = pair.client.uri().parse().context("a socket has an address")?;
    let page_bytes = sizes.page_bytes as usize;
    let backing = NbdBacking::connect(uri, Access::ReadWrite)?;
    let mut disk = NbdStorage::new(backing, page_bytes)?;
    let (warming, measured) = accesses.split_at(warming(accesses.len()));
    replay(&mut disk, warming, page_bytes)?;
    let before = look()?;
    let bytes = wire_bytes()?;
    let times_ms = replay(&mut disk, measured, page_bytes)?;
    let bytes = wire_bytes()? - bytes;
    let after = look()?;
    let grew: [f64; 4] = std::array::from_fn(|tier| after[tier] - before[tier]);
    let reads: f64 = grew.iter().sum();
    let times = |op: Option<Op>| {
        let chosen = times_ms.iter().zip(measured);
        let chosen = chosen.filter(|(_, access)| op.is_none_or(|op| op == access.op));
        chosen.map(|(time, _)| *time).collect::<Vec<f64>>()
    };
    let all = times(None);
    Ok(Figures {
        mean_ms: mean(&all),
        p50_ms: median(all.clone()),
        p99_ms: percentile_99(all),
        read_ms: mean(&times(Some(Op::Read))),
        write_ms: mean(&times(Some(Op::Write))),
        bytes_per_access: bytes as f64 / measured.len() as f64,
        found: grew.map(|hits| hits / reads.max(1.0)),
    })
}

/// Return the number of accesses that fill the caches.
pub(super) const fn warming(accesses: usize) -> usize {
    accesses / 3
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / (values.len() as f64).max(1.0)
}

fn percentile_99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * 99 / 100).copied().unwrap_or(0.0)
}

/// Make accesses, one after the other, and return the time of each in milliseconds.
fn replay(disk: &mut NbdStorage, accesses: &[PageAccess], page_bytes: usize) -> Result<Vec<f64>> {
    let mut page = vec![0; page_bytes];
    let (mut times, mut writes) = (Vec::with_capacity(accesses.len()), 0);
    for access in accesses {
        let offset = u64::from(access.page.0) * page_bytes as u64;
        let start = Instant::now();
        match access.op {
            Op::Read => disk.read_at(offset, &mut page)?,
            Op::Write => disk.write_at(offset, &page)?,
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
        writes += usize::from(access.op == Op::Write);
        if writes == WRITES_PER_FLUSH {
            writes = 0;
            disk.sync()?;
        }
    }
    Ok(times)
}

/// Return the reads so far by the tier that had the page: client, server's RAM, flash, disk.
fn look() -> Result<[f64; 4]> {
    let client = status("127.0.0.1")?;
    let server = status(SERVER)?;
    let reads = |status: &Value, tier: &str| {
        status.pointer(&format!("/accesses/read/{tier}")).and_then(Value::as_f64).unwrap_or(0.0)
    };
    Ok([
        reads(&client, "ram"),
        reads(&server, "ram"),
        reads(&server, "flash"),
        reads(&server, "disk"),
    ])
}

/// Return the figures of an engine that were taken after this call.
fn status(host: &str) -> Result<Value> {
    let read = || -> Result<Value> {
        let url = format!("http://{host}:{FIGURES_PORT}/status");
        Ok(ureq::get(url).call()?.body_mut().read_json()?)
    };
    let first = read()?["uptime_s"].clone();
    let start = Instant::now();
    loop {
        let now = read()?;
        if now["uptime_s"] != first {
            return Ok(now);
        }
        ensure!(start.elapsed() < PATIENCE, "the figures of {host} do not change");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Return `true` if a program can be started.
pub(super) fn is_there(program: &str) -> bool {
    let mut version = Command::new(program);
    version.arg("-V").stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok()
}
