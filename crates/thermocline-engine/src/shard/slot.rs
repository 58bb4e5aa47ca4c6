//! A page on its way to a slot, and a slot on its way to being free.
//!
//! It enforces rule 1 of durability (`ARCHITECTURE.md`): a slot is written out of place, and a record says so.
//!
//! The record of a slot comes up when the slot is written. If somebody waits for the page to be durable,
//! it comes up when that write starts: page and journal block are then under way together, and the sync
//! that makes both durable starts when both are there. Rules for such an early record:
//!
//! * It says that the slot is dirty. A crash may leave the record without the page; recovery looks at
//!   the bytes, and the slot before stays in force.
//! * The slot becomes the page's live slot when it is written, as any other.
//! * If the slot cannot be written, further records take the first one back. One sync covers them all:
//!   the journal never calls a slot durable that is not.
//! * If the disk has a newer version durably before that, a second record frees the slot. Whoever waits
//!   for the newer version waits for that record, or a crash could bring the older one back.

use std::num::NonZeroU64;

use super::Shard;
use crate::counters::Purpose;
use crate::entry::{Capture, EntryId, SlotWrite};
use crate::format::checksum;
use crate::format::journal::RecordKind;
use crate::operation::{Copies, Device, DeviceError, OperationKind};
use crate::outbox::{Task, Transfer};
use crate::slots::SlotId;

impl Shard {
    /// Writes the newest version, which is in a frame, to a free slot; `is_awaited` if it is to be
    /// durable there soon.
    pub(super) fn start_slot_write(&mut self, id: EntryId, is_awaited: bool) {
        let entry = &self.entries[id];
        let (page, version) = (entry.page, entry.newest);
        let frame = entry.frame.expect("the caller checked");
        if self.slots.free_slots() == 0 {
            self.wait_for_slot(id);
            return;
        }
        // The checksum covers page number and version: bytes of another page, or of an older
        // version, do not match (rule 3).
        let checksum = checksum(page, version, self.pool.bytes(frame));
        // Rule 1: out of place. The slot that has the page stays as it is until a record makes it
        // obsolete.
        let slot = self.slots.take(page, checksum, version).expect("a slot is free");
        let frame = self.pool.retain(frame);
        // Where writes fail, records would have to be taken back again and again.
        let is_early = is_awaited && !self.flash_faults.doubts_slot_writes();
        let record = is_early.then(|| self.record_early(id, slot));
        // Only what the disk has durably may be on one device of a mirrored flash alone.
        let is_clean = self.entries[id].disk_synced == version && record.is_none();
        let copies = if is_clean { self.home_of(slot) } else { Copies::Both };
        let entry = &mut self.entries[id];
        let purpose = if entry.wants.flash { Purpose::Policy } else { Purpose::Durability };
        let capture = Capture { version, next: 0 };
        entry.slot_write = Some(SlotWrite { slot, capture, record, is_freed: false });
        entry.wants.flash = false;
        entry.wants.log = false;
        self.outbox.push(Transfer {
            device: Device::Flash,
            kind: OperationKind::Write,
            position: slot.0.into(),
            frame,
            purpose,
            task: Task::SlotWrite { page },
            is_retry: false,
            is_doubtful: false,
            failures: 0,
            copies,
            is_final: false,
        });
    }

    /// Record a slot whose write is about to start.
    fn record_early(&mut self, id: EntryId, slot: SlotId) -> NonZeroU64 {
        let former = self.entries[id].slot;
        let (page, undurable) = (self.entries[id].page, self.entries[id].undurable);
        let record = self.append_early(slot, former);
        if self.waiters.note_record(page, undurable, record) {
            self.want_commit();
        }
        record
    }

    /// Wait for a free slot. Slots become free as pages are cleaned and records committed; if
    /// nothing of the kind is under way, the page goes to disk.
    fn wait_for_slot(&mut self, id: EntryId) {
        self.want_free_slots();
        let entry = &mut self.entries[id];
        let is_under_way = self.slots.obsolete_slots() > 0
            || self.write_backs.is_busy()
            || self.disk_syncs.is_busy();
        if is_under_way {
            self.enqueue(id);
        } else {
            entry.wants.flash = false;
            entry.wants.log = false;
            entry.wants.disk |= entry.disk_written != entry.newest;
        }
    }

    /// End the write of a slot: a record says so, or will.
    pub(super) fn slot_written(
        &mut self,
        page: u64,
        transfer: Transfer,
        result: Result<(), DeviceError>,
    ) {
        self.pool.release(transfer.frame);
        let id = self.entry(page).expect("a page that is being written has an entry");
        let write = self.entries[id].slot_write.take().expect("its entry knows of the write");
        if result.is_err() && self.flash.works() {
            self.slot_write_failed(id, write);
        }
        // Once the flash has failed, a write that succeeded is worth nothing: no journal will name the
        // slot.
        if result.is_err() || !self.flash.works() {
            self.relog_page(page);
            return;
        }
        match write.record {
            Some(record) => self.recorded_slot_written(id, write, record),
            None => self.record_slot_written(id, write),
        }
        self.written(id, write.capture);
        self.settle(id);
    }

