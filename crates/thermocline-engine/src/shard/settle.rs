//! Settling a page: comparing what is wanted with what is, and starting what is missing.
//!
//! Rules that every step keeps:
//!
//! * The newest bytes of a page are in its frame, in its live slot, or durably on disk. A frame is let
//!   go only when one of the others has them: a sync that fails may drop what was written to disk. Pages
//!   of zeroes are the exception, as they can be made again.
//! * One write of a page per device is in flight at a time, and none to disk while the page is being
//!   read from there.
//! * Rule 5 of durability (`ARCHITECTURE.md`): a slot that is clean and older than what is written to disk
//!   must be durably obsolete before that write starts. Otherwise a crash would bring the old bytes back, and their eviction the new
//!   ones later. A slot that is dirty stays in force until the disk is synced.

use super::{Fetch, InFlight, Shard};
use crate::counters::Purpose;
use crate::entry::{Capture, EntryId, FetchId};
use crate::operation::{Copies, Device, Operation, OperationId, OperationKind, OperationParts};
use crate::outbox::{Task, Transfer};
use crate::slots::SlotId;

impl Shard {
    /// Starts what the page lacks, and lets go what nobody needs. The entry may be gone afterwards.
    pub(super) fn settle(&mut self, id: EntryId) {
        if self.entries[id].frame.is_some() {
            // In this order: if no slot may be used, the first one asks for the disk instead.
            self.settle_flash(id);
            self.settle_disk(id);
        } else {
            self.settle_absent(id);
        }
        self.drop_unwanted_slot(id);
        self.write_back_orphan(id);
        self.let_go(id);
        self.compact(id);
    }

    /// Return the fetch that will bring the page's newest bytes, started if need be.
    pub(super) fn ensure_fetch(&mut self, id: EntryId) -> usize {
        match self.entries[id].fetch {
            Some(fetch) => fetch.0 as usize,
            None => self
                .start_fetch(id, Purpose::Policy)
                .expect("a request is taken only if there are frames for it"),
        }
    }

    /// Starts to fetch the newest bytes from flash or disk, if there is a frame.
    pub(super) fn start_fetch(&mut self, id: EntryId, purpose: Purpose) -> Option<usize> {
        let entry = &self.entries[id];
        let (page, version) = (entry.page, entry.newest);
        let slot = self.current_slot(id);
        assert!(
            slot.is_some() || entry.disk_written == version,
            "the newest bytes of a page without a frame are on flash or on disk"
        );
        let frame = self.pool.take()?;
        let fetch = self.fetches.insert(Fetch {
            page,
            frame,
            slot,
            version,
            is_current: true,
            is_write_back: purpose == Purpose::Cleaning,
            is_doubtful: false,
            was_wrong: false,
            is_from_other: false,
            is_outdated: false,
            waiters: smallvec::SmallVec::new(),
        });
        self.entries[id].fetch =
            Some(FetchId(u32::try_from(fetch).expect("there are fewer fetches than frames")));
        self.push_fetch(fetch, purpose, false);
        Some(fetch)
    }

    /// Hands a fetch to the outbox.
    pub(super) fn push_fetch(&mut self, fetch: usize, purpose: Purpose, is_retry: bool) {
        let Fetch { page, frame, slot, .. } = self.fetches[fetch];
        let (device, position, copies) = match slot {
            Some(slot) => {
                self.slots.pin(slot);
                (Device::Flash, slot.0.into(), self.home_of(slot))
            }
            None => {
                if let Some(id) = self.entry(page) {
                    // No write of the page to disk starts before this read ends: the read could get a
                    // part of each version.
                    self.entries[id].disk_reads += 1;
                }
                (Device::Backing, page, Copies::Both)
            }
        };
        let (kind, task) = (OperationKind::Read, Task::Fetch(fetch));
        let is_doubtful = false;
        self.outbox.push(Transfer {
            device,
            kind,
            position,
            frame,
            purpose,
            task,
            is_retry,
            is_doubtful,
            failures: 0,
            copies,
            is_final: false,
        });
    }

    /// Return the live slot, if it holds the newest version.
    pub(super) fn current_slot(&self, id: EntryId) -> Option<SlotId> {
        let entry = &self.entries[id];
        entry.slot.filter(|&slot| self.slots.slot(slot).version() == entry.newest)
    }

