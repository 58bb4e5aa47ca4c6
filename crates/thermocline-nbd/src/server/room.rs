//! Memory that clients may take, all together, and the order in which they get it.
//!
//! Each client may always hold its *share*: half of the limit, divided by the number of clients that
//! the server accepts. A client that stops reading therefore never holds up the small requests of
//! another. The other half of the limit is a *pool* for all that goes beyond shares. Clients that hold
//! nothing and do not fit into the pool wait for it in a queue. Its head may exceed the pool by one
//! request, if no other client does so at that time; thus a request larger than the pool is served,
//! too, and the queue moves on as soon as the replies of that request were sent. A client that does
//! not take them is closed after [`Settings::send_limit`](super::Settings::send_limit).

use std::collections::VecDeque;

/// Bytes that all connections hold, and the connections that wait for more.
#[derive(Debug)]
pub(super) struct Room {
    client_bytes_max: usize,
    share_bytes: usize,
    pool_bytes_max: usize,
    held_bytes: usize,
    /// The sum of what connections hold beyond their shares.
    pool_bytes: usize,
    /// Connections that hold nothing and wait for the pool.
    queue: VecDeque<usize>,
    /// The connection that exceeds the pool.
    exceeding: Option<usize>,
}

/// A wish for more memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// The connection's place.
    pub(super) connection: usize,
    /// Bytes that it holds already.
    pub(super) held_bytes: usize,
    /// Bytes that it wants.
    pub(super) wanted_bytes: usize,
    /// `true` if nothing of it is in flight, and it took all its replies.
    pub(super) is_idle: bool,
}

impl Room {
    /// Return the room of a server.
    pub(super) fn new(bytes_max: usize, client_bytes_max: usize, clients_max: usize) -> Self {
        let share_bytes = bytes_max / 2 / clients_max.max(1);
        Self {
            client_bytes_max,
            share_bytes,
            pool_bytes_max: bytes_max - share_bytes * clients_max,
            held_bytes: 0,
            pool_bytes: 0,
            queue: VecDeque::new(),
            exceeding: None,
        }
    }

    /// Return the bytes that all connections hold.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Return the bytes that an idle client may keep for its next request.
    pub(super) fn kept_bytes_max(&self) -> usize {
        self.share_bytes / 4
    }

    /// Return the connection that gets the pool next.
    pub(super) fn next(&self) -> Option<usize> {
        self.queue.front().copied()
    }

    /// Return `true` if a claim fits without exceeding the pool.
    pub(super) fn fits(&self, claim: &Claim) -> bool {
        let after_bytes = claim.held_bytes + claim.wanted_bytes;
        if after_bytes > self.client_bytes_max && !claim.is_idle {
            return false;
        }
        if after_bytes <= self.share_bytes {
            return true;
        }
        let growth_bytes = self.beyond(after_bytes) - self.beyond(claim.held_bytes);
        // Only the head of the queue takes from the pool: small requests of others could keep a large
        // one waiting for ever.
        self.is_next(claim) && self.pool_bytes + growth_bytes <= self.pool_bytes_max
    }

    /// Return `true` if a claim would be granted.
    pub(super) fn would_grant(&self, claim: &Claim) -> bool {
        self.fits(claim) || self.may_exceed(claim)
    }

    /// Grants a claim, or puts the connection into the queue if nothing of its own will make room.
    pub(super) fn grant(&mut self, claim: &Claim) -> bool {
        let fits = self.fits(claim);
        if fits || self.may_exceed(claim) {
            if !fits {
                self.exceeding = Some(claim.connection);
            }
            self.queue.retain(|&it| it != claim.connection);
            return true;
        }
        self.queue_up(claim);
        false
    }

    /// Puts a connection into the queue, unless what it has in flight will make room.
    pub(super) fn queue_up(&mut self, claim: &Claim) {
        if claim.is_idle && !self.queue.contains(&claim.connection) {
            self.queue.push_back(claim.connection);
        }
    }

    /// Counts what a connection holds by now.
    pub(super) fn count(&mut self, counted_bytes: &mut usize, held_bytes: usize) {
        self.held_bytes = self.held_bytes - *counted_bytes + held_bytes;
        self.pool_bytes = self.pool_bytes - self.beyond(*counted_bytes) + self.beyond(held_bytes);
        *counted_bytes = held_bytes;
    }

    /// Let another connection exceed the limit, because this one has nothing in flight and has taken all
    /// its replies.
    pub(super) fn settle(&mut self, connection: usize) {
        self.exceeding.take_if(|it| *it == connection);
    }

    /// Remove a connection from the queue, because it asks for nothing more.
    pub(super) fn forget(&mut self, connection: usize) {
        self.queue.retain(|&it| it != connection);
        self.settle(connection);
    }

    fn beyond(&self, held_bytes: usize) -> usize {
        held_bytes.saturating_sub(self.share_bytes)
    }

    fn is_next(&self, claim: &Claim) -> bool {
        self.next().is_none_or(|next| next == claim.connection)
    }

    fn may_exceed(&self, claim: &Claim) -> bool {
        let is_free = self.exceeding.is_none_or(|it| it == claim.connection);
        claim.is_idle && is_free && self.is_next(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(connection: usize, held_bytes: usize, wanted_bytes: usize) -> Claim {
        Claim { connection, held_bytes, wanted_bytes, is_idle: held_bytes == 0 }
    }

    #[test]
    fn a_share_is_granted_whatever_others_hold() {
        let mut room = Room::new(1000, 1000, 5);
        let mut counted = 0;
        assert!(room.grant(&claim(0, 0, 5000)));
        room.count(&mut counted, 5000);
        assert!(room.grant(&claim(1, 0, 100)));
        assert!(!room.grant(&claim(1, 0, 101)));
        assert!(room.grant(&claim(2, 0, 100)));
    }

    #[test]
    fn one_client_at_a_time_exceeds_the_pool_in_order() {
        let mut room = Room::new(1000, 10_000, 5);
        let (mut first, mut second) = (0, 0);
        assert!(room.grant(&claim(0, 0, 5000)));
        room.count(&mut first, 5000);
        assert!(!room.grant(&claim(1, 0, 5000)));
        assert!(!room.grant(&claim(2, 0, 200)));
        room.count(&mut first, 0);
        room.settle(0);
        // There is room for the small request, but the large one came first.
        assert!(!room.grant(&claim(2, 0, 200)));
        assert!(room.grant(&claim(1, 0, 5000)));
        room.count(&mut second, 5000);
        assert!(!room.would_grant(&claim(2, 0, 200)));
        room.forget(1);
        room.count(&mut second, 0);
        assert!(room.would_grant(&claim(2, 0, 200)));
        assert_eq!((room.held_bytes(), room.pool_bytes), (0, 0));
    }

    #[test]
    fn a_client_stays_within_its_own_limit() {
        let mut room = Room::new(1 << 20, 1000, 1);
        assert!(room.grant(&claim(0, 0, 5000)));
        assert!(!room.grant(&claim(0, 600, 401)));
        assert!(room.grant(&claim(0, 600, 400)));
        assert_eq!(room.next(), None, "its own replies make room");
    }
}
