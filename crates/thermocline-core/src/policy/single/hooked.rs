//! A replacement algorithm of a caller, who only keeps pages in order.
//!
//! This half knows which pages are in the cache, and how many; the caller's [`Hooks`] hear of hits,
//! misses and removals, and choose the page to evict. So the hooks cannot break the hierarchy: if they
//! choose a page that the cache does not hold, nothing changes, and `chose_wrong` reports it to them.
//!
//! * Source: none; the caller's. The set of hooks is that of libCacheSim's plug-ins.
//! * State: one bit per page that exists; sparse, 6 bytes per cached page. The caller's besides.
//! * Cost: the caller's.
//! * Deviations: none.

use core::fmt::Debug;

use super::{Outcome, Replacement, Space};
use crate::queue::PageSet;
use crate::{Op, PageId};

/// The order in which a caller keeps the pages of a cache.
pub trait Hooks: Debug {
    /// Note a reference to a page in the cache.
    fn hit(&mut self, page: PageId, op: Op);

    /// Admit a page to the cache, which has room for it.
    fn miss(&mut self, page: PageId, op: Op);

    /// Choose the page that leaves the full cache for `page`, or `page` itself to refuse it. The
    /// chosen page is gone from then on, and [`miss`](Self::miss) follows.
    fn evict(&mut self, page: PageId, op: Op) -> PageId;

    /// Remove a page that the hierarchy takes out of the cache.
    fn remove(&mut self, page: PageId);

    /// Hear that [`evict`](Self::evict) chose a `victim` that is not in the cache. `page` is refused.
    fn chose_wrong(&mut self, victim: PageId, page: PageId);
}

/// An algorithm made of hooks.
#[derive(Debug)]
pub struct Hooked<H> {
    hooks: H,
    resident: PageSet,
    resident_pages: u32,
    capacity_pages: u32,
    /// Page ids are below this.
    pages: u32,
}

impl<H: Hooks> Hooked<H> {
    /// Create an empty cache.
    pub fn new(space: Space<'_>, hooks: H) -> Self {
        let Space { ids, capacity_pages, .. } = space;
        Self {
            hooks,
            resident: PageSet::new(ids, capacity_pages),
            resident_pages: 0,
            capacity_pages,
            pages: ids.pages,
        }
    }
}

impl<H: Hooks> Replacement for Hooked<H> {
    #[inline]
    fn refer(&mut self, page: PageId, op: Op) -> Outcome {
        if self.resident.contains(page) {
            self.hooks.hit(page, op);
            return Outcome::Hit;
        }
        let mut evicted = None;
        if self.resident_pages == self.capacity_pages {
            let victim = self.hooks.evict(page, op);
            if victim == page {
                return Outcome::Refused;
            }
            if victim.0 >= self.pages || !self.resident.remove(victim) {
                self.hooks.chose_wrong(victim, page);
                return Outcome::Refused;
            }
            self.resident_pages -= 1;
            evicted = Some(victim);
        }
        self.hooks.miss(page, op);
        self.resident.insert_if(page, true);
        self.resident_pages += 1;
        Outcome::Admitted { evicted }
    }

    fn contains(&self, page: PageId) -> bool {
        self.resident.contains(page)
    }

    fn forget(&mut self, page: PageId) {
        if self.resident.remove(page) {
            self.resident_pages -= 1;
            self.hooks.remove(page);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.resident.prefetch(page);
    }

    fn assert_invariants(&self) {
        let resident_pages = self.resident.iter().count();
        assert_eq!(resident_pages, self.resident_pages as usize, "every page is counted once");
        assert!(self.resident_pages <= self.capacity_pages, "the cache holds its capacity");
    }

    fn memory_bytes(&self) -> usize {
        self.resident.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::{Geometry, Ids, Indexing, Inputs};

    /// FIFO that chooses a page that is not cached when page 9 or 6 enters.
    #[derive(Debug, Default)]
    struct Fifo {
        queue: Vec<PageId>,
        wrong: Vec<PageId>,
    }

    impl Hooks for Fifo {
        fn hit(&mut self, _page: PageId, _op: Op) {}

        fn miss(&mut self, page: PageId, _op: Op) {
            self.queue.push(page);
        }

        fn evict(&mut self, page: PageId, _op: Op) -> PageId {
            match page.0 {
                8 => page,
                9 => PageId(7),
                6 => PageId(700),
                _ => self.queue.remove(0),
            }
        }

        fn remove(&mut self, page: PageId) {
            self.queue.retain(|&queued| queued != page);
        }

        fn chose_wrong(&mut self, victim: PageId, _page: PageId) {
            self.wrong.push(victim);
        }
    }

    #[test]
    fn it_keeps_what_hooks_admit_and_survives_a_wrong_choice() {
        let (geometry, inputs) = (Geometry::linear(10), Inputs::NONE);
        for indexing in [Indexing::Dense, Indexing::Sparse] {
            let ids = Ids { pages: 10, indexing };
            let space = Space { ids, capacity_pages: 2, geometry: &geometry, inputs: &inputs };
            let mut cache = Hooked::new(space, Fifo::default());
            let mut refer = |page| {
                let outcome = cache.refer(PageId(page), Op::Read);
                cache.assert_invariants();
                outcome
            };
            let admitted = |victim: Option<u32>| Outcome::Admitted { evicted: victim.map(PageId) };
            assert_eq!([refer(1), refer(2)], [admitted(None); 2]);
            assert_eq!(refer(1), Outcome::Hit);
            assert_eq!(refer(3), admitted(Some(1)));
            assert_eq!([refer(8), refer(9), refer(6)], [Outcome::Refused; 3]);
            assert_eq!(refer(2), Outcome::Hit);
            cache.forget(PageId(2));
            cache.forget(PageId(2));
            assert_eq!(cache.refer(PageId(1), Op::Read), admitted(None));
            assert_eq!(cache.hooks.wrong, vec![PageId(7), PageId(700)]);
            assert_eq!(cache.hooks.queue, vec![PageId(3), PageId(1)]);
        }
    }
}
