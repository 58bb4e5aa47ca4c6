//! Policies cut at the network: a half on the client's host decides for the first tier, a half on the
//! server's host for all tiers below.
//!
//! The halves know of each other what [`Message`]s say, and nothing else. The lab's policies are the
//! same halves, joined directly.
//!
//! * Source: Wong and Wilkes, USENIX ATC 2002, have clients that demote to a server; Zhou, Philbin, Li,
//!   USENIX 2001, have a server that only sees its clients' misses.
//! * State: see the policies.
//! * Cost: one message per miss, per write and per demotion, and one per request if the state of
//!   a client's cache has changed; none per hit of a read.
//! * Deviations: (1) The server's half of `demote`, and of other exclusive policies, keeps which pages each client holds, as it has to
//!   know whether a page that a client gives up is still in another first tier. It learns that from
//!   reads, writes and demotions, so nothing is sent for it. (2) Before a write is made, every other
//!   client is told to drop its copy, also one that the server does not know of: clients of `mq-n` drop
//!   victims without a word.

use alloc::boxed::Box;
use alloc::vec::Vec;

pub use super::halves::{Answer, Held, Hint, Link, Message, PASSED, Push, Victims};
use super::halves::{Ask as _, LruHalf, Receive as _};
use super::hfa::{self, Strategy};
use super::hosted::{HostedClient, HostedServer};
use super::{demote, hint_k, mq_n, promote};
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::PolicyEntry;
use crate::policy::single::mq;
use crate::random::{SEED, SplitMix64};
use crate::{Actions, BoxedPolicy, Clients, Op, PageId, Setup};

/// A policy that runs on two hosts.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// The name that it has in the registry.
    pub name: &'static str,
    /// Treatment of the pages that leave a client.
    pub victims: Victims,
    /// `true` if the server may [send](ServerHalf::take_push) a client pages that the client did not ask for.
    pub pushes: bool,
    parameters: &'static [Parameter],
    client: fn(&Setup, &Values) -> ClientHalf,
    server: fn(&Setup, &Values) -> ServerHalf,
}

const D_HFA: u8 = Strategy::Demote as u8;
const P_HFA: u8 = Strategy::Promote as u8;
const H_HFA: u8 = Strategy::Hint as u8;

/// All of them.
pub const POLICIES: &[Split] = &[
    Split {
        name: hfa::D_HFA_NAME,
        victims: Victims::Demoted,
        pushes: false,
        parameters: hfa::D_PARAMETERS,
        client: |setup, values| ClientHalf(Asking::DHfa(hfa::Client::new(setup, values))),
        server: |setup, values| ServerHalf(Half::DHfa(hfa::Server::new(setup, values))),
    },
    Split {
        name: demote::DEMOTE_NAME,
        victims: Victims::Demoted,
        pushes: false,
        parameters: demote::PARAMETERS,
        client: |setup, _| ClientHalf(Asking::Lru(LruHalf::new(setup, Victims::Demoted))),
        server: |setup, values| ServerHalf(Half::Demote(demote::Server::new(setup, values))),
    },
    Split {
        name: hfa::H_HFA_NAME,
        victims: Victims::Demoted,
        pushes: true,
        parameters: hfa::H_PARAMETERS,
        client: |setup, values| ClientHalf(Asking::HHfa(hfa::Client::new(setup, values))),
        server: |setup, values| ServerHalf(Half::HHfa(hfa::Server::new(setup, values))),
    },
    Split {
        name: hint_k::HINT_K_NAME,
        victims: Victims::Demoted,
        pushes: false,
        parameters: hint_k::PARAMETERS,
        client: |setup, _| ClientHalf(Asking::HintK(hint_k::Client::new(setup))),
        server: |setup, values| ServerHalf(Half::HintK(hint_k::Server::new(setup, values))),
    },
    Split {
        name: mq_n::MQ_N_NAME,
        victims: Victims::Dropped,
        pushes: false,
        parameters: mq::PARAMETERS,
        client: |setup, _| ClientHalf(Asking::Lru(LruHalf::new(setup, Victims::Dropped))),
        server: |setup, values| ServerHalf(Half::Mq(mq_n::Server::new(setup, values))),
    },
    Split {
        name: hfa::P_HFA_NAME,
        victims: Victims::Dropped,
        pushes: false,
        parameters: hfa::P_PARAMETERS,
        client: |setup, values| ClientHalf(Asking::PHfa(hfa::Client::new(setup, values))),
        server: |setup, values| ServerHalf(Half::PHfa(hfa::Server::new(setup, values))),
    },
    Split {
        name: promote::PROMOTE_NAME,
        victims: Victims::Dropped,
        pushes: false,
        parameters: promote::PARAMETERS,
        client: |setup, _| ClientHalf(Asking::Promote(promote::Client::new(setup))),
        server: |setup, values| {
            let draws = SplitMix64::new(values.integer(SEED.name));
            ServerHalf(Half::Promote(promote::Server::new(setup, values, draws)))
        },
    },
];

