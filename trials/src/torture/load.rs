//! Concurrent clients that read and write, and check each answer against the oracle.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Result, bail};
use thermocline_core::random::SplitMix64;
use thermocline_nbd::protocol::{Command, ErrorCode, command_flag};

use super::client::Client;
use super::disk::SECTOR;
use super::oracle::{Change, Found, Oracle, Pending, decode};

/// Sectors of a page of 4 KiB.
const PAGE_SECTORS: usize = 8;
/// The requests of the full read, in sectors.
const SWEEP_SECTORS: usize = 256;
/// Reads in flight of the full read.
const SWEEP_DEPTH: usize = 4;

/// Common knowledge of clients and rounds.
#[derive(Debug)]
pub(crate) struct Knowledge {
    pub(crate) oracle: Oracle,
    /// Times during which errors are explained by a fault; the end is open for one that lasts.
    windows: Vec<Range<u64>>,
    /// Sectors that rot or a failed flash may have taken.
    pub(crate) doubted: BTreeSet<usize>,
    /// Failed requests that no window explains.
    unexplained: Vec<Failure>,
    /// The first sector that was wrong, and where it was read.
    pub(crate) violation: Option<String>,
    pub(crate) requests: u64,
    pub(crate) checked_sectors: u64,
    pub(crate) explained_errors: u64,
    pub(crate) is_read_only: bool,
}

#[derive(Clone, Debug)]
struct Failure {
    command: Command,
    sectors: Range<usize>,
    error: ErrorCode,
}

impl Knowledge {
    pub(crate) fn new(sectors: usize) -> Self {
        Self {
            oracle: Oracle::new(sectors),
            windows: vec![],
            doubted: BTreeSet::new(),
            unexplained: vec![],
            violation: None,
            requests: 0,
            checked_sectors: 0,
            explained_errors: 0,
            is_read_only: false,
        }
    }

    /// Note that a fault begins: requests that fail from now on are explained by it.
    pub(crate) fn open_window(&mut self) {
        let now = self.oracle.tick();
        self.windows.push(now..u64::MAX);
    }

    /// Note that the engine has recovered from the fault.
    pub(crate) fn close_window(&mut self) {
        let now = self.oracle.tick();
        for window in &mut self.windows {
            window.end = window.end.min(now);
        }
    }

    /// Judges the requests that no window explained, when it is known which pages are lost.
    ///
    /// # Errors
    /// If a request failed that must not fail.
    pub(crate) fn judge_failures(&mut self) -> Result<()> {
        for failure in std::mem::take(&mut self.unexplained) {
            let Failure { command, sectors, error } = failure;
            if self.doubted.range(sectors.clone()).next().is_none() {
                bail!(
                    "{command:?} of sectors {sectors:?} failed ({error:?}), and no fault explains it"
                );
            }
            self.explained_errors += 1;
        }
        self.windows.clear();
        Ok(())
    }

    fn failed(&mut self, command: Command, sectors: Range<usize>, error: ErrorCode, sent: u64) {
        let now = self.oracle.tick();
        let is_of_device = matches!(
            error,
            ErrorCode::Io | ErrorCode::NoSpace | ErrorCode::NoMemory | ErrorCode::ShuttingDown
        );
        let is_expected = error == ErrorCode::NotPermitted && self.is_read_only;
        let in_window = |window: &Range<u64>| sent < window.end && window.start < now;
        if is_of_device && self.windows.iter().any(in_window) {
            self.explained_errors += 1;
        } else if !is_expected {
            self.unexplained.push(Failure { command, sectors, error });
        }
    }
}

/// Knowledge that clients share.
pub(crate) type Shared = Arc<Mutex<Knowledge>>;

/// Locks what is shared. A client that panicked has said so.
pub(crate) fn lock(shared: &Shared) -> MutexGuard<'_, Knowledge> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Clients at work.
#[derive(Debug)]
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<io::Result<()>>>,
}

