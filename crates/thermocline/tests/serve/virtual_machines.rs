//! A virtual machine's disk: guests whose server is killed, and clients beside them.

use super::guest::{FLUSH, Guest, Machine, OUT, Style};
use super::{Cache, Engine};

/// Sectors of a page.
const PAGE_SECTORS: u64 = 8;
/// Pages that the guest writes.
const PAGES: u64 = 800;

fn cache(shards: i64) -> Cache {
    let mut cache = Cache::new(11);
    cache.set("shards", shards).set("vhost_user.socket", "vhost.sock");
    cache
}

fn connect(cache: &Cache, machine: Machine) -> Guest {
    machine.connect(&cache.path("vhost.sock"), 3, 0)
}

/// Writes every page in an order that visits all tiers, and flushes.
fn write_all(guest: &mut Guest, byte: u8) {
    for step in 0..PAGES {
        let page = step * 37 % PAGES;
        assert_eq!(guest.write(page * PAGE_SECTORS, &[byte ^ page.to_le_bytes()[0]; 4096]), 0);
    }
    assert_eq!(guest.call((FLUSH, 0), &[], 0).status, 0);
}

fn check_all(guest: &mut Guest, byte: u8) {
    for page in 0..PAGES {
        let expected = [byte ^ page.to_le_bytes()[0]; 4096];
        assert!(guest.read(page * PAGE_SECTORS, 4096) == expected, "page {page}");
    }
}

/// Puts writes of every ring into flight, and kills the server while they are there.
fn kill_in_flight(guest: &mut Guest, engine: Engine) {
    let style = Style { is_indirect: true, parts: 3 };
    for ring in 0..3 {
        for head in 0..16_u16 {
            let page = PAGES + u64::from(ring) * 256 + u64::from(head) * 16;
            let data = vec![head.to_le_bytes()[0] + 1; 16 << 12];
            guest.submit(ring, head, (OUT, page * PAGE_SECTORS), &data, 0, style);
        }
        guest.kick(ring);
    }
    engine.kill();
}

#[test]
fn a_guest_loses_no_request_and_nothing_that_it_flushed_when_its_server_is_killed() {
    for (round, (policy, shards)) in
        (1..).zip([("hat", 1), ("lru-inclusive", 2), ("face-gsc", 1), ("lc", 2)])
    {
        let mut cache = cache(shards);
        cache.set("policy.name", policy);
        let engine = cache.start();
        let mut guest = connect(&cache, Machine::new());
        write_all(&mut guest, round);
        kill_in_flight(&mut guest, engine);
        let machine = guest.machine.clone();
        drop(guest);
        let engine = cache.start();
        let mut guest = connect(&cache, machine);
        let mut answered = 0;
        for ring in 0..3 {
            // Answers of the killed server may be in the rings already.
            while guest.is_waiting(ring) {
                assert_eq!(guest.answer(ring, |_| 0).status, 0);
                answered += 1;
            }
        }
        assert!(answered <= 48, "{answered} answers to 48 requests");
        for ring in 0..3_u64 {
            for head in 0..16_u64 {
                let page = PAGES + ring * 256 + head * 16;
                let found = guest.read(page * PAGE_SECTORS, 16 << 12);
                let byte = head.to_le_bytes()[0] + 1;
                // The writes that the killed server answered were not flushed.
                assert!(found.iter().all(|&it| it == byte || it == 0), "{policy}: page {page}");
            }
        }
        check_all(&mut guest, round);
        // The first one may have to tell that answered writes are gone.
        guest.call((FLUSH, 0), &[], 0);
        assert_eq!(guest.call((FLUSH, 0), &[], 0).status, 0);
        // Answered, not flushed, killed: the guest is told.
        assert_eq!(guest.write(0, &[round; 4096]), 0);
        engine.kill();
        let machine = guest.machine.clone();
        drop(guest);
        let engine = cache.start();
        let mut guest = connect(&cache, machine);
        assert_eq!(guest.call((FLUSH, 0), &[], 0).status, 1, "{policy}");
        check_all(&mut guest, round);
        drop(guest);
        engine.stop();
    }
}

#[test]
fn clients_and_guests_see_what_the_others_wrote() {
    let cache = cache(2);
    let engine = cache.start();
    let mut client = engine.client();
    let mut guest = connect(&cache, Machine::new());
    for page in 0..64_u64 {
        let byte = page.to_le_bytes()[0] + 1;
        assert_eq!(guest.write(page * 5 * PAGE_SECTORS, &[byte; 4096]), 0);
        assert_eq!(client.read(page * 20_480, 4096), Ok(vec![byte; 4096]));
        client.write(page * 20_480, &[byte ^ 0xff; 2048]).unwrap();
        assert_eq!(guest.read(page * 5 * PAGE_SECTORS, 2048), [byte ^ 0xff; 2048]);
    }
    drop(guest);
    engine.stop();
    assert!(!cache.path("vhost.sock").exists(), "a server removes its socket");
}

#[test]
fn a_server_for_virtual_machines_alone_stops_in_order_and_goes_on() {
    let mut cache = cache(1);
    cache.unset("nbd");
    let engine = cache.start();
    let mut guest = connect(&cache, Machine::new());
    write_all(&mut guest, 5);
    // Writes that nobody flushed: an orderly end makes them durable.
    assert_eq!(guest.write(0, &[9; 512]), 0);
    engine.stop();
    let machine = guest.machine.clone();
    drop(guest);
    let engine = cache.start();
    let mut guest = connect(&cache, machine);
    assert_eq!(guest.read(0, 512), [9; 512]);
    assert_eq!(guest.call((FLUSH, 0), &[], 0).status, 0, "nothing was lost");
    assert_eq!(guest.write(0, &[5; 512]), 0);
    check_all(&mut guest, 5);
    drop(guest);
    engine.stop();
}
