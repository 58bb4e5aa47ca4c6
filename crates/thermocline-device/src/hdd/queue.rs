//! The requests that wait for the medium, and which of them is next.
//!
//! * Source: Worthington, Ganger and Patt, *Scheduling algorithms for modern disk drives*,
//!   SIGMETRICS 1994, for the three orders.
//! * State: one node of an ordered map per waiting request.
//! * Cost: O(log waiting) per request.
//! * Deviations: (1) SSTF counts cylinders, not time, as the original does; (2) C-LOOK goes by
//!   address, so that requests of one cylinder are served as they pass.

use std::collections::BTreeMap;

use super::config::Scheduling;
use super::layout::Extent;
use crate::request::Ticket;

/// Waiting requests in the order of their scheduling.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    scheduling: Scheduling,
    /// Requests by place and then by the order in which they became ready; the place is 0 for FCFS,
    /// the cylinder for SSTF and the first sector for C-LOOK.
    waiting: BTreeMap<(u64, u64), (Ticket, Extent)>,
    pushed: u64,
}

/// Position of the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub(crate) cylinder: u64,
    /// The sector after the last one that passed.
    pub(crate) sector: u64,
}

impl Queue {
    pub(crate) const fn new(scheduling: Scheduling) -> Self {
        Self { scheduling, waiting: BTreeMap::new(), pushed: 0 }
    }

    /// Adds a request whose first sector lies in `cylinder`.
    pub(crate) fn push(&mut self, ticket: Ticket, extent: Extent, cylinder: u64) {
        let place = match self.scheduling {
            Scheduling::Fcfs => 0,
            Scheduling::Sstf => cylinder,
            Scheduling::CLook => extent.start,
        };
        // The order of arrival breaks ties, so FCFS is the same map with one place for all.
        self.waiting.insert((place, self.pushed), (ticket, extent));
        self.pushed += 1;
    }

    /// Takes the next request for a head at `position`.
    pub(crate) fn pop(&mut self, position: Position) -> Option<(Ticket, Extent)> {
        let key = match self.scheduling {
            Scheduling::Fcfs => self.from(0),
            Scheduling::Sstf => self.nearest(position.cylinder),
            // Up only, then back to the lowest address: no request waits for two sweeps, as it may
            // with SCAN.
            Scheduling::CLook => self.from(position.sector).or_else(|| self.from(0)),
        };
        key.and_then(|key| self.waiting.remove(&key))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.waiting.values().map(|&(ticket, _)| ticket)
    }

    /// Return the first at `place` or beyond.
    fn from(&self, place: u64) -> Option<(u64, u64)> {
        self.waiting.range((place, 0)..).next().map(|(&key, _)| key)
    }

    fn nearest(&self, cylinder: u64) -> Option<(u64, u64)> {
        let inner = self.from(cylinder);
        // The last one further out names the cylinder; its oldest request is asked for again.
        let outer = self
            .waiting
            .range(..(cylinder, 0))
            .next_back()
            .and_then(|(&(place, _), _)| self.from(place));
        match (outer, inner) {
            (Some(outer), Some(inner)) if cylinder - outer.0 <= inner.0 - cylinder => Some(outer),
            (outer, None) => outer,
            (_, inner) => inner,
        }
    }
}
