//! More slots for a flash that holds pages.
//!
//! Each region gets the slots that it lacks from free room: first where its last piece was longer, then in
//! [annexes](crate::Annex):
//!
//! 1. [`Extension::plan`] reads which region lacks how many, and [`Extension::place`] chooses among free ranges of
//!    the flash. Nothing is changed.
//! 2. [`Extension::apply`] erases the blocks of the table for the new slots, which may be those of a former annex or
//!    cache, or of slots that were there before, and syncs the flash.
//! 3. Then it writes both superblocks of each region, which name the slots. A power cut leaves a region as it was
//!    before or after that, and nothing is in the new slots yet.
//! 4. Each shard uses its new slots: [`Shard::grow_flash`](crate::Shard::grow_flash). Before the flash durably
//!    has the slots, recovery would not find what is in them.

use std::ops::{Range, RangeInclusive};

use uuid::Uuid;

use super::flash_set::REGION_ALIGNMENT;
use super::resizing::{Resized, Resizing};
use crate::format::{Annex, BLOCK_BYTES, Layout};
use crate::recovery::FlashError;
use crate::storage::Storage;

/// Annexes begin at multiples of this, and no two pieces share a unit of it.
const ALIGNMENT: u64 = REGION_ALIGNMENT;
/// Zeroes that are written at a time.
const ZEROES_BYTES: u64 = 1 << 20;

/// New slots for the regions of a flash, and the places for them.
#[derive(Clone, Debug)]
pub struct Extension {
    resizing: Resizing,
    /// Slots that each region is to have, or more; and how many are enough if there is no room for those.
    slots: u32,
    fewest_slots: u32,
}

impl Extension {
    /// Plan slots for each region of a flash that is at rest, or that engines use: those of the cache and the epoch
    /// `running`. Each region has the last of these numbers of slots then, or more, or if there is no room for so
    /// many, as many as fit from the first number on.
    ///
    /// # Errors
    /// If the flash cannot be read, belongs to another cache or epoch, or cannot grow any more.
    pub fn plan(
        storage: &mut dyn Storage,
        slots: RangeInclusive<u32>,
        running: Option<(Uuid, u64)>,
    ) -> Result<Self, FlashError> {
        let (fewest_slots, slots) = slots.into_inner();
        let resizing = Resizing::read(storage, running)?;
        for Resized { former, has_single_journal, .. } in &resizing.regions {
            let is_full = former.annexes.are_full() && former.slots_to_return() == 0;
            // Format 1 has no annexes; its first start makes format 2 of it.
            if former.slots < fewest_slots && (is_full || *has_single_journal) {
                return Err(FlashError::CannotGrow);
            }
        }
        Ok(Self { resizing, slots, fewest_slots })
    }

    /// Return the number of bytes that are enough for the new slots in one piece; 0 if no region lacks slots.
    pub fn bytes(&self) -> u64 {
        let of = |region: &Resized| {
            let lacking = self.slots.saturating_sub(region.former.slots);
            let annex = Annex::new(0, region.former.slots, lacking);
            if lacking == 0 { 0 } else { annex.bytes_of(lacking, region.former.page_bytes) }
        };
        self.resizing.regions.iter().map(|region| of(region).next_multiple_of(ALIGNMENT)).sum()
    }

    /// Return the ranges of the flash that are in use, in bytes from the beginning of the first region, modulo
    /// 2^64.
    pub fn used(&self) -> Vec<Range<u64>> {
        self.resizing.used()
    }

    /// Return the number of bytes that a flash without other regions needs, if the new slots follow what is in use.
    pub fn flash_bytes(&self) -> u64 {
        self.next_place() + self.bytes()
    }

    /// Put the new slots behind all that is in use. For a flash without other regions.
    ///
    /// # Errors
    /// If the flash is too small.
    pub fn place_behind(&mut self, size_bytes: u64) -> Result<(), FlashError> {
        let wanted_bytes = self.flash_bytes();
        if self.bytes() > 0 && size_bytes < wanted_bytes {
            return Err(FlashError::TooSmall { found_bytes: size_bytes, wanted_bytes });
        }
        let start = self.next_place();
        let behind = start..start + self.bytes();
        self.place(std::slice::from_ref(&behind)).map(drop)
    }

