//! Runs: a trace replayed through configurations, and summaries made of what was counted.

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use thermocline_core::registry::Depth;
use thermocline_core::{Clients, Counts, Inputs, Tier};
use thermocline_trace::CompiledTrace;

use crate::action_log::ActionLog;
use crate::over_time::Tally;
use crate::replay::sum;
use crate::summary::PolicyState;
use crate::timing::{Simulation, Timed};
use crate::turns::in_parallel;
use crate::{
    ClientSummary, Configuration, Intervals, LabError, PolicySummary, Recorder, Replay, Summary,
    TierSummary, Timing, TimingSummary, TraceSummary, WarmUp, Watch, replay, tiers,
};

/// Options of a run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct RunOptions {
    /// Part that is left out of the counts.
    pub warm_up: WarmUp,
    /// `true` if the Ledger runs alongside and checks every action.
    pub is_checked: bool,
    /// Into how many equal intervals the figures over time are cut, at most one per access; 0 for no
    /// figures over time.
    pub intervals: usize,
}

impl RunOptions {
    /// Return the collector of figures over time, if they are asked for.
    fn intervals(self, trace: &CompiledTrace, configuration: &Configuration) -> Option<Intervals> {
        let intervals = || Intervals::new(trace.len(), self.intervals, configuration.tier_names());
        (self.intervals > 0).then(intervals)
    }
}

/// Replays a trace through one configuration; `watch` counts the accesses, and can stop it.
///
/// # Errors
/// If a configuration is invalid, the Ledger refuses an action, or the watch stops it.
pub fn run(
    trace: &CompiledTrace,
    configuration: &Configuration,
    options: RunOptions,
    watch: &Watch,
) -> Result<Summary, LabError> {
    run_into(trace, configuration, options, watch, Beside::default())
}

/// Run as [`run`] does, and write every action to a file, as [`ActionLog`] does.
///
/// # Errors
/// As for [`run`], or if the file cannot be written. There is no file after an error.
pub fn run_with_actions(
    trace: &CompiledTrace,
    configuration: &Configuration,
    options: RunOptions,
    watch: &Watch,
    path: &Path,
) -> Result<Summary, LabError> {
    let warm_up_accesses = options.warm_up.accesses(trace.len() as u64)?;
    let mut log = ActionLog::create(path, trace, configuration, warm_up_accesses)?;
    let beside = Beside { log: Some(&mut log), ..Beside::default() };
    let summary = run_into(trace, configuration, options, watch, beside);
    if summary.is_ok() || log.has_failed() {
        log.finish()?;
    }
    summary
}

/// Run as [`run`] does, and give every action to a recorder, those of the warm-up too.
///
/// # Errors
/// As for [`run`].
pub fn run_recording(
    trace: &CompiledTrace,
    configuration: &Configuration,
    options: RunOptions,
    watch: &Watch,
    recorder: &mut (dyn Recorder + 'static),
) -> Result<Summary, LabError> {
    let beside = Beside { log: Some(recorder), ..Beside::default() };
    run_into(trace, configuration, options, watch, beside)
}

/// Replays a sample of a trace, with what the whole trace says of its order; `log` takes every action.
pub(crate) fn run_sample(
    sample: &CompiledTrace,
    configuration: &Configuration,
    options: RunOptions,
    of_sample: Inputs,
    watch: &Watch,
    log: Option<&mut (dyn Recorder + 'static)>,
) -> Result<Summary, LabError> {
    let beside = Beside { log, of_sample };
    run_into(sample, configuration, options, watch, beside)
}

/// Inputs that few runs have.
#[derive(Default)]
struct Beside<'a> {
    /// Takes every action.
    log: Option<&'a mut (dyn Recorder + 'static)>,
    /// Order of the whole trace, if the trace is a sample.
    of_sample: Inputs,
}

fn run_into(
    trace: &CompiledTrace,
    configuration: &Configuration,
    options: RunOptions,
    watch: &Watch,
    beside: Beside<'_>,
) -> Result<Summary, LabError> {
    configuration.policy.host(|| run_here(trace, configuration, options, watch, beside))
}

