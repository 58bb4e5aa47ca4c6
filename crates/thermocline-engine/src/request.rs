//! Requests of clients to the engine, and its answers.

use smallvec::SmallVec;
use thermocline_core::Tier;
use thiserror::Error;

use crate::memory::FrameId;

/// One request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Chosen by the client; the reply carries it.
    pub tag: u64,
    /// Kind of the request.
    pub kind: RequestKind,
    /// The first byte concerned.
    pub offset_bytes: u64,
    /// Number of bytes that are concerned; 0 for a flush.
    pub length_bytes: u64,
    /// `true` if the reply to a write, a trim or a write of zeroes says that it survives a power loss
    /// (NBD's FUA).
    pub is_durable: bool,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// The bytes of a range.
    Read,
    /// New bytes for a range.
    Write,
    /// Every write answered before survives a power loss.
    Flush,
    /// The bytes of a range are no longer needed. They read as zeroes or as before.
    Trim,
    /// The bytes of a range become zero.
    WriteZeroes,
    /// The range will be read soon.
    Cache,
}

impl RequestKind {
    /// `true` if bytes of the range may change.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }

    /// `true` if no byte of the range changes.
    pub(crate) const fn only_reads(self) -> bool {
        matches!(self, Self::Read | Self::Cache)
    }
}

/// The answer to a request.
///
/// Whoever takes a reply gives it back with [`Shard::release`](crate::Shard::release), or its frames
/// are never used again.
///
/// A reply cannot be copied or taken apart, so that a frame stays in use while somebody can read it:
///
/// ```compile_fail,E0616
/// # fn main() {}
/// fn take(reply: &mut thermocline_engine::Reply) {
///     drop(std::mem::take(&mut reply.segments));
/// }
/// ```
#[derive(Debug)]
#[must_use = "a reply holds frames until it is released"]
pub struct Reply {
    /// The request's tag.
    pub tag: u64,
    /// The request's kind.
    pub kind: RequestKind,
    /// Success, or the reason of the failure.
    pub result: Result<(), RequestError>,
    /// The slowest tier that one of the pages was found in; `None` if none was looked for.
    pub found: Option<Tier>,
    /// The pieces of a read that succeeded, in order; their frames stay in use until the release.
    /// Nobody else can change or copy them: [`Shard::pieces`](crate::Shard::pieces) relies on that.
    pub(crate) segments: Segments,
    /// The allocation that the pieces lie in.
    pub(crate) allocation: u64,
}

/// The pieces of a read; few need no allocation.
pub(crate) type Segments = SmallVec<[Segment; 2]>;

/// A piece of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The frame.
    pub(crate) frame: FrameId,
    /// Offset of the piece in the frame.
    pub(crate) offset_bytes: u32,
    /// Length of the piece.
    pub(crate) length_bytes: u32,
}

/// Reason why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A device failed.
    #[error("input/output error")]
    Io,
    /// The newest bytes of a page were only on a flash that failed or gave wrong bytes.
    #[error("the page is lost: its newest bytes were only on a flash that failed")]
    Lost,
    /// The engine does not write.
    #[error("the engine serves read-only")]
    ReadOnly,
}

/// Reason why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// All frames are in use: complete operations, release replies, and submit again.
    #[error("too many requests are being served; try again when some are answered")]
    Full,
    /// The range does not lie within the device.
    #[error("the range ends beyond the device's {size_bytes} bytes")]
    OutOfRange {
        /// The device's size.
        size_bytes: u64,
    },
    /// The range is longer than one request may be.
    #[error("the request is longer than {max_bytes} bytes; split it")]
    TooLong {
        /// The greatest length.
        max_bytes: u64,
    },
    /// A write needs as many bytes as its range has, other requests none.
    #[error("{given_bytes} bytes were given for a range of {wanted_bytes}")]
    WrongPayload {
        /// Length that was given.
        given_bytes: u64,
        /// Length that the request states.
        wanted_bytes: u64,
    },
}

impl Request {
    /// Create a read.
    pub const fn read(tag: u64, offset_bytes: u64, length_bytes: u64) -> Self {
        Self { tag, kind: RequestKind::Read, offset_bytes, length_bytes, is_durable: false }
    }

    /// Create a write.
    pub const fn write(tag: u64, offset_bytes: u64, length_bytes: u64) -> Self {
        Self { tag, kind: RequestKind::Write, offset_bytes, length_bytes, is_durable: false }
    }

    /// Create a flush.
    pub const fn flush(tag: u64) -> Self {
        let kind = RequestKind::Flush;
        Self { tag, kind, offset_bytes: 0, length_bytes: 0, is_durable: false }
    }
}
