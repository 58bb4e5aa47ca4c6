//! CLOCK-Pro: LIRS with clock hands, and a share of cold pages that adapts.
//!
//! All pages lie on one list by the time at which they came or a hand last moved them: hot ones, cold
//! ones, and cold ones that have already left the cache. A cold page is on test from when it comes
//! until the hot hand has passed it; if it is referenced meanwhile, it becomes hot. A hit only sets
//! a bit, which the hands look at: the cold hand evicts, the hot hand demotes and ends tests, the
//! test hand limits how many pages outside the cache are remembered. The number of pages that may be cold
//! grows with each reference to a page on test, and shrinks with each test that ends without.
//!
//! Each hand stands at the oldest page of its kind, so the list is a log with a class for each.
//!
//! * Source: Jiang, Chen and Zhang, *CLOCK-Pro: An Effective Improvement of the CLOCK Replacement*,
//!   USENIX ATC 2005, section 4.
//! * State: 4 bytes per page that exists, 40 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: (1) As in LIRS, the first pages are hot until there is room for the least number
//!   of cold pages only; the paper does not say. (2) A cold page that was referenced when not on
//!   test is on test once it is moved to the head: the paper says there that its status does not
//!   change, but defines that a reference starts a test. (3) If the hot hand finds no page to
//!   demote before it meets the page that is to be hot, that page stays cold, and is on test again;
//!   Caffeine's simulator reports this of the authors' program. libCacheSim 0.3.5 starts with cold
//!   pages only, promotes without comparing, and lets all pages be cold, so its miss counts differ.

use super::{Algorithm, Outcome, Registered, Replacement, Space, share_of};
use crate::config::{Parameter, Values};
use crate::queue::{Position, Recency};
use crate::{Op, PageId};

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real("cold_share", 0.0..=0.5, 0.01)
        .summary("least share of the cache for cold pages, and the first; hot pages keep as much")
        .source("LIRS: 1 %"),
    Parameter::real("ghost_share", 0.0..=100.0, 1.0)
        .summary("pages outside the cache that are remembered, as a share of the cache's pages")
        .source("section 4: as many as the cache has; Caffeine's simulator: twice as many"),
];

/// Flag of hot pages in the cache.
const HOT: u8 = 1;
/// Flag of cold pages in the cache.
const COLD: u8 = 2;
/// No longer in the cache, on test.
const GHOST: u8 = 4;
/// Flag next to [`COLD`]: on test.
const ON_TEST: u8 = 8;
/// Flag next to [`HOT`] or [`COLD`]: the reference bit.
const REFERENCED: u8 = 16;

/// The hot hand stands at the oldest page of this class.
const HOT_HAND: usize = 0;
/// The cold hand stands at the oldest page of this class.
const COLD_HAND: usize = 1;
/// The test hand stands at the oldest page of this class.
const TEST_HAND: usize = 2;

/// Bytes of a ghost: its page and its links.
const GHOST_BYTES: usize = 12;

/// Clock with hot, cold and test hands.
#[derive(Clone, Debug)]
pub struct ClockPro {
    /// The list, its tail the oldest.
    list: Recency<3>,
    hot_pages: u32,
    cold_pages: u32,
    ghost_pages: u32,
    capacity_pages: u32,
    ghosts_max: u32,
    /// Number of pages in the cache that should be cold.
    cold_target_pages: u32,
    /// The bounds of that.
    cold_min_pages: u32,
    cold_max_pages: u32,
}

/// Its row in the registry.
pub const CLOCK_PRO: Algorithm = Algorithm::new::<ClockPro>(
    "clock-pro",
    "LIRS with clock hands, and a share of cold pages that adapts; no flash",
    "Jiang, Chen, Zhang: CLOCK-Pro, USENIX ATC 2005",
    module_path!(),
    PARAMETERS,
);

