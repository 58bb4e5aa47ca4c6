//! Changes while clients are served, state that a restart keeps, and the write budget.

use std::time::{Duration, Instant};

use serde_json::Value;
use thermocline_core::random::SplitMix64;

use super::metrics::samples;
use super::model::{Model, PAGE, SECTOR};
use super::{Cache, Client, Engine, json};

/// Requests of one client to its range: writes, reads that are compared.
fn work(client: &mut Client, model: &mut Model, random: &mut SplitMix64, requests: usize) {
    let below = |random: &mut SplitMix64, limit: usize| {
        usize::try_from(random.bits() % limit as u64).unwrap()
    };
    for _ in 0..requests {
        let count = [1, 8, 16][below(random, 3)];
        let first = below(random, model.sectors() - count + 1);
        let offset_bytes = model.offset_bytes() + (first * SECTOR) as u64;
        if below(random, 3) == 0 {
            let bytes = model.write(first, count, false);
            client.write(offset_bytes, &bytes).unwrap();
        } else {
            let found = client.read(offset_bytes, count * SECTOR).unwrap();
            assert!(found == model.read(first, count), "sectors from {first}");
        }
    }
}

/// Compare all bytes with the model.
#[track_caller]
fn compare(client: &mut Client, model: &Model) {
    for page in 0..model.sectors() * SECTOR / PAGE {
        let offset_bytes = model.offset_bytes() + (page * PAGE) as u64;
        let found = client.read(offset_bytes, PAGE).unwrap();
        assert!(found == model.read(page * 8, 8), "page {page}");
    }
}

fn sum(figures: &Value, names: &[&str]) -> u64 {
    names.iter().map(|name| figures[name].as_u64().unwrap()).sum()
}

/// Return all page accesses.
fn accesses(status: &Value) -> u64 {
    ["read", "write"]
        .iter()
        .map(|op| sum(&status["accesses"][op], &["ram", "flash", "disk", "bypass"]))
        .sum()
}

/// Return the number of bytes that a device wrote for all purposes.
fn written_bytes(status: &Value, device: &str) -> u64 {
    let by_purpose = status[device]["written_bytes"].as_array().unwrap();
    by_purpose.iter().map(|one| one[1].as_u64().unwrap()).sum()
}

#[test]
fn a_restart_is_warm() {
    let mut cache = Cache::new(8);
    for policy in ["hat", "lru-inclusive", "face-gsc", "hca"] {
        let engine = cache.set("policy.name", policy).start();
        let mut client = engine.client();
        let mut model = Model::new(0, 900);
        for page in (0..900).chain((0..900).rev()) {
            let bytes = model.write(page * 8, 8, false);
            client.write((page * PAGE) as u64, &bytes).unwrap();
        }
        engine.stop();
        let inspected = json(&["cache", "inspect", &cache.file("flash.img"), "--json"]);
        let held = inspected["held_pages"].as_u64().unwrap();
        assert!(held >= 256, "{policy}: what RAM had is on flash, at least");
        let engine = cache.start();
        compare(&mut engine.client(), &model);
        let status = engine.status();
        let found = &status["accesses"]["read"];
        assert_eq!(accesses(&status), 900);
        let hits = found["flash"].as_u64().unwrap();
        assert!(hits * 10 >= held * 9, "{policy}: {hits} hits on {held} pages: {found}");
        engine.stop();
    }
}

#[test]
fn policies_change_under_load() {
    let mut cache = Cache::new(8);
    let names = ["hat", "lru", "face-gsc", "hca", "lru-exclusive"];
    let engine = cache.start();
    let (mut client, mut random) = (engine.client(), SplitMix64::new(1));
    let mut model = Model::new(0, 2000);
    let mut before = 0;
    for from in names {
        for to in names.iter().filter(|&&to| to != from) {
            for name in [from, to] {
                assert!(engine.reload(cache.set("policy.name", name)), "{name}");
                work(&mut client, &mut model, &mut random, 60);
            }
            let status = engine.status();
            assert_eq!(status["policy"], **to);
            let now = accesses(&status);
            assert!(now >= before + 120, "figures go on: {before} {now}");
            before = now;
        }
    }
    compare(&mut client, &model);
    engine.stop();
    compare(&mut cache.start().client(), &model);
}

