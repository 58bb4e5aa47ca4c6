//! Parts that both drivers of real devices share: opening, and transfers with positioned calls.
#![expect(unsafe_code, reason = "frames are memory that the kernel fills")]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom, seek};
use rustix::io::{Errno, pread, preadv, pwrite, pwritev, retry_on_intr};

use super::Allocation;
use super::identity::has_bytes_of;
use crate::memory::Frames;
use crate::operation::{Operation, OperationKind, OperationParts};
use crate::storage::{Storage, is_aligned};

/// Maximum time that a start waits for a lock: the kernel keeps the files of a killed engine open
/// until the devices have answered its operations.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts to lock.
const LOCK_POLL: Duration = Duration::from_millis(10);

/// Pieces of memory that the system takes in one call (`IOV_MAX`).
const PIECES_MAX: usize = 1024;

/// Pieces that a [`Storage`] reads or writes at once.
const PIECES_AT_ONCE: usize = 32;

/// Extents in one answer, at most.
const ALLOCATIONS_MAX: usize = 4096;

/// A file or block device, opened past the page cache if its file system allows that.
#[derive(Debug)]
pub struct DeviceFile {
    file: File,
    is_direct: bool,
    /// The part of it that is used, if that is not all.
    region: Option<Range<u64>>,
}

/// Mode in which a device is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// Past the page cache where that is possible, through it elsewhere.
    #[default]
    Direct,
    /// Through the page cache.
    Buffered,
}

impl DeviceFile {
    /// Opens a file or block device for reading and writing, and locks it as long as it is open: two
    /// caches on one device would destroy each other's pages. A block device is opened exclusively
    /// too, so that no file system is mounted on it. Waits up to [`LOCK_PATIENCE`].
    ///
    /// # Errors
    /// If the operating system reports an error; [`io::ErrorKind::ResourceBusy`] if it is locked
    /// already, or mounted.
    pub fn open(path: &Path, caching: Caching) -> io::Result<Self> {
        Self::open_within(path, caching, LOCK_PATIENCE)
    }

