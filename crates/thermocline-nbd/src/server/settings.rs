//! Limits of a server.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;

use super::pace::ClientRates;
use crate::codec::server::TlsMode;

/// Settings for a server's treatment of clients.
#[derive(Clone, Debug)]
pub struct Settings {
    /// More clients at once are turned away; at most 4096.
    pub clients_max: usize,
    /// The memory that the requests and replies of one client may take before it must wait, in bytes;
    /// a client that has nothing in flight may always begin one request.
    pub client_bytes_max: usize,
    /// The memory that the requests and replies of all clients together may take, in bytes. One client
    /// at a time may exceed it, by one request of at most 32 MiB and its input buffer of 512 KiB. Each
    /// client may always take its share: half of this, divided by `clients_max`. Requests that do not
    /// fit into a share wait for the other half in turn. Not counted are 16 KiB of slack for each
    /// client, and what the sockets and TLS buffer.
    pub bytes_max: usize,
    /// Rates that each client may reach.
    pub client_rates: ClientRates,
    /// Time to look for work before sleeping, as long as that finds any; zero sleeps at once.
    pub spin: Duration,
    /// A client that has not chosen its export after this time is turned away.
    pub negotiation_limit: Duration,
    /// A client is disconnected if it takes none of its replies, or stops in the middle of a request,
    /// for this long; its memory is free then.
    pub send_limit: Duration,
    /// A client that has sent nothing for this long is disconnected; without a limit, never.
    pub idle_limit: Option<Duration>,
    /// `true` if the server may listen at TCP addresses that other machines reach.
    pub allow_remote: bool,
    /// Certificates, and whether TCP clients must use them; on a Unix socket they may.
    pub tls: Option<(Arc<ServerConfig>, TlsMode)>,
}

impl Default for Settings {
    /// Return the defaults: 128 clients of 32 MiB each, 256 MiB together, at any rate; poll for 50 us before sleeping; ten
    /// seconds to negotiate, a minute to take replies, no limit for idle clients; no TLS; loopback only.
    fn default() -> Self {
        Self {
            clients_max: 128,
            client_bytes_max: 32 << 20,
            bytes_max: 256 << 20,
            client_rates: ClientRates::default(),
            spin: Duration::from_micros(50),
            negotiation_limit: Duration::from_secs(10),
            send_limit: Duration::from_mins(1),
            idle_limit: None,
            allow_remote: false,
            tls: None,
        }
    }
}
