//! How many pages of a queue have how many hits, to find the fewest hits of a page.
//!
//! Most pages of a second queue have few hits or none, so counts of few hits are an array with a bit
//! for each count that is not 0.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, Algorithm 1, line 20.
//! * State: 264 bytes, and a node of a search tree per greater number of hits that a page has.
//! * Cost: O(1) for pages with less than 64 hits, O(log n) for others.
//! * Deviations: none.

use alloc::collections::BTreeMap;

/// Hits below this are counted in an array: one per bit of a word.
const FEW: usize = u64::BITS as usize;

/// The pages of one queue by their hits.
#[derive(Clone, Debug)]
pub(super) struct HitCounts {
    few: [u32; FEW],
    /// Per few hits: whether a page has so many.
    has_few: u64,
    many: BTreeMap<u32, u32>,
}

impl HitCounts {
    /// No page.
    pub(super) const fn new() -> Self {
        Self { few: [0; FEW], has_few: 0, many: BTreeMap::new() }
    }

    /// A page with so many hits enters the queue.
    #[inline]
    pub(super) fn add(&mut self, hits: u32) {
        match self.few.get_mut(hits as usize) {
            Some(pages) => {
                *pages += 1;
                self.has_few |= 1 << hits;
            }
            None => *self.many.entry(hits).or_default() += 1,
        }
    }

    /// A page with so many hits leaves the queue.
    #[inline]
    pub(super) fn remove(&mut self, hits: u32) {
        if let Some(pages) = self.few.get_mut(hits as usize) {
            *pages -= 1;
            self.has_few &= !(u64::from(*pages == 0) << hits);
            return;
        }
        let pages = self.many.get_mut(&hits).expect("a page with so many hits entered");
        *pages -= 1;
        if *pages == 0 {
            self.many.remove(&hits);
        }
    }

    /// The fewest hits of a page, if there is one.
    #[inline]
    pub(super) fn least(&self) -> Option<u32> {
        match self.has_few {
            0 => self.many.keys().next().copied(),
            has_few => Some(has_few.trailing_zeros()),
        }
    }

    /// Checks that these are the hits of all pages.
    pub(super) fn assert_invariants(&self, hits: impl Iterator<Item = u32>) {
        let mut counted = Self::new();
        hits.for_each(|hits| counted.add(hits));
        assert_eq!(self.few, counted.few, "pages with few hits are counted");
        assert_eq!(self.has_few, counted.has_few, "each count that is not 0 has its bit");
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
        fn the_least_is_that_of_a_list(steps in prop::collection::vec((any::<bool>(), 58_u32..70), 0..200)) {
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
