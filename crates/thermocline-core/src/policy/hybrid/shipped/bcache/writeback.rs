//! Write-back of bcache: time and order in which it writes dirty pages to disk.
//!
//! * Source: Linux, `drivers/md/bcache/writeback.c`, by a description of its rules.
//! * State: 24 to 40 bytes per dirty page.
//! * Cost: O(log) per page.
//! * Deviations: (1) `control=limit` writes back as soon as there is more dirty than the target,
//!   which the kernel's controller reaches after a while. (2) `control=pi` leaves out that the
//!   kernel writes back at full speed once the device has been idle for 30 s.

use alloc::collections::BTreeMap;

use super::buckets::Usage;
use crate::policy::hybrid::shipped::time::{SECOND, after};
use crate::{Nanos, PageId};

/// Sectors of a page.
pub(super) const SECTORS: u64 = 8;
/// Seconds between two updates of the rate.
const UPDATE_S: i64 = 5;
/// Divisor of the proportional term: of the error in the share of dirty pages.
const PROPORTIONAL: i64 = 40;
/// Divisor of the integral term: of the sum of errors.
const INTEGRAL: i64 = 10_000;
/// Sectors per second that are written back until the rate is updated for the first time, as the file
/// `writeback_rate` of a new device says.
const RATE_FIRST: i64 = 1024;
/// Sectors per second that are written back at least.
const RATE_MIN: i64 = 8;
/// Steps of the term for fragmentation: each counts the percent of the buckets in use beyond the first
/// number, and multiplies by the second.
const FRAGMENTATION: [(u32, i64); 3] = [(50, 1), (57, 10), (64, 1000)];
/// Dirty data is scattered if the buckets in use hold more than this many times as much, rounded down.
const SCATTERED: i64 = 3;
/// About what a dirty page takes in an ordered map.
const ENTRY_BYTES: usize = 24;

/// The dirty pages, and how fast they are written back.
#[derive(Clone, Debug)]
pub(super) struct Writeback {
    /// Dirty pages by page number.
    dirty: BTreeMap<u64, PageId>,
    /// Page number at which the search for the next page starts.
    position: u64,
    target_pages: u64,
    control: Control,
}

#[derive(Clone, Debug)]
enum Control {
    Limit,
    Rate(Rate),
}

/// A controller by the error and the sum of errors.
#[derive(Clone, Debug)]
struct Rate {
    integral: i64,
    sectors_per_s: i64,
    /// Time at which the rate is computed next.
    next: Option<Nanos>,
    last: Nanos,
    /// Credit for writes, in sectors times nanoseconds per second.
    credit: u128,
}

impl Writeback {
    pub(super) fn new(target_pages: u64, is_by_rate: bool) -> Self {
        let rate =
            Rate { integral: 0, sectors_per_s: RATE_FIRST, next: None, last: Nanos(0), credit: 0 };
        let control =
            if is_by_rate && target_pages > 0 { Control::Rate(rate) } else { Control::Limit };
        Self { dirty: BTreeMap::new(), position: 0, target_pages, control }
    }

    pub(super) fn insert(&mut self, number: u64, page: PageId) {
        self.dirty.insert(number, page);
    }

    /// Notes that a page is not dirty, or not any more.
    pub(super) fn remove(&mut self, number: u64) {
        self.dirty.remove(&number);
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.dirty.contains_key(&number)
    }

    pub(super) fn len(&self) -> usize {
        self.dirty.len()
    }

    /// Return `true` if the limit holds, if it must.
    pub(super) fn is_within_limit(&self) -> bool {
        matches!(self.control, Control::Rate(_)) || self.dirty.len() as u64 <= self.target_pages
    }

    /// Takes the page out that is written back now, if one is.
    ///
    /// `usage` says how many buckets are in use.
    pub(super) fn next_due(&mut self, now: Nanos, usage: impl FnOnce() -> Usage) -> Option<PageId> {
        let dirty_pages = self.dirty.len() as u64;
        let is_due = match &mut self.control {
            Control::Limit => dirty_pages > self.target_pages,
            Control::Rate(rate) => rate.is_due(dirty_pages, self.target_pages, now, usage),
        };
        if is_due { self.next() } else { None }
    }

    /// Takes the next dirty page out, in the order of addresses, round and round.
    pub(super) fn next(&mut self) -> Option<PageId> {
        let next =
            self.dirty.range(self.position..).next().or_else(|| self.dirty.first_key_value());
        let (number, page) = next.map(|(&number, &page)| (number, page))?;
        self.dirty.remove(&number);
        // On from there, also where new pages came behind it: an elevator, which a disk follows
        // with short seeks.
        self.position = number.wrapping_add(1);
        Some(page)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.dirty.len() * ENTRY_BYTES
    }
}

impl Rate {
    /// Return `true` if the rate allows a page to be written.
    fn is_due(
        &mut self,
        dirty_pages: u64,
        target_pages: u64,
        now: Nanos,
        usage: impl FnOnce() -> Usage,
    ) -> bool {
        let update_s = UPDATE_S.unsigned_abs();
        let next = *self.next.get_or_insert(after(now, update_s));
        let passed_ns = now.0.saturating_sub(self.last.0);
        self.last = now;
        // The credit is in sectors times nanoseconds, so no fraction is lost between requests.
        self.credit += u128::from(passed_ns) * u128::from(self.sectors_per_s.unsigned_abs());
        if now >= next {
            self.update(sectors(dirty_pages), sectors(target_pages), usage());
            self.next = Some(after(now, update_s));
        }
        // Idle time earns no burst.
        if dirty_pages == 0 {
            self.credit = 0;
            return false;
        }
        let price = u128::from(SECTORS) * u128::from(SECOND);
        let is_due = self.credit >= price;
        if is_due {
            self.credit -= price;
        }
        is_due
    }

