//! Events that a shard reports to its observers.

use thermocline_core::{Action, Nanos, Op};

use crate::request::Request;

/// Sees what a shard does, for recording and shadow policies.
pub type Observer = Box<dyn FnMut(&Event<'_>) + Send>;

/// Event that an observer sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request was taken.
    Request {
        /// The time last told to the shard.
        now: Nanos,
        /// The request.
        request: &'a Request,
    },
    /// A page was accessed, and the policy answered with these actions.
    Access {
        /// The time last told to the shard.
        now: Nanos,
        /// The number of the page.
        page: u64,
        /// Read or write.
        op: Op,
        /// The policy's answer. It names pages by ids, which are their numbers only if all numbers of the
        /// backing store have 32 bits.
        actions: &'a [Action],
    },
    /// Neighbouring pages were accessed without asking the policy.
    Bypass {
        /// The time last told to the shard.
        now: Nanos,
        /// The number of the first page.
        page: u64,
        /// Read or write.
        op: Op,
        /// Number of pages.
        pages: u64,
    },
    /// The flash failed. All that is acknowledged as durable from now on is on the backing store, and
    /// the flash, should it come back, is too old to be used.
    FlashFailed {
        /// The time last told to the shard.
        now: Nanos,
    },
    /// The policy worked on its own.
    Background {
        /// The time last told to the shard.
        now: Nanos,
        /// Actions that it wants done.
        actions: &'a [Action],
    },
}
