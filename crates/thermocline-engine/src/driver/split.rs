//! Two drivers as one: each device has its own.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use super::wakes::Wakes;
use super::{Allocation, Completion, Driver};
use crate::operation::{Device, Operation};

/// Operations on flash go to one driver, those on the backing store to another.
#[derive(Debug)]
pub struct SplitDriver<F, B> {
    flash: F,
    backing: B,
    in_flight: usize,
    wakes: Wakes,
}

impl<F: Driver, B: Driver> SplitDriver<F, B> {
    /// Puts the two together; both are for the same shard.
    ///
    /// # Errors
    /// If the system gives no more file descriptors.
    pub fn new(flash: F, backing: B) -> io::Result<Self> {
        let wakes = Wakes::of(&[flash.wake_fd(), backing.wake_fd()])?;
        Ok(Self { flash, backing, in_flight: 0, wakes })
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
            self.wakes.sleep();
        }
    }

    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        self.backing.ask_allocation(tag, range)
    }

    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        self.backing.next_allocation()
    }

    fn close_flash(&mut self) {
        self.flash.close_flash();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wakes.descriptor())
    }
}
