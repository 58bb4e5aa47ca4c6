//! RAM and flash that move between volumes.

use serde_json::Value;

use super::mirrored::is_mirrored_again_of;
use super::volumes::{check, fill, of_two, status_of};
use super::{Cache, Client, Engine, flush};

const PAGE: usize = 4096;
/// Pages that the first volume reads in a circle, which no share of them helps.
const CIRCLE: u64 = 2800;

/// Two volumes whose load differs.
struct Load {
    db: Client,
    web: Client,
    /// Pages of the second volume, which needs more than its half.
    web_pages: u64,
    page: u64,
}

impl Load {
    fn begin(engine: &Engine, web_pages: u64) -> Self {
        let (mut db, mut web) = (engine.client_of("db"), engine.client_of("web"));
        fill(&mut db, CIRCLE, 1);
        fill(&mut web, web_pages, 2);
        Self { db, web, web_pages, page: 0 }
    }

    fn round(&mut self) {
        for number in 0..self.web_pages {
            let found = self.db.read((self.page % CIRCLE) * PAGE as u64, PAGE).unwrap();
            assert!(found.iter().all(|&byte| byte == 1));
            self.page += 1;
            let found = self.web.read(number * PAGE as u64, PAGE).unwrap();
            assert!(found.iter().all(|&byte| byte == 2));
        }
    }
}

/// Return the pages of a tier that each volume has.
fn pages(engine: &Engine, tier: usize) -> [u64; 2] {
    ["db", "web"].map(|name| status_of(engine, name)["capacity_pages"][tier].as_u64().unwrap())
}

/// Check that a share of a tier has moved, and that everything says so.
fn check_moved(engine: &Engine, tier: &str) {
    let (gains, loses) = (status_of(engine, "web"), status_of(engine, "db"));
    let of = |status: &Value| status["sharing"][tier].clone();
    assert!([&gains, &loses].iter().all(|one| of(one)["moves"].as_u64().unwrap() >= 1), "{gains}");
    // The accesses that fill the caches may move something, too.
    let recent = of(&gains)["recent"].as_array().unwrap().last().unwrap().clone();
    assert!(recent["saved_ms"].as_f64().unwrap() > 0.0, "{gains}");
    assert!(recent["pages"].as_u64() > recent["former_pages"].as_u64(), "{gains}");
    let sample = format!("thermocline_share_moves_total{{volume=\"web\",tier=\"{tier}\"}}");
    let metrics = engine.get("/metrics");
    assert!(metrics.contains(&sample), "{metrics}");
    assert!(engine.log().contains("a share moves between volumes"), "{}", engine.log());
}

#[test]
fn ram_moves_to_the_volume_that_gains_most() {
    ram_moves(1);
}

#[test]
fn ram_of_several_shards_moves() {
    ram_moves(2);
}

fn ram_moves(shards: u32) {
    let mut cache = of_two();
    cache.set("shards", shards);
    let text = cache.config_text();
    // The first size is that of all together.
    let text = text.replace("size = \"1MiB\"", "size = \"auto\"");
    let text = text.replace("\"3MiB\"", "\"2560KiB\"");
    let text = text.replace("\"hat\"", "\"lru\"").replace("lru-inclusive", "lru");
    let mut config: toml::Table = text.parse().unwrap();
    config.remove("flash");
    for volume in config["volume"].as_array_mut().unwrap() {
        volume.as_table_mut().unwrap().remove("flash");
    }
    let text = config.to_string();
    let mut engine = cache.replace(&text).start();
    assert_eq!(pages(&engine, 0), [320, 320]);
    // As many extents for each shard.
    let mut load = Load::begin(&engine, 512);
    engine.wait_for("RAM to move", || {
        load.round();
        let [db, web] = pages(&engine, 0);
        (web >= 520 && db <= 120).then_some(())
    });
    check_moved(&engine, "ram");
    engine.stop();
    engine = cache.start();
    check(&mut engine.client_of("db"), CIRCLE, 1);
    check(&mut engine.client_of("web"), 512, 2);
    engine.stop();
    refuses_what_cannot_be(&mut cache, &text, "ram", "2560KiB");
}

