//! Flashes, and shares of one, that get another size while clients are served.

use std::fs::File;
use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;

use super::block_devices::Loop;
use super::crashes::{killed_under_load, range};
use super::replacing::{check, models, under_load};
use super::volumes::{check as check_pages, edit, fill, of_two, status_of};
use super::{Cache, Engine, flush, json};

const MIB: u64 = 1 << 20;
const CHANGED: &str = "the flash has another size";

/// Return the number of pages of flash that the policies of all shards have.
pub(super) fn capacity(engine: &Engine) -> u64 {
    engine.status()["capacity_pages"][1].as_u64().unwrap()
}

/// Give the flash another size, and wait until the policy has it.
#[track_caller]
pub(super) fn resize(engine: &Engine, cache: &mut Cache, shards: u64, mib: u64) {
    cache.set("flash.size", format!("{mib}MiB"));
    let before = engine.log().matches(CHANGED).count();
    assert!(engine.reload(cache), "{}", engine.log());
    engine.wait_for("another size", || {
        (engine.log().matches(CHANGED).count() > before).then_some(())
    });
    engine.wait_for("all shards to have it", || {
        (capacity(engine) == mib * 256 / shards * shards).then_some(())
    });
}

#[test]
fn clients_are_served_while_the_flash_grows_and_shrinks() {
    for (policy, shards) in [("hat", 1_u32), ("face-gsc", 2), ("auto", 1), ("lru-inclusive", 3)] {
        let mut cache = Cache::new(11);
        cache.set("policy.name", policy).set("shards", shards).set("cleaning.dirty_ratio", 1.0);
        cache.set("flash.size", "1MiB");
        if shards == 1 {
            cache.set("shadow", vec!["lru", "tac"]).set("shadow_sample", 1.0);
        }
        let mut models = models();
        let engine = cache.start();
        under_load(&engine, &mut models, 4, true, || {
            for mib in [4, 6, 2, 9] {
                thread::sleep(Duration::from_millis(150));
                resize(&engine, &mut cache, shards.into(), mib);
            }
        });
        check(&engine, &models);
        engine.stop();
        // The next start finds what is in all parts of the flash.
        let inspected = json(&["cache", "inspect", &cache.file("flash.img"), "--json"]);
        assert!(inspected["slots"].as_u64().unwrap() > 9 * 256, "{inspected}");
        let engine = cache.start();
        assert_eq!(capacity(&engine), 9 * 256);
        check(&engine, &models);
        engine.stop();
        let found = json(&["cache", "check", &cache.file("flash.img"), "--json"]);
        assert_eq!(found["lost_pages"].as_array().map(Vec::len), Some(0), "{found}");
    }
}

#[test]
fn a_larger_flash_keeps_its_pages_at_a_start() {
    let mut cache = Cache::new(11);
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    for shards in [1, 2] {
        cache.set("shards", shards).set("flash.size", "4MiB");
        let engine = cache.start_with(&["--force-init"]);
        fill(&mut engine.client(), 800, 7);
        flush(&mut engine.client());
        engine.stop();
        let held = |cache: &Cache| {
            let found = json(&["cache", "inspect", &cache.file("flash.img"), "--json"]);
            found["held_pages"].as_u64().unwrap()
        };
        let before = held(&cache);
        assert!(before >= 800, "{before}");
        let engine = cache.set("flash.size", "8MiB").start();
        assert!(engine.log().contains("the flash has grown"), "{}", engine.log());
        assert_eq!(capacity(&engine), 2048);
        check_pages(&mut engine.client(), 800, 7);
        engine.stop();
        assert!(held(&cache) >= before, "{} {before}", held(&cache));
        let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
        super::text(&["cache", "drain", &flash, "--backing", &disk]);
        let found = &cache.bytes("disk.img")[..800 * 4096];
        assert!(found.iter().all(|&byte| byte == 7));
    }
}

