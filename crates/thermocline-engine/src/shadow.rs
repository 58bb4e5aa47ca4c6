//! Shadow policies: what other policies, and other sizes, would do with the accesses of an engine.
//!
//! A shadow is a policy whose actions are only counted. It sees the accesses to a sample of the
//! pages, chosen by a hash of their numbers, and its tiers are scaled down by the same rate, so that
//! it costs a fraction of what it stands for and misses as often (SHARDS: Waldspurger, Park,
//! Garthwaite, Ahmad, *Efficient MRC Construction with SHARDS*, FAST 2015; scaled-down simulation:
//! Waldspurger, Saemundsson, Ahmad, Park, *Cache Modeling and Optimization using Miniature
//! Simulations*, USENIX ATC 2017). A few very hot pages in the sample, or out of it, shift how many
//! accesses it gets; as in `SHARDS_adj`, misses are therefore divided by the accesses that were to be
//! expected, not by those that came.
//!
//! Sampled pages are renumbered as they come, so policies that look at neighbours on disk (TAC, LC,
//! HCA) are estimated less well than the others.

use std::collections::HashMap;

use thermocline_core::config::{ConfigError, Values};
use thermocline_core::registry::{Depth, Entry};
use thermocline_core::{
    Access, Actions, Admission, BoxedPolicy, Clients, Counts, Geometry, Nanos, Op, PageCost,
    PageId, Setup, Tier, WriteMiss,
};
use thiserror::Error;

/// Pages that the smallest scaled tier should have, or else the sample is made larger.
const TIER_PAGES_MIN: f64 = 512.0;

/// What a shadow stands for.
#[derive(Clone, Debug)]
pub struct ShadowOptions {
    /// What it is called in reports.
    pub label: String,
    /// The policy.
    pub entry: &'static Entry,
    /// Its parameters.
    pub values: Values,
    /// What a write miss does.
    pub write_miss: WriteMiss,
    /// Pages in RAM, at least 1.
    pub ram_pages: u32,
    /// Pages on flash; 0 for none.
    pub flash_pages: u32,
}

/// What a shadow found so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// What the shadow is called.
    pub label: String,
    /// Page accesses of the engine since the shadow runs.
    pub accesses: u64,
    /// Page accesses that the shadow saw.
    pub sampled_accesses: u64,
    /// Hits in RAM, as a share of all accesses.
    pub ram_hit_ratio: f64,
    /// Hits on flash, as a share of all accesses.
    pub flash_hit_ratio: f64,
    /// Page writes to flash, per access.
    pub flash_writes_per_access: f64,
    /// Page reads and writes of the disk, per access.
    pub disk_transfers_per_access: f64,
    /// The cost model's time of all transfers, per access, in milliseconds.
    pub io_ms_per_access: f64,
}

/// Why shadows could not be set up.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ShadowError {
    /// The rate is no share.
    #[error("the sampling rate {rate} of the shadows must be above 0 and at most 1")]
    Rate {
        /// What was given.
        rate: f64,
    },
    /// A policy cannot be a shadow.
    #[error("shadow `{label}`: {reason}")]
    Policy {
        /// The shadow.
        label: String,
        /// Why not.
        reason: ConfigError,
    },
    /// A policy runs on other hierarchies only.
    #[error("shadow `{label}`: this policy does not run on RAM and flash")]
    Depth {
        /// The shadow.
        label: String,
    },
}

/// Shadows that share a sample.
#[derive(Debug)]
pub struct Shadows {
    /// A page is in the sample if its hash is below.
    threshold: u64,
    rate: f64,
    /// The sampled pages' ids, in order of first appearance.
    ids: HashMap<u32, PageId, rapidhash::fast::RandomState>,
    /// Ids that the policies have room for.
    ids_max: usize,
    accesses: [u64; 2],
    all: Vec<Shadow>,
    actions: Actions,
}

#[derive(Debug)]
struct Shadow {
    options: ShadowOptions,
    policy: BoxedPolicy,
    counts: Counts,
    costs: Vec<PageCost>,
}

