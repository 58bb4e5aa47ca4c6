//! LFU: evict the page with the fewest references since it entered the cache.
//!
//! Of pages with equally many the least recently used one is evicted. With `aging` dynamic, a page's
//! references count from the key of the page that was evicted last: so a page that was popular once
//! is overtaken in time by new ones.
//!
//! Pages that were referenced once are a log, in which the next victim is the oldest. The others are
//! a heap that notes a key only when its page comes to the top, as keys only grow: a hit is one
//! write.
//!
//! * Source: the classical algorithm; aging: Arlitt et al., *Evaluating Content Management Techniques
//!   for Web Proxy Caches*, ACM SIGMETRICS Performance Evaluation Review 27(4), 2000 (LFU-DA).
//! * State: 20 bytes per page that exists, up to 42 bytes per cached page; sparse, none and 59.
//! * Cost: amortised O(1) per hit and O(log n) per miss; O(1) as long as a page that was referenced
//!   once is evicted and there is no aging.
//! * Deviations: (1) Of equal pages the least recently used is evicted, as the authors of LFU-DA do
//!   not say which. (2) Counts and keys end at 2^32 - 1, from which on pages are as equal.

use alloc::vec;
use alloc::vec::Vec;

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::{Parameter, Values};
use crate::policy::single::one_tier::WRITES_THROUGH;
use crate::prefetch::prefetch;
use crate::queue::{LazyHeap, Logs, Numbers, PRESENT, Stamp, Use};
use crate::{Op, PageId};

const AGING: Parameter = Parameter::choice("aging", &["none", "dynamic"], "none")
    .summary("whether references count from the key of the page that was evicted last")
    .source("the classical algorithm: none; LFU-DA: dynamic");

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[AGING];

/// The parameters as a policy of its own, which writes through as the baseline of HCA does.
pub(crate) const POLICY_PARAMETERS: &[Parameter] = &[AGING, WRITES_THROUGH];

/// The only queue of a log.
const ALL: usize = 0;

/// Least frequently used.
#[derive(Clone, Debug)]
pub struct Lfu {
    numbers: Numbers,
    /// Per number of a page: how it was used; a page that is not in the cache has no references.
    records: Vec<Record>,
    /// The pages that were referenced once, by that reference, and so by their keys.
    once: Logs<1>,
    /// The other pages by their keys, and their last reference.
    often: LazyHeap<Rank>,
    held_pages: u32,
    capacity_pages: u32,
    /// References so far.
    now: u64,
    /// The key of the page that was evicted last, if there is aging; zero if there is none.
    age: u32,
    is_aging: bool,
}

/// The key, and the last reference.
type Rank = (u32, Stamp);

/// Uses of a page since it entered the cache.
#[derive(Clone, Copy, Debug)]
struct Record {
    used_at: u64,
    references: u32,
    /// The references and the age at the last of them.
    key: u32,
}

// Four to a cache line.
const _: () = assert!(size_of::<Record>() == 16, "update the `State` line of the module header");

/// Record of a page that is not in the cache.
const UNUSED: Record = Record { used_at: 0, references: 0, key: 0 };

/// Its row in the registry.
pub const LFU: Algorithm = Algorithm::with_writes::<Lfu>(
    "lfu",
    "least frequently used, write-through, no flash: the baseline of HCA",
    "baseline; aging: Arlitt et al.: LFU-DA, SIGMETRICS PER 27(4), 2000",
    module_path!(),
    PARAMETERS,
    POLICY_PARAMETERS,
);

impl Record {
    const fn rank(self) -> Rank {
        (self.key, Stamp(self.used_at))
    }

    /// Return the rank of a page that was referenced more than once.
    fn rank_of_often(self) -> Option<Rank> {
        (self.references > 1).then(|| self.rank())
    }
}

impl Lfu {
    /// Evicts a page of a full cache.
    #[inline]
    fn evict(&mut self) -> PageId {
        let oldest = self.once.oldest(ALL).map(|position| (position, self.once.page(position)));
        let victim = match oldest {
            Some((position, page)) if self.is_first(page, self.often.bound()) => {
                self.once.remove(ALL, position);
                page
            }
            _ => {
                let records = &self.records;
                let least = self.often.least(|number| records[number as usize].rank_of_often());
                match oldest {
                    Some((position, page)) if self.is_first(page, least.map(|(rank, _)| rank)) => {
                        self.once.remove(ALL, position);
                        page
                    }
                    _ => self.numbers.page(least.expect("a full cache has a page").1),
                }
            }
        };
        let number = self.numbers.find(victim).expect("a page of the cache has a number");
        let record = core::mem::replace(&mut self.records[number as usize], UNUSED);
        self.held_pages -= 1;
        if self.is_aging {
            // LFU-DA: the cache's age is the key of its last victim, so new pages start level with
            // what it evicts.
            self.age = record.key;
        }
        victim
    }

