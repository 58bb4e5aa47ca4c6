//! The members that are in use, for all who read or write the flash.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ledger::{Ledger, Ledgers};
use crate::operation::{DeviceError, Member};

/// Number of a device of a mirrored flash: a start has 0 and 1, the first and the second member, and each device
/// that joins later gets the next number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u8);

impl Lane {
    /// The first member at a start.
    pub const FIRST: Self = Self(0);
    /// No device.
    const NONE: u8 = u8::MAX;
}

/// Makes durable which members are in use. Until a step is done, nothing is acknowledged that a member lacks
/// which a start might use.
pub trait Keeper: Send {
    /// Writes the generation to the label of the survivor, and that it is alone.
    ///
    /// # Errors
    /// If the survivor fails, too.
    fn label(&mut self, survivor: Member, generation: u64) -> io::Result<()>;

    /// Writes to every note of the flash that this member is alone in that generation.
    ///
    /// # Errors
    /// If one cannot be written: it is tried again until it can, and operations wait.
    fn note(&mut self, survivor: Member, generation: u64) -> io::Result<()>;

    /// Labels of this member go to the device in a lane from now on.
    fn joins(&mut self, member: Member, lane: Lane);

    /// Writes the generation to the label of a member, and that it is not alone.
    ///
    /// # Errors
    /// If the device fails.
    fn label_both(&mut self, member: Member, generation: u64) -> io::Result<()>;

    /// Writes to every note that both members are in use in that generation. The former content of a note stays true
    /// if it cannot be written.
    fn note_both(&mut self, generation: u64);
}

/// Reason why a member is still in use that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StillUsed {
    /// The other one is not in use, or fails, too.
    Survivor(DeviceError),
    /// A note cannot be written now.
    Note(DeviceError),
}

impl From<StillUsed> for DeviceError {
    fn from(error: StillUsed) -> Self {
        match error {
            StillUsed::Survivor(error) | StillUsed::Note(error) => error,
        }
    }
}

/// Devices that are in use at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// One bit per member in use.
    used: u8,
    /// The lanes of the members, in use or not.
    lanes: [Lane; 2],
    joining: Option<Lane>,
    /// Member whose place the device takes that joins, as long as both are in use.
    replaced: Member,
}

impl InUse {
    const fn encode(self) -> u64 {
        let joining = match self.joining {
            Some(Lane(lane)) => lane,
            None => Lane::NONE,
        };
        u64::from_le_bytes([
            self.used,
            self.lanes[0].0,
            self.lanes[1].0,
            joining,
            self.replaced as u8,
            0,
            0,
            0,
        ])
    }

    fn decode(word: u64) -> Self {
        let [used, first, second, joining, replaced, ..] = word.to_le_bytes();
        Self {
            used,
            lanes: [Lane(first), Lane(second)],
            joining: (joining != Lane::NONE).then_some(Lane(joining)),
            replaced: Member::EACH[usize::from(replaced)],
        }
    }

    const fn uses(self, member: Member) -> bool {
        self.used & bit(member) != 0
    }

    const fn has_both(self) -> bool {
        self.used == 0b11
    }

    pub(crate) const fn in_place_of(self, member: Member) -> Member {
        if self.uses(member) { member } else { member.other() }
    }

    /// Return the device that is a member in use.
    pub fn lane_of(self, member: Member) -> Option<Lane> {
        self.uses(member).then_some(self.lanes[member as usize])
    }

    /// Return the device that joins.
    pub const fn joining(self) -> Option<Lane> {
        self.joining
    }

    /// Return the member that the device becomes which joins: the one that it replaces, or the one that is
    /// missing.
    pub(crate) const fn joins_as(self) -> Member {
        if self.has_both() { self.replaced } else { self.in_place_of(Member::First).other() }
    }

    /// Return the member in use that a device is.
    pub fn member_in(self, lane: Lane) -> Option<Member> {
        Member::EACH.into_iter().find(|&member| self.lane_of(member) == Some(lane))
    }

    /// Return `true` if a device is a member in use, or joins.
    pub fn has(self, lane: Lane) -> bool {
        self.joining == Some(lane) || self.member_in(lane).is_some()
    }
}

/// The members of a mirrored flash: which are in use, and what failed.
pub struct Mirror {
    /// An [`InUse`], encoded.
    in_use: AtomicU64,
    /// Operations that failed, per member.
    errors: [AtomicU64; 2],
    /// `true` if the worse of two members is to be given up.
    wants_one_out: AtomicBool,
    kept: Mutex<Kept>,
    ledgers: Mutex<Ledgers>,
    /// Bytes that were copied to the device that joins, and bytes to copy.
    progress: [AtomicU64; 2],
}

struct Kept {
    generation: u64,
    keeper: Box<dyn Keeper>,
    next_lane: u8,
}

