//! The chunks of a flash: those of each volume, and those that are free.

use std::ops::Range;

use super::{CHUNK_BYTES, DIRECTORY_CHUNKS, DirectoryError, EXTENTS_MAX, NAME_FIELD_BYTES};
use crate::format::Reader;

/// A volume's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) name: String,
    /// The first one begins with the region.
    pub(super) extents: Vec<Extent>,
}

impl Volume {
    /// Take a range of chunks, too.
    pub(super) fn take(&mut self, taken: Extent) {
        let all = self.extents.iter().copied().chain([taken]).collect();
        self.set_extents(all);
    }

    /// Keep of its chunks only those that it uses.
    pub(super) fn keep(&mut self, used: &[Extent]) {
        let kept = self.extents.iter().flat_map(|own| used.iter().filter_map(|it| own.common(*it)));
        self.set_extents(kept.collect());
        assert!(!self.extents.is_empty(), "a region uses its first chunk");
    }

    /// Set the ranges of chunks. Those that follow one another become one extent, but the first extent still begins
    /// with the region.
    fn set_extents(&mut self, mut all: Vec<Extent>) {
        let region = self.extents[0].start;
        all.sort_unstable_by_key(|extent| extent.start);
        let mut joined: Vec<Extent> = vec![];
        for extent in all {
            match joined.last_mut().filter(|last| last.end() >= u64::from(extent.start)) {
                Some(last) if extent.start != region => {
                    let end = last.end().max(extent.end());
                    *last = Extent::between(last.start.into(), end);
                }
                _ => joined.push(extent),
            }
        }
        // The region's own extent comes first.
        joined.sort_by_key(|extent| extent.start != region);
        self.extents = joined;
    }

    /// Read an entry of format 2 if it `is_scattered`, else one of format 1; `None` if it is nonsense.
    pub(super) fn decode(reader: &mut Reader<'_>, is_scattered: bool) -> Option<Self> {
        let name = if is_scattered {
            let [length] = reader.try_array()?;
            reader.try_bytes(length.into())?.to_vec()
        } else {
            let field: [u8; NAME_FIELD_BYTES] = reader.try_array()?;
            field.get(1..=usize::from(field[0]))?.to_vec()
        };
        let name = String::from_utf8(name).ok()?;
        let used = u32::from_le_bytes(reader.try_array()?) as usize;
        let fields = if is_scattered { used } else { EXTENTS_MAX };
        let mut extents = vec![];
        for _ in 0..fields {
            let [start, chunks] =
                [reader.try_array()?, reader.try_array()?].map(u32::from_le_bytes);
            extents.push(Extent { start, chunks });
        }
        let is_wrong =
            |extent: &Extent| extent.start < DIRECTORY_CHUNKS || extent.end() > u32::MAX.into();
        if !(1..=fields).contains(&used) || extents[..used].iter().any(is_wrong) {
            return None;
        }
        extents.truncate(used);
        Some(Self { name, extents })
    }
}

/// A range of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: u32,
    pub(super) chunks: u32,
}

impl Extent {
    /// Return the extent between these numbers of chunks, which fit a directory.
    pub(super) fn between(start: u64, end: u64) -> Self {
        let number = |chunks: u64| u32::try_from(chunks).expect("a flash has 32 bits of chunks");
        Self { start: number(start), chunks: number(end - start) }
    }

    pub(super) fn end(self) -> u64 {
        u64::from(self.start) + u64::from(self.chunks)
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.common(other).is_some()
    }

    /// Return what both have.
    pub(super) fn common(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start).into(), self.end().min(other.end()));
        (start < end).then(|| Self::between(start, end))
    }

    /// Return the chunks of a range of the flash.
    pub(super) fn of(bytes: &Range<u64>) -> Self {
        Self::between(bytes.start / CHUNK_BYTES, bytes.end.div_ceil(CHUNK_BYTES))
    }

    pub(super) fn bytes(self) -> Range<u64> {
        u64::from(self.start) * CHUNK_BYTES..self.end() * CHUNK_BYTES
    }
}

/// Return the free pieces of a flash of that size, of which these are taken.
pub(super) fn free(mut taken: Vec<Extent>, size_bytes: u64) -> Vec<Extent> {
    let end = u32::try_from(size_bytes / CHUNK_BYTES).unwrap_or(u32::MAX);
    taken.sort_unstable_by_key(|extent| extent.start);
    let mut free = vec![];
    let mut start = DIRECTORY_CHUNKS;
    for extent in taken.into_iter().chain([Extent { start: end, chunks: 0 }]) {
        if extent.start > start {
            free.push(Extent { start, chunks: extent.start - start });
        }
        start = start.max(u32::try_from(extent.end()).unwrap_or(u32::MAX));
    }
    free
}

/// Return the beginning of the smallest of the pieces that are large enough: it leaves large pieces for large
/// volumes.
pub(super) fn fit(free: &[Extent], name: &str, bytes: u64) -> Result<Extent, DirectoryError> {
    let wanted = bytes.div_ceil(CHUNK_BYTES).max(1);
    let fitting = free.iter().filter(|piece| u64::from(piece.chunks) >= wanted);
    let Some(piece) = fitting.min_by_key(|piece| piece.chunks) else {
        let largest = free.iter().map(|piece| piece.chunks).max().unwrap_or(0);
        return Err(DirectoryError::NoRoom {
            name: name.to_owned(),
            wanted_bytes: bytes,
            free_bytes: u64::from(largest) * CHUNK_BYTES,
        });
    };
    let start = u64::from(piece.start);
    Ok(Extent::between(start, start + wanted))
}
