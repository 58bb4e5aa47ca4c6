//! A device of constant service times: one queue, first come first served, one or more servers.
//!
//! The cost model's constants with waiting added; with unlimited servers nothing waits, as in memory.
//!
//! * Source: the M/D/c station of queueing theory, e.g. Kleinrock, *Queueing Systems I*, 1975.
//! * State: 16 bytes per server and per outstanding request.
//! * Cost: O(log n) per request in the servers and the outstanding requests.
//! * Deviations: (1) the pages of a request are served one after the other by the same server. (2) A
//!   trim takes no time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thermocline_core::Nanos;

use crate::cost::Device;
use crate::queueing::{Completion, DeviceOp, DeviceRequest, QueueingDevice, QueueingError, Ticket};

/// Nanoseconds per millisecond.
const NS_PER_MS: f64 = 1e6;

/// A device of constant service times.
#[derive(Clone, Debug)]
pub struct Server {
    read_ns: u64,
    write_ns: u64,
    /// Time at which each server is free; `None` if there are always enough.
    free_at_ns: Option<BinaryHeap<Reverse<u64>>>,
    /// Completions, by time.
    completions: BinaryHeap<Reverse<(u64, Ticket)>>,
    tickets: u64,
    now_ns: u64,
    busy_ns: u64,
}

impl Server {
    /// Create a device with the constants of the cost model. `servers` serve at once; `None` means
    /// that there are always enough.
    pub fn new(device: &Device, servers: Option<u32>) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "costs are numbers of at least 0, and saturate"
        )]
        let ns = |ms: f64| (ms * NS_PER_MS).round() as u64;
        Self {
            read_ns: ns(device.read_ms),
            write_ns: ns(device.write_ms),
            free_at_ns: servers.map(|servers| (0..servers.max(1)).map(|_| Reverse(0)).collect()),
            completions: BinaryHeap::new(),
            tickets: 0,
            now_ns: 0,
            busy_ns: 0,
        }
    }
}

impl QueueingDevice for Server {
    /// Submit a request. Its completion is known at once: nothing that comes later can overtake it.
    fn submit(&mut self, at: Nanos, request: DeviceRequest) -> Result<Ticket, QueueingError> {
        if request.is_empty() {
            return Err(QueueingError::Empty { page: request.page });
        }
        if at.0 < self.now_ns {
            return Err(QueueingError::Past { at_ns: at.0, now_ns: self.now_ns });
        }
        let per_page_ns = match request.op {
            DeviceOp::Read => self.read_ns,
            DeviceOp::Write => self.write_ns,
            DeviceOp::Trim | DeviceOp::Flush => 0,
        };
        let service_ns = per_page_ns.saturating_mul(u64::from(request.pages));
        let start_ns = match &mut self.free_at_ns {
            None => at.0,
            Some(free_at_ns) => {
                // The server that is free first: with one queue for all, no request waits while a
                // server idles.
                let Reverse(free_ns) = free_at_ns.pop().expect("there is a server");
                let start_ns = free_ns.max(at.0);
                free_at_ns.push(Reverse(start_ns.saturating_add(service_ns)));
                start_ns
            }
        };
        self.busy_ns = self.busy_ns.saturating_add(service_ns);
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.completions.push(Reverse((start_ns.saturating_add(service_ns), ticket)));
        Ok(ticket)
    }

    fn next_event(&self) -> Option<Nanos> {
        self.completions.peek().map(|next| Nanos(next.0.0))
    }

    fn advance(&mut self, to: Nanos, completed: &mut Vec<Completion>) -> Result<(), QueueingError> {
        while let Some(&Reverse((at_ns, ticket))) =
            self.completions.peek().filter(|next| next.0.0 <= to.0)
        {
            self.completions.pop();
            completed.push(Completion { ticket, at: Nanos(at_ns) });
        }
        self.now_ns = self.now_ns.max(to.0);
        Ok(())
    }

    fn capacity_pages(&self) -> u64 {
        u64::MAX
    }

    fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Catalogue;

    fn server(servers: Option<u32>) -> Server {
        let mut device = Catalogue::default().find("samsung-470").unwrap().clone();
        (device.read_ms, device.write_ms) = (0.1, 0.3);
        Server::new(&device, servers)
    }

    fn run(server: &mut Server, requests: &[(u64, DeviceOp, u32)]) -> Vec<(u64, u64)> {
        for &(at, op, pages) in requests {
            server.submit(Nanos(at), DeviceRequest { op, page: 7, pages }).unwrap();
        }
        let mut completed = vec![];
        while let Some(at) = server.next_event() {
            server.advance(at, &mut completed).unwrap();
        }
        completed.into_iter().map(|one| (one.ticket.0, one.at.0)).collect()
    }

    #[test]
    fn requests_wait_for_a_server() {
        let requests =
            [(0, DeviceOp::Read, 1), (0, DeviceOp::Write, 1), (50_000, DeviceOp::Read, 2)];
        let one = run(&mut server(Some(1)), &requests);
        assert_eq!(one, [(0, 100_000), (1, 400_000), (2, 600_000)]);
        let two = run(&mut server(Some(2)), &requests);
        assert_eq!(two, [(0, 100_000), (1, 300_000), (2, 300_000)]);
        let mut many = server(None);
        assert_eq!(run(&mut many, &requests), [(0, 100_000), (2, 250_000), (1, 300_000)]);
        assert_eq!(many.busy_ns(), 600_000);
    }

    #[test]
    fn an_idle_server_waits_for_no_one() {
        let requests = [(0, DeviceOp::Read, 1), (1_000_000, DeviceOp::Trim, 1)];
        assert_eq!(run(&mut server(Some(1)), &requests), [(0, 100_000), (1, 1_000_000)]);
    }

    #[test]
    fn the_past_and_nothing_are_refused() {
        let mut server = server(Some(1));
        let request = DeviceRequest { op: DeviceOp::Read, page: 0, pages: 1 };
        server.advance(Nanos(10), &mut vec![]).unwrap();
        assert!(server.submit(Nanos(9), request).is_err());
        assert!(server.submit(Nanos(10), DeviceRequest { pages: 0, ..request }).is_err());
    }
}
