//! Every policy that there is: one row each.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use crate::config::{ConfigError, Parameter, Values};
use crate::policy::hybrid::{face, hat, lazy_cleaning, lru_two_tier, tac};
use crate::policy::single::lru;
use crate::{BoxedPolicy, Tier};

pub use crate::config::Setup;

/// The greatest capacity of a tier in pages: page ids have 32 bits, and queues mark absence in them.
pub const CAPACITY_PAGES_MAX: u32 = 1 << 31;

/// One registered policy.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name, as given to `--policy`.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Who published it, where.
    pub source: &'static str,
    /// The hierarchies that it runs on.
    pub depth: Depth,
    /// Whether drivers must call [`Policy::background`](crate::Policy::background).
    pub needs_clock: bool,
    /// Whether an identifier may decide which pages enter flash.
    pub takes_admission: bool,
    /// Its parameters, in the order in which they are listed.
    pub parameters: &'static [Parameter],
    build: fn(&Setup, &Values) -> BoxedPolicy,
}

/// The hierarchies that a policy runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// RAM over disk; a flash tier may be there and stays empty.
    Ram,
    /// RAM and flash over disk.
    RamFlash,
}

/// All policies, in the order in which they are listed.
pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "hat",
        summary: "hot, warm and cold pages by hit position in one page reference queue",
        source: "Lv, Cui, Chen, Li: Hotness-Aware Hit (HAT), CIKM 2013; Front. Comput. Sci. 8(3), 2014",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: false,
        parameters: hat::PARAMETERS,
        build: hat::build,
    },
    Entry {
        name: "tac",
        summary: "temperature per extent; warm extents are admitted to a write-through flash",
        source: "Canim et al.: SSD Bufferpool Extensions for Database Systems, PVLDB 3, 2010",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: false,
        parameters: tac::PARAMETERS,
        build: tac::build,
    },
    Entry {
        name: "lc",
        summary: "lazy cleaning: dirty pages go to flash and are cleaned to disk in groups, later",
        source: "Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: lazy_cleaning::LC_PARAMETERS,
        build: lazy_cleaning::build_lc,
    },
    Entry {
        name: "cw",
        summary: "clean write: dirty pages go to disk only, flash holds clean pages",
        source: "Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: lazy_cleaning::PARAMETERS,
        build: lazy_cleaning::build_cw,
    },
    Entry {
        name: "dw",
        summary: "dual write: dirty pages go to flash and to disk",
        source: "Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: lazy_cleaning::PARAMETERS,
        build: lazy_cleaning::build_dw,
    },
    Entry {
        name: "face",
        summary: "flash as a multi-version FIFO, so that flash writes are sequential",
        source: "Kang, Lee, Moon: Flash-Based Extended Cache (FaCE), PVLDB 5(11), 2012",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: face::PARAMETERS,
        build: face::build_fifo,
    },
    Entry {
        name: "face-gr",
        summary: "FaCE with group replacement: pages leave the FIFO in batches",
        source: "Kang, Lee, Moon: Flash-Based Extended Cache (FaCE), PVLDB 5(11), 2012",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: face::GROUP_PARAMETERS,
        build: face::build_group,
    },
    Entry {
        name: "face-gsc",
        summary: "FaCE with group second chance: referenced pages of a batch are enqueued again",
        source: "Kang, Lee, Moon: Flash-Based Extended Cache (FaCE), PVLDB 5(11), 2012",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: face::GROUP_PARAMETERS,
        build: face::build_second_chance,
    },
    Entry {
        name: "lru-inclusive",
        summary: "one LRU order: flash holds its newest pages, RAM the newest of those",
        source: "baseline; inclusive scheme of Koltsidas and Viglas, ADBIS 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: &[],
        build: lru_two_tier::build_inclusive,
    },
    Entry {
        name: "lru-exclusive",
        summary: "one LRU order: RAM holds its newest pages, flash the next ones",
        source: "baseline; exclusive scheme of Koltsidas and Viglas, ADBIS 2011",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: true,
        parameters: &[],
        build: lru_two_tier::build_exclusive,
    },
    Entry {
        name: "lru",
        summary: "least recently used, write-back, no flash",
        source: "baseline",
        depth: Depth::Ram,
        needs_clock: false,
        takes_admission: false,
        parameters: &[],
        build: lru::build,
    },
];

