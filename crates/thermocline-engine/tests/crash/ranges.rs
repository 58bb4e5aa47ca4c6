//! Commands about ranges of pages while the engine serves.

use std::collections::BTreeSet;

use thermocline_engine::{Options, RangeCommand, RangeError, RangeWork, Request, Shard};

use crate::oracle::Promise;
use crate::world::{World, pieces};

/// A command under way.
#[derive(Debug)]
pub(crate) struct Ranging {
    command: RangeCommand,
    /// Per shard: work that is not done.
    works: Vec<Option<RangeWork>>,
    /// Per page of the range: what was promised when the command began.
    promises: Vec<(usize, Promise)>,
    /// Pages of the range that no request has accessed since.
    untouched: BTreeSet<usize>,
}

impl World {
    /// Goes on with a command about a range, or begins one by a draw.
    pub(crate) fn command_range(&mut self) -> Result<(), String> {
        let Some(mut ranging) = self.ranging.take() else {
            if self.below(40) == 0 && self.unverified.is_empty() {
                self.begin_range()?;
            }
            return Ok(());
        };
        let mut failed = None;
        for (shard, work) in self.shards.each().zip(&mut ranging.works) {
            match work.as_mut().map(|work| shard.advance_range(work)) {
                Some(Ok(Some(_))) => *work = None,
                Some(Err(error)) => failed = Some(error),
                Some(Ok(None)) | None => {}
            }
        }
        match failed {
            Some(RangeError::Overdue { .. }) if self.plan.has_faults() => return Ok(()),
            Some(error) => return Err(error.to_string()),
            None => {}
        }
        if ranging.works.iter().any(Option::is_some) {
            self.ranging = Some(ranging);
        } else if ranging.command == RangeCommand::Evict {
            // The backing store durably has every version that was there when the command began.
            for (page, promise) in ranging.promises {
                self.oracle.flushed(page, promise);
            }
            self.evicted.extend(ranging.untouched);
        }
        Ok(())
    }

    fn begin_range(&mut self) -> Result<(), String> {
        let all = self.shards.pages();
        let first = self.below(all as u64) as usize;
        let end = first + 1 + self.below((all - first) as u64) as usize;
        let command = match self.below(6) {
            0..=2 => RangeCommand::Evict,
            3 => RangeCommand::Promote,
            4 => RangeCommand::Pin,
            _ => RangeCommand::Unpin,
        };
        let before = self.plan.first_page;
        let pages = before + first as u64..before + end as u64;
        // A server pins in all shards, or in none.
        let has_room = |shard: &mut Shard| {
            let mut pins = shard.pinned().clone();
            pins.add(pages.clone());
            Options { pins, ..shard.options().clone() }.check_pins().is_ok()
        };
        if command == RangeCommand::Pin && !self.shards.each().all(has_room) {
            return Ok(());
        }
        let begun: Result<Vec<_>, _> = self
            .shards
            .each()
            .map(|shard| shard.begin_range(command, pages.clone()).map(Some))
            .collect();
        let works = match begun {
            Ok(works) => works,
            Err(RangeError::Pinned { .. }) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        // The next start knows the pinned ranges, too.
        self.plan.options.pins =
            self.shards.each().next().map(|shard| shard.pinned().clone()).unwrap();
        let promises = (first..end).map(|page| (page, self.oracle.promise(page))).collect();
        let asked = self.asked.values().map(|asked| asked.request);
        let touched: BTreeSet<usize> = asked.flat_map(|request| self.pages_of(&request)).collect();
        let untouched = (first..end).filter(|page| !touched.contains(page)).collect();
        self.ranging = Some(Ranging { command, works, promises, untouched });
        if matches!(command, RangeCommand::Promote | RangeCommand::Pin) {
            self.evicted.retain(|page| !(first..end).contains(page));
        }
        Ok(())
    }

    /// Note that a request has accessed pages.
    pub(crate) fn touch(&mut self, request: &Request) {
        // It copies whole blocks, so any access may bring any of these few pages back.
        if self.plan.options.policy.entry.name == "dm-cache" {
            self.evicted.clear();
            self.ranging.iter_mut().for_each(|ranging| ranging.untouched.clear());
        }
        for page in self.pages_of(request) {
            self.evicted.remove(&page);
            if let Some(ranging) = &mut self.ranging {
                ranging.untouched.remove(&page);
            }
        }
    }

    fn pages_of(&self, request: &Request) -> Vec<usize> {
        pieces(request, self.plan.sector_bytes()).map(|(page, ..)| page).collect()
    }

    /// Check that a restart finds no page on flash that was evicted, and not accessed since.
    pub(crate) fn check_evicted(&mut self) -> Result<(), String> {
        let evicted = std::mem::take(&mut self.evicted);
        match evicted.into_iter().find(|&page| self.shards.is_held(page as u64)) {
            Some(page) => Err(format!("page {page} is back on flash")),
            None => Ok(()),
        }
    }
}