impl Shadows {
    /// Shadows of an engine over so many pages of disk, with a page's cost at RAM, flash and disk.
    ///
    /// The sample is the share `rate` of all pages, or more if a tier would else have too few of them
    /// to be estimated.
    ///
    /// # Errors
    /// A rate that is no share, or a policy that does not run on RAM and flash.
    pub fn new(
        options: Vec<ShadowOptions>,
        backing_pages: u32,
        rate: f64,
        costs: &[PageCost; 3],
    ) -> Result<Self, ShadowError> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(ShadowError::Rate { rate });
        }
        let sizes = options.iter().flat_map(|one| [one.ram_pages, one.flash_pages]);
        let smallest = sizes.filter(|&pages| pages > 0).min().unwrap_or(u32::MAX);
        let rate = rate.max(TIER_PAGES_MIN / f64::from(smallest)).min(1.0);
        // The size of a sample has a standard deviation of at most the root of its mean.
        let expected = f64::from(backing_pages) * rate;
        let ids_max = (expected + 8.0 * expected.sqrt() + 64.0).min(f64::from(backing_pages));
        let shadows = options.into_iter().map(|options| Shadow::new(options, rate, ids_max, costs));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "shares of 2^64 and of a number of pages"
        )]
        Ok(Self {
            threshold: if rate >= 1.0 { u64::MAX } else { (rate * u64::MAX as f64) as u64 },
            rate,
            ids: HashMap::default(),
            ids_max: ids_max as usize,
            accesses: [0; 2],
            all: shadows.collect::<Result<Vec<_>, _>>()?,
            actions: Actions::new(),
        })
    }

    /// The share of pages that is sampled.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// One page access of the engine.
    #[inline]
    pub fn access(&mut self, page: u32, op: Op, now: Nanos) {
        self.accesses[op as usize] += 1;
        if hash(page) <= self.threshold {
            self.sampled(page, op, now);
        }
    }

    fn sampled(&mut self, page: u32, op: Op, now: Nanos) {
        let next = PageId(u32::try_from(self.ids.len()).unwrap_or(u32::MAX));
        let id = match self.ids.get(&page) {
            Some(&id) => id,
            None if self.ids.len() < self.ids_max => {
                self.ids.insert(page, next);
                next
            }
            None => return,
        };
        for shadow in &mut self.all {
            shadow.access(Access { page: id, op, client: 0 }, now, &mut self.actions);
        }
    }

    /// What each shadow found so far, in the order in which they were given.
    pub fn estimates(&self) -> Vec<Estimate> {
        let accesses = self.accesses.iter().sum();
        self.all.iter().map(|shadow| shadow.estimate(accesses, self.rate)).collect()
    }
}

impl Shadow {
    fn new(
        options: ShadowOptions,
        rate: f64,
        ids_max: f64,
        [ram, flash, disk]: &[PageCost; 3],
    ) -> Result<Self, ShadowError> {
        let label = || options.label.clone();
        if !matches!(options.entry.depth, Depth::Ram | Depth::RamFlash) {
            return Err(ShadowError::Depth { label: label() });
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a number of pages"
        )]
        let scaled = |pages: f64| (pages * rate).round().max(1.0) as u32;
        let has_flash = options.flash_pages > 0 && options.entry.depth == Depth::RamFlash;
        let mut capacity_pages = vec![scaled(f64::from(options.ram_pages))];
        let mut costs = vec![*ram];
        if has_flash {
            capacity_pages.push(scaled(f64::from(options.flash_pages)));
            costs.push(*flash);
        }
        costs.push(*disk);
        let setup = Setup {
            capacity_pages,
            geometry: Geometry::linear(scaled(ids_max / rate)),
            costs: costs.clone(),
            write_miss: options.write_miss,
            admission: Admission::ALL,
            clients: Clients::ONE,
        };
        let policy = options.entry.build(&setup, &options.values);
        let policy = policy.map_err(|reason| ShadowError::Policy { label: label(), reason })?;
        Ok(Self { options, policy, counts: Counts::new(), costs })
    }

    fn access(&mut self, access: Access, now: Nanos, actions: &mut Actions) {
        actions.clear();
        if self.options.entry.needs_clock {
            self.policy.background(now, actions);
        }
        self.policy.access(access, actions);
        self.counts.add(actions.as_slice());
    }

    fn estimate(&self, accesses: u64, rate: f64) -> Estimate {
        let disk = self.costs.len() - 1;
        let tier = |index: usize| Tier(u8::try_from(index).expect("there are three tiers"));
        let sampled_accesses = self.counts.accesses();
        let expected = (accesses as f64 * rate).max(1.0);
        let share = |count: u64| count as f64 / expected;
        let flash_hits = if disk == 2 { self.counts.hits(Tier::FLASH) } else { 0 };
        let misses = share(self.counts.hits(tier(disk))).min(1.0);
        let flash_hit_ratio = share(flash_hits).min(1.0 - misses);
        let transfers =
            |index| self.counts.page_reads(tier(index)) + self.counts.page_writes(tier(index));
        let io_ms: f64 = self
            .costs
            .iter()
            .enumerate()
            .map(|(index, cost)| {
                self.counts.page_reads(tier(index)) as f64 * cost.read_ms
                    + self.counts.page_writes(tier(index)) as f64 * cost.write_ms
            })
            .sum();
        Estimate {
            label: self.options.label.clone(),
            accesses,
            sampled_accesses,
            ram_hit_ratio: if accesses == 0 { 0.0 } else { 1.0 - misses - flash_hit_ratio },
            flash_hit_ratio,
            flash_writes_per_access: if disk == 2 {
                share(self.counts.page_writes(Tier::FLASH))
            } else {
                0.0
            },
            disk_transfers_per_access: share(transfers(disk)),
            io_ms_per_access: io_ms / expected,
        }
    }
}

