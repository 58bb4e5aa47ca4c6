//! The pages that clients hold, as their server learns it from their messages.
//!
//! * Source: none; exclusive policies need it, see [`split`](super::super::split).
//! * State: that of a stack per client.
//! * Cost: O(1) per message; to ask who holds a page, O(clients).
//! * Deviations: none.

use alloc::boxed::Box;

use super::super::stacks::Stack;
use crate::queue::Use;
use crate::{PageId, Setup, Tier};

/// Per client: the pages that it holds.
#[derive(Clone, Debug)]
pub(in crate::policy::multi) struct Holders {
    held: Box<[Stack]>,
    /// Pages that each may hold.
    capacity_pages: u32,
}

impl Holders {
    /// Create the stacks of all clients. `setup` is of the whole hierarchy.
    pub(in crate::policy::multi) fn new(setup: &Setup) -> Self {
        let capacity_pages = setup.capacity_pages[0];
        // A client says what it reads before it says what leaves for it.
        let held = |_| Stack::new(setup.ids(), capacity_pages.saturating_add(1), Use::Lru);
        Self { held: (0..setup.clients.get()).map(held).collect(), capacity_pages }
    }

    /// Return `true` if any client holds a page.
    pub(in crate::policy::multi) fn are_any(&self, page: PageId) -> bool {
        self.held.iter().any(|stack| stack.contains(page))
    }

    /// Note that a client holds a page. One that holds more than it may is not believed: the page is returned
    /// that it is now taken not to hold.
    pub(in crate::policy::multi) fn hold(&mut self, top: Tier, page: PageId) -> Option<PageId> {
        let stack = &mut self.held[top.index()];
        let is_full = stack.len() > self.capacity_pages && !stack.contains(page);
        let forgotten = if is_full { stack.take_oldest() } else { None };
        stack.make_newest(page);
        forgotten
    }

    /// Note that a client does not hold a page any more.
    pub(in crate::policy::multi) fn leave(&mut self, top: Tier, page: PageId) {
        let stack = &mut self.held[top.index()];
        if stack.contains(page) {
            stack.remove(page);
        }
    }

    /// Note that no client but one holds a page any more.
    pub(in crate::policy::multi) fn leave_others(&mut self, top: Tier, page: PageId) {
        for other in (0..).map(Tier).take(self.held.len()).filter(|&other| other != top) {
            self.leave(other, page);
        }
    }

    /// Take a page that a client holds out of what is known, if there is one.
    pub(in crate::policy::multi) fn take(&mut self, top: Tier) -> Option<PageId> {
        self.held[top.index()].take_oldest()
    }

    /// Return the number of pages of all clients.
    pub(in crate::policy::multi) fn pages(&self) -> usize {
        self.held.iter().map(|stack| stack.len() as usize).sum()
    }

    /// Return the size of the heap memory, in bytes.
    pub(in crate::policy::multi) fn memory_bytes(&self) -> usize {
        self.held.iter().map(Stack::memory_bytes).sum()
    }

    /// Checks the stacks, and that no page of theirs is in a shared tier.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub(in crate::policy::multi) fn assert_invariants(&self, is_shared: impl Fn(PageId) -> bool) {
        for stack in &self.held {
            stack.assert_invariants();
            assert!(stack.len() <= self.capacity_pages + 1, "a client has room");
            assert!(!stack.iter().any(&is_shared), "no page is in two tiers of a path");
        }
    }
}
