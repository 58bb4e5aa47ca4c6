//! Operations that the engine asks of its devices.
#![expect(unsafe_code, reason = "drivers access the frames of operations that they perform")]

use std::io;
use std::ops::{Deref, Range};

use smallvec::SmallVec;

use crate::memory::{FrameId, Frames};

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

/// One of the two devices of a mirrored flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// The one that was set up as the first.
    First = 0,
    /// The one that was set up as the second.
    Second = 1,
}

impl Member {
    /// Both, in order.
    pub const EACH: [Self; 2] = [Self::First, Self::Second];

    /// Return the other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// Devices of a mirrored flash that an operation concerns. A flash of one device is concerned by all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Copies {
    /// Both; a read may take any.
    #[default]
    Both,
    /// Only this one, as long as the flash has it.
    One(Member),
}

/// Action of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Device to frames.
    Read,
    /// Frames to device.
    Write,
    /// Every write completed before this operation was started survives a power loss.
    Sync,
    /// The range's bytes are no longer needed: each sector reads as before or as zeroes until it is
    /// written again. A device that cannot do it succeeds.
    Discard,
    /// The range's bytes become zero, and stay allocated.
    Zero,
}

/// An operation that a driver performs, and then gives back to
/// [`Shard::complete`](crate::Shard::complete) with its result.
///
/// A shard does not use the frames of an operation until it has the operation back. So an operation
/// cannot be copied or changed, and only a shard makes one:
///
/// ```compile_fail,E0451
/// # fn main() {}
/// use thermocline_engine::{Operation, OperationParts};
///
/// fn forge(parts: OperationParts) -> Operation {
///     Operation { parts, allocation: 0 }
/// }
/// ```
///
/// ```compile_fail,E0133
/// # fn main() {}
/// use thermocline_engine::{Frames, Operation, OperationParts};
///
/// fn forge(parts: OperationParts, frames: &Frames) -> Operation {
///     Operation::new(parts, frames)
/// }
/// ```
///
/// ```compile_fail,E0277
/// # fn main() {}
/// fn copy(operation: &thermocline_engine::Operation) -> thermocline_engine::Operation {
///     <thermocline_engine::Operation as Clone>::clone(operation)
/// }
/// ```
///
/// ```compile_fail,E0594
/// # fn main() {}
/// fn extend(operation: &mut thermocline_engine::Operation) {
///     operation.length_bytes += 4096;
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Operation {
    parts: OperationParts,
    /// The allocation that the frames are of; [`NO_SHARD`] for a sync that no shard asked for.
    allocation: u64,
}

/// The allocation of operations without frames that no shard waits for.
const NO_SHARD: u64 = u64::MAX;

/// Action of an operation, and the frames that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationParts {
    /// Its number, for the report.
    pub id: OperationId,
    /// Device that carries it out.
    pub device: Device,
    /// Action.
    pub kind: OperationKind,
    /// The first byte, a multiple of 4096; 0 for a sync.
    pub offset_bytes: u64,
    /// Number of bytes, a multiple of 4096; 0 for a sync.
    pub length_bytes: u64,
    /// The frames of a read or write, in order; each but the last is used whole. Those of a zero hold
    /// zeroes, for devices that can only write; a zero that is longer uses them again from the first.
    /// Those of a discard mean nothing.
    pub frames: SmallVec<[FrameId; 2]>,
    /// Devices of a mirrored flash that it concerns.
    pub copies: Copies,
    /// `true` if it is not tried again: where one of two devices fails it, that one has failed.
    pub is_final: bool,
}

impl Deref for Operation {
    type Target = OperationParts;

    /// Makes the parts readable like fields, and not writable.
    fn deref(&self) -> &OperationParts {
        &self.parts
    }
}

impl Operation {
    /// Create an operation of the shard that has these frames.
    pub(crate) const fn of_shard(parts: OperationParts, frames: &Frames) -> Self {
        Self { parts, allocation: frames.number() }
    }

    /// Builds an operation that no shard asked for.
    ///
    /// # Safety
    /// Until a driver has reported the operation, nothing else reads or writes its frames if it is a
    /// read, and nothing writes them if it is a write or a zero. A shard that has these frames never
    /// gets the operation.
    pub const unsafe fn new(parts: OperationParts, frames: &Frames) -> Self {
        Self::of_shard(parts, frames)
    }