impl Load {
    /// Starts clients.
    pub(crate) fn start(shared: &Shared, socket: &Path, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let is_over = Arc::new(AtomicBool::new(false));
        let clients = (0..2 + random.below(3))
            .map(|_| {
                let worker = Worker {
                    random: SplitMix64::new(random.bits()),
                    depth: 1 + random.below(8) as usize,
                    shared: Arc::clone(shared),
                    is_over: Arc::clone(&is_over),
                    sent: BTreeMap::new(),
                };
                let socket: PathBuf = socket.to_owned();
                thread::spawn(move || worker.work(&socket))
            })
            .collect();
        Self { is_over, clients }
    }

    /// Lets each client have its answers, and ends it.
    ///
    /// # Errors
    /// If a connection was lost.
    pub(crate) fn finish(self) -> Result<()> {
        self.is_over.store(true, Ordering::Release);
        for client in self.clients {
            match client.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => bail!("a client lost its connection: {error}"),
                Err(_) => bail!("a client panicked"),
            }
        }
        Ok(())
    }

    /// Wait for clients whose server is gone.
    pub(crate) fn abandon(self) {
        self.is_over.store(true, Ordering::Release);
        for client in self.clients {
            // The loss of the connection is expected.
            drop(client.join());
        }
    }
}

/// A request in flight.
#[derive(Debug)]
struct Sent {
    command: Command,
    flags: u16,
    sectors: Range<usize>,
    at: u64,
    change: Option<Pending>,
}

struct Worker {
    random: SplitMix64,
    depth: usize,
    shared: Shared,
    is_over: Arc<AtomicBool>,
    sent: BTreeMap<u64, Sent>,
}

impl Worker {
    fn work(mut self, socket: &Path) -> io::Result<()> {
        let result = Client::connect(socket).and_then(|mut client| self.converse(&mut client));
        let knowledge = &mut *lock(&self.shared);
        for sent in self.sent.into_values() {
            match &sent.change {
                Some(pending) => knowledge.oracle.answered(pending, false, false),
                None if sent.command == Command::Read => knowledge.oracle.read_failed(sent.at),
                None => {}
            }
        }
        result
    }

    fn converse(&mut self, client: &mut Client) -> io::Result<()> {
        loop {
            let is_over = self.is_over.load(Ordering::Acquire);
            while !is_over && client.in_flight() < self.depth {
                self.send(client)?;
            }
            if client.in_flight() == 0 {
                return Ok(());
            }
            let (cookie, answer) = client.receive()?;
            let Some(sent) = self.sent.remove(&cookie) else { continue };
            self.take(&sent, &answer);
        }
    }

    /// Draws a request and sends it.
    fn send(&mut self, client: &mut Client) -> io::Result<()> {
        let (command, flags) = self.draw_command();
        let sectors = if command == Command::Flush { 0..0 } else { self.draw_range() };
        let (sent, payload) = {
            let oracle = &mut lock(&self.shared).oracle;
            let changes = [
                (Command::Write, Change::Write),
                (Command::WriteZeroes, Change::Zero),
                (Command::Trim, Change::Trim),
            ];
            let change =
                changes.into_iter().find(|&(of, _)| of == command).map(|(_, change)| change);
            let (change, payload) = match change {
                Some(change) => {
                    let (pending, payload) = oracle.send(change, sectors.clone());
                    (Some(pending), payload)
                }
                None => (None, vec![]),
            };
            let at = if command == Command::Read { oracle.send_read() } else { oracle.tick() };
            (Sent { command, flags, sectors: sectors.clone(), at, change }, payload)
        };
        self.sent.insert(client.next_cookie(), sent);
        let (offset_bytes, length_bytes) = bytes(&sectors);
        client.send(command, flags, offset_bytes, length_bytes, &payload)
    }

    fn draw_command(&mut self) -> (Command, u16) {
        let flags = if self.random.below(12) == 0 { command_flag::FUA } else { 0 };
        match self.random.below(40) {
            0..=15 => (Command::Read, 0),
            16..=33 => (Command::Write, flags),
            34..=35 => (Command::WriteZeroes, flags),
            36 => (Command::Trim, flags),
            _ => (Command::Flush, 0),
        }
    }

