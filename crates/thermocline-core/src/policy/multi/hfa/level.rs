//! One tier: its sizes, its hints, and what its partition adapts to.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 3.4.
//! * State: about 250 bytes per tier, and its table of hints.
//! * Cost: O(1) per sample.
//! * Deviations: (1) the sizes change by the difference of the two means, truncated toward zero:
//!   rounded down, the first queue would grow by one page per period for no reason. (2) Means are
//!   over samples, the paper adds up durations.

use super::hint_table::HintTable;
use super::queues::Queue;
use super::settings::Settings;
use crate::Tier;
use crate::policy::multi::probabilities::Adaptation;

/// Records of a hint table per page of the tier, if the table were as large as the tier.
const RECORDS_PER_PAGE: f64 = 256.0;

/// A tier with room for pages.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) tier: Tier,
    pub(super) capacity_pages: u32,
    /// The pages that Q1 may hold.
    pub(super) q1_capacity_pages: u32,
    pub(super) hints: HintTable,
    /// Probability that the tier below passes a page on to this one.
    pub(super) promotion: Adaptation,
    /// Per queue: its hot pages, as they stand.
    hot_pages: [u32; 2],
    /// Sums over the samples of a period.
    cold_in_q1: u64,
    hot_in_q2: u64,
    samples: u64,
}

impl Level {
    pub(super) fn new(
        tier: Tier,
        capacity_pages: u32,
        pages: u32,
        promotion: Adaptation,
        settings: &Settings,
    ) -> Self {
        let capacity = f64::from(capacity_pages);
        // Section 3.2.2: T_out has 0.1 % of the cache's size. Read as bytes, with 16 per record; as
        // a share of blocks it would be one record for 1,000 pages.
        let records = settings.t_out_share * RECORDS_PER_PAGE * capacity;
        let least = u32::from(settings.t_out_share > 0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the casts saturate, and what is cast is not negative"
        )]
        let [records, q1] = [records as u32, (settings.q1_share * capacity) as u32];
        Self {
            tier,
            capacity_pages,
            q1_capacity_pages: q1.clamp(1, (capacity_pages - 1).max(1)),
            hints: HintTable::new(pages, records.max(least), settings.k),
            promotion,
            hot_pages: [0; 2],
            cold_in_q1: 0,
            hot_in_q2: 0,
            samples: 0,
        }
    }

    /// Return the pages that Q2 may hold if it keeps to its size.
    #[inline]
    pub(super) fn q2_capacity_pages(&self) -> u32 {
        self.capacity_pages - self.q1_capacity_pages
    }

    /// Count hot pages that enter a queue, or pages of it that turn hot.
    #[inline]
    pub(super) fn add_hot(&mut self, queue: Queue, pages: u32) {
        self.hot_pages[queue as usize] += pages;
    }

    /// Count hot pages that leave a queue, or pages of it that turn cold.
    #[inline]
    pub(super) fn remove_hot(&mut self, queue: Queue, pages: u32) {
        self.hot_pages[queue as usize] -= pages;
    }

    pub(super) fn hot_pages(&self, queue: Queue) -> u32 {
        self.hot_pages[queue as usize]
    }

    /// Adds a sample: the pages of Q1, and how many pages of each queue are hot.
    pub(super) fn sample(&mut self, q1_pages: u32, [hot_in_q1, hot_in_q2]: [u32; 2]) {
        // Samples stand for the durations of section 3.4: their mean over a period is the sum of
        // t_C(x) divided by T, up to the sampling interval.
        self.cold_in_q1 += u64::from(q1_pages - hot_in_q1);
        self.hot_in_q2 += u64::from(hot_in_q2);
        self.samples += 1;
    }

    /// Moves the boundary between the queues by what the samples say (S).
    pub(super) fn move_boundary(&mut self) {
        if self.samples == 0 {
            return;
        }
        let [cold, hot] =
            [self.cold_in_q1, self.hot_in_q2].map(|sum| sum as f64 / self.samples as f64);
        (self.cold_in_q1, self.hot_in_q2, self.samples) = (0, 0, 0);
        #[expect(clippy::cast_possible_truncation, reason = "a difference of two page counts")]
        // S is rounded towards 0: rounding down would drift the boundary by one page a period.
        let exchanged = (cold - hot) as i64;
        let greatest = i64::from((self.capacity_pages - 1).max(1));
        // Both queues keep one page at least.
        // Algorithm 3: S > 0 moves room from Q1 to Q2. The text before it says "enlarge Q1" for
        // cold blocks in Q1, which contradicts its own reason.
        let q1 = (i64::from(self.q1_capacity_pages) - exchanged).clamp(1, greatest);
        self.q1_capacity_pages = u32::try_from(q1).expect("between 1 and the capacity");
    }
}
