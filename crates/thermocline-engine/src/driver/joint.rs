//! Drivers of several shards on the same devices: their syncs are joined.
//!
//! Each shard has a driver of its own; whatever it does but syncs goes to that. Syncs are performed by one
//! thread per device, as [`SharedSyncs`] says.

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
use crate::operation::{DeviceError, Operation, OperationKind};
use crate::sharding::SharedSyncs;

/// How long a wait sleeps at most: drivers may have to give up what is not answered.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The syncs of one device, for the drivers of several shards. A thread performs them, until every driver
/// is gone.
#[derive(Debug)]
struct Hub {
    state: Mutex<State>,
    has_changed: Condvar,
    /// Per shard: readable when a sync of its is done.
    wakes: Vec<Arc<OwnedFd>>,
}

#[derive(Debug)]
struct State {
    syncs: SharedSyncs,
    /// Per shard: the results that its driver has not taken, in the order in which it asked.
    results: Vec<VecDeque<Result<(), DeviceError>>>,
    /// Drivers that may still ask.
    drivers: usize,
}

impl Hub {
    fn start(
        device: &'static str,
        file: DeviceFile,
        wakes: Vec<Arc<OwnedFd>>,
    ) -> io::Result<Arc<Self>> {
        let shards = wakes.len();
        let state = State {
            syncs: SharedSyncs::new(shards),
            results: vec![VecDeque::new(); shards],
            drivers: shards,
        };
        let hub = Arc::new(Self { state: Mutex::new(state), has_changed: Condvar::new(), wakes });
        let served = Arc::clone(&hub);
        let thread = thread::Builder::new().name(format!("sync {device}"));
        thread.spawn(move || served.serve(&file))?;
        Ok(hub)
    }

    fn serve(&self, file: &DeviceFile) {
        loop {
            let mut state = self.lock();
            while !state.syncs.begin() {
                if state.drivers == 0 {
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
                let _full = rustix::io::write(&*self.wakes[shard], &1_u64.to_ne_bytes());
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
    /// The syncs of the backing store, and of the flash if there is one.
    hubs: [Option<Arc<Hub>>; 2],
    /// Per device: syncs that are not done, the first one in front.
    waiting: [VecDeque<Operation>; 2],
    /// Operations of the inner driver.
    in_flight: usize,
    synced: Arc<OwnedFd>,
    /// Readable when something is done here or there.
    wake: OwnedFd,
    can_sleep: bool,
}

impl<D: Driver> JointDriver<D> {
    /// Joins drivers of shards, in the order of these, that all have regions of this flash and the same
    /// backing store.
    ///
    /// # Errors
    /// If the system gives no more threads or file descriptors.
    pub fn join(
        drivers: Vec<D>,
        flash: Option<&DeviceFile>,
        backing: &DeviceFile,
    ) -> io::Result<Vec<Self>> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let wakes = drivers
            .iter()
            .map(|_| Ok(Arc::new(eventfd(0, flags)?)))
            .collect::<io::Result<Vec<Arc<OwnedFd>>>>()?;
        let hub = |device, file: &DeviceFile| Hub::start(device, file.try_clone()?, wakes.clone());
        let flash = flash.map(|file| hub("flash", file)).transpose()?;
        let hubs = [flash, Some(hub("backing", backing)?)];
        let members = drivers.into_iter().zip(&wakes).enumerate();
        members.map(|(shard, (inner, synced))| Self::of(inner, shard, synced, &hubs)).collect()
    }

    fn of(
        inner: D,
        shard: usize,
        synced: &Arc<OwnedFd>,
        hubs: &[Option<Arc<Hub>>; 2],
    ) -> io::Result<Self> {
        let wake = epoll::create(CreateFlags::CLOEXEC)?;
        let inner_fd = inner.wake_fd();
        for descriptor in [Some(synced.as_fd()), inner_fd].into_iter().flatten() {
            epoll::add(&wake, descriptor, EventData::new_u64(0), EventFlags::IN)?;
        }
        let can_sleep = inner_fd.is_some();
        Ok(Self {
            inner,
            shard,
            hubs: hubs.clone(),
            waiting: Default::default(),
            in_flight: 0,
            synced: Arc::clone(synced),
            wake,
            can_sleep,
        })
    }

    /// The driver that performs what is no sync.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn take_synced(&mut self, done: &mut Vec<Completion>) {
        let mut counter = [0; 8];
        let _empty = rustix::io::read(&*self.synced, &mut counter);
        for (hub, waiting) in self.hubs.iter().zip(&mut self.waiting) {
            let Some(hub) = hub.as_ref().filter(|_| !waiting.is_empty()) else { continue };
            for result in hub.lock().results[self.shard].drain(..) {
                let operation = waiting.pop_front().expect("a sync that was asked for is answered");
                done.push((operation, result));
            }
        }
    }
}

impl<D: Driver> Driver for JointDriver<D> {
    fn start(&mut self, operation: Operation) {
        let device = operation.device as usize;
        match &self.hubs[device] {
            Some(hub) if operation.kind == OperationKind::Sync => {
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

impl<D> Drop for JointDriver<D> {
    fn drop(&mut self) {
        for hub in self.hubs.iter().flatten() {
            hub.lock().drivers -= 1;
            hub.has_changed.notify_one();
        }
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
