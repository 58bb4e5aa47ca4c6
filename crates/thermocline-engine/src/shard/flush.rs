//! Flushes, durable writes, and the syncs of the disk.
//!
//! A flush is answered in three stages: every page that only RAM has is written, to a slot or to
//! disk; the disk is synced if it was written since, but for what slots have as well; the records of
//! all slots written are committed.

use std::collections::BTreeSet;
use std::ops::Range;

use thermocline_core::Nanos;

use super::cleaning::REST;
use super::durability::sync;
use super::{InFlight, Shard};
use crate::entry::EntryId;
use crate::operation::{Device, DeviceError};
use crate::options::{READ_FRAMES, RESERVED_FRAMES};
use crate::request::{Request, RequestError};

/// Pages that are on their way to flash at once because too many are newer in RAM.
const LOGGED_AT_ONCE_MAX: usize = 128;
/// Writes are not taken while this part of the bound is exceeded.
const EXCESS_PART: usize = 4;

/// A request that waits for versions to be durable.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) request: usize,
    pub(super) version: u64,
    /// Which pages; all if there is none.
    pub(super) pages: Option<Range<u32>>,
    pub(super) stage: Stage,
    /// So many records must be durable once the versions are written.
    pub(super) records: u64,
}

impl Waiter {
    /// Whether it waits for the page to be written, whose oldest version that is not has this number.
    pub(super) fn waits_for(&self, page: u32, undurable: u64) -> bool {
        self.stage == Stage::Data
            && undurable <= self.version
            && self.pages.as_ref().is_none_or(|pages| pages.contains(&page))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Versions are being written.
    Data,
    /// That many syncs of the disk must be done.
    Sync(u64),
    /// That many records must be durable.
    Commit(u64),
}

impl Shard {
    /// A flush: every version so far is to be durable.
    pub(super) fn submit_flush(&mut self, request: Request) {
        let version = self.version;
        let key = self.insert_waiting(request);
        self.log.flush_target = self.log.flush_target.max(version);
        self.retry_blanks();
        self.log_all_pages();
        self.push_waiter(key, version, None);
    }

    /// The pages of a range that only RAM has.
    fn undurable_pages_of(&self, pages: &Range<u32>) -> Vec<u32> {
        let first = self.entries.oldest_undurable();
        let all = std::iter::successors(first, |&id| self.entries.next_undurable(id));
        if (pages.end - pages.start) as usize > self.entries.undurable_pages() {
            return all.map(|id| self.entries[id].page).filter(|it| pages.contains(it)).collect();
        }
        pages.clone().filter(|&page| self.entry(page).is_some()).collect()
    }

    /// Whether the disk was written since it was last synced, but for a sync that is under way.
    fn needs_sync(&self) -> bool {
        !self.log.unsynced.is_empty() || self.blanks.last_sync() > self.log.syncs_started
    }

    pub(super) fn log_all_pages(&mut self) {
        let mut next = self.entries.oldest_undurable();
        let mut pages = vec![];
        while let Some(id) = next {
            pages.push(self.entries[id].page);
            next = self.entries.next_undurable(id);
        }
        for page in pages {
            self.log_page(page);
        }
    }

    /// A request waits until the pages are durable up to a version.
    pub(super) fn wait_until_durable(&mut self, request: usize, pages: Range<u64>, version: u64) {
        let page = |page: u64| u32::try_from(page).expect("page numbers have 32 bits");
        let pages = page(pages.start)..page(pages.end);
        self.retry_blanks();
        for page in self.undurable_pages_of(&pages) {
            self.log_page(page);
        }
        self.push_waiter(request, version, Some(pages));
    }

    /// A request waits for versions whose writes have begun, or are wanted.
    fn push_waiter(&mut self, request: usize, version: u64, pages: Option<Range<u32>>) {
        let records = self.log.appended;
        let stage = Stage::Data;
        self.log.waiters.push(Waiter { request, version, pages, stage, records });
        self.want_commit();
        self.is_stirred = true;
    }

    /// Writes the page to a slot if only RAM has its newest bytes.
    pub(super) fn log_page(&mut self, page: u32) {
        if let Some(id) = self.entry(page)
            && self.entries[id].undurable != 0
        {
            self.entries[id].wants.log = true;
            self.settle(id);
        }
    }

    /// After a write to a device: the page was written again since, and a waiter wants that version.
    pub(super) fn relog(&mut self, id: EntryId) {
        let entry = &self.entries[id];
        let (page, undurable) = (entry.page, entry.undurable);
        if undurable == 0 {
            return;
        }
        let is_wanted = |waiter: &Waiter| waiter.waits_for(page, undurable);
        if undurable <= self.log.flush_target || self.log.waiters.iter().any(is_wanted) {
            self.entries[id].wants.log = true;
        }
    }

