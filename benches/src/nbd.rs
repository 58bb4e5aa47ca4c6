//! NBD servers under the same load: ours beside nbdkit and qemu-nbd, driven by fio.
//!
//! Every server is started once per placement; each round gives every case to each of them in turn,
//! so that whatever else the machine does meets them all. What is printed is the median of the
//! rounds, and the median of the ratios to the baseline within a round.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::{Engine, Options, PolicyOptions, Shard};
use thermocline_nbd::cached::Cached;
use thermocline_nbd::server::{Export, Listen, Server, Settings};

use crate::measure::median;

/// The processors' clock ticks in `/proc`, per second: a constant of Linux's interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// What is measured.
#[derive(Args)]
pub(crate) struct Arguments {
    /// One more server: `name=command`, with `{socket}`, `{file}` and `{size}` filled in
    #[arg(long = "server", value_name = "NAME=COMMAND", value_parser = parse_server)]
    servers: Vec<Peer>,
    /// Measure only these servers, the first being the baseline
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "nbdkit-memory,ours,nbdkit-file,nbdkit-cache,qemu-nbd"
    )]
    only: Vec<String>,
    /// Measure only the cases whose names contain one of these
    #[arg(long, value_delimiter = ',', default_value = "hit")]
    cases: Vec<String>,
    /// Rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of one measurement, after one second of ramp
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Size of the export, in MiB
    #[arg(long, default_value_t = 256)]
    mib: u32,
    /// Processors that server and client are pinned to, together; one placement after the other
    #[arg(long = "cpus", default_values = ["0", "0,1"])]
    placements: Vec<String>,
}

/// The server that `ours` is: a shard whose pages are all in RAM.
#[derive(Args)]
pub(crate) struct Serve {
    /// Where to listen
    socket: PathBuf,
    /// Size of the export, in MiB
    mib: u32,
}

/// A server under test.
#[derive(Clone)]
struct Peer {
    name: String,
    command: String,
}

/// What a client does.
struct Case {
    name: &'static str,
    fio: &'static [&'static str],
    depth: u32,
}

const CASES: [Case; 10] = [
    Case { name: "hit read d1", fio: &["--rw=randread"], depth: 1 },
    Case { name: "hit read d32", fio: &["--rw=randread"], depth: 32 },
    Case { name: "hit write d1", fio: &["--rw=randwrite"], depth: 1 },
    Case { name: "hit write d32", fio: &["--rw=randwrite"], depth: 32 },
    Case { name: "hit 70/30 d1", fio: &["--rw=randrw", "--rwmixread=70"], depth: 1 },
    Case { name: "hit 70/30 d32", fio: &["--rw=randrw", "--rwmixread=70"], depth: 32 },
    Case { name: "durable write d1", fio: &["--rw=randwrite", "--fsync=1"], depth: 1 },
    Case { name: "durable write d32", fio: &["--rw=randwrite", "--fsync=1"], depth: 32 },
    Case {
        name: "zipf read d32",
        fio: &["--rw=randread", "--random_distribution=zipf:1.1"],
        depth: 32,
    },
    Case { name: "sequential read d8", fio: &["--rw=read", "--bs=256k"], depth: 8 },
];

/// One measurement.
#[derive(Clone, Copy)]
struct Figures {
    iops: f64,
    p99_us: f64,
    server_us_per_request: f64,
    client_us_per_request: f64,
}

