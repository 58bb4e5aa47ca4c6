//! The counts that every metric is made of: a fold over actions.

use crate::action::Sink;
use crate::tier::TIERS_MAX;
use crate::{Action, Clients, Op, PageCost, PageId, Tier};

/// Hits and page transfers per tier.
///
/// Counting needs nothing but the actions, so it costs a few additions per access; that the
/// actions are true is the [`Ledger`](crate::Ledger)'s business.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses by operation (`Op as usize`) and by the tier that held the page.
    hits: [[u64; TIERS_MAX]; 2],
    /// Accesses by operation and by the tier that answered.
    serves: [[u64; TIERS_MAX]; 2],
    /// Copies by source and target.
    copies: [[u64; TIERS_MAX]; TIERS_MAX],
    /// Bytes asked for by the tier that held their page, where a caller adds them.
    hit_bytes: [u64; TIERS_MAX],
}

impl Counts {
    /// Create counts that are all zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the actions of one access.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the counters stay in the replay loop's frame")]
    pub fn add(&mut self, actions: &[Action]) {
        for action in actions {
            match *action {
                Action::Serve { page, op, found, tier } => self.serve(page, op, found, tier),
                Action::Copy { page, source, target } => self.copy(page, source, target),
                Action::Drop { page, tier } => self.drop_copy(page, tier),
            }
        }
    }

    /// Adds the bytes that an access asked for, where not every access asks for a whole page: `actions`
    /// are those of the access, which [`add`](Self::add) counts.
    pub fn add_bytes(&mut self, actions: &[Action], bytes: u64) {
        for action in actions {
            if let Action::Serve { found, .. } = *action {
                self.hit_bytes[found.index()] += bytes;
            }
        }
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        for (mine, others) in self.hit_bytes.iter_mut().zip(&other.hit_bytes) {
            *mine += others;
        }
        let mine = self.hits.iter_mut().chain(&mut self.serves).chain(&mut self.copies);
        let others = other.hits.iter().chain(&other.serves).chain(&other.copies);
        for (mine, others) in mine.flatten().zip(others.flatten()) {
            *mine += others;
        }
    }

    /// Return the same counts with the first tiers of all clients taken as one, tier 0.
    #[must_use]
    pub fn with_one_first_tier(&self, clients: Clients) -> Self {
        let further = usize::from(clients.get()) - 1;
        let merged = |tier: usize| tier.saturating_sub(further);
        let mut sum = Self::new();
        for (tier, bytes) in self.hit_bytes.iter().enumerate() {
            sum.hit_bytes[merged(tier)] += bytes;
        }
        for op in [Op::Read, Op::Write].map(|op| op as usize) {
            for tier in 0..TIERS_MAX {
                sum.hits[op][merged(tier)] += self.hits[op][tier];
                sum.serves[op][merged(tier)] += self.serves[op][tier];
            }
        }
        for (source, copies) in self.copies.iter().enumerate() {
            for (target, copies) in copies.iter().enumerate() {
                sum.copies[merged(source)][merged(target)] += copies;
            }
        }
        sum
    }

