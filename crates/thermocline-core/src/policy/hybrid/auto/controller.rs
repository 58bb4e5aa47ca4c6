//! Decision of `auto` to adopt another candidate: it follows the leader of recent I/O time.
//!
//! * Source: follow the leader with a cost of switching; discounted totals as in Herbster and Warmuth,
//!   *Tracking the Best Expert*, Machine Learning 32, 1998.
//! * State: 72 bytes per candidate, and the last changes.
//! * Cost: O(candidates) per window.
//! * Deviations: totals are discounted evenly instead of being shared; a lead must have lasted for a least number
//!   of windows.

use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Choosing, Estimate, SWITCHES_KEPT, Switch};

/// Counts above are nonsense.
const COUNT_LIMIT: u64 = 1 << 56;

/// Certainty of an advantage that the controller requires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Caution {
    /// Windows after which the I/O time of a window counts half.
    pub(super) half_life_windows: u64,
    /// A candidate is better only if it is by this share of the I/O time of the one in force.
    pub(super) margin: f64,
    /// Windows that a lead must last for.
    pub(super) patience_windows: u64,
    /// I/O time that a lead must have reached: what a move may cost.
    pub(super) move_ms: f64,
}

/// Compares what candidates would take with what the one in force would.
///
/// For each candidate it sums up the I/O time of all windows, of which older ones count less. The candidate in
/// force is judged by what it would have taken all along, not by what was taken while others were in force.
/// The candidate with the greatest lead is adopted once its lead is beyond the margin and the cost of a move, and
/// has lasted for long enough. After a change the former candidate must make up its arrears and the cost of
/// another move first, so that changes in quick succession need a workload that has changed a lot.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    caution: Caution,
    words: Vec<&'static str>,
    in_force: usize,
    challengers: Vec<Challenger>,
    /// I/O time of each candidate since the beginning, in milliseconds.
    total_ms: Vec<f64>,
    /// The same, of which older windows count less.
    recent_ms: Vec<f64>,
    /// I/O time of the candidates in force, each while it was in force, in milliseconds.
    taken_ms: f64,
    accesses: u64,
    switches: u64,
    recent: VecDeque<Switch>,
}

