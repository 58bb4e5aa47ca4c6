//! The event loop: arrivals, steps of page accesses, completions.

use std::collections::BTreeMap;
use std::ops::Range;

use thermocline_core::{
    Action, Actions, BoxedPolicy, Clients, Counts, Ledger, Nanos, Op, PageId, Tier,
};
use thermocline_device::ResponseTimes;
use thermocline_device::queueing::{Completion, DeviceOp, DeviceRequest, QueueingDevice, Ticket};
use thermocline_trace::CompiledTrace;

use super::layout::{Placement, Slots};
use super::{Arrivals, DeviceSummary, ResponseSummary, TierSsdSummary, Timing, TimingSummary};
use crate::over_time::Tally;
use crate::placing::{Handles, WriteSource};
use crate::summary::PolicyState;
use crate::{Configuration, LabError, Recorder, Watch};

/// No job, or no request.
const NONE: u32 = u32::MAX;

/// A page access on its way: steps on devices, one after the other.
#[derive(Debug, Default)]
struct Job {
    /// The request that it is part of; none for work of the policy's own.
    request: u32,
    page: u32,
    steps: Vec<Step>,
    next: usize,
    /// Number of steps after which the access is answered.
    answered_after: usize,
    /// Accesses to the same page that wait for the answer.
    waiting: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    tier: u8,
    op: DeviceOp,
    address: u64,
    /// The placement handle, of a write.
    handle: u32,
}

/// A step that a device has been given.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    job: u32,
    since: Nanos,
    op: DeviceOp,
}

/// A request of which page accesses are on their way.
#[derive(Clone, Copy, Debug)]
struct Request {
    arrival: Nanos,
    op: Op,
    unanswered: u32,
    /// `true` if its response time counts: all of it lies after the warm-up.
    is_counted: bool,
}

/// Results of a timed replay.
pub(crate) struct Timed {
    pub(crate) counts: Vec<Counts>,
    pub(crate) state: PolicyState,
    pub(crate) timing: TimingSummary,
}

