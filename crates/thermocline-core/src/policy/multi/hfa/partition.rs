//! Periodic work: hints and hits expire, queues are resized and sorted.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 3.4,
//!   Algorithm 3.
//! * State: none of its own.
//! * Cost: amortised O(1) per access; O(n log n) per period if the queues are sorted again, O(n)
//!   per sample if pages are compared with the mean, and O(m log h) for an oracle with h hints, of
//!   which m count from a period on, or no longer.
//! * Deviations: (1) Section 3.4 calls a page cold if H = 0, and Eq. 3 never returns to 0 after a hit.
//!   The parameter `cold` has four readings; `papers/hfa/README.md` compares them. (2) Where the second queue borrows, nothing is moved to a first queue that grew: it may fill
//!   by itself.

use alloc::vec::Vec;

use super::queues::{Frame, Queue};
use super::settings::{Cold, Strategy};
use super::{ABSENT, Hfa};
use crate::action::Sink;

/// Number of hits ahead at which the frames of hits that expire are prefetched.
const AHEAD_HITS: usize = 12;
/// Number of recent hits, per frame, that are kept before outdated ones are removed. A few more are
/// kept, so that a small number of frames is not searched at each hit.
const RECENT_PER_FRAME: usize = 2;
const RECENT_MARGIN: usize = 64;

impl<const STRATEGY: u8> Hfa<STRATEGY> {
    /// Begins an access of a client: time passes.
    #[inline]
    pub(super) fn begin(&mut self, client: u8) {
        self.client = client;
        self.now += 1;
        self.has_promoted = false;
        // Before the access is served: its hints belong to the period that begins.
        if self.now == self.period_end {
            self.begin_period();
        }
    }

    /// Ends an access: counts, and at the end of a period resizes and sorts.
    #[inline]
    pub(super) fn end(&mut self, out: &mut impl Sink) {
        let (is_sample, is_period) = (self.now == self.next_sample, self.now == self.period_end);
        if !is_sample && !is_period {
            return;
        }
        if is_sample {
            self.next_sample = self.now.saturating_add(self.settings.sample_interval);
            self.expire_hits();
        }
        if is_period {
            self.period_end = self.now.saturating_add(self.settings.period);
        }
        // A tier is counted after those above it have moved their boundaries, as on two hosts: the pages that
        // leave a client for this come before the server's access ends.
        for level in 0..self.levels.len() {
            if is_sample {
                let hot_pages = self.hot_pages(level);
                self.levels[level].sample(self.queues.len(level, Queue::Q1), hot_pages);
            }
            if is_period {
                self.end_period(level, out);
            }
        }
    }

    /// Ends a period at a level.
    fn end_period(&mut self, level: usize, out: &mut impl Sink) {
        if self.is_top(level) {
            self.client = self.levels[level].tier.0;
        }
        if self.settings.resorts {
            self.resort(level);
            self.resorted = self.now;
        }
        if self.settings.is_dynamic {
            // Section 3.4: S is the mean number of cold pages in Q1 less that of hot pages in Q2, and
            // moves the boundary.
            self.levels[level].move_boundary();
            self.move_surplus(level);
            self.fit(level, out);
        }
    }

    /// Let time pass in which nothing happens here: accesses that others have seen.
    pub(super) fn pass_time(&mut self, accesses: u32, out: &mut impl Sink) {
        let mut left = u64::from(accesses);
        while left > 0 {
            self.close(out);
            // Only the ends of samples and of periods matter.
            let next = self.next_sample.min(self.period_end);
            let step = left.min(next.saturating_sub(self.now).max(1));
            self.now += step - 1;
            left -= step;
            self.open(self.client);
        }
    }

    /// Begins an access in a half. It ends [later](Self::close): messages that belong to it may follow.
    pub(super) fn open(&mut self, client: u8) {
        self.begin(client);
        self.is_open = true;
    }

    /// Ends the access that a half began last, if it has not ended.
    pub(super) fn close(&mut self, out: &mut impl Sink) {
        if core::mem::take(&mut self.is_open) {
            self.end(out);
        }
    }

    /// Notes a hit, the frame's last one.
    #[inline]
    pub(super) fn note_hit(&mut self, frame: u32) {
        if self.recent.len() >= RECENT_PER_FRAME * self.used_frames as usize + RECENT_MARGIN {
            self.recent.retain(|&(time, frame)| self.queues.frame(frame).last_hit == time);
        }
        self.recent.push_back((self.now, frame));
    }

    /// Return the number of hot pages of each queue of a level.
    fn hot_pages(&self, level: usize) -> [u32; 2] {
        if self.settings.cold != Cold::Mean {
            return [Queue::Q1, Queue::Q2].map(|queue| self.levels[level].hot_pages(queue));
        }
        let queues = [Queue::Q1, Queue::Q2].map(|queue| self.queues.frames(level, queue));
        let all = queues.iter().flatten().map(|&frame| self.hotness_of(frame));
        // The reading `mean`: a page is hot if it is hotter than the mean of its tier.
        let mean = all.sum::<f64>() / (queues[0].len() + queues[1].len()) as f64;
        queues.map(|frames| {
            let hot = frames.into_iter().filter(|&frame| self.hotness_of(frame) > mean);
            u32::try_from(hot.count()).expect("a queue has fewer pages than 2^32")
        })
    }

