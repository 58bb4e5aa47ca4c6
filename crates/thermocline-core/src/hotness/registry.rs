//! Registry of identifiers: [`ENTRIES`] has a row for each, by which it is found, checked and
//! built.

use alloc::borrow::ToOwned;
use alloc::string::String;

use super::BoxedIdentifier;
use crate::config::{ConfigError, Parameter, Values};
use crate::names::there_are;

pub use super::ENTRIES;

/// One registered identifier.
#[derive(Clone, Copy, Debug)]
pub struct IdentifierEntry {
    /// Its name, by which users choose it.
    pub name: &'static str,
    /// Purpose, in one line.
    pub summary: &'static str,
    /// Authors, venue and year of the publication.
    pub source: &'static str,
    /// The module that it is written in, as by `module_path!()`.
    pub module: &'static str,
    /// Its parameters, in the order in which they are listed.
    pub parameters: &'static [Parameter],
    pub(super) build: fn(u32, &Values) -> Result<BoxedIdentifier, ConfigError>,
}

/// Return the identifier of that name.
///
/// # Errors
/// [`ConfigError::UnknownIdentifier`] if there is none; it names those that there are.
pub fn find(name: &str) -> Result<&'static IdentifierEntry, ConfigError> {
    ENTRIES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let known = there_are(name, ENTRIES.iter().map(|entry| entry.name));
        ConfigError::UnknownIdentifier { name: name.to_owned(), known }
    })
}

/// Return all identifiers, in the order in which they are listed.
pub fn entries() -> &'static [IdentifierEntry] {
    ENTRIES
}

impl IdentifierEntry {
    /// Return the parameters' values: the defaults, replaced by those given by name and text.
    ///
    /// # Errors
    /// If a name is unknown, or a text is invalid for its parameter.
    pub fn values(&self, given: &[(String, String)]) -> Result<Values, ConfigError> {
        Values::resolve(self.name, self.parameters, given)
    }

    /// Builds the identifier for page ids below `pages`, with nothing recorded.
    ///
    /// # Errors
    /// If parameters contradict each other.
    pub fn build(&self, pages: u32, values: &Values) -> Result<BoxedIdentifier, ConfigError> {
        (self.build)(pages, values)
    }

    /// Builds the identifier with its default parameters.
    ///
    /// # Errors
    /// Never: the defaults agree with each other.
    pub fn build_default(&self, pages: u32) -> Result<BoxedIdentifier, ConfigError> {
        self.build(pages, &self.values(&[])?)
    }
}
