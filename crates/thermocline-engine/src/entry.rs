//! State of a page that is in RAM, on its way, or not yet durable.
//!
//! A page whose newest version lies on flash, durably, needs no entry: its slot has all its state.
//! A page that only the disk holds has no state at all.

use std::num::NonZeroU64;

use thermocline_core::prefetch_whole;

use crate::memory::FrameId;
use crate::slots::SlotId;

/// An entry by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct EntryId(pub(crate) u32);

/// A fetch by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct FetchId(pub(crate) u32);

/// Ends the list of undurable pages.
const NONE: u32 = u32::MAX;

/// A version that is being written to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    /// The version being written.
    pub(crate) version: u64,
    /// The first version written after it; 0 if there is none.
    pub(crate) next: u64,
}

/// A page on its way to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotWrite {
    pub(crate) slot: SlotId,
    pub(crate) capture: Capture,
    /// The number of the record that says so already, if there is one.
    pub(crate) record: Option<NonZeroU64>,
    /// `true` if a later record says that the slot is not needed.
    pub(crate) is_freed: bool,
}

/// Pending work on the newest version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    /// The policy wants it on flash.
    pub(crate) flash: bool,
    /// A flush wants it in a slot.
    pub(crate) log: bool,
    /// The policy, the cleaner or a request wants it on disk.
    pub(crate) disk: bool,
}

/// The physical state of a page.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) page: u64,
    /// `true` if the policy believes that RAM holds the page.
    pub(crate) in_ram: bool,
    /// `true` if the policy believes that flash holds the page.
    pub(crate) on_flash: bool,
    pub(crate) wants: Wants,
    /// `true` if it stands in the queue of pages to be looked at again.
    pub(crate) is_queued: bool,
    /// `true` if its newest bytes are gone.
    pub(crate) is_lost: bool,
    /// `true` if its frame stays until the backing store has been told that the page leaves.
    pub(crate) is_leaving: bool,
    /// `true` if the policy demoted it when it left RAM: the backing store is offered its content.
    pub(crate) is_offered: bool,
    /// `true` if another client of the backing store has written the page, before or after the write that
    /// is in flight.
    pub(crate) is_outdated: bool,
    /// Version of the newest bytes; bytes that only the disk had get a new one.
    pub(crate) newest: u64,
    /// The version that is all zeroes; 0 if none is known to be.
    pub(crate) zeroed: u64,
    /// The version that was trimmed or zeroed as a whole; 0 if none was. Zeroes may stand for it.
    pub(crate) blank: u64,
    /// `true` if `zeroed` is the newest version, and the disk need not have zeroes: a discard of the page
    /// is wanted or under way.
    pub(crate) is_discarded: bool,
    /// The bytes of `newest`.
    pub(crate) frame: Option<FrameId>,
    /// The live slot.
    pub(crate) slot: Option<SlotId>,
    /// The slot being written, and what is written.
    pub(crate) slot_write: Option<SlotWrite>,
    /// Versions that are being written to disk.
    pub(crate) disk_write: Option<Capture>,
    /// The newest version whose write to disk was ever started.
    pub(crate) disk_started: u64,
    /// The newest version whose write to disk is complete.
    pub(crate) disk_written: u64,
    /// The newest version that the disk has durably.
    pub(crate) disk_synced: u64,
    /// The fetch whose bytes will be those of `newest`, before its patches.
    pub(crate) fetch: Option<FetchId>,
    /// Reads of the page from disk that are in flight.
    pub(crate) disk_reads: u32,
    /// Obsolete slots of the page whose records are not durable, and those of them that are clean.
    pub(crate) obsolete: u32,
    pub(crate) obsolete_clean: u32,
    /// The oldest version that is neither in a recorded slot nor on disk; 0 if there is none.
    pub(crate) undurable: u64,
    previous: u32,
    next: u32,
    /// Time of the last access, in accesses.
    pub(crate) touched: u64,
}

impl Entry {
    pub(crate) fn new(page: u64) -> Self {
        Self {
            page,
            in_ram: false,
            on_flash: false,
            wants: Wants::default(),
            is_queued: false,
            is_lost: false,
            is_leaving: false,
            is_offered: false,
            is_outdated: false,
            newest: 0,
            zeroed: 0,
            blank: 0,
            is_discarded: false,
            frame: None,
            slot: None,
            slot_write: None,
            disk_write: None,
            disk_started: 0,
            disk_written: 0,
            disk_synced: 0,
            fetch: None,
            disk_reads: 0,
            obsolete: 0,
            obsolete_clean: 0,
            undurable: 0,
            previous: NONE,
            next: NONE,
            touched: 0,
        }
    }
}

