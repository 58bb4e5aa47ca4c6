//! The engine without its devices: requests and completions in, operations and replies out.
//!
//! The policy is asked when a request is submitted, and decides at once. Its decision becomes part
//! of each page's [entry](crate::entry::Entry): what the policy believes, and what it wants to happen.
//! [`settle`](Shard::settle) then compares what is wanted with what is, and starts the transfers that
//! are missing; each completion changes what is, and settles the page again.

mod access;
mod ahead;
mod blank;
mod blank_done;
mod budget;
mod cleaning;
mod commit;
mod complete;
mod disk_syncs;
mod early;
mod event;
mod exchange;
mod fault;
mod figures;
mod flush;
mod growth;
mod hold;
mod hosts;
mod invariants;
mod journal;
mod metadata;
mod mirroring;
mod overdue;
mod pins;
mod places;
mod ranges;
mod request;
mod requests;
mod retry;
mod settle;
mod shrinking;
mod slot;
mod statuses;
mod waiters;
mod write_backs;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use slab::Slab;
use smallvec::SmallVec;
use thermocline_core::{Actions, BoxedPolicy, Nanos, Tier};
use uuid::Uuid;

use crate::counters::Counters;
use crate::entry::{Entries, Entry, EntryId};
use crate::format::Layout;
use crate::format::superblock::Superblock;
use crate::memory::{FrameId, Frames, Pool};
use crate::mirror::Mirror;
use crate::operation::Operation;
use crate::options::{META_FRAMES, Options, OptionsError};
use crate::outbox::{Outbox, Run};
use crate::recovery::{Flash, FlashError};
use crate::request::Reply;
use crate::slots::{SlotId, Slots};

use crate::stream::Streams;

use self::blank::{BlankRun, Blanks};
use self::budget::FlashBudget;
use self::cleaning::Cleaner;
use self::disk_syncs::DiskSyncs;
pub use self::event::{Event, Observer};
use self::exchange::FlashUse;
pub use self::figures::{PageStatus, SHARD_FIGURES};
pub use self::hold::WriteHold;
pub use self::hosts::{Cooperator, Demoted, Pushed};
use self::journal::Journal;
use self::metadata::{Metadata, OwnOperation};
use self::pins::Pins;
use self::places::{Place, Places};
pub use self::ranges::{RangeCommand, RangeDone, RangeError, RangeWork};
use self::requests::Requests;
use self::retry::FlashFaults;
use self::shrinking::Shrinking;
use self::waiters::Waiters;
use self::write_backs::WriteBacks;

/// Slots that a flash must have besides those of the policy.
pub(crate) const SPARE_SLOTS_MIN: u32 = 16;
/// Waiting pages that are looked at again after one completion.
const RETRIES_MAX: usize = 64;

/// The state machine of an engine: requests and completions in, operations and replies out.
pub struct Shard {
    options: Options,
    pool: Pool,
    /// A frame of zeroes, which nobody writes.
    zero_frame: FrameId,
    places: Places,
    pins: Pins,
    blanks: Blanks,
    slots: Slots,
    entries: Entries,
    fetches: Slab<Fetch>,
    policy: BoxedPolicy,
    actions: Actions,
    observer: Option<Observer>,
    write_hold: WriteHold,
    counters: Counters,
    requests: Requests,
    outbox: Outbox,
    in_flight: Slab<InFlight>,
    journal: Journal,
    disk_syncs: DiskSyncs,
    waiters: Waiters,
    metadata: Metadata,
    flash_faults: FlashFaults,
    /// The two devices of the flash, if it is mirrored.
    mirror: Option<Arc<Mirror>>,
    /// Pages whose newest bytes are lost.
    lost: BTreeSet<u64>,
    /// Pages that wait for a frame or a slot.
    queue: VecDeque<u64>,
    /// Pages whose frames stay until the backing store has been told that they leave.
    leaving: VecDeque<u64>,
    write_backs: WriteBacks,
    cleaner: Cleaner,
    flash_budget: Option<FlashBudget>,
    streams: Streams,
    /// The last version given to a page.
    version: u64,
    /// Page accesses so far.
    clock: u64,
    now: Nanos,
    flash: FlashUse,
    /// Slots that are left.
    shrinking: Option<Box<Shrinking>>,
    /// Set until the epoch of the flash has begun: nothing is written before.
    awaits_epoch: bool,
    /// `true` if everything is to be on disk.
    is_draining: bool,
    /// `true` if something happened that background work may depend on.
    is_stirred: bool,
}

