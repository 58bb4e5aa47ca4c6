//! The halves as policies of two engines, one in front of the other.
//!
//! An engine has RAM, flash and a backing store. To the client's engine the server is the backing store;
//! to the server's, the clients are outside. So each half keeps its tiers, and what crosses the network
//! is left to the messages of the engines.
//!
//! * Source: none; see the policies.
//! * State: that of the half.
//! * Cost: that of the half.
//! * Deviations: (1) A client that does not cooperate has no tier, so the server's half takes each page
//!   back that it has just given to such a client.

use super::halves::{ClientHalf, Link, Message};
use super::split::ServerHalf;
use crate::policy::News;
use crate::{Access, Action, Actions, Op, PageId, Policy, Setup, Survivor, Tier};

/// A client's half, as the policy of an engine whose backing store is the server.
#[derive(Debug)]
pub(super) struct HostedClient(ClientHalf);

impl HostedClient {
    pub(super) const fn new(half: ClientHalf) -> Self {
        Self(half)
    }
}

/// Turns what a half says into moves between RAM and the server.
struct Moves<'a>(&'a mut Actions);

impl Link for Moves<'_> {
    fn serve(&mut self, page: PageId) {
        self.0.serve(page, Op::Read, Tier::RAM, Tier::RAM);
    }

    fn send(&mut self, message: Message) {
        match message {
            Message::Read { page } => {
                self.0.copy(page, Tier::DISK, Tier::RAM);
                self.0.serve(page, Op::Read, Tier::DISK, Tier::RAM);
            }
            Message::Write { page, held } => {
                let found = if held.is_yes() { Tier::RAM } else { Tier::DISK };
                self.0.serve(page, Op::Write, found, Tier::RAM);
                self.0.copy(page, Tier::RAM, Tier::DISK);
            }
            Message::Demote { page } => self.0.copy(page, Tier::RAM, Tier::DISK),
        }
    }

    fn drop_copy(&mut self, page: PageId) {
        self.0.drop_copy(page, Tier::RAM);
    }
}

impl Policy for HostedClient {
    fn access(&mut self, access: Access, out: &mut Actions) {
        self.0.access(access.page, access.op, &mut Moves(out));
    }

    fn hear(&mut self, news: News, out: &mut Actions) {
        match news {
            News::Outdated { page } => {
                if self.0.invalidate(page) {
                    out.drop_copy(page, Tier::RAM);
                }
            }
            News::Message { message, .. } => debug_assert!(false, "a client hears {message:?}"),
            News::Left { .. } => {}
        }
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        surrender(survivors, out);
    }

    fn prefetch(&self, page: PageId) {
        self.0.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.0.assert_invariants();
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// The server's half, as the policy of an engine whose RAM and flash are the tiers below the clients.
#[derive(Debug)]
pub(super) struct HostedServer {
    half: ServerHalf,
    /// The number of clients that cooperate. The one behind them stands for all that do not.
    cooperating: u8,
    /// Actions of the half, in the tiers of the whole hierarchy.
    whole: Actions,
}

impl HostedServer {
    /// Create the server's half. `setup` describes the whole hierarchy, with one client more than cooperate.
    pub(super) fn new(setup: &Setup, half: ServerHalf) -> Self {
        Self { half, cooperating: setup.clients.get() - 1, whole: Actions::new() }
    }

    fn receive(&mut self, client: u8, message: Message, out: &mut Actions) {
        self.whole.clear();
        self.half.receive(client, message, &mut self.whole);
        let first_shared = self.cooperating + 1;
        let own = |tier: Tier| tier.0.checked_sub(first_shared).map(Tier);
        for action in self.whole.as_slice() {
            match *action {
                Action::Serve { page, op, found, .. } => {
                    // What the client held was looked for in no tier of this host.
                    let found = own(found).unwrap_or(Tier::DISK);
                    let tier = if op == Op::Read { found } else { Tier::DISK };
                    out.serve(page, op, found, tier);
                }
                Action::Copy { page, source, target } => match (own(source), own(target)) {
                    // The answer brings it to the client, and a write is served on disk.
                    (_, None) | (None, Some(Tier::DISK)) => {}
                    // It comes over the network, so it is written to RAM and read nowhere.
                    (None, Some(target)) => out.copy(page, Tier::RAM, target),
                    (Some(source), Some(target)) => out.copy(page, source, target),
                },
                Action::Drop { page, tier } => {
                    if let Some(tier) = own(tier) {
                        out.drop_copy(page, tier);
                    }
                }
            }
        }
    }
}

impl Policy for HostedServer {
    /// Handle an access of a client that does not cooperate: such a client keeps nothing.
    fn access(&mut self, access: Access, out: &mut Actions) {
        let page = access.page;
        let message = Message::of_miss(page, access.op);
        self.receive(self.cooperating, message, out);
        self.receive(self.cooperating, Message::Demote { page }, out);
    }

    fn hear(&mut self, news: News, out: &mut Actions) {
        match news {
            News::Message { client, message } => {
                assert!(client < self.cooperating, "a client has a number");
                self.receive(client, message, out);
            }
            News::Left { client } => self.half.forget_client(client),
            News::Outdated { .. } => debug_assert!(false, "nothing is above the server"),
        }
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        surrender(survivors, out);
    }

    fn prefetch(&self, page: PageId) {
        self.half.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.half.assert_invariants();
    }

    fn memory_bytes(&self) -> usize {
        self.half.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.half.metadata_bytes()
    }
}

/// Cleans and drops what flash still holds after a restart: policies of several tiers begin empty.
fn surrender(survivors: &[Survivor], out: &mut Actions) {
    for &Survivor { page, is_dirty } in survivors {
        if is_dirty {
            out.copy(page, Tier::FLASH, Tier::DISK);
        }
        out.drop_copy(page, Tier::FLASH);
    }
}
