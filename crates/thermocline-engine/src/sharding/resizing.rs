//! The regions of a flash, and the layouts that they are to have.

use std::ops::Range;

use uuid::Uuid;

use super::flash_set::{in_region, region, region_range};
use crate::format::Layout;
use crate::format::superblock::Superblock;
use crate::recovery::{self, Flash, FlashError};
use crate::shard_map::Share;
use crate::storage::{Section, Storage};

/// Layouts for all regions of a flash.
#[derive(Clone, Debug)]
pub(super) struct Resizing {
    first: Superblock,
    pub(super) regions: Vec<Resized>,
}

/// A region that gets another size, or stays as it is.
#[derive(Clone, Debug)]
pub(super) struct Resized {
    share: Share,
    /// Identity and epoch of the region.
    owner: (Uuid, u64),
    /// Where it begins, in bytes from the beginning of the first region.
    pub(super) start_bytes: u64,
    pub(super) former: Layout,
    pub(super) layout: Layout,
    /// `true` if it is of format 1.
    pub(super) has_single_journal: bool,
}

impl Resizing {
    /// Read the layouts of a flash that is at rest, or that engines use: those of the cache and the epoch
    /// `running`.
    ///
    /// # Errors
    /// If the flash cannot be read, or belongs to another cache or epoch.
    pub(super) fn read(
        storage: &mut dyn Storage,
        running: Option<(Uuid, u64)>,
    ) -> Result<Self, FlashError> {
        let (first, _, _) = recovery::read_superblock(storage, 0)?;
        let mut regions = vec![];
        for share in Share::all(first.share.map) {
            let mut region = region(storage, &first, share.index.into());
            let read = recovery::read_superblock(&mut region, share.index);
            let (superblock, _, _) = read.map_err(|error| in_region(error, share))?;
            let found = (superblock.owner(), superblock.epoch);
            if running.is_some_and(|running| running != found) {
                return Err(FlashError::Foreign);
            }
            regions.push(Resized {
                share,
                owner: (superblock.cache, superblock.epoch),
                start_bytes: region_range(&first.layout, &share.map, share.index.into()).start,
                former: superblock.layout,
                layout: superblock.layout,
                has_single_journal: superblock.has_single_journal,
            });
        }
        Ok(Self { first, regions })
    }

    /// Return the part of the flash in which the addresses of a region are.
    pub(super) fn section<'a>(&self, storage: &'a mut dyn Storage, number: usize) -> Section<'a> {
        region(storage, &self.first, number)
    }

    /// Write both superblocks of each region, durably. Also of those that stay as they are: an attempt that failed
    /// may have left a copy that is not durable, or two that differ.
    ///
    /// # Errors
    /// If a device fails.
    pub(super) fn write_superblocks(&self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        for (number, Resized { share, owner, layout, .. }) in self.regions.iter().enumerate() {
            let mut region = self.section(storage, number);
            let amend = |superblock: &mut Superblock| superblock.layout = *layout;
            Flash::amend_region(&mut region, share.index, *owner, amend)
                .map_err(|error| in_region(error, *share))?;
        }
        Ok(())
    }

    /// Return the ranges that the regions use, in bytes from the beginning of the first one, modulo 2^64.
    pub(super) fn used(&self) -> Vec<Range<u64>> {
        let of = |region: &Resized| used(&region.former, region.start_bytes);
        self.regions.iter().flat_map(of).collect()
    }

    /// Return the end of what the regions use, in bytes from the beginning of the first one. Annexes before that
    /// do not count.
    pub(super) fn end_bytes(&self) -> u64 {
        // Annexes before the first region have greater numbers. Regions of several shards keep their distance.
        let ends = self.used().into_iter().map(|range| range.end).filter(|end| *end < 1 << 63);
        let last = self.regions.last();
        let last = last.map_or(0, |region| region.start_bytes + region.former.flash_bytes());
        ends.max().unwrap_or(0).max(last)
    }

    /// Return the same of what they use with their new layouts.
    pub(super) fn used_later(&self) -> Vec<Range<u64>> {
        let of = |region: &Resized| used(&region.layout, region.start_bytes);
        self.regions.iter().flat_map(of).collect()
    }

    /// Return the new layouts.
    pub(super) fn layouts(&self) -> Vec<Layout> {
        self.regions.iter().map(|region| region.layout).collect()
    }
}

/// Return the ranges that a region uses which begins there, modulo 2^64.
fn used(layout: &Layout, start_bytes: u64) -> Vec<Range<u64>> {
    let of_flash = |offset: u64| start_bytes.wrapping_add(offset);
    let pieces = std::iter::once(0..layout.first_bytes()).chain(layout.annex_ranges());
    pieces.map(|range| of_flash(range.start)..of_flash(range.end)).collect()
}
