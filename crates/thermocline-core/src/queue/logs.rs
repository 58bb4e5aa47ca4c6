//! Several queues over one set of pages, each a log.
//!
//! A page is in at most one queue. A queue is a ring of entries, written at its new end: a page
//! that leaves it, at any position, leaves a blank entry, and a page that is renewed is appended
//! again. So a move within or between queues writes one random byte and appends, where a linked
//! list writes four random places. A search for the oldest page skips blank entries, and a ring
//! that is full of them is squeezed.
//!
//! Each page carries one byte of state, which the policy defines but for its lowest bit: that is
//! [`PRESENT`].
//!
//! * State: 4 bytes per page that exists, or, sparse, 6 per page that the queues can hold together; 5
//!   bytes per entry, and the entries that [`Use`] says per page that a queue can hold.
//! * Cost: every change amortised O(1); a search passes 8 entries a step.

use alloc::vec;
use alloc::vec::Vec;

use super::directory::{ABSENT, Directory, Places};
use super::recency::first_member;
use crate::PageId;
use crate::{Ids, Indexing};

/// The state bit that every page of a queue has.
pub const PRESENT: u8 = 1;

/// Entries of a ring beyond its factor, so that a queue of few pages is not squeezed at each step.
const MARGIN: usize = 64;
/// Distance from the oldest page, in entries, at which the tables of coming victims are prefetched.
const PREFETCH_ENTRIES: u32 = 12;
/// Distance from a search, in entries, at which other tables prefetch their state of the pages to
/// come; less than the entries of a ring.
const LOOK_AHEAD_ENTRIES: u32 = 24;
/// Entries that a search looks at together.
const WORD: u32 = 8;
/// [`PRESENT`] in each of them.
const ALL_PRESENT: u64 = u64::from_le_bytes([PRESENT; WORD as usize]);

/// Use of a queue, which decides how much longer than the queue its ring should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Pages leave at the old end: 1.25 entries per page.
    Fifo,
    /// Many leave from within: 2 entries per page, or, sparse, 1.25.
    Leaky,
    /// Most are renewed within: 4 entries per page, or, sparse, 1.5.
    Lru,
}

/// A number of queues, each identified by its index.
#[derive(Clone, Debug)]
pub struct Logs<const QUEUES: usize> {
    /// The entry of each page.
    positions: Directory,
    /// Per entry: the page that it was written for, whether it still is there or not.
    pages: Vec<u32>,
    /// Per entry: the state of its page, or zero if the entry is blank.
    states: Vec<u8>,
    rings: [Ring; QUEUES],
}

/// A place in a queue. Valid until the next [`push`](Logs::push) to the same queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(u32);

/// Entries of one queue.
#[derive(Clone, Copy, Debug)]
struct Ring {
    /// Its entries.
    begin: u32,
    end: u32,
    /// The first entry that may have a page; those before it are blank.
    oldest: u32,
    /// The entry that is written next.
    head: u32,
    /// Entries from the oldest to the head.
    used: u32,
    /// Pages.
    len: u32,
    /// Entries up to this one have been looked at ahead of a search.
    looked_at: u32,
}

impl<const QUEUES: usize> Logs<QUEUES> {
    /// Create empty queues: each with the maximum of its pages, and its use. Together they hold at
    /// most `capacity` pages.
    ///
    /// # Panics
    /// If the entries cannot be counted with 32 bits.
    pub fn new(ids: Ids, capacity: u32, capacities: [(u32, Use); QUEUES]) -> Self {
        let mut begin = 0_usize;
        let rings = capacities.map(|(capacity, usage)| {
            let capacity = capacity.min(ids.pages) as usize;
            let entries = MARGIN
                + match (ids.indexing, usage) {
                    (_, Use::Fifo) | (Indexing::Sparse, Use::Leaky) => capacity + capacity / 4,
                    (Indexing::Dense, Use::Leaky) => 2 * capacity,
                    (Indexing::Sparse, Use::Lru) => capacity + capacity / 2,
                    (Indexing::Dense, Use::Lru) => 4 * capacity,
                };
            let count = |entry| u32::try_from(entry).expect("entries can be counted");
            let first = count(begin);
            // All rings are parts of one pair of arrays, so that a position alone tells page, state
            // and queue.
            begin += entries;
            let end = count(begin);
            let looked_at = first;
            Ring { begin: first, end, oldest: first, head: first, used: 0, len: 0, looked_at }
        });
        Self {
            positions: Directory::new(ids, capacity as usize),
            pages: vec![0; begin],
            states: vec![0; begin],
            rings,
        }
    }