    /// Writes the frame to flash if somebody wants that.
    fn settle_flash(&mut self, id: EntryId) {
        let entry = &self.entries[id];
        let wants = entry.wants;
        if !wants.flash && !wants.log {
            return;
        }
        let is_on_disk = entry.disk_written == entry.newest;
        let is_being_written =
            |write: Option<Capture>| write.is_some_and(|capture| capture.version == entry.newest);
        let slot_write = entry.slot_write.map(|write| write.capture);
        // A slot that the shard leaves is not where the policy wants the page to be.
        let leaves_slot = self.is_leaving_slot(id);
        let is_held = self.current_slot(id).is_some() && !(wants.flash && leaves_slot);
        let is_met = is_held || is_being_written(slot_write);
        let is_logged = is_met || is_on_disk || is_being_written(entry.disk_write);
        if !self.may_use_slots() {
            self.entries[id].wants.disk |= !is_on_disk;
            self.entries[id].wants.flash = false;
            self.entries[id].wants.log = false;
            return;
        }
        if is_met || (is_logged && !wants.flash) {
            self.counters.copies_saved_flash += u64::from(is_met && wants.flash);
            self.entries[id].wants.flash = false;
            self.entries[id].wants.log = false;
            return;
        }
        if slot_write.is_some() {
            return;
        }
        // The write budget bounds only copies of the policy: a flush, and slots that are given back,
        // must not wait for tomorrow.
        if wants.flash && !wants.log && !leaves_slot && !self.may_write_flash(is_on_disk) {
            self.entries[id].wants.flash = false;
            self.entries[id].wants.disk |= !is_on_disk;
            self.counters.budget_refusals += 1;
            return;
        }
        // An early record pays only if a flush needs the slot. If the disk has the version, its sync
        // makes it durable.
        self.start_slot_write(id, wants.log && !is_logged);
    }

    /// Writes the frame to disk if somebody wants that and nothing forbids it.
    fn settle_disk(&mut self, id: EntryId) {
        let entry = &self.entries[id];
        if !entry.wants.disk {
            return;
        }
        let (page, version) = (entry.page, entry.newest);
        if entry.disk_written == version {
            self.counters.copies_saved_disk += 1;
            self.entries[id].wants.disk = false;
            return;
        }
        if let Some(capture) = entry.disk_write {
            // A discard may turn out not to have written anything.
            self.entries[id].wants.disk = capture.version != version || entry.is_discarded;
            return;
        }
        // A request that waits for the page is answered by what this write comes to.
        let is_awaited = self.waiters.want_on_disk(page);
        if entry.disk_reads > 0 || (self.is_backing_resting(page) && !is_awaited) {
            return;
        }
        self.write_backs.wake(page);
        if self.write_backs.is_in_vain(page) && !is_awaited {
            self.rest_backing(page);
            return;
        }
        // Rule 5: the end of a clean slot must be durable first. A dirty one is what a crash falls back
        // on until the disk is synced, so it stays.
        if let Some(slot) = entry.slot
            && !self.slots.slot(slot).is_dirty()
        {
            self.give_up_slot(id);
        }
        let entry = &self.entries[id];
        if entry.obsolete_clean > 0 {
            // Rule 5: a clean slot holds what the disk had. If a crash came after the disk write
            // and before that record, recovery would serve the old bytes once more.
            self.want_commit();
            return;
        }
        let kind = match entry.zeroed == version {
            true if entry.is_discarded => OperationKind::Discard,
            true => OperationKind::Zero,
            false => OperationKind::Write,
        };
        let frame = entry.frame.expect("the caller checked");
        let frame = self.pool.retain(frame);
        let entry = &mut self.entries[id];
        entry.wants.disk = false;
        // From here on the disk may have this version: a clean slot of an older one would bring that
        // back after a crash (rule 5).
        entry.disk_started = version;
        entry.disk_write = Some(Capture { version, next: 0 });
        self.outbox.push(Transfer {
            device: Device::Backing,
            kind,
            position: page,
            frame,
            purpose: Purpose::Policy,
            task: Task::DiskWrite { page },
            is_retry: false,
            is_doubtful: false,
            failures: 0,
            copies: Copies::Both,
            is_final: false,
        });
    }

    /// Settle a page without a frame: fetch it if it is wanted in RAM or on flash, queue it if it
    /// is to be cleaned.
    fn settle_absent(&mut self, id: EntryId) {
        let in_slot = self.current_slot(id).is_some();
        let stays_in_slot = in_slot && !self.is_leaving_slot(id);
        let has_flash = self.may_use_slots();
        let entry = &mut self.entries[id];
        entry.wants.log = false;
        if entry.is_lost {
            entry.wants = crate::entry::Wants::default();
            return;
        }
        if entry.fetch.is_some() {
            return;
        }
        if entry.wants.disk {
            entry.wants.disk = false;
            if entry.disk_written == entry.newest {
                self.counters.copies_saved_disk += 1;
            } else if in_slot {
                self.write_backs.insert(entry.page);
                self.is_stirred = true;
            }
        }
        let entry = &mut self.entries[id];
        if entry.wants.flash && (stays_in_slot || !has_flash) {
            entry.wants.flash = false;
        }
        let is_wanted = entry.in_ram || entry.wants.flash;
        if is_wanted && !(self.has_spare_frame() && self.start_fetch(id, Purpose::Policy).is_some())
        {
            self.enqueue(id);
        }
    }

