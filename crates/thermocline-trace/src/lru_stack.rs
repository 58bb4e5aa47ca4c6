//! LRU hit counts at several sizes in one pass.
//!
//! One recency list for all sizes, as LRU caches of different sizes contain each other (Mattson et
//! al., *Evaluation techniques for storage hierarchies*, 1970). A marker per size points to the last
//! page that fits, and every page knows between which markers it is; an access moves only the
//! markers it passes, so its cost does not depend on how far down the list its page was.

/// No page.
const NONE: u32 = u32::MAX;

/// A recency list of all pages, cut at several sizes.
#[derive(Debug)]
pub(crate) struct LruStack {
    /// More recent neighbour of each page.
    newer: Vec<u32>,
    /// Less recent neighbour of each page.
    older: Vec<u32>,
    /// The first size that holds each page; the number of sizes if none does.
    segment: Vec<u8>,
    newest: u32,
    oldest: u32,
    length_pages: u32,
    /// Sizes, strictly ascending.
    sizes_pages: Vec<u32>,
    /// The last page within each size; `NONE` until the list is that long.
    markers: Vec<u32>,
    /// Hits by the first size that has them.
    hits: Vec<u64>,
}

impl LruStack {
    /// Create a list of `footprint_pages` pages, none of them accessed, cut at sizes that are
    /// strictly ascending and not 0.
    pub(crate) fn new(footprint_pages: u32, sizes_pages: Vec<u32>) -> Self {
        assert!(sizes_pages.first() != Some(&0), "a size holds a page");
        assert!(sizes_pages.is_sorted_by(|smaller, larger| smaller < larger), "sizes ascend");
        let sizes = u8::try_from(sizes_pages.len()).expect("few sizes");
        let pages = footprint_pages as usize;
        Self {
            newer: vec![NONE; pages],
            older: vec![NONE; pages],
            segment: vec![sizes; pages],
            newest: NONE,
            oldest: NONE,
            length_pages: 0,
            markers: vec![NONE; sizes_pages.len()],
            hits: vec![0; sizes_pages.len()],
            sizes_pages,
        }
    }

    /// Accesses a page.
    #[inline]
    pub(crate) fn access(&mut self, page: u32) {
        let segment = self.segment[page as usize] as usize;
        if segment < self.hits.len() {
            self.hits[segment] += 1;
        }
        if page == self.newest {
            return;
        }
        let is_known = self.older[page as usize] != NONE || page == self.oldest;
        self.pass_markers(page, segment);
        if is_known {
            self.unlink(page);
        }
        self.push(page);
        if !is_known {
            self.length_pages += 1;
            self.set_markers();
        }
    }

    /// Return the number of accesses that hit at each size, in the order of the sizes.
    pub(crate) fn hits(&self) -> Vec<u64> {
        let mut total = 0;
        let sum = |hits: &u64| {
            total += hits;
            total
        };
        self.hits.iter().map(sum).collect()
    }

    /// Move the markers: one page is pushed out of every size that does not hold `page`, and of the
    /// one whose marker is `page` itself.
    fn pass_markers(&mut self, page: u32, segment: usize) {
        for size in 0..segment {
            let pushed = self.markers[size];
            if pushed == NONE {
                return;
            }
            self.segment[pushed as usize] += 1;
            let newer = self.newer[pushed as usize];
            // A size of one page: the page about to be pushed is its last.
            self.markers[size] = if newer == NONE { page } else { newer };
        }
        if segment < self.markers.len() && self.markers[segment] == page {
            self.markers[segment] = self.newer[page as usize];
        }
    }

    fn unlink(&mut self, page: u32) {
        let (newer, older) = (self.newer[page as usize], self.older[page as usize]);
        self.older[newer as usize] = older;
        if older == NONE {
            self.oldest = newer;
        } else {
            self.newer[older as usize] = newer;
        }
    }

    fn push(&mut self, page: u32) {
        self.newer[page as usize] = NONE;
        self.older[page as usize] = self.newest;
        if self.newest == NONE {
            self.oldest = page;
        } else {
            self.newer[self.newest as usize] = page;
        }
        self.newest = page;
        self.segment[page as usize] = 0;
    }

    /// Sets the marker of the size that the list has just filled, if there is one.
    fn set_markers(&mut self) {
        if let Ok(size) = self.sizes_pages.binary_search(&self.length_pages) {
            self.markers[size] = self.oldest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn matches_a_vector(
            sizes in prop::collection::btree_set(1_u32..12, 1..5),
            pages in prop::collection::vec(0_u32..16, 0..400),
        ) {
            check(sizes, &pages)?;
        }
    }

    fn check(sizes: BTreeSet<u32>, pages: &[u32]) -> Result<(), TestCaseError> {
        let sizes: Vec<u32> = sizes.into_iter().collect();
        let mut stack = LruStack::new(16, sizes.clone());
        let mut model: Vec<u32> = Vec::new();
        let mut hits = vec![0; sizes.len()];
        for &page in pages {
            stack.access(page);
            if let Some(depth) = model.iter().position(|other| *other == page) {
                model.remove(depth);
                for (size, hits) in sizes.iter().zip(&mut hits) {
                    *hits += u64::from(depth < *size as usize);
                }
            }
            model.insert(0, page);
            prop_assert_eq!(&stack.hits(), &hits);
            for (size, marker) in sizes.iter().zip(&stack.markers) {
                let expected = model.get(*size as usize - 1).copied().unwrap_or(NONE);
                prop_assert_eq!(*marker, expected);
            }
            for (depth, page) in model.iter().enumerate() {
                let segment = sizes.iter().position(|size| depth < *size as usize);
                let segment = segment.unwrap_or(sizes.len());
                prop_assert_eq!(stack.segment[*page as usize] as usize, segment);
            }
        }
        Ok(())
    }
}