    /// Return the counts of all accesses of which these are a sample's: each is multiplied by
    /// `factor`, the inverse of the share of pages that was sampled. `reads` and `writes` are those
    /// of all accesses.
    ///
    /// A few very hot pages in the sample, or left out of it, change how many accesses it has, but hardly
    /// how many miss. A difference to the number of all accesses therefore counts as found and
    /// answered in `hottest`, the fastest tier that holds pages.
    #[must_use]
    pub fn of_whole(&self, factor: f64, [reads, writes]: [u64; 2], hottest: Tier) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a product of positive numbers, and the cast saturates"
        )]
        let grown = |count: u64| libm::round(count as f64 * factor) as u64;
        let adjusted = |counts: &[u64; TIERS_MAX], accesses: u64| {
            let mut rest = accesses;
            let mut whole = [0; TIERS_MAX];
            for tier in (0..TIERS_MAX).rev().filter(|&tier| tier != hottest.index()) {
                // Slower tiers first: their misses are what the sample estimates well, and the
                // fastest tier takes the difference.
                whole[tier] = grown(counts[tier]).min(rest);
                rest -= whole[tier];
            }
            whole[hottest.index()] = rest;
            whole
        };
        let by_op = |counts: &[[u64; TIERS_MAX]; 2]| {
            [adjusted(&counts[0], reads), adjusted(&counts[1], writes)]
        };
        Self {
            hits: by_op(&self.hits),
            serves: by_op(&self.serves),
            copies: self.copies.map(|copies| copies.map(grown)),
            hit_bytes: self.hit_bytes.map(grown),
        }
    }

    /// Reads that `tier` answered.
    pub fn read_serves(&self, tier: Tier) -> u64 {
        self.serves[Op::Read as usize][tier.index()]
    }

    /// Writes that `tier` answered.
    pub fn write_serves(&self, tier: Tier) -> u64 {
        self.serves[Op::Write as usize][tier.index()]
    }

    /// Reads whose page was held by `tier` and by no faster one.
    pub fn read_hits(&self, tier: Tier) -> u64 {
        self.hits[Op::Read as usize][tier.index()]
    }

    /// Writes whose page was held by `tier` and by no faster one.
    pub fn write_hits(&self, tier: Tier) -> u64 {
        self.hits[Op::Write as usize][tier.index()]
    }

    /// Return the number of accesses whose page was held by `tier` and by no faster one.
    pub fn hits(&self, tier: Tier) -> u64 {
        self.read_hits(tier) + self.write_hits(tier)
    }

    /// Return the number of bytes asked for of pages that were held by `tier` and by no faster one,
    /// as far as they were [added](Self::add_bytes).
    pub fn hit_bytes(&self, tier: Tier) -> u64 {
        self.hit_bytes[tier.index()]
    }

    /// Return the number of pages that the device of `tier` read.
    pub fn page_reads(&self, tier: Tier) -> u64 {
        let copies = self.copies[tier.index()];
        // A copy within a tier (FaCE's second chance) is read as part of a batch, so it counts as a
        // write only.
        let within = copies[tier.index()];
        self.read_serves(tier) + copies.iter().sum::<u64>() - within
    }

    /// Return the number of pages that the device of `tier` wrote.
    pub fn page_writes(&self, tier: Tier) -> u64 {
        let copies = self.copies.iter().map(|copies| copies[tier.index()]);
        self.write_serves(tier) + copies.sum::<u64>()
    }

    /// Return the number of pages copied from one tier to another.
    pub fn copies(&self, source: Tier, target: Tier) -> u64 {
        self.copies[source.index()][target.index()]
    }

    /// Return the total I/O time of the cost model in milliseconds: every page transfer at its
    /// tier's cost (HAT, section 4). Tiers without a cost cost nothing.
    pub fn io_time_ms(&self, costs: &[PageCost]) -> f64 {
        (0_u8..)
            .map(Tier)
            .zip(costs)
            .map(|(tier, cost)| {
                self.page_reads(tier) as f64 * cost.read_ms
                    + self.page_writes(tier) as f64 * cost.write_ms
            })
            .sum()
    }

    /// Return the number of accesses counted.
    pub fn accesses(&self) -> u64 {
        self.hits.iter().flatten().sum()
    }
}

impl Sink for Counts {
    #[inline]
    fn serve(&mut self, _page: PageId, op: Op, found: Tier, tier: Tier) {
        self.hits[op as usize][found.index()] += 1;
        self.serves[op as usize][tier.index()] += 1;
    }

    #[inline]
    fn copy(&mut self, page: PageId, source: Tier, target: Tier) {
        self.copy_if(true, page, source, target);
    }

    /// Counts the copy without a branch.
    #[inline]
    fn copy_if(&mut self, is_needed: bool, _page: PageId, source: Tier, target: Tier) {
        self.copies[source.index()][target.index()] += u64::from(is_needed);
    }