/// Makes a run on this thread.
fn run_here(
    trace: &CompiledTrace,
    configuration: &Configuration,
    mut options: RunOptions,
    watch: &Watch,
    Beside { log, of_sample }: Beside<'_>,
) -> Result<Summary, LabError> {
    // A policy from outside has no conformance test of ours: the Ledger checks each of its actions,
    // and the figures can be trusted.
    options.is_checked |= !configuration.policy.capabilities.is_tested;
    let warm_up_accesses = options.warm_up.accesses(trace.len() as u64)?;
    if let Some(timing) = &configuration.timing {
        return run_timed(trace, configuration, timing, options, watch, log);
    }
    let mut policy = configuration.build_for_sample(trace, of_sample)?;
    let mut ledger = options.is_checked.then(|| configuration.ledger(trace)).transpose()?;
    let mut intervals = options.intervals(trace, configuration);
    let start = Instant::now();
    let replay_options = Replay {
        warm_up_accesses,
        needs_clock: configuration.policy.capabilities.needs_clock,
        ledger: ledger.as_mut(),
        intervals: intervals.as_mut(),
        log,
        watch: Some(watch),
    };
    let counts = replay(trace, &mut *policy, replay_options).map_err(|violation| {
        LabError::Violation { policy: configuration.policy.name.to_string(), violation }
    })?;
    watch.check()?;
    let replay_seconds = start.elapsed().as_secs_f64();
    let state = PolicyState::of(&*policy, &configuration.tier_names());
    let timing = None;
    let found = Found { counts, state, intervals, warm_up_accesses, replay_seconds, timing };
    summarise(trace, configuration, found)
}

/// Replays a trace through many configurations, in parallel; the results keep their order. A policy of
/// one tier runs once for all sizes of a flash that it leaves empty.
///
/// `done` is told each time that one is finished.
///
/// # Errors
/// If a configuration is invalid or the Ledger refuses it; the error is that of the first one, in
/// order.
pub fn compare(
    trace: &CompiledTrace,
    configurations: &[Configuration],
    options: RunOptions,
    watch: &Watch,
    done: impl Fn() + Sync,
) -> Result<Vec<Summary>, LabError> {
    // A policy of one tier does the same at every flash size, so a sweep would repeat its runs.
    let (distinct, run_of) = distinct(configurations);
    let run = |&(place, configuration): &(usize, &Configuration)| {
        let result = run(trace, configuration, options, watch);
        run_of.iter().filter(|&&run| run == place).for_each(|_| done());
        result
    };
    let found = in_parallel(&distinct, |(_, one)| one.policy.is_hosted(), run);
    let found = found.into_iter().collect::<Result<Vec<Summary>, LabError>>()?;
    let of_each = configurations.iter().zip(run_of);
    of_each.map(|(one, run)| with_sizes_of(&found[run], trace, one)).collect()
}

/// Return the configurations whose runs differ, each with its place among them, and for every
/// configuration the place of its run: policies of one tier leave flash empty, whatever its size.
pub(crate) fn distinct(
    configurations: &[Configuration],
) -> (Vec<(usize, &Configuration)>, Vec<usize>) {
    let is_of_ram = |one: &Configuration| {
        one.policy.capabilities.depth == Depth::Ram && one.tiers.len() > 1 && one.timing.is_none()
    };
    let identity = |one: &Configuration| {
        let PolicySummary { name, parameters, write_miss, .. } = PolicySummary::of(one);
        (name, parameters, write_miss, one.tiers[0].size, one.costs(), one.latencies_ms.clone())
    };
    let mut known: Vec<(usize, _)> = vec![];
    let (mut distinct, mut run_of) = (vec![], vec![]);
    for one in configurations {
        let identity = is_of_ram(one).then(|| identity(one));
        let same = identity.as_ref().and_then(|wanted| {
            known.iter().find(|(_, other)| other == wanted).map(|&(place, _)| place)
        });
        let place = same.unwrap_or(distinct.len());
        if same.is_none() {
            distinct.push((place, one));
            known.extend(identity.map(|identity| (place, identity)));
        }
        run_of.push(place);
    }
    (distinct, run_of)
}