/// Return two volumes whose shares of the flash move.
fn with_moving_flash() -> Cache {
    let mut cache = of_two();
    let text = cache.config_text();
    let text = text.replace("size = \"1MiB\"", "size = \"256KiB\"");
    let text = text.replace("size = \"4MiB\"", "size = \"auto\"");
    let text = text.replace("size = \"2MiB\"", "size = \"auto\"");
    let text = text.replace("\"hat\"", "\"lru-exclusive\"");
    cache.replace(&text.replace("lru-inclusive", "lru-exclusive"));
    cache
}

/// Set a key of a volume's share of the flash, or remove it.
fn set_flash(cache: &mut Cache, volume: usize, key: &str, value: &str) {
    let mut config: toml::Table = cache.config_text().parse().unwrap();
    let flash = config["volume"].as_array_mut().unwrap()[volume]["flash"].as_table_mut().unwrap();
    if value.is_empty() {
        flash.remove(key);
    } else {
        flash.insert(key.into(), value.into());
    }
    cache.replace(&config.to_string());
}

#[test]
fn flash_moves_to_the_volume_that_gains_most_and_stays_there() {
    flash_moves(with_moving_flash(), 1400, &[]);
}

#[test]
fn flash_of_several_shards_moves() {
    let mut cache = with_moving_flash();
    cache.set("shards", 2);
    // As many extents for each shard.
    flash_moves(cache, 1536, &[]);
}

#[test]
fn a_mirrored_flash_moves_and_stays_so_on_either_device() {
    let mut cache = with_moving_flash();
    cache.set("flash.mirror", "second.img");
    flash_moves(cache, 1400, &["flash.img", "second.img"]);
}

/// Check that the second volume gets the flash that it needs for `web_pages`, and that flash is where it was after
/// a kill and after a stop. Before each of the two starts, one of the `lost` devices is replaced by an empty one.
fn flash_moves(mut cache: Cache, web_pages: u64, lost: &[&str]) {
    let wanted = web_pages.next_multiple_of(128);
    set_flash(&mut cache, 0, "ceiling", "4MiB");
    set_flash(&mut cache, 1, "ceiling", &format!("{}KiB", wanted * 4));
    let mut engine = cache.start();
    assert_eq!(pages(&engine, 1), [1024, 1024]);
    let mut load = Load::begin(&engine, web_pages);
    engine.wait_for("flash to move", || {
        load.round();
        let [db, web] = pages(&engine, 1);
        assert!(db + web <= 2048, "one gives up what the other one gets");
        (web == wanted && db <= 2048 - wanted).then_some(())
    });
    check_moved(&engine, "flash");
    load.round();
    let moved = pages(&engine, 1);
    // A configuration that is read again leaves shares as they are, and says so if it wants others.
    let text = cache.config_text();
    set_flash(&mut cache, 0, "ceiling", "5MiB");
    assert!(engine.reload(&cache), "{}", engine.log());
    assert_eq!(pages(&engine, 1), moved);
    cache.replace(&text);
    set_flash(&mut cache, 0, "ceiling", "");
    set_flash(&mut cache, 0, "size", "1MiB");
    assert!(engine.reload(&cache), "{}", engine.log());
    assert!(engine.log().contains("a restart makes a share"), "{}", engine.log());
    assert_eq!(pages(&engine, 1), moved);
    cache.replace(&text);
    for (round, is_killed) in [true, false].into_iter().enumerate() {
        load.round();
        flush(&mut load.db);
        flush(&mut load.web);
        let moved = pages(&engine, 1);
        drop(load);
        if is_killed {
            engine.kill();
        } else {
            engine.stop();
        }
        let mut words = vec![];
        if let Some(lost) = lost.get(round) {
            std::fs::remove_file(cache.path(lost)).unwrap();
            words.push("--resilver");
        }
        engine = cache.start_with(&words);
        // To a step: pages in RAM are not on the flash.
        let found = pages(&engine, 1);
        let is_near = found.iter().zip(moved).all(|(found, moved)| found.abs_diff(moved) <= 128);
        assert!(is_near && found[0] < found[1], "the flash keeps the shares: {found:?} {moved:?}");
        load =
            Load { db: engine.client_of("db"), web: engine.client_of("web"), web_pages, page: 0 };
        check(&mut load.db, CIRCLE, 1);
        check(&mut load.web, web_pages, 2);
        if !words.is_empty() {
            is_mirrored_again_of(&engine, "db");
        }
    }
    engine.stop();
}

