//! More slots for a flash that holds pages.
//!
//! Each region gets an [annex](crate::Annex) for the slots that it lacks:
//!
//! 1. [`Extension::plan`] reads which region lacks how many, and [`Extension::place`] says where the annexes
//!    are to be. Nothing is changed.
//! 2. [`Extension::apply`] erases the blocks of the table in the annexes, which may hold those of a former
//!    annex or cache, and syncs the flash.
//! 3. Then it writes both superblocks of each region, which name the annex. A power cut leaves a region as it
//!    was before or after that, and nothing is in the annexes yet.
//! 4. Each shard uses its new slots: [`Shard::grow_flash`](crate::Shard::grow_flash). Before the flash durably
//!    has the slots, recovery would not find what is in them.

use std::ops::Range;

use uuid::Uuid;

use super::flash_set::{in_region, region, region_range};
use crate::format::Layout;
use crate::format::superblock::Superblock;
use crate::recovery::{self, Flash, FlashError};
use crate::shard_map::Share;
use crate::storage::Storage;

/// Annexes begin at multiples of this.
const ANNEX_ALIGNMENT: u64 = 1 << 20;
/// Zeroes that are written at a time.
const ZEROES_BYTES: u64 = 1 << 20;

/// New slots for the regions of a flash, and the places for them.
#[derive(Clone, Debug)]
pub struct Extension {
    first: Superblock,
    regions: Vec<Grown>,
}

/// A region that grows, or stays as it is.
#[derive(Clone, Debug)]
struct Grown {
    share: Share,
    /// Identity and epoch of the region.
    owner: (Uuid, u64),
    former: Layout,
    layout: Layout,
}

