//! Owners of flashes and backing stores: other writers, copies, notes that are lost or old, and
//! backing stores of another size.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::start::{dirty, refused};
use super::{Cache, fails, flush, json, text};

const MISSED: &str = "dropped clean pages on flash";

/// Return a page of that byte.
const fn page(byte: u8) -> [u8; 4096] {
    [byte; 4096]
}

/// Return a cache whose policy keeps what is read on flash.
fn inclusive() -> Cache {
    let mut cache = Cache::new(8);
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    cache
}

/// Writes pages of 1 to 9 through a server, and stops it.
fn written(cache: &Cache) {
    let engine = cache.start();
    let mut client = engine.client();
    for byte in 1..=9_u8 {
        client.write(u64::from(byte) * 4096, &page(byte)).unwrap();
    }
    flush(&mut client);
    engine.stop();
}

/// Writes to a file of the cache as another program would.
fn write_alone(cache: &Cache, name: &str, number: u64, byte: u8) {
    let file = File::options().write(true).open(cache.path(name)).unwrap();
    file.write_all_at(&page(byte), number * 4096).unwrap();
}

fn resize(cache: &Cache, bytes: u64) {
    File::options().write(true).open(cache.path("disk.img")).unwrap().set_len(bytes).unwrap();
}

fn inspected(cache: &Cache, key: &str) -> u64 {
    let found = json(&["cache", "inspect", &cache.file("flash.img"), "--json"]);
    found[key].as_u64().unwrap()
}

/// Check that the server serves pages filled with 1 to 9, except for one.
#[track_caller]
fn serves(cache: &Cache, other: Option<(u8, u8)>, says: Option<&str>) {
    let engine = cache.start();
    let log = engine.log();
    assert_eq!(log.contains(MISSED), says == Some(MISSED), "{log}");
    assert!(says.is_none_or(|words| log.matches(words).count() == 1), "{log}");
    let mut client = engine.client();
    for byte in 1..=9_u8 {
        let expected = other.filter(|(number, _)| *number == byte).map_or(byte, |(_, new)| new);
        let found = client.read(u64::from(byte) * 4096, 4096).unwrap();
        assert!(found == page(expected), "page {byte} has {}", found[0]);
    }
    drop(client);
    engine.stop();
}

#[test]
fn what_was_written_to_a_clean_disk_alone_is_served() {
    let drain = |cache: &Cache| {
        let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
        text(&["cache", "drain", &flash, "--backing", &disk, "--keep-clean"]);
    };
    for way in ["drain_at_exit", "through", "keep-clean"] {
        let mut cache = inclusive();
        match way {
            "drain_at_exit" => cache.set("cleaning.drain_at_exit", true),
            "through" => cache.set("write_mode", "through"),
            _ => &mut cache,
        };
        written(&cache);
        if way == "keep-clean" {
            drain(&cache);
        }
        assert_eq!(inspected(&cache, "dirty_pages"), 0, "{way}");
        if way != "through" {
            assert!(inspected(&cache, "held_pages") >= 9, "{way}");
        }
        // Nothing happened: what is on flash is used.
        serves(&cache, None, None);
        if way == "keep-clean" {
            drain(&cache);
        }
        assert!(inspected(&cache, "held_pages") >= 9, "{way}: the pages were read");
        write_alone(&cache, "disk.img", 5, 77);
        serves(&cache, Some((5, 77)), Some(MISSED));
        serves(&cache, Some((5, 77)), None);
    }
}

#[test]
fn dirty_pages_do_not_overlay_a_disk_that_changed_beneath_them() {
    let cache = inclusive();
    written(&cache);
    assert!(inspected(&cache, "dirty_pages") >= 9);
    write_alone(&cache, "disk.img", 5, 77);
    write_alone(&cache, "disk.img", 20, 78);
    refused(&cache, &["flash.path", "something else wrote", "--despite-changes", "cache forget"]);
    let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
    let drain = ["cache", "drain", &flash, "--backing", &disk];
    fails(&drain, &["something else wrote", "--despite-changes"]);
    text(&[&drain[..], &["--despite-changes"]].concat());
    assert!(cache.bytes("disk.img")[20 * 4096..21 * 4096] == page(78));
    serves(&cache, None, None);
}

#[test]
fn old_copies_of_the_flash_are_refused() {
    let cache = inclusive();
    let copy = |name: &str| std::fs::copy(cache.path("flash.img"), cache.path(name)).unwrap();
    let swap = |name: &str| {
        std::fs::rename(cache.path("flash.img"), cache.path("newest.img")).unwrap();
        std::fs::rename(cache.path(name), cache.path("flash.img")).unwrap();
    };
    // Made in the same start.
    let engine = cache.start();
    engine.client().write(4096, &page(20)).unwrap();
    flush(&mut engine.client());
    copy("running.img");
    engine.stop();
    copy("stopped.img");
    swap("running.img");
    refused(&cache, &["flash.path", "old copy of the flash"]);
    std::fs::rename(cache.path("newest.img"), cache.path("flash.img")).unwrap();
    // Made after the stop before a start that crashed.
    let engine = cache.start();
    engine.client().write(4096, &page(1)).unwrap();
    flush(&mut engine.client());
    engine.kill();
    swap("stopped.img");
    refused(&cache, &["flash.path", "old copy of the flash"]);
    std::fs::rename(cache.path("newest.img"), cache.path("flash.img")).unwrap();
    assert_eq!(cache.start().client().read(4096, 4096).unwrap(), page(1));
}

