//! Every policy that there is: one row each.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::config::{ConfigError, Parameter, Value, Values};
use crate::policy::buffer::{PAGES_PER_BLOCK, block_list, bpac, cfdc, hwb, page_list, unbuffered};
use crate::policy::hybrid::{arc_l2arc, face, hat, hca, lazy_cleaning, lru_two_tier, tac};
use crate::policy::multi::{demote, hfa, hint_k, lru_n_inclusive, mq_n, promote, ulc};
use crate::policy::single::lru;
use crate::{BoxedPolicy, CACHE_TIERS_MAX, Clients, Tier};

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
    /// Two to eight tiers of caches over disk.
    Tiers,
    /// A write buffer over NAND.
    Buffer,
}

/// The policies that replay the hints of an earlier run.
const NEEDING_HINTS: &[&str] = &["oracle-hfa"];

/// Policies of any depth that place the pages of one client only.
const OF_ONE_CLIENT: &[&str] = &["ulc"];

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
        name: "hca",
        summary: "LFU in RAM, an exclusive flash, and a buffer between that writes it by the block",
        source: "Aldahlawi, El-Araby, Suboh, El-Ghazawi: Hybrid Caching Architecture (HCA), IJIEE 2012",
        depth: Depth::RamFlash,
        needs_clock: false,
        takes_admission: false,
        parameters: hca::PARAMETERS,
        build: hca::build,
    },
    Entry {
        name: "lfu",
        summary: "least frequently used, write-through, no flash: the baseline of HCA",
        source: "baseline",
        depth: Depth::Ram,
        needs_clock: false,
        takes_admission: false,
        parameters: &[],
        build: hca::build_lfu,
    },
    Entry {
        name: "arc-l2arc",
        summary: "ARC in RAM; a feed copies what it will evict next to a ring on flash, as ZFS does",
        source: "OpenZFS; Leventhal: Flash Storage Today, ACM Queue 6(4), 2008",
        depth: Depth::RamFlash,
        needs_clock: true,
        takes_admission: false,
        parameters: arc_l2arc::PARAMETERS,
        build: arc_l2arc::build,
    },
    Entry {
        name: "arc",
        summary: "pages seen once and pages seen again, by a target that ghosts adapt; no flash",
        source: "Megiddo, Modha: ARC, FAST 2003",
        depth: Depth::Ram,
        needs_clock: false,
        takes_admission: false,
        parameters: &[],
        build: arc_l2arc::build_arc,
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
    Entry {
        name: "lru-n-inclusive",
        summary: "every tier an LRU and a superset of those above it",
        source: "baseline",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: &[],
        build: lru_n_inclusive::build,
    },
    Entry {
        name: "demote",
        summary: "a tier's victim becomes the newest page of the tier below: one LRU over all tiers",
        source: "Wong, Wilkes: My Cache or Yours?, USENIX ATC 2002",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: demote::PARAMETERS,
        build: demote::build,
    },
    Entry {
        name: "promote",
        summary: "exclusive without demotions: each tier on the way up tosses a coin to keep a page",
        source: "Gill: On Multi-level Exclusive Caching, FAST 2008",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: promote::PARAMETERS,
        build: promote::build,
    },
    Entry {
        name: "hint-k",
        summary: "a page's last moves between tiers say how near to the top it stays (reconstructed)",
        source: "Wu, He, Cao, Xie: Hint-K, ICPP 2010; IEEE TPDS 25(3), 2014",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: hint_k::PARAMETERS,
        build: hint_k::build,
    },
    Entry {
        name: "mq-n",
        summary: "LRU over MQ: lower tiers keep pages by frequency, each tier on its own",
        source: "Zhou, Philbin, Li: Multi-Queue (MQ), USENIX 2001",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: mq_n::PARAMETERS,
        build: mq_n::build,
    },
    Entry {
        name: "ulc",
        summary: "one stack by last use, cut by a yardstick per tier; new pages bypass full tiers",
        source: "Jiang, Zhang: ULC, a File Block Placement and Replacement Protocol, ICDCS 2004",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: ulc::PARAMETERS,
        build: ulc::build,
    },
    Entry {
        name: "d-hfa",
        summary: "two queues per tier by frequency of demotions; hits move to the top",
        source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: hfa::D_PARAMETERS,
        build: hfa::build_demote,
    },
    Entry {
        name: "p-hfa",
        summary: "two queues per tier by frequency of promotions; pages rise with a probability",
        source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: hfa::P_PARAMETERS,
        build: hfa::build_promote,
    },
    Entry {
        name: "h-hfa",
        summary: "two queues per tier by frequency of moves; pages rise and fall by their last moves",
        source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: hfa::H_PARAMETERS,
        build: hfa::build_hint,
    },
    Entry {
        name: "oracle-hfa",
        summary: "h-hfa with the hints that an earlier run of it gave later",
        source: "Meng et al.: A Hint Frequency Based Approach (HFA), JCST 32(2), 2017",
        depth: Depth::Tiers,
        needs_clock: false,
        takes_admission: false,
        parameters: hfa::ORACLE_PARAMETERS,
        build: hfa::build_oracle,
    },
];

