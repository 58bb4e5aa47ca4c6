//! Hyperbolic caching: evict, of a random sample, the page with the fewest references per time.
//!
//! A page's priority is the number of its references since it entered the cache, divided by the time
//! since then. It decays at a rate of its own while the page is not referenced, so there is no order
//! that could be kept: the victim is the worst of some pages that are drawn by lot.
//!
//! * Source: Blankstein, Sen, Freedman, *Hyperbolic Caching: Flexible Caching for Web Applications*,
//!   USENIX ATC '17, section 3.
//! * State: 4 bytes per page that exists, 20 bytes per cached page, 4 per page of the sample.
//! * Cost: a hit O(1), a miss O(sample).
//! * Deviations: (1) The same page may be drawn twice. (2) Of equal pages the one drawn first is
//!   evicted. (3) Pages cost the same and do not expire, so that cost classes and windows are left
//!   out.

use alloc::vec;
use alloc::vec::Vec;

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::{Parameter, Values};
use crate::prefetch::prefetch;
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
    /// The frames among which the next eviction chooses.
    sample: Vec<u32>,
    /// References so far.
    now: u64,
    draws: SplitMix64,
}

/// Uses of a page since it entered the cache.
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
    /// Return the frame to evict, of the sample that was drawn. The next sample is drawn at once,
    /// so that the processor fetches its records while hits and other misses go on.
    #[inline]
    fn victim(&mut self) -> u32 {
        // Products of references and ages fit 64 bits for the first 2^32 references.
        let victim = if u32::try_from(self.now).is_ok() {
            self.worst(|references, age| u64::from(references) * age)
        } else {
            self.worst(|references, age| u128::from(references) * u128::from(age))
        };
        self.draw();
        victim
    }

    /// Return the first of the sample's frames with the lowest priority: references over age. Two
    /// are compared by products, without a division.
    #[inline]
    fn worst<W: PartialOrd>(&self, weigh: impl Fn(u32, u64) -> W) -> u32 {
        let use_of = |frame: u32| {
            let Record { entered_at, references } = self.records[frame as usize];
            (references, self.now - entered_at)
        };
        let mut worst = self.sample[0];
        let (mut references, mut age) = use_of(worst);
        for &frame in &self.sample[1..] {
            let (other_references, other_age) = use_of(frame);
            if weigh(other_references, age) < weigh(references, other_age) {
                (worst, references, age) = (frame, other_references, other_age);
            }
        }
        worst
    }

    /// Draws a sample of frames.
    fn draw(&mut self) {
        let frames = self.frames.count();
        for frame in &mut self.sample {
            *frame = self.draws.below(frames);
            prefetch(&self.records, *frame as usize);
        }
    }
}

impl Registered for Hyperbolic {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let frames = Frames::new(ids, capacity_pages);
        let mut hyperbolic = Self {
            records: Vec::with_capacity(frames.count() as usize),
            frames,
            sample: vec![0; values.integer_u32("sample") as usize],
            now: 0,
            draws: SplitMix64::new(values.integer(SEED.name)),
        };
        hyperbolic.draw();
        hyperbolic
    }
}

impl Replacement for Hyperbolic {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        self.now += 1;
        if let Some(frame) = self.frames.find(page) {
            let references = &mut self.records[frame as usize].references;
            *references = references.saturating_add(1);
            return Outcome::Hit;
        }
        // A new page starts with the best priority, one reference in no time, so that it is not
        // evicted before it could be hit.
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
        let sample_bytes = size_of_val(&*self.sample);
        self.frames.memory_bytes() + self.records.capacity() * size_of::<Record>() + sample_bytes
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
