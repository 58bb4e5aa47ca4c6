//! Reasons why a server cannot serve.

use std::io;
use std::net::SocketAddr;

use super::tls::TlsError;

/// Reason why a server cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A place to listen at cannot be had.
    #[error("cannot listen at {place}")]
    Listen {
        /// The place.
        place: String,
        /// The system's reason.
        source: io::Error,
    },
    /// An address that other machines reach, without leave.
    #[error("{address} can be reached from other machines; that must be allowed explicitly")]
    Remote {
        /// The address.
        address: SocketAddr,
    },
    /// An export that cannot be offered.
    #[error("export `{name}`: {reason}")]
    Export {
        /// Its name.
        name: String,
        /// Fault.
        reason: &'static str,
    },
    /// The system refuses to wait for events.
    #[error("cannot {action}")]
    Events {
        /// Attempted action.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Certificates that cannot be used.
    #[error("{0}")]
    Tls(#[from] TlsError),
}
