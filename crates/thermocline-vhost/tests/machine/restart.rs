//! A server that goes away with requests in flight, and the next one.

use std::time::{Duration, Instant};

use thermocline_nbd::protocol::{Context, Extent};
use thermocline_nbd::service::{ExtentRange, Piece, Reply, Service, Tag};

use super::guest::{FLUSH, Guest, IN, Machine, OUT, Style};
use super::{Running, device};

/// Takes everything and answers nothing, as a server does that is about to be killed.
struct Silent;

impl Service for Silent {
    fn submit(&mut self, _tag: Tag, _piece: &Piece, _payload: &[u8]) {}

    fn drive(&mut self) {}

    fn next_reply(&mut self) -> Option<Reply> {
        None
    }

    fn take_data(&mut self, _tag: Tag, _target: &mut Vec<u8>) {
        unreachable!("nothing was answered")
    }

    /// Return the time until a server that is to end must check that it may, although nothing
    /// happens.
    fn wait_limit(&self) -> Option<Duration> {
        Some(Duration::from_millis(10))
    }

    fn extents(&mut self, _context: Context, _range: &ExtentRange, _found: &mut Vec<Extent>) {}
}

#[test]
fn what_a_server_took_and_did_not_answer_the_next_one_does() {
    let dead = Running::serve(Silent, device(true));
    let mut guest = Machine::new().connect(&dead.socket(), 3, 0);
    let style = Style { is_indirect: true, parts: 2 };
    // Two writes of the same sectors: their order matters.
    for (head, byte) in (0..4).zip([1, 2, 3, 4]) {
        guest.submit(1, head, (OUT, 64), &[byte; 4096], 0, style);
    }
    guest.submit(2, 7, (IN, 8), &[], 512, style);
    (1..3).for_each(|ring| guest.kick(ring));
    let taken = || dead.handle.clients();
    // The door has taken them once the rings say so.
    let deadline = Instant::now() + Duration::from_secs(20);
    while guest.in_flight() < 5 {
        assert!(Instant::now() < deadline, "the requests are not taken");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(taken(), 0, "a virtual machine is no client of the protocol");
    let machine = guest.machine.clone();
    drop(dead);
    drop(guest);
    let running = Running::start();
    let mut guest = machine.connect(&running.socket(), 3, 0);
    // One more behind them.
    guest.submit(1, 9, (OUT, 600), &[5; 512], 0, style);
    guest.kick(1);
    let mut heads: Vec<u16> = (0..5).map(|_| guest.answer(1, |_| 0).head).collect();
    heads.sort_unstable();
    assert_eq!(heads, [0, 1, 2, 3, 9]);
    let read = guest.answer(2, |_| 512);
    assert_eq!((read.head, read.status, read.data), (7, 0, vec![0; 512]));
    assert!(!guest.is_waiting(1) && !guest.is_waiting(2), "each is answered once");
    assert_eq!(guest.read(64, 4096), [4; 4096], "the last write is the one that counts");
    assert_eq!(guest.read(600, 512), [5; 512]);
    assert_eq!(guest.in_flight(), 0);
}

/// Return the status of a flush.
fn flush(guest: &mut Guest) -> u8 {
    guest.call((FLUSH, 0), &[], 0).status
}

/// Return the same machine at another server, or at the same one again.
fn reconnect(guest: Guest, running: &Running) -> Guest {
    let machine = guest.machine.clone();
    drop(guest);
    machine.connect(&running.socket(), 3, 0)
}

#[test]
fn a_flush_does_not_vouch_for_what_a_killed_server_took_with_it() {
    let first = Running::start();
    let mut guest = first.guest();
    assert_eq!(guest.write(0, &[1; 512]), 0);
    assert_eq!(flush(&mut guest), 0);
    // Everything was flushed.
    let second = Running::start();
    let mut guest = reconnect(guest, &second);
    assert_eq!(flush(&mut guest), 0);
    assert_eq!(guest.write(0, &[2; 512]), 0);
    // The same server has lost nothing.
    let mut guest = reconnect(guest, &second);
    assert_eq!(flush(&mut guest), 0);
    assert_eq!(guest.write(0, &[3; 512]), 0);
    // One that ends in order loses nothing either.
    second.vhost.as_ref().unwrap().settle();
    let third = Running::start();
    let mut guest = reconnect(guest, &third);
    assert_eq!(flush(&mut guest), 0);
    assert_eq!(guest.write(0, &[4; 512]), 0);
    // The write was answered, and nothing flushed it: two servers are killed until the guest asks.
    let fourth = Running::start();
    let guest = reconnect(guest, &fourth);
    fourth.vhost.as_ref().unwrap().settle();
    let fifth = Running::start();
    let mut guest = reconnect(guest, &fifth);
    assert_eq!((flush(&mut guest), flush(&mut guest)), (1, 0), "the guest is told once");
}

#[test]
fn a_guest_that_offers_more_requests_than_its_ring_has_descriptors_is_left_alone() {
    let running = Running::serve(Silent, device(true));
    let mut guest = Machine::new().connect(&running.socket(), 3, 0);
    let style = Style { is_indirect: true, parts: 1 };
    // A request that is never answered, again and again.
    guest.submit(0, 3, (FLUSH, 0), &[], 0, style);
    for _ in 0..100 {
        guest.offer(0, 3);
        guest.kick(0);
        std::thread::sleep(Duration::from_micros(200));
    }
    // One that would be answered at once.
    guest.submit(0, 5, (77, 0), &[], 0, style);
    guest.kick(0);
    for head in 0..3 {
        guest.submit(1, head, (77, 0), &[], 0, style);
        guest.kick(1);
        assert_eq!(guest.answer(1, |_| 0).status, 2, "the other rings are served");
    }
    assert!(guest.take(0).is_none(), "the ring is served no more");
}
