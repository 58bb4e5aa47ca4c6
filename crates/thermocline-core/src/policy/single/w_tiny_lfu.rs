//! W-TinyLFU: a small LRU window before a segmented LRU that TinyLFU guards.
//!
//! A new page enters the window, so that a burst has time to show. What leaves the window enters the
//! main cache if it is referenced more often than the page that would leave that. The main cache has
//! a probation segment, where pages enter and leave, and a protected one for pages that were
//! referenced there.
//!
//! Every page that changes its segment is the newest of its new one, so one log orders all three.
//!
//! * Source: Einziger, Friedman and Manes, *TinyLFU: A Highly Efficient Cache Admission Policy*, ACM
//!   Trans. Storage 13(4), 2017, section 4.
//! * State: 4 bytes per page that exists, 38 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: (1) Those of [the histogram](crate::hotness::tiny_lfu). (2) Where probation is
//!   empty, the oldest protected page stands for the main cache's victim. libCacheSim 0.3.5 counts
//!   references in the main cache, admissions and evictions, but none in the window; it lets the
//!   window take the whole cache until that is full, hashes otherwise and has no doorkeeper: its
//!   miss counts differ.

use super::{Outcome, Replacement, Space, share_of};
use crate::config::{Kind, Parameter, Value, Values};
use crate::hotness::tiny_lfu::{self as histogram, TinyLfu};
use crate::queue::{Position, Recency};
use crate::{Op, PageId};

/// What can be set.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "window_share",
        kind: Kind::Real { min: 0.0, max: 1.0 },
        default: Value::Real(0.01),
        summary: "share of the cache for the window, one page at least",
        source: "section 4: 1 %",
    },
    Parameter {
        name: "protected_share",
        kind: Kind::Real { min: 0.0, max: 1.0 },
        default: Value::Real(0.8),
        summary: "share of the main cache for the protected segment",
        source: "section 4: 80 %",
    },
    histogram::SAMPLE_FACTOR,
    histogram::DOORKEEPER,
];

/// In the window.
const WINDOW: u8 = 1;
/// In the main cache, not referenced since.
const PROBATION: u8 = 2;
/// In the main cache, referenced there.
const PROTECTED: u8 = 4;

/// The class of the window in the log.
const OF_WINDOW: usize = 0;
/// The class of the probation segment.
const OF_PROBATION: usize = 1;
/// The class of the protected segment.
const OF_PROTECTED: usize = 2;

/// Windowed TinyLFU.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    log: Recency<3>,
    histogram: TinyLfu,
    window_pages: u32,
    window_capacity_pages: u32,
    probation_pages: u32,
    protected_pages: u32,
    protected_capacity_pages: u32,
    main_capacity_pages: u32,
}

impl Replacement for WTinyLfu {
    fn new(space: Space, values: &Values) -> Self {
        let Space { pages, capacity_pages } = space;
        let window_capacity_pages =
            share_of(capacity_pages, values.real("window_share")).clamp(1, capacity_pages);
        let main_capacity_pages = capacity_pages - window_capacity_pages;
        Self {
            log: Recency::new(
                pages,
                capacity_pages.saturating_add(1),
                [WINDOW, PROBATION, PROTECTED],
            ),
            histogram: TinyLfu::new(capacity_pages.min(pages), values),
            window_pages: 0,
            window_capacity_pages,
            probation_pages: 0,
            protected_pages: 0,
            protected_capacity_pages: share_of(main_capacity_pages, values.real("protected_share")),
            main_capacity_pages,
        }
    }

    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        self.histogram.record(page);
        match self.log.state(page) {
            0 => {
                self.log.touch(page, WINDOW);
                self.window_pages += 1;
                let is_over = self.window_pages > self.window_capacity_pages;
                let evicted = if is_over { self.leave_window() } else { None };
                self.prefetch_next();
                return Outcome::Admitted { evicted };
            }
            PROBATION => self.protect(page),
            segment => {
                self.log.touch(page, segment);
            }
        }
        Outcome::Hit
    }

    fn contains(&self, page: PageId) -> bool {
        self.log.find(page).is_some()
    }

    /// The histogram keeps its counts: pages share them.
    fn forget(&mut self, page: PageId) {
        if let Some((position, state)) = self.log.find(page) {
            self.window_pages -= u32::from(state == WINDOW);
            self.leave_main(position, state);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.log.prefetch(page);
        self.histogram.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.log.assert_invariants();
        self.histogram.assert_invariants();
        for (pages, segment) in [
            (self.window_pages, WINDOW),
            (self.probation_pages, PROBATION),
            (self.protected_pages, PROTECTED),
        ] {
            let counted = self.log.iter().filter(|(_, _, state)| *state == segment).count();
            assert_eq!(pages as usize, counted, "each segment is counted");
        }
        assert!(self.window_pages <= self.window_capacity_pages, "the window has a limit");
        assert!(self.protected_pages <= self.protected_capacity_pages, "so has what is protected");
        assert!(
            self.probation_pages + self.protected_pages <= self.main_capacity_pages,
            "the main cache holds its capacity"
        );
    }

    fn memory_bytes(&self) -> usize {
        self.log.memory_bytes() + self.histogram.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.histogram.memory_bytes()
    }
}

impl WTinyLfu {
    /// A page on probation is referenced: it is protected from now on, the oldest such no more.
    fn protect(&mut self, page: PageId) {
        if self.protected_capacity_pages == 0 {
            self.log.touch(page, PROBATION);
            return;
        }
        self.log.touch(page, PROTECTED);
        if self.protected_pages < self.protected_capacity_pages {
            self.protected_pages += 1;
            self.probation_pages -= 1;
            return;
        }
        let (position, _) = self.log.oldest(OF_PROTECTED).expect("a page is protected");
        self.log.touch(self.log.page(position), PROBATION);
    }

    /// The oldest page of the window leaves it, for the main cache or for good.
    fn leave_window(&mut self) -> Option<PageId> {
        let (position, _) = self.log.oldest(OF_WINDOW).expect("an over-full window has a page");
        let candidate = self.log.page(position);
        self.window_pages -= 1;
        if self.probation_pages + self.protected_pages < self.main_capacity_pages {
            self.log.touch(candidate, PROBATION);
            self.probation_pages += 1;
            return None;
        }
        let victim = self.log.oldest(OF_PROBATION).or_else(|| self.log.oldest(OF_PROTECTED));
        if let Some((place, state)) = victim {
            let page = self.log.page(place);
            if self.histogram.estimate(candidate) > self.histogram.estimate(page) {
                self.leave_main(place, state);
                self.log.touch(candidate, PROBATION);
                self.probation_pages += 1;
                return Some(page);
            }
        }
        self.log.set_state(position, 0);
        Some(candidate)
    }

    /// Asks the processor for the counts of those that will be compared next.
    #[inline]
    fn prefetch_next(&mut self) {
        for segment in [OF_WINDOW, OF_PROBATION] {
            if let Some((position, _)) = self.log.oldest(segment) {
                self.histogram.prefetch(self.log.page(position));
            }
        }
    }

    /// Takes a page out of the log, and out of its segment of the main cache.
    fn leave_main(&mut self, position: Position, state: u8) {
        self.probation_pages -= u32::from(state == PROBATION);
        self.protected_pages -= u32::from(state == PROTECTED);
        self.log.set_state(position, 0);
    }
}
