//! Classes of hotness: from an identifier's answers to one of up to 16 classes, the coldest being 0.
//!
//! Two classes are what the identifier says: cold and hot. With more, the bounds between them are quantiles
//! of the hot data index over a sample of the latest writes, so every class gets about as many writes as any
//! other, as far as the indices differ. The index is that of the page before the write counts. An
//! identifier with two indices gives two classes, however many are
//! asked for. Until the sample is full for the first time, there are two classes: the first and the last.
//!
//! * Source: ours; published placement schemes choose bounds by hand for one identifier.
//! * State: 4 bytes per sampled write and per bound with more than two classes, else none.
//! * Cost: that of the identifier, and O(classes) per write with more than two.
//! * Deviations: none.

use alloc::vec::Vec;

use super::{Heat, Identifier};
use crate::PageId;

/// Classes, at most: as many as a drive has placement handles.
pub const CLASSES_MAX: u32 = 16;

/// Writes of the sample from which bounds are taken: 8 per class if there are 16.
const SAMPLE_WRITES: usize = 128;

/// Sampling period in writes: a prime, so that a periodic load is not sampled at one phase.
const SAMPLE_EVERY: u32 = 61;

/// Sorts writes into classes.
#[derive(Clone, Debug)]
pub struct Classes {
    count: u32,
    /// The least index of each class but the coldest; a class begins above its bound. Empty until they are
    /// known.
    bounds: Vec<f32>,
    sample: Vec<f32>,
    until_sampled: u32,
}

impl Classes {
    /// Create `classes` classes, 1 to [`CLASSES_MAX`]; a number outside this range counts as the nearest
    /// inside.
    pub fn new(classes: u32) -> Self {
        let classes = classes.clamp(1, CLASSES_MAX);
        let room = |length| if classes > 2 { length } else { 0 };
        Self {
            count: classes,
            bounds: Vec::with_capacity(room(classes as usize - 1)),
            sample: Vec::with_capacity(room(SAMPLE_WRITES)),
            until_sampled: 0,
        }
    }

    /// Records a write of `page`, and says in which class the page is with it: 0 is the coldest.
    pub fn record(&mut self, identifier: &mut dyn Identifier, page: PageId) -> u32 {
        // Before the write counts: identifiers by recency know no more of a page that was just written.
        let index = if self.count > 2 { identifier.hotness(page) } else { 0.0 };
        let heat = identifier.record(page);
        let by_heat = if heat == Heat::Hot { self.count - 1 } else { 0 };
        if self.count <= 2 {
            return by_heat;
        }
        #[expect(clippy::cast_possible_truncation, reason = "an order of fewer digits is enough")]
        let index = index as f32;
        self.take(index);
        if self.bounds.is_empty() {
            return by_heat;
        }
        let below = self.bounds.iter().filter(|&&bound| bound < index).count();
        u32::try_from(below).unwrap_or(self.count - 1)
    }

    /// Samples an index if it is its turn, and takes new bounds from a full sample.
    fn take(&mut self, index: f32) {
        if self.until_sampled > 0 {
            self.until_sampled -= 1;
            return;
        }
        self.until_sampled = SAMPLE_EVERY - 1;
        self.sample.push(index);
        if self.sample.len() == SAMPLE_WRITES {
            self.sample.sort_unstable_by(f32::total_cmp);
            self.bounds.clear();
            let classes = self.count as usize;
            let quantiles = (1..classes).map(|class| self.sample[class * SAMPLE_WRITES / classes]);
            self.bounds.extend(quantiles);
            self.sample.clear();
        }
    }

    /// Return the state in bits.
    pub fn memory_bits(&self) -> u64 {
        if self.count <= 2 {
            return 0;
        }
        let numbers = SAMPLE_WRITES + self.count as usize - 1;
        (numbers * size_of::<f32>()) as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::hotness::registry;

    /// The index of a page is its number, divided and rounded down.
    #[derive(Debug)]
    struct ByNumber {
        divisor: u32,
    }

    impl Identifier for ByNumber {
        fn record(&mut self, page: PageId) -> Heat {
            self.heat(page)
        }

        fn hotness(&self, page: PageId) -> f64 {
            f64::from(page.0 / self.divisor)
        }

        fn threshold(&self) -> f64 {
            1.0
        }

        fn decay_writes(&self) -> Option<u64> {
            None
        }

        fn decay(&mut self) {}

        fn reset(&mut self) {}

        fn memory_bits(&self) -> u64 {
            0
        }

        fn assert_invariants(&self) {}
    }

    /// Return the pages that look random, each below `pages`.
    fn pages(pages: u32, count: u32) -> impl Iterator<Item = PageId> {
        (0..count).map(move |turn| PageId((turn.wrapping_mul(0x9E37_79B1) >> 8) % pages))
    }

    #[test]
    fn two_classes_are_what_the_identifier_says() {
        for entry in registry::entries() {
            let mut one = entry.build_default(100).unwrap();
            let mut other = entry.build_default(100).unwrap();
            let (mut classes, mut single) = (Classes::new(2), Classes::new(1));
            for page in pages(100, 5000) {
                let heat = other.record(page);
                assert_eq!(classes.record(&mut *one, page), heat as u32, "{}", entry.name);
            }
            assert_eq!(single.record(&mut *one, PageId(0)), 0, "one class has all");
            assert_eq!(classes.memory_bits(), 0);
        }
    }

    /// With an index per page, every class gets its share, and no class has a page hotter than the
    /// next.
    #[test]
    fn classes_share_the_writes_out_by_index() {
        for count in [3, 8, 16, 99] {
            let mut classes = Classes::new(count);
            let mut identifier = ByNumber { divisor: 1 };
            let warm = 128 * SAMPLE_EVERY;
            for page in pages(1000, warm) {
                classes.record(&mut identifier, page);
            }
            let mut writes = vec![0_u32; count.min(CLASSES_MAX) as usize];
            let mut class_of = [0; 1000];
            for page in (0..1000).map(PageId) {
                let class = classes.record(&mut identifier, page);
                writes[class as usize] += 1;
                class_of[page.index()] = class;
            }
            assert!(class_of.is_sorted(), "hotter pages are in higher classes");
            let fair = 1000 / count.min(CLASSES_MAX);
            // Bounds from 128 writes are off by about a tenth of the pages between 16 classes.
            for (class, &writes) in writes.iter().enumerate() {
                assert!(writes > fair / 4 && writes < fair * 3, "{count}, {class}: {writes}");
            }
            assert!(classes.memory_bits() <= 8 * 4 * 143);
        }
    }

    #[test]
    fn two_indices_give_two_classes() {
        let mut classes = Classes::new(16);
        let mut identifier = ByNumber { divisor: 600 };
        let mut seen = vec![];
        for page in pages(1000, 30_000) {
            let class = classes.record(&mut identifier, page);
            seen.push((page.0 >= 600, class));
        }
        let late = seen.split_off(20_000);
        let mut kinds = late.clone();
        kinds.sort_unstable();
        kinds.dedup_by_key(|(is_hot, _)| *is_hot);
        assert_eq!(kinds[0], (false, 0), "{kinds:?}");
        assert!(kinds[1].1 > 0);
        assert!(late.iter().all(|(is_hot, class)| *is_hot == (*class > 0)));
    }
}
