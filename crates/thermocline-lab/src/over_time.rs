//! Figures over time: the trace cut into equal intervals, and what a run found in each of them.

use serde::Serialize;
use thermocline_core::{Actions, Counts, Policy, Tier};
use thermocline_trace::CompiledTrace;

use crate::summary::PolicyState;
use crate::{Configuration, Gauge, tiers};

/// A run over time. The warm-up is part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OverTime {
    /// Results of each interval, in order. Their accesses differ by at most one, and are together
    /// those of the trace.
    pub intervals: Vec<IntervalSummary>,
}

/// The figures of one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalSummary {
    /// Accesses from the start of the trace to its end.
    pub end_accesses: u64,
    /// Time of the request of its last access, in seconds after the earliest of the trace; `None`
    /// if the trace has no times.
    pub end_s: Option<f64>,
    /// Its accesses.
    pub accesses: u64,
    /// Accesses whose page each tier held, and no faster one: fastest first, the disk last.
    pub hits: Vec<u64>,
    /// Pages that each tier's device wrote: fastest first, the disk last.
    pub page_writes: Vec<u64>,
    /// The mean of the access times of the tiers that accesses were found in, in milliseconds.
    pub average_response_ms: f64,
    /// Pages that went down from each cache tier to the next, from the top.
    pub demotions: Vec<u64>,
    /// Pages that went up to each cache tier from the next, from the top.
    pub promotions: Vec<u64>,
    /// Data of the algorithm besides the pages and their order, at its end, in bytes.
    pub metadata_bytes: u64,
    /// Values that the policy adapts, at its end.
    pub gauges: Vec<Gauge>,
}

impl IntervalSummary {
    /// Return the number of accesses found in any cache tier, divided by all; from 0 to 1.
    pub fn aggregate_hit_ratio(&self) -> f64 {
        let disk = self.hits.len().checked_sub(1).and_then(|disk| self.hit_ratio(disk));
        disk.map_or(0.0, |disk| 1.0 - disk)
    }

    /// Return the number of accesses whose page this tier held, and no faster one, divided by all;
    /// none without the tier.
    pub fn hit_ratio(&self, tier: usize) -> Option<f64> {
        Some(*self.hits.get(tier)? as f64 / self.accesses as f64)
    }

    /// Return the gauge of that name for the tier of that name, if the policy has it.
    pub fn gauge(&self, name: &str, tier: &str) -> Option<f64> {
        let mut gauges = self.gauges.iter();
        Some(gauges.find(|gauge| gauge.name == name && gauge.tier == tier)?.value)
    }
}

/// Cuts a trace into intervals while it is replayed, and keeps what each of them found.
#[derive(Debug)]
pub struct Intervals {
    trace_accesses: usize,
    /// Number of intervals to be.
    wanted: usize,
    tier_names: Vec<String>,
    /// Counts of the current interval, up to the last cut.
    counts: Counts,
    found: Vec<(Counts, PolicyState)>,
}

impl Intervals {
    /// Create `intervals` intervals, or one per access if the trace has fewer; `None` for 0.
    /// `tier_names` are those of the tiers, the disk's last.
    pub fn new(trace_accesses: usize, intervals: usize, tier_names: Vec<String>) -> Self {
        let wanted = intervals.min(trace_accesses);
        Self { trace_accesses, wanted, tier_names, counts: Counts::new(), found: vec![] }
    }

    /// Return the end of an interval.
    fn end(&self, interval: usize) -> usize {
        let [accesses, interval, wanted] =
            [self.trace_accesses, interval, self.wanted].map(|number| number as u128);
        let end = accesses * (interval + 1) / wanted;
        usize::try_from(end).expect("an interval ends within the trace")
    }

    /// Return the end of the current interval; `None` after the last.
    fn next_end(&self) -> Option<usize> {
        (self.found.len() < self.wanted).then(|| self.end(self.found.len()))
    }

    /// End the current interval.
    fn close(&mut self, policy: &dyn Policy) {
        let state = PolicyState::of(policy, &self.tier_names);
        self.found.push((std::mem::take(&mut self.counts), state));
    }

