//! One export served by several shards.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use thermocline_core::random::SplitMix64;
use thermocline_nbd::codec::client::RequestHeader;
use thermocline_nbd::protocol::{Command, command_flag};

use super::crashes::{CLIENTS, PAGES, killed_under_load, range, step};
use super::metrics::samples;
use super::model::Model;
use super::{Cache, Engine, flush, text};

const MIB: u64 = 1 << 20;

/// Return a cache of 11 MiB that two shards serve.
fn of_two() -> Cache {
    let mut cache = Cache::new(11);
    cache.set("shards", 2);
    cache
}

/// Return a snapshot in which a sum of figures is so much.
fn wait_for_sum(engine: &Engine, wanted: u64, figures: fn(&Value) -> u64) -> Value {
    engine.wait_for("a snapshot with the figures of all shards", || {
        let status: Value = serde_json::from_str(&engine.get("/status")).unwrap();
        (figures(&status) == wanted).then_some(status)
    })
}

fn accesses(status: &Value) -> u64 {
    let of = |op: &str| {
        let found = status["accesses"][op].as_object().unwrap();
        found.values().map(|count| count.as_u64().unwrap()).sum::<u64>()
    };
    of("read") + of("write")
}

#[test]
fn what_was_durable_survives_a_kill_whichever_shard_has_it() {
    let mut cache = of_two();
    let mut random = SplitMix64::new(15);
    let mut models: Vec<Model> =
        (0..CLIENTS).map(|client| Model::new(client * PAGES, PAGES)).collect();
    for (policy, mode) in [("hat", "back"), ("lru-inclusive", "back"), ("face-gsc", "through")] {
        let engine = cache.set("policy.name", policy).set("write_mode", mode).start();
        killed_under_load(engine, &mut models, &mut random);
        let engine = cache.start();
        for model in &mut models {
            let found = range(&mut engine.client(), model);
            model.recover(&found);
        }
        engine.kill();
        let engine = cache.start();
        for model in &mut models {
            let found = range(&mut engine.client(), model);
            assert!(found == model.read(0, model.sectors()), "{policy} {mode}");
        }
        engine.stop();
    }
    let (flash, disk) = (cache.file("flash.img"), cache.file("disk.img"));
    text(&["cache", "drain", &flash, "--backing", &disk]);
    let disk = cache.bytes("disk.img");
    for model in &models {
        let start = usize::try_from(model.offset_bytes()).unwrap();
        let bytes = model.read(0, model.sectors());
        assert!(disk[start..][..bytes.len()] == bytes, "drained");
    }
}

#[test]
fn nothing_is_lost_by_an_orderly_end_of_all_shards() {
    let cache = of_two();
    let mut random = SplitMix64::new(16);
    let mut models = [Model::new(0, PAGES), Model::new(PAGES, PAGES)];
    for _ in 0..2 {
        let engine = cache.start();
        // The clients are those of different shards.
        let mut clients = [engine.client(), engine.client()];
        for _ in 0..300 {
            for (client, model) in clients.iter_mut().zip(&mut models) {
                step(client, model, &mut random).unwrap();
            }
        }
        engine.stop();
        let engine = cache.start();
        for model in &models {
            let found = range(&mut engine.client(), model);
            assert!(found == model.read(0, model.sectors()), "acknowledged is enough");
        }
        engine.stop();
    }
}

