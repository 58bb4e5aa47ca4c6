//! Drivers of several shards on the same devices: their syncs are joined.
//!
//! Each shard has a driver of its own; whatever it does but syncs goes to that. Syncs are performed by one
//! thread per device ([`JointSyncs`]), as [`SharedSyncs`] says. Whoever writes to a device beside a driver,
//! as the end of a start does, uses a [`JointFile`].

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::files::DeviceFile;
use super::{Allocation, Completion, Driver};
use crate::operation::{Device, DeviceError, Operation, OperationKind};
use crate::sharding::SharedSyncs;
use crate::storage::Storage;

/// Maximum sleep of a wait: drivers may have to give up operations that are not answered.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The syncs of one device, for all who write to it. A thread performs them, until nobody is left who may
/// ask for one.
#[derive(Debug)]
pub struct JointSyncs(Arc<Hub>);

/// One of those who write to a device, as long as it does.
#[derive(Debug)]
pub struct JointMember {
    syncs: JointSyncs,
    number: usize,
    /// Readable when a sync of its is done.
    wake: Arc<OwnedFd>,
}

impl JointMember {
    fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    fn ask(&self) {
        self.syncs.0.lock().syncs.ask(self.number);
        self.syncs.0.has_changed.notify_one();
    }

    /// Hands the results of syncs to `take`, those asked for first.
    fn take(&self, take: impl FnMut(Result<(), DeviceError>)) {
        // Under the lock, so that no result comes between, and its signal stays behind.
        let mut state = self.syncs.0.lock();
        let mut counter = [0; 8];
        let _empty = rustix::io::read(self.wake(), &mut counter);
        state.results[self.number].waiting.drain(..).for_each(take);
    }
}

impl Drop for JointMember {
    fn drop(&mut self) {
        self.syncs.0.lock().syncs.leave(self.number);
    }
}

impl JointSyncs {
    /// Return another member, for one driver or file that begins to write to the device. It leaves when it
    /// is dropped.
    ///
    /// # Errors
    /// If the system gives no more file descriptors.
    pub fn join(&self) -> io::Result<JointMember> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let wake = Arc::new(eventfd(0, flags)?);
        let syncs = self.clone();
        let mut state = self.0.lock();
        let number = state.syncs.join();
        // Results that the former owner of the number did not take are dropped.
        let results = Results { waiting: VecDeque::new(), wake: Arc::clone(&wake) };
        match state.results.get_mut(number) {
            Some(former) => *former = results,
            None => state.results.push(results),
        }
        drop(state);
        Ok(JointMember { syncs, number, wake })
    }

    /// Starts the thread that syncs this device, for nobody yet.
    ///
    /// # Errors
    /// If the system gives no more threads or file descriptors.
    pub fn start(file: &DeviceFile) -> io::Result<Self> {
        let state = State { syncs: SharedSyncs::default(), results: vec![], holders: 1 };
        let hub = Arc::new(Hub { state: Mutex::new(state), has_changed: Condvar::new() });
        let (served, file) = (Arc::clone(&hub), file.try_clone()?);
        thread::Builder::new().name("sync".into()).spawn(move || served.serve(&file))?;
        Ok(Self(hub))
    }
}

