//! `T_out`: how often pages left a tier, by page and period, in a bounded number of records.
//!
//! Records with one hint stand in a ring in the order in which they were made. A second hint in the
//! same period takes a record out of the ring, to a heap of those with many. So the record to forget
//! is found at once: the oldest period's, with the lowest count, the one that was made first. Records
//! of one page are chained, the newest period first. One is forgotten without a look at its page: a
//! link to a record counts only if that is still of this page, and of an older period than the one
//! that links to it.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 3.2.2.
//! * State: 4 bytes per page that exists, in a table of the policy; 20 bytes per record that the
//!   table may hold, and 56 more if it has many hints.
//! * Cost: O(k) to sum up the hints of a page; to record one amortised O(1), and O(log n) if the
//!   page left in this period before.
//! * Deviations: (1) among records that tie, the oldest goes: the paper does not say. (2) An expired
//!   record counts no longer but takes room, as in the paper, until its room is needed. (3) A table
//!   holds less than 2^31 records.

use alloc::vec;
use alloc::vec::Vec;

use crate::PageId;
use crate::queue::IndexedHeap;

/// No record, no holder.
pub(super) const NONE: u32 = u32::MAX;
/// Records with many hints are numbered downwards from here.
const LAST_REPEATED: u32 = NONE - 1;

/// Size of a record in the published table, in bytes: page, period and count.
pub(super) const RECORD_BYTES: usize = 16;

/// Record of a page that left the tier in one period.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// [`NONE`] if the record does not count any more, or was never made.
    page: u32,
    /// The period, in its lower bits: those of records that count differ by less than k.
    period: u32,
    /// The record of the same page before this one in time, if it still counts.
    older: u32,
    /// Holder of the page, if it came back to the tier; only in its newest record.
    holder: u32,
}

const UNUSED: Record = Record { page: NONE, period: 0, older: NONE, holder: NONE };

#[derive(Clone, Copy, Debug)]
struct Repeated {
    record: Record,
    count: u32,
}

/// The hints of one tier.
///
/// Its caller keeps, per page, the record that was last made for it, and gives it as `newest`.
#[derive(Clone, Debug)]
pub(super) struct HintTable {
    /// The records with one hint, each where its number says, modulo the length.
    ring: Vec<Record>,
    /// The place of the next record, and of the first one that may count.
    next: u32,
    first: u32,
    /// Records in the ring that count.
    single: u32,
    /// Records that do not count any more and take room.
    expired: u32,
    /// All records, these included.
    len: u32,
    /// The records with many hints.
    repeated: Vec<Repeated>,
    /// Entries of `repeated` that are no record.
    free: Vec<u32>,
    /// The records with many hints that count, by period, count and number; the count may be one of
    /// before, and is renewed when the record is the first.
    order: IndexedHeap<(u64, u32, u64)>,
    /// Number of records that were ever made.
    made: u64,
    /// The current period.
    period: u64,
    /// Number of periods that count, the current one included.
    k: u32,
    /// Places of the ring passed so far, for tests of the cost.
    #[cfg(test)]
    passed: u64,
}

impl HintTable {
    /// Create an empty table of `capacity` records.
    pub(super) fn new(pages: u32, capacity: u32, k: u32) -> Self {
        // More records than these could never be live: a page has one per period.
        let needed = u64::from(pages) * u64::from(k) + 1;
        let capacity = u32::try_from(needed).map_or(capacity, |needed| capacity.min(needed));
        let capacity = if k == 0 { 0 } else { capacity.min(NONE / 2) };
        Self {
            ring: vec![UNUSED; capacity as usize],
            next: 0,
            first: 0,
            single: 0,
            expired: 0,
            len: 0,
            repeated: Vec::new(),
            free: Vec::new(),
            order: IndexedHeap::new(capacity),
            made: 0,
            period: 0,
            k,
            #[cfg(test)]
            passed: 0,
        }
    }

    /// Begins a period; where pages are that have no hint left that counts is told.
    pub(super) fn begin_period(&mut self, period: u64, mut told: impl FnMut(u32)) {
        debug_assert_eq!(period, self.period + 1, "periods follow each other");
        self.period = period;
        while self.single > 0 {
            let id = self.first_single();
            if self.ago(&self.ring[id as usize]) < self.k {
                break;
            }
            self.take_single(id, &mut told);
            self.expired += 1;
        }
        while let Some(((made, _, _), index)) = self.order.least()
            // The heap is by period first, so the search ends at the first record that still
            // counts.
            && period - made >= u64::from(self.k)
        {
            self.take_repeated(index, &mut told);
            self.expired += 1;
        }
    }

