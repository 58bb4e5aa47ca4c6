//! Volumes that get more slots of the flash and give room back while they are served, as the server does it: one
//! thread makes a change durable, and each shard takes it over when it comes to that.

use std::ops::Range;
use std::rc::Rc;

use thermocline_core::Nanos;
use thermocline_engine::{
    CHUNK_BYTES, Directory, Extension, FlashError, Layout, Reduced, Reduction, Section, Shard,
};

use crate::devices::Flash;
use crate::plan;
use crate::volume::Member;
use crate::world::World;
use crate::{GUEST, NAMES};

/// Change of a volume's size on the flash.
pub(crate) struct Growth {
    /// While shards leave slots: how far each has come.
    leaving: Option<Vec<Leave>>,
    /// Per shard: the change that it is to take over.
    news: Vec<Option<News>>,
    /// `true` once it was looked whether the volume has room that it does not use.
    has_looked: bool,
}

/// Change that is being made durable while the shards work. There is one at a time.
pub(crate) struct Job {
    number: usize,
    making: Making,
}

/// Step of a change that is being made durable.
enum Making {
    /// The directory gives the volume room for the new slots of that many pages.
    Extending(Extension, u32),
    /// The superblocks do not name the room that others are to have.
    GivingBack(Reduced),
}

/// Slots that a shard leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Pending,
    /// It keeps all.
    Kept,
    /// It goes on with that number of slots, and has left the others.
    Left(u32),
}

/// Change that a shard takes over.
#[derive(Clone, Copy)]
enum News {
    /// Pages of the policy, in slots of that layout, which is durable.
    More(u32, Layout),
    /// Pages of the policy; slots that it does not need are left.
    Leave(u32),
    /// The slots that it has left are gone.
    Fewer(Layout),
}

impl Growth {
    pub(crate) fn new(shards: usize) -> Self {
        Self { leaving: None, news: vec![None; shards], has_looked: false }
    }

    /// Return `true` from the beginning of a change until all shards have taken it over.
    pub(crate) fn is_busy(&self) -> bool {
        self.leaving.is_some() || self.news.iter().any(Option::is_some)
    }
}

/// Return ranges that are moved by that many bytes, modulo 2^64.
fn moved(ranges: &[Range<u64>], by: u64) -> Vec<Range<u64>> {
    ranges.iter().map(|it| it.start.wrapping_add(by)..it.end.wrapping_add(by)).collect()
}

impl World {
    /// Give a volume that stays more slots, if there is room for them; `None` if the power is cut.
    pub(crate) fn grow(&mut self) -> Option<()> {
        let (number, more) = (self.below(GUEST as u64) as usize, 1 + self.below(200) as u32);
        let volume = &self.volumes[number];
        // The volumes that come and go find room, too.
        let is_scattered = volume.members.iter().any(|it| it.layout.annexes.len() == 3);
        if !self.may_change(number) || is_scattered {
            return Some(());
        }
        let name = NAMES[number];
        let slots = volume.members.iter().map(|member| member.layout.slots).max()?;
        let slots = slots + 1..=slots + more;
        let pages = volume.members[0].shard.options().flash_pages + more / 10;
        let mut flash = Flash(Rc::clone(&self.devices));
        let mut directory = Directory::read(&mut flash).ok()??;
        let window = directory.window(name).unwrap();
        let owner = self.notes[number].owner();
        let mut section = Section::new(&mut flash, window.clone());
        let mut extension = Extension::plan(&mut section, slots, Some(owner)).unwrap();
        let used = moved(&extension.used(), window.start);
        let free = directory.free_for(&mut flash, name, &used).ok()?;
        let taken = match extension.place(&moved(&free, window.start.wrapping_neg())) {
            Err(FlashError::NoRoom { .. } | FlashError::CannotGrow) => return Some(()),
            placed => placed.unwrap(),
        };
        directory.take(&mut flash, name, &moved(&taken, window.start)).ok()?;
        self.job = Some(Job { number, making: Making::Extending(extension, pages) });
        Some(())
    }

