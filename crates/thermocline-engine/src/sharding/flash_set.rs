//! A flash of several shards: regions of equal size, one after the other.
//!
//! Each region is laid out as the flash of one shard, and its superblock says which of how many it is. A
//! flash of one shard is one region, which fills it.
//!
//! Setting a flash up erases the first superblock before all else, and writes it after all else: a crash
//! on the way leaves no flash, never one of which regions are missing.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use super::resizing::Resizing;
use crate::drain::{DrainProgress, Drained};
use crate::driver::Driver;
use crate::epoch::{Begin, End};
use crate::format::superblock::Superblock;
use crate::format::{BLOCK_BYTES, Layout};
use crate::memory::Frames;
use crate::offline::{Check, Contents};
use crate::recovery::{self, Flash, FlashError};
use crate::shard_map::{ShardMap, Share};
use crate::storage::{Section, Storage};

/// Regions begin at multiples of this.
pub(super) const REGION_ALIGNMENT: u64 = 1 << 20;

/// Contents of a flash that the shards of one cache share.
#[derive(Clone, Debug)]
pub struct FlashSet {
    /// One per shard, in order.
    flashes: Vec<Flash>,
}

impl FlashSet {
    /// Return the number of bytes that a flash must have for regions of that layout.
    pub fn bytes(layout: &Layout, map: &ShardMap) -> u64 {
        region_range(layout, map, map.shards() - 1).end
    }

    /// Return the end of what the regions of a flash use, with their annexes, in bytes. For a flash without other
    /// regions.
    ///
    /// # Errors
    /// If the flash cannot be read.
    pub(crate) fn end_bytes(storage: &mut dyn Storage) -> Result<u64, FlashError> {
        Ok(Resizing::read(storage, None)?.end_bytes())
    }

    /// Makes a device a flash of a new cache. Its content is lost.
    ///
    /// # Errors
    /// If a device is too small or fails.
    pub fn initialise(
        storage: &mut dyn Storage,
        cache: Uuid,
        layout: Layout,
        map: ShardMap,
        backing_bytes: u64,
    ) -> Result<Self, FlashError> {
        let (found_bytes, wanted_bytes) = (storage.size_bytes()?, Self::bytes(&layout, &map));
        if found_bytes < wanted_bytes {
            return Err(FlashError::TooSmall { found_bytes, wanted_bytes });
        }
        if map.shards() > 1 {
            storage.write_at(0, &[0; 2 * BLOCK_BYTES])?;
            storage.sync()?;
        }
        let mut flashes = vec![];
        for share in Share::all(map).collect::<Vec<_>>().into_iter().rev() {
            let superblock = Superblock {
                share,
                ..Superblock::first(share.identity(cache), layout, backing_bytes)
            };
            let range = region_range(&layout, &map, share.index.into());
            flashes.push(Flash::set_up(&mut Section::new(storage, range), &superblock)?);
        }
        flashes.reverse();
        Ok(Self { flashes })
    }

    /// Read the contents of a flash, and change nothing.
    ///
    /// # Errors
    /// If the device is not a flash of Thermocline, is damaged, combines several flashes, or fails.
    pub fn read(storage: &mut dyn Storage) -> Result<Self, FlashError> {
        let (first, _, _) = recovery::read_superblock(storage, 0)?;
        let mut flashes = vec![];
        for share in Share::all(first.share.map) {
            let mut region = region(storage, &first, share.index.into());
            let flash = Flash::read_region(&mut region, share.index)
                .map_err(|error| in_region(error, share))?;
            let found = flash.superblock();
            let is_of_set = found.share == share
                && found.owner() == first.owner()
                && found.layout.is_like(&first.layout);
            if !is_of_set {
                return Err(FlashError::Mixed { index: share.index });
            }
            flashes.push(flash);
        }
        Ok(Self { flashes })
    }

    /// Check that it was made for these shards.
    ///
    /// # Errors
    /// [`FlashError::OtherShards`] if not.
    pub fn check_map(&self, map: ShardMap) -> Result<(), FlashError> {
        self.flashes[0].check_map(map)
    }

    /// Prepare, in memory, how the next epoch begins in every region: [`Flash::adapt`].
    pub fn adapt(&mut self, begin: &Begin) {
        for flash in &mut self.flashes {
            flash.adapt(begin);
        }
    }

