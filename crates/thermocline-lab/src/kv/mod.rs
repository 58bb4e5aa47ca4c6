//! Caches of attention keys and values: prompts through tiers of blocks, and what that saves.
//!
//! A prompt is a chain of blocks; a block counts as a hit only if all blocks before it do. Other blocks
//! are computed, which costs prefill time, and kept again. Requests are answered one after the
//! other, in the order of the file. See `docs/kv.md`.

mod checking;
mod drive;
mod models;
mod money;
mod policies;
mod run;
mod tally;

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value};
use thermocline_core::config::Given;
use thermocline_core::kv::KvSettings;
use thermocline_device::ssd::SsdConfig;
use thermocline_trace::prompts::PromptTrace;

use crate::{LabError, SECONDS_PER_DAY, WarmUp, Watch};

pub use drive::KvDriveSummary;
pub(crate) use drive::rated_writes;
pub use models::{KV_MODELS, KvModel};
pub(crate) use money::GIB;
pub use policies::KvPolicy;

/// One run: everything but the trace.
#[derive(Clone, Debug)]
pub struct KvConfiguration {
    /// Policy that keeps the blocks.
    pub policy: KvPolicy,
    /// Its parameters that are given, by name.
    pub parameters: Vec<(String, Given)>,
    /// The tiers and how they are filled.
    pub settings: KvSettings,
    /// The names of the tiers, the fastest first.
    pub tier_names: Vec<String>,
    /// Rule by which prompts are dealt to engines.
    pub split: Split,
    /// The model, if work and time are asked for.
    pub model: Option<KvModel>,
    /// Bytes of a block, if they are known.
    pub block_bytes: Option<u64>,
    /// Costs of work, loading and tiers.
    pub costs: KvCosts,
    /// The drive that each tier lies on; one with a drive needs `block_bytes`.
    pub drives: Vec<Option<SsdConfig>>,
    /// Prompts that are not counted.
    pub warm_up: WarmUp,
}

/// Rule by which prompts are dealt to engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// One after the other.
    #[default]
    RoundRobin,
    /// All prompts of a conversation to one engine.
    Session,
}

/// Costs of work, loading and tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct KvCosts {
    /// Floating-point operations of a prefill per second.
    pub flops_per_s: f64,
    /// The price of the processors of one prefill per hour.
    pub processors_per_hour: Option<f64>,
    /// After how many years hardware is written off.
    pub write_off_years: f64,
    /// Costs of each tier.
    pub tiers: Vec<KvTierCosts>,
}

/// Costs of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KvTierCosts {
    /// Bytes per second that are loaded from it; loading takes no time if absent.
    pub bytes_per_s: Option<f64>,
    /// Its price per GiB.
    pub price_per_gib: Option<f64>,
    /// Number of times that it may be written as a whole, until it is worn out; it does not wear if
    /// absent.
    pub rated_writes: Option<f64>,
}

/// The results of one run. Its JSON form has a stable schema.
#[derive(Clone, Debug)]
pub struct KvSummary {
    /// The trace.
    pub trace: KvTraceSummary,
    /// Policy that kept the blocks.
    pub policy: KvPolicySummary,
    /// The model.
    pub model: Option<KvModel>,
    /// Bytes of a block.
    pub block_bytes: Option<u64>,
    /// Prompts at the beginning that are not counted.
    pub warm_up_requests: u64,
    /// Prompts.
    pub requests: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Their blocks.
    pub blocks: u64,
    /// Tokens of the prefixes that hit.
    pub hit_tokens: u64,
    /// Blocks of these prefixes.
    pub hit_blocks: u64,
    /// Blocks that a tier held and that were computed all the same.
    pub stranded: u64,
    /// Prompts of which all blocks hit.
    pub complete: u64,
    /// Tokens of prefixes that any prompt before had, warm-up included.
    pub unlimited_hit_tokens: u64,
    /// Copies that grew too old, warm-up included.
    pub expired: u64,
    /// Time from the first arrival that is counted to the last.
    pub duration_s: f64,
    /// The tiers, the fastest first.
    pub tiers: Vec<KvTierSummary>,
    /// Floating-point operations of all prefills without a cache; 0 without a model.
    pub flops: u128,
    /// Number that hits saved.
    pub saved_flops: u128,
    /// Floating-point operations per second.
    pub flops_per_s: f64,
    /// The time to the first token of each prompt, the shortest first; empty without a model.
    pub first_token_s: Vec<f64>,
    /// The sum of these times if loading goes on during the prefill.
    pub overlapped_s: f64,
    /// The price of the processors while they prefill, for all prompts.
    pub processor_dollars: Option<f64>,
}

/// The trace of a run.
#[derive(Clone, Debug, Serialize)]
pub struct KvTraceSummary {
    /// The file.
    pub path: String,
    /// The format.
    pub format: &'static str,
    /// Tokens of a block.
    pub block_tokens: u32,
    /// Its prompts.
    pub requests: u64,
    /// Distinct blocks.
    pub distinct_blocks: u32,
}

/// The policy of a run.
#[derive(Clone, Debug, Serialize)]
pub struct KvPolicySummary {
    /// Its name.
    pub name: String,
    /// The state of the serving system that it models.
    pub version: Option<&'static str>,
    /// All its parameters.
    pub parameters: Map<String, Value>,
    /// Way in which tiers were filled.
    pub settings: KvSettingsSummary,
}