    /// Return the same with another patience.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_within(path: &Path, caching: Caching, patience: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + patience;
        loop {
            match Self::try_open(path, caching) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    thread::sleep(LOCK_POLL);
                }
                opened => return opened,
            }
        }
    }

    /// Opens and locks a file that is made if there is none; only its owner may read it then.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn create_within(path: &Path, caching: Caching, patience: Duration) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let made = options.mode(0o600).open(path)?;
        // The file must outlive a power cut before a note says that a cache is in it.
        made.sync_all()?;
        sync_folder_of(path)?;
        Self::open_within(path, caching, patience)
    }

    fn try_open(path: &Path, caching: Caching) -> io::Result<Self> {
        let opened = Self::open_unlocked(path, caching)?;
        match opened.file.try_lock() {
            Ok(()) => Ok(opened),
            // A file system without locks: nobody can hold one.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(opened)
            }
            Err(TryLockError::Error(error)) => Err(error),
            Err(TryLockError::WouldBlock) => {
                Err(busy("it is in use: an engine runs on it, or it was given twice"))
            }
        }
    }

    fn open_unlocked(path: &Path, caching: Caching) -> io::Result<Self> {
        let open = |flags: OFlags| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(flags.bits().cast_signed());
            let reason =
                "it is mounted or in use: unmount it, or end what uses it; or it was given twice";
            options.open(path).map_err(|error| {
                if error.kind() == io::ErrorKind::ResourceBusy { busy(reason) } else { error }
            })
        };
        let exclusive = if is_block_device(path)? { OFlags::EXCL } else { OFlags::empty() };
        #[cfg(target_os = "linux")]
        if caching == Caching::Direct {
            match open(exclusive | OFlags::DIRECT) {
                Ok(file) => return Ok(Self { file, is_direct: true, region: None }),
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { file: open(exclusive)?, is_direct: false, region: None })
    }

    /// Open the same file again; both handles share its lock.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn try_clone(&self) -> io::Result<Self> {
        let region = self.region.clone();
        Ok(Self { file: self.file.try_clone()?, is_direct: self.is_direct, region })
    }

    /// Open the same file once more, for a sync beside those of an engine that runs. The system reports a
    /// write-back that failed once to each handle that was opened: a sync of a clone would hide it from the
    /// engine. The new handle has no lock.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn reopen(&self) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        #[cfg(target_os = "linux")]
        if self.is_direct {
            options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        }
        let file = options.open(format!("/dev/fd/{}", self.file.as_raw_fd()))?;
        Ok(Self { file, is_direct: self.is_direct, region: self.region.clone() })
    }

    /// Return the same open file, of which a range of this device is used as if it were a device of its own. A range
    /// that ends at `u64::MAX` has no end, and offsets count modulo 2^64 from its beginning. A
    /// sync concerns the whole file: several that write to regions of one file need
    /// [`SharedSyncs`](crate::SharedSyncs).
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn region(&self, range: Range<u64>) -> io::Result<Self> {
        let outer = self.region.clone().unwrap_or(0..u64::MAX);
        let place = |offset: u64| outer.start.saturating_add(offset).min(outer.end);
        Ok(Self { region: Some(place(range.start)..place(range.end)), ..self.try_clone()? })
    }

    /// Return the position of this device's range in the file.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the device ends before.
    pub(super) fn place(&self, offset_bytes: u64, length_bytes: u64) -> io::Result<u64> {
        let Some(region) = &self.region else { return Ok(offset_bytes) };
        // Without an end, what an offset modulo 2^64 names may also lie before the region.
        let start = match region.end {
            u64::MAX => Some(region.start.wrapping_add(offset_bytes)),
            _ => region.start.checked_add(offset_bytes),
        };
        let is_within =
            |start: &u64| start.checked_add(length_bytes).is_some_and(|end| end <= region.end);
        start.filter(is_within).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Return `true` if a path leads to this file or block device, or one of them is a loop device over the other.
    ///
    /// # Errors
    /// If the operating system reports an error other than that there is no such path.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        has_bytes_of(&self.file.metadata()?, path)
    }

    /// Makes a file at least this long, of space that its file system sets aside for it where that is
    /// possible. A block device stays as it is; so does a region with an end, which lies in a file that is long
    /// enough.
    ///
    /// # Errors
    /// If the operating system reports an error, as when there is not enough space.
    pub fn reserve(&self, size_bytes: u64) -> io::Result<()> {
        let size_bytes = match &self.region {
            None => size_bytes,
            // Only the beginning of the file is left out.
            Some(region) if region.end == u64::MAX => region.start + size_bytes,
            Some(_) => return Ok(()),
        };
        let metadata = self.file.metadata()?;
        if !metadata.is_file() || metadata.len() >= size_bytes {
            return Ok(());
        }
        // In a sparse file, the write of a slot could find the file system full, and the flash would
        // fail.
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, size_bytes) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.file.set_len(size_bytes)?,
            Err(error) => return Err(error.into()),
        }
        self.file.sync_all()
    }

    /// Return `true` if [`reserve`](Self::reserve) can make it longer.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn is_extensible(&self) -> io::Result<bool> {
        let has_end = self.region.as_ref().is_some_and(|region| region.end != u64::MAX);
        Ok(!has_end && self.file.metadata()?.is_file())
    }

    /// Return its path as the system knows it, for errors.
    pub fn name(&self) -> String {
        let path = std::fs::read_link(format!("/dev/fd/{}", self.file.as_raw_fd()));
        path.map_or_else(|_| "the device".to_owned(), |path| path.display().to_string())
    }

    /// Return `true` if it is accessed past the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Return the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Return its size in bytes; that of a block device is where seeking to the end leads.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn size_bytes(&self) -> io::Result<u64> {
        let end = seek(&self.file, SeekFrom::End(0))?;
        let Some(region) = &self.region else { return Ok(end) };
        Ok(end.min(region.end).saturating_sub(region.start))
    }

    /// Return the parts of a range that are holes, as far as the file system reports them: at most
    /// as many extents as one answer may have.
    pub(super) fn allocation(&self, range: Range<u64>) -> Vec<Allocation> {
        let mut found = vec![];
        let mut at = range.start;
        while at < range.end && found.len() < ALLOCATIONS_MAX {
            let data = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => data.clamp(at, range.end),
                Err(Errno::NXIO) => range.end,
                // It cannot be told.
                Err(_) => at,
            };
            let (end, is_hole) = if data > at {
                (data, true)
            } else {
                let hole = seek(&self.file, SeekFrom::Hole(at)).unwrap_or(range.end);
                (hole.clamp(at + 1, range.end), false)
            };
            found.push(Allocation { length_bytes: end - at, is_hole, is_zero: is_hole });
            at = end;
        }
        found
    }

    /// Performs an operation, and waits for it.
    ///
    /// # Errors
    /// If the operating system reports an error, or the device ends within the range.
    pub(super) fn perform(&self, frames: &Frames, operation: &Operation) -> io::Result<()> {
        let length = operation.length_bytes;
        let offset = self.place(operation.offset_bytes, length)?;
        match operation.kind {
            OperationKind::Read => read(&self.file, offset, frames, operation),
            OperationKind::Write => write(&self.file, offset, frames, operation),
            OperationKind::Sync => self.file.sync_data(),
            OperationKind::Discard => {
                // A hint: a device that cannot do it keeps the bytes.
                change_space(&self.file, Space::Hole, offset, length).or(Ok(()))
            }
            // Zeroes are promised, other than a discard: if the device cannot make them, they are
            // written.
            OperationKind::Zero => change_space(&self.file, Space::Zeroes, offset, length)
                .or_else(|_| write(&self.file, offset, frames, operation)),
        }
    }
}

