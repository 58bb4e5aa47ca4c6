//! Where clients come in.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, UnixListener, UnixStream};

use super::ServerError;
use super::transport::Socket;

/// A place to listen at.
#[derive(Debug)]
pub enum Listen {
    /// A Unix socket of this path. A socket file that nobody listens at any more is replaced.
    Unix(PathBuf),
    /// A TCP address; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A Unix socket that listens already, such as one that systemd handed over.
    UnixSocket(std::os::unix::net::UnixListener),
    /// A TCP socket that listens already.
    TcpSocket(std::net::TcpListener),
}

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
            Listen::Unix(path) => {
                let failed = failed(path.display().to_string());
                remove_stale(&path)
                    .and_then(|()| UnixListener::bind(&path))
                    .map_err(failed)
                    .map(|listener| Self::Unix { listener, created: Some(path) })
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

    /// The next client, if one waits.
    pub(super) fn accept(&self) -> io::Result<Option<Socket>> {
        let socket = match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }),
            Self::Unix { listener, .. } => {
                listener.accept().map(|(stream, _)| Socket::Unix(stream))
            }
        };
        match socket {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The address of a TCP listener.
    pub(super) fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix { .. } => None,
        }
    }

    /// The socket, to register it.
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

/// Removes a socket file that nobody listens at.
fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is no socket is there"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(ErrorKind::AddrInUse, "another server listens there")),
        Err(error) => Err(error),
    }
}
