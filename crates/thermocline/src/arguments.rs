//! Arguments of the command line.

mod advise;
mod cache;
mod corpus;
mod explore;
mod files;
mod help;
mod kv;
mod reading;
mod shared;
mod studies;
mod traces;
mod two_tier;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Error, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use thermocline_core::Clients;
use thermocline_device::ssd::Placement;
use thermocline_lab::spec::{ParameterSpec, TierSetting, TierSpec};
use thermocline_lab::sweep::check_output;
use thermocline_lab::{Counted, RunOptions, TierSize, WarmUp};
use thermocline_papers::{STUDIES, StudyEntry};

use crate::bytes::Bytes;
pub(crate) use advise::{
    AdviceFormat, AdviseOptions, ENDURANCE_CYCLES, Have, KindWord, ListenWith,
};
pub(crate) use cache::{CacheCommand, CacheOptions};
pub(crate) use corpus::{
    CorpusCheckOptions, CorpusCommand, CorpusCompileOptions, CorpusFetchOptions, CorpusOptions,
    CorpusReportOptions, CorpusRunOptions, ManifestOptions,
};
pub(crate) use explore::ExploreOptions;
pub(crate) use help::command;
pub(crate) use kv::{KvOptions, PromptSplit};
pub(crate) use reading::{
    ColumnOptions, ObjectsAre, PartOfTrace, Reading, TencentUnit, TimeUnit, VolumesOf,
};
pub(crate) use shared::{SharedOptions, flag_of};
pub(crate) use studies::{MrcOptions, Objective, PlanFor, PlanOptions, SweepOptions};
pub(crate) use traces::{
    CaptureArguments, ClassesOptions, ConvertOptions, FitOptions, GenerateOptions, Identity,
    InfoOptions, Mmap, RecordOptions, Recorder, TraceCommand, TraceOptions, Workload,
};
pub(crate) use two_tier::{TwoTierOptions, TwoTierSpec};

/// Destination of a command's results.
const OUTPUT: &str = "Output";

/// Find out which hybrid cache (RAM, flash, disk) serves your workload best.
#[derive(Debug, Parser)]
#[command(name = "thermocline", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Parse the words of a command line.
///
/// # Errors
/// If the words are invalid, or ask for help.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(words)?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare all policies on the bundled real trace and write a report
    Demo(DemoOptions),
    /// List the policies, or one with its parameters
    Policies(PoliciesOptions),
    /// List the hot-data identifiers, or one with its parameters
    Identifiers(IdentifiersOptions),
    /// List the devices of the cost model
    Devices(DevicesOptions),
    /// List the SSDs and hard disks that queue requests
    Drives(DrivesOptions),
    /// Inspect, convert and generate traces
    Trace(TraceOptions),
    /// Replay a trace through one policy
    Simulate(SimulateOptions),
    /// Replay a trace through many policies and sizes
    Compare(CompareOptions),
    /// Explore a trace and try caches on it, in the browser
    Explore(ExploreOptions),
    /// Draw miss-ratio curves: misses of caches of many sizes, and reuse of pages
    Mrc(MrcOptions),
    /// Run every combination of traces, policies, sizes and parameters of a file into Parquet, resumable
    Sweep(SweepOptions),
    /// Run many traces of a manifest through policies and sizes, and compare policies over them
    Corpus(CorpusOptions),
    /// Find tier sizes and a policy for a budget, and write the engine's configuration
    Plan(PlanOptions),
    /// Check whether a cache has the right size and settings, and how long its flash lasts, from a trace or by listening
    Advise(AdviseOptions),
    /// Identify hot pages, and compare identifiers with a baseline
    Hot(HotOptions),
    /// Simulate write buffers in front of an SSD: hits, erases, response times, lifetime
    Buffer(BufferOptions),
    /// Simulate tiers for the KV cache of language models: hits, prefill saved, wear, price
    Kv(KvOptions),
    /// List the write buffers, or one with its parameters
    Buffers(BuffersOptions),
    /// Reproduce a study: a paper's experiments with its figures and ours, or a comparison
    Reproduce(ReproduceOptions),
    /// Run a part of a study again and check that its shipped results are right
    Artifact(ArtifactOptions),
    /// Serve a cached block device over NBD
    Serve(ServeOptions),
    /// Inspect, check, drain or discard a flash that no engine uses
    Cache(CacheOptions),
    /// Show the metrics of a running engine, live
    Top(TopOptions),
    /// Print completions for a shell, or install all completions and the man pages
    Completions(CompletionsOptions),
}

