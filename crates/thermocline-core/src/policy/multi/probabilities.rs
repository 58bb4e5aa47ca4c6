//! The probabilities with which tiers pass pages on to the tier above.
//!
//! The life of a tier is the time between the last uses of its newest and of its oldest page.
//! Tiers of the same life evict pages of the same age, as one cache of all tiers would; so a tier
//! promotes more while the tier above lives longer, and less while it lives shorter.
//!
//! * Source: Gill, *On Multi-level Exclusive Caching*, FAST 2008, sections on the promote
//!   probabilities and their adaptation.
//! * State: 40 bytes per pair of neighbours.
//! * Cost: O(1) per access and tier.
//! * Deviations: (1) the pseudo-code is printed as images; the conditions here follow the text and
//!   what implementations of it agree on. Time is counted in accesses. (2) Where both lives are 0,
//!   they are taken as equal. (3) As the paper has it, a tier below several others keeps a
//!   probability for each of them; that each starts at the share of all of their pages is ours.

use alloc::boxed::Box;

use super::hierarchy::{Caches, Hierarchy};
use crate::Tier;
use crate::config::{Parameter, Values};

/// The probability with which a tier promotes a page, if the tiers do not adapt it.
pub(super) const PROMOTE_PROBABILITY: Parameter =
    Parameter::real_or_auto("promote_probability", 0.0..=1.0)
        .summary("how often a tier passes a page up; auto adapts it per tier")
        .source("Gill, FAST 2008");

/// The lives of two tiers are meant to be equal.
const GOAL: f64 = 0.5;
/// The share of a life that passes between two looks.
const PERIOD: f64 = 0.05;
/// A step that closes more than this share of the gap to the goal is left to go on.
const CLOSED: f64 = 0.05;

const _: () = assert!(size_of::<Adaptation>() == 40, "update the `State` line of the header");

/// One probability per pair of neighbours.
#[derive(Clone, Debug)]
pub(super) struct Probabilities {
    /// Per tier: what the next one below knows of it.
    tiers: Box<[Adaptation]>,
}

/// Knowledge of a tier about one above it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adaptation {
    probability: f64,
    ceiling: f64,
    /// Life of the tier above, as a share of both lives, when they were last compared.
    ratio: f64,
    /// Time at which the lives were last compared.
    looked_at: u64,
    /// Every second look acts.
    acts_next: bool,
    is_adaptive: bool,
}

/// Return the probability that users give, if they do not leave it to the tiers.
pub(super) fn fixed(values: &Values) -> Option<f64> {
    values.real_or_auto(PROMOTE_PROBABILITY.name)
}

impl Probabilities {
    /// Create the probability for all lower tiers, or one that each of them adapts.
    pub(super) fn new(hierarchy: &Hierarchy, fixed: Option<f64>) -> Self {
        let pages = |caches: Caches| caches.map(|cache| f64::from(hierarchy.capacity(cache))).sum();
        let tier = |above| {
            let below = hierarchy.below(above);
            if below == hierarchy.disk() {
                return Adaptation::never();
            }
            let own_pages = f64::from(hierarchy.capacity(below));
            Adaptation::new(pages(hierarchy.faster(below)), own_pages, fixed)
        };
        Self { tiers: (0..hierarchy.disk().0).map(Tier).map(tier).collect() }
    }

    /// Return the probability with which the next tier below promotes a page to this one.
    pub(super) fn to(&self, above: Tier) -> f64 {
        self.tiers[above.index()].probability
    }

    /// Compare the lives of the tier `above` and of the tier below it, in that order, and adapt the
    /// probability between them. The lower tier has `capacity_pages`.
    pub(super) fn adapt(&mut self, above: Tier, now: u64, lives: [u64; 2], capacity_pages: u32) {
        self.tiers[above.index()].adapt(now, lives, capacity_pages);
    }

    /// Checks the range of every probability.
    pub(super) fn assert_invariants(&self) {
        self.tiers.iter().for_each(Adaptation::assert_invariants);
    }
}

impl Adaptation {
    /// Create the state of a tier of `own_pages` below faster tiers of `above_pages` in all. The
    /// probability stays `fixed`, or adapts if that is absent.
    ///
    /// An adapted probability is at most the share of the faster tiers in all these pages: if all tiers
    /// filled up together, that share of the pages would be promoted.
    pub(super) fn new(above_pages: f64, own_pages: f64, fixed: Option<f64>) -> Self {
        let total = above_pages + own_pages;
        let ceiling = if total > 0.0 { above_pages / total } else { 0.0 };
        let probability = fixed.unwrap_or(ceiling);
        let is_adaptive = fixed.is_none();
        Self { probability, ceiling, ratio: GOAL, looked_at: 0, acts_next: false, is_adaptive }
    }

    /// Create the state of the disk, which passes every page to the lowest tier.
    pub(super) fn never() -> Self {
        Self::new(0.0, 0.0, Some(0.0))
    }

    /// Current probability.
    pub(super) fn probability(&self) -> f64 {
        self.probability
    }

    /// Return `true` if it is too early for [`adapt`](Self::adapt) to do anything, however long the
    /// tiers live: it acts on no life of half the tier's pages or less.
    #[inline]
    pub(super) fn is_early(&self, now: u64, capacity_pages: u32) -> bool {
        let least = capacity_pages / 2 + 1;
        let since = now - self.looked_at;
        !self.is_adaptive || since as f64 <= PERIOD * f64::from(least)
    }

