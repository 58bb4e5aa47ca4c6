//! The slots of the flash, as the engine knows them: 16 bytes each, and 2 more where page numbers have
//! more than 32 bits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::format::table::Row;
use crate::format::{join, split};

/// A slot by its position on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct SlotId(pub(crate) u32);

/// Use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SlotState {
    /// Holds nothing that anybody needs.
    Free = 0,
    /// Is being written. A record may name it already, and counts only once it is written.
    Writing = 1,
    /// Holds the newest version of its page that flash has; a record says so.
    Live = 2,
    /// A record says that it is no longer needed, or that another slot holds a newer version; it
    /// is used again when that record is durable.
    Obsolete = 3,
}

const STATE_MASK: u64 = 0b11;
const DIRTY: u64 = 1 << 2;
const VISIBLE: u64 = 1 << 3;
const VERSION_SHIFT: u32 = 8;

/// The greatest version that a slot can name.
pub(crate) const VERSION_MAX: u64 = u64::MAX >> VERSION_SHIFT;

/// One slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    /// The lower bits of the number of the page that it was last used for.
    lower: u32,
    pub(crate) checksum: u32,
    /// The version, and flags in the lower byte.
    word: u64,
}

const _: () = assert!(size_of::<Slot>() == 16, "the engine promises few bytes per flash page");

impl Slot {
    fn new(lower: u32, checksum: u32, version: u64, state: SlotState) -> Self {
        assert!(version <= VERSION_MAX, "versions do not run out");
        Self { lower, checksum, word: version << VERSION_SHIFT | state as u64 }
    }

    #[inline]
    pub(crate) const fn version(self) -> u64 {
        self.word >> VERSION_SHIFT
    }

    #[inline]
    pub(crate) const fn state(self) -> SlotState {
        match self.word & STATE_MASK {
            0 => SlotState::Free,
            1 => SlotState::Writing,
            2 => SlotState::Live,
            _ => SlotState::Obsolete,
        }
    }

    /// Return `true` if the disk may not have this version durably.
    #[inline]
    pub(crate) const fn is_dirty(self) -> bool {
        self.word & DIRTY != 0
    }

    /// Return `true` if the policy believes that flash holds the page.
    #[inline]
    pub(crate) const fn is_visible(self) -> bool {
        self.word & VISIBLE != 0
    }

    const fn set_state(&mut self, state: SlotState) {
        self.word = self.word & !STATE_MASK | state as u64;
    }

    const fn set_dirty(&mut self, is_dirty: bool) {
        self.word = self.word & !DIRTY | if is_dirty { DIRTY } else { 0 };
    }

    const fn set_visible(&mut self, is_visible: bool) {
        self.word = self.word & !VISIBLE | if is_visible { VISIBLE } else { 0 };
    }
}

/// An obsolete slot, waiting for its record to be durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Obsolete {
    pub(crate) slot: SlotId,
    /// Number of records that must be durable.
    pub(crate) records: u64,
}

/// All slots.
#[expect(clippy::struct_field_names, reason = "they say which slots are counted")]
#[derive(Debug)]
pub(crate) struct Slots {
    table: Vec<Slot>,
    /// The upper bits of the page numbers; empty if these have no more than 32 bits.
    uppers: Vec<u16>,
    /// One bit per slot: whether it is free.
    free: Vec<u64>,
    free_slots: u32,
    /// Position at which the search for a free slot goes on: slots are taken in ascending order, so
    /// that pages that are written together lie together.
    cursor: usize,
    obsolete: VecDeque<Obsolete>,
    live_slots: u32,
    dirty_slots: u32,
    /// Slots whose reads or writes failed. They are not used again, in use or not.
    condemned: BTreeSet<SlotId>,
    /// Slots that are being read, and by how many reads: they are not used again before.
    pinned: BTreeMap<SlotId, u32>,
    /// Slots that would be free if they were not being read.
    freed_while_pinned: BTreeSet<SlotId>,
    /// The first slot of those that are left: no page goes there any more.
    limit: Option<u32>,
}

impl Slots {
    /// Create `slots` free slots, for pages of a backing store of `backing_pages`.
    pub(crate) fn new(slots: u32, backing_pages: u64) -> Self {
        let is_wide = backing_pages > 1 << 32;
        let words = (slots as usize).div_ceil(64);
        let mut free = vec![u64::MAX; words];
        if let Some(last) = free.last_mut()
            && !slots.is_multiple_of(64)
        {
            *last = (1 << (slots % 64)) - 1;
        }
        Self {
            table: vec![Slot::default(); slots as usize],
            uppers: vec![0; if is_wide { slots as usize } else { 0 }],
            free,
            free_slots: slots,
            cursor: 0,
            obsolete: VecDeque::new(),
            live_slots: 0,
            dirty_slots: 0,
            condemned: BTreeSet::new(),
            pinned: BTreeMap::new(),
            freed_while_pinned: BTreeSet::new(),
            limit: None,
        }
    }

