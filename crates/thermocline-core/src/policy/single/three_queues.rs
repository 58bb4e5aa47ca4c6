//! The three queues that S3-FIFO, S4-FIFO and Clock2Q+ share.
//!
//! New pages enter the small queue S. A page that leaves S goes on to the main queue M if it was
//! referenced often enough there. Otherwise it leaves the cache, and the queue of ghosts G remembers
//! it; if it returns while G remembers it, it enters M at once. M is a clock. The algorithms differ in
//! what counts as often enough, and in what they remember.
//!
//! * Source: Yang et al., *FIFO Queues are All You Need for Cache Eviction*, SOSP '23, section 4,
//!   Algorithm 1; those of the other two algorithms.
//! * State: 4 bytes per page that exists, about 22 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: those of the three algorithms.

use core::fmt::Debug;
use core::marker::PhantomData;

use super::{Outcome, Registered, Replacement, Space, share_of};
use crate::config::Values;
use crate::queue::{Logs, PRESENT, Use};
use crate::{Op, PageId};

/// S, M and G.
const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOSTS: usize = 2;

/// The greatest value of a page's counter: two bits.
pub(super) const COUNT_MAX: u8 = 3;
/// The counter is in the state bits above [`PRESENT`].
const ONE: u8 = PRESENT << 1;

/// Bytes of a ghost: its page and its place in the queue.
const GHOST_BYTES: usize = 8;

/// Rules that distinguish an algorithm of three queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Share of S in the cache.
    pub(super) small_share: f64,
    /// Number of ghosts as a share of the cache's pages.
    pub(super) ghost_share: f64,
    /// Share of S, from its new end, in which references do not count.
    pub(super) window_share: f64,
    /// Counted references in S that bring a page to M.
    pub(super) promote_at: u8,
    /// Counted references in S that a ghost must have had to return to M.
    pub(super) return_at: u8,
    /// The greatest value of a counter.
    pub(super) count_max: u8,
    /// `true` if pages enter M once S has its share, while the cache fills up.
    pub(super) fills_main: bool,
}

/// An algorithm of three queues.
pub(super) trait Variant: Clone + Copy + Debug + Send {
    /// Return its rules with these values of its parameters.
    fn rules(values: &Values) -> Rules;
}

/// Three static queues.
#[derive(Clone, Debug)]
pub(super) struct ThreeQueues<V> {
    queues: Logs<3>,
    capacity_pages: u32,
    small_pages: u32,
    ghosts_max: u32,
    /// A reference to a page of S counts once this many pages entered S after it.
    window_pages: u32,
    promote_at: u8,
    return_at: u8,
    count_max: u8,
    /// Until the first eviction, if the main queue is filled too.
    fills_main: bool,
    variant: PhantomData<V>,
}

impl<V: Variant> ThreeQueues<V> {
    /// Evicts a page of a full cache.
    #[inline]
    fn evict(&mut self) -> PageId {
        // A page that is taken out later must not start the filling of M again.
        self.fills_main = false;
        // S gives up a page once it has its share, else M does.
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

    /// Run EVICTS of the paper; `None` if all pages of the small queue went on to the main one.
    #[inline]
    fn evict_from_small(&mut self) -> Option<PageId> {
        while let Some((page, state)) = self.queues.pop(SMALL) {
            // The page was referenced often enough in S: M keeps it, with its counter reset.
            if state / ONE >= self.promote_at {
                self.queues.push(MAIN, page, PRESENT);
                continue;
            }
            if self.ghosts_max > 0 {
                if self.queues.len(GHOSTS) == self.ghosts_max {
                    self.queues.pop(GHOSTS);
                }
                self.queues.push(GHOSTS, page, state);
            }
            return Some(page);
        }
        None
    }

    /// Run EVICTM of the paper; `None` if the main queue is empty.
    #[inline]
    fn evict_from_main(&mut self) -> Option<PageId> {
        while let Some((page, state)) = self.queues.pop(MAIN) {
            if state < ONE {
                return Some(page);
            }
            // FIFO reinsertion: each reference gives the page of M another round.
            self.queues.push(MAIN, page, state - ONE);
        }
        None
    }

    fn held_pages(&self) -> u32 {
        self.queues.len(SMALL) + self.queues.len(MAIN)
    }
}

impl<V: Variant> Registered for ThreeQueues<V> {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let rules = V::rules(values);
        let ghosts_max = share_of(capacity_pages, rules.ghost_share);
        let uses =
            [(capacity_pages, Use::Fifo), (capacity_pages, Use::Fifo), (ghosts_max, Use::Leaky)];
        let small_pages = share_of(capacity_pages, rules.small_share).max(1);
        Self {
            queues: Logs::new(ids, capacity_pages.saturating_add(ghosts_max), uses),
            capacity_pages,
            small_pages,
            ghosts_max,
            window_pages: share_above(small_pages, rules.window_share),
            promote_at: rules.promote_at,
            return_at: rules.return_at,
            count_max: rules.count_max,
            fills_main: rules.fills_main,
            variant: PhantomData,
        }
    }
}

impl<V: Variant> Replacement for ThreeQueues<V> {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        let position = self.queues.find(page);
        let queue = position.map(|position| (self.queues.queue_at(position), position));
        let mut target = SMALL;
        if let Some((queue, position)) = queue {
            let state = self.queues.state(position);
            if queue != GHOSTS {
                // In the window of S, references do not count.
                let counts = queue == MAIN
                    || self.window_pages == 0
                    || self.queues.entries_after(SMALL, position) >= self.window_pages;
                if counts && state / ONE < self.count_max {
                    self.queues.set_state(position, state + ONE);
                }
                return Outcome::Hit;
            }
            self.queues.remove(GHOSTS, position);
            // A page that returns while it is a ghost left S too early.
            if state / ONE >= self.return_at {
                // Algorithm 1, INSERT: a hit in G goes to M at once.
                target = MAIN;
            }
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

    /// Return the ghosts.
    fn metadata_bytes(&self) -> usize {
        self.queues.len(GHOSTS) as usize * GHOST_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("small_pages", f64::from(self.queues.len(SMALL)));
        report("main_pages", f64::from(self.queues.len(MAIN)));
        report("ghosts", f64::from(self.queues.len(GHOSTS)));
    }
}

/// Return a share of some pages, rounded up.
fn share_above(pages: u32, share: f64) -> u32 {
    let below = share_of(pages, share);
    below + u32::from(f64::from(below) < f64::from(pages) * share)
}

/// Return the value of a parameter that is compared with counters.
pub(super) fn count(values: &Values, name: &str) -> u8 {
    u8::try_from(values.integer(name))
        .expect("the parameter is declared within the counters' range")
}