    /// Records that a page leaves the tier, and returns its newest record, if there is room for
    /// any, and its hints, weighted; where a page is that is forgotten for it is told.
    #[inline]
    pub(super) fn record(
        &mut self,
        page: PageId,
        newest: u32,
        weights: &[f64],
        told: impl FnMut(u32),
    ) -> (u32, f64) {
        let older = self.find(page, newest);
        let id = match older {
            _ if self.ring.is_empty() => return (NONE, 0.0),
            Some((record, _)) if self.ago(&record) == 0 => self.repeat(newest, record),
            Some(_) => {
                self.hold(newest, NONE);
                self.make(page, newest, told)
            }
            None => {
                // A sum of one hint.
                return (self.make(page, NONE, told), weights[0]);
            }
        };
        (id, self.weigh(page, id, weights).0)
    }

    /// Return the hints that count of a page, weighted by how many periods ago they were given,
    /// newest first, and whether there is one.
    #[inline]
    pub(super) fn weigh(&self, page: PageId, newest: u32, weights: &[f64]) -> (f64, bool) {
        // A sum of nothing would be -0, whose bits are not those of the least hotness.
        let (mut sum, mut is_live) = (0.0, false);
        let (mut next, mut least) = (newest, 0);
        while let Some((record, count)) = self.find(page, next) {
            let ago = self.ago(&record);
            // The slot was given to a newer record of the page meanwhile: a chain only leads to
            // older periods.
            if ago < least {
                break;
            }
            sum += weights[ago as usize] * f64::from(count);
            (next, least, is_live) = (record.older, ago + 1, true);
        }
        (sum, is_live)
    }

    /// Return `true` if a page has a hint that counts.
    #[inline]
    pub(super) fn is_live(&self, page: PageId, newest: u32) -> bool {
        self.find(page, newest).is_some()
    }

    /// Notes that a page with this newest record, which counts, came back to the tier: to `holder`.
    #[inline]
    pub(super) fn hold(&mut self, newest: u32, holder: u32) {
        let record = match self.ring.get_mut(newest as usize) {
            Some(record) => record,
            None => &mut self.repeated[(LAST_REPEATED - newest) as usize].record,
        };
        record.holder = holder;
    }

    /// Notes that a page is gone from the tier without a hint.
    #[inline]
    pub(super) fn release(&mut self, page: PageId, newest: u32) {
        if self.is_live(page, newest) {
            self.hold(newest, NONE);
        }
    }

    /// Return the number of steps spent so far on finding records to forget, for tests of the cost.
    #[cfg(test)]
    pub(super) const fn steps(&self) -> u64 {
        self.order.steps + self.passed
    }

    /// Return the maximum number of records.
    #[expect(clippy::cast_possible_truncation, reason = "they were counted with u32")]
    pub(super) const fn capacity(&self) -> u32 {
        self.ring.len() as u32
    }

