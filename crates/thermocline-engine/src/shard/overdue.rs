//! Requests that wait for devices that do not answer: they fail when their time is over.
//!
//! Only the requests end. An operation that a device has keeps its frames until the device reports it;
//! what it brings then is used as if nobody had waited.

use std::collections::BTreeSet;

use super::{Shard, Waiter};
use crate::request::RequestError;

/// How often requests are looked at, as a part of the time that they have, and at most.
const LOOKS_PER_TIMEOUT: u64 = 16;
const LOOK_INTERVAL_MAX: u64 = 250_000_000;

impl Shard {
    /// Fails the requests that have waited for too long.
    pub(super) fn end_overdue(&mut self) {
        let interval = (self.options.backing_timeout.0 / LOOKS_PER_TIMEOUT).min(LOOK_INTERVAL_MAX);
        if self.requests.is_empty() || self.now.0 < self.looked_for_overdue.0 + interval {
            return;
        }
        self.looked_for_overdue = self.now;
        let overdue: BTreeSet<usize> = self.overdue().into_iter().collect();
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
