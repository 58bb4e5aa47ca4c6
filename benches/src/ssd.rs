//! The SSD model: how fast it runs, alone and beside SSDsim on the same trace and geometry.
//!
//! SSDsim is a program of its own; its binary is given on the command line, and the comparison is
//! left out without. It reads its parameters from `page.parameters` and the trace's name from
//! standard input; both are written here.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use thermocline_core::{Nanos, registry};
use thermocline_device::queueing::{DeviceOp, DeviceRequest};
use thermocline_device::ssd::{Precondition, Ssd, SsdConfig};
use thermocline_lab::{Arrivals, BufferConfiguration, BufferedSsd, TierSize, Watch, run_buffer};
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};

use crate::measure::{median, seconds};

/// Nanoseconds of a day.
const DAY_NS: u64 = 86_400_000_000_000;

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The binary of SSDsim; the comparison is left out without
    #[arg(long)]
    ssdsim: Option<std::path::PathBuf>,
    /// Requests of the day on a drive of 64 GiB
    #[arg(long, default_value_t = 4_000_000)]
    requests: u64,
    /// Requests of the comparison
    #[arg(long, default_value_t = 1_000_000)]
    compared_requests: u64,
    /// Runs of which the median is taken
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    for preset in ["tlc-nvme", "slc-2008"] {
        day(arguments, preset)?;
    }
    match &arguments.ssdsim {
        Some(binary) => compare(arguments, binary),
        None => {
            println!("\nSSDsim: left out; give its binary with --ssdsim");
            Ok(())
        }
    }
}

/// Run a day of requests on a drive of 64 GiB, full at the start: in time, and without.
fn day(arguments: &Arguments, preset: &str) -> Result<()> {
    let config = SsdConfig::preset(preset)?;
    let config = config.sized_for((64 << 30) / config.page_size_bytes())?;
    let options = Options {
        pattern: Pattern::Zipf { alpha: 0.9 },
        requests: arguments.requests,
        pages: config.logical_pages() / 2,
        write_share: 0.5,
        interarrival: Nanos(DAY_NS / arguments.requests.max(1)),
        scatter: true,
        ..Options::default()
    };
    let page_size = PageSize::new(config.page_size_bytes())?;
    let trace = CompiledTrace::compile(&mut Generator::new(options)?, page_size)?;
    let fresh = || -> Result<Ssd> {
        let mut drive = Ssd::new(&config, None)?;
        drive.precondition(&Precondition { fill: 1.0, overwrite: 0.0, seed: 1 })?;
        Ok(drive)
    };
    let (mut timed, mut untimed) = (vec![], vec![]);
    let (mut operations, mut memory_bytes) = (0, 0);
    for _ in 0..arguments.runs.max(1) {
        let mut drive = fresh()?;
        timed.push(seconds(|| replay_timed(&trace, &mut drive))?);
        let metrics = drive.metrics();
        operations = metrics.host_reads + metrics.host_writes + metrics.gc_copies;
        operations += metrics.wear_copies;
        memory_bytes = drive.memory_bytes();
        let mut drive = fresh()?;
        untimed.push(seconds(|| replay_untimed(&trace, &mut drive))?);
    }
    let (timed, untimed) = (median(timed), median(untimed));
    let flash_pages = config.logical_pages() as f64 / (1.0 - config.over_provisioning);
    println!(
        "{preset}, 64 GiB, one day of {} requests: {:.2} million page operations/s in time ({:.2} million requests/s); without time {:.1} times as fast; {:.1} bytes per flash page",
        arguments.requests,
        operations as f64 / timed / 1e6,
        arguments.requests as f64 / timed / 1e6,
        timed / untimed,
        memory_bytes as f64 / flash_pages,
    );
    Ok(())
}

fn requests(trace: &CompiledTrace) -> impl Iterator<Item = (Nanos, DeviceRequest)> + '_ {
    let geometry = trace.geometry();
    let ids = 0..trace.len();
    let times = trace.requests().map(|request| request.at);
    ids.zip(times).map(move |(index, at)| {
        let access = trace.access(index);
        let op = match access.op {
            thermocline_core::Op::Read => DeviceOp::Read,
            thermocline_core::Op::Write => DeviceOp::Write,
        };
        (at, DeviceRequest { op, page: geometry.page_number(access.page), pages: 1 })
    })
}

fn replay_timed(trace: &CompiledTrace, drive: &mut Ssd) -> Result<()> {
    let mut completed = vec![];
    for (at, request) in requests(trace) {
        drive.advance(at, &mut completed)?;
        completed.clear();
        drive.submit(at, request)?;
    }
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut completed)?;
        completed.clear();
    }
    Ok(())
}

fn replay_untimed(trace: &CompiledTrace, drive: &mut Ssd) -> Result<()> {
    for (_, request) in requests(trace) {
        drive.apply(request)?;
    }
    Ok(())
}

