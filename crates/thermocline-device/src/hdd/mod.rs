//! An event-driven hard disk: seek, rotation, zones, on-board cache and queue.
//!
//! The disk is a state machine on the clock of its driver: requests go in with their times, the
//! driver advances the disk to a time and collects what completed until then. The platters turn
//! whether or not anyone asks, so that the wait for a sector follows from the absolute time.
//!
//! * Source: Ruemmler and Wilkes, *An introduction to disk drive modeling*, IEEE Computer 27(3),
//!   1994, for the parts of a disk; the headers of its parts for each.
//! * State: about 150 bytes per outstanding request, 24 per segment of the cache, two histograms.
//! * Cost: O(log n) per request in the requests that wait and the extents that the cache holds, and
//!   O(segments) per read.
//! * Deviations: (1) a transfer begins at the first sector asked for, where some drives begin at
//!   any; (2) the interface is never the limit of a transfer from the medium, as it is faster and
//!   overlaps it, so only answers from the cache queue for it; (3) the cache cleans as soon as the
//!   medium is free, since the delays that drives leave for more writes are not published; (4) no
//!   errors, retries, recalibration or spin-down; (5) [`DeviceOp::Trim`] changes nothing, as
//!   conventional disks have no use for it; (6) bytes have no content, so that overlapping requests
//!   may be served in any order.

mod cache;
mod config;
mod error;
mod layout;
mod mechanism;
mod metrics;
mod queue;
mod seek;
mod units;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use thermocline_core::Nanos;

use self::cache::{Segments, WriteBuffer};
use self::layout::Extent;
use self::mechanism::{Job, Mechanism, Motion};
use self::metrics::Recorder;
use self::queue::Queue;
use self::units::ms_to_ns;
use crate::request::{Completion, DeviceOp, DeviceRequest, Ticket};

pub use self::config::{HddConfig, Scheduling, WriteCache, Zone};
pub use self::error::HddError;
pub use self::metrics::HddMetrics;

/// The latest arrival, in nanoseconds; the other half of the clock is for service.
const LATEST_ARRIVAL_NS: u64 = u64::MAX / 2;

/// A hard disk.
///
/// ```
/// use thermocline_core::Nanos;
/// use thermocline_device::hdd::{Hdd, HddConfig};
/// use thermocline_device::queueing::{DeviceOp, DeviceRequest};
///
/// let mut disk = Hdd::new(&HddConfig::preset("st380011a")?, 4096)?;
/// disk.submit(Nanos(0), DeviceRequest { op: DeviceOp::Read, page: 1_000_000, pages: 2 })?;
/// let mut completed = vec![];
/// while let Some(at) = disk.next_event() {
///     disk.advance(at, &mut completed);
/// }
/// assert_eq!(completed.len(), 1);
/// # Ok::<(), thermocline_device::hdd::HddError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Hdd {
    page_sectors: u64,
    capacity_pages: u64,
    command_overhead_ns: u64,
    /// Nanoseconds per sector on the interface.
    interface_ns: f64,
    /// Time up to which everything has happened.
    now_ns: u64,
    /// Coming events, by time.
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// Requests that are not done, by ticket.
    outstanding: BTreeMap<Ticket, Request>,
    tickets: u64,
    mechanism: Mechanism,
    /// Requests that wait for the medium.
    queue: Queue,
    /// Writes that wait for room in the write buffer, in the order of arrival.
    stalled: VecDeque<Ticket>,
    /// Flushes that wait until the medium has what the write buffer holds.
    flushing: Vec<Ticket>,
    segments: Segments,
    writes: WriteBuffer,
    /// Next user of the medium when both the queue and the write buffer need it.
    turn: Turn,
    /// Time at which the interface has sent all answers from the cache.
    interface_free_ns: u64,
    recorder: Recorder,
}

/// Event at a time; of several at the same time, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A request is answered without the medium, or by reading ahead.
    Respond(Ticket),
    /// The mechanism finishes its job.
    Finish,
    /// A request was decoded.
    Decoded(Ticket),
}

#[derive(Clone, Copy, Debug)]
struct Request {
    op: DeviceOp,
    extent: Extent,
    arrival_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Queue,
    Cleaning,
}

