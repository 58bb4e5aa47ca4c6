//! Compares the write amplification of hot-data identifiers, per byte of their memory, when they
//! choose among the placement handles of a drive; beside no placement, and an oracle that knows
//! each page's next write.
//!
//! The writes of a trace go to a drive that its written pages fill, again and again until they are
//! four times the drive; the second half of them counts. The drive is one plane, so that every trace has
//! the same number of reclaim units; an eighth of the drive is spare. Each identifier runs as published, and
//! with a memory and a window that are `--scales` times as large. `group` chooses by the class of a page's
//! file if the trace is a recording, else by its volume.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use thermocline_core::hotness::registry;
use thermocline_core::{Nanos, Op, PageId};
use thermocline_device::ssd::{Isolation, Placement, SsdConfig};
use thermocline_lab::{DriveWrite, Placed, Streams, Watch, place};
use thermocline_trace::generate::{Generator, Options, Pattern, Shift};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::replay::compile;

/// The bundled trace.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/pgbench/pgbench.csv.zst");

/// Minimum number of times that the drive is written; half of it is warm-up.
pub(crate) const TIMES_WRITTEN: usize = 4;

/// Written pages that a trace needs to be more than a few per reclaim unit.
const PAGES_LEAST: u32 = 4096;

/// Parameters by which an identifier is made larger: all that set how much it keeps, and for how
/// long.
const SCALED: &[(&str, &[(&str, u64)])] = &[
    ("mbf", &[("filter_bits", 2048)]),
    ("mhf", &[("counters", 4096), ("decay_writes", 4096)]),
    ("dam", &[("decay_writes", 4096)]),
    ("wdac", &[("window_writes", 4096)]),
    ("two-level-lru", &[("hot_pages", 512), ("candidate_pages", 1024)]),
    ("fms", &[("hot_writes", 4096)]),
    ("count-min", &[("columns", 2048), ("window_writes", 4096)]),
];

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces besides the bundled and the generated ones
    #[arg(long)]
    trace: Vec<PathBuf>,
    /// Handles of the drive, 1 to 16 each; 1 is no placement
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16")]
    handles: Vec<u32>,
    /// Isolation of handles in garbage collection: `initial` or `persistent`
    #[arg(long, default_value = "persistent", value_parser = isolation)]
    isolation: Isolation,
    /// Factors by which the memory and the window of each identifier exceed the published ones
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    scales: Vec<u64>,
    /// Reclaim units of the drive
    #[arg(long, default_value_t = 512)]
    units: u32,
    /// Spare area of the drive, as a share of its flash from 0 to 0.9
    #[arg(long, default_value_t = 0.125)]
    spare: f64,
    /// Writes of each generated trace; 0 leaves them out
    #[arg(long, default_value_t = 1_500_000)]
    generated_writes: u64,
}

/// The writes of a trace, of pages that are numbered in the order of their first write.
struct Workload {
    name: String,
    writes: Vec<DriveWrite>,
    pages: u32,
}

/// Contender: its name, and the chooser of handles.
type Contender = (String, Option<Streams>);

