//! Devices served by `io_uring`.
#![expect(unsafe_code, reason = "the kernel accesses frames while operations are in flight")]

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};

use super::files::{DeviceFile, pieces};
use super::{Allocation, Completion, Driver};
use crate::memory::Frames;
use crate::operation::{Device, DeviceError, Operation, OperationKind};

/// Operations in flight at most.
const DEPTH: u32 = 256;

/// One ring for both devices.
pub struct UringDriver {
    ring: IoUring,
    frames: Arc<Frames>,
    flash: Option<DeviceFile>,
    backing: Option<DeviceFile>,
    /// Operations that found the ring full.
    waiting: VecDeque<Operation>,
    /// Operations that the kernel has, by their number.
    in_flight: Vec<Option<Flying>>,
    count: usize,
    /// Operations that were complete when they were started.
    failed: Vec<Completion>,
    /// What was asked about allocation is answered at once.
    answers: VecDeque<(u64, Vec<Allocation>)>,
}

/// An operation that the kernel has, with what it reads while it is at it.
struct Flying {
    operation: Operation,
    /// The pieces of memory; the kernel reads them when the operation starts.
    vectors: Vec<Vector>,
    /// How many bytes are done.
    done_bytes: u64,
}

/// A piece of memory as the kernel wants it.
type Vector = libc::iovec;

impl UringDriver {
    /// A ring for the shard that these frames belong to.
    ///
    /// # Errors
    /// If the kernel has no `io_uring`, or forbids it.
    pub fn new(
        frames: &Arc<Frames>,
        flash: Option<DeviceFile>,
        backing: DeviceFile,
    ) -> io::Result<Self> {
        Self::over(frames, flash, Some(backing))
    }

    /// The same for the flash alone: another driver has the backing store.
    ///
    /// # Errors
    /// If the kernel has no `io_uring`, or forbids it.
    pub fn of_flash(frames: &Arc<Frames>, flash: DeviceFile) -> io::Result<Self> {
        Self::over(frames, Some(flash), None)
    }

    fn over(
        frames: &Arc<Frames>,
        flash: Option<DeviceFile>,
        backing: Option<DeviceFile>,
    ) -> io::Result<Self> {
        Ok(Self {
            ring: IoUring::new(DEPTH)?,
            frames: Arc::clone(frames),
            flash,
            backing,
            waiting: VecDeque::new(),
            in_flight: vec![],
            count: 0,
            failed: vec![],
            answers: VecDeque::new(),
        })
    }

    fn file(&self, device: Device) -> Option<RawFd> {
        let file = match device {
            Device::Flash => &self.flash,
            Device::Backing => &self.backing,
        };
        file.as_ref().map(|file| file.file().as_raw_fd())
    }

    /// Hands waiting operations to the ring as far as it has room.
    fn push_waiting(&mut self) {
        while self.count < DEPTH as usize
            && let Some(operation) = self.waiting.pop_front()
        {
            if self.file(operation.device).is_none() {
                self.failed.push((operation.id, Err(DeviceError(io::ErrorKind::NotFound))));
                continue;
            }
            let vectors = pieces(&self.frames, &operation)
                .map(|(start, length)| Vector { iov_base: start.cast(), iov_len: length })
                .collect();
            let number = operation.id.0 as usize;
            if self.in_flight.len() <= number {
                self.in_flight.resize_with(number + 1, || None);
            }
            self.in_flight[number] = Some(Flying { operation, vectors, done_bytes: 0 });
            self.count += 1;
            self.push(number);
        }
    }

    /// Hands an operation, or what is left of it, to the ring.
    fn push(&mut self, number: usize) {
        let flying = self.in_flight[number].as_ref().expect("the operation is in flight");
        let file = self.file(flying.operation.device).expect("the device is there");
        let entry = entry(flying, types::Fd(file)).user_data(number as u64);
        loop {
            // SAFETY: the vectors and frames that the entry points to live, unmoved, until its
            // completion is taken: both belong to `in_flight`, and the shard keeps the frames.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            // The queue is full: the kernel takes what is there.
            self.enter(0);
        }
    }

    fn enter(&mut self, wanted: usize) {
        loop {
            match self.ring.submit_and_wait(wanted) {
                Ok(_) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The completion queue is full: it is emptied by whoever called.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return,
                Err(error) => panic!("io_uring takes what it was given: {error}"),
            }
        }
    }

