//! Clients that ask for much do not keep others waiting.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use thermocline_nbd::codec::client::RequestHeader;
use thermocline_nbd::protocol::{Command, Context, Extent};
use thermocline_nbd::server::{Export, Settings};
use thermocline_nbd::service::{ExtentRange, Piece, Reply, Service, Tag};

use super::Running;
use super::memory::Memory;

const BUSY_CLIENTS: usize = 16;
/// Requests that each of them has outstanding.
const OUTSTANDING: usize = 1000;

/// Memory that takes its time for each request, and counts them.
struct Slow {
    memory: Memory,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    taken: AtomicUsize,
    /// Requests taken when the last read was.
    taken_at_read: AtomicUsize,
    /// The most requests that were taken between a read and its answer.
    most_between: AtomicUsize,
}

impl Service for Slow {
    fn submit(&mut self, tag: Tag, piece: &Piece, payload: &[u8]) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(30) {
            std::hint::spin_loop();
        }
        let taken = self.counts.taken.fetch_add(1, Ordering::Relaxed) + 1;
        if piece.command == Command::Read {
            self.counts.taken_at_read.store(taken, Ordering::Relaxed);
        }
        self.memory.submit(tag, piece, payload);
    }

    fn drive(&mut self) {
        self.memory.drive();
    }

    fn next_reply(&mut self) -> Option<Reply> {
        self.memory.next_reply()
    }

    fn take_data(&mut self, tag: Tag, target: &mut Vec<u8>) {
        let [taken, at_read] = [&self.counts.taken, &self.counts.taken_at_read]
            .map(|count| count.load(Ordering::Relaxed));
        self.counts.most_between.fetch_max(taken - at_read, Ordering::Relaxed);
        self.memory.take_data(tag, target);
    }

    fn extents(&mut self, context: Context, range: &ExtentRange, found: &mut Vec<Extent>) {
        self.memory.extents(context, range, found);
    }
}

#[test]
fn a_client_with_one_request_does_not_wait_for_those_with_many() {
    let counts = Arc::new(Counts::default());
    let memory = Memory::new(1 << 20);
    let info = memory.info("");
    let service = Slow { memory, counts: Arc::clone(&counts) };
    let running = Running::serve(vec![Export { info, service }], Settings::default(), false);
    let mut busy: Vec<_> = (0..BUSY_CLIENTS).map(|_| running.client()).collect();
    let mut innocent = running.client();
    let trim = RequestHeader {
        cookie: 0,
        command: Command::Trim,
        flags: 0,
        offset_bytes: 0,
        length_bytes: 512,
    };
    let mut requests = vec![];
    (0..OUTSTANDING).for_each(|_| trim.write(&mut requests));
    for client in &mut busy {
        client.stream.write_all(&requests).unwrap();
    }
    // A turn of all of them would be 16,000 requests, and a turn of the server is 128, of which a client has 64. If
    // others were served in the read's turn before it was answered, it would be the share of one at least.
    for _ in 0..32 {
        innocent.read(0, 512).unwrap();
    }
    let [taken, most] =
        [&counts.taken, &counts.most_between].map(|count| count.load(Ordering::Relaxed));
    assert!(taken < BUSY_CLIENTS * OUTSTANDING, "the others have requests left");
    assert!(most < 32, "{most} requests came first");
}
