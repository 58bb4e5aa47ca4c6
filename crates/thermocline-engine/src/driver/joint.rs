//! Drivers of several shards on the same devices: their syncs are joined.
//!
//! Each shard has a driver of its own; whatever it does but syncs goes to that. Syncs are performed by one
//! thread per device ([`JointSyncs`]), as [`SharedSyncs`] says.

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
use rustix::event::{EventfdFlags, eventfd};

use super::files::DeviceFile;
use super::{Allocation, Completion, Driver};
use crate::operation::{Device, DeviceError, Operation, OperationKind};
use crate::sharding::SharedSyncs;

/// Maximum sleep of a wait: drivers may have to give up operations that are not answered.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The syncs of one device, for the drivers of several shards. A thread performs them, until nobody is
/// left who may ask for one.
#[derive(Debug)]
pub struct JointSyncs(Arc<Hub>);

impl JointSyncs {
    /// Starts the thread that syncs this device for `shards` shards.
    ///
    /// # Errors
    /// If the system gives no more threads or file descriptors.
    pub fn start(file: &DeviceFile, shards: usize) -> io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let state = State {
            syncs: SharedSyncs::new(shards),
            results: vec![VecDeque::new(); shards],
            holders: 1,
        };
        let hub = Arc::new(Hub {
            state: Mutex::new(state),
            has_changed: Condvar::new(),
            wakes: (0..shards).map(|_| eventfd(0, flags)).collect::<Result<_, _>>()?,
        });
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
    /// Per shard: readable when a sync of its is done.
    wakes: Vec<OwnedFd>,
}

#[derive(Debug)]
struct State {
    syncs: SharedSyncs,
    /// Per shard: the results that its driver has not taken, in the order in which it asked.
    results: Vec<VecDeque<Result<(), DeviceError>>>,
    /// Number of handles that may still ask.
    holders: usize,
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
            let synced = rustix::fs::fdatasync(file.file());
            let failure = synced.map_err(|error| DeviceError(io::Error::from(error).kind()));
            let mut state = self.lock();
            let State { syncs, results, .. } = &mut *state;
            syncs.done(failure.is_ok(), |shard, count, is_durable| {
                let failed = || failure.err().unwrap_or(DeviceError(io::ErrorKind::Other));
                let result = if is_durable { Ok(()) } else { Err(failed()) };
                results[shard].extend(std::iter::repeat_n(result, count));
                // A full counter is readable as well.
                let _full = rustix::io::write(&self.wakes[shard], &1_u64.to_ne_bytes());
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The driver of one of several shards on the same devices.
pub struct JointDriver<D> {
    inner: D,
    shard: usize,
    /// The syncs of the flash, if there is one, and of the backing store.
    syncs: [Option<JointSyncs>; 2],
    /// Per device: syncs that are not done, the first one in front.
    waiting: [VecDeque<Operation>; 2],
    /// Operations of the inner driver.
    in_flight: usize,
    /// Readable when something is done here or there.
    wake: OwnedFd,
    can_sleep: bool,
}

impl<D: Driver> JointDriver<D> {
    /// Return the driver of that shard. The inner one has its region of the flash, and the backing
    /// store.
    ///
    /// # Errors
    /// If the system gives no more file descriptors.
    pub fn new(
        inner: D,
        shard: usize,
        flash: Option<&JointSyncs>,
        backing: &JointSyncs,
    ) -> io::Result<Self> {
        let wake = epoll::create(CreateFlags::CLOEXEC)?;
        let inner_fd = inner.wake_fd();
        let synced =
            [flash, Some(backing)].into_iter().flatten().map(|it| it.0.wakes[shard].as_fd());
        for descriptor in synced.chain(inner_fd) {
            epoll::add(&wake, descriptor, EventData::new_u64(0), EventFlags::IN)?;
        }
        let can_sleep = inner_fd.is_some();
        Ok(Self {
            inner,
            shard,
            syncs: [flash.cloned(), Some(backing.clone())],
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
    pub fn set_flash_syncs(&mut self, flash: &JointSyncs) -> io::Result<()> {
        assert!(
            self.waiting[Device::Flash as usize].is_empty(),
            "no sync of the flash is under way"
        );
        let synced = &flash.0.wakes[self.shard];
        epoll::add(&self.wake, synced, EventData::new_u64(0), EventFlags::IN)?;
        if let Some(former) = self.syncs[Device::Flash as usize].replace(flash.clone()) {
            epoll::delete(&self.wake, &former.0.wakes[self.shard])?;
        }
        Ok(())
    }

    /// Return the driver that performs what is no sync.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn take_synced(&mut self, done: &mut Vec<Completion>) {
        for (syncs, waiting) in self.syncs.iter().zip(&mut self.waiting) {
            let Some(JointSyncs(hub)) = syncs.as_ref().filter(|_| !waiting.is_empty()) else {
                continue;
            };
            // Under the lock, so that no result comes between, and its signal stays behind.
            let mut state = hub.lock();
            let mut counter = [0; 8];
            let _empty = rustix::io::read(&hub.wakes[self.shard], &mut counter);
            for result in state.results[self.shard].drain(..) {
                let operation = waiting.pop_front().expect("a sync that was asked for is answered");
                done.push((operation, result));
            }
        }
    }
}

impl<D: Driver> Driver for JointDriver<D> {
    fn start(&mut self, operation: Operation) {
        let device = operation.device as usize;
        match &self.syncs[device] {
            Some(JointSyncs(hub)) if operation.kind == OperationKind::Sync => {
                hub.lock().syncs.ask(self.shard);
                hub.has_changed.notify_one();
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
        f.debug_struct("JointDriver")
            .field("shard", &self.shard)
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
