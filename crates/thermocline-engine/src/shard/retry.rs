//! Flash operations that fail: they are tried again for about a second, and what fails still is counted.
//!
//! * A write, or a read of what only the slot has, is tried again after growing intervals. If it fails
//!   for good, others that fail are not tried again until one succeeds: a flash that is gone delays
//!   nobody for longer than one operation.
//! * A read of what the disk has as well is not tried again: the disk is read at once.
//! * Wrong bytes are read again once.
//! * A slot that fails for good is condemned. A block of the journal or the table that cannot be written
//!   ends the use of the flash, because the promise that one damaged block costs nothing needs both copies.
//! * Of a mirrored flash, what one device cannot read is read from the other one. A dirty page or a block
//!   that one device cannot write for good ends the use of that device, and of no other.
//! * Operations that failed for good are counted against `flash_error_budget`. Beyond that the flash has failed, and
//!   also when the condemned slots leave too few.

use std::collections::BTreeMap;

use thermocline_core::Nanos;

use super::metadata::Block;
use super::{Fetch, SPARE_SLOTS_MIN, Shard};
use crate::mirror::MEMBER_IS_GONE;
use crate::operation::{Copies, Device, DeviceError, OperationKind};
use crate::outbox::{Task, Transfer};

/// Waiting times of an operation before each further try.
const WAITS: [Nanos; 3] = [Nanos(50_000_000), Nanos(200_000_000), Nanos(750_000_000)];

/// Faults of the flash since the start, and the operations that are tried again.
#[derive(Debug, Default)]
pub(super) struct FlashFaults {
    /// Operations by the time of the next try, and in order of arrival.
    waiting: BTreeMap<(Nanos, u64), Waiting>,
    next_number: u64,
    /// Operations that failed for good, and how many of them on a flash that was replaced since.
    failed: u64,
    failed_before: u64,
    /// Flags by [`Kind`]: `true` if an operation that was tried again failed for good, and none
    /// succeeded since.
    suspects: [bool; 3],
}

/// Operations that say something about one another.
#[derive(Clone, Copy, Debug)]
enum Kind {
    SlotRead = 0,
    SlotWrite = 1,
    BlockWrite = 2,
}

/// Operation that waits for another try.
#[derive(Debug)]
enum Waiting {
    Transfer(Transfer),
    Block(Block),
}

impl FlashFaults {
    /// Create the state of another flash: nothing failed there yet.
    pub(super) fn after(former: &Self) -> Self {
        Self { failed: former.failed, failed_before: former.failed, ..Self::default() }
    }

    /// Return `true` if nothing waits for another try.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Return the time at which the next operation is tried again.
    pub(super) fn next_retry(&self) -> Option<Nanos> {
        self.waiting.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Return `true` if the last write of a slot failed for good.
    pub(super) const fn doubts_slot_writes(&self) -> bool {
        self.suspects[Kind::SlotWrite as usize]
    }

    fn wait_until(&mut self, at: Nanos, waiting: Waiting) {
        self.waiting.insert((at, self.next_number), waiting);
        self.next_number += 1;
    }

    /// Return the time that an operation with `failures` failures waits for its next try, if it has
    /// one.
    fn next_wait(&mut self, kind: Kind, failures: u8) -> Option<Nanos> {
        let is_suspect = &mut self.suspects[kind as usize];
        // Otherwise each operation on a dead flash would wait for the whole second.
        if *is_suspect {
            return None;
        }
        let wait = WAITS.get(usize::from(failures)).copied();
        *is_suspect = wait.is_none();
        wait
    }

    const fn succeeded(&mut self, kind: Kind) {
        self.suspects[kind as usize] = false;
    }
}

impl Shard {
    /// Return the number of slots that are not used again in this run, because reading or writing
    /// them failed.
    pub fn retired_slots(&self) -> u32 {
        self.slots.condemned_slots()
    }

    /// Flash operations that failed in spite of further tries, wrong checksums included.
    pub const fn flash_failures(&self) -> u64 {
        self.flash_faults.failed
    }

    /// Return `true` if a transfer of one page that is done is tried again.
    pub(super) fn tries_again(
        &mut self,
        mut transfer: Transfer,
        result: Result<(), DeviceError>,
    ) -> bool {
        // The disk's refusals have a clock of their own, in `write_backs`, because only dirty pages are
        // tried again there.
        if transfer.device != Device::Flash {
            return false;
        }
        if result.is_ok() {
            let is_write = transfer.kind == OperationKind::Write;
            self.flash_faults.succeeded(if is_write { Kind::SlotWrite } else { Kind::SlotRead });
        }
        let wait = self.wait_before_retry(&transfer, result);
        let Some(wait) = wait.or_else(|| self.last_try(&mut transfer, result)) else {
            return false;
        };
        transfer.is_retry = true;
        if let (Copies::One(member), Task::Fetch(key)) = (transfer.copies, transfer.task) {
            let fetch = &mut self.fetches[key];
            fetch.is_from_other = !fetch.is_from_other;
            transfer.copies = Copies::One(member.other());
        }
        match wait {
            Nanos(0) => self.outbox.push(transfer),
            Nanos(wait) => {
                transfer.failures += 1;
                let at = Nanos(self.now.0 + wait);
                self.flash_faults.wait_until(at, Waiting::Transfer(transfer));
            }
        }
        true
    }

