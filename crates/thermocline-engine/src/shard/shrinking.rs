//! Slots that the shard leaves, so that their room can be somebody else's.
//!
//! 1. [`leave_slots`](Shard::leave_slots): the policy has fewer pages, and no page goes to a slot from a number on.
//!    Pages in such slots go elsewhere, while requests are served: a page that the policy keeps goes to another
//!    slot, one that it gave up to disk if that lacks it. Reads of the slots end.
//! 2. When all of them are free, the records that say so become durable.
//! 3. A checkpoint has the table say so, and the journal's tail moves behind those records. Only then
//!    [`has_left_slots`](Shard::has_left_slots) says so. Recovery does not replay records of slots that a superblock
//!    does not name; with such a record ahead, an older slot of its page would count again (rule 12 of durability in
//!    `ARCHITECTURE.md`).
//! 4. The caller makes superblocks durable that do not name the slots ([`Reduction`](crate::Reduction)), and calls
//!    [`give_up_slots`](Shard::give_up_slots).

use std::collections::BTreeSet;

use thermocline_core::Nanos;

use super::{OpenError, Shard};
use crate::entry::EntryId;
use crate::format::Layout;
use crate::options::{Options, OptionsError};
use crate::slots::{SlotId, SlotState};

/// Pages that are on their way out of slots at once.
const MOVES_MAX: usize = 64;
/// Slots that are looked at in one step.
const SLOTS_PER_STEP: u32 = 1 << 14;
/// Interval at which pages that did not leave are looked at again.
const LOOK_INTERVAL: Nanos = Nanos(50_000_000);

/// Slots that the shard leaves.
#[derive(Debug)]
pub(super) struct Shrinking {
    /// The next slot to be looked at.
    next: u32,
    /// Slots before that which hold a page or are being read.
    waiting: BTreeSet<SlotId>,
    /// Time of the last look at all of these.
    looked_at: Nanos,
    stage: Stage,
}

/// Step of leaving slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Pages leave the slots.
    Moving,
    /// This number of records is to be durable.
    Recording(u64),
    /// The journal's tail is to be this block, or a later one.
    Forgetting(u64),
    /// No durable record or row names the slots.
    Left,
}

impl Shard {
    /// Return the number of slots with which [`leave_slots`](Self::leave_slots) goes on for a policy that keeps that
    /// many pages on flash, if these are fewer than there are.
    ///
    /// # Errors
    /// If the flash is not in use, or the policy cannot have that many.
    pub fn fewer_slots_for(&self, flash_pages: u32) -> Result<Option<u32>, OptionsError> {
        self.slots_for(flash_pages)?;
        let slots = Options { flash_pages, ..self.options.clone() }.slots();
        Ok((slots < self.slots.count()).then_some(slots))
    }

    /// Lets the policy keep that many pages on flash from now on, and begins to leave the slots that it does not
    /// need for them. What RAM and flash hold stays, as far as the policy wants it.
    ///
    /// # Errors
    /// If the flash is not in use, or the policy cannot have that many; nothing changes then.
    pub fn leave_slots(&mut self, flash_pages: u32) -> Result<(), OpenError> {
        let fewer = self.fewer_slots_for(flash_pages)?;
        if flash_pages != self.options.flash_pages {
            self.set_flash_pages(flash_pages)?;
        }
        let Some(slots) = fewer else { return Ok(()) };
        self.slots.set_limit(slots);
        self.shrinking = Some(Box::new(Shrinking {
            next: slots,
            waiting: BTreeSet::new(),
            looked_at: self.now,
            stage: Stage::Moving,
        }));
        self.is_stirred = true;
        Ok(())
    }

    /// Return `true` from [`leave_slots`](Self::leave_slots) to [`give_up_slots`](Self::give_up_slots).
    pub const fn is_shrinking(&self) -> bool {
        self.shrinking.is_some()
    }

    /// Return the number of slots that stay, once no durable record or row names those that the shard leaves:
    /// superblocks may be written that do not name these.
    pub fn has_left_slots(&self) -> Option<u32> {
        let shrinking = self.shrinking.as_ref()?;
        let limit = self.slots.limit()?;
        // A read under way would get bytes of whoever has the room next.
        let has_left = shrinking.stage == Stage::Left && !self.slots.has_pinned_from(limit);
        (has_left && self.flash.works()).then_some(limit)
    }

    /// Forget the slots that it has left. Before that, the flash durably has this layout.
    ///
    /// # Panics
    /// If the flash works, and [`has_left_slots`](Self::has_left_slots) does not say so.
    pub fn give_up_slots(&mut self, layout: &Layout) {
        if !self.flash.works() {
            return;
        }
        assert_eq!(self.has_left_slots(), Some(layout.slots), "no record names the other slots");
        self.shrinking = None;
        self.slots.truncate();
        self.cleaner.restart();
        self.outbox.set_breaks(layout);
        self.journal.set_layout(layout);
    }

    /// Goes on with all slots, because a page in those that it leaves is lost, and stays so: superblocks that do not
    /// name them must not have been written.
    pub fn keep_slots(&mut self) {
        if self.shrinking.take().is_some() {
            self.slots.lift_limit();
            self.is_stirred = true;
        }
    }

