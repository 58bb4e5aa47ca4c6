//! Service: the interface between the server and the holder of the bytes.
//!
//! The server drives a service in its own thread: it submits pieces of requests, lets the service
//! work ([`Service::drive`]), and takes replies until there are none. A piece that can be answered at
//! once (a page in RAM) is answered by the next [`Service::next_reply`], without allocation or wait;
//! any other is answered after a later `drive`, in any order. A service never blocks; the file
//! descriptors of [`Service::descriptors`] tell the server when driving it makes sense.
//!
//! Every piece that was submitted is answered exactly once, also when its client has gone.

use std::os::fd::RawFd;
use std::time::Duration;

use crate::protocol::{Command, Context, ErrorCode, Extent, command_flag};

/// Tag of a reply: the piece of the request that it belongs to; only the sender of the request
/// reads it. The server leaves the highest bit clear, for others who use its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u64);

/// A part of a request: the server cuts reads at multiples of 256 KiB and writes at multiples of
/// 64 KiB, hands over a range to be cached in parts of 1 MiB, one after the other, and trims and zeroes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Command: a read, a write, a flush, a trim, a prefetch, zeroes, or a question about
    /// allocation.
    pub command: Command,
    /// The command flags that matter to a service: FUA, `NO_HOLE`, `FAST_ZERO`.
    pub flags: u16,
    /// Offset, in bytes; within the export.
    pub offset_bytes: u64,
    /// Length, in bytes; zero for a flush.
    pub length_bytes: u32,
    /// Which client it is of, if that [cooperates](crate::protocol::cooperation).
    pub cooperator: Option<Cooperator>,
}

/// A client that [cooperates](crate::protocol::cooperation), by its number among those that are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cooperator(pub u16);

/// The way in which a client has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Departure {
    /// It said farewell: it keeps no page.
    Orderly,
    /// Its connection was lost: it may not know that yet.
    Lost,
}

impl Piece {
    /// Return `true` if it must be durable before it is answered.
    pub fn is_fua(&self) -> bool {
        self.flags & command_flag::FUA != 0
    }

    /// Return `true` if zeroes must stay allocated.
    pub fn keeps_allocation(&self) -> bool {
        self.flags & command_flag::NO_HOLE != 0
    }

    /// Return `true` if zeroing must fail with [`ErrorCode::NotSupported`] if it is no faster than writing.
    pub fn is_fast_only(&self) -> bool {
        self.flags & command_flag::FAST_ZERO != 0
    }
}

/// The answer to a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The piece.
    pub tag: Tag,
    /// Success, or the error code.
    pub outcome: Result<(), ErrorCode>,
}

/// A page that goes to a cooperating client because of one that it has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Where it begins, in bytes.
    pub offset_bytes: u64,
    /// Number for the client's policy.
    pub number: u64,
}

/// Holds the bytes of one export.
pub trait Service {
    /// Takes a piece; `payload` is as long as the piece if it is a write, and empty otherwise.
    fn submit(&mut self, tag: Tag, piece: &Piece, payload: &[u8]);

    /// Starts what can be started and takes note of what has finished, without waiting.
    fn drive(&mut self);

    /// Return the next piece that was answered, if there is one.
    fn next_reply(&mut self) -> Option<Reply>;

    /// Appends the bytes of a read to `target`, exactly as many as were asked for. Called once, right
    /// after [`Service::next_reply`] has said that the read succeeded.
    fn take_data(&mut self, tag: Tag, target: &mut Vec<u8>);

    /// Hand the bytes of a read to `take` where they lie, in pieces and in order; the same bytes as
    /// [`Service::take_data`] appends, and called in its place.
    fn take_pieces(&mut self, tag: Tag, take: &mut dyn FnMut(&[&[u8]])) {
        let mut bytes = vec![];
        self.take_data(tag, &mut bytes);
        take(&[&bytes]);
    }

    /// Find the status of the extents from `offset_bytes` on, in one context: at least one, at most
    /// `count_max`, each no longer than the rest of `length_bytes`. Before a client is told what is
    /// allocated, the range is submitted as a piece of its own; this is called right after
    /// [`Service::next_reply`] has said that the service found out.
    fn extents(&mut self, context: Context, range: &ExtentRange, found: &mut Vec<Extent>);

    /// Return the offsets, in bytes, of the pages that a cooperating client has to give up. The server calls
    /// this right after [`Service::next_reply`] has said that the client's wait is over.
    #[expect(unused_variables, reason = "a service without such clients recalls nothing")]
    fn take_recalls(&mut self, tag: Tag) -> Vec<u64> {
        vec![]
    }

    /// Return, for a cooperating client that waits for it, which pages of the piece the client keeps: a number
    /// for each page. The server calls this right after [`Service::next_reply`] has said that the piece succeeded.
    #[expect(unused_variables, reason = "a service without such clients answers nothing")]
    fn take_answers(&mut self, tag: Tag) -> Vec<u64> {
        vec![]
    }

    /// Return the page, if there is one, that goes to a cooperating client for one that it has given up. The server
    /// calls this right after [`Service::next_reply`] has said that the piece succeeded, and takes the page's
    /// bytes as those of a read.
    #[expect(unused_variables, reason = "a service without such clients sends nothing unasked")]
    fn take_push(&mut self, tag: Tag) -> Option<Pushed> {
        None
    }

    /// Take notice that a cooperating client has gone. Its requests in flight are still answered.
    #[expect(unused_variables, reason = "a service without such clients has nothing to forget")]
    fn has_left(&mut self, cooperator: Cooperator, departure: Departure) {}

    /// Return `true` if a range is to be submitted before a client is told its status in a context.
    fn must_ask(&self, context: Context) -> bool {
        context == Context::Allocation
    }

    /// Descriptors that become readable when [`Service::drive`] has something to take note of.
    fn descriptors(&self) -> Vec<RawFd> {
        vec![]
    }

    /// Return the longest time until `drive` must be called even if nothing happens.
    fn wait_limit(&self) -> Option<Duration> {
        None
    }

    /// Prepare to sleep until the descriptors are ready. Returns `true` if the server may sleep: no
    /// descriptor will miss the next event.
    fn may_sleep(&mut self) -> bool {
        true
    }

    /// Note that the server does not wait any more.
    fn has_woken(&mut self) {}

    /// Return `true` if it must be driven although its server ends, for others who use it. `has_clients`
    /// says whether the server still has some.
    fn is_needed(&mut self, has_clients: bool) -> bool {
        _ = has_clients;
        false
    }

    /// Return `true` if it must be driven however long its server has been ending already.
    fn must_stay(&self) -> bool {
        false
    }
}

/// Extents that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentRange {
    /// Start, in bytes.
    pub offset_bytes: u64,
    /// Length of the range, in bytes; not zero.
    pub length_bytes: u32,
    /// Maximum number; not zero.
    pub count_max: usize,
}
