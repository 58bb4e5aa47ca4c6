//! One trace, one buffer, perhaps one SSD.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use thermocline_core::config::{Given, Values};
use thermocline_core::{
    Access, Actions, BoxedPolicy, Clients, Ledger, Nanos, Op, PageId, Setup, Tier, WriteMiss,
};
use thermocline_device::ResponseTimes;
use thermocline_device::queueing::{Completion, DeviceOp, DeviceRequest};
use thermocline_device::ssd::{Ssd, SsdMetrics};
use thermocline_trace::CompiledTrace;

use super::tally::{Tally, Traffic};
use super::{
    BufferConfiguration, BufferPolicySummary, BufferSummary, BufferedSsd, Layout, SsdSummary,
};
use crate::placing::{Handles, WriteSource};
use crate::timing::Placement;
use crate::watch::CHUNK_ACCESSES;
use crate::{
    Arrivals, LabError, PlacementSummary, ResponseSummary, Streams, TraceSummary, Watch, summary,
};

/// Time that the buffer takes to serve the pages of a request: SSDsim's constant.
const BUFFER_NS: u64 = 1_000;

/// Number of accesses ahead at which the policy's state is prefetched.
const PREFETCH_ACCESSES: usize = 16;

/// See [`run_buffer`](super::run_buffer).
pub(super) fn run(
    trace: &CompiledTrace,
    configuration: &BufferConfiguration,
    is_checked: bool,
    watch: &Watch,
) -> Result<BufferSummary, LabError> {
    let layout = Layout::new(trace, configuration.ssd.as_ref())?;
    let entry = configuration.policy;
    let mut values = Values::defaults(entry.parameters);
    if let Some(pages_per_block) = entry.capabilities.whole_block {
        let pages = Given::Integer(layout.pages_per_block.into());
        values.set(&entry.name, pages_per_block.name, &pages)?;
    }
    for (name, value) in &configuration.parameters {
        values.set(&entry.name, name, value)?;
    }
    // Without a drive, the policy alone says what a flash block is.
    let pages_per_block = match (entry.capabilities.whole_block, &layout.placement) {
        (Some(pages_per_block), None) => values.integer_u32(pages_per_block.name),
        _ => layout.pages_per_block,
    };
    let footprint_pages = trace.footprint_pages();
    let buffer_pages =
        configuration.size.pages("buffer", trace.page_size_bytes(), footprint_pages, None)?;
    let setup = Setup {
        write_miss: WriteMiss::Allocate,
        ..Setup::new(layout.geometry.clone(), vec![buffer_pages])
    };
    let begin = |is_checked: bool, watch| -> Result<Stage<'_>, LabError> {
        Ok(Stage {
            trace,
            policy: entry.build(&setup, &values)?,
            policy_name: &entry.name,
            watch,
            actions: Actions::new(),
            ledger: is_checked.then(|| Ledger::new(footprint_pages, &[buffer_pages])),
            tally: Tally::new(&layout.geometry, pages_per_block),
            traffic: Traffic::default(),
        })
    };
    // A look ahead for an oracle is no progress.
    let silent = Watch::default();
    let mut stage = begin(is_checked, watch)?;
    let ssd = match (&configuration.ssd, &layout.placement) {
        (Some(ssd), Some(placement)) => {
            let handles = handles(ssd, footprint_pages, || {
                let mut writes = vec![];
                begin(false, &silent)?
                    .run_untimed(|traffic| writes.extend_from_slice(&traffic.writes))?;
                Ok(writes)
            })?;
            let drive = Drive::new(trace, ssd, handles, placement, layout.subpages)?;
            Some((ssd, placement, stage.run_timed(drive, configuration.arrivals)?))
        }
        _ => {
            stage.run_untimed(|_| ())?;
            None
        }
    };
    stage.policy.assert_invariants();
    let policy = BufferPolicySummary {
        name: entry.name.to_string(),
        parameters: summary::parameters(&values),
    };
    Ok(summarise(&stage, policy, buffer_pages, ssd))
}

/// Return the placement handles of a drive that has some, with what chooses among them. `writes`
/// are what the buffer will flush, for an oracle.
fn handles(
    ssd: &BufferedSsd,
    pages: u32,
    writes: impl FnOnce() -> Result<Vec<PageId>, LabError>,
) -> Result<Option<Handles>, LabError> {
    let Some(placement) = ssd.config.placement else { return Ok(None) };
    let streams = ssd.streams.as_ref();
    let chooser =
        streams.map(|one| one.chooser(placement.handles, pages, pages, writes)).transpose()?;
    Ok(Some(Handles::new(placement.handles, streams, chooser)))
}

