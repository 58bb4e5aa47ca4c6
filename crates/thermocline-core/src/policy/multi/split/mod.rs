//! Policies cut at the network: a half on the client's host decides for the first tier, a half on the
//! server's host for all tiers below.
//!
//! The halves know of each other what [`Message`]s say, and nothing else. The lab's policies are the
//! same halves, joined directly.
//!
//! * Source: Meng et al., JCST 32(2), 2017, has clients over a server, and says what travels between
//!   them; Wong and Wilkes, USENIX ATC 2002, has the demotion.
//! * State: see the policies.
//! * Cost: one message per miss, per write and per demotion; none per hit of a read.
//! * Deviations: (1) The server's half of `demote` keeps which pages each client holds, as it has to
//!   know whether a page that a client gives up is still in another first tier. It learns that from
//!   reads, writes and demotions, so nothing is sent for it. (2) Before a write is made, every other
//!   client is told to drop its copy, also one that the server does not know of: clients of `mq-n` drop
//!   victims without a word.

mod client;
mod joined;
mod server;

pub(super) use client::Victims;
pub use client::{ClientHalf, Link};
pub(super) use joined::Joined;
pub(super) use server::Receive;
pub use server::ServerHalf;

use super::{demote, mq_n};
use crate::config::Values;
use crate::{PageId, Setup};

/// What a client's half tells the server's.
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
        /// Whether the client held it before.
        held: Held,
    },
    /// The client gives up a page, which is clean, and offers it to the server.
    Demote {
        /// The page.
        page: PageId,
    },
}

/// Whether a client held a page before it wrote it: the hint of the client's hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// It did: the access is a hit of the first tier.
    Yes,
    /// It did not: the server looks for the page.
    No,
}

/// A policy that runs on two hosts.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// The name that it has in the registry.
    pub name: &'static str,
    victims: Victims,
    server: fn(&Setup, &Values) -> ServerHalf,
}

/// All of them.
pub const POLICIES: &[Split] = &[
    Split {
        name: demote::DEMOTE_NAME,
        victims: Victims::Demoted,
        server: |setup, values| ServerHalf::demote(demote::Server::new(setup, values)),
    },
    Split {
        name: mq_n::MQ_N_NAME,
        victims: Victims::Dropped,
        server: |setup, values| ServerHalf::mq(mq_n::Server::new(setup, values)),
    },
];

/// The policy of this name, if it can be split.
pub fn find(name: &str) -> Option<&'static Split> {
    POLICIES.iter().find(|split| split.name == name)
}

impl Split {
    /// The half of one client; `setup` is of the whole hierarchy.
    pub fn client(&self, setup: &Setup) -> ClientHalf {
        ClientHalf::new(setup, self.victims)
    }

    /// The half of the server; `setup` is of the whole hierarchy, `values` are the policy's parameters.
    pub fn server(&self, setup: &Setup, values: &Values) -> ServerHalf {
        (self.server)(setup, values)
    }
}