/// The content that a range gets without a transfer of bytes.
#[derive(Clone, Copy)]
enum Space {
    /// No space is allocated for it.
    Hole,
    /// It reads as zeroes.
    Zeroes,
}

/// Discard or zero a range of a file or a block device.
#[cfg(target_os = "linux")]
fn change_space(file: &File, space: Space, offset: u64, length: u64) -> io::Result<()> {
    let flags = match space {
        Space::Hole => FallocateFlags::PUNCH_HOLE,
        Space::Zeroes => FallocateFlags::ZERO_RANGE,
    };
    Ok(rustix::fs::fallocate(file, flags | FallocateFlags::KEEP_SIZE, offset, length)?)
}

/// Other systems have no call for this that works on files and block devices alike.
#[cfg(not(target_os = "linux"))]
fn change_space(_: &File, _: Space, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn busy(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, reason)
}

fn is_block_device(path: &Path) -> io::Result<bool> {
    Ok(std::fs::metadata(path)?.file_type().is_block_device())
}

/// Makes the name of a file durable.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Return the frames of a read, a write or a zero, each with its share of the length: those that
/// one call takes, from a multiple of the size of a frame on. A zero uses its frames again.
pub(super) fn pieces<'a>(
    frames: &'a Frames,
    operation: &'a Operation,
    done_bytes: u64,
) -> impl Iterator<Item = (*mut u8, usize)> + 'a {
    let number = |bytes: u64| usize::try_from(bytes).expect("operations are addressable");
    let (length, done) = (number(operation.length_bytes), number(done_bytes));
    let frame_bytes = frames.frame_bytes();
    let indices = done / frame_bytes..length.div_ceil(frame_bytes);
    indices.take(PIECES_MAX).map(move |index| {
        let frame = operation.frames[index % operation.frames.len()];
        let rest = length - index * frame_bytes;
        (frames.pointer(frame).as_ptr(), rest.min(frame_bytes))
    })
}

fn read(file: &File, offset: u64, frames: &Frames, operation: &Operation) -> io::Result<()> {
    let mut done_bytes = 0;
    while done_bytes < operation.length_bytes {
        let mut slices: Vec<IoSliceMut<'_>> = pieces(frames, operation, done_bytes)
            // SAFETY: the shard gave these frames to this operation alone until it is complete.
            .map(|(start, length)| unsafe { std::slice::from_raw_parts_mut(start, length) })
            .map(IoSliceMut::new)
            .collect();
        let mut slices = slices.as_mut_slice();
        while !slices.is_empty() {
            let read = retry_on_intr(|| preadv(file, slices, offset + done_bytes))?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            done_bytes += read as u64;
            IoSliceMut::advance_slices(&mut slices, read);
        }
    }
    Ok(())
}

