//! Decision of `auto` to adopt another candidate: a sequential test of the I/O times that windows
//! would take.
//!
//! * Source: the CUSUM test of Page, *Continuous Inspection Schemes*, Biometrika 41, 1954.
//! * State: 64 bytes per candidate, and the last changes.
//! * Cost: O(candidates) per window.
//! * Deviations: the test needs a least number of windows besides a threshold, which doubles after hasty
//!   changes.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Choosing, SWITCHES_KEPT, Switch};

/// A change is hasty if it follows another one within this many windows.
const HASTY_WINDOWS: u64 = 128;
/// Upper bound of the factor by which an advantage must exceed the cost of a move, after hasty
/// changes.
const RELUCTANCE_MAX: f64 = 16.0;

/// Certainty of an advantage that the controller requires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Caution {
    /// A candidate is better only if it is by this share of the I/O time of the one in force.
    pub(super) margin: f64,
    /// Windows that an advantage must last for.
    pub(super) patience_windows: u64,
    /// I/O time that an advantage must have reached: what a move may cost.
    pub(super) move_ms: f64,
}

/// Compares what candidates would take with what the one in force would.
///
/// For each other candidate it sums up, window by window, by how much more than the margin it would
/// have been better, and sets a sum below zero back to zero (the CUSUM test of Page, *Continuous
/// Inspection Schemes*, Biometrika 41, 1954). The candidate with the greatest sum is adopted once that sum is
/// greater than the cost of a move, and has lasted for long enough. A change that follows another one
/// soon doubles what the next one must promise, any other change halves it again: a workload may change
/// faster than a cache can follow.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    caution: Caution,
    words: Vec<&'static str>,
    in_force: usize,
    challengers: Vec<Challenger>,
    /// I/O time of each candidate since the beginning, in milliseconds.
    total_ms: Vec<f64>,
    /// I/O time of the candidates in force, each while it was in force, in milliseconds.
    taken_ms: f64,
    accesses: u64,
    /// Windows since the last change.
    calm_windows: u64,
    /// Factor by which an advantage must exceed the cost of a move.
    reluctance: f64,
    switches: u64,
    recent: VecDeque<Switch>,
}

/// Record of a candidate since its advantage began.
#[derive(Clone, Copy, Debug, Default)]
struct Challenger {
    /// Advantage so far, in milliseconds.
    ahead_ms: f64,
    windows: u64,
    accesses: u64,
    /// Its own I/O time.
    own_ms: f64,
    /// I/O time of the candidate in force.
    in_force_ms: f64,
}

impl Controller {
    /// Create a controller whose first candidate is in force.
    pub(super) fn new(words: Vec<&'static str>, caution: Caution) -> Self {
        let candidates = words.len();
        Self {
            caution,
            words,
            in_force: 0,
            challengers: vec![Challenger::default(); candidates],
            total_ms: vec![0.0; candidates],
            taken_ms: 0.0,
            accesses: 0,
            // The first change is not hasty.
            calm_windows: HASTY_WINDOWS,
            reluctance: 1.0,
            switches: 0,
            recent: VecDeque::with_capacity(SWITCHES_KEPT),
        }
    }

    /// Return the place of the candidate in force.
    pub(super) const fn in_force(&self) -> usize {
        self.in_force
    }

    /// Compares the candidates at the end of a window: `times_ms` is the I/O time that each would have
    /// taken for its `accesses`, in milliseconds. Returns the candidate to adopt, if any.
    pub(super) fn end_window(&mut self, accesses: u64, times_ms: &[f64]) -> Option<usize> {
        let in_force_ms = times_ms[self.in_force];
        self.accesses += accesses;
        self.calm_windows += 1;
        self.taken_ms += in_force_ms;
        for (total_ms, own_ms) in self.total_ms.iter_mut().zip(times_ms) {
            *total_ms += own_ms;
        }
        for (challenger, &own_ms) in self.challengers.iter_mut().zip(times_ms) {
            // CUSUM: the advantage beyond the margin is summed up, and starts again whenever it is
            // gone.
            challenger.ahead_ms += in_force_ms * (1.0 - self.caution.margin) - own_ms;
            challenger.windows += 1;
            challenger.accesses += accesses;
            challenger.own_ms += own_ms;
            challenger.in_force_ms += in_force_ms;
            if challenger.ahead_ms <= 0.0 {
                *challenger = Challenger::default();
            }
        }
        // A change pays only if the advantage exceeds the cost of moving pages.
        let needed_ms = self.caution.move_ms * self.reluctance;
        let is_sure = |(_, one): &(usize, &Challenger)| {
            one.windows >= self.caution.patience_windows && one.ahead_ms > needed_ms
        };
        let sure = self.challengers.iter().enumerate().filter(is_sure);
        let (adopted, why) =
            sure.max_by(|one, other| one.1.ahead_ms.total_cmp(&other.1.ahead_ms))?;
        let per_access = |ms| ms / why.accesses.max(1) as f64;
        self.switches += 1;
        if self.recent.len() == SWITCHES_KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(Switch {
            number: self.switches,
            accesses: self.accesses,
            former: self.words[self.in_force],
            adopted: self.words[adopted],
            over_accesses: why.accesses,
            former_ms_per_access: per_access(why.in_force_ms),
            adopted_ms_per_access: per_access(why.own_ms),
        });
        let is_hasty = self.calm_windows < HASTY_WINDOWS;
        // Changes in quick succession show that the workload alternates, so the next one must be
        // worth more.
        let next = if is_hasty { self.reluctance * 2.0 } else { self.reluctance / 2.0 };
        self.reluctance = next.clamp(1.0, RELUCTANCE_MAX);
        self.calm_windows = 0;
        self.in_force = adopted;
        // The advantages were over the candidate that was in force.
        self.challengers.fill(Challenger::default());
        Some(adopted)
    }

