//! The probabilities with which tiers pass pages on to the tier above.
//!
//! The life of a tier is the time between the last uses of its newest and of its oldest page.
//! Tiers of the same life evict pages of the same age, as one cache of all tiers would; so a tier
//! promotes more while the tier above lives longer, and less while it lives shorter.
//!
//! * Source: Gill, *On Multi-level Exclusive Caching*, FAST 2008, sections on the promote
//!   probabilities and their adaptation.
//! * State: 40 bytes per tier.
//! * Cost: O(1) per access and tier.
//! * Deviations: (1) the pseudo-code is printed as images; the conditions here follow the text and
//!   what implementations of it agree on. Time is counted in accesses. (2) Where both lives are 0,
//!   they are taken as equal. (3) As the paper has it, a tier below several others keeps a
//!   probability for each of them; that each starts at the share of all of their pages is ours.

use alloc::boxed::Box;

use super::hierarchy::{Caches, Hierarchy};
use crate::Tier;

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
    is_adaptive: bool,
}

/// What one tier knows of one above it.
#[derive(Clone, Copy, Debug)]
struct Adaptation {
    probability: f64,
    ceiling: f64,
    /// How the tier above lived, as a share of both lives, when it was last compared.
    ratio: f64,
    /// When the lives were last looked at.
    looked_at: u64,
    /// Every second look acts.
    acts_next: bool,
}

impl Probabilities {
    /// That probability for all lower tiers, or one that each of them adapts.
    pub(super) fn new(hierarchy: &Hierarchy, fixed: Option<f64>) -> Self {
        let pages = |caches: Caches| caches.map(|cache| f64::from(hierarchy.capacity(cache))).sum();
        let tier = |above| {
            let below = hierarchy.below(above);
            let (probability, ceiling) = if below == hierarchy.disk() {
                (0.0, 0.0)
            } else {
                let own_pages = f64::from(hierarchy.capacity(below));
                let ceiling = ceiling(pages(hierarchy.faster(below)), own_pages);
                (fixed.unwrap_or(ceiling), ceiling)
            };
            Adaptation { probability, ceiling, ratio: GOAL, looked_at: 0, acts_next: false }
        };
        let tiers = (0..hierarchy.disk().0).map(Tier).map(tier).collect();
        Self { tiers, is_adaptive: fixed.is_none() }
    }

    /// The probability with which the next tier below promotes a page to this one.
    pub(super) fn to(&self, above: Tier) -> f64 {
        self.tiers[above.index()].probability
    }

    /// Compares the life of a tier of so many pages with that of the tier above, which comes first.
    pub(super) fn adapt(&mut self, above: Tier, now: u64, lives: [u64; 2], capacity_pages: u32) {
        if !self.is_adaptive {
            return;
        }
        let [higher, own] = lives;
        let tier = &mut self.tiers[above.index()];
        let since = now - tier.looked_at;
        if 2 * own <= u64::from(capacity_pages) || (since as f64) <= PERIOD * own as f64 {
            return;
        }
        tier.looked_at = now;
        let acts = tier.acts_next;
        tier.acts_next = !acts;
        if !acts {
            return;
        }
        let total = (higher + own) as f64;
        let ratio = if total > 0.0 { higher as f64 / total } else { GOAL };
        let [gap, last_gap] = [ratio, tier.ratio].map(|ratio| (ratio - GOAL).abs());
        tier.ratio = ratio;
        if last_gap - gap <= CLOSED * last_gap {
            tier.probability = next(tier.probability, ratio, tier.ceiling);
        }
    }

    /// Checks the range of every probability.
    pub(super) fn assert_invariants(&self) {
        for tier in &self.tiers {
            assert!((0.0..=1.0).contains(&tier.probability), "a probability is one");
            assert!(
                !self.is_adaptive || tier.probability <= tier.ceiling,
                "no tier promotes more than its share"
            );
        }
    }
}

/// The share of the pages above among those and the own ones: if the tiers filled up together, as
/// much would be promoted.
pub(super) fn ceiling(above_pages: f64, own_pages: f64) -> f64 {
    let total = above_pages + own_pages;
    if total > 0.0 { above_pages / total } else { 0.0 }
}

/// The probability after a step: up if the tier above lives longer, down if shorter.
pub(super) fn next(probability: f64, ratio: f64, ceiling: f64) -> f64 {
    (probability + probability * (1.0 - probability) * (2.0 * ratio - 1.0)).min(ceiling)
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

    /// V-PRO-2.
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

    /// V-PRO-3.
    #[test]
    fn steps_are_large_in_the_middle_and_capped() {
        assert!(near(next(0.2, 0.75, 0.2), 0.2));
        assert!(near(next(0.1, 0.75, 0.2), 0.145));
        assert!(near(next(0.1, 0.25, 0.2), 0.055));
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
