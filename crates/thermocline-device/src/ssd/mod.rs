//! An event-driven solid-state drive: channels, chips, dies, planes, translation layer and wear.
//!
//! The drive is a state machine on the clock of its driver, as [`Hdd`](crate::hdd::Hdd) is. A request
//! in service changes the map of pages at once, with the garbage collection that it takes; what this
//! means for the flash waits in the queues of buses and dies, where it takes its time. The same
//! layer can be driven [without time](Ssd::apply), which is much faster and wears the drive alike.
//!
//! A drive may have a host link of limited bandwidth, and DRAM that acknowledges writes: they then
//! wait for their cells there, and a write that finds it full waits until programs make room. A flush
//! of DRAM without power-loss protection waits until the cells have everything.
//!
//! * Source: the headers of its parts; Hu et al. (SSDsim), ICS '11, and Tavakkol et al. (MQSim), FAST
//!   '18, for the whole; NVM Express, base specification, command Flush, for flushes: they commit what
//!   was completed before, and have no effect without a volatile write cache.
//! * State: about 9 bytes per flash page; 56 per outstanding request, two histograms.
//! * Cost: see the parts: O(1) amortised per page in the map, O(log dies) per flash operation.
//! * Deviations: (1) the write buffer takes no
//!   page out again that is overwritten in it, which is a policy of its own in this project; (2) the map is in
//!   memory as a whole; (3) a page that was never written, or is trimmed, is read without the flash;
//!   (4) requests are for whole pages, and the read of the rest of a mapping unit does not hold up the
//!   program of the unit on another die; (5) bytes have no content, so that overlapping requests may be
//!   served in any order; (6) while a flush writes the DRAM out, the DRAM takes no other write.

mod check;
mod choices;
mod config;
mod datasheet;
mod error;
mod folding;
mod ftl;
mod geometry;
mod host;
mod link;
mod metrics;
mod nand;
mod placement;
mod precondition;
mod random;
mod reporting;
mod service;
mod slc;
mod suspension;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use thermocline_core::{BoxedIdentifier, Nanos, PageId};

use self::check::{bad, us_to_ns};
use self::error::Exhausted;
use self::ftl::Ftl;
use self::geometry::NONE;
use self::link::{Direction, Link};
use self::metrics::Recorder;
use self::nand::Nand;
use self::random::SplitMix64;
use self::service::{Passed, Service};
use self::slc::Slc;
use crate::request::{Completion, DeviceOp, DeviceRequest, Ticket};

pub use self::config::{
    Allocation, GcBlocks, GcUnit, Mapping, Scheduling, SsdConfig, Victim, WriteCompletes,
};
pub use self::datasheet::Datasheet;
pub use self::error::SsdError;
pub use self::metrics::{BlockErases, Lifetime, SsdMetrics};
pub use self::placement::{Isolation, Placement};
pub use self::precondition::Precondition;
pub use self::slc::SlcCache;
pub use self::suspension::Suspension;

/// The latest arrival, in nanoseconds; the other half of the clock is for service.
const LATEST_ARRIVAL_NS: u64 = u64::MAX / 2;

/// Time of an event that never happens: arrivals and their consequences come long before.
const NEVER: u64 = u64::MAX;

/// Pages ahead whose map entries are fetched while a drive is filled at random.
const PREFETCH_PAGES: usize = 16;