fn write(file: &File, offset: u64, frames: &Frames, operation: &Operation) -> io::Result<()> {
    let mut done_bytes = 0;
    while done_bytes < operation.length_bytes {
        let mut slices: Vec<IoSlice<'_>> = pieces(frames, operation, done_bytes)
            // SAFETY: the shard lets nobody change these frames until the operation is complete.
            .map(|(start, length)| unsafe { std::slice::from_raw_parts(start, length) })
            .map(IoSlice::new)
            .collect();
        let mut slices = slices.as_mut_slice();
        while !slices.is_empty() {
            let written = retry_on_intr(|| pwritev(file, slices, offset + done_bytes))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            done_bytes += written as u64;
            IoSlice::advance_slices(&mut slices, written);
        }
    }
    Ok(())
}

impl DeviceFile {
    /// Fills memory, by way of a frame if direct access does not take it.
    fn read_bytes(&self, mut offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if !is_aligned(bytes) {
            let frames = Frames::new(1, bytes.len());
            self.perform(&frames, &whole(&frames, OperationKind::Read, offset, bytes.len()))?;
            bytes.copy_from_slice(frames.bytes(crate::memory::FrameId(0)));
            return Ok(());
        }
        offset = self.place(offset, bytes.len() as u64)?;
        let mut left = bytes;
        while !left.is_empty() {
            let read = retry_on_intr(|| pread(&self.file, &mut *left, offset))?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            offset += read as u64;
            left = &mut left[read..];
        }
        Ok(())
    }

    /// Writes memory, by way of a frame if direct access does not take it.
    fn write_bytes(&self, mut offset: u64, bytes: &[u8]) -> io::Result<()> {
        if !is_aligned(bytes) {
            let frames = Frames::new(1, bytes.len());
            frames.bytes_mut(crate::memory::FrameId(0)).copy_from_slice(bytes);
            return self
                .perform(&frames, &whole(&frames, OperationKind::Write, offset, bytes.len()));
        }
        offset = self.place(offset, bytes.len() as u64)?;
        let mut left = bytes;
        while !left.is_empty() {
            let written = retry_on_intr(|| pwrite(&self.file, left, offset))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            offset += written as u64;
            left = &left[written..];
        }
        Ok(())
    }
}

/// Work on several pieces at a time; return the results in the order of the pieces.
fn at_once<T: Send>(
    pieces: impl ExactSizeIterator<Item = T> + Send,
    work: impl Fn(T) -> io::Result<()> + Sync,
) -> Vec<io::Result<()>> {
    let count = pieces.len();
    if count < 2 {
        return pieces.map(work).collect();
    }
    let results: Vec<Mutex<io::Result<()>>> = (0..count).map(|_| Mutex::new(Ok(()))).collect();
    let next = Mutex::new(pieces.zip(&results));
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..count.min(PIECES_AT_ONCE) {
            scope.spawn(|| {
                while let Some((piece, result)) = take() {
                    *result.lock().unwrap_or_else(PoisonError::into_inner) = work(piece);
                }
            });
        }
    });
    drop(next);
    results.into_iter().map(|it| it.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

impl Storage for DeviceFile {
    fn size_bytes(&mut self) -> io::Result<u64> {
        Self::size_bytes(self)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_bytes(offset_bytes, bytes)
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_bytes(offset_bytes, bytes)
    }

    fn read_each(&mut self, pieces: &mut [(u64, &mut [u8])]) -> Vec<io::Result<()>> {
        at_once(pieces.iter_mut(), |(offset, bytes)| self.read_bytes(*offset, bytes))
    }

    fn write_each(&mut self, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        at_once(pieces.iter(), |(offset, bytes)| self.write_bytes(*offset, bytes))
            .into_iter()
            .collect()
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn whole(frames: &Frames, kind: OperationKind, offset_bytes: u64, length: usize) -> Operation {
    let parts = OperationParts {
        id: crate::operation::OperationId(0),
        device: crate::operation::Device::Flash,
        kind,
        offset_bytes,
        length_bytes: length as u64,
        frames: smallvec::smallvec![crate::memory::FrameId(0)],
        copies: crate::operation::Copies::Both,
        is_final: false,
    };
    Operation::of_shard(parts, frames)
}
