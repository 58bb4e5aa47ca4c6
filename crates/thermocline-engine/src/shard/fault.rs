//! A flash that fails, pages that are lost with it, and policies that take over.

use std::ops::Range;

use thermocline_core::{Access, Op, PageId, Survivor, Tier};

use super::exchange::FlashUse;
use super::{Place, Shard};
use crate::entry::EntryId;
use crate::options::{Options, OptionsError, PolicyOptions, WriteMode};
use crate::slots::SlotState;

/// Policy that decides when there is no flash.
pub(super) const POLICY_WITHOUT_FLASH: &str = "lru";

impl Shard {
    /// Return `true` if there is a flash that works, and that the engine is not about to leave.
    pub fn has_flash(&self) -> bool {
        self.may_use_slots()
    }

    /// Return the pages whose newest bytes are lost, in order.
    pub fn lost_pages(&self) -> Vec<u64> {
        self.lost.iter().copied().collect()
    }

    /// Notes whether the newest bytes of the page are lost.
    pub(super) fn set_lost(&mut self, id: EntryId, is_lost: bool) {
        let entry = &mut self.entries[id];
        if entry.is_lost == is_lost {
            return;
        }
        entry.is_lost = is_lost;
        if is_lost {
            self.lost.insert(entry.page);
            self.counters.page_losses += 1;
        } else {
            self.lost.remove(&entry.page);
        }
    }

    /// Changes what happens to writes from now on.
    pub fn set_write_mode(&mut self, mode: WriteMode) {
        self.options.write_mode = mode;
    }

    /// Check that another policy can be built for the sizes that there are.
    ///
    /// # Errors
    /// If it cannot, with the reason.
    pub fn check_policy(&self, policy: &PolicyOptions) -> Result<(), OptionsError> {
        let options = Options { policy: policy.clone(), ..self.options.clone() };
        options.build_policy(self.slots.count()).map(drop)
    }

    /// Lets another policy decide from now on. What RAM and flash hold stays, as far as the new
    /// policy wants it: it is told first what is on flash, the page written longest ago first, then
    /// what is in RAM, the page accessed longest ago first.
    ///
    /// # Errors
    /// If the policy cannot be built; the old one stays.
    pub fn set_policy(&mut self, policy: PolicyOptions) -> Result<(), OptionsError> {
        let former = std::mem::replace(&mut self.options.policy, policy);
        self.renew_policy(&(0..0)).inspect_err(|_| self.options.policy = former)
    }

    /// Build the policy again, and pass it the contents of RAM and flash, except for these pages. One that lets
    /// one of several candidates decide goes on with the one that the former policy chose.
    ///
    /// # Errors
    /// If the policy cannot be built; the old one stays.
    pub(super) fn renew_policy(&mut self, forgotten: &Range<u64>) -> Result<(), OptionsError> {
        // Others may decide for a while, for instance after the flash failed.
        if let Some(choosing) = self.policy.choosing() {
            self.options.choosing = Some(choosing);
        }
        let (policy, space) = self.options.build_policy(self.slots.count())?;
        self.policy = policy;
        self.places.rename(space, &self.slots, &self.entries);
        let in_ram = self.forget_views(forgotten);
        self.tell_survivors(forgotten);
        self.policy.set_telling(true);
        self.tell_ram(&in_ram);
        self.policy.set_telling(false);
        self.pins.refill();
        self.is_stirred = true;
        Ok(())
    }

    /// Lets the policy have another number of pages in RAM from now on: at least one, and at most as many
    /// as [`Options::ram_pages_max`] says. What RAM and flash hold stays, as far as the policy wants it. The
    /// memory of pages that it gives up goes back to the system as they become free; see
    /// [`memory_pages`](Self::memory_pages).
    ///
    /// # Errors
    /// If the policy cannot be built with that many; nothing changes then.
    pub fn set_ram_pages(&mut self, pages: u32) -> Result<(), OptionsError> {
        let most = self.options.ram_pages_max();
        let former = self.options.ram_pages;
        let set = |options: &mut Options, pages| {
            (options.ram_pages, options.spare_ram_pages) = (pages, most - pages);
        };
        set(&mut self.options, pages.clamp(1, most));
        self.renew_policy(&(0..0)).inspect_err(|_| set(&mut self.options, former))?;
        self.pool.withhold(self.options.spare_ram_pages, self.options.frames_for_requests());
        self.is_stirred = true;
        Ok(())
    }

