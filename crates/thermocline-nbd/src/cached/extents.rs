//! Block status: which pages are cached, which are newer than the disk, and where the disk has no data.

use std::ops::Range;

use thermocline_core::Tier;
use thermocline_engine::PageStatus;
use thermocline_engine::driver::{Allocation, Driver};

use super::{Cached, EXTENT_LOOKS_MAX, Pending, Question, Told};
use crate::protocol::{Extent, allocation, tier};
use crate::service::{ExtentRange, Piece, Tag};

impl<D: Driver> Cached<D> {
    fn page_bytes(&self) -> u64 {
        self.engine.shard().options().page_bytes.into()
    }

    /// Return the pages that a range touches, as many as are looked at for one answer.
    fn pages(&self, offset_bytes: u64, length_bytes: u32) -> Range<u64> {
        let first = offset_bytes / self.page_bytes();
        let last = (offset_bytes + u64::from(length_bytes)).div_ceil(self.page_bytes());
        first..self.engine.shard().statuses_end(first..last, EXTENT_LOOKS_MAX)
    }

    /// Return the pages of a range of which the disk's allocation says nothing.
    fn newer(&self, pages: Range<u64>) -> Vec<Range<u64>> {
        let mut all: Vec<Range<u64>> = vec![];
        for (run, PageStatus { is_dirty, is_lost, .. }) in self.engine.shard().statuses(pages) {
            match all.last_mut() {
                _ if !is_dirty && !is_lost => {}
                Some(last) if last.end == run.start => last.end = run.end,
                _ => all.push(run),
            }
        }
        all
    }

    /// Asks the driver what is allocated.
    pub(super) fn ask(&mut self, tag: Tag, piece: &Piece) {
        let Piece { offset_bytes, length_bytes, .. } = *piece;
        let number = self.pending.insert(Pending::new(tag, None)) as u64;
        let pages = self.pages(offset_bytes, length_bytes);
        let newer = self.newer(pages.clone());
        self.questions.insert(number, Question { newer });
        let end_bytes = (offset_bytes + u64::from(length_bytes)).min(pages.end * self.page_bytes());
        if !self.engine.driver().ask_allocation(number, offset_bytes..end_bytes) {
            let length_bytes = end_bytes - offset_bytes;
            let allocated = Allocation { length_bytes, is_hole: false, is_zero: false };
            self.answered.push_back((number, vec![allocated]));
        }
    }

    /// Reports the tiers that hold the newest bytes of a range.
    pub(super) fn tiers(&self, range: &ExtentRange, found: &mut Vec<Extent>) {
        let ExtentRange { offset_bytes, length_bytes, count_max } = *range;
        let end_bytes = offset_bytes + u64::from(length_bytes);
        let pages = self.pages(offset_bytes, length_bytes);
        for (run, status) in self.engine.shard().statuses(pages) {
            let start = offset_bytes.max(run.start * self.page_bytes());
            let length = end_bytes.min(run.end * self.page_bytes()) - start;
            if !push_extent(found, length, tier_bits(status), count_max) {
                return;
            }
        }
    }

    /// Report the allocation of a range that was asked about: holes of the disk, except where the
    /// cache is newer.
    pub(super) fn allocation(&mut self, range: &ExtentRange, found: &mut Vec<Extent>) {
        let Told { allocations, newer } = self.told.take().expect("a range was asked about");
        let mut offset = range.offset_bytes;
        let range_end = offset + u64::from(range.length_bytes);
        for Allocation { length_bytes, is_hole, is_zero } in allocations {
            let disk = if is_hole { allocation::HOLE } else { 0 }
                | if is_zero { allocation::ZERO } else { 0 };
            let end = (offset + length_bytes).min(range_end);
            let newer = if disk == 0 { vec![] } else { self.newer_within(offset..end, &newer) };
            for part in newer {
                let is_told = push_extent(found, part.start - offset, disk, range.count_max)
                    && push_extent(found, part.end - part.start, 0, range.count_max);
                if !is_told {
                    return;
                }
                offset = part.end;
            }
            if !push_extent(found, end - offset, disk, range.count_max) {
                return;
            }
            offset = end;
        }
    }

    /// Return the parts of a range of bytes that the cache has newer than the disk, or had when the disk was
    /// asked, in order and apart.
    fn newer_within(&self, bytes: Range<u64>, before: &[Range<u64>]) -> Vec<Range<u64>> {
        let page_bytes = self.page_bytes();
        let pages = bytes.start / page_bytes..bytes.end.div_ceil(page_bytes);
        let first = before.partition_point(|one| one.end <= pages.start);
        let mut all = self.newer(pages.clone());
        all.extend(before[first..].iter().take_while(|one| one.start < pages.end).cloned());
        all.sort_unstable_by_key(|one| one.start);
        let mut at = bytes.start;
        let parts = all.into_iter().map(|one| {
            let part = at.max(one.start * page_bytes)..bytes.end.min(one.end * page_bytes);
            at = at.max(part.end);
            part
        });
        parts.filter(|part| !part.is_empty()).collect()
    }
}

/// Return the status bits of the tier that holds a page's newest bytes.
fn tier_bits(status: PageStatus) -> u32 {
    let PageStatus { tier, is_dirty, is_lost } = status;
    if is_lost {
        return tier::LOST;
    }
    let dirty = if is_dirty { tier::DIRTY } else { 0 };
    match tier {
        Tier::RAM => tier::RAM | dirty,
        Tier::FLASH => tier::FLASH | dirty,
        _ => dirty,
    }
}

/// Adds to the last extent, or another one unless there are enough. Returns `true` if it did.
pub(crate) fn push_extent(
    found: &mut Vec<Extent>,
    length_bytes: u64,
    status: u32,
    count_max: usize,
) -> bool {
    let length_bytes = u32::try_from(length_bytes).expect("a part of what was asked for");
    if length_bytes == 0 {
        return true;
    }
    let is_full = found.len() == count_max;
    match found.last_mut() {
        Some(extent) if extent.status == status => extent.length_bytes += length_bytes,
        _ if is_full => return false,
        _ => found.push(Extent { length_bytes, status }),
    }
    true
}
