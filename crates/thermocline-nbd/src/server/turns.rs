//! Turns of clients: they are served by the service that they have had, not by how much they ask
//! for.
//!
//! Each client has a time of its own, which runs with the cost of its requests, and the time of all is that
//! of the client whose turn it was. The client whose time is the earliest is served next, for a share at
//! most.
//!
//! A client that asks for little falls behind the time of all, by at most [`LAG_MAX`], and so comes before those
//! that always have requests. That its time may lag is the point: if it went on at the time of all after each
//! pause, as those do that pause because they wait for the next of their many requests, it would wait for a share
//! of each of them.
//!
//! * Source: Goyal et al., *Start-time Fair Queuing*, SIGCOMM '96, section 2.
//! * State: 17 bytes per client that waits.
//! * Cost: O(log clients) per share.
//! * Deviations: (1) the cost is known after the service, so a client's time runs on afterwards; (2) a turn
//!   serves several clients before any is answered, because system calls cost less together; (3) the source has a
//!   client that was idle go on at the time of all: here it may lag.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cost of a request besides its bytes, in bytes.
pub(super) const REQUEST_COST: i64 = 4 << 10;

/// Cost that one client may use at a time.
pub(super) const SHARE: u64 = 256 << 10;

/// Cost of a turn in all before the system is asked for other clients: about a fifth of a
/// millisecond.
pub(super) const TURN_COST: u64 = 512 << 10;

/// Maximum cost by which a client's time may lag behind the time of all: what it may then have at once before
/// others that always have requests. Each of these waits for as long: about a third of a millisecond.
const LAG_MAX: u64 = 4 * SHARE;

/// A client among those that wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// Service that it has had, on the scale of all clients.
    time: u64,
    /// `true` if it waits for its turn.
    is_waiting: bool,
}

/// The clients that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Clients by their time.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The time of all.
    now: u64,
}

impl Turns {
    /// Queue a client for its turn, unless it is queued.
    pub(super) fn join(&mut self, client: usize, standing: &mut Standing) {
        if !standing.is_waiting {
            standing.is_waiting = true;
            // Section 2: a start tag is the later one of the time of all and the client's own.
            // Deviation (3): it may lag.
            standing.time = standing.time.max(self.now.saturating_sub(LAG_MAX));
            self.waiting.push(Reverse((standing.time, client)));
        }
    }

    /// Return the next client, which waits no more. It may have gone, or have come after the one
    /// that waited.
    pub(super) fn next(&mut self) -> Option<usize> {
        self.waiting.pop().map(|Reverse((_, client))| client)
    }

    /// Return `true` if a client that was served would come next again: it asked for little.
    pub(super) fn would_be_next(&self, standing: &Standing) -> bool {
        self.waiting.peek().is_some_and(|Reverse((time, _))| standing.time < *time)
    }

    /// Begin a client's turn; `true` if the client waited for it.
    pub(super) fn begin(&mut self, standing: &mut Standing) -> bool {
        // Section 2: the time of all is the start tag of whoever is served.
        self.now = self.now.max(standing.time);
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
        // Section 2: the finish tag, with equal weights. Deviation (1): after the service, once its
        // cost is known.
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

    /// Have as many clients ask for four shares each, and again `pause` shares of anybody after they had the
    /// last one; one more asks for a page after every `think` shares. Return the maximum number of shares that
    /// come before one of its pages.
    fn wait_beside_those_that_pause(others: usize, pause: usize, think: usize) -> usize {
        let mut turns = Turns::default();
        let mut standings = vec![Standing::default(); others + 1];
        let mut due = vec![0; others + 1];
        let mut wants = vec![4; others];
        let (mut longest, mut asked_at) = (0, None);
        for share in 0..100 * others {
            for client in (0..others).filter(|&client| due[client] <= share && wants[client] > 0) {
                turns.join(client, &mut standings[client]);
            }
            if due[others] <= share && asked_at.is_none() {
                asked_at = Some(share);
                turns.join(others, &mut standings[others]);
            }
            let Some(client) = turns.next() else { continue };
            assert!(turns.begin(&mut standings[client]));
            if client == others {
                standings[client].charge(REQUEST_COST.unsigned_abs() * 2);
                let asked = asked_at.take().expect("it waited");
                // At first all are new.
                longest = if share < 10 * others { 0 } else { longest.max(share - asked) };
                due[client] = share + think;
                continue;
            }
            standings[client].charge(SHARE);
            wants[client] -= 1;
            if wants[client] == 0 {
                (wants[client], due[client]) = (4, share + pause);
            }
        }
        longest
    }

    #[test]
    fn one_that_asks_for_little_comes_before_those_that_pause_for_a_moment() {
        for pause in [1, 10, 30, 60, 100] {
            for think in [3, 17, 70] {
                let longest = wait_beside_those_that_pause(64, pause, think);
                assert!(longest <= 4, "{longest} shares with pauses of {pause} and {think}");
            }
        }
    }

    #[test]
    fn one_that_was_idle_for_long_saves_up_little() {
        let mut turns = Turns::default();
        let mut standings = [Standing::default(); 2];
        for _ in 0..1_000 {
            turns.join(0, &mut standings[0]);
            assert_eq!(turns.next(), Some(0));
            turns.begin(&mut standings[0]);
            standings[0].charge(SHARE);
        }
        let mut had_first = 0;
        turns.join(0, &mut standings[0]);
        turns.join(1, &mut standings[1]);
        while turns.next() == Some(1) {
            turns.begin(&mut standings[1]);
            standings[1].charge(SHARE);
            turns.join(1, &mut standings[1]);
            had_first += SHARE;
        }
        assert!(had_first <= LAG_MAX + 2 * SHARE, "{had_first}");
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