    /// After a failed write: whoever waits for the page's versions has it written elsewhere.
    pub(super) fn relog_page(&mut self, page: u32) {
        if let Some(id) = self.entry(page) {
            self.relog(id);
            self.settle(id);
        }
    }

    /// Whether more pages are newer in RAM than should be.
    pub(super) fn is_too_volatile(&self) -> bool {
        self.entries.undurable_pages() > self.options.undurable_pages_max as usize
    }

    /// Whether so many pages are newer in RAM that writes have to wait for those on their way; if none
    /// is, waiting would not help.
    pub(super) fn is_overfull(&self) -> bool {
        let most = self.options.undurable_pages_max as usize;
        self.entries.undurable_pages() > most + most / EXCESS_PART && !self.is_at_rest()
    }

    /// Logs the pages that have been newer in RAM for longest, if there are too many of them.
    pub(super) fn bound_undurable(&mut self) {
        let most = self.options.undurable_pages_max as usize;
        let excess = self.entries.undurable_pages().saturating_sub(most);
        let mut next = self.entries.oldest_undurable();
        for _ in 0..excess.min(LOGGED_AT_ONCE_MAX) {
            let Some(id) = next else { break };
            next = self.entries.next_undurable(id);
            let entry = &mut self.entries[id];
            let is_under_way = entry.slot_write.is_some() || entry.disk_write.is_some();
            if !entry.wants.log && !is_under_way {
                entry.wants.log = true;
                self.enqueue(id);
            }
        }
    }

    /// Moves waiters on, and starts commits and syncs that are wanted.
    pub(super) fn advance_waiters(&mut self) {
        if self.awaits_epoch {
            return;
        }
        let mut waiters = std::mem::take(&mut self.log.waiters);
        let mut answered = vec![];
        waiters.retain_mut(|waiter| {
            let is_done = self.advance(waiter);
            if is_done {
                answered.push(waiter.request);
            }
            !is_done
        });
        debug_assert!(self.log.waiters.is_empty(), "advancing makes no waiters");
        self.log.waiters = waiters;
        for request in answered {
            self.counters.flushes += 1;
            self.page_done_durably(request, Ok(()));
        }
        self.advance_drain();
        self.start_backing_sync();
        self.start_commit();
        self.advance_checkpoint();
    }

    /// Whether somebody waits for what is being written to disk.
    pub(super) fn awaits_disk(&self) -> bool {
        !self.log.waiters.is_empty() || !self.disk_waiters.is_empty() || self.log.is_draining
    }

    /// Whether the waiter waits no longer.
    fn advance(&mut self, waiter: &mut Waiter) -> bool {
        if waiter.stage == Stage::Data {
            if !self.is_written(waiter) {
                return false;
            }
            let blank_sync = self.blanks.last_sync();
            let is_blank_unsynced = blank_sync > self.log.syncs_started;
            let is_blank_syncing = self.log.is_syncing && blank_sync == self.log.syncs_started;
            if is_blank_unsynced || self.is_only_on_disk(&self.log.unsynced) {
                self.log.is_sync_wanted = true;
                waiter.stage = Stage::Sync(self.log.syncs_started + 1);
            } else if is_blank_syncing || self.is_only_on_disk(&self.log.syncing) {
                waiter.stage = Stage::Sync(self.log.syncs_started);
            } else {
                // Records of what only others wait for may be under way before their pages are there.
                waiter.stage = Stage::Commit(waiter.records.max(self.log.appended_late));
            }
        }
        if let Stage::Sync(syncs) = waiter.stage {
            if self.log.syncs_done < syncs {
                return false;
            }
            waiter.stage = Stage::Commit(self.log.appended);
        }
        let Stage::Commit(records) = waiter.stage else { return false };
        self.log.is_commit_wanted |= self.log.durable < records;
        self.log.durable >= records
    }

    /// Whether nothing but a sync of the disk makes some of these versions durable: the others are in
    /// slots as well, which stay in force until then, if the flash works.
    fn is_only_on_disk(&self, versions: &[(u32, u64)]) -> bool {
        versions.iter().any(|&(page, version)| {
            let slot = self.entry(page).and_then(|id| self.entries[id].slot);
            !self.has_flash || slot.is_none_or(|slot| self.slots.slot(slot).version() < version)
        })
    }

    /// Whether every version that the waiter waits for is in a slot or on disk.
    fn is_written(&self, waiter: &Waiter) -> bool {
        let is_newer = |id: EntryId| {
            let undurable = self.entries[id].undurable;
            undurable == 0 || undurable > waiter.version
        };
        if self.blanks.owes(waiter.version, waiter.pages.as_ref()) {
            return false;
        }
        match &waiter.pages {
            None => self.entries.oldest_undurable().is_none_or(is_newer),
            Some(pages) => {
                let mut undurable = self.undurable_pages_of(pages).into_iter();
                undurable.all(|page| self.entry(page).is_none_or(is_newer))
            }
        }
    }