#[test]
fn a_kill_while_the_flash_grows_loses_nothing() {
    let mut cache = Cache::new(11);
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    let mut random = SplitMix64::new(22);
    let mut models = models();
    for (round, shards) in [1_u32, 1, 1, 2, 2, 2].into_iter().enumerate() {
        cache.set("shards", shards);
        let mib = 4 + round as u64;
        cache.set("flash.size", format!("{mib}MiB"));
        if round == 3 {
            let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
            super::text(&["cache", "drain", &flash, "--backing", &disk]);
        }
        let engine = cache.start_with(if round == 3 { &["--force-init"] } else { &[] });
        if round % 3 == 0 {
            resize(&engine, &mut cache, shards.into(), mib + 1);
        } else {
            cache.set("flash.size", format!("{}MiB", mib + 1));
            cache.write_config();
            engine.signal("HUP");
            let limit_ms = [0, 3, 100][round % 3];
            thread::sleep(Duration::from_millis(random.bits() % limit_ms));
        }
        killed_under_load(engine, &mut models, &mut random);
        let engine = cache.start();
        for model in &mut models {
            let found = range(&mut engine.client(), model);
            model.recover(&found);
        }
        check(&engine, &models);
        if round == 2 { engine.stop() } else { engine.kill() }
    }
}

#[test]
fn a_flash_that_replaced_another_one_grows() {
    for shards in [1_u32, 2] {
        let mut cache = Cache::new(11);
        cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
        cache.set("shards", shards);
        let mut models = models();
        let engine = cache.start();
        let (config, new) = (cache.file("cache.toml"), cache.file("new.img"));
        under_load(&engine, &mut models, 5, true, || {
            resize(&engine, &mut cache, shards.into(), 6);
            super::text(&["cache", "replace", &config, "--flash", &new]);
            assert_eq!(capacity(&engine), 6 * 256);
            cache.set("flash.path", new);
            resize(&engine, &mut cache, shards.into(), 9);
        });
        check(&engine, &models);
        engine.stop();
        let engine = cache.start();
        assert_eq!(capacity(&engine), 9 * 256);
        check(&engine, &models);
        engine.stop();
    }
}

#[test]
fn shares_of_volumes_grow_into_what_is_free() {
    let mut cache = of_two();
    for shards in [1, 2] {
        let engine = cache.set("shards", shards).start_with(&["--force-init"]);
        let (mut db, mut web) = (engine.client_of("db"), engine.client_of("web"));
        fill(&mut db, 900, 1);
        fill(&mut web, 400, 2);
        flush(&mut web);
        let of = |volume: &str| status_of(&engine, volume)["capacity_pages"][1].as_u64().unwrap();
        // The region of `db` ends where that of `web` begins.
        edit(&mut cache, "size = \"4MiB\"", "size = \"6MiB\"");
        assert!(engine.reload(&cache));
        engine.wait_for("the larger share", || (of("db") == 1536).then_some(()));
        fill(&mut db, 1500, 3);
        check_pages(&mut db, 1500, 3);
        check_pages(&mut web, 400, 2);
        engine.kill();
        let engine = cache.start();
        check_pages(&mut engine.client_of("web"), 400, 2);
        engine.stop();
        // More than all shares may have is refused before anything changes.
        edit(&mut cache, "size = \"6MiB\"", "size = \"7MiB\"");
        cache.refused(&[], &["flash.size", "shares"]);
        edit(&mut cache, "size = \"7MiB\"", "size = \"4MiB\"");
    }
}

/// Return the length of the flash, in MiB.
fn flash_mib(cache: &Cache) -> u64 {
    std::fs::metadata(cache.path("flash.img")).unwrap().len() / MIB
}

/// Give the two volumes other shares in one go, and wait until they have them and the room that is given back is free.
#[track_caller]
pub(super) fn share(engine: &Engine, cache: &mut Cache, volumes: [&str; 2], mib: [u64; 2]) {
    let mut config: toml::Table = cache.config_text().parse().unwrap();
    for (volume, mib) in config["volume"].as_array_mut().unwrap().iter_mut().zip(mib) {
        volume["flash"]["size"] = toml::Value::String(format!("{mib}MiB"));
    }
    cache.replace(&config.to_string());
    assert!(engine.reload(cache), "{}", engine.log());
    for (volume, mib) in volumes.into_iter().zip(mib) {
        let of = || status_of(engine, volume)["capacity_pages"][1].as_u64().unwrap();
        engine.wait_for("the other share", || (of() / 256 == mib).then_some(()));
    }
}

