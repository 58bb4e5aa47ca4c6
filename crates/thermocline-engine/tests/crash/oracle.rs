//! Oracle of permitted reads, from the requests and replies alone.
//!
//! Each write stamps every sector that it covers with its own number. A page's history is the list
//! of its writes, in the order in which they were submitted; its bytes are right if the first n of
//! these writes leave them, where n is at least the number of the last write that must be seen.

use std::ops::Range;

use crate::plan::Plan;

/// Sectors of a page.
pub(crate) const SECTORS: usize = 8;

/// One write of a page.
#[derive(Clone, Copy, Debug)]
struct Write {
    /// The write's number.
    id: u64,
    /// Stamp that it leaves: its number, or 0 for zeroes.
    stamp: u64,
    /// Range of sectors, `first..end`.
    first: usize,
    end: usize,
    /// `true` if it failed, or is a trim: then it may have happened or not, in each sector.
    is_failed: bool,
    is_trim: bool,
    /// `true` if each sector may be what any earlier write left behind.
    ends_all: bool,
}

/// All writes of one page since its bytes were last known for certain.
#[derive(Clone, Debug)]
struct History {
    /// The stamps before the first write.
    base: [u64; SECTORS],
    writes: Vec<Write>,
    /// Number of first writes that survive a power loss.
    durable: usize,
    /// Number of first writes that a read has seen, or that were answered.
    seen: usize,
    /// `true` if the user gave up what was newer than the disk's: any bytes may be there.
    is_given_up: bool,
}

/// The histories of all pages.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    pages: Vec<History>,
    /// `true` if the disk writes pages as a whole.
    is_disk_atomic: bool,
    /// `true` if a write that is not answered may have failed already.
    writes_fail: bool,
    /// `true` if the disk may lose what it has not synced before the engine knows.
    forgets: bool,
}

/// Promise about a page at the time when a request was submitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    /// Number of writes that must be seen.
    at_least: usize,
}

impl Oracle {
    pub(crate) fn new(pages: usize, plan: &Plan) -> Self {
        Self {
            pages: vec![History::new([0; SECTORS]); pages],
            is_disk_atomic: plan.is_disk_atomic,
            writes_fail: plan.has_faults(),
            forgets: plan.faults.disconnects > 0,
        }
    }

    /// Note that a write was submitted: its number, its stamp (nothing certain if it is a trim),
    /// and its sectors.
    pub(crate) fn write(
        &mut self,
        page: usize,
        id: u64,
        stamp: Option<u64>,
        Range { start: first, end }: Range<usize>,
    ) {
        let is_trim = stamp.is_none();
        let is_failed = self.writes_fail || is_trim;
        let stamp = stamp.unwrap_or(0);
        // Nobody may rely on bytes after a trim. Only this disk makes use of it, and brings older ones back.
        let ends_all = is_trim && self.forgets;
        self.pages[page].writes.push(Write { id, stamp, first, end, is_failed, is_trim, ends_all });
    }

    /// Note that another program wrote the whole page, durably.
    pub(crate) fn write_alone(&mut self, page: usize, id: u64) {
        self.write(page, id, Some(id), 0..SECTORS);
        self.answered(page, id, true);
    }

    /// Note that a write was answered, perhaps as durable.
    pub(crate) fn answered(&mut self, page: usize, id: u64, is_durable: bool) {
        let history = &mut self.pages[page];
        let Some(index) = history.writes.iter().position(|write| write.id == id) else {
            return;
        };
        history.writes[index].is_failed = history.writes[index].is_trim;
        history.seen = history.seen.max(index + 1);
        if is_durable {
            history.durable = history.durable.max(index + 1);
        }
    }

    /// Note that a write failed.
    pub(crate) fn failed(&mut self, page: usize, id: u64) {
        for write in &mut self.pages[page].writes {
            write.is_failed |= write.id == id;
        }
    }

    /// Return the promise from now on: the writes that must be seen, or survive.
    pub(crate) fn promise(&self, page: usize) -> Promise {
        Promise { at_least: self.pages[page].seen }
    }

    /// Note that all writes promised when a flush was submitted are durable.
    pub(crate) fn flushed(&mut self, page: usize, promise: Promise) {
        let history = &mut self.pages[page];
        history.durable = history.durable.max(promise.at_least);
    }

