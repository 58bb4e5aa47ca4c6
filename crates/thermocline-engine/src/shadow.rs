//! Shadow policies: estimates of the results that other policies, and other sizes, would have with
//! the accesses of an engine.
//!
//! A shadow is a policy whose actions are only counted. It sees the accesses to a sample of the
//! pages, chosen by their numbers, one at random out of each group of neighbours. Its tiers are
//! scaled down by the same rate. So it costs a fraction of the cache that it represents, and misses
//! as often (SHARDS: Waldspurger, Park, Garthwaite, Ahmad, *Efficient MRC Construction with
//! SHARDS*, FAST 2015; scaled-down simulation: Waldspurger, Saemundsson, Ahmad, Park, *Cache
//! Modeling and Optimization using Miniature Simulations*, USENIX ATC 2017). A few very hot pages
//! in the sample, or out of it, shift how many accesses it gets; as in `SHARDS_adj`, misses are
//! therefore divided by the accesses that were to be expected, not by those that came.
//!
//! A sample of pages has no neighbours. Policies that look at neighbours on disk (TAC, LC, HCA) see a
//! sample of extents instead, whose pages keep their order; as the pages of an extent are alike, such
//! a sample must be larger to say as much.

use std::collections::HashMap;

use thermocline_core::config::{ConfigError, Values};
use thermocline_core::registry::{Depth, PolicyEntry};
use thermocline_core::{
    Access, Actions, BoxedPolicy, Counts, Geometry, Ids, Nanos, Op, PageCost, PageId, Setup,
    Strata, Tier, WriteMiss,
};
use thiserror::Error;

use crate::ids::IdSpace;
use crate::options::PolicyOptions;

/// Unit of sampling.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// The pages of a unit are two to the power of this many.
    shift: u32,
    /// Pages that the smallest scaled tier should have, or else the sample is made larger.
    tier_pages_min: f64,
}

/// Pages, each on its own.
const PAGE: Unit = Unit { shift: 0, tier_pages_min: 512.0 };
/// Extents of 64 pages: two of TAC's, one block of HCA's.
const EXTENT: Unit = Unit { shift: 6, tier_pages_min: 4096.0 };

/// Cache that a shadow represents.
#[derive(Clone, Debug)]
pub struct ShadowOptions {
    /// Name in reports.
    pub label: String,
    /// The policy.
    pub entry: PolicyEntry,
    /// Its parameters.
    pub values: Values,
    /// Treatment of write misses.
    pub write_miss: WriteMiss,
    /// Pages in RAM, at least 1.
    pub ram_pages: u32,
    /// Pages on flash; 0 for none.
    pub flash_pages: u32,
}

impl ShadowOptions {
    /// Create the shadow of a policy with that number of pages in RAM and on flash.
    pub fn new(label: String, policy: &PolicyOptions, [ram_pages, flash_pages]: [u32; 2]) -> Self {
        Self {
            label,
            entry: policy.entry.clone(),
            values: policy.values.clone(),
            write_miss: policy.write_miss,
            ram_pages,
            flash_pages,
        }
    }
}

/// Estimate of a shadow so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Name of the shadow.
    pub label: String,
    /// Page accesses of the engine since the shadow runs.
    pub accesses: u64,
    /// The share of pages that the shadow sees.
    pub rate: f64,
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

/// Reason why shadows could not be set up.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ShadowError {
    /// The rate is not a share.
    #[error("the sampling rate {rate} of the shadows must be above 0 and at most 1")]
    Rate {
        /// Given rate.
        rate: f64,
    },
    /// A policy cannot be a shadow.
    #[error("shadow `{label}`: {reason}")]
    Policy {
        /// The shadow.
        label: String,
        /// Fault of the configuration.
        reason: ConfigError,
    },
    /// A policy runs on other hierarchies only.
    #[error("shadow `{label}`: this policy does not run on these tiers")]
    Depth {
        /// The shadow.
        label: String,
    },
}

/// Shadows of one engine.
#[derive(Debug)]
pub struct Shadows {
    /// One for each unit that a shadow asks for.
    samples: Vec<Sample>,
    accesses: [u64; 2],
    actions: Actions,
    /// Cost of a page at RAM, flash and disk.
    costs: [PageCost; 3],
}

/// Shadows that share a sample.
#[derive(Debug)]
struct Sample {
    unit: Unit,
    /// Units in the sample.
    strata: Strata,
    numbers: Numbers,
    shadows: Vec<Shadow>,
}

