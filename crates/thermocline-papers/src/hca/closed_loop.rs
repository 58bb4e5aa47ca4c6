//! Readers that wait for each I/O before the next, on a hierarchy whose disk has a queue.
//!
//! RAM and SSD take a constant time, and the SSD serves one I/O at a time. The disk is simulated: it
//! is given a few requests at once, among which it chooses, and the others wait in the order in which
//! they came.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use thermocline_core::random::SplitMix64;
use thermocline_core::{Access, Action, Actions, BoxedPolicy, Nanos, Op, PageId, Tier};
use thermocline_device::hdd::Hdd;
use thermocline_device::queueing::{Completion, DeviceOp, DeviceRequest, QueueingError, Ticket};

use super::Writes;

/// Counts of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Page accesses by the tier that each was found in, the disk last.
    pub(super) hits: [u64; 3],
    /// Page accesses that a reader waited for.
    pub(super) reads: u64,
    /// Total waiting time.
    pub(super) waited_ns: u64,
    /// Page accesses to SSD and disk that a page was found in.
    pub(super) storage: u64,
}

/// A hierarchy that knows what time it is.
#[derive(Debug)]
pub(super) struct Machine {
    policy: BoxedPolicy,
    needs_clock: bool,
    actions: Actions,
    /// Service time of one I/O in RAM, and on the SSD if there is one.
    service: Vec<Nanos>,
    /// Time at which the SSD has completed all its work.
    ssd_free_at: Nanos,
    disk: Disk,
    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    tallies: Vec<Tally>,
    /// Readers by when they read next.
    idle: BinaryHeap<Reverse<(Nanos, u32)>>,
}

/// The disk, and what waits for it.
#[derive(Debug)]
pub(super) struct Disk {
    hdd: Hdd,
    /// Requests that the disk is given at once.
    queue_depth: usize,
    /// Pages of the disk from one page of the file system to the next.
    stride: u64,
    /// Requests that it was not given yet, and their jobs.
    waiting: VecDeque<(u32, DeviceRequest)>,
    /// The jobs of those that it has.
    given: BTreeMap<Ticket, u32>,
}

/// Work that an access, or the policy on its own, asks of the devices, one step after the other.
#[derive(Debug, Default)]
struct Job {
    steps: Vec<Step>,
    next: usize,
    /// Number of steps after which the reader is answered.
    answered_after: usize,
    /// Whoever waits for the answer.
    reader: Option<Reader>,
}

/// One I/O.
#[derive(Clone, Copy, Debug)]
struct Step {
    tier: Tier,
    op: DeviceOp,
    page: PageId,
}

/// A reader that waits.
#[derive(Clone, Copy, Debug)]
struct Reader {
    number: u32,
    since: Nanos,
    interval: usize,
}

/// Pages that are accessed.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// Threads that read.
    pub(super) readers: u32,
    /// Additional writes.
    pub(super) writes: Option<Writes>,
    /// Pages of the working set, the log's last.
    pub(super) pages: u32,
    /// The seed of all accesses.
    pub(super) seed: u64,
}

impl Disk {
    /// Create a disk that is given `queue_depth` requests at once, with pages `stride` apart.
    pub(super) fn new(hdd: Hdd, queue_depth: usize, stride: u64) -> Self {
        let (waiting, given) = (VecDeque::new(), BTreeMap::new());
        Self { hdd, queue_depth, stride, waiting, given }
    }

    /// Takes a request of a job, whose first page is one of the file system's.
    pub(super) fn submit(
        &mut self,
        at: Nanos,
        job: u32,
        request: DeviceRequest,
    ) -> Result<(), QueueingError> {
        let page = request.page * self.stride;
        self.waiting.push_back((job, DeviceRequest { page, ..request }));
        self.fill(at)
    }

    /// Return the time of the next event, if nothing more is submitted.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.hdd.next_event()
    }

    /// Lets everything up to `to` happen; says what was completed when.
    pub(super) fn advance(&mut self, to: Nanos) -> Result<Vec<(Nanos, u32)>, QueueingError> {
        let mut completed = vec![];
        self.hdd.advance(to, &mut completed);
        let job = |Completion { ticket, at }| {
            (at, self.given.remove(&ticket).expect("the disk completes what it was given"))
        };
        let completed = completed.into_iter().map(job).collect();
        self.fill(to)?;
        Ok(completed)
    }

    /// Gives the disk what it may have at once.
    fn fill(&mut self, at: Nanos) -> Result<(), QueueingError> {
        while self.given.len() < self.queue_depth
            && let Some((job, request)) = self.waiting.pop_front()
        {
            self.given.insert(self.hdd.submit(at, request)?, job);
        }
        Ok(())
    }
}

