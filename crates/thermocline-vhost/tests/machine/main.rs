//! The device as a virtual machine sees it: a monitor's side that the `vhost` crate has, and rings that
//! are filled by hand, with sense and without.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod guest;
mod hostile;
mod restart;

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::{Engine, Options, PolicyOptions};
use thermocline_nbd::cached::Cached;
use thermocline_nbd::doors::{Door, Doored};
use thermocline_nbd::server::{Export, Handle, Server, Settings, SocketAccess, bind_unix};
use thermocline_nbd::service::Service;
use thermocline_vhost::{Device, VhostUser};
use vhost::vhost_user::VhostUserFrontend as _;
use vhost::vhost_user::message::VhostUserConfigFlags;

use self::guest::{
    DISCARD, EVENT_INDEX, FLUSH, Guest, ID, IN, Machine, OUT, RING_SIZE, Style, ZEROES, range,
};

const PAGES: u32 = 1000;
const BYTES: usize = (PAGES as usize) << 12;
const SECTORS: u64 = BYTES as u64 / 512;

/// Random numbers that are the same in every run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }

    fn word(&mut self, limit: u32) -> u32 {
        u32::try_from(self.below(limit.into())).unwrap()
    }

    fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap()
    }
}

/// A server in a thread of its own, which ends with it.
struct Running {
    folder: TempDir,
    handle: Handle,
    /// Device; it ends after the doors, which are in the server's thread.
    vhost: Option<VhostUser>,
    thread: Option<JoinHandle<()>>,
}

fn engine() -> Cached<MemoryDriver> {
    let policy = PolicyOptions::named("lru-exclusive").unwrap();
    Cached::new(Engine::in_memory(Options::new(PAGES.into(), 40, 64, policy)).unwrap())
}

fn device(may_write: bool) -> Device {
    let (size_bytes, id) = (BYTES as u64, "a cached disk with a long name".into());
    Device { size_bytes, preferred_bytes: 4096, may_write, id, queues: 4 }
}

impl Running {
    fn start() -> Self {
        Self::serve(engine(), device(true))
    }

    fn serve<S: Service + Send + 'static>(service: S, device: Device) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = bind_unix(&path, SocketAccess::default()).unwrap();
        let (vhost, doors) = VhostUser::start(listener, Some(&path), device, 1).unwrap();
        let doors = doors.into_iter().map(|door| Box::new(door) as Box<dyn Door>).collect();
        let info = engine().info("disk", "");
        let exports = vec![Export { info, service: Doored::new(service, BYTES as u64, doors) }];
        let settings =
            Settings { negotiation_limit: Duration::from_millis(100), ..Settings::default() };
        let mut server = Server::new(settings, exports).unwrap();
        let handle = server.handle();
        let thread = std::thread::spawn(move || server.run(|_| ()).unwrap());
        Self { folder, handle, vhost: Some(vhost), thread: Some(thread) }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn guest(&self) -> Guest {
        Machine::new().connect(&self.socket(), 3, 0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().unwrap().join();
        drop(self.vhost.take());
        assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        assert!(!self.socket().exists(), "the socket is removed");
    }
}

/// Expected contents of the disk; discarded sectors are unchanged or zeroes, each for itself.
struct Model {
    bytes: Vec<u8>,
    is_discarded: Vec<bool>,
}

impl Model {
    fn new() -> Self {
        Self { bytes: vec![0; BYTES], is_discarded: vec![false; BYTES / 512] }
    }

    fn write(&mut self, start: usize, bytes: &[u8]) {
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.is_discarded[start / 512..(start + bytes.len()) / 512].fill(false);
    }

    fn discard(&mut self, start: usize, bytes: usize) {
        self.is_discarded[start / 512..(start + bytes) / 512].fill(true);
    }

