//! Replies, as the client reads them.
//!
//! Data comes through as it arrives, in pieces of any length, so that a long read needs no long
//! buffer. The client says which requests are in flight (it must know them anyway), because a simple
//! reply does not say whether data follow.

use super::super::ProtocolError;
use super::super::wire::{Fields, length_u32};
use super::INPUT_BYTES_MAX;
use super::requests::RequestHeader;
use crate::protocol::{
    CHUNK_HEADER_BYTES, Command, ErrorCode, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC,
    STRING_BYTES_MAX, STRUCTURED_REPLY_MAGIC, chunk, cooperation,
};

/// Answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Bytes of a read; or those of a page that the server sends for one that the client gave up, behind the
    /// [`Event::Extents`] that name it.
    Data {
        /// The request.
        cookie: u64,
        /// Position in the export.
        offset_bytes: u64,
        /// The bytes; within the request, or the page that was sent.
        bytes: &'a [u8],
    },
    /// A part of a read that is all zeroes.
    Hole {
        /// The request.
        cookie: u64,
        /// Position in the export.
        offset_bytes: u64,
        /// Its length, in bytes; within the request.
        length_bytes: u32,
    },
    /// Extents of one context, from the offset of the request on; or the pages that a client which
    /// [cooperates](crate::protocol::cooperation) is to give up, or those of a read or a write that it keeps.
    Extents {
        /// The request.
        cookie: u64,
        /// The number of the context.
        context: u32,
        /// The extents: length and status, 32 bits each, big-endian. Of pages, the offset: 64 bits. Of a
        /// read or a write, the offset of the first page, and a number for each page: 64 bits each. Of a page
        /// that was given up, the offset of the one that the server sends for it, and its number.
        descriptors: &'a [u8],
    },
    /// The request failed; [`Event::Done`] still follows.
    Failed {
        /// The request.
        cookie: u64,
        /// The error.
        error: ErrorCode,
    },
    /// The reply to this request is complete.
    Done {
        /// The request.
        cookie: u64,
    },
}

/// The stream of one server's replies.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Header,
    /// The rest of a read's data.
    Data { cookie: u64, offset_bytes: u64, remaining_bytes: u32, is_last: bool },
    /// The last chunk of a reply is complete.
    Done { cookie: u64 },
}

/// The header of a structured reply chunk.
#[derive(Clone, Copy)]
struct ChunkHeader {
    kind: u16,
    is_last: bool,
    cookie: u64,
    length: usize,
}

impl ChunkHeader {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (flags, kind, cookie) = (fields.u16()?, fields.u16()?, fields.u64()?);
        let length = fields.u32()? as usize;
        Some(Self { kind, is_last: flags & chunk::DONE != 0, cookie, length })
    }
}

const UNKNOWN_REQUEST: ProtocolError =
    ProtocolError::Unexpected("a reply to a request that is not in flight");
const MALFORMED_CHUNK: ProtocolError = ProtocolError::Unexpected("a malformed chunk");