    /// Return the number of pages that have memory: those of RAM, and those on their way to a device. After
    /// [`set_ram_pages`](Self::set_ram_pages) it falls as pages become free.
    pub fn memory_pages(&self) -> usize {
        self.pool.frames_in_use()
    }

    /// Gives the flash up as if it had failed: another shard's region of the same flash did, and one
    /// note speaks for all.
    pub fn give_up_flash(&mut self) {
        self.flash_failed();
    }

    /// Stop trusting the flash with anything. Pages that RAM or disk has are served from there;
    /// what only flash has is read from it while it can be, and goes to disk before anything else
    /// is called durable. Pages that cannot be read are lost.
    pub(super) fn flash_failed(&mut self) {
        if !self.flash.works() {
            return;
        }
        let now = self.now;
        // The observer comes first: it may hold writes (`WriteHold`) until the note says that the flash
        // is given up.
        if let Some(observer) = &mut self.observer {
            observer(&super::Event::FlashFailed { now });
        }
        self.end_flash();
        self.owe_versions();
        self.promise_again();
    }

    /// Stop using the flash, except to read pages that only it has.
    pub(super) fn end_flash(&mut self) {
        self.flash = FlashUse::Released(None);
        self.shrinking = None;
        self.forget_journal();
        // A stop may have closed them, because dirty pages could stay on flash. Now they cannot.
        self.write_backs.open();
        self.options.flash_pages = 0;
        self.unlink_slots();
        self.use_policy_without_flash();
        self.end_flash_writes();
        self.is_stirred = true;
    }

    /// Unlink slots: pages keep one only if nothing else has their newest bytes durably; all that
    /// the disk lacks must go there to be durable.
    fn unlink_slots(&mut self) {
        let places: Vec<Place> = self.places.iter().collect();
        let mut kept = vec![];
        let mut lacking: Vec<(u64, EntryId)> = vec![];
        for place in places {
            let id = match place {
                Place::Slot(slot) => self.ensure_entry(self.slots.page(slot)),
                Place::Entry(id) => id,
            };
            let slot = self.current_slot(id);
            let entry = &mut self.entries[id];
            let is_lacking = entry.disk_written != entry.newest && !entry.is_lost;
            // A version that was written to disk, but not synced, may have to be written again.
            let is_undurable = entry.disk_synced != entry.newest && !entry.is_lost;
            entry.slot = slot.filter(|_| is_undurable && entry.frame.is_none());
            entry.wants.disk |= entry.slot.is_some() && is_lacking;
            kept.extend(entry.slot);
            entry.obsolete = 0;
            entry.obsolete_clean = 0;
            if is_lacking {
                // No version that the disk lacks is durable, whatever slots were thought to have.
                lacking.push((entry.disk_written + 1, id));
                self.entries.set_undurable(id, 0);
            }
        }
        lacking.sort_unstable();
        for (version, id) in lacking {
            self.entries.set_undurable(id, version);
            self.relog(id);
        }
        self.slots.forget_but(&kept);
    }

