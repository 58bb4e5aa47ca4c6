//! Drivers perform the operations that a [`Shard`](crate::Shard) asks for.

pub mod files;
pub mod flash;
pub mod identity;
#[cfg(target_os = "linux")]
pub mod joint;
pub mod memory;
#[cfg(target_os = "linux")]
pub mod mirror;
#[cfg(target_os = "linux")]
pub mod split;
#[cfg(target_os = "linux")]
pub mod threads;
#[cfg(target_os = "linux")]
pub mod uring;
#[cfg(target_os = "linux")]
mod wakes;

use std::ops::Range;
use std::os::fd::BorrowedFd;

use thermocline_core::policy::multi::split::{Answer, Hint};

use crate::operation::{DeviceError, Operation};

/// An operation that is over, with its result.
pub type Completion = (Operation, Result<(), DeviceError>);

/// Allocation of a piece of the backing store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its length, in bytes; not zero.
    pub length_bytes: u64,
    /// `true` if the backing store holds nothing there.
    pub is_hole: bool,
    /// `true` if it reads as zeroes.
    pub is_zero: bool,
}

/// Which pages are to be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recall {
    /// The one at this place of the backing store, in bytes.
    Page(u64),
    /// All of them.
    All,
}

/// A page that the backing store sends to the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Place of the page on the backing store, in bytes.
    pub offset_bytes: u64,
    /// Number for the policy.
    pub number: u64,
    /// The bytes of the page.
    pub content: Vec<u8>,
}

/// Performs operations, in any order, many at a time.
pub trait Driver {
    /// Takes an operation, which it gives back when nothing accesses its frames any more. It may be
    /// started at once or with the next [`poll`](Self::poll).
    ///
    /// # Panics
    /// If the operation is of another shard than the driver, see [`Operation::assert_for`].
    fn start(&mut self, operation: Operation);

    /// Starts what was taken, and appends to `done` what is complete, without waiting.
    fn poll(&mut self, done: &mut Vec<Completion>);

    /// Poll, and wait for one completion at least if operations are in flight.
    fn wait(&mut self, done: &mut Vec<Completion>);

    /// Return a descriptor that is readable when completions are there, for those who wait for
    /// other things as well.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Closes the flash, if the driver has one: no operation on it is in flight, and none comes.
    fn close_flash(&mut self) {}

    /// Tells the backing store that a page has left RAM, where it lies there, in bytes, and its content if it
    /// is offered. A driver starts what it was given before in front of that, and what it is given later
    /// behind it.
    #[expect(unused_variables, reason = "a device does not care who has a copy of what it holds")]
    fn leave(&mut self, offset_bytes: u64, content: Option<&[u8]>) {}

    /// Inform the backing store of the cache above it. A driver starts what it is given later behind that.
    #[expect(unused_variables, reason = "a device does not care what is cached above it")]
    fn tell(&mut self, hint: Hint) {}

    /// Inform the backing store of the cache above it, and of the page that leaves next: the value goes with
    /// this page.
    fn tell_with_leaving(&mut self, hint: Hint) {
        self.tell(hint);
    }

    /// Return the next page that the backing store sends because of one that left RAM, in front of pages to be
    /// [given up](Self::next_recall). If the cache does not want it, the page [leaves](Self::leave).
    fn next_push(&mut self) -> Option<Sent> {
        None
    }

    /// Return the next answer of a backing store that says which pages stay in RAM: where the page lies there, in
    /// bytes. It comes before the operation on the page is given back.
    fn next_answer(&mut self) -> Option<(u64, Answer)> {
        None
    }

    /// Return the next page that the cache has to give up, because others write to the backing store.
    fn next_recall(&mut self) -> Option<Recall> {
        None
    }

    /// Return `true` if pages in RAM are as new as the backing store's: if not, all of them are to be
    /// given up.
    fn is_current(&mut self) -> bool {
        true
    }

    /// Asks which parts of a range of the backing store, in bytes, are holes. Returns `true` if
    /// that can be told; then [`next_allocation`](Self::next_allocation) gives the answer, with the
    /// same tag, when it is there.
    #[expect(unused_variables, reason = "a driver that cannot tell looks at nothing")]
    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        false
    }

    /// Return the next answer: the pieces of the range that was asked about, from its beginning on,
    /// at least one. They may end before the range does.
    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        None
    }
}
