//! Pages in the order of their last reference, with classes that can be searched from the old end.
//!
//! A linked list pays for a move to the front with writes to four random places. Here the order is
//! a log instead: a reference appends the page to the log and blanks its former entry, so it writes
//! one random byte and appends in sequence. Blank entries are squeezed out when the log is full,
//! which costs less than one entry per append.
//!
//! Each page carries one byte of state, whose bits the policy defines; zero means that the page is
//! not in the queue. A *class* is a mask over that byte. The oldest page of a class is found from a
//! cursor that moves towards the new end, and back when a page behind it joins the class. So one
//! queue serves a policy that needs several orders at once (all pages, those in memory, those on
//! flash): they are the same order, restricted.
//!
//! A queue of several classes also keeps, per chunk of entries and per chunk of chunks, the union of
//! the states that were written there. A search passes over chunks whose union lacks the class, and
//! takes the class out of the union of a chunk in which it found none.
//!
//! * State: 4 bytes per page that exists, 20 bytes per page that the queue can hold; sparse, none and
//!   14.
//! * Cost: touch and removal amortised O(1); a search passes 8 entries a step, or 4096 where the
//!   class is absent.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use super::directory::{ABSENT, Directory, Places};
use crate::PageId;
use crate::prefetch::prefetch_or_last;
use crate::{Ids, Indexing};

/// Length of the log divided by that of the queue: the longer, the rarer it is squeezed.
const LOG_FACTOR: usize = 4;
/// Room beyond the factor, so that a queue of few pages is not squeezed at each step.
const LOG_MARGIN: usize = 64;
/// A log has fewer entries than this.
const ENTRIES_LIMIT: usize = u32::MAX as usize;
/// Distance from a search, in log entries, at which the tables of coming victims are prefetched.
const PREFETCH_ENTRIES: usize = 12;
/// Distance from a search, in log entries, at which other tables prefetch their state of the pages
/// to come.
const LOOK_AHEAD_ENTRIES: usize = 24;
/// Number of entries each search asks for, so that there is no loop whose end cannot be predicted.
const LOOK_AHEAD_STEP: usize = 4;
/// Entries that a search looks at together.
const WORD: usize = 8;
/// Entries per chunk, and chunks per chunk of chunks.
const CHUNK: usize = 64;

/// A queue of pages by last reference; `CLASSES` is the number of masks that can be searched.
#[derive(Clone, Debug)]
pub struct Recency<const CLASSES: usize> {
    /// Each page's entry in the log.
    positions: Directory,
    /// Per entry: the page that it was written for, whether it still is there or not.
    pages: Vec<u32>,
    /// Per entry: the state of its page, or zero if the entry is blank.
    states: Vec<u8>,
    /// Per chunk of entries: no class is here that the union lacks. Empty for a single class.
    chunks: Vec<u8>,
    /// The same, per chunk of chunks.
    chunks_of_chunks: Vec<u8>,
    /// The next entry to be written; all after it are blank.
    head: usize,
    /// Pages in the queue.
    len: u32,
    masks: [u8; CLASSES],
    /// Per class: no entry before this one belongs to it.
    cursors: [usize; CLASSES],
    /// Entries before this one are behind the boundary.
    boundary: usize,
    /// Per class: entries before this one have been looked at ahead of a search.
    looked_at: [usize; CLASSES],
}

/// A place in the queue; greater is newer. Valid until the next [`touch`](Recency::touch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u32);

impl<const CLASSES: usize> Recency<CLASSES> {
    /// Create an empty queue of at most `capacity` pages at a time.
    pub fn new(ids: Ids, capacity: u32, masks: [u8; CLASSES]) -> Self {
        let capacity = capacity.min(ids.pages) as usize;
        Self::with(Directory::new(ids, capacity), capacity, ids.indexing, masks)
    }

