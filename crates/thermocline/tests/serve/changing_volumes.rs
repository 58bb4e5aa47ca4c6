//! Volumes that come and go while the server runs.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;

use super::crashes::{CLIENTS, PAGES, range, step};
use super::faults::Full;
use super::model::Model;
use super::volumes::{MIB, check, edit, fill, of_two, status_of, without_web};
use super::{Cache, Client, Engine, fails, flush, text};

const PAGE: usize = 4096;

/// Return the configurations with and without the second volume. The cache has the one without.
fn both_and_one(cache: &mut Cache) -> [String; 2] {
    let both = cache.config_text();
    without_web(cache);
    [both, cache.config_text()]
}

/// Waits until the log says something once more than before.
#[track_caller]
fn says(engine: &Engine, words: &str, before: &str) {
    let count = before.matches(words).count();
    engine.wait_for(words, || (engine.log().matches(words).count() > count).then_some(()));
}

/// Reads another configuration, and waits until the log says what becomes of it.
#[track_caller]
fn reload(engine: &Engine, cache: &Cache, text: &str, words: &str) {
    let before = engine.log();
    assert!(engine.reload_text(cache, text), "{}", engine.log());
    says(engine, words, &before);
}

/// Ends another thread's work, also if this one panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn refused(engine: &Engine, export: &str) -> bool {
    Client::connect(&engine.socket(), export).is_err()
}

#[test]
fn a_volume_comes_and_goes_while_another_one_works() {
    for shards in [1, 2] {
        let mut cache = of_two();
        cache.set("shards", shards);
        let [both, one] = both_and_one(&mut cache);
        let engine = cache.start();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut client = engine.client_of("db");
            let is_over = &is_over;
            let _over = Over(is_over);
            let worker = scope.spawn(move || {
                let (mut model, mut random) = (Model::new(0, PAGES), SplitMix64::new(3));
                while !is_over.load(Ordering::Relaxed) {
                    step(&mut client, &mut model, &mut random).unwrap();
                }
                model
            });
            assert!(refused(&engine, "web"));
            reload(&engine, &cache, &both, "serving a new volume");
            let mut web = engine.client_of("web");
            fill(&mut web, 300, 2);
            flush(&mut web);
            engine.wait_for("the client to be counted", || {
                (status_of(&engine, "web")["clients"] == 1).then_some(())
            });
            assert!(engine.get("/metrics").contains("volume=\"web\""));
            // Whoever is attached stays as long as he likes.
            reload(&engine, &cache, &one, "waiting until the volume's clients have left");
            assert!(refused(&engine, "web"));
            fill(&mut web, 301, 3);
            check(&mut web, 301, 3);
            let before = engine.log();
            drop(web);
            says(&engine, "the volume is gone", &before);
            assert!(cache.bytes("web.img")[..301 * PAGE].iter().all(|&byte| byte == 3));
            assert!(!engine.get("/metrics").contains("volume=\"web\""));
            is_over.store(true, Ordering::Relaxed);
            let model = worker.join().unwrap();
            assert!(range(&mut engine.client_of("db"), &model) == model.read(0, model.sectors()));
            // Its place is free for its return, which begins with what the backing store has.
            reload(&engine, &cache, &both, "serving a new volume");
            let mut web = engine.client_of("web");
            check(&mut web, 301, 3);
            fill(&mut web, 10, 4);
        });
        engine.stop();
        // A volume that came while the server ran is found at the next start.
        let engine = cache.replace(&both).start();
        check(&mut engine.client_of("web"), 10, 4);
        reload(&engine, &cache, &one, "the volume is gone");
        engine.stop();
        fails(&["cache", "inspect", &cache.file("flash.img"), "--volume", "web"], &["no volume"]);
        assert!(cache.bytes("web.img")[..10 * PAGE].iter().all(|&byte| byte == 4));
    }
}

#[test]
fn a_volume_that_is_wanted_again_stays_as_it_was() {
    let mut cache = of_two();
    let [both, one] = both_and_one(&mut cache);
    let engine = cache.replace(&both).start();
    let mut web = engine.client_of("web");
    fill(&mut web, 300, 2);
    reload(&engine, &cache, &one, "waiting until the volume's clients have left");
    reload(&engine, &cache, &both, "in the configuration again");
    engine
        .wait_for("the export to be open again", || Client::connect(&engine.socket(), "web").ok());
    check(&mut web, 300, 2);
    assert_eq!(status_of(&engine, "web")["policy"], "lru-inclusive");
    assert_eq!(status_of(&engine, "web")["has_flash"], true);
    engine.stop();
}

