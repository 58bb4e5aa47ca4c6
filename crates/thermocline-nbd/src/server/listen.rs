//! Sockets to which clients connect.

use std::fmt;
use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, UnixListener, UnixStream};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use super::ServerError;
use super::transport::Socket;

/// A place to listen at.
#[derive(Debug)]
pub enum Listen {
    /// A Unix socket of this path, for the server's user alone. A socket file that nobody listens at
    /// any more is replaced.
    Unix(PathBuf),
    /// A Unix socket of this path, for others as well.
    UnixFor(PathBuf, SocketAccess),
    /// A TCP address; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A Unix socket that listens already, such as one that systemd handed over.
    UnixSocket(std::os::unix::net::UnixListener),
    /// A TCP socket that listens already.
    TcpSocket(std::net::TcpListener),
}

impl fmt::Display for Listen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path_of = |socket: &std::os::unix::net::UnixListener| {
            Some(socket.local_addr().ok()?.as_pathname()?.to_owned())
        };
        match self {
            Self::Unix(path) | Self::UnixFor(path, _) => write!(formatter, "{}", path.display()),
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::UnixSocket(socket) => match path_of(socket) {
                Some(path) => write!(formatter, "{}", path.display()),
                None => formatter.write_str("a Unix socket"),
            },
            Self::TcpSocket(socket) => match socket.local_addr() {
                Ok(address) => write!(formatter, "{address}"),
                Err(_) => formatter.write_str("a TCP socket"),
            },
        }
    }
}

/// Access to a Unix socket: users to whom the permissions of its file grant writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketAccess {
    /// The permission bits, as in `0o660`.
    pub mode: u32,
    /// The number of the user who owns the file; by default the server's user.
    pub owner: Option<u32>,
    /// The number of the file's group; by default the server's group.
    pub group: Option<u32>,
}

impl Default for SocketAccess {
    /// Permit only the server's user.
    fn default() -> Self {
        Self { mode: 0o600, owner: None, group: None }
    }
}

/// Number of clients that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A socket that accepts clients.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, created: Option<PathBuf> },
}

impl Listener {
    pub(super) fn open(place: Listen, allow_remote: bool) -> Result<Self, ServerError> {
        let failed = |name: String| move |source| ServerError::Listen { place: name, source };
        match place {
            Listen::Tcp(address) => {
                if !allow_remote && !address.ip().is_loopback() {
                    return Err(ServerError::Remote { address });
                }
                TcpListener::bind(address).map(Self::Tcp).map_err(failed(address.to_string()))
            }
            Listen::Unix(path) => Self::open(Listen::UnixFor(path, SocketAccess::default()), false),
            Listen::UnixFor(path, access) => {
                let failed = failed(path.display().to_string());
                let bound = bind_unix(&path, access).and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    Ok(UnixListener::from_std(listener))
                });
                let listener = bound.map_err(failed)?;
                Ok(Self::Unix { listener, created: Some(path) })
            }
            Listen::UnixSocket(listener) => {
                let failed = failed("the Unix socket handed over".into());
                listener.set_nonblocking(true).map_err(failed)?;
                let listener = UnixListener::from_std(listener);
                Ok(Self::Unix { listener, created: None })
            }
            Listen::TcpSocket(listener) => {
                let failed = failed("the TCP socket handed over".into());
                listener.set_nonblocking(true).map_err(failed)?;
                Ok(Self::Tcp(TcpListener::from_std(listener)))
            }
        }
    }

    /// Return the next client, if one waits; the system probes its connection while it is idle.
    pub(super) fn accept(&self) -> io::Result<Option<Socket>> {
        let socket = match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                // Answers leave in as few calls as possible. Nagle's algorithm would hold their ends
                // back until the client confirms.
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }),
            Self::Unix { listener, .. } => {
                listener.accept().map(|(stream, _)| Socket::Unix(stream))
            }
        };
        match socket {
            Ok(socket) => {
                if let Err(error) = socket.widen() {
                    tracing::warn!(%error, "cannot enlarge a client's socket buffer; long reads are slower");
                }
                if let Err(error) = socket.keep_alive() {
                    tracing::warn!(%error, "cannot enable keepalive on a client's connection");
                }
                Ok(Some(socket))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Return the address of a TCP listener.
    pub(super) fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix { .. } => None,
        }
    }

    /// Return the socket, to register it.
    pub(super) fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(listener) => listener,
            Self::Unix { listener, .. } => listener,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { created: Some(path), .. } = self {
            // Whoever removed the file before us did no harm.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Listens at a new socket file. The file has its owner and mode before the socket listens, and until
/// then nobody can connect, whatever the umask is.
///
/// # Errors
/// If something else is there, or the system refuses.
pub fn bind_unix(
    path: &Path,
    access: SocketAccess,
) -> io::Result<std::os::unix::net::UnixListener> {
    remove_stale(path)?;
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let opened = restrict(path, access).and_then(|()| {
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(std::os::unix::net::UnixListener::from(socket))
    });
    if opened.is_err() {
        // The first error is the one to report.
        drop(std::fs::remove_file(path));
    }
    opened
}

/// Sets the owner first: a change of the owner may clear bits of the mode.
fn restrict(path: &Path, access: SocketAccess) -> io::Result<()> {
    let SocketAccess { mode, owner, group } = access;
    if owner.is_some() || group.is_some() {
        std::os::unix::fs::lchown(path, owner, group).map_err(|error| {
            let text = format!("the socket's owner and group cannot be set: {error}");
            io::Error::new(error.kind(), text)
        })?;
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Removes a socket file that nobody listens at.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "a file that is not a socket is in the way",
        ));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another server listens there")),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::net::sockopt;

    use super::*;

    #[test]
    fn accepted_tcp_connections_are_probed_while_they_are_idle() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let place = Listen::Tcp(address.parse().unwrap());
            // A machine may lack the second protocol.
            let Ok(listener) = Listener::open(place, false) else { continue };
            let client = std::net::TcpStream::connect(listener.tcp_address().unwrap()).unwrap();
            let deadline = Instant::now() + Duration::from_secs(30);
            let socket = loop {
                match listener.accept().unwrap() {
                    Some(socket) => break socket,
                    None => assert!(Instant::now() < deadline, "the client is not accepted"),
                }
            };
            let Socket::Tcp(accepted) = &socket else { panic!("a TCP listener accepts TCP") };
            assert!(sockopt::socket_keepalive(accepted).unwrap());
            assert_eq!(sockopt::tcp_keepidle(accepted).unwrap(), Duration::from_mins(1));
            assert_eq!(sockopt::tcp_keepintvl(accepted).unwrap(), Duration::from_secs(15));
            assert_eq!(sockopt::tcp_keepcnt(accepted).unwrap(), 4);
            assert_eq!(sockopt::tcp_user_timeout(accepted).unwrap(), 120_000);
            assert!(accepted.nodelay().unwrap());
            assert!(!sockopt::socket_keepalive(&client).unwrap(), "it is no default of the system");
        }
    }
}
