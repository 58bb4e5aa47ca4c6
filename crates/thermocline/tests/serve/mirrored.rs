//! A flash of two devices: one fails under load, is gone at a start, comes back outdated, or is replaced.

use std::fs::File;
use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;

use super::crashes::{killed_under_load, range};
use super::faults::Full;
use super::model::Model;
use super::replacing::{check, models, under_load};
use super::{Cache, Engine, fails, flush, json, text, thermocline};

/// Return a cache with files for both devices.
pub(super) fn mirrored() -> Cache {
    let mut cache = Cache::new(11);
    cache
        .set("policy.name", "lru-inclusive")
        .set("cleaning.dirty_ratio", 1.0)
        .set("flash.mirror", "second.img");
    cache
}

/// Wait until both devices are in use.
pub(super) fn is_mirrored_again(engine: &Engine) {
    engine.wait_for("the end of the copy", || {
        (engine.status()["flash_mirror"]["members"] == 2).then_some(())
    });
}

/// Wait until both devices are in use, as a volume sees it.
pub(super) fn is_mirrored_again_of(engine: &Engine, volume: &str) {
    engine.wait_for("the end of the copy", || {
        let status = engine.get(&format!("/status?volume={volume}"));
        status.contains("\"members\":2").then_some(())
    });
}

/// Return the words of the command that replaces a device by another one.
pub(super) fn replace<'a>(config: &'a str, member: &'a str, new: &'a str) -> Vec<&'a str> {
    vec!["cache", "replace", config, "--member", member, "--flash", new]
}

/// Return an engine that was killed under load and started again, as the clients may find it.
fn restarted(cache: &Cache, engine: Engine, models: &mut [Model], words: &[&str]) -> Engine {
    let mut random = SplitMix64::new(7);
    killed_under_load(engine, models, &mut random);
    let engine = cache.start_with(words);
    recover(&engine, models);
    engine
}

pub(super) fn recover(engine: &Engine, models: &mut [Model]) {
    for model in models {
        let found = range(&mut engine.client(), model);
        model.recover(&found);
    }
}

#[test]
fn either_device_may_be_gone_after_a_kill() {
    for (round, (gone, shards)) in [("flash.img", 1), ("second.img", 3)].into_iter().enumerate() {
        let mut cache = mirrored();
        cache.set("shards", shards);
        let mut models = models();
        let engine = cache.start();
        under_load(&engine, &mut models, 10 * round as u64, true, || {
            thread::sleep(Duration::from_millis(400));
        });
        // Both devices are alike after a kill.
        let engine = restarted(&cache, engine, &mut models, &[]);
        let mut random = SplitMix64::new(round as u64);
        killed_under_load(engine, &mut models, &mut random);
        let former = cache.path("former.img");
        std::fs::rename(cache.path(gone), &former).unwrap();
        let place = if gone == "flash.img" { "first" } else { "second" };
        let missing = format!("the {place} member of the mirrored flash is missing");
        cache.refused(&[], &[&missing, "--degraded"]);
        let engine = cache.start_with(&["--degraded"]);
        recover(&engine, &mut models);
        assert!(engine.log().contains("goes on with one of its two devices"), "{}", engine.log());
        under_load(&engine, &mut models, 100 + round as u64, true, || {
            thread::sleep(Duration::from_millis(200));
        });
        // The one that was gone comes back: it is outdated, and no leave makes it the only one.
        let engine = restarted(&cache, engine, &mut models, &["--degraded"]);
        engine.kill();
        let kept = if gone == "flash.img" { "second.img" } else { "flash.img" };
        std::fs::rename(&former, cache.path(gone)).unwrap();
        cache.refused(&[], &["is outdated", "--resilver"]);
        std::fs::rename(cache.path(kept), cache.path("kept.img")).unwrap();
        cache.refused(&["--degraded"], &["no member of the mirrored flash has the newest pages"]);
        cache.refused(&["--resilver"], &["no member of the mirrored flash has the newest pages"]);
        std::fs::rename(cache.path("kept.img"), cache.path(kept)).unwrap();
        // A copy makes it a member again, and then the other one may go.
        let engine = cache.start_with(&["--resilver"]);
        check(&engine, &models);
        under_load(&engine, &mut models, 200 + round as u64, true, || is_mirrored_again(&engine));
        check(&engine, &models);
        engine.kill();
        std::fs::remove_file(cache.path(kept)).unwrap();
        let engine = cache.start_with(&["--degraded"]);
        recover(&engine, &mut models);
        engine.stop();
        // A new device takes its place.
        let engine = cache.start_with(&["--resilver"]);
        is_mirrored_again(&engine);
        check(&engine, &models);
        engine.stop();
        let engine = cache.start();
        check(&engine, &models);
        engine.stop();
    }
}

