//! Arguments of `thermocline trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use thermocline_trace::prompts::Conversations;

use super::{OUTPUT, Reading};

#[derive(Args, Debug)]
pub(crate) struct TraceOptions {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Show what a trace holds: footprint, shares, re-use, LRU hit ratios
    Info(InfoOptions),
    /// Class the written pages by update frequency and re-use distance
    Classes(ClassesOptions),
    /// Write a trace in another format
    Convert(ConvertOptions),
    /// Run a command, or watch running processes, and record which pages of which files they use
    Record(RecordOptions),
    /// Make a profile of a trace: a few KB, from which `trace generate --profile` makes traces like it
    Fit(FitOptions),
    /// Make a synthetic trace, the same on every platform
    Generate(GenerateOptions),
}

#[derive(Args, Debug)]
pub(crate) struct InfoOptions {
    /// The trace
    pub(crate) trace: PathBuf,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Write a self-contained HTML report: footprint and re-use over time, and a recording's files
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ClassesOptions {
    /// The trace
    pub(crate) trace: PathBuf,
    /// A page written at least so often is frequently updated
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) frequent_writes: u64,
    /// A mean re-use distance of up to this size is short: 32MiB, 5% (of the footprint), 8192p (pages)
    #[arg(long, value_name = "SIZE", default_value = "32MiB")]
    pub(crate) short_distance: String,
    /// Writes per point of the figure over time; default: about fifty points
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) interval: Option<u64>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ConvertOptions {
    /// The trace, or with --from the recording
    pub(crate) trace: PathBuf,
    /// The file to write; a recording has its file table and figures beside it
    #[arg(short, long, value_name = "FILE", value_parser = super::to_be_written())]
    pub(crate) output: PathBuf,
    /// The format to write: csv, parquet, spc, oracle-general, compiled (Parquet, a row per page access), or mapped (opened without reading it)
    #[arg(long, value_name = "FORMAT", required_unless_present = "from")]
    pub(crate) to: Option<String>,
    /// Turn a recording that another program made into ours: strace, bpftrace, blkparse, blktrace, fio-iolog
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["to", "format", "time_unit", "allow_truncated", "only", "volumes"])]
    pub(crate) from: Option<String>,
    /// The folder in which the recorded program began, if strace was run without -y
    #[arg(long, value_name = "DIR", requires = "from")]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) capture: CaptureArguments,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Print JSON instead of a sentence
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct FitOptions {
    /// The trace
    pub(crate) trace: PathBuf,
    /// The profile to write
    #[arg(short, long, value_name = "FILE", value_parser = super::to_be_written())]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Print JSON instead of a sentence
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct GenerateOptions {
    /// The file to write
    #[arg(short, long, value_name = "FILE", value_parser = super::to_be_written())]
    pub(crate) output: PathBuf,
    /// The format to write: csv, parquet, spc or oracle-general; default: csv, and mooncake for conversations
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
    /// Make a trace like the one that this profile was fitted to, by `trace fit`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "requests", "pages", "alpha", "write_share", "page_size", "scatter", "shift_every", "shift_pages", "interval_us"])]
    pub(crate) profile: Option<PathBuf>,
    /// With --profile: generate about this many page accesses; the footprint grows or shrinks with
    /// them
    #[arg(long, value_name = "N", requires = "profile", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) accesses: Option<u64>,
    /// With --profile: access about this many pages; the accesses grow or shrink with them
    #[arg(long, value_name = "PAGES", requires = "profile", conflicts_with = "accesses", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) footprint: Option<u64>,
    /// Kind of workload
    #[arg(long, value_enum, default_value = "zipf")]
    pub(crate) kind: Workload,
    /// Number of requests, each of one page
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) requests: u64,
    /// Number of pages in the address space
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) pages: u64,
    /// Skew of the Zipf distribution (`--kind zipf`), at least 0
    #[arg(long, value_name = "ALPHA", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) alpha: f64,
    /// Share of requests that write, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, allow_negative_numbers = true)]
    pub(crate) write_share: f64,
    /// Bytes per page
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub(crate) page_size: String,
    /// Scatter the pages over the address space, so that hot ones are not neighbours
    #[arg(long)]
    pub(crate) scatter: bool,
    /// Requests between two moves of the hot set (`--kind zipf` and `oltp`); it stays without
    #[arg(long, value_name = "N")]
    pub(crate) shift_every: Option<u64>,
    /// Hottest pages that become the coldest at each move; a tenth of the pages without
    #[arg(long, value_name = "N", requires = "shift_every")]
    pub(crate) shift_pages: Option<u64>,
    /// Time from one request to the next, in microseconds; default: 100, and a mean of 300000 for conversations
    #[arg(long, value_name = "US")]
    pub(crate) interval_us: Option<u64>,
    /// The seed: the same seed makes the same trace
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) conversations: ConversationOptions,
    /// Print JSON instead of a sentence
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// Zipf popularity
    Zipf,
    /// Every page equally often
    Uniform,
    /// Ever new pages, one after the other
    Sequential,
    /// All pages in order, again and again
    Loop,
    /// A mix of hot pages, scans and an appended log
    Oltp,
    /// Prompts to a language model, for `thermocline kv`
    Conversations,
}

