//! Format of the flash: superblocks, a ring of journal blocks, a table of slots, the slots.
//!
//! ```text
//! | superblock | superblock | journal ring | table, two places per block | slots, page-aligned |
//!   4 KiB        4 KiB
//! ```
//!
//! Everything but the slots is stored twice, so that one damaged or unreadable block costs nothing:
//!
//! * A **superblock** says whose flash this is, and how the rest is laid out. A start writes one copy,
//!   syncs, and writes the other, so that a torn write leaves one.
//! * A **journal block** holds records: a slot was written, cleaned, or given up. Blocks are numbered
//!   and written around the ring, each to a place in the first half of the ring's region and to one in
//!   the second half. Each carries the epoch of the start that wrote it, so that blocks of an earlier
//!   start, which lie where the next ones will, are not mistaken for them.
//! * A **table block** says what some slots hold, as far as records were durable when it was written.
//!   A checkpoint writes one copy, syncs, and writes the other.
//!
//! Format 1 had one copy of each journal block, and two of the others that were written in turn. A
//! flash of that format is read, and is one of format 2 after its first start.
//!
//! Page numbers have 48 bits. The lower 32 have a field of their own in records and rows; the upper 16
//! are the upper half of the field that says what happened, or whether the page is dirty. They are zero
//! for a backing store of up to 2^32 pages, whose flash is therefore the same as one of a program that
//! knows 32 bits only. The superblock of a larger one has a format of its own, so that such a program
//! refuses the flash.
//!
//! A region that has grown has annexes: each has blocks of the table, and after them the slots that these are
//! about. Slots and blocks are numbered through all of them. The superblock of such a region has a format of
//! its own, which lists them.
//!
//! A region that gave room back has fewer slots than one of its pieces was made for: the blocks of the table
//! stay in their places before the slots, and what would follow the last slot of the piece belongs to others.
//! The superblock has a format of its own again.
//!
//! All numbers are little-endian. Every block ends in a CRC32C of what precedes it.

pub(crate) mod annex;
pub(crate) mod journal;
pub(crate) mod superblock;
pub(crate) mod table;

use std::ops::Range;

pub use self::annex::{Annex, Annexes};
use crate::format::table::SLOTS_PER_BLOCK;

/// Bytes of a superblock, journal block or table block.
pub const BLOCK_BYTES: usize = 4096;

/// Greatest number of pages of a backing store: journal and table store page numbers of 48 bits.
pub(crate) const PAGES_MAX: u64 = 1 << 48;

/// Blocks with greater numbers are nonsense, whatever their checksum says; what counts on from smaller
/// ones does not run over.
pub(crate) const EPOCH_LIMIT: u64 = 1 << 40;
pub(crate) const VERSION_LIMIT: u64 = 1 << 55;
pub(crate) const SEQUENCE_LIMIT: u64 = 1 << 56;
pub(crate) const GENERATION_LIMIT: u64 = 1 << 56;
pub(crate) const WRITTEN_BYTES_LIMIT: u64 = 1 << 62;

/// The journal's region has at least and at most this many blocks.
const JOURNAL_BLOCKS_MIN: u32 = 8;
const JOURNAL_BLOCKS_MAX: u32 = 4096;

/// Positions of the parts of the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Blocks of the journal's region. The ring has half of them: each block is there twice.
    pub journal_blocks: u32,
    /// Blocks of the table, each of which has two places.
    pub table_blocks: u32,
    /// Slots.
    pub slots: u32,
    /// Bytes of a slot.
    pub page_bytes: u32,
    /// Slots for which the room before the annexes was made. The table there is that long; the region keeps only
    /// the slots that it uses.
    pub room_slots: u32,
    /// Room that was added later, in the order of its slots.
    pub annexes: Annexes,
}