/// A solid-state drive.
///
/// ```
/// use thermocline_core::Nanos;
/// use thermocline_device::queueing::{DeviceOp, DeviceRequest};
/// use thermocline_device::ssd::{Precondition, Ssd, SsdConfig};
///
/// let config = SsdConfig::preset("ssdsim")?.sized_for(10_000)?;
/// let mut drive = Ssd::new(&config, None)?;
/// drive.precondition(&Precondition { fill: 0.5, overwrite: 1.0, seed: 7 })?;
/// drive.submit(Nanos(0), DeviceRequest { op: DeviceOp::Write, page: 42, pages: 1 })?;
/// let mut completed = vec![];
/// while let Some(at) = drive.next_event() {
///     drive.advance(at, &mut completed)?;
/// }
/// assert_eq!(completed[0].at, Nanos(51_375));
/// # Ok::<(), thermocline_device::ssd::SsdError>(())
/// ```
#[derive(Debug)]
pub struct Ssd {
    config: SsdConfig,
    nand: Nand,
    ftl: Ftl,
    service: Service,
    slc: Option<Slc>,
    /// Pages on their way out of the cache.
    folding: Vec<u32>,
    /// Idle time after which the drive folds; [`NEVER`] if it does not do so.
    fold_after_ns: u64,
    /// Time at which the last request in service was done.
    idle_since_ns: u64,
    /// Tells hot pages from cold if there are two streams.
    identifier: Option<BoxedIdentifier>,
    /// The placement handle of requests to come.
    handle: u32,
    link: Option<Link>,
    read_overhead_ns: u64,
    write_overhead_ns: u64,
    /// `true` if requests wait for firmware or link at all.
    has_delays: bool,
    /// Pages that the write buffer holds and may hold; 0 without one.
    buffered_pages: u32,
    buffer_pages: u32,
    /// Time up to which everything has happened.
    now_ns: u64,
    /// Requests that are not in service, by arrival.
    arrivals: BinaryHeap<Reverse<(u64, Ticket, u32)>>,
    /// Requests that are not done, in places that are used again.
    requests: Vec<Request>,
    free_places: Vec<u32>,
    /// Requests in service that are not decoded, by the time when they will be: reads and trims, and
    /// writes.
    decoding: [VecDeque<(u64, u32)>; 2],
    /// Writes that the buffer has not yet taken as a whole, in order.
    entering: VecDeque<u32>,
    /// Flushes that wait until the cells have what the buffer holds.
    flushing: Vec<u32>,
    /// Reads whose bytes are on the link, by the time when they will have arrived.
    leaving: VecDeque<(u64, u32)>,
    in_service: u32,
    tickets: u64,
    /// Requests of operations that completed at this instant, and the pages that they read.
    done: Vec<(u32, u8)>,
    /// Operations that ran without events.
    passed: Vec<Passed>,
    recorder: Recorder,
    /// Pages that the host wrote before the recorder began.
    host_writes_before: u64,
    worn_out: Option<SsdError>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    op: DeviceOp,
    page: u32,
    pages: u32,
    /// Flash operations and transfers to the host that are not done; for writes, the pages that the
    /// buffer has not taken.
    owed: u32,
    ticket: Ticket,
    arrival_ns: u64,
    /// The placement handle of what it writes.
    handle: u32,
}

impl Ssd {
    /// Create an erased drive at time 0.
    ///
    /// The identifier tells hot pages from cold if the configuration has two streams; it must know
    /// pages up to [`SsdConfig::logical_pages`]. With one stream it is not asked.
    ///
    /// # Errors
    /// [`SsdError::BadSetting`] with what is permitted, also if two streams lack an identifier.
    pub fn new(config: &SsdConfig, identifier: Option<BoxedIdentifier>) -> Result<Self, SsdError> {
        config.validate()?;
        if config.streams > 1 && identifier.is_none() {
            return Err(bad("streams", config.streams, "1 without a hot-data identifier"));
        }
        let nand = Nand::new(config);
        Ok(Self {
            ftl: Ftl::new(config, &nand),
            service: Service::new(config, nand.geometry()),
            slc: config
                .slc_cache
                .map(|cache| Slc::new(&cache, config, nand.geometry(), nand.logical_pages())),
            folding: vec![],
            fold_after_ns: config
                .slc_cache
                .and_then(|cache| cache.fold_after_us)
                .map_or(NEVER, us_to_ns),
            idle_since_ns: 0,
            nand,
            // With one stream nothing depends on it, so it is not asked, which saves its time.
            identifier: identifier.filter(|_| config.streams > 1),
            handle: 0,
            has_delays: config.read_overhead_us > 0.0
                || config.write_overhead_us > 0.0
                || config.host_link_mb_per_s > 0.0,
            link: Link::new(config),
            buffered_pages: 0,
            buffer_pages: u32::try_from(config.write_buffer_bytes / config.page_size_bytes())
                .unwrap_or(u32::MAX),
            read_overhead_ns: us_to_ns(config.read_overhead_us),
            write_overhead_ns: us_to_ns(config.write_overhead_us),
            now_ns: 0,
            arrivals: BinaryHeap::new(),
            requests: vec![],
            free_places: vec![],
            decoding: [VecDeque::new(), VecDeque::new()],
            entering: VecDeque::new(),
            flushing: vec![],
            leaving: VecDeque::new(),
            in_service: 0,
            tickets: 0,
            done: vec![],
            passed: vec![],
            recorder: Recorder::default(),
            host_writes_before: 0,
            worn_out: None,
            config: config.clone(),
        })
    }

