//! Commands about a range of pages: into the cache, or out of it.
//!
//! [`begin_range`](Shard::begin_range) starts a command. The caller goes on with
//! [`advance_range`](Shard::advance_range) between requests until that says how the command ended.
//!
//! An eviction takes three steps:
//!
//! 1. Pages that are dirty when it begins go to the disk. The policy still knows them, so its capacities bound
//!    the frames and slots that they take.
//! 2. When a sync of the disk covers them, the policy forgets all pages of the range: it is built again, and
//!    told what else the cache holds. A page that was written since then belongs to no tier, and goes to the
//!    disk as every such page does.
//! 3. The slots of the range are given up, and records durably say so. A crash does not bring the pages back.
//!
//! A promotion accesses the pages as NBD's command `CACHE` does, as fast as frames are free. The policy decides
//! which of them stay.

use std::collections::VecDeque;
use std::ops::Range;

use thermocline_core::Nanos;
use thiserror::Error;

use super::{Place, Shard};
use crate::options::{OptionsError, READ_FRAMES, RESERVED_FRAMES};
use crate::request::{Request, RequestKind};

/// Pages of a promotion that are on their way at the same time.
const PROMOTED_AT_ONCE: usize = 64;
/// Pages of an eviction that one call lets go, so that requests do not wait for long.
const LET_GO_AT_ONCE: usize = 1024;
/// Interval at which an eviction looks for dirty pages that are not on their way to the disk.
const LOOK_INTERVAL: Nanos = Nanos(50_000_000);

/// Command about the pages of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeCommand {
    /// The disk gets the dirty ones, and no tier keeps any.
    Evict,
    /// They are read into the cache.
    Promote,
    /// The cache keeps them until they are unpinned.
    Pin,
    /// The cache no longer keeps them.
    Unpin,
}

/// A command about a range that a shard works on.
#[derive(Debug)]
pub struct RangeWork {
    pages: Range<u64>,
    step: Step,
    /// Time of the last progress, and of the last look at what is missing.
    advanced_at: Nanos,
    looked_at: Nanos,
}

/// Result of a command about a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeDone {
    /// Pages that left the cache, or that are in it now.
    pub pages: u64,
    /// Pages of the range that the shard serves.
    pub all_pages: u64,
}

/// Reason why a command about a range fails.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum RangeError {
    /// The range does not lie within the device.
    #[error("the range ends beyond the device's {size_bytes} bytes")]
    OutOfRange {
        /// The device's size.
        size_bytes: u64,
    },
    /// The policy is one half of two.
    #[error(
        "the policy runs on two hosts, and the other one would not know: pages are evicted where hosts do \
         not cooperate"
    )]
    Cooperates,
    /// Pages of the range are pinned.
    #[error("{pages} pages of the range are pinned: unpin them first")]
    Pinned {
        /// Number of them.
        pages: u64,
    },
    /// There is no room for as many pinned pages.
    #[error(
        "more pages would be pinned than a shard has room for ({wanted_pages}, at most {room_pages})"
    )]
    NoRoom {
        /// Pages that would be pinned.
        wanted_pages: u64,
        /// Pages that may be pinned.
        room_pages: u64,
    },
    /// The devices make no progress.
    #[error(
        "{left_pages} pages are not durable on the backing store after {seconds} seconds without progress: \
         they stay in the cache; see why the backing store fails, and try again"
    )]
    Overdue {
        /// Pages that are missing.
        left_pages: u64,
        /// Time without progress.
        seconds: u64,
    },
    /// The policy could not be built again.
    #[error(transparent)]
    Policy(#[from] OptionsError),
}

/// Progress of a command.
#[derive(Debug)]
enum Step {
    /// The disk gets pages, each up to a version, and the versions of blank ranges up to `version`.
    WriteBack { dirty: Vec<(u64, u64)>, version: u64 },
    /// The policy has forgotten the pages; these, which some tier held, are let go.
    LetGo { held: Vec<u64>, gone_pages: u64 },
    /// This number of records has to be durable.
    Commit { records: u64, gone_pages: u64 },
    /// Pinned pages that are missing are on their way.
    Fill,
    /// Pages from `next` on are to be accessed, and some accessed ones are on their way.
    Promote { next: u64, coming: VecDeque<u64> },
}