    /// Create an empty queue of slots below `slots`, whose places are a table whatever the
    /// indexing.
    pub fn of_slots(slots: u32, indexing: Indexing, masks: [u8; CLASSES]) -> Self {
        let capacity = slots as usize;
        Self::with(Directory::new(Ids::dense(slots), capacity), capacity, indexing, masks)
    }

    fn with(
        positions: Directory,
        capacity: usize,
        indexing: Indexing,
        masks: [u8; CLASSES],
    ) -> Self {
        // A sparse queue has a log as short as may be, which is squeezed more often.
        let entries = match indexing {
            Indexing::Dense => capacity * LOG_FACTOR,
            Indexing::Sparse => capacity + capacity / 2,
        };
        let entries = (entries + LOG_MARGIN).min(ENTRIES_LIMIT);
        let chunks = if CLASSES > 1 { entries.div_ceil(CHUNK) } else { 0 };
        Self {
            positions,
            pages: vec![0; entries],
            states: vec![0; entries],
            chunks: vec![0; chunks],
            chunks_of_chunks: vec![0; chunks.div_ceil(CHUNK)],
            head: 0,
            len: 0,
            masks,
            cursors: [0; CLASSES],
            boundary: 0,
            looked_at: [0; CLASSES],
        }
    }

    /// Find `page` and its state, if it is in the queue.
    #[inline]
    pub fn find(&self, page: PageId) -> Option<(Position, u8)> {
        let position = self.positions.find(page.0, page_of(&self.pages));
        self.states.get(position as usize).map(|&state| (Position(position), state))
    }

    /// Find `page` and its state; any position, with state zero, if it is not in the queue. There
    /// is no branch, for pages of which a processor cannot predict whether they are there.
    #[inline]
    pub fn find_or_zero(&self, page: PageId) -> (Position, u8) {
        let position = self.positions.find(page.0, page_of(&self.pages));
        let is_there = u8::from(position != ABSENT);
        let entry = (position as usize).min(self.states.len() - 1);
        (Position(position), self.states[entry] & 0_u8.wrapping_sub(is_there))
    }

    /// Return the state of `page`, zero if it is not in the queue.
    #[inline]
    pub fn state(&self, page: PageId) -> u8 {
        self.find(page).map_or(0, |(_, state)| state)
    }

    /// Return the page at a position.
    #[inline]
    pub fn page(&self, position: Position) -> PageId {
        PageId(self.pages[position.0 as usize])
    }

