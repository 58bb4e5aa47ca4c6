//! Ranges that become blank: trims and zeroes of pages that no tier holds.
//!
//! A range costs one record and one operation of the backing store, however long it is. Its pages have no
//! entries. A page of it that is accessed gets an entry, as if it had been trimmed or zeroed alone:
//!
//! * While the operation is on its way, the page has a frame of zeroes, and its write to disk is the
//!   operation of the range; the range keeps the page's number, and the entry learns of the completion.
//! * Afterwards the page leaves the range, and its entry waits for the sync.
//!
//! Ranges are disjoint. A new one replaces what it covers of those that nothing is under way for; a
//! request that overlaps one on its way is taken when that is complete. A range is forgotten when a sync
//! of the disk covers it. A sync that fails may have dropped it, so the range is zeroed again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use smallvec::SmallVec;
use thermocline_core::{Nanos, Op, Tier};

use super::request::Building;
use super::write_backs::REST;
use super::{Event, InFlight, Place, Shard};
use crate::entry::{Capture, Entry, EntryId};
use crate::operation::{Copies, Device, Operation, OperationKind, OperationParts};
use crate::request::RequestError;

/// Ranges that the engine remembers; a request that needs one more waits for a sync.
const RANGES_MAX: usize = 4096;
/// Ranges that wait for a sync before somebody asks for one.
pub(super) const UNSYNCED_RANGES_MAX: usize = 1024;
/// The longest zeroing that the disk is asked for at once: one that can only write must end in time.
pub(super) const ZERO_BYTES_MAX: u64 = 256 << 20;
/// Neighbouring discards become one up to this length.
const DISCARD_BYTES_MAX: u64 = 4 << 30;

/// Pages that are searched for in the time that it takes to list one place, about: a range that is longer
/// is not searched.
const SEARCHED_PER_PLACE: u64 = 8;

/// The ranges, by their first pages.
#[derive(Debug, Default)]
pub(super) struct Blanks {
    pub(super) ranges: BTreeMap<u64, Blank>,
    /// Starts of ranges whose operation is not started.
    wanted: BTreeSet<u64>,
    /// Starts of dirty ranges that are tried again later.
    resting: BTreeSet<u64>,
    pub(super) retry_at: Nanos,
    /// Position of the sweep over the wanted ranges.
    sweep: u64,
    /// Pages of ranges on their way that have entries.
    seen_pages: usize,
    /// Ranges on their way, or resting, that a flush has to wait for.
    owed: usize,
    /// The number of the sync that covers the last range that was written or refused; 0 if there was none.
    pub(super) last_sync: u64,
    /// `true` if other writes to the disk come first now.
    is_others_turn: bool,
}

/// A range.
#[derive(Clone, Debug)]
pub(super) struct Blank {
    pub(super) end: u64,
    /// The version of its pages, and the one that they had.
    pub(super) version: u64,
    pub(super) before: u64,
    /// A zero or a discard.
    pub(super) kind: OperationKind,
    pub(super) state: State,
    /// The request that is answered when the disk has it.
    pub(super) request: Option<usize>,
    /// The oldest version of a part of it that a request zeroed and that was answered, if there is one:
    /// flushes after that wait for the range, whatever replaced that version since. A discard promises
    /// nothing.
    pub(super) owed: Option<u64>,
    /// `true` if the disk may show what it does not have durably, because a sync failed: only zeroes make
    /// that right.
    pub(super) is_doubtful: bool,
    /// `true` if it failed before, together with its neighbours.
    pub(super) is_retry: bool,
    /// Its pages that have entries.
    pub(super) seen: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The disk will be asked for it.
    Wanted,
    /// The disk has been asked for it.
    InFlight,
    /// The disk has it; the sync with this number makes it durable.
    Written(u64),
    /// The disk refused it, or may have dropped it.
    Resting,
}

/// Neighbouring ranges that the disk is asked for at once.
#[derive(Debug)]
pub(super) struct BlankRun {
    pub(super) starts: SmallVec<[u64; 1]>,
    /// `true` if a sync failed since the operation was started, and may have dropped it.
    pub(super) is_doubtful: bool,
}

/// Parts of a trim or a zeroing.
#[derive(Debug, Default)]
pub(super) struct BlankParts {
    /// Pages that a tier holds, and those that are not covered as a whole.
    pub(super) pages: Vec<u64>,
    /// Whole pages that no tier holds.
    pub(super) gaps: Vec<Range<u64>>,
}

