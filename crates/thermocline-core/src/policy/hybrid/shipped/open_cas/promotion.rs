//! Promotion of Open CAS: it admits all lines, or only those that were requested several times.
//!
//! * Source: Open CAS Framework, `src/promotion/nhit/`, by a description of its rules.
//! * State: 18 bytes per line of the cache, if it counts requests.
//! * Cost: O(1).
//! * Deviations: none.

use crate::config::Values;
use crate::queue::Ring;
use crate::{Ids, PageId};

/// Number of requests for lines that were not cached.
#[derive(Clone, Debug)]
pub(super) struct Nhit {
    /// Two lines for each of the cache, the one noted first in front.
    asked: Ring<u32>,
    asked_max: usize,
    threshold: u32,
    /// Number of cached lines below which all are admitted.
    trigger_lines: u64,
}

impl Nhit {
    /// Create the counters, if they are chosen; `lines` is the size of the cache.
    pub(super) fn new(ids: Ids, lines: u32, values: &Values) -> Option<Self> {
        if lines == 0 || values.choice("promotion") != "nhit" {
            return None;
        }
        let asked_max = lines.saturating_mul(2);
        let trigger_lines = (u64::from(lines) * values.integer("nhit_trigger")).div_ceil(100);
        Some(Self {
            asked: Ring::new(ids, asked_max.min(ids.pages)),
            asked_max: asked_max as usize,
            threshold: values.integer_u32("nhit_threshold"),
            trigger_lines,
        })
    }

    /// Notes that a line is asked for that is not cached; returns whether it may enter a cache of so many.
    pub(super) fn allows(&mut self, line: u32, mapped: u32) -> bool {
        // An empty cache fills up with anything first.
        if u64::from(mapped) < self.trigger_lines {
            return true;
        }
        if let Some(place) = self.asked.find(PageId(line)) {
            let count = self.asked.value_mut(place);
            *count = count.saturating_add(1);
            return *count >= self.threshold;
        }
        if self.asked.slots() == self.asked_max {
            self.asked.pop();
        }
        self.asked.push(PageId(line), 1);
        false
    }

    /// Notes that a line has entered.
    pub(super) fn entered(&mut self, line: u32) {
        if let Some(place) = self.asked.find(PageId(line)) {
            // Once it has left the cache, its requests count from 0; its place in the queue stays.
            *self.asked.value_mut(place) = 0;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.asked.memory_bytes()
    }
}
