//! The half of the server, whichever policy it is of.

use core::fmt::Debug;

use super::super::{demote, mq_n};
use super::Message;
use crate::action::Sink;
use crate::{Actions, PageId, Tier};

/// What the half of a server does.
pub(in crate::policy::multi) trait Receive: Debug {
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

/// Decides which pages the tiers hold that all clients share.
///
/// Its actions are of the whole hierarchy: tier `n` is the first tier of client `n`, and a copy from
/// there or to there travels over the network.
#[derive(Clone, Debug)]
pub struct ServerHalf(Half);

#[derive(Clone, Debug)]
enum Half {
    Demote(demote::Server),
    Mq(mq_n::Server),
}

impl ServerHalf {
    pub(super) const fn demote(server: demote::Server) -> Self {
        Self(Half::Demote(server))
    }

    pub(super) const fn mq(server: mq_n::Server) -> Self {
        Self(Half::Mq(server))
    }

    /// Answers a message: appends the moves that the server makes, a [`Serve`](crate::Action::Serve)
    /// among them if the client reads or writes.
    ///
    /// Before a write is received, every other client must have given the page up
    /// ([`ClientHalf::invalidate`](super::ClientHalf::invalidate)).
    pub fn receive(&mut self, client: u8, message: Message, out: &mut Actions) {
        match &mut self.0 {
            Half::Demote(server) => server.receive(client, message, out),
            Half::Mq(server) => server.receive(client, message, out),
        }
    }

    /// Forgets what a client holds, which has crashed or left: it comes back without a page.
    pub fn forget_client(&mut self, client: u8) {
        match &mut self.0 {
            Half::Demote(server) => server.forget_client(client),
            // It knows of no client what it holds.
            Half::Mq(_) => {}
        }
    }

    /// Checks every invariant of the half's state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        match &self.0 {
            Half::Demote(server) => server.assert_invariants(),
            Half::Mq(server) => server.assert_invariants(),
        }
    }
}