    /// Hands in a request that arrives at `at`, which may lie ahead; arrivals need no order.
    ///
    /// # Errors
    /// [`SsdError::EmptyRequest`], [`SsdError::BeyondDrive`], [`SsdError::BadTime`] if the drive was
    /// advanced past `at`, or [`SsdError::WornOut`] for a write if the drive is. A request that is
    /// refused leaves no trace.
    ///
    /// # Panics
    /// Never: memory ends before 2^32 requests.
    pub fn submit(&mut self, at: Nanos, request: DeviceRequest) -> Result<Ticket, SsdError> {
        let page = self.check(request)?;
        if at.0 < self.now_ns || at.0 > LATEST_ARRIVAL_NS {
            let (least_ns, most_ns) = (self.now_ns, LATEST_ARRIVAL_NS);
            return Err(SsdError::BadTime { at_ns: at.0, least_ns, most_ns });
        }
        self.nand.prefetch(page);
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let DeviceRequest { op, pages, .. } = request;
        let request =
            Request { op, page, pages, owed: 0, ticket, arrival_ns: at.0, handle: self.handle };
        let place = match self.free_places.pop() {
            Some(place) => {
                self.requests[place as usize] = request;
                place
            }
            None => {
                self.requests.push(request);
                u32::try_from(self.requests.len() - 1).expect("memory ends before 2^32 requests")
            }
        };
        self.arrivals.push(Reverse((at.0, ticket, place)));
        Ok(ticket)
    }

