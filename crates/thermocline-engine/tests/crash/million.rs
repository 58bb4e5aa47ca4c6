//! A long run over all kinds of faults, which counts the crashes.
#![expect(clippy::print_stdout, reason = "whoever starts it wants the figures")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::plan::Plan;

/// A kind of faults: the name of its test, its plans, and how one is run. A run returns its number of
/// crashes.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) plan: fn(u64) -> Plan,
    pub(crate) run: fn(Plan) -> Result<u64, String>,
    /// One of this many seeds is run: such a run takes as long as many others.
    pub(crate) part: u64,
}

/// Crashes by kind and by policy.
#[derive(Default)]
struct Census {
    kinds: BTreeMap<String, u64>,
    policies: BTreeMap<String, u64>,
}

/// Run every kind with seeds from `first` on, on all processors, until there were `crashes_min`
/// crashes.
///
/// # Panics
/// If a run fails, with its kind and its seed.
pub(crate) fn run(kinds: &[Kind], first: u64, crashes_min: u64) {
    let start = Instant::now();
    let (seed, crashes) = (AtomicU64::new(first), AtomicU64::new(0));
    let census = Mutex::new(Census::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while crashes.load(Ordering::Relaxed) < crashes_min {
                    let seed = seed.fetch_add(1, Ordering::Relaxed);
                    for kind in kinds.iter().filter(|kind| seed.is_multiple_of(kind.part)) {
                        let plan = (kind.plan)(seed);
                        let policy = plan.options.policy.entry.name.to_string();
                        let count = run_one(kind, plan, seed);
                        crashes.fetch_add(count, Ordering::Relaxed);
                        let mut census = census.lock().unwrap();
                        *census.kinds.entry(kind.name.to_owned()).or_default() += count;
                        *census.policies.entry(policy).or_default() += count;
                    }
                }
            });
        }
    });
    let census = census.into_inner().unwrap();
    for (name, count) in census.kinds.iter().chain(&census.policies) {
        println!("{count:>9} {name}");
    }
    let (crashes, seeds) = (crashes.into_inner(), seed.into_inner() - first);
    let seconds = start.elapsed().as_secs_f64();
    println!("{crashes} crashes of {seeds} seeds in {seconds:.0} s");
}

/// Runs one seed of a kind. Returns its number of crashes.
///
/// # Panics
/// If it fails; the message says how to run it again.
pub(crate) fn run_one(kind: &Kind, plan: Plan, seed: u64) -> u64 {
    let result = catch_unwind(AssertUnwindSafe(|| (kind.run)(plan)));
    let fault = match result {
        Ok(Ok(crashes)) => return crashes,
        Ok(Err(fault)) => fault,
        Err(_) => "it panicked, see above".to_owned(),
    };
    panic!(
        "seed {seed}: {fault}\nto run it again: THERMOCLINE_SEED={seed} cargo test -p \
         thermocline-engine --test crash {}",
        kind.name
    );
}
