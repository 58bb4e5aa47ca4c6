//! The replay loop: accesses in, counts out.

use std::fmt::Debug;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thermocline_core::{Access, Actions, Clients, Counts, Ledger, Nanos, Policy, Violation};
use thermocline_trace::CompiledTrace;

use crate::over_time::{Intervals, Tally};
use crate::watch::CHUNK_ACCESSES;
use crate::{LabError, Watch};

/// Number of accesses ahead at which the policy's state is prefetched: enough to hide a memory
/// access.
pub(crate) const PREFETCH_ACCESSES: usize = 16;

/// Accesses that a policy is given together.
pub(crate) const BATCH_ACCESSES: usize = 512;

/// Part of the trace that is left out of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub enum WarmUp {
    /// The first accesses, by number.
    Accesses(u64),
    /// The first accesses, by their share of the trace in percent.
    Percent(f64),
}

/// Options of a replay.
#[derive(Debug, Default)]
pub struct Replay<'a> {
    /// Accesses that are not counted.
    pub warm_up_accesses: u64,
    /// `true` if the policy wants to be told the time before each request.
    pub needs_clock: bool,
    /// Checks every action, if given; it costs about as much as the policy.
    pub ledger: Option<&'a mut Ledger>,
    /// Takes what is found over time, if given.
    pub intervals: Option<&'a mut Intervals>,
    /// Takes every action, if given. Once it has failed, the replay ends, and its counts mean nothing.
    pub log: Option<&'a mut (dyn Recorder + 'static)>,
    /// Progress and cancellation, if anybody watches; once stopped, the replay ends, and its counts
    /// are meaningless.
    pub watch: Option<&'a Watch>,
}

impl WarmUp {
    /// Return the number of accesses to leave out of the counts.
    ///
    /// # Errors
    /// If nothing of the trace would be left.
    pub fn accesses(self, trace_accesses: u64) -> Result<u64, LabError> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share from 0 to 100 percent of a u64 is a u64"
        )]
        let warm_up = match self {
            Self::Accesses(accesses) => accesses,
            Self::Percent(percent) => (trace_accesses as f64 * percent / 100.0) as u64,
        };
        if warm_up > 0 && warm_up >= trace_accesses {
            return Err(LabError::WarmUpTooLong { warm_up, accesses: trace_accesses });
        }
        Ok(warm_up)
    }
}

impl Default for WarmUp {
    fn default() -> Self {
        Self::Accesses(0)
    }
}

impl FromStr for WarmUp {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let parsed = match text.strip_suffix('%') {
            Some(share) => share
                .parse()
                .ok()
                .filter(|percent| (0.0..=100.0).contains(percent))
                .map(Self::Percent),
            None => text.parse().ok().map(Self::Accesses),
        };
        parsed.ok_or_else(|| LabError::BadWarmUp { text: text.into() })
    }
}

/// Receiver of every action of a run, in order.
pub trait Recorder: Debug {
    /// Take the actions of the access at an index of the trace.
    fn access(&mut self, trace: &CompiledTrace, index: usize, actions: &Actions);

    /// Take what a policy did on its own before the access at an index.
    fn between_accesses(&mut self, trace: &CompiledTrace, index: usize, actions: &Actions);

    /// Return `true` if it can take no more; the run then ends, and its counts mean nothing.
    fn has_failed(&self) -> bool {
        false
    }
}

/// Replays a trace through a policy and counts what it does, for each client what its accesses did.
///
/// # Errors
/// If the Ledger refuses an action; the error is the first one.
pub fn replay(
    trace: &CompiledTrace,
    policy: &mut dyn Policy,
    replay: Replay<'_>,
) -> Result<Vec<Counts>, Violation> {
    let tally = Tally::new(trace, replay.warm_up_accesses, replay.intervals);
    let Replay { ledger, log, watch, .. } = replay;
    let actions = Actions::new();
    let mut stage = Stage { trace, policy, actions, batch: vec![], ledger, log, tally, watch };
    // Request by request, since the clock moves between requests only. It breaks the batches, so
    // only policies that ask for it pay.
    if replay.needs_clock && trace.is_timed() {
        for request in trace.requests() {
            stage.background(request.at, request.accesses.start)?;
            stage.go_through(request.accesses)?;
            if stage.is_stopped() {
                break;
            }
        }
    } else {
        stage.go_through(0..trace.len())?;
    }
    Ok(stage.tally.into_totals())
}