    /// Return `true` if it cannot leave its slots, because a lost page is there.
    pub fn cannot_leave_slots(&self) -> bool {
        self.shrinking.is_some()
            && self.lost.iter().any(|&page| {
                let slot = self.entry(page).and_then(|id| self.entries[id].slot);
                slot.is_some_and(|slot| self.slots.is_left(slot))
            })
    }

    /// Return the layout of its region of the flash.
    pub const fn layout(&self) -> &Layout {
        self.journal.layout()
    }

    /// Takes the next step of leaving slots.
    pub(super) fn advance_shrinking(&mut self) {
        if self.awaits_epoch || !self.may_use_slots() {
            return;
        }
        // It comes back before anything else looks for it.
        let Some(mut shrinking) = self.shrinking.take() else { return };
        shrinking.stage = match shrinking.stage {
            Stage::Moving => self.move_pages(&mut shrinking),
            Stage::Recording(records) if self.journal.durable() < records => {
                self.journal.want_durable(records);
                Stage::Recording(records)
            }
            // Rule 12: the durable records are in blocks before this one, so replay must begin here or
            // later to meet none of them.
            Stage::Recording(_) => Stage::Forgetting(self.journal.uncertain()),
            Stage::Forgetting(block) if self.journal.advance_tail(block) => Stage::Left,
            stage @ (Stage::Forgetting(_) | Stage::Left) => stage,
        };
        self.shrinking = Some(shrinking);
    }

    /// Have the next pages leave their slots. Returns the stage after that.
    fn move_pages(&mut self, shrinking: &mut Shrinking) -> Stage {
        // An obsolete slot is free when its record is durable: the next stage waits for that.
        shrinking.waiting.retain(|&slot| self.slots.is_in_use(slot));
        if self.now.0 >= shrinking.looked_at.0 + LOOK_INTERVAL.0 {
            shrinking.looked_at = self.now;
            for &slot in &shrinking.waiting {
                self.leave_slot(slot);
            }
            // A page that went to disk leaves its dirty slot only with a sync, and nobody else may ask
            // for one.
            if !self.disk_syncs.unsynced().is_empty() && !shrinking.waiting.is_empty() {
                self.disk_syncs.want_if_rested(self.now);
            }
        }
        let end = self.slots.count().min(shrinking.next.saturating_add(SLOTS_PER_STEP));
        while shrinking.next < end && shrinking.waiting.len() < MOVES_MAX {
            let slot = SlotId(shrinking.next);
            shrinking.next += 1;
            if self.slots.is_in_use(slot) {
                shrinking.waiting.insert(slot);
                self.leave_slot(slot);
            }
        }
        let is_searched = shrinking.next == self.slots.count();
        // Slots that this call freed are seen at the next one.
        self.is_stirred |= !is_searched && shrinking.waiting.len() < MOVES_MAX;
        shrinking.waiting.retain(|&slot| self.slots.is_in_use(slot));
        if is_searched && shrinking.waiting.is_empty() {
            self.is_stirred = true;
            return Stage::Recording(self.journal.appended());
        }
        Stage::Moving
    }

    /// Have the page of a slot go elsewhere.
    fn leave_slot(&mut self, slot: SlotId) {
        let held = self.slots.slot(slot);
        if held.state() != SlotState::Live {
            return;
        }
        let id = self.ensure_entry(self.slots.page(slot));
        let entry = &self.entries[id];
        let is_newest = held.version() == entry.newest;
        // A version that the disk has, and no sync covers, is given up with its older slot after the sync.
        let is_on_disk = entry.disk_written == entry.newest;
        let is_kept = if is_newest {
            entry.on_flash || (held.is_dirty() && !self.goes_to_disk(id))
        } else {
            !is_on_disk
        };
        // A lost page has no bytes; that its slot says so keeps an older version from being served.
        let entry = &mut self.entries[id];
        entry.wants.flash |= is_kept && !entry.is_lost;
        self.settle(id);
    }

    /// Return `true` if the page is to go to disk and is in no tier of the policy, and the disk takes it.
    fn goes_to_disk(&self, id: EntryId) -> bool {
        let entry = &self.entries[id];
        let is_resting = self.write_backs.is_refused() || self.is_backing_resting(entry.page);
        !entry.in_ram && !is_resting && !self.write_backs.is_closed()
    }

    /// Return `true` if the page is in a slot that the shard leaves.
    pub(super) fn is_leaving_slot(&self, id: EntryId) -> bool {
        self.current_slot(id).is_some_and(|slot| self.slots.is_left(slot))
    }

    /// Return the time at which pages that did not leave are looked at again.
    pub(super) fn next_move(&self) -> Option<Nanos> {
        let shrinking = self.shrinking.as_ref()?;
        let waits = shrinking.stage == Stage::Moving && !shrinking.waiting.is_empty();
        waits.then_some(Nanos(shrinking.looked_at.0 + LOOK_INTERVAL.0))
    }
}
