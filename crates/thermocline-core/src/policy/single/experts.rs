//! What LeCaR and CACHEUS share: two experts that are followed with weights, and what one of them
//! must know, how often each page was referenced.
//!
//! * Source: Vietri et al., *Driving Cache Replacement with ML-based LeCaR*, HotStorage 2018,
//!   algorithms 1 and 2; Rodriguez et al., *Learning Cache Replacement with CACHEUS*, FAST 2021,
//!   section 4.
//! * State: 16 bytes per page that exists, 16 to 32 bytes per cached page; sparse, 27 bytes per page of
//!   the cache and the histories, 20 per cached page.
//! * Cost: O(1) per hit, amortised O(log n) per miss.
//! * Deviations: those of the two policies.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt::Debug;

use crate::Ids;
use crate::PageId;
use crate::prefetch::prefetch;
use crate::queue::{LazyHeap, Numbers, Stamp};
use crate::random::{Draws as _, SplitMix64};

/// The greatest weight of an expert; the other has the rest.
const WEIGHT_MAX: f64 = 0.99;

/// Who says what to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expert {
    /// The page referenced longest ago.
    Recency,
    /// The page referenced least often.
    Frequency,
}

/// The weights of the two experts, which add up to one.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    recency: f64,
    draws: SplitMix64,
}

impl Weights {
    /// Equal weights.
    pub(super) const fn new(seed: u64) -> Self {
        Self { recency: 0.5, draws: SplitMix64::new(seed) }
    }

    /// The expert to follow this time.
    pub(super) fn draw(&mut self) -> Expert {
        if self.unit() < self.recency { Expert::Recency } else { Expert::Frequency }
    }

    /// A number from 0 to below 1, of the same stream.
    pub(super) fn unit(&mut self) -> f64 {
        self.draws.unit()
    }

    /// Lowers the weight of an expert by the factor `e^-regret`.
    pub(super) fn regret(&mut self, expert: Expert, regret: f64) {
        let factor = libm::exp(-regret);
        let [recency, frequency] = match expert {
            Expert::Recency => [self.recency * factor, 1.0 - self.recency],
            Expert::Frequency => [self.recency, (1.0 - self.recency) * factor],
        };
        let weight = recency / (recency + frequency);
        self.recency = weight.clamp(1.0 - WEIGHT_MAX, WEIGHT_MAX);
    }

    /// The weight of the expert for recency.
    pub(super) const fn recency(&self) -> f64 {
        self.recency
    }
}

/// The references to a page that are remembered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The time of the last one, or of the eviction, for a page that has left; zero if nothing is known.
    pub(super) time: u64,
    /// How many there were.
    pub(super) references: u32,
    /// Whether the page is in the cache.
    is_cached: bool,
}

impl Known {
    /// The key of a page in the cache.
    fn key<T: Ties>(self) -> Option<(u32, T::Rank)> {
        self.is_cached.then(|| (self.references, T::rank(self.time)))
    }
}

/// Which of two pages with as many references leaves first.
pub(super) trait Ties: Debug {
    /// What orders them, the least first; it grows with the time of the last reference or shrinks.
    type Rank: Ord + Copy + Debug;

    /// The rank by that time.
    fn rank(time: u64) -> Self::Rank;
}

/// The one referenced longer ago.
#[derive(Clone, Copy, Debug)]
pub(super) struct OldestFirst;

impl Ties for OldestFirst {
    type Rank = Stamp;

    fn rank(time: u64) -> Stamp {
        Stamp(time)
    }
}

/// The one referenced last.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewestFirst;

impl Ties for NewestFirst {
    type Rank = Reverse<Stamp>;

    fn rank(time: u64) -> Reverse<Stamp> {
        Reverse(Stamp(time))
    }
}

/// Pages by how often they were referenced: LFU, told when pages come and leave.
///
/// A reference does not touch the heap: it only raises a page's count, so the heap learns of it when
/// the page comes up for eviction.
#[derive(Clone, Debug)]
pub(super) struct Frequencies<T: Ties> {
    numbers: Numbers,
    /// Per number of a page.
    known: Vec<Known>,
    heap: LazyHeap<(u32, T::Rank)>,
    cached_pages: usize,
}

impl<T: Ties> Frequencies<T> {
    /// No page is known; at most `tracked` will be at once.
    pub(super) fn new(ids: Ids, tracked: u32) -> Self {
        let numbers = Numbers::new(ids, tracked);
        Self {
            known: vec![Known::default(); numbers.count() as usize],
            numbers,
            heap: LazyHeap::new(ids.indexing),
            cached_pages: 0,
        }
    }

    /// What is known of a page; of one without references, nothing.
    pub(super) fn known(&self, page: PageId) -> Known {
        self.numbers.find(page).map_or_else(Known::default, |number| self.known[number as usize])
    }

    /// A reference to a page of the cache.
    #[inline]
    pub(super) fn refer(&mut self, page: PageId, time: u64) {
        let known = self.known_mut(page);
        known.references = known.references.saturating_add(1);
        known.time = time;
    }

    /// A page comes into the cache, with so many references.
    pub(super) fn admit(&mut self, page: PageId, references: u32, time: u64) {
        let known = &self.known;
        let number = self.numbers.enter(page, |number, _| known[number as usize].time > 0);
        self.known[number as usize] = Known { time, references, is_cached: true };
        self.cached_pages += 1;
        let known = &self.known;
        let key = (references, T::rank(time));
        self.heap.push(number, key, self.cached_pages, |number| known[number as usize].key::<T>());
    }

    /// The page of the cache that was referenced least often.
    pub(super) fn least(&mut self) -> PageId {
        let known = &self.known;
        let least = self.heap.least(|number| known[number as usize].key::<T>());
        self.numbers.page(least.expect("a full cache has a page").1)
    }

    /// A page leaves the cache, but its references are remembered.
    pub(super) fn evict(&mut self, page: PageId, time: u64) {
        let known = self.known_mut(page);
        known.time = time;
        known.is_cached = false;
        self.cached_pages -= 1;
    }

    /// A page leaves the cache, if it is there, and what is known of it is forgotten.
    pub(super) fn forget(&mut self, page: PageId) {
        if let Some(number) = self.numbers.find(page) {
            let known = core::mem::take(&mut self.known[number as usize]);
            self.cached_pages -= usize::from(known.is_cached);
        }
    }

    /// Asks the processor for what the next reference to `page` will read.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        prefetch(&self.known, page.index());
    }

    /// Whether a page is in the cache.
    pub(super) fn contains(&self, page: PageId) -> bool {
        self.known(page).is_cached
    }

    /// Pages in the cache.
    pub(super) fn len(&self) -> usize {
        self.cached_pages
    }

    pub(super) fn assert_invariants(&self) {
        let members =
            (0..).zip(&self.known).filter_map(|(number, known)| Some((number, known.key::<T>()?)));
        assert_eq!(members.clone().count(), self.cached_pages, "pages are counted");
        self.heap.assert_invariants(members);
        self.numbers.assert_invariants();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.numbers.memory_bytes() + size_of_val(&*self.known) + self.heap.memory_bytes()
    }

    /// What is known of a page of the cache.
    #[inline]
    fn known_mut(&mut self, page: PageId) -> &mut Known {
        let number = self.numbers.find(page).expect("a page of the cache has a number");
        &mut self.known[number as usize]
    }
}
