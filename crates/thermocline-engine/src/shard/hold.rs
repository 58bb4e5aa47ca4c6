//! Writes that are not acknowledged while something that their safety needs is not durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Shard;
use crate::request::{RequestError, RequestKind};

/// Switch by which a shard refuses writes and flushes; shared with the code that knows why it
/// should.
#[derive(Clone, Debug, Default)]
pub struct WriteHold(Arc<AtomicBool>);

impl WriteHold {
    /// Fail all writes and flushes from now on, even those taken before: none is acknowledged.
    pub fn hold(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Writes and flushes are served again.
    pub fn release(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Return `true` if they are refused.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Acquire)
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
        if is_read || !self.write_hold.is_held() { Ok(()) } else { Err(RequestError::Io) }
    }
}
