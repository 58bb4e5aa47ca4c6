//! Block status: which pages are cached, which are newer than the disk, and where the disk has no data.

use std::ops::Range;

use thermocline_core::Tier;
use thermocline_engine::PageStatus;
use thermocline_engine::driver::{Allocation, Driver};

use super::{Cached, EXTENT_PAGES_MAX, Pending, Question, Told};
use crate::protocol::{Extent, allocation, tier};
use crate::service::{ExtentRange, Piece, Tag};

impl<D: Driver> Cached<D> {
    /// Return the status bits of the tier that holds a page's newest bytes.
    pub(super) fn status(&self, page: u64) -> u32 {
        let PageStatus { tier, is_dirty, is_lost } = self.page_status(page);
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

    fn page_status(&self, page: u64) -> PageStatus {
        self.engine.shard().page_status(page)
    }

    /// Return `true` if the disk's allocation says nothing of the page.
    fn is_newer(&self, page: u64) -> bool {
        let PageStatus { is_dirty, is_lost, .. } = self.page_status(page);
        is_dirty || is_lost
    }

    /// Return the pages that a range touches, as many as are looked at for one answer.
    pub(super) fn pages(&self, offset_bytes: u64, length_bytes: u32) -> Range<u64> {
        let page_bytes = u64::from(self.engine.shard().options().page_bytes);
        let first = offset_bytes / page_bytes;
        let last = (offset_bytes + u64::from(length_bytes)).div_ceil(page_bytes);
        first..last.min(first + EXTENT_PAGES_MAX)
    }

    /// Asks the driver what is allocated.
    pub(super) fn ask(&mut self, tag: Tag, piece: &Piece) {
        let Piece { offset_bytes, length_bytes, .. } = *piece;
        let number = self.pending.insert(Pending::new(tag, None)) as u64;
        let pages = self.pages(offset_bytes, length_bytes);
        let newer = pages.clone().filter(|&page| self.is_newer(page)).collect();
        self.questions.insert(number, Question { newer });
        let page_bytes = u64::from(self.engine.shard().options().page_bytes);
        let end_bytes = (offset_bytes + u64::from(length_bytes)).min(pages.end * page_bytes);
        if !self.engine.driver().ask_allocation(number, offset_bytes..end_bytes) {
            let length_bytes = end_bytes - offset_bytes;
            let allocated = Allocation { length_bytes, is_hole: false, is_zero: false };
            self.answered.push_back((number, vec![allocated]));
        }
    }

    /// Report the allocation of a range that was asked about: holes of the disk, except where the
    /// cache is newer.
    pub(super) fn allocation(&mut self, range: &ExtentRange, found: &mut Vec<Extent>) {
        let Told { allocations, newer } = self.told.take().expect("a range was asked about");
        let page_bytes = u64::from(self.engine.shard().options().page_bytes);
        let mut offset = range.offset_bytes;
        let range_end = offset + u64::from(range.length_bytes);
        for Allocation { length_bytes, is_hole, is_zero } in allocations {
            let disk = if is_hole { allocation::HOLE } else { 0 }
                | if is_zero { allocation::ZERO } else { 0 };
            let end = (offset + length_bytes).min(range_end);
            while offset < end {
                let page = offset / page_bytes;
                let page_end = if disk == 0 { end } else { end.min((page + 1) * page_bytes) };
                let is_newer =
                    disk != 0 && (self.is_newer(page) || newer.binary_search(&page).is_ok());
                let status = if is_newer { 0 } else { disk };
                if !push_extent(found, page_end - offset, status, range.count_max) {
                    return;
                }
                offset = page_end;
            }
        }
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
    let is_full = found.len() == count_max;
    match found.last_mut() {
        Some(extent) if extent.status == status => extent.length_bytes += length_bytes,
        _ if is_full => return false,
        _ => found.push(Extent { length_bytes, status }),
    }
    true
}
