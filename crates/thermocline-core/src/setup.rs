//! The hierarchy that a policy is built for.

use alloc::vec;
use alloc::vec::Vec;
use core::iter;

use crate::indexing::{Ids, Indexing};
use crate::{Admission, Clients, Geometry, Inputs, Op, Tier};

/// The hierarchy that a policy is built for.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Capacity of each cache tier in pages, fastest first; the disk is not among them. That of the
    /// first one is what each client has.
    pub capacity_pages: Vec<u32>,
    /// The pages of the disk.
    pub geometry: Geometry,
    /// The cost of each tier, the disk last; policies that weigh devices against each other use it.
    pub costs: Vec<PageCost>,
    /// Action of a write miss.
    pub write_miss: WriteMiss,
    /// Pages that may enter flash.
    pub admission: Admission,
    /// Number of clients, each with a first tier of its own.
    pub clients: Clients,
    /// Structure by which the policy finds the state of a page.
    pub indexing: Indexing,
    /// Knowledge of future accesses.
    pub inputs: Inputs,
}

impl Setup {
    /// Cache tiers over a disk, for one client, with dense tables: all that a policy offers enters
    /// flash, a write miss fetches, transfers cost nothing, and nothing is known of accesses to come.
    pub const fn new(geometry: Geometry, capacity_pages: Vec<u32>) -> Self {
        Self {
            capacity_pages,
            geometry,
            costs: Vec::new(),
            write_miss: WriteMiss::Fetch,
            admission: Admission::ALL,
            clients: Clients::ONE,
            indexing: Indexing::Dense,
            inputs: Inputs::NONE,
        }
    }

    /// Describe RAM and flash over a disk of `pages` pages, as [`new`](Self::new) does.
    pub fn hybrid(pages: u32, ram_pages: u32, flash_pages: u32) -> Self {
        Self::new(Geometry::linear(pages), vec![ram_pages, flash_pages])
    }

    /// Return the tier below all caches.
    ///
    /// # Panics
    /// If there are more tiers than [`TIERS_MAX`](crate::TIERS_MAX).
    pub fn disk(&self) -> Tier {
        let tiers = self.tier_capacities_pages().count();
        assert!(tiers < crate::TIERS_MAX, "a hierarchy has few tiers");
        #[expect(clippy::cast_possible_truncation, reason = "asserted just above")]
        Tier(tiers as u8)
    }

    /// Return the page ids, and how the policy indexes its state by them.
    pub fn ids(&self) -> Ids {
        Ids { pages: self.geometry.pages(), indexing: self.indexing }
    }

    /// Return the capacity of every cache tier that there is, by [`Tier`]: the first one of each
    /// client, then the shared ones.
    pub fn tier_capacities_pages(&self) -> impl Iterator<Item = u32> + '_ {
        tier_capacities_pages(&self.capacity_pages, self.clients)
    }
}

/// Capacities as in a [`Setup`], with the first one repeated for every client.
pub(crate) fn tier_capacities_pages(
    capacity_pages: &[u32],
    clients: Clients,
) -> impl Iterator<Item = u32> + '_ {
    let further = usize::from(clients.get()) - 1;
    let firsts =
        capacity_pages.iter().take(1).flat_map(move |&pages| iter::repeat_n(pages, further));
    firsts.chain(capacity_pages.iter().copied())
}

/// Cost of one page transfer on a device, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PageCost {
    /// Reading a page.
    pub read_ms: f64,
    /// Writing a page.
    pub write_ms: f64,
}

/// First action of a write to a page that no cache tier holds.
///
/// All published policies here fetch: a page must be in memory before it is accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WriteMiss {
    /// The page is read from disk, as a page-granular buffer pool does.
    #[default]
    Fetch,
    /// The page is allocated without a read: the write covers it whole.
    Allocate,
}

impl WriteMiss {
    /// Returns `true` if a miss of this operation reads the page from below first.
    ///
    /// The policy is compared before the operation: it never changes, so a processor guesses the
    /// outcome, which it cannot do for the operation.
    #[inline]
    pub(crate) fn fetches(self, op: Op) -> bool {
        self == Self::Fetch || op == Op::Read
    }
}