    /// Note that the page was lost when it was first read after a crash: everything that was not
    /// durable by then may be gone.
    pub(crate) fn lost(&mut self, page: usize) {
        let history = &mut self.pages[page];
        history.seen = history.durable;
    }

    /// Let the user give up everything of the page that only the flash had.
    pub(crate) fn give_up(&mut self, page: usize) {
        let history = &mut self.pages[page];
        (history.durable, history.is_given_up) = (0, true);
    }

    /// Checks the stamps of the sectors `first..` of a page, read by a request that was submitted when
    /// that was promised.
    pub(crate) fn check_read(
        &mut self,
        page: usize,
        first: usize,
        stamps: &[u64],
        promise: Promise,
    ) -> Result<(), String> {
        let history = &mut self.pages[page];
        let matching = history.matching(first, stamps, promise.at_least);
        match matching {
            Some(count) => {
                history.seen = history.seen.max(count);
                Ok(())
            }
            None => Err(format!(
                "page {page}, sectors from {first}: read {stamps:?} with at least {} of {history:?}",
                promise.at_least
            )),
        }
    }

    /// Checks what is read first after the engine was killed. Content that was seen by then stays visible,
    /// and is no more durable than it was.
    pub(crate) fn check_killed(
        &mut self,
        page: usize,
        stamps: [u64; SECTORS],
    ) -> Result<(), String> {
        let history = &mut self.pages[page];
        // Of prefixes that left the same bytes, the longest: what came between may still be on a device.
        let counts = (history.durable..=history.writes.len()).rev();
        let is_right = |&count: &usize| {
            (0..SECTORS).all(|sector| history.allows(count, sector, stamps[sector]))
        };
        let Some(count) = counts.into_iter().find(is_right) else {
            return Err(format!("page {page}: read {stamps:?} after a kill, from {history:?}"));
        };
        // Nothing that was read is replaced by a later write of the engine that is gone.
        history.writes.truncate(count);
        history.seen = count;
        Ok(())
    }

    /// Checks what is read first after a crash; from then on, nothing else may be read.
    pub(crate) fn check_recovered(
        &mut self,
        page: usize,
        stamps: [u64; SECTORS],
    ) -> Result<(), String> {
        let is_disk_atomic = self.is_disk_atomic;
        let history = &mut self.pages[page];
        let is_whole = history.matching(0, &stamps, history.durable).is_some();
        let is_torn = !is_disk_atomic && history.is_torn(&stamps, history.durable);
        let is_right = is_whole || is_torn || history.is_given_up;
        if !is_right {
            return Err(format!("page {page}: recovered {stamps:?} from {history:?}"));
        }
        *history = History::new(stamps);
        Ok(())
    }
}

impl History {
    const fn new(base: [u64; SECTORS]) -> Self {
        Self { base, writes: vec![], durable: 0, seen: 0, is_given_up: false }
    }

    /// Return `true` if the first `count` writes may have left that stamp in a sector.
    fn allows(&self, count: usize, sector: usize, stamp: u64) -> bool {
        let covering = self.writes[..count]
            .iter()
            .rev()
            .filter(|write| (write.first..write.end).contains(&sector));
        let mut is_over = false;
        for write in covering {
            if write.stamp == stamp {
                return true;
            }
            is_over |= write.ends_all;
            if !write.is_failed && !is_over {
                return false;
            }
        }
        self.base[sector] == stamp
    }

    /// Return the least number of writes, of at least so many, that left these stamps behind.
    fn matching(&self, first: usize, stamps: &[u64], at_least: usize) -> Option<usize> {
        (at_least..=self.writes.len()).find(|&count| {
            (first..).zip(stamps).all(|(sector, &stamp)| self.allows(count, sector, stamp))
        })
    }

    /// Return `true` if each sector for itself has the stamp of the first `at_least` writes, or
    /// more.
    fn is_torn(&self, stamps: &[u64; SECTORS], at_least: usize) -> bool {
        (0..SECTORS).all(|sector| {
            (at_least..=self.writes.len()).any(|count| self.allows(count, sector, stamps[sector]))
        })
    }
}
