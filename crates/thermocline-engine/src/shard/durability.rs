//! The journal: what happened to slots, committed in groups.
//!
//! A commit writes the records that came up to journal blocks, and syncs the flash once, for them and
//! for the slots. Requests that come meanwhile share the next one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;

use thermocline_core::Nanos;

use super::checkpoint::Checkpoints;
use super::flush::{Stage, Waiter};
use super::{InFlight, Shard};
use crate::counters::Purpose;
use crate::format::BLOCK_BYTES;
use crate::format::journal::{self, RECORDS_PER_BLOCK, Record, RecordKind};
use crate::format::superblock::Superblock;
use crate::format::table::Row;
use crate::memory::FrameId;
use crate::operation::{Device, DeviceError, Operation, OperationKind, OperationParts};
use crate::slots::{Slot, SlotId};

/// Journal blocks that one commit writes at most.
const COMMIT_BLOCKS_MAX: u64 = 8;
/// Copies of each journal block.
const JOURNAL_COPIES: u64 = 2;
/// Records before they are committed for the sake of memory.
const PENDING_RECORDS_MAX: usize = 4 * RECORDS_PER_BLOCK;

/// A record, and the slot that it makes obsolete besides its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appended {
    pub(super) record: Record,
    pub(super) superseded: Option<SlotId>,
    /// Whether the next record stands in the same block: a crash leaves both, or none.
    is_joined: bool,
}

/// A block of the journal or the table that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) frame: FrameId,
    offset_bytes: u64,
    /// How often the write failed.
    pub(super) failures: u8,
}

impl Block {
    pub(super) const fn new(frame: FrameId, offset_bytes: u64) -> Self {
        Self { frame, offset_bytes, failures: 0 }
    }
}

/// What a slot durably holds, where that is not what it holds now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub(super) row: Option<Row>,
    /// The last record that concerns the slot.
    last: u64,
}

/// What journal blocks say, on its way: the next blocks are written while a sync covers those before.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The records, in order.
    records: Vec<Appended>,
    /// The tail as the last block says; none if there is no block.
    tail: Option<u64>,
}

/// The journal, the syncs of both devices, and who waits for them.
#[expect(clippy::struct_excessive_bools, reason = "each is wanted, or under way, for itself")]
#[derive(Debug)]
pub(super) struct Log {
    pub(super) superblock: Superblock,
    /// Records that are in no block yet.
    pub(super) pending: VecDeque<Appended>,
    /// Blocks that are being written, the first of them, and how many of their copies are not complete;
    /// blocks that are written; and those that a sync under way covers.
    writing: Batch,
    writing_first: u64,
    writing_copies: u64,
    written: Batch,
    syncing_flash: Option<Batch>,
    /// Records ever appended, and how many of them are durable.
    pub(super) appended: u64,
    pub(super) durable: u64,
    /// The last record that did not come up before the page was in its slot.
    pub(super) appended_late: u64,
    /// Records whose pages are on their way to their slots.
    early: BTreeSet<u64>,
    /// Records of slots that could not be written, each with the last of the records that take it
    /// back. One sync makes both durable.
    taken_back: BTreeMap<u64, u64>,
    /// The number of the next journal block.
    pub(super) next_sequence: u64,
    /// The first block that replay needs, as the next block will say, and as a durable block says.
    pub(super) tail: u64,
    pub(super) durable_tail: u64,
    /// The first block not known to be durable, and the first one that the sync under way does not
    /// cover.
    pub(super) uncertain: u64,
    syncing_through: u64,
    pub(super) is_commit_wanted: bool,
    pub(super) undo: BTreeMap<u32, Undo>,
    pub(super) checkpoints: Checkpoints,
    /// Blocks and syncs for the driver.
    pub(super) operations: VecDeque<(InFlight, OperationParts)>,
    /// Versions written to disk since it was last synced, and those that a sync under way covers.
    pub(super) unsynced: Vec<(u32, u64)>,
    pub(super) syncing: Vec<(u32, u64)>,
    pub(super) is_syncing: bool,
    pub(super) is_sync_wanted: bool,
    pub(super) syncs_started: u64,
    pub(super) syncs_done: u64,
    /// When the disk may be synced again for other reasons than a flush, after a sync that failed.
    pub(super) sync_retry_at: Option<Nanos>,
    pub(super) waiters: Vec<Waiter>,
    /// Every version up to this one is to be written, for flushes that wait.
    pub(super) flush_target: u64,
    /// Whether everything is to be on disk.
    pub(super) is_draining: bool,
    /// Whether an empty block is wanted that says that all before it is durable, and how many records
    /// such a block has covered.
    pub(super) is_seal_wanted: bool,
    pub(super) sealed: u64,
    /// Bytes written to flashes before this one since the start.
    pub(super) written_before_bytes: u64,
}

