//! The tail of the journal, moved on because records before it must not be replayed.

use super::Journal;

impl Journal {
    /// Have the tail move to this block or behind it. Returns `true` if it has, durably. All records before the
    /// block are durable.
    pub(in crate::shard) fn advance_tail(&mut self, block: u64) -> bool {
        if self.tail < block {
            self.checkpoints.start(self.uncertain);
        } else if self.durable_tail < block {
            // A block says the new tail.
            self.is_commit_wanted |= self.has_new_tail();
        }
        // Recovery begins at the tail that a durable block names.
        self.durable_tail >= block
    }

    /// Return the first block not known to be durable.
    pub(in crate::shard) const fn uncertain(&self) -> u64 {
        self.uncertain
    }
}
