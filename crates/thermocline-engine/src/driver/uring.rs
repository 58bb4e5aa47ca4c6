//! Devices served by `io_uring`.
#![expect(unsafe_code, reason = "the kernel accesses frames while operations are in flight")]

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{PollFd, PollFlags, Timespec};
use slab::Slab;

use super::files::{DeviceFile, pieces};
use super::{Allocation, Completion, Driver};
use crate::memory::Frames;
use crate::operation::{Device, DeviceError, Operation, OperationKind};

/// Operations in flight at most.
const DEPTH: u32 = 256;
/// Maximum time for which the kernel may refuse operations for lack of resources before they fail.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause of a wait before it asks the kernel again.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// One ring for both devices.
pub struct UringDriver {
    ring: IoUring,
    frames: Arc<Frames>,
    flash: Option<DeviceFile>,
    backing: Option<DeviceFile>,
    /// Operations that found the ring full.
    waiting: VecDeque<Operation>,
    /// Operations in the ring, by the number that the kernel knows them by. Each has one place in the
    /// submission queue at most, so the queue has room for all.
    in_flight: Slab<Flying>,
    /// Numbers of operations in the submission queue, in order; the kernel took those in front.
    submitted: VecDeque<usize>,
    /// Since when the kernel refuses operations.
    refused_since: Option<Instant>,
    patience: Duration,
    submit: Submit,
    /// Operations that were complete when they were started.
    failed: Vec<Completion>,
    /// Answers to questions about allocation, which are ready at once.
    answers: VecDeque<(u64, Vec<Allocation>)>,
}

/// An operation that the kernel has, with what it reads while it is at it.
struct Flying {
    /// `None` if it was reported as failed while it stood in the submission queue. The vectors are
    /// empty since, so that the kernel touches no frame when it takes the operation after all.
    operation: Option<Operation>,
    device: Device,
    /// Operation that the kernel carries out: a zero may have become a write.
    kind: OperationKind,
    /// The pieces of memory; the kernel reads them when the operation starts.
    vectors: Vec<Vector>,
    /// Start in the file.
    start_bytes: u64,
    /// Number of bytes that are done.
    done_bytes: u64,
}

/// Hands the submission queue to the kernel and waits for that many completions. Tests put a kernel that
/// refuses in its place.
type Submit = fn(&IoUring, usize) -> io::Result<usize>;

/// Consequence of the kernel's answer to a submission that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// A signal came between: ask again at once.
    Interrupted,
    /// The completion queue is full: the caller empties it.
    Overfull,
    /// Resources lack now: ask again later.
    Later,
    /// Operations that the kernel did not take fail.
    Final,
}

impl Refusal {
    /// Judges an error of `io_uring_enter`, after the kernel has refused for so long.
    fn of(error: &io::Error, refused_for: Duration, patience: Duration) -> Self {
        match error.raw_os_error() {
            Some(libc::EINTR) => Self::Interrupted,
            Some(libc::EBUSY) => Self::Overfull,
            Some(libc::EAGAIN | libc::ENOMEM) if refused_for < patience => Self::Later,
            _ => Self::Final,
        }
    }
}

/// A piece of memory as the kernel wants it.
type Vector = libc::iovec;

impl UringDriver {
    /// Create a ring for the shard that these frames belong to.
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