#[derive(Args, Debug)]
pub(crate) struct CompletionsOptions {
    /// The shell
    #[arg(value_enum, required_unless_present = "install")]
    pub(crate) shell: Option<Shell>,
    /// Install the completions of bash, zsh and fish, and the man pages, below this folder, such as /usr/local or ~/.local
    #[arg(long, value_name = "DIR", conflicts_with = "shell")]
    pub(crate) install: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct DemoOptions {
    /// File of the report
    #[arg(long, value_name = "FILE", default_value = "thermocline-demo.html", value_parser = to_be_written())]
    pub(crate) report: PathBuf,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PoliciesOptions {
    /// The policy to describe with its parameters; default: list all
    pub(crate) name: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct IdentifiersOptions {
    /// The identifier to describe with its parameters; default: list all
    pub(crate) name: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DevicesOptions {
    /// A TOML file of more devices: `[name]`, `read_ms`, `write_ms`, `summary`, `source`
    #[arg(long, value_name = "FILE")]
    pub(crate) devices: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DrivesOptions {
    /// Print JSON instead of tables, with every field that a TOML file can set
    #[arg(long)]
    pub(crate) json: bool,
}

/// The clients that share a hierarchy, and whose requests are whose.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Several clients")]
pub(crate) struct ClientOptions {
    /// Several clients, each with a first tier of its own, over shared tiers: a trace for each, or one trace that is split among them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(Clients::MAX)))]
    pub(crate) clients: Option<u8>,
    /// Rule by which one trace is split among the clients; default: round-robin
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) split: Option<Split>,
    /// The clients' traces share no page, even if they name the same volume and offset
    #[arg(long)]
    pub(crate) private: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Split {
    /// Request by request, in turn
    RoundRobin,
    /// Volume by volume, in order of first appearance, in turn
    Volume,
}

/// The hierarchy that a trace is replayed on.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "The hierarchy and its replay")]
pub(crate) struct HierarchyOptions {
    /// A cache tier, fastest first: ram=64MiB, ram=5% (of the footprint), flash=4x (the tier above), flash=100p (pages); or l1 to l8 instead of ram and flash
    #[arg(long = "tier", value_name = "NAME=SIZE", required = true)]
    pub(crate) tiers: Vec<TierSpec>,
    /// The device of a tier, as in flash=nvme-ssd; see `thermocline devices`
    #[arg(long = "device", value_name = "TIER=DEVICE", value_parser = TierSetting::device)]
    pub(crate) devices: Vec<TierSetting>,
    /// The costs of a tier per page, as in flash=0.09/0.03
    #[arg(long = "cost", value_name = "TIER=READ_MS/WRITE_MS", value_parser = TierSetting::cost)]
    pub(crate) costs: Vec<TierSetting>,
    /// The access time of a tier in ms, for the average response time: l2=2; default: 0.2, 2 and 10, others between
    #[arg(long = "latency", value_name = "TIER=MS", value_parser = TierSetting::latency)]
    pub(crate) latencies: Vec<TierSetting>,
    /// The price of a tier per GiB, for the cost per I/O: ram=4.5
    #[arg(long = "price", value_name = "TIER=PRICE", value_parser = TierSetting::price)]
    pub(crate) prices: Vec<TierSetting>,
    /// A TOML file of more devices
    #[arg(long = "devices", value_name = "FILE")]
    pub(crate) device_file: Option<PathBuf>,
    /// A parameter of a policy or of the identifier of --admit: name=value, or policy.name=value; see `thermocline policies NAME`
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) parameters: Vec<ParameterSpec>,
    #[command(flatten)]
    pub(crate) shared: SharedOptions,
    /// The queueing device of a tier (with --timing events): disk=st380011a, flash=mlc-sata-2011, flash=server:8 (its costs, 8 at a time); see `thermocline drives`
    #[arg(long = "model", value_name = "TIER=MODEL", value_parser = TierSetting::model)]
    pub(crate) models: Vec<TierSetting>,
    /// Leave the first accesses out of the counts: a number or a share, as in 20%
    #[arg(long, value_name = "N|%", default_value = "0")]
    pub(crate) warm_up: WarmUp,
    /// Report the figures of N equal intervals of the trace, including the warm-up
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) over_time: Option<u32>,
    /// Verify every action with the Ledger, and fail if it rejects one
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) two_tier: TwoTierOptions,
}

impl HierarchyOptions {
    /// Return the options of the runs.
    pub(crate) fn run_options(&self) -> RunOptions {
        let intervals = self.over_time.map_or(0, |intervals| intervals as usize);
        RunOptions { warm_up: self.warm_up, is_checked: self.check, intervals }
    }
}

#[derive(Args, Debug)]
pub(crate) struct SimulateOptions {
    /// The trace; with --clients, one for each if there are several
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// The policy; see `thermocline policies`; default: the combination of --ram-policy and --flash-policy
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) hierarchy: HierarchyOptions,
    #[command(flatten)]
    pub(crate) clients: ClientOptions,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Write every action of the policy to a Parquet file, including the warm-up
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = to_be_written())]
    pub(crate) actions: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CompareOptions {
    /// The trace; with --clients, one for each if there are several
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    /// The policies, separated by commas, or `all`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required_unless_present_any = ["ram_policy", "flash_policy"])]
    pub(crate) policy: Vec<String>,
    #[command(flatten)]
    pub(crate) hierarchy: HierarchyOptions,
    #[command(flatten)]
    pub(crate) clients: ClientOptions,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct HotOptions {
    /// The trace
    pub(crate) trace: PathBuf,
    /// The identifiers, separated by commas, or `all`; see `thermocline identifiers`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    pub(crate) identifier: Vec<String>,
    /// The identifier to compare with: wdac, dam or any other
    #[arg(long, value_name = "NAME", default_value = "wdac")]
    pub(crate) baseline: String,
    /// The accesses to count: writes, reads, or reads,writes
    #[arg(long, value_name = "WHAT", default_value = "writes")]
    pub(crate) count: Counted,
    /// Accesses per point of the figures over time; default: about fifty points
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) interval: Option<u64>,
    /// A parameter of an identifier: name=value, or identifier.name=value
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) parameters: Vec<ParameterSpec>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct BufferOptions {
    /// The trace
    pub(crate) trace: PathBuf,
    /// The write buffers, separated by commas, or `all`; see `thermocline buffers`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    pub(crate) policy: Vec<String>,
    /// The sizes of the buffer, separated by commas: 32MiB, 5% (of the footprint), 300p (pages)
    #[arg(long, value_name = "SIZES", value_delimiter = ',', required = true)]
    pub(crate) size: Vec<TierSize>,
    /// The drive behind the buffer: a name of `thermocline drives`, a TOML file, or none
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub(crate) ssd: String,
    /// The capacity of the drive: 4GiB, or fit (just large enough for the trace); default: its own
    #[arg(long, value_name = "SIZE")]
    pub(crate) ssd_size: Option<String>,
    /// Write to the drive before the trace: fill=0.9 (share of it, in order), overwrite=2 (times that, at random), seed=7
    #[arg(long, value_name = "HOW")]
    pub(crate) precondition: Option<String>,
    /// Give the drive placement handles: `handles=8,isolation=persistent,reclaim_unit_blocks=4`; by default, isolation is `initial` and a unit is one block
    #[arg(long, value_name = "HOW")]
    pub(crate) placement: Option<Placement>,
    /// Choose the placement handle of each write: by the hotness of its page, with an identifier (see `thermocline identifiers`), by its `volume`, by the `class` of its file, by an `oracle`, or `none`; without --placement, an identifier keeps hot and cold pages in different blocks
    #[arg(long, value_name = "NAME")]
    pub(crate) streams: Option<String>,
    /// Flush the drive after every N writes to it; a write buffer without power-loss protection is then written out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) flush_every: Option<u32>,
    /// Keep N requests outstanding instead of taking the trace's times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) closed_loop: Option<u32>,
    /// A parameter of a buffer or of the identifier of --streams: name=value, or buffer.name=value
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) parameters: Vec<ParameterSpec>,
    /// Verify every action with the Ledger, and fail if it rejects one
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct BuffersOptions {
    /// The write buffer to describe with its parameters; default: list all
    pub(crate) name: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of checking a study.
#[derive(Args, Debug)]
pub(crate) struct ArtifactOptions {
    /// The folder of the study: `study.toml`, the manifest and the results
    #[arg(value_name = "STUDY")]
    pub(crate) study: PathBuf,
    /// The folder that the paths of traces are relative to; default: that of the manifest
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Start no further trace after this time
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_080))]
    pub(crate) minutes: u64,
    /// Seed of the order in which the traces have their turns
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of traces that run at the same time; default: one per processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: Option<u32>,
    /// Print JSON instead of a line per trace
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ReproduceOptions {
    /// The study
    #[arg(value_parser = studies())]
    pub(crate) study: &'static StudyEntry,
    /// The folder that holds the traces, itself or in folders below it
    #[arg(long, value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,
    /// List the traces of the study that are found and missing, and run nothing
    #[arg(long, conflicts_with_all = ["report", "json"])]
    pub(crate) list: bool,
    /// Report only this figure of the paper, as in --figure 2
    #[arg(long, value_name = "N", conflicts_with_all = ["list", "json"])]
    pub(crate) figure: Option<u32>,
    /// Run the experiments that need no trace on the engine instead of simulating them (hca)
    #[arg(long, conflicts_with_all = ["traces", "list"])]
    pub(crate) engine: bool,
    /// Divisor of the engine's sizes and time
    #[arg(long, value_name = "N", default_value_t = 128, requires = "engine", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) scale: u32,
    /// File of the report; default: reproduce-STUDY.html
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

/// Takes the name of a study.
fn studies() -> impl TypedValueParser<Value = &'static StudyEntry> {
    let studies = STUDIES.iter().map(|study| PossibleValue::new(study.name).help(study.summary));
    PossibleValuesParser::new(studies)
        .try_map(|name| thermocline_papers::find(&name).ok_or_else(|| format!("no study `{name}`")))
}

