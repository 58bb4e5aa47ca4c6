//! Requests, as the server reads them.

use super::super::ProtocolError;
use super::super::wire::{Fields, length_u32};
use super::{Negotiated, PAYLOAD_BYTES};
use crate::protocol::{
    Command, ErrorCode, ExportInfo, REQUEST_BYTES, REQUEST_MAGIC, TRANSFER_BYTES_MAX, command_flag,
    transmission_flag,
};

/// A request that makes sense for its export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's name for it ("handle"), which the reply repeats.
    pub cookie: u64,
    /// Command; never [`Command::Disconnect`].
    pub command: Command,
    /// [`command_flag`]s, all valid for the command.
    pub flags: u16,
    /// Offset, in bytes.
    pub offset_bytes: u64,
    /// Length, in bytes.
    pub length_bytes: u32,
}

impl Request {
    /// Return `true` if a flag is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// A request that is answered by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The client's name for the request.
    pub cookie: u64,
    /// Requested command, if it was understood.
    pub command: Option<Command>,
    /// The error.
    pub error: ErrorCode,
    /// The error in words.
    pub reason: &'static str,
}

/// Message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// A request without payload.
    Request(Request),
    /// A piece of a write's payload: all of it, or as far as the next multiple of [`PAYLOAD_BYTES`].
    Write {
        /// The request that the piece belongs to.
        request: Request,
        /// Number of bytes of the payload that came before; zero begins the request.
        done_bytes: u32,
        /// The piece.
        payload: &'a [u8],
    },
    /// A request that is answered by an error; its payload, if any, is skipped.
    Refused(Refusal),
    /// The client leaves.
    Disconnect,
}

/// The stream of one client's requests.
#[derive(Clone, Debug)]
pub struct Requests {
    negotiated: Negotiated,
    size_bytes: u64,
    minimum_bytes: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Header,
    Payload { request: Request, done_bytes: u32 },
    Skip { remaining_bytes: u32 },
}

/// A request's header as it is on the wire.
struct Header {
    cookie: u64,
    command: u16,
    flags: u16,
    offset_bytes: u64,
    length_bytes: u32,
}

impl Header {
    fn read(input: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let mut fields = Fields::new(input);
        let Some(magic) = fields.u32() else { return Ok(None) };
        if magic != REQUEST_MAGIC {
            return Err(ProtocolError::Magic {
                what: "a request",
                found: magic.into(),
                expected: REQUEST_MAGIC.into(),
            });
        }
        let header = || {
            let (flags, command, cookie) = (fields.u16()?, fields.u16()?, fields.u64()?);
            let (offset_bytes, length_bytes) = (fields.u64()?, fields.u32()?);
            Some(Self { cookie, command, flags, offset_bytes, length_bytes })
        };
        Ok({ header }())
    }
}

impl Requests {
    /// Return the requests for `export`, on the terms that were negotiated.
    pub fn new(negotiated: Negotiated, export: &ExportInfo) -> Self {
        Self {
            negotiated,
            size_bytes: export.size_bytes,
            minimum_bytes: export.block_sizes.minimum_bytes.max(1),
            state: State::Header,
        }
    }

    /// Parse one request, or one piece of a write, from `input`; return the number of bytes
    /// consumed, zero if more are needed. Bytes may be consumed without an event: a refused
    /// payload.
    ///
    /// # Errors
    /// If the client sent an invalid request, or a write longer than any server takes.
    pub fn next<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<(usize, Option<Incoming<'a>>), ProtocolError> {
        match self.state {
            State::Header => self.take_header(input),
            State::Payload { request, done_bytes } => {
                Ok(self.take_payload(request, done_bytes, input, 0))
            }
            State::Skip { remaining_bytes } => {
                let skipped = input.len().min(remaining_bytes as usize);
                let rest = remaining_bytes - length_u32(skipped);
                self.state =
                    if rest == 0 { State::Header } else { State::Skip { remaining_bytes: rest } };
                if rest == 0 && skipped < input.len() {
                    let (consumed, incoming) = self.take_header(&input[skipped..])?;
                    return Ok((skipped + consumed, incoming));
                }
                Ok((skipped, None))
            }
        }
    }

    fn take_header<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<(usize, Option<Incoming<'a>>), ProtocolError> {
        let Some(header) = Header::read(input)? else { return Ok((0, None)) };
        let cooperates = self.negotiated.cooperates;
        let command = Command::from_wire(header.command)
            .filter(|command| cooperates || !command.is_of_cooperation());
        if command == Some(Command::Disconnect) {
            return Ok((REQUEST_BYTES, Some(Incoming::Disconnect)));
        }
        let has_payload = command.is_some_and(Command::has_payload);
        // The payload of a refused write must be read all the same, and this one is too long for that.
        if has_payload && header.length_bytes > TRANSFER_BYTES_MAX {
            return Err(ProtocolError::TooLong {
                what: "a write",
                length: header.length_bytes.into(),
                limit: TRANSFER_BYTES_MAX.into(),
            });
        }
        let request = match self.check(&header, command) {
            Ok(request) => request,
            Err((error, reason)) => {
                // The payload comes all the same, and is not the next request.
                if has_payload && header.length_bytes > 0 {
                    self.state = State::Skip { remaining_bytes: header.length_bytes };
                }
                let refusal = Refusal { cookie: header.cookie, command, error, reason };
                return Ok((REQUEST_BYTES, Some(Incoming::Refused(refusal))));
            }
        };
        if has_payload {
            self.state = State::Payload { request, done_bytes: 0 };
            return Ok(self.take_payload(request, 0, &input[REQUEST_BYTES..], REQUEST_BYTES));
        }
        Ok((REQUEST_BYTES, Some(Incoming::Request(request))))
    }

