//! Choosers of handles by the names that users write.

use thermocline_core::hotness::registry::{self, IdentifierEntry};

use super::{ORACLE, Streams};
use crate::LabError;
use crate::parameters::{Owner, Parameters};

/// A chooser, as its name tells; the parameters of an identifier are still to come.
#[derive(Clone, Debug)]
pub(crate) enum Chosen {
    Identifier(&'static IdentifierEntry),
    Other(Streams),
}

impl Chosen {
    /// Return the chooser of a name; `None` for `none`.
    ///
    /// # Errors
    /// If there is no chooser of that name, with those that there are.
    pub(crate) fn find(name: &str) -> Result<Option<Self>, String> {
        Ok(Some(Self::Other(match name {
            "none" => return Ok(None),
            ORACLE => Streams::Oracle,
            "client" => Streams::Client,
            "tier" => Streams::Tier,
            "volume" => Streams::Volume,
            "class" => Streams::Class,
            _ => {
                let entry = registry::find(name).map_err(|error| {
                    format!("{error}; or `oracle`, `tier`, `client`, `volume`, `class`, `none`")
                })?;
                return Ok(Some(Self::Identifier(entry)));
            }
        })))
    }

    /// Return the identifier, if it is one.
    pub(crate) const fn identifier(&self) -> Option<&'static IdentifierEntry> {
        match self {
            Self::Identifier(entry) => Some(entry),
            Self::Other(_) => None,
        }
    }

    /// Return the chooser with the parameters that are given for it.
    ///
    /// # Errors
    /// Never if the parameters were checked for the identifier.
    pub(crate) fn streams(&self, parameters: &Parameters<'_>) -> Result<Streams, LabError> {
        Ok(match self {
            Self::Identifier(entry) => {
                let entry: &'static IdentifierEntry = entry;
                Streams::Identifier(entry, parameters.values(Owner::from(entry))?)
            }
            Self::Other(streams) => streams.clone(),
        })
    }
}
