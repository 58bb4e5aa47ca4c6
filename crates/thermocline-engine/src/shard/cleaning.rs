//! Dirty pages on their way from flash to disk, and what the flash may still take today.

use std::collections::BTreeSet;

use thermocline_core::Nanos;

use super::Shard;
use crate::counters::Purpose;
use crate::slots::SlotState;

/// How long a page rests after the backing store refused it, and syncs after one failed.
pub(super) const REST: Nanos = Nanos(1_000_000_000);
/// Refusals in a row after which the backing store is taken for gone: one page at a time tries it then.
const REFUSALS_MAX: u32 = 16;
/// How often the cleaner looks at the ratio of dirty pages.
const CLEANING_INTERVAL: Nanos = Nanos(50_000_000);
/// Slots that the cleaner looks at in one step.
const SLOTS_PER_STEP: usize = 1 << 14;
/// A day.
const DAY_NS: f64 = 86_400e9;
/// The budget of this time may be spent at once.
const BUDGET_BURST_DAYS: f64 = 1.0 / 24.0;

/// Pages to be written back, and the clock of the cleaner.
#[derive(Debug, Default)]
pub(super) struct WriteBacks {
    /// By page number, so that neighbours go together.
    pages: BTreeSet<u32>,
    /// Fetches under way.
    pub(super) in_flight: u32,
    /// Where the sweep over the page numbers stands.
    sweep: u32,
    /// Pages that the backing store refused, and when to try again.
    resting: BTreeSet<u32>,
    retry_at: Nanos,
    /// Writes that the backing store refused since it last took one, and the page that is to find out
    /// whether it takes them again.
    refusals: u32,
    probe: Option<u32>,
    /// Whether what waits stays where it is, but for these pages: the end has come.
    closed_but: Option<BTreeSet<u32>>,
    /// When the cleaner looked last, and at which slot it goes on.
    looked_at: Nanos,
    next_slot: u32,
    /// Bytes that could be written to flash when that was reckoned last, all that may be if it never
    /// was, and the bytes written until then.
    budget_bytes: Option<f64>,
    reckoned_at: Nanos,
    charged_bytes: u64,
}

impl WriteBacks {
    pub(super) fn insert(&mut self, page: u32) -> bool {
        let is_open = self.closed_but.as_ref().is_none_or(|awaited| awaited.contains(&page));
        is_open && self.pages.insert(page)
    }

    /// From now on nothing is written back but these pages, which requests wait for.
    pub(super) fn close(&mut self, awaited: BTreeSet<u32>) {
        self.pages.retain(|page| awaited.contains(page));
        self.closed_but = Some(awaited);
    }

    /// The cleaner begins with the first slot of another flash.
    pub(super) const fn restart_sweep(&mut self) {
        self.next_slot = 0;
    }

    /// Nothing can stay where it is, because the flash failed: everything is written back again.
    pub(super) fn open(&mut self) {
        self.closed_but = None;
    }

    /// A request waits for the page.
    pub(super) fn await_page(&mut self, page: u32) {
        if let Some(awaited) = &mut self.closed_but {
            awaited.insert(page);
        }
    }

    /// The backing store refused a write.
    pub(super) const fn refused(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
    }

    /// The backing store took a write: those that it refused are tried soon.
    pub(super) const fn taken(&mut self) {
        if self.is_refused() {
            self.retry_at = Nanos(0);
        }
        self.refusals = 0;
        self.probe = None;
    }

    /// Whether the backing store seems to be gone.
    pub(super) const fn is_refused(&self) -> bool {
        self.refusals >= REFUSALS_MAX
    }

    /// Whether the backing store is not to be bothered with the page.
    pub(super) fn is_in_vain(&self, page: u32) -> bool {
        self.is_refused() && self.probe != Some(page)
    }

    /// The page rests no longer.
    pub(super) fn wake(&mut self, page: u32) {
        self.resting.remove(&page);
    }

    pub(super) fn contains(&self, page: u32) -> bool {
        self.pages.contains(&page)
    }

    /// Whether pages wait or are under way; those that rest are not.
    pub(super) fn is_busy(&self) -> bool {
        !self.pages.is_empty() || self.in_flight > 0
    }

