//! Misses on the bundled trace are those of libCacheSim, for algorithms that are the same there.
//!
//! `cargo xtask bench -- peers --write-fixture` runs libCacheSim and writes what is compared with.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use thermocline_core::{PageCost, Setup, Tier, registry};
use thermocline_lab::{Replay, replay};
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};

const FIXTURE: &str = include_str!("../../../testdata/peers/libcachesim.tsv");

#[test]
fn misses_are_those_of_libcachesim() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/pgbench/pgbench.csv.zst");
    let mut reader = Reader::open(path, &ReadOptions::default()).unwrap();
    let trace = CompiledTrace::compile(&mut reader, PageSize::new(8192).unwrap()).unwrap();
    let mut policies = BTreeSet::new();
    for line in FIXTURE.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [policy, parameters, capacity_pages, misses] = fields[..] else {
            panic!("four fields a line, not {line}")
        };
        policies.insert(policy);
        let measured = run(&trace, policy, parameters, capacity_pages.parse().unwrap());
        assert_eq!(measured, misses.parse::<u64>().unwrap(), "{line}");
    }
    assert!(policies.len() >= 11, "no policy is lost: {policies:?}");
}

/// Return the misses of a policy with these parameters, which commas part.
fn run(trace: &CompiledTrace, policy: &str, parameters: &str, capacity_pages: u32) -> u64 {
    let setup = Setup {
        costs: vec![PageCost::default(); 2],
        inputs: trace.foresight().unwrap().into(),
        ..Setup::new(trace.geometry(), vec![capacity_pages])
    };
    let entry = registry::find(policy).unwrap();
    let given: Vec<(String, String)> = parameters
        .split_terminator(',')
        .map(|parameter| parameter.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut policy = entry.build(&setup, &entry.values(&given).unwrap()).unwrap();
    let counts = replay(trace, &mut *policy, Replay::default()).unwrap();
    counts.iter().map(|counts| counts.hits(Tier(1))).sum()
}