#[test]
fn a_device_that_fails_under_load_is_left_out() {
    let full_cache = Cache::new(1);
    let Some(_full) = Full::mount(&full_cache, 3 << 20) else { return };
    let second = full_cache.file("full/second.img");
    // A file that there is already has no space set aside.
    File::create(&second).unwrap().set_len(64 << 20).unwrap();
    let mut cache = mirrored();
    let mut models = models();
    let engine = cache.set("flash.mirror", second.as_str()).start();
    under_load(&engine, &mut models, 1, true, || {
        engine.wait_for("the failure of the second device", || {
            engine.log().contains("the other one goes on alone").then_some(())
        });
        thread::sleep(Duration::from_millis(300));
    });
    check(&engine, &models);
    flush(&mut engine.client());
    let status = engine.status();
    assert_eq!(status["has_flash"], true, "{status}");
    assert_eq!(status["flash_mirror"]["members"], 1, "{status}");
    assert!(engine.get("/metrics").contains("\nthermocline_flash_mirror_members 1.0\n"));
    let engine = restarted(&cache, engine, &mut models, &["--degraded"]);
    engine.kill();
    cache.refused(&[], &["the second member of the mirrored flash is outdated", "--resilver"]);
    cache.set("flash.mirror", "new.img");
    let engine = cache.start_with(&["--resilver"]);
    check(&engine, &models);
    is_mirrored_again(&engine);
    assert!(engine.log().contains("the flash is mirrored again"), "{}", engine.log());
    check(&engine, &models);
    engine.kill();
    std::fs::remove_file(cache.path("flash.img")).unwrap();
    let engine = cache.start_with(&["--degraded"]);
    check(&engine, &models);
    engine.stop();
}

#[test]
fn a_device_that_is_cut_short_costs_nothing() {
    let cache = mirrored();
    let mut models = models();
    let engine = cache.start();
    under_load(&engine, &mut models, 3, true, || {
        thread::sleep(Duration::from_millis(300));
        File::options().write(true).open(cache.path("flash.img")).unwrap().set_len(0).unwrap();
        thread::sleep(Duration::from_millis(300));
    });
    check(&engine, &models);
    engine.stop();
    let engine = cache.start_with(&["--degraded"]);
    check(&engine, &models);
    engine.stop();
}

#[test]
fn a_member_is_no_flash_of_its_own() {
    let mut cache = mirrored();
    cache.start().stop();
    cache.unset("flash.mirror");
    cache.refused(&[], &["one of the two devices of a mirrored flash"]);
    cache.set("flash.mirror", "flash.img");
    cache.refused(&["--check"], &["`flash.path` and `flash.mirror`", "was given twice"]);
    cache.refused(&[], &["was given twice"]);
}

#[test]
fn a_device_that_cannot_be_a_member_is_named_and_nothing_is_made() {
    let mut cache = mirrored();
    std::fs::write(cache.path("second.img"), vec![7; 3 << 20]).unwrap();
    for words in [&[][..], &["--degraded"], &["--resilver"]] {
        cache.refused(
            words,
            &["`flash.mirror`", "second.img", "holds something else", "not set up"],
        );
        assert!(!cache.path("flash.img").exists(), "{words:?}");
    }
    std::fs::remove_file(cache.path("second.img")).unwrap();
    cache.set("flash.mirror", "/dev/null");
    cache.refused(&[], &["`/dev/null`"]);
}

