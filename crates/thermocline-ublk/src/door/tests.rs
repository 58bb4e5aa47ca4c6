//! A queue of a list of requests, in place of the driver's.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Mutex;

use thermocline_nbd::service::Piece;

use super::*;
use crate::abi::Descriptor;

/// Events that a driver sees of a queue.
#[derive(Debug, Default)]
struct Seen {
    come: VecDeque<(u16, Result<(), i32>)>,
    requests: BTreeMap<u16, Descriptor>,
    bytes: BTreeMap<u16, Vec<u8>>,
    committed: Vec<(u16, i32)>,
    submits: u32,
    depth: u16,
    is_broken: bool,
}

#[derive(Clone, Debug, Default)]
struct ListQueue(Arc<Mutex<Seen>>);

impl Queue for ListQueue {
    fn descriptor(&self) -> RawFd {
        0
    }

    fn begin(&mut self, place: Place) -> io::Result<()> {
        self.0.lock().unwrap().depth = place.depth;
        Ok(())
    }

    fn next(&mut self) -> Option<(u16, Result<(), i32>)> {
        self.0.lock().unwrap().come.pop_front()
    }

    fn request(&self, tag: u16) -> Descriptor {
        self.0.lock().unwrap().requests[&tag]
    }

    fn take(&self, tag: u16, bytes: &mut [u8]) -> io::Result<()> {
        let seen = self.0.lock().unwrap();
        if seen.is_broken {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.copy_from_slice(&seen.bytes[&tag]);
        Ok(())
    }

    fn give(&self, tag: u16, start_bytes: u32, bytes: &[u8]) -> io::Result<()> {
        let mut seen = self.0.lock().unwrap();
        if seen.is_broken {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let given = seen.bytes.entry(tag).or_default();
        given.resize(start_bytes as usize, 0);
        given.extend(bytes);
        Ok(())
    }

    fn commit(&mut self, tag: u16, result: i32) {
        self.0.lock().unwrap().committed.push((tag, result));
    }

    fn submit(&mut self) {
        self.0.lock().unwrap().submits += 1;
    }

    fn is_quiet(&mut self) -> bool {
        self.0.lock().unwrap().come.is_empty()
    }
}

/// Return a door that has begun, with a note that says this.
fn start(keeps: bool, is_doubtful: bool) -> (UblkDoor, ListQueue, Arc<Shared>) {
    let queue = ListQueue::default();
    let shared = Arc::new(Shared::new(keeps));
    let (door, begins) = UblkDoor::with(Box::new(queue.clone()), &shared);
    let file = Arc::new(tempfile::tempfile().unwrap());
    let place = Place { file, number: 0, depth: 4 };
    let durability = Arc::new(Durability::new(None, is_doubtful, is_doubtful));
    begins.send(Begin { place, durability }).unwrap();
    (door, queue, shared)
}

impl ListQueue {
    fn ask(&self, tag: u16, op_flags: u32, sectors: u32, start_sector: u64) {
        let mut seen = self.0.lock().unwrap();
        seen.requests.insert(tag, Descriptor { op_flags, sectors, start_sector });
        seen.come.push_back((tag, Ok(())));
    }

    fn committed(&self) -> Vec<(u16, i32)> {
        std::mem::take(&mut self.0.lock().unwrap().committed)
    }
}

fn next(door: &mut UblkDoor) -> Option<(Asked, Vec<u8>)> {
    let mut payload = vec![];
    door.next_request(&mut payload).map(|asked| (asked, payload))
}

#[test]
fn requests_and_their_bytes_go_both_ways() {
    let (mut door, queue, _) = start(false, false);
    assert!(next(&mut door).is_none());
    assert_eq!(queue.0.lock().unwrap().depth, 4, "it has begun");
    queue.0.lock().unwrap().bytes.insert(1, vec![7; 1024]);
    queue.ask(1, 1, 2, 3);
    queue.ask(0, 0, 2, 3);
    assert!(!door.may_sleep());
    let piece = |command| Piece {
        command,
        flags: 0,
        offset_bytes: 1536,
        length_bytes: 1024,
        cooperator: None,
    };
    let write = Asked { ticket: 1, piece: piece(Command::Write) };
    assert_eq!(next(&mut door), Some((write, vec![7; 1024])));
    let read = Asked { ticket: 0, piece: piece(Command::Read) };
    assert_eq!(next(&mut door), Some((read, vec![])));
    door.give(0, 0, &[5; 512]);
    door.give(0, 512, &[6; 512]);
    door.answer(0, Ok(()));
    door.answer(1, Err(ErrorCode::NoSpace));
    assert_eq!(queue.committed(), [(0, 1024), (1, -28)]);
    assert_eq!(queue.0.lock().unwrap().bytes[&0], [[5; 512], [6; 512]].concat());
    let before = queue.0.lock().unwrap().submits;
    door.end_turn();
    assert_eq!(queue.0.lock().unwrap().submits, before + 1);
    assert!(door.may_sleep());
}

#[test]
fn what_is_not_known_or_cannot_be_copied_fails() {
    let (mut door, queue, _) = start(false, false);
    queue.0.lock().unwrap().is_broken = true;
    queue.ask(0, 4, 1, 0);
    queue.ask(1, 1, 1, 0);
    queue.ask(2, 0, 1, 0);
    let (asked, payload) = next(&mut door).unwrap();
    assert_eq!((asked.ticket, payload.len()), (2, 0));
    assert_eq!(queue.committed(), [(0, -95), (1, -5)]);
    door.give(2, 0, &[1; 512]);
    door.answer(2, Ok(()));
    assert_eq!(queue.committed(), [(2, -5)]);
}

#[test]
fn the_first_flush_after_a_kill_fails() {
    let (mut door, queue, _) = start(false, true);
    for result in [-5, 0] {
        queue.ask(3, 2, 0, 0);
        let (asked, _) = next(&mut door).unwrap();
        door.answer(asked.ticket, Ok(()));
        assert_eq!(queue.committed(), [(3, result)]);
    }
}

#[test]
fn discards_and_zeroes_are_writes_that_return_no_bytes() {
    let (mut door, queue, _) = start(false, false);
    queue.ask(0, 3, 8, 0);
    queue.ask(1, 5, 8, 0);
    for _ in 0..2 {
        let (asked, _) = next(&mut door).unwrap();
        door.answer(asked.ticket, Ok(()));
    }
    assert_eq!(queue.committed(), [(0, 0), (1, 0)]);
    assert_eq!(door.durability().covered(), 2);
}

#[test]
fn a_closed_door_takes_requests_only_while_the_device_stops() {
    let (mut door, queue, _) = start(true, false);
    next(&mut door);
    door.close();
    queue.ask(0, 0, 1, 0);
    assert!(next(&mut door).is_none(), "the next server has it");
    assert!(door.may_sleep());
    let (mut door, queue, _) = start(false, false);
    next(&mut door);
    door.close();
    queue.ask(0, 0, 1, 0);
    assert!(next(&mut door).is_some());
    queue.0.lock().unwrap().come.push_back((0, Err(-19)));
    assert!(next(&mut door).is_none());
}
