//! Crashes: random requests, random completions, the power fails after any operation, and what is
//! read afterwards is compared with what was promised.
//!
//! `THERMOCLINE_SEED=17 cargo test -p thermocline-engine --test crash` runs one seed again,
//! `THERMOCLINE_SEEDS=100000` runs that many seeds of each kind.
//! `cargo test --profile simulation -p thermocline-engine --test crash -- --ignored --nocapture million`
//! runs a million crashes over all policies and kinds, and prints how many there were of which
//! (`THERMOCLINE_CRASHES` is another number of them).
//!
//! Some damage cannot be noticed by design, and the simulation leaves it out:
//!
//! * A write that the backing store acknowledges and loses: the engine keeps no checksums of it.
//! * Damage to a slot whose record no later journal block calls durable: recovery takes it for a write
//!   that the crash cut off. An orderly end seals the journal, so that nothing remains in that state.
//! * Lost writes of both copies of the last journal block: there is nothing that names it.
//! * Damage to one copy of a metadata block while the power failure tears the other copy.
//! * Which bytes a trimmed page has, if a server behind the backing store ends and forgets what it
//!   acknowledged: any that the page ever had.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

mod devices;
mod disk;
mod enumerate;
mod exchange;
mod faults;
mod growth;
mod million;
mod mirror;
mod oracle;
mod plan;
#[path = "../policies/mod.rs"]
mod policies;
mod ranges;
mod restart;
mod set;
mod starts;
mod witness;
mod world;

use std::sync::atomic::Ordering;

use million::{Kind, run_one};
use plan::Plan;
use world::World;

/// Number of seeds that are run unless the environment says otherwise.
const SEEDS: u64 = 300;
/// Number of crashes the long run has unless the environment says otherwise.
const CRASHES: u64 = 1_000_000;

const KINDS: [Kind; 16] = [
    Kind {
        name: "what_was_durable_survives_every_crash",
        plan: Plan::crashes,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "a_backing_store_that_fails_now_and_then_loses_nothing",
        plan: Plan::backing_errors,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "wrong_bytes_of_flash_are_never_served",
        plan: Plan::flash_errors,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "without_its_flash_the_engine_goes_on",
        plan: Plan::flash_gone,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "a_flash_that_is_replaced_takes_nothing_with_it",
        plan: Plan::exchanges,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "commands_about_ranges_lose_nothing",
        plan: Plan::ranges,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "a_backing_store_that_grows_loses_nothing",
        plan: Plan::grows,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "a_flash_that_grows_loses_nothing",
        plan: Plan::grows_flash,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "a_failed_sync_of_the_backing_store_loses_nothing_durable",
        plan: Plan::failed_syncs,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "kills_and_stops_lose_nothing_durable",
        plan: Plan::kills,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "one_damaged_block_of_metadata_loses_nothing",
        plan: Plan::rotten_metadata,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "devices_that_hang_hold_up_no_request_for_long",
        plan: Plan::hangs,
        run: World::run,
        part: 1,
    },
    Kind {
        name: "a_recovery_that_crashes_anywhere_loses_nothing",
        plan: Plan::kills,
        run: enumerate::run,
        part: 40,
    },
    Kind {
        name: "losing_one_of_two_flash_devices_loses_nothing",
        plan: Plan::mirrored,
        run: mirror::run,
        part: 1,
    },
    Kind {
        name: "a_mirrored_flash_that_grows_loses_nothing",
        plan: Plan::mirrored_growth,
        run: mirror::run,
        part: 3,
    },
    Kind {
        name: "a_start_is_refused_or_serves_the_newest",
        plan: Plan::crashes,
        run: starts::run,
        part: 1,
    },
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Runs seeds of the kind whose test has that name.
fn run(name: &str) {
    let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
    let seeds = match number("THERMOCLINE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("THERMOCLINE_SEEDS").unwrap_or(SEEDS).div_ceil(kind.part),
    };
    for seed in seeds {
        run_one(kind, (kind.plan)(seed), seed);
    }
}

#[test]
fn what_was_durable_survives_every_crash() {
    run("what_was_durable_survives_every_crash");
}

#[test]
fn a_backing_store_that_fails_now_and_then_loses_nothing() {
    run("a_backing_store_that_fails_now_and_then_loses_nothing");
}

#[test]
fn wrong_bytes_of_flash_are_never_served() {
    run("wrong_bytes_of_flash_are_never_served");
}

#[test]
fn without_its_flash_the_engine_goes_on() {
    run("without_its_flash_the_engine_goes_on");
}

#[test]
fn a_flash_that_is_replaced_takes_nothing_with_it() {
    run("a_flash_that_is_replaced_takes_nothing_with_it");
}

#[test]
fn commands_about_ranges_lose_nothing() {
    run("commands_about_ranges_lose_nothing");
}

#[test]
fn a_backing_store_that_grows_loses_nothing() {
    run("a_backing_store_that_grows_loses_nothing");
}

#[test]
fn a_flash_that_grows_loses_nothing() {
    run("a_flash_that_grows_loses_nothing");
    let is_one_seed = number("THERMOCLINE_SEED").is_some();
    let shrunk = growth::OF_ONE.shrunk.load(Ordering::Relaxed);
    assert!(is_one_seed || shrunk > 100, "{shrunk}");
}

#[test]
fn a_failed_sync_of_the_backing_store_loses_nothing_durable() {
    run("a_failed_sync_of_the_backing_store_loses_nothing_durable");
}

#[test]
fn kills_and_stops_lose_nothing_durable() {
    run("kills_and_stops_lose_nothing_durable");
}

#[test]
fn one_damaged_block_of_metadata_loses_nothing() {
    run("one_damaged_block_of_metadata_loses_nothing");
}

#[test]
fn devices_that_hang_hold_up_no_request_for_long() {
    run("devices_that_hang_hold_up_no_request_for_long");
}

#[test]
fn a_recovery_that_crashes_anywhere_loses_nothing() {
    run("a_recovery_that_crashes_anywhere_loses_nothing");
}

#[test]
fn losing_one_of_two_flash_devices_loses_nothing() {
    run("losing_one_of_two_flash_devices_loses_nothing");
    let [begun, ended] = mirror::JOINS.each_ref().map(|joins| joins.load(Ordering::Relaxed));
    let is_one_seed = number("THERMOCLINE_SEED").is_some();
    assert!(is_one_seed || (ended > 100 && begun > ended + 100), "{begun}, {ended}");
}

#[test]
fn a_mirrored_flash_that_grows_loses_nothing() {
    run("a_mirrored_flash_that_grows_loses_nothing");
    let growth::Changes { grown, shrunk } = &growth::OF_TWO;
    let [grown, shrunk] = [grown, shrunk].map(|changes| changes.load(Ordering::Relaxed));
    let is_one_seed = number("THERMOCLINE_SEED").is_some();
    assert!(is_one_seed || (grown > 30 && shrunk > 10), "{grown}, {shrunk}");
}

#[test]
fn a_start_is_refused_or_serves_the_newest() {
    run("a_start_is_refused_or_serves_the_newest");
}

#[test]
#[ignore = "takes long: a million crashes"]
fn a_million_crashes_lose_nothing() {
    let crashes = number("THERMOCLINE_CRASHES").unwrap_or(CRASHES);
    million::run(&KINDS, SEEDS, crashes);
}
