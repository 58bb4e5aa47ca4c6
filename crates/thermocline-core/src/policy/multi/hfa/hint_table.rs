//! `T_out`: how often pages left a tier, by page and period, in a bounded number of records.
//!
//! Records of one page are chained, the newest period first. The records of a period that still
//! counts are in two lists: those with one hint, in the order in which they were made, and the
//! others, which are also in a heap. So the record to forget is found at once: the oldest period's,
//! with the lowest count, the one that was made first.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 3.2.2.
//! * State: 4 bytes per page that exists, in a table of the policy; 48 bytes per record, 24 more if it has many hints.
//! * Cost: O(k) to sum up the hints of a page; to record one amortised O(k), and O(log n) if the
//!   page left in this period before.
//! * Deviations: (1) among records that tie, the oldest goes: the paper does not say. (2) An expired
//!   record counts no longer but stays, as in the paper, until its room is needed.

use alloc::vec::Vec;

use crate::PageId;
use crate::queue::{IndexedHeap, Lists};

/// No record.
pub(super) const NONE: u32 = u32::MAX;
/// The list of the records that no longer count.
const EXPIRED: u32 = 0;
/// The lists of a period: records with one hint, and records with more.
const CLASSES: u32 = 2;

/// What the published table needs per record: page, period and count.
pub(super) const RECORD_BYTES: usize = 16;

/// The newest record of each page, in a column of a table that the tiers share: what one page needs
/// is in one place.
#[derive(Debug)]
pub(super) struct Heads<'a> {
    pub(super) cells: &'a mut [u32],
    /// Cells per page.
    pub(super) stride: usize,
    pub(super) column: usize,
}

impl Heads<'_> {
    fn get(&self, page: PageId) -> u32 {
        self.cells[page.index() * self.stride + self.column]
    }

    fn set(&mut self, page: PageId, record: u32) {
        self.cells[page.index() * self.stride + self.column] = record;
    }
}

#[derive(Clone, Copy, Debug)]
struct Record {
    page: u32,
    count: u32,
    period: u64,
    /// When it was made, as a number.
    number: u64,
    /// The records of the same page before and after this one in time.
    older: u32,
    newer: u32,
}

/// The hints of one tier.
#[derive(Clone, Debug)]
pub(super) struct HintTable {
    records: Vec<Record>,
    /// Unused entries of `records`.
    free: Vec<u32>,
    lists: Lists,
    /// The records with many hints that count, by period, count and number.
    repeated: IndexedHeap<(u64, u32, u64)>,
    /// How many records were ever made.
    made: u64,
    capacity: u32,
    /// The current period.
    period: u64,
    /// The first list of the current period.
    list: u32,
    /// The first list of a period that no older one with a record precedes.
    oldest: u32,
    /// How many periods count, the current one included.
    k: u32,
}

impl HintTable {
    /// An empty table of so many records.
    pub(super) fn new(pages: u32, capacity: u32, k: u32) -> Self {
        // What could never be live needs no record: a page has one per period.
        let needed = u64::from(pages) * u64::from(k) + 1;
        let capacity = u32::try_from(needed).map_or(capacity, |needed| capacity.min(needed));
        let capacity = if k == 0 { 0 } else { capacity };
        Self {
            records: Vec::new(),
            free: Vec::new(),
            lists: Lists::new(capacity, 1 + k * CLASSES),
            repeated: IndexedHeap::new(capacity),
            made: 0,
            capacity,
            period: 0,
            list: 1,
            oldest: 1,
            k,
        }
    }

    /// Begins a period; the pages that have no hint left that counts are told.
    pub(super) fn begin_period(&mut self, period: u64, mut told: impl FnMut(PageId)) {
        debug_assert_eq!(period, self.period + 1, "periods follow each other");
        self.period = period;
        if self.capacity == 0 {
            return;
        }
        self.list = self.next_list(self.list);
        if self.oldest == self.list {
            self.oldest = self.next_list(self.list);
        }
        // The lists of the period that expires are those that the new one will use.
        for class in 0..CLASSES {
            while let Some(id) = self.lists.front(self.list + class) {
                self.lists.remove(id);
                self.lists.push_back(EXPIRED, id);
                self.repeated.remove(id);
                let record = self.records[id as usize];
                if record.newer == NONE {
                    told(PageId(record.page));
                }
            }
        }
    }

