//! How many pages of each part of the backing store are held, so that looking for them in a range takes
//! no longer than they are many.

use std::ops::Range;

/// Pages of one part.
const PART_PAGES: u32 = 4096;

/// The counts.
#[derive(Debug)]
pub(super) struct Held {
    parts: Vec<u16>,
}

impl Held {
    /// Nothing is held of so many pages.
    pub(super) fn new(pages: u32) -> Self {
        Self { parts: vec![0; pages.div_ceil(PART_PAGES) as usize] }
    }

    /// The page is held from now on.
    pub(super) fn add(&mut self, page: u32) {
        self.parts[(page / PART_PAGES) as usize] += 1;
    }

    /// The page is no longer held.
    pub(super) fn remove(&mut self, page: u32) {
        self.parts[(page / PART_PAGES) as usize] -= 1;
    }

    /// The pages of a range that may be held: those of parts where some page is.
    pub(super) fn candidates(&self, pages: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        let parts = pages.start / PART_PAGES..pages.end.div_ceil(PART_PAGES);
        let parts = parts.filter(|&part| self.parts[part as usize] > 0);
        parts.flat_map(move |part| {
            let first = part * PART_PAGES;
            pages.start.max(first)..pages.end.min(first.saturating_add(PART_PAGES))
        })
    }

    /// Pages that are held.
    pub(super) fn pages(&self) -> usize {
        self.parts.iter().map(|&pages| usize::from(pages)).sum()
    }

    /// Heap memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.parts.capacity() * size_of::<u16>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_that_hold_something_are_looked_at() {
        let mut held = Held::new(u32::MAX);
        assert_eq!(held.candidates(0..u32::MAX).count(), 0);
        held.add(5000);
        held.add(u32::MAX - 1);
        assert_eq!(held.pages(), 2);
        assert_eq!(
            held.candidates(4097..5002).collect::<Vec<_>>(),
            (4097..5002).collect::<Vec<_>>()
        );
        let last = u32::MAX / PART_PAGES * PART_PAGES;
        let all: Vec<u32> = (4096..8192).chain(last..u32::MAX).collect();
        assert_eq!(held.candidates(0..u32::MAX).collect::<Vec<_>>(), all);
        held.remove(5000);
        assert_eq!(held.candidates(0..8192).count(), 0);
    }
}