#[test]
fn offline_tools_use_both_devices_or_one() {
    let cache = mirrored();
    let mut models = models();
    let engine = cache.start();
    under_load(&engine, &mut models, 4, true, || thread::sleep(Duration::from_millis(300)));
    flush(&mut engine.client());
    engine.kill();
    let [first, second, disk] =
        ["flash.img", "second.img", "disk.img"].map(|name| cache.file(name));
    let pair = ["--mirror", second.as_str()];
    fails(&["cache", "inspect", &first], &["one of the two devices of a mirrored flash"]);
    let inspected = json(&[&["cache", "inspect", &first, "--json"][..], &pair].concat());
    assert!(inspected["dirty_pages"].as_u64() > Some(0), "{inspected}");
    text(&[&["cache", "check", &first][..], &pair].concat());
    // Damage to one device, or its loss, does not keep a drain from any page.
    let mut bytes = std::fs::read(&first).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0x5a);
    std::fs::write(&first, &bytes).unwrap();
    let drain = [&["cache", "drain", &first, "--backing", &disk][..], &pair].concat();
    let gone = cache.path("gone.img");
    std::fs::rename(&second, &gone).unwrap();
    fails(&drain, &["the second member of the mirrored flash is missing", "--degraded"]);
    std::fs::rename(&gone, &second).unwrap();
    text(&drain);
    let disk = cache.bytes("disk.img");
    for model in &models {
        let start = usize::try_from(model.offset_bytes()).unwrap();
        let expected = model.read(0, model.sectors());
        assert!(disk[start..start + expected.len()] == expected, "everything is drained");
    }
}

/// Return a cache of two volumes on two devices.
pub(super) fn of_two_volumes() -> Cache {
    let mut cache = mirrored();
    cache.replace(
        r#"
        [flash]
        path = "flash.img"
        mirror = "second.img"
        size = "8MiB"
        [ram]
        size = "2MiB"
        [nbd]
        socket = "thermocline.sock"
        [metrics]
        listen = "127.0.0.1:0"
        [[volume]]
        name = "one"
        [volume.backing]
        path = "disk.img"
        [volume.policy]
        name = "hat"
        [volume.ram]
        size = "1MiB"
        [volume.flash]
        size = "4MiB"
        [[volume]]
        name = "two"
        [volume.backing]
        path = "other.img"
        [volume.policy]
        name = "lru-inclusive"
        [volume.ram]
        size = "1MiB"
        [volume.flash]
        size = "4MiB"
        "#,
    );
    cache
}

#[test]
fn volumes_share_a_mirrored_flash() {
    let mut cache = of_two_volumes();
    File::create(cache.path("other.img")).unwrap().set_len(11 << 20).unwrap();
    let engine = cache.start();
    let write = |engine: &Engine, byte: u8| {
        for name in ["one", "two"] {
            let mut client = engine.client_of(name);
            for page in 0..600 {
                client.write(page * 4096, &[byte; 4096]).unwrap();
            }
            flush(&mut client);
        }
    };
    let is_there = |engine: &Engine, byte: u8| {
        for name in ["one", "two"] {
            let mut client = engine.client_of(name);
            for page in 0..600 {
                assert!(client.read(page * 4096, 4096).unwrap() == [byte; 4096], "{name} {page}");
            }
        }
    };
    write(&engine, 1);
    engine.kill();
    std::fs::rename(cache.path("flash.img"), cache.path("old.img")).unwrap();
    let engine = cache.start_with(&["--degraded"]);
    is_there(&engine, 1);
    write(&engine, 2);
    engine.kill();
    std::fs::rename(cache.path("old.img"), cache.path("flash.img")).unwrap();
    cache.refused(&[], &["the first member of the mirrored flash is outdated"]);
    let engine = cache.start_with(&["--resilver"]);
    is_there(&engine, 2);
    is_mirrored_again_of(&engine, "one");
    engine.kill();
    std::fs::remove_file(cache.path("second.img")).unwrap();
    let engine = cache.start_with(&["--degraded"]);
    is_there(&engine, 2);
    // The missing device is replaced while both volumes are served.
    let (config, second, new) =
        (cache.file("cache.toml"), cache.file("second.img"), cache.file("new.img"));
    text(&replace(&config, &second, &new));
    write(&engine, 3);
    engine.kill();
    std::fs::remove_file(cache.path("flash.img")).unwrap();
    let text = cache.config_text().replace("second.img", "new.img");
    let engine = cache.replace(&text).start_with(&["--degraded"]);
    is_there(&engine, 3);
    engine.stop();
}

