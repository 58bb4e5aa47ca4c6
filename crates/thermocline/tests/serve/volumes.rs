//! Several volumes that share the RAM and the flash of one server.

use std::fs::File;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use thermocline_core::random::SplitMix64;

use super::crashes::{CLIENTS, PAGES, range, step};
use super::faults::Full;
use super::guest::Machine;
use super::metrics::samples;
use super::model::Model;
use super::{Cache, Client, Engine, fails, flush, json, text};

pub(super) const MIB: u64 = 1 << 20;
const PAGE: usize = 4096;

/// Return two volumes of 11 MiB: `db` with 4 MiB of a flash, `web` with 2 MiB.
pub(super) fn of_two() -> Cache {
    let mut cache = Cache::new(11);
    let web = File::create(cache.path("web.img")).unwrap();
    web.set_len(11 * MIB).unwrap();
    cache.replace(
        r#"
        [flash]
        path = "flash.img"
        size = "8MiB"
        [ram]
        size = "3MiB"
        [nbd]
        socket = "thermocline.sock"
        [metrics]
        listen = "127.0.0.1:0"
        [[volume]]
        name = "db"
        [volume.backing]
        path = "disk.img"
        [volume.flash]
        size = "4MiB"
        [volume.ram]
        size = "1MiB"
        [volume.limits]
        sequential_bypass = "never"
        [volume.policy]
        name = "hat"
        [[volume]]
        name = "web"
        [volume.backing]
        path = "web.img"
        [volume.flash]
        size = "2MiB"
        [volume.ram]
        size = "1MiB"
        [volume.limits]
        sequential_bypass = "never"
        [volume.policy]
        name = "lru-inclusive"
        "#,
    );
    cache
}

/// Changes the configuration as text.
pub(super) fn edit(cache: &mut Cache, from: &str, to: &str) {
    let text = cache.config_text();
    let changed = text.replacen(from, to, 1);
    assert_ne!(text, changed, "{from}");
    cache.replace(&changed);
}

/// Remove the second volume from the configuration.
pub(super) fn without_web(cache: &mut Cache) {
    let mut config: toml::Table = cache.config_text().parse().unwrap();
    config["volume"].as_array_mut().unwrap().truncate(1);
    cache.replace(&config.to_string());
}

pub(super) fn status_of(engine: &Engine, volume: &str) -> Value {
    let read = || engine.get(&format!("/status?volume={volume}"));
    let before: Value = serde_json::from_str(&read()).unwrap();
    engine.wait_for("a newer snapshot", || {
        let now: Value = serde_json::from_str(&read()).unwrap();
        (now["uptime_s"] != before["uptime_s"]).then_some(now)
    })
}

/// Return the offset of a page.
fn at(page: u64) -> u64 {
    page * PAGE as u64
}

/// Writes a byte to each of the first pages.
pub(super) fn fill(client: &mut Client, pages: u64, byte: u8) {
    for page in 0..pages {
        client.write(at(page), &[byte; PAGE]).unwrap();
    }
}

#[track_caller]
pub(super) fn check(client: &mut Client, pages: u64, byte: u8) {
    for page in 0..pages {
        let found = client.read(at(page), PAGE).unwrap();
        assert!(found.iter().all(|&one| one == byte), "page {page}: {}", found[0]);
    }
}

