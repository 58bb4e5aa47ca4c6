//! When the flash does its work: buses, dies, and what waits for them.
//!
//! A die, or a whole chip if its dies do not interleave, takes operations from its queues through
//! three stages: commands and incoming bytes on the bus of its channel, the work of the cells, and
//! outgoing bytes on the bus. The bus serves one die at a time, in the order of asking, but commands
//! without bytes first, since they are short and set cells to work. Every plane has a queue, and the
//! operation that came first is next; those of the same kind that are next on other planes of the die
//! go through the stages with it, programs if they are at the same place of their word lines. A plane
//! that has fallen behind thus catches up alone. Without cache registers the next operation enters when the former
//! has left; with them, as soon as the first stage is empty, and each stage holds one.
//!
//! A drive may interrupt the program or erase that the cells are at for reads of the host: the cells stop,
//! what has entered behind it steps aside, and both go on when no read is left.
//!
//! An operation is for a physical page, which may hold several pages. Those that the host writes, and
//! those that garbage collection moves, gather in the controller until a physical page is full.
//!
//! * Source: the operations of the ONFI specification, section 5; the times of SSDsim (Hu et al.,
//!   ICS '11) for pages, planes and copyback; Wu and He, *Reducing SSD Read Latency via NAND Flash Program
//!   and Erase Suspension*, FAST '12, for suspension.
//! * State: 16 bytes per waiting operation, about 300 per die, 16 per event; with suspension 170 per
//!   interrupted operation.
//! * Cost: O(log dies) per stage of an operation; O(1) per operation that nothing can hinder.
//! * Deviations: (1) planes work together whatever pages they work on, where older chips need equal
//!   places in their blocks; (2) with completion at the transfer, planes that are programmed together
//!   complete together; (3) an operation that was interrupted takes as long as it had left, where cells
//!   may repeat a part of it, and an interruption lasts as long as reads come; copybacks are not
//!   interrupted; (4) a read that overtakes the
//!   program of its page is read from the cells all the same, unless the write buffer has it. (5) The
//!   pages that garbage collection gathers are safe at a power failure. (6) With reclaim units of several
//!   blocks, the places in word lines are counted through the unit.

mod accounts;
mod charge;
mod metrics;
mod suspending;
mod times;
mod unhindered;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use self::suspending::{Latencies, Suspended};
use self::times::Times;
use super::config::{Scheduling, SsdConfig, WriteCompletes};
use super::geometry::{Geometry, NONE};
use super::placement::HANDLES_MOST;

pub(crate) use self::charge::Charge;
pub(crate) use self::unhindered::Passed;

/// Planes of a die, at most.
const TOGETHER_MOST: usize = 8;

/// The stages of a die.
const STAGES: usize = 3;
const ENTERING: usize = 0;
const CELLS: usize = 1;
const LEAVING: usize = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Read,
    Program,
    Copyback,
    Erase,
}

/// An operation on a page or block.
#[derive(Clone, Copy, Debug, Default)]
struct Operation {
    /// The request in service that it is part of; NONE for the drive's own, and [`BUFFERED`] for
    /// what the buffer holds.
    owner: u32,
    /// Among the planes of the die or chip.
    plane: u8,
    kind: Kind,
    /// The place of the physical page in its word line, that is which of the cell times it has: for
    /// reads in the lower four bits, for programs in the upper ones.
    levels: u8,
    /// Pages that the bus carries.
    pages: u8,
}

/// The level of pages in the cache of one bit per cell, which no other page has beside it.
pub(crate) const SLC_LEVEL: u8 = 15;

/// The owner of programs that free the buffer.
const BUFFERED: u32 = NONE - 1;

const _: () = assert!(size_of::<Operation>() == 8, "update the `State` line of the module header");

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Empty,
    /// Waiting for the bus.
    Waiting,
    Working,
    /// Waiting for the next stage.
    Done,
}

/// Operations that run together, and how far they are.
#[derive(Clone, Copy, Debug, Default)]
struct Stage {
    phase: Phase,
    count: u8,
    /// Pages that the bus carries, of all operations.
    pages: u16,
    operations: [Operation; TOGETHER_MOST],
}

impl Stage {
    fn operations(&self) -> &[Operation] {
        &self.operations[..usize::from(self.count)]
    }
}

