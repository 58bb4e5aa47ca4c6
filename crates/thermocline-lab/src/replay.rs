//! The replay loop: accesses in, counts out.

use std::iter;
use std::ops::Range;
use std::str::FromStr;

use thermocline_core::{Actions, Counts, Ledger, Nanos, Policy, Violation};
use thermocline_trace::CompiledTrace;

use crate::LabError;

/// How many accesses ahead the policy's state is asked for: far enough to hide a memory access.
const PREFETCH_ACCESSES: usize = 16;

/// How much of the trace is left out of the counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WarmUp {
    /// The first accesses, by number.
    Accesses(u64),
    /// The first accesses, by their share of the trace in percent.
    Percent(f64),
}

/// How a trace is replayed.
#[derive(Debug)]
pub struct Replay<'a> {
    /// Accesses that are not counted.
    pub warm_up_accesses: u64,
    /// Whether the policy wants to be told the time before each request.
    pub needs_clock: bool,
    /// Checks every action, if given; it costs about as much as the policy.
    pub ledger: Option<&'a mut Ledger>,
}

impl WarmUp {
    /// The number of accesses to leave out of the counts.
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

/// Replays a trace through a policy and counts what it does.
///
/// # Errors
/// The first action that the Ledger refuses, if there is one.
pub fn replay(
    trace: &CompiledTrace,
    policy: &mut dyn Policy,
    replay: Replay<'_>,
) -> Result<Counts, Violation> {
    #[expect(clippy::cast_possible_truncation, reason = "a warm-up is shorter than the trace")]
    let warm_up = replay.warm_up_accesses as usize;
    let mut stage = Stage { trace, policy, actions: Actions::new(), ledger: replay.ledger };
    let mut counts = Counts::new();
    if !replay.needs_clock {
        stage.run(0..warm_up, &mut counts)?;
        counts = Counts::new();
        stage.run(warm_up..trace.len(), &mut counts)?;
        return Ok(counts);
    }
    for request in trace.requests() {
        let accesses = request.accesses;
        stage.background(request.at, &mut counts)?;
        if accesses.contains(&warm_up) {
            stage.run(accesses.start..warm_up, &mut counts)?;
            counts = Counts::new();
            stage.run(warm_up..accesses.end, &mut counts)?;
        } else {
            stage.run(accesses, &mut counts)?;
        }
    }
    Ok(counts)
}

/// A policy on a trace, with the buffer that they share.
struct Stage<'a> {
    trace: &'a CompiledTrace,
    policy: &'a mut dyn Policy,
    actions: Actions,
    ledger: Option<&'a mut Ledger>,
}

impl Stage<'_> {
    /// Replays a range of the trace's accesses.
    fn run(&mut self, range: Range<usize>, counts: &mut Counts) -> Result<(), Violation> {
        if self.ledger.is_some() {
            return self.run_checked(range, counts);
        }
        let Self { trace, policy, actions, .. } = self;
        let mut counted = Counts::new();
        let coming = trace.accesses_from(range.start + PREFETCH_ACCESSES);
        let coming = coming.map(Some).chain(iter::repeat(None));
        for (access, coming) in trace.accesses_from(range.start).take(range.len()).zip(coming) {
            if let Some(coming) = coming {
                policy.prefetch(coming.page);
            }
            actions.clear();
            policy.access(access, actions);
            counted.add(actions.as_slice());
        }
        counts.merge(&counted);
        Ok(())
    }

    fn run_checked(&mut self, range: Range<usize>, counts: &mut Counts) -> Result<(), Violation> {
        for access in range.map(|index| self.trace.access(index)) {
            self.actions.clear();
            self.policy.access(access, &mut self.actions);
            counts.add(self.actions.as_slice());
            if let Some(ledger) = &mut self.ledger {
                ledger.access(access, &self.actions)?;
            }
        }
        self.policy.assert_invariants();
        Ok(())
    }

    /// Lets the policy work on its own.
    fn background(&mut self, now: Nanos, counts: &mut Counts) -> Result<(), Violation> {
        self.actions.clear();
        self.policy.background(now, &mut self.actions);
        counts.add(self.actions.as_slice());
        match &mut self.ledger {
            Some(ledger) => ledger.between_accesses(&self.actions),
            None => Ok(()),
        }
    }
}
