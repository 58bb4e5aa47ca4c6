//! The NBD protocol without sockets: bytes in, events out, and back.
//!
//! Each state machine is shown the bytes that have arrived and not been consumed, and says how many
//! of them it consumed; the caller keeps the rest and shows it again with more behind it. The piece
//! that a machine needs as a whole is bounded ([`server::INPUT_BYTES_MAX`], [`client::INPUT_BYTES_MAX`]), so that a
//! buffer of fixed size suffices, and no machine has one of its own. Its answers are appended to
//! a buffer of the caller.
//!
//! A [`ProtocolError`] ends the connection it came from; what a request asks for wrongly is answered
//! by an error of the protocol instead.

pub mod client;
pub mod server;
mod wire;

/// Reason why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A message does not begin with the number it must begin with.
    #[error("{what} begins with {found:#x} instead of {expected:#x}")]
    Magic {
        /// The message.
        what: &'static str,
        /// Actual first bytes.
        found: u64,
        /// Expected first bytes.
        expected: u64,
    },
    /// The other side set handshake flags that it must not set.
    #[error("the client's flags are {flags:#x}; only those of the greeting are allowed")]
    ClientFlags {
        /// All its flags.
        flags: u32,
    },
    /// A message is longer than any that makes sense.
    #[error("{what} of {length} bytes; at most {limit} are allowed")]
    TooLong {
        /// The message.
        what: &'static str,
        /// Its length, in bytes.
        length: u64,
        /// The longest that is accepted, in bytes.
        limit: u64,
    },
    /// The client chose its export in the old way, which knows no error replies.
    #[error("export `{name}` cannot be entered: {reason}")]
    Export {
        /// The name, shortened.
        name: String,
        /// Reason.
        reason: &'static str,
    },
    /// A message that has no place here.
    #[error("{0}")]
    Unexpected(&'static str),
    /// The server refused an option.
    #[error("the server refuses {option} ({code}){separator}{message}", separator = if message.is_empty() { "" } else { ": " })]
    Refused {
        /// Requested option.
        option: &'static str,
        /// The error's name.
        code: &'static str,
        /// The server's words, shortened; may be empty.
        message: String,
    },
}