    /// Condemn a slot that could not be written; the page goes to another one if somebody needs it
    /// there.
    fn slot_write_failed(&mut self, id: EntryId, write: SlotWrite) {
        // A slot that refused a write may hold anything, and may refuse again.
        self.condemn(write.slot);
        let entry = &mut self.entries[id];
        entry.wants.flash |= entry.on_flash && entry.frame.is_some();
        entry.wants.log |= entry.frame.is_some() && entry.disk_written < write.capture.version;
        let former = entry.slot;
        if let Some(record) = write.record {
            self.take_back(record, write.slot, former);
        }
        self.slots.free(write.slot);
        self.flash_operation_failed();
    }

    /// Make the slot live that a record names and that is written now.
    fn recorded_slot_written(&mut self, id: EntryId, write: SlotWrite, record: NonZeroU64) {
        self.early_record_done(record);
        self.slots.set_live(write.slot, true, true);
        if write.is_freed {
            // `note_slot_synced` has appended the record that frees the slot. The slot is used again
            // when that record is durable.
            self.make_obsolete(id, write.slot);
            return;
        }
        // The record of the new slot makes the former one obsolete; rule 4 keeps it until that
        // record is durable.
        if let Some(former) = self.entries[id].slot.replace(write.slot) {
            self.make_obsolete(id, former);
        }
        // A sync of the disk may have covered this version meanwhile. Early records always say dirty,
        // so another record makes the slot clean.
        self.note_slot_synced(id);
    }

    /// Record a slot that is written and that no record names, if the page needs it.
    fn record_slot_written(&mut self, id: EntryId, write: SlotWrite) {
        let SlotWrite { slot, capture, .. } = write;
        let entry = &self.entries[id];
        // A version that the disk has too is worth a slot only while it is the newest, and no newer one
        // is on its way to disk: it would have to be obsolete, durably, before that.
        let is_dirty = entry.disk_written < capture.version;
        let is_newest = entry.newest == capture.version && entry.disk_started <= capture.version;
        let is_needed = is_dirty || (entry.on_flash && is_newest);
        if !is_needed {
            self.slots.free(slot);
            return;
        }
        // Rule 9: a write to disk that no sync covers may be lost, so the slot stays the durable place.
        let is_dirty = entry.disk_synced != capture.version;
        let kind = if is_dirty { RecordKind::Dirty } else { RecordKind::Clean };
        let former = self.entries[id].slot.replace(slot);
        self.append(kind, slot, former);
        self.slots.set_live(slot, is_dirty, true);
        if let Some(former) = former {
            self.make_obsolete(id, former);
        }
    }

    /// Note that the disk has a version of the page durably: a slot with it is clean, one with an
    /// older version is not needed.
    pub(super) fn note_slot_synced(&mut self, id: EntryId) {
        let entry = &self.entries[id];
        let synced = entry.disk_synced;
        if let Some(slot) = entry.slot {
            let held = self.slots.slot(slot);
            // Unless a newer version is on its way to disk: until then the slot stays in force.
            let is_current = held.version() == synced && held.version() == entry.disk_started;
            // Rule 4: the disk durably has the version of the slot, or a newer one, so a crash may lose
            // the slot.
            if held.version() < synced || (is_current && !entry.on_flash) {
                self.give_up_slot(id);
            } else if is_current && held.is_dirty() {
                self.append(RecordKind::Clean, slot, None);
                self.slots.set_clean(slot);
            }
        }
        if let Some(write) = self.entries[id].slot_write
            && self.flash.works()
            && write.record.is_some()
            && !write.is_freed
            && write.capture.version < synced
        {
            // The early record may become durable with the page. Without this one a crash would then
            // bring the older version back.
            self.append(RecordKind::Free, write.slot, None);
            self.entries[id].slot_write = Some(SlotWrite { is_freed: true, ..write });
        }
    }

    /// Give up the slot of a page, which nobody needs: the disk has its version, or a newer one,
    /// durably.
    pub(super) fn give_up_slot(&mut self, id: EntryId) {
        let slot = self.entries[id].slot.take().expect("the caller saw the slot");
        if !self.flash.works() {
            self.slots.abandon(slot);
            return;
        }
        self.append(RecordKind::Free, slot, None);
        self.make_obsolete(id, slot);
    }

    fn make_obsolete(&mut self, id: EntryId, slot: SlotId) {
        let is_clean = !self.slots.slot(slot).is_dirty();
        // Rule 4: the record that ends the slot is the last one, or one before it.
        self.slots.set_obsolete(slot, self.journal.appended());
        let entry = &mut self.entries[id];
        entry.obsolete += 1;
        // Only these hold back the next write of the page to disk (rule 5).
        entry.obsolete_clean += u32::from(is_clean);
    }
}
