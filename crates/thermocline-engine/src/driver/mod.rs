//! Drivers perform the operations that a [`Shard`](crate::Shard) asks for.

pub mod files;
pub mod memory;
pub mod threads;
#[cfg(target_os = "linux")]
pub mod uring;

use std::os::fd::BorrowedFd;

use crate::operation::{DeviceError, Operation, OperationId};

/// What an operation came to.
pub type Completion = (OperationId, Result<(), DeviceError>);

/// Performs operations, in any order, many at a time.
pub trait Driver {
    /// Takes an operation. It may be started at once or with the next [`poll`](Self::poll).
    fn start(&mut self, operation: Operation);

    /// Starts what was taken, and appends to `done` what is complete, without waiting.
    fn poll(&mut self, done: &mut Vec<Completion>);

    /// The same, but waits for one completion at least if operations are in flight.
    fn wait(&mut self, done: &mut Vec<Completion>);

    /// A descriptor that is readable when completions are there, for those who wait for other things
    /// as well.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