impl Blank {
    /// Return `true` if its pages may have entries while it is there.
    fn is_busy(&self) -> bool {
        matches!(self.state, State::Wanted | State::InFlight)
    }

    fn delays_flushes(&self) -> bool {
        self.owed.is_some() && !matches!(self.state, State::Written(_))
    }
}

/// Return the older of two versions, of which one or both may not be there.
pub(super) fn oldest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

impl Blanks {
    pub(super) fn insert(&mut self, start: u64, blank: Blank) {
        debug_assert!(start < blank.end, "a range has a page");
        match blank.state {
            State::Wanted => drop(self.wanted.insert(start)),
            State::Resting => drop(self.resting.insert(start)),
            State::InFlight | State::Written(_) => {}
        }
        self.owed += usize::from(blank.delays_flushes());
        self.seen_pages += blank.seen.len();
        let former = self.ranges.insert(start, blank);
        assert!(former.is_none(), "ranges are disjoint");
    }

    pub(super) fn remove(&mut self, start: u64) -> Blank {
        let blank = self.ranges.remove(&start).expect("the caller knows of the range");
        self.wanted.remove(&start);
        self.resting.remove(&start);
        self.owed -= usize::from(blank.delays_flushes());
        self.seen_pages -= blank.seen.len();
        blank
    }

    fn set_state(&mut self, start: u64, state: State) {
        let blank = self.remove(start);
        self.insert(start, Blank { state, ..blank });
    }

    /// Return the first pages of the ranges that overlap a range.
    fn overlapping(&self, pages: &Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let first = pages.start;
        let upwards = self.ranges.range(..pages.end).rev();
        upwards.take_while(move |(_, blank)| blank.end > first).map(|(&start, _)| start)
    }

    /// Return the parts of a range that blank ranges cover, in order.
    pub(super) fn covered(&self, pages: &Range<u64>) -> SmallVec<[Range<u64>; 1]> {
        let part = |start: u64| start.max(pages.start)..self.ranges[&start].end.min(pages.end);
        let mut parts: SmallVec<_> = self.overlapping(pages).map(part).collect();
        parts.reverse();
        parts
    }

    /// Return the range that a page without an entry lies in.
    fn find(&self, page: u64) -> Option<u64> {
        if self.ranges.is_empty() {
            return None;
        }
        let (&start, blank) = self.ranges.range(..=page).next_back()?;
        (page < blank.end && !blank.seen.contains(&page)).then_some(start)
    }

    /// Return `true` if a page without an entry is newer than what the disk has durably.
    pub(super) fn contains(&self, page: u64) -> bool {
        self.find(page).is_some()
    }

    /// Takes the pages out of ranges that nothing is under way for. Returns the oldest version of them
    /// that a flush has to wait for, and whether some are doubtful.
    fn cut(&mut self, pages: &Range<u64>) -> (Option<u64>, bool) {
        let (mut owed, mut is_doubtful) = (None, false);
        let overlapping: SmallVec<[u64; 4]> = self.overlapping(pages).collect();
        for start in overlapping {
            let blank = self.remove(start);
            assert!(!blank.is_busy(), "ranges on their way stay as they are");
            owed = oldest(owed, blank.owed);
            is_doubtful |= blank.is_doubtful;
            if blank.end > pages.end {
                self.insert(pages.end, blank.clone());
            }
            if start < pages.start {
                self.insert(start, Blank { end: pages.start, ..blank });
            }
        }
        (owed, is_doubtful)
    }

    /// Return the parts of a range that were zeroed, which is not durable yet, in order.
    fn zeroed_parts(&self, pages: &Range<u64>) -> SmallVec<[Range<u64>; 2]> {
        let part = |start: u64| {
            let blank = &self.ranges[&start];
            let part = start.max(pages.start)..blank.end.min(pages.end);
            (blank.kind == OperationKind::Zero).then_some(part)
        };
        let mut parts: SmallVec<[Range<u64>; 2]> =
            self.overlapping(pages).filter_map(part).collect();
        parts.reverse();
        parts
    }