    /// Take over the layouts of an [`Extension`](super::Extension) that was applied.
    pub fn grow(&mut self, layouts: &[Layout]) {
        for (flash, layout) in self.flashes.iter_mut().zip(layouts) {
            flash.grow(layout);
        }
    }

    /// Begins a new epoch in every region: [`Flash::take_over`]. A crash on the way leaves regions of
    /// two epochs, which the note allows for.
    ///
    /// # Errors
    /// If a device fails.
    pub fn take_over(&mut self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        self.each(storage, Flash::take_over)
    }

    /// Return `true` if every region [is settled](Flash::is_settled).
    pub fn is_settled(&self) -> bool {
        self.flashes.iter().all(Flash::is_settled)
    }

    /// Return the superblock of the first region.
    pub fn superblock(&self) -> &Superblock {
        self.flashes[0].superblock()
    }

    /// Return the regions, one per shard, in order.
    pub fn flashes(&self) -> &[Flash] {
        &self.flashes
    }

    /// Return the range of the flash in which the addresses of a region are, in bytes. It has no end, because
    /// annexes may be anywhere.
    pub fn range(&self, shard: usize) -> Range<u64> {
        let Superblock { layout, share, .. } = self.superblock();
        region_range(layout, &share.map, shard).start..u64::MAX
    }

    /// Return the flash of one shard.
    ///
    /// # Errors
    /// [`FlashError::OtherShards`] if there are several.
    pub fn into_only(mut self) -> Result<Flash, FlashError> {
        self.check_map(Share::WHOLE.map)?;
        Ok(self.flashes.swap_remove(0))
    }

    /// Return the contents of each region, in order.
    pub fn each_contents(&self) -> Vec<Contents> {
        self.flashes.iter().map(Flash::contents).collect()
    }

    /// Return the contents of all regions together, with the superblock of the first one.
    pub fn contents(&self) -> Contents {
        let each = self.each_contents();
        let sum = |of: fn(&Contents) -> u64| each.iter().map(of).sum();
        Contents {
            superblock: *self.superblock(),
            held_pages: sum(|region| region.held_pages),
            dirty_pages: sum(|region| region.dirty_pages),
            dirty_end_bytes: each.iter().map(|region| region.dirty_end_bytes).max().unwrap_or(0),
            damaged_blocks: sum(|region| region.damaged_blocks),
        }
    }

    /// Return the number of bytes written to all regions before the last start.
    pub fn written_bytes(&self) -> u64 {
        self.flashes.iter().map(|flash| flash.superblock().written_bytes).sum()
    }

    /// Return the pages that the disk may not have, in order.
    pub fn dirty_pages(&self) -> Vec<u64> {
        let mut pages: Vec<u64> = self.flashes.iter().flat_map(Flash::dirty_pages).collect();
        pages.sort_unstable();
        pages
    }

    /// Reads every page on flash and compares its checksum: [`Flash::check`].
    pub fn check(&self, storage: &mut dyn Storage) -> Check {
        let mut all = Check::default();
        for (shard, flash) in self.flashes.iter().enumerate() {
            let found = flash.check(&mut region(storage, self.superblock(), shard));
            all.intact_pages += found.intact_pages;
            all.damaged_clean_pages.extend(found.damaged_clean_pages);
            all.lost_pages.extend(found.lost_pages);
        }
        all.damaged_clean_pages.sort_unstable();
        all.lost_pages.sort_unstable();
        all
    }

    /// Writes every page that the backing store may not have to it, region by region: [`Flash::drain`].
    /// `open` makes a driver of a region and the backing store.
    ///
    /// # Errors
    /// As for [`Flash::drain`].
    ///
    /// # Panics
    /// If a driver completes what it was not asked for.
    pub fn drain<D: Driver, E: From<FlashError> + Send>(
        &mut self,
        storage: &mut dyn Storage,
        backing_bytes: u64,
        workers: NonZeroUsize,
        open: impl Fn(Range<u64>, &Arc<Frames>) -> Result<D, E> + Sync,
        mut watch: impl FnMut(DrainProgress) + Send,
    ) -> Result<Drained, E> {
        let dirty_pages = self.contents().dirty_pages;
        let mut all = Drained::default();
        let mut before = 0;
        for shard in 0..self.flashes.len() {
            let range = self.range(shard);
            let mut region = Section::new(storage, range.clone());
            let flash = &mut self.flashes[shard];
            let here = flash.contents().dirty_pages;
            let open = |frames: &Arc<Frames>| open(range.clone(), frames);
            let watch = |progress: DrainProgress| {
                let done_pages = before + progress.done_pages;
                watch(DrainProgress { done_pages, dirty_pages });
            };
            let drained = flash.drain(&mut region, backing_bytes, workers, open, watch)?;
            all.written_pages += drained.written_pages;
            all.lost_pages.extend(drained.lost_pages);
            before += here;
        }
        all.lost_pages.sort_unstable();
        Ok(all)
    }