    /// Return the number of records, expired ones included.
    #[inline]
    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Return the size of the heap memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.ring)
            + self.repeated.capacity() * size_of::<Repeated>()
            + self.free.capacity() * size_of::<u32>()
            + self.order.memory_bytes()
    }

    /// Checks every invariant of the table, whose pages have these newest records, and are where
    /// `is_held` says if the table knows.
    pub(super) fn assert_invariants(
        &self,
        newest: impl Iterator<Item = (PageId, u32)>,
        is_held: impl Fn(PageId, u32) -> bool,
    ) {
        self.order.assert_invariants();
        assert!(self.len() as usize <= self.ring.len(), "the table keeps to its capacity");
        let mut counts = [0_usize; 2];
        for (page, newest) in newest {
            let (mut id, mut least) = (newest, 0);
            while let Some((record, count)) = self.find(page, id)
                && self.ago(&record) >= least
            {
                assert!(self.ago(&record) < self.k, "what counts is not expired");
                let is_repeated = self.ring.get(id as usize).is_none();
                assert_eq!(is_repeated, count > 1, "the heap has what repeats");
                if is_repeated {
                    let (_, known, _) = self.order.key(LAST_REPEATED - id).expect("it is there");
                    assert!(known <= count, "a count only grows");
                }
                let holder = record.holder;
                assert!(holder == NONE || id == newest, "the newest record knows the page's place");
                assert!(holder == NONE || is_held(page, holder), "the page is there");
                counts[usize::from(is_repeated)] += 1;
                (id, least) = (record.older, self.ago(&record) + 1);
            }
        }
        assert_eq!(counts[0], self.single as usize, "each record that counts is in one chain");
        assert_eq!(counts[1], self.order.len(), "each record with many hints, too");
        assert_eq!(counts[0] + counts[1] + self.expired as usize, self.len as usize, "counted");
        let is_used = |record: &&Record| record.page != NONE;
        assert_eq!(self.ring.iter().filter(is_used).count(), counts[0], "none is lost");
    }

    /// Return the age, in periods, of a record that counts.
    #[inline]
    fn ago(&self, record: &Record) -> u32 {
        low(self.period).wrapping_sub(record.period)
    }

    /// Return a record and its count, if it counts and is of this page.
    #[inline]
    fn find(&self, page: PageId, id: u32) -> Option<(Record, u32)> {
        let found = match self.ring.get(id as usize) {
            Some(&record) => (record, 1),
            None if id == NONE => return None,
            None => {
                let Repeated { record, count } = self.repeated[(LAST_REPEATED - id) as usize];
                (record, count)
            }
        };
        (found.0.page == page.0).then_some(found)
    }

    /// Makes a record of the current period, and room for it.
    #[inline]
    fn make(&mut self, page: PageId, older: u32, told: impl FnMut(u32)) -> u32 {
        if self.len as usize == self.ring.len() {
            self.make_room(told);
        }
        let id = self.next;
        debug_assert_eq!(
            self.ring[id as usize].page, NONE,
            "what is left is newer than this place"
        );
        if self.first == id && self.single > 0 {
            self.first_single();
        }
        self.next = self.after(id);
        self.made += 1;
        self.single += 1;
        self.len += 1;
        self.ring[id as usize] =
            Record { page: page.0, period: low(self.period), older, holder: NONE };
        id
    }

    /// Adds a hint to a record of the current period, and returns where that is then.
    fn repeat(&mut self, id: u32, record: Record) -> u32 {
        let single = self.ring.get_mut(id as usize);
        if let Some(single) = single {
            *single = UNUSED;
            self.single -= 1;
            let repeated = Repeated { record: Record { holder: NONE, ..record }, count: 2 };
            let index = match self.free.pop() {
                Some(index) => {
                    self.repeated[index as usize] = repeated;
                    index
                }
                None => {
                    self.repeated.push(repeated);
                    u32::try_from(self.repeated.len() - 1).expect("less than 2^31 records")
                }
            };
            let length = u32::try_from(self.ring.len()).expect("less than 2^31 records");
            // The ring has made as many records since.
            let since = if id < self.next { self.next - id } else { self.next + length - id };
            self.order.set(index, (self.period, 2, self.made - u64::from(since)));
            return LAST_REPEATED - index;
        }
        let repeated = &mut self.repeated[(LAST_REPEATED - id) as usize];
        repeated.count = repeated.count.saturating_add(1);
        repeated.record.holder = NONE;
        id
    }

    /// Makes room for a record, in a full table.
    #[inline]
    fn make_room(&mut self, mut told: impl FnMut(u32)) {
        if self.expired > 0 {
            self.len -= self.expired;
            self.expired = 0;
            return;
        }
        // Of the oldest period, the lowest count, the first one made.
        self.len -= 1;
        if self.single > 0 {
            let id = self.first_single();
            let ago = self.ago(&self.ring[id as usize]);
            let least = self.order.least();
            if least.is_none_or(|((period, _, _), _)| self.period - period <= u64::from(ago)) {
                self.take_single(id, &mut told);
                return;
            }
        }
        loop {
            let (key, index) = self.order.least().expect("a full table has a record that counts");
            let (period, known, number) = key;
            let count = self.repeated[index as usize].count;
            if known == count {
                return self.take_repeated(index, &mut told);
            }
            self.order.set(index, (period, count, number));
        }
    }

    /// Return the first record in the ring that counts, if there is one.
    #[inline]
    fn first_single(&mut self) -> u32 {
        while self.ring[self.first as usize].page == NONE {
            self.first = self.after(self.first);
            #[cfg(test)]
            {
                self.passed += 1;
            }
        }
        self.first
    }

    /// Return the place after another one in the ring.
    #[inline]
    fn after(&self, id: u32) -> u32 {
        if id as usize + 1 == self.ring.len() { 0 } else { id + 1 }
    }

    /// Takes out a record with one hint, and tells where its page is.
    #[inline]
    fn take_single(&mut self, id: u32, told: &mut impl FnMut(u32)) {
        let record = core::mem::replace(&mut self.ring[id as usize], UNUSED);
        self.single -= 1;
        if record.holder != NONE {
            told(record.holder);
        }
    }

    /// Takes out a record with many hints, and tells where its page is.
    fn take_repeated(&mut self, index: u32, told: &mut impl FnMut(u32)) {
        let repeated = &mut self.repeated[index as usize].record;
        let holder = core::mem::replace(repeated, UNUSED).holder;
        self.order.remove(index);
        self.free.push(index);
        if holder != NONE {
            told(holder);
        }
    }
}

