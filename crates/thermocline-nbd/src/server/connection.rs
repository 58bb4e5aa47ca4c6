//! One client: what it has sent, what it waits for, what it has not taken yet.

mod leaving;
mod time_limits;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustls::ServerConfig;

use super::exports::Exports;
use super::in_flight::{INPUT_BYTES, charge_bytes};
use super::pace::{ClientRates, Pacer};
use super::room::{Claim, Room};
use super::transport::{
    INPUT_KEPT_BYTES, Input, InputBuffers, Output, Received, Socket, Transport,
};
use super::turns::{REQUEST_COST, Standing};
use super::work::{Answered, Arrived, Outlet, REPLY_BYTES, Work};
use crate::codec::ProtocolError;
use crate::codec::server::{
    Handshake, Incoming, Negotiated, Offer, Request, Requests, Step, TlsMode, replies,
};
use crate::protocol::Command;
use crate::service::{Departure, Service};

/// A negotiation that has this many bytes of answers waiting gets no more.
const HANDSHAKE_OUTPUT_BYTES_MAX: usize = 8 << 10;

/// Bytes of replies that are sent before the next request is looked at, while they are in the
/// processor's cache, and so that the client has something to do.
const OUTPUT_BYTES: usize = 128 << 10;

/// Reason why a connection ended without the client's request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// State that the connections of a server share.
#[derive(Debug)]
pub(super) struct Shared<'a, S> {
    pub(super) exports: &'a mut Exports<S>,
    pub(super) tls: Option<&'a (Arc<ServerConfig>, TlsMode)>,
    pub(super) rates: ClientRates,
    pub(super) room: &'a mut Room,
    pub(super) buffers: &'a mut InputBuffers,
}

/// One client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) transport: Transport,
    /// Time at which it came, or began to leave.
    pub(super) since: Instant,
    /// Bytes that it held when the server counted last.
    pub(super) counted_bytes: usize,
    /// `true` if something was done for it in this turn.
    pub(super) is_active: bool,
    /// Its place among the clients that wait for their turn.
    pub(super) standing: Standing,
    /// Time for which it waits among those that exceed their rates.
    pub(super) paced_until: Option<Instant>,
    /// `true` if it waits for room in its socket.
    pub(super) is_blocked: bool,
    input: Input,
    output: Output,
    phase: Phase,
    work: Work,
    held_back: Option<HeldBack>,
    pacer: Pacer,
    /// Cost that its requests may still have in this turn.
    cost_left: i64,
    socket_state: SocketState,
    /// Bytes came since the server looked last.
    is_heard: bool,
    /// Time at which it last took replies, or had taken all.
    taken_at: Instant,
    /// Time at which it last sent something, or was between two messages.
    whole_at: Instant,
    /// Time at which it last had something to do.
    busy_at: Instant,
    /// The place of the export that it has chosen.
    chosen: Option<usize>,
    /// The export whose service must hear when it goes, if it cooperates.
    cooperates_with: Option<usize>,
    /// The way in which it goes.
    departure: Departure,
}

/// Reason why input waits.
#[derive(Clone, Copy, Debug)]
enum HeldBack {
    /// The client must take answers of the negotiation first.
    Answers,
    /// The request, whose charge in bytes this is, does not fit.
    Request(usize),
    /// A whole input buffer does not fit.
    Buffer,
    /// It had its share of this turn.
    Turn,
    /// It exceeds its rates until then.
    Pace(Instant),
}

/// State of a socket's incoming side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketState {
    /// Nothing to read.
    Empty,
    /// Maybe something to read.
    Readable,
    /// The other side closed: it must be read to its end, however short a read is.
    Ending,
    /// The same, and the other side takes no replies either.
    Lost,
}

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission(Requests, Negotiated),
    /// It takes no replies any more: only its farewell is looked for among what it had sent.
    Parting(Requests),
    /// Leaving: nothing more is read. Requests in flight are waited for, and answered if the client
    /// listens: then these are its terms.
    Leaving(Option<Negotiated>),
}