    /// Add free slots, so that there are that many.
    pub(crate) fn grow(&mut self, slots: u32) {
        let former = self.count();
        self.table.resize(slots as usize, Slot::default());
        if !self.uppers.is_empty() {
            self.uppers.resize(slots as usize, 0);
        }
        self.free.resize((slots as usize).div_ceil(64), 0);
        for slot in former..slots {
            self.free[slot as usize / 64] |= 1 << (slot % 64);
        }
        self.free_slots += slots.saturating_sub(former);
    }

    /// Use no slot from this one on any more. Pages that are there stay until they are given up.
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = Some(limit);
        // No page goes there from here on; those that are there leave.
        for slot in limit..self.count() {
            let (word, bit) = (&mut self.free[slot as usize / 64], 1 << (slot % 64));
            self.free_slots -= u32::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    /// Use all slots again.
    pub(crate) fn lift_limit(&mut self) {
        for slot in self.limit.take().map_or(0..0, |limit| limit..self.count()) {
            let id = SlotId(slot);
            let is_free = self.slot(id).state() == SlotState::Free && !self.condemned.contains(&id);
            self.free[slot as usize / 64] |= u64::from(is_free) << (slot % 64);
            self.free_slots += u32::from(is_free);
        }
    }

    /// Return the first slot of those that are left, if some are.
    pub(crate) const fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// Return `true` if no page goes to this slot any more.
    pub(crate) fn is_left(&self, slot: SlotId) -> bool {
        self.limit.is_some_and(|limit| slot.0 >= limit)
    }

    /// Return `true` if the slot holds a page, or is to, or is being read.
    pub(crate) fn is_in_use(&self, slot: SlotId) -> bool {
        matches!(self.slot(slot).state(), SlotState::Live | SlotState::Writing)
            || self.pinned.contains_key(&slot)
    }

    /// Return `true` if a slot from this one on is being read.
    pub(crate) fn has_pinned_from(&self, slot: u32) -> bool {
        self.pinned.range(SlotId(slot)..).next().is_some()
    }

    /// Forget the slots that are left, all of which are free.
    pub(crate) fn truncate(&mut self) {
        let Some(slots) = self.limit.take() else { return };
        let left = &self.table[slots as usize..];
        assert!(left.iter().all(|slot| slot.state() == SlotState::Free), "nothing is in them");
        self.table.truncate(slots as usize);
        self.table.shrink_to_fit();
        self.uppers.truncate(slots as usize);
        self.uppers.shrink_to_fit();
        self.free.truncate((slots as usize).div_ceil(64));
        // It may be behind the new end.
        self.cursor = 0;
        self.condemned.retain(|slot| slot.0 < slots);
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.table.len()).expect("slots have 32-bit numbers")
    }

    pub(crate) fn free_slots(&self) -> u32 {
        self.free_slots
    }

    /// Take the slot out of use. Its contents stay until it is given up.
    pub(crate) fn condemn(&mut self, slot: SlotId) {
        self.condemned.insert(slot);
    }

    /// Return the number of slots that are not used again.
    pub(crate) fn condemned_slots(&self) -> u32 {
        u32::try_from(self.condemned.len()).expect("slots have 32-bit numbers")
    }

    /// Return the number of slots that can be used.
    pub(crate) fn usable_slots(&self) -> u32 {
        let condemned = self.condemned.iter().filter(|slot| !self.is_left(**slot)).count();
        let condemned = u32::try_from(condemned).expect("slots have 32-bit numbers");
        self.limit.unwrap_or_else(|| self.count()) - condemned
    }

    /// Return the number of slots that hold a page, and of those among them that the disk may not
    /// have.
    pub(crate) fn live_and_dirty(&self) -> [u32; 2] {
        [self.live_slots, self.dirty_slots]
    }

    #[inline]
    pub(crate) fn slot(&self, slot: SlotId) -> Slot {
        self.table[slot.0 as usize]
    }

    /// Return the page that the slot was last used for.
    #[inline]
    pub(crate) fn page(&self, slot: SlotId) -> u64 {
        let upper = self.uppers.get(slot.0 as usize).copied().unwrap_or(0);
        join(self.table[slot.0 as usize].lower, upper)
    }

