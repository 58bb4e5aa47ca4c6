//! The last moves of each page between tiers, and the K-step hint value made of them.
//!
//! * Source: Wu, He, Cao, Xie, *Hint-K*, ICPP 2010; TPDS 25(3), 2014, as used by Meng et al.,
//!   JCST 32(2), 2017, Algorithm 6.
//! * State: 16 bytes per page that exists; sparse, 27 per page that is cached or has a history of moves.
//! * Cost: O(K).
//! * Deviations: the formula and the bound on histories are those of [`khv`](crate::policy::multi::khv).

use crate::config::Values;
use crate::policy::multi::khv::Histories;
use crate::queue::Numbers;
use crate::{Ids, PageId, Setup};

use super::Part;

pub(super) use crate::policy::multi::khv::Move;

/// The last moves of every page that is cached, or was until lately.
#[derive(Clone, Debug)]
pub(super) struct History {
    numbers: Numbers,
    histories: Histories,
}

impl History {
    /// Create the history of caches with `cached_pages` pages together, and room for some beside them.
    fn new(ids: Ids, cached_pages: u64, beside: u64, values: &Values) -> Self {
        let ghosts_max = Histories::ghosts_max(ids.pages, cached_pages, values);
        let cached_pages = u32::try_from(cached_pages + beside).unwrap_or(u32::MAX);
        // A page enters before another one leaves.
        let tracked = cached_pages.saturating_add(ghosts_max).saturating_add(1);
        let numbers = Numbers::new(ids, tracked);
        let histories = Histories::new(numbers.count(), ghosts_max, values);
        Self { numbers, histories }
    }

    /// Create the history that a part of the tiers needs, which holds `cached_pages` pages itself. The server
    /// records the moves of all pages; a client knows those of the pages that it holds.
    pub(super) fn of_part(part: Part, setup: &Setup, cached_pages: u64, values: &Values) -> Self {
        let clients = u64::from(setup.clients.get());
        // A client that keeps nothing has no tier.
        let guests = u64::from(setup.clients.guest().is_some());
        let tops = u64::from(setup.capacity_pages[0]) * (clients - guests);
        match part {
            Part::Whole => Self::new(setup.ids(), cached_pages, 0, values),
            // A client says what it reads before it says what leaves for it.
            Part::Server => Self::new(setup.ids(), cached_pages + tops, clients, values),
            Part::Client => {
                let cached_pages = u32::try_from(cached_pages).unwrap_or(u32::MAX);
                let numbers = Numbers::new(setup.ids(), cached_pages.saturating_add(1));
                // No ghosts: a page that leaves the client takes its moves back to the server,
                // which remembers them.
                let histories = Histories::new(numbers.count(), 0, values);
                Self { numbers, histories }
            }
        }
    }

    /// Replace the moves of a page, of which another host has told.
    pub(super) fn replace(&mut self, page: PageId, moves: u32) {
        let Self { numbers, histories } = self;
        if moves != 0 {
            let number = numbers.enter(page, |number, _| histories.are_known(number));
            histories.replace(number, moves);
        } else if let Some(number) = numbers.find(page) {
            histories.replace(number, 0);
        }
    }

    /// Return the moves of a page, as [`replace`](Self::replace) takes them.
    pub(super) fn moves(&self, page: PageId) -> u32 {
        self.numbers.find(page).map_or(0, |number| self.histories.moves(number))
    }

    /// Adds a move to the history of a page.
    #[inline]
    pub(super) fn add(&mut self, page: PageId, next: Move) {
        let Self { numbers, histories } = self;
        let number = numbers.enter(page, |number, _| histories.are_known(number));
        histories.record(number, next);
    }

    /// Notes that a page has entered a cache.
    #[inline]
    pub(super) fn enter(&mut self, page: PageId) {
        if let Some(number) = self.numbers.find(page) {
            self.histories.enter(number);
        }
    }

    /// Notes that a page has left all caches.
    #[inline]
    pub(super) fn leave(&mut self, page: PageId) {
        if let Some(number) = self.numbers.find(page) {
            self.histories.leave(number);
        }
    }

    /// Return the K-step hint value: the greater, the more active the page; never negative.
    #[inline]
    pub(super) fn value(&self, page: PageId) -> f64 {
        self.numbers.find(page).map_or(0.0, |number| self.histories.value(number))
    }

    /// Return the size of the published scheme's data for `cached_pages` pages, in bytes.
    pub(super) fn metadata_bytes(&self, cached_pages: usize) -> usize {
        self.histories.metadata_bytes(cached_pages)
    }

    /// Return the size of the heap memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.numbers.memory_bytes() + self.histories.memory_bytes()
    }

    /// Checks the bound, and that only cached pages and ghosts have a history.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub(super) fn assert_invariants(&self, is_cached: impl Fn(PageId) -> bool) {
        self.numbers.assert_invariants();
        self.histories.assert_invariants(|number| is_cached(self.numbers.page(number)));
    }
}