/// Return the figures of a run.
fn summarise(
    stage: &Stage<'_>,
    policy: BufferPolicySummary,
    buffer_pages: u32,
    ssd: Option<(&BufferedSsd, &Placement, Timed)>,
) -> BufferSummary {
    let Stage { trace, tally, .. } = stage;
    let response_us = ssd.as_ref().map(|(.., timed)| timed.response_us);
    let ssd = ssd.map(|(ssd, placement, timed)| SsdSummary {
        name: ssd.config.name.clone(),
        logical_pages: ssd.config.logical_pages(),
        page_size_bytes: ssd.config.page_bytes,
        pages_per_block: ssd.config.pages_per_block,
        addresses: placement.name(),
        duration_s: timed.duration_s,
        time_reversals: timed.time_reversals,
        placement: timed.placed,
        metrics: timed.metrics,
    });
    BufferSummary {
        policy,
        buffer_pages,
        page_size_bytes: trace.page_size_bytes(),
        page_reads: tally.reads,
        page_writes: tally.writes,
        read_hits: tally.read_hits,
        write_hits: tally.write_hits,
        flushes: tally.flushes,
        pages_flushed: tally.pages_flushed,
        pages_resident: tally.dirty_pages(),
        response_us,
        clean_write_hits: tally.clean_write_hits,
        pages_padded: tally.pages_padded,
        flush_sizes: tally.flush_sizes(),
        trace: TraceSummary::of(trace),
        ssd,
    }
}

/// A policy on a trace.
struct Stage<'a> {
    trace: &'a CompiledTrace,
    policy: BoxedPolicy,
    policy_name: &'a str,
    watch: &'a Watch,
    actions: Actions,
    ledger: Option<Ledger>,
    tally: Tally,
    traffic: Traffic,
}

/// Results of a timed run besides its tally.
struct Timed {
    response_us: ResponseSummary,
    duration_s: f64,
    time_reversals: u64,
    placed: Option<PlacementSummary>,
    metrics: Box<SsdMetrics>,
}

impl Stage<'_> {
    /// Process one access: its operations on the NAND are in `traffic` then.
    fn access(&mut self, access: Access) -> Result<(), LabError> {
        self.actions.clear();
        self.policy.access(access, &mut self.actions);
        if let Some(ledger) = &mut self.ledger {
            ledger.access(access, &self.actions).map_err(|violation| LabError::Violation {
                policy: self.policy_name.into(),
                violation,
            })?;
        }
        self.tally.add(self.actions.as_slice(), &mut self.traffic);
        Ok(())
    }

    /// Runs without a drive; `each` is told what every access would ask of it.
    fn run_untimed(&mut self, mut each: impl FnMut(&Traffic)) -> Result<(), LabError> {
        for first in (0..self.trace.len()).step_by(CHUNK_ACCESSES) {
            let chunk = first..self.trace.len().min(first + CHUNK_ACCESSES);
            self.watch.advance(chunk.len());
            self.watch.check()?;
            for index in chunk {
                self.prefetch(index);
                self.access(self.trace.access(index))?;
                each(&self.traffic);
            }
        }
        Ok(())
    }

    fn prefetch(&self, index: usize) {
        let coming = index + PREFETCH_ACCESSES;
        if coming < self.trace.len() {
            self.policy.prefetch(self.trace.access(coming).page);
        }
    }

    fn run_timed(&mut self, mut drive: Drive<'_>, arrivals: Arrivals) -> Result<Timed, LabError> {
        if arrivals == Arrivals::Trace && !self.trace.is_timed() {
            return Err(LabError::NoTimes { path: self.trace.path().display().to_string() });
        }
        let trace = self.trace;
        let first_at = trace.summary().first_at;
        let mut time_reversals = 0;
        for request in trace.requests() {
            match arrivals {
                Arrivals::Trace => {
                    let at = request.at.0.saturating_sub(first_at.0);
                    time_reversals += u64::from(at < drive.now.0);
                    drive.advance(Nanos(at.max(drive.now.0)))?;
                }
                Arrivals::Closed { requests } => drive.wait_for_fewer(requests)?,
            }
            let Some(first) = request.accesses.clone().next() else { continue };
            self.watch.advance(request.accesses.len());
            self.watch.check()?;
            drive.begin(trace.access(first).op);
            for index in request.accesses {
                self.prefetch(index);
                self.access(trace.access(index))?;
                drive.take(&self.traffic)?;
            }
            drive.end();
        }
        drive.finish()?;
        Ok(Timed {
            response_us: ResponseSummary {
                read: drive.responses[Op::Read as usize].summary(),
                write: drive.responses[Op::Write as usize].summary(),
            },
            duration_s: drive.last_answer.0 as f64 / 1e9,
            time_reversals,
            placed: drive.handles.as_ref().map(Handles::summary),
            metrics: Box::new(drive.ssd.metrics()),
        })
    }
}