#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Args, Debug)]
pub(crate) struct ServeOptions {
    /// The configuration, a TOML file
    pub(crate) config: Option<PathBuf>,
    /// Print a commented configuration with every key, and exit
    #[arg(long)]
    pub(crate) example_config: bool,
    /// Check the configuration, but not its devices, and exit
    #[arg(long)]
    pub(crate) check: bool,
    /// Set up the flash again, and discard its contents
    #[arg(long)]
    pub(crate) force_init: bool,
    /// Start with one device of a mirrored flash if the other one is missing or outdated
    #[arg(long)]
    pub(crate) degraded: bool,
    /// Copy a mirrored flash to its other device while clients are served, if that is blank or outdated
    #[arg(long)]
    pub(crate) resilver: bool,
}

/// Check a file that the command writes: faults of its folder are reported before anything is
/// done.
fn to_be_written() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| check_output(&path).map(|()| path))
}

/// Return a number of bytes.
fn size(text: &str) -> Result<u64, String> {
    text.parse::<Bytes>().map(|bytes| bytes.0)
}

/// Seconds between two looks, from a tenth to an hour.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .filter(|seconds| (0.1..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected a number of seconds from 0.1 to 3600".into())
}

#[derive(Args, Debug)]
pub(crate) struct TopOptions {
    /// Address at which the engine serves its metrics
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9469")]
    pub(crate) engine: String,
    /// Seconds between two updates
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print the figures of one interval, and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// The volume, if the engine serves several
    #[arg(long, value_name = "NAME")]
    pub(crate) volume: Option<String>,
}
