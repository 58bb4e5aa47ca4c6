//! Arguments of `thermocline corpus`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use thermocline_lab::TierSize;
use thermocline_lab::corpus::{Shard, Split};
use thermocline_lab::spec::ParameterSpec;

use super::{HierarchyOptions, OUTPUT};
use crate::bytes::Bytes;

#[derive(Args, Debug)]
pub(crate) struct CorpusOptions {
    #[command(subcommand)]
    pub(crate) command: CorpusCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CorpusCommand {
    /// Check that every trace is there, readable and as the manifest says
    Check(CorpusCheckOptions),
    /// Copy traces to their places, or generate synthetic ones
    Fetch(CorpusFetchOptions),
    /// Decode traces once, for later runs
    Compile(CorpusCompileOptions),
    /// Run all combinations of traces, policies and sizes into a Parquet data set, resumable
    Run(Box<CorpusRunOptions>),
    /// Compare policies over the traces: distributions, ranks, intervals
    Report(CorpusReportOptions),
}

/// The manifest, and where its traces are.
#[derive(Args, Clone, Debug)]
pub(crate) struct ManifestOptions {
    /// The manifest, a TOML file
    pub(crate) manifest: PathBuf,
    /// The folder that the paths of traces are relative to; default: that of the manifest
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct CorpusCheckOptions {
    #[command(flatten)]
    pub(crate) manifest: ManifestOptions,
    /// Add the sha256, bytes, requests and objects that the manifest does not have
    #[arg(long)]
    pub(crate) write: bool,
    /// Print JSON instead of a line per trace
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CorpusFetchOptions {
    #[command(flatten)]
    pub(crate) manifest: ManifestOptions,
    /// Print JSON instead of a line per trace
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CorpusCompileOptions {
    #[command(flatten)]
    pub(crate) manifest: ManifestOptions,
    /// The folder for the compiled traces, for `corpus run --compiled`
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Print JSON instead of a line per trace
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CorpusRunOptions {
    #[command(flatten)]
    pub(crate) manifest: ManifestOptions,
    /// The policies, separated by commas, or `all`; one-tier policies run on the first tier alone
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required_unless_present = "buffer")]
    pub(crate) policy: Vec<String>,
    /// Write buffers to run as well, separated by commas, or `all`; see `thermocline buffers`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "buffer_size")]
    pub(crate) buffer: Vec<String>,
    /// The sizes of the write buffers: 32MiB, 1% (of the footprint), 300p (pages)
    #[arg(long, value_name = "SIZES", value_delimiter = ',', requires = "buffer")]
    pub(crate) buffer_size: Vec<TierSize>,
    /// A parameter of a write buffer: name=value, or buffer.name=value
    #[arg(long = "buffer-param", value_name = "NAME=VALUE", requires = "buffer")]
    pub(crate) buffer_parameters: Vec<ParameterSpec>,
    /// The drive behind the write buffers: a name of `thermocline drives`, a TOML file, or none; its capacity is just large enough for the trace
    #[arg(long, value_name = "NAME", default_value = "none", requires = "buffer")]
    pub(crate) ssd: String,
    /// Requests to the drive kept outstanding instead of arrivals at the trace's times
    #[arg(long, value_name = "N", requires = "buffer", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) buffer_closed_loop: Option<u32>,
    /// Simulate caches on a sample: `auto` (as small as each size allows), or a share of the pages, as in 0.01; default: the whole trace
    #[arg(long, value_name = "RATE")]
    pub(crate) sample: Option<String>,
    /// The seed of samples
    #[arg(long, value_name = "SEED", default_value_t = 1, requires = "sample")]
    pub(crate) sample_seed: u64,
    /// Runs of a policy that draws random numbers, each with a seed of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// Run only the traces of one side of the split: tune or hold-out
    #[arg(long, value_name = "SIDE")]
    pub(crate) split: Option<Split>,
    /// Run only these data sets, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) dataset: Vec<String>,
    /// Run one of several parts of the traces, as in 1/4
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Shard>,
    /// Folder of compiled traces, from `corpus compile`
    #[arg(long, value_name = "DIR")]
    pub(crate) compiled: Option<PathBuf>,
    /// Memory limit for traces and policies, as estimated; it bounds the number of traces in memory
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub(crate) memory: Bytes,
    /// Number of runs at once; default: one per processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: Option<u32>,
    /// Run on the Dask cluster of this scheduler, as in `tcp://HOST:8786`; needs the Python package `thermocline[cluster]`
    #[arg(long, value_name = "ADDRESS", conflicts_with = "threads")]
    pub(crate) dask: Option<String>,
    /// The Python that has the package
    #[arg(long, value_name = "PROGRAM", default_value = "python3", requires = "dask")]
    pub(crate) python: String,
    /// The folder for the results
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Print JSON instead of a sentence
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) hierarchy: HierarchyOptions,
}

#[derive(Args, Debug)]
pub(crate) struct CorpusReportOptions {
    /// The folder of the results
    pub(crate) results: PathBuf,
    /// Policies to compare with, separated by commas; default: fifo and lru, or those present of
    /// lru-inclusive, lru-exclusive and, of write buffers, none
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) baseline: Vec<String>,
    /// The figures to compare, separated by commas, as in `miss_ratio,io_time_ms`; default: all that the results have
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) metric: Vec<String>,
    /// Compare only the traces of one side of the split: tune or hold-out
    #[arg(long, value_name = "SIDE")]
    pub(crate) split: Option<Split>,
    /// Leave a trace out at a size at which a tier has fewer pages
    #[arg(long, value_name = "PAGES", default_value_t = 1000)]
    pub(crate) min_entries: u64,
    /// Leave out only traces that lack the result of a policy
    #[arg(long, conflicts_with = "min_entries")]
    pub(crate) no_filters: bool,
    /// Treat reductions that differ by at most this share as ties
    #[arg(long, value_name = "SHARE", default_value_t = 0.001)]
    pub(crate) tie: f64,
    /// Number of times that traces are resampled for the intervals
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) resamples: u32,
    /// The seed of the resamples
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}