/// A request of the trace that waits for the SSD.
#[derive(Clone, Copy, Debug)]
struct Request {
    arrival: Nanos,
    op: Op,
    /// Its requests to the SSD that are not completed.
    pending: u32,
    /// Time of the answer, as far as it is known.
    answered: Nanos,
}

/// The SSD, and who waits for it.
struct Drive<'a> {
    ssd: Ssd,
    /// The placement handles, if it has some.
    handles: Option<Handles>,
    /// Write requests from one flush to the next, and since the last one.
    flush_every: Option<u32>,
    unflushed: u32,
    /// Requests with their handles on their way to the drive; empty between two accesses.
    asked: Vec<(u32, DeviceRequest)>,
    /// The group of each page, if the chooser of handles asks for it.
    groups: Option<Box<[u8]>>,
    placement: &'a Placement,
    subpages: u64,
    now: Nanos,
    /// The request that is arriving.
    arriving: Request,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    /// Request that each ticket from `first_ticket` on belongs to.
    waiting: VecDeque<Option<u32>>,
    first_ticket: u64,
    /// Answer times of requests that wait for the buffer only; kept for closed loops.
    buffered: BinaryHeap<Reverse<Nanos>>,
    tickets: Vec<u64>,
    completed: Vec<Completion>,
    responses: [ResponseTimes; 2],
    last_answer: Nanos,
}

impl<'a> Drive<'a> {
    fn new(
        trace: &CompiledTrace,
        ssd: &BufferedSsd,
        handles: Option<Handles>,
        placement: &'a Placement,
        subpages: u32,
    ) -> Result<Self, LabError> {
        let identifier = match &ssd.streams {
            // The host chooses handles; streams are the drive's own.
            Some(Streams::Identifier(entry, values)) if handles.is_none() => {
                let pages = u32::try_from(ssd.config.logical_pages()).unwrap_or(u32::MAX);
                Some(entry.build(pages, values)?)
            }
            Some(
                Streams::Identifier(..)
                | Streams::Oracle
                | Streams::Client
                | Streams::Tier
                | Streams::Volume
                | Streams::Class,
            )
            | None => None,
        };
        let mut drive = Ssd::new(&ssd.config, identifier)?;
        if let Some(precondition) = &ssd.precondition {
            drive.precondition(precondition)?;
        }
        // Pages that the trace reads before it writes them were written at some time.
        let mut is_written = vec![false; trace.footprint_pages() as usize];
        for access in (0..trace.len()).map(|index| trace.access(index)) {
            let was_written = std::mem::replace(&mut is_written[access.page.index()], true);
            if access.op == Op::Read && !was_written {
                let page = placement.address(access.page) * u64::from(subpages);
                drive.apply(DeviceRequest { op: DeviceOp::Write, page, pages: subpages })?;
            }
        }
        drive.reset_metrics();
        let none = Request { arrival: Nanos(0), op: Op::Read, pending: 0, answered: Nanos(0) };
        let groups = ssd.streams.as_ref().map(|streams| streams.groups(trace)).transpose()?;
        Ok(Self {
            ssd: drive,
            handles,
            groups: groups.flatten(),
            flush_every: ssd.flush_every,
            unflushed: 0,
            asked: vec![],
            placement,
            subpages: u64::from(subpages),
            now: Nanos(0),
            arriving: none,
            requests: vec![],
            free_requests: vec![],
            waiting: VecDeque::new(),
            first_ticket: 0,
            buffered: BinaryHeap::new(),
            tickets: vec![],
            completed: vec![],
            responses: [ResponseTimes::new(), ResponseTimes::new()],
            last_answer: Nanos(0),
        })
    }

    /// Lets everything up to a time happen.
    fn advance(&mut self, to: Nanos) -> Result<(), LabError> {
        self.now = to;
        let mut completed = std::mem::take(&mut self.completed);
        self.ssd.advance(to, &mut completed)?;
        for completion in completed.drain(..) {
            self.complete(completion);
        }
        self.completed = completed;
        Ok(())
    }