    /// Drops everything that the flash holds, because the backing store has it too.
    ///
    /// # Errors
    /// If a device fails.
    pub fn clear(&mut self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        self.each(storage, Flash::clear)
    }

    /// Gives up everything that the flash holds; what only flash had is lost.
    ///
    /// # Errors
    /// If a device fails.
    pub fn forget(&mut self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        self.each(storage, Flash::forget)
    }

    /// Says in every region that the epoch of that cache ended in order: [`Flash::end`].
    ///
    /// # Errors
    /// If a device fails, or the flash belongs to another cache or epoch.
    pub fn end(
        storage: &mut dyn Storage,
        (cache, epoch): (Uuid, u64),
        end: End,
    ) -> Result<(), FlashError> {
        Self::amend(storage, (cache, epoch), |superblock| superblock.end = Some(end))
    }

    /// Says in every region, while the engines of that epoch use them, that the backing store has grown. To
    /// be called before [`Shard::grow_backing`]: recovery takes a page beyond the end that a superblock names
    /// for damage.
    ///
    /// [`Shard::grow_backing`]: crate::Shard::grow_backing
    ///
    /// # Errors
    /// If a device fails, or the flash belongs to another cache or epoch. The engines may go on with the
    /// former size then, and this may be tried again.
    pub fn grow_backing(
        storage: &mut dyn Storage,
        (cache, epoch): (Uuid, u64),
        backing_bytes: u64,
    ) -> Result<(), FlashError> {
        let grow = |superblock: &mut Superblock| superblock.backing_bytes = backing_bytes;
        Self::amend(storage, (cache, epoch), grow)
    }

    /// Change what the superblock of every region says in this epoch.
    fn amend(
        storage: &mut dyn Storage,
        (cache, epoch): (Uuid, u64),
        amend: impl Fn(&mut Superblock),
    ) -> Result<(), FlashError> {
        let (first, _, _) = recovery::read_superblock(storage, 0)?;
        for share in Share::all(first.share.map) {
            let mut region = region(storage, &first, share.index.into());
            let owner = (share.identity(cache), epoch);
            Flash::amend_region(&mut region, share.index, owner, &amend)
                .map_err(|error| in_region(error, share))?;
        }
        Ok(())
    }

    fn each(
        &mut self,
        storage: &mut dyn Storage,
        work: impl Fn(&mut Flash, &mut dyn Storage) -> Result<(), FlashError>,
    ) -> Result<(), FlashError> {
        for shard in 0..self.flashes.len() {
            let range = self.range(shard);
            let flash = &mut self.flashes[shard];
            let share = flash.superblock().share;
            work(flash, &mut Section::new(storage, range))
                .map_err(|error| in_region(error, share))?;
        }
        Ok(())
    }
}

/// Return the range of a region. A single one has the whole device.
pub(crate) fn region_range(layout: &Layout, map: &ShardMap, shard: usize) -> Range<u64> {
    if map.shards() == 1 {
        return 0..layout.flash_bytes();
    }
    let bytes = layout.flash_bytes().next_multiple_of(REGION_ALIGNMENT);
    let start = shard as u64 * bytes;
    start..start + bytes
}

/// Return the region of a shard on the flash with that first superblock, and all after it, where annexes are.
pub(super) fn region<'a>(
    storage: &'a mut dyn Storage,
    first: &Superblock,
    shard: usize,
) -> Section<'a> {
    let start = region_range(&first.layout, &first.share.map, shard).start;
    Section::new(storage, start..u64::MAX)
}

/// Says which region an error is about, if there are several.
pub(super) fn in_region(error: FlashError, share: Share) -> FlashError {
    if share.is_whole() {
        return error;
    }
    FlashError::Region { index: share.index, error: Box::new(error) }
}
