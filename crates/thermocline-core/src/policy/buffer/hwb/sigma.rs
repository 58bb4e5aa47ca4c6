//! Sigma, the weight of the frequency in a temperature, and how it adapts.
//!
//! A term of Eq. 1 is worth more weight if it is high for pages that are written again and low for
//! pages that are evicted. After each period the term with the greater share of its mean among the
//! former gains a step of weight.
//!
//! * Source: HWB, section III-B: sigma is 0.5 at boot and then adjusted according to access patterns.
//! * State: constant.
//! * Cost: O(1) per write and per evicted page.
//! * Deviations: (9) of the policy.

use crate::config::Values;

/// The least and the greatest weight that adaptation gives.
const LEAST: f64 = 0.1;
const MOST: f64 = 0.9;

/// The weight, and what the current period has shown.
#[derive(Clone, Debug)]
pub(super) struct Sigma {
    value: f64,
    step: f64,
    rewritten: Observed,
    evicted: Observed,
}

/// The sums of both terms over pages: that of the frequency, that of the distance.
#[derive(Clone, Copy, Debug, Default)]
struct Observed {
    pages: u64,
    sums: [f64; 2],
}

impl Observed {
    fn add(&mut self, terms: [f64; 2]) {
        self.pages += 1;
        self.sums[0] += terms[0];
        self.sums[1] += terms[1];
    }

    fn mean(&self, term: usize) -> f64 {
        self.sums[term] / self.pages as f64
    }
}

impl Sigma {
    pub(super) fn of(values: &Values) -> Self {
        Self {
            value: values.real("sigma"),
            step: values.real("sigma_step"),
            rewritten: Observed::default(),
            evicted: Observed::default(),
        }
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }

    pub(super) fn adapts(&self) -> bool {
        self.step > 0.0
    }

    /// Return the temperature (Eq. 1).
    pub(super) fn weigh(&self, frequency: f64, distance: f64) -> f64 {
        // HWB, Section III-B, Eq. 1.
        self.value * frequency + (1.0 - self.value) * distance
    }

    /// Note that a known page is written again; its terms are those before the write.
    pub(super) fn rewritten(&mut self, terms: [f64; 2]) {
        self.rewritten.add(terms);
    }

    /// Note that a page is evicted.
    pub(super) fn evicted(&mut self, terms: [f64; 2]) {
        self.evicted.add(terms);
    }

    /// End a period.
    pub(super) fn adjust(&mut self) {
        let (rewritten, evicted) =
            (core::mem::take(&mut self.rewritten), core::mem::take(&mut self.evicted));
        // With one group alone, the terms cannot be compared. The sums start again, so that a period
        // never judges by an older one.
        if rewritten.pages == 0 || evicted.pages == 0 {
            return;
        }
        // Neither mean of a term is negative; a term that is always 0 separates nothing.
        let [frequency, distance] = [0, 1].map(|term| {
            let (high, low) = (rewritten.mean(term), evicted.mean(term));
            if high + low > 0.0 { high / (high + low) } else { 0.5 }
        });
        // Deviation (9): one step per period, whatever the gap, so that one odd period cannot turn
        // the weight over.
        if frequency > distance {
            self.value = (self.value + self.step).clamp(LEAST, MOST);
        } else if frequency < distance {
            self.value = (self.value - self.step).clamp(LEAST, MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sigma(step: f64) -> Sigma {
        let (rewritten, evicted) = (Observed::default(), Observed::default());
        Sigma { value: 0.5, step, rewritten, evicted }
    }

    /// Check the weight after periods in which pages had these terms.
    fn check(periods: usize, rewritten: [f64; 2], evicted: [f64; 2], expected: f64) {
        let mut sigma = sigma(0.05);
        for _ in 0..periods {
            sigma.rewritten(rewritten);
            sigma.evicted(evicted);
            sigma.adjust();
        }
        assert!((sigma.value() - expected).abs() < 1e-9, "{sigma:?}");
    }

    #[test]
    fn the_term_that_separates_better_gains_weight() {
        check(1, [3.0, 1.0], [1.0, 1.0], 0.55);
        check(1, [1.0, 0.8], [1.0, 0.2], 0.45);
        check(1, [2.0, 0.4], [1.0, 0.2], 0.5);
        check(1, [2.0, 0.0], [1.0, 0.0], 0.55);
        check(100, [3.0, 1.0], [1.0, 1.0], 0.9);
        check(100, [1.0, 1.0], [3.0, 1.0], 0.1);
    }

    #[test]
    fn a_period_that_shows_one_side_changes_nothing() {
        let mut sigma = sigma(0.05);
        sigma.rewritten([3.0, 1.0]);
        sigma.adjust();
        sigma.evicted([1.0, 1.0]);
        sigma.adjust();
        assert!((sigma.value() - 0.5).abs() < 1e-12);
        assert!((sigma.weigh(2.0, 4.0) - 3.0).abs() < 1e-12);
    }
}
