//! Reading the metadata of a flash, past places that are damaged.

use crate::format::BLOCK_BYTES;
use crate::format::table::{self, Row};
use crate::storage::{AlignedBytes, Storage};

/// Metadata read by one operation, and by operations that are in flight together. A batch has an even
/// number of blocks, so that both copies of a table block are in one.
const READ_BYTES: usize = 1 << 20;
const BATCH_BYTES: usize = 16 << 20;

/// A copy of a metadata block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    Intact((table::Header, Vec<Option<Row>>)),
    /// All bytes are zero: it was never written.
    Blank,
    /// The block is something else, or cannot be read.
    Damaged,
}

impl Copied {
    /// Read a block; one that cannot be read has no bytes.
    pub(crate) fn of(
        bytes: Option<&[u8]>,
        decode: impl FnOnce(&[u8]) -> Option<(table::Header, Vec<Option<Row>>)>,
    ) -> Self {
        match bytes.map(|bytes| (bytes, decode(bytes))) {
            Some((_, Some(block))) => Self::Intact(block),
            Some((bytes, None)) if bytes.iter().all(|&byte| byte == 0) => Self::Blank,
            Some(_) | None => Self::Damaged,
        }
    }

    /// Return the header and the rows of an intact block.
    pub(crate) fn intact(self) -> Option<(table::Header, Vec<Option<Row>>)> {
        match self {
            Self::Intact(block) => Some(block),
            Self::Blank | Self::Damaged => None,
        }
    }
}

/// Reads metadata blocks one after the other, many at a time, and goes on past those that cannot be read.
pub(crate) struct Blocks<'a> {
    storage: &'a mut dyn Storage,
    /// Where the next block is, modulo 2^64.
    next_bytes: u64,
    left_bytes: u64,
    memory: AlignedBytes,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(storage: &'a mut dyn Storage, start_bytes: u64, blocks: u64) -> Self {
        let bytes = blocks * BLOCK_BYTES as u64;
        let batch = usize::try_from(bytes).map_or(BATCH_BYTES, |bytes| bytes.min(BATCH_BYTES));
        Self {
            storage,
            next_bytes: start_bytes,
            left_bytes: bytes,
            memory: AlignedBytes::new(batch),
        }
    }

    /// Return the next blocks, `None` for one that cannot be read; nothing after the last.
    pub(crate) fn next_batch(&mut self) -> Option<impl Iterator<Item = Option<&[u8]>>> {
        let left = self.left_bytes;
        if left == 0 {
            return None;
        }
        let length = usize::try_from(left).map_or(BATCH_BYTES, |left| left.min(BATCH_BYTES));
        let start = self.next_bytes;
        self.next_bytes = start.wrapping_add(length as u64);
        self.left_bytes -= length as u64;
        let place = move |at: usize| start.wrapping_add(at as u64);
        let bytes = &mut self.memory.bytes_mut()[..length];
        let pieces = (0..).step_by(READ_BYTES).map(place).zip(bytes.chunks_mut(READ_BYTES));
        let mut pieces: Vec<(u64, &mut [u8])> = pieces.collect();
        let results = self.storage.read_each(&mut pieces);
        let mut is_readable = Vec::with_capacity(length / BLOCK_BYTES);
        for ((offset, piece), result) in pieces.iter_mut().zip(results) {
            for (at, block) in (0..).step_by(BLOCK_BYTES).zip(piece.chunks_mut(BLOCK_BYTES)) {
                let offset = offset.wrapping_add(at);
                // One bad sector fails the whole piece, so its blocks are read one by one.
                let is_there = result.is_ok() || self.storage.read_at(offset, block).is_ok();
                is_readable.push(is_there);
            }
        }
        let blocks = self.memory.bytes()[..length].chunks(BLOCK_BYTES);
        Some(blocks.zip(is_readable).map(|(block, is_there)| is_there.then_some(block)))
    }
}