#[test]
fn a_flash_serves_one_of_two_copies_of_a_disk() {
    let mut cache = inclusive();
    written(&cache);
    // A copy has another inode and another time.
    for (from, to) in [("disk.img", "copy.img"), ("disk.img.thermocline", "copy.img.thermocline")] {
        std::fs::copy(cache.path(from), cache.path(to)).unwrap();
    }
    cache.set("backing.path", "copy.img");
    serves(&cache, None, None);
    cache.set("backing.path", "disk.img");
    refused(&cache, &["flash.path", "old copy of the backing store"]);
    let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
    fails(&["cache", "drain", &flash, "--backing", &disk], &["old copy of the backing store"]);
    cache.set("backing.path", "copy.img");
    serves(&cache, None, None);
}

#[test]
fn a_flash_that_was_stopped_needs_no_note() {
    let cache = inclusive();
    written(&cache);
    let note = cache.path("disk.img.thermocline");
    let former = std::fs::read(&note).unwrap();
    std::fs::remove_file(&note).unwrap();
    serves(&cache, None, Some("the note of the backing store is missing"));
    // A note from before, as a backup of the folder brings it back.
    std::fs::write(&note, former).unwrap();
    refused(&cache, &["flash.path", "old copy of the backing store"]);
    // Without a note, the disk has to be as it was.
    std::fs::remove_file(&note).unwrap();
    write_alone(&cache, "disk.img", 5, 77);
    refused(&cache, &["flash.path", "was removed", "--without-note"]);
}

#[test]
fn a_note_of_another_cache_does_not_let_a_flash_in() {
    let cache = inclusive();
    written(&cache);
    let mut other = inclusive();
    written(other.set("write_mode", "through"));
    std::fs::copy(other.path("disk.img.thermocline"), cache.path("disk.img.thermocline")).unwrap();
    refused(&cache, &["flash.path", "another backing store"]);
}

#[test]
fn a_lost_flash_that_was_clean_is_set_up_again() {
    let mut cache = inclusive();
    written(cache.set("cleaning.drain_at_exit", true));
    std::fs::remove_file(cache.path("flash.img")).unwrap();
    serves(&cache, None, Some("set up the flash"));
}

#[test]
fn a_disk_that_has_grown_keeps_its_dirty_pages() {
    for stops in [true, false] {
        let cache = if stops { inclusive() } else { dirty(9) };
        if stops {
            written(&cache);
        }
        let dirty_pages = inspected(&cache, "dirty_pages");
        assert!(dirty_pages >= 9);
        resize(&cache, 9 << 20);
        let engine = cache.start();
        let mut client = engine.client();
        assert_eq!(client.agreed.size_bytes, 9 << 20);
        let first = u64::from(stops) * 4096;
        for byte in 1..=9_u8 {
            let offset = first + u64::from(byte - 1) * 4096;
            assert_eq!(client.read(offset, 4096).unwrap(), page(byte));
        }
        client.write((9 << 20) - 4096, &page(99)).unwrap();
        flush(&mut client);
        drop(client);
        engine.kill();
        assert_eq!(inspected(&cache, "backing_bytes"), 9 << 20);
        let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
        text(&["cache", "drain", &flash, "--backing", &disk]);
        let bytes = cache.bytes("disk.img");
        assert!(bytes[(9 << 20) - 4096..] == page(99));
        assert!(bytes[8 * 4096..9 * 4096] == page(if stops { 8 } else { 9 }));
    }
}

#[test]
fn a_disk_that_is_shorter_is_drained_if_its_dirty_pages_lie_within() {
    let cache = dirty(3);
    let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
    let drain = ["cache", "drain", &flash, "--backing", &disk];
    resize(&cache, 2 * 4096);
    refused(&cache, &["flash.path", "8388608 bytes", "8192", "cache drain", "cache forget"]);
    fails(&drain, &["1 newer pages lie beyond the end", "(pages 2)"]);
    // Back as it was, nothing is lost.
    resize(&cache, 8 << 20);
    let engine = cache.start();
    assert_eq!(engine.client().read(8192, 4096).unwrap(), page(3));
    engine.kill();
    resize(&cache, 1 << 20);
    refused(&cache, &["flash.path", "8388608 bytes", "1048576", "cache drain"]);
    text(&drain);
    assert!(cache.bytes("disk.img")[8192..12_288] == page(3));
    let engine = cache.start();
    assert_eq!(engine.client().agreed.size_bytes, 1 << 20);
    assert_eq!(engine.client().read(8192, 4096).unwrap(), page(3));
}
