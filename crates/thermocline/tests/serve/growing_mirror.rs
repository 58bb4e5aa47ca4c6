//! Mirrored flashes that get another size while clients are served, and devices that are lost before, during and
//! after that.

use std::fs::File;
use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;

use super::block_devices::Loop;
use super::crashes::killed_under_load;
use super::faults::Full;
use super::growing_flash::{capacity, resize, share};
use super::mirrored::{is_mirrored_again, mirrored, of_two_volumes, recover, replace};
use super::model::Model;
use super::replacing::{check, models, under_load};
use super::volumes::{check as check_pages, fill};
use super::{Cache, Engine, flush, json, text};

const MIB: u64 = 1 << 20;

/// Names of the two devices.
const DEVICES: [&str; 2] = ["flash.img", "second.img"];

/// Kill the engine under load, and check that each device alone has everything.
fn each_device_alone_has_all(cache: &Cache, engine: Engine, models: &mut [Model], mib: u64) {
    killed_under_load(engine, models, &mut SplitMix64::new(mib));
    let disk = cache.bytes("disk.img");
    for lost in DEVICES {
        let copies = DEVICES.map(|name| (name, std::fs::read(cache.path(name)).unwrap()));
        let notes = ["disk.img.thermocline"].map(|name| (name, cache.bytes(name)));
        std::fs::remove_file(cache.path(lost)).unwrap();
        let mut models = models.to_vec();
        let engine = cache.start_with(&["--degraded"]);
        recover(&engine, &mut models);
        assert_eq!(capacity(&engine), mib * 256);
        check(&engine, &models);
        engine.kill();
        // The next one is lost after the same kill.
        for (name, bytes) in copies.iter().chain(&notes) {
            std::fs::write(cache.path(name), bytes).unwrap();
        }
        std::fs::write(cache.path("disk.img"), &disk).unwrap();
    }
}

#[test]
fn either_device_has_all_after_growth_under_load() {
    for (policy, shards) in [("lru-inclusive", 1_u32), ("hat", 3)] {
        let mut cache = mirrored();
        cache.set("policy.name", policy).set("shards", shards).set("flash.size", "3MiB");
        let mut models = models();
        let engine = cache.start();
        under_load(&engine, &mut models, 5, true, || {
            for mib in [6, 3, 9] {
                thread::sleep(Duration::from_millis(200));
                resize(&engine, &mut cache, shards.into(), mib);
            }
            thread::sleep(Duration::from_millis(300));
        });
        check(&engine, &models);
        assert_eq!(engine.status()["flash_mirror"]["members"], 2, "{}", engine.log());
        each_device_alone_has_all(&cache, engine, &mut models, 9);
        let engine = cache.start();
        recover(&engine, &mut models);
        check(&engine, &models);
        engine.stop();
        let pair = ["--mirror", &cache.file("second.img")];
        let words = ["cache", "check", &cache.file("flash.img"), "--json"];
        let found = json(&[&words[..], &pair].concat());
        assert_eq!(found["lost_pages"].as_array().map(Vec::len), Some(0), "{found}");
        // A start makes both larger, too.
        let engine = cache.set("flash.size", "12MiB").start();
        assert!(engine.log().contains("the flash has grown"), "{}", engine.log());
        assert_eq!(capacity(&engine), 12 * 256);
        check(&engine, &models);
        engine.stop();
    }
}

#[test]
fn a_kill_while_a_mirrored_flash_grows_loses_nothing() {
    let mut cache = mirrored();
    cache.set("shards", 2);
    let mut random = SplitMix64::new(23);
    let mut models = models();
    for round in 0..6 {
        let (mib, lost) = (4 + round as u64, DEVICES[round % 2]);
        cache.set("flash.size", format!("{mib}MiB"));
        let engine = cache.start();
        recover(&engine, &mut models);
        cache.set("flash.size", format!("{}MiB", mib + 1));
        under_load(&engine, &mut models, random.bits(), false, || {
            cache.write_config();
            engine.signal("HUP");
            let limit_ms = [1, 20, 200][round % 3];
            thread::sleep(Duration::from_millis(random.bits() % limit_ms));
            engine.signal("KILL");
        });
        engine.kill();
        // One device is lost with the power.
        std::fs::remove_file(cache.path(lost)).unwrap();
        let engine = cache.start_with(&["--degraded"]);
        assert_eq!(capacity(&engine), (mib + 1) * 256);
        recover(&engine, &mut models);
        engine.kill();
        let engine = cache.start_with(&["--resilver"]);
        under_load(&engine, &mut models, random.bits(), true, || is_mirrored_again(&engine));
        check(&engine, &models);
        if round % 2 == 0 { engine.stop() } else { engine.kill() }
    }
}

