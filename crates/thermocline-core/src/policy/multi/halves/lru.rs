//! The half of a client: an LRU, whose victims are demoted or dropped.
//!
//! * Source: Wong and Wilkes, USENIX ATC 2002; Zhou, Philbin, Li, USENIX 2001: both have an LRU there.
//! * State: 4 bytes per page that exists, 20 bytes per page of the tier; sparse, none and 14.
//! * Cost: amortised O(1) per access.
//! * Deviations: none.

use super::super::stacks::Stack;
use super::{Answer, Ask, Held, Link, Message, Victims};
use crate::queue::Use;
use crate::{Op, PageId, Setup};

/// Decides which pages the first tier of one client holds.
#[derive(Clone, Debug)]
pub(in crate::policy::multi) struct LruHalf {
    /// Newest first.
    order: Stack,
    capacity_pages: u32,
    victims: Victims,
}

impl LruHalf {
    pub(in crate::policy::multi) fn new(setup: &Setup, victims: Victims) -> Self {
        let capacity_pages = setup.capacity_pages[0];
        let order = Stack::new(setup.ids(), capacity_pages, Use::Lru);
        Self { order, capacity_pages, victims }
    }
}

impl Ask for LruHalf {
    const WAITS: bool = false;

    #[inline]
    fn access(&mut self, page: PageId, op: Op, link: &mut impl Link) {
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
                link.send(Message::Demote { page: victim, carried: None });
            }
            link.drop_copy(victim);
        }
        self.order.make_newest(page);
    }

    fn answered(&mut self, _page: PageId, _answer: Answer, _link: &mut impl Link) {}

    fn invalidate(&mut self, page: PageId) -> bool {
        let is_held = self.order.contains(page);
        if is_held {
            self.order.remove(page);
        }
        is_held
    }

    fn holds(&self, page: PageId) -> bool {
        self.order.contains(page)
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.order.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.order.assert_invariants();
        assert!(self.order.len() <= self.capacity_pages, "a first tier has room");
    }

    fn memory_bytes(&self) -> usize {
        self.order.memory_bytes()
    }
}
