//! Admission of `CacheLib`: pages that RAM evicts and flash takes.
//!
//! * Source: `CacheLib` 278ffc74, `cachelib/navy/admission_policy/{DynamicRandomAP,RejectRandomAP}`,
//!   `allocator/NvmAdmissionPolicy.h`, `common/ApproxSplitSet.h`, by a description of their rules.
//! * State: 9 bytes per page that reject-first remembers.
//! * Cost: O(1) per page.
//! * Deviations: reject-first forgets no page early; `CacheLib`'s set loses a few.

use crate::config::Values;
use crate::policy::hybrid::shipped::time::SECOND;
use crate::queue::Ring;
use crate::random::{Draws as _, SEED, SplitMix64};
use crate::{Ids, Nanos, PageId};

/// Nanoseconds of a day.
const DAY_NS: u64 = 86_400 * SECOND;
/// Seconds between two changes of the probability.
const UPDATE_NS: u64 = 60 * SECOND;
/// The most that may be written, in pages of 4 KiB per nanosecond: 160 MiB per second.
const RATE_MAX: f64 = 40_960.0 / SECOND as f64;

/// A filter in front of flash.
#[derive(Debug)]
pub(super) enum Filter {
    All,
    Random { probability: f64, draws: SplitMix64 },
    Dynamic { controller: Controller, draws: SplitMix64 },
    RejectFirst(RejectFirst),
}

/// A probability by which a target of writes per day is kept.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    probability: f64,
    target_per_day: f64,
    day_ns: u64,
    update_ns: u64,
    /// Pages per nanosecond that may be written at most.
    rate_max: f64,
    started: Option<Nanos>,
    last: Nanos,
    written: u64,
    written_before: u64,
}

/// Pages that were refused, in sets that are forgotten one after the other.
#[derive(Debug)]
pub(super) struct RejectFirst {
    refused: Ring<()>,
    set_pages: usize,
    sets: usize,
}

impl Filter {
    pub(super) fn new(ids: Ids, flash_pages: u32, values: &Values) -> Self {
        let draws = SplitMix64::new(values.integer(SEED.name));
        match values.choice("admission") {
            "random" => Self::Random { probability: values.real("probability"), draws },
            "dynamic" => {
                let target = f64::from(flash_pages) * values.real("target_dwpd");
                Self::Dynamic {
                    controller: Controller::new(target, DAY_NS, UPDATE_NS, RATE_MAX),
                    draws,
                }
            }
            "reject-first" => {
                let entries = values
                    .integer_u32_or_auto("reject_entries")
                    .unwrap_or(flash_pages.saturating_mul(2));
                let sets = values.integer_u32("reject_sets");
                Self::RejectFirst(RejectFirst::new(ids, entries, sets))
            }
            _ => Self::All,
        }
    }

    /// Return `true` if a page that RAM evicts enters flash.
    pub(super) fn admits(&mut self, page: PageId, was_hit: bool) -> bool {
        match self {
            Self::All => true,
            Self::Random { probability, draws } => draws.unit() < *probability,
            Self::Dynamic { controller, draws } => draws.unit() < controller.probability,
            Self::RejectFirst(refused) => refused.admits(page) || was_hit,
        }
    }

    /// Notes that a page was written.
    pub(super) fn written(&mut self) {
        if let Self::Dynamic { controller, .. } = self {
            controller.written += 1;
        }
    }

    /// Notes the time.
    pub(super) fn reach(&mut self, now: Nanos) {
        if let Self::Dynamic { controller, .. } = self {
            controller.reach(now);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::RejectFirst(first) => first.refused.memory_bytes(),
            Self::All | Self::Random { .. } | Self::Dynamic { .. } => 0,
        }
    }
}

impl Controller {
    const fn new(target_per_day: f64, day_ns: u64, update_ns: u64, rate_max: f64) -> Self {
        Self {
            probability: 1.0,
            target_per_day,
            day_ns,
            update_ns,
            rate_max,
            started: None,
            last: Nanos(0),
            written: 0,
            written_before: 0,
        }
    }

    /// Changes the probability if a period has passed.
    fn reach(&mut self, now: Nanos) {
        let started = *self.started.get_or_insert_with(|| {
            self.last = now;
            now
        });
        let passed_ns = now.0 - self.last.0;
        if passed_ns < self.update_ns {
            return;
        }
        let observed = (self.written - self.written_before) as f64 / passed_ns as f64;
        (self.last, self.written_before) = (now, self.written);
        if observed > 0.0 {
            let day_ns = self.day_ns as f64;
            // Writes below or above the target so far are made up for within a day from now.
            let allowed = self.target_per_day * ((now.0 - started.0) as f64 + day_ns) / day_ns;
            let wanted = (allowed - self.written as f64).max(0.0) / day_ns;
            let wanted = wanted.min(self.rate_max);
            let factor = (wanted / observed).clamp(0.75, 1.25);
            self.probability = (self.probability * factor).clamp(0.001, 10.0);
        }
    }
}

impl RejectFirst {
    fn new(ids: Ids, entries: u32, sets: u32) -> Self {
        let set_pages = (entries / sets).max(1);
        Self {
            refused: Ring::new(ids, (set_pages * sets).min(ids.pages)),
            set_pages: set_pages as usize,
            sets: sets as usize,
        }
    }

    /// Return `true` if a page was refused before; it is remembered otherwise.
    fn admits(&mut self, page: PageId) -> bool {
        if self.refused.find(page).is_some() {
            return true;
        }
        if self.refused.slots() == self.set_pages * self.sets {
            // A set is forgotten as a whole, as in CacheLib: the oldest of them.
            for _ in 0..self.set_pages {
                self.refused.pop();
            }
        }
        self.refused.push(page, ());
        false
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    /// Worked example: 100 pages per day of 100, every 10.
    #[test]
    fn a_probability_follows_the_rate_of_writes() {
        let mut controller = Controller::new(100.0, 100, 10, f64::MAX);
        controller.reach(Nanos(0));
        let found = [(10, 20), (20, 40), (30, 42), (40, 42)].map(|(now, written)| {
            controller.written = written;
            controller.reach(Nanos(now));
            format!("{:.4}", controller.probability)
        });
        assert_eq!(found, ["0.7500", "0.5625", "0.7031", "0.7031"]);
    }
}
