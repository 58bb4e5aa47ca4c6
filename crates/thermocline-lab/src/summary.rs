//! What a run found: the figures, in the form that other tools read.

use std::time::Instant;

use rayon::prelude::*;
use serde::{Serialize, Serializer};
use serde_json::Map;
use thermocline_core::config::{Value, Values};
use thermocline_core::{Clients, Counts, PageCost, Policy, Tier, WriteMiss};
use thermocline_trace::CompiledTrace;

use crate::over_time::Tally;
use crate::replay::sum;
use crate::timing::{Engine, Timed};
use crate::{
    Configuration, Cost, Intervals, LabError, OverTime, Replay, Timing, TimingSummary, WarmUp,
    Watch, figure, replay, tiers,
};

/// What one run found. Its JSON form is a contract: the figures of [`RUNS`](crate::figure::RUNS),
/// and what is no single number.
#[derive(Clone, Debug)]
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
    /// The mean over all accesses of the access time of the tier that each was found in, in
    /// milliseconds.
    pub average_response_ms: f64,
    /// Pages that went down from each cache tier to the next, from the top.
    pub demotions: Vec<u64>,
    /// Pages that went up to each cache tier from the next, from the top.
    pub promotions: Vec<u64>,
    /// The bytes of these demotions.
    pub demoted_bytes: Vec<u64>,
    /// The bytes of these promotions.
    pub promoted_bytes: Vec<u64>,
    /// What the algorithm keeps besides the pages and their order, at the end, in bytes.
    pub metadata_bytes: u64,
    /// `metadata_bytes` divided by the bytes of all caches.
    pub metadata_share: f64,
    /// What the policy adapts, as it stands at the end.
    pub gauges: Vec<Gauge>,
    /// What each client found, if there are several; `tiers` then has the first tiers of all of them
    /// in one row, with the capacity that each has.
    pub clients: Vec<ClientSummary>,
    /// What it costs, if prices were given.
    pub cost: Option<Cost>,
    /// The figures over time, if asked for.
    pub over_time: Option<OverTime>,
    /// Wall-clock time of the replay.
    pub replay_seconds: f64,
    /// Speed of the replay.
    pub accesses_per_second: f64,
    /// Response times and devices, if time was simulated.
    pub timing: Option<TimingSummary>,
    /// Everything that was counted, for figures that are computed of it; the first tiers of several
    /// clients are one. Not part of the JSON.
    pub counts: Box<Counts>,
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tier<'a> {
            name: &'a str,
            capacity_pages: Option<u64>,
            #[serde(flatten)]
            figures: Map<String, serde_json::Value>,
            device: &'a str,
            read_ms: f64,
            write_ms: f64,
        }
        #[derive(Serialize)]
        struct Run<'a> {
            trace: &'a TraceSummary,
            policy: &'a PolicySummary,
            tiers: Vec<Tier<'a>>,
            #[serde(flatten)]
            figures: Map<String, serde_json::Value>,
            demotions: &'a [u64],
            promotions: &'a [u64],
            demoted_bytes: &'a [u64],
            promoted_bytes: &'a [u64],
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            gauges: &'a [Gauge],
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            clients: &'a [ClientSummary],
            #[serde(skip_serializing_if = "Option::is_none")]
            cost: Option<Cost>,
            #[serde(skip_serializing_if = "Option::is_none")]
            over_time: Option<&'a OverTime>,
            replay_seconds: f64,
            accesses_per_second: f64,
            #[serde(flatten)]
            timing: Option<&'a TimingSummary>,
        }
        let tiers = self.tiers.iter().enumerate().map(|(place, tier)| Tier {
            name: &tier.name,
            capacity_pages: tier.capacity_pages,
            figures: figure::of_tier(self, place),
            device: &tier.device,
            read_ms: tier.read_ms,
            write_ms: tier.write_ms,
        });
        let run = Run {
            trace: &self.trace,
            policy: &self.policy,
            tiers: tiers.collect(),
            figures: figure::of_run(self),
            demotions: &self.demotions,
            promotions: &self.promotions,
            demoted_bytes: &self.demoted_bytes,
            promoted_bytes: &self.promoted_bytes,
            gauges: &self.gauges,
            clients: &self.clients,
            cost: self.cost,
            over_time: self.over_time.as_ref(),
            replay_seconds: self.replay_seconds,
            accesses_per_second: self.accesses_per_second,
            timing: self.timing.as_ref(),
        };
        run.serialize(serializer)
    }
}

