//! The [`Disk`] as a mounted file system, past the kernel's page cache.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::disk::{Access, Answer, Disk, VolatileFile};

/// The kernel asks for names and sizes each time.
const NO_TIME: Duration = Duration::ZERO;
/// Files are opened past the page cache, and may be written by several threads at once.
const OPENED: FopenFlags =
    FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

/// Modes of `fallocate`.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

/// A mounted disk. Dropping it unmounts it.
#[derive(Debug)]
pub(crate) struct Mount {
    shared: Arc<Mutex<Shared>>,
    path: PathBuf,
    session: Option<BackgroundSession>,
}

#[derive(Debug)]
struct Shared {
    disk: Disk,
    /// Operations without an answer so far.
    held: Vec<Operation>,
}

impl Mount {
    /// Mounts a disk at a folder.
    ///
    /// # Errors
    /// If this machine has no FUSE, or the kernel refuses to mount.
    pub(crate) fn new(disk: Disk, path: &Path) -> Result<Self> {
        ensure!(
            Path::new("/dev/fuse").exists(),
            "/dev/fuse is missing: load the kernel module `fuse`, or give the container that device"
        );
        let shared = Arc::new(Mutex::new(Shared { disk, held: vec![] }));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("thermocline-torture".to_owned())];
        let session =
            fuser::spawn_mount(Folder(Arc::clone(&shared)), path, &config).with_context(|| {
                format!(
                    "cannot mount FUSE at `{}`: run it as root, or install `fusermount3` (Debian \
                     package fuse3)",
                    path.display()
                )
            })?;
        Ok(Self { shared, path: path.to_owned(), session: Some(session) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at the disk, or changes it.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Disk) -> T) -> T {
        work(&mut lock(&self.shared).disk)
    }

    /// Clears all faults, and performs the operations that hang.
    pub(crate) fn heal(&self) {
        let shared = &mut *lock(&self.shared);
        shared.disk.is_full = false;
        let numbers: Vec<_> = shared.disk.names().values().copied().collect();
        for number in numbers {
            if let Some(file) = shared.disk.file_mut(number) {
                file.fault = None;
            }
        }
        for operation in std::mem::take(&mut shared.held) {
            operation.perform(&mut shared.disk);
        }
    }

