//! Every policy that there is, one row each, and how it is found, checked and built.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::config::{ConfigError, Values};
use crate::names::there_are;
use crate::policy::single::{ALGORITHMS, Algorithm, ORACLES};
use crate::policy::{hybrid, multi};
use crate::{BoxedPolicy, Clients, Setup, Tier};

pub use crate::capabilities::{Capabilities, Depth, Future, SparseMemory};
pub use crate::entry::PolicyEntry;
pub use crate::policy::buffer::BUFFERS;

/// The greatest capacity of a tier in pages: page ids have 32 bits, and queues mark absence in them.
pub const CAPACITY_PAGES_MAX: u32 = 1 << 31;

/// Return the policy of that name.
///
/// # Errors
/// [`ConfigError::UnknownPolicy`] if there is none.
pub fn find(name: &str) -> Result<&'static PolicyEntry, ConfigError> {
    entries().find(|entry| entry.name == name).ok_or_else(|| unknown(name, entries()))
}

/// Return the write buffer of that name.
///
/// # Errors
/// [`ConfigError::UnknownPolicy`] if there is none.
pub fn find_buffer(name: &str) -> Result<&'static PolicyEntry, ConfigError> {
    BUFFERS.iter().find(|entry| entry.name == name).ok_or_else(|| unknown(name, BUFFERS.iter()))
}

fn unknown(name: &str, known: impl Iterator<Item = &'static PolicyEntry>) -> ConfigError {
    let known = there_are(name, known.map(|entry| &*entry.name));
    ConfigError::UnknownPolicy { name: name.to_owned(), known }
}

/// Return all policies of caches, in the order in which they are listed.
pub fn entries() -> impl Iterator<Item = &'static PolicyEntry> + Clone {
    let single = ALGORITHMS.iter().chain(ORACLES).map(Algorithm::policy);
    hybrid::POLICIES.iter().chain(single).chain(multi::POLICIES)
}

/// Return the names of the policies of which a fact holds, separated by commas.
fn names_of(is_so: impl Fn(&Capabilities) -> bool) -> String {
    let such = entries().filter(|entry| is_so(&entry.capabilities));
    such.map(|entry| &*entry.name).collect::<Vec<&str>>().join(", ")
}

impl PolicyEntry {
    /// Return the parameters' values: the defaults, replaced by those given by name and text.
    ///
    /// # Errors
    /// If a name is unknown, or a text is invalid for its parameter.
    pub fn values(&self, given: &[(String, String)]) -> Result<Values, ConfigError> {
        Values::resolve(&self.name, self.parameters, given)
    }

    /// Builds the policy, empty.
    ///
    /// # Errors
    /// If the policy does not support the hierarchy or the admission.
    pub fn build(&self, setup: &Setup, values: &Values) -> Result<BoxedPolicy, ConfigError> {
        self.check_depth(setup)?;
        self.check_sharing(setup, values)?;
        self.check_block(setup, values)?;
        let policy = || self.name.clone().into_owned();
        let Capabilities { takes_admission, future, .. } = self.capabilities;
        if setup.admission.identifier().is_some() && !takes_admission {
            let known = names_of(|known| known.takes_admission);
            return Err(ConfigError::NoAdmission { policy: policy(), known });
        }
        match future {
            Future::Hints if setup.inputs.hints.is_none() => {
                Err(ConfigError::NoHints { policy: policy() })
            }
            Future::Accesses if setup.inputs.foresight.is_none() => {
                Err(ConfigError::NoForesight { policy: policy() })
            }
            Future::Unknown | Future::Hints | Future::Accesses => {
                Ok(self.build.call(setup, values))
            }
        }
    }

    /// Check that this number of clients can share the lower tiers of the policy.
    ///
    /// # Errors
    /// [`ConfigError::OneClient`] if there are several and it takes one.
    pub fn check_clients(&self, clients: Clients) -> Result<(), ConfigError> {
        if clients == Clients::ONE || self.capabilities.takes_clients {
            return Ok(());
        }
        let known = names_of(|known| known.takes_clients);
        let (policy, clients) = (self.name.clone().into_owned(), clients.get());
        Err(ConfigError::OneClient { policy, clients, known })
    }

    fn check_depth(&self, setup: &Setup) -> Result<(), ConfigError> {
        let (policy, depth) = (self.name.clone().into_owned(), self.capabilities.depth);
        let given = setup.capacity_pages.len();
        if !depth.allows(given) {
            let wanted = depth.describe();
            return Err(ConfigError::WrongDepth { policy, wanted, given });
        }
        if setup.capacity_pages[0] == 0 && !self.capabilities.runs_without_memory {
            return Err(ConfigError::EmptyTier { policy, tier: Tier::RAM });
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
        match self.capabilities.write_back {
            Some(writes) if values.choice(writes.name) == "back" => {
                let writes = writes.name;
                let reason = format!(
                    "with several clients, `{writes}` must be `through`: what one writes, others may read next"
                );
                Err(ConfigError::contradiction(&self.name, reason))
            }
            _ => Ok(()),
        }
    }

    /// Checks that there is room for a block, for write buffers that evict by the block.
    fn check_block(&self, setup: &Setup, values: &Values) -> Result<(), ConfigError> {
        let Some(pages) = self.capabilities.whole_block else { return Ok(()) };
        let (min_pages, capacity_pages) = (values.integer_u32(pages.name), setup.capacity_pages[0]);
        if capacity_pages < min_pages {
            let policy = self.name.clone().into_owned();
            return Err(ConfigError::BufferTooSmall { policy, capacity_pages, min_pages });
        }
        Ok(())
    }

    /// Builds the policy, empty, with its default parameters.
    ///
    /// # Errors
    /// If the policy does not support the hierarchy.
    pub fn build_default(&self, setup: &Setup) -> Result<BoxedPolicy, ConfigError> {
        self.build(setup, &self.values(&[])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parameters_are_unique_and_documented() {
        let tables: [Vec<&PolicyEntry>; 2] = [entries().collect(), BUFFERS.iter().collect()];
        for (table, index, entry) in tables.iter().flat_map(|table| {
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
