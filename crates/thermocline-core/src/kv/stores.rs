//! Store of a place's blocks: an order of recency, or a replacement algorithm.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt::Debug;

use super::family::Family;
use super::settings::{KvTier, Victim};
use crate::config::Values;
use crate::policy::multi::Stack;
use crate::policy::single::{Algorithm, Outcome, Replacement, Space};
use crate::queue::Use;
use crate::{Geometry, Ids, Inputs, Op, PageId};

/// Blocks that a place keeps.
pub trait Store: Debug {
    /// Takes a block out that the request in progress will put back, so that it is not in the way.
    /// Returns `false` if the store keeps it: its algorithm wants to see a hit.
    fn take_out(&mut self, page: PageId) -> bool;

    /// Takes a block out for good.
    fn forget(&mut self, page: PageId);

    /// Use a block, which enters if it is not there. Returns `false` if the store refuses it.
    fn put(&mut self, page: PageId) -> bool;

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
    /// Time of each block's last use, counted in uses, if leaves are looked for.
    stamps: Option<Box<[u64]>>,
    uses: u64,
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
            stamps: (victim == Victim::Leaf).then(|| vec![0; pages as usize].into_boxed_slice()),
            uses: 0,
        }
    }

    /// Return the blocks, the most recently used first.
    pub fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        self.order.iter()
    }

    /// Return the block from which no other of the store goes on, starting from the least recently
    /// used one.
    fn leaf(&self, mut page: PageId, family: &Family, stamps: &[u64]) -> PageId {
        let is_here = |child: &PageId| self.order.contains(*child);
        while let Some(child) =
            family.children(page).filter(is_here).min_by_key(|child| stamps[child.index()])
        {
            page = child;
        }
        page
    }
}

impl Store for LruStore {
    #[inline]
    fn take_out(&mut self, page: PageId) -> bool {
        self.order.remove(page);
        true
    }

    fn forget(&mut self, page: PageId) {
        self.order.remove(page);
    }

    #[inline]
    fn put(&mut self, page: PageId) -> bool {
        self.order.make_newest(page);
        if let Some(stamps) = &mut self.stamps {
            self.uses += 1;
            stamps[page.index()] = self.uses;
        }
        if self.order.len() > self.fill_pages {
            self.owed = self.batch_pages.min(self.order.len());
        }
        true
    }

    #[inline]
    fn next_victim(&mut self, family: Option<&Family>) -> Option<PageId> {
        self.owed = self.owed.checked_sub(1)?;
        let oldest = self.order.oldest()?;
        let victim = match (family, &self.stamps) {
            (Some(family), Some(stamps)) => self.leaf(oldest, family, stamps),
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
    fn take_out(&mut self, _page: PageId) -> bool {
        false
    }

    fn forget(&mut self, page: PageId) {
        if let Some(algorithm) = &mut self.algorithm {
            algorithm.forget(page);
        }
    }

    fn put(&mut self, page: PageId) -> bool {
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
