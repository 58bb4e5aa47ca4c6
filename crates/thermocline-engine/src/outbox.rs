//! Outbox of page transfers to the driver: it joins neighbours to one operation, and reads of the
//! backing store do not queue after writes to it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use smallvec::SmallVec;
use thermocline_core::Nanos;

use crate::counters::Purpose;
use crate::format::Layout;
use crate::memory::FrameId;
use crate::operation::{Copies, Device, OperationKind};

/// One page between a frame and a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) device: Device,
    /// Any action but a sync; zeroes and discards are of the backing store only.
    pub(crate) kind: OperationKind,
    /// The page of the backing store, or the slot of the flash.
    pub(crate) position: u64,
    pub(crate) frame: FrameId,
    pub(crate) purpose: Purpose,
    /// Purpose of the transfer.
    pub(crate) task: Task,
    /// `true` if it failed before, together with its neighbours.
    pub(crate) is_retry: bool,
    /// `true` if a sync failed while it was in flight, and may have dropped it.
    pub(crate) is_doubtful: bool,
    /// Number of times that it failed alone.
    pub(crate) failures: u8,
    /// Devices of a mirrored flash that it concerns.
    pub(crate) copies: Copies,
    /// `true` if it is not tried again.
    pub(crate) is_final: bool,
}

/// Purpose of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// A fetch, by its number.
    Fetch(usize),
    /// A page goes to its slot.
    SlotWrite { page: u64 },
    /// A page goes to disk.
    DiskWrite { page: u64 },
}

/// Transfers of neighbouring pages.
pub(crate) type Run = SmallVec<[Transfer; 1]>;

/// The longest operation that moves bytes, in pages.
const RUN_PAGES_MAX: usize = 64;
/// The longest operation that moves none, in pages.
const BLANK_RUN_PAGES_MAX: usize = 1024;

/// Writes to the backing store in flight at most.
const WRITES_MAX: u32 = 64;
/// The same while it is read as well: a disk that serves several requests at a time has room for the
/// reads beside these.
const WRITES_BESIDE_READS_MAX: u32 = 8;
/// Reads are expected for so long after the last one.
const READS_EXPECTED: Nanos = Nanos(20_000_000);

/// Transfers not yet given to the driver.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Since the last call of `next_run`, in the order of their coming.
    fresh: Vec<Transfer>,
    /// Sorted, the next one last.
    sorted: Vec<Transfer>,
    /// Transfers that change the backing store, by its page.
    writes: BTreeMap<u64, Transfer>,
    /// Position of the sweep over these.
    sweep: u64,
    /// Runs of the backing store that the driver has.
    writes_in_flight: u32,
    reads_in_flight: u32,
    last_read_at: Option<Nanos>,
    /// Slots that do not follow the one before them on the flash.
    breaks: Vec<u64>,
    /// Set while the driver gets reads only.
    holds_writes: bool,
    /// Writes of the flash that wait for the end of that.
    held: Vec<Transfer>,
}

impl Outbox {
    /// Create the empty outbox of a flash with that layout.
    pub(crate) fn of(layout: &Layout) -> Self {
        let mut outbox = Self::default();
        outbox.set_breaks(layout);
        outbox
    }

    /// Note which slots do not follow the one before them.
    pub(crate) fn set_breaks(&mut self, layout: &Layout) {
        self.breaks = layout.annexes.iter().map(|annex| annex.first_slot.into()).collect();
    }

    /// Gives out reads only from now on.
    pub(crate) const fn hold_writes(&mut self) {
        self.holds_writes = true;
    }

    /// Gives out writes again, those that waited included.
    pub(crate) fn release_writes(&mut self) {
        self.holds_writes = false;
        self.fresh.append(&mut self.held);
    }

