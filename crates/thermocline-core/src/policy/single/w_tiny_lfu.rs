//! W-TinyLFU: a small LRU window before a segmented LRU that TinyLFU guards.
//!
//! A new page enters the window, so that a burst has time to show. A page that leaves the window enters the
//! main cache if it is referenced more often than the page that would leave that. The main cache has
//! a probation segment, where pages enter and leave, and a protected one for pages that were
//! referenced there.
//!
//! Every page that changes its segment is the newest of its new one.
//!
//! * Source: Einziger, Friedman and Manes, *TinyLFU: A Highly Efficient Cache Admission Policy*, ACM
//!   Trans. Storage 13(4), 2017, section 4.
//! * State: 4 bytes per page that exists, 34 to 42 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: (1) Those of [the histogram](crate::hotness::tiny_lfu). (2) Where probation is
//!   empty, the oldest protected page stands for the main cache's victim. (3) The main cache's share
//!   is rounded down and the window has the rest, as in Caffeine. (4) A page that leaves the window
//!   with at least 6 references enters the main cache once in 128 times although it is not referenced
//!   more often than the victim, as in Caffeine, where this defends against hash collisions;
//!   `jitter` turns it off. libCacheSim 0.3.5 counts
//!   references in the main cache, admissions and evictions, but none in the window; it lets the
//!   window take the whole cache until that is full, hashes otherwise and has no doorkeeper: its
//!   miss counts differ.

use super::{Algorithm, Outcome, Registered, Replacement, Space, share_of};
use crate::config::{Parameter, Values};
use crate::hotness::tiny_lfu::{self as histogram, TinyLfu};
use crate::queue::{Logs, PRESENT, Use};
use crate::random::{SEED, SplitMix64};
use crate::{Op, PageId};

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real("window_share", 0.0..=1.0, 0.01)
        .summary("share of the cache for the window, one page at least")
        .source("section 4: 1 %"),
    Parameter::real("protected_share", 0.0..=1.0, 0.8)
        .summary("share of the main cache for the protected segment")
        .source("section 4: 80 %"),
    histogram::SAMPLE_FACTOR,
    histogram::DOORKEEPER,
    histogram::MINIMAL_INCREMENT,
    Parameter::switch("jitter", true)
        .summary(
            "whether a page with 6 references that would be refused is admitted once in 128 times",
        )
        .source("Caffeine"),
    SEED,
];

/// The least count of a page that is admitted by chance.
const WARM_COUNT: u64 = 6;
/// One warm page of this many is admitted by chance.
const CHANCES: u32 = 128;

/// The window.
const WINDOW: usize = 0;
/// The part of the main cache that was not referenced there.
const PROBATION: usize = 1;
/// The part of the main cache that was.
const PROTECTED: usize = 2;

/// Windowed TinyLFU.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    segments: Logs<3>,
    histogram: TinyLfu,
    /// The draws for pages that are admitted by chance, if any are.
    jitter: Option<SplitMix64>,
    window_capacity_pages: u32,
    protected_capacity_pages: u32,
    main_capacity_pages: u32,
}

/// Its row in the registry.
pub const W_TINY_LFU: Algorithm = Algorithm::new::<WTinyLfu>(
    "w-tinylfu",
    "a small LRU window before a segmented LRU that TinyLFU guards; no flash",
    "Einziger, Friedman, Manes: TinyLFU, ACM Trans. Storage 13(4), 2017",
    module_path!(),
    PARAMETERS,
);

impl Registered for WTinyLfu {
    fn new(space: Space<'_>, values: &Values) -> Self {
        let Space { ids, capacity_pages, .. } = space;
        let main_capacity_pages =
            share_of(capacity_pages, 1.0 - values.real("window_share")).min(capacity_pages - 1);
        let window_capacity_pages = capacity_pages - main_capacity_pages;
        let protected_capacity_pages =
            share_of(main_capacity_pages, values.real("protected_share"));
        // A page enters before another leaves.
        let segment = |capacity_pages: u32, usage| (capacity_pages.saturating_add(1), usage);
        let segments = [
            segment(window_capacity_pages, Use::Lru),
            segment(main_capacity_pages, Use::Leaky),
            segment(protected_capacity_pages, Use::Lru),
        ];
        Self {
            segments: Logs::new(ids, capacity_pages.saturating_add(1), segments),
            histogram: TinyLfu::new(capacity_pages.min(ids.pages), values),
            jitter: values.switch("jitter").then(|| SplitMix64::new(values.integer(SEED.name))),
            window_capacity_pages,
            protected_capacity_pages,
            main_capacity_pages,
        }
    }
}