impl Machine {
    /// Create a simulation with the service time of one I/O in RAM, and on the SSD if there is one.
    pub(super) fn new(
        policy: BoxedPolicy,
        needs_clock: bool,
        service: Vec<Nanos>,
        disk: Disk,
    ) -> Self {
        Self {
            policy,
            needs_clock,
            actions: Actions::new(),
            service,
            ssd_free_at: Nanos(0),
            disk,
            jobs: vec![],
            free_jobs: vec![],
            tallies: vec![],
            idle: BinaryHeap::new(),
        }
    }

    /// Run a load for some time, and report every interval.
    pub(super) fn run(
        mut self,
        load: &Load,
        duration: Nanos,
        interval: Nanos,
    ) -> Result<Vec<Tally>, QueueingError> {
        let intervals = duration.0.div_ceil(interval.0);
        self.tallies = vec![Tally::default(); usize::try_from(intervals).unwrap_or(usize::MAX)];
        self.idle = (0..load.readers).map(|reader| Reverse((Nanos(0), reader))).collect();
        let mut accesses = Accesses::new(load);
        loop {
            let due = self.idle.peek().map(|next| next.0.0).filter(|&at| at < duration);
            let event = self.disk.next_event();
            if let Some(now) = due
                // A reader that is due at the instant of an event goes first, so that the order
                // does not depend on the heap.
                && event.is_none_or(|event| now <= event)
            {
                let Some(Reverse((_, number))) = self.idle.pop() else { break };
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the intervals of a run are in memory"
                )]
                let interval = (now.0 / interval.0) as usize;
                self.read(now, Reader { number, since: now, interval }, &mut accesses)?;
            } else if let Some(event) = event
                && (due.is_some() || self.idle.len() < load.readers as usize)
            {
                for (at, job) in self.disk.advance(event)? {
                    self.go_on(job, at)?;
                }
            } else {
                break;
            }
        }
        Ok(self.tallies)
    }

    /// Let a reader read its next page; the write that is due after that number of reads follows.
    fn read(
        &mut self,
        now: Nanos,
        reader: Reader,
        accesses: &mut Accesses,
    ) -> Result<(), QueueingError> {
        self.tallies[reader.interval].reads += 1;
        self.access(now, accesses.read(), reader.interval, Some(reader))?;
        for page in accesses.writes() {
            let access = Access { page, op: Op::Write, client: 0 };
            self.access(now, access, reader.interval, None)?;
        }
        Ok(())
    }

    /// Process one page access, for which a reader may wait.
    fn access(
        &mut self,
        now: Nanos,
        access: Access,
        interval: usize,
        reader: Option<Reader>,
    ) -> Result<(), QueueingError> {
        let mut actions = std::mem::take(&mut self.actions);
        if self.needs_clock {
            actions.clear();
            self.policy.background(now, &mut actions);
            for &action in actions.as_slice() {
                let job = self.job(&[action], None);
                self.go_on(job, now)?;
            }
        }
        actions.clear();
        self.policy.access(access, &mut actions);
        let serve = actions.as_slice().iter().find_map(|action| match action {
            Action::Serve { found, .. } => Some(*found),
            Action::Copy { .. } | Action::Drop { .. } => None,
        });
        let tally = &mut self.tallies[interval];
        if let Some(found) = serve {
            let is_disk = found.index() == self.service.len();
            tally.hits[if is_disk { 2 } else { found.index() }] += 1;
            tally.storage += u64::from(found != Tier::RAM);
        }
        let job = self.job(actions.as_slice(), reader);
        self.actions = actions;
        self.go_on(job, now)
    }

    /// Create a job of some actions.
    fn job(&mut self, actions: &[Action], reader: Option<Reader>) -> u32 {
        let number = self.free_jobs.pop().unwrap_or_else(|| {
            self.jobs.push(Job::default());
            u32::try_from(self.jobs.len() - 1).expect("few jobs are on their way at once")
        });
        let job = &mut self.jobs[number as usize];
        job.steps.clear();
        // Steps after the answer (feeding flash, cleaning) take the devices' time, but no reader
        // waits for them.
        (job.next, job.answered_after, job.reader) = (0, 0, reader);
        for &action in actions {
            match action {
                Action::Serve { page, op, tier, .. } => {
                    let op = match op {
                        Op::Read => DeviceOp::Read,
                        Op::Write => DeviceOp::Write,
                    };
                    job.steps.push(Step { tier, op, page });
                    job.answered_after = job.steps.len();
                }
                // Memory takes its part while the other device is busy.
                Action::Copy { page, source, target } => {
                    if source != Tier::RAM {
                        job.steps.push(Step { tier: source, op: DeviceOp::Read, page });
                    }
                    if target != Tier::RAM {
                        job.steps.push(Step { tier: target, op: DeviceOp::Write, page });
                    }
                }
                Action::Drop { .. } => {}
            }
        }
        number
    }

    /// Takes the steps of a job up to one for which it waits for the disk.
    fn go_on(&mut self, number: u32, mut now: Nanos) -> Result<(), QueueingError> {
        loop {
            let job = &mut self.jobs[number as usize];
            if job.next == job.answered_after
                && let Some(Reader { number, since, interval }) = job.reader.take()
            {
                self.tallies[interval].waited_ns += now.0 - since.0;
                self.idle.push(Reverse((now, number)));
            }
            let Some(&step) = job.steps.get(job.next) else {
                self.free_jobs.push(number);
                return Ok(());
            };
            job.next += 1;
            match self.service.get(step.tier.index()) {
                None => {
                    let Step { op, page, .. } = step;
                    let request = DeviceRequest { op, page: page.0.into(), pages: 1 };
                    return self.disk.submit(now, number, request);
                }
                Some(service) if step.tier == Tier::RAM => now.0 += service.0,
                Some(service) => {
                    now.0 = now.max(self.ssd_free_at).0 + service.0;
                    self.ssd_free_at = now;
                }
            }
        }
    }
}