#[test]
fn rates_of_clients_change_live() {
    let mut cache = Cache::new(8);
    let engine = cache.set("nbd.client_requests_per_second", 200).start();
    let (mut client, mut other) = (engine.client(), engine.client());
    let start = Instant::now();
    for page in 0..60 {
        client.write(page * PAGE as u64, &[1; PAGE]).unwrap();
    }
    // A tenth of a second's worth is taken at once.
    assert!(start.elapsed() >= Duration::from_millis(195), "{:?}", start.elapsed());
    other.read(0, PAGE).unwrap();
    let paced = engine.status()["paced_requests"].as_u64().unwrap();
    assert!((1..=39).contains(&paced), "{paced} waited");
    let shown = samples(&engine.get("/metrics"), "thermocline_client_paced_requests_total", "");
    assert!((shown - paced as f64).abs() < 0.5, "{shown}");

    assert!(engine.reload(cache.set("nbd.client_requests_per_second", 0)));
    for page in 0..1000 {
        client.read(page * PAGE as u64, PAGE).unwrap();
    }
    assert_eq!(engine.status()["paced_requests"], paced);

    let bytes = "nbd.client_bytes_per_second";
    assert!(!engine.reload(cache.set(bytes, 100)), "less than a page");
    assert!(engine.reload(cache.set(bytes, "1MiB")));
    let start = Instant::now();
    client.read(0, 512 << 10).unwrap();
    client.read(0, 512 << 10).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(400), "{:?}", start.elapsed());
}

#[test]
fn write_mode_cleaning_and_shadows_change_live() {
    let mut cache = Cache::new(8);
    cache.set("cleaning.dirty_ratio", 1.0).set("policy.name", "lru-inclusive");
    let engine = cache.start();
    let mut client = engine.client();
    client.write(0, &[1; PAGE]).unwrap();
    assert_eq!(cache.bytes("disk.img")[0], 0, "written back later");

    assert!(engine.reload(cache.set("write_mode", "through")));
    client.write(PAGE as u64, &[2; PAGE]).unwrap();
    assert_eq!(cache.bytes("disk.img")[PAGE], 2, "written through");
    assert_eq!(engine.status()["write_mode"], "through");

    assert!(engine.reload(cache.set("write_mode", "around")));
    client.write(1 << 20, &[3; PAGE]).unwrap();
    assert_eq!(cache.bytes("disk.img")[1 << 20], 3, "written around");
    assert_eq!(engine.status()["accesses"]["write"]["bypass"], 1);

    assert!(engine.reload(cache.set("write_mode", "read-only")));
    client.write(0, &[9; PAGE]).unwrap_err();
    assert_eq!(client.read(0, PAGE).unwrap(), [1; PAGE]);

    assert!(engine.reload(cache.set("write_mode", "back")));
    for page in 0..1000 {
        client.write(page * PAGE as u64, &[4; PAGE]).unwrap();
    }
    // A page on its way to flash does not count yet.
    let dirty = || engine.status()["dirty_pages"].as_u64().unwrap();
    engine.wait_for("dirty pages on flash", || (dirty() > 500).then_some(()));
    assert!(engine.reload(cache.set("cleaning.dirty_ratio", 0.0)));
    engine.wait_for("the cleaner", || (engine.status()["dirty_pages"] == 0).then_some(()));

    cache.set("shadow", vec!["lru", "hat:ram=2x", "demote"]).set("shadow_sample", 1.0);
    assert!(engine.reload(&cache));
    client.read(0, PAGE).unwrap();
    let status = engine.status();
    let names: Vec<&str> = status["shadows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|shadow| shadow["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["lru", "hat:ram=2x", "demote", "lru-inclusive"], "and the one that runs");
    for shadow in status["shadows"].as_array().unwrap() {
        assert_eq!(shadow["sampled_accesses"], 1, "{shadow}");
    }

    // A shadow with other settings begins anew, and so does one that is new; the others go on.
    cache.set("shadow", vec!["lru", "hat:ram=3x", "face-gsc"]);
    assert!(engine.reload(&cache));
    client.read(0, PAGE).unwrap();
    let status = engine.status();
    let shadows = status["shadows"].as_array().unwrap().iter();
    let seen: Vec<(&str, u64)> = shadows
        .map(|one| (one["name"].as_str().unwrap(), one["sampled_accesses"].as_u64().unwrap()))
        .collect();
    assert_eq!(seen, [("lru", 2), ("hat:ram=3x", 1), ("face-gsc", 1), ("lru-inclusive", 2)]);
    let start = status["shadow_start_s"].clone();
    assert!(engine.reload(&cache), "nothing of them changes");
    client.read(0, PAGE).unwrap();
    let status = engine.status();
    assert_eq!(status["shadow_start_s"], start);
    assert_eq!(status["shadows"][0]["sampled_accesses"], 3);
}

