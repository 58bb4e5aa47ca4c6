//! Miss-ratio curves: how often caches of many sizes miss, without replaying the trace for each.
//!
//! | what | for | how |
//! | --- | --- | --- |
//! | [`Method::Exact`] | LRU | one pass over the trace, re-use distances (`stack`) |
//! | [`Method::FixedRate`], [`Method::FixedSize`] | LRU | one pass over a sample: SHARDS (`stack`) |
//! | [`Method::Miniature`] | any policy | a small cache on a sample for each size (`miniature`) |
//! | [`Method::Simulation`] | any policy | the whole trace for each size |
//!
//! A miss is an access that no cache tier answers.

mod miniature;
mod miss_order;
mod reuse;
mod stack;

use std::slice;

use serde::Serialize;
use thermocline_core::Clients;
use thermocline_core::registry::{Depth, PolicyEntry};
use thermocline_trace::{CompiledTrace, SampledTrace, Sampling};

use crate::spec::{HierarchySpec, TierSpec};
use crate::turns::in_parallel;
use crate::{
    Configuration, LabError, RunOptions, TierSize, TracePages, TraceSummary, Watch, configurations,
    run,
};

pub use miniature::{EXTENT_PAGES, Estimate, Miniature, Rate};
pub use reuse::{Bucket, Distribution, ReuseStats};
pub use stack::{Sample, StackPass};

/// Sizes of a curve, unless others are asked for.
const SIZES: u32 = 32;
/// Sizes of each tier of a grid, unless others are asked for.
const GRID_SIZES: u32 = 8;
/// The least of these sizes is so much smaller than the footprint.
const SIZES_SPAN: f64 = 1000.0;

/// Method by which a curve was computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Method {
    /// Re-use distances of all accesses.
    Exact,
    /// SHARDS at a fixed rate.
    FixedRate {
        /// The share of pages that was sampled.
        rate: f64,
        /// Method of choosing them: `even` or `hash`.
        by: &'static str,
    },
    /// SHARDS with a sample of fixed size.
    FixedSize {
        /// Pages that the sample may have.
        pages: u32,
        /// The share of pages that was sampled at the end.
        rate: f64,
        /// Method of choosing them: `even` or `hash`.
        by: &'static str,
    },
    /// Miniature simulation; each point has a rate of its own.
    Miniature,
    /// The whole trace, once for each size.
    Simulation,
}

/// Options for computing curves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurveOptions {
    /// Pages that LRU's curve and the figures of re-use look at.
    pub sample: Sample,
    /// The share of pages that other policies are simulated on.
    pub rate: Rate,
    /// `true` if every size is simulated in full as well, to tell how far the curves are off.
    pub is_checked: bool,
}

/// The curves of a trace, and how its pages are used again. Its JSON form has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct MissRatios {
    /// The trace.
    pub trace: TraceSummary,
    /// One curve per policy.
    pub curves: Vec<Curve>,
    /// Statistics of re-use.
    pub reuse: ReuseStats,
}

/// Miss ratios of a policy at many sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// The policy.
    pub policy: String,
    /// All its parameters.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Method by which it was computed.
    pub method: Method,
    /// The cache tiers, fastest first.
    pub tiers: Vec<String>,
    /// The sizes: those of the first tier ascend, and for each of them those of the second.
    pub points: Vec<Point>,
    /// The mean over all points of what the miss ratio differs by from a full simulation; `None` if
    /// it was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_absolute_error: Option<f64>,
    /// The greatest of these differences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_absolute_error: Option<f64>,
}

/// One size of a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The capacity of each cache tier.
    pub capacity_pages: Vec<u64>,
    /// Accesses that no cache tier answers, divided by all; from 0 to 1.
    pub miss_ratio: f64,
    /// Accesses found in each cache tier, divided by all.
    pub hit_ratios: Vec<f64>,
    /// The share of pages that was simulated.
    pub rate: f64,
    /// The miss ratio of a full simulation, if it was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_miss_ratio: Option<f64>,
}

/// Sizes from a thousandth of the footprint to all of it, evenly spaced in their logarithm, at least
/// a page, ascending.
pub fn default_sizes_pages(trace: impl Into<TracePages>, cache_tiers: usize) -> Vec<u32> {
    let sizes = if cache_tiers > 1 { GRID_SIZES } else { SIZES };
    let footprint_pages = trace.into().footprint_pages;
    let size = |index: u32| {
        let exponent = f64::from(sizes - 1 - index) / f64::from(sizes - 1);
        let pages = f64::from(footprint_pages) / SIZES_SPAN.powf(exponent);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of the footprint"
        )]
        let pages = pages.round() as u32;
        pages.max(1)
    };
    let mut pages: Vec<u32> = (0..sizes).map(size).collect();
    pages.dedup();
    pages
}

