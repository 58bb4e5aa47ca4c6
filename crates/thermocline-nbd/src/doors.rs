//! A service that others use beside the server, in the server's thread: virtual machines, or the kernel.
//!
//! A [`Door`] turns what its users want into requests. [`Doored`] hands these to the service beside those
//! of the server's clients, cut into pieces as the server does, and each answer back to the door that it
//! is for. So the server's loop drives a door without knowing of it: the door's descriptor is one more of
//! the service's.

use std::fmt::Debug;
use std::os::fd::RawFd;
use std::time::Duration;

use slab::Slab;

use crate::codec::server::{READ_BYTES, bytes_to_multiple};
use crate::protocol::{Command, Context, ErrorCode, Extent};
use crate::service::{Cooperator, Departure, ExtentRange, Piece, Pushed, Reply, Service, Tag};

/// Tags of pieces that doors asked for; the server's have this bit clear.
const DOOR: u64 = 1 << 63;

/// Bytes of reads and writes in flight of all doors, beyond which they ask for no more.
const HELD_BYTES_MAX: u64 = 64 << 20;

/// Requests that one door may ask for before others have their turn: who asks for nonsense is answered at
/// once, and could else keep the thread for itself.
const REQUESTS_PER_TURN: usize = 256;

/// A request that came through a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Number by which the door identifies it; no two in flight have the same.
    pub ticket: u64,
    /// Operation and its range: of any length, within the export or not.
    pub piece: Piece,
}

/// Source of requests that no client of the server made.
pub trait Door: Debug + Send {
    /// Return a descriptor that becomes readable when there may be a request.
    fn descriptor(&self) -> RawFd;

    /// Takes the next request, if there is one; `payload` is empty, and becomes what a write brings.
    fn next_request(&mut self, payload: &mut Vec<u8>) -> Option<Asked>;

    /// Takes bytes that a read found, which lie so many bytes behind its beginning.
    fn give(&mut self, ticket: u64, start_bytes: u32, bytes: &[u8]);

    /// Takes the end of a request. All bytes of a read that succeeded were given before.
    fn answer(&mut self, ticket: u64, outcome: Result<(), ErrorCode>);

    /// Pass the users all answers since the last call.
    fn end_turn(&mut self);

    /// Prepare to sleep until the descriptor is ready. Returns `true` if the thread may sleep:
    /// there is no request now, and the descriptor signals the next one.
    fn may_sleep(&mut self) -> bool;

    /// Take no more requests; those in flight are still answered.
    fn close(&mut self);

    /// Return `true` if requests still come although it was closed, and must be answered before the
    /// server may end.
    fn is_needed(&self) -> bool {
        false
    }
}

/// A request in flight.
#[derive(Debug)]
struct InFlight {
    door: usize,
    ticket: u64,
    /// Bytes that it reads or writes.
    held_bytes: u64,
    is_read: bool,
    pieces_left: u32,
    error: Option<ErrorCode>,
}

/// A service with doors.
#[derive(Debug)]
pub struct Doored<S> {
    inner: S,
    doors: Vec<Box<dyn Door>>,
    size_bytes: u64,
    in_flight: Slab<InFlight>,
    held_bytes: u64,
    payload: Vec<u8>,
    scratch: Vec<u8>,
}

impl<S: Service> Doored<S> {
    /// Create a service of `size_bytes` bytes, with the doors that also use it.
    pub fn new(inner: S, size_bytes: u64, doors: Vec<Box<dyn Door>>) -> Self {
        let (in_flight, payload, scratch) = (Slab::new(), vec![], vec![]);
        Self { inner, doors, size_bytes, in_flight, held_bytes: 0, payload, scratch }
    }

    /// Return the service itself.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Return the service itself, once nobody uses it any more.
    pub fn into_inner(self) -> S {
        self.inner
    }

    fn is_full(&self) -> bool {
        self.held_bytes >= HELD_BYTES_MAX
    }

    /// Takes what came through the doors.
    fn take(&mut self) {
        for door in 0..self.doors.len() {
            for _ in 0..REQUESTS_PER_TURN {
                if self.is_full() {
                    break;
                }
                let mut payload = std::mem::take(&mut self.payload);
                payload.clear();
                let asked = self.doors[door].next_request(&mut payload);
                if let Some(asked) = &asked {
                    self.submit_all(door, asked, &payload);
                }
                self.payload = payload;
                if asked.is_none() {
                    break;
                }
            }
        }
    }

