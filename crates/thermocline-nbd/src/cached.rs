//! A cache engine as a service: what the server's clients ask for, the engine answers.
//!
//! A piece that the engine has no frames for waits here, in order, and is submitted again when
//! replies were given back; the server bounds how much that can be.

mod clients;
mod extents;
pub(crate) mod leases;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::{Duration, Instant};

use slab::Slab;
use smallvec::SmallVec;
use thermocline_core::{Nanos, Tier};
use thermocline_engine::driver::{Allocation, Driver};
use thermocline_engine::{
    Cooperator as Keeper, Engine, Leaving, Lent, Reply, Request, RequestError, RequestKind,
    SubmitError, WriteMode,
};

use crate::protocol::{
    BlockSizes, Command, Context, ErrorCode, ExportInfo, Extent, transmission_flag as flag,
};
use crate::service::{self, Cooperator, Departure, ExtentRange, Piece, Service, Tag};

use self::clients::Clients;
pub(crate) use self::extents::push_extent;
pub use self::leases::ClientTerms;

/// Interval at which the engine gets the time while it works.
const TICK: Duration = Duration::from_millis(10);

/// Maximum interval at which the engine gets the time: its background work may be due.
const IDLE_TICK: Duration = Duration::from_millis(100);

/// Pages that one request for extents looks up, at most; the client asks again for the rest.
const EXTENT_LOOKS_MAX: u64 = 1 << 16;

/// Questions about allocation that the driver works on at a time, at most; each notes up to
/// [`EXTENT_LOOKS_MAX`] pages.
const QUESTIONS_MAX: usize = 4;

/// Slices that hold the bytes of a read; reads with as many pieces as 256 KiB has pages of 4 KiB
/// need no allocation.
pub(crate) type Pieces<'a> = SmallVec<[&'a [u8]; 64]>;

/// Receiver of the times that requests took.
pub trait Meter: fmt::Debug + Send {
    /// Note that a request was answered; `found` is the slowest tier that one of its pages was
    /// found in.
    fn answered(&mut self, kind: RequestKind, found: Option<Tier>, time: Duration);
}

/// The answer to a piece, with the slowest tier that it needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) tag: Tag,
    pub(crate) outcome: Result<(), ErrorCode>,
    pub(crate) found: Option<Tier>,
}

/// A piece that the engine works on.
#[derive(Clone, Copy, Debug)]
struct Pending {
    tag: Tag,
    since: Instant,
    /// Since when it, or what is left of it, waits for the engine to take it.
    waits_since: Instant,
    /// Remainder of a trim or a zeroing of which the engine has taken the beginning.
    rest: Option<Request>,
    /// The client that keeps the pages, if one does.
    keeper: Option<Keeper>,
    /// `true` if it is the read of a page that goes to a client which did not ask for it.
    is_push: bool,
}

impl Pending {
    fn new(tag: Tag, keeper: Option<Keeper>) -> Self {
        let since = Instant::now();
        Self { tag, since, waits_since: since, rest: None, keeper, is_push: false }
    }
}

/// A question about allocation.
#[derive(Debug)]
struct Question {
    /// The pages asked about that the cache had newer than the disk when it was asked, in order: until
    /// the answer comes they may reach the disk.
    newer: Vec<Range<u64>>,
}

/// Allocation that a driver reported for the range that was asked about, and the pages of the range
/// for which it need not be right.
#[derive(Debug)]
struct Told {
    allocations: Vec<Allocation>,
    newer: Vec<Range<u64>>,
}

/// An engine and its clock.
#[derive(Debug)]
pub struct Cached<D> {
    engine: Engine<D>,
    meter: Option<Box<dyn Meter>>,
    /// Requests that the engine knows by their numbers here.
    pending: Slab<Pending>,
    /// Reads that the engine had no frames for: they do not wait behind writes.
    waiting_reads: VecDeque<Request>,
    /// Other pieces that it had no frames for, with their payloads; of trims and zeroes, what is left.
    waiting: VecDeque<(Request, Box<[u8]>)>,
    /// Pieces that the engine never takes.
    refused: VecDeque<(Tag, ErrorCode)>,
    /// Questions about allocation that wait for others.
    waiting_questions: VecDeque<(Tag, Piece)>,
    /// Questions about allocation that the driver works on, or whose answers were not announced.
    questions: BTreeMap<u64, Question>,
    /// Questions that are answered, and the one whose answer was announced.
    answered: VecDeque<(u64, Vec<Allocation>)>,
    told: Option<Told>,
    /// The read that was announced and whose bytes were not taken.
    announced: Option<(Tag, Reply)>,
    start: Instant,
    next_tick: Duration,
    /// Time at which the engine was last seen to serve reads only.
    read_only_until: Option<Instant>,
    /// Clients that cooperate, if any may.
    clients: Option<Clients>,
}

