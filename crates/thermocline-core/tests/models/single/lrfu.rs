//! LRFU by its definition: it sums the weights of all references again for every eviction.

use std::collections::BTreeMap;

use super::super::join;
use super::{Outcome, Rule};

pub(super) struct Lrfu {
    /// The times of the references to each page of the cache.
    references: BTreeMap<u32, Vec<u32>>,
    capacity: usize,
    lambda: f64,
    time: u32,
}

impl Lrfu {
    pub(super) fn new(capacity: usize, lambda: f64) -> Self {
        Self { references: BTreeMap::new(), capacity, lambda, time: 0 }
    }

    /// Equation 1: combined recency and frequency.
    fn crf(&self, page: u32) -> f64 {
        let weight = |&time: &u32| 0.5_f64.powf(self.lambda * f64::from(self.time - time));
        self.references[&page].iter().map(weight).sum()
    }

    /// Return the page with the least sum; of equal sums, the one referenced longer ago.
    fn victim(&self) -> u32 {
        let rank = |page: &u32| (self.crf(*page), self.references[page].last().copied());
        let pages = self.references.keys().copied();
        let least = pages.min_by(|one, other| {
            let ((one, one_last), (other, other_last)) = (rank(one), rank(other));
            let is_tie = (one - other).abs() <= 1e-12 * one.max(other);
            if is_tie { one_last.cmp(&other_last) } else { one.total_cmp(&other) }
        });
        least.expect("a full cache has a page")
    }
}

impl Rule for Lrfu {
    fn refer(&mut self, page: u32) -> Outcome {
        self.time += 1;
        if let Some(times) = self.references.get_mut(&page) {
            times.push(self.time);
            return Outcome::Hit;
        }
        let victim = (self.references.len() == self.capacity).then(|| self.victim());
        if let Some(victim) = victim {
            self.references.remove(&victim);
        }
        self.references.insert(page, vec![self.time]);
        Outcome::Admitted(victim)
    }

    /// Return the pages with their sums.
    fn state(&self) -> String {
        join(self.references.keys().map(|&page| format!("{page}:{:.3}", self.crf(page))))
    }
}
