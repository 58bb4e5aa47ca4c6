//! Signs of life for systemd's watchdog.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use super::tell_service_manager;

/// Reports that the server's loop goes round. The loop itself calls it, so that the reports end when
/// the loop hangs.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// Half the time in which systemd wants a report; `None` if it wants none.
    interval: Option<Duration>,
    reported: Instant,
}

impl Watchdog {
    /// Create the watchdog that systemd asks for by the variables of `sd_watchdog_enabled(3)`. Without
    /// `WATCHDOG_PID` the request is for every process; `sd_notify` would ignore it.
    pub(super) fn from_environment() -> Self {
        let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().ok());
        // Children inherit the variables, which are then meant for their parent.
        let is_ours = number("WATCHDOG_PID").is_none_or(|id| id == Some(std::process::id().into()));
        let limit_us = number("WATCHDOG_USEC").flatten().filter(|limit| is_ours && *limit > 0);
        // Half of the limit, as sd_watchdog_enabled(3) advises: a sign that is late must not end the
        // server.
        let interval = limit_us.map(|limit| Duration::from_micros(limit / 2));
        Self { interval, reported: Instant::now() }
    }

    /// Report if half of the interval has passed since the last report.
    pub(super) fn beat(&mut self) {
        if self.interval.is_some_and(|interval| self.reported.elapsed() >= interval) {
            self.reported = Instant::now();
            tell_service_manager(NotifyState::Watchdog);
        }
    }
}