#[test]
fn each_volume_has_its_own_bytes_and_figures() {
    let mut cache = of_two();
    for shards in [1, 2] {
        let engine = cache.set("shards", shards).start_with(&["--force-init"]);
        let mut db = engine.client_of("db");
        let mut web = [engine.client_of("web"), engine.client_of("web")];
        fill(&mut db, 700, 1);
        fill(&mut web[1], 300, 2);
        check(&mut db, 700, 1);
        check(&mut web[0], 300, 2);
        let found = engine.wait_for("a snapshot with all requests", || {
            let found = ["db", "web"].map(|volume| status_of(&engine, volume));
            let of = |status: &Value| {
                let ops = ["read", "write"].map(|op| status["accesses"][op].as_object().unwrap());
                ops.iter().flat_map(|op| op.values()).map(|it| it.as_u64().unwrap()).sum::<u64>()
            };
            ([of(&found[0]), of(&found[1])] == [1400, 600]).then_some(found)
        });
        for (status, volume, policy, clients, flash_pages) in
            [(&found[0], "db", "hat", 1, 1024), (&found[1], "web", "lru-inclusive", 2, 512)]
        {
            assert_eq!(status["export"], volume);
            assert_eq!(status["policy"], policy);
            assert_eq!(status["clients"], clients);
            assert_eq!(status["capacity_pages"][1], flash_pages);
        }
        let metrics = engine.get("/metrics");
        for (volume, writes) in [("db", 700.0), ("web", 300.0)] {
            let label = format!("volume=\"{volume}\",op=\"write\"");
            let found = samples(&metrics, "thermocline_page_accesses_total", &label);
            assert!((found - writes).abs() < 0.5, "{volume}: {found}");
        }
        let address = engine.metrics_address().to_owned();
        let top = ["top", "--once", "--interval", "0.1", "--engine", address.as_str()];
        assert!(text(&[&top[..], &["--volume", "web"]].concat()).contains("lru-inclusive"));
        fails(&top, &["db, web", "--volume"]);
        fails(&[&top[..], &["--volume", "x"]].concat(), &["no such volume", "db, web"]);
        assert!(engine.get("/?volume=web").contains("href=\"/?volume=db\""));
        engine.stop();
        let engine = cache.start();
        check(&mut engine.client_of("web"), 300, 2);
        check(&mut engine.client_of("db"), 700, 1);
        engine.stop();
        let flash = cache.file("flash.img");
        for (volume, disk) in [("db", "disk.img"), ("web", "web.img")] {
            text(&["cache", "drain", &flash, "--volume", volume, "--backing", &cache.file(disk)]);
        }
        assert!(cache.bytes("disk.img")[..700 * PAGE].iter().all(|&byte| byte == 1));
        assert!(cache.bytes("web.img")[..300 * PAGE].iter().all(|&byte| byte == 2));
    }
}

#[test]
fn exports_are_listed_and_others_are_refused_by_name() {
    let cache = of_two();
    let engine = cache.start();
    let error = Client::connect(&engine.socket(), "").err().unwrap().to_string();
    assert!(error.contains("db") && error.contains("web"), "{error}");
    let uri = engine.uri();
    let Some(list) = super::run("nbdinfo", "libnbd-bin", &["--list", &uri]) else { return };
    assert!(list.contains("export=\"db\"") && list.contains("export=\"web\""), "{list}");
}

#[test]
fn what_was_durable_in_both_volumes_survives_kills_under_load() {
    let mut random = SplitMix64::new(21);
    for shards in [1, 2] {
        let mut cache = of_two();
        cache.set("shards", shards);
        let of_one = || (0..CLIENTS).map(|client| Model::new(client * PAGES, PAGES)).collect();
        let mut models: Vec<(&str, Vec<Model>)> = vec![("db", of_one()), ("web", of_one())];
        for _ in 0..3 {
            let engine = cache.start();
            thread::scope(|scope| {
                for (volume, models) in &mut models {
                    for model in models {
                        let mut client = engine.client_of(volume);
                        let mut random = SplitMix64::new(random.bits());
                        scope.spawn(move || while step(&mut client, model, &mut random).is_ok() {});
                    }
                }
                thread::sleep(Duration::from_millis(100 + random.bits() % 300));
                engine.kill();
            });
            let engine = cache.start();
            for (volume, models) in &mut models {
                for model in models {
                    let found = range(&mut engine.client_of(volume), model);
                    model.recover(&found);
                }
            }
            engine.kill();
        }
        let engine = cache.start();
        for (volume, models) in &models {
            for model in models {
                let found = range(&mut engine.client_of(volume), model);
                assert!(found == model.read(0, model.sectors()), "{volume}");
            }
        }
        engine.stop();
    }
}

