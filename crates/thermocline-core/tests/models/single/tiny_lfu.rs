//! TinyLFU's admission over LRU, and W-TinyLFU's three segments.

use thermocline_core::random::SplitMix64;

use super::super::{join, value};
use super::histogram::Histogram;
use super::{Outcome, Rule, share, take};

fn histogram(capacity: usize, given: &[(String, String)]) -> Histogram {
    let sample_factor = value(given, "sample_factor", 10);
    let is_minimal = value(given, "minimal_increment", false);
    Histogram::new(capacity, sample_factor, value(given, "doorkeeper", false), is_minimal)
}

pub(super) struct TinyLfu {
    /// The least recently used first.
    lru: Vec<u32>,
    histogram: Histogram,
    capacity: usize,
}

impl TinyLfu {
    pub(super) fn new(capacity: usize, given: &[(String, String)]) -> Self {
        Self { lru: vec![], histogram: histogram(capacity, given), capacity }
    }
}

impl Rule for TinyLfu {
    fn refer(&mut self, page: u32) -> Outcome {
        self.histogram.record(page);
        if take(&mut self.lru, &page) {
            self.lru.push(page);
            return Outcome::Hit;
        }
        if self.lru.len() < self.capacity {
            self.lru.push(page);
            return Outcome::Admitted(None);
        }
        let victim = self.lru[0];
        if self.histogram.estimate(page) <= self.histogram.estimate(victim) {
            return Outcome::Refused;
        }
        self.lru.remove(0);
        self.lru.push(page);
        Outcome::Admitted(Some(victim))
    }

    fn state(&self) -> String {
        join(self.lru.iter().map(|page| format!("{page}:{}", self.histogram.estimate(*page))))
    }
}

pub(super) struct Windowed {
    /// The window, and the segments of the main cache, the least recently used first.
    window: Vec<u32>,
    probation: Vec<u32>,
    protected: Vec<u32>,
    histogram: Histogram,
    window_capacity: usize,
    main_capacity: usize,
    protected_capacity: usize,
    jitter: Option<SplitMix64>,
}

impl Windowed {
    pub(super) fn new(capacity: usize, given: &[(String, String)]) -> Self {
        let main_share = 1.0 - value(given, "window_share", 0.01);
        let main_capacity = share(capacity, main_share).min(capacity - 1);
        Self {
            window: vec![],
            probation: vec![],
            protected: vec![],
            histogram: histogram(capacity, given),
            window_capacity: capacity - main_capacity,
            main_capacity,
            protected_capacity: share(main_capacity, value(given, "protected_share", 0.8)),
            jitter: value(given, "jitter", true).then(|| SplitMix64::new(value(given, "seed", 1))),
        }
    }

    /// Decide the fate of the page that leaves the window; return the page that leaves the cache.
    fn admit(&mut self, candidate: u32) -> Option<u32> {
        if self.probation.len() + self.protected.len() < self.main_capacity {
            self.probation.push(candidate);
            return None;
        }
        let segment =
            if self.probation.is_empty() { &mut self.protected } else { &mut self.probation };
        let Some(&victim) = segment.first() else { return Some(candidate) };
        let [count, least] = [candidate, victim].map(|page| self.histogram.estimate(page));
        let is_lucky = |draws: &mut SplitMix64| draws.below(128) == 0;
        if count <= least && !(count >= 6 && self.jitter.as_mut().is_some_and(is_lucky)) {
            return Some(candidate);
        }
        segment.remove(0);
        self.probation.push(candidate);
        Some(victim)
    }
}

impl Rule for Windowed {
    fn refer(&mut self, page: u32) -> Outcome {
        self.histogram.record(page);
        if take(&mut self.window, &page) {
            self.window.push(page);
            return Outcome::Hit;
        }
        if take(&mut self.probation, &page) || take(&mut self.protected, &page) {
            self.protected.push(page);
            if self.protected.len() > self.protected_capacity {
                let demoted = self.protected.remove(0);
                self.probation.push(demoted);
            }
            return Outcome::Hit;
        }
        self.window.push(page);
        if self.window.len() <= self.window_capacity {
            return Outcome::Admitted(None);
        }
        let candidate = self.window.remove(0);
        Outcome::Admitted(self.admit(candidate))
    }

    /// Window, probation and protected segment, with estimates.
    fn state(&self) -> String {
        let segment = |pages: &[u32]| {
            join(pages.iter().map(|page| format!("{page}:{}", self.histogram.estimate(*page))))
        };
        [&self.window, &self.probation, &self.protected].map(|pages| segment(pages)).join(" | ")
    }
}