/// All entries, and the list of those with undurable versions, oldest first.
#[derive(Debug)]
pub(crate) struct Entries {
    table: Vec<Entry>,
    free: Vec<EntryId>,
    oldest: u32,
    newest: u32,
    undurable_pages: usize,
}

impl Entries {
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self {
            table: Vec::with_capacity(entries),
            free: Vec::with_capacity(entries),
            oldest: NONE,
            newest: NONE,
            undurable_pages: 0,
        }
    }

    /// Asks the processor for an entry.
    #[inline]
    pub(crate) fn prefetch(&self, id: EntryId) {
        prefetch_whole(&self.table, id.0 as usize);
    }

    pub(crate) fn insert(&mut self, entry: Entry) -> EntryId {
        if let Some(id) = self.free.pop() {
            self.table[id.0 as usize] = entry;
            return id;
        }
        let id = u32::try_from(self.table.len()).expect("there are fewer entries than pages");
        self.table.push(entry);
        EntryId(id)
    }

    pub(crate) fn remove(&mut self, id: EntryId) {
        assert_eq!(self[id].undurable, 0, "a page is durable before it is forgotten");
        self.free.push(id);
    }

    /// Entries in use.
    pub(crate) fn len(&self) -> usize {
        self.table.len() - self.free.len()
    }

    /// Return the number of pages that a flush would have to write.
    pub(crate) fn undurable_pages(&self) -> usize {
        self.undurable_pages
    }

    /// Return the page with the oldest undurable version.
    pub(crate) fn oldest_undurable(&self) -> Option<EntryId> {
        (self.oldest != NONE).then_some(EntryId(self.oldest))
    }

    /// Return the page with the next oldest undurable version.
    pub(crate) fn next_undurable(&self, id: EntryId) -> Option<EntryId> {
        let next = self[id].next;
        (next != NONE).then_some(EntryId(next))
    }

    /// Says which version of the page is the oldest that is not durable; 0 if all are.
    pub(crate) fn set_undurable(&mut self, id: EntryId, version: u64) {
        if self[id].undurable == version {
            return;
        }
        if self[id].undurable != 0 {
            self.unlink(id);
        }
        self[id].undurable = version;
        if version != 0 {
            self.link(id, version);
        }
    }

    /// Says that all versions of the page from this one on are in doubt.
    pub(crate) fn lower_undurable(&mut self, id: EntryId, version: u64) {
        let undurable = self[id].undurable;
        if undurable == 0 || undurable > version {
            self.set_undurable(id, version);
        }
    }

    /// Return the size of the heap memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.capacity() * size_of::<Entry>() + self.free.capacity() * size_of::<EntryId>()
    }

    fn unlink(&mut self, id: EntryId) {
        let (previous, next) = (self[id].previous, self[id].next);
        match previous {
            NONE => self.oldest = next,
            previous => self[EntryId(previous)].next = next,
        }
        match next {
            NONE => self.newest = previous,
            next => self[EntryId(next)].previous = previous,
        }
        self.undurable_pages -= 1;
    }

    /// Link a version. Versions come in ascending order except those that follow a write in flight,
    /// so the place is near the end; or a device failed, and they are as old as any.
    fn link(&mut self, id: EntryId, version: u64) {
        let is_oldest = self.oldest != NONE && self[EntryId(self.oldest)].undurable > version;
        let mut previous = if is_oldest { NONE } else { self.newest };
        while previous != NONE && self[EntryId(previous)].undurable > version {
            previous = self[EntryId(previous)].previous;
        }
        let next = match previous {
            NONE => std::mem::replace(&mut self.oldest, id.0),
            previous => std::mem::replace(&mut self[EntryId(previous)].next, id.0),
        };
        match next {
            NONE => self.newest = id.0,
            next => self[EntryId(next)].previous = id.0,
        }
        (self[id].previous, self[id].next) = (previous, next);
        self.undurable_pages += 1;
    }
}

impl std::ops::Index<EntryId> for Entries {
    type Output = Entry;

    #[inline]
    fn index(&self, id: EntryId) -> &Entry {
        &self.table[id.0 as usize]
    }
}

impl std::ops::IndexMut<EntryId> for Entries {
    #[inline]
    fn index_mut(&mut self, id: EntryId) -> &mut Entry {
        &mut self.table[id.0 as usize]
    }
}
