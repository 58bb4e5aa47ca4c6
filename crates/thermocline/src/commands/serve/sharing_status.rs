//! Shares that move, as a snapshot shows them.

use serde::{Deserialize, Serialize};

use super::config::Resource;

/// Shares that move.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharingStatus {
    pub(crate) ram: Option<ShareStatus>,
    pub(crate) flash: Option<ShareStatus>,
}

impl SharingStatus {
    /// Return the share of a resource.
    pub(crate) const fn of(&mut self, resource: Resource) -> &mut Option<ShareStatus> {
        match resource {
            Resource::Ram => &mut self.ram,
            Resource::Flash => &mut self.flash,
        }
    }

    /// Return the shares that move, with the names of their tiers.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &ShareStatus)> {
        let both = [(Resource::Ram, &self.ram), (Resource::Flash, &self.flash)];
        both.into_iter().filter_map(|(resource, share)| Some((resource.key(), share.as_ref()?)))
    }
}

/// A share that moves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShareStatus {
    pub(crate) floor_pages: u64,
    pub(crate) ceiling_pages: u64,
    /// Number of changes so far.
    pub(crate) moves: u64,
    /// The last changes, oldest first.
    pub(crate) recent: Vec<MoveStatus>,
}

/// A change of a share, with its reason: figures of all shares together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MoveStatus {
    pub(crate) number: u64,
    pub(crate) former_pages: u64,
    pub(crate) pages: u64,
    /// I/O time that the former shares needed since the new ones were last no better, and that these would have
    /// saved of that.
    pub(crate) needed_ms: f64,
    pub(crate) saved_ms: f64,
    /// I/O time to give up and to fill what moves.
    pub(crate) cost_ms: f64,
}