/// Return the lower bits of a period.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower bits are what is wanted")]
const fn low(period: u64) -> u32 {
    period as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Fixture {
        table: HintTable,
        newest: Vec<u32>,
    }

    impl Fixture {
        fn new(capacity: u32, k: u32) -> Self {
            Self { table: HintTable::new(8, capacity, k), newest: vec![NONE; 8] }
        }

        /// Records a page, and says which one was forgotten of those that are in frames of their
        /// own number.
        fn record(&mut self, page: u32) -> Option<u32> {
            let mut forgotten = None;
            let newest = &mut self.newest[page as usize];
            let weights = [1.0; 6];
            let told = |frame| forgotten = Some(frame);
            (*newest, _) = self.table.record(PageId(page), *newest, &weights, told);
            if *newest != NONE {
                self.table.hold(*newest, page);
            }
            let newest = (0..).map(PageId).zip(self.newest.iter().copied());
            self.table.assert_invariants(newest, |page, at| page.0 == at);
            forgotten
        }

        fn contents(&self) -> Vec<(u32, u64, u32)> {
            let mut all = vec![];
            for (page, &newest) in (0..).map(PageId).zip(&self.newest) {
                let (mut next, mut least) = (newest, 0);
                while let Some((record, count)) = self.table.find(page, next)
                    && self.table.ago(&record) >= least
                {
                    let ago = self.table.ago(&record);
                    all.push((page.0, self.table.period - u64::from(ago), count));
                    (next, least) = (record.older, ago + 1);
                }
            }
            all.sort_unstable();
            all
        }
    }

    /// A worked example.
    #[test]
    fn forgets_the_lowest_count_of_the_oldest_period() {
        let mut fixture = Fixture::new(2, 6);
        assert_eq!([1, 1, 2].map(|page| fixture.record(page)), [None; 3]);
        fixture.table.begin_period(1, |_| {});
        assert_eq!(fixture.record(3), Some(2));
        assert_eq!(fixture.contents(), [(1, 0, 2), (3, 1, 1)]);
        let mut expired = vec![];
        for period in 2..=7 {
            fixture.table.begin_period(period, |page| expired.push((period, page)));
        }
        assert_eq!(expired, [(6, 1), (7, 3)]);
        assert_eq!(fixture.record(4), None);
        assert_eq!(fixture.contents(), [(4, 7, 1)]);
    }

    proptest! {
        /// Against a list of records in the order in which they were made.
        #[test]
        fn forgets_what_a_search_through_all_records_finds(
            capacity in 1_u32..6,
            k in 1_u32..4,
            steps in prop::collection::vec((0_u32..8, 0_u8..8), 0..200),
        ) {
            let mut fixture = Fixture::new(capacity, k);
            let mut model: Vec<(u32, u64, u32)> = vec![];
            let mut period = 0;
            let is_live = |period: u64, made: u64| period - made < u64::from(k);
            for (page, step) in steps {
                if step == 0 {
                    let before = model.clone();
                    period += 1;
                    let mut told = vec![];
                    fixture.table.begin_period(period, |page| told.push(page));
                    told.sort_unstable();
                    let is_known = |page: u32, period: u64| {
                        before.iter().any(|&(other, made, _)| other == page && is_live(period, made))
                    };
                    let expired = (0..8).filter(|&p| is_known(p, period - 1) && !is_known(p, period));
                    prop_assert_eq!(told, expired.collect::<Vec<_>>());
                } else {
                    let mut forgotten = None;
                    let known = model.iter_mut().find(|entry| (entry.0, entry.1) == (page, period));
                    if let Some(entry) = known {
                        entry.2 += 1;
                    } else {
                        if model.len() == capacity as usize {
                            model.retain(|entry| is_live(period, entry.1));
                        }
                        if model.len() == capacity as usize {
                            let victim = (0..model.len()).min_by_key(|&i| (model[i].1, model[i].2));
                            let victim = model.remove(victim.unwrap()).0;
                            let is_last = model.iter().all(|entry| entry.0 != victim);
                            forgotten = (is_last && victim != page).then_some(victim);
                        }
                        model.push((page, period, 1));
                    }
                    prop_assert_eq!(fixture.record(page), forgotten);
                }
                let live = model.iter().copied().filter(|entry| is_live(period, entry.1));
                let mut live: Vec<_> = live.collect();
                live.sort_unstable();
                prop_assert_eq!(fixture.contents(), live);
                prop_assert_eq!(fixture.table.len() as usize, model.len());
            }
        }
    }

    #[test]
    fn without_periods_it_stays_empty() {
        let mut fixture = Fixture::new(100, 0);
        assert_eq!(fixture.record(1), None);
        fixture.table.begin_period(1, |_| {});
        assert!(fixture.table.len() == 0 && !fixture.table.is_live(PageId(1), NONE));
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
