//! SLRU: LRU in segments; a hit brings a page to the next higher one.
//!
//! A new page enters the lowest segment, and the oldest page of that is evicted. A hit brings a page
//! to the new end of the segment above its own, or of the highest if it is there; the oldest page of
//! a segment that has become too long goes to the new end of the segment below. So what was
//! referenced once cannot displace what was referenced again.
//!
//! * Source: Karedla, Love, Wherry, *Caching Strategies to Improve Disk System Performance*, IEEE
//!   Computer 27(3), 1994: a probationary and a protected segment.
//! * State: 4 bytes per page that exists, about 26 bytes per cached page.
//! * Cost: amortised O(1) per reference, with a step per segment that has become too long.
//! * Deviations: (1) The paper has two segments; `segments` may be more, of equal size above the
//!   lowest, as in libCacheSim, whose default is four quarters. (2) The paper tunes the protected
//!   segment to the workload; `protected_share` is fixed. (3) While the cache fills up, pages enter
//!   the lowest segment, as all pages do in the paper; with `fill_upwards` they enter the lowest one
//!   that has room within its share, as in libCacheSim. (4) libCacheSim rounds all segments down,
//!   and evicts on a hit what the lowest has beyond its share; here only a miss evicts, so that its
//!   misses are the same if its segments divide the cache.

use super::{Algorithm, Outcome, Registered, Replacement, Space, share_of};
use crate::config::{Parameter, Values};
use crate::queue::{Logs, PRESENT, Use};
use crate::{Op, PageId};

/// The most segments.
const SEGMENTS_MAX: usize = 16;

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("segments", 2..=SEGMENTS_MAX as u64, 2)
        .summary("segments of the cache")
        .source("the paper: probationary and protected"),
    Parameter::real("protected_share", 0.0..=1.0, 0.8)
        .summary("share of all segments above the lowest in the cache")
        .source("usual; the paper tunes it to the workload"),
    Parameter::switch("fill_upwards", false)
        .summary("pages enter the lowest segment that has room within its share")
        .source("the paper: the lowest; libCacheSim: yes"),
];

/// The lowest segment, the probationary one.
const LOWEST: usize = 0;

/// Segmented LRU.
#[derive(Clone, Debug)]
pub struct Slru {
    segments: Logs<SEGMENTS_MAX>,
    highest: usize,
    capacity_pages: u32,
    held_pages: u32,
    /// Maximum number of pages in each segment above the lowest.
    upper_pages: u32,
    /// The lowest segment's share; it may have more.
    lowest_pages: u32,
    fills_upwards: bool,
}

/// Its row in the registry.
pub const SLRU: Algorithm = Algorithm::new::<Slru>(
    "slru",
    "LRU in segments; a hit brings a page to the next higher one; no flash",
    "Karedla, Love, Wherry: Caching Strategies, IEEE Computer 27(3), 1994",
    module_path!(),
    PARAMETERS,
);

impl Slru {
    /// Return the segment that a new page enters.
    #[inline]
    fn entrance(&self) -> usize {
        if !self.fills_upwards {
            return LOWEST;
        }
        if self.segments.len(LOWEST) < self.lowest_pages {
            return LOWEST;
        }
        let mut upper = LOWEST + 1..=self.highest;
        upper.find(|&segment| self.segments.len(segment) < self.upper_pages).unwrap_or(LOWEST)
    }

    /// Moves pages down from segments that are too long, from this one on.
    #[inline]
    fn settle(&mut self, segment: usize) {
        for segment in (LOWEST + 1..=segment).rev() {
            if self.segments.len(segment) <= self.upper_pages {
                break;
            }
            // To the newest end of the lower segment: the page was referenced more often than what
            // waits there.
            let moved = self.segments.shift(segment, segment - 1, PRESENT);
            debug_assert!(moved.is_some(), "a long segment has a page");
        }
    }
}

impl Registered for Slru {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let highest = values.integer_u32("segments") as usize - 1;
        let protected_share = values.real("protected_share");
        let upper_pages = share_of(capacity_pages, protected_share / highest as f64);
        let mut uses = [(0, Use::Fifo); SEGMENTS_MAX];
        // A segment is one page too long before it is settled.
        for used in &mut uses[LOWEST + 1..highest] {
            *used = (upper_pages + 1, Use::Leaky);
        }
        uses[highest] = (upper_pages + 1, Use::Lru);
        uses[LOWEST] = (capacity_pages, Use::Leaky);
        Self {
            segments: Logs::new(ids, capacity_pages, uses),
            highest,
            capacity_pages,
            held_pages: 0,
            upper_pages,
            lowest_pages: share_of(capacity_pages, 1.0 - protected_share),
            fills_upwards: values.switch("fill_upwards"),
        }
    }
}

impl Replacement for Slru {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        if let Some(position) = self.segments.find(page) {
            let segment = self.segments.queue_at(position);
            // A hit brings a page to the newest end of the next segment. Pages that overflow a
            // segment go to the newest end of the one below, where they get another chance.
            let above = (segment + 1).min(self.highest);
            self.segments.renew(page, (segment, position), above, PRESENT);
            self.settle(above);
            return Outcome::Hit;
        }
        let mut evicted = None;
        if self.held_pages == self.capacity_pages {
            evicted = (LOWEST..=self.highest).find_map(|segment| self.segments.pop(segment));
            self.held_pages -= 1;
        }
        let entrance = self.entrance();
        self.segments.push(entrance, page, PRESENT);
        self.held_pages += 1;
        Outcome::Admitted { evicted: evicted.map(|(page, _)| page) }
    }

    fn contains(&self, page: PageId) -> bool {
        self.segments.find(page).is_some()
    }

    fn forget(&mut self, page: PageId) {
        if let Some(position) = self.segments.find(page) {
            self.segments.remove(self.segments.queue_at(position), position);
            self.held_pages -= 1;
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.segments.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.segments.assert_invariants();
        assert!(self.held_pages <= self.capacity_pages, "the cache holds its capacity");
        let held: u32 = (LOWEST..SEGMENTS_MAX).map(|segment| self.segments.len(segment)).sum();
        assert_eq!(held, self.held_pages, "every page is counted once");
        for segment in LOWEST + 1..=self.highest {
            assert!(self.segments.len(segment) <= self.upper_pages, "an upper segment fits");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.segments.memory_bytes()
    }
}