    fn take_payload<'a>(
        &mut self,
        request: Request,
        done_bytes: u32,
        input: &'a [u8],
        consumed: usize,
    ) -> (usize, Option<Incoming<'a>>) {
        let piece = bytes_to_multiple(request.offset_bytes + u64::from(done_bytes), PAYLOAD_BYTES);
        let length = (request.length_bytes - done_bytes).min(piece);
        let Some(payload) = input.get(..length as usize) else { return (consumed, None) };
        let through = done_bytes + length;
        self.state = if through == request.length_bytes {
            State::Header
        } else {
            State::Payload { request, done_bytes: through }
        };
        (consumed + payload.len(), Some(Incoming::Write { request, done_bytes, payload }))
    }

    fn check(
        &self,
        header: &Header,
        command: Option<Command>,
    ) -> Result<Request, (ErrorCode, &'static str)> {
        let invalid = |reason| Err((ErrorCode::Invalid, reason));
        let Some(command) = command else { return invalid("unknown command") };
        self.check_flags(header, command)?;
        let Header { cookie, flags, offset_bytes, length_bytes, .. } = *header;
        let request = Request { cookie, command, flags, offset_bytes, length_bytes };
        match command {
            Command::Flush | Command::Await if (offset_bytes, length_bytes) == (0, 0) => {
                return Ok(request);
            }
            Command::Flush => return invalid("a flush has no offset and no length"),
            Command::Await => return invalid("waiting has no offset and no length"),
            // Their offsets are none.
            Command::Attach | Command::Tell => return Ok(request),
            Command::Read
            | Command::Write
            | Command::Disconnect
            | Command::Trim
            | Command::Cache
            | Command::WriteZeroes
            | Command::BlockStatus
            | Command::Demote
            | Command::Release => {}
        }
        if command.is_write() && self.offers(transmission_flag::READ_ONLY) {
            return Err((ErrorCode::NotPermitted, "the export is read-only"));
        }
        if offset_bytes.checked_add(length_bytes.into()).is_none_or(|end| end > self.size_bytes) {
            // The protocol wants ENOSPC for a write beyond the end, and EINVAL for anything else.
            let is_growing = matches!(command, Command::Write | Command::WriteZeroes);
            let error = if is_growing { ErrorCode::NoSpace } else { ErrorCode::Invalid };
            return Err((error, "beyond the end of the export"));
        }
        let minimum_bytes = u64::from(self.minimum_bytes);
        if !offset_bytes.is_multiple_of(minimum_bytes)
            || !u64::from(length_bytes).is_multiple_of(minimum_bytes)
        {
            return invalid("not aligned to the minimum block size");
        }
        match command {
            Command::Read if length_bytes > TRANSFER_BYTES_MAX => {
                invalid("longer than the maximum block size")
            }
            Command::BlockStatus if self.negotiated.contexts.is_empty() => {
                invalid("no metadata context was selected")
            }
            Command::BlockStatus if length_bytes == 0 => invalid("status of no bytes"),
            Command::Read
            | Command::Write
            | Command::Disconnect
            | Command::Flush
            | Command::Trim
            | Command::Cache
            | Command::WriteZeroes
            | Command::BlockStatus
            | Command::Attach
            | Command::Await
            | Command::Demote
            | Command::Release
            | Command::Tell => Ok(request),
        }
    }

    fn check_flags(
        &self,
        header: &Header,
        command: Command,
    ) -> Result<(), (ErrorCode, &'static str)> {
        let mut allowed = 0;
        if self.offers(transmission_flag::SEND_FUA) {
            allowed |= command_flag::FUA;
        }
        match command {
            Command::Read if self.offers(transmission_flag::SEND_DF) => allowed |= command_flag::DF,
            Command::BlockStatus => allowed |= command_flag::REQ_ONE,
            Command::WriteZeroes => {
                allowed |= command_flag::NO_HOLE;
                if self.offers(transmission_flag::SEND_FAST_ZERO) {
                    allowed |= command_flag::FAST_ZERO;
                }
            }
            Command::Write if self.negotiated.cooperates => allowed |= command_flag::HELD,
            Command::Attach if self.negotiated.takes_pushes => {
                allowed |= command_flag::TAKES_PUSHES;
            }
            Command::Tell if self.negotiated.takes_pushes => allowed |= command_flag::CARRIED,
            Command::Read
            | Command::Write
            | Command::Disconnect
            | Command::Flush
            | Command::Trim
            | Command::Cache
            | Command::Attach
            | Command::Await
            | Command::Demote
            | Command::Release
            | Command::Tell => {}
        }
        if header.flags & !allowed != 0 {
            return Err((ErrorCode::Invalid, "a flag that this command does not have here"));
        }
        Ok(())
    }

    fn offers(&self, flag: u16) -> bool {
        self.negotiated.flags & flag != 0
    }
}

/// Return the number of bytes from an offset to the next multiple of `of`.
pub(crate) fn bytes_to_multiple(offset_bytes: u64, of: usize) -> u32 {
    let of = of as u64;
    u32::try_from(of - offset_bytes % of).expect("pieces are short")
}
