//! One connection of the driver: what was sent on it, and what comes back.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use slab::Slab;

use thermocline_engine::driver::Sent;

use super::connect::Greeted;
use super::orders::{Orders, Part};
use crate::codec::ProtocolError;
use crate::codec::client::{Event, Replies, RequestHeader};
use crate::protocol::{Command, ErrorCode};
use crate::server::transport::{Input, Output, Received, Socket, Transport};

/// A connection whose output has this many bytes is given no more requests for now.
const OUTPUT_BYTES: usize = 256 << 10;
/// Requests that one connection is given before another is used; servers commonly work on so many of
/// one connection at a time.
const CROWD: usize = 16;

/// Reason why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    #[error("the server closed the connection")]
    Closed,
    #[error("the server does not count on this cache any more")]
    Refused,
    #[error("the server left a request unanswered for {} seconds", .0.as_secs_f64())]
    Silent(Duration),
}

/// A request that was sent and not answered.
#[derive(Debug)]
struct Asked {
    header: RequestHeader,
    part: Part,
    /// Bytes of a read that have come.
    received_bytes: u64,
    /// The page that the server sends for one that left.
    pushed: Option<Sent>,
    error: Option<ErrorCode>,
    at: Instant,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    transport: Transport,
    input: Input,
    output: Output,
    replies: Replies,
    sent: Slab<Asked>,
    /// `true` if the system is asked to tell when the socket has room.
    pub(super) is_watched: bool,
}

impl Link {
    pub(super) fn new(greeted: Greeted) -> Self {
        Self {
            transport: greeted.transport,
            input: greeted.input,
            output: Output::default(),
            replies: Replies::default(),
            sent: Slab::new(),
            is_watched: false,
        }
    }

    /// Return `true` if it may be given another request now.
    pub(super) fn has_room(&self) -> bool {
        self.output.waiting().len() < OUTPUT_BYTES
    }

    /// Return the number of crowds of requests that it has in flight.
    pub(super) fn crowds(&self) -> usize {
        self.sent.len() / CROWD
    }

    /// Return `true` if something is left to be sent: after sending, the socket had no room for it.
    pub(super) fn is_blocked(&self) -> bool {
        !self.output.waiting().is_empty() || self.transport.holds_output()
    }

    /// Adds a request to what is to be sent.
    pub(super) fn push(&mut self, part: Part, orders: &mut Orders, now: Instant) {
        let entry = self.sent.vacant_entry();
        let header = RequestHeader {
            cookie: entry.key() as u64,
            command: part.command,
            flags: part.flags,
            offset_bytes: part.offset_bytes,
            length_bytes: part.length_bytes,
        };
        header.write(&mut self.output.bytes);
        if part.command.has_payload() {
            orders.gather(&part, &mut self.output.bytes);
        }
        entry.insert(Asked { header, part, received_bytes: 0, pushed: None, error: None, at: now });
    }

    /// Refuse to wait longer if a request was sent longer ago than `timeout`.
    pub(super) fn check(&self, now: Instant, timeout: Duration) -> Result<(), Fault> {
        let is_silent = |(_, sent): (usize, &Asked)| now.duration_since(sent.at) >= timeout;
        if self.sent.iter().any(is_silent) { Err(Fault::Silent(timeout)) } else { Ok(()) }
    }

    /// Adds a farewell.
    pub(super) fn push_disconnect(&mut self) {
        let (command, flags) = (Command::Disconnect, 0);
        let header = RequestHeader { cookie: 0, command, flags, offset_bytes: 0, length_bytes: 0 };
        header.write(&mut self.output.bytes);
    }

    /// Sends as much as the socket takes.
    pub(super) fn send(&mut self) -> Result<(), Fault> {
        Ok(self.transport.send(&mut self.output)?)
    }

    /// Takes all that has come.
    pub(super) fn receive(&mut self, orders: &mut Orders) -> Result<(), Fault> {
        loop {
            match self.transport.receive(&mut self.input)? {
                Received::Bytes { is_empty } => {
                    self.digest(orders)?;
                    if is_empty {
                        return Ok(());
                    }
                }
                Received::Nothing => return Ok(()),
                Received::End => return Err(Fault::Closed),
            }
        }
    }

