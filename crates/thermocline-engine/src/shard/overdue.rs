//! Requests that wait for devices that do not answer: they fail when their time is over.
//!
//! Only the requests end. An operation that a device has keeps its frames until the device reports it;
//! what it brings then is used as if nobody had waited.

use super::{Shard, Waiter};
use crate::request::RequestError;

impl Shard {
    /// Fails the requests that have waited for too long.
    pub(super) fn end_overdue(&mut self) {
        let overdue = self.requests.look_for_overdue(self.now, self.options.backing_timeout);
        if overdue.is_empty() {
            return;
        }
        self.waiters.forget(&overdue);
        self.blanks.forget_requests(&overdue);
        for (_, fetch) in &mut self.fetches {
            let pool = &mut self.pool;
            fetch.waiters.retain(|waiter| match *waiter {
                Waiter::Read { request, .. } => !overdue.contains(&request),
                Waiter::Patch { request, frame, .. } => {
                    let is_overdue = overdue.contains(&request);
                    if is_overdue {
                        pool.release(frame);
                    }
                    !is_overdue
                }
            });
        }
        for request in overdue {
            self.end(request, RequestError::Io);
        }
        self.is_stirred = true;
    }
}
