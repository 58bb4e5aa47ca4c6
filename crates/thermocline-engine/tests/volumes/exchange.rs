//! Another flash takes the place of the one in use, in steps that all shards of all volumes take before any of them
//! takes the next one.

use std::rc::Rc;

use thermocline_core::Nanos;
use thermocline_engine::{Directory, FlashSet, Section, Shard, SideFile};

use crate::devices::Flash;
use crate::note::Note;
use crate::plan;
use crate::starts::set_up;
use crate::volume::Member;
use crate::world::World;
use crate::{GUEST, NAMES};

/// Step of a replacement of the flash.
pub(crate) enum Exchange {
    Idle,
    Leaving,
    Releasing,
    Taking(Taking),
}

/// The new flash is set up.
pub(crate) struct Taking {
    /// Per volume: where its region begins, and what is there.
    parts: Vec<(u64, FlashSet)>,
    /// Shards that have not taken it, as numbers of volumes and indices there.
    left: Vec<(usize, usize)>,
}

impl World {
    /// Take the next step of a replacement of the flash, or begin one by a draw; `None` if the power is cut.
    pub(crate) fn replace_flash(&mut self) -> Option<()> {
        match &self.exchange {
            Exchange::Idle => {
                let begins = self.volumes.len() == GUEST
                    && self.job.is_none()
                    && !self.volumes.iter().any(|volume| volume.growth.is_busy())
                    && self.below(10) == 0;
                if begins {
                    self.exchange = Exchange::Leaving;
                }
            }
            Exchange::Leaving => {
                self.each_shard(Shard::leave_flash);
                let have_left = self.all_shards(Shard::has_left_flash);
                let next = self.notes[..GUEST].iter().position(Note::needs_flash);
                match next.filter(|_| have_left) {
                    Some(number) => self.disown_flash(number)?,
                    None if have_left => self.exchange = Exchange::Releasing,
                    None => {}
                }
            }
            Exchange::Releasing => {
                self.each_shard(|shard| {
                    if shard.has_left_flash() {
                        shard.release_flash();
                    }
                    shard.leave_flash();
                });
                if self.all_shards(Shard::is_flash_released) {
                    self.set_up_new_flash()?;
                }
            }
            Exchange::Taking(_) => self.take_new_flash()?,
        }
        Some(())
    }

    /// Have some of the shards do their part of a step: each does when its thread comes to that.
    fn each_shard(&mut self, step: fn(&mut Shard)) {
        for number in 0..self.volumes.len() {
            for index in 0..self.volumes[number].members.len() {
                if self.below(4) > 0 {
                    let shard = &mut self.volumes[number].members[index].shard;
                    shard.tick(Nanos(shard.now().0 + 60_000_000));
                    step(shard);
                }
            }
        }
    }

    fn all_shards(&self, is: fn(&Shard) -> bool) -> bool {
        self.volumes.iter().all(|volume| volume.all(is))
    }

    /// Say in a note that the backing store has all that its volume has on the flash; `None` if the power is cut.
    pub(crate) fn disown_flash(&self, number: usize) -> Option<()> {
        let said = self.notes[number].said().expect("it names the flash");
        self.write_note(number, said.without_flash())
    }

    fn set_up_new_flash(&mut self) -> Option<()> {
        self.devices.borrow_mut().replace_flash(self.seed);
        for member in self.volumes.iter_mut().flat_map(|volume| &mut volume.members) {
            member.sync = None;
        }
        let mut flash = Flash(Rc::clone(&self.devices));
        let sizes = [0, 1].map(|number| (NAMES[number], plan::set_bytes(number, self.seed)));
        let directory = Directory::set_up(&mut flash, &sizes).ok()?;
        let (mut parts, mut left) = (vec![], vec![]);
        for (number, name) in NAMES.into_iter().enumerate().take(GUEST) {
            let window = directory.window(name).unwrap();
            let cache = self.new_cache();
            let mut section = Section::new(&mut flash, window.clone());
            let set = set_up(&mut section, cache, (number, self.seed)).ok()?;
            left.extend((0..set.flashes().len()).map(|index| (number, index)));
            parts.push((window.start, set));
        }
        self.exchange = Exchange::Taking(Taking { parts, left });
        Some(())
    }

    /// Name the new flash in a note, or have a shard take it once all notes name it.
    fn take_new_flash(&mut self) -> Option<()> {
        let drawn = self.below(16) as usize;
        let Exchange::Taking(Taking { parts, left }) = &mut self.exchange else { return Some(()) };
        if let Some(number) = self.notes[..GUEST].iter().position(|note| !note.needs_flash()) {
            let superblock = parts[number].1.superblock();
            let running = SideFile::running(superblock.owner(), superblock.epoch);
            return self.write_note(number, running);
        }
        // From the first note on that names the new flash, no start takes the former one.
        let mut devices = self.devices.borrow_mut();
        devices.former = None;
        let (number, index) = left.swap_remove(drawn % left.len());
        let (start, set) = &parts[number];
        let options = &plan::options(number, self.seed)[index];
        let part = &set.flashes()[index];
        let member: &mut Member = &mut self.volumes[number].members[index];
        member.shard.take_flash(options.flash_pages, options.policy.clone(), part).unwrap();
        member.start = start + set.range(index).start;
        member.layout = part.superblock().layout;
        member.sync = Some(devices.syncs.join());
        drop(devices);
        if left.is_empty() {
            self.replaced += 1;
            self.exchange = Exchange::Idle;
            self.check_room();
        }
        Some(())
    }
}
