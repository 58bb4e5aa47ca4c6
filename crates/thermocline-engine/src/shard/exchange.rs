//! Another flash for an engine that runs.
//!
//! 1. [`leave_flash`](Shard::leave_flash): no slot is written any more. The policy is one of RAM, flushes
//!    write to disk, and what is dirty on flash goes there too. The journal stays in force, so a crash
//!    loses nothing and brings nothing old back.
//! 2. When [`has_left_flash`](Shard::has_left_flash) says so, the disk has all that the flash has. The
//!    caller makes that durable, so that no start uses the old flash again, and calls
//!    [`release_flash`](Shard::release_flash). A flash that failed is released already; the caller goes on
//!    calling [`leave_flash`](Shard::leave_flash) until the disk has what was durable on that flash.
//! 3. When [`is_flash_released`](Shard::is_flash_released) says so, no operation needs the old flash, and
//!    its driver may have another one.
//! 4. The caller makes durable that the new flash may have newer bytes, and calls
//!    [`take_flash`](Shard::take_flash).

use thermocline_core::Nanos;

use super::fault::POLICY_WITHOUT_FLASH;
use super::retry::FlashFaults;
use super::{OpenError, Shard};
use crate::operation::Device;
use crate::options::{Options, OptionsError, PolicyOptions};
use crate::recovery::Flash;
use crate::slots::{SlotId, SlotState, Slots};

/// Interval at which the flash is searched for dirty pages that are not on their way to disk.
const LOOK_INTERVAL: Nanos = Nanos(50_000_000);

/// Use of the flash: pages are on it and go there, are only read, or neither.
#[derive(Debug)]
pub(super) enum FlashUse {
    /// The flash works.
    Works,
    /// No slot is written any more, because another flash is to come.
    Leaving(Box<Leaving>),
    /// The engine has no flash, or it failed: nothing is written there. The pages that a failed
    /// flash held durably are owed until the disk has them.
    Released(Option<Owed>),
}

impl FlashUse {
    /// Return `true` if there is a flash whose journal is in force.
    pub(super) const fn works(&self) -> bool {
        !matches!(self, Self::Released(_))
    }
}

/// A flash that is being left.
#[derive(Debug)]
pub(super) struct Leaving {
    /// The pages and the policy that the engine returns to if it stays with the flash after all.
    flash_pages: u32,
    policy: PolicyOptions,
    /// Time of the last search for dirty pages.
    looked_at: Nanos,
    /// Number of the first records that say durably that nothing is dirty, once nothing is.
    freed: Option<u64>,
}

/// Pages that were durable on a flash that failed, and that the disk may lack.
#[derive(Debug)]
pub(super) struct Owed {
    /// Versions up to this one.
    version: u64,
    /// All of them are written; they are durable when that many syncs of the disk are done.
    syncs: Option<u64>,
    /// Time at which they are sent to disk again, if they are not there.
    retry_at: Nanos,
}

impl Shard {
    /// Stops writing to the flash, and begins to write its dirty pages back. Where the flash failed, goes
    /// on making durable on disk what was durable on that flash.
    pub fn leave_flash(&mut self) {
        self.settle_owed();
        self.free_left_slots();
        if !self.may_use_slots() {
            return;
        }
        self.flash = FlashUse::Leaving(Box::new(Leaving {
            flash_pages: self.options.flash_pages,
            policy: self.options.policy.clone(),
            looked_at: Nanos(0),
            freed: None,
        }));
        self.options.flash_pages = 0;
        let live: Vec<SlotId> = self.slots.live().collect();
        for slot in live {
            self.slots.set_visible(slot, false);
        }
        self.use_policy_without_flash();
        self.is_stirred = true;
    }

    /// Goes on with the flash that it was about to leave.
    ///
    /// # Errors
    /// If the policy cannot be built again.
    pub fn stay_with_flash(&mut self) -> Result<(), OptionsError> {
        if !matches!(self.flash, FlashUse::Leaving(_)) {
            return Ok(());
        }
        let former = std::mem::replace(&mut self.flash, FlashUse::Works);
        let FlashUse::Leaving(leaving) = former else { return Ok(()) };
        let Leaving { flash_pages, policy, .. } = *leaving;
        self.options.flash_pages = flash_pages;
        self.is_stirred = true;
        self.set_policy(policy)
    }

