//! Every policy that there is, one row each, and how it is found, checked and built.

mod buffers;
mod entries;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::config::{ConfigError, Parameter, Value, Values};
use crate::policy::buffer::PAGES_PER_BLOCK;
use crate::policy::multi::hfa;
use crate::policy::single::ORACLES;
use crate::{BoxedPolicy, CACHE_TIERS_MAX, Clients, Tier};

pub use self::buffers::BUFFERS;
pub use self::entries::ENTRIES;
pub use crate::setup::Setup;

/// The greatest capacity of a tier in pages: page ids have 32 bits, and queues mark absence in them.
pub const CAPACITY_PAGES_MAX: u32 = 1 << 31;

/// One registered policy.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name, by which users choose it.
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

/// The heap that a policy holds at most with a [sparse index](crate::Indexing::Sparse) and its default
/// parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseMemory {
    /// Bytes per page that it caches, or keeps a ghost of.
    pub bytes_per_page: u32,
    /// Bytes beyond these per page of the disk, cached or not.
    pub bytes_per_disk_page: u32,
    /// Whether only pages of the disk count that were accessed since the policy was built.
    pub is_of_accessed_pages: bool,
    /// Why its definition asks for more than 64 bytes per page, if it does.
    pub reason: Option<&'static str>,
}

impl SparseMemory {
    /// What all others keep to.
    const SMALL: Self = Self {
        bytes_per_page: 64,
        bytes_per_disk_page: 0,
        is_of_accessed_pages: false,
        reason: None,
    };

    const fn of_cached(bytes_per_page: u32, reason: &'static str) -> Self {
        Self { bytes_per_page, reason: Some(reason), ..Self::SMALL }
    }

    const fn of_disk(bytes_per_disk_page: u32, reason: &'static str) -> Self {
        Self { bytes_per_disk_page, reason: Some(reason), ..Self::SMALL }
    }

    const fn of_accessed(bytes_per_disk_page: u32, reason: &'static str) -> Self {
        Self { is_of_accessed_pages: true, ..Self::of_disk(bytes_per_disk_page, reason) }
    }
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

/// The policies that look at which pages are neighbours on disk.
const LOOKING_AT_NEIGHBOURS: &[&str] = &["tac", "lc", "cw", "dw", "hca"];

/// The policies that a sparse index cannot make small, with the reasons.
const LARGER: &[(&str, SparseMemory)] = &[
    ("tac", SparseMemory::of_disk(1, "it keeps a temperature of each extent of the disk")),
    (
        "lru-2",
        SparseMemory::of_accessed(48, "it knows a page for ever, unless `retained` ends that"),
    ),
    (
        "ulc",
        SparseMemory::of_accessed(40, "its stack is as long as it gets, unless `ghosts` bounds it"),
    ),
    ("d-hfa", SparseMemory::of_cached(92, HFA)),
    ("p-hfa", SparseMemory::of_cached(132, HFA)),
    ("h-hfa", SparseMemory { bytes_per_page: 136, ..SparseMemory::of_accessed(20, H_HFA) }),
    ("oracle-hfa", SparseMemory { bytes_per_page: 136, ..SparseMemory::of_accessed(20, H_HFA) }),
];

const HFA: &str =
    "it keeps hits, hint frequency, hotness and two times of a page, and orders by them";
const H_HFA: &str = "as the other HFA; and it keeps the last moves of a page for ever";

/// The source of policies that are not registered.
const BROUGHT: &str = "brought by the caller";

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
    /// A policy that is not registered: what makes it is among its [values](Values::with_maker).
    pub const fn brought(name: &'static str, depth: Depth) -> Self {
        Self {
            name,
            summary: "a policy that is not registered",
            source: BROUGHT,
            depth,
            needs_clock: false,
            takes_admission: false,
            parameters: &[],
            build: make_brought,
        }
    }

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
        if self.needs_foresight() && values.foresight().is_none() {
            return Err(ConfigError::NoForesight { policy: self.name.to_owned() });
        }
        if self.is_brought() && values.maker().is_none() {
            return Err(ConfigError::NoMaker { policy: self.name.to_owned() });
        }
        Ok((self.build)(setup, values))
    }

    /// Whether it is an oracle: it must be told the accesses to come, which its
    /// [values](Values::with_foresight) hold, and is then driven along them.
    pub fn needs_foresight(&self) -> bool {
        ORACLES.iter().any(|oracle| oracle.name == self.name)
    }

    /// Whether it is [brought](Self::brought), and not registered.
    pub fn is_brought(&self) -> bool {
        self.source == BROUGHT
    }

    /// Whether it replays the hints of an earlier run, which its [values](Values::with_hints) hold.
    pub fn needs_hints(&self) -> bool {
        NEEDING_HINTS.contains(&self.name)
    }

    /// The most heap that it holds with a sparse index and its default parameters. Write buffers and
    /// [oracles](Self::needs_foresight) take no part in this: they always use tables.
    pub fn sparse_memory(&self) -> SparseMemory {
        let larger = LARGER.iter().find(|row| row.0 == self.name);
        larger.map_or(SparseMemory::SMALL, |row| row.1)
    }

    /// Whether what it does depends on which pages are neighbours on disk.
    pub fn looks_at_neighbours(&self) -> bool {
        LOOKING_AT_NEIGHBOURS.contains(&self.name)
    }

    /// Whether several clients may share its lower tiers.
    pub fn takes_clients(&self) -> bool {
        self.depth == Depth::Tiers && !self.is_brought() && !OF_ONE_CLIENT.contains(&self.name)
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

/// Builds a policy that is brought.
fn make_brought(setup: &Setup, values: &Values) -> BoxedPolicy {
    values.maker().expect("`Entry::build` refuses values without it").make(setup)
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
