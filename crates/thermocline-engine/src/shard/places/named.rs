//! Page that each id of the policy names.

use rapidhash::RapidHashMap;
use thermocline_core::PageId;

use crate::ids::IdSpace;

/// Ids of pages that are held. As a rule a page has the id that it should have, and nothing is kept of
/// it; only pages that cannot are in tables.
#[derive(Debug)]
pub(super) struct Named {
    space: IdSpace,
    /// The pages that have another id, and the same the other way round.
    ids: RapidHashMap<u64, PageId>,
    pages: RapidHashMap<PageId, u64>,
}

impl Named {
    pub(super) fn new(space: IdSpace) -> Self {
        Self { space, ids: RapidHashMap::default(), pages: RapidHashMap::default() }
    }

    pub(super) const fn space(&self) -> IdSpace {
        self.space
    }

    /// Return the key by which the index finds a page.
    #[inline]
    pub(super) fn key(&self, page: u64) -> u32 {
        self.space.wanted(page).0
    }

    /// Return the id of a page that is held.
    #[inline]
    pub(super) fn id(&self, page: u64) -> PageId {
        match self.ids.get(&page) {
            Some(&id) => id,
            None => self.space.wanted(page),
        }
    }

    /// Return the page that has an id which it should not have.
    pub(super) fn stray(&self, id: PageId) -> Option<u64> {
        self.pages.get(&id).copied()
    }

    /// Return `true` if the page has the id that it should have.
    pub(super) fn is_at_home(&self, page: u64) -> bool {
        !self.ids.contains_key(&page)
    }

    /// Give the page this id as long as it is held.
    pub(super) fn send_away(&mut self, page: u64, id: PageId) {
        self.ids.insert(page, id);
        self.pages.insert(id, page);
    }

    /// Forget a page that is no longer held.
    pub(super) fn forget(&mut self, page: u64) {
        if let Some(id) = self.ids.remove(&page) {
            self.pages.remove(&id);
        }
    }

    /// Return the number of pages that have another id than they should.
    #[cfg(test)]
    pub(super) fn strays(&self) -> usize {
        self.ids.len()
    }

    /// Heap memory in bytes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        // A bucket has a byte besides its entry.
        let ids = self.ids.capacity() * (size_of::<(u64, PageId)>() + 1);
        ids + self.pages.capacity() * (size_of::<(PageId, u64)>() + 1)
    }

    /// Checks the invariants.
    pub(super) fn assert_invariants(&self) {
        assert_eq!(self.ids.len(), self.pages.len(), "no two pages have the same id");
    }
}