impl Shard {
    /// Begin a command about a range of pages.
    ///
    /// # Errors
    /// If the range is not one of the device, or the command is not for this policy.
    pub fn begin_range(
        &mut self,
        command: RangeCommand,
        pages: Range<u64>,
    ) -> Result<RangeWork, RangeError> {
        if pages.end > self.options.backing_pages {
            return Err(RangeError::OutOfRange { size_bytes: self.options.size_bytes() });
        }
        let step = match command {
            RangeCommand::Evict => self.begin_eviction(&pages)?,
            RangeCommand::Pin => self.begin_pin(&pages)?,
            RangeCommand::Unpin => self.begin_unpin(&pages),
            RangeCommand::Promote => Step::Promote { next: pages.start, coming: VecDeque::new() },
        };
        Ok(RangeWork { pages, step, advanced_at: self.now, looked_at: self.now })
    }

    /// Go on with a command. Returns its result once it has one.
    ///
    /// # Errors
    /// If it cannot be finished; what it did stays.
    pub fn advance_range(&mut self, work: &mut RangeWork) -> Result<Option<RangeDone>, RangeError> {
        if self.awaits_epoch {
            // Nothing is written before the epoch begins, so nobody is late.
            work.advanced_at = self.now;
            return Ok(None);
        }
        self.is_stirred = true;
        match &mut work.step {
            Step::WriteBack { .. } => self.write_range_back(work),
            Step::LetGo { .. } => {
                self.let_range_go(work);
                Ok(None)
            }
            &mut Step::Commit { records, gone_pages } => {
                self.want_commit();
                // After a crash, recovery would put the pages back whose records are not durable.
                // Without a flash it finds none.
                let is_durable = !self.flash.works() || self.journal.durable() >= records;
                let all_pages = self.served_pages(&work.pages);
                Ok(is_durable.then_some(RangeDone { pages: gone_pages, all_pages }))
            }
            Step::Fill => Ok(self.fill_range(work)),
            Step::Promote { .. } => Ok(self.promote_range(work)),
        }
    }

    /// Send what is dirty to the disk.
    fn begin_eviction(&mut self, pages: &Range<u64>) -> Result<Step, RangeError> {
        self.check_alone()?;
        let pinned: u64 = self.pins.pages.parts(pages).map(|part| self.served_pages(&part)).sum();
        if pinned > 0 {
            return Err(RangeError::Pinned { pages: pinned });
        }
        let held = self.held_pages(pages.clone());
        let dirty: Vec<(u64, u64)> =
            held.filter_map(|page| Some((page, self.dirty_version(page)?))).collect();
        for &(page, _) in &dirty {
            self.send_home(page);
        }
        self.retry_blanks();
        Ok(Step::WriteBack { dirty, version: self.version })
    }

    /// Refuses commands that the other half of the policy would have to know of.
    fn check_alone(&self) -> Result<(), RangeError> {
        match self.options.policy.entry.identity() {
            Some(_) => Err(RangeError::Cooperates),
            None => Ok(()),
        }
    }

    /// Pin a range, and begin to fetch what is missing of it.
    fn begin_pin(&mut self, pages: &Range<u64>) -> Result<Step, RangeError> {
        self.check_alone()?;
        let pinned: u64 = self.pins.pages.parts(pages).map(|part| self.served_pages(&part)).sum();
        let wanted_pages = self.pinned_pages() + self.served_pages(pages) - pinned;
        let room_pages = u64::from(self.options.pinned_pages);
        if wanted_pages > room_pages {
            return Err(RangeError::NoRoom { wanted_pages, room_pages });
        }
        self.pins.pages.add(pages.clone());
        if self.held_pages(pages.clone()).next().is_some() {
            // The policy forgets them: it is told what else the cache holds.
            self.renew_policy(pages)?;
        }
        self.pins.refill();
        self.is_stirred = true;
        Ok(Step::Fill)
    }

    /// Unpin a range. Its pages leave the cache, because the policy does not know them.
    fn begin_unpin(&mut self, pages: &Range<u64>) -> Step {
        let mut parts: Vec<Range<u64>> = self.pins.pages.parts(pages).collect();
        self.pins.pages.remove(pages);
        if !self.has_place_for_pins() {
            // The policy decides about them already.
            parts.clear();
        }
        let held = parts.into_iter().flat_map(|part| self.held_pages(part).collect::<Vec<_>>());
        let held: Vec<u64> = held.collect();
        self.hide(&held);
        Step::LetGo { held, gone_pages: 0 }
    }