/// Return the configurations of a policy's curve: RAM of each size, and flash unless it leaves it
/// empty.
///
/// `spec` is all but the tiers; without sizes they are those of [`default_sizes_pages`].
///
/// # Errors
/// As for [`configurations`], or a size that cannot be.
pub fn curve_configurations(
    trace: impl Into<TracePages>,
    policy: &PolicyEntry,
    spec: &HierarchySpec,
    [ram_sizes, flash_sizes]: [&[TierSize]; 2],
) -> Result<Vec<Configuration>, LabError> {
    let trace = trace.into();
    let cache_tiers = if policy.capabilities.depth == Depth::Ram { 1 } else { 2 };
    let pages = default_sizes_pages(trace, cache_tiers).into_iter();
    let default: Vec<TierSize> = pages.map(|pages| TierSize::Pages(pages.into())).collect();
    let tier = |name: &str, sizes: &[TierSize]| {
        TierSpec::new(name, if sizes.is_empty() { &default } else { sizes })
    };
    let tiers = [tier("ram", ram_sizes), tier("flash", flash_sizes)];
    let spec = HierarchySpec { tiers: tiers[..cache_tiers].to_vec(), ..spec.clone() };
    let mut sized = vec![];
    for configuration in configurations(&spec, slice::from_ref(policy), Clients::ONE)? {
        sized.push((configuration.capacity_pages(trace)?, configuration));
    }
    sized.sort_by(|(one, _), (other, _)| one.cmp(other));
    sized.dedup_by(|(one, _), (other, _)| one == other);
    Ok(sized.into_iter().map(|(_, configuration)| configuration).collect())
}

/// Return the curves of some policies, each given as its configurations that differ in sizes only,
/// and when pages are used again. `done` is told each time that a size is simulated.
///
/// # Errors
/// If the sample, the rate or a size is invalid.
pub fn miss_ratios(
    trace: &CompiledTrace,
    policies: &[Vec<Configuration>],
    options: CurveOptions,
    watch: &Watch,
    done: impl Fn() + Sync,
) -> Result<MissRatios, LabError> {
    let pass = StackPass::over(trace, options.sample, watch)?;
    let mut curves = vec![];
    for configurations in policies {
        let mut curve = if is_one_pass(configurations) {
            lru_curve(trace.into(), configurations, &pass)?
        } else {
            miniature_curve(trace, configurations, options.rate, watch, &done)?
        };
        if options.is_checked {
            curve.check(trace, configurations, watch, &done)?;
        }
        curves.push(curve);
    }
    Ok(MissRatios { trace: TraceSummary::of(trace), curves, reuse: pass.into_reuse() })
}

/// Return the curves of policies of which [one pass](is_one_pass) gives the whole, and when pages
/// are used again, from a sample that was taken while its file was read; `sample` says how.
///
/// # Errors
/// If the sample is empty, or a size is invalid.
pub fn sampled_miss_ratios(
    trace: &SampledTrace,
    policies: &[Vec<Configuration>],
    sample: Sample,
    watch: &Watch,
) -> Result<MissRatios, LabError> {
    let pass = StackPass::over_sample(trace, sample, watch)?;
    let curve =
        |configurations: &Vec<Configuration>| lru_curve(trace.into(), configurations, &pass);
    let curves = policies.iter().map(curve).collect::<Result<Vec<Curve>, LabError>>()?;
    Ok(MissRatios { trace: TraceSummary::of_sampled(trace), curves, reuse: pass.into_reuse() })
}

/// Return `true` if one pass gives the whole curve: that of LRU in one tier.
pub fn is_one_pass(configurations: &[Configuration]) -> bool {
    configurations.iter().all(|one| has_one_pass(&one.policy) && one.tiers.len() == 1)
}

fn has_one_pass(policy: &PolicyEntry) -> bool {
    policy.name == "lru"
}

/// Return the sample from which alone the curves of these policies are found, if no more than a
/// sample of fixed rate is needed: then [`SampledTrace`] and [`sampled_miss_ratios`] do without the
/// compiled trace.
///
/// # Errors
/// [`LabError::BadRate`] if the rate is not above 0 and at most 1.
pub fn only_sample(
    policies: &[PolicyEntry],
    options: CurveOptions,
) -> Result<Option<Sampling>, LabError> {
    let sampling = options.sample.sampling()?;
    Ok(sampling.filter(|_| !options.is_checked && policies.iter().all(has_one_pass)))
}

/// Return the curve of LRU, from a pass over the trace or a sample of it.
fn lru_curve(
    trace: TracePages,
    configurations: &[Configuration],
    pass: &StackPass,
) -> Result<Curve, LabError> {
    let sample = pass.sample();
    let method = match sample {
        Sample::All => Method::Exact,
        Sample::Rate { rate, choice, .. } => Method::FixedRate { rate, by: choice.word() },
        Sample::Size { pages, choice, .. } => {
            Method::FixedSize { pages, rate: pass.rate(), by: choice.word() }
        }
    };
    let point = |configuration: &Configuration| {
        let capacity_pages = configuration.capacity_pages(trace)?;
        let miss_ratio = pass.miss_ratio(capacity_pages[0]);
        Ok(Point {
            capacity_pages: capacity_pages.into_iter().map(u64::from).collect(),
            miss_ratio,
            hit_ratios: vec![1.0 - miss_ratio],
            rate: pass.rate(),
            simulated_miss_ratio: None,
        })
    };
    let points: Result<Vec<Point>, LabError> = configurations.iter().map(point).collect();
    Ok(Curve::new(configurations, method, points?))
}

