//! Flushes, durable writes, and the syncs of the disk: what [waiters](super::waiters) and
//! [disk syncs](super::disk_syncs) want, done to pages.

use std::collections::BTreeSet;
use std::ops::Range;

use super::waiters::{Reached, Waiter};
use super::{InFlight, Shard};
use crate::entry::{EntryId, FetchId};
use crate::operation::{Device, DeviceError};
use crate::request::{Request, RequestError, Segments};

/// Pages that are on their way to flash at once because too many are newer in RAM.
const LOGGED_AT_ONCE_MAX: usize = 128;
/// Writes are not taken while this part of the bound is exceeded.
const EXCESS_PART: usize = 4;

impl Shard {
    /// Submit a flush: every version so far is to be durable.
    pub(super) fn submit_flush(&mut self, request: Request) {
        if self.disk_syncs.take_loss() {
            return self.reply(request, Err(RequestError::Io), None, Segments::new());
        }
        self.wait_for_all(request);
    }

    /// Let a request wait until every version so far is durable.
    pub(super) fn wait_for_all(&mut self, request: Request) {
        let version = self.version;
        let key = self.insert_waiting(request);
        // Rule 6: versions of pages that are being written now are written again if the flush
        // covers the newer ones.
        self.waiters.raise_target(version);
        self.retry_blanks();
        self.log_all_pages();
        self.push_waiter(key, version, None);
    }

    /// Return the pages of a range that only RAM has.
    fn undurable_pages_of(&self, pages: &Range<u64>) -> Vec<u64> {
        let first = self.entries.oldest_undurable();
        let all = std::iter::successors(first, |&id| self.entries.next_undurable(id));
        if pages.end - pages.start > self.entries.undurable_pages() as u64 {
            return all.map(|id| self.entries[id].page).filter(|it| pages.contains(it)).collect();
        }
        pages.clone().filter(|&page| self.entry(page).is_some()).collect()
    }

    /// Return `true` if the disk was written since it was last synced, but for a sync that is under way.
    pub(super) fn needs_sync(&self) -> bool {
        !self.disk_syncs.unsynced().is_empty()
            || !self.disk_syncs.has_started(self.blanks.last_sync())
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

    /// Let a request wait until the pages are durable up to a version.
    pub(super) fn wait_until_durable(&mut self, request: usize, pages: Range<u64>, version: u64) {
        self.retry_blanks();
        for page in self.undurable_pages_of(&pages) {
            self.log_page(page);
        }
        self.push_waiter(request, version, Some(pages));
    }

    /// Add a request that waits for versions whose writes have begun, or are wanted.
    fn push_waiter(&mut self, request: usize, version: u64, pages: Option<Range<u64>>) {
        // A slot may have the version already, with a record that is not durable yet.
        self.waiters.push(request, version, pages, self.journal.appended());
        self.want_commit();
        self.is_stirred = true;
    }

    /// Writes the page to a slot if only RAM has its newest bytes.
    pub(super) fn log_page(&mut self, page: u64) {
        if let Some(id) = self.entry(page)
            && self.entries[id].undurable != 0
        {
            self.entries[id].wants.log = true;
            self.settle(id);
        }
    }

    /// Log a page again, after a write to a device, if it was written since and a waiter wants that
    /// version.
    pub(super) fn relog(&mut self, id: EntryId) {
        let entry = &self.entries[id];
        let (page, undurable) = (entry.page, entry.undurable);
        if undurable == 0 {
            return;
        }
        if self.waiters.want(page, undurable) {
            self.entries[id].wants.log = true;
        }
    }

    /// Have the page written elsewhere after a failed write, if requests wait for its versions.
    pub(super) fn relog_page(&mut self, page: u64) {
        if let Some(id) = self.entry(page) {
            self.relog(id);
            self.settle(id);
        }
    }

    /// Return `true` if more pages are newer in RAM than should be.
    pub(super) fn is_too_volatile(&self) -> bool {
        self.entries.undurable_pages() > self.options.undurable_pages_max as usize
    }

    /// Return `true` if that many pages are newer in RAM that writes have to wait for the transfers
    /// in flight; if none is in flight, waiting would not help.
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
        // Rule 11: no commit, no checkpoint and no sync before the epoch is durable.
        if self.awaits_epoch {
            return;
        }
        let reached = Reached {
            syncs_done: self.disk_syncs.done(),
            appended: self.journal.appended(),
            appended_late: self.journal.appended_late(),
            durable: self.journal.durable(),
        };
        let mut waiters = std::mem::take(&mut self.waiters);
        let is_written = |waiter: &Waiter| self.is_written(waiter);
        let advanced = waiters.advance(reached, is_written, || self.awaited_sync());
        self.waiters = waiters;
        if advanced.sync.is_some_and(|sync| !self.disk_syncs.has_started(sync)) {
            self.disk_syncs.want();
        }
        self.journal.want_durable(advanced.records);
        for request in advanced.done {
            self.counters.flushes += 1;
            self.page_done_durably(request, Ok(()));
        }
        self.advance_drain();
        self.start_disk_sync();
        self.start_commit();
        self.advance_checkpoint();
    }

