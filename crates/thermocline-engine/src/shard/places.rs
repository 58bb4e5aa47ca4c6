//! Place of each page: an entry, a slot, or the disk alone.

mod held;
mod named;

use std::ops::Range;

use thermocline_core::PageId;
use thermocline_core::queue::Index;

use self::held::Held;
use self::named::Named;
use crate::entry::{Entries, EntryId};
use crate::ids::IdSpace;
use crate::slots::{SlotId, Slots};

/// Marks the places that are entries; the others are slots.
const ENTRY_BIT: u32 = 1 << 31;

/// Place of a page.
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

    /// Return the page that it belongs to.
    #[inline]
    pub(super) fn page(self, slots: &Slots, entries: &Entries) -> u64 {
        match self {
            Self::Slot(slot) => slots.page(slot),
            Self::Entry(entry) => entries[entry].page,
        }
    }
}

/// The places of all pages that are held, and their ids. A place says itself which page it belongs to, so
/// the index keeps no page numbers, and is given slots and entries where it needs them.
#[derive(Debug)]
pub(super) struct Places {
    index: Index,
    held: Held,
    named: Named,
}

impl Places {
    /// Create an empty index of `pages` pages, with room for `places` places.
    pub(super) fn with_capacity(places: usize, pages: u64, space: IdSpace) -> Self {
        let (index, held) = (Index::with_capacity(places), Held::new(pages, places));
        Self { index, held, named: Named::new(space) }
    }

    #[inline]
    pub(super) fn find(&self, page: u64, slots: &Slots, entries: &Entries) -> Option<Place> {
        let is_it = |code| Place::of(code).page(slots, entries) == page;
        let code = self.index.find_where(self.named.key(page), is_it)?;
        Some(Place::of(code))
    }

    /// Prefetches what `find` reads first.
    #[inline]
    pub(super) fn prefetch(&self, page: u64) {
        self.index.prefetch(self.named.key(page));
    }

    /// Guess the place of the page, for hints only: another page may be there.
    #[inline]
    pub(super) fn guess(&self, page: u64) -> Option<Place> {
        self.index.guess(self.named.key(page)).map(Place::of)
    }

    /// Put the page at a place from now on.
    pub(super) fn put(&mut self, page: u64, place: Place, slots: &Slots, entries: &Entries) {
        let Self { index, named, .. } = self;
        let page_of = |code| Place::of(code).page(slots, entries);
        let key_of = |code| named.key(page_of(code));
        let is_it = |code| page_of(code) == page;
        if index.put_where(named.key(page), place.code(), key_of, is_it).is_none() {
            self.held.add(page);
            self.claim(page, slots, entries);
        }
    }

    /// Remove the page: it is on disk alone from now on.
    pub(super) fn remove(&mut self, page: u64, slots: &Slots, entries: &Entries) {
        let Self { index, named, .. } = self;
        let page_of = |code| Place::of(code).page(slots, entries);
        let key_of = |code| named.key(page_of(code));
        index.remove_where(named.key(page), key_of, |code| page_of(code) == page);
        self.held.remove(page);
        self.named.forget(page);
    }

    /// Fill an empty index from the live slots, which hold a page each.
    pub(super) fn refill(&mut self, slots: &Slots, entries: &Entries) {
        let Self { index, named, .. } = self;
        let places = slots.live().map(Place::Slot);
        index.refill(places.map(|it| (named.key(it.page(slots, entries)), it.code())));
        for slot in slots.live() {
            self.held.add(slots.page(slot));
            self.claim(slots.page(slot), slots, entries);
        }
    }

    /// Rename the pages: another policy knows them by these ids from now on.
    pub(super) fn rename(&mut self, space: IdSpace, slots: &Slots, entries: &Entries) {
        if space == self.named.space() {
            return;
        }
        self.named = Named::new(space);
        let places: Vec<Place> = self.iter().collect();
        let Self { index, named, .. } = self;
        let key = |place: Place| named.key(place.page(slots, entries));
        index.refill(places.iter().map(|&place| (key(place), place.code())));
        for place in places {
            self.claim(place.page(slots, entries), slots, entries);
        }
    }