    /// Take the next step of making a change durable; `None` if the power is cut.
    fn advance_job(&mut self, Job { number, making }: Job) -> Option<()> {
        let name = NAMES[number];
        let mut flash = Flash(Rc::clone(&self.devices));
        let mut directory = Directory::read(&mut flash).ok()??;
        let news: Vec<News> = match making {
            Making::Extending(extension, pages) => {
                let window = directory.window(name).unwrap();
                extension.apply(&mut Section::new(&mut flash, window)).ok()?;
                self.set_layouts(number, &extension.layouts());
                extension.layouts().into_iter().map(|layout| News::More(pages, layout)).collect()
            }
            Making::GivingBack(reduced) => {
                reduced.give_back(&mut directory, &mut flash, name).ok()?;
                let own = self.chunks(number) as u64 * CHUNK_BYTES;
                assert_eq!(directory.volume_bytes(name).unwrap(), own, "a leak");
                self.check_room();
                reduced.layouts().into_iter().map(News::Fewer).collect()
            }
        };
        let growth = &mut self.volumes[number].growth;
        growth.news = news.into_iter().map(Some).collect();
        growth.leaving = None;
        Some(())
    }

    /// Have a volume that stays begin to give room back.
    pub(crate) fn shrink(&mut self) {
        let number = self.below(GUEST as u64) as usize;
        let pages = plan::options(number, self.seed)[0].flash_pages;
        let first = &self.volumes[number].members[0].shard;
        if self.may_change(number) && first.slots_for(pages).is_ok_and(|more| more.is_none()) {
            let growth = &mut self.volumes[number].growth;
            growth.news.fill(Some(News::Leave(pages)));
            growth.leaving = Some(vec![Leave::Pending; growth.news.len()]);
        }
    }

    /// Return `true` if the size of a volume may change.
    fn may_change(&self, number: usize) -> bool {
        let volume = &self.volumes[number];
        self.job.is_none() && !volume.growth.is_busy() && volume.growth.has_looked
    }

    /// Take the next step of each change; `None` if the power is cut.
    pub(crate) fn advance_changes(&mut self) -> Option<()> {
        for number in 0..GUEST {
            for index in 0..self.volumes[number].members.len() {
                if self.below(3) > 0 {
                    self.resize(number, index);
                }
            }
        }
        if let Some(job) = self.job.take() {
            if self.below(16) == 0 {
                return self.advance_job(job);
            }
            self.job = Some(job);
            return Some(());
        }
        self.begin_job()
    }

    /// Begin to make a change durable, if there is one; `None` if the power is cut.
    fn begin_job(&mut self) -> Option<()> {
        for number in 0..GUEST {
            if !self.volumes[number].growth.has_looked && self.below(8) == 0 {
                return self.look(number);
            }
            let left = self.volumes[number].growth.leaving.as_ref();
            if let Some(left) = left.filter(|left| !left.contains(&Leave::Pending)) {
                let slots = |leave: &Leave| match *leave {
                    Leave::Left(slots) => Some(slots),
                    Leave::Pending | Leave::Kept => None,
                };
                let left: Vec<_> = left.iter().map(slots).collect();
                return self.reduce(number, &left);
            }
        }
        Some(())
    }

    /// Have a shard take over another size.
    fn resize(&mut self, number: usize, index: usize) {
        let stays = self.below(40) == 0;
        let volume = &mut self.volumes[number];
        let member = &mut volume.members[index];
        let shard = &mut member.shard;
        if shard.awaits_epoch() {
            return;
        }
        match volume.growth.news[index].take() {
            Some(News::More(pages, layout)) => shard.grow_flash(pages, &layout).unwrap(),
            Some(News::Leave(pages)) if gives_room_back(shard, pages) => {
                shard.leave_slots(pages).unwrap();
            }
            Some(News::Leave(pages)) if pages == shard.options().flash_pages => {}
            Some(News::Leave(pages)) => shard.set_flash_pages(pages).unwrap(),
            Some(News::Fewer(layout)) if shard.is_shrinking() => shard.give_up_slots(&layout),
            Some(News::Fewer(_)) | None => {}
        }
        if shard.is_shrinking() {
            shard.tick(Nanos(shard.now().0 + 60_000_000));
        }
        let Some(leaving) = &mut volume.growth.leaving else { return };
        if leaving[index] == Leave::Pending {
            if stays {
                // As when a page in the slots is lost.
                shard.keep_slots();
            }
            leaving[index] = if shard.is_shrinking() {
                shard.has_left_slots().map_or(Leave::Pending, Leave::Left)
            } else {
                Leave::Kept
            };
        }
    }

