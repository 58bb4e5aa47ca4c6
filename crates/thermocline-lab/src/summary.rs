//! What a run found: the figures, in the form that other tools read.

use std::time::Instant;

use rayon::prelude::*;
use serde::Serialize;
use thermocline_core::config::{Value, Values};
use thermocline_core::{Counts, Ledger, PageCost, Tier, WriteMiss};
use thermocline_trace::CompiledTrace;

use crate::timing::{Engine, Timed};
use crate::{Configuration, LabError, Replay, Timing, TimingSummary, WarmUp, replay};

/// The figures of one run. The JSON form of its fields is a contract.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The trace.
    pub trace: TraceSummary,
    /// The policy.
    pub policy: PolicySummary,
    /// Every tier, fastest first, the disk last.
    pub tiers: Vec<TierSummary>,
    /// Accesses left out of the counts, from the start of the trace.
    pub warm_up_accesses: u64,
    /// All page transfers weighed with the costs of their tier, in milliseconds.
    pub io_time_ms: f64,
    /// Wall-clock time of the replay.
    pub replay_seconds: f64,
    /// Speed of the replay.
    pub accesses_per_second: f64,
    /// Response times and devices, if time was simulated.
    #[serde(flatten)]
    pub timing: Option<TimingSummary>,
}

/// How a run is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// What is left out of the counts.
    pub warm_up: WarmUp,
    /// Whether the Ledger runs alongside and checks every action.
    pub is_checked: bool,
}

/// The trace of a run.
#[derive(Clone, Debug, Serialize)]
pub struct TraceSummary {
    /// Where it was read from.
    pub path: String,
    /// Bytes per page.
    pub page_size_bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Page accesses.
    pub accesses: u64,
    /// Page accesses that read.
    pub reads: u64,
    /// Page accesses that write.
    pub writes: u64,
    /// Distinct pages.
    pub footprint_pages: u64,
}

/// The policy of a run.
#[derive(Clone, Debug, Serialize)]
pub struct PolicySummary {
    /// Its name.
    pub name: String,
    /// All its parameters.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// What a write miss does first: `fetch` or `allocate`.
    pub write_miss: &'static str,
    /// The identifier that decides which pages enter flash, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionSummary>,
}

/// The identifier that decides which pages enter flash.
#[derive(Clone, Debug, Serialize)]
pub struct AdmissionSummary {
    /// Its name.
    pub identifier: String,
    /// All its parameters.
    pub parameters: serde_json::Map<String, serde_json::Value>,
}

/// One tier of a run.
#[derive(Clone, Debug, Serialize)]
pub struct TierSummary {
    /// Its name.
    pub name: String,
    /// Its capacity in pages; none for the disk, which holds every page.
    pub capacity_pages: Option<u64>,
    /// Accesses whose page this tier held, and no faster one.
    pub hits: u64,
    /// Those that read.
    pub read_hits: u64,
    /// Those that wrote.
    pub write_hits: u64,
    /// `hits` divided by the accesses counted.
    pub hit_ratio: f64,
    /// Pages that the tier's device read.
    pub page_reads: u64,
    /// Pages that the tier's device wrote.
    pub page_writes: u64,
    /// Its device.
    pub device: String,
    /// What one page read costs there, in milliseconds.
    pub read_ms: f64,
    /// What one page write costs there, in milliseconds.
    pub write_ms: f64,
}

/// Replays a trace through one configuration.
///
/// # Errors
/// A configuration that cannot be, or an action that the Ledger refuses.
pub fn run(
    trace: &CompiledTrace,
    configuration: &Configuration,
    options: RunOptions,
) -> Result<Summary, LabError> {
    let capacity_pages = configuration.capacity_pages(trace)?;
    let warm_up_accesses = options.warm_up.accesses(trace.len() as u64)?;
    if let Some(timing) = &configuration.timing {
        return run_timed(trace, configuration, timing, options);
    }
    let mut policy = configuration.build(trace)?;
    let mut ledger =
        options.is_checked.then(|| Ledger::new(trace.footprint_pages(), &capacity_pages));
    let start = Instant::now();
    let replay_options = Replay {
        warm_up_accesses,
        needs_clock: configuration.policy.needs_clock,
        ledger: ledger.as_mut(),
    };
    let counts = replay(trace, &mut *policy, replay_options).map_err(|violation| {
        LabError::Violation { policy: configuration.policy.name.into(), violation }
    })?;
    let replay_seconds = start.elapsed().as_secs_f64();
    let found = Found { counts, warm_up_accesses, replay_seconds, timing: None };
    Ok(summarise(trace, configuration, &capacity_pages, found))
}

/// What a replay found.
struct Found {
    counts: Counts,
    warm_up_accesses: u64,
    replay_seconds: f64,
    timing: Option<TimingSummary>,
}

