//! LRU-2: evict the page whose reference before last is longest ago.
//!
//! Pages with one known reference are evicted first, the least recently used of them. The references of
//! a page are remembered for a while after it leaves the cache. References that follow one another closely
//! are correlated: they count as one, and the page cannot be evicted meanwhile.
//!
//! * Source: O'Neil, O'Neil, Weikum, *The LRU-K Page Replacement Algorithm for Database Disk
//!   Buffering*, SIGMOD 1993, section 2 and figure 2.1, with K = 2.
//! * State: 32 bytes per page that exists, up to 40 bytes per cached page; with correlated periods 4 and
//!   20 bytes more. Sparse, 51 bytes per page that is known, 26 per cached page and 13 more.
//! * Cost: amortised O(1) per hit, O(log n) per miss.
//! * Deviations: (1) Time is counted in references, the paper's in seconds. (2) The paper leaves the
//!   order of pages with one known reference to a subsidiary policy, and names LRU: it is LRU. (3)
//!   Where every page is in a correlated period, figure 2.1 finds no victim: then the page whose last
//!   reference is longest ago is evicted. (4) By default a history is kept for ever, as it costs
//!   nothing here; libCacheSim keeps none, which is `retained` 0.

use alloc::vec;
use alloc::vec::Vec;

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::capabilities::{Capabilities, Depth, SparseMemory};
use crate::config::{Parameter, Scaling, Values};
use crate::prefetch::prefetch;
use crate::queue::{LazyHeap, Numbers, Recency, Stamp};
use crate::{Ids, Op, PageId};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("correlated", 0..=u64::MAX, 0)
        .summary("references to any page within which those to a page count as one")
        .source("the paper: up to the system; none in its experiments")
        .scaling(Scaling::Proportional),
    Parameter::integer_or_auto("retained", 0..=u64::MAX)
        .summary(
            "references to any page for which a page is known after its last one; auto: for ever",
        )
        .source("the paper: 200 seconds; libCacheSim: 0")
        .scaling(Scaling::Proportional),
];

/// State of a page that is among the candidates.
const CANDIDATE: u8 = 1;
/// State of a page that came up as victim in a correlated period: it waits for the end of that.
const WAITING: u8 = 1 << 1;
/// The class of the pages that wait.
const WAITING_ONES: usize = 0;
/// The class of all pages.
const ALL: usize = 1;

/// Least recently used, by the last reference but one.
#[derive(Clone, Debug)]
pub struct Lru2 {
    numbers: Numbers,
    /// Per number of a page.
    histories: Vec<History>,
    /// The pages in the cache that do not wait, by [`History::rank`]; noted when they come up.
    candidates: LazyHeap<Rank>,
    /// All pages in the cache by their last reference, if there are correlated periods.
    order: Recency<2>,
    held_pages: u32,
    capacity_pages: u32,
    correlated: u64,
    retained: u64,
    /// References so far; the first is at 1.
    now: u64,
}

/// HIST(p, 2), then LAST.
type Rank = (Stamp, Stamp);

/// Times of a page's last references; zero: no reference is known.
#[derive(Clone, Copy, Debug)]
struct History {
    /// LAST of the paper.
    last: u64,
    /// HIST(p, 1): the last uncorrelated reference.
    first: u64,
    /// HIST(p, 2): the one before, shifted by the correlated period of that.
    second: u64,
    is_held: bool,
    /// `true` if it came up as victim in a correlated period.
    is_waiting: bool,
}

const _: () = assert!(size_of::<History>() == 32, "update the `State` line of the module header");

/// History of a page of which nothing is known.
const UNKNOWN: History =
    History { last: 0, first: 0, second: 0, is_held: false, is_waiting: false };

/// Its row in the registry.
pub const LRU_2: Algorithm = Algorithm::new::<Lru2>(
    "lru-2",
    "the page whose reference before last is longest ago leaves; no flash",
    "O'Neil, O'Neil, Weikum: The LRU-K Page Replacement Algorithm, SIGMOD 1993",
    module_path!(),
    PARAMETERS,
)
.with(Capabilities {
    sparse_memory: SparseMemory::of_accessed(
        48,
        "it knows a page for ever, unless `retained` ends that",
    ),
    ..Capabilities::of(Depth::Ram)
});