#[test]
fn a_backing_store_that_fails_costs_its_own_volume_only() {
    let cache = of_two();
    let engine = cache.start();
    let (mut db, mut web) = (engine.client_of("db"), engine.client_of("web"));
    fill(&mut db, 100, 1);
    let disk = File::options().write(true).open(cache.path("disk.img")).unwrap();
    disk.set_len(0).unwrap();
    db.read(at(2000), PAGE).unwrap_err();
    fill(&mut web, 1000, 2);
    flush(&mut web);
    check(&mut web, 1000, 2);
    check(&mut db, 100, 1);
    let errors = |volume| status_of(&engine, volume)["backing"]["errors"].as_u64().unwrap();
    assert!(errors("db") > 0);
    assert_eq!(errors("web"), 0);
    disk.set_len(11 * MIB).unwrap();
    engine.stop();
    let engine = cache.start();
    check(&mut engine.client_of("db"), 100, 1);
    check(&mut engine.client_of("web"), 1000, 2);
}

#[test]
fn a_flash_that_fails_fails_all_volumes_and_loses_nothing() {
    let mut cache = of_two();
    let full_cache = Cache::new(1);
    // Room for both regions as they are set up, and for few pages.
    let Some(_full) = Full::mount(&full_cache, 2 << 20) else { return };
    let flash = full_cache.file("full/flash.img");
    File::create(&flash).unwrap().set_len(64 << 20).unwrap();
    edit(&mut cache, "\"hat\"", "\"lru-inclusive\"");
    let engine = cache.set("flash.path", flash.as_str()).start();
    let (mut db, mut web) = (engine.client_of("db"), engine.client_of("web"));
    fill(&mut web, 50, 2);
    fill(&mut db, 1000, 1);
    flush(&mut db);
    engine.wait_for("both volumes to go on without the flash", || {
        let works = |volume| status_of(&engine, volume)["has_flash"] == true;
        (!works("db") && !works("web")).then_some(())
    });
    fill(&mut web, 60, 3);
    flush(&mut web);
    check(&mut web, 60, 3);
    check(&mut db, 1000, 1);
    engine.kill();
    // Both notes say that the flash is not the newest.
    cache.refused(&[], &["[[volume]] `db`", "not the newest"]);
    assert!(cache.bytes("disk.img")[..1000 * PAGE].iter().all(|&byte| byte == 1));
    assert!(cache.bytes("web.img")[..60 * PAGE].iter().all(|&byte| byte == 3));
}

#[test]
fn a_reload_reaches_each_volume_and_one_that_cannot_stays() {
    let mut cache = of_two();
    let engine = cache.start();
    edit(&mut cache, "\"hat\"", "\"lru\"");
    edit(&mut cache, "\"lru-inclusive\"", "\"face-gsc\"");
    assert!(engine.reload(&cache), "{}", engine.log());
    assert_eq!(status_of(&engine, "db")["policy"], "lru");
    assert_eq!(status_of(&engine, "web")["policy"], "face-gsc");
    // A recording that cannot be written keeps one volume as it is, and not the other one.
    let mut config: toml::Table = cache.config_text().parse().unwrap();
    let volumes = config["volume"].as_array_mut().unwrap();
    let record: toml::Table = "path = \"missing/record.zst\"".parse().unwrap();
    volumes[0].as_table_mut().unwrap().insert("record".to_owned(), record.into());
    cache.replace(&config.to_string());
    edit(&mut cache, "\"lru\"", "\"lc\"");
    edit(&mut cache, "\"face-gsc\"", "\"lc\"");
    assert!(engine.reload(&cache), "{}", engine.log());
    assert!(engine.log().contains("[[volume]] `db`"), "{}", engine.log());
    assert_eq!(status_of(&engine, "db")["policy"], "lru");
    assert_eq!(status_of(&engine, "web")["policy"], "lc");
    engine.stop();
}

#[test]
fn each_volume_ends_as_its_own_configuration_says() {
    let mut cache = of_two();
    let mut config: toml::Table = cache.config_text().parse().unwrap();
    let web = config["volume"].as_array_mut().unwrap()[1].as_table_mut().unwrap();
    let cleaning: toml::Table = "drain_at_exit = true".parse().unwrap();
    web.insert("cleaning".to_owned(), cleaning.into());
    for shards in [1, 2] {
        cache.replace(&config.to_string()).set("shards", shards);
        let engine = cache.start_with(&["--force-init"]);
        fill(&mut engine.client_of("db"), 300, 1);
        fill(&mut engine.client_of("web"), 300, 2);
        engine.stop();
        let flash = cache.file("flash.img");
        let dirty = |volume| {
            let found = json(&["cache", "inspect", &flash, "--volume", volume, "--json"]);
            found["dirty_pages"].as_u64().unwrap()
        };
        assert!(dirty("db") > 0);
        assert_eq!(dirty("web"), 0);
        assert!(cache.bytes("web.img")[..300 * PAGE].iter().all(|&byte| byte == 2));
    }
}

