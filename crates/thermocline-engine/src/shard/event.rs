//! What a shard tells those who watch it.

use thermocline_core::{Access, Action, Nanos};

use crate::request::Request;

/// Sees what a shard does, for recording and shadow policies.
pub type Observer = Box<dyn FnMut(&Event<'_>) + Send>;

/// What an observer sees.
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
        /// The access.
        access: Access,
        /// The policy's answer.
        actions: &'a [Action],
    },
    /// Neighbouring pages were accessed without asking the policy.
    Bypass {
        /// The time last told to the shard.
        now: Nanos,
        /// The access of the first page.
        access: Access,
        /// Number of pages.
        pages: u32,
    },
    /// The flash failed. What is acknowledged as durable from now on is on the backing store, and
    /// the flash, should it come back, is too old to be used.
    FlashFailed {
        /// The time last told to the shard.
        now: Nanos,
    },
    /// The policy worked on its own.
    Background {
        /// The time last told to the shard.
        now: Nanos,
        /// What it wants done.
        actions: &'a [Action],
    },
}