/// What one client found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientSummary {
    /// Its number, from 0.
    pub client: u8,
    /// Its accesses that were counted.
    pub accesses: u64,
    /// Those found in each tier that it sees, fastest first, the disk last.
    pub hits: Vec<u64>,
    /// Those found in a cache, divided by all.
    pub hit_ratio: f64,
    /// The mean access time of the tiers that they were found in, in milliseconds.
    pub average_response_ms: f64,
}

/// What a policy adapts, at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gauge {
    /// What it is.
    pub name: &'static str,
    /// The tier concerned.
    pub tier: String,
    /// Its value.
    pub value: f64,
}

/// How a run is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// What is left out of the counts.
    pub warm_up: WarmUp,
    /// Whether the Ledger runs alongside and checks every action.
    pub is_checked: bool,
    /// Into how many equal intervals the figures over time are cut, at most one per access; 0 for no
    /// figures over time.
    pub intervals: usize,
}

impl RunOptions {
    /// What takes the figures over time, if they are asked for.
    fn intervals(self, trace: &CompiledTrace, configuration: &Configuration) -> Option<Intervals> {
        let intervals = || Intervals::new(trace.len(), self.intervals, configuration.tier_names());
        (self.intervals > 0).then(intervals)
    }
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
    pub parameters: Map<String, serde_json::Value>,
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
    pub parameters: Map<String, serde_json::Value>,
}

/// One tier of a run.
#[derive(Clone, Debug)]
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
    /// Its access time in the average response, in milliseconds; not part of the JSON.
    pub latency_ms: f64,
}

impl Summary {
    /// Accesses found in any cache tier, divided by all; from 0 to 1.
    pub fn aggregate_hit_ratio(&self) -> f64 {
        self.tiers.last().map_or(0.0, |disk| 1.0 - disk.hit_ratio)
    }
}

/// Replays a trace through one configuration; `watch` counts the accesses, and can stop it.
///
/// # Errors
/// A configuration that cannot be, an action that the Ledger refuses, or a watch that stops it.
pub fn run(
    trace: &CompiledTrace,
    configuration: &Configuration,
    mut options: RunOptions,
    watch: &Watch,
) -> Result<Summary, LabError> {
    options.is_checked |= !configuration.policy.capabilities.is_tested;
    let warm_up_accesses = options.warm_up.accesses(trace.len() as u64)?;
    if let Some(timing) = &configuration.timing {
        return run_timed(trace, configuration, timing, options, watch);
    }
    let mut policy = configuration.build(trace)?;
    let mut ledger = options.is_checked.then(|| configuration.ledger(trace)).transpose()?;
    let mut intervals = options.intervals(trace, configuration);
    let start = Instant::now();
    let replay_options = Replay {
        warm_up_accesses,
        needs_clock: configuration.policy.capabilities.needs_clock,
        ledger: ledger.as_mut(),
        intervals: intervals.as_mut(),
        watch: Some(watch),
    };
    let counts = replay(trace, &mut *policy, replay_options).map_err(|violation| {
        LabError::Violation { policy: configuration.policy.name.to_string(), violation }
    })?;
    watch.check()?;
    let replay_seconds = start.elapsed().as_secs_f64();
    let state = PolicyState::of(&*policy, &configuration.tier_names());
    let timing = None;
    let found = Found { counts, state, intervals, warm_up_accesses, replay_seconds, timing };
    summarise(trace, configuration, found)
}

/// What a policy says of itself.
#[derive(Debug)]
pub(crate) struct PolicyState {
    pub(crate) metadata_bytes: u64,
    pub(crate) gauges: Vec<Gauge>,
}

impl PolicyState {
    /// As it stands; `names` are those of the tiers, the disk's last.
    pub(crate) fn of(policy: &dyn Policy, names: &[String]) -> Self {
        let mut gauges = vec![];
        policy.gauges(&mut |name, tier, value| {
            gauges.push(Gauge { name, tier: names[tier.index()].clone(), value });
        });
        Self { metadata_bytes: policy.metadata_bytes() as u64, gauges }
    }
}

