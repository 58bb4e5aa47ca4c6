//! The client's side of the protocol.

mod handshake;
mod replies;
mod requests;

pub use handshake::{Agreed, Handshake, Security, Step, Wanted};
pub use replies::{Event, Replies};
pub use requests::RequestHeader;

/// An input buffer of this many bytes holds whatever a machine waits for: the longest reply to an
/// option, or the longest list of extents that is accepted.
pub const INPUT_BYTES_MAX: usize = 64 << 10;
