//! The journal: what happened to slots, committed in groups.
//!
//! A commit writes the records that came up to journal blocks, and syncs the flash once, for them and
//! for the slots. Requests that come meanwhile share the next one. This is the state alone: it says which
//! blocks to write and when to sync, and is told what became of that.
//!
//! It enforces rule 2 of durability (`ARCHITECTURE.md`): what a sync covers, and what is durable then.

mod checkpoint;
mod tail;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;

use self::checkpoint::Checkpoints;
pub(super) use self::checkpoint::TableBlock;
use crate::format::Layout;
use crate::format::journal::{self, RECORDS_PER_BLOCK, Record, RecordKind};
use crate::format::superblock::Superblock;
use crate::format::table::{self, Row};
use crate::slots::{SlotId, Slots};

/// Journal blocks that one commit writes at most.
const COMMIT_BLOCKS_MAX: u64 = 8;
/// Copies of each journal block.
pub(super) const JOURNAL_COPIES: u64 = 2;
/// Records before they are committed for the sake of memory.
const PENDING_RECORDS_MAX: usize = 4 * RECORDS_PER_BLOCK;

/// A record, and the slot that it makes obsolete besides its own.
#[derive(Clone, Copy, Debug)]
struct Appended {
    record: Record,
    superseded: Option<SlotId>,
    /// `true` if the next record stands in the same block: a crash leaves both, or none.
    is_joined: bool,
}

/// Durable contents of a slot, where they differ from its current ones.
#[derive(Clone, Copy, Debug)]
struct Undo {
    row: Option<Row>,
    /// The last record that concerns the slot.
    last: u64,
}

/// Journal blocks on their way to the flash: the next blocks are written while a sync covers those
/// before.
#[derive(Debug, Default)]
struct Batch {
    /// The records, in order.
    records: Vec<Appended>,
    /// The tail as the last block says; `None` if there is no block.
    tail: Option<u64>,
}

/// A journal block to be written.
#[derive(Debug)]
pub(super) struct JournalBlock {
    header: journal::Header,
    /// The first of its records among those being written.
    first: usize,
    /// Offsets of its copies.
    pub(super) offsets_bytes: [u64; 2],
}

/// Work of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    /// Nothing for now.
    Nothing,
    /// Number of blocks to write.
    Blocks(u64),
    /// The journal has no room for what must be said before it gets any.
    Stuck,
}

/// The journal and the slot table of a flash.
#[derive(Debug)]
pub(super) struct Journal {
    superblock: Superblock,
    /// Records that are in no block yet.
    pending: VecDeque<Appended>,
    /// Blocks that are being written, the first of them, and how many of their copies are not complete;
    /// blocks that are written; and those that a sync under way covers.
    writing: Batch,
    writing_first: u64,
    writing_copies: u64,
    written: Batch,
    syncing: Option<Batch>,
    /// Records ever appended, and how many of them are durable.
    appended: u64,
    durable: u64,
    /// The last record that did not come up before the page was in its slot.
    appended_late: u64,
    /// Records whose pages are on their way to their slots.
    early: BTreeSet<u64>,
    /// Records of slots that could not be written, each with the last of the records that take it
    /// back. One sync makes both durable.
    taken_back: BTreeMap<u64, u64>,
    /// The number of the next journal block.
    next_sequence: u64,
    /// The first block that replay needs, as the next block will say, and as a durable block says.
    tail: u64,
    durable_tail: u64,
    /// The first block not known to be durable, and the first one that the sync under way does not
    /// cover.
    uncertain: u64,
    syncing_through: u64,
    is_commit_wanted: bool,
    undo: BTreeMap<u32, Undo>,
    checkpoints: Checkpoints,
    /// `true` if an empty block is wanted that says that all before it is durable.
    is_seal_wanted: bool,
    /// Number of records that such a block has covered.
    sealed: u64,
    /// Bytes written to flashes before this one since the start.
    written_before_bytes: u64,
}

impl Journal {
    /// Return the journal of a flash that was just started.
    pub(super) fn new(superblock: &Superblock, generations: Vec<u64>) -> Self {
        let first = superblock.first_sequence;
        Self {
            superblock: *superblock,
            pending: VecDeque::new(),
            writing: Batch::default(),
            writing_first: first,
            writing_copies: 0,
            written: Batch::default(),
            syncing: None,
            appended: 0,
            durable: 0,
            appended_late: 0,
            early: BTreeSet::new(),
            taken_back: BTreeMap::new(),
            next_sequence: first,
            tail: first,
            durable_tail: first,
            uncertain: first,
            syncing_through: first,
            is_commit_wanted: false,
            undo: BTreeMap::new(),
            checkpoints: Checkpoints::new(generations),
            is_seal_wanted: false,
            sealed: 0,
            written_before_bytes: 0,
        }
    }

