//! Parts that the halves of all split policies share; [`split`](super::split) lists these policies.
//!
//! * Source: none; see the policies.
//! * State: none.
//! * Cost: none.
//! * Deviations: none.

mod client;
mod joined;

use core::fmt::Debug;

pub use client::{ClientHalf, Link, Victims};
pub(super) use joined::Joined;

use crate::action::Sink;
use crate::{Op, PageId, Tier};

/// Message from a client's half to the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// The client reads a page that it does not hold, and keeps it.
    Read {
        /// The page.
        page: PageId,
    },
    /// The client writes a page and keeps it; the write goes through to disk.
    Write {
        /// The page.
        page: PageId,
        /// Says if the client held it before.
        held: Held,
    },
    /// The client gives up a page, which is clean, and offers it to the server.
    Demote {
        /// The page.
        page: PageId,
    },
}

/// State of a page at a client before the client wrote it: the hint of the client's hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// The client found it: the access is a hit of the first tier.
    Yes,
    /// The client did not find it: the server looks for the page.
    No,
}

impl Message {
    /// Return the message of a client that accesses a page which it does not hold.
    pub const fn of_miss(page: PageId, op: Op) -> Self {
        match op {
            Op::Read => Self::Read { page },
            Op::Write => Self::Write { page, held: Held::No },
        }
    }
}

impl Held {
    /// `true` if the client held the page.
    pub const fn is_yes(self) -> bool {
        matches!(self, Self::Yes)
    }
}

/// Interface of a server's half.
pub(super) trait Receive: Debug {
    /// Answers a message. No other client holds a page any more that this one writes.
    fn receive(&mut self, client: u8, message: Message, out: &mut impl Sink);

    /// See [`Policy::prefetch`](crate::Policy::prefetch).
    fn prefetch(&self, page: PageId);

    /// See [`Policy::assert_invariants`](crate::Policy::assert_invariants).
    fn assert_invariants(&self);

    /// See [`Policy::memory_bytes`](crate::Policy::memory_bytes).
    fn memory_bytes(&self) -> usize;

    /// See [`Policy::metadata_bytes`](crate::Policy::metadata_bytes).
    fn metadata_bytes(&self) -> usize {
        0
    }

    /// See [`Policy::gauges`](crate::Policy::gauges).
    fn gauges(&self, _report: &mut dyn FnMut(&'static str, Tier, f64)) {}
}