    /// Prepares for the end without writing anything home: what only RAM has goes to flash, and the
    /// journal says that all of it is there. When the shard is idle again, it is done.
    ///
    /// What the disk lacks stays on flash, so that a disk that is gone does not hold up the end.
    pub fn stop(&mut self) {
        if self.has_flash {
            let awaited = self.disk_waiters.keys().copied().collect();
            self.write_backs.close(awaited);
        }
        // If a write fails, the page is written elsewhere. And requests that are still under way give
        // pages versions that come after this.
        self.log.flush_target = u64::MAX;
        self.log_all_pages();
        self.want_sync_and_commit();
    }

    /// Once nothing else is wanted, the disk is synced and all records are committed.
    pub(super) const fn want_sync_and_commit(&mut self) {
        self.log.is_draining = true;
        self.log.sync_retry_at = None;
        self.is_stirred = true;
    }

    /// Syncs and commits what a drain left behind, when all pages are written. If the disk cannot be
    /// synced, it ends without: what the flash has stays dirty there.
    fn advance_drain(&mut self) {
        let is_busy = self.write_backs.is_busy()
            || self.write_backs.waiting_pages() > 0
            || !self.queue.is_empty()
            || !self.outbox.is_empty()
            || !self.flash_faults.is_idle()
            || self.blanks.has_wanted()
            || (self.blanks.has_resting() && !self.write_backs.is_closed())
            || self
                .in_flight
                .iter()
                .any(|(_, flying)| matches!(flying, InFlight::Run(_) | InFlight::Blanks(_)));
        if !self.log.is_draining || is_busy {
            return;
        }
        if (self.needs_sync() || self.log.is_syncing) && !self.is_sync_resting() {
            self.log.is_sync_wanted |= self.needs_sync();
        } else if self.log.durable < self.log.appended {
            self.log.is_commit_wanted = true;
        } else if self.has_flash && self.log.sealed < self.log.appended {
            self.log.is_seal_wanted = true;
            self.log.is_commit_wanted = true;
        } else {
            self.log.is_draining = false;
        }
    }

    /// A version is on disk, and not yet synced.
    pub(super) fn note_unsynced(&mut self, page: u32, version: u64) {
        self.log.unsynced.push((page, version));
        // The other half is for what is written while the sync is under way.
        let most = (self.options.unsynced_frames() as usize).div_ceil(2);
        self.log.is_sync_wanted |= self.log.unsynced.len() >= most && !self.is_sync_resting();
    }

    /// Pages that were written to disk keep their frames until it is synced: frames are needed.
    pub(super) fn want_frames(&mut self) {
        let low = RESERVED_FRAMES + READ_FRAMES + 2 * self.options.request_pages_max();
        let is_short = self.pool.free_frames() < low as usize;
        self.log.is_sync_wanted |=
            is_short && !self.log.unsynced.is_empty() && !self.is_sync_resting();
    }

    /// Whether a sync of the disk has failed just now: only flushes try it again at once.
    pub(super) fn is_sync_resting(&self) -> bool {
        self.log.sync_retry_at.is_some_and(|at| self.now < at)
    }

    /// Syncs the disk if somebody wants that.
    fn start_backing_sync(&mut self) {
        if !self.log.is_sync_wanted || self.log.is_syncing {
            return;
        }
        self.log.is_sync_wanted = false;
        self.log.is_syncing = true;
        self.log.syncs_started += 1;
        std::mem::swap(&mut self.log.unsynced, &mut self.log.syncing);
        self.counters.backing.syncs += 1;
        self.log.operations.push_back((InFlight::BackingSync, sync(Device::Backing)));
    }

    pub(super) fn backing_synced(&mut self, result: Result<(), DeviceError>) {
        self.log.is_syncing = false;
        self.log.syncs_done += 1;
        let mut synced = std::mem::take(&mut self.log.syncing);
        self.blanks_synced(result.is_ok());
        if result.is_err() {
            self.count_error(Device::Backing);
            self.log.sync_retry_at = Some(Nanos(self.now.0 + REST.0));
            self.owe_again();
            self.backing_sync_failed(&synced);
        } else {
            self.log.sync_retry_at = None;
            for &(page, version) in &synced {
                self.page_synced(page, version);
            }
        }
        synced.clear();
        self.log.syncing = synced;
    }

