//! Reads before the epoch of the flash has begun.
//!
//! A start that has read the table and the journal knows where every page is. It serves reads from then
//! on, while [`Flash::take_over`] still writes the table. Until that is durable the shard writes nothing:
//! the flash belongs to the former epoch, and the note describes the backing store as the last stop left
//! it. So a crash leaves both devices as they were, and the next start finds what this one found. A
//! flash that is not [settled](Flash::is_settled) has to begin its epoch first.
//!
//! Writes, flushes, trims and zeroes are refused as [`Full`](crate::SubmitError::Full) meanwhile. Copies and
//! cleanings of the policy wait in the outbox, with their frames; when no frame is left, reads are
//! refused as well. A read that was taken never waits for the epoch.
//!
//! This is rule 11 of durability (`ARCHITECTURE.md`).

use super::{OpenError, Shard};
use crate::options::Options;
use crate::recovery::Flash;

impl Shard {
    /// Opens an engine on a flash that was read and [adapted](Flash::adapt), and on which no epoch has
    /// begun yet. The shard answers reads, and writes nothing until [`epoch_has_begun`](Self::epoch_has_begun).
    ///
    /// Call [`Flash::make_durable`] and sync the backing store before the first request. If the flash is
    /// not [settled](Flash::is_settled), begin the epoch before it, too.
    ///
    /// # Errors
    /// If options are invalid, or do not fit this flash.
    pub fn open_early(options: Options, flash: &Flash) -> Result<Self, OpenError> {
        let mut shard = Self::open(options, flash)?;
        shard.awaits_epoch = true;
        // Rule 11: a crash before the epoch must leave both devices as the last run did, so that the
        // next start decides alike.
        shard.outbox.hold_writes();
        Ok(shard)
    }

    /// Return `true` if the shard writes nothing because the epoch of its flash has not begun.
    pub const fn awaits_epoch(&self) -> bool {
        self.awaits_epoch
    }

    /// Begins to write: [`Flash::take_over`] has made the new epoch durable.
    ///
    /// # Panics
    /// If the shard does not [wait](Self::awaits_epoch) for that, or the flash is another one.
    pub fn epoch_has_begun(&mut self, flash: &Flash) {
        assert!(self.awaits_epoch, "an epoch begins once");
        // Rule 8: journal blocks carry the new epoch from here on, and table blocks go on from the
        // generations that the start wrote.
        self.journal.begin(&flash.superblock, flash.generations.clone());
        self.awaits_epoch = false;
        self.outbox.release_writes();
        self.is_stirred = true;
    }
}
