//! Miniature copies of the candidates, on a sample of the pages.
//!
//! * Source: Waldspurger, Saemundsson, Ahmad, Park, *Cache Modeling and Optimization using Miniature
//!   Simulations*, USENIX ATC 2017, sections 3 and 5.
//! * State: that of all candidates at the rate of the sample; where page ids are not page numbers, 4
//!   bytes per page that exists.
//! * Cost: O(1) per access; for a sampled page, that of every candidate.
//! * Deviations: the sample takes one page of each stratum, not those whose hash is small.

use alloc::vec::Vec;

use super::candidates::Candidate;
use crate::{
    Access, Actions, BoxedPolicy, Counts, Geometry, Inputs, PageCost, PageId, Setup, Strata,
    Survivor,
};

/// The number of a page that is not in the sample.
const OUT: u32 = u32::MAX;

/// Candidates at work on the same pages.
#[derive(Debug)]
pub(super) struct Sample {
    strata: Strata,
    numbers: Numbers,
    miniatures: Vec<Miniature>,
    costs: Vec<PageCost>,
    actions: Actions,
}

/// The numbers that sampled pages have for the miniatures.
#[derive(Debug)]
enum Numbers {
    /// Page ids are page numbers: a sampled page has the number of its stratum.
    Strata,
    /// Table by page id; [`OUT`] for pages that are not in the sample.
    Table(Vec<u32>),
}

/// A candidate, smaller by the rate of the sample.
#[derive(Debug)]
struct Miniature {
    policy: BoxedPolicy,
    /// Counts of the window.
    counts: Counts,
}

impl Sample {
    /// Builds a miniature of each candidate. The sample leaves at least `tier_pages` pages to the smallest
    /// tier, or all pages of a tier that has fewer. Transfers cost `costs`.
    pub(super) fn new(
        candidates: &[&Candidate],
        setup: &Setup,
        tier_pages: u32,
        costs: Vec<PageCost>,
    ) -> Self {
        let smallest = setup.capacity_pages.iter().copied().filter(|&pages| pages > 0).min();
        let strata = Strata::one_of((smallest.unwrap_or(1) / tier_pages).max(1));
        let (numbers, pages) = Numbers::new(strata, &setup.geometry);
        // Of a sample, the share of it that is in both.
        let rate = strata.rate() * setup.inputs.sample_rate.unwrap_or(1.0);
        let small = Setup {
            geometry: Geometry::linear(pages),
            capacity_pages: setup
                .capacity_pages
                .iter()
                .map(|&all| strata.scaled_pages(all))
                .collect(),
            inputs: Inputs { sample_rate: (rate < 1.0).then_some(rate), ..Inputs::NONE },
            ..setup.clone()
        };
        let miniature = |candidate: &&Candidate| {
            let policy = candidate.build(&small);
            Miniature { policy, counts: Counts::new() }
        };
        let miniatures = candidates.iter().map(miniature).collect();
        Self { strata, numbers, miniatures, costs, actions: Actions::new() }
    }

    /// Shows the miniatures an access, if its page is in the sample.
    #[inline]
    pub(super) fn access(&mut self, access: Access) {
        let Some(page) = self.numbers.of(self.strata, access.page) else { return };
        for miniature in &mut self.miniatures {
            let actions = miniature.policy.step(Access { page, ..access }, &mut self.actions);
            miniature.counts.add(actions);
        }
    }

    /// Pass the miniatures the pages that flash holds after a restart.
    pub(super) fn restore(&mut self, survivors: &[Survivor]) {
        let number = |one: &Survivor| {
            self.numbers.of(self.strata, one.page).map(|page| Survivor { page, ..*one })
        };
        let survivors: Vec<_> = survivors.iter().filter_map(number).collect();
        for miniature in &mut self.miniatures {
            // The cost of a restart belongs to no window.
            self.actions.clear();
            miniature.policy.restore(&survivors, &mut self.actions);
        }
    }

    /// Begins another window.
    pub(super) fn begin_window(&mut self) {
        for one in &mut self.miniatures {
            one.counts = Counts::default();
        }
    }

    /// Return the I/O time that each candidate would have taken for all accesses of the window so far, in
    /// milliseconds.
    pub(super) fn times_ms(&self) -> Vec<f64> {
        let (costs, rate) = (&self.costs, self.strata.rate());
        // The sample sees that share of the pages, and so about that of the accesses.
        let time_ms = |one: &Miniature| one.counts.io_time_ms(costs) / rate;
        self.miniatures.iter().map(time_ms).collect()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let of_policy = |one: &Miniature| size_of_val(&*one.policy) + one.policy.memory_bytes();
        let policies: usize = self.miniatures.iter().map(of_policy).sum();
        policies + size_of_val(&*self.miniatures) + self.numbers.memory_bytes()
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub(super) fn assert_invariants(&self) {
        self.miniatures.iter().for_each(|one| one.policy.assert_invariants());
    }
}

impl Numbers {
    /// Numbers for the pages of a sample, and how many there are at most. The sample depends on
    /// page numbers alone, so that it is the same whatever ids a driver gives.
    fn new(strata: Strata, geometry: &Geometry) -> (Self, u32) {
        if geometry.is_linear() {
            return (Self::Strata, strata.units_max(geometry.pages()));
        }
        let mut pages = 0;
        let number = |id: u32| match strata.sampled(geometry.page_number(PageId(id))) {
            Some(_) => {
                pages += 1;
                pages - 1
            }
            None => OUT,
        };
        let table = geometry.ids().map(number).collect();
        (Self::Table(table), pages)
    }

    /// Return the number of a page, if it is in the sample.
    #[inline]
    fn of(&self, strata: Strata, page: PageId) -> Option<PageId> {
        match self {
            #[expect(clippy::cast_possible_truncation, reason = "no more strata than pages")]
            Self::Strata => strata.sampled(page.0.into()).map(|stratum| PageId(stratum as u32)),
            Self::Table(numbers) => {
                let number = numbers[page.index()];
                (number != OUT).then_some(PageId(number))
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Strata => 0,
            Self::Table(numbers) => size_of_val(&**numbers),
        }
    }
}