    fn allows(&self, start: usize, found: &[u8]) -> bool {
        let sectors = found.chunks(512).zip(start / 512..);
        sectors.into_iter().all(|(found, sector)| {
            let is_zero = self.is_discarded[sector] && found.iter().all(|byte| *byte == 0);
            is_zero || found == &self.bytes[sector * 512..][..512]
        })
    }
}

/// A request of a batch, and where the oracle has what it is about.
#[derive(Clone, Copy, Debug)]
struct Sent {
    kind: u32,
    start: usize,
    bytes: usize,
}

/// Batches of requests that do not touch one another, in any ring and form, beside a model.
fn check_requests(left_out: u64) {
    let running = Running::start();
    let mut guest = Machine::new().connect(&running.socket(), 3, left_out);
    let (mut random, mut model) = (Random(left_out + 7), Model::new());
    for round in 0..250_u8 {
        let mut sent = [[None; RING_SIZE as usize]; 3];
        let mut count = 0;
        // A request in each eighth of the disk at most.
        for part in 0..8 {
            let ring = u16::try_from(random.below(3)).unwrap();
            // A form without a table takes four descriptors.
            let style = Style { is_indirect: random.below(2) == 0, parts: 1 + random.index(9) };
            let style = if style.is_indirect { style } else { Style { parts: 1, ..style } };
            let head = u16::try_from(random.below(4) * 4).unwrap();
            if sent[usize::from(ring)][usize::from(head)].is_some() {
                continue;
            }
            let kind = [IN, IN, OUT, OUT, OUT, DISCARD, ZEROES, FLUSH][random.index(8)];
            let sectors = 1 + random.index(200);
            let start = (part * (BYTES >> 3)) / 512 + random.index(BYTES / 4096 - 200);
            let (start, bytes) = (start * 512, sectors * 512);
            let sector = (start / 512) as u64;
            let (data, room, sector) = match kind {
                IN => (vec![], bytes, sector),
                OUT => {
                    let byte = |at: usize| (at >> 9).to_le_bytes()[0] ^ round;
                    let data: Vec<u8> = (start..start + bytes).map(byte).collect();
                    model.write(start, &data);
                    (data, 0, sector)
                }
                FLUSH => (vec![], 0, 0),
                _ => {
                    if kind == DISCARD {
                        model.discard(start, bytes);
                    } else {
                        model.write(start, &vec![0; bytes]);
                    }
                    (range(sector, u32::try_from(sectors).unwrap(), 0), 0, 0)
                }
            };
            guest.submit(ring, head, (kind, sector), &data, room, style);
            sent[usize::from(ring)][usize::from(head)] = Some(Sent { kind, start, bytes });
            count += 1;
        }
        (0..3).for_each(|ring| guest.kick(ring));
        for (ring, sent) in (0..).zip(&mut sent) {
            while sent.iter().any(Option::is_some) {
                let room = |head: u16| match sent[usize::from(head)] {
                    Some(Sent { kind: IN, bytes, .. }) => bytes,
                    _ => 0,
                };
                let answer = guest.answer(ring, room);
                let Sent { kind, start, bytes } =
                    sent[usize::from(answer.head)].take().expect("each is answered once");
                assert_eq!(answer.status, 0, "round {round}: {kind}");
                let is_right = kind != IN || model.allows(start, &answer.data);
                assert!(is_right, "round {round}: a read of {bytes} bytes at {start}");
                count -= 1;
            }
        }
        assert_eq!(count, 0);
    }
}

#[test]
fn requests_in_any_ring_and_form_are_done_as_by_a_disk() {
    check_requests(0);
}

#[test]
fn guests_that_are_always_told_are_served_as_well() {
    check_requests(EVENT_INDEX);
}

#[test]
fn a_guest_learns_what_the_device_is_like() {
    let running = Running::start();
    let mut guest = running.guest();
    assert_eq!(guest.frontend.get_queue_num().unwrap(), 4);
    let config = |guest: &mut Guest, bytes: usize| {
        let flags = VhostUserConfigFlags::empty();
        let (_, config) = guest
            .frontend
            .get_config(0, u32::try_from(bytes).unwrap(), flags, &vec![0; bytes])
            .unwrap();
        config
    };
    assert_eq!(config(&mut guest, 60)[..8], SECTORS.to_le_bytes());
    // Newer monitors know of more fields.
    assert_eq!(config(&mut guest, 96)[60..], [0; 36]);
    let answer = guest.call((ID, 0), &[], 20);
    assert_eq!((answer.status, &answer.data[..]), (0, &b"a cached disk with a"[..]));
}

#[test]
fn a_guest_that_may_only_read_cannot_write() {
    let policy = PolicyOptions::named("lru-exclusive").unwrap();
    let options = Options::new(PAGES.into(), 40, 64, policy);
    let options = Options { write_mode: thermocline_engine::WriteMode::ReadOnly, ..options };
    let service = Cached::new(Engine::in_memory(options).unwrap());
    let running = Running::serve(service, device(false));
    let mut guest = running.guest();
    assert_eq!(guest.write(0, &[1; 512]), 1);
    assert_eq!(guest.read(0, 512), [0; 512]);
}

#[test]
fn a_ring_stops_with_all_answered_and_goes_on_there() {
    use vhost::VhostBackend as _;

    let running = Running::start();
    let mut guest = running.guest();
    for head in 0..4 {
        let style = Style { is_indirect: true, parts: 3 };
        guest.submit(1, head, (OUT, 100 * u64::from(head)), &[7; 5120], 0, style);
    }
    guest.kick(1);
    guest.answer(1, |_| 0);
    let next = guest.frontend.get_vring_base(1).unwrap();
    let mut answers = 1;
    while guest.take(1).is_some() {
        answers += 1;
    }
    assert_eq!(answers, next, "what was taken was answered");
    let machine = guest.machine.clone();
    drop(guest);
    let mut guest = machine.connect(&running.socket(), 3, 0);
    for _ in answers..4 {
        guest.answer(1, |_| 0);
    }
    assert_eq!(guest.read(300, 5120), [7; 5120]);
}
