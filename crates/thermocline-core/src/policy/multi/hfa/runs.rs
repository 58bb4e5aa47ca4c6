//! A queue by hotness, of which only the coldest end is ever sorted.
//!
//! H-HFA keeps its second queue in runs as well: there the hint value of a page takes the place of its
//! hotness, and the victim is the oldest page of the least value.
//!
//! In a queue that is sorted by hotness, hottest first and newest first among equals, a page that
//! enters at the tail and passes all that are not hotter comes to stand before the pages of its own
//! hotness. The queue is asked only for its last page. So pages of one hotness that entered one
//! after the other are a run, whose oldest page is its last, and a heap knows the coldest run, the
//! oldest among equals. A page enters the run that its hotness had last if a small table remembers
//! it, or else begins one.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 3.2.3.
//! * State: 256 bytes, 4 per page, and 44 per run.
//! * Cost: O(1) to insert a page as hot as a recent one and to remove a page of a longer run, O(log
//!   runs) where a run begins or ends; O(1) to find the coldest page.
//! * Deviations: none; the paper's bubble sort keeps the same order in O(n) per page.

use alloc::vec::Vec;

use crate::queue::IndexedHeap;

/// No run.
pub(super) const NONE: u32 = u32::MAX;
/// Number of runs that are remembered by their hotness: a power of two.
const OPEN_RUNS: usize = 64;
/// The bits of no hotness.
const DEAD: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Run {
    /// The hotness, as the bits of a number that is not negative: these have its order.
    bits: u64,
    newest: u32,
    oldest: u32,
}

/// Runs of one queue. The caller says which page is next to which.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    table: Vec<Run>,
    /// Entries of the table that are no run.
    free: Vec<u32>,
    /// The runs by hotness, then by when they began.
    order: IndexedHeap<(u64, u64)>,
    /// Number of runs that ever began.
    begun: u64,
    /// Run that may have a hotness, by some bits of it. A run that is no longer here takes no page
    /// any more, so of two equal ones all pages of the first are older.
    open: [u32; OPEN_RUNS],
}

/// Position at which a page enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) run: u32,
    /// The page that was the newest of the run, unless the run begins.
    pub(super) behind: Option<u32>,
}

impl Runs {
    /// Create an empty set of runs, of at most `pages` pages.
    pub(super) fn new(pages: u32) -> Self {
        Self {
            table: Vec::new(),
            free: Vec::new(),
            order: IndexedHeap::new(pages),
            begun: 0,
            open: [NONE; OPEN_RUNS],
        }
    }

    /// Insert a page as the newest of its hotness.
    #[inline]
    pub(super) fn insert(&mut self, page: u32, hotness: f64) -> Entry {
        let bits = hotness.to_bits();
        let open = self.open[slot(bits)];
        if let Some(run) = self.table.get_mut(open as usize)
            && run.bits == bits
        {
            let behind = core::mem::replace(&mut run.newest, page);
            return Entry { run: open, behind: Some(behind) };
        }
        Entry { run: self.begin(bits, page), behind: None }
    }

    /// Remove a page; the next newer and the next older page of its run are given.
    #[inline]
    pub(super) fn remove(&mut self, id: u32, newer: Option<u32>, older: Option<u32>) {
        let run = &mut self.table[id as usize];
        match (newer, older) {
            (Some(_), Some(_)) => {}
            (None, Some(older)) => run.newest = older,
            (Some(newer), None) => run.oldest = newer,
            (None, None) => self.end(id),
        }
    }

    /// Return the hotness of the pages of a run.
    pub(super) fn value_of(&self, id: u32) -> f64 {
        f64::from_bits(self.table[id as usize].bits)
    }

    /// Return the last page of the queue, and its hotness.
    #[inline]
    pub(super) fn coldest(&self) -> Option<(f64, u32)> {
        let (_, run) = self.order.least()?;
        let run = &self.table[run as usize];
        Some((f64::from_bits(run.bits), run.oldest))
    }