#[test]
fn a_device_is_replaced_under_load() {
    for (round, (policy, shards, member)) in
        [("lru-inclusive", 1, "flash.img"), ("hat", 3, "second.img"), ("lc", 2, "flash.img")]
            .into_iter()
            .enumerate()
    {
        let mut cache = mirrored();
        cache.set("policy.name", policy).set("shards", shards);
        let mut models = models();
        let mut engine = cache.start();
        let mut configured = ["flash.img".to_owned(), "second.img".to_owned()];
        // Twice, so that a device is replaced that replaced one.
        for turn in 0..2 {
            let seed = (100 * round + 10 * turn) as u64;
            let place = usize::from(member == "second.img");
            let new = format!("new.{turn}");
            let (config, old, path) =
                (cache.file("cache.toml"), cache.file(&configured[place]), cache.file(&new));
            under_load(&engine, &mut models, seed, true, || {
                thread::sleep(Duration::from_millis(200));
                let said =
                    text(&[&replace(&config, &old, &path)[..], &["--rate", "8MiB"]].concat());
                assert!(said.contains("set `flash.path` and `flash.mirror`"), "{said}");
                thread::sleep(Duration::from_millis(200));
            });
            assert_eq!(engine.status()["flash_mirror"]["members"], 2);
            check(&engine, &models);
            // Nobody has the old device open any more.
            let locked = File::options().write(true).open(&old).unwrap();
            engine.wait_for("the old device to be closed", || locked.try_lock().ok());
            drop(locked);
            let mut random = SplitMix64::new(seed);
            killed_under_load(engine, &mut models, &mut random);
            cache.refused(&[], &["is outdated"]);
            configured[place] = new;
            cache.set(["flash.path", "flash.mirror"][place], configured[place].as_str());
            // The new device has all, and so has the other one.
            let gone = cache.path(&configured[(turn + round) % 2]);
            let hidden = cache.path("hidden.img");
            std::fs::rename(&gone, &hidden).unwrap();
            engine = cache.start_with(&["--degraded"]);
            recover(&engine, &mut models);
            engine.stop();
            std::fs::rename(&hidden, &gone).unwrap();
            engine = cache.start_with(&["--resilver"]);
            is_mirrored_again(&engine);
        }
        check(&engine, &models);
        engine.stop();
    }
}

#[test]
fn a_kill_during_a_copy_loses_nothing() {
    let mut cache = mirrored();
    cache.set("shards", 2);
    let mut models = models();
    let mut random = SplitMix64::new(3);
    // Starts with the old devices, and with the new one.
    let mut taken = [0; 2];
    let mut second = "second.img".to_owned();
    for round in 0..8 {
        let engine = cache.start();
        let (config, old) = (cache.file("cache.toml"), cache.file(&second));
        let new = format!("new.{round}");
        let path = cache.file(&new);
        let millis = [random.bits() % 400, 1500][round % 2];
        let rate = ["4MiB", "100MiB"][round % 2];
        under_load(&engine, &mut models, random.bits(), false, || {
            thread::sleep(Duration::from_millis(100));
            thread::scope(|scope| {
                scope.spawn(|| {
                    let words = [&replace(&config, &old, &path)[..], &["--rate", rate]].concat();
                    // It may be done before the kill, or not.
                    drop(thermocline(&words));
                });
                thread::sleep(Duration::from_millis(millis));
                engine.signal("KILL");
            });
        });
        engine.kill();
        let engine = match cache.try_start() {
            Ok(engine) => {
                taken[0] += 1;
                engine
            }
            Err(log) => {
                assert!(log.contains("is outdated"), "round {round}: {log}");
                taken[1] += 1;
                second = new;
                cache.set("flash.mirror", second.as_str());
                cache.start()
            }
        };
        recover(&engine, &mut models);
        engine.kill();
    }
    assert!(taken.iter().all(|&starts| starts > 0), "kills before and after the end: {taken:?}");
    // A copy that was cut off counts as blank.
    let engine = cache.start();
    let (config, old, new) = (cache.file("cache.toml"), cache.file(&second), cache.file("new.img"));
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(thermocline(&[&replace(&config, &old, &new)[..], &["--rate", "1MiB"]].concat()));
        });
        engine.wait_for("the copy to begin", || {
            let copying = &engine.status()["flash_mirror"]["copying"];
            (copying["copied_bytes"].as_u64() > Some(0)).then_some(())
        });
        engine.signal("KILL");
    });
    engine.kill();
    cache.set("flash.mirror", "new.img");
    cache.refused(&[], &["the second member of the mirrored flash is blank"]);
    // The start with it copies again, and a kill meanwhile changes nothing.
    let engine = cache.start_with(&["--resilver"]);
    recover(&engine, &mut models);
    killed_under_load(engine, &mut models, &mut random);
    let engine = cache.start_with(&["--resilver"]);
    recover(&engine, &mut models);
    is_mirrored_again(&engine);
    engine.stop();
    let engine = cache.start();
    check(&engine, &models);
    engine.stop();
}