    /// Return `true` if the disk durably has everything that the flash has, which says so durably, and nothing is
    /// on its way there.
    pub fn has_left_flash(&self) -> bool {
        let FlashUse::Leaving(leaving) = &self.flash else { return false };
        // A start that finds the flash of several volumes without need for this one looks for dirty pages.
        let is_said = leaving.freed.is_some_and(|records| self.journal.durable() >= records);
        is_said && !self.awaits_epoch && self.is_all_written_back()
    }

    /// Return `true` if nothing on the flash is dirty but pages that are lost.
    fn is_all_written_back(&self) -> bool {
        let [_, dirty] = self.slots.live_and_dirty();
        // Nobody can clean the slot of a lost page, and no flash could be left if that counted.
        let lost = self.lost.iter().filter(|&&page| {
            let slot = self.entry(page).and_then(|id| self.entries[id].slot);
            slot.is_some_and(|slot| self.slots.slot(slot).is_dirty())
        });
        dirty as usize == lost.count() && !self.slots.is_writing()
    }

    /// Make durable on the flash that is being left that nothing there is dirty, once that is so.
    fn free_left_slots(&mut self) {
        let is_all_written_back = self.is_all_written_back();
        let FlashUse::Leaving(leaving) = &mut self.flash else { return };
        if is_all_written_back && leaving.freed.is_none() {
            leaving.freed = Some(self.journal.appended());
        }
        if leaving.freed.is_some_and(|records| self.journal.durable() < records) {
            self.want_commit();
        }
    }

    /// Return `true` if it has no flash, or gave up the one that it had.
    pub const fn has_given_up_flash(&self) -> bool {
        !self.flash.works()
    }

    /// Gives up the flash that it has left: from now on what is acknowledged as durable is on disk alone.
    ///
    /// # Panics
    /// If [`has_left_flash`](Self::has_left_flash) does not say so.
    pub fn release_flash(&mut self) {
        assert!(self.has_left_flash(), "the disk has all that the flash has");
        self.end_flash();
    }

    /// Return `true` if no operation needs the old flash any more, and the disk durably has all that it
    /// should.
    pub fn is_flash_released(&self) -> bool {
        matches!(self.flash, FlashUse::Released(None))
            && !self.awaits_epoch
            && !self.slots.has_pinned()
            && self.operations_in_flight(Device::Flash) == 0
            && self.flash_faults.is_idle()
            && self.outbox.has_none_of(Device::Flash)
            && self.entry_ids().all(|id| {
                let entry = &self.entries[id];
                entry.slot_write.is_none() && (entry.slot.is_none() || entry.is_lost)
            })
    }

    /// Check that a flash of that many pages, with this policy, would be taken.
    ///
    /// # Errors
    /// If options are invalid, or do not fit this flash.
    pub fn check_flash(
        &self,
        flash_pages: u32,
        policy: &PolicyOptions,
        flash: &Flash,
    ) -> Result<(), OpenError> {
        let (options, policy) = (self.options.clone(), policy.clone());
        let options = Options { flash_pages, policy, ..options };
        Self::check_open(&options, flash)?;
        options.build_policy(flash.superblock.layout.slots)?;
        Ok(())
    }

    /// Caches on another flash, which holds nothing yet, as this policy decides.
    ///
    /// # Errors
    /// If options are invalid, or do not fit this flash; nothing changes then.
    ///
    /// # Panics
    /// If [`is_flash_released`](Self::is_flash_released) does not say so.
    pub fn take_flash(
        &mut self,
        flash_pages: u32,
        policy: PolicyOptions,
        flash: &Flash,
    ) -> Result<(), OpenError> {
        assert!(self.is_flash_released(), "nothing needs the old flash");
        self.check_flash(flash_pages, &policy, flash)?;
        let ids: Vec<_> = self.entry_ids().collect();
        for id in ids {
            // Only lost pages still name a slot of the old flash.
            self.entries[id].slot = None;
        }
        self.options.flash_pages = flash_pages;
        self.slots = Slots::new(flash.superblock.layout.slots, self.options.backing_pages);
        self.outbox.set_breaks(&flash.superblock.layout);
        let written_bytes = self.counters.flash.all_written_bytes();
        self.journal.adopt(&flash.superblock, flash.generations.clone(), written_bytes);
        self.cleaner.restart();
        self.flash_faults = FlashFaults::after(&self.flash_faults);
        self.version = self.version.max(flash.version);
        self.flash = FlashUse::Works;
        self.is_stirred = true;
        self.set_policy(policy)?;
        Ok(())
    }