/// Record of a candidate since it took the lead of the one in force.
#[derive(Clone, Copy, Debug, Default)]
struct Challenger {
    /// Its lead beyond the margin, in milliseconds.
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
            recent_ms: vec![0.0; candidates],
            taken_ms: 0.0,
            accesses: 0,
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
        self.taken_ms += in_force_ms;
        let kept = libm::exp2(-1.0 / self.caution.half_life_windows as f64);
        let totals = self.total_ms.iter_mut().zip(&mut self.recent_ms);
        for ((total_ms, recent_ms), own_ms) in totals.zip(times_ms) {
            *total_ms += own_ms;
            *recent_ms = *recent_ms * kept + own_ms;
        }
        let wanted_ms = self.recent_ms[self.in_force] * (1.0 - self.caution.margin);
        let times = self.recent_ms.iter().zip(times_ms);
        for (challenger, (recent_ms, &own_ms)) in self.challengers.iter_mut().zip(times) {
            challenger.ahead_ms = wanted_ms - recent_ms;
            challenger.windows += 1;
            challenger.accesses += accesses;
            challenger.own_ms += own_ms;
            challenger.in_force_ms += in_force_ms;
            if challenger.ahead_ms <= 0.0 {
                *challenger = Challenger::default();
            }
        }
        // A change pays only if the lead exceeds the cost of moving pages.
        let Caution { patience_windows, move_ms, .. } = self.caution;
        let is_sure = |(_, one): &(usize, &Challenger)| {
            one.windows >= patience_windows && one.ahead_ms > move_ms
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
            former: self.words[self.in_force].into(),
            adopted: self.words[adopted].into(),
            over_accesses: why.accesses,
            former_ms_per_access: per_access(why.in_force_ms),
            adopted_ms_per_access: per_access(why.own_ms),
        });
        self.in_force = adopted;
        // The leads were over the candidate that was in force.
        self.challengers.fill(Challenger::default());
        Some(adopted)
    }

    /// Return the number of changes to another candidate.
    pub(super) const fn switches(&self) -> u64 {
        self.switches
    }

    /// Report its choices at the end of a window.
    pub(super) fn choosing(&self) -> Choosing {
        let times = self.times_ms_per_access().zip(&self.recent_ms);
        let estimate = |((word, ms_per_access), &recent_ms): ((&'static str, f64), &f64)| {
            let candidate = Cow::Borrowed(word);
            Estimate { candidate, ms_per_access, recent_ms, window_ms: 0.0 }
        };
        Choosing {
            in_force: self.words[self.in_force].into(),
            accesses: self.accesses,
            switches: self.switches,
            regret_ms_per_access: self.regret_ms_per_access(),
            window_accesses: 0,
            candidates: times.map(estimate).collect(),
            recent: self.recent.iter().cloned().collect(),
        }
    }

    /// Goes on from these choices, and returns the candidate in force; the leads of others begin again. Does nothing
    /// and returns `None` if the candidates are others, or a figure is none that a controller reports.
    pub(super) fn resume(&mut self, choosing: &Choosing) -> Option<usize> {
        let Choosing { in_force, accesses, switches, regret_ms_per_access, .. } = choosing;
        let Choosing { window_accesses, candidates, recent, .. } = choosing;
        let words = candidates.iter().map(|estimate| &*estimate.candidate);
        let in_force = self.words.iter().position(|word| word == in_force)?;
        let is_time = |ms: f64| ms.is_finite() && ms >= 0.0;
        let are_times = candidates
            .iter()
            .all(|one| [one.ms_per_access, one.recent_ms, one.window_ms].into_iter().all(is_time));
        let are_counts =
            [accesses, switches, window_accesses].into_iter().all(|&count| count < COUNT_LIMIT);
        let is_same = words.eq(self.words.iter().copied());
        if !(is_same && are_times && are_counts && regret_ms_per_access.is_finite()) {
            return None;
        }
        let total_ms = |ms_per_access| ms_per_access * *accesses as f64;
        self.total_ms = candidates.iter().map(|one| total_ms(one.ms_per_access)).collect();
        self.recent_ms = candidates.iter().map(|one| one.recent_ms).collect();
        let best_ms = self.total_ms.iter().copied().fold(f64::INFINITY, f64::min);
        self.taken_ms = best_ms + total_ms(*regret_ms_per_access);
        (self.in_force, self.accesses, self.switches) = (in_force, *accesses, *switches);
        let begin = recent.len().saturating_sub(SWITCHES_KEPT);
        self.recent = recent[begin..].iter().cloned().collect();
        self.challengers.fill(Challenger::default());
        Some(in_force)
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
            + size_of_val(&*self.recent_ms)
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

    /// Half-life with which nothing is forgotten.
    const FOR_EVER: u64 = 1 << 50;

    /// Model of the module's rule, computed from all windows.
    struct Model {
        caution: Caution,
        in_force: usize,
        windows: Vec<[f64; 3]>,
        /// Windows before the last change.
        changed: usize,
    }

    impl Model {
        /// Return the lead of a candidate after the first `count` windows.
        fn ahead_ms(&self, candidate: usize, count: usize) -> f64 {
            let half_life = self.caution.half_life_windows as f64;
            let gains = self.windows[..count].iter().rev().enumerate().map(|(age, times)| {
                let gain = times[self.in_force] * (1.0 - self.caution.margin) - times[candidate];
                gain * libm::exp2(-(age as f64) / half_life)
            });
            gains.sum()
        }

        fn end_window(&mut self, times_ms: [f64; 3]) -> Option<usize> {
            self.windows.push(times_ms);
            let all = self.windows.len();
            let mut best: Option<(f64, usize)> = None;
            for candidate in 0..3 {
                let leads = (self.changed + 1..=all).rev();
                let lasted = leads.take_while(|&count| self.ahead_ms(candidate, count) > 0.0);
                let ahead_ms = self.ahead_ms(candidate, all);
                if lasted.count() as u64 >= self.caution.patience_windows
                    && ahead_ms > self.caution.move_ms
                    && best.is_none_or(|(most, _)| ahead_ms >= most)
                {
                    best = Some((ahead_ms, candidate));
                }
            }
            let (_, adopted) = best?;
            (self.in_force, self.changed) = (adopted, all);
            Some(adopted)
        }
    }

    #[test]
    fn it_adopts_when_its_specification_does() {
        let mut changes = 0;
        for seed in 0..40 {
            let mut random = SplitMix64::new(seed);
            let caution = Caution {
                half_life_windows: u64::from(random.below(100)) + 1,
                margin: 0.05 * random.unit(),
                patience_windows: u64::from(random.below(4)) + 1,
                move_ms: 4.0 * random.unit(),
            };
            let mut controller = Controller::new(WORDS.to_vec(), caution);
            let mut model = Model { caution, in_force: 0, windows: Vec::new(), changed: 0 };
            let mut levels = [1.0; 3];
            for _ in 0..400 {
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
        assert!(changes > 50, "{changes} changes");
    }

    fn controller(half_life_windows: u64, patience_windows: u64, move_ms: f64) -> Controller {
        let caution = Caution { half_life_windows, margin: 0.0, patience_windows, move_ms };
        Controller::new(WORDS.to_vec(), caution)
    }

    /// Return the windows until a candidate is adopted that takes 1 ms less than the others in each.
    fn windows_until(controller: &mut Controller, better: usize) -> usize {
        let times_ms = [0, 1, 2].map(|place| if place == better { 9.0 } else { 10.0 });
        let adopted = (1..1000).find(|_| controller.end_window(10, &times_ms) == Some(better));
        adopted.expect("it is better all the time")
    }

    #[test]
    fn a_small_a_short_or_a_cheap_lead_changes_nothing() {
        let mut small = controller(FOR_EVER, 1, 0.0);
        small.caution.margin = 0.01;
        let mut cheap = controller(FOR_EVER, 1, 50.0);
        for _ in 0..49 {
            assert_eq!(small.end_window(10, &[100.0, 99.5, 120.0]), None);
            assert_eq!(cheap.end_window(10, &[100.0, 99.0, 120.0]), None);
        }
        let mut short = controller(FOR_EVER, 3, 0.0);
        for _ in 0..9 {
            assert_eq!(short.end_window(10, &[100.0, 90.0, 120.0]), None);
            assert_eq!(short.end_window(10, &[100.0, 90.0, 120.0]), None);
            assert_eq!(short.end_window(10, &[100.0, 121.0, 120.0]), None);
        }
        assert_eq!([small.switches(), cheap.switches(), short.switches()], [0; 3]);
        assert_eq!(cheap.end_window(10, &[100.0, 97.0, 120.0]), Some(1));
    }

    #[test]
    fn a_change_says_why() {
        let mut controller = controller(FOR_EVER, 2, 5.0);
        assert_eq!(controller.end_window(10, &[100.0, 105.0, 120.0]), None);
        assert_eq!(controller.choosing().recent, []);
        assert_eq!(controller.end_window(10, &[100.0, 90.0, 120.0]), None);
        assert_eq!(controller.end_window(10, &[110.0, 100.0, 120.0]), Some(1));
        let expected = Switch {
            number: 1,
            accesses: 30,
            former: "one".into(),
            adopted: "two".into(),
            over_accesses: 20,
            former_ms_per_access: 10.5,
            adopted_ms_per_access: 9.5,
        };
        assert_eq!(controller.choosing().recent, [expected]);
        // 310 were taken, and the second candidate would have needed 295.
        assert!((controller.regret_ms_per_access() - 15.0 / 30.0).abs() < 1e-12);
        let times: Vec<_> = controller.times_ms_per_access().collect();
        assert_eq!(times[2], ("three", 12.0));
    }

    #[test]
    fn the_last_changes_are_kept_and_no_others() {
        let mut controller = controller(FOR_EVER, 1, 0.0);
        for better in (0..80).map(|change| 1 - change % 2) {
            windows_until(&mut controller, better);
        }
        let choosing = controller.choosing();
        let numbers: Vec<u64> = choosing.recent.iter().map(|switch| switch.number).collect();
        assert_eq!(numbers, (80 - SWITCHES_KEPT as u64 + 1..=80).collect::<Vec<_>>());
        assert_eq!((choosing.switches, &*choosing.in_force), (80, "one"));
    }

    #[test]
    fn one_that_resumes_decides_as_the_former_would() {
        let windows = |random: &mut SplitMix64| [(); 3].map(|()| 1.0 + random.unit());
        let mut changes = 0;
        for seed in 0..40 {
            let mut random = SplitMix64::new(seed);
            // With a patience of one window, it does not matter that leads begin again.
            let mut former = controller(8, 1, 0.5 * random.unit());
            for _ in 0..random.below(100) {
                former.end_window(10, &windows(&mut random));
            }
            let mut resumed = Controller::new(WORDS.to_vec(), former.caution);
            assert_eq!(resumed.resume(&former.choosing()), Some(former.in_force()));
            for _ in 0..50 {
                let times_ms = windows(&mut random);
                let [one, other] =
                    [&mut former, &mut resumed].map(|it| it.end_window(7, &times_ms));
                assert_eq!(one, other, "seed {seed}");
            }
            let [one, other] = [former, resumed].map(|it| it.choosing());
            assert_eq!((&one.in_force, one.accesses), (&other.in_force, other.accesses));
            let moves = |choosing: &Choosing| -> Vec<_> {
                let recent = choosing.recent.iter();
                recent.map(|it| (it.number, it.accesses, it.adopted.clone())).collect()
            };
            assert_eq!((one.switches, moves(&one)), (other.switches, moves(&other)));
            assert!((one.regret_ms_per_access - other.regret_ms_per_access).abs() < 1e-9);
            changes += one.switches;
        }
        assert!(changes > 50, "{changes} changes");
    }

    #[test]
    fn others_are_not_resumed() {
        let mut former = controller(8, 1, 0.5);
        former.end_window(10, &[2.0, 1.0, 3.0]);
        let good = former.choosing();
        assert_eq!(good.in_force, "two");
        let mut others = vec![];
        let mut other = |change: fn(&mut Choosing)| {
            others.push(good.clone());
            others.last_mut().map(change);
        };
        other(|it| it.in_force = "four".into());
        other(|it| it.candidates[2].candidate = "four".into());
        other(|it| it.candidates.swap(0, 1));
        other(|it| drop(it.candidates.pop()));
        other(|it| it.candidates.push(it.candidates[0].clone()));
        other(|it| it.candidates.clear());
        other(|it| it.candidates[1].recent_ms = f64::NAN);
        other(|it| it.candidates[1].recent_ms = -1.0);
        other(|it| it.candidates[1].ms_per_access = f64::INFINITY);
        other(|it| it.regret_ms_per_access = f64::NAN);
        other(|it| it.candidates[1].window_ms = f64::NAN);
        other(|it| it.accesses = u64::MAX);
        other(|it| it.window_accesses = u64::MAX);
        other(|it| it.switches = u64::MAX);
        for bad in others {
            let mut fresh = controller(8, 1, 0.5);
            let before = fresh.choosing();
            assert_eq!(fresh.resume(&bad), None, "{bad:?}");
            assert_eq!(fresh.choosing(), before, "{bad:?}");
        }
    }

    #[test]
    fn the_former_candidate_must_make_up_its_arrears() {
        let mut controller = controller(FOR_EVER, 1, 1.5);
        let windows = [1, 0, 1, 0].map(|better| windows_until(&mut controller, better));
        assert_eq!(windows, [2, 4, 4, 4]);
    }

    #[test]
    fn what_is_long_ago_counts_little() {
        let windows = |half_life_windows| {
            let mut controller = controller(half_life_windows, 1, 0.5);
            for _ in 0..200 {
                assert_eq!(controller.end_window(10, &[9.0, 10.0, 10.0]), None);
            }
            windows_until(&mut controller, 1)
        };
        assert_eq!(windows(FOR_EVER), 201);
        // After a half-life, new windows weigh as much as all before.
        assert_eq!(windows(20), 21);
    }
}
