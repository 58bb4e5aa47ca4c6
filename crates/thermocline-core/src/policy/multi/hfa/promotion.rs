//! How often a tier passes a page on to the tier above, adapted so that pages live equally long in
//! both.
//!
//! * Source: Gill, *On Multi-level Exclusive Caching: Offline Optimality and Why Promotions Are
//!   Better Than Demotions*, FAST 2008, as used by Meng et al., JCST 32(2), 2017, Algorithm 5.
//! * State: 48 bytes per tier.
//! * Cost: O(1) per access.
//! * Deviations: (1) the published figures with the pseudo-code are images; this follows the prose:
//!   every 5 % of a lifetime the lifetimes are compared, and every second comparison acts, unless
//!   the last one closed more than 5 % of the gap already.

use crate::Tier;
use crate::policy::multi::probabilities;

/// How much of a lifetime, or of a gap, is little.
const LITTLE: f64 = 0.05;
/// The share of the two lifetimes that is aimed at.
const GOAL: f64 = 0.5;

/// The probability of one tier.
#[derive(Clone, Debug)]
pub(super) struct Promotion {
    probability: f64,
    /// The greatest probability: what the tiers above hold of all up to this one.
    ceiling: f64,
    is_adaptive: bool,
    /// When the lifetimes were last compared.
    compared_at: u64,
    /// Whether the next comparison acts.
    acts_next: bool,
    /// The share of the tier above in both lifetimes when a comparison last acted.
    last_ratio: Option<f64>,
}

impl Promotion {
    /// Of a tier with so many pages in the tiers above it.
    pub(super) fn new(tier: Tier, above: u64, capacity_pages: u32, given: Option<f64>) -> Self {
        let ceiling = probabilities::ceiling(above as f64, f64::from(capacity_pages));
        let probability = if tier == Tier(0) { 0.0 } else { given.unwrap_or(ceiling) };
        Self {
            probability,
            ceiling,
            is_adaptive: given.is_none(),
            compared_at: 0,
            acts_next: false,
            last_ratio: None,
        }
    }

    pub(super) fn probability(&self) -> f64 {
        self.probability
    }

    /// An access reaches the tier; lifetimes are the ages of the oldest page here and above.
    pub(super) fn adapt(&mut self, now: u64, capacity_pages: u32, lifetimes: [u64; 2]) {
        let [above, here] = lifetimes.map(|lifetime| lifetime as f64);
        let is_due = (now - self.compared_at) as f64 >= LITTLE * here;
        if !self.is_adaptive || here <= f64::from(capacity_pages) / 2.0 || !is_due {
            return;
        }
        self.compared_at = now;
        self.acts_next = !self.acts_next;
        if self.acts_next {
            return;
        }
        let ratio = above / (above + here);
        let gap = libm::fabs(ratio - GOAL);
        if let Some(last_gap) = self.last_ratio.replace(ratio).map(|last| libm::fabs(last - GOAL))
            && last_gap - gap > LITTLE * last_gap
        {
            return;
        }
        self.step(ratio);
    }

    fn step(&mut self, ratio: f64) {
        self.probability = probabilities::next(self.probability, ratio, self.ceiling);
    }

    pub(super) fn assert_invariants(&self) {
        let greatest = if self.is_adaptive { self.ceiling } else { 1.0 };
        assert!((0.0..=greatest).contains(&self.probability), "a probability below its ceiling");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(above: u64, capacity_pages: u32) -> Promotion {
        Promotion::new(Tier(1), above, capacity_pages, None)
    }

    /// V-PRO-2.
    #[test]
    fn it_begins_at_its_ceiling() {
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-12, "{value}");
        near(Promotion::new(Tier(0), 0, 1, None).probability(), 0.0);
        near(of(1, 4).probability(), 0.2);
        near(of(1, 2).probability(), 1.0 / 3.0);
        near(of(3, 4).probability(), 3.0 / 7.0);
    }

    /// V-PRO-3.
    #[test]
    fn steps_are_proportional_and_capped() {
        for (before, ratio, after) in [(0.2, 0.75, 0.2), (0.1, 0.75, 0.145), (0.1, 0.25, 0.055)] {
            let mut promotion = of(1, 4);
            promotion.probability = before;
            promotion.step(ratio);
            assert!((promotion.probability - after).abs() < 1e-12, "{promotion:?}");
        }
    }

    #[test]
    fn every_second_comparison_acts_after_a_while() {
        let mut promotion = of(100, 400);
        promotion.adapt(10, 400, [10, 200]);
        assert_eq!(promotion.compared_at, 0, "half the tier is no lifetime yet");
        promotion.adapt(300, 400, [100, 300]);
        assert!(promotion.acts_next && promotion.last_ratio.is_none());
        promotion.adapt(314, 400, [100, 300]);
        assert_eq!(promotion.compared_at, 300, "5 % of the lifetime must pass");
        promotion.adapt(315, 400, [100, 300]);
        assert!((promotion.probability - 0.12).abs() < 1e-12, "{promotion:?}");
        promotion.assert_invariants();
    }
}
