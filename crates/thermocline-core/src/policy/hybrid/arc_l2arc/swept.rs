//! The L2ARC of 2026: a device that is cleared ahead of what is written, markers that remember how far
//! the lists were scanned, and a budget of device writes per day.
//!
//! * Source: `OpenZFS` 2.4.99, `module/zfs/arc.c` (changes d1f290f1, pull request 18093, 62ca8f72), by a
//!   description of their rules, and `zfs(4)`.
//! * State: 8 bytes per page of flash and 4 per page that exists (10 and none where memory is saved); with
//!   markers 20 bytes per page of memory besides.
//! * Cost: O(1) per access; a feed passes at most its headroom in each of two lists.
//! * Deviations: those of the module above.

use core::ops::ControlFlow;

use crate::action::Sink;
use crate::config::Values;
use crate::policy::single::arc::Arc;
use crate::queue::{Frames, Lists, PageSet, Slots};
use crate::{Ids, PageId, Tier};

/// The lists of ARC in the order in which they are scanned: T2, then T1.
const FREQUENT: u32 = 0;
const RECENT: u32 = 1;

/// Maximum that may be written to a device in a burst, in bytes.
const BURST_BYTES: u64 = 64 << 20;
/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// The pages on flash, and how they get there.
#[derive(Debug)]
pub(super) struct Swept {
    /// The page of each slot of the device.
    slots: Frames,
    slots_max: u32,
    hand: u32,
    /// `true` if the hand has passed the whole device once.
    has_swept_once: bool,
    /// `None` if the device is too small for them.
    markers: Option<Markers>,
    budget: Option<Budget>,
    write_max: u32,
    /// Pages that are scanned per page that may be written, in percent.
    headroom_percent: u64,
}

/// The pages of memory in the order of ARC's lists, and how far each list was scanned.
#[derive(Debug)]
struct Markers {
    pages: Slots,
    /// The pages, and behind them the marker of each list; the oldest in front.
    order: Lists,
    /// Per list: pages scanned since its marker was at the tail.
    scanned: [u64; 2],
    /// The percentage of its list after which a marker returns to the tail; 0: never.
    depth_percent: u64,
    /// The number of pages written after which all markers return.
    reset_pages: u64,
    written: u64,
}

/// Bytes that may be written in a day.
#[derive(Clone, Debug)]
struct Budget {
    pages_per_day: u64,
    burst: u64,
    feeds_per_day: u64,
    /// Feeds of this day.
    feeds: u64,
    /// Pages written this day.
    written: u64,
    /// Bytes that the day before left over.
    left_over: u64,
}

/// Pages that a feed writes, and the budget that is left to it.
struct Feed<'a> {
    slots: &'a mut Frames,
    hand: &'a mut u32,
    dirty: &'a PageSet,
    headroom: u64,
    left: u32,
}

impl Swept {
    /// Create a device and a memory above it, both sized in pages; a feed stands for `feed_ms`.
    pub(super) fn new(
        ids: Ids,
        [memory_pages, flash_pages]: [u32; 2],
        feed_ms: u64,
        headroom: u32,
        values: &Values,
    ) -> Self {
        // OpenZFS keeps markers only for a device of at least twice the memory.
        let has_markers = u64::from(flash_pages) >= 2 * u64::from(memory_pages);
        let flash = u64::from(flash_pages);
        let budget = Budget {
            pages_per_day: flash * values.integer("dwpd_limit") / 100,
            burst: BURST_BYTES / values.integer("page_bytes"),
            feeds_per_day: (DAY_MS / feed_ms.max(1)).max(1),
            feeds: 0,
            written: 0,
            left_over: 0,
        };
        let markers = || Markers {
            order: {
                let pages = memory_pages.saturating_add(1).min(ids.pages);
                let mut order = Lists::new(pages + 2, 2);
                for list in [FREQUENT, RECENT] {
                    order.push_back(list, pages + list);
                }
                order
            },
            pages: Slots::new(ids, memory_pages.saturating_add(1)),
            scanned: [0; 2],
            depth_percent: values.integer("ext_headroom_pct"),
            reset_pages: flash.div_ceil(values.integer("marker_reset")),
            written: 0,
        };
        // A device may have more slots than there are pages.
        let slot_ids = Ids { pages: ids.pages.max(flash_pages), ..ids };
        Self {
            slots: Frames::new(slot_ids, flash_pages),
            slots_max: flash_pages,
            hand: 0,
            has_swept_once: false,
            markers: has_markers.then(markers),
            budget: (values.integer("dwpd_limit") > 0 && has_markers).then_some(budget),
            write_max: values.integer_u32("write_max"),
            headroom_percent: u64::from(headroom) * values.integer("headroom_boost"),
        }
    }

