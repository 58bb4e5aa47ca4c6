//! Hint logs: which page left which tier how often in which period of a run.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 5.1: the
//!   ideal case that knows future hints.
//! * State: 24 bytes per page, tier and period with a hint, and an ordered map around them.
//! * Cost: O(log n) to add a hint or to find those of a page.
//! * Deviations: none; the paper names the idea only.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::{PageId, Tier};

/// The hints of one run, for a second run that knows them beforehand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintLog {
    counts: BTreeMap<(Tier, PageId, u64), u32>,
}

impl HintLog {
    /// Create an empty log.
    pub const fn new() -> Self {
        Self { counts: BTreeMap::new() }
    }

    /// Adds that `page` left `tier` so many times during a period.
    pub fn add(&mut self, tier: Tier, page: PageId, period: u64, times: u32) {
        *self.counts.entry((tier, page, period)).or_insert(0) += times;
    }

    /// Count how often `page` left `tier` in each period, oldest first; periods without a hint are
    /// left out.
    pub fn of(
        &self,
        tier: Tier,
        page: PageId,
        periods: core::ops::Range<u64>,
    ) -> impl Iterator<Item = (u64, u32)> + '_ {
        let range = (tier, page, periods.start)..(tier, page, periods.end.max(periods.start));
        self.counts.range(range).map(|(&(_, _, period), &times)| (period, times))
    }

    /// Return all of it, ordered by tier, page and period: tier, page, period, how often.
    pub fn iter(&self) -> impl Iterator<Item = (Tier, PageId, u64, u32)> + '_ {
        self.counts.iter().map(|(&(tier, page, period), &times)| (tier, page, period, times))
    }

    /// Return all hints as period, tier and page, ordered by period.
    pub fn by_period(&self) -> Vec<(u64, Tier, PageId)> {
        let mut all: Vec<_> =
            self.counts.keys().map(|&(tier, page, period)| (period, tier, page)).collect();
        all.sort_unstable();
        all
    }

    /// Hints in all.
    pub fn hints(&self) -> u64 {
        self.counts.values().map(|&times| u64::from(times)).sum()
    }

    /// Return `true` if there is no hint.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

impl FromIterator<(Tier, PageId, u64, u32)> for HintLog {
    fn from_iter<I: IntoIterator<Item = (Tier, PageId, u64, u32)>>(hints: I) -> Self {
        let mut log = Self::new();
        for (tier, page, period, times) in hints {
            log.add(tier, page, period, times);
        }
        log
    }
}
