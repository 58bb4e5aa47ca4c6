//! OPT: evict the page whose next reference is farthest in the future. An oracle.
//!
//! No algorithm that loads every page it misses has fewer misses. It is built for a trace, and
//! driven along it: a bit per access to come says whether the page it goes to is in the cache, and
//! the last of these bits is the victim's. Pages that are not referenced again are evicted before
//! all others.
//!
//! * Source: Belady, *A Study of Replacement Algorithms for a Virtual-Storage Computer*, IBM Systems
//!   Journal 5(2), 1966 (MIN); Mattson et al., *Evaluation Techniques for Storage Hierarchies*, IBM
//!   Systems Journal 9(2), 1970, section "OPT replacement".
//! * State: 4 bytes per page that exists, 1/8 byte per access of the trace, 4 bytes per cached page
//!   that is not referenced again; the future takes 8 bytes per access, for all caches together.
//! * Cost: O(log n) per reference, with 64 ways: at most four steps for 16 million accesses.
//! * Deviations: of pages that are not referenced again, the one referenced last is evicted.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::capabilities::{Capabilities, Depth, Future};
use crate::config::Values;
use crate::foresight::{Foresight, NEVER};
use crate::prefetch::prefetch;
use crate::queue::Positions;
use crate::{Op, PageId};

/// Entry of [`Opt::next_of`] for a page that is not in the cache.
const ABSENT: u32 = NEVER - 1;

/// Number of accesses ahead at which the bit of an access's page is prefetched.
const PREFETCH_ACCESSES: usize = 8;

/// The optimal algorithm.
#[derive(Clone, Debug)]
pub struct Opt {
    foresight: Arc<Foresight>,
    /// The access that comes next.
    now: usize,
    /// Per page: the next access to it if it is in the cache, or [`NEVER`]; else [`ABSENT`].
    next_of: Vec<u32>,
    /// The next accesses to the pages in the cache, and accesses of the past.
    coming: Positions,
    /// The greatest of them; any number if there is none.
    farthest: usize,
    /// The pages in the cache that are not referenced again, those that were taken out among them.
    dead: Vec<u32>,
    held_pages: u32,
    capacity_pages: u32,
}

/// Its row in the registry.
pub const OPT: Algorithm = Algorithm::new::<Opt>(
    "opt",
    "the page whose next reference is farthest away leaves: an oracle (Belady); no flash",
    "Belady: A Study of Replacement Algorithms, IBM Systems Journal 5(2), 1966",
    module_path!(),
    &[],
)
.with(Capabilities { future: Future::Accesses, ..Capabilities::of(Depth::Ram) });

impl Opt {
    /// Evicts a page of a full cache.
    #[inline]
    fn evict(&mut self) -> PageId {
        let victim = loop {
            let Some(dead) = self.dead.pop() else {
                let farthest = self.farthest;
                self.forget_coming(farthest);
                // The trace says whose access that is: nothing is kept that leads from accesses to
                // pages.
                break self.foresight.page(farthest);
            };
            // A page that was forgotten meanwhile is still on the stack.
            if self.next_of[dead as usize] == NEVER {
                break PageId(dead);
            }
        };
        self.next_of[victim.index()] = ABSENT;
        self.held_pages -= 1;
        victim
    }

    /// Note that a page in the cache is accessed at that time.
    #[inline]
    fn note_coming(&mut self, access: usize) {
        self.coming.insert(access);
        if access >= self.farthest {
            self.set_farthest(access);
        }
    }

    /// Remove an access from those to come.
    #[inline]
    fn forget_coming(&mut self, access: usize) {
        self.coming.remove(access);
        if access == self.farthest {
            self.set_farthest(self.coming.greatest().unwrap_or(0));
        }
    }

    /// Set the farthest access: its page is the next to leave, and will be looked up soon.
    #[inline]
    fn set_farthest(&mut self, access: usize) {
        self.farthest = access;
        self.foresight.prefetch(access);
    }
}

impl Registered for Opt {
    /// # Panics
    /// If there is no foresight, which the registry provides.
    fn new(Space { ids, capacity_pages, inputs, .. }: Space<'_>, _values: &Values) -> Self {
        let foresight =
            inputs.foresight.as_ref().expect("the registry refuses an oracle without foresight");
        Self {
            coming: Positions::new(foresight.len()),
            foresight: Arc::clone(foresight),
            farthest: 0,
            now: 0,
            next_of: vec![ABSENT; ids.pages as usize],
            dead: Vec::with_capacity(capacity_pages.min(ids.pages) as usize),
            held_pages: 0,
            capacity_pages,
        }
    }
}

impl Replacement for Opt {
    /// # Panics
    /// If this is not the access that the foresight has next.
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        let (expected, next) = self.foresight.access(self.now);
        assert_eq!(page, expected, "an oracle is driven along the trace that it was built for");
        let mut outcome = Outcome::Hit;
        if self.next_of[page.index()] == ABSENT {
            let is_full = self.held_pages == self.capacity_pages;
            outcome = Outcome::Admitted { evicted: is_full.then(|| self.evict()) };
            self.held_pages += 1;
        }
        // An access that has come stays among the coming ones: it is never the farthest.
        self.next_of[page.index()] = next;
        if next == NEVER {
            self.dead.push(page.0);
        } else {
            self.note_coming(next as usize);
        }
        self.now += 1;
        if let Some(next) = self.foresight.next(self.now + PREFETCH_ACCESSES) {
            self.coming.prefetch(next as usize);
        }
        outcome
    }

    fn contains(&self, page: PageId) -> bool {
        self.next_of[page.index()] != ABSENT
    }

    fn forget(&mut self, page: PageId) {
        let next = core::mem::replace(&mut self.next_of[page.index()], ABSENT);
        if next == ABSENT {
            return;
        }
        if next != NEVER {
            self.forget_coming(next as usize);
        }
        self.held_pages -= 1;
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.next_of, page.index());
    }

    fn assert_invariants(&self) {
        self.coming.assert_invariants();
        let farthest = self.coming.greatest();
        assert!(farthest.is_none_or(|it| it == self.farthest), "the farthest access is known");
        assert!(self.held_pages <= self.capacity_pages, "the cache holds its capacity");
        let mut held = 0;
        for (page, &next) in (0..).map(PageId).zip(&self.next_of) {
            held += u32::from(next != ABSENT);
            if next != ABSENT && next != NEVER {
                let next = next as usize;
                assert!(next >= self.now, "the next access is to come");
                assert_eq!(self.foresight.page(next), page, "and goes to the page");
                assert!(self.coming.contains(next), "and is among those to come");
            }
        }
        assert_eq!(held, self.held_pages, "every page is counted once");
    }

    /// Excludes the future, which is shared.
    fn memory_bytes(&self) -> usize {
        let dead_bytes = self.dead.capacity() * size_of::<u32>();
        size_of_val(&*self.next_of) + self.coming.memory_bytes() + dead_bytes
    }
}
