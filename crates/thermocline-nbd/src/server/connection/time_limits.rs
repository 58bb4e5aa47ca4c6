//! Time limits of a client, which the server looks at from time to time.

use std::time::Instant;

use super::{Connection, Phase};
use crate::server::settings::Settings;

impl Connection {
    /// Return `true` if the server must look at it from time to time.
    pub(in crate::server) fn is_on_the_clock(&self) -> bool {
        !matches!(self.phase, Phase::Transmission(..))
            || self.has_output()
            || self.work.is_arriving()
            || !self.input.waiting().is_empty()
    }

    /// Takes note of what it did since the last time. Returns why it must go, if it must.
    pub(in crate::server) fn look_over(
        &mut self,
        now: Instant,
        settings: &Settings,
    ) -> Option<&'static str> {
        let is_over = |since: Instant, limit| now.saturating_duration_since(since) > limit;
        let has_output = self.has_output();
        let was_heard = std::mem::take(&mut self.is_heard);
        if self.output.take_moved() || !has_output {
            self.taken_at = now;
        }
        let is_in_the_middle = self.work.is_arriving() || !self.input.waiting().is_empty();
        if was_heard || !is_in_the_middle || self.held_back.is_some() {
            self.whole_at = now;
        }
        if was_heard || has_output || !self.work.is_empty() || is_in_the_middle {
            self.busy_at = now;
        }
        if !matches!(self.phase, Phase::Transmission(..)) {
            return is_over(self.since, settings.negotiation_limit)
                .then_some("it negotiates or leaves for too long");
        }
        if is_over(self.taken_at, settings.send_limit) {
            return Some("it does not take its replies");
        }
        if is_over(self.whole_at, settings.send_limit) {
            return Some("it stopped in the middle of a request");
        }
        let is_idle = settings.idle_limit.is_some_and(|limit| is_over(self.busy_at, limit));
        is_idle.then_some("it is idle for too long")
    }
}
