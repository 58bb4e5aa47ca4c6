//! Commits and checkpoints: what the journal decides, done with frames and operations.
//!
//! It enforces rules 4 and 7 of durability (`ARCHITECTURE.md`): slots are used again when their records are
//! durable, and each block of the journal is written twice.

use std::num::NonZeroU64;

use super::journal::{Commit, JOURNAL_COPIES};
use super::metadata::{Block, BlockKind};
use super::{InFlight, Shard};
use crate::format::BLOCK_BYTES;
use crate::format::journal::RecordKind;
use crate::operation::{Device, DeviceError, Operation, OperationParts};
use crate::slots::SlotId;

impl Shard {
    /// Return the number of the next journal block: once the engine is idle, the journal's end.
    pub const fn next_sequence(&self) -> u64 {
        self.journal.next_sequence()
    }

    /// Want a commit for something else than a flush.
    pub(super) const fn want_commit(&mut self) {
        self.is_stirred |= self.journal.want_commit();
    }

    /// Want free slots: they come from commits, and from syncs of the disk before.
    pub(super) fn want_free_slots(&mut self) {
        if self.slots.obsolete_slots() > 0 {
            self.want_commit();
        }
        if !self.disk_syncs.unsynced().is_empty() {
            self.is_stirred |= self.disk_syncs.want_if_rested(self.now);
        }
    }

    /// Adds a record about a slot, before the slot's state changes.
    pub(super) fn append(&mut self, kind: RecordKind, slot: SlotId, superseded: Option<SlotId>) {
        self.journal.append(&self.slots, kind, slot, superseded);
        self.bound_pending();
    }

    /// Adds a record about a slot that a page is about to be written to. Returns its number.
    pub(super) fn append_early(&mut self, slot: SlotId, superseded: Option<SlotId>) -> NonZeroU64 {
        let record = self.journal.append_early(&self.slots, slot, superseded);
        self.bound_pending();
        record
    }

    fn bound_pending(&mut self) {
        if self.journal.has_many_pending() {
            self.want_commit();
        }
    }

    /// Note that the page of such a record is in its slot.
    pub(super) fn early_record_done(&mut self, record: NonZeroU64) {
        self.journal.early_done(record);
        // A commit may have waited for this page alone (rule 2).
        if self.journal.has_written() {
            self.start_flash_sync();
        }
    }

    /// Take back an early record whose page cannot be written to its slot.
    pub(super) fn take_back(&mut self, record: NonZeroU64, slot: SlotId, former: Option<SlotId>) {
        self.journal.take_back(&self.slots, record, slot, former);
        self.want_commit();
    }

    /// Writes the records that came up, if somebody wants that and no block is being written.
    pub(super) fn start_commit(&mut self) {
        if self.journal.awaits_sync() {
            self.start_flash_sync();
        }
        if !self.flash.works() {
            self.journal.cancel_commit();
            return;
        }
        let frames = self.metadata.free_frames() as u64;
        match self.journal.start_commit(frames / JOURNAL_COPIES) {
            Commit::Nothing => {}
            // No room is left to take a record back. So no sync may start, and only a sync would make
            // room.
            Commit::Stuck => self.flash_failed(),
            Commit::Blocks(blocks) => {
                for _ in 0..blocks {
                    self.write_journal_block();
                }
            }
        }
    }

    /// Writes both copies of a block at once (rule 7).
    fn write_journal_block(&mut self) {
        let block = self.journal.next_block(self.counters.flash.all_written_bytes());
        // Both copies go out at once, without a sync between them: the records are not acknowledged
        // before the sync that covers both.
        for offset_bytes in block.offsets_bytes {
            let written = self.metadata.new_block(BlockKind::Journal, offset_bytes);
            let bytes = &mut self.pool.bytes_mut(written.frame)[..BLOCK_BYTES];
            self.journal.encode(&block, bytes);
            self.push_block(written);
        }
    }

    /// Writes the next table blocks of a checkpoint.
    pub(super) fn advance_checkpoint(&mut self) {
        // One commit must have frames at any time.
        while self.metadata.free_frames() as u64 >= JOURNAL_COPIES {
            let Some(block) = self.journal.next_table_block() else { return };
            let offset_bytes = self.journal.table_offset_bytes(block);
            let written = self.metadata.new_block(BlockKind::Table, offset_bytes);
            let bytes = &mut self.pool.bytes_mut(written.frame)[..BLOCK_BYTES];
            self.journal.encode_table(block, &self.slots, bytes);
            self.push_block(written);
        }
    }

    /// Queues the write of a block of the engine's own.
    pub(super) fn push_block(&mut self, block: Block) {
        let purpose = block.kind.purpose();
        self.counters.flash.written_bytes[purpose as usize] += BLOCK_BYTES as u64;
        self.counters.flash.writes += 1;
        self.metadata.push_block(block);
    }

    /// Return the next operation for the engine's own blocks, and syncs.
    pub(super) fn next_own_operation(&mut self) -> Option<Operation> {
        let (operation, parts) = self.metadata.pop()?;
        let parts = OperationParts { id: self.start(InFlight::Own(operation)), ..parts };
        Some(Operation::of_shard(parts, self.pool.frames()))
    }

    pub(super) fn block_done(&mut self, block: Block, result: Result<(), DeviceError>) {
        if self.tries_block_again(block, result) {
            return;
        }
        self.metadata.end_block(block);
        // A block that cannot be written leaves a gap that replay would stop at.
        if result.is_err() {
            self.flash_failed();
        }
        match block.kind {
            BlockKind::Table => self.journal.table_block_done(),
            BlockKind::Journal => {
                if self.journal.copy_written() {
                    self.start_flash_sync();
                    self.is_stirred = true;
                }
            }
        }
    }

    /// Sync the flash for the blocks that are written, if that can be.
    fn start_flash_sync(&mut self) {
        if self.journal.start_sync() {
            self.counters.flash.syncs += 1;
            self.metadata.push_sync(Device::Flash);
        }
    }

    pub(super) fn flash_synced(&mut self, result: Result<(), DeviceError>) {
        // After a failed sync nothing is known of what the flash has: the engine goes on without
        // it.
        if result.is_err() {
            self.count_error(Device::Flash);
            self.flash_failed();
        }
        // The flash may have failed since the sync began: then the journal covers nothing any more.
        let Some(has_ended_checkpoint) = self.journal.synced() else { return };
        self.counters.commits += 1;
        self.counters.checkpoints += u64::from(has_ended_checkpoint);
        if self.journal.has_written() {
            self.start_flash_sync();
        }
        self.reuse_slots();
        self.journal.make_room();
    }

    /// Free slots whose obsolescence is durable; their pages may go to disk (rules 4 and 5).
    fn reuse_slots(&mut self) {
        while let Some(slot) = self.slots.next_reusable(self.journal.durable()) {
            let was_clean = !self.slots.slot(slot).is_dirty();
            let page = self.slots.page(slot);
            let id = self.entry(page).expect("a page with an obsolete slot has an entry");
            self.entries[id].obsolete -= 1;
            self.entries[id].obsolete_clean -= u32::from(was_clean);
            // A crash from here on finds the record, so nobody reads this slot for its old page.
            self.slots.free(slot);
            self.settle(id);
        }
    }

    /// Forget the journal, because the flash is gone.
    pub(super) fn forget_journal(&mut self) {
        self.journal.forget();
        self.waiters.restart();
        self.metadata.forget_flash();
    }
}
