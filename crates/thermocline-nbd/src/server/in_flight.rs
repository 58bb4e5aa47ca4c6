//! Requests that were handed to a service and not answered yet, cut into pieces.

use crate::codec::server::{
    INPUT_BYTES_MAX, Negotiated, PAYLOAD_BYTES, READ_BYTES, Request, bytes_to_multiple, replies,
};
use crate::protocol::cooperation::RECALLS_MAX;
use crate::protocol::{CHUNK_HEADER_BYTES, Command, ErrorCode, command_flag};
use crate::service::{Cooperator, Piece, Tag};

/// A socket's bytes are taken in turns of at most this many.
pub(super) const INPUT_BYTES: usize = 2 * INPUT_BYTES_MAX;
/// A range to be cached is handed over in parts of this many bytes, one after the other.
const RANGE_PIECE_BYTES: u32 = 1 << 20;

/// Connection, request and piece that a tag identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) connection: usize,
    pub(super) request: usize,
    /// Offset of the piece from the beginning of the request.
    pub(super) done_bytes: u32,
}

const CONNECTION_BITS: u32 = 12;
/// One bit fewer than there is room for: the highest bit of a tag is for others who use a service.
const REQUEST_BITS: u32 = 19;

/// Maximum number of clients that tags can identify.
pub(super) const CONNECTIONS_MAX: usize = 1 << CONNECTION_BITS;
/// Maximum number of requests of one client that tags can identify.
pub(super) const REQUESTS_MAX: usize = 1 << REQUEST_BITS;

impl Origin {
    pub(super) fn to_tag(self) -> Tag {
        debug_assert!(self.connection < CONNECTIONS_MAX && self.request < REQUESTS_MAX);
        let high = (self.connection as u64) << REQUEST_BITS | self.request as u64;
        Tag(high << 32 | u64::from(self.done_bytes))
    }

    pub(super) fn from_tag(Tag(tag): Tag) -> Self {
        let part = |shift: u32, bits: u32| (tag >> shift) & ((1 << bits) - 1);
        let index = |part: u64| usize::try_from(part).expect("at most 19 bits");
        Self {
            connection: index(part(32 + REQUEST_BITS, CONNECTION_BITS)),
            request: index(part(32, REQUEST_BITS)),
            done_bytes: u32::try_from(part(0, 32)).expect("32 bits"),
        }
    }
}

/// A request that a service works on.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) request: Request,
    /// Memory that it and its reply may hold, in bytes.
    pub(super) held_bytes: usize,
    /// Number of the request's bytes that were handed over.
    submitted_bytes: u32,
    /// Pieces that were handed over and not answered.
    outstanding: u32,
    /// The first error of a piece.
    pub(super) error: Option<ErrorCode>,
    /// The bytes of a read of several pieces, which come in any order.
    pub(super) data: Option<Box<[u8]>>,
    /// Which client it is of, if that cooperates.
    pub(super) cooperator: Option<Cooperator>,
    /// `true` if a part of the reply was sent that has no data.
    pub(super) is_in_parts: bool,
}

impl InFlight {
    pub(super) fn new(request: Request) -> Self {
        let is_split = request.command == Command::Read
            && request.length_bytes > bytes_to_multiple(request.offset_bytes, READ_BYTES);
        Self {
            request,
            held_bytes: 0,
            submitted_bytes: 0,
            outstanding: 0,
            error: None,
            data: is_split.then(|| vec![0; request.length_bytes as usize].into_boxed_slice()),
            cooperator: None,
            is_in_parts: false,
        }
    }