    /// Compare the lives of the tier above and of this tier, in that order, and adapt the probability.
    /// The tier has `capacity_pages`.
    pub(super) fn adapt(&mut self, now: u64, lives: [u64; 2], capacity_pages: u32) {
        let [higher, own] = lives;
        let since = now - self.looked_at;
        // The paper's conditions: a tier whose pages do not yet span half of its size says nothing
        // of its life, and 5 % of the life must have passed.
        let is_due = 2 * own > u64::from(capacity_pages) && since as f64 > PERIOD * own as f64;
        if !self.is_adaptive || !is_due {
            return;
        }
        debug_assert!(!self.is_early(now, capacity_pages), "what is due is not early");
        self.looked_at = now;
        let acts = self.acts_next;
        self.acts_next = !acts;
        // Every second look acts: the look between shows what the last step did.
        if !acts {
            return;
        }
        let total = (higher + own) as f64;
        let ratio = if total > 0.0 { higher as f64 / total } else { GOAL };
        let [gap, last_gap] = [ratio, self.ratio].map(|ratio| (ratio - GOAL).abs());
        self.ratio = ratio;
        // The gap closes by itself after a step, since lives change slowly; another step would
        // overshoot.
        if last_gap - gap <= CLOSED * last_gap {
            self.step(ratio);
        }
    }

    /// Raise the probability if the tier above lives longer, lower it if shorter.
    fn step(&mut self, ratio: f64) {
        let probability = self.probability;
        // The factors shrink the step near 0 and 1, so the probability never leaves [0, 1] by
        // itself.
        let step = probability * (1.0 - probability) * (2.0 * ratio - 1.0);
        // Above its share of the pages the upper tiers would take more than they hold.
        self.probability = (probability + step).min(self.ceiling);
    }

    pub(super) fn assert_invariants(&self) {
        let greatest = if self.is_adaptive { self.ceiling } else { 1.0 };
        assert!(
            (0.0..=greatest).contains(&self.probability),
            "no tier promotes more than its share"
        );
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::{Clients, Geometry, Setup};

    fn near(actual: f64, expected: f64) -> bool {
        (actual - expected).abs() < 1e-12
    }

    fn of(capacity_pages: &[u32], clients: usize, fixed: Option<f64>) -> Probabilities {
        let setup = Setup {
            clients: Clients::new(clients).unwrap(),
            ..Setup::new(Geometry::linear(1), capacity_pages.into())
        };
        Probabilities::new(&Hierarchy::new(&setup), fixed)
    }

    /// A worked example.
    #[test]
    fn probabilities_start_at_the_share_of_the_pages_above() {
        let check = |capacity_pages: &[u32], clients: usize, expected: &[f64]| {
            let probabilities = of(capacity_pages, clients, None);
            let above = (0..).map(Tier).zip(expected);
            let mut found = above.map(|(tier, &expected)| near(probabilities.to(tier), expected));
            assert!(found.all(|is_right| is_right), "{probabilities:?}");
        };
        check(&[1, 4], 1, &[0.2, 0.0]);
        check(&[1, 2, 4], 1, &[1.0 / 3.0, 3.0 / 7.0, 0.0]);
        check(&[1, 2, 4], 2, &[0.5, 0.5, 0.5, 0.0]);
    }

    /// A worked example.
    #[test]
    fn steps_are_large_in_the_middle_and_capped() {
        for (before, ratio, after) in [(0.2, 0.75, 0.2), (0.1, 0.75, 0.145), (0.1, 0.25, 0.055)] {
            let mut tier = Adaptation { probability: before, ..Adaptation::new(1.0, 4.0, None) };
            tier.step(ratio);
            assert!(near(tier.probability, after), "{tier:?}");
        }
    }

    /// A tier of 4 pages below one of 4.
    #[test]
    fn a_tier_acts_at_every_second_look_unless_the_gap_closes() {
        let mut probabilities = of(&[4, 4], 1, None);
        let once = 0.5 - 0.25 * 0.4;
        let twice = once - once * (1.0 - once) * 0.4;
        let steps = [
            (1, [0, 2], 0.5, "a life of half its size is too short"),
            (2, [25, 75], 0.5, "less than 5 % of the life has passed"),
            (5, [25, 75], 0.5, "the first look"),
            (6, [25, 75], 0.5, "too soon again"),
            (10, [30, 70], once, "the second look"),
            (15, [30, 70], once, "the third look"),
            (20, [30, 70], twice, "the fourth look; the gap is what it was"),
            (25, [40, 60], twice, "the fifth look"),
            (30, [40, 60], twice, "the sixth look; the gap closes by itself"),
        ];
        for (now, lives, expected, why) in steps {
            probabilities.adapt(Tier(0), now, lives, 4);
            assert!(near(probabilities.to(Tier(0)), expected), "at {now}: {why}");
        }
    }

    #[test]
    fn a_fixed_probability_stays() {
        let mut probabilities = of(&[4, 4, 0, 4], 1, Some(0.75));
        probabilities.adapt(Tier(0), 100, [0, 50], 4);
        assert!(near(probabilities.to(Tier(0)), 0.75) && near(probabilities.to(Tier(1)), 0.75));
        probabilities.assert_invariants();
    }
}
