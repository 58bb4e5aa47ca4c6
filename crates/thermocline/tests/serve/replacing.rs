//! The flash is replaced while clients are served, while it fails, and while the server is killed.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;

use super::crashes::{CLIENTS, PAGES, range, step};
use super::faults::Full;
use super::model::Model;
use super::volumes::{edit, fill as fill_volume, of_two, status_of, without_web};
use super::{Cache, Client, Engine, fails, flush, json, text, thermocline};

/// Models of clients, each with a range of its own.
pub(crate) fn models() -> Vec<Model> {
    (0..CLIENTS).map(|client| Model::new(client * PAGES, PAGES)).collect()
}

/// Return the words of the command that replaces the flash by `name`.
fn replace<'a>(config: &'a str, new: &'a str) -> Vec<&'a str> {
    vec!["cache", "replace", config, "--flash", new]
}

/// Clients of the only volume work until `meanwhile` is done, and may see errors unless `are_served`.
pub(crate) fn under_load<T>(
    engine: &Engine,
    models: &mut [Model],
    seed: u64,
    are_served: bool,
    meanwhile: impl FnOnce() -> T,
) -> T {
    let clients = models.iter_mut().map(|model| (engine.client(), model)).collect();
    working(clients, seed, are_served, meanwhile)
}

/// Runs `meanwhile` while each client works on the model of its range.
fn working<T>(
    clients: Vec<(Client, &mut Model)>,
    seed: u64,
    are_served: bool,
    meanwhile: impl FnOnce() -> T,
) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (number, (mut client, model)) in (0..).zip(clients) {
            let (mut random, is_over) = (SplitMix64::new(seed.wrapping_add(number)), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    match step(&mut client, model, &mut random) {
                        Err(error) if are_served => panic!("a client saw {error}"),
                        Err(_) => return,
                        Ok(()) => {}
                    }
                }
            });
        }
        let result = meanwhile();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

pub(crate) fn check(engine: &Engine, models: &[Model]) {
    for model in models {
        let found = range(&mut engine.client(), model);
        assert!(found == model.read(0, model.sectors()), "what was acknowledged is there");
    }
}

#[test]
fn clients_notice_nothing_of_a_new_flash() {
    let mut cache = Cache::new(11);
    let mut models = models();
    for (round, (policy, engine, shards)) in [
        ("hat", "auto", 1),
        ("lru-inclusive", "threads", 1),
        ("face-gsc", "auto", 1),
        ("hat", "threads", 2),
        ("lru-inclusive", "auto", 4),
    ]
    .into_iter()
    .enumerate()
    {
        if shards > 1 {
            // Another number of shards is another flash.
            (cache, models) = (Cache::new(11), self::models());
        }
        cache.set("policy.name", policy).set("io.engine", engine).set("cleaning.dirty_ratio", 1.0);
        cache.set("shards", shards);
        let engine = cache.start();
        let (config, new) = (cache.file("cache.toml"), cache.file(&format!("new.{round}")));
        under_load(&engine, &mut models, 10 * round as u64, true, || {
            thread::sleep(Duration::from_millis(300));
            let words = [&replace(&config, &new)[..], &["--size", "3MiB"]].concat();
            let said = text(&words);
            assert!(said.contains("set `flash.path`"), "{said}");
            thread::sleep(Duration::from_millis(300));
        });
        let status = engine.status();
        assert_eq!(status["has_flash"], true, "{status}");
        assert_eq!(status["policy"], policy, "{status}");
        assert_eq!(status["capacity_pages"][1], 768, "{status}");
        assert!(status["dirty_pages"].as_u64().unwrap() > 0, "the new one is used: {status}");
        check(&engine, &models);
        engine.stop();
        let log = cache.try_start().err().unwrap();
        assert!(log.contains("flash"), "the old one is not taken again: {log}");
        cache.set("flash.path", new).set("flash.size", "3MiB");
        let engine = cache.start();
        check(&engine, &models);
        engine.stop();
    }
}

#[test]
fn a_kill_during_a_replacement_loses_nothing() {
    is_killed_during_replacements(1);
}

#[test]
fn a_kill_during_a_replacement_of_several_shards_loses_nothing() {
    is_killed_during_replacements(3);
}

