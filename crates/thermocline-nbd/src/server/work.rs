//! The requests of one client on their way through a service.

use slab::Slab;

use super::in_flight::{
    EXTENT_BYTES, EXTENTS_HEADER_BYTES, EXTENTS_MAX, InFlight, Origin, REQUESTS_MAX, charge_bytes,
};
use super::transport::{Output, Transport};
use crate::codec::server::{Negotiated, Request, replies};
use crate::protocol::{Command, Extent, command_flag};
use crate::service::{Cooperator, ExtentRange, Pushed, Reply, Service};

/// Replies without data are shorter than this.
pub(super) const REPLY_BYTES: usize = 128;

/// Size from which a read is sent from where its bytes lie, together with the replies before it.
/// Shorter ones are copied, so that one call of the system sends many of them.
const GATHERED_BYTES_MIN: usize = 32 << 10;

/// Destination of replies.
#[derive(Debug)]
pub(super) struct Outlet<'a> {
    pub(super) transport: &'a mut Transport,
    pub(super) output: &'a mut Output,
    /// The socket had no room last.
    pub(super) is_blocked: bool,
}

/// A piece that a service answered.
#[derive(Debug)]
pub(super) struct Answered<'a> {
    pub(super) place: Origin,
    pub(super) reply: &'a Reply,
    /// Room for the bytes of a piece.
    pub(super) scratch: &'a mut Vec<u8>,
}

/// A piece of a write as it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived<'a> {
    pub(super) request: Request,
    /// The bytes of the request that came before.
    pub(super) done_bytes: u32,
    pub(super) payload: &'a [u8],
}

/// Requests of one client that are in flight.
#[derive(Debug)]
pub(super) struct Work {
    /// The client's place among the server's connections.
    connection: usize,
    in_flight: Slab<InFlight>,
    held_bytes: usize,
    /// The request whose payload has not arrived completely.
    arriving: Option<usize>,
}

impl Work {
    pub(super) fn new(connection: usize) -> Self {
        Self { connection, in_flight: Slab::new(), held_bytes: 0, arriving: None }
    }

    /// Return the client's place among the server's connections.
    pub(super) fn connection(&self) -> usize {
        self.connection
    }

    /// Return the client as services know it.
    pub(super) fn cooperator(&self) -> Cooperator {
        Cooperator(u16::try_from(self.connection).expect("connections have numbers of 12 bits"))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_flight.len() == REQUESTS_MAX
    }

    /// Return `true` if a payload is on its way.
    pub(super) fn is_arriving(&self) -> bool {
        self.arriving.is_some()
    }

    /// Return the memory that the requests may hold, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Begins a request that has no payload.
    pub(super) fn begin(
        &mut self,
        request: Request,
        negotiated: &Negotiated,
        service: &mut impl Service,
        output: &mut Output,
    ) {
        output.make_room(REPLY_BYTES);
        if request.command == Command::BlockStatus {
            if negotiated.contexts.iter().any(|context| service.must_ask(context)) {
                let index = self.insert(request, negotiated);
                let (done_bytes, piece) = self.in_flight[index].piece(request.length_bytes);
                service.submit(self.tag(index, done_bytes), &piece, &[]);
            } else {
                block_status(&request, negotiated, service, output);
            }
            return;
        }
        let has_no_bytes =
            matches!(request.command, Command::Flush | Command::Await | Command::Tell);
        // It has no piece whose answer would end it.
        if request.length_bytes == 0 && !has_no_bytes {
            finish(InFlight::new(request), negotiated, output);
            return;
        }
        let index = self.insert(request, negotiated);
        self.submit_pieces(index, service);
    }

    /// Hands over a piece of a write; it is not empty.
    pub(super) fn write(
        &mut self,
        arrived: &Arrived<'_>,
        negotiated: &Negotiated,
        service: &mut impl Service,
    ) {
        let Arrived { request, done_bytes, payload } = *arrived;
        let index = match self.arriving.take() {
            Some(index) if done_bytes > 0 => index,
            Some(_) | None => self.insert(request, negotiated),
        };
        let length_bytes = u32::try_from(payload.len()).expect("part of a request");
        if done_bytes + length_bytes < request.length_bytes {
            self.arriving = Some(index);
        }
        let (done_bytes, piece) = self.in_flight[index].piece(length_bytes);
        service.submit(self.tag(index, done_bytes), &piece, payload);
    }

    /// Give up a payload whose rest will never arrive.
    pub(super) fn abandon_arriving(&mut self) {
        if let Some(index) = self.arriving.take() {
            self.in_flight[index].cut_short();
            if self.in_flight[index].is_done() {
                self.remove(index);
            }
        }
    }