    pub(crate) fn push(&mut self, transfer: Transfer) {
        if is_write(&transfer) {
            let former = self.writes.insert(transfer.position, transfer);
            assert!(former.is_none(), "a page is written by one transfer at a time");
        } else if self.holds_writes && transfer.kind != OperationKind::Read {
            self.held.push(transfer);
        } else {
            self.fresh.push(transfer);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty()
            && self.sorted.is_empty()
            && self.writes.is_empty()
            && self.held.is_empty()
    }

    /// Return the next transfers that are neighbours on their device.
    ///
    /// Changes of the backing store make way for reads, unless somebody waits for them.
    pub(crate) fn next_run(&mut self, now: Nanos, is_write_awaited: bool) -> Option<Run> {
        let run = self.next_direct_run().or_else(|| self.next_write_run(now, is_write_awaited))?;
        match run[0].device {
            Device::Flash => {}
            Device::Backing if is_write(&run[0]) => self.writes_in_flight += 1,
            Device::Backing => {
                self.reads_in_flight += 1;
                self.last_read_at = Some(now);
            }
        }
        Some(run)
    }

    /// Return `true` if nothing waits for the device.
    pub(crate) fn has_none_of(&self, device: Device) -> bool {
        let mut waiting = self.fresh.iter().chain(&self.sorted).chain(&self.held);
        waiting.all(|transfer| transfer.device != device)
            && (device == Device::Flash || self.writes.is_empty())
    }

    /// Return `true` if writes of pages to the backing store wait.
    pub(crate) fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Return `true` if the backing store takes one more write now.
    pub(crate) fn takes_write(&self, now: Nanos, is_awaited: bool) -> bool {
        let expects_reads = self.reads_in_flight > 0
            || self.last_read_at.is_some_and(|at| now.0.saturating_sub(at.0) < READS_EXPECTED.0);
        // A read behind many writes waits for all of them; a write that nobody waits for can wait.
        let makes_way = expects_reads && !is_awaited;
        let most = if makes_way { WRITES_BESIDE_READS_MAX } else { WRITES_MAX };
        self.writes_in_flight < most && !self.holds_writes
    }

    /// Note that the driver has one more write to the backing store, which is not a run of pages.
    pub(crate) const fn write_started(&mut self) {
        self.writes_in_flight += 1;
    }

    /// Note that the driver has done with such a write.
    pub(crate) const fn write_ended(&mut self) {
        self.writes_in_flight -= 1;
    }

    /// Note that the driver has done with a run.
    pub(crate) fn done(&mut self, run: &Run, now: Nanos) {
        match run[0].device {
            Device::Flash => {}
            Device::Backing if is_write(&run[0]) => self.writes_in_flight -= 1,
            Device::Backing => {
                self.reads_in_flight -= 1;
                self.last_read_at = Some(now);
            }
        }
    }

    fn next_direct_run(&mut self) -> Option<Run> {
        // New transfers wait until the sorted ones are gone: low positions could overtake the others
        // for ever.
        if self.sorted.is_empty() {
            std::mem::swap(&mut self.fresh, &mut self.sorted);
            let key =
                |transfer: &Transfer| (transfer.device, transfer.kind as u8, transfer.position);
            self.sorted.sort_by_key(|transfer| Reverse(key(transfer)));
        }
        let mut run = Run::from_slice(&[self.sorted.pop()?]);
        while self.sorted.last().is_some_and(|next| self.goes_on(&run, next)) {
            run.extend(self.sorted.pop());
        }
        Some(run)
    }

    /// Changes of the backing store go in the order of its pages.
    fn next_write_run(&mut self, now: Nanos, is_awaited: bool) -> Option<Run> {
        if !self.takes_write(now, is_awaited) {
            return None;
        }
        let coming = self.writes.range(self.sweep..).next();
        let position = *coming.or_else(|| self.writes.first_key_value())?.0;
        let mut run = Run::new();
        run.extend(self.writes.remove(&position));
        self.sweep = position + 1;
        while let Some(next) = self.writes.get(&self.sweep)
            && self.goes_on(&run, next)
        {
            run.extend(self.writes.remove(&self.sweep));
            self.sweep += 1;
        }
        Some(run)
    }

    /// Return `true` if a transfer may be the next one of a run.
    fn goes_on(&self, run: &Run, next: &Transfer) -> bool {
        let last = run[run.len() - 1];
        let pages_max = match last.kind {
            OperationKind::Discard | OperationKind::Zero => BLANK_RUN_PAGES_MAX,
            OperationKind::Read | OperationKind::Write | OperationKind::Sync => RUN_PAGES_MAX,
        };
        let is_apart = next.device == Device::Flash && self.breaks.contains(&next.position);
        // A page that failed in a run goes alone: only a page that is bad may fail.
        run.len() < pages_max
            && (next.device, next.kind, next.copies) == (last.device, last.kind, last.copies)
            && next.position == last.position + 1
            && !is_apart
            && !(next.is_retry || last.is_retry)
    }
}

/// Return `true` if it changes the backing store.
fn is_write(transfer: &Transfer) -> bool {
    transfer.device == Device::Backing && transfer.kind != OperationKind::Read
}