impl Log {
    /// The journal of a flash that was just started.
    pub(super) fn new(superblock: Superblock, generations: Vec<u64>) -> Self {
        let first = superblock.first_sequence;
        Self {
            superblock,
            pending: VecDeque::new(),
            writing: Batch::default(),
            writing_first: first,
            writing_copies: 0,
            written: Batch::default(),
            syncing_flash: None,
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
            operations: VecDeque::new(),
            unsynced: vec![],
            syncing: vec![],
            is_syncing: false,
            is_sync_wanted: false,
            syncs_started: 0,
            syncs_done: 0,
            sync_retry_at: None,
            waiters: vec![],
            flush_target: 0,
            is_draining: false,
            is_seal_wanted: false,
            sealed: 0,
            written_before_bytes: 0,
        }
    }

    /// Begins the journal of another flash. Nothing of the former one is under way.
    pub(super) fn adopt(&mut self, superblock: Superblock, generations: Vec<u64>, written: u64) {
        assert!(self.pending.is_empty() && self.is_journal_idle(), "the former journal has ended");
        let first = superblock.first_sequence;
        (self.writing_first, self.next_sequence) = (first, first);
        (self.tail, self.durable_tail) = (first, first);
        (self.uncertain, self.syncing_through) = (first, first);
        self.superblock = superblock;
        self.checkpoints = Checkpoints::new(generations);
        self.sealed = self.durable;
        self.written_before_bytes = written;
    }

    /// The epoch of the flash has begun, and nothing was written in it yet.
    pub(super) fn begin(&mut self, superblock: Superblock, generations: Vec<u64>) {
        self.superblock = superblock;
        self.checkpoints = Checkpoints::new(generations);
    }

    /// Bytes written to this flash in its life, if that many were written to all since the start.
    pub(super) const fn lifetime_written_bytes(&self, written_bytes: u64) -> u64 {
        self.superblock.written_bytes + written_bytes - self.written_before_bytes
    }

    /// Where the slots begin.
    pub(super) fn data_offset_bytes(&self) -> u64 {
        self.superblock.layout.slot_offset_bytes()
    }

    /// Whether nothing is under way or waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.is_journal_idle()
            && !self.is_syncing
            && self.operations.is_empty()
            && self.waiters.is_empty()
            && !self.is_commit_wanted
            && !self.is_sync_wanted
            && !self.is_draining
            && !self.checkpoints.is_under_way()
    }

    /// Whether a block is written, and the page of a record in it is not.
    fn awaits_page(&self) -> bool {
        let covered = self.records_in_blocks();
        self.early.first().is_some_and(|&record| record <= covered)
    }

    /// Whether a block that is written has a record that was taken back, and no such block says so yet.
    fn awaits_records(&self) -> bool {
        let covered = self.records_in_blocks();
        self.taken_back.iter().any(|(&record, &last)| record <= covered && covered < last)
    }

    /// How many of the first records are in blocks that are written.
    fn records_in_blocks(&self) -> u64 {
        let uncovered = self.pending.len() + self.writing.records.len();
        self.appended - uncovered as u64
    }

    /// Whether no block is on its way.
    fn is_journal_idle(&self) -> bool {
        self.writing_copies == 0 && self.written.tail.is_none() && self.syncing_flash.is_none()
    }

    /// Whether no operation of the log's own waits to be started.
    pub(super) fn has_no_operations(&self) -> bool {
        self.operations.is_empty()
    }

    /// Whether pages were written to the disk since it was last synced.
    pub(super) fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty() || self.is_syncing
    }

    /// Heap memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.pending.capacity() * size_of::<Appended>()
            + self.unsynced.capacity() * size_of::<(u32, u64)>()
            + self.undo.len() * size_of::<(u32, Undo)>() * 2
            + self.checkpoints.memory_bytes()
    }

    /// Journal blocks that replay would read.
    fn used_blocks(&self) -> u64 {
        self.next_sequence - self.tail
    }

    /// Journal blocks that may be written now. One is kept back until there is a new tail to write
    /// in it.
    fn writable_blocks(&self) -> u64 {
        let free = self.superblock.layout.ring_blocks() - (self.next_sequence - self.durable_tail);
        if self.has_new_tail() { free } else { free.saturating_sub(1) }
    }

    /// Whether the tail is one that no block says yet.
    fn has_new_tail(&self) -> bool {
        let batches = [Some(&self.writing), Some(&self.written), self.syncing_flash.as_ref()];
        let told = batches.into_iter().flatten().filter_map(|batch| batch.tail).max();
        self.tail > told.unwrap_or(0).max(self.durable_tail)
    }
}

