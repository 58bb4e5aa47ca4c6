//! A volume that comes and goes while the others work.

use std::rc::Rc;

use thermocline_core::Nanos;
use thermocline_engine::{Directory, DirectoryError, FlashSet, RequestKind, Section, Shard};

use crate::devices::Flash;
use crate::starts::add_region;
use crate::volume::Page;
use crate::world::World;
use crate::{GUEST, NAMES, PAGE};

impl World {
    /// Remove the region of a guest that needs none: it was added or removed when the power was cut.
    pub(crate) fn forget_guest(
        &self,
        flash: &mut Flash,
        directory: &mut Directory,
    ) -> Result<(), DirectoryError> {
        let Ok(window) = directory.window(NAMES[GUEST]) else { return Ok(()) };
        if self.notes[GUEST].needs_flash() {
            return Ok(());
        }
        if !directory.is_new(flash, NAMES[GUEST])? {
            let found = FlashSet::read(&mut Section::new(flash, window)).unwrap();
            assert_eq!(found.contents().dirty_pages, 0, "it would have to be kept");
        }
        directory.remove(flash, NAMES[GUEST])
    }

    /// Take the guest's next step, if it can be taken; `None` if the power is cut.
    pub(crate) fn change_guest(&mut self) -> Option<()> {
        if self.volumes.len() <= GUEST {
            return self.welcome_guest();
        }
        let begins = !std::mem::replace(&mut self.guest_leaves, true);
        if begins {
            self.volumes[GUEST].shards().for_each(Shard::drain);
        }
        if !self.volumes[GUEST].has_answered_all() {
            return Some(());
        }
        if self.notes[GUEST].needs_flash() {
            return self.drain_guest();
        }
        for index in 0..self.volumes[GUEST].members.len() {
            let drawn = self.below(3);
            let shard = &mut self.volumes[GUEST].members[index].shard;
            if drawn > 0 && shard.has_left_flash() {
                shard.release_flash();
            }
        }
        if !self.volumes[GUEST].all(Shard::is_flash_released) {
            return Some(());
        }
        self.end_guest()?;
        for sync in self.volumes.pop()?.members.iter().filter_map(|member| member.sync) {
            self.devices.borrow_mut().syncs.leave(sync);
        }
        self.check_guest();
        let mut flash = Flash(Rc::clone(&self.devices));
        let mut directory = Directory::read(&mut flash).ok()??;
        directory.remove(&mut flash, NAMES[GUEST]).ok()
    }

    /// Have the guest's shards write everything back. When all have, its note says that no flash is needed.
    fn drain_guest(&mut self) -> Option<()> {
        let mut is_clean = true;
        for index in 0..self.volumes[GUEST].members.len() {
            let drawn = self.below(3);
            let shard = &mut self.volumes[GUEST].members[index].shard;
            if drawn > 0 {
                shard.tick(Nanos(shard.now().0 + 60_000_000));
                shard.leave_flash();
            }
            let has_all = shard.dirty_slots() == 0 && shard.undurable_pages() == 0;
            let is_clean_now = has_all && (shard.has_left_flash() || shard.is_flash_released());
            if drawn > 0 && !is_clean_now && shard.is_idle() {
                shard.drain();
            }
            is_clean &= is_clean_now;
        }
        if is_clean { self.disown_flash(GUEST) } else { Some(()) }
    }

    /// Make durable what no client flushed; `None` if the power is cut.
    fn end_guest(&mut self) -> Option<()> {
        self.volumes[GUEST].shards().for_each(Shard::stop);
        while !self.submit(GUEST, RequestKind::Flush, 0..0) {
            self.turn(false).then_some(())?;
        }
        while !self.volumes[GUEST].has_answered_all() || !self.volumes[GUEST].all(Shard::is_idle) {
            self.turn(false).then_some(())?;
        }
        Some(())
    }

    /// Give the guest a region, and serve it from then on.
    fn welcome_guest(&mut self) -> Option<()> {
        let mut flash = Flash(Rc::clone(&self.devices));
        let mut directory = Directory::read(&mut flash).ok()??;
        self.forget_guest(&mut flash, &mut directory).ok()?;
        add_region(GUEST, self.seed, &mut flash, &mut directory).ok()?;
        self.guest_leaves = false;
        self.open(GUEST, &mut flash, &directory)?;
        self.check_room();
        Some(())
    }

    /// Check that the backing store of a guest that is away has everything, which stays as it is found.
    pub(crate) fn check_guest(&mut self) {
        let devices = self.devices.borrow();
        let pages = self.pages[GUEST].iter_mut().zip(devices.backing[GUEST].durable.chunks(PAGE));
        for (page, (known, bytes)) in pages.enumerate() {
            *known = Page::of(known.check((page as u64, GUEST), known.flushed, bytes));
        }
    }
}
