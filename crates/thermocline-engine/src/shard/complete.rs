//! Completions that the devices report.

use super::metadata::OwnOperation;
use super::{Fetch, InFlight, Shard, Waiter};
use crate::counters::Purpose;
use crate::entry::{Capture, EntryId};
use crate::format::checksum;
use crate::memory::FrameId;
use crate::operation::{Device, DeviceError, Operation, OperationKind};
use crate::outbox::{Run, Task, Transfer};
use crate::request::RequestError;
use crate::slots::SlotId;

impl Shard {
    /// Takes an operation back that is done, or failed. From now on its frames are the shard's.
    ///
    /// # Panics
    /// If this shard did not ask for the operation.
    #[expect(clippy::needless_pass_by_value, reason = "nobody uses the operation any more")]
    pub fn complete(&mut self, operation: Operation, result: Result<(), DeviceError>) {
        assert!(operation.is_of_shard(self.pool.frames()), "the operation is this shard's");
        self.is_stirred = true;
        match self.in_flight.remove(operation.id.0 as usize) {
            InFlight::Run(run) => self.run_done(run, result),
            InFlight::Blanks(run) => self.blanks_done(run, result),
            InFlight::Own(OwnOperation::Block(block)) => self.block_done(block, result),
            InFlight::Own(OwnOperation::Sync(Device::Flash)) => self.flash_synced(result),
            InFlight::Own(OwnOperation::Sync(Device::Backing)) => self.disk_synced(result),
        }
    }

    fn run_done(&mut self, run: Run, result: Result<(), DeviceError>) {
        self.outbox.done(&run, self.now);
        if result.is_err() && run.len() > 1 {
            // One bad page must not fail its neighbours.
            for mut transfer in run {
                transfer.is_retry = true;
                // Each page is written again after the sync that failed, so nothing of it is in doubt.
                transfer.is_doubtful = false;
                self.outbox.push(transfer);
            }
            return;
        }
        for transfer in run {
            if result.is_err() {
                self.count_error(transfer.device);
            }
            if self.tries_again(transfer, result) {
                continue;
            }
            match transfer.task {
                Task::Fetch(fetch) => self.fetch_done(fetch, result),
                Task::SlotWrite { page } => self.slot_written(page, transfer, result),
                Task::DiskWrite { page } => self.disk_written(page, transfer, result),
            }
        }
    }

    pub(super) fn count_error(&mut self, device: Device) {
        match device {
            Device::Flash => self.counters.flash.errors += 1,
            Device::Backing => self.counters.backing.errors += 1,
        }
    }

    fn fetch_done(&mut self, key: usize, result: Result<(), DeviceError>) {
        let Fetch { page, slot, is_current, .. } = self.fetches[key];
        match slot {
            Some(slot) => self.slots.unpin(slot),
            None => {
                if let Some(id) = self.entry(page) {
                    self.entries[id].disk_reads -= 1;
                }
            }
        }
        let is_intact = self.is_intact(key);
        match (result, slot) {
            // A sync failed during the read, and may have dropped the version that the disk should have
            // had.
            _ if self.fetches[key].is_doubtful => self.fetch_elsewhere(key),
            (Ok(()), None) if std::mem::take(&mut self.fetches[key].is_outdated) => {
                self.push_fetch(key, Purpose::Policy, true);
            }
            (Ok(()), _) if is_intact => {
                let is_half = self.fetches[key].is_from_other;
                self.fetched(key);
                if is_half {
                    self.write_back_half(page);
                }
            }
            // Of a mirrored flash, the device that had it may have gone, or have been replaced.
            (Ok(()), Some(slot)) if self.may_lack(slot) => self.slot_lacks_page(key, slot),
            (_, Some(slot)) => {
                self.counters.checksum_errors += u64::from(result.is_ok());
                self.condemn(slot);
                self.slot_unreadable(key, slot);
                self.flash_operation_failed();
            }
            (_, None) => self.fetch_failed(key, RequestError::Io),
        }
        if !is_current {
            self.settle_page(page);
        }
    }

    /// Return `true` if a fetch brought the bytes that its slot should have.
    pub(super) fn is_intact(&self, key: usize) -> bool {
        let Fetch { page, frame, slot, version, .. } = self.fetches[key];
        slot.is_none_or(|slot| {
            let expected = self.slots.slot(slot).checksum;
            checksum(page, version, self.pool.bytes(frame)) == expected
        })
    }

    /// Read a page elsewhere, as the bytes from the disk may be old. A slot has the right bytes, or
    /// the page was replaced.
    fn fetch_elsewhere(&mut self, key: usize) {
        let Fetch { page, is_current, .. } = self.fetches[key];
        let slot = self.entry(page).filter(|_| is_current).and_then(|id| self.current_slot(id));
        if slot.is_none() {
            return self.fetch_replaced(key);
        }
        (self.fetches[key].slot, self.fetches[key].is_doubtful) = (slot, false);
        self.push_fetch(key, Purpose::Policy, true);
    }