/// Way in which tiers were filled. Null for settings that a policy decides itself.
#[derive(Clone, Debug, Serialize)]
pub struct KvSettingsSummary {
    /// Rule by which blocks get below the first tier.
    pub mode: Option<&'static str>,
    /// End of a chain that leaves first.
    pub order: &'static str,
    /// Order in which a lookup searches the tiers.
    #[serde(rename = "match")]
    pub matching: &'static str,
    /// Copies that a request renews.
    pub touch: Option<&'static str>,
    /// Choice of the block that makes room.
    pub victim: Option<&'static str>,
    /// Uses that each tier waits for.
    pub admit: Option<Vec<u32>>,
    /// Blocks that left and keep their uses.
    pub ghost_blocks: Option<u32>,
    /// Engines.
    pub engines: u8,
    /// Tiers that each has for itself.
    pub private_tiers: usize,
}

/// A tier of a run.
#[derive(Clone, Debug)]
pub struct KvTierSummary {
    /// Its name.
    pub name: String,
    /// Its capacity; that of each engine if it is not shared.
    pub capacity_blocks: u64,
    /// Number of its copies.
    pub copies: u64,
    /// Blocks that it served.
    pub hits: u64,
    /// Their tokens.
    pub hit_tokens: u64,
    /// Blocks written to it.
    pub writes: u64,
    /// Costs.
    pub costs: KvTierCosts,
    /// The drive that it lies on.
    pub drive: Option<KvDriveSummary>,
    /// The price of the tier for the time of all prompts, or of its wear, whichever is more.
    pub dollars: Option<f64>,
}

impl KvTraceSummary {
    fn of(trace: &PromptTrace) -> Self {
        Self {
            path: trace.path().display().to_string(),
            format: trace.format().name(),
            block_tokens: trace.block_tokens(),
            requests: trace.prompts().len() as u64,
            distinct_blocks: trace.distinct_blocks(),
        }
    }
}

impl KvSettingsSummary {
    fn of(configuration: &KvConfiguration) -> Self {
        let KvConfiguration { settings, policy, .. } = configuration;
        let is_ours = !policy.is_own_placement();
        let admit = settings.tiers.iter().map(|tier| tier.admit_uses);
        Self {
            mode: is_ours.then(|| settings.mode.name()),
            order: settings.order.name(),
            matching: settings.matching.name(),
            touch: is_ours.then(|| settings.touch.name()),
            victim: is_ours.then(|| settings.victim.name()),
            admit: is_ours.then(|| admit.collect()),
            ghost_blocks: is_ours.then_some(settings.ghost_blocks),
            engines: settings.engines.get(),
            private_tiers: settings.private_tiers,
        }
    }
}

impl KvSummary {
    /// Return the capacities of its tiers in blocks: runs with equal ones can be compared.
    pub fn capacities(&self) -> Vec<u64> {
        self.tiers.iter().map(|tier| tier.capacity_blocks).collect()
    }

    /// Return the price of all prompts: processors and every tier that has a price; none if the
    /// processors have none.
    pub fn dollars(&self) -> Option<f64> {
        let tiers = self.tiers.iter().filter_map(|tier| tier.dollars);
        Some(self.processor_dollars? + tiers.sum::<f64>())
    }

    /// Tokens that hit, divided by all.
    pub fn token_hit_ratio(&self) -> f64 {
        self.hit_tokens as f64 / (self.tokens as f64).max(1.0)
    }

    /// Seconds of prefill that were computed; none without a model.
    pub fn prefill_s(&self) -> Option<f64> {
        self.model?;
        Some((self.flops - self.saved_flops) as f64 / self.flops_per_s)
    }

    /// Return the number of times that a tier was written as a whole.
    pub fn drive_writes(&self, place: usize) -> Option<f64> {
        let tier = self.tiers.get(place)?;
        let blocks = tier.capacity_blocks * tier.copies;
        (blocks > 0).then(|| tier.writes as f64 / blocks as f64)
    }

    /// Return the same per day, at the rate of the run; none without times.
    pub fn drive_writes_per_day(&self, place: usize) -> Option<f64> {
        let writes = self.drive_writes(place)?;
        (self.duration_s > 0.0).then(|| writes / self.duration_s * SECONDS_PER_DAY)
    }

    /// Years until a tier is worn out; none if it does not wear.
    pub fn lifetime_years(&self, place: usize) -> Option<f64> {
        let rated = self.tiers.get(place)?.costs.rated_writes?;
        let per_day = self.drive_writes_per_day(place)?;
        (per_day > 0.0).then(|| rated / per_day / 365.25)
    }

    /// Return the time to the first token that a share of prompts stays within; none without a
    /// model.
    pub fn first_token_within(&self, share: f64) -> Option<f64> {
        let last = self.first_token_s.len().checked_sub(1)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a length is below the length"
        )]
        let place = (share * (last + 1) as f64).ceil() as usize;
        Some(self.first_token_s[place.saturating_sub(1).min(last)])
    }
}

/// Runs prompts through one cache; `watch` counts the blocks, and can stop it.
///
/// # Errors
/// If a configuration is invalid, or the Ledger refuses an action.
pub fn run_kv(
    trace: &PromptTrace,
    configuration: &KvConfiguration,
    is_checked: bool,
    watch: &Watch,
) -> Result<KvSummary, LabError> {
    run::run(trace, configuration, is_checked, watch)
}

/// Runs prompts through many caches, in parallel; the results keep their order.
///
/// `done` is told each time that one is finished.
///
/// # Errors
/// If a run of [`run_kv`] fails; the error is that of the first one, in order.
pub fn run_kv_all(
    trace: &PromptTrace,
    configurations: &[KvConfiguration],
    is_checked: bool,
    watch: &Watch,
    done: impl Fn() + Sync,
) -> Result<Vec<KvSummary>, LabError> {
    let results: Vec<Result<KvSummary, LabError>> = configurations
        .par_iter()
        .map(|configuration| {
            let result = run_kv(trace, configuration, is_checked, watch);
            done();
            result
        })
        .collect();
    results.into_iter().collect()
}