    /// Return the same for the flash alone: another driver has the backing store.
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
            in_flight: Slab::new(),
            submitted: VecDeque::new(),
            refused_since: None,
            patience: PATIENCE,
            submit: |ring, wanted| ring.submit_and_wait(wanted),
            failed: vec![],
            answers: VecDeque::new(),
        })
    }

    /// Serves another flash from now on, and closes the one before.
    ///
    /// # Panics
    /// If an operation on the flash is in flight.
    pub fn set_flash(&mut self, flash: DeviceFile) {
        self.assert_flash_is_free();
        self.flash = Some(flash);
    }

    fn assert_flash_is_free(&self) {
        let is_free = self.waiting.iter().all(|operation| operation.device != Device::Flash)
            && self.in_flight.iter().all(|(_, flying)| flying.device != Device::Flash);
        assert!(is_free, "nothing is in flight on the old flash");
    }

    fn device(&self, device: Device) -> Option<&DeviceFile> {
        match device {
            Device::Flash => self.flash.as_ref(),
            Device::Backing => self.backing.as_ref(),
        }
    }

    /// Return the position in its file at which an operation begins.
    fn place(&self, operation: &Operation) -> Result<u64, DeviceError> {
        let device = self.device(operation.device).ok_or(DeviceError(io::ErrorKind::NotFound))?;
        Ok(device.place(operation.offset_bytes, operation.length_bytes)?)
    }

    /// Hands waiting operations to the ring as far as it has room.
    fn push_waiting(&mut self) {
        while self.in_flight.len() < DEPTH as usize
            && let Some(operation) = self.waiting.pop_front()
        {
            let start_bytes = match self.place(&operation) {
                Ok(start_bytes) => start_bytes,
                Err(error) => {
                    self.failed.push((operation, Err(error)));
                    continue;
                }
            };
            let has_vectors = matches!(operation.kind, OperationKind::Read | OperationKind::Write);
            let vectors = if has_vectors { vectors(&self.frames, &operation, 0) } else { vec![] };
            let (device, kind) = (operation.device, operation.kind);
            let operation = Some(operation);
            let flying = Flying { operation, device, kind, vectors, start_bytes, done_bytes: 0 };
            let number = self.in_flight.insert(flying);
            self.push(number);
        }
    }

    /// Hands an operation, or what is left of it, to the ring.
    fn push(&mut self, number: usize) {
        let flying = &self.in_flight[number];
        let device = self.device(flying.device).expect("the device is there");
        let entry = entry(flying, types::Fd(device.file().as_raw_fd())).user_data(number as u64);
        // SAFETY: the vectors and frames that the entry points to live, unmoved, until its completion
        // is taken: the vectors belong to `in_flight`, and the shard keeps the frames until the
        // operation is reported; of one that is reported before, the vectors are empty.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the submission queue has room for every operation in flight");
        self.submitted.push_back(number);
    }

    /// Hands the submission queue to the kernel and waits for that many completions. Returns `true`
    /// if the kernel did that; if it did not, what it refused stays in the queue.
    fn enter(&mut self, wanted: usize) -> bool {
        loop {
            let entered = (self.submit)(&self.ring, wanted);
            let left = self.ring.submission().len();
            let taken = self.submitted.len() - left;
            self.submitted.drain(..taken);
            if taken > 0 {
                self.refused_since = None;
            }
            let Err(error) = entered else {
                self.refused_since = None;
                return true;
            };
            let since = *self.refused_since.get_or_insert_with(Instant::now);
            match Refusal::of(&error, since.elapsed(), self.patience) {
                Refusal::Interrupted => {}
                Refusal::Overfull => return true,
                Refusal::Later => return false,
                Refusal::Final => {
                    self.give_up(&error);
                    return false;
                }
            }
        }
    }

    /// Fails what the kernel did not take. Only operations that change the allocation stay, those that
    /// stand in the submission queue: nothing can make them harmless there.
    fn give_up(&mut self, error: &io::Error) {
        let failure = DeviceError(error.kind());
        self.failed.extend(self.waiting.drain(..).map(|operation| (operation, Err(failure))));
        for &number in &self.submitted {
            let flying = &mut self.in_flight[number];
            let is_fixed = matches!(flying.kind, OperationKind::Discard | OperationKind::Zero);
            if !is_fixed && let Some(operation) = flying.operation.take() {
                for vector in &mut flying.vectors {
                    vector.iov_len = 0;
                }
                self.failed.push((operation, Err(failure)));
            }
        }
    }

    /// Wait for a completion, or a moment.
    fn pause(&self) {
        let mut events = [PollFd::from_borrowed_fd(self.descriptor(), PollFlags::IN)];
        // A signal is one more reason to look.
        let _interrupted = rustix::event::poll(&mut events, Some(&PAUSE));
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's descriptor is open as long as the ring, which `self` borrows.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Takes what is complete.
    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.failed);
        let mut completed = vec![];
        completed.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
        for (number, result) in completed {
            let number = usize::try_from(number).expect("operations have small numbers");
            if self.in_flight[number].operation.is_none() {
                self.in_flight.remove(number);
            } else if let Some(result) = self.judge(number, result) {
                let flying = self.in_flight.remove(number);
                done.extend(flying.operation.map(|operation| (operation, result)));
            }
        }
    }

    /// Interpret a completion; return `None` if the rest of the operation was submitted to the
    /// ring.
    fn judge(&mut self, number: usize, result: i32) -> Option<Result<(), DeviceError>> {
        let flying = &mut self.in_flight[number];
        let kind = flying.kind;
        let operation = flying.operation.as_ref().expect("what was given up is not judged");
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
                    flying.vectors = vectors(&self.frames, operation, 0);
                    flying.kind = OperationKind::Write;
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
        if flying.done_bytes == operation.length_bytes {
            return Some(Ok(()));
        }
        // Otherwise the rest would be submitted again for ever, beyond the end of the file.
        if moved == 0 {
            return Some(Err(DeviceError(io::ErrorKind::UnexpectedEof)));
        }
        skip(&mut flying.vectors, moved);
        if flying.vectors.is_empty() {
            flying.vectors = vectors(&self.frames, operation, flying.done_bytes);
        }
        self.push(number);
        None
    }
}