    /// Find `page`, if it is in a queue.
    #[inline]
    pub fn find(&self, page: PageId) -> Option<Position> {
        let position = self.positions.find(page.0, page_of(&self.pages));
        (position != ABSENT).then_some(Position(position))
    }

    /// Return the queue that a position is in.
    #[inline]
    pub fn queue_at(&self, position: Position) -> usize {
        self.rings[1..].iter().filter(|ring| ring.begin <= position.0).count()
    }

    /// Return the queue that `page` is in.
    #[inline]
    pub fn queue_of(&self, page: PageId) -> Option<usize> {
        self.find(page).map(|position| self.queue_at(position))
    }

    /// Return the page at a position.
    #[inline]
    pub fn page(&self, position: Position) -> PageId {
        PageId(self.pages[position.0 as usize])
    }

    /// Return the state of the page at a position.
    #[inline]
    pub fn state(&self, position: Position) -> u8 {
        self.states[position.0 as usize]
    }

    /// Changes the state of the page at a position, which keeps its place.
    #[inline]
    pub fn set_state(&mut self, position: Position, state: u8) {
        // A state of 0 means a blank entry to every search.
        debug_assert_ne!(state & PRESENT, 0, "a page of a queue is present");
        self.states[position.0 as usize] = state;
    }

    /// Makes `page`, which is in no queue, the newest of one.
    #[inline]
    pub fn push(&mut self, queue: usize, page: PageId, state: u8) {
        debug_assert_eq!(self.find(page), None, "a page is in one queue at most");
        self.append(queue, page, state);
    }