    /// Records that a page leaves the tier; a page that is forgotten for it is told.
    pub(super) fn record(
        &mut self,
        heads: &mut Heads<'_>,
        page: PageId,
        mut told: impl FnMut(PageId),
    ) {
        if self.capacity == 0 {
            return;
        }
        let newest = heads.get(page);
        if newest != NONE && self.records[newest as usize].period == self.period {
            let record = &mut self.records[newest as usize];
            record.count = record.count.saturating_add(1);
            self.repeated.set(newest, (record.period, record.count, record.number));
            if record.count == 2 {
                self.lists.remove(newest);
                self.lists.push_back(self.list + 1, newest);
            }
            return;
        }
        if self.len() == self.capacity {
            while let Some(id) = self.lists.front(EXPIRED) {
                self.forget(heads, id);
            }
            if self.len() == self.capacity {
                let victim = self.victim();
                let forgotten = PageId(self.records[victim as usize].page);
                self.forget(heads, victim);
                if heads.get(forgotten) == NONE {
                    told(forgotten);
                }
            }
        }
        let older = heads.get(page);
        let (period, number) = (self.period, self.made);
        self.made += 1;
        let record = Record { page: page.0, count: 1, period, number, older, newer: NONE };
        let id = match self.free.pop() {
            Some(id) => {
                self.records[id as usize] = record;
                id
            }
            None => {
                self.records.push(record);
                self.len_allocated() - 1
            }
        };
        if older != NONE {
            self.records[older as usize].newer = id;
        }
        heads.set(page, id);
        self.lists.push_back(self.list, id);
    }