impl<S> Shared<'_, S> {
    /// Return the offer to a client. Nobody can eavesdrop on a Unix socket, so TLS is never
    /// required there.
    fn offer(&self, socket: &Socket) -> Offer<'_> {
        let tls = match (self.tls, socket) {
            (None, _) => TlsMode::Off,
            (Some((_, mode)), Socket::Tcp(_)) => *mode,
            (Some(_), Socket::Unix(_)) => TlsMode::Allowed,
        };
        Offer { exports: self.exports.offered(), tls }
    }
}

impl Connection {
    /// Create a client at a place among the server's connections.
    pub(super) fn new(socket: Socket, index: usize, now: Instant) -> Self {
        let mut output = Output::default();
        let handshake = Handshake::new(&mut output.bytes);
        Self {
            transport: Transport::new(socket),
            since: now,
            counted_bytes: 0,
            is_active: false,
            standing: Standing::default(),
            paced_until: None,
            is_blocked: false,
            input: Input::new(0),
            output,
            phase: Phase::Handshake(handshake),
            work: Work::new(index),
            held_back: None,
            pacer: Pacer::default(),
            cost_left: 0,
            socket_state: SocketState::Readable,
            is_heard: false,
            taken_at: now,
            whole_at: now,
            busy_at: now,
            chosen: None,
            cooperates_with: None,
            departure: Departure::Lost,
        }
    }

    /// Return the place of the export that the client uses, once it has chosen one. A client that has gone
    /// uses it as long as requests are in flight.
    pub(super) fn export(&self) -> Option<usize> {
        match &self.phase {
            Phase::Handshake(_) => None,
            Phase::Transmission(..) => self.chosen,
            Phase::Parting(_) | Phase::Leaving(_) => self.chosen.filter(|_| !self.work.is_empty()),
        }
    }

