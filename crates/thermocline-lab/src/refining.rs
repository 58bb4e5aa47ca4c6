//! Run many configurations on one trace while a user watches: first on samples, then on the whole trace.
//!
//! 1. Sizes come in the order in which a curve gains most: its ends, its middle, and so on by halves; all
//!    policies at one size before the next one.
//! 2. Each configuration is estimated in miniature ([`Miniature`]). Where its sample would be more than an
//!    eighth of the pages and the trace is long for its pages, the first accesses are replayed instead: at
//!    least 2^20, and 64 per page, of which a quarter warms the cache up. Where the trace is too short for
//!    that and the sample would be the whole trace, there is no estimate. Policies whose sample needs
//!    another pass over the whole trace come after the others.
//! 3. The whole trace is replayed through each, in the same order.

use std::sync::Arc;

use thermocline_trace::CompiledTrace;

use crate::mrc::{Miniature, Rate};
use crate::runs::{distinct, with_sizes_of};
use crate::stretch::Stretch;
use crate::turns::in_order;
use crate::{Configuration, LabError, RunOptions, Summary, Watch, run};

/// Method by which the figures of a configuration were computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found {
    /// The whole trace was replayed.
    Exact,
    /// A sample of the pages was replayed through a cache that is smaller by the same rate.
    Sampled {
        /// The share of the pages, above 0 and below 1.
        rate: f64,
    },
    /// The first accesses were replayed through the cache as it is, a part of them uncounted.
    Beginning {
        /// The share of the accesses, above 0 and below 1.
        share: f64,
    },
}

/// A sample of a greater share of the pages is not made where the beginning of the trace can be replayed.
const RATE_MOST: f64 = 1.0 / 8.0;

/// Refined figures of a configuration.
#[derive(Debug)]
pub struct Refined {
    /// The place of the configuration among those given.
    pub place: usize,
    /// Method by which they were computed.
    pub found: Found,
    /// The figures, or why there are none: a size that its policy cannot have. Of samples, figures only: a
    /// cache may be too small for its policy where the whole one is not.
    pub summary: Result<Summary, Arc<LabError>>,
}

/// A step of [`refine`], as its callback gets it.
#[derive(Debug)]
pub enum Progress {
    /// New or more exact figures of a configuration.
    Refined(Box<Refined>),
    /// All that can be estimated is; from now on, results are exact.
    Sampled,
}

/// Estimate all configurations from samples where these are smaller than the trace, then replay the whole
/// trace through each. Several threads call `tell`, with each result as soon as it is known.
///
/// # Errors
/// If a size is invalid, or [`LabError::Stopped`].
pub fn refine(
    trace: &CompiledTrace,
    configurations: &[Configuration],
    rate: Rate,
    watch: &Watch,
    tell: impl Fn(Progress) + Sync,
) -> Result<(), LabError> {
    let runs = Runs::new(trace, configurations)?;
    let is_looking = |place: &usize| {
        let known = &configurations[*place].policy.capabilities;
        known.decides_by_extents || known.asks_for_miss_order || known.asks_for_run_lengths
    };
    let rates = configurations.iter().map(|one| rate.of(trace, one));
    let rates = rates.collect::<Result<Vec<f64>, _>>()?;
    let has_large = runs.order.iter().any(|&place| rates[place] > RATE_MOST);
    let beginning = if has_large { Stretch::of(trace)? } else { None };
    let is_sampled =
        |place: &usize| rates[*place] < 1.0 && (rates[*place] <= RATE_MOST || beginning.is_none());
    let (looking, plain): (Vec<usize>, Vec<usize>) =
        runs.order.iter().partition(|it| is_looking(it) && is_sampled(it));
    for places in [plain, looking] {
        let sampled: Vec<usize> = places.iter().copied().filter(is_sampled).collect();
        let chosen: Vec<Configuration> =
            sampled.iter().map(|&place| configurations[place].clone()).collect();
        let groups = Miniature::for_each(trace, &chosen, rate, watch)?;
        let mut miniature_of = vec![None; configurations.len()];
        for (miniature, of_group) in &groups {
            for &chosen in of_group {
                miniature_of[sampled[chosen]] = Some(miniature);
            }
        }
        let estimate = |place: usize| {
            let configuration = &configurations[place];
            if let Some(miniature) = miniature_of[place] {
                let found = Found::Sampled { rate: miniature.rate() };
                return Some((found, miniature.summary(trace, configuration, watch)));
            }
            let beginning = beginning.as_ref()?;
            let found = Found::Beginning { share: beginning.share() };
            Some((found, beginning.summary(trace, configuration, watch)))
        };
        runs.make(&places, estimate, &tell);
        watch.check()?;
    }
    tell(Progress::Sampled);
    let replay = |place: usize| {
        let summary = run(trace, &configurations[place], RunOptions::default(), watch);
        Some((Found::Exact, summary))
    };
    runs.make(&runs.order, replay, &tell);
    watch.check()
}

