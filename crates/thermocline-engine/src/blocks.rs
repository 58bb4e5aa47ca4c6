//! Reading the metadata of a flash, past places that are damaged.

use std::collections::VecDeque;

use crate::format::BLOCK_BYTES;
use crate::format::table::{self, Row};
use crate::storage::Storage;

/// Metadata read at a time.
const READ_BYTES: u64 = 1 << 20;

/// A copy of a metadata block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    Intact((table::Header, Vec<Option<Row>>)),
    /// All bytes are zero: it was never written.
    Blank,
    /// It is something else, or cannot be read.
    Damaged,
}

/// Reads metadata blocks one after the other, many at a time, and goes on past those that cannot be read.
pub(crate) struct Blocks<'a> {
    storage: &'a mut dyn Storage,
    next_bytes: u64,
    end_bytes: u64,
    /// Blocks that were read and not given out; none for one that cannot be read.
    read: VecDeque<Option<Vec<u8>>>,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(storage: &'a mut dyn Storage, start_bytes: u64, blocks: u64) -> Self {
        let end_bytes = start_bytes + blocks * BLOCK_BYTES as u64;
        Self { storage, next_bytes: start_bytes, end_bytes, read: VecDeque::new() }
    }

    /// The next block; none if it cannot be read.
    pub(crate) fn next_block(&mut self) -> Option<Vec<u8>> {
        if self.read.is_empty() {
            self.read_more();
        }
        self.read.pop_front().flatten()
    }

    /// What the next block says.
    pub(crate) fn next(
        &mut self,
        decode: impl Fn(&[u8]) -> Option<(table::Header, Vec<Option<Row>>)>,
    ) -> Copied {
        match self.next_block() {
            None => Copied::Damaged,
            Some(bytes) => match decode(&bytes) {
                Some(block) => Copied::Intact(block),
                None if bytes.iter().all(|&byte| byte == 0) => Copied::Blank,
                None => Copied::Damaged,
            },
        }
    }

    fn read_more(&mut self) {
        let bytes = (self.end_bytes - self.next_bytes).min(READ_BYTES);
        let start = self.next_bytes;
        self.next_bytes += bytes;
        let mut read = vec![0; usize::try_from(bytes).expect("a mebibyte at most")];
        if self.storage.read_at(start, &mut read).is_ok() {
            self.read.extend(read.chunks(BLOCK_BYTES).map(|block| Some(block.to_vec())));
            return;
        }
        for offset in (start..start + bytes).step_by(BLOCK_BYTES) {
            let mut block = vec![0; BLOCK_BYTES];
            let result = self.storage.read_at(offset, &mut block);
            self.read.push_back(result.is_ok().then_some(block));
        }
    }
}
