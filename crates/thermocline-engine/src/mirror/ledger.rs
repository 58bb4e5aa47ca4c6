//! Writes that are under way, for those who copy beside them.
//!
//! A copy reads a piece of one device and writes it to another one, while others write to both. A write that was
//! under way meanwhile may be older on the new device than it should be, so the copy has to copy its range
//! again. Nobody waits for anybody.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state::Lane;

/// Writes of one writer.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
pub(super) struct Entries {
    under_way: Vec<Write>,
    /// Range that is being copied.
    watched: Option<Range<u64>>,
    /// Parts of that range of which writes were under way since the copy of it began.
    touched: Vec<Range<u64>>,
    /// Ranges that were written without the device that joins.
    missed: Vec<Range<u64>>,
    /// `true` if the writer is gone.
    is_closed: bool,
}

#[derive(Debug)]
struct Write {
    number: u64,
    range: Range<u64>,
    /// The device that joins, if the write goes there, too.
    joins: Option<Lane>,
}

impl Ledger {
    pub(super) fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Note a write that begins, and the device that joins if it goes there, too.
    pub(super) fn begin(&mut self, number: u64, range: Range<u64>, joins: Option<Lane>) {
        // The copy may have read older bytes here already, and write them after this write has reached
        // the new device.
        self.touch(&range);
        self.under_way.push(Write { number, range, joins });
    }

    /// Note that a write is over, while that device joins.
    pub(super) fn end(&mut self, number: u64, joining: Option<Lane>) {
        let Some(place) = self.under_way.iter().position(|write| write.number == number) else {
            return;
        };
        let write = self.under_way.swap_remove(place);
        self.miss(write, joining);
    }

    /// Note that the writer is gone, and its writes are over.
    pub(super) fn close(&mut self, joining: Option<Lane>) {
        self.is_closed = true;
        for write in std::mem::take(&mut self.under_way) {
            self.miss(write, joining);
        }
    }

    fn miss(&mut self, write: Write, joining: Option<Lane>) {
        if joining.is_some() && write.joins != joining {
            self.missed.push(write.range);
        }
    }

    fn touch(&mut self, range: &Range<u64>) {
        let Some(watched) = &self.watched else { return };
        let part = range.start.max(watched.start)..range.end.min(watched.end);
        if !part.is_empty() {
            self.touched.push(part);
        }
    }

    fn watch(&mut self, range: Option<Range<u64>>) {
        self.watched = range;
        self.touched.clear();
        // Writes that began before may reach the old device after it was read.
        let under_way = std::mem::take(&mut self.under_way);
        for write in &under_way {
            self.touch(&write.range);
        }
        self.under_way = under_way;
    }

    fn lacks(&self, lane: Lane) -> bool {
        !self.missed.is_empty() || self.under_way.iter().any(|write| write.joins != Some(lane))
    }
}

/// Ledgers of all writers.
#[derive(Debug, Default)]
pub(super) struct Ledgers {
    each: Vec<Arc<Ledger>>,
    watched: Option<Range<u64>>,
}

impl Ledgers {
    /// Return a ledger for one more writer.
    pub(super) fn open(&mut self) -> Arc<Ledger> {
        let ledger = Arc::<Ledger>::default();
        ledger.lock().watch(self.watched.clone());
        self.forget_closed();
        self.each.push(Arc::clone(&ledger));
        ledger
    }

    /// Forget writers that are gone, and left nothing that a copy has to know.
    fn forget_closed(&mut self) {
        self.each.retain(|ledger| {
            let entries = ledger.lock();
            !entries.is_closed || !entries.touched.is_empty() || !entries.missed.is_empty()
        });
    }

    /// Forget what another copy missed.
    pub(super) fn restart(&mut self) {
        self.watch(None);
        self.take_missed();
    }

    /// Look for writes to a range from now on, those under way included.
    pub(super) fn watch(&mut self, range: Option<&Range<u64>>) {
        self.watched = range.cloned();
        self.each.iter().for_each(|ledger| ledger.lock().watch(range.cloned()));
    }

    /// End that. Returns the parts of the range to which writes were under way meanwhile.
    pub(super) fn take_touched(&mut self) -> Vec<Range<u64>> {
        let each = self.each.iter();
        let touched = each.flat_map(|ledger| std::mem::take(&mut ledger.lock().touched)).collect();
        self.watch(None);
        touched
    }

    /// Return the ranges that were written without the device that joins.
    pub(super) fn take_missed(&mut self) -> Vec<Range<u64>> {
        let each = self.each.iter();
        let missed = each.flat_map(|ledger| std::mem::take(&mut ledger.lock().missed)).collect();
        self.forget_closed();
        missed
    }

    /// Do something that no write comes between, unless one was or is under way without that device.
    pub(super) fn while_none_lacks<T>(&self, lane: Lane, work: impl FnOnce() -> T) -> Option<T> {
        // All at once, so that no writer begins a write while `work` changes where writes go.
        let held: Vec<MutexGuard<'_, Entries>> = self.each.iter().map(|it| it.lock()).collect();
        let is_lacking = held.iter().any(|entries| entries.lacks(lane));
        (!is_lacking).then(work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Lane = Lane(2);

    #[test]
    fn writes_beside_a_copy_are_touched() {
        let mut ledgers = Ledgers::default();
        let ledger = ledgers.open();
        ledger.lock().begin(1, 0..8, None);
        ledger.lock().begin(2, 100..108, None);
        ledgers.watch(Some(&(4..50)));
        // One that comes later is watched, too.
        let other = ledgers.open();
        other.lock().begin(1, 40..60, Some(NEW));
        other.lock().end(1, Some(NEW));
        ledger.lock().end(1, Some(NEW));
        assert_eq!(ledgers.take_touched(), [4..8, 40..50]);
        ledger.lock().begin(3, 4..8, Some(NEW));
        assert!(ledgers.take_touched().is_empty());
        assert_eq!(ledgers.take_missed(), vec![0..8; 1], "it began before the device joined");
    }

    #[test]
    fn nothing_is_over_while_a_write_goes_past_the_new_device() {
        let mut ledgers = Ledgers::default();
        let ledger = ledgers.open();
        let is_over = |ledgers: &Ledgers| ledgers.while_none_lacks(NEW, || ()).is_some();
        ledger.lock().begin(1, 0..8, Some(NEW));
        assert!(is_over(&ledgers));
        ledger.lock().begin(2, 0..8, Some(Lane(1)));
        assert!(!is_over(&ledgers));
        ledger.lock().end(2, Some(NEW));
        assert!(!is_over(&ledgers));
        assert_eq!(ledgers.take_missed(), vec![0..8; 1]);
        assert!(is_over(&ledgers));
        ledger.lock().begin(3, 8..9, None);
        ledger.lock().close(Some(NEW));
        assert_eq!(ledgers.take_missed(), vec![8..9; 1]);
        assert!(ledgers.each.is_empty());
    }
}
