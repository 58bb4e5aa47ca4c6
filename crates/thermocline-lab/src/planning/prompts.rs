//! Plan of the tiers, the drive and the policy to buy for the keys and values of language models.
//!
//! 1. Every choice of tiers below the first, at sizes up to what the budget buys, by policies and modes:
//!    the candidates. Each is simulated on the whole trace, for chains of blocks are few.
//! 2. Those that another one beats in cost, the objective's figure and lifetime are left out. The
//!    rest is simulated again with a model of each drive beneath `ssd`, whose write amplification
//!    gives the lifetime.

use serde::Serialize;
use thermocline_core::kv::Mode;
use thermocline_device::ssd::SsdConfig;
use thermocline_trace::prompts::PromptTrace;

use super::{PlanProgress, compare, front, sizes_of, sorted};
use crate::kv::{GIB, KvConfiguration, KvPolicy, KvSummary, rated_writes, run_kv_all};
use crate::numbers::years_in_words;
use crate::spec::Step::Key;
use crate::spec::{DriveSpec, KvSpec, TierNumber, TierSpec, bandwidths_known, stated_bytes_per_s};
use crate::{LabError, TierSize, Watch, find_ssd};

/// The tier that lies on a drive.
pub const DRIVE_TIER: &str = "ssd";
/// The drive if none is named.
const DRIVE: &str = "tlc-nvme";
/// Sizes of each tier among the candidates.
const SIZES: u32 = 5;
/// Maximum number of candidates that are simulated again with a drive.
const FINALISTS: usize = 16;
/// The tiers that there can be: every choice of those below the first is tried.
const TIERS_MAX: usize = 4;

/// Objective of a plan for prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvObjective {
    /// The mean time to the first token.
    FirstToken,
    /// The time within which 99 % of first tokens come.
    P99,
    /// The price of a million tokens: processors, and tiers by time or by wear.
    CostPerToken,
}

/// Options of a plan for prompts.
#[derive(Clone, Debug)]
pub struct KvPlanOptions {
    /// Maximum cost of all tiers together.
    pub budget: f64,
    /// The model, the policies, how tiers are filled, and what work costs. Its tiers are those with a
    /// size that is fixed; `mode` is tried in all its values if absent.
    pub spec: KvSpec,
    /// Prices per GiB: of each tier, the fastest first, and of drives by name in place of that of `ssd`.
    pub prices: Vec<TierNumber>,
    /// The drives to choose from for the tier `ssd`; `tlc-nvme` if empty.
    pub drives: Vec<DriveSpec>,
    /// Objective; if `None`, the price of a million tokens where processors have a price, else the
    /// mean time to the first token.
    pub objective: Option<KvObjective>,
    /// Currency of prices and the budget.
    pub currency: String,
    /// Minimum lifetime of drives, in years; 0 if it does not matter.
    pub min_lifetime_years: f64,
}

/// A tier of a choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KvPlanTier {
    /// Its name.
    pub name: String,
    /// Its capacity in blocks.
    pub capacity_blocks: u64,
    /// The same in bytes.
    pub capacity_bytes: u64,
}

/// Tiers, a drive and a policy, simulated in full.
#[derive(Clone, Debug, Serialize)]
pub struct KvChoice {
    /// The name of the policy.
    pub policy: String,
    /// Rule by which blocks get below the first tier; null if the policy decides.
    pub mode: Option<&'static str>,
    /// The tiers, the fastest first.
    pub tiers: Vec<KvPlanTier>,
    /// The drive beneath `ssd`, if there is that tier.
    pub drive: Option<String>,
    /// Cost of all tiers together.
    pub cost: f64,
    /// Tokens that hit, divided by all.
    pub token_hit_ratio: f64,
    /// The mean time to the first token, in seconds.
    pub first_token_mean_s: f64,
    /// 99 % of first tokens come within this.
    pub first_token_p99_s: f64,
    /// The price of a million tokens; null without a price of processors.
    pub dollars_per_million_tokens: Option<f64>,
    /// Pages that the drive's cells take per page of a block.
    pub write_amplification: Option<f64>,
    /// Number of times that the whole drive is written per day.
    pub drive_writes_per_day: Option<f64>,
    /// Years until the drive is worn out; null without a drive, or without a write to it.
    pub lifetime_years: Option<f64>,
}