    /// Draws sectors: most of them are among a few, some requests are of whole pages, few are long.
    fn draw_range(&mut self) -> Range<usize> {
        let total = u32::try_from(lock(&self.shared).oracle.sectors()).unwrap_or(u32::MAX);
        let random = &mut self.random;
        let length = match random.below(20) {
            0..=7 => 1 + random.below(8) as usize,
            8..=15 => PAGE_SECTORS,
            16..=18 => PAGE_SECTORS * (1 + random.below(16) as usize),
            _ => 1 + random.below(1024) as usize,
        };
        let region = if random.below(3) == 0 { total } else { total / 8 };
        let first = random.below(region) as usize;
        let is_aligned = length.is_multiple_of(PAGE_SECTORS) && random.below(4) > 0;
        let first = if is_aligned { first / PAGE_SECTORS * PAGE_SECTORS } else { first };
        let first = first.min(total as usize - length);
        first..first + length
    }

    /// Takes an answer.
    fn take(&self, sent: &Sent, answer: &Result<Vec<u8>, ErrorCode>) {
        let found = answer.as_deref().map(|bytes| decode_all(sent.sectors.start, bytes));
        let knowledge = &mut *lock(&self.shared);
        knowledge.requests += 1;
        let is_done = found.is_ok();
        if let Some(pending) = &sent.change {
            knowledge.oracle.answered(pending, is_done, sent.flags & command_flag::FUA != 0);
        }
        match (found, sent.command) {
            (Ok(found), Command::Read) => {
                let checked = knowledge.oracle.check(sent.at, sent.sectors.start, &found);
                knowledge.checked_sectors += found.len() as u64;
                if let Err(violation) = checked {
                    let violation = format!("under load: {violation}");
                    knowledge.violation.get_or_insert(violation);
                }
            }
            (Ok(_), Command::Flush) => knowledge.oracle.flushed(sent.at),
            (Ok(_), _) => {}
            (Err(&error), command) => {
                if command == Command::Read {
                    knowledge.oracle.read_failed(sent.at);
                }
                knowledge.failed(command, sent.sectors.clone(), error, sent.at);
            }
        }
    }
}

/// The whole export as the oracle sees it: each sector, or none where the read failed.
pub(crate) type Image = Vec<Option<Found>>;

/// Reads everything; nothing else must be in flight. Pages that cannot be read are found one by one.
///
/// # Errors
/// If the connection is lost.
pub(crate) fn sweep(socket: &Path, sectors: usize) -> io::Result<Image> {
    let mut client = Client::connect(socket)?;
    let mut image = vec![None; sectors];
    let mut sent = BTreeMap::new();
    let mut todo = (0..sectors)
        .step_by(SWEEP_SECTORS)
        .map(|first| first..(first + SWEEP_SECTORS).min(sectors))
        .collect::<Vec<_>>();
    todo.reverse();
    while !todo.is_empty() || client.in_flight() > 0 {
        while client.in_flight() < SWEEP_DEPTH
            && let Some(range) = todo.pop()
        {
            let (offset_bytes, length_bytes) = bytes(&range);
            sent.insert(client.next_cookie(), range);
            client.send(Command::Read, 0, offset_bytes, length_bytes, &[])?;
        }
        let (cookie, answer) = client.receive()?;
        let Some(range) = sent.remove(&cookie) else { continue };
        match answer {
            Ok(bytes) => {
                for (place, found) in range.clone().zip(decode_all(range.start, &bytes)) {
                    image[place] = Some(found);
                }
            }
            Err(_) if range.len() > PAGE_SECTORS => {
                let parts = range.clone().step_by(PAGE_SECTORS);
                todo.extend(parts.map(|first| first..(first + PAGE_SECTORS).min(range.end)));
            }
            Err(_) => {}
        }
    }
    Ok(image)
}

/// Decodes sectors that begin with this one.
pub(crate) fn decode_all(first: usize, bytes: &[u8]) -> Vec<Found> {
    (first..).zip(bytes.chunks(SECTOR)).map(|(sector, bytes)| decode(sector, bytes)).collect()
}

fn bytes(sectors: &Range<usize>) -> (u64, u32) {
    let length = u32::try_from(sectors.len() * SECTOR).unwrap_or(u32::MAX);
    ((sectors.start * SECTOR) as u64, length)
}