    /// Hands a request to the service, in pieces.
    fn submit_all(&mut self, door: usize, asked: &Asked, payload: &[u8]) {
        let Asked { ticket, piece } = *asked;
        let length = u64::from(piece.length_bytes);
        let is_within =
            piece.offset_bytes.checked_add(length).is_some_and(|end| end <= self.size_bytes);
        let is_nothing = length == 0 && piece.command != Command::Flush;
        // The service counts on the checks of the server, which this does not pass through.
        if !is_within || is_nothing {
            let outcome = if is_within { Ok(()) } else { Err(ErrorCode::Invalid) };
            return self.doors[door].answer(ticket, outcome);
        }
        let is_cut = matches!(piece.command, Command::Read | Command::Write);
        let held_bytes = if is_cut { length } else { 0 };
        self.held_bytes += held_bytes;
        let is_read = piece.command == Command::Read;
        let place = self.in_flight.insert(InFlight {
            door,
            ticket,
            held_bytes,
            is_read,
            pieces_left: 0,
            error: None,
        });
        let mut start = 0;
        loop {
            let offset_bytes = piece.offset_bytes + u64::from(start);
            let left = piece.length_bytes - start;
            let length_bytes =
                if is_cut { left.min(bytes_to_multiple(offset_bytes, READ_BYTES)) } else { left };
            let part = Piece { offset_bytes, length_bytes, ..piece };
            let range = start as usize..(start + length_bytes) as usize;
            let bytes = if piece.command == Command::Write { &payload[range] } else { &[][..] };
            self.in_flight[place].pieces_left += 1;
            self.inner.submit(Tag(DOOR | (place as u64) << 32 | u64::from(start)), &part, bytes);
            start += length_bytes;
            if start == piece.length_bytes {
                return;
            }
        }
    }

    /// Note that the service answered a piece of a door.
    fn answered(&mut self, reply: &Reply) {
        let Tag(tag) = reply.tag;
        let place = usize::try_from((tag & !DOOR) >> 32).expect("31 bits");
        let start = u32::try_from(tag & u64::from(u32::MAX)).expect("32 bits");
        let request = &mut self.in_flight[place];
        let door = &mut self.doors[request.door];
        if request.is_read && reply.outcome.is_ok() {
            self.scratch.clear();
            self.inner.take_data(reply.tag, &mut self.scratch);
            door.give(request.ticket, start, &self.scratch);
        }
        request.error = request.error.or(reply.outcome.err());
        request.pieces_left -= 1;
        if request.pieces_left == 0 {
            door.answer(request.ticket, request.error.map_or(Ok(()), Err));
            self.held_bytes -= self.in_flight.remove(place).held_bytes;
        }
    }
}

impl<S: Service> Service for Doored<S> {
    fn submit(&mut self, tag: Tag, piece: &Piece, payload: &[u8]) {
        debug_assert!(tag.0 & DOOR == 0, "the highest bit is for doors");
        self.inner.submit(tag, piece, payload);
    }

    fn drive(&mut self) {
        self.take();
        self.inner.drive();
    }

    fn next_reply(&mut self) -> Option<Reply> {
        loop {
            match self.inner.next_reply() {
                Some(reply) if reply.tag.0 & DOOR != 0 => self.answered(&reply),
                Some(reply) => return Some(reply),
                None => break,
            }
        }
        // Once for all answers of a turn: one notification for the users of a door.
        self.doors.iter_mut().for_each(|door| door.end_turn());
        None
    }

    fn take_data(&mut self, tag: Tag, target: &mut Vec<u8>) {
        self.inner.take_data(tag, target);
    }

    fn take_pieces(&mut self, tag: Tag, take: &mut dyn FnMut(&[&[u8]])) {
        self.inner.take_pieces(tag, take);
    }

    fn extents(&mut self, context: Context, range: &ExtentRange, found: &mut Vec<Extent>) {
        self.inner.extents(context, range, found);
    }

    fn take_recalls(&mut self, tag: Tag) -> Vec<u64> {
        self.inner.take_recalls(tag)
    }

    fn take_answers(&mut self, tag: Tag) -> Vec<u64> {
        self.inner.take_answers(tag)
    }

    fn take_push(&mut self, tag: Tag) -> Option<Pushed> {
        self.inner.take_push(tag)
    }

    fn has_left(&mut self, cooperator: Cooperator, departure: Departure) {
        self.inner.has_left(cooperator, departure);
    }

    fn must_ask(&self, context: Context) -> bool {
        self.inner.must_ask(context)
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let doors = self.doors.iter().map(|door| door.descriptor());
        self.inner.descriptors().into_iter().chain(doors).collect()
    }

    fn wait_limit(&self) -> Option<Duration> {
        self.inner.wait_limit()
    }

    fn may_sleep(&mut self) -> bool {
        // While much is in flight, requests wait at their doors until the next answer.
        let is_quiet =
            self.is_full() || self.doors.iter_mut().fold(true, |one, door| one & door.may_sleep());
        self.inner.may_sleep() & is_quiet
    }

    fn has_woken(&mut self) {
        self.inner.has_woken();
    }

    fn is_needed(&mut self, has_clients: bool) -> bool {
        self.doors.iter_mut().for_each(|door| door.close());
        let has_users = !self.in_flight.is_empty() || self.must_stay();
        self.inner.is_needed(has_clients || has_users) | has_users
    }

    fn must_stay(&self) -> bool {
        self.doors.iter().any(|door| door.is_needed())
    }
}

#[cfg(test)]
mod tests;