#[test]
fn a_flush_covers_what_was_acknowledged_on_other_connections() {
    let cache = of_two();
    let engine = cache.start();
    let mut clients: Vec<_> = (0..4).map(|_| engine.client()).collect();
    for byte in 1..=8_u8 {
        let mib = u64::from(byte) - 1;
        let client = &mut clients[usize::from(byte % 3)];
        // Across the border of two extents, and so of shards.
        client.write(mib * MIB + MIB / 2, &vec![byte; 1 << 20]).unwrap();
    }
    flush(&mut clients[3]);
    let header = RequestHeader {
        cookie: 0,
        command: Command::Write,
        flags: command_flag::FUA,
        offset_bytes: 10 * MIB - 4096,
        length_bytes: 8192,
    };
    let header = clients[0].send(header, &[99; 8192]).unwrap();
    clients[0].wait(header).unwrap().unwrap();
    engine.kill();
    let engine = cache.start();
    let mut client = engine.client();
    for byte in 1..=8_u8 {
        let mib = u64::from(byte) - 1;
        let found = client.read(mib * MIB + MIB / 2, 1 << 20).unwrap();
        assert!(found.iter().all(|&one| one == byte), "MiB {mib}");
    }
    assert_eq!(client.read(10 * MIB - 4096, 8192).unwrap(), [99; 8192]);
}

#[test]
fn figures_are_sums_over_the_shards_and_a_reload_reaches_all() {
    let mut cache = of_two();
    let engine = cache.start();
    let mut clients = [engine.client(), engine.client()];
    for page in 0..512_u64 {
        let client = &mut clients[usize::try_from(page % 2).unwrap()];
        client.write(page * 16_384 % (8 * MIB), &[1; 4096]).unwrap();
        client.read(page * 16_384 % (8 * MIB), 4096).unwrap();
    }
    let status = wait_for_sum(&engine, 1024, accesses);
    assert_eq!(status["shards"], 2);
    assert_eq!(status["clients"], 2);
    assert_eq!(status["capacity_pages"], serde_json::json!([256, 1024]));
    let metrics = engine.get("/metrics");
    for (name, label, wanted) in [
        ("thermocline_page_accesses_total", "op=\"write\"", 512.0),
        ("thermocline_request_seconds_count", "op=\"read\"", 512.0),
        ("thermocline_request_seconds_count", "op=\"write\"", 512.0),
    ] {
        let found = samples(&metrics, name, label);
        assert!((found - wanted).abs() < 0.5, "{name}{label}: {found}");
    }
    flush(&mut clients[1]);
    wait_for_sum(&engine, 0, |status| status["undurable_pages"].as_u64().unwrap());

    assert!(engine.reload(cache.set("write_mode", "read-only").set("policy.name", "lru")));
    for mib in 0..8_u64 {
        let refused = |client: &mut super::Client| client.write(mib * MIB, &[2; 4096]).is_err();
        engine.wait_for("both shards to refuse writes", || {
            (refused(&mut clients[0]) && refused(&mut clients[1])).then_some(())
        });
    }
    assert!(!engine.reload(cache.set("shards", 1)), "{}", engine.log());
    assert!(engine.log().contains("`shards`: 2 serve until"), "{}", engine.log());
    engine.stop();
}

#[test]
fn clients_come_and_go_while_others_work() {
    let mut cache = of_two();
    cache.set("nbd.clients", 5);
    let engine = cache.start();
    thread::scope(|scope| {
        for at in 0..3_u64 {
            let engine = &engine;
            scope.spawn(move || {
                for round in 0..20_u64 {
                    // Another thread of the server may not yet know that earlier clients left.
                    let connect = || super::Client::connect(&engine.socket(), "").ok();
                    let mut client = engine.wait_for("a place for a client", connect);
                    let byte = u8::try_from(at * 20 + round + 1).unwrap();
                    let offset = at * 3 * MIB + round * 65_536;
                    client.write(offset, &vec![byte; 100_000]).unwrap();
                    assert_eq!(client.read(offset, 100_000).unwrap(), vec![byte; 100_000]);
                }
            });
        }
    });
    engine.wait_for("the clients to be gone", || (engine.status()["clients"] == 0).then_some(()));
    let _clients: Vec<_> = (0..5).map(|_| engine.client()).collect();
    let sixth = super::Client::connect(&engine.socket(), "");
    assert!(sixth.is_err(), "one too many");
    thread::sleep(Duration::from_millis(1));
    engine.stop();
}

