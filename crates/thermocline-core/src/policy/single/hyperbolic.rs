//! Hyperbolic caching: evict, of a random sample, the page with the fewest references per time.
//!
//! A page's priority is the number of its references since it entered the cache, divided by the time
//! since then. It decays at a rate of its own while the page is not referenced, so there is no order
//! that could be kept: the victim is the worst of some pages that are drawn by lot.
//!
//! * Source: Blankstein, Sen, Freedman, *Hyperbolic Caching: Flexible Caching for Web Applications*,
//!   USENIX ATC '17, section 3.
//! * State: 4 bytes per page that exists, 20 bytes per cached page.
//! * Cost: a hit O(1), a miss O(sample).
//! * Deviations: (1) The same page may be drawn twice. (2) Of equal pages the one drawn first is
//!   evicted. (3) Pages cost the same and do not expire, so that cost classes and windows are left
//!   out.

use alloc::vec::Vec;

use super::{Algorithm, Outcome, Replacement, Space};
use crate::config::{Parameter, Values};
use crate::queue::Frames;
use crate::random::SEED;
use crate::random::SplitMix64;
use crate::{Op, PageId};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("sample", 1..=1 << 16, 64)
        .summary("pages that are drawn for an eviction")
        .source("the paper; libCacheSim: 64"),
    SEED,
];

/// Hyperbolic caching.
#[derive(Clone, Debug)]
pub struct Hyperbolic {
    frames: Frames,
    /// Per frame that holds a page: how it was used.
    records: Vec<Record>,
    sample: u32,
    /// References so far.
    now: u64,
    draws: SplitMix64,
}

/// How a page was used since it entered the cache.
#[derive(Clone, Copy, Debug)]
struct Record {
    entered_at: u64,
    references: u32,
}

/// Its row in the registry.
pub const HYPERBOLIC: Algorithm = Algorithm::new::<Hyperbolic>(
    "hyperbolic",
    "of a random sample, the page with the fewest references per time leaves; no flash",
    "Blankstein, Sen, Freedman: Hyperbolic Caching, USENIX ATC 2017",
    module_path!(),
    PARAMETERS,
);

impl Hyperbolic {
    /// Whether a page has a lower priority than another.
    #[inline]
    fn is_worse(&self, page: Record, other: Record) -> bool {
        // References over ages, multiplied out.
        let weigh = |references: u32, age_of: Record| {
            u128::from(references) * u128::from(self.now - age_of.entered_at)
        };
        weigh(page.references, other) < weigh(other.references, page)
    }

    /// The worst frame of a sample.
    #[inline]
    fn victim(&mut self) -> u32 {
        let frames = self.frames.count();
        let mut victim = self.draws.below(frames);
        for _ in 1..self.sample {
            let frame = self.draws.below(frames);
            if self.is_worse(self.records[frame as usize], self.records[victim as usize]) {
                victim = frame;
            }
        }
        victim
    }
}

impl Replacement for Hyperbolic {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let frames = Frames::new(ids, capacity_pages);
        Self {
            records: Vec::with_capacity(frames.count() as usize),
            frames,
            sample: values.integer_u32("sample"),
            now: 0,
            draws: SplitMix64::new(values.integer(SEED.name)),
        }
    }

    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        self.now += 1;
        if let Some(frame) = self.frames.find(page) {
            let references = &mut self.records[frame as usize].references;
            *references = references.saturating_add(1);
            return Outcome::Hit;
        }
        let record = Record { entered_at: self.now, references: 1 };
        let held = self.held_pages();
        if held < self.frames.count() {
            self.records.push(record);
            return Outcome::Admitted { evicted: self.frames.put(held, page) };
        }
        let victim = self.victim();
        self.records[victim as usize] = record;
        Outcome::Admitted { evicted: self.frames.put(victim, page) }
    }

    fn contains(&self, page: PageId) -> bool {
        self.frames.find(page).is_some()
    }

    fn forget(&mut self, page: PageId) {
        if let Some(frame) = self.frames.take_dense(page, self.held_pages()) {
            self.records.swap_remove(frame as usize);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.frames.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.frames.assert_invariants();
        for frame in 0..self.frames.count() {
            let is_held = self.frames.page(frame).is_some();
            assert_eq!(is_held, frame < self.held_pages(), "the first frames hold the pages");
        }
        assert!(self.records.iter().all(|record| record.references > 0), "pages were referenced");
    }

    fn memory_bytes(&self) -> usize {
        self.frames.memory_bytes() + self.records.capacity() * size_of::<Record>()
    }

    /// References and time of entry per page.
    fn metadata_bytes(&self) -> usize {
        self.records.len() * (size_of::<u64>() + size_of::<u32>())
    }
}

impl Hyperbolic {
    #[expect(clippy::cast_possible_truncation, reason = "as many as frames at most")]
    fn held_pages(&self) -> u32 {
        self.records.len() as u32
    }
}