    /// Handle the answer to a piece. The last piece of a request completes the request. Without `negotiated`,
    /// nobody waits for the answer.
    pub(super) fn answer(
        &mut self,
        Answered { place, reply, scratch }: Answered<'_>,
        service: &mut impl Service,
        negotiated: Option<&Negotiated>,
        outlet: Outlet<'_>,
    ) {
        let Outlet { transport, output, is_blocked } = outlet;
        let index = place.request;
        let in_flight = &mut self.in_flight[index];
        let request = in_flight.request;
        let may_keep = matches!(request.command, Command::Read | Command::Write);
        if may_keep && in_flight.cooperator.is_some() && reply.outcome.is_ok() {
            let answers = service.take_answers(reply.tag);
            if negotiated.is_some() && !answers.is_empty() {
                let offset_bytes = request.offset_bytes + u64::from(place.done_bytes);
                output.make_room(EXTENTS_HEADER_BYTES + EXTENT_BYTES * (answers.len() + 1));
                replies::answers(&mut output.bytes, request.cookie, offset_bytes, &answers);
                // The reply has begun with a chunk, so it must end with one.
                in_flight.is_in_parts = true;
            }
        }
        if request.command == Command::Demote
            && reply.outcome.is_ok()
            && let Some(pushed) = service.take_push(reply.tag)
        {
            in_flight.is_in_parts = true;
            scratch.clear();
            service.take_data(reply.tag, scratch);
            send_page(&request, negotiated, pushed, scratch, output);
        }
        if request.command == Command::Read && reply.outcome.is_ok() {
            match (&mut in_flight.data, negotiated) {
                (None, Some(negotiated)) => {
                    let Request { cookie, offset_bytes, length_bytes, .. } = request;
                    let is_gathered = !is_blocked && length_bytes as usize >= GATHERED_BYTES_MIN;
                    let copied_bytes = if is_gathered { 0 } else { length_bytes as usize };
                    output.make_room(replies::READ_HEADER_BYTES_MAX + copied_bytes);
                    let bytes = &mut output.bytes;
                    replies::read(bytes, negotiated, cookie, offset_bytes, length_bytes);
                    if is_gathered {
                        service.take_pieces(reply.tag, &mut |pieces| {
                            transport.send_with(output, pieces);
                        });
                    } else {
                        service.take_data(reply.tag, bytes);
                    }
                }
                (data, _) => {
                    scratch.clear();
                    service.take_data(reply.tag, scratch);
                    if let Some(data) = data {
                        data[place.done_bytes as usize..][..scratch.len()].copy_from_slice(scratch);
                    }
                }
            }
        }
        in_flight.answered(reply.outcome);
        if !in_flight.is_done() {
            self.submit_pieces(index, service);
            return;
        }
        output.make_room(REPLY_BYTES);
        let finished = self.remove(index);
        match negotiated {
            Some(negotiated)
                if request.command == Command::BlockStatus && finished.error.is_none() =>
            {
                block_status(&request, negotiated, service, output);
            }
            Some(_) if request.command == Command::Await && finished.error.is_none() => {
                let offsets = service.take_recalls(reply.tag);
                output.make_room(EXTENTS_HEADER_BYTES + EXTENT_BYTES * offsets.len());
                replies::recalls(&mut output.bytes, request.cookie, &offsets);
            }
            Some(negotiated) => finish(finished, negotiated, output),
            None => {}
        }
    }

    fn submit_pieces(&mut self, index: usize, service: &mut impl Service) {
        while let Some((done_bytes, piece)) = self.in_flight[index].next_piece() {
            service.submit(self.tag(index, done_bytes), &piece, &[]);
        }
    }

    fn tag(&self, request: usize, done_bytes: u32) -> crate::service::Tag {
        Origin { connection: self.connection, request, done_bytes }.to_tag()
    }

    fn insert(&mut self, request: Request, negotiated: &Negotiated) -> usize {
        let mut in_flight = InFlight::new(request);
        in_flight.held_bytes = charge_bytes(&request, negotiated);
        in_flight.cooperator = negotiated.cooperates.then(|| self.cooperator());
        self.held_bytes += in_flight.held_bytes;
        self.in_flight.insert(in_flight)
    }

    fn remove(&mut self, index: usize) -> InFlight {
        let in_flight = self.in_flight.remove(index);
        self.held_bytes -= in_flight.held_bytes;
        in_flight
    }
}

/// Answers a client that has given up a page by another page, unless nobody waits for that.
fn send_page(
    request: &Request,
    negotiated: Option<&Negotiated>,
    pushed: Pushed,
    content: &[u8],
    output: &mut Output,
) {
    if negotiated.is_none() {
        return;
    }
    output.make_room(replies::PUSH_HEADER_BYTES + content.len());
    replies::push(&mut output.bytes, request.cookie, pushed, request.length_bytes);
    output.bytes.extend_from_slice(content);
}

/// Answers a request whose last piece was answered; a read of one piece has its answer already.
fn finish(finished: InFlight, negotiated: &Negotiated, output: &mut Output) {
    let Request { cookie, command, offset_bytes, length_bytes, .. } = finished.request;
    let bytes = &mut output.bytes;
    match (finished.error, finished.data) {
        (Some(error), _) => replies::failed(bytes, negotiated, cookie, command, error),
        (None, Some(data)) => {
            replies::read(bytes, negotiated, cookie, offset_bytes, length_bytes);
            output.append(data.into_vec());
        }
        (None, None) if command == Command::Read && length_bytes == 0 => {
            replies::read(bytes, negotiated, cookie, offset_bytes, 0);
        }
        (None, None) if command == Command::Read => {}
        // The page is the last part.
        (None, None) if command == Command::Demote && finished.is_in_parts => {}
        (None, None) if finished.is_in_parts => replies::done_in_parts(bytes, cookie),
        (None, None) => replies::done(bytes, cookie),
    }
}

/// Answers a request for the status of extents.
fn block_status(
    request: &Request,
    negotiated: &Negotiated,
    service: &mut impl Service,
    output: &mut Output,
) {
    let Request { cookie, offset_bytes, length_bytes, .. } = *request;
    let count_max = if request.has(command_flag::REQ_ONE) { 1 } else { EXTENTS_MAX };
    let range = ExtentRange { offset_bytes, length_bytes, count_max };
    let mut extents: Vec<Extent> = vec![];
    let mut contexts = negotiated.contexts.iter().peekable();
    while let Some(context) = contexts.next() {
        extents.clear();
        service.extents(context, &range, &mut extents);
        output.make_room(EXTENTS_HEADER_BYTES + EXTENT_BYTES * extents.len());
        let is_last = contexts.peek().is_none();
        replies::block_status(&mut output.bytes, cookie, context, &extents, is_last);
    }
}