    /// Return the time of the first hit that makes a page hot.
    #[inline]
    fn first_hit_that_counts(&self) -> u64 {
        let period = self.settings.period;
        // Four readings of "cold": Eq. 3 alone would leave a page hot for ever after one hit, and
        // Q1 could never shrink to the shares of Fig. 8(b).
        let first = match self.settings.cold {
            Cold::Recent => self.now.saturating_sub(period),
            // The access at a multiple of T is the last one of its period.
            Cold::Period => (self.now - 1) / period * period + 1,
            Cold::Stay | Cold::Mean => 0,
        };
        first.max(1)
    }

    /// Finds the pages whose last hit no longer makes them hot.
    fn expire_hits(&mut self) {
        let first = self.first_hit_that_counts();
        while let Some(&(time, frame)) = self.recent.front()
            && time < first
        {
            self.recent.pop_front();
            if let Some(&(_, coming)) = self.recent.get(AHEAD_HITS) {
                self.queues.prefetch_frame(coming);
            }
            if self.queues.frame(frame).last_hit == time {
                let (level, _) = self.queues.place_of(frame).expect("a page that was hit is there");
                self.review(level, frame);
            }
        }
    }

    /// Return `true` if the last hit of a page makes it hot.
    #[inline]
    pub(super) fn is_recent(&self, entry: &Frame) -> bool {
        entry.last_hit >= self.first_hit_that_counts()
    }

    fn begin_period(&mut self) {
        self.period += 1;
        if self.future.is_some() {
            self.review_foretold();
            return;
        }
        let mut expired = core::mem::take(&mut self.expired);
        for level in 0..self.levels.len() {
            expired.clear();
            self.levels[level].hints.begin_period(self.period, |frame| expired.push(frame));
            for &frame in &expired {
                self.review(level, frame);
            }
        }
        self.expired = expired;
    }

    /// Look at the pages whose hints count from this period on, or no longer, for an oracle.
    fn review_foretold(&mut self) {
        let foretold = core::mem::take(&mut self.foretold);
        let newest = (self.period + u64::from(self.settings.k)).saturating_sub(1);
        // Only hints of these two periods start or cease to count, so no other page changes.
        for period in [self.period - 1, newest] {
            let first = foretold.partition_point(|&(other, ..)| other < period);
            let of_period = foretold[first..].iter().take_while(|(other, ..)| *other == period);
            for &(_, tier, page) in of_period {
                let Some(level) = self.levels.iter().position(|level| level.tier == tier) else {
                    continue;
                };
                let frame = self.frame_at(level, page);
                if frame != ABSENT
                    && self.queues.place_of(frame).is_some_and(|place| place.0 == level)
                {
                    self.review(level, frame);
                }
            }
        }
        self.foretold = foretold;
    }

    /// Moves pages between the queues of a level until both keep to their sizes, if they must.
    fn move_surplus(&mut self, level: usize) {
        let q1_capacity_pages = self.levels[level].q1_capacity_pages;
        // Section 3.4: the surplus goes to Q2 from the tail of Q1.
        while self.queues.len(level, Queue::Q1) > q1_capacity_pages {
            let tail = self.queues.back_of_q1(level).expect("it has too many pages");
            self.take(tail);
            self.put((level, Queue::Q2), tail);
        }
        let room = q1_capacity_pages - self.queues.len(level, Queue::Q1);
        let q2_capacity_pages = self.levels[level].q2_capacity_pages();
        let surplus = self.queues.len(level, Queue::Q2).saturating_sub(q2_capacity_pages);
        // Deviation (2): a second queue that borrows keeps its surplus until the first one needs
        // the room.
        let moved = if self.settings.is_strict { surplus.min(room) } else { 0 };
        if moved == 0 {
            return;
        }
        // Section 3.4 says "vice versa" without a rule for pages; here the hottest of Q2 go.
        let frames = self.sorted_by_hotness(self.queues.frames(level, Queue::Q2));
        for frame in frames.into_iter().take(moved as usize) {
            if Self::STRATEGY == Strategy::Demote {
                self.take(frame);
                self.queues.push_to_tail_of_q1(level, frame);
                self.set_frame_at(level, self.queues.frame(frame).page, frame);
                if self.queues.frame(frame).is_hot {
                    self.levels[level].add_hot(Queue::Q1, 1);
                }
            } else {
                self.take(frame);
                self.put((level, Queue::Q1), frame);
            }
        }
    }

    /// Recompute the hotness of every page of a level, and sort the queue that is ordered by it.
    fn resort(&mut self, level: usize) {
        for queue in [Queue::Q1, Queue::Q2] {
            let frames = self.queues.frames(level, queue);
            let is_sorted = match Self::STRATEGY {
                Strategy::Demote => queue == Queue::Q2 && self.settings.sorts_q2,
                Strategy::Promote | Strategy::Hint => queue == Queue::Q1,
            };
            for &frame in &frames {
                let page = self.queues.frame(frame).page;
                let frequency = self.look_up(level, page).0;
                if is_sorted {
                    self.take(frame);
                }
                self.queues.frame_mut(frame).frequency = frequency;
                self.queues.frame_mut(frame).hotness = self.hotness_of(frame);
            }
            if is_sorted {
                // Coldest first: `put` places a page ahead of those that are not hotter, so equals
                // end in their former order.
                for frame in self.sorted_by_hotness(frames).into_iter().rev() {
                    self.put((level, queue), frame);
                }
            }
        }
    }

    /// Return the hottest first; those that are equally hot keep their order.
    fn sorted_by_hotness(&self, mut frames: Vec<u32>) -> Vec<u32> {
        let hotness_of = |frame: u32| self.queues.frame(frame).hotness;
        frames.sort_by(|&one, &other| hotness_of(other).total_cmp(&hotness_of(one)));
        frames
    }
}