#[test]
fn each_volume_has_its_own_guests_shadows_and_recording() {
    let mut cache = of_two();
    let mut config: toml::Table = cache.config_text().parse().unwrap();
    let volumes = config["volume"].as_array_mut().unwrap();
    for (volume, socket) in volumes.iter_mut().zip(["db.sock", "web.sock"]) {
        let more = format!("[vhost_user]\nsocket = {socket:?}");
        volume.as_table_mut().unwrap().extend(more.parse::<toml::Table>().unwrap());
    }
    let more = "shadow = [\"lru\"]\nshadow_sample = 1.0\n[record]\npath = \"web.csv.zst\"";
    volumes[1].as_table_mut().unwrap().extend(more.parse::<toml::Table>().unwrap());
    cache.replace(&config.to_string());
    let engine = cache.start();
    for (socket, export, byte) in [("db.sock", "db", 3), ("web.sock", "web", 4)] {
        let mut guest = Machine::new().connect(&cache.path(socket), 2, 0);
        for page in 0..20 {
            assert_eq!(guest.write(page * 8, &[byte; PAGE]), 0);
        }
        check(&mut engine.client_of(export), 20, byte);
    }
    engine.wait_for("the recording to have all of it", || {
        let recording = &status_of(&engine, "web")["recording"];
        (recording["accesses"] == 40).then_some(())
    });
    assert_eq!(status_of(&engine, "db")["recording"], Value::Null);
    let shadows = |volume| status_of(&engine, volume)["shadows"].as_array().unwrap().len();
    assert_eq!([shadows("db"), shadows("web")], [0, 2], "and the policy that runs");
    assert!(engine.get("/shadows?volume=web").contains("\"lru\""));
    engine.stop();
    assert!(cache.path("web.csv.zst").exists() && !cache.path("web.sock").exists());
}

#[test]
fn a_volume_leaves_the_flash_only_on_command_and_takes_its_pages_home() {
    let mut cache = of_two();
    let engine = cache.start();
    fill(&mut engine.client_of("db"), 300, 1);
    fill(&mut engine.client_of("web"), 300, 2);
    engine.stop();
    let (flash, web) = (cache.file("flash.img"), cache.file("web.img"));
    let both = cache.config_text();
    without_web(&mut cache);
    cache.refused(&[], &["volume `web`", "pages that its backing store lacks", "remove-volume"]);
    cache.refused(&["--force-init"], &["volume `web`", "remove-volume"]);
    let remove = ["cache", "remove-volume", flash.as_str(), "--volume", "web"];
    fails(&remove, &["pages that its backing store lacks", "--backing", "--yes"]);
    fails(&remove[..3], &["--volume"]);
    fails(&[&remove[..4], &["x"]].concat(), &["no volume `x`", "db, web"]);
    assert!(cache.bytes("web.img")[..300 * PAGE].iter().any(|&byte| byte != 2));
    let said = text(&[&remove[..], &["--backing", &web]].concat());
    assert!(said.contains("volume `web` is removed"), "{said}");
    assert!(cache.bytes("web.img")[..300 * PAGE].iter().all(|&byte| byte == 2));
    // With one volume left, commands need no name.
    assert_eq!(json(&["cache", "inspect", &flash, "--json"])["page_bytes"], 4096);
    let engine = cache.start();
    check(&mut engine.client_of("db"), 300, 1);
    engine.stop();
    // It comes back where it was, empty, and with what its backing store has.
    let engine = cache.replace(&both).start();
    check(&mut engine.client_of("web"), 300, 2);
    check(&mut engine.client_of("db"), 300, 1);
    engine.stop();
    fails(&["cache", "inspect", &flash], &["several volumes", "--volume", "db, web"]);
    text(&["cache", "remove-volume", &flash, "--volume", "db", "--yes"]);
    cache.refused(&[], &["[[volume]] `db`", "cache forget --backing"]);
}

