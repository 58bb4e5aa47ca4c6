//! Policies cut at the network: a half on the client's host decides for the first tier, a half on the
//! server's host for all tiers below.
//!
//! The halves know of each other what [`Message`]s say, and nothing else. The lab's policies are the
//! same halves, joined directly.
//!
//! * Source: Wong and Wilkes, USENIX ATC 2002, have clients that demote to a server; Zhou, Philbin, Li,
//!   USENIX 2001, have a server that only sees its clients' misses.
//! * State: see the policies.
//! * Cost: one message per miss, per write and per demotion; none per hit of a read.
//! * Deviations: (1) The server's half of `demote` keeps which pages each client holds, as it has to
//!   know whether a page that a client gives up is still in another first tier. It learns that from
//!   reads, writes and demotions, so nothing is sent for it. (2) Before a write is made, every other
//!   client is told to drop its copy, also one that the server does not know of: clients of `mq-n` drop
//!   victims without a word.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::halves::Receive as _;
pub use super::halves::{ClientHalf, Held, Link, Message, Victims};
use super::hosted::{HostedClient, HostedServer};
use super::{demote, mq_n};
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::PolicyEntry;
use crate::policy::single::mq;
use crate::{Actions, BoxedPolicy, Clients, PageId, Setup};

/// A policy that runs on two hosts.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// The name that it has in the registry.
    pub name: &'static str,
    /// Treatment of the pages that leave a client.
    pub victims: Victims,
    parameters: &'static [Parameter],
    server: fn(&Setup, &Values) -> ServerHalf,
}

/// All of them.
pub const POLICIES: &[Split] = &[
    Split {
        name: demote::DEMOTE_NAME,
        victims: Victims::Demoted,
        parameters: demote::PARAMETERS,
        server: |setup, values| ServerHalf(Half::Demote(demote::Server::new(setup, values))),
    },
    Split {
        name: mq_n::MQ_N_NAME,
        victims: Victims::Dropped,
        parameters: mq::PARAMETERS,
        server: |setup, values| ServerHalf(Half::Mq(mq_n::Server::new(setup, values))),
    },
];

/// Return the policy of this name, if it can be split.
pub fn find(name: &str) -> Option<&'static Split> {
    POLICIES.iter().find(|split| split.name == name)
}

impl Split {
    /// Return the half of one client; `setup` is of the whole hierarchy.
    pub fn client(&self, setup: &Setup) -> ClientHalf {
        ClientHalf::new(setup, self.victims)
    }

    /// Return the half of the server; `setup` is of the whole hierarchy, `values` are the policy's
    /// parameters.
    pub fn server(&self, setup: &Setup, values: &Values) -> ServerHalf {
        (self.server)(setup, values)
    }
}

/// The greatest number of cooperating clients of a server: one more client stands for all others.
pub const COOPERATING_MAX: u8 = Clients::MAX - 1;

/// The clients of a server's engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooperating {
    /// Their number, from 1 to [`COOPERATING_MAX`].
    pub clients: u8,
    /// The pages that each holds.
    pub pages: u32,
}

impl Split {
    /// Return the half of one client as the policy of an engine. RAM is the client's tier, and the server is
    /// its backing store. A copy from RAM to disk of a page that RAM then drops is a demotion.
    pub fn client_policy(&'static self) -> PolicyEntry {
        let build = move |setup: &Setup, _: &Values| -> BoxedPolicy {
            Box::new(HostedClient::new(self.client(setup)))
        };
        self.entry(build)
    }

    /// Return the half of the server as the policy of an engine: RAM and flash are the tiers below the
    /// clients. Without a flash, RAM is the only one.
    ///
    /// # Panics
    /// If there is no client, or there are too many.
    pub fn server_policy(&'static self, cooperating: Cooperating) -> PolicyEntry {
        let clients = Clients::new(usize::from(cooperating.clients) + 1).expect("so many may be");
        assert!(clients != Clients::ONE, "a client cooperates");
        self.entry(move |setup, values| {
            let mut whole = Setup { clients, ..setup.clone() };
            let below = setup.capacity_pages.iter().copied();
            whole.capacity_pages =
                core::iter::once(cooperating.pages).chain(below).collect::<Vec<_>>();
            Box::new(HostedServer::new(&whole, self.server(&whole, values)))
        })
    }

    fn entry(
        &self,
        build: impl Fn(&Setup, &Values) -> BoxedPolicy + Send + Sync + 'static,
    ) -> PolicyEntry {
        let entry = PolicyEntry::new(self.name, Capabilities::of(Depth::Ram), build);
        PolicyEntry { parameters: self.parameters, ..entry }
    }
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
    /// Answers a message: appends the moves that the server makes, a [`Serve`](crate::Action::Serve)
    /// among them if the client reads or writes.
    ///
    /// Before a write is received, every other client must have given the page up
    /// ([`ClientHalf::invalidate`]).
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

    pub(super) fn prefetch(&self, page: PageId) {
        match &self.0 {
            Half::Demote(server) => server.prefetch(page),
            Half::Mq(server) => server.prefetch(page),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match &self.0 {
            Half::Demote(server) => server.memory_bytes(),
            Half::Mq(server) => server.memory_bytes(),
        }
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        match &self.0 {
            Half::Demote(server) => server.metadata_bytes(),
            Half::Mq(server) => server.metadata_bytes(),
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