    pub(super) fn is_negotiating(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Return `true` if it only waits for what is in flight.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving(_))
    }

    /// Return `true` if nothing is left to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.is_leaving() && self.work.is_empty() && !self.has_output()
    }

    pub(super) fn has_output(&self) -> bool {
        !self.output.waiting().is_empty() || self.transport.holds_output()
    }

    /// Return the bytes that it holds for its requests and its replies. The charge of an arriving
    /// write includes its input buffer.
    pub(super) fn held_bytes(&self) -> usize {
        let input_bytes = if self.work.is_arriving() { 0 } else { self.input.capacity_bytes() };
        self.work.held_bytes() + self.output.capacity_bytes() + input_bytes
    }

    /// Counts what it holds, after memory that it does not need was given back.
    pub(super) fn count(&mut self, room: &mut Room) {
        self.output.shrink(room.kept_bytes_max());
        let held_bytes = self.held_bytes();
        room.count(&mut self.counted_bytes, held_bytes);
    }

    /// Return the claim with `wanted_bytes` more.
    fn claim(&self, wanted_bytes: usize) -> Claim {
        Claim {
            connection: self.work.connection(),
            held_bytes: self.counted_bytes,
            wanted_bytes,
            is_idle: self.is_idle(),
        }
    }

    /// Return `true` if nothing is in flight and it took all replies.
    fn is_idle(&self) -> bool {
        self.work.is_empty() && !self.has_output()
    }

    /// Takes its place among those that wait for room, if it must, or leaves it.
    pub(super) fn queue_up(&mut self, room: &mut Room) {
        if self.is_leaving() {
            room.forget(self.work.connection());
            return;
        }
        if self.is_idle() && self.input.capacity_bytes() < INPUT_BYTES {
            room.settle(self.work.connection());
        }
        match self.held_back {
            Some(HeldBack::Request(bytes)) => room.queue_up(&self.claim(bytes)),
            Some(HeldBack::Buffer) => room.queue_up(&self.claim(INPUT_BYTES)),
            Some(HeldBack::Answers | HeldBack::Turn | HeldBack::Pace(_)) | None => {}
        }
    }

    /// Return the time until which it waits because it exceeds its rates, if it does.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        match self.held_back {
            Some(HeldBack::Pace(until)) if !self.is_leaving() => Some(until),
            _ => None,
        }
    }

    /// Forget what it owes for its requests: other rates begin.
    pub(super) fn forget_debts(&mut self) {
        self.pacer = Pacer::default();
        if self.waits_until().is_some() {
            self.held_back = Some(HeldBack::Turn);
        }
    }

    /// Note that the socket is readable, or that the client has hung up.
    pub(super) fn notice(&mut self, is_hung_up: bool) {
        if is_hung_up {
            self.socket_state = SocketState::Ending;
        } else if self.socket_state == SocketState::Empty {
            self.socket_state = SocketState::Readable;
        }
    }

    /// Return `true` if reading the socket makes sense.
    pub(super) fn wants_input(&self) -> bool {
        self.socket_state != SocketState::Empty && self.held_back.is_none() && !self.is_leaving()
    }

    /// Return `true` if there is room by now for what was held back.
    pub(super) fn has_backlog(&self, room: &Room) -> bool {
        let may_go_on = match self.held_back {
            None => false,
            Some(HeldBack::Turn) => true,
            Some(HeldBack::Pace(until)) => Instant::now() >= until,
            Some(HeldBack::Answers) => !self.is_answered_enough(),
            Some(HeldBack::Request(bytes)) => {
                !self.work.is_full() && room.would_grant(&self.claim(bytes))
            }
            Some(HeldBack::Buffer) => room.would_grant(&self.claim(INPUT_BYTES)),
        };
        may_go_on && !self.is_leaving()
    }

    /// Return `true` if answers of the negotiation wait that the client must take first.
    fn is_answered_enough(&self) -> bool {
        self.output.waiting_bytes() > HANDSHAKE_OUTPUT_BYTES_MAX
    }

    /// Goes on with what was held back, if there is room, or else reads once, and takes what is
    /// complete, until it has cost `share`. Returns `true` if anything came.
    pub(super) fn advance<S: Service>(
        &mut self,
        shared: &mut Shared<'_, S>,
        share: u64,
    ) -> Result<bool, Fault> {
        self.cost_left = i64::try_from(share).unwrap_or(i64::MAX);
        let result = match self.held_back {
            Some(_) if !self.has_backlog(shared.room) => return Ok(false),
            Some(HeldBack::Answers | HeldBack::Request(_) | HeldBack::Turn | HeldBack::Pace(_)) => {
                self.digest(shared).map(|()| true)
            }
            Some(HeldBack::Buffer) => self.receive(shared),
            None if self.wants_input() => self.receive(shared),
            None => return Ok(false),
        };
        self.input.give_back(shared.buffers);
        result
    }

    /// Makes room for input: a whole buffer, or a little if there is no room for that.
    fn borrow_input<S>(&mut self, shared: &mut Shared<'_, S>) -> bool {
        let claim = self.claim(INPUT_BYTES);
        let has_buffer = self.input.capacity_bytes() == INPUT_BYTES || self.work.is_arriving();
        let limit_bytes = if has_buffer || shared.room.fits(&claim) {
            INPUT_BYTES
        } else if self.input.waiting().len() < INPUT_KEPT_BYTES {
            INPUT_KEPT_BYTES
        } else if shared.room.grant(&claim) {
            INPUT_BYTES
        } else {
            self.held_back = Some(HeldBack::Buffer);
            return false;
        };
        self.held_back = None;
        self.input.borrow(shared.buffers, limit_bytes);
        !self.input.is_full()
    }

    /// Reads once, and takes what is complete. Returns `true` if anything came.
    fn receive<S: Service>(&mut self, shared: &mut Shared<'_, S>) -> Result<bool, Fault> {
        if !self.borrow_input(shared) || !self.wants_input() {
            return Ok(false);
        }
        match self.transport.receive(&mut self.input)? {
            Received::Bytes { is_empty } => {
                self.is_heard = true;
                // Events come once (edge-triggered), so the socket counts as readable until a read was
                // short.
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
    fn digest<S: Service>(&mut self, shared: &mut Shared<'_, S>) -> Result<(), Fault> {
        loop {
            self.held_back = None;
            let is_more = match &self.phase {
                Phase::Handshake(_) => self.negotiate(shared)?,
                Phase::Transmission(..) => self.transmit(shared)?,
                Phase::Parting(_) => self.skip_request()?,
                Phase::Leaving(_) => false,
            };
            if !self.is_blocked && self.output.waiting_bytes() >= OUTPUT_BYTES {
                // An error shows when the rest is sent.
                drop(self.transport.send(&mut self.output));
            }
            if !is_more {
                return Ok(());
            }
            // A payload that is arriving is taken at once: it keeps an input buffer.
            if self.cost_left <= 0 && !self.work.is_arriving() {
                self.held_back = Some(HeldBack::Turn);
                return Ok(());
            }
        }
    }

    /// Takes one message of the negotiation. Returns `true` if there may be another.
    fn negotiate<S>(&mut self, shared: &Shared<'_, S>) -> Result<bool, Fault> {
        if self.is_answered_enough() {
            self.held_back = Some(HeldBack::Answers);
            return Ok(false);
        }
        let Phase::Handshake(handshake) = &mut self.phase else { return Ok(false) };
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
                // Anyone could have put unencrypted bytes behind this option.
                if !self.input.waiting().is_empty() {
                    let fault = "bytes behind STARTTLS that are not encrypted";
                    return Err(ProtocolError::Unexpected(fault).into());
                }
                let (configuration, _) =
                    shared.tls.expect("TLS is offered only if it is configured");
                handshake.encrypted();
                // The answer must leave unencrypted. Once TLS has begun, all output goes through it.
                self.transport.send(&mut self.output)?;
                if self.has_output() {
                    return Err(io::Error::other("the client does not take replies").into());
                }
                self.transport.start_tls(configuration)?;
            }
            Step::Enter(negotiated) => {
                let place = shared.exports.place(negotiated.export);
                let export = &shared.exports.offered()[negotiated.export];
                self.chosen = Some(place);
                self.cooperates_with = negotiated.cooperates.then_some(place);
                self.phase = Phase::Transmission(Requests::new(negotiated, export), negotiated);
            }
            Step::Close => self.leave(false),
        }
        Ok(true)
    }

    /// Takes one request, or one piece of a write. Returns `true` if there may be another.
    fn transmit<S: Service>(&mut self, shared: &mut Shared<'_, S>) -> Result<bool, Fault> {
        let claim = self.claim(0);
        let Phase::Transmission(requests, negotiated) = &mut self.phase else { return Ok(false) };
        let negotiated = *negotiated;
        // A request that finds no room stays in the input, and is read again: the state goes on only
        // with one that is taken.
        let mut ahead = requests.clone();
        let place = self.chosen.expect("whoever sends requests has chosen an export");
        let (consumed, incoming) = ahead.next(self.input.waiting())?;
        let is_limited = shared.rates.are_limited() && !negotiated.cooperates;
        let begun_bytes = incoming.as_ref().and_then(begun_bytes).filter(|_| is_limited);
        let charge = begun_bytes.map(|bytes| (Instant::now(), bytes));
        if let Some(until) = charge.and_then(|(now, _)| self.pacer.waits_until(now)) {
            shared.exports.count_paced(place);
            self.held_back = Some(HeldBack::Pace(until));
            self.leave_if_lost();
            return Ok(false);
        }
        let service = shared.exports.service_mut(place);
        let wanted_bytes = match &incoming {
            Some(Incoming::Request(request) | Incoming::Write { request, done_bytes: 0, .. }) => {
                charge_bytes(request, &negotiated)
            }
            Some(Incoming::Refused(_)) => REPLY_BYTES,
            // A write was charged when it began.
            Some(Incoming::Write { .. } | Incoming::Disconnect) | None => 0,
        };
        let is_granted = wanted_bytes == 0
            || (!self.work.is_full() && shared.room.grant(&Claim { wanted_bytes, ..claim }));
        if !is_granted {
            self.held_back = Some(HeldBack::Request(wanted_bytes));
            return Ok(false);
        }
        if let Some((now, bytes)) = charge {
            self.pacer.charge(&shared.rates, now, bytes);
        }
        *requests = ahead;
        let is_more = incoming.is_some();
        match incoming {
            None => {}
            Some(Incoming::Disconnect) => {
                self.departure = Departure::Orderly;
                self.leave(false);
            }
            Some(Incoming::Refused(refusal)) => {
                self.output.make_room(REPLY_BYTES);
                replies::refused(&mut self.output.bytes, &negotiated, &refusal);
            }
            Some(Incoming::Request(request) | Incoming::Write { request, payload: [], .. }) => {
                self.cost_left -= cost(&request, request.length_bytes as usize);
                self.work.begin(request, &negotiated, service, &mut self.output);
            }
            Some(Incoming::Write { request, done_bytes, payload }) => {
                self.cost_left -= cost(&request, payload.len());
                self.work.write(&Arrived { request, done_bytes, payload }, &negotiated, service);
            }
        }
        self.input.consume(consumed);
        let held_bytes = self.work.held_bytes() + self.output.capacity_bytes();
        shared.room.count(&mut self.counted_bytes, held_bytes);
        Ok(is_more)
    }

    /// Return the part of its share of this turn that it used.
    pub(super) fn spent(&self, share: u64) -> u64 {
        u64::try_from(i64::try_from(share).unwrap_or(i64::MAX) - self.cost_left).unwrap_or(0)
    }

    /// Handle the answer to a piece of a request.
    pub(super) fn answer(&mut self, answered: Answered<'_>, service: &mut impl Service) {
        let negotiated = match &self.phase {
            Phase::Transmission(_, negotiated) => Some(negotiated),
            Phase::Leaving(negotiated) => negotiated.as_ref(),
            Phase::Handshake(_) | Phase::Parting(_) => None,
        };
        let outlet = Outlet {
            transport: &mut self.transport,
            output: &mut self.output,
            is_blocked: self.is_blocked,
        };
        self.work.answer(answered, service, negotiated, outlet);
    }

    /// Sends as much as the socket takes.
    pub(super) fn send(&mut self) -> Result<(), Fault> {
        Ok(self.transport.send(&mut self.output)?)
    }
}

/// Return the number of bytes that a request moves, if one begins.
fn begun_bytes(incoming: &Incoming<'_>) -> Option<u64> {
    match incoming {
        Incoming::Request(request) | Incoming::Write { request, done_bytes: 0, .. } => {
            let has_bytes = matches!(request.command, Command::Read | Command::Cache)
                || request.command.has_payload();
            Some(if has_bytes { request.length_bytes.into() } else { 0 })
        }
        Incoming::Refused(_) => Some(0),
        Incoming::Write { .. } | Incoming::Disconnect => None,
    }
}

/// Return the cost of a request, or of a piece of a write, to the server: its bytes, if it moves
/// any, and a constant.
fn cost(request: &Request, bytes: usize) -> i64 {
    let has_bytes = request.command == Command::Read || request.command.has_payload();
    let bytes = if has_bytes { i64::try_from(bytes).unwrap_or(i64::MAX / 2) } else { 0 };
    bytes + REQUEST_COST
}