    /// Return `true` if a page that was referenced once comes before what ranks so among the others.
    #[inline]
    fn is_first(&self, page: PageId, other: Option<Rank>) -> bool {
        other.is_none_or(|other| self.record(page).rank() < other)
    }

    /// Return the record of a page.
    #[inline]
    fn record(&self, page: PageId) -> Record {
        self.numbers.find(page).map_or(UNUSED, |number| self.records[number as usize])
    }
}

impl Registered for Lfu {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let numbers = Numbers::new(ids, capacity_pages);
        Self {
            records: vec![UNUSED; numbers.count() as usize],
            numbers,
            once: Logs::new(ids, capacity_pages, [(capacity_pages, Use::Leaky)]),
            often: LazyHeap::new(ids.indexing),
            held_pages: 0,
            capacity_pages,
            now: 0,
            age: 0,
            is_aging: values.choice("aging") == "dynamic",
        }
    }
}

impl Replacement for Lfu {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        self.now += 1;
        let references = self.record(page).references;
        let mut outcome = Outcome::Hit;
        if references == 0 {
            let is_full = self.held_pages == self.capacity_pages;
            outcome = Outcome::Admitted { evicted: is_full.then(|| self.evict()) };
            self.once.push(ALL, page, PRESENT);
            self.held_pages += 1;
        }
        let records = &self.records;
        let number = self.numbers.enter(page, |number, _| records[number as usize].references > 0);
        let record = &mut self.records[number as usize];
        record.references = references.saturating_add(1);
        // Only at a reference: a page that is not referenced keeps its key while the age grows past
        // it.
        record.key = self.age.saturating_add(record.references);
        record.used_at = self.now;
        // Only the second reference moves the page out of the log; later ones raise a key that the
        // heap corrects when it looks.
        if references == 1 {
            let position = self.once.find(page).expect("a page with one reference is in the log");
            self.once.remove(ALL, position);
            let rank = record.rank();
            let (records, members) = (&self.records, self.held_pages as usize);
            let current = |number| records[number as usize].rank_of_often();
            self.often.push(number, rank, members, current);
        }
        outcome
    }

    fn contains(&self, page: PageId) -> bool {
        self.record(page).references > 0
    }

    fn forget(&mut self, page: PageId) {
        if let Some(position) = self.once.find(page) {
            self.once.remove(ALL, position);
        }
        if let Some(number) = self.numbers.find(page) {
            let record = core::mem::replace(&mut self.records[number as usize], UNUSED);
            self.held_pages -= u32::from(record.references > 0);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.records, page.index());
        self.once.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.once.assert_invariants();
        self.numbers.assert_invariants();
        let records = (0..self.numbers.taken()).zip(&self.records);
        self.often.assert_invariants(
            records.clone().filter_map(|(number, record)| Some((number, record.rank_of_often()?))),
        );
        assert!(self.held_pages <= self.capacity_pages, "the cache holds its capacity");
        let mut held = 0;
        for (number, record) in records {
            let is_in_log = self.once.find(self.numbers.page(number)).is_some();
            assert_eq!(is_in_log, record.references == 1, "the log has pages of one reference");
            held += u32::from(record.references > 0);
        }
        assert_eq!(held, self.held_pages, "every page is counted once");
        let ranks = self.once.iter(ALL).map(|page| self.record(page).rank());
        assert!(ranks.is_sorted(), "the log is in the order of its pages' keys");
    }

    fn memory_bytes(&self) -> usize {
        let records_bytes = self.numbers.memory_bytes() + size_of_val(&*self.records);
        records_bytes + self.once.memory_bytes() + self.often.memory_bytes()
    }

    /// Return the size of the counts.
    fn metadata_bytes(&self) -> usize {
        self.held_pages as usize * size_of::<u32>()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        if self.is_aging {
            report("age", f64::from(self.age));
        }
    }
}