    /// Take room from a volume that has just started and does not use it; `None` if the power is cut.
    fn look(&mut self, number: usize) -> Option<()> {
        let volume = &self.volumes[number];
        if volume.beginning.is_some() || !volume.all(|shard| !shard.awaits_epoch()) {
            return Some(());
        }
        let none = vec![None; volume.members.len()];
        self.volumes[number].growth.has_looked = true;
        self.reduce(number, &none)
    }

    /// Make durable that a volume has only the slots that its shards keep, and begin to let others have the rest of
    /// its room; `None` if the power is cut.
    fn reduce(&mut self, number: usize, left: &[Option<u32>]) -> Option<()> {
        let name = NAMES[number];
        let mut flash = Flash(Rc::clone(&self.devices));
        let directory = Directory::read(&mut flash).ok()??;
        let window = directory.window(name).unwrap();
        let owner = self.notes[number].owner();
        let mut section = Section::new(&mut flash, window);
        let reduction = Reduction::plan(&mut section, left, Some(owner)).unwrap();
        let keeps_all = left.iter().all(Option::is_none);
        if keeps_all && !reduction.leaves_room(&directory, name).unwrap() {
            self.volumes[number].growth.leaving = None;
            return Some(());
        }
        let reduced = reduction.apply(&mut section).ok()?;
        self.set_layouts(number, &reduced.layouts());
        self.shrunk += u64::from(!keeps_all);
        self.job = Some(Job { number, making: Making::GivingBack(reduced) });
        Some(())
    }

    /// Note the layouts that the superblocks of a volume durably name.
    fn set_layouts(&mut self, number: usize, layouts: &[Layout]) {
        for (member, layout) in self.volumes[number].members.iter_mut().zip(layouts) {
            member.layout = *layout;
        }
        self.check_room();
    }

    /// Return the number of chunks of the flash that the shards of a volume use.
    fn chunks(&self, number: usize) -> usize {
        let room = self.volumes[number].members.iter().flat_map(Member::room);
        let chunks = |range: Range<u64>| range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES);
        let mut chunks: Vec<u64> = room.flat_map(chunks).collect();
        chunks.sort_unstable();
        chunks.dedup();
        chunks.len()
    }

    /// Check that no two shards have the same room, and that the directory gives no room of a volume to another one.
    pub(crate) fn check_room(&self) {
        let mut flash = Flash(Rc::clone(&self.devices));
        let directory = Directory::read(&mut flash).unwrap().expect("it never goes away");
        let mut all: Vec<Range<u64>> = vec![];
        for volume in &self.volumes {
            let room: Vec<_> = volume.members.iter().flat_map(Member::room).collect();
            for (other, _) in directory.volumes() {
                if other == NAMES[volume.number] {
                    continue;
                }
                let free = directory.free_for(&mut flash, other, &[]).unwrap();
                let is_shared = |range: &&Range<u64>| free.iter().any(|it| overlap(it, range));
                assert_eq!(room.iter().find(is_shared), None, "`{other}` may have it, too");
            }
            all.extend(room);
        }
        all.sort_unstable_by_key(|range| range.start);
        assert!(all.windows(2).all(|pair| !overlap(&pair[0], &pair[1])), "{all:?}");
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Return `true` if a shard that keeps that many pages needs fewer chunks of the flash.
fn gives_room_back(shard: &Shard, pages: u32) -> bool {
    let layout = shard.layout();
    shard.fewer_slots_for(pages).unwrap().is_some_and(|slots| {
        layout.with_first(slots).room_bytes(CHUNK_BYTES) < layout.room_bytes(CHUNK_BYTES)
    })
}