#[test]
fn a_share_of_the_flash_changes_at_a_start() {
    let mut cache = of_two();
    let engine = cache.start();
    fill(&mut engine.client_of("web"), 300, 2);
    engine.stop();
    // A smaller share needs no other region.
    edit(&mut cache, "size = \"2MiB\"", "size = \"1MiB\"");
    let engine = cache.start();
    check(&mut engine.client_of("web"), 300, 2);
    engine.stop();
    let larger = cache.config_text().replace("size = \"8MiB\"", "size = \"10MiB\"");
    let mut config: toml::Table = larger.parse().unwrap();
    let web = &mut config["volume"].as_array_mut().unwrap()[1];
    web["flash"]["size"] = "6MiB".into();
    cache.replace(&config.to_string());
    // A larger one gets room behind the other volume's.
    let engine = cache.start();
    assert_eq!(status_of(&engine, "web")["capacity_pages"][1], 1536);
    check(&mut engine.client_of("web"), 300, 2);
    engine.stop();
}

#[test]
fn a_flash_of_one_store_and_one_of_volumes_are_told_apart() {
    let single = Cache::new(11);
    let engine = single.start();
    fill(&mut engine.client(), 100, 7);
    engine.stop();
    let cache = of_two();
    std::fs::copy(single.path("flash.img"), cache.path("flash.img")).unwrap();
    cache.refused(&[], &["single backing store", "cache drain", "--force-init"]);
    fails(
        &["cache", "inspect", &cache.file("flash.img"), "--volume", "db"],
        &["no volumes", "leave --volume out"],
    );
    let engine = cache.start_with(&["--force-init"]);
    fill(&mut engine.client_of("db"), 100, 1);
    engine.stop();
    // The other way round, nothing but the removal of each volume helps.
    std::fs::copy(cache.path("flash.img"), single.path("flash.img")).unwrap();
    for words in [&[][..], &["--force-init"]] {
        single.refused(words, &["volumes (db, web)", "no [[volume]]", "remove-volume"]);
    }
}

#[test]
fn configurations_of_volumes_that_cannot_work_are_refused_with_their_place() {
    for (from, to, parts) in [
        ("name = \"web\"", "name = \"db\"", &["two [[volume]]", "`db`"][..]),
        ("name = \"web\"", "name = \"a b\"", &["number 2", "invalid name `a b`"]),
        ("name = \"web\"", "name = \"\"", &["number 2", "invalid name"]),
        (
            "size = \"3MiB\"",
            "size = \"1MiB\"",
            &["`ram.size` is 1048576", "2097152 bytes together"],
        ),
        ("size = \"8MiB\"", "size = \"4MiB\"", &["`flash.size`", "6291456 bytes together"]),
        ("\"lru-inclusive\"", "\"lruu\"", &["[[volume]] `web`", "`policy.name`", "lru"]),
        ("path = \"web.img\"", "path = \"disk.img\"", &["`db` and `web`", "`backing.path`"]),
        ("path = \"web.img\"", "path = \"./disk.img\"", &["`web`", "backing store of volume `db`"]),
        ("path = \"web.img\"", "nbd = \"nbd://a/\"", &["`web`", "`backing.note`"]),
        ("path = \"flash.img\"", "path = \"web.img\"", &["`flash.path`", "given twice"]),
        ("[nbd]", "[policy]\nname = \"lru\"\n[nbd]", &["`[policy]`", "`[volume.policy]`"]),
        ("[nbd]", "[nbd]\nexport = \"x\"", &["`nbd.export`", "`name`"]),
        ("[nbd]", "[record]\npath = \"x\"\n[nbd]", &["`[record]`", "[[volume]]"]),
        ("[nbd]", "[nbd]\nspeed = 3", &["speed"]),
        ("name = \"web\"", "name = \"web\"\nspeed = 3", &["speed"]),
    ] {
        let mut cache = of_two();
        edit(&mut cache, from, to);
        cache.refused(&[], parts);
        assert!(!cache.path("flash.img").exists(), "{to}: nothing was changed");
    }
    let mut cache = of_two();
    cache.unset("flash").refused(&[], &["[[volume]] `db`", "[flash]", "missing"]);
    let mut cache = of_two();
    cache.set("volume", Vec::<toml::Value>::new()).refused(&[], &["0 [[volume]]"]);
}