/// A server that runs until it is dropped.
struct Running {
    process: Child,
    socket: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn parse_server(text: &str) -> Result<Peer, String> {
    let (name, command) = text.split_once('=').ok_or("it must be NAME=COMMAND")?;
    Ok(Peer { name: name.into(), command: command.into() })
}

/// Measures all cases on all servers.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("disk");
    File::create(&file)?.set_len(u64::from(arguments.mib) << 20)?;
    let peers = chosen(arguments)?;
    let is_chosen = |case: &&Case| arguments.cases.iter().any(|word| case.name.contains(word));
    let cases: Vec<&Case> = CASES.iter().filter(is_chosen).collect();
    ensure!(!cases.is_empty(), "no case has such a name");
    for cpus in &arguments.placements {
        println!("server and client on processors {cpus}");
        let running: Vec<Running> = peers
            .iter()
            .map(|peer| start(peer, cpus, folder.path(), &file, arguments.mib))
            .collect::<Result<_>>()?;
        for server in &running {
            let preload = Case { name: "fill", fio: &["--rw=write", "--bs=256k"], depth: 8 };
            measure(server, &preload, cpus, arguments)?;
        }
        let mut figures: BTreeMap<(usize, usize), Vec<Figures>> = BTreeMap::new();
        for _ in 0..arguments.rounds {
            for (row, case) in cases.iter().enumerate() {
                for (column, server) in running.iter().enumerate() {
                    let found = measure(server, case, cpus, arguments)?;
                    figures.entry((row, column)).or_default().push(found);
                }
            }
        }
        for (row, case) in cases.iter().enumerate() {
            println!("  {}", case.name);
            for (column, peer) in peers.iter().enumerate() {
                print_row(&peer.name, &figures[&(row, column)], &figures[&(row, 0)]);
            }
        }
    }
    Ok(())
}

fn print_row(name: &str, figures: &[Figures], baseline: &[Figures]) {
    let of = |value: fn(&Figures) -> f64| median(figures.iter().map(value).collect());
    let ratios = figures.iter().zip(baseline).map(|(this, other)| this.iops / other.iops);
    let cpu = |it: &Figures| it.server_us_per_request + it.client_us_per_request;
    let cpu_ratios = figures.iter().zip(baseline).map(|(this, other)| cpu(other) / cpu(this));
    println!(
        "    {name:14} {:8.0} IOPS  x{:.2}   p99 {:6.0} us   CPU per request: server {:5.2} us, \
         client {:5.2} us, x{:.2} less",
        of(|it| it.iops),
        median(ratios.collect()),
        of(|it| it.p99_us),
        of(|it| it.server_us_per_request),
        of(|it| it.client_us_per_request),
        median(cpu_ratios.collect()),
    );
}

/// The servers that are asked for and installed.
fn chosen(arguments: &Arguments) -> Result<Vec<Peer>> {
    let exe = std::env::current_exe().context("cannot find this program")?;
    let ours = format!("{} serve {{socket}} {{mib}}", exe.display());
    let mut known = arguments.servers.clone();
    for (name, command) in [
        ("ours", ours.as_str()),
        ("nbdkit-memory", "nbdkit -f -U {socket} memory {size}"),
        ("nbdkit-file", "nbdkit -f -U {socket} file {file}"),
        ("nbdkit-cache", "nbdkit -f -U {socket} --filter=cache file {file}"),
        ("qemu-nbd", "qemu-nbd -t -f raw -k {socket} {file}"),
        ("qemu-none", "qemu-nbd -t -f raw --cache=none --aio=io_uring -k {socket} {file}"),
    ] {
        known.push(Peer { name: name.into(), command: command.into() });
    }
    let mut peers = vec![];
    let mut names = arguments.only.clone();
    names.extend(arguments.servers.iter().map(|peer| peer.name.clone()));
    for name in names {
        let Some(peer) = known.iter().find(|peer| peer.name == name) else {
            bail!("there is no server `{name}`; --server {name}=COMMAND makes one");
        };
        let program = peer.command.split_whitespace().next().unwrap_or_default();
        let asked = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if name != "ours" && asked.is_err() {
            println!("skipped: {name}, because `{program}` cannot be started");
            continue;
        }
        peers.push(peer.clone());
    }
    ensure!(!peers.is_empty(), "no server is left");
    Ok(peers)
}

