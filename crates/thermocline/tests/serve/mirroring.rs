//! A flash of one device is replaced by two that mirror each other, under load and with kills.

use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;

use super::mirrored::{is_mirrored_again, is_mirrored_again_of, recover};
use super::model::Model;
use super::replacing::{check, models, under_load};
use super::volumes::{edit, fill, of_two, status_of};
use super::{Cache, fails, flush, text, thermocline};

/// Return a cache with one flash.
fn single(shards: i64) -> Cache {
    let mut cache = Cache::new(11);
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    cache.set("shards", shards);
    cache
}

/// Return the words of the command that replaces the flash by two devices.
fn mirror<'a>(config: &'a str, new: &'a str, second: &'a str) -> Vec<&'a str> {
    vec!["cache", "replace", config, "--flash", new, "--mirror", second]
}

#[test]
fn clients_notice_nothing_of_a_second_device_and_either_may_be_lost() {
    for (second, shards, engine, gone) in [
        ("second.img", 1, "auto", "new.img"),
        ("second.img", 3, "threads", "second.img"),
        ("flash.img", 1, "threads", "flash.img"),
        ("flash.img", 3, "auto", "new.img"),
    ] {
        let mut cache = single(shards);
        let mut models = models();
        let engine = cache.set("io.engine", engine).start();
        let [config, new, other] = ["cache.toml", "new.img", second].map(|name| cache.file(name));
        under_load(&engine, &mut models, 7, true, || {
            thread::sleep(Duration::from_millis(300));
            let said = text(&mirror(&config, &new, &other));
            assert!(said.contains("mirror each other"), "{said}");
            assert_eq!(engine.status()["flash_mirror"]["members"], 2);
            thread::sleep(Duration::from_millis(300));
        });
        let status = engine.status();
        assert_eq!(status["has_flash"], true, "{status}");
        assert_eq!(status["policy"], "lru-inclusive", "{status}");
        assert!(status["dirty_pages"].as_u64().unwrap() > 0, "it is used: {status}");
        check(&engine, &models);
        let words = ["cache", "replace", &config, "--flash", &cache.file("third.img")];
        fails(&words, &["the flash is mirrored", "--member"]);
        cache.set("flash.path", "new.img").set("flash.mirror", second);
        assert!(engine.reload(&cache), "{}", engine.log());
        flush(&mut engine.client());
        engine.kill();
        std::fs::rename(cache.path(gone), cache.path("gone.img")).unwrap();
        cache.refused(&[], &["is missing", "--degraded"]);
        let engine = cache.start_with(&["--degraded"]);
        recover(&engine, &mut models);
        check(&engine, &models);
        engine.stop();
        let engine = cache.start_with(&["--resilver"]);
        is_mirrored_again(&engine);
        check(&engine, &models);
        engine.stop();
        cache.start().stop();
    }
}

#[test]
fn a_kill_while_a_flash_becomes_two_loses_nothing() {
    let mut random = SplitMix64::new(12);
    // Starts with the old flash, and with the new ones.
    let mut taken = [0; 2];
    for round in 0..12 {
        let second = if round % 2 == 0 { "flash.img" } else { "second.img" };
        let mut cache = single([1, 3][round / 2 % 2]);
        let mut models = models();
        let engine = cache.start();
        let [config, new, other] = ["cache.toml", "new.img", second].map(|name| cache.file(name));
        let millis = random.bits() % [150, 400, 1500][round % 3];
        under_load(&engine, &mut models, random.bits(), false, || {
            thread::sleep(Duration::from_millis(200));
            thread::scope(|scope| {
                scope.spawn(|| {
                    // It may be done before the kill, or not.
                    drop(thermocline(&mirror(&config, &new, &other)));
                });
                thread::sleep(Duration::from_millis(millis));
                engine.signal("KILL");
            });
        });
        engine.kill();
        let old = cache.try_start();
        cache.set("flash.path", "new.img").set("flash.mirror", second);
        let engine = match old {
            Ok(engine) => {
                taken[0] += 1;
                engine
            }
            Err(log) => {
                assert!(!log.contains("panicked"), "round {round}, {millis} ms: {log}");
                taken[1] += 1;
                cache.try_start().unwrap_or_else(|log| {
                    assert!(log.contains("--degraded"), "round {round}, {millis} ms: {log}");
                    cache.start_with(&["--degraded"])
                })
            }
        };
        recover(&engine, &mut models);
        check(&engine, &models);
        engine.kill();
    }
    assert!(taken.iter().all(|&starts| starts > 0), "kills before and after: {taken:?}");
}

