//! The flash as a file: a device, or two of which one mirrors the other.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::files::DeviceFile;
use crate::mirror::{Mirror, MirrorStorage};
use crate::storage::Storage;

/// The flash, or a region of it.
#[derive(Debug)]
pub enum FlashDevice {
    /// One device.
    One(DeviceFile),
    /// The contents of two devices, of which one may be absent.
    Two(MirrorStorage<DeviceFile>),
}

impl FlashDevice {
    /// Return what two devices share.
    pub const fn mirror(&self) -> Option<&Arc<Mirror>> {
        match self {
            Self::One(_) => None,
            Self::Two(pair) => Some(pair.mirror()),
        }
    }

    /// Return the devices; the only one comes first.
    pub const fn members(&self) -> [Option<&DeviceFile>; 2] {
        match self {
            Self::One(file) => [Some(file), None],
            Self::Two(pair) => {
                let [first, second] = pair.members();
                [first.as_ref(), second.as_ref()]
            }
        }
    }

    /// Return the same, made of what `make` makes of each device.
    fn map(&self, make: impl Fn(&DeviceFile) -> io::Result<DeviceFile>) -> io::Result<Self> {
        match self {
            Self::One(file) => Ok(Self::One(make(file)?)),
            Self::Two(pair) => {
                let [first, second] = self.members();
                let members = [first.map(&make).transpose()?, second.map(&make).transpose()?];
                Ok(Self::Two(MirrorStorage::new(members, Arc::clone(pair.mirror()))))
            }
        }
    }

    /// Open the same flash again: [`DeviceFile::try_clone`].
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.map(DeviceFile::try_clone)
    }

    /// Open the same flash once more: [`DeviceFile::reopen`].
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn reopen(&self) -> io::Result<Self> {
        self.map(DeviceFile::reopen)
    }

    /// Return a region of it: [`DeviceFile::region`].
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn region(&self, range: Range<u64>) -> io::Result<Self> {
        self.map(|file| file.region(range.clone()))
    }

    /// Makes a file at least this long: [`DeviceFile::reserve`].
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn reserve(&self, size_bytes: u64) -> io::Result<()> {
        self.members().into_iter().flatten().try_for_each(|file| file.reserve(size_bytes))
    }

    /// Return `true` if a path leads to it.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let mut members = self.members().into_iter().flatten();
        members.try_fold(false, |is_found, file| Ok(is_found || file.is_at(path)?))
    }

    fn storage(&mut self) -> &mut dyn Storage {
        match self {
            Self::One(file) => file,
            Self::Two(pair) => pair,
        }
    }
}

impl Storage for FlashDevice {
    fn size_bytes(&mut self) -> io::Result<u64> {
        self.storage().size_bytes()
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.storage().read_at(offset_bytes, bytes)
    }

    fn read_other(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> Option<io::Result<()>> {
        self.storage().read_other(offset_bytes, bytes)
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.storage().write_at(offset_bytes, bytes)
    }

    fn read_each(&mut self, pieces: &mut [(u64, &mut [u8])]) -> Vec<io::Result<()>> {
        self.storage().read_each(pieces)
    }

    fn write_each(&mut self, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        self.storage().write_each(pieces)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.storage().sync()
    }
}