impl<D: Driver> Cached<D> {
    /// Serves an engine.
    pub fn new(engine: Engine<D>) -> Self {
        Self {
            engine,
            meter: None,
            pending: Slab::new(),
            waiting_reads: VecDeque::new(),
            waiting: VecDeque::new(),
            refused: VecDeque::new(),
            waiting_questions: VecDeque::new(),
            questions: BTreeMap::new(),
            answered: VecDeque::new(),
            told: None,
            announced: None,
            start: Instant::now(),
            next_tick: Duration::ZERO,
            read_only_until: None,
            clients: None,
        }
    }

    /// Report every answer to `meter` from now on.
    #[must_use]
    pub fn with_meter(mut self, meter: Box<dyn Meter>) -> Self {
        self.meter = Some(meter);
        self
    }

    /// Return the information for clients.
    pub fn info(&self, name: &str, description: &str) -> ExportInfo {
        let options = self.engine.shard().options();
        // `CAN_MULTI_CONN` promises that a flush covers what was acknowledged on any connection: one
        // engine, or all shards of it, takes each flush.
        let mut flags = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::SEND_TRIM
            | flag::SEND_WRITE_ZEROES
            | flag::SEND_CACHE
            | flag::CAN_MULTI_CONN;
        if options.write_mode == WriteMode::ReadOnly {
            flags |= flag::READ_ONLY;
        }
        let mut minimum_bytes = 1;
        if options.leaving != Leaving::Silent {
            // Others may write the rest of a page, so it is written as a whole.
            minimum_bytes = options.page_bytes;
            flags &= !(flag::SEND_TRIM | flag::SEND_WRITE_ZEROES);
        }
        ExportInfo {
            name: name.into(),
            description: description.into(),
            size_bytes: options.size_bytes(),
            flags,
            block_sizes: BlockSizes {
                minimum_bytes,
                preferred_bytes: options.page_bytes.next_power_of_two(),
                ..BlockSizes::default()
            },
            takes_cooperation: self.clients.is_some(),
        }
    }

    /// Return the engine, for what is no client's business.
    pub fn engine_mut(&mut self) -> &mut Engine<D> {
        &mut self.engine
    }

    /// Return the engine.
    pub fn into_engine(self) -> Engine<D> {
        self.engine
    }

    /// Gives a piece to the engine, or as much of it as is one request, unless it has no room.
    fn offer(&mut self, request: Request, payload: &[u8]) -> bool {
        let is_blank = matches!(request.kind, RequestKind::Trim | RequestKind::WriteZeroes);
        let part_bytes =
            if is_blank { self.engine.shard().part_bytes(&request) } else { request.length_bytes };
        let keeper = self.pending_mut(request.tag).and_then(|pending| pending.keeper);
        let part = Request { length_bytes: part_bytes, ..request };
        match self.submit_to_engine(part, payload, keeper) {
            Ok(()) => {
                if is_blank && let Some(pending) = self.pending_mut(request.tag) {
                    let (offset_bytes, length_bytes) =
                        (request.offset_bytes + part_bytes, request.length_bytes - part_bytes);
                    let rest = Request { offset_bytes, length_bytes, ..request };
                    pending.rest = (length_bytes > 0).then_some(rest);
                }
                true
            }
            Err(SubmitError::Full) => false,
            Err(_) => {
                if let Some(pending) = self.take_pending(request.tag) {
                    self.refused.push_back((pending.tag, ErrorCode::Invalid));
                }
                true
            }
        }
    }

