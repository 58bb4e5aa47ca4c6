//! Whose turn it is: clients are served in the order of what they have had, not of how much they ask for.
//!
//! Each client has a time of its own, which runs with the cost of its requests. The client whose time is
//! the earliest is served next, for a share at most. A client that was idle begins at the time of the client
//! that was served last, so it neither saves up for later nor waits behind those that always ask: one
//! request of it is served after at most a turn.
//!
//! * Source: Goyal et al., *Start-time Fair Queuing*, SIGCOMM '96, section 2.
//! * State: 16 bytes per client that waits.
//! * Cost: O(log clients) per share.
//! * Deviations: (1) the cost is known after the service, so a client's time runs on afterwards; (2) a turn
//!   serves several clients before any is answered, because system calls cost less together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a request costs besides its bytes, in bytes.
pub(super) const REQUEST_COST: i64 = 4 << 10;

/// What one client may use at a time.
pub(super) const SHARE: u64 = 256 << 10;

/// What a turn may cost in all before the system is asked for other clients: about a fifth of a millisecond.
pub(super) const TURN_COST: u64 = 512 << 10;

/// A client among those that wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// What it has had, on the scale of all clients.
    time: u64,
    /// Whether it waits for its turn.
    is_waiting: bool,
}

/// The clients that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The time of the client that was served last.
    now: u64,
}

impl Turns {
    /// Has a client wait for its turn, unless it does.
    pub(super) fn join(&mut self, client: usize, standing: &mut Standing) {
        if !standing.is_waiting {
            standing.is_waiting = true;
            standing.time = standing.time.max(self.now);
            self.waiting.push(Reverse((standing.time, client)));
        }
    }

    /// The next client, which waits no more. It may have gone, or have come after the one that waited.
    pub(super) fn next(&mut self) -> Option<usize> {
        self.waiting.pop().map(|Reverse((_, client))| client)
    }

    /// A client's turn has come. Returns whether it waited for it.
    pub(super) fn begin(&mut self, standing: &mut Standing) -> bool {
        self.now = self.now.max(standing.time);
        std::mem::take(&mut standing.is_waiting)
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Standing {
    /// The client has had so much.
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
        assert!(most - least <= SHARE, "{had:?}");
    }

    #[test]
    fn one_that_was_idle_comes_before_those_that_have_had_more_since() {
        let mut turns = Turns::default();
        let mut standings = [Standing::default(); 4];
        for (client, standing) in standings.iter_mut().enumerate().take(3) {
            turns.join(client, standing);
        }
        for _ in 0..30 {
            let client = turns.next().unwrap();
            turns.begin(&mut standings[client]);
            standings[client].charge(SHARE);
            turns.join(client, &mut standings[client]);
        }
        // Two of the three have had their share of this round at most.
        turns.join(3, &mut standings[3]);
        let before: Vec<usize> =
            std::iter::from_fn(|| turns.next()).take_while(|&it| it != 3).collect();
        assert!(before.len() <= 2, "{before:?}");
        assert!(standings[3].time >= standings[0].time - 2 * SHARE, "it has saved nothing up");
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