#[test]
fn the_status_of_blocks_is_asked_of_all_shards() {
    let cache = of_two();
    let engine = cache.start();
    let mut client = engine.client();
    for mib in 0..8_u64 {
        client.write(mib * MIB, &[1; 4096]).unwrap();
    }
    let found = client.call(Command::BlockStatus, 0, 8 << 20, &[]).unwrap();
    let words = found.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap()));
    let words: Vec<u32> = words.collect();
    let extents: Vec<(u32, u32)> = words.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    assert_eq!(extents.len(), 16, "{extents:?}");
    for pair in extents.chunks(2) {
        assert_eq!((pair[0].0, pair[1]), (4096, ((1 << 20) - 4096, 0)));
        assert_ne!(pair[0].1, 0);
    }
}

#[test]
fn what_does_not_fit_several_shards_is_refused_with_a_remedy() {
    let mut cache = of_two();
    let engine = cache.start();
    engine.client().write(0, &[5; 4096]).unwrap();
    engine.stop();
    for shards in [1, 3] {
        cache.set("shards", shards);
        let words = ["flash.path", "2 shards", "`shards = 2`", "drain", "--force-init"];
        cache.refused(&[], &words);
    }
    let mut other = of_two();
    for shards in [0, 65, -1, 100_000_000_000_i64] {
        let words = [&format!("`shards` is {shards}"), "1 to 64"];
        other.set("shards", shards).refused(&[], &words);
    }
    other.set("shards", 12).refused(&[], &["`shards`", "use fewer"]);
    cache.set("shards", 2);
    let engine = cache.start();
    assert_eq!(engine.client().read(0, 4096).unwrap(), [5; 4096], "nothing was changed");
}

/// Read pages of all the export, some far more often than others.
fn read_skewed(engine: &Engine, random: &mut SplitMix64, count: u64) {
    let mut client = engine.client();
    for _ in 0..count {
        // The least of three numbers.
        let page = [2816; 3].map(|pages| random.below(pages)).into_iter().min().unwrap_or(0);
        client.read(u64::from(page) * 4096, 4096).unwrap();
    }
}

#[test]
fn shadows_see_the_accesses_of_all_shards() {
    let mut cache = of_two();
    cache.set("policy.name", "lru-inclusive").set("shadow_sample", 1.0);
    let engine = cache.set("shadow", vec!["lru:ram=2x"]).start();
    let mut random = SplitMix64::new(17);
    read_skewed(&engine, &mut random, 4_000);
    let status = wait_for_sum(&engine, 4_000, accesses);
    let [twice, own] = &status["shadows"].as_array().unwrap()[..] else { panic!("{status}") };
    assert_eq!(own["name"], "lru-inclusive");
    assert_eq!((&own["accesses"], &own["sampled_accesses"]), (&4_000.into(), &4_000.into()));
    // The policy that runs is simulated with each access of each shard, so it finds what that does.
    for tier in ["ram", "flash"] {
        let hits = status["accesses"]["read"][tier].as_u64().unwrap() as f64;
        let ratio = own[format!("{tier}_hit_ratio")].as_f64().unwrap();
        assert!(hits > 100.0 && (ratio * 4_000.0 - hits).abs() < 1e-6, "{tier}: {ratio}, {hits}");
    }
    let ratio = |shadow: &Value| shadow["ram_hit_ratio"].as_f64().unwrap();
    assert!(ratio(twice) > ratio(own), "{status}");

    // All shards take another list over.
    assert!(engine.reload(cache.set("shadow", vec!["lru:ram=2x", "face-gsc"])));
    engine.wait_for("both shards to have it", || {
        read_skewed(&engine, &mut random, 40);
        let status: Value = serde_json::from_str(&engine.get("/status")).unwrap();
        let shadows = status["shadows"].as_array().unwrap();
        let of = |name: &str| {
            let one = shadows.iter().find(|one| one["name"] == name);
            one.map_or(0, |one| one["sampled_accesses"].as_u64().unwrap())
        };
        let [twice, new] = [of("lru:ram=2x"), of("face-gsc")];
        (new > 0 && twice > 4_000 && accesses(&status) == twice).then_some(())
    });
    engine.stop();
}