fn start(peer: &Peer, cpus: &str, folder: &Path, file: &Path, mib: u32) -> Result<Running> {
    let socket = folder.join(format!("{}.sock", peer.name));
    // A server that was killed leaves its socket behind.
    drop(std::fs::remove_file(&socket));
    let expand = |word: &str| {
        word.replace("{socket}", &socket.display().to_string())
            .replace("{file}", &file.display().to_string())
            .replace("{size}", &format!("{mib}M"))
            .replace("{mib}", &mib.to_string())
    };
    let process = Command::new("taskset")
        .args(["-c", cpus])
        .args(peer.command.split_whitespace().map(expand))
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start `{}`", peer.command))?;
    let running = Running { process, socket };
    let start = Instant::now();
    while !running.socket.exists() {
        ensure!(start.elapsed() < Duration::from_secs(20), "`{}` does not listen", peer.command);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(running)
}

fn measure(server: &Running, case: &Case, cpus: &str, arguments: &Arguments) -> Result<Figures> {
    let before_us = cpu_us(server.process.id())?;
    let output = Command::new("fio")
        .args(["--name=case", "--ioengine=nbd", "--time_based", "--output-format=json"])
        .args(["--bs=4k", "--ramp_time=1", &format!("--cpus_allowed={cpus}")])
        .arg(format!("--uri=nbd+unix:///?socket={}", server.socket.display()))
        .arg(format!("--size={}M", arguments.mib))
        .arg(format!("--runtime={}", arguments.seconds))
        .arg(format!("--iodepth={}", case.depth))
        .args(case.fio)
        .output()
        .context("cannot start fio")?;
    let after_us = cpu_us(server.process.id())?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "fio failed:\n{said}\n{:?}", output.stderr);
    // Warnings come before the report.
    let report = said.find('{').map(|start| &said[start..]).context("fio reports nothing")?;
    let report: serde_json::Value = serde_json::from_str(report)?;
    let job = &report["jobs"][0];
    let number = |path: &str| job.pointer(path).and_then(serde_json::Value::as_f64);
    let sum = |path: &str| {
        ["/read", "/write"].iter().filter_map(|op| number(&format!("{op}{path}"))).sum::<f64>()
    };
    let p99_ns = ["/read", "/write"]
        .iter()
        .filter_map(|op| number(&format!("{op}/clat_ns/percentile/99.000000")))
        .fold(0.0, f64::max);
    let iops = sum("/iops");
    let seconds = number("/job_runtime").context("fio reports no time")? / 1000.0;
    let client_share = sum_of(&[number("/usr_cpu"), number("/sys_cpu")]) / 100.0;
    // The ramp is part of what the server did; its rate was the same.
    let requests = iops * (seconds + 1.0);
    Ok(Figures {
        iops,
        p99_us: p99_ns / 1000.0,
        server_us_per_request: (after_us - before_us) / requests,
        client_us_per_request: client_share * 1e6 / iops,
    })
}

fn sum_of(parts: &[Option<f64>]) -> f64 {
    parts.iter().flatten().sum()
}

/// The processor time that a process has had, its ended threads included, in microseconds.
fn cpu_us(process: u32) -> Result<f64> {
    let stat =
        std::fs::read_to_string(format!("/proc/{process}/stat")).context("the server has ended")?;
    // The name, in parentheses, may hold blanks; user and system time are fields 14 and 15.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|it| it.parse::<f64>().ok()).sum();
    Ok(ticks * 1e6 / TICKS_PER_SECOND)
}

/// Serves a shard whose pages are all in RAM, until it is killed.
pub(crate) fn serve(arguments: &Serve) -> Result<()> {
    let pages = arguments.mib << 8;
    let options = Options::new(pages, pages, 0, PolicyOptions::named("lru")?);
    let shard = Shard::new(options)?;
    let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), (pages as usize) << 12);
    let service = Cached::new(Engine::new(shard, driver));
    let exports = vec![Export { info: service.info("", "all in RAM"), service }];
    let mut server = Server::new(Settings::default(), exports)?;
    server.listen(Listen::Unix(arguments.socket.clone()))?;
    Ok(server.run(|_| ())?)
}