impl Shard {
    /// The number of the next journal block: once the engine is idle, the journal's end.
    pub const fn next_sequence(&self) -> u64 {
        self.log.next_sequence
    }

    /// A commit is needed for something else than a flush.
    pub(super) const fn want_commit(&mut self) {
        self.is_stirred |= !self.log.is_commit_wanted;
        self.log.is_commit_wanted = true;
    }

    /// Slots are needed: they become free by commits, and by syncs of the disk before.
    pub(super) fn want_free_slots(&mut self) {
        if self.slots.obsolete_slots() > 0 {
            self.want_commit();
        }
        if !self.log.unsynced.is_empty() && !self.log.is_sync_wanted && !self.is_sync_resting() {
            self.log.is_sync_wanted = true;
            self.is_stirred = true;
        }
    }

    /// Adds a record about a slot, before the slot's state changes.
    pub(super) fn append(&mut self, kind: RecordKind, slot: SlotId, superseded: Option<SlotId>) {
        self.push_record(kind, slot, superseded);
        self.log.appended_late = self.log.appended;
    }

    /// Adds a record about a slot that a page is about to be written to. Returns its number.
    pub(super) fn append_early(&mut self, slot: SlotId, superseded: Option<SlotId>) -> NonZeroU64 {
        self.push_record(RecordKind::Dirty, slot, superseded);
        self.log.early.insert(self.log.appended);
        NonZeroU64::new(self.log.appended).expect("records are counted from one")
    }

    /// The page of such a record is in its slot.
    pub(super) fn early_record_done(&mut self, record: NonZeroU64) {
        self.log.early.remove(&record.get());
        if self.log.written.tail.is_some() {
            self.start_flash_sync();
        }
    }

    /// The page of an early record cannot be written to its slot. Records say that the slot is free, and
    /// that the former slot of the page, if it has one, is in force again.
    pub(super) fn take_back(&mut self, record: NonZeroU64, slot: SlotId, former: Option<SlotId>) {
        self.append(RecordKind::Free, slot, None);
        if let Some(former) = former {
            // Alone, the first one would say that the disk has the page's newest version.
            self.log.pending.back_mut().expect("it was just added").is_joined = true;
            let is_dirty = self.slots.slot(former).is_dirty();
            let kind = if is_dirty { RecordKind::Dirty } else { RecordKind::Clean };
            self.append(kind, former, None);
        }
        self.log.early.remove(&record.get());
        self.log.taken_back.insert(record.get(), self.log.appended);
        self.want_commit();
    }

    fn push_record(&mut self, kind: RecordKind, slot: SlotId, superseded: Option<SlotId>) {
        let Slot { page, checksum, .. } = self.slots.slot(slot);
        let version = self.slots.slot(slot).version();
        self.log.appended += 1;
        let last = self.log.appended;
        for slot in [Some(slot), superseded].into_iter().flatten() {
            let row = self.slots.slot(slot).row();
            self.log.undo.entry(slot.0).or_insert(Undo { row, last }).last = last;
        }
        let record = Record { kind, page, slot: slot.0, version, checksum };
        self.log.pending.push_back(Appended { record, superseded, is_joined: false });
        if self.log.pending.len() >= PENDING_RECORDS_MAX {
            self.want_commit();
        }
    }