/// A choice that is tempting and not recommended.
#[derive(Clone, Debug, Serialize)]
pub struct KvStruckOut {
    /// Simulated choice.
    #[serde(flatten)]
    pub choice: KvChoice,
    /// Reason not to recommend it, in words.
    pub reason: String,
}

/// Plan of purchases for prompts. Its JSON form has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct KvPlan {
    /// The file of the trace.
    pub trace: String,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Maximum cost of all tiers together.
    pub budget: f64,
    /// Currency of prices and of every cost.
    pub currency: String,
    /// Objective.
    pub objective: KvObjective,
    /// Minimum lifetime of drives, in years; 0 if it did not matter.
    pub min_lifetime_years: f64,
    /// Candidates that were simulated without a drive.
    pub candidates: usize,
    /// Number of candidates that were simulated with the model of a drive.
    pub simulated: usize,
    /// Choices that no other one beats in cost, objective and lifetime, by cost.
    pub front: Vec<KvChoice>,
    /// Index in the front of the best choice by the objective.
    pub chosen: usize,
    /// Choices that are better by the objective or cheaper than some of the front and wear out too
    /// soon, by cost.
    pub struck_out: Vec<KvStruckOut>,
}

impl KvObjective {
    /// Return the objective in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::FirstToken => "the mean time to the first token",
            Self::P99 => "the time within which 99 % of first tokens come (p99)",
            Self::CostPerToken => "the price of a million tokens",
        }
    }
}

impl KvChoice {
    /// Return the figure of the objective, of which less is better: seconds, or a price.
    pub fn figure(&self, objective: KvObjective) -> f64 {
        match objective {
            KvObjective::FirstToken => self.first_token_mean_s,
            KvObjective::P99 => self.first_token_p99_s,
            KvObjective::CostPerToken => self.dollars_per_million_tokens.unwrap_or(f64::INFINITY),
        }
    }

    /// Return the policy, and the mode where that is not the policy's own.
    pub fn label(&self) -> String {
        self.mode.map_or_else(|| self.policy.clone(), |mode| format!("{}, {mode}", self.policy))
    }

    /// Return the lifetime of its drive in words; `None` without a drive, or without a write to it.
    pub fn lifetime_in_words(&self) -> Option<String> {
        self.lifetime_years.map(years_in_words)
    }

    fn lifetime(&self) -> f64 {
        self.lifetime_years.unwrap_or(f64::INFINITY)
    }

    fn order(&self, objective: KvObjective) -> [f64; 3] {
        [self.cost, self.figure(objective), -self.lifetime()]
    }
}

