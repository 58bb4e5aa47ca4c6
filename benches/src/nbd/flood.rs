//! Many clients that keep a server busy at little cost to themselves.
//!
//! Each has the same number of requests outstanding all the time, and looks only at the headers of replies. fio
//! with as many clients needs more processor time than the server that it loads, so the server would wait for
//! its clients, and few of their requests for the server.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use thermocline_nbd::codec::client::{Event, Handshake, Replies, RequestHeader, Step, Wanted};
use thermocline_nbd::protocol::Command;
use thermocline_nbd::uri::{NbdUri, ServerAddress};

/// Requests that all clients send again and again.
const POOL: usize = 1024;
/// Input of all clients, one after the other.
const INPUT_BYTES: usize = 1 << 20;
/// Time for a server to accept a client.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Load of the clients.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Address of the export, on a Unix socket
    #[arg(long)]
    uri: String,
    /// Number of clients
    #[arg(long)]
    clients: usize,
    /// Requests that each has outstanding
    #[arg(long)]
    depth: usize,
    /// Bytes of a request
    #[arg(long)]
    bytes: u32,
    /// Write rather than read
    #[arg(long)]
    write: bool,
    /// Seconds to run
    #[arg(long)]
    seconds: u64,
}

/// Requests as they are sent.
struct Pool {
    headers: Vec<RequestHeader>,
    /// All requests twice, so that as many as are outstanding follow one another from each of them.
    bytes: Vec<u8>,
    request_bytes: usize,
}

impl Pool {
    /// Create requests that are spread evenly over an export.
    fn new(arguments: &Arguments, size_bytes: u64) -> Result<Self> {
        let length_bytes = arguments.bytes;
        let places = size_bytes / u64::from(length_bytes.max(1));
        ensure!(places > 0, "the export is too small for requests of {length_bytes} bytes");
        let command = if arguments.write { Command::Write } else { Command::Read };
        let headers: Vec<RequestHeader> = (0..POOL as u64)
            .map(|cookie| {
                // Knuth's multiplicative hash: the order of places is as good as random.
                let place = cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15) % places;
                let offset_bytes = place * u64::from(length_bytes);
                RequestHeader { cookie, command, flags: 0, offset_bytes, length_bytes }
            })
            .collect();
        let mut bytes = vec![];
        for header in headers.iter().chain(&headers) {
            header.write(&mut bytes);
            if arguments.write {
                bytes.resize(bytes.len() + length_bytes as usize, 0x5a);
            }
        }
        let request_bytes = bytes.len() / (2 * POOL);
        Ok(Self { headers, bytes, request_bytes })
    }
}

/// One client.
struct Client {
    stream: UnixStream,
    replies: Replies,
    /// Input of which the rest is still to come: a part of a header.
    rest: Vec<u8>,
    /// Position in the bytes of all requests.
    next: usize,
    /// Bytes that may be sent.
    due: usize,
    answered: u64,
}

impl Client {
    /// Connect. Returns the client and the size of the export.
    fn connect(uri: &NbdUri) -> Result<(Self, u64)> {
        let ServerAddress::Unix(path) = &uri.server else { bail!("only Unix sockets are flooded") };
        let mut stream = UnixStream::connect(path).context("cannot connect to the server")?;
        stream.set_read_timeout(Some(HANDSHAKE_LIMIT))?;
        let mut handshake =
            Handshake::new(Wanted { export: uri.export.clone(), ..Wanted::default() });
        let (mut input, mut piece) = (vec![], [0; 4096]);
        let size_bytes = loop {
            let mut output = vec![];
            let (consumed, step) = handshake.step(&input, &mut output)?;
            input.drain(..consumed);
            stream.write_all(&output)?;
            match step {
                Step::Taken => {}
                Step::Done(agreed) => break agreed.size_bytes,
                Step::StartTls => bail!("the server wants TLS"),
                Step::More => {
                    let length = stream.read(&mut piece)?;
                    ensure!(length > 0, "the server hangs up");
                    input.extend_from_slice(&piece[..length]);
                }
            }
        };
        stream.set_nonblocking(true)?;
        let client =
            Self { stream, replies: Replies::default(), rest: input, next: 0, due: 0, answered: 0 };
        Ok((client, size_bytes))
    }

    /// Send what may be sent.
    fn send(&mut self, pool: &Pool) -> Result<()> {
        while self.due > 0 {
            let end = (self.next + self.due).min(pool.bytes.len());
            match self.stream.write(&pool.bytes[self.next..end]) {
                Ok(sent) => {
                    self.due -= sent;
                    self.next = (self.next + sent) % (pool.bytes.len() / 2);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot send requests"),
            }
        }
        Ok(())
    }

    /// Take what has come, and count a request as due for each answer.
    fn receive(&mut self, pool: &Pool, input: &mut [u8]) -> Result<()> {
        let kept = self.rest.len();
        input[..kept].copy_from_slice(&self.rest);
        let length = match self.stream.read(&mut input[kept..]) {
            Ok(0) => bail!("the server hangs up"),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error).context("cannot receive replies"),
        };
        let mut left = &input[..kept + length];
        loop {
            let header = |cookie: u64| pool.headers.get(usize::try_from(cookie).ok()?).copied();
            let (consumed, event) = self.replies.next(left, header)?;
            left = &left[consumed..];
            match event {
                Some(Event::Done { .. }) => {
                    self.answered += 1;
                    self.due += pool.request_bytes;
                }
                Some(Event::Failed { error, .. }) => bail!("a request fails: {error:?}"),
                None if consumed == 0 => break,
                Some(Event::Data { .. } | Event::Hole { .. } | Event::Extents { .. }) | None => {}
            }
        }
        self.rest.clear();
        self.rest.extend_from_slice(left);
        Ok(())
    }
}

/// Loads a server for some time, and prints the requests per second.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let uri: NbdUri = arguments.uri.parse()?;
    ensure!((1..=POOL).contains(&arguments.depth), "--depth must be from 1 to {POOL}");
    let (mut clients, sizes): (Vec<Client>, Vec<u64>) = (0..arguments.clients)
        .map(|_| Client::connect(&uri))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    let pool = Pool::new(arguments, sizes.first().copied().context("--clients must not be 0")?)?;
    let half = pool.bytes.len() / 2;
    for (number, client) in clients.iter_mut().enumerate() {
        client.due = arguments.depth * pool.request_bytes;
        // Each begins elsewhere.
        client.next = number * POOL / arguments.clients * pool.request_bytes % half;
    }
    let mut input = vec![0; INPUT_BYTES];
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(arguments.seconds) {
        for client in &mut clients {
            client.receive(&pool, &mut input)?;
            client.send(&pool)?;
        }
    }
    let answered: u64 = clients.iter().map(|client| client.answered).sum();
    let least = clients.iter().map(|client| client.answered).min().unwrap_or(0);
    let most = clients.iter().map(|client| client.answered).max().unwrap_or(0);
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:.0} requests per second; of each client {:.0} to {:.0}",
        answered as f64 / seconds,
        least as f64 / seconds,
        most as f64 / seconds
    );
    Ok(())
}
