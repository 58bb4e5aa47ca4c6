//! Requests that wait for versions: to be durable (flushes and durable writes), or to be on disk.
//!
//! It enforces rule 6 of durability (`ARCHITECTURE.md`), in three stages: every page that only
//! RAM has is written, to a slot or to disk; the disk is synced if it was written since, but for what slots
//! have as well; the records of all slots written are durable.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::ops::Range;

use smallvec::SmallVec;

/// A request that waits for versions to be durable.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    request: usize,
    version: u64,
    /// Pages of the request; all if `None`.
    pages: Option<Range<u64>>,
    stage: Stage,
    /// Number of records that must be durable once the versions are written.
    records: u64,
}

impl Waiter {
    /// Return the number of the request.
    pub(super) const fn request(&self) -> usize {
        self.request
    }

    /// Return the last version that it waits for.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// Return the pages that it waits for; all if `None`.
    pub(super) const fn pages(&self) -> Option<&Range<u64>> {
        self.pages.as_ref()
    }

    /// Return `true` if it waits for the page to be written, whose oldest version that is not has this
    /// number.
    fn waits_for(&self, page: u64, undurable: u64) -> bool {
        self.stage == Stage::Data
            && undurable <= self.version
            && self.pages.as_ref().is_none_or(|pages| pages.contains(&page))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Versions are being written.
    Data,
    /// Number of syncs of the disk that must be done.
    Sync(u64),
    /// Number of records that must be durable.
    Commit(u64),
}

/// Versions and records that are durable, or about to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    /// Syncs of the disk that are done.
    pub(super) syncs_done: u64,
    /// Records so far, those that came up when the page was in its slot, and those that are durable.
    pub(super) appended: u64,
    pub(super) appended_late: u64,
    pub(super) durable: u64,
}

/// Result of moving waiters on.
#[derive(Debug, Default)]
pub(super) struct Advanced {
    /// Requests that wait no longer.
    pub(super) done: Vec<usize>,
    /// The sync of the disk, and the number of durable records, that others wait for.
    pub(super) sync: Option<u64>,
    pub(super) records: u64,
}

/// All that wait.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    waiting: Vec<Waiter>,
    /// Every version up to this one is to be written, for flushes that wait.
    flush_target: u64,
    /// Requests, by page, that wait for a version of it to be on disk, durable or not.
    on_disk: BTreeMap<u64, SmallVec<[(u64, usize); 1]>>,
}

