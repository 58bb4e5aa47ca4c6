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
    /// All writes that are done must survive a power failure. It is of no page.
    Flush,
}

/// A request for consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceRequest {
    /// Operation.
    pub op: DeviceOp,
    /// The first page, in pages from the start of the device.
    pub page: u64,
    /// Number of pages, at least 1; 0 for a flush.
    pub pages: u32,
}

impl DeviceRequest {
    /// A flush.
    pub const FLUSH: Self = Self { op: DeviceOp::Flush, page: 0, pages: 0 };

    /// Return `true` if the request is of no page although its operation is of pages.
    pub(crate) const fn is_empty(self) -> bool {
        self.pages == 0 && !matches!(self.op, DeviceOp::Flush)
    }
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
