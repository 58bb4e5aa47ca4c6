//! The JSON of results: the figures by their rows, and all that is not a single number.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{BUFFERS, IDENTIFIERS, INTERVALS, PROMPTS, RUNS, of_run, of_tier};
use crate::kv::{KvDriveSummary, KvModel, KvPolicySummary, KvSummary, KvTraceSummary};
use crate::summary::{ClientSummary, Gauge, PolicySummary, Summary, TraceSummary};
use crate::{
    BufferPolicySummary, BufferSummary, Cost, FlushSize, IdentifierSummary, Interval,
    IntervalSummary, OverTime, ResponseSummary, SsdSummary, TimingSummary,
};

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tier<'a> {
            name: &'a str,
            capacity_pages: Option<u64>,
            #[serde(flatten)]
            figures: Map<String, Value>,
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
            figures: Map<String, Value>,
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
            figures: of_tier(RUNS, self, place),
            device: &tier.device,
            read_ms: tier.read_ms,
            write_ms: tier.write_ms,
        });
        let run = Run {
            trace: &self.trace,
            policy: &self.policy,
            tiers: tiers.collect(),
            figures: of_run(RUNS, self, None),
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

impl Serialize for IntervalSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Interval<'a> {
            #[serde(flatten)]
            figures: Map<String, Value>,
            hits: &'a [u64],
            hit_ratios: Vec<Option<f64>>,
            demotions: &'a [u64],
            promotions: &'a [u64],
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            gauges: &'a [Gauge],
        }
        let interval = Interval {
            figures: of_run(INTERVALS, self, None),
            hits: &self.hits,
            hit_ratios: (0..self.hits.len()).map(|tier| self.hit_ratio(tier)).collect(),
            demotions: &self.demotions,
            promotions: &self.promotions,
            gauges: &self.gauges,
        };
        interval.serialize(serializer)
    }
}

impl Serialize for BufferSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Buffer<'a> {
            policy: &'a BufferPolicySummary,
            #[serde(flatten)]
            figures: Map<String, Value>,
            response_us: Option<ResponseSummary>,
            flush_sizes: &'a [FlushSize],
            trace: &'a TraceSummary,
            ssd: Option<&'a SsdSummary>,
        }
        let buffer = Buffer {
            policy: &self.policy,
            figures: of_run(BUFFERS, self, Some(&Value::Null)),
            response_us: self.response_us,
            flush_sizes: &self.flush_sizes,
            trace: &self.trace,
            ssd: self.ssd.as_ref(),
        };
        buffer.serialize(serializer)
    }
}

impl Serialize for IdentifierSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Identifier<'a> {
            name: &'a str,
            label: &'a str,
            parameters: &'a Map<String, Value>,
            #[serde(flatten)]
            figures: Map<String, Value>,
            over_time: &'a [Interval],
        }
        let identifier = Identifier {
            name: &self.name,
            label: &self.label,
            parameters: &self.parameters,
            figures: of_run(IDENTIFIERS, self, Some(&Value::Null)),
            over_time: &self.over_time,
        };
        identifier.serialize(serializer)
    }
}

impl Serialize for KvSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tier<'a> {
            name: &'a str,
            capacity_blocks: u64,
            copies: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            drive: Option<&'a KvDriveSummary>,
            #[serde(flatten)]
            figures: Map<String, Value>,
        }
        #[derive(Serialize)]
        struct Prompts<'a> {
            policy: &'a KvPolicySummary,
            #[serde(flatten)]
            figures: Map<String, Value>,
            tiers: Vec<Tier<'a>>,
            trace: &'a KvTraceSummary,
            model: Option<KvModel>,
            block_bytes: Option<u64>,
            warm_up_requests: u64,
            duration_s: f64,
        }
        let tiers = self.tiers.iter().enumerate().map(|(place, tier)| Tier {
            name: &tier.name,
            capacity_blocks: tier.capacity_blocks,
            copies: tier.copies,
            drive: tier.drive.as_ref(),
            figures: of_tier(PROMPTS, self, place),
        });
        let prompts = Prompts {
            policy: &self.policy,
            figures: of_run(PROMPTS, self, Some(&Value::Null)),
            tiers: tiers.collect(),
            trace: &self.trace,
            model: self.model,
            block_bytes: self.block_bytes,
            warm_up_requests: self.warm_up_requests,
            duration_s: self.duration_s,
        };
        prompts.serialize(serializer)
    }
}