    /// Put the new slots into free ranges of the flash, in bytes from the beginning of the first region, modulo 2^64.
    /// Those that come first are used first if they are as good as others. Returns the ranges that the slots take.
    ///
    /// # Errors
    /// [`FlashError::NoRoom`] if all ranges together are too small for the fewest slots, and [`FlashError::CannotGrow`] if a region would
    /// be in too many pieces.
    pub fn place(&mut self, free: &[Range<u64>]) -> Result<Vec<Range<u64>>, FlashError> {
        let (slots, wanted_bytes) = (self.slots, self.bytes());
        let free: Vec<Piece> = free.iter().map(Piece::of).collect();
        let free_bytes = free.iter().map(|piece| piece.bytes).sum();
        let mut room = Room { free, taken: vec![] };
        for region in &mut self.resizing.regions {
            region.layout = room.return_to(&region.former, region.start_bytes, slots);
            while region.layout.slots < slots && !region.has_single_journal {
                if region.layout.annexes.are_full() {
                    break;
                }
                match room.annex(&region.layout, region.start_bytes, slots) {
                    Some(longer) => region.layout = longer,
                    None => break,
                }
            }
            if region.layout.slots < self.fewest_slots {
                let is_full = region.layout.annexes.are_full();
                return Err(if is_full {
                    FlashError::CannotGrow
                } else {
                    FlashError::NoRoom { wanted_bytes, free_bytes }
                });
            }
        }
        Ok(room.taken)
    }

    /// Make the slots durable.
    ///
    /// # Errors
    /// If a device fails. The engines may go on with their former slots then, and this may be planned and tried
    /// again.
    pub fn apply(&self, storage: &mut dyn Storage) -> Result<(), FlashError> {
        for number in 0..self.resizing.regions.len() {
            let mut region = self.resizing.section(storage, number);
            erase_table(&mut region, &self.resizing.regions[number])?;
        }
        // A superblock must not name blocks of the table that a former cache may have written, or that name
        // slots which were there before.
        storage.sync()?;
        self.resizing.write_superblocks(storage)
    }

    /// Return the layout of each region after that, in order.
    pub fn layouts(&self) -> Vec<Layout> {
        self.resizing.layouts()
    }

    /// Return the first place behind all that is in use.
    fn next_place(&self) -> u64 {
        self.resizing.end_bytes().next_multiple_of(ALIGNMENT)
    }
}

/// Free ranges of the flash, and those that were taken of them.
struct Room {
    free: Vec<Piece>,
    taken: Vec<Range<u64>>,
}

/// A range of the flash. A range before the first region may end at 2^64, which is 0.
#[derive(Clone, Copy)]
struct Piece {
    start: u64,
    bytes: u64,
}

impl Piece {
    fn of(range: &Range<u64>) -> Self {
        Self { start: range.start, bytes: range.end.wrapping_sub(range.start) }
    }

    /// Return the number of bytes before a place, if it is in the range.
    fn bytes_before(self, place: u64) -> Option<u64> {
        let before = place.wrapping_sub(self.start);
        (before < self.bytes).then_some(before)
    }
}

impl Room {
    /// Let the last piece of a region have slots again that it was made for, as far as their room is free and they
    /// are wanted.
    fn return_to(&mut self, layout: &Layout, start_bytes: u64, slots: u32) -> Layout {
        let page_bytes = u64::from(layout.page_bytes);
        let wanted = slots.saturating_sub(layout.slots).min(layout.slots_to_return());
        let end = start_bytes.wrapping_add(layout.last_end_bytes());
        // The unit in which the last slot ends is the region's own.
        let own_bytes = end.wrapping_neg() % ALIGNMENT;
        let next = end.wrapping_add(own_bytes);
        let free = self.free.iter().find_map(|piece| Some(piece.bytes - piece.bytes_before(next)?));
        let free_bytes = free.unwrap_or(0);
        let fitting = (own_bytes + free_bytes) / page_bytes;
        let returned = u32::try_from(fitting).unwrap_or(u32::MAX).min(wanted);
        let bytes = u64::from(returned) * page_bytes;
        self.take(next, bytes.saturating_sub(own_bytes));
        layout.with_room_back(layout.slots + returned)
    }

