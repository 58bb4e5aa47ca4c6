//! Interface of all queueing devices: requests in, tickets back, completions out.
//!
//! A device model does no I/O and reads no clock. Its driver submits requests with their times,
//! advances the device to a time, and collects the completions until then.

use std::fmt::Debug;

use thermocline_core::Nanos;

use crate::hdd::{Hdd, HddError};
use crate::ssd::{Ssd, SsdError, SsdMetrics};

pub use crate::request::{Completion, DeviceOp, DeviceRequest, Ticket};

/// A device that a driver polls.
pub trait QueueingDevice: Debug {
    /// Hands in a request that arrives at `at`, which may lie ahead.
    ///
    /// # Errors
    /// If the device refuses the request, with the reason; the request has no effect then.
    fn submit(&mut self, at: Nanos, request: DeviceRequest) -> Result<Ticket, QueueingError>;

    /// Gives the requests submitted from now on a placement handle; the first is 0. A device without
    /// handles has only that one.
    ///
    /// # Errors
    /// If the device has fewer handles.
    fn select_handle(&mut self, handle: u32) -> Result<(), QueueingError> {
        match handle {
            0 => Ok(()),
            _ => Err(QueueingError::NoHandle { handle }),
        }
    }

    /// Return the time of the next event, if nothing more is submitted.
    fn next_event(&self) -> Option<Nanos>;

    /// Lets everything up to and including `to` happen, and appends the completions in the order in
    /// which they happened.
    ///
    /// # Errors
    /// If the device has come to its end.
    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) -> Result<(), QueueingError>;

    /// Return the number of pages it has; they are numbered from 0.
    fn capacity_pages(&self) -> u64;

    /// Return the busy time, in nanoseconds; of several parts at once, the sum.
    fn busy_ns(&self) -> u64;

    /// Return the work on its flash, if it is a solid-state drive.
    fn ssd_metrics(&self) -> Option<SsdMetrics> {
        None
    }
}

/// Reason why a device refuses a request, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueingError {
    /// A request for no page.
    #[error("a request at page {page} asks for no page; expected at least 1")]
    Empty {
        /// First page.
        page: u64,
    },
    /// A request that comes before what has happened.
    #[error("a request at {at_ns} ns lies in the past: it is {now_ns} ns")]
    Past {
        /// Arrival time, in nanoseconds.
        at_ns: u64,
        /// Present time, in nanoseconds.
        now_ns: u64,
    },
    /// A placement handle of a device that has none.
    #[error("placement handle {handle} is not there: the device has handle 0 only")]
    NoHandle {
        /// The handle.
        handle: u32,
    },
    /// The disk refuses.
    #[error(transparent)]
    Hdd(#[from] HddError),
    /// The drive refuses, or has come to its end.
    #[error(transparent)]
    Ssd(#[from] SsdError),
}

impl QueueingDevice for Hdd {
    fn submit(&mut self, at: Nanos, request: DeviceRequest) -> Result<Ticket, QueueingError> {
        Ok(Self::submit(self, at, request)?)
    }

    fn next_event(&self) -> Option<Nanos> {
        Self::next_event(self)
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) -> Result<(), QueueingError> {
        Self::advance(self, to, completed);
        Ok(())
    }

    fn capacity_pages(&self) -> u64 {
        Self::capacity_pages(self)
    }

    fn busy_ns(&self) -> u64 {
        self.metrics().busy_ns
    }
}

impl QueueingDevice for Ssd {
    fn submit(&mut self, at: Nanos, request: DeviceRequest) -> Result<Ticket, QueueingError> {
        Ok(Self::submit(self, at, request)?)
    }

    fn select_handle(&mut self, handle: u32) -> Result<(), QueueingError> {
        Ok(Self::select_handle(self, handle)?)
    }

    fn next_event(&self) -> Option<Nanos> {
        Self::next_event(self)
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) -> Result<(), QueueingError> {
        Ok(Self::advance(self, to, completed)?)
    }

    fn capacity_pages(&self) -> u64 {
        self.logical_pages()
    }

    fn busy_ns(&self) -> u64 {
        Self::busy_ns(self)
    }

    fn ssd_metrics(&self) -> Option<SsdMetrics> {
        Some(self.metrics())
    }
}
