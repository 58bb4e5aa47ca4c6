//! A socket of either side, with or without TLS, and the buffers before and behind it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use rustix::net::sockopt;
use rustls::{Connection, ServerConfig, ServerConnection};
use smallvec::SmallVec;

/// Bytes on the way to a local client, at most; the system may allow fewer, and counts its own needs, too.
const SEND_BYTES: usize = 1 << 20;

/// A connected socket that never blocks.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Enable probes of an idle TCP connection, so that the server notices within about two minutes
    /// that a client's machine is gone.
    pub(super) fn keep_alive(&self) -> io::Result<()> {
        let Self::Tcp(stream) = self else { return Ok(()) };
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, Duration::from_mins(1))?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(15))?;
        sockopt::set_tcp_keepcnt(stream, 4)?;
        // While bytes wait to be acknowledged, the system sends no keepalives: this ends such a
        // connection, too.
        sockopt::set_tcp_user_timeout(stream, 120_000)?;
        Ok(())
    }

    /// Let the system keep the reply to a whole piece and more on the way to a local client, so that it is
    /// sent by one call. TCP finds the size by itself.
    pub(super) fn widen(&self) -> io::Result<()> {
        match self {
            Self::Tcp(_) => Ok(()),
            Self::Unix(stream) => Ok(sockopt::set_socket_send_buffer_size(stream, SEND_BYTES)?),
        }
    }

    /// Return the socket, to register it.
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

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(slices),
            Self::Unix(stream) => stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Result of a socket's read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes were read; the flag says whether the socket was emptied.
    Bytes { is_empty: bool },
    /// Nothing now.
    Nothing,
    /// Nothing will ever come again.
    End,
}

/// A socket and perhaps TLS on it.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) socket: Socket,
    tls: Option<Box<Connection>>,
}

