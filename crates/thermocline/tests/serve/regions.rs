//! A flash of several regions, one per shard: each command sees all of them, or refuses the flash.

use std::fs::File;
use std::num::NonZeroU16;
use std::path::Path;

use serde_json::json as value;
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::threads::ThreadDriver;
use thermocline_engine::{
    Engine, FlashSet, Layout, Options, PolicyOptions, Request, Shard, ShardMap, SideFile, Uuid,
};

use super::start::refused;
use super::{Cache, fails, json, text};

const CACHE: Uuid = Uuid::from_u128(7);
const MIB: usize = 1 << 20;

fn map() -> ShardMap {
    ShardMap::new(NonZeroU16::new(3).unwrap(), 4096)
}

/// Return the MiB of the export whose first page the shard has, from 0 on.
fn pages_of(shard: usize) -> impl Iterator<Item = u8> {
    (0..8).filter(move |&mib| map().place(u64::from(mib) * MIB as u64).0 == shard)
}

/// Return a cache that three shards left. Those from `first` on have the first page of each MiB
/// dirty on flash, filled with the number of the MiB and one; the others have nothing.
fn left_by_shards(first: usize) -> Cache {
    let cache = Cache::new(8);
    let policy = PolicyOptions::named("lru-inclusive").unwrap();
    let mut options = Options::new(2048, 96, 300, policy);
    options.cleaning.dirty_ratio_target = 1.0;
    let size_bytes = options.size_bytes();
    let options = options.of_shards(map()).unwrap();
    let layout = Layout::new(options[0].slots(), 4096);
    let flash = File::create(cache.path("flash.img")).unwrap();
    flash.set_len(FlashSet::bytes(&layout, &map())).unwrap();
    let [mut flash, disk] = ["flash.img", "disk.img"].map(|name| open(&cache.path(name)));
    let set = FlashSet::initialise(&mut flash, CACHE, layout, map(), size_bytes).unwrap();
    for (number, options) in options.into_iter().enumerate().skip(first) {
        let shard = Shard::open(options, &set.flashes()[number]).unwrap();
        let region = flash.region(set.range(number)).unwrap();
        let disk = disk.try_clone().unwrap();
        let driver = ThreadDriver::new(shard.frames(), Some(region), disk, 2).unwrap();
        let mut engine = Engine::new(shard, driver);
        for mib in pages_of(number) {
            let request = Request::write(1, u64::from(mib) * MIB as u64, 4096);
            engine.submit(request, &[mib + 1; 4096]).unwrap();
        }
        engine.shard_mut().stop();
        engine.wait_until_idle();
    }
    SideFile::running(CACHE, 1).store(&SideFile::path(&cache.path("disk.img"))).unwrap();
    cache
}

fn open(path: &Path) -> DeviceFile {
    DeviceFile::open(path, Caching::Buffered).unwrap()
}

/// Check the contents of the flash, and which of them are dirty.
#[track_caller]
fn assert_holds(cache: &Cache, held_pages: usize, dirty_pages: usize) {
    let found = json(&["cache", "inspect", &cache.file("flash.img"), "--json"]);
    let of = |key: &str| found[key].as_u64().unwrap();
    assert_eq!([of("held_pages"), of("dirty_pages")], [held_pages as u64, dirty_pages as u64]);
}

/// Return `true` if each first page of a MiB of the backing store is as it was written.
fn are_home(cache: &Cache) -> Vec<bool> {
    let bytes = cache.bytes("disk.img");
    (0..8_u8).map(|mib| bytes[usize::from(mib) * MIB..][..4096] == [mib + 1; 4096]).collect()
}

#[test]
fn a_flash_of_shards_is_inspected_checked_and_forgotten_as_a_whole() {
    let cache = left_by_shards(0);
    let flash = cache.file("flash.img");
    let found = json(&["cache", "inspect", &flash, "--json"]);
    assert_eq!([&found["shards"], &found["cache"]], [&value!(3), &value!(CACHE.to_string())]);
    assert_holds(&cache, 8, 8);
    assert!(text(&["cache", "check", &flash]).contains("8 pages are intact"));

    let mut bytes = cache.bytes("flash.img");
    let mib = pages_of(2).next().unwrap();
    let is_it = |slot: &&mut [u8]| *slot == [mib + 1; 4096];
    bytes.chunks_mut(4096).filter(is_it).for_each(|slot| slot[9] ^= 1);
    std::fs::write(cache.path("flash.img"), &bytes).unwrap();
    let lost = usize::from(mib) * MIB / 4096;
    fails(&["cache", "check", &flash], &[&format!("lost (pages {lost})")]);

    fails(&["cache", "forget", &flash, "--backing", &cache.file("disk.img")], &["8 pages"]);
    assert!(cache.bytes("flash.img") == bytes, "a refusal changes nothing");
    text(&["cache", "forget", &flash, "--backing", &cache.file("disk.img"), "--yes"]);
    assert_holds(&cache, 0, 0);
}

#[test]
fn a_flash_of_shards_is_drained_as_a_whole() {
    for keeps in [true, false] {
        let cache = left_by_shards(0);
        let [flash, disk] = ["flash.img", "disk.img"].map(|name| cache.file(name));
        let mut words = vec!["cache", "drain", &flash, "--backing", &disk];
        words.extend(keeps.then_some("--keep-clean"));
        assert!(text(&words).contains("8 pages were written"));
        assert_eq!(are_home(&cache), [true; 8]);
        assert_holds(&cache, if keeps { 8 } else { 0 }, 0);
        // Another drain takes the note and the flash as this one left them.
        assert!(text(&words).contains("0 pages were written"));
    }
}

#[test]
fn pages_of_any_shard_keep_a_flash_from_being_overwritten() {
    let mut cache = left_by_shards(2);
    let held = pages_of(2).count();
    refused(&cache, &["flash.path", "flash.img", "3 shards", "drain", "--force-init"]);
    // As the next flash of a server.
    let of_shards = cache.file("flash.img");
    std::fs::rename(cache.path("disk.img.thermocline"), cache.path("note")).unwrap();
    let engine = cache.set("flash.path", "first.img").start();
    let before = cache.bytes("flash.img");
    let config = cache.file("cache.toml");
    let words = ["cache", "replace", &config, "--flash", &of_shards];
    fails(&words, &[&format!("{CACHE}, with {held} pages"), "--force-init"]);
    assert!(cache.bytes("flash.img") == before, "a refusal changes nothing");
    text(&[&words[..], &["--force-init"]].concat());
    engine.stop();
    assert_holds(&cache, 0, 0);
}

#[test]
fn a_start_by_force_gives_all_regions_up() {
    let cache = left_by_shards(0);
    let engine = cache.start_with(&["--force-init"]);
    assert_eq!(engine.client().read(0, 4096).unwrap(), [0; 4096]);
    engine.stop();
    cache.start().stop();
    assert_holds(&cache, 0, 0);
}
