//! Results of ranges: the disk has them, refuses them, or may have dropped them.

use std::collections::BTreeSet;
use std::ops::Range;

use thermocline_core::Nanos;

use super::Shard;
use super::blank::{Blank, BlankRun, State, UNSYNCED_RANGES_MAX, ZERO_BYTES_MAX, oldest};
use super::write_backs::REST;
use crate::operation::{Device, DeviceError, OperationKind};
use crate::request::RequestError;

impl Shard {
    /// Note that the disk has done with ranges.
    pub(super) fn blanks_done(&mut self, run: BlankRun, result: Result<(), DeviceError>) {
        self.outbox.write_ended();
        if result.is_err() && run.starts.len() > 1 {
            // One bad range must not fail its neighbours.
            for start in run.starts {
                let blank = self.blanks.remove(start);
                self.blanks.insert(start, Blank { state: State::Wanted, is_retry: true, ..blank });
            }
            return;
        }
        for start in run.starts {
            match result {
                Ok(()) if !run.is_doubtful => self.blank_written(start),
                Ok(()) => self.blank_doubtful(start),
                Err(_) => self.blank_failed(start),
            }
        }
    }

    /// Takes a range apart: pages with entries, and the rest.
    fn take_blank(&mut self, start: u64) -> (Blank, Vec<Range<u64>>) {
        let blank = self.blanks.remove(start);
        let mut rests = vec![];
        let mut at = start;
        for &page in &blank.seen {
            if at < page {
                rests.push(at..page);
            }
            at = page + 1;
        }
        if at < blank.end {
            rests.push(at..blank.end);
        }
        (blank, rests)
    }

    fn put_blanks(&mut self, pages: Vec<Range<u64>>, like: &Blank) {
        for Range { start, end } in pages {
            self.blanks.insert(start, Blank { end, seen: BTreeSet::new(), ..like.clone() });
        }
    }

    /// Return the same pages in ranges that may be zeroed at once.
    fn cut_for_zeroes(&self, pages: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let most = ZERO_BYTES_MAX / u64::from(self.options.page_bytes);
        let cut = |Range { start, end }: Range<u64>| {
            let starts =
                (start..end).step_by(usize::try_from(most).expect("zeroes go in short parts"));
            starts.map(move |first| first..end.min(first.saturating_add(most)))
        };
        pages.into_iter().flat_map(cut).collect()
    }

    fn blank_written(&mut self, start: u64) {
        self.write_backs.taken();
        let (blank, rests) = self.take_blank(start);
        let is_zero = blank.kind == OperationKind::Zero;
        let owed = oldest(blank.owed, Some(blank.version)).filter(|_| is_zero);
        let (state, request, is_doubtful) = (self.until_next_sync(), None, false);
        self.put_blanks(rests, &Blank { state, request, owed, is_doubtful, ..blank.clone() });
        for &page in &blank.seen {
            self.page_written(page, blank.kind, false, Ok(()));
        }
        if self.blanks.ranges.len() >= UNSYNCED_RANGES_MAX {
            self.disk_syncs.want_if_rested(self.now);
        }
        if let Some(request) = blank.request {
            self.page_done(request, Ok(()));
        }
    }

    /// Return the state of ranges that the next sync settles.
    const fn until_next_sync(&mut self) -> State {
        let sync = self.disk_syncs.next();
        self.blanks.last_sync = sync;
        State::Written(sync)
    }

    /// Write a range again that a sync that failed meanwhile may have dropped; the request waits
    /// for that.
    fn blank_doubtful(&mut self, start: u64) {
        let (blank, rests) = self.take_blank(start);
        let rests = self.cut_for_zeroes(rests);
        if let Some(request) = blank.request {
            let parts = u32::try_from(rests.len() + blank.seen.len()).expect("there are few parts");
            self.add_waiting(request, parts);
            for &page in &blank.seen {
                self.wait_for_disk(page, blank.version, request);
            }
        }
        let (state, kind, is_doubtful) = (State::Wanted, OperationKind::Zero, true);
        self.put_blanks(rests, &Blank { kind, state, is_doubtful, ..blank.clone() });
        for &page in &blank.seen {
            self.page_written(page, blank.kind, true, Ok(()));
        }
        if let Some(request) = blank.request {
            self.page_done(request, Ok(()));
        }
    }

    /// Handle a range that the disk refused. Its request fails, and so do all former requests for
    /// its pages that still wait. Without such nobody knows what is there, until a sync succeeds.
    fn blank_failed(&mut self, start: u64) {
        self.count_error(Device::Backing);
        self.write_backs.refused();
        let (blank, rests) = self.take_blank(start);
        let error = Err(RequestError::Io);
        if blank.owed.is_some() || blank.is_doubtful {
            self.rest_blanks(rests, &blank);
        } else {
            let state = self.until_next_sync();
            let (kind, request) = (OperationKind::Discard, None);
            self.put_blanks(rests, &Blank { kind, state, request, ..blank.clone() });
        }
        if blank.owed.is_some() {
            self.fail_waiters(&(start..blank.end), blank.version);
        }
        for &page in &blank.seen {
            self.page_written(page, blank.kind, false, Err(DeviceError(std::io::ErrorKind::Other)));
        }
        if let Some(request) = blank.request {
            self.page_done(request, error);
        }
    }

    /// Ranges are zeroed again later.
    fn rest_blanks(&mut self, pages: Vec<Range<u64>>, like: &Blank) {
        if !self.blanks.has_resting() {
            self.blanks.retry_at = Nanos(self.now.0 + REST.0);
        }
        let pages = self.cut_for_zeroes(pages);
        let (state, kind, request) = (State::Resting, OperationKind::Zero, None);
        self.put_blanks(pages, &Blank { kind, state, request, is_doubtful: true, ..like.clone() });
    }

    /// Note that a sync of the disk succeeded, or failed: the ranges that it covers are durable, or
    /// all since the last good one are not.
    pub(super) fn blanks_synced(&mut self, is_good: bool) {
        let covers = |state: State| match state {
            State::Written(sync) => !is_good || sync <= self.disk_syncs.done(),
            State::Wanted | State::InFlight | State::Resting => false,
        };
        let ranges = self.blanks.ranges.iter().filter(|(_, blank)| covers(blank.state));
        let starts: Vec<u64> = ranges.map(|(&start, _)| start).collect();
        for start in starts {
            let blank = self.blanks.remove(start);
            if !is_good {
                let whole = std::iter::once(start..blank.end);
                self.rest_blanks(whole.collect(), &blank);
            }
        }
    }
}