impl Mirror {
    /// Returns the state of a flash of that generation, whose member `only` is in use, or both if that is none.
    pub fn new(only: Option<Member>, generation: u64, keeper: Box<dyn Keeper>) -> Self {
        let used = only.map_or(0b11, bit);
        let lanes = [Lane(0), Lane(1)];
        let in_use = InUse { used, lanes, joining: None, replaced: Member::First };
        Self {
            in_use: AtomicU64::new(in_use.encode()),
            errors: [const { AtomicU64::new(0) }; 2],
            wants_one_out: AtomicBool::new(false),
            kept: Mutex::new(Kept { generation, keeper, next_lane: 2 }),
            ledgers: Mutex::default(),
            progress: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// Return what is in use now.
    pub fn in_use(&self) -> InUse {
        InUse::decode(self.in_use.load(Ordering::SeqCst))
    }

    /// Changes what is in use, unless `change` says that there is nothing to change. Returns `true` if it did.
    fn change(&self, mut change: impl FnMut(InUse) -> Option<InUse>) -> bool {
        let change = |word: u64| change(InUse::decode(word)).map(InUse::encode);
        self.in_use.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change).is_ok()
    }

    /// Return `true` if a member is in use.
    pub fn uses(&self, member: Member) -> bool {
        self.in_use().uses(member)
    }

    /// Return `true` if both members are in use.
    pub fn has_both(&self) -> bool {
        self.in_use().has_both()
    }

    /// Return the member that is in use in place of one: the same unless it is gone.
    pub fn in_place_of(&self, member: Member) -> Member {
        self.in_use().in_place_of(member)
    }

    /// Return the generation of the members in use.
    pub fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Return the number of operations of a member that failed.
    pub fn errors(&self, member: Member) -> u64 {
        self.errors[member as usize].load(Ordering::Relaxed)
    }

    /// Count an operation of a member that failed.
    pub(crate) fn count_error(&self, member: Member) {
        self.errors[member as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// End the use of a member that failed. When this returns, no start uses it as a source any more.
    ///
    /// # Errors
    /// If the other member is not in use, or that cannot be made durable.
    pub fn fail(&self, member: Member) -> Result<(), DeviceError> {
        Ok(self.try_fail(member)?)
    }

    /// Do the same, and say why it cannot be done.
    pub(crate) fn try_fail(&self, member: Member) -> Result<(), StillUsed> {
        self.leave_out(&mut self.lock(), member)
    }

    fn leave_out(&self, kept: &mut Kept, member: Member) -> Result<(), StillUsed> {
        if !self.uses(member) {
            return Ok(());
        }
        let survivor = member.other();
        if !self.uses(survivor) {
            return Err(StillUsed::Survivor(DeviceError(io::ErrorKind::Other)));
        }
        let generation = kept.generation + 1;
        // The label first: if the note named a generation that no label has, a start would refuse both
        // members.
        let labelled = kept.keeper.label(survivor, generation);
        labelled.map_err(|error| StillUsed::Survivor(error.into()))?;
        kept.keeper.note(survivor, generation).map_err(|error| StillUsed::Note(error.into()))?;
        kept.generation = generation;
        // Last: from here on operations are acknowledged that the member lacks.
        self.change(|now| Some(InUse { used: bit(survivor), ..now }));
        Ok(())
    }

    /// Makes durable, at a start, that the only member in use goes on without the other one.
    ///
    /// # Errors
    /// If that cannot be made durable.
    pub fn go_alone(&self) -> io::Result<()> {
        let mut kept = self.lock();
        let survivor = self.in_place_of(Member::First);
        let generation = kept.generation + 1;
        kept.keeper.label(survivor, generation)?;
        kept.keeper.note(survivor, generation)?;
        kept.generation = generation;
        Ok(())
    }

    /// Give up the member that failed more often, soon. Return `true` if both are in use.
    pub(crate) fn give_up_worse(&self) -> bool {
        let has_both = self.has_both();
        self.wants_one_out.fetch_or(has_both, Ordering::AcqRel);
        has_both
    }

    /// Gives up a member if that is wanted.
    pub(crate) fn settle(&self) {
        if !self.wants_one_out.load(Ordering::Acquire) || !self.has_both() {
            return;
        }
        let [first, second] = Member::EACH.map(|member| self.errors(member));
        let worse = if second > first { Member::Second } else { Member::First };
        // It is tried again with the next operation.
        if self.fail(worse).is_ok() {
            self.wants_one_out.store(false, Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ledgers(&self) -> MutexGuard<'_, Ledgers> {
        self.ledgers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device that joins.
impl Mirror {
    /// Return the lane of the next device that joins, or `None` if there were very many.
    pub fn next_lane(&self) -> Option<Lane> {
        let mut kept = self.lock();
        let lane = Lane(kept.next_lane);
        kept.next_lane = kept.next_lane.checked_add(1)?;
        (lane.0 != Lane::NONE).then_some(lane)
    }

    /// Have writes go to a device, too, which is to take the place of a member, or of the one that is missing. It
    /// counts as blank, until it is admitted. Return `true` unless another one joins.
    pub fn begin_join(&self, lane: Lane, replaced: Member) -> bool {
        // Before the change: what is missed after it concerns this device, and must not be forgotten.
        self.ledgers().restart();
        self.progress.iter().for_each(|bytes| bytes.store(0, Ordering::Relaxed));
        self.change(|now| {
            now.joining.is_none().then_some(InUse { joining: Some(lane), replaced, ..now })
        })
    }

    /// End that, because the device failed, or the copy for it ended. Nothing was acknowledged for it.
    pub fn end_join(&self, lane: Lane) {
        self.change(|now| (now.joining == Some(lane)).then_some(InUse { joining: None, ..now }));
    }

    /// Use the device that joins as a member: it durably has everything that was written, but for what was written
    /// without it since. Return `false` if there is such a thing: that is copied first.
    ///
    /// # Errors
    /// If the device does not join any more, or this cannot be made durable.
    pub(super) fn admit(&self, lane: Lane) -> Result<bool, DeviceError> {
        let mut kept = self.lock();
        let now = self.in_use();
        if now.joining != Some(lane) {
            return Err(DeviceError(io::ErrorKind::NotConnected));
        }
        // Asked before the former member is left out, because that cannot be taken back.
        let is_ready = self.ledgers().while_none_lacks(lane, || ()).is_some();
        if !is_ready {
            return Ok(false);
        }
        // From here on the member that is replaced is never a source of pages, whatever becomes of the new one.
        let member = now.joins_as();
        self.leave_out(&mut kept, member)?;
        let change = || {
            self.change(|now| {
                let mut lanes = now.lanes;
                lanes[member as usize] = lane;
                let is_joining = now.joining == Some(lane) && !now.uses(member);
                is_joining.then_some(InUse { used: 0b11, lanes, joining: None, ..now })
            })
        };
        // No write may go past the device now: it would be acknowledged without it.
        match self.ledgers().while_none_lacks(lane, change) {
            None => return Ok(false),
            Some(false) => return Err(DeviceError(io::ErrorKind::NotConnected)),
            Some(true) => {}
        }
        self.errors[member as usize].store(0, Ordering::Relaxed);
        // A member that was left out may have the present generation, too: its label was raised once, and the note
        // could not be written then.
        kept.generation += 1;
        let (generation, survivor) = (kept.generation, member.other());
        // The new member comes last: were the power cut in between, the other one would go on alone to the
        // generation that the new one has.
        kept.keeper.joins(member, lane);
        for member in [survivor, member] {
            if let Err(error) = kept.keeper.label_both(member, generation) {
                self.leave_out(&mut kept, member)?;
                return Err(error.into());
            }
        }
        kept.keeper.note_both(generation);
        Ok(true)
    }

    /// Return the bytes that were copied to the device that joins, and the bytes to copy; `None` if none joins.
    pub fn join_progress(&self) -> Option<[u64; 2]> {
        self.in_use().joining?;
        Some(self.progress.each_ref().map(|bytes| bytes.load(Ordering::Relaxed)))
    }

    pub(super) fn has_copied(&self, done_bytes: u64, all_bytes: u64) {
        self.progress[0].store(done_bytes, Ordering::Relaxed);
        self.progress[1].store(all_bytes, Ordering::Relaxed);
    }
}

/// One who writes to a mirrored flash, past whose writes a device may be copied.
#[derive(Debug)]
pub(crate) struct Writer {
    mirror: Arc<Mirror>,
    ledger: Arc<Ledger>,
}

impl Writer {
    pub(crate) fn new(mirror: &Arc<Mirror>) -> Self {
        let ledger = mirror.ledgers().open();
        Self { mirror: Arc::clone(mirror), ledger }
    }

    /// Begin a write to a range, which goes to a device that joins if `joins`. Returns what it goes to.
    pub(crate) fn begin(&self, number: u64, range: Range<u64>, joins: bool) -> InUse {
        let mut entries = self.ledger.lock();
        // Under the lock, so that a copy sees a write that does not know of it.
        let now = self.mirror.in_use();
        entries.begin(number, range, now.joining.filter(|_| joins));
        now
    }

    /// End a write.
    pub(crate) fn end(&self, number: u64) {
        let mut entries = self.ledger.lock();
        entries.end(number, self.mirror.in_use().joining);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut entries = self.ledger.lock();
        entries.close(self.mirror.in_use().joining);
    }
}

const fn bit(member: Member) -> u8 {
    1 << member as u8
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror")
            .field("in_use", &self.in_use())
            .field("errors", &self.errors)
            .finish_non_exhaustive()
    }
}