impl Layout {
    /// Create the layout for `slots` slots.
    ///
    /// # Panics
    /// Never: the sizes of blocks are constants that fit.
    pub fn new(slots: u32, page_bytes: u32) -> Self {
        // Room for the records of one round through all slots, within limits.
        let journal_blocks = (slots / 128).clamp(32, JOURNAL_BLOCKS_MAX);
        let table_blocks = blocks_of(slots);
        let (room_slots, annexes) = (slots, Annexes::default());
        Self { journal_blocks, table_blocks, slots, page_bytes, room_slots, annexes }
    }

    /// Return the layout with the most slots that fits a device; `None` if not a single one does.
    pub fn fitting(flash_bytes: u64, page_bytes: u32) -> Option<Self> {
        let most = u32::try_from(flash_bytes / u64::from(page_bytes)).unwrap_or(1 << 31);
        let (mut fits, mut exceeds) = (0, most.min(1 << 31) + 1);
        while exceeds - fits > 1 {
            let middle = fits + (exceeds - fits) / 2;
            if Self::new(middle, page_bytes).flash_bytes() <= flash_bytes {
                fits = middle;
            } else {
                exceeds = middle;
            }
        }
        (fits > 0).then(|| Self::new(fits, page_bytes))
    }

    /// Return the layout with that many slots, of which an annex at that offset has those that are new.
    ///
    /// # Panics
    /// If it has as many annexes as a region can have.
    #[must_use]
    pub fn with_annex(&self, offset_bytes: u64, slots: u32) -> Self {
        let room_slots = slots.saturating_sub(self.slots);
        let annex = Annex { offset_bytes, first_slot: self.slots, room_slots };
        let annexes = self.annexes.with(annex);
        Self { table_blocks: blocks_of(slots), slots, annexes, ..*self }
    }

    /// Return the layout with that many slots, of which the last piece, which gave room back, has those that are
    /// new.
    ///
    /// # Panics
    /// If the piece was made for fewer.
    #[must_use]
    pub(crate) fn with_room_back(&self, slots: u32) -> Self {
        assert!(slots - self.slots <= self.slots_to_return(), "the piece was made for these slots");
        Self { table_blocks: blocks_of(slots), slots, ..*self }
    }

    /// Return the layout with its first slots alone. Annexes that have none of them are gone.
    ///
    /// # Panics
    /// If it has fewer slots, or none is to stay.
    #[must_use]
    pub fn with_first(&self, slots: u32) -> Self {
        assert!((1..=self.slots).contains(&slots), "some of the slots stay");
        let annexes = self.annexes.before(slots);
        Self { table_blocks: blocks_of(slots), slots, annexes, ..*self }
    }

    /// Return the number of slots that the last piece was made for and does not have: where they were may belong
    /// to others.
    pub(crate) fn slots_to_return(&self) -> u32 {
        let last = self.annexes.last();
        let end = last.map_or(self.room_slots, |annex| annex.first_slot + annex.room_slots);
        end - self.slots
    }

    /// Return the number of bytes that the flash must have for all that the room before the annexes was made for.
    /// Regions of several shards follow one another at that distance.
    pub fn flash_bytes(&self) -> u64 {
        self.slot_offset_bytes() + u64::from(self.room_slots) * u64::from(self.page_bytes)
    }

    /// Return the number of bytes that it uses before the annexes.
    pub fn first_bytes(&self) -> u64 {
        self.slot_offset_bytes() + u64::from(self.first_slots()) * u64::from(self.page_bytes)
    }

    /// Return the number of bytes that the flash must have, with annexes that lie behind the beginning.
    pub(crate) fn end_bytes(&self) -> u64 {
        // The address of an annex that lies before the region wraps around: that one does not count.
        let ends = self.annex_ranges().map(|range| range.end).filter(|end| *end < 1 << 63);
        ends.max().unwrap_or(0).max(self.first_bytes())
    }