impl Extension {
    /// Plan at least that many slots for each region of a flash that is at rest, or that engines use: those of
    /// the cache and the epoch `running`.
    ///
    /// # Errors
    /// If the flash cannot be read, belongs to another cache or epoch, or cannot grow any more.
    pub fn plan(
        storage: &mut dyn Storage,
        slots: u32,
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
            let owner = (superblock.cache, superblock.epoch);
            let former = superblock.layout;
            let lacks = former.slots < slots;
            // Format 1 has no annexes; its first start makes format 2 of it.
            if lacks && (former.annexes.are_full() || superblock.has_single_journal) {
                return Err(FlashError::CannotGrow);
            }
            let layout = if lacks { former.with_annex(0, slots) } else { former };
            regions.push(Grown { share, owner, former, layout });
        }
        Ok(Self { first, regions })
    }

    /// Return the number of bytes that all annexes need, in one piece; 0 if no region lacks slots.
    pub fn bytes(&self) -> u64 {
        self.regions.iter().map(Grown::bytes).sum()
    }

    /// Return the ranges of the flash that are in use, in bytes from the beginning of the first region, modulo
    /// 2^64.
    pub fn used(&self) -> Vec<Range<u64>> {
        let mut used = vec![];
        for Grown { share, former, .. } in &self.regions {
            let range = self.range_of(*share);
            let start = range.start;
            used.push(range);
            let of_flash = |offset: u64| start.wrapping_add(offset);
            let annexes = former.annex_ranges();
            used.extend(annexes.map(|range| of_flash(range.start)..of_flash(range.end)));
        }
        used
    }

    /// Return the number of bytes that a flash without other regions needs, if the annexes follow what is in use.
    pub fn flash_bytes(&self) -> u64 {
        self.next_place() + self.bytes()
    }

    /// Put the annexes behind all that is in use. For a flash without other regions.
    ///
    /// # Errors
    /// If the flash is too small.
    pub fn place_behind(&mut self, size_bytes: u64) -> Result<(), FlashError> {
        let wanted_bytes = self.flash_bytes();
        if self.bytes() > 0 && size_bytes < wanted_bytes {
            return Err(FlashError::TooSmall { found_bytes: size_bytes, wanted_bytes });
        }
        self.place(self.next_place());
        Ok(())
    }

    /// Put the annexes at that place, in bytes from the beginning of the first region, modulo 2^64. Nothing else
    /// uses the range.
    pub fn place(&mut self, start_bytes: u64) {
        let mut start_bytes = start_bytes;
        for number in 0..self.regions.len() {
            let region_bytes = self.range_of(self.regions[number].share).start;
            let Grown { former, layout, .. } = &mut self.regions[number];
            if layout.slots > former.slots {
                let offset_bytes = start_bytes.wrapping_sub(region_bytes);
                *layout = former.with_annex(offset_bytes, layout.slots);
            }
            start_bytes = start_bytes.wrapping_add(self.regions[number].bytes());
        }
    }

    /// Make the slots durable.
    ///
    /// # Errors
    /// If a device fails. The engines may go on with their former slots then, and this may be planned and tried
    /// again.
    pub fn apply(&self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        for Grown { share, layout, .. } in self.regions.iter().filter(|region| region.bytes() > 0) {
            let mut region = region(storage, &self.first, share.index.into());
            erase_table(&mut region, layout).map_err(|error| in_region(error, *share))?;
        }
        // A superblock must not name blocks of the table that a former cache may have written.
        storage.sync()?;
        // Of all regions: where an attempt failed, a copy that names the annex may not be durable, or the other
        // copy may not name it.
        for Grown { share, owner, layout, .. } in &self.regions {
            let mut region = region(storage, &self.first, share.index.into());
            let amend = |superblock: &mut Superblock| superblock.layout = *layout;
            Flash::amend_region(&mut region, share.index, *owner, amend)
                .map_err(|error| in_region(error, *share))?;
        }
        Ok(())
    }

    /// Return the range of the new annex of each region, in bytes from the beginning of the region, modulo 2^64;
    /// `None` if the region has slots enough.
    pub fn new_annexes(&self) -> impl Iterator<Item = Option<Range<u64>>> + '_ {
        let of =
            |Grown { former, layout, .. }: &Grown| layout.annex_ranges().nth(former.annexes.len());
        self.regions.iter().map(of)
    }

    /// Return the layout of each region after that, in order.
    pub fn layouts(&self) -> Vec<Layout> {
        self.regions.iter().map(|region| region.layout).collect()
    }

    /// Return the range of a region without its annexes.
    fn range_of(&self, share: Share) -> Range<u64> {
        region_range(&self.first.layout, &share.map, share.index.into())
    }

    /// Return the first place behind all that is in use.
    fn next_place(&self) -> u64 {
        let ends = self.used().into_iter().map(|range| range.end);
        // What lies before the first region has greater numbers.
        ends.filter(|end| *end < 1 << 63).max().unwrap_or(0).next_multiple_of(ANNEX_ALIGNMENT)
    }
}

impl Grown {
    /// Return the number of bytes of its new annex, or 0.
    fn bytes(&self) -> u64 {
        let new = self.layout.annexes.get(self.former.annexes.len());
        let bytes = new.map_or(0, |annex| annex.bytes(self.layout.page_bytes));
        bytes.next_multiple_of(ANNEX_ALIGNMENT)
    }
}

/// Erase the blocks of the table in the last annex.
fn erase_table(region: &mut dyn Storage, layout: &Layout) -> Result<(), FlashError> {
    let Some(annex) = layout.annexes.last() else { return Ok(()) };
    let end = annex.table_bytes();
    let zeroes = vec![0; usize::try_from(end.min(ZEROES_BYTES)).unwrap_or(0)];
    let mut at = 0;
    while at < end {
        let length = usize::try_from(end - at).map_or(zeroes.len(), |it| it.min(zeroes.len()));
        region.write_at(annex.offset_bytes.wrapping_add(at), &zeroes[..length])?;
        at += length as u64;
    }
    Ok(())
}