    /// Makes `page`, which is at a position of a queue, the newest of the same or another queue.
    /// Cheaper than a removal and a push: nothing is read of the entry.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    pub fn renew(
        &mut self,
        page: PageId,
        (from, position): (usize, Position),
        to: usize,
        state: u8,
    ) {
        debug_assert_eq!(self.queue_at(position), from, "the position is the queue's");
        debug_assert_eq!(self.page(position), page, "the page is at this position");
        // The entry keeps its page number, which no search reads while its state is 0.
        self.states[position.0 as usize] = 0;
        self.rings[from].len -= 1;
        self.append(to, page, state);
    }

    /// Makes `page`, which is in no queue, the oldest of one.
    pub fn push_oldest(&mut self, queue: usize, page: PageId, state: u8) {
        debug_assert_eq!(self.find(page), None, "a page is in one queue at most");
        debug_assert_ne!(state & PRESENT, 0, "a page of a queue is present");
        if self.rings[queue].is_full() {
            self.make_room(queue, page);
        }
        let ring = &mut self.rings[queue];
        ring.oldest = if ring.oldest == ring.begin { ring.end } else { ring.oldest } - 1;
        ring.used += 1;
        ring.len += 1;
        let entry = ring.oldest;
        self.positions.put(page.0, entry, page_of(&self.pages));
        self.pages[entry as usize] = page.0;
        self.states[entry as usize] = state;
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    fn append(&mut self, queue: usize, page: PageId, state: u8) {
        debug_assert_ne!(state & PRESENT, 0, "a page of a queue is present");
        if self.rings[queue].is_full() {
            self.make_room(queue, page);
        }
        let ring = &mut self.rings[queue];
        let entry = ring.head;
        ring.head = ring.following(entry);
        ring.used += 1;
        ring.len += 1;
        // First the index: it knows the page's former entry, which may be this one, by its page.
        self.positions.put(page.0, entry, page_of(&self.pages));
        self.pages[entry as usize] = page.0;
        self.states[entry as usize] = state;
    }

    /// Takes the page at a position of a queue out of it.
    #[inline]
    pub fn remove(&mut self, queue: usize, position: Position) {
        debug_assert_eq!(self.queue_at(position), queue, "the position is the queue's");
        let entry = position.0 as usize;
        debug_assert_ne!(self.states[entry], 0, "a page is at this position");
        self.states[entry] = 0;
        self.positions.remove(self.pages[entry], page_of(&self.pages));
        self.rings[queue].len -= 1;
    }

    /// Return the position of the oldest page of a queue.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    pub fn oldest(&mut self, queue: usize) -> Option<Position> {
        let ring = &self.rings[queue];
        if ring.len == 0 {
            return None;
        }
        if self.states[ring.oldest as usize] == 0 {
            self.pass_blanks(queue);
        }
        let ring = &self.rings[queue];
        let coming = self.pages[(ring.oldest + PREFETCH_ENTRIES).min(ring.end - 1) as usize];
        self.positions.prefetch(coming);
        Some(Position(ring.oldest))
    }

    /// Takes the oldest page out of a queue; returns it, with its state.
    #[inline]
    pub fn pop(&mut self, queue: usize) -> Option<(PageId, u8)> {
        let (page, state) = self.take_oldest(queue)?;
        self.positions.remove(page.0, page_of(&self.pages));
        Some((page, state))
    }

    /// Makes the oldest page of a queue the newest of another one; returns it. Cheaper than a pop
    /// followed by a push.
    #[inline]
    pub fn shift(&mut self, from: usize, to: usize, state: u8) -> Option<PageId> {
        debug_assert_ne!(from, to, "they are two queues");
        let (page, _) = self.take_oldest(from)?;
        self.append(to, page, state);
        Some(page)
    }

    /// Blanks the oldest page's entry, which need not be passed over by the next search; the page
    /// keeps its position.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    fn take_oldest(&mut self, queue: usize) -> Option<(PageId, u8)> {
        let position = self.oldest(queue)?;
        let page = self.page(position);
        let state = core::mem::take(&mut self.states[position.0 as usize]);
        let ring = &mut self.rings[queue];
        ring.oldest = ring.following(position.0);
        ring.used -= 1;
        ring.len -= 1;
        Some((page, state))
    }

    /// Pass `ask` the pages of the entries that the next searches for the oldest page will reach,
    /// each once, so that it can prefetch its state of them. Some have left their entries. Call
    /// this after the oldest page was taken.
    #[inline]
    pub fn look_ahead(&mut self, queue: usize, mut ask: impl FnMut(PageId)) {
        let ring = &mut self.rings[queue];
        let size = ring.end - ring.begin;
        let offset = |entry: u32| entry - ring.begin;
        let target = (offset(ring.oldest) + LOOK_AHEAD_ENTRIES) % size;
        let from = offset(ring.looked_at);
        let behind = if from <= target { target - from } else { target + size - from };
        // Entries that were looked at may have been passed, or lie further ahead where a page came before.
        let behind = behind.min(LOOK_AHEAD_ENTRIES);
        for back in (1..=behind).rev() {
            let offset = if back <= target { target - back } else { target + size - back };
            ask(PageId(self.pages[(ring.begin + offset) as usize]));
        }
        // Each entry is asked for once, as its prefetch would be repeated at each eviction.
        ring.looked_at = ring.begin + target;
    }

    /// Return the position of the newest page of a queue.
    pub fn newest(&mut self, queue: usize) -> Option<Position> {
        let ring = &mut self.rings[queue];
        if ring.len == 0 {
            return None;
        }
        loop {
            let last = if ring.head == ring.begin { ring.end } else { ring.head } - 1;
            if self.states[last as usize] != 0 {
                return Some(Position(last));
            }
            ring.head = last;
            ring.used -= 1;
        }
    }

    /// Return the position of the next newer page of a queue.
    pub fn newer(&self, queue: usize, position: Position) -> Option<Position> {
        let ring = &self.rings[queue];
        let mut entry = ring.following(position.0);
        while entry != ring.head {
            if self.states[entry as usize] != 0 {
                return Some(Position(entry));
            }
            entry = ring.following(entry);
        }
        None
    }

    /// Return the number of entries that were written to a queue after one of its positions: as many
    /// pages as entered it since, as long as the ring was not squeezed.
    #[inline]
    pub fn entries_after(&self, queue: usize, position: Position) -> u32 {
        let Ring { begin, end, head, .. } = self.rings[queue];
        let next = position.0 + 1;
        if next <= head { head - next } else { (end - next) + (head - begin) }
    }

    /// Goes from a position to newer ones, up to the first page without `mark` in its state; takes
    /// the mark off all pages before it. `None` if all up to the newest had it.
    ///
    /// # Panics
    /// If the position is in another queue.
    pub fn unmark_up_to(&mut self, queue: usize, from: Position, mark: u8) -> Option<Position> {
        let ring = self.rings[queue];
        assert!((ring.begin..ring.end).contains(&from.0), "the position is the queue's");
        let shift = mark.trailing_zeros() - PRESENT.trailing_zeros();
        let mut entry = from.0;
        loop {
            // Before the end of the ring, or before the head if that comes first.
            let end = if entry < ring.head { ring.head } else { ring.end };
            while entry < end {
                // The last entries of a ring, and those up to the head, are fewer than a word.
                if end - entry < WORD {
                    let state = &mut self.states[entry as usize];
                    if *state != 0 && *state & mark == 0 {
                        return Some(Position(entry));
                    }
                    *state &= !mark;
                    entry += 1;
                    continue;
                }
                let range = entry as usize..(entry + WORD) as usize;
                let bytes: &mut [u8; WORD as usize] =
                    (&mut self.states[range]).try_into().expect("a range of a word");
                let word = u64::from_le_bytes(*bytes);
                let unmarked = word & !(word >> shift) & ALL_PRESENT;
                // All bits below the first unmarked entry, or all bits.
                let before = unmarked.wrapping_sub(1) & !unmarked;
                *bytes = (word & !(before & (ALL_PRESENT << shift))).to_le_bytes();
                if unmarked != 0 {
                    return Some(Position(entry + unmarked.trailing_zeros() / 8));
                }
                entry += WORD;
            }
            if entry == ring.head {
                return None;
            }
            entry = ring.begin;
            if entry == ring.head {
                return None;
            }
        }
    }

    /// Return the number of pages in a queue.
    #[inline]
    pub fn len(&self, queue: usize) -> u32 {
        self.rings[queue].len
    }

    /// Return `true` if a queue holds no page.
    #[inline]
    pub fn is_empty(&self, queue: usize) -> bool {
        self.len(queue) == 0
    }

    /// Return the pages of a queue, the oldest first.
    pub fn iter(&self, queue: usize) -> impl DoubleEndedIterator<Item = PageId> + '_ {
        let ring = &self.rings[queue];
        let entries = (0..ring.used).map(|place| ring.at(place) as usize);
        entries.filter(|&entry| self.states[entry] != 0).map(|entry| PageId(self.pages[entry]))
    }

    /// Prefetches the data that the next reference to `page` will read first.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        self.positions.prefetch(page.0);
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.positions.memory_bytes() + size_of_val(&*self.pages) + self.states.len()
    }

    /// Checks every invariant of the queues.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        let mut members = 0;
        for (queue, ring) in self.rings.iter().enumerate() {
            assert!(ring.used <= ring.end - ring.begin, "a ring does not overtake itself");
            assert_eq!(ring.at(ring.used), ring.head, "what is used ends at the head");
            let ahead = (ring.used..ring.end - ring.begin).map(|place| ring.at(place));
            for entry in ahead {
                assert_eq!(self.states[entry as usize], 0, "no page is ahead");
            }
            let mut counted = 0;
            for page in self.iter(queue) {
                let position = self.find(page).expect("every page is found");
                assert_eq!(self.queue_at(position), queue, "a page knows its queue");
                assert_eq!(self.page(position), page, "the index points back");
                assert_ne!(self.state(position) & PRESENT, 0, "a page of a queue is present");
                counted += 1;
            }
            assert_eq!(counted, ring.len, "every page is counted once");
            members += counted as usize;
        }
        assert_eq!(self.positions.count(), members, "every page of the index has an entry");
    }

    /// Moves the oldest entry of a queue that has pages to the first one that is not blank.
    #[inline(never)]
    fn pass_blanks(&mut self, queue: usize) {
        let ring = &mut self.rings[queue];
        loop {
            let end = (ring.oldest + ring.used).min(ring.end);
            let states = &self.states[ring.oldest as usize..end as usize];
            #[expect(clippy::cast_possible_truncation, reason = "entries are counted with u32")]
            let passed = first_member(states, u8::MAX).map(|offset| offset as u32);
            let step = passed.unwrap_or(end - ring.oldest);
            ring.used -= step;
            ring.oldest += step;
            if ring.oldest == ring.end {
                ring.oldest = ring.begin;
            }
            if passed.is_some() {
                return;
            }
        }
    }

    /// Frees an entry of a full ring, for a page that is about to be appended.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, queue: usize, coming: PageId) {
        if self.rings[queue].len == 0 {
            let ring = &mut self.rings[queue];
            (ring.oldest, ring.used) = (ring.head, 0);
            return;
        }
        self.pass_blanks(queue);
        let ring = self.rings[queue];
        if ring.used < ring.end - ring.begin {
            return;
        }
        assert!(ring.len < ring.used, "a queue holds no more pages than its capacity");
        if self.positions.is_sparse() {
            self.unindex(queue, coming);
        }
        // Processors cannot predict which entries are blank, so no branch depends on it: a blank
        // entry is moved too, and the next one overwrites it. The ring is full: its oldest entry is
        // its end, too.
        let mut target = ring.oldest;
        for entries in [ring.oldest..ring.end, ring.begin..ring.oldest] {
            for source in entries {
                let page = self.pages[source as usize];
                let state = core::mem::take(&mut self.states[source as usize]);
                self.pages[target as usize] = page;
                self.states[target as usize] = state;
                target = if state == 0 { target } else { ring.following(target) };
            }
        }
        let mut entry = ring.oldest;
        for _ in 0..ring.len {
            self.positions.put(self.pages[entry as usize], entry, page_of(&self.pages));
            entry = ring.following(entry);
        }
        let ring = &mut self.rings[queue];
        (ring.head, ring.used) = (target, ring.len);
    }

    /// Takes all pages of a ring, and a page that leaves it or another one, out of the sparse index,
    /// which finds them by the entries that are about to be moved.
    fn unindex(&mut self, queue: usize, coming: PageId) {
        // The caller has blanked the page's entry already, so the loop below would not find it.
        self.positions.remove(coming.0, page_of(&self.pages));
        let Ring { begin, end, .. } = self.rings[queue];
        for entry in begin as usize..end as usize {
            if self.states[entry] != 0 {
                self.positions.remove(self.pages[entry], page_of(&self.pages));
            }
        }
    }
}

