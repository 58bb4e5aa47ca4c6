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

    /// Everything written before survives a power loss.
    ///
    /// # Errors
    /// What the device says.
    fn sync(&mut self) -> io::Result<()>;
}