impl Clone for JointSyncs {
    fn clone(&self) -> Self {
        self.0.lock().holders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for JointSyncs {
    fn drop(&mut self) {
        self.0.lock().holders -= 1;
        self.0.has_changed.notify_one();
    }
}

/// State that the thread and the drivers share.
#[derive(Debug)]
struct Hub {
    state: Mutex<State>,
    has_changed: Condvar,
}

#[derive(Debug)]
struct State {
    syncs: SharedSyncs,
    /// Per member.
    results: Vec<Results>,
    /// Number of handles that may still ask.
    holders: usize,
}

/// Results of the syncs of a member.
#[derive(Debug)]
struct Results {
    /// Results that it has not taken, in the order in which it asked.
    waiting: VecDeque<Result<(), DeviceError>>,
    /// Readable when there are any.
    wake: Arc<OwnedFd>,
}

impl Hub {
    fn serve(&self, file: &DeviceFile) {
        loop {
            let mut state = self.lock();
            while !state.syncs.begin() {
                if state.holders == 0 {
                    return;
                }
                state = self.has_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            // Without the lock: a sync may take long, and others ask for the next one meanwhile.
            let synced = rustix::fs::fdatasync(file.file());
            let failure = synced.map_err(|error| DeviceError(io::Error::from(error).kind()));
            let mut state = self.lock();
            let State { syncs, results, .. } = &mut *state;
            syncs.done(failure.is_ok(), |shard, count, is_durable| {
                let failed = || failure.err().unwrap_or(DeviceError(io::ErrorKind::Other));
                let result = if is_durable { Ok(()) } else { Err(failed()) };
                let Results { waiting, wake } = &mut results[shard];
                waiting.extend(std::iter::repeat_n(result, count));
                // A full counter is readable as well.
                let _full = rustix::io::write(wake, &1_u64.to_ne_bytes());
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device of several members, whose syncs are joined.
#[derive(Debug)]
pub struct JointFile {
    file: DeviceFile,
    member: JointMember,
}

impl JointFile {
    /// Join a device file as a member.
    pub const fn new(file: DeviceFile, member: JointMember) -> Self {
        Self { file, member }
    }
}

impl Storage for JointFile {
    fn size_bytes(&mut self) -> io::Result<u64> {
        self.file.size_bytes()
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset_bytes, bytes)
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset_bytes, bytes)
    }

    fn read_each(&mut self, pieces: &mut [(u64, &mut [u8])]) -> Vec<io::Result<()>> {
        self.file.read_each(pieces)
    }

    fn write_each(&mut self, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        self.file.write_each(pieces)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.member.ask();
        loop {
            let mut answer = None;
            self.member.take(|result| answer = Some(result));
            if let Some(result) = answer {
                return result.map_err(|DeviceError(kind)| kind.into());
            }
            let wake = self.member.wake();
            let mut events = [PollFd::from_borrowed_fd(wake, PollFlags::IN)];
            // A signal is one more reason to look.
            let _interrupted = poll(&mut events, Some(&LOOK));
        }
    }
}

/// The driver of one of several shards on the same devices.
pub struct JointDriver<D> {
    inner: D,
    /// The syncs of the flash and of the backing store, where they are joined.
    syncs: [Option<JointMember>; 2],
    /// Per device: syncs that are not done, the first one in front.
    waiting: [VecDeque<Operation>; 2],
    /// Operations of the inner driver.
    in_flight: usize,
    /// Readable when something is done here or there.
    wake: OwnedFd,
    can_sleep: bool,
}

impl<D: Driver> JointDriver<D> {
    /// Return the driver of a shard. The inner one has its region of the flash, and the backing store; it
    /// performs the syncs of a device that has no other members.
    ///
    /// # Errors
    /// If the system gives no more file descriptors.
    pub fn new(
        inner: D,
        flash: Option<JointMember>,
        backing: Option<JointMember>,
    ) -> io::Result<Self> {
        let wake = epoll::create(CreateFlags::CLOEXEC)?;
        let inner_fd = inner.wake_fd();
        let synced = [&flash, &backing].into_iter().flatten().map(JointMember::wake);
        for descriptor in synced.chain(inner_fd) {
            epoll::add(&wake, descriptor, EventData::new_u64(0), EventFlags::IN)?;
        }
        let can_sleep = inner_fd.is_some();
        Ok(Self {
            inner,
            syncs: [flash, backing],
            waiting: Default::default(),
            in_flight: 0,
            wake,
            can_sleep,
        })
    }

    /// Sync another flash from now on. No sync of the one before is under way, and the inner driver
    /// gets the region of the new one.
    ///
    /// # Errors
    /// If the operating system reports an error.
    ///
    /// # Panics
    /// If a sync of the flash is under way.
    pub fn set_flash_syncs(&mut self, flash: JointMember) -> io::Result<()> {
        assert!(
            self.waiting[Device::Flash as usize].is_empty(),
            "no sync of the flash is under way"
        );
        epoll::add(&self.wake, flash.wake(), EventData::new_u64(0), EventFlags::IN)?;
        if let Some(former) = self.syncs[Device::Flash as usize].replace(flash) {
            epoll::delete(&self.wake, former.wake())?;
        }
        Ok(())
    }

    /// Return the driver that performs what is no sync.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// Return the driver that performs what is no sync, to be changed.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn take_synced(&mut self, done: &mut Vec<Completion>) {
        for (syncs, waiting) in self.syncs.iter().zip(&mut self.waiting) {
            let Some(member) = syncs.as_ref().filter(|_| !waiting.is_empty()) else { continue };
            member.take(|result| {
                let operation = waiting.pop_front().expect("a sync that was asked for is answered");
                done.push((operation, result));
            });
        }
    }
}

impl<D: Driver> Driver for JointDriver<D> {
    fn start(&mut self, operation: Operation) {
        let device = operation.device as usize;
        match &self.syncs[device] {
            Some(member) if operation.kind == OperationKind::Sync => {
                member.ask();
                self.waiting[device].push_back(operation);
            }
            _ => {
                self.in_flight += 1;
                self.inner.start(operation);
            }
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        self.inner.poll(done);
        self.in_flight -= done.len() - before;
        self.take_synced(done);
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        loop {
            self.poll(done);
            let is_waiting = self.waiting.iter().any(|waiting| !waiting.is_empty());
            if done.len() > before || (self.in_flight == 0 && !is_waiting) {
                return;
            }
            if self.can_sleep {
                let mut events = [const { MaybeUninit::<Event>::uninit() }; 1];
                // A signal is one more reason to look.
                let _interrupted = epoll::wait(&self.wake, &mut events[..], Some(&LOOK));
            }
        }
    }

    fn close_flash(&mut self) {
        self.inner.close_flash();
        // Results of syncs of the flash come no more.
        if let Some(former) = self.syncs[Device::Flash as usize].take() {
            let _is_closed_with_it = epoll::delete(&self.wake, former.wake());
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.can_sleep.then(|| self.wake.as_fd())
    }

    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        self.inner.ask_allocation(tag, range)
    }

    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        self.inner.next_allocation()
    }
}

impl<D: fmt::Debug> fmt::Debug for JointDriver<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JointDriver").field("inner", &self.inner).finish_non_exhaustive()
    }
}
