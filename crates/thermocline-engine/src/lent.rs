//! The bytes of a read, for a thread that has no access to the shard.

use std::sync::Arc;

use crate::memory::Frames;
use crate::request::{Reply, Segments};

/// A reply whose bytes another thread may read.
///
/// A shard writes into a frame only if nobody else uses it, and a reply uses its frames until it is
/// released. So the bytes stay as they are while this value exists, whatever the shard does meanwhile.
///
/// Send it back to the shard's thread, and give the reply to [`Shard::release`](crate::Shard::release). If the
/// value is dropped instead, its frames are never used again.
#[derive(Debug)]
#[must_use = "a reply holds frames until it is released"]
pub struct Lent {
    reply: Reply,
    frames: Arc<Frames>,
}

impl Lent {
    /// Lends a reply of the shard that has these frames.
    pub(crate) fn new(reply: Reply, frames: Arc<Frames>) -> Self {
        debug_assert_eq!(reply.allocation, frames.number(), "the frames are the reply's");
        Self { reply, frames }
    }

    /// Return the bytes of the read, piece by piece.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        pieces(&self.reply.segments, &self.frames)
    }

    /// Return the reply, to be released.
    pub fn into_reply(self) -> Reply {
        self.reply
    }
}

/// Return the bytes of segments whose frames are in use.
pub(crate) fn pieces<'a>(
    segments: &'a Segments,
    frames: &'a Frames,
) -> impl ExactSizeIterator<Item = &'a [u8]> {
    segments.iter().map(|segment| {
        let start = segment.offset_bytes as usize;
        &frames.bytes(segment.frame)[start..start + segment.length_bytes as usize]
    })
}
