//! Sets of pages as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of pages: ranges that are disjoint and do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRanges {
    /// The ends of the ranges by their starts.
    ranges: BTreeMap<u64, u64>,
}

impl PageRanges {
    /// Return `true` if the page is in the set.
    #[inline]
    pub fn contains(&self, page: u64) -> bool {
        !self.ranges.is_empty()
            && self.ranges.range(..=page).next_back().is_some_and(|(_, &end)| page < end)
    }

    /// Return the ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// Return the parts of a range that are in the set, in order.
    pub fn parts(&self, pages: &Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.ranges.range(..pages.start).next_back();
        let within = self.ranges.range(pages.start..pages.end.max(pages.start));
        let pages = pages.clone();
        before
            .into_iter()
            .chain(within)
            .map(move |(&start, &end)| start.max(pages.start)..end.min(pages.end))
            .filter(|part| !part.is_empty())
    }

    /// Return the first page of the set that is not before this one.
    pub fn next_from(&self, page: u64) -> Option<u64> {
        if self.contains(page) {
            return Some(page);
        }
        self.ranges.range(page..).next().map(|(&start, _)| start)
    }

    /// Add a range.
    pub fn add(&mut self, Range { mut start, mut end }: Range<u64>) {
        if start >= end {
            return;
        }
        // Ranges that overlap or touch become one.
        while let Some((&first, &last)) = self.ranges.range(..=end).next_back()
            && last >= start
        {
            (start, end) = (start.min(first), end.max(last));
            self.ranges.remove(&first);
        }
        self.ranges.insert(start, end);
    }

    /// Take a range out.
    pub fn remove(&mut self, pages: &Range<u64>) {
        let parts: Vec<Range<u64>> = self.parts(pages).collect();
        for part in parts {
            let covering = self.ranges.range(..=part.start).next_back();
            let Some((&start, &end)) = covering else { continue };
            self.ranges.remove(&start);
            if start < part.start {
                self.ranges.insert(start, part.start);
            }
            if part.end < end {
                self.ranges.insert(part.end, end);
            }
        }
    }
}

impl FromIterator<Range<u64>> for PageRanges {
    fn from_iter<T: IntoIterator<Item = Range<u64>>>(ranges: T) -> Self {
        let mut set = Self::default();
        ranges.into_iter().for_each(|range| set.add(range));
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_a_set_of_pages(
            steps in prop::collection::vec((any::<bool>(), 0_u64..40, 0_u64..12), 0..40),
            asked in (0_u64..40, 0_u64..20),
        ) {
            let (mut ranges, mut model) = (PageRanges::default(), BTreeSet::new());
            for (adds, start, length) in steps {
                let pages = start..start + length;
                if adds {
                    ranges.add(pages.clone());
                    model.extend(pages);
                } else {
                    ranges.remove(&pages);
                    model.retain(|page| !pages.contains(page));
                }
                let all: Vec<Range<u64>> = ranges.iter().collect();
                prop_assert!(all.iter().all(|range| !range.is_empty()));
                prop_assert!(all.windows(2).all(|pair| pair[0].end < pair[1].start));
                prop_assert!(all.into_iter().flatten().eq(model.iter().copied()));
            }
            let asked = asked.0..asked.0 + asked.1;
            prop_assert!(ranges.parts(&asked).flatten().eq(model.range(asked).copied()));
            for page in 0..60 {
                prop_assert_eq!(ranges.contains(page), model.contains(&page));
                prop_assert_eq!(ranges.next_from(page), model.range(page..).next().copied());
            }
        }
    }
}