#[test]
fn a_device_that_fails_while_the_flash_grows_leaves_the_other_one() {
    let full_cache = Cache::new(1);
    let Some(_full) = Full::mount(&full_cache, 6 << 20) else { return };
    let second = full_cache.file("full/second.img");
    // A file that there is already has no space set aside.
    File::create(&second).unwrap().set_len(64 << 20).unwrap();
    let mut cache = mirrored();
    cache.set("flash.mirror", second.as_str()).set("flash.size", "3MiB");
    let mut models = models();
    let engine = cache.start();
    under_load(&engine, &mut models, 6, true, || {
        resize(&engine, &mut cache, 1, 10);
        engine.wait_for("the failure of the second device", || {
            engine.log().contains("the other one goes on alone").then_some(())
        });
        thread::sleep(Duration::from_millis(300));
        // The one that is left grows alone.
        resize(&engine, &mut cache, 1, 12);
    });
    check(&engine, &models);
    engine.kill();
    cache.set("flash.mirror", "new.img");
    // A device that joins is as large as the other one has become.
    let engine = cache.start_with(&["--resilver"]);
    recover(&engine, &mut models);
    is_mirrored_again(&engine);
    engine.kill();
    std::fs::remove_file(cache.path("flash.img")).unwrap();
    let engine = cache.start_with(&["--degraded"]);
    check(&engine, &models);
    assert_eq!(capacity(&engine), 12 * 256);
    engine.stop();
}

/// Give the flash a size for which a device has no room, and check that the log names the device and that the
/// flash stays as it is.
#[track_caller]
fn refuses(engine: &Engine, cache: &mut Cache, mib: u64, said: &[&str]) {
    let former = capacity(engine);
    cache.set("flash.size", format!("{mib}MiB"));
    assert!(engine.reload(cache), "{}", engine.log());
    let log = engine.wait_for("the refusal", || {
        let log = engine.log();
        log.contains("the flash does not grow").then_some(log)
    });
    assert!(said.iter().all(|words| log.contains(words)), "{log}");
    assert_eq!(capacity(engine), former);
    let status = engine.status();
    assert_eq!(status["flash_mirror"]["members"], 2, "{status}");
    assert_eq!(status["flash_mirror"]["errors"], serde_json::json!([0, 0]), "{status}");
}

#[test]
fn a_device_without_room_is_named_and_nothing_changes() {
    let full_cache = Cache::new(1);
    let Some(full) = Full::mount(&full_cache, 12 << 20) else { return };
    let second = full_cache.file("full/second.img");
    let mut cache = mirrored();
    cache.set("flash.mirror", second.as_str()).set("flash.size", "4MiB");
    let mut models = models();
    let engine = cache.start();
    under_load(&engine, &mut models, 8, true, || {
        refuses(&engine, &mut cache, 24, &["full/second.img`: no room for the flash"]);
        full.grow(64 << 20);
        resize(&engine, &mut cache, 1, 24);
    });
    check(&engine, &models);
    engine.stop();
}

