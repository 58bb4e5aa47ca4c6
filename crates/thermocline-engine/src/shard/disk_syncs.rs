//! Syncs of the disk: what was written since the last one, and who asks for the next.
//!
//! It enforces rule 9 of durability (`ARCHITECTURE.md`): a version counts as durable on disk
//! only if a sync that began after its write succeeds, and a sync that fails gives up every version since
//! the last good one.

use thermocline_core::Nanos;

/// Time that syncs rest after one failed, unless a flush asks.
const REST: Nanos = super::write_backs::REST;

/// A page, and a version of it that the disk has.
pub(super) type Written = (u64, u64);

/// Versions on disk that are not durable, and the syncs that make them so. Syncs are numbered from one.
#[derive(Debug, Default)]
pub(super) struct DiskSyncs {
    /// Versions written since the last sync was started, and those that the sync under way covers.
    unsynced: Vec<Written>,
    syncing: Vec<Written>,
    is_syncing: bool,
    is_wanted: bool,
    /// `true` if writes were lost that had been answered, and no flush has failed for it.
    has_loss: bool,
    started: u64,
    done: u64,
    /// Time at which the disk may be synced again for other reasons than a flush, after a sync that
    /// failed.
    retry_at: Option<Nanos>,
}

impl DiskSyncs {
    /// Note that the disk has a version.
    pub(super) fn note(&mut self, page: u64, version: u64) {
        self.unsynced.push((page, version));
    }

    /// Note that the disk has a version that the sync under way covers.
    pub(super) fn note_syncing(&mut self, page: u64, version: u64) {
        self.syncing.push((page, version));
    }

    /// Return the versions that wait for the next sync.
    pub(super) fn unsynced(&self) -> &[Written] {
        &self.unsynced
    }

    /// Return the versions that the sync under way covers.
    pub(super) fn syncing(&self) -> &[Written] {
        &self.syncing
    }

    /// Return `true` if versions wait for a sync, or one is under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.unsynced.is_empty() || self.is_syncing
    }

    /// Return `true` if a sync is under way.
    pub(super) const fn is_syncing(&self) -> bool {
        self.is_syncing
    }

    /// Return `true` if nothing is under way or wanted.
    pub(super) const fn is_idle(&self) -> bool {
        !self.is_syncing && !self.is_wanted
    }

    /// Return the number of the next sync to be started.
    pub(super) const fn next(&self) -> u64 {
        self.started + 1
    }

    /// Return `true` if the sync with this number was started.
    pub(super) const fn has_started(&self, sync: u64) -> bool {
        sync <= self.started
    }

    /// Return the number of syncs that are over.
    pub(super) const fn done(&self) -> u64 {
        self.done
    }

    /// Want a sync now.
    pub(super) const fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Want a sync, unless one has failed just now. Returns `true` if nobody wanted one before.
    pub(super) fn want_if_rested(&mut self, now: Nanos) -> bool {
        let is_new = !self.is_wanted && !self.is_resting(now);
        self.is_wanted |= is_new;
        is_new
    }

    /// Return `true` if a sync has failed just now: only flushes try it again at once.
    pub(super) fn is_resting(&self, now: Nanos) -> bool {
        self.retry_at.is_some_and(|at| now < at)
    }

    /// Return the time at which the rest of syncs ends.
    pub(super) const fn retry_at(&self) -> Option<Nanos> {
        self.retry_at
    }

    /// End the rest of syncs.
    pub(super) const fn end_rest(&mut self) {
        self.retry_at = None;
    }

    /// Begins the next sync if one is wanted and none is under way. Returns `true` if the disk is
    /// to be synced.
    pub(super) const fn start(&mut self) -> bool {
        // One at a time: a failure must say which writes are in doubt.
        if !self.is_wanted || self.is_syncing {
            return false;
        }
        self.is_wanted = false;
        self.is_syncing = true;
        self.started += 1;
        // Writes that end from here on may have missed the sync: they wait for the next one.
        std::mem::swap(&mut self.unsynced, &mut self.syncing);
        true
    }

    /// Note that the sync succeeded, and return the versions that it made durable.
    pub(super) fn succeeded(&mut self) -> Vec<Written> {
        self.end();
        self.retry_at = None;
        std::mem::take(&mut self.syncing)
    }

    /// Note that the sync failed, and return the versions written since the last good one: the disk
    /// may have lost all of them.
    pub(super) fn failed(&mut self, now: Nanos) -> Vec<Written> {
        self.end();
        self.retry_at = Some(Nanos(now.0 + REST.0));
        // Also the writes since the sync began: the failure may have dropped them.
        self.unsynced.drain(..).chain(self.syncing.drain(..)).collect()
    }

    /// Writes were lost that had been answered: the next flush fails.
    pub(super) const fn owe_loss(&mut self) {
        self.has_loss = true;
    }

    /// Return `true` if a flush has to fail for lost writes; the one after it need not.
    pub(super) const fn take_loss(&mut self) -> bool {
        std::mem::replace(&mut self.has_loss, false)
    }

    const fn end(&mut self) {
        self.is_syncing = false;
        self.done += 1;
    }

    /// Return the size of the heap memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.unsynced.capacity() + self.syncing.capacity()) * size_of::<Written>()
    }

    /// Checks the invariants.
    pub(super) fn assert_invariants(&self) {
        assert_eq!(self.started - self.done, u64::from(self.is_syncing), "syncs follow each other");
        assert!(
            self.is_syncing || self.syncing.is_empty(),
            "only a sync under way covers versions"
        );
    }
}