/// Return the pieces of memory of an operation that the kernel takes at once, from a multiple of a
/// frame on.
fn vectors(frames: &Frames, operation: &Operation, done_bytes: u64) -> Vec<Vector> {
    let pieces = pieces(frames, operation, done_bytes);
    pieces.map(|(start, length)| Vector { iov_base: start.cast(), iov_len: length }).collect()
}

/// Return the ring's entry for an operation.
fn entry(flying: &Flying, file: types::Fd) -> squeue::Entry {
    let Flying { operation, vectors, start_bytes, done_bytes, .. } = flying;
    let operation = operation.as_ref().expect("what was given up is not handed over again");
    let offset = start_bytes + done_bytes;
    let count = u32::try_from(vectors.len()).expect("operations have few frames");
    match flying.kind {
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
        operation.assert_for(&self.frames);
        self.waiting.push_back(operation);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.push_waiting();
        // Completions lie in shared memory, so a poll without new operations costs no system call.
        if !self.ring.submission().is_empty() {
            self.enter(0);
        }
        self.reap(done);
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        loop {
            self.push_waiting();
            let is_refused = !self.in_flight.is_empty() && self.failed.is_empty() && !self.enter(1);
            self.reap(done);
            let is_awaited = self.in_flight.iter().any(|(_, flying)| flying.operation.is_some());
            if done.len() > before || (!is_awaited && self.waiting.is_empty()) {
                return;
            }
            if is_refused {
                self.pause();
            }
        }
    }

    fn close_flash(&mut self) {
        self.assert_flash_is_free();
        self.flash = None;
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor())
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
    /// Waits until the kernel is done with the frames, before they may go.
    fn drop(&mut self) {
        let mut done = vec![];
        self.waiting.clear();
        // Entries of the submission queue vanish with the ring: the kernel never took them.
        while !self.in_flight.is_empty() {
            let is_refused = !self.enter(1);
            self.reap(&mut done);
            if is_refused && self.in_flight.len() == self.submitted.len() {
                return;
            }
            if is_refused {
                self.pause();
            }
        }
    }
}

// SAFETY: the pointers in the vectors lead to frames, which may be accessed from any thread.
unsafe impl Send for UringDriver {}

