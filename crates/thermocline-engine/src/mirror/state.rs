//! The members that are in use, for all who read or write the flash.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::operation::{DeviceError, Member};

/// Makes durable that one member goes on alone. Until both steps are done, nothing is acknowledged that the
/// other member lacks.
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

/// The members of a mirrored flash: which are in use, and what failed.
pub struct Mirror {
    /// One bit per member in use.
    used: AtomicU8,
    /// Operations that failed, per member.
    errors: [AtomicU64; 2],
    /// `true` if the worse of two members is to be given up.
    wants_one_out: AtomicBool,
    kept: Mutex<Kept>,
}

struct Kept {
    generation: u64,
    keeper: Box<dyn Keeper>,
}

impl Mirror {
    /// Returns the state of a flash of that generation, whose member `only` is in use, or both if that is none.
    pub fn new(only: Option<Member>, generation: u64, keeper: Box<dyn Keeper>) -> Self {
        let used = only.map_or(0b11, bit);
        Self {
            used: AtomicU8::new(used),
            errors: [const { AtomicU64::new(0) }; 2],
            wants_one_out: AtomicBool::new(false),
            kept: Mutex::new(Kept { generation, keeper }),
        }
    }

    /// Return `true` if a member is in use.
    pub fn uses(&self, member: Member) -> bool {
        self.used.load(Ordering::Acquire) & bit(member) != 0
    }

    /// Return `true` if both members are in use.
    pub fn has_both(&self) -> bool {
        self.used.load(Ordering::Acquire) == 0b11
    }

    /// Return the member that is in use in place of one: the same unless it is gone.
    pub fn in_place_of(&self, member: Member) -> Member {
        if self.uses(member) { member } else { member.other() }
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
        let mut kept = self.lock();
        if !self.uses(member) {
            return Ok(());
        }
        let survivor = member.other();
        if !self.uses(survivor) {
            return Err(StillUsed::Survivor(DeviceError(io::ErrorKind::Other)));
        }
        let generation = kept.generation + 1;
        let labelled = kept.keeper.label(survivor, generation);
        labelled.map_err(|error| StillUsed::Survivor(error.into()))?;
        kept.keeper.note(survivor, generation).map_err(|error| StillUsed::Note(error.into()))?;
        kept.generation = generation;
        self.used.store(bit(survivor), Ordering::Release);
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

    /// Use both members from now on: the other one has a copy of all.
    pub fn admit(&self) {
        self.used.store(0b11, Ordering::Release);
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn bit(member: Member) -> u8 {
    1 << member as u8
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror")
            .field("used", &self.used)
            .field("errors", &self.errors)
            .finish_non_exhaustive()
    }
}
