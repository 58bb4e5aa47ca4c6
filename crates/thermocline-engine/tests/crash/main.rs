//! Crashes: random requests, random completions, the power fails after any operation, and what is
//! read afterwards is compared with what was promised.
//!
//! `THERMOCLINE_SEED=17 cargo test -p thermocline-engine --test crash` runs one seed again,
//! `THERMOCLINE_SEEDS=100000` runs so many.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

mod devices;
mod oracle;
#[path = "../policies/mod.rs"]
mod policies;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::{Plan, World};

/// How many seeds are run unless the environment says otherwise.
const SEEDS: u64 = 4000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Runs seeds, and says how to run the first one that fails again.
fn run(name: &str, plan: impl Fn(u64) -> Plan) {
    if let Some(seed) = number("THERMOCLINE_SEED") {
        World::run(plan(seed)).unwrap();
        return;
    }
    let seeds = number("THERMOCLINE_SEEDS").unwrap_or(SEEDS);
    for seed in 0..seeds {
        let result = catch_unwind(AssertUnwindSafe(|| World::run(plan(seed))));
        let fault = match result {
            Ok(Ok(())) => continue,
            Ok(Err(fault)) => fault,
            Err(_) => "it panicked, see above".to_owned(),
        };
        panic!(
            "seed {seed}: {fault}\nto run it again: THERMOCLINE_SEED={seed} cargo test -p \
             thermocline-engine --test crash {name}"
        );
    }
}

#[test]
fn what_was_durable_survives_every_crash() {
    run("what_was_durable_survives_every_crash", Plan::crashes);
}

#[test]
fn a_backing_store_that_fails_now_and_then_loses_nothing() {
    run("a_backing_store_that_fails_now_and_then_loses_nothing", Plan::backing_errors);
}

#[test]
fn wrong_bytes_of_flash_are_never_served() {
    run("wrong_bytes_of_flash_are_never_served", Plan::flash_errors);
}

#[test]
fn without_its_flash_the_engine_goes_on() {
    run("without_its_flash_the_engine_goes_on", Plan::flash_gone);
}

#[test]
fn a_failed_sync_of_the_backing_store_loses_nothing_durable() {
    run("a_failed_sync_of_the_backing_store_loses_nothing_durable", Plan::failed_syncs);
}

#[test]
fn kills_and_stops_lose_nothing_durable() {
    run("kills_and_stops_lose_nothing_durable", Plan::kills);
}

#[test]
fn one_damaged_block_of_metadata_loses_nothing() {
    run("one_damaged_block_of_metadata_loses_nothing", Plan::rotten_metadata);
}
