//! Miniature simulation: a cache that is smaller by the rate, on a sample of the pages.
//!
//! * Source: Waldspurger, Saemundsson, Ahmad, Park, *Cache Modeling and Optimization using Miniature
//!   Simulations*, USENIX ATC 2017, section 3; the correction of misses as in `SHARDS_adj`
//!   (Waldspurger, Park, Garthwaite, Ahmad, FAST 2015, section 3.3).
//! * Deviations: (1) Every tier of a hierarchy is scaled by the same rate. (2) Misses are divided by
//!   the accesses that were to be expected, not by those that came: a few very hot pages in the sample,
//!   or out of it, shift how many come, but hardly how many miss. (3) Parameters that count
//!   pages of the whole cache or accesses of the whole workload are scaled with it
//!   ([`Scaling`](thermocline_core::config::Scaling)); those that a policy derives from its capacity are
//!   the ones of the small cache. (4) The sample is spread evenly over the hot pages and the cold ones, not chosen by a hash
//!   ([`Choice::Even`]). (5) Pages of a
//!   sample have no neighbours in it. A policy that decides by extents has a sample of whole extents
//!   of [`EXTENT_PAGES`]; what is left out of the disk is cut out of it ([`CompiledTrace::condensed`]).
//!   One that asks which misses are sequential ([`miss_orders`]), or how long sequential runs are, is told
//!   what the whole trace says.
//!
//! Effects that do not shrink with the cache are not estimated: in LFU without aging the newest page has one
//! place, whatever the capacity, and the next new page takes it. The estimate of its miss ratio is too low.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thermocline_core::{Inputs, MissOrder, RunLengths, Tier};
use thermocline_trace::{Choice, CompiledTrace, Sampling};

use super::miss_order::miss_orders;
use crate::runs::run_sample;
use crate::summary::PolicyState;
use crate::{Configuration, LabError, RunOptions, Summary, TierSize, Watch};

/// Pages that are sampled together for policies that decide by extents.
pub const EXTENT_PAGES: u32 = 64;
/// Pages that the smallest scaled tier should have, where the rate is not given; of a sample of
/// extents, and of one of pages.
const TIER_PAGES_MIN: [f64; 2] = [4096.0, 256.0];
/// Pages that a sample should have, where the rate is not given; of extents, and of pages.
const SAMPLE_PAGES_MIN: [f64; 2] = [65_536.0, 4096.0];
/// The least rate that is chosen, as a power of two: that of the paper is 0.001.
const RATE_MIN: f64 = 1.0 / 1024.0;

/// The share of pages that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub enum Rate {
    /// The least power of two, for each size, that leaves the smallest tier 256 pages and the
    /// sample 4096, not below 1/1024. A policy that decides by extents takes 16 times as many
    /// pages.
    Auto {
        /// The seed of the sample.
        seed: u64,
    },
    /// The same for all sizes.
    Fixed {
        /// The share, above 0 and at most 1.
        rate: f64,
        /// The seed of the sample.
        seed: u64,
    },
}

/// A sample of a trace, and what it stands for.
#[derive(Clone, Debug)]
pub struct Miniature {
    trace: CompiledTrace,
    sampling: Sampling,
    rate: f64,
    /// Accesses that a sample of this rate has on average.
    expected_accesses: f64,
    whole_footprint_pages: u32,
    whole_page_size_bytes: u64,
    /// The order of misses in the whole trace, by the pages of the first tier; for policies that ask.
    miss_orders: BTreeMap<u32, Arc<MissOrder>>,
    /// The sequential runs of the whole trace, for policies that ask.
    run_lengths: Option<Arc<RunLengths>>,
}

/// Estimate of a large cache by a small one. Shares and figures per access are of all accesses.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Accesses that no cache tier answers, as a share.
    pub miss_ratio: f64,
    /// Accesses found in each cache tier, as a share.
    pub hit_ratios: Vec<f64>,
    /// Pages read at each tier per access, the disk last.
    pub page_reads_per_access: Vec<f64>,
    /// Pages written at each tier per access, the disk last.
    pub page_writes_per_access: Vec<f64>,
    /// All page transfers at the costs of their tiers, in milliseconds per access.
    pub io_ms_per_access: f64,
    /// The mean access time of the tiers that accesses are found in, in milliseconds.
    pub average_response_ms: f64,
}

/// Return the number of pages that are sampled together for a configuration.
const fn extent_pages(configuration: &Configuration) -> u32 {
    if configuration.policy.capabilities.decides_by_extents { EXTENT_PAGES } else { 1 }
}