impl KvPlan {
    /// Looks for the best tiers, drive and policy. `progress` is told how far it is.
    ///
    /// # Errors
    /// As for [`KvSpec::configurations`]; or if there is no model or no price of the first tier,
    /// the budget does not buy a block of it, or nothing lasts long enough.
    pub fn search(
        trace: &PromptTrace,
        options: &KvPlanOptions,
        watch: &Watch,
        progress: impl Fn(PlanProgress) + Sync,
    ) -> Result<Self, LabError> {
        let market = Market::new(trace, options)?;
        let objective = options.objective.unwrap_or(match options.spec.processors_per_hour {
            Some(_) => KvObjective::CostPerToken,
            None => KvObjective::FirstToken,
        });
        if (objective, options.spec.processors_per_hour) == (KvObjective::CostPerToken, None) {
            let reason = "the price of a million tokens needs that of the processors";
            return Err(LabError::at(&[Key("processors_per_hour")], reason));
        }
        let candidates = market.candidates()?;
        progress(PlanProgress::Coarse(candidates.len()));
        let simulate = |configurations: &[KvConfiguration]| {
            let done = || progress(PlanProgress::Done);
            let found = run_kv_all(trace, configurations, options.spec.is_checked, watch, done)?;
            Ok::<_, LabError>(found.iter().map(|run| market.choice(run)).collect::<Vec<_>>())
        };
        let coarse: Vec<(KvConfiguration, KvChoice)> =
            candidates.iter().cloned().zip(simulate(&candidates)?).collect();
        let finalists = finalists(coarse, objective);
        let on_drives: Vec<KvConfiguration> =
            finalists.iter().flat_map(|one| market.on_drives(one)).collect();
        progress(PlanProgress::Full(on_drives.len()));
        let choices = simulate(&on_drives)?;
        let choices: Vec<KvChoice> =
            choices.into_iter().filter(|choice| choice.cost <= options.budget).collect();
        let longest = choices.iter().map(KvChoice::lifetime).fold(0.0, f64::max);
        let least = options.min_lifetime_years;
        let (kept, short): (Vec<KvChoice>, Vec<KvChoice>) =
            choices.into_iter().partition(|choice| choice.lifetime() >= least);
        let struck_out = struck_out(&kept, short, objective, least);
        let front = front(kept, |choice| choice.order(objective));
        let best = |one: &(usize, &KvChoice), other: &(usize, &KvChoice)| {
            let key = |choice: &KvChoice| [choice.figure(objective), choice.cost];
            compare(&key(one.1), &key(other.1))
        };
        let chosen = front.iter().enumerate().min_by(best).map(|(place, _)| place);
        Ok(Self {
            trace: trace.path().display().to_string(),
            block_bytes: market.block_bytes,
            budget: options.budget,
            currency: options.currency.clone(),
            objective,
            min_lifetime_years: least,
            candidates: candidates.len(),
            simulated: on_drives.len(),
            chosen: chosen.ok_or(LabError::NothingLasts { longest })?,
            front,
            struck_out,
        })
    }
}

/// A trace with what can be bought for it.
struct Market<'a> {
    trace: &'a PromptTrace,
    options: &'a KvPlanOptions,
    block_bytes: u64,
    /// The tiers, the fastest first, with their prices per GiB.
    tiers: Vec<(String, f64)>,
    drives: Vec<OfferedDrive>,
}

/// A drive with its price per GiB.
struct OfferedDrive {
    config: SsdConfig,
    price: f64,
}

impl<'a> Market<'a> {
    fn new(trace: &'a PromptTrace, options: &'a KvPlanOptions) -> Result<Self, LabError> {
        let bad = |key: &'static str, reason: String| Err(LabError::at(&[Key(key)], reason));
        if !options.budget.is_finite() || options.budget < 0.0 {
            return bad(
                "budget",
                format!("{} is invalid: expected a number of at least 0", options.budget),
            );
        }
        let years = options.min_lifetime_years;
        if years.is_nan() || years < 0.0 {
            return bad(
                "min_lifetime_years",
                format!("{years} is invalid: expected a number of at least 0"),
            );
        }
        let names: Vec<DriveSpec> = match &options.drives[..] {
            [] => vec![DRIVE.into()],
            drives => drives.to_vec(),
        };
        let is_drive = |one: &&TierNumber| names.iter().any(|drive| drive.to_string() == one.tier);
        let (of_drives, of_tiers): (Vec<&TierNumber>, Vec<&TierNumber>) =
            options.prices.iter().partition(is_drive);
        let tiers: Vec<(String, f64)> =
            of_tiers.iter().map(|one| (one.tier.clone(), one.number)).collect();
        if !(1..=TIERS_MAX).contains(&tiers.len()) {
            let reason = format!(
                "expected the prices per GiB of 1 to {TIERS_MAX} tiers, fastest first, as in hbm=100,dram=4,ssd=0.1"
            );
            return bad("prices", reason);
        }
        for (place, (name, _)) in tiers.iter().enumerate() {
            if tiers[..place].iter().any(|(before, _)| before == name) {
                return bad("prices", format!("the price of `{name}` is given twice"));
            }
        }
        // A name that is not known would be a tier that loads in no time.
        let has_no_bandwidth = |(name, _): &&(String, f64)| !options.spec.has_bandwidth(name);
        if let Some((name, _)) = tiers.iter().skip(1).find(has_no_bandwidth) {
            let known = bandwidths_known();
            return bad("prices", format!("the bandwidth of tier `{name}` is not known; {known}"));
        }
        let of_ssd = tiers.iter().find(|(name, _)| name == DRIVE_TIER).map(|(_, price)| *price);
        if of_ssd.is_none() && !options.drives.is_empty() {
            return bad(
                "drives",
                format!("no tier `{DRIVE_TIER}` has a price: a drive lies beneath that one"),
            );
        }
        let offer = |drive: &DriveSpec| {
            let config = find_ssd(drive).map_err(|error| LabError::at(&[Key("drives")], error))?;
            let own = of_drives.iter().find(|one| one.tier == drive.to_string());
            let price = own.map(|one| one.number).or(of_ssd).unwrap_or(0.0);
            Ok(OfferedDrive { config, price })
        };
        let drives = names.iter().map(offer).collect::<Result<Vec<_>, LabError>>()?;
        let spec = &options.spec;
        for fixed in &spec.tiers {
            if !tiers.iter().any(|(name, _)| *name == fixed.name) {
                return bad(
                    "tiers",
                    format!("`{}` has no price: give it one, 0 if it is there already", fixed.name),
                );
            }
        }
        let block_bytes = spec.bytes_of_block(trace)?;
        let Some(block_bytes) = block_bytes.filter(|_| spec.model.is_some()) else {
            return bad(
                "model",
                "expected a model, as llama-3-70b, for the time to the first token".into(),
            );
        };
        Ok(Self { trace, options, block_bytes, tiers, drives })
    }

