//! One client: what it has sent, what it waits for, what it has not taken yet.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustls::ServerConfig;

use super::in_flight::Place;
use super::transport::{Input, Output, Received, Socket, Transport};
use super::work::{Arrived, Work};
use crate::codec::ProtocolError;
use crate::codec::server::{
    Handshake, INPUT_BYTES_MAX, Incoming, Negotiated, Offer, Requests, Step, TlsMode, replies,
};
use crate::protocol::ExportInfo;
use crate::service::{Reply, Service};

/// A socket's bytes are taken in turns of at most this many.
const INPUT_BYTES: usize = 2 * INPUT_BYTES_MAX;

/// A negotiation that has this many bytes of answers waiting gets no more.
const HANDSHAKE_OUTPUT_BYTES_MAX: usize = 1 << 20;

/// So many bytes of replies are sent before the next request is looked at, while they are in the
/// processor's cache, and so that the client has something to do.
const OUTPUT_BYTES: usize = 128 << 10;

/// Why a connection ended, other than by the client's leave.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What the connections of a server have in common.
#[derive(Debug)]
pub(super) struct Shared<'a, S> {
    pub(super) exports: &'a [ExportInfo],
    pub(super) services: &'a mut [S],
    pub(super) tls: Option<&'a (Arc<ServerConfig>, TlsMode)>,
    pub(super) room: &'a mut Room,
}

/// What clients may still take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The bytes that one connection may hold.
    pub(super) connection_bytes_max: usize,
    /// The bytes that all of them may still take.
    pub(super) spare_bytes: usize,
}

/// One client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) transport: Transport,
    /// When it came, or began to leave.
    pub(super) since: Instant,
    /// What it held when the server counted last, in bytes.
    pub(super) counted_bytes: usize,
    /// Whether it is among those that something may be done for.
    pub(super) is_active: bool,
    /// Whether it waits for room in its socket.
    pub(super) is_blocked: bool,
    input: Input,
    output: Output,
    phase: Phase,
    work: Work,
    /// The input was not looked at to its end, for want of room.
    is_held_back: bool,
    socket_state: SocketState,
}

/// What is known of a socket's incoming side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketState {
    /// There is nothing to read.
    Empty,
    /// There may be something.
    Readable,
    /// The other side closed: it must be read to its end, however short a read is.
    Ending,
}

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission(Requests, Negotiated),
    /// Nothing more is read. What is in flight is waited for, and answered if the client listens:
    /// then these are its terms.
    Leaving(Option<Negotiated>),
}

impl<S> Shared<'_, S> {
    /// What a client is offered. Nobody listens in on a Unix socket, so TLS is never required there.
    fn offer(&self, socket: &Socket) -> Offer<'_> {
        let tls = match (self.tls, socket) {
            (None, _) => TlsMode::Off,
            (Some((_, mode)), Socket::Tcp(_)) => *mode,
            (Some(_), Socket::Unix(_)) => TlsMode::Allowed,
        };
        Offer { exports: self.exports, tls }
    }
}

impl Connection {
    /// A client at a place among the server's connections.
    pub(super) fn new(socket: Socket, index: usize, now: Instant) -> Self {
        let mut output = Output::default();
        let handshake = Handshake::new(&mut output.bytes);
        Self {
            transport: Transport::new(socket),
            since: now,
            counted_bytes: 0,
            is_active: false,
            is_blocked: false,
            input: Input::new(INPUT_BYTES),
            output,
            phase: Phase::Handshake(handshake),
            work: Work::new(index),
            is_held_back: false,
            socket_state: SocketState::Readable,
        }
    }