    /// Return the next piece to hand over, and where it begins in the request: all pieces of a read
    /// at once, those of a range to be cached one by one, trims and zeroes as a whole. The pieces
    /// of a write come with their payload.
    pub(super) fn next_piece(&mut self) -> Option<(u32, Piece)> {
        let Request { command, offset_bytes, length_bytes, .. } = self.request;
        let done_bytes = self.submitted_bytes;
        let is_first = self.outstanding == 0 && done_bytes == 0;
        if done_bytes == length_bytes && !(is_first && length_bytes == 0) {
            return None;
        }
        let limit_bytes = if command == Command::Read {
            bytes_to_multiple(offset_bytes + u64::from(done_bytes), READ_BYTES)
        } else if command.has_payload() || self.outstanding > 0 || self.error.is_some() {
            return None;
        } else if command == Command::Cache {
            RANGE_PIECE_BYTES
        } else {
            length_bytes
        };
        Some(self.piece((length_bytes - done_bytes).min(limit_bytes)))
    }

    /// Return the next piece, of a length that is known.
    pub(super) fn piece(&mut self, length_bytes: u32) -> (u32, Piece) {
        let Request { command, flags, offset_bytes, .. } = self.request;
        let done_bytes = self.submitted_bytes;
        self.submitted_bytes += length_bytes;
        self.outstanding += 1;
        let offset_bytes = offset_bytes + u64::from(done_bytes);
        let cooperator = self.cooperator;
        (done_bytes, Piece { command, flags, offset_bytes, length_bytes, cooperator })
    }

    /// Count the answer to a piece.
    pub(super) fn answered(&mut self, outcome: Result<(), ErrorCode>) {
        self.outstanding -= 1;
        self.error = self.error.or(outcome.err());
    }

    /// Return `true` if everything was handed over and answered, or an error ends it early.
    pub(super) fn is_done(&self) -> bool {
        let is_write = self.request.command.has_payload();
        let is_through = self.submitted_bytes == self.request.length_bytes;
        self.outstanding == 0 && (is_through || (self.error.is_some() && !is_write))
    }

    /// Fail the request when its pieces end, as the rest of it will never come.
    pub(super) fn cut_short(&mut self) {
        self.request.length_bytes = self.submitted_bytes;
        self.error = self.error.or(Some(ErrorCode::ShuttingDown));
    }
}

/// Return the most memory that a request and its reply hold, in bytes: at least a little, so that
/// the number of requests is bounded with their bytes.
pub(super) fn charge_bytes(request: &Request, negotiated: &Negotiated) -> usize {
    let length_bytes = request.length_bytes as usize;
    match request.command {
        // A page has a number in the reply of a client that cooperates.
        Command::Read => {
            let answer_bytes = if negotiated.cooperates { length_bytes / 512 } else { 0 };
            HELD_BYTES_MIN + replies::READ_HEADER_BYTES_MAX + length_bytes + answer_bytes
        }
        // Its pieces may arrive slowly, in a whole input buffer.
        Command::Write | Command::Demote
            if request.length_bytes > bytes_to_multiple(request.offset_bytes, PAYLOAD_BYTES) =>
        {
            HELD_BYTES_MIN + INPUT_BYTES + length_bytes
        }
        Command::Write => HELD_BYTES_MIN + length_bytes,
        // The reply may bring another page.
        Command::Demote => HELD_BYTES_MIN + replies::PUSH_HEADER_BYTES + 2 * length_bytes,
        Command::BlockStatus => {
            let extents = if request.has(command_flag::REQ_ONE) { 1 } else { EXTENTS_MAX };
            let context_bytes = EXTENTS_HEADER_BYTES + EXTENT_BYTES * extents.min(length_bytes);
            HELD_BYTES_MIN + negotiated.contexts.iter().count() * context_bytes
        }
        Command::Await => HELD_BYTES_MIN + EXTENTS_HEADER_BYTES + EXTENT_BYTES * RECALLS_MAX,
        Command::Disconnect
        | Command::Attach
        | Command::Release
        | Command::Tell
        | Command::Flush
        | Command::Trim
        | Command::Cache
        | Command::WriteZeroes => HELD_BYTES_MIN,
    }
}

