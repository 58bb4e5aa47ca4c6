//! Replay a trace against any hierarchy and policy, and report what it cost.
//!
//! ```
//! use thermocline_lab::{Comparison, TierSize};
//! let results = Comparison::open("../../testdata/pgbench/pgbench.csv.zst")?
//!     .policy("hat")?
//!     .policy("lru-inclusive")?
//!     .tier("ram", [1.0, 2.0, 4.0].map(TierSize::FootprintPercent))
//!     .tier("flash", [TierSize::TimesAbove(4.0)])
//!     .run()?;
//! println!("{results}");
//! # assert_eq!(results.summaries().len(), 6);
//! # assert_eq!(results.to_string().lines().count(), 8);
//! # Ok::<(), thermocline_lab::LabError>(())
//! ```
//!
//! [`Comparison`] is the short way; what follows has every option.
//!
//! A caller describes a hierarchy by a [`HierarchySpec`](spec::HierarchySpec), of which
//! [`configurations`] makes a [`Configuration`] for each policy and size.
//! A [`Configuration`] is a policy with its parameters, the sizes of the cache tiers and the device
//! of each tier. [`run`] replays a compiled trace through it and returns a [`Summary`], whose JSON
//! form is a contract; [`compare`] runs many configurations over one shared trace in parallel.
//! [`identify`] feeds the writes of a trace to hot-data identifiers and compares what they say.

mod action_log;
pub mod advising;
mod buffering;
mod bundled;
mod comparison;
mod compiled_cache;
mod configuration;
pub mod corpus;
mod error;
pub mod figure;
mod files;
mod hierarchy;
mod identification;
pub mod kv;
mod lifetime;
pub mod listing;
mod live_cache;
#[cfg(test)]
mod made_up;
pub mod metric;
pub mod mrc;
mod numbers;
mod over_time;
mod parameters;
mod parts;
mod placing;
pub mod planning;
mod refining;
mod replay;
pub mod report;
mod run_while_compiling;
mod runs;
mod size;
pub mod spec;
mod stretch;
mod summary;
pub mod sweep;
mod tiers;
mod timing;
mod turns;
pub mod verdict;
mod watch;

pub use action_log::ActionLog;
pub use buffering::{
    BufferConfiguration, BufferPolicySummary, BufferSummary, BufferedSsd, FlushSize, SsdSummary,
    run_buffer, run_buffers,
};
pub use bundled::bundled_trace;
pub use comparison::{Comparison, Results};
pub use compiled_cache::CompiledCache;
pub use configuration::{Configuration, TierConfiguration};
pub use error::LabError;
pub use files::write_file;
pub use hierarchy::{catalogue, configurations, find_policy, find_ssd};
pub use identification::{
    Candidate, Counted, Identification, IdentifiedTrace, IdentifierSummary, Interval, Recording,
    Stream, identify, round_interval, summarise,
};
pub use live_cache::{History, LiveCache, LivePages};
pub use over_time::{IntervalSummary, Intervals, OverTime};
pub use parameters::{Owner, Parameters};
pub use placing::{
    DriveWrite, ORACLE, Placed, PlacementSummary, Streams, TierWrites, place, tier_writes,
};
pub use refining::{Found, Progress, Refined, refine};
pub use replay::{Recorder, Replay, WarmUp, replay};
pub use run_while_compiling::{can_run_while_compiling, run_while_compiling};
pub use runs::{RunOptions, compare, run, run_recording, run_with_actions};
pub use size::{TierSize, TracePages};
pub use summary::{
    AdmissionSummary, ClientSummary, Gauge, PolicySummary, Summary, TierSummary, TraceSummary,
};
pub use tiers::{Cost, Prices, default_latencies_ms};
pub use timing::{
    Arrivals, DeviceModel, DeviceSummary, ResponseSummary, SECONDS_PER_DAY, TierSsdSummary, Timing,
    TimingSummary,
};
pub use watch::Watch;
