//! Pages on their way from flash to disk, and those that the disk refused.

use std::collections::BTreeSet;

use thermocline_core::Nanos;

/// Time that a page rests after the backing store refused it, and syncs after one failed.
pub(super) const REST: Nanos = Nanos(1_000_000_000);
/// Refusals in a row after which the backing store is taken for gone: one page at a time tries it then.
const REFUSALS_MAX: u32 = 16;

/// Pages to be written back.
#[derive(Debug, Default)]
pub(super) struct WriteBacks {
    /// Pages by number, so that neighbours are written together.
    pages: BTreeSet<u64>,
    /// Fetches under way.
    in_flight: u32,
    /// Position of the sweep over the page numbers.
    sweep: u64,
    /// Pages that the backing store refused, and when to try again.
    resting: BTreeSet<u64>,
    retry_at: Nanos,
    /// Writes that the backing store refused since it last took one, and the page that is to find out
    /// whether it takes them again.
    refusals: u32,
    probe: Option<u64>,
    /// Pages that are still written back when the end has come; all others stay where they are. None before the end.
    closed_but: Option<BTreeSet<u64>>,
}

impl WriteBacks {
    /// Insert a page to be written back. Returns `true` if that is new.
    pub(super) fn insert(&mut self, page: u64) -> bool {
        let is_open = self.closed_but.as_ref().is_none_or(|awaited| awaited.contains(&page));
        is_open && self.pages.insert(page)
    }

    /// Return the next page, in the order of the disk.
    pub(super) fn pop(&mut self) -> Option<u64> {
        let next = self.pages.range(self.sweep..).next().or_else(|| self.pages.first()).copied()?;
        self.pages.remove(&next);
        self.sweep = next.wrapping_add(1);
        Some(next)
    }

    pub(super) fn contains(&self, page: u64) -> bool {
        self.pages.contains(&page)
    }

    /// Fetches under way.
    pub(super) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Note that a page is being fetched, to be written back.
    pub(super) const fn fetch_started(&mut self) {
        self.in_flight += 1;
    }

    /// Count the end of such a fetch.
    pub(super) const fn fetch_ended(&mut self) {
        self.in_flight -= 1;
    }

    /// Return `true` if pages wait or are under way; those that rest are not.
    pub(super) fn is_busy(&self) -> bool {
        !self.pages.is_empty() || self.in_flight > 0
    }

    /// Return the number of pages that wait, those that rest included.
    pub(super) fn waiting_pages(&self) -> usize {
        self.pages.len() + if self.is_closed() { 0 } else { self.resting.len() }
    }

    /// Restrict write-backs from now on to these pages, which requests wait for.
    pub(super) fn close(&mut self, awaited: BTreeSet<u64>) {
        self.pages.retain(|page| awaited.contains(page));
        self.closed_but = Some(awaited);
    }

    /// Write everything back again, because the flash failed and nothing can stay there.
    pub(super) fn open(&mut self) {
        self.closed_but = None;
    }

    /// Return `true` if the end has come.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed_but.is_some()
    }

    /// Let a request wait for the page.
    pub(super) fn await_page(&mut self, page: u64) {
        if let Some(awaited) = &mut self.closed_but {
            awaited.insert(page);
        }
    }

    /// Note that the backing store refused a write.
    pub(super) const fn refused(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
    }

    /// Note that the backing store took a write: those that it refused are tried soon.
    pub(super) const fn taken(&mut self) {
        // It takes writes again, so whatever rests is due now.
        if self.is_refused() {
            self.retry_at = Nanos(0);
        }
        self.refusals = 0;
        self.probe = None;
    }

    /// Return `true` if the backing store seems to be gone.
    pub(super) const fn is_refused(&self) -> bool {
        self.refusals >= REFUSALS_MAX
    }

    /// Return `true` if the backing store is not to be bothered with the page.
    pub(super) fn is_in_vain(&self, page: u64) -> bool {
        self.is_refused() && self.probe != Some(page)
    }

    /// Let a page rest that the backing store refused: it is tried again later.
    pub(super) fn rest(&mut self, page: u64, now: Nanos) {
        // The rest counts from the first page: a stream of further refusals must not put that off for
        // ever.
        if self.resting.is_empty() {
            self.retry_at = Nanos(now.0 + REST.0);
        }
        self.resting.insert(page);
    }

    /// Return `true` if the page rests.
    pub(super) fn is_resting(&self, page: u64) -> bool {
        self.resting.contains(&page)
    }

    /// End the rest of a page.
    pub(super) fn wake(&mut self, page: u64) {
        self.resting.remove(&page);
    }

    /// Return the pages whose rest is over by now: one of them if the backing store seems to be
    /// gone.
    pub(super) fn wake_in_time(&mut self, now: Nanos) -> BTreeSet<u64> {
        if self.next_retry().is_none_or(|at| now < at) {
            return BTreeSet::new();
        }
        if !self.is_refused() {
            return std::mem::take(&mut self.resting);
        }
        self.retry_at = Nanos(now.0 + REST.0);
        self.probe = self.resting.pop_first();
        self.probe.into_iter().collect()
    }

    /// Return the time at which pages that rest are tried again.
    pub(super) fn next_retry(&self) -> Option<Nanos> {
        (!self.resting.is_empty()).then_some(self.retry_at)
    }
}