    /// Give a region one more annex: in the smallest range that has room for all slots that it lacks, or else in
    /// the largest one; `None` if none has room for a slot.
    fn annex(&mut self, layout: &Layout, start_bytes: u64, slots: u32) -> Option<Layout> {
        let (first, lacking) = (layout.slots, slots - layout.slots);
        let all = Annex::new(0, first, lacking).bytes_of(lacking, layout.page_bytes);
        let fitting = self.free.iter().filter(|piece| piece.bytes >= all);
        // Of those that are equal, the first one counts.
        let fitting = fitting.min_by_key(|piece| piece.bytes);
        let largest = || self.free.iter().rev().max_by_key(|piece| piece.bytes);
        let Piece { start, bytes } = *fitting.or_else(largest)?;
        let given = most_slots(first, bytes, layout.page_bytes).min(lacking);
        if given == 0 {
            return None;
        }
        let annex = Annex::new(start.wrapping_sub(start_bytes), first, given);
        self.take(start, annex.bytes_of(given, layout.page_bytes));
        Some(layout.with_annex(annex.offset_bytes, first + given))
    }

    /// Take that number of bytes from there on, rounded up to whole units.
    fn take(&mut self, start: u64, bytes: u64) {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        if bytes == 0 {
            return;
        }
        let from =
            self.free.iter_mut().find_map(|it| it.bytes_before(start).map(|before| (it, before)));
        let (piece, before) = from.expect("what is taken is free");
        let left = Piece { start: piece.start, bytes: before };
        let taken = bytes.min(piece.bytes - before);
        let end = start.wrapping_add(taken);
        *piece = Piece { start: end, bytes: piece.bytes - before - taken };
        self.free.push(left);
        self.free.retain(|piece| piece.bytes > 0);
        self.taken.push(start..end);
    }
}

/// Return the number of slots for which an annex of that many bytes has room.
fn most_slots(first_slot: u32, bytes: u64, page_bytes: u32) -> u32 {
    let most = u32::try_from(bytes / u64::from(page_bytes)).unwrap_or(u32::MAX).min(1 << 30);
    let fits = |&slots: &u32| Annex::new(0, first_slot, slots).bytes_of(slots, page_bytes) <= bytes;
    let (mut fitting, mut exceeding) = (0, most + 1);
    while exceeding - fitting > 1 {
        let middle = fitting + (exceeding - fitting) / 2;
        if fits(&middle) {
            fitting = middle;
        } else {
            exceeding = middle;
        }
    }
    fitting
}

