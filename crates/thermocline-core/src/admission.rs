//! Admission to flash: take all pages that a policy offers, or only those that an identifier finds
//! hot.
//!
//! A policy asks for each page that it is about to write to flash and that flash does not hold. The
//! identifier records the offers, not the accesses: what memory serves by itself says nothing about
//! what flash would serve. A page that is refused goes where it would go without a flash.

use crate::config::{ConfigError, Values};
use crate::hotness::registry::IdentifierEntry;
use crate::{BoxedIdentifier, Heat, PageId};

/// The rule by which pages enter flash.
#[derive(Clone, Debug, Default)]
pub struct Admission(Option<(&'static IdentifierEntry, Values)>);

/// The rule at work in a policy.
#[derive(Debug)]
pub struct Gate(Option<BoxedIdentifier>);

impl Admission {
    /// Every page that the policy offers.
    pub const ALL: Self = Self(None);

    /// Admit only pages that an identifier finds hot when they are offered.
    ///
    /// # Errors
    /// If parameters of the identifier contradict each other.
    pub fn hot(identifier: &'static IdentifierEntry, values: Values) -> Result<Self, ConfigError> {
        identifier.build(1, &values)?;
        Ok(Self(Some((identifier, values))))
    }

    /// Return the identifier and its parameters; `None` if every page is admitted.
    pub const fn identifier(&self) -> Option<&(&'static IdentifierEntry, Values)> {
        self.0.as_ref()
    }

    /// Return a gate for page ids below `pages`.
    pub(crate) fn gate(&self, pages: u32) -> Gate {
        let build = |(entry, values): &(&'static IdentifierEntry, Values)| {
            entry.build(pages, values).expect("the parameters have been tried")
        };
        Gate(self.0.as_ref().map(build))
    }
}

impl Gate {
    /// Return `true` if every page is admitted.
    pub(crate) const fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Notes that the policy offers a page, and returns `true` if it may enter flash.
    #[inline]
    pub(crate) fn admits(&mut self, page: PageId) -> bool {
        match &mut self.0 {
            None => true,
            Some(identifier) => identifier.record(page) == Heat::Hot,
        }
    }

    /// Checks the invariants of the identifier.
    pub(crate) fn assert_invariants(&self) {
        if let Some(identifier) = &self.0 {
            identifier.assert_invariants();
        }
    }

    /// Heap memory of the identifier's state in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bits = self.0.as_ref().map_or(0, |identifier| identifier.memory_bits());
        usize::try_from(bits / 8).unwrap_or(usize::MAX)
    }
}