    /// Return `true` if ids are page numbers.
    pub(super) const fn are_ids_numbers(&self) -> bool {
        !self.named.space().has_collisions()
    }

    /// Return the id of a page that is held.
    #[inline]
    pub(super) fn id(&self, page: u64) -> PageId {
        self.named.id(page)
    }

    /// Return the id of a page that is held, or is about to be.
    #[inline]
    pub(super) fn enter(&mut self, page: u64, slots: &Slots, entries: &Entries) -> PageId {
        self.claim(page, slots, entries);
        self.named.id(page)
    }

    /// Return the page that has this id; `None` if it is not held.
    #[inline]
    pub(super) fn page(&self, id: PageId, slots: &Slots, entries: &Entries) -> Option<u64> {
        if !self.named.space().has_collisions() {
            return Some(id.0.into());
        }
        self.named.stray(id).or_else(|| {
            let page_of = |code| Place::of(code).page(slots, entries);
            let has_it = |code| {
                self.named.key(page_of(code)) == id.0 && self.named.is_at_home(page_of(code))
            };
            self.index.find_where(id.0, has_it).map(page_of)
        })
    }

    /// Gives the page another id if another page has the one that it should have.
    #[inline]
    fn claim(&mut self, page: u64, slots: &Slots, entries: &Entries) {
        let space = self.named.space();
        if !space.has_collisions() || !self.named.is_at_home(page) {
            return;
        }
        let is_free = |id| self.owner(id, page, slots, entries).is_none();
        if !is_free(space.wanted(page)) {
            let id =
                space.others(page).find(|&id| is_free(id)).expect("there are more ids than pages");
            self.named.send_away(page, id);
        }
    }

    /// Find a page other than this one that has the id.
    fn owner(&self, id: PageId, page: u64, slots: &Slots, entries: &Entries) -> Option<u64> {
        self.named.stray(id).or_else(|| {
            let page_of = |code| Place::of(code).page(slots, entries);
            let has_it = |code| {
                let other = page_of(code);
                other != page && self.named.key(other) == id.0 && self.named.is_at_home(other)
            };
            self.index.find_where(id.0, has_it).map(page_of)
        })
    }

