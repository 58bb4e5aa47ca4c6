//! State of each page: its place, and its newest record of hints at each level.
//!
//! * Source: none.
//! * State: 4 bytes per page that exists, and 4 more per level; sparse, both and 11 bytes per page that
//!   is cached or has a hint that counts. With several clients, 4 bytes per client and 4 more in place
//!   of the first 4.
//! * Cost: O(1).
//! * Deviations: none.

use alloc::vec;
use alloc::vec::Vec;

use super::ABSENT;
use crate::prefetch::prefetch;
use crate::queue::Numbers;
use crate::{Ids, PageId};

/// A row of cells per page.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    numbers: Numbers,
    /// Per number of a page: its frame, or [`ABSENT`], of several clients one in the first tier of each
    /// and one in the shared tiers; then per level its newest record of hints.
    table: Vec<u32>,
    /// Cells per page, and how many of them are for frames.
    stride: usize,
    frames: usize,
}

impl Cells {
    /// Cells for at most `tracked` pages that are cached or have a hint that counts.
    pub(super) fn new(ids: Ids, tracked: u32, frames: usize, levels: usize) -> Self {
        let (numbers, stride) = (Numbers::new(ids, tracked), frames + levels);
        let table = vec![ABSENT; numbers.count() as usize * stride];
        Self { numbers, table, stride, frames }
    }

    /// Gives a page cells, if it has none. `is_live` says whether a page with this newest record has a
    /// hint at a level that counts.
    #[inline]
    pub(super) fn enter(&mut self, page: PageId, is_live: impl Fn(usize, PageId, u32) -> bool) {
        if self.numbers.find(page).is_some() {
            return;
        }
        let Self { numbers, table, stride, frames } = self;
        let row_of = |number: u32| number as usize * *stride..(number as usize + 1) * *stride;
        let number = numbers.enter(page, |number, page| {
            let (places, hints) = table[row_of(number)].split_at(*frames);
            let has_hint = |(level, &newest): (usize, &u32)| is_live(level, page, newest);
            places.iter().any(|&frame| frame != ABSENT) || hints.iter().enumerate().any(has_hint)
        });
        table[row_of(number)].fill(ABSENT);
    }

    /// Return the frame of a page in a first level or, whichever it is, in a shared one; of one
    /// client, in any.
    #[inline]
    pub(super) fn frame(&self, level: usize, page: PageId) -> u32 {
        let row = self.row(page);
        row.map_or(ABSENT, |row| self.table[row + level.min(self.frames - 1)])
    }

    /// Return the frame of a page whose cells were [asked for](Self::prefetch), if there is one
    /// client and no search would be needed; otherwise frame 0. It is for prefetching: a branch on
    /// whether the page has a frame could not be predicted.
    #[inline]
    pub(super) fn known_frame(&self, page: PageId) -> u32 {
        let row = self.numbers.find_at_once(page).map_or(0, |number| number as usize * self.stride);
        self.table.get(row).copied().filter(|&frame| frame != ABSENT).unwrap_or(0)
    }

    /// Notes the frame of a page that has cells.
    #[inline]
    pub(super) fn set_frame(&mut self, level: usize, page: PageId, frame: u32) {
        let row = self.row(page).expect("a page that enters or leaves has cells");
        self.table[row + level.min(self.frames - 1)] = frame;
    }

    /// Return the newest record of a page at a level.
    #[inline]
    pub(super) fn newest_hint(&self, level: usize, page: PageId) -> u32 {
        self.row(page).map_or(ABSENT, |row| self.table[row + self.frames + level])
    }

    /// Return the cell for the newest record of a page that has cells.
    #[inline]
    pub(super) fn newest_hint_mut(&mut self, level: usize, page: PageId) -> &mut u32 {
        let row = self.row(page).expect("a page that enters or leaves has cells");
        &mut self.table[row + self.frames + level]
    }

    /// Return the pages that have cells, each with the first one, that of its frame if there is one
    /// client.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PageId, u32)> + '_ {
        let rows = self.table.chunks_exact(self.stride);
        let numbers = 0..self.numbers.taken();
        numbers.zip(rows).map(|(number, row)| (self.numbers.page(number), row[0]))
    }

    /// Return the newest records of all pages at a level, for tests of the invariants.
    pub(super) fn newest_hints(&self, level: usize) -> impl Iterator<Item = (PageId, u32)> + '_ {
        self.iter().map(move |(page, _)| (page, self.newest_hint(level, page)))
    }

    /// Return the number of cells that have a frame.
    pub(super) fn held_frames(&self) -> usize {
        let rows = self.table.chunks_exact(self.stride);
        rows.flat_map(|row| &row[..self.frames]).filter(|&&frame| frame != ABSENT).count()
    }

    /// Asks the processor for the cells of a page.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        if let Some(number) = self.numbers.find_at_once(page) {
            prefetch(&self.table, number as usize * self.stride);
        }
    }

    /// Return the size of the heap memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.numbers.memory_bytes() + size_of_val(&*self.table)
    }

    /// Checks every invariant of the numbers.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub(super) fn assert_invariants(&self) {
        self.numbers.assert_invariants();
    }

    /// Return the index of a page's first cell.
    #[inline]
    fn row(&self, page: PageId) -> Option<usize> {
        self.numbers.find(page).map(|number| number as usize * self.stride)
    }
}