/// Return the page that each entry was written for.
#[inline]
fn page_of(pages: &[u32]) -> impl Fn(u32) -> u32 + '_ {
    |entry| pages[entry as usize]
}

impl Ring {
    /// Return `true` if no entry is free.
    #[inline]
    const fn is_full(&self) -> bool {
        self.used == self.end - self.begin
    }

    /// Return the entry after this one.
    #[inline]
    const fn following(&self, entry: u32) -> u32 {
        if entry + 1 == self.end { self.begin } else { entry + 1 }
    }

    /// Return the entry so many after the oldest.
    #[inline]
    const fn at(&self, place: u32) -> u32 {
        let from_begin = self.oldest - self.begin;
        let entries = self.end - self.begin;
        if place < entries - from_begin {
            self.oldest + place
        } else {
            self.begin + (place - (entries - from_begin))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QUEUES: usize = 3;
    const PAGES: u32 = 12;
    const MARK: u8 = 4;

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize, u32, u8),
        PushOldest(usize, u32, u8),
        Renew(usize, u32, u8),
        Shift(usize, usize, u8),
        Remove(u32),
        SetState(u32, u8),
        Pop(usize),
        Newest(usize),
        Unmark(u32),
    }

    fn state() -> impl Strategy<Value = u8> {
        (0_u8..16).prop_map(|bits| bits | PRESENT)
    }

