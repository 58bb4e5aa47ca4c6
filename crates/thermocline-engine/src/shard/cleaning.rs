//! Dirty pages are written back: in the order of the disk, as fast as the rate allows.

use thermocline_core::Nanos;

use super::budget::FlashBudget;
use super::{Place, Shard};
use crate::counters::Purpose;
use crate::slots::{SlotId, SlotState};

/// Interval at which the cleaner checks the ratio of dirty pages.
const CLEANING_INTERVAL: Nanos = Nanos(50_000_000);
/// Slots that the cleaner looks at in one step.
const SLOTS_PER_STEP: usize = 1 << 14;

/// The clock of the cleaner.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// Time of the last check, and the slot at which the next one goes on.
    looked_at: Nanos,
    next_slot: u32,
    /// Time of the last request.
    asked_at: Nanos,
}

impl Cleaner {
    /// Restart at the first slot of another flash.
    pub(super) const fn restart(&mut self) {
        self.next_slot = 0;
    }

    /// Note that a request has come.
    pub(super) const fn asked(&mut self, now: Nanos) {
        self.asked_at = now;
    }

    /// Return the time since it last looked, if it is to look now.
    const fn elapsed_ns(&mut self, now: Nanos) -> Option<u64> {
        let elapsed_ns = now.0 - self.looked_at.0;
        if elapsed_ns < CLEANING_INTERVAL.0 {
            return None;
        }
        self.looked_at = now;
        Some(elapsed_ns)
    }

    /// Return the next of `slots` slots.
    const fn next_slot(&mut self, slots: u32) -> SlotId {
        let slot = self.next_slot % slots;
        self.next_slot = (slot + 1) % slots;
        SlotId(slot)
    }
}

impl Shard {
    /// Starts to read from flash what is to be written to disk, in the order of the disk.
    pub(super) fn start_write_backs(&mut self) {
        // Rule 11: a page that is cleaned would change the disk before the note allows that.
        if self.awaits_epoch {
            return;
        }
        let most = self.options.cleaning.pages_in_flight_max;
        while self.write_backs.in_flight() < most && self.has_spare_frame() {
            let Some(page) = self.write_backs.pop() else { return };
            if self.is_backing_resting(page) {
                continue;
            }
            if self.write_backs.is_in_vain(page) {
                self.rest_backing(page);
                continue;
            }
            let id = self.ensure_entry(page);
            let entry = &mut self.entries[id];
            if entry.disk_written == entry.newest || entry.is_lost {
                self.compact(id);
                continue;
            }
            entry.wants.disk = true;
            if entry.frame.is_some() {
                self.settle(id);
            } else if entry.fetch.is_none() {
                self.write_backs.fetch_started();
                self.start_fetch(id, Purpose::Cleaning).expect("there is a frame to spare");
            }
        }
    }

    /// Return `true` if background work may take a frame.
    pub(super) fn has_spare_frame(&self) -> bool {
        // A request that is being taken counts on the frames that it has claimed for its other pages.
        self.pool.free_frames() > self.requests.claimed_frames()
    }

    /// Let a page rest that the backing store refused: it is tried again later.
    pub(super) fn rest_backing(&mut self, page: u64) {
        self.write_backs.rest(page, self.now);
    }

    pub(super) fn is_backing_resting(&self, page: u64) -> bool {
        self.write_backs.is_resting(page)
    }

    /// Clean the pages that are due by now.
    pub(super) fn clean_in_time(&mut self) {
        for page in self.write_backs.wake_in_time(self.now) {
            self.send_home(page);
        }
        self.retry_blanks_in_time();
        self.end_overdue();
        if self.flash.works()
            && let Some(elapsed_ns) = self.cleaner.elapsed_ns(self.now)
        {
            self.clean_towards_target(elapsed_ns);
        }
    }

    /// Send the newest bytes of a page to disk, if that lacks them.
    pub(super) fn send_home(&mut self, page: u64) {
        if let Some(id) = self.entry(page)
            && self.entries[id].frame.is_some()
        {
            let entry = &mut self.entries[id];
            entry.wants.disk |= entry.disk_written != entry.newest;
            self.settle(id);
        } else {
            self.write_backs.insert(page);
        }
    }

    /// Writes every page that is newer than the disk's to disk, and tells the policy so. When the shard
    /// is idle again, it is done.
    pub fn drain(&mut self) {
        self.actions.clear();
        self.policy.flush(&mut self.actions);
        self.perform_actions();
        self.retry_blanks();
        for page in self.dirty_page_numbers() {
            self.send_home(page);
        }
        self.want_sync_and_commit();
    }

    /// Return the number of pages whose newest bytes the disk may not have durably; lost pages not
    /// counted.
    pub fn dirty_pages(&self) -> usize {
        self.dirty_page_numbers().len() + self.blanks.dirty_pages()
    }

    fn dirty_page_numbers(&self) -> Vec<u64> {
        let is_dirty = |place: &Place| match *place {
            Place::Slot(slot) => self.slots.slot(slot).is_dirty(),
            Place::Entry(id) => {
                let entry = &self.entries[id];
                entry.disk_synced != entry.newest && !entry.is_lost
            }
        };
        let dirty = self.places.iter().filter(is_dirty);
        let mut pages: Vec<u64> =
            dirty.map(|place| place.page(&self.slots, &self.entries)).collect();
        pages.sort_unstable();
        pages
    }

