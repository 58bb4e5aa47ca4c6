//! Keepers of prompts' blocks: orders of recency, replacement algorithms, policies of the registry,
//! and the caches of serving systems.

use std::borrow::Cow;

use thermocline_core::config::{Parameter, Values};
use thermocline_core::kv::{KvSettings, KvTiers, Mode, PolicyTiers, PrefixCache, Victim};
use thermocline_core::names::there_are;
use thermocline_core::policy::single::{ALGORITHMS, Algorithm};
use thermocline_core::registry::{self, Depth, Future, PolicyEntry};

use crate::LabError;

/// A way to keep the blocks of prompts.
#[derive(Clone, Debug)]
pub struct KvPolicy {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Description.
    pub summary: &'static str,
    pub(crate) keeper: Keeper,
}

/// Keeper that decides.
#[derive(Clone, Debug)]
pub(crate) enum Keeper {
    /// An order of recency in each tier.
    Recency,
    /// Order of recency with the settings of a serving system.
    System(&'static System),
    /// The same replacement algorithm in each tier.
    Algorithm(&'static Algorithm),
    /// A policy of several tiers, which places blocks as it likes.
    Policy(&'static PolicyEntry),
}

/// A cache that a serving system ships.
#[derive(Debug)]
pub(crate) struct System {
    name: &'static str,
    summary: &'static str,
    /// The state of the system that is modelled.
    pub(crate) version: &'static str,
    /// Its defaults, in place of ours.
    settle: fn(&mut KvSettings),
}

/// The systems, with the state of their code that was read.
const SYSTEMS: &[System] = &[
    System {
        name: "lmcache-lru",
        summary: "LMCache: LRU, stored at once in memory, on disk and remotely",
        version: "LMCache, August to November 2026",
        settle: |settings| settings.mode = Mode::Through,
    },
    System {
        name: "vllm-offload",
        summary: "vLLM with offloading: LRU, tails first, blocks stored below as they complete",
        version: "vLLM, August 2026, with its pull request 51787",
        settle: |settings| settings.mode = Mode::Through,
    },
    System {
        name: "sglang-hicache",
        summary: "SGLang HiCache: LRU of leaves, write-through, the first two tiers of each engine's own",
        version: "SGLang, August to November 2026",
        settle: |settings| {
            settings.mode = Mode::Through;
            settings.victim = Victim::Leaf;
            if settings.engines.get() > 1 {
                settings.private_tiers = settings.tiers.len().min(2);
            }
        },
    },
    System {
        name: "mooncake-lru",
        summary: "Mooncake Store: LRU, of which 5 % leave when 90 % are full, below the engines' own",
        version: "Mooncake, August to November 2026",
        settle: |settings| {
            settings.mode = Mode::Through;
            for tier in settings.tiers.iter_mut().skip(1) {
                let of_all = |percent: u64| u64::from(tier.capacity_pages) * percent / 100;
                tier.fill_pages = u32::try_from(of_all(90)).expect("a share is smaller");
                tier.batch_pages = u32::try_from(of_all(5)).expect("a share is smaller").max(1);
            }
        },
    },
];

/// The names that are no algorithm's and no policy's of the registry.
const RECENCY: (&str, &str) = ("lru", "LRU in each tier, filled as --mode says");

impl KvPolicy {
    /// Return all that there are.
    pub fn all() -> Vec<Self> {
        let of = |name: &'static str, summary, keeper| Self { name: name.into(), summary, keeper };
        let (name, summary) = RECENCY;
        let mut all = vec![of(name, summary, Keeper::Recency)];
        all.extend(SYSTEMS.iter().map(|one| of(one.name, one.summary, Keeper::System(one))));
        let algorithms = ALGORITHMS.iter().filter(|one| one.name() != name);
        all.extend(
            algorithms.map(|one| of(one.name(), one.policy().summary, Keeper::Algorithm(one))),
        );
        let is_of_tiers = |entry: &&PolicyEntry| {
            let known = &entry.capabilities;
            matches!(known.depth, Depth::Tiers | Depth::RamFlash)
                && known.future == Future::Unknown
                && !known.needs_clock
        };
        all.extend(registry::entries().filter(is_of_tiers).map(|entry| Self {
            name: entry.name.clone(),
            summary: entry.summary,
            keeper: Keeper::Policy(entry),
        }));
        all
    }

    /// Return the one of that name.
    ///
    /// # Errors
    /// [`LabError::UnknownPolicy`], which names those that there are.
    pub fn find(name: &str) -> Result<Self, LabError> {
        let all = Self::all();
        let known = || there_are(name, all.iter().map(|one| &*one.name));
        let unknown = || LabError::UnknownPolicy { name: name.into(), known: known() };
        all.iter().find(|one| one.name == name).cloned().ok_or_else(unknown)
    }

    /// Return `true` if it runs on `tiers` tiers, with `engines` engines.
    pub fn suits(&self, tiers: usize, engines: u8) -> bool {
        match &self.keeper {
            Keeper::Policy(entry) => {
                let known = &entry.capabilities;
                known.depth.allows(tiers) && (engines < 2 || known.takes_clients)
            }
            Keeper::Recency | Keeper::System(_) | Keeper::Algorithm(_) => true,
        }
    }

    /// Return `true` if the mode is for the user to choose: neither the policy nor a system settles it.
    pub(crate) fn takes_modes(&self) -> bool {
        matches!(self.keeper, Keeper::Recency | Keeper::Algorithm(_))
    }

    /// Return the state of the system that it models.
    pub fn version(&self) -> Option<&'static str> {
        match &self.keeper {
            Keeper::System(system) => Some(system.version),
            Keeper::Recency | Keeper::Algorithm(_) | Keeper::Policy(_) => None,
        }
    }

    /// Return `true` if it places blocks itself, so that modes, admission and order of eviction are not
    /// ours.
    pub(crate) const fn is_own_placement(&self) -> bool {
        matches!(self.keeper, Keeper::Policy(_))
    }

    /// Return its entry in the registry, whose parameters it has.
    pub(crate) fn entry(&self) -> Option<&'static PolicyEntry> {
        match &self.keeper {
            Keeper::Algorithm(algorithm) => Some(algorithm.policy()),
            Keeper::Policy(entry) => Some(*entry),
            Keeper::Recency | Keeper::System(_) => None,
        }
    }

    /// Apply the baseline's defaults, before the caller's settings.
    pub(crate) fn settle(&self, settings: &mut KvSettings) {
        if let Keeper::System(system) = &self.keeper {
            (system.settle)(settings);
        }
    }

    /// Empty tiers for blocks with ids below `blocks`; checked by the Ledger if it is the policy's own
    /// placement and `is_checked`.
    pub(crate) fn build(
        &self,
        values: &Values,
        blocks: u32,
        settings: KvSettings,
        is_checked: bool,
    ) -> Result<Box<dyn PrefixCache>, LabError> {
        Ok(match &self.keeper {
            Keeper::Recency | Keeper::System(_) => Box::new(KvTiers::lru(blocks, settings)),
            Keeper::Algorithm(algorithm) => {
                Box::new(KvTiers::of(algorithm, values, blocks, settings))
            }
            Keeper::Policy(entry) => {
                let mut tiers = PolicyTiers::new(entry, values, blocks, settings)?;
                if is_checked {
                    tiers.check();
                }
                Box::new(tiers)
            }
        })
    }

    /// Return its parameters.
    pub(crate) fn parameters(&self) -> &'static [Parameter] {
        self.entry().map_or(&[], |entry| entry.parameters)
    }
}
