//! A cache engine as a service: what the server's clients ask for, the engine answers.
//!
//! A piece that the engine has no frames for waits here, in order, and is submitted again when
//! replies were given back; the server bounds how much that can be.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::{Duration, Instant};

use slab::Slab;
use thermocline_core::{Nanos, Tier};
use thermocline_engine::driver::Driver;
use thermocline_engine::{
    Engine, Reply, Request, RequestError, RequestKind, SubmitError, WriteMode,
};

use crate::protocol::{
    BlockSizes, Command, Context, ErrorCode, ExportInfo, Extent, tier, transmission_flag as flag,
};
use crate::service::{self, ExtentRange, Piece, Service, Tag};

/// How often the engine is told the time while it works.
const TICK: Duration = Duration::from_millis(10);

/// How often the engine is told the time at least: its background work may be due.
const IDLE_TICK: Duration = Duration::from_millis(100);

/// Pages that one request for extents looks at, at most; the client asks again for the rest.
const EXTENT_PAGES_MAX: u64 = 1 << 16;

/// Is told how long requests took.
pub trait Meter: fmt::Debug + Send {
    /// A request was answered; `found` is the slowest tier that one of its pages was found in.
    fn answered(&mut self, kind: RequestKind, found: Option<Tier>, time: Duration);
}

/// A piece that the engine works on.
#[derive(Clone, Copy, Debug)]
struct Pending {
    tag: Tag,
    since: Option<Instant>,
}

/// An engine and its clock.
#[derive(Debug)]
pub struct Cached<D> {
    engine: Engine<D>,
    /// Becomes readable when the driver has completions.
    descriptor: Option<RawFd>,
    meter: Option<Box<dyn Meter>>,
    /// What the engine calls by its number here.
    pending: Slab<Pending>,
    /// Pieces that the engine had no frames for, with their payloads.
    waiting: VecDeque<(Request, Box<[u8]>)>,
    /// Pieces that the engine never takes.
    refused: VecDeque<(Tag, ErrorCode)>,
    /// The read that was announced and whose bytes were not taken.
    announced: Option<(Tag, Reply)>,
    start: Instant,
    next_tick: Duration,
}

impl<D: Driver> Cached<D> {
    /// Serves an engine.
    pub fn new(mut engine: Engine<D>) -> Self {
        // The driver, and its descriptor with it, lives as long as this service.
        let descriptor = engine.driver().wake_fd().map(|descriptor| descriptor.as_raw_fd());
        Self {
            engine,
            descriptor,
            meter: None,
            pending: Slab::new(),
            waiting: VecDeque::new(),
            refused: VecDeque::new(),
            announced: None,
            start: Instant::now(),
            next_tick: Duration::ZERO,
        }
    }

    /// Tells `meter` of every answer from now on.
    #[must_use]
    pub fn with_meter(mut self, meter: Box<dyn Meter>) -> Self {
        self.meter = Some(meter);
        self
    }

    /// What clients are told about it.
    pub fn info(&self, name: &str, description: &str) -> ExportInfo {
        let options = self.engine.shard().options();
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
        ExportInfo {
            name: name.into(),
            description: description.into(),
            size_bytes: options.size_bytes(),
            flags,
            block_sizes: BlockSizes {
                preferred_bytes: options.page_bytes.next_power_of_two(),
                ..BlockSizes::default()
            },
        }
    }

    /// The engine, for what is no client's business.
    pub fn engine_mut(&mut self) -> &mut Engine<D> {
        &mut self.engine
    }

    /// The engine.
    pub fn into_engine(self) -> Engine<D> {
        self.engine
    }

    /// Gives a piece to the engine, unless others wait or it has no room.
    fn offer(&mut self, request: Request, payload: &[u8]) -> bool {
        match self.engine.submit(request, payload) {
            Ok(()) => true,
            Err(SubmitError::Full) => false,
            Err(_) => {
                if let Some(pending) = self.take_pending(request.tag) {
                    self.refused.push_back((pending.tag, ErrorCode::Invalid));
                }
                true
            }
        }
    }

    fn take_pending(&mut self, number: u64) -> Option<Pending> {
        usize::try_from(number).ok().and_then(|number| self.pending.try_remove(number))
    }

    fn offer_waiting(&mut self) {
        while let Some((request, payload)) = self.waiting.pop_front() {
            if !self.offer(request, &payload) {
                self.waiting.push_front((request, payload));
                return;
            }
        }
    }

