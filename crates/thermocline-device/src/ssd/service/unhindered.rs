//! Operations that nothing can hinder: their ends are computed at once, without an event per stage.
//!
//! Parts of a drive meet at the bus of a channel only. If the drive is idle but for operations that
//! came at this instant, at most one on each channel, and nothing arrives before the last of them
//! ends, then each takes its stages without waiting.

use super::{BUFFERED, Kind, Operation, Service, Times, Unit};
use crate::ssd::geometry::NONE;

/// An operation that has run: when its request was answered, where, and whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Passed {
    pub(crate) answered_ns: u64,
    unit: u32,
    pub(crate) owner: u32,
}

/// Times of an operation's stages, in nanoseconds.
#[derive(Clone, Copy)]
struct Stages {
    /// Commands and bytes on the bus.
    entering: u64,
    /// The work of the cells.
    cells: u64,
    /// Bytes on the bus.
    leaving: u64,
}

impl Service {
    /// Runs all that waits from start to end if nothing can hinder it and it ends until then; returns
    /// when the last ends. Appends what was answered, in the order of the events that it would have
    /// had. `None`, with nothing changed, if it has to take its stages one by one.
    pub(crate) fn run_unhindered(
        &mut self,
        now_ns: u64,
        until_ns: u64,
        passed: &mut Vec<Passed>,
    ) -> Option<u64> {
        let is_idle = self.events.is_empty() && self.released.is_empty();
        if !is_idle || self.touched.is_empty() || self.touched.len() > self.channels.len() {
            return None;
        }
        let channel_of = |index: u32| index / self.units_per_channel;
        for (place, &index) in self.touched.iter().enumerate() {
            let is_alone =
                self.touched[..place].iter().all(|&other| channel_of(other) != channel_of(index));
            let unit = &self.units[index as usize];
            // Two units on one channel would meet at its bus, and two operations of a unit wait for
            // each other.
            if unit.waiting != 1 || unit.busy_since_ns.is_some() || !is_alone {
                return None;
            }
            if self.times.of(*unit.only()?).end_ns(now_ns) > until_ns {
                return None;
            }
        }
        let mut last_ns = now_ns;
        for place in 0..self.touched.len() {
            let index = self.touched[place];
            let unit = &mut self.units[index as usize];
            let operation = unit.take_only()?;
            let stages = self.times.of(operation);
            let end_ns = stages.end_ns(now_ns);
            unit.is_touched = false;
            unit.busy_ns += end_ns - now_ns;
            let channel = index / self.units_per_channel;
            self.channels[channel as usize].busy_ns += stages.entering + stages.leaving;
            last_ns = last_ns.max(end_ns);
            let Operation { owner, kind, .. } = operation;
            debug_assert_ne!(owner, BUFFERED, "a buffer is told of its programs by events");
            if owner != NONE {
                let at_transfer = kind == Kind::Program && self.completes_at_transfer;
                let answered_ns = if at_transfer { now_ns + stages.entering } else { end_ns };
                passed.push(Passed { answered_ns, unit: index, owner });
            }
        }
        self.touched.clear();
        // By the time of the answer, as events would have come.
        passed.sort_unstable();
        Some(last_ns)
    }
}

impl Stages {
    const fn end_ns(self, now_ns: u64) -> u64 {
        now_ns.saturating_add(self.entering).saturating_add(self.cells).saturating_add(self.leaving)
    }
}

impl Times {
    /// Return the stages of an operation by itself.
    fn of(&self, operation: Operation) -> Stages {
        let bytes_ns = u64::from(operation.pages) * self.transfer;
        let (entering, leaving) = match operation.kind {
            Kind::Read => (self.command, bytes_ns),
            Kind::Program => (self.command + bytes_ns, 0),
            Kind::Copyback => (2 * self.command, 0),
            Kind::Erase => (self.command, 0),
        };
        let cells = self.of_cells(std::slice::from_ref(&operation));
        Stages { entering, cells, leaving }
    }
}

impl Unit {
    /// Return the operation that waits, if it is the only one.
    fn only(&self) -> Option<&Operation> {
        let queued = || self.queues.iter().find_map(|queue| queue.front().map(|entry| &entry.1));
        self.reads.front().or_else(queued)
    }

    fn take_only(&mut self) -> Option<Operation> {
        self.waiting = 0;
        let queued = |queues: &mut [std::collections::VecDeque<(u64, Operation)>]| {
            queues.iter_mut().find_map(|queue| queue.pop_front().map(|entry| entry.1))
        };
        self.reads.pop_front().or_else(|| queued(&mut self.queues))
    }
}