/// Return the policy of this name, if it can be split.
pub fn find(name: &str) -> Option<&'static Split> {
    POLICIES.iter().find(|split| split.name == name)
}

impl Split {
    /// Return the half of one client; `setup` is of the whole hierarchy, or of the client's tier, and
    /// `values` are the policy's parameters.
    pub fn client(&self, setup: &Setup, values: &Values) -> ClientHalf {
        (self.client)(setup, values)
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
        let build = move |setup: &Setup, values: &Values| -> BoxedPolicy {
            Box::new(HostedClient::new(self.client(setup, values)))
        };
        self.entry(build)
    }

    /// Return the half of the server as the policy of an engine: RAM and flash are the tiers below the
    /// clients. Without a flash, RAM is the only one.
    ///
    /// # Panics
    /// If there is no client, or there are too many.
    pub fn server_policy(&'static self, cooperating: Cooperating) -> PolicyEntry {
        let clients = Clients::new(cooperating.clients.into()).expect("a client cooperates");
        // One more stands for all that do not.
        let clients =
            clients.and_guest().expect("a guest fits, because at most 15 clients cooperate");
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

/// Decides which pages the first tier of one client holds.
#[derive(Clone, Debug)]
pub struct ClientHalf(Asking);

#[derive(Clone, Debug)]
enum Asking {
    DHfa(hfa::Client<D_HFA>),
    HHfa(hfa::Client<H_HFA>),
    Lru(LruHalf),
    HintK(hint_k::Client),
    PHfa(hfa::Client<P_HFA>),
    Promote(promote::Client),
}

/// Does the same with the client's half of any policy.
macro_rules! with_client {
    ($asking:expr, $half:ident => $does:expr) => {
        match $asking {
            Asking::DHfa($half) => $does,
            Asking::HHfa($half) => $does,
            Asking::Lru($half) => $does,
            Asking::HintK($half) => $does,
            Asking::PHfa($half) => $does,
            Asking::Promote($half) => $does,
        }
    };
}

impl ClientHalf {
    /// Process one page reference of this client. It holds the page afterwards, unless it
    /// [waits](Self::waits).
    pub fn access(&mut self, page: PageId, op: Op, link: &mut impl Link) {
        with_client!(&mut self.0, half => half.access(page, op, link));
    }

    /// Return `true` if it waits for the server's answer before it keeps a page.
    pub const fn waits(&self) -> bool {
        match self.0 {
            Asking::DHfa(_) => hfa::Client::<D_HFA>::WAITS,
            Asking::HHfa(_) => hfa::Client::<H_HFA>::WAITS,
            Asking::PHfa(_) => hfa::Client::<P_HFA>::WAITS,
            Asking::Lru(_) => LruHalf::WAITS,
            Asking::HintK(_) => hint_k::Client::WAITS,
            Asking::Promote(_) => promote::Client::WAITS,
        }
    }

    /// Takes the server's answer to a read, or to a write of a page that was not held.
    pub fn answered(&mut self, page: PageId, answer: Answer, link: &mut impl Link) {
        with_client!(&mut self.0, half => half.answered(page, answer, link));
    }

    /// Takes a page that the server [sends](ServerHalf::take_push). The half holds the page afterwards, or has
    /// given it back.
    pub fn pushed(&mut self, push: Push, link: &mut impl Link) {
        with_client!(&mut self.0, half => half.pushed(push.page, push.number, link));
    }

    /// Gives up a page that another client writes; returns `true` if it was held.
    pub fn invalidate(&mut self, page: PageId) -> bool {
        with_client!(&mut self.0, half => half.invalidate(page))
    }

    /// Return `true` if the client holds a page.
    pub fn holds(&self, page: PageId) -> bool {
        with_client!(&self.0, half => half.holds(page))
    }

    pub(super) fn prefetch(&self, page: PageId) {
        with_client!(&self.0, half => half.prefetch(page));
    }

    pub(super) fn memory_bytes(&self) -> usize {
        with_client!(&self.0, half => half.memory_bytes())
    }

    /// Checks every invariant of the half's state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        with_client!(&self.0, half => half.assert_invariants());
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
    DHfa(hfa::Server<D_HFA>),
    HHfa(hfa::Server<H_HFA>),
    Demote(demote::Server),
    HintK(hint_k::Server),
    Mq(mq_n::Server),
    PHfa(hfa::Server<P_HFA>),
    Promote(promote::Server<SplitMix64>),
}

/// Does the same with the server's half of any policy.
macro_rules! with_server {
    ($half:expr, $server:ident => $does:expr) => {
        match $half {
            Half::DHfa($server) => $does,
            Half::HHfa($server) => $does,
            Half::Demote($server) => $does,
            Half::HintK($server) => $does,
            Half::Mq($server) => $does,
            Half::PHfa($server) => $does,
            Half::Promote($server) => $does,
        }
    };
}

impl ServerHalf {
    /// Takes a message: appends the moves that the server makes, a [`Serve`](crate::Action::Serve)
    /// among them if the client reads or writes. Returns the answer to a client that
    /// [waits](ClientHalf::waits) for one.
    ///
    /// Before a write is received, every other client must have given the page up
    /// ([`ClientHalf::invalidate`]).
    pub fn receive(&mut self, client: u8, message: Message, out: &mut Actions) -> Option<Answer> {
        with_server!(&mut self.0, server => server.receive(client, message, out))
    }

    /// Return the page, if there is one, that goes to the client whose message was just
    /// [received](Self::receive): one that the client gave up has sent it (Algorithm 2 of HFA).
    pub fn take_push(&mut self) -> Option<Push> {
        with_server!(&mut self.0, server => server.take_push())
    }

    /// Forgets what a client holds, which has crashed or left: it comes back without a page.
    pub fn forget_client(&mut self, client: u8) {
        match &mut self.0 {
            Half::DHfa(server) => server.forget_client(client),
            Half::HHfa(server) => server.forget_client(client),
            Half::PHfa(server) => server.forget_client(client),
            Half::Demote(server) => server.forget_client(client),
            Half::HintK(server) => server.forget_client(client),
            Half::Promote(server) => server.forget_client(client),
            // It knows of no client what it holds.
            Half::Mq(_) => {}
        }
    }

    pub(super) fn prefetch(&self, page: PageId) {
        with_server!(&self.0, server => server.prefetch(page));
    }

    pub(super) fn memory_bytes(&self) -> usize {
        with_server!(&self.0, server => server.memory_bytes())
    }

    pub(super) fn metadata_bytes(&self) -> usize {
        with_server!(&self.0, server => server.metadata_bytes())
    }

    /// Checks every invariant of the half's state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        with_server!(&self.0, server => server.assert_invariants());
    }
}
