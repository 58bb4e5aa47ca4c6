//! The server's side of the protocol.

mod handshake;
pub mod replies;
mod requests;

pub use handshake::{Contexts, Handshake, Negotiated, Offer, Step, TlsMode};
pub(crate) use requests::bytes_to_multiple;
pub use requests::{Incoming, Refusal, Request, Requests};

use crate::protocol::{OPTION_BYTES_MAX, OPTION_HEADER_BYTES};

/// A write is taken in pieces that end at multiples of this many bytes: a whole piece is the longest
/// thing that must lie in the input buffer at once. A short buffer stays in the processor's cache between
/// the socket and the place where the bytes go.
pub const PAYLOAD_BYTES: usize = 64 << 10;

/// An input buffer of this many bytes holds whatever a machine waits for.
pub const INPUT_BYTES_MAX: usize = PAYLOAD_BYTES;

/// The service is asked for a read in pieces that end at multiples of this many bytes.
pub(crate) const READ_BYTES: usize = 256 << 10;

const _: () = assert!(OPTION_HEADER_BYTES + OPTION_BYTES_MAX <= INPUT_BYTES_MAX);
