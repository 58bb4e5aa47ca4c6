//! A door whose user is a list of requests, in front of an engine in memory.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex};

use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::{Engine, Options, PolicyOptions};

use super::*;
use crate::cached::Cached;

const BYTES: u64 = 1000 << 12;

/// Events that a door's user sees.
#[derive(Debug, Default)]
struct Seen {
    asked: VecDeque<(Piece, Vec<u8>)>,
    given: BTreeMap<u64, Vec<u8>>,
    answers: Vec<(u64, Result<(), ErrorCode>)>,
    turns: u32,
    is_closed: bool,
}

#[derive(Debug)]
struct ListDoor {
    seen: Arc<Mutex<Seen>>,
    tickets: u64,
    pipe: OwnedFd,
}

impl Door for ListDoor {
    fn descriptor(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    fn next_request(&mut self, payload: &mut Vec<u8>) -> Option<Asked> {
        assert!(payload.is_empty());
        let mut seen = self.seen.lock().unwrap();
        if seen.is_closed {
            return None;
        }
        let (piece, bytes) = seen.asked.pop_front()?;
        payload.extend(bytes);
        self.tickets += 1;
        Some(Asked { ticket: self.tickets, piece })
    }

    fn give(&mut self, ticket: u64, start_bytes: u32, bytes: &[u8]) {
        let mut seen = self.seen.lock().unwrap();
        let given = seen.given.entry(ticket).or_default();
        let end = start_bytes as usize + bytes.len();
        given.resize(given.len().max(end), 0);
        given[start_bytes as usize..end].copy_from_slice(bytes);
    }

    fn answer(&mut self, ticket: u64, outcome: Result<(), ErrorCode>) {
        self.seen.lock().unwrap().answers.push((ticket, outcome));
    }

    fn end_turn(&mut self) {
        self.seen.lock().unwrap().turns += 1;
    }

    fn may_sleep(&mut self) -> bool {
        self.seen.lock().unwrap().asked.is_empty()
    }

    fn close(&mut self) {
        self.seen.lock().unwrap().is_closed = true;
    }
}

fn start() -> (Doored<Cached<MemoryDriver>>, Arc<Mutex<Seen>>) {
    let options = Options::new(1000, 40, 64, PolicyOptions::named("lru-exclusive").unwrap());
    let service = Cached::new(Engine::in_memory(options).unwrap());
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (pipe, _) = std::io::pipe().unwrap();
    let door = ListDoor { seen: Arc::clone(&seen), tickets: 0, pipe: pipe.into() };
    (Doored::new(service, BYTES, vec![Box::new(door)]), seen)
}

fn piece(command: Command, offset_bytes: u64, length_bytes: usize) -> Piece {
    let length_bytes = u32::try_from(length_bytes).unwrap();
    Piece { command, flags: 0, offset_bytes, length_bytes, cooperator: None }
}

/// Drives until everything that was asked is answered; the server's client has nothing to do with it.
fn work(service: &mut Doored<Cached<MemoryDriver>>, seen: &Mutex<Seen>, answers: usize) {
    while seen.lock().unwrap().answers.len() < answers {
        service.drive();
        assert!(service.next_reply().is_none(), "no answer of a door is the server's");
    }
    assert!(service.may_sleep());
    assert_eq!((service.in_flight.len(), service.held_bytes), (0, 0));
}

#[test]
fn requests_of_any_length_are_cut_and_joined() {
    let (mut service, seen) = start();
    let mut model = vec![0_u8; usize::try_from(BYTES).unwrap()];
    let mut answers = 0;
    for (round, (offset, length)) in
        [(0, 4096), (700, 3 << 20), ((256 << 10) - 1, 2), (1 << 20, 1 << 20)]
            .into_iter()
            .enumerate()
    {
        let bytes: Vec<u8> = (0..length).map(|at| ((at >> 9) + round).to_le_bytes()[0]).collect();
        model[offset..offset + length].copy_from_slice(&bytes);
        let write = piece(Command::Write, offset as u64, length);
        let read = piece(Command::Read, offset as u64 / 2, length);
        seen.lock().unwrap().asked.push_back((write, bytes));
        answers += 1;
        work(&mut service, &seen, answers);
        seen.lock().unwrap().asked.push_back((read, vec![]));
        answers += 1;
        work(&mut service, &seen, answers);
        let seen = seen.lock().unwrap();
        assert!(seen.given[&(answers as u64)] == model[offset / 2..offset / 2 + length]);
        assert!(seen.answers.iter().all(|(_, outcome)| outcome.is_ok()));
        assert!(seen.turns > 0);
    }
}

#[test]
fn what_lies_outside_is_refused_and_nothing_is_done_at_once() {
    let (mut service, seen) = start();
    let asked = [
        piece(Command::Read, BYTES, 1),
        piece(Command::Write, BYTES - 1, 2),
        piece(Command::Read, u64::MAX, 4096),
        piece(Command::Read, BYTES, 0),
        piece(Command::Flush, 0, 0),
        piece(Command::Trim, 0, usize::try_from(BYTES).unwrap()),
    ];
    for piece in asked {
        let bytes = if piece.command == Command::Write { vec![1; 2] } else { vec![] };
        seen.lock().unwrap().asked.push_back((piece, bytes));
    }
    work(&mut service, &seen, 6);
    let mut answers = seen.lock().unwrap().answers.clone();
    answers.sort_by_key(|(ticket, _)| *ticket);
    let outcomes: Vec<_> = answers.into_iter().map(|(_, outcome)| outcome).collect();
    let outside = Err(ErrorCode::Invalid);
    assert_eq!(outcomes, [outside, outside, outside, Ok(()), Ok(()), Ok(())]);
}

#[test]
fn a_service_that_ends_answers_what_is_in_flight_and_takes_no_more() {
    let (mut service, seen) = start();
    seen.lock().unwrap().asked.push_back((piece(Command::Read, 0, 1 << 20), vec![]));
    service.drive();
    seen.lock().unwrap().asked.push_back((piece(Command::Read, 0, 4096), vec![]));
    assert!(service.is_needed(false), "a request is in flight");
    while service.is_needed(false) {
        service.drive();
        assert!(service.next_reply().is_none());
    }
    let seen = seen.lock().unwrap();
    assert_eq!((seen.answers.len(), seen.asked.len()), (1, 1));
}