/// The pages that a load reads and writes.
#[derive(Debug)]
pub(super) struct Accesses {
    random: SplitMix64,
    writes: Option<Writes>,
    pages: u32,
    /// The pages before the log.
    data_pages: u32,
    reads: u64,
}

impl Accesses {
    pub(super) fn new(load: &Load) -> Self {
        let log_share = load.writes.map_or(0.0, |writes| writes.log_share);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the pages is a number of pages"
        )]
        let data_pages = (f64::from(load.pages) * (1.0 - log_share)) as u32;
        let Load { writes, pages, seed, .. } = *load;
        Self { random: SplitMix64::new(seed), writes, pages, data_pages, reads: 0 }
    }

    /// Return the next read.
    pub(super) fn read(&mut self) -> Access {
        self.reads += 1;
        Access { page: below(&mut self.random, self.data_pages), op: Op::Read, client: 0 }
    }

    /// Return the pages that are written after the last read.
    pub(super) fn writes(&mut self) -> Vec<PageId> {
        let Some(writes) = self.writes else { return vec![] };
        let mut pages = vec![];
        if self.reads.is_multiple_of(writes.reads_per_batch) {
            let data_pages = self.data_pages;
            let batch = (0..writes.pages_per_batch).map(|_| below(&mut self.random, data_pages));
            pages.extend(batch);
        }
        if self.reads.is_multiple_of(writes.reads_per_log_write) {
            let count = writes.pages_per_log_write;
            let places = ((self.pages - self.data_pages) / count).max(1);
            let first = self.data_pages + below(&mut self.random, places).0 * count;
            pages.extend((first..first + count).map(|page| PageId(page.min(self.pages - 1))));
        }
        pages
    }
}

/// Return a page below that one, all alike: the upper half of the product with 32 random bits.
fn below(random: &mut SplitMix64, pages: u32) -> PageId {
    let page = (((random.bits() >> 32) * u64::from(pages)) >> 32) as u32;
    PageId(page)
}