    fn digest(&mut self, orders: &mut Orders) -> Result<(), Fault> {
        loop {
            let sent = &self.sent;
            let find = |cookie: u64| {
                let sent = usize::try_from(cookie).ok().and_then(|cookie| sent.get(cookie));
                sent.map(|sent| sent.header)
            };
            let (consumed, event) = self.replies.next(self.input.waiting(), find)?;
            let Some(event) = event else {
                self.input.consume(consumed);
                return Ok(());
            };
            take(&mut self.sent, &event, orders)?;
            self.input.consume(consumed);
        }
    }
}

/// Process an event.
fn take(sent: &mut Slab<Asked>, event: &Event<'_>, orders: &mut Orders) -> Result<(), Fault> {
    match *event {
        Event::Data { cookie, offset_bytes, bytes } => {
            let sent = &mut sent[key(cookie)];
            sent.received_bytes += bytes.len() as u64;
            if sent.header.command == Command::Demote {
                let end_bytes = offset_bytes.wrapping_add(bytes.len() as u64);
                // A page comes in pieces, one after the other: this is its beginning.
                let place = end_bytes.wrapping_sub(sent.received_bytes);
                let pushed = sent.pushed.as_mut().filter(|page| page.offset_bytes == place);
                let pushed = pushed.ok_or(NO_SUCH_PAGE)?;
                pushed.content.extend_from_slice(bytes);
                return Ok(());
            }
            orders.scatter(&sent.part, offset_bytes, bytes);
        }
        Event::Hole { cookie, offset_bytes, length_bytes } => {
            let sent = &mut sent[key(cookie)];
            sent.received_bytes += u64::from(length_bytes);
            orders.scatter_zeroes(&sent.part, offset_bytes, length_bytes.into());
        }
        Event::Extents { cookie, descriptors, .. }
            if sent[key(cookie)].header.command == Command::Demote =>
        {
            let sent = &mut sent[key(cookie)];
            if sent.pushed.is_some() || !orders.takes_pushes() {
                return Err(NO_SUCH_PAGE.into());
            }
            sent.pushed = pushed(descriptors);
        }
        Event::Extents { cookie, descriptors, .. } => {
            // One context was asked for; the codec takes extents for no other request.
            orders.take_extents(&sent[key(cookie)].part, descriptors);
        }
        Event::Failed { error: ErrorCode::ShuttingDown, .. } if orders.cooperation.is_some() => {
            return Err(Fault::Refused);
        }
        Event::Failed { cookie, error } => {
            sent[key(cookie)].error.get_or_insert(error);
        }
        Event::Done { cookie } => {
            let Asked { header, part, received_bytes, pushed, error, .. } =
                sent.remove(key(cookie));
            // Memory that no chunk filled has old bytes, which must not be served.
            let is_short = header.command == Command::Read
                && error.is_none()
                && received_bytes != u64::from(header.length_bytes);
            if is_short {
                let fault = "a read whose bytes are not all there";
                return Err(ProtocolError::Unexpected(fault).into());
            }
            orders.part_done(&part, error.map_or(Ok(()), Err));
            if let Some(page) = pushed.filter(|_| error.is_none()) {
                if received_bytes != u64::from(header.length_bytes) {
                    return Err(NO_SUCH_PAGE.into());
                }
                orders.take_push(page);
            }
        }
    }
    Ok(())
}

const NO_SUCH_PAGE: ProtocolError =
    ProtocolError::Unexpected("a page that was not asked for, and that is not as it was announced");

/// Return the page that is announced: where it begins, and its number.
fn pushed(descriptors: &[u8]) -> Option<Sent> {
    let [offset, number] = descriptors.as_chunks().0 else { return None };
    let offset_bytes = u64::from_be_bytes(*offset);
    Some(Sent { offset_bytes, number: u64::from_be_bytes(*number), content: vec![] })
}

/// Return the index of a request in flight; the codec lets no other cookie through.
fn key(cookie: u64) -> usize {
    usize::try_from(cookie).expect("the cookie of a request in flight")
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.transport.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}