    /// Return `true` if operations of ranges wait to be started.
    pub(super) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Return `true` if the disk lacks ranges that it will be asked for again later.
    pub(super) fn has_resting(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Return the time at which ranges that rest are tried again.
    pub(super) fn retry_at(&self) -> Option<Nanos> {
        self.has_resting().then_some(self.retry_at)
    }

    /// Return the number of the sync that covers what was written last; 0 if nothing was.
    pub(super) fn last_sync(&self) -> u64 {
        self.last_sync
    }

    /// Return the number of pages without entries that the disk may not have durably.
    pub(super) fn dirty_pages(&self) -> usize {
        let pages = |(start, blank): (&u64, &Blank)| blank.end - start - blank.seen.len() as u64;
        let pages = self.ranges.iter().map(pages).sum::<u64>();
        usize::try_from(pages).unwrap_or(usize::MAX)
    }

    /// Return `true` if some of the pages must still be zeroed for a request that waits for
    /// versions up to this one.
    pub(super) fn owes(&self, version: u64, pages: Option<&Range<u64>>) -> bool {
        let delays = |blank: &Blank| blank.delays_flushes() && blank.owed <= Some(version);
        self.owed > 0
            && match pages {
                None => self.ranges.values().any(delays),
                Some(pages) => self.overlapping(pages).any(|start| delays(&self.ranges[&start])),
            }
    }

    /// Return `true` if the disk may not have the pages of a range durably as they were at this version.
    pub(super) fn has_older(&self, pages: &Range<u64>, version: u64) -> bool {
        self.overlapping(pages).any(|start| self.ranges[&start].version <= version)
    }

    /// Forget these requests, whose results are known before those of their ranges.
    pub(super) fn forget_requests(&mut self, requests: &BTreeSet<usize>) {
        for blank in self.ranges.values_mut() {
            blank.request = blank.request.filter(|request| !requests.contains(request));
        }
    }

    /// Tries again what rests: all of it, or one range if the disk seems to be gone.
    fn wake(&mut self, ranges_max: usize) {
        let resting: SmallVec<[u64; 4]> = self.resting.iter().copied().take(ranges_max).collect();
        for start in resting {
            self.set_state(start, State::Wanted);
        }
    }

    /// Heap memory in bytes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        self.ranges.len() * size_of::<(u64, Blank)>() * 2 + self.seen_pages * 2 * size_of::<u64>()
    }

    /// Return the next ranges for one operation: neighbours that want the same.
    fn next_run(&mut self, page_bytes: u64) -> Option<(Range<u64>, OperationKind, BlankRun)> {
        let coming = self.wanted.range(self.sweep..).next();
        let first = *coming.or_else(|| self.wanted.first())?;
        let Blank { kind, is_retry, mut end, .. } = self.ranges[&first];
        let pages_max = match kind {
            OperationKind::Zero => ZERO_BYTES_MAX / page_bytes,
            OperationKind::Discard
            | OperationKind::Read
            | OperationKind::Write
            | OperationKind::Sync => DISCARD_BYTES_MAX / page_bytes,
        };
        let mut starts = SmallVec::from_slice(&[first]);
        while let Some(next) = self.ranges.get(&end)
            && next.state == State::Wanted
            && next.kind == kind
            && !(is_retry || next.is_retry)
            && next.end - first <= pages_max
        {
            starts.push(end);
            end = next.end;
        }
        for &start in &starts {
            self.set_state(start, State::InFlight);
        }
        self.sweep = end;
        Some((first..end, kind, BlankRun { starts, is_doubtful: false }))
    }

    /// Checks what always holds of the ranges alone.
    pub(super) fn assert_invariants(&self) {
        let mut last_end = 0;
        for (&start, blank) in &self.ranges {
            assert!(last_end <= start && start < blank.end, "ranges are disjoint, and not empty");
            assert!(
                blank.is_busy() || blank.seen.is_empty(),
                "only ranges on their way keep pages"
            );
            last_end = blank.end;
        }
    }
}

impl Shard {
    /// Splits the range of a trim or a zeroing: what needs a frame each, and what does not.
    pub(super) fn blank_parts(&self, bytes: &Range<u64>) -> BlankParts {
        let page_bytes = u64::from(self.options.page_bytes);
        let all = bytes.start / page_bytes..bytes.end.div_ceil(page_bytes);
        let whole = bytes.start.div_ceil(page_bytes)..bytes.end / page_bytes;
        if whole.is_empty() {
            return BlankParts { pages: all.collect(), gaps: vec![] };
        }
        let Range { start: mut at, end } = whole;
        let mut parts = BlankParts::default();
        parts.pages.extend(all.start..at);
        for page in self.held_pages(at..end) {
            if at < page {
                parts.gaps.push(at..page);
            }
            parts.pages.push(page);
            at = page + 1;
        }
        if at < end {
            parts.gaps.push(at..end);
        }
        parts.pages.extend(end..all.end);
        parts
    }