/// Bytes on their way from a device.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug)]
struct Fetch {
    page: u64,
    frame: FrameId,
    /// The slot that is read; the disk if there is none.
    slot: Option<SlotId>,
    version: u64,
    /// `true` if the entry still waits for it; if not, the page was replaced as a whole since.
    is_current: bool,
    is_write_back: bool,
    /// `true` if a failed sync may have dropped what is being read: the bytes are not used.
    is_doubtful: bool,
    /// `true` if the slot gave wrong bytes before, and is read again.
    was_wrong: bool,
    /// `true` if the other device of a mirrored flash is read, because the first one failed.
    is_from_other: bool,
    /// `true` if another client of the backing store has written the page since: it is read again.
    is_outdated: bool,
    waiters: SmallVec<[Waiter; 2]>,
}

/// Request that waits for a fetch.
#[derive(Clone, Copy, Debug)]
enum Waiter {
    /// A read: where its bytes belong among the segments of the request.
    Read { request: usize, segment: usize },
    /// A write of a part of the page: its bytes are in the frame, at their place.
    Patch { request: usize, frame: FrameId, start: u32, end: u32, is_to_disk: bool },
}

/// Purpose of an operation in flight.
#[derive(Debug)]
enum InFlight {
    Run(Run),
    Blanks(BlankRun),
    Own(OwnOperation),
}

/// Reason why an engine could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The options cannot work.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The flash cannot be used, or not with these options.
    #[error(transparent)]
    Flash(#[from] FlashError),
}