/// The policy of that name.
///
/// # Errors
/// [`ConfigError::UnknownPolicy`] if there is none.
pub fn find(name: &str) -> Result<&'static Entry, ConfigError> {
    ENTRIES
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| ConfigError::UnknownPolicy { name: name.to_owned() })
}

/// All policies, in the order in which they are listed.
pub fn entries() -> &'static [Entry] {
    ENTRIES
}

impl Entry {
    /// The parameters' values: the defaults, with those given by name and text in their place.
    ///
    /// # Errors
    /// An unknown name, or a text that is no value of its parameter.
    pub fn values(&self, given: &[(String, String)]) -> Result<Values, ConfigError> {
        Values::resolve(self.name, self.parameters, given)
    }

    /// Builds the policy, empty.
    ///
    /// # Errors
    /// A hierarchy that the policy does not run on, or an admission that it does not take.
    pub fn build(&self, setup: &Setup, values: &Values) -> Result<BoxedPolicy, ConfigError> {
        self.depth.check(self.name, setup)?;
        if setup.admission.identifier().is_some() && !self.takes_admission {
            let known = ENTRIES.iter().filter(|entry| entry.takes_admission);
            let known: Vec<&str> = known.map(|entry| entry.name).collect();
            let policy = self.name.to_owned();
            return Err(ConfigError::NoAdmission { policy, known: known.join(", ") });
        }
        Ok((self.build)(setup, values))
    }

    /// Builds the policy, empty, with its default parameters.
    ///
    /// # Errors
    /// A hierarchy that the policy does not run on.
    pub fn build_default(&self, setup: &Setup) -> Result<BoxedPolicy, ConfigError> {
        self.build(setup, &self.values(&[])?)
    }
}

impl Depth {
    /// The cache tiers in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Ram => "one cache tier, `ram` (a `flash` below it stays empty)",
            Self::RamFlash => "two cache tiers, `ram` and `flash`",
        }
    }

    /// Whether a hierarchy of that many cache tiers suits.
    pub const fn allows(self, cache_tiers: usize) -> bool {
        match self {
            Self::Ram => cache_tiers == 1 || cache_tiers == 2,
            Self::RamFlash => cache_tiers == 2,
        }
    }

    fn check(self, policy: &str, setup: &Setup) -> Result<(), ConfigError> {
        let given = setup.capacity_pages.len();
        if !self.allows(given) {
            let wanted = self.describe();
            return Err(ConfigError::WrongDepth { policy: policy.to_owned(), wanted, given });
        }
        if setup.capacity_pages[0] == 0 {
            return Err(ConfigError::EmptyTier { policy: policy.to_owned(), tier: Tier::RAM });
        }
        for (tier, &capacity_pages) in (0_u8..).zip(&setup.capacity_pages) {
            if capacity_pages > CAPACITY_PAGES_MAX {
                return Err(ConfigError::TierTooLarge {
                    tier: Tier(tier),
                    capacity_pages,
                    max_pages: CAPACITY_PAGES_MAX,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parameters_are_unique_and_documented() {
        for (index, entry) in ENTRIES.iter().enumerate() {
            assert!(
                ENTRIES[..index].iter().all(|other| other.name != entry.name),
                "{}",
                entry.name
            );
            assert!(!entry.summary.is_empty() && !entry.source.is_empty(), "{}", entry.name);
            for (index, parameter) in entry.parameters.iter().enumerate() {
                let before = &entry.parameters[..index];
                assert!(before.iter().all(|other| other.name != parameter.name));
                assert!(!parameter.summary.is_empty() && !parameter.source.is_empty());
                let text = alloc::format!("{}", parameter.default);
                assert_eq!(parameter.parse(&text).unwrap(), parameter.default, "{text}");
            }
        }
    }
}
