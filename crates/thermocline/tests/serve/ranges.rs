//! Ranges are evicted and promoted while clients are served.

use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;

use super::crashes::range;
use super::replacing::{check, models, under_load};
use super::{Cache, fails, flush, text, thermocline};

const PAGE: u64 = 4096;

/// Runs a command about a range.
fn command(cache: &Cache, word: &str, range: &str) -> String {
    text(&["cache", word, &cache.file("cache.toml"), range])
}

#[test]
fn a_range_leaves_the_cache_and_comes_back() {
    let mut cache = Cache::new(11);
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    for shards in [1, 2] {
        let engine = cache.set("shards", shards).start_with(&["--force-init"]);
        let mut client = engine.client();
        for page in 0..512 {
            client.write(page * PAGE, &[7; 4096]).unwrap();
        }
        flush(&mut client);
        assert!(engine.status()["dirty_pages"].as_u64().unwrap() > 0);
        let said = command(&cache, "evict", "0-2MiB");
        assert!(said.contains("the backing store has all 512 pages of the range"), "{said}");
        let disk = std::fs::read(cache.path("disk.img")).unwrap();
        assert!(disk[..2 << 20].iter().all(|&byte| byte == 7), "it was written back");
        let before = engine.status();
        assert_eq!(before["dirty_pages"], 0, "{before}");
        let said = command(&cache, "promote", "1MiB+100KiB");
        assert_eq!(said, "25 of the 25 pages of the range are in the cache\n");
        client.read(1 << 20, 100 << 10).unwrap();
        client.read(0, 4096).unwrap();
        let after = engine.status();
        let reads = |status: &serde_json::Value, tier: &str| {
            status["accesses"]["read"][tier].as_u64().unwrap()
        };
        let found = ["ram", "flash", "disk"].map(|tier| reads(&after, tier) - reads(&before, tier));
        assert_eq!(found[0] + found[1], 25, "what was promoted hits: {after}");
        assert_eq!(found[2], 26, "the promotion, and what was evicted: {after}");
        engine.stop();
    }
}

#[test]
fn commands_about_ranges_say_what_is_wrong() {
    let cache = Cache::new(11);
    let config = cache.file("cache.toml");
    let refused = |word: &str, range: &str, part: &str| {
        fails(&["cache", word, &config, range], &[part]);
    };
    cache.write_config();
    refused("evict", "0+1MiB", "cannot reach the server");
    let engine = cache.start();
    refused("evict", "5", "use OFFSET+LENGTH or START-END");
    refused("promote", "1MiB+0", "it has no byte");
    refused("evict", "0-1GiB", "the range ends beyond the device's");
    refused("pin", "0+1", "`flash.pinned`, or `ram.pinned` without a flash");
    fails(&["cache", "promote", &config, "0+1", "--volume", "db"], &["leave --volume out"]);
    engine.stop();
}

#[test]
fn pinned_ranges_survive_a_kill_and_a_restart() {
    let mut cache = Cache::new(11);
    cache.set("policy.name", "lru-inclusive").set("flash.pinned", "1MiB");
    for shards in [1_u8, 2] {
        let engine = cache.set("shards", i64::from(shards)).start_with(&["--force-init"]);
        let said = command(&cache, "pin", "4MiB+512KiB");
        assert!(said.contains("128 of its 128 pages are in the cache"), "{said}");
        let mut client = engine.client();
        for page in 0..2816 {
            client.write(page * PAGE, &[shards; 4096]).unwrap();
        }
        flush(&mut client);
        assert_eq!(engine.status()["pinned_pages"], 128);
        engine.kill();
        let engine = cache.start();
        let mut client = engine.client();
        // A start reads what is missing.
        let status = engine.wait_for("pinned pages", || {
            let status = engine.status();
            (status["pinned_pages"] == 128).then_some(status)
        });
        let before = status["devices"]["backing"]["reads"].clone();
        for page in 1024..1152 {
            assert_eq!(client.read(page * PAGE, 4096).unwrap(), [shards; 4096]);
        }
        let after = engine.status()["devices"]["backing"]["reads"].clone();
        assert_eq!(before, after, "reads of pinned pages need no backing store");
        let config = cache.file("cache.toml");
        fails(&["cache", "evict", &config, "0-5MiB"], &["128 pages of the range are pinned"]);
        fails(&["cache", "pin", &config, "0-4MiB"], &["a shard has room for"]);
        let said = command(&cache, "unpin", "0-11MiB");
        assert!(said.contains("128 pages left the cache"), "{said}");
        assert_eq!(engine.status()["pinned_pages"], 0);
        engine.stop();
        let engine = cache.start();
        assert_eq!(engine.status()["pinned_pages"], 0, "it is unpinned for good");
        engine.stop();
    }
    // A smaller part than is pinned is refused.
    let engine = cache.start();
    command(&cache, "pin", "0+512KiB");
    engine.stop();
    cache
        .set("flash.pinned", "64KiB")
        .refused(&[], &["pages are pinned", "room for", "disk.img.thermocline.pins"]);
}

/// Runs so many commands about ranges one after the other, or as many as the server carries out.
fn command_ranges(config: &str, seed: u64, commands_max: usize) {
    let mut random = SplitMix64::new(seed);
    for number in 0..commands_max {
        let (start, pages) = (random.bits() % 1024, 1 + random.bits() % 1024);
        let range = format!("{}+{}", start * PAGE, pages * PAGE);
        let words = ["evict", "pin", "promote", "unpin", "evict"];
        let output = thermocline(&["cache", words[number % words.len()], config, &range]);
        // Pinned pages are not evicted, and no more are pinned than there is room for.
        let said = String::from_utf8_lossy(&output.stderr);
        let is_alive = output.status.success() || said.contains("pinned");
        if !is_alive {
            return;
        }
    }
}

#[test]
fn clients_notice_nothing_of_ranges_that_come_and_go() {
    let mut cache = Cache::new(11);
    let mut models = models();
    let config = cache.file("cache.toml");
    for (round, (policy, shards)) in [("hat", 1), ("lc", 2), ("face-gsc", 1)].iter().enumerate() {
        cache.set("policy.name", *policy).set("shards", *shards).set("cleaning.dirty_ratio", 1.0);
        let words: &[&str] = if round == 0 { &[] } else { &["--force-init"] };
        cache.set("cleaning.drain_at_exit", true).set("flash.pinned", "2MiB");
        // Other shards may have no room for what the former ones pinned.
        drop(std::fs::remove_file(cache.path("disk.img.thermocline.pins")));
        let engine = cache.start_with(words);
        let seed = round as u64;
        under_load(&engine, &mut models, seed, true, || command_ranges(&config, seed, 10));
        check(&engine, &models);
        engine.stop();
    }
}

#[test]
fn a_kill_during_an_eviction_loses_nothing() {
    let mut cache = Cache::new(11);
    let mut models = models();
    let mut random = SplitMix64::new(5);
    let config = cache.file("cache.toml");
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    cache.set("flash.pinned", "2MiB");
    for _ in 0..6 {
        let engine = cache.start();
        let (seed, millis) = (random.bits(), random.bits() % 400);
        under_load(&engine, &mut models, random.bits(), false, || {
            thread::scope(|scope| {
                scope.spawn(|| command_ranges(&config, seed, usize::MAX));
                thread::sleep(Duration::from_millis(200 + millis));
                engine.signal("KILL");
            });
        });
        engine.kill();
        let engine = cache.start();
        for model in &mut models {
            let found = range(&mut engine.client(), model);
            model.recover(&found);
        }
        check(&engine, &models);
        engine.kill();
    }
}
