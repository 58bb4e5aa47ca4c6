//! Begin and end of a cache's epoch.

use crate::fingerprint::Fingerprint;

/// Pages of a flash that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// All.
    #[default]
    All,
    /// The dirty ones: clean ones may be older than the backing store.
    Dirty,
}

/// Begin of an epoch on a flash that holds pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// The pages that stay.
    pub keep: Keep,
    /// The size of the backing store from then on; none to leave it.
    pub backing_bytes: Option<u64>,
    /// The epoch; `None` for the next one. No two starts take the same, even if the first crashed
    /// before the flash was in it.
    pub epoch: Option<u64>,
}

/// State in which an orderly stop left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The number of the journal block that would have been next.
    pub next_sequence: u64,
    /// The backing store; `None` if it could not be read then.
    pub backing: Option<Fingerprint>,
}