    /// Writes the records that came up, if somebody wants that and no block is being written.
    pub(super) fn start_commit(&mut self) {
        if self.log.checkpoints.needs_sync() {
            self.start_flash_sync();
        }
        // Blocks that wait for pages are not kept waiting for those of the next ones.
        let awaits_page = self.log.syncing_flash.is_none() && self.log.awaits_page();
        if self.log.writing_copies > 0 || !self.log.is_commit_wanted || awaits_page {
            return;
        }
        if !self.has_flash {
            self.log.is_commit_wanted = false;
            return;
        }
        let frames = self.meta_frames.len() as u64 / JOURNAL_COPIES;
        let writable = self.log.writable_blocks().min(COMMIT_BLOCKS_MAX).min(frames);
        let needed = self.log.pending.len().div_ceil(RECORDS_PER_BLOCK) as u64;
        // A new tail frees journal blocks when a block that says so is durable.
        let has_news = self.log.has_new_tail() || self.log.is_seal_wanted;
        let blocks = needed.max(u64::from(has_news)).min(writable);
        if blocks == 0 {
            // What is under way may be all that is wanted.
            self.log.is_commit_wanted = needed > 0 || !self.log.is_journal_idle();
            let is_stuck = self.log.syncing_flash.is_none() && !self.log.checkpoints.is_writing();
            if is_stuck && self.log.awaits_records() {
                // The journal has no room to take a record back, and gets none without a sync.
                self.flash_failed();
            }
            return;
        }
        self.log.is_commit_wanted = false;
        if std::mem::take(&mut self.log.is_seal_wanted) {
            self.log.sealed = self.log.durable;
        }
        self.log.writing_first = self.log.next_sequence;
        for _ in 0..blocks {
            self.write_journal_block();
        }
        self.log.writing.tail = Some(self.log.tail);
        self.log.writing_copies = blocks * JOURNAL_COPIES;
    }

    fn write_journal_block(&mut self) {
        let log = &mut self.log;
        let header = journal::Header {
            cache: log.superblock.cache,
            epoch: log.superblock.epoch,
            sequence: log.next_sequence,
            tail: log.tail,
            uncertain: log.uncertain,
            written_bytes: log.lifetime_written_bytes(self.counters.flash.all_written_bytes()),
        };
        let mut records = log.pending.len().min(RECORDS_PER_BLOCK);
        records -= usize::from(records > 0 && log.pending[records - 1].is_joined);
        let first = log.writing.records.len();
        log.writing.records.extend(log.pending.drain(..records));
        let offsets_bytes = log.superblock.layout.journal_offsets_bytes(log.next_sequence);
        log.next_sequence += 1;
        for offset_bytes in offsets_bytes {
            let frame = self.meta_frames.pop().expect("blocks are bounded by the frames for them");
            let block = &mut self.pool.bytes_mut(frame)[..BLOCK_BYTES];
            let records = self.log.writing.records[first..].iter();
            journal::encode(block, &header, records.map(|appended| &appended.record));
            self.push_block(InFlight::Journal(Block::new(frame, offset_bytes)));
        }
    }

    /// Queues the write of a block of the engine's own.
    pub(super) fn push_block(&mut self, in_flight: InFlight) {
        let (Block { frame, offset_bytes, .. }, purpose) = match in_flight {
            InFlight::Journal(block) => (block, Purpose::Journal),
            InFlight::Table(block) => (block, Purpose::Table),
            InFlight::Run(_)
            | InFlight::Blanks(_)
            | InFlight::FlashSync
            | InFlight::BackingSync => return,
        };
        self.counters.flash.written_bytes[purpose as usize] += BLOCK_BYTES as u64;
        self.counters.flash.writes += 1;
        self.log.operations.push_back((
            in_flight,
            OperationParts {
                id: crate::operation::OperationId(0),
                device: Device::Flash,
                kind: OperationKind::Write,
                offset_bytes,
                length_bytes: BLOCK_BYTES as u64,
                frames: smallvec::smallvec![frame],
            },
        ));
    }

    pub(super) fn next_log_operation(&mut self) -> Option<Operation> {
        let (in_flight, operation) = self.log.operations.pop_front()?;
        let parts = OperationParts { id: self.start(in_flight), ..operation };
        Some(Operation::of_shard(parts, self.pool.frames()))
    }

    pub(super) fn journal_done(&mut self, block: Block, result: Result<(), DeviceError>) {
        if self.tries_block_again(InFlight::Journal, block, result) {
            return;
        }
        self.meta_frames.push(block.frame);
        if result.is_err() {
            self.flash_failed();
        }
        if self.log.writing_copies == 0 {
            return;
        }
        self.log.writing_copies -= 1;
        if self.log.writing_copies == 0 {
            let log = &mut self.log;
            log.written.records.append(&mut log.writing.records);
            log.written.tail = log.writing.tail.take();
            self.start_flash_sync();
            self.is_stirred = true;
        }
    }

