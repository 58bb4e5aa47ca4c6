//! Coming into contact with a server: connections, negotiation, and what is needed of an export.
//!
//! This blocks, each step for a bounded time; it is done before the engine runs, and in a thread of its
//! own when a connection was lost.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use rustls::ClientConnection;

use super::cooperation::{Cooperation, Talk};
use super::{BackingError, tls};
use crate::codec::ProtocolError;
use crate::codec::client::{
    Agreed, Event, Handshake, INPUT_BYTES_MAX, Replies, RequestHeader, Security, Step, Wanted,
};
use crate::protocol::cooperation::{CONTEXT_ID, CONTEXT_NAME, PUSHES_ID, PUSHES_NAME};
use crate::protocol::{
    Command, Context, ErrorCode, TRANSFER_BYTES_MAX, command_flag, transmission_flag as flag,
};
use crate::server::transport::{Input, Socket, Transport};
use crate::uri::{NbdUri, ServerAddress};

/// Connections to a server that allows several.
const CONNECTIONS_MAX: usize = 4;
/// Maximum time for a server to accept a connection, and for each step of the negotiation.
const STEP_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time that sent bytes may stay without confirmation by the other machine.
const CONFIRMATION_LIMIT_MS: u32 = 30_000;
/// The first pause after an attempt to connect again; each next one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A socket's bytes are taken in turns of at most this many.
const INPUT_BYTES: usize = 4 * INPUT_BYTES_MAX;

/// Access to the backing store that the cache wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and write: a server that only reads is refused.
    ReadWrite,
    /// Reading; writes fail if the server only reads.
    ReadOnly,
}

/// Capabilities of an export, as far as the driver needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) size_bytes: u64,
    flags: u16,
    /// Every request is a multiple of this, in bytes.
    pub(super) minimum_bytes: u32,
    /// The longest request, a multiple of `minimum_bytes`.
    pub(super) maximum_bytes: u32,
    /// The number of `base:allocation`, if the server has it.
    pub(super) allocation: Option<u32>,
    /// `true` if the server cooperates.
    cooperates: bool,
    /// `true` if it can send pages that were not asked for.
    pushes: bool,
}

impl Terms {
    fn new(agreed: &Agreed) -> Self {
        let minimum_bytes = agreed.block_sizes.minimum_bytes;
        let maximum_bytes = agreed.block_sizes.maximum_bytes.min(TRANSFER_BYTES_MAX);
        let allocation = agreed
            .contexts
            .iter()
            .find_map(|(id, name)| (name == Context::Allocation.name()).then_some(*id));
        let has = |id: u32, name: &str| {
            agreed.contexts.iter().any(|(other, known)| (*other, &**known) == (id, name))
        };
        Self {
            size_bytes: agreed.size_bytes,
            flags: agreed.flags,
            minimum_bytes,
            maximum_bytes: (maximum_bytes - maximum_bytes % minimum_bytes).max(minimum_bytes),
            allocation: allocation.filter(|_| agreed.is_structured),
            cooperates: has(CONTEXT_ID, CONTEXT_NAME),
            pushes: has(PUSHES_ID, PUSHES_NAME),
        }
    }

    pub(super) fn has(&self, wanted: u16) -> bool {
        self.flags & wanted != 0
    }

    /// Return `true` if writes must be durable one by one, since the server cannot flush.
    pub(super) fn writes_durably(&self) -> bool {
        !self.has(flag::SEND_FLUSH) && self.has(flag::SEND_FUA)
    }
}

/// A server, and the wishes of the client.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) uri: NbdUri,
    pub(super) access: Access,
    /// Introduction of this cache, if the server is to cooperate.
    pub(super) cooperation: Option<Cooperation>,
}

/// A connection past its negotiation.
#[derive(Debug)]
pub(super) struct Greeted {
    pub(super) transport: Transport,
    /// Input that has arrived already.
    pub(super) input: Input,
}

/// Connections to one run of a server.
#[derive(Debug)]
pub(super) struct Contact {
    pub(super) terms: Terms,
    pub(super) connections: Vec<Greeted>,
    /// When this cache was attached at the earliest, and what it said of itself.
    attached: Option<(Instant, Cooperation)>,
}

impl Contact {
    /// Connect as many times as the server permits; once to a server that cooperates.
    pub(super) fn make(wish: &Wish) -> Result<Self, BackingError> {
        let Wish { uri, access, cooperation } = wish;
        let now = Instant::now();
        let (first, terms) = greet(wish)?;
        if *access == Access::ReadWrite && terms.has(flag::READ_ONLY) {
            return Err(BackingError::ReadOnly { server: uri.server.to_string() });
        }
        let mut connections = vec![first];
        // Without this flag, a flush on one connection need not cover writes on another. A conversation
        // needs one order.
        let is_single = cooperation.is_some() || !terms.has(flag::CAN_MULTI_CONN);
        let count = if is_single { 1 } else { CONNECTIONS_MAX };
        while connections.len() < count {
            match greet(wish) {
                Ok((more, same)) if same == terms => connections.push(more),
                // It serves so many and no more, or something else by now.
                Ok(_) | Err(_) => break,
            }
        }
        let attached = cooperation.map(|cooperation| (now, cooperation));
        Ok(Self { terms, connections, attached })
    }

