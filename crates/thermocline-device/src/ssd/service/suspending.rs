//! Programs and erases that stop for reads of the host, and go on after them.

use super::super::check::us_to_ns;
use super::super::geometry::NONE;
use super::super::suspension::Suspension;
use super::{CELLS, ENTERING, Kind, LEAVING, Phase, Service, Stage, code};

/// Latencies of stops, and the most stops of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latencies {
    program_ns: u64,
    erase_ns: u64,
    times: u32,
}

/// An operation that was interrupted.
#[derive(Clone, Debug)]
pub(super) struct Suspended {
    /// The stage that entered behind it; empty if none did.
    entering: Stage,
    cells: Stage,
    /// Time that the cells still need.
    left_ns: u64,
}

impl Latencies {
    pub(super) fn new(config: Suspension) -> Self {
        Self {
            program_ns: us_to_ns(config.program_us),
            erase_ns: us_to_ns(config.erase_us),
            times: config.times,
        }
    }

    /// Return the time in which the cells suspend an operation, or `None` if they do not suspend this kind.
    const fn of(self, kind: Kind) -> Option<u64> {
        match kind {
            Kind::Program => Some(self.program_ns),
            Kind::Erase => Some(self.erase_ns),
            Kind::Read | Kind::Copyback => None,
        }
    }
}

impl Suspended {
    pub(super) const fn stages(&self) -> [&Stage; 2] {
        [&self.entering, &self.cells]
    }
}

impl Stage {
    /// Return `true` if it has a read that a request waits for.
    fn is_read_of_host(&self) -> bool {
        let is_of_host = self.operations[0].kind == Kind::Read && self.operations[0].owner != NONE;
        self.phase != Phase::Empty && is_of_host
    }
}

impl Service {
    /// Return `true` if an event is not the end of what was interrupted before it came.
    pub(super) fn is_valid(&self, event: u32, at_ns: u64) -> bool {
        let unit = &self.units[(event / 4) as usize];
        let is_at_work = unit.stages[CELLS].phase == Phase::Working && unit.cells_end_ns == at_ns;
        is_at_work || (event % 4) as usize != CELLS
    }

    /// Interrupts what the cells of a unit are at, if a read of the host waits and is sooner done so.
    pub(super) fn suspend(&mut self, index: u32, now_ns: u64) {
        let Some(latencies) = self.latencies else { return };
        let unit = &mut self.units[index as usize];
        let [entering, cells, _] = &mut unit.stages;
        let has_read = entering.is_read_of_host();
        // An operation that is on the bus cannot step aside.
        let can_step_aside = matches!(entering.phase, Phase::Empty | Phase::Done);
        let waits = has_read || (can_step_aside && !unit.reads.is_empty());
        let is_first = unit.suspended.is_none() && unit.interruptions < latencies.times;
        if cells.phase != Phase::Working || !waits || !is_first {
            return;
        }
        let Some(stops_ns) = latencies.of(cells.operations[0].kind) else { return };
        let left_ns = unit.cells_end_ns.saturating_sub(now_ns);
        // To stop would take as long as to finish: the read is not done sooner.
        if left_ns <= stops_ns {
            return;
        }
        // A read that has entered is what the cells stop for, so it stays; anything else would be
        // in its way.
        let aside = if has_read { Stage::default() } else { std::mem::take(entering) };
        let cells = std::mem::take(cells);
        unit.suspended = Some(Box::new(Suspended { entering: aside, cells, left_ns }));
        unit.interruptions += 1;
        unit.stopped_ns = now_ns.saturating_add(stops_ns);
    }

    /// Lets what was interrupted go on if no read is left; returns `true` if a unit takes nothing in
    /// until then.
    pub(super) fn resume(&mut self, index: u32, now_ns: u64) -> bool {
        let unit = &mut self.units[index as usize];
        if unit.suspended.is_none() || !unit.reads.is_empty() {
            return false;
        }
        let is_free = |stage: usize| unit.stages[stage].phase == Phase::Empty;
        let is_over =
            is_free(ENTERING) && is_free(CELLS) && (self.cache_register || is_free(LEAVING));
        let Some(suspended) = unit.suspended.take_if(|_| is_over) else { return true };
        let Suspended { entering, cells, left_ns } = *suspended;
        unit.stages[ENTERING] = entering;
        unit.stages[CELLS] = cells;
        // Deviation (3): no part of the operation is repeated.
        unit.cells_end_ns = now_ns.saturating_add(left_ns);
        let at_ns = unit.cells_end_ns;
        self.schedule(at_ns, code(index, CELLS));
        false
    }
}
