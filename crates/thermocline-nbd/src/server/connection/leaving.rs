//! The end of a connection: with a farewell, without one, or by the server.

use std::time::Instant;

use super::{Connection, Fault, HeldBack, Phase, SocketState};
use crate::codec::server::Incoming;
use crate::server::transport::Output;
use crate::server::turns::REQUEST_COST;
use crate::service::{Cooperator, Departure};

impl Connection {
    /// Return, once, the export whose service has to learn that the client goes, and how it goes.
    pub(in crate::server) fn take_departure(&mut self) -> Option<(usize, Cooperator, Departure)> {
        let export = self.cooperates_with.take_if(|_| matches!(self.phase, Phase::Leaving(_)))?;
        Some((export, self.work.cooperator(), self.departure))
    }

    /// Stop reading from the client; if it is gone, also stop answering it.
    pub(in crate::server) fn leave(&mut self, is_gone: bool) {
        let negotiated = match self.phase {
            Phase::Transmission(_, negotiated) | Phase::Leaving(Some(negotiated)) => {
                Some(negotiated)
            }
            Phase::Handshake(_) | Phase::Parting(_) | Phase::Leaving(None) => None,
        };
        if !self.is_leaving() {
            self.since = Instant::now();
        }
        self.phase = Phase::Leaving(negotiated.filter(|_| !is_gone));
        self.work.abandon_arriving();
        if is_gone {
            self.output = Output::default();
            self.transport.hang_up();
        }
    }

    /// Look for the farewell of a client whose socket takes no replies. It may have said farewell before it
    /// closed, behind requests that were not read: if nobody looked for that, its place would be taken until
    /// its leases end. The requests before it are not performed: nobody waits for them, and the client may have come
    /// back on another connection, and have repeated them there.
    ///
    /// Returns `true` if there is something to look for.
    pub(in crate::server) fn look_for_farewell(&mut self) -> bool {
        if self.cooperates_with.is_none() {
            return false;
        }
        match &self.phase {
            Phase::Transmission(requests, _) => {
                self.phase = Phase::Parting(requests.clone());
                self.since = Instant::now();
                // The system told once that there was input, and does not do so again.
                self.socket_state = SocketState::Ending;
                // The farewell may be in the input already: the end of the socket would come before it.
                self.held_back = Some(HeldBack::Turn);
                self.work.abandon_arriving();
            }
            Phase::Parting(_) => {}
            Phase::Handshake(_) | Phase::Leaving(_) => return false,
        }
        self.output = Output::default();
        true
    }

    /// Note that the client takes no more replies.
    pub(in crate::server) fn notice_loss(&mut self) {
        self.socket_state = SocketState::Lost;
        self.leave_if_lost();
    }

    /// Leave if the client takes no replies to requests that wait for their time, and would keep its place until
    /// the last of them was performed.
    pub(super) fn leave_if_lost(&mut self) {
        if self.socket_state == SocketState::Lost && self.waits_until().is_some() {
            self.leave(true);
        }
    }

    /// Takes one request that is not performed, or the farewell. Returns `true` if there may be another.
    pub(super) fn skip_request(&mut self) -> Result<bool, Fault> {
        let Phase::Parting(requests) = &mut self.phase else { return Ok(false) };
        let (consumed, incoming) = requests.next(self.input.waiting())?;
        let is_farewell = matches!(incoming, Some(Incoming::Disconnect));
        let is_more = incoming.is_some();
        self.input.consume(consumed);
        self.cost_left -= REQUEST_COST;
        if is_farewell {
            self.departure = Departure::Orderly;
            self.leave(true);
        }
        Ok(is_more)
    }

    /// Says farewell, as far as that goes at once.
    pub(in crate::server) fn close(mut self) {
        self.transport.close(&mut self.output);
    }
}