/// All write buffers, in the order in which they are listed; their names are their own.
pub const BUFFERS: &[Entry] = &[
    Entry {
        name: "none",
        summary: "no buffer: every write goes to the NAND at once",
        source: "baseline",
        depth: Depth::Buffer,
        needs_clock: false,
        takes_admission: false,
        parameters: &[],
        build: unbuffered::build,
    },
    Entry {
        name: "lru",
        summary: "evict the page that was written longest ago",
        source: "baseline",
        depth: Depth::Buffer,
        needs_clock: false,
        takes_admission: false,
        parameters: page_list::LRU_PARAMETERS,
        build: page_list::build_lru,
    },
    Entry {
        name: "cflru",
        summary: "clean pages first, among the oldest",
        source: "Park et al.: CFLRU, CASES 2006",
        depth: Depth::Buffer,
        needs_clock: false,
        takes_admission: false,
        parameters: page_list::CFLRU_PARAMETERS,
        build: page_list::build_cflru,
    },
    Entry {
        name: "cfdc",
        summary: "clean pages first, then dirty pages by clusters of neighbours",
        source: "Ou, Haerder, Jin: CFDC, ADBIS 2010",
        depth: Depth::Buffer,
        needs_clock: false,
        takes_admission: false,
        parameters: cfdc::PARAMETERS,
        build: cfdc::build,
    },
    Entry {
        name: "lru-wsr",
        summary: "a second chance for dirty pages that were referenced",
        source: "Jung et al.: LRU-WSR, IEEE Trans. Consumer Electronics 54(3), 2008",
        depth: Depth::Buffer,
        needs_clock: false,
        takes_admission: false,
        parameters: page_list::LRU_WSR_PARAMETERS,
        build: page_list::build_lru_wsr,
    },
    Entry {
        name: "fab",
        summary: "evict the block with the most pages",
        source: "Jo et al.: FAB, IEEE Trans. Consumer Electronics 52(2), 2006",
        depth: Depth::Buffer,
        needs_clock: false,
        takes_admission: false,
        parameters: block_list::PARAMETERS,
        build: block_list::build_fab,
    },
    Entry {
        name: "bplru",
        summary: "evict the block that was written longest ago",
        source: "Kim, Ahn: BPLRU, FAST 2008",
        depth: Depth::Buffer,
        needs_clock: false,
        takes_admission: false,
        parameters: block_list::BPLRU_PARAMETERS,
        build: block_list::build_bplru,
    },
    Entry {
        name: "lb-clock",
        summary: "evict the block with the most pages among those that a clock found unused",
        source: "Debnath et al.: LB-CLOCK, MASCOTS 2009",
        depth: Depth::Buffer,
        needs_clock: false,
        takes_admission: false,
        parameters: block_list::PARAMETERS,
        build: block_list::build_lb_clock,
    },
    Entry {
        name: "bpac",
        summary: "a page region for what is written again soon, a block region for the rest",
        source: "Wu, Eckart, He: BPAC, MSST 2010",
        depth: Depth::Buffer,
        needs_clock: false,
        takes_admission: false,
        parameters: bpac::PARAMETERS,
        build: bpac::build,
    },
    Entry {
        name: "hwb",
        summary: "hot and warm regions of pages, a cold region of blocks, by predicted temperature",
        source: "Li: A Hotness-aware Write Buffer Management Scheme (HWB)",
        depth: Depth::Buffer,
        needs_clock: false,
        takes_admission: false,
        parameters: hwb::PARAMETERS,
        build: hwb::build,
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

/// The write buffer of that name.
///
/// # Errors
/// [`ConfigError::UnknownPolicy`] if there is none.
pub fn find_buffer(name: &str) -> Result<&'static Entry, ConfigError> {
    BUFFERS
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
        self.check_sharing(setup, values)?;
        self.check_block(setup, values)?;
        if setup.admission.identifier().is_some() && !self.takes_admission {
            let known = ENTRIES.iter().filter(|entry| entry.takes_admission);
            let known: Vec<&str> = known.map(|entry| entry.name).collect();
            let policy = self.name.to_owned();
            return Err(ConfigError::NoAdmission { policy, known: known.join(", ") });
        }
        if self.needs_hints() && values.hints().is_none() {
            return Err(ConfigError::NoHints { policy: self.name.to_owned() });
        }
        Ok((self.build)(setup, values))
    }

    /// Whether it replays the hints of an earlier run, which its [values](Values::with_hints) hold.
    pub fn needs_hints(&self) -> bool {
        NEEDING_HINTS.contains(&self.name)
    }

    /// Whether several clients may share its lower tiers.
    pub fn takes_clients(&self) -> bool {
        self.depth == Depth::Tiers && !OF_ONE_CLIENT.contains(&self.name)
    }

    /// Whether so many clients may share its lower tiers.
    ///
    /// # Errors
    /// [`ConfigError::OneClient`] if there are several and it takes one.
    pub fn check_clients(&self, clients: Clients) -> Result<(), ConfigError> {
        if clients == Clients::ONE || self.takes_clients() {
            return Ok(());
        }
        let known = ENTRIES.iter().filter(|entry| entry.takes_clients());
        let known = known.map(|entry| entry.name).collect::<Vec<_>>().join(", ");
        let (policy, clients) = (self.name.to_owned(), clients.get());
        Err(ConfigError::OneClient { policy, clients, known })
    }

    /// Several clients need a policy that knows them, and writes that all of them see.
    fn check_sharing(&self, setup: &Setup, values: &Values) -> Result<(), ConfigError> {
        self.check_clients(setup.clients)?;
        let (clients, pages) = (setup.clients.get(), setup.geometry.pages());
        if setup.clients == Clients::ONE {
            return Ok(());
        }
        if u64::from(pages) * (u64::from(clients) + 1) > u64::from(CAPACITY_PAGES_MAX) {
            return Err(ConfigError::TooManyPages { pages, clients });
        }
        let writes = hfa::WRITES.name;
        if values.iter().any(|value| value == (writes, Value::Choice("back"))) {
            let reason = format!(
                "with several clients, `{writes}` must be `through`: what one writes, others may read next"
            );
            return Err(ConfigError::contradiction(self.name, reason));
        }
        Ok(())
    }

    /// What is evicted from a write buffer by the block needs room for one.
    fn check_block(&self, setup: &Setup, values: &Values) -> Result<(), ConfigError> {
        if self.depth != Depth::Buffer {
            return Ok(());
        }
        let Some((_, Value::Integer(min_pages))) =
            values.iter().find(|&(name, _)| name == PAGES_PER_BLOCK.name)
        else {
            return Ok(());
        };
        let (policy, capacity_pages) = (self.name.to_owned(), setup.capacity_pages[0]);
        match u32::try_from(min_pages) {
            Ok(min_pages) if capacity_pages < min_pages => {
                Err(ConfigError::BufferTooSmall { policy, capacity_pages, min_pages })
            }
            _ => Ok(()),
        }
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
            Self::Tiers => "two to eight cache tiers",
            Self::Buffer => "one cache tier, the buffer of an SSD",
        }
    }

    /// Whether a hierarchy of that many cache tiers suits.
    pub const fn allows(self, cache_tiers: usize) -> bool {
        match self {
            Self::Ram => cache_tiers == 1 || cache_tiers == 2,
            Self::RamFlash => cache_tiers == 2,
            Self::Tiers => cache_tiers >= 2 && cache_tiers <= CACHE_TIERS_MAX,
            Self::Buffer => cache_tiers == 1,
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
        for (table, index, entry) in [ENTRIES, BUFFERS].iter().flat_map(|table| {
            table.iter().enumerate().map(move |(index, entry)| (table, index, entry))
        }) {
            assert!(table[..index].iter().all(|other| other.name != entry.name), "{}", entry.name);
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
