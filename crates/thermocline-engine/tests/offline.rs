//! Work on a cache at rest, and what must be refused.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

use std::fs::{self, File};
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::Path;
use std::sync::Arc;

use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::threads::ThreadDriver;
use thermocline_engine::{
    Contents, Engine, Flash, FlashError, FlashSet, Frames, Layout, Options, PolicyOptions, Request,
    Shard, ShardMap, SideFile, SideFileError, Superblock, Uuid,
};

const PAGES: u32 = 64;
const PAGE: usize = 4096;
const CACHE: Uuid = Uuid::from_u128(0x1234);

fn options() -> Options {
    Options::new(PAGES.into(), 8, 24, PolicyOptions::named("lru-exclusive").unwrap())
}

fn open(folder: &Path, name: &str) -> DeviceFile {
    DeviceFile::open(&folder.join(name), Caching::Buffered).unwrap()
}

/// Return a cache that was stopped after a flush, with 20 dirty pages; page `n` has bytes of `n +
/// 1`.
fn stopped(folder: &Path) -> Layout {
    let layout = Layout::new(options().slots(), PAGE as u32);
    File::create(folder.join("disk")).unwrap().set_len(u64::from(PAGES) * PAGE as u64).unwrap();
    File::create(folder.join("flash")).unwrap().set_len(layout.flash_bytes()).unwrap();
    let bytes = options().size_bytes();
    let flash = Flash::initialise(&mut open(folder, "flash"), CACHE, layout, bytes).unwrap();
    let shard = Shard::open(options(), &flash).unwrap();
    let [flash, disk] = ["flash", "disk"].map(|name| open(folder, name));
    let driver = ThreadDriver::new(shard.frames(), Some(flash), disk, 1).unwrap();
    let mut engine = Engine::new(shard, driver);
    for page in 0..20_u8 {
        let request = Request::write(1, u64::from(page) * PAGE as u64, PAGE as u64);
        engine.submit(request, &[page + 1; PAGE]).unwrap();
    }
    engine.shard_mut().stop();
    engine.wait_until_idle();
    layout
}

/// Return the position of a page's bytes in the file of the flash.
fn place(folder: &Path, page: u8) -> usize {
    let bytes = fs::read(folder.join("flash")).unwrap();
    let places = bytes.chunks(PAGE).position(|slot| slot == [page + 1; PAGE]).unwrap();
    places * PAGE
}

fn spoil(folder: &Path, place: usize) {
    let mut bytes = fs::read(folder.join("flash")).unwrap();
    bytes[place] ^= 1;
    fs::write(folder.join("flash"), bytes).unwrap();
}

#[test]
fn a_stopped_cache_is_inspected_checked_drained_and_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    let [mut flash, disk] = ["flash", "disk"].map(|name| open(folder.path(), name));
    let read = Flash::read(&mut flash).unwrap();
    let contents = read.contents();
    assert_eq!((contents.superblock.cache, contents.held_pages), (CACHE, 20));
    assert_eq!(contents.dirty_pages, 20);
    assert_eq!(read.check(&mut flash).intact_pages, 20);

    spoil(folder.path(), place(folder.path(), 7));
    let check = read.check(&mut flash);
    assert_eq!((check.intact_pages, check.lost_pages), (19, vec![7]));

    let mut recovered = Flash::recover(&mut flash).unwrap();
    // A part of a page at the end of the backing store is not cached, and does not matter.
    disk.file().set_len(u64::from(PAGES) * PAGE as u64 + 512).unwrap();
    let size_bytes = disk.size_bytes().unwrap();
    let of_flash = flash.try_clone().unwrap();
    let open = |frames: &Arc<Frames>| -> Result<_, FlashError> {
        Ok(ThreadDriver::new(frames, Some(of_flash.try_clone()?), disk.try_clone()?, 4)?)
    };
    let drained = recovered.drain(&mut flash, size_bytes, NonZeroUsize::MIN, open, |_| {}).unwrap();
    disk.file().set_len(u64::from(PAGES) * PAGE as u64).unwrap();
    assert_eq!((drained.written_pages, drained.lost_pages), (19, vec![7]));
    let bytes = fs::read(folder.path().join("disk")).unwrap();
    for (page, bytes) in bytes.chunks(PAGE).enumerate() {
        let expected = if page < 20 && page != 7 { page as u8 + 1 } else { 0 };
        assert!(bytes == [expected; PAGE], "page {page}");
    }
    // The result survives: only the lost page is still dirty.
    let mut again = Flash::recover(&mut flash).unwrap();
    assert_eq!((again.contents().held_pages, again.contents().dirty_pages), (20, 1));
    again.forget(&mut flash).unwrap();
    assert_eq!(Flash::recover(&mut flash).unwrap().contents().held_pages, 0);
}