    /// Makes `page` the newest and gives it `state`, which must not be zero; returns its state before,
    /// zero if it was not in the queue.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    pub fn touch(&mut self, page: PageId, state: u8) -> u8 {
        self.touch_with(page, |_, _| state)
    }

    /// Makes `page` the newest and gives it the state that `next` makes of its state before, zero if it
    /// was not in the queue, and of whether it was behind the boundary; returns its state before.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    pub fn touch_with(&mut self, page: PageId, next: impl FnOnce(u8, bool) -> u8) -> u8 {
        // Before the page's former position is read: squeezing moves it.
        if self.head == self.states.len() {
            self.squeeze();
        }
        #[expect(clippy::cast_possible_truncation, reason = "a log has fewer entries than 2^32")]
        let position = self.positions.put(page.0, self.head as u32, page_of(&self.pages));
        // The former entry turns blank in place: nothing is moved or unlinked.
        let former = self.states.get_mut(position as usize).map_or(0, mem::take);
        let state = next(former, (position as usize) < self.boundary);
        debug_assert_ne!(state, 0, "zero means that a page is not in the queue");
        self.len += u32::from(former == 0);
        self.pages[self.head] = page.0;
        self.states[self.head] = state;
        self.note(self.head, state);
        self.head += 1;
        former
    }

    /// Changes the state of the page at `position`, which keeps its place; zero removes it.
    #[inline]
    pub fn set_state(&mut self, position: Position, state: u8) {
        let entry = position.0 as usize;
        debug_assert_ne!(self.states[entry], 0, "a page is at this position");
        self.states[entry] = state;
        if state == 0 {
            self.positions.remove(self.pages[entry], page_of(&self.pages));
            self.len -= 1;
            return;
        }
        self.note(entry, state);
        for (cursor, mask) in self.cursors.iter_mut().zip(self.masks) {
            if state & mask != 0 {
                // Entries before the cursor have no member of the class, so a new member there
                // moves it back.
                *cursor = (*cursor).min(entry);
            }
        }
    }

    /// Return the oldest page of a class, with its state.
    #[inline]
    pub fn oldest(&mut self, class: usize) -> Option<(Position, u8)> {
        let mut entry = self.cursors[class];
        let mut state = *self.states[..self.head].get(entry)?;
        if state & self.masks[class] == 0 {
            entry = match self.next_member(entry, class) {
                Some(near) => self.stop_at(near, class),
                None => self.search(entry + 1, class),
            };
            state = *self.states[..self.head].get(entry)?;
        }
        #[expect(clippy::cast_possible_truncation, reason = "a log has fewer entries than 2^32")]
        Some((Position(entry as u32), state))
    }

    /// Moves the boundary to just behind `position`: what is older is behind the boundary.
    pub fn set_boundary(&mut self, position: Position) {
        self.boundary = position.0 as usize;
    }

    /// Moves the boundary before the newest page: every page is behind the boundary.
    pub fn set_boundary_to_newest(&mut self) {
        self.boundary = self.head;
    }

    /// Return `true` if a position is behind the boundary, that is, on its old side.
    #[inline]
    pub fn is_behind_boundary(&self, position: Position) -> bool {
        (position.0 as usize) < self.boundary
    }

    /// Return the number of pages in the queue.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Return `true` if the queue holds no page.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Return all pages, the oldest first, with their states.
    pub fn iter(&self) -> impl Iterator<Item = (Position, PageId, u8)> + '_ {
        (0_u32..)
            .zip(self.pages[..self.head].iter().zip(&self.states))
            .filter(|(_, (_, state))| **state != 0)
            .map(|(entry, (page, state))| (Position(entry), PageId(*page), *state))
    }

    /// Replaces the state of every page by what `next` makes of it, which must not be zero.
    pub fn update_states(&mut self, mut next: impl FnMut(PageId, u8) -> u8) {
        for entry in 0..self.head {
            if self.states[entry] != 0 {
                let state = next(PageId(self.pages[entry]), self.states[entry]);
                debug_assert_ne!(state, 0, "an update removes no page");
                self.states[entry] = state;
                self.note(entry, state);
            }
        }
        self.cursors = [0; CLASSES];
    }

    /// Prefetches the data that the next reference to `page` will read first.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        self.positions.prefetch(page.0);
    }

    /// Asks the processor for the state of a page whose position was [asked for](Self::prefetch), and
    /// returns `true` if the page has one.
    #[inline]
    pub fn prefetch_state(&self, page: PageId) -> bool {
        let position = self.positions.look_up(page.0);
        prefetch_or_last(&self.states, position);
        position != ABSENT
    }

    /// Pass `ask` some pages of the entries that the next searches for the oldest page will reach,
    /// so that it can prefetch its state of them. Some have left their entries, and some are passed
    /// twice. Call this after a search.
    #[inline]
    pub fn look_ahead(&mut self, class: usize, mut ask: impl FnMut(PageId)) {
        let end = self.cursors[class] + LOOK_AHEAD_ENTRIES;
        let begin = self.looked_at[class].max(self.cursors[class]);
        let last = self.pages.len() - 1;
        for entry in begin..begin + LOOK_AHEAD_STEP {
            ask(PageId(self.pages[entry.min(last)]));
        }
        self.looked_at[class] = (begin + LOOK_AHEAD_STEP).min(end);
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let per_entry = size_of_val(&*self.pages) + size_of_val(&*self.states);
        let per_chunk = self.chunks.len() + self.chunks_of_chunks.len();
        self.positions.memory_bytes() + per_entry + per_chunk
    }

    /// Checks every invariant of the queue.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        assert!(self.states[self.head..].iter().all(|&state| state == 0), "no page is ahead");
        assert!(self.boundary <= self.head, "the boundary lies within the log");
        let mut len = 0;
        for (position, page, _) in self.iter() {
            let (found, _) = self.find(page).expect("every page is found");
            assert_eq!(found, position, "the directory points back");
            len += 1;
        }
        assert_eq!(len, self.len, "every page is counted once");
        assert_eq!(self.positions.count(), len as usize, "every page found has an entry");
        for (entry, state) in
            self.states.iter().enumerate().take(self.head * usize::from(CLASSES > 1))
        {
            assert_eq!(state & !self.chunks[entry / CHUNK], 0, "a chunk's union has every state");
            let union = self.chunks_of_chunks[entry / CHUNK / CHUNK];
            assert_eq!(state & !union, 0, "a union of unions has every state");
        }
        for (cursor, mask) in self.cursors.iter().zip(self.masks) {
            let before = &self.states[..*cursor];
            assert!(before.iter().all(|state| state & mask == 0), "no member is before the cursor");
        }
    }

    /// Adds a state to the unions of the chunks that hold an entry.
    #[inline]
    fn note(&mut self, entry: usize, state: u8) {
        if CLASSES > 1 {
            self.chunks[entry / CHUNK] |= state;
            self.chunks_of_chunks[entry / CHUNK / CHUNK] |= state;
        }
    }

    /// Return the first member of a class among the entries of a word, if it is there: where most
    /// searches end.
    #[inline]
    fn next_member(&self, entry: usize, class: usize) -> Option<usize> {
        let states = self.states[entry..].first_chunk::<WORD>()?;
        let members = u64::from_le_bytes(*states) & u64::from_le_bytes([self.masks[class]; WORD]);
        (members != 0).then(|| entry + members.trailing_zeros() as usize / 8)
    }

    /// Moves the cursor of a class to the first member from `entry` on, or to the head of the log.
    #[inline(never)]
    fn search(&mut self, entry: usize, class: usize) -> usize {
        let found = self.first_from(entry, self.masks[class]);
        self.stop_at(found, class)
    }

    /// Moves the cursor of a class to an entry, which is returned.
    #[inline]
    fn stop_at(&mut self, found: usize, class: usize) -> usize {
        self.cursors[class] = found;
        if let Some(&coming) = self.pages.get(found + PREFETCH_ENTRIES) {
            self.positions.prefetch(coming);
        }
        found
    }

    /// Return the first entry from `entry` on that belongs to a class, or the head of the log.
    #[inline]
    fn first_from(&mut self, mut entry: usize, mask: u8) -> usize {
        while entry < self.head {
            let is_at_chunk = CLASSES > 1 && entry.is_multiple_of(CHUNK);
            if is_at_chunk {
                entry = self.next_chunk(entry / CHUNK, mask) * CHUNK;
                if entry >= self.head {
                    break;
                }
            }
            let end = if CLASSES > 1 { (entry / CHUNK + 1) * CHUNK } else { self.head };
            let states = &self.states[entry..end.min(self.head)];
            if let Some(offset) = first_member(states, mask) {
                return entry + offset;
            }
            if is_at_chunk {
                // The search has seen the whole chunk, so the union may drop the class: later
                // searches skip the chunk.
                self.chunks[entry / CHUNK] &= !mask;
            }
            entry = end;
        }
        self.head
    }

    /// Return the first chunk from `chunk` on that may hold a member of the class, or one past the
    /// last.
    fn next_chunk(&mut self, mut chunk: usize, mask: u8) -> usize {
        while chunk < self.chunks.len() {
            let is_at_chunk = chunk.is_multiple_of(CHUNK);
            if is_at_chunk {
                match first_member(&self.chunks_of_chunks[chunk / CHUNK..], mask) {
                    Some(offset) => chunk += offset * CHUNK,
                    None => break,
                }
            }
            let end = ((chunk / CHUNK + 1) * CHUNK).min(self.chunks.len());
            if let Some(offset) = first_member(&self.chunks[chunk..end], mask) {
                return chunk + offset;
            }
            if is_at_chunk {
                self.chunks_of_chunks[chunk / CHUNK] &= !mask;
            }
            chunk = end;
        }
        self.chunks.len()
    }

    /// Moves all pages to the start of the log, in order.
    #[cold]
    fn squeeze(&mut self) {
        // The two sides are squeezed apart, so that each page stays on its side of the boundary.
        let boundary = self.squeeze_range(0..self.boundary, 0);
        let head = self.squeeze_range(self.boundary..self.head, boundary);
        assert!(head < self.states.len(), "the queue holds no more pages than its capacity");
        self.states[head..self.head].fill(0);
        // Every position changed, so the directory is filled again.
        self.positions.refill(self.pages[..head].iter().copied().zip(0_u32..));
        self.head = head;
        self.boundary = boundary;
        self.looked_at = [0; CLASSES];
        self.cursors = [0; CLASSES];
        self.chunks.fill(0);
        self.chunks_of_chunks.fill(0);
        if CLASSES > 1 {
            for (chunk, states) in self.states[..head].chunks(CHUNK).enumerate() {
                let union = states.iter().fold(0, |union, state| union | state);
                self.chunks[chunk] = union;
                self.chunks_of_chunks[chunk / CHUNK] |= union;
            }
        }
    }

    /// Move the pages of some entries to `target` and the following entries, and return the end of
    /// those.
    ///
    /// Processors cannot predict which entries are blank, so no branch depends on it: a blank entry
    /// is moved too, and the next one overwrites it.
    fn squeeze_range(&mut self, entries: Range<usize>, mut target: usize) -> usize {
        for entry in entries {
            let state = self.states[entry];
            self.pages[target] = self.pages[entry];
            self.states[target] = state;
            target += usize::from(state != 0);
        }
        target
    }
}