    /// Reads get what replaced the page, if RAM has it.
    fn fetch_replaced(&mut self, key: usize) {
        let entry = self.entry(self.fetches[key].page);
        if let Some(frame) = entry.and_then(|id| self.entries[id].frame) {
            let waiters = std::mem::take(&mut self.fetches[key].waiters);
            for waiter in waiters {
                match waiter {
                    Waiter::Read { request, segment } => {
                        let frame = self.pool.retain(frame);
                        self.read_done(request, segment, frame);
                    }
                    Waiter::Patch { .. } => self.fetches[key].waiters.push(waiter),
                }
            }
        }
        self.fetch_failed(key, RequestError::Io);
    }

    /// Handle a slot whose bytes are gone: the disk may have them; if not, they are lost.
    pub(super) fn slot_unreadable(&mut self, key: usize, slot: SlotId) {
        let Fetch { page, version, is_current, .. } = self.fetches[key];
        let Some(id) = self.entry(page).filter(|_| is_current) else {
            // The page was replaced as a whole; who waits for the old bytes waits in vain.
            self.fetch_failed(key, RequestError::Lost);
            return;
        };
        // Only exactly this version may be served. If the disk has another one, that is older, and a
        // client may have seen the newer one.
        if self.entries[id].disk_written == version {
            if self.entries[id].slot == Some(slot) && !self.slots.slot(slot).is_dirty() {
                self.give_up_slot(id);
                // A page that the policy believes on flash goes to another slot.
                let entry = &mut self.entries[id];
                entry.wants.flash |= entry.on_flash && self.flash.works();
            }
            self.fetches[key].slot = None;
            self.push_fetch(key, Purpose::Policy, true);
            return;
        }
        self.set_lost(id, true);
        // A page without bytes can never be written: a flush that waited for it would not end.
        self.entries.set_undurable(id, 0);
        self.fetch_failed(key, RequestError::Lost);
    }

    /// Fail a fetch: nobody gets the bytes.
    fn fetch_failed(&mut self, key: usize, error: RequestError) {
        let fetch = self.fetches.remove(key);
        if fetch.is_write_back {
            self.write_backs.fetch_ended();
        }
        self.pool.release(fetch.frame);
        for waiter in fetch.waiters {
            match waiter {
                Waiter::Read { request, segment } => self.read_failed(request, segment, error),
                Waiter::Patch { request, frame, .. } => {
                    self.pool.release(frame);
                    self.page_done(request, Err(error));
                }
            }
        }
        if fetch.is_current
            && let Some(id) = self.entry(fetch.page)
        {
            let entry = &mut self.entries[id];
            entry.fetch = None;
            // A page that the policy believes in RAM is fetched when it is accessed again.
            entry.wants = crate::entry::Wants::default();
            self.let_go_failed(id);
        }
    }

    /// Let go after a failed fetch: nothing is started again, or a broken device would be kept
    /// busy.
    fn let_go_failed(&mut self, id: EntryId) {
        let entry = &self.entries[id];
        let (page, is_dirty) = (entry.page, entry.disk_written != entry.newest);
        if is_dirty && !entry.is_lost && !entry.on_flash && !entry.in_ram {
            self.rest_backing(page);
        }
        self.compact(id);
    }

    /// Give the bytes of a fetch to all waiters, in order.
    fn fetched(&mut self, key: usize) {
        let fetch = self.fetches.remove(key);
        if fetch.is_write_back {
            self.write_backs.fetch_ended();
        }
        let current = fetch.frame;
        let id = self.entry(fetch.page).filter(|_| fetch.is_current);
        if let Some(id) = id {
            self.entries[id].fetch = None;
            self.entries[id].frame = Some(current);
        }
        let current = self.serve_waiters(id, fetch.page, current, fetch.waiters);
        match id {
            Some(id) => self.settle(id),
            None => self.pool.release(current),
        }
    }

    /// Whoever waits for the page's bytes gets them, in order. Returns the frame with all parts that were
    /// waiting to be written.
    pub(super) fn serve_waiters(
        &mut self,
        id: Option<EntryId>,
        page: u64,
        mut current: FrameId,
        waiters: impl IntoIterator<Item = Waiter>,
    ) -> FrameId {
        for waiter in waiters {
            match waiter {
                Waiter::Read { request, segment } => {
                    let frame = self.pool.retain(current);
                    self.read_done(request, segment, frame);
                }
                Waiter::Patch { request, frame, start, end, is_to_disk } => {
                    let whole = self.options.page_bytes as usize;
                    self.pool.copy(current, frame, 0..start as usize);
                    self.pool.copy(current, frame, end as usize..whole);
                    self.pool.release(current);
                    current = frame;
                    self.patched(id, page, request, frame, is_to_disk);
                }
            }
        }
        current
    }

