//! Waiting for something to do: the server learns which clients have something.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use mio::Token;

use super::turns::{SHARE, TURN_COST};
use super::{LISTENERS_FROM, SERVICE, SWEEP, Server, ServerError, Settings, WAKER, activate};
use crate::service::Service;

/// Clients that are looked at while spinning; more are left to the system.
const SPUN_CLIENTS_MAX: usize = 4;

/// Maximum number of turns, while there is work, before the system is asked for more: if requests
/// come one by one, each call costs more than they do.
const TURNS_PER_POLL: u32 = 16;

impl<S: Service> Server<S> {
    /// Waits until something may be done. Clients that wait for their turn are not kept waiting, but
    /// whenever they have had enough the system is asked for others.
    pub(super) fn wait(&mut self) -> Result<(), ServerError> {
        self.resume();
        if !self.turns.is_empty() || !self.active.is_empty() || self.may_accept {
            // While some clients keep the server busy, others must be noticed, too.
            let is_due = self.cost_since_poll >= TURN_COST;
            if is_due || self.turns_since_poll >= TURNS_PER_POLL {
                return self.poll(Some(Duration::ZERO));
            }
            self.turns_since_poll += 1;
            return Ok(());
        }
        if let Some(length) = self.spin.begin() {
            if self.look(length)? {
                self.spin.succeeded();
                return Ok(());
            }
            self.spin.failed();
        }
        let may_sleep = self
            .exports
            .services_mut()
            // Each one is asked, also after a `false`: all of them prepare, and all hear of the end
            // below.
            .map(Service::may_sleep)
            .fold(true, |one, other| one & other);
        let limit = if may_sleep { self.wait_limit() } else { Some(Duration::ZERO) };
        let polled = self.poll(limit);
        self.exports.services_mut().for_each(Service::has_woken);
        polled
    }

    /// Let the clients go on that exceeded their rates, and have waited for long enough.
    fn resume(&mut self) {
        if self.paced.is_empty() {
            return;
        }
        for index in self.paced.due(Instant::now()) {
            self.turns.join(index, &mut self.connections[index].standing);
        }
    }

    /// Looks for work until the time is over. Returns `true` if there is any.
    fn look(&mut self, length: Duration) -> Result<bool, ServerError> {
        let start = Instant::now();
        let looks_at_clients = self.connections.len() <= SPUN_CLIENTS_MAX;
        loop {
            // One system call for all is cheaper than one for each of many clients.
            if self.turns_since_poll >= TURNS_PER_POLL || !looks_at_clients {
                self.poll(Some(Duration::ZERO))?;
            } else {
                self.turns_since_poll += 1;
                for index in 0..self.connections.capacity() {
                    let Some(connection) = self.connections.get_mut(index) else { continue };
                    connection.notice(false);
                    self.receive_from(index, SHARE);
                }
            }
            self.work();
            let has_work = !self.active.is_empty() || !self.turns.is_empty();
            if has_work || self.may_accept || self.was_woken {
                return Ok(true);
            }
            if start.elapsed() >= length {
                return Ok(false);
            }
        }
    }

    fn poll(&mut self, limit: Option<Duration>) -> Result<(), ServerError> {
        self.turns_since_poll = 0;
        self.cost_since_poll = 0;
        match self.poll.poll(&mut self.events, limit) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(source) => return Err(ServerError::Events { action: "wait for events", source }),
        }
        for event in &self.events {
            match event.token() {
                WAKER => self.was_woken = true,
                SERVICE => {}
                Token(index) if index >= LISTENERS_FROM => self.may_accept = true,
                Token(index) => {
                    let Some(connection) = self.connections.get_mut(index) else { continue };
                    connection.notice(event.is_read_closed() || event.is_error());
                    if event.is_write_closed() || event.is_error() {
                        connection.notice_loss();
                    }
                    activate(&mut self.active, connection, index);
                    self.turns.join(index, &mut connection.standing);
                }
            }
        }
        Ok(())
    }

    /// Return the maximum time to sleep.
    fn wait_limit(&self) -> Option<Duration> {
        let services = self.exports.services().filter_map(Service::wait_limit);
        let has_impatience = self.was_refused
            || self.settings.idle_limit.is_some()
            || self.connections.iter().any(|(_, it)| it.is_on_the_clock());
        let next = self.paced.next_time();
        let pause = next.map(|time| time.saturating_duration_since(Instant::now()));
        services.chain(has_impatience.then(|| self.sweep_interval())).chain(pause).min()
    }

    /// Return the interval at which clients are checked: often enough for limits of a few seconds.
    pub(super) fn sweep_interval(&self) -> Duration {
        let Settings { send_limit, idle_limit, .. } = self.settings;
        let shortest = idle_limit.map_or(send_limit, |limit| limit.min(send_limit));
        (shortest / 4).clamp(Duration::from_millis(1), SWEEP)
    }
}
