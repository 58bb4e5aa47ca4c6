//! The words of queueing devices: what is asked of one, and what it answers.

use thermocline_core::Nanos;

/// Operation that a request asks of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceOp {
    /// The pages' bytes are wanted.
    Read,
    /// The pages' bytes are replaced as a whole.
    Write,
    /// The pages' bytes are no longer needed.
    Trim,
}

/// A request for consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceRequest {
    /// Operation.
    pub op: DeviceOp,
    /// The first page, in pages from the start of the device.
    pub page: u64,
    /// Number of pages, at least 1.
    pub pages: u32,
}

/// The name of a submitted request; a device numbers its requests in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Completion of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    /// Ticket of the request.
    pub ticket: Ticket,
    /// Time, on the clock of the submissions.
    pub at: Nanos,
}
