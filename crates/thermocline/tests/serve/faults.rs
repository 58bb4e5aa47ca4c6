//! A flash that vanishes or fills up, and a backing store that fails, while clients are served.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use thermocline_nbd::protocol::{Command as NbdCommand, ErrorCode};

use super::{Cache, Client};

const PAGE: u64 = 4096;

fn read(client: &mut Client, page: u64) -> Result<Vec<u8>, ErrorCode> {
    client.read(page * PAGE, 4096)
}

/// Return the pages that a status lists as lost.
fn lost(status: &Value) -> Vec<u64> {
    let extents = status["lost"].as_array().unwrap().iter();
    extents
        .flat_map(|extent| {
            let first = extent["offset_bytes"].as_u64().unwrap() / PAGE;
            first..first + extent["length_bytes"].as_u64().unwrap() / PAGE
        })
        .collect()
}

#[test]
fn a_flash_that_vanishes_takes_only_what_it_alone_had() {
    let mut cache = Cache::new(16);
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    let engine = cache.start();
    let mut client = engine.client();
    for page in 0..500 {
        client.write(page * PAGE, &[7; 4096]).unwrap();
    }
    super::flush(&mut client);
    assert!(engine.reload(cache.set("write_mode", "through")));
    for page in 500..1000 {
        client.write(page * PAGE, &[8; 4096]).unwrap();
    }
    // Others take their place in RAM.
    for page in 1000..1400 {
        read(&mut client, page).unwrap();
    }
    File::options().write(true).open(cache.path("flash.img")).unwrap().set_len(0).unwrap();
    let on_disk = cache.bytes("disk.img");
    let mut failed = vec![];
    for page in 0..1400 {
        let place = usize::try_from(page * PAGE).unwrap();
        match read(&mut client, page) {
            Ok(bytes) if page < 500 => assert!(bytes.iter().all(|&byte| byte == 7), "page {page}"),
            Ok(bytes) => assert!(bytes == on_disk[place..place + 4096], "page {page}"),
            Err(_) => failed.push(page),
        }
    }
    assert!(!failed.is_empty(), "some pages were on flash alone");
    assert!(failed.iter().all(|&page| on_disk[usize::try_from(page * PAGE).unwrap()] == 0));
    let status = engine.status();
    assert_eq!(lost(&status), failed);
    assert_eq!(status["lost_pages"], failed.len());
    for &page in &failed {
        read(&mut client, page).unwrap_err();
        client.write(page * PAGE, &[9; 4096]).unwrap();
        assert_eq!(read(&mut client, page).unwrap(), [9; 4096]);
    }
    assert_eq!(engine.status()["lost"], json!([]));
    super::flush(&mut client);
    assert!(engine.terminate().code().is_some(), "it ends, and is not killed");
}

#[test]
fn a_backing_store_that_fails_costs_only_what_needs_it() {
    let mut cache = Cache::new(16);
    let engine = cache.set("policy.name", "lru-inclusive").start();
    let mut client = engine.client();
    for page in 0..200 {
        client.write(page * PAGE, &[7; 4096]).unwrap();
    }
    let disk = File::options().write(true).open(cache.path("disk.img")).unwrap();
    disk.set_len(0).unwrap();
    assert_eq!(read(&mut client, 5).unwrap(), [7; 4096], "RAM has it");
    read(&mut client, 3000).unwrap_err();
    client.write(10 * PAGE, &[8; 4096]).unwrap();
    super::flush(&mut client);
    let status = engine.status();
    assert!(status["backing"]["errors"].as_u64().unwrap() > 0, "{status}");
    disk.set_len(16 << 20).unwrap();
    assert_eq!(read(&mut client, 3000).unwrap(), [0; 4096], "it is asked again");
    engine.stop();
    let engine = cache.start();
    assert_eq!(read(&mut engine.client(), 10).unwrap(), [8; 4096]);
}

#[test]
fn an_end_does_not_wait_for_a_backing_store_that_is_full() {
    let mut cache = Cache::new(16);
    let full_cache = Cache::new(1);
    let Some(full) = Full::mount(&full_cache, 1 << 20) else { return };
    let disk = full_cache.file("full/disk.img");
    File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    cache.set("backing.path", disk.as_str()).set("cleaning.drain_at_exit", true);
    let engine = cache.start();
    let mut client = engine.client();
    for page in 0..1000 {
        client.write(page * PAGE, &[7; 4096]).unwrap();
    }
    super::flush(&mut client);
    drop(client);
    // Some pages find room, the others are read from flash and refused again and again.
    assert!(engine.terminate().code().is_some(), "it ends, and is not killed");
    full.grow(32 << 20);
    let engine = cache.set("cleaning.drain_at_exit", false).start();
    let mut client = engine.client();
    for page in 0..1000 {
        assert_eq!(read(&mut client, page).unwrap(), [7; 4096], "page {page}");
    }
}

/// A file system that is full earlier than the files in it believe.
pub(super) struct Full<'a>(&'a Cache);

impl<'a> Full<'a> {
    /// Mount the file system; without the right to mount, report that and return `None`.
    pub(super) fn mount(cache: &'a Cache, bytes: u32) -> Option<Self> {
        std::fs::create_dir(cache.path("full")).unwrap();
        let options = format!("size={bytes}");
        let words = ["-t", "tmpfs", "-o", &options, "none", &cache.file("full")];
        let mounted = Command::new("mount").args(words).stderr(Stdio::null()).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(cache));
        }
        eprintln!("skipped: only root can mount");
        None
    }
}