    /// Return the pages of a range that some tier holds, or that are on their way to or from one.
    pub(super) fn held_pages(&self, pages: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let (mut all, mut candidates) = (vec![], pages);
        if self.lists_places(&candidates) {
            all.extend(self.places.iter().map(|place| place.page(&self.slots, &self.entries)));
            all.retain(|page| candidates.contains(page));
            all.sort_unstable();
            candidates.start = candidates.end;
        }
        let candidates = self.places.candidates(candidates);
        all.into_iter().chain(candidates.filter(|&page| self.place(page).is_some()))
    }

    /// Return `true` if all places are fewer than what a search of the range would look at.
    pub(super) fn lists_places(&self, pages: &Range<u64>) -> bool {
        let length = pages.end.saturating_sub(pages.start);
        let places = self.places.len() as u64;
        // Parts of the disk that hold nothing cost little, as long as they are not many.
        length / SEARCHED_PER_PLACE > places
            && (length / SEARCHED_PER_PLACE.pow(4) > places
                || self.places.candidate_count(pages.clone()) / SEARCHED_PER_PLACE > places)
    }

    /// Return the obstacle if a request has to wait for ranges: it waits, or fails if the devices fail.
    pub(super) fn blank_obstacle(
        &self,
        pages: &Range<u64>,
        is_blank: bool,
    ) -> Option<Result<(), RequestError>> {
        let blanks = &self.blanks;
        if blanks.ranges.is_empty() {
            return None;
        }
        let is_full = blanks.ranges.len() >= RANGES_MAX;
        let overlaps = || blanks.overlapping(pages).next().is_some();
        if is_full && (is_blank || overlaps()) {
            let is_stuck = self.is_sync_resting() || blanks.has_resting();
            return Some(if is_stuck { Err(RequestError::Io) } else { Ok(()) });
        }
        let is_on_its_way = |start: u64| blanks.ranges[&start].is_busy();
        let has_too_many = blanks.seen_pages >= self.options.frames() as usize;
        let waits = (is_blank || has_too_many) && blanks.overlapping(pages).any(is_on_its_way);
        waits.then_some(Ok(()))
    }

    /// Whole pages that no tier holds become blank.
    pub(super) fn blank(
        &mut self,
        pages: Range<u64>,
        kind: OperationKind,
        building: &mut Building,
    ) {
        let count = pages.end - pages.start;
        self.counters.accesses[Op::Write as usize] += count;
        self.counters.bypasses[Op::Write as usize] += count;
        if let Some(observer) = &mut self.observer {
            let (now, page, op) = (self.now, pages.start, Op::Write);
            observer(&Event::Bypass { now, page, op, pages: count });
        }
        building.found_in(Tier::DISK);
        if kind == OperationKind::Zero {
            return self.want_blank(pages, kind, building);
        }
        // A discard in place of zeroes might bring back what was there before them, if a sync fails.
        let mut at = pages.start;
        for zeroed in self.blanks.zeroed_parts(&pages) {
            if at < zeroed.start {
                self.want_blank(at..zeroed.start, kind, building);
            }
            at = zeroed.end;
            self.want_blank(zeroed, OperationKind::Zero, building);
        }
        if at < pages.end {
            self.want_blank(at..pages.end, kind, building);
        }
    }

    /// Want a range on the disk, for which the request waits.
    fn want_blank(&mut self, pages: Range<u64>, kind: OperationKind, building: &mut Building) {
        building.waiting += 1;
        // `before` numbers what the disk has: an entry of the range must have a version that is older
        // than the range.
        let (before, version) = (self.next_version(), self.next_version());
        let (owed, is_doubtful) = self.blanks.cut(&pages);
        let blank = Blank {
            end: pages.end,
            version,
            before,
            kind,
            state: State::Wanted,
            request: Some(building.key),
            owed,
            is_doubtful,
            is_retry: false,
            seen: BTreeSet::new(),
        };
        self.blanks.insert(pages.start, blank);
    }