    /// The disk has a version durably: slots with it are clean, slots with older ones not needed.
    fn page_synced(&mut self, page: u32, version: u64) {
        let Some(id) = self.entry(page) else { return };
        let entry = &mut self.entries[id];
        entry.disk_synced = entry.disk_synced.max(version);
        self.note_slot_synced(id);
        self.settle(id);
    }

    /// The newest version of the page in a slot of a flash that works, or durably on disk.
    fn durable_version(&self, id: EntryId) -> u64 {
        let entry = &self.entries[id];
        let slot = entry.slot.filter(|_| self.has_flash);
        let in_slot = slot.map_or(0, |slot| self.slots.slot(slot).version());
        in_slot.max(entry.disk_synced)
    }

    /// The disk may have lost whatever was written since the last sync that succeeded: it is dirty again,
    /// and is written again from its frame or slot. Slots that hold older versions stay in force until
    /// that is synced. Requests that wait for this sync fail.
    fn backing_sync_failed(&mut self, syncing: &[(u32, u64)]) {
        let failed = self.fail_sync_waiters();
        for (_, flying) in &mut self.in_flight {
            match flying {
                InFlight::Run(run) if run[0].device == Device::Backing => {
                    for transfer in run {
                        transfer.is_doubtful = true;
                    }
                }
                InFlight::Blanks(run) => run.is_doubtful = true,
                InFlight::Run(_)
                | InFlight::Journal { .. }
                | InFlight::Table { .. }
                | InFlight::FlashSync
                | InFlight::BackingSync => {}
            }
        }
        let mut written = std::mem::take(&mut self.log.unsynced);
        written.extend_from_slice(syncing);
        // Bytes on their way from the disk may be older than what is durable elsewhere, also those that
        // only requests from before the page was replaced still wait for.
        let pages: BTreeSet<u32> = written.iter().map(|&(page, _)| page).collect();
        for (_, fetch) in &mut self.fetches {
            fetch.is_doubtful |= fetch.slot.is_none() && pages.contains(&fetch.page);
        }
        for page in pages {
            if let Some(id) = self.entry(page)
                && self.entries[id].disk_written != self.entries[id].disk_synced
            {
                self.write_again(id);
            }
        }
        // Pages in doubt may be on their way to slots already, for somebody else.
        let records = self.log.appended;
        for waiter in &mut self.log.waiters {
            waiter.records = records;
        }
        for request in failed {
            self.page_done_durably(request, Err(RequestError::Io));
        }
    }

    /// Requests that wait for versions of these pages to be written fail: they cannot be written now.
    pub(super) fn fail_waiters(&mut self, pages: &Range<u32>, version: u64) {
        let mut failed = vec![];
        self.log.waiters.retain(|waiter| {
            let overlaps = |it: &Range<u32>| it.start < pages.end && pages.start < it.end;
            let is_failed = waiter.stage == Stage::Data
                && version <= waiter.version
                && waiter.pages.as_ref().is_none_or(overlaps);
            if is_failed {
                failed.push(waiter.request);
            }
            !is_failed
        });
        for request in failed {
            self.page_done_durably(request, Err(RequestError::Io));
        }
    }

    /// Takes out the requests that wait for the sync that failed; the others wait for their pages again.
    fn fail_sync_waiters(&mut self) -> Vec<usize> {
        let syncs = self.log.syncs_done;
        let mut failed = vec![];
        self.log.waiters.retain(|waiter| {
            let is_failed = matches!(waiter.stage, Stage::Sync(wanted) if wanted <= syncs);
            if is_failed {
                failed.push(waiter.request);
            }
            !is_failed
        });
        for waiter in &mut self.log.waiters {
            waiter.stage = Stage::Data;
        }
        failed
    }

    /// The disk may not have what was written of the page.
    fn write_again(&mut self, id: EntryId) {
        let in_slot = self.current_slot(id).is_some();
        if !in_slot && self.entries[id].frame.is_none() {
            let entry = &self.entries[id];
            assert_eq!(entry.blank, entry.newest, "an unsynced page is somewhere else, or blank");
            if let Some(fetch) = self.entries[id].fetch.take() {
                self.fetches[fetch.0 as usize].is_current = false;
            }
            let zeroes = self.pool.retain(self.zero_frame);
            let entry = &mut self.entries[id];
            (entry.frame, entry.zeroed, entry.is_discarded) = (Some(zeroes), entry.newest, false);
        }
        let entry = &mut self.entries[id];
        let page = entry.page;
        entry.disk_written = entry.disk_synced;
        if !in_slot || !self.has_flash {
            // Versions between the durable one and this one count as well: a flush may wait for them,
            // and waits for the oldest that is not durable.
            let doubtful = self.durable_version(id) + 1;
            self.entries.lower_undurable(id, doubtful);
        }
        self.relog(id);
        self.rest_backing(page);
        self.settle(id);
    }
}