    /// Turns the power off: from now on, open files fail and nothing reaches them.
    pub(crate) fn turn_off(&self) {
        let shared = &mut *lock(&self.shared);
        shared.disk.is_off = true;
        shared.disk.generation += 1;
        for operation in std::mem::take(&mut shared.held) {
            operation.fail(Errno::EIO);
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.heal();
        if let Some(session) = self.session.take() {
            // A process that still has a file open keeps the mount; it goes with that process.
            drop(session.umount_and_join());
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation on a file that may have to wait for its answer.
#[derive(Debug)]
enum Operation {
    Read { number: u64, offset: usize, length: usize, reply: ReplyData },
    Write { number: u64, offset: usize, bytes: Vec<u8>, reply: ReplyWrite },
    Allocate { number: u64, offset: usize, length: usize, mode: i32, reply: ReplyEmpty },
    Sync { number: u64, reply: ReplyEmpty },
}

impl Operation {
    fn target(&self) -> (u64, Access, Range<u64>) {
        let range = |offset: usize, length: usize| offset as u64..(offset + length) as u64;
        match self {
            Self::Read { number, offset, length, .. } => {
                (*number, Access::Read, range(*offset, *length))
            }
            Self::Write { number, offset, bytes, .. } => {
                (*number, Access::Write, range(*offset, bytes.len()))
            }
            Self::Allocate { number, offset, length, .. } => {
                (*number, Access::Write, range(*offset, *length))
            }
            Self::Sync { number, .. } => (*number, Access::Sync, 0..0),
        }
    }

    fn fail(self, error: Errno) {
        match self {
            Self::Read { reply, .. } => reply.error(error),
            Self::Write { reply, .. } => reply.error(error),
            Self::Allocate { reply, .. } | Self::Sync { reply, .. } => reply.error(error),
        }
    }

    fn perform(self, disk: &mut Disk) {
        let (number, ..) = self.target();
        let Some(file) = disk.file_mut(number) else { return self.fail(Errno::EIO) };
        match self {
            Self::Read { offset, length, reply, .. } => reply.data(file.read(offset, length)),
            Self::Write { offset, bytes, reply, .. } => {
                file.write(offset, &bytes);
                reply.written(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            }
            Self::Allocate { offset, length, mode, reply, .. } => {
                let end = offset + length;
                match mode & !KEEP_SIZE {
                    0 if mode & KEEP_SIZE == 0 && end > file.bytes().len() => file.resize(end),
                    0 => {}
                    PUNCH_HOLE | ZERO_RANGE => {
                        let reached = file.read(offset, length).len();
                        file.write(offset, &vec![0; reached]);
                    }
                    _ => return reply.error(Errno::EOPNOTSUPP),
                }
                reply.ok();
            }
            Self::Sync { reply, .. } => {
                file.sync();
                reply.ok();
            }
        }
    }
}

/// Folder that the kernel talks to.
struct Folder(Arc<Mutex<Shared>>);

impl Folder {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.0)
    }

    /// Performs an operation of an open file, or does what the file's fault says.
    fn take(&self, handle: FileHandle, operation: Operation) {
        let shared = &mut *self.lock();
        if shared.disk.is_off || handle.0 != shared.disk.generation {
            return operation.fail(Errno::EIO);
        }
        let (number, access, range) = operation.target();
        match shared.disk.hit(number, access, &range) {
            None => operation.perform(&mut shared.disk),
            Some(Answer::Io) => operation.fail(Errno::EIO),
            Some(Answer::NoSpace) => operation.fail(Errno::ENOSPC),
            Some(Answer::Hang) => shared.held.push(operation),
        }
    }

    /// Return the disk, if names may be changed now.
    fn names(&self) -> Result<MutexGuard<'_, Shared>, Errno> {
        let shared = self.lock();
        if shared.disk.is_off { Err(Errno::EIO) } else { Ok(shared) }
    }
}

fn attributes(number: u64, size_bytes: usize, kind: FileType) -> FileAttr {
    let size = size_bytes as u64;
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: if kind == FileType::Directory { 0o700 } else { 0o600 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn attributes_of(disk: &Disk, number: u64) -> Option<FileAttr> {
    if INodeNo(number) == INodeNo::ROOT {
        return Some(attributes(number, 0, FileType::Directory));
    }
    let file = disk.file(number)?;
    Some(attributes(number, file.bytes().len(), FileType::RegularFile))
}

fn text(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EINVAL)
}

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Filesystem for Folder {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it, the kernel does one transfer of a ring after the other.
        if config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).is_err() {
            return Err(io::Error::other("the kernel's FUSE has no asynchronous direct transfers"));
        }
        Ok(())
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = &self.lock().disk;
        let found = name.to_str().and_then(|name| attributes_of(disk, disk.number(name)?));
        match found {
            Some(found) => reply.entry(&NO_TIME, &found, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match attributes_of(&self.lock().disk, number.0) {
            Some(found) => reply.attr(&NO_TIME, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _mode: Option<u32>,
        _user: Option<u32>,
        _group: Option<u32>,
        size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_too: Option<SystemTime>,
        _backup: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut shared = match self.names() {
            Ok(shared) => shared,
            Err(error) => return reply.error(error),
        };
        if let (Some(size), Some(file)) = (size, shared.disk.file_mut(number.0)) {
            file.resize(place(size));
        }
        match attributes_of(&shared.disk, number.0) {
            Some(found) => reply.attr(&NO_TIME, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn unlink(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.names().and_then(|mut shared| {
            shared.disk.remove(text(name)?).then_some(()).ok_or(Errno::ENOENT)
        });
        answer(reply, removed);
    }

    fn rename(
        &self,
        _request: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _new_parent: INodeNo,
        new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.names().and_then(|mut shared| {
            let is_there = shared.disk.rename(text(name)?, text(new_name)?);
            is_there.then_some(()).ok_or(Errno::ENOENT)
        });
        answer(reply, renamed);
    }

    fn create(
        &self,
        _request: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let created = self.names().and_then(|mut shared| {
            if shared.disk.is_full {
                return Err(Errno::ENOSPC);
            }
            let number = shared.disk.create(text(name)?, VolatileFile::default());
            let found = attributes_of(&shared.disk, number).ok_or(Errno::EIO)?;
            Ok((found, FileHandle(shared.disk.generation)))
        });
        match created {
            Ok((found, handle)) => reply.created(&NO_TIME, &found, Generation(0), handle, OPENED),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let shared = self.lock();
        if shared.disk.is_off {
            reply.error(Errno::EIO);
        } else if shared.disk.file(number.0).is_some() {
            reply.opened(FileHandle(shared.disk.generation), OPENED);
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn read(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (offset, length) = (place(offset), place(size.into()));
        self.take(handle, Operation::Read { number: number.0, offset, length, reply });
    }

    fn write(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (offset, bytes) = (place(offset), data.to_vec());
        self.take(handle, Operation::Write { number: number.0, offset, bytes, reply });
    }

    fn flush(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        _is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.take(handle, Operation::Sync { number: number.0, reply });
    }

    fn readdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let shared = self.lock();
        let entries = shared.disk.names().iter().zip(1..).skip(place(offset));
        for ((name, &number), next) in entries {
            if reply.add(INodeNo(number), next, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.names().map(|mut shared| shared.disk.sync_names()));
    }

    fn fallocate(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (offset, length) = (place(offset), place(length));
        let operation = Operation::Allocate { number: number.0, offset, length, mode, reply };
        self.take(handle, operation);
    }
}

fn answer(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}
