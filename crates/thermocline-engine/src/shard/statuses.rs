//! Statuses of the pages of a range, in steps of the order of the pages that are held there.

use std::ops::Range;

use smallvec::SmallVec;
use thermocline_core::Tier;

use super::{PageStatus, Shard};

impl Shard {
    /// Return the end of the part of a range whose [statuses](Self::statuses) are found by about `looks_max`
    /// look-ups.
    pub fn statuses_end(&self, pages: Range<u64>, looks_max: u64) -> u64 {
        if self.lists_places(&pages) {
            return pages.end;
        }
        self.places.end_of(pages, looks_max)
    }

    /// Return the statuses of a range in runs, in order. Neighbouring runs may have the same status.
    pub fn statuses(
        &self,
        pages: Range<u64>,
    ) -> impl Iterator<Item = (Range<u64>, PageStatus)> + '_ {
        let Range { start: mut at, end } = pages;
        let held = self.held_pages(pages).map(Some).chain([None]);
        held.flat_map(move |held| {
            let gap = at..held.unwrap_or(end);
            at = held.map_or(end, |page| page + 1);
            let own = held.map(|page| (page..page + 1, self.page_status(page)));
            self.gap_statuses(gap).into_iter().chain(own)
        })
    }

    /// Return the statuses of neighbours that no tier holds: those in blank ranges are newer than the disk.
    fn gap_statuses(&self, gap: Range<u64>) -> SmallVec<[(Range<u64>, PageStatus); 1]> {
        let of = |is_dirty| PageStatus { tier: Tier::DISK, is_dirty, is_lost: false };
        let Range { start: mut at, end } = gap;
        let mut runs = SmallVec::new();
        for covered in self.blanks.covered(&gap) {
            if at < covered.start {
                runs.push((at..covered.start, of(false)));
            }
            at = covered.end;
            runs.push((covered, of(true)));
        }
        if at < end {
            runs.push((at..end, of(false)));
        }
        runs
    }
}