#[test]
fn a_volume_whose_backing_store_takes_nothing_stays_until_it_does() {
    let mut cache = of_two();
    let full_cache = Cache::new(1);
    // Room for few pages of its file, which has holes.
    let Some(full) = Full::mount(&full_cache, 256 << 10) else { return };
    let disk = full_cache.file("full/web.img");
    File::create(&disk).unwrap().set_len(11 * MIB).unwrap();
    edit(&mut cache, "web.img", &disk);
    let [both, one] = both_and_one(&mut cache);
    let engine = cache.replace(&both).start();
    fill(&mut engine.client_of("web"), 300, 2);
    let before = engine.log();
    reload(&engine, &cache, &one, "writing the volume's pages back");
    says(&engine, "does not take", &before);
    let mut web = engine
        .wait_for("the export to be open again", || Client::connect(&engine.socket(), "web").ok());
    check(&mut web, 300, 2);
    fill(&mut engine.client_of("db"), 100, 1);
    full.grow(32 << 20);
    drop(web);
    reload(&engine, &cache, &one, "the volume is gone");
    let bytes = full_cache.bytes("full/web.img");
    assert!(bytes[..300 * PAGE].iter().all(|&byte| byte == 2));
    check(&mut engine.client_of("db"), 100, 1);
    engine.stop();
}

#[test]
fn a_volume_that_cannot_come_keeps_nobody_from_the_rest() {
    let mut cache = of_two();
    let [both, one] = both_and_one(&mut cache);
    let engine = cache.start();
    for (from, to, reason) in [
        ("size = \"3MiB\"", "size = \"2MiB\"", ""),
        ("path = \"web.img\"", "path = \"none.img\"", "none.img"),
        ("path = \"web.img\"", "path = \"flash.img\"", "given twice"),
        ("path = \"web.img\"", "path = \"./disk.img\"", "disk.img"),
        ("name = \"web\"", "name = \"web\"\nvhost_user = { socket = \"x\" }", "server starts"),
        ("name = \"web\"", "name = \"web\"\nrecord = { path = \"none/x.zst\" }", "none"),
    ] {
        cache.replace(&both);
        edit(&mut cache, from, to);
        edit(&mut cache, "\"hat\"", "\"lru\"");
        let done =
            if reason.is_empty() { "serving a new volume" } else { "did not add the volume" };
        let before = engine.log();
        reload(&engine, &cache, &cache.config_text(), done);
        assert!(engine.log()[before.len()..].contains(reason), "{reason}: {}", engine.log());
        assert_eq!(status_of(&engine, "db")["policy"], "lru");
        assert_eq!(refused(&engine, "web"), !reason.is_empty());
        if reason.is_empty() {
            reload(&engine, &cache, &one, "the volume is gone");
        }
    }
    // RAM that another volume still has is not given away.
    cache.replace(&both);
    edit(&mut cache, "size = \"3MiB\"", "size = \"2MiB\"");
    edit(&mut cache, "name = \"web\"", "name = \"new\"");
    let renamed = cache.config_text();
    reload(&engine, &cache, &both, "serving a new volume");
    let web = engine.client_of("web");
    reload(&engine, &cache, &renamed, "are free when they are gone");
    let before = engine.log();
    drop(web);
    says(&engine, "the volume is gone", &before);
    reload(&engine, &cache, &renamed, "serving a new volume");
    fill(&mut engine.client_of("new"), 10, 5);
    engine.stop();
}

#[test]
fn nothing_durable_is_lost_when_the_server_is_killed_while_volumes_come_and_go() {
    let mut random = SplitMix64::new(5);
    for shards in [1, 2] {
        let mut cache = of_two();
        cache.set("shards", shards);
        let [both, one] = both_and_one(&mut cache);
        let of_one = || (0..CLIENTS).map(|client| Model::new(client * PAGES, PAGES)).collect();
        let mut models: Vec<Model> = of_one();
        for round in 0..5 {
            let engine = cache.replace(&one).start();
            // It comes, sometimes not in time.
            std::fs::write(cache.path("cache.toml"), &both).unwrap();
            engine.signal("HUP");
            if round % 2 == 0 {
                thread::sleep(Duration::from_millis(random.bits() % 30));
                engine.kill();
            } else {
                engine.wait_for("the volume", || Client::connect(&engine.socket(), "web").ok());
                for model in &mut models {
                    let mut client = engine.client_of("web");
                    let found = range(&mut client, model);
                    model.recover(&found);
                    for _ in 0..100 {
                        step(&mut client, model, &mut random).unwrap();
                    }
                }
                // It goes, sometimes not in time.
                std::fs::write(cache.path("cache.toml"), &one).unwrap();
                engine.signal("HUP");
                thread::sleep(Duration::from_millis(random.bits() % 600));
                engine.kill();
            }
            // The region is whole, or gone and the backing store has everything.
            let engine = cache.replace(&both).start();
            for model in &mut models {
                let found = range(&mut engine.client_of("web"), model);
                model.recover(&found);
            }
            engine.stop();
            let (flash, web) = (cache.file("flash.img"), cache.file("web.img"));
            text(&["cache", "remove-volume", &flash, "--volume", "web", "--backing", &web]);
        }
    }
}
