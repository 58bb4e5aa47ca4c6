//! fio as the client, and what it reports.

use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::groups::{Beside, Case, Flood};
use super::server::{CLIENT_PRIORITY, OTHERS_PRIORITY, Place, Running};

/// Time for which a cache is warmed before a case that wants that.
const WARMING_SECONDS: u32 = 4;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) iops: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// The longest flush.
    pub(super) sync_us: f64,
    pub(super) server_us_per_request: f64,
    pub(super) client_us_per_request: f64,
}

fn command(place: &Place<'_>, server: &Running, depth: u32, priority: &str) -> Command {
    let mut command = place.client("fio", priority);
    command
        .args(["--name=case", "--ioengine=nbd", "--output-format=json", "--bs=4k", "--norandommap"])
        .arg(format!("--cpus_allowed={}", place.client_cpus()))
        .arg(format!("--uri={}", server.uri()))
        .arg(format!("--size={}M", place.mib))
        .arg(format!("--iodepth={depth}"));
    command
}

/// Start other clients.
fn start_beside(place: &Place<'_>, server: &Running, beside: Beside) -> Result<Child> {
    let mut command = match beside {
        Beside::Fio(fio) => {
            let mut command = command(place, server, 1, OTHERS_PRIORITY);
            // A job that is a process of its own would outlive the fio that is killed.
            command.args(fio).args(["--thread", "--time_based", "--runtime=600"]);
            command
        }
        Beside::Flood(Flood { bytes, is_write }) => {
            let mut command = Command::new("taskset");
            command.args(["-c", place.client_cpus()]).arg(std::env::current_exe()?);
            command.args(["flood", "--clients=64", "--depth=128", "--seconds=600"]);
            command.arg(format!("--uri={}", server.uri())).arg(format!("--bytes={bytes}"));
            command.args(is_write.then_some("--write"));
            command
        }
    };
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("cannot start the clients beside")
}

/// Gives a server a case: for so many seconds after one of ramp, or once through.
pub(super) fn run(
    place: &Place<'_>,
    server: &Running,
    case: &Case,
    seconds: Option<u32>,
) -> Result<Figures> {
    if !case.warming.is_empty() {
        let mut warming = command(place, server, 1, CLIENT_PRIORITY);
        let timed = ["--time_based".to_owned(), format!("--runtime={WARMING_SECONDS}")];
        let status = warming.args(case.warming).args(timed).stdout(Stdio::null()).status();
        ensure!(status.context("cannot start fio")?.success(), "fio failed to warm the cache");
    }
    let mut foreground = command(place, server, case.depth, CLIENT_PRIORITY);
    foreground.args(case.fio);
    let times = seconds.filter(|_| !case.is_flush).map(|seconds| {
        ["--time_based".to_owned(), "--ramp_time=1".to_owned(), format!("--runtime={seconds}")]
    });
    foreground.args(times.iter().flatten());
    let background = case.beside.map(|beside| start_beside(place, server, beside)).transpose()?;
    let before_us = server.cpu_us()?;
    let output = foreground.output().context("cannot start fio");
    let after_us = server.cpu_us()?;
    if let Some(mut background) = background {
        ensure!(background.try_wait()?.is_none(), "the clients beside it have ended too early");
        background.kill()?;
        background.wait()?;
    }
    let output = output?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "fio failed:\n{said}\n{:?}", output.stderr);
    // Warnings come before the report.
    let report = said.find('{').map(|start| &said[start..]).context("fio reports nothing")?;
    let report: Value = serde_json::from_str(report)?;
    let ramp_seconds = if times.is_some() { 1.0 } else { 0.0 };
    figures(&report["jobs"][0], after_us - before_us, ramp_seconds)
}

fn figures(job: &Value, server_us: f64, ramp_seconds: f64) -> Result<Figures> {
    let number = |path: &str| job.pointer(path).and_then(Value::as_f64);
    let both = |path: &str| ["/read", "/write"].map(|op| number(&format!("{op}{path}")));
    let iops: f64 = both("/iops").iter().flatten().sum();
    let worst = |path: &str| both(path).into_iter().flatten().fold(0.0, f64::max) / 1000.0;
    // The time of a job; `job_runtime` is the sum over all that are reported together.
    let seconds = both("/runtime").into_iter().flatten().fold(0.0, f64::max) / 1000.0;
    ensure!(seconds > 0.0, "fio reports no time");
    let client_share: f64 =
        [number("/usr_cpu"), number("/sys_cpu")].iter().flatten().sum::<f64>() / 100.0;
    // The ramp is part of what the server did; its rate was the same.
    let requests = iops * (seconds + ramp_seconds);
    Ok(Figures {
        iops,
        p50_us: worst("/clat_ns/percentile/50.000000"),
        p99_us: worst("/clat_ns/percentile/99.000000"),
        sync_us: number("/sync/lat_ns/max").unwrap_or(0.0) / 1000.0,
        server_us_per_request: server_us / requests,
        client_us_per_request: client_share * 1e6 / iops,
    })
}
