//! Choices that were simulated in full, and reasons not to recommend some of them.

use serde::Serialize;
use thermocline_device::ssd::SsdConfig;

use super::{Objective, front};
use crate::PolicySummary;
use crate::metric::grouped;
use crate::numbers::years_in_words;

/// The share of requests that the 99th percentile leaves out.
const BEYOND_P99: f64 = 0.01;

/// Sizes and a policy, simulated in full.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The policy.
    pub policy: PolicySummary,
    /// Pages of RAM.
    pub ram_pages: u64,
    /// Pages of flash; 0 for none.
    pub flash_pages: u64,
    /// Cost of all tiers together.
    pub cost: f64,
    /// Accesses that neither RAM nor flash answers, divided by all.
    pub miss_ratio: f64,
    /// All page transfers at the costs of their tiers.
    pub io_time_ms: f64,
    /// The mean access time of the tiers that accesses were found in.
    pub average_response_ms: f64,
    /// `cost` divided by the I/Os per second at the average response.
    pub cost_per_io: f64,
    /// 99 % of reads, and of writes, are answered within this.
    pub p99_us: f64,
    /// Pages written to flash.
    pub flash_page_writes: u64,
    /// Years until flash is worn out if it goes on like this; absent without flash, or without a
    /// write to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// Requests that wait at one time, on average.
    pub outstanding_mean: f64,
    /// `true` if requests, arriving at the trace's times, pile up: the devices do not keep pace.
    pub is_saturated: bool,
}

/// A choice that is tempting and not recommended.
#[derive(Clone, Debug, Serialize)]
pub struct StruckOut {
    /// Simulated choice.
    #[serde(flatten)]
    pub choice: Choice,
    /// Reason not to recommend it, in words.
    pub reason: String,
}

impl Choice {
    /// Return the figure of the objective, of which less is better: microseconds, milliseconds, or
    /// a price per I/O per second.
    pub fn figure(&self, objective: Objective) -> f64 {
        match objective {
            Objective::P99 => self.p99_us,
            Objective::IoTime => self.io_time_ms,
            Objective::CostPerIo => self.cost_per_io,
        }
    }

    /// Return the lifetime of its flash in words; `None` without flash, or without a write to it.
    pub fn lifetime_in_words(&self) -> Option<String> {
        self.lifetime_years.map(years_in_words)
    }

    /// Return the lifetime of its flash: without end, if it has none or never writes it.
    pub(super) fn lifetime(&self) -> f64 {
        self.lifetime_years.unwrap_or(f64::INFINITY)
    }

    /// Return the number of requests that wait at one time, on average, if they pile up.
    pub(super) fn piled_up(&self) -> Option<f64> {
        self.is_saturated.then_some(self.outstanding_mean)
    }

    /// Return the reason why it cannot be recommended, if there is one.
    fn fault(&self, least_years: f64, drive: &SsdConfig) -> Option<String> {
        if self.lifetime() < least_years {
            return Some(format!(
                "its flash wears out in {}, sooner than {least_years} years ({} erases per block of the drive)",
                years_in_words(self.lifetime()),
                grouped(drive.erase_limit.into())
            ));
        }
        self.is_saturated.then(|| {
            format!(
                "it does not keep pace with the trace: {:.0} requests wait at one time, on average",
                self.outstanding_mean
            )
        })
    }

    /// Parts choices that can be recommended from those that cannot; of these only what none of the
    /// others beats in cost and latency, by cost.
    pub(super) fn judge(
        all: Vec<Self>,
        objective: Objective,
        least_years: f64,
        drive: &SsdConfig,
    ) -> (Vec<Self>, Vec<StruckOut>) {
        let (mut kept, mut struck_out) = (vec![], vec![]);
        for choice in all {
            match choice.fault(least_years, drive) {
                Some(reason) => struck_out.push(StruckOut { choice, reason }),
                None => kept.push(choice),
            }
        }
        struck_out.retain(|StruckOut { choice, .. }| {
            let beats = |other: &Self| {
                other.cost <= choice.cost && other.figure(objective) <= choice.figure(objective)
            };
            !kept.iter().any(beats)
        });
        let figures = |one: &StruckOut| [one.choice.cost, one.choice.figure(objective), 0.0];
        (kept, front(struck_out, figures))
    }
}

/// Return the objective that separates the choices, and the reason. A percentile does not where the
/// trace's times mean nothing, nor where more accesses than it leaves out go to the disk whatever
/// is bought: it is then the disk's.
pub(super) fn telling_objective(
    choices: &[Choice],
    is_saturated: bool,
) -> (Objective, Option<&'static str>) {
    if is_saturated {
        return (Objective::IoTime, Some("nothing keeps pace with the trace's times"));
    }
    if choices.iter().all(|choice| choice.miss_ratio > BEYOND_P99) {
        let reason = "more than 1 % of the accesses go to the disk whatever is bought, so the 99th percentile is the disk's";
        return (Objective::IoTime, Some(reason));
    }
    (Objective::P99, Some("some choices answer 99 % of the accesses from caches"))
}