    /// Builds a sync that no shard asked for. No shard takes it back.
    pub fn sync(device: Device) -> Self {
        let parts = OperationParts {
            id: OperationId(0),
            device,
            kind: OperationKind::Sync,
            offset_bytes: 0,
            length_bytes: 0,
            frames: SmallVec::new(),
            copies: Copies::Both,
            is_final: false,
        };
        Self { parts, allocation: NO_SHARD }
    }

    /// Return the same write or sync, for the other device of a mirrored flash.
    ///
    /// # Panics
    /// If the operation is a read: two devices cannot fill the same frames.
    pub(crate) fn twin(&self) -> Self {
        assert!(self.kind != OperationKind::Read, "frames are filled once");
        Self { parts: self.parts.clone(), allocation: self.allocation }
    }

    /// Panics if the operation is not for these frames. Every driver checks that before it takes an
    /// operation: a frame has a number only, which means other memory in another shard.
    ///
    /// # Panics
    /// If the operation has frames, and they are of another shard.
    pub fn assert_for(&self, frames: &Frames) {
        assert!(
            self.allocation == frames.number() || self.frames.is_empty(),
            "an operation goes to a driver of its own shard"
        );
    }

    /// Return `true` if the shard with these frames asked for it.
    pub(crate) const fn is_of_shard(&self, frames: &Frames) -> bool {
        self.allocation == frames.number()
    }

    /// Appends a part of the bytes of a write, or of a zero, to `target`; `range` counts from the
    /// beginning of the operation.
    ///
    /// # Panics
    /// If the operation is not that long, or the frames are another shard's.
    ///
    /// # Safety
    /// Nobody writes these frames during the call. A driver may call it
    /// from when it was given the operation until it reports the completion.
    ///
    /// ```compile_fail,E0133
    /// # fn main() {}
    /// use thermocline_engine::{Frames, Operation};
    ///
    /// fn safe(operation: &Operation, frames: &Frames, target: &mut Vec<u8>) {
    ///     operation.gather(frames, 0..4096, target);
    /// }
    /// ```
    pub unsafe fn gather(&self, frames: &Frames, range: Range<u64>, target: &mut Vec<u8>) {
        self.visit(frames, range, |frame, part| {
            target.extend_from_slice(&frames.bytes(frame)[part]);
        });
    }

    /// Puts bytes that a device gave into the frames of a read; `start_bytes` counts from the beginning
    /// of the operation.
    ///
    /// # Panics
    /// If the operation is not that long, or the frames are another shard's.
    ///
    /// # Safety
    /// Nobody else reads or writes these frames during the call. The
    /// driver of a read may call it from when it was given the operation until it reports the
    /// completion.
    ///
    /// ```compile_fail,E0133
    /// # fn main() {}
    /// fn safe(operation: &thermocline_engine::Operation, frames: &thermocline_engine::Frames) {
    ///     operation.scatter(frames, 0, &[0; 4096]);
    /// }
    /// ```
    pub unsafe fn scatter(&self, frames: &Frames, start_bytes: u64, mut bytes: &[u8]) {
        let range = start_bytes..start_bytes + bytes.len() as u64;
        self.visit(frames, range, |frame, part| {
            let (first, rest) = bytes.split_at(part.len());
            frames.bytes_mut(frame)[part].copy_from_slice(first);
            bytes = rest;
        });
    }

    /// Shows which part of which frame a range lies in, in order.
    fn visit(
        &self,
        frames: &Frames,
        range: Range<u64>,
        mut see: impl FnMut(FrameId, Range<usize>),
    ) {
        self.assert_for(frames);
        assert!(range.end <= self.length_bytes, "the range lies within the operation");
        let is_repeated = self.kind == OperationKind::Zero;
        let held_bytes = self.frames.len() as u64 * frames.frame_bytes() as u64;
        assert!(is_repeated || range.end <= held_bytes, "the operation has frames for the range");
        let place = |bytes: u64| usize::try_from(bytes).expect("operations fit memory");
        let (mut start, end) = (place(range.start), place(range.end));
        let frame_bytes = frames.frame_bytes();
        while start < end {
            let (index, within) = (start / frame_bytes, start % frame_bytes);
            let length = (frame_bytes - within).min(end - start);
            see(self.frames[index % self.frames.len()], within..within + length);
            start += length;
        }
    }
}

/// Reason why a device operation failed.
///
/// The engine treats all reasons alike; drivers log the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the device failed: {0:?}")]
pub struct DeviceError(pub io::ErrorKind);

impl From<io::Error> for DeviceError {
    fn from(error: io::Error) -> Self {
        Self(error.kind())
    }
}