#[test]
fn what_is_no_flash_of_ours_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let layout = stopped(folder.path());
    let path = folder.path().join("flash");
    let good = fs::read(&path).unwrap();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        Flash::recover(&mut open(folder.path(), "flash")).unwrap_err()
    };
    assert!(matches!(refused(&|bytes| bytes.fill(0)), FlashError::Empty));
    // A file system may leave its first blocks alone: what lies behind them is somebody's too.
    let behind = |place: usize| {
        move |bytes: &mut Vec<u8>| {
            bytes.fill(0);
            bytes[place] = 1;
        }
    };
    assert!(matches!(refused(&behind(64 << 10)), FlashError::Foreign));
    assert!(matches!(refused(&|bytes| behind(bytes.len() - 1)(bytes)), FlashError::Foreign));
    assert!(matches!(refused(&|bytes| *bytes = b"short".to_vec()), FlashError::Foreign));
    assert!(matches!(refused(&|bytes| bytes[..8192].fill(9)), FlashError::Foreign));
    let spoil_both = |bytes: &mut Vec<u8>| {
        for place in [100, 4096 + 100] {
            bytes[place] ^= 1;
        }
    };
    assert!(matches!(refused(&spoil_both), FlashError::Damaged));
    // Both copies of the first journal block that counts, and of the table block.
    let metadata = usize::try_from(layout.metadata_bytes()).unwrap();
    let lost = refused(&|bytes| bytes[8192..metadata].fill(7));
    assert!(matches!(lost, FlashError::MetadataLost { .. }), "{lost}");
    assert!(matches!(refused(&|bytes| bytes.truncate(65536)), FlashError::TooSmall { .. }));
    fs::write(&path, &good).unwrap();
    let flash = Flash::read(&mut open(folder.path(), "flash")).unwrap();
    let fewer = Options { backing_pages: u64::from(PAGES) - 1, ..options() };
    let error = Shard::open(fewer, &flash).unwrap_err().to_string();
    assert!(error.contains("backing store of 262144 bytes"), "{error}");
    let more = Options { flash_pages: layout.slots, ..options() };
    let error = Shard::open(more, &flash).unwrap_err().to_string();
    assert!(error.contains("slots"), "{error}");
}

#[test]
fn a_backing_store_with_newer_bytes_elsewhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let backing = folder.path().join("disk");
    assert_eq!(SideFile::load(&SideFile::path(&backing)).unwrap(), None);
    let note = SideFile::running(CACHE, 3);
    note.store(&SideFile::path(&backing)).unwrap();
    let read = SideFile::load(&SideFile::path(&backing)).unwrap();
    assert_eq!(read, Some(note));
    let other = Uuid::from_u128(9);
    let of = |cache, epoch, held_pages| {
        let first = Superblock::first(cache, Layout::new(64, 4096), 1 << 18);
        let superblock = Superblock { epoch, ..first };
        Contents { superblock, held_pages, dirty_pages: 0, dirty_end_bytes: 0, damaged_blocks: 0 }
    };
    let check = |note, flash: Option<Contents>| SideFile::check(note, flash.as_ref());
    check(None, None).unwrap();
    check(read, Some(of(CACHE, 3, 1))).unwrap();
    for flash in [None, Some(of(other, 8, 1)), Some(of(other, 8, 0))] {
        let error = check(read, flash).unwrap_err();
        assert!(matches!(error, SideFileError::Dirty { cache: CACHE }), "{error}");
    }
    let error = check(read, Some(of(CACHE, 2, 0))).unwrap_err();
    assert!(matches!(error, SideFileError::OldFlash { .. }), "{error}");
    let clean = SideFile { has_dirty: false, ..note };
    check(Some(clean), None).unwrap();
    // Pages of another store, or of nobody knows which.
    for note in [Some(clean), None] {
        check(note, Some(of(other, 1, 0))).unwrap();
        let error = check(note, Some(of(other, 1, 1))).unwrap_err();
        assert!(
            matches!(error, SideFileError::OtherBacking { cache } if cache == other),
            "{error}"
        );
    }
    // Served without its flash once: what that holds is old; if it holds nothing, that is no harm.
    let alone = clean.without_flash();
    let error = check(Some(alone), Some(of(CACHE, 3, 1))).unwrap_err();
    assert!(matches!(error, SideFileError::OldFlash { .. }), "{error}");
    check(Some(alone), Some(of(CACHE, 3, 0))).unwrap();
    fs::write(SideFile::path(&backing), "something else").unwrap();
    assert!(matches!(
        SideFile::load(&SideFile::path(&backing)),
        Err(SideFileError::Unreadable { .. })
    ));
}

