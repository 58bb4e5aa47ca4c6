//! A plain client that waits for each answer, over the client's codec.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use thermocline_nbd::codec::client::{
    Agreed, Event, Handshake, Replies, RequestHeader, Security, Step, Wanted,
};
use thermocline_nbd::protocol::{Command, ErrorCode};

/// A connection that is past its negotiation.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    pub(crate) agreed: Agreed,
    input: Vec<u8>,
    replies: Replies,
    cookie: u64,
}

impl Client {
    pub(crate) fn connect(path: &Path, export: &str) -> io::Result<Self> {
        Self::connect_for(path, export, "thermocline:tier")
    }

    /// Return the same for another context than that of tiers.
    pub(crate) fn connect_for(path: &Path, export: &str, context: &str) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        // A server that hangs fails the test instead of hanging it.
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        let wanted = Wanted {
            export: export.into(),
            contexts: vec![context.into()],
            security: Security::Plain,
        };
        let mut handshake = Handshake::new(wanted);
        let (mut input, mut output) = (vec![], vec![]);
        loop {
            let (consumed, step) = handshake.step(&input, &mut output).map_err(io::Error::other)?;
            input.drain(..consumed);
            stream.write_all(&output)?;
            output.clear();
            match step {
                Step::More => read_some(&mut stream, &mut input)?,
                Step::Taken => {}
                Step::StartTls => panic!("nobody asked for TLS"),
                Step::Done(agreed) => {
                    let replies = Replies::default();
                    return Ok(Self { stream, agreed, input, replies, cookie: 0 });
                }
            }
        }
    }

    /// Sends a request and does not wait.
    pub(crate) fn send(
        &mut self,
        mut header: RequestHeader,
        payload: &[u8],
    ) -> io::Result<RequestHeader> {
        self.cookie += 1;
        header.cookie = self.cookie;
        let mut output = vec![];
        header.write(&mut output);
        output.extend_from_slice(payload);
        self.stream.write_all(&output)?;
        Ok(header)
    }

    /// Waits for the answer to the only request in flight: the data of a read, or the statuses of
    /// extents as they came.
    pub(crate) fn wait(&mut self, header: RequestHeader) -> io::Result<Result<Vec<u8>, ErrorCode>> {
        let (mut answer, mut failure) = (vec![], None);
        loop {
            let find = |cookie| (cookie == header.cookie).then_some(header);
            let (consumed, event) =
                self.replies.next(&self.input, find).map_err(io::Error::other)?;
            let is_hungry = event.is_none();
            match event {
                Some(Event::Data { bytes, .. } | Event::Extents { descriptors: bytes, .. }) => {
                    answer.extend_from_slice(bytes);
                }
                Some(Event::Failed { error, .. }) => failure = Some(error),
                Some(Event::Done { .. }) => {
                    self.input.drain(..consumed);
                    return Ok(failure.map_or(Ok(answer), Err));
                }
                Some(Event::Hole { .. }) => panic!("this server sends no holes"),
                None => {}
            }
            self.input.drain(..consumed);
            if is_hungry {
                read_some(&mut self.stream, &mut self.input)?;
            }
        }
    }

    pub(crate) fn call(
        &mut self,
        command: Command,
        offset_bytes: u64,
        length_bytes: usize,
        payload: &[u8],
    ) -> Result<Vec<u8>, ErrorCode> {
        let length_bytes = u32::try_from(length_bytes).unwrap();
        let header = RequestHeader { cookie: 0, command, flags: 0, offset_bytes, length_bytes };
        let header = self.send(header, payload).unwrap();
        self.wait(header).unwrap()
    }

    pub(crate) fn read(
        &mut self,
        offset_bytes: u64,
        length_bytes: usize,
    ) -> Result<Vec<u8>, ErrorCode> {
        self.call(Command::Read, offset_bytes, length_bytes, &[])
    }

    pub(crate) fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), ErrorCode> {
        self.call(Command::Write, offset_bytes, bytes.len(), bytes).map(drop)
    }
}

fn read_some(stream: &mut UnixStream, input: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 16_384];
    let length = loop {
        // A ring that has something for this thread interrupts it, and sockets with a time limit are
        // not waited for again by themselves.
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