#[test]
fn shares_that_move_are_written_to_while_they_do() {
    let mut cache = with_moving_flash();
    are_written_to(&cache);
    cache = with_moving_flash();
    cache.set("shards", 2).set("flash.mirror", "second.img");
    are_written_to(&cache);
}

fn are_written_to(cache: &Cache) {
    let engine = cache.start();
    let mut load = Load::begin(&engine, 1400);
    let mut byte = 2;
    engine.wait_for("flash to move", || {
        // Dirty pages of the volume that shrinks go to its backing store.
        fill(&mut load.db, 300, 1);
        load.round();
        (pages(&engine, 1)[1] >= 1400).then_some(())
    });
    for _ in 0..2 {
        byte += 1;
        fill(&mut load.web, 1400, byte);
        check(&mut load.web, 1400, byte);
    }
    flush(&mut load.web);
    check(&mut load.db, CIRCLE, 1);
    engine.kill();
    let engine = cache.start();
    check(&mut engine.client_of("db"), CIRCLE, 1);
    check(&mut engine.client_of("web"), 1400, byte);
    engine.stop();
}

#[test]
fn shares_of_the_flash_that_cannot_move_are_refused() {
    let mut cache = with_moving_flash();
    let text = cache.config_text();
    refuses_what_cannot_be(&mut cache, &text, "flash", "8MiB");
    for (from, to, parts) in [
        ("size = \"auto\"", "size = \"8MiB\"", &["`flash.size`", "leave"][..]),
        ("size = \"auto\"", "size = \"auto\"\npinned = \"1MiB\"", &["`flash.pinned`"]),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(text, changed, "{from}");
        cache.replace(&changed).refused(&[], parts);
    }
    // A sixteenth of it has 16 pages.
    let small = text.replacen("size = \"8MiB\"", "size = \"1MiB\"", 1);
    let parts = ["`flash.size`", "lower `shards`"];
    cache.replace(&small).set("shards", 17).refused(&[], &parts);
    let mut config: toml::Table = text.parse().unwrap();
    config.remove("flash");
    cache
        .replace(&config.to_string())
        .refused(&[], &["[volume.flash]", "[flash], which is missing"]);
}

/// Check that limits that contradict one another are refused. The first size `"auto"` is one of
/// the tier, of which there is `all`.
#[track_caller]
fn refuses_what_cannot_be(cache: &mut Cache, text: &str, tier: &str, all: &str) {
    let (floor, size) = (format!("`{tier}.floor`"), format!("`{tier}.size`"));
    for (from, to, parts) in [
        ("floor", "size = \"128KiB\"\nfloor = \"128KiB\"", &[&*floor, "\"auto\""][..]),
        ("floors", &*format!("size = \"auto\"\nfloor = \"{all}\""), &[&*size, "lower them"]),
        (
            "ceiling",
            "size = \"auto\"\nfloor = \"1MiB\"\nceiling = \"128KiB\"",
            &[&*size, "below its floor"],
        ),
        ("word", "size = \"some\"", &["some", "or \"auto\""]),
    ] {
        let changed = text.replacen("size = \"auto\"", to, 1);
        assert_ne!(text, changed, "{from}");
        cache.replace(&changed).refused(&[], parts);
    }
}