    /// Begin the conversation with a server that cooperates.
    pub(super) fn talk(&self) -> Option<Talk> {
        self.attached.map(|(at, cooperation)| Talk::new(cooperation, at))
    }
}

/// Make one connection.
fn greet(wish: &Wish) -> Result<(Greeted, Terms), BackingError> {
    let uri = &wish.uri;
    let at = |source| BackingError::Connect { server: uri.server.to_string(), source };
    let stream = Stream::connect(&uri.server).map_err(at)?;
    stream.limit(Some(STEP_LIMIT)).map_err(at)?;
    let mut wire = Wire { stream, tls: None };
    let (mut input, terms) = wire.negotiate(wish)?;
    if let Some(cooperation) = &wish.cooperation {
        if !terms.cooperates {
            return Err(BackingError::Uncooperative { server: uri.server.to_string() });
        }
        if cooperation.takes_pushes && !terms.pushes {
            return Err(BackingError::SendsNothing { server: uri.server.to_string() });
        }
        wire.attach(uri, *cooperation, &mut input)?;
    }
    let Wire { stream, tls } = wire;
    stream.limit(None).map_err(at)?;
    let socket = stream.into_socket().map_err(at)?;
    Ok((Greeted { transport: Transport::resume(socket, tls.map(Into::into)), input }, terms))
}

/// A socket that blocks, and TLS on it once that has begun.
#[derive(Debug)]
struct Wire {
    stream: Stream,
    tls: Option<ClientConnection>,
}

impl Wire {
    fn negotiate(&mut self, wish: &Wish) -> Result<(Input, Terms), BackingError> {
        let uri = &wish.uri;
        let server = || uri.server.to_string();
        let refused = |source| BackingError::Refused { server: server(), source };
        let mut contexts = vec![Context::Allocation.name().to_owned()];
        contexts.extend(wish.cooperation.map(|_| CONTEXT_NAME.to_owned()));
        let takes_pushes = wish.cooperation.filter(|cooperation| cooperation.takes_pushes);
        contexts.extend(takes_pushes.map(|_| PUSHES_NAME.to_owned()));
        let security = if uri.tls.is_some() { Security::Tls } else { Security::Plain };
        let wanted = Wanted { export: uri.export.clone(), contexts, security };
        let mut handshake = Handshake::new(wanted);
        let (mut input, mut output) = (Input::new(INPUT_BYTES), vec![]);
        loop {
            let (consumed, step) = handshake.step(input.waiting(), &mut output).map_err(refused)?;
            input.consume(consumed);
            let at = |source| BackingError::Connect { server: server(), source };
            self.send(&output).map_err(at)?;
            output.clear();
            match step {
                Step::Taken => {}
                Step::StartTls => {
                    // Whoever stands between could have sent it.
                    if !input.waiting().is_empty() {
                        let fault = "bytes in front of TLS that are not protected by it";
                        return Err(refused(ProtocolError::Unexpected(fault)));
                    }
                    let files = uri.tls.as_ref().expect("TLS begins only if it was wanted");
                    self.tls = Some(tls::begin(files)?);
                }
                Step::Done(agreed) => return Ok((input, Terms::new(&agreed))),
                Step::More => match self.receive(input.free()).map_err(at)? {
                    0 => return Err(at(io::ErrorKind::UnexpectedEof.into())),
                    length => input.add(length),
                },
            }
        }
    }

    /// Says who this cache is to a server that cooperates.
    fn attach(
        &mut self,
        uri: &NbdUri,
        cooperation: Cooperation,
        input: &mut Input,
    ) -> Result<(), BackingError> {
        let server = || uri.server.to_string();
        let at = |source| BackingError::Connect { server: server(), source };
        let Cooperation { identity, pages, page_bytes, takes_pushes } = cooperation;
        let header = RequestHeader {
            cookie: 0,
            command: Command::Attach,
            flags: if takes_pushes { command_flag::TAKES_PUSHES } else { 0 },
            offset_bytes: u64::from(identity) << 32 | u64::from(pages),
            length_bytes: page_bytes,
        };
        let (mut replies, mut output, mut refusal) = (Replies::default(), vec![], None);
        header.write(&mut output);
        self.send(&output).map_err(at)?;
        loop {
            let find = |cookie| (cookie == header.cookie).then_some(header);
            let found = replies.next(input.waiting(), find);
            let (consumed, event) =
                found.map_err(|source| BackingError::Refused { server: server(), source })?;
            let is_done = matches!(event, Some(Event::Done { .. }));
            if let Some(Event::Failed { error, .. }) = event {
                refusal = Some(error);
            }
            let is_more = event.is_none();
            input.consume(consumed);
            if is_done {
                break;
            }
            if is_more {
                match self.receive(input.free()).map_err(at)? {
                    0 => return Err(at(io::ErrorKind::UnexpectedEof.into())),
                    length => input.add(length),
                }
            }
        }
        let Some(error) = refusal else { return Ok(()) };
        let reason = match error {
            ErrorCode::NoSpace => "it has as many clients as its `clients.number` allows",
            ErrorCode::Overflow => "`ram.size` differs from the server's `clients.ram`",
            ErrorCode::Invalid => "`page_size` differs from the server's",
            ErrorCode::NotSupported => "`policy.name` differs from the server's",
            ErrorCode::NotPermitted
            | ErrorCode::Io
            | ErrorCode::NoMemory
            | ErrorCode::ShuttingDown => "it is stopping",
        };
        Err(BackingError::NotAttached { server: server(), reason })
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = &self.stream;
        match &mut self.tls {
            Some(tls) => {
                let sent = rustls::Stream::new(tls, &mut stream).write_all(bytes);
                sent.map_err(|error| reason(tls, stream, error))
            }
            None => stream.write_all(bytes),
        }
    }