    /// Return the number of pages that are held.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Return all places.
    pub(super) fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        self.index.places().map(Place::of)
    }

    /// Return the pages of a range that may be held: those of parts of the disk where some page is.
    pub(super) fn candidates(&self, pages: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        self.held.candidates(pages)
    }

    /// Return the number of [candidates](Self::candidates).
    pub(super) fn candidate_count(&self, pages: Range<u64>) -> u64 {
        self.held.candidate_count(pages)
    }

    /// Return the end of the part of a range that has at most `max` candidates, or those of one part of the disk.
    pub(super) fn end_of(&self, pages: Range<u64>, max: u64) -> u64 {
        self.held.end_of(pages, max)
    }

    /// Return the size of the heap memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.held.memory_bytes() + self.named.memory_bytes()
    }

    /// Checks the invariants.
    pub(super) fn assert_invariants(&self, slots: &Slots, entries: &Entries) {
        assert_eq!(self.held.pages(), self.index.len(), "every held page is counted");
        self.named.assert_invariants();
        for place in self.iter() {
            let page = place.page(slots, entries);
            assert_eq!(
                self.page(self.id(page), slots, entries),
                Some(page),
                "an id means one page"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::entry::Entry;

    const BACKING_PAGES: u64 = 1 << 48;

    /// A step with a page, which is one of few that lie far apart.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Hold,
        Enter,
        Forget,
    }

    fn step() -> impl Strategy<Value = (u64, Step)> {
        let page = (0_u64..4, 0_u64..40).prop_map(|(bank, page)| (bank << 46) + page);
        (page, prop_oneof![Just(Step::Hold), Just(Step::Enter), Just(Step::Forget)])
    }

    proptest! {
        /// Uses far fewer ids than pages, and changes the policy half-way.
        #[test]
        fn every_held_page_has_an_id_of_its_own(
            steps in prop::collection::vec(step(), 0..300),
            shifts in prop::array::uniform2(0_u32..3),
        ) {
            let spaces = shifts.map(|shift| IdSpace::hashes(200, shift));
            let (slots, mut entries) = (Slots::new(0, BACKING_PAGES), Entries::with_capacity(8));
            let mut places = Places::with_capacity(8, BACKING_PAGES, spaces[0]);
            let mut model: BTreeMap<u64, EntryId> = BTreeMap::new();
            let half = steps.len() / 2;
            for (number, (page, step)) in steps.into_iter().enumerate() {
                if number == half {
                    places.rename(spaces[1], &slots, &entries);
                }
                let before: Vec<PageId> = model.keys().map(|&page| places.id(page)).collect();
                let held: Vec<u64> = model.keys().copied().collect();
                match (step, model.get(&page)) {
                    (Step::Enter | Step::Hold, None) => {
                        let entered = matches!(step, Step::Enter)
                            .then(|| places.enter(page, &slots, &entries));
                        let id = entries.insert(Entry::new(page));
                        places.put(page, Place::Entry(id), &slots, &entries);
                        model.insert(page, id);
                        prop_assert!(entered.is_none_or(|entered| entered == places.id(page)));
                    }
                    (Step::Enter | Step::Hold, Some(_)) => {
                        prop_assert_eq!(places.enter(page, &slots, &entries), places.id(page));
                    }
                    (Step::Forget, Some(&id)) => {
                        places.remove(page, &slots, &entries);
                        entries.remove(id);
                        model.remove(&page);
                    }
                    (Step::Forget, None) => {
                        prop_assert_eq!(places.find(page, &slots, &entries), None);
                    }
                }
                // A page keeps its id as long as it is held.
                for (page, id) in held.into_iter().zip(before) {
                    prop_assert!(!model.contains_key(&page) || places.id(page) == id);
                }
                places.assert_invariants(&slots, &entries);
                let ids: BTreeSet<PageId> = model.keys().map(|&page| places.id(page)).collect();
                prop_assert_eq!(ids.len(), model.len());
                prop_assert!(ids.iter().all(|id| id.0 < places.named.space().count()));
                for (&page, &id) in &model {
                    prop_assert_eq!(places.find(page, &slots, &entries), Some(Place::Entry(id)));
                }
            }
            // Nothing is kept of pages that are gone.
            for (page, id) in model {
                places.remove(page, &slots, &entries);
                entries.remove(id);
            }
            prop_assert_eq!(places.named.strays(), 0);
            prop_assert_eq!(places.page(PageId(3), &slots, &entries), None);
        }
    }

    #[test]
    fn a_page_that_comes_back_has_the_same_id() {
        let space = IdSpace::hashes(u64::MAX, 0);
        let (slots, mut entries) = (Slots::new(0, BACKING_PAGES), Entries::with_capacity(8));
        let mut places = Places::with_capacity(8, BACKING_PAGES, space);
        let mut ids = vec![];
        for round in 0..2 {
            for page in (0..BACKING_PAGES).step_by(1 << 38) {
                let id = entries.insert(Entry::new(page));
                places.put(page, Place::Entry(id), &slots, &entries);
                ids.push(places.id(page));
                places.remove(page, &slots, &entries);
                entries.remove(id);
            }
            assert_eq!(ids.len(), 1024 * (round + 1));
        }
        assert_eq!(ids[..1024], ids[1024..], "what the policy knows of a page stays true");
    }
}