    /// Note that a part of the page was replaced; if it was replaced as a whole since, that changes
    /// nothing.
    pub(super) fn patched(
        &mut self,
        id: Option<EntryId>,
        page: u64,
        request: usize,
        frame: FrameId,
        is_to_disk: bool,
    ) {
        let Some(id) = id else {
            // Durable is what replaced it.
            let version = self.entry(page).map_or(self.version, |id| self.entries[id].newest);
            self.note_version(request, version);
            self.page_done(request, Ok(()));
            return;
        };
        self.entries[id].frame = Some(frame);
        let version = self.note_write(id);
        self.note_version(request, version);
        self.relog(id);
        if is_to_disk {
            self.entries[id].wants.disk = true;
            self.wait_for_disk(page, version, request);
        } else {
            self.page_done(request, Ok(()));
        }
    }

    fn disk_written(&mut self, page: u64, transfer: Transfer, result: Result<(), DeviceError>) {
        self.pool.release(transfer.frame);
        if result.is_err() {
            self.write_backs.refused();
        } else if !transfer.is_doubtful {
            self.write_backs.taken();
        }
        self.page_written(page, transfer.kind, transfer.is_doubtful, result);
    }

    /// End the write of a page to disk; it may have been one of a range.
    pub(super) fn page_written(
        &mut self,
        page: u64,
        kind: OperationKind,
        is_doubtful: bool,
        result: Result<(), DeviceError>,
    ) {
        let id = self.entry(page).expect("a page that is being written has an entry");
        let capture = self.entries[id].disk_write.take().expect("its entry knows of the write");
        // Rule 9: a sync that failed during the write may have dropped it, although the write
        // succeeded.
        if is_doubtful && result.is_ok() {
            // Requests that wait for it are answered once it was written again.
            self.disk_write_failed(id);
            return;
        }
        if result.is_err() {
            self.disk_waiters_done(page, capture.version, Err(RequestError::Io));
            if self.others_write() && self.entries[id].newest == capture.version {
                self.abandon_write(id, capture.version);
            } else {
                self.disk_write_failed(id);
            }
            return;
        }
        if kind == OperationKind::Discard {
            self.entries[id].is_discarded = false;
            if self.was_seen(id, capture) {
                // The disk may still have the old bytes, and somebody holds zeroes: those count.
                self.disk_waiters_done(page, capture.version, Ok(()));
                self.relog(id);
                self.settle(id);
                return;
            }
            // Later reads get the content of the disk.
            self.entries[id].zeroed = 0;
        }
        // `disk_synced` stays behind: only a sync that begins from now on makes the version durable
        // (rule 9).
        self.entries[id].disk_written = capture.version;
        self.note_unsynced(page, capture.version);
        self.written(id, capture);
        self.note_outdated(id, capture.version);
        self.disk_waiters_done(page, capture.version, Ok(()));
        self.settle(id);
    }

    /// Return `true` if a page that was being discarded came to be cached meanwhile, as zeroes.
    fn was_seen(&self, id: EntryId, capture: Capture) -> bool {
        let entry = &self.entries[id];
        entry.newest == capture.version
            && (entry.in_ram
                || entry.on_flash
                || entry.wants.flash
                || entry.slot.is_some()
                || entry.slot_write.is_some())
    }

    /// Note that a version is in a recorded slot or on disk: a flush need not write it.
    pub(super) fn written(&mut self, id: EntryId, capture: Capture) {
        let undurable = self.entries[id].undurable;
        if undurable != 0 && undurable <= capture.version {
            self.entries.set_undurable(id, capture.next);
        }
        self.relog(id);
    }

    /// Let a request wait for a version to be on disk.
    pub(super) fn wait_for_disk(&mut self, page: u64, version: u64, request: usize) {
        self.waiters.push_for_disk(request, page, version);
        self.write_backs.await_page(page);
    }

    /// Answers the requests that waited for a version to be on disk.
    fn disk_waiters_done(&mut self, page: u64, version: u64, result: Result<(), RequestError>) {
        for request in self.waiters.disk_done(page, version) {
            self.page_done(request, result);
        }
    }

    /// Keep the page dirty after a failed write to disk. It is tried again later, from flash if
    /// that has it.
    fn disk_write_failed(&mut self, id: EntryId) {
        let page = self.entries[id].page;
        self.rest_backing(page);
        self.entries[id].is_discarded = false;
        self.entries[id].wants.disk = true;
        // While the backing store refuses the page, a slot can make it durable.
        if self.current_slot(id).is_none() && self.flash.works() {
            self.entries[id].wants.log = true;
        }
        self.settle(id);
    }
}