    pub(super) fn entry_ids(&self) -> impl Iterator<Item = EntryId> + '_ {
        self.places.iter().filter_map(|place| match place {
            Place::Entry(id) => Some(id),
            Place::Slot(_) => None,
        })
    }

    /// Forgets what the policy believes. Returns the pages that it believed in RAM and that are there,
    /// except for the `forgotten` ones; the one accessed longest ago comes first.
    fn forget_views(&mut self, forgotten: &Range<u64>) -> Vec<u64> {
        let mut in_ram: Vec<(u64, u64)> = vec![];
        let ids: Vec<EntryId> = self.entry_ids().collect();
        for id in ids {
            if self.view_pinned(id) {
                continue;
            }
            let entry = &mut self.entries[id];
            if entry.in_ram && entry.frame.is_some() && !forgotten.contains(&entry.page) {
                in_ram.push((entry.touched, entry.page));
            } else {
                entry.in_ram = false;
            }
            entry.on_flash = false;
            entry.wants.flash = false;
        }
        in_ram.sort_unstable();
        in_ram.into_iter().map(|(_, page)| page).collect()
    }

    /// Pass the policy the contents of flash except for the `forgotten` pages, the version written longest
    /// ago first.
    pub(super) fn tell_survivors(&mut self, forgotten: &Range<u64>) {
        // Pages that a failed flash still has are on their way to the disk.
        if !self.may_use_slots() {
            return;
        }
        let mut survivors: Vec<(u64, Survivor)> = vec![];
        // At a start no page has an entry, and looking for millions in vain takes long.
        let is_start = self.entries.len() == 0;
        for (id, slot) in self.slots.iter() {
            let page = self.slots.page(id);
            let is_told = !forgotten.contains(&page) && !self.is_pinned(page);
            if slot.state() != SlotState::Live || !is_told {
                continue;
            }
            let is_newest = is_start
                || self.entry(page).is_none_or(|entry| {
                    self.entries[entry].slot == Some(id)
                        && self.entries[entry].newest == slot.version()
                        && !self.entries[entry].is_lost
                });
            if is_newest {
                let (page, is_dirty) = (self.places.id(page), slot.is_dirty());
                survivors.push((slot.version(), Survivor { page, is_dirty }));
            }
        }
        survivors.sort_unstable_by_key(|&(version, _)| version);
        // A flash that became much smaller has more than a policy can take: the oldest leave.
        let most = self.options.flash_pages.saturating_add(self.options.ram_pages) as usize;
        let surplus = survivors.len().saturating_sub(most);
        let surplus: Vec<Survivor> =
            survivors.drain(..surplus).map(|(_, survivor)| survivor).collect();
        let survivors: Vec<Survivor> =
            survivors.into_iter().map(|(_, survivor)| survivor).collect();
        if is_start {
            self.slots.show_all();
        } else {
            for survivor in &survivors {
                self.set_on_flash(survivor.page);
            }
        }
        self.actions.clear();
        for Survivor { page, is_dirty } in surplus {
            if is_dirty {
                self.actions.copy(page, Tier::FLASH, Tier::DISK);
            }
            self.actions.drop_copy(page, Tier::FLASH);
        }
        self.perform_actions();
        self.actions.clear();
        self.policy.restore(&survivors, &mut self.actions);
        self.perform_actions();
    }

    fn set_on_flash(&mut self, id: PageId) {
        match self.page_of(id).and_then(|page| self.place(page)) {
            Some(Place::Slot(slot)) => self.slots.set_visible(slot, true),
            Some(Place::Entry(id)) => self.entries[id].on_flash = true,
            None => {}
        }
    }

    /// Pass the policy the contents of RAM: dirty pages as writes, the others as reads.
    fn tell_ram(&mut self, pages: &[u64]) {
        for &page in pages {
            if let Some(id) = self.entry(page) {
                self.entries[id].in_ram = false;
            }
        }
        // Nothing touches a page's frame until the policy is told of the page, or drops it.
        for &page in pages {
            let Some(id) = self.entry(page) else { continue };
            let entry = &self.entries[id];
            let is_dirty = entry.disk_written != entry.newest && self.current_slot(id).is_none();
            let op = if is_dirty { Op::Write } else { Op::Read };
            self.actions.clear();
            let access = Access { page: self.places.id(page), op, client: 0 };
            self.policy.access(access, &mut self.actions);
            self.perform_told();
        }
        let ids: Vec<EntryId> = self.entry_ids().collect();
        for id in ids {
            let page = self.entries[id].page;
            if self.entry(page) == Some(id) {
                self.settle(id);
            }
        }
    }
}