    fn update(&mut self, dirty: i64, target: i64, usage: Usage) {
        let error = dirty - target;
        // The integral grows with an excess of dirty pages and falls with a lack, but not below 0.
        if error > 0 || error < 0 && self.integral > 0 {
            self.integral = self.integral.saturating_add(error * UPDATE_S);
        }
        // Scattered dirty data makes buckets unusable, so write-back is sped up where few buckets
        // are free.
        let proportional = (error / PROPORTIONAL).max(fragmentation(dirty, usage));
        self.sectors_per_s = proportional.saturating_add(self.integral / INTEGRAL).max(RATE_MIN);
    }
}

/// Return the least proportional part, if `dirty` sectors are scattered over many buckets: the data
/// of one bucket is soon written, and then the bucket can be used again.
fn fragmentation(dirty: i64, usage: Usage) -> i64 {
    let Usage { percent, buckets, bucket_sectors } = usage;
    let is_scattered = dirty > 0 && buckets * bucket_sectors / dirty > SCATTERED;
    let step = FRAGMENTATION.iter().rfind(|&&(base, _)| percent > base);
    match step {
        Some(&(base, factor)) if is_scattered => {
            dirty / buckets * factor * i64::from(percent - base)
        }
        Some(_) | None => i64::MIN,
    }
}

fn sectors(pages: u64) -> i64 {
    i64::try_from(pages * SECTORS).expect("sectors can be counted")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(sectors_per_s: i64) -> Rate {
        Rate { integral: 0, sectors_per_s, next: None, last: Nanos(0), credit: 0 }
    }

    /// Describe a cache in which `percent` of 1000 buckets of 16 pages are in use.
    fn usage(percent: u32) -> Usage {
        Usage { percent, buckets: i64::from(percent) * 10, bucket_sectors: 128 }
    }

    /// Worked example: 480 of 800 pages are dirty, 80 should be.
    #[test]
    fn the_rate_follows_the_error() {
        let mut rate = rate(RATE_MIN);
        rate.update(sectors(480), sectors(80), usage(40));
        assert_eq!((rate.integral, rate.sectors_per_s), (16_000, 81));
        rate.update(0, sectors(80), usage(40));
        assert_eq!((rate.integral, rate.sectors_per_s), (12_800, RATE_MIN));
    }

    /// Ten sectors of each bucket in use are dirty, less than they should be.
    #[test]
    fn scattered_dirty_data_is_written_back_faster_the_more_buckets_are_in_use() {
        let sectors_per_s = |percent: u32, dirty_per_bucket: i64| {
            let mut rate = rate(RATE_MIN);
            rate.update(i64::from(percent) * 10 * dirty_per_bucket, 100_000, usage(percent));
            rate.sectors_per_s
        };
        let rates = [50, 51, 57, 58, 64, 65, 100].map(|percent| sectors_per_s(percent, 10));
        assert_eq!(rates, [8, 10, 70, 100, 700, 10_000, 360_000]);
        assert_eq!(
            [32, 33].map(|sectors| sectors_per_s(60, sectors)),
            [960, 8],
            "a quarter is dirty"
        );
        assert_eq!(sectors_per_s(60, 0), 8, "nothing is dirty");
    }

    /// The sum of errors alone would be 1500 sectors, and the error takes 1000 from it.
    #[test]
    fn scattered_dirty_data_makes_no_difference_while_half_of_the_buckets_are_free() {
        let sectors_per_s = |percent: u32| {
            let mut rate = rate(RATE_MIN);
            rate.integral = 15_200_000;
            rate.update(i64::from(percent) * 10, 40_000 + i64::from(percent) * 10, usage(percent));
            rate.sectors_per_s
        };
        assert_eq!([40, 50, 51].map(sectors_per_s), [500, 500, 1501]);
    }

    #[test]
    fn a_greater_error_counts_more_than_fragmentation() {
        let mut rate = rate(RATE_MIN);
        rate.update(5100, 0, usage(51));
        assert_eq!(rate.sectors_per_s, 5100 / 40 + 5100 * 5 / 10_000);
    }

    /// 1024 sectors per second are 128 pages; after five seconds with few dirty pages it is one.
    #[test]
    fn a_new_device_is_written_back_fast_until_the_first_update() {
        let mut rate = rate(RATE_FIRST);
        let mut written = |second: u64| {
            let now = Nanos(second * SECOND);
            (0..1000).take_while(|_| rate.is_due(1, 80, now, || usage(0))).count()
        };
        assert_eq!([1, 2, 6, 7].map(&mut written), [128, 128, 512, 1]);
    }

    #[test]
    fn a_rate_of_eight_sectors_writes_a_page_each_second() {
        let mut rate = rate(RATE_MIN);
        let due =
            |rate: &mut Rate, second: u64| rate.is_due(1, 80, Nanos(second * SECOND), || usage(0));
        assert_eq!([1, 1, 2, 2].map(|second| due(&mut rate, second)), [true, false, true, false]);
        assert!(!rate.is_due(0, 80, Nanos(4 * SECOND), || usage(0)), "nothing is dirty");
        assert!(!due(&mut rate, 4), "no credit is kept");
    }
}
