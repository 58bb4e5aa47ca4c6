//! The time that a shipped cache sees.
//!
//! * Source: none; what the caches share whose periods are in seconds.
//! * State: 32 bytes.
//! * Cost: O(1) per access.
//! * Deviations: none.

use crate::Nanos;
use crate::config::{Parameter, Scaling, Values};

/// Number of accesses that stand for a second where no clock runs.
pub(super) const ACCESSES_PER_SECOND: Parameter =
    Parameter::real("accesses_per_second", 1e-6..=1e9, 100.0)
        .summary("accesses that pass for one second in a trace without time stamps")
        .source("a busy disk; ignored where a clock runs")
        .scaling(Scaling::Proportional);

/// One second.
pub(super) const SECOND: u64 = 1_000_000_000;

/// The clock of the driver if there is one, and a count of accesses otherwise.
#[derive(Clone, Debug)]
pub(super) struct Time {
    now: Nanos,
    /// `true` once a driver has told the time.
    has_clock: bool,
    accesses_per_second: f64,
    /// Number of accesses so far.
    accesses: u64,
}

impl Time {
    pub(super) fn new(values: &Values) -> Self {
        Self::with(values.real(ACCESSES_PER_SECOND.name))
    }

    fn with(accesses_per_second: f64) -> Self {
        Self { now: Nanos(0), has_clock: false, accesses_per_second, accesses: 0 }
    }

    /// Notes an access, and returns when it happens.
    #[inline]
    pub(super) fn access(&mut self) -> Nanos {
        if !self.has_clock {
            self.accesses += 1;
            // Divided last and rounded to the nearest, so that whole seconds are exact: periods end there.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the cast saturates, and the number is not negative"
            )]
            let now = libm::round(self.accesses as f64 * 1e9 / self.accesses_per_second) as u64;
            self.now = Nanos(now);
        }
        self.now
    }

    /// Return the time of the last access.
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

/// Return the time so many seconds after another.
pub(super) const fn after(now: Nanos, seconds: u64) -> Nanos {
    Nanos(now.0.saturating_add(seconds.saturating_mul(SECOND)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_make_seconds_without_a_clock() {
        for per_second in [1e-6, 0.3, 1.0, 3.0, 7.0, 100.0, 999_999_999.0, 1e9] {
            let mut time = Time::with(per_second);
            for access in 1..=2000_u32 {
                let exact = f64::from(access) * SECOND as f64 / per_second;
                let error = time.access().0 as f64 - exact;
                assert!(error.abs() <= 0.51, "{per_second} {access} {error}");
            }
        }
        for per_second in [3_u32, 7, 100, 999] {
            let mut time = Time::with(f64::from(per_second));
            for access in 1..=20 * per_second {
                let now = time.access().0;
                assert_eq!(now / SECOND, u64::from(access / per_second), "{per_second} {access}");
            }
        }
    }

    #[test]
    fn a_clock_replaces_the_count_and_never_goes_back() {
        let mut time = Time::with(1.0);
        assert_eq!((time.access(), time.access()), (Nanos(SECOND), Nanos(2 * SECOND)));
        assert_eq!(time.reach(Nanos(5)), Nanos(5));
        assert_eq!(time.access(), Nanos(5));
        assert_eq!((time.reach(Nanos(9)), time.reach(Nanos(7))), (Nanos(9), Nanos(9)));
    }
}