    /// Return the ranges that annexes use, in bytes from the beginning of the region, modulo 2^64.
    pub fn annex_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.annexes.iter().zip(self.annex_ends()).map(|(annex, end)| {
            let (start, slots) = (annex.offset_bytes, end - annex.first_slot);
            start..start.wrapping_add(annex.bytes_of(slots, self.page_bytes))
        })
    }

    /// Return the number of bytes that its pieces have of the flash, in units of `unit_bytes`.
    pub fn room_bytes(&self, unit_bytes: u64) -> u64 {
        let annexes = self.annex_ranges().map(|range| range.end.wrapping_sub(range.start));
        let pieces = [self.first_bytes()].into_iter().chain(annexes);
        pieces.map(|bytes| bytes.next_multiple_of(unit_bytes)).sum()
    }

    /// Return the number of the slot that follows the last one of each annex.
    fn annex_ends(&self) -> impl Iterator<Item = u32> + '_ {
        let first_slots = self.annexes.iter().map(|annex| annex.first_slot);
        first_slots.skip(1).chain([self.slots])
    }

    /// Return the end of the last piece, in bytes from the beginning of the region, modulo 2^64.
    pub(crate) fn last_end_bytes(&self) -> u64 {
        self.annex_ranges().last().map_or_else(|| self.first_bytes(), |range| range.end)
    }

    /// Return `true` if the numbers go together.
    pub(crate) fn is_plausible(&self) -> bool {
        let Self { journal_blocks, table_blocks, slots, page_bytes, room_slots, ref annexes } =
            *self;
        page_bytes > 0
            && page_bytes.is_multiple_of(4096)
            && page_bytes <= 1 << 20
            && slots < 1 << 31
            && table_blocks == blocks_of(slots)
            && (JOURNAL_BLOCKS_MIN..=JOURNAL_BLOCKS_MAX).contains(&journal_blocks)
            && self.first_slots() <= room_slots
            && room_slots < 1 << 31
            && annexes.iter().zip(self.annex_ends()).all(|(annex, end)| annex.is_plausible(end))
    }

    /// Return `true` if it has room in one piece alone, and uses all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.annexes.is_empty() && !self.is_shortened()
    }

    /// Return `true` if a piece has fewer slots than it was made for.
    pub(crate) fn is_shortened(&self) -> bool {
        let is_short = |(annex, end): (&Annex, u32)| annex.room_slots > end - annex.first_slot;
        self.room_slots > self.first_slots()
            || self.annexes.iter().zip(self.annex_ends()).any(is_short)
    }

    /// Return `true` if the other one is that of another region of the same flash: regions begin alike, and each
    /// grows by itself.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let of = |layout: &Self| (layout.journal_blocks, layout.room_slots, layout.page_bytes);
        of(self) == of(other)
    }

    /// Return the number of slots before the annexes.
    fn first_slots(&self) -> u32 {
        self.annexes.first().map_or(self.slots, |annex| annex.first_slot)
    }

    /// Return the offset of a superblock, in bytes; there are two.
    pub(crate) fn superblock_offset_bytes(place: u64) -> u64 {
        place % 2 * BLOCK_BYTES as u64
    }

    /// Return the number of blocks that the ring holds.
    pub(crate) fn ring_blocks(&self) -> u64 {
        u64::from(self.journal_blocks / 2)
    }

    /// Return the offsets of the two copies of the journal block of that number, in bytes.
    pub(crate) fn journal_offsets_bytes(&self, sequence: u64) -> [u64; 2] {
        let place = 2 + sequence % self.ring_blocks();
        [place, place + self.ring_blocks()].map(|place| place * BLOCK_BYTES as u64)
    }

    /// Return the offset of a block of the journal's region, in bytes.
    pub(crate) fn journal_place_bytes(place: u32) -> u64 {
        (2 + u64::from(place)) * BLOCK_BYTES as u64
    }

    /// Return the number of bytes before the slots: the superblocks, the journal and the table, without those
    /// of annexes.
    pub fn metadata_bytes(&self) -> u64 {
        let table_blocks = blocks_of(self.room_slots);
        (2 + u64::from(self.journal_blocks) + 2 * u64::from(table_blocks)) * BLOCK_BYTES as u64
    }

    /// Return the range of the table, in bytes, without those of annexes.
    pub fn table_range(&self) -> Range<u64> {
        self.table_start_bytes()..self.metadata_bytes()
    }

    fn table_start_bytes(&self) -> u64 {
        (2 + u64::from(self.journal_blocks)) * BLOCK_BYTES as u64
    }

    /// Return the parts of the table: the numbers of their blocks, and the offset of the first one, in bytes.
    pub(crate) fn table_parts(&self) -> impl Iterator<Item = (Range<u32>, u64)> + '_ {
        let starts = self.annexes.iter().map(|annex| blocks_of(annex.first_slot));
        let ends = starts.clone().chain([self.table_blocks]);
        let offsets = self.annexes.iter().map(|annex| annex.offset_bytes);
        let offsets = [self.table_start_bytes()].into_iter().chain(offsets);
        [0].into_iter().chain(starts).zip(ends).map(|(start, end)| start..end).zip(offsets)
    }

    /// Return the offset of the copy of a table block that a generation writes first, in bytes.
    pub(crate) fn table_offset_bytes(&self, block: u32, generation: u64) -> u64 {
        let mut parts = self.table_parts().filter(|(blocks, _)| blocks.contains(&block));
        let (blocks, offset_bytes) = parts.next().expect("the table has that block");
        let place = 2 * u64::from(block - blocks.start) + generation % 2;
        offset_bytes.wrapping_add(place * BLOCK_BYTES as u64)
    }

    /// Return the offset of a slot, in bytes.
    pub(crate) fn slot_place_bytes(&self, slot: u32) -> u64 {
        let annex = self.annexes.iter().rev().find(|annex| annex.first_slot <= slot);
        let (start_bytes, first_slot) = annex.map_or_else(
            || (self.slot_offset_bytes(), 0),
            |annex| (annex.slots_offset_bytes(self.page_bytes), annex.first_slot),
        );
        start_bytes.wrapping_add(u64::from(slot - first_slot) * u64::from(self.page_bytes))
    }

    /// Return the offset of the first slot, in bytes.
    fn slot_offset_bytes(&self) -> u64 {
        self.metadata_bytes().next_multiple_of(u64::from(self.page_bytes).max(1))
    }
}

