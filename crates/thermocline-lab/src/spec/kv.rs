//! Question about caches of keys and values, as a caller asks it.

use std::str::FromStr;

use thermocline_core::kv::{KvSettings, KvTier, Matching, Mode, Order, PLACES_MAX, Touch, Victim};
use thermocline_core::{CACHE_TIERS_MAX, Clients, Nanos};
use thermocline_device::ssd::SsdConfig;
use thermocline_trace::prompts::PromptTrace;

use super::Step::{At, Key};
use super::{DriveSpec, ParameterSpec, Selection, TierSpec};
use crate::kv::{KV_MODELS, KvConfiguration, KvCosts, KvModel, KvPolicy, KvTierCosts, Split};
use crate::parameters::{Owner, Parameters};
use crate::{LabError, WarmUp, find_ssd};
use thermocline_core::names::there_are;

/// Caches of keys and values: policies, tiers, and how these are filled.
#[derive(Clone, Debug, PartialEq)]
pub struct KvSpec {
    /// The policies.
    pub policies: Selection,
    /// The tiers, the fastest first, with one or more sizes each.
    pub tiers: Vec<TierSpec>,
    /// Number of engines.
    pub engines: u8,
    /// Number of first tiers that are private to each engine; one if absent.
    pub private_tiers: Option<usize>,
    /// Rule by which prompts are dealt to engines.
    pub split: Split,
    /// Rule by which blocks get below the first tier: exclusively, or as in the system that a
    /// policy models.
    pub mode: Option<Mode>,
    /// End of a chain that leaves first.
    pub order: Order,
    /// Order in which a lookup searches the tiers.
    pub matching: Matching,
    /// Copies that a request renews.
    pub touch: Touch,
    /// Choice of the block that makes room: the oldest, or as in the system that a policy models.
    pub victim: Option<Victim>,
    /// Number of uses a block needs to enter each tier; one where the list ends.
    pub admit: Vec<u32>,
    /// Number of blocks whose count of uses is kept after they left all tiers.
    pub ghost_blocks: u32,
    /// Time that tiers keep a block after its last use, in seconds.
    pub ttl_s: Vec<TierNumber>,
    /// The model, for work and time.
    pub model: Option<String>,
    /// Bytes of a block; those of the model if absent.
    pub block_bytes: Option<u64>,
    /// GB per second that are loaded from a tier.
    pub bandwidths: Vec<TierNumber>,
    /// Prices of tiers per GiB.
    pub prices: Vec<TierNumber>,
    /// Number of times that tiers may be written as a whole.
    pub rated_writes: Vec<TierNumber>,
    /// The drives that tiers lie on.
    pub drives: Vec<TierDrive>,
    /// Floating-point operations per second of the processors of a prefill, at their peak, in units of
    /// 10^12.
    pub teraflops: f64,
    /// The share of the peak that a prefill reaches, above 0 and up to 1.
    pub efficiency: f64,
    /// The price of these processors per hour.
    pub processors_per_hour: Option<f64>,
    /// After how many years hardware is written off, above 0.
    pub write_off_years: f64,
    /// Parameters of the policies.
    pub parameters: Vec<ParameterSpec>,
    /// Prompts that are not counted.
    pub warm_up: WarmUp,
    /// `true` if the Ledger runs alongside.
    pub is_checked: bool,
}

/// A number for a tier, as in `ssd=6.5`.
#[derive(Clone, Debug, PartialEq)]
pub struct TierNumber {
    /// The tier.
    pub tier: String,
    /// The number, at least 0.
    pub number: f64,
}

/// The drive of a tier, as in `ssd=tlc-nvme`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierDrive {
    /// The tier.
    pub tier: String,
    /// The drive.
    pub drive: DriveSpec,
}

impl FromStr for TierDrive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a tier and a drive, as in ssd=tlc-nvme".to_owned();
        let (tier, drive) = text.split_once('=').ok_or_else(wrong)?;
        if tier.is_empty() || drive.is_empty() {
            return Err(wrong());
        }
        Ok(Self { tier: tier.into(), drive: drive.into() })
    }
}

/// Bandwidths in GB per second where none is given: what a host of eight accelerators loads from its
/// memory, from a solid-state drive, and over a network of 100 Gbit/s.
const BANDWIDTHS: &[(&str, f64)] =
    &[("dram", 50.0), ("l2", 50.0), ("ssd", 7.0), ("l3", 7.0), ("remote", 12.5), ("l4", 12.5)];

/// Default number of times that a drive may be written as a whole: once a day for five years.
const RATED_WRITES: &[(&str, f64)] = &[("ssd", 1825.0)];