/// Replays a trace through one configuration with devices that queue.
fn run_timed(
    trace: &CompiledTrace,
    configuration: &Configuration,
    timing: &Timing,
    options: RunOptions,
) -> Result<Summary, LabError> {
    let capacity_pages = configuration.capacity_pages(trace)?;
    let warm_up_accesses = options.warm_up.accesses(trace.len() as u64)?;
    let names = configuration.tiers.iter().map(|tier| tier.name.clone());
    let names: Vec<String> = names.chain(["disk".to_owned()]).collect();
    let engine = Engine::new(trace, configuration, timing, options.is_checked)?;
    let start = Instant::now();
    let Timed { counts, timing } = engine.run(timing, &names, warm_up_accesses)?;
    let replay_seconds = start.elapsed().as_secs_f64();
    let found = Found { counts, warm_up_accesses, replay_seconds, timing: Some(timing) };
    Ok(summarise(trace, configuration, &capacity_pages, found))
}

fn summarise(
    trace: &CompiledTrace,
    configuration: &Configuration,
    capacity_pages: &[u32],
    found: Found,
) -> Summary {
    Summary {
        trace: TraceSummary::of(trace),
        policy: PolicySummary::of(configuration),
        io_time_ms: io_time_ms(&configuration.costs(), &found.counts),
        tiers: tier_summaries(configuration, capacity_pages, &found.counts),
        warm_up_accesses: found.warm_up_accesses,
        replay_seconds: found.replay_seconds,
        accesses_per_second: trace.len() as f64 / found.replay_seconds,
        timing: found.timing,
    }
}

/// Replays a trace through many configurations, in parallel; the results keep their order.
///
/// `done` is told each time that one is finished.
///
/// # Errors
/// The first configuration, in order, that cannot be or that the Ledger refuses.
pub fn compare(
    trace: &CompiledTrace,
    configurations: &[Configuration],
    options: RunOptions,
    done: impl Fn() + Sync,
) -> Result<Vec<Summary>, LabError> {
    let results: Vec<Result<Summary, LabError>> = configurations
        .par_iter()
        .map(|configuration| {
            let result = run(trace, configuration, options);
            done();
            result
        })
        .collect();
    results.into_iter().collect()
}

fn tier_summaries(
    configuration: &Configuration,
    capacity_pages: &[u32],
    counts: &Counts,
) -> Vec<TierSummary> {
    let caches = configuration.tiers.iter().zip(capacity_pages).map(|(tier, &capacity_pages)| {
        (tier.name.as_str(), Some(u64::from(capacity_pages)), &tier.device)
    });
    let accesses = counts.accesses();
    (0_u8..)
        .map(Tier)
        .zip(caches.chain([("disk", None, &configuration.disk)]))
        .map(|(tier, (name, capacity_pages, device))| TierSummary {
            name: name.into(),
            capacity_pages,
            hits: counts.hits(tier),
            read_hits: counts.read_hits(tier),
            write_hits: counts.write_hits(tier),
            hit_ratio: counts.hits(tier) as f64 / accesses as f64,
            page_reads: counts.page_reads(tier),
            page_writes: counts.page_writes(tier),
            device: device.name.clone(),
            read_ms: device.read_ms,
            write_ms: device.write_ms,
        })
        .collect()
}

/// The total I/O time of the cost model: every page transfer at its tier's cost (HAT, section 4).
fn io_time_ms(costs: &[PageCost], counts: &Counts) -> f64 {
    (0_u8..)
        .map(Tier)
        .zip(costs)
        .map(|(tier, cost)| {
            counts.page_reads(tier) as f64 * cost.read_ms
                + counts.page_writes(tier) as f64 * cost.write_ms
        })
        .sum()
}

impl TraceSummary {
    /// The figures of a trace.
    pub fn of(trace: &CompiledTrace) -> Self {
        Self {
            path: trace.path().display().to_string(),
            page_size_bytes: trace.page_size_bytes(),
            requests: trace.request_count() as u64,
            accesses: trace.len() as u64,
            reads: trace.reads(),
            writes: trace.writes(),
            footprint_pages: u64::from(trace.footprint_pages()),
        }
    }
}

impl PolicySummary {
    fn of(configuration: &Configuration) -> Self {
        let parameters = parameters(&configuration.values);
        let write_miss = match configuration.write_miss {
            WriteMiss::Fetch => "fetch",
            WriteMiss::Allocate => "allocate",
        };
        let admission = configuration.admission.identifier().map(|(entry, values)| {
            AdmissionSummary { identifier: entry.name.into(), parameters: self::parameters(values) }
        });
        Self { name: configuration.policy.name.into(), parameters, write_miss, admission }
    }
}

/// All parameters as JSON.
pub(crate) fn parameters(values: &Values) -> serde_json::Map<String, serde_json::Value> {
    values.iter().map(|(name, value)| (name.to_owned(), json(value))).collect()
}

fn json(value: Value) -> serde_json::Value {
    match value {
        Value::Integer(value) => value.into(),
        Value::Real(value) => value.into(),
        Value::Switch(value) => value.into(),
        Value::Choice(word) => word.into(),
        Value::Auto => "auto".into(),
    }
}