    /// Pages that wait, those that rest included.
    pub(super) fn waiting_pages(&self) -> usize {
        let is_closed = self.closed_but.is_some();
        self.pages.len() + if is_closed { 0 } else { self.resting.len() }
    }

    /// Whether the end has come.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed_but.is_some()
    }

    fn pop(&mut self) -> Option<u32> {
        let next = self.pages.range(self.sweep..).next().or_else(|| self.pages.first()).copied()?;
        self.pages.remove(&next);
        self.sweep = next.wrapping_add(1);
        Some(next)
    }
}

impl Shard {
    /// Starts to read from flash what is to be written to disk, in the order of the disk.
    pub(super) fn start_write_backs(&mut self) {
        if self.awaits_epoch {
            return;
        }
        let most = self.options.cleaning.pages_in_flight_max;
        while self.write_backs.in_flight < most && self.has_spare_frame() {
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
                self.write_backs.in_flight += 1;
                self.start_fetch(id, Purpose::Cleaning).expect("there is a frame to spare");
            }
        }
    }

    /// Whether background work may take a frame.
    pub(super) fn has_spare_frame(&self) -> bool {
        self.pool.free_frames() > self.claimed_frames
    }

    /// The backing store refused the page: it is tried again later.
    pub(super) fn rest_backing(&mut self, page: u32) {
        if self.write_backs.resting.is_empty() {
            self.write_backs.retry_at = Nanos(self.now.0 + REST.0);
        }
        self.write_backs.resting.insert(page);
    }

    pub(super) fn is_backing_resting(&self, page: u32) -> bool {
        self.write_backs.resting.contains(&page)
    }

    /// Does what is due by now.
    pub(super) fn clean_in_time(&mut self) {
        if !self.write_backs.resting.is_empty() && self.now >= self.write_backs.retry_at {
            if self.write_backs.is_refused() {
                self.write_backs.retry_at = Nanos(self.now.0 + REST.0);
                self.write_backs.probe = self.write_backs.resting.pop_first();
                if let Some(page) = self.write_backs.probe {
                    self.try_again(page);
                }
            } else {
                for page in std::mem::take(&mut self.write_backs.resting) {
                    self.try_again(page);
                }
            }
        }
        self.retry_blanks_in_time();
        self.end_overdue();
        let elapsed = self.now.0 - self.write_backs.looked_at.0;
        if self.has_flash && elapsed >= CLEANING_INTERVAL.0 {
            self.write_backs.looked_at = self.now;
            self.clean_towards_target(elapsed);
        }
    }

    /// A page that rested goes to disk.
    fn try_again(&mut self, page: u32) {
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
        let dirty = self.dirty_page_numbers();
        for page in dirty {
            if let Some(id) = self.entry(page)
                && self.entries[id].frame.is_some()
            {
                self.entries[id].wants.disk = true;
                self.settle(id);
            } else {
                self.write_backs.insert(page);
            }
        }
        self.want_sync_and_commit();
    }

    /// Pages whose newest bytes the disk may not have durably; lost pages not counted.
    pub fn dirty_pages(&self) -> usize {
        self.dirty_page_numbers().len() + self.blanks.dirty_pages()
    }

    fn dirty_page_numbers(&self) -> Vec<u32> {
        let is_dirty = |place: &super::Place| match *place {
            super::Place::Slot(slot) => self.slots.slot(slot).is_dirty(),
            super::Place::Entry(id) => {
                let entry = &self.entries[id];
                entry.disk_synced != entry.newest && !entry.is_lost
            }
        };
        let places = self.index.places().filter_map(|place| self.place(self.page_at(place)));
        let mut pages: Vec<u32> = places
            .filter(is_dirty)
            .map(|place| match place {
                super::Place::Slot(slot) => self.slots.page(slot),
                super::Place::Entry(id) => self.entries[id].page,
            })
            .collect();
        pages.sort_unstable();
        pages
    }

    /// When [`tick`](Shard::tick) should be called at the latest, if it should.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let retry = (!self.write_backs.resting.is_empty()).then_some(self.write_backs.retry_at);
        let look = self
            .is_too_dirty()
            .then_some(Nanos(self.write_backs.looked_at.0 + CLEANING_INTERVAL.0));
        let sync = self.log.sync_retry_at.filter(|_| !self.queue.is_empty());
        let flash = self.flash_faults.next_retry().into_iter().chain(self.next_look());
        let blanks = self.blanks.retry_at();
        let devices = retry.into_iter().chain(blanks).chain(flash).chain(sync);
        devices.chain(look).chain(self.first_deadline()).min()
    }

    fn is_too_dirty(&self) -> bool {
        let [_, dirty] = self.slots.live_and_dirty();
        let target = self.options.cleaning.dirty_ratio_target * f64::from(self.options.flash_pages);
        self.has_flash && f64::from(dirty) > target
    }

    /// Queues dirty pages of flash, as many as the rate allows since the last time.
    fn clean_towards_target(&mut self, elapsed_ns: u64) {
        if !self.is_too_dirty() {
            return;
        }
        let [_, dirty] = self.slots.live_and_dirty();
        let target = self.options.cleaning.dirty_ratio_target * f64::from(self.options.flash_pages);
        let rate = f64::from(self.options.cleaning.pages_per_second_max);
        let allowed = (rate * (elapsed_ns.min(1_000_000_000) as f64) / 1e9).ceil();
        let excess = f64::from(dirty) - target;
        let waiting = self.write_backs.waiting_pages() as f64;
        // A slot is clean when the disk was synced, and nobody else may ask for that.
        self.log.is_sync_wanted |=
            self.log.has_unsynced() && !self.write_backs.is_busy() && !self.is_sync_resting();
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
            let slot = crate::slots::SlotId(self.write_backs.next_slot % slots);
            self.write_backs.next_slot = (slot.0 + 1) % slots;
            let held = self.slots.slot(slot);
            if held.state() == SlotState::Live
                && held.is_dirty()
                && self.is_worth_cleaning(held.page, held.version())
                && self.write_backs.insert(held.page)
            {
                wanted -= 1;
            }
        }
        self.is_stirred = true;
    }

    /// Whether the slot's version is the newest; RAM will write newer ones soon enough.
    fn is_worth_cleaning(&self, page: u32, version: u64) -> bool {
        self.entry(page).is_none_or(|id| {
            let entry = &self.entries[id];
            entry.newest == version && entry.disk_started != version && !entry.is_lost
        })
    }

    /// Whether the write budget allows one more page on flash. A dirty page, which would have to go
    /// to disk at once, may always be written.
    pub(super) fn may_write_flash(&mut self, is_clean: bool) -> bool {
        let Some(bytes) = self.flash_budget_bytes() else { return true };
        self.reckon_budget(bytes);
        !is_clean || bytes >= f64::from(self.options.page_bytes)
    }

    /// Bytes that the write budget allows now, if there is one; below zero if it is overdrawn.
    pub fn flash_budget_bytes(&self) -> Option<f64> {
        let gib = self.options.flash_write_budget_gib_per_day?;
        let bytes_per_day = gib * (1_u64 << 30) as f64;
        let state = &self.write_backs;
        let earned = (self.now.0 - state.reckoned_at.0) as f64 / DAY_NS * bytes_per_day;
        let spent = (self.counters.flash.all_written_bytes() - state.charged_bytes) as f64;
        let most = bytes_per_day * BUDGET_BURST_DAYS;
        Some((state.budget_bytes.unwrap_or(most) + earned - spent).min(most))
    }

    /// Changes the write budget from now on: what was earned and spent under the former one counts, and
    /// nothing that was written without any.
    pub fn set_flash_write_budget(&mut self, gib_per_day: Option<f64>) {
        let former = self.flash_budget_bytes();
        self.options.flash_write_budget_gib_per_day = gib_per_day;
        if let Some(bytes) = former {
            self.reckon_budget(bytes);
        } else {
            self.write_backs.budget_bytes = None;
            self.write_backs.reckoned_at = self.now;
            self.write_backs.charged_bytes = self.counters.flash.all_written_bytes();
        }
    }

    fn reckon_budget(&mut self, bytes: f64) {
        let state = &mut self.write_backs;
        state.budget_bytes = Some(bytes);
        state.reckoned_at = self.now;
        state.charged_bytes = self.counters.flash.all_written_bytes();
    }
}
