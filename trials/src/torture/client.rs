//! A client of a Unix socket that keeps several requests in flight.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use thermocline_nbd::codec::client::{Event, Handshake, Replies, RequestHeader, Step, Wanted};
use thermocline_nbd::protocol::{Command, ErrorCode};

/// Time without an answer after which a server counts as hanging.
const PATIENCE: Duration = Duration::from_mins(1);

/// A connection past its negotiation.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    replies: Replies,
    requests: BTreeMap<u64, Request>,
    next_cookie: u64,
}

#[derive(Debug)]
struct Request {
    header: RequestHeader,
    data: Vec<u8>,
    failure: Option<ErrorCode>,
}

/// The answer to a request: its cookie, and the data of a read.
pub(crate) type Answered = (u64, Result<Vec<u8>, ErrorCode>);

impl Client {
    /// Connects and negotiates.
    ///
    /// # Errors
    /// If nobody listens, or the server refuses.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut handshake = Handshake::new(Wanted::default());
        let (mut input, mut output) = (vec![], vec![]);
        loop {
            let (consumed, step) = handshake.step(&input, &mut output).map_err(io::Error::other)?;
            input.drain(..consumed);
            stream.write_all(&output)?;
            output.clear();
            match step {
                Step::More => read_some(&mut stream, &mut input)?,
                Step::Taken => {}
                Step::StartTls => return Err(io::Error::other("TLS was not asked for")),
                Step::Done(_) => break,
            }
        }
        let replies = Replies::default();
        Ok(Self { stream, input, replies, requests: BTreeMap::new(), next_cookie: 1 })
    }

    /// Return the number of requests without an answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Return the cookie of the request that is sent next.
    pub(crate) fn next_cookie(&self) -> u64 {
        self.next_cookie
    }

    /// Sends a request, and does not wait.
    ///
    /// # Errors
    /// If the connection is lost. The server may have taken the request.
    pub(crate) fn send(
        &mut self,
        command: Command,
        flags: u16,
        offset_bytes: u64,
        length_bytes: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let header = RequestHeader { cookie, command, flags, offset_bytes, length_bytes };
        self.requests.insert(cookie, Request { header, data: vec![], failure: None });
        let mut output = vec![];
        header.write(&mut output);
        output.extend_from_slice(payload);
        self.stream.write_all(&output)
    }

    /// Wait for the next answer to any request.
    ///
    /// # Errors
    /// If the connection is lost, the server breaks the protocol, or nothing comes for a minute.
    pub(crate) fn receive(&mut self) -> io::Result<Answered> {
        loop {
            let requests = &self.requests;
            let find = |cookie| requests.get(&cookie).map(|request| request.header);
            let (consumed, event) =
                self.replies.next(&self.input, find).map_err(io::Error::other)?;
            let is_hungry = event.is_none();
            let mut done = None;
            match event {
                Some(Event::Data { cookie, offset_bytes, bytes }) => {
                    if let Some(request) = self.requests.get_mut(&cookie) {
                        request.put(offset_bytes, bytes);
                    }
                }
                Some(Event::Hole { cookie, offset_bytes, length_bytes }) => {
                    if let Some(request) = self.requests.get_mut(&cookie) {
                        request.put(offset_bytes, &vec![0; length_bytes as usize]);
                    }
                }
                Some(Event::Failed { cookie, error }) => {
                    if let Some(request) = self.requests.get_mut(&cookie) {
                        request.failure = Some(error);
                    }
                }
                Some(Event::Done { cookie }) => done = Some(cookie),
                Some(Event::Extents { .. }) | None => {}
            }
            self.input.drain(..consumed);
            if let Some((cookie, mut request)) =
                done.and_then(|cookie| Some((cookie, self.requests.remove(&cookie)?)))
            {
                request.put(request.header.offset_bytes, &[]);
                return Ok((cookie, request.failure.map_or(Ok(request.data), Err)));
            }
            if is_hungry {
                read_some(&mut self.stream, &mut self.input)?;
            }
        }
    }

    /// Sends a request, and waits for its answer; nothing else must be in flight.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub(crate) fn call(
        &mut self,
        command: Command,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> io::Result<Result<Vec<u8>, ErrorCode>> {
        self.send(command, 0, offset_bytes, length_bytes, &[])?;
        Ok(self.receive()?.1)
    }
}

impl Request {
    /// Keeps bytes of a read. Parts that never come stay ones, which no sector has.
    fn put(&mut self, offset_bytes: u64, bytes: &[u8]) {
        if self.header.command != Command::Read {
            return;
        }
        self.data.resize(self.header.length_bytes as usize, 0xff);
        let start = usize::try_from(offset_bytes - self.header.offset_bytes).unwrap_or(usize::MAX);
        self.data[start..start + bytes.len()].copy_from_slice(bytes);
    }
}

fn read_some(stream: &mut UnixStream, input: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 16_384];
    let length = loop {
        match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    input.extend_from_slice(&buffer[..length]);
    Ok(())
}
