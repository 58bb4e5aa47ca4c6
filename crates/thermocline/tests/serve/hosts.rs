//! Two servers that cooperate, as processes: clients in front of one server, and what is refused.

use std::thread;
use std::time::{Duration, Instant};

use super::{Cache, Engine, flush};

/// Start a server of 8 MiB with RAM and flash for clients of 256 KiB.
fn below(number: u32) -> Cache {
    let mut below = Cache::new(8);
    below.set("policy.name", "demote").set("flash.size", "1MiB").set("ram.size", "512KiB");
    below.set("clients.number", number).set("clients.ram", "256KiB");
    below
}

/// Return a client's configuration for that server.
fn client(below: &Engine) -> Cache {
    let mut client = Cache::new(1);
    client.unset("backing.path").unset("flash").set("backing.nbd", below.uri());
    client.set("backing.cooperate", true).set("policy.name", "demote");
    client.set("write_mode", "through").set("ram.size", "256KiB");
    client
}

/// Start a client as soon as the server has room for it: the place of one that has left may be kept for the
/// time of its lease.
fn start_with_room(client: &Cache) -> Engine {
    let begun = Instant::now();
    loop {
        match client.try_start() {
            Ok(engine) => return engine,
            Err(error) if begun.elapsed() > Duration::from_secs(30) => panic!("{error}"),
            Err(_) => thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// The first page read by a client is in its tier, if the policy wants it there: under some policies, the
/// server's answer says so.
#[test]
fn a_client_keeps_what_the_server_lets_it_keep() {
    for (name, key, value) in [
        ("d-hfa", "t", "1000"),
        ("h-hfa", "t", "1000"),
        ("hint-k", "khv_decay", "0.5"),
        ("p-hfa", "promote_probability", "1"),
    ] {
        let parameters: toml::Table = [(key.to_owned(), value.into())].into_iter().collect();
        let mut server = below(1);
        server.set("policy.name", name).set("policy.parameters", parameters.clone());
        let server = server.start();
        let mut cache = client(&server);
        cache.set("policy.name", name).set("policy.parameters", parameters);
        let engine = cache.start();
        let mut reader = engine.client();
        for _ in 0..3 {
            reader.read(4096, 4096).unwrap();
        }
        let hits = engine.status()["accesses"]["read"]["ram"].as_u64();
        assert_eq!(hits, Some(2), "{name}");
    }
}

/// Return a counter of an engine.
fn counter(engine: &Engine, name: &str) -> u64 {
    engine.status()[name].as_u64().unwrap_or_else(|| panic!("{name} in {}", engine.status()))
}

#[test]
fn clients_and_a_server_act_as_one_cache() {
    let server = below(2);
    let server = server.start();
    let caches = [client(&server), client(&server)];
    let engines = caches.each_ref().map(Cache::start);
    let mut clients = engines.each_ref().map(Engine::client);
    // 100 pages fit no client, and the server takes over what leaves.
    for page in 0..100_u8 {
        clients[0].write(u64::from(page) * 4096, &[page; 4096]).unwrap();
    }
    flush(&mut clients[0]);
    for _ in 0..2 {
        for page in 0..100_u8 {
            let bytes = clients[0].read(u64::from(page) * 4096, 4096).unwrap();
            assert_eq!(bytes, [page; 4096]);
        }
    }
    engines[0].wait_for("pages to be offered", || {
        (counter(&engines[0], "demotions") > 100).then_some(())
    });
    assert!(counter(&server, "demotions_taken") > 100);
    // Each client reads the other one's writes, no matter which of them had the page before.
    for round in 1..5_u8 {
        let [one, other] = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        assert_eq!(clients[other].read(4096, 1).map_err(drop), Err(()), "less than a page");
        clients[one].write(4096, &[round; 4096]).unwrap();
        assert_eq!(clients[other].read(4096, 4096).unwrap(), [round; 4096]);
    }
    assert!(counter(&engines[0], "pages_outdated") > 0);
    let refused = client(&server);
    refused.refused(&[], &["backing.nbd", "clients.number"]);
    drop(clients);
    engines.into_iter().for_each(Engine::stop);
    // Whoever has left makes room, and finds all that was flushed.
    let again = client(&server);
    let engine = start_with_room(&again);
    assert_eq!(engine.client().read(99 * 4096, 4096).unwrap(), [99; 4096]);
    engine.stop();
    server.stop();
}

#[test]
fn what_two_hosts_cannot_do_is_refused() {
    let cache = below(1);
    let server = cache.start();
    let refuse = |key: &str, value: &str, words: &[&str]| {
        client(&server).set(key, value).refused(&[], words);
    };
    refuse("write_mode", "back", &["write_mode", "backing.cooperate"]);
    refuse(
        "policy.name",
        "lru",
        &["policy.name", "`d-hfa`, `demote`, `h-hfa`, `hint-k`, `mq-n`, `p-hfa`, `promote`"],
    );
    refuse("flash.path", "flash.img", &["flash"]);
    refuse("page_size", "12KiB", &["page_size", "power of two"]);
    refuse("page_size", "8KiB", &["backing.nbd", "page_size"]);
    refuse("ram.size", "1MiB", &["backing.nbd", "clients.ram"]);
    refuse("policy.name", "h-hfa", &["backing.nbd", "policy.name"]);
    refuse("limits.sequential_bypass", "1MiB", &["sequential_bypass"]);
    refuse("vhost_user.socket", "vm.sock", &["[vhost_user]", "backing.cooperate"]);
    client(&server).set("ublk.id", 7).refused(&[], &["[ublk]", "backing.cooperate"]);
    client(&server).set("shards", 2).refused(&[], &["shards"]);
    below(0).refused(&[], &["`clients.number` is 0", "from 1 to 15"]);
    below(16).refused(&[], &["`clients.number` is 16"]);
    below(1).set("write_mode", "around").refused(&[], &["write_mode", "[clients]"]);
    below(1).set("clients.ram", "1KiB").refused(&[], &["`clients.ram` is 1024"]);
    below(1).set("policy.name", "hat").refused(&[], &["policy.name", "two hosts"]);
    // A server that has no section for clients.
    let mut plain = Cache::new(8);
    let plain = plain.unset("flash").set("policy.name", "lru").start();
    client(&plain).refused(&[], &["does not cooperate", "[clients]"]);
}