/// Extents in one reply for one context, at most.
pub(super) const EXTENTS_MAX: usize = 4096;
/// The bytes of an extent in a reply, and what stands before those of a context.
pub(super) const EXTENT_BYTES: usize = 8;
pub(super) const EXTENTS_HEADER_BYTES: usize = CHUNK_HEADER_BYTES + 4;

const HELD_BYTES_MIN: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn in_flight(command: Command, offset_bytes: u64, length_bytes: u32) -> InFlight {
        InFlight::new(Request { cookie: 0, command, flags: 0, offset_bytes, length_bytes })
    }

    #[test]
    fn tags_keep_places_apart() {
        for place in [
            Origin { connection: 0, request: 0, done_bytes: 0 },
            Origin { connection: CONNECTIONS_MAX - 1, request: 0, done_bytes: u32::MAX },
            Origin { connection: 1, request: REQUESTS_MAX - 1, done_bytes: 1 },
        ] {
            assert_eq!(Origin::from_tag(place.to_tag()), place);
        }
    }

    #[test]
    fn a_read_is_cut_at_multiples_of_a_piece() {
        let mut read = in_flight(Command::Read, (256 << 10) - 1, (256 << 10) + 2);
        let mut lengths = vec![];
        while let Some((done_bytes, piece)) = read.next_piece() {
            assert_eq!(piece.offset_bytes, (256 << 10) - 1 + u64::from(done_bytes));
            lengths.push(piece.length_bytes);
        }
        assert_eq!(lengths, [1, 256 << 10, 1]);
        for outcome in [Ok(()), Err(ErrorCode::Io), Ok(())] {
            assert!(!read.is_done());
            read.answered(outcome);
        }
        assert!(read.is_done());
        assert_eq!(read.error, Some(ErrorCode::Io));
    }

    #[test]
    fn a_range_is_handed_over_piece_by_piece() {
        let mut range = in_flight(Command::Cache, 0, RANGE_PIECE_BYTES + 1);
        assert_eq!(
            range.next_piece().map(|(_, piece)| piece.length_bytes),
            Some(RANGE_PIECE_BYTES)
        );
        assert_eq!(range.next_piece(), None);
        range.answered(Ok(()));
        assert!(!range.is_done());
        assert_eq!(range.next_piece().map(|(_, piece)| piece.length_bytes), Some(1));
        range.answered(Ok(()));
        assert!(range.is_done());
    }

    #[test]
    fn a_trim_is_one_piece_however_long() {
        for command in [Command::Trim, Command::WriteZeroes] {
            let mut range = in_flight(command, 4096, u32::MAX);
            let piece = range.next_piece().map(|(_, piece)| piece);
            assert_eq!(piece.map(|piece| piece.length_bytes), Some(u32::MAX));
            assert_eq!(range.next_piece(), None);
            range.answered(Ok(()));
            assert!(range.is_done());
        }
    }

    #[test]
    fn an_error_ends_a_range_early() {
        let mut range = in_flight(Command::Cache, 0, u32::MAX);
        assert!(range.next_piece().is_some());
        range.answered(Err(ErrorCode::NoSpace));
        assert!(range.is_done());
    }

    #[test]
    fn a_write_whose_payload_never_comes_fails() {
        let mut write = in_flight(Command::Write, 0, 512 << 10);
        assert_eq!(write.piece(256 << 10).0, 0);
        write.cut_short();
        assert!(!write.is_done());
        write.answered(Ok(()));
        assert!(write.is_done());
        assert_eq!(write.error, Some(ErrorCode::ShuttingDown));
    }

    #[test]
    fn a_flush_is_one_piece_of_nothing() {
        let mut flush = in_flight(Command::Flush, 0, 0);
        assert_eq!(flush.next_piece().map(|(_, piece)| piece.length_bytes), Some(0));
        assert_eq!(flush.next_piece(), None);
        flush.answered(Ok(()));
        assert!(flush.is_done());
    }
}
