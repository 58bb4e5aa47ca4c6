//! Re-use distances: how many distinct pages were touched between two touches of a page.
//!
//! A Fenwick tree marks the latest touch of every page; the marks after a page's own are the pages
//! touched since (Bennett and Kruskal, *LRU stack processing*, IBM J. Res. Dev. 19(4), 1975). The
//! touches are renumbered when the tree is full, so that its size follows the pages, not the touches.

/// No touch yet.
const NEVER: u32 = u32::MAX;

/// The latest touch of every page, in order.
#[derive(Debug)]
pub struct ReuseDistance {
    /// Per page: the number of its latest touch.
    latest: Vec<u32>,
    /// Per touch: its page, or [`NEVER`] if it is not the page's latest.
    pages: Vec<u32>,
    /// Partial sums of the marks; the sum up to touch `i` is spread over the nodes of `i + 1`.
    sums: Vec<u32>,
    touches: u32,
    distinct_pages: u32,
}

impl ReuseDistance {
    /// For page ids below `pages`, none of them touched.
    pub fn new(pages: u32) -> Self {
        let slots = (pages as usize).saturating_mul(2).max(1024);
        Self {
            latest: vec![NEVER; pages as usize],
            pages: vec![NEVER; slots],
            sums: vec![0; slots + 1],
            touches: 0,
            distinct_pages: 0,
        }
    }

    /// Touches a page; returns how many other pages were touched since its previous touch, none if
    /// there was none. It takes the logarithm of the number of pages.
    ///
    /// # Panics
    /// If the page is not below the number of pages.
    pub fn touch(&mut self, page: u32) -> Option<u32> {
        if self.touches as usize == self.pages.len() {
            self.renumber();
        }
        let previous = std::mem::replace(&mut self.latest[page as usize], self.touches);
        let distance = (previous != NEVER).then(|| {
            let distance = self.distinct_pages - self.marks_until(previous);
            self.mark(previous, false);
            self.pages[previous as usize] = NEVER;
            distance
        });
        self.pages[self.touches as usize] = page;
        self.mark(self.touches, true);
        self.distinct_pages += u32::from(distance.is_none());
        self.touches += 1;
        distance
    }

    /// Forgets a page, as if it had never been touched; it is no page between two others any more.
    ///
    /// # Panics
    /// If the page is not below the number of pages.
    pub fn forget(&mut self, page: u32) {
        let latest = std::mem::replace(&mut self.latest[page as usize], NEVER);
        if latest != NEVER {
            self.mark(latest, false);
            self.pages[latest as usize] = NEVER;
            self.distinct_pages -= 1;
        }
    }

    /// How many marks there are up to a touch, itself included.
    fn marks_until(&self, touch: u32) -> u32 {
        let mut node = touch as usize + 1;
        let mut sum: u32 = 0;
        while node > 0 {
            sum = sum.wrapping_add(self.sums[node]);
            node &= node - 1;
        }
        sum
    }

    fn mark(&mut self, touch: u32, is_latest: bool) {
        let mut node = touch as usize + 1;
        while node < self.sums.len() {
            let sum = &mut self.sums[node];
            *sum = if is_latest { sum.wrapping_add(1) } else { sum.wrapping_sub(1) };
            node += node & node.wrapping_neg();
        }
    }

    /// Numbers the latest touches from 0 on, in their order.
    fn renumber(&mut self) {
        let held: Vec<u32> = self.pages.iter().copied().filter(|&page| page != NEVER).collect();
        self.pages.fill(NEVER);
        self.sums.fill(0);
        self.touches = 0;
        for page in held {
            self.latest[page as usize] = self.touches;
            self.pages[self.touches as usize] = page;
            self.mark(self.touches, true);
            self.touches += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn distances_are_those_of_a_list(
            pages in prop::collection::vec((0_u32..40, prop::bool::weighted(0.1)), 0..3000),
        ) {
            let mut distances = ReuseDistance::new(40);
            let mut list: Vec<u32> = vec![];
            for (page, is_forgotten) in pages {
                if is_forgotten {
                    distances.forget(page);
                    list.retain(|&other| other != page);
                    continue;
                }
                let place = list.iter().position(|&other| other == page);
                let expected = place.map(|place| u32::try_from(place).unwrap());
                prop_assert_eq!(distances.touch(page), expected);
                list.retain(|&other| other != page);
                list.insert(0, page);
            }
        }
    }
}