/// Return the page that each entry of the log was written for.
#[inline]
fn page_of(pages: &[u32]) -> impl Fn(u32) -> u32 + '_ {
    |entry| pages[entry as usize]
}

/// Return the first of some states, or unions of states, that belongs to a class.
#[inline]
pub(super) fn first_member(states: &[u8], mask: u8) -> Option<usize> {
    let masks = u64::from_le_bytes([mask; WORD]);
    let (words, rest) = states.as_chunks::<WORD>();
    for (index, word) in words.iter().enumerate() {
        let members = u64::from_le_bytes(*word) & masks;
        if members != 0 {
            return Some(index * WORD + members.trailing_zeros() as usize / 8);
        }
    }
    let offset = rest.iter().position(|state| state & mask != 0)?;
    Some(states.len() - rest.len() + offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANY: usize = 0;
    const ODD: usize = 1;

    #[derive(Clone, Debug)]
    enum Step {
        Touch(u32, u8),
        SetState(u32, u8),
        Boundary(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0_u32..12, 1_u8..8).prop_map(|(page, state)| Step::Touch(page, state)),
            3 => (0_u32..12, 0_u8..8).prop_map(|(page, state)| Step::SetState(page, state)),
            1 => (0_u32..12).prop_map(Step::Boundary),
        ];
        prop::collection::vec(step, 0..600)
    }

    proptest! {
        #[test]
        fn matches_a_vector_of_pages(
            steps in steps(),
            indexing in prop_oneof![Just(Indexing::Dense), Just(Indexing::Sparse)],
        ) {
            let mut queue = Recency::new(Ids { pages: 12, indexing }, 12, [0xff, 1]);
            let mut model: Vec<(u32, u8)> = vec![];
            let mut behind: Vec<u32> = vec![];
            for step in steps {
                match step {
                    Step::Touch(page, state) => {
                        queue.touch(PageId(page), state);
                        model.retain(|entry| entry.0 != page);
                        behind.retain(|&known| known != page);
                        model.push((page, state));
                    }
                    Step::SetState(page, state) => {
                        if let Some((position, _)) = queue.find(PageId(page)) {
                            queue.set_state(position, state);
                            for entry in model.iter_mut().filter(|entry| entry.0 == page) {
                                entry.1 = state;
                            }
                            model.retain(|entry| entry.1 != 0);
                        }
                    }
                    Step::Boundary(page) => {
                        if let Some((position, _)) = queue.find(PageId(page)) {
                            queue.set_boundary(position);
                            behind = model.iter().map(|entry| entry.0).collect();
                            behind.truncate(model.iter().position(|e| e.0 == page).unwrap());
                        }
                    }
                }
                queue.assert_invariants();
                let oldest = |queue: &mut Recency<2>, class| {
                    queue.oldest(class).map(|(position, state)| (queue.page(position).0, state))
                };
                prop_assert_eq!(oldest(&mut queue, ANY), model.first().copied());
                let odd = model.iter().find(|entry| entry.1 & 1 != 0).copied();
                prop_assert_eq!(oldest(&mut queue, ODD), odd);
                for &(page, state) in &model {
                    let (position, found) = queue.find(PageId(page)).unwrap();
                    prop_assert_eq!(found, state);
                    prop_assert_eq!(queue.is_behind_boundary(position), behind.contains(&page));
                }
            }
        }
    }

    /// A log that ends with a chunk, and a search that finds no member up to its end.
    #[test]
    fn finds_nothing_at_the_end_of_a_full_log() {
        let mut queue = Recency::new(Ids::dense(16), 16, [0xff, 1]);
        for page in (0..128).map(|step| PageId(step % 16)) {
            queue.touch(page, 3);
            if let Some((position, _)) = queue.find(page) {
                queue.set_state(position, 2);
            }
        }
        assert_eq!(queue.head, queue.states.len(), "the log is full");
        assert_eq!(queue.oldest(ODD), None);
        queue.assert_invariants();
    }

    /// Long enough that the log has chunks of chunks, and is squeezed; sparse enough that searches
    /// pass over them.
    #[test]
    fn finds_members_far_apart() {
        const PAGES: u32 = 6_000;
        let mut queue = Recency::new(Ids::dense(PAGES), PAGES, [0xff, 1]);
        let mut model = alloc::collections::BTreeMap::new();
        let mut last_touch = vec![0_u64; PAGES as usize];
        let mut seed = 1_u64;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) as u32) % below
        };
        for time in 1..120_000_u64 {
            let page = random(PAGES);
            model.remove(&last_touch[page as usize]);
            last_touch[page as usize] = time;
            model.insert(time, (page, 2_u8));
            queue.touch(PageId(page), 2);
            let other = random(PAGES);
            if let Some((position, state)) = queue.find(PageId(other)) {
                let next = [1, 2, 2, 0, state][random(5) as usize];
                queue.set_state(position, next);
                match next {
                    0 => drop(model.remove(&last_touch[other as usize])),
                    _ => drop(model.insert(last_touch[other as usize], (other, next))),
                }
            }
            let found = queue.oldest(ODD).map(|(position, _)| queue.page(position).0);
            let expected = model.values().find(|entry| entry.1 & 1 != 0).map(|entry| entry.0);
            assert_eq!(found, expected, "time {time}");
            if random(4) > 0
                && let Some((position, _)) = queue.oldest(ODD)
            {
                queue.set_state(position, 2);
                let page = queue.page(position).0;
                model.insert(last_touch[page as usize], (page, 2));
            }
        }
        queue.assert_invariants();
    }
}