/// Return the sum of some counts.
pub(crate) fn sum(counts: &[Counts]) -> Counts {
    let mut sum = Counts::new();
    for counts in counts {
        sum.merge(counts);
    }
    sum
}

/// A policy on a trace, with the buffer that they share.
struct Stage<'a> {
    trace: &'a CompiledTrace,
    policy: &'a mut dyn Policy,
    actions: Actions,
    /// Accesses that a policy is given together, and those behind them.
    batch: Vec<Access>,
    ledger: Option<&'a mut Ledger>,
    log: Option<&'a mut (dyn Recorder + 'static)>,
    tally: Tally<'a>,
    watch: Option<&'a Watch>,
}

impl Stage<'_> {
    /// Replays a range of the trace's accesses, in parts where counts must be taken.
    fn go_through(&mut self, mut range: Range<usize>) -> Result<(), Violation> {
        while !range.is_empty() {
            // Counts are taken at the ends of warm-up and intervals, so no batch may cross one.
            let cut = range.end.min(self.tally.next_cut());
            let end = cut.min(range.start.saturating_add(CHUNK_ACCESSES));
            self.run(range.start..end)?;
            // Walking all state of a policy costs as much as many accesses: checked runs do it at
            // cuts only.
            if self.ledger.is_some() && end == cut {
                self.policy.assert_invariants();
            }
            self.tally.reach(end, self.policy);
            if let Some(watch) = self.watch {
                watch.advance(end - range.start);
            }
            if self.is_stopped() {
                return Ok(());
            }
            range.start = end;
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.watch.is_some_and(Watch::is_stopped)
            || self.log.as_ref().is_some_and(|log| log.has_failed())
    }

    fn run(&mut self, range: Range<usize>) -> Result<(), Violation> {
        // All others go in batches: the policy counts by itself, which saves a list of actions per
        // access.
        let is_each_looked_at = self.ledger.is_some()
            || self.log.is_some()
            || self.trace.clients() != Clients::ONE
            || self.trace.access_bytes().is_some();
        if is_each_looked_at {
            return self.run_each(range);
        }
        let Self { trace, policy, actions, batch, .. } = self;
        for start in range.clone().step_by(BATCH_ACCESSES) {
            let end = range.end.min(start + BATCH_ACCESSES);
            // The accesses behind the batch are prefetched within it, or each batch would begin
            // with misses of the processor's cache.
            let coming_end = trace.len().min(end + PREFETCH_ACCESSES);
            batch.clear();
            batch.extend(trace.accesses_of_one_client(start..coming_end));
            let coming = batch.get(PREFETCH_ACCESSES..).unwrap_or_default();
            policy.access_all(&batch[..end - start], coming, actions, &mut self.tally.since_cut[0]);
        }
        Ok(())
    }

    /// Replays a range where each access is looked at: by the Ledger, by a log, for its client or its
    /// bytes.
    fn run_each(&mut self, range: Range<usize>) -> Result<(), Violation> {
        for index in range {
            let access = self.trace.access(index);
            if index + PREFETCH_ACCESSES < self.trace.len() {
                // Checked runs keep the prefetching, so that they measure what unchecked ones do.
                self.policy.prefetch(self.trace.access(index + PREFETCH_ACCESSES).page);
            }
            self.actions.clear();
            self.policy.access(access, &mut self.actions);
            if let Some(ledger) = &mut self.ledger {
                // Before the counts: what the Ledger refuses must not be in any figure.
                ledger.access(access, &self.actions)?;
            }
            if let Some(log) = &mut self.log {
                log.access(self.trace, index, &self.actions);
            }
            self.tally.add(self.trace, index, access.client, &self.actions);
        }
        Ok(())
    }

    /// Lets the policy work on its own; that counts with the access that follows, `next`. Policies that
    /// do have one client.
    fn background(&mut self, now: Nanos, next: usize) -> Result<(), Violation> {
        self.actions.clear();
        self.policy.background(now, &mut self.actions);
        if let Some(log) = &mut self.log {
            log.between_accesses(self.trace, next, &self.actions);
        }
        // Work without an access has no client, so the first one's counts take it.
        self.tally.since_cut[0].add(self.actions.as_slice());
        match &mut self.ledger {
            Some(ledger) => ledger.between_accesses(&self.actions),
            None => Ok(()),
        }
    }
}
