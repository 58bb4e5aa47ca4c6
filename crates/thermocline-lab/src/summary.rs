//! Summary of a run: its figures, in the form that other tools read.

use serde::Serialize;
use serde_json::Map;
use thermocline_core::config::{Value, Values};
use thermocline_core::policy::hybrid::two_tier;
use thermocline_core::{Counts, Policy, WriteMiss};
use thermocline_trace::{CompiledTrace, SampledTrace};

use crate::{Configuration, Cost, OverTime, TierSsdSummary, TimingSummary};

/// Results of one run. Its JSON form has a stable schema: the figures of
/// [`RUNS`](crate::figure::RUNS), and values that are not single numbers.
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
    /// Data of the algorithm besides the pages and their order, at the end, in bytes.
    pub metadata_bytes: u64,
    /// `metadata_bytes` divided by the bytes of all caches.
    pub metadata_share: f64,
    /// Values that the policy adapts, at the end.
    pub gauges: Vec<Gauge>,
    /// Results of each client, if there are several; `tiers` then has the first tiers of all of
    /// them in one row, with the capacity that each has.
    pub clients: Vec<ClientSummary>,
    /// Cost, if prices were given.
    pub cost: Option<Cost>,
    /// The figures over time, if asked for.
    pub over_time: Option<OverTime>,
    /// Wall-clock time of the replay.
    pub replay_seconds: f64,
    /// Speed of the replay.
    pub accesses_per_second: f64,
    /// Response times and devices, if time was simulated.
    pub timing: Option<TimingSummary>,
    /// All counts, for figures that are computed from them; the first tiers of several clients are
    /// one. Not part of the JSON.
    pub counts: Box<Counts>,
}

/// Results of one client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientSummary {
    /// Its number, from 0.
    pub client: u8,
    /// Its accesses that were counted.
    pub accesses: u64,
    /// Number found in each tier that it sees, fastest first, the disk last.
    pub hits: Vec<u64>,
    /// Number found in a cache, divided by all.
    pub hit_ratio: f64,
    /// The mean access time of the tiers that they were found in, in milliseconds.
    pub average_response_ms: f64,
}

/// Value that a policy adapts, at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gauge {
    /// Name.
    pub name: &'static str,
    /// The tier concerned.
    pub tier: String,
    /// Its value.
    pub value: f64,
}

/// The trace of a run.
#[derive(Clone, Debug, Serialize)]
pub struct TraceSummary {
    /// Path of the trace.
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
    /// Distinct objects, if the requests are to objects with sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
}

/// The policy of a run.
#[derive(Clone, Debug, Serialize)]
pub struct PolicySummary {
    /// Its name.
    pub name: String,
    /// All its parameters.
    pub parameters: Map<String, serde_json::Value>,
    /// First action of a write miss: `fetch` or `allocate`.
    pub write_miss: &'static str,
    /// The identifier that decides which pages enter flash, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionSummary>,
}

impl PolicySummary {
    /// Return its name, with the algorithms of its tiers if it is put together of two.
    pub fn label(&self) -> String {
        let algorithm = |tier| self.parameters.get(tier)?.as_str();
        match (algorithm(two_tier::RAM), algorithm(two_tier::FLASH)) {
            (Some(ram), Some(flash)) => format!("{} ({ram} over {flash})", self.name),
            _ => self.name.clone(),
        }
    }
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
    /// Its capacity in pages; `None` for the disk, which holds every page.
    pub capacity_pages: Option<u64>,
    /// Accesses whose page this tier held, and no faster one.
    pub hits: u64,
    /// Number of hits that read.
    pub read_hits: u64,
    /// Number of hits that wrote.
    pub write_hits: u64,
    /// `hits` divided by the accesses counted.
    pub hit_ratio: f64,
    /// Bytes that were asked for of these pages, if the trace is of objects whose sizes are not whole
    /// pages.
    pub hit_bytes: Option<u64>,
    /// `hit_bytes` divided by the bytes asked for.
    pub byte_hit_ratio: Option<f64>,
    /// Pages that the tier's device read.
    pub page_reads: u64,
    /// Pages that the tier's device wrote.
    pub page_writes: u64,
    /// Its device.
    pub device: String,
    /// Cost of one page read there, in milliseconds.
    pub read_ms: f64,
    /// Cost of one page write there, in milliseconds.
    pub write_ms: f64,
    /// Its access time in the average response, in milliseconds; not part of the JSON.
    pub latency_ms: f64,
}