/// The runs that configurations need, some of which serve several.
struct Runs<'a> {
    trace: &'a CompiledTrace,
    configurations: &'a [Configuration],
    /// Place of the first configuration that has the same run, for each.
    run_of: Vec<usize>,
    /// The places of these, in the order in which their runs are made.
    order: Vec<usize>,
}

impl<'a> Runs<'a> {
    fn new(
        trace: &'a CompiledTrace,
        configurations: &'a [Configuration],
    ) -> Result<Self, LabError> {
        let (distinct, run_of) = distinct(configurations);
        let first = |(run, _): (usize, _)| run_of.iter().position(|&of| of == run);
        let firsts: Vec<usize> = distinct.into_iter().filter_map(first).collect();
        let capacities = configurations.iter().map(|one| one.capacity_pages(trace));
        let capacities = capacities.collect::<Result<Vec<_>, _>>()?;
        let mut sizes = capacities.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let rank = ranks_by_halves(sizes.len());
        let rank_of = |place: usize| sizes.binary_search(&capacities[place]).map(|size| rank[size]);
        let run_of = run_of.into_iter().map(|run| firsts[run]).collect();
        let mut order = firsts;
        order.sort_by_key(|&place| (rank_of(place).unwrap_or(0), place));
        Ok(Self { trace, configurations, run_of, order })
    }

    /// Make the runs of these places, where `work` gives one, and call `tell` for every configuration that
    /// a run serves. A stopped run calls it for none.
    fn make(
        &self,
        places: &[usize],
        work: impl Fn(usize) -> Option<(Found, Result<Summary, LabError>)> + Sync,
        tell: &(impl Fn(Progress) + Sync),
    ) {
        let Self { trace, configurations, run_of, .. } = self;
        let make = |&run: &usize| {
            let Some((found, summary)) = work(run) else { return };
            let summary = summary.map_err(Arc::new);
            let is_told = match &summary {
                Ok(_) => true,
                Err(error) => found == Found::Exact && !matches!(**error, LabError::Stopped),
            };
            if !is_told {
                return;
            }
            let served = run_of.iter().enumerate().filter(|(_, of)| **of == run);
            for (place, _) in served {
                let sized = |run| with_sizes_of(run, trace, &configurations[place]);
                let summary = match &summary {
                    Ok(run) => sized(run).map_err(Arc::new),
                    Err(error) => Err(Arc::clone(error)),
                };
                tell(Progress::Refined(Box::new(Refined { place, found, summary })));
            }
        };
        in_order(places, |&place| configurations[place].policy.is_hosted(), make);
    }
}

/// Return the order in which points of a line are looked at: both ends, then the middle of each
/// part, from the widest on. For each point, its place in this order.
fn ranks_by_halves(points: usize) -> Vec<usize> {
    let mut ranks = vec![usize::MAX; points];
    let mut next = 0;
    let mut take = |point: usize, ranks: &mut Vec<usize>| {
        ranks[point] = next;
        next += 1;
    };
    let Some(last) = points.checked_sub(1) else { return ranks };
    take(0, &mut ranks);
    if last > 0 {
        take(last, &mut ranks);
    }
    let mut parts = vec![(0, last)];
    while !parts.is_empty() {
        let halved = parts.into_iter().filter(|(from, to)| to - from > 1).flat_map(|(from, to)| {
            let middle = usize::midpoint(from, to);
            take(middle, &mut ranks);
            [(from, middle), (middle, to)]
        });
        parts = halved.collect();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_halved() {
        assert_eq!(ranks_by_halves(0), [0_usize; 0]);
        assert_eq!(ranks_by_halves(1), [0]);
        assert_eq!(ranks_by_halves(2), [0, 1]);
        assert_eq!(ranks_by_halves(5), [0, 3, 2, 4, 1]);
        let mut ranks = ranks_by_halves(100);
        ranks.sort_unstable();
        assert_eq!(ranks, (0..100).collect::<Vec<_>>());
    }
}