/// A hash of a page number whose bits are all alike random: the finaliser of splitmix64.
const fn hash(page: u32) -> u64 {
    let mut bits = (page as u64).wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use thermocline_core::random::{Draws as _, SplitMix64};
    use thermocline_core::registry;

    use super::*;

    const COSTS: [PageCost; 3] = [
        PageCost { read_ms: 0.0, write_ms: 0.0 },
        PageCost { read_ms: 0.1, write_ms: 0.2 },
        PageCost { read_ms: 10.0, write_ms: 12.0 },
    ];

    fn options(policy: &str, ram_pages: u32, flash_pages: u32) -> ShadowOptions {
        let entry = registry::find(policy).unwrap();
        ShadowOptions {
            label: policy.into(),
            entry,
            values: entry.values(&[]).unwrap(),
            write_miss: WriteMiss::Fetch,
            ram_pages,
            flash_pages,
        }
    }

    /// Accesses to 100,000 pages, the hot ones far more often than the others.
    fn accesses(count: usize) -> impl Iterator<Item = (u32, Op)> {
        let mut random = SplitMix64::new(11);
        (0..count).map(move |_| {
            let rank = 100_000.0_f64.powf(random.unit()) - 1.0;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
            let page = (rank as u32).wrapping_mul(0x9E37_79B1) % 100_003;
            (page, if random.unit() < 0.3 { Op::Write } else { Op::Read })
        })
    }

    fn estimates(policy: &str, rate: f64) -> Estimate {
        let shadows = vec![options(policy, 2_000, 16_000)];
        let mut shadows = Shadows::new(shadows, 100_003, rate, &COSTS).unwrap();
        for (page, op) in accesses(600_000) {
            shadows.access(page, op, Nanos(0));
        }
        shadows.estimates().remove(0)
    }

    #[test]
    fn a_sample_misses_as_often_as_all() {
        for policy in ["lru", "hat", "face-gsc", "lru-inclusive", "lru-exclusive"] {
            let (all, sample) = (estimates(policy, 1.0), estimates(policy, 0.01));
            let misses = |one: &Estimate| 1.0 - one.ram_hit_ratio - one.flash_hit_ratio;
            let difference = (misses(&all) - misses(&sample)).abs();
            assert!(difference < 0.02, "{policy}: {all:?} {sample:?}");
            assert!(sample.sampled_accesses < all.sampled_accesses / 2, "{policy}: {sample:?}");
        }
    }

    #[test]
    fn a_full_sample_is_the_policy_itself() {
        let all = estimates("hat", 1.0);
        let entry = registry::find("hat").unwrap();
        let setup = Setup {
            capacity_pages: vec![2_000, 16_000],
            geometry: Geometry::linear(100_003),
            costs: COSTS.to_vec(),
            write_miss: WriteMiss::Fetch,
            admission: Admission::ALL,
            clients: Clients::ONE,
        };
        let mut policy = entry.build(&setup, &entry.values(&[]).unwrap()).unwrap();
        let (mut actions, mut counts) = (Actions::new(), Counts::new());
        for (page, op) in accesses(600_000) {
            actions.clear();
            policy.access(Access { page: PageId(page), op, client: 0 }, &mut actions);
            counts.add(actions.as_slice());
        }
        let share = |count: u64| count as f64 / 600_000.0;
        assert!((all.ram_hit_ratio - share(counts.hits(Tier::RAM))).abs() < 1e-12);
        assert!((all.flash_hit_ratio - share(counts.hits(Tier::FLASH))).abs() < 1e-12);
        let writes = share(counts.page_writes(Tier::FLASH));
        assert!((all.flash_writes_per_access - writes).abs() < 1e-12);
    }

    #[test]
    fn small_tiers_are_sampled_more() {
        let of = |ram_pages, rate| {
            Shadows::new(vec![options("lru", ram_pages, 0)], 1 << 20, rate, &COSTS).unwrap().rate()
        };
        assert!((of(1 << 19, 0.01) - 0.01).abs() < 1e-12);
        assert!((of(5_120, 0.01) - 0.1).abs() < 1e-12);
        assert!((of(10, 0.01) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refuse = |options, rate| {
            Shadows::new(vec![options], 1 << 20, rate, &COSTS).unwrap_err().to_string()
        };
        assert!(refuse(options("lru", 8, 8), 0.0).contains("above 0"));
        assert!(refuse(options("lru", 8, 8), f64::NAN).contains("above 0"));
        assert!(refuse(options("demote", 8, 8), 0.1).contains("demote"));
    }
}
