//! S3-FIFO: a small FIFO filters pages that are referenced once out of the main one.
//!
//! New pages enter the small queue S. One that leaves it goes on to the main queue M if it was
//! referenced more than once there; otherwise it leaves the cache, and is remembered in a queue of
//! ghosts G. A page that returns while it is remembered enters M at once. M is a clock with a counter
//! of two bits.
//!
//! * Source: Yang et al., *FIFO Queues are All You Need for Cache Eviction*, SOSP '23, section 4,
//!   Algorithm 1.
//! * State: 4 bytes per page that exists, about 22 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: (1) A page that comes when the cache is full evicts one page. In Algorithm 1 a move
//!   from S to a full M evicts from M too, which would leave room for several; the authors' code does
//!   as here. (2) While the cache fills up, pages enter S beyond its share, as in Algorithm 1; with
//!   `fill_main` they enter M when S has its share, as in the authors' later code and in libCacheSim.
//!   (3) An S of less than one page is one of a page. libCacheSim 0.3.5 refuses every page if S is of
//!   one page, so its misses differ in caches of less than 20 pages.

use super::{Algorithm, Outcome, Replacement, Space, share_of};
use crate::config::{Parameter, Values};
use crate::queue::{Logs, PRESENT, Use};
use crate::{Op, PageId};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real("small_share", 0.0..=1.0, 0.1)
        .summary("share of the small queue in the cache")
        .source("the paper, section 4.1"),
    Parameter::real("ghost_share", 0.0..=100.0, 0.9)
        .summary("ghosts that are remembered, as a share of the cache's pages")
        .source("the paper, section 4.1: as many as M has pages"),
    Parameter::integer("promote_at", 1..=COUNT_MAX as u64, 2)
        .summary("hits in the small queue that bring a page to the main one")
        .source("the paper, Algorithm 1: a counter above 1"),
    Parameter::switch("fill_main", false)
        .summary(
            "while the cache fills up, pages enter the main queue once the small one has its share",
        )
        .source("the paper, Algorithm 1: no; libCacheSim: yes"),
];

/// S, M and G.
const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOSTS: usize = 2;

/// What a page's counter holds at most: two bits.
const COUNT_MAX: u8 = 3;
/// The counter is in the state bits above [`PRESENT`].
const ONE: u8 = PRESENT << 1;

/// Bytes of a ghost: its page and its place in the queue.
const GHOST_BYTES: usize = 8;

/// Three static queues.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    queues: Logs<3>,
    capacity_pages: u32,
    small_pages: u32,
    ghosts_max: u32,
    promote_at: u8,
    /// Until the first eviction, if the main queue is filled too.
    fills_main: bool,
}

/// Its row in the registry.
pub const S3_FIFO: Algorithm = Algorithm::new::<S3Fifo>(
    "s3-fifo",
    "a small FIFO filters pages that are referenced once out of a main one; no flash",
    "Yang et al.: FIFO Queues are All You Need for Cache Eviction (S3-FIFO), SOSP 2023",
    module_path!(),
    PARAMETERS,
);

impl S3Fifo {
    /// Evicts a page of a full cache.
    #[inline]
    fn evict(&mut self) -> PageId {
        self.fills_main = false;
        if self.queues.len(SMALL) >= self.small_pages
            && let Some(victim) = self.evict_from_small()
        {
            return victim;
        }
        match self.evict_from_main() {
            Some(victim) => victim,
            None => self.evict_from_small().unwrap_or_else(|| {
                self.evict_from_main().expect("what left the small queue is in the main one")
            }),
        }
    }

    /// EVICTS of the paper; none if all pages of the small queue went on to the main one.
    #[inline]
    fn evict_from_small(&mut self) -> Option<PageId> {
        while let Some((page, state)) = self.queues.pop(SMALL) {
            if state / ONE >= self.promote_at {
                self.queues.push(MAIN, page, PRESENT);
                continue;
            }
            if self.ghosts_max > 0 {
                if self.queues.len(GHOSTS) == self.ghosts_max {
                    self.queues.pop(GHOSTS);
                }
                self.queues.push(GHOSTS, page, PRESENT);
            }
            return Some(page);
        }
        None
    }

    /// EVICTM of the paper; none if the main queue is empty.
    #[inline]
    fn evict_from_main(&mut self) -> Option<PageId> {
        while let Some((page, state)) = self.queues.pop(MAIN) {
            if state < ONE {
                return Some(page);
            }
            self.queues.push(MAIN, page, state - ONE);
        }
        None
    }

    fn held_pages(&self) -> u32 {
        self.queues.len(SMALL) + self.queues.len(MAIN)
    }
}

impl Replacement for S3Fifo {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let ghosts_max = share_of(capacity_pages, values.real("ghost_share"));
        let uses =
            [(capacity_pages, Use::Fifo), (capacity_pages, Use::Fifo), (ghosts_max, Use::Leaky)];
        #[expect(clippy::cast_possible_truncation, reason = "at most `COUNT_MAX`")]
        let promote_at = values.integer("promote_at") as u8;
        Self {
            queues: Logs::new(ids, capacity_pages.saturating_add(ghosts_max), uses),
            capacity_pages,
            small_pages: share_of(capacity_pages, values.real("small_share")).max(1),
            ghosts_max,
            promote_at,
            fills_main: values.switch("fill_main"),
        }
    }

    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        let position = self.queues.find(page);
        let queue = position.map(|position| (self.queues.queue_at(position), position));
        let mut target = SMALL;
        if let Some((queue, position)) = queue {
            if queue != GHOSTS {
                let state = self.queues.state(position);
                let one = if state / ONE < COUNT_MAX { ONE } else { 0 };
                self.queues.set_state(position, state + one);
                return Outcome::Hit;
            }
            self.queues.remove(GHOSTS, position);
            target = MAIN;
        }
        let is_full = self.held_pages() == self.capacity_pages;
        let evicted = is_full.then(|| self.evict());
        if self.fills_main && self.queues.len(SMALL) >= self.small_pages {
            target = MAIN;
        }
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
        assert!(self.queues.len(GHOSTS) <= self.ghosts_max, "the ghosts are bounded");
    }

    fn memory_bytes(&self) -> usize {
        self.queues.memory_bytes()
    }

    /// The ghosts.
    fn metadata_bytes(&self) -> usize {
        self.queues.len(GHOSTS) as usize * GHOST_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("small_pages", f64::from(self.queues.len(SMALL)));
        report("main_pages", f64::from(self.queues.len(MAIN)));
        report("ghosts", f64::from(self.queues.len(GHOSTS)));
    }
}