/// Figures of one contender.
#[derive(Clone, Default)]
struct Figures {
    /// Per number of handles: programs for garbage collection per page written.
    copies: Vec<f64>,
    bytes: u64,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let contenders = contenders(&arguments.scales)?;
    let columns: Vec<String> =
        arguments.handles.iter().map(|handles| format!("{handles} handles")).collect();
    let columns = columns.join(" | ");
    let rule = "--- | ".repeat(arguments.handles.len() + 1);
    let mut all: Vec<Vec<Figures>> = vec![];
    for workload in workloads(arguments)? {
        if workload.pages < PAGES_LEAST {
            println!("\n{}: left out; it writes {} pages", workload.name, workload.pages);
            continue;
        }
        let none = run(&workload, arguments, 1, None)?.metrics;
        let none_copies = none.gc_copies as f64 / none.host_writes as f64;
        println!(
            "\n{}: {} writes of {} pages; write amplification without placement {:.3}\n",
            workload.name,
            workload.writes.len(),
            workload.pages,
            none.write_amplification,
        );
        println!("| identifier | bytes | {columns} |\n| --- | {rule}");
        let mut of_workload = vec![];
        for (name, streams) in &contenders {
            let figures = compare(&workload, arguments, streams.as_ref())?;
            let shown: Vec<String> =
                figures.copies.iter().map(|copies| format!("{:.3}", 1.0 + copies)).collect();
            println!("| {name} | {} | {} |", figures.bytes, shown.join(" | "));
            of_workload.push(Figures {
                copies: figures.copies.iter().map(|copies| copies / none_copies).collect(),
                ..figures
            });
        }
        if none_copies > 0.01 {
            all.push(of_workload);
        }
    }
    println!(
        "\nCopies of garbage collection, as a share of those without placement: the mean over the {} traces with any\n",
        all.len()
    );
    println!(
        "| identifier | mean bytes | {columns} | of the best: copies saved per KiB |\n| --- | --- | {rule}"
    );
    for (place, (name, _)) in contenders.iter().enumerate() {
        println!("{}", mean_row(name, all.iter().map(|traces| &traces[place]), all.len()));
    }
    Ok(())
}

/// Return a row of the last table.
fn mean_row<'a>(name: &str, figures: impl Iterator<Item = &'a Figures>, traces: usize) -> String {
    let mut sums = vec![];
    let mut bytes = 0.0;
    for one in figures {
        sums.resize(one.copies.len(), 0.0);
        sums.iter_mut().zip(&one.copies).for_each(|(sum, copies)| *sum += copies);
        bytes += one.bytes as f64;
    }
    let count = traces.max(1) as f64;
    let means: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
    let bytes = bytes / count;
    let least = means.iter().copied().fold(1.0, f64::min);
    let per_kib =
        if bytes > 0.0 { format!("{:.4}", (1.0 - least) * 1024.0 / bytes) } else { String::new() };
    let shown: Vec<String> = means.iter().map(|mean| format!("{mean:.3}")).collect();
    format!("| {name} | {bytes:.0} | {} | {per_kib} |", shown.join(" | "))
}

/// Compare one contender with every number of handles, at the same time.
fn compare(
    workload: &Workload,
    arguments: &Arguments,
    streams: Option<&Streams>,
) -> Result<Figures> {
    let placed: Vec<Result<Placed>> = std::thread::scope(|scope| {
        let started: Vec<_> = arguments
            .handles
            .iter()
            .map(|&handles| scope.spawn(move || run(workload, arguments, handles, streams)))
            .collect();
        started.into_iter().map(|one| one.join().expect("a run does not panic")).collect()
    });
    let mut figures = Figures::default();
    for one in placed {
        let Placed { metrics, placement } = one?;
        figures.copies.push(metrics.gc_copies as f64 / metrics.host_writes as f64);
        figures.bytes = figures.bytes.max(placement.identifier_bytes);
    }
    Ok(figures)
}

/// Return the writes on a drive of their size.
fn run(
    workload: &Workload,
    arguments: &Arguments,
    handles: u32,
    streams: Option<&Streams>,
) -> Result<Placed> {
    let Arguments { spare, units, isolation, .. } = *arguments;
    let config = Drive { pages: workload.pages, spare, units, isolation }.config(handles)?;
    let times = (TIMES_WRITTEN * workload.pages as usize).div_ceil(workload.writes.len());
    let writes = workload.writes.repeat(times);
    Ok(place(&writes, writes.len() / 2, &config, streams, &Watch::default())?)
}

/// A drive of one plane.
pub(crate) struct Drive {
    /// Pages that fill it.
    pub(crate) pages: u32,
    /// Spare area, as a share of its flash.
    pub(crate) spare: f64,
    /// Reclaim units.
    pub(crate) units: u32,
    /// Isolation of its handles.
    pub(crate) isolation: Isolation,
}

