//! Devices read and written one call at a time: for starting up, and for work on a cache at rest.

use std::fmt;
use std::io;
use std::ops::Range;

/// A device, or a file in its stead.
pub trait Storage {
    /// Return its size in bytes.
    ///
    /// # Errors
    /// If the device reports an error.
    fn size_bytes(&mut self) -> io::Result<u64>;

    /// Fills `bytes` from a position; offset and length are multiples of 4096.
    ///
    /// # Errors
    /// If the device reports an error, or ends before.
    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Fills `bytes` from another copy than [`read_at`](Self::read_at) does, if the device has one. Returns `None`
    /// if it has not.
    #[expect(unused_variables, reason = "most devices have one copy")]
    fn read_other(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> Option<io::Result<()>> {
        None
    }

    /// Writes `bytes` to a position; offset and length are multiples of 4096.
    ///
    /// # Errors
    /// If the device reports an error.
    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills many pieces, each from its position, in any order; a device may read several at once.
    /// Returns one result per piece.
    fn read_each(&mut self, pieces: &mut [(u64, &mut [u8])]) -> Vec<io::Result<()>> {
        pieces.iter_mut().map(|(offset, bytes)| self.read_at(*offset, bytes)).collect()
    }

    /// Writes many pieces that do not overlap, each to its position, in any order; a device may write
    /// several at once.
    ///
    /// # Errors
    /// If the device reports an error for a piece; the others may be written or not.
    fn write_each(&mut self, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        pieces.iter().try_for_each(|(offset, bytes)| self.write_at(*offset, bytes))
    }

    /// Make everything written before survive a power loss.
    ///
    /// # Errors
    /// If the device reports an error.
    fn sync(&mut self) -> io::Result<()>;
}

/// Alignment of memory that devices require if they bypass the page cache.
const ALIGNMENT: usize = crate::memory::ALIGNMENT_BYTES;

/// Memory that devices fill without a detour.
pub(crate) struct AlignedBytes {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBytes {
    /// Create `length` zeroes.
    pub(crate) fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        Self { memory, start, length }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// Return `true` if a device that bypasses the page cache takes this memory.
pub(crate) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGNMENT)
}

/// A part of a device, used as a device of its own.
pub struct Section<'a> {
    storage: &'a mut dyn Storage,
    range: Range<u64>,
}

impl fmt::Debug for Section<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Section").field("range", &self.range).finish_non_exhaustive()
    }
}

impl<'a> Section<'a> {
    /// Return the part of a device in that range of bytes. A range that ends at `u64::MAX` has no end, and offsets
    /// count modulo 2^64 from its beginning.
    pub fn new(storage: &'a mut dyn Storage, range: Range<u64>) -> Self {
        Self { storage, range }
    }

    /// Return where on the device a range of the part is.
    fn place(&self, offset_bytes: u64, length: usize) -> io::Result<u64> {
        // Without an end, what an offset modulo 2^64 names may also lie before the part.
        let start = match self.range.end {
            u64::MAX => Some(self.range.start.wrapping_add(offset_bytes)),
            _ => self.range.start.checked_add(offset_bytes),
        };
        let is_within =
            |start: &u64| start.checked_add(length as u64).is_some_and(|end| end <= self.range.end);
        start.filter(is_within).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Storage for Section<'_> {
    fn size_bytes(&mut self) -> io::Result<u64> {
        let end = self.storage.size_bytes()?.min(self.range.end);
        Ok(end.saturating_sub(self.range.start))
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let place = self.place(offset_bytes, bytes.len())?;
        self.storage.read_at(place, bytes)
    }

    fn read_other(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> Option<io::Result<()>> {
        let place = self.place(offset_bytes, bytes.len()).ok()?;
        self.storage.read_other(place, bytes)
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let place = self.place(offset_bytes, bytes.len())?;
        self.storage.write_at(place, bytes)
    }

    fn read_each(&mut self, pieces: &mut [(u64, &mut [u8])]) -> Vec<io::Result<()>> {
        let starts: io::Result<Vec<u64>> =
            pieces.iter().map(|(offset, bytes)| self.place(*offset, bytes.len())).collect();
        let Ok(starts) = starts else {
            return pieces.iter().map(|_| Err(io::ErrorKind::UnexpectedEof.into())).collect();
        };
        let placed =
            starts.into_iter().zip(pieces).map(|(start, (_, bytes))| (start, &mut **bytes));
        self.storage.read_each(&mut placed.collect::<Vec<_>>())
    }

    fn write_each(&mut self, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        let placed = pieces
            .iter()
            .map(|(offset, bytes)| Ok((self.place(*offset, bytes.len())?, *bytes)))
            .collect::<io::Result<Vec<_>>>()?;
        self.storage.write_each(&placed)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.storage.sync()
    }
}

#[cfg(test)]
pub(crate) mod memory {
    use super::*;

    /// A device in memory.
    pub(crate) struct Memory(pub(crate) Vec<u8>);

    impl Memory {
        pub(crate) fn part(&mut self, offset_bytes: u64, length: usize) -> &mut [u8] {
            let start = usize::try_from(offset_bytes).unwrap();
            &mut self.0[start..start + length]
        }
    }

    impl Storage for Memory {
        fn size_bytes(&mut self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
            bytes.copy_from_slice(self.part(offset_bytes, bytes.len()));
            Ok(())
        }

        fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
            self.part(offset_bytes, bytes.len()).copy_from_slice(bytes);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