    /// Return the number of changes to another candidate.
    pub(super) const fn switches(&self) -> u64 {
        self.switches
    }

    /// Report its choices so far.
    pub(super) fn choosing(&self) -> Choosing {
        Choosing {
            in_force: self.words[self.in_force],
            switches: self.switches,
            regret_ms_per_access: self.regret_ms_per_access(),
            candidates: self.times_ms_per_access().collect(),
            recent: self.recent.iter().copied().collect(),
        }
    }

    /// Return the I/O time per access that the best candidate would have saved if it had been in force all
    /// along, in milliseconds; negative if changing has paid.
    pub(super) fn regret_ms_per_access(&self) -> f64 {
        let best_ms = self.total_ms.iter().copied().fold(f64::INFINITY, f64::min);
        (self.taken_ms - best_ms) / self.accesses.max(1) as f64
    }

    /// Return each candidate's word, and its I/O time per access since the beginning, in
    /// milliseconds.
    pub(super) fn times_ms_per_access(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        let accesses = self.accesses.max(1) as f64;
        self.words.iter().copied().zip(self.total_ms.iter().map(move |ms| ms / accesses))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let recent = self.recent.capacity() * size_of::<Switch>();
        size_of_val(&*self.challengers)
            + size_of_val(&*self.words)
            + size_of_val(&*self.total_ms)
            + recent
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub(super) fn assert_invariants(&self) {
        assert!(self.in_force < self.words.len(), "a candidate is in force");
        for one in &self.challengers {
            assert!(one.ahead_ms >= 0.0, "no sum is below zero");
            assert_eq!(one.windows == 0, one.accesses == 0, "windows have accesses");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Draws as _, SplitMix64};

    const WORDS: [&str; 3] = ["one", "two", "three"];

    /// Model of the module's rule, computed from all windows since the last change.
    struct Model {
        caution: Caution,
        in_force: usize,
        windows: Vec<[f64; 3]>,
        reluctance: f64,
        changed: Option<u64>,
        all: u64,
    }

    impl Model {
        fn end_window(&mut self, times_ms: [f64; 3]) -> Option<usize> {
            self.windows.push(times_ms);
            self.all += 1;
            let mut best: Option<(f64, usize)> = None;
            for candidate in 0..3 {
                let gain = |times: &[f64; 3]| {
                    times[self.in_force] * (1.0 - self.caution.margin) - times[candidate]
                };
                // The advantage began after the last window at which there was none.
                let (mut ahead_ms, mut begun) = (0.0, 0);
                for (index, times) in self.windows.iter().enumerate() {
                    ahead_ms += gain(times);
                    if ahead_ms <= 0.0 {
                        (ahead_ms, begun) = (0.0, index + 1);
                    }
                }
                let lasted = (self.windows.len() - begun) as u64;
                if lasted >= self.caution.patience_windows
                    && ahead_ms > self.caution.move_ms * self.reluctance
                    && best.is_none_or(|(most, _)| ahead_ms >= most)
                {
                    best = Some((ahead_ms, candidate));
                }
            }
            let (_, adopted) = best?;
            let is_hasty = self.changed.is_some_and(|at| self.all - at < HASTY_WINDOWS);
            self.reluctance = if is_hasty {
                (self.reluctance * 2.0).min(16.0)
            } else {
                (self.reluctance / 2.0).max(1.0)
            };
            self.changed = Some(self.all);
            self.in_force = adopted;
            self.windows.clear();
            best.map(|(_, adopted)| adopted)
        }
    }

    #[test]
    fn it_adopts_when_its_specification_does() {
        let mut changes = 0;
        for seed in 0..40 {
            let mut random = SplitMix64::new(seed);
            let patience_windows = u64::from(random.below(4)) + 1;
            let caution = Caution {
                margin: 0.05 * random.unit(),
                patience_windows,
                move_ms: 4.0 * random.unit(),
            };
            let mut controller = Controller::new(WORDS.to_vec(), caution);
            let mut model = Model {
                caution,
                in_force: 0,
                windows: Vec::new(),
                reluctance: 1.0,
                changed: None,
                all: 0,
            };
            let mut levels = [1.0; 3];
            for _ in 0..1500 {
                if random.below(60) == 0 {
                    levels = [(); 3].map(|()| 1.0 + random.unit());
                }
                let times_ms = levels.map(|level| level + 0.3 * random.unit());
                let expected = model.end_window(times_ms);
                assert_eq!(controller.end_window(10, &times_ms), expected, "seed {seed}");
                assert_eq!(controller.in_force(), model.in_force);
                controller.assert_invariants();
            }
            changes += controller.switches();
        }
        assert!(changes > 100, "{changes} changes");
    }

    fn controller(margin: f64, patience_windows: u64, move_ms: f64) -> Controller {
        Controller::new(WORDS.to_vec(), Caution { margin, patience_windows, move_ms })
    }

    #[test]
    fn a_small_a_short_or_a_cheap_advantage_changes_nothing() {
        let mut small = controller(0.01, 1, 0.0);
        let mut cheap = controller(0.0, 1, 50.0);
        for _ in 0..49 {
            assert_eq!(small.end_window(10, &[100.0, 99.5, 120.0]), None);
            assert_eq!(cheap.end_window(10, &[100.0, 99.0, 120.0]), None);
        }
        let mut short = controller(0.0, 3, 0.0);
        for _ in 0..9 {
            assert_eq!(short.end_window(10, &[100.0, 90.0, 120.0]), None);
            assert_eq!(short.end_window(10, &[100.0, 90.0, 120.0]), None);
            assert_eq!(short.end_window(10, &[100.0, 190.0, 120.0]), None);
        }
        assert_eq!([small.switches(), cheap.switches(), short.switches()], [0; 3]);
        assert_eq!(cheap.end_window(10, &[100.0, 97.0, 120.0]), Some(1));
    }

    #[test]
    fn a_change_says_why() {
        let mut controller = controller(0.0, 2, 15.0);
        assert_eq!(controller.end_window(10, &[100.0, 110.0, 120.0]), None);
        assert_eq!(controller.choosing().recent, []);
        assert_eq!(controller.end_window(10, &[100.0, 90.0, 120.0]), None);
        assert_eq!(controller.end_window(10, &[110.0, 100.0, 120.0]), Some(1));
        let expected = Switch {
            number: 1,
            accesses: 30,
            former: "one",
            adopted: "two",
            over_accesses: 20,
            former_ms_per_access: 10.5,
            adopted_ms_per_access: 9.5,
        };
        assert_eq!(controller.choosing().recent, [expected]);
        // 310 were taken, and the second candidate would have needed 300.
        assert!((controller.regret_ms_per_access() - 10.0 / 30.0).abs() < 1e-12);
        let times: Vec<_> = controller.times_ms_per_access().collect();
        assert_eq!(times[2], ("three", 12.0));
    }

    #[test]
    fn the_last_changes_are_kept_and_no_others() {
        let mut controller = controller(0.0, 1, 0.0);
        for better in (0..80).map(|change| 1 - change % 2) {
            let times_ms = [0, 1, 2].map(|place| if place == better { 9.0 } else { 10.0 });
            while controller.end_window(10, &times_ms).is_none() {}
        }
        let choosing = controller.choosing();
        let numbers: Vec<u64> = choosing.recent.iter().map(|switch| switch.number).collect();
        assert_eq!(numbers, (80 - SWITCHES_KEPT as u64 + 1..=80).collect::<Vec<_>>());
        assert_eq!((choosing.switches, choosing.in_force), (80, "one"));
    }

    #[test]
    fn hasty_changes_make_it_reluctant_for_a_while() {
        let mut controller = controller(0.0, 1, 1.5);
        let mut windows_until = |better: usize| {
            let times_ms = [0, 1, 2].map(|place| if place == better { 9.0 } else { 10.0 });
            (1..1000).find(|_| controller.end_window(10, &times_ms) == Some(better))
        };
        assert_eq!([1, 0, 1, 0, 1].map(&mut windows_until), [2, 2, 4, 7, 13].map(Some));
        for _ in 0..HASTY_WINDOWS {
            assert_eq!(controller.end_window(10, &[10.0; 3]), None);
        }
        let mut windows_until = |better: usize| {
            let times_ms = [0, 1, 2].map(|place| if place == better { 9.0 } else { 10.0 });
            (1..1000).find(|_| controller.end_window(10, &times_ms) == Some(better))
        };
        assert_eq!([2, 0].map(&mut windows_until), [25, 13].map(Some), "half of it is forgotten");
    }
}