    /// Return the price of a block in a tier: of `ssd`, on the cheapest drive.
    fn block_price(&self, tier: usize) -> f64 {
        let (name, price) = &self.tiers[tier];
        let cheapest = self.drives.iter().map(|drive| drive.price).fold(f64::INFINITY, f64::min);
        let price = if name == DRIVE_TIER { cheapest } else { *price };
        price * self.block_bytes as f64 / GIB * self.copies(tier)
    }

    /// Return the number of copies of a tier.
    fn copies(&self, tier: usize) -> f64 {
        let private = self.options.spec.private_tiers.unwrap_or(1);
        if tier < private { f64::from(self.options.spec.engines) } else { 1.0 }
    }

    /// Return every choice of tiers with the first one, and for each the sizes that the budget
    /// buys.
    fn hierarchies(&self) -> Result<Vec<Vec<(usize, u32)>>, LabError> {
        let mut all = vec![];
        for others in 0..1_usize << (self.tiers.len() - 1) {
            let is_in = |tier: &usize| *tier == 0 || others & 1 << (tier - 1) != 0;
            let places: Vec<usize> = (0..self.tiers.len()).filter(is_in).collect();
            let mut partial: Vec<(Vec<(usize, u32)>, f64)> = vec![(vec![], self.options.budget)];
            for &tier in &places {
                let mut longer = vec![];
                for (sizes, rest) in &partial {
                    for blocks in self.sizes(tier, *rest)? {
                        let rest = rest - self.block_price(tier) * f64::from(blocks);
                        longer.push(([&sizes[..], &[(tier, blocks)]].concat(), rest));
                    }
                }
                partial = longer;
            }
            all.extend(partial.into_iter().map(|(sizes, _)| sizes));
        }
        Ok(all)
    }

