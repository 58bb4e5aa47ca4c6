//! Results of policies that learn from the trace, on the bundled one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::thread;

use thermocline_core::{Counts, PageCost, Setup, Tier, registry};
use thermocline_lab::{Replay, replay};
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};

fn bundled() -> CompiledTrace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pgbench/pgbench.csv.zst");
    let mut reader = Reader::open(path, &ReadOptions::default()).unwrap();
    CompiledTrace::compile(&mut reader, PageSize::new(8192).unwrap()).unwrap()
}

fn run(trace: &CompiledTrace, policy: &str, capacity_pages: u32) -> Vec<Counts> {
    let costs = vec![PageCost::default(); 2];
    let setup = Setup { costs, ..Setup::new(trace.geometry(), vec![capacity_pages]) };
    let mut policy = registry::find(policy).unwrap().build_default(&setup).unwrap();
    replay(trace, &mut *policy, Replay::default()).unwrap()
}

#[test]
fn learning_is_no_worse_than_fifo_and_lru() {
    let trace = bundled();
    for capacity_pages in [500, 1000, 4000, 16_000] {
        let misses = |policy| {
            let counts = run(&trace, policy, capacity_pages);
            counts.iter().map(|counts| counts.hits(Tier(1))).sum::<u64>()
        };
        let [learned, fifo, lru] = ["3l-cache", "fifo", "lru"].map(misses);
        assert!(learned < fifo.min(lru), "{capacity_pages} pages: {learned}, {fifo}, {lru}");
    }
}

#[test]
fn learning_gives_the_same_in_every_thread() {
    let trace = bundled();
    let alone = run(&trace, "3l-cache", 2000);
    thread::scope(|scope| {
        let runs = [(); 3].map(|()| scope.spawn(|| run(&trace, "3l-cache", 2000)));
        for run in runs {
            assert_eq!(run.join().unwrap(), alone);
        }
    });
}