#[test]
fn a_new_device_that_fails_changes_nothing() {
    let full_cache = Cache::new(1);
    let Some(full) = Full::mount(&full_cache, 3 << 20) else { return };
    let new = full_cache.file("full/new.img");
    // A file that there is already has no space set aside.
    File::create(&new).unwrap().set_len(64 << 20).unwrap();
    let cache = mirrored();
    let mut models = models();
    let engine = cache.start();
    let (config, second) = (cache.file("cache.toml"), cache.file("second.img"));
    under_load(&engine, &mut models, 1, true, || {
        thread::sleep(Duration::from_millis(300));
        fails(&replace(&config, &second, &new), &["full/new.img"]);
        thread::sleep(Duration::from_millis(100));
    });
    assert_eq!(engine.status()["flash_mirror"]["members"], 2);
    check(&engine, &models);
    // The same device works later.
    full.grow(64 << 20);
    under_load(&engine, &mut models, 2, true, || text(&replace(&config, &second, &new)));
    check(&engine, &models);
    engine.kill();
    cache.refused(&[], &["is outdated"]);
}

#[test]
fn the_device_that_is_replaced_may_fail_meanwhile() {
    for failing in ["flash.img", "second.img"] {
        let cache = mirrored();
        let mut models = models();
        let engine = cache.start();
        let (config, old, new) =
            (cache.file("cache.toml"), cache.file("second.img"), cache.file("new.img"));
        under_load(&engine, &mut models, 3, true, || {
            thread::sleep(Duration::from_millis(300));
            thread::scope(|scope| {
                let words = [&replace(&config, &old, &new)[..], &["--rate", "4MiB"]].concat();
                let copy = scope.spawn(move || text(&words));
                engine.wait_for("the copy to begin", || {
                    let copying = &engine.status()["flash_mirror"]["copying"];
                    (copying["copied_bytes"].as_u64() > Some(0)).then_some(())
                });
                let failing = File::options().write(true).open(cache.path(failing)).unwrap();
                failing.set_len(0).unwrap();
                let said = copy.join().unwrap();
                // It takes the place of the device that is missing.
                let place = if failing_is_first(&cache) { "the first" } else { "the second" };
                assert!(said.contains(place), "{said}");
            });
            is_mirrored_again(&engine);
        });
        check(&engine, &models);
        engine.stop();
    }
}

/// Return `true` if the first device was cut short.
fn failing_is_first(cache: &Cache) -> bool {
    let bytes = |name| std::fs::metadata(cache.path(name)).unwrap().len();
    bytes("flash.img") < bytes("second.img")
}

#[test]
fn a_device_that_cannot_join_is_refused_and_nothing_changes() {
    let mut cache = mirrored();
    let engine = cache.start();
    let (config, first, second) =
        (cache.file("cache.toml"), cache.file("flash.img"), cache.file("second.img"));
    let (other, new) = (cache.file("other.img"), cache.file("new.img"));
    std::fs::write(&other, vec![7; 2 << 20]).unwrap();
    fails(&replace(&config, &other, &new), &["other.img", "no device of the mirrored flash"]);
    fails(&replace(&config, &first, &second), &["in use as the second device"]);
    fails(&replace(&config, &first, &first), &["in use as the first device"]);
    let disk = cache.file("disk.img");
    let onto_disk = [&replace(&config, &first, &disk)[..], &["--force-init"]].concat();
    fails(&onto_disk, &["disk.img", "`backing.path`, which is in use"]);
    fails(&replace(&config, &first, &other), &["holds something else", "--force-init"]);
    assert_eq!(std::fs::read(&other).unwrap(), vec![7; 2 << 20], "nothing was written there");
    fails(&["cache", "replace", &config, "--flash", &new], &["--member"]);
    assert_eq!(engine.status()["flash_mirror"]["members"], 2);
    text(&[&replace(&config, &first, &other)[..], &["--force-init"]].concat());
    // The one that was replaced may come back.
    text(&replace(&config, &second, &first));
    engine.stop();
    cache.set("flash.mirror", "other.img").start().stop();
    cache.unset("flash.mirror").set("flash.path", "single.img");
    let forgotten = ["cache", "forget", "--backing", &cache.file("disk.img"), "--yes"];
    text(&forgotten);
    let engine = cache.start();
    fails(&replace(&config, &first, &new), &["the flash has one device"]);
    engine.stop();
}