    pub(super) fn contains(&self, page: PageId) -> bool {
        self.slots_max > 0 && self.slots.find(page).is_some()
    }

    /// Gives up a page, and returns `true` if it was there.
    pub(super) fn remove(&mut self, page: PageId) -> bool {
        self.slots_max > 0 && self.slots.take(page).is_some()
    }

    pub(super) fn len(&self) -> u32 {
        let held = (0..self.slots.count()).filter(|&slot| self.slots.page(slot).is_some());
        u32::try_from(held.count()).expect("slots have 32 bits")
    }

    /// Notes that ARC has a page in its place of a list, and that it has given up another.
    pub(super) fn referred(&mut self, page: PageId, evicted: Option<PageId>, arc: &Arc) {
        if let Some(markers) = &mut self.markers {
            markers.referred(page, evicted, arc);
        }
    }

    /// Copies pages to flash, and returns their number. Before ARC first evicts, the newest come
    /// first, if there are no markers.
    pub(super) fn feed(
        &mut self,
        arc: &Arc,
        dirty: &PageSet,
        is_warm: bool,
        out: &mut impl Sink,
    ) -> u32 {
        // The first round writes an empty device, which the budget does not limit.
        let is_limited = self.has_swept_once;
        let allowed = self.budget.as_mut().map(Budget::next_feed);
        let size = match allowed {
            Some(allowed) if is_limited => u64::from(self.write_max).min(allowed),
            _ => u64::from(self.write_max),
        };
        // At most a quarter of the device in one feed, or clearing ahead would empty most of a
        // small one.
        let size = u32::try_from(size.min(u64::from(self.slots_max / 4).max(1)));
        let size = size.expect("it is at most what a feed writes").min(self.slots_max);
        self.clear_ahead(size, out);
        let mut feed = Feed {
            slots: &mut self.slots,
            hand: &mut self.hand,
            dirty,
            headroom: u64::from(size) * self.headroom_percent / 100,
            left: size,
        };
        match &mut self.markers {
            Some(markers) => markers.feed(&mut feed, out),
            None if is_warm => feed.scan_lists(arc.coldest(), out),
            None => feed.scan_lists(arc.hottest(), out),
        }
        let written = size - feed.left;
        if let Some(budget) = &mut self.budget {
            budget.written += u64::from(written);
        }
        if let Some(markers) = &mut self.markers {
            markers.written += u64::from(written);
        }
        written
    }

    /// Make room at the hand for `size` pages; the end of the device is skipped if it is too short.
    fn clear_ahead(&mut self, size: u32, out: &mut impl Sink) {
        // The feed of 2026 clears the device ahead of its hand, so that it writes in large pieces.
        if self.hand + size > self.slots_max {
            self.clear(self.hand, self.slots_max, out);
            (self.hand, self.has_swept_once) = (0, true);
        }
        if self.has_swept_once {
            self.clear(self.hand, self.hand + size, out);
        }
    }

    fn clear(&mut self, from: u32, to: u32, out: &mut impl Sink) {
        for slot in from..to.min(self.slots.count()) {
            if let Some(page) = self.slots.page(slot) {
                self.slots.take(page);
                out.drop_copy(page, Tier::FLASH);
            }
        }
    }

    /// Takes a page over that flash still holds, and returns one that has no room: itself.
    pub(super) fn restore(&mut self, page: PageId) -> Option<PageId> {
        if self.hand == self.slots_max {
            return Some(page);
        }
        self.slots.put(self.hand, page);
        self.hand += 1;
        None
    }

    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        self.slots.prefetch(page);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let markers = self.markers.as_ref();
        let markers_bytes = markers
            .map_or(0, |markers| markers.pages.memory_bytes() + markers.order.memory_bytes());
        self.slots.memory_bytes() + markers_bytes
    }

    pub(super) fn assert_invariants(&self, arc: &Arc) {
        self.slots.assert_invariants();
        assert!(self.hand <= self.slots_max, "the hand is on the device");
        if let Some(markers) = &self.markers {
            markers.pages.assert_invariants();
            markers.order.assert_invariants();
            for (list, pages) in [FREQUENT, RECENT].into_iter().zip(arc.coldest()) {
                let entries = markers.order.iter(list).filter(|&id| id != markers.marker(list));
                assert!(entries.map(|entry| markers.pages.page(entry)).eq(pages), "ARC's order");
            }
        }
    }
}

