//! Parts that the halves of all split policies share; [`split`](super::split) lists these policies.
//!
//! * Source: none; see the policies.
//! * State: none.
//! * Cost: none.
//! * Deviations: none.

mod holders;
mod joined;
mod lru;

use core::fmt::Debug;

pub(super) use holders::Holders;
pub(super) use joined::Joined;
pub(super) use lru::LruHalf;

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
        /// Number that goes with the page, if the policy has one: see its client's half.
        carried: Option<u64>,
    },
    /// State of the client's cache, sent before a message that needs it. Without a new one, the last holds.
    Tell(Hint),
}

/// Hint of a client about its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hint {
    /// Hits of reads since the last hint, if the policy counts them.
    pub hits: u32,
    /// Measure of the policy: see its client's half.
    pub value: u64,
}

/// Answer of the server to a read or a write, if the client waits for one to know if it keeps the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The client keeps the page. The number is what the policy knows of it, below [`PASSED`].
    Kept(u64),
    /// A shared tier keeps the page: it only passes the client.
    Passed,
}

/// A page that the server sends because of one that the client has just given up. The client keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Push {
    /// The page.
    pub page: PageId,
    /// Number that goes with it, as with an [`Answer::Kept`].
    pub number: u64,
}

/// The number that stands for [`Answer::Passed`] on the wire.
pub const PASSED: u64 = u64::MAX;

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

impl Answer {
    /// Return the number that stands for the answer on the wire.
    pub const fn to_wire(self) -> u64 {
        match self {
            Self::Kept(value) => value,
            Self::Passed => PASSED,
        }
    }

    /// Return the answer of a number.
    pub const fn from_wire(number: u64) -> Self {
        if number == PASSED { Self::Passed } else { Self::Kept(number) }
    }
}

/// Destination of the pages that leave a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// The server is offered them.
    Demoted,
    /// The server does not hear of them.
    Dropped,
}

/// Services that a client's half asks for.
pub trait Link {
    /// Let the client read the page from its own tier.
    fn serve(&mut self, page: PageId);

    /// Send the server a message. It receives all messages of a client in the order of these calls.
    fn send(&mut self, message: Message);

    /// Let the client keep the page that the server has just answered for.
    fn keep(&mut self, page: PageId);

    /// Drop a page from the client's tier. If the page is demoted, the message goes before.
    fn drop_copy(&mut self, page: PageId);
}

/// Interface of a client's half.
pub(super) trait Ask: Debug {
    /// `true` if it waits for an answer before it keeps a page.
    const WAITS: bool;

    /// Process one page reference of this client. A half that does not wait holds the page afterwards.
    fn access(&mut self, page: PageId, op: Op, link: &mut impl Link);

    /// Takes the server's answer to a read, or to a write of a page that was not held.
    fn answered(&mut self, page: PageId, answer: Answer, link: &mut impl Link);

    /// Takes a page that the server [sends](Push).
    fn pushed(&mut self, _page: PageId, _number: u64, _link: &mut impl Link) {}

    /// Ends the access: the server sends no more because of it. An access ends at the latest when the next
    /// one begins.
    fn settle(&mut self, _link: &mut impl Link) {}

    /// Gives up a page that another client writes; returns `true` if it was held.
    fn invalidate(&mut self, page: PageId) -> bool;

    /// Return `true` if the client holds a page.
    fn holds(&self, page: PageId) -> bool;

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

    /// Report the figures of the client's tier; see [`Policy::gauges`](crate::Policy::gauges).
    fn gauges(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

/// Interface of a server's half.
pub(super) trait Receive: Debug {
    /// Takes a message. No other client holds a page any more that this one writes. Returns the answer to
    /// a client that [waits](Ask::WAITS).
    fn receive(&mut self, client: u8, message: Message, out: &mut impl Sink) -> Option<Answer>;

    /// Return the page, if there is one, that goes to the client whose message was just received.
    fn take_push(&mut self) -> Option<Push> {
        None
    }

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
