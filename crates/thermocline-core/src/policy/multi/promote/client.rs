//! The half of a client: an LRU that keeps the pages which no lower tier has kept.
//!
//! Victims are dropped. With each request the client says how many hits its tier had since the last one,
//! and how long it lives: that is what the tier below compares with its own life. The answer says if the
//! page is kept here, and what time it is below.
//!
//! * Source: Gill, *On Multi-level Exclusive Caching*, FAST 2008.
//! * State: that of an order.
//! * Cost: O(1) per access.
//! * Deviations: see the policy.

use alloc::boxed::Box;

use super::order::Order;
use crate::policy::multi::halves::{Answer, Ask, Held, Hint, Link, Message};
use crate::{Op, PageId, Setup};

/// The only list.
const OWN: u32 = 0;

/// Decides which pages the first tier of one client holds.
#[derive(Clone, Debug)]
pub(in crate::policy::multi) struct Client {
    pages: Order,
    capacity_pages: u32,
    now: u64,
    /// Hits of which the server has not heard.
    hits: u32,
}

impl Client {
    pub(in crate::policy::multi) fn new(setup: &Setup) -> Self {
        let capacity_pages = setup.capacity_pages[0];
        let pages = Order::new(setup.ids(), Box::new([capacity_pages]));
        Self { pages, capacity_pages, now: 0, hits: 0 }
    }
}

impl Ask for Client {
    const WAITS: bool = true;

    fn access(&mut self, page: PageId, op: Op, link: &mut impl Link) {
        self.now += 1;
        if !self.holds(page) {
            let (hits, value) = (core::mem::take(&mut self.hits), self.pages.life(OWN));
            link.send(Message::Tell(Hint { hits, value }));
            return link.send(Message::of_miss(page, op));
        }
        self.pages.make_newest(OWN, page, self.now);
        self.hits = self.hits.saturating_add(1);
        match op {
            Op::Read => link.serve(page),
            Op::Write => link.send(Message::Write { page, held: Held::Yes }),
        }
    }

    fn answered(&mut self, page: PageId, answer: Answer, link: &mut impl Link) {
        let is_held = self.holds(page);
        let Answer::Kept(now) = answer else {
            if is_held {
                self.pages.remove(page);
                link.drop_copy(page);
            }
            return;
        };
        // Others have used the shared tiers meanwhile.
        self.now = self.now.max(now);
        if !is_held {
            link.keep(page);
            if self.pages.len(OWN) == self.capacity_pages
                && let Some(victim) = self.pages.take_oldest(OWN)
            {
                link.drop_copy(victim);
            }
        }
        // The clock of the tier below is taken over first, so lives of both tiers are measured in
        // one time.
        self.pages.make_newest(OWN, page, self.now);
    }

    fn invalidate(&mut self, page: PageId) -> bool {
        let is_held = self.holds(page);
        if is_held {
            self.pages.remove(page);
        }
        is_held
    }

    fn holds(&self, page: PageId) -> bool {
        self.pages.list_of(page).is_some()
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.pages.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.pages.assert_invariants();
        assert!(self.pages.len(OWN) <= self.capacity_pages, "a first tier has room");
    }

    fn memory_bytes(&self) -> usize {
        self.pages.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.pages.metadata_bytes()
    }
}