/// Return a run with what follows from the sizes of another configuration's tiers in place of its
/// own.
pub(crate) fn with_sizes_of(
    run: &Summary,
    trace: &CompiledTrace,
    configuration: &Configuration,
) -> Result<Summary, LabError> {
    let mut summary = run.clone();
    let capacity_pages = configuration.capacity_pages(trace)?;
    for (tier, &pages) in summary.tiers.iter_mut().zip(&capacity_pages) {
        tier.capacity_pages = Some(pages.into());
    }
    summary.weigh(trace, configuration, &capacity_pages);
    Ok(summary)
}

impl Summary {
    /// Sets what the sizes of the tiers cost, and the share of metadata.
    fn weigh(
        &mut self,
        trace: &CompiledTrace,
        configuration: &Configuration,
        capacity_pages: &[u32],
    ) {
        let pages = capacity_pages.iter().copied().chain([trace.footprint_pages()]);
        let mut bytes: Vec<u64> =
            pages.map(|pages| u64::from(pages) * trace.page_size_bytes()).collect();
        // Each client has a first tier of that size, and all of them are paid for.
        bytes[0] *= u64::from(configuration.clients.get());
        let caches_bytes = bytes[..capacity_pages.len()].iter().sum::<u64>();
        self.metadata_share = self.metadata_bytes as f64 / (caches_bytes as f64).max(1.0);
        let prices = configuration.prices.as_ref();
        self.cost = prices.map(|prices| prices.cost(&bytes, self.average_response_ms));
    }
}

/// Results of a replay.
pub(crate) struct Found {
    /// Counts of each client.
    pub(crate) counts: Vec<Counts>,
    pub(crate) state: PolicyState,
    pub(crate) intervals: Option<Intervals>,
    pub(crate) warm_up_accesses: u64,
    pub(crate) replay_seconds: f64,
    pub(crate) timing: Option<TimingSummary>,
}