    /// Return the entry of a page that has none, and lies in a range; `None` if it does not.
    pub(super) fn ensure_blank_entry(&mut self, page: u64) -> Option<EntryId> {
        let start = self.blanks.find(page)?;
        let Blank { version, before, kind, state, owed, .. } = self.blanks.ranges[&start];
        let undurable = owed.unwrap_or(version);
        let is_discard = kind == OperationKind::Discard;
        let mut entry = Entry::new(page);
        (entry.newest, entry.blank, entry.disk_started) = (version, version, version);
        (entry.disk_written, entry.disk_synced) = (before, before);
        if let State::Written(_) = state {
            entry.disk_written = version;
        }
        // A discard leaves what the disk has. Zeroes stay until a sync: the disk may be a server, which
        // ends and forgets them.
        if !(is_discard && matches!(state, State::Written(_))) {
            (entry.zeroed, entry.is_discarded) = (version, is_discard);
            entry.frame = Some(self.pool.retain(self.zero_frame));
        }
        let id = self.entries.insert(entry);
        self.put(page, Place::Entry(id));
        match state {
            State::Wanted | State::InFlight => {
                self.entries[id].disk_write = Some(Capture { version, next: 0 });
                self.entries.set_undurable(id, undurable);
                self.blanks.seen_pages += 1;
                let blank = self.blanks.ranges.get_mut(&start).expect("it was found");
                blank.seen.insert(page);
            }
            State::Written(sync) => {
                self.blanks.cut(&(page..page + 1));
                if self.disk_syncs.has_started(sync) {
                    // The sync under way covers the range, so its failure must put this page in doubt,
                    // too.
                    self.disk_syncs.note_syncing(page, version);
                } else {
                    self.note_unsynced(page, version);
                }
            }
            State::Resting => {
                self.blanks.cut(&(page..page + 1));
                self.entries.set_undurable(id, undurable);
                self.rest_backing(page);
            }
        }
        self.is_stirred |= self.is_too_volatile();
        Some(id)
    }

    /// Return the next operation made of ranges.
    pub(super) fn next_blank(&mut self) -> Option<Operation> {
        let is_others_turn = self.blanks.is_others_turn && self.outbox.has_writes();
        self.blanks.is_others_turn = false;
        if is_others_turn || !self.blanks.has_wanted() || !self.outbox.takes_write(self.now, true) {
            return None;
        }
        let page_bytes = u64::from(self.options.page_bytes);
        let (pages, kind, run) = self.blanks.next_run(page_bytes)?;
        // Ranges and other writes take turns, so that neither waits for the end of the other.
        self.blanks.is_others_turn = true;
        self.outbox.write_started();
        let length_bytes = (pages.end - pages.start) * page_bytes;
        let counted = std::iter::once((crate::counters::Purpose::Bypass, length_bytes));
        self.counters.backing.count(kind, counted);
        let id = self.start(InFlight::Blanks(run));
        let parts = OperationParts {
            id,
            device: Device::Backing,
            kind,
            offset_bytes: pages.start * page_bytes,
            length_bytes,
            frames: SmallVec::from_slice(&[self.zero_frame]),
            copies: Copies::Both,
            is_final: false,
        };
        Some(Operation::of_shard(parts, self.pool.frames()))
    }

    /// Tries ranges again that the disk refused, when it is time.
    pub(super) fn retry_blanks_in_time(&mut self) {
        if self.blanks.retry_at().is_some_and(|at| self.now >= at) {
            self.blanks.retry_at = Nanos(self.now.0 + REST.0);
            self.blanks.wake(if self.write_backs.is_refused() { 1 } else { usize::MAX });
        }
    }

    /// Tries ranges again that the disk refused: somebody wants them durable.
    pub(super) fn retry_blanks(&mut self) {
        self.blanks.wake(usize::MAX);
    }

    /// Checks that ranges and entries know of each other.
    pub(super) fn assert_blank(&self, page: u64) {
        let Some((_, blank)) = self.blanks.ranges.range(..=page).next_back() else { return };
        if page < blank.end {
            assert!(blank.seen.contains(&page), "a range knows its pages that are held");
            let entry = self.entry(page).map(|id| &self.entries[id]);
            let is_written = entry.is_some_and(|entry| entry.disk_write.is_some());
            assert!(is_written, "the page of a range on its way is being written");
        }
    }
}
