//! Interface of policies: pure state machines that turn accesses into actions.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;

use self::multi::split::{Answer, Hint, Message, Push};
use crate::{Access, Action, Actions, Choosing, Counts, Nanos, Op, PageId, Tier};

pub mod buffer;
pub mod hybrid;
pub mod multi;
pub mod single;

mod blocks;
mod sequence;

/// Number of accesses ahead at which the data behind the state of a page is prefetched; the state
/// itself was prefetched earlier.
const NEXT_ACCESSES: usize = 6;

/// A policy that owns its state, ready to be driven.
pub type BoxedPolicy = Box<dyn Policy + Send>;

/// A page that a tier below RAM still held after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Survivor {
    /// The page.
    pub page: PageId,
    /// `true` if the surviving copy is newer than the disk's.
    pub is_dirty: bool,
}

/// News from another host, for half of a policy that is [cut at the network](multi::split).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// A client's half tells the server's.
    Message {
        /// The client.
        client: u8,
        /// The message. If the message is a read or a write, the actions contain exactly one
        /// [`Serve`](Action::Serve).
        message: Message,
    },
    /// A client has left, or has crashed: it holds no page any more.
    Left {
        /// The client.
        client: u8,
    },
    /// The server answers a read or a write of a client.
    Answered {
        /// The page.
        page: PageId,
        /// The answer.
        answer: Answer,
    },
    /// The server sends a client a page because of one that the client gave up. The client has its content.
    Pushed {
        /// The page, and what the policy knows of it.
        push: Push,
    },
    /// Another client writes a page: this one gives its copy up.
    Outdated {
        /// The page.
        page: PageId,
    },
}

/// A cache policy.
///
/// A policy never reads a clock, a file or a random device, and it cannot fail. The same calls give
/// the same actions on every platform. Each call appends to `out` the moves that the driver must
/// make, in order; the driver clears `out` between calls. Capacities hold after the last action of
/// a call, in between a tier may hold a few pages more.
pub trait Policy: Debug {
    /// Process one page reference. The actions contain exactly one [`Serve`](crate::Action::Serve).
    fn access(&mut self, access: Access, out: &mut Actions);

    /// Process one page reference, after which `actions` holds its actions and no others.
    fn step<'a>(&mut self, access: Access, actions: &'a mut Actions) -> &'a [Action] {
        actions.clear();
        self.access(access, actions);
        actions.as_slice()
    }

    /// Process accesses in order. Their actions are counted, not kept. Before the n-th access, the
    /// page of the n-th of `coming`, if there are as many, is [asked for](Self::prefetch).
    ///
    /// It is compiled for every type of policy, so that the calls within are direct. A policy has
    /// one reason to override it: to count its moves without recording them first.
    fn access_all(
        &mut self,
        accesses: &[Access],
        coming: &[Access],
        actions: &mut Actions,
        counts: &mut Counts,
    ) {
        for_each(self, accesses, coming, |policy, access| {
            counts.add(policy.step(access, actions));
        });
    }

    /// Something that another host says, to a half of a policy that is cut at the network.
    ///
    /// Any other policy takes what a client reads or writes as an access, and ignores the rest.
    fn hear(&mut self, news: News, out: &mut Actions) {
        let News::Message { message, .. } = news else { return };
        match message {
            Message::Read { page } => self.access(Access { page, op: Op::Read, client: 0 }, out),
            Message::Write { page, .. } => {
                self.access(Access { page, op: Op::Write, client: 0 }, out);
            }
            Message::Demote { .. } | Message::Tell(_) => {}
        }
    }

    /// Return the message for the server with the next request, if this is the half of a client and
    /// there is something new.
    fn take_hint(&mut self) -> Option<Hint> {
        None
    }

    /// Return the message for the server with a page that leaves, if this is the half of a client and
    /// something goes with the page.
    fn take_hint_with(&mut self, _page: PageId) -> Option<Hint> {
        None
    }

    /// Return the answers to the messages heard since the last call, one for each read or write whose
    /// client waits for an answer, if this is the half of a server.
    fn take_answers(&mut self) -> Vec<Answer> {
        Vec::new()
    }

    /// Return the page, if there is one, that goes to the client whose message was just heard, if this is the
    /// half of a server. Its actions take the page out of its tier.
    fn take_push(&mut self) -> Option<Push> {
        None
    }

    /// Work that the policy does on its own, with `now` as the clock.
    ///
    /// Drivers call it before the first access of each request with the time of that request, if
    /// the policy [needs the clock](crate::registry::Capabilities::needs_clock) and requests have times.
    /// A policy that is never called counts accesses instead.
    fn background(&mut self, _now: Nanos, _out: &mut Actions) {}

    /// Writes every page that is newer than the disk's copy to disk, and keeps all copies, unless the cache
    /// keeps nothing that the disk has too.
    fn flush(&mut self, out: &mut Actions);

    /// Takes over the pages that flash still holds after a restart, given from the least to the
    /// most recently written. Those the policy does not want it cleans and drops.
    ///
    /// To be called once, before the first access.
    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions);

    /// Asks the processor for the state of a page that will be accessed soon. No effect otherwise.
    #[inline]
    fn prefetch(&self, _page: PageId) {}

    /// Asks for what that state leads to: the page was asked for a while ago, and is accessed sooner. No
    /// effect otherwise.
    #[inline]
    fn prefetch_next(&self, _page: PageId) {}

    /// Checks every invariant of the policy's state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    fn assert_invariants(&self);

    /// Heap memory of the policy's state in bytes, as allocated.
    fn memory_bytes(&self) -> usize;

    /// Return the current size, in bytes, of the data that the published algorithm keeps besides
    /// the pages themselves and their order: histories, ghosts, tables of hints.
    fn metadata_bytes(&self) -> usize {
        0
    }

    /// Report the current values that the policy adapts: a name, the tier concerned, the value.
    fn gauges(&self, _report: &mut dyn FnMut(&'static str, Tier, f64)) {}

    /// Report its choices, if this policy lets one of several decide.
    fn choosing(&self) -> Option<Choosing> {
        None
    }

    /// Goes on from the choices of a policy whose place this one takes, if both have the same candidates. Does
    /// nothing otherwise.
    ///
    /// To be called before anything else.
    fn resume(&mut self, _choosing: &Choosing) {}

    /// Sets whether accesses from now on only report the pages that memory holds since another policy decided. At
    /// first, they are those of a workload, and a policy may compare candidates by them.
    fn set_telling(&mut self, _is_telling: bool) {}
}

/// Run the loop of [`Policy::access_all`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "replays spend their time here")]
fn for_each<P: Policy + ?Sized>(
    policy: &mut P,
    accesses: &[Access],
    coming: &[Access],
    mut step: impl FnMut(&mut P, Access),
) {
    for (index, &access) in accesses.iter().enumerate() {
        if let Some(coming) = coming.get(index) {
            policy.prefetch(coming.page);
        }
        if let Some(next) = accesses.get(index + NEXT_ACCESSES) {
            policy.prefetch_next(next.page);
        }
        step(policy, access);
    }
}