impl Drive {
    /// Return the configuration of this drive with a number of handles.
    pub(crate) fn config(&self, handles: u32) -> Result<SsdConfig> {
        let Self { pages, spare, units, isolation } = *self;
        let pages_per_unit = f64::from(pages) / (1.0 - spare) / f64::from(units);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number of pages"
        )]
        let pages_per_block = pages_per_unit.ceil() as u32;
        let config = SsdConfig {
            name: "one plane".into(),
            channels: 1,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 1,
            blocks_per_plane: units,
            pages_per_block,
            pages_per_program: 1,
            over_provisioning: 1.0 - f64::from(pages) / f64::from(units * pages_per_block),
            gc_threshold: 0.0,
            static_wear_threshold: 0,
            erase_limit: u32::MAX,
            placement: Some(Placement { isolation, ..Placement::of(handles) }),
            ..SsdConfig::preset("tlc-nvme")?
        };
        // The share may round a page away.
        Ok(if config.logical_pages() < pages.into() {
            SsdConfig { over_provisioning: config.over_provisioning - 1e-7, ..config }
        } else {
            config
        })
    }
}

/// Return no placement, every identifier in every scale, and the oracle.
fn contenders(scales: &[u64]) -> Result<Vec<Contender>> {
    let mut all = vec![];
    for &(name, scaled) in SCALED {
        let entry = registry::find(name)?;
        for &scale in scales {
            let given: Vec<(String, String)> = scaled
                .iter()
                .map(|&(parameter, value)| (parameter.to_owned(), (value * scale).to_string()))
                .collect();
            let streams = Streams::Identifier(entry, entry.values(&given)?);
            let shown = if scale == 1 { name.to_owned() } else { format!("{name} x {scale}") };
            all.push((shown, Some(streams)));
        }
    }
    all.push(("group".to_owned(), Some(Streams::Class)));
    all.push(("oracle".to_owned(), Some(Streams::Oracle)));
    Ok(all)
}

fn workloads(arguments: &Arguments) -> Result<Vec<Workload>> {
    let page_size = PageSize::DEFAULT;
    let mut all = vec![written("bundled", &compile(BUNDLED.as_ref(), page_size)?)?];
    for path in &arguments.trace {
        let name = path.file_name().context("a trace is a file")?.to_string_lossy();
        all.push(written(&name, &compile(path, page_size)?)?);
    }
    if arguments.generated_writes == 0 {
        return Ok(all);
    }
    let base = Options {
        requests: arguments.generated_writes,
        pages: 100_000,
        write_share: 1.0,
        interarrival: Nanos(1000),
        scatter: true,
        ..Options::default()
    };
    let moving = Shift { every_requests: arguments.generated_writes / 6, pages: 100_000 / 3 };
    for (name, options) in [
        ("uniform", Options { pattern: Pattern::Uniform, ..base }),
        ("Zipf 0.9", Options { pattern: Pattern::Zipf { alpha: 0.9 }, ..base }),
        (
            "Zipf 1.1, a hot set that moves",
            Options { pattern: Pattern::Zipf { alpha: 1.1 }, shift: Some(moving), ..base },
        ),
    ] {
        let trace = CompiledTrace::compile(&mut Generator::new(options)?, page_size)?;
        all.push(written(name, &trace)?);
    }
    Ok(all)
}

/// Return the writes of a trace.
fn written(name: &str, trace: &CompiledTrace) -> Result<Workload> {
    let groups = trace.class_groups().unwrap_or_else(|_| trace.volume_groups());
    let mut ids = HashMap::new();
    let mut writes = vec![];
    for access in (0..trace.len()).map(|index| trace.access(index)) {
        if access.op == Op::Write {
            let next = u32::try_from(ids.len())?;
            let page = PageId(*ids.entry(access.page).or_insert(next));
            let group = groups[access.page.index()];
            writes.push(DriveWrite { group, ..DriveWrite::of(page) });
        }
    }
    Ok(Workload { name: name.to_owned(), writes, pages: u32::try_from(ids.len())? })
}

fn isolation(text: &str) -> Result<Isolation, String> {
    match text {
        "initial" => Ok(Isolation::Initial),
        "persistent" => Ok(Isolation::Persistent),
        _ => Err("there are `initial` and `persistent`".into()),
    }
}