/// Return the number of table blocks for that many slots.
fn blocks_of(slots: u32) -> u32 {
    let per_block = u32::try_from(SLOTS_PER_BLOCK).expect("a block holds few slots");
    slots.div_ceil(per_block)
}

/// Writes numbers into a block, one after the other.
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    position: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        bytes.fill(0);
        Self { bytes, position: 0 }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.position..self.position + bytes.len()].copy_from_slice(bytes);
        self.position += bytes.len();
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Ends the block with the checksum of all before it.
    pub(crate) fn seal(self) {
        let end = self.bytes.len() - 4;
        assert!(self.position <= end, "a block has room for its checksum");
        let checksum = crc32c::crc32c(&self.bytes[..end]);
        self.bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Reads numbers from a block, one after the other.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Create a block whose checksum matches.
    pub(crate) fn new(block: &'a [u8]) -> Option<Self> {
        if block.len() != BLOCK_BYTES {
            return None;
        }
        let (bytes, checksum) = block.split_at(BLOCK_BYTES - 4);
        (crc32c::crc32c(bytes).to_le_bytes() == *checksum).then_some(Self { bytes })
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        self.try_array().expect("fields fit their block")
    }

    /// Return the next `N` bytes, or `None` if there are fewer.
    pub(crate) fn try_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*first)
    }

    /// Return the next `length` bytes, or `None` if there are fewer.
    pub(crate) fn try_bytes(&mut self, length: usize) -> Option<&[u8]> {
        let (first, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(first)
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}

/// Return the checksum of a page's bytes, mixed with what they should be: bytes of another page, or
/// of another version of the same page, do not match.
pub(crate) fn checksum(page: u64, version: u64, bytes: &[u8]) -> u32 {
    let (lower, upper) = split(page);
    let mut identity = [0; 14];
    identity[..4].copy_from_slice(&lower.to_le_bytes());
    identity[4..12].copy_from_slice(&version.to_le_bytes());
    identity[12..].copy_from_slice(&upper.to_le_bytes());
    // Most backing stores have no upper bits, and their flashes no bytes for these.
    let length = if upper == 0 { 12 } else { 14 };
    crc32c::crc32c_append(crc32c::crc32c(&identity[..length]), bytes)
}

/// Return the lower 32 bits of a page number, and the upper 16.
pub(crate) fn split(page: u64) -> (u32, u16) {
    assert!(page < PAGES_MAX, "a page number has 48 bits");
    #[expect(clippy::cast_possible_truncation, reason = "the upper bits are the other half")]
    let halves = (page as u32, (page >> 32) as u16);
    halves
}

/// Return the page number of these halves.
pub(crate) fn join(lower: u32, upper: u16) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

/// Return a word of which the lower half says what a record or a row is, and the upper half is the
/// upper bits of its page number.
fn tagged(tag: u16, upper: u16) -> u32 {
    u32::from(upper) << 16 | u32::from(tag)
}

/// Return the halves of such a word.
#[expect(clippy::cast_possible_truncation, reason = "the upper bits are the other half")]
const fn untagged(word: u32) -> (u16, u16) {
    (word as u16, (word >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::journal::{Record, RecordKind};
    use super::superblock::{Superblock, Unreadable};
    use super::table::Row;
    use super::*;

    const CACHE: Uuid = Uuid::from_u128(7);
    /// The last page that 32 bits can number, the next one, and the last of all.
    const PAGES: [u64; 4] = [5, (1 << 32) - 1, 1 << 32, PAGES_MAX - 1];

    fn record(page: u64, kind: RecordKind) -> Record {
        Record { kind, page, slot: 3, version: 9, checksum: 0xABCD }
    }

    fn journal_block(records: &[Record]) -> Vec<u8> {
        let header = journal::Header {
            cache: CACHE,
            epoch: 1,
            sequence: 1,
            tail: 1,
            uncertain: 1,
            written_bytes: 0,
        };
        let mut block = vec![0; BLOCK_BYTES];
        journal::encode(&mut block, &header, records.iter());
        block
    }

    fn table_block(rows: &[Option<Row>]) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES];
        let header = table::Header { cache: CACHE, generation: 1, block: 0 };
        table::encode(&mut block, &header, rows.iter().copied());
        block
    }

    #[test]
    fn records_and_rows_keep_page_numbers_of_48_bits() {
        let kinds = [RecordKind::Dirty, RecordKind::Clean, RecordKind::Free];
        let records: Vec<Record> =
            PAGES.iter().flat_map(|&page| kinds.map(|kind| record(page, kind))).collect();
        let (_, read) = journal::decode(&journal_block(&records)).unwrap();
        assert_eq!(read, records);
        let rows =
            PAGES.map(|page| Some(Row { page, checksum: 4, version: 2, is_dirty: page % 2 == 0 }));
        let (_, read) = table::decode(&table_block(&rows)).unwrap();
        assert_eq!(read[..PAGES.len()], rows);
        assert!(read[PAGES.len()..].iter().all(Option::is_none));
    }

    /// The format of programs that number pages with 32 bits is still written and read.
    #[test]
    fn page_numbers_of_32_bits_are_written_as_ever() {
        let page = (1 << 32) - 2;
        let block = journal_block(&[record(page, RecordKind::Clean)]);
        let fields = [0xFFFF_FFFE, 3, 9, 0, 0xABCD, 2_u32];
        let expected: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        assert_eq!(block[72..96], expected);
        let row = Row { page, checksum: 0xABCD, version: 9, is_dirty: true };
        let expected = [0xFFFF_FFFE, 0xABCD, 9, 0, 2_u32].map(u32::to_le_bytes).concat();
        assert_eq!(table_block(&[Some(row)])[48..68], expected);
        let identity = [0xFFFF_FFFE, 9, 0_u32].map(u32::to_le_bytes).concat();
        let bytes = [1; 4096];
        assert_eq!(checksum(page, 9, &bytes), crc32c::crc32c(&[&identity, &bytes[..]].concat()));
        assert_ne!(checksum(page, 9, &bytes), checksum(page + (1 << 32), 9, &bytes));
    }

    #[test]
    fn a_region_with_annexes_is_read_and_nothing_of_it_overlaps() {
        let per_block = u32::try_from(SLOTS_PER_BLOCK).unwrap();
        for (first, page_bytes) in [(10, 4096), (per_block, 4096), (3 * per_block + 5, 12_288)] {
            let whole = Layout::new(first, page_bytes);
            let backing_bytes = 1000 * u64::from(page_bytes);
            let start = whole.flash_bytes();
            let one = whole.with_annex(start + (9 << 20), first + 7);
            let two = one.with_annex(0_u64.wrapping_sub(64 << 20), first + 7 + 2 * per_block);
            let layout = two.with_annex(start + (1 << 20), first + 7 + 3 * per_block);
            let superblock = Superblock::first(CACHE, layout, backing_bytes);
            let mut block = vec![0; BLOCK_BYTES];
            superblock.encode(&mut block);
            assert_eq!((block[16], Superblock::decode(&block)), (6, Ok(superblock)));
            // Where each slot and each copy of a table block lies, and how long it is.
            let slots = (0..layout.slots).map(|slot| layout.slot_place_bytes(slot));
            let slots = slots.map(|place| (place, u64::from(page_bytes)));
            let blocks = (0..2 * layout.table_blocks)
                .map(|copy| layout.table_offset_bytes(copy / 2, (copy % 2).into()));
            let mut all: Vec<(u64, u64)> =
                slots.chain(blocks.map(|place| (place, BLOCK_BYTES as u64))).collect();
            all.push((0, whole.table_range().start));
            all.sort_unstable();
            assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            let mut ranges: Vec<Range<u64>> = layout.annex_ranges().collect();
            ranges.push(0..start);
            ranges.sort_unstable_by_key(|range| range.start);
            assert!(all.iter().all(|&(place, length)| {
                ranges.iter().any(|range| range.start <= place && place + length <= range.end)
            }));
            assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
            let numbered: Vec<u32> = layout.table_parts().flat_map(|(blocks, _)| blocks).collect();
            assert!(numbered.into_iter().eq(0..layout.table_blocks));
            // Numbers that contradict one another.
            for wrong in [
                Layout { slots: layout.slots + 1, ..layout },
                Layout { room_slots: first - 1, ..layout },
                Layout { table_blocks: layout.table_blocks + 1, ..layout },
            ] {
                Superblock::first(CACHE, wrong, backing_bytes).encode(&mut block);
                assert_eq!(Superblock::decode(&block), Err(Unreadable::Torn), "{wrong:?}");
            }
        }
    }

    /// Return the format of a layout's superblock, which is read again as it was.
    fn format_of(layout: &Layout) -> u8 {
        let superblock = Superblock::first(CACHE, *layout, 1000 * u64::from(layout.page_bytes));
        let mut block = vec![0; BLOCK_BYTES];
        superblock.encode(&mut block);
        assert_eq!(Superblock::decode(&block), Ok(superblock));
        // Programs of earlier formats must not take the room of others for their own.
        for other in [6, 7].into_iter().filter(|other| *other != block[16]) {
            let mut wrong = block.clone();
            wrong[16] = other;
            let end = BLOCK_BYTES - 4;
            let checksum = crc32c::crc32c(&wrong[..end]).to_le_bytes();
            wrong[end..].copy_from_slice(&checksum);
            assert_eq!(Superblock::decode(&wrong), Err(Unreadable::Torn), "{other}");
        }
        block[16]
    }

    #[test]
    fn a_region_that_gives_room_back_keeps_the_places_of_its_first_slots() {
        let whole = Layout::new(1000, 4096);
        let grown = whole.with_annex(64 << 20, 1500).with_annex(32 << 20, 1600);
        let places = |layout: &Layout| -> Vec<u64> {
            let slots = (0..layout.slots).map(|slot| layout.slot_place_bytes(slot));
            let blocks = (0..layout.table_blocks)
                .flat_map(|block| [0, 1].map(|copy| layout.table_offset_bytes(block, copy)));
            slots.chain(blocks).collect()
        };
        for (slots, annexes, format) in
            [(1600, 2, 6), (1501, 2, 7), (1500, 1, 6), (1001, 1, 7), (1000, 0, 2), (1, 0, 7)]
        {
            let layout = grown.with_first(slots);
            let found = (layout.annexes.len(), format_of(&layout));
            assert_eq!(found, (annexes, format), "{slots} slots");
            assert!(places(&layout).iter().all(|place| places(&grown).contains(place)));
            let ends = layout.annex_ranges().map(|range| range.end).chain([layout.first_bytes()]);
            let ends: Vec<u64> = ends.collect();
            assert!(ends.contains(&(layout.slot_place_bytes(slots - 1) + 4096)));
            // Regions of several shards keep their distance.
            assert_eq!(layout.flash_bytes(), whole.flash_bytes());
            assert!(
                layout.is_like(&whole) && layout.room_bytes(1 << 20) <= grown.room_bytes(1 << 20)
            );
            // It may have again what its last piece was made for, and annexes.
            let most = slots + layout.slots_to_return();
            assert_eq!(most, [1000, 1500, 1600][annexes]);
            assert_eq!(layout.with_room_back(most), grown.with_first(most));
            let longer = layout.with_annex(96 << 20, slots + 300);
            assert_eq!(format_of(&longer), if most == slots { 6 } else { 7 });
            assert_eq!(longer.with_first(slots), layout);
            let blocks: Vec<u32> = longer.table_parts().flat_map(|(blocks, _)| blocks).collect();
            assert!(blocks.into_iter().eq(0..longer.table_blocks));
        }
    }

    #[test]
    fn the_superblock_says_how_many_bits_page_numbers_have() {
        let superblock = |pages: u64| {
            let layout = Layout::new(100, 4096);
            Superblock::first(CACHE, layout, pages * 4096)
        };
        let encoded = |superblock: &Superblock| {
            let mut block = vec![0; BLOCK_BYTES];
            superblock.encode(&mut block);
            block
        };
        let many = u64::from(u32::MAX);
        for (pages, format) in [(1, 2), (many, 2), (many + 1, 4), (PAGES_MAX, 4)] {
            let superblock = superblock(pages);
            let block = encoded(&superblock);
            assert_eq!(block[16], format, "{pages} pages");
            assert_eq!(Superblock::decode(&block), Ok(superblock));
            assert!(superblock.is_page(pages - 1) && !superblock.is_page(pages));
        }
        assert_eq!(Superblock::decode(&encoded(&superblock(PAGES_MAX + 1))), Err(Unreadable::Torn));
        // The other format, with a right checksum.
        for (pages, format) in [(many, 4), (many + 1, 2), (many + 1, 1), (1, 6), (1, 7), (1, 8)] {
            let mut block = encoded(&superblock(pages));
            block[16] = format;
            let end = BLOCK_BYTES - 4;
            let checksum = crc32c::crc32c(&block[..end]).to_le_bytes();
            block[end..].copy_from_slice(&checksum);
            let expected = if format == 8 { Unreadable::Format(8) } else { Unreadable::Torn };
            assert_eq!(Superblock::decode(&block), Err(expected), "{pages} pages");
        }
    }
}