impl Hdd {
    /// Create a disk of pages of `page_size_bytes` at time 0, its arm over the outermost cylinder
    /// and its cache empty.
    ///
    /// # Errors
    /// [`HddError::BadSetting`] or [`HddError::BadPageSize`], with what is permitted.
    pub fn new(config: &HddConfig, page_size_bytes: u64) -> Result<Self, HddError> {
        config.check()?;
        let (capacity_bytes, sector_bytes) =
            (config.capacity_bytes, u64::from(config.sector_bytes));
        let capacity_pages = capacity_bytes.checked_div(page_size_bytes).unwrap_or(0);
        if !page_size_bytes.is_multiple_of(sector_bytes) || capacity_pages == 0 {
            let sector_bytes = config.sector_bytes;
            return Err(HddError::BadPageSize { page_size_bytes, sector_bytes, capacity_bytes });
        }
        let write_sectors = config.write_buffer_bytes() / sector_bytes;
        Ok(Self {
            page_sectors: page_size_bytes / sector_bytes,
            capacity_pages,
            command_overhead_ns: ms_to_ns(config.command_overhead_ms),
            interface_ns: f64::from(config.sector_bytes) * 1e3 / config.interface_mb_per_s,
            now_ns: 0,
            events: BinaryHeap::new(),
            outstanding: BTreeMap::new(),
            tickets: 0,
            mechanism: Mechanism::new(config)?,
            queue: Queue::new(config.scheduling),
            stalled: VecDeque::new(),
            flushing: vec![],
            segments: Segments::new(config.cache_segments, config.segment_sectors()),
            writes: WriteBuffer::new(write_sectors),
            turn: Turn::Queue,
            interface_free_ns: 0,
            recorder: Recorder::new(),
        })
    }

    /// Hands in a request that arrives at `at`, which may lie ahead; arrivals need no order.
    ///
    /// # Errors
    /// [`HddError::EmptyRequest`], [`HddError::BeyondDisk`], or [`HddError::BadTime`] if the disk was
    /// advanced past `at`. A request that is refused leaves no trace.
    pub fn submit(&mut self, at: Nanos, request: DeviceRequest) -> Result<Ticket, HddError> {
        let DeviceRequest { op, page, pages } = request;
        if request.is_empty() {
            return Err(HddError::EmptyRequest { page });
        }
        let capacity_pages = self.capacity_pages;
        let end_page = page.checked_add(pages.into()).filter(|&end| end <= capacity_pages);
        let end_page = end_page.ok_or(HddError::BeyondDisk { page, pages, capacity_pages })?;
        if at.0 < self.now_ns || at.0 > LATEST_ARRIVAL_NS {
            let (least_ns, most_ns) = (self.now_ns, LATEST_ARRIVAL_NS);
            return Err(HddError::BadTime { at_ns: at.0, least_ns, most_ns });
        }
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let extent = Extent { start: page * self.page_sectors, end: end_page * self.page_sectors };
        self.outstanding.insert(ticket, Request { op, extent, arrival_ns: at.0 });
        self.schedule(at.0 + self.command_overhead_ns, Event::Decoded(ticket));
        Ok(ticket)
    }

