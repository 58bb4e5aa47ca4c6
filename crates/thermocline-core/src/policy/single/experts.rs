//! Parts that LeCaR and CACHEUS share: two weighted experts, and the reference count of each page,
//! which one of them needs.
//!
//! * Source: Vietri et al., *Driving Cache Replacement with ML-based LeCaR*, HotStorage 2018,
//!   algorithms 1 and 2; Rodriguez et al., *Learning Cache Replacement with CACHEUS*, FAST 2021,
//!   section 4.
//! * State: 16 bytes and a bit per page that exists, 16 to 56 bytes per cached page; sparse, 28 bytes
//!   per page of the cache and the histories, 36 per cached page.
//! * Cost: O(1) per hit, amortised O(log n) per miss.
//! * Deviations: those of the two policies.

use alloc::collections::{BTreeSet, BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::Space;
use crate::PageId;
use crate::prefetch::prefetch;
use crate::queue::{Entry, LazyHeap, Numbers, Rank, Stamp};
use crate::random::{Draws as _, SplitMix64};
use crate::{Geometry, Indexing};

/// The greatest weight of an expert; the other has the rest.
const WEIGHT_MAX: f64 = 0.99;

/// Expert that chooses a victim.
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
    /// Create equal weights.
    pub(super) const fn new(seed: u64) -> Self {
        Self { recency: 0.5, draws: SplitMix64::new(seed) }
    }

    /// Return the expert to follow this time.
    pub(super) fn draw(&mut self) -> Expert {
        if self.unit() < self.recency { Expert::Recency } else { Expert::Frequency }
    }

    /// Draw a number in [0, 1) from the same stream.
    pub(super) fn unit(&mut self) -> f64 {
        self.draws.unit()
    }

    /// Lowers the weight of an expert by the factor `e^-regret`.
    pub(super) fn regret(&mut self, expert: Expert, regret: f64) {
        // LeCaR, algorithm 2: w = w e^(learning rate * regret) for the other expert, normalised.
        // Lowering this one by the inverse gives the same weights.
        let factor = libm::exp(-regret);
        let [recency, frequency] = match expert {
            Expert::Recency => [self.recency * factor, 1.0 - self.recency],
            Expert::Frequency => [self.recency, (1.0 - self.recency) * factor],
        };
        let weight = recency / (recency + frequency);
        // A weight of 0 could never grow again, as updates multiply.
        self.recency = weight.clamp(1.0 - WEIGHT_MAX, WEIGHT_MAX);
    }

    /// Return the weight of the expert for recency.
    pub(super) const fn recency(&self) -> f64 {
        self.recency
    }
}

/// The references to a page that are remembered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The time of the last one, or of the eviction, for a page that has left; zero if nothing is known.
    pub(super) time: u64,
    /// Number of references.
    pub(super) references: u32,
    /// `true` if the page is in the cache.
    is_cached: bool,
}

/// Order of pages with equally many references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ties {
    /// The one with the lower page number.
    LowestAddress,
    /// The one referenced longer ago.
    OldestFirst,
    /// The one referenced last.
    NewestFirst,
}

impl Ties {
    /// Return the key of a page: the least leaves first.
    #[inline]
    fn rank(self, page: PageId, known: Known, geometry: &Geometry) -> Rank {
        let stamp = match self {
            Self::LowestAddress => geometry.page_number(page),
            Self::OldestFirst => known.time,
            // The complement turns the order of times round, so one key serves both.
            Self::NewestFirst => !known.time,
        };
        Rank { count: known.references, stamp: Stamp(stamp) }
    }
}

/// Pages that were referenced once when they came into the cache, in the order in which LFU evicts
/// them. For most pages it stays at that, so most evictions end here, without the heap.
#[derive(Clone, Debug)]
enum Once {
    /// Page ids by page number, the lowest first.
    ByAddress(BinaryHeap<Reverse<Entry<Stamp>>>),
    /// Numbers of pages and the times at which they came, the oldest first.
    ByTime(VecDeque<(u32, Stamp)>),
}

/// Entries beyond the members' share, so that a small order is not tidied at each step.
const MARGIN: usize = 64;

/// Pages by how often they were referenced: LFU, told when pages come and leave.
///
/// A reference touches no order: it only raises a page's count, so the orders learn of it when the
/// page comes up for eviction.
#[derive(Clone, Debug)]
pub(super) struct Frequencies {
    ties: Ties,
    geometry: Geometry,
    indexing: Indexing,
    numbers: Numbers,
    /// Per number of a page.
    known: Vec<Known>,
    /// A page of the cache that came with one reference has an entry here until it comes up with
    /// more; there are entries of other pages, too.
    once: Once,
    /// The other pages of the cache.
    heap: LazyHeap<Rank>,
    cached_pages: usize,
}

