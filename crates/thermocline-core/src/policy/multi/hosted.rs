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

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::halves::{Answer, Held, Hint, Link, Message, Push};
use super::split::{ClientHalf, ServerHalf};
use crate::policy::News;
use crate::{Access, Action, Actions, Op, PageId, Policy, Setup, Survivor, Tier};

/// A client's half, as the policy of an engine whose backing store is the server.
#[derive(Debug)]
pub(super) struct HostedClient {
    half: ClientHalf,
    /// Message for the server with the next request.
    untold: Option<Hint>,
    /// Numbers that go with pages which leave.
    carried: BTreeMap<PageId, u64>,
}

impl HostedClient {
    pub(super) const fn new(half: ClientHalf) -> Self {
        Self { half, untold: None, carried: BTreeMap::new() }
    }
}

/// Turns what a half says into moves between RAM and the server.
struct Moves<'a> {
    out: &'a mut Actions,
    untold: &'a mut Option<Hint>,
    carried: &'a mut BTreeMap<PageId, u64>,
    /// The half waits for an answer before it keeps a page.
    waits: bool,
}

impl Link for Moves<'_> {
    fn serve(&mut self, page: PageId) {
        self.out.serve(page, Op::Read, Tier::RAM, Tier::RAM);
    }

    fn send(&mut self, message: Message) {
        match message {
            // The server says if it stays.
            Message::Read { page } if self.waits => {
                self.out.serve(page, Op::Read, Tier::DISK, Tier::DISK);
            }
            Message::Write { page, held: Held::No } if self.waits => {
                self.out.serve(page, Op::Write, Tier::DISK, Tier::DISK);
            }
            Message::Read { page } => {
                self.out.copy(page, Tier::DISK, Tier::RAM);
                self.out.serve(page, Op::Read, Tier::DISK, Tier::RAM);
            }
            Message::Write { page, held } => {
                let found = if held.is_yes() { Tier::RAM } else { Tier::DISK };
                self.out.serve(page, Op::Write, found, Tier::RAM);
                self.out.copy(page, Tier::RAM, Tier::DISK);
            }
            Message::Demote { page, carried } => {
                self.out.copy(page, Tier::RAM, Tier::DISK);
                if let Some(carried) = carried {
                    self.carried.insert(page, carried);
                }
            }
            Message::Tell(hint) => {
                let hits = self.untold.map_or(0, |untold| untold.hits).saturating_add(hint.hits);
                *self.untold = Some(Hint { hits, ..hint });
            }
        }
    }

    fn keep(&mut self, page: PageId) {
        self.carried.remove(&page);
        self.out.copy(page, Tier::DISK, Tier::RAM);
    }

    fn drop_copy(&mut self, page: PageId) {
        self.out.drop_copy(page, Tier::RAM);
    }
}

impl Policy for HostedClient {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let Self { half, untold, carried } = self;
        let waits = half.waits();
        half.access(access.page, access.op, &mut Moves { out, untold, carried, waits });
    }

    fn hear(&mut self, news: News, out: &mut Actions) {
        let Self { half, untold, carried } = self;
        match news {
            News::Outdated { page } => {
                carried.remove(&page);
                if half.invalidate(page) {
                    out.drop_copy(page, Tier::RAM);
                }
            }
            News::Answered { page, answer } => {
                let waits = half.waits();
                half.answered(page, answer, &mut Moves { out, untold, carried, waits });
            }
            News::Pushed { push } => {
                let waits = half.waits();
                half.pushed(push, &mut Moves { out, untold, carried, waits });
            }
            News::Message { message, .. } => debug_assert!(false, "a client hears {message:?}"),
            News::Left { .. } => {}
        }
    }

    fn take_hint(&mut self) -> Option<Hint> {
        self.untold.take()
    }

    fn take_hint_with(&mut self, page: PageId) -> Option<Hint> {
        let value = self.carried.remove(&page)?;
        let hits = self.untold.as_mut().map_or(0, |untold| core::mem::take(&mut untold.hits));
        Some(Hint { hits, value })
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
}

/// The server's half, as the policy of an engine whose RAM and flash are the tiers below the clients.
#[derive(Debug)]
pub(super) struct HostedServer {
    half: ServerHalf,
    /// The number of clients that cooperate. The one behind them stands for all that do not.
    cooperating: u8,
    /// Actions of the half, in the tiers of the whole hierarchy.
    whole: Actions,
    /// Answers to the client that reads or writes, in order.
    answers: Vec<Answer>,
    /// The page that goes to the client which the last message is of.
    push: Option<Push>,
}

impl HostedServer {
    /// Create the server's half. `setup` describes the whole hierarchy, with one client more than cooperate.
    pub(super) fn new(setup: &Setup, half: ServerHalf) -> Self {
        let (cooperating, whole) = (setup.clients.get() - 1, Actions::new());
        Self { half, cooperating, whole, answers: vec![], push: None }
    }

    fn receive(&mut self, client: u8, message: Message, out: &mut Actions) -> Option<Answer> {
        self.whole.clear();
        let answer = self.half.receive(client, message, &mut self.whole);
        self.push = self.half.take_push();
        let first_shared = self.cooperating + 1;
        let own = |tier: Tier| tier.0.checked_sub(first_shared).map(Tier);
        for action in self.whole.as_slice() {
            match *action {
                Action::Serve { page, op, found, tier } => {
                    // No tier of this host was searched for a page that the client held.
                    let found = own(found).unwrap_or(Tier::DISK);
                    let kept = own(tier);
                    if op == Op::Read {
                        out.serve(page, op, found, kept.unwrap_or(found));
                        continue;
                    }
                    // A write is answered when the disk has it, so it is served there. It renews the copy of
                    // a tier that keeps the page.
                    out.serve(page, op, found, Tier::DISK);
                    if kept == Some(Tier::FLASH) {
                        out.copy(page, Tier::RAM, Tier::FLASH);
                    }
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
        answer
    }
}

impl Policy for HostedServer {
    /// Handle an access of a client that does not cooperate: such a client keeps nothing.
    fn access(&mut self, access: Access, out: &mut Actions) {
        let page = access.page;
        let message = Message::of_miss(page, access.op);
        let answer = self.receive(self.cooperating, message, out);
        if answer != Some(Answer::Passed) {
            self.receive(self.cooperating, Message::Demote { page, carried: None }, out);
        }
    }

    fn hear(&mut self, news: News, out: &mut Actions) {
        match news {
            News::Message { client, message } => {
                assert!(client < self.cooperating, "a client has a number");
                let answer = self.receive(client, message, out);
                self.answers.extend(answer);
            }
            News::Left { client } => self.half.forget_client(client),
            News::Outdated { .. } | News::Answered { .. } | News::Pushed { .. } => {
                debug_assert!(false, "nothing is above the server");
            }
        }
    }

    fn take_answers(&mut self) -> Vec<Answer> {
        core::mem::take(&mut self.answers)
    }

    fn take_push(&mut self) -> Option<Push> {
        self.push.take()
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