    /// Return the time that the transfer waits for its next try, if it has one.
    fn wait_before_retry(
        &mut self,
        transfer: &Transfer,
        result: Result<(), DeviceError>,
    ) -> Option<Nanos> {
        // The operation did not fail by itself: its device left meanwhile, and the other one is asked
        // at once.
        if self.mirror.is_some() && result == Err(MEMBER_IS_GONE) {
            return Some(Nanos(0));
        }
        // The first failure ends the use of the flash then, and further tries would only delay that.
        if self.options.flash_error_budget == 0 {
            return None;
        }
        if let Task::Fetch(key) = transfer.task {
            if result.is_ok() && !self.fetches[key].was_wrong && !self.is_intact(key) {
                // A bit that flipped on its way is right the second time; one that flipped in the slot
                // is not.
                self.fetches[key].was_wrong = true;
                return Some(Nanos(0));
            }
            if result.is_ok() || self.is_elsewhere(key) {
                return None;
            }
            // The other device of a mirrored flash may have the page, and answers sooner than this one
            // is tried again.
            if transfer.copies != Copies::Both && !self.fetches[key].is_from_other {
                return Some(Nanos(0));
            }
            return self.flash_faults.next_wait(Kind::SlotRead, transfer.failures);
        }
        if result.is_ok() || !self.flash.works() {
            return None;
        }
        self.flash_faults.next_wait(Kind::SlotWrite, transfer.failures)
    }

    /// Return the time that the last try of a write waits: there is one more if the flash is mirrored, which
    /// ends the use of the device that fails it.
    fn last_try(&self, transfer: &mut Transfer, result: Result<(), DeviceError>) -> Option<Nanos> {
        let is_mirrored_write = transfer.kind == OperationKind::Write
            && transfer.copies == Copies::Both
            && self.has_both_devices();
        let is_last = result.is_err() && is_mirrored_write && !transfer.is_final;
        transfer.is_final |= is_last;
        (is_last && self.flash.works()).then_some(Nanos(0))
    }

    /// Return `true` if the disk has what a fetch reads from a slot, or nobody waits for it.
    fn is_elsewhere(&self, key: usize) -> bool {
        let Fetch { page, version, is_current, waiters, .. } = &self.fetches[key];
        if !is_current {
            return waiters.is_empty();
        }
        self.entry(*page).is_none_or(|id| self.entries[id].disk_written == *version)
    }

    /// Return `true` if the write of a block of metadata that is done is tried again.
    pub(super) fn tries_block_again(
        &mut self,
        mut block: Block,
        result: Result<(), DeviceError>,
    ) -> bool {
        if result.is_ok() {
            self.flash_faults.succeeded(Kind::BlockWrite);
            return false;
        }
        self.count_error(Device::Flash);
        if !self.flash.works() {
            return false;
        }
        let wait = match self.options.flash_error_budget {
            0 => None,
            _ => self.flash_faults.next_wait(Kind::BlockWrite, block.failures),
        };
        let Some(Nanos(wait)) = wait else {
            let is_last = self.has_both_devices() && !block.is_final;
            if is_last {
                block.is_final = true;
                self.push_block(block);
            }
            return is_last;
        };
        block.failures += 1;
        self.flash_faults.wait_until(Nanos(self.now.0 + wait), Waiting::Block(block));
        true
    }

    /// Starts again what has waited for long enough.
    pub(super) fn retry_flash(&mut self) {
        while let Some(first) = self.flash_faults.waiting.first_entry() {
            if first.key().0 > self.now {
                return;
            }
            match first.remove() {
                Waiting::Transfer(transfer) => self.outbox.push(transfer),
                Waiting::Block(block) => self.push_block(block),
            }
        }
    }

    /// Note that an operation failed for good.
    pub(super) fn flash_operation_failed(&mut self) {
        self.flash_faults.failed += 1;
        let usable_slots = self.slots.usable_slots();
        let is_too_small = usable_slots < self.options.kept_slots() + SPARE_SLOTS_MIN;
        let failed = self.flash_faults.failed - self.flash_faults.failed_before;
        let is_over = failed > u64::from(self.options.flash_error_budget);
        if is_over && !is_too_small && self.give_up_device() {
            // The device that stays begins with the whole budget.
            self.flash_faults.failed_before = self.flash_faults.failed;
            return;
        }
        if is_over || is_too_small {
            self.flash_failed();
        }
    }

    /// End all writes to the flash, which failed. Pages that only it has are still read.
    pub(super) fn end_flash_writes(&mut self) {
        let waiting = std::mem::take(&mut self.flash_faults.waiting);
        for ((at, _), waiting) in waiting {
            match waiting {
                Waiting::Transfer(Transfer { task: Task::SlotWrite { page }, .. }) => {
                    let Waiting::Transfer(transfer) = waiting else { continue };
                    let error = DeviceError(std::io::ErrorKind::Other);
                    self.slot_written(page, transfer, Err(error));
                }
                // Reads go on: a page that only this flash has may still be saved.
                Waiting::Transfer(_) => self.flash_faults.wait_until(at, waiting),
                Waiting::Block(block) => self.metadata.end_block(block),
            }
        }
    }
}