    fn ids() -> impl Strategy<Value = Ids> {
        prop_oneof![Just(Ids::dense(PAGES)), Just(Ids::sparse(PAGES))]
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            9 => (0..QUEUES, 0..PAGES, state())
                .prop_map(|(queue, page, state)| Step::Push(queue, page, state)),
            4 => (0..QUEUES, 0..PAGES, state())
                .prop_map(|(queue, page, state)| Step::Renew(queue, page, state)),
            2 => (0..QUEUES, 1..QUEUES, state()).prop_map(|(from, further, state)| {
                Step::Shift(from, (from + further) % QUEUES, state)
            }),
            2 => (0..PAGES).prop_map(Step::Remove),
            2 => (0..QUEUES, 0..PAGES, state())
                .prop_map(|(queue, page, state)| Step::PushOldest(queue, page, state)),
            2 => (0..PAGES, state()).prop_map(|(page, state)| Step::SetState(page, state)),
            2 => (0..QUEUES).prop_map(Step::Pop),
            1 => (0..QUEUES).prop_map(Step::Newest),
            2 => (0..PAGES).prop_map(Step::Unmark),
        ];
        prop::collection::vec(step, 0..900)
    }

    proptest! {
        #[test]
        fn queues_are_vectors_of_pages(steps in steps(), ids in ids()) {
            let mut logs = Logs::new(
                ids,
                PAGES,
                [(PAGES, Use::Fifo), (PAGES, Use::Leaky), (PAGES, Use::Lru)],
            );
            let mut model: [Vec<(u32, u8)>; QUEUES] = [const { vec![] }; QUEUES];
            for step in steps {
                match step {
                    Step::Push(queue, page, state) => {
                        take_out(&mut logs, &mut model, page);
                        logs.push(queue, PageId(page), state);
                        model[queue].push((page, state));
                    }
                    Step::PushOldest(queue, page, state) => {
                        take_out(&mut logs, &mut model, page);
                        logs.push_oldest(queue, PageId(page), state);
                        model[queue].insert(0, (page, state));
                    }
                    Step::Renew(queue, page, state) => {
                        if let Some(position) = logs.find(PageId(page)) {
                            let from = logs.queue_at(position);
                            logs.renew(PageId(page), (from, position), queue, state);
                            model[from].retain(|entry| entry.0 != page);
                            model[queue].push((page, state));
                        }
                    }
                    Step::Shift(from, to, state) => {
                        let expected = (!model[from].is_empty()).then(|| model[from].remove(0).0);
                        model[to].extend(expected.map(|page| (page, state)));
                        let shifted = logs.shift(from, to, state).map(|page| page.0);
                        prop_assert_eq!(shifted, expected);
                    }
                    Step::Remove(page) => take_out(&mut logs, &mut model, page),
                    Step::SetState(page, state) => {
                        if let Some(position) = logs.find(PageId(page)) {
                            logs.set_state(position, state);
                        }
                        for entry in model.iter_mut().flatten().filter(|entry| entry.0 == page) {
                            entry.1 = state;
                        }
                    }
                    Step::Pop(queue) => {
                        let expected = (!model[queue].is_empty()).then(|| model[queue].remove(0));
                        let popped = logs.pop(queue).map(|(page, state)| (page.0, state));
                        prop_assert_eq!(popped, expected);
                    }
                    Step::Newest(queue) => {
                        let newest = logs.newest(queue).map(|position| logs.page(position).0);
                        prop_assert_eq!(newest, model[queue].last().map(|entry| entry.0));
                    }
                    Step::Unmark(page) => {
                        if let Some(from) = logs.find(PageId(page)) {
                            let queue = logs.queue_at(from);
                            let found = logs.unmark_up_to(queue, from, MARK);
                            let found = found.map(|position| logs.page(position).0);
                            prop_assert_eq!(found, unmark_up_to(&mut model[queue], page));
                        }
                    }
                }
                logs.assert_invariants();
                for (queue, model) in model.iter().enumerate() {
                    prop_assert_eq!(logs.len(queue) as usize, model.len());
                    prop_assert!(logs.iter(queue).map(|page| page.0).eq(model.iter().map(|e| e.0)));
                    for (place, &(page, state)) in model.iter().enumerate() {
                        let position = logs.find(PageId(page)).unwrap();
                        prop_assert_eq!(logs.queue_of(PageId(page)), Some(queue));
                        prop_assert_eq!(logs.state(position), state);
                        let newer = logs.newer(queue, position).map(|newer| logs.page(newer).0);
                        prop_assert_eq!(newer, model.get(place + 1).map(|entry| entry.0));
                    }
                }
            }
        }
    }

    fn take_out(logs: &mut Logs<QUEUES>, model: &mut [Vec<(u32, u8)>; QUEUES], page: u32) {
        if let Some(position) = logs.find(PageId(page)) {
            logs.remove(logs.queue_at(position), position);
        }
        for queue in model {
            queue.retain(|entry| entry.0 != page);
        }
    }

    fn unmark_up_to(model: &mut [(u32, u8)], from: u32) -> Option<u32> {
        let first = model.iter().position(|entry| entry.0 == from).unwrap();
        for (page, state) in &mut model[first..] {
            if *state & MARK == 0 {
                return Some(*page);
            }
            *state &= !MARK;
        }
        None
    }

    /// Rings go round many times, and searches begin at any offset to their ends.
    #[test]
    fn rings_go_round() {
        let mut logs = Logs::new(Ids::sparse(1000), 50, [(50, Use::Fifo), (50, Use::Lru)]);
        let mut model = alloc::collections::VecDeque::new();
        for time in 0..20_000_u32 {
            let page = PageId(time % 997);
            if logs.len(0) == 50 {
                assert_eq!(logs.pop(0).map(|popped| popped.0), model.pop_front());
            }
            if logs.find(page).is_none() {
                logs.push(0, page, PRESENT);
                model.push_back(page);
            }
            if time % 7 == 0
                && let Some(position) = logs.find(model[(time % 31) as usize % model.len()])
            {
                let page = logs.page(position);
                logs.remove(0, position);
                model.retain(|&known| known != page);
            }
        }
        logs.assert_invariants();
        assert!(logs.iter(0).eq(model));
    }
}
