//! Where each page is: in an entry, in a slot, or on disk alone.

mod held;

use std::ops::Range;

use thermocline_core::queue::Index;

use self::held::Held;
use crate::entry::{Entries, EntryId};
use crate::slots::{SlotId, Slots};

/// Marks the places that are entries; the others are slots.
const ENTRY_BIT: u32 = 1 << 31;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Entry(EntryId),
    Slot(SlotId),
}

impl Place {
    #[inline]
    const fn of(code: u32) -> Self {
        if code & ENTRY_BIT == 0 {
            Self::Slot(SlotId(code))
        } else {
            Self::Entry(EntryId(code & !ENTRY_BIT))
        }
    }

    const fn code(self) -> u32 {
        match self {
            Self::Slot(slot) => slot.0,
            Self::Entry(entry) => entry.0 | ENTRY_BIT,
        }
    }

    /// The page that it belongs to.
    #[inline]
    pub(super) fn page(self, slots: &Slots, entries: &Entries) -> u32 {
        match self {
            Self::Slot(slot) => slots.page(slot),
            Self::Entry(entry) => entries[entry].page,
        }
    }
}

/// The places of all pages that are held. A place says itself which page it belongs to, so the index keeps
/// no page numbers, and is given slots and entries where it needs them.
#[derive(Debug)]
pub(super) struct Places {
    index: Index,
    held: Held,
}

impl Places {
    /// Nothing is held of so many pages; there is room for so many places.
    pub(super) fn with_capacity(places: usize, pages: u32) -> Self {
        Self { index: Index::with_capacity(places), held: Held::new(pages) }
    }

    #[inline]
    pub(super) fn find(&self, page: u32, slots: &Slots, entries: &Entries) -> Option<Place> {
        let code = self.index.find(page, |code| Place::of(code).page(slots, entries))?;
        Some(Place::of(code))
    }

    /// Asks the processor for what `find` reads first.
    #[inline]
    pub(super) fn prefetch(&self, page: u32) {
        self.index.prefetch(page);
    }

    /// Where the page probably is, for hints only: another page may be there.
    #[inline]
    pub(super) fn guess(&self, page: u32) -> Option<Place> {
        self.index.guess(page).map(Place::of)
    }

    /// The page is there from now on.
    pub(super) fn put(&mut self, page: u32, place: Place, slots: &Slots, entries: &Entries) {
        let page_of = |code| Place::of(code).page(slots, entries);
        if self.index.put(page, place.code(), page_of).is_none() {
            self.held.add(page);
        }
    }

    /// The page is on disk alone from now on.
    pub(super) fn remove(&mut self, page: u32, slots: &Slots, entries: &Entries) {
        self.index.remove(page, |code| Place::of(code).page(slots, entries));
        self.held.remove(page);
    }

    /// Nothing was held: the slots hold these pages, each in one slot.
    pub(super) fn refill(&mut self, pages: impl Iterator<Item = Option<u32>>) {
        let Self { index, held } = self;
        index.refill((0..).zip(pages).filter_map(|(slot, page)| {
            held.add(page?);
            Some((page?, slot))
        }));
    }

    /// All places.
    pub(super) fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        self.index.places().map(Place::of)
    }

    /// The pages of a range that may be held: those of parts of the disk where some page is.
    pub(super) fn candidates(&self, pages: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        self.held.candidates(pages)
    }

    /// Heap memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.held.memory_bytes()
    }

    /// Checks what always holds.
    pub(super) fn assert_invariants(&self) {
        assert_eq!(self.held.pages(), self.index.len(), "every held page is counted");
    }
}
