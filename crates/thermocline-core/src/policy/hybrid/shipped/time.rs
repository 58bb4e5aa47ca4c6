//! The time that a shipped cache sees.
//!
//! * Source: none; what the caches share whose periods are in seconds.
//! * State: 32 bytes.
//! * Cost: O(1) per access.
//! * Deviations: none.

use crate::Nanos;
use crate::config::{Parameter, Values};

/// Number of accesses that stand for a second where no clock runs.
pub(super) const ACCESSES_PER_SECOND: Parameter =
    Parameter::integer("accesses_per_second", 1..=1_000_000_000, 100)
        .summary("accesses that pass for one second in a trace without time stamps")
        .source("a busy disk; ignored where a clock runs");

/// One second.
pub(super) const SECOND: u64 = 1_000_000_000;

/// The clock of the driver if there is one, and a count of accesses otherwise.
#[derive(Clone, Debug)]
pub(super) struct Time {
    now: Nanos,
    /// `true` once a driver has told the time.
    has_clock: bool,
    accesses_per_second: u64,
    /// Parts of a nanosecond, `accesses_per_second` of which are a whole one.
    rest: u64,
}

impl Time {
    pub(super) fn new(values: &Values) -> Self {
        let accesses_per_second = values.integer(ACCESSES_PER_SECOND.name);
        Self { now: Nanos(0), has_clock: false, accesses_per_second, rest: 0 }
    }

    /// Notes an access, and returns when it happens.
    #[inline]
    pub(super) fn access(&mut self) -> Nanos {
        if !self.has_clock {
            self.now.0 += SECOND / self.accesses_per_second;
            self.rest += SECOND % self.accesses_per_second;
            if self.rest >= self.accesses_per_second {
                self.rest -= self.accesses_per_second;
                self.now.0 += 1;
            }
        }
        self.now
    }

    /// The time of the last access.
    pub(super) const fn now(&self) -> Nanos {
        self.now
    }

    /// Takes the time from the driver's clock from now on. Returns the time, which never goes back.
    pub(super) fn reach(&mut self, clock: Nanos) -> Nanos {
        if !self.has_clock {
            (self.has_clock, self.now) = (true, clock);
        }
        self.now = self.now.max(clock);
        self.now
    }
}

/// The time so many seconds after another.
pub(super) const fn after(now: Nanos, seconds: u64) -> Nanos {
    Nanos(now.0.saturating_add(seconds.saturating_mul(SECOND)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(accesses_per_second: u64) -> Time {
        Time { now: Nanos(0), has_clock: false, accesses_per_second, rest: 0 }
    }

    #[test]
    fn accesses_make_seconds_without_a_clock() {
        for per_second in [1, 3, 7, 100, 999_999_999, SECOND] {
            let mut time = time(per_second);
            for access in 1..=2000_u32 {
                let exact = u128::from(access) * u128::from(SECOND) / u128::from(per_second);
                assert_eq!(u128::from(time.access().0), exact);
            }
        }
    }

    #[test]
    fn a_clock_replaces_the_count_and_never_goes_back() {
        let mut time = time(1);
        assert_eq!((time.access(), time.access()), (Nanos(SECOND), Nanos(2 * SECOND)));
        assert_eq!(time.reach(Nanos(5)), Nanos(5));
        assert_eq!(time.access(), Nanos(5));
        assert_eq!((time.reach(Nanos(9)), time.reach(Nanos(7))), (Nanos(9), Nanos(9)));
    }
}