impl FromStr for TierNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a tier and a number of at least 0, as in ssd=6.5".to_owned();
        let (tier, number) = text.split_once('=').ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        if !number.is_finite() || number < 0.0 {
            return Err(wrong());
        }
        Ok(Self { tier: tier.into(), number })
    }
}

impl Default for KvSpec {
    /// Return the defaults: LRU of one engine, exclusive tiers, eight accelerators of 312 TFLOP/s at half of
    /// their peak.
    fn default() -> Self {
        Self {
            policies: Selection::Named(vec!["lru".into()]),
            tiers: vec![],
            engines: 1,
            private_tiers: None,
            split: Split::RoundRobin,
            mode: None,
            order: Order::TailFirst,
            matching: Matching::Cascade,
            touch: Touch::All,
            victim: None,
            admit: vec![],
            ghost_blocks: 0,
            ttl_s: vec![],
            model: None,
            block_bytes: None,
            bandwidths: vec![],
            prices: vec![],
            rated_writes: vec![],
            drives: vec![],
            teraflops: 8.0 * 312.0,
            efficiency: 0.5,
            processors_per_hour: None,
            write_off_years: 5.0,
            parameters: vec![],
            warm_up: WarmUp::default(),
            is_checked: false,
        }
    }
}

impl KvSpec {
    /// Return one configuration for each combination of sizes and each policy, policies last. Of
    /// all policies, those that run on the tiers, and with the engines.
    ///
    /// # Errors
    /// If a name is unknown, tiers or numbers are invalid, or a size in bytes has no model.
    pub fn configurations(&self, trace: &PromptTrace) -> Result<Vec<KvConfiguration>, LabError> {
        let all = || KvPolicy::all().into_iter().filter(|policy| self.suits(policy)).collect();
        self.configurations_of(&self.policies.resolve(all, KvPolicy::find)?, trace)
    }

    /// Return the configurations, without the policies that do not support that number of tiers.
    ///
    /// # Errors
    /// As for [`Self::configurations`].
    pub(crate) fn configurations_that_suit(
        &self,
        trace: &PromptTrace,
    ) -> Result<Vec<KvConfiguration>, LabError> {
        let mut policies = self.policies.resolve(KvPolicy::all, KvPolicy::find)?;
        policies.retain(|policy| self.suits(policy));
        self.configurations_of(&policies, trace)
    }

    fn suits(&self, policy: &KvPolicy) -> bool {
        policy.suits(self.tiers.len(), self.engines)
    }

    /// Return the bytes of a block, if they or a model are given.
    ///
    /// # Errors
    /// If the model is unknown.
    pub(crate) fn bytes_of_block(&self, trace: &PromptTrace) -> Result<Option<u64>, LabError> {
        let tokens = u64::from(trace.block_tokens());
        let of_model = self.model()?.map(|model| model.token_bytes * tokens);
        Ok(self.block_bytes.or(of_model))
    }

    fn configurations_of(
        &self,
        policies: &[KvPolicy],
        trace: &PromptTrace,
    ) -> Result<Vec<KvConfiguration>, LabError> {
        let entries: Vec<_> = policies.iter().filter_map(KvPolicy::entry).collect();
        let owners: Vec<Owner<'_>> = entries.iter().map(|&entry| entry.into()).collect();
        let parameters = Parameters::new(&self.parameters, &owners)?;
        let model = self.model()?;
        let drives = self.drives()?;
        let costs = self.costs(&drives)?;
        let block_bytes = self.bytes_of_block(trace)?;
        if let (Some(place), None) = (drives.iter().position(Option::is_some), block_bytes) {
            let tier = &self.tiers[place].name;
            let reason = format!(
                "how many bytes of the drive of `{tier}` does a block take? Give a model, as llama-3-70b, or the bytes of a block"
            );
            return Err(LabError::at(&[Key("drives")], reason));
        }
        let mut configurations = vec![];
        for capacities in self.capacities(trace, block_bytes)? {
            for policy in policies {
                let settings = self.settings(policy, &capacities)?;
                let own = policy.entry().map(|entry| parameters.of(&[entry.into()]));
                let own = own.unwrap_or_default().into_iter();
                configurations.push(KvConfiguration {
                    policy: policy.clone(),
                    parameters: own.map(|one| (one.name, one.value)).collect(),
                    settings,
                    tier_names: self.tiers.iter().map(|tier| tier.name.clone()).collect(),
                    split: self.split,
                    model,
                    block_bytes,
                    costs: costs.clone(),
                    drives: drives.clone(),
                    warm_up: self.warm_up,
                });
            }
        }
        Ok(configurations)
    }