    /// Takes what is complete.
    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.failed);
        let mut completed = vec![];
        completed.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
        for (number, result) in completed {
            let number = usize::try_from(number).expect("operations have small numbers");
            if let Some(result) = self.judge(number, result) {
                let flying = self.in_flight[number].take().expect("the operation is in flight");
                self.count -= 1;
                done.push((flying.operation.id, result));
            }
        }
    }

    /// What a completion means; none if the rest of the operation was handed to the ring.
    fn judge(&mut self, number: usize, result: i32) -> Option<Result<(), DeviceError>> {
        let flying = self.in_flight[number].as_mut().expect("the operation is in flight");
        let kind = flying.operation.kind;
        let Ok(moved) = u64::try_from(result) else {
            let error = io::Error::from_raw_os_error(-result);
            let is_transient =
                matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock);
            if is_transient {
                self.push(number);
                return None;
            }
            return match kind {
                // A device that cannot discard keeps the bytes.
                OperationKind::Discard => Some(Ok(())),
                // One that cannot zero is written zeroes.
                OperationKind::Zero => {
                    flying.operation.kind = OperationKind::Write;
                    self.push(number);
                    None
                }
                OperationKind::Read | OperationKind::Write | OperationKind::Sync => {
                    Some(Err(error.into()))
                }
            };
        };
        if !matches!(kind, OperationKind::Read | OperationKind::Write) {
            return Some(Ok(()));
        }
        flying.done_bytes += moved;
        if flying.done_bytes == flying.operation.length_bytes {
            return Some(Ok(()));
        }
        if moved == 0 {
            return Some(Err(DeviceError(io::ErrorKind::UnexpectedEof)));
        }
        skip(&mut flying.vectors, moved);
        self.push(number);
        None
    }
}

/// What the kernel is asked for.
fn entry(flying: &Flying, file: types::Fd) -> squeue::Entry {
    let Flying { operation, vectors, done_bytes } = flying;
    let offset = operation.offset_bytes + done_bytes;
    let count = u32::try_from(vectors.len()).expect("operations have few frames");
    match operation.kind {
        OperationKind::Read => {
            opcode::Readv::new(file, vectors.as_ptr(), count).offset(offset).build()
        }
        OperationKind::Write => {
            opcode::Writev::new(file, vectors.as_ptr(), count).offset(offset).build()
        }
        OperationKind::Sync => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
        OperationKind::Discard => opcode::Fallocate::new(file, operation.length_bytes)
            .offset(offset)
            .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
            .build(),
        OperationKind::Zero => opcode::Fallocate::new(file, operation.length_bytes)
            .offset(offset)
            .mode(libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE)
            .build(),
    }
}

/// Passes over bytes that are done.
fn skip(vectors: &mut Vec<Vector>, bytes: u64) {
    let mut left = usize::try_from(bytes).expect("operations fit memory");
    while left > 0 && !vectors.is_empty() {
        let first = &mut vectors[0];
        if left >= first.iov_len {
            left -= first.iov_len;
            vectors.remove(0);
        } else {
            first.iov_base = first.iov_base.wrapping_byte_add(left);
            first.iov_len -= left;
            left = 0;
        }
    }
}

impl Driver for UringDriver {
    fn start(&mut self, operation: Operation) {
        self.waiting.push_back(operation);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.push_waiting();
        if !self.ring.submission().is_empty() {
            self.enter(0);
        }
        self.reap(done);
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.push_waiting();
        if self.count > 0 && self.failed.is_empty() {
            self.enter(1);
        }
        self.reap(done);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the ring's descriptor is open as long as the ring, which `self` borrows.
        Some(unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) })
    }

    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        let backing = self.backing.as_ref();
        let answer = backing.map(|backing| (tag, backing.allocation(range)));
        self.answers.extend(answer);
        backing.is_some()
    }

    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        self.answers.pop_front()
    }
}

impl Drop for UringDriver {
    /// The kernel must be done with the frames before they may go.
    fn drop(&mut self) {
        let mut done = vec![];
        self.waiting.clear();
        while self.count > 0 {
            self.enter(1);
            self.reap(&mut done);
        }
    }
}

// SAFETY: the pointers in the vectors lead to frames, which may be accessed from any thread.
unsafe impl Send for UringDriver {}

impl fmt::Debug for UringDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringDriver")
            .field("in_flight", &self.count)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