    /// Return the newest pages of all runs, in the order of the queue from head to tail.
    pub(super) fn newest(&self) -> impl Iterator<Item = u32> + '_ {
        let mut order: Vec<_> = self.order.iter().collect();
        order.sort_unstable();
        order.into_iter().rev().map(|(_, run)| self.table[run as usize].newest)
    }

    /// Return the number of steps spent so far on the order, for tests of the cost.
    #[cfg(test)]
    pub(super) const fn steps(&self) -> u64 {
        self.order.steps + self.begun
    }

    /// Return the size of the heap memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.table.capacity() * size_of::<Run>()
            + self.free.capacity() * size_of::<u32>()
            + self.order.memory_bytes()
    }

    /// Checks that these are the pages of the queue from head to tail, with their runs and hotness.
    pub(super) fn assert_invariants(&self, pages: impl Iterator<Item = (u32, u32, f64)>) {
        self.order.assert_invariants();
        let (mut runs, mut last) = (0, NONE);
        let mut before = f64::INFINITY;
        for (page, id, hotness) in pages {
            let run = self.table[id as usize];
            assert_eq!(run.bits, hotness.to_bits(), "the pages of a run are equally hot");
            assert!(hotness <= before, "the queue is sorted");
            assert!(self.order.contains(id), "the heap has every run");
            if id != last {
                assert_eq!(run.newest, page, "a run begins with its newest page");
                if let Some(last) = self.table.get(last as usize) {
                    assert!(last.bits > run.bits || last.oldest != page, "runs are apart");
                }
                runs += 1;
            }
            (before, last) = (hotness, id);
        }
        assert_eq!(runs, self.order.len(), "each run has a page");
        assert_eq!(runs + self.free.len(), self.table.len(), "no run is lost");
    }

    fn begin(&mut self, bits: u64, page: u32) -> u32 {
        let run = Run { bits, newest: page, oldest: page };
        let id = match self.free.pop() {
            Some(id) => {
                self.table[id as usize] = run;
                id
            }
            None => {
                self.table.push(run);
                u32::try_from(self.table.len() - 1).expect("at most a run per page")
            }
        };
        self.open[slot(bits)] = id;
        self.order.set(id, (bits, self.begun));
        self.begun += 1;
        id
    }

    fn end(&mut self, id: u32) {
        self.table[id as usize].bits = DEAD;
        self.order.remove(id);
        self.free.push(id);
    }
}

/// Return the slot of a hotness: by the bits that a product scatters best.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "only the uppermost bits are left")]
fn slot(bits: u64) -> usize {
    (bits.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - OPEN_RUNS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::queue::Lists;

    /// A queue as its owner keeps it: by page, its run and its hotness.
    struct Queue {
        runs: Runs,
        lists: Lists<(u32, f64)>,
    }

    impl Queue {
        fn insert(&mut self, page: u32, hotness: f64) {
            let entry = self.runs.insert(page, hotness);
            *self.lists.value_mut(page) = (entry.run, hotness);
            match entry.behind {
                Some(newest) => self.lists.insert_before(newest, page),
                None => self.lists.push_front(0, page),
            }
        }

        fn run(&self, page: u32) -> u32 {
            self.lists.value(page).0
        }

        fn remove(&mut self, page: u32) {
            let run = self.run(page);
            let [newer, older] = [self.lists.before(page), self.lists.after(page)]
                .map(|other| other.filter(|&other| self.run(other) == run));
            self.runs.remove(run, newer, older);
            self.lists.remove(page);
        }

        /// Return the pages from head to tail.
        fn pages(&self) -> Vec<u32> {
            let of_run = |newest| {
                let rest = core::iter::successors(Some(newest), |&page| self.lists.after(page));
                rest.take_while(move |&page| self.run(page) == self.run(newest))
            };
            self.runs.newest().flat_map(of_run).collect()
        }
    }

    /// Number of pages: more values of hotness than runs that are remembered.
    const PAGES: u32 = 300;

    proptest! {
        #[test]
        fn pages_stand_where_the_bubble_sort_puts_them(
            hotnesses in 1_u32..PAGES,
            steps in prop::collection::vec((0..PAGES, 0_u32..PAGES), 0..1000),
        ) {
            let lists = Lists::with_values(PAGES, 1, (NONE, 0.0));
            let mut queue = Queue { runs: Runs::new(PAGES), lists };
            let mut model: Vec<(u32, f64)> = Vec::new();
            for (page, hotness) in steps {
                let hotness = f64::from(hotness % hotnesses) / 64.0;
                if let Some(place) = model.iter().position(|entry| entry.0 == page) {
                    model.remove(place);
                    queue.remove(page);
                } else {
                    queue.insert(page, hotness);
                    let place = model.iter().rposition(|entry| entry.1 > hotness);
                    model.insert(place.map_or(0, |place| place + 1), (page, hotness));
                }
                let last = model.last().map(|&(page, hotness)| (hotness, page));
                prop_assert_eq!(queue.runs.coldest(), last);
            }
            let pages = queue.pages();
            prop_assert!(model.iter().map(|entry| entry.0).eq(pages.iter().copied()));
            let of_run = |page: u32| (page, queue.run(page), queue.lists.value(page).1);
            queue.runs.assert_invariants(pages.into_iter().map(of_run));
        }
    }
}