impl Once {
    fn len(&self) -> usize {
        match self {
            Self::ByAddress(pages) => pages.len(),
            Self::ByTime(pages) => pages.len(),
        }
    }

    /// Grows by little, if it must grow.
    fn reserve_some(&mut self) {
        let more = self.len() / 32 + 1;
        match self {
            Self::ByAddress(pages) if pages.len() == pages.capacity() => pages.reserve_exact(more),
            Self::ByTime(pages) if pages.len() == pages.capacity() => pages.reserve_exact(more),
            Self::ByAddress(_) | Self::ByTime(_) => {}
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::ByAddress(pages) => pages.capacity() * size_of::<Entry<Stamp>>(),
            Self::ByTime(pages) => pages.capacity() * size_of::<(u32, Stamp)>(),
        }
    }
}

impl Frequencies {
    /// Create an empty record of at most `tracked` pages at once.
    pub(super) fn new(Space { ids, geometry, .. }: Space<'_>, tracked: u32, ties: Ties) -> Self {
        let numbers = Numbers::new(ids, tracked);
        Self {
            ties,
            geometry: geometry.clone(),
            indexing: ids.indexing,
            known: vec![Known::default(); numbers.count() as usize],
            numbers,
            once: match ties {
                Ties::LowestAddress => Once::ByAddress(BinaryHeap::new()),
                Ties::OldestFirst | Ties::NewestFirst => Once::ByTime(VecDeque::new()),
            },
            heap: LazyHeap::new(ids.indexing),
            cached_pages: 0,
        }
    }

    /// Return the record of a page; an empty one if it has no references.
    pub(super) fn known(&self, page: PageId) -> Known {
        self.numbers.find(page).map_or_else(Known::default, |number| self.known[number as usize])
    }

    /// Process a reference to a page of the cache.
    #[inline]
    pub(super) fn refer(&mut self, page: PageId, time: u64) {
        let known = self.known_mut(page);
        // The heap is not told: counts only grow, so its key is a lower bound that is corrected
        // when the page comes up.
        known.references = known.references.saturating_add(1);
        known.time = time;
    }

    /// Admit a page to the cache, with its number of references.
    pub(super) fn admit(&mut self, page: PageId, references: u32, time: u64) {
        let known = &self.known;
        let number = self.numbers.enter(page, |number, _| known[number as usize].time > 0);
        self.known[number as usize] = Known { time, references, is_cached: true };
        self.cached_pages += 1;
        if references > 1 {
            self.push(number);
            return;
        }
        // Entries of pages that left, or came again, are only removed by tidying. A dense table
        // saves time with more of them, a sparse one memory with fewer.
        let entries_max = match self.indexing {
            Indexing::Dense => 2 * self.cached_pages + MARGIN,
            Indexing::Sparse => {
                self.once.reserve_some();
                self.cached_pages + self.cached_pages / 4 + MARGIN
            }
        };
        match &mut self.once {
            Once::ByAddress(pages) => {
                let key = Stamp(self.geometry.page_number(page));
                pages.push(Reverse(Entry { key, id: page.0 }));
            }
            Once::ByTime(pages) => pages.push_back((number, Stamp(time))),
        }
        if self.once.len() > entries_max {
            self.tidy();
        }
    }

    /// Return the page of the cache that was referenced least often.
    pub(super) fn least(&mut self) -> PageId {
        while let Some((number, time)) = self.next_once() {
            let known = self.known.get(number as usize).copied().unwrap_or_default();
            if known.is_cached
                && known.references == 1
                && time.is_none_or(|time| time == known.time)
            {
                return self.numbers.page(number);
            }
            match &mut self.once {
                Once::ByAddress(pages) => drop(pages.pop()),
                Once::ByTime(pages) if self.ties == Ties::NewestFirst => drop(pages.pop_back()),
                Once::ByTime(pages) => drop(pages.pop_front()),
            }
            // The page was referenced again since its entry was made: the heap orders it from now
            // on.
            if known.is_cached && known.references > 1 {
                self.push(number);
            }
        }
        let Self { ties, geometry, numbers, known, heap, .. } = self;
        let least = heap.least(|number| key_of((*ties, geometry), numbers, known, number));
        self.numbers.page(least.expect("a full cache has a page").1)
    }

    /// Evict a page from the cache, but remember its references.
    pub(super) fn evict(&mut self, page: PageId, time: u64) {
        let known = self.known_mut(page);
        known.time = time;
        known.is_cached = false;
        self.cached_pages -= 1;
    }

    /// Remove a page from the cache, if it is there, and forget its references.
    pub(super) fn forget(&mut self, page: PageId) {
        if let Some(number) = self.numbers.find(page) {
            let known = core::mem::take(&mut self.known[number as usize]);
            self.cached_pages -= usize::from(known.is_cached);
        }
    }