    /// Sends what is dirty on flash to disk while the flash is being left.
    pub(super) fn write_back_flash(&mut self) {
        self.free_left_slots();
        let (now, is_busy) = (self.now, self.write_backs.is_busy());
        let FlashUse::Leaving(leaving) = &mut self.flash else { return };
        if is_busy || now.0 < leaving.looked_at.0 + LOOK_INTERVAL.0 {
            return;
        }
        leaving.looked_at = now;
        let dirty: Vec<SlotId> = self.slots.live().collect();
        for slot in dirty {
            let held = self.slots.slot(slot);
            // Writing one page back may have made this slot obsolete.
            if held.state() != SlotState::Live || !held.is_dirty() {
                continue;
            }
            let page = self.slots.page(slot);
            match self.entry(page) {
                Some(id) if self.entries[id].frame.is_some() => {
                    let entry = &mut self.entries[id];
                    entry.wants.disk |= entry.disk_written != entry.newest;
                    self.settle(id);
                }
                _ => drop(self.write_backs.insert(page)),
            }
        }
        if !self.disk_syncs.unsynced().is_empty() {
            self.disk_syncs.want_if_rested(self.now);
        }
        self.is_stirred = true;
    }

    /// Owe the versions of a flash that failed: the note of the new one must not allow for a start
    /// before the disk has what this one had durably.
    pub(super) fn owe_versions(&mut self) {
        let owed = Owed { version: self.version, syncs: None, retry_at: self.now };
        self.flash = FlashUse::Released(Some(owed));
    }

    /// Count everything written before a failed sync of the disk as not written.
    pub(super) const fn owe_again(&mut self) {
        if let FlashUse::Released(Some(owed)) = &mut self.flash {
            owed.syncs = None;
        }
    }

    /// Write the pages to disk that were durable on a flash that failed.
    fn settle_owed(&mut self) {
        let FlashUse::Released(Some(Owed { version, syncs, retry_at })) = self.flash else {
            return;
        };
        self.is_stirred = true;
        let oldest = self.entries.oldest_undurable().map(|id| self.entries[id].undurable);
        let is_written =
            oldest.is_none_or(|oldest| oldest > version) && !self.blanks.owes(version, None);
        if !is_written {
            self.owe_again();
            if self.now >= retry_at {
                let retry_at = Nanos(self.now.0 + LOOK_INTERVAL.0);
                self.flash = FlashUse::Released(Some(Owed { version, syncs: None, retry_at }));
                self.waiters.raise_target(version);
                self.log_all_pages();
            }
            return;
        }
        let next = self.disk_syncs.next();
        // If nothing was written since the last sync began, that one covers all, and may still be under
        // way.
        let wanted = syncs.unwrap_or(if self.needs_sync() { next } else { next - 1 });
        if self.disk_syncs.done() >= wanted {
            self.flash = FlashUse::Released(None);
            return;
        }
        if !self.disk_syncs.has_started(wanted) {
            self.disk_syncs.want_if_rested(self.now);
        }
        self.flash = FlashUse::Released(Some(Owed { version, syncs: Some(wanted), retry_at }));
    }

    /// Return the time at which the flash is searched again, if it is being left.
    pub(super) fn next_look(&self) -> Option<Nanos> {
        let FlashUse::Leaving(leaving) = &self.flash else { return None };
        Some(Nanos(leaving.looked_at.0 + LOOK_INTERVAL.0))
    }

    /// Return `true` if pages may be written to slots.
    pub(super) const fn may_use_slots(&self) -> bool {
        matches!(self.flash, FlashUse::Works)
    }

    /// Switch to the policy of an engine without flash.
    pub(super) fn use_policy_without_flash(&mut self) {
        let policy = PolicyOptions::named(POLICY_WITHOUT_FLASH).expect("it is registered");
        self.set_policy(PolicyOptions { costs: self.options.policy.costs.clone(), ..policy })
            .expect("a policy of RAM can be built for any hierarchy");
    }
}
