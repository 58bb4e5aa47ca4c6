//! A client's socket, with or without TLS, and the buffers before and behind it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use rustls::{ServerConfig, ServerConnection};

/// A connected socket that never blocks.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// The socket, to register it.
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a socket said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes were read; the flag says whether the socket was emptied.
    Bytes { is_empty: bool },
    /// There is nothing now.
    Nothing,
    /// Nothing will ever come again.
    End,
}

/// A socket and perhaps TLS on it.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) socket: Socket,
    tls: Option<Box<ServerConnection>>,
}

impl Transport {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, tls: None }
    }

    /// Everything from now on goes through TLS.
    pub(crate) fn start_tls(&mut self, configuration: &Arc<ServerConfig>) -> io::Result<()> {
        let tls = ServerConnection::new(Arc::clone(configuration)).map_err(io::Error::other)?;
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// Reads once into the free part of `input`, which must not be empty.
    pub(crate) fn receive(&mut self, input: &mut Input) -> io::Result<Received> {
        let Some(tls) = &mut self.tls else {
            let free = input.free();
            let room_bytes = free.len();
            return match self.socket.read(free) {
                Ok(0) => Ok(Received::End),
                Ok(length) => {
                    input.add(length);
                    Ok(Received::Bytes { is_empty: length < room_bytes })
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    Ok(Received::Bytes { is_empty: false })
                }
                Err(error) => Err(error),
            };
        };
        match tls.reader().read(input.free()) {
            Ok(0) => return Ok(Received::End),
            Ok(length) => {
                input.add(length);
                return Ok(Received::Bytes { is_empty: false });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match tls.read_tls(&mut self.socket) {
            Ok(0) => Ok(Received::End),
            Ok(_) => {
                let processed = tls.process_new_packets();
                processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                Ok(Received::Bytes { is_empty: false })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                Ok(Received::Bytes { is_empty: false })
            }
            Err(error) => Err(error),
        }
    }

    /// Sends as much of `output` as the socket takes.
    pub(crate) fn send(&mut self, output: &mut Output) -> io::Result<()> {
        while let Some(tls) = &mut self.tls {
            // rustls takes so many bytes before it wants to be rid of them.
            output.sent += tls.writer().write(output.waiting())?;
            if !tls.wants_write() {
                break;
            }
            match tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        while self.tls.is_none() && !output.waiting().is_empty() {
            match self.socket.write(output.waiting()) {
                Ok(length) => output.sent += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        output.tidy();
        Ok(())
    }

    /// Ends the connection at once; nothing that waits will be sent.
    pub(crate) fn hang_up(&mut self) {
        self.tls = None;
        // It may be closed already.
        drop(match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        });
    }

    /// Whether bytes wait in TLS for the socket to take them.
    pub(crate) fn holds_output(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Says farewell, as far as the socket takes it at once.
    pub(crate) fn close(&mut self, output: &mut Output) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        // The client may be gone; then nobody is left to be told.
        drop(self.send(output));
    }
}

/// Bytes that arrived and were not consumed, in a buffer of fixed size.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        Self { bytes: vec![0; capacity_bytes].into_boxed_slice(), start: 0, end: 0 }
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn consume(&mut self, length: usize) {
        self.start += length;
        assert!(self.start <= self.end, "a codec consumes no more than it was shown");
    }

    /// Room for more; empty only if the buffer is full of bytes that were not consumed.
    pub(crate) fn free(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > self.bytes.len() / 2 || self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting().len() == self.bytes.len()
    }

    pub(crate) fn add(&mut self, length: usize) {
        self.end += length;
    }
}

/// Bytes that were not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    sent: usize,
}

/// What an output buffer has beyond this many bytes is given back when it is empty. Less, and a
/// client that reads much at a time has the system map and clear its buffer anew each time.
const OUTPUT_KEPT_BYTES: usize = 4 << 20;

impl Output {
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Begins anew once all is sent.
    fn tidy(&mut self) {
        if self.waiting().is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(OUTPUT_KEPT_BYTES);
            self.sent = 0;
        }
    }
}