impl Waiters {
    /// Return `true` if nobody waits for versions to be durable.
    pub(super) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Return `true` if somebody waits, for whatever it is.
    pub(super) fn is_anyone_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.on_disk.is_empty()
    }

    /// Let a request wait for a version of a page to be on disk.
    pub(super) fn push_for_disk(&mut self, request: usize, page: u64, version: u64) {
        self.on_disk.entry(page).or_default().push((version, request));
    }

    /// Return `true` if somebody waits for the page to be on disk.
    pub(super) fn want_on_disk(&self, page: u64) -> bool {
        self.on_disk.contains_key(&page)
    }

    /// Return the pages that somebody waits for to be on disk.
    pub(super) fn pages_for_disk(&self) -> BTreeSet<u64> {
        self.on_disk.keys().copied().collect()
    }

    /// Takes out the requests that wait for versions of the page on disk up to this one.
    pub(super) fn disk_done(&mut self, page: u64, version: u64) -> SmallVec<[usize; 4]> {
        let Some(waiters) = self.on_disk.get_mut(&page) else { return SmallVec::new() };
        let (done, left) = waiters.drain(..).partition(|&(wanted, _)| wanted <= version);
        *waiters = left;
        if waiters.is_empty() {
            self.on_disk.remove(&page);
        }
        let done: SmallVec<[(u64, usize); 1]> = done;
        done.into_iter().map(|(_, request)| request).collect()
    }

    /// Let a request wait for versions of these pages, all if `None`; `records` records came up so
    /// far.
    pub(super) fn push(
        &mut self,
        request: usize,
        version: u64,
        pages: Option<Range<u64>>,
        records: u64,
    ) {
        self.waiting.push(Waiter { request, version, pages, stage: Stage::Data, records });
    }

    /// Raise the version up to which everything is to be written.
    pub(super) fn raise_target(&mut self, version: u64) {
        self.flush_target = self.flush_target.max(version);
    }

    /// Return `true` if somebody waits for the page to be written, whose oldest version that is not has
    /// this number.
    pub(super) fn want(&self, page: u64, undurable: u64) -> bool {
        undurable <= self.flush_target
            || self.waiting.iter().any(|waiter| waiter.waits_for(page, undurable))
    }

    /// Make the waiters for a page wait for an early record about it. Returns `true` if anybody
    /// does.
    pub(super) fn note_record(&mut self, page: u64, undurable: u64, record: NonZeroU64) -> bool {
        let mut is_awaited = false;
        for waiter in self.waiting.iter_mut().filter(|waiter| waiter.waits_for(page, undurable)) {
            waiter.records = record.get();
            is_awaited = true;
        }
        is_awaited
    }

    /// Make all waiters wait for `records` records.
    pub(super) fn require_records(&mut self, records: u64) {
        for waiter in &mut self.waiting {
            waiter.records = records;
        }
    }

    /// Moves all on. `is_written` says whether a waiter's versions are in slots or on disk, and
    /// `awaited_sync` the number of the sync that makes durable what is only on disk, if something is.
    pub(super) fn advance(
        &mut self,
        reached: Reached,
        is_written: impl Fn(&Waiter) -> bool,
        awaited_sync: impl Fn() -> Option<u64>,
    ) -> Advanced {
        let mut advanced = Advanced::default();
        self.waiting.retain_mut(|waiter| {
            if waiter.stage == Stage::Data {
                if !is_written(waiter) {
                    return true;
                }
                // Records of what only others wait for may be under way before their pages are there.
                let commit = Stage::Commit(waiter.records.max(reached.appended_late));
                // Pages that only the disk has need a sync; for those in slots a commit is enough.
                waiter.stage = awaited_sync().map_or(commit, Stage::Sync);
            }
            if let Stage::Sync(sync) = waiter.stage {
                if reached.syncs_done < sync {
                    advanced.sync = advanced.sync.max(Some(sync));
                    return true;
                }
                // The sync made slots obsolete. Their records must be durable, or a crash would
                // bring older versions back.
                waiter.stage = Stage::Commit(reached.appended);
            }
            let Stage::Commit(records) = waiter.stage else { return true };
            advanced.records = advanced.records.max(records);
            if reached.durable < records {
                return true;
            }
            advanced.done.push(waiter.request);
            false
        });
        advanced
    }

    /// Takes out the requests that wait for a sync that failed, one of the first so many; the others wait for
    /// their pages again.
    pub(super) fn fail_syncs(&mut self, syncs: u64) -> Vec<usize> {
        let failed =
            self.take(|waiter| matches!(waiter.stage, Stage::Sync(wanted) if wanted <= syncs));
        self.restart();
        failed
    }

    /// Takes out the requests that wait for versions of these pages from this one on to be written.
    pub(super) fn fail_pages(&mut self, pages: &Range<u64>, version: u64) -> Vec<usize> {
        let overlaps = |it: &Range<u64>| it.start < pages.end && pages.start < it.end;
        self.take(|waiter| {
            waiter.stage == Stage::Data
                && version <= waiter.version
                && waiter.pages.as_ref().is_none_or(overlaps)
        })
    }

    /// Takes out the flushes that wait for this version, and these durable writes.
    pub(super) fn take_lost(&mut self, version: u64, writes: &BTreeSet<usize>) -> Vec<Waiter> {
        let is_lost = |waiter: &mut Waiter| match waiter.pages {
            None => waiter.version >= version,
            Some(_) => writes.contains(&waiter.request),
        };
        self.waiting.extract_if(.., is_lost).collect()
    }

    /// Let all wait for their pages again: the slots that had them are gone.
    pub(super) fn restart(&mut self) {
        for waiter in &mut self.waiting {
            waiter.stage = Stage::Data;
        }
    }

    /// Forget these requests, whose results no longer depend on their versions.
    pub(super) fn forget(&mut self, requests: &BTreeSet<usize>) {
        self.waiting.retain(|waiter| !requests.contains(&waiter.request));
        self.on_disk.retain(|_, waiters| {
            waiters.retain(|(_, request)| !requests.contains(request));
            !waiters.is_empty()
        });
    }

    fn take(&mut self, is_taken: impl Fn(&Waiter) -> bool) -> Vec<usize> {
        self.waiting
            .extract_if(.., |waiter| is_taken(waiter))
            .map(|waiter| waiter.request)
            .collect()
    }
}