/// The numbers of the sampled units.
#[derive(Debug)]
enum Numbers {
    /// Numbers in order of first appearance: the policies have tables, which are as long as the
    /// sample is large.
    InOrder(HashMap<u64, u32, rapidhash::fast::RandomState>),
    /// Numbers by a hash, as in the engine. Two units with one number are too rare to change an
    /// estimate.
    Hashed(IdSpace),
}

impl Numbers {
    fn are_given_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::InOrder(_), Self::InOrder(_)) => true,
            (Self::Hashed(one), Self::Hashed(other)) => one == other,
            (Self::InOrder(_), Self::Hashed(_)) | (Self::Hashed(_), Self::InOrder(_)) => false,
        }
    }
}

#[derive(Debug)]
struct Shadow {
    /// Its place among all shadows as they were given.
    place: usize,
    options: ShadowOptions,
    policy: BoxedPolicy,
    counts: Counts,
    costs: Vec<PageCost>,
    /// Accesses of the engine before the shadow began.
    accesses_before: u64,
}

impl Shadows {
    /// Create the shadows of an engine over `pages` pages of disk, with a page's cost at RAM, flash
    /// and disk.
    ///
    /// A sample is the share `rate` of all pages, or more if a tier would else have too few of them to
    /// be estimated.
    ///
    /// # Errors
    /// If the rate is not in (0, 1], or a policy does not support its tiers.
    pub fn new(
        options: Vec<ShadowOptions>,
        backing_pages: u64,
        rate: f64,
        costs: &[PageCost; 3],
    ) -> Result<Self, ShadowError> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(ShadowError::Rate { rate });
        }
        let looks = |(_, one): &(usize, ShadowOptions)| one.entry.capabilities.looks_at_neighbours;
        let (of_extents, of_pages): (Vec<_>, Vec<_>) =
            options.into_iter().enumerate().partition(looks);
        let samples = [(PAGE, of_pages), (EXTENT, of_extents)].into_iter();
        let samples = samples
            .filter(|(_, options)| !options.is_empty())
            .map(|(unit, options)| Sample::new(unit, options, backing_pages, rate, costs));
        Ok(Self {
            samples: samples.collect::<Result<_, _>>()?,
            accesses: [0; 2],
            actions: Actions::new(),
            costs: *costs,
        })
    }

    /// Begin again, with the same shadows, because the backing store has `backing_pages` pages from now on.
    ///
    /// # Errors
    /// If a policy cannot have that many pages; nothing changes then.
    pub fn grow(&mut self, backing_pages: u64) -> Result<(), ShadowError> {
        let grown = |sample: &Sample| {
            let all = sample.shadows.iter();
            let options = all.map(|shadow| (shadow.place, shadow.options.clone())).collect();
            Sample::new(sample.unit, options, backing_pages, sample.strata.rate(), &self.costs)
        };
        self.samples = self.samples.iter().map(grown).collect::<Result<_, _>>()?;
        self.accesses = [0; 2];
        Ok(())
    }

    /// Return the greatest share of pages that a shadow sees; 0 without any.
    pub fn rate(&self) -> f64 {
        self.samples.iter().map(|sample| sample.strata.rate()).fold(0.0, f64::max)
    }

    /// Keep what `former` found, in each shadow that stands for the same policy, parameters, sizes and costs
    /// as one of these and sees the same sample. The labels are the new ones. Both must be of the same
    /// engine, and these must not have seen an access. Returns how many shadows were kept.
    pub fn take_over(&mut self, former: Self) -> usize {
        self.accesses = former.accesses;
        let accesses = self.accesses.iter().sum();
        let mut kept = 0;
        let mut former_samples = former.samples;
        for sample in &mut self.samples {
            for shadow in &mut sample.shadows {
                shadow.accesses_before = accesses;
            }
            let is_same = |one: &Sample| {
                one.unit.shift == sample.unit.shift
                    && one.strata == sample.strata
                    && one.numbers.are_given_as(&sample.numbers)
            };
            let Some(place) = former_samples.iter().position(is_same) else { continue };
            let mut former = former_samples.swap_remove(place);
            let kept_before = kept;
            for shadow in &mut sample.shadows {
                let same = former.shadows.iter().position(|one| one.is_like(shadow));
                let Some(same) = same else { continue };
                let before = former.shadows.swap_remove(same);
                let options = shadow.options.clone();
                *shadow = Shadow { place: shadow.place, options, ..before };
                kept += 1;
            }
            if kept > kept_before {
                // Those that are kept know the pages by these numbers.
                sample.numbers = former.numbers;
            }
        }
        kept
    }

    /// Process one page access of the engine.
    #[inline]
    pub fn access(&mut self, page: u64, op: Op, now: Nanos) {
        self.accesses[op as usize] += 1;
        for sample in &mut self.samples {
            if sample.strata.sampled(page >> sample.unit.shift).is_some() {
                sample.access(page, op, now, &mut self.actions);
            }
        }
    }

    /// Return each shadow's estimate so far, in the order in which they were given.
    pub fn estimates(&self) -> Vec<Estimate> {
        let accesses: u64 = self.accesses.iter().sum();
        let mut estimates: Vec<(usize, Estimate)> = self
            .samples
            .iter()
            .flat_map(|sample| {
                let shadows = sample.shadows.iter();
                shadows.map(|shadow| {
                    let accesses = accesses - shadow.accesses_before;
                    (shadow.place, shadow.estimate(accesses, sample.strata.rate()))
                })
            })
            .collect();
        estimates.sort_by_key(|&(place, _)| place);
        estimates.into_iter().map(|(_, estimate)| estimate).collect()
    }
}