    /// Begins the journal of another flash. Nothing of the former one is under way.
    pub(super) fn adopt(&mut self, superblock: &Superblock, generations: Vec<u64>, written: u64) {
        // Record numbers go on across flashes, so waiters of the former journal stay right; block
        // numbers start as the new superblock says.
        assert!(self.pending.is_empty() && !self.has_blocks(), "the former journal has ended");
        let first = superblock.first_sequence;
        (self.writing_first, self.next_sequence) = (first, first);
        (self.tail, self.durable_tail) = (first, first);
        (self.uncertain, self.syncing_through) = (first, first);
        self.superblock = *superblock;
        self.checkpoints = Checkpoints::new(generations);
        self.sealed = self.durable;
        self.written_before_bytes = written;
    }

    /// Note that the epoch of the flash has begun, and nothing was written in it yet.
    ///
    /// # Panics
    /// If it is another flash.
    pub(super) fn begin(&mut self, superblock: &Superblock, generations: Vec<u64>) {
        let (own, given) = (self.superblock.cache, superblock.cache);
        assert_eq!(own, given, "the shard was opened on this flash");
        self.superblock = *superblock;
        self.checkpoints = Checkpoints::new(generations);
    }

    /// Forget everything, because the flash is gone.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        self.writing = Batch::default();
        self.writing_copies = 0;
        self.written = Batch::default();
        self.syncing = None;
        // Nobody may wait for records that will never be written.
        self.durable = self.appended;
        self.undo.clear();
        self.early.clear();
        self.taken_back.clear();
        self.is_commit_wanted = false;
        self.checkpoints.forget();
    }

    /// Return the number of bytes written to this flash in its life, if that many were written to
    /// all since the start.
    pub(super) const fn lifetime_written_bytes(&self, written_bytes: u64) -> u64 {
        self.superblock.written_bytes + written_bytes - self.written_before_bytes
    }

    /// Return the number of bytes that the flash must have.
    pub(super) fn flash_bytes(&self) -> u64 {
        self.superblock.layout.flash_bytes()
    }

    /// Return the layout of the flash.
    pub(super) const fn layout(&self) -> &Layout {
        &self.superblock.layout
    }

    /// Return the offset of a slot, in bytes.
    pub(super) fn slot_offset_bytes(&self, slot: SlotId) -> u64 {
        self.superblock.layout.slot_place_bytes(slot.0)
    }

    /// Take over a layout with more slots, of which the table on the flash has nothing, or with fewer. The flash
    /// durably has it.
    pub(super) fn set_layout(&mut self, layout: &Layout) {
        self.checkpoints.resize(layout.table_blocks);
        self.superblock.layout = *layout;
    }

    /// Return the number of the next journal block.
    pub(super) const fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Return the number of records so far.
    pub(super) const fn appended(&self) -> u64 {
        self.appended
    }

    /// Return the last record that came up when the page was in its slot.
    pub(super) const fn appended_late(&self) -> u64 {
        self.appended_late
    }

    /// Return the number of first records that are durable.
    pub(super) const fn durable(&self) -> u64 {
        self.durable
    }

    /// Return `true` if nothing is under way or wanted.
    pub(super) fn is_idle(&self) -> bool {
        !self.has_blocks() && !self.is_commit_wanted && !self.checkpoints.is_under_way()
    }

    /// Return `true` if blocks are on their way.
    fn has_blocks(&self) -> bool {
        self.writing_copies > 0 || self.has_written() || self.syncing.is_some()
    }

    /// Return `true` if blocks are written that no sync covers yet.
    pub(super) const fn has_written(&self) -> bool {
        self.written.tail.is_some()
    }

    /// Return `true` if a block is written, and the page of a record in it is not.
    fn awaits_page(&self) -> bool {
        let covered = self.records_in_blocks();
        self.early.first().is_some_and(|&record| record <= covered)
    }

    /// Return `true` if a block that is written has a record that was taken back, and no such block says
    /// so yet.
    fn awaits_records(&self) -> bool {
        let covered = self.records_in_blocks();
        self.taken_back.iter().any(|(&record, &last)| record <= covered && covered < last)
    }

    /// Return the number of first records that are in written blocks.
    fn records_in_blocks(&self) -> u64 {
        let uncovered = self.pending.len() + self.writing.records.len();
        self.appended - uncovered as u64
    }

    /// Journal blocks that replay would read.
    const fn used_blocks(&self) -> u64 {
        self.next_sequence - self.tail
    }

    /// Journal blocks that may be written now. One is kept back until there is a new tail to write
    /// in it.
    fn writable_blocks(&self) -> u64 {
        // Replay starts at the tail that a durable block names, so only blocks before that tail may
        // be overwritten.
        let free = self.superblock.layout.ring_blocks() - (self.next_sequence - self.durable_tail);
        if self.has_new_tail() { free } else { free.saturating_sub(1) }
    }

    /// Return `true` if the tail is one that no block says yet.
    fn has_new_tail(&self) -> bool {
        let batches = [Some(&self.writing), Some(&self.written), self.syncing.as_ref()];
        let told = batches.into_iter().flatten().filter_map(|batch| batch.tail).max();
        self.tail > told.unwrap_or(0).max(self.durable_tail)
    }

    /// Want a commit. Returns `true` if none was before.
    pub(super) const fn want_commit(&mut self) -> bool {
        let is_new = !self.is_commit_wanted;
        self.is_commit_wanted = true;
        is_new
    }

    /// Ask for `records` records to become durable.
    pub(super) const fn want_durable(&mut self, records: u64) {
        self.is_commit_wanted |= self.durable < records;
    }

    /// Want a block that says that all is durable. Returns `true` if one does.
    pub(super) const fn seal(&mut self) -> bool {
        let is_sealed = self.sealed >= self.appended;
        self.is_seal_wanted |= !is_sealed;
        self.is_commit_wanted |= !is_sealed;
        is_sealed
    }

    /// Adds a record about a slot, before the slot's state changes.
    pub(super) fn append(
        &mut self,
        slots: &Slots,
        kind: RecordKind,
        slot: SlotId,
        superseded: Option<SlotId>,
    ) {
        self.push(slots, kind, slot, superseded);
        self.appended_late = self.appended;
    }

    /// Adds a record about a slot that a page is about to be written to (rule 1). Returns its number.
    pub(super) fn append_early(
        &mut self,
        slots: &Slots,
        slot: SlotId,
        superseded: Option<SlotId>,
    ) -> NonZeroU64 {
        self.push(slots, RecordKind::Dirty, slot, superseded);
        // A sync must not start before the page is written, or a durable block could name a slot
        // without its page.
        self.early.insert(self.appended);
        NonZeroU64::new(self.appended).expect("records are counted from one")
    }

    /// Note that the page of such a record is in its slot.
    pub(super) fn early_done(&mut self, record: NonZeroU64) {
        self.early.remove(&record.get());
    }

    /// Take back an early record whose page cannot be written to its slot. Records say that the
    /// slot is free, and that the former slot of the page, if it has one, is in force again.
    pub(super) fn take_back(
        &mut self,
        slots: &Slots,
        record: NonZeroU64,
        slot: SlotId,
        former: Option<SlotId>,
    ) {
        // A durable block may name the slot already, so records are never dropped: others follow
        // that take them back.
        self.append(slots, RecordKind::Free, slot, None);
        if let Some(former) = former {
            // Alone, the first one would say that the disk has the page's newest version.
            self.pending.back_mut().expect("it was just added").is_joined = true;
            let is_dirty = slots.slot(former).is_dirty();
            let kind = if is_dirty { RecordKind::Dirty } else { RecordKind::Clean };
            self.append(slots, kind, former, None);
        }
        self.early.remove(&record.get());
        self.taken_back.insert(record.get(), self.appended);
    }

    fn push(&mut self, slots: &Slots, kind: RecordKind, slot: SlotId, superseded: Option<SlotId>) {
        let held = slots.slot(slot);
        let (page, checksum) = (slots.page(slot), held.checksum);
        self.appended += 1;
        let last = self.appended;
        // The table must not say what the journal does not say durably: keep what each slot durably
        // holds until this record is durable.
        for slot in [Some(slot), superseded].into_iter().flatten() {
            let row = slots.row(slot);
            self.undo.entry(slot.0).or_insert(Undo { row, last }).last = last;
        }
        let record = Record { kind, page, slot: slot.0, version: held.version(), checksum };
        self.pending.push_back(Appended { record, superseded, is_joined: false });
    }

    /// Return `true` if so many records wait that they are to be committed for the sake of memory.
    pub(super) fn has_many_pending(&self) -> bool {
        self.pending.len() >= PENDING_RECORDS_MAX
    }

    /// Begin a commit if one is wanted and no block is being written; `blocks_max` is the number of
    /// blocks that memory has room for.
    pub(super) fn start_commit(&mut self, blocks_max: u64) -> Commit {
        // Blocks that wait for pages are not kept waiting for those of the next ones.
        let awaits_page = self.syncing.is_none() && self.awaits_page();
        if self.writing_copies > 0 || !self.is_commit_wanted || awaits_page {
            return Commit::Nothing;
        }
        let writable = self.writable_blocks().min(COMMIT_BLOCKS_MAX).min(blocks_max);
        let needed = self.pending.len().div_ceil(RECORDS_PER_BLOCK) as u64;
        // A new tail frees journal blocks when a block that says so is durable.
        let has_news = self.has_new_tail() || self.is_seal_wanted;
        let blocks = needed.max(u64::from(has_news)).min(writable);
        if blocks == 0 {
            // The commit under way may have all that is wanted.
            self.is_commit_wanted = needed > 0 || self.has_blocks();
            let is_stuck = self.syncing.is_none() && !self.checkpoints.is_writing();
            // The journal has no room to take a record back, and gets none without a sync.
            let has_failed = is_stuck && self.awaits_records();
            return if has_failed { Commit::Stuck } else { Commit::Nothing };
        }
        self.is_commit_wanted = false;
        if std::mem::take(&mut self.is_seal_wanted) {
            // The block says what is durable while it is written, so it seals no record that it holds.
            self.sealed = self.durable;
        }
        self.writing_first = self.next_sequence;
        self.writing.tail = Some(self.tail);
        self.writing_copies = blocks * JOURNAL_COPIES;
        Commit::Blocks(blocks)
    }

    /// Cancel a commit, as nothing is committed without a flash.
    pub(super) const fn cancel_commit(&mut self) {
        self.is_commit_wanted = false;
    }

    /// Return the next block of a commit; so many bytes were written to flash since the start.
    pub(super) fn next_block(&mut self, written_bytes: u64) -> JournalBlock {
        let header = journal::Header {
            cache: self.superblock.cache,
            epoch: self.superblock.epoch,
            sequence: self.next_sequence,
            tail: self.tail,
            uncertain: self.uncertain,
            written_bytes: self.lifetime_written_bytes(written_bytes),
        };
        let mut records = self.pending.len().min(RECORDS_PER_BLOCK);
        // Joined records stand in one block, which a crash leaves as a whole or not at all.
        records -= usize::from(records > 0 && self.pending[records - 1].is_joined);
        let first = self.writing.records.len();
        self.writing.records.extend(self.pending.drain(..records));
        let offsets_bytes = self.superblock.layout.journal_offsets_bytes(self.next_sequence);
        self.next_sequence += 1;
        // The next commit has the records that do not fit the blocks of this one.
        self.is_commit_wanted = !self.pending.is_empty();
        JournalBlock { header, first, offsets_bytes }
    }

    /// Fills in the bytes of the block that came last.
    pub(super) fn encode(&self, block: &JournalBlock, bytes: &mut [u8]) {
        let records = self.writing.records[block.first..].iter();
        journal::encode(bytes, &block.header, records.map(|appended| &appended.record));
    }

    /// Note that a copy of a block is written. Returns `true` if that was the last one of the
    /// commit.
    pub(super) fn copy_written(&mut self) -> bool {
        // Copies end after a failure of the flash has made the journal forget them.
        if self.writing_copies == 0 {
            return false;
        }
        self.writing_copies -= 1;
        if self.writing_copies > 0 {
            return false;
        }
        self.written.records.append(&mut self.writing.records);
        self.written.tail = self.writing.tail.take();
        true
    }

    /// Begins a sync of the flash for the blocks that are written, unless one is under way, or pages that
    /// they name are not written, or records that take some of theirs back (rule 2). Returns `true`
    /// if the flash is to be synced.
    pub(super) fn start_sync(&mut self) -> bool {
        if self.syncing.is_some() || self.awaits_page() || self.awaits_records() {
            return false;
        }
        // Blocks that are written from here on may miss this sync, so it must not call them
        // durable.
        self.syncing = Some(std::mem::take(&mut self.written));
        // A commit whose copies are not all complete is not covered, so the bound is its first
        // block.
        let is_writing = self.writing_copies > 0;
        self.syncing_through = if is_writing { self.writing_first } else { self.next_sequence };
        self.checkpoints.sync_started();
        true
    }

    /// Note the end of a sync: all slots and journal blocks written before it was started are
    /// durable. Returns `true` if that ended a checkpoint; nothing if the journal was forgotten
    /// since.
    pub(super) fn synced(&mut self) -> Option<bool> {
        let Batch { records, tail } = self.syncing.take()?;
        self.durable += records.len() as u64;
        let durable = self.durable;
        self.taken_back.retain(|_, last| *last > durable);
        // Blocks that are written from now on say so: recovery need not verify the slots of those
        // before.
        self.uncertain = self.syncing_through;
        if let Some(tail) = tail {
            // The block that names this tail is durable: the ring before it may be reused.
            self.durable_tail = tail;
        }
        for appended in &records {
            self.record_durable(appended);
        }
        let through = self.checkpoints.sync_done();
        if let Some(through) = through {
            // Both copies of the table have all records before this block, so replay no longer
            // needs them.
            self.tail = through;
        }
        Some(through.is_some())
    }

    /// Note that a record is durable: the slot table may hold it as well.
    fn record_durable(&mut self, appended: &Appended) {
        let Appended { record, superseded, .. } = appended;
        let row = (record.kind != RecordKind::Free).then_some(Row {
            page: record.page,
            checksum: record.checksum,
            version: record.version,
            is_dirty: record.kind == RecordKind::Dirty,
        });
        let superseded = superseded.map(|slot| (slot.0, None));
        for (slot, row) in [Some((record.slot, row)), superseded].into_iter().flatten() {
            self.checkpoints.mark(slot);
            // Without an entry, a later record of this commit has removed it.
            match self.undo.get_mut(&slot) {
                Some(undo) if undo.last > self.durable => undo.row = row,
                Some(_) => drop(self.undo.remove(&slot)),
                None => {}
            }
        }
    }

    /// Keeps the ring from filling up: begins a checkpoint, or wants a commit that says the new
    /// tail.
    pub(super) fn make_room(&mut self) {
        let half = self.superblock.layout.ring_blocks() / 2;
        if self.used_blocks() > half {
            // A checkpoint covers only blocks that are durable: the table leaves out all others.
            self.checkpoints.start(self.uncertain);
        }
        self.is_commit_wanted |=
            self.has_many_pending() || (self.has_new_tail() && self.writable_blocks() <= half / 2);
    }

    /// Return `true` if a checkpoint waits for a sync.
    pub(super) fn awaits_sync(&self) -> bool {
        self.checkpoints.needs_sync()
    }

    /// Return the next table block of a checkpoint, if one is to be written now.
    pub(super) fn next_table_block(&mut self) -> Option<TableBlock> {
        self.checkpoints.next_block()
    }

    /// Return the offset to which a table block is written, in bytes.
    pub(super) fn table_offset_bytes(&self, block: TableBlock) -> u64 {
        let TableBlock { number, generation, copy } = block;
        self.superblock.layout.table_offset_bytes(number, generation + copy)
    }

    /// Fills in the bytes of a table block: it leaves out records that are not durable (rule 7).
    pub(super) fn encode_table(&self, block: TableBlock, slots: &Slots, bytes: &mut [u8]) {
        let TableBlock { number, generation, .. } = block;
        let header = table::Header { cache: self.superblock.cache, generation, block: number };
        let rows = block.slots(slots).map(|slot| {
            let undo = self.undo.get(&slot.0);
            undo.map_or_else(|| slots.row(slot), |undo| undo.row)
        });
        table::encode(bytes, &header, rows);
    }

    /// Note that a table block was written, or failed for good.
    pub(super) const fn table_block_done(&mut self) {
        self.checkpoints.block_done();
    }

    /// Return the size of the heap memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.pending.capacity() * size_of::<Appended>()
            + self.undo.len() * size_of::<(u32, Undo)>() * 2
            + self.checkpoints.memory_bytes()
    }

    /// Checks the invariants.
    pub(super) fn assert_invariants(&self) {
        assert!(self.durable <= self.appended, "what is durable was appended");
        assert!(self.durable_tail <= self.tail, "blocks before the durable tail are not needed");
        assert!(self.tail <= self.uncertain, "a checkpoint covers durable blocks only");
        assert!(self.uncertain <= self.next_sequence, "durable blocks were written");
        assert!(
            self.next_sequence - self.durable_tail <= self.superblock.layout.ring_blocks(),
            "no block is overwritten that replay needs"
        );
    }
}