impl Replacement for WTinyLfu {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        // Every reference is recorded, also of pages outside the cache: their frequency decides on
        // their admission.
        self.histogram.record(page);
        let Some(position) = self.segments.find(page) else {
            self.segments.push(WINDOW, page, PRESENT);
            let is_over = self.segments.len(WINDOW) > self.window_capacity_pages;
            let evicted = if is_over { self.leave_window() } else { None };
            self.prefetch_next();
            return Outcome::Admitted { evicted };
        };
        let segment = self.segments.queue_at(position);
        // A page that is referenced on probation becomes protected, and the oldest protected one returns to
        // probation.
        let is_promoted = segment == PROBATION && self.protected_capacity_pages > 0;
        let target = if is_promoted { PROTECTED } else { segment };
        self.segments.renew(page, (segment, position), target, PRESENT);
        if self.segments.len(PROTECTED) > self.protected_capacity_pages {
            self.segments.shift(PROTECTED, PROBATION, PRESENT);
        }
        Outcome::Hit
    }

    fn contains(&self, page: PageId) -> bool {
        self.segments.find(page).is_some()
    }

    /// Forget a page; the histogram keeps its counts, because pages share them.
    fn forget(&mut self, page: PageId) {
        if let Some(position) = self.segments.find(page) {
            self.segments.remove(self.segments.queue_at(position), position);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.segments.prefetch(page);
        self.histogram.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.segments.assert_invariants();
        self.histogram.assert_invariants();
        let [window, probation, protected] =
            [WINDOW, PROBATION, PROTECTED].map(|segment| self.segments.len(segment));
        assert!(window <= self.window_capacity_pages, "the window has a limit");
        assert!(protected <= self.protected_capacity_pages, "so has what is protected");
        assert!(
            probation + protected <= self.main_capacity_pages,
            "the main cache holds its capacity"
        );
    }

    fn memory_bytes(&self) -> usize {
        self.segments.memory_bytes() + self.histogram.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.histogram.memory_bytes()
    }
}

impl WTinyLfu {
    /// Move the oldest page of the window to the main cache, or evict it.
    #[inline]
    fn leave_window(&mut self) -> Option<PageId> {
        let main_pages = self.segments.len(PROBATION) + self.segments.len(PROTECTED);
        let mut evicted = None;
        if main_pages == self.main_capacity_pages {
            let segment = if self.segments.is_empty(PROBATION) { PROTECTED } else { PROBATION };
            let victim = self.segments.oldest(segment).map(|place| self.segments.page(place));
            let candidate = self.segments.oldest(WINDOW).map(|place| self.segments.page(place));
            let is_better = match (candidate, victim) {
                (Some(candidate), Some(victim)) => self.is_admitted(candidate, victim),
                _ => false,
            };
            let leaves = if is_better { segment } else { WINDOW };
            evicted = self.segments.pop(leaves).map(|(page, _)| page);
            if !is_better {
                return evicted;
            }
        }
        self.segments.shift(WINDOW, PROBATION, PRESENT);
        evicted
    }

    /// Return `true` if a page that leaves the window takes the place of the main cache's victim.
    #[inline]
    fn is_admitted(&mut self, candidate: PageId, victim: PageId) -> bool {
        let count = self.histogram.estimate(candidate);
        // A tie keeps the victim: pages of a scan all have the same count, and would replace each
        // other.
        if count > self.histogram.estimate(victim) {
            return true;
        }
        count >= WARM_COUNT && self.jitter.as_mut().is_some_and(|draws| draws.below(CHANCES) == 0)
    }

    /// Asks the processor for the counts of those that will be compared next.
    #[inline]
    fn prefetch_next(&mut self) {
        for segment in [WINDOW, PROBATION] {
            if let Some(position) = self.segments.oldest(segment) {
                self.histogram.prefetch(self.segments.page(position));
            }
        }
    }
}
