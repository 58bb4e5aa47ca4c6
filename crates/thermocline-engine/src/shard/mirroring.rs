//! A flash of two devices: where pages are, and what becomes of those that one of them lost.
//!
//! Dirty pages, the journal and the table are on both devices. A clean page is on one of them, which the place
//! of its slot says, or on both if it was dirty before. Where that device is gone, the disk has the page.

use std::sync::Arc;

use super::{Fetch, Shard, Waiter};
use crate::counters::Purpose;
use crate::mirror::{Mirror, home};
use crate::operation::Copies;
use crate::options::WriteMode;
use crate::slots::SlotId;

impl Shard {
    /// Use a flash of two devices from now on. To be called before the first operation.
    pub fn mirror_with(&mut self, mirror: Arc<Mirror>) {
        self.mirror = Some(mirror);
    }

    /// Return the devices of a mirrored flash.
    pub fn mirror(&self) -> Option<&Mirror> {
        self.mirror.as_deref()
    }

    /// Return `true` if the flash is mirrored, and both of its devices are in use.
    pub(super) fn has_both_devices(&self) -> bool {
        self.mirror.as_ref().is_some_and(|mirror| mirror.has_both())
    }

    /// Return the device that a slot is read from first, and that has it if it is clean.
    pub(super) fn home_of(&self, slot: SlotId) -> Copies {
        if self.mirror.is_none() {
            return Copies::Both;
        }
        Copies::One(home(self.journal.slot_offset_bytes(slot)))
    }

    /// Return `true` if wrong bytes in a slot are no damage: only a device that is gone had them.
    pub(super) fn may_lack(&self, slot: SlotId) -> bool {
        self.mirror.is_some() && !self.slots.slot(slot).is_dirty()
    }

    /// Read a clean page elsewhere that its slot does not have. If it was replaced as a whole since, readers get
    /// what replaced it, and parts that were to be written change nothing.
    pub(super) fn slot_lacks_page(&mut self, key: usize, slot: SlotId) {
        let Fetch { page, is_current, .. } = self.fetches[key];
        if is_current {
            return self.slot_unreadable(key, slot);
        }
        let Some(newer) = self.entry(page).and_then(|id| self.entries[id].frame) else {
            self.fetches[key].slot = None;
            return self.push_fetch(key, Purpose::Policy, true);
        };
        let fetch = self.fetches.remove(key);
        if fetch.is_write_back {
            self.write_backs.fetch_ended();
        }
        self.pool.release(fetch.frame);
        for waiter in fetch.waiters {
            match waiter {
                Waiter::Read { request, segment } => {
                    let frame = self.pool.retain(newer);
                    self.read_done(request, segment, frame);
                }
                Waiter::Patch { request, frame, is_to_disk, .. } => {
                    self.patched(None, page, request, frame, is_to_disk);
                    self.pool.release(frame);
                }
            }
        }
    }

    /// Take a slot out of use that failed. Of a mirrored flash, one device failed, and the other one may go on with
    /// all slots.
    pub(super) fn condemn(&mut self, slot: SlotId) {
        if self.mirror.is_none() {
            self.slots.condemn(slot);
        }
    }

    /// Give up the device that failed more often, if both are in use. Return `true` if one is given up.
    pub(super) fn give_up_device(&self) -> bool {
        self.mirror.as_ref().is_some_and(|mirror| mirror.give_up_worse())
    }

    /// Write a dirty page to the disk that only one device of the flash has.
    pub(super) fn write_back_half(&mut self, page: u64) {
        let Some(id) = self.entry(page) else { return };
        let entry = &mut self.entries[id];
        let is_dirty = entry.disk_written != entry.newest;
        if !is_dirty || self.options.write_mode == WriteMode::ReadOnly {
            return;
        }
        if entry.frame.is_some() {
            entry.wants.disk = true;
            self.settle(id);
        } else {
            self.write_backs.insert(page);
            self.is_stirred = true;
        }
    }
}