impl Registered for ClockPro {
    fn new(space: Space<'_>, values: &Values) -> Self {
        let Space { ids, capacity_pages, .. } = space;
        let cold_min_pages = share_of(capacity_pages, values.real("cold_share")).max(1);
        let ghosts_max = share_of(capacity_pages, values.real("ghost_share"));
        let list_pages = capacity_pages.saturating_add(ghosts_max).saturating_add(2);
        Self {
            list: Recency::new(ids, list_pages, [HOT, COLD, GHOST | ON_TEST]),
            hot_pages: 0,
            cold_pages: 0,
            ghost_pages: 0,
            capacity_pages,
            ghosts_max,
            cold_target_pages: cold_min_pages,
            cold_min_pages,
            // Hot pages keep at least as many places as cold ones must have. The second term is for
            // a cache of one page.
            cold_max_pages: (capacity_pages - cold_min_pages).max(cold_min_pages),
        }
    }
}

impl Replacement for ClockPro {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        if let Some((position, state)) = self.list.find(page)
            && state & (HOT | COLD) != 0
        {
            // A hit only sets the bit, and writes nothing if it is set.
            if state & REFERENCED == 0 {
                self.list.set_state(position, state | REFERENCED);
            }
            return Outcome::Hit;
        }
        self.admit(page)
    }

    fn contains(&self, page: PageId) -> bool {
        self.list.state(page) & (HOT | COLD) != 0
    }

    fn forget(&mut self, page: PageId) {
        let Some((position, state)) = self.list.find(page) else { return };
        self.list.set_state(position, 0);
        self.hot_pages -= u32::from(state & HOT != 0);
        self.cold_pages -= u32::from(state & COLD != 0);
        self.ghost_pages -= u32::from(state & GHOST != 0);
        // The page may have been the oldest hot one: the hot hand moves on without being run.
        self.end_tests_behind_hot_hand();
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.list.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.list.assert_invariants();
        let count = |mask: u8| -> u32 {
            self.list.iter().map(|(_, _, state)| u32::from(state & mask != 0)).sum()
        };
        assert_eq!(self.hot_pages, count(HOT), "hot pages are counted");
        assert_eq!(self.cold_pages, count(COLD), "cold pages are counted");
        assert_eq!(self.ghost_pages, count(GHOST), "ghosts are counted");
        assert!(
            self.hot_pages + self.cold_pages <= self.capacity_pages,
            "the cache holds its capacity"
        );
        assert!(
            self.hot_pages <= self.capacity_pages - self.cold_min_pages,
            "hot pages leave room for cold ones"
        );
        assert!(self.ghost_pages <= self.ghosts_max, "ghosts have a limit");
        assert!(
            (self.cold_min_pages..=self.cold_max_pages).contains(&self.cold_target_pages),
            "the target is within its bounds"
        );
        let oldest = self.list.iter().find(|(_, _, state)| state & (HOT | GHOST | ON_TEST) != 0);
        assert!(
            self.hot_pages == 0 || oldest.is_none_or(|(_, _, state)| state & HOT != 0),
            "the hot hand has ended the tests behind it"
        );
    }

    fn memory_bytes(&self) -> usize {
        self.list.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.ghost_pages as usize * GHOST_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("cold_target_pages", f64::from(self.cold_target_pages));
    }
}

impl ClockPro {
    /// Brings in a page that is a ghost, or unknown.
    fn admit(&mut self, page: PageId) -> Outcome {
        let free_pages = self.capacity_pages - self.hot_pages - self.cold_pages;
        // The cold hand finds the page to replace; then the new page is inserted at
        // the head of the list.
        let evicted = (free_pages == 0).then(|| self.run_cold_hand());
        // The hot hand may have forgotten the page meanwhile.
        if self.list.state(page) == GHOST {
            // A page that returns during its test period becomes hot: its reuse distance is below
            // the age of the hot hand.
            self.turn_hot(page);
            self.ghost_pages -= 1;
        // Deviation (1): until only the minimum of cold pages is left, new pages are hot.
        } else if free_pages > self.cold_min_pages {
            self.list.touch(page, HOT);
            self.hot_pages += 1;
        } else {
            self.list.touch(page, COLD | ON_TEST);
            self.cold_pages += 1;
        }
        self.end_tests_behind_hot_hand();
        Outcome::Admitted { evicted }
    }

