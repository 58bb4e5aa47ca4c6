//! Store of a place's blocks: an order of recency, or a replacement algorithm.

use alloc::boxed::Box;
use core::fmt::Debug;

use super::family::Family;
use super::leaves::Leaves;
use super::settings::{KvTier, Victim};
use crate::config::Values;
use crate::policy::multi::Stack;
use crate::policy::single::{Algorithm, Outcome, Replacement, Space};
use crate::queue::Use;
use crate::{Geometry, Ids, Inputs, Op, PageId};

/// Blocks that a place keeps. Callers pass a family where the leaves of chains leave first.
pub trait Store: Debug {
    /// Takes a block out that the request in progress will put back, so that it is not in the way.
    /// Returns `false` if the store keeps it: its algorithm wants to see a hit.
    fn take_out(&mut self, page: PageId, family: Option<&Family>) -> bool;

    /// Takes a block out for good.
    fn forget(&mut self, page: PageId, family: Option<&Family>);

    /// Use a block, which enters if it is not there. Returns `false` if the store refuses it.
    fn put(&mut self, page: PageId, family: Option<&Family>) -> bool;

    /// Takes out a block that must leave since the last [`put`](Self::put); call it until there is none.
    fn next_victim(&mut self, family: Option<&Family>) -> Option<PageId>;

    /// Return the number of blocks, where the store knows it.
    fn held(&self) -> Option<u32>;

    /// Prefetches the data that the next use of a block reads first.
    fn prefetch(&self, page: PageId);

    /// Checks every invariant of the state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    fn assert_invariants(&self);
}

/// An order of recency.
#[derive(Clone, Debug)]
pub struct LruStore {
    order: Stack,
    fill_pages: u32,
    batch_pages: u32,
    /// Blocks that still have to leave.
    owed: u32,
    /// The leaves, if the store looks for them.
    leaves: Option<Leaves>,
}

impl LruStore {
    /// Create an empty place of a tier.
    pub fn new(pages: u32, tier: &KvTier, victim: Victim) -> Self {
        let capacity = tier.capacity_pages.min(pages).saturating_add(1);
        Self {
            order: Stack::new(Ids::dense(pages), capacity, Use::Leaky),
            fill_pages: tier.fill_pages,
            batch_pages: tier.batch_pages,
            owed: 0,
            leaves: (victim == Victim::Leaf).then(|| Leaves::new(pages)),
        }
    }

    /// Return the blocks, the most recently used first.
    pub fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        self.order.iter()
    }

    fn remove(&mut self, page: PageId, family: Option<&Family>) {
        self.order.remove(page);
        if let (Some(leaves), Some(family)) = (&mut self.leaves, family) {
            leaves.leave(page, family);
        }
    }
}

impl Store for LruStore {
    #[inline]
    fn take_out(&mut self, page: PageId, family: Option<&Family>) -> bool {
        self.remove(page, family);
        true
    }

    fn forget(&mut self, page: PageId, family: Option<&Family>) {
        self.remove(page, family);
    }

    #[inline]
    fn put(&mut self, page: PageId, family: Option<&Family>) -> bool {
        if let (Some(leaves), Some(family)) = (&mut self.leaves, family) {
            if self.order.contains(page) {
                leaves.leave(page, family);
            }
            leaves.enter(page, family);
        }
        self.order.make_newest(page);
        if self.order.len() > self.fill_pages {
            self.owed = self.batch_pages.min(self.order.len());
        }
        true
    }

    #[inline]
    fn next_victim(&mut self, family: Option<&Family>) -> Option<PageId> {
        self.owed = self.owed.checked_sub(1)?;
        let oldest = self.order.oldest()?;
        let victim = match (&mut self.leaves, family) {
            (Some(leaves), Some(family)) => leaves.take(oldest, family),
            _ => oldest,
        };
        self.order.remove(victim);
        Some(victim)
    }

    fn held(&self) -> Option<u32> {
        Some(self.order.len())
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.order.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.order.assert_invariants();
        assert_eq!(self.owed, 0, "a store that is over-full makes room at once");
        assert!(self.order.len() <= self.fill_pages, "a store holds what it is filled up to");
        if let Some(leaves) = &self.leaves {
            leaves.assert_invariants(|page| self.order.contains(page));
        }
    }
}

/// A replacement algorithm; none for a place without room.
#[derive(Debug)]
pub struct AlgorithmStore {
    algorithm: Option<Box<dyn Replacement + Send>>,
    evicted: Option<PageId>,
}

impl AlgorithmStore {
    /// Create an empty place of a tier.
    pub fn new(pages: u32, tier: &KvTier, algorithm: &Algorithm, values: &Values) -> Self {
        let geometry = Geometry::linear(pages);
        let space = Space {
            ids: Ids::dense(pages),
            capacity_pages: tier.capacity_pages,
            geometry: &geometry,
            inputs: &Inputs::NONE,
        };
        let algorithm = (tier.capacity_pages > 0).then(|| (algorithm.build)(space, values));
        Self { algorithm, evicted: None }
    }
}

impl Store for AlgorithmStore {
    fn take_out(&mut self, _page: PageId, _family: Option<&Family>) -> bool {
        false
    }

    fn forget(&mut self, page: PageId, _family: Option<&Family>) {
        if let Some(algorithm) = &mut self.algorithm {
            algorithm.forget(page);
        }
    }

    fn put(&mut self, page: PageId, _family: Option<&Family>) -> bool {
        let Some(algorithm) = &mut self.algorithm else { return false };
        match algorithm.refer(page, Op::Read) {
            Outcome::Hit => true,
            Outcome::Admitted { evicted } => {
                self.evicted = evicted;
                true
            }
            Outcome::Refused => false,
        }
    }

    fn next_victim(&mut self, _family: Option<&Family>) -> Option<PageId> {
        self.evicted.take()
    }

    fn held(&self) -> Option<u32> {
        None
    }

    fn prefetch(&self, page: PageId) {
        if let Some(algorithm) = &self.algorithm {
            algorithm.prefetch(page);
        }
    }

    fn assert_invariants(&self) {
        assert_eq!(self.evicted, None, "a victim leaves at once");
        if let Some(algorithm) = &self.algorithm {
            algorithm.assert_invariants();
        }
    }
}
