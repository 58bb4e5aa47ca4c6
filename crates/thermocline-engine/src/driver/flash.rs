//! The flash as a file: a device, or two of which one mirrors the other.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::files::DeviceFile;
use crate::mirror::{Lane, Lanes, Mirror, MirrorStorage};
use crate::operation::Member;
use crate::storage::Storage;

/// The flash, or a region of it.
#[derive(Debug)]
pub enum FlashDevice {
    /// One device.
    One(DeviceFile),
    /// The contents of two devices, of which one may be absent.
    Two(MirrorStorage<FileLanes>),
}

/// The files of a mirrored flash by their lanes, or a region of each.
#[derive(Clone, Debug)]
pub struct FileLanes {
    /// The contents of all devices.
    whole: Arc<Mutex<BTreeMap<Lane, DeviceFile>>>,
    region: Range<u64>,
    /// `true` if a file is opened once more for each use.
    is_reopened: bool,
}

impl FileLanes {
    /// Create the lanes of a start: the contents of the first and the second member, as far as they are there.
    pub fn new(members: [Option<DeviceFile>; 2]) -> Self {
        let lanes = (0..).map(Lane).zip(members);
        let there = lanes.filter_map(|(lane, file)| Some((lane, file?)));
        Self {
            whole: Arc::new(Mutex::new(there.collect())),
            region: 0..u64::MAX,
            is_reopened: false,
        }
    }

    /// Add the content of a device that joins, for all who use the flash.
    pub fn add(&self, lane: Lane, file: DeviceFile) {
        self.lock().insert(lane, file);
    }

    /// Close the devices that are not used any more, for those who use the flash later.
    pub fn close_unused(&self, mirror: &Mirror) {
        let now = mirror.in_use();
        self.lock().retain(|&lane, _| now.has(lane));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Lane, DeviceFile>> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes for FileLanes {
    type Device = DeviceFile;

    fn open(&self, lane: Lane) -> io::Result<DeviceFile> {
        let whole = self.lock();
        let file = whole.get(&lane).ok_or(io::ErrorKind::NotConnected)?;
        let file = file.region(self.region.clone())?;
        // The system reports a failed write-back once per handle, so one who must hear of it needs its
        // own.
        if self.is_reopened { file.reopen() } else { Ok(file) }
    }
}

impl FlashDevice {
    /// Return the same for two devices, of which one may be absent, given their contents.
    pub fn of_two(members: [Option<DeviceFile>; 2], mirror: Arc<Mirror>) -> Self {
        Self::Two(MirrorStorage::new(FileLanes::new(members), mirror, 0))
    }

    /// Return what two devices share.
    pub const fn mirror(&self) -> Option<&Arc<Mirror>> {
        match self {
            Self::One(_) => None,
            Self::Two(pair) => Some(pair.mirror()),
        }
    }

    /// Return the devices in use; the only one has the first lane.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn devices(&self) -> io::Result<Vec<(Lane, DeviceFile)>> {
        let pair = match self {
            Self::One(file) => return Ok(vec![(Lane::FIRST, file.try_clone()?)]),
            Self::Two(pair) => pair,
        };
        let now = pair.mirror().in_use();
        let members = Member::EACH.into_iter().filter_map(|member| now.lane_of(member));
        // One that joins gets writes already, and is synced like the others.
        let lanes = members.chain(now.joining());
        lanes.map(|lane| Ok((lane, pair.lanes().open(lane)?))).collect()
    }

    /// Return the device with the first lane, if it is in use.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn first(&self) -> io::Result<Option<DeviceFile>> {
        let devices = self.devices()?.into_iter();
        Ok(devices.into_iter().find_map(|(lane, file)| (lane == Lane::FIRST).then_some(file)))
    }

    /// Return the same flash, of other lanes and from another position on.
    fn with(pair: &MirrorStorage<FileLanes>, lanes: FileLanes, start_bytes: u64) -> Self {
        Self::Two(MirrorStorage::new(lanes, Arc::clone(pair.mirror()), start_bytes))
    }

    /// Open the same flash again: [`DeviceFile::try_clone`].
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::One(file) => Self::One(file.try_clone()?),
            Self::Two(pair) => Self::with(pair, pair.lanes().clone(), pair.start_bytes()),
        })
    }

    /// Open the same flash once more: [`DeviceFile::reopen`].
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn reopen(&self) -> io::Result<Self> {
        Ok(match self {
            Self::One(file) => Self::One(file.reopen()?),
            Self::Two(pair) => {
                let lanes = FileLanes { is_reopened: true, ..pair.lanes().clone() };
                Self::with(pair, lanes, pair.start_bytes())
            }
        })
    }

    /// Return a region of it: [`DeviceFile::region`].
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn region(&self, range: Range<u64>) -> io::Result<Self> {
        let pair = match self {
            Self::One(file) => return Ok(Self::One(file.region(range)?)),
            Self::Two(pair) => pair,
        };
        let lanes = pair.lanes();
        let place = |offset: u64| lanes.region.start.saturating_add(offset).min(lanes.region.end);
        let region = place(range.start)..place(range.end);
        let start_bytes = region.start;
        Ok(Self::with(pair, FileLanes { region, ..lanes.clone() }, start_bytes))
    }

    /// Makes a file at least this long: [`DeviceFile::reserve`].
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn reserve(&self, size_bytes: u64) -> io::Result<()> {
        self.devices()?.iter().try_for_each(|(_, file)| file.reserve(size_bytes))
    }

    /// Return `true` if a path leads to it.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let devices = self.devices()?;
        devices.iter().try_fold(false, |is_found, (_, file)| Ok(is_found || file.is_at(path)?))
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
