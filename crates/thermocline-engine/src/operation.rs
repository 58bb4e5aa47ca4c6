//! What the engine asks of its devices.

use std::io;

use smallvec::SmallVec;

use crate::memory::FrameId;

/// An operation by its number; numbers are used again after completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct OperationId(pub u32);

/// One of the two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// The cache device.
    Flash,
    /// The backing store.
    Backing,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Device to frames.
    Read,
    /// Frames to device.
    Write,
    /// Every write completed before this operation was started survives a power loss.
    Sync,
    /// The range's bytes are no longer needed; a device that cannot do it succeeds.
    Discard,
    /// The range's bytes become zero.
    Zero,
}

/// An operation that a driver performs, and then reports with
/// [`Shard::complete`](crate::Shard::complete).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its number, for the report.
    pub id: OperationId,
    /// On which device.
    pub device: Device,
    /// What to do.
    pub kind: OperationKind,
    /// The first byte, a multiple of 4096; 0 for a sync.
    pub offset_bytes: u64,
    /// How many bytes, a multiple of 4096; 0 for a sync.
    pub length_bytes: u64,
    /// The frames of a read or write, in order; each but the last is used whole.
    pub frames: SmallVec<[FrameId; 2]>,
}

/// Why a device operation failed.
///
/// The engine does not tell apart why; drivers log what they know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the device failed: {0:?}")]
pub struct DeviceError(pub io::ErrorKind);

impl From<io::Error> for DeviceError {
    fn from(error: io::Error) -> Self {
        Self(error.kind())
    }
}