/// Options of conversations.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Conversations (--kind conversations)")]
pub(crate) struct ConversationOptions {
    /// Tokens of a block
    #[arg(long, value_name = "N", default_value_t = Conversations::default().block_tokens)]
    pub(crate) block_tokens: u32,
    /// Number of conversations at a time
    #[arg(long, value_name = "N", default_value_t = Conversations::default().concurrent)]
    pub(crate) concurrent: u32,
    /// Number of system prompts, of which some are used more often
    #[arg(long, value_name = "N", default_value_t = Conversations::default().system_prompts)]
    pub(crate) system_prompts: u32,
    /// Tokens of a system prompt
    #[arg(long, value_name = "N", default_value_t = Conversations::default().system_tokens)]
    pub(crate) system_tokens: u32,
    /// The probability that a conversation goes on after a turn
    #[arg(long, value_name = "SHARE", default_value_t = Conversations::default().next_turn)]
    pub(crate) next_turn: f64,
    /// The probability that a turn goes on from an earlier one
    #[arg(long, value_name = "SHARE", default_value_t = Conversations::default().branch)]
    pub(crate) branch: f64,
    /// The probability that a conversation is an agent's, whose tools answer in place of a user
    #[arg(long, value_name = "SHARE", default_value_t = Conversations::default().agents)]
    pub(crate) agents: f64,
    /// Mean tokens that a user writes
    #[arg(long, value_name = "N", default_value_t = Conversations::default().user_tokens)]
    pub(crate) user_tokens: u32,
    /// Mean tokens of an answer
    #[arg(long, value_name = "N", default_value_t = Conversations::default().answer_tokens)]
    pub(crate) answer_tokens: u32,
    /// Mean tokens that a tool returns
    #[arg(long, value_name = "N", default_value_t = Conversations::default().tool_tokens)]
    pub(crate) tool_tokens: u32,
}

/// Options of a conversion of another program's recording.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "A recording")]
pub(crate) struct CaptureArguments {
    /// Take only files whose path matches this pattern, in which * stands for any text; may be given several times
    #[arg(long, value_name = "GLOB")]
    pub(crate) include: Vec<String>,
    /// Leave out files whose path matches this pattern; may be given several times
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Identity of a file: inode follows renames, path treats a file that is removed and created
    /// again as the same; default: inode
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) identity: Option<Identity>,
    /// Treatment of files mapped into memory: ignore counts them, map takes the whole range, an
    /// upper bound; default: ignore
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) mmap: Option<Mmap>,
    /// Maximum number of lines that cannot be parsed; default: 0
    #[arg(long, value_name = "N")]
    pub(crate) max_unknown: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Identity {
    /// The file itself
    #[default]
    Inode,
    /// Its name when it was opened
    Path,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Mmap {
    /// Count mappings
    #[default]
    Ignore,
    /// Take whole ranges
    Map,
}

#[derive(Args, Debug)]
pub(crate) struct RecordOptions {
    /// Recorder; default: bpftrace if it is permitted, else strace
    #[arg(long, value_enum, value_name = "PROGRAM")]
    pub(crate) with: Option<Recorder>,
    /// Record this process, and what it has begun or begins, until Ctrl-C; may be given several times
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub(crate) attach: Vec<u32>,
    /// Bytes per page, as in 4096 or 8KiB
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    pub(crate) page_size: String,
    /// Keep what the recorder wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) keep_raw: Option<PathBuf>,
    /// The recording to write: FILE, with its file table and figures beside it; FILE.zst is compressed
    #[arg(short, long, value_name = "FILE", value_parser = super::to_be_written())]
    pub(crate) output: PathBuf,
    /// Print JSON when it ends
    #[arg(long)]
    pub(crate) json: bool,
    /// The command, behind --
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "attach")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) capture: CaptureArguments,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Recorder {
    /// strace: no root needed
    Strace,
    /// bpftrace: root, and a kernel with BTF
    Bpftrace,
}