    /// Return the sizes of a tier that a rest of the budget buys: the one that is fixed, or some up
    /// to the most.
    fn sizes(&self, tier: usize, rest: f64) -> Result<Vec<u32>, LabError> {
        let distinct = self.trace.distinct_blocks();
        let price = self.block_price(tier);
        // Prices are added up in another order than they were taken off.
        let affordable =
            if price > 0.0 { rest / price * (1.0 + 1e-12) } else { f64::from(distinct) };
        let name = &self.tiers[tier].0;
        if let Some(fixed) = self.options.spec.tiers.iter().find(|fixed| fixed.name == *name) {
            let sizes =
                fixed.sizes.iter().map(|size| size.pages(name, self.block_bytes, distinct, None));
            let mut sizes: Vec<u32> = sizes.collect::<Result<_, _>>()?;
            sizes.retain(|&blocks| blocks > 0 && f64::from(blocks) <= affordable);
            return Ok(sizes);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to the number of blocks"
        )]
        let most = affordable.clamp(0.0, f64::from(distinct)) as u32;
        Ok(sizes_of(most, SIZES))
    }

    /// Return all configurations under the budget, without a drive.
    fn candidates(&self) -> Result<Vec<KvConfiguration>, LabError> {
        let hierarchies = self.hierarchies()?;
        if hierarchies.is_empty() {
            let (budget, least) = (self.options.budget, self.block_price(0));
            let first = &self.tiers[0].0;
            let reason = format!(
                "{budget} does not buy the first tier: a block of `{first}` costs {least:.4}, and one of a fixed size more"
            );
            return Err(LabError::at(&[Key("budget")], reason));
        }
        let modes: Vec<Option<Mode>> = match self.options.spec.mode {
            Some(mode) => vec![Some(mode)],
            None => vec![None, Some(Mode::Back)],
        };
        let mut all = vec![];
        for hierarchy in hierarchies {
            for (place, &mode) in modes.iter().enumerate() {
                let spec = self.spec(&hierarchy, mode);
                let mut found = spec.configurations_that_suit(self.trace)?;
                // A mode besides the own one is for those that have none of their own, below one tier.
                let takes_modes = |policy: &KvPolicy| hierarchy.len() > 1 && policy.takes_modes();
                found.retain(|one| place == 0 || takes_modes(&one.policy));
                for one in &mut found {
                    self.put_on_best_drive(one);
                }
                all.append(&mut found);
            }
        }
        Ok(all)
    }

    /// Gives the tier on a drive the best that any of the drives can do: the price, the bandwidth, and the
    /// writes without amplification. A configuration that is beaten even so need not be simulated on each.
    fn put_on_best_drive(&self, configuration: &mut KvConfiguration) {
        let place = configuration.tier_names.iter().position(|name| name == DRIVE_TIER);
        let Some(place) = place else { return };
        let costs = &mut configuration.costs.tiers[place];
        let best = |figure: &dyn Fn(&OfferedDrive) -> f64, pick: fn(f64, f64) -> f64| {
            self.drives.iter().map(figure).reduce(pick)
        };
        costs.price_per_gib = best(&|drive| drive.price, f64::min);
        costs.rated_writes = best(&|drive| rated_writes(&drive.config, 1.0), f64::max);
        if place > 0 && !self.is_bandwidth_given() {
            let stated = |drive: &OfferedDrive| stated_bytes_per_s(&drive.config).unwrap_or(0.0);
            costs.bytes_per_s =
                best(&stated, f64::max).filter(|&stated| stated > 0.0).or(costs.bytes_per_s);
        }
    }

    fn is_bandwidth_given(&self) -> bool {
        self.options.spec.bandwidths.iter().any(|one| one.tier == DRIVE_TIER)
    }

    /// Return the specification of some tiers with these sizes.
    fn spec(&self, hierarchy: &[(usize, u32)], mode: Option<Mode>) -> KvSpec {
        let spec = &self.options.spec;
        let names: Vec<&str> = hierarchy.iter().map(|&(tier, _)| &*self.tiers[tier].0).collect();
        let tier = |&(tier, blocks): &(usize, u32)| {
            TierSpec::new(&self.tiers[tier].0, &[TierSize::Pages(blocks.into())])
        };
        let of_these = |all: &[TierNumber]| {
            let known = all.iter().filter(|one| names.contains(&&*one.tier));
            known.cloned().collect::<Vec<_>>()
        };
        let admit = |&(tier, _): &(usize, u32)| spec.admit.get(tier).copied().unwrap_or(1);
        let price = |&(tier, _): &(usize, u32)| {
            let (tier, number) = self.tiers[tier].clone();
            TierNumber { tier, number }
        };
        KvSpec {
            tiers: hierarchy.iter().map(tier).collect(),
            private_tiers: spec.private_tiers.map(|private| private.min(hierarchy.len())),
            mode,
            admit: hierarchy.iter().map(admit).collect(),
            bandwidths: of_these(&spec.bandwidths),
            prices: hierarchy.iter().map(price).collect(),
            rated_writes: of_these(&spec.rated_writes),
            ttl_s: of_these(&spec.ttl_s),
            ..spec.clone()
        }
    }

    /// Return a finalist on each drive, or as it is if it has no tier on one.
    fn on_drives(&self, finalist: &KvConfiguration) -> Vec<KvConfiguration> {
        let place = finalist.tier_names.iter().position(|name| name == DRIVE_TIER);
        let Some(place) = place else { return vec![finalist.clone()] };
        let on = |drive: &OfferedDrive| {
            let mut configuration = finalist.clone();
            let costs = &mut configuration.costs.tiers[place];
            costs.price_per_gib = Some(drive.price);
            if place > 0 && !self.is_bandwidth_given() {
                costs.bytes_per_s = stated_bytes_per_s(&drive.config).or(costs.bytes_per_s);
            }
            configuration.drives[place] = Some(drive.config.clone());
            configuration
        };
        self.drives.iter().map(on).collect()
    }

    /// Return the choice that a run describes.
    fn choice(&self, run: &KvSummary) -> KvChoice {
        let cost = run.tiers.iter().map(|tier| {
            let bytes = (tier.capacity_blocks * tier.copies * self.block_bytes) as f64;
            bytes / GIB * tier.costs.price_per_gib.unwrap_or(0.0)
        });
        let place = run.tiers.iter().position(|tier| tier.name == DRIVE_TIER);
        let drive = place.and_then(|place| run.tiers[place].drive.as_ref());
        let tiers = run.tiers.iter().map(|tier| KvPlanTier {
            name: tier.name.clone(),
            capacity_blocks: tier.capacity_blocks,
            capacity_bytes: tier.capacity_blocks * self.block_bytes,
        });
        let first_tokens = run.first_token_s.len().max(1) as f64;
        KvChoice {
            policy: run.policy.name.clone(),
            mode: run.policy.settings.mode.filter(|_| run.tiers.len() > 1),
            tiers: tiers.collect(),
            drive: drive.map(|drive| drive.name.clone()),
            cost: cost.sum(),
            token_hit_ratio: run.token_hit_ratio(),
            first_token_mean_s: run.first_token_s.iter().sum::<f64>() / first_tokens,
            first_token_p99_s: run.first_token_within(0.99).unwrap_or(0.0),
            dollars_per_million_tokens: run
                .dollars()
                .map(|dollars| dollars * 1e6 / (run.tokens as f64).max(1.0)),
            write_amplification: drive.map(|drive| drive.write_amplification),
            drive_writes_per_day: place.and_then(|place| run.drive_writes_per_day(place)),
            lifetime_years: place.and_then(|place| run.lifetime_years(place)),
        }
    }
}