/// A hierarchy of devices, and a policy that drives it.
pub(crate) struct Simulation<'a> {
    trace: &'a CompiledTrace,
    policy: BoxedPolicy,
    actions: Actions,
    ledger: Option<Ledger>,
    log: Option<&'a mut (dyn Recorder + 'static)>,
    needs_clock: bool,
    policy_name: &'a str,
    watch: &'a Watch,
    devices: Vec<Box<dyn QueueingDevice + Send>>,
    /// Per device: how many of its own pages a page of the trace takes.
    subpages: Vec<u32>,
    /// Per device: which job waits for which ticket, and since when.
    tickets: Vec<BTreeMap<Ticket, Waiting>>,
    /// Per device: response times of its own requests, by what they do.
    device_responses: Vec<[ResponseTimes; 2]>,
    clients: Clients,
    /// Per cache tier but the first ones, where the address does not matter.
    slots: Vec<Slots>,
    /// Per device: its placement handles, if it has some.
    handles: Vec<Option<Handles>>,
    /// The group of each page, if a chooser of handles asks for it.
    groups: Option<Box<[u8]>>,
    placement: Placement,
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    /// Per page: the last job for it that is not answered.
    unanswered: Vec<u32>,
    outstanding_requests: u32,
    tally: Tally<'a>,
    responses: [ResponseTimes; 2],
    /// The response times of all requests, those of the warm-up too.
    waited_ns: u128,
    last_step: Nanos,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(
        trace: &'a CompiledTrace,
        configuration: &'a Configuration,
        timing: &Timing,
        is_checked: bool,
        tally: Tally<'a>,
        watch: &'a Watch,
    ) -> Result<Self, LabError> {
        let capacity_pages = configuration.tier_capacities_pages(trace)?;
        let clients = configuration.clients;
        let page_size_bytes = trace.page_size_bytes();
        let tiers = capacity_pages.iter().copied().map(Some).chain([None]);
        let (handles, groups) = super::handles::of_tiers(trace, configuration, timing, watch)?;
        let (mut devices, mut subpages) = (vec![], vec![]);
        for (model, tier_pages) in timing.models(clients).into_iter().zip(tiers) {
            let built = model.build(page_size_bytes, tier_pages)?;
            devices.push(built.device);
            subpages.push(built.subpages);
        }
        let disk = devices.last().expect("there is a disk");
        let disk_subpages = u64::from(*subpages.last().expect("there is a disk"));
        let disk_pages = disk.capacity_pages() / disk_subpages;
        let placement = Placement::new(&trace.geometry(), disk_pages, 1)?;
        let footprint_pages = trace.footprint_pages();
        Ok(Self {
            trace,
            policy: configuration.build(trace)?,
            actions: Actions::new(),
            ledger: is_checked.then(|| configuration.ledger(trace)).transpose()?,
            log: None,
            needs_clock: configuration.policy.capabilities.needs_clock,
            policy_name: &configuration.policy.name,
            watch,
            tickets: devices.iter().map(|_| BTreeMap::new()).collect(),
            device_responses: devices.iter().map(|_| Default::default()).collect(),
            devices,
            subpages,
            clients,
            slots: capacity_pages
                .iter()
                .skip(clients.get().into())
                .map(|&pages| Slots::new(pages, footprint_pages))
                .collect(),
            handles,
            groups,
            placement,
            jobs: vec![],
            free_jobs: vec![],
            requests: vec![],
            free_requests: vec![],
            unanswered: vec![NONE; footprint_pages as usize],
            outstanding_requests: 0,
            tally,
            responses: Default::default(),
            waited_ns: 0,
            last_step: Nanos(0),
        })
    }

    /// Return the same with a log of its actions, if there is one.
    pub(crate) fn logging(self, log: Option<&'a mut (dyn Recorder + 'static)>) -> Self {
        Self { log, ..self }
    }

    /// Replays the trace; the first accesses are not counted.
    pub(crate) fn run(
        mut self,
        timing: &Timing,
        tiers: &[String],
        warm_up_accesses: u64,
    ) -> Result<Timed, LabError> {
        if timing.arrivals == Arrivals::Trace && !self.trace.is_timed() {
            return Err(LabError::NoTimes { path: self.trace.path().display().to_string() });
        }
        let mut coming = self.trace.requests().peekable();
        let first_at = self.trace.summary().first_at;
        let (mut now, mut time_reversals) = (Nanos(0), 0);
        let mut completed = vec![];
        loop {
            let arrival = match timing.arrivals {
                Arrivals::Trace => coming
                    .peek()
                    .map(|request| Nanos(request.at.0.saturating_sub(first_at.0).max(now.0))),
                Arrivals::Closed { requests } => {
                    coming.peek().filter(|_| self.outstanding_requests < requests).map(|_| now)
                }
            };
            let event = self.next_event();
            match (arrival, event) {
                // An arrival at the instant of an event goes first, so the order of equal times is
                // the same in every run.
                (Some(arrival), event) if event.is_none_or(|(at, _)| arrival <= at) => {
                    let Some(request) = coming.next() else { break };
                    // Recordings may go back in time; the policy sees requests in the order of the
                    // trace, so such a request arrives now.
                    let is_early = request.at.0.saturating_sub(first_at.0) < now.0;
                    time_reversals += u64::from(is_early && timing.arrivals == Arrivals::Trace);
                    now = arrival;
                    self.watch.advance(request.accesses.len());
                    self.watch.check()?;
                    if self.log.as_ref().is_some_and(|log| log.has_failed()) {
                        return Err(LabError::Stopped);
                    }
                    self.arrive(arrival, request.accesses, warm_up_accesses)?;
                }
                (_, Some((at, device))) => {
                    now = at;
                    self.complete(at, device, &mut completed)?;
                }
                (_, None) => break,
            }
            // Work that devices still do for themselves (collection, cleaning) is in no response
            // time.
            if coming.peek().is_none() && self.is_idle() {
                break;
            }
        }
        self.policy.assert_invariants();
        let duration_s = self.last_step.0 as f64 / 1e9;
        Ok(Timed {
            state: PolicyState::of(&*self.policy, tiers),
            timing: TimingSummary {
                response_us: ResponseSummary::of(&self.responses),
                duration_s,
                time_reversals,
                outstanding_mean: self.waited_ns as f64 / 1e9 / duration_s.max(1e-9),
                closed_loop: match timing.arrivals {
                    Arrivals::Trace => None,
                    Arrivals::Closed { requests } => Some(requests),
                },
                devices: self.device_summaries(timing, tiers, duration_s),
            },
            counts: self.tally.into_totals(),
        })
    }

    /// Return the state of every device after a run of `duration_s` seconds.
    fn device_summaries(
        &self,
        timing: &Timing,
        tiers: &[String],
        duration_s: f64,
    ) -> Vec<DeviceSummary> {
        let models = timing.models(self.clients);
        let devices = tiers.iter().zip(models).zip(&self.devices).enumerate();
        devices
            .map(|(place, ((tier, model), device))| DeviceSummary {
                tier: tier.clone(),
                model: model.name(),
                busy_s: device.busy_ns() as f64 / 1e9,
                response_us: ResponseSummary::of(&self.device_responses[place]),
                ssd: TierSsdSummary::of(
                    &**device,
                    duration_s,
                    self.trace.writes() * u64::from(self.subpages[place]),
                    self.handles[place].as_ref().map(Handles::summary),
                ),
            })
            .collect()
    }

    /// Return `true` if no access is on its way; devices may still have work of their own.
    fn is_idle(&self) -> bool {
        self.free_jobs.len() == self.jobs.len()
    }

    /// Return the earliest event of all devices; of several at once, that of the fastest tier.
    fn next_event(&self) -> Option<(Nanos, usize)> {
        let events = self.devices.iter().enumerate();
        let events = events.filter_map(|(device, one)| Some((one.next_event()?, device)));
        events.min()
    }

    /// Take a request that arrives: the policy decides at once, in the order of the trace.
    fn arrive(
        &mut self,
        at: Nanos,
        accesses: Range<usize>,
        warm_up_accesses: u64,
    ) -> Result<(), LabError> {
        let is_counted = accesses.start as u64 >= warm_up_accesses;
        if self.needs_clock {
            self.actions.clear();
            self.policy.background(at, &mut self.actions);
            if let Some(log) = &mut self.log {
                log.between_accesses(self.trace, accesses.start, &self.actions);
            }
            if let Some(ledger) = &mut self.ledger {
                let result = ledger.between_accesses(&self.actions);
                result.map_err(|violation| self.violation(violation))?;
            }
            self.tally.since_cut[0].add(self.actions.as_slice());
            let job = self.new_job(NONE, NONE, 0);
            self.go_on(job, at)?;
        }
        let first = self.trace.access(accesses.start);
        let unanswered = u32::try_from(accesses.len()).expect("a request has a few pages");
        let request = Request { arrival: at, op: first.op, unanswered, is_counted };
        let request = reuse(&mut self.requests, &mut self.free_requests, request);
        self.outstanding_requests += 1;
        for index in accesses {
            self.access(at, index, request)?;
            self.tally.reach(index + 1, &*self.policy);
        }
        Ok(())
    }

    fn access(&mut self, at: Nanos, index: usize, request: u32) -> Result<(), LabError> {
        let access = self.trace.access(index);
        self.actions.clear();
        self.policy.access(access, &mut self.actions);
        if let Some(ledger) = &mut self.ledger {
            let result = ledger.access(access, &self.actions);
            result.map_err(|violation| self.violation(violation))?;
        }
        if let Some(log) = &mut self.log {
            log.access(self.trace, index, &self.actions);
        }
        self.tally.add(self.trace, index, access.client, &self.actions);
        let job = self.new_job(request, access.page.0, access.client);
        // Two accesses to one page keep their order: the policy has decided the later one on the
        // state that the earlier one leaves.
        let before = std::mem::replace(&mut self.unanswered[access.page.index()], job);
        if before == NONE {
            self.go_on(job, at)
        } else {
            self.jobs[before as usize].waiting.push(job);
            Ok(())
        }
    }

    /// Create a job of the current actions, which an access of a client causes.
    fn new_job(&mut self, request: u32, page: u32, client: u8) -> u32 {
        let mut job = self
            .free_jobs
            .last()
            .map_or_else(Job::default, |&free| std::mem::take(&mut self.jobs[free as usize]));
        job.steps.clear();
        (job.request, job.page, job.next, job.answered_after) = (request, page, 0, 0);
        let actions = std::mem::take(&mut self.actions);
        // Actions behind the `Serve` take the devices' time, but the access does not wait for them.
        let until_answered = actions.until_answered();
        for (place, action) in actions.as_slice().iter().enumerate() {
            match *action {
                Action::Serve { page, op: Op::Read, tier, .. } => {
                    job.steps.push(self.read(tier, page));
                }
                Action::Serve { page, op: Op::Write, tier, .. } => {
                    job.steps.push(self.write(tier, page, Tier::RAM, client));
                }
                Action::Copy { page, source, target } => {
                    if source == target {
                        // The page leaves its slot for another one, as in a log.
                        self.free_slot(page, target);
                    } else {
                        job.steps.push(self.read(source, page));
                    }
                    job.steps.push(self.write(target, page, source, client));
                }
                Action::Drop { page, tier } => self.free_slot(page, tier),
            }
            if place + 1 == until_answered {
                job.answered_after = job.steps.len();
            }
        }
        self.actions = actions;
        reuse(&mut self.jobs, &mut self.free_jobs, job)
    }

    fn read(&mut self, tier: Tier, page: PageId) -> Step {
        Step { tier: tier.0, op: DeviceOp::Read, address: self.address(tier, page), handle: 0 }
    }

    /// Return the write of a page that comes from a tier; an access of a client causes it.
    fn write(&mut self, tier: Tier, page: PageId, source: Tier, client: u8) -> Step {
        let address = self.address(tier, page);
        let handle = self.handles[usize::from(tier.0)].as_mut().map_or(0, |handles| {
            let of = WriteSource { clients: self.clients, groups: self.groups.as_deref() };
            let slot = u32::try_from(address).expect("a cache has at most 2^32 slots");
            handles.choose(of.write(page, slot, source, client))
        });
        Step { tier: tier.0, op: DeviceOp::Write, address, handle }
    }

    fn address(&mut self, tier: Tier, page: PageId) -> u64 {
        let is_disk = usize::from(tier.0) + 1 == self.devices.len();
        match slots_of(&mut self.slots, self.clients, tier) {
            _ if is_disk => self.placement.address(page),
            Some(slots) => slots.slot(page),
            None => 0,
        }
    }

    fn free_slot(&mut self, page: PageId, tier: Tier) {
        if let Some(slots) = slots_of(&mut self.slots, self.clients, tier) {
            slots.drop_page(page);
        }
    }

    /// Starts the next step of a job, or ends it; answers its access when that is due.
    fn go_on(&mut self, job: u32, at: Nanos) -> Result<(), LabError> {
        let one = &self.jobs[job as usize];
        if one.next == one.answered_after && one.request != NONE {
            self.answer(job, at)?;
        }
        let one = &mut self.jobs[job as usize];
        let Some(&Step { tier, op, address, handle }) = one.steps.get(one.next) else {
            self.free_jobs.push(job);
            return Ok(());
        };
        // Before the submission: the device may complete it in the same instant.
        one.next += 1;
        let pages = self.subpages[usize::from(tier)];
        let request = DeviceRequest { op, page: address * u64::from(pages), pages };
        let device = &mut self.devices[usize::from(tier)];
        device.select_handle(handle)?;
        let ticket = device.submit(at, request)?;
        self.tickets[usize::from(tier)].insert(ticket, Waiting { job, since: at, op });
        Ok(())
    }

    /// Answer the access of a job; jobs that wait for its page go on.
    fn answer(&mut self, job: u32, at: Nanos) -> Result<(), LabError> {
        let one = &mut self.jobs[job as usize];
        let (page, request) = (one.page as usize, one.request);
        // The job goes on with what follows the answer, and must not answer twice.
        one.request = NONE;
        let mut waiting = std::mem::take(&mut one.waiting);
        if self.unanswered[page] == job {
            self.unanswered[page] = NONE;
        }
        let asked = &mut self.requests[request as usize];
        asked.unanswered -= 1;
        if asked.unanswered == 0 {
            let response_ns = at.0 - asked.arrival.0;
            self.waited_ns += u128::from(response_ns);
            if asked.is_counted {
                self.responses[asked.op as usize].record(response_ns);
            }
            self.free_requests.push(request);
            self.outstanding_requests -= 1;
        }
        // Only the first one waits for this answer: the others wait for one another.
        for next in waiting.drain(..) {
            self.go_on(next, at)?;
        }
        self.jobs[job as usize].waiting = waiting;
        Ok(())
    }

    /// Lets a device come to a time, and its completed steps be followed by the next ones.
    fn complete(
        &mut self,
        at: Nanos,
        device: usize,
        completed: &mut Vec<Completion>,
    ) -> Result<(), LabError> {
        self.devices[device].advance(at, completed)?;
        for completion in completed.drain(..) {
            self.last_step = self.last_step.max(completion.at);
            let waiting = self.tickets[device].remove(&completion.ticket);
            let Waiting { job, since, op } = waiting.expect("a device completes what it was given");
            let is_write = usize::from(op == DeviceOp::Write);
            self.device_responses[device][is_write].record(completion.at.0 - since.0);
            self.go_on(job, completion.at)?;
        }
        Ok(())
    }

    fn violation(&self, violation: thermocline_core::Violation) -> LabError {
        LabError::Violation { policy: self.policy_name.into(), violation }
    }
}

/// Return the slots of a cache tier that all clients share.
fn slots_of(slots: &mut [Slots], clients: Clients, tier: Tier) -> Option<&mut Slots> {
    slots.get_mut(usize::from(tier.0.checked_sub(clients.get())?))
}

/// Puts a value at a free place, or at a new one; returns the place.
fn reuse<T>(values: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    if let Some(place) = free.pop() {
        values[place as usize] = value;
        return place;
    }
    values.push(value);
    u32::try_from(values.len() - 1).expect("few are on their way at once")
}