/// Erase the blocks of the table that a region gets.
fn erase_table(
    region: &mut dyn Storage,
    Resized { former, layout, .. }: &Resized,
) -> Result<(), FlashError> {
    for (blocks, offset_bytes) in layout.table_parts() {
        let first = blocks.start.max(former.table_blocks);
        let blocks_bytes = |blocks: u32| 2 * u64::from(blocks) * BLOCK_BYTES as u64;
        let end = blocks_bytes(blocks.end.saturating_sub(blocks.start));
        let mut at = blocks_bytes(first.saturating_sub(blocks.start));
        let zeroes =
            vec![0; usize::try_from(end.saturating_sub(at).min(ZEROES_BYTES)).unwrap_or(0)];
        while at < end {
            let length = usize::try_from(end - at).map_or(zeroes.len(), |it| it.min(zeroes.len()));
            region.write_at(offset_bytes.wrapping_add(at), &zeroes[..length])?;
            at += length as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;
    use crate::shard_map::ShardMap;
    use crate::sharding::FlashSet;
    use crate::storage::memory::Memory;

    const MIB: u64 = 1 << 20;
    const CACHE: Uuid = Uuid::from_u128(5);

    /// Return a flash of 64 MiB with regions of that many slots.
    fn flash(shards: u16, slots: u32) -> Memory {
        let map = ShardMap::new(NonZeroU16::new(shards).unwrap(), 4096);
        let mut memory = Memory(vec![0; 64 << 20]);
        let layout = Layout::new(slots, 4096);
        FlashSet::initialise(&mut memory, CACHE, layout, map, 4096 * 4096).unwrap();
        memory
    }

    /// Give the regions other numbers of slots, in these ranges of MiB. Returns the layouts, and the ranges of MiB that
    /// are taken.
    fn extend(
        memory: &mut Memory,
        slots: RangeInclusive<u32>,
        free: &[Range<u64>],
    ) -> Result<(Vec<Layout>, Vec<Range<u64>>), FlashError> {
        let mut extension = Extension::plan(memory, slots, None)?;
        let free: Vec<_> = free.iter().map(|it| it.start * MIB..it.end * MIB).collect();
        let taken = extension.place(&free)?;
        for range in &taken {
            let inside = |free: &Range<u64>| free.start <= range.start && range.end <= free.end;
            assert!(free.iter().any(inside), "{range:?}");
        }
        extension.apply(memory)?;
        let read = FlashSet::read(memory)?;
        let layouts: Vec<_> = read.flashes().iter().map(|it| it.superblock().layout).collect();
        assert_eq!(layouts, extension.layouts());
        Ok((layouts, taken.iter().map(|it| it.start / MIB..it.end / MIB).collect()))
    }

    fn reduce(memory: &mut Memory, slots: u32, shards: usize) {
        let left = vec![Some(slots); shards];
        crate::Reduction::plan(memory, &left, None).unwrap().apply(memory).unwrap();
    }

    #[test]
    fn several_free_ranges_are_taken_where_no_single_one_is_large_enough() {
        let mut memory = flash(1, 512);
        let free = [10..11, 20..22, 30..31, 40..41];
        let (layouts, taken) = extend(&mut memory, 512..=1500, &free).unwrap();
        // The largest one first, then the first of those that are equal, and the last where what is left fits.
        assert_eq!(taken, [20..22, 10..11, 30..31]);
        assert_eq!(layouts[0].slots, 1500);
        assert_eq!(layouts[0].annexes.len(), 3);
        // Too little, even in all of them: as much as there is, if that is enough.
        let error = extend(&mut memory, 1800..=2500, std::slice::from_ref(&(40..41))).unwrap_err();
        assert!(matches!(error, FlashError::NoRoom { free_bytes: MIB, .. }), "{error}");
        let (layouts, taken) =
            extend(&mut memory, 1600..=2500, std::slice::from_ref(&(40..41))).unwrap();
        assert_eq!(taken.as_slice(), std::slice::from_ref(&(40..41)));
        assert!((1600..1800).contains(&layouts[0].slots), "{layouts:?}");
    }

    #[test]
    fn a_region_returns_to_the_room_that_it_gave_back_as_far_as_that_is_free() {
        for shards in [1, 3] {
            let mut memory = flash(shards, 2000);
            let count = usize::from(shards);
            let whole = FlashSet::read(&mut memory).unwrap().superblock().layout;
            for _ in 0..100 {
                reduce(&mut memory, 700, count);
                let everything = 1..64;
                let (layouts, _) =
                    extend(&mut memory, 2000..=2000, std::slice::from_ref(&everything)).unwrap();
                assert_eq!(layouts, vec![whole; count], "no annex is left over");
            }
            // Somebody has the second half of it, so that an annex has the rest.
            reduce(&mut memory, 300, count);
            let step = whole.flash_bytes().div_ceil(MIB);
            let mut free: Vec<_> =
                (0..u64::from(shards)).map(|shard| shard * step + 2..shard * step + 4).collect();
            free.push(40..60);
            let (layouts, _) = extend(&mut memory, 1800..=1800, &free).unwrap();
            for layout in layouts {
                assert_eq!((layout.slots, layout.annexes.len()), (1800, 1));
                assert!((700..1024).contains(&layout.annexes[0].first_slot), "{layout:?}");
            }
        }
    }

    #[test]
    fn a_region_in_too_many_pieces_is_refused() {
        let mut memory = flash(1, 100);
        for number in 0..32 {
            let slots = 110 + 10 * number;
            let place = 4 + u64::from(number);
            extend(&mut memory, slots..=slots, std::slice::from_ref(&(place..place + 1))).unwrap();
        }
        let error = extend(&mut memory, 430..=430, std::slice::from_ref(&(50..51))).unwrap_err();
        assert!(matches!(error, FlashError::CannotGrow), "{error}");
        // Annexes that are given back can be had again.
        reduce(&mut memory, 405, 1);
        extend(&mut memory, 430..=430, std::slice::from_ref(&(50..51))).unwrap();
    }
}