    /// Lets everything up to and including `to` happen, and appends the completions in the order in
    /// which they happened. A time in the past changes nothing.
    ///
    /// # Errors
    /// [`SsdError::WornOut`] when a write finds no room, once: all that was outstanding is dropped
    /// then, and the drive takes no more writes.
    pub fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) -> Result<(), SsdError> {
        loop {
            let at_ns = self.next_event_ns();
            if at_ns > to.0 || at_ns == NEVER {
                break;
            }
            self.now_ns = at_ns;
            if self.happen(to.0, completed).is_err() {
                return Err(self.end());
            }
        }
        self.now_ns = self.now_ns.max(to.0);
        Ok(())
    }

    /// Return the time of the next event, if nothing more is submitted; `None` if nothing is to do.
    ///
    /// Garbage collection goes on after the last completion, and counts.
    pub fn next_event(&self) -> Option<Nanos> {
        Some(self.next_event_ns()).filter(|&at_ns| at_ns != NEVER).map(Nanos)
    }

    /// Return the time of the next event in nanoseconds; [`NEVER`] if there is none.
    #[inline]
    fn next_event_ns(&self) -> u64 {
        let mut next_ns = self.service.next_event_ns();
        if self.in_service < self.config.queue_depth
            && let Some(arrival) = self.arrivals.peek()
        {
            next_ns = next_ns.min(arrival.0.0.max(self.now_ns));
        }
        if self.slc.is_some() {
            next_ns = next_ns.min(self.next_folding_ns());
        }
        if self.has_delays {
            for queue in self.decoding.iter().chain([&self.leaving]) {
                next_ns = next_ns.min(queue.front().map_or(NEVER, |next| next.0));
            }
        }
        next_ns
    }

    /// Carries out a request at once and without time: map, garbage collection and wear change as
    /// they would, and are counted; response times and busy times do not.
    ///
    /// # Errors
    /// As for [`submit`](Self::submit); [`SsdError::WornOut`] also when the write finds no room,
    /// with the pages before it written.
    pub fn apply(&mut self, request: DeviceRequest) -> Result<(), SsdError> {
        let first = self.check(request)?;
        let end = first + request.pages;
        match request.op {
            DeviceOp::Read => {
                let unmapped = (first..end).filter(|&page| self.find(page).is_none());
                self.recorder.unmapped_reads += unmapped.count() as u64;
                self.recorder.host_reads += u64::from(request.pages);
            }
            DeviceOp::Write => {
                if self.write(first, request.pages, None).is_err() {
                    return Err(self.end());
                }
            }
            DeviceOp::Trim => self.trim(first, request.pages),
            DeviceOp::Flush => {
                self.recorder.host_flushes += 1;
                if self.has_volatile_buffer() {
                    self.pad_untimed();
                }
            }
        }
        Ok(())
    }

    /// Gives the requests submitted or applied from now on this placement handle; the first is 0.
    ///
    /// # Errors
    /// [`SsdError::BadSetting`] if the drive has fewer handles; the handle stays what it was.
    pub fn select_handle(&mut self, handle: u32) -> Result<(), SsdError> {
        let handles = self.config.placement.map_or(1, |placement| placement.handles);
        if handle >= handles {
            return Err(bad("handle", handle, format!("0 to {}", handles - 1)));
        }
        self.handle = handle;
        Ok(())
    }

    /// Asks the processor for the map entry of a page that a request will be for soon. No effect
    /// otherwise.
    #[inline]
    pub fn prefetch(&self, page: u64) {
        if let Ok(page) = u32::try_from(page) {
            self.nand.prefetch(page);
            if let Some(identifier) = &self.identifier {
                identifier.prefetch(PageId(page));
            }
        }
    }

    /// Brings the drive to a state of use, without time, and resets the metrics and the identifier.
    ///
    /// # Errors
    /// [`SsdError::BadSetting`] with what is permitted, or [`SsdError::WornOut`].
    pub fn precondition(&mut self, precondition: &Precondition) -> Result<(), SsdError> {
        precondition.validate()?;
        if let Some(worn_out) = &self.worn_out {
            return Err(worn_out.clone());
        }
        let (filled, overwrites) = precondition.pages(self.nand.logical_pages());
        let unit = self.config.mapping_unit_pages;
        for page in (0..filled).step_by(unit as usize) {
            if self.write(page, unit.min(filled - page), None).is_err() {
                return Err(self.end());
            }
        }
        let mut random = SplitMix64::new(precondition.seed);
        let mut coming = [0; PREFETCH_PAGES];
        // Drawn ahead, so that the map entries are in the cache when their turn comes; the sequence
        // is the same.
        coming.fill_with(|| random.below(filled));
        for turn in (0..PREFETCH_PAGES).cycle().zip(0..overwrites).map(|(turn, _)| turn) {
            let page = std::mem::replace(&mut coming[turn], random.below(filled));
            self.prefetch(coming[turn].into());
            if self.write(page, 1, None).is_err() {
                return Err(self.end());
            }
        }
        // A measurement begins with an empty cache: what it still held would be folded at the cost
        // of the first requests.
        if self.fold_all().is_err() {
            return Err(self.end());
        }
        if let Some(identifier) = &mut self.identifier {
            // Writes of the preconditioning say nothing of the workload to come.
            identifier.reset();
        }
        self.reset_metrics();
        Ok(())
    }

    /// Return the number of pages that the host sees. They are numbered from 0.
    pub const fn logical_pages(&self) -> u64 {
        self.nand.logical_pages()
    }

    /// Return the flash page that holds a page of the host. Flash pages are numbered over the whole drive:
    /// channel by channel, chip by chip, die by die, plane by plane, block by block; those of a pseudo-SLC
    /// cache come after all others. `None` if the flash does not hold the page.
    ///
    /// # Errors
    /// [`SsdError::BeyondDrive`] if the drive has no such page.
    pub fn flash_page_of(&self, page: u64) -> Result<Option<u64>, SsdError> {
        let request = DeviceRequest { op: DeviceOp::Read, page, pages: 1 };
        Ok(self.find(self.check(request)?).map(|found| found.page.into()))
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If it does not, which is a bug of the model.
    pub fn assert_invariants(&self) {
        self.nand.assert_invariants();
        self.ftl.assert_invariants(&self.nand);
        if let Some(slc) = &self.slc {
            slc.assert_invariants(|page| self.nand.page_of(page) != NONE);
        }
        let outstanding = self.requests.len() - self.free_places.len();
        let in_service = outstanding - self.arrivals.len();
        assert_eq!(in_service, self.in_service as usize, "every request waits or is in service");
        assert!(self.in_service <= self.config.queue_depth, "no more are in service than may be");
        let mut owed: Vec<u32> = self.requests.iter().map(|request| request.owed).collect();
        self.free_places.iter().for_each(|&place| owed[place as usize] = 0);
        self.service.settle(&mut owed);
        self.leaving.iter().for_each(|&(_, place)| owed[place as usize] -= 1);
        self.entering.iter().for_each(|&place| owed[place as usize] = 0);
        assert_eq!(
            self.service.buffered_pages(),
            self.buffered_pages,
            "the buffer counts its pages"
        );
        assert!(self.buffered_pages <= self.buffer_pages, "the buffer holds no more than it may");
        assert!(owed.iter().all(|&owed| owed == 0), "every operation that is owed is queued");
    }

    /// Return the first page of a request, or an error if the drive cannot take the request.
    fn check(&self, request: DeviceRequest) -> Result<u32, SsdError> {
        let DeviceRequest { op, page, pages } = request;
        if request.is_empty() {
            return Err(SsdError::EmptyRequest { page });
        }
        if let (DeviceOp::Write, Some(worn_out)) = (op, &self.worn_out) {
            return Err(worn_out.clone());
        }
        let logical_pages = self.nand.logical_pages();
        let last_page = logical_pages - 1;
        let is_inside = page.checked_add(pages.into()).is_some_and(|end| end <= logical_pages);
        match u32::try_from(page) {
            Ok(page) if is_inside => Ok(page),
            Ok(_) | Err(_) => Err(SsdError::BeyondDrive { page, pages, last_page }),
        }
    }

    /// Process all events at this instant, and those until `to_ns` that no other event can affect.
    fn happen(&mut self, to_ns: u64, completed: &mut Vec<Completion>) -> Result<(), Exhausted> {
        while let Some(code) = self.service.pop_event(self.now_ns) {
            self.service.finish_stage(code, &mut self.done);
        }
        for index in 0..self.done.len() {
            let (place, pages) = self.done[index];
            self.answer(place, pages.into(), completed);
        }
        self.done.clear();
        if self.has_delays {
            self.end_transfers(completed);
        }
        if self.buffer_pages > 0 {
            self.buffered_pages -= self.service.take_programmed();
            self.end_flushes(completed);
            self.fill_buffer(completed)?;
        }
        if self.has_delays {
            self.decode(completed)?;
        }
        while self.in_service < self.config.queue_depth
            && self.arrivals.peek().is_some_and(|next| next.0.0 <= self.now_ns)
        {
            // Later ones wait outside, with the time of their arrival: the response time includes
            // the wait for a place in the queue.
            let Some(Reverse((_, _, place))) = self.arrivals.pop() else { break };
            self.in_service += 1;
            let Request { op, pages, .. } = self.requests[place as usize];
            let (ready_ns, which) = match (op, &mut self.link) {
                (DeviceOp::Read | DeviceOp::Trim, _) => (self.now_ns + self.read_overhead_ns, 0),
                // It brings no bytes over the link.
                (DeviceOp::Flush, _) | (DeviceOp::Write, None) => {
                    (self.now_ns + self.write_overhead_ns, 1)
                }
                (DeviceOp::Write, Some(link)) => {
                    let arrived_ns = link.send(Direction::ToDrive, pages, self.now_ns);
                    (arrived_ns + self.write_overhead_ns, 1)
                }
            };
            if ready_ns == self.now_ns {
                self.dispatch(place, completed)?;
            } else {
                self.decoding[which].push_back((ready_ns, place));
            }
        }
        if self.slc.is_some() {
            self.fold_when_idle()?;
        }
        if !self.pass(to_ns, completed) {
            self.service.begin(self.now_ns);
        }
        Ok(())
    }

    /// Runs what waits for the flash from start to end, if it is done until then and nothing comes
    /// before; whether it did.
    fn pass(&mut self, to_ns: u64, completed: &mut Vec<Completion>) -> bool {
        if self.has_delays || self.buffer_pages > 0 {
            return false;
        }
        // An arrival may ask for the same bus or die, so nothing may be run past it.
        let before_ns = self.arrivals.peek().map_or(NEVER, |next| next.0.0);
        let until_ns = to_ns.min(before_ns.saturating_sub(1));
        let ended = self.service.run_unhindered(self.now_ns, until_ns, &mut self.passed);
        let Some(end_ns) = ended else { return false };
        for place in 0..self.passed.len() {
            let Passed { answered_ns, owner, .. } = self.passed[place];
            // Requests complete in the order of their times, each at its own, as with events.
            self.now_ns = answered_ns;
            self.settle(owner, completed);
        }
        self.passed.clear();
        self.now_ns = end_ns;
        true
    }

    /// Completes the reads whose bytes have arrived.
    fn end_transfers(&mut self, completed: &mut Vec<Completion>) {
        while let Some(&(_, place)) = self.leaving.front().filter(|next| next.0 <= self.now_ns) {
            self.leaving.pop_front();
            self.settle(place, completed);
        }
    }

    /// Carries out the requests that the firmware has decoded.
    fn decode(&mut self, completed: &mut Vec<Completion>) -> Result<(), Exhausted> {
        for which in 0..self.decoding.len() {
            while let Some(&(_, place)) =
                self.decoding[which].front().filter(|next| next.0 <= self.now_ns)
            {
                self.decoding[which].pop_front();
                self.dispatch(place, completed)?;
            }
        }
        Ok(())
    }

    /// Mark the drive as ended, because it finds no room for a page, and return the error.
    fn end(&mut self) -> SsdError {
        self.service.stop(self.now_ns);
        self.decoding.iter_mut().for_each(VecDeque::clear);
        self.entering.clear();
        self.flushing.clear();
        self.leaving.clear();
        self.buffered_pages = 0;
        if let Some(link) = &mut self.link {
            link.stop();
        }
        self.arrivals.clear();
        self.requests.clear();
        self.free_places.clear();
        self.in_service = 0;
        let host_writes = self.host_writes_before + self.recorder.host_writes;
        let erases = self.nand.erases * u64::from(self.config.unit_blocks());
        let worn_out = SsdError::WornOut { erases, host_writes };
        self.worn_out = Some(worn_out.clone());
        worn_out
    }
}