    pub(super) fn is_negotiating(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Whether it only waits for what is in flight.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving(_))
    }

    /// Whether nothing is left to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.is_leaving() && self.work.is_empty() && !self.has_output()
    }

    pub(super) fn has_output(&self) -> bool {
        !self.output.waiting().is_empty() || self.transport.holds_output()
    }

    /// The bytes that it holds for its requests and its replies.
    pub(super) fn held_bytes(&self) -> usize {
        self.work.held_bytes() + self.output.waiting().len()
    }

    /// The system says that the socket has something, or that it ended.
    pub(super) fn notice(&mut self, is_hung_up: bool) {
        if is_hung_up {
            self.socket_state = SocketState::Ending;
        } else if self.socket_state == SocketState::Empty {
            self.socket_state = SocketState::Readable;
        }
    }

    /// Whether reading the socket makes sense.
    pub(super) fn wants_input(&self) -> bool {
        self.socket_state != SocketState::Empty && !self.input.is_full() && !self.is_leaving()
    }

    /// Whether messages may wait in the input that there was no room for.
    pub(super) fn has_backlog(&self, room: &Room) -> bool {
        self.is_held_back && !self.is_leaving() && self.has_room(room)
    }

    /// The client is not listened to any more, and not answered if it is gone.
    pub(super) fn leave(&mut self, is_gone: bool) {
        let negotiated = match self.phase {
            Phase::Transmission(_, negotiated) | Phase::Leaving(Some(negotiated)) => {
                Some(negotiated)
            }
            Phase::Handshake(_) | Phase::Leaving(None) => None,
        };
        self.phase = Phase::Leaving(negotiated.filter(|_| !is_gone));
        self.work.abandon_arriving();
        if is_gone {
            self.output = Output::default();
            self.transport.hang_up();
        }
    }

    /// Whether it may begin another request, or go on with the one that is arriving, which was counted
    /// when it began. Who holds nothing always may: others cannot starve it.
    fn has_room(&self, room: &Room) -> bool {
        let held_bytes = self.held_bytes();
        let is_modest = held_bytes < room.connection_bytes_max && room.spare_bytes > 0;
        held_bytes == 0 || self.work.is_arriving() || (is_modest && !self.work.is_full())
    }

    /// Reads once, and takes what is complete. Returns whether anything came.
    pub(super) fn receive<S: Service>(
        &mut self,
        shared: &mut Shared<'_, S>,
    ) -> Result<bool, Fault> {
        match self.transport.receive(&mut self.input)? {
            Received::Bytes { is_empty } => {
                if is_empty && self.socket_state == SocketState::Readable {
                    self.socket_state = SocketState::Empty;
                }
                self.digest(shared)?;
                Ok(true)
            }
            Received::Nothing => {
                self.socket_state = SocketState::Empty;
                Ok(false)
            }
            Received::End => {
                self.leave(true);
                Ok(true)
            }
        }
    }

    /// Takes what is complete in the input, as long as there is room for it.
    pub(super) fn digest<S: Service>(&mut self, shared: &mut Shared<'_, S>) -> Result<(), Fault> {
        loop {
            let is_more = match &self.phase {
                Phase::Handshake(_) => self.negotiate(shared)?,
                Phase::Transmission(..) => {
                    self.is_held_back = !self.has_room(shared.room);
                    !self.is_held_back && self.transmit(shared)?
                }
                Phase::Leaving(_) => false,
            };
            if !self.is_blocked && self.output.waiting().len() >= OUTPUT_BYTES {
                self.transport.send(&mut self.output)?;
            }
            if !is_more {
                return Ok(());
            }
        }
    }

    /// Takes one message of the negotiation. Returns whether there may be another.
    fn negotiate<S>(&mut self, shared: &Shared<'_, S>) -> Result<bool, Fault> {
        let Phase::Handshake(handshake) = &mut self.phase else { return Ok(false) };
        self.is_held_back = self.output.waiting().len() > HANDSHAKE_OUTPUT_BYTES_MAX;
        if self.is_held_back {
            return Ok(false);
        }
        let (consumed, step) = handshake.step(
            &shared.offer(&self.transport.socket),
            self.input.waiting(),
            &mut self.output.bytes,
        )?;
        self.input.consume(consumed);
        match step {
            Step::More => return Ok(false),
            Step::Answered => {}
            Step::StartTls => {
                // What came unencrypted behind this option could have been put there by anyone.
                if !self.input.waiting().is_empty() {
                    let fault = "bytes behind STARTTLS that are not encrypted";
                    return Err(ProtocolError::Unexpected(fault).into());
                }
                let (configuration, _) =
                    shared.tls.expect("TLS is offered only if it is configured");
                handshake.encrypted();
                self.transport.send(&mut self.output)?;
                if self.has_output() {
                    return Err(io::Error::other("the client does not take replies").into());
                }
                self.transport.start_tls(configuration)?;
            }
            Step::Enter(negotiated) => {
                let export = &shared.exports[negotiated.export];
                self.phase = Phase::Transmission(Requests::new(negotiated, export), negotiated);
            }
            Step::Close => self.leave(false),
        }
        Ok(true)
    }

    /// Takes one request, or one piece of a write. Returns whether there may be another.
    fn transmit<S: Service>(&mut self, shared: &mut Shared<'_, S>) -> Result<bool, Fault> {
        let Phase::Transmission(requests, negotiated) = &mut self.phase else { return Ok(false) };
        let negotiated = *negotiated;
        let before_bytes = self.work.held_bytes() + self.output.waiting().len();
        let output = &mut self.output.bytes;
        let service = &mut shared.services[negotiated.export];
        let (consumed, incoming) = requests.next(self.input.waiting())?;
        let is_more = incoming.is_some();
        match incoming {
            None => {}
            Some(Incoming::Disconnect) => self.leave(false),
            Some(Incoming::Refused(refusal)) => replies::refused(output, &negotiated, &refusal),
            Some(Incoming::Request(request) | Incoming::Write { request, payload: [], .. }) => {
                self.work.begin(request, &negotiated, service, output);
            }
            Some(Incoming::Write { request, done_bytes, payload }) => {
                self.work.write(&Arrived { request, done_bytes, payload }, service);
            }
        }
        self.input.consume(consumed);
        let after_bytes = self.held_bytes();
        let taken_bytes = after_bytes.saturating_sub(before_bytes);
        shared.room.spare_bytes = shared.room.spare_bytes.saturating_sub(taken_bytes);
        Ok(is_more)
    }

    /// A piece was answered.
    pub(super) fn answer(&mut self, place: Place, reply: &Reply, service: &mut impl Service) {
        let negotiated = match &self.phase {
            Phase::Transmission(_, negotiated) => Some(negotiated),
            Phase::Leaving(negotiated) => negotiated.as_ref(),
            Phase::Handshake(_) => None,
        };
        self.work.answer(place, reply, service, negotiated, &mut self.output.bytes);
    }

    /// Sends as much as the socket takes.
    pub(super) fn send(&mut self) -> Result<(), Fault> {
        Ok(self.transport.send(&mut self.output)?)
    }

    /// Says farewell, as far as that goes at once.
    pub(super) fn close(mut self) {
        self.transport.close(&mut self.output);
    }
}