#[cfg(test)]
mod tests {
    use thermocline_core::{Geometry, PageCost, Setup, registry};
    use thermocline_device::hdd::{HddConfig, Scheduling};

    use super::*;

    const RAM_NS: u64 = 10_000;
    const SECOND_NS: u64 = 1_000_000_000;

    /// Return a RAM of so many pages over a disk, and this many pages all over the disk.
    fn machine(capacity_pages: u32, pages: u32, queue_depth: usize) -> Machine {
        let entry = registry::find("lru").unwrap();
        let setup = Setup {
            costs: vec![PageCost { read_ms: 1.0, write_ms: 1.0 }; 2],
            ..Setup::new(Geometry::linear(pages), vec![capacity_pages])
        };
        let policy = entry.build(&setup, &entry.values(&[]).unwrap()).unwrap();
        let config =
            HddConfig { scheduling: Scheduling::Sstf, ..HddConfig::preset("st380011a").unwrap() };
        let hdd = Hdd::new(&config, 8192).unwrap();
        let stride = hdd.capacity_pages() / u64::from(pages);
        let disk = Disk::new(hdd, queue_depth, stride);
        Machine::new(policy, entry.capabilities.needs_clock, vec![Nanos(RAM_NS)], disk)
    }

    fn load(readers: u32, pages: u32) -> Load {
        Load { readers, writes: None, pages, seed: 1 }
    }

    /// Runs a load for some seconds, in intervals of one.
    fn run(machine: Machine, load: &Load, seconds: u64) -> Vec<Tally> {
        machine.run(load, Nanos(seconds * SECOND_NS), Nanos(SECOND_NS)).unwrap()
    }

    #[test]
    fn one_reader_waits_for_each_io() {
        // Every page fits RAM: after the first pass only RAM answers.
        let tallies = run(machine(8, 8, 1), &load(1, 8), 2);
        let [first, last] = tallies[..] else { panic!("two intervals") };
        assert_eq!(first.hits[2], 8);
        assert_eq!(first.storage, 8);
        let reads = SECOND_NS / RAM_NS;
        assert!(last.reads.abs_diff(reads) <= 1 && last.hits == [last.reads, 0, 0], "{last:?}");
        assert_eq!(last.waited_ns, last.reads * RAM_NS);
        // Eight requests to the disk, each a seek and half a turn, are well below a second.
        let on_disk_ns = first.waited_ns - first.reads * RAM_NS;
        assert!((20_000_000..200_000_000).contains(&on_disk_ns), "{on_disk_ns}");
    }

    #[test]
    fn many_readers_queue_and_the_disk_chooses_among_them() {
        // A RAM of one page out of many: nearly every read takes the disk.
        let measure = |readers, queue_depth| {
            let tallies = run(machine(1, 40_000, queue_depth), &load(readers, 40_000), 20);
            let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>() as f64;
            let (reads, waited_ns) = (sum(|one| one.reads), sum(|one| one.waited_ns));
            // As many as there are readers are on their way at any time.
            let outstanding = waited_ns / (20.0 * SECOND_NS as f64);
            assert!((outstanding / f64::from(readers) - 1.0).abs() < 0.02, "{outstanding}");
            reads / 20.0
        };
        let alone = measure(1, 1);
        let in_order = measure(32, 1);
        let chosen = measure(32, 32);
        assert!((60.0..110.0).contains(&alone), "{alone} I/Os per second");
        assert!((in_order / alone - 1.0).abs() < 0.05, "{in_order} and {alone}");
        assert!(chosen > in_order * 1.4, "{chosen} and {in_order}");
    }

    #[test]
    fn writes_come_after_so_many_reads() {
        let writes = Writes {
            reads_per_batch: 10,
            pages_per_batch: 3,
            reads_per_log_write: 50,
            pages_per_log_write: 4,
            log_share: 0.5,
        };
        let load = Load { writes: Some(writes), ..load(1, 64) };
        let tallies = run(machine(64, 64, 32), &load, 1);
        let Tally { reads, hits, .. } = tallies[0];
        let writes = reads / 10 * 3 + reads / 50 * 4;
        assert_eq!(hits.iter().sum::<u64>(), reads + writes);
        // Only half of the pages are read and written at random; the log is the other half.
        assert_eq!(hits[2], 64);
    }
}