impl fmt::Debug for UringDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringDriver")
            .field("in_flight", &self.in_flight.len())
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::driver::files::Caching;
    use crate::memory::FrameId;
    use crate::operation::{OperationId, OperationParts};

    const PAGE: u64 = 4096;
    const PAGE_BYTES: usize = 4096;

    fn refuse(_: &IoUring, _: usize) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(libc::EAGAIN))
    }

    fn operation(pool: &Frames, id: u32, kind: OperationKind, frame: u32) -> Operation {
        let frames = [FrameId(frame)].into_iter().collect();
        let (device, offset_bytes) = (Device::Backing, u64::from(id) * PAGE);
        let (id, length_bytes) = (OperationId(id), PAGE);
        let (copies, is_final) = (crate::operation::Copies::Both, false);
        let parts = OperationParts {
            id,
            device,
            kind,
            offset_bytes,
            length_bytes,
            frames,
            copies,
            is_final,
        };
        Operation::of_shard(parts, pool)
    }

    fn fill(frames: &Frames, frame: u32, byte: u8) {
        let read = operation(frames, 0, OperationKind::Read, frame);
        // SAFETY: no operation of a test that fills a frame is in flight on it.
        unsafe { read.scatter(frames, 0, &[byte; PAGE_BYTES]) };
    }

    fn bytes(frames: &Frames, frame: u32) -> Vec<u8> {
        let mut bytes = vec![];
        let read = operation(frames, 0, OperationKind::Read, frame);
        // SAFETY: the operations on a frame are complete when a test looks at it.
        unsafe { read.gather(frames, 0..PAGE, &mut bytes) };
        bytes
    }

    /// Return a ring over a file of 1024 pages of ones; nothing if the kernel has no `io_uring`.
    fn driver(frames: &Arc<Frames>, folder: &std::path::Path) -> Option<(UringDriver, File)> {
        let path = folder.join("disk");
        std::fs::write(&path, vec![1; 1024 << 12]).unwrap();
        let backing = DeviceFile::open(&path, Caching::Buffered).unwrap();
        let driver = UringDriver::new(frames, None, backing).ok()?;
        Some((driver, File::open(&path).unwrap()))
    }

    #[test]
    fn every_refusal_of_the_kernel_is_judged() {
        let (soon, late) = (Duration::from_secs(1), Duration::from_secs(30));
        for (errno, at_first, at_last) in [
            (libc::EINTR, Refusal::Interrupted, Refusal::Interrupted),
            (libc::EBUSY, Refusal::Overfull, Refusal::Overfull),
            (libc::EAGAIN, Refusal::Later, Refusal::Final),
            (libc::ENOMEM, Refusal::Later, Refusal::Final),
            (libc::EBADF, Refusal::Final, Refusal::Final),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(Refusal::of(&error, soon, PATIENCE), at_first, "{error}");
            assert_eq!(Refusal::of(&error, late, PATIENCE), at_last, "{error}");
        }
    }

    #[test]
    fn a_kernel_that_refuses_for_a_while_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let frames = Frames::new(600, PAGE_BYTES);
        let Some((mut driver, file)) = driver(&frames, folder.path()) else { return };
        driver.submit = refuse;
        // More than the ring holds.
        for id in 0..600 {
            fill(&frames, id, 7);
            driver.start(operation(&frames, id, OperationKind::Write, id));
        }
        let mut done = vec![];
        for _ in 0..3 {
            driver.poll(&mut done);
        }
        assert_eq!(done, []);
        driver.submit = |ring, wanted| ring.submit_and_wait(wanted);
        while done.len() < 600 {
            driver.wait(&mut done);
        }
        done.sort_by_key(|(operation, _)| operation.id);
        assert!(
            (0..).zip(&done).all(|(id, done)| (done.0.id, done.1) == (OperationId(id), Ok(())))
        );
        let mut written = vec![0; 600 << 12];
        file.read_exact_at(&mut written, 0).unwrap();
        assert!(written.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn what_the_kernel_refuses_for_long_fails_and_leaves_the_frames_alone() {
        let folder = tempfile::tempdir().unwrap();
        let frames = Frames::new(1024, PAGE_BYTES);
        let Some((mut driver, file)) = driver(&frames, folder.path()) else { return };
        driver.submit = refuse;
        driver.patience = Duration::ZERO;
        let kinds = [OperationKind::Read, OperationKind::Write, OperationKind::Sync];
        for id in 0..600_u32 {
            fill(&frames, id, 7);
            driver.start(operation(&frames, id, kinds[id as usize % 3], id));
        }
        let mut done = vec![];
        while done.len() < 600 {
            driver.wait(&mut done);
        }
        let failure = Err(DeviceError(io::ErrorKind::WouldBlock));
        assert!(done.iter().all(|(_, result)| *result == failure));
        // Nothing is waited for, and nothing is reported twice.
        done.clear();
        driver.wait(&mut done);
        assert_eq!(done, []);
        driver.submit = |ring, wanted| ring.submit_and_wait(wanted);
        for id in 0..600 {
            driver.start(operation(&frames, id, OperationKind::Read, 1000));
        }
        while done.len() < 600 {
            driver.wait(&mut done);
        }
        assert!(done.iter().all(|(_, result)| result.is_ok()));
        assert_eq!(bytes(&frames, 1000), [1; PAGE_BYTES]);
        for frame in 0..600 {
            assert_eq!(bytes(&frames, frame), [7; PAGE_BYTES], "frame {frame}");
        }
        let mut on_disk = vec![0; 600 << 12];
        file.read_exact_at(&mut on_disk, 0).unwrap();
        assert!(on_disk.iter().all(|&byte| byte == 1), "no failed write came through");
    }
}
