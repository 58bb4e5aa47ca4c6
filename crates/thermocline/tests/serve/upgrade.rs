//! Caches that version 0.1 made and left by SIGKILL: the program of today reads every page of them.

use std::path::Path;

use super::{Cache, json};

const PAGES: usize = 512;
const PAGE_BYTES: usize = 4096;

/// Return the byte that a page repeats, as `testdata/flash-0.1/make.py` chose it.
fn content(page: usize) -> u8 {
    let version = match page {
        page if page.is_multiple_of(9) => 2,
        page if page.is_multiple_of(3) => 1,
        _ => 0,
    };
    u8::try_from((page * 7 + version * 101) % 251).unwrap()
}

/// Return a copy of a cache of version 0.1.
fn old_cache(name: &str, shards: i64) -> Cache {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/flash-0.1").join(name);
    let mut cache = Cache::new(2);
    cache.set("shards", shards).set("policy.name", "lc");
    cache.set("flash.size", "512KiB").set("ram.size", "128KiB");
    for image in ["disk.img", "flash.img"] {
        let packed = std::fs::read(folder.join(format!("{image}.zst"))).unwrap();
        let bytes = zstd::decode_all(packed.as_slice()).unwrap();
        std::fs::write(cache.path(image), bytes).unwrap();
    }
    let note = "disk.img.thermocline";
    std::fs::copy(folder.join(note), cache.path(note)).unwrap();
    cache
}

/// Asserts that a server of the cache returns the last version of every page that was flushed.
fn check(name: &str, shards: i64) {
    let cache = old_cache(name, shards);
    let flash = cache.file("flash.img");
    let found = json(&["cache", "inspect", &flash, "--json"]);
    assert_eq!(found["shards"], shards);
    let dirty_pages = found["dirty_pages"].as_u64().unwrap();
    assert!(dirty_pages > 50, "a flash without newer pages would test little: {dirty_pages}");
    let checked = json(&["cache", "check", &flash, "--json"]);
    assert_eq!(checked["intact_pages"], found["held_pages"]);
    // The second start reads what the first one made of the flash.
    for _ in 0..2 {
        let engine = cache.start();
        let bytes = engine.client().read(0, PAGES * PAGE_BYTES).unwrap();
        for (page, found) in bytes.chunks(PAGE_BYTES).enumerate() {
            assert!(found == [content(page); PAGE_BYTES], "page {page} has bytes {}", found[0]);
        }
        engine.stop();
    }
}

#[test]
fn a_flash_of_one_shard_of_version_0_1_is_read() {
    check("one-shard", 1);
}

#[test]
fn a_flash_of_two_shards_of_version_0_1_is_read() {
    check("two-shards", 2);
}