    /// Return the next piece that was answered, if there is one, as [`Service::next_reply`] tells
    /// it.
    pub(crate) fn next_answer(&mut self) -> Option<Answer> {
        if let Some((tag, error)) = self.refused.pop_front() {
            return Some(Answer { tag, outcome: Err(error), found: None });
        }
        if let Some((tag, outcome)) = self.next_client_answer() {
            return Some(Answer { tag, outcome, found: None });
        }
        if let Some((number, allocations)) = self.answered.pop_front() {
            let Pending { tag, .. } = self.take_pending(number).expect("it was asked");
            let Question { newer } = self.questions.remove(&number).expect("it was asked");
            self.told = Some(Told { allocations, newer });
            self.ask_waiting();
            return Some(Answer { tag, outcome: Ok(()), found: None });
        }
        let reply = loop {
            let reply = self.engine.next_reply()?;
            if reply.result.is_err() || !self.go_on(reply.tag) {
                break reply;
            }
            self.engine.release(reply);
        };
        let Pending { tag, since, is_push, .. } =
            self.take_pending(reply.tag).expect("the engine answers what it was asked");
        if is_push {
            return Some(self.answer_push(tag, reply));
        }
        if let Some(meter) = &mut self.meter {
            meter.answered(reply.kind, reply.found, since.elapsed());
        }
        let (outcome, found) = (reply.result.map_err(code), reply.found);
        self.announce_answers(reply.tag);
        if reply.kind == RequestKind::Read && outcome.is_ok() {
            self.announced = Some((tag, reply));
        } else {
            self.engine.release(reply);
        }
        Some(Answer { tag, outcome, found })
    }

    /// Lend the read that was just announced to another thread.
    pub(crate) fn lend(&mut self, tag: Tag) -> Lent {
        let reply = self.take_announced(tag);
        self.engine.lend(reply)
    }

    /// Take a lent reply back.
    pub(crate) fn take_back(&mut self, lent: Lent) {
        self.engine.release(lent.into_reply());
    }

    fn take_announced(&mut self, tag: Tag) -> Reply {
        let (announced, reply) = self.announced.take().expect("a read was announced");
        assert_eq!(announced, tag, "the read that was announced is taken");
        reply
    }

    fn pending_mut(&mut self, number: u64) -> Option<&mut Pending> {
        usize::try_from(number).ok().and_then(|number| self.pending.get_mut(number))
    }

    /// Goes on with a trim or a zeroing of which the engine has done a part. Returns `true` if
    /// there is something left of it.
    fn go_on(&mut self, number: u64) -> bool {
        let Some(pending) = self.pending_mut(number) else { return false };
        let Some(rest) = pending.rest.take() else { return false };
        pending.waits_since = Instant::now();
        if !self.waiting.is_empty() || !self.offer(rest, &[]) {
            self.waiting.push_back((rest, Box::default()));
        }
        true
    }

    fn take_pending(&mut self, number: u64) -> Option<Pending> {
        usize::try_from(number).ok().and_then(|number| self.pending.try_remove(number))
    }

    fn ask_waiting(&mut self) {
        while self.questions.len() < QUESTIONS_MAX
            && let Some((tag, piece)) = self.waiting_questions.pop_front()
        {
            self.ask(tag, &piece);
        }
    }

    fn offer_waiting(&mut self) {
        while let Some(request) = self.waiting_reads.pop_front() {
            if !self.offer(request, &[]) {
                self.waiting_reads.push_front(request);
                // It may wait for a write.
                break;
            }
        }
        while let Some((request, payload)) = self.waiting.pop_front() {
            if !self.offer(request, &payload) {
                self.waiting.push_front((request, payload));
                return;
            }
        }
    }

    /// Refuses pieces that have waited for room as long as a request may wait for devices: those hold
    /// what there is, and do not answer. The time before the epoch of the flash began does not count.
    fn refuse_overdue(&mut self) {
        if self.engine.shard().awaits_epoch() {
            self.read_only_until = Some(Instant::now());
            return;
        }
        let timeout = Duration::from_nanos(self.engine.shard().options().backing_timeout.0);
        let is_overdue = |request: &Request| {
            let pending = usize::try_from(request.tag).ok().and_then(|tag| self.pending.get(tag));
            pending.is_some_and(|pending| {
                Some(pending.waits_since)
                    .max(self.read_only_until)
                    .is_some_and(|since| since.elapsed() >= timeout)
            })
        };
        // The first one has waited for longest.
        let reads = self.waiting_reads.iter().take_while(|request| is_overdue(request)).count();
        let others = self.waiting.iter().take_while(|(request, _)| is_overdue(request)).count();
        let overdue: Vec<u64> = self
            .waiting_reads
            .drain(..reads)
            .chain(self.waiting.drain(..others).map(|(request, _)| request))
            .map(|request| request.tag)
            .collect();
        for number in overdue {
            if let Some(pending) = self.take_pending(number) {
                self.refused.push_back((pending.tag, ErrorCode::Io));
            }
        }
    }
}

