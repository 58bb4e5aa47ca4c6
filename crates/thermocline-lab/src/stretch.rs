//! The beginning of a trace, replayed in place of all of it: an estimate where a sample of the pages
//! would be most of the trace, as in a long trace of few pages.

use thermocline_core::{Inputs, Tier};
use thermocline_trace::{CompiledTrace, PartOptions};

use crate::runs::run_sample;
use crate::summary::PolicyState;
use crate::{Configuration, LabError, RunOptions, Summary, TierSize, WarmUp, Watch};

/// Accesses that a stretch has at least.
const ACCESSES_MIN: u64 = 1 << 20;
/// Accesses per page of the trace that it has at least: caches fill, and first accesses hardly count.
const ACCESSES_PER_PAGE_MIN: u64 = 64;
/// The trace is at least so many times as long: else a stretch saves little.
const SHARE_INVERSE_MIN: u64 = 4;
/// Share of a stretch that is replayed but not counted, in percent.
const WARM_UP_PERCENT: f64 = 25.0;

/// The first requests of a trace.
#[derive(Debug)]
pub(crate) struct Stretch {
    trace: CompiledTrace,
    share: f64,
}

impl Stretch {
    /// Return the shortest beginning of a trace that estimates it, if that is short enough to be of
    /// use.
    pub(crate) fn of(whole: &CompiledTrace) -> Result<Option<Self>, LabError> {
        let pages = u64::from(whole.footprint_pages());
        let wanted = ACCESSES_MIN.max(pages * ACCESSES_PER_PAGE_MIN);
        let accesses = whole.len() as u64;
        if wanted.saturating_mul(SHARE_INVERSE_MIN) > accesses {
            return Ok(None);
        }
        let mut left = wanted;
        let reaches = |request: &thermocline_trace::CompiledRequest| {
            left = left.saturating_sub(request.accesses.len() as u64);
            left > 0
        };
        let limit = whole.requests().take_while(reaches).count() as u64 + 1;
        let trace = whole.part(PartOptions { limit, ..PartOptions::default() })?;
        let share = trace.len() as f64 / accesses as f64;
        Ok(Some(Self { trace, share }))
    }

    /// Return the share of the accesses that it has, above 0 and at most 1/4.
    pub(crate) const fn share(&self) -> f64 {
        self.share
    }

    /// Replays it through a cache of the size that the whole trace has, and takes what is counted after the
    /// warm-up for the whole trace.
    pub(crate) fn summary(
        &self,
        whole: &CompiledTrace,
        configuration: &Configuration,
        watch: &Watch,
    ) -> Result<Summary, LabError> {
        let configuration = Configuration { timing: None, ..configuration.clone() };
        let capacities = configuration.capacity_pages(whole)?;
        let mut of_stretch = configuration.clone();
        for (tier, &pages) in of_stretch.tiers.iter_mut().zip(&capacities) {
            // A share of the pages would be one of the pages of the stretch.
            tier.size = TierSize::Pages(pages.into());
        }
        let options =
            RunOptions { warm_up: WarmUp::Percent(WARM_UP_PERCENT), ..RunOptions::default() };
        let found = run_sample(&self.trace, &of_stretch, options, Inputs::NONE, watch, None)?;
        let hottest = (0..).map(Tier).zip(&capacities).find(|(_, pages)| **pages > 0);
        let hottest = hottest.map_or(Tier::RAM, |(tier, _)| tier);
        let factor = whole.len() as f64 / found.counts.accesses().max(1) as f64;
        let counts = found.counts.of_whole(factor, [whole.reads(), whole.writes()], hottest);
        let state = PolicyState { metadata_bytes: found.metadata_bytes, gauges: vec![] };
        let summary =
            Summary::of_counts(whole, &configuration, counts, state, found.replay_seconds)?;
        Ok(Summary { accesses_per_second: found.accesses_per_second, ..summary })
    }
}