    /// Wait until the pages of a pinned range have arrived.
    fn fill_range(&mut self, work: &mut RangeWork) -> Option<RangeDone> {
        if self.is_filling_pins() || self.now.0 < work.looked_at.0 + LOOK_INTERVAL.0 {
            return None;
        }
        work.looked_at = self.now;
        let is_coming = |page: u64| self.entry(page).is_some_and(|id| self.is_on_its_way(id));
        if self.held_pages(work.pages.clone()).any(is_coming) {
            return None;
        }
        let pages = self.held_pages(work.pages.clone()).filter(|&page| self.is_kept(page));
        let pages = pages.count() as u64;
        Some(RangeDone { pages, all_pages: self.served_pages(&work.pages) })
    }

    /// Return the newest version of a page, if the disk may not have that durably.
    fn dirty_version(&self, page: u64) -> Option<u64> {
        match self.place(page)? {
            Place::Slot(slot) => {
                let slot = self.slots.slot(slot);
                slot.is_dirty().then_some(slot.version())
            }
            Place::Entry(id) => {
                let entry = &self.entries[id];
                (entry.disk_synced != entry.newest && !entry.is_lost).then_some(entry.newest)
            }
        }
    }

    /// Return `true` if the disk durably has a version of a page, or a newer one; or if it is lost.
    fn is_home(&self, page: u64, version: u64) -> bool {
        match self.place(page) {
            Some(Place::Entry(id)) => {
                self.entries[id].disk_synced >= version || self.entries[id].is_lost
            }
            Some(Place::Slot(slot)) => !self.slots.slot(slot).is_dirty(),
            None => true,
        }
    }

    /// Wait until the disk has the dirty pages, and see to it that they are on their way.
    fn write_range_back(&mut self, work: &mut RangeWork) -> Result<Option<RangeDone>, RangeError> {
        let now = self.now;
        let RangeWork { pages, step: Step::WriteBack { dirty, version }, .. } = work else {
            return Ok(None);
        };
        while let Some(&(page, version)) = dirty.last()
            && self.is_home(page, version)
        {
            dirty.pop();
            work.advanced_at = now;
        }
        let lacks_blanks = self.blanks.has_older(pages, *version);
        if dirty.is_empty() && !lacks_blanks {
            work.step = self.forget_range(pages)?;
            return Ok(None);
        }
        let waited_ns = now.0 - work.advanced_at.0;
        if waited_ns > self.options.backing_timeout.0 {
            let left_pages = dirty.iter().filter(|(page, version)| !self.is_home(*page, *version));
            let left_pages = left_pages.count() as u64 + u64::from(lacks_blanks);
            return Err(RangeError::Overdue { left_pages, seconds: waited_ns / 1_000_000_000 });
        }
        if now.0 < work.looked_at.0 + LOOK_INTERVAL.0 || self.write_backs.is_busy() {
            return Ok(None);
        }
        work.looked_at = now;
        for &(page, version) in dirty.iter() {
            if !self.is_home(page, version) && !self.is_backing_resting(page) {
                self.send_home(page);
            }
        }
        if self.needs_sync() {
            self.disk_syncs.want_if_rested(now);
        }
        Ok(None)
    }

    /// Make the policy forget the pages of a range.
    fn forget_range(&mut self, pages: &Range<u64>) -> Result<Step, RangeError> {
        let held: Vec<u64> = self.held_pages(pages.clone()).collect();
        if !held.is_empty() {
            // A policy cannot be told to forget a page, and one that believes in a page that is gone would
            // count hits and never fetch it. So the policy starts again, with everything else.
            self.renew_policy(pages)?;
        }
        self.hide(&held);
        Ok(Step::LetGo { held, gone_pages: 0 })
    }

    /// Note that no tier is to keep these pages.
    fn hide(&mut self, pages: &[u64]) {
        for &page in pages {
            match self.place(page) {
                Some(Place::Slot(slot)) => self.slots.set_visible(slot, false),
                Some(Place::Entry(id)) => {
                    let entry = &mut self.entries[id];
                    (entry.in_ram, entry.on_flash, entry.wants.flash) = (false, false, false);
                }
                None => {}
            }
        }
    }

