//! Arguments of `kv`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use thermocline_core::kv::{Matching, Mode, Order, Touch, Victim};
use thermocline_lab::spec::{ParameterSpec, TierDrive, TierNumber, TierSpec};
use thermocline_lab::{TierSize, WarmUp};

use super::OUTPUT;
use crate::bytes::Bytes;

/// Heading of the options of filling.
const FILLING: &str = "How the tiers are filled";
/// Heading of the options of costs.
const COSTS: &str = "Work, time and money";

#[derive(Args, Debug)]
pub(crate) struct KvOptions {
    /// The prompts: JSON lines of Mooncake, Dynamo, Bailian or `LMCache`, or conversations of agents, compressed or not
    pub(crate) trace: PathBuf,
    /// The policies, separated by commas, or `all`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "lru")]
    pub(crate) policy: Vec<String>,
    /// A tier, fastest first: hbm=80GiB (with --model), dram=10% (of the distinct blocks), ssd=4x (the tier above), l1=256p (blocks)
    #[arg(long = "tier", value_name = "NAME=SIZE", required = true)]
    pub(crate) tiers: Vec<TierSpec>,
    /// A last tier called remote: 10TiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) remote: Option<TierSize>,
    /// The model, for bytes, work and time: llama-3-70b, llama-3.1-8b, qwen3-32b, qwen3-235b-a22b, deepseek-v3, gpt-oss-120b
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Tokens of a block, if the trace does not say so
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) block_tokens: Option<u32>,
    /// Leave out the last block of a prompt if tokens do not fill it, as engines do
    #[arg(long)]
    pub(crate) full_blocks: bool,
    /// Leave the first prompts out of the counts: a number or a share, as in 25%
    #[arg(long, value_name = "N|%", default_value = "0")]
    pub(crate) warm_up: WarmUp,
    /// A parameter of a policy: name=value, or policy.name=value; see `thermocline policies NAME`
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) parameters: Vec<ParameterSpec>,
    /// Verify every move and hit with the Ledger, and fail if it rejects one
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) filling: KvFilling,
    #[command(flatten)]
    pub(crate) costs: KvCostOptions,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

/// Options of filling the tiers.
#[derive(Args, Debug)]
#[command(next_help_heading = FILLING)]
pub(crate) struct KvFilling {
    /// Way in which blocks get below the first tier: victims move down (exclusive), or are copied
    /// (back), or all are written everywhere at once (through); default: exclusive, or that of a
    /// system
    #[arg(long, value_name = "HOW", value_parser = one_of(Mode::ALL, Mode::name))]
    pub(crate) mode: Option<Mode>,
    /// End of a prompt that leaves first
    #[arg(long, value_name = "END", default_value = "tail", value_parser = one_of(Order::ALL, Order::name))]
    pub(crate) order: Order,
    /// Matching of prompts: a lookup that went down a tier may come up again, or not
    #[arg(long = "match", value_name = "HOW", default_value = "cascade", value_parser = one_of(Matching::ALL, Matching::name))]
    pub(crate) matching: Matching,
    /// With --mode through, copies that a prompt renews: all, or those of the tier that served and
    /// above
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = one_of(Touch::ALL, Touch::name))]
    pub(crate) touch: Touch,
    /// Block that makes room: the oldest, or a leaf, which no other block of the tier continues;
    /// default: oldest, or that of a system
    #[arg(long, value_name = "WHICH", value_parser = one_of(Victim::ALL, Victim::name))]
    pub(crate) victim: Option<Victim>,
    /// Number of uses that a block needs to enter each tier: 1,1,2
    #[arg(long, value_name = "USES", value_delimiter = ',')]
    pub(crate) admit: Vec<u32>,
    /// Number of blocks that left all tiers and keep their count of uses
    #[arg(long, value_name = "BLOCKS", default_value_t = 0)]
    pub(crate) ghost: u32,
    /// Time that a tier keeps a block after its last use, in seconds: ssd=300
    #[arg(long, value_name = "TIER=SECONDS")]
    pub(crate) ttl: Vec<TierNumber>,
    /// Number of engines, each with a first tier of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) engines: u8,
    /// Number of first tiers that each engine has for itself; default: 1
    #[arg(long, value_name = "N")]
    pub(crate) private: Option<usize>,
    /// Rule by which prompts are dealt to engines
    #[arg(long, value_enum, value_name = "HOW", default_value = "round-robin")]
    pub(crate) split: PromptSplit,
}

/// Rule by which prompts are dealt to engines.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PromptSplit {
    /// One after the other
    RoundRobin,
    /// All prompts of a conversation to one engine
    Session,
}

/// Costs of work and tiers.
#[derive(Args, Debug)]
#[command(next_help_heading = COSTS)]
pub(crate) struct KvCostOptions {
    /// Bytes of a block, in place of those of the model
    #[arg(long, value_name = "BYTES")]
    pub(crate) block_bytes: Option<Bytes>,
    /// GB per second that are loaded from a tier: ssd=6.5; default: dram and l2 50, ssd and l3 7, remote and l4 12.5
    #[arg(long = "bandwidth", value_name = "TIER=GB/S")]
    pub(crate) bandwidths: Vec<TierNumber>,
    /// Peak of the processors of a prefill, in TFLOP/s
    #[arg(long, value_name = "TFLOP/S", default_value_t = 2496.0)]
    pub(crate) teraflops: f64,
    /// The share of the peak that a prefill reaches
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub(crate) efficiency: f64,
    /// The price of these processors per hour, for the price of a million tokens
    #[arg(long, value_name = "PRICE")]
    pub(crate) gpu_price: Option<f64>,
    /// The price of a tier per GiB: dram=4
    #[arg(long = "price", value_name = "TIER=PRICE")]
    pub(crate) prices: Vec<TierNumber>,
    /// Years over which hardware is written off
    #[arg(long, value_name = "YEARS", default_value_t = 5.0)]
    pub(crate) write_off_years: f64,
    /// Number of times that a tier may be written as a whole until it is worn out; default:
    /// ssd=1825, once a day for 5 years
    #[arg(long = "rated-writes", value_name = "TIER=N")]
    pub(crate) rated_writes: Vec<TierNumber>,
    /// The drive that a tier lies on, for its write amplification, rated erases and bandwidth: ssd=tlc-nvme, or a TOML file; see `thermocline drives`
    #[arg(long = "drive", value_name = "TIER=DRIVE")]
    pub(crate) drives: Vec<TierDrive>,
}

/// Takes one of some values by its name.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(move |&one| name(one))).try_map(move |given| {
        all.iter().copied().find(|&one| name(one) == given).ok_or("unknown word")
    })
}