fn is_killed_during_replacements(shards: i64) {
    let mut cache = Cache::new(11);
    let mut models = models();
    let mut random = SplitMix64::new(8);
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    cache.set("shards", shards);
    let mut current = "flash.img".to_owned();
    // Which of the two the start after a kill took: the old flash, or the new one.
    let mut taken = [0; 2];
    for round in 0..12 {
        let new = format!("new.{round}");
        let (config, new_path) = (cache.file("cache.toml"), cache.file(&new));
        let engine = cache.start();
        // Several shards have more to do at once.
        let most = if shards > 1 { 4000 } else { 1000 };
        let millis = random.bits() % [150, 400, most][round % 3];
        under_load(&engine, &mut models, random.bits(), false, || {
            thread::sleep(Duration::from_millis(200));
            thread::scope(|scope| {
                scope.spawn(|| {
                    // It may be done before the kill, or not.
                    drop(thermocline(&replace(&config, &new_path)));
                });
                thread::sleep(Duration::from_millis(millis));
                engine.signal("KILL");
            });
        });
        engine.kill();
        let order = if random.bits().is_multiple_of(2) { [0, 1] } else { [1, 0] };
        let mut started = None;
        for chosen in order {
            let path = [&current, &new][chosen].clone();
            match cache.set("flash.path", path.as_str()).try_start() {
                Ok(engine) => {
                    started = Some((engine, path));
                    taken[chosen] += 1;
                    break;
                }
                Err(log) => assert!(
                    log.is_empty() || !log.contains("panicked"),
                    "round {round}, {millis} ms, {path}: {log}"
                ),
            }
        }
        let Some((engine, path)) = started else {
            panic!("round {round}, {millis} ms: neither flash is taken");
        };
        for model in &mut models {
            let found = range(&mut engine.client(), model);
            model.recover(&found);
        }
        check(&engine, &models);
        engine.kill();
        current = path;
    }
    assert!(
        taken.iter().all(|&starts| starts > 0),
        "kills before and after the exchange: {taken:?}"
    );
}

#[test]
fn a_new_flash_takes_over_from_one_that_failed() {
    let mut cache = Cache::new(11);
    let full_cache = Cache::new(1);
    let Some(_full) = Full::mount(&full_cache, 2 << 20) else { return };
    let flash = full_cache.file("full/flash.img");
    File::create(&flash).unwrap().set_len(64 << 20).unwrap();
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    let engine = cache.set("flash.path", flash.as_str()).set("shards", 2).start();
    let mut models = models();
    under_load(&engine, &mut models, 3, true, || {
        engine.wait_for("the flash to fail", || {
            (engine.status()["has_flash"] == false).then_some(())
        });
        let (config, new) = (cache.file("cache.toml"), cache.file("new.img"));
        text(&replace(&config, &new));
        thread::sleep(Duration::from_millis(300));
    });
    let status = engine.status();
    assert_eq!(status["has_flash"], true, "{status}");
    assert_eq!(status["policy"], "lru-inclusive", "{status}");
    assert_eq!(status["flash_retired_slots"], 0, "{status}");
    check(&engine, &models);
    engine.kill();
    cache.refused(&[], &["has newer bytes of this backing store"]);
    let engine = cache.set("flash.path", "new.img").start();
    for model in &mut models {
        let found = range(&mut engine.client(), model);
        model.recover(&found);
    }
}

