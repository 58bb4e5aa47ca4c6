//! Number of held pages per part of the backing store, so that a search of a range takes time in
//! proportion to the pages that it finds.

use std::ops::Range;

/// Pages of one part.
const PART_PAGES: u64 = 4096;
/// Places per count, and the fewest counts: a cache that is small keeps few, however large the backing
/// store is.
const PLACES_PER_COUNT: usize = 4;
const COUNTS_MIN: usize = 1 << 12;

/// The counts. Where there are more parts than counts, several parts share one.
#[derive(Debug)]
pub(super) struct Held {
    counts: Vec<u32>,
}

impl Held {
    /// Create counts of zero for `pages` pages, of which about `places` will be held.
    pub(super) fn new(pages: u64, places: usize) -> Self {
        let parts = usize::try_from(pages.div_ceil(PART_PAGES)).unwrap_or(usize::MAX);
        Self { counts: vec![0; parts.min((places / PLACES_PER_COUNT).max(COUNTS_MIN))] }
    }

    /// Note that the page is held from now on.
    pub(super) fn add(&mut self, page: u64) {
        let count = self.count_of(page / PART_PAGES);
        self.counts[count] += 1;
    }

    /// Note that the page is no longer held.
    pub(super) fn remove(&mut self, page: u64) {
        let count = self.count_of(page / PART_PAGES);
        self.counts[count] -= 1;
    }

    /// Return the pages of a range that may be held: those of parts where some page is.
    pub(super) fn candidates(&self, pages: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let parts = pages.start / PART_PAGES..pages.end.div_ceil(PART_PAGES);
        let parts = parts.filter(|&part| self.counts[self.count_of(part)] > 0);
        parts.flat_map(move |part| {
            let first = part * PART_PAGES;
            pages.start.max(first)..pages.end.min(first.saturating_add(PART_PAGES))
        })
    }

    /// Return the end of the part of a range that has at most `max` candidates, or those of one part of the disk.
    pub(super) fn end_of(&self, pages: Range<u64>, max: u64) -> u64 {
        let mut left = max;
        let mut at = pages.start;
        while at < pages.end {
            let part = at / PART_PAGES;
            let end = pages.end.min((part + 1).saturating_mul(PART_PAGES));
            if self.counts[self.count_of(part)] > 0 {
                if left < end - at && at > pages.start {
                    break;
                }
                left = left.saturating_sub(end - at);
            }
            at = end;
        }
        at
    }

    /// Return the number of candidates in a range.
    pub(super) fn candidate_count(&self, pages: Range<u64>) -> u64 {
        let parts = pages.start / PART_PAGES..pages.end.div_ceil(PART_PAGES);
        let is_used = |part: &u64| self.counts[self.count_of(*part)] > 0;
        let of = |part: u64| {
            let first = part * PART_PAGES;
            pages.end.min(first.saturating_add(PART_PAGES)) - pages.start.max(first)
        };
        parts.filter(is_used).map(of).sum()
    }

    /// Return the number of pages that are held.
    pub(super) fn pages(&self) -> usize {
        self.counts.iter().map(|&pages| pages as usize).sum()
    }

    /// Return the size of the heap memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u32>()
    }

    /// Return the index of a part's count.
    #[expect(clippy::cast_possible_truncation, reason = "less than the number of counts")]
    fn count_of(&self, part: u64) -> usize {
        (part % self.counts.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u64 = (1 << 32) - 1;

    #[test]
    fn only_parts_that_hold_something_are_looked_at() {
        let mut held = Held::new(PAGES, 1 << 23);
        assert_eq!(held.candidates(0..PAGES).count(), 0);
        held.add(5000);
        held.add(PAGES - 1);
        assert_eq!(held.pages(), 2);
        assert_eq!(
            held.candidates(4097..5002).collect::<Vec<_>>(),
            (4097..5002).collect::<Vec<_>>()
        );
        let last = PAGES / PART_PAGES * PART_PAGES;
        let all: Vec<u64> = (4096..8192).chain(last..PAGES).collect();
        assert_eq!(held.candidates(0..PAGES).collect::<Vec<_>>(), all);
        assert_eq!(held.candidate_count(0..PAGES), all.len() as u64);
        assert_eq!(held.candidate_count(4097..5002), 905);
        assert_eq!(held.end_of(0..PAGES, 4096), last);
        assert_eq!(held.end_of(0..PAGES, 1 << 20), PAGES);
        held.add(9000);
        assert_eq!(held.end_of(5000..1 << 20, 0), 8192, "one part is looked at in any case");
        held.remove(9000);
        held.remove(5000);
        assert_eq!(held.candidates(0..8192).count(), 0);
    }

    #[test]
    fn parts_of_a_large_disk_share_counts() {
        let mut held = Held::new(1 << 38, 100);
        assert_eq!(held.memory_bytes(), COUNTS_MIN * 4);
        let page = (1 << 38) - 5000_u64;
        held.add(page);
        held.add(page + 1);
        let part = page / PART_PAGES * PART_PAGES;
        let near: Vec<u64> = held.candidates(page - 10_000..1 << 38).collect();
        assert_eq!(near, (part..part + PART_PAGES).collect::<Vec<_>>());
        // Another part has the same count, and is looked at in vain.
        let other = part - COUNTS_MIN as u64 * PART_PAGES;
        assert!(held.candidates(other..other + 1).eq([other]));
        held.remove(page);
        held.remove(page + 1);
        assert_eq!((held.pages(), held.candidates(0..1 << 32).count()), (0, 0));
    }
}
