//! Devices served by threads that block: works everywhere.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use super::files::DeviceFile;
use super::{Allocation, Completion, Driver};
use crate::memory::Frames;
use crate::operation::{Device, DeviceError, Operation};

/// Threads that perform one operation at a time each.
pub struct ThreadDriver {
    operations: Option<Sender<Operation>>,
    completions: Receiver<Completion>,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
    /// Readable when there are completions.
    wake: Arc<OwnedFd>,
    shared: Arc<Shared>,
    /// Answers to questions about allocation, which are ready at once.
    answers: VecDeque<(u64, Vec<Allocation>)>,
}

/// State that the threads share.
struct Shared {
    frames: Arc<Frames>,
    flash: RwLock<Option<DeviceFile>>,
    backing: Option<DeviceFile>,
    operations: Mutex<Receiver<Operation>>,
    wake: Arc<OwnedFd>,
}

impl ThreadDriver {
    /// Start `threads` threads, at least one, for the shard that these frames belong to.
    ///
    /// # Errors
    /// If the system gives no more threads or file descriptors.
    pub fn new(
        frames: &Arc<Frames>,
        flash: Option<DeviceFile>,
        backing: DeviceFile,
        threads: usize,
    ) -> std::io::Result<Self> {
        Self::over(frames, flash, Some(backing), threads)
    }

    /// Return the same for the flash alone: another driver has the backing store.
    ///
    /// # Errors
    /// If the system gives no more threads or file descriptors.
    pub fn of_flash(
        frames: &Arc<Frames>,
        flash: DeviceFile,
        threads: usize,
    ) -> std::io::Result<Self> {
        Self::over(frames, Some(flash), None, threads)
    }

    fn over(
        frames: &Arc<Frames>,
        flash: Option<DeviceFile>,
        backing: Option<DeviceFile>,
        threads: usize,
    ) -> std::io::Result<Self> {
        let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
        let wake = Arc::new(rustix::event::eventfd(0, flags)?);
        let (operations, taken) = channel();
        let (done, completions) = channel();
        let shared = Arc::new(Shared {
            frames: Arc::clone(frames),
            flash: RwLock::new(flash),
            backing,
            operations: Mutex::new(taken),
            wake: Arc::clone(&wake),
        });
        let threads = (0..threads.max(1))
            .map(|number| {
                let (shared, done) = (Arc::clone(&shared), done.clone());
                std::thread::Builder::new()
                    .name(format!("device {number}"))
                    .spawn(move || shared.serve(&done))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            operations: Some(operations),
            completions,
            threads,
            in_flight: 0,
            wake,
            shared,
            answers: VecDeque::new(),
        })
    }

    /// Serves another flash from now on, and closes the one before. No operation on that is in flight.
    pub fn set_flash(&mut self, flash: DeviceFile) {
        self.put_flash(Some(flash));
    }

    fn put_flash(&self, flash: Option<DeviceFile>) {
        *self.shared.flash.write().unwrap_or_else(PoisonError::into_inner) = flash;
    }

    fn take(&mut self, completion: Completion, done: &mut Vec<Completion>) {
        self.in_flight -= 1;
        done.push(completion);
    }
}

impl Shared {
    /// Performs operations until there will be none.
    fn serve(&self, done: &Sender<Completion>) {
        loop {
            let next = self.operations.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(operation) = next else { return };
            if done.send(self.perform(operation)).is_err() {
                return;
            }
            // A full counter is readable as well.
            let _full = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        }
    }

    fn perform(&self, operation: Operation) -> Completion {
        // The lock is held as long as the operation runs: another flash must not close this file under
        // it.
        let flash = self.flash.read().unwrap_or_else(PoisonError::into_inner);
        let device = match operation.device {
            Device::Flash => flash.as_ref(),
            Device::Backing => self.backing.as_ref(),
        };
        let result = device
            .ok_or(DeviceError(std::io::ErrorKind::NotFound))
            .and_then(|device| device.perform(&self.frames, &operation).map_err(Into::into));
        (operation, result)
    }
}

impl Driver for ThreadDriver {
    fn start(&mut self, operation: Operation) {
        operation.assert_for(&self.shared.frames);
        self.in_flight += 1;
        let operations = self.operations.as_ref().expect("it is there until the driver is gone");
        operations.send(operation).expect("the threads live as long as the driver");
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let mut counter = [0; 8];
        // Before the completions are taken: one that comes later makes it readable again.
        let _empty = rustix::io::read(&*self.wake, &mut counter);
        while let Ok(completion) = self.completions.try_recv() {
            self.take(completion, done);
        }
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        if self.in_flight > 0
            && let Ok(completion) = self.completions.recv()
        {
            self.take(completion, done);
        }
        self.poll(done);
    }

    fn close_flash(&mut self) {
        self.put_flash(None);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.as_fd())
    }

    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        let backing = self.shared.backing.as_ref();
        let answer = backing.map(|backing| (tag, backing.allocation(range)));
        self.answers.extend(answer);
        backing.is_some()
    }

    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        self.answers.pop_front()
    }
}

impl Drop for ThreadDriver {
    fn drop(&mut self) {
        // The threads end with the channel. They are waited for, because the frames may go after this.
        self.operations = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _panicked = thread.join();
        }
    }
}

impl fmt::Debug for ThreadDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadDriver")
            .field("threads", &self.threads.len())
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