/// Return the curve of any policy by miniature simulation, in parallel.
fn miniature_curve(
    trace: &CompiledTrace,
    configurations: &[Configuration],
    rate: Rate,
    watch: &Watch,
    done: impl Fn() + Sync,
) -> Result<Curve, LabError> {
    let groups = Miniature::for_each(trace, configurations, rate, watch)?;
    let mut points: Vec<(usize, Point)> = vec![];
    for (miniature, places) in &groups {
        let point = |&place: &usize| {
            let capacity_pages = configurations[place].capacity_pages(trace)?;
            let estimate = miniature.estimate(&configurations[place], watch)?;
            done();
            let point = Point {
                capacity_pages: capacity_pages.into_iter().map(u64::from).collect(),
                miss_ratio: estimate.miss_ratio,
                hit_ratios: estimate.hit_ratios,
                rate: miniature.rate(),
                simulated_miss_ratio: None,
            };
            Ok((place, point))
        };
        let found = in_parallel(places, |&place| configurations[place].policy.is_hosted(), point);
        points.extend(found.into_iter().collect::<Result<Vec<_>, LabError>>()?);
    }
    points.sort_by_key(|(place, _)| *place);
    let points: Vec<Point> = points.into_iter().map(|(_, point)| point).collect();
    let is_whole = points.iter().all(|point| point.rate >= 1.0);
    let method = if is_whole { Method::Simulation } else { Method::Miniature };
    Ok(Curve::new(configurations, method, points))
}

impl Curve {
    /// Return the curve of some configurations that differ in sizes only.
    fn new(configurations: &[Configuration], method: Method, points: Vec<Point>) -> Self {
        let first = configurations.first();
        Self {
            policy: first.map_or_else(String::new, |one| one.policy.name.to_string()),
            parameters: first
                .map(|one| crate::summary::parameters(&one.values))
                .unwrap_or_default(),
            method,
            tiers: first.map_or_else(Vec::new, |one| {
                one.tiers.iter().map(|tier| tier.name.clone()).collect()
            }),
            points,
            mean_absolute_error: None,
            max_absolute_error: None,
        }
    }

    /// Simulates every size in full, in parallel, and notes how far the curve is off.
    fn check(
        &mut self,
        trace: &CompiledTrace,
        configurations: &[Configuration],
        watch: &Watch,
        done: impl Fn() + Sync,
    ) -> Result<(), LabError> {
        let simulate = |configuration: &Configuration| {
            let summary = run(trace, configuration, RunOptions::default(), watch)?;
            done();
            Ok(summary.tiers.last().map_or(0.0, |disk| disk.hit_ratio))
        };
        let simulated = in_parallel(configurations, |one| one.policy.is_hosted(), simulate);
        let simulated: Result<Vec<f64>, LabError> = simulated.into_iter().collect();
        let mut errors = vec![];
        for (point, simulated) in self.points.iter_mut().zip(simulated?) {
            point.simulated_miss_ratio = Some(simulated);
            errors.push((point.miss_ratio - simulated).abs());
        }
        self.mean_absolute_error = Some(errors.iter().sum::<f64>() / errors.len().max(1) as f64);
        self.max_absolute_error = errors.into_iter().reduce(f64::max);
        Ok(())
    }
}

impl Method {
    /// Return its name, for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Exact => "exact".into(),
            Self::FixedRate { rate, by } => format!("SHARDS ({by}), rate {rate}"),
            Self::FixedSize { pages, rate, by } => {
                format!("SHARDS ({by}), {pages} pages (rate {rate:.6})")
            }
            Self::Miniature => "miniature simulation".into(),
            Self::Simulation => "full simulation".into(),
        }
    }
}

impl MissRatios {
    /// Format one line per point, for spreadsheets: policy, method, capacities, miss ratio, hit
    /// ratios, rate, and the full simulation's miss ratio.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "policy,method,ram_pages,flash_pages,miss_ratio,ram_hit_ratio,flash_hit_ratio,rate,simulated_miss_ratio\n",
        );
        for curve in &self.curves {
            let method = match curve.method {
                Method::Exact => "exact",
                Method::FixedRate { .. } => "fixed-rate",
                Method::FixedSize { .. } => "fixed-size",
                Method::Miniature => "miniature",
                Method::Simulation => "simulation",
            };
            for point in &curve.points {
                let cell = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
                let flash_pages = point.capacity_pages.get(1).map(|pages| *pages as f64);
                let cells = [
                    curve.policy.clone(),
                    method.into(),
                    point.capacity_pages[0].to_string(),
                    cell(flash_pages),
                    point.miss_ratio.to_string(),
                    cell(point.hit_ratios.first().copied()),
                    cell(point.hit_ratios.get(1).copied()),
                    point.rate.to_string(),
                    cell(point.simulated_miss_ratio),
                ];
                text += &cells.join(",");
                text.push('\n');
            }
        }
        text
    }
}
