//! A replay that goes on while another thread still reads and compiles the trace.
//!
//! The policy is built before it is known how many pages there are, for as many as there can be. Everything
//! that depends on that number, on where pages lie on disk, on accesses to come or on the length of the trace
//! has to wait for the compiled trace.

use std::sync::mpsc::{self, Receiver};
use std::time::Instant;
use std::{mem, panic, thread};

use thermocline_core::registry::{Depth, Future};
use thermocline_core::{Access, Actions, Clients, Counts, Geometry, Op, PageId, Policy};
use thermocline_trace::{CompiledTrace, PageSize, Requests, TraceError};

use crate::replay::{BATCH_ACCESSES, PREFETCH_ACCESSES};
use crate::runs::{Found, summarise};
use crate::summary::PolicyState;
use crate::{
    Configuration, LabError, RunOptions, Summary, TierSize, TracePages, WarmUp, Watch, run,
};

/// Accesses that one thread hands to the other together.
const CHUNK_ACCESSES: usize = 1 << 15;
/// Maximum number of these that may wait.
const CHUNKS_AHEAD: usize = 16;
/// The most pages for which a policy is built before it is known how many there are: tables of these take
/// some hundreds of megabytes.
const PAGES_MAX: u64 = 1 << 26;
/// Mark of a write, as in [`CompiledTrace::packed`].
const WRITE_BIT: u32 = 1 << 31;

/// Return `true` if [`run_while_compiling`] can make this run of a trace with that maximum number
/// of accesses.
pub fn can_run_while_compiling(
    configuration: &Configuration,
    options: RunOptions,
    accesses_max: u64,
) -> bool {
    let capabilities = &configuration.policy.capabilities;
    let is_plain = capabilities.depth == Depth::Ram
        && capabilities.future == Future::Unknown
        && capabilities.is_tested
        && !capabilities.needs_clock
        && !capabilities.looks_at_neighbours;
    let is_known = |size: TierSize| matches!(size, TierSize::Pages(_) | TierSize::Bytes(_));
    is_plain
        && accesses_max <= PAGES_MAX
        && configuration.timing.is_none()
        && configuration.clients == Clients::ONE
        && configuration.tiers.iter().all(|tier| is_known(tier.size))
        && matches!(options.warm_up, WarmUp::Accesses(0))
        && !options.is_checked
        && options.intervals == 0
}

/// Compile a trace of at most `accesses_max` accesses, and replay it meanwhile; the run is that of
/// [`run`] on the compiled trace.
///
/// # Errors
/// As for [`CompiledTrace::compile`] and, beside them, as for [`run`].
///
/// # Panics
/// If the run [cannot be made so](can_run_while_compiling).
pub fn run_while_compiling<R: Requests + Send>(
    source: &mut R,
    page_size: PageSize,
    accesses_max: u64,
    configuration: &Configuration,
) -> Result<(CompiledTrace, Result<Summary, LabError>), TraceError> {
    let options = RunOptions::default();
    assert!(
        can_run_while_compiling(configuration, options, accesses_max),
        "the run needs the whole trace"
    );
    let pages = u32::try_from(accesses_max).expect("checked by the assertion");
    let bound = TracePages { page_size_bytes: page_size.bytes(), footprint_pages: pages };
    let (send, chunks) = mpsc::sync_channel(CHUNKS_AHEAD);
    let (trace, found) = thread::scope(|scope| {
        let replay = scope.spawn(move || replay(configuration, bound, &chunks));
        let mut chunk = Vec::with_capacity(CHUNK_ACCESSES);
        let trace = CompiledTrace::compile_telling(source, page_size, |accesses| {
            chunk.extend_from_slice(accesses);
            if chunk.len() >= CHUNK_ACCESSES {
                // A replay that cannot begin takes none.
                drop(send.send(mem::replace(&mut chunk, Vec::with_capacity(CHUNK_ACCESSES))));
            }
        });
        drop(send.send(chunk));
        drop(send);
        (trace, replay.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
    });
    let trace = trace?;
    let summary = found.and_then(|found| {
        let capacities = configuration.capacity_pages(&trace)?;
        if capacities.iter().any(|&pages| pages > trace.footprint_pages()) {
            // Some policies take less for their tables then.
            return run(&trace, configuration, options, &Watch::default());
        }
        summarise(&trace, configuration, found)
    });
    Ok((trace, summary))
}

fn replay(
    configuration: &Configuration,
    bound: TracePages,
    chunks: &Receiver<Vec<u32>>,
) -> Result<Found, LabError> {
    let capacity_pages = configuration.capacity_pages(bound)?;
    let setup = configuration.setup(Geometry::linear(bound.footprint_pages), capacity_pages);
    let mut policy = configuration.policy.build(&setup, &configuration.values)?;
    let mut stage = Stage { counts: Counts::new(), actions: Actions::new(), accesses: vec![] };
    let mut replay_seconds = 0.0;
    for chunk in chunks {
        let start = Instant::now();
        stage.accesses.extend(chunk.into_iter().map(unpack));
        stage.go_through(&mut *policy, PREFETCH_ACCESSES);
        replay_seconds += start.elapsed().as_secs_f64();
    }
    stage.go_through(&mut *policy, 0);
    Ok(Found {
        counts: vec![stage.counts],
        state: PolicyState::of(&*policy, &configuration.tier_names()),
        intervals: None,
        warm_up_accesses: 0,
        replay_seconds,
        timing: None,
    })
}

/// A policy at work.
struct Stage {
    counts: Counts,
    actions: Actions,
    /// Accesses that are not replayed yet.
    accesses: Vec<Access>,
}

impl Stage {
    /// Replays all accesses but the last few, for which those are still to come that are asked for ahead.
    fn go_through(&mut self, policy: &mut dyn Policy, left: usize) {
        let ready = self.accesses.len().saturating_sub(left);
        for start in (0..ready).step_by(BATCH_ACCESSES) {
            let end = ready.min(start + BATCH_ACCESSES);
            let coming_end = self.accesses.len().min(end + PREFETCH_ACCESSES);
            let batch = &self.accesses[start..coming_end];
            let coming = batch.get(PREFETCH_ACCESSES..).unwrap_or_default();
            policy.access_all(&batch[..end - start], coming, &mut self.actions, &mut self.counts);
        }
        self.accesses.drain(..ready);
    }
}

const fn unpack(packed: u32) -> Access {
    let op = if packed & WRITE_BIT == 0 { Op::Read } else { Op::Write };
    Access { page: PageId(packed & !WRITE_BIT), op, client: 0 }
}
