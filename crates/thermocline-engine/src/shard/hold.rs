//! Writes that are not acknowledged while something that their safety needs is not durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::Shard;
use crate::request::{Reply, RequestError, RequestKind};

/// Writes and flushes are served.
const RELEASED: u8 = 0;
/// They wait: it is about to be known whether they may be served.
const WAITING: u8 = 1;
/// They fail.
const HELD: u8 = 2;

/// Switch by which a shard refuses writes and flushes; shared with the code that knows why it
/// should.
#[derive(Clone, Debug, Default)]
pub struct WriteHold(Arc<AtomicU8>);

impl WriteHold {
    /// Fail all writes and flushes from now on, even those taken before: none is acknowledged.
    pub fn hold(&self) {
        self.0.store(HELD, Ordering::Release);
    }

    /// Have all writes and flushes wait from now on, even those taken before: none is acknowledged, and none fails,
    /// until [`hold`](Self::hold) or [`release`](Self::release).
    pub fn wait(&self) {
        self.0.store(WAITING, Ordering::Release);
    }

    /// Writes and flushes are served again.
    pub fn release(&self) {
        self.0.store(RELEASED, Ordering::Release);
    }

    /// Return `true` if they are refused, or wait.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Acquire) != RELEASED
    }

    /// Return `true` if they wait.
    fn is_waiting(&self) -> bool {
        self.0.load(Ordering::Acquire) == WAITING
    }

    /// Return `true` if they fail.
    fn fails(&self) -> bool {
        self.0.load(Ordering::Acquire) == HELD
    }
}

impl Shard {
    /// Return the switch that refuses writes and flushes. An observer of
    /// [`Event::FlashFailed`](super::Event) that holds it does so before anything else is
    /// acknowledged.
    pub fn write_hold(&self) -> WriteHold {
        self.write_hold.clone()
    }

    /// Return the answer to requests of this kind, independent of their own result.
    pub(super) fn held_back(&self, kind: RequestKind) -> Result<(), RequestError> {
        let is_read = kind.only_reads();
        // A read promises nothing that the note must say first.
        if is_read || !self.write_hold.fails() { Ok(()) } else { Err(RequestError::Io) }
    }

    /// Return `true` if requests of this kind, and answers to them, wait.
    pub(super) fn must_wait(&self, kind: RequestKind) -> bool {
        !kind.only_reads() && self.write_hold.is_waiting()
    }

    /// Let go the answers that waited, once it is known whether they may be given.
    pub(super) fn release_replies(&mut self) {
        if self.write_hold.is_waiting() {
            return;
        }
        for (_, reply) in self.requests.take_held_replies() {
            let result = reply.result.and_then(|()| self.held_back(reply.kind));
            self.requests.push_reply(Reply { result, ..reply });
        }
    }

    /// Have requests whose answers waited, and which promise durable bytes, wait for the disk: the flash that has the
    /// bytes is given up.
    pub(super) fn promise_again(&mut self) {
        for (request, reply) in self.requests.take_held_replies() {
            if request.kind == RequestKind::Flush || request.is_durable {
                self.wait_for_all(request);
            } else {
                self.requests.hold_reply(request, reply);
            }
        }
    }
}
