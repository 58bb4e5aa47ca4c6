//! A server that records its accesses, is killed, or is told to stop recording: what the lab makes of
//! the trace is what the server counted.

use std::path::Path;

use serde_json::Value;
use thermocline_trace::{PageSize, ReadOptions, Reader, Requests as _};

use super::model::PAGE;
use super::{Cache, Client, Engine, json};

/// Return a cache whose 4 MiB are more than it can hold.
fn cache(policy: &str) -> Cache {
    let mut cache = Cache::new(16);
    cache.set("policy.name", policy).set("flash.size", "1MiB").set("ram.size", "256KiB");
    cache.set("record.path", "accesses.csv.zst");
    cache
}

/// Reads and writes, some pages more often than others; returns how many pages they touch.
fn work(client: &mut Client, requests: u64) -> u64 {
    let mut accesses = 0;
    for number in 0..requests {
        let spread = number.wrapping_mul(0x9E37_79B9) % 4001;
        let page = spread * spread % (if number % 3 == 0 { 4000 } else { 150 });
        let pages = 1 + usize::from(number % 7 == 0);
        accesses += pages as u64;
        if number % 5 == 0 {
            client.write(page * PAGE as u64, &vec![7; pages * PAGE]).unwrap();
        } else {
            client.read(page * PAGE as u64, pages * PAGE).unwrap();
        }
    }
    accesses
}

/// Page accesses in a recording, as far as it is written.
fn recorded(path: &Path) -> u64 {
    let Ok(mut reader) = Reader::open(path, &ReadOptions::default()) else { return 0 };
    let (mut batch, mut pages) = (vec![], 0);
    while let Ok(true) = reader.read_batch(&mut batch) {
        pages += batch.iter().map(|one| PageSize::DEFAULT.pages(one.extent).1).sum::<u64>();
    }
    pages
}

/// Check that a replay of a recording gives the figures that the server counted.
#[track_caller]
fn assert_same(recording: &str, policy: &str, status: &Value) {
    let simulated = json(&[
        "simulate",
        recording,
        "--policy",
        policy,
        "--json",
        "--check",
        "--tier",
        "ram=256KiB",
        "--tier",
        "flash=1MiB",
    ]);
    for (tier, name) in ["ram", "flash", "disk"].iter().enumerate() {
        for op in ["read", "write"] {
            let hits = &simulated["tiers"][tier][format!("{op}_hits")];
            assert_eq!(*hits, status["accesses"][op][name], "{policy}, {name} {op}: {status:#}");
        }
    }
}

fn recording(engine: &Engine) -> Value {
    engine.status()["recording"].take()
}

#[test]
fn a_killed_server_leaves_a_trace_that_gives_its_counters() {
    for policy in ["hat", "face-gsc", "lru"] {
        let cache = cache(policy);
        let engine = cache.start();
        let accesses = work(&mut engine.client(), 4000);
        let path = cache.path("accesses.csv.zst");
        engine.wait_for("all to be written", || (recorded(&path) == accesses).then_some(()));
        let status = engine.status();
        engine.kill();
        assert_eq!(status["recording"]["accesses"].as_u64(), Some(accesses));
        assert_eq!(status["recording"]["missing_accesses"], 0);
        assert_same(&cache.file("accesses.csv.zst"), policy, &status);
    }
}

#[test]
fn a_recording_ends_and_begins_when_the_configuration_says_so() {
    let mut cache = cache("hat");
    let engine = cache.start();
    let mut client = engine.client();
    let accesses = work(&mut client, 1000);
    let before = engine.status();
    assert!(engine.reload(cache.unset("record")));
    work(&mut client, 500);
    assert_eq!(recorded(&cache.path("accesses.csv.zst")), accesses);
    assert_same(&cache.file("accesses.csv.zst"), "hat", &before);
    assert_eq!(recording(&engine), Value::Null);

    assert!(engine.reload(cache.set("record.path", "accesses.csv.zst")));
    assert_eq!(recording(&engine)["accesses"], 0, "another recording");
    assert_same(&cache.file("accesses.csv.zst.1"), "hat", &before);
    let again = work(&mut client, 300);
    assert!(engine.get("/metrics").contains("thermocline_recording_missing_accesses_total 0"));
    engine.stop();
    assert_eq!(recorded(&cache.path("accesses.csv.zst")), again);
}

#[test]
fn a_recording_that_cannot_be_written_is_refused_at_the_start() {
    let mut cache = cache("lru");
    cache.set("record.path", "absent/accesses.csv.zst").refused(&[], &["`record.path`", "absent"]);
    cache.set("record.size", 0).refused(&[], &["[record]", "at least 1"]);
}

#[test]
fn shards_record_to_one_file() {
    let mut cache = cache("lru");
    cache.set("shards", 2);
    let engine = cache.start();
    let path = cache.path("accesses.csv.zst");
    let half = std::thread::scope(|scope| {
        let threads = [1500, 2500].map(|requests| {
            let mut client = engine.client();
            scope.spawn(move || work(&mut client, requests))
        });
        threads.map(|thread| thread.join().unwrap()).iter().sum::<u64>()
    });
    engine.wait_for("all to be written", || (recorded(&path) == half).then_some(()));
    let status = engine.status();
    assert_eq!(status["recording"]["accesses"].as_u64(), Some(half));
    assert_eq!(status["recording"]["missing_accesses"], 0);

    // Another file: no shard records to the former one any more.
    assert!(engine.reload(cache.set("record.path", "others.csv.zst")));
    engine.wait_for("both shards to record there", || {
        let before = recorded(&path);
        work(&mut engine.client(), 40);
        (recorded(&path) == before).then_some(())
    });
    let kept = recorded(&path);
    engine.stop();
    assert_eq!(recorded(&path), kept);
    assert!(recorded(&cache.path("others.csv.zst")) > 0);
}