impl<D: Driver> Service for Cached<D> {
    fn submit(&mut self, tag: Tag, piece: &Piece, payload: &[u8]) {
        if piece.is_fast_only() {
            // Zeroing a cached page takes as long as writing it.
            self.refused.push_back((tag, ErrorCode::NotSupported));
            return;
        }
        let is_blank = matches!(piece.command, Command::Trim | Command::WriteZeroes);
        if is_blank && self.engine.shard().options().leaving != Leaving::Silent {
            // It is not offered.
            self.refused.push_back((tag, ErrorCode::Invalid));
            return;
        }
        if piece.command == Command::BlockStatus {
            self.waiting_questions.push_back((tag, *piece));
            return self.ask_waiting();
        }
        let mut keeper = None;
        if let Some(cooperator) = piece.cooperator.filter(|_| self.clients.is_some()) {
            keeper = self.take_of_client(cooperator, tag, piece, payload);
            if keeper.is_none() {
                return;
            }
        }
        let Some(kind) = kind(piece.command) else {
            self.refused.push_back((tag, ErrorCode::Invalid));
            return;
        };
        let number = self.pending.insert(Pending::new(tag, keeper));
        let request = Request {
            tag: number as u64,
            kind,
            offset_bytes: piece.offset_bytes,
            length_bytes: piece.length_bytes.into(),
            is_durable: piece.is_fua(),
        };
        if matches!(kind, RequestKind::Read | RequestKind::Cache) {
            // None overtakes those that wait: short pieces could keep a long one waiting for ever.
            if !self.waiting_reads.is_empty() || !self.offer(request, payload) {
                self.waiting_reads.push_back(request);
            }
        } else if !self.waiting.is_empty() || !self.offer(request, payload) {
            self.waiting.push_back((request, payload.into()));
        }
    }

    fn drive(&mut self) {
        let elapsed = self.start.elapsed();
        if elapsed >= self.next_tick {
            self.next_tick = elapsed + TICK;
            let now = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
            self.engine.shard_mut().tick(Nanos(now));
            self.refuse_overdue();
        }
        self.engine.poll();
        while let Some(answer) = self.engine.driver().next_allocation() {
            self.answered.push_back(answer);
        }
        self.offer_waiting();
        self.drive_clients();
    }

    fn next_reply(&mut self) -> Option<service::Reply> {
        self.next_answer().map(|Answer { tag, outcome, .. }| service::Reply { tag, outcome })
    }

    fn take_data(&mut self, tag: Tag, target: &mut Vec<u8>) {
        let reply = self.take_announced(tag);
        for piece in self.engine.pieces(&reply) {
            target.extend_from_slice(piece);
        }
        self.engine.release(reply);
    }

    fn take_pieces(&mut self, tag: Tag, take: &mut dyn FnMut(&[&[u8]])) {
        let reply = self.take_announced(tag);
        take(&self.engine.pieces(&reply).collect::<Pieces<'_>>());
        self.engine.release(reply);
    }

    fn extents(&mut self, context: Context, range: &ExtentRange, found: &mut Vec<Extent>) {
        match context {
            Context::Allocation => self.allocation(range, found),
            Context::Tier => self.tiers(range, found),
        }
    }

    fn take_recalls(&mut self, _tag: Tag) -> Vec<u64> {
        self.take_client_recalls()
    }

    fn take_answers(&mut self, _tag: Tag) -> Vec<u64> {
        self.take_client_answers()
    }

    fn take_push(&mut self, _tag: Tag) -> Option<service::Pushed> {
        self.take_client_push()
    }

    fn has_left(&mut self, cooperator: Cooperator, departure: Departure) {
        self.client_left(cooperator, departure);
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let descriptor = self.engine.wake_fd();
        descriptor.map(|descriptor| descriptor.as_raw_fd()).into_iter().collect()
    }

    fn wait_limit(&self) -> Option<Duration> {
        Some(if self.engine.shard().is_idle() { IDLE_TICK } else { TICK })
    }
}

/// Return the engine's kind of a command, if it takes it.
pub(crate) fn kind(command: Command) -> Option<RequestKind> {
    match command {
        Command::Read => Some(RequestKind::Read),
        Command::Write => Some(RequestKind::Write),
        Command::Flush => Some(RequestKind::Flush),
        Command::Trim => Some(RequestKind::Trim),
        Command::Cache => Some(RequestKind::Cache),
        Command::WriteZeroes => Some(RequestKind::WriteZeroes),
        Command::Disconnect
        | Command::BlockStatus
        | Command::Attach
        | Command::Await
        | Command::Demote
        | Command::Release
        | Command::Tell => None,
    }
}

fn code(error: RequestError) -> ErrorCode {
    match error {
        RequestError::ReadOnly => ErrorCode::NotPermitted,
        RequestError::Io | RequestError::Lost | _ => ErrorCode::Io,
    }
}