impl History {
    /// Return the rank of a page: those with a lower one are evicted first.
    const fn rank(self) -> Rank {
        (Stamp(self.second), Stamp(self.last))
    }

    /// Return `true` if the page is in the cache, or its history still counts.
    const fn is_known(&self, now: u64, retained: u64) -> bool {
        self.is_held || (self.last > 0 && now - self.last <= retained)
    }

    /// Return the rank of a page that may leave the cache.
    fn rank_of_candidate(self) -> Option<Rank> {
        (self.is_held && !self.is_waiting).then(|| self.rank())
    }
}

impl Lru2 {
    /// Evicts a page of a full cache.
    #[inline]
    fn evict(&mut self) -> PageId {
        if self.correlated > 0 {
            self.end_waits();
        }
        let victim = loop {
            let histories = &self.histories;
            let least =
                self.candidates.least(|number| histories[number as usize].rank_of_candidate());
            // Every page is within its correlated reference period, so none is eligible: the least
            // recently used one leaves.
            let Some((_, number)) = least else {
                let (oldest, _) = self.order.oldest(ALL).expect("a full cache has a page");
                break self.order.page(oldest);
            };
            let page = self.numbers.page(number);
            if !self.is_correlated(page) {
                break page;
            }
            // The paper: a page is not replaced while further references may be
            // correlated to its last one. It waits outside the heap, ordered by last reference.
            self.histories[number as usize].is_waiting = true;
            let (position, _) = self.order.find(page).expect("a page of the cache is in the order");
            self.order.set_state(position, WAITING);
        };
        self.leave(victim);
        victim
    }

    /// Return `true` if the last reference to a page is so recent that another would be correlated to it.
    #[inline]
    fn is_correlated(&self, page: PageId) -> bool {
        self.now - self.history(page).last <= self.correlated
    }

    /// Makes candidates of pages whose correlated period is over.
    fn end_waits(&mut self) {
        while let Some((position, _)) = self.order.oldest(WAITING_ONES) {
            let page = self.order.page(position);
            if self.is_correlated(page) {
                break;
            }
            self.order.set_state(position, CANDIDATE);
            let number = self.number(page);
            self.histories[number as usize].is_waiting = false;
            self.note(number);
        }
    }

    /// Puts a candidate into the heap.
    #[inline]
    fn note(&mut self, number: u32) {
        let (histories, members) = (&self.histories, self.held_pages as usize);
        let rank = histories[number as usize].rank();
        let current = |number| histories[number as usize].rank_of_candidate();
        self.candidates.push(number, rank, members, current);
    }

    fn leave(&mut self, page: PageId) {
        if self.correlated > 0
            && let Some((position, _)) = self.order.find(page)
        {
            self.order.set_state(position, 0);
        }
        let number = self.number(page);
        let history = &mut self.histories[number as usize];
        (history.is_held, history.is_waiting) = (false, false);
        self.held_pages -= 1;
    }

    /// Return the history of a page.
    #[inline]
    fn history(&self, page: PageId) -> History {
        self.numbers.find(page).map_or(UNKNOWN, |number| self.histories[number as usize])
    }

    /// Return the number of a page of the cache.
    #[inline]
    fn number(&self, page: PageId) -> u32 {
        self.numbers.find(page).expect("a page of the cache has a number")
    }

    /// Return the number of a page that enters the cache. The references of the page that had it
    /// before are forgotten.
    #[inline]
    fn number_of_new(&mut self, page: PageId) -> u32 {
        if let Some(number) = self.numbers.find(page) {
            return number;
        }
        let Self { histories, now, retained, .. } = self;
        let is_tracked = |number, _| histories[number as usize].is_known(*now, *retained);
        let number = self.numbers.enter(page, is_tracked);
        if number as usize == self.histories.len() {
            if self.histories.len() == self.histories.capacity() {
                self.histories.reserve_exact(self.histories.len() / 8 + 1);
            }
            self.histories.push(UNKNOWN);
        }
        self.histories[number as usize] = UNKNOWN;
        number
    }