    /// Moves the cold hand to a page that was not referenced, and evicts that.
    fn run_cold_hand(&mut self) -> PageId {
        loop {
            let (position, state) =
                self.list.oldest(COLD_HAND).expect("a full cache has a cold page");
            let page = self.list.page(position);
            self.cold_pages -= 1;
            if state & REFERENCED == 0 {
                // A page that was not referenced is replaced. Within its test period
                // it stays on the list as a ghost.
                if state & ON_TEST == 0 {
                    self.list.set_state(position, 0);
                    return page;
                }
                self.list.set_state(position, GHOST);
                self.ghost_pages += 1;
                // The test hand ends tests of the oldest ghosts once there are too many.
                while self.ghost_pages > self.ghosts_max {
                    let (position, state) =
                        self.list.oldest(TEST_HAND).expect("a ghost is on test");
                    self.end_test(position, state);
                }
                return page;
            }
            // A page that was referenced on its test becomes hot. Otherwise the reference starts a
            // test: deviation (2).
            if state & ON_TEST != 0 {
                self.turn_hot(page);
                self.end_tests_behind_hot_hand();
            } else {
                self.list.touch(page, COLD | ON_TEST);
                self.cold_pages += 1;
            }
        }
    }

    /// Moves a page that was referenced on its test to the head of the list: hot, if there are
    /// colder hot pages. The caller counts it out of its former kind.
    fn turn_hot(&mut self, page: PageId) {
        // Before the hot hand runs: the target that this reference raises decides how many pages it
        // demotes.
        self.adapt(true);
        let is_hot = loop {
            // There is room for another hot page once the hot hand has demoted enough of them.
            if self.hot_pages < self.capacity_pages - self.cold_target_pages {
                break true;
            }
            if !self.run_hot_hand(page) {
                break false;
            }
        };
        if is_hot {
            self.list.touch(page, HOT);
            self.hot_pages += 1;
        } else {
            self.list.touch(page, COLD | ON_TEST);
            self.cold_pages += 1;
        }
    }

    /// Moves the hot hand to a page that was not referenced, and demotes that; `false` if there is
    /// none older than `page`.
    fn run_hot_hand(&mut self, page: PageId) -> bool {
        loop {
            let Some((position, state)) = self.list.oldest(HOT_HAND) else { return false };
            let end = self.list.find(page).map(|(end, _)| end);
            // Deviation (3): no hot page is older than the page itself.
            if end.is_none_or(|end| position > end) {
                return false;
            }
            self.end_tests_before(position);
            let hot = self.list.page(position);
            if state & REFERENCED == 0 {
                self.list.touch(hot, COLD);
                self.hot_pages -= 1;
                self.cold_pages += 1;
                return true;
            }
            // A hot page that was referenced gets another round with its bit cleared.
            self.list.touch(hot, HOT);
        }
    }

    /// End the tests of all pages that the hot hand passed before it stopped at a hot page.
    fn end_tests_behind_hot_hand(&mut self) {
        if let Some((position, _)) = self.list.oldest(HOT_HAND) {
            self.end_tests_before(position);
        }
    }

    /// Ends the tests of all pages older than a position.
    fn end_tests_before(&mut self, end: Position) {
        while let Some((position, state)) = self.list.oldest(TEST_HAND)
            && position < end
        {
            self.end_test(position, state);
        }
    }

    /// Ends a test. A ghost leaves the list.
    fn end_test(&mut self, position: Position, state: u8) {
        // A test ends for a ghost and for a resident page alike; the latter may have been
        // referenced since the cold hand last saw it.
        self.adapt(state & REFERENCED != 0);
        self.ghost_pages -= u32::from(state == GHOST);
        self.list.set_state(position, if state == GHOST { 0 } else { state & !ON_TEST });
    }

    /// Moves the target: up if a page was referenced on its test, down if it was not.
    fn adapt(&mut self, is_referenced: bool) {
        // Each referenced test says that more cold pages would pay, each that ends
        // without a reference that fewer would do.
        let target =
            if is_referenced { self.cold_target_pages + 1 } else { self.cold_target_pages - 1 };
        self.cold_target_pages = target.clamp(self.cold_min_pages, self.cold_max_pages);
    }
}