/// Compare the same trace and geometry through SSDsim and through the model, both from the file on.
fn compare(arguments: &Arguments, binary: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let options = Options {
        pattern: Pattern::Uniform,
        requests: arguments.compared_requests,
        pages: 400 << 10,
        write_share: 0.77,
        interarrival: Nanos(500_000),
        ..Options::default()
    };
    let path = folder.path().join("trace.ssdsim");
    std::fs::write(&path, ssdsim_trace(options)?)?;
    let config =
        SsdConfig { gc_threshold: 0.10, over_provisioning: 0.20, ..SsdConfig::preset("ssdsim")? };
    let config = config.sized_for(400 << 10)?;
    std::fs::write(folder.path().join("page.parameters"), ssdsim_parameters(&config))?;
    let binary = binary.canonicalize().context("the binary of SSDsim")?;
    let (mut ours, mut model, mut theirs) = (vec![], vec![], vec![]);
    for _ in 0..arguments.runs.max(1) {
        theirs.push(seconds(|| run_ssdsim(&binary, folder.path()))?);
        let mut trace = None;
        let reading = seconds(|| {
            let mut reader = Reader::open(&path, &ReadOptions::default())?;
            trace = Some(CompiledTrace::compile(&mut reader, PageSize::new(2048)?)?);
            Ok(())
        })?;
        let trace = trace.context("the trace was compiled")?;
        let replay = seconds(|| run_ours(&trace, &config))?;
        model.push(replay);
        ours.push(reading + replay);
    }
    let (ours, model, theirs) = (median(ours), median(model), median(theirs));
    println!(
        "\nSSDsim's geometry, {} requests of 2 KiB, 77 % writes: SSDsim {:.0} requests/s; {:.1} times as fast from file to result, {:.1} times for the run alone",
        arguments.compared_requests,
        arguments.compared_requests as f64 / theirs,
        theirs / ours,
        theirs / model,
    );
    Ok(())
}

/// Run an LRU buffer of 128 KiB, as SSDsim has.
fn run_ours(trace: &CompiledTrace, config: &SsdConfig) -> Result<()> {
    let configuration = BufferConfiguration {
        policy: registry::find_buffer("lru")?,
        parameters: vec![],
        size: TierSize::Pages(64.0),
        ssd: Some(BufferedSsd::new(config.clone())),
        arrivals: Arrivals::Trace,
    };
    let summary = run_buffer(trace, &configuration, false, &Watch::default())?;
    ensure!(summary.ssd.is_some(), "the drive was run");
    Ok(())
}

/// `nanoseconds device sector sectors op`, the last line without an end, as SSDsim reads it. It never
/// serves the last line, and needs it to lie far behind what is queued.
fn ssdsim_trace(options: Options) -> Result<String> {
    let mut generator = Generator::new(options)?;
    let trace = CompiledTrace::compile(&mut generator, PageSize::new(2048)?)?;
    let mut text = String::new();
    let mut last = 0;
    for (at, request) in requests(&trace) {
        let op = u8::from(request.op == DeviceOp::Read);
        writeln!(text, "{} 0 {} 4 {op}", at.0, request.page * 4)?;
        last = at.0;
    }
    write!(text, "{} 0 0 4 0", last + 1_000_000_000_000)?;
    Ok(text)
}

/// Return the parameter file of SSDsim for a geometry, without its advanced commands, of which some
/// end the program when it collects garbage.
fn ssdsim_parameters(config: &SsdConfig) -> String {
    let [channels, chips] = [config.channels, config.chips_per_channel];
    let mut lines = vec!["dram capacity = 131072".to_owned()];
    lines.extend((0..channels).map(|channel| format!("chip number[{channel}] = {chips}")));
    let ns = |us: f64| (us * 1000.0).round().to_string();
    let settings = [
        ("channel number", channels.to_string()),
        ("chip number", (channels * chips).to_string()),
        ("die number", config.dies_per_chip.to_string()),
        ("plane number", config.planes_per_die.to_string()),
        ("block number", config.blocks_per_plane.to_string()),
        ("page number", config.pages_per_block.to_string()),
        ("subpage page", (config.page_bytes / 512).to_string()),
        ("page capacity", config.page_bytes.to_string()),
        ("subpage capacity", "512".into()),
        ("t_PROG", ns(config.program_us[0])),
        ("t_DBSY", "50".into()),
        ("t_BERS", ns(config.erase_us)),
        ("t_R", ns(config.read_us[0])),
        ("t_WC", "25".into()),
        ("t_RC", "25".into()),
        ("t_WB", "100".into()),
        ("erase limit", config.erase_limit.to_string()),
        ("address mapping", "1".into()),
        ("wear leveling", "1".into()),
        ("gc", "1".into()),
        ("overprovide", config.over_provisioning.to_string()),
        ("gc threshold", config.gc_threshold.to_string()),
        ("buffer management", "0".into()),
        ("scheduling algorithm", "1".into()),
        ("gc hard threshold", config.gc_threshold.to_string()),
        ("allocation", "0".into()),
        ("static_allocation", "2".into()),
        ("dynamic_allocation", "0".into()),
        ("advanced command", "0".into()),
        ("advanced command priority", "0".into()),
        ("greed CB command", "0".into()),
        ("greed MPW command", "1".into()),
        ("aged", "0".into()),
        ("aged ratio", "0.7".into()),
        ("queue_length", config.queue_depth.to_string()),
    ];
    lines.extend(settings.map(|(name, value)| format!("{name} = {value}")));
    lines.join(";\n") + ";\n"
}

/// Runs SSDsim in a folder that holds its parameters and the trace. Its exit code says nothing.
fn run_ssdsim(binary: &Path, folder: &Path) -> Result<()> {
    let mut child = Command::new(binary)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("SSDsim does not start")?;
    let mut stdin = child.stdin.take().context("SSDsim takes no input")?;
    std::io::Write::write_all(&mut stdin, b"trace.ssdsim\n")?;
    drop(stdin);
    child.wait()?;
    let statistics = std::fs::read_to_string(folder.join("statistic10.dat"));
    ensure!(statistics.is_ok_and(|text| text.contains("erase count")), "SSDsim left no statistics");
    Ok(())
}
