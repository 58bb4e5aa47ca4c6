//! The half of a client: it keeps the pages with the greatest values, which the server sends.
//!
//! A page's value is constant while the page stays, because only moves between tiers change it. So the
//! server says it once, with the page. The client tells the server which value a page must have to
//! enter, which is what Algorithm 6 of the HFA paper has the upper tier send with a request.
//!
//! * Source: Wu, He, Cao, Xie, *Hint-K*, ICPP 2010, as used by Meng et al., JCST 32(2), 2017,
//!   Algorithm 6.
//! * State: 8 bytes per page that exists, 24 per page of the tier; sparse, 42 per page of the tier.
//! * Cost: O(log n) per access.
//! * Deviations: none.

use super::Key;
use crate::policy::multi::halves::{Answer, Ask, Held, Hint, Link, Message};
use crate::queue::{IndexedHeap, Numbers};
use crate::{Op, PageId, Setup};

/// Decides which pages the first tier of one client holds.
#[derive(Clone, Debug)]
pub(in crate::policy::multi) struct Client {
    numbers: Numbers,
    /// The victim first.
    pages: IndexedHeap<Key>,
    capacity_pages: u32,
    /// Counts uses, so that no two pages are equally recent.
    uses: u64,
    /// The least value for which the server last heard that a page enters.
    told: u64,
}

impl Client {
    pub(in crate::policy::multi) fn new(setup: &Setup) -> Self {
        let capacity_pages = setup.capacity_pages[0];
        // A page enters before another one leaves.
        let numbers = Numbers::new(setup.ids(), capacity_pages.saturating_add(1));
        let pages = IndexedHeap::new(numbers.count());
        Self { numbers, pages, capacity_pages, uses: 0, told: 0 }
    }

    /// Return the number of a page that is held.
    fn find(&self, page: PageId) -> Option<u32> {
        self.numbers
            .find(page)
            .filter(|&number| self.pages.contains(number) && self.numbers.page(number) == page)
    }

    fn is_full(&self) -> bool {
        self.pages.len() >= self.capacity_pages as usize
    }

    /// Makes a page the most recently used.
    fn put(&mut self, number: u32, value: u64) {
        self.uses += 1;
        self.pages.set(number, (value, self.uses));
    }

    /// Return the least value, in bits, with which a page enters: any if there is room, else one above
    /// that of the next victim.
    fn least_entering(&self) -> u64 {
        match self.pages.least() {
            // Bits of values that are not negative order as the values do, so the next number up
            // means "larger than".
            Some(((least, _), _)) if self.is_full() => least + 1,
            _ => 0,
        }
    }

    /// Send the server the least value that enters, if that has changed.
    fn tell(&mut self, link: &mut impl Link) {
        let value = self.least_entering();
        if self.told != value {
            self.told = value;
            link.send(Message::Tell(Hint { hits: 0, value }));
        }
    }
}

impl Ask for Client {
    const WAITS: bool = true;

    fn access(&mut self, page: PageId, op: Op, link: &mut impl Link) {
        let Some(number) = self.find(page) else {
            self.tell(link);
            return link.send(Message::of_miss(page, op));
        };
        let (value, _) = self.pages.key(number).expect("it is held");
        self.put(number, value);
        match op {
            Op::Read => link.serve(page),
            Op::Write => link.send(Message::Write { page, held: Held::Yes }),
        }
    }

    fn answered(&mut self, page: PageId, answer: Answer, link: &mut impl Link) {
        let held = self.find(page);
        let Answer::Kept(value) = answer else {
            if let Some(number) = held {
                self.pages.remove(number);
                link.drop_copy(page);
            }
            return;
        };
        if held.is_none() {
            link.keep(page);
            if self.is_full()
                && let Some((_, victim)) = self.pages.least()
            {
                let victim_page = self.numbers.page(victim);
                self.pages.remove(victim);
                link.send(Message::Demote { page: victim_page, carried: None });
                link.drop_copy(victim_page);
            }
        }
        let pages = &self.pages;
        let number = self.numbers.enter(page, |number, _| pages.contains(number));
        self.put(number, value);
    }

    fn invalidate(&mut self, page: PageId) -> bool {
        let held = self.find(page);
        held.is_some_and(|number| self.pages.remove(number))
    }

    fn holds(&self, page: PageId) -> bool {
        self.find(page).is_some()
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        if let Some(number) = self.numbers.find_at_once(page) {
            self.pages.prefetch(number);
        }
    }

    fn assert_invariants(&self) {
        self.numbers.assert_invariants();
        self.pages.assert_invariants();
        assert!(self.pages.len() <= self.capacity_pages as usize, "a first tier has room");
    }

    fn memory_bytes(&self) -> usize {
        self.numbers.memory_bytes() + self.pages.memory_bytes()
    }
}
