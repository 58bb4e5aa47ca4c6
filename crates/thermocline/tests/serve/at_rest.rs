//! `thermocline cache`: flash that no engine runs on, clean, dirty, damaged.

use serde_json::json as value;

use super::start::dirty;
use super::{Cache, fails, json, text};

/// Return a page of that byte.
const fn page(byte: u8) -> [u8; 4096] {
    [byte; 4096]
}

/// Return a cache that was stopped when its flash had clean pages of 1 to 4, dirty ones of 5 to 8.
fn half_dirty() -> Cache {
    let mut cache = Cache::new(8);
    // The cleaner, which nothing else stops, must not make pages clean.
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    for (mode, bytes) in [("through", 1..=4_u8), ("back", 5..=8)] {
        let engine = cache.set("write_mode", mode).start();
        for byte in bytes {
            engine.client().write(u64::from(byte) * 4096, &page(byte)).unwrap();
        }
        // The pages go to flash when others take their place.
        engine.client().read(4 << 20, 1 << 20).unwrap();
        engine.client().read(5 << 20, 1 << 20).unwrap();
        engine.stop();
    }
    cache
}

/// Changes one byte of the page of that byte, wherever it lies on flash; whether it lies there.
fn damage(cache: &Cache, byte: u8) -> bool {
    let mut flash = cache.bytes("flash.img");
    let mut is_there = false;
    for slot in flash.chunks_mut(4096).filter(|slot| *slot == page(byte)) {
        slot[1000] ^= 1;
        is_there = true;
    }
    std::fs::write(cache.path("flash.img"), flash).unwrap();
    is_there
}

fn inspect(cache: &Cache) -> serde_json::Value {
    json(&["cache", "inspect", &cache.file("flash.img"), "--json"])
}

#[test]
fn a_flash_says_what_it_is() {
    let cache = Cache::new(8);
    cache.start().stop();
    let found = inspect(&cache);
    assert_eq!(found["page_bytes"], 4096);
    assert_eq!(found["backing_bytes"], 8 << 20);
    assert_eq!([&found["held_pages"], &found["dirty_pages"]], [0, 0]);
    let note = String::from_utf8(cache.bytes("disk.img.thermocline")).unwrap();
    assert!(note.contains(found["cache"].as_str().unwrap()), "{note}");

    let cache = dirty(5);
    let found = inspect(&cache);
    assert_eq!(found["dirty_pages"], 5);
    let table = text(&["cache", "inspect", &cache.file("flash.img")]);
    assert!(table.contains("pages that the backing store lacks") && table.contains('5'), "{table}");
    let flash = cache.file("flash.img");
    assert!(text(&["cache", "check", &flash]).contains("5 pages are intact"));
    let before = cache.bytes("flash.img");
    text(&["cache", "check", &flash]);
    assert!(cache.bytes("flash.img") == before, "looking changes nothing");
    fails(&["cache", "forget", &flash], &["5 pages", "drain", "--yes"]);
    assert!(cache.bytes("flash.img") == before);
}

#[test]
fn damage_is_found_by_its_page() {
    let cache = half_dirty();
    let flash = cache.file("flash.img");
    let intact = json(&["cache", "check", &flash, "--json"]);
    assert_eq!(intact["damaged_clean_pages"], value!([]));
    let held = intact["intact_pages"].as_u64().unwrap();
    assert!(inspect(&cache)["dirty_pages"].as_u64().unwrap() >= 4);
    assert!(damage(&cache, 2) && damage(&cache, 6), "both pages are on flash");
    fails(&["cache", "check", &flash], &["(pages 2)", "(pages 6)", "damaged"]);
    let found = json(&["cache", "check", &flash, "--json"]);
    let expected = value!({
        "intact_pages": held - 2,
        "damaged_metadata_blocks": 0,
        "damaged_clean_pages": [2],
        "lost_pages": [6],
    });
    assert_eq!(found, expected);
    // Draining writes what is intact, and says what is not.
    let disk = cache.file("disk.img");
    fails(&["cache", "drain", &flash, "--backing", &disk], &["lost", "(pages 6)", "cache forget"]);
    let bytes = cache.bytes("disk.img");
    for byte in [1, 2, 3, 4, 5, 7, 8] {
        let start = usize::from(byte) * 4096;
        assert_eq!(bytes[start..start + 4096], page(byte), "page {byte}");
    }
    assert_eq!(inspect(&cache)["dirty_pages"], 1);
}

#[test]
fn a_damaged_block_of_metadata_is_reported_and_repaired() {
    let cache = half_dirty();
    let flash = cache.file("flash.img");
    let dirty_pages = inspect(&cache)["dirty_pages"].clone();
    // The first superblock.
    let mut bytes = cache.bytes("flash.img");
    bytes[100] ^= 1;
    std::fs::write(&flash, bytes).unwrap();
    fails(&["cache", "check", &flash], &["1 damaged blocks of metadata"]);
    assert_eq!(inspect(&cache)["dirty_pages"], dirty_pages);
    assert_eq!(inspect(&cache)["damaged_metadata_blocks"], 1);
    cache.start().stop();
    assert_eq!(inspect(&cache)["damaged_metadata_blocks"], 0);
}

