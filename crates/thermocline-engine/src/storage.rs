//! Devices read and written one call at a time: for starting up, and for work on a cache at rest.

use std::io;

/// A device, or a file in its stead.
pub trait Storage {
    /// Its size in bytes.
    ///
    /// # Errors
    /// What the device says.
    fn size_bytes(&mut self) -> io::Result<u64>;

    /// Fills `bytes` from a position; offset and length are multiples of 4096.
    ///
    /// # Errors
    /// What the device says; also if the device ends before.
    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes `bytes` to a position; offset and length are multiples of 4096.
    ///
    /// # Errors
    /// What the device says.
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
    /// What the device says of a piece; the others may be written or not.
    fn write_each(&mut self, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        pieces.iter().try_for_each(|(offset, bytes)| self.write_at(*offset, bytes))
    }

    /// Everything written before survives a power loss.
    ///
    /// # Errors
    /// What the device says.
    fn sync(&mut self) -> io::Result<()>;
}

/// What devices that bypass the page cache want their memory aligned to.
const ALIGNMENT: usize = crate::memory::ALIGNMENT_BYTES;

/// Memory that devices fill without a detour.
pub(crate) struct AlignedBytes {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBytes {
    /// So many zeroes.
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

/// Whether a device that bypasses the page cache takes this memory.
pub(crate) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGNMENT)
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