/// A die, or a chip whose dies do not interleave.
#[derive(Clone, Debug, Default)]
struct Unit {
    stages: [Stage; STAGES],
    /// Per plane, with the numbers in the order of coming.
    queues: Vec<VecDeque<(u64, Operation)>>,
    /// Reads that overtake the queue.
    reads: VecDeque<Operation>,
    /// Operations in the queues and among the reads.
    waiting: u32,
    is_touched: bool,
    /// The operation that was interrupted.
    suspended: Option<Box<Suspended>>,
    /// Stops of the operation that the cells are at, or that was interrupted last.
    interruptions: u32,
    /// Time at which the cells have stopped the interrupted operation.
    stopped_ns: u64,
    /// Time at which the cells are done with their operation.
    cells_end_ns: u64,
    /// Since when it works; none if it does not.
    busy_since_ns: Option<u64>,
    busy_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    is_busy: bool,
    /// Stages of units that wait to send a command, by their codes.
    commands: VecDeque<u32>,
    /// Stages of units that wait to send or fetch bytes, by their codes.
    transfers: VecDeque<u32>,
    busy_ns: u64,
}

/// Pages of the host that wait for their cells in the DRAM of the drive, per plane.
#[derive(Clone, Debug, Default)]
struct Buffered {
    /// Per stream: pages of a physical page that is not yet full.
    gathered: [u8; HANDLES_MOST as usize],
    /// Physical pages that are full and not yet programmed, in the order of their programs: the
    /// first flash page of each, and how many of its pages are the buffer's.
    programs: VecDeque<(u32, u8)>,
}

/// The buses and dies of a drive.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent switches of a drive")]
pub(crate) struct Service {
    units: Vec<Unit>,
    channels: Vec<Channel>,
    /// Ends of stages, with their codes below the time: one number compares faster than a pair.
    events: BinaryHeap<Reverse<u128>>,
    /// Units that may have something to begin with.
    touched: Vec<u32>,
    /// Operations that were queued so far.
    pushed: u64,
    /// Per plane; empty if writes do not wait for their cells in a buffer.
    buffered: Vec<Buffered>,
    /// Pages that left the buffer and that nobody has asked for.
    programmed: u32,
    /// Channels whose bus has become free.
    released: Vec<u32>,
    times: Times,
    /// Pages of a physical page, as a power of two.
    program_shift: u32,
    planes_per_unit: u32,
    planes_per_die: u8,
    units_per_channel: u32,
    units_per_chip: u32,
    multi_plane: bool,
    copyback: bool,
    /// Erases that empty a reclaim unit.
    unit_blocks: u32,
    cache_register: bool,
    gc_time: bool,
    reads_overtake: bool,
    completes_at_transfer: bool,
    /// Latencies of a drive that interrupts programs and erases.
    latencies: Option<Latencies>,
    since_ns: u64,
}

impl Service {
    /// Create the idle parts of a drive, from a configuration that was checked.
    pub(crate) fn new(config: &SsdConfig, geometry: &Geometry) -> Self {
        Self {
            units: vec![
                Unit {
                    queues: vec![VecDeque::new(); geometry.planes_per_unit as usize],
                    ..Unit::default()
                };
                geometry.units() as usize
            ],
            channels: vec![Channel::default(); geometry.channels as usize],
            events: BinaryHeap::new(),
            touched: vec![],
            pushed: 0,
            buffered: match config.write_completes {
                WriteCompletes::Buffer => vec![Buffered::default(); geometry.planes as usize],
                WriteCompletes::Program | WriteCompletes::Transfer => vec![],
            },
            programmed: 0,
            released: vec![],
            times: Times::new(config),
            program_shift: config.pages_per_program.trailing_zeros(),
            planes_per_unit: geometry.planes_per_unit,
            planes_per_die: small(geometry.planes_per_die),
            units_per_channel: geometry.units_per_channel,
            units_per_chip: geometry.units_per_chip,
            multi_plane: config.multi_plane,
            copyback: config.copyback,
            unit_blocks: config.unit_blocks(),
            cache_register: config.cache_register,
            gc_time: config.gc_time,
            reads_overtake: config.scheduling == Scheduling::ReadFirst,
            completes_at_transfer: config.write_completes == WriteCompletes::Transfer,
            latencies: config.suspension.map(Latencies::new),
            since_ns: 0,
        }
    }

    /// Return the time at which the next stage ends; `u64::MAX` if none is running.
    pub(crate) fn next_event_ns(&self) -> u64 {
        self.events.peek().map_or(u64::MAX, |next| time_of(next.0))
    }

    /// Return `true` if nothing is at work, and nothing waits to begin.
    pub(crate) fn is_idle(&self) -> bool {
        self.events.is_empty() && self.touched.is_empty() && self.released.is_empty()
    }