    /// Return `true` if somebody waits for what is being written to disk.
    pub(super) fn awaits_disk(&self) -> bool {
        self.waiters.is_anyone_waiting() || self.is_draining
    }

    /// Return the number of the sync that makes durable what only the disk has, if there is
    /// something.
    fn awaited_sync(&self) -> Option<u64> {
        let syncs = &self.disk_syncs;
        let (next, blank_sync) = (syncs.next(), self.blanks.last_sync());
        // A sync that is under way may have started before these writes, so the next one counts.
        if !syncs.has_started(blank_sync) || self.is_only_on_disk(syncs.unsynced()) {
            return Some(next);
        }
        let is_blank_syncing = syncs.is_syncing() && blank_sync + 1 == next;
        let is_syncing = is_blank_syncing || self.is_only_on_disk(syncs.syncing());
        is_syncing.then_some(next - 1)
    }

    /// Return `true` if nothing but a sync of the disk makes some of these versions durable: the others
    /// are in slots as well, which stay in force until then, if the flash works.
    fn is_only_on_disk(&self, versions: &[(u64, u64)]) -> bool {
        versions.iter().any(|&(page, version)| {
            let slot = self.entry(page).and_then(|id| self.entries[id].slot);
            !self.flash.works() || slot.is_none_or(|slot| self.slots.slot(slot).version() < version)
        })
    }