#[test]
fn a_device_in_use_is_not_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    let first = open(folder.path(), "flash");
    let error = DeviceFile::open(&folder.path().join("flash"), Caching::Buffered).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
    drop(first);
    open(folder.path(), "flash");
}

#[test]
fn sizes_beyond_memory_are_refused() {
    let huge = Options { ram_pages: 1 << 30, ..options() };
    let error = Shard::new(huge).unwrap_err().to_string();
    assert!(error.contains("no memory for"), "{error}");
}

#[test]
fn any_byte_of_metadata_may_be_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let layout = stopped(folder.path());
    let path = folder.path().join("flash");
    let good = fs::read(&path).unwrap();
    let metadata = usize::try_from(layout.metadata_bytes()).unwrap();
    let written = (0..metadata).filter(|&place| good[place] != 0);
    // Every block, and within it places that are far apart.
    for place in written.step_by(211).chain((0..metadata).step_by(4096)) {
        let mut bytes = good.clone();
        bytes[place] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let flash = Flash::recover(&mut open(folder.path(), "flash")).unwrap();
        assert_eq!(flash.contents().dirty_pages, 20, "byte {place}");
        let check = flash.check(&mut open(folder.path(), "flash"));
        assert_eq!(check.intact_pages, 20, "byte {place}");
    }
}

#[test]
fn a_flash_of_several_shards_is_never_taken_for_that_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(options().slots(), PAGE as u32);
    let map = ShardMap::with_extents(NonZeroU16::new(2).unwrap(), PAGE as u64);
    let bytes = FlashSet::bytes(&layout, &map);
    File::create(folder.path().join("flash")).unwrap().set_len(bytes).unwrap();
    let mut flash = open(folder.path(), "flash");
    let backing_bytes = u64::from(PAGES) * PAGE as u64;
    FlashSet::initialise(&mut flash, CACHE, layout, map, backing_bytes).unwrap();
    let refused = Flash::read(&mut flash).unwrap_err();
    assert!(matches!(refused, FlashError::OtherShards { found, .. } if found == map), "{refused}");
    assert!(Flash::recover(&mut flash).is_err());
    assert_eq!(FlashSet::read(&mut flash).unwrap().flashes().len(), 2);

    // The other way round, nothing of the regions is left.
    Flash::initialise(&mut flash, CACHE, layout, backing_bytes).unwrap();
    assert_eq!(FlashSet::read(&mut flash).unwrap().flashes().len(), 1);
}

#[test]
fn regions_of_different_flashes_are_no_flash() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(options().slots(), PAGE as u32);
    let map = ShardMap::with_extents(NonZeroU16::new(2).unwrap(), PAGE as u64);
    let bytes = FlashSet::bytes(&layout, &map);
    let made = |cache, layout: Layout, map: ShardMap| {
        File::create(folder.path().join("flash")).unwrap().set_len(2 * bytes).unwrap();
        let mut flash = open(folder.path(), "flash");
        let backing_bytes = u64::from(PAGES) * PAGE as u64;
        FlashSet::initialise(&mut flash, cache, layout, map, backing_bytes).unwrap();
        let set = FlashSet::read(&mut flash).unwrap();
        // Regions are of equal size.
        let start = usize::try_from(set.range(1).start).unwrap();
        (fs::read(folder.path().join("flash")).unwrap(), start..2 * start)
    };
    let (good, second) = made(CACHE, layout, map);
    let read = |region: &[u8]| {
        let mut bytes = good.clone();
        bytes[second.clone()].copy_from_slice(region);
        fs::write(folder.path().join("flash"), bytes).unwrap();
        FlashSet::read(&mut open(folder.path(), "flash")).map(|set| set.flashes().len())
    };
    assert_eq!(read(&good[second.clone()]).unwrap(), 2);
    let (other_cache, _) = made(Uuid::from_u128(99), layout, map);
    let other_extents = ShardMap::with_extents(map.number(), 2 * PAGE as u64);
    let (other_map, _) = made(CACHE, layout, other_extents);
    let (other_layout, _) = made(CACHE, Layout::new(options().slots() - 1, PAGE as u32), map);
    let first = &good[..second.len()];
    for region in [
        &other_cache[second.clone()],
        &other_map[second.clone()],
        &other_layout[second.clone()],
        first,
    ] {
        let refused = read(region).unwrap_err();
        assert!(!refused.to_string().is_empty());
    }
    let foreign = read(&other_cache[second.clone()]).unwrap_err();
    assert!(matches!(foreign, FlashError::Mixed { index: 1 }), "{foreign}");
    assert!(read(&vec![0; second.len()]).is_err(), "a region is missing");
}
