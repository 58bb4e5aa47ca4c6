//! Volumes on one flash whose power is cut, and whose syncs fail: each volume has what was promised to its
//! clients, whatever the others did. Two are there all the time, grow and give room back, and a third one comes and
//! goes while they work. Each has one to four shards, which share one note, and none of which waits for another one
//! unless the server does.
//!
//! Operations are done when they are asked for, but for syncs of the flash, which all shards share as
//! `JointDriver` performs them. Writes that were not synced when the power is cut are there, torn or gone.
//!
//! A failing seed is printed. `THERMOCLINE_SEED=7` runs that seed only, `THERMOCLINE_SEEDS=10000` that many seeds of
//! each kind.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]
#![expect(unsafe_code, reason = "the devices fill frames that the shard owns")]

mod changes;
mod devices;
mod exchange;
mod guest;
mod note;
mod plan;
mod starts;
mod volume;
mod world;

use std::ops::Range;

use thermocline_engine::{RequestKind, Shard};

use self::world::World;

const PAGE: usize = 4096;
const PAGES: u64 = 40;
const MIB: u64 = 1 << 20;
const NAMES: [&str; 3] = ["a", "b", "guest"];
/// The number of the volume that comes and goes.
const GUEST: usize = 2;

/// Return the seeds to run: those that the environment says, or that number.
fn seeds(usual: u64) -> Range<u64> {
    let number = |name: &str| {
        let value = std::env::var(name).ok()?;
        Some(value.parse::<u64>().expect("it is a number"))
    };
    match number("THERMOCLINE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("THERMOCLINE_SEEDS").unwrap_or(usual),
    }
}

#[test]
fn what_was_flushed_survives_every_power_cut_while_volumes_come_and_go() {
    let (mut shrunk, seeds) = (0, seeds(80));
    for seed in seeds.clone() {
        let mut world = World::new(seed);
        for _ in 0..5 {
            let steps = 1 + world.below(400);
            world.live(steps);
            world.crash();
        }
        shrunk += world.shrunk;
    }
    assert!(shrunk >= (seeds.end - seeds.start) / 2, "{shrunk}");
}

#[test]
fn what_was_flushed_survives_every_power_cut_while_the_flash_is_replaced() {
    let (mut replaced, seeds) = (0, seeds(80));
    for seed in seeds.clone() {
        let mut world = World::new(seed);
        world.replaces = true;
        for _ in 0..5 {
            let steps = 1 + world.below(600);
            world.live(steps);
            world.crash();
        }
        replaced += world.replaced;
    }
    assert!(replaced >= (seeds.end - seeds.start) / 2, "{replaced}");
}

#[test]
fn a_failed_sync_that_one_volume_asked_for_is_told_to_the_other() {
    let (mut told, seeds) = (0, seeds(25));
    for seed in seeds.clone() {
        let mut world = World::new(seed);
        world.tells_failures = false;
        for _ in 0..60 {
            let number = world.below(2) as usize;
            world.submit_any(number, RequestKind::Write);
            world.turn(false);
        }
        // One volume flushes, and the sync fails; then the other does, before anybody tells it.
        let mut has_failed = false;
        for (number, fails) in [(0, true), (1, false)] {
            let needs_sync = !world.volumes[number].all(|shard| shard.undurable_pages() == 0);
            let mut is_taken = false;
            for _ in 0..12 {
                is_taken = is_taken || world.submit(number, RequestKind::Flush, 0..0);
                world.turn(fails);
            }
            // The first shard that hears of it gives the flash up at once, the others of its volume a little later.
            let is_told = !world.volumes[number].all(Shard::has_flash);
            let must_hear = needs_sync && (fails || has_failed);
            assert!(is_told || !must_hear, "seed {seed}: volume {number}");
            has_failed |= is_told;
            told += u64::from(is_told);
        }
    }
    // A volume may have nothing that is not durable.
    assert!(told >= 3 * (seeds.end - seeds.start) / 2, "{told}");
}

#[test]
fn a_sync_of_the_flash_that_fails_promises_nothing_to_any_volume() {
    for seed in seeds(50) {
        let mut world = World::new(seed);
        for step in 0..400 {
            let number = world.below(2) as usize;
            let kind = [RequestKind::Write, RequestKind::Flush][usize::from(world.below(5) == 0)];
            world.submit_any(number, kind);
            let fails = step > 100 && world.below(6) == 0;
            world.turn(fails);
        }
        assert!(world.volumes.iter().all(|it| it.all(|shard| !shard.has_flash())));
        // Pages that only the flash has go to the backing stores, which then have everything that was flushed.
        for number in 0..2 {
            world.submit_soon(number, RequestKind::Flush, 0..0);
            world.wait(number).unwrap();
            assert!(world.volumes[number].all(|shard| shard.lost_pages().is_empty()));
            world.check_backing(number);
        }
    }
}