impl Transport {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, tls: None }
    }

    /// Switch the transport to TLS.
    pub(crate) fn start_tls(&mut self, configuration: &Arc<ServerConfig>) -> io::Result<()> {
        let tls = ServerConnection::new(Arc::clone(configuration)).map_err(io::Error::other)?;
        self.tls = Some(Box::new(tls.into()));
        Ok(())
    }

    /// Create a socket on which TLS goes on, if it has begun.
    pub(crate) fn resume(socket: Socket, tls: Option<Connection>) -> Self {
        Self { socket, tls: tls.map(Box::new) }
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
        // Bytes that are decrypted already come first: the socket does not become readable for them.
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
                if let Err(error) = tls.process_new_packets() {
                    // The other side learns the reason by an alert, if its socket takes one now.
                    drop(tls.write_tls(&mut self.socket));
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
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
            let taken = tls.writer().write(output.waiting())?;
            output.advance(taken);
            if !tls.wants_write() {
                break;
            }
            match tls.write_tls(&mut self.socket) {
                Ok(_) => output.has_moved = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        while self.tls.is_none() && !output.waiting().is_empty() {
            match self.socket.write(output.waiting()) {
                Ok(length) => {
                    output.advance(length);
                    output.has_moved = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        output.tidy();
        Ok(())
    }

    /// Send the waiting output and, after it, these pieces from where they lie. The rest
    /// that the socket does not take is copied to `output`, so that the owner of the pieces never
    /// waits for a client.
    ///
    /// An error of the socket shows when the output is sent next.
    pub(crate) fn send_with(&mut self, output: &mut Output, pieces: &[&[u8]]) {
        let mut taken = 0;
        // With more than one buffer waiting the socket is full.
        if self.tls.is_none() && output.sealed.is_empty() {
            let waiting = output.waiting();
            let waited = waiting.len();
            let slices: SmallVec<[IoSlice<'_>; 96]> =
                std::iter::once(waiting).chain(pieces.iter().copied()).map(IoSlice::new).collect();
            let sent = self.socket.write_vectored(&slices).unwrap_or(0);
            drop(slices);
            output.has_moved |= sent > 0;
            output.advance(sent.min(waited));
            taken = sent.saturating_sub(waited);
            output.tidy();
        }
        let left = pieces.iter().map(|piece| piece.len()).sum::<usize>() - taken;
        if left == 0 {
            return;
        }
        output.make_room(left);
        for piece in pieces {
            let skipped = taken.min(piece.len());
            taken -= skipped;
            output.bytes.extend_from_slice(&piece[skipped..]);
        }
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

    /// Return `true` if bytes wait in TLS for the socket to take them.
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
    /// No more than this many bytes wait.
    limit_bytes: usize,
}

/// Input that is at most this long is kept in a buffer of its own length between two reads.
pub(crate) const INPUT_KEPT_BYTES: usize = 8 << 10;

/// Input buffers that no client has bytes in.
#[derive(Debug)]
pub(crate) struct InputBuffers {
    capacity_bytes: usize,
    free: Vec<Box<[u8]>>,
}

impl InputBuffers {
    /// More free buffers than this are given back to the system.
    const FREE_MAX: usize = 2;

    pub(crate) fn new(capacity_bytes: usize) -> Self {
        Self { capacity_bytes, free: vec![] }
    }

    fn take(&mut self) -> Box<[u8]> {
        self.free.pop().unwrap_or_else(|| vec![0; self.capacity_bytes].into_boxed_slice())
    }

    fn put(&mut self, buffer: Box<[u8]>) {
        if self.free.len() < Self::FREE_MAX {
            self.free.push(buffer);
        }
    }
}

impl Input {
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        let bytes = vec![0; capacity_bytes].into_boxed_slice();
        Self { bytes, start: 0, end: 0, limit_bytes: capacity_bytes }
    }

    /// Borrows a whole buffer, in which at most `limit_bytes` may wait.
    pub(crate) fn borrow(&mut self, buffers: &mut InputBuffers, limit_bytes: usize) {
        self.limit_bytes = limit_bytes;
        if self.bytes.len() < buffers.capacity_bytes {
            let mut bytes = buffers.take();
            let waiting = self.waiting();
            bytes[..waiting.len()].copy_from_slice(waiting);
            (self.start, self.end) = (0, waiting.len());
            self.bytes = bytes;
        }
    }

    /// Gives the buffer back if little waits in it.
    pub(crate) fn give_back(&mut self, buffers: &mut InputBuffers) {
        if self.waiting().len() <= INPUT_KEPT_BYTES && self.bytes.len() == buffers.capacity_bytes {
            let kept: Box<[u8]> = self.waiting().into();
            (self.start, self.end) = (0, kept.len());
            buffers.put(std::mem::replace(&mut self.bytes, kept));
        }
    }

    /// Return the memory that it holds, in bytes.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn consume(&mut self, length: usize) {
        self.start += length;
        assert!(self.start <= self.end, "a codec consumes no more than it was shown");
    }

    /// Room for more; empty only if it holds as many bytes as it may.
    pub(crate) fn free(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > self.bytes.len() / 2 || self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let end = self.bytes.len().min(self.start + self.limit_bytes).max(self.end);
        &mut self.bytes[self.end..end]
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting().len() >= self.limit_bytes
    }

    pub(crate) fn add(&mut self, length: usize) {
        self.end += length;
    }
}

/// Bytes that were not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The newest of them; replies are appended here.
    pub(crate) bytes: Vec<u8>,
    /// Buffers before, which are freed one by one as they are sent.
    sealed: VecDeque<Vec<u8>>,
    sealed_bytes: usize,
    /// The last buffer that was sent, to be filled again: the system would map and clear another one.
    spare: Vec<u8>,
    /// Bytes of the first buffer that were sent.
    sent: usize,
    /// `true` if the socket took any since this was looked at last.
    has_moved: bool,
}

/// Size above which an output buffer is given back when it is empty. A smaller limit would make the
/// system map and clear the buffer again each time for a client that reads much at a time.
const OUTPUT_KEPT_BYTES: usize = 4 << 20;

/// A buffer of replies is sealed when it would grow beyond this many bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// A buffer of replies grows by at most this many bytes more than it must.
pub(crate) const SLACK_BYTES_MAX: usize = 16 << 10;

impl Output {
    /// Return the next bytes to send; empty only if nothing waits.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.sealed.front().unwrap_or(&self.bytes)[self.sent..]
    }

    /// Return all bytes that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.sealed.iter().map(Vec::len).sum::<usize>() + self.bytes.len() - self.sent
    }

    /// Return the memory that it holds, in bytes.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.sealed_bytes + self.bytes.capacity() + self.spare.capacity()
    }

    /// Makes room for a reply in `bytes` without holding much more memory than replies fill.
    pub(crate) fn make_room(&mut self, length_bytes: usize) {
        let filled = self.bytes.len();
        if filled + length_bytes <= self.bytes.capacity() {
            return;
        }
        if filled > 0 && filled + length_bytes > CHUNK_BYTES {
            self.seal();
        }
        self.bytes.reserve_exact(length_bytes.max(self.bytes.len().min(SLACK_BYTES_MAX)));
    }

    /// Appends bytes without copying them.
    pub(crate) fn append(&mut self, bytes: Vec<u8>) {
        if !self.bytes.is_empty() {
            self.seal();
        }
        if !bytes.is_empty() {
            self.sealed_bytes += bytes.capacity();
            self.sealed.push_back(bytes);
        }
    }

    /// Gives memory beyond so many bytes back, if nothing waits.
    pub(crate) fn shrink(&mut self, kept_bytes: usize) {
        if self.bytes.capacity() + self.spare.capacity() > kept_bytes {
            self.spare = Vec::new();
        }
        if self.bytes.is_empty() && self.bytes.capacity() > kept_bytes {
            self.bytes = Vec::new();
        }
    }

    /// Return `true` if the socket took anything since this was asked last.
    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    fn seal(&mut self) {
        let spare = std::mem::take(&mut self.spare);
        let mut bytes = std::mem::replace(&mut self.bytes, spare);
        if bytes.capacity() - bytes.len() > SLACK_BYTES_MAX {
            bytes.shrink_to_fit();
        }
        self.sealed_bytes += bytes.capacity();
        self.sealed.push_back(bytes);
    }

    /// Drop the bytes of the first buffer that were sent.
    fn advance(&mut self, length: usize) {
        self.sent += length;
        if self.sealed.front().is_some_and(|first| first.len() == self.sent) {
            let mut first = self.sealed.pop_front().unwrap_or_default();
            self.sealed_bytes -= first.capacity();
            if first.capacity() <= CHUNK_BYTES + SLACK_BYTES_MAX {
                first.clear();
                self.spare = first;
            }
            self.sent = 0;
        }
    }

    /// Start from the beginning of the buffer once all is sent.
    fn tidy(&mut self) {
        if self.waiting().is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(OUTPUT_KEPT_BYTES);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    /// Return the bytes that differ from place to place.
    fn pattern(length: usize, first: usize) -> Vec<u8> {
        (0..=250).cycle().skip(first).take(length).collect()
    }

    #[test]
    fn a_buffer_that_was_sent_is_filled_again_or_given_back() {
        let mut output = Output::default();
        for length_bytes in [200_000, 100_000] {
            output.make_room(length_bytes);
            output.bytes.extend_from_slice(&pattern(length_bytes, 0));
        }
        output.advance(200_000);
        assert_eq!(output.capacity_bytes(), 300_000, "what was sent is kept");
        output.make_room(200_000);
        assert_eq!(output.capacity_bytes(), 300_000, "and filled again");
        output.advance(100_000);
        output.shrink(0);
        assert_eq!(output.capacity_bytes(), 0);
    }

    proptest! {
        // Each moves a megabyte.
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_client_gets_replies_in_order_however_it_reads(
            replies in prop::collection::vec((0_usize..40, 0_usize..200_000, 1_usize..70), 1..12),
            reads in prop::collection::vec(1_usize..300_000, 1..8),
        ) {
            let (ours, mut client) = UnixStream::pair().unwrap();
            let mut transport = Transport::new(Socket::Unix(ours));
            let mut output = Output::default();
            let (mut expected, mut found, mut buffer) = (vec![], vec![], vec![0; 300_000]);
            let mut read = |found: &mut Vec<u8>, most: usize| {
                let length = client.read(&mut buffer[..most]).unwrap_or(0);
                found.extend_from_slice(&buffer[..length]);
            };
            for (number, &(header, length, count)) in replies.iter().enumerate() {
                let header = pattern(header, number);
                let bytes = pattern(length, 7 * number);
                output.make_room(header.len());
                output.bytes.extend_from_slice(&header);
                let pieces: Vec<&[u8]> = bytes.chunks(length / count + 1).collect();
                transport.send_with(&mut output, &pieces);
                expected.extend(header);
                expected.extend(bytes);
                read(&mut found, reads[number % reads.len()]);
            }
            while found.len() < expected.len() {
                transport.send(&mut output).unwrap();
                read(&mut found, 300_000);
            }
            prop_assert!(found == expected);
            prop_assert_eq!(output.waiting_bytes(), 0);
        }
    }
}