/// Replays a trace through one configuration with devices that queue.
fn run_timed(
    trace: &CompiledTrace,
    configuration: &Configuration,
    timing: &Timing,
    options: RunOptions,
    watch: &Watch,
    log: Option<&mut (dyn Recorder + 'static)>,
) -> Result<Summary, LabError> {
    let warm_up_accesses = options.warm_up.accesses(trace.len() as u64)?;
    let names = configuration.tier_names();
    let mut intervals = options.intervals(trace, configuration);
    let tally = Tally::new(trace, warm_up_accesses, intervals.as_mut());
    let simulation =
        Simulation::new(trace, configuration, timing, options.is_checked, tally, watch)?;
    let simulation = simulation.logging(log);
    let start = Instant::now();
    let Timed { counts, state, timing } = simulation.run(timing, &names, warm_up_accesses)?;
    let replay_seconds = start.elapsed().as_secs_f64();
    let timing = Some(timing);
    let found = Found { counts, state, intervals, warm_up_accesses, replay_seconds, timing };
    summarise(trace, configuration, found)
}

pub(crate) fn summarise(
    trace: &CompiledTrace,
    configuration: &Configuration,
    found: Found,
) -> Result<Summary, LabError> {
    let Found { counts, state, intervals, warm_up_accesses, replay_seconds, timing } = found;
    let clients = client_summaries(configuration, &counts);
    let counts = sum(&counts).with_one_first_tier(configuration.clients);
    let over_time = intervals.map(|intervals| intervals.summarise(trace, configuration));
    let summary = Summary::of_counts(trace, configuration, counts, state, replay_seconds)?;
    Ok(Summary { warm_up_accesses, clients, over_time, timing, ..summary })
}

impl Summary {
    /// Compute the figures that follow from the counts of all clients together and of the whole
    /// trace: the first tiers of several clients are one.
    pub(crate) fn of_counts(
        trace: &CompiledTrace,
        configuration: &Configuration,
        counts: Counts,
        state: PolicyState,
        replay_seconds: f64,
    ) -> Result<Self, LabError> {
        let capacity_pages = configuration.capacity_pages(trace)?;
        let average_response_ms = tiers::average_response_ms(&counts, &configuration.latencies_ms);
        let [demotions, promotions] = tiers::traffic(configuration, &counts);
        let in_bytes =
            |pages: &[u64]| pages.iter().map(|pages| pages * trace.page_size_bytes()).collect();
        let mut summary = Self {
            average_response_ms,
            demoted_bytes: in_bytes(&demotions),
            promoted_bytes: in_bytes(&promotions),
            demotions,
            promotions,
            metadata_bytes: state.metadata_bytes,
            metadata_share: 0.0,
            gauges: state.gauges,
            clients: vec![],
            cost: None,
            over_time: None,
            trace: TraceSummary::of(trace),
            policy: PolicySummary::of(configuration),
            io_time_ms: counts.io_time_ms(&configuration.costs()),
            tiers: tier_summaries(configuration, &capacity_pages, &counts, trace),
            warm_up_accesses: 0,
            replay_seconds,
            accesses_per_second: trace.len() as f64 / replay_seconds,
            timing: None,
            counts: Box::new(counts),
        };
        summary.weigh(trace, configuration, &capacity_pages);
        Ok(summary)
    }
}

/// Summarise each of several clients.
fn client_summaries(configuration: &Configuration, counts: &[Counts]) -> Vec<ClientSummary> {
    if configuration.clients == Clients::ONE {
        return vec![];
    }
    let summary = |(client, counts): (u8, &Counts)| {
        let counts = counts.with_one_first_tier(configuration.clients);
        let tiers = (0_u8..).map(Tier).take(configuration.tiers.len() + 1);
        let hits: Vec<u64> = tiers.map(|tier| counts.hits(tier)).collect();
        let accesses = counts.accesses();
        let cached: u64 = hits[..configuration.tiers.len()].iter().sum();
        ClientSummary {
            client,
            accesses,
            hits,
            hit_ratio: cached as f64 / (accesses as f64).max(1.0),
            average_response_ms: tiers::average_response_ms(&counts, &configuration.latencies_ms),
        }
    };
    (0..).zip(counts).map(summary).collect()
}

fn tier_summaries(
    configuration: &Configuration,
    capacity_pages: &[u32],
    counts: &Counts,
    trace: &CompiledTrace,
) -> Vec<TierSummary> {
    let caches = configuration.tiers.iter().zip(capacity_pages).map(|(tier, &capacity_pages)| {
        (tier.name.as_str(), Some(u64::from(capacity_pages)), &tier.device)
    });
    let accesses = counts.accesses();
    let all_bytes: u64 = (0_u8..)
        .map(Tier)
        .take(configuration.tiers.len() + 1)
        .map(|tier| counts.hit_bytes(tier))
        .sum();
    let bytes = |tier| trace.access_bytes().map(|_| counts.hit_bytes(tier));
    (0_u8..)
        .map(Tier)
        .zip(caches.chain([("disk", None, &configuration.disk)]))
        .zip(&configuration.latencies_ms)
        .map(|((tier, (name, capacity_pages, device)), &latency_ms)| TierSummary {
            name: name.into(),
            capacity_pages,
            hits: counts.hits(tier),
            read_hits: counts.read_hits(tier),
            write_hits: counts.write_hits(tier),
            hit_ratio: counts.hits(tier) as f64 / accesses as f64,
            hit_bytes: bytes(tier),
            byte_hit_ratio: bytes(tier).map(|bytes| bytes as f64 / (all_bytes as f64).max(1.0)),
            page_reads: counts.page_reads(tier),
            page_writes: counts.page_writes(tier),
            device: device.name.clone(),
            read_ms: device.read_ms,
            write_ms: device.write_ms,
            latency_ms,
        })
        .collect()
}