    fn model(&self) -> Result<Option<KvModel>, LabError> {
        let find = |name: &String| {
            KV_MODELS.iter().find(|model| model.name == name).copied().ok_or_else(|| {
                let known = there_are(name, KV_MODELS.iter().map(|model| model.name));
                LabError::at(&[Key("model")], format!("unknown model `{name}`; {known}"))
            })
        };
        self.model.as_ref().map(find).transpose()
    }

    /// Return the capacities of all tiers in blocks, for each combination of their sizes.
    fn capacities(
        &self,
        trace: &PromptTrace,
        block_bytes: Option<u64>,
    ) -> Result<Vec<Vec<u32>>, LabError> {
        if !(1..=CACHE_TIERS_MAX).contains(&self.tiers.len()) {
            let reason = format!("there are from 1 to {CACHE_TIERS_MAX} tiers");
            return Err(LabError::at(&[Key("tiers")], reason));
        }
        let mut all: Vec<Vec<u32>> = vec![vec![]];
        for (place, tier) in self.tiers.iter().enumerate() {
            let at = [Key("tiers"), At(place), Key("sizes")];
            if self.tiers[..place].iter().any(|before| before.name == tier.name) {
                return Err(LabError::at(&at, "there are two tiers of this name"));
            }
            let mut wider = vec![];
            for capacities in &all {
                for &size in &tier.sizes {
                    if block_bytes.is_none() && size.whole_bytes().is_some() {
                        let reason = "how many bytes has a block? Give a model, as llama-3-70b, \
                            the bytes of a block, or the size in blocks, as 256p";
                        return Err(LabError::at(&at, reason));
                    }
                    let above = capacities.last().copied();
                    let bytes = block_bytes.unwrap_or(1);
                    let blocks = size.pages(&tier.name, bytes, trace.distinct_blocks(), above)?;
                    wider.push([&capacities[..], &[blocks]].concat());
                }
            }
            all = wider;
        }
        Ok(all)
    }