    /// Lets everything up to and including `to` happen, and appends the completions in the order in
    /// which they happened. A time in the past changes nothing.
    pub fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) {
        while let Some(&Reverse((at_ns, event))) =
            self.events.peek().filter(|next| next.0.0 <= to.0)
        {
            self.events.pop();
            self.now_ns = at_ns;
            match event {
                Event::Respond(ticket) => self.complete(ticket, completed),
                Event::Finish => self.finish(completed),
                Event::Decoded(ticket) => self.accept(ticket),
            }
            // The scheduler decides once all that happens at this instant is known.
            if self.events.peek().is_none_or(|next| next.0.0 > at_ns) {
                self.dispatch();
            }
        }
        self.now_ns = self.now_ns.max(to.0);
    }

    /// Return the time of the next event, if nothing more is submitted; `None` if nothing is to do.
    ///
    /// Cleaning the write buffer goes on after the last completion, and counts.
    pub fn next_event(&self) -> Option<Nanos> {
        self.events.peek().map(|next| Nanos(next.0.0))
    }

    /// Return the metrics so far.
    pub fn metrics(&self) -> HddMetrics {
        self.recorder.metrics()
    }

    /// Return the number of pages the disk has; they are numbered from 0.
    pub const fn capacity_pages(&self) -> u64 {
        self.capacity_pages
    }

    /// Return the cylinder, counted from the outermost, in which a page begins.
    ///
    /// # Errors
    /// [`HddError::BeyondDisk`] if the disk has no such page.
    pub fn cylinder_of(&self, page: u64) -> Result<u64, HddError> {
        let capacity_pages = self.capacity_pages;
        if page >= capacity_pages {
            return Err(HddError::BeyondDisk { page, pages: 1, capacity_pages });
        }
        Ok(self.mechanism.cylinder(page * self.page_sectors))
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If it does not, which is a bug of the model.
    pub fn assert_invariants(&self) {
        self.segments.assert_invariants();
        self.writes.assert_invariants();
        self.recorder.assert_invariants();
        let scheduled = self.events.iter().filter_map(|next| match next.0.1 {
            Event::Respond(ticket) | Event::Decoded(ticket) => Some(ticket),
            Event::Finish => None,
        });
        let mut places: Vec<Ticket> = scheduled
            .chain(self.queue.tickets())
            .chain(self.stalled.iter().chain(&self.flushing).copied())
            .chain(self.mechanism.ticket())
            .collect();
        places.sort_unstable();
        let outstanding: Vec<Ticket> = self.outstanding.keys().copied().collect();
        assert_eq!(places, outstanding, "every outstanding request is in one place");
        let done = self.recorder.requests();
        assert_eq!(done + outstanding.len() as u64, self.tickets, "no request is lost");
        assert!(self.events.iter().all(|next| next.0.0 >= self.now_ns), "no event is overdue");
        let finishes = self.events.iter().filter(|next| next.0.1 == Event::Finish).count();
        assert_eq!(finishes, usize::from(self.mechanism.is_busy()), "a job ends once");
    }

    /// Answers from the cache what it can answer, and queues the rest.
    fn accept(&mut self, ticket: Ticket) {
        let Request { op, extent, .. } = self.outstanding[&ticket];
        self.settle_read_ahead();
        match op {
            DeviceOp::Trim => self.schedule(self.now_ns, Event::Respond(ticket)),
            DeviceOp::Flush => {
                self.flushing.push(ticket);
                self.admit_writes();
            }
            DeviceOp::Read => self.accept_read(ticket, extent),
            DeviceOp::Write => {
                // Before the write is acknowledged, or a later read could be answered with the old
                // bytes.
                self.segments.invalidate(extent);
                if self.writes.suits(extent) {
                    self.stalled.push_back(ticket);
                    self.admit_writes();
                } else {
                    // A write too long for the buffer goes past it: what the buffer still has of
                    // these sectors would overwrite it later.
                    self.writes.discard(extent);
                    self.admit_writes();
                    self.enqueue(ticket, extent);
                }
            }
        }
    }

    fn accept_read(&mut self, ticket: Ticket, extent: Extent) {
        if self.writes.holds(extent) {
            self.recorder.read_hits += 1;
            self.respond(ticket, extent, self.now_ns);
        } else if let Some(segment) = self.segments.find(extent) {
            self.recorder.read_hits += 1;
            self.respond(ticket, extent, self.now_ns);
            self.mechanism.plan_read_ahead(segment.end, extent.end);
        // The sectors are about to pass the head: waiting for them is sooner done than a seek away
        // and back.
        } else if let Some(passed_ns) = self.mechanism.promise(self.segments.rest(extent)) {
            if passed_ns <= self.now_ns {
                self.recorder.read_hits += 1;
            } else {
                self.recorder.read_ahead_hits += 1;
            }
            self.respond(ticket, extent, passed_ns);
        } else {
            self.enqueue(ticket, extent);
        }
    }

    fn enqueue(&mut self, ticket: Ticket, extent: Extent) {
        self.queue.push(ticket, extent, self.mechanism.cylinder(extent.start));
    }

    /// Answers the flushes if the buffer is empty; otherwise it takes no write, so that a flush does not
    /// wait for later writes. Then moves writes into the buffer as long as the oldest fits; younger ones
    /// do not overtake it, so that a long write is not kept waiting for ever.
    fn admit_writes(&mut self) {
        if self.writes.is_empty() {
            for ticket in std::mem::take(&mut self.flushing) {
                self.schedule(self.now_ns, Event::Respond(ticket));
            }
        }
        if !self.flushing.is_empty() {
            return;
        }
        while let Some(&ticket) = self.stalled.front() {
            let extent = self.outstanding[&ticket].extent;
            if !self.writes.try_insert(extent) {
                break;
            }
            self.stalled.pop_front();
            self.recorder.buffered_writes += 1;
            self.respond(ticket, extent, self.now_ns);
        }
    }

    /// Sends an answer over the interface, complete not before `ready_ns`.
    fn respond(&mut self, ticket: Ticket, extent: Extent, ready_ns: u64) {
        let transfer_ns = units::round_ns(extent.sectors() as f64 * self.interface_ns);
        // Answers from the cache share one interface, so they leave one after the other.
        self.interface_free_ns = self.interface_free_ns.max(self.now_ns) + transfer_ns;
        self.schedule(self.interface_free_ns.max(ready_ns), Event::Respond(ticket));
    }

    /// Ends the read-ahead that has come as far as it should.
    fn settle_read_ahead(&mut self) {
        if let Some(ahead) = self.mechanism.settle_read_ahead(self.now_ns) {
            self.keep(ahead);
        }
    }

    fn keep(&mut self, ahead: mechanism::Ahead) {
        self.recorder.read_ahead_ns += ahead.spent_ns;
        if ahead.extent.start < ahead.extent.end {
            self.segments.extend(ahead.extent);
        }
    }

    /// Gives the mechanism something to do, if it is free and there is something.
    fn dispatch(&mut self) {
        if self.mechanism.is_busy() {
            return;
        }
        let is_wanted = !self.queue.is_empty() || !self.writes.is_clean();
        // Reading ahead is the work of an idle disk only.
        if !is_wanted {
            self.mechanism.start_read_ahead(self.now_ns);
            return;
        }
        if let Some((ahead, free_ns)) = self.mechanism.stop_read_ahead(self.now_ns) {
            self.keep(ahead);
            if free_ns > self.now_ns {
                self.schedule(free_ns, Event::Finish);
                return;
            }
        }
        self.start_job();
    }

    fn start_job(&mut self) {
        // Cleaning can wait until the host leaves the medium alone, unless a write needs the room, or a
        // flush waits.
        let is_urgent = !self.stalled.is_empty() || !self.flushing.is_empty();
        let cleans = !self.writes.is_clean()
            // In turn: stalled writes must not starve the reads of the queue, nor the other way
            // round.
            && (self.queue.is_empty() || (is_urgent && self.turn == Turn::Cleaning));
        let position = self.mechanism.position();
        let (job, extent, motion) = if cleans {
            self.turn = Turn::Queue;
            let extent = self.writes.start_cleaning(position.sector).expect("it is not clean");
            self.recorder.cleanings += 1;
            (Job::Clean, extent, Motion::Write)
        } else {
            self.turn = Turn::Cleaning;
            let (ticket, extent) = self.queue.pop(position).expect("there is something to do");
            let motion = match self.outstanding[&ticket].op {
                DeviceOp::Write => Motion::Write,
                DeviceOp::Read | DeviceOp::Trim | DeviceOp::Flush => Motion::Read,
            };
            (Job::Serve(ticket), extent, motion)
        };
        let cost = self.mechanism.start(job, extent, motion, self.now_ns);
        self.recorder.add(cost);
        self.schedule(self.now_ns + cost.total_ns(), Event::Finish);
    }

    fn finish(&mut self, completed: &mut Vec<Completion>) {
        match self.mechanism.finish() {
            Job::Serve(ticket) => {
                let Request { op, extent, .. } = self.outstanding[&ticket];
                if op == DeviceOp::Read {
                    self.segments.insert(extent);
                    self.mechanism.plan_read_ahead(extent.end, extent.end);
                }
                self.complete(ticket, completed);
            }
            Job::Clean => {
                self.writes.finish_cleaning();
                self.admit_writes();
            }
            Job::Settle => {}
        }
    }

    fn complete(&mut self, ticket: Ticket, completed: &mut Vec<Completion>) {
        let request = self.outstanding.remove(&ticket).expect("a request completes once");
        let response_ns = self.now_ns - request.arrival_ns;
        self.recorder.complete(
            request.op,
            request.extent.sectors() / self.page_sectors,
            response_ns,
        );
        completed.push(Completion { ticket, at: Nanos(self.now_ns) });
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.events.push(Reverse((at_ns, event)));
    }
}