impl Shard {
    /// Create an engine over a backing store, and over a flash that nobody will read again: for
    /// devices in memory. As with [`open`](Self::open), the backing store must have been synced.
    ///
    /// # Errors
    /// If options are invalid.
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        options.check()?;
        let layout = Layout::new(options.slots(), options.page_bytes);
        let superblock = Superblock::first(Uuid::nil(), layout, options.size_bytes());
        Self::build(options, &Flash::empty(&superblock))
    }

    /// Create an engine over a backing store and a flash, as [`Flash::recover`] or
    /// [`Flash::initialise`] left it. The policy is told what the flash holds.
    ///
    /// Sync the backing store before the first request: a process that was killed may have written what
    /// is in its cache only, and the engine counts all that it finds there as durable.
    ///
    /// # Errors
    /// If options are invalid, or do not fit this flash.
    pub fn open(options: Options, flash: &Flash) -> Result<Self, OpenError> {
        Self::check_open(&options, flash)?;
        let mut shard = Self::build(options, flash)?;
        shard.restore(flash);
        Ok(shard)
    }

    /// Check that options can work, and with that flash; nothing is changed or begun.
    ///
    /// # Errors
    /// If options are invalid, or do not fit this flash.
    pub fn check_open(options: &Options, flash: &Flash) -> Result<(), OpenError> {
        options.check()?;
        let (superblock, layout) = (&flash.superblock, &flash.superblock.layout);
        let (found_bytes, given_bytes) = (layout.page_bytes, options.page_bytes);
        if found_bytes != given_bytes {
            return Err(FlashError::OtherPageSize { found_bytes, given_bytes }.into());
        }
        let (found_bytes, given_bytes) = (superblock.backing_bytes, options.size_bytes());
        if found_bytes != given_bytes {
            return Err(FlashError::OtherBacking { found_bytes, given_bytes }.into());
        }
        flash.check_map(options.share.map)?;
        let index = superblock.share.index;
        if index != options.share.index {
            return Err(FlashError::Mixed { index }.into());
        }
        let wanted_slots = options.kept_slots().saturating_add(SPARE_SLOTS_MIN);
        if layout.slots < wanted_slots || options.flash_pages == 0 {
            let found_slots = layout.slots;
            return Err(FlashError::TooFewSlots { found_slots, wanted_slots }.into());
        }
        Ok(())
    }

    fn build(options: Options, flash: &Flash) -> Result<Self, OptionsError> {
        let slots = flash.superblock.layout.slots;
        let (policy, space) = options.build_policy(slots)?;
        let mut pool = Pool::new(options.frames(), options.page_bytes as usize);
        let pins = Pins::new(options.pins.clone(), if slots > 0 { Tier::FLASH } else { Tier::RAM });
        // Nobody else ever gets these: requests that hold all other frames may wait for a commit.
        let metadata = (0..META_FRAMES).filter_map(|_| pool.take()).collect();
        let zero_frame = pool.take().expect("a pool has more frames than those");
        pool.withhold(options.spare_ram_pages, options.frames_for_requests());
        let entries = options.frames() as usize;
        let budget = options.flash_write_budget_gib_per_day;
        let budget = budget.map(|rate| FlashBudget::new(rate, Nanos(0), 0));
        Ok(Self {
            places: Places::with_capacity(slots as usize + entries, options.backing_pages, space),
            pins,
            blanks: Blanks::default(),
            slots: Slots::new(slots, options.backing_pages),
            entries: Entries::with_capacity(entries),
            pool,
            zero_frame,
            fetches: Slab::new(),
            policy,
            actions: Actions::new(),
            observer: None,
            write_hold: WriteHold::default(),
            counters: Counters::default(),
            requests: Requests::default(),
            outbox: Outbox::of(&flash.superblock.layout),
            in_flight: Slab::new(),
            journal: Journal::new(&flash.superblock, flash.generations.clone()),
            disk_syncs: DiskSyncs::default(),
            waiters: Waiters::default(),
            metadata: Metadata::new(metadata),
            flash_faults: FlashFaults::default(),
            mirror: None,
            lost: BTreeSet::new(),
            queue: VecDeque::new(),
            leaving: VecDeque::new(),
            write_backs: WriteBacks::default(),
            cleaner: Cleaner::default(),
            flash_budget: budget,
            streams: Streams::default(),
            version: flash.version,
            clock: 0,
            now: Nanos(0),
            flash: if slots > 0 { FlashUse::Works } else { FlashUse::Released(None) },
            shrinking: None,
            awaits_epoch: false,
            is_draining: false,
            // Pinned pages may be missing.
            is_stirred: options.pins.next_from(0).is_some(),
            options,
        })
    }

    /// Takes over what the flash holds, and tells the policy.
    fn restore(&mut self, flash: &Flash) {
        for (slot, row) in (0..).map(SlotId).zip(&flash.rows) {
            let Some(row) = row else { continue };
            self.slots.restore(slot, row);
        }
        // Recovery leaves each page one slot.
        self.places.refill(&self.slots, &self.entries);
        self.tell_survivors(&(0..0));
        self.is_stirred = true;
    }

    /// Return the memory that operations refer to, for the driver.
    pub fn frames(&self) -> &Arc<Frames> {
        self.pool.frames()
    }

    /// Return the number of bytes that the flash must have.
    ///
    /// # Panics
    /// If memory could not hold them; meant for devices in memory.
    pub fn flash_bytes(&self) -> usize {
        let bytes = self.journal.flash_bytes();
        usize::try_from(bytes).expect("a flash in memory fits memory")
    }

    /// Return the options that the engine was set up with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Return the counts so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Lets somebody see every access, request and piece of background work from now on.
    pub fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// Return the next reply, if there is one. To be given back with [`release`](Self::release).
    pub fn next_reply(&mut self) -> Option<Reply> {
        if self.requests.has_held_replies() {
            self.release_replies();
        }
        self.requests.next_reply()
    }

    /// Return the next operation for the driver, if there is one.
    pub fn next_operation(&mut self) -> Option<Operation> {
        loop {
            if self.is_stirred {
                self.stir();
            }
            let operation = self.next_own_operation().or_else(|| self.next_transfer());
            if operation.is_some() || !self.is_stirred {
                return operation;
            }
        }
    }

    /// Advance the time: `now` is a point on a clock that does not go back.
    pub fn tick(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.clean_in_time();
        self.retry_flash();
        self.write_back_flash();
        self.is_stirred = true;
    }

    /// Return `true` if no operation is in flight, waiting, or wanted, and no request unanswered.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
            && self.outbox.is_empty()
            && !self.blanks.has_wanted()
            && self.requests.is_empty()
            && self.queue.is_empty()
            && self.leaving.is_empty()
            && !self.write_backs.is_busy()
            && self.flash_faults.is_idle()
            && !self.is_stirred
            && self.journal.is_idle()
            && self.disk_syncs.is_idle()
            && self.waiters.is_empty()
            && self.metadata.is_empty()
            && !self.is_draining
            && !self.is_filling_pins()
    }

    /// Return the number of requests taken and not answered.
    pub fn requests_in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Return the number of bytes of memory for what the engine knows of pages, the policy
    /// included, the frames not.
    pub fn memory_bytes(&self) -> usize {
        self.policy.memory_bytes()
            + self.places.memory_bytes()
            + self.blanks.memory_bytes()
            + self.slots.memory_bytes()
            + self.entries.memory_bytes()
            + self.pool.memory_bytes()
            + self.journal.memory_bytes()
            + self.disk_syncs.memory_bytes()
    }

    #[inline]
    fn place(&self, page: u64) -> Option<Place> {
        self.places.find(page, &self.slots, &self.entries)
    }

    /// Return the entry of a page that has one.
    fn entry(&self, page: u64) -> Option<EntryId> {
        match self.place(page)? {
            Place::Entry(id) => Some(id),
            Place::Slot(_) => None,
        }
    }

    /// Return the entry of a page, made if need be from what its slot, or the lack of one, says.
    fn ensure_entry(&mut self, page: u64) -> EntryId {
        let place = self.place(page);
        if let Some(Place::Entry(id)) = place {
            return id;
        }
        self.make_entry(page, place)
    }

    /// Makes the entry of a page that has none.
    #[inline(never)]
    fn make_entry(&mut self, page: u64, place: Option<Place>) -> EntryId {
        let mut entry = Entry::new(page);
        match place {
            Some(Place::Entry(id)) => return id,
            Some(Place::Slot(id)) => {
                let slot = self.slots.slot(id);
                entry.slot = Some(id);
                entry.on_flash = slot.is_visible();
                entry.newest = slot.version();
                // Rule 4: only a sync of the disk has made the slot clean.
                if !slot.is_dirty() {
                    entry.disk_started = entry.newest;
                    entry.disk_written = entry.newest;
                    entry.disk_synced = entry.newest;
                }
            }
            None => {
                if let Some(id) = self.ensure_blank_entry(page) {
                    return id;
                }
                // Newer than any record of the page that replay may still find: a slot with these bytes
                // must win over those.
                entry.newest = self.next_version();
                entry.disk_started = entry.newest;
                entry.disk_written = entry.newest;
                entry.disk_synced = entry.newest;
            }
        }
        let id = self.entries.insert(entry);
        self.put(page, Place::Entry(id));
        id
    }

    /// Forgets the entry if a slot, or the lack of one, says all that there is to know.
    fn compact(&mut self, id: EntryId) {
        let entry = &self.entries[id];
        let page = entry.page;
        // Rule 9: a version without a sync keeps its entry, which a failed sync has to write again. An
        // obsolete slot finds the entry when it is free.
        let is_needed = entry.frame.is_some()
            || entry.in_ram
            || entry.is_lost
            || entry.is_queued
            || entry.wants.flash
            || entry.wants.log
            || entry.wants.disk
            || entry.fetch.is_some()
            || entry.slot_write.is_some()
            || entry.disk_write.is_some()
            || entry.disk_reads > 0
            || entry.obsolete > 0
            || entry.undurable > 0
            || entry.disk_synced != entry.disk_written;
        if is_needed {
            return;
        }
        if let Some(slot) = entry.slot {
            if self.slots.slot(slot).version() != entry.newest {
                return;
            }
            let on_flash = entry.on_flash;
            self.slots.set_visible(slot, on_flash);
            self.put(page, Place::Slot(slot));
        } else {
            self.places.remove(page, &self.slots, &self.entries);
        }
        self.entries.remove(id);
    }

    fn put(&mut self, page: u64, place: Place) {
        self.places.put(page, place, &self.slots, &self.entries);
    }

    const fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Do the work that no single page asks for.
    fn stir(&mut self) {
        self.is_stirred = false;
        self.fill_pins();
        self.want_frames();
        self.bound_undurable();
        self.retry_queued();
        self.advance_shrinking();
        self.start_write_backs();
        self.advance_waiters();
    }

    /// Looks again at pages that waited for a frame or a slot: some of them if something is in flight
    /// whose completion comes back here, else until none of them can move.
    fn retry_queued(&mut self) {
        let mut in_vain = 0;
        let mut looked_at = 0;
        while in_vain < self.queue.len() && (looked_at < RETRIES_MAX || self.is_at_rest()) {
            let Some(page) = self.queue.pop_front() else { break };
            looked_at += 1;
            in_vain += 1;
            if let Some(id) = self.entry(page) {
                self.entries[id].is_queued = false;
                self.settle(id);
                if self.entry(page).is_none_or(|id| !self.entries[id].is_queued) {
                    in_vain = 0;
                }
            }
        }
    }

    /// Return `true` if no operation is in flight, nor about to be.
    fn is_at_rest(&self) -> bool {
        self.in_flight.is_empty()
            && self.outbox.is_empty()
            && !self.blanks.has_wanted()
            && self.metadata.is_empty()
            && self.flash_faults.is_idle()
    }

    fn enqueue(&mut self, id: EntryId) {
        if !self.entries[id].is_queued {
            self.entries[id].is_queued = true;
            self.queue.push_back(self.entries[id].page);
        }
    }
}
