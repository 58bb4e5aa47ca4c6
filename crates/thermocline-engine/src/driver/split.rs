//! Two drivers as one: each device has its own.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::{Allocation, Completion, Driver};
use crate::operation::{Device, Operation};

/// Maximum sleep of a wait: drivers may have to give up operations that are not answered.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Operations on flash go to one driver, those on the backing store to another.
#[derive(Debug)]
pub struct SplitDriver<F, B> {
    flash: F,
    backing: B,
    in_flight: usize,
    /// Readable when one of the drivers' descriptors is.
    wake: OwnedFd,
    /// `true` if both drivers have descriptors, so that waiting for `wake` is waiting for both.
    can_sleep: bool,
}

impl<F: Driver, B: Driver> SplitDriver<F, B> {
    /// Puts the two together; both are for the same shard.
    ///
    /// # Errors
    /// If the system gives no more file descriptors.
    pub fn new(flash: F, backing: B) -> io::Result<Self> {
        let wake = epoll::create(CreateFlags::CLOEXEC)?;
        let descriptors = [flash.wake_fd(), backing.wake_fd()];
        for descriptor in descriptors.iter().flatten() {
            epoll::add(&wake, descriptor, EventData::new_u64(0), EventFlags::IN)?;
        }
        let can_sleep = descriptors.iter().all(Option::is_some);
        Ok(Self { flash, backing, in_flight: 0, wake, can_sleep })
    }

    /// Return the driver of the flash.
    pub const fn flash_mut(&mut self) -> &mut F {
        &mut self.flash
    }

    /// Return the driver of the backing store.
    pub fn backing(&self) -> &B {
        &self.backing
    }
}

impl<F: Driver, B: Driver> Driver for SplitDriver<F, B> {
    fn start(&mut self, operation: Operation) {
        self.in_flight += 1;
        match operation.device {
            Device::Flash => self.flash.start(operation),
            Device::Backing => self.backing.start(operation),
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        self.flash.poll(done);
        self.backing.poll(done);
        self.in_flight -= done.len() - before;
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        loop {
            self.poll(done);
            if done.len() > before || self.in_flight == 0 {
                return;
            }
            if self.can_sleep {
                let mut events = [const { MaybeUninit::<Event>::uninit() }; 1];
                // A signal is one more reason to look.
                let _interrupted = epoll::wait(&self.wake, &mut events[..], Some(&LOOK));
            }
        }
    }

    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        self.backing.ask_allocation(tag, range)
    }

    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        self.backing.next_allocation()
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.as_fd())
    }
}
