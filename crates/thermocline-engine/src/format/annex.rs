//! Annexes: room that a region of the flash got after it was set up.

use std::fmt;
use std::ops::Deref;

use super::{BLOCK_BYTES, Reader, Writer, blocks_of};

/// Greatest number of annexes of a region.
pub(crate) const ANNEXES_MAX: usize = 32;

/// Room for more slots, apart from the rest of a region: the blocks of the table for these slots, and the
/// slots, page-aligned. A block of the table that has rows for slots before the annex is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annex {
    /// Offset from the beginning of the region in bytes, modulo 2^64: it may lie before that.
    pub offset_bytes: u64,
    /// Number of its first slot.
    pub first_slot: u32,
    /// Slots for which it was made. Its table is that long; it may have given room for slots back.
    pub room_slots: u32,
}

impl Annex {
    /// Create an annex for slots from one on.
    pub(crate) const fn new(offset_bytes: u64, first_slot: u32, room_slots: u32) -> Self {
        Self { offset_bytes, first_slot, room_slots }
    }

    /// Return the number of bytes of the table that it has.
    pub(crate) fn table_bytes(&self) -> u64 {
        let end = self.first_slot.saturating_add(self.room_slots);
        let blocks = blocks_of(end) - blocks_of(self.first_slot);
        2 * u64::from(blocks) * BLOCK_BYTES as u64
    }

    /// Return the number of bytes that it has if it has that many slots.
    pub(crate) fn bytes_of(&self, slots: u32, page_bytes: u32) -> u64 {
        self.slots_bytes(page_bytes) + u64::from(slots) * u64::from(page_bytes)
    }

    /// Return the offset of its slots from the beginning of the region, in bytes.
    pub(super) fn slots_offset_bytes(&self, page_bytes: u32) -> u64 {
        self.offset_bytes.wrapping_add(self.slots_bytes(page_bytes))
    }

    /// Return the number of bytes before its slots.
    fn slots_bytes(&self, page_bytes: u32) -> u64 {
        self.table_bytes().next_multiple_of(u64::from(page_bytes).max(1))
    }

    /// Return `true` if it can be the room of the slots from its first one to that end.
    pub(super) fn is_plausible(&self, end_slot: u32) -> bool {
        let Self { offset_bytes, first_slot, room_slots } = *self;
        let slots = end_slot.checked_sub(first_slot);
        offset_bytes.is_multiple_of(BLOCK_BYTES as u64)
            && room_slots < 1 << 31
            && slots.is_some_and(|slots| (1..=room_slots).contains(&slots))
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.offset_bytes);
        writer.u32(self.first_slot);
        writer.u32(self.room_slots);
    }

    fn decode(reader: &mut Reader<'_>) -> Self {
        Self { offset_bytes: reader.u64(), first_slot: reader.u32(), room_slots: reader.u32() }
    }
}

/// The annexes of a region, in the order of their slots.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Annexes {
    /// Those that are not used have zeroes.
    each: [Annex; ANNEXES_MAX],
    count: usize,
}

impl Annexes {
    /// Return these and one more.
    pub(super) fn with(mut self, annex: Annex) -> Self {
        self.each[self.count] = annex;
        self.count += 1;
        self
    }

    /// Return those that begin before a slot.
    pub(super) fn before(&self, slot: u32) -> Self {
        let kept = self.iter().filter(|annex| annex.first_slot < slot);
        kept.fold(Self::default(), |annexes, annex| annexes.with(*annex))
    }

    /// Return `true` if there cannot be one more.
    pub(crate) const fn are_full(&self) -> bool {
        self.count == ANNEXES_MAX
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(u32::try_from(self.count).expect("a region has few annexes"));
        self.iter().for_each(|annex| annex.encode(writer));
    }

    /// Read annexes; `None` if there are too many.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let count = reader.u32() as usize;
        let mut annexes = Self::default();
        for _ in 0..count {
            if annexes.are_full() {
                return None;
            }
            annexes = annexes.with(Annex::decode(reader));
        }
        Some(annexes)
    }
}

impl Deref for Annexes {
    type Target = [Annex];

    fn deref(&self) -> &[Annex] {
        &self.each[..self.count]
    }
}

impl fmt::Debug for Annexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
