//! Turns of clients: they are served by the service that they have had, not by how much they ask
//! for.
//!
//! Each client has a time of its own, which runs with the cost of its requests, and the time of all is that
//! of the client whose turn it was. The client whose time is the earliest is served next, for a share at
//! most. One that was idle goes on at the time of all, so it cannot save up for later.
//!
//! A client whose time is less than a share ahead of the time of all comes before those that are
//! further: it has had less than its share of this round. Otherwise one that asks for a page now and then would
//! wait for a share of everybody else each time. Its time runs on as that of any other, and the time of all
//! does not move with it, so it comes first for a share per round and no more.
//!
//! * Source: Goyal et al., *Start-time Fair Queuing*, SIGCOMM '96, section 2; the clients that come first are
//!   the new flows of Hoeiland-Joergensen et al., *FQ-CoDel*, RFC 8290, section 4.1.
//! * State: 24 bytes per client that waits.
//! * Cost: O(log clients) per share.
//! * Deviations: (1) the cost is known after the service, so a client's time runs on afterwards; (2) a turn
//!   serves several clients before any is answered, because system calls cost less together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cost of a request besides its bytes, in bytes.
pub(super) const REQUEST_COST: i64 = 4 << 10;

/// Cost that one client may use at a time.
pub(super) const SHARE: u64 = 256 << 10;

/// Cost of a turn in all before the system is asked for other clients: about a fifth of a
/// millisecond.
pub(super) const TURN_COST: u64 = 512 << 10;

/// A client among those that wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// Service that it has had, on the scale of all clients.
    time: u64,
    /// `true` if it waits for its turn.
    is_waiting: bool,
    /// `true` if it comes before those that have had their share of this round.
    is_early: bool,
}

/// The clients that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Clients by rank: `true` if a client has had its share, then its time, then the client.
    waiting: BinaryHeap<Reverse<(bool, u64, usize)>>,
    /// The time of all.
    now: u64,
}

impl Turns {
    /// Queue a client for its turn, unless it is queued.
    pub(super) fn join(&mut self, client: usize, standing: &mut Standing) {
        if !standing.is_waiting {
            standing.is_waiting = true;
            standing.time = standing.time.max(self.now);
            standing.is_early = standing.time < self.now + SHARE;
            self.waiting.push(Reverse((!standing.is_early, standing.time, client)));
        }
    }

    /// Return the next client, which waits no more. It may have gone, or have come after the one
    /// that waited.
    pub(super) fn next(&mut self) -> Option<usize> {
        self.waiting.pop().map(|Reverse((_, _, client))| client)
    }

    /// Return `true` if the next client comes before those that have had their share of this round.
    pub(super) fn is_next_early(&self) -> bool {
        self.waiting.peek().is_some_and(|Reverse((has_had_share, ..))| !has_had_share)
    }

    /// Begin a client's turn; `true` if the client waited for it.
    pub(super) fn begin(&mut self, standing: &mut Standing) -> bool {
        if !standing.is_early {
            self.now = self.now.max(standing.time);
        }
        std::mem::take(&mut standing.is_waiting)
    }

    /// Return `true` if nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Standing {
    /// Charge the client for the work that it had.
    pub(super) fn charge(&mut self, cost: u64) {
        self.time += cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves so many shares to clients that ask for `wants` each time; returns what each has had.
    fn serve(wants: &[u64], shares: usize) -> Vec<u64> {
        let mut turns = Turns::default();
        let mut standings = vec![Standing::default(); wants.len()];
        let mut had = vec![0; wants.len()];
        for (client, standing) in standings.iter_mut().enumerate() {
            turns.join(client, standing);
        }
        for _ in 0..shares {
            let client = turns.next().expect("all come again");
            let standing = &mut standings[client];
            assert!(turns.begin(standing));
            let cost = wants[client].min(SHARE);
            standing.charge(cost);
            had[client] += cost;
            turns.join(client, standing);
        }
        had
    }

    #[test]
    fn clients_that_always_ask_have_the_same() {
        let had = serve(&[SHARE, SHARE / 7, SHARE * 100, SHARE / 2], 4_000);
        let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
        assert!(most - least <= 2 * SHARE, "{had:?}");
    }

    /// Serve some requests of one client in turn with as many others as there are; return the
    /// maximum number of theirs that come before each of its own.
    fn wait_of_one(others: usize, cost: u64, requests: usize) -> usize {
        let mut turns = Turns::default();
        let mut standings = vec![Standing::default(); others + 1];
        for (client, standing) in standings.iter_mut().enumerate().take(others) {
            turns.join(client, standing);
        }
        let mut longest = 0;
        for request in 0..requests {
            turns.join(others, &mut standings[others]);
            for before in 0.. {
                let client = turns.next().expect("all come again");
                assert!(turns.begin(&mut standings[client]));
                if client == others {
                    standings[client].charge(cost);
                    // At first all are new.
                    longest = if request < 2 { 0 } else { longest.max(before) };
                    break;
                }
                standings[client].charge(SHARE);
                turns.join(client, &mut standings[client]);
            }
            // Somebody is served between its requests.
            let client = turns.next().expect("all come again");
            turns.begin(&mut standings[client]);
            standings[client].charge(SHARE);
            turns.join(client, &mut standings[client]);
        }
        longest
    }

    #[test]
    fn one_that_asks_for_little_does_not_wait_for_a_round() {
        assert!(wait_of_one(64, SHARE / 64, 1_000) <= 1);
    }

    #[test]
    fn one_that_had_its_share_waits_for_the_next_round() {
        let longest = wait_of_one(64, SHARE, 200);
        assert!((32..=128).contains(&longest), "{longest}");
    }

    #[test]
    fn nobody_waits_twice() {
        let (mut turns, mut standing) = (Turns::default(), Standing::default());
        turns.join(5, &mut standing);
        turns.join(5, &mut standing);
        assert_eq!(turns.next(), Some(5));
        assert!(turns.begin(&mut standing) && turns.is_empty());
        assert!(!turns.begin(&mut standing), "it has gone already");
    }
}
