//! A flash of two devices: one fails under load, is gone at a start, comes back outdated, or is replaced.

use std::fs::File;
use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;

use super::crashes::{killed_under_load, range};
use super::faults::Full;
use super::model::Model;
use super::replacing::{check, models, under_load};
use super::{Cache, Engine, fails, flush, json, text};

/// Return a cache with files for both devices.
fn mirrored() -> Cache {
    let mut cache = Cache::new(11);
    cache
        .set("policy.name", "lru-inclusive")
        .set("cleaning.dirty_ratio", 1.0)
        .set("flash.mirror", "second.img");
    cache
}

/// Return an engine that was killed under load and started again, as the clients may find it.
fn restarted(cache: &Cache, engine: Engine, models: &mut [Model], words: &[&str]) -> Engine {
    let mut random = SplitMix64::new(7);
    killed_under_load(engine, models, &mut random);
    let engine = cache.start_with(words);
    recover(&engine, models);
    engine
}

fn recover(engine: &Engine, models: &mut [Model]) {
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
        under_load(&engine, &mut models, 200 + round as u64, true, || {
            thread::sleep(Duration::from_millis(200));
        });
        engine.kill();
        std::fs::remove_file(cache.path(kept)).unwrap();
        let engine = cache.start_with(&["--degraded"]);
        recover(&engine, &mut models);
        engine.stop();
        // A new device takes its place.
        let engine = cache.start_with(&["--resilver"]);
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
    assert!(engine.log().contains("the flash is mirrored again"), "{}", engine.log());
    check(&engine, &models);
    assert_eq!(engine.status()["flash_mirror"]["members"], 2);
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

#[test]
fn volumes_share_a_mirrored_flash() {
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
    engine.kill();
    std::fs::remove_file(cache.path("second.img")).unwrap();
    let engine = cache.start_with(&["--degraded"]);
    is_there(&engine, 2);
    engine.stop();
}