    /// Return the latest time at which [`tick`](Shard::tick) should be called, if it should.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let retry = self.write_backs.next_retry();
        let look =
            self.is_too_dirty().then_some(Nanos(self.cleaner.looked_at.0 + CLEANING_INTERVAL.0));
        let sync = self.disk_syncs.retry_at().filter(|_| !self.queue.is_empty());
        let flash = self.flash_faults.next_retry().into_iter().chain(self.next_look());
        let blanks = self.blanks.retry_at();
        let [_, dirty] = self.slots.live_and_dirty();
        let idle =
            self.idle_from().filter(|&from| dirty > 0 && self.flash.works() && from > self.now);
        let devices = retry.into_iter().chain(idle).chain(blanks).chain(flash).chain(sync);
        let devices = devices.chain(self.next_move());
        devices.chain(look).chain(self.first_deadline()).min()
    }

    fn is_too_dirty(&self) -> bool {
        let [_, dirty] = self.slots.live_and_dirty();
        self.flash.works() && f64::from(dirty) > self.dirty_slots_target()
    }

    /// Return the time at which the shard counts as idle unless a request comes.
    fn idle_from(&self) -> Option<Nanos> {
        let after = self.options.cleaning.idle_after?;
        Some(Nanos(self.cleaner.asked_at.0.saturating_add(after.0)))
    }

    /// Return the number of slots that may be dirty now: 0 while nobody asks for anything.
    fn dirty_slots_target(&self) -> f64 {
        if self.idle_from().is_some_and(|from| self.now >= from) {
            return 0.0;
        }
        self.options.cleaning.dirty_ratio_target * f64::from(self.options.kept_slots())
    }

    /// Queues dirty pages of flash, as many as the rate allows since the last time.
    fn clean_towards_target(&mut self, elapsed_ns: u64) {
        if !self.is_too_dirty() {
            return;
        }
        let [_, dirty] = self.slots.live_and_dirty();
        let target = self.dirty_slots_target();
        let rate = f64::from(self.options.cleaning.pages_per_second_max);
        // A pause earns at most a second of the rate, so that no burst follows it.
        let allowed = (rate * (elapsed_ns.min(1_000_000_000) as f64) / 1e9).ceil();
        let excess = f64::from(dirty) - target;
        let waiting = self.write_backs.waiting_pages() as f64;
        // A slot is clean when the disk was synced, and nobody else may ask for that. Slots that a sync under way
        // covers need no other one.
        if !self.disk_syncs.unsynced().is_empty() && !self.write_backs.is_busy() {
            self.disk_syncs.want_if_rested(self.now);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of pages, cut off at both ends"
        )]
        let mut wanted = (allowed.min(excess) - waiting).max(0.0) as u32;
        let slots = u32::try_from(self.slots.len()).expect("slots have 32-bit numbers");
        for _ in 0..SLOTS_PER_STEP.min(self.slots.len()) {
            if wanted == 0 {
                break;
            }
            let slot = self.cleaner.next_slot(slots);
            let (held, page) = (self.slots.slot(slot), self.slots.page(slot));
            if held.state() == SlotState::Live
                && held.is_dirty()
                && self.is_worth_cleaning(page, held.version())
                && self.write_backs.insert(page)
            {
                wanted -= 1;
            }
        }
        self.is_stirred = true;
    }

    /// Return `true` if the slot's version is the newest; RAM will write newer ones soon enough.
    fn is_worth_cleaning(&self, page: u64, version: u64) -> bool {
        self.entry(page).is_none_or(|id| {
            let entry = &self.entries[id];
            entry.newest == version && entry.disk_started != version && !entry.is_lost
        })
    }

    /// Return `true` if the write budget allows one more page on flash. A dirty page, which would have
    /// to go to disk at once, may always be written.
    pub(super) fn may_write_flash(&mut self, is_clean: bool) -> bool {
        let (now, written_bytes) = (self.now, self.counters.flash.all_written_bytes());
        let Some(budget) = &mut self.flash_budget else { return true };
        let left_bytes = budget.reckon(now, written_bytes);
        !is_clean || left_bytes >= f64::from(self.options.page_bytes)
    }

    /// Return the number of bytes that the write budget allows now, if there is one; below zero if
    /// it is overdrawn.
    pub fn flash_budget_bytes(&self) -> Option<f64> {
        let written_bytes = self.counters.flash.all_written_bytes();
        self.flash_budget.map(|budget| budget.left_bytes(self.now, written_bytes))
    }

    /// Changes the write budget from now on: what was earned and spent under the former one counts, and
    /// nothing that was written without any.
    pub fn set_flash_write_budget(&mut self, gib_per_day: Option<f64>) {
        self.options.flash_write_budget_gib_per_day = gib_per_day;
        let (now, written_bytes) = (self.now, self.counters.flash.all_written_bytes());
        match (&mut self.flash_budget, gib_per_day) {
            (Some(budget), Some(rate)) => budget.set_rate(rate, now, written_bytes),
            (budget, rate) => {
                *budget = rate.map(|rate| FlashBudget::new(rate, now, written_bytes));
            }
        }
    }
}