#[test]
fn a_broken_configuration_changes_nothing() {
    let mut cache = Cache::new(8);
    cache.set("record.path", "accesses.csv.zst");
    let engine = cache.set("shadow", vec!["lru"]).start();
    let mut client = engine.client();
    client.write(0, &[1; PAGE]).unwrap();
    let kept = |status: &Value| {
        ["policy", "write_mode", "dirty_pages"].map(|name| status[name].clone()).to_vec()
    };
    let before = kept(&engine.status());
    // Each also asks for something that could be done.
    for (key, value) in [
        ("policy.name", toml::Value::from("lfuu")),
        ("policy.parameters", toml::toml! { zz = 1 }.into()),
        ("shadow", vec!["hat:ram=0x"].into()),
        ("shadow", vec!["opt"].into()),
        ("policy.name", "opt".into()),
        ("record.path", "absent/accesses.csv.zst".into()),
        ("ram.size", "little".into()),
        ("flash.write_budget_gib_per_day", (-1.0).into()),
    ] {
        let mut broken = Cache::new(1);
        broken.set("policy.name", "lru").set("write_mode", "through").set(key, value);
        assert!(!engine.reload_text(&cache, &broken.config_text()), "{key}");
        assert_eq!(kept(&engine.status()), before, "{key}");
        let before = engine.status();
        assert_eq!(before["shadows"][0]["name"], "lru", "{key}");
        client.write(0, &[1; PAGE]).unwrap();
        let recorded = |status: &Value| status["recording"]["accesses"].as_u64().unwrap();
        assert_eq!(recorded(&engine.status()), recorded(&before) + 1, "{key}");
    }
    assert!(!engine.log().contains("takes over"), "nothing was announced that did not happen");
    assert!(!engine.reload_text(&cache, "not = [a configuration"));
    assert_eq!(kept(&engine.status()), before);
    assert!(engine.log().contains("cache.toml"), "the log names the file");
    assert!(engine.reload(&cache), "a good one is taken again");
}

/// GiB per day of which an hour's share, which may be spent at once, is so many MiB.
fn budget(burst_mib: f64) -> f64 {
    burst_mib * 24.0 / 1024.0
}

/// Reads a part of the disk, 1 MiB that nobody read before, to be admitted to flash.
fn read_through(client: &mut Client, mib: u64) {
    for page in 0..256 {
        assert_eq!(client.read((mib << 20) + page * PAGE as u64, PAGE).unwrap(), [0; PAGE]);
    }
}