    /// Free a slot that the policy gave up, and that nothing else needs.
    fn drop_unwanted_slot(&mut self, id: EntryId) {
        let entry = &self.entries[id];
        // The policy may drop a page whose version is durable nowhere else. Such a dirty slot stays
        // until a sync of the disk.
        if let Some(slot) = entry.slot
            && !entry.on_flash
            && !self.slots.slot(slot).is_dirty()
        {
            self.give_up_slot(id);
        }
    }

    /// Send a dirty page to disk that no tier of the policy holds, and that is not on its way
    /// there: the policy believes that it is there already.
    fn write_back_orphan(&mut self, id: EntryId) {
        let entry = &self.entries[id];
        let is_orphan = !entry.in_ram
            && !entry.on_flash
            && !entry.is_lost
            && entry.disk_written != entry.newest
            && !entry.wants.disk
            && entry.disk_write.is_none()
            && entry.fetch.is_none();
        if !is_orphan || self.write_backs.contains(entry.page) {
            return;
        }
        let entry = &mut self.entries[id];
        if entry.frame.is_some() {
            entry.wants.disk = true;
            self.settle_disk(id);
        } else {
            self.write_backs.insert(entry.page);
            self.is_stirred = true;
        }
    }

    /// Gives the frame up if the newest bytes are elsewhere and nobody wants them in RAM.
    fn let_go(&mut self, id: EntryId) {
        let entry = &self.entries[id];
        let is_wanted = entry.in_ram || entry.wants.flash || entry.wants.log || entry.wants.disk;
        let is_blank = entry.disk_written == entry.newest && entry.blank == entry.newest;
        // Zeroes stay until a sync, in a frame that all pages share: the disk may be a server, which ends
        // and forgets them. Of a page that was discarded, the disk's bytes count.
        let is_zero = is_blank && entry.zeroed == entry.newest;
        // A write that no sync covers does not count: the disk may drop it (rule 9).
        let is_on_disk = entry.disk_synced == entry.newest || (is_blank && !is_zero);
        let is_elsewhere = is_on_disk || self.current_slot(id).is_some();
        if is_wanted || !(is_elsewhere || is_zero) || (is_elsewhere && self.is_told_first(id)) {
            return;
        }
        if let Some(frame) = self.entries[id].frame.take() {
            self.pool.release(frame);
            if !is_elsewhere {
                self.entries[id].frame = Some(self.pool.retain(self.zero_frame));
            }
        }
    }

    /// Return the next operation made of page transfers.
    pub(super) fn next_transfer(&mut self) -> Option<Operation> {
        if let Some(operation) = self.next_blank() {
            return Some(operation);
        }
        let run = self.outbox.next_run(self.now, self.awaits_disk())?;
        let first = run[0];
        let page_bytes = u64::from(self.options.page_bytes);
        let length_bytes = run.len() as u64 * page_bytes;
        let transfers = match first.device {
            Device::Flash => &mut self.counters.flash,
            Device::Backing => &mut self.counters.backing,
        };
        transfers.count(first.kind, run.iter().map(|transfer| (transfer.purpose, page_bytes)));
        let offset_bytes = match first.device {
            Device::Flash => {
                let slot = u32::try_from(first.position).expect("slots have 32-bit numbers");
                self.journal.slot_offset_bytes(SlotId(slot))
            }
            Device::Backing => first.position * page_bytes,
        };
        let frames = run.iter().map(|transfer| transfer.frame).collect();
        let id = self.start(InFlight::Run(run));
        let parts = OperationParts {
            id,
            device: first.device,
            kind: first.kind,
            offset_bytes,
            length_bytes,
            frames,
            copies: first.copies,
            is_final: first.is_final,
        };
        Some(Operation::of_shard(parts, self.pool.frames()))
    }

    /// Numbers an operation.
    pub(super) fn start(&mut self, operation: InFlight) -> OperationId {
        let id = self.in_flight.insert(operation);
        OperationId(u32::try_from(id).expect("there are fewer operations than frames"))
    }
}
