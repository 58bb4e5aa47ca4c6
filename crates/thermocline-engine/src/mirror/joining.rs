//! A copy of what a mirrored flash holds, for a device that joins while others write.
//!
//! 1. The device counts as blank: its label is erased. [`Mirror::begin_join`] has all writes go to it, too.
//! 2. [`Joining`] copies what was there before, piece by piece. Nobody waits for it: where a write was under way
//!    beside a piece, the blocks of that write are copied again.
//! 3. When nothing is left, the device is synced. Then it takes the place of its member, and gets its label
//!    ([`Mirror::admit`]). The member that it replaces was in use until then.
//!
//! If the device fails before, or the power does, or the process is killed, it is as blank as it was.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::state::{Lane, Mirror};
use super::storage::{Lanes, MirrorStorage};
use crate::directory::Directory;
use crate::format::BLOCK_BYTES;
use crate::recovery::FlashError;
use crate::sharding::FlashSet;
use crate::storage::{AlignedBytes, Storage};

/// Content of a block that could not be read: it has no checksum that is right.
const UNREADABLE: u8 = 0xDB;

/// Work that is left to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Pieces that were not copied yet.
    Pieces,
    /// Blocks to which writes were under way meanwhile.
    Again,
    /// None.
    Nothing,
}

/// The copy for a device that joins.
pub struct Joining {
    mirror: Arc<Mirror>,
    lane: Lane,
    /// The first byte that was not copied.
    next: u64,
    end: u64,
    /// Numbers of blocks that have to be copied again.
    again: BTreeSet<u64>,
    /// The piece that was read, and is to be written.
    piece: Option<Range<u64>>,
    piece_bytes: u64,
    memory: AlignedBytes,
    unreadable_bytes: u64,
}

impl Joining {
    /// Begins the copy for a device that [joins](Mirror::begin_join), of all before a place of the content, in
    /// pieces of that many bytes.
    pub fn new(mirror: &Arc<Mirror>, lane: Lane, end: u64, piece_bytes: usize) -> Self {
        mirror.has_copied(0, end);
        Self {
            mirror: Arc::clone(mirror),
            lane,
            next: 0,
            end,
            again: BTreeSet::new(),
            piece: None,
            piece_bytes: piece_bytes as u64,
            memory: AlignedBytes::new(piece_bytes),
            unreadable_bytes: 0,
        }
    }

    /// Return the bytes that no device could read. The new device has blocks there that are damaged, too.
    pub const fn unreadable_bytes(&self) -> u64 {
        self.unreadable_bytes
    }

    /// Return what is left.
    pub fn left(&self) -> Left {
        if self.next < self.end {
            Left::Pieces
        } else if self.again.is_empty() {
            Left::Nothing
        } else {
            Left::Again
        }
    }

    /// Reads the next piece.
    ///
    /// # Errors
    /// If the device does not join any more.
    pub fn read<L: Lanes>(&mut self, source: &mut MirrorStorage<L>) -> io::Result<()> {
        self.check()?;
        self.take_missed();
        let Some(piece) = self.next_piece() else { return Ok(()) };
        // Before the first byte is read: a write that begins now may come too late for that.
        self.mirror.ledgers().watch(Some(&piece));
        let length = usize::try_from(piece.end - piece.start).unwrap_or(usize::MAX);
        let bytes = &mut self.memory.bytes_mut()[..length];
        // The member that is replaced has the clean pages that the new one is to have.
        let wanted = self.mirror.in_use().joins_as();
        if source.read_from_any(wanted, piece.start, bytes).is_err() {
            for (at, block) in
                (piece.start..).step_by(BLOCK_BYTES).zip(bytes.chunks_mut(BLOCK_BYTES))
            {
                if source.read_from_any(wanted, at, block).is_err() {
                    block.fill(UNREADABLE);
                    self.unreadable_bytes += block.len() as u64;
                }
            }
        }
        self.piece = Some(piece);
        Ok(())
    }

    /// Writes the piece that was read to the device.
    ///
    /// # Errors
    /// If the device fails, or does not join any more.
    pub fn write(&mut self, target: &mut dyn Storage) -> io::Result<()> {
        let Some(piece) = self.piece.take() else { return Ok(()) };
        self.check()?;
        let length = usize::try_from(piece.end - piece.start).unwrap_or(usize::MAX);
        target.write_at(piece.start, &self.memory.bytes()[..length])?;
        let touched = self.mirror.ledgers().take_touched();
        self.copy_again(&touched);
        self.mirror.has_copied(self.next, self.end);
        Ok(())
    }

    /// Makes the copy durable, and has the device take its place. Return `false` if something is left to copy.
    ///
    /// # Errors
    /// If the device fails, or this cannot be made durable.
    pub fn finish(&mut self, target: &mut dyn Storage) -> io::Result<bool> {
        self.check()?;
        self.take_missed();
        if self.left() != Left::Nothing {
            return Ok(false);
        }
        // The copy is durable before a label says that it is there.
        target.sync()?;
        Ok(self.mirror.admit(self.lane).map_err(|error| error.0)?)
    }

    fn check(&self) -> io::Result<()> {
        let is_joining = self.mirror.in_use().joining() == Some(self.lane);
        if is_joining { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    }

    fn take_missed(&mut self) {
        let missed = self.mirror.ledgers().take_missed();
        self.copy_again(&missed);
    }

    fn copy_again(&mut self, ranges: &[Range<u64>]) {
        const BLOCK: u64 = BLOCK_BYTES as u64;
        for range in ranges {
            self.again.extend(range.start / BLOCK..range.end.div_ceil(BLOCK));
        }
    }

    /// Takes the next piece: what was not copied at all comes first.
    fn next_piece(&mut self) -> Option<Range<u64>> {
        const BLOCK: u64 = BLOCK_BYTES as u64;
        if self.next < self.end {
            let piece = self.next..self.end.min(self.next + self.piece_bytes);
            self.next = piece.end;
            return Some(piece);
        }
        let first = self.again.pop_first()?;
        let mut end = first + 1;
        while end - first < self.piece_bytes / BLOCK && self.again.remove(&end) {
            end += 1;
        }
        Some(first * BLOCK..end * BLOCK)
    }
}

/// Return the bytes of a flash that a device needs which joins.
///
/// # Errors
/// If the flash cannot be read.
pub fn content_bytes(flash: &mut dyn Storage) -> Result<u64, FlashError> {
    if let Some(directory) =
        Directory::read(flash).map_err(|error| FlashError::Directory(Box::new(error)))?
    {
        return Ok(directory.end_bytes());
    }
    // With all that a growth added behind the regions.
    FlashSet::end_bytes(flash)
}

impl fmt::Debug for Joining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joining")
            .field("lane", &self.lane)
            .field("next", &self.next)
            .field("again", &self.again)
            .finish_non_exhaustive()
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        self.mirror.ledgers().watch(None);
    }
}