    /// Prefetches the data that the next reference to `page` will read.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        prefetch(&self.known, page.index());
    }

    /// Return `true` if a page is in the cache.
    pub(super) fn contains(&self, page: PageId) -> bool {
        self.known(page).is_cached
    }

    /// Return the number of pages in the cache.
    pub(super) fn len(&self) -> usize {
        self.cached_pages
    }

    pub(super) fn assert_invariants(&self) {
        let order = (self.ties, &self.geometry);
        let key = |number| key_of(order, &self.numbers, &self.known, number);
        let numbers = 0..self.numbers.taken();
        let members = numbers.filter_map(|number| Some((number, key(number)?)));
        let once: BTreeSet<(u32, u64)> = match &self.once {
            Once::ByAddress(pages) => {
                let number = |id| self.numbers.find(PageId(id));
                pages.iter().filter_map(|page| Some((number(page.0.id)?, 0))).collect()
            }
            Once::ByTime(pages) => pages.iter().map(|(number, time)| (*number, time.0)).collect(),
        };
        let is_once = |number: u32, known: Known| {
            let times = if self.ties == Ties::LowestAddress || known.references > 1 {
                0..=u64::MAX
            } else {
                known.time..=known.time
            };
            once.range((number, *times.start())..=(number, *times.end())).next().is_some()
        };
        assert_eq!(members.clone().count(), self.cached_pages, "pages are counted");
        let in_heap = |&(number, _): &(u32, Rank)| !is_once(number, self.known[number as usize]);
        self.heap.assert_invariants(members.filter(in_heap));
        self.numbers.assert_invariants();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let orders_bytes = self.once.memory_bytes() + self.heap.memory_bytes();
        self.numbers.memory_bytes() + size_of_val(&*self.known) + orders_bytes
    }

    /// Return the number of the next page among those that came with one reference, and when it
    /// came, if that orders them.
    #[inline]
    fn next_once(&self) -> Option<(u32, Option<u64>)> {
        match &self.once {
            Once::ByAddress(pages) => {
                let Reverse(Entry { id, .. }) = pages.peek()?;
                // A page that has no number any more is as good as one that is not in the cache.
                Some((self.numbers.find(PageId(*id)).unwrap_or(u32::MAX), None))
            }
            Once::ByTime(pages) => {
                let is_newest_first = self.ties == Ties::NewestFirst;
                let next = if is_newest_first { pages.back() } else { pages.front() };
                next.map(|&(number, Stamp(time))| (number, Some(time)))
            }
        }
    }

    /// Adds a page of the cache to the heap.
    fn push(&mut self, number: u32) {
        let Self { ties, geometry, numbers, known, heap, cached_pages, .. } = self;
        let key = |number| key_of((*ties, geometry), numbers, known, number);
        let new = key(number).expect("the page is in the cache");
        heap.push(number, new, *cached_pages, key);
    }

    /// Leaves an entry for each page that was referenced once, and moves those that were referenced
    /// again to the heap.
    #[cold]
    fn tidy(&mut self) {
        let mut moved = Vec::new();
        let (numbers, known) = (&self.numbers, &self.known);
        let mut stays = |number: u32, time: Option<u64>| {
            let known = known[number as usize];
            if known.is_cached && known.references > 1 {
                moved.push(number);
            }
            known.is_cached && known.references == 1 && time.is_none_or(|time| time == known.time)
        };
        match &mut self.once {
            Once::ByAddress(pages) => {
                let mut entries = core::mem::take(pages).into_vec();
                entries.retain(|Reverse(Entry { id, .. })| {
                    numbers.find(PageId(*id)).is_some_and(|number| stays(number, None))
                });
                entries.sort_unstable();
                // A page that left and came back has two entries of the same key; the sort above
                // puts them side by side.
                entries.dedup_by_key(|entry| entry.0.id);
                *pages = entries.into();
            }
            Once::ByTime(pages) => pages.retain(|&(number, Stamp(time))| stays(number, Some(time))),
        }
        for number in moved {
            self.push(number);
        }
    }

    /// Return the record of a cached page.
    #[inline]
    fn known_mut(&mut self, page: PageId) -> &mut Known {
        let number = self.numbers.find(page).expect("a page of the cache has a number");
        &mut self.known[number as usize]
    }
}

/// Return the key of a number's page, if that is in the cache.
#[inline]
fn key_of(
    (ties, geometry): (Ties, &Geometry),
    numbers: &Numbers,
    known: &[Known],
    number: u32,
) -> Option<Rank> {
    let known = known[number as usize];
    known.is_cached.then(|| ties.rank(numbers.page(number), known, geometry))
}