impl Summary {
    /// Return the number of accesses found in any cache tier, divided by all; from 0 to 1.
    pub fn aggregate_hit_ratio(&self) -> f64 {
        self.tiers.last().map_or(0.0, |disk| 1.0 - disk.hit_ratio)
    }

    /// Return the number of bytes found in any cache tier, divided by all that were asked for; from
    /// 0 to 1. `None` if the trace is not of objects whose sizes are not whole pages.
    pub fn byte_hit_ratio(&self) -> Option<f64> {
        Some(1.0 - self.tiers.last()?.byte_hit_ratio?)
    }

    /// Return the state of the drive of the tier at this place, if it is one of flash.
    pub(crate) fn drive(&self, tier: usize) -> Option<&TierSsdSummary> {
        // Each client has a first tier of its own.
        let further = self.clients.len().saturating_sub(1);
        let device = if tier == 0 { 0 } else { tier + further };
        self.timing.as_ref()?.devices.get(device)?.ssd.as_ref()
    }
}

/// Report of a policy about its state.
#[derive(Debug)]
pub(crate) struct PolicyState {
    pub(crate) metadata_bytes: u64,
    pub(crate) gauges: Vec<Gauge>,
}

impl PolicyState {
    /// Read the present state; `names` are those of the tiers, the disk's last.
    pub(crate) fn of(policy: &dyn Policy, names: &[String]) -> Self {
        let mut gauges = vec![];
        policy.gauges(&mut |name, tier, value| {
            gauges.push(Gauge { name, tier: names[tier.index()].clone(), value });
        });
        Self { metadata_bytes: policy.metadata_bytes() as u64, gauges }
    }
}

impl TraceSummary {
    /// Return the figures of a trace.
    pub fn of(trace: &CompiledTrace) -> Self {
        Self {
            path: trace.path().display().to_string(),
            page_size_bytes: trace.page_size_bytes(),
            requests: trace.request_count() as u64,
            accesses: trace.len() as u64,
            reads: trace.reads(),
            writes: trace.writes(),
            footprint_pages: u64::from(trace.footprint_pages()),
            objects: Some(trace.summary().objects).filter(|&objects| objects > 0),
        }
    }

    /// Return the figures of a trace that was sampled while its file was read: those of the whole.
    pub fn of_sampled(trace: &SampledTrace) -> Self {
        Self {
            path: trace.path.display().to_string(),
            page_size_bytes: trace.page_size.bytes(),
            requests: trace.requests,
            accesses: trace.accesses,
            reads: trace.accesses - trace.writes,
            writes: trace.writes,
            footprint_pages: u64::from(trace.footprint_pages),
            objects: None,
        }
    }
}

impl PolicySummary {
    /// Return the names that a configuration has for its policy.
    pub(crate) fn of(configuration: &Configuration) -> Self {
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

/// Return all parameters as JSON.
pub(crate) fn parameters(values: &Values) -> Map<String, serde_json::Value> {
    values.iter().map(|(name, value)| (name.to_owned(), json(value))).collect()
}

fn json(value: Value) -> serde_json::Value {
    match value {
        Value::Integer(value) => value.into(),
        Value::Real(value) => value.into(),
        Value::Switch(value) => value.into(),
        Value::Choice(word) => word.into(),
        Value::Words(words) => words.to_string().into(),
        Value::Auto => "auto".into(),
    }
}