#[test]
fn a_flash_that_cannot_be_used_is_refused_and_nothing_changes() {
    let cache = Cache::new(11);
    cache.write_config();
    let (config, new) = (cache.file("cache.toml"), cache.file("new.img"));
    fails(&replace(&config, &new), &["thermocline.sock.control", "does it run"]);
    let engine = cache.start();
    let socket = std::fs::metadata(cache.path("thermocline.sock.control")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    let mut models = models();
    let mut client = engine.client();
    let mut random = SplitMix64::new(2);
    for _ in 0..200 {
        step(&mut client, &mut models[0], &mut random).unwrap();
    }
    fails(&replace(&config, &cache.file("flash.img")), &["flash.path", "in use"]);
    fails(&replace(&config, &cache.file("disk.img")), &["backing.path", "in use"]);
    std::fs::write(cache.path("other.img"), vec![7; 1 << 20]).unwrap();
    let other = cache.file("other.img");
    fails(&replace(&config, &other), &["other.img", "--force-init"]);
    assert_eq!(cache.bytes("other.img"), vec![7; 1 << 20], "nothing was written there");
    let words = [&replace(&config, &new)[..], &["--size", "1KiB"]].concat();
    fails(&words, &["flash.size", "at least a page"]);
    assert_eq!(engine.status()["has_flash"], true);
    check(&engine, &models[..1]);
    let words = [&replace(&config, &other)[..], &["--force-init"]].concat();
    text(&words);
    check(&engine, &models[..1]);
    fails(&replace(&config, &other), &["flash.path", "in use"]);
    // The flash that was there first, with the socket of the same server.
    let old = cache.file("flash.img");
    fails(&replace(&config, &old), &["flash.img", "--force-init"]);
    text(&[&replace(&config, &old)[..], &["--force-init"]].concat());
    check(&engine, &models[..1]);
    text(&replace(&config, &new));
    engine.stop();
}

/// Gives every page from 1 to 9 a byte, and has them written durably.
fn fill(engine: &Engine, byte: u8) {
    let mut client = engine.client();
    for page in 1..=9 {
        client.write(page * 4096, &[byte; 4096]).unwrap();
    }
    flush(&mut client);
}

/// Assert that every page from 1 to 9 has that byte.
#[track_caller]
fn is_filled(engine: &Engine, byte: u8) {
    let mut client = engine.client();
    for page in 1..=9 {
        assert!(client.read(page * 4096, 4096).unwrap() == [byte; 4096], "page {page}");
    }
}

fn inspected(cache: &Cache, flash: &str, key: &str) -> u64 {
    json(&["cache", "inspect", &cache.file(flash), "--json"])[key].as_u64().unwrap()
}

#[test]
fn the_end_of_a_server_is_on_the_flash_that_it_used_last() {
    for drains in [false, true] {
        let mut cache = Cache::new(8);
        cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
        let cache = cache.set("cleaning.drain_at_exit", drains);
        let engine = cache.start();
        fill(&engine, 1);
        let (config, new) = (cache.file("cache.toml"), cache.file("new.img"));
        text(&replace(&config, &new));
        // The old flash says that it has nothing any more.
        assert_eq!(inspected(cache, "flash.img", "held_pages"), 0);
        fill(&engine, 2);
        engine.stop();
        assert_eq!(inspected(cache, "new.img", "dirty_pages") == 0, drains);
        let says_new = std::fs::read(cache.path("disk.img.thermocline")).unwrap();
        // The dirty pages of the new flash forbid the start with the old one.
        let is_refused = |cache: &Cache| {
            if !drains {
                cache.refused(&[], &["flash.path", "has newer bytes"]);
            }
        };
        is_refused(cache);
        assert_eq!(std::fs::read(cache.path("disk.img.thermocline")).unwrap(), says_new);
        cache.set("flash.path", "new.img");
        let engine = cache.start();
        let log = engine.log();
        assert!(!log.contains("may be old"), "{log}");
        is_filled(&engine, 2);
        let status = engine.status();
        let found = &status["accesses"]["read"];
        assert!(found["flash"].as_u64().unwrap() >= 9, "the start is warm: {found}");
        engine.stop();
        // Something that the old cache never saw.
        let engine = cache.start();
        fill(&engine, 3);
        engine.stop();
        is_refused(cache.set("flash.path", "flash.img"));
        let engine = cache.set("flash.path", "new.img").start();
        is_filled(&engine, 3);
        engine.stop();
    }
}

/// Clients of two volumes work until `meanwhile` is done.
fn volumes_under_load<T>(
    engine: &Engine,
    models: &mut [Model; 2],
    random: &mut SplitMix64,
    are_served: bool,
    meanwhile: impl FnOnce() -> T,
) -> T {
    let clients = VOLUMES.into_iter().zip(models);
    let clients = clients.map(|(name, model)| (engine.client_of(name), model)).collect();
    working(clients, random.bits(), are_served, meanwhile)
}

const VOLUMES: [&str; 2] = ["db", "web"];

#[test]
fn the_flash_of_volumes_is_replaced_under_load() {
    for shards in [1, 2] {
        let mut cache = of_two();
        cache.set("shards", shards);
        let mut models = [Model::new(0, PAGES), Model::new(0, PAGES)];
        let mut random = SplitMix64::new(5);
        let engine = cache.start();
        let (config, new) = (cache.file("cache.toml"), cache.file("new.img"));
        volumes_under_load(&engine, &mut models, &mut random, true, || {
            thread::sleep(Duration::from_millis(300));
            text(&replace(&config, &new));
            thread::sleep(Duration::from_millis(300));
        });
        for (name, model) in VOLUMES.into_iter().zip(&models) {
            let status = status_of(&engine, name);
            assert_eq!(status["has_flash"], true, "{status}");
            assert!(range(&mut engine.client_of(name), model) == model.read(0, model.sectors()));
        }
        // Shares still grow, and volumes come and go, on the new flash.
        edit(&mut cache, "flash.img", "new.img");
        edit(&mut cache, "size = \"4MiB\"", "size = \"5MiB\"");
        assert!(engine.reload(&cache));
        engine.wait_for("the larger share", || {
            (status_of(&engine, "db")["capacity_pages"][1] == 1280).then_some(())
        });
        let both = cache.config_text();
        without_web(&mut cache);
        assert!(engine.reload(&cache));
        engine.wait_for("the volume to leave", || {
            engine.log().contains("the volume is gone").then_some(())
        });
        assert!(engine.reload_text(&cache, &both));
        engine.wait_for("the volume to come back", || {
            engine.log().contains("serving a new volume").then_some(())
        });
        assert!(
            range(&mut engine.client_of("web"), &models[1])
                == models[1].read(0, models[1].sectors())
        );
        volumes_under_load(&engine, &mut models, &mut random, true, || {
            thread::sleep(Duration::from_millis(200));
        });
        engine.kill();
        let engine = cache.replace(&both).start();
        for (name, model) in VOLUMES.into_iter().zip(&mut models) {
            let found = range(&mut engine.client_of(name), model);
            model.recover(&found);
        }
        engine.stop();
        edit(&mut cache, "new.img", "flash.img");
        let log = cache.try_start().err().unwrap();
        assert!(log.contains("flash"), "the old one is not taken again: {log}");
    }
}

#[test]
fn a_kill_during_a_replacement_with_volumes_loses_nothing() {
    let mut cache = of_two();
    cache.set("shards", 2);
    let mut models = [Model::new(0, PAGES), Model::new(0, PAGES)];
    let mut random = SplitMix64::new(6);
    let mut current = "flash.img".to_owned();
    // Starts with the old flash, and with the new one.
    let mut taken = [0; 2];
    for round in 0..10 {
        let new = format!("new.{round}");
        let (config, new_path) = (cache.file("cache.toml"), cache.file(&new));
        let engine = cache.start();
        let millis = random.bits() % [100, 300, 1000][round % 3];
        let seed = random.bits();
        volumes_under_load(&engine, &mut models, &mut SplitMix64::new(seed), false, || {
            thread::sleep(Duration::from_millis(200));
            thread::scope(|scope| {
                scope.spawn(|| {
                    // It may be done before the kill, or not.
                    drop(thermocline(&replace(&config, &new_path)));
                });
                thread::sleep(Duration::from_millis(millis));
                engine.signal("KILL");
            });
        });
        engine.kill();
        let mut started = None;
        for (way, path) in [&current, &new].into_iter().enumerate() {
            match cache.set("flash.path", path.as_str()).try_start() {
                Ok(engine) => {
                    started = Some((engine, path.clone()));
                    taken[way] += 1;
                    break;
                }
                Err(log) => assert!(!log.contains("panicked"), "round {round}, {millis} ms: {log}"),
            }
        }
        let Some((engine, path)) = started else { panic!("round {round}: no flash is taken") };
        for (name, model) in VOLUMES.into_iter().zip(&mut models) {
            let found = range(&mut engine.client_of(name), model);
            model.recover(&found);
        }
        engine.kill();
        current = path;
    }
    assert!(taken.iter().all(|&starts| starts > 0), "kills before and after: {taken:?}");
}

#[test]
fn a_flash_that_volumes_cannot_have_is_refused() {
    let mut cache = of_two();
    let engine = cache.start();
    let (config, new) = (cache.file("cache.toml"), cache.file("new.img"));
    let words = [&replace(&config, &new)[..], &["--size", "9MiB"]].concat();
    fails(&words, &["leave --size out"]);
    fails(&[&replace(&config, &new)[..], &["--volume", "db"]].concat(), &["leave --volume out"]);
    fails(&replace(&config, &cache.file("flash.img")), &["flash.path", "in use"]);
    std::fs::write(cache.path("other.img"), vec![7; 2 << 20]).unwrap();
    fails(&replace(&config, &cache.file("other.img")), &["other.img", "--force-init"]);
    fill_volume(&mut engine.client_of("db"), 100, 4);
    flush(&mut engine.client_of("db"));
    engine.stop();
    // The flash of other volumes is not overwritten.
    std::fs::rename(cache.path("flash.img"), cache.path("held.img")).unwrap();
    text(&["cache", "forget", "--backing", &cache.file("disk.img"), "--yes"]);
    let engine = cache.start();
    fails(
        &replace(&config, &cache.file("held.img")),
        &["it is the flash of cache", "--force-init"],
    );
    engine.stop();
    cache.set("flash.path", "flash.img").start().stop();
}