    /// Return the code of the next stage that ends by then, or `None`.
    #[inline]
    pub(crate) fn pop_event(&mut self, until_ns: u64) -> Option<u32> {
        loop {
            if self.next_event_ns() > until_ns {
                return None;
            }
            let next = self.events.pop()?.0;
            // A suspended operation leaves its old end in the heap; the end of what really runs has
            // another time.
            if self.latencies.is_none() || self.is_valid(code_of(next), time_of(next)) {
                return Some(code_of(next));
            }
        }
    }

    fn schedule(&mut self, at_ns: u64, code: u32) {
        self.events.push(Reverse(u128::from(at_ns) << u64::BITS | u128::from(code)));
    }

    /// Create the charge for the operations of a request that writes to a stream.
    pub(crate) const fn charge(&mut self, owner: u32, stream: usize) -> Charge<'_> {
        Charge::new(self, owner, stream)
    }

    /// Create the charge for the rest of physical pages that a stream has begun, for a request.
    pub(crate) const fn charge_padding(&mut self, owner: u32, stream: usize) -> Charge<'_> {
        Charge::padding(self, owner, stream)
    }

    /// Return the account of operations that fold pages.
    pub(crate) const fn charge_folding(&mut self) -> Charge<'_> {
        Charge::folding(self)
    }

    /// Which of the cell times a read has of the physical page that `within` is in.
    pub(crate) fn read_level(&self, within: u32) -> u8 {
        level(within >> self.program_shift, &self.times.reads)
    }

    /// Queues a read of pages of a physical page; one of the host may overtake.
    pub(crate) fn read(&mut self, plane: u32, levels: u8, pages: u8, owner: u32) {
        self.queue_read(plane, levels, pages, owner, self.reads_overtake);
    }

    /// Queues the read of pages that leave the cache of one bit per cell.
    pub(crate) fn read_to_fold(&mut self, plane: u32, pages: u8) {
        self.queue_read(plane, SLC_LEVEL, pages, NONE, false);
    }

    fn queue_read(&mut self, plane: u32, levels: u8, pages: u8, owner: u32, overtakes: bool) {
        let plane_in_unit = self.plane_in_unit(plane);
        let operation = Operation { owner, plane: plane_in_unit, kind: Kind::Read, levels, pages };
        self.push(plane, operation, overtakes);
    }

    /// Return `true` if the buffer has a flash page whose program is queued or on its way.
    pub(crate) fn is_buffered(&self, plane: u32, page: u32) -> bool {
        self.buffered.get(plane as usize).is_some_and(|buffered| {
            let first = page >> self.program_shift << self.program_shift;
            // The DRAM still has the bytes, so a read need not wait for the program that is on its
            // way.
            buffered.programs.iter().any(|program| program.0 == first)
        })
    }

    /// Return the number of pages that left the buffer since the last call.
    pub(crate) const fn take_programmed(&mut self) -> u32 {
        std::mem::replace(&mut self.programmed, 0)
    }

    fn plane_in_unit(&self, plane: u32) -> u8 {
        small(plane % self.planes_per_unit)
    }

    fn push(&mut self, plane: u32, operation: Operation, overtakes: bool) {
        let index = plane / self.planes_per_unit;
        let unit = &mut self.units[index as usize];
        unit.waiting += 1;
        if overtakes {
            unit.reads.push_back(operation);
        } else {
            unit.queues[usize::from(operation.plane)].push_back((self.pushed, operation));
            self.pushed += 1;
        }
        if !std::mem::replace(&mut unit.is_touched, true) {
            self.touched.push(index);
        }
    }

    /// Lets every unit that was given something, or got a stage free, go on.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        for place in 0..self.touched.len() {
            let index = self.touched[place];
            self.units[index as usize].is_touched = false;
            self.go_on(index, now_ns);
        }
        self.touched.clear();
        // Only now, so that a command that follows a transfer comes before the next transfer.
        while let Some(channel) = self.released.pop() {
            self.release_bus(channel, now_ns);
        }
    }

    /// End a stage. Append the requests whose operations complete with it, once for each, and the number of
    /// pages that their reads bring.
    pub(crate) fn finish_stage(&mut self, code: u32, completed: &mut Vec<(u32, u8)>) {
        let (index, stage) = (code / 4, (code % 4) as usize);
        let completes_at_transfer = self.completes_at_transfer;
        let first_plane = index * self.planes_per_unit;
        let unit = &mut self.units[index as usize];
        let ended = &mut unit.stages[stage];
        let kind = ended.operations[0].kind;
        let is_answered = match (stage, kind) {
            // SSDsim answers a write at the end of the bus transfer, while the cells still program;
            // `write_completes` says which rule holds.
            (ENTERING, Kind::Program) => completes_at_transfer,
            (CELLS, Kind::Read) => false,
            (CELLS | LEAVING, _) => true,
            (_, _) => false,
        };
        if is_answered {
            let count = usize::from(ended.count);
            for operation in &mut ended.operations[..count] {
                match std::mem::replace(&mut operation.owner, NONE) {
                    NONE => {}
                    BUFFERED => {
                        let plane = first_plane + u32::from(operation.plane);
                        let programs = &mut self.buffered[plane as usize].programs;
                        let (_, pages) = programs.pop_front().expect("what is programmed waited");
                        self.programmed += u32::from(pages);
                    }
                    owner if kind == Kind::Read => completed.push((owner, operation.pages)),
                    owner => completed.push((owner, 0)),
                }
            }
        }
        let is_over = stage == LEAVING || (stage == CELLS && kind != Kind::Read);
        ended.phase = if is_over { Phase::Empty } else { Phase::Done };
        if !std::mem::replace(&mut unit.is_touched, true) {
            self.touched.push(index);
        }
        if stage != CELLS {
            let channel = index / self.units_per_channel;
            self.released.push(channel);
        }
    }

    fn release_bus(&mut self, channel: u32, now_ns: u64) {
        let entry = &mut self.channels[channel as usize];
        entry.is_busy = false;
        if let Some(code) = entry.commands.pop_front().or_else(|| entry.transfers.pop_front()) {
            self.take_bus(channel, code, now_ns);
        }
    }

    fn ask_bus(&mut self, index: u32, stage: usize, now_ns: u64) {
        let code = code(index, stage);
        let channel = index / self.units_per_channel;
        let entry = &mut self.channels[channel as usize];
        if entry.is_busy {
            let waiting = &mut self.units[index as usize].stages[stage];
            waiting.phase = Phase::Waiting;
            if stage == ENTERING && waiting.operations[0].kind != Kind::Program {
                entry.commands.push_back(code);
            } else {
                entry.transfers.push_back(code);
            }
        } else {
            self.take_bus(channel, code, now_ns);
        }
    }

    fn take_bus(&mut self, channel: u32, code: u32, now_ns: u64) {
        let stage = &mut self.units[(code / 4) as usize].stages[(code % 4) as usize];
        stage.phase = Phase::Working;
        let (count, pages) = (u64::from(stage.count), u64::from(stage.pages));
        let Times { command, transfer, plane_gap, .. } = self.times;
        let takes_ns = match (stage.operations[0].kind, (code % 4) as usize) {
            (_, LEAVING) => pages * transfer,
            // Planes that work together share the cell time, but each needs its command and its
            // bytes, with tDBSY between.
            (Kind::Program, _) => count * command + pages * transfer + (count - 1) * plane_gap,
            (Kind::Copyback, _) => count * 2 * command,
            (Kind::Read | Kind::Erase, _) => count * command,
        };
        let entry = &mut self.channels[channel as usize];
        entry.is_busy = true;
        entry.busy_ns += takes_ns;
        self.schedule(now_ns.saturating_add(takes_ns), code);
    }

    /// Moves operations of a unit from stage to stage, the last first, and lets new ones in.
    fn go_on(&mut self, index: u32, now_ns: u64) {
        let unit = &mut self.units[index as usize];
        let [_, cells, leaving] = &mut unit.stages;
        let leaves = cells.phase == Phase::Done && leaving.phase == Phase::Empty;
        if leaves {
            *leaving = *cells;
            cells.phase = Phase::Empty;
        }
        if self.latencies.is_some() {
            self.suspend(index, now_ns);
        }
        let unit = &mut self.units[index as usize];
        let [entering, cells, _] = &mut unit.stages;
        if entering.phase == Phase::Done && cells.phase == Phase::Empty {
            *cells = *entering;
            entering.phase = Phase::Empty;
            cells.phase = Phase::Working;
            let takes_ns = self.times.of_cells(cells.operations());
            let at_ns = now_ns.max(unit.stopped_ns).saturating_add(takes_ns);
            unit.cells_end_ns = at_ns;
            // The limit of interruptions is per operation: what the cells begin now has had none.
            if unit.suspended.is_none() {
                unit.interruptions = 0;
            }
            self.schedule(at_ns, code(index, CELLS));
        }
        let waits_for_reads = self.latencies.is_some() && self.resume(index, now_ns);
        let is_free = |stage: &Stage| stage.phase == Phase::Empty;
        let [entering, cells, leaving] = &self.units[index as usize].stages;
        let has_room =
            // Without cache registers the die has one page register, which the former operation
            // occupies until its last byte has left.
            is_free(entering) && (self.cache_register || (is_free(cells) && is_free(leaving)));
        let enters = has_room && !waits_for_reads && self.take_in(index);
        let unit = &mut self.units[index as usize];
        let is_busy = enters || unit.suspended.is_some() || !unit.stages.iter().all(is_free);
        match (is_busy, unit.busy_since_ns) {
            (true, None) => unit.busy_since_ns = Some(now_ns),
            (false, Some(since_ns)) => {
                unit.busy_ns += now_ns - since_ns;
                unit.busy_since_ns = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
        if leaves {
            self.ask_bus(index, LEAVING, now_ns);
        }
        if enters {
            self.ask_bus(index, ENTERING, now_ns);
        }
    }

    /// Takes what comes next into the first stage; whether there is something.
    fn take_in(&mut self, index: u32) -> bool {
        let Unit { stages: [entering, ..], queues, reads, waiting, .. } =
            &mut self.units[index as usize];
        if *waiting == 0 {
            return false;
        }
        (entering.count, entering.pages) = (0, 0);
        let mut add = |operation: Operation| {
            entering.operations[usize::from(entering.count)] = operation;
            entering.count += 1;
            entering.pages += u16::from(operation.pages);
        };
        let die_of = |plane: u8| plane / self.planes_per_die;
        if let Some(first) = reads.pop_front() {
            add(first);
            let mut planes = 1_u128 << first.plane;
            while let Some(next) = reads.front().filter(|next| {
                self.multi_plane
                    && die_of(next.plane) == die_of(first.plane)
                    && planes >> next.plane & 1 == 0
            }) {
                planes |= 1 << next.plane;
                add(*next);
                reads.pop_front();
            }
        } else {
            let heads = queues.iter().filter_map(VecDeque::front);
            let Some(&(_, first)) = heads.min_by_key(|head| head.0) else { return false };
            let (start, of_die) = if self.multi_plane {
                (die_of(first.plane) * self.planes_per_die, self.planes_per_die)
            } else {
                (first.plane, 1)
            };
            for queue in queues.iter_mut().skip(start.into()).take(of_die.into()) {
                let goes_along = |&(_, head): &(u64, Operation)| {
                    head.kind == first.kind
                        && (head.kind == Kind::Read || head.levels == first.levels)
                };
                if queue.front().is_some_and(goes_along)
                    && let Some((_, operation)) = queue.pop_front()
                {
                    add(operation);
                }
            }
        }
        *waiting -= u32::from(entering.count);
        entering.phase = Phase::Waiting;
        true
    }

    /// Forgets all that waits or is on its way.
    pub(crate) fn stop(&mut self, now_ns: u64) {
        self.events.clear();
        self.touched.clear();
        self.released.clear();
        self.buffered.iter_mut().for_each(|buffered| *buffered = Buffered::default());
        self.programmed = 0;
        for unit in &mut self.units {
            unit.stages = [Stage::default(); STAGES];
            unit.suspended = None;
            unit.stopped_ns = 0;
            unit.queues.iter_mut().for_each(VecDeque::clear);
            unit.reads.clear();
            unit.waiting = 0;
            unit.is_touched = false;
            unit.busy_ns += unit.busy_since_ns.take().map_or(0, |since_ns| now_ns - since_ns);
        }
        for channel in &mut self.channels {
            channel.is_busy = false;
            channel.commands.clear();
            channel.transfers.clear();
        }
    }
}

/// Return the time that an event's number encodes.
const fn time_of(number: u128) -> u64 {
    (number >> u64::BITS) as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the code stands in the low half")]
const fn code_of(number: u128) -> u32 {
    number as u32
}

const fn code(index: u32, stage: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "there are three stages")]
    let stage = stage as u32;
    index * 4 + stage
}

/// Return the index of the cell time that a physical page has.
fn level(within: u32, times: &[u64]) -> u8 {
    match times.len() {
        1 => 0,
        levels => small(within % u32::try_from(levels).unwrap_or(1)),
    }
}

/// Convert a number that the limits of the configuration keep small.
fn small(number: u32) -> u8 {
    u8::try_from(number).expect("at most 128 planes share a unit, and pages have 16 levels")
}