    /// Syncs the flash for the blocks that are written, unless a sync is under way, or pages that they
    /// name are not written, or records that take some of theirs back.
    fn start_flash_sync(&mut self) {
        let log = &self.log;
        if log.syncing_flash.is_some() || log.awaits_page() || log.awaits_records() {
            return;
        }
        let log = &mut self.log;
        log.syncing_flash = Some(std::mem::take(&mut log.written));
        let is_writing = log.writing_copies > 0;
        log.syncing_through = if is_writing { log.writing_first } else { log.next_sequence };
        log.checkpoints.sync_started();
        self.counters.flash.syncs += 1;
        self.log.operations.push_back((InFlight::FlashSync, sync(Device::Flash)));
    }

    /// All slots and journal blocks written before the sync was started are durable.
    pub(super) fn flash_synced(&mut self, result: Result<(), DeviceError>) {
        if result.is_err() {
            self.count_error(Device::Flash);
            self.flash_failed();
        }
        let Some(Batch { records, tail }) = self.log.syncing_flash.take() else { return };
        self.counters.commits += 1;
        self.log.durable += records.len() as u64;
        let durable = self.log.durable;
        self.log.taken_back.retain(|_, last| *last > durable);
        self.log.uncertain = self.log.syncing_through;
        if let Some(tail) = tail {
            self.log.durable_tail = tail;
        }
        for appended in &records {
            self.record_durable(appended);
        }
        if let Some(through) = self.log.checkpoints.sync_done() {
            self.log.tail = through;
            self.counters.checkpoints += 1;
        }
        if self.log.written.tail.is_some() {
            self.start_flash_sync();
        }
        self.reuse_slots();
        let half = self.log.superblock.layout.ring_blocks() / 2;
        if self.log.used_blocks() > half {
            let uncertain = self.log.uncertain;
            self.log.checkpoints.start(uncertain);
        }
        self.log.is_commit_wanted |= self.log.pending.len() >= PENDING_RECORDS_MAX
            || (self.log.has_new_tail() && self.log.writable_blocks() <= half / 2);
    }

    /// What a record says is durable: the slot table may say so as well.
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
            self.log.checkpoints.mark(slot);
            // Without an entry, a later record of this commit has removed it.
            match self.log.undo.get_mut(&slot) {
                Some(undo) if undo.last > self.log.durable => undo.row = row,
                Some(_) => drop(self.log.undo.remove(&slot)),
                None => {}
            }
        }
    }

    /// Slots whose obsolescence is durable become free, and their pages may go to disk.
    fn reuse_slots(&mut self) {
        while let Some(slot) = self.slots.next_reusable(self.log.durable) {
            let was_clean = !self.slots.slot(slot).is_dirty();
            let page = self.slots.page(slot);
            let id = self.entry(page).expect("a page with an obsolete slot has an entry");
            self.entries[id].obsolete -= 1;
            self.entries[id].obsolete_clean -= u32::from(was_clean);
            if self.pinned.contains_key(&slot) {
                self.freed_while_pinned.insert(slot);
            } else {
                self.slots.free(slot);
            }
            self.settle(id);
        }
    }

    /// The flash is gone: nothing of the journal matters any more.
    pub(super) fn forget_journal(&mut self) {
        let log = &mut self.log;
        log.pending.clear();
        log.writing = Batch::default();
        log.writing_copies = 0;
        log.written = Batch::default();
        log.syncing_flash = None;
        log.durable = log.appended;
        log.undo.clear();
        log.early.clear();
        log.taken_back.clear();
        log.is_commit_wanted = false;
        log.checkpoints.forget();
        for waiter in &mut log.waiters {
            waiter.stage = Stage::Data;
        }
        for (in_flight, operation) in std::mem::take(&mut log.operations) {
            match in_flight {
                InFlight::Journal(block) | InFlight::Table(block) => {
                    self.meta_frames.push(block.frame);
                }
                InFlight::FlashSync => {}
                InFlight::BackingSync | InFlight::Run(_) | InFlight::Blanks(_) => {
                    log.operations.push_back((in_flight, operation));
                }
            }
        }
    }
}

pub(super) fn sync(device: Device) -> OperationParts {
    OperationParts {
        id: crate::operation::OperationId(0),
        device,
        kind: OperationKind::Sync,
        offset_bytes: 0,
        length_bytes: 0,
        frames: smallvec::SmallVec::new(),
    }
}