impl Sample {
    fn new(
        unit: Unit,
        options: Vec<(usize, ShadowOptions)>,
        backing_pages: u64,
        rate: f64,
        costs: &[PageCost; 3],
    ) -> Result<Self, ShadowError> {
        let sizes = options.iter().flat_map(|(_, one)| [one.ram_pages, one.flash_pages]);
        let smallest = sizes.filter(|&pages| pages > 0).min().unwrap_or(u32::MAX);
        let rate = rate.max(unit.tier_pages_min / f64::from(smallest)).min(1.0);
        let strata = Strata::new(rate);
        let (numbers, ids) = match u32::try_from(backing_pages) {
            Ok(pages) => {
                let units_max = strata.units_max(pages.div_ceil(1 << unit.shift));
                let ids = Ids::dense(units_max.saturating_mul(1 << unit.shift));
                (Numbers::InOrder(HashMap::default()), ids)
            }
            Err(_) => {
                let largest = options
                    .iter()
                    .map(|(_, one)| u64::from(one.ram_pages) + u64::from(one.flash_pages));
                let scaled = largest.max().unwrap_or(0) as f64 * rate;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a share of a number of pages"
                )]
                let space = IdSpace::of_sample(scaled as u64, unit.shift);
                (Numbers::Hashed(space), Ids::sparse(space.count()))
            }
        };
        let shadows = options
            .into_iter()
            .map(|(place, options)| Shadow::new(place, options, strata, ids, costs))
            .collect::<Result<_, _>>()?;
        Ok(Self { unit, strata, numbers, shadows })
    }

    fn access(&mut self, page: u64, op: Op, now: Nanos, actions: &mut Actions) {
        let page = self.renumber(page);
        for shadow in &mut self.shadows {
            shadow.access(Access { page, op, client: 0 }, now, actions);
        }
    }

    /// Return the id that a page of the sample has for the policies.
    fn renumber(&mut self, page: u64) -> PageId {
        let shift = self.unit.shift;
        match &mut self.numbers {
            Numbers::Hashed(space) => space.wanted(page),
            Numbers::InOrder(numbers) => {
                let next = u32::try_from(numbers.len()).expect("there are fewer units than ids");
                let number = *numbers.entry(page >> shift).or_insert(next);
                let within = page & ((1 << shift) - 1);
                PageId(number << shift | u32::try_from(within).expect("units are short"))
            }
        }
    }
}

impl Shadow {
    fn new(
        place: usize,
        options: ShadowOptions,
        strata: Strata,
        ids: Ids,
        [ram, flash, disk]: &[PageCost; 3],
    ) -> Result<Self, ShadowError> {
        let label = || options.label.clone();
        let depth = options.entry.capabilities.depth;
        let has_flash = options.flash_pages > 0 && depth != Depth::Ram;
        if depth == Depth::Buffer || !depth.allows(1 + usize::from(has_flash)) {
            return Err(ShadowError::Depth { label: label() });
        }
        let mut capacity_pages = vec![strata.scaled_pages(options.ram_pages)];
        let mut costs = vec![*ram];
        if has_flash {
            capacity_pages.push(strata.scaled_pages(options.flash_pages));
            costs.push(*flash);
        }
        costs.push(*disk);
        let setup = Setup {
            costs: costs.clone(),
            write_miss: options.write_miss,
            indexing: ids.indexing,
            ..Setup::new(Geometry::linear(ids.pages), capacity_pages)
        };
        let policy = options.entry.build(&setup, &options.values);
        let policy = policy.map_err(|reason| ShadowError::Policy { label: label(), reason })?;
        let counts = Counts::new();
        Ok(Self { place, options, policy, counts, costs, accesses_before: 0 })
    }

