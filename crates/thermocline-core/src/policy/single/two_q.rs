//! 2Q: a FIFO for pages that are new, an LRU for those that return after they left it.
//!
//! A new page enters A1in. References to it there are taken for correlated, and change nothing. When
//! it leaves A1in it leaves the cache, and is remembered in A1out for a while; if it returns by then,
//! it is hot and enters Am, an LRU. A1in has a share of the cache, and gives a page up whenever it is
//! above that; otherwise Am does.
//!
//! * Source: Johnson, Shasha, *2Q: A Low Overhead High Performance Buffer Management Replacement
//!   Algorithm*, VLDB 1994, the full version (section 3, figure 2).
//! * State: 4 bytes per page that exists, 31 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: (1) A page that returns leaves A1out before room is made for it, so that the page
//!   which is evicted for it takes its place there; figure 2 does not say when it leaves. (2) If A1in
//!   is within its share but Am is empty, A1in gives the page up, which parameters near 1 make
//!   possible.

use super::{Algorithm, Outcome, Registered, Replacement, Space, share_of};
use crate::config::{Parameter, Values};
use crate::queue::{Logs, PRESENT, Use};
use crate::{Op, PageId};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real("in_share", 0.0..=1.0, 0.25)
        .summary("share of A1in in the cache (Kin)")
        .source("the paper: 25 %"),
    Parameter::real("out_share", 0.0..=100.0, 0.5)
        .summary("pages that A1out remembers, as a share of the cache's pages (Kout)")
        .source("the paper: 50 %"),
];

/// A1in, A1out and Am.
const NEW: usize = 0;
const GHOSTS: usize = 1;
const HOT: usize = 2;

/// Bytes of a ghost: its page and its place in the queue.
const GHOST_BYTES: usize = 8;

/// Two queues, and a memory of the first.
#[derive(Clone, Debug)]
pub struct TwoQ {
    queues: Logs<3>,
    capacity_pages: u32,
    /// Kin.
    new_pages: u32,
    /// Kout.
    ghosts_max: u32,
}

/// Its row in the registry.
pub const TWO_Q: Algorithm = Algorithm::new::<TwoQ>(
    "2q",
    "a FIFO for new pages, an LRU for those that return after they left it; no flash",
    "Johnson, Shasha: 2Q, VLDB 1994",
    module_path!(),
    PARAMETERS,
);

impl TwoQ {
    /// Return the paper's `reclaimfor` in a full cache.
    #[inline]
    fn evict(&mut self) -> PageId {
        // `reclaimfor`: A1in gives up a page if it exceeds Kin, otherwise Am does.
        let is_hot = self.queues.len(NEW) <= self.new_pages && !self.queues.is_empty(HOT);
        let page = if is_hot || self.ghosts_max == 0 {
            self.queues.pop(if is_hot { HOT } else { NEW }).map(|(page, _)| page)
        } else {
            // A page that leaves A1in is remembered in A1out; one that leaves Am is forgotten.
            if self.queues.len(GHOSTS) == self.ghosts_max {
                self.queues.pop(GHOSTS);
            }
            self.queues.shift(NEW, GHOSTS, PRESENT)
        };
        page.expect("a full cache has a page")
    }

    fn held_pages(&self) -> u32 {
        self.queues.len(NEW) + self.queues.len(HOT)
    }
}

impl Registered for TwoQ {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let ghosts_max = share_of(capacity_pages, values.real("out_share"));
        let uses =
            [(capacity_pages, Use::Fifo), (ghosts_max, Use::Leaky), (capacity_pages, Use::Lru)];
        Self {
            queues: Logs::new(ids, capacity_pages.saturating_add(ghosts_max), uses),
            capacity_pages,
            new_pages: share_of(capacity_pages, values.real("in_share")),
            ghosts_max,
        }
    }
}

impl Replacement for TwoQ {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        let mut target = NEW;
        if let Some(position) = self.queues.find(page) {
            let queue = self.queues.queue_at(position);
            // A hit in A1in changes nothing: references that follow the first one closely are
            // correlated, and do not show that the page is hot.
            if queue == NEW {
                return Outcome::Hit;
            }
            if queue == HOT {
                self.queues.renew(page, (HOT, position), HOT, PRESENT);
                return Outcome::Hit;
            }
            // A page in A1out was referenced again after its correlated references ended, so it
            // goes to Am.
            // Deviation (1): before room is made, or a full A1out would forget another page for the
            // victim.
            self.queues.remove(GHOSTS, position);
            target = HOT;
        }
        let is_full = self.held_pages() == self.capacity_pages;
        let evicted = is_full.then(|| self.evict());
        self.queues.push(target, page, PRESENT);
        Outcome::Admitted { evicted }
    }

    fn contains(&self, page: PageId) -> bool {
        self.queues.queue_of(page).is_some_and(|queue| queue != GHOSTS)
    }

    fn forget(&mut self, page: PageId) {
        if let Some(position) = self.queues.find(page) {
            self.queues.remove(self.queues.queue_at(position), position);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.queues.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.queues.assert_invariants();
        assert!(self.held_pages() <= self.capacity_pages, "the cache holds its capacity");
        assert!(self.queues.len(GHOSTS) <= self.ghosts_max, "A1out is bounded");
    }

    fn memory_bytes(&self) -> usize {
        self.queues.memory_bytes()
    }

    /// Return the bytes of A1out.
    fn metadata_bytes(&self) -> usize {
        self.queues.len(GHOSTS) as usize * GHOST_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("new_pages", f64::from(self.queues.len(NEW)));
        report("hot_pages", f64::from(self.queues.len(HOT)));
        report("ghosts", f64::from(self.queues.len(GHOSTS)));
    }
}