#[test]
fn a_block_device_that_is_too_small_is_named_and_nothing_changes() {
    let mut cache = mirrored();
    File::create(cache.path("second.img")).unwrap().set_len(12 * MIB).unwrap();
    let Some(device) = Loop::over(&cache.path("second.img")) else { return };
    cache.set("flash.mirror", device.0.as_str()).set("flash.size", "4MiB");
    let mut models = models();
    let engine = cache.start();
    let first = cache.path("flash.img");
    let length = || std::fs::metadata(&first).unwrap().len();
    let before = length();
    under_load(&engine, &mut models, 9, true, || {
        let said = format!("`{}`: it has ", device.0);
        refuses(&engine, &mut cache, 24, &[&said, "make it larger"]);
    });
    assert_eq!(length(), before);
    check(&engine, &models);
    engine.kill();
    cache.refused(&[], &[&format!("`{}`: it has ", device.0), "make it larger"]);
    assert_eq!(length(), before);
    let engine = cache.set("flash.size", "4MiB").start();
    recover(&engine, &mut models);
    engine.stop();
}

#[test]
fn a_flash_grows_after_the_copy_for_a_new_device() {
    let mut cache = mirrored();
    cache.set("flash.size", "4MiB");
    let mut models = models();
    let engine = cache.start();
    let (config, old) = (cache.file("cache.toml"), cache.file("second.img"));
    let new = cache.file("new.img");
    under_load(&engine, &mut models, 10, true, || {
        thread::scope(|scope| {
            let copy = scope
                .spawn(|| text(&[&replace(&config, &old, &new)[..], &["--rate", "2MiB"]].concat()));
            engine.wait_for("the copy to begin", || {
                let copying = &engine.status()["flash_mirror"]["copying"];
                (copying["copied_bytes"].as_u64() > Some(0)).then_some(())
            });
            cache.set("flash.size", "8MiB");
            assert!(engine.reload(&cache), "{}", engine.log());
            engine.wait_for("the change to wait", || {
                engine.log().contains("after the copy for its new device").then_some(())
            });
            assert_eq!(capacity(&engine), 1024);
            copy.join().unwrap();
        });
        engine.wait_for("the larger flash", || (capacity(&engine) == 2048).then_some(()));
        thread::sleep(Duration::from_millis(300));
    });
    cache.set("flash.mirror", "new.img");
    killed_under_load(engine, &mut models, &mut SplitMix64::new(4));
    std::fs::remove_file(cache.path("flash.img")).unwrap();
    let engine = cache.start_with(&["--degraded"]);
    recover(&engine, &mut models);
    assert_eq!(capacity(&engine), 2048);
    engine.stop();
}

#[test]
fn room_moves_between_volumes_of_a_mirrored_flash() {
    let mut cache = of_two_volumes();
    File::create(cache.path("other.img")).unwrap().set_len(11 << 20).unwrap();
    let names = ["one", "two"];
    let engine = cache.start();
    let write = |engine: &Engine, byte: u8| {
        for name in names {
            fill(&mut engine.client_of(name), 1200, byte);
            flush(&mut engine.client_of(name));
        }
    };
    let is_there = |engine: &Engine, byte: u8| {
        for name in names {
            check_pages(&mut engine.client_of(name), 1200, byte);
        }
    };
    let paths = DEVICES.map(|name| cache.path(name));
    write(&engine, 1);
    let mut lengths = vec![];
    for (byte, mib) in (2..).zip([[6, 2], [2, 6], [6, 2], [2, 6], [6, 2]]) {
        share(&engine, &mut cache, names, mib);
        write(&engine, byte);
        lengths.push(paths.each_ref().map(|path| std::fs::metadata(path).unwrap().len()));
    }
    assert!(engine.log().contains("room of the flash is free"), "{}", engine.log());
    assert_eq!(lengths[2], lengths[4], "what one gives back is enough for the other");
    engine.kill();
    std::fs::rename(cache.path("flash.img"), cache.path("old.img")).unwrap();
    let engine = cache.start_with(&["--degraded"]);
    is_there(&engine, 6);
    write(&engine, 7);
    engine.kill();
    let engine = cache.start_with(&["--resilver"]);
    engine.wait_for("the end of the copy", || {
        engine.get("/status?volume=one").contains("\"members\":2").then_some(())
    });
    engine.kill();
    std::fs::remove_file(cache.path("second.img")).unwrap();
    let engine = cache.start_with(&["--degraded"]);
    is_there(&engine, 7);
    engine.stop();
}