#[test]
fn damaged_pages_are_never_served() {
    let cache = half_dirty();
    assert!(damage(&cache, 2) && damage(&cache, 6), "both pages are on flash");
    let engine = cache.start();
    let mut client = engine.client();
    assert_eq!(client.read(2 * 4096, 4096).unwrap(), page(2), "the disk has it");
    client.read(6 * 4096, 4096).unwrap_err();
    client.write(6 * 4096 + 512, &[0; 512]).unwrap_err();
    let status = engine.status();
    assert_eq!(status["checksum_errors"], 2);
    assert_eq!(status["lost_pages"], 1);
    assert_eq!(status["lost"], value!([{ "offset_bytes": 6 * 4096, "length_bytes": 4096 }]));
    client.write(6 * 4096, &page(66)).unwrap();
    assert_eq!(client.read(6 * 4096, 4096).unwrap(), page(66), "a whole write heals");
    assert_eq!(engine.status()["lost"], value!([]));
    engine.stop();
    assert_eq!(cache.start().client().read(6 * 4096, 4096).unwrap(), page(66));
}

#[test]
fn a_drained_cache_can_be_removed() {
    let mut cache = half_dirty();
    let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
    let dirty = inspect(&cache)["dirty_pages"].as_u64().unwrap();
    let drain = ["cache", "drain", &flash, "--backing", &disk];
    let said = text(&[&drain[..], &["--keep-clean"]].concat());
    assert!(said.contains(&format!("{dirty} pages were written")), "{said}");
    assert_eq!(inspect(&cache)["dirty_pages"], 0);
    assert!(inspect(&cache)["held_pages"].as_u64().unwrap() >= dirty);
    text(&drain);
    assert_eq!(inspect(&cache)["held_pages"], 0);
    text(&["cache", "drain", &flash, "--backing", &disk]);
    std::fs::remove_file(cache.path("flash.img")).unwrap();
    let engine = cache.unset("flash").set("policy.name", "lru").start();
    for byte in 1..=8_u8 {
        assert_eq!(engine.client().read(u64::from(byte) * 4096, 4096).unwrap(), page(byte));
    }
}

#[test]
fn a_cache_can_be_given_up() {
    // With its flash.
    let mut cache = dirty(3);
    let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
    text(&["cache", "forget", &flash, "--backing", &disk, "--yes"]);
    assert_eq!([&inspect(&cache)["held_pages"], &inspect(&cache)["dirty_pages"]], [0, 0]);
    let engine = cache.unset("flash").set("policy.name", "lru").start();
    assert_eq!(engine.client().read(0, 4096).unwrap(), page(0));
    engine.stop();
    // When its flash is gone.
    let mut cache = dirty(3);
    let disk = cache.file("disk.img");
    std::fs::remove_file(cache.path("flash.img")).unwrap();
    cache.refused(&[], &["newer bytes", "cache forget --backing"]);
    fails(&["cache", "forget", "--backing", &disk], &["newer bytes", "--yes"]);
    fails(&["cache", "forget"], &["<FLASH>"]);
    text(&["cache", "forget", "--backing", &disk, "--yes"]);
    cache.start().stop();
    cache.unset("flash").set("policy.name", "lru").start().stop();
    // A flash and a backing store that do not belong together.
    let (cache, other) = (dirty(1), dirty(1));
    let words = ["cache", "forget", &cache.file("flash.img"), "--backing", &other.file("disk.img")];
    fails(&[&words[..], &["--yes"]].concat(), &["newer bytes"]);
    assert_eq!(inspect(&cache)["dirty_pages"], 1);
}

#[test]
fn a_disk_that_was_used_alone_after_a_drain_is_served_as_it_is() {
    let cache = half_dirty();
    let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
    text(&["cache", "drain", &flash, "--backing", &disk]);
    std::fs::write(&disk, vec![77; 8 << 20]).unwrap();
    let engine = cache.start();
    for byte in 1..=8_u8 {
        assert_eq!(engine.client().read(u64::from(byte) * 4096, 4096).unwrap(), page(77));
    }
}

#[test]
fn a_lost_note_is_no_dead_end() {
    let cache = dirty(2);
    let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
    std::fs::remove_file(cache.path("disk.img.thermocline")).unwrap();
    cache.refused(&[], &["flash.path", "was removed", "--without-note"]);
    let drain = ["cache", "drain", &flash, "--backing", &disk];
    fails(&drain, &["disk.img.thermocline", "--without-note"]);
    text(&[&drain[..], &["--without-note"]].concat());
    assert_eq!(cache.bytes("disk.img")[4096..8192], page(2));
    assert_eq!(cache.start().client().read(4096, 4096).unwrap(), page(2));
}

#[test]
fn an_end_writes_everything_back_if_it_is_told_to() {
    let mut cache = Cache::new(8);
    let engine = cache.set("cleaning.drain_at_exit", true).set("cleaning.dirty_ratio", 1.0).start();
    for byte in 1..=9_u8 {
        engine.client().write(u64::from(byte) * 4096, &page(byte)).unwrap();
    }
    engine.stop();
    let found = inspect(&cache);
    assert_eq!(found["dirty_pages"], 0, "{found}");
    let disk = cache.bytes("disk.img");
    for byte in 1..=9_u8 {
        assert!(disk[usize::from(byte) * 4096..][..4096] == page(byte), "page {byte}");
    }
    // The backing store may be served alone now.
    cache.unset("flash").set("policy.name", "lru").start().stop();
}

#[test]
fn drain_says_which_file_is_not_there() {
    let cache = dirty(1);
    let (flash, absent) = (cache.file("flash.img"), cache.file("absent.img"));
    fails(&["cache", "drain", &flash, "--backing", &absent], &["`", "absent.img`: No such file"]);
    fails(&["cache", "drain", &absent, "--backing", &flash], &["absent.img`: No such file"]);
    assert!(!cache.path("absent.img.thermocline").exists());
}