impl Markers {
    fn referred(&mut self, page: PageId, evicted: Option<PageId>, arc: &Arc) {
        if let Some(entry) = evicted.and_then(|evicted| self.pages.find(evicted)) {
            self.order.remove(entry);
            self.pages.leave(entry);
        }
        let entry = match self.pages.find(page) {
            Some(entry) => {
                self.order.remove(entry);
                entry
            }
            None => self.pages.enter(page),
        };
        self.order.push_back(if arc.is_frequent(page) { FREQUENT } else { RECENT }, entry);
    }

    fn marker(&self, list: u32) -> u32 {
        self.pages.count() + list
    }

    fn rewind(&mut self, list: u32) {
        self.order.move_to_front(self.marker(list));
        self.scanned[list as usize] = 0;
    }

    fn feed(&mut self, feed: &mut Feed<'_>, out: &mut impl Sink) {
        // After `reset_pages` writes the lists have changed, so the search restarts at their
        // evicting ends.
        if self.written >= self.reset_pages {
            self.written = 0;
            self.rewind(FREQUENT);
            self.rewind(RECENT);
        }
        for list in [FREQUENT, RECENT] {
            let flow = self.scan(list, feed, out);
            let length = u64::from(self.order.len(list) - 1);
            let depth = length * self.depth_percent / 100;
            if depth > 0 && self.scanned[list as usize] >= depth {
                self.rewind(list);
            }
            if flow.is_break() {
                break;
            }
        }
    }

    /// Goes on behind the marker; stops the feed when it has written all that it may.
    fn scan(&mut self, list: u32, feed: &mut Feed<'_>, out: &mut impl Sink) -> ControlFlow<()> {
        let marker = self.marker(list);
        for _ in 0..feed.headroom {
            let Some(entry) = self.order.after(marker) else { break };
            self.scanned[list as usize] += 1;
            feed.offer(self.pages.page(entry), out)?;
            self.order.remove(marker);
            self.order.insert_after(entry, marker);
        }
        ControlFlow::Continue(())
    }
}

impl Feed<'_> {
    /// Looks at the first pages of each list, T2 before T1.
    fn scan_lists(&mut self, lists: [impl Iterator<Item = PageId>; 2], out: &mut impl Sink) {
        let headroom = usize::try_from(self.headroom).unwrap_or(usize::MAX);
        for page in lists.into_iter().flat_map(|list| list.take(headroom)) {
            if self.offer(page, out).is_break() {
                break;
            }
        }
    }

    /// Writes a page if it is clean and not there; stops if the feed may write no more.
    fn offer(&mut self, page: PageId, out: &mut impl Sink) -> ControlFlow<()> {
        if self.dirty.contains(page) || self.slots.find(page).is_some() {
            return ControlFlow::Continue(());
        }
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        self.slots.put(*self.hand, page);
        *self.hand += 1;
        self.left -= 1;
        out.copy(page, Tier::RAM, Tier::FLASH);
        ControlFlow::Continue(())
    }
}

impl Budget {
    /// Return the number of pages the next feed may write.
    fn next_feed(&mut self) -> u64 {
        self.feeds += 1;
        if self.feeds == self.feeds_per_day {
            // A day's remainder is carried over to the next day only.
            self.left_over = self.pages_per_day.saturating_sub(self.written);
            (self.feeds, self.written) = (0, 0);
        }
        let most = self.pages_per_day + self.left_over + self.burst;
        most.saturating_sub(self.written) / (self.feeds_per_day - self.feeds)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Worked example: half of 8 pages in a day of 10 feeds.
    #[test]
    fn a_budget_is_spread_over_the_day() {
        let mut budget = Budget {
            pages_per_day: 4,
            burst: 0,
            feeds_per_day: 10,
            feeds: 0,
            written: 0,
            left_over: 0,
        };
        let sizes: Vec<u64> = (0..12)
            .map(|_| {
                let size = budget.next_feed().min(2);
                budget.written += size;
                size
            })
            .collect();
        assert_eq!(sizes, [0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0]);
    }
}