    /// Return the figures, after the replay.
    pub(crate) fn summarise(
        self,
        trace: &CompiledTrace,
        configuration: &Configuration,
    ) -> OverTime {
        let ends: Vec<usize> = (0..self.found.len()).map(|interval| self.end(interval)).collect();
        let ends_s = seconds_at(trace, &ends);
        let tiers = configuration.tiers.len() + 1;
        let tiers = u8::try_from(tiers).expect("a hierarchy has few tiers");
        let intervals = self.found.into_iter().zip(ends).zip(ends_s);
        let intervals = intervals.map(|(((counts, state), end), end_s)| {
            let counts = counts.with_one_first_tier(configuration.clients);
            let accesses = counts.accesses();
            let hits: Vec<u64> = (0..tiers).map(|tier| counts.hits(Tier(tier))).collect();
            let page_writes = (0..tiers).map(|tier| counts.page_writes(Tier(tier))).collect();
            let [demotions, promotions] = tiers::traffic(configuration, &counts);
            IntervalSummary {
                end_accesses: end as u64,
                end_s,
                accesses,
                hits,
                page_writes,
                average_response_ms: tiers::average_response_ms(
                    &counts,
                    &configuration.latencies_ms,
                ),
                demotions,
                promotions,
                metadata_bytes: state.metadata_bytes,
                gauges: state.gauges,
            }
        });
        OverTime { intervals: intervals.collect() }
    }
}

/// Return the times of the requests of the last accesses before these places, in seconds after the
/// earliest of the trace; places ascend and are at least 1.
fn seconds_at(trace: &CompiledTrace, ends: &[usize]) -> Vec<Option<f64>> {
    if !trace.is_timed() {
        return vec![None; ends.len()];
    }
    let first_at = trace.summary().first_at;
    let mut requests = trace.requests();
    let mut current = requests.next();
    let seconds = ends.iter().map(|&end| {
        while current.as_ref().is_some_and(|request| request.accesses.end < end) {
            current = requests.next();
        }
        current.as_ref().map(|request| (request.at.0 - first_at.0) as f64 / 1e9)
    });
    seconds.collect()
}

/// The counts of a replay: in all after the warm-up, and per interval.
///
/// A replay adds to `since_cut` and tells how far it came; it must not pass over a cut.
#[derive(Debug)]
pub(crate) struct Tally<'a> {
    /// Counts of each client's accesses since the last cut.
    pub(crate) since_cut: Vec<Counts>,
    trace_accesses: usize,
    warm_up_accesses: usize,
    totals: Vec<Counts>,
    intervals: Option<&'a mut Intervals>,
    next_cut: usize,
}

impl<'a> Tally<'a> {
    /// Create the state before the first access.
    pub(crate) fn new(
        trace: &CompiledTrace,
        warm_up_accesses: u64,
        intervals: Option<&'a mut Intervals>,
    ) -> Self {
        let warm_up_accesses =
            usize::try_from(warm_up_accesses).expect("a warm-up is shorter than the trace");
        let none = vec![Counts::new(); trace.clients().get().into()];
        let mut tally = Self {
            since_cut: none.clone(),
            trace_accesses: trace.len(),
            warm_up_accesses,
            totals: none,
            intervals,
            next_cut: 0,
        };
        tally.next_cut = tally.cut_after(0);
        tally
    }

    /// Return the place where the counts must be taken next: at the end of the warm-up, of an
    /// interval, or of all.
    pub(crate) const fn next_cut(&self) -> usize {
        self.next_cut
    }

    /// Counts what an access did, and the bytes that it asked for.
    #[inline]
    pub(crate) fn add(
        &mut self,
        trace: &CompiledTrace,
        index: usize,
        client: u8,
        actions: &Actions,
    ) {
        let counts = &mut self.since_cut[usize::from(client)];
        counts.add(actions.as_slice());
        if let Some(bytes) = trace.access_bytes() {
            counts.add_bytes(actions.as_slice(), u64::from(bytes[index]));
        }
    }

    /// Count all accesses before this place.
    #[inline]
    pub(crate) fn reach(&mut self, place: usize, policy: &dyn Policy) {
        if place == self.next_cut {
            self.cut(policy);
        }
    }

    fn cut(&mut self, policy: &dyn Policy) {
        let place = self.next_cut;
        for (since_cut, total) in self.since_cut.iter_mut().zip(&mut self.totals) {
            let counts = std::mem::take(since_cut);
            if place > self.warm_up_accesses {
                total.merge(&counts);
            }
            if let Some(intervals) = &mut self.intervals {
                intervals.counts.merge(&counts);
            }
        }
        if let Some(intervals) = &mut self.intervals
            && intervals.next_end() == Some(place)
        {
            intervals.close(policy);
        }
        self.next_cut = self.cut_after(place);
    }

    fn cut_after(&self, place: usize) -> usize {
        let warm_up = Some(self.warm_up_accesses).filter(|&end| end > place);
        let interval = self.intervals.as_ref().and_then(|intervals| intervals.next_end());
        warm_up.into_iter().chain(interval).fold(self.trace_accesses, usize::min)
    }

    /// Return the counts of all accesses of each client after the warm-up.
    pub(crate) fn into_totals(self) -> Vec<Counts> {
        self.totals
    }
}