#[test]
fn room_moves_between_volumes_many_times_and_the_flash_grows_no_more() {
    let mut cache = of_two();
    for shards in [1_usize, 2] {
        cache.set("shards", i64::try_from(shards).unwrap());
        let engine = cache.start_with(&["--force-init"]);
        fill(&mut engine.client_of("db"), 900, 1);
        fill(&mut engine.client_of("web"), 400, 2);
        let mut lengths = vec![];
        // Each move waits for figures, which come four times a second.
        let rounds = [20_u64, 8][shards - 1];
        for round in 0..rounds {
            let [more, less] = [6 - round % 3 / 2, 2 + round % 3 / 2];
            let mib = if round % 2 == 0 { [less, more] } else { [more, less] };
            share(&engine, &mut cache, ["db", "web"], mib);
            let byte = 10 + u8::try_from(round).unwrap();
            let larger = ["web", "db"][usize::from(mib[0] > mib[1])];
            // Whatever the policies keep, both find what was written last.
            fill(&mut engine.client_of(larger), 1200, byte);
            let [db, web] = if larger == "db" { [byte, byte - 1] } else { [byte - 1, byte] };
            if round > 0 {
                check_pages(&mut engine.client_of("db"), 1200, db);
                check_pages(&mut engine.client_of("web"), 1200, web);
            }
            lengths.push(flash_mib(&cache));
        }
        assert!(lengths[4..].iter().all(|length| *length == lengths[4]), "{lengths:?}");
        assert!(engine.log().contains("room of the flash is free"), "{}", engine.log());
        for client in ["db", "web"] {
            flush(&mut engine.client_of(client));
        }
        engine.kill();
        let engine = cache.start();
        let last = 9 + u8::try_from(rounds).unwrap();
        check_pages(&mut engine.client_of("db"), 1200, last);
        check_pages(&mut engine.client_of("web"), 1200, last - 1);
        engine.stop();
        for volume in ["db", "web"] {
            let flash = cache.file("flash.img");
            let found = json(&["cache", "check", &flash, "--volume", volume, "--json"]);
            assert_eq!(found["lost_pages"].as_array().map(Vec::len), Some(0), "{found}");
        }
        let mut config: toml::Table = cache.config_text().parse().unwrap();
        for volume in config["volume"].as_array_mut().unwrap() {
            volume["flash"]["size"] = toml::Value::String("4MiB".into());
        }
        cache.replace(&config.to_string());
    }
}

#[test]
fn a_start_exchanges_shares_on_a_full_block_device() {
    for (shards, is_killed) in [(1, false), (2, true)] {
        let mut cache = of_two();
        cache.set("shards", shards).set("flash.size", "6MiB");
        File::create(cache.path("device.img")).unwrap().set_len(13 << 20).unwrap();
        let Some(device) = Loop::over(&cache.path("device.img")) else { return };
        cache.set("flash.path", device.0.as_str());
        let engine = cache.start();
        fill(&mut engine.client_of("db"), 1000, 1);
        let mut web = engine.client_of("web");
        fill(&mut web, 500, 2);
        flush(&mut web);
        flush(&mut engine.client_of("db"));
        drop(web);
        if is_killed {
            engine.kill();
        } else {
            engine.stop();
        }
        edit(&mut cache, "size = \"2MiB\"", "size = \"aMiB\"");
        edit(&mut cache, "size = \"4MiB\"", "size = \"2MiB\"");
        edit(&mut cache, "size = \"aMiB\"", "size = \"4MiB\"");
        let engine = cache.start();
        check_pages(&mut engine.client_of("db"), 1000, 1);
        check_pages(&mut engine.client_of("web"), 500, 2);
        let of = |volume: &str| status_of(&engine, volume)["capacity_pages"][1].as_u64().unwrap();
        engine
            .wait_for("the other shares", || ((of("db"), of("web")) == (512, 1024)).then_some(()));
        fill(&mut engine.client_of("web"), 1200, 3);
        check_pages(&mut engine.client_of("db"), 1000, 1);
        check_pages(&mut engine.client_of("web"), 1200, 3);
        engine.kill();
        let engine = cache.start();
        assert_eq!(status_of(&engine, "web")["capacity_pages"][1], 1024);
        check_pages(&mut engine.client_of("db"), 1000, 1);
        engine.stop();
    }
}