    /// Return the settings of a policy's tiers of these capacities.
    fn settings(&self, policy: &KvPolicy, capacities: &[u32]) -> Result<KvSettings, LabError> {
        let tiers = capacities.iter().copied().map(KvTier::new).collect();
        let engines = usize::from(self.engines);
        let engines = Clients::new(engines).ok_or_else(|| {
            LabError::at(&[Key("engines")], format!("there are from 1 to {} engines", Clients::MAX))
        })?;
        let mut settings = KvSettings { engines, ..KvSettings::new(tiers) };
        policy.settle(&mut settings);
        settings.order = self.order;
        settings.matching = self.matching;
        settings.touch = self.touch;
        settings.ghost_blocks = self.ghost_blocks;
        settings.mode = self.mode.unwrap_or(settings.mode);
        settings.victim = self.victim.unwrap_or(settings.victim);
        settings.private_tiers = self.private_tiers.unwrap_or(settings.private_tiers);
        self.check_places(policy, &settings)?;
        if self.admit.len() > capacities.len() || self.admit.contains(&0) {
            let reason = "expected a number of uses, at least 1, for each tier, as in 1,1,2";
            return Err(LabError::at(&[Key("admit")], reason));
        }
        for (tier, &uses) in settings.tiers.iter_mut().zip(&self.admit) {
            tier.admit_uses = uses;
        }
        for one in &self.ttl_s {
            let nanos = (one.number * 1e9).min(9e18);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is not negative, and far below 2^64"
            )]
            let ttl = Nanos(nanos as u64);
            settings.tiers[self.place("ttl", &one.tier)?].ttl = Some(ttl);
        }
        Ok(settings)
    }

    fn check_places(&self, policy: &KvPolicy, settings: &KvSettings) -> Result<(), LabError> {
        let KvSettings { private_tiers, engines, ref tiers, .. } = *settings;
        let wrong = |reason: String| Err(LabError::at(&[Key("private_tiers")], reason));
        if !(1..=tiers.len()).contains(&private_tiers) {
            return wrong(format!(
                "there are {} tiers, of which the first is private",
                tiers.len()
            ));
        }
        if settings.places() > PLACES_MAX {
            let places = settings.places();
            return wrong(format!("{places} private and shared tiers are more than {PLACES_MAX}"));
        }
        let is_one = private_tiers == 1 || engines.get() == 1;
        if !is_one && policy.is_own_placement() {
            let name = &policy.name;
            return wrong(format!("`{name}` gives each engine one tier of its own"));
        }
        if !is_one && self.is_checked {
            return wrong("the Ledger knows one tier of each engine: check with one".into());
        }
        Ok(())
    }

    /// Return the place of a tier that an option names.
    fn place(&self, option: &'static str, name: &str) -> Result<usize, LabError> {
        self.tiers.iter().position(|tier| tier.name == name).ok_or_else(|| {
            let known = there_are(name, self.tiers.iter().map(|tier| tier.name.as_str()));
            LabError::at(&[Key(option)], format!("unknown tier `{name}`; {known}"))
        })
    }

    /// Return the drive that each tier lies on.
    fn drives(&self) -> Result<Vec<Option<SsdConfig>>, LabError> {
        let mut drives = vec![None; self.tiers.len()];
        for TierDrive { tier, drive } in &self.drives {
            let config = find_ssd(drive).map_err(|error| LabError::at(&[Key("drives")], error))?;
            drives[self.place("drives", tier)?] = Some(config);
        }
        Ok(drives)
    }

    /// Checks that loading from each tier below the first takes a time that is known, or was set to none:
    /// a tier of an unknown name would look infinitely fast otherwise.
    fn check_bandwidths(&self, tiers: &[KvTierCosts]) -> Result<(), LabError> {
        let mut below = self.tiers.iter().zip(tiers).skip(1);
        let is_unknown = |(tier, costs): &(&TierSpec, &KvTierCosts)| {
            costs.bytes_per_s.is_none() && !self.has_bandwidth(&tier.name)
        };
        let Some((TierSpec { name, .. }, _)) = below.find(is_unknown) else { return Ok(()) };
        let reason = format!(
            "tier `{name}` needs one in GB per second, as in {name}=7 (0: loading takes no time); {}",
            bandwidths_known()
        );
        Err(LabError::at(&[Key("bandwidths")], reason))
    }

    /// Return `true` if the time of loading from a tier of that name is known or given.
    pub(crate) fn has_bandwidth(&self, name: &str) -> bool {
        BANDWIDTHS.iter().any(|(known, _)| *known == name)
            || self.bandwidths.iter().any(|one| one.tier == name)
    }

    fn costs(&self, drives: &[Option<SsdConfig>]) -> Result<KvCosts, LabError> {
        let positive = [
            ("teraflops", self.teraflops),
            ("efficiency", self.efficiency),
            ("write_off_years", self.write_off_years),
        ];
        for (key, number) in positive {
            if !(number.is_finite() && number > 0.0) {
                return Err(LabError::at(&[Key(key)], "expected a number above 0"));
            }
        }
        if self.efficiency > 1.0 {
            return Err(LabError::at(&[Key("efficiency")], "it is a share of the peak, up to 1"));
        }
        let default = |known: &[(&str, f64)], name: &str| {
            known.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
        };
        let of_tier = |(place, tier): (usize, &TierSpec)| KvTierCosts {
            // Blocks in the first tier need no transfer: the processors read them there.
            bytes_per_s: drives[place]
                .as_ref()
                .and_then(stated_bytes_per_s)
                .or_else(|| default(BANDWIDTHS, &tier.name).map(|number| number * 1e9))
                .filter(|_| place > 0),
            price_per_gib: None,
            rated_writes: default(RATED_WRITES, &tier.name),
        };
        let mut tiers: Vec<KvTierCosts> = self.tiers.iter().enumerate().map(of_tier).collect();
        for one in &self.bandwidths {
            let bytes = Some(one.number * 1e9).filter(|&bytes| bytes > 0.0);
            tiers[self.place("bandwidths", &one.tier)?].bytes_per_s = bytes;
        }
        if self.model.is_some() {
            self.check_bandwidths(&tiers)?;
        }
        for one in &self.prices {
            tiers[self.place("prices", &one.tier)?].price_per_gib = Some(one.number);
        }
        for one in &self.rated_writes {
            let rated = Some(one.number).filter(|&rated| rated > 0.0);
            tiers[self.place("rated_writes", &one.tier)?].rated_writes = rated;
        }
        Ok(KvCosts {
            flops_per_s: self.teraflops * 1e12 * self.efficiency,
            processors_per_hour: self.processors_per_hour,
            write_off_years: self.write_off_years,
            tiers,
        })
    }
}

/// Say which tiers have a bandwidth by default.
pub(crate) fn bandwidths_known() -> String {
    let names: Vec<&str> = BANDWIDTHS.iter().map(|&(name, _)| name).collect();
    format!("these have a default: {}", names.join(", "))
}

/// Return the bytes that a drive loads in a second: as its data sheet states it, else as its link
/// limits it, if that takes time.
pub(crate) fn stated_bytes_per_s(drive: &SsdConfig) -> Option<f64> {
    let stated = drive.datasheet.as_ref().and_then(|stated| stated.sequential_read_mb_per_s);
    let of_link = Some(drive.host_link_mb_per_s).filter(|&link| link > 0.0);
    Some(stated.or(of_link)? * 1e6)
}