    #[inline]
    fn drop_copy(&mut self, _page: PageId, _tier: Tier) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_is_charged_once() {
        let page = PageId(7);
        let mut counts = Counts::new();
        counts.add(&[
            Action::Copy { page, source: Tier::DISK, target: Tier::RAM },
            Action::Serve { page, op: Op::Write, found: Tier::DISK, tier: Tier::RAM },
            Action::Copy { page, source: Tier::FLASH, target: Tier::FLASH },
            Action::Drop { page, tier: Tier::FLASH },
        ]);
        assert_eq!(counts.write_hits(Tier::DISK), 1);
        assert_eq!(counts.read_hits(Tier::DISK), 0);
        assert_eq!(counts.accesses(), 1);
        assert_eq!((counts.page_reads(Tier::DISK), counts.page_writes(Tier::DISK)), (1, 0));
        assert_eq!((counts.page_reads(Tier::RAM), counts.page_writes(Tier::RAM)), (0, 2));
        assert_eq!((counts.page_reads(Tier::FLASH), counts.page_writes(Tier::FLASH)), (0, 1));
        let cost = |read_ms, write_ms| PageCost { read_ms, write_ms };
        let time_ms = counts.io_time_ms(&[cost(0.0, 1.0), cost(0.0, 8.0), cost(64.0, 0.0)]);
        assert!((time_ms - 74.0).abs() < 1e-9, "{time_ms}");
        let three = Clients::new(3).expect("three are few");
        let mut shared = Counts::new();
        shared.add(&[
            Action::Copy { page, source: Tier(4), target: Tier(1) },
            Action::Serve { page, op: Op::Read, found: Tier(4), tier: Tier(1) },
            Action::Copy { page, source: Tier(2), target: Tier(3) },
            Action::Serve { page, op: Op::Read, found: Tier(0), tier: Tier(0) },
        ]);
        let merged = shared.with_one_first_tier(three);
        assert_eq!([0, 1, 2].map(|tier| merged.hits(Tier(tier))), [1, 0, 1]);
        assert_eq!((merged.copies(Tier(2), Tier(0)), merged.copies(Tier(0), Tier(1))), (1, 1));
        assert_eq!((merged.page_reads(Tier(0)), merged.accesses()), (3, 2));
        assert_eq!(counts.with_one_first_tier(Clients::ONE), counts);
        let mut twice = counts.clone();
        twice.merge(&counts);
        assert_eq!((twice.accesses(), twice.write_hits(Tier::DISK)), (2, 2));
        assert_eq!((twice.page_reads(Tier::DISK), twice.page_writes(Tier::RAM)), (2, 4));
    }

    #[test]
    fn a_sample_stands_for_all_accesses() {
        let page = PageId(7);
        let mut sample = Counts::new();
        for (op, found) in [(Op::Read, Tier::RAM), (Op::Read, Tier::DISK), (Op::Write, Tier::FLASH)]
        {
            sample.add(&[
                Action::Copy { page, source: Tier::DISK, target: Tier::RAM },
                Action::Serve { page, op, found, tier: Tier::RAM },
            ]);
        }
        // The sample lacks a hot page that is read three times more, and has one that is written.
        let whole = sample.of_whole(4.0, [11, 3], Tier::RAM);
        assert_eq!(
            [Tier::RAM, Tier::FLASH, Tier::DISK].map(|tier| whole.read_hits(tier)),
            [7, 0, 4]
        );
        assert_eq!([Tier::RAM, Tier::FLASH].map(|tier| whole.write_hits(tier)), [0, 3]);
        assert_eq!((whole.read_serves(Tier::RAM), whole.write_serves(Tier::RAM)), (11, 3));
        assert_eq!((whole.accesses(), whole.copies(Tier::DISK, Tier::RAM)), (14, 12));
        // Without memory, what is hot is on flash.
        let whole = sample.of_whole(4.0, [11, 6], Tier::FLASH);
        assert_eq!((whole.write_hits(Tier::FLASH), whole.read_hits(Tier::FLASH)), (6, 3));
        assert_eq!(sample.of_whole(1.0, [2, 1], Tier::RAM), sample);
    }
}