    fn complete(&mut self, completion: Completion) {
        let place = usize::try_from(completion.ticket.0 - self.first_ticket);
        let place = place.expect("few requests are on their way");
        let index = self.waiting[place].take().expect("a ticket completes once");
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
            self.first_ticket += 1;
        }
        let request = &mut self.requests[index as usize];
        request.pending -= 1;
        request.answered = request.answered.max(completion.at);
        if request.pending == 0 {
            let request = *request;
            self.free_requests.push(index);
            self.answer(request);
        }
    }

    fn answer(&mut self, request: Request) {
        self.responses[request.op as usize].record(request.answered.0 - request.arrival.0);
        self.last_answer = self.last_answer.max(request.answered);
    }

    /// Begin a request that arrives.
    fn begin(&mut self, op: Op) {
        self.arriving = Request { arrival: self.now, op, pending: 0, answered: self.now };
    }

    /// Take the traffic of one access of the arriving request.
    fn take(&mut self, traffic: &Traffic) -> Result<(), LabError> {
        if traffic.is_buffered {
            self.arriving.answered = Nanos(self.arriving.arrival.0 + BUFFER_NS);
        }
        self.submit(DeviceOp::Read, &traffic.reads)?;
        self.submit(DeviceOp::Write, &traffic.writes)
    }

    /// Submits pages; neighbours of one placement handle in one request.
    fn submit(&mut self, op: DeviceOp, pages: &[PageId]) -> Result<(), LabError> {
        let placement = self.placement;
        let of = WriteSource { clients: Clients::ONE, groups: self.groups.as_deref() };
        let mut handles = self.handles.as_mut().filter(|_| op == DeviceOp::Write);
        let placed = |&page: &PageId| {
            let write = of.write(page, page.0, Tier::RAM, 0);
            let handle = handles.as_mut().map_or(0, |handles| handles.choose(write));
            (handle, placement.address(page))
        };
        let mut pages = pages.iter().map(placed).peekable();
        let mut asked = std::mem::take(&mut self.asked);
        while let Some((handle, first)) = pages.next() {
            let mut end = first + 1;
            while pages.next_if_eq(&(handle, end)).is_some() {
                end += 1;
            }
            let count = (end - first) * self.subpages;
            let pages = u32::try_from(count).expect("a flush has the pages of a block");
            asked.push((handle, DeviceRequest { op, page: first * self.subpages, pages }));
        }
        for (handle, request) in asked.drain(..) {
            self.ssd.select_handle(handle)?;
            self.give(request)?;
            self.unflushed += u32::from(op == DeviceOp::Write);
            if self.flush_every.is_some_and(|every| self.unflushed >= every) {
                self.unflushed = 0;
                self.give(DeviceRequest::FLUSH)?;
            }
        }
        self.asked = asked;
        Ok(())
    }

    /// Gives the drive a request that the arriving one waits for.
    fn give(&mut self, request: DeviceRequest) -> Result<(), LabError> {
        let ticket = self.ssd.submit(self.now, request)?;
        self.tickets.push(ticket.0);
        self.arriving.pending += 1;
        Ok(())
    }

    /// End the arriving request, which has asked for all that it needs.
    fn end(&mut self) {
        let request = self.arriving;
        if request.pending == 0 {
            self.buffered.push(Reverse(request.answered));
            self.answer(request);
            return;
        }
        let index = if let Some(free) = self.free_requests.pop() {
            self.requests[free as usize] = request;
            free
        } else {
            self.requests.push(request);
            u32::try_from(self.requests.len() - 1).expect("few requests are on their way")
        };
        for ticket in self.tickets.drain(..) {
            while self.first_ticket + self.waiting.len() as u64 <= ticket {
                self.waiting.push_back(Some(index));
            }
        }
    }

    /// Lets time pass until fewer requests than this are outstanding.
    fn wait_for_fewer(&mut self, requests: u32) -> Result<(), LabError> {
        loop {
            while self.buffered.peek().is_some_and(|Reverse(answered)| *answered <= self.now) {
                self.buffered.pop();
            }
            let outstanding = self.buffered.len() + self.requests.len() - self.free_requests.len();
            if outstanding < requests as usize {
                return Ok(());
            }
            let buffered = self.buffered.peek().map(|Reverse(answered)| *answered);
            let next = [buffered, self.ssd.next_event()].into_iter().flatten().min();
            let next = next.expect("what is outstanding is answered at some time");
            self.advance(next.max(self.now))?;
        }
    }

    /// Lets everything happen that is still to come.
    fn finish(&mut self) -> Result<(), LabError> {
        while self.free_requests.len() < self.requests.len() {
            let next = self.ssd.next_event();
            let next = next.expect("what is outstanding is answered at some time");
            self.advance(next.max(self.now))?;
        }
        Ok(())
    }
}