impl Rate {
    /// Return the rate for a configuration.
    pub(crate) fn of(
        self,
        trace: &CompiledTrace,
        configuration: &Configuration,
    ) -> Result<f64, LabError> {
        match self {
            Self::Fixed { rate, .. } => Ok(rate),
            Self::Auto { .. } => {
                let capacities = configuration.capacity_pages(trace)?;
                let smallest = capacities.into_iter().filter(|&pages| pages > 0).min().unwrap_or(1);
                let kind = usize::from(extent_pages(configuration) == 1);
                let needed = (TIER_PAGES_MIN[kind] / f64::from(smallest))
                    .max(SAMPLE_PAGES_MIN[kind] / f64::from(trace.footprint_pages()));
                let mut rate = RATE_MIN;
                // Powers of two, so that many sizes share one sample.
                while rate < needed && rate < 1.0 {
                    rate *= 2.0;
                }
                Ok(rate)
            }
        }
    }

    const fn seed(self) -> u64 {
        match self {
            Self::Auto { seed } | Self::Fixed { seed, .. } => seed,
        }
    }
}

impl Miniature {
    /// Create a sample of a trace, of extents of `extent_pages` pages.
    ///
    /// # Errors
    /// [`LabError::BadRate`] if the rate is not above 0 and at most 1, [`LabError::EmptySample`] if no
    /// page is in the sample.
    fn new(
        trace: &CompiledTrace,
        rate: f64,
        seed: u64,
        extent_pages: u32,
    ) -> Result<Self, LabError> {
        let sampling = Sampling::new(rate, Choice::Even, seed).ok_or(LabError::BadRate { rate })?;
        let sampling = sampling.of_extents(extent_pages);
        let mut sample = trace.sampled(sampling).ok_or(LabError::EmptySample { rate })?;
        // Without the gaps, extents of the sample are neighbours as those of the whole disk are.
        if extent_pages > 1 {
            sample = sample.condensed(extent_pages, rate);
        }
        Ok(Self {
            trace: sample,
            sampling,
            rate,
            // Deviation (2): as in SHARDS_adj, misses are divided by the accesses to be expected.
            expected_accesses: trace.len() as f64 * rate,
            whole_footprint_pages: trace.footprint_pages(),
            whole_page_size_bytes: trace.page_size_bytes(),
            miss_orders: BTreeMap::new(),
            run_lengths: None,
        })
    }

    /// Create a sample for each rate that the configurations take, with the places of these;
    /// policies that decide by extents have samples of their own.
    ///
    /// # Errors
    /// [`LabError::BadRate`] if a rate is not above 0 and at most 1, [`LabError::EmptySample`] if no
    /// page is in a sample, or a size that cannot be.
    pub fn for_each(
        trace: &CompiledTrace,
        configurations: &[Configuration],
        rate: Rate,
        watch: &Watch,
    ) -> Result<Vec<(Self, Vec<usize>)>, LabError> {
        let mut places: BTreeMap<(u64, u32), Vec<usize>> = BTreeMap::new();
        for (place, configuration) in configurations.iter().enumerate() {
            // Positive numbers are in the order of their bits.
            let bits = rate.of(trace, configuration)?.to_bits();
            places.entry((bits, extent_pages(configuration))).or_default().push(place);
        }
        let group = |((bits, extent_pages), places): ((u64, u32), Vec<usize>)| {
            let mut miniature = Self::new(trace, f64::from_bits(bits), rate.seed(), extent_pages)?;
            miniature.find_miss_orders(trace, configurations, &places, watch)?;
            let asks =
                |place: &usize| configurations[*place].policy.capabilities.asks_for_run_lengths;
            if miniature.trace.len() < trace.len() && places.iter().any(asks) {
                let is_sampled = trace.sampled_pages(miniature.sampling);
                miniature.run_lengths = Some(Arc::new(trace.run_lengths(&is_sampled)));
            }
            Ok((miniature, places))
        };
        places.into_iter().map(group).collect()
    }

    /// Looks at the whole trace for the order of misses that some of the configurations ask for.
    fn find_miss_orders(
        &mut self,
        trace: &CompiledTrace,
        configurations: &[Configuration],
        places: &[usize],
        watch: &Watch,
    ) -> Result<(), LabError> {
        let mut memory_pages = BTreeSet::new();
        for configuration in places.iter().map(|&place| &configurations[place]) {
            if configuration.policy.capabilities.asks_for_miss_order {
                memory_pages.extend(configuration.capacity_pages(trace)?.first());
            }
        }
        // A whole trace says so itself.
        if self.trace.len() < trace.len() && !memory_pages.is_empty() {
            let memory_pages: Vec<u32> = memory_pages.into_iter().collect();
            let orders = miss_orders(trace, &self.trace, &memory_pages, watch)?;
            self.miss_orders =
                memory_pages.into_iter().zip(orders.into_iter().map(Arc::new)).collect();
        }
        Ok(())
    }