#[test]
fn the_write_budget_is_honoured() {
    let mut cache = Cache::new(64);
    cache.set("policy.name", "lru-inclusive");
    cache.set("flash.write_budget_gib_per_day", budget(1.0));
    let engine = cache.start();
    let left = |status: &Value| status["write_budget_left_bytes"].as_f64().unwrap();
    let status = engine.status();
    assert!((left(&status) - f64::from(1 << 20)).abs() < 1e4, "an hour's share: {status}");
    let mut client = engine.client();
    for mib in 0..4 {
        read_through(&mut client, mib);
    }
    let spent = engine.status();
    // Pages, and what the journal needs for them.
    let written = written_bytes(&spent, "flash");
    assert!((900 << 10..1400 << 10).contains(&written), "{written} bytes of 1 MiB");
    assert!(left(&spent) < 4096.0, "{spent}");
    assert!(spent["budget_refusals"].as_u64().unwrap() > 500, "{spent}");
    for mib in 4..8 {
        read_through(&mut client, mib);
    }
    let later = written_bytes(&engine.status(), "flash");
    assert!(later < written + (64 << 10), "{written} {later}: nothing more is admitted");
    // Dirty pages still are made durable.
    client.write(0, &[5; PAGE]).unwrap();
    super::flush(&mut client);

    cache.set("flash.write_budget_gib_per_day", budget(100.0));
    assert!(engine.reload(&cache));
    // It earns 29 KB per second now; the hour's share is no gift for a reload.
    cache.set("flash.write_budget_gib_per_day", 100_000.0);
    assert!(engine.reload(&cache));
    engine.wait_for("the budget", || (left(&engine.status()) > 2e6).then_some(()));
    for mib in 8..10 {
        read_through(&mut client, mib);
    }
    let more = written_bytes(&engine.status(), "flash");
    assert!(more > later + (1 << 20), "{later} {more}: pages are admitted again");

    cache.unset("flash.write_budget_gib_per_day");
    assert!(engine.reload(&cache));
    assert_eq!(engine.status()["write_budget_left_bytes"], Value::Null);
    for mib in 10..12 {
        read_through(&mut client, mib);
    }
    // A budget that begins late does not count what was written before.
    cache.set("flash.write_budget_gib_per_day", budget(1.0));
    assert!(engine.reload(&cache));
    let status = engine.status();
    assert!(left(&status) > f64::from(1 << 19), "{status}");
    assert_eq!(client.read(0, PAGE).unwrap(), [5; PAGE]);
}

/// Return the number of bytes written to flash in its life.
fn lifetime(engine: &Engine) -> u64 {
    engine.status()["flash_lifetime_written_bytes"].as_u64().unwrap()
}

#[test]
fn written_bytes_are_counted_across_restarts() {
    let mut cache = Cache::new(8);
    let engine = cache.set("policy.name", "lru-inclusive").start();
    let mut client = engine.client();
    for page in 0..512 {
        client.write(page * PAGE as u64, &[1; PAGE]).unwrap();
    }
    super::flush(&mut client);
    let first = lifetime(&engine);
    assert!(first >= 512 * PAGE as u64, "{first}");
    engine.stop();
    let inspected = json(&["cache", "inspect", &cache.file("flash.img"), "--json"]);
    let stopped = inspected["lifetime_written_bytes"].as_u64().unwrap();
    assert!((first..first + (1 << 20)).contains(&stopped), "{first} {stopped}");
    let engine = cache.start();
    let restarted = lifetime(&engine);
    assert!(restarted >= stopped, "{stopped} {restarted}");
    engine.client().write(0, &[2; PAGE]).unwrap();
    super::flush(&mut engine.client());
    let before = lifetime(&engine);
    assert!(before > restarted);
    engine.client().write(0, &[3; PAGE]).unwrap();
    super::flush(&mut engine.client());
    engine.kill();
    let after = lifetime(&cache.start());
    assert!(after >= before, "{before} {after}");
}
