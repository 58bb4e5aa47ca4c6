//! A cache whose backing store is an export of another server, here another cache without flash.

use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;
use thermocline_nbd::protocol::{Command, ErrorCode};

use super::crashes::killed_under_load;
use super::mirrored::recover;
use super::model::Model;
use super::replacing::{check, models, under_load};
use super::{Cache, Engine, fails, flush, text};

/// Return a server of 8 MiB whose disk has all that it acknowledges.
fn back() -> Cache {
    let mut back = Cache::new(8);
    back.unset("flash").set("policy.name", "lru").set("write_mode", "through");
    back
}

/// Return a cache of that server, with that many shards.
fn front(back: &Engine, shards: u32) -> Cache {
    let mut front = Cache::new(1);
    front.set("shards", shards);
    front.unset("backing.path").set("backing.nbd", back.uri()).set("policy.name", "lru-inclusive");
    front.set("backing.grace", 0.0);
    front
}

/// Return the place of a page, such that all shards have some.
fn place(byte: u8) -> u64 {
    u64::from(byte) * 33 * 4096
}

/// Return a page of that byte.
const fn page(byte: u8) -> [u8; 4096] {
    [byte; 4096]
}

#[test]
fn an_export_is_cached_like_a_file() {
    is_cached_like_a_file(1);
}

#[test]
fn several_shards_cache_an_export() {
    is_cached_like_a_file(3);
}

fn is_cached_like_a_file(shards: u32) {
    let behind = back();
    let server = behind.start();
    let mut cache = front(&server, shards);
    let engine = cache.start();
    let mut client = engine.client();
    for byte in 1..=50 {
        client.write(place(byte), &page(byte)).unwrap();
    }
    flush(&mut client);
    let other = engine.client();
    assert_eq!(engine.status()["clients"], 2);
    assert_eq!(server.status()["size_bytes"], engine.status()["size_bytes"]);
    drop((client, other));
    engine.wait_for("the clients to be gone", || (engine.status()["clients"] == 0).then_some(()));
    engine.stop();
    // The flushed pages are on flash, and the note beside it says so.
    let note = String::from_utf8(cache.bytes("flash.img.thermocline")).unwrap();
    assert!(note.contains("dirty"), "{note}");
    assert_eq!(server.client().read(place(1), 4096).unwrap(), page(0));
    cache.set("backing.note", cache.file("flash.img.thermocline"));
    cache.unset("flash").set("policy.name", "lru").refused(&[], &["backing.nbd", "newer bytes"]);
    cache.unset("backing.note").set("policy.name", "lru-inclusive");
    cache.set("flash.path", "flash.img").set("flash.size", "4MiB");
    let engine = cache.start();
    let mut client = engine.client();
    for byte in 1..=50 {
        assert_eq!(client.read(place(byte), 4096).unwrap(), page(byte));
    }
    drop(client);
    engine.stop();
    let (flash, uri) = (cache.file("flash.img"), server.uri());
    let drain = ["cache", "drain", &flash, "--backing", &uri];
    fails(
        &[&drain[..], &["--note", "elsewhere"]].concat(),
        &["elsewhere", "another backing store"],
    );
    assert!(text(&drain).contains("50 pages were written"));
    for byte in 1..=50 {
        assert_eq!(server.client().read(place(byte), 4096).unwrap(), page(byte));
    }
    fails(&["cache", "forget", "--backing", &uri], &["--note"]);
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    is_used_again(1);
}

#[test]
fn all_shards_use_a_server_that_comes_back() {
    is_used_again(2);
}

fn is_used_again(shards: u32) {
    let behind = back();
    let server = behind.start();
    let cache = front(&server, shards);
    let engine = cache.start();
    let mut client = engine.client();
    client.write(0, &page(1)).unwrap();
    client.read(1 << 20, 4096).unwrap();
    server.kill();
    std::fs::remove_file(behind.path("thermocline.sock")).unwrap();
    engine.wait_for("the loss", || {
        engine.log().contains("lost the connection to the backing store").then_some(())
    });
    // Cached pages are served and writes are kept; all other requests fail at once.
    assert_eq!(client.read(0, 4096).unwrap(), page(1));
    client.write(8192, &page(2)).unwrap();
    flush(&mut client);
    assert_eq!(client.read(2 << 20, 4096), Err(ErrorCode::Io));
    // It can end and begin, but not begin without a server.
    engine.stop();
    cache.refused(&[], &["backing.nbd", "cannot connect"]);
    let server = behind.start();
    let engine = cache.start();
    let mut client = engine.client();
    assert_eq!(client.read(8192, 4096).unwrap(), page(2));
    server.kill();
    std::fs::remove_file(behind.path("thermocline.sock")).unwrap();
    engine.wait_for("the loss", || client.read(3 << 20, 4096).is_err().then_some(()));
    client.write(12_288, &page(3)).unwrap();
    let server = behind.start();
    engine.wait_for("the server to be found", || client.read(3 << 20, 4096).ok());
    flush(&mut client);
    drop(client);
    engine.stop();
    let drained = ["cache", "drain", &cache.file("flash.img"), "--backing", &server.uri()];
    text(&drained);
    for (offset, byte) in [(0, 1), (8192, 2), (12_288, 3)] {
        assert_eq!(server.client().read(offset, 4096).unwrap(), page(byte));
    }
}

#[test]
fn a_server_that_does_not_write_is_only_read() {
    let mut behind = back();
    let server = behind.set("write_mode", "read-only").start();
    let mut cache = front(&server, 1);
    cache.refused(&[], &["backing.nbd", "write_mode"]);
    let engine = cache.set("write_mode", "read-only").start();
    let mut client = engine.client();
    assert_eq!(client.read(0, 4096).unwrap(), page(0));
    assert_eq!(client.write(0, &page(1)), Err(ErrorCode::NotPermitted));
    let text = cache.config_text().replace("read-only", "back");
    assert!(!engine.reload_text(&cache, &text));
    assert!(engine.log().contains("takes no writes"));
    drop(client);
    engine.stop();
    cache.set("page_size", "8KiB").set("backing.nbd", "nbds://localhost/");
    cache.refused(&[], &["TLS needs tls-certificates=FOLDER"]);
}

#[test]
fn kills_of_both_servers_under_load_lose_nothing() {
    for shards in [1, 3] {
        let mut behind = Cache::new(11);
        behind.unset("flash").set("policy.name", "lru").set("write_mode", "through");
        let mut server = Some(behind.start());
        let mut cache = front(server.as_ref().unwrap(), shards);
        cache.unset("backing.grace");
        let mut models = models();
        // A sync fails once in each shard after the server was away; that may be any later one.
        for model in &mut models {
            model.may_flushes_fail = true;
        }
        for round in 0..3 {
            let engine = cache.start();
            recover(&engine, &mut models);
            let load = || thread::sleep(Duration::from_millis(300));
            under_load(&engine, &mut models, round, true, load);
            server.take().unwrap().kill();
            std::fs::remove_file(behind.path("thermocline.sock")).unwrap();
            server = Some(behind.start());
            let mut client = engine.client();
            engine.wait_for("a flush", || client.call(Command::Flush, 0, 0, &[]).ok());
            models.iter_mut().for_each(Model::flushed);
            under_load(&engine, &mut models, 10 + round, true, load);
            check(&engine, &models);
            killed_under_load(engine, &mut models, &mut SplitMix64::new(round));
        }
        let engine = cache.start();
        recover(&engine, &mut models);
        engine.stop();
        let server = server.unwrap();
        text(&["cache", "drain", &cache.file("flash.img"), "--backing", &server.uri()]);
        check(&server, &models);
    }
}