    /// Return the share of pages that is in it.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Replays the sample through a configuration that is smaller by the rate.
    ///
    /// # Errors
    /// [`LabError::SampleTooSmall`] if a tier would be left without a page, or as for
    /// [`run`](crate::run).
    pub fn estimate(
        &self,
        configuration: &Configuration,
        watch: &Watch,
    ) -> Result<Estimate, LabError> {
        Ok(self.scale_up(configuration, &self.run(configuration, watch)?))
    }

    /// Estimate as `estimate` does, and scale the counts to the whole trace, which `whole` must be:
    /// a summary as a [`run`](crate::run) of it would have, without figures of single clients, time
    /// or gauges. Speed is that of the sample.
    ///
    /// # Errors
    /// As for [`estimate`](Self::estimate).
    pub fn summary(
        &self,
        whole: &CompiledTrace,
        configuration: &Configuration,
        watch: &Watch,
    ) -> Result<Summary, LabError> {
        let sampled = self.run(configuration, watch)?;
        let capacities = configuration.capacity_pages(whole)?;
        let hottest = (0..).map(Tier).zip(&capacities).find(|(_, pages)| **pages > 0);
        let hottest = hottest.map_or(Tier::RAM, |(tier, _)| tier);
        let ops = [whole.reads(), whole.writes()];
        let counts = sampled.counts.of_whole(1.0 / self.rate, ops, hottest);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number of bytes, and the cast saturates"
        )]
        let metadata_bytes = (sampled.metadata_bytes as f64 / self.rate) as u64;
        let state = PolicyState { metadata_bytes, gauges: vec![] };
        let configuration = Configuration { timing: None, ..configuration.clone() };
        let replay_seconds = sampled.replay_seconds;
        let summary = Summary::of_counts(whole, &configuration, counts, state, replay_seconds)?;
        Ok(Summary { accesses_per_second: sampled.accesses_per_second, ..summary })
    }

    /// Run the small cache on the sample, and return its counts.
    fn run(&self, configuration: &Configuration, watch: &Watch) -> Result<Summary, LabError> {
        let (scaled, memory_pages) = self.scaled(configuration)?;
        let miss_order = self.miss_orders.get(&memory_pages).cloned();
        let inputs = Inputs {
            miss_order,
            run_lengths: self.run_lengths.clone(),
            sample_rate: (self.rate < 1.0).then_some(self.rate),
            ..Inputs::NONE
        };
        run_sample(&self.trace, &scaled, RunOptions::default(), inputs, watch, None)
    }

    /// Return the configuration with tiers that are smaller by the rate, and the pages of its first
    /// tier before that; it is never timed.
    fn scaled(&self, configuration: &Configuration) -> Result<(Configuration, u32), LabError> {
        let values = configuration.values.scaled(self.rate);
        let mut scaled = Configuration { timing: None, values, ..configuration.clone() };
        let (mut first, mut above) = (None, None);
        for tier in &mut scaled.tiers {
            let (bytes, footprint) = (self.whole_page_size_bytes, self.whole_footprint_pages);
            let pages = tier.size.pages(&tier.name, bytes, footprint, above)?;
            above = Some(pages);
            first = first.or(above);
            // The paper's scaling: a cache of c pages behaves on all accesses as one of R c pages
            // does on a sample of rate R.
            let small = (f64::from(pages) * self.rate).round();
            if pages > 0 && small < 1.0 {
                return Err(LabError::SampleTooSmall {
                    tier: tier.name.clone(),
                    pages,
                    rate: self.rate,
                    least: 1.0 / f64::from(pages),
                });
            }
            tier.size = TierSize::Pages(small);
        }
        Ok((scaled, first.unwrap_or(0)))
    }

    fn scale_up(&self, configuration: &Configuration, summary: &Summary) -> Estimate {
        let share = |count: u64| count as f64 / self.expected_accesses;
        let mut rest = 1.0;
        let mut shares: Vec<f64> = vec![];
        // From the bottom, so that what hot pages shift is the first tier's.
        for tier in summary.tiers[1..].iter().rev() {
            let of_tier = share(tier.hits).min(rest);
            rest -= of_tier;
            shares.push(of_tier);
        }
        shares.push(rest);
        shares.reverse();
        let latencies = shares.iter().zip(&configuration.latencies_ms);
        let average_response_ms = latencies.map(|(share, latency_ms)| share * latency_ms).sum();
        let miss_ratio = shares.pop().expect("the disk is a tier");
        Estimate {
            miss_ratio,
            hit_ratios: shares,
            page_reads_per_access: summary
                .tiers
                .iter()
                .map(|tier| share(tier.page_reads))
                .collect(),
            page_writes_per_access: summary
                .tiers
                .iter()
                .map(|tier| share(tier.page_writes))
                .collect(),
            io_ms_per_access: summary.io_time_ms / self.expected_accesses,
            average_response_ms,
        }
    }
}