    /// Process a reference to a page in the cache.
    #[inline]
    fn renew(&mut self, page: PageId) {
        let is_correlated = self.is_correlated(page);
        let number = self.number(page);
        let history = &mut self.histories[number as usize];
        // Only a reference that is not correlated counts as a new one.
        if !is_correlated {
            // HIST(p, 1) and the correlated period that began there, which ended at LAST.
            history.second = history.last;
            history.first = self.now;
        }
        // LAST moves with every reference, correlated or not: it says when the correlated period
        // ends.
        history.last = self.now;
    }

    /// Process a reference to a page that enters the cache.
    #[inline]
    fn enter(&mut self, page: PageId) {
        let number = self.number_of_new(page);
        let history = &mut self.histories[number as usize];
        let is_known = history.last > 0 && self.now - history.last <= self.retained;
        // HIST(p, 2) outlives the page's stay in the cache for the retained information period.
        let second = if is_known { history.first } else { 0 };
        let now = self.now;
        *history = History { last: now, first: now, second, is_held: true, is_waiting: false };
        self.held_pages += 1;
        self.note(number);
    }
}

impl Registered for Lru2 {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let correlated = values.integer("correlated");
        // Without correlated periods nothing waits, so the order by last reference would only cost
        // memory.
        let ordered = if correlated > 0 { ids } else { Ids { pages: 0, ..ids } };
        let numbers = Numbers::growing(ids);
        Self {
            histories: vec![UNKNOWN; numbers.taken() as usize],
            numbers,
            candidates: LazyHeap::new(ids.indexing),
            order: Recency::new(ordered, capacity_pages, [WAITING, u8::MAX]),
            held_pages: 0,
            capacity_pages,
            correlated,
            retained: values.integer_or_auto("retained").unwrap_or(u64::MAX),
            now: 0,
        }
    }
}

impl Replacement for Lru2 {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        self.now += 1;
        let mut outcome = Outcome::Hit;
        if self.contains(page) {
            self.renew(page);
        } else {
            let is_full = self.held_pages == self.capacity_pages;
            outcome = Outcome::Admitted { evicted: is_full.then(|| self.evict()) };
            self.enter(page);
        }
        if self.correlated > 0 {
            let state = self.order.state(page);
            // A page that waits stays so: the reference that just came extends its correlated
            // period.
            self.order.touch(page, if state == 0 { CANDIDATE } else { state });
        }
        outcome
    }

    #[inline]
    fn contains(&self, page: PageId) -> bool {
        self.history(page).is_held
    }

    fn forget(&mut self, page: PageId) {
        if self.contains(page) {
            self.leave(page);
        }
        if let Some(number) = self.numbers.find(page) {
            self.histories[number as usize] = UNKNOWN;
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.histories, page.index());
    }

    fn assert_invariants(&self) {
        self.numbers.assert_invariants();
        let histories = (0..).zip(&self.histories);
        self.candidates.assert_invariants(
            histories
                .clone()
                .filter_map(|(number, known)| Some((number, known.rank_of_candidate()?))),
        );
        self.order.assert_invariants();
        assert!(self.held_pages <= self.capacity_pages, "the cache holds its capacity");
        let mut held = 0;
        for (number, history) in histories {
            assert!(history.second <= history.first, "references are in order");
            assert!(history.first <= history.last, "a correlated period begins and ends");
            let page = self.numbers.page(number);
            let is_waiting = self.correlated > 0 && self.order.state(page) == WAITING;
            assert_eq!(history.is_waiting, is_waiting, "a page that waits is marked in the order");
            assert!(history.is_held || !is_waiting, "a page that waits is in the cache");
            held += u32::from(history.is_held);
        }
        assert_eq!(held, self.held_pages, "every page is counted once");
    }

    fn memory_bytes(&self) -> usize {
        let histories_bytes = self.histories.capacity() * size_of::<History>();
        let known_bytes = self.numbers.memory_bytes() + histories_bytes;
        known_bytes + self.candidates.memory_bytes() + self.order.memory_bytes()
    }

    /// Return the history control blocks of pages that are known: two references, and LAST.
    fn metadata_bytes(&self) -> usize {
        let is_known = |history: &&History| history.is_known(self.now, self.retained);
        self.histories.iter().filter(is_known).count() * 3 * size_of::<u64>()
    }
}
