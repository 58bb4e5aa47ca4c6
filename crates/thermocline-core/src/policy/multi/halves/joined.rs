//! The halves without a network between them: the policy of the lab.
//!
//! * Source: none; see the policies.
//! * State: that of the halves.
//! * Cost: that of the halves; a write also O(clients).
//! * Deviations: none.

use alloc::boxed::Box;

use super::super::hierarchy::Hierarchy;
use super::{ClientHalf, Link, Message, Receive, Victims};
use crate::action::Sink;
use crate::policy::for_each;
use crate::{Access, Actions, Counts, Op, PageId, Policy, Setup, Survivor, Tier};

/// The halves of all clients, and that of their server.
#[derive(Clone, Debug)]
pub(in crate::policy::multi) struct Joined<S> {
    hierarchy: Hierarchy,
    clients: Box<[ClientHalf]>,
    server: S,
}

/// One client's half, its server, and the other clients.
struct Direct<'a, S, O> {
    client: u8,
    /// The clients before it, and those behind it.
    others: [&'a mut [ClientHalf]; 2],
    server: &'a mut S,
    out: &'a mut O,
}

impl<S: Receive, O: Sink> Link for Direct<'_, S, O> {
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
        self.server.receive(self.client, message, self.out);
    }

    #[inline]
    fn drop_copy(&mut self, page: PageId) {
        self.out.drop_copy(page, Tier(self.client));
    }
}

impl<S: Receive> Joined<S> {
    pub(in crate::policy::multi) fn new(setup: &Setup, victims: Victims, server: S) -> Self {
        let client = |_| ClientHalf::new(setup, victims);
        let clients = (0..setup.clients.get()).map(client).collect();
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
        own.access(page, op, &mut Direct { client, others, server: &mut self.server, out });
    }
}

impl<S: Receive> Policy for Joined<S> {
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
        self.clients.iter().for_each(ClientHalf::assert_invariants);
        self.server.assert_invariants();
    }

    fn memory_bytes(&self) -> usize {
        let clients: usize = self.clients.iter().map(ClientHalf::memory_bytes).sum();
        clients + self.server.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.server.metadata_bytes()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        self.server.gauges(report);
    }
}
