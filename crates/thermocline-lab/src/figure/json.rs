//! The JSON of a run: its figures, and what is no single number.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{of_run, of_tier};
use crate::summary::{ClientSummary, Gauge, PolicySummary, Summary, TraceSummary};
use crate::{Cost, OverTime, TimingSummary};

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
            figures: of_tier(self, place),
            device: &tier.device,
            read_ms: tier.read_ms,
            write_ms: tier.write_ms,
        });
        let run = Run {
            trace: &self.trace,
            policy: &self.policy,
            tiers: tiers.collect(),
            figures: of_run(self),
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