    /// The hints that count of the page with this newest record, as (how many periods ago, how many), newest first.
    pub(super) fn hints(&self, newest: u32) -> impl Iterator<Item = (usize, u32)> + '_ {
        let chain = core::iter::successors(self.records.get(newest as usize), |record| {
            self.records.get(record.older as usize)
        });
        chain.map_while(|record| {
            let ago = self.period - record.period;
            #[expect(clippy::cast_possible_truncation, reason = "less than k")]
            (ago < u64::from(self.k)).then_some((ago as usize, record.count))
        })
    }

    /// Whether the page with this newest record has a hint that counts.
    pub(super) fn is_live(&self, newest: u32) -> bool {
        self.hints(newest).next().is_some()
    }

    /// The page whose record is forgotten next, if none expires before.
    pub(super) fn next_forgotten(&mut self) -> Option<PageId> {
        let is_full = self.capacity > 0 && self.len() == self.capacity;
        let may_tell = is_full && self.lists.is_empty(EXPIRED);
        may_tell.then(|| self.victim()).map(|victim| PageId(self.records[victim as usize].page))
    }

    /// How many records there are, expired ones included.
    pub(super) fn len(&self) -> u32 {
        self.len_allocated() - u32::try_from(self.free.len()).expect("fewer than records")
    }

    /// Heap memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.records.capacity() * size_of::<Record>()
            + self.free.capacity() * size_of::<u32>()
            + self.lists.memory_bytes()
            + self.repeated.memory_bytes()
    }

    /// Checks every invariant of the table.
    pub(super) fn assert_invariants(&self, heads: impl Iterator<Item = u32>) {
        self.lists.assert_invariants();
        self.repeated.assert_invariants();
        assert!(self.len() <= self.capacity, "the table keeps to its capacity");
        let mut chained = 0;
        for (page, newest) in (0_u32..).zip(heads) {
            let (mut id, mut newer) = (newest, NONE);
            while id != NONE {
                let record = self.records[id as usize];
                assert_eq!((record.page, record.newer), (page, newer), "chains go both ways");
                assert!(record.count >= 1, "a record has a hint");
                if newer != NONE {
                    assert!(record.period < self.records[newer as usize].period, "in order");
                }
                let is_live = self.period - record.period < u64::from(self.k);
                let list = if is_live {
                    let place = u32::try_from(record.period % u64::from(self.k)).expect("below k");
                    1 + place * CLASSES + u32::from(record.count > 1)
                } else {
                    EXPIRED
                };
                let is_in_heap = is_live && record.count > 1;
                assert_eq!(self.repeated.contains(id), is_in_heap, "the heap has what repeats");
                assert_eq!(self.lists.list_of(id), Some(list), "a record is in its list");
                chained += 1;
                (newer, id) = (id, record.older);
            }
        }
        assert_eq!(chained, self.len(), "each record is in one chain");
    }

    fn len_allocated(&self) -> u32 {
        u32::try_from(self.records.len()).expect("at most the capacity")
    }

    /// The first list of the period after another one's, which is also that of k - 1 before it.
    fn next_list(&self, list: u32) -> u32 {
        let next = list + CLASSES;
        if next > self.k * CLASSES { 1 } else { next }
    }

    /// The record to forget: of the oldest period, the lowest count, the first one made.
    fn victim(&mut self) -> u32 {
        loop {
            if let Some(single) = self.lists.front(self.oldest) {
                return single;
            }
            if !self.lists.is_empty(self.oldest + 1) || self.oldest == self.list {
                break;
            }
            self.oldest = self.next_list(self.oldest);
        }
        self.repeated.least().expect("a full table has a record that counts").1
    }

    /// Takes out a record of the oldest period there is, hence the oldest one of its page.
    fn forget(&mut self, heads: &mut Heads<'_>, id: u32) {
        self.lists.remove(id);
        self.repeated.remove(id);
        let record = self.records[id as usize];
        debug_assert_eq!(record.older, NONE, "the oldest goes first");
        match record.newer {
            NONE => heads.set(PageId(record.page), NONE),
            newer => self.records[newer as usize].older = NONE,
        }
        self.free.push(id);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    struct Fixture {
        table: HintTable,
        cells: Vec<u32>,
    }

    impl Fixture {
        fn new(capacity: u32, k: u32) -> Self {
            Self { table: HintTable::new(8, capacity, k), cells: vec![NONE; 16] }
        }

        /// Records a page, and says which one was forgotten.
        fn record(&mut self, page: u32) -> Option<u32> {
            let mut heads = Heads { cells: &mut self.cells, stride: 2, column: 1 };
            let mut forgotten = None;
            self.table.record(&mut heads, PageId(page), |page| forgotten = Some(page.0));
            let heads = self.cells.iter().skip(1).step_by(2).copied();
            self.table.assert_invariants(heads);
            forgotten
        }

        fn contents(&self) -> Vec<(u32, u64, u32)> {
            let is_used = |id: &usize| !self.table.free.contains(&u32::try_from(*id).unwrap());
            let ids = (0..self.table.records.len()).filter(is_used);
            let mut all: Vec<_> = ids
                .map(|id| self.table.records[id])
                .map(|record| (record.page, record.period, record.count))
                .collect();
            all.sort_unstable();
            all
        }
    }

    /// V-HFA-3.
    #[test]
    fn forgets_the_lowest_count_of_the_oldest_period() {
        let mut fixture = Fixture::new(2, 6);
        assert_eq!([1, 1, 2].map(|page| fixture.record(page)), [None; 3]);
        fixture.table.begin_period(1, |_| {});
        assert_eq!(fixture.record(3), Some(2));
        assert_eq!(fixture.contents(), [(1, 0, 2), (3, 1, 1)]);
        let mut expired = vec![];
        for period in 2..=7 {
            fixture.table.begin_period(period, |page| expired.push((period, page.0)));
        }
        assert_eq!(expired, [(6, 1), (7, 3)]);
        assert_eq!(fixture.record(4), None);
        assert_eq!(fixture.contents(), [(4, 7, 1)]);
    }

    #[test]
    fn without_periods_it_stays_empty() {
        let mut fixture = Fixture::new(100, 0);
        assert_eq!(fixture.record(1), None);
        fixture.table.begin_period(1, |_| {});
        assert!(fixture.table.len() == 0 && !fixture.table.is_live(NONE));
    }

    #[test]
    fn counts_above_one_are_compared() {
        let mut fixture = Fixture::new(3, 2);
        for (page, times) in [(0, 7), (1, 5), (2, 6)] {
            for _ in 0..times {
                fixture.record(page);
            }
        }
        assert_eq!(fixture.record(3), Some(1));
        assert_eq!(fixture.contents(), [(0, 0, 7), (2, 0, 6), (3, 0, 1)]);
    }
}
