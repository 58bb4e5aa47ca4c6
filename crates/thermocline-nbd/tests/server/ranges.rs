//! Trims and zeroes of very long ranges: what they cost is what the cache holds of them.

use std::sync::{Arc, Mutex};

use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::{
    Device, Engine, Operation, OperationKind, OperationParts, Options, PolicyOptions, Shard,
};
use thermocline_nbd::cached::Cached;
use thermocline_nbd::protocol::Command;
use thermocline_nbd::server::{Export, Settings};

use super::Running;

/// Large pages, so that the policy's tables stay small.
const PAGE: u64 = 1 << 20;
/// 16 TiB.
const PAGES: u32 = 1 << 24;
/// The longest request of NBD that is made of whole pages.
const REQUEST: u64 = (1 << 32) - PAGE;

/// Pages that the cache holds.
const HELD: [u64; 3] = [0, 1_000_000, 2_000_000];

/// Requests to the backing store without bytes: kind, first byte, length.
type Blanks = Arc<Mutex<Vec<(OperationKind, u64, u64)>>>;

/// Devices that succeed in everything and keep nothing.
struct Counting {
    taken: Vec<Operation>,
    blanks: Blanks,
}

impl Driver for Counting {
    fn start(&mut self, operation: Operation) {
        let is_blank = matches!(operation.kind, OperationKind::Discard | OperationKind::Zero);
        if operation.device == Device::Backing && is_blank {
            let OperationParts { kind, offset_bytes, length_bytes, .. } = *operation;
            self.blanks.lock().unwrap().push((kind, offset_bytes, length_bytes));
        }
        self.taken.push(operation);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.extend(self.taken.drain(..).map(|operation| (operation, Ok(()))));
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.poll(done);
    }
}

/// Return a cache in front of 16 TiB that holds three pages of them.
fn start() -> (Running, Blanks) {
    let policy = PolicyOptions::named("lru-inclusive").unwrap();
    let mut options = Options::new(PAGES.into(), 16, 64, policy);
    options.page_bytes = 1 << 20;
    let shard = Shard::new(options).unwrap();
    let blanks = Blanks::default();
    let driver = Counting { taken: vec![], blanks: Arc::clone(&blanks) };
    let service = Cached::new(Engine::new(shard, driver));
    let info = service.info("", "16 TiB");
    let running = Running::serve(vec![Export { info, service }], Settings::default(), false);
    let mut client = running.client();
    for page in HELD {
        client.write(page * PAGE, &vec![1; 1 << 20]).unwrap();
    }
    (running, blanks)
}

#[test]
fn sixteen_tebibytes_are_trimmed_by_about_one_operation_per_request() {
    let (running, blanks) = start();
    let mut client = running.client();
    let end = u64::from(PAGES) * PAGE;
    let (mut at, mut requests) = (0, 0);
    while at < end {
        let length = REQUEST.min(end - at);
        client.call(Command::Trim, at, usize::try_from(length).unwrap(), &[]).unwrap();
        at += length;
        requests += 1;
    }
    client.call(Command::Flush, 0, 0, &[]).unwrap();
    let blanks = blanks.lock().unwrap();
    // A held page in the middle of a request cuts it in two, one at its beginning does not.
    assert_eq!((blanks.len(), requests), (4100, 4098));
    let discarded: u64 = blanks.iter().map(|&(_, _, length)| length).sum();
    assert_eq!(discarded, end - 3 * PAGE, "all but the pages that the cache holds");
    for page in HELD {
        assert_eq!(client.read(page * PAGE, 4096).unwrap(), [0; 4096]);
    }
}

#[test]
fn long_zeroes_are_cut_so_that_each_ends_in_time() {
    let (running, blanks) = start();
    let mut client = running.client();
    let offset = 1 << 40;
    for request in 0..16 {
        let length = usize::try_from(REQUEST).unwrap();
        client.call(Command::WriteZeroes, offset + request * REQUEST, length, &[]).unwrap();
    }
    let blanks = blanks.lock().unwrap();
    let mut next = offset;
    for &(kind, offset, length) in blanks.iter() {
        assert_eq!((kind, offset), (OperationKind::Zero, next));
        assert!(length <= 256 << 20, "{length}");
        next += length;
    }
    assert_eq!((next, blanks.len()), (offset + 16 * REQUEST, 16 * 16));
}
