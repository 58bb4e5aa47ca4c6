//! Number of pages of a queue by their number of hits, to find the fewest hits of a page.
//!
//! Counts of up to 4095 hits are an array, with a bit for each count that is not 0 and a bit for each
//! word of these. Only the hottest pages have more.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, Algorithm 1, line 20.
//! * State: 568 bytes, 4 bytes per number of hits up to the most that a page had, but at most 16 KiB,
//!   and a node of a search tree per greater number of hits that a page has.
//! * Cost: O(1) for pages with less than 4096 hits, O(log n) for others.
//! * Deviations: none.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

const WORD: usize = u64::BITS as usize;
/// Hits below this are counted in an array: one per bit of a word of words.
const FEW: usize = WORD * WORD;

/// The pages of one queue by their hits.
#[derive(Clone, Debug)]
pub(super) struct HitCounts {
    /// Per few hits: the pages that have so many. It grows with the most hits of a page.
    few: Vec<u32>,
    /// Per few hits: a bit that is set if a page has so many.
    has_few: [u64; WORD],
    /// Per word of these: a bit that is set if it is not 0.
    has_word: u64,
    many: BTreeMap<u32, u32>,
}

impl HitCounts {
    /// Create an empty count.
    pub(super) const fn new() -> Self {
        Self { few: Vec::new(), has_few: [0; WORD], has_word: 0, many: BTreeMap::new() }
    }

    /// Note that a page with `hits` hits enters the queue.
    #[inline]
    pub(super) fn add(&mut self, hits: u32) {
        let index = hits as usize;
        if index >= self.few.len() {
            if index >= FEW {
                *self.many.entry(hits).or_default() += 1;
                return;
            }
            // Most queues see few hits per page, so the array starts empty and grows with the
            // hottest page.
            self.few.resize((index + 1).next_power_of_two(), 0);
        }
        self.few[index] += 1;
        self.has_few[index / WORD] |= 1 << (index % WORD);
        self.has_word |= 1 << (index / WORD);
    }

    /// Note that a page with `hits` hits leaves the queue.
    #[inline]
    pub(super) fn remove(&mut self, hits: u32) {
        let index = hits as usize;
        if let Some(pages) = self.few.get_mut(index) {
            *pages -= 1;
            let word = &mut self.has_few[index / WORD];
            *word &= !(u64::from(*pages == 0) << (index % WORD));
            self.has_word &= !(u64::from(*word == 0) << (index / WORD));
            return;
        }
        let pages = self.many.get_mut(&hits).expect("a page with so many hits entered");
        *pages -= 1;
        if *pages == 0 {
            self.many.remove(&hits);
        }
    }

    /// Return the fewest hits of a page, if there is one.
    #[inline]
    pub(super) fn least(&self) -> Option<u32> {
        if self.has_word == 0 {
            return self.many.keys().next().copied();
        }
        let word = self.has_word.trailing_zeros();
        Some(word * u64::BITS + self.has_few[word as usize].trailing_zeros())
    }

    /// Heap memory in bytes, but for the search tree.
    pub(super) fn memory_bytes(&self) -> usize {
        self.few.capacity() * size_of::<u32>()
    }

    /// Checks that these are the hits of all pages.
    pub(super) fn assert_invariants(&self, hits: impl Iterator<Item = u32>) {
        let mut counted = Self::new();
        hits.for_each(|hits| counted.add(hits));
        let (known, rest) = self.few.split_at(counted.few.len());
        assert_eq!(known, counted.few, "pages with few hits are counted");
        assert!(rest.iter().all(|&pages| pages == 0), "no page has more");
        assert_eq!(self.has_few, counted.has_few, "each count that is not 0 has its bit");
        assert_eq!(self.has_word, counted.has_word, "and each word with such a bit");
        assert_eq!(self.many, counted.many, "pages with many hits are counted");
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_least_is_that_of_a_list(steps in prop::collection::vec((any::<bool>(), prop_oneof![58_u32..70, 4090_u32..4100]), 0..200)) {
            let mut counts = HitCounts::new();
            let mut model: Vec<u32> = Vec::new();
            for (enters, hits) in steps {
                if enters {
                    counts.add(hits);
                    model.push(hits);
                } else if let Some(hits) = model.pop() {
                    counts.remove(hits);
                }
                prop_assert_eq!(counts.least(), model.iter().copied().min());
                counts.assert_invariants(model.iter().copied());
            }
        }
    }
}