    /// Give up frames and slots that the policy has forgotten, some at a time.
    fn let_range_go(&mut self, work: &mut RangeWork) {
        let Step::LetGo { held, gone_pages } = &mut work.step else { return };
        for _ in 0..LET_GO_AT_ONCE {
            // An entry stays until the record of its slot is durable: memory bounds how many may wait.
            if self.journal.has_many_pending() {
                return self.want_commit();
            }
            let Some(page) = held.pop() else {
                let (records, gone_pages) = (self.journal.appended(), *gone_pages);
                work.step = Step::Commit { records, gone_pages };
                return;
            };
            // The policy may have taken it up again since.
            let is_back = match self.place(page) {
                Some(Place::Slot(slot)) => self.slots.slot(slot).is_visible(),
                Some(Place::Entry(id)) => self.entries[id].in_ram || self.entries[id].on_flash,
                None => false,
            };
            if !is_back {
                *gone_pages += 1;
                let id = self.ensure_entry(page);
                self.settle(id);
            }
        }
    }

    /// Return the number of pages of a range that this shard serves.
    fn served_pages(&self, pages: &Range<u64>) -> u64 {
        self.options.share.pages_of(pages, self.options.page_bytes)
    }

    /// Return the first part of a range that this shard serves in one piece.
    fn next_served(&self, pages: Range<u64>) -> Option<Range<u64>> {
        let (share, page_bytes) = (&self.options.share, u64::from(self.options.page_bytes));
        let mut start = pages.start;
        while start < pages.end {
            let end = (share.map.extent_end(start * page_bytes) / page_bytes).min(pages.end);
            if share.map.place(start * page_bytes).0 == usize::from(share.index) {
                return Some(start..end);
            }
            start = end;
        }
        None
    }

    /// Access the next pages of a promotion, as many as there is room for.
    fn promote_range(&mut self, work: &mut RangeWork) -> Option<RangeDone> {
        let Step::Promote { next, coming } = &mut work.step else { return None };
        let is_coming = |page: u64| self.entry(page).is_some_and(|id| self.is_on_its_way(id));
        coming.retain(|&page| is_coming(page));
        let Some(part) = self.next_served(*next..work.pages.end) else {
            if !coming.is_empty() {
                return None;
            }
            let pages = self.held_pages(work.pages.clone());
            let pages = pages.filter(|&page| self.is_kept(page)).count() as u64;
            return Some(RangeDone { pages, all_pages: self.served_pages(&work.pages) });
        };
        let pages_max = u64::from(self.options.request_pages_max()).min(PROMOTED_AT_ONCE as u64);
        let pages_max = pages_max.saturating_sub(coming.len() as u64);
        let part = part.start..part.end.min(part.start + pages_max);
        // Requests of clients come first.
        let frames = u64::from(RESERVED_FRAMES + READ_FRAMES) + 2 * (part.end - part.start);
        if part.is_empty() || self.obstacle(frames, &part, false, false).is_some() {
            return None;
        }
        let page_bytes = u64::from(self.options.page_bytes);
        let request = Request {
            tag: 0,
            kind: RequestKind::Cache,
            offset_bytes: part.start * page_bytes,
            length_bytes: (part.end - part.start) * page_bytes,
            is_durable: false,
        };
        *next = part.end;
        self.access_unasked(&request, part.clone());
        coming.extend(part);
        None
    }

    /// Return `true` if a page is being read from a device.
    fn is_on_its_way(&self, id: crate::entry::EntryId) -> bool {
        let entry = &self.entries[id];
        entry.fetch.is_some() || entry.is_queued || entry.slot_write.is_some()
    }

    /// Return `true` if the policy keeps a page, and a tier has its newest bytes.
    fn is_kept(&self, page: u64) -> bool {
        match self.place(page) {
            Some(Place::Slot(slot)) => self.slots.slot(slot).is_visible(),
            Some(Place::Entry(id)) => {
                let entry = &self.entries[id];
                let is_there = entry.frame.is_some() || self.current_slot(id).is_some();
                is_there && (entry.in_ram || entry.on_flash)
            }
            None => false,
        }
    }
}