/// Return the candidates that no other one beats, the best by the objective first, and others at
/// all costs.
fn finalists(
    coarse: Vec<(KvConfiguration, KvChoice)>,
    objective: KvObjective,
) -> Vec<KvConfiguration> {
    let left = front(coarse, |(_, choice)| choice.order(objective));
    let best = sorted(left, |(_, one), (_, other)| {
        let key = |choice: &KvChoice| [choice.figure(objective), choice.cost];
        compare(&key(one), &key(other))
    });
    // From the best on, in steps that leave as many as are wanted.
    let count = best.len();
    let is_kept = |place: usize| {
        place < FINALISTS / 2
            || count <= FINALISTS
            || place * FINALISTS / 2 / count != (place + 1) * FINALISTS / 2 / count
    };
    let kept = best.into_iter().enumerate().filter(|(place, _)| is_kept(*place));
    kept.map(|(_, (configuration, _))| configuration).collect()
}

/// Return those that wear out too soon and that none of the others beats in cost and objective,
/// with the reason.
fn struck_out(
    kept: &[KvChoice],
    short: Vec<KvChoice>,
    objective: KvObjective,
    least_years: f64,
) -> Vec<KvStruckOut> {
    let is_tempting = |choice: &KvChoice| {
        !kept.iter().any(|other| {
            other.cost <= choice.cost && other.figure(objective) <= choice.figure(objective)
        })
    };
    let tempting = short.into_iter().filter(is_tempting).collect();
    let tempting =
        front(tempting, |choice: &KvChoice| [choice.cost, choice.figure(objective), 0.0]);
    let because = |choice: KvChoice| KvStruckOut {
        reason: format!(
            "its drive wears out in {}, sooner than {least_years} years",
            years_in_words(choice.lifetime())
        ),
        choice,
    };
    tempting.into_iter().map(because).collect()
}
