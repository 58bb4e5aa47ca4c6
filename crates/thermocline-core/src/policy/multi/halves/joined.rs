//! The halves without a network between them: the policy of the lab.
//!
//! * Source: none; see the policies.
//! * State: that of the halves.
//! * Cost: that of the halves; a write also O(clients).
//! * Deviations: none.

use alloc::boxed::Box;

use super::super::hierarchy::Hierarchy;
use super::{Answer, Ask, Link, Message, Push, Receive};
use crate::action::Sink;
use crate::policy::for_each;
use crate::{Access, Actions, Counts, Op, PageId, Policy, Setup, Survivor, Tier};

/// The halves of all clients, and that of their server.
#[derive(Clone, Debug)]
pub(in crate::policy::multi) struct Joined<C, S> {
    hierarchy: Hierarchy,
    clients: Box<[C]>,
    server: S,
}

/// One client's half, its server, and the other clients.
struct Direct<'a, C, S, O> {
    client: u8,
    /// The clients before it, and those behind it.
    others: [&'a mut [C]; 2],
    server: &'a mut S,
    out: &'a mut O,
    /// The server's answers.
    answer: Option<Answer>,
    /// The page that it sends: one at most because of one access.
    push: Option<Push>,
}

impl<C: Ask, S: Receive, O: Sink> Link for Direct<'_, C, S, O> {
    #[inline]
    fn serve(&mut self, page: PageId) {
        let top = Tier(self.client);
        self.out.serve(page, Op::Read, top, top);
    }

    #[inline]
    fn send(&mut self, message: Message) {
        if let Message::Write { page, .. } = message {
            let [before, behind] = &mut self.others;
            let numbered = (0..).zip(before.iter_mut());
            for (client, half) in numbered.chain((self.client + 1..).zip(behind.iter_mut())) {
                if half.invalidate(page) {
                    self.out.drop_copy(page, Tier(client));
                }
            }
        }
        let answer = self.server.receive(self.client, message, self.out);
        if C::WAITS {
            self.answer = self.answer.or(answer);
        }
        self.push = self.push.or(self.server.take_push());
    }

    /// Do nothing: the server has said already that the page comes.
    #[inline]
    fn keep(&mut self, _page: PageId) {}

    #[inline]
    fn drop_copy(&mut self, page: PageId) {
        self.out.drop_copy(page, Tier(self.client));
    }
}

impl<C: Ask, S: Receive> Joined<C, S> {
    pub(in crate::policy::multi) fn new(setup: &Setup, client: impl Fn() -> C, server: S) -> Self {
        let clients = (0..setup.clients.get()).map(|_| client()).collect();
        Self { hierarchy: Hierarchy::new(setup), clients, server }
    }

    /// Process one page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, access: Access, out: &mut impl Sink) {
        let Access { page, op, client } = access;
        let (before, rest) = self.clients.split_at_mut(client.into());
        let (own, behind) = rest.split_first_mut().expect("every client has a half");
        let others = [before, behind];
        let mut direct =
            Direct { client, others, server: &mut self.server, out, answer: None, push: None };
        own.access(page, op, &mut direct);
        if let Some(answer) = direct.answer.take() {
            own.answered(page, answer, &mut direct);
        }
        while let Some(Push { page, number }) = direct.push.take() {
            own.pushed(page, number, &mut direct);
        }
        own.settle(&mut direct);
    }
}

impl<C: Ask, S: Receive> Policy for Joined<C, S> {
    fn access(&mut self, access: Access, out: &mut Actions) {
        self.step(access, out);
    }

    fn access_all(
        &mut self,
        accesses: &[Access],
        coming: &[Access],
        _actions: &mut Actions,
        counts: &mut Counts,
    ) {
        for_each(self, accesses, coming, |policy, access| policy.step(access, counts));
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.hierarchy.surrender(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        for client in &self.clients {
            client.prefetch(page);
        }
        self.server.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.clients.iter().for_each(C::assert_invariants);
        self.server.assert_invariants();
    }

    fn memory_bytes(&self) -> usize {
        let clients: usize = self.clients.iter().map(C::memory_bytes).sum();
        clients + self.server.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        let clients: usize = self.clients.iter().map(C::metadata_bytes).sum();
        clients + self.server.metadata_bytes()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        for (tier, client) in (0..).map(Tier).zip(&self.clients) {
            client.gauges(&mut |name, value| report(name, tier, value));
        }
        self.server.gauges(report);
    }
}
