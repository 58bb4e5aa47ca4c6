//! Arguments of commands that look at many sizes, policies and prices of one workload.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use thermocline_core::WriteMiss;
use thermocline_core::kv::Mode;
use thermocline_lab::TierSize;
use thermocline_lab::planning::CURRENCY;
use thermocline_lab::spec::{DriveSpec, ModelSpec, ParameterSpec, TierSetting, TierSpec};
use thermocline_trace::Choice;

use super::kv::one_of;
use super::shared::{default_word, words_of};
use super::{OUTPUT, Reading, TwoTierOptions};

/// Parse the rule by which the pages of a sample are chosen.
fn choices() -> impl TypedValueParser<Value = Choice> {
    let words = PossibleValuesParser::new(Choice::WORDS.map(|(word, _)| word));
    words.map(|text| {
        let found = Choice::WORDS.iter().find(|(word, _)| *word == text);
        found.expect("clap lets these words pass only").1
    })
}

#[derive(Args, Debug)]
pub(crate) struct MrcOptions {
    /// The trace
    pub(crate) trace: PathBuf,
    /// The policies, separated by commas, or `all`; see `thermocline policies`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "lru")]
    pub(crate) policy: Vec<String>,
    /// The sizes of RAM, separated by commas: 64MiB, 5% (of the footprint), 100p (pages); default: up to the footprint
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub(crate) sizes: Vec<TierSize>,
    /// The sizes of flash, for policies of two tiers: as above, or 4x (the RAM)
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub(crate) flash_sizes: Vec<TierSize>,
    /// Look at this share of the pages for LRU and the figures of re-use (SHARDS)
    #[arg(long, value_name = "RATE", conflicts_with = "shards_size")]
    pub(crate) shards: Option<f64>,
    /// Look at no more than N pages for LRU and the figures of re-use (SHARDS)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shards_size: Option<u32>,
    /// Rule by which these pages are chosen: evenly from the hot ones to the cold ones, or by a
    /// hash, as in the SHARDS paper
    #[arg(long, value_name = "HOW", default_value = Choice::default().word(), value_parser = choices())]
    pub(crate) shards_by: Choice,
    /// Simulate policies other than LRU on this share of the pages; default: as little as each size allows, 1 for all
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<f64>,
    /// The seed of samples
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulate every size in full as well, and tell how far the curves are off
    #[arg(long)]
    pub(crate) check: bool,
    /// A parameter of a policy: name=value, or policy.name=value
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) parameters: Vec<ParameterSpec>,
    /// First action of a write miss: read the page from disk, or not
    #[arg(long, value_name = "HOW", default_value = default_word("write_miss"), value_parser = words_of("write_miss", |spec| spec.write_miss))]
    pub(crate) write_miss: WriteMiss,
    /// Let an identifier decide which pages enter flash; see `thermocline identifiers`
    #[arg(long, value_name = "IDENTIFIER")]
    pub(crate) admit: Option<String>,
    #[command(flatten)]
    pub(crate) two_tier: TwoTierOptions,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Write the points as comma-separated values
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) csv: Option<PathBuf>,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SweepOptions {
    /// Description of the sweep, a TOML file
    #[arg(required_unless_present = "example")]
    pub(crate) sweep: Option<PathBuf>,
    /// Print a commented sweep with every key, and end
    #[arg(long)]
    pub(crate) example: bool,
    /// File of the results; default: the sweep's name, ending in .parquet
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) output: Option<PathBuf>,
    /// Number of runs at once; default: one per processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: Option<u32>,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PlanOptions {
    /// The trace
    pub(crate) trace: PathBuf,
    /// Workload of the trace: pages, or prompts of language models (`kv`)
    #[arg(long, value_enum, value_name = "WHAT", default_value = "pages")]
    pub(crate) workload: PlanFor,
    /// Maximum cost of RAM, flash and disk together; with `--workload kv`, of all tiers
    #[arg(long, value_name = "PRICE")]
    pub(crate) budget: f64,
    /// The prices of RAM, flash and disk per GiB: ram=4,flash=0.2,disk=0.02; with `--workload kv`, of the tiers, fastest first, and of drives by name: hbm=100,dram=4,ssd=0.1,qlc-nvme=0.06
    #[arg(long = "price", value_name = "TIER=PRICE", value_delimiter = ',', required = true, value_parser = TierSetting::price)]
    pub(crate) prices: Vec<TierSetting>,
    /// Objective of the plan; default: p99 if that distinguishes the choices, else io-time; with
    /// `--workload kv`, cost-per-token if --gpu-price is given, else first-token
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) objective: Option<Objective>,
    /// Minimum lifetime of flash, in years, at the rated erases of its drive; 0 if it does not
    /// matter; default: 5, or 0 where the price of wear is part of the objective (cost-per-token)
    #[arg(long, value_name = "YEARS")]
    pub(crate) min_lifetime_years: Option<f64>,
    /// Currency of the prices and the budget, to be shown beside costs
    #[arg(long, value_name = "WORD", default_value = CURRENCY)]
    pub(crate) currency: String,
    /// The policies to choose from, separated by commas, or `all`; default: lru,arc,lru-exclusive,face-gsc,lc,tac,hat,arc-l2arc; with `--workload kv`, lru,arc,s3-fifo,ulc,vllm-offload
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) policies: Vec<String>,
    /// The size of the disk, as in 4TiB; default: that of the trace's pages
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk_size: Option<String>,
    /// The device of a tier, as in flash=nvme-ssd; see `thermocline devices`
    #[arg(long = "device", value_name = "TIER=DEVICE", value_parser = TierSetting::device)]
    pub(crate) devices: Vec<TierSetting>,
    /// The drive that flash is, or a TOML file; default: the first of tlc-nvme, mlc-sata-2011, slc-2008 and ssdsim whose pages fit; with `--workload kv`, the drives to choose from for the tier ssd, separated by commas; default: tlc-nvme
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) drive: Vec<DriveSpec>,
    /// The model of the disk: st380011a, exos-x18 or server:N
    #[arg(long, value_name = "MODEL")]
    pub(crate) disk_model: Option<ModelSpec>,
    /// Keep N requests outstanding instead of taking the trace's times; default: the times, or 8 requests if nothing keeps pace with these
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) closed_loop: Option<u32>,
    /// The seed of samples
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) prompts: PlanPromptOptions,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Write the engine configuration of the chosen point
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) output: Option<PathBuf>,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Objective {
    /// The time within which 99 % of reads, and of writes, are answered
    P99,
    /// All page transfers at the costs of their tiers
    IoTime,
    /// The price per I/O per second
    CostPerIo,
    /// With `--workload kv`: the mean time to the first token; `p99` is that of 99 %
    FirstToken,
    /// With `--workload kv`: the price of a million tokens, of processors and tiers
    CostPerToken,
}