    /// Return the table's row for a slot.
    pub(crate) fn row(&self, id: SlotId) -> Option<Row> {
        let slot = self.slot(id);
        (slot.state() == SlotState::Live).then(|| Row {
            page: self.page(id),
            checksum: slot.checksum,
            version: slot.version(),
            is_dirty: slot.is_dirty(),
        })
    }

    /// Return all slots, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotId, Slot)> + '_ {
        (0..).map(SlotId).zip(self.table.iter().copied())
    }

    /// Return the slots that hold a page, in order.
    pub(crate) fn live(&self) -> impl Iterator<Item = SlotId> + '_ {
        self.iter().filter(|(_, slot)| slot.state() == SlotState::Live).map(|(id, _)| id)
    }

    /// Return `true` if a page is on its way to a slot.
    pub(crate) fn is_writing(&self) -> bool {
        self.table.iter().any(|slot| slot.state() == SlotState::Writing)
    }

    /// Takes a free slot for a page that is about to be written there.
    pub(crate) fn take(&mut self, page: u64, checksum: u32, version: u64) -> Option<SlotId> {
        if self.free_slots == 0 {
            return None;
        }
        // The search goes on where the last one ended: words that are full are not looked at each time.
        while self.free[self.cursor] == 0 {
            self.cursor = (self.cursor + 1) % self.free.len();
        }
        let bit = self.free[self.cursor].trailing_zeros();
        self.free[self.cursor] &= !(1 << bit);
        self.free_slots -= 1;
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^32 slots")]
        let slot = SlotId(self.cursor as u32 * 64 + bit);
        self.use_for(slot, page, checksum, version);
        Some(slot)
    }

    /// Note that the slot is about to hold a version of a page.
    fn use_for(&mut self, slot: SlotId, page: u64, checksum: u32, version: u64) {
        let (lower, upper) = split(page);
        self.table[slot.0 as usize] = Slot::new(lower, checksum, version, SlotState::Writing);
        match self.uppers.get_mut(slot.0 as usize) {
            Some(known) => *known = upper,
            None => assert_eq!(upper, 0, "the page is one of the backing store"),
        }
    }

    /// Note that the slot was written, and a record says so.
    pub(crate) fn set_live(&mut self, slot: SlotId, is_dirty: bool, is_visible: bool) {
        let state = &mut self.table[slot.0 as usize];
        assert_eq!(state.state(), SlotState::Writing, "a slot is written before it is live");
        state.set_state(SlotState::Live);
        state.set_dirty(is_dirty);
        state.set_visible(is_visible);
        self.live_slots += 1;
        self.dirty_slots += u32::from(is_dirty);
    }

    /// Puts back what recovery found.
    pub(crate) fn restore(&mut self, slot: SlotId, found: &Row) {
        assert_eq!(self.slot(slot).state(), SlotState::Free, "a slot is restored once");
        self.free[slot.0 as usize / 64] &= !(1 << (slot.0 % 64));
        self.free_slots -= 1;
        self.use_for(slot, found.page, found.checksum, found.version);
        self.set_live(slot, found.is_dirty, true);
    }

    pub(crate) fn set_visible(&mut self, slot: SlotId, is_visible: bool) {
        self.table[slot.0 as usize].set_visible(is_visible);
    }

    /// Note that the policy believes that flash holds all pages of live slots.
    pub(crate) fn show_all(&mut self) {
        for slot in self.table.iter_mut().filter(|slot| slot.state() == SlotState::Live) {
            slot.set_visible(true);
        }
    }

    /// Note that the disk has this version durably.
    pub(crate) fn set_clean(&mut self, slot: SlotId) {
        let state = &mut self.table[slot.0 as usize];
        assert!(state.state() == SlotState::Live && state.is_dirty(), "a dirty slot is cleaned");
        state.set_dirty(false);
        self.dirty_slots -= 1;
    }

    /// Mark the slot as obsolete: it is free once `records` records are durable.
    pub(crate) fn set_obsolete(&mut self, slot: SlotId, records: u64) {
        let state = &mut self.table[slot.0 as usize];
        assert_eq!(state.state(), SlotState::Live, "a live slot becomes obsolete");
        state.set_state(SlotState::Obsolete);
        self.live_slots -= 1;
        self.dirty_slots -= u32::from(state.is_dirty());
        debug_assert!(
            self.obsolete.back().is_none_or(|last| last.records <= records),
            "slots become obsolete in the order of the records"
        );
        self.obsolete.push_back(Obsolete { slot, records });
    }

    /// Return the number of slots that are free once their records are durable.
    pub(crate) fn obsolete_slots(&self) -> usize {
        self.obsolete.len()
    }

    /// Return the next obsolete slot whose record is among the first `records`, which are durable.
    pub(crate) fn next_reusable(&mut self, records: u64) -> Option<SlotId> {
        let next = self.obsolete.front()?;
        // Rule 4: slots are in the order of their records, so none behind this one can be used again
        // either.
        if next.records > records {
            return None;
        }
        self.obsolete.pop_front().map(|obsolete| obsolete.slot)
    }

    /// Begin a read of the slot.
    pub(crate) fn pin(&mut self, slot: SlotId) {
        *self.pinned.entry(slot).or_default() += 1;
    }

    /// End a read of the slot.
    pub(crate) fn unpin(&mut self, slot: SlotId) {
        let users = self.pinned.get_mut(&slot).expect("a slot that was read is pinned");
        *users -= 1;
        if *users == 0 {
            self.pinned.remove(&slot);
            if self.freed_while_pinned.remove(&slot) {
                self.free(slot);
            }
        }
    }

    /// Return `true` if a slot is being read.
    pub(crate) fn has_pinned(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// Free a slot that nobody needs any more, and that no durable record names. It can be used
    /// again when it is not being read; a condemned slot never is.
    pub(crate) fn free(&mut self, slot: SlotId) {
        // A read under way would get the bytes of the slot's next page.
        if self.pinned.contains_key(&slot) {
            self.freed_while_pinned.insert(slot);
            return;
        }
        let state = &mut self.table[slot.0 as usize];
        let former = state.state();
        assert!(matches!(former, SlotState::Writing | SlotState::Obsolete), "it is given up first");
        state.set_state(SlotState::Free);
        // It is broken, or its room is given back: it never is among the free ones again.
        if self.condemned.contains(&slot) || self.is_left(slot) {
            return;
        }
        self.free[slot.0 as usize / 64] |= 1 << (slot.0 % 64);
        self.free_slots += 1;
    }

    /// Note that the flash failed: no slot is written again, and only these, which are live, are
    /// still read.
    pub(crate) fn forget_but(&mut self, kept: &[SlotId]) {
        let kept: BTreeSet<SlotId> = kept.iter().copied().collect();
        for (number, slot) in (0..).zip(&mut self.table) {
            if !kept.contains(&SlotId(number)) {
                slot.set_state(SlotState::Free);
            }
        }
        // The flash is given up: no page goes there again.
        self.free.fill(0);
        self.free_slots = 0;
        self.limit = None;
        self.obsolete.clear();
        self.freed_while_pinned.clear();
        let live = kept.iter().map(|&slot| self.slot(slot));
        let dirty = live.filter(|slot| slot.is_dirty()).count();
        let count = |slots: usize| u32::try_from(slots).expect("slots have 32-bit numbers");
        (self.live_slots, self.dirty_slots) = (count(kept.len()), count(dirty));
    }

    /// Free a slot of a flash that failed.
    pub(crate) fn abandon(&mut self, slot: SlotId) {
        let state = &mut self.table[slot.0 as usize];
        assert_eq!(state.state(), SlotState::Live, "only what was live is kept");
        self.live_slots -= 1;
        self.dirty_slots -= u32::from(state.is_dirty());
        state.set_state(SlotState::Free);
    }

    /// Checks the invariants.
    pub(crate) fn assert_invariants(&self) {
        let count = |wanted: fn(&Slot) -> bool| self.table.iter().filter(|it| wanted(it)).count();
        let live = count(|slot| slot.state() == SlotState::Live);
        let dirty = count(|slot| slot.state() == SlotState::Live && slot.is_dirty());
        assert_eq!([self.live_slots as usize, self.dirty_slots as usize], [live, dirty]);
        let free: u32 = self.free.iter().map(|word| word.count_ones()).sum();
        assert_eq!(self.free_slots, free, "free slots are counted");
        for slot in self.limit.map_or(0..0, |limit| limit..self.count()) {
            let is_free = self.free[slot as usize / 64] & 1 << (slot % 64) != 0;
            assert!(!is_free, "no page goes to a slot that is left");
        }
        for slot in &self.freed_while_pinned {
            assert!(self.pinned.contains_key(slot), "a slot waits for those who read it");
        }
    }

    /// Return the size of the heap memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.capacity() * size_of::<Slot>()
            + self.uppers.capacity() * size_of::<u16>()
            + self.free.capacity() * size_of::<u64>()
            + self.obsolete.capacity() * size_of::<Obsolete>()
    }
}