    fn receive(&mut self, free: &mut [u8]) -> io::Result<usize> {
        let mut stream = &self.stream;
        uninterrupted(|| match &mut self.tls {
            Some(tls) => {
                let received = rustls::Stream::new(tls, &mut stream).read(free);
                received.map_err(|error| reason(tls, stream, error))
            }
            None => stream.read(free),
        })
    }
}

/// Returns why a server ended a conversation, if it said so. A server that refuses a client sends an alert and
/// closes; the alert is there to be read when nothing can be written any more.
fn reason(tls: &mut ClientConnection, mut stream: &Stream, error: io::Error) -> io::Error {
    if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
        return error;
    }
    let is_read = tls.read_tls(&mut stream).is_ok_and(|bytes| bytes > 0);
    match tls.process_new_packets() {
        Err(reason) if is_read => io::Error::new(io::ErrorKind::InvalidData, reason),
        Ok(_) | Err(_) => error,
    }
}

/// Calls again if a signal came between.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// A socket that blocks.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn connect(server: &ServerAddress) -> io::Result<Self> {
        let (host, port) = match server {
            ServerAddress::Unix(path) => {
                return uninterrupted(|| UnixStream::connect(path)).map(Self::Unix);
            }
            ServerAddress::Tcp { host, port } => (host.as_str(), *port),
        };
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host, port).to_socket_addrs()? {
            match uninterrupted(|| TcpStream::connect_timeout(&address, STEP_LIMIT)) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    sockopt::set_socket_keepalive(&stream, true)?;
                    sockopt::set_tcp_user_timeout(&stream, CONFIRMATION_LIMIT_MS)?;
                    return Ok(Self::Tcp(stream));
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Limit the time that a call may block.
    fn limit(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(limit)?;
                stream.set_write_timeout(limit)
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(limit)?;
                stream.set_write_timeout(limit)
            }
        }
    }

    /// Return the socket, which never blocks from now on.
    fn into_socket(self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                Socket::Tcp(mio::net::TcpStream::from_std(stream))
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Socket::Unix(mio::net::UnixStream::from_std(stream))
            }
        })
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).read(buffer),
            Stream::Unix(stream) => (&*stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).write(bytes),
            Stream::Unix(stream) => (&*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A thread that tries to connect again until it does, or nobody wants it any more.
#[derive(Debug)]
pub(super) struct Reconnecting {
    contacts: Receiver<Contact>,
    is_given_up: Arc<AtomicBool>,
}

impl Reconnecting {
    /// Start connecting. `notify` is called when a server answers whose terms fit.
    pub(super) fn start(
        wish: Wish,
        fits: impl Fn(&Terms) -> Result<(), BackingError> + Send + 'static,
        notify: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let is_given_up = Arc::new(AtomicBool::new(false));
        // One contact ends the thread, so that sending it never waits.
        let (found, contacts) = sync_channel(1);
        let given_up = Arc::clone(&is_given_up);
        let make = move || {
            let contact = Contact::make(&wish)?;
            fits(&contact.terms)?;
            Ok(contact)
        };
        let work = move || {
            if let Some(contact) = repeat(&given_up, make) {
                // Without a receiver nobody wants it any more.
                drop(found.send(contact));
                notify();
            }
        };
        std::thread::Builder::new().name("reconnect".into()).spawn(work)?;
        Ok(Self { contacts, is_given_up })
    }

    /// Return the contact, once there is one.
    pub(super) fn take(&self) -> Option<Contact> {
        self.contacts.try_recv().ok()
    }
}

impl Drop for Reconnecting {
    /// Lets the thread end after its attempt; nobody waits for that.
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Release);
    }
}

/// Makes contact, with growing pauses between attempts.
fn repeat(
    is_given_up: &AtomicBool,
    make: impl Fn() -> Result<Contact, BackingError>,
) -> Option<Contact> {
    let mut pause = PAUSE_MIN;
    let mut said = String::new();
    while !is_given_up.load(Ordering::Acquire) {
        match make() {
            Ok(contact) => return Some(contact),
            Err(error) => {
                let reason = error.to_string();
                if reason != said {
                    tracing::warn!(reason, "cannot reach the backing store; trying again");
                    said = reason;
                }
            }
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSE_MAX);
    }
    None
}