impl Replies {
    /// Takes the next event off `input`; returns how many bytes were consumed, and nothing if more
    /// are needed. `in_flight` finds a request by its cookie.
    ///
    /// # Errors
    /// If the server breaks the protocol.
    pub fn next<'a>(
        &mut self,
        input: &'a [u8],
        in_flight: impl Fn(u64) -> Option<RequestHeader>,
    ) -> Result<(usize, Option<Event<'a>>), ProtocolError> {
        match self.state {
            State::Header => self.take_header(input, in_flight),
            State::Data { cookie, offset_bytes, remaining_bytes, is_last } => {
                Ok(self.take_data(cookie, offset_bytes, remaining_bytes, is_last, input))
            }
            State::Done { cookie } => {
                self.state = State::Header;
                Ok((0, Some(Event::Done { cookie })))
            }
        }
    }

    fn take_header<'a>(
        &mut self,
        input: &'a [u8],
        in_flight: impl Fn(u64) -> Option<RequestHeader>,
    ) -> Result<(usize, Option<Event<'a>>), ProtocolError> {
        let mut fields = Fields::new(input);
        match fields.u32() {
            None => Ok((0, None)),
            Some(SIMPLE_REPLY_MAGIC) => {
                let (Some(error), Some(cookie)) = (fields.u32(), fields.u64()) else {
                    return Ok((0, None));
                };
                let request = in_flight(cookie).ok_or(UNKNOWN_REQUEST)?;
                Ok((SIMPLE_REPLY_BYTES, Some(self.simple(request, error))))
            }
            Some(STRUCTURED_REPLY_MAGIC) => {
                let Some(header) = ChunkHeader::read(&mut fields) else { return Ok((0, None)) };
                let request = in_flight(header.cookie).ok_or(UNKNOWN_REQUEST)?;
                self.take_chunk(header, request, fields)
            }
            Some(found) => Err(ProtocolError::Magic {
                what: "a reply",
                found: found.into(),
                expected: SIMPLE_REPLY_MAGIC.into(),
            }),
        }
    }

    fn simple<'a>(&mut self, request: RequestHeader, error: u32) -> Event<'a> {
        let cookie = request.cookie;
        if error != 0 {
            self.state = State::Done { cookie };
            return Event::Failed { cookie, error: ErrorCode::from_wire(error) };
        }
        // A simple reply says no length: there are as many bytes as were asked for.
        if request.command == Command::Read && request.length_bytes > 0 {
            self.state = State::Data {
                cookie,
                offset_bytes: request.offset_bytes,
                remaining_bytes: request.length_bytes,
                is_last: true,
            };
            return Event::Data { cookie, offset_bytes: request.offset_bytes, bytes: &[] };
        }
        Event::Done { cookie }
    }

    fn take_chunk<'a>(
        &mut self,
        header: ChunkHeader,
        request: RequestHeader,
        mut fields: Fields<'a>,
    ) -> Result<(usize, Option<Event<'a>>), ProtocolError> {
        let ChunkHeader { kind, is_last, cookie, length } = header;
        if kind == chunk::OFFSET_DATA {
            let Some(offset_bytes) = fields.u64() else { return Ok((0, None)) };
            let data_bytes = length.checked_sub(8).filter(|bytes| *bytes > 0);
            // The place is the server's word: bytes beside the request belong nowhere.
            let remaining_bytes = data_bytes
                .and_then(|bytes| {
                    let is_sent = request.command == Command::Demote;
                    let length = if is_sent { a_page } else { within };
                    length(request, offset_bytes, bytes as u64)
                })
                .ok_or(MALFORMED_CHUNK)?;
            self.state = State::Data { cookie, offset_bytes, remaining_bytes, is_last };
            let consumed = CHUNK_HEADER_BYTES + 8;
            return Ok((consumed, Some(Event::Data { cookie, offset_bytes, bytes: &[] })));
        }
        if length > INPUT_BYTES_MAX - CHUNK_HEADER_BYTES {
            return Err(ProtocolError::TooLong {
                what: "a reply chunk",
                length: length as u64,
                limit: (INPUT_BYTES_MAX - CHUNK_HEADER_BYTES) as u64,
            });
        }
        let Some(payload) = fields.bytes(length) else { return Ok((0, None)) };
        let event = chunk_event(kind, request, payload, is_last)?;
        let has_more_to_say = is_last && !matches!(event, Event::Done { .. });
        self.state = if has_more_to_say { State::Done { cookie } } else { State::Header };
        Ok((CHUNK_HEADER_BYTES + length, Some(event)))
    }

    fn take_data<'a>(
        &mut self,
        cookie: u64,
        offset_bytes: u64,
        remaining_bytes: u32,
        is_last: bool,
        input: &'a [u8],
    ) -> (usize, Option<Event<'a>>) {
        let bytes = &input[..input.len().min(remaining_bytes as usize)];
        if bytes.is_empty() {
            return (0, None);
        }
        let rest = remaining_bytes - length_u32(bytes.len());
        let next_bytes = offset_bytes + bytes.len() as u64;
        self.state = match (rest, is_last) {
            (0, true) => State::Done { cookie },
            (0, false) => State::Header,
            _ => State::Data { cookie, offset_bytes: next_bytes, remaining_bytes: rest, is_last },
        };
        (bytes.len(), Some(Event::Data { cookie, offset_bytes, bytes }))
    }
}

/// Parse a chunk other than data.
fn chunk_event(
    kind: u16,
    request: RequestHeader,
    payload: &[u8],
    is_last: bool,
) -> Result<Event<'_>, ProtocolError> {
    let cookie = request.cookie;
    let mut fields = Fields::new(payload);
    let event = match kind {
        chunk::NONE if is_last && payload.is_empty() => Some(Event::Done { cookie }),
        chunk::OFFSET_HOLE if payload.len() == 12 => {
            fields.u64().zip(fields.u32()).and_then(|(offset_bytes, length)| {
                let length_bytes = within(request, offset_bytes, length.into())?;
                (length_bytes > 0).then_some(Event::Hole { cookie, offset_bytes, length_bytes })
            })
        }
        chunk::BLOCK_STATUS if payload.len() > 4 && payload.len() % 8 == 4 => {
            let is_asked = matches!(request.command, Command::BlockStatus | Command::Await);
            let is_kept = |context| {
                context == cooperation::CONTEXT_ID
                    && matches!(request.command, Command::Read | Command::Write)
            };
            let is_sent = |context| {
                context == cooperation::PUSHES_ID
                    && request.command == Command::Demote
                    && payload.len() == 4 + 2 * 8
                    && !is_last
            };
            let is_known = |&id: &u32| is_asked || is_kept(id) || is_sent(id);
            fields.u32().filter(is_known).map(|context| Event::Extents {
                cookie,
                context,
                descriptors: fields.rest(),
            })
        }
        _ if kind & chunk::ERROR_BIT != 0 => {
            fields.u32().zip(fields.u16()).and_then(|(error, message_bytes)| {
                let message = fields.bytes(message_bytes.into())?;
                (error != 0 && message.len() <= STRING_BYTES_MAX)
                    .then(|| Event::Failed { cookie, error: ErrorCode::from_wire(error) })
            })
        }
        _ => None,
    };
    event.ok_or(MALFORMED_CHUNK)
}

/// Return the length of a page that is sent for the one of a request, if it is as long and in its place.
fn a_page(request: RequestHeader, offset_bytes: u64, length_bytes: u64) -> Option<u32> {
    let page_bytes = u64::from(request.length_bytes);
    let is_page = length_bytes == page_bytes && offset_bytes.is_multiple_of(page_bytes);
    is_page.then_some(request.length_bytes)
}

/// Return the length of a part of a read, if it lies within the read.
fn within(request: RequestHeader, offset_bytes: u64, length_bytes: u64) -> Option<u32> {
    let end = offset_bytes.checked_add(length_bytes)?;
    let request_end = request.offset_bytes.saturating_add(request.length_bytes.into());
    let is_within = offset_bytes >= request.offset_bytes && end <= request_end;
    let is_read = request.command == Command::Read;
    u32::try_from(length_bytes).ok().filter(|_| is_within && is_read)
}