/// What a replay found.
struct Found {
    /// Of each client.
    counts: Vec<Counts>,
    state: PolicyState,
    intervals: Option<Intervals>,
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
    watch: &Watch,
) -> Result<Summary, LabError> {
    let warm_up_accesses = options.warm_up.accesses(trace.len() as u64)?;
    let names = configuration.tier_names();
    let mut intervals = options.intervals(trace, configuration);
    let tally = Tally::new(trace, warm_up_accesses, intervals.as_mut());
    let engine = Engine::new(trace, configuration, timing, options.is_checked, tally, watch)?;
    let start = Instant::now();
    let Timed { counts, state, timing } = engine.run(timing, &names, warm_up_accesses)?;
    let replay_seconds = start.elapsed().as_secs_f64();
    let timing = Some(timing);
    let found = Found { counts, state, intervals, warm_up_accesses, replay_seconds, timing };
    summarise(trace, configuration, found)
}

fn summarise(
    trace: &CompiledTrace,
    configuration: &Configuration,
    found: Found,
) -> Result<Summary, LabError> {
    let Found { counts, state, .. } = found;
    let clients = client_summaries(configuration, &counts);
    let counts = sum(&counts).with_one_first_tier(configuration.clients);
    let capacity_pages = configuration.capacity_pages(trace)?;
    let latencies_ms = &configuration.latencies_ms;
    let average_response_ms = tiers::average_response_ms(&counts, latencies_ms);
    let [demotions, promotions] = tiers::traffic(configuration, &counts);
    let pages = capacity_pages.iter().copied().chain([trace.footprint_pages()]);
    let mut bytes: Vec<u64> =
        pages.map(|pages| u64::from(pages) * trace.page_size_bytes()).collect();
    bytes[0] *= u64::from(configuration.clients.get());
    let caches_bytes = bytes[..capacity_pages.len()].iter().sum::<u64>();
    let in_bytes =
        |pages: &[u64]| pages.iter().map(|pages| pages * trace.page_size_bytes()).collect();
    let prices = configuration.prices.as_ref();
    Ok(Summary {
        average_response_ms,
        demoted_bytes: in_bytes(&demotions),
        promoted_bytes: in_bytes(&promotions),
        demotions,
        promotions,
        metadata_bytes: state.metadata_bytes,
        metadata_share: state.metadata_bytes as f64 / (caches_bytes as f64).max(1.0),
        gauges: state.gauges,
        clients,
        cost: prices.map(|prices| prices.cost(&bytes, average_response_ms)),
        over_time: found.intervals.map(|intervals| intervals.summarise(trace, configuration)),
        trace: TraceSummary::of(trace),
        policy: PolicySummary::of(configuration),
        io_time_ms: io_time_ms(&configuration.costs(), &counts),
        tiers: tier_summaries(configuration, &capacity_pages, &counts),
        warm_up_accesses: found.warm_up_accesses,
        replay_seconds: found.replay_seconds,
        accesses_per_second: trace.len() as f64 / found.replay_seconds,
        timing: found.timing,
        counts: Box::new(counts),
    })
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
    watch: &Watch,
    done: impl Fn() + Sync,
) -> Result<Vec<Summary>, LabError> {
    let results: Vec<Result<Summary, LabError>> = configurations
        .par_iter()
        .map(|configuration| {
            let result = run(trace, configuration, options, watch);
            done();
            result
        })
        .collect();
    results.into_iter().collect()
}

/// What each of several clients found.
fn client_summaries(configuration: &Configuration, counts: &[Counts]) -> Vec<ClientSummary> {
    if configuration.clients == Clients::ONE {
        return vec![];
    }
    let summary = |(client, counts): (u8, &Counts)| {
        let counts = counts.with_one_first_tier(configuration.clients);
        let tiers = (0_u8..).map(Tier).take(configuration.tiers.len() + 1);
        let hits: Vec<u64> = tiers.map(|tier| counts.hits(tier)).collect();
        let accesses = counts.accesses();
        let cached: u64 = hits[..configuration.tiers.len()].iter().sum();
        ClientSummary {
            client,
            accesses,
            hits,
            hit_ratio: cached as f64 / (accesses as f64).max(1.0),
            average_response_ms: tiers::average_response_ms(&counts, &configuration.latencies_ms),
        }
    };
    (0..).zip(counts).map(summary).collect()
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
        .zip(&configuration.latencies_ms)
        .map(|((tier, (name, capacity_pages, device)), &latency_ms)| TierSummary {
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
            latency_ms,
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
        Self { name: configuration.policy.name.to_string(), parameters, write_miss, admission }
    }
}

/// All parameters as JSON.
pub(crate) fn parameters(values: &Values) -> Map<String, serde_json::Value> {
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
