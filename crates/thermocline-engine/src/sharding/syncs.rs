//! Syncs of a device that several shards write to.
//!
//! A sync that fails may have dropped what any shard wrote to the device since the last one that
//! succeeded, and the system tells only one caller of it. So one sync is under way at a time, for all who
//! asked before it began; when it fails, it fails for these, and the next sync of every other shard
//! fails as well. Devices also have fewer syncs to perform: shards that commit at the same time share one.
//!
//! It enforces rule 9 of durability (`ARCHITECTURE.md`) across shards.

/// Waiters for a sync of one device. Those who write to it may come and go.
#[derive(Clone, Debug, Default)]
pub struct SharedSyncs {
    members: Vec<Member>,
    is_running: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    /// Syncs that it asked for, and that have not begun.
    asks: usize,
    /// Number of waiters that the current sync serves.
    waits: usize,
    /// `true` if a sync of others failed since its last one: what it wrote may be gone.
    is_doubtful: bool,
    /// `true` if it writes no more: another one may have its number.
    has_left: bool,
}

impl SharedSyncs {
    /// Returns the state before any of the shards has written or asked.
    pub fn new(shards: usize) -> Self {
        Self { members: vec![Member::default(); shards], is_running: false }
    }

    /// Add one that has written nothing yet. Returns its number.
    pub fn join(&mut self) -> usize {
        let free = self.members.iter().position(|member| member.has_left);
        let number = free.unwrap_or(self.members.len());
        if free.is_none() {
            self.members.push(Member::default());
        }
        self.members[number] = Member::default();
        number
    }

    /// Remove one that writes no more. Nobody hears of the syncs that it asked for.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn leave(&mut self, shard: usize) {
        self.members[shard] = Member { has_left: true, ..Member::default() };
    }

    /// Ask for a sync: a shard wants its writes to be durable.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn ask(&mut self, shard: usize) {
        self.members[shard].asks += 1;
    }

    /// Return `true` if the device is to be synced now. Then that has begun, until [`done`](Self::done).
    pub fn begin(&mut self) -> bool {
        if self.is_running {
            return false;
        }
        for member in &mut self.members {
            member.waits = std::mem::take(&mut member.asks);
            self.is_running |= member.waits > 0;
        }
        self.is_running
    }

    /// End the sync. Tells, shard by shard, how many of its syncs that answers, those asked for
    /// first, and whether what the shard wrote is durable.
    ///
    /// # Panics
    /// If none is under way.
    pub fn done(&mut self, is_success: bool, mut tell: impl FnMut(usize, usize, bool)) {
        assert!(std::mem::take(&mut self.is_running), "a sync is under way");
        for (shard, member) in self.members.iter_mut().enumerate() {
            let waits = std::mem::take(&mut member.waits);
            if waits == 0 {
                member.is_doubtful |= !is_success;
                continue;
            }
            let was_doubtful = std::mem::take(&mut member.is_doubtful);
            tell(shard, waits, is_success && !was_doubtful);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(syncs: &mut SharedSyncs, is_success: bool) -> Vec<(usize, usize, bool)> {
        let mut told = vec![];
        syncs.done(is_success, |shard, count, is_durable| told.push((shard, count, is_durable)));
        told
    }

    #[test]
    fn those_who_ask_together_share_a_sync() {
        let mut syncs = SharedSyncs::new(3);
        assert!(!syncs.begin());
        for shard in [0, 2, 2] {
            syncs.ask(shard);
        }
        assert!(syncs.begin());
        // The sync under way need not cover writes from now on.
        syncs.ask(1);
        syncs.ask(2);
        assert!(!syncs.begin());
        assert_eq!(done(&mut syncs, true), [(0, 1, true), (2, 2, true)]);
        assert!(syncs.begin());
        assert_eq!(done(&mut syncs, true), [(1, 1, true), (2, 1, true)]);
        assert!(!syncs.begin());
    }

    #[test]
    fn who_comes_later_hears_of_no_failure_before_and_who_left_of_none_after() {
        let mut syncs = SharedSyncs::default();
        assert_eq!([syncs.join(), syncs.join()], [0, 1]);
        syncs.ask(0);
        syncs.ask(1);
        assert!(syncs.begin());
        syncs.leave(1);
        assert_eq!(done(&mut syncs, false), [(0, 1, false)]);
        // The number is free, and the doubts of the one that had it are gone with that.
        assert_eq!([syncs.join(), syncs.join()], [1, 2]);
        for shard in 0..3 {
            syncs.ask(shard);
        }
        assert!(syncs.begin());
        assert_eq!(done(&mut syncs, true), [(0, 1, true), (1, 1, true), (2, 1, true)]);
        syncs.leave(0);
        syncs.ask(1);
        assert!(syncs.begin());
        // One that comes while a sync is under way may have written before that fails.
        assert_eq!(syncs.join(), 0);
        assert_eq!(done(&mut syncs, false), [(1, 1, false)]);
        syncs.ask(0);
        assert!(syncs.begin());
        assert_eq!(done(&mut syncs, true), [(0, 1, false)]);
    }

    #[test]
    fn a_failure_is_told_to_every_shard_once() {
        let mut syncs = SharedSyncs::new(3);
        syncs.ask(0);
        assert!(syncs.begin());
        // It asked before the failure, and wrote before it.
        syncs.ask(1);
        assert_eq!(done(&mut syncs, false), [(0, 1, false)]);
        syncs.ask(0);
        assert!(syncs.begin());
        assert_eq!(done(&mut syncs, true), [(0, 1, true), (1, 1, false)]);
        for is_durable in [false, true] {
            for shard in 0..3 {
                syncs.ask(shard);
            }
            assert!(syncs.begin());
            assert_eq!(done(&mut syncs, true), [(0, 1, true), (1, 1, true), (2, 1, is_durable)]);
        }
    }
}