/// Workload of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFor {
    /// Reads and writes of pages
    Pages,
    /// Prompts of language models, as `thermocline kv` takes them
    Kv,
}

/// Options of a plan for prompts.
#[derive(Args, Debug)]
#[command(next_help_heading = "With --workload kv")]
pub(crate) struct PlanPromptOptions {
    /// The model, for bytes, work and time: llama-3-70b and others; see `thermocline kv --help`
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// A tier whose size is fixed, as the memory of processors that are there: hbm=80GiB, and its price 0
    #[arg(long = "tier", value_name = "NAME=SIZE")]
    pub(crate) tiers: Vec<TierSpec>,
    /// The price of the processors of a prefill per hour
    #[arg(long, value_name = "PRICE")]
    pub(crate) gpu_price: Option<f64>,
    /// Way in which blocks get below the first tier: exclusive, back or through; default: the
    /// better of exclusive, or that of a system, and back
    #[arg(long, value_name = "HOW", value_parser = one_of(Mode::ALL, Mode::name))]
    pub(crate) mode: Option<Mode>,
    /// Number of uses that a block needs to enter each tier: 1,1,2
    #[arg(long, value_name = "USES", value_delimiter = ',')]
    pub(crate) admit: Vec<u32>,
    /// Number of blocks that left all tiers and keep their count of uses
    #[arg(long, value_name = "BLOCKS")]
    pub(crate) ghost: Option<u32>,
    /// Number of engines, each with a first tier of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) engines: Option<u8>,
}
