//! Caches of attention keys and values: chains of blocks over tiers, of which only a prefix can hit.
//!
//! A service of language models cuts each prompt into blocks of equal size. A block is identified by
//! its tokens and by all blocks before it, so a prompt is a chain of blocks, and a block is of use only
//! if every block before it is found as well. A block is a [page](PageId) here, and an engine that
//! answers prompts is a client.
//!
//! [`KvTiers`] is the hierarchy that serving systems build: one order of recency for each tier, or
//! another replacement algorithm, filled in one of three [modes](Mode). [`PolicyTiers`] puts the same
//! requests before a policy of the [registry](crate::registry), which places blocks as it likes.

mod ages;
mod family;
mod leaves;
mod places;
mod policy;
mod settings;
mod stores;
mod tiers;
mod uses;

use core::fmt::Debug;

use crate::{Actions, CACHE_TIERS_MAX, Nanos, PageId, Violation};

pub use places::PLACES_MAX;
pub use policy::PolicyTiers;
pub use settings::{KvSettings, KvTier, Matching, Mode, Order, Touch, Victim};
pub use stores::{AlgorithmStore, LruStore, Store};
pub use tiers::KvTiers;

/// A prompt.
#[derive(Clone, Copy, Debug)]
pub struct KvRequest<'a> {
    /// Arrival time. Only time-to-live looks at it.
    pub at: Nanos,
    /// The engine that answers it, counted from 0.
    pub engine: u8,
    /// Its blocks, from the first tokens to the last. No block comes twice.
    pub chain: &'a [PageId],
}

/// Places where a request found its blocks before anything was moved for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvFound {
    /// Hits of each tier, the fastest first: blocks of the prefix that the caches hold.
    pub hits: [u32; CACHE_TIERS_MAX],
    /// Blocks that a tier holds and that are computed all the same, because one before them is missing.
    pub stranded: u32,
}

impl KvFound {
    /// Return the length of the prefix that was found, in blocks.
    pub fn hit_blocks(&self) -> u32 {
        self.hits.iter().sum()
    }
}

/// Tiers that keep blocks for the prompts to come.
pub trait PrefixCache: Debug {
    /// Answers a request: looks its chain up, then keeps its blocks as the tiers are set up to.
    fn request(&mut self, request: KvRequest<'_>) -> KvFound;

    /// Return the same, and appends the moves that were made to `out`; blocks that were computed
    /// come from the disk.
    fn request_with_moves(&mut self, request: KvRequest<'_>, out: &mut Actions) -> KvFound;

    /// Return the blocks written to each tier so far, the fastest first, all engines together.
    fn writes(&self) -> &[u64];

    /// Copies that grew too old so far.
    fn expired(&self) -> u64;

    /// Return the action that the ledger refused, for a cache that runs one alongside.
    fn violation(&self) -> Option<&Violation> {
        None
    }

    /// Asks the processor for the state of a block that a request to come has.
    #[inline]
    fn prefetch(&self, _page: PageId) {}

    /// Returns `true` if a tier, as an engine sees it, holds a block.
    fn holds(&self, engine: u8, tier: usize, page: PageId) -> bool;

    /// Checks every invariant of the state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    fn assert_invariants(&self);
}