    /// Where a page's newest bytes are.
    fn status(&self, page: u64) -> u32 {
        let page = u32::try_from(page).expect("a page of the export");
        match self.engine.shard().tier_of(page) {
            Tier::RAM => tier::RAM,
            Tier::FLASH => tier::FLASH,
            _ => 0,
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
        let Some(kind) = kind(piece.command) else {
            self.refused.push_back((tag, ErrorCode::Invalid));
            return;
        };
        let since = self.meter.is_some().then(Instant::now);
        let number = self.pending.insert(Pending { tag, since });
        let request = Request {
            tag: number as u64,
            kind,
            offset_bytes: piece.offset_bytes,
            length_bytes: piece.length_bytes.into(),
            is_durable: piece.is_fua(),
        };
        if !self.waiting.is_empty() || !self.offer(request, payload) {
            self.waiting.push_back((request, payload.into()));
        }
    }

    fn drive(&mut self) {
        let elapsed = self.start.elapsed();
        if elapsed >= self.next_tick {
            self.next_tick = elapsed + TICK;
            let now = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
            self.engine.shard_mut().tick(Nanos(now));
        }
        self.engine.poll();
        self.offer_waiting();
    }

    fn next_reply(&mut self) -> Option<service::Reply> {
        if let Some((tag, error)) = self.refused.pop_front() {
            return Some(service::Reply { tag, outcome: Err(error) });
        }
        let reply = self.engine.next_reply()?;
        let Pending { tag, since } =
            self.take_pending(reply.tag).expect("the engine answers what it was asked");
        if let (Some(meter), Some(since)) = (&mut self.meter, since) {
            meter.answered(reply.kind, reply.found, since.elapsed());
        }
        let outcome = reply.result.map_err(code);
        if reply.kind == RequestKind::Read && outcome.is_ok() {
            self.announced = Some((tag, reply));
        } else {
            self.engine.release(reply);
        }
        Some(service::Reply { tag, outcome })
    }

    fn take_data(&mut self, tag: Tag, target: &mut Vec<u8>) {
        let (announced, reply) = self.announced.take().expect("a read was announced");
        assert_eq!(announced, tag, "the read that was announced is taken");
        for segment in &reply.segments {
            target.extend_from_slice(self.engine.bytes(*segment));
        }
        self.engine.release(reply);
    }

    fn extents(&mut self, context: Context, range: &ExtentRange, found: &mut Vec<Extent>) {
        let ExtentRange { offset_bytes, length_bytes, count_max } = *range;
        if context == Context::Allocation {
            // Whether the disk has holes is not known; data is the safe answer.
            found.push(Extent { length_bytes, status: 0 });
            return;
        }
        let page_bytes = u64::from(self.engine.shard().options().page_bytes);
        let end_bytes = offset_bytes + u64::from(length_bytes);
        let first = offset_bytes / page_bytes;
        let last = end_bytes.div_ceil(page_bytes).min(first + EXTENT_PAGES_MAX);
        for page in first..last {
            let start = offset_bytes.max(page * page_bytes);
            let length = end_bytes.min((page + 1) * page_bytes) - start;
            let length_bytes = u32::try_from(length).expect("at most a page");
            let status = self.status(page);
            let is_full = found.len() == count_max;
            match found.last_mut() {
                Some(extent) if extent.status == status => extent.length_bytes += length_bytes,
                _ if is_full => return,
                _ => found.push(Extent { length_bytes, status }),
            }
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }

    fn wait_limit(&self) -> Option<Duration> {
        Some(if self.engine.shard().is_idle() { IDLE_TICK } else { TICK })
    }
}

fn kind(command: Command) -> Option<RequestKind> {
    match command {
        Command::Read => Some(RequestKind::Read),
        Command::Write => Some(RequestKind::Write),
        Command::Flush => Some(RequestKind::Flush),
        Command::Trim => Some(RequestKind::Trim),
        Command::Cache => Some(RequestKind::Cache),
        Command::WriteZeroes => Some(RequestKind::WriteZeroes),
        Command::Disconnect | Command::BlockStatus => None,
    }
}

fn code(error: RequestError) -> ErrorCode {
    match error {
        RequestError::ReadOnly => ErrorCode::NotPermitted,
        RequestError::Io | RequestError::Lost | _ => ErrorCode::Io,
    }
}