    /// Return `true` if every version that the waiter waits for is in a slot or on disk.
    fn is_written(&self, waiter: &Waiter) -> bool {
        // Versions after the waiter's do not matter to it.
        let is_newer = |id: EntryId| {
            let undurable = self.entries[id].undurable;
            undurable == 0 || undurable > waiter.version()
        };
        if self.blanks.owes(waiter.version(), waiter.pages()) {
            return false;
        }
        match waiter.pages() {
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
    /// Dirty pages stay on flash, so that a disk that is gone does not hold up the end.
    pub fn stop(&mut self) {
        if self.flash.works() {
            // Dirty pages of the flash stay there: the end must not depend on the disk.
            self.write_backs.close(self.waiters.pages_for_disk());
        }
        // If a write fails, the page is written elsewhere. And requests that are still under way give
        // pages versions that come after this.
        self.waiters.raise_target(u64::MAX);
        self.log_all_pages();
        self.want_sync_and_commit();
    }

    /// Sync the disk and commit all records once nothing else is wanted.
    pub(super) const fn want_sync_and_commit(&mut self) {
        self.is_draining = true;
        self.disk_syncs.end_rest();
        self.is_stirred = true;
    }

    /// Sync and commit the rest of a drain, when all pages are written. If the disk cannot be
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
        if !self.is_draining || is_busy {
            return;
        }
        let needs_sync = self.needs_sync();
        if (needs_sync || self.disk_syncs.is_syncing()) && !self.disk_syncs.is_resting(self.now) {
            if needs_sync {
                self.disk_syncs.want();
            }
        } else if self.journal.durable() < self.journal.appended() {
            self.journal.want_commit();
        } else {
            // A seal lets the next start tell a slot that rotted from one that a crash cut off.
            self.is_draining = self.flash.works() && !self.journal.seal();
        }
    }

    /// Note that a version is on disk, and not yet synced.
    pub(super) fn note_unsynced(&mut self, page: u64, version: u64) {
        self.disk_syncs.note(page, version);
        // The other half is for what is written while the sync is under way.
        let most = (self.options.unsynced_frames() as usize).div_ceil(2);
        if self.disk_syncs.unsynced().len() >= most {
            self.disk_syncs.want_if_rested(self.now);
        }
    }

    /// Want a sync if frames are needed: pages that were written to disk keep their frames until it
    /// is synced.
    pub(super) fn want_frames(&mut self) {
        let low = self.options.frames_for_requests();
        let is_short = self.pool.free_frames() < low as usize;
        if is_short && !self.disk_syncs.unsynced().is_empty() {
            self.disk_syncs.want_if_rested(self.now);
        }
    }

    /// Return `true` if a sync of the disk has failed just now: only flushes try it again at once.
    pub(super) fn is_sync_resting(&self) -> bool {
        self.disk_syncs.is_resting(self.now)
    }

    /// Sync the disk if somebody wants that.
    fn start_disk_sync(&mut self) {
        if self.disk_syncs.start() {
            self.counters.backing.syncs += 1;
            self.metadata.push_sync(Device::Backing);
        }
    }

    pub(super) fn disk_synced(&mut self, result: Result<(), DeviceError>) {
        if result.is_err() {
            // Rule 9: everything since the last good sync is in doubt, also writes that completed.
            let written = self.disk_syncs.failed(self.now);
            self.blanks_synced(false);
            self.count_error(Device::Backing);
            self.owe_again();
            if self.others_write() {
                self.lose(&written);
            }
            let pages = written.iter().map(|&(page, _)| page).collect();
            self.disk_sync_failed(&pages);
            return;
        }
        let synced = self.disk_syncs.succeeded();
        self.blanks_synced(true);
        for (page, version) in synced {
            self.page_synced(page, version);
        }
    }

    /// Note that the disk has a version durably: slots with it are clean, slots with older ones not
    /// needed.
    fn page_synced(&mut self, page: u64, version: u64) {
        let Some(id) = self.entry(page) else { return };
        let entry = &mut self.entries[id];
        // Only now may the slot of an older version be given up, and a frame be let go.
        entry.disk_synced = entry.disk_synced.max(version);
        self.note_slot_synced(id);
        self.settle(id);
    }

    /// Return the newest version of the page in a slot of a flash that works, or durably on disk.
    fn durable_version(&self, id: EntryId) -> u64 {
        let entry = &self.entries[id];
        let slot = entry.slot.filter(|_| self.flash.works());
        let in_slot = slot.map_or(0, |slot| self.slots.slot(slot).version());
        in_slot.max(entry.disk_synced)
    }

    /// Handle a failed sync: the disk may have lost everything written since the last one that
    /// succeeded, which is dirty again, and is written again from its frame or slot. Slots that
    /// hold older versions stay in force until that is synced. Requests that wait for this sync
    /// fail.
    fn disk_sync_failed(&mut self, written: &BTreeSet<u64>) {
        // A request that waited for this sync must be told: a later sync that succeeds would not
        // cover what was dropped.
        let failed = self.waiters.fail_syncs(self.disk_syncs.done());
        // Rule 9: the failed sync may have dropped writes in flight, too, and the next sync would not
        // report them.
        for (_, flying) in &mut self.in_flight {
            match flying {
                InFlight::Run(run) if run[0].device == Device::Backing => {
                    for transfer in run {
                        transfer.is_doubtful = true;
                    }
                }
                InFlight::Blanks(run) => run.is_doubtful = true,
                InFlight::Run(_) | InFlight::Own(_) => {}
            }
        }
        if self.others_write() {
            // Another client may have written these pages since: nothing is written again.
            for &page in written {
                self.give_up(page);
            }
        } else {
            self.write_all_again(written);
        }
        // Pages in doubt may be on their way to slots already, for somebody else.
        self.waiters.require_records(self.journal.appended());
        for request in failed {
            self.page_done_durably(request, Err(RequestError::Io));
        }
    }

    /// Mark the written versions of these pages as not on disk, because a sync failed.
    fn write_all_again(&mut self, written: &BTreeSet<u64>) {
        // Bytes on their way from the disk may be older than what is durable elsewhere, also those that
        // only requests from before the page was replaced still wait for.
        for (_, fetch) in &mut self.fetches {
            fetch.is_doubtful |= fetch.slot.is_none() && written.contains(&fetch.page);
        }
        for &page in written {
            if let Some(id) = self.entry(page)
                && self.entries[id].disk_written != self.entries[id].disk_synced
            {
                self.write_again(id);
            }
        }
    }

    /// Fail the requests that wait for versions of these pages to be written: they cannot be
    /// written now.
    pub(super) fn fail_waiters(&mut self, pages: &Range<u64>, version: u64) {
        let failed = self.waiters.fail_pages(pages, version);
        for request in failed {
            self.page_done_durably(request, Err(RequestError::Io));
        }
    }

    /// Write a page again that the disk may not have.
    fn write_again(&mut self, id: EntryId) {
        let in_slot = self.current_slot(id).is_some();
        if !in_slot && self.entries[id].frame.is_none() {
            let entry = &self.entries[id];
            assert_eq!(entry.blank, entry.newest, "an unsynced page is somewhere else, or blank");
            self.become_zeroes(id);
        }
        let entry = &mut self.entries[id];
        let page = entry.page;
        // Count the page as dirty again, so that it is written from its frame or slot.
        entry.disk_written = entry.disk_synced;
        if !in_slot || !self.flash.works() {
            // Versions between the durable one and this one count as well: a flush may wait for them,
            // and waits for the oldest that is not durable.
            let doubtful = self.durable_version(id) + 1;
            self.entries.lower_undurable(id, doubtful);
        }
        self.relog(id);
        self.rest_backing(page);
        self.settle(id);
    }

    /// Make a page zeroes whose bytes on disk are unknown after a trim. The zeroes are a version of
    /// their own, as bytes that the disk had may be on their way to a slot.
    fn become_zeroes(&mut self, id: EntryId) {
        let version = self.note_write(id);
        let zeroes = self.pool.retain(self.zero_frame);
        let entry = &mut self.entries[id];
        (entry.frame, entry.zeroed, entry.blank) = (Some(zeroes), version, version);
        let page = entry.page;
        if let Some(FetchId(fetch)) = entry.fetch.take() {
            let fetch = &mut self.fetches[fetch as usize];
            fetch.is_current = false;
            let waiters = std::mem::take(&mut fetch.waiters);
            self.serve_waiters(Some(id), page, zeroes, waiters);
        }
    }
}
