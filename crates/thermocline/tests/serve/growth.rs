//! Backing stores that grow while clients are served.

use std::fs::File;
use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;

use super::crashes::{PAGES, killed_under_load, range, step};
use super::model::Model;
use super::replacing::{check, models, under_load};
use super::{Cache, Engine, text};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
const GROWN: &str = "the backing store has grown: clients see it when they connect again";

/// Give the backing store a length.
fn resize(cache: &Cache, bytes: u64) {
    File::options().write(true).open(cache.path("disk.img")).unwrap().set_len(bytes).unwrap();
}

/// Let the backing store grow, and wait until all of it is served.
fn grow(engine: &Engine, cache: &Cache, mib: u64) {
    let before = engine.log().matches(GROWN).count();
    // A part of a page at the end is left out.
    resize(cache, mib * MIB + PAGE - 512);
    assert!(engine.reload(cache), "{}", engine.log());
    engine.wait_for("the growth", || (engine.log().matches(GROWN).count() > before).then_some(()));
    assert_eq!(engine.status()["size_bytes"], mib * MIB);
}

#[test]
fn clients_are_served_while_their_disk_grows() {
    for (policy, shards) in [("hat", 1), ("face-gsc", 2), ("auto", 1)] {
        let mut cache = Cache::new(11);
        cache.set("policy.name", policy).set("shards", shards).set("cleaning.dirty_ratio", 1.0);
        if shards == 1 {
            cache.set("shadow", vec!["lru", "tac"]).set("shadow_sample", 1.0);
        }
        let mut models = models();
        let engine = cache.start();
        under_load(&engine, &mut models, 4, true, || {
            thread::sleep(Duration::from_millis(200));
            grow(&engine, &cache, 12);
            let mut known = engine.client();
            grow(&engine, &cache, 16);
            assert!(known.read(12 * MIB, 4096).is_err(), "this client knows another end");
            let (mut client, mut random) = (engine.client(), SplitMix64::new(9));
            assert!(client.read(16 * MIB, 512).is_err(), "there is nothing");
            let mut model = Model::new(4096 - PAGES, PAGES);
            (0..400).for_each(|_| step(&mut client, &mut model, &mut random).unwrap());
            check(&engine, &[model]);
        });
        check(&engine, &models);
        engine.stop();
        let engine = cache.start();
        check(&engine, &models);
        engine.stop();
    }
}

#[test]
fn a_kill_while_a_disk_grows_loses_nothing() {
    let mut cache = Cache::new(11);
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    let mut random = SplitMix64::new(21);
    let mut models = models();
    for (round, shards) in [1, 1, 1, 2, 2, 2].into_iter().enumerate() {
        cache.set("shards", shards);
        let engine = cache.start_with(if round == 3 { &["--force-init"] } else { &[] });
        // The newest part is used, too.
        models.push(Model::new((11 + round) * 256, 200));
        let mib = 12 + round as u64;
        if round % 3 == 0 {
            grow(&engine, &cache, mib);
        } else {
            resize(&cache, mib * MIB);
            engine.signal("HUP");
            let limit_ms = [0, 3, 100][round % 3];
            thread::sleep(Duration::from_millis(random.bits() % limit_ms));
        }
        let new = models.len() - 1;
        // It is there at once, or not before the next start.
        let is_grown = engine.client().read((mib - 1) * MIB, 512).is_ok();
        let count = if is_grown { models.len() } else { new };
        killed_under_load(engine, &mut models[..count], &mut random);
        let engine = cache.start();
        for model in &mut models {
            let found = range(&mut engine.client(), model);
            model.recover(&found);
        }
        check(&engine, &models);
        if round == 2 {
            engine.stop();
            let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
            text(&["cache", "drain", &flash, "--backing", &disk]);
        } else {
            engine.kill();
        }
    }
}

#[test]
fn a_disk_that_shrinks_or_grows_by_less_than_a_page_keeps_its_size() {
    let cache = Cache::new(11);
    let engine = cache.start();
    let warning = "the backing store has become smaller, 8388608 bytes, and clients use 11534336";
    for (bytes, warnings) in [(11 * MIB + 4095, 0), (8 * MIB, 1), (11 * MIB, 1)] {
        resize(&cache, bytes);
        assert!(engine.reload(&cache));
        thread::sleep(Duration::from_millis(50));
        assert_eq!(engine.status()["size_bytes"], 11 * MIB, "{bytes}");
        assert_eq!(engine.log().matches(warning).count(), warnings, "{bytes}: {}", engine.log());
    }
    assert!(!engine.log().contains(GROWN), "{}", engine.log());
    engine.stop();
}