#[test]
fn a_kill_during_the_copy_to_the_old_flash_loses_nothing() {
    let mut cache = single(2);
    let mut models = models();
    let engine = cache.start();
    let [config, new, old] = ["cache.toml", "new.img", "flash.img"].map(|name| cache.file(name));
    under_load(&engine, &mut models, 5, false, || {
        thread::sleep(Duration::from_millis(200));
        thread::scope(|scope| {
            let words = [&mirror(&config, &new, &old)[..], &["--rate", "512KiB"]].concat();
            scope.spawn(move || drop(thermocline(&words)));
            engine.wait_for("the copy", || {
                (!engine.status()["flash_mirror"]["copying"].is_null()).then_some(())
            });
            assert_eq!(engine.status()["flash_mirror"]["members"], 1);
            thread::sleep(Duration::from_millis(500));
            engine.signal("KILL");
        });
    });
    engine.kill();
    cache.refused(&[], &["flash.img"]);
    cache.set("flash.path", "new.img").set("flash.mirror", "flash.img");
    cache.refused(&[], &["the second member of the mirrored flash is blank", "--resilver"]);
    let engine = cache.start_with(&["--degraded"]);
    recover(&engine, &mut models);
    let member = ["cache", "replace", &config, "--member", &old, "--flash", &old, "--force-init"];
    text(&member);
    check(&engine, &models);
    engine.kill();
    std::fs::remove_file(cache.path("new.img")).unwrap();
    let engine = cache.start_with(&["--degraded"]);
    recover(&engine, &mut models);
    engine.stop();
}

#[test]
fn the_flash_of_volumes_becomes_two() {
    for (second, shards) in [("flash.img", 1), ("second.img", 2), ("flash.img", 2)] {
        let mut cache = of_two();
        cache.set("shards", shards);
        let engine = cache.start();
        let [config, new, other] = ["cache.toml", "new.img", second].map(|name| cache.file(name));
        let models: [Model; 0] = [];
        fill(&mut engine.client_of("db"), 100, 4);
        text(&mirror(&config, &new, &other));
        is_mirrored_again_of(&engine, "web");
        fill(&mut engine.client_of("web"), 100, 5);
        for name in ["db", "web"] {
            flush(&mut engine.client_of(name));
            assert_eq!(status_of(&engine, name)["flash_mirror"]["members"], 2);
        }
        check(&engine, &models);
        // Shares still grow there.
        let pair = format!("new.img\"\nmirror = \"{second}\"");
        edit(&mut cache, "flash.img\"", &pair);
        edit(&mut cache, "size = \"4MiB\"", "size = \"5MiB\"");
        assert!(engine.reload(&cache), "{}", engine.log());
        engine.wait_for("the larger share", || {
            (status_of(&engine, "db")["capacity_pages"][1] == 1280).then_some(())
        });
        engine.kill();
        std::fs::remove_file(cache.path("new.img")).unwrap();
        let engine = cache.start_with(&["--degraded"]);
        for (name, byte) in [("db", 4), ("web", 5)] {
            let found = engine.client_of(name).read(0, 4096).unwrap();
            assert!(found == [byte; 4096], "{name}");
        }
        engine.stop();
    }
}

#[test]
fn two_devices_that_cannot_be_a_flash_are_refused_and_nothing_changes() {
    let cache = single(1);
    let engine = cache.start();
    let file = |name: &str| cache.file(name);
    let [config, old, new, second] = ["cache.toml", "flash.img", "new.img", "second.img"].map(file);
    std::fs::write(cache.path("other.img"), vec![7; 3 << 20]).unwrap();
    let other = file("other.img");
    fails(&mirror(&config, &new, &new), &["name the same device"]);
    fails(&mirror(&config, &old, &second), &["flash.path", "in use"]);
    fails(&mirror(&config, &new, &file("disk.img")), &["backing.path", "in use"]);
    fails(&mirror(&config, &new, &other), &["other.img", "--force-init"]);
    fails(&mirror(&config, &other, &second), &["other.img", "--force-init"]);
    let words = [&mirror(&config, &new, &second)[..], &["--member", &old]].concat();
    fails(&words, &["leave --mirror out"]);
    assert_eq!(cache.bytes("other.img"), vec![7; 3 << 20], "nothing was written there");
    assert!(!cache.path("new.img").exists(), "nothing was made");
    std::fs::remove_file(&second).unwrap_or_default();
    std::os::unix::fs::symlink("/dev/null", &second).unwrap();
    fails(&mirror(&config, &new, &second), &["second.img"]);
    std::fs::remove_file(&second).unwrap();
    assert_eq!(engine.status()["has_flash"], true);
    text(&[&mirror(&config, &new, &other)[..], &["--force-init"]].concat());
    engine.stop();
}