impl Full<'_> {
    /// Gives it more room.
    pub(super) fn grow(&self, bytes: u32) {
        let options = format!("remount,size={bytes}");
        let words = ["-o", &options, &self.0.file("full")];
        assert!(Command::new("mount").args(words).status().unwrap().success());
    }
}

impl Drop for Full<'_> {
    fn drop(&mut self) {
        drop(Command::new("umount").args(["-l", &self.0.file("full")]).status());
    }
}

#[test]
fn a_flash_that_failed_is_not_used_again() {
    let mut cache = Cache::new(16);
    let full_cache = Cache::new(1);
    let Some(_full) = Full::mount(&full_cache, 2 << 20) else { return };
    let flash = full_cache.file("full/flash.img");
    // A file that there is already has no space set aside.
    File::create(&flash).unwrap().set_len(64 << 20).unwrap();
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    let engine = cache.set("flash.path", flash.as_str()).start();
    let mut client = engine.client();
    for page in 0..1000 {
        client.write(page * PAGE, &[1; 4096]).unwrap();
    }
    super::flush(&mut client);
    let disk = cache.bytes("disk.img");
    assert!(disk[..1000 * 4096].iter().all(|&byte| byte == 1), "what flash had is on disk");
    let status = engine.status();
    assert_eq!(status["has_flash"], false, "{status}");
    assert!(engine.get("/metrics").contains("\nthermocline_flash_in_use 0.0\n"));
    assert_eq!(status["policy"], "lru");
    assert_eq!(status["lost"], json!([]));
    assert!(engine.log().contains("the flash failed"));
    // New writes are on disk alone, and durable there.
    for page in 0..1000 {
        client.write(page * PAGE, &[2; 4096]).unwrap();
        assert_eq!(read(&mut client, page).unwrap(), [2; 4096]);
    }
    super::flush(&mut client);
    assert!(engine.reload(cache.set("policy.name", "hat")), "and no policy of flash takes over");
    assert_eq!(engine.status()["policy"], "lru");
    engine.kill();
    cache.refused(&[], &["flash.path", "not the newest", "--force-init"]);
    cache.set("flash.path", "flash.img").set("write_mode", "back");
    cache.refused(&[], &["newer bytes", "cache forget --backing"]);
    super::text(&["cache", "forget", "--backing", &cache.file("disk.img"), "--yes"]);
    let engine = cache.start();
    assert_eq!(read(&mut engine.client(), 10).unwrap(), [2; 4096]);
}

#[test]
fn nothing_is_acknowledged_while_the_note_cannot_say_that_the_flash_failed() {
    let mut cache = Cache::new(1);
    let (flash_cache, disk_cache) = (Cache::new(1), Cache::new(1));
    let Some(_flash) = Full::mount(&flash_cache, 2 << 20) else { return };
    let Some(_disk) = Full::mount(&disk_cache, 10 << 20) else { return };
    let (flash, disk) = (flash_cache.file("full/flash.img"), disk_cache.file("full/disk.img"));
    File::create(&flash).unwrap().set_len(64 << 20).unwrap();
    std::fs::write(&disk, vec![0; 8 << 20]).unwrap();
    cache.set("policy.name", "lru-inclusive").set("cleaning.dirty_ratio", 1.0);
    cache.set("flash.path", flash.as_str()).set("backing.path", disk.as_str());
    let engine = cache.start();
    let mut client = engine.client();
    for page in 0..100 {
        client.write(page * PAGE, &[1; 4096]).unwrap();
    }
    super::flush(&mut client);
    let filler = disk_cache.path("full/filler");
    let mut full = File::create(&filler).unwrap();
    while full.write_all(&[1; 4096]).is_ok() {}
    // The flash is full, too, before all of these are there.
    // The number that fails depends on the time at which the flash does.
    let refused = (0..1000).filter(|page| client.write(page * PAGE, &[2; 4096]).is_err()).count();
    let flushed = client.call(NbdCommand::Flush, 0, 0, &[]);
    assert!(engine.log().contains("the flash failed"), "{refused} refused: {}", engine.log());
    flushed.unwrap_err();
    client.write(0, &[2; 4096]).unwrap_err();
    assert_eq!(read(&mut client, 1900).unwrap(), [0; 4096], "reads are served");
    assert!(engine.log().contains("writes and flushes fail"), "{}", engine.log());
    engine.wait_for("the status to say so", || {
        let is_held = engine.status()["writes_held"] == true;
        let metrics = engine.get("/metrics");
        (is_held && metrics.contains("\nthermocline_writes_held 1.0\n")).then_some(())
    });
    drop(full);
    std::fs::remove_file(&filler).unwrap();
    engine.wait_for("writes to be served", || client.write(0, &[3; 4096]).ok());
    engine.wait_for("the status to say so", || {
        (engine.status()["writes_held"] == false).then_some(())
    });
    super::flush(&mut client);
    engine.kill();
    cache.refused(&[], &["flash.path", "not the newest"]);
    assert_eq!(std::fs::read(&disk).unwrap()[..4096], [3; 4096], "the disk has what was flushed");
}
