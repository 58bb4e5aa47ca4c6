//! Learner of 3L-Cache: its records of pages, their number, and the model that it trains from them.
//!
//! * Source: Zhou et al., *3L-Cache*, FAST '25, by the authors' program.
//! * State: 32 bytes per known page, 9 per training sample, 8 per node of a tree.
//! * Cost: O(1) per reference, and a training per batch of samples.
//! * Deviations: those of 3L-Cache.

use crate::config::Values;
use crate::learning::{Forest, Samples, Settings, log};
use crate::queue::Stamp;
use crate::random::SplitMix64;

/// Age, three distances, references.
const FEATURES: usize = 2 + DISTANCES;
/// The last distances between references that are known of a page.
const DISTANCES: usize = 3;
/// No mark.
pub(super) const UNMARKED: u32 = u32::MAX;
/// No prediction.
pub(super) const UNPREDICTED: u32 = u32::MAX;

/// Record of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// The time of its last reference.
    pub(super) referred_at: Stamp,
    /// Its last distances, the newest first; 0 for those that it has not had.
    pub(super) distances: [u32; DISTANCES],
    pub(super) references: u32,
    /// Its age when it was marked for a training sample.
    pub(super) marked_age: u32,
    /// Urgency by the model's forecast: the less, the later the next reference.
    pub(super) urgency: u32,
}

const _: () = assert!(size_of::<Record>() == 32, "update the `State` line of the module header");

impl Record {
    /// Record of a page that is referenced for the first time.
    pub(super) const NEW: Self = Self {
        referred_at: Stamp(0),
        distances: [0; DISTANCES],
        references: 1,
        marked_age: UNMARKED,
        urgency: UNPREDICTED,
    };
}

/// References since the last one to a page.
pub(super) fn age(now: u64, record: &Record) -> u32 {
    u32::try_from(now - record.referred_at.0).unwrap_or(u32::MAX)
}

/// Return the features that the model sees of a page of this age.
pub(super) fn features(age: u32, record: &Record) -> [u8; FEATURES] {
    let [first, second, third] = record.distances;
    Samples::row([age, first, second, third, record.references])
}

/// Number of marked pages of which one becomes a sample, once there is a model.
const MARKS_PER_SAMPLE: u32 = 4;

/// Samples that the model learned from, and the model.
#[derive(Clone, Debug)]
pub(super) struct Learner {
    settings: Settings,
    pub(super) batch: usize,
    pub(super) samples: Samples<FEATURES>,
    pub(super) model: Option<Forest<FEATURES>>,
    pub(super) trained_at: u64,
    /// The greatest age at which a remembered page was forgotten: until now, and at the last training.
    pub(super) oldest_age: [u32; 2],
}

impl Learner {
    pub(super) fn new(values: &Values) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2^16")]
        let learning_rate = (values.real("learning_rate") * 65_536.0) as u32;
        Self {
            settings: Settings {
                trees: values.integer_u32("trees"),
                leaves: values.integer_u32("leaves"),
                leaf_samples: values.integer_u32("leaf_samples"),
                learning_rate,
            },
            batch: values.integer_u32("batch") as usize,
            samples: Samples::new(),
            model: None,
            trained_at: 0,
            oldest_age: [0; 2],
        }
    }

    /// Return `true` if a marked page becomes a sample.
    pub(super) fn chooses(&self, draws: &mut SplitMix64) -> bool {
        self.model.is_none() || draws.below(MARKS_PER_SAMPLE) == 0
    }

    /// Adds a sample of a marked page if there is room: `distance` references after its mark it was
    /// referenced.
    pub(super) fn add(&mut self, is_sample: bool, record: &Record, distance: u32) {
        if is_sample && self.samples.len() < self.batch {
            self.samples.push(features(record.marked_age, record), log(distance));
        }
    }

    pub(super) fn train(&mut self, now: u64) {
        self.model = Some(Forest::grow(&self.samples, &self.settings));
        self.samples.clear();
        self.trained_at = now;
        self.oldest_age[1] = self.oldest_age[0];
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.samples.memory_bytes() + self.model.as_ref().map_or(0, Forest::memory_bytes)
    }
}

/// The window of known pages is at first so many times as large as the cache.
const WINDOW_MIN: u32 = 2;
/// The same, at most.
const WINDOW_MAX: u32 = 6;
/// References after which the window may grow.
const WINDOW_PERIOD: u64 = 1_000_000;
/// Remembered pages beyond the window's.
const MARGIN: u32 = 2;

/// Number of pages that are known, and whether more are worth it.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Known pages per cached page.
    factor: u32,
    /// `true` if it was full since it has this size.
    is_full: bool,
    /// Since then, or since the last look: references, hits, and references to known pages.
    references: u64,
    hits: u64,
    known: u64,
}

impl Window {
    pub(super) const fn new() -> Self {
        Self { factor: WINDOW_MIN, is_full: false, references: 0, hits: 0, known: 0 }
    }

    /// Return the greatest number of pages that it remembers for a cache of `cached` pages.
    pub(super) fn pages(&self, cached: u32) -> u32 {
        cached.saturating_mul(self.factor).saturating_add(MARGIN)
    }

    /// Return `true` if one of the remembered pages must be forgotten.
    pub(super) fn fills(&mut self, cached: u32, remembered: u32) -> bool {
        let fills = remembered >= self.pages(cached) - cached;
        self.is_full |= fills;
        fills
    }

    /// Counts a reference to a page that is known or not, and cached or not.
    pub(super) fn count(&mut self, is_known: bool, is_cached: bool) {
        if self.is_full {
            self.references += 1;
            self.hits += u64::from(is_cached);
            self.known += u64::from(is_known);
        }
    }

    /// Return `true` if it grows: remembered pages return often enough, and a page more is worth as much
    /// as one more in the cache.
    pub(super) fn grows(&mut self) -> bool {
        if !self.is_full || self.references <= WINDOW_PERIOD {
            return false;
        }
        let (remembered, misses) = (self.known - self.hits, self.references - self.hits);
        let former = u64::from(self.factor - 1);
        let is_used = remembered * 100 > self.hits * former;
        let grows =
            is_used && former * remembered <= misses - remembered && self.factor < WINDOW_MAX;
        (self.references, self.hits, self.known) = (0, 0, 0);
        if grows {
            self.factor += 1;
            self.is_full = false;
        }
        grows
    }
}
