//! The half of a client: an LRU, whose victims are demoted or dropped.
//!
//! * Source: Wong and Wilkes, USENIX ATC 2002; Zhou, Philbin, Li, USENIX 2001: both have an LRU there.
//! * State: 4 bytes per page that exists, 20 bytes per page of the tier; sparse, none and 13.
//! * Cost: amortised O(1) per access.
//! * Deviations: none.

use super::super::stacks::Stack;
use super::{Held, Message};
use crate::queue::Use;
use crate::{Op, PageId, Setup};

/// Services that a client's half asks for.
pub trait Link {
    /// Let the client read the page from its own tier.
    fn serve(&mut self, page: PageId);

    /// Send the server a message. It receives all messages of a client in the order of these calls.
    fn send(&mut self, message: Message);

    /// Drop a page from the client's tier. If the page is demoted, the message goes before.
    fn drop_copy(&mut self, page: PageId);
}

/// Destination of the pages that leave a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// The server is offered them.
    Demoted,
    /// The server does not hear of them.
    Dropped,
}

/// Decides which pages the first tier of one client holds.
#[derive(Clone, Debug)]
pub struct ClientHalf {
    /// Newest first.
    order: Stack,
    capacity_pages: u32,
    victims: Victims,
}

impl ClientHalf {
    pub(in crate::policy::multi) fn new(setup: &Setup, victims: Victims) -> Self {
        let capacity_pages = setup.capacity_pages[0];
        let order = Stack::new(setup.ids(), capacity_pages, Use::Lru);
        Self { order, capacity_pages, victims }
    }

    /// Process one page reference of this client, after which it holds the page.
    #[inline]
    pub fn access(&mut self, page: PageId, op: Op, link: &mut impl Link) {
        let is_held = self.order.contains(page);
        match (op, is_held) {
            (Op::Read, true) => link.serve(page),
            (Op::Read, false) => link.send(Message::Read { page }),
            (Op::Write, true) => link.send(Message::Write { page, held: Held::Yes }),
            (Op::Write, false) => link.send(Message::Write { page, held: Held::No }),
        }
        if !is_held
            && self.order.len() >= self.capacity_pages
            && let Some(victim) = self.order.take_oldest()
        {
            if self.victims == Victims::Demoted {
                link.send(Message::Demote { page: victim });
            }
            link.drop_copy(victim);
        }
        self.order.make_newest(page);
    }

    /// Gives up a page that another client writes; returns `true` if it was held.
    pub fn invalidate(&mut self, page: PageId) -> bool {
        let is_held = self.order.contains(page);
        if is_held {
            self.order.remove(page);
        }
        is_held
    }

    /// Return `true` if the client holds a page.
    pub fn holds(&self, page: PageId) -> bool {
        self.order.contains(page)
    }

    #[inline]
    pub(in crate::policy::multi) fn prefetch(&self, page: PageId) {
        self.order.prefetch(page);
    }

    /// Checks every invariant of the half's state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        self.order.assert_invariants();
        assert!(self.order.len() <= self.capacity_pages, "a first tier has room");
    }

    pub(in crate::policy::multi) fn memory_bytes(&self) -> usize {
        self.order.memory_bytes()
    }
}