    /// Return `true` if both stand for the same, whatever they are called.
    fn is_like(&self, other: &Self) -> bool {
        let values = |one: &Self| -> Vec<(String, String)> {
            let values = one.options.values.iter();
            values.map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let (one, another) = (&self.options, &other.options);
        one.entry.name == another.entry.name
            && one.write_miss == another.write_miss
            && [one.ram_pages, one.flash_pages] == [another.ram_pages, another.flash_pages]
            && self.costs == other.costs
            && values(self) == values(other)
    }

    fn access(&mut self, access: Access, now: Nanos, actions: &mut Actions) {
        actions.clear();
        if self.options.entry.capabilities.needs_clock {
            self.policy.background(now, actions);
        }
        self.policy.access(access, actions);
        self.counts.add(actions.as_slice());
    }

    fn estimate(&self, accesses: u64, rate: f64) -> Estimate {
        let disk = self.costs.len() - 1;
        let tier = |index: usize| Tier(u8::try_from(index).expect("there are three tiers"));
        let sampled_accesses = self.counts.accesses();
        // SHARDS_adj: the accesses to be expected, not those that came. A few very hot pages shift the
        // latter, and hardly the misses.
        let expected = (accesses as f64 * rate).max(1.0);
        let share = |count: u64| count as f64 / expected;
        let flash_hits = if disk == 2 { self.counts.hits(Tier::FLASH) } else { 0 };
        let misses = share(self.counts.hits(tier(disk))).min(1.0);
        let flash_hit_ratio = share(flash_hits).min(1.0 - misses);
        let transfers =
            |index| self.counts.page_reads(tier(index)) + self.counts.page_writes(tier(index));
        Estimate {
            label: self.options.label.clone(),
            accesses,
            rate,
            sampled_accesses,
            // SHARDS_adj: accesses that the sample has too few or too many of are to the hottest pages,
            // which are in RAM.
            ram_hit_ratio: if accesses == 0 { 0.0 } else { 1.0 - misses - flash_hit_ratio },
            flash_hit_ratio,
            flash_writes_per_access: if disk == 2 {
                share(self.counts.page_writes(Tier::FLASH))
            } else {
                0.0
            },
            disk_transfers_per_access: share(transfers(disk)),
            io_ms_per_access: self.counts.io_time_ms(&self.costs) / expected,
        }
    }
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
            entry: entry.clone(),
            values: entry.values(&[]).unwrap(),
            write_miss: WriteMiss::Fetch,
            ram_pages,
            flash_pages,
        }
    }

    /// Return the accesses to 100,000 pages, the hot ones far more often than the others.
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
            shadows.access(page.into(), op, Nanos(0));
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
    fn a_disk_of_more_pages_than_ids_is_sampled_alike() {
        for (policy, rate) in [("lru", 0.05), ("hat", 1.0), ("lc", 1.0)] {
            let small = estimates(policy, rate);
            let shadows = vec![options(policy, 2_000, 16_000)];
            let mut shadows = Shadows::new(shadows, 1 << 40, rate, &COSTS).unwrap();
            for (page, op) in accesses(600_000) {
                // Blocks of pages all over the disk.
                let page = u64::from(page);
                shadows.access(
                    (page / 64 * 0x9E37_79B1) % (1 << 34) * 64 + page % 64,
                    op,
                    Nanos(0),
                );
            }
            let large = shadows.estimates().remove(0);
            let misses = |one: &Estimate| 1.0 - one.ram_hit_ratio - one.flash_hit_ratio;
            let difference = (misses(&small) - misses(&large)).abs();
            assert!(difference < 0.02, "{policy}: {small:?} {large:?}");
        }
    }

    #[test]
    fn a_full_sample_is_the_policy_itself() {
        let all = estimates("hat", 1.0);
        let entry = registry::find("hat").unwrap();
        let setup = Setup {
            costs: COSTS.to_vec(),
            ..Setup::new(Geometry::linear(100_003), vec![2_000, 16_000])
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
        assert!((of(1 << 19, 0.01) - 0.01).abs() < 1e-9);
        assert!((of(5_120, 0.01) - 0.1).abs() < 1e-9);
        assert!((of(10, 0.01) - 1.0).abs() < 1e-12);
        let tac = vec![options("tac", 40_960, 1 << 17)];
        let tac = Shadows::new(tac, 1 << 20, 0.01, &COSTS).unwrap().rate();
        assert!((tac - 0.1).abs() < 1e-9);
    }

    #[test]
    fn neighbours_are_sampled_together() {
        let mix = vec![options("tac", 1 << 19, 1 << 20), options("lru", 1 << 19, 0)];
        let mut shadows = Shadows::new(mix, 1 << 26, 0.01, &COSTS).unwrap();
        for extent in 0..2_000 {
            for within in [0, 63, 17] {
                shadows.access(extent * 64 + within, Op::Read, Nanos(0));
            }
        }
        let [tac, lru] = shadows.estimates().try_into().unwrap();
        assert_eq!([tac.label.as_str(), lru.label.as_str()], ["tac", "lru"], "in their order");
        assert_eq!(tac.sampled_accesses, 60, "one extent of a hundred, three accesses each");
        assert!((30..90).contains(&lru.sampled_accesses), "pages on their own: {lru:?}");
        let extents = &mut shadows.samples[1];
        let Numbers::InOrder(numbers) = &extents.numbers else { panic!("the disk is small") };
        let known = *numbers.keys().min().unwrap();
        let ids = [0, 1, 63].map(|within| extents.renumber(known * 64 + within).0);
        assert_eq!([ids[1] - ids[0], ids[2] - ids[0], ids[0] % 64], [1, 63, 0]);
    }

    #[test]
    fn shadows_begin_again_when_the_disk_grows() {
        let of = |pages| {
            let shadows = vec![options("lru", 2_000, 0), options("tac", 2_000, 16_000)];
            Shadows::new(shadows, pages, 0.9, &COSTS).unwrap()
        };
        let feed = |shadows: &mut Shadows| {
            accesses(30_000).for_each(|(page, op)| shadows.access(page.into(), op, Nanos(0)));
        };
        let [mut grown, mut large] = [of(100), of(100_003)];
        (0..100).for_each(|page| grown.access(page, Op::Read, Nanos(0)));
        grown.grow(100_003).unwrap();
        [&mut grown, &mut large].into_iter().for_each(feed);
        assert_eq!(grown.estimates(), large.estimates());
    }

    #[test]
    fn shadows_that_stay_the_same_keep_what_they_found() {
        let of = |shadows: Vec<ShadowOptions>| Shadows::new(shadows, 100_003, 0.5, &COSTS).unwrap();
        let feed = |shadows: &mut Shadows| {
            accesses(30_000).for_each(|(page, op)| shadows.access(page.into(), op, Nanos(0)));
        };
        let sizes = |policy| options(policy, 2_000, 16_000);
        let renamed = ShadowOptions { label: "mine".into(), ..sizes("lru") };
        let mut former = of(vec![sizes("hat"), sizes("lru"), sizes("tac")]);
        let mut new = of(vec![sizes("face-gsc"), renamed, options("hat", 2_001, 16_000)]);
        feed(&mut former);
        let found = former.estimates();
        let mut twice = of(vec![sizes("lru")]);
        [(); 2].iter().for_each(|()| feed(&mut twice));
        assert_eq!(new.take_over(former), 1);
        let now = new.estimates();
        assert_eq!(now[1], Estimate { label: "mine".into(), ..found[1].clone() });
        assert_eq!([now[0].accesses, now[2].accesses], [0, 0], "these begin");
        feed(&mut new);
        let now = new.estimates();
        assert_eq!([now[0].accesses, now[1].accesses], [30_000, 60_000]);
        let expected = twice.estimates().remove(0);
        assert_eq!(now[1], Estimate { label: "mine".into(), ..expected }, "as if it never ended");
        // Another sample is another shadow.
        let mut full = Shadows::new(vec![sizes("lru")], 100_003, 1.0, &COSTS).unwrap();
        assert_eq!(full.take_over(new), 0);
        assert_eq!(full.estimates()[0].accesses, 0);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refuse = |options, rate| {
            Shadows::new(vec![options], 1 << 20, rate, &COSTS).unwrap_err().to_string()
        };
        assert!(refuse(options("lru", 8, 8), 0.0).contains("above 0"));
        assert!(refuse(options("lru", 8, 8), f64::NAN).contains("above 0"));
        assert!(
            refuse(options("demote", 8, 0), 0.1).contains("`demote`: this policy does not run")
        );
        assert!(Shadows::new(vec![options("demote", 8, 8)], 1 << 20, 0.1, &COSTS).is_ok());
    }
}
